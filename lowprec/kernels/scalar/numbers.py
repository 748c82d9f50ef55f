"""Numbers of up to 128 bits, and what is computed of them before anything is rounded to a format.

What does not fit is rounded to odd, far below the last place of any format, which projects as the whole.

Floor 2b. Imports numba through `jit`; never the oracle, which checks it.

Notation, beside that of `convert`:

    number    high, low, exponent: (high + low / 2**64) * 2**exponent with bit 63 of high set, and
              low not 0 where anything lies below high, however far; or zero, where high is 0
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from lowprec.kernels.general.numbers import word_product
from lowprec.kernels.jit import bit_length, helper, inlined
from lowprec.kernels.lower.kinds import FINITE, FLUSHED, NAN, SIGNALING
from lowprec.kernels.lower.scalar import Source
from lowprec.kernels.scalar.convert import read
from lowprec.kernels.scalar.rounding import halved, odd, shifted_down
from lowprec.spec.projection import Flag

__all__ = [
    "Number",
    "is_larger",
    "is_nan",
    "operand",
    "product",
    "quotient",
    "remainder",
    "shifted_up",
    "square_root",
    "total",
]

Word = Any

_U = np.uint64
_I = np.int64
_0, _1, _2, _32, _63, _64 = _U(0), _U(1), _U(2), _U(32), _U(63), _U(64)
_TOP = _U(1 << 63)
_HALF = _U(0xFFFFFFFF)
_INEXACT = _U(Flag.INEXACT)


class Number(NamedTuple):
    """An operand or a result: a class, a sign, and a number as above, of a NaN its payload."""

    kind: Word
    negative: Word
    high: Word
    low: Word
    exponent: Word


@inlined
def is_nan(x: Number) -> bool:
    """Return whether an operand is a NaN of either kind."""
    return bool(x.kind == NAN or x.kind == SIGNALING)


@inlined
def operand(code: np.uint64, source: Source) -> tuple[Number, np.uint64]:
    """Return what a code stands for, normalized, and whether it was flushed to zero, as flags."""
    kind, negative, significand, exponent = read(code, source)
    if kind == FLUSHED:
        return Number(FINITE, negative, _0, _0, _I(0)), _INEXACT
    if kind != FINITE or significand == _0:
        return Number(kind, negative, significand, _0, _I(0)), _0
    up = _I(64) - bit_length(significand)
    return Number(kind, negative, significand << _U(up), _0, exponent - up), _0


@inlined
def is_larger(x: Number, y: Number) -> bool:
    """Return whether the magnitude of one finite number is larger than that of another."""
    if x.high == _0 or y.high == _0:
        return bool(x.high != _0)
    if x.exponent != y.exponent:
        return bool(x.exponent > y.exponent)
    return bool(x.high > y.high or (x.high == y.high and x.low > y.low))


@inlined
def shifted_up(
    high: np.uint64, low: np.uint64, third: np.uint64, up: np.int64
) -> tuple[np.uint64, np.uint64, np.uint64]:
    """Shift three words up by less than 64 bits, of which the first is not full: nothing is lost."""
    if up <= _I(0):
        return high, low, third
    left, down = _U(up), _U(_I(64) - up)
    return high << left | low >> down, low << left | third >> down, third << left


@helper
def total(x: Number, y: Number, downward: bool) -> Number:
    """Return the sum of finite numbers."""
    if is_larger(y, x):
        x, y = y, x
    if x.high == _0:
        negative = (x.negative or y.negative) if downward else (x.negative and y.negative)
        return Number(FINITE, negative, _0, _0, _I(0))
    if y.high == _0:
        return x
    first, second, third = shifted_down(y.high, y.low, x.exponent - y.exponent)
    if x.negative == y.negative:
        low = x.low + second
        carry = _U(low < x.low)
        high = x.high + first
        over = high < x.high
        high += carry
        over = over or (carry != _0 and high == _0)
        if over:
            high, low = halved(high, odd(low, third != _0))
            return Number(FINITE, x.negative, high, low, x.exponent + _I(1))
        return Number(FINITE, x.negative, high, odd(low, third != _0), x.exponent)
    borrow = _U(third != _0)
    third = _0 - third
    low = x.low - second
    again = _U(x.low < second)
    again |= _U(low < borrow)
    low -= borrow
    high = x.high - first - again
    exponent = x.exponent
    for _ in range(2):
        if high == _0:
            high, low, third, exponent = low, third, _0, exponent - _I(64)
    if high == _0:
        return Number(FINITE, downward, _0, _0, _I(0))
    up = _I(64) - bit_length(high)
    high, low, third = shifted_up(high, low, third, up)
    return Number(FINITE, x.negative, high, odd(low, third != _0), exponent - up)


@helper
def product(x: Number, y: Number) -> Number:
    """Return the product of finite numbers of 64 bits."""
    negative = x.negative != y.negative
    if x.high == _0 or y.high == _0:
        return Number(FINITE, negative, _0, _0, _I(0))
    high, low = word_product(x.high, y.high)
    exponent = x.exponent + y.exponent + _I(64)
    if high < _TOP:
        high, low, _ = shifted_up(high, low, _0, _I(1))
        exponent -= _I(1)
    return Number(FINITE, negative, high, low, exponent)


@helper
def digits(over: np.uint64, by: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Return the 64 bits behind the point of a fraction below 1 with a 64-bit denominator, and the rest."""
    upper, lower = by >> _32, by & _HALF
    quotient = _0
    for _ in range(2):  # 32 bits at a time, each at most two too large at first
        part = over // upper
        rest = over - part * upper
        while part > _HALF or part * lower > rest << _32:
            part -= _1
            rest += upper
            if rest > _HALF:
                break
        over = (over << _32) - part * by
        quotient = quotient << _32 | part
    return quotient, over


