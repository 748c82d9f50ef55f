"""scale_for and error_report: against their definitions in exact arithmetic, and published numbers."""

import dataclasses
import itertools
import json
import math
import pickle
import re
from fractions import Fraction

import dask.array as da
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, strategies as st

import lowprec as lp
from lowprec.arrays.measures import statistics
from lowprec.arrays.measures.statistics import ErrorReport, error_report, scale_for
from lowprec.spec import catalog
from lowprec.spec.codebooks import CODEBOOKS
from lowprec.spec.families import fixed
from tests.support import refusal_test

RNG = np.random.default_rng(7)
FORMATS = [
    catalog.E4M3FN,
    catalog.E5M2,
    catalog.E2M1FN,
    catalog.INT8,
    catalog.INT4,
    catalog.INT8F6,
    catalog.BFLOAT16,
]
FORMATS += [catalog.BINARY32, catalog.E8M0FNU, fixed("int32", 32), fixed("fine", 8, 20)]
FLOAT32_MAX = float(np.finfo(np.float32).max)


def assert_smallest(scale, amax, fmt):
    """The scale holds amax, and float32's next smaller number does not."""
    most = Fraction(fmt.max_finite)
    below = float(np.nextafter(np.float32(scale), np.float32(0)))
    assert Fraction(float(scale)) * most >= Fraction(amax) > Fraction(below) * most


# -- scales: the largest magnitude -------------------------------------------------------------------


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
@given(amax=st.one_of(st.floats(2.0**-140, 2.0**100, width=32), st.floats(2.0**-140, 2.0**100)))
def test_the_scale_of_max_is_the_smallest_that_holds_the_largest_value(fmt, amax):
    """By Fractions: a scale one step smaller would clip."""
    scale = scale_for(np.float64(amax), fmt)
    assert isinstance(scale, np.float32)
    assert_smallest(scale, amax, fmt)


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
@pytest.mark.parametrize("scale", [1.0, 0.1, 2.0**-120, 1 / 3, 2.0**-149, 5 * 2.0**-149, 1.0 - 2.0**-24])
def test_scales_are_exact_where_the_quotient_is_a_float32_number_and_beside_it(fmt, scale):
    """There float64's quotient alone cannot tell which of two neighbours is right."""
    amax = float(np.float32(scale)) * fmt.max_finite
    for value in (np.nextafter(amax, 0), amax, np.nextafter(amax, np.inf)):
        assert_smallest(scale_for(value, fmt), float(value), fmt)


def test_a_float64_quotient_that_rounds_onto_a_float32_number_is_seen_through():
    """Largest values just above scale * max_finite whose quotient in float64 is the scale itself."""
    fmt, seen = fixed("int32", 32), 0
    for scale in np.float32(1) / np.arange(3, 99, 2, dtype=np.float32):
        exact = Fraction(float(scale)) * Fraction(fmt.max_finite)
        amax = np.float64(float(exact))
        amax = amax if Fraction(float(amax)) > exact else np.nextafter(amax, np.inf)
        if amax / fmt.max_finite == scale:
            seen += 1
            assert scale_for(amax, fmt) == np.nextafter(scale, np.float32(1))
    assert seen > 9


@pytest.mark.parametrize("fmt", [catalog.E4M3FN, catalog.INT8, catalog.INT4, catalog.E5M2], ids=str)
@given(
    values=st.lists(st.floats(-(2.0**60), 2.0**60, width=32, allow_subnormal=False), min_size=1, max_size=8)
)
def test_nothing_is_clipped_by_the_scale_of_max(fmt, values):
    """Also after the quotient is rounded to float32."""
    values = np.array(values, np.float32)
    quotients = values / scale_for(values, fmt)
    assert np.abs(quotients).max() <= fmt.max_finite
    assert np.isfinite(lp.quantize(quotients, fmt)).all()


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
@given(amax=st.floats(2.0**-100, 2.0**100))
def test_powers_of_two_are_rounded_up(fmt, amax):
    """Half of it would be too small."""
    scale = float(scale_for(np.float64(amax), fmt, power_of_two=True))
    assert math.frexp(scale)[0] == 0.5
    most = Fraction(fmt.max_finite)
    assert Fraction(scale) * most >= Fraction(amax)
    if scale > 2.0**-149:
        assert Fraction(scale) / 2 * most < Fraction(amax)


def test_a_power_of_two_stays_what_it_is():
    assert scale_for([448.0 * 2**-9], "e4m3fn", power_of_two=True) == 2.0**-9
    assert scale_for([127.0], "int8", power_of_two=True) == 1.0
    assert scale_for([127.5], "int8", power_of_two=True) == 2.0
    assert scale_for([2.0**-149], "e4m3fn", power_of_two=True) == 2.0**-149


