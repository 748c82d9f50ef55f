"""Read a code, round, make a code: the only place among the kernels where a bit is discarded.

One loop serves every verb. Encoding reads binary32 or integers and makes codes; decoding reads
codes and makes binary32 or binary64, where nothing is left to round; a cast reads one format and
makes another. Formats and projections arrive as integers (`params`), so a new one compiles nothing.

Integers only: neither flush-to-zero nor the rounding mode of the process can change an answer.

Floor 2b. Imports numba through `jit`; never the oracle, which checks it.

Notation, beside IEEE 754-2019 clause 3.3 and the P3109 draft's RoundToPrecision:

    significand    integer below 2**64, exponent: of its last bit
    magnitude      the code without its sign; consecutive magnitudes are consecutive values
    tail           what rounding discards, in units of 2**-64 of the gap, never rounded down to 0
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.kernels.jit import bit_length, inlined, jit
from lowprec.kernels.params import REFUSED, Grid, Params, Side, Source

__all__ = ["convert", "convert_twice"]

Codes = npt.NDArray[np.unsignedinteger[Any]]

_U = np.uint64
_I = np.int64
_0, _1 = _U(0), _U(1)
_ONES = _U(0xFFFFFFFFFFFFFFFF)
_REFUSED = _U(REFUSED)

_SIDES, _SIDE = len(Grid._fields), len(Side._fields)
_FINITE, _INFINITY, _NAN = 0, 1, 2


@inlined
def load_source(words: Params) -> Source:
    """The words of a source, in locals."""
    return Source(
        words[0],
        words[1],
        words[2],
        words[3],
        words[4],
        words[5],
        words[6],
        words[7],
        words[8],
        words[9],
        words[10],
        _I(words[11]),
    )


@inlined
def load_grid(words: Params) -> Grid:
    """The grid of a target, in locals."""
    return Grid(words[0], words[1], words[2], _I(words[3]), _I(words[4]), _I(words[5]))


@inlined
def load_side(words: Params, negative: bool) -> Side:
    """What a target does with one sign. No branch: half of all operands would be guessed wrong."""
    i = _SIDES + (_SIDE if negative else 0)
    return Side(
        words[i],
        words[i + 1],
        words[i + 2],
        words[i + 3],
        words[i + 4],
        words[i + 5],
        words[i + 6],
        words[i + 7],
        words[i + 8],
        words[i + 9],
    )


@inlined
def read(code: np.uint64, source: Source) -> tuple[int, bool, np.uint64, np.int64]:
    """Class, sign, significand and exponent of what a code stands for."""
    code &= source.mask
    negative = code & source.sign != _0
    magnitude = code & ~source.sign
    if negative:
        if magnitude == _0 and source.not_a_zero != _0:
            return _NAN, False, _0, _I(0)
        if source.complement != _0:
            magnitude = (_0 - code) & source.mask
    if magnitude > source.max_magnitude:
        if magnitude == source.infinity:
            return _INFINITY, negative, _0, _I(0)
        return _NAN, negative and source.keeps_nan_sign != _0, _0, _I(0)
    field = (magnitude >> source.trailing_bits) & source.field_mask
    significand = magnitude & source.trailing_mask
    if field >= source.lowest:
        significand |= _1 << source.trailing_bits
    else:
        field = source.lowest
    return _FINITE, negative, significand, source.exponent + _I(field)


@inlined
def project(
    kind: int, negative: bool, significand: np.uint64, exponent: np.int64, grid: Grid, words: Params
) -> np.uint64:
    """The code of a real number: round, then saturate, then encode."""
    side = load_side(words, negative)
    if kind != _FINITE:
        return side.infinity if kind == _INFINITY else side.nan
    if significand == _0:
        return side.zero

    lead = exponent + bit_length(significand) - _I(1)
    magnitude, tail = side.max_magnitude, _ONES
    if lead <= grid.top:
        magnitude, tail = nearer_magnitude(significand, exponent, lead, grid)
        # Past the next code of the continued grid every tail counts as a full one.
        if magnitude > side.max_magnitude:
            magnitude, tail = side.max_magnitude, _ONES

    limit = (side.limit_odd & (_0 - (magnitude & _1))) | (side.limit_even & ((magnitude & _1) - _1))
    # Codes are ordered by value, so a carry out of the trailing bits into the exponent field is right.
    magnitude += _U(tail > limit)
    if magnitude > side.max_magnitude:
        return side.overflow
    if magnitude == _0:
        return side.rounded_zero
    if side.base == _REFUSED:
        return _REFUSED
    return (side.base + side.step * magnitude) & grid.mask


@inlined
def nearer_magnitude(
    significand: np.uint64, exponent: np.int64, lead: np.int64, grid: Grid
) -> tuple[np.uint64, np.uint64]:
    """The nearest magnitude not farther from zero, on the continued grid, and the tail."""
    binade = min(max(lead, grid.emin), grid.cap)
    shift = binade - _I(grid.trailing_bits) - exponent
    if shift <= _I(0):
        kept, tail = significand << _U(-shift), _0
    elif shift < _I(64):
        kept, tail = significand >> _U(shift), significand << _U(_I(64) - shift)
    else:
        below = _U(min(shift - _I(64), _I(63)))
        tail = significand >> below
        if tail << below != significand:
            tail |= _1
        kept = _0
    if kept < grid.hidden:  # below the smallest value of a format without zero
        return _0, _0
    return kept - grid.hidden + (_U(binade - grid.emin) << grid.trailing_bits), tail


@jit
def convert(codes: Codes, source_words: Params, out: Codes, target_words: Params) -> tuple[int, int]:
    """Write to `out` what `codes` become; count the refused operands and find the first.

    `codes` and `out` are one-dimensional, of the same size, and do not overlap.
    """
    source, grid = load_source(source_words), load_grid(target_words)
    refused, first = 0, -1
    for i in range(codes.size):
        kind, negative, significand, exponent = read(_U(codes[i]), source)
        code = project(kind, negative, significand, exponent, grid, target_words)
        if code == _REFUSED:
            refused += 1
            if first < 0:
                first = i
        else:
            out[i] = code
    return refused, first


@jit
def convert_twice(
    codes: Codes, source_words: Params, target_words: Params, read_words: Params, out: Codes, out_words: Params
) -> tuple[int, int]:
    """As `convert` to a target and from it, without the codes in between.

    `read_words` reads the target's codes; `out_words` makes a type that holds them all.
    """
    source, grid = load_source(source_words), load_grid(target_words)
    reader, carrier = load_source(read_words), load_grid(out_words)
    refused, first = 0, -1
    for i in range(codes.size):
        kind, negative, significand, exponent = read(_U(codes[i]), source)
        code = project(kind, negative, significand, exponent, grid, target_words)
        if code == _REFUSED:
            refused += 1
            if first < 0:
                first = i
        else:
            kind, negative, significand, exponent = read(code, reader)
            out[i] = project(kind, negative, significand, exponent, carrier, out_words)
    return refused, first
