"""Sums of blocks in binary32 and binary64, to nearest, as the processor adds: the fastest way of `dot_terms`.

Terms are exact sums of a block's products, times both scales. Matrices are multiplied by NumPy, and where a
block's sum has too many bits an operand is cut into slices of fewer. Each term is then added in one loop.

Floor 2b. Imports the vector kernels; never the oracle, which checks them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lowprec.kernels.codes import code_dtype
from lowprec.kernels.engine import DONE, Rows
from lowprec.kernels.lower.words import DOUBLE, SINGLE
from lowprec.kernels.request import Dot
from lowprec.kernels.vector.dot import plan
from lowprec.kernels.vector.dot_operands import converted, cut_in_slices, finite, singles, span
from lowprec.kernels.vector.doubles import doubles_added, terms_added
from lowprec.spec.format import Format
from lowprec.spec.order import PAIRWISE
from lowprec.spec.projection import DEFAULT

__all__ = ["by_processor", "span_of"]

Array = npt.NDArray[Any]
Share = Callable[[Callable[[int, int], int], int, int], int]

#: Bits of sums that two binary64 numbers hold, less those of the rests that nine slices leave.
_WIDEST = 102

#: Products that NumPy makes in one thread, and those and the columns of a tile. They stay in the caches.
_PRODUCTS, _TILE, _COLUMNS = 1 << 18, 1 << 20, 256

#: Rows from which on it pays to have the columns of y one after the other in memory.
_MANY = 64

#: Bits between the least and the largest value of a format whose values need no look: of E4M3 and narrower.
_NARROW = 18

#: The most products of slices: of two operands with so many bits that `_WIDEST` allows them.
_SLICES = 9


def by_processor(
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
    x_span, y_span = (span_of(words, fmt) for words, fmt in ((x_words, request.x), (y_words, request.y)))
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
    turned = np.ascontiguousarray(y_words.T) if shape[0] > _MANY else y_words.T
    numbers = [words.view(np.float32).astype(kind, copy=False) for words in (x_words, turned)]
    cut = cut_in_slices(numbers[0], numbers[1], x_span, y_span, 53 - count, _SLICES)
    assert cut is not None, "no more bits than nine slices have"
    rows, columns = cut
    left, right = (np.ascontiguousarray(side.T) for side in scales)
    out = np.zeros(shape, np.float64 if double else np.float32)
    if addends.size:
        out[...] = converted(addends.astype(code_dtype(begin)), begin, into, DEFAULT).view(out.dtype)
    doubts = np.signbit(out) & (out == 0)
    terms = _Terms(rows, columns, left, right, request.block, how.product is not None, addends.size > 0)
    way = terms.in_pairs if how.order == PAIRWISE else terms.running

    def part(start: int, stop: int) -> int:
        high = max(1, _TILE // (request.block * min(_COLUMNS, shape[1])))
        for first in range(start, stop, high):
            for column in range(0, shape[1], _COLUMNS):
                tile = slice(first, min(first + high, stop)), slice(column, column + _COLUMNS)
                sums, minus = np.ascontiguousarray(out[tile]), doubts[tile]
                status = way(*tile, sums, minus)
                if status != DONE:
                    return status
                out[tile] = sums
        return DONE

    if share(part, shape[0], shape[1] * sides[0].shape[1] // 16) != DONE:
        return None
    doubts = ~np.isfinite(out) | (doubts & (out == 0)) | x_doubts[:, None] | y_doubts
    return out if double else out.view(np.uint32), doubts


class _Terms(NamedTuple):
    """Blocks of rows and of columns, in slices, and their scales; a tile are some rows and columns."""

    rows: list[Array]
    columns: list[Array]
    left: Array  #: scales, of a block of each row
    right: Array
    block: int
    rounds: bool  #: whether terms are rounded to binary32 before they are added
    begins: bool  #: whether sums begin with an addend

    def running(self, some: slice, across: slice, sums: Array, minus: Array) -> int:
        """Add all terms of a tile to its sums, one after the other."""
        parts, words = self._room(sums), plan()
        for place in range(len(self.left)):
            given = self._products(place, some, across, parts)
            if sums.dtype == np.float64:
                status = doubles_added(*given, sums, words)
            else:
                status = terms_added(*given, self.rounds, sums, words)
            if status != DONE:
                return status
        return DONE

    def in_pairs(self, some: slice, across: slice, sums: Array, minus: Array) -> int:
        """Write the sums in pairs of terms that are rounded; mark zeros that might be -0.

        `waiting` are sums of 2**i terms that have no partner yet.
        """
        parts, words = self._room(sums), plan()
        waiting, count = ([sums.copy()], 1) if self.begins else ([], 0)
        for place in range(len(self.left)):
            if count % 2 == 0:
                waiting.append(np.full_like(sums, -0.0))  # to which every number is added as it is
            status = terms_added(*self._products(place, some, across, parts), True, waiting[-1], words)
            if status != DONE:
                return status
            count += 1
            for _ in range((count & -count).bit_length() - 2):
                _join(waiting)
        while len(waiting) > 1:
            _join(waiting)
        i, j = np.nonzero(waiting[0] == 0)
        minus[i, j] = self._all_minus(self.rows[0][some][i], self.columns[0][:, across][:, j].T)
        sums[...] = waiting[0]
        sums[i, j] = 0
        return DONE

    def _all_minus(self, rows: Array, columns: Array) -> Array:
        """Return whether all products of two rows are negative, so that a zero sum of them may be -0."""
        if any((np.signbit(scales) | (scales == 0)).any() for scales in (self.left, self.right)):
            return np.ones(len(rows), bool)
        return np.asarray((np.signbit(rows) != np.signbit(columns)).all(axis=1))

    def _room(self, sums: Array) -> Array:
        kind = self.rows[0].dtype
        return np.empty((len(self.rows) * len(self.columns), *sums.shape), kind)

    def _products(
        self, place: int, some: slice, across: slice, parts: Array
    ) -> tuple[Array, Array, Array]:  # fmt: skip
        """Write the sums of products of each block at a place; return them and the scales."""
        inner = slice(place * self.block, place * self.block + self.block)
        high = max(1, _PRODUCTS // (self.block * parts.shape[2]))
        for part, (row, column) in zip(parts, itertools.product(self.rows, self.columns), strict=True):
            left, right = row[some, inner], column[inner, across]
            for first in range(0, len(left), high):
                np.matmul(left[first : first + high], right, out=part[first : first + high])
        return parts, self.left[place, some], self.right[place, across]


def _join(waiting: list[Array]) -> None:
    """Add the last sum to the one before."""
    last = waiting.pop()
    waiting[-1] += last


def _of_numbers(side: Array, scales: Array, block: int) -> Array:
    """Scales, but 1 of blocks of zeros: theirs may be the smallest there is, and nothing is that small."""
    starts = np.arange(0, side.shape[1], block)
    numbers = np.logical_or.reduceat((side & 0x7FFFFFFF) != 0, starts, axis=1)
    return np.where(numbers | ~np.isfinite(scales), scales, np.copysign(1.0, scales))


def _least(scales: Array) -> float:
    """Return the least scale that is neither zero nor NaN, at most 1."""
    return float(np.abs(scales).min(where=~np.isnan(scales) & (scales != 0), initial=1.0))


def span_of(words: Array, fmt: Format) -> tuple[int, int]:
    """Return low and high: numbers are multiples of 2**low below 2**high, of a narrow format or as given."""
    low, high = fmt.scaled(0)[1], math.frexp(max(fmt.max_finite, -fmt.min_finite))[1]
    return (low, high) if high - low <= _NARROW else span(words)