@pytest.mark.parametrize("method", statistics.METHODS)
def test_values_without_magnitude_have_scale_1(method):
    values = np.array([[0.0, -0.0], [np.nan, np.inf], [np.nan, 0.0], [3.0, -np.inf]], np.float32)
    got = scale_for(values, "int8", method, axis=0)
    assert got[:3].tolist() == [[1.0], [1.0], [1.0]]
    assert got[3] == scale_for([3.0], "int8", method)
    assert scale_for(np.empty(0), "int8", method) == 1.0
    assert scale_for(np.empty((3, 0)), "int8", method, axis=0).tolist() == [[1.0], [1.0], [1.0]]
    assert scale_for(np.empty((0, 3)), "int8", method, axis=0).shape == (0, 1)
    assert scale_for(np.empty((0, 3)), "int8", method, axis=1).tolist() == [[1.0, 1.0, 1.0]]


TYPES = [
    np.float16, ml_dtypes.bfloat16, np.float32, np.float64, np.int8, np.int16, np.int32, np.int64,
    np.uint8,
]  # fmt: skip
TYPES += [ml_dtypes.float8_e4m3fn, ml_dtypes.int4, ">f4", ">i2"]


@pytest.mark.parametrize("dtype", TYPES, ids=lambda item: np.dtype(item).str + np.dtype(item).name)
@pytest.mark.parametrize("method", statistics.METHODS)
def test_every_type_of_values_gives_what_its_values_give_in_float64(dtype, method):
    values = np.array([[1, -7, 3, 0, 2], [5, 2, -2, 1, 1]], np.float32).astype(dtype)
    wide = values.astype(np.float64)
    assert (
        scale_for(values, "int4", method, axis=0).tolist() == scale_for(wide, "int4", method, axis=0).tolist()
    )


def test_the_most_negative_integer_counts_by_its_magnitude():
    assert_smallest(scale_for(np.array([-128, 3], np.int8), "int8"), 128.0, catalog.INT8)
    assert_smallest(scale_for(np.array([-(2**63)], np.int64), "int8"), 2.0**63, catalog.INT8)


# -- scales: channels --------------------------------------------------------------------------------

TENSOR = RNG.standard_normal((3, 4, 5)).astype(np.float32)
TENSOR[1, 2, 3] = np.nan


@pytest.mark.parametrize("method", statistics.METHODS)
@pytest.mark.parametrize("axis", [0, 1, -1, (0, 2), (2, 0), (-2,), (0, 1, 2), ()])
@pytest.mark.parametrize("layout", ["c", "f", "transposed", "strided"])
def test_channels_keep_the_axes_that_are_named(method, axis, layout):
    """Each scale is that of its channel's values alone, whatever the layout."""
    values = {
        "c": TENSOR,
        "f": np.asfortranarray(TENSOR),
        "transposed": TENSOR.transpose(2, 0, 1),
        "strided": np.repeat(TENSOR, 2, axis=1)[:, ::-2],
    }[layout]
    kept = {item % 3 for item in ((axis,) if isinstance(axis, int) else axis)}
    got = scale_for(values, "int8", method, axis=axis, percentile=80)
    assert got.shape == tuple(length if place in kept else 1 for place, length in enumerate(values.shape))
    assert got.dtype == np.float32
    for index in np.ndindex(got.shape):
        channel = values[tuple(item if place in kept else slice(None) for place, item in enumerate(index))]
        assert got[index] == scale_for(channel, "int8", method, percentile=80)
    assert (values / got).shape == values.shape


@pytest.mark.parametrize("method", statistics.METHODS)
@pytest.mark.parametrize("axis", [None, 0, 1, (0, 1)])
def test_scales_do_not_depend_on_the_parts_that_are_worked_on(method, axis, monkeypatch):
    """float64 adds these squared errors exactly; the last part alone would ask for other scales."""
    values = RNG.integers(-100, 100, (7, 37)).astype(np.float32)
    values[-1], values[:, 30:] = 2, 1
    want = scale_for(values, "int4", method, axis=axis, power_of_two=True)
    monkeypatch.setattr(statistics, "_PART", 10)
    got = scale_for(values, "int4", method, axis=axis, power_of_two=True)
    assert np.array_equal(got, want)


# -- scales: percentiles and squared errors ----------------------------------------------------------


