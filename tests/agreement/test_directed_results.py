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
from lowprec.spec.rounding import AWAY_FROM_ZERO, TO_ODD, TOWARD_NEGATIVE, TOWARD_POSITIVE, TOWARD_ZERO

SIZE = 3000
COUNTS = {"add": 2, "subtract": 2, "multiply": 2, "divide": 2, "sqrt": 1, "fma": 3}
MODES = (TOWARD_POSITIVE, TOWARD_NEGATIVE, TOWARD_ZERO, AWAY_FROM_ZERO, TO_ODD)


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


@pytest.mark.parametrize("kind", ["patterns", "sizes", "multiples", "opposite"])
@pytest.mark.parametrize("operation", COUNTS)
def test_results_and_flags_are_those_of_the_scalar_engine(operation, kind):
    """Overflows, subnormal results, exact ones, and zeros of sums, whose sign the mode decides."""
    operands = [numbers(kind, (len(operation), place)) for place in range(COUNTS[operation])]
    if operation == "sqrt":
        operands = [np.abs(operands[0])]
    elif kind == "opposite":
        operands[1] = -operands[0]
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


def test_vectors_serve_them():
    """Other rules are left to other engines."""
    single = catalog.BINARY32
    for operation, count in COUNTS.items():
        for mode in MODES:
            request = Elementwise(operation, (single,) * count, single, Projection(rounding=mode))
            assert isinstance(program.lower(request), Directed)
    finite = Projection(rounding=TOWARD_ZERO, saturation="finite")
    assert not isinstance(program.lower(Elementwise("add", (single, single), single, finite)), Directed)
