"""Programs of remainders, which binary64 holds exactly, from where a conversion projects them.

Where flags are asked for, or payloads count, NaNs are left to the scalar engine.

Floor 2b. Imports the other programs of the engine; never the oracle, which checks them.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.kernels import engine
from lowprec.kernels.engine import DONE, ElementwiseProgram
from lowprec.kernels.general.program import FLUSHES
from lowprec.kernels.lower.words import DOUBLE
from lowprec.kernels.request import CONVERT, Elementwise
from lowprec.kernels.vector.exact import plain_remainders, remainders
from lowprec.kernels.vector.in_parts import NOWHERE, InParts, Read, places_of, readers

__all__ = ["Remainder", "lower"]

Codes = npt.NDArray[Any]


def lower(request: Elementwise) -> Remainder | None:
    """Return the program of a request, or None where another engine must serve it."""
    rule = request.projection
    if request.operation != "remainder" or rule.subnormals in FLUSHES or rule.via:
        return None  # operands are flushed, and flags gathered, as of an operation
    onward = dataclasses.replace(request, operation=CONVERT, sources=(DOUBLE,), backend=None)
    read = readers(*request.sources)
    return None if read is None else Remainder(request, read, engine.lower(onward))


class Remainder(InParts):
    """Remainders, and their conversion."""

    def __init__(self, request: Elementwise, read: list[Read], program: ElementwiseProgram) -> None:
        super().__init__(request, program.refuses)
        self._read, self._program = read, program
        self._settled = not request.flags and request.projection.nan_payload == "drop"

    def part(self, operands: list[Codes], out: Codes, flags: Codes, random: Codes) -> Codes | None:
        """Write results and flags."""
        x, y = (read(codes) for read, codes in zip(self._read, operands, strict=True))
        made, left = np.empty(out.size), NOWHERE
        wide = x.itemsize == 8 or y.itemsize == 8
        if wide or not plain_remainders(x, y, made):
            unsure = np.empty(out.size, np.bool_)
            remainders(x, y, made, unsure, self._settled)
            left = places_of(unsure)
            made[left] = 0  # no conversion refuses that
        status = self._program.run([made.view(np.uint64)], out, flags, random)
        return left if status == DONE else None
