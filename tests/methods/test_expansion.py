"""Error-free transforms and expansions: over all FP8 pairs, against the oracle, and Collage's numbers."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st

import lowprec as lp
from lowprec.methods import expansion
from lowprec.methods.expansion import (
    Expansion,
    fast_two_sum,
    grow,
    multiply,
    renormalise,
    split,
    two_prod,
    two_sum,
)
from lowprec.oracle.arith import operate
from lowprec.spec import catalog
from lowprec.spec.format import Format
from tests.support import most_apart, refusal_test

#: Kernels of many types, which take long to compile.
pytestmark = pytest.mark.apart


def finite_values(fmt):
    """All finite values of a format, -0 too."""
    values = lp.decode(np.arange(1 << fmt.width, dtype=np.uint32), fmt)
    return values[np.isfinite(values)]


def all_pairs(name):
    """Every pair of finite values of a format, and the format."""
    fmt = catalog.format(name)
    values = finite_values(fmt)
    x, y = (side.ravel() for side in np.meshgrid(values, values))
    return x, y, fmt


def is_sum(result, error, x, y):
    """Whether result + error is x + y, of FP8: all fits float64."""
    with np.errstate(invalid="ignore"):
        return result.astype(np.float64) + error == x.astype(np.float64) + y


# -- error-free transforms: counts over all pairs ----------------------------------------------------


@pytest.mark.parametrize(("name", "exact", "pairs"), [("e4m3fn", 64_080, 64_080), ("e5m2", 61_382, 61_384)])
def test_two_sum_is_exact_on_all_pairs_whose_sum_does_not_overflow(name, exact, pairs):
    """Except if a number on the way overflows: two pairs of E5M2. Other libraries gave the counts first."""
    x, y, fmt = all_pairs(name)
    fits = np.isfinite(lp.add(x, y, fmt))
    good = is_sum(*two_sum(x, y, fmt), x, y) & fits
    assert (good.sum(), fits.sum()) == (exact, pairs)
    odd = fits & ~good
    assert (
        sorted(zip(x[odd], y[odd], strict=True)) == [(-12288, 57344), (12288, -57344)][: 2 * (name == "e5m2")]
    )


@pytest.mark.parametrize(
    ("name", "ordered", "wrong"), [("e4m3fn", 32_286, 25_202), ("e5m2", 30_936, 27_112)]
)  # fmt: skip
def test_fast_two_sum_is_exact_on_all_pairs_in_order_and_on_few_others(name, ordered, wrong):
    x, y, fmt = all_pairs(name)
    fits, falling = np.isfinite(lp.add(x, y, fmt)), np.abs(x) >= np.abs(y)
    good = is_sum(*fast_two_sum(x, y, fmt), x, y)
    assert (fits & falling).sum() == ordered
    assert good[fits & falling].all()
    assert (~good[fits & ~falling]).sum() == wrong


@pytest.mark.parametrize(
    ("name", "within", "finite", "wrong"),
    [("e4m3fn", 36_932, 54_396, 11_520), ("e5m2", 41_920, 53_312, 8_704)],
)
def test_two_prod_is_exact_where_exponents_are_large_enough_and_fails_elsewhere(name, within, finite, wrong):
    x, y, fmt = all_pairs(name)
    product, error = two_prod(x, y, fmt)
    fits = np.isfinite(product)
    with np.errstate(invalid="ignore"):
        good = product.astype(np.float64) + error == x.astype(np.float64) * y
    exponents = np.frexp(x)[1] + np.frexp(y)[1] - 2
    large = fits & (x != 0) & (y != 0) & (exponents >= fmt.emin + fmt.precision - 1)
    assert large.sum() == within
    assert good[large].all()
    assert (fits.sum(), (fits & ~good).sum()) == (finite, wrong)


def as_pair(x, y):
    """The sum of float64 numbers, and what it was rounded by: equal pairs have equal sums."""
    total = x + y
    other = total - x
    return np.stack([total, (x - (total - other)) + (y - other)])


@pytest.mark.parametrize("name", most_apart(["bfloat16", "binary16"], ["bfloat16"]))
def test_transforms_are_exact_on_random_patterns_of_16_bits(name):
    """300,000 pairs of bit patterns each, no failure."""
    fmt = catalog.format(name)
    codes = np.random.default_rng(0).integers(0, 1 << 16, (2, 300_000), dtype=np.uint16)
    x, y = lp.decode(codes, fmt)
    sums = np.isfinite(x) & np.isfinite(y) & np.isfinite(lp.add(x, y, fmt))
    x, y = x[sums].astype(np.float64), y[sums].astype(np.float64)
    assert np.array_equal(as_pair(*np.float64(two_sum(x, y, fmt))), as_pair(x, y))
    large, small = np.where(np.abs(x) >= np.abs(y), (x, y), (y, x))
    assert np.array_equal(as_pair(*np.float64(fast_two_sum(large, small, fmt))), as_pair(x, y))
    held = np.frexp(x)[1] + np.frexp(y)[1] - 2 >= fmt.emin + fmt.precision - 1
    held &= np.isfinite(lp.multiply(x, y, fmt))
    x, y = x[held], y[held]
    assert x.size > 100_000
    assert np.array_equal(as_pair(*np.float64(two_prod(x, y, fmt))), as_pair(x * y, np.zeros_like(x)))


# -- preconditions -----------------------------------------------------------------------------------

FLUSHED = Format(name="flushed", exponent_bits=4, trailing_bits=3, bias=7, subnormals=False)


@pytest.mark.parametrize(
    ("function", "x", "y", "fmt", "message"),
    [
        (
            fast_two_sum, [1.0, 0.5], [0.5, 1.0], "e4m3fn",
            "fast_two_sum needs abs(x) >= abs(y), or what the sum was rounded by is lost: 1 of 2 pairs do "
            "not fulfil this, the first at index (1,): x = 0.5, y = 1.0. Exchange them, or use two_sum",
        ),
        (
            two_prod, 0.25, 0.125, "e4m3fn",
            "two_prod in 'e4m3fn' needs exponents that add up to -3 or more, or what the product was rounded "
            "by may be below the format's smallest number: 1 of 1 pairs do not fulfil this, the first at "
            "index (): x = 0.25, y = 0.125. Multiply the factors by powers of two first",
        ),
        (
            two_sum, 12288.0, -57344.0, "e5m2",
            "two_sum in 'e5m2' needs finite operands and results: 1 of 1 pairs do not fulfil this, the first "
            "at index (): x = 12288.0, y = -57344.0. Divide by a power of two first",
        ),
        (
            two_sum, [1.0, 1.01], 2.0, "e4m3fn",
            "x has numbers that 'e4m3fn' does not have: 1 of 2, the first at index (1,): 1.01. Quantize to "
            "'e4m3fn' first, or use split for a sum of several parts",
        ),
        (
            two_sum, 1.0, 2.0, FLUSHED,
            "'flushed' has no subnormals, so that what a result was rounded by may be no number of it; use "
            "another format, or check=False",
        ),
    ],
)  # fmt: skip
def test_checks_refuse_what_is_not_exact_and_say_which_it_is(function, x, y, fmt, message):
    with pytest.raises(ValueError) as raised:  # noqa: PT011 - the whole text is compared
        function(x, y, fmt, check=True)
    assert str(raised.value) == message


@pytest.mark.parametrize("name", ["e4m3fn", "e5m2"])
def test_what_the_checks_let_through_is_exact(name):
    """All pairs: each check refuses its failures and, of sums, nothing else."""
    x, y, fmt = all_pairs(name)
    for function, exact in ((two_sum, x.astype(np.float64) + y), (fast_two_sum, x.astype(np.float64) + y)):
        with np.errstate(invalid="ignore"):
            good = np.add(*np.float64(function(x, y, fmt))) == exact
        if function is fast_two_sum:
            good &= (np.abs(x) >= np.abs(y)) | (x == 0)
        _let_through(function, x, y, fmt, good)
    product = lp.multiply(x, y, fmt)
    exponents = np.frexp(x)[1] + np.frexp(y)[1] - 2
    held = (x == 0) | (y == 0) | (exponents >= fmt.emin + fmt.precision - 1)
    _let_through(two_prod, x, y, fmt, held & np.isfinite(product))
    assert (~held & (exponents == fmt.emin + fmt.precision - 2)).any()


@pytest.mark.parametrize("name", ["e2m1fn", "e2m3fn", "e3m2fn"])
def test_overflow_to_a_finite_number_is_refused(name):
    """All pairs of formats without infinity and NaN: what passes is exact; small numbers pass."""
    x, y, fmt = all_pairs(name)
    total = x.astype(np.float64) + y
    enough = np.frexp(x)[1] + np.frexp(y)[1] - 2 >= fmt.emin + fmt.precision - 1
    rules = {
        two_sum: (total, True),
        fast_two_sum: (total, (np.abs(x) >= np.abs(y)) | (x == 0)),
        two_prod: (x.astype(np.float64) * y, (x == 0) | (y == 0) | enough),
    }
    for function, (exact, holds) in rules.items():
        good = (np.add(*np.float64(function(x, y, fmt))) == exact) & holds
        small = good & (np.maximum(np.maximum(abs(x), abs(y)), abs(exact)) <= fmt.max_finite / 2)
        function(x[small], y[small], fmt, check=True)
        for place in np.flatnonzero(~good)[:: max(1, (~good).sum() // 400)]:
            with pytest.raises(ValueError, match="do not fulfil this"):
                function(x[place], y[place], fmt, check=True)
    for function in rules:
        with pytest.raises(
            ValueError, match=rf"{function.__name__} in .* needs results that do not overflow"
        ):
            function(fmt.max_finite, fmt.max_finite, fmt, check=True)


def _let_through(function, x, y, fmt, good):
    """All that is good passes, and of the others, those that are nearest to it and a sample."""
    function(x[good], y[good], fmt, check=True)
    odd = np.flatnonzero(~good)
    largest = odd[np.argsort(-np.abs(x[odd].astype(np.float64) * y[odd]), kind="stable")]
    for place in (*odd[::997], *largest[:: max(1, largest.size // 20)]):
        with pytest.raises(ValueError, match="do not fulfil this"):
            function(x[place], y[place], fmt, check=True)


# -- constants and sums of Collage -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("beta", "parts"),
    [
        (0.9, (0.8984375, 0.00156402587890625)),
        (0.95, (0.94921875, 0.000782012939453125)),
        (0.98, (0.98046875, -0.000469207763671875)),
        (0.99, (0.98828125, 0.00171661376953125)),
        (0.999, (1.0, -0.00099945068359375)),
    ],
)
def test_betas_have_these_expansions_in_bfloat16(beta, parts):
    """The second part is of beta less the first, not less binary32's beta, as in the published code."""
    assert tuple(float(part) for part in split(beta, 2, "bfloat16").parts) == parts