@pytest.mark.parametrize("percentile", [99.9, 50, 12.5, 100, 1])
def test_percentiles_are_those_of_numpy_over_finite_magnitudes(percentile):
    values = RNG.standard_normal((5, 33)).astype(np.float32)
    values[1, 3], values[1, 9], values[4] = np.nan, -np.inf, np.nan
    got = scale_for(values, "int8", "percentile", axis=0, percentile=percentile)
    for row, scale in zip(values[:4], got[:4, 0], strict=True):
        magnitudes = np.abs(row[np.isfinite(row)]).astype(np.float64)
        assert_smallest(scale, float(np.percentile(magnitudes, percentile)), catalog.INT8)
    assert got[4, 0] == 1.0


def test_where_the_percentile_is_zero_the_largest_value_counts():
    values = np.zeros(1000, np.float32)
    values[3] = 12.7
    assert scale_for(values, "int8", "percentile", percentile=50) == scale_for(values, "int8")


def test_the_limits_of_float32_are_scales():
    """The power of two above the largest is not."""
    assert scale_for([FLOAT32_MAX * 127], "int8") == np.float32(FLOAT32_MAX)
    with pytest.raises(ValueError, match="float32 does not hold"):
        scale_for([FLOAT32_MAX * 127], "int8", power_of_two=True)
    assert scale_for([2.0**-149], "int8") == np.float32(2.0**-149)


# -- reports -----------------------------------------------------------------------------------------


def slow_report(values, results, limits):
    """The definitions, one value after the other, in Fractions until the logarithm."""
    pairs = [(float(x), float(q), limit) for x, q, limit in zip(values, results, limits, strict=True)]
    finite = [pair for pair in pairs if math.isfinite(pair[0])]
    known = [(Fraction(x), Fraction(q)) for x, q, _ in finite if math.isfinite(q)]
    errors = [q - x for x, q in known]
    noise, signal = sum(e * e for e in errors), sum(x * x for x, _ in known)
    non_zero = [(x, q) for x, q, _ in finite if x != 0]
    return {
        "size": len(pairs),
        "non_finite": len(pairs) - len(finite),
        "lost": len(finite) - len(known),
        "sqnr": 10 * math.log10(signal / noise) if noise else math.inf,
        "mse": float(noise / len(known)),
        "max_abs_error": float(max(map(abs, errors))),
        "mean_error": float(sum(errors) / len(known)),
        "clipped": sum(x < low or x > high for x, _, (low, high) in finite) / len(finite),
        "flushed": sum(q == 0 for _, q in non_zero) / len(non_zero),
        "zeros": 1 - len(non_zero) / len(finite),
    }


def assert_reports(got, want):
    """Counts, shares and the largest error exactly; what is a sum of floats to 12 digits."""
    for name, value in want.items():
        inexact = name in ("sqnr", "mse", "mean_error", "zeros")
        assert getattr(got, name) == (pytest.approx(value, rel=1e-12, abs=1e-15) if inexact else value), name


VALUES = (RNG.standard_normal((6, 40)) * 2.0 ** RNG.integers(-6, 9, (6, 40))).astype(np.float32)
VALUES[0, :3], VALUES[1, 5], VALUES[2, 7] = 0.0, np.nan, -np.inf


@pytest.mark.parametrize("fmt", ["e4m3fn", "e5m2", "bfloat16", "int8", "e2m1fn", "int8f6"])
@pytest.mark.parametrize("keywords", [{}, {"saturation": "finite"}, {"rounding": "toward_zero"}], ids=str)
def test_reports_of_single_values_are_what_the_definitions_say(fmt, keywords):
    known = catalog.format(fmt)
    results = lp.quantize(np.where(np.isfinite(VALUES), VALUES, 0), fmt, **keywords)
    limits = [(known.min_finite, known.max_finite)] * VALUES.size
    got = error_report(VALUES, fmt, **keywords)
    assert_reports(got, slow_report(VALUES.flat, results.flat, limits))
    assert got.by_block is got.clipped_blocks is got.worst_block is None


@pytest.mark.parametrize("fmt", ["int8", "e4m3fn", "int4"])
def test_reports_with_scales_are_of_quotients_and_products(fmt):
    known = catalog.format(fmt)
    scale = scale_for(VALUES, fmt, "percentile", axis=0, percentile=90)
    clean = np.where(np.isfinite(VALUES), VALUES, 0)
    results = lp.quantize(clean / scale, fmt, saturation="finite").astype(np.float64) * scale
    each = np.broadcast_to(scale, VALUES.shape)
    limits = [(float(s) * known.min_finite, float(s) * known.max_finite) for s in each.flat]
    assert_reports(
        error_report(VALUES, fmt, scale=scale, saturation="finite"),
        slow_report(VALUES.flat, results.flat, limits),
    )


BLOCKS = ["mxfp4", "mxfp8_e4m3", "mxint8", "nvfp4", "fp8_block_1x128"]


