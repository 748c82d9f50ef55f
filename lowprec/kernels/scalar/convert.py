"""Read a code, round, make a code, one element at a time: the end of every scalar kernel.

It serves results in codebooks, functions, dot products and operations on numbers of too many bits for 64-bit
lanes; `general` serves all others. Formats and projections arrive as integers
(`lower.scalar`), so a new one compiles nothing.

Integers only: neither flush-to-zero nor the rounding mode of the process can change an answer.

Floor 2b. Imports numba through `jit`; never the oracle, which checks it.

Notation, beside IEEE 754-2019 clause 3.3 and the P3109 draft's RoundToPrecision:

    significand    integer below 2**64, exponent: of its last bit
    magnitude      the code without its sign; consecutive magnitudes are consecutive values
    tail           what rounding discards, as in `rounding`
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.kernels.general.numbers import word_product
from lowprec.kernels.general.rounding import drawn_limit
from lowprec.kernels.jit import bit_length, helper, inlined, jit, load_record
from lowprec.kernels.lower.codebook import FAR, Place
from lowprec.kernels.lower.kinds import FINITE, FLUSHED, GENERATED, INFINITY, NAN, SIGNALING
from lowprec.kernels.lower.scalar import REFUSED, Grid, Params, Side, Source
from lowprec.kernels.scalar.rounding import (
    cut_payload,
    limit_after,
    shifted_down,
    split,
    takes_farther,
)
from lowprec.spec.projection import Flag

__all__ = ["convert_to_codebook"]

Codes = npt.NDArray[np.unsignedinteger[Any]]
Words = npt.NDArray[np.uint32]
Flags = npt.NDArray[np.uint8]

_U = np.uint64
_I = np.int64
_0, _1, _2, _63 = _U(0), _U(1), _U(2), _U(63)
_ONES = _U(0xFFFFFFFFFFFFFFFF)
_REFUSED = _U(REFUSED)

_FAR = _I(FAR)
_WORDS, _CODE = len(Place._fields), Place._fields.index("code")
_SIDES, _SIDE = len(Grid._fields), len(Side._fields)
_INEXACT, _UNDERFLOW, _OVERFLOW, _INVALID = (
    _U(flag) for flag in (Flag.INEXACT, Flag.UNDERFLOW, Flag.OVERFLOW, Flag.INVALID)
)


@inlined
def load_source(words: Params) -> Source:
    """Return the words of a source, in locals."""
    return load_record(Source, words, 0)


@inlined
def load_grid(words: Params) -> Grid:
    """Return the grid of a target, in locals."""
    return load_record(Grid, words, 0)


@inlined
def load_side(words: Params, negative: bool) -> Side:
    """Return what a target does with one sign. No branch: half of all operands would be guessed wrong."""
    return load_record(Side, words, _SIDES + (_SIDE if negative else 0))


@inlined
def read(code: np.uint64, source: Source) -> tuple[int, bool, np.uint64, np.int64]:
    """Class, sign, significand and exponent of a code's value; of a NaN its payload, from bit 63 down."""
    code &= source.mask
    negative = code & source.sign != _0
    magnitude = code & ~source.sign
    if negative:
        if magnitude == _0 and source.not_a_zero != _0:
            return NAN, False, _0, _I(0)
        if source.complement != _0:
            magnitude = (_0 - code) & source.mask
    if magnitude > source.max_magnitude:
        if magnitude == source.infinity:
            return INFINITY, negative, _0, _I(0)
        kind = NAN if magnitude & source.quiet != _0 else SIGNALING
        payload = (magnitude << _1) << (_63 - source.payload)
        return kind, negative and source.keeps_nan_sign != _0, payload, _I(0)
    field = (magnitude >> source.trailing_bits) & source.field_mask
    significand = magnitude & source.trailing_mask
    if field >= source.lowest:
        significand |= _1 << source.trailing_bits
    else:
        if source.flush != _0 and significand != _0:
            return FLUSHED, negative, _0, _I(0)
        field = source.lowest
    return FINITE, negative, significand, source.exponent + _I(field)


