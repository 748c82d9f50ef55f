"""The rules, against fractions: what a result's scale is, and that its data are the exact result over it.

Law: the data of a result are the exact result, divided by the scale, projected once onto the format.
"""

import itertools
import math
import re
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

import lowprec as lp
from lowprec.methods import scale_propagation as sp
from lowprec.methods.scale_propagation import ScaledArray
from lowprec.oracle.arith import operate
from lowprec.oracle.convert import decode, project
from lowprec.oracle.exact import Special, from_float, to_float
from lowprec.spec import catalog
from lowprec.spec.projection import Projection
from tests.support import most_apart

#: Kernels of many types, which take long to compile.
pytestmark = pytest.mark.apart

FORMATS = ("e4m3fn", "e5m2", "e3m2fn", "e4m3fnuz", "binary16", "bfloat16", "binary32", "binary8p3se", "int8")
RNG = np.random.default_rng(0)
LIMITED = Projection(saturation="finite", nan="max")  # so that formats without NaN take part


def sample(name, size=24, *, scale=None, positive=False):
    """Finite values of a format, zeros and subnormals among them, at a random power of two."""
    fmt = lp.format(name)
    codes = RNG.integers(0, 1 << fmt.width, 20 * size, dtype=np.uint64).astype(f"u{fmt.code_bits // 8}")
    values = lp.decode(codes, fmt)
    if fmt.width > 8:  # most codes of wide formats are far apart
        values = np.where(
            np.arange(values.size) % 2, values, lp.quantize(RNG.standard_normal(values.size), fmt)
        )
    values = values[np.isfinite(values) & ((values > 0) | (not positive))][:size]
    scale = 2.0 ** int(RNG.integers(-12, 13)) if scale is None else scale
    return ScaledArray(values, scale, fmt)


def exact(x):
    """The values, as fractions."""
    numbers = (from_float(value) for value in x.data.astype(np.float64).reshape(-1).tolist())
    return [(Fraction(0) if n is Special.NEGATIVE_ZERO else n) * Fraction(float(x.scale)) for n in numbers]


def assert_law(result, fractions, projection=LIMITED):
    """Data are the fractions over the scale, projected once; the sign of zero is not asked."""
    want = [
        project(number / Fraction(float(result.scale)), result.format, projection) for number in fractions
    ]
    values = np.array([to_float(decode(code, result.format)) for code in want])
    got = result.data.astype(np.float64).reshape(-1)
    wrong = ~((got == values) | (np.isnan(got) & np.isnan(values)))
    assert not wrong.any(), (
        f"{wrong.sum()} of {got.size} differ, first got {got[wrong][0]}, want {values[wrong][0]}, scale "
        f"{result.scale}"
    )


# -- operations on elements -------------------------------------------------------------------------

PAIRS = [
    *((name, name) for name in FORMATS),
    ("e4m3fn", "e5m2"),
    ("binary16", "bfloat16"),
    ("e3m2fn", "e4m3fn"),
]
BINARY = {
    np.add: lambda x, y: x + y,
    np.subtract: lambda x, y: x - y,
    np.multiply: lambda x, y: x * y,
    np.divide: lambda x, y: x / y,
    np.maximum: max,
    np.minimum: min,
}


#: A difference is a sum, and a minimum a maximum: they are tried on fewer.
ON_TWO = [
    pytest.param(function, names, id=f"{function.__name__}-{'-'.join(names)}")
    for function in BINARY
    for names in (PAIRS if function in (np.add, np.multiply, np.divide, np.maximum) else PAIRS[::4])
]


@pytest.mark.apart
@pytest.mark.parametrize(("function", "names"), ON_TWO)
def test_operations_on_two_are_exact_over_the_scale_and_rounded_once(function, names):
    """Twice, at random scales; one operand is also a column, which broadcasts."""
    with sp.config(projection=LIMITED):
        for _ in range(2):
            x, y = sample(names[0]), sample(names[1])
            if function is np.divide:
                y = ScaledArray(np.where(y.data == 0, y.data.dtype.type(1), y.data), y.scale, y.format)
            assert_law(function(x, y), map(BINARY[function], exact(x), exact(y)))
            again = function(x[:4], y[:2].reshape(2, 1))
            assert again.shape == (2, 4)
            assert_law(
                again, [BINARY[function](a, b) for b, a in itertools.product(exact(y[:2]), exact(x[:4]))]
            )


@pytest.mark.parametrize("name", most_apart(FORMATS, ["e4m3fn", "bfloat16", "binary32"]))
def test_scales_of_operations_on_two(name):
    """Of the scales of the operands alone."""
    x, y = sample(name, scale=8.0), sample(name, scale=2.0, positive=True)
    with sp.config(projection=LIMITED):
        assert ((x + y).scale, (x - y).scale, (x * y).scale, (x / y).scale) == (8, 8, 16, 4)
        assert (np.maximum(x, y).scale, np.minimum(y, x).scale) == (8, 8)
        assert np.concatenate([y, x]).scale == np.where(y > 0, y, x).scale == np.stack([y, x]).scale == 8
    with sp.config(projection=LIMITED, scale_rounding="up"):
        assert ((x + y).scale, (y + y).scale) == (16, 4)


