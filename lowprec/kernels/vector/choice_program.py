"""Programs of operations that choose one of two operands: the lesser or the larger.

Codes are compared as integers, and the program of a conversion projects the chosen one and finds its flags.

Floor 2b. Imports the other programs of the engine; never the oracle, which checks them.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.kernels import engine
from lowprec.kernels.codes import code_dtype
from lowprec.kernels.engine import DONE, ElementwiseProgram
from lowprec.kernels.lower.words import DOUBLE, SINGLE
from lowprec.kernels.request import CONVERT, Elementwise
from lowprec.kernels.vector.in_parts import NO_FLAGS, InParts, Read, places_of, readers
from lowprec.kernels.vector.order import Relation, chosen, compared, kind_of, order_of, signaling_order_of
from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Format

__all__ = ["OPERATIONS", "Choice", "lower"]

Codes = npt.NDArray[Any]

#: Marks NaNs.
_NANS = Relation(0, 0, 1)

#: Operations: whether the larger one is taken, and whether a number is preferred to a NaN.
OPERATIONS: dict[str, tuple[bool, bool]] = {
    "minimum": (False, False),
    "minimum_number": (False, True),
    "maximum": (True, False),
    "maximum_number": (True, True),
}


#: What `chosen` keeps of NaNs, and what it adds.
_AS_THEY_ARE = -1, 0


def _settled(request: Elementwise, program: ElementwiseProgram) -> tuple[int, int] | None:
    """Return what is kept of NaNs, and what is added, where the conversion changes no other code; else None.

    All codes are tried.
    """
    kind, other = request.sources
    result = request.carrier or request.target
    if kind != other or kind.width != kind.code_bits or kind.width > 16:
        return None
    if isinstance(result, Codebook) or code_dtype(result) != code_dtype(kind):
        return None
    codes = np.arange(1 << kind.width, dtype=code_dtype(kind))
    made, marks = np.empty_like(codes), np.empty(codes.size, np.uint8)
    if program.run([codes], made, NO_FLAGS, np.zeros(codes.size, np.uint32)) != DONE:
        return None
    compared(*kind_of(kind))(codes, codes, marks, order_of(kind), *_NANS)
    nans = marks.view(bool)
    if not np.array_equal(made[~nans], codes[~nans]):
        return None
    if not nans.any():
        return _AS_THEY_ARE
    first, sign = int(made[nans][0]), kind.sign_code
    for kept, nan in ((0, first), (sign, first & ~sign)):
        if np.array_equal(codes[nans] & kept | nan, made[nans]):
            return kept, nan
    return None


def lower(request: Elementwise) -> Choice | None:
    """Return the program of a request, or None where another engine must serve it."""
    if request.operation not in OPERATIONS:
        return None
    kind, read = request.sources[0], None
    if request.sources[1] != kind:
        kind, read = SINGLE, readers(*request.sources)
        if read is None or DOUBLE in request.sources:
            return None
    onward = dataclasses.replace(request, operation=CONVERT, sources=(kind,), backend=None)
    program = engine.lower_by("vector", onward)
    return None if program is None else Choice(request, kind, read, program)


class Choice(InParts):
    """Chosen operands, and their conversion."""

    def __init__(
        self, request: Elementwise, kind: Format, read: list[Read] | None, program: ElementwiseProgram
    ) -> None:
        super().__init__(request, program.refuses)
        self._kind, self._read, self._program = kind, read, program
        self._choose, self._order = chosen(*kind_of(kind)), order_of(kind, zeros=False)
        self._how = OPERATIONS[request.operation]
        self._compare = compared(*kind_of(kind))
        #: The NaNs that are left to the scalar engine: all where signaling ones are read as quiet ones.
        self._left = signaling_order_of(kind) if request.flags else None
        if request.projection.nan_payload != "drop" or (request.flags and read is not None):
            self._left = self._order
        plain = self._left is None and not request.flags
        self._settled = _settled(request, program) if plain else None
        if self._settled is not None:
            self.refuses = False

    def run(self, operands: list[Codes], out: Codes, flags: Codes, random: Codes, past: bool = False) -> int:
        """Write results; see `engine.ElementwiseProgram`."""
        if self._settled is None:
            return super().run(operands, out, flags, random, past)
        x, y = (np.repeat(codes, out.size) if codes.size == 1 != out.size else codes for codes in operands)
        self._choose(x, y, out, self._order, *self._how, *self._settled)
        return DONE

    def part(self, operands: list[Codes], out: Codes, flags: Codes, random: Codes) -> Codes | None:
        """Write results and flags."""
        if self._read is not None:
            operands = [read(codes) for read, codes in zip(self._read, operands, strict=True)]
            operands = [numbers.view(code_dtype(self._kind)) for numbers in operands]
        x, y = operands
        made = np.empty_like(x)
        self._choose(x, y, made, self._order, *self._how, *_AS_THEY_ARE)
        left = np.empty(0, np.intp)
        if self._left is not None:
            marks = np.empty(x.size, np.uint8)
            self._compare(x, y, marks, self._left, *_NANS)
            left = places_of(marks.view(bool))
            made[left] = 0  # no conversion refuses that
        return left if self._program.run([made], out, flags, random) == DONE else None
