"""Read a code into a number, in 64-bit lanes without a branch.

Floor 2b. Imports numba through `jit`; never the oracle, which checks it.

Notation, beside IEEE 754-2019 clause 3.3:

    number    (-1)**negative * significand * 2**exponent; bit 0 of the significand is sticky: it is set where
              anything nonzero lies below it
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from lowprec.kernels.jit import bit_length, inlined
from lowprec.kernels.lower.records import Source

__all__ = ["CHUNK", "Lane", "normal", "parted", "pick", "read", "word_product", "zeros_above"]

Word = Any

_U = np.uint64
_I = np.int64
_0, _1, _32, _63, _LOW = _U(0), _U(1), _U(32), _U(63), _U((1 << 32) - 1)
_FAR = _I(1 << 40)

#: Elements per chunk; the words of three operands and a result fit the nearest cache.
CHUNK = 1 << 10


class Lane(NamedTuple):
    """An operand or a result: a number, an infinity, or a NaN, whose significand is the payload."""

    negative: Word
    significand: Word
    exponent: Word
    infinite: Word
    nan: Word
    signaling: Word
    flushed: Word  #: whether a subnormal operand was flushed to the zero that the number is


@inlined
def pick(condition: Any, a: Any, b: Any) -> Any:
    """Return `a` where the condition holds, else `b`; compiled to a select."""
    return a if condition else b


@inlined
def zeros_above(word: np.uint64) -> np.int64:
    """Return how many bits above the leading one are zero; 63 for 0."""
    return _I(64) - bit_length(word | _1)


@inlined
def parted(code: np.uint64, source: Source, usual: bool) -> tuple[Word, Word, Word, Word, Word]:
    """Return the parts of a code: whether it is negative, the magnitude, and whether that is infinite.

    The last two are whether the magnitude is a NaN, and whether the code is one in the place of -0.
    """
    code &= source.mask
    negative = code & source.sign != _0
    magnitude = code & ~source.sign
    not_a_zero = (code == source.sign) & (source.sign & source.not_a_zero != _0)
    if not usual:
        magnitude = pick(negative & (source.complement != _0), (_0 - code) & source.mask, magnitude)
    special, infinity = magnitude > source.max_magnitude, magnitude == source.infinity
    return negative, magnitude, special & infinity, special & (not infinity), not_a_zero


@inlined
def read(code: np.uint64, source: Source, usual: bool) -> Lane:
    """Return the number that a code stands for.

    `usual` sources have no two's complement and no payload, and flush nothing.
    """
    negative, magnitude, infinite, special, not_a_zero = parted(code, source, usual)
    signaling = special & (magnitude & source.quiet == _0)
    nan = special | not_a_zero
    field = max((magnitude >> source.trailing_bits) & source.field_mask, source.lowest)
    significand = magnitude - ((field - _1) << source.trailing_bits)
    flushed = False
    if usual:
        significand = pick(nan, _1, significand)
    else:
        flushed = (source.flush != _0) & (significand & ~source.trailing_mask == _0) & (significand != _0)
        significand = pick(flushed, _0, significand)
        payload = (magnitude << _1) << (_63 - source.payload)
        significand = pick(nan, pick(not_a_zero, _0, payload), significand)
    negative = pick(nan, negative & (source.keeps_nan_sign != _0) & (not not_a_zero), negative)
    return Lane(negative, significand, source.exponent + _I(field), infinite, nan, signaling, flushed)


@inlined
def normal(significand: np.uint64, exponent: np.int64) -> tuple[np.uint64, np.int64]:
    """Return a number of at most 62 bits with bit 61 set; zero with an exponent below all others."""
    up = zeros_above(significand) - _I(2)
    zero = significand == _0
    return significand << _U(pick(zero, _I(0), up)), pick(zero, -_FAR, exponent - up)


@inlined
def word_product(x: np.uint64, y: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Multiply words; return both words of the product."""
    a, b, c, d = x >> _32, x & _LOW, y >> _32, y & _LOW
    lowest, left, right = b * d, a * d, b * c
    middle = (lowest >> _32) + (left & _LOW) + (right & _LOW)
    return a * c + (left >> _32) + (right >> _32) + (middle >> _32), middle << _32 | lowest & _LOW
