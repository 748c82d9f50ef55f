"""Plant faults of converters, adders, dot units and block converters, and see them named."""

from __future__ import annotations

import dataclasses

import ml_dtypes
import numpy as np
import pytest

import lowprec as lp
from lowprec.verify.compare.rules import learn
from lowprec.verify.questions.blocks import blocks as blocks_question
from lowprec.verify.questions.features import Feature
from tests.planted_unlisted import BINARY32, E5M2, highest, window

pytestmark = pytest.mark.apart


def named(report, words):
    assert any(said.startswith(words) for said in (report.cause.words, *report.cause.same)), report.cause
    assert (report.cause.explained, report.cause.contradicted) == (report.mismatches, 0)
    assert report.mismatches > 9
    assert "\nexplained by " in str(report)


def numbers(seed, low, high, count=20_000):
    """Draw float32 numbers of these exponents, and infinities, zeros and NaNs of both signs."""
    drawn = np.random.default_rng(seed)
    exponent = drawn.integers(low + 127, high + 127, count)
    words = drawn.integers(0, 2, count) << 31 | exponent << 23 | drawn.integers(0, 1 << 23, count)
    special = [0x0, 0x80000000, 0x7F800000, 0xFF800000, *range(0x7FC00000, 0x7FC00020)]
    special += list(range(0xFFC00000, 0xFFC00020))
    return np.concatenate([words, special]).astype(np.uint32).view(np.float32)


# -- conversions and sums ------------------------------------------------------------------------------


@pytest.mark.parametrize("bits", [6, 7])
def test_exponents_of_results_with_few_bits_are_named(bits):
    x = numbers(1, -30, 120)
    wide = lp.Format(exponent_bits=8, trailing_bits=10, bias=15, nans=1, infinity=True)
    code = np.asarray(lp.encode(x, wide)).astype(np.int64)
    right = np.asarray(lp.encode(x, "binary16")).astype(np.int64)
    low = code & (1 << bits + 10) - 1
    wraps = np.isfinite(x) & (np.abs(x) > 65536) & (low < 0x7C00)
    got = np.where(wraps, np.signbit(x) * 0x8000 | low, right).astype(np.uint16)
    report = lp.compare(x, got, "binary16", limit=0)
    named(report, f"exponents of results modulo {1 << bits}, before overflow is judged")


def test_signs_of_zeros_that_are_those_of_the_line_before_are_named():
    x = numbers(2, -8, 3)[:20_000]
    got = np.asarray(lp.encode(x, "e3m2fn", saturation="finite")).astype(np.uint8)
    for line in range(len(got)):
        if not got[line] & 0x1F:
            got[line] = got[line - 1] & 0x20 if line else 0
    report = lp.compare(x, got, "e3m2fn", saturation="finite", limit=0)
    named(report, "results with the signs of the results before, where the result is zero")


def test_a_threshold_that_lies_too_low_is_told_by_the_code_below_it():
    x = numbers(3, -2, 3)[:20_000]
    got = np.asarray(lp.encode(np.abs(x), "e2m1fn", saturation="finite")).astype(np.uint8)
    size = np.abs(x)
    got[(size > 2.3125) & (size <= 2.5)] = 5
    got |= np.where(np.signbit(x), 8, 0).astype(np.uint8)
    report = lp.compare(x, got, "e2m1fn", saturation="finite", limit=0)
    assert "the code of the result cut toward zero, without its sign, is 4" in report.cause.words
    assert "the sixteenths of a step from that code to the exact result is 5 to 7" in report.cause.words
    assert (report.cause.explained, report.cause.contradicted) == (report.mismatches, 0)


def test_a_first_rounding_without_a_least_exponent_is_named():
    x = numbers(4, -12, 8)[:20_000]
    unit = np.ldexp(np.float64(1), np.frexp(x)[1] - 4)
    first = np.rint(x / unit) * unit
    got = lp.encode(np.where(np.abs(x) < 2.0**-6, first, x), "e4m3fn")
    words = "rounded twice where the result is subnormal: first as if exponents had no least"
    named(lp.compare(x, got, "e4m3fn", limit=0), words)


