"""Sums of any length without rounding: one integer, wide enough for every term.

It is two's complement in 64-bit words, the lowest first, in units of 2**base. Terms are numbers as in
`arith`, whose last bit must not lie below the base.

Floor 2b. Imports numba through `jit`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.kernels.general.numbers import word_product
from lowprec.kernels.jit import bit_length, helper
from lowprec.kernels.lower.kinds import FINITE
from lowprec.kernels.scalar.numbers import Number, shifted_up
from lowprec.kernels.scalar.rounding import odd

__all__ = ["add_number", "number_of_sum", "scale_sum"]

Words = npt.NDArray[Any]  #: of uint64

_U = np.uint64
_I = np.int64
_0, _1, _63 = _U(0), _U(1), _U(63)


@helper
def add_number(words: Words, base: np.int64, x: Number) -> None:
    """Add a finite number to a sum."""
    if x.high == _0:
        return
    place = x.exponent - _I(64) - base
    up = place & _I(63)
    high, middle, low = shifted_up(_0, x.high, x.low, up)
    i, carry = place >> _I(6), _0
    if place < _I(0):  # what lies below the base is zero
        low = _0
    for part in (low, middle, high):
        if i >= _I(0):
            word = words[i]
            if x.negative:
                after = word - part - carry
                carry = _U(word < part or (carry != _0 and word == part))
            else:
                after = word + part + carry
                carry = _U(after < word or (carry != _0 and after == word))
            words[i] = after
        i += _I(1)
    while carry != _0 and i < words.size:
        word = words[i]
        words[i] = word - _1 if x.negative else word + _1
        carry = _U(word == _0 if x.negative else word == ~_0)
        i += _I(1)


@helper
def scale_sum(words: Words, by: np.uint64) -> None:
    """Multiply a sum by an integer. In two's complement that needs nothing else for negative ones."""
    carry = _0
    for i in range(words.size):
        high, low = word_product(words[i], by)
        words[i] = low + carry
        carry = high + _U(words[i] < low)


@helper
def number_of_sum(words: Words, base: np.int64) -> Number:
    """Return a sum as a number, rounded to odd at 128 bits; +0 if it is zero. The words are used up."""
    negative = words[words.size - 1] >> _63 != _0
    if negative:
        carry = _1
        for i in range(words.size):
            word = ~words[i] + carry
            carry = _U(carry != _0 and word == _0)
            words[i] = word
    top = words.size - 1
    while top >= 0 and words[top] == _0:
        top -= 1
    if top < 0:
        return Number(FINITE, False, _0, _0, _I(0))
    high = words[top]
    low = words[top - 1] if top > 0 else _0
    rest = words[top - 2] if top > 1 else _0
    up = _I(64) - bit_length(high)
    high, low, rest = shifted_up(high, low, rest, up)
    lost = rest != _0
    for i in range(top - 2):
        lost = lost or words[i] != _0
    return Number(FINITE, negative, high, odd(low, lost), base + _I(64 * top) - up)
