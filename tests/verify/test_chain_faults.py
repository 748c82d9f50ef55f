"""Faults of chains of fused multiplications and additions are named, of chains in integers.

They share nothing with the package, and round sums as `tests.planted_dot` does.
"""

from __future__ import annotations

import numpy as np
import pytest

import lowprec as lp
from tests.planted_dot import binary32, rounded

pytestmark = pytest.mark.apart

RUNNING = "subnormals among running sums"

#: Bugs of a chain in binary32, and the cause that explains every difference.
CAUSES = {
    "sticky lost: the guard bit alone": "sticky bit lost: sums are rounded by the guard bit alone",
    "sticky lost: the guard bit and one behind it": (
        "sticky bit lost: sums are rounded by the guard bit and 1 bit behind it alone"
    ),
    "rounded to 27 bits first": "sums rounded twice: first to 3 bits more than the result has",
    "carry of rounding lost": (
        "the carry of rounding into the exponent lost: the exponent's field one too low"
    ),
    "ties to odd": "sums of steps: ties to odd",
    "subnormal sums halved": "subnormal sums half as large: shifted one place off",
    "subnormal sums doubled": "subnormal sums twice as large: shifted one place off",
    "subnormal addend with a leading one": f"{RUNNING} read with a leading one",
    "subnormal addend one exponent too low": f"{RUNNING} one exponent too low",
    "subnormals of the addend unknown": "subnormals and zeros among running sums read as normal numbers are",
    "sign of the addend lost": "the signs of running sums lost",
}


def operand(code, fmt):
    """Return sign, significand and exponent of the last bit of a code, as if it were finite."""
    exponent_bits, trailing_bits, bias = {"bfloat16": (8, 7, 127), "e4m3fn": (4, 3, 7)}[fmt]
    field, fraction = code >> trailing_bits & (1 << exponent_bits) - 1, code & (1 << trailing_bits) - 1
    whole = fraction | (1 << trailing_bits if field else 0)
    return code >> exponent_bits + trailing_bits, whole, max(field, 1) - bias - trailing_bits


def chain(x, y, bug="", fmt="bfloat16"):
    """Return the code of the sum of products, each added exactly and the sum rounded to binary32."""
    c = 0
    for left, right in zip(
        (operand(code, fmt) for code in x), (operand(code, fmt) for code in y), strict=True
    ):
        _, minus, whole, low = binary32(c, bug)
        sign, product, last = left[0] ^ right[0], left[1] * right[1], left[2] + right[2]
        least = min(low, last)
        total = (-1) ** sign * (product << last - least) + (-1) ** minus * (whole << low - least)
        c = rounded(int(total < 0) if total else sign & minus, abs(total), least, bug)
    return c


@pytest.fixture(scope="module")
def operands():
    """Codes of bfloat16: products near 1 and near the smallest of binary32, of few bits: sums are ties."""
    rng = np.random.default_rng(6)
    low = rng.choice([0, 63], 3000)[:, None]
    field = 127 - low + rng.integers(-7, 8, (2, 3000, 5))
    fraction = rng.integers(0, 128, field.shape) & rng.choice([127, 112, 96], field.shape)
    codes = rng.integers(0, 2, field.shape) << 15 | field << 7 | fraction
    codes[:, :50] = 0
    codes[:, :50, 1] = 127 << 7 | rng.integers(0, 2, 50) << 15
    codes[:, :50, 3] = codes[:, :50, 1]  # 1 - 2**-25: all ones, which round up
    codes[0, :50, 3] ^= 1 << 15 | 127 << 7 ^ 102 << 7
    return codes


def test_the_chain_is_that_of_the_library(operands):
    x, y = (lp.decode(side.astype(np.uint16), "bfloat16") for side in operands)
    want = lp.dot(x, y, "fp32_fma", dtype=np.uint32)
    assert want.tolist() == [chain(*pair) for pair in zip(*operands.tolist(), strict=True)]


@pytest.mark.parametrize("bug", CAUSES)
def test_the_cause_of_a_bug_of_a_chain_is_named(bug, operands):
    x, y = (lp.decode(side.astype(np.uint16), "bfloat16") for side in operands)
    got = np.uint32([chain(*pair, bug) for pair in zip(*operands.tolist(), strict=True)])
    report = lp.compare((x, y), got, operation="dot", accumulation="fp32_fma", source="bfloat16", limit=0)
    same = ["the signs of running sums lost, but for infinities"] if bug == "sign of the addend lost" else []
    assert (report.cause.words, report.cause.same) == (CAUSES[bug], same)
    assert (report.cause.explained, report.cause.contradicted) == (report.mismatches, 0)
    assert report.mismatches > 9


@pytest.mark.parametrize(
    ("lanes", "where"), [(range(6), ""), ((1, 4, 5), " in products 1 and 4 to 5 of 6")], ids=["all", "some"]
)
def test_nans_that_are_numbers_are_named(lanes, where):
    """The only NaN of e4m3fn is 0x7f, which would be 480."""
    rng = np.random.default_rng(8)
    codes = rng.integers(0, 256, (2, 2000, 6))
    codes = np.where((codes & 127 == 127) & (rng.random(codes.shape) < 0.5), codes ^ 1, codes)
    x, y = (lp.decode(side.astype(np.uint8), "e4m3fn") for side in codes)
    others = [lane for lane in range(6) if lane not in lanes]
    nan = (codes[:, :, others] & 127 == 127).any(axis=(0, 2))
    nans = lp.dot(x[:, others], y[:, others], "fp32_fma", dtype=np.uint32)
    got = np.uint32([chain(*pair, fmt="e4m3fn") for pair in zip(*codes.tolist(), strict=True)])
    got = np.where(nan, nans, got)
    report = lp.compare((x, y), got, operation="dot", accumulation="fp32_fma", source="e4m3fn", limit=0)
    assert report.cause.words == f"NaNs{where} read as numbers"
    assert (report.cause.explained, report.cause.contradicted) == (report.mismatches, 0)
    assert report.mismatches > 9