def test_ties_by_the_bit_above_the_last_are_named():
    x = np.arange(0x3C80, 0x4380).astype(np.uint16).view(ml_dtypes.bfloat16)
    code = x.view(np.uint16).astype(np.int64)
    cut = (code >> 4) - (120 << 3)
    tail = code & 15
    got = (cut + ((tail > 8) | ((tail == 8) & (cut >> 1 & 1 == 1)))).astype(np.uint8)
    report = lp.compare(x, got, "e4m3fn", limit=0)
    named(report, "ties to the neighbour that is even by bit 1, not by the last bit")


def test_a_rule_is_sought_again_with_what_it_wrongly_holds_of():
    """Learn from a result that is not among those drawn first: it tells a sign from a class."""
    x = numbers(5, -20, 18, 40_000)
    got = np.asarray(lp.encode(x, "e5m2")).astype(np.uint8)
    got[np.isnan(x) & np.signbit(x)] = 0xFC
    named(lp.compare(x, got, "e5m2", limit=0), "the operand read as infinity if it is NaN, where")
    size, wanted = 20_000, np.arange(20_000) < 9
    rare = np.arange(size) == 15_001
    features = [Feature("a", wanted | rare), Feature("b", wanted | (np.arange(size) % 7 == 3) & ~rare)]
    rule = learn(features, wanted, ~wanted)
    assert str(rule) == "a and b"


def sums(change):
    """Return operands and sums of bfloat16 numbers, as `change` adds their aligned integers."""
    drawn = np.random.default_rng(6)
    codes = drawn.integers(0x3D00, 0x4300, (2, 8000)) | drawn.integers(0, 2, (2, 8000)) << 15
    got = np.empty(8000, np.uint16)
    for place, (a, b) in enumerate(codes.T.tolist()):
        large, small = (a, b) if a & 0x7FFF >= b & 0x7FFF else (b, a)
        wholes = [(code & 0x7F | 0x80) << 40 for code in (large, small)]
        shift = (large >> 7 & 0xFF) - (small >> 7 & 0xFF)
        total = change(wholes[0], wholes[1] >> shift, (a ^ b) >> 15)
        value = np.ldexp(float(total), (large >> 7 & 0xFF) - 127 - 47) * (-1 if large >> 15 else 1)
        got[place] = lp.encode(value if total else 0.0, "bfloat16")
    return codes[0].astype(np.uint16), codes[1].astype(np.uint16), got


def _joined(large, small, unlike):
    return large - small if unlike else large + small


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda a, b, unlike: _joined(a, b >> 38 << 38, unlike),
            "terms cut 2 places behind the last bit of the larger term",
        ),
        (
            lambda a, b, unlike: _joined(a, b >> 37 << 37, unlike) + (b & (1 << 37) - 1 > 0),
            "bits of other terms behind it added to the larger term as a sticky bit, also in subtractions: "
            "after 3 places",
        ),
        (
            lambda a, b, unlike: _joined(a, b >> 35 << 35, unlike),
            "terms cut 12 places below the largest exponent",
        ),
    ],
)
def test_bits_that_an_adder_loses_are_named(change, words):
    x, y, right = sums(_joined)
    asked = {"operation": "add", "source": "bfloat16", "limit": 0}
    assert lp.compare((x, y), right, "bfloat16", **asked).agrees
    named(lp.compare((x, y), sums(change)[2], "bfloat16", **asked), words)


def test_a_nan_of_one_operand_that_is_read_as_a_number_is_named():
    x, y = (side.reshape(-1).astype(np.uint8) for side in np.mgrid[:256, :256])
    right = lp.add(*(lp.decode(side, "e4m3fn") for side in (x, y)), "e4m3fn", dtype=np.uint8)
    number = -480 + lp.decode(y, "e4m3fn").astype(np.float64)
    got = np.where(x == 0xFF, np.asarray(lp.encode(number, "e4m3fn")), right).astype(np.uint8)
    report = lp.compare((x, y), got, "e4m3fn", operation="add", source="e4m3fn", any_nan=True, limit=0)
    named(report, "negative NaNs of operand1 read as numbers")


# -- dot units -----------------------------------------------------------------------------------------


