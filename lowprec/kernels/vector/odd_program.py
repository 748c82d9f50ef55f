"""Programs of operations in binary64, rounded to odd or drawn there, and then converted.

Floor 2b. Imports the other programs of the engine; never the oracle, which checks them.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.kernels import engine
from lowprec.kernels.engine import DONE, ElementwiseProgram
from lowprec.kernels.lower.vector import plan
from lowprec.kernels.lower.words import DOUBLE
from lowprec.kernels.request import CONVERT, Elementwise
from lowprec.kernels.vector.in_parts import InParts, Read, places_of, readers
from lowprec.kernels.vector.odd import OPERATIONS, kernel
from lowprec.spec.format import Carrier, Sign
from lowprec.spec.rounding import NEAREST_EVEN

__all__ = ["lower"]

Codes = npt.NDArray[Any]

#: Bits of a binary64 number behind the first, less one that tells whether it is exact.
_BITS = 51


def lower(request: Elementwise) -> Odd | None:
    """Return the program of a request, or None where another engine must serve it."""
    rounding, target = request.projection.rounding, request.target
    if request.operation not in OPERATIONS or request.flags or isinstance(target, Carrier):
        return None
    rule = request.projection
    if rounding.bits:
        bits = rounding.bits + (rounding.variant == "B")
        fixed = not target.exponent_bits and target.sign is not Sign.UNSIGNED
        plain = target.sign is Sign.MAGNITUDE and target.negative_zero and target.subnormals
        if not (plain or fixed) or rounding.variant not in "AB" or bits + target.trailing_bits > _BITS:
            return None
        # What is drawn is a number of the format, or lies beyond the largest one, however that is rounded.
        rule = dataclasses.replace(rule, rounding=NEAREST_EVEN)
    elif request.operation == CONVERT or DOUBLE not in request.sources or rounding.downward:
        return None
    if rule.via or rule.subnormals != "keep" or rule.overflow_test != "after" or rule.nan_payload != "drop":
        return None
    onward = dataclasses.replace(request, operation=CONVERT, sources=(DOUBLE,), projection=rule, backend=None)
    program, read = engine.lower_by("vector", onward), readers(*request.sources)
    return None if program is None or read is None else Odd(request, read, program)


class Odd(InParts):
    """Results to odd, or drawn, and their conversion. NaNs are left to the scalar engine."""

    def __init__(self, request: Elementwise, read: list[Read], program: ElementwiseProgram) -> None:
        super().__init__(request, program.refuses)
        rounding, target = request.projection.rounding, request.target
        self._read, self._program, self._drawn = read, program, rounding.bits > 0
        self._kernel, self._plan = kernel(request.operation, self._drawn), plan()
        # The last place of fixed point numbers is that of the largest, and of those beyond it at least that.
        least = target.emin if target.exponent_bits else target.scaled(1)[1] + target.trailing_bits
        self._how = rounding.bits, rounding.variant == "B", target.trailing_bits, least

    def part(self, operands: list[Codes], out: Codes, flags: Codes, random: Codes) -> Codes | None:
        """Write results."""
        numbers = [read(codes) for read, codes in zip(self._read, operands, strict=True)]
        x, y, z = (*numbers, *numbers[:1] * (3 - len(numbers)))
        made = np.empty(out.size)
        if self._kernel(x, y, z, random, *self._how, made, self._plan) != DONE:
            return None
        left = places_of(np.isnan(made))
        made[left] = 0  # no conversion refuses that
        return left if self._program.run([made.view(np.uint64)], out, flags, random[:0]) == DONE else None
