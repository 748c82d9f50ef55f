"""Quotients of 64 bits, one at a time, in integers: elements of blocks, and scales of tensors.

`general.blocks` calls this where lanes are not exact: for elements in codebooks, and for values of more than
53 bits.

Floor 2b. Imports numba through `jit`; never the oracle, which checks it.

Notation, beside that of `convert`:

    number       a significand and an exponent, or 0 and any exponent
    normalized   a significand whose highest bit is bit 63, or 0; rounded to odd: its last bit is set
                 where anything is lost below, so that projecting it projects the exact number
"""

from __future__ import annotations

import numpy as np

from lowprec.kernels.jit import bit_length, helper, inlined, jit
from lowprec.kernels.lower.block import ARITHMETICS
from lowprec.kernels.scalar.rounding import odd, to_nearest_even

__all__ = ["divided", "tensor_numbers"]

Number = tuple[np.uint64, np.int64]

_U = np.uint64
_I = np.int64
_0, _1, _16 = _U(0), _U(1), _U(16)
_TOP = _U(1 << 63)

_EXACT, _PRODUCT = (_U(ARITHMETICS.index(name)) for name in ("exact", "product"))

#: The largest binary32 number, the power of two after it, and the exponent of the smallest.
_MOST, _MOST_EXPONENT, _POWER, _SMALLEST = _U((1 << 24) - 1), _I(104), _I(128), _I(-149)


# -- numbers -----------------------------------------------------------------------------------------


@inlined
def normalized(significand: np.uint64, exponent: np.int64) -> Number:
    """Return the same number with its highest bit in bit 63."""
    up = _I(64) - bit_length(significand)
    return (significand << _U(up), exponent - up) if significand != _0 else (_0, _I(0))


@helper
def quotient(over: np.uint64, over_exponent: np.int64, by: np.uint64, by_exponent: np.int64) -> Number:
    """Divide a normalized number by one that is not 0; normalized."""
    if over == _0:
        return _0, _I(0)
    lead, lead_exponent = normalized(by, by_exponent)
    exponent = over_exponent - lead_exponent - _I(63)
    if lead == _TOP:
        return over, exponent
    if over >= lead:
        rest = over - lead
    else:
        rest, exponent = over + over - lead, exponent - _I(1)
    by = lead >> _U(32)
    if by << _U(32) == lead:  # the first bit of the quotient is 1; 32 and 31 more by a division each
        word = _TOP | (rest // by) << _U(31)
        rest = (rest % by) << _U(31)
    elif lead << _U(48) != _0:  # bit by bit
        word = _TOP
        for place in range(62, -1, -1):
            carry, rest = rest >> _U(63), rest << _1
            if carry != _0 or rest >= lead:
                rest -= lead
                word |= _1 << _U(place)
        return odd(word, rest != _0), exponent
    else:  # the first bit is 1; 16, 16, 16 and 15 more by a division each
        by = lead >> _16
        word = _TOP | (rest // by) << _U(47)
        rest = (rest % by) << _16
        word |= (rest // by) << _U(31)
        rest = (rest % by) << _16
        word |= (rest // by) << _U(15)
        rest = (rest % by) << _U(15)
    word |= rest // by
    return odd(word, rest % by != _0), exponent


@helper
def single(significand: np.uint64, exponent: np.int64) -> Number:
    """Round to binary32, nearest even, and normalize; overflow gives the largest finite number."""
    if significand == _0:
        return _0, _I(0)
    significand, exponent = normalized(significand, exponent)
    place = max(exponent + _I(40), _SMALLEST)
    kept = to_nearest_even(significand, place - exponent)
    if place + bit_length(kept) > _POWER:
        kept, place = _MOST, _MOST_EXPONENT
    return normalized(kept, place)


@inlined
def product(left: np.uint64, left_exponent: np.int64, right: np.uint64, right_exponent: np.int64) -> Number:
    """Return the exact product of normalized numbers, of at most 40 and 24 significant bits, or 64 and 1."""
    if right == _TOP:
        return left, left_exponent + right_exponent + _I(63)
    return (left >> _U(24)) * (right >> _U(40)), left_exponent + right_exponent + _I(64)


@inlined
def inverse(by: np.uint64, by_exponent: np.int64) -> Number:
    """Divide 1 by a number in binary32; by 0, the largest finite number."""
    if by == _0:
        return normalized(_MOST, _MOST_EXPONENT)
    over, exponent = quotient(_TOP, _I(-63), by, by_exponent)
    return single(over, exponent)


# -- elements ----------------------------------------------------------------------------------------


@helper
def divided(
    significand: np.uint64, exponent: np.int64, by: np.uint64, by_exponent: np.int64, arithmetic: np.uint64
) -> Number:
    """Divide a value, not 0, by its scale; 0 where an exact scale is 0."""
    significand, exponent = normalized(significand, exponent)
    if arithmetic == _EXACT:
        if by == _0:
            return _0, _I(0)
        return quotient(significand, exponent, by, by_exponent)
    significand, exponent = single(significand, exponent)
    if arithmetic == _PRODUCT:
        if by == _0 and significand != _0:
            return normalized(_MOST, _MOST_EXPONENT)
        significand, exponent = quotient(significand, exponent, by, by_exponent)
    else:
        significand, exponent = product(significand, exponent, by, by_exponent)
    return single(significand, exponent)


# -- tensors -----------------------------------------------------------------------------------------


@jit
def tensor_numbers(
    amax: np.uint64, exponent: np.int64, most: np.uint64, most_exponent: np.int64, by_inverse: bool
) -> tuple[np.uint64, np.int64, np.uint64, np.int64]:
    """Return the scale of a tensor of this amax, and its inverse: binary32 numbers.

    The scale is amax / most, rounded, where `most` has at most 48 bits; with `by_inverse`, amax is rounded,
    then most / amax, which is the inverse, then 1 over that.
    """
    amax, exponent = normalized(amax, exponent)
    if by_inverse:
        amax, exponent = not_zero(single(amax, exponent))
        most, most_exponent = normalized(most, most_exponent)
        turned, place = quotient(most, most_exponent, amax, exponent)
        turned, place = not_zero(single(turned, place))
        scale, scale_exponent = not_zero(inverse(turned, place))
    else:
        scale, scale_exponent = quotient(amax, exponent, most, most_exponent)
        scale, scale_exponent = not_zero(single(scale, scale_exponent))
        turned, place = inverse(scale, scale_exponent)
    return scale, scale_exponent, turned, place


@inlined
def not_zero(number: Number) -> Number:
    """Return the number, or the smallest binary32 number where it is 0."""
    return number if number[0] != _0 else normalized(_1, _SMALLEST)