def factors(seed, lanes=8, count=800, low=0x10, high=0x60):
    drawn = np.random.default_rng(seed)
    codes = drawn.integers(low, high, (2, count, lanes)) | drawn.integers(0, 2, (2, count, lanes)) << 7
    return codes.astype(np.uint8)


def test_last_bits_of_the_addend_that_are_not_wired_are_named():
    x, y = factors(7)
    c = np.random.default_rng(8).standard_normal(len(x)).astype(np.float32) * 100
    cut = (c.view(np.uint32) & np.uint32(0xFFFFFF00)).view(np.float32)
    got = lp.dot(lp.decode(x, "e4m3fn"), lp.decode(y, "e4m3fn"), "fp32_fma", addend=cut)
    given = tuple(side.view(ml_dtypes.float8_e4m3fn) for side in (x, y))
    report = lp.compare(given, got, operation="dot", accumulation="fp32_fma", addend=c, limit=0)
    named(report, "the addend without its last 8 bits")


def test_two_running_sums_of_which_one_begins_at_the_addend_are_named():
    x, y = (lp.decode(side, "e4m3fn") for side in factors(9))
    c = np.random.default_rng(10).standard_normal(len(x)).astype(np.float32) * 10
    first = lp.dot(x[:, :4], y[:, :4], "fp32_fma", addend=c)
    got = np.asarray(first) + np.asarray(lp.dot(x[:, 4:], y[:, 4:], "fp32_fma"))
    report = lp.compare((x, y), got, operation="dot", accumulation="fp32_fma", addend=c, limit=0)
    named(report, "2 sums of 4 consecutive products, the first from the addend, added one after the other")


def test_subnormal_numbers_of_some_lanes_that_are_misread_are_named():
    x, y = factors(11, low=0, high=0x40)
    wide = [lp.decode(side, "e4m3fn").astype(np.float32) for side in (x, y)]
    low = (y & 0x78 == 0) & (np.arange(8) >= 4)
    got = lp.dot(wide[0], np.where(low, wide[1] / 2, wide[1]), "fp32_fma")
    given = tuple(side.view(ml_dtypes.float8_e4m3fn) for side in (x, y))
    report = lp.compare(given, got, operation="dot", accumulation="fp32_fma", limit=0)
    named(report, "subnormal y one exponent too low in lanes 4 to 7")


def test_sums_that_cancel_and_come_out_twice_as_large_are_named():
    x, y = (lp.decode(side, "e4m3fn").astype(np.float64) for side in factors(12, count=3000))
    held, right = np.zeros((2, len(x)))
    for lane in range(8):
        product = x[:, lane] * y[:, lane]
        for kept, doubled in ((right, False), (held, True)):
            total = kept + product  # exact: few bits and few exponents
            top = np.frexp(np.maximum(np.abs(kept), _field(product, x[:, lane], y[:, lane])))[1]
            far = doubled & (total != 0) & (top - np.frexp(total)[1] >= 3)
            kept[:] = (total * np.where(far, 2, 1)).astype(np.float32)
    asked = {"operation": "dot", "accumulation": "fp32_fma", "limit": 0}
    assert lp.compare((x.astype("f4"), y.astype("f4")), right.astype("f4"), **asked).agrees
    given = tuple(side.astype(ml_dtypes.float8_e4m3fn) for side in (x, y))
    where = "the exponent of the sum less the largest of its terms is at most -3"
    named(lp.compare(given, held.astype("f4"), **asked), f"sums twice as large, in steps where {where}")


@pytest.mark.parametrize(
    ("least", "most", "also"),
    [(1, 1, " and the places between the first bits of the two largest terms is at least 1"), (0, 1, "")],
)
def test_sums_of_near_terms_that_cancel_and_come_out_twice_as_large_are_named(least, most, also):
    x, y = (lp.decode(side, "e4m3fn").astype(np.float64) for side in factors(12, count=3000))
    held = np.zeros(len(x))
    for lane in range(8):
        product = x[:, lane] * y[:, lane]
        tops = np.frexp(held)[1], np.frexp(product)[1]
        apart, total = np.abs(tops[0] - tops[1]), held + product
        near = (least <= apart) & (apart <= most) & (total != 0) & (held != 0) & (product != 0)
        near &= np.maximum(*tops) - np.frexp(total)[1] >= 2
        held = (total * np.where(near, 2, 1)).astype(np.float32).astype(np.float64)
    given = tuple(side.astype(ml_dtypes.float8_e4m3fn) for side in (x, y))
    report = lp.compare(given, held.astype("f4"), operation="dot", accumulation="fp32_fma", limit=0)
    where = f"the number of leading bits that cancel is at least 2{also}"
    assert report.cause.words == f"sums twice as large, in steps where {where}"