UNARY = {
    np.negative: lambda x: -x,
    np.absolute: abs,
    np.square: lambda x: x * x,
    np.sign: lambda x: Fraction((x > 0) - (x < 0)),
}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("function", UNARY, ids=lambda function: function.__name__)
def test_operations_on_one_are_exact_over_the_scale_and_rounded_once(function, name):
    """The most negative integer has no opposite, and saturates."""
    with sp.config(projection=LIMITED):
        x = sample(name)
        result = function(x)
        assert_law(result, map(UNARY[function], exact(x)))
        assert result.scale == {np.square: x.scale**2, np.sign: 1}.get(function, x.scale)


@pytest.mark.parametrize("exponent", [-3, 4, 5])
def test_roots_have_the_root_of_the_scale(exponent):
    """If its exponent is even; else the scale is no power of two, and data make up for its rounding."""
    for name in ("binary16", "binary32", "e4m3fn", "e5m2"):
        x = sample(name, scale=2.0**exponent, positive=True)
        result = np.sqrt(x)
        assert result.scale == np.float32(2.0 ** (exponent / 2))
        want = np.sqrt(x.to_array())
        if exponent % 2:
            ulp = lp.ulp(result.data, name) * float(result.scale)
            assert (abs(result.to_array() - want) <= 0.51 * ulp + want * 2.0**-23).all()
        else:
            codes = [operate("sqrt", (code,), (x.format,), x.format)[0] for code in x.codes.tolist()]
            assert result.codes.tolist() == codes


@pytest.mark.parametrize("power", [-2, -1, 0, 1, 2, 3, 7])
def test_integer_powers_have_the_power_of_the_scale(power):
    """Data of few bits: the power is exact in float64."""
    x = sample("e4m3fn", scale=0.5, positive=True)
    result = x**power
    assert result.scale == 0.5**power
    assert_law(result, [number**power for number in exact(x)], Projection())
    assert (x ** float(power)).data.tobytes() == result.data.tobytes()


def test_other_powers_have_scale_1():
    """By values, as exp."""
    x = sample("binary16", scale=4.0, positive=True)
    for result in (x**0.5, np.power(x, x * 0 + 0.5)):
        assert result.scale == 1
        np.testing.assert_array_equal(result.data, np.sqrt(x.to_array()).astype(np.float16))
    assert (2.0 ** ScaledArray(np.float32([1, 2]), 2.0)).to_array().tolist() == [4, 16]
    assert (1 / ScaledArray(np.float32([1, 2]), 2.0)).scale == 0.5
    assert np.reciprocal(ScaledArray(np.float32([1, 2]), 2.0)).to_array().tolist() == [0.5, 0.25]


@pytest.mark.parametrize(
    "function",
    [np.exp, np.log, np.sin, np.cos, np.tanh, np.expm1, np.log1p, np.cbrt, np.floor, np.rint, np.arctan],
)
def test_other_functions_have_scale_1_and_the_values_of_float64_rounded_once(function):
    """NumPy's function of float64 values, quantized."""
    x = sample("binary16", scale=0.25, positive=True)
    result = function(x)
    assert result.scale == 1
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(result.data, lp.quantize(function(x.to_array()), "binary16"))


def test_comparisons_are_of_values_and_plain():
    """Exact, whatever the scales."""
    x, y = sample("binary32", scale=2.0**-100), sample("binary32", scale=2.0**100)
    for left, right in ((x, y), (x, x), (x, 0.1), (0.1, x), (x, x.data)):
        values = [given.to_array() if isinstance(given, ScaledArray) else given for given in (left, right)]
        for function in (np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal):
            result = function(left, right)
            assert type(result) is np.ndarray
            assert (result == function(*values)).all()
    assert (x == x).all()
    assert not (x != x).any()


def test_finiteness_needs_both_parts():
    """Repository: of data and of scale."""
    assert np.isfinite(ScaledArray(np.float32([2, np.inf, np.nan]), 2.0)).tolist() == [True, False, False]
    assert np.isfinite(ScaledArray(np.float32([2, 3]), np.nan)).tolist() == [False, False]
    assert np.isnan(ScaledArray(np.float32([np.inf, 1]), 0.0)).tolist() == [True, False]
    assert np.isinf(ScaledArray(np.float32([-1, 1]), np.inf)).tolist() == [True, True]


def test_where_the_largest_is_is_asked_of_the_data():
    """Plain integers."""
    x = ScaledArray(np.float32([[1, 5, 2], [7, 3, 9]]), 2.0**-20)
    assert np.argmax(x) == x.argmax() == 5
    assert x.argmin(axis=1).tolist() == np.argmin(x, axis=1).tolist() == [0, 1]
    assert np.argmax(sp.ScaledArray(x.data, 0.0)) == 0  # all are zeros


# -- constants --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["e4m3fn", "binary16", "bfloat16", "binary32"])
@pytest.mark.parametrize(
    "constant", [0.1, -3, 1e-6, 300000.0, 1000.0, np.float64(np.sqrt(2)), np.int64(12), True]
)
def test_numbers_have_the_format_of_the_arrays_they_meet_and_a_scale_of_their_own(name, constant):
    """They are rounded as NumPy rounds them, but no range limits them: their power of two is in the scale."""
    x = sample(name)
    number = sp.scaled_scalar(constant, name)
    assert 1 <= abs(float(number.data)) < 2
    significand = math.frexp(constant)[0] * 2
    assert abs(float(number.data) * float(number.scale)) in (
        float(lp.quantize(abs(significand), name)) * abs(constant / significand),
    )
    for function in (np.add, np.multiply, np.maximum):
        result = function(x, constant)
        assert result.format == x.format
        assert_law(result, [BINARY[function](value, exact(number)[0]) for value in exact(x)], Projection())
        assert function(constant, x).data.tobytes() == result.data.tobytes()


