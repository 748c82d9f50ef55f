"""Slips of multipliers, shifters, tables and scales, and of flags beside them, are named."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import lowprec as lp
from lowprec.spec.rounding import TOWARD_ZERO


def in_full(report):
    return (report.cause.explained, report.cause.contradicted) == (report.mismatches, 0)


def codes_of(fmt, count, sides, seed):
    drawn, largest = np.random.default_rng(seed), lp.format(fmt).max_magnitude
    codes = drawn.integers(0, largest, (sides, count), endpoint=True)
    return (codes | drawn.integers(0, 2, (sides, count)) << lp.format(fmt).width - 1).astype(np.uint16)


def test_an_addend_that_is_shifted_to_the_left_by_too_few_bits_is_named():
    a, b, c = codes_of("bfloat16", 4000, 3, 1) & 0x87FF | 0x3800
    c = c & 0x80FF | (0x3C00 + (np.arange(4000) % 24 << 7)).astype(np.uint16)
    x, y, z = (np.asarray(lp.decode(side, "bfloat16"), np.float64) for side in (a, b, c))
    # Last places from 11 below the product.
    shift = np.frexp(z)[1] - np.frexp(x)[1] - np.frexp(y)[1] + 19
    moved = np.where(shift >= 16, np.ldexp(z, (shift & 15) - shift), z)
    got = np.asarray(lp.fma(x, y, moved, "bfloat16"), np.float32).view(np.uint32) >> 16
    asked = {"operation": "fma", "source": "bfloat16", "limit": 0}
    report = lp.compare((a, b, c), got.astype(np.uint16), "bfloat16", **asked)
    words = "shifts of the addend to the left, to the product, with 11 places below it, modulo 16"
    assert words in report.cause.words
    assert in_full(report)


def test_a_multiplier_that_misses_a_correction_is_told_by_its_digit():
    a, b = codes_of("binary16", 20000, 2, 2) & 0x8FFF | 0x3000
    sizes = [(side & 0x3FF | 0x400).astype(np.int64) for side in (a, b)]
    product = sizes[0] * sizes[1] - np.where(sizes[1] >> 3 & 7 == 4, 16, 0)
    scale = (a >> 10 & 31).astype(int) + (b >> 10 & 31) - 50
    values = np.where((a ^ b) >> 15, -1.0, 1.0) * np.ldexp(product.astype(np.float64), scale)
    got = np.asarray(lp.encode(values, "binary16"))
    report = lp.compare((a, b), got, "binary16", operation="multiply", source="binary16", limit=0)
    assert report.cause.words == (
        "products of significands 16 last places too small, where bits 3 to 5 of operand2, as a digit of "
        "Booth's, is 4"
    )
    assert in_full(report)


def test_codes_that_are_exchanged_are_named():
    x = np.random.default_rng(3).uniform(-8, 8, 5000).astype(np.float32)
    codes = np.asarray(lp.encode(x, "e2m1fn", saturation="finite"))
    table = np.array([0, 1, 2, 3, 4, 6, 5, 7])
    got = (codes & 8 | table[codes & 7]).astype(np.uint8)
    report = lp.compare(x, got, "e2m1fn", saturation="finite", limit=0)
    assert report.cause.words == "codes of results, without signs, are others: 5 is 6, 6 is 5"
    assert in_full(report)


def test_elements_under_other_scales_than_those_that_are_written_are_told():
    drawn = np.random.default_rng(4)
    x = np.ldexp(drawn.standard_normal((400, 32)), drawn.integers(-130, -110, (400, 1))).astype(np.float32)
    made = lp.encode(x, "mxfp4")
    limited = lp.encode(x, "mxfp4", scales=np.maximum(made.scales, 2))
    report = lp.compare(x, limited.codes, "mxfp4", scales=made.scales, limit=0)
    assert report.cause.words == "elements divided by their scales at least 2.35099e-38, which are right"
    assert in_full(report)


def test_elements_by_a_reciprocal_of_the_significand_are_told():
    x = np.random.default_rng(5).standard_normal((600, 16)).astype(np.float32)
    made = lp.encode(x, "nvfp4", tensor_scale=1.0)
    significand = (made.scales & 7).astype(int) + np.where(made.scales >> 3, 8, 0)
    exponent = np.maximum(made.scales >> 3, 1).astype(int) - 10
    inverse = np.ldexp(np.ceil(4096 / significand), -12 - exponent)
    codes = lp.encode(x.astype(np.float64) * np.repeat(inverse, 16, 1), "e2m1fn", saturation="finite")
    report = lp.compare(x, codes, made.format, scales=made.scales, tensor_scale=1.0, limit=0)
    words = "elements times 2**12 / significands of scales as integers, rounded up to whole numbers"
    assert words in (report.cause.words, *report.cause.same)
    assert in_full(report)


def test_a_scale_that_loses_the_carry_of_its_rounding_is_told():
    x = np.random.default_rng(6).standard_normal((3000, 16)).astype(np.float32)
    made = lp.encode(x, "nvfp4", tensor_scale=1.0)
    how = dataclasses.replace(made.format.scales, rounding=TOWARD_ZERO)
    down = dataclasses.replace(made.format, scales=how)
    carries = (made.scales & 7 == 0) & (lp.encode(x, down, tensor_scale=1.0).scales < made.scales)
    scales = np.where(carries, made.scales - 8, made.scales).astype(np.uint8)
    got = lp.encode(x, "nvfp4", tensor_scale=1.0, scales=scales)
    report = lp.compare(x, got.codes, "nvfp4", scales=scales, tensor_scale=1.0, limit=0)
    assert report.cause.words == "scales half as large, where rounding carries into the exponent of the scale"
    assert in_full(report)


def test_flags_beside_wrong_results_are_counted_apart():
    a, b = codes_of("binary16", 4000, 2, 7) & 0x9FFF
    x, y = (np.asarray(lp.decode(side, "binary16"), np.float32) for side in (a, b))
    flags = np.zeros(4000, np.uint8)
    lp.add(x, y, "binary16", flags=flags)
    other = np.zeros(4000, np.uint8)
    got = np.asarray(lp.subtract(x, y, "binary16", flags=other, dtype=np.uint16))
    report = lp.compare((a, b), got, "binary16", operation="add", source="binary16", flags=other, limit=0)
    beside = int(((flags != other) & (got != np.asarray(lp.add(x, y, "binary16", dtype=np.uint16)))).sum())
    assert in_full(report)
    assert 0 < beside == report.flags.mismatches - report.flags.apart.mismatches
    assert f"beside results that differ too: {beside:,}" in str(report)
    assert report.as_dict()["flags"]["beside_right_results"] == report.flags.apart.mismatches


def test_a_flag_that_quiet_nans_hide_is_told_by_few_lines():
    """Lines of the same operands with other signs prove no more than one of them."""
    zero, infinite = (np.repeat(np.uint16([low, low | 0x8000]), 64) for low in (0, 0x7F80))
    a, b = np.concatenate([zero, infinite]), np.concatenate([infinite, zero])
    c = np.resize(np.uint16([0x7FC0, 0x3F80, 0x7F81, 0x7FFF, 0, 0x7F80]), 256)
    usual = codes_of("bfloat16", 3000, 3, 8)
    a, b, c = (np.concatenate(pair) for pair in zip((a, b, c), usual, strict=True))
    flags = np.zeros(a.size, np.uint8)
    values = [np.asarray(lp.decode(side, "bfloat16")) for side in (a, b, c)]
    right = lp.fma(*values, "bfloat16", profile="riscv", flags=flags, dtype=np.uint16)
    invalid = (np.arange(a.size) < 256) & np.isin(c, (0x7FC0, 0x7FFF))
    got = np.where(invalid, flags & ~np.uint8(lp.Flag.INVALID), flags)
    report = lp.compare(
        (a, b, c), right, "bfloat16", operation="fma", source="bfloat16", profile="riscv", flags=got, limit=0
    ).flags
    assert report.cause.words == "invalid is never raised, where operand3 is a quiet NaN"
    assert in_full(report)


def test_a_second_slip_is_told_of_what_the_first_leaves_over():
    x = np.random.default_rng(9).standard_normal(20000).astype(np.float32)
    codes = np.asarray(lp.encode(x, "e4m3fn"))
    cut = np.asarray(lp.encode(x, "e4m3fn", rounding="toward_zero"))
    got = np.where(x < -1, cut, codes)
    low = codes & 0x7F < 8
    got = np.where(low, codes & 0x80, got).astype(np.uint8)
    report = lp.compare(x, got, "e4m3fn", limit=0)
    text = str(report)
    assert report.cause.explained + report.diagnosis.rest.explained == report.mismatches
    assert f"the others by {report.diagnosis.rest.words}: {report.diagnosis.rest.explained:,} of" in text
    assert report.diagnosis.unexplained == 0
    assert report.as_dict()["diagnosis"]["others"] == report.diagnosis.rest.words
    assert "<td>the others: " in report.as_html()


def test_elements_that_carry_into_the_sign_are_named():
    x = np.random.default_rng(10).uniform(-2, 2, (300, 32)).astype(np.float32)
    made = lp.encode(x, "mxfp8_e4m3")
    quotients = np.abs(x) / np.repeat(lp.decode(made.scales, "e8m0fnu"), 32, 1)
    sign = np.signbit(x) * 0x80
    got = np.where(quotients >= 496, sign ^ 0x80, np.where(quotients > 464, sign | 0x7F, made.codes))
    report = lp.compare(x, got.astype(np.uint8), "mxfp8_e4m3", scales=made.scales, limit=0)
    assert report.cause.words == "elements past the largest wrap around: codes carry into the sign"
    assert in_full(report)


def test_shifts_modulo_a_power_of_two_that_leave_codes_are_named():
    drawn = np.random.default_rng(11)
    x = np.ldexp(drawn.uniform(1, 2, 6000), drawn.integers(-44, 9, 6000)).astype(np.float32)
    exponent = np.frexp(x)[1] - 1
    whole = np.ldexp(x.astype(np.float64), 23 - exponent).astype(np.int64)
    shift = 20 + np.maximum(-6 - exponent, 0) & 31
    kept, rest = whole >> shift, whole & (1 << shift) - 1
    half = 1 << np.maximum(shift - 1, 0)
    up = (shift > 0) & ((rest > half) | ((rest == half) & (kept & 1 == 1)))
    low = np.minimum(kept + up, 0x7E).astype(np.uint8)
    got = np.where(exponent < -6, low, np.asarray(lp.encode(x, "e4m3fn", saturation="finite")))
    report = lp.compare(x, got, "e4m3fn", saturation="finite", limit=0)
    words = "shifts of subnormal results, by 20 places more than these, modulo 32; what is left is the code"
    assert words in (report.cause.words, *report.cause.same)
    assert in_full(report)


def test_a_bit_of_the_lane_beside_is_named():
    x, y = codes_of("e4m3fn", 8000, 2, 12).astype(np.uint8).reshape(2, 500, 16) & 0xBF
    crossed = y.copy()
    crossed[:, 5] = y[:, 5] & 0xF7 | y[:, 4] & 0x08
    how = "ada_mma_e4m3fn_binary32"
    given = tuple(lp.decode(side, "e4m3fn") for side in (x, y))
    got = lp.dot(given[0], lp.decode(crossed, "e4m3fn"), how, dtype=np.uint32)
    report = lp.compare(given, got, operation="dot", accumulation=how, limit=0)
    assert report.cause.words == "bit 3 of y of the lane before in lane 5"
    assert in_full(report)


def sums(how, x, y, **given):
    """Return the codes of products of codes in the formats of an accumulation, and x and y as values."""
    how = lp.accumulations[how] if isinstance(how, str) else how
    values = tuple(lp.decode(side, fmt) for side, fmt in zip((x, y), how.operands, strict=True))
    return np.asarray(lp.dot(*values, how, dtype=np.uint32, **given)), values


@pytest.mark.parametrize("bits", [-3, 3])
def test_a_running_sum_of_other_precision_is_named(bits):
    x, y = codes_of("e4m3fn", 8000, 2, 13).astype(np.uint8).reshape(2, 250, 32) & 0xBF
    how = lp.accumulations["ada_mma_e4m3fn_binary32"]  # whose running sums have 14 bits
    fmt, rule = how.accumulator.result
    rule = dataclasses.replace(rule, nan_code=None)
    other = lp.Format(exponent_bits=8, trailing_bits=fmt.trailing_bits + bits, nans=1, infinity=True)
    window = dataclasses.replace(how.accumulator, result=(other, rule))
    got, _ = sums(dataclasses.replace(how, name="", accumulator=window), x, y)
    _, values = sums(how, x, y)
    report = lp.compare(values, got, operation="dot", accumulation=how, limit=0)
    assert f"running sums of {14 + bits} bits, not 14" in (report.cause.words, *report.cause.same)
    assert in_full(report)


def test_infinite_products_of_a_lane_that_are_left_out_are_named():
    x, y = codes_of("e5m2", 8000, 2, 14).astype(np.uint8).reshape(2, 500, 16)
    x[::7, 3], x[::14, 3], x[::9, 11] = 0x7C, 0xFC, 0x7C
    y[:, [3, 11]] |= 0x04
    lost = np.where((np.arange(16) == 3) & (x & 0x7F == 0x7C), 0, x).astype(np.uint8)
    how = "ada_mma_e5m2_binary32"
    (got, _), (_, values) = sums(how, lost, y), sums(how, x, y)
    report = lp.compare(values, got, operation="dot", accumulation=how, limit=0)
    assert any("infinite" in said and "lane 3" in said for said in (report.cause.words, *report.cause.same))
    assert in_full(report)


def test_a_negative_value_of_a_lane_that_wins_is_named():
    x = np.random.default_rng(15).standard_normal((400, 32)).astype(np.float32)
    seen = np.where((x[:, 13:14] < 0) & (np.arange(32) != 13), 0, x)
    scales = lp.encode(seen, "mxfp4").scales
    report = lp.compare(x, lp.encode(x, "mxfp4", scales=scales).codes, "mxfp4", scales=scales, limit=0)
    assert report.cause.words == "a negative value in lane 13 is the largest magnitude"
    assert in_full(report)


NVFP4 = "blackwell_tcgen05_e2m1fn_binary32_ue4m3_4"


def nvfp4(of_x, of_y, codes, groups=lambda sums: sums):
    """Return sums of groups of sixteen products times their scales, which binary32 holds, as codes."""
    x, y = (np.asarray(lp.decode(side, "e2m1fn"), np.float64).reshape(-1, 4, 2, 8) for side in codes)
    each = groups((x * y).sum(-1)).sum(-1)
    scales = [np.asarray(lp.decode(side, "ue4m3"), np.float64) for side in (of_x, of_y)]
    return np.asarray(lp.encode((each * scales[0] * scales[1]).sum(-1), "binary32"))


def test_sums_of_some_products_of_one_group_are_named_with_their_place():
    """Read the sixth sum of eight products without its sign, of nine bits."""
    drawn = np.random.default_rng(17)
    codes = drawn.integers(0, 16, (2, 400, 64)).astype(np.uint8)
    of_x, of_y = drawn.integers(0x34, 0x3C, (2, 400, 4)).astype(np.uint8)

    def groups(sums):
        wrong = sums.copy()
        wrong[:, 2, 1] += np.where(sums[:, 2, 1] < 0, 2.0**9 / 4, 0)  # in quarters, of the smallest product
        return wrong

    report = of_nvfp4(of_x, of_y, codes, nvfp4(of_x, of_y, codes, groups))
    words = "sums of 8 products, of 9 bits, 512 too large if they are negative"
    where = "of sums of 8 products where the number of the sum, counted from 0, is 5"
    assert report.cause.words == f"{words}, {where}"
    assert in_full(report)


def test_scales_of_some_blocks_are_named_with_their_rule():
    """Halve the scale of each block whose scales' codes have a sum of 122 and more."""
    drawn = np.random.default_rng(18)
    codes = drawn.integers(0, 16, (2, 1000, 64)).astype(np.uint8)
    of_x, of_y = drawn.integers(0x34, 0x40, (2, 1000, 4)).astype(np.uint8)
    low = of_x.astype(int) + of_y >= 122
    got = nvfp4(np.where(low, of_x - 8, of_x), of_y, codes)  # half the scale
    report = of_nvfp4(of_x, of_y, codes, got)
    assert "of blocks where the sum of the scales' codes is at least 122" in report.cause.words
    assert in_full(report)


