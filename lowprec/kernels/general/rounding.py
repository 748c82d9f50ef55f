"""Round, saturate and encode a number, in 64-bit lanes without a branch: the place where bits are discarded.

Floor 2b. Imports numba through `jit`; never the oracle, which checks it.

Notation, beside that of `numbers`:

    magnitude    the code without its sign; consecutive magnitudes are consecutive values
    tail         what rounding discards, in units of 2**-64 of the gap to the next magnitude
    limit        the farther magnitude is taken where the tail is above it
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from lowprec.kernels.general.numbers import Lane, pick, zeros_above
from lowprec.kernels.jit import inlined, load_record
from lowprec.kernels.lower.kinds import CUT_DOWN, CUT_TO_NEAREST, CUT_TO_ODD, CUT_TO_ZERO
from lowprec.kernels.lower.records import REFUSED, Grid, Params, Side
from lowprec.spec.projection import Flag

__all__ = [
    "MOST",
    "MOST_EXPONENT",
    "Target",
    "cut",
    "drawn_limit",
    "floored",
    "limit_of",
    "load_target",
    "long_shifted",
]
__all__ += ["project", "project_usual", "shifted", "split", "to_odd", "to_single"]

Word = Any

_U = np.uint64
_I = np.int64
_0, _1, _2, _11, _52, _63, _64 = _U(0), _U(1), _U(2), _U(11), _U(52), _U(63), _U(64)
_TOP, _ONES = _U(1 << 63), _U((1 << 64) - 1)
_REFUSED = _U(REFUSED)
_INEXACT, _UNDERFLOW, _OVERFLOW, _INVALID = (
    _U(flag) for flag in (Flag.INEXACT, Flag.UNDERFLOW, Flag.OVERFLOW, Flag.INVALID)
)
#: The largest binary32 number, and the exponents of its last bit and of the smallest number's.
MOST, MOST_EXPONENT, _SMALLEST_EXPONENT = _U((1 << 24) - 1), _I(104), _I(-149)
#: Words of binary64: a subnormal number, a large one, infinity and NaN.
_SUBNORMAL, _ALMOST = _U(1 << 51), _U((0x7FF << 52) - (1 << 51))
_INFINITY, _QUIET = _U(0x7FF << 52), _U(0x7FF8 << 48)
_SIDES, _SIDE = len(Grid._fields), len(Side._fields)


class Target(NamedTuple):
    """Parameters of a projection: the grid, and its rules for positive and for negative numbers."""

    grid: Word
    plus: Word
    minus: Word


@inlined
def load_target(words: Params) -> Target:
    """Return the words of a target, in locals."""
    grid = load_record(Grid, words, 0)
    return Target(grid, load_record(Side, words, _SIDES), load_record(Side, words, _SIDES + _SIDE))


@inlined
def split(word: np.uint64, shift: np.int64, to_the_bit: bool) -> tuple[np.uint64, np.uint64]:
    """Split a word with bit 63 set at bit `shift`, at least 1: what lies above, and the tail below.

    A tail far below half of the gap is 1, except `to_the_bit`; the word is not zero then.
    """
    kept = pick(shift < _I(64), word >> _U(shift), _0)
    far = _1
    if to_the_bit:
        down = _U(max(min(shift - _I(64), _I(63)), _I(0)))
        far = word >> down
        far |= _U(far << down != word)
    return kept, pick(shift <= _I(64), word << _U(_I(64) - shift), far)


@inlined
def shifted(word: np.uint64, shift: np.int64) -> np.uint64:
    """Shift a word down by any number of bits, not negative; the last bit says if any bit is lost."""
    down = _U(min(shift, _I(63)))
    kept = word >> down
    return kept | _U(kept << down != word)


@inlined
def long_shifted(high: np.uint64, low: np.uint64, shift: np.int64) -> tuple[np.uint64, np.uint64]:
    """Shift two words down by any number of bits, not negative; the last bit says if any bit is lost."""
    near, down = shift < _I(64), _U(shift & _I(63))
    up = (_64 - down) & _63
    crossing = pick(down == _0, _0, high << up)
    kept_low = pick(near, low >> down | crossing, pick(shift < _I(128), high >> down, _0))
    below = pick(down == _0, _0, low << up)
    far = (low != _0) | (pick(shift < _I(128), crossing, high) != _0)
    lost = pick(near, below != _0, far)
    return pick(near, high >> down, _0), kept_low | _U(lost)


@inlined
def cut(negative: bool, significand: np.uint64, shift: np.int64, by: Any) -> np.int64:
    """Cut a significand to units of its bit `shift`, with a sign, in one of the ways of `Cut`."""
    up, down = _U(max(min(-shift, _I(63)), _I(0))), _U(min(max(shift, _I(0)), _I(63)))
    far = shift > _I(63)
    size = pick(far, _0, (significand << up) >> down)
    if by != CUT_TO_ZERO:
        lost = _U((shift > _I(0)) & (far | (size << down != significand)) & (significand != _0))
        half = pick(shift > _I(64), _0, significand >> _U(max(min(shift, _I(64)), _I(1)) - _I(1)) & _1)
        size |= lost * _U(by == CUT_TO_ODD)
        size += lost * _U(negative) * _U(by == CUT_DOWN)
        size += half * _U((by == CUT_TO_NEAREST) & (shift > _I(0)))
    return pick(negative, -_I(size), _I(size))


@inlined
def floored(size: np.int64, shift: np.int64) -> np.int64:
    """Return an integer in units of 2**shift, rounded down; exactly where the shift is negative."""
    return pick(shift <= _I(0), size << max(-shift, _I(0)), size >> max(min(shift, _I(63)), _I(0)))


@inlined
def to_single(significand: np.uint64, exponent: np.int64) -> tuple[np.uint64, np.int64]:
    """Round a number to binary32, to nearest even; overflow gives the largest finite number."""
    up = zeros_above(significand)
    lead = exponent - up
    place = max(lead + _I(40), _SMALLEST_EXPONENT)
    kept, tail = split(significand << _U(up), place - lead, False)
    kept += _U((tail > _TOP) | ((tail == _TOP) & (kept & _1 != _0)))
    beyond = (place > MOST_EXPONENT) | ((place == MOST_EXPONENT) & (kept > MOST))
    beyond &= significand != _0
    kept = pick(significand == _0, _0, pick(beyond, MOST, kept))
    return kept, pick(beyond, MOST_EXPONENT, place)


@inlined
def to_odd(
    x: Lane, generated: bool, drawn: np.uint64, target: Target, stochastic: bool, signals: bool
) -> tuple[np.uint64, np.uint64]:
    """Return the word of a number in binary64, rounded to odd, and the flags of a NaN.

    All numbers below the smallest normal one are one subnormal number; all above the largest are that, or
    almost.
    """
    up = zeros_above(x.significand)
    significand = x.significand << _U(up)
    field = x.exponent - up + _I(1023 + 63)
    word = significand >> _11
    word |= _U(word << _11 != significand)
    word += _U(field - _I(1)) << _52
    word = pick(field < _I(1), _SUBNORMAL, pick(field > _I(2046), _ALMOST, word))
    word = pick(x.significand == _0, _0, word)
    word = pick(x.nan, _QUIET, pick(x.infinite, _INFINITY, word))
    flags = pick(x.nan & (generated | x.signaling), _INVALID, _0)
    return word | _U(x.negative) << _63, flags


@inlined
def limit_of(negative: bool, odd: np.uint64, target: Target) -> np.uint64:
    """Return the limit of a deterministic mode for a sign, and an odd or even magnitude."""
    plus, minus = target.plus, target.minus
    return pick(
        negative,
        pick(odd != _0, minus.limit_odd, minus.limit_even),
        pick(odd != _0, plus.limit_odd, plus.limit_even),
    )


@inlined
def drawn_limit(random: np.uint64, grid: Grid) -> np.uint64:
    """Return the limit that a random integer stands for; see `lowprec.stochastic`."""
    bits, variant = grid.bits, grid.variant
    unit, half = _1 << ((_64 - bits) & _63), _1 << (_63 - bits)
    rest = (_1 << bits) - random  # the least share that is rounded away from zero, in units
    share = rest * unit - _1
    by_half = (_2 * rest - _1) * half - _1
    to_even = rest * unit - half - (_1 - (rest & _1))
    return pick(variant == _0, share, pick(variant == _1, by_half, to_even))


@inlined
def project(
    x: Lane, generated: bool, drawn: np.uint64, target: Target, stochastic: bool, signals: bool
) -> tuple[np.uint64, np.uint64]:
    """Return the code of a number, and its flags where `signals`; see `project_usual`."""
    grid, plus, minus = target.grid, target.plus, target.minus
    negative = x.negative
    zero = x.significand == _0
    up = zeros_above(x.significand)
    significand = x.significand << _U(up)
    lead = x.exponent - up + _I(63)
    last = pick(negative, minus.max_magnitude, plus.max_magnitude)

    binade = max(lead, grid.emin)
    kept, tail = split(significand, binade - lead + _I(63) - _I(grid.trailing_bits), True)
    below = kept < grid.hidden
    magnitude = pick(below, _0, kept - grid.hidden + (_U(binade - grid.emin) << grid.trailing_bits))
    tail = pick(below, _0, tail)
    beyond = (lead > grid.top) | (magnitude > last)
    magnitude, tail = pick(beyond, last, magnitude), pick(beyond, _ONES, tail)

    if stochastic:
        farther = beyond | (tail > drawn)
    else:
        limit = limit_of(negative, magnitude & _1, target)
        limit += _U((grid.shared != _0) & (magnitude == _0) & (limit == _TOP - _1))
        farther = tail > limit
    judged = (grid.before == _1) | ((grid.before != _0) & (lead >= grid.top))
    judged &= (magnitude == last) & (tail != _0)
    beyond |= judged
    farther |= judged
    rounded = magnitude + _U(farther)
    past = rounded > last
    over = beyond | past

    step = pick(negative, minus.step, plus.step)
    base = pick(negative, minus.base, plus.base)
    turn = pick(step == _ONES, _ONES, _0)
    code = (base + (((rounded ^ turn) - turn) & (_0 - _U(step != _0)))) & grid.mask
    code = pick(base == _REFUSED, _REFUSED, code)
    rounded_zero = pick(negative, minus.rounded_zero, plus.rounded_zero)
    at_zero = (rounded == _0) & (grid.hidden == _0) & (grid.shared == _0)
    code = pick(at_zero, rounded_zero, code)
    code = pick(past, pick(negative, minus.overflow, plus.overflow), code)

    flags = _0
    if signals:
        inexact = (tail != _0) | below
        flags = (_U(inexact) * _INEXACT) | (_U(below) * _UNDERFLOW)
        tiny = is_tiny(lead, significand, negative, drawn, target, stochastic)
        tiny &= (not over) | ((grid.flush != _0) & (not past))
        tiny &= inexact | (grid.flush != _0)
        flags |= _U(tiny & inexact) * _UNDERFLOW
        flags |= _U(over) * (_OVERFLOW | _INEXACT)
        invalid = pick(negative, minus.negative_invalid, plus.negative_invalid)
        flags = pick((invalid != _0) & ((not at_zero) | past), invalid, flags)
        flushed = tiny & (grid.flush != _0)
        code = pick(flushed, rounded_zero, code)
        flags = pick(flushed, _INEXACT | pick(over, _OVERFLOW, _UNDERFLOW), flags)

    code = pick(zero, pick(negative, minus.zero, plus.zero), code)
    code = pick(x.infinite, pick(negative, minus.infinity, plus.infinity), code)
    payload = (x.significand >> _1) >> (_63 - grid.payload)
    carried = pick(negative, minus.carried, plus.carried) | payload
    code = pick(x.nan, pick(generated, pick(negative, minus.nan, plus.nan), carried), code)
    if signals:
        zero_invalid = pick(negative, minus.zero_invalid, plus.zero_invalid)
        flags = pick(zero, zero_invalid | (_U(x.flushed) * _INEXACT), flags)
        flags = pick(x.infinite, pick(negative, minus.infinity_invalid, plus.infinity_invalid), flags)
        nan_invalid = pick(negative, minus.nan_invalid, plus.nan_invalid)
        flags = pick(x.nan, pick(generated | x.signaling, _INVALID, nan_invalid), flags)
    return code, flags


@inlined
def is_tiny(
    lead: np.int64, significand: np.uint64, negative: bool, drawn: np.uint64, target: Target, stochastic: bool
) -> bool:
    """Return whether a number is tiny: before rounding, or as if exponents had no lower end."""
    grid, plus, minus = target.grid, target.plus, target.minus
    if stochastic:
        limit = drawn
    elif grid.trailing_bits != _0:
        limit = pick(negative, minus.limit_odd, plus.limit_odd)
    else:
        limit = pick(negative, minus.limit_even, plus.limit_even)
    highest = _TOP - (_TOP >> grid.trailing_bits) + _TOP  # all places that are kept are ones
    below = significand <= highest + (limit >> _1 >> grid.trailing_bits)
    return (lead < grid.tiny) & ((lead < grid.surely) | below)


@inlined
def beyond(side: Side) -> np.uint64:
    """Return the code of numbers from the magnitude above the largest one on."""
    limit = pick(side.max_magnitude & _1 != _0, side.limit_odd, side.limit_even)
    return pick(limit == _ONES, side.base | side.max_magnitude, side.overflow)


@inlined
def project_usual(
    x: Lane, generated: bool, drawn: np.uint64, target: Target, stochastic: bool, signals: bool
) -> tuple[np.uint64, np.uint64]:
    """Return the code of a number, and its flags where `signals`, of a usual target.

    It has at most 32 bits, a sign that is one of them, and subnormals, and keeps no payloads; overflow is
    judged on the rounded number, and subnormal results are kept.
    """
    grid, plus, minus = target.grid, target.plus, target.minus
    negative = x.negative
    up = zeros_above(x.significand)
    significand = x.significand << _U(up)
    lead = pick(x.significand == _0, grid.emin, x.exponent - up + _I(63))

    binade = max(lead, grid.emin)
    kept, tail = split(significand, binade - lead + _I(63) - _I(grid.trailing_bits), stochastic)
    magnitude = kept + (_U(binade - grid.emin) << grid.trailing_bits)
    if stochastic:
        rounded = magnitude + _U(tail > drawn)
        past_code = pick(negative, minus.overflow, plus.overflow)
    else:
        rounded = magnitude + _U(tail > limit_of(negative, magnitude & _1, target))
        past_code = pick(negative, beyond(minus), beyond(plus))
    past = rounded > plus.max_magnitude
    code = pick(negative, minus.base, plus.base) | rounded
    code = pick(rounded == _0, pick(negative, minus.rounded_zero, plus.rounded_zero), code)
    code = pick(past, past_code, code)
    code = pick(x.infinite, pick(negative, minus.infinity, plus.infinity), code)
    code = pick(x.nan, pick(negative, minus.nan, plus.nan), code)

    flags = _0
    if signals:
        tiny = is_tiny(lead, significand, negative, drawn, target, stochastic)
        flags = pick(tail != _0, pick(tiny, _INEXACT | _UNDERFLOW, _INEXACT), _0)
        flags = pick(past, _OVERFLOW | _INEXACT, flags)
        flags = pick(x.infinite, plus.infinity_invalid, flags)
        flags = pick(x.nan, pick(generated | x.signaling, _INVALID, plus.nan_invalid), flags)
    return code, flags