def test_growing_1_by_a_thousandth_a_thousand_times_gives_2():
    """In bfloat16 alone it stays 1. The residual is rounded too: the exact sum of increments is 1.99945."""
    increment = lp.quantize(np.float32([0.001]), "bfloat16")
    plain, sums = np.float32([1.0]), Expansion(([1.0], [0.0]), "bfloat16")
    for _ in range(1000):
        plain, sums = lp.add(plain, increment, "bfloat16"), grow(sums, increment)
    assert plain == [1.0]
    assert [part.tolist() for part in sums.parts] == [[2.0], [0.003143310546875]]


@pytest.mark.parametrize(("name", "decibels"), [
    ("bfloat16", (55.6, 112.2, 168.9)), ("e4m3fn", (31.5, 62.5, 65.0)), ("e5m2", (25.5, 52.0, 78.6)),
    ("binary16", (73.7, 148, 155)),
])  # fmt: skip
def test_parts_add_the_precision_that_they_should(name, decibels):
    """SQNR of N(0, 1): each part adds that of the format and its sign, until the range is exhausted."""
    x = np.random.default_rng(0).standard_normal(1 << 18)
    for parts, wanted in enumerate(decibels, start=1):
        noise = split(x, parts, name).values() - x
        assert 10 * np.log10((x @ x) / (noise @ noise)) == pytest.approx(
            wanted, abs=0.5 if wanted > 147 else 0.1
        )


