"""Dot products of binary64 numbers that binary32 does not hold, against the oracle."""

import numpy as np
import pytest

import lowprec as lp
from lowprec.arrays.checks import code_dtype
from lowprec.spec.accumulation import Accumulation
from lowprec.spec.accumulations import accumulation
from lowprec.spec.order import chunked
from tests.support import engines_agree

#: A signaling NaN among them.
SPECIALS = (
    0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 5e-324, -5e-324, 2.0**-1022, 2.0**-149,
    1.7976931348623157e308, np.uint64(0x7FF << 52 | 1).view(np.float64),
)  # fmt: skip

HOWS = {
    **{name: accumulation(name) for name in ("fp32_fma", "fp32_sequential", "fp64_sequential", "exact")},
    **{name: accumulation(name) for name in ("fp32_pairwise", "fp16_sequential", "bf16_sequential")},
    "down": Accumulation(
        name="down", accumulator=("binary32", "toward_negative"), output=("bfloat16", "to_odd")
    ),
    "chunks": Accumulation(
        name="chunks", accumulator="e5m2", order=chunked(3), total=("binary32", "toward_zero"),
        output="binary16", addend="last",
    ),
    "lanes": Accumulation(
        name="lanes", product="binary32", accumulator="binary32", output="binary32", order="lanes(4)"
    ),
    "exact, down": Accumulation(name="exact, down", order="exact", output=("bfloat16", "toward_negative")),
}  # fmt: skip


def on_ties(rng, rows, length):
    """Return operands whose first product is halfway between binary32 numbers, and the others far below."""
    x, y = np.ones((rows, length)), np.ones((length, rows))
    x[:, 0] = 1 + (2 * rng.integers(0, 1 << 23, rows) + 1) * 2.0**-24
    x[:, 1:] = rng.choice([1, -1, 0], (rows, length - 1)) * 2.0 ** rng.integers(-70, -25, (rows, length - 1))
    y[1:] += rng.integers(0, 3, (length - 1, 1)) * 2.0**-52
    y[0] = rng.choice([1, 1 + 2.0**-52, 1 - 2.0**-53], rows)
    return x, y


def operands(kind, rng, rows, length):
    """Return both sides of a product of matrices."""
    x, y = rng.normal(size=(rows, length)), rng.normal(size=(length, rows))
    if kind == "ties" and length:
        return on_ties(rng, rows, length)
    if kind == "wide":
        x, y = (side * 2.0 ** rng.integers(-60, 60, side.shape) for side in (x, y))
    if kind == "any":
        x, y = (rng.integers(0, 1 << 64, side.shape, np.uint64).view(np.float64) for side in (x, y))
    if kind == "cancelling":
        x[:, 1::2], y[1::2] = -x[:, : length // 2 * 2 : 2], y[: length // 2 * 2 : 2]
    if kind == "specials":
        for side in (x, y):
            some = rng.random(side.shape) < 0.2
            side[some] = rng.choice(SPECIALS, np.count_nonzero(some))
    return x, y


KINDS = ("usual", "wide", "any", "cancelling", "specials", "ties")


@pytest.mark.parametrize(
    "name",
    ["fp32_fma", *(pytest.param(name, marks=pytest.mark.apart) for name in HOWS if name != "fp32_fma")],
)
@pytest.mark.parametrize("kind", KINDS)
def test_wide_operands_give_what_the_oracle_gives(name, kind):
    """Compare products of which binary32 holds no operand, with and without addends."""
    rng, how, rows = np.random.default_rng([*name.encode(), *kind.encode()]), HOWS[name], 6
    for length in (0, 1, 2, 5, 12):
        x, y = operands(kind, rng, rows, length)
        if rng.random() < 0.3:
            with np.errstate(over="ignore", invalid="ignore"):
                x = x.astype(np.float32)
        options = {"dtype": code_dtype(how.output[0]), "backends": (None, "oracle")}
        for addend in (None, rng.normal(size=(rows, rows)), rng.choice(SPECIALS, (rows, rows))):
            engines_agree(lp.matmul, x, y, how, addend=addend, **options)
