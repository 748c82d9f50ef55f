"""Bits of exact results that a rounder does not see, planted in integers, are named."""

from __future__ import annotations

import numpy as np
import pytest

import lowprec as lp
from lowprec.verify.compare.cause import Cause, Diagnosis
from lowprec.verify.compare.conditions import Examples
from lowprec.verify.compare.rules import Condition, Rule
from lowprec.verify.questions.exact_edits import exact_results
from lowprec.verify.questions.result_edits import of_results


def product(x, y, unseen):
    """The product of two bfloat16 codes of normal numbers near 1, whose sticky bit misses some bits."""
    whole = (x & 0x7F | 0x80) * (y & 0x7F | 0x80)
    exponent, places = (x >> 7 & 0xFF) + (y >> 7 & 0xFF) - 127, 7
    if whole >> 15:
        exponent, places = exponent + 1, 8
    kept, rest = whole >> places, whole & (1 << places) - 1
    half = 1 << places - 1
    guard, sticky = rest & half, rest & (half - 1) & ~unseen(places)
    kept += bool(guard and (sticky or kept & 1))
    return (x ^ y) & 0x8000 | (exponent << 7) + kept - 0x80


@pytest.mark.parametrize(
    ("unseen", "words"),
    [
        (lambda places: 3, "the last 2 bits of the exact result not seen by the sticky bit"),
        (lambda places: 1 << places - 3, "bit 2 behind the guard bit not seen by the sticky bit"),
        (lambda places: 3 << places - 4, "bits 2 to 3 behind the guard bit not seen by the sticky bit"),
        (
            lambda places: (1 << places - 4) - 1,
            "sticky bit lost: rounded by the guard bit and 3 bits behind it alone",
        ),
    ],
)
def test_bits_of_products_that_the_sticky_bit_misses_are_named(unseen, words):
    drawn = np.random.default_rng(3)
    x, y = (drawn.integers(0x3F00, 0x4100, (2, 60_000)) | drawn.integers(0, 2, (2, 60_000)) << 15).tolist()
    given, into = (np.array(x, np.uint16), np.array(y, np.uint16)), "bfloat16"
    plain, got = (
        np.array([product(a, b, bits) for a, b in zip(x, y, strict=True)], np.uint16)
        for bits in (lambda places: 0, unseen)
    )
    asked = {"operation": "multiply", "source": into, "limit": 0}
    assert lp.compare(given, plain, into, **asked).agrees
    report = lp.compare(given, got, into, **asked)
    assert report.mismatches > 8
    assert (report.cause.words, report.cause.explained, report.cause.contradicted) == (
        words,
        report.mismatches,
        0,
    )


def test_one_product_with_either_sign_and_in_either_order_proves_no_rule():
    drawn = np.random.default_rng(7)
    x, y = drawn.integers(1, 0x4800, (2, 2000)).astype(np.uint16)
    one, other = np.meshgrid([0x0001, 0x8001], [0x3F7F, 0xBF7F])
    x, y = np.r_[x, one.ravel(), other.ravel()], np.r_[y, other.ravel(), one.ravel()]
    x, y = x.astype(np.uint16), y.astype(np.uint16)
    right = [lp.decode(side, "bfloat16").astype(np.float64) for side in (x, y)]
    got = np.asarray(lp.encode(right[0] * right[1], "bfloat16")).view(np.uint16).copy()
    got[-8:] &= 0x8000
    report = lp.compare((x, y), got, "bfloat16", operation="multiply", source="bfloat16", limit=0)
    assert report.mismatches == 8
    assert "explained by " not in str(report).replace("unexplained by", "")


def test_a_sticky_bit_that_comes_before_the_shift_of_subnormal_results_is_named():
    drawn = np.random.default_rng(6)
    x, y = drawn.integers(0x0080, 0x4000, (2, 60_000)).tolist()
    pairs = [(a, b) for a, b in zip(x, y, strict=True) if -12 < (a >> 7) + (b >> 7) - 127 < 1]
    got, right = [], []
    for a, b in pairs:
        whole, shift = (a & 0x7F | 0x80) * (b & 0x7F | 0x80), 7 + 1 - ((a >> 7) + (b >> 7) - 127)
        kept, half, seen = whole >> shift, 1 << shift - 1, (1 << whole.bit_length() - 9) - 1
        for made, mask in ((right, half - 1), (got, seen if whole.bit_length() - 8 < shift else half - 1)):
            made.append(kept + bool(whole & half and (whole & mask or kept & 1)))
    given, got, right = np.array(pairs, np.uint16).T, np.uint16(got), np.uint16(right)
    asked = {"operation": "multiply", "source": "bfloat16", "limit": 0}
    assert lp.compare(tuple(given), right, "bfloat16", **asked).agrees
    report = lp.compare(tuple(given), got, "bfloat16", **asked)
    words = "bits between the guard bits of subnormal and of normal results not seen by the sticky bit"
    assert words in (report.cause.words, *report.cause.same)
    assert (report.cause.explained, report.cause.contradicted) == (report.mismatches, 0)


