"""Operations on binary64 operands, read as binary32 ones in each chunk whose operands all are such.

Programs of binary32 operands are several times as fast.

Floor 2b. Imports the vector kernels; never the oracle, which checks them.
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
from lowprec.kernels.vector.exact import narrowed

__all__ = ["Narrowed", "lower"]

Codes = npt.NDArray[Any]

#: Elements per chunk; what is narrowed stays in the L2 cache until it is read.
_PART = 1 << 15


def lower(request: Elementwise, own: Any) -> Any:
    """Return the program of binary64 operands; `own` is that of any such, or None for the scalar engine's."""
    if request.operation == CONVERT or DOUBLE not in request.sources:
        return own
    sources = tuple(SINGLE if source == DOUBLE else source for source in request.sources)
    program = engine.lower_by("vector", dataclasses.replace(request, sources=sources, backend=None))
    if program is None:
        return own
    own = own or engine.lower_by("scalar", dataclasses.replace(request, backend="scalar"))
    return Narrowed(request, program, own)


class Narrowed:
    """A program of elements; see `engine.ElementwiseProgram`."""

    draws = in_place = widens = floats = False
    bound = None

    def __init__(self, request: Elementwise, program: ElementwiseProgram, own: ElementwiseProgram) -> None:
        self._program, self.own, self.refuses = program, own, program.refuses or own.refuses
        self._wide = [source == DOUBLE for source in request.sources]

    @usual_arithmetic()
    def run(self, operands: list[Codes], out: Codes, flags: Codes, random: Codes, past: bool = False) -> int:
        """Write results and flags."""
        room = [np.empty(min(_PART, codes.size), np.float32) for codes in operands]
        for start in range(0, out.size, _PART):
            chunk = slice(start, start + _PART)
            given = [codes if codes.size == 1 != out.size else codes[chunk] for codes in operands]
            singles = self._as_singles(given, room)
            program, given = (self.own, given) if singles is None else (self._program, singles)
            status = program.run(given, out[chunk], flags[chunk], random[chunk])
            if status != DONE:
                return status
        return DONE

    def _as_singles(self, operands: list[Codes], room: list[Codes]) -> list[Codes] | None:
        """Return operands of which none is wider than binary32, or None if any is."""
        given = []
        for codes, held, wide in zip(operands, room, self._wide, strict=True):
            some = held[: codes.size]
            if wide and not narrowed(codes.view(np.float64), some):
                return None
            given.append(some.view(np.uint32) if wide else codes)
        return given