@pytest.mark.parametrize(
    ("value", "fmt", "scale"),
    [(1.5 * 2.0**-140, "e8m0fnu", 2.0**-127), (1e30, "binary16", 2.0**15), (1e-30, "binary16", 2.0**-24)],
)
def test_what_a_constants_scale_cannot_hold_goes_into_its_data(value, fmt, scale):
    """So that the number is the same, rounded to binary32 once."""
    number = sp.scaled_scalar(value, scale_format=fmt)
    assert (number.scale, number.scale_format.name) == (scale, fmt)
    assert number.to_array() == lp.divide(value, scale, "binary32") * np.float64(scale)
    assert sp.scaled_scalar(-np.inf, "e4m3fn").to_array() == -np.inf
    assert np.isnan(sp.scaled_scalar(np.nan).to_array())


def test_constants_in_arrays_are_constants():
    """Zeros have scale 0, one number everywhere its power of two, anything else 1."""
    assert sp.as_scaled(np.zeros((2, 3), np.float32)).scale == 0
    threes = sp.as_scaled(np.full((2, 3), 3.0, np.float16))
    assert (threes.scale, threes.data.tolist()) == (2, [[1.5] * 3] * 2)
    assert sp.as_scaled(np.float32([3, 4])).scale == 1
    x = ScaledArray(np.float32([1, 2]), 4.0)
    assert (x + np.zeros(2, np.float32)).scale == 4
    assert np.ones_like(x).scale == 1
    assert np.full_like(x, 12).to_array().tolist() == [12, 12]
    assert np.zeros_like(x, shape=(3,)).shape == (3,)


def test_arrays_without_a_type_of_ours_are_binary32():
    """float64 and integers, as the widest format there is; bools have the format of the other."""
    x = ScaledArray(np.float16([1.5, 2.5]), 4.0)
    assert (x * np.array([0.1, 0.2])).format.name == "binary32"
    assert (x * np.array([1, 2])).format.name == "binary32"
    assert (x * np.array([True, False])).format.name == "binary16"
    assert (x * np.float32(0.1)).format.name == "binary32"
    assert (x * np.float16([0.5, 0.1])).format.name == "binary16"
    assert (x * np.array([True, False])).to_array().tolist() == [6, 0]


def test_constants_and_scales_that_float64_does_not_hold_are_rounded_once_or_refused():
    """Just above the middle of two binary32 numbers, which float64 rounds to the middle."""
    near, above = 2**60 + 2**36 + 1, 2.0**60 + 2.0**37
    for x in (
        sp.scaled_scalar(near),
        sp.as_scaled([near, near], fmt="binary32"),
        ScaledArray(np.float32(0)) + near,
    ):
        assert (x.to_array() == above).all()
    assert sp.scaled_scalar(2**64 - 1).scale == 2.0**64
    for call in (lambda: sp.pow2_decompose([2**53 + 1]), lambda: ScaledArray(np.float32(1), 2**53 + 1)):
        with pytest.raises(
            ValueError, match=r"an integer that float64 does not have, 9007199254740993|is no value"
        ):
            call()
    with pytest.raises(TypeError, match="scale must be a single number"):
        ScaledArray(np.float32(1), np.longdouble(1))
    with pytest.raises(TypeError, match="a masked array would lose its mask"):
        sp.set_scaling(ScaledArray(np.float32(1), 2.0), np.ma.masked_array(2.0, True))
    assert np.signbit(sp.as_scaled(np.float32([0.0, -0.0])).data).tolist() == [False, True]


def test_elements_are_not_taken_into_a_plain_array():
    """It would have data without their scale."""
    with pytest.raises(TypeError, match="ScaledArrays do not change"):
        np.take(sample("binary32"), [0], out=np.zeros(1, np.float32))


def test_integers_pass_through():
    """Labels and masks have no scale, unless one is asked for."""
    labels = np.arange(3)
    assert sp.as_scaled(labels) is labels
    assert sp.as_scaled(labels, 2.0).to_array().tolist() == [0, 1, 2]


def test_unlike_formats_make_one_that_has_both():
    """One of them, or the narrowest of 16 bits and binary32."""
    for names, want in (
        (("e4m3fn", "binary16"), "binary16"),
        (("e4m3fn", "e5m2"), "binary16"),
        (("binary16", "bfloat16"), "binary32"),
        (("e2m1fn", "e4m3fn"), "e4m3fn"),
        (("e5m2", "bfloat16"), "bfloat16"),
    ):
        x, y = (sample(name, scale=1.0) for name in names)
        assert (x + y).format.name == (y * x).format.name == want


# -- sums and products ------------------------------------------------------------------------------


def rounded(number, fmt=catalog.BINARY32):
    """What a wide sum hands on."""
    value = decode(project(number, fmt), fmt)
    return Fraction(0) if value is Special.NEGATIVE_ZERO else value