@inlined
def is_tiny(
    significand: np.uint64,
    low: np.uint64,
    exponent: np.int64,
    lead: np.int64,
    random: np.uint64,
    grid: Grid,
    side: Side,
) -> bool:
    """Return whether a number below the smallest normal one is tiny, before rounding or after."""
    if lead < grid.surely:
        return True
    shift = lead - _I(grid.trailing_bits) - exponent
    kept, tail = split(significand, low, shift)
    highest = (_U(2) << grid.trailing_bits) - _1
    if kept != highest:
        return True
    # On the continued grid the code is kept - 2**trailing_bits: even where there are no trailing bits.
    odd = _U(grid.trailing_bits != _0)
    return not takes_farther(tail, odd, random, grid, side)


@inlined
def passes(high: np.uint64, low: np.uint64, exponent: np.int64, at: Place) -> bool:
    """Return whether a number goes on to the next place."""
    step_exponent = _I(at.step_exponent)
    if exponent != step_exponent:
        return bool(exponent > step_exponent)
    if high != at.step:
        return bool(high > at.step)
    return bool(low > at.step_low or (low == at.step_low and at.passes != _0))


@helper
def is_farther(high: np.uint64, low: np.uint64, exponent: np.int64, limit: np.uint64, at: Place) -> bool:
    """Return whether the share of a number's distance to the value below in the gap is above a limit."""
    first, second, third = high, low, _0
    if high != _0:
        first, second, third = shifted_down(high, low, _I(at.unit) - exponent)
    first -= at.low + _U(second < at.low_rest)
    second -= at.low_rest
    # The limit times the gap; limits that are odd count as one more, which is taken too.
    taken = limit & _1
    by_first, by_second = word_product(at.gap, limit + taken)
    more, by_third = word_product(at.gap_rest, limit + taken)
    by_second += more
    by_first += _U(by_second < more)
    if limit == _ONES or first != by_first:
        return bool(limit != _ONES and first > by_first)
    if second != by_second:
        return bool(second > by_second)
    return bool(third > by_third or (third == by_third and taken != _0))


@helper
def on_ray(
    significand: np.uint64,
    low: np.uint64,
    exponent: np.int64,
    random: np.uint64,
    grid: Grid,
    side: Side,
    words: Params,
) -> tuple[np.uint64, np.uint64]:
    """Return the code of a number in a codebook, and what it signals."""
    up = _I(64) - bit_length(significand | _1)
    high, exponent = significand << _U(up), _FAR if significand == _0 else exponent - up
    last = _I(side.max_magnitude)
    start, end = _I(0), last + _I(1)
    while start < end:  # the first place whose step is not passed
        middle = (start + end) >> _I(1)
        if passes(high, low, exponent, load_record(Place, words, _I(side.first) + middle * _WORDS)):
            start = middle + _I(1)
        else:
            end = middle
    exact = below = False
    code = side.rounded_zero
    if start <= last:
        at = load_record(Place, words, _I(side.first) + start * _WORDS)
        place, code = _I(at.exponent), at.code
        exact = bool(high == at.size and low == _0 and exponent == place and at.other == _0)
        below = bool(start == _I(0) and at.size != _0 and at.other == _0 and not exact)
        below = below and bool(exponent < place or (exponent == place and high < at.size))
        if grid.bits != _0 and not exact and not below and (at.gap != _0 or at.gap_rest != _0):
            if is_farther(high, low, exponent, drawn_limit(random, grid), at):
                start += _I(1)
                code = words[_I(side.first) + min(start, last) * _WORDS + _CODE]
    if start > last:
        return side.overflow, instead(side.negative_invalid, _OVERFLOW | _INEXACT)
    flags = (_INEXACT | _UNDERFLOW) if below else _U(not exact) * _INEXACT
    if code == side.rounded_zero and not below and start == _I(0) and not exact:
        return code, flags
    if side.base == _REFUSED:
        return _REFUSED, flags
    return code if side.step != _0 else side.base, instead(side.negative_invalid, flags)