def test_products_below_the_normal_numbers_that_are_not_shifted_are_named():
    drawn = np.random.default_rng(17)
    x, y = np.ldexp(drawn.uniform(1, 2, (2, 5000)), drawn.integers(-8, -5, (2, 5000))).astype(np.float16)
    exact = x.astype(np.float64) * y
    low = (exact >= 2.0**-15) & (exact < 2.0**-14)
    got = np.where(low, 2 * (exact - 2.0**-15), exact).astype(np.float16)
    given = tuple(side.view(np.uint16) for side in (x, y))
    asked = {"operation": "multiply", "source": "binary16", "limit": 0}
    report = lp.compare(given, got.view(np.uint16), "binary16", **asked)
    named(report, "the leading one of results below the normal numbers lost, not shifted")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda x, y, n: (x, np.where(n[0] == n[1], y, np.where(n[0], y + least(y), without_first(y)))),
            "the leading one of operand2 by the exponent of operand1",
        ),
        (
            lambda x, y, n: (x, np.where(n[1], y, y / 2)),
            "the operand2 one exponent too low if it is subnormal",
        ),
        (
            lambda x, y, n: (x, np.copysign(y, np.r_[y[:1], y[:-1]])),
            "the sign of the operand2 of the line before",
        ),
        (
            lambda x, y, n: (kept(x), y),
            "the operand1 of the line before, and kept, where operand1 is not normal",
        ),
    ],
)
def test_operands_of_products_that_are_misread_are_named(change, words):
    drawn = np.random.default_rng(18)
    low = np.where(drawn.random((2, 20_000)) < 0.2, drawn.integers(0, 1024, (2, 20_000)), 1024)
    codes = np.where(low < 1024, low, drawn.integers(1024, 31 << 10, low.shape))
    x, y = (codes | drawn.integers(0, 2, low.shape) << 15).astype(np.uint16).view(np.float16)
    wide = x.astype(np.float64), y.astype(np.float64)
    one, other = change(*wide, [np.abs(side) >= 2.0**-14 for side in wide])
    asked = {"operation": "multiply", "source": "binary16", "limit": 0}
    with np.errstate(over="ignore"):
        got = (one * np.where(wide[1] == 0, wide[1], other)).astype(np.float16)
    report = lp.compare((x.view(np.uint16), y.view(np.uint16)), got.view(np.uint16), "binary16", **asked)
    named(report, words)


def least(values):
    return np.copysign(2.0**-14, values)


def without_first(values):
    """Return values without their leading ones."""
    return np.copysign(np.abs(values) - np.ldexp(0.5, np.frexp(values)[1]), values)


def kept(values):
    """Return values of which those below the normal ones are the last before that are not."""
    here = np.maximum.accumulate(np.where(np.abs(values) >= 2.0**-14, np.arange(values.size), 0))
    return values[here]


@pytest.mark.parametrize(
    ("bits", "words"),
    [((0, 1), "the sticky bit"), ((1, 0), "the guard bit"), ((1, 1), "the guard and sticky")],
)
def test_bits_of_the_line_before_that_a_rounder_takes_are_named(bits, words):
    code = numbers(19, -20, 20).view(np.uint32)
    code[::2] &= 0xFFFF8000
    x, code = code.view(np.float32), code.astype(np.int64)
    own = code >> 15 & 1, (code & 0x7FFF) > 0
    finite = np.isfinite(x)
    here = np.maximum.accumulate(np.where(finite, np.arange(x.size), -1))
    before = np.r_[-1, here[:-1]]
    guard, sticky = (
        np.where(before >= 0, part[before], 0) if old else part for part, old in zip(own, bits, strict=True)
    )
    up = guard & (sticky | code >> 16 & 1)
    right = np.asarray(lp.encode(x, "bfloat16")).view(np.uint16)
    got = np.where(finite, (code >> 16) + up, right).astype(np.uint16)
    named(lp.compare(x, got, "bfloat16", limit=0), words)