def assert_report_of_blocks(values, fmt, axes, **keywords):
    blocks = lp.encode(values, fmt, axis=axes, **keywords)
    got = error_report(values, fmt, axis=axes, **keywords)
    results = blocks.values(np.float64)
    scales = lp.decode(blocks.scales, blocks.format.scale).astype(np.float64) * float(
        blocks.tensor_scale or 1
    )
    element = blocks.format.element
    low = -element.max_finite if blocks.format.elements.symmetric else element.min_finite
    places = {axis: size for axis, size in zip(blocks.axes, blocks.format.sizes, strict=True)}
    by_block = {}
    limits = []
    for index in np.ndindex(values.shape):
        block = tuple(item // places.get(axis, 1) for axis, item in enumerate(index))
        limits.append((scales[block] * low, scales[block] * element.max_finite))
        by_block.setdefault(block, []).append(index)
    assert_reports(got, slow_report(values.flat, results.flat, limits))
    assert got.by_block.shape == blocks.scales.shape
    clipped = dict(zip(np.ndindex(values.shape), limits, strict=True))
    reached = 0
    for block, indices in by_block.items():
        known = [index for index in indices if np.isfinite(values[index]) and np.isfinite(results[index])]
        signal = sum(Fraction(float(values[index])) ** 2 for index in known)
        noise = sum((Fraction(float(values[index])) - Fraction(results[index])) ** 2 for index in known)
        want = math.nan if not known else math.inf if not noise else 10 * math.log10(signal / noise)
        assert got.by_block[block] == pytest.approx(want, rel=1e-12, nan_ok=True)
        reached += any(
            np.isfinite(values[index])
            and (values[index] < clipped[index][0] or values[index] > clipped[index][1])
            for index in indices
        )
    assert got.clipped_blocks == reached / len(by_block)
    assert got.worst_block == np.nanmin(got.by_block)
    return got


@pytest.mark.parametrize("fmt", BLOCKS)
@pytest.mark.parametrize("axis", [0, 1])
def test_reports_of_blocks_are_what_the_definitions_say(fmt, axis):
    """Ragged along both axes; one block has a NaN, one an infinity, and lose their other values."""
    assert assert_report_of_blocks(VALUES, fmt, axis).non_finite == 2


def test_reports_of_tiles_of_two_axes_are_what_the_definitions_say():
    values = RNG.standard_normal((20, 3, 37)).astype(np.float32)
    assert assert_report_of_blocks(values, "nvfp4_2d", (0, 2)).by_block.shape == (2, 3, 3)
    assert assert_report_of_blocks(values, "nvfp4_2d", (2, 0)).by_block.shape == (2, 3, 3)


@pytest.mark.parametrize(
    "keywords",
    [
        {"rule": "rceil"},
        {"profile": "torchao_even"},
        {"rounding": "toward_zero"},
        {"rounding": "stochastic(8)", "rng": 1},
    ],
    ids=str,
)
def test_keywords_reach_the_blocks(keywords):
    clean = np.where(np.isfinite(VALUES), VALUES, 1)
    got = assert_report_of_blocks(clean, "mxfp4", 1, **keywords)
    assert got != error_report(clean, "mxfp4")
    if "rule" in keywords:
        assert got.clipped == got.clipped_blocks == 0


@pytest.mark.parametrize("size", [1, 7, 8, 15, 100, 128, 129, 200, 1000, 1031, 4099, 100_000])
def test_sums_are_those_of_numpy_to_the_bit(size):
    """Of one part: kernels add the same terms in the same order."""
    values = np.random.default_rng(size).standard_normal(size).astype(np.float32)
    errors = lp.quantize(values, "e4m3fn").astype(np.float64) - values
    squares, noises = np.square(values.astype(np.float64)), np.square(errors)
    got = error_report(values, "e4m3fn")
    assert (got.mse, got.mean_error) == (noises.sum() / size, errors.sum() / size)
    assert got.sqnr == 10 * np.log10(squares.sum() / noises.sum())


@pytest.mark.parametrize("fmt", ["mxfp4", "nvfp4", "fp8_block_1x128", "mxint8"])
@pytest.mark.parametrize("shape", [(6, 256), (3, 5, 200), (4, 2048)], ids=str)
def test_sums_of_blocks_are_those_of_numpy_to_the_bit(fmt, shape):
    """Also where blocks end with the row."""
    values = np.random.default_rng(3).standard_normal(shape).astype(np.float32)
    results = lp.encode(values, fmt).values(np.float64)
    size, got = catalog.block_format(fmt).sizes[0], error_report(values, fmt)
    noises, squares = np.square(results - values), np.square(values.astype(np.float64))
    assert got.mse == noises.sum() / values.size
    starts = np.arange(0, shape[-1], size)
    noise, signal = (np.add.reduceat(each, starts, axis=-1) for each in (noises, squares))
    assert got.by_block.tobytes() == (10 * np.log10(signal / noise)).tobytes()


def test_the_order_in_memory_changes_nothing():
    values = np.random.default_rng(3).standard_normal((40, 96)).astype(np.float32)
    for fmt in ("e4m3fn", "mxfp4"):
        want = error_report(values, fmt)
        assert error_report(np.asfortranarray(values), fmt) == want
        assert error_report(np.repeat(values, 2, axis=1)[:, ::2], fmt) == want


@pytest.mark.parametrize("part", [1, 64, 200])
@pytest.mark.parametrize("fmt", ["e4m3fn", "mxfp4", "nvfp4", "nvfp4_2d"])
def test_reports_do_not_depend_on_the_parts_that_are_worked_on(fmt, part, monkeypatch):
    """All but the last digits of sums."""
    values = RNG.standard_normal((2, 17, 37)).astype(np.float32)
    want = error_report(values, fmt)
    monkeypatch.setattr(statistics, "_PART", part)
    got = error_report(values, fmt)
    inexact = {name: pytest.approx(getattr(want, name), rel=1e-12) for name in ("sqnr", "mse", "mean_error")}
    assert dataclasses.asdict(got) | {"by_block": 0} == dataclasses.asdict(want) | {"by_block": 0} | inexact
    if want.by_block is not None:
        assert got.by_block.tobytes() == want.by_block.tobytes()


def test_stochastic_reports_are_of_the_integers_given(monkeypatch):
    """Whatever the parts: the integers belong to places."""
    values = RNG.standard_normal((40, 5)).astype(np.float32)
    random = lp.random_bits(values.shape, 5, 8)
    monkeypatch.setattr(statistics, "_PART", 16)
    got = error_report(values, "e4m3fn", rounding="stochastic(8)", random=random)
    error = lp.quantize(values, "e4m3fn", rounding="stochastic(8)", random=random) - values.astype(np.float64)
    assert got.max_abs_error == np.abs(error).max()
    assert got == error_report(values, "e4m3fn", rounding="stochastic(8)", rng=5)


@pytest.mark.parametrize(
    ("fmt", "dtype"),
    [
        *itertools.product(["e4m3fn", "int8"], TYPES),
        *itertools.product(["mxfp4"], [np.float16, np.int32, ">f4"]),
    ],
    ids=lambda item: (
        item if item in ("e4m3fn", "int8", "mxfp4") else np.dtype(item).str + np.dtype(item).name
    ),
)
def test_every_type_of_values_reports_what_its_values_report_in_float64(fmt, dtype):
    values = np.array([[1, -7, 3, 0, 2], [5, 2, -2, 1, 1]], np.float32).astype(dtype)
    assert error_report(values, fmt) == error_report(values.astype(np.float64), fmt)


def test_values_are_quantized_in_their_own_type():
    """What is a subnormal operand depends on it."""
    tiny = np.array([2.0**-20, 1.0], np.float16)
    flush = lp.Projection(subnormals="flush_operands")
    assert error_report(tiny, "bfloat16", projection=flush).flushed == 0.5
    assert error_report(tiny.astype(np.float32), "bfloat16", projection=flush).flushed == 0.0


def test_values_that_overflow_are_lost_and_clipped():
    got = error_report([1000.0, 460.0, 2.0, np.nan], "e4m3fn")
    assert (got.size, got.non_finite, got.lost, got.max_abs_error) == (4, 1, 1, 12.0)
    assert got.clipped == 2 / 3
    assert error_report([1000.0], "e4m3fn", saturation="finite").mse == 552.0**2


def test_zeros_below_the_smallest_value_are_not_clipped():
    """The format has no zero; what it makes of one is lost, or an error."""
    got = error_report([0.0, 1.0], "e8m0fnu")
    assert (got.lost, got.clipped) == (1, 0.0)
    zeros = error_report([0.0], "e8m0fnu", projection=lp.Projection(zero="smallest"))
    assert (zeros.sqnr, zeros.max_abs_error) == (-math.inf, 2.0**-127)


@pytest.mark.parametrize("values", [np.empty(0), np.empty((3, 0), np.float32), np.full(3, np.nan)], ids=str)
@pytest.mark.parametrize("fmt", ["e4m3fn", "mxfp4"])
def test_nothing_has_no_errors_and_no_shares(values, fmt):
    got = error_report(values, fmt)
    assert math.isnan(got.sqnr)
    assert math.isnan(got.mse)
    assert math.isnan(got.mean_error)
    assert math.isnan(got.max_abs_error)
    assert got.clipped == got.flushed == got.zeros == 0.0
    assert got.worst_block is None
    assert json.loads(json.dumps(got.as_dict(), allow_nan=False))["sqnr"] is None


@pytest.mark.parametrize("fmt", ["e4m3fn", "int8", "mxfp4", "mxint8", "msfp16"])
def test_what_is_exact_has_no_noise(fmt):
    """All zeros, too."""
    for values in (np.zeros((2, 40), np.float32), np.tile(np.float32([1, 2, -1, 0]), (2, 40))):
        got = error_report(values, fmt)
        assert (got.sqnr, got.mse, got.max_abs_error, got.clipped, got.flushed) == (
            math.inf,
            0.0,
            0.0,
            0.0,
            0.0,
        )
        assert got.zeros == (1.0 if not values.any() else 0.25)
        assert got.by_block is None or (got.by_block == math.inf).all()


def test_a_single_number_has_a_report():
    got = error_report(np.float32(3.3), "int8", scale=0.5)
    assert (got.size, got.max_abs_error) == (1, float(np.float32(3.5) - np.float32(3.3)))


# -- published numbers -------------------------------------------------------------------------------

NORMAL = np.random.default_rng(0).standard_normal((4096, 1024)).astype(np.float32)


@pytest.mark.parametrize(
    ("fmt", "rule", "sqnr", "blocks"),
    [
        ("mxfp8_e4m3", "floor", 30.651, 0.169),
        ("mxfp4", "floor", 18.789, 0.295),
        ("mxfp4", "even", 19.027, None),
        ("mxfp6_e2m3", "floor", 30.942, 0.094),
        ("mxint8", "rceil", 41.611, 0.0),
    ],
)
def test_signal_to_noise_of_normal_values(fmt, rule, sqnr, blocks):
    """Against a separate implementation, to 0.002 dB; shares of blocks whose largest value is clipped."""
    got = error_report(NORMAL, fmt, rule=rule)
    assert abs(got.sqnr - sqnr) < 0.002
    assert blocks is None or round(got.clipped_blocks, 3) == blocks


def test_the_code_of_the_most_negative_integer_takes_values_beyond_the_largest():
    """1.3 % of blocks are clipped where it is left unused, half as many where it is not."""
    whole = dataclasses.replace(catalog.MXINT8, elements=lp.Projection(saturation="finite"))
    assert round(error_report(NORMAL, "mxint8").clipped_blocks, 3) == 0.013
    assert 0.006 < error_report(NORMAL, whole).clipped_blocks < 0.007


# -- text and JSON -----------------------------------------------------------------------------------


def test_a_report_reads_as_a_table():
    report = ErrorReport(
        "mxfp4", 4096, 1, 31, 18.789, 0.0132, 0.5, -1.25e-5, 0.0234, 0.07, 0.5, 0.295, np.full(1, 7.0)
    )
    assert str(report).splitlines() == [
        "mxfp4: 4,096 values in 1 block",
        "  SQNR           18.79 dB; of the worst block 7.00 dB",
        "  mean square    0.0132",
        "  largest error  0.5",
        "  mean error     -1.25e-05",
        "  clipped        2.3%, in 29.5% of blocks",
        "  flushed        7.0% of non-zero values",
        "  zeros          50.0%",
        "  left out       1 NaN or infinite, 31 that became so",
    ]
    assert "by_block" not in repr(report)


def test_a_report_is_a_dictionary_for_json():
    got = error_report(np.arange(64, dtype=np.float32), "mxfp8_e4m3").as_dict()
    assert json.loads(json.dumps(got, allow_nan=False)) == got
    assert set(got) == {field.name for field in dataclasses.fields(ErrorReport)} - {"by_block"} | {
        "worst_block"
    }
    assert error_report([1.0], "e4m3fn").as_dict()["sqnr"] is None


@pytest.mark.parametrize("method", ["max", "percentile", "mse"])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_scales_of_transposed_arrays_are_those_of_copies(method, axis):
    values = np.random.default_rng(4).standard_normal((90, 40)).astype(np.float32).T
    found = lp.scale_for(values, "e4m3fn", method=method, axis=axis)
    assert np.array_equal(found, lp.scale_for(values.copy("C"), "e4m3fn", method=method, axis=axis))


@pytest.mark.parametrize("name", [*catalog.FORMATS, *CODEBOOKS])
def test_the_default_method_is_never_far_from_the_best(name):
    """Within 4 dB of the least error of all, where a format has more than two bits."""
    fmt = catalog.format(name)
    values = np.random.default_rng(4).standard_normal(1000).astype(np.float32)
    values = np.abs(values) if fmt.min_finite >= 0 else values
    usual, best = (
        error_report(values, fmt, scale=scale_for(values, fmt, *method), saturation="finite").sqnr
        for method in ((), ("mse",))
    )
    assert usual >= best - (8 if fmt.width == 2 else 4)


def test_the_default_is_the_largest_value_except_where_steps_are_widest_there():
    values = np.random.default_rng(4).standard_normal(100)
    tapered = [
        name
        for name in (*catalog.FORMATS, *CODEBOOKS)
        if catalog.format(name).min_finite < 0 and scale_for(values, name) != scale_for(values, name, "max")
    ]
    posits, takums = ["posit8", "posit16"], ["takum8", "takum16", "takum_linear8", "takum_linear16"]
    assert tapered == [*posits, *takums, "hif8"]
    for name in tapered:
        assert scale_for(values, name) == scale_for(values, name, "mse")


@pytest.mark.parametrize("shape", [(), (3,), (10,), (1, 5), (5, 2)])
def test_reports_refuse_random_integers_of_another_shape(shape):
    with pytest.raises(ValueError, match=re.escape(f"random has shape {shape}, but needs (5,)")):
        error_report(np.ones(5), "e4m3fn", rounding="stochastic(8)", random=np.zeros(shape, np.uint32))


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("number", [2**53 + 1, 2**60 + 1, -(2**60) - 1, 2**63, 2**64 - 1, 2**64 - 2**10, 3])
def test_scales_of_integers_clip_nothing_in_exact_arithmetic(number, lazy):
    """And those below clip: also where float64 does not hold the largest one."""
    values = np.array([[number], [1]], np.uint64 if number >= 2**63 else np.int64)
    given = da.from_array(values, chunks=1) if lazy else values
    for fmt in ("int2", "e4m3fn", "int8"):
        scale = np.float32(np.asarray(scale_for(given, fmt)))
        least, most = np.nextafter(scale, np.float32(0)), Fraction(lp.format(fmt).max_finite)
        assert Fraction(float(least)) * most < abs(number) <= Fraction(float(scale)) * most


@pytest.mark.parametrize("method", ["max", "mse"])
@pytest.mark.parametrize("given", ["no", 2, b"x", np.array([True, False]), None])
def test_power_of_two_is_true_or_false(method, given):
    with pytest.raises(TypeError, match=r"^power_of_two must be True or False, not "):
        scale_for([1.0, 3.0], "int8", method, power_of_two=given)
    assert scale_for([1.0, 3.0], "int8", method, power_of_two=np.True_) == 2.0**-5


@pytest.mark.parametrize("percentile", ["50", None, [50, 60]])
def test_percentiles_are_numbers(percentile):
    with pytest.raises(TypeError, match=r"^percentile must be a number, not "):
        scale_for([1.0, 3.0], "int8", "percentile", percentile=percentile)


@pytest.mark.parametrize("axis", [1.0, "k", (0, 0), 5])
def test_axes_of_scales_are_refused_by_name(axis):
    with pytest.raises((TypeError, ValueError), match="axis"):
        scale_for(np.ones((2, 3)), "int8", axis=axis)


@pytest.mark.parametrize("name", ["e4m3fn", "mxfp4"])
def test_errors_whose_squares_float64_lacks_are_not_called_exact(name):
    assert np.isnan(lp.error_report(np.full(2, 1e-200), name).sqnr)
    assert lp.error_report(np.full(2, 1e-150), name).sqnr == 0
    assert lp.error_report(np.zeros(2), name).sqnr == np.inf


def test_values_whose_squares_float64_lacks_are_not_called_exact():
    """Give a number where squares of errors are in the range of float64."""
    wide = lp.Format(exponent_bits=11, trailing_bits=20, bias=1024)
    assert np.isnan(lp.error_report([1e155 * (1 + 2.0**-30)], wide).sqnr)
    assert lp.error_report([2.0**520], wide).sqnr == np.inf


@pytest.mark.parametrize("values", [[], [1.0, 2.3]])
def test_reports_are_equal_to_their_pickles(values):
    """Compare nan as equal, and leave `by_block` out."""
    report = lp.error_report(values, "mxfp4")
    copied = pickle.loads(pickle.dumps(report))
    assert copied == report
    assert {report, copied} == {report}
    assert report != lp.error_report([1.5, 2.3], "mxfp4")
    assert report != repr(report)


@pytest.mark.parametrize("name", ["e4m3fn", "mxfp4"])
def test_reports_on_no_values_take_no_time_however_long_their_axes(name):
    report = lp.error_report(np.empty((0, 1 << 50), np.int8), name)
    assert (report.size, report.clipped) == (0, 0)


@pytest.mark.parametrize("axis", [True, np.True_, (True, 0), [False]])
def test_truth_values_are_no_axes(axis):
    """True would be axis 1, as Python counts."""
    with pytest.raises(TypeError) as refused:
        scale_for(np.ones((2, 4), np.float32), "int8", axis=axis)
    assert str(refused.value) == f"axis must be an integer or a tuple of them, not {axis!r}"


test_what_cannot_be_is_refused = refusal_test(
    globals(),
    """
scale_for([1.0], "mxfp4")
    ValueError: 'mxfp4' is a block format, whose scales follow from the values of each block: use
    lowprec.encode(values, 'mxfp4', axis=...)
scale_for([1.0], "int8", "minimum")
    ValueError: unknown method 'minimum' of a scale; use one of max, percentile, mse
scale_for([1.0], "int8", percentile=101)
    ValueError: percentile=101 must lie above 0 and be 100 at most
scale_for([1.0, -2.0, np.nan], "uint8")
    ValueError: 'uint8' is unsigned, and 1 of 3 values are negative: subtract a zero point first, or use
    a signed format
scale_for([1e300], "int8")
    ValueError: values up to 1e+300 need a scale for 'int8' that float32 does not hold; divide them by a
    power of two first, or use a format with a larger range
scale_for(np.ones((2, 2)), "int8", axis=2)
    ValueError: axis=2 must name axes of the values, each once, and they have 2
scale_for(np.ones((2, 2)), "int8", axis=(0, -2))
    ValueError: axis=(0, -2) must name axes...
scale_for([1j], "int8")
    TypeError: ...values must be real numbers...
error_report([1.0, 2.0], "mxfp4", scale=1.0)
    ValueError: scale= is for formats of single values, and 'mxfp4' has scales of its blocks
error_report([1.0, 2.0], "int8", axis=0)
    ValueError: axis= is for block formats, and 'int8' is none; for scales of channels give
    scale=lowprec.scale_for(values, 'int8', axis=...)
error_report([1.0, 2.0], "int8", scale=[1.0, 0.0])
    ValueError: scales must be positive numbers that float32 holds; lowprec.scale_for gives such
error_report([1.0, 2.0], "int8", scale=np.ones(3))
    ValueError: scale of shape (3,) does not broadcast to values of shape (2,)
""",
)


LOPSIDED = lp.Codebook("lopsided", [-1.0, 0.0, 1.0, 3.0])


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize(
    ("values", "fmt", "scale"),
    [
        ([-4, 1, 2], LOPSIDED, 4.0),
        ([3, -0.5, 0], LOPSIDED, 1.0),
        ([3, -2, np.nan], LOPSIDED, 2.0),
        ([-0.25, 0, -np.inf], LOPSIDED, 0.25),
        ([0, 0, 0], LOPSIDED, 1.0),
        ([-254, 1, 2], "int8", 2.0),
    ],
)
def test_on_neither_side_of_zero_is_anything_clipped(values, fmt, scale, lazy):
    given = np.float32(values)
    if lazy:
        given = da.from_array(given, chunks=3)
    assert np.asarray(lp.scale_for(given, fmt, "max")) == scale


def test_the_scale_of_max_clips_nothing_in_dynamic8():
    values = np.float32([-4.0, 1.0, 2.0])
    scale = lp.scale_for(values, "dynamic8", "max")
    assert lp.error_report(values, "dynamic8", scale=scale).clipped == 0
    assert scale > 4.0
    assert lp.scale_for(-values[:1], "dynamic8", "max") == 4.0


@pytest.mark.parametrize("fmt", ["binary32", "mxfp8_e4m3"])
def test_integers_beyond_float64_are_refused_not_called_exact(fmt):
    values = np.array([2**62, 2**62 + 1, -(2**53) - 1])
    with pytest.raises(ValueError, match="does not hold 2 of the values, such as 4611686018427387905"):
        lp.error_report(values, fmt)
    assert lp.error_report(np.array([2**62, -(2**63), 3 << 60, 0]), fmt).size == 4  # which float64 holds
    with pytest.raises(ValueError, match="does not hold 1 of the values, such as 9007199254740993"):
        lp.sweep_formats(np.array([2**53 + 1]), elements=["binary32"])


def test_chunks_of_unknown_sizes_are_refused_by_every_method():
    da = pytest.importorskip("dask.array")
    x = da.from_array(np.arange(1.0, 9), chunks=4)
    unknown = x[x > 2]
    for method in ("max", "mse", "percentile"):
        with pytest.raises(ValueError, match="the sizes of some chunks are unknown; call"):
            lp.scale_for(unknown, "e4m3fn", method)
    with pytest.raises(ValueError, match="the sizes of some chunks are unknown; call"):
        lp.sweep_formats(unknown, elements=["e4m3fn"])