@inlined
def project(
    kind: int,
    negative: bool,
    significand: np.uint64,
    low: np.uint64,
    exponent: np.int64,
    random: np.uint64,
    grid: Grid,
    words: Params,
) -> tuple[np.uint64, np.uint64]:
    """Return the code of a real number, and what it signals: round, then saturate, then encode.

    `low` are 64 bits more of a significand that fills 64, the last one set if any follow; else 0.
    """
    side = load_side(words, negative)
    between = grid.rays == _2  # zero lies between two values
    if kind != FINITE and not (between and kind == FLUSHED):
        if kind == INFINITY:
            return side.infinity, side.infinity_invalid
        if kind == FLUSHED:
            return side.zero, side.zero_invalid | _INEXACT
        if kind == GENERATED:
            return side.nan, _INVALID
        if kind != NAN and kind != SIGNALING:
            raise ValueError("a kind of operand without a branch")
        return side.carried | cut_payload(
            significand, grid.payload
        ), side.nan_invalid if kind == NAN else _INVALID
    if significand == _0:
        if not between:
            return side.zero, side.zero_invalid
        side = load_side(words, False)
    if grid.rays != _0:
        return on_ray(significand, low, exponent, random, grid, side, words)

    lead = exponent + bit_length(significand) - _I(1)
    magnitude, tail, beyond, below = side.max_magnitude, _ONES, True, False
    if lead <= grid.top:
        magnitude, tail, below = nearer_magnitude(significand, low, exponent, lead, grid)
        # Past the next code of the continued grid every tail counts as a full one.
        beyond = magnitude > side.max_magnitude
        if beyond:
            magnitude, tail = side.max_magnitude, _ONES

    flags = _U(tail != _0) * _INEXACT
    if below:
        flags = _INEXACT | _UNDERFLOW
    if grid.bits == _0:
        farther = bool(tail > limit_after(magnitude, grid, side))
    else:
        farther = beyond or takes_farther(tail, magnitude & _1, random, grid, side)
    judged = grid.before == _1 or (grid.before != _0 and lead >= grid.top)
    if judged and magnitude == side.max_magnitude and tail != _0:
        beyond = farther = True
    past = magnitude + _U(farther) > side.max_magnitude
    over = beyond or past
    # A format may have no normal numbers: then what is tiny may lie beyond its largest number.
    if (
        lead < grid.tiny
        and (not over or (grid.flush != _0 and not past))
        and (flags != _0 or grid.flush != _0)
    ):
        if is_tiny(significand, low, exponent, lead, random, grid, side):
            flags |= _U(flags != _0) * _UNDERFLOW
            if grid.flush != _0:
                return side.rounded_zero, _INEXACT | (_OVERFLOW if over else _UNDERFLOW)
    # Codes are ordered by value, so a carry out of the trailing bits into the exponent field is right.
    magnitude += _U(farther)
    if over:
        flags |= _OVERFLOW | _INEXACT
        if magnitude > side.max_magnitude:
            return side.overflow, instead(side.negative_invalid, flags)
    if magnitude == _0 and grid.hidden == _0 and grid.shared == _0:
        return side.rounded_zero, flags
    if side.base == _REFUSED:
        return _REFUSED, flags
    return (side.base + side.step * magnitude) & grid.mask, instead(side.negative_invalid, flags)


@inlined
def instead(invalid: np.uint64, flags: np.uint64) -> np.uint64:
    """INVALID where the operation is invalid: IEEE 754 signals nothing beside it."""
    return invalid if invalid != _0 else flags


@inlined
def nearer_magnitude(
    significand: np.uint64, low: np.uint64, exponent: np.int64, lead: np.int64, grid: Grid
) -> tuple[np.uint64, np.uint64, bool]:
    """Return the nearest magnitude toward zero on the continued grid, the tail, and whether there is none."""
    # Fixed point has one grid: no value that gets here has a larger exponent than emin.
    binade = max(lead, grid.emin)
    kept, tail = split(significand, low, binade - _I(grid.trailing_bits) - exponent)
    if kept < grid.hidden:  # below the smallest value of a format without zero: that is what it becomes
        return _0, _0, True
    return kept - grid.hidden + (_U(binade - grid.emin) << grid.trailing_bits), tail, False


@jit
def convert_to_codebook(
    codes: Codes, source_words: Params, out: Codes, target_words: Params, random: Words, flags: Flags
) -> tuple[int, int]:
    """Write to `out` what `codes` become; count the refused operands and find the first.

    `codes` and `out` are one-dimensional, of the same size, and do not overlap. `random` is of that
    size too for stochastic modes, `flags` if they are wanted; otherwise they are empty.
    """
    source, grid = load_source(source_words), load_grid(target_words)
    refused, first = 0, -1
    stochastic, signals = random.size > 0, flags.size > 0
    for i in range(codes.size):
        kind, negative, significand, exponent = read(_U(codes[i]), source)
        word = _U(random[i]) if stochastic else _0
        code, flag = project(kind, negative, significand, _0, exponent, word, grid, target_words)
        if code == _REFUSED:
            refused += 1
            if first < 0:
                first = i
            continue
        out[i] = code
        if signals:
            flags[i] = flag
    return refused, first
