"""Programs into binary32 in other modes than nearest even.

The nearest result comes from the program of nearest even; binary64 tells on which side of it the exact one
lies; then it is right, or the next number on that side is.

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
from lowprec.kernels.lower.words import DOUBLE, SINGLE
from lowprec.kernels.request import CONVERT, Elementwise
from lowprec.kernels.vector.flags import OPERATIONS, neighbours
from lowprec.kernels.vector.in_parts import NO_FLAGS, NO_RANDOM, InParts, Read, places_of, readers
from lowprec.kernels.vector.rounding import AT_TIES, DIRECTED
from lowprec.spec.projection import DEFAULT, Projection

__all__ = ["Directed", "lower"]

Codes = npt.NDArray[Any]


def lower(request: Elementwise) -> Directed | None:
    """Return the program of a request, or None where another engine must serve it."""
    rule, carrier, mode = request.projection, request.carrier, request.projection.rounding
    if request.target != SINGLE or carrier not in (None, SINGLE) or request.flags:
        return None
    if request.operation not in OPERATIONS or (DOUBLE in request.sources and request.operation != CONVERT):
        return None
    if (mode not in DIRECTED and mode not in AT_TIES) or rule != Projection(rounding=mode):
        return None
    if request.operation == CONVERT and SINGLE.contains(request.sources[0]):
        return None  # nothing is rounded
    nearest = engine.lower_by("vector", dataclasses.replace(request, projection=DEFAULT, backend=None))
    read = readers(*request.sources)
    return None if nearest is None or read is None else Directed(request, nearest, read)


class Directed(InParts):
    """Results in binary32."""

    def __init__(self, request: Elementwise, nearest: ElementwiseProgram, read: list[Read]) -> None:
        super().__init__(request, refuses=False)
        self._nearest, self._read = nearest, read
        mode = request.projection.rounding
        self._ties = mode in AT_TIES
        self._neighbours, self._plan = neighbours(request.operation, self._ties), plan()
        self._mode = AT_TIES[mode] if self._ties else DIRECTED[mode]
        # Sums that are exactly zero have another sign then.
        self._signs = request.projection.rounding.downward and request.operation in ("add", "subtract", "fma")

    def part(self, operands: list[Codes], out: Codes, flags: Codes, random: Codes) -> Codes | None:
        """Write the nearest results, and replace them by the neighbours that the mode asks for."""
        if self._nearest.run(operands, out, NO_FLAGS, NO_RANDOM) != DONE:
            return None
        numbers = [read(codes) for read, codes in zip(self._read, operands, strict=True)]
        x, y, z = (*numbers, *numbers[:1] * (3 - len(numbers)))
        results = out.copy().view(np.float32)
        if self._neighbours(x, y, z, results, out, self._mode, self._plan) != DONE:
            return None
        if self._ties:  # of a tie beyond the largest number
            return places_of(np.isinf(results))
        return places_of(out & 0x7FFFFFFF == 0) if self._signs else np.empty(0, np.intp)
