"""Sums of blocks: a term is the exact sum of a block's products, times both scales.

Binary32 or binary64 holds every sum of the products of a block, so matrices are multiplied by NumPy, in any
order; where an operand has too many bits it is cut into slices of fewer. Then the terms are added in 64-bit
lanes. Sums that the processor adds as it is have a faster way, `dot_native_terms`.

Floor 2b. Imports the other kernels; never the oracle, which checks them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lowprec.kernels.codes import code_dtype
from lowprec.kernels.engine import DONE, Rows
from lowprec.kernels.general.program import reader
from lowprec.kernels.general.sums import kernel, serves
from lowprec.kernels.general.sums_program import is_usual_sum
from lowprec.kernels.general.tiles import NO_SOURCES, Blocks, factors
from lowprec.kernels.lower.dot import Stages, additions, lower_how, lower_stages
from lowprec.kernels.lower.scalar import lower_target
from lowprec.kernels.lower.words import DOUBLE, SINGLE
from lowprec.kernels.modes import usual_arithmetic
from lowprec.kernels.request import Dot
from lowprec.kernels.vector.dot_native_terms import by_processor, span_of
from lowprec.kernels.vector.dot_operands import converted, cut_in_slices, finite
from lowprec.spec.accumulation import Accumulation
from lowprec.spec.format import Format
from lowprec.spec.order import PAIRWISE, SEQUENTIAL, TREES
from lowprec.spec.projection import DEFAULT
from lowprec.spec.rounded import as_it_is

__all__ = ["by_terms", "is_served"]

Array = npt.NDArray[Any]
Share = Callable[[Callable[[int, int], int], int, int], int]

#: Numbers that the sums of a tile take, and its columns. They stay in the caches.
_TILE, _COLUMNS = 1 << 16, 256

#: The most products of slices, and the most bits of the sums of a block's products that two words hold.
_SLICES, _WIDEST = 9, 120

#: Bits of terms of one word.
_SHORT = 57


def is_served(how: Accumulation) -> bool:
    """Return whether sums of terms are exact in lanes, and binary64 holds them."""
    place = how.total or how.accumulator
    if how.order.name in TREES:
        return False
    binary64 = isinstance(place, tuple) and DOUBLE.contains(place[0])
    return not how.rounds_randomly and binary64 and serves(how) == (True, False)


class Matrix(NamedTuple):
    """Operands of one side: integers in slices, in blocks along K, with units and scales."""

    slices: list[Array]  #: shape (blocks, rows, K of a block)
    units: list[int]  #: the exponent of 1 in each slice
    scales: Array  #: words of `factors`, shape (blocks, rows)
    signs: Array  #: 1 or -1, 0 beyond the last element


def by_terms(
    request: Dot, x: Rows, y: Rows, sides: list[Array], addends: Array, share: Share
) -> tuple[Array, Array] | None:
    """Return all sums, and where they are in doubt; None where terms have too many bits.

    `sides` are the operands as patterns of binary32; see `dot_program.Dots.run` for the rest.
    """
    assert request.scales is not None
    if _is_native(request.accumulation):
        made = by_processor(request, x, y, sides, addends, share)
        if made is not None:
            return made
    how, (m, n) = request.accumulation, (len(sides[0]), len(sides[1]))
    found = [finite(side) for side in sides]
    spans = [span_of(words, fmt) for (words, _), fmt in zip(found, (request.x, request.y), strict=True)]
    count = (request.block - 1).bit_length()
    of_scales = sum(fmt.precision for fmt in request.scales if fmt.precision > 1)
    bits = sum(high - low for low, high in spans) + count
    numbers = [words.view(np.float32).astype(np.float64) for words, _ in found]
    cut = cut_in_slices(numbers[0], numbers[1], spans[0], spans[1], 53 - count, _SLICES)
    if cut is None or bits > _WIDEST:
        return None
    many = len(cut[0]) * len(cut[1])
    wide = many > 1 or bits + of_scales > _SHORT
    if wide and (bits + of_scales > 64 if many == 1 else of_scales):
        return None
    if wide and how.product is None and "pairwise" in (how.order.name, how.order.inner):
        return None
    kind = np.float32 if bits <= 24 else np.float64
    left, right = (
        _matrix(request, rows, fmt, parts, limits, words, kind, doubts)
        for rows, fmt, parts, limits, (words, doubts) in zip(
            (x, y), request.scales, cut, spans, found, strict=True
        )
    )
    doubts = found[0][1][:, None] | found[1][1]
    return _in_lanes(request, left, right, (m, n), addends, 2 if wide else 1, share), doubts


def _matrix(
    request: Dot, rows: Rows, fmt: Format, parts: list[Array], limits: tuple[int, int], words: Array,
    kind: Any, doubts: Array,
) -> Matrix:  # fmt: skip
    """Return one side in blocks; mark rows whose scales are not finite."""
    size, (count, length) = request.block, words.shape
    blocks = -(-length // size)

    def in_blocks(array: Array) -> Array:
        padded = np.zeros((count, blocks * size), kind)
        padded[:, :length] = array
        return np.ascontiguousarray(padded.reshape(count, blocks, size).swapaxes(0, 1))

    each = -(-max(1, limits[1] - limits[0]) // len(parts))
    units = [limits[0] + place * each for place in reversed(range(len(parts)))]
    scales = np.array(np.asarray(rows.scales).T, np.uint64, order="C")
    factors(scales.reshape(-1), reader(fmt))
    special = scales >> np.uint64(32) & np.uint64(6) != 0
    scales[special] = 0
    doubts |= special.any(axis=0)
    slices = [in_blocks(np.ldexp(part, -unit)) for part, unit in zip(parts, units, strict=True)]
    return Matrix(slices, units, scales, in_blocks(np.where(words >> 31, kind(-1), kind(1))))


def _by_tiles(
    shape: tuple[int, int], numbers: int, tile: Callable[[slice, slice], None], share: Share, cost: int
) -> None:
    """Call `tile` for rows and columns whose outputs take so many numbers each."""

    def part(start: int, stop: int) -> int:
        high = max(1, _TILE // (numbers * min(_COLUMNS, shape[1])))
        with usual_arithmetic():
            for row, column in itertools.product(range(start, stop, high), range(0, shape[1], _COLUMNS)):
                tile(slice(row, min(row + high, stop)), slice(column, min(column + _COLUMNS, shape[1])))
        return DONE

    share(part, shape[0], cost)


def _minus(left: Matrix, right: Matrix, some: slice, across: slice, downward: bool) -> Array:
    """Return whether sums that are zero are -0: if all their products are negative, or `downward` any."""
    elements = np.abs(left.signs[:, :1]).sum(axis=2, keepdims=True)
    signs = np.matmul(left.signs[:, some], right.signs[:, across].swapaxes(1, 2))
    return np.asarray(signs < elements if downward else signs == -elements)


def _is_native(how: Accumulation) -> bool:
    """Return whether the processor rounds as an accumulation does."""
    single = how.product == (SINGLE, DEFAULT) and how.accumulator == (SINGLE, DEFAULT)
    fused = how.product is None and how.accumulator in ((SINGLE, DEFAULT), (DOUBLE, DEFAULT))
    return how.addend == "first" and (
        (how.order == SEQUENTIAL and (single or fused)) or (how.order == PAIRWISE and single)
    )


def _in_lanes(
    request: Dot, left: Matrix, right: Matrix, shape: tuple[int, int], addends: Array, words: int,
    share: Share,
) -> Array:  # fmt: skip
    """Return sums in the format that they are kept in, as binary64 numbers."""
    how, size, length = request.accumulation, request.block, left.signs.shape[2] * left.signs.shape[0]
    kept = how.total or how.accumulator
    assert isinstance(kept, tuple)
    stages = lower_stages(how, request.addend).copy()
    target = lower_target(*as_it_is(kept))
    stages[Stages.OUTPUT, : target.size] = target
    params = lower_how(how, request.x, request.y, request.addend, request.scales, size)
    steps = additions(how.order, 0, True, False)
    by = kernel(is_usual_sum(how), True, False, words)
    term = how.product or how.accumulator
    downward = isinstance(term, tuple) and term[1].rounding.downward
    base = left.units[-1] + right.units[-1]
    shifts = np.array([x + y - base for x in left.units for y in right.units], np.int64)
    codes = np.empty(shape, np.uint64)

    def tile(some: slice, across: slice) -> None:
        made = codes[some, across]
        parts = np.empty((len(left.scales), shifts.size, made.size), np.int64)
        pairs = itertools.product(left.slices, right.slices)
        for place, (x, y) in enumerate(pairs):
            products = np.matmul(x[:, some], y[:, across].swapaxes(1, 2))
            parts[:, place] = products.reshape(len(products), -1)
        minus = np.zeros((len(parts), made.size), bool)
        if words > 1 or not parts.all():
            minus[...] = _minus(left, right, some, across, downward).reshape(minus.shape)
        out = np.empty(made.size, np.uint64)
        scales = (
            np.ascontiguousarray(side[:, rows])
            for side, rows in ((left.scales, some), (right.scales, across))
        )
        given = (
            np.ascontiguousarray(addends[some, across]).reshape(-1) if addends.size else addends.reshape(-1)
        )
        by(
            *scales, NO_SOURCES, Blocks(parts, shifts, base, minus), given, out, params, stages, steps,
            np.uint64(0), np.uint64(0), made.shape[1], False,
        )  # fmt: skip
        made[...] = out.reshape(made.shape)

    _by_tiles(shape, len(left.scales) * shifts.size, tile, share, shape[1] * length // 8)
    fmt = kept[0]
    numbers = codes if fmt == DOUBLE else converted(codes.astype(code_dtype(fmt)), fmt, DOUBLE, DEFAULT)
    return numbers.view(np.float64)
