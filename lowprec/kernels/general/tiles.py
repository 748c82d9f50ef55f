"""Tiles of outputs of dot products, in 64-bit lanes: their factors, sums and random integers.

Floor 2b. Imports numba through `jit`; never the oracle, which checks it.

Notation:

    tile    a range of outputs; its words are rows of TILE: factors, numbers, random integers
    stage   where numbers are kept: how they are projected, and how they are read back
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lowprec.kernels.general.numbers import Lane, pick, read
from lowprec.kernels.general.operations import Outcome
from lowprec.kernels.general.rounding import Target, drawn_limit, project, project_usual
from lowprec.kernels.jit import helper, inlined, jit, load_record
from lowprec.kernels.lower.records import Grid, Params, Source
from lowprec.kernels.random import philox_fill
from lowprec.kernels.vector.ir.longs import LONGS

__all__ = [
    "FACTOR_BITS",
    "LOWER",
    "NO_BLOCKS",
    "NO_SOURCES",
    "NUMBERS",
    "RANDOM_ROOM",
    "ROOM",
    "SUMS",
    "TERMS",
    "TILE",
    "X",
    "Y",
]
__all__ += ["Blocks", "Tile", "coder", "copy", "draw", "factor", "factors", "gather", "load", "open_sums"]
__all__ += ["store"]

Words = npt.NDArray[Any]  #: of uint64

_U = np.uint64
_I = np.int64
_0, _1, _2, _3, _4, _32, _40 = _U(0), _U(1), _U(2), _U(3), _U(4), _U(32), _U(40)
_LOW = _U((1 << 32) - 1)

#: Outputs per tile; its words fit the nearest cache.
TILE = 256

#: Where the words of a tile have both factors, sums and terms in three rows each, and lower words of terms.
X, Y, SUMS, TERMS, LOWER, RANDOM = (row * TILE for row in (0, 1, 2, 5, 8, 9))
NUMBERS = 3 * TILE

#: Words of a tile, and random integers that are drawn together.
ROOM, RANDOM_ROOM = RANDOM + TILE, TILE + 4 * LONGS

#: Bits of a significand in a word of `factors`.
FACTOR_BITS = 32

_BITS = Grid._fields.index("bits")


class Blocks(NamedTuple):
    """Sums of products of blocks: those of `parts[k]`, integers shifted up by `shifts`, times 2**base."""

    parts: Any  #: int64, shape (blocks, numbers in a sum, outputs); empty where there are no blocks
    shifts: Any
    base: Any
    minus: Any  #: whether a sum that is zero is -0, shape (blocks, outputs)


class Tile(NamedTuple):
    """A range of outputs, and what they are made with."""

    x: Words  #: factors, or scales of blocks, shape (K, rows); see `factors`
    y: Words
    blocks: Blocks
    words: Words
    waiting: Words  #: sums in pairs without a partner yet
    room: Any  #: of random integers
    start: Any
    count: Any
    columns: Any
    paired: Any  #: whether output i has row i of both sides
    element: Any  #: the number of the first output, on which random integers depend
    key: Any


@inlined
def load(words: Words, place: int, i: int) -> Lane:
    """Return a number of a tile."""
    marks = words[_U(place + 2 * TILE + i)]
    negative, infinite, nan = marks & _1 != _0, marks & _2 != _0, marks & _4 != _0
    significand, exponent = words[_U(place + i)], _I(words[_U(place + TILE + i)])
    return Lane(negative, significand, exponent, infinite, nan, False, False)


@inlined
def store(words: Words, place: int, i: int, x: Lane) -> None:
    """Write a number of a tile: its significand, its exponent, and what else it is."""
    words[_U(place + i)], words[_U(place + TILE + i)] = x.significand, _U(x.exponent)
    words[_U(place + 2 * TILE + i)] = _U(x.negative) | _U(x.infinite) << _1 | _U(x.nan) << _2


@helper
def copy(words: Words, start: int, into: Words, place: int) -> None:
    """Copy the numbers of a tile."""
    for i in range(NUMBERS):
        into[_U(place + i)] = words[_U(start + i)]


@jit
def factors(codes: Words, source_words: Params) -> bool:
    """Replace codes by words: significand, marks as of `store`, exponent; return whether all are finite."""
    source, special = load_record(Source, source_words, 0), False
    for i in range(codes.size):
        x = read(codes[i], source, False)
        marks = _U(x.negative) | _U(x.infinite) << _1 | _U(x.nan) << _2
        codes[i] = pick(x.nan, _1, x.significand) | marks << _32 | _U(x.exponent) << _40
        special |= x.infinite | x.nan
    return not special


@inlined
def factor(word: np.uint64, finite: bool) -> Lane:
    """Return the number of a word."""
    negative, infinite, nan = word >> _32 & _1 != _0, word >> _32 & _2 != _0, word >> _32 & _4 != _0
    significand, exponent = word & _LOW, _I(word) >> _I(40)
    return Lane(negative, significand, exponent, (not finite) & infinite, (not finite) & nan, False, False)


@helper
def gather(tile: Tile, k: int) -> None:
    """Write both factors of product k of each output."""
    words, x, y = tile.words, tile.x[k], tile.y[k]
    if tile.paired:
        for i in range(tile.count):
            at = _U(tile.start + i)
            words[_U(X + i)], words[_U(Y + i)] = x[at], y[at]
        return
    row, column, done = tile.start // tile.columns, tile.start % tile.columns, 0
    while done < tile.count:
        some, left = min(tile.columns - column, tile.count - done), x[row]
        for i in range(some):
            words[_U(X + done + i)], words[_U(Y + done + i)] = left, y[_U(column + i)]
        row, column, done = row + 1, 0, done + some


@helper
def draw(tile: Tile, step: int, stage: Params) -> None:
    """Write the random integers of rounding `step` of each output, if the stage rounds stochastically."""
    bits = stage[_BITS]
    if bits == _0:
        return
    skipped = _I(tile.element & _3)
    philox_fill(tile.room, tile.element - _U(skipped), tile.key, _U(step) + _2)
    for i in range(tile.count):
        tile.words[_U(RANDOM + i)] = _U(tile.room[_U(skipped + i)]) >> (_32 - bits)


@helper
def open_sums(tile: Tile, place: int, addends: Words, source_words: Params) -> None:
    """Write addends as numbers; zeros where there are none."""
    for i in range(NUMBERS):
        tile.words[_U(place + i)] = _0
    if addends.size != 0:
        source = load_record(Source, source_words, 0)
        for i in range(tile.count):
            store(tile.words, place, i, read(addends[_U(tile.start + i)], source, False))


@functools.cache
def coder(usual: bool, stochastic: bool) -> Any:
    """Return the function that projects the result of output i of a tile to a code of a stage."""
    place = project_usual if usual else project

    @inlined
    def code_of(found: Outcome, words: Words, i: int, target: Target) -> np.uint64:
        code, _ = place(found.made, found.invalid, _0, target, False, not usual)
        if stochastic:
            limit = drawn_limit(words[_U(RANDOM + i)], target.grid)
            drawn, _ = place(found.made, found.invalid, limit, target, True, not usual)
            code = pick(target.grid.bits != _0, drawn, code)
        return code

    return code_of


#: What kernels of factors that are no codes are given, and those of factors in no blocks.
NO_SOURCES = np.zeros((2, len(Source._fields)), np.uint64)
NO_BLOCKS = Blocks(np.empty((0, 1, 0), np.int64), np.zeros(1, np.int64), 0, np.empty((0, 0), np.bool_))
