"""Exact results in binary64 and binary32: narrowed numbers, and values of blocks.

Plain loops without branches, which the compiler makes vectors of. Results that would be rounded are marked.

Floor 2b. Imports numba through `jit`; never the oracle, which checks it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.kernels.jit import jit

__all__ = [
    "NO_BIT",
    "extent",
    "narrowed",
    "narrowed_integers",
    "scaled_blocks",
]

Numbers = npt.NDArray[Any]  #: of binary32 or binary64

#: Instead of a place: where all are zero.
NO_BIT = 1000


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
