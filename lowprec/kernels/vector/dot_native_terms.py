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
from lowprec.kernels.vector.dot import blocks, panels, plan
from lowprec.kernels.vector.dot_operands import converted, cut_in_slices, finite, singles, span
from lowprec.kernels.vector.doubles import doubles_added, terms_added
from lowprec.kernels.vector.ir.lanes import LANES
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
        singles(codes, fmt).view(np.float32).astype(np.float64)
        for codes, fmt in zip((x.scales, y.scales), request.scales, strict=True)
    ]
    (x_words, x_doubts), (y_words, y_doubts) = (finite(side) for side in sides)
    x_span, y_span = (span_of(words, fmt) for words, fmt in ((x_words, request.x), (y_words, request.y)))
    factors = sum(fmt.precision for fmt in request.scales if fmt.precision > 1)
    count = (request.block - 1).bit_length()
    bits = x_span[1] - x_span[0] + y_span[1] - y_span[0] + count
    # Sums are multiples of the least number: none is rounded below it, or becomes -0.
    lowest = (
        (-1074 if double else -149) - x_span[0] - y_span[0] + sum(fmt.trailing_bits for fmt in request.scales)
    )
    if _lowest_of(scales) < max(lowest, -126):
        scales = [_of_numbers(side, some, request.block) for side, some in zip(sides, scales, strict=True)]
        if _lowest_of(scales) < lowest:
            return None
    if bits + factors > (53 if factors else _WIDEST):
        return None
    out = np.zeros(shape, np.float64 if double else np.float32)
    if addends.size:
        out[...] = converted(addends.astype(code_dtype(begin)), begin, into, DEFAULT).view(out.dtype)
    doubts = np.signbit(out) & (out == 0)
    rounds, words = how.product is not None, (x_words, y_words)
    kind = np.float32 if bits <= 24 and x_span[0] + y_span[0] >= -126 else np.float64
    if kind == np.float32 and not double and how.order != PAIRWISE and factors <= 24 and _are_usual(scales):
        status = _in_lanes(words, scales, request.block, rounds, out, share)
    else:
        turned = np.ascontiguousarray(y_words.T) if shape[0] > _MANY else y_words.T
        numbers = [side.view(np.float32).astype(kind, copy=False) for side in (x_words, turned)]
        cut = cut_in_slices(numbers[0], numbers[1], x_span, y_span, 53 - count, _SLICES)
        assert cut is not None, "no more bits than nine slices have"
        left, right = (np.ascontiguousarray(side.T) for side in scales)
        terms = _Terms(*cut, left, right, request.block, rounds, addends.size > 0)
        status = terms.in_tiles(how.order == PAIRWISE, out, doubts, share)
    if status != DONE:
        return None
    doubts = ~np.isfinite(out) | (doubts & (out == 0)) | x_doubts[:, None] | y_doubts
    return out if double else out.view(np.uint32), doubts


def _in_lanes(
    words: tuple[Array, Array], scales: list[Array], size: int, rounds: bool, out: Array, share: Share
) -> int:
    """Add terms that binary32 holds, as it does products of scales, to sums in binary32."""
    kernel, (m, n) = blocks("multiply_and_add" if rounds else "fma"), out.shape
    sums = np.zeros((m, -(-n // LANES) * LANES), np.float32)
    sums[:, :n] = out
    left, right = (side.astype(np.float32).view(np.uint32) for side in scales)
    columns, right = panels(words[1]), panels(right)

    def part(start: int, stop: int) -> int:
        some = slice(start, stop)
        if start >= stop:
            return DONE
        return kernel(words[0][some], left[some], columns, right, size, sums[some].view(np.uint32), plan())

    status = share(part, m, sums.shape[1] * words[0].shape[1] // 4)
    out[...] = sums[:, :n]
    return status


class _Terms(NamedTuple):
    """Blocks of rows and of columns, in slices, and their scales; a tile are some rows and columns."""

    rows: list[Array]
    columns: list[Array]
    left: Array  #: scales, of a block of each row
    right: Array
    block: int
    rounds: bool  #: whether terms are rounded to binary32 before they are added
    begins: bool  #: whether sums begin with an addend

    def in_tiles(self, pairs: bool, out: Array, doubts: Array, share: Share) -> int:
        """Add all terms to sums, in pairs or one after the other."""
        way = self.in_pairs if pairs else self.running

        def part(start: int, stop: int) -> int:
            high = max(1, _TILE // (self.block * min(_COLUMNS, out.shape[1])))
            for first in range(start, stop, high):
                for column in range(0, out.shape[1], _COLUMNS):
                    tile = slice(first, min(first + high, stop)), slice(column, column + _COLUMNS)
                    sums = np.ascontiguousarray(out[tile])
                    status = way(*tile, sums, doubts[tile])
                    if status != DONE:
                        return status
                    out[tile] = sums
            return DONE

        return share(part, len(out), out.shape[1] * self.rows[0].shape[1] // 16)

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


def _are_usual(scales: list[Array]) -> bool:
    """Return whether products of scales are NaN or neither subnormal nor infinite in binary32."""
    most = math.prod(float(np.nanmax(np.abs(side), initial=1.0)) for side in scales)
    return most < 2.0**127 and _lowest_of(scales) >= -126


def _lowest_of(scales: list[Array]) -> int:
    """Return the exponent of the least product of scales that are neither zero nor NaN, at most 0."""
    return math.frexp(math.prod(map(_least, scales)))[1] - 1


def _least(scales: Array) -> float:
    """Return the least scale that is neither zero nor NaN, at most 1."""
    return float(np.abs(scales).min(where=~np.isnan(scales) & (scales != 0), initial=1.0))


def span_of(words: Array, fmt: Format) -> tuple[int, int]:
    """Return low and high: numbers are multiples of 2**low below 2**high, of a narrow format or as given."""
    low, high = fmt.scaled(0)[1], math.frexp(max(fmt.max_finite, -fmt.min_finite))[1]
    return (low, high) if high - low <= _NARROW else span(words)