@pytest.mark.parametrize("name", ["e4m3fn", "e5m2", "binary16", "bfloat16", "binary32"])
@pytest.mark.parametrize("shape", [(5, 12), (5, 16), (5, 1)])
def test_sums_and_means_are_exact_sums_over_a_power_of_two(name, shape):
    """Rounded to binary32, as the accumulation says, and then to the format."""
    x = sample(name, shape[0] * shape[1]).reshape(shape)
    n, root = shape[1], 2 ** (math.isqrt(shape[1]).bit_length() - 1)
    sums = [sum(exact(row)) / Fraction(float(x.scale)) for row in x]
    for function, scale, divisor in (
        (np.sum, root, root),
        (np.mean, root / 2 ** (n.bit_length() - 1), Fraction(n * root, 2 ** (n.bit_length() - 1))),
    ):
        result = function(x, axis=1)
        assert result.scale == x.scale * scale
        values = [rounded(number) / divisor * Fraction(float(result.scale)) for number in sums]
        assert_law(result, values, Projection())
        assert function(x, axis=-1, keepdims=True).shape == (5, 1)
        assert function(x.T, axis=0).data.tobytes() == result.data.tobytes()
        assert function(x).shape == ()


def test_reductions_over_axes_have_numpys_shapes():
    """None, one, several, negative, kept."""
    x = ScaledArray(RNG.integers(-4, 5, (2, 3, 4)).astype(np.float32), 2.0)
    for function in (np.sum, np.mean, np.max, np.min, np.prod, np.var, np.std):
        for axis in (None, 0, -1, (0, 2), (2, 1), (0, 1, 2)):
            for keepdims in (False, True):
                got = function(x, axis=axis, keepdims=keepdims)
                want = function(x.to_array(), axis=axis, keepdims=keepdims)
                assert got.shape == want.shape
                np.testing.assert_allclose(got.to_array(), want, rtol=1e-5, atol=1e-5)
    assert np.sum(x[:0], axis=0).to_array().tolist() == np.zeros((3, 4)).tolist()
    assert np.prod(x[:0], axis=0).to_array().tolist() == np.ones((3, 4)).tolist()


def test_the_mean_of_many_ones_is_one():
    """The divisor's significand is exact in the data, whatever the format: 100 is no value of E4M3."""
    for n in (3, 10, 100, 1000):
        assert np.mean(ScaledArray(np.ones(n, np.float32), 4.0, "e4m3fn")).to_array() == 4


@pytest.mark.parametrize(
    "names", [("e4m3fn", "e4m3fn"), ("e4m3fn", "e5m2"), ("binary16", "binary16")], ids="-".join
)
def test_products_of_matrices_are_what_the_accumulation_gives_over_a_power_of_two(names):
    """In its own format for operands of 8 bits; else in theirs."""
    x, y = sample(names[0], 4 * 12).reshape(4, 12), sample(names[1], 12 * 3).reshape(12, 3)
    for how in ("fp32_fma", "exact", "fp16_sequential"):
        with sp.config(dots=how):
            result = x @ y
        wide = lp.matmul(x.data, y.data, how)
        fmt = "binary16" if names[0] == "binary16" else lp.accumulations[how].output[0].name
        assert result.format.name == fmt
        assert result.scale == x.scale * y.scale * 2
        np.testing.assert_array_equal(result.data, lp.divide(wide, 2, fmt))
        assert sp.matmul(x, y, how).data.tobytes() == result.data.tobytes()


def test_products_of_matrices_have_numpys_shapes():
    """Vectors, matrices, stacks, plain operands on either side."""
    x, y = (
        RNG.integers(-4, 5, (2, 3, 4)).astype(np.float32),
        RNG.integers(-4, 5, (2, 4, 5)).astype(np.float32),
    )
    for first, second in (
        (x, y),
        (x, y[0]),
        (x[0], y),
        (x[0, 0], y[0]),
        (x[0], y[0, :, 0]),
        (x[0, 0], y[0, :, 0]),
    ):
        for left, right in itertools.product(
            (first, ScaledArray(first, 2.0)), (second, ScaledArray(second, 4.0))
        ):
            if isinstance(left, ScaledArray) or isinstance(right, ScaledArray):
                values = [g.to_array() if isinstance(g, ScaledArray) else g for g in (left, right)]
                np.testing.assert_array_equal((left @ right).to_array(), values[0] @ values[1])
    a, b = ScaledArray(x[0], 2.0), ScaledArray(y[0], 4.0)
    np.testing.assert_array_equal(np.dot(a, b).to_array(), 8 * (x[0] @ y[0]))
    np.testing.assert_array_equal(np.dot(a, 2.0).to_array(), 4 * x[0])
    np.testing.assert_array_equal(np.outer(a[0], b[0]).to_array(), 8 * np.outer(x[0, 0], y[0, 0]))


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
def test_convolutions_have_the_product_of_the_scales(mode):
    """And no more, however long: the known gap of the rules."""
    for first, second in ((9, 4), (9, 5), (4, 9), (5, 5), (1, 3), (6, 1)):
        x, y = (RNG.integers(-4, 5, n).astype(np.float32) for n in (first, second))
        result = np.convolve(ScaledArray(x, 2.0), ScaledArray(y, 4.0), mode)
        assert result.scale == 8
        np.testing.assert_array_equal(result.data, np.convolve(x, y, mode))


