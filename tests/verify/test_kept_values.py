"""Registers that keep a value, special values read as others and lanes under wrong addresses are named."""

from __future__ import annotations

import numpy as np
from click.testing import CliRunner

import lowprec as lp
from lowprec.cli.main import main
from lowprec.spec.catalog import BINARY32
from lowprec.verify.compare.block_lines import compare_block_lines
from lowprec.verify.compare.lines import compare_dot_lines
from lowprec.verify.inputs.dot_shape import shape_of
from tests.verify.test_conditional_faults import ADA, explained, factors, values

FP4 = "blackwell_tcgen05_e2m1fn_binary32_e8m0fnu_2"


def test_a_sign_that_zeros_keep_from_long_before_is_named():
    """Name it over long runs of zeros; NaNs neither load the register nor take what it holds."""
    drawn = np.random.default_rng(3)
    x = (drawn.standard_normal(2000) * np.where(np.arange(2000) // 40 % 2, 1e-9, 1)).astype(np.float32)
    x[::50] = np.nan
    made = lp.encode(x, "e4m3fn")
    loads = (made & 0x7F > 0) & (made & 0x7F < 0x7F)
    last = np.maximum.accumulate(np.where(loads, np.arange(x.size), 0))
    got = np.where(made & 0x7F == 0, made[last] & 0x80, made).astype(np.uint8)
    report = lp.compare(x, got, "e4m3fn", limit=0)
    zero = "where the result is zero"
    words = (
        f"the sign of the operand of the line before, {zero}, and kept, {zero}, or where the result is NaN"
    )
    explained(report, words)


def test_an_addend_whose_nans_are_infinite_is_named():
    x, y = (values(side) for side in factors(1))
    addend = np.random.default_rng(2).standard_normal(len(x)).astype(np.float32)
    addend[::20] = np.copysign(np.float32(np.nan), addend[::20])
    read = np.where(np.isnan(addend), np.copysign(np.float32(np.inf), addend), addend)
    report = lp.compare(
        (x, y), lp.dot(x, y, ADA, addend=read), operation="dot", accumulation=ADA, addend=addend, limit=0
    )
    explained(report, "the addend infinite where it is NaN")


def test_an_address_line_of_lanes_that_is_stuck_is_named():
    x, y = (values(side) for side in factors(5, lanes=8))
    got = lp.dot(x, y[:, np.arange(8) & ~4], "fp32_sequential")
    report = lp.compare((x, y), got, operation="dot", accumulation="fp32_sequential", limit=0)
    explained(report, "y with bit 2 of the lane's number read as 0 in each step of 8")


def test_the_scale_of_a_group_is_named_with_all_of_its_lanes():
    """Name whole groups: 16 products of this machine have one scale together, two groups that of a block."""
    drawn = np.random.default_rng(6)
    x, y = drawn.integers(0, 16, (2, 300, 64)).astype(np.uint8)
    scales = drawn.integers(120, 135, (2, 300, 2)).astype(np.uint8)
    form = lp.BlockFormat(name="", element=lp.format("e2m1fn"), scale=lp.format("e8m0fnu"), size=32)
    third = np.arange(64) // 16 == 2
    own, other = (
        lp.dot(
            lp.BlockArray(x, of, form, (1,)), lp.BlockArray(np.where(there, y, 0), scales[1], form, (1,)), FP4
        )
        for of, there in ((scales[0], ~third), (scales[0][:, [1, 0]], third))
    )
    exact = own.astype(np.float64) + other
    got = exact.astype(np.float32)
    sides = [lp.decode(side, "e2m1fn") for side in (x, y)]
    scale = tuple(lp.decode(of, "e8m0fnu") for of in scales)
    kept = got == exact  # where both parts are in the window, their sum is the machine's
    report = lp.compare(
        tuple(side[kept] for side in sides), got[kept], operation="dot", accumulation=FP4,
        scale=tuple(of[kept] for of in scale), limit=0,
    )  # fmt: skip
    explained(report, "the scale of x of the block before in lanes 32 to 47")


def test_last_bits_that_a_register_between_steps_has_not_are_named():
    x, y = np.random.default_rng(7).standard_normal((2, 400, 4)).astype(np.float16)
    first = lp.dot(x[:, :2], y[:, :2], "fp32_fma").view(np.uint32) >> 3 << 3
    got = lp.dot(x[:, 2:], y[:, 2:], "fp32_fma", addend=first.view(np.float32))
    report = lp.compare((x, y), got, operation="dot", accumulation="fp32_fma", limit=0)
    explained(report, "the last 3 bits of rounded sums read as 0, in step 1 of 4 alone")


def test_scales_that_are_zero_divide():
    made = CliRunner().invoke(main, ["vectors", "block", "binary32", "nvfp4"]).output.splitlines()
    lines = []
    for line in made:
        words = line.split()
        if not line.startswith("#") and words[-17] == "00":
            largest = ["f" if int(word, 16) >> 31 else "7" for word in words[:16]]
            zero = [int(word, 16) & 0x7FFFFFFF == 0 for word in words[:16]]
            parts = zip(words[-16:], largest, zero, strict=True)
            words[-16:] = [own if is_zero else other for own, other, is_zero in parts]
        lines.append(" ".join(words))
    report = compare_block_lines(lines, BINARY32, lp.block_formats["nvfp4"], limit=0)
    explained(
        report, "elements divided by scales that are zero have the largest magnitude, and zeros are zero"
    )


def test_lines_of_a_unit_whose_step_is_a_part_of_a_block_are_judged():
    how = lp.Accumulation(
        operands="e4m3fn",
        scale=("e8m0fnu", 32),
        output="binary32",
        accumulator=lp.Window(step=16, fraction_bits=24, scales="products", result="binary32"),
    )
    assert shape_of(how).lanes == 32
    line = " ".join(["38"] * 32 + ["7f"] + ["38"] * 32 + ["7f", "00000000", "42000000"])
    assert compare_dot_lines([line], how, length=32).mismatches == 0
    assert compare_dot_lines([line], how).mismatches == 0
