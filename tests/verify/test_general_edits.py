"""Registers that keep their value, products left out, blocks in some lanes and entries are named."""

from __future__ import annotations

import numpy as np
import pytest

import lowprec as lp
from lowprec.spec import catalog
from lowprec.spec.accumulations import ACCUMULATIONS
from lowprec.verify.inputs.block_cases import block_cases
from lowprec.verify.inputs.borders import beside_borders
from lowprec.verify.inputs.dot_shape import shape_of, values_of
from lowprec.verify.inputs.dots import dots

ADA = "ada_mma_e4m3fn_binary32"
MX = "rtx_blackwell_mma_e4m3fn_binary32_e8m0fnu_1"
NV = "blackwell_tcgen05_e2m1fn_binary32_ue4m3_4"


def named(report, words):
    assert report.cause.words == words
    assert (report.cause.explained, report.cause.contradicted) == (report.mismatches, 0)


def factors(seed, lanes, count=600):
    drawn = np.random.default_rng(seed)
    codes = drawn.integers(0x20, 0x60, (2, count, lanes)) | drawn.integers(0, 2, (2, count, lanes)) << 7
    return lp.decode(np.where(drawn.random(codes.shape) < 0.05, 0, codes).astype(np.uint8), "e4m3fn")


def test_a_scale_that_is_not_loaded_for_one_code_is_named():
    x, y = (np.asarray(lp.encode(side, "e4m3fn")).view(np.uint8) for side in factors(1, 32))
    scales = np.random.default_rng(2).integers(124, 131, (2, len(x), 1)).astype(np.uint8)
    scales[:, 0] = 125
    here = np.maximum.accumulate(np.where(scales[1, :, 0] != 127, np.arange(len(x)), 0))
    form = lp.BlockFormat(name="", element=lp.format("e4m3fn"), scale=lp.format("e8m0fnu"), size=32)
    sides = (x, scales[0]), (y, scales[1][here])
    blocks = [lp.BlockArray(side, of, form, (1,)) for side, of in sides]
    given = {
        "operation": "dot",
        "accumulation": MX,
        "scale": tuple(lp.decode(of, "e8m0fnu") for of in scales),
    }
    report = lp.compare(
        tuple(lp.decode(side, "e4m3fn") for side in (x, y)), lp.dot(*blocks, MX), limit=0, **given
    )
    named(report, "the scales of y of the line before, and kept, where the exponent of scale 0 of y is 0")


def test_an_increment_that_is_kept_where_results_are_exact_is_named():
    drawn = np.random.default_rng(3)
    x = drawn.integers(0x3F800000, 0x41000000, 3000).astype(np.uint32)
    x[drawn.random(x.size) < 0.6] &= 0xFFFF0000
    x[drawn.random(x.size) < 0.2] |= 0x8000
    x[drawn.random(x.size) < 0.2] &= 0xFFFF8000
    whole, rest = x >> 16, x & 0xFFFF
    up = (rest > 0x8000) | (rest == 0x8000) & (whole & 1)
    here = np.maximum.accumulate(np.where(rest, np.arange(x.size), -1))
    got = (whole + np.where(here >= 0, up[here], 0)).astype(np.uint16)
    report = lp.compare(x.view(np.float32), got, "bfloat16", limit=0)
    named(report, "the increment of rounding of the line before, and kept, where the result is not inexact")


def test_what_rare_right_results_contradict_is_given_up():
    """Most right results are none of the few NaNs that tell the cause: the sample holds none of them."""
    x = np.random.default_rng(4).standard_normal(400_000).astype(np.float32).view(np.uint32)
    x[::50_000] = (
        0x7F8B1234,
        0xFF8B1234,
        0x7FFE5678,
        0xFFFE5678,
        0x7F812345,
        0xFF812345,
        0xFFC12345,
        0x7FC12345,
    )
    right = np.asarray(lp.encode(x.view(np.float32), "bfloat16")).view(np.uint16)
    wide = x.astype(np.uint64)
    rounded = (wide + 0x7FFF + (wide >> 16 & 1) >> 16).astype(np.uint16)
    report = lp.compare(x.view(np.float32), np.where(x > 0xFF800000, rounded, right), "bfloat16", limit=0)
    named(report, "codes rounded as integers are, those of NaN too, where the result is negative")


