"""scale_for(method="mse"): against grids of scales, and against all intervals between which codes change."""

import dataclasses
import math
from fractions import Fraction

import numpy as np
import pytest

import lowprec as lp
from lowprec.arrays.measures import scale_search
from lowprec.arrays.measures.statistics import error_report, scale_for
from lowprec.kernels.scales import NEGLIGIBLE, TOLERANCE, bound_between
from lowprec.methods import fp8
from lowprec.spec import catalog
from lowprec.spec.families import fixed
from tests.support import most_apart

FINITE = lp.Projection(saturation="finite", zero="smallest")
SYMMETRIC = dataclasses.replace(FINITE, symmetric=True)
NARROW = ["int4", "uint4", "int8", "e2m1fn", "e3m2fn", "e4m3fn", "e5m2", "e8m0fnu"]
DATA = {
    "normal": lambda rng: rng.standard_normal(4096),
    "heavy tails": lambda rng: rng.standard_t(2, 500),
    "an outlier": lambda rng: np.append(rng.standard_normal(4096), 40.0),
    "uniform": lambda rng: rng.uniform(-1, 1, 300),
    "integers": lambda rng: rng.integers(-5, 6, 200),
    "many binades": lambda rng: rng.standard_normal(300) * 2.0 ** rng.integers(-30, 5, 300),
    "two": lambda rng: rng.standard_normal(2),
    "one": lambda rng: rng.standard_normal(1),
}


#: The function itself: compiled it is called by kernels alone.
bound_between = getattr(bound_between, "py_func", bound_between)