def test_products_along_an_axis_are_rounded_one_after_the_other():
    """As a loop of multiplications."""
    x = sample("e4m3fn", 12, scale=0.5, positive=True).reshape(3, 4)
    result, want = np.prod(x, axis=0), np.ones(4)
    for row in x.data:
        want = lp.multiply(want, row, "e4m3fn")
    assert result.scale == 0.125
    np.testing.assert_array_equal(result.data, want)


@pytest.mark.parametrize(
    ("name", "exponent", "scales", "end"),
    [
        ("binary32", 100, "binary32", 127),
        ("binary32", -100, "e8m0fnu", -127),
        ("bfloat16", 100, "binary32", 127),
        ("bfloat16", -100, "e8m0fnu", -127),
        ("binary16", 14, "binary16", 15),
        ("e4m3fn", 6, "e4m3fn", 8),
        ("e5m2", -6, "e4m3fn", -9),
        ("int8f6", 3, "e3m2fn", 4),
    ],
)
def test_products_and_powers_that_fit_are_right_however_far_their_scale_is_out_of_range(
    name, exponent, scales, end
):
    """Of 20 numbers, each 1: the scale is one to the 20th, beyond even float64 for one of 2**100."""
    x = ScaledArray(np.full(20, 2.0**-exponent), 2.0**exponent, name, scale_format=scales)
    for result in (np.prod(x), x[0] ** 20):
        assert (result.scale, result.to_array()) == (2.0**end, 1)
    assert np.prod(x.reshape(10, 2), axis=0).to_array().tolist() == [1, 1]


def test_partial_products_need_not_be_in_range_where_the_scale_is_not():
    """Only the result, rounded as its format asks; signs, zeros, infinities and NaNs are as ever."""
    data = np.float32([1.5 * 2.0**-60, -(2.0**-70), 2.0**70, 1.25 * 2.0**60, 2.0**-90, 2.0**-90])
    for order in itertools.permutations(range(6)):
        result = np.prod(ScaledArray(data[list(order)], 2.0**30))
        assert (result.scale, result.to_array()) == (2.0**127, -1.875)
    x = ScaledArray(np.float32([[2, -3], [0, -3], [np.inf, -3], [np.inf, 0], [np.nan, 1]]), 2.0**-100)
    assert np.prod(x, axis=1).data.tolist()[:3] == [-6 * 2.0**-51, 0, -np.inf]
    assert np.isnan(np.prod(x, axis=1).data[3:]).all()
    assert np.prod(ScaledArray(np.full((400, 2), 2.0**100), 2.0**100), axis=0).data.tolist() == [
        np.inf,
        np.inf,
    ]
    assert np.prod(ScaledArray(np.full(400, 2.0**-100), 2.0**-100)).data == 0


def test_powers_of_scales_that_are_no_powers_of_two_have_an_end():
    """Named, with the way out."""
    x = ScaledArray(np.full(3000, 0.5, np.float32), 1.5)
    message = re.escape(
        "1.5**3000, the power of the scale, is out of the range of float64 even without its power of two; "
        "scales that are powers of two have no such end: set_scaling(x, pow2_round(x.scale))"
    )
    for call in (lambda: np.prod(x), lambda: x**3000):
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises(ValueError, match=re.escape("1.5**-3000, the power of the scale")):
        x**-3000
    assert np.prod(sp.set_scaling(x, sp.pow2_round(x.scale))).scale == 1


def test_high_powers_of_numbers_near_one():
    """In float64, whatever the power of the scale."""
    assert (ScaledArray(np.float32([0.99]), 1.0) ** 2000).to_array() == np.float32(
        np.float64(np.float32(0.99)) ** 2000
    )
    for power in (2000, 1e300):
        assert (ScaledArray(np.float32([1, -1]), 1.0) ** power).data.tolist() == [1, 1]
        assert (ScaledArray(np.float32([1, 0.25, 0]), 2.0) ** power).data.tolist() == [np.inf, 0, 0]
    assert (ScaledArray(np.float32([0.5, -0.5]), 2.0, scale_format="e3m2fn") ** 2000).to_array().tolist() == [
        1,
        1,
    ]


# -- what moves -------------------------------------------------------------------------------------