def test_products_that_are_left_out_where_x_is_zero_are_named():
    x, y = (side.astype(np.float32) for side in factors(5, 8))
    y[::7, 3], x[::7, 3] = np.inf, 0
    y[::11, 2], x[::11, 2], y[3::11, 5] = np.nan, 0, np.nan
    with np.errstate(all="ignore"):
        got = lp.dot(x, np.where(x == 0, np.float32(1), y), "fp32_fma")
    report = lp.compare((x, y), got, operation="dot", accumulation="fp32_fma", limit=0)
    named(report, "products left out, of products where x is zero")


def test_a_level_of_a_tree_that_truncates_is_named():
    x, y = np.random.default_rng(6).standard_normal((2, 2000, 7)).astype(np.float32)
    c = np.random.default_rng(7).standard_normal(2000).astype(np.float32)
    terms = [c, *(x * y).T]
    both = zip(terms[::2], terms[1::2], strict=True)
    pairs = [(one.astype(np.float64) + other).astype(np.float32) for one, other in both]
    fours = [
        np.asarray(lp.quantize(one.astype("f8") + other, "binary32", rounding="toward_zero"), np.float32)
        for one, other in zip(pairs[::2], pairs[1::2], strict=True)
    ]
    asked = {"operation": "dot", "accumulation": "fp32_pairwise", "addend": c, "limit": 0}
    report = lp.compare((x, y), fours[0] + fours[1], **asked)
    named(report, "sums of steps: truncation: rounded toward zero, in all sums of level 2 of the tree")


def test_one_entry_of_a_table_is_named_by_its_code():
    codes = np.arange(256, dtype=np.uint8)
    right = lp.decode(codes, "e4m3fn").astype(np.float16).view(np.uint16).copy()
    right[codes & 0x7F == 0x7F] = np.where(codes[codes & 0x7F == 0x7F] >> 7, 0xFE00, 0x7E00)
    right[[5, 0x85]] -= 1 << 10
    report = lp.compare(codes, right, "binary16", source="e4m3fn", limit=0)
    named(report, "results half as large, where the magnitude of the operand, as a code, is 5")
    assert not report.diagnosis.few


@pytest.mark.parametrize("kind", ["lanes", "wraps", "before"])
def test_scales_of_blocks_by_other_magnitudes_are_named(kind):
    drawn = np.random.default_rng(8)
    x = np.ldexp(drawn.uniform(1, 2, (800, 32)), drawn.integers(-3, 4, (800, 1))).astype("f4")
    wide = x.astype("f8")
    if kind == "lanes":
        x[::5, 20], x[2::5, 4] = np.inf, np.inf
        wide = np.where(np.isinf(x), 2.0**128, x.astype("f8"))
        words = "infinities in lane 20 of 32: taken as numbers, of the next exponent"
    if kind == "wraps":
        x = np.ldexp(x, -128 * (np.arange(800) % 4 == 0)[:, None]).astype("f4")
        wide = x.astype("f8")
        words = "scales below the smallest wrap around, modulo 256; elements are under what they are before"
    largest = wide.max(1)
    if kind == "before":
        x[1::9, 3] = np.nan
        largest = np.where(np.isnan(x), 0, x).max(1).astype("f8")
        own = np.isnan(x).any(1)
        largest[1:] = np.where(own[:-1] & ~own[1:], np.maximum(largest[1:], largest[:-1]), largest[1:])
        words = "the largest magnitude of the block before counts too, where the block before has a NaN"
    power = np.floor(np.log2(largest)).astype(int) - 2
    quotients = np.where(np.isnan(x), 0, wide) / np.exp2(power.astype(float))[:, None]
    codes = np.asarray(lp.encode(quotients, "e2m1fn", saturation="finite")).view(np.uint8).copy()
    scales = power + 127 & 255
    special = np.isnan(x).any(1) | np.isinf(x[:, 4])
    codes[special], scales[special] = 0, 255
    report = lp.compare(x, codes, "mxfp4", scales=scales[:, None].astype(np.uint8), limit=0)
    named(report, words)