def of_nvfp4(of_x, of_y, codes, got):
    values = tuple(lp.decode(side, "e2m1fn") for side in codes)
    scale = tuple(lp.decode(side, "ue4m3") for side in (of_x, of_y))
    return lp.compare(values, got, operation="dot", accumulation=NVFP4, scale=scale, limit=0)


def test_parts_of_groups_and_scales_of_units_are_named():
    drawn = np.random.default_rng(16)
    codes = drawn.integers(0, 16, (2, 400, 64)).astype(np.uint8)
    of_x, of_y = drawn.integers(0x34, 0x3C, (2, 400, 4)).astype(np.uint8)
    right = nvfp4(of_x, of_y, codes)
    assert of_nvfp4(of_x, of_y, codes, right).agrees
    limited = nvfp4(of_x, of_y, codes, lambda sums: np.clip(sums, -31.75, 31.75))
    report = of_nvfp4(of_x, of_y, codes, limited)
    words = "sums of 8 products, of 8 bits, saturate at -127 and 127 times the smallest product"
    assert words in (report.cause.words, *report.cause.same)
    assert in_full(report)
    of_x[::5, 2] = 0x78 + np.arange(80) % 7
    nan = np.where((of_x >= 0x78).any(1), np.uint32(0x7FFFFFFF), nvfp4(of_x, of_y, codes))
    report = of_nvfp4(of_x, of_y, codes, nan)
    assert any("read as NaN from 256 on" in said for said in (report.cause.words, *report.cause.same))
    assert in_full(report)