def errors_of(values, fmt, how, scales):
    """The sums of squared errors of scales, by conversions of few thousand quotients at a time."""
    scales, rows, sums = np.float64(scales)[:, None], max(8000 // values.size, 1), []
    for some in np.split(scales, range(rows, len(scales), rows)):
        with np.errstate(over="ignore"):
            quotients = values / some.astype(np.float32)
        results = lp.quantize(quotients, fmt, projection=how).astype(np.float64)
        sums.append(np.square(values - results * some).sum(axis=1))
    return np.concatenate(sums)


def error_of(values, fmt, how, scale):
    """The sum of squared errors of a scale."""
    return float(errors_of(values, fmt, how, [scale])[0])


def assert_no_better(values, fmt, how, found, others):
    """No other scale is better by more than the docstring says."""
    error, signal = error_of(values, fmt, how, found), float(np.square(values, dtype=np.float64).sum())
    least = errors_of(values, fmt, how, others)
    better = error > least + np.maximum(TOLERANCE * least, 2 * NEGLIGIBLE * signal)
    assert not better.any(), (np.asarray(others)[better], found)


def data(kind, fmt, seed=5, dtype=np.float32):
    values = DATA[kind](np.random.default_rng(seed)).astype(dtype)
    return np.abs(values) if catalog.format(fmt).sign is lp.Sign.UNSIGNED else values


def all_around(usual, count, binades=7):
    """Scales from twice the usual one down."""
    return (2 * float(usual) * 2.0 ** -(np.arange(count) / count * binades)).astype(np.float32)


# -- the least error ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", DATA)
@pytest.mark.parametrize("how", [FINITE, SYMMETRIC], ids=["plain", "symmetric"])
@pytest.mark.parametrize("fmt", most_apart(NARROW, ["int4", "e2m1fn", "e4m3fn", "e8m0fnu"]))
def test_no_scale_of_a_dense_grid_is_better(fmt, how, kind):
    """2,000 scales from twice that of max down, and steps of float32 around the one that is found."""
    values = data(kind, fmt)
    found, usual = scale_for(values, fmt, "mse", projection=how), scale_for(values, fmt)
    near = (np.float32(found).view(np.int32) + np.arange(-20, 21)).astype(np.int32).view(np.float32)
    assert_no_better(values, fmt, how, found, [usual, *all_around(usual, 2000), *near[near > 0]])


@pytest.mark.parametrize("size", [1 << 16, 70_001, 70_007])
@pytest.mark.parametrize("fmt", ["int4", "int8", "e4m3fn"])
def test_long_rows_are_searched_as_short_ones_are(fmt, size):
    """Of these, sums of every eighth place are kept."""
    values = np.random.default_rng(size).standard_normal(size).astype(np.float32)
    found, usual = scale_for(values, fmt, "mse"), scale_for(values, fmt)
    assert_no_better(values, fmt, FINITE, found, all_around(usual, 300, binades=3))


def least_of_intervals(values, fmt):
    """The least error to nearest of all real scales: of each interval in which no code changes."""
    grid = np.unique(lp.decode(np.arange(1 << catalog.format(fmt).width), fmt).astype(np.float64))
    grid = grid[np.isfinite(grid)]
    ties = (grid[1:] + grid[:-1]) / 2
    borders = [x / tie for x in map(float, values) for tie in ties if x * tie > 0]
    borders = np.array(sorted(borders))
    middles = np.append((borders[1:] + borders[:-1]) / 2, [borders[0] / 2, 2 * borders[-1]])
    results = grid[np.searchsorted(ties, values[:, None].astype(np.float64) / middles)]
    cross, own = (values[:, None] * results).sum(axis=0), np.square(results).sum(axis=0)
    scales = np.divide(cross, own, where=own > 0, out=np.ones_like(own))
    # Codes that are not those of this scale have larger errors: no need to clamp it to the interval.
    errors = np.square(values[:, None] - results * scales).sum(axis=0)
    best = errors.argmin()
    return errors[best], scales[best]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("fmt", ["int4", "uint4", "int8", "e2m1fn", "e4m3fn", "e5m2"])
def test_the_least_error_of_all_intervals_is_found(fmt, seed):
    """By the interval: sum(x q) / sum(q q) of its codes is the best scale for them."""
    values = np.random.default_rng(seed).standard_t(3, 12).astype(np.float32)
    values = np.abs(values) if fmt == "uint4" else values
    least, scale = least_of_intervals(values, fmt)
    assert scale < 2 * scale_for(values, fmt)
    signal = np.square(values, dtype=np.float64).sum()
    error = error_of(values, fmt, FINITE, scale_for(values, fmt, "mse"))
    assert error <= least + max(TOLERANCE * least, 2 * NEGLIGIBLE * signal)


@pytest.mark.parametrize("kind", ["normal", "heavy tails", "integers"])
@pytest.mark.parametrize("fmt", ["int4", "int8", "e2m1fn", "e4m3fn"])
def test_the_error_between_two_scales_is_above_the_bound(fmt, kind):
    """Also right up to the scales, where the bound is nearly reached."""
    values, rng = data(kind, fmt).astype(np.float64), np.random.default_rng(1)
    square, usual = float(np.square(values).sum()), float(scale_for(values, fmt))
    for width in (1.5, 1.1, 1.01, 1.001):
        for a in np.float32(usual * rng.uniform(0.3, 1.5, 10)).astype(np.float64):
            b = float(np.float32(a * width))
            at_a, at_b = (error_of(values, fmt, FINITE, each) for each in (a, b))
            bound = bound_between(square, a, at_a, b, at_b)
            inside = np.float32(np.linspace(a, b, 25)).astype(np.float64)
            errors = errors_of(values, fmt, FINITE, inside)
            assert bound <= min(errors) * (1 + 1e-6) + 1e-12 * square
            if width == 1.001:
                assert bound > 0.9 * min(errors) or min(errors) < 1e-5 * square


def test_what_no_scale_does_better_keeps_the_scale_of_max():
    assert scale_for([448.0, 256.0], "e4m3fn", "mse") == 1.0
    assert scale_for([3.3], "int8", "mse") == scale_for([3.3], "int8")


def test_values_on_a_coarser_grid_are_found():
    """Small integers in int4: the scale of max is 5 / 7, and 1 makes no error."""
    values = data("integers", "int4")
    assert scale_for(values, "int4", "mse") == 1.0
    assert error_report(values, "int4", scale=1.0).sqnr == math.inf


def test_a_scale_is_never_worse_than_that_of_max_where_codes_are_symmetric():
    """-8 is no code of fp8.encode: a scale that needs it is not the best."""
    for seed in range(300):
        values = np.random.default_rng(seed).uniform(-1, 1, 300)
        usual, found = (fp8.encode(values, "int4", method=method) for method in ("max", "mse"))
        assert fp8.sqnr(values, found.values(np.float64)) >= fp8.sqnr(values, usual.values(np.float64)), seed
        assert found.scale == scale_for(values, "int4", "mse", projection=SYMMETRIC), seed


def test_the_most_negative_code_is_used_where_it_may_be():
    values = np.float32([-8, -7, 3, 5, -6, 7])
    assert scale_for(values, "int4", "mse") == 1.0
    assert scale_for(values, "int4", "mse", projection=SYMMETRIC) != 1.0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_mse_clips_what_is_not_worth_it(dtype):
    values = data("an outlier", "int4", dtype=dtype)
    largest, best = scale_for(values, "int4"), scale_for(values, "int4", "mse")
    errors = [error_report(values, "int4", scale=scale, saturation="finite").mse for scale in (best, largest)]
    assert best < largest / 3
    assert errors[0] < errors[1] / 2


def test_infinities_and_nans_take_no_part():
    values = data("heavy tails", "int8")
    mixed = np.insert(values, [0, 7, 300, 500], [np.nan, np.inf, -np.inf, np.nan])
    for fmt in ("int4", "e4m3fn", "bfloat16"):
        assert scale_for(mixed, fmt, "mse") == scale_for(values, fmt, "mse")
    positive = np.append(data("uniform", "e8m0fnu"), [np.nan, np.inf]).astype(np.float32)
    assert scale_for(positive, "e8m0fnu", "mse") == scale_for(positive[:-2], "e8m0fnu", "mse")


@pytest.mark.parametrize("size", [1, 100, 70_000])
def test_scales_depend_neither_on_threads_nor_on_parts(size, monkeypatch):
    values = np.random.default_rng(2).standard_normal((30, size)).astype(np.float32)
    want = [scale_for(row, "e4m3fn", "mse") for row in values]
    assert scale_for(values, "e4m3fn", "mse", axis=0)[:, 0].tolist() == want
    monkeypatch.setattr(scale_search, "_SORTED", 7 * size)
    assert scale_for(values, "e4m3fn", "mse", axis=0)[:, 0].tolist() == want


# -- other projections -------------------------------------------------------------------------------

OTHERS = {
    "toward zero": lp.Projection(rounding="toward_zero", saturation="finite"),
    "upwards": lp.Projection(rounding="toward_positive", saturation="finite"),
    "to odd": lp.Projection(rounding="to_odd", saturation="finite"),
    "flushed": lp.Projection(saturation="finite", subnormals="flush_results"),
    "via bfloat16": lp.Projection(saturation="finite", via=(catalog.BFLOAT16,)),
    "ties away": lp.Projection(rounding="nearest_away", saturation="finite"),
    "infinities": lp.Projection(saturation="none"),
    "before": lp.Projection(saturation="none", overflow_test="before"),
}


@pytest.mark.parametrize("kind", ["normal", "heavy tails", "an outlier", "integers", "one"])
@pytest.mark.parametrize("fmt", most_apart(["int4", "e2m1fn", "e4m3fn", "e5m2"], ["int4", "e4m3fn"]))
@pytest.mark.parametrize("how", most_apart(OTHERS, ["toward zero", "flushed", "infinities"]))
def test_scales_are_the_best_for_other_projections(how, fmt, kind):
    """Of the 256 scales a binade that the docstring names, and where results are the nearest, of all."""
    values, how = data(kind, fmt), OTHERS[how]
    found, usual = scale_for(values, fmt, "mse", projection=how), scale_for(values, fmt)
    assert math.isfinite(error_of(values, fmt, how, found))
    others = [usual, *(np.float64(usual) * 2.0 ** (1 - np.arange(3 * 256) / 256)).astype(np.float32)]
    assert_no_better(values, fmt, how, found, others)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_scale_at_which_the_largest_value_just_does_not_overflow_may_be_the_best(sign):
    """Quotients from 5 on are NaN, a little less becomes 4; at 0.18 the others would be exact."""
    fmt = dataclasses.replace(catalog.E2M1FN, name="e2m1 with NaN", nans=1)
    values = sign * np.append(np.full(1000, 0.09), 1.0).astype(np.float32)
    found = scale_for(values, fmt, "mse", saturation="none")
    assert np.isfinite(lp.quantize(values / found, fmt)).all()
    assert not np.isfinite(lp.quantize(values / np.nextafter(found, np.float32(0)), fmt)).all()


WITHOUT_ZERO = {
    "signed": lp.Format(exponent_bits=2, trailing_bits=1, nans=1, subnormals=False),
    "negative too": lp.Codebook("odd", [-7.0, -3.0, -1.0, -0.5, 0.5, 1.0, 3.0, 7.0]),
    "positive": lp.Codebook("positive", [1.0, 1.5, 4.0, 6.0]),
}


@pytest.mark.parametrize("powers", [False, True])
@pytest.mark.parametrize("kind", ["normal", "heavy tails", "uniform"])
@pytest.mark.parametrize("fmt", WITHOUT_ZERO)
def test_smaller_scales_of_formats_without_zero_are_tried(fmt, kind, powers):
    """Try them, as results next to zero come nearer to it with each smaller scale."""
    positive, fmt = fmt == "positive", WITHOUT_ZERO[fmt]
    values = data(kind, "int4")
    values = np.abs(values) if positive else values
    found, usual = scale_for(values, fmt, "mse", power_of_two=powers), scale_for(values, fmt)
    steps = np.arange(6 if powers else 6 * 32) / (1 if powers else 32)
    first = np.exp2(np.ceil(np.log2(usual))) if powers else np.float64(usual)
    assert_no_better(values, fmt, FINITE, found, (first * np.exp2(-steps)).astype(np.float32))


def test_shorthands_are_projections():
    values = data("heavy tails", "int4")
    for words, how in {"toward_zero": OTHERS["toward zero"], "nearest_away": OTHERS["ties away"]}.items():
        want = scale_for(values, "int4", "mse", projection=how)
        assert scale_for(values, "int4", "mse", rounding=words) == want
    assert scale_for(values, "e4m3fn", "mse", saturation="none") == scale_for(
        values, "e4m3fn", "mse", projection=OTHERS["infinities"]
    )
    assert scale_for(values, "e4m3fn", "mse", profile="torch>=2.13") == scale_for(values, "e4m3fn", "mse")


def test_rounding_at_random_counts_as_to_nearest():
    values = data("heavy tails", "int4")
    assert scale_for(values, "int4", "mse", rounding="stochastic(8)") == scale_for(values, "int4", "mse")


# -- powers of two, and wider formats ----------------------------------------------------------------


@pytest.mark.parametrize("kind", DATA)
@pytest.mark.parametrize("fmt", NARROW)
def test_the_best_power_of_two_of_all_is_found(fmt, kind):
    values = data(kind, fmt)
    usual = scale_for(values, fmt, power_of_two=True)
    found = scale_for(values, fmt, "mse", power_of_two=True)
    assert math.frexp(found)[0] == 0.5
    powers = [np.float32(math.ldexp(float(usual), -k)) for k in range(20)]
    best = errors_of(values, fmt, FINITE, powers).min()
    assert error_of(values, fmt, FINITE, found) <= best * (1 + 1e-6)


def test_the_largest_of_equally_good_powers_of_two_is_taken():
    """7.5 becomes 4 * 2, or is clipped to 7 * 1: as far away."""
    assert scale_for([7.5], "int4", "mse", power_of_two=True) == 2.0


def test_the_best_power_of_two_may_lie_far_below_that_of_max():
    """One outlier among 200,000 values of a 300th of it."""
    values = np.append(np.random.default_rng(1).standard_normal(200_000), 300.0).astype(np.float32)
    usual, found = (scale_for(values, "int4", method, power_of_two=True) for method in ("max", "mse"))
    assert found <= usual / 128


def slow_trials(values, fmt, powers):
    """The definition for wide formats, in Fractions but for the quotient, which is the values' type's."""
    largest = scale_for(values, fmt, power_of_two=powers)
    factors = [Fraction(m, 16 << k) for k in range(6) for m in range(16, 8, -1)] + [Fraction(1, 64)]
    factors = [Fraction(1, 1 << k) for k in range(7)] if powers else factors
    best = []
    for factor in factors:
        scale = np.float32(float(Fraction(float(largest)) * factor))
        with np.errstate(over="ignore"):
            got = lp.quantize(values / scale, fmt, saturation="finite")
        terms = [
            Fraction(float(x)) - Fraction(float(q)) * Fraction(float(scale))
            for x, q in zip(values, got, strict=True)
        ]
        best.append((sum(term * term for term in terms), scale))
    return min(best, key=lambda pair: pair[0])[1]


@pytest.mark.parametrize("powers", [False, True])
@pytest.mark.parametrize(
    "fmt", [fixed("int10", 10), "binary16", "bfloat16", fixed("int12f4", 12, 4)], ids=str
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_of_wider_formats_the_best_of_the_scales_that_are_named_is_taken(fmt, powers, dtype):
    """Heavy tails, so that clipping pays."""
    values = np.random.default_rng(3).standard_t(2, 60).astype(dtype)
    assert scale_for(values, fmt, "mse", power_of_two=powers) == slow_trials(values, fmt, powers)


def test_formats_that_binary32_does_not_hold_are_tried_too():
    wide = dataclasses.replace(catalog.E5M2, name="e5m2 far down", bias=160)
    values = data("normal", "e5m2", dtype=np.float64) * 2.0**-140
    found = scale_for(values, wide, "mse")
    assert error_of(values, wide, FINITE, found) <= error_of(values, wide, FINITE, scale_for(values, wide))


# -- codebooks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["normal", "heavy tails", "an outlier", "integers", "two"])
@pytest.mark.parametrize("fmt", ["posit8", "hif8", "nf4", "dynamic8"])
def test_of_codebooks_no_power_of_two_is_better_nor_any_scale_around_the_best(fmt, kind):
    values = data(kind, fmt)
    usual, found = scale_for(values, fmt), scale_for(values, fmt, "mse")
    binades = np.ldexp(1.0, np.arange(-8, 9))
    steps = 2.0 ** np.linspace(-1, 1, 60)
    others = np.concatenate(
        [[usual], usual * np.ldexp(1.0, np.arange(-4, 60)), found * binades, found * steps]
    )
    others = others.astype(np.float32)
    others = others[(others > 0) & (others < np.inf)]
    least = errors_of(values, fmt, FINITE, others).min()
    assert (
        error_of(values, fmt, FINITE, found) <= 1.03 * least
    )  # 256 scales a binade, of rounding not to nearest
    power = scale_for(values, fmt, "mse", power_of_two=True)
    assert math.frexp(power)[0] == 0.5
    powers = math.ldexp(1.0, math.frexp(usual)[1]) * np.ldexp(1.0, np.arange(-8, 60))
    assert error_of(values, fmt, FINITE, power) <= errors_of(values, fmt, FINITE, np.float32(powers)).min()


@pytest.mark.parametrize("kind", ["normal", "integers", "two", "one"])
@pytest.mark.parametrize("fmt", ["nf4", "fp4_bnb", "dynamic8", "udynamic8", "hif8"])
def test_limits_that_are_rounded_middles_have_the_bound_of_middles(fmt, kind):
    """The limits of bitsandbytes' codebooks are float32 numbers next to the middles."""
    values = data(kind, fmt)
    found = scale_for(values, fmt, "mse")
    near = found * np.concatenate([np.linspace(0.8, 1.25, 2000), np.linspace(0.999, 1.001, 200)])
    assert_no_better(values, fmt, FINITE, found, near.astype(np.float32))


@pytest.mark.parametrize(
    ("fmt", "values", "decibels"), [("udynamic8", [1000, 3, 2], 100), ("dynamic8", [-1], 120)]
)
def test_few_values_are_found_in_dynamic_codebooks(fmt, values, decibels):
    values = np.float32(values)
    scale = scale_for(values, fmt, "mse")
    assert lp.error_report(values, fmt, scale=scale, saturation="finite").sqnr > decibels


@pytest.mark.parametrize(
    "fmt", ["posit8", "takum8", "posit16", pytest.param("takum16", marks=pytest.mark.apart)]
)
def test_tapered_formats_have_their_best_scales_far_above_that_of_max(fmt):
    """So that magnitudes lie around 1, where their values are densest."""
    values = np.random.default_rng(2).standard_normal((3, 500)).astype(np.float32) * [[1e-3], [1.0], [1e3]]
    values = values.astype(np.float32)
    usual, found = (scale_for(values, fmt, method, axis=0) for method in ("max", "mse"))
    assert (found > 1000 * usual).all()
    plain = lp.error_report(values[1], fmt, scale=np.float32(1)).sqnr
    assert lp.error_report(values[1], fmt, scale=found[1, 0]).sqnr > plain - 0.2


def test_rows_of_zeros_keep_the_scale_of_max_in_codebooks_too():
    assert scale_for(np.zeros((2, 5), np.float32), "posit8", "mse", axis=0).tolist() == [[1.0], [1.0]]
    assert scale_for(np.float32([0.0, 2.0]), "posit8", "mse") == scale_for(np.float32([0.0, 2.0]), "posit8")
