"""Programs of binary64 operands that may be binary32 numbers: then they are read as such, part by part.

Programs of binary32 operands are several times as fast. Some kernels narrow operands themselves, which is
worth it for many; for all others a loop narrows a part and compares it with what it was. A part with another
number goes to the program of binary64 operands.

Floor 2b. Imports the vector kernels; never the oracle, which checks them.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.kernels import engine
from lowprec.kernels.codes import as_words
from lowprec.kernels.engine import DONE, WIDER, ElementwiseProgram
from lowprec.kernels.lower.words import DOUBLE, SINGLE
from lowprec.kernels.modes import usual_arithmetic
from lowprec.kernels.random import philox_runs
from lowprec.kernels.request import CONVERT, Elementwise
from lowprec.kernels.vector.exact import narrowed

__all__ = ["Narrowed", "lower"]

Codes = npt.NDArray[Any]

#: Elements that are narrowed together: the caches hold them until they are read.
_PART = 1 << 15

#: Elements that a kernel narrows together: if one is wider, so many are done again.
_PART_OF_KERNEL = 1 << 17

#: Elements from which on kernels narrow operands: for less they need not be compiled again.
_MANY = 1 << 14


def lower(request: Elementwise, own: Any) -> Any:
    """Return the program of a request of binary64 operands, of which `own` is that for any numbers, or None.

    Conversions are as fast from binary64, but for some that draw, and those with a program that narrows.
    """
    bits, converts = request.projection.rounding.bits, request.operation == CONVERT
    if converts and bits and own and own.draws:
        return own
    sources = tuple(SINGLE if source == DOUBLE else source for source in request.sources)
    program = engine.lower_by("vector", dataclasses.replace(request, sources=sources, backend=None))
    if program is None or (converts and not bits and not (own and program.narrows)):
        return own
    return Narrowed(request, program, own)


class Narrowed:
    """A program of elements; see `engine.ElementwiseProgram`."""

    in_place = widens = narrows = False

    def __init__(self, request: Elementwise, program: ElementwiseProgram, own: Any) -> None:
        self._program = program
        self.own: ElementwiseProgram = own or engine.lower_by(
            "scalar", dataclasses.replace(request, backend="scalar")
        )
        self._wide = [source == DOUBLE for source in request.sources]
        self._by_itself = all(self._wide) and program.narrows
        self._only_many = request.operation == CONVERT and self._by_itself
        self._bits = request.projection.rounding.bits
        self.floats = self._by_itself and program.floats
        self.refuses, self.draws = program.refuses or self.own.refuses, program.draws

    def run(self, operands: list[Codes], out: Codes, flags: Codes, random: Codes, past: bool = False) -> int:
        """Write results and flags."""
        if self._by_itself and out.size >= _MANY:
            return self._by_kernel(operands, out, flags, random, past)
        if self._only_many:
            return self._run_wide(operands, out, flags, random, past)
        return self._in_parts(operands, out, flags, random, past)

    def _run_wide(
        self, operands: list[Codes], out: Codes, flags: Codes, random: Codes, past: bool = False
    ) -> int:
        """As `run`, by the program of any binary64 numbers."""
        if not self.own.floats:
            operands, out = [as_words(codes) for codes in operands], as_words(out)
        return self.own.run(operands, out, flags, random, past)

    def bound(self, operands: list[Codes], out: Codes) -> Callable[..., int] | None:
        """Return what operates on arrays of these types; see `engine.ElementwiseProgram`."""
        if not self.floats or self._program.bound is None:
            return None
        few = self.own.bound(operands, out) if self._only_many and self.own.bound else None

        @functools.cache
        def many() -> Callable[..., int] | None:
            return self._program.bound(operands, out) if self._program.bound else None

        def run(*arrays: Codes) -> int:
            kernel = few if arrays[-1].size < _MANY else many()
            return WIDER if kernel is None else kernel(*arrays)

        return run

    @usual_arithmetic()
    def _in_parts(
        self, operands: list[Codes], out: Codes, flags: Codes, random: Codes, past: bool
    ) -> int:  # fmt: skip
        """As `run`, narrowing operands first."""
        room = self._room(operands, out.size)
        for start in range(0, out.size, _PART):
            place = slice(start, start + _PART)
            given = [codes if codes.size == 1 != out.size else codes[place] for codes in operands]
            others = out[place], flags[place], random[place]
            some = self._as_singles(given, room)
            if some is None:
                status = self._run_wide(given, *others)
            else:
                status = self._program.run(some, *others, past=past)
            if status != DONE:
                return status
        return DONE

    def _by_kernel(
        self, operands: list[Codes], out: Codes, flags: Codes, random: Codes, past: bool
    ) -> int:  # fmt: skip
        """As `run`, by a kernel that narrows operands."""
        for start in range(0, out.size, _PART_OF_KERNEL):
            place = slice(start, start + _PART_OF_KERNEL)
            given = [codes if codes.size == 1 != out.size else codes[place] for codes in operands]
            others = out[place], flags[place], random[place]
            status = self._program.run(given, *others, past=past)
            if status == WIDER:
                status = self._run_wide(given, *others)
            if status != DONE:
                return status
        return DONE

    @usual_arithmetic()
    def draw(self, operands: list[Codes], out: Codes, key: int, first: int, past: bool = False) -> int:
        """As `run`, with random integers from number `first` on."""
        room = self._room(operands, out.size)
        for start in range(0, out.size, _PART):
            given, made = [codes[start : start + _PART] for codes in operands], out[start : start + _PART]
            some = self._as_singles(given, room)
            if some is None:
                random, starts = np.empty(made.size, np.uint32), np.array([first + start], np.uint64)
                philox_runs(random, starts, made.size, np.uint64(key), 0, self._bits)
                status = self._run_wide(given, made, np.empty(0, np.uint8), random)
            else:
                status = self._program.draw(some, made, key, first + start, past)
            if status != DONE:
                return status
        return DONE

    def _room(self, operands: list[Codes], size: int) -> list[Codes]:
        """Return memory for what is narrowed."""
        return [np.empty(min(_PART, codes.size) if wide else 0, np.float32)
                for wide, codes in zip(self._wide, operands, strict=True)]  # fmt: skip

    def _as_singles(self, operands: list[Codes], room: list[Codes]) -> list[Codes] | None:
        """Return operands of which none is wider than binary32, or None if one is."""
        given = []
        for codes, held, wide in zip(operands, room, self._wide, strict=True):
            if not wide:
                given.append(codes)
                continue
            some = held[: codes.size]
            if not narrowed(codes.view(np.float64), some):
                return None
            given.append(some.view(np.uint32))
        return given
