"""Faults that hold in some lanes or under a condition are named with both, planted in operands."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from click.testing import CliRunner

import lowprec as lp
from lowprec.cli.main import main
from lowprec.export.block_vectors import block_suite
from lowprec.verify.compare.block_lines import compare_block_lines
from lowprec.verify.compare.rules import learn
from lowprec.verify.questions.features import Feature

ADA = "ada_mma_e4m3fn_binary32"
MX = "rtx_blackwell_mma_e4m3fn_binary32_e8m0fnu_1"


def explained(report, words):
    assert report.cause.words == words
    assert (report.cause.explained, report.cause.contradicted) == (report.mismatches, 0)
    assert report.mismatches > 9


def factors(seed, lanes=16, count=600):
    """Codes of e4m3fn, normal numbers, some zeros among them."""
    drawn = np.random.default_rng(seed)
    codes = drawn.integers(0x20, 0x60, (2, count, lanes)) | drawn.integers(0, 2, (2, count, lanes)) << 7
    return np.where(drawn.random(codes.shape) < 0.05, 0, codes).astype(np.uint8)


def values(codes):
    return lp.decode(codes, "e4m3fn")


@pytest.mark.parametrize("operand", ["x", "y", "addend"])
def test_an_operand_of_the_line_before_is_named_with_its_condition(operand):
    x, y = (values(side) for side in factors(1))
    addend = np.random.default_rng(2).standard_normal(len(x)).astype(np.float32) * 8
    held = {"x": x, "y": y, "addend": addend}
    minus = np.signbit(x[:, 3] * y[:, 3])
    before = np.roll(held[operand], 1, 0)
    before[0] = held[operand][0]
    here = minus if operand == "addend" else minus[:, None] & (np.arange(16) // 4 == 1)
    planted = {**held, operand: np.where(here, before, held[operand])}
    got = lp.dot(planted["x"], planted["y"], ADA, addend=planted["addend"])
    report = lp.compare((x, y), got, operation="dot", accumulation=ADA, addend=addend, limit=0)
    lanes = "" if operand == "addend" else " in lanes 4 to 7"
    name = "the addend" if operand == "addend" else operand
    explained(report, f"{name} of the line before{lanes}, where in lane 3 the product is negative")


def test_an_edit_of_a_lane_is_named_with_a_condition_on_another():
    x, y = factors(3)
    here = ((x[:, 2] & 0x7F) == 0) | ((y[:, 2] & 0x7F) == 0)
    wrong = y.copy()
    wrong[here, 3] ^= 0x80
    got = lp.dot(values(x), values(wrong), ADA)
    report = lp.compare((values(x), values(y)), got, operation="dot", accumulation=ADA, limit=0)
    assert report.cause.words.endswith(" in lane 3, where in lane 2 the product is zero")
    assert (report.cause.explained, report.cause.contradicted) == (report.mismatches, 0)


def test_a_bit_of_the_scale_of_some_lanes_is_named():
    x, y = factors(4, lanes=32)
    scales = np.random.default_rng(5).integers(120, 135, (2, len(x), 1)).astype(np.uint8)
    low = (scales[1] & 1 == 1) & (np.arange(32) >= 16)
    wrong = np.where(low & (y & 0x7F > 0), y - 8, y).astype(np.uint8)
    form = lp.BlockFormat(name="", element=lp.format("e4m3fn"), scale=lp.format("e8m0fnu"), size=32)
    blocks = [lp.BlockArray(side, of, form, (1,)) for side, of in zip((x, wrong), scales, strict=True)]
    scale = tuple(lp.decode(of, "e8m0fnu") for of in scales)
    given = {"operation": "dot", "accumulation": MX, "scale": scale, "limit": 0}
    report = lp.compare((values(x), values(y)), lp.dot(*blocks, MX), **given)
    explained(report, "the scale of y with the last bit read as 0 in lanes 16 to 31")


def test_a_running_sum_that_is_not_loaded_where_products_are_zero_is_named():
    """The first step has no product but zeros in every fifth line."""
    x, y = (values(side).astype(np.float64) for side in factors(10, lanes=32))
    x[::5, :16] = 0
    addend = np.random.default_rng(11).standard_normal(len(x)).astype(np.float32)
    last, got = 0.0, []
    for row, other, first in zip(x, y, addend, strict=True):
        zero = not (row[:16] * other[:16]).any()
        last = lp.dot(row, other, ADA, addend=np.float32(last if zero else first))
        got.append(last)
    report = lp.compare((x, y), np.float32(got), operation="dot", accumulation=ADA, addend=addend, limit=0)
    explained(
        report, "the addend is the result of the line before, where in step 0 of 2 no product is nonzero"
    )


def test_scales_that_are_not_loaded_where_a_lane_is_zero_are_named():
    x, y = factors(8, lanes=32)
    x[np.random.default_rng(9).random(len(x)) < 0.5, 0] = 0x80
    scales = np.random.default_rng(5).integers(120, 135, (2, len(x), 1)).astype(np.uint8)
    here = np.maximum.accumulate(np.where(x[:, 0] & 0x7F, np.arange(len(x)), 0))
    form = lp.BlockFormat(name="", element=lp.format("e4m3fn"), scale=lp.format("e8m0fnu"), size=32)
    sides = (x, scales[0][here]), (y, scales[1])
    blocks = [lp.BlockArray(side, of, form, (1,)) for side, of in sides]
    scale = tuple(lp.decode(of, "e8m0fnu") for of in scales)
    given = {"operation": "dot", "accumulation": MX, "scale": scale, "limit": 0}
    report = lp.compare((values(x), values(y)), lp.dot(*blocks, MX), **given)
    explained(report, "the scales of x of the line before, and kept, where in lane 0 x is zero")


@pytest.mark.parametrize(
    ("bits", "words"), [(4, "shifts of alignment modulo 16"), (3, "shifts of alignment modulo 8")]
)
def test_shifts_of_a_sum_of_two_operands_that_lose_bits_are_named(bits, words):
    drawn = np.random.default_rng(6)
    x, y = (np.ldexp(1 + drawn.integers(0, 1024, 4000) / 1024, drawn.integers(-14, 15, 4000)) for _ in "xy")
    y *= drawn.choice([-1, 1], 4000)
    apart = np.frexp(x)[1] - np.frexp(y)[1]
    up = [np.maximum(by, 0) >> bits << bits for by in (-apart, apart)]
    got = np.asarray(lp.encode(np.ldexp(x, up[0]) + np.ldexp(y, up[1]), "binary16"))
    given = tuple(side.astype(np.float16) for side in (x, y))
    report = lp.compare(given, got, "binary16", operation="add", limit=0)
    assert words in (report.cause.words, *report.cause.same)
    assert (report.cause.explained, report.cause.contradicted) == (report.mismatches, 0)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (
            lambda x: x[:, 0] < 0,
            "scales with the last bit read as 1, where the value of the block's largest "
            "magnitude is negative",
        ),
        (lambda x: x[:, 0] == x[:, 0], "scales with the last bit read as 1"),
    ],
)
def test_a_bit_of_the_scale_of_a_block_is_named(wrong, words):
    drawn = np.random.default_rng(7)
    x = drawn.uniform(-1, 1, (400, 32)).astype(np.float32)
    x[:, 0] = np.ldexp(drawn.uniform(1, 2, 400) * drawn.choice([-1, 1], 400), drawn.integers(0, 9, 400))
    right = lp.encode(x, "mxfp8_e4m3")
    scales = np.where(wrong(x)[:, None], right.scales | 1, right.scales).astype(np.uint8)
    got = lp.encode(x, "mxfp8_e4m3", scales=scales)
    report = lp.compare(x, got.codes, "mxfp8_e4m3", scales=scales, limit=0)
    explained(report, words)


def test_a_limit_that_results_leave_open_is_told():
    size = np.repeat([3, 4, 9, 10, 11], 40)
    rule = learn([Feature("size", size)], size >= 9, size < 9)
    assert str(rule) == "size is at least 9 (or down to 5: no results lie between)"


@pytest.mark.parametrize("packed", [False, True])
def test_lines_with_scales_of_tensors_are_judged(packed):
    fmt, source = lp.block_formats["nvfp4"], lp.format("binary32")
    lines = block_suite(source, fmt, samples=256).render("text", packed=packed).decode().splitlines()
    report = compare_block_lines(lines, source, fmt, ulps=1)
    assert (report.mismatches, report.compared % 16) == (0, 0)
    assert report.compared > 256 * 16


def line_of(values, tensor, scale, codes):
    """Return a line of operands and results of a block with a scale of its tensor."""
    words = [f"{int(v):08x}" for v in (*values.view(np.uint32), np.float32(tensor).view(np.uint32))]
    return " ".join([*words, f"{int(scale[0]):02x}", *(f"{code:x}" for code in codes)])


def test_elements_by_another_scale_of_the_tensor_are_named_with_their_lanes():
    fmt, lines = lp.block_formats["nvfp4"], []
    drawn = np.random.default_rng(8)
    for tensor in np.float32([0.0123456, 0.987654, 3.21987]):
        tensor = (tensor.view(np.uint32) | np.uint32(0xFFFF)).view(np.float32)
        x = drawn.standard_normal((400, 16)).astype(np.float32) * tensor * np.float32(900)
        cut = float((tensor.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32))
        right = lp.encode(x, fmt, tensor_scale=float(tensor))
        other = lp.encode(x, fmt, tensor_scale=cut, scales=right.scales)
        codes = np.where(np.arange(16) >= 12, other.codes, right.codes)
        parts = zip(x, right.scales, codes, strict=True)
        lines += [line_of(row, tensor, scale, found) for row, scale, found in parts]
    report = compare_block_lines(lines, lp.format("binary32"), fmt, limit=0)
    words = "elements divided by the tensor's scale without its last 16 bits"
    explained(report, f"{words}, where the lane is at least 12")


@pytest.mark.parametrize("words", ["of the line before", "without its trailing bits, a power of two"])
def test_another_scale_of_the_tensor_is_named(words):
    fmt, drawn = lp.block_formats["nvfp4"], np.random.default_rng(9)
    tensors = drawn.choice(np.float32([0.0123456, 0.2345, 0.987654, 3.21987, 5.5]), 100)
    x = drawn.standard_normal((100, 16)).astype(np.float32) * tensors[:, None] * np.float32(300)
    late = "before" in words
    others = np.r_[tensors[:1], tensors[:-1]] if late else np.exp2(np.floor(np.log2(tensors)))
    lines = []
    for row, tensor, other in zip(x, tensors, others, strict=True):
        made = lp.encode(row[None], fmt, tensor_scale=float(other))
        lines.append(line_of(row, tensor, made.scales[0], made.codes[0]))
    report = compare_block_lines(lines, lp.format("binary32"), fmt, limit=0)
    explained(report, f"the tensor's scale {words}")


def under(x, fmt, scales):
    """Return codes of elements by other scales."""
    return lp.encode(x, fmt, scales=scales).codes


def before(rows):
    return np.concatenate([rows[:1], rows[:-1]])


#: How elements of MXFP8 are made, from values and the right blocks, by what they are named as.
OF_BLOCKS = {
    "elements under the scale of their half of the block alone": lambda x, made: (
        lp.encode(x, dataclasses.replace(made.format, size=16)).codes
    ),
    "elements divided by the scale of the block before, where the lane is 7": lambda x, made: np.where(
        np.arange(32) == 7, under(x, made.format, before(made.scales)), made.codes
    ),
}


@pytest.mark.parametrize("words", OF_BLOCKS)
def test_elements_under_another_scale_are_named(words):
    drawn = np.random.default_rng(10)
    x = np.ldexp(drawn.standard_normal((300, 32)), drawn.integers(-6, 6, (300, 1))).astype(np.float32)
    made = lp.encode(x, "mxfp8_e4m3")
    codes = OF_BLOCKS[words](x, made)
    report = lp.compare(x, codes, "mxfp8_e4m3", scales=made.scales, limit=0)
    explained(report, words)


def test_elements_by_a_scale_that_has_no_limit_are_named():
    """Divide by scales of four bits as they are before 448, the largest of E4M3, by hand."""
    fmt, drawn = lp.block_formats["nvfp4"], np.random.default_rng(15)
    x = drawn.uniform(1, 2, (300, 16)).astype(np.float32) * np.float32(2.0) ** drawn.integers(8, 13, (300, 1))
    made = lp.encode(x, fmt, tensor_scale=1.0)
    fraction, exponent = np.frexp(np.abs(x).max(1, keepdims=True) / 6)
    scales = np.ldexp(np.rint(fraction * 16), exponent - 4)
    other = lp.encode(x / scales, "e2m1fn", saturation="finite")
    codes = np.where(scales > 448, other, made.codes)
    report = lp.compare(x, codes, fmt, scales=made.scales, tensor_scale=1.0, limit=0)
    explained(report, "elements divided by the scale before it is limited")


def test_an_element_that_is_kept_from_the_block_before_is_named():
    x = np.random.default_rng(12).standard_normal((300, 32)).astype(np.float32)
    made = lp.encode(x, "mxfp8_e4m3")
    codes = made.codes.copy()
    for row in np.flatnonzero(np.signbit(x[1:, 7])) + 1:
        codes[row, 7] = codes[row - 1, 7]
    report = lp.compare(x, codes, "mxfp8_e4m3", scales=made.scales, limit=0)
    assert report.cause.words.startswith(
        "elements that are as they came of the block before, under scales that"
    )
    assert (report.cause.explained, report.cause.contradicted) == (report.mismatches, 0)


def test_special_values_of_one_sign_that_are_numbers_are_named():
    drawn = np.random.default_rng(11)
    x = drawn.standard_normal((200, 32)).astype(np.float32)
    x[::5][np.arange(40), drawn.integers(0, 32, 40)] = -np.inf
    x[1::5][np.arange(40), drawn.integers(0, 32, 40)] = np.inf
    made = lp.encode(np.where(x == -np.inf, -(2.0**128), x.astype(np.float64)), "mxfp8_e4m3")
    report = lp.compare(x, made.codes, "mxfp8_e4m3", scales=made.scales, limit=0)
    explained(report, "negative NaNs and infinities taken as numbers, of the next exponent")


def test_the_length_of_lines_is_checked(tmp_path):
    path = tmp_path / "lines.txt"
    path.write_text("3c00 0000 3c00 0000 00000000 3f800000\n")
    asked = ["compare", str(path), "dot", "fp32_fma", "binary16", "binary16", "--length"]
    assert CliRunner().invoke(main, [*asked, "2"]).exit_code == 0
    refused = CliRunner().invoke(main, [*asked, "3"])
    assert refused.exit_code == 2
    assert "the result of K = 3" in refused.output
    for words in (["x.npy", "y.npy"], [str(path), "add", "e4m3fn", "e4m3fn", "e4m3fn"]):
        assert CliRunner().invoke(main, ["compare", *words, "--length", "2"]).exit_code == 2