def test_elements_that_are_cut_in_some_lanes_below_the_normal_numbers_are_named():
    x = np.random.default_rng(9).standard_normal((1200, 32)).astype("f4")
    made = lp.encode(x, "mxfp6_e3m2")
    scales = np.asarray(made.scales)
    quotients = x.astype("f8") / np.exp2(scales.astype(float) - 127)
    cut = np.asarray(lp.encode(quotients, "e3m2fn", rounding="toward_zero")).view(np.uint8)
    here = (np.abs(quotients) < 0.25) & (np.arange(32) % 2 == 1)
    codes = np.where(here, cut, np.asarray(made.codes).view(np.uint8))
    report = lp.compare(x, codes, "mxfp6_e3m2", scales=scales.view(np.uint8), limit=0)
    words = (
        "elements: truncation: rounded toward zero, where the exact result is below the normal numbers and "
    )
    named(report, f"{words}the element's number, counted from 0, modulo 2, is at least 1")


# -- default vectors -------------------------------------------------------------------------------------


def test_default_vectors_of_sums_have_each_bit_alone_behind_a_tie():
    bfloat16 = catalog.BFLOAT16
    x, y = (
        lp.decode(codes.astype(np.uint16), bfloat16).astype(float)
        for codes in beside_borders("add", (bfloat16,) * 3, 1024, 0)
    )
    with np.errstate(all="ignore"):
        unit = np.ldexp(1.0, np.frexp(x)[1] - 8)
        rest = np.abs(y) / unit % 1 - 0.5
    alone = {np.log2(part) for part in rest[(rest > 0) & (np.abs(y) < np.abs(x))]}
    assert alone >= set(range(-8, -2))


def cases(name):
    how = ACCUMULATIONS[name]
    made = dots(shape_of(how), 256, 0)
    return how, [values_of(side, fmt) for side, fmt in zip((made.x, made.y), how.operands, strict=True)], made


def test_default_vectors_of_dot_units_have_negative_nans_beside_numbers_in_each_lane():
    _, (x, y), _ = cases(ADA)
    for side, other in ((x, y), (y, x)):
        assert (np.isnan(side) & np.signbit(side) & (np.abs(other) == 1)).any(0).all()


def test_default_vectors_of_dot_units_have_neighbours_one_exponent_apart():
    _, (x, y), _ = cases("volta_mma_binary16_binary16")
    with np.errstate(all="ignore"):
        exponents = np.where(x * y != 0, np.frexp(np.abs(x * y))[1], -1000)
    for lane in range(4):
        apart = exponents[:, lane] - exponents[:, lane ^ 1] == 1
        assert (apart & (exponents[:, lane] - exponents[:, lane ^ 2] == 24)).any()


def test_default_vectors_of_scaled_units_have_zero_and_cancelled_blocks_under_scales_of_their_own():
    how, (x, y), made = cases(NV)
    sums = (x * y).reshape(len(x), -1, how.scale[1])
    zero, cancelled = (sums == 0).all(2), (sums != 0).any(2) & (sums.sum(2) == 0)
    for codes in made.scales:
        assert (zero & (codes == how.scale[0].nan_code)).any(0).all()
        assert (cancelled & (codes == how.scale[0].max_magnitude)).any(0).all()


def test_default_vectors_of_blocks_have_smaller_blocks_behind_special_ones():
    x = block_cases(catalog.MXFP4, catalog.BINARY32, 256).values.astype(np.uint32).view(np.float32)
    largest = np.where(np.isfinite(x), np.abs(x), 0).max(1)
    special = ~np.isfinite(x).all(1)
    behind = special[:-1] & ~special[1:] & (largest[1:] > 0)
    assert np.count_nonzero(behind & (largest[:-1] / 4 > largest[1:])) > 5


