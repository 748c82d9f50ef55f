"""Operations that choose an operand, against the scalar engine."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import lowprec as lp
from lowprec.kernels.request import Elementwise
from lowprec.kernels.vector import choice_program, program
from lowprec.kernels.vector.choice_program import Choice
from lowprec.kernels.vector.narrowed_program import Narrowed
from lowprec.spec import catalog
from lowprec.spec.arith import operands_of
from lowprec.spec.projection import Projection
from lowprec.spec.rounding import MODES
from tests.support import most_apart

#: Each program has kernels of its own.
pytestmark = pytest.mark.apart

SIZE = 2000


def numbers(kind, seed):
    """Numbers of many sizes, zeros of both signs, ties of whole numbers, and what is not finite."""
    rng = np.random.default_rng(seed)
    made = rng.standard_normal(SIZE) * 2.0 ** rng.integers(-12, 12, SIZE)
    made[7::31] = np.round(made[7::31]) + 0.5
    made[9::33] = np.arange(len(made[9::33]))
    made[::20], made[1::17] = 0.0, -0.0
    if np.dtype(kind).kind == "i":
        return np.clip(made, -100, 100).astype(kind)
    made[3::101], made[5::103], made[6::107] = np.inf, np.nan, -np.inf
    made[rng.integers(SIZE, size=50)], made[rng.integers(SIZE, size=50)] = np.nan, -np.nan
    made[:4] = np.nan, -np.nan, np.inf, 0
    return np.roll(made, seed[-1] if isinstance(seed, tuple) else 0).astype(kind)


@pytest.mark.parametrize("flagged", [False, True], ids=["plain", "flags"])
@pytest.mark.parametrize(
    "kind",
    most_apart([np.float32, np.float64, ml_dtypes.bfloat16, np.int32], [np.float32, np.float64, np.int32]),
    ids=str,
)
@pytest.mark.parametrize(
    "name",
    most_apart(["e4m3fn", "bfloat16", "binary32", "e4m3fnuz", "e2m1fn", "int8"], ["e4m3fn", "binary32"]),
)
def test_results_and_flags_are_those_of_the_scalar_engine(name, kind, flagged):
    """In every mode."""
    nan = "error" if lp.format(name).has_nan else "max"
    for operation in choice_program.OPERATIONS:
        for place, mode in enumerate(MODES):
            operands = [numbers(kind, (place, side)) for side in range(operands_of(operation))]
            made = []
            for backend in (None, "scalar"):
                flags = np.full(SIZE, 0x55, np.uint8) if flagged else None
                result = getattr(lp, operation)(
                    *operands,
                    name,
                    projection=Projection(
                        rounding=mode,
                        nan=nan,
                        nan_sign=("keep", "drop")[place % 2],
                        nan_payload=("drop", "drop", "first", "signaling_first")[place % 4],
                    ),
                    flags=flags,
                    backend=backend,
                )
                made.append((result.view(f"u{result.itemsize}"), flags))
            assert np.array_equal(made[0][0], made[1][0]), (operation, mode)
            assert not flagged or np.array_equal(made[0][1], made[1][1]), (operation, mode)


@pytest.mark.parametrize("operation", choice_program.OPERATIONS)
def test_signaling_nans_beside_operands_of_another_type_signal(operation):
    """They are read as numbers of one type, in which they may be quiet."""
    nan, number = np.full(300, 0x7C01, np.uint16).view(np.float16), np.ones(300, np.float32)
    for operands in ((nan, number), (number, nan), (nan, number.astype(np.int8))):
        flags, expected = np.empty(300, np.uint8), np.empty(1, np.uint8)
        getattr(lp, operation)(*operands, "bfloat16", flags=flags)
        getattr(lp, operation)(*(each[:1] for each in operands), "bfloat16", flags=expected, backend="oracle")
        assert set(flags.tolist()) == set(expected.tolist()) == {16}


def test_vectors_serve_them():
    """Operands of two widths where they are narrow."""
    single, rule = catalog.BINARY32, Projection()
    for operation in choice_program.OPERATIONS:
        sources = (single,) * operands_of(operation)
        assert isinstance(program.lower(Elementwise(operation, sources, catalog.E4M3FN, rule)), Choice)
    mixed = Elementwise("minimum", (single, catalog.BINARY64), catalog.E4M3FN, rule)
    assert isinstance(program.lower(mixed), Narrowed)
