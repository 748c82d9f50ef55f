"""Programs whose results are binary64 numbers: made in binary32 and widened, or multiplied there.

Vectors work on words of 32 bits, and widen what they write. Small values of bfloat16 and binary32 are
subnormal in binary32, which needs the usual modes of the processor then; values of blocks binary32 need
not hold.

Floor 2b. Imports the other programs of the engine; never the oracle, which checks them.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.kernels import engine
from lowprec.kernels.engine import DONE, ElementwiseProgram, Tensor
from lowprec.kernels.lower.words import DOUBLE, SINGLE
from lowprec.kernels.modes import usual_arithmetic
from lowprec.kernels.request import CONVERT, BlockDecoding, Elementwise
from lowprec.kernels.vector.exact import scaled_blocks
from lowprec.kernels.vector.in_parts import InParts, Read, readers
from lowprec.spec.projection import DEFAULT

__all__ = ["lower", "lower_blocks"]

Codes = npt.NDArray[Any]

#: Elements of blocks that go together: what they take stays in the caches.
_PART = 1 << 16


def lower(request: Elementwise) -> Widened | Written | None:
    """Return the program of a request, or None where another engine must serve it."""
    single = None
    if request.carrier == DOUBLE and SINGLE.contains(request.target):
        single = dataclasses.replace(request, carrier=SINGLE, backend=None)
    elif request.target == DOUBLE and request.carrier is None and request.operation == CONVERT:
        if SINGLE.contains(request.sources[0]) and request.projection == DEFAULT:
            single = dataclasses.replace(request, target=SINGLE, backend=None)
    program = None if single is None else engine.lower_by("vector", single)
    if program is None:
        return None
    return Written(program) if program.widens else Widened(request, program)


class Written:
    """Results of a program that writes binary32 numbers as binary64 ones where `out` has such."""

    in_place = widens = False
    bound = None

    def __init__(self, program: ElementwiseProgram) -> None:
        self._program, self.refuses, self.draws = program, program.refuses, program.draws
        self.floats = program.floats

    @usual_arithmetic()  # which keeps subnormal numbers
    def run(self, operands: list[Codes], out: Codes, flags: Codes, random: Codes, past: bool = False) -> int:
        """Write results; see `engine.ElementwiseProgram`."""
        return self._program.run(operands, out, flags, random, past)

    @usual_arithmetic()
    def draw(self, operands: list[Codes], out: Codes, key: int, first: int, past: bool = False) -> int:
        """Write results rounded by random integers from number `first` on."""
        return self._program.draw(operands, out, key, first, past)


class Widened(InParts):
    """Results of another program, as binary64 numbers."""

    def __init__(self, request: Elementwise, program: ElementwiseProgram) -> None:
        super().__init__(request, program.refuses)
        self._program = program

    def part(self, operands: list[Codes], out: Codes, flags: Codes, random: Codes) -> Codes | None:
        """Write results and flags."""
        words = np.empty(out.size, np.uint32)
        if self._program.run(operands, words, flags, random) != DONE:
            return None
        out.view(np.float64)[...] = words.view(np.float32)
        return np.empty(0, np.intp)


def lower_blocks(request: BlockDecoding) -> WidenedBlocks | None:
    """Return the program of a request, or None where another engine must serve it."""
    fmt, scaled = request.format, request.tensor
    bits = fmt.element.precision + fmt.scale.precision + 24 * scaled
    read = readers(fmt.element, fmt.scale)
    if request.carrier != DOUBLE or read is None or bits > 53:
        return None
    exact = bits <= SINGLE.precision  # but for very large and very small ones
    short = engine.lower_by("vector", dataclasses.replace(request, carrier=SINGLE)) if exact else None
    return WidenedBlocks(read, short)


class WidenedBlocks:
    """The values of blocks, which binary64 holds: elements times their scales."""

    partial = True

    def __init__(self, read: list[Read], short: Any) -> None:
        self._read, self._short = read, short

    @usual_arithmetic()
    def run(
        self, codes: Codes, out: Codes, scales: Codes, marks: Codes, layout: tuple[int, ...], tensor: Tensor,
        past: bool,
    ) -> int:  # fmt: skip
        """Write values; return how many blocks are left, which are marked: those with a scale of NaN.

        The program of binary32 values widens what it writes, and all is done again where that is not all.
        """
        if self._short is not None:
            if self._short.run(codes, out, scales, marks, layout, tensor, past) == 0:
                return 0
            marks[:] = 0
        outer, rows, columns, high, wide, _, _ = layout
        factor = math.ldexp(*tensor.number)
        grid = scales.reshape(outer, -(-rows // high), -(-columns // wide))
        given, marked = codes.reshape(outer, rows, columns), marks.reshape(grid.shape)
        down = max(1, _PART // (columns * high))
        across = max(1, _PART // (high * wide)) if down == 1 else grid.shape[2]
        for matrix in range(outer):
            for row in range(0, grid.shape[1], down):
                for column in range(0, grid.shape[2], across):
                    blocks = matrix, slice(row, row + down), slice(column, column + across)
                    first, last = column * wide, (column + across) * wide
                    some = given[matrix, row * high : (row + down) * high, first:last]
                    start = (matrix * rows + row * high) * columns + first
                    factors = self._factors(grid[blocks]) * factor
                    marked[blocks] |= ~np.isfinite(factors)
                    values = self._read[0](np.ascontiguousarray(some).reshape(-1)).reshape(some.shape)
                    scaled_blocks(values, factors, high, wide, out[start:].view(np.float64), columns)
        return int(np.count_nonzero(marks))

    def _factors(self, scales: Codes) -> Codes:
        """Return scales as binary64 numbers."""
        numbers = self._read[1](np.ascontiguousarray(scales).reshape(-1))
        return np.asarray(numbers.astype(np.float64).reshape(scales.shape))