# -- operations against the oracle -------------------------------------------------------------------

Number = tuple[int, Format]


def number(value: float, fmt: Format) -> Number:
    """A value as the oracle takes it."""
    return int(lp.encode(value, fmt)), fmt


def exactly(operation: str, target: Format, *numbers: Number) -> Number:
    """An operation of the oracle."""
    codes, formats = zip(*numbers, strict=True)
    return operate(operation, codes, formats, target)[0], target


def published_grow(x: Number, y: Number, a: Number) -> tuple[Number, Number]:
    """Grow, written down from the paper."""
    fmt = x[1]
    u = exactly("add", fmt, x, a)
    v = exactly("subtract", fmt, a, exactly("subtract", fmt, u, x))
    rest = exactly("add", fmt, y, v)
    high = exactly("add", fmt, u, rest)
    return high, exactly("subtract", fmt, rest, exactly("subtract", fmt, high, u))


def published_mul(x: Number, y: Number, a: Number, b: Number) -> tuple[Number, Number]:
    """Mul, likewise: p = xa, e = fma(x, a, -p) + (ya + xb)."""
    fmt = x[1]
    p = exactly("multiply", fmt, x, a)
    cross = exactly("add", fmt, exactly("multiply", fmt, y, a), exactly("multiply", fmt, x, b))
    e = exactly("add", fmt, exactly("fma", fmt, x, a, exactly("negative", fmt, p)), cross)
    high = exactly("add", fmt, p, e)
    return high, exactly("subtract", fmt, e, exactly("subtract", fmt, high, p))


