"""Plant a fault of each family of edits in results of the library or in integers, and see it named."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import lowprec as lp
from lowprec.export.block_vectors import decoder_suite
from lowprec.export.vectors import suite
from lowprec.spec import catalog
from lowprec.verify.compare.block_lines import compare_decoder_lines

pytestmark = pytest.mark.apart

MX = "rtx_blackwell_mma_e4m3fn_binary32_e8m0fnu_1"
NV = "blackwell_tcgen05_e2m1fn_binary32_ue4m3_4"


def named(report, words):
    assert words in (report.cause.words, *report.cause.same), report.cause
    assert (report.cause.explained, report.cause.contradicted) == (report.mismatches, 0)


# -- rounding ------------------------------------------------------------------------------------------


def every_bfloat16():
    return np.arange(1 << 16).astype(np.uint16).view(ml_dtypes.bfloat16)


def rounded(x, mode):
    return np.asarray(lp.encode(x, "e4m3fn", rounding=mode)).view(np.uint8).copy()


def test_ties_that_go_up_below_the_normal_numbers_are_named():
    x = every_bfloat16()
    got, up = rounded(x, "nearest_even"), rounded(x, "toward_positive")
    here = (rounded(x, "nearest_zero") != rounded(x, "nearest_away")) & (np.abs(x) < 2.0**-6)
    got[here] = up[here]
    named(
        lp.compare(x, got, "e4m3fn", limit=0), "ties up, where the exact result is below the normal numbers"
    )


def test_an_increment_by_the_last_bit_and_anything_behind_it_is_named():
    x = np.abs(every_bfloat16())
    got, cut = rounded(x, "nearest_even"), rounded(x, "toward_zero")
    odd = (cut & 1 == 1) & (cut < 0x7E)
    got[odd] = rounded(x, "away_from_zero")[odd]
    words = "rounded away from zero above ties where the last bit is 0, if anything is cut where it is 1"
    named(lp.compare(x, got, "e4m3fn", limit=0), words)


def test_conditions_on_the_result_before_hold_in_parts_whose_operands_ascend():
    """Vectors ascend but for the last ones: rules that are learnt of some lines are asked of all."""
    formats = lp.format("binary32"), lp.format("bfloat16")
    vectors = suite("convert", formats, lp.Projection(rounding="toward_positive"))
    words, got = vectors.operands[0].astype(np.uint32), np.asarray(vectors.results).astype(np.uint16)
    unseen = np.isnan(words.view(np.float32)) & (words & 0x7F0000 == 0)
    got[unseen] = words[unseen] >> 16 & 0xFF80
    report = lp.compare(words.view(np.float32), got, "bfloat16", rounding="toward_positive", limit=0)
    assert (report.mismatches, report.failed) == (2, {})


EXCHANGED = "the guard bit and the sticky bit exchanged"
BELOW = "rounded by the bit one place below the guard bit, and those behind it"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda cut, tail: (cut, (tail & 63 > 0) << 6 | tail >> 6), EXCHANGED),
        (lambda cut, tail: (cut, tail << 1 & 127), BELOW),
    ],
)  # fmt: skip
def test_guard_bits_in_another_place_are_named(change, words):
    """Codes of 15 bits behind the point, of which e4m3fn keeps three: seven are the tail."""
    codes = np.arange(1 << 10, 1 << 11)
    cut, tail = change(codes >> 7, codes & 127)
    kept = cut + ((tail > 64) | (tail == 64) & (cut & 1 == 1))
    x = np.concatenate([np.ldexp(codes, power) for power in range(-12, -4)]).astype(np.float32)
    got = np.concatenate([(kept - 8) + (power + 10 + 7 << 3) for power in range(-12, -4)]).astype(np.uint8)
    named(lp.compare(x, got, "e4m3fn", limit=0), words)


def test_a_shift_that_wraps_and_keeps_the_bits_of_a_register_is_named():
    """Shifts of 24 bits of binary32 to subnormal numbers of e5m2, of 32 and more places."""
    x = np.float32(2.0) ** np.repeat(np.arange(-40, -14), 40).astype(np.float32)
    x *= np.random.default_rng(1).uniform(1, 2, x.size).astype(np.float32)
    got = np.asarray(lp.encode(x, "e5m2")).view(np.uint8).copy()
    for place, value in enumerate(x.tolist()):
        exponent = int(np.frexp(value)[1]) - 1
        shift = 21 + (-14 - exponent)
        if shift >= 32:
            whole = (
                int(value * 2.0 ** (23 - exponent)) * 4
            )  # two bits more: the guard bit, and those behind it
            kept = whole >> (shift & 31)
            rest = whole & (1 << (shift & 31)) - 1
            code, tail = kept >> 2 & 7, (kept & 3) << 1 | (rest > 0)
            got[place] = code + (tail > 4 or (tail == 4 and code & 1))
    words = "shifts of subnormal results, by 21 places more than these, modulo 32; bits before the point lost"
    named(lp.compare(x, got, "e5m2", limit=0), words)


# -- operands ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("factor", "words"), [(1.5, "1.5 times as large"), (0.0, "0000")])
def test_one_number_that_is_misread_is_named(factor, words):
    drawn = np.random.default_rng(2)
    codes = drawn.integers(0, 0x7C00, (2, 2000)).astype(np.uint16)
    codes[0, ::7] = codes[1, 3::11] = 1
    values = [side.view(np.float16).astype(np.float64) for side in codes]
    read = [np.where(side == 1, value * factor, value) for side, value in zip(codes, values, strict=True)]
    got = np.asarray(lp.encode(read[0] * read[1], "binary16"))
    report = lp.compare(tuple(codes), got, "binary16", operation="multiply", source="binary16", limit=0)
    named(report, f"each operand 0001 read as {words}")


# -- blocks --------------------------------------------------------------------------------------------


def blocks(change=None, fmt="mxfp8_e4m3", elements=None):
    """Return values, and their blocks under the scales of changed values."""
    form = lp.block_formats[fmt]
    values = np.random.default_rng(3).standard_normal((1000, form.size)).astype(np.float32)
    values *= 2.0 ** np.random.default_rng(4).integers(-3, 4, values.shape)
    made = lp.encode(values, form)
    scales = made.scales if change is None else change(values, form)
    made = lp.encode(values, form, scales=scales)
    return values, made


def judged(values, made, fmt="mxfp8_e4m3"):
    return lp.compare(values, made.codes, fmt, scales=made.scales, limit=0)


def test_negative_values_of_some_lanes_that_the_largest_magnitude_misses_are_named():
    def change(values, form):
        missed = (values < 0) & (np.arange(form.size) < 16)
        return lp.encode(np.where(missed, 0, values), form).scales

    words = "negative values in lanes 0 to 15 of 32 left out of the largest magnitude"
    named(judged(*blocks(change)), words)


def test_a_limit_of_scales_is_named():
    def change(values, form):
        return np.maximum(lp.encode(values, form).scales, 121)

    values, made = blocks(change)
    named(judged(values, made), "scale codes are at least 79")


def test_scales_one_too_high_are_told_by_the_zeros_behind_the_largest_magnitude():
    values = np.random.default_rng(5).standard_normal((600, 32)).astype(np.float32)
    values[::3, 5] = np.float32(1.5) * 2.0 ** np.random.default_rng(6).integers(2, 6, 200)
    form = lp.block_formats["mxfp8_e4m3"]
    up = np.zeros((600, 1), np.uint8)
    up[::3] = 1
    made = lp.encode(values, form, scales=lp.encode(values, form).scales + up)
    said = judged(values, made).cause
    assert said.words.startswith(("scales twice as large", "scale codes one too high"))
    assert "the number of zeros at the end of the trailing bits of the block's largest" in said.words
    assert said.contradicted == 0


def test_elements_under_half_a_scale_are_named():
    values, made = blocks()
    other = lp.encode(values, made.format, scales=made.scales - 1)
    codes = np.where(np.arange(32) < 16, made.codes, other.codes)
    report = lp.compare(values, codes, "mxfp8_e4m3", scales=made.scales, limit=0)
    named(report, "elements twice as large before they are rounded, where the lane is at least 16")


def test_a_threshold_of_elements_is_told_by_the_code_below_it():
    form = lp.block_formats["mxfp4"]
    values = np.random.default_rng(7).uniform(-7, 7, (2000, 32)).astype(np.float32)
    made = lp.encode(values, form)
    size = np.abs(values) / 2.0 ** (made.scales.astype(np.float64) - 127)
    codes = np.where((size >= 1.625) & (size < 1.75), made.codes & 8 | 4, made.codes)
    said = lp.compare(values, codes, "mxfp4", scales=made.scales, limit=0).cause
    assert "the code of the element cut toward zero, without its sign, is 3" in said.words
    assert "the sixteenths of a step from that code to the exact result is 4 to 7" in said.words


def test_the_largest_magnitude_of_the_last_block_of_numbers_is_named():
    form = lp.block_formats["mxfp8_e4m3"]
    values = np.random.default_rng(8).standard_normal((600, 32)).astype(np.float32)
    values *= np.float32(2.0) ** np.random.default_rng(9).integers(-3, 4, (600, 1))
    values[5::9, 4] = np.nan
    last, largest = 0.0, []
    for own in np.abs(values).max(1):
        largest.append(own if np.isnan(own) else max(own, last))
        last = last if np.isnan(own) else own
    high = np.where(np.arange(32) == 0, np.array(largest, np.float32)[:, None], values)
    right, scales = lp.encode(values, form), lp.encode(high, form).scales
    nan = right.scales == 255
    made = lp.encode(values, form, scales=np.where(nan, 254, scales).astype(np.uint8))
    codes, scales = np.where(nan, right.codes, made.codes), np.where(nan, right.scales, scales)
    report = lp.compare(values, codes, form, scales=scales, limit=0)
    words = "the largest magnitude of the block before counts too"
    named(report, f"{words}, of blocks without NaNs and infinities")


def test_scales_that_are_rounded_by_thresholds_are_named():
    form = lp.block_formats["nvfp4"]
    values = np.random.default_rng(14).standard_normal((1200, 16)).astype(np.float32)
    right = np.asarray(lp.encode(values, form, tensor_scale=1.0).scales)
    exact = np.abs(values).max(1, keepdims=True).astype(np.float64) / 6
    cut = np.asarray(lp.encode(exact, "e4m3fn", rounding="toward_zero")).view(np.uint8)
    scales = np.where(cut & 1 == 1, cut, right)
    made = lp.encode(values, form, scales=scales, tensor_scale=1.0)
    report = lp.compare(values, made.codes, form, scales=scales, tensor_scale=1.0, limit=0)
    named(report, "scales: rounded away from zero above ties where the last bit is 0, never where it is 1")


# -- decoded blocks ------------------------------------------------------------------------------------


def decoded(change):
    """Return lines of scale, elements and bfloat16 values of mxfp4 blocks, as `change` makes the values."""
    file = decoder_suite(lp.block_formats["mxfp4"], lp.format("bfloat16"), samples=64)
    file = file.file() if callable(file.file) else file.file
    lines = []
    scales, elements, values = (column.codes for column in file.columns)
    for scale, row, right in zip(scales.reshape(len(elements), -1), elements, values, strict=True):
        made = [change(int(scale[0]), int(e), int(v)) for e, v in zip(row, right, strict=True)]
        lines.append(
            " ".join([f"{int(scale[0]):02x}", *(f"{int(e):x}" for e in row), *(f"{v:04x}" for v in made)])
        )
    return compare_decoder_lines(lines, lp.block_formats["mxfp4"], catalog.BFLOAT16, limit=0)


def test_right_values_of_blocks_agree():
    assert decoded(lambda scale, e, v: v).agrees


@pytest.mark.parametrize("name", ["mxint8", "bnb_nf4"])
def test_elements_without_exponents_are_compared_too(name, monkeypatch):
    monkeypatch.setenv("LOWPREC_RAISE", "1")
    form = lp.block_formats[name]
    values = np.random.default_rng(15).standard_normal((40, form.size)).astype(np.float32)
    made = lp.encode(values, form)
    lines = []
    width = -(-form.scale.width // 4)
    for row, scale, right in zip(made.codes, made.scales, made.values("float32"), strict=True):
        words = np.asarray(lp.encode(right, "bfloat16")).view(np.uint16).tolist()
        words[3] ^= 0x40
        lines.append(" ".join([f"{int(scale[0]):0{width}x}", *(f"{int(e):02x}" for e in row.view(np.uint8)),
                               *(f"{word:04x}" for word in words)]))  # fmt: skip
    assert compare_decoder_lines(lines, form, catalog.BFLOAT16, limit=0).mismatches == 40


def test_zeros_that_are_read_as_numbers_have_the_scale_of_their_tensor():
    form = lp.block_formats["nvfp4"]
    values = np.random.default_rng(16).standard_normal((300, 16)).astype(np.float32)
    made = lp.encode(values, form, tensor_scale=3.0)
    wrong = lp.BlockArray(np.maximum(made.codes, 1), made.scales, form, (1,), 3.0)
    lines = [
        " ".join(["40400000", f"{scale[0]:02x}", *(f"{e:x}" for e in row), *(f"{v:04x}" for v in words)])
        for row, scale, words in zip(
            made.codes.tolist(), made.scales.tolist(), lp.encode(wrong, "bfloat16").tolist(), strict=True
        )
    ]
    report = compare_decoder_lines(lines, form, catalog.BFLOAT16, limit=0)
    assert report.cause.words.startswith("the element with the last bit read as 1, where")
    assert (report.cause.explained, report.cause.contradicted) == (report.mismatches, 0)


SMALLEST = "scales with the smallest code taken as zero"
SUBNORMAL = "the element taken as zero if it is subnormal"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda scale, e, v: (e & 8) << 12 if scale == 0 else v, SMALLEST),
        (lambda scale, e, v: (e & 8) << 12 if e & 7 == 1 and scale < 255 else v, SUBNORMAL),
    ],
)
def test_values_of_blocks_are_told_by_their_elements_and_scales(change, words):
    named(decoded(change), words)


# -- dot products --------------------------------------------------------------------------------------


def mx(scales=(120, 135), seed=10):
    drawn = np.random.default_rng(seed)
    codes = drawn.integers(0, 0x7E, (2, 700, 32)) | drawn.integers(0, 2, (2, 700, 32)) << 7
    return codes.astype(np.uint8), drawn.integers(*scales, (2, 700, 1)).astype(np.uint8)


def mx_dot(codes, scales, addend):
    form = lp.BlockFormat(name="", element=lp.format("e4m3fn"), scale=lp.format("e8m0fnu"), size=32)
    sides = (lp.BlockArray(side, of, form, (1,)) for side, of in zip(codes, scales, strict=True))
    return lp.dot(*sides, MX, addend=addend)


def mx_report(codes, scales, addend, got):
    factors = tuple(lp.decode(side, "e4m3fn") for side in codes)
    pair = tuple(lp.decode(of, "e8m0fnu") for of in scales)
    given = {"operation": "dot", "accumulation": MX, "scale": pair, "addend": addend}
    return lp.compare(factors, got, limit=0, **given)


def test_sums_of_scale_codes_in_eight_bits_are_named():
    codes, scales = mx((100, 160))
    zero = np.zeros(700, np.float32)
    both = scales.astype(np.int64).sum(0)
    lower = scales.astype(np.int64).copy()
    wraps = both >= 256
    lower[0] = np.where(wraps, np.maximum(lower[0] - 128, 0), lower[0])
    lower[1] = np.where(wraps, lower[1] - 128, lower[1])
    keep = ((lower >= 0) & (scales.astype(np.int64) - lower <= 128)).all(0)[:, 0]
    keep &= (np.where(wraps, (scales >= 128).all(0), True))[:, 0]
    codes, scales, lower, zero = codes[:, keep], scales[:, keep], lower[:, keep].astype(np.uint8), zero[keep]
    got = mx_dot(codes, lower, zero)
    named(mx_report(codes, scales, zero, got), "sums of scales' exponents wrap around, to -254 to 1")


def test_a_number_of_some_lanes_that_is_misread_is_named():
    codes, scales = mx()
    addend = np.random.default_rng(11).standard_normal(700).astype(np.float32)
    read = codes.copy()
    read[1, :, 8:16] -= (read[1, :, 8:16] & 0x7F == 0x70).astype(np.uint8)
    report = mx_report(codes, scales, addend, mx_dot(read, scales, addend))
    named(report, "128 in y read as 120 in lanes 8 to 15")


def test_nan_detectors_that_look_at_the_exponent_alone_are_named():
    codes, scales = mx()
    addend = np.zeros(700, np.float32)
    codes[:, ::2] &= 0xBF
    read = codes.copy()
    some = read[1, :, 8:16]
    some[some & 0x78 == 0x78] |= 7
    report = mx_report(codes, scales, addend, mx_dot(read, scales, addend))
    named(report, "y read as NaN where the exponent field is all ones in lanes 8 to 15")


def test_products_that_are_summed_in_another_order_are_named():
    drawn = np.random.default_rng(12)
    x, y = drawn.standard_normal((2, 1500, 8)).astype(ml_dtypes.bfloat16)
    order = [1, 0, 3, 2, 5, 4, 7, 6]
    given = {"operation": "dot", "accumulation": "fp32_fma", "limit": 0}
    report = lp.compare((x, y), lp.dot(x[:, order], y[:, order], "fp32_fma"), **given)
    named(report, "products exchanged in pairs")


def test_an_addend_that_joins_the_rounded_sum_is_named():
    codes, scales = mx()
    addend = (np.random.default_rng(13).standard_normal(700) * 64).astype(np.float32)
    first = np.asarray(mx_dot(codes, scales, np.zeros(700, np.float32))).view(np.float32)
    got = np.asarray(lp.encode(first.astype(np.float64) + addend, "binary32", rounding="toward_zero"))
    report = mx_report(codes, scales, addend, got.view(np.float32))
    words = (
        "the addend added to the sum of products, after that is rounded: the second time truncation: rounded "
    )
    named(report, f"{words}toward zero")
