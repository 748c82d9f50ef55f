"""Exact results in binary64 and binary32: narrowed numbers, values of blocks, and remainders.

Plain loops without branches, which the compiler makes vectors of. Results that would be rounded are marked.

Floor 2b. Imports numba through `jit`; never the oracle, which checks it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.kernels.jit import inlined, jit

__all__ = [
    "NO_BIT",
    "extent",
    "narrowed",
    "narrowed_integers",
    "plain_remainders",
    "remainders",
    "scaled_blocks",
]

Numbers = npt.NDArray[Any]  #: of binary32 or binary64
Marks = npt.NDArray[np.bool_]

#: Instead of a place: where all are zero.
NO_BIT = 1000

#: Fewer times a binary32 number are binary64 numbers.
_MANY = 1 << 26

#: Fewer times any number are told apart from each other by a quotient in binary64.
_WIDE = float(1 << 51)

#: Splits a binary64 number into two of at most 26 bits; between these it and its products are normal.
_SPLIT, _LEAST, _MOST = 134217729.0, math.ldexp(1.0, -900), math.ldexp(1.0, 900)

#: Remainders that are made before it is looked whether they are right.
_SOME = 1 << 10

#: Numbers below half of this become whole when it is added and taken off again.
_WHOLE = float(3 << 51)


@jit
def extent(words: Numbers) -> tuple[int, int]:
    """Return how low and how high finite binary32 numbers reach, given as patterns.

    The results are the lowest bit that is set in any of them, 277 above its place, or `NO_BIT` where all are
    zero; and the highest exponent field, which is 1 for subnormal numbers too.
    """
    low, high = np.uint32(NO_BIT), np.uint32(1)
    for i in range(words.size):
        magnitude = words[i] & np.uint32(0x7FFFFFFF)
        field = max(magnitude >> np.uint32(23), np.uint32(1))
        significand = magnitude - ((field - np.uint32(1)) << np.uint32(23))
        others = significand & (significand - np.uint32(significand != np.uint32(0)))
        last = np.float32(np.int32(significand ^ others))
        place = last.view(np.uint32) >> np.uint32(23)  # 127 above the last bit's, or 0 of zero
        low = min(low, field + place if place != np.uint32(0) else np.uint32(NO_BIT))
        high = max(high, field)
    return int(low), int(high)


@jit
def narrowed(x: Numbers, out: Numbers) -> bool:
    """Write binary64 numbers as binary32 ones; return whether they all are such, bit for bit."""
    wrong = np.uint64(0)
    for i in range(out.size):
        single = np.float32(x[i])
        out[i] = single
        wrong |= np.float64(single).view(np.uint64) ^ np.float64(x[i]).view(np.uint64)
    return wrong == np.uint64(0)


@jit
def narrowed_integers(x: Numbers, out: Numbers) -> bool:
    """Write integers as binary32 numbers; return whether none is beyond 2**24."""
    wrong = np.uint64(0)
    for i in range(out.size):
        number = np.int64(x[i])
        out[i] = np.float32(np.int32(number))
        far = np.uint64(number + np.int64(1 << 24)) > np.uint64(1 << 25)
        wrong |= np.uint64(far | ((number < np.int64(0)) != (x[i] < 0)))
    return wrong == np.uint64(0)


@jit
def scaled_blocks(x: Numbers, factors: Numbers, high: int, wide: int, out: Numbers, stride: int) -> None:
    """Write x times the factor of its block, in binary64, in rows `stride` apart; every NaN is the same one.

    Blocks have so many rows and columns; `factors` one row for each row of blocks.
    """
    columns = x.shape[1]
    for row in range(x.shape[0]):
        given, by, made = x[row], factors[row // high], out[row * stride : row * stride + columns]
        if wide == 1:
            for i in range(columns):
                product = np.float64(given[i]) * by[i]
                made[i] = np.nan if product != product else product
        else:
            for block in range(by.size):
                place = slice(block * wide, min(block * wide + wide, columns))
                some, results, factor = given[place], made[place], by[block]
                for i in range(some.size):  # of arrays of their own, or there would be no vectors
                    product = np.float64(some[i]) * factor
                    results[i] = np.nan if product != product else product


@inlined
def rest_of(a: np.float64, b: np.float64) -> tuple[np.float64, np.bool_]:
    """Return a less the nearest multiple of b, and whether that is not very many times b.

    The quotient of binary32 numbers is a tie between integers, or farther from one than it is rounded by.
    """
    count = (np.divide(a, b) + _WHOLE) - _WHOLE
    rest = a if abs(b) == np.inf else a - count * b
    return a * 0.0 if rest == 0.0 else rest, abs(count) < _MANY  # zeros have the sign of a


@jit
def plain_remainders(x: Numbers, y: Numbers, out: Numbers) -> bool:
    """Write x less the nearest multiple of y, in binary64; return whether all are numbers, and right.

    The first part that has another ends it.
    """
    for start in range(0, out.size, _SOME):
        first, second, made = x[start : start + _SOME], y[start : start + _SOME], out[start : start + _SOME]
        doubtful = False
        for i in range(made.size):
            rest, near = rest_of(np.float64(first[i]), np.float64(second[i]))
            made[i] = rest
            doubtful |= not near
        if doubtful:
            return False
    return True


@inlined
def halves(x: np.float64) -> tuple[np.float64, np.float64]:
    """Return two numbers of few bits whose sum is x. Source: [DEKKER]."""
    turned = _SPLIT * x
    high = turned - (turned - x)
    return high, x - high


@inlined
def wide_rest_of(a: np.float64, b: np.float64) -> tuple[np.float64, np.bool_]:
    """Return a less the nearest multiple of b, of any binary64 numbers, and whether that is sure.

    The product with the count is two numbers [DEKKER]. A quotient that was rounded may be counted one too
    far; the rest is then above half of b. At ties the quotient is exact, and the count even.
    """
    count = (np.divide(a, b) + _WHOLE) - _WHOLE
    product = count * b
    (first, second), (high, low) = halves(count), halves(b)
    error = ((first * high - product) + first * low + second * high) + second * low
    rest, size = (a - product) - error, abs(b)
    over = abs(rest) > 0.5 * size
    rest = rest - np.copysign(size, rest) if over else rest
    sure = (abs(count) < _WIDE) & (_LEAST < size) & (size < _MOST) & (abs(a) < _MOST)
    sure |= size == np.inf
    rest = a if size == np.inf else rest if sure else 0.0
    rest = a * 0.0 if rest == 0.0 else rest  # zeros have the sign of a
    return np.float64(rest), np.bool_(sure)


@jit
def remainders(x: Numbers, y: Numbers, out: Numbers, unsure: Marks, settled: bool) -> None:
    """Write x less the nearest multiple of y, in binary64, and mark where that is very many times y.

    A NaN is the first one of the operands; of infinity and by zero it is positive. NaNs are marked too,
    unless they are `settled`.
    """
    for i in range(out.size):
        a, b = np.float64(x[i]), np.float64(y[i])
        rest, near = wide_rest_of(a, b)
        made = np.nan if (abs(a) == np.inf) | (b == 0.0) else rest
        made = b if b != b else made
        made = a if a != a else made
        out[i] = made
        unsure[i] = not (settled if made != made else near)