def same_codes(got: Expansion, want: list[tuple[Number, Number]]) -> None:
    """Both parts, code by code."""
    for part, numbers in zip(got.parts, zip(*want, strict=True), strict=True):
        assert lp.encode(part, got.format).tolist() == [code for code, _ in numbers]


@pytest.mark.parametrize("name", ["bfloat16", "e4m3fn", "e5m2"])
def test_grow_and_multiply_of_two_parts_are_the_published_ones(name):
    """Every rounding by the oracle, in the order of the paper."""
    fmt, rng = catalog.format(name), np.random.default_rng(1)
    x, z = (split(rng.standard_normal(100) * scale, 2, fmt) for scale in (4, 1))
    a = lp.quantize(rng.standard_normal(100).astype(np.float32) * 2.0 ** rng.integers(-8, 2, 100), fmt)
    rows = [[number(value, fmt) for value in row] for row in zip(*x.parts, *z.parts, a, strict=True)]
    same_codes(grow(x, a), [published_grow(row[0], row[1], row[4]) for row in rows])
    same_codes(multiply(x, z), [published_mul(*row[:4]) for row in rows])


@pytest.mark.parametrize("name", ["bfloat16", "e4m3fn", "e5m2"])
@pytest.mark.parametrize("parts", [2, 3])
def test_sums_and_products_are_as_precise_as_their_parts(name, parts):
    """Within a few units u = 2**-(parts * precision), and a few of the format's smallest number.

    Each part has at least `precision` bits below the one before. The terms that are left out, the products
    and the sums on the last level are each rounded by at most u: there are fewer than 4 * parts + 4.
    """
    fmt, rng = catalog.format(name), np.random.default_rng(2)
    values = rng.uniform(1, 2, (2, 4096)) * 2.0 ** rng.integers(0, 3, (2, 4096))
    x, y = (split(side, parts, fmt) for side in values)
    u = 2.0 ** -(parts * fmt.precision)
    least = fmt.min_subnormal * (2 * parts + 2)
    for got, want in (
        (expansion.add(x, y).values(), x.values() + y.values()),
        (multiply(x, y).values(), x.values() * y.values()),
        (grow(x, y.parts[0], any_order=True).values(), x.values() + y.parts[0]),
        (expansion.scale(x, y.parts[0]).values(), x.values() * y.parts[0]),
    ):
        assert np.all(np.abs(got - want) <= (4 * parts + 4) * u * want + least)