INTEGERS = {
    "less one: a sum must exceed the next value, not reach it": lambda r: np.maximum(r, 1) - 1,
    "and one more": lambda r: np.minimum(r, 254) + 1,
    "with all bits inverted": lambda r: r ^ 255,
    "with their bits in reverse order": lambda r: np.packbits(np.unpackbits(r[:, None], 1), 1, "little")[
        :, 0
    ],
    "with bit 7 stuck at 0": lambda r: r & 127,
    "with bit 2 stuck at 1": lambda r: r | 4,
    "shifted 1 bit down": lambda r: r >> 1,
    "of the line before": lambda r: np.concatenate([r[:1], r[:-1]]),
}


@pytest.mark.parametrize("words", INTEGERS)
def test_random_integers_taken_otherwise_are_named(words):
    drawn = np.random.default_rng(8)
    x = drawn.standard_normal(40_000).astype(np.float16)
    given = drawn.integers(0, 256, x.size).astype(np.uint8)
    asked = {"rounding": lp.stochastic(8), "limit": 0}
    for negative in (False, True):
        taken = np.where(negative & ~np.signbit(x), given, INTEGERS[words](given)).astype(np.uint32)
        got = lp.encode(x, "e5m2", rounding=lp.stochastic(8), random=taken)
        report = lp.compare(x, got, "e5m2", random=given.astype(np.uint32), **asked)
        named(report, f"random integers {words}{', where the result is negative' * negative}")


def test_an_overflow_that_rounding_makes_is_told_by_operands():
    """The missing flag is no property of a line."""
    x = (np.arange(0x3F80, 0x4480, dtype=np.uint16) | np.array([[0], [0x8000]], np.uint16)).reshape(-1)
    x = x.view("bfloat16")
    flags = np.zeros(x.size, np.uint8)
    codes = lp.encode(x, "e4m3fn", saturation="finite", flags=flags)
    size = np.abs(x.astype(np.float32))
    got = np.where((size >= 496) & (size < 512), flags & ~np.uint8(lp.Flag.OVERFLOW), flags)
    report = lp.compare(x, codes, "e4m3fn", saturation="finite", flags=got, limit=0)
    assert report.flags.cause.words.startswith("overflow is never raised, where ")
    assert "missing" not in report.flags.cause.words


def test_address_lines_of_a_table_that_are_exchanged_are_named():
    codes = np.arange(256, dtype=np.uint8)
    swapped = codes & 0xF3 | codes >> 1 & 4 | codes << 1 & 8
    for negative in (False, True):
        taken = np.where(negative & (codes < 128), codes, swapped)
        got = lp.cast(taken, "e5m2", "e4m3fn")
        report = lp.compare(codes, got, "e4m3fn", source="e5m2", limit=0)
        named(report, f"the operand with bits 2 and 3 exchanged{', where the result is negative' * negative}")


@pytest.mark.parametrize(
    ("operation", "words"),
    [
        ("add", "operand1 alone, not add, where"),
        ("multiply", "results zero, of the sign of both operands, where"),
    ],
)
def test_a_bypass_that_comes_before_special_values_is_named(operation, words):
    special = np.uint16([0, 0x8000, 0x7F80, 0xFF80, *range(0x7FC0, 0x7FC8), 0xFFC1, 0x3F80, 0xC000, 0x0012])
    drawn = np.random.default_rng(13).integers(0, 0x7F00, (2, 400)).astype(np.uint16)
    pairs = zip((np.repeat(special, 16), np.tile(special, 16)), drawn, strict=True)
    x, y = (np.concatenate(pair) for pair in pairs)
    values = [lp.decode(codes, "bfloat16") for codes in (x, y)]
    right = getattr(lp, operation)(*values, "bfloat16", dtype=np.uint16)
    if operation == "add":
        got = np.where((x & 0x7FFF) == 0x7F80, x, right)
    else:
        got = np.where(((x & 0x7FFF) == 0) | ((y & 0x7FFF) == 0), (x ^ y) & 0x8000, right)
    report = lp.compare((x, y), got, "bfloat16", operation=operation, source="bfloat16", limit=0)
    assert report.cause.words.startswith(words)
    assert (report.cause.explained, report.cause.contradicted) == (report.mismatches, 0)
