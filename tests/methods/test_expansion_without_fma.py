"""Dekker's split and product: exact for all pairs of FP8 that do not overflow; quotients of expansions."""

from fractions import Fraction

import numpy as np
import pytest

import lowprec as lp
from lowprec.methods.expansion import Expansion, divide, halves, split, two_prod

#: Kernels of many types, which take long to compile.
pytestmark = pytest.mark.apart

FP8 = {"e4m3fn": 27_052, "e5m2": 36_448}


def finite_values(fmt):
    values = lp.decode(np.arange(256, dtype=np.uint8), fmt)
    return np.unique(values[np.isfinite(values)]).astype(np.float32)


@pytest.mark.parametrize("name", FP8)
def test_without_fma_products_and_errors_are_those_of_fma(name):
    """Over all pairs whose exponents add up to enough: exact, or not finite, which overflow alone makes."""
    fmt, values = lp.format(name), finite_values(name)
    x, y = (each.ravel() for each in np.meshgrid(values, values))
    product, error = two_prod(x, y, fmt, fma=False)
    enough = np.frexp(x)[1] + np.frexp(y)[1] - 2 >= fmt.emin + fmt.precision - 1
    enough &= np.isfinite(product) & (x != 0) & (y != 0)
    done = enough & np.isfinite(error)
    assert done.sum() == FP8[name]
    assert np.array_equal((np.float64(product) + error)[done], (np.float64(x) * y)[done])
    biggest = np.maximum(abs(x), abs(y))
    bound = 2.0 ** (-(-fmt.precision // 2)) + 1
    assert (np.isfinite(error) | (biggest * bound > fmt.max_finite / 2) | (abs(x * y) * 2 > fmt.max_finite))[
        enough
    ].all()


@pytest.mark.parametrize("name", ["e4m3fn", "e5m2", "bfloat16", "binary16", "binary32"])
def test_halves_have_half_of_the_bits(name):
    fmt = lp.format(name)
    x = np.float32(lp.quantize(np.random.default_rng(1).standard_normal(2000), fmt))
    high, low = halves(x, fmt, check=True)
    assert np.array_equal(np.float64(high) + low, np.float64(x))
    s = -(-fmt.precision // 2)
    for part, bits in ((high, fmt.precision - s), (low, s - 1)):
        odd = [abs(Fraction(float(v))) for v in part if v]
        assert all((v.numerator // (v.numerator & -v.numerator)).bit_length() <= bits for v in odd)


def test_wide_formats_without_fma():
    x, y = np.random.default_rng(2).standard_normal((2, 4000))
    for name in ("bfloat16", "binary32"):
        a, b = (np.float32(lp.quantize(each, name)) for each in (x, y))
        pairs = two_prod(a, b, name), two_prod(a, b, name, fma=False, check=True)
        assert all(map(np.array_equal, *pairs))


def test_what_overflows_is_named():
    with pytest.raises(ValueError, match="halves in 'e4m3fn' needs finite operands and results"):
        halves(448.0, "e4m3fn", check=True)
    with pytest.raises(ValueError, match="two_prod in 'e4m3fn' needs finite operands and results"):
        two_prod(448.0, 1.0, "e4m3fn", fma=False, check=True)
    for call in (
        lambda: halves(6.0, "e2m1fn", check=True),
        lambda: two_prod(6.0, 1.0, "e2m1fn", fma=False, check=True),
    ):
        with pytest.raises(ValueError, match="in 'e2m1fn' needs results that do not overflow"):
            call()


@pytest.mark.parametrize(
    ("name", "parts"), [("bfloat16", 2), ("bfloat16", 3), ("binary16", 2), ("binary32", 2)]
)
def test_quotients_are_as_accurate_as_their_parts(name, parts):
    """In fractions: a relative error below 2**-precision for each part; and parts do not overlap."""
    x, y = (np.sign(v) * (1 + abs(v)) for v in np.random.default_rng(0).standard_normal((2, 2000)))
    a, b = split(x, parts, name), split(y, parts, name)
    quotient = divide(a, b)
    totals = [
        [sum(Fraction(float(part[i])) for part in each.parts) for i in range(2000)]
        for each in (a, b, quotient)
    ]
    errors = [abs(q / (n / d) - 1) for n, d, q in zip(*totals, strict=True)]
    assert float(max(errors)) < 2.0 ** -(parts * lp.format(name).precision)
    assert np.array_equal(lp.add(quotient.parts[0], quotient.parts[1], name), quotient.parts[0])


def test_one_part_is_a_division():
    x, y = (
        np.float32(lp.quantize(v, "bfloat16")) for v in np.random.default_rng(5).standard_normal((2, 500))
    )
    quotient = divide(Expansion((x,), "bfloat16"), Expansion((y,), "bfloat16"))
    assert np.array_equal(quotient.parts[0], lp.divide(x, y, "bfloat16"))


def test_special_quotients():
    x, y = [1.0, -1.0, 0.0, np.inf, 1.0, np.nan], [0.0, 0.0, 0.0, 2.0, np.inf, 1.0]
    first, second = divide(split(x, 2, "bfloat16"), split(y, 2, "bfloat16")).parts
    assert np.array_equal(first, np.float32([np.inf, -np.inf, np.nan, np.inf, 0, np.nan]), equal_nan=True)
    assert not second.any()