def test_grow_in_any_order_keeps_what_the_published_one_loses():
    """A number that is larger than the first part: 1 + 2.015625 + ... in bfloat16."""
    x, a = Expansion(([0.0078125], [0.0]), "bfloat16"), np.float32([3.015625])
    assert grow(x, a, any_order=True).values() == 3.0234375
    with pytest.raises(ValueError, match="Exchange them, or use two_sum"):
        grow(x, a, check=True)
    fmt = catalog.E4M3FN
    values = finite_values(fmt)
    values = values[np.abs(values) <= 128]
    first, a = (side.ravel() for side in np.meshgrid(values, values))
    start = Expansion((first, np.zeros_like(first)), fmt)
    exact = first.astype(np.float64) + a
    assert np.array_equal(grow(start, a, any_order=True).values(), exact)
    wrong = grow(start, a).values() != exact
    assert wrong.any()
    assert (np.abs(a) > np.abs(first))[wrong].all()


# -- renormalisation ---------------------------------------------------------------------------------


def in_order(x: Expansion) -> bool:
    """Whether each part is itself and the next one added up, rounded."""
    pairs = itertools.pairwise(x.parts)
    return all(np.array_equal(lp.add(part, after, x.format), part) for part, after in pairs)


def test_renormalising_keeps_the_sum_and_orders_all_triples_of_a_small_format():
    """Every triple of values of a format of 6 bits, up to where sums may overflow."""
    fmt = catalog.format("binary6p3se")
    values = finite_values(fmt)
    values = values[np.abs(values) <= fmt.max_finite / 8]
    triples = Expansion([side.ravel() for side in np.meshgrid(values, values, values)], fmt)
    assert triples.size == 37**3
    ordered = renormalise(triples)
    assert np.array_equal(ordered.values(), triples.values())
    assert in_order(ordered)
    assert not in_order(triples)


def test_the_shorter_transform_suffices_for_results_of_two_parts():
    """All pairs of expansions of two parts of a format of 6 bits, first parts that cancel among them."""
    fmt = catalog.format("binary6p3se")
    values = finite_values(fmt)
    values = values[np.abs(values) <= fmt.max_finite / 8]
    first, second = (side.ravel() for side in np.meshgrid(values, values))
    known = np.abs(second) <= np.where(first == 0, 0, lp.ulp(first, fmt) / 2)
    i, j = (side.ravel() for side in np.meshgrid(np.flatnonzero(known), np.flatnonzero(known)))
    x, y = (Expansion((first[k], second[k]), fmt) for k in (i, j))
    top, error = two_sum(x.parts[0], y.parts[0], fmt)
    rest = lp.add(lp.add(x.parts[1], y.parts[1], fmt), error, fmt)
    total = expansion.add(x, y)
    assert np.array_equal(total.values(), top.astype(np.float64) + rest)
    assert in_order(total)
    assert np.any((np.abs(rest) > np.abs(top)) & (top != 0))
    top, error = two_prod(x.parts[0], y.parts[0], fmt)
    cross = lp.add(lp.multiply(x.parts[1], y.parts[0], fmt), lp.multiply(x.parts[0], y.parts[1], fmt), fmt)
    product, fits = multiply(x, y), np.abs(top) <= fmt.max_finite / 2
    exact = top.astype(np.float64) + lp.add(cross, error, fmt)
    assert np.array_equal(product.values()[fits], exact[fits])


@given(data=st.data())
def test_renormalising_keeps_the_sum(data):
    """Law 14, of any number of parts of any of these formats."""
    fmt = catalog.format(
        data.draw(st.sampled_from(["e4m3fn", "e5m2", "bfloat16", "binary16", "binary8p3se"]))
    )
    limit = 2.0 ** min(fmt.emax - 4, 40)
    numbers = st.floats(-limit, limit, width=32)
    rows = data.draw(st.lists(st.lists(numbers, min_size=4, max_size=4), min_size=1, max_size=5))
    given_parts = Expansion(list(lp.quantize(np.float32(rows), fmt)), fmt)
    ordered = renormalise(given_parts)
    exact = [sum(map(Fraction, column), Fraction(0)) for column in np.float64(given_parts.parts).T.tolist()]
    assert [
        sum(map(Fraction, column), Fraction(0)) for column in np.float64(ordered.parts).T.tolist()
    ] == exact
    assert in_order(ordered)