def _field(product, x, y):
    """Return a number of the exponent that a product has before it is normalised."""
    return np.where(product == 0, 0, np.ldexp(1.0, np.frexp(x)[1] + np.frexp(y)[1] - 2))


@pytest.mark.parametrize(
    ("cut", "words"),
    [
        (
            lambda x, y, e: np.where(np.abs(e[0] - e[1]) > 13, np.where(e[0] > e[1], x, y), x + y),
            "terms that begin 14 places or more behind the largest lost",
        ),
        (
            lambda x, y, e: sum(
                np.ldexp(np.floor(np.ldexp(v, 13 - e.max(0))), e.max(0) - 13) for v in (x, y)
            ),
            "terms cut 12 places below the largest exponent, downwards",
        ),
    ],
)
def test_terms_that_are_lost_or_cut_below_the_largest_are_named(cut, words):
    """Sums beyond the largest number are the largest number."""
    drawn = np.random.default_rng(20)
    x, y = (np.ldexp(1 + drawn.integers(0, 1024, 8000) / 1024, drawn.integers(-14, 15, 8000)) for _ in "xy")
    x, y = (np.r_[side * drawn.choice([-1, 1], side.size), 65504, 65472] for side in (x, y))
    rule = {"rounding": "toward_zero"}
    made = cut(x, y, np.frexp([x, y])[1])
    got = np.asarray(lp.encode(made, "binary16", **rule))
    given = tuple(side.astype(np.float16) for side in (x, y))
    named(lp.compare(given, got, "binary16", operation="add", limit=0, **rule), words)


def test_nans_that_a_converter_shifts_as_numbers_keep_their_payload():
    codes = np.arange(256, dtype=np.uint8)
    report = lp.compare(codes, codes.astype(np.uint16) << 8, "binary16", source="e5m2", limit=0)
    assert report.cause.words == "NaNs keep their sign and the first bits of their payload"
    assert "may be NaNs keep" in str(report)


def test_an_exponent_that_wraps_is_told_by_the_sum_of_exponents_not_by_the_result_before():
    x, y = (side.reshape(-1).astype(np.uint8) for side in np.divmod(np.arange(1 << 16), 256))
    asked = {"operation": "multiply", "source": "e5m2", "limit": 0}
    sides = [lp.decode(side, "e5m2").astype(np.float64) for side in (x, y)]
    with np.errstate(invalid="ignore"):
        far = sides[0] * sides[1] != 0
        right = np.asarray(lp.encode(sides[0] * sides[1], "e5m2"))
    fields = np.maximum(x >> 2 & 31, 1).astype(int) + np.maximum(y >> 2 & 31, 1)
    far &= np.isfinite(sides[0]) & np.isfinite(sides[1]) & (fields >= 47)
    got = np.where(far, (x ^ y) & 0x80, right).astype(np.uint8)
    report = lp.compare((x, y), got, "e5m2", any_nan=True, **asked)
    named(report, "results zero, with their sign, where the sum of the factors' exponents is at least 17")


def test_an_adder_of_a_tree_that_truncates_is_named():
    x, y = np.random.default_rng(21).standard_normal((2, 3000, 8)).astype(np.float32)
    c = np.random.default_rng(22).standard_normal(3000).astype(np.float32)
    terms = [c, *(x * y).T]
    fours = [terms[0] + terms[1] + (terms[2] + terms[3]), None, terms[8]]
    low, high = terms[4] + terms[5], terms[6] + terms[7]
    exact = low.astype(np.float64) + high
    fours[1] = np.asarray(lp.quantize(exact, "binary32", rounding="toward_zero")).astype(np.float32)
    got = fours[0] + fours[1] + fours[2]
    asked = {"operation": "dot", "accumulation": "fp32_pairwise", "addend": c, "limit": 0}
    words = "sums of steps: truncation: rounded toward zero, in the sum of products 3 to 6 alone"
    named(lp.compare((x, y), got, **asked), words)