MOVES = {
    "reshape": lambda x: x.reshape(4, -1),
    "np.reshape": lambda x: np.reshape(x, (6, 4)),
    "ravel": lambda x: np.ravel(x),
    "transpose": lambda x: x.T + 0,
    "transpose axes": lambda x: np.transpose(x, (1, 2, 0)),
    "swapaxes": lambda x: np.swapaxes(x, 0, 2),
    "moveaxis": lambda x: np.moveaxis(x, 0, -1),
    "expand_dims": lambda x: np.squeeze(np.expand_dims(x, 1)).copy(),
    "broadcast_to": lambda x: np.broadcast_to(x, (2, *x.shape)),
    "flip": lambda x: np.flip(x, 1),
    "roll": lambda x: np.roll(x, 2, axis=1),
    "repeat": lambda x: np.repeat(x, 2, axis=0),
    "tile": lambda x: np.tile(x, (2, 1, 1)),
    "compress": lambda x: np.compress([True, False, True], x, axis=1),
    "take": lambda x: np.take(x, [0, 2, 2], axis=1),
    "slice": lambda x: x[:, ::-1, 1:3],
    "index": lambda x: x[0, 1],
    "element": lambda x: x[1, 2, 3],
    "mask": lambda x: x[x > 0],
    "newaxis": lambda x: x[..., None],
    "pad": lambda x: np.pad(x, 1),
    "pad edge": lambda x: np.pad(x, 2, mode="edge"),
    "triu": lambda x: np.triu(x[0]),
    "sort": lambda x: np.sort(x, axis=-1),
    "windows": lambda x: np.lib.stride_tricks.sliding_window_view(x, 2, axis=1),
    "max": lambda x: np.max(x, axis=1),
    "min": lambda x: x.min(axis=(0, 2), keepdims=True),
    "split": lambda x: np.concatenate(np.split(x, 2, axis=2), axis=0),
    "iterate": lambda x: np.stack(list(x), axis=1),
    "hstack": lambda x: np.hstack([x, x]),
}


@pytest.mark.parametrize("move", MOVES.values(), ids=MOVES)
def test_moving_elements_keeps_scale_and_format(move):
    """And changes no bit of the data."""
    x = sample("e4m3fn", 24, scale=8.0).reshape(2, 3, 4)
    result = move(x)
    assert (result.scale, result.format) == (8, x.format)
    np.testing.assert_array_equal(result.data, move(x.data))
    assert result.data.dtype == np.float32


def test_functions_of_values_take_them_by_name_too():
    """Where NumPy's parameters have names."""
    x = sample("e4m3fn", 6, scale=8.0)
    assert np.array_equal(a1=x, a2=x.to_array())
    assert np.allclose(a=x, b=x)
    assert np.any(a=x == x)


def test_bounds_of_clip_have_two_names():
    """Those of NumPy 2 are min and max."""
    x = sample("binary32", 12, scale=8.0)
    for new, old in (
        (np.clip(x, min=-1.0), np.clip(x, -1.0, None)),
        (np.clip(x, max=2.0), np.clip(x, None, 2.0)),
        (np.clip(x, min=-1.0, max=2.0), np.clip(x, a_min=-1.0, a_max=2.0)),
    ):
        assert (new.scale, new.data.tobytes()) == (old.scale, old.data.tobytes())
    np.testing.assert_array_equal(np.clip(x, min=-1.0, max=2.0).to_array(), np.clip(x.to_array(), -1, 2))
    assert np.clip(np.float32([1, 20]), min=ScaledArray(np.float32(1), 8.0)).to_array().tolist() == [8, 20]


def test_joined_arrays_have_no_type_but_their_formats():
    """NumPy's dtype would make data of another type than the format's."""
    x = sample("binary32", 6)
    with pytest.raises(
        TypeError, match=r"numpy\.hstack of ScaledArrays takes arrays: got an unexpected keyword"
    ):
        np.hstack([x, x], dtype=np.float16)


def test_plain_arrays_join():
    """With scales of 1, or none."""
    x = ScaledArray(np.float32([1, 2]), 8.0)
    joined = np.concatenate([x, np.float32([4, 6]), np.zeros(1, np.float32)])
    assert joined.scale == 8
    assert joined.to_array().tolist() == [8, 16, 4, 6, 0]


def test_shapes_are_asked_of_the_data():
    """As of arrays."""
    x = ScaledArray(np.ones((2, 3), np.float32), 8.0)
    assert (np.shape(x), np.ndim(x), np.size(x), x.shape, x.ndim, x.size, len(x)) == (
        (2, 3),
        2,
        6,
        (2, 3),
        2,
        6,
        2,
    )
    assert x.dtype == np.float32


# -- the ends of scales -----------------------------------------------------------------------------


@pytest.mark.parametrize("power", [100, -100])
def test_what_the_scales_format_cannot_hold_goes_into_the_data(power):
    """So that the law holds there too: 2**100 squared is beyond binary32, and 2**-100 squared below it."""
    x, y = ScaledArray(np.float32([1.5, -3.0]), 2.0**power), ScaledArray(np.float32([2.0, 4.0]), 2.0**power)
    down = ScaledArray(y.data, 2.0**-power)
    (a, b), (c, d) = exact(x), exact(y)
    end = 2.0**127 if power > 0 else 2.0**-149
    for result, want in (
        (x * y, [a * c, b * d]),
        (x / down, [a / exact(down)[0], b / exact(down)[1]]),
        (x @ y, [a * c + b * d]),
        (np.square(x), [a * a, b * b]),
        (x**3, [a**3, b**3]),
        (np.prod(x), [a * b]),
        (np.convolve(x, y, "valid"), [a * d + b * c]),
    ):
        assert result.scale == end
        assert_law(result, want, Projection())
    big = ScaledArray(np.full(1 << 12, 1.5, np.float32), 2.0**124)
    assert (np.sum(big).scale, np.sum(big).to_array()) == (2.0**127, 1.5 * 2.0**136)


