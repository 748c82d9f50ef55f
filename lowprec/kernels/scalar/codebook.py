"""Round to the values of a codebook: find the place on its ray, and the tail for stochastic modes.

Nothing is discarded here: numbers are compared, and the tail is an exact quotient, rounded to odd.

Floor 2b. Imports numba through `jit`; never the oracle, which checks it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lowprec.kernels.jit import bit_length, helper, inlined, load_record
from lowprec.kernels.lower.codebook import Place
from lowprec.kernels.lower.scalar import Grid, Params, Side
from lowprec.kernels.scalar.rounding import halved, odd, shifted_down, takes_farther

__all__ = ["place_of"]

_U = np.uint64
_I = np.int64
_0, _1, _63 = _U(0), _U(1), _U(63)
_TOP = _U(1 << 63)
#: An exponent below all others: that of 0.
_FAR = _I(-(1 << 40))
_WORDS = len(Place._fields)


@inlined
def load_place(words: Params, side: Side, place: Any) -> Place:
    """The words of a place, in locals."""
    return load_record(Place, words, _I(side.first) + place * _WORDS)


@inlined
def passes(high: np.uint64, low: np.uint64, exponent: np.int64, at: Place) -> bool:
    """Whether a number goes on to the next place."""
    if at.step == _0:
        return bool(high != _0 or at.passes != _0)
    step_exponent = _I(at.step_exponent)
    if exponent != step_exponent:
        return bool(exponent > step_exponent)
    if high != at.step or low != at.step_low:
        return bool(high > at.step or (high == at.step and low > at.step_low))
    return bool(at.passes != _0)


@helper
def tail_above(high: np.uint64, low: np.uint64, exponent: np.int64, at: Place) -> np.uint64:
    """The distance of a number above a value, in units of 2**-64 of the gap to the next, rounded to odd."""
    # The distance: the number less the value, or the sum of both if the value is of the other sign.
    place = _I(at.exponent)
    if at.size == _0:
        first, second = high, low
    elif at.other == _0:  # the number is not smaller
        above, below, _ = shifted_down(at.size, _0, exponent - place)
        first, second = high - above - _U(low < below), low - below
    else:
        if high == _0:
            first, second, exponent, above, below = at.size, _0, place, _0, _0
        elif place > exponent:
            first, second, third = shifted_down(high, low, place - exponent)
            second, exponent = odd(second, third != _0), place
            above, below = at.size, _0
        else:
            first, second = high, low
            above, below, third = shifted_down(at.size, _0, exponent - place)
            below = odd(below, third != _0)
        second += below
        carry = _U(second < below)
        total = first + above
        over = total < first
        first = total + carry
        if over or (carry != _0 and first == _0):
            first, second = halved(first, second)
            exponent += _I(1)
    # The quotient, bit by bit: 64 bits behind the point.
    shift = _I(at.gap_exponent) - exponent
    if shift >= _I(0):
        rest, more, third = shifted_down(first, second, shift)
    else:  # the distance is smaller than the gap, so nothing is lost
        up, down = _U(-shift), _U(_I(64) + shift)
        rest, more, third = first << up | second >> down, second << up, _0
    tail = _0
    for _ in range(64):
        over = rest >> _63 != _0
        rest, more, third = rest << _1 | more >> _63, more << _1 | third >> _63, third << _1
        tail <<= _1
        if over or rest > at.gap or (rest == at.gap and more >= at.gap_low):
            rest -= at.gap + _U(more < at.gap_low)
            more -= at.gap_low
            tail |= _1
    return odd(tail, rest != _0 or more != _0 or third != _0)


@helper
def place_of(
    significand: np.uint64,
    low: np.uint64,
    exponent: np.int64,
    random: np.uint64,
    grid: Grid,
    side: Side,
    words: Params,
) -> tuple[np.int64, np.uint64, bool, bool]:
    """The place of a number, not negative, on its ray, and the code there; one past the last if it overflows.

    And whether it is exactly that value, and whether it lies below all values.
    """
    up = _I(64) - bit_length(significand)
    if significand == _0:
        high, exponent = _0, _FAR
    else:
        high, exponent = significand << _U(up), exponent - up
    last = _I(side.max_magnitude)
    start, end = _I(0), last + _I(1)
    while start < end:  # the first place whose step is not passed
        middle = (start + end) >> _I(1)
        if passes(high, low, exponent, load_place(words, side, middle)):
            start = middle + _I(1)
        else:
            end = middle
    if start > last:
        return start, _0, False, False
    at = load_place(words, side, start)
    place = _I(at.exponent)
    exact = high == at.size and low == _0 and exponent == place and at.other == _0
    below = start == _I(0) and at.size != _0 and at.other == _0
    below = below and not exact and (exponent < place or (exponent == place and high < at.size))
    if grid.bits != _0 and not exact and not below and at.gap != _0:
        tail = tail_above(high, low, exponent, at)
        if takes_farther(tail, _0, random, grid, side):
            start += _I(1)
            if start > last:
                return start, _0, False, False
            at = load_place(words, side, start)
    return start, at.code, exact, below
