"""Programs whose results are binary64 numbers that binary32 holds: made there, and widened.

Vectors read and write words of 32 bits. Of bfloat16 and binary32, whose small values are subnormal in
binary32, they make no binary64 numbers themselves.

Floor 2b. Imports the other programs of the engine; never the oracle, which checks them.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.kernels import engine
from lowprec.kernels.engine import DONE, ElementwiseProgram
from lowprec.kernels.lower.words import DOUBLE, SINGLE
from lowprec.kernels.modes import usual_arithmetic
from lowprec.kernels.request import CONVERT, Elementwise
from lowprec.kernels.vector.in_parts import InParts
from lowprec.spec.projection import DEFAULT

__all__ = ["lower"]

Codes = npt.NDArray[Any]


def lower(request: Elementwise) -> Widened | None:
    """Return the program of a request, or None where another engine must serve it."""
    single = None
    if request.carrier == DOUBLE and SINGLE.contains(request.target):
        single = dataclasses.replace(request, carrier=SINGLE, backend=None)
    elif request.target == DOUBLE and request.carrier is None and request.operation == CONVERT:
        if SINGLE.contains(request.sources[0]) and request.projection == DEFAULT:
            single = dataclasses.replace(request, target=SINGLE, backend=None)
    program = None if single is None else engine.lower_by("vector", single)
    return None if program is None else Widened(request, program)


class Widened(InParts):
    """Results of another program, as binary64 numbers."""

    def __init__(self, request: Elementwise, program: ElementwiseProgram) -> None:
        super().__init__(request, program.refuses)
        self._program = program

    @usual_arithmetic()
    def part(self, operands: list[Codes], out: Codes, flags: Codes, random: Codes) -> Codes | None:
        """Write results and flags."""
        words = np.empty(out.size, np.uint32)
        if self._program.run(operands, words, flags, random) != DONE:
            return None
        out.view(np.float64)[...] = words.view(np.float32)
        return np.empty(0, np.intp)