@helper
def quotient(x: Number, y: Number) -> Number:
    """Divide a 64-bit number by one not 0. The rest after 64 bits is above 2**-64, so `low` shows it."""
    negative = x.negative != y.negative
    if x.high == _0:
        return Number(FINITE, negative, _0, _0, _I(0))
    whole = x.high >= y.high
    high, rest = digits(x.high - y.high if whole else x.high, y.high)
    low, _ = digits(rest, y.high)
    exponent = x.exponent - y.exponent - _I(64)
    if whole:
        high, low = halved(high, low)
        exponent += _I(1)
    return Number(FINITE, negative, high, low, exponent)


@helper
def square_root(x: Number) -> Number:
    """Return the square root of a positive 64-bit number, by digits: 72 of them, and whether more follow."""
    down = _U(x.exponent & _I(1))  # an even exponent below the 128 bits
    bits, low = x.high >> down, x.high << (_64 - down) if down != _0 else _0
    root_high = root = rest_high = rest = _0
    for _ in range(72):
        rest_high, rest = rest_high << _2 | rest >> _U(62), rest << _2 | bits >> _U(62)
        bits, low = bits << _2 | low >> _U(62), low << _2
        trial_high, trial = root_high << _2 | root >> _U(62), root << _2 | _1
        root_high, root = root_high << _1 | root >> _63, root << _1
        if rest_high > trial_high or (rest_high == trial_high and rest >= trial):
            rest_high -= trial_high + _U(rest < trial)
            rest -= trial
            root |= _1
    high, exponent = root_high << _U(56) | root >> _U(8), (x.exponent + _I(down) - _I(64)) >> _I(1)
    low = odd(root << _U(56), rest_high != _0 or rest != _0)
    return Number(FINITE, False, high, low, exponent)


@helper
def remainder(x: Number, y: Number) -> Number:
    """Return x less the nearest whole multiple of y, the even one of two; y is not 0."""
    if x.high == _0 or x.exponent < y.exponent - _I(1):
        return x
    uneven, rest = False, x.high
    if x.exponent == y.exponent - _I(1):  # below y: nearest to 0 or to y
        if x.high <= y.high:
            return x
        return total(x, Number(FINITE, not x.negative, y.high, _0, y.exponent), False)
    if rest >= y.high:
        uneven, rest = True, rest - y.high
    for _ in range(x.exponent - y.exponent):
        over = rest >= _TOP
        rest = rest << _1
        uneven = over or rest >= y.high
        if uneven:
            rest -= y.high
    if rest == _0:
        return Number(FINITE, x.negative, _0, _0, _I(0))
    negative = x.negative
    twice_over = rest >= _TOP or rest << _1 > y.high
    if twice_over or (rest << _1 == y.high and uneven):
        negative, rest = not negative, y.high - rest
    up = _I(64) - bit_length(rest)
    return Number(FINITE, negative, rest << _U(up), _0, y.exponent - up)
