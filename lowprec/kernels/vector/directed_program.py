"""Programs of operations into binary32 in directed modes and to odd.

The nearest result comes from the program that makes those; binary64 tells on which side of it the exact one
lies; then it is right, or the next number on that side is.

Floor 2b. Imports the other programs of the engine; never the oracle, which checks them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.kernels import engine
from lowprec.kernels.engine import DONE, ElementwiseProgram
from lowprec.kernels.lower.vector import plan
from lowprec.kernels.lower.words import DOUBLE, SINGLE
from lowprec.kernels.request import Elementwise
from lowprec.kernels.vector.flagged_program import FEW, numbers_of
from lowprec.kernels.vector.flags import DOWN, INWARD, ODD, OPERATIONS, OUTWARD, UP, neighbours
from lowprec.spec.projection import DEFAULT, Projection
from lowprec.spec.rounding import (
    AWAY_FROM_ZERO,
    TO_ODD,
    TOWARD_NEGATIVE,
    TOWARD_POSITIVE,
    TOWARD_ZERO,
)

__all__ = ["Directed", "lower"]

Codes = npt.NDArray[Any]

#: Elements that are made at a time: what that takes stays in the caches.
_PART = 1 << 14

_NONE, _NO_RANDOM = np.empty(0, np.uint8), np.empty(0, np.uint32)

_MODES = {
    TOWARD_POSITIVE: UP,
    TOWARD_NEGATIVE: DOWN,
    TOWARD_ZERO: INWARD,
    AWAY_FROM_ZERO: OUTWARD,
    TO_ODD: ODD,
}


def lower(request: Elementwise) -> Directed | None:
    """Return the program of a request, or None where another engine must serve it."""
    rule, carrier = request.projection, request.carrier
    mode = rule.rounding
    if request.target != SINGLE or carrier not in (None, SINGLE) or mode not in _MODES or request.flags:
        return None
    if request.operation not in OPERATIONS or rule != Projection(rounding=mode) or DOUBLE in request.sources:
        return None
    nearest = engine.lower_by("vector", dataclasses.replace(request, projection=DEFAULT, backend=None))
    read = [numbers_of(fmt) for fmt in request.sources]
    if nearest is None or any(each is None for each in read):
        return None
    return Directed(request, nearest, read)  # type: ignore[arg-type]


class Directed:
    """Results in binary32; see `engine.ElementwiseProgram`."""

    draws = in_place = refuses = False

    def __init__(
        self, request: Elementwise, nearest: ElementwiseProgram, read: list[Callable[[Codes], Codes]]
    ) -> None:
        self._request, self._nearest, self._read = request, nearest, read
        self._neighbours, self._plan = neighbours(request.operation), plan()
        self._mode = _MODES[request.projection.rounding]
        # Sums that are exactly zero have another sign then.
        self._signs = request.projection.rounding.downward and request.operation in ("add", "subtract", "fma")

    def run(self, operands: list[Codes], out: Codes, flags: Codes, random: Codes, past: bool = False) -> int:
        """Write results."""
        scalar = engine.lower_by("scalar", dataclasses.replace(self._request, backend="scalar"))
        if out.size < FEW and self._request.backend is None:
            return int(scalar.run(operands, out, flags, random))
        for start in range(0, out.size, _PART):
            words = out[start : start + _PART]
            given = [
                np.repeat(codes, words.size) if codes.size == 1 else codes[start : start + _PART]
                for codes in operands
            ]
            made = np.empty_like(words)
            status = self._nearest.run(given, made, _NONE, _NO_RANDOM)
            if status != DONE or not self._move(given, made):
                status = scalar.run(given, made, _NONE, _NO_RANDOM)
            elif self._signs and (left := np.flatnonzero(made & 0x7FFFFFFF == 0)).size:
                results = np.empty(left.size, made.dtype)
                status = scalar.run([codes[left] for codes in given], results, _NONE, _NO_RANDOM)
                made[left] = results
            if status != DONE:
                return int(status)
            words[:] = made
        return DONE

    def _move(self, operands: list[Codes], words: Codes) -> bool:
        """Replace results by the neighbour that the mode asks for; False where nothing can be said."""
        numbers = [read(codes) for read, codes in zip(self._read, operands, strict=True)]
        x, y, z = (*numbers, *numbers[:1] * (3 - len(numbers)))
        status = self._neighbours(x, y, z, words.copy().view(np.float32), words, self._mode, self._plan)
        return bool(status == DONE)
