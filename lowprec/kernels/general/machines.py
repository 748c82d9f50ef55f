"""Matrix cores whose steps are aligned twice, in 64-bit lanes: CDNA3.

Products are cut in units of the largest exponent of theirs, summed, and then aligned to the running sum.

Floor 2b. Imports numba through `jit`; never the oracle, which checks it. Source: [MMASIM].

Notation, beside that of `windows`:

    dot    the sum of the products of a step, and the exponent that they are aligned to
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.kernels.general.numbers import pick, zeros_above
from lowprec.kernels.general.rounding import cut, floored
from lowprec.kernels.general.sums import closing
from lowprec.kernels.general.tiles import (
    NUMBERS,
    RANDOM_ROOM,
    SUMS,
    TILE,
    Tile,
    X,
    draw,
    gather,
    load,
    open_sums,
)
from lowprec.kernels.general.windows import (
    EXPONENT,
    MINUS,
    NAN,
    NOTHING,
    PLUS,
    ROWS,
    SEEN,
    TOTAL,
    add,
    align,
    closer,
    pair_at,
)
from lowprec.kernels.jit import helper, in_wide_vectors, jit
from lowprec.kernels.lower.dot import SOURCE, How, Stages
from lowprec.kernels.lower.kinds import CUT_DOWN
from lowprec.kernels.lower.records import Params

__all__ = ["kernel"]

Words = npt.NDArray[Any]  #: of uint64

_U = np.uint64
_I = np.int64
_0 = _U(0)

#: Of binary32: bits behind the point, and the exponent of its smallest normal number.
_TRAILING_BITS, _EMIN = _I(23), _I(-126)
#: Bits kept behind the point of a step's sum; of products and of the running sum they are FRACTION_BITS.
_SUM_BITS = _I(31)

_DOT, _DOT_EXPONENT = ROWS, ROWS + TILE


@helper
def begin(tile: Tile) -> None:
    """Begin a step without products."""
    for i in range(tile.count):
        tile.words[_U(SEEN + i)] = tile.words[_U(_DOT + i)] = _0
        tile.words[_U(_DOT_EXPONENT + i)] = _U(NOTHING)


@helper
def open_products(tile: Tile) -> None:
    """Begin a sum of products that are aligned to each other."""
    for i in range(tile.count):
        tile.words[_U(TOTAL + i)], tile.words[_U(EXPONENT + i)] = _0, _U(NOTHING)


@helper
def see_overflow(tile: Tile, how: Params) -> None:
    """See products that are too large as infinities."""
    in_wide_vectors()
    words, top = tile.words, how[How.TOP]
    for i in range(tile.count):
        product = pair_at(words, i)
        lead = product.exponent + _I(63) - zeros_above(product.significand)
        over = (product.significand != _0) & (lead >= top)
        words[_U(SEEN + i)] |= pick(over, pick(product.negative, MINUS, PLUS), _0)


@helper
def join_products(tile: Tile) -> None:
    """Add the sum of products to the others of its step, in units of the larger exponent of both."""
    in_wide_vectors()
    words = tile.words
    for i in range(tile.count):
        ours, theirs = _I(words[_U(_DOT_EXPONENT + i)]), _I(words[_U(EXPONENT + i)])
        both = max(ours, theirs)
        sum_ = floored(_I(words[_U(_DOT + i)]), both - ours) + floored(
            _I(words[_U(TOTAL + i)]), both - theirs
        )
        words[_U(_DOT + i)], words[_U(_DOT_EXPONENT + i)] = _U(sum_), _U(both)


@helper
def join_sum(tile: Tile, how: Params, drops: bool) -> None:
    """Add the dot and the running sum, both rounded down; if that `drops` out, it is zero where far below."""
    in_wide_vectors()
    words, bits = tile.words, how[How.FRACTION_BITS]
    more = _SUM_BITS + _I(1) - bits
    for i in range(tile.count):
        c, exponent = load(words, SUMS, i), _I(words[_U(_DOT_EXPONENT + i)])
        own = pick(c.significand == _0, _EMIN, c.exponent + _TRAILING_BITS)
        both = max(exponent, own)
        counts = (not c.nan) & (not c.infinite) & ((not drops) | (own >= both - bits - _I(1)))
        size = cut(c.negative, pick(counts, c.significand, _0), both - bits - c.exponent, CUT_DOWN)
        sum_: Any = floored(_I(words[_U(_DOT + i)]), both - exponent - more) + (size << more)
        unit, negative = both - _SUM_BITS - _I(1), sum_ < _I(0)
        significand = _U(pick(negative, -sum_, sum_))
        last = max(unit + _I(63) - zeros_above(significand), _EMIN) - _SUM_BITS  # behind its own leading bit
        down = max(last - unit, _I(0))
        words[_U(TOTAL + i)] = _U(cut(negative, significand, down, CUT_DOWN))
        words[_U(EXPONENT + i)] = _U(unit + down + bits)
        seen = pick(c.infinite, pick(c.negative, MINUS, PLUS), _0)
        words[_U(SEEN + i)] |= pick(c.nan, NAN, seen)


@functools.cache
def kernel(stochastic: bool) -> Any:
    """Return the kernel of the machine for such modes of the output; see `windows.kernel`.

    Called as kernel(x, y, blocks, addends, out, how, stages, key, first, columns, paired).
    """
    close, (_, settle) = closer(stochastic), closing(False, stochastic)

    def run(
        x: Words, y: Words, blocks: Any, addends: Words, out: Words, how: Params, stages: Words,
        key: np.uint64, first: np.uint64, columns: int, paired: bool,
    ) -> None:  # fmt: skip
        length, size, apart = x.shape[0], how[How.WINDOW], 1 + how[How.ALTERNATE]
        words, room = np.zeros(ROWS + 2 * TILE, np.uint64), np.empty(RANDOM_ROOM, np.uint32)
        sums = np.empty(NUMBERS, np.uint64)
        for place in range(0, out.size, TILE):
            count = min(out.size - place, TILE)
            tile = Tile(
                x, y, blocks, words, sums, room, place, count, columns, paired, first + _U(place), key
            )
            open_sums(tile, SUMS, addends, stages[Stages.SUM, SOURCE:])
            for start in range(0, length, size):
                begin(tile)
                for each in range(apart):
                    open_products(tile)
                    for k in range(start + each, min(start + size, length), apart):
                        gather(tile, k)
                        align(tile, how)
                        see_overflow(tile, how)
                    for k in range(start + each, min(start + size, length), apart):
                        gather(tile, k)
                        add(tile, how)
                    join_products(tile)
                join_sum(tile, how, apart == 2)
                close(tile, how, stages[Stages.SUM])
            draw(tile, 0, stages[Stages.OUTPUT])
            settle(words, count, stages[Stages.OUTPUT])
            for i in range(count):
                out[_U(place + i)] = words[_U(X + i)]

    return jit(run, f"machine_{stochastic:d}")
