"""Flags of results that vectors make, against the scalar engine's; the oracle checks both elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

import lowprec as lp
from lowprec.kernels.request import Elementwise
from lowprec.kernels.vector import flagged_program, program
from lowprec.kernels.vector.flags import LEFT, OPERATIONS
from lowprec.spec import catalog
from lowprec.spec.arith import operands_of
from lowprec.spec.projection import Projection
from lowprec.spec.rounding import MODES, stochastic

pytestmark = pytest.mark.apart

FORMATS = ("e4m3fn", "e5m2", "e2m3fn", "bfloat16", "binary16", "binary32", "binary8p3se", "e4m3fnuz")
FORMATS += ("e2m1fn", "int8", "int8f6")
SIZE = 3000


def numbers(fmt, seed, size=SIZE):
    """Borders of a format and what lies beside them, exact and inexact numbers, a few that are not finite."""
    rng = np.random.default_rng(seed)
    made = rng.standard_normal(size) * 2.0 ** rng.integers(-12, 12, size)
    made[7::31] = np.round(made[7::31] * 4) / 4
    borders = np.array([fmt.min_normal or 1.0, fmt.max_finite, fmt.min_subnormal or 1.0]) * [
        [1],
        [0.5],
        [1.5],
    ]
    gap, least = 2.0 ** fmt.scaled(fmt.max_magnitude)[1], fmt.min_normal or 0.0
    last = [fmt.max_finite + gap * part for part in (0.5, 1.0, 1.5, 2.0)]
    borders = np.append(borders, [*last, *(least * (1 - 2.0 ** -(fmt.trailing_bits + k)) for k in (1, 2))])
    with np.errstate(over="ignore"):
        near = (rng.choice(borders.reshape(-1), size) * rng.choice([1, -1], size)).astype(np.float32)
    near = (near.view(np.int32) + rng.integers(-1, 2, size, np.int32)).view(np.float32)
    near = np.where(np.isfinite(near), near, np.float32(np.inf))
    made = np.where(rng.random(size) < 0.4, near, made.astype(np.float32))
    made[::50], made[1::97], made[3::101], made[5::103] = 0, -0.0, np.inf, np.nan
    return made.astype(np.float32)


@pytest.mark.parametrize("mode", [*MODES, stochastic(8)], ids=str)
@pytest.mark.parametrize("name", FORMATS)
def test_they_are_those_of_the_scalar_engine(name, mode):
    """Every operation, saturation and type of operand; results too."""
    fmt = lp.format(name)
    for place, (operation, saturation) in enumerate(
        (operation, saturation) for operation in OPERATIONS for saturation in ("none", "finite")
    ):
        count = 1 if operation == "convert" else operands_of(operation)
        operands = [numbers(fmt, (place, index)) for index in range(count)]
        if operation == "sqrt":
            operands = [np.abs(operands[0])]
        elif operation == "convert" and saturation == "finite":
            operands = [operands[0].astype(np.float64) * (1 + 2.0**-40)]
        nan = "error" if fmt.has_nan else "max"
        options = {"projection": Projection(rounding=mode, saturation=saturation, nan=nan)}
        if operation != "convert":
            options["dtype"] = (np.float32, np.float64, np.float16)[
                place % 2 if fmt.width > 16 else place % 3
            ]
            if options["dtype"] is np.float16 and not catalog.BINARY16.contains(fmt):
                del options["dtype"]
        if mode.bits:
            options["random"] = np.random.default_rng(place).integers(0, 256, SIZE, dtype=np.uint32)
        verb = lp.quantize if operation == "convert" else getattr(lp, operation)
        made = []
        for backend in (None, "scalar"):
            flags = np.full(SIZE, 0x55, np.uint8)
            result = verb(*operands, name, flags=flags, backend=backend, **options)
            made.append((result.view(f"u{result.itemsize}"), flags))
        assert np.array_equal(made[0][0], made[1][0]), (operation, saturation)
        assert np.array_equal(made[0][1], made[1][1]), (operation, saturation)


@pytest.mark.parametrize("nan", ["zero", "negative_zero", "max"])
@pytest.mark.parametrize("name", ["e2m1fn", "e3m2fn", "int8"])
def test_results_of_nan_that_become_numbers_are_invalid(name, nan):
    """Of numbers too: zero over zero, and roots of negative numbers, in formats without NaN."""
    if (name, nan) == ("int8", "negative_zero"):
        return
    rule = Projection(saturation="finite", nan=nan)
    x, y = np.float32([0, -1, 2, -0.0]), np.float32([0, 1, 2, 0])
    for operation, operands in (("divide", (x, y)), ("sqrt", (x,))):
        expected, flags = np.empty(x.size, np.uint8), np.empty(x.size * 100, np.uint8)
        want = getattr(lp, operation)(*operands, name, projection=rule, flags=expected, backend="oracle")
        many = [np.tile(operand, 100) for operand in operands]
        found = getattr(lp, operation)(*many, name, projection=rule, flags=flags)
        assert found.tobytes() == want.tobytes() * 100, operation
        assert flags.tobytes() == expected.tobytes() * 100, operation
        assert 16 in flags


@pytest.mark.parametrize("operation", OPERATIONS)
def test_vectors_leave_few(monkeypatch, operation):
    """Of ordinary numbers the scalar engine gets those on borders; one operand may be for all."""
    rng = np.random.default_rng(0)
    x, z = (np.abs(rng.standard_normal(1 << 16)).astype(np.float32) + 1 for _ in range(2))
    left, part = [], flagged_program.Flagged.part

    def counted(self, *given):
        found = part(self, *given)
        left.append(found.size)
        return found

    monkeypatch.setattr(flagged_program.Flagged, "part", counted)
    flags = np.empty(x.size, np.uint8)
    if operation == "convert":
        lp.encode(x, "bfloat16", flags=flags)
    else:
        operands = [x, np.float32(1.5), z][: operands_of(operation)]
        getattr(lp, operation)(*operands, "bfloat16", flags=flags)
    assert len(left) == 2
    assert sum(left) < x.size / 100
    assert set(flags.tolist()) <= {0, 1}
    assert LEFT not in flags


def test_what_flags_vectors_do_not_serve():
    """Formats in which zeros or negative numbers signal, flushing, and operations without an exact check."""
    single = (catalog.BINARY32,)
    for fmt, rule in (
        (catalog.E8M0FNU, Projection()),
        (catalog.E4M3FNUZ, Projection()),
        (catalog.INT8, Projection(nan="zero")),
        (catalog.BFLOAT16, Projection(subnormals="flush_results")),
        (catalog.E4M3FN, Projection(via=(catalog.BINARY16,))),
        (catalog.E4M3FN, Projection(nan_code=0)),
        (catalog.E2M1FN, Projection(nan="zero")),
    ):
        assert program.lower(Elementwise("convert", single, fmt, rule, flags=True)) is None
    rule = Projection(saturation="finite", nan="zero")
    for operation, sources in (("divide", single * 2), ("sqrt", single)):
        assert program.lower(Elementwise(operation, sources, catalog.E2M1FN, rule, flags=True)) is None
    assert program.lower(Elementwise("add", single * 2, catalog.E4M3FN, Projection(), flags=True)) is not None
