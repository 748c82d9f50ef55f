"""Operations into binary32 in directed modes and to odd, by vectors: against the scalar engine."""

from __future__ import annotations

import numpy as np
import pytest

import lowprec as lp
from lowprec.kernels.request import Elementwise
from lowprec.kernels.vector import program
from lowprec.kernels.vector.directed_program import Directed
from lowprec.spec import catalog
from lowprec.spec.projection import Projection
from lowprec.spec.rounding import (
    AWAY_FROM_ZERO,
    NEAREST_AWAY,
    NEAREST_ZERO,
    TO_ODD,
    TOWARD_NEGATIVE,
    TOWARD_POSITIVE,
    TOWARD_ZERO,
)

#: Each program has kernels of its own.
pytestmark = pytest.mark.apart

SIZE = 3000
COUNTS = {"add": 2, "subtract": 2, "multiply": 2, "divide": 2, "sqrt": 1, "fma": 3}
MODES = (TOWARD_POSITIVE, TOWARD_NEGATIVE, TOWARD_ZERO, AWAY_FROM_ZERO, TO_ODD, NEAREST_AWAY, NEAREST_ZERO)


def numbers(kind, seed):
    """Any patterns, numbers of many sizes, or small multiples; zeros, extremes and what is not finite."""
    rng = np.random.default_rng(seed)
    if kind == "patterns":
        made = rng.integers(0, 1 << 32, SIZE, dtype=np.uint32).view(np.float32)
        made = np.where(np.isnan(made), np.float32(1), made)
    elif kind == "sizes":
        made = (rng.standard_normal(SIZE) * 2.0 ** rng.integers(-70, 70, SIZE)).astype(np.float32)
    else:
        made = (rng.integers(-9, 9, SIZE) * 2.0 ** rng.integers(-3, 3, SIZE)).astype(np.float32)
    for step, value in ((50, 0.0), (97, -0.0), (101, np.inf), (103, np.nan), (61, 3.4e38), (59, 1e-45)):
        made[step % 7 :: step] = value
    return made


@pytest.mark.parametrize("kind", ["patterns", "sizes", "multiples", "opposite", "ties"])
@pytest.mark.parametrize("operation", COUNTS)
def test_results_and_flags_are_those_of_the_scalar_engine(operation, kind):
    """Overflows, subnormal results, exact ones, and zeros of sums, whose sign the mode decides."""
    operands = [numbers(kind, (len(operation), place)) for place in range(COUNTS[operation])]
    if operation == "sqrt":
        operands = [np.abs(operands[0])]
    elif kind == "opposite":
        operands[1] = -operands[0]
    elif kind == "ties":
        operands[1] = (np.spacing(np.abs(operands[0])) * np.float32(0.5)).astype(np.float32)
        if operation in ("multiply", "fma"):
            odd = 1 + np.arange(1, 2 * SIZE, 2, dtype=np.float32) * np.float32(2.0**-23)
            operands = [odd, np.full(SIZE, 1.5, np.float32), np.zeros(SIZE, np.float32)][: len(operands)]
    for mode in MODES:
        for flagged in (False, True):
            made = []
            for backend in (None, "scalar"):
                flags = np.zeros(SIZE, np.uint8)
                options = {"rounding": mode, "backend": backend, "flags": flags if flagged else None}
                result = getattr(lp, operation)(*operands, "binary32", **options)
                made.append((result.view(np.uint32), flags))
            assert np.array_equal(made[0][0], made[1][0]), mode
            assert np.array_equal(made[0][1], made[1][1]), mode


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_ties_of_binary64_numbers(mode):
    """Halfway between neighbours and beside that, small ones and the largest too."""
    words = np.random.default_rng(0).integers(0, 0x7F800000, SIZE, dtype=np.uint32)
    words[:8] = 0, 1, 2, 0x007FFFFF, 0x00800000, 0x7F7FFFFE, 0x7F7FFFFF, 0x3F7FFFFF
    below = words.view(np.float32).astype(np.float64)
    above = np.where(words == 0x7F7FFFFF, 2.0**128, (words + 1).view(np.float32).astype(np.float64))
    middle = (below + above) / 2
    for x in (middle, np.nextafter(middle, 0), np.nextafter(middle, np.inf), below):
        for side in (x, -x):
            got, want = (
                lp.encode(side, "binary32", rounding=mode, backend=name) for name in (None, "scalar")
            )
            assert np.array_equal(got, want)


def test_vectors_serve_them():
    """Other rules are left to other engines."""
    single = catalog.BINARY32
    for operation, count in COUNTS.items():
        for mode in MODES:
            request = Elementwise(operation, (single,) * count, single, Projection(rounding=mode))
            assert isinstance(program.lower(request), Directed)
    finite = Projection(rounding=TOWARD_ZERO, saturation="finite")
    assert not isinstance(program.lower(Elementwise("add", (single, single), single, finite)), Directed)