def test_a_bit_that_the_sticky_bit_of_a_conversion_misses_is_named():
    x = np.random.default_rng(5).integers(0x3F000000, 0x40FFFFFF, 400_000)
    guard, sticky, odd = x >> 15 & 1, x & 0x7FFF & ~(1 << 14), x >> 16 & 1
    got = (x >> 16) + (guard & ((sticky > 0) | odd))
    x = np.concatenate([x, 0x3F800000 + (1 << 15) + (1 << 14) + (np.arange(16) << 17)])
    got = np.concatenate([got, x[-16:] >> 16])
    report = lp.compare(x.astype(np.uint32).view(np.float32), got.astype(np.uint16), "bfloat16", limit=0)
    assert report.cause.words == "bit 1 behind the guard bit not seen by the sticky bit"
    assert (report.cause.explained, report.cause.contradicted) == (report.mismatches, 0)
    assert report.mismatches >= 16


def test_a_carry_that_stops_in_the_significand_is_named():
    x = np.random.default_rng(4).integers(0x3F000000, 0x40FFFFFF, 50_000).astype(np.uint32)
    right = np.asarray(lp.encode(x.view(np.float32), "bfloat16"))
    cut = x >> 16
    stopped = (right != cut) & (right & 0xF == 0)
    report = lp.compare(
        x.view(np.float32), np.where(stopped, cut & 0xFFF0, right).astype(np.uint16), "bfloat16", limit=0
    )
    assert report.mismatches == np.count_nonzero(stopped)
    assert report.cause.words == (
        "results without a carry out of their last 4 bits, where the exact result is above a tie"
    )
    assert (report.cause.explained, report.cause.contradicted) == (report.mismatches, 0)


def test_halves_and_doubles_of_results_are_values():
    fmt = lp.format("e4m3fn")
    codes = np.arange(fmt.max_magnitude + 1)
    values = lp.decode(codes.astype(np.uint8), fmt).astype(np.float64)
    edits = {change.words: change.value for change in of_results(fmt, codes, codes)}
    for words, by in {"half as large": -1, "2**-4 times as large": -4, "twice as large": 1}.items():
        want = lp.encode(values * 2.0**by, fmt, rounding="toward_zero", saturation="finite")
        got = np.minimum(edits[f"results {words}"](codes, fmt), fmt.max_magnitude)
        assert got.tolist() == np.asarray(want).tolist(), words


def test_exact_sums_beyond_float64_are_rounded_to_odd():
    fmt = lp.format("binary32")
    x, y = [1.0, 1.0, -1.0, 3.0], [2.0**-80, -(2.0**-80), 2.0**-80, 2.0**-20]
    codes = [np.float32(side).view(np.uint32) for side in (x, y)]
    made = exact_results("add", codes, [fmt, fmt])
    assert made.tolist() == [1 + 2.0**-52, 1 - 2.0**-53, -1 + 2.0**-53, 3 + 2.0**-20]


@pytest.mark.parametrize(
    ("regions", "right", "contradicted", "patched"),
    [(1, 3, 0, False), (1, 3, 3, True), (2, 0, 0, False), (2, 3, 0, True), (3, 1, 1, True)],
)
def test_what_has_exceptions_is_no_explanation(regions, right, contradicted, patched):
    rule = Rule(tuple((Condition(f"feature {place}", "=", 1),) for place in range(regions)))
    cause = Cause("wrong there", 40, contradicted, rule=rule, inside=(40, right), examples=Examples((), ()))
    assert cause.patched(40) == patched
    assert cause.patched(41)
    report = lp.compare(np.zeros(40, "f4"), np.full(40, 0x39, "u1"), "e4m3fn")
    report.diagnosis = Diagnosis([cause], 0)
    lead = "explained by" if not patched else "not explained; nearest:" if contradicted else "may be"
    assert f"{lead} wrong there" in str(report)
    assert ("explained by wrong there" in str(report)) == (not patched)