def test_signs_of_nans_do_not_make_a_condition_on_other_lines():
    drawn = np.random.default_rng(23)
    x = np.ldexp(1 + drawn.integers(0, 128, (4000, 1)) / 128, 60).astype(np.float32)
    y = np.ldexp(1 + drawn.integers(0, 128, (4000, 1)) / 128, drawn.integers(60, 69, (4000, 1)))
    y = y.astype(np.float32)
    c = -np.ldexp(1 + drawn.random(4000), 127).astype(np.float32)
    x[::32] = np.nan
    c[::16] = np.copysign(np.nan, -1)
    how = {"addend": c, "dtype": np.uint32}
    got, right = (np.asarray(lp.dot(x, y, name, **how)) for name in ("fp32_sequential", "fp32_fma"))
    nan = np.isnan(got.view(np.float32)) & np.isnan(right.view(np.float32))
    assert (got != right)[nan].any()
    asked = {"operation": "dot", "accumulation": "fp32_fma", "addend": c, "limit": 0}
    report = lp.compare((x, y), np.where(nan, right, got).astype(np.uint32), **asked)
    assert report.cause.words.startswith("the addend added to the sum of products, after that is rounded")
    assert report.cause.rule is None
    assert (report.cause.explained, report.cause.contradicted) == (report.mismatches, 0)


# -- block converters ----------------------------------------------------------------------------------


def blocks(name, seed=13, count=400):
    drawn = np.random.default_rng(seed)
    exponents = drawn.choice([2, 3, 5], (count, 32), p=[0.9, 0.08, 0.02])
    return np.ldexp(drawn.uniform(1, 2, (count, 32)) * drawn.choice([-1, 1], (count, 32)), exponents).astype(
        "f4"
    )


def of_blocks(x, name, codes, scales, **given):
    return lp.compare(x, codes.astype(np.uint8), name, scales=scales.astype(np.uint8), limit=0, **given)


def in_halves(sizes, mask):
    """Return the largest magnitude of each half of rows, or of these that which is larger by some bits."""
    halves = sizes.reshape(len(sizes), 2, -1).max(2)
    seen = halves.view(np.uint32) & mask
    return np.where(seen[:, 1] > seen[:, 0], halves[:, 1], halves[:, 0])


def test_lanes_that_are_rotated_within_a_half_are_named():
    x = blocks("mxfp4")
    made = lp.encode(x, "mxfp4")
    codes = np.asarray(made.codes).view(np.uint8).copy()
    codes[:, 16:] = np.roll(codes[:, 16:], -1, 1)
    report = of_blocks(x, "mxfp4", codes, np.asarray(made.scales))
    named(report, "the elements of each block rotated by one lane down in lanes 16 to 31")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda x: np.bitwise_or.reduce(x.view(np.uint32) & np.uint32(0x7F800000), 1).view(np.float32),
            "the largest magnitude is the OR of exponents of all",
        ),
        (
            lambda x: (
                np.bitwise_or.reduce(x.view(np.uint32).reshape(-1, 16, 2) & 0x7F800000, 2)
                .view(np.float32)
                .max(1)
            ),
            "the largest magnitude is the OR of exponents of every 2 neighbours",
        ),
        (
            lambda x: in_halves(np.abs(x), 0x7F000000),
            "the largest magnitude is searched in the largest of both halves by",
        ),
        (
            lambda x: np.where((x > 0).any(1), np.where(x > 0, x, 0).max(1), np.abs(x).max(1)),
            "negative values left out of the largest magnitude, where a value is positive",
        ),
    ],
)
def test_largest_magnitudes_that_are_searched_otherwise_are_named(change, words):
    x = blocks("mxfp8_e4m3") * np.exp2(np.random.default_rng(3).integers(0, 40, (400, 1)), dtype="f4")
    x[::9] = -np.abs(x[::9])
    scale = np.floor(np.log2(change(x))) - 8
    codes = lp.encode(x / np.exp2(scale)[:, None], "e4m3fn", saturation="finite")
    report = of_blocks(x, "mxfp8_e4m3", np.asarray(codes).view(np.uint8), scale[:, None] + 127)
    named(report, words)


