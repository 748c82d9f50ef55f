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
from lowprec.kernels.vector.exact import exponents, remainders, scaled
from lowprec.kernels.vector.in_parts import NOWHERE, InParts, Read, places_of, readers
from lowprec.kernels.vector.odd import kernel as odd_kernel
from lowprec.kernels.vector.rounding import WHOLE
from lowprec.spec.arith import SIGN_ONLY
from lowprec.spec.projection import Flag

__all__ = ["OPERATIONS", "Exact", "lower"]

Codes = npt.NDArray[Any]
Numbers = npt.NDArray[Any]  #: of binary32 or binary64

#: Bits of a binary32 number behind the first, and random bits that a binary64 number has beside those.
_PLACES, _BITS = 23, 28


def _bits(x: Numbers) -> Codes:
    return np.asarray(x.view(f"u{x.itemsize}"))


def _scaled(x: Numbers, n: Numbers) -> Numbers:
    """Return x * 2**n, or NaN where the scalar engine must say."""
    made = np.empty(x.size)
    scaled(x, n, made)
    return made


def _remainder(x: Numbers, y: Numbers) -> Numbers:
    """Return x less the nearest multiple of y, or NaN where the scalar engine must say."""
    made = np.empty(x.size)
    remainders(x, y, made)
    return made


def _exponent(x: Numbers) -> Numbers:
    """Return the exponents of numbers, or NaN for zeros."""
    made = np.empty_like(x)
    exponents(x.itemsize)(_bits(x), made)
    return made


def _drawn(x: Numbers, random: Codes, bits: int) -> Numbers:
    """Return binary32 numbers as integers: drawn as of a format whose last place is 1, or wider."""
    made = np.empty(x.size)
    if odd_kernel(CONVERT, True)(x, x, x, random, bits, False, _PLACES, _PLACES, made, plan()) != DONE:
        made[:] = np.nan
    return made.astype(x.dtype)


#: Exact results of operands that are no NaNs; NaN where the scalar engine must say.
OPERATIONS: dict[str, Callable[..., Numbers]] = {
    "negative": np.negative,
    "absolute": np.abs,
    "copysign": np.copysign,
    "remainder": _remainder,
    "scaleb": _scaled,
    "logb": _exponent,
}

#: Where operations signal, of operands that are no NaNs, and the result there.
_SIGNALS: dict[str, tuple[Callable[..., Codes], float]] = {
    "logb": (lambda x: x == 0, -np.inf),
    "remainder": (lambda x, y: np.isinf(x) | (y == 0), np.nan),
}


def lower(request: Elementwise) -> Exact | None:
    """Return the program of a request, or None where another engine must serve it."""
    make = OPERATIONS.get(request.operation)
    rounding = request.projection.rounding
    if request.operation == "round_to_integral":
        drawn = rounding.variant == "A" and 0 < rounding.bits <= _BITS
        make = partial(_drawn, bits=rounding.bits) if drawn else WHOLE.get(rounding)
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
        make: Callable[..., Numbers],
        read: list[Read],
        program: ElementwiseProgram,
    ) -> None:
        super().__init__(request, program.refuses)
        self._make, self._read, self._program = make, read, program
        self._rounds = request.operation == "round_to_integral"
        self._draws = self._rounds and request.projection.rounding.bits > 0
        self._leaves_nans = request.flags or request.projection.nan_payload != "drop"

    def part(self, operands: list[Codes], out: Codes, flags: Codes, random: Codes) -> Codes | None:
        """Write results and flags."""
        numbers = [read(codes) for read, codes in zip(self._read, operands, strict=True)]
        made = np.ascontiguousarray(self._make(*numbers, *([random] if self._draws else [])))
        left = NOWHERE
        if self._leaves_nans or self._draws or not self._rounds:  # else NaNs are the operand's
            unsure = np.isnan(made)
            if unsure.any():
                made, unsure = self._with_nans(made, unsure, numbers)
            left = places_of(unsure)
            made[left] = 0  # no conversion refuses that
        status = self._program.run([_bits(made)], out, flags, random)
        if self._rounds and flags.size:
            flags |= (made != numbers[0]).view(np.uint8) * np.uint8(Flag.INEXACT)
        return left if status == DONE else None

    def _with_nans(self, made: Numbers, unsure: Codes, numbers: list[Numbers]) -> tuple[Numbers, Codes]:
        """Return results with the NaNs that operands bring, and what is left to the scalar engine."""
        if self._leaves_nans:
            return made, unsure
        operation, nans = self.request.operation, [np.isnan(each) for each in numbers]
        bring = [(nan, each) for nan, each in zip(nans, numbers, strict=True)][::-1]  # the first one counts
        for nan, brought in bring if operation not in SIGN_ONLY else ():
            np.copyto(made, brought, where=nan)
        unsure &= ~np.logical_or.reduce(nans)
        if operation in _SIGNALS:
            where, result = _SIGNALS[operation]
            signaled = where(*numbers) & unsure
            made[signaled] = result
            unsure &= ~signaled
        return made, unsure
