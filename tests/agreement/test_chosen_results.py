"""Operations that choose an operand, and remainders, against the scalar engine."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import lowprec as lp
from lowprec.kernels.request import Elementwise
from lowprec.kernels.vector import choice_program, program
from lowprec.kernels.vector.choice_program import Choice
from lowprec.kernels.vector.narrowed_program import Narrowed
from lowprec.kernels.vector.remainder_program import Remainder
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
    for operation in (*choice_program.OPERATIONS, "remainder"):
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
    for operation in (*choice_program.OPERATIONS, "remainder"):
        sources = (single,) * operands_of(operation)
        kind = Choice if operation in choice_program.OPERATIONS else Remainder
        assert isinstance(program.lower(Elementwise(operation, sources, catalog.E4M3FN, rule)), kind)
    double = catalog.BINARY64
    for operation, sources in (("minimum", (single, double)), ("remainder", (double, double))):
        assert isinstance(program.lower(Elementwise(operation, sources, catalog.E4M3FN, rule)), Narrowed)


def test_one_doubtful_remainder_is_seen_anywhere():
    """A NaN, or a number that is very many times the other, is right wherever it stands among others."""
    rng = np.random.default_rng(8)
    x, y = (rng.uniform(1, 9, 2500).astype(np.float32) for _ in range(2))
    for place in (0, 1, 1023, 1024, 2047, 2048, 2498, 2499):
        for first, second in (
            (np.nan, 1),
            (1, -np.nan),
            (-np.inf, 3),
            (3, 0),
            (1e30, 3),
            (2.0**27 + 16, 1.1),
        ):
            given, by = x.copy(), y.copy()
            given[place], by[place] = first, second
            got, want = (lp.remainder(given, by, "binary32", backend=backend) for backend in (None, "scalar"))
            assert np.array_equal(got.view(np.uint32), want.view(np.uint32)), (place, first, second)


def test_remainders_beside_ties():
    """Quotients next to half an integer, near the most that vectors take, and beyond."""
    rng = np.random.default_rng(0)
    y = (rng.integers(1 << 23, 1 << 24, 4096) | 1).astype(np.float32)
    count = rng.integers(0, 1 << rng.integers(1, 29, 4096)) + rng.choice([0, 0.5], 4096)
    near = (count * y).astype(np.float32) + np.float32(1) * rng.integers(-2, 3, 4096).astype(np.float32)
    for x in (near, -near, (y / 2).astype(np.float32), y * np.float32(1.5), np.zeros(4096, np.float32)):
        for by in (y, -y, y * np.float32(2.0**-140), y * np.float32(2.0**-170)):
            got, want = (lp.remainder(x, by, "binary32", backend=backend) for backend in (None, "scalar"))
            assert np.array_equal(got.view(np.uint32), want.view(np.uint32))


@pytest.mark.parametrize("spread", [3, 60, 500, 1000])
def test_remainders_of_binary64_numbers(spread):
    """Ties and what lies next to them, quotients of up to 52 bits and beyond, and of any size."""
    rng, size = np.random.default_rng(spread), 4096
    x, y, z = (rng.standard_normal(size) * 2.0 ** rng.integers(-spread, spread, size) for _ in range(3))
    x[::50], x[1::60], y[2::70], y[3::80], x[4::90], y[5::91] = 0, np.inf, 0, -np.inf, np.nan, np.nan
    count = np.floor(2.0 ** rng.uniform(0, 53, size)) + rng.choice([0, 0.5], size)
    short = np.ldexp(rng.integers(1, 256, size) * 1.0, rng.integers(-spread, spread, size) // 2)
    with np.errstate(all="ignore"):
        beside = np.nextafter(count * z, rng.choice([-1, 0, 1], size) * np.inf)
    for first, second in ((x, y), (beside, z), (count * short, short), (-count * short, short)):
        for name in ("binary32", "bfloat16"):
            flags = np.zeros((2, size), np.uint8)
            made = [
                lp.remainder(first, second, name, flags=raised, backend=backend).view(np.uint32)
                for raised, backend in zip(flags, (None, "scalar"), strict=True)
            ]
            assert np.array_equal(*made)
            assert np.array_equal(*flags)


def test_remainders_of_flushed_operands_and_through_other_formats():
    """Subnormal numbers of the operands' own formats are zeros; an invalid remainder signals nothing else."""
    tiny, ones = np.full(300, 2.0**-24, np.float16), np.ones(300, np.float16)
    for rule in (Projection(subnormals="flush_operands"), Projection(subnormals="flush_both")):
        for x, y, want, raised in ((tiny, ones, 0.0, {1}), (ones, tiny, np.nan, {16})):
            flags = np.zeros(300, np.uint8)
            made = lp.remainder(x, y, "binary32", projection=rule, flags=flags)
            assert np.array_equal(made, np.full(300, want, np.float32), equal_nan=True)
            assert set(flags.tolist()) == raised
    flags = np.zeros(300, np.uint8)
    far = np.full(300, 1e30)
    lp.remainder(far, np.inf, "e4m3fn", projection=Projection(via=("binary16",)), flags=flags)
    assert set(flags.tolist()) == {16}
