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
from lowprec.kernels.vector.in_parts import InParts, Read, places_of, readers
from lowprec.kernels.vector.order import chosen, compared, kind_of, order_of, signaling_order_of
from lowprec.spec.format import Format

__all__ = ["OPERATIONS", "Choice", "lower"]

Codes = npt.NDArray[Any]

_NO = np.uint8(0)

#: Operations: whether the larger one is taken, and whether a number is preferred to a NaN.
OPERATIONS: dict[str, tuple[bool, bool]] = {
    "minimum": (False, False),
    "minimum_number": (False, True),
    "maximum": (True, False),
    "maximum_number": (True, True),
}


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

    def part(self, operands: list[Codes], out: Codes, flags: Codes, random: Codes) -> Codes | None:
        """Write results and flags."""
        if self._read is not None:
            operands = [read(codes) for read, codes in zip(self._read, operands, strict=True)]
            operands = [numbers.view(code_dtype(self._kind)) for numbers in operands]
        x, y = operands
        made = np.empty_like(x)
        self._choose(x, y, made, self._order, *self._how)
        left = np.empty(0, np.intp)
        if self._left is not None:
            marks = np.empty(x.size, np.uint8)
            self._compare(x, y, marks, self._left, _NO, _NO, np.uint8(1), True)
            left = places_of(marks.view(bool))
            made[left] = 0  # no conversion refuses that
        return left if self._program.run([made], out, flags, random) == DONE else None
