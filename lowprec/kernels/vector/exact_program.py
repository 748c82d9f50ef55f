"""Programs of operations whose exact result NumPy has: an operand, its negative, a whole or a scaled number.

NumPy makes it, as a binary32 or binary64 number, and the program of a conversion projects it and finds its
flags. NaNs are left to the scalar engine.

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
from lowprec.kernels.lower.words import DOUBLE, SINGLE
from lowprec.kernels.modes import usual_arithmetic
from lowprec.kernels.request import CONVERT, Elementwise
from lowprec.kernels.vector.flagged_program import FEW, numbers_of
from lowprec.spec.rounding import NEAREST_EVEN, TOWARD_NEGATIVE, TOWARD_POSITIVE, TOWARD_ZERO, Rounding

__all__ = ["OPERATIONS", "Exact", "lower"]

Codes = npt.NDArray[Any]
Numbers = npt.NDArray[Any]  #: of binary32 or binary64

#: Elements that are made at a time: what that takes stays in the caches.
_PART = 1 << 14

#: Binary32 numbers times two to such a power are binary64 numbers.
_FAR = 700

_WHOLE: dict[Rounding, Callable[[Numbers], Numbers]] = {
    NEAREST_EVEN: np.rint,
    TOWARD_ZERO: np.trunc,
    TOWARD_POSITIVE: np.ceil,
    TOWARD_NEGATIVE: np.floor,
}


def _bits(x: Numbers) -> Codes:
    return np.asarray(x.view(f"u{x.itemsize}"))


def _smaller(x: Numbers, y: Numbers) -> Numbers:
    """The smaller of two numbers; -0 is below 0."""
    made = np.where(x == y, _bits(x) | _bits(y), _bits(np.minimum(x, y)))
    return made.view(x.dtype)


def _larger(x: Numbers, y: Numbers) -> Numbers:
    """The larger of two numbers, likewise."""
    made = np.where(x == y, _bits(x) & _bits(y), _bits(np.maximum(x, y)))
    return made.view(x.dtype)


def _scaled(x: Numbers, n: Numbers) -> Numbers:
    """Return x * 2**n in binary64, or NaN where that may not hold it, or where n is no integer."""
    known = (np.abs(n) <= _FAR) & (np.trunc(n) == n)
    return np.where(known, np.ldexp(x.astype(np.float64), np.where(known, n, 0).astype(np.int32)), np.nan)


def _exponent(x: Numbers) -> Numbers:
    """The exponents of numbers, or NaN for zeros and infinities."""
    found = np.frexp(x)[1].astype(x.dtype) - 1
    return np.where((x == 0) | np.isinf(x), x.dtype.type(np.nan), found)


#: Exact results of operands that are no NaNs; NaN where the scalar engine must say.
OPERATIONS: dict[str, Callable[..., Numbers]] = {
    "negative": np.negative,
    "absolute": np.abs,
    "copysign": np.copysign,
    "minimum": _smaller,
    "minimum_number": _smaller,
    "maximum": _larger,
    "maximum_number": _larger,
    "scaleb": _scaled,
    "logb": _exponent,
}


def lower(request: Elementwise) -> Exact | None:
    """Return the program of a request, or None where another engine must serve it."""
    make = OPERATIONS.get(request.operation)
    if request.operation == "round_to_integral" and not request.flags:
        make = _WHOLE.get(request.projection.rounding)
    kind = DOUBLE if all(source == DOUBLE for source in request.sources) else SINGLE
    if make is None or (kind == SINGLE and DOUBLE in request.sources):
        return None
    if request.operation == "scaleb":
        if kind == DOUBLE:
            return None
        kind = DOUBLE
    onward = dataclasses.replace(request, operation=CONVERT, sources=(kind,), backend=None)
    read = [numbers_of(fmt) for fmt in request.sources]
    program = engine.lower_by("vector", onward)
    if program is None or any(each is None for each in read):
        return None
    return Exact(request, make, read, program)  # type: ignore[arg-type]


class Exact:
    """Exact results, and their conversion; see `engine.ElementwiseProgram`."""

    draws = in_place = False

    def __init__(
        self,
        request: Elementwise,
        make: Callable[..., Numbers],
        read: list[Callable[[Codes], Numbers]],
        program: ElementwiseProgram,
    ) -> None:
        self._request, self._make, self._read, self._program = request, make, read, program
        self.refuses = program.refuses

    @usual_arithmetic()
    def run(self, operands: list[Codes], out: Codes, flags: Codes, random: Codes, past: bool = False) -> int:
        """Write results and flags."""
        scalar = engine.lower_by("scalar", dataclasses.replace(self._request, backend="scalar"))
        if out.size < FEW and self._request.backend is None:
            return int(scalar.run(operands, out, flags, random))
        for start in range(0, out.size, _PART):
            part = slice(start, start + _PART)
            size = out[part].size
            given = [np.repeat(codes, size) if codes.size == 1 else codes[part] for codes in operands]
            numbers = [read(codes) for read, codes in zip(self._read, given, strict=True)]
            made = np.ascontiguousarray(self._make(*numbers))
            (left,) = np.nonzero(np.logical_or.reduce([np.isnan(each) for each in (made, *numbers)]))
            if left.size:
                made[left] = 0  # no program refuses it, nor is it a result
            words, signals = random[part], flags[part]
            status = self._program.run([_bits(made)], out[part], signals, words)
            if status == DONE and left.size:
                results, found = (
                    np.empty(left.size, out.dtype),
                    np.empty(left.size if flags.size else 0, np.uint8),
                )
                chosen = words[left] if random.size else random
                status = scalar.run([codes[left] for codes in given], results, found, chosen)
                out[part][left] = results
                if flags.size:
                    signals[left] = found
            if status != DONE:
                return status
        return DONE