@pytest.mark.parametrize("parts", [2, 3, 4])
def test_results_of_all_operations_are_in_order(parts):
    """So that they may be operands of the next one."""
    rng = np.random.default_rng(parts)
    x, y = (split(rng.standard_normal(2000), parts, "e4m3fn") for _ in range(2))
    a = y.parts[0]
    for result in (expansion.add(x, y), multiply(x, y), grow(x, a, any_order=True), expansion.scale(x, a)):
        assert in_order(result)
        assert len(result.parts) == parts
    for part, after in itertools.pairwise(
        x.parts
    ):  # where that is a tie, the next part may round the first one up
        assert np.all(np.abs(after) <= lp.ulp(part, "e4m3fn") / 2)


# -- what an Expansion is ----------------------------------------------------------------------------


def test_an_expansion_is_a_sum_of_values_of_its_format():
    x = Expansion(([1.0, 2.0], np.float64([0.001953125, 0.0])), "bfloat16")
    assert [part.dtype for part in x.parts] == [np.float32, np.float32]
    assert x.values().tolist() == [1.001953125, 2.0]
    assert repr(x) == "Expansion of 2 parts in bfloat16, shape (2,)"
    assert repr(Expansion((1.0,), "e5m2")) == "Expansion of 1 part in e5m2, shape ()"


def test_scalars_broadcast():
    x = split(np.float64([[1.1, 2.2], [3.3, 4.4]]), 2, "bfloat16")
    assert np.array_equal(grow(x, 0.5).values(), grow(x, np.full((2, 2), 0.5, np.float32)).values())
    assert np.array_equal(expansion.scale(x, 2.0).values(), 2 * x.values())
    row = split(np.float64([1.0, 3.0]), 1, "bfloat16")
    assert multiply(x, row).shape == (2, 2)
    assert len(expansion.add(row, x).parts) == 2


def test_split_stops_where_a_value_overflows_or_is_infinite():
    """There is nothing left of an infinity."""
    parts = split([np.inf, 1e6, -1e9], 2, "e5m2").parts
    assert [part.tolist() for part in parts] == [[np.inf, np.inf, -np.inf], [0.0, 0.0, 0.0]]


test_what_is_no_expansion_is_refused = refusal_test(
    globals(),
    """
Expansion((), "bfloat16")
    ValueError: an Expansion needs at least one part; zeros are Expansion((numpy.zeros(shape),), format)
Expansion((1.0, [1.0]), "bfloat16")
    ValueError: parts of an Expansion have one shape, not () and (1,)
Expansion((1.0, 0.001), "bfloat16")
    ValueError: part 1 has numbers that 'bfloat16' does not have: 1 of 1, the first at index (): 0.001.
    Quantize to 'bfloat16' first, or use split for a sum of several parts
Expansion(np.float32(1.0), "bfloat16")
    TypeError: parts of an Expansion must be a sequence of arrays, such as a tuple, not float32
grow(split([1.0], 1, "bfloat16"), 0.1, check=True)
    ValueError: a has numbers that 'bfloat16' does not have: 1 of 1, the first at index (0,): 0.1.
    Quantize to 'bfloat16' first, or use split for a sum of several parts
split(1.0, 2, "ue4m3")
    ValueError: 'ue4m3' is unsigned, and parts of an expansion have both signs; use a signed format
split(1.0, 0, "bfloat16")
    ValueError: parts=0 of an expansion must be an integer, 1 or more
expansion.add(split(1.0, 2, "bfloat16"), split(1.0, 2, "e4m3fn"))
    ValueError: expansions in 'bfloat16' and 'e4m3fn' have no common format; split(y.values(), 2,
    'bfloat16') has y in the first
""",
)