def test_scales_may_be_those_of_e8m0_or_float16():
    """They stop at the ends of these."""
    x = ScaledArray(np.float32([1.5, -2.0]), 2.0**100, scale_format="e8m0fnu")
    assert ((x * x).scale, (x * x).scale_format.name) == (2.0**127, "e8m0fnu")
    assert np.sqrt(ScaledArray(np.float32([2.0]), 8.0, scale_format="e8m0fnu")).scale in (2, 4)
    assert np.sqrt(ScaledArray(np.float32([2.0]), 8.0, scale_format="e8m0fnu")).to_array() == 4
    half = ScaledArray(np.float16([1.5, -2.0]), np.float16(1024))
    assert ((half * half).scale, (half * half).scale.dtype) == (32768, np.float16)
    assert (half * half).to_array().tolist() == [2359296, 4194304]
    assert (half + 2.0**30).to_array().tolist() == [2.0**30, 2.0**30]
    assert sp.set_scaling(ScaledArray(np.float32([3.0])), 2.0**100).to_array() == 3
    with sp.config(scale_format="binary16"):
        assert sp.as_scaled(np.float32([1, 2])).scale.dtype == np.float16


FILLED = {
    "pad": lambda x: np.pad(x, 1),
    "tril": np.tril,
    "triu": np.triu,
    "diag": lambda x: np.diag(x[0]),
    "relu": lambda x: sp.relu(x)[0],
    "gradient of relu": lambda g: sp.relu(ScaledArray(np.float32([[-1], [1]])))[1](g),
}


@pytest.mark.parametrize("scale", [0.0, 4.0, np.inf])
@pytest.mark.parametrize("fill", FILLED.values(), ids=FILLED)
def test_zeros_that_a_function_puts_in_are_zero_at_any_scale(fill, scale):
    """Infinite scales too, at which a zero of the data would be NaN."""
    x = ScaledArray(np.float32([[1, -2], [-3, 4]]), scale)
    np.testing.assert_array_equal(fill(x).to_array(), sp.stop_scaling(fill(x.to_array())))


def test_zeros_infinities_and_nans_of_the_scale_are_values():
    """0 * inf is NaN, as for arrays; in every operation."""
    scales = (0.0, np.inf, np.nan, 4.0)
    data = np.float32([0, 1, -2, np.inf, np.nan])
    for first, second in itertools.product(scales, scales):
        x, y = ScaledArray(data, first), ScaledArray(data[:, None], second)
        for function in (np.add, np.subtract, np.multiply, np.divide, np.maximum, np.minimum):
            with np.errstate(all="ignore"):
                want = function(x.to_array(), y.to_array())
            np.testing.assert_array_equal(
                function(x, y).to_array(), want, err_msg=f"{function} {first} {second}"
            )
    for scale in scales:
        with np.errstate(all="ignore"):
            x = ScaledArray(data, scale)
            for function in (np.exp, np.square, np.negative, np.absolute, np.sqrt, np.sign, np.sum, np.mean):
                want = function(x.to_array().astype(np.float32))
                np.testing.assert_allclose(
                    function(x).to_array(), want, rtol=1e-6, err_msg=f"{function} {scale}"
                )


def test_numbers_of_bfloat16_are_ordered_with_nans_last():
    """NumPy itself sorts NaNs of the type among the numbers, and warns of them in the largest one."""
    numbers = np.float32([3, np.nan, 1, np.inf, -np.inf, np.nan, 2])
    x = sp.as_scaled(numbers, 2.0, "bfloat16")
    x = sp.ScaledArray(x.data.astype(ml_dtypes.bfloat16), 2.0)
    assert np.argsort(x, kind="stable").tolist() == np.argsort(numbers, kind="stable").tolist()
    for reduce in (np.max, np.min):
        made = reduce(x)
        assert np.isnan(made)
        assert made.dtype == ml_dtypes.bfloat16


@pytest.mark.parametrize("fmt", ["binary16", "bfloat16", "binary32", "e4m3fn"])
def test_sorted_values_have_nans_last(fmt):
    x = sp.ScaledArray(sp.cast(np.float32([3, np.nan, -1, 2, np.nan, -7]), fmt), 2.0, fmt)
    assert np.sort(x).to_array().tolist()[:4] == [-14.0, -2.0, 4.0, 6.0]
    assert np.isnan(np.sort(x).to_array()[4:]).all()
    assert np.array_equal(np.sort(x).to_array(), x.to_array()[np.argsort(x)], equal_nan=True)


@pytest.mark.parametrize("fmt", ["binary16", "bfloat16", "binary32", "e4m3fn", "e5m2"])
@pytest.mark.parametrize("scale", [0.0, np.inf, np.nan])
def test_extremes_at_scales_that_are_none_are_those_of_the_values(fmt, scale):
    """Zeros at an infinite scale are NaN."""
    x = sp.ScaledArray(np.float32([[0, 1, -2], [3, -1, 2]]), scale, fmt)
    with np.errstate(invalid="ignore"):
        values = x.to_array()
        for function in (np.max, np.min):
            for axis, keepdims in ((None, False), (0, True), (1, False), ((0, 1), True)):
                made = function(x, axis=axis, keepdims=keepdims)
                assert made.format == x.format
                assert np.array_equal(
                    made.to_array(), function(values, axis=axis, keepdims=keepdims), equal_nan=True
                )
        for axis in (0, -1, None):
            assert np.array_equal(np.sort(x, axis).to_array(), np.sort(values, axis), equal_nan=True)
        assert np.array_equal(
            np.linalg.norm(x, np.inf, axis=1).to_array(),
            np.linalg.norm(values, np.inf, axis=1),
            equal_nan=True,
        )


