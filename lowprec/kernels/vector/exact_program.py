"""Programs of operations whose exact result is a number: an operand's negative, a whole or a scaled one.

It is made in binary32 or binary64, and the program of a conversion projects it and finds its
flags. Where flags are asked for, or payloads count, NaNs are left to the scalar engine.

Floor 2b. Imports the other programs of the engine; never the oracle, which checks them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.kernels import engine
from lowprec.kernels.engine import DONE, ElementwiseProgram
from lowprec.kernels.lower.vector import plan
from lowprec.kernels.lower.words import DOUBLE, SINGLE
from lowprec.kernels.request import CONVERT, Elementwise
from lowprec.kernels.vector.exact import exponents, plain_remainders, remainders, scaled
from lowprec.kernels.vector.in_parts import NOWHERE, InParts, Read, places_of, readers
from lowprec.kernels.vector.odd import kernel as odd_kernel
from lowprec.kernels.vector.rounding import WHOLE
from lowprec.spec.projection import Flag

__all__ = ["OPERATIONS", "Exact", "lower"]

Codes = npt.NDArray[Any]
Numbers = npt.NDArray[Any]  #: of binary32 or binary64
Marks = npt.NDArray[np.bool_]

#: Bits of a binary32 number behind the first, and random bits that a binary64 number has beside those.
_PLACES, _BITS = 23, 28


def _bits(x: Numbers) -> Codes:
    return np.asarray(x.view(f"u{x.itemsize}"))


def _marked(kernel: Callable[..., None], kind: np.dtype[Any], *given: Any) -> tuple[Numbers, Marks]:
    """Return what a kernel writes, and what it marks for the scalar engine."""
    made, unsure = np.empty(given[0].size, kind), np.empty(given[0].size, np.bool_)
    kernel(*given[:-1], made, unsure, given[-1])
    return made, unsure


def _remainder(x: Numbers, y: Numbers, settled: bool) -> tuple[Numbers, Marks | None]:
    made = np.empty(x.size)
    return (made, None) if plain_remainders(x, y, made) else _marked(remainders, made.dtype, x, y, settled)


def _exponent(x: Numbers, settled: bool) -> tuple[Numbers, Marks]:
    return _marked(exponents(x.itemsize), x.dtype, x, settled)


def _signed(make: Callable[..., Numbers], *given: Any) -> tuple[Numbers, Marks | None]:
    """Return what changes signs alone, of NaNs too."""
    made = make(*given[:-1])
    return made, None if given[-1] else np.isnan(made)


def _whole(make: Callable[..., Numbers], x: Numbers, settled: bool) -> tuple[Numbers, Marks | None]:
    """Return numbers as integers; NaNs are the operand's."""
    return make(x), None if settled else np.isnan(x)


def _drawn(bits: int, x: Numbers, settled: bool, random: Codes) -> tuple[Numbers, Marks | None]:
    """Return binary32 numbers as integers: drawn as of a format whose last place is 1, or wider."""
    made = np.empty(x.size)
    if odd_kernel(CONVERT, True)(x, x, x, random, bits, False, _PLACES, _PLACES, made, plan()) != DONE:
        made[:] = np.nan
    whole = made.astype(x.dtype)
    unsure = np.isnan(whole)
    if unsure.any():
        nan = np.isnan(x)
        np.copyto(whole, x, where=nan)
        unsure &= ~(nan & settled)
    return whole, unsure


#: Exact results, and marks of those that the scalar engine must say; None where there are none. Called with
#: the operands, and whether NaNs and infinite results are settled: nothing is asked but the usual results.
OPERATIONS: dict[str, Callable[..., tuple[Numbers, Marks | None]]] = {
    "negative": partial(_signed, np.negative),
    "absolute": partial(_signed, np.abs),
    "copysign": partial(_signed, np.copysign),
    "remainder": _remainder,
    "scaleb": partial(_marked, scaled, np.dtype(np.float64)),
    "logb": _exponent,
}


def lower(request: Elementwise) -> Exact | None:
    """Return the program of a request, or None where another engine must serve it."""
    make = OPERATIONS.get(request.operation)
    rounding = request.projection.rounding
    if request.operation == "round_to_integral":
        drawn = rounding.variant == "A" and 0 < rounding.bits <= _BITS
        whole = WHOLE.get(rounding)
        make = partial(_drawn, rounding.bits) if drawn else whole and partial(_whole, whole)
    kind = DOUBLE if all(source == DOUBLE for source in request.sources) else SINGLE
    if make is None or (kind == SINGLE and DOUBLE in request.sources):
        return None
    if kind == DOUBLE and rounding.bits and request.operation == "round_to_integral":
        return None
    if request.operation in ("scaleb", "remainder"):
        if kind == DOUBLE:
            return None
        kind = DOUBLE
    onward = dataclasses.replace(request, operation=CONVERT, sources=(kind,), backend=None)
    program, read = engine.lower_by("vector", onward), readers(*request.sources)
    return None if program is None or read is None else Exact(request, make, read, program)


class Exact(InParts):
    """Exact results, and their conversion."""

    def __init__(
        self,
        request: Elementwise,
        make: Callable[..., tuple[Numbers, Marks | None]],
        read: list[Read],
        program: ElementwiseProgram,
    ) -> None:
        super().__init__(request, program.refuses)
        self._make, self._read, self._program = make, read, program
        self._rounds = request.operation == "round_to_integral"
        self._draws = self._rounds and request.projection.rounding.bits > 0
        self._settled = not request.flags and request.projection.nan_payload == "drop"

    def part(self, operands: list[Codes], out: Codes, flags: Codes, random: Codes) -> Codes | None:
        """Write results and flags."""
        numbers = [read(codes) for read, codes in zip(self._read, operands, strict=True)]
        made, unsure = self._make(*numbers, self._settled, *([random] if self._draws else []))
        made, left = np.ascontiguousarray(made), NOWHERE
        if unsure is not None:
            left = places_of(unsure)
            made[left] = 0  # no conversion refuses that
        status = self._program.run([_bits(made)], out, flags, random)
        if self._rounds and flags.size:
            flags |= (made != numbers[0]).view(np.uint8) * np.uint8(Flag.INEXACT)
        return left if status == DONE else None