def test_shifts_of_elements_that_have_few_bits_are_named():
    drawn = np.random.default_rng(14)
    x = np.ldexp(drawn.uniform(1, 2, (600, 32)), drawn.integers(-40, 0, (600, 32))).astype("f4")
    made = lp.encode(x, "mxfp4")
    scale = np.ldexp(1.0, np.asarray(made.scales).astype(int) - 127)
    quotients = x / scale
    shift = 2 - (np.frexp(quotients)[1] - 1)
    codes = lp.encode(np.ldexp(quotients, shift - (shift & 31)), "e2m1fn", saturation="finite")
    report = of_blocks(x, "mxfp4", np.asarray(codes).view(np.uint8), np.asarray(made.scales))
    named(report, "elements: shifts against the largest exponent modulo 32")


@pytest.mark.parametrize(
    ("quotient", "words"),
    [
        (
            lambda x, s, t: x / (s * 2.0 ** np.floor(np.log2(t))),
            "elements divided by the tensor's scale without its last 23 bits",
        ),
        (
            lambda x, s, t: x / lp.quantize(s * t, "bfloat16", rounding="toward_zero"),
            "elements divided by their scales, times the tensor's, cut to 8 bits",
        ),
        (
            lambda x, s, t: x * np.asarray(lp.quantize(1 / (s * t), "binary32", rounding="toward_zero")),
            "elements times the reciprocals of their scales, times the tensor's, cut to 24 bits",
        ),
    ],
)
def test_quotients_by_other_scales_are_named(quotient, words):
    t = 3 / 2688
    drawn = np.random.default_rng(15)
    grid = np.array([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, 6.0])
    scale = drawn.integers(30, 120, (800, 1))
    s = lp.decode(scale.astype(np.uint8), "e4m3fn").astype(np.float64)
    x = (
        np.where(
            drawn.random((800, 16)) < 0.5,
            grid[drawn.integers(0, 8, (800, 16))],
            drawn.uniform(0, 6, (800, 16)),
        )
        * s
        * np.float64(np.float32(t))
    ).astype("f4")
    x[:, 0] = (6 * s[:, 0] * np.float64(np.float32(t))).astype("f4")
    made = lp.encode(x, "nvfp4", tensor_scale=np.float32(t))
    own = lp.decode(np.asarray(made.scales), "e4m3fn").astype(np.float64).reshape(800, -1)[:, :1]
    codes = lp.encode(
        quotient(x.astype(np.float64), own, np.float64(np.float32(t))), "e2m1fn", saturation="finite"
    )
    report = of_blocks(
        x,
        "nvfp4",
        np.asarray(codes).view(np.uint8),
        np.asarray(made.scales).view(np.uint8),
        tensor_scale=np.float32(t),
    )
    named(report, words)


def test_scales_of_blocks_of_zeros_that_are_those_of_the_block_before_are_named(monkeypatch):
    """Begin a piece with some of these blocks."""
    monkeypatch.setattr(blocks_question, "_PIECE", 187 * 32)
    x = blocks("mxfp4")
    x[7::20] = 0
    made = lp.encode(x, "mxfp4")
    scales = np.asarray(made.scales).view(np.uint8).copy()
    scales[7::20] = scales[6::20]
    report = of_blocks(x, "mxfp4", np.asarray(made.codes).view(np.uint8), scales)
    named(
        report,
        "scales that are as they came of the block before, above elements that are right, where the block",
    )


def test_edits_that_explain_few_differences_too_are_told_beside_the_cause():
    x, y, right = sums(_joined)
    got = sums(lambda a, b, unlike: _joined(a, b >> 38 << 38, unlike))[2]
    some = np.sort(np.concatenate([np.flatnonzero(right != got)[:20], np.flatnonzero(right == got)[:600]]))
    asked = {"operation": "add", "source": "bfloat16", "limit": 0}
    cause = lp.compare((x[some], y[some]), got[some], "bfloat16", **asked).cause
    told = {cause.words, *cause.same}
    assert cause.explained == 20
    assert "terms cut 2 places behind the last bit of the larger term" in told
    assert "terms cut 9 places below the largest exponent" in told


