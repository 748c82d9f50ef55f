"""Base class of programs that work in chunks and fall back to the scalar engine.

Floor 2b. Imports spec and NumPy.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.kernels import engine
from lowprec.kernels.engine import DONE, ElementwiseProgram
from lowprec.kernels.lower.words import DOUBLE, SINGLE
from lowprec.kernels.modes import usual_arithmetic
from lowprec.kernels.request import CONVERT, Elementwise
from lowprec.spec.format import Format
from lowprec.spec.projection import DEFAULT

__all__ = ["NO_FLAGS", "NO_RANDOM", "InParts", "Read", "places_of", "readers"]

Codes = npt.NDArray[Any]
Read = Callable[[Codes], npt.NDArray[Any]]

#: Elements of a part: what it takes stays in the caches.
_PART = 1 << 15

#: Of how many results one may be left before the scalar engine does all as fast.
_MANY = 4

#: Results below which the scalar engine is as fast, unless vectors are asked for.
_FEW = 256

NO_FLAGS, NO_RANDOM = np.empty(0, np.uint8), np.empty(0, np.uint32)

_NOWHERE = np.empty(0, np.intp)


def places_of(marks: npt.NDArray[np.bool_]) -> Codes:
    """Return the indices of what is marked; mostly nothing is, which is soon seen."""
    return np.flatnonzero(marks) if marks.any() else _NOWHERE


def readers(*formats: Format) -> list[Read] | None:
    """Return what reads codes of each format as binary32 or binary64 numbers; None where vectors cannot."""
    found = [_reader(fmt) for fmt in formats]
    return None if None in found else found  # type: ignore[return-value]


def _reader(fmt: Format) -> Read | None:
    if fmt in (SINGLE, DOUBLE):
        return lambda codes: codes.view(f"f{codes.itemsize}")
    request = Elementwise(CONVERT, (fmt,), SINGLE, DEFAULT)
    program: ElementwiseProgram | None = engine.lower_by("vector", request)
    if program is None:
        return None

    def numbers(codes: Codes) -> Codes:
        words = np.empty(codes.size, np.uint32)
        program.run([codes], words, NO_FLAGS, NO_RANDOM)
        return words.view(np.float32)

    return numbers


class InParts(abc.ABC):
    """A program of elements; see `engine.ElementwiseProgram`."""

    draws = in_place = widens = floats = False
    bound = None

    def __init__(self, request: Elementwise, refuses: bool) -> None:
        self.request, self.refuses = request, refuses
        self._scalar = engine.lower_by("scalar", dataclasses.replace(request, backend="scalar"))

    @abc.abstractmethod
    def part(self, operands: list[Codes], out: Codes, flags: Codes, random: Codes) -> Codes | None:
        """Write results and flags; return the indices of those that are left, or None for all.

        All operands are of the size of `out`, and the modes of the processor are the usual ones.
        """

    def run(self, operands: list[Codes], out: Codes, flags: Codes, random: Codes, past: bool = False) -> int:
        """Write results and flags."""
        if out.size < _FEW and self.request.backend is None:
            return int(self._scalar.run(operands, out, flags, random))
        return self._run(operands, out, flags, random)

    @usual_arithmetic()
    def _run(self, operands: list[Codes], out: Codes, flags: Codes, random: Codes) -> int:
        """Go through the parts, and give the scalar engine what they leave, or all once that is much."""
        many = False
        for start in range(0, out.size, _PART):
            place = slice(start, start + _PART)
            some, signals, words = out[place], flags[place], random[place]
            given = [np.repeat(codes, some.size) if codes.size == 1 else codes[place] for codes in operands]
            left = None if many else self.part(given, some, signals, words)
            many = many or (left is not None and left.size > some.size // _MANY)
            status = DONE
            if left is None or many:
                status = self._scalar.run(given, some, signals, words)
            elif left.size:
                results = np.empty(left.size, out.dtype)
                found = np.empty(left.size if flags.size else 0, np.uint8)
                chosen = words[left] if random.size else random
                status = self._scalar.run([codes[left] for codes in given], results, found, chosen)
                some[left] = results
                if flags.size:
                    signals[left] = found
            if status != DONE:
                return int(status)
        return DONE
