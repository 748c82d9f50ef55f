"""Programs whose results are binary64 numbers: made in binary32 and widened, or multiplied there.

Vectors read and write words of 32 bits. Of bfloat16 and binary32, whose small values are subnormal in
binary32, they make no binary64 numbers themselves, nor of blocks, whose values binary32 need not hold.

Floor 2b. Imports the other programs of the engine; never the oracle, which checks them.
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
from lowprec.kernels.request import CONVERT, BlockDecoding, Elementwise
from lowprec.kernels.vector.in_parts import InParts, Read, readers
from lowprec.spec.projection import DEFAULT

__all__ = ["lower", "lower_blocks"]

Codes = npt.NDArray[Any]

#: Elements of blocks that go together: what they take stays in the caches.
_PART = 1 << 14


def lower(request: Elementwise) -> Widened | None:
    """Return the program of a request, or None where another engine must serve it."""
    single = None
    if request.carrier == DOUBLE and SINGLE.contains(request.target):
        single = dataclasses.replace(request, carrier=SINGLE, backend=None)
    elif request.target == DOUBLE and request.carrier is None and request.operation == CONVERT:
        if SINGLE.contains(request.sources[0]) and request.projection == DEFAULT:
            single = dataclasses.replace(request, target=SINGLE, backend=None)
    program = None if single is None else engine.lower_by("vector", single)
    return None if program is None else Widened(request, program)


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
    fmt, scaled = request.format, request.tensor is not None
    bits = fmt.element.precision + fmt.scale.precision + 24 * scaled
    read = readers(fmt.element, fmt.scale)
    if request.carrier != DOUBLE or read is None or bits > 53:
        return None
    return WidenedBlocks(read, float(request.tensor or 1))


class WidenedBlocks:
    """The values of blocks, which binary64 holds: elements times their scales."""

    partial = True

    def __init__(self, read: list[Read], tensor: float) -> None:
        self._read, self._tensor = read, tensor

    @usual_arithmetic()
    def run(
        self, codes: Codes, out: Codes, scales: Codes, marks: Codes, layout: tuple[int, ...], past: bool
    ) -> int:
        """Write values; return how many blocks are left, which are marked: those with NaN or infinity."""
        outer, rows, columns, high, wide, _, _ = layout
        grid = scales.reshape(outer, -(-rows // high), -(-columns // wide))
        given, made = codes.reshape(outer, rows, columns), out.view(np.float64).reshape(outer, rows, columns)
        marked = marks.reshape(grid.shape)
        down = max(1, _PART // (columns * high))
        across = max(1, _PART // (high * wide)) if down == 1 else grid.shape[2]
        for matrix in range(outer):
            for row in range(0, grid.shape[1], down):
                for column in range(0, grid.shape[2], across):
                    blocks = matrix, slice(row, row + down), slice(column, column + across)
                    place = (
                        matrix,
                        slice(row * high, (row + down) * high),
                        slice(column * wide, (column + across) * wide),
                    )
                    self._part(given[place], grid[blocks], made[place], marked[blocks], high, wide)
        return int(np.count_nonzero(marks))

    def _part(self, codes: Codes, scales: Codes, out: Codes, marks: Codes, high: int, wide: int) -> None:
        """Write some rows and columns, and mark blocks."""
        element, scale = self._read
        rows, columns = codes.shape
        factors = scale(np.ascontiguousarray(scales).reshape(-1)).astype(np.float64) * self._tensor
        factors = np.repeat(np.repeat(factors.reshape(scales.shape), high, 0)[:rows], wide, 1)[:, :columns]
        values = element(np.ascontiguousarray(codes).reshape(-1)).reshape(codes.shape)
        np.multiply(values, factors, out=out)
        finite = np.isfinite(out)
        if not finite.all():
            row, column = np.nonzero(~finite)
            marks[row // high, column // wide] = 1