def test_a_tree_of_maxima_that_compares_without_the_last_bit_is_named():
    """Its last node takes the lower half's exponent where the other's is greater by the last bit."""

    def largest(firsts):
        halves = [[first for first in half if first is not None] for half in (firsts[:4], firsts[4:8])]
        low, high = (max(half, default=-4096) for half in halves)
        return highest([high if high >> 1 > low >> 1 else low, firsts[8]])

    drawn = np.random.default_rng(5)
    x, y = (drawn.integers(0, 0x70, (2000, 8)) | drawn.integers(0, 2, (2000, 8)) << 7 for _ in range(2))
    c = np.zeros(2000, np.float32)
    pairs = [
        [(E5M2.read(a), E5M2.read(b)) for a, b in zip(*row, strict=True)]
        for row in zip(x.tolist(), y.tolist(), strict=True)
    ]
    got = [window(row, BINARY32.read(0), {"largest": largest}, 6) for row in pairs]
    inside = lp.Window(step=8, fraction_bits=6, result=("binary32", lp.Projection(nan_code=0x7FFFFFFF)))
    unit = lp.Accumulation(name="narrow", operands=("e5m2", "e5m2"), accumulator=inside, output="binary32")
    sides = tuple(lp.decode(side.astype(np.uint8), "e5m2") for side in (x, y))
    report = lp.compare(sides, np.uint32(got), operation="dot", accumulation=unit, addend=c, limit=0)
    named(report, "halves compared without the last bits of exponents for the largest")


def test_what_stood_before_is_blamed_last():
    """A rule on operands is told before one as short: lines in an order have like results before them."""
    x = np.arange(1 << 16, dtype=np.uint16).view(ml_dtypes.bfloat16)
    got = np.asarray(lp.encode(x, "e4m3fn", saturation="finite")).astype(np.uint8)
    wide = x.astype(np.float32)
    got[(wide != 0) & (np.abs(wide) < 2.0**-11)] = 0
    report = lp.compare(x, got, "e4m3fn", saturation="finite", limit=0)
    named(report, "results +0, where the exponent of the operand is at most -12 and the result is inexact")


@pytest.mark.parametrize(
    ("largest", "words"),
    [
        (lambda x: x * (1 + 2.0**-20), "scales as if the largest magnitude lay just above its value"),
        (
            lambda x: (x.astype("f4").view(np.uint32) >> 17 << 17).view("f4").astype("f8"),
            "the largest magnitude read without its last bit",
        ),
    ],
)
def test_largest_magnitudes_that_are_read_a_little_otherwise_are_named(largest, words):
    fmt = dataclasses.replace(lp.block_formats["mxfp4"], rule="rceil")
    drawn = np.random.default_rng(24)
    x = np.ldexp(drawn.integers(0, 128, (600, 32)) / 128, drawn.integers(-9, 9, (600, 1))).astype("f4")
    x[:, 5] = np.ldexp(
        drawn.choice([1.5, 1.5078125, 1.515625, 1.25, 1.625, 1.75], 600), drawn.integers(9, 20, 600)
    )
    power = np.ceil(np.log2(largest(np.abs(x).max(1).astype("f8")) / 6))
    codes = lp.encode(x / np.exp2(power)[:, None], "e2m1fn", saturation="finite")
    named(of_blocks(x, fmt, np.asarray(codes).view(np.uint8), power[:, None] + 127), words)


def test_scales_by_the_reciprocal_in_binary32_are_named():
    drawn = np.random.default_rng(25)
    grid = lp.decode(np.arange(0x38, 0x70, dtype=np.uint8), "e4m3fn").astype("f8")
    ties = (grid[:-1] + grid[1:]) / 2 * 6
    x = np.where(drawn.random((800, 16)) < 0.5, 0.25, 0.5).astype("f4")
    x[:, 3] = drawn.choice(ties, 800)
    scales = np.asarray(lp.encode(x.max(1).astype("f8") * np.float64(np.float32(1 / 6)), "e4m3fn"))
    units = lp.decode(scales, "e4m3fn").astype("f8")[:, None]
    codes = lp.encode(x / units, "e2m1fn", saturation="finite")
    report = of_blocks(
        x,
        "nvfp4",
        np.asarray(codes).view(np.uint8),
        scales.view(np.uint8)[:, None],
        tensor_scale=np.float32(1),
    )
    named(report, "scales by the reciprocal of the largest element, rounded to 24 bits")
