"""Running sums of blocks: a term is the exact sum of the products of a block, times both scales.

Binary32 or binary64 holds every sum of the products of a block, so matrices are multiplied by NumPy, in any
order; where an operand has too many bits it is cut into slices of fewer. Then the terms are added.

Floor 2b. Imports the vector kernels; never the oracle, which checks them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.kernels.codes import code_dtype
from lowprec.kernels.engine import DONE, Rows
from lowprec.kernels.lower.words import DOUBLE, SINGLE
from lowprec.kernels.request import Dot
from lowprec.kernels.vector.dot import plan
from lowprec.kernels.vector.dot_operands import converted, finite, singles, slices, span
from lowprec.kernels.vector.doubles import doubles_added, terms_added
from lowprec.spec.format import Format
from lowprec.spec.projection import DEFAULT

__all__ = ["by_terms"]

Array = npt.NDArray[Any]
Share = Callable[[Callable[[int, int], int], int, int], int]

#: Bits of sums that two binary64 numbers hold, less those of the rests that nine slices leave.
_WIDEST = 102

#: Products that NumPy makes in one thread, and the columns of a tile. They stay in the caches.
_PRODUCTS, _COLUMNS = 1 << 18, 256

#: Rows from which on it pays to have the columns of y one after the other in memory.
_MANY = 64

#: Bits between the least and the largest value of a format whose values need no look: of E4M3 and narrower.
_NARROW = 18

#: The most slices of an operand: of two with so many bits that `_WIDEST` allows them.
_SLICES = 3


def by_terms(
    request: Dot, x: Rows, y: Rows, sides: list[Array], addends: Array, share: Share
) -> tuple[Array, Array] | None:
    """Return all sums, and where they are in doubt; None where terms take too many numbers.

    `sides` are the operands as patterns of binary32; see `dot_program.Dots.run` for the rest.
    """
    assert request.scales is not None
    assert x.scales is not None
    assert y.scales is not None
    how, begin, shape = request.accumulation, request.addend, (len(sides[0]), len(sides[1]))
    double = isinstance(how.accumulator, tuple) and how.accumulator[0] == DOUBLE
    into = DOUBLE if double else SINGLE
    if addends.size and not into.contains(begin):
        return None
    scales = [
        _of_numbers(side, singles(codes, fmt).view(np.float32).astype(np.float64), request.block)
        for side, codes, fmt in zip(sides, (x.scales, y.scales), request.scales, strict=True)
    ]
    (x_words, x_doubts), (y_words, y_doubts) = (finite(side) for side in sides)
    x_span, y_span = (_span(words, fmt) for words, fmt in ((x_words, request.x), (y_words, request.y)))
    factors = sum(fmt.precision for fmt in request.scales if fmt.precision > 1)
    count = (request.block - 1).bit_length()
    bits = x_span[1] - x_span[0] + y_span[1] - y_span[0] + count
    least_bit = (
        math.frexp(math.prod(map(_least, scales)))[1] - 1 - sum(fmt.trailing_bits for fmt in request.scales)
    )
    # Sums are multiples of the least number: none is rounded below it, or becomes -0.
    if x_span[0] + y_span[0] + least_bit < (-1074 if double else -149):
        return None
    if bits + factors > (53 if factors else _WIDEST):
        return None
    kind = np.float32 if bits <= 24 and x_span[0] + y_span[0] >= -126 else np.float64
    numbers = [words.view(np.float32).astype(kind, copy=False) for words in (x_words, y_words)]
    rows, columns = _cut(numbers[0], numbers[1].T, x_span, y_span, count)
    if shape[0] > _MANY:
        columns = [np.ascontiguousarray(side) for side in columns]
    left, right = (np.ascontiguousarray(side.T) for side in scales)
    out = np.zeros(shape, np.float64 if double else np.float32)
    words, rounds = plan(), how.product is not None
    if addends.size:
        out[...] = converted(addends.astype(code_dtype(begin)), begin, into, DEFAULT).view(out.dtype)
    zeros = np.signbit(out) & (out == 0)

    def added(some: slice, across: slice) -> int:
        sums = np.ascontiguousarray(out[some, across])
        parts = np.empty((len(rows) * len(columns), *sums.shape), kind)
        for place in range(len(left)):
            inner = slice(place * request.block, place * request.block + request.block)
            for part, (row, column) in zip(parts, itertools.product(rows, columns), strict=True):
                np.matmul(row[some, inner], column[inner, across], out=part)
            given = parts, left[place, some], right[place, across]
            status = (
                doubles_added(*given, sums, words) if double else terms_added(*given, rounds, sums, words)
            )
            if status != DONE:
                return status
        out[some, across] = sums
        return DONE

    def part(start: int, stop: int) -> int:
        high = max(1, _PRODUCTS // (request.block * min(_COLUMNS, shape[1])))
        for first in range(start, stop, high):
            for column in range(0, shape[1], _COLUMNS):
                status = added(slice(first, min(first + high, stop)), slice(column, column + _COLUMNS))
                if status != DONE:
                    return status
        return DONE

    if share(part, shape[0], shape[1] * sides[0].shape[1] // 16) != DONE:
        return None
    doubts = ~np.isfinite(out) | (zeros & (out == 0)) | x_doubts[:, None] | y_doubts
    return out if double else out.view(np.uint32), doubts


def _of_numbers(side: Array, scales: Array, block: int) -> Array:
    """Scales, but 1 of blocks of zeros: theirs may be the smallest there is, and nothing is that small."""
    starts = np.arange(0, side.shape[1], block)
    numbers = np.logical_or.reduceat((side & 0x7FFFFFFF) != 0, starts, axis=1)
    return np.where(numbers | np.isnan(scales), scales, 1.0)


def _least(scales: Array) -> float:
    """Return the least scale that is neither zero nor NaN, at most 1."""
    return float(np.abs(scales).min(where=~np.isnan(scales) & (scales != 0), initial=1.0))


def _span(words: Array, fmt: Format) -> tuple[int, int]:
    """All numbers are multiples of 2**low and below 2**high: as all of a narrow format, or as these are."""
    low, high = fmt.scaled(0)[1], math.frexp(max(fmt.max_finite, -fmt.min_finite))[1]
    return (low, high) if high - low <= _NARROW else span(words)


def _cut(
    x: Array, y: Array, x_span: tuple[int, int], y_span: tuple[int, int], count: int
) -> tuple[list[Array], list[Array]]:
    """Return both operands as sums of slices, as few as make every sum of a block's products exact."""
    x_bits, y_bits = (max(1, high - low) for low, high in (x_span, y_span))
    pairs = [(1, 1), (2, 1), (1, 2), *itertools.product(range(1, _SLICES + 1), repeat=2)]
    fits = [pair for pair in pairs if -(-x_bits // pair[0]) - (-y_bits // pair[1]) + count <= 53]
    first, second = min(fits, key=math.prod)
    return (
        [x] if first == 1 else slices(x, *x_span, -(-x_bits // first)),
        [y] if second == 1 else slices(y, *y_span, -(-y_bits // second)),
    )