@pytest.mark.parametrize("fmt", ["binary16", "bfloat16", "binary32", "e4m3fn", "e5m2"])
def test_sums_of_zeros_whose_data_overflow_are_zero(fmt):
    x = sp.ScaledArray(np.full((2, 8), lp.format(fmt).max_finite), 0.0, fmt)
    for made in (np.sum(x), np.mean(x, axis=0), np.cumsum(x, axis=1), np.linalg.norm(x, 1, axis=1)):
        assert (made.to_array() == 0).all()
    assert (sp.scatter_add(x, [0, 0], 2).to_array() == 0).all()


def test_numbers_over_infinities_that_their_format_lacks_are_zeros():
    zeros = np.divide(np.float32([1, -2]), sp.ScaledArray(np.float32([1, -1]), np.inf, "e4m3fn"))
    assert zeros.to_array().tolist() == [0.0, 0.0]
    infinite = np.multiply(np.float32([1, -2]), sp.ScaledArray(np.float32([1, 1]), np.inf, "e4m3fn"))
    assert infinite.to_array().tolist() == [np.inf, -np.inf]


@pytest.mark.parametrize("fmt", ["bfloat16", "binary32", "e4m3fn"])
def test_running_sums_have_the_signs_of_sums_of_their_own_terms(fmt):
    x = sp.ScaledArray(np.float32([-0.0, -0.0, 0.0, -1, 1, -0.0]), 4.0, fmt)
    sums = [np.sum(x[:count]).to_array() for count in range(1, 7)]
    assert np.signbit(sums).tolist() == [True, True, False, True, False, False]
    assert np.signbit(np.cumsum(x).to_array()).tolist() == np.signbit(sums).tolist()


MASKED = np.ma.masked_array([1, 0], [True, False])


@pytest.mark.parametrize(
    "choose",
    [
        lambda x: np.where(MASKED.astype(bool), x, x),
        lambda x: np.take(x, MASKED),
        lambda x: np.take_along_axis(x, MASKED, 0),
        lambda x: np.delete(x, MASKED),
        lambda x: np.compress(MASKED.astype(bool), x),
        lambda x: x[MASKED],
        lambda x: x[None][:, MASKED],
    ],
)
def test_masks_of_indices_and_conditions_are_not_lost(choose):
    with pytest.raises(TypeError, match="a masked array would lose its mask"):
        choose(sp.ScaledArray(np.float32([1, 2]), 4.0))


@pytest.mark.parametrize("large", [2**53 + 1, np.int64(2**53 + 1), np.uint64(2**63 + 1), 10**400, -(10**400)])
def test_comparisons_with_large_integers_are_exact(large):
    x = sp.ScaledArray(np.float32([1, 1, 2, np.inf]), 2.0**53)
    values = [int(value) if math.isfinite(value) else value for value in x.to_array().tolist()]
    for function in (np.equal, np.less, np.less_equal, np.greater):
        wanted = [bool(function(value, int(large), dtype=object)) for value in values]
        assert function(x, large).tolist() == wanted
    assert np.equal(large, x).tolist() == [value == large for value in values]


def test_scales_and_constants_are_computed_once(monkeypatch):
    """The same step of a training asks the library for the same few scales each time."""
    from lowprec.methods.scale_propagation import pow2, rounding, transform

    asked = []

    def counted(module, name):
        verb = getattr(module, name)

        def call(*args, **keywords):
            asked.append(name)
            return verb(*args, **keywords)

        monkeypatch.setattr(module, name, call)

    def step(x):
        return sp.rebalance(sp.matmul(x + x, x) * 0.3, 8.0)

    x = ScaledArray(np.float32([[1.5, -2.0], [0.25, 3.0]]), 2.0**-7)
    first = step(x)
    for module, name in ((rounding, "quantize"), (rounding.arith, "divide"), (pow2, "sqrt"), (pow2, "fma"),
                         (pow2, "quantize"), (transform, "computed")):  # fmt: skip
        counted(module, name)
    assert (step(x).data == first.data).all()
    assert asked == ["quantize", "quantize"]  # of arrays: the quotient of the product, and the new data


def test_constants_that_are_kept_have_signs_modes_and_data_of_their_own():
    zeros = [sp.scaled_scalar(zero).data for zero in (0.0, -0.0, 0.0)]
    assert [math.copysign(1, zero) for zero in zeros] == [1, -1, 1]
    tenth = sp.scaled_scalar(0.1)
    with sp.config(projection=Projection(rounding="toward_zero")):
        assert sp.scaled_scalar(0.1).data < tenth.data
    tenth.data[...] = 7
    assert sp.scaled_scalar(0.1).data == np.float32(1.6)
    x = ScaledArray(np.float32([1.0]), 3.0)
    scales = []
    for mode in ("down", "up", "none"):
        with sp.config(scale_rounding=mode):
            scales.append(float((x + x).scale))
    assert scales[:2] == [4.0, 8.0]
    assert 4 < scales[2] < 8
    with sp.config(scale_rounding="stochastic", rng=0):
        assert {float((x + x).scale) for _ in range(64)} == {4.0, 8.0}
