"""Primitives that round single binary64 numbers: loops over them become vectors. See `rounding`.

Floor 2b. Imports numba through `jit`. Source: [BOLDO] for rounding to odd, [KNUTH] for the sum.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.kernels.jit import inlined, jit

__all__ = [
    "added_exact",
    "added_once",
    "made_odd",
    "nearest_single",
    "nearest_singles",
    "summed_to_odd",
    "three_to_odd",
    "with_error",
]

Doubles = npt.NDArray[np.float64]


@inlined
def with_error(x: np.float64, y: np.float64) -> tuple[np.float64, np.float64]:
    """Return the sum of two numbers, and its rounding error. Source: [KNUTH]."""
    total = x + y
    part = total - x
    return total, (x - (total - part)) + (y - part)


@inlined
def nearest_single(x: np.float64) -> np.float64:
    """Return the nearest binary32 number."""
    return np.float64(np.float32(x))


@jit
def nearest_singles(x: Doubles, out: npt.NDArray[Any]) -> None:
    """Write the binary32 numbers nearest to binary64 ones, as the processor rounds; NaNs are quiet."""
    for i in range(out.size):
        out[i] = np.copysign(np.nan, x[i]) if x[i] != x[i] else np.float32(x[i])


@inlined
def made_odd(total: np.float64, error: np.float64) -> np.float64:
    """Turn a number rounded to nearest, with an error of this sign, into the odd one of two neighbours."""
    inexact = (error < 0.0) | (error > 0.0)
    word = np.float64(total).view(np.uint64) - np.uint64(inexact & ((error < 0.0) != (total < 0.0)))
    return np.uint64(word | np.uint64(inexact)).view(np.float64)


@inlined
def summed_to_odd(x: np.float64, y: np.float64) -> np.float64:
    """Return the sum of two numbers, rounded to odd. Source: [BOLDO]."""
    total, error = with_error(x, y)
    return made_odd(total, error)


@inlined
def three_to_odd(x: np.float64, y: np.float64, z: np.float64) -> tuple[np.float64, np.float64]:
    """Return two numbers, far apart, whose sum and the three numbers' are rounded alike. Source: [BOLDO]."""
    high, low = with_error(y, z)
    total, error = with_error(x, high)
    rest = summed_to_odd(error, low)
    return total, rest if abs(total) < np.inf else np.float64(0.0)


@inlined
def added_exact(total: np.float32, term: np.float64) -> np.float32:
    """Return the sum of two numbers, rounded to binary32 once; what is not finite is of no use."""
    return np.float32(summed_to_odd(np.float64(total), term))


@inlined
def added_once(total: np.float32, term: np.float64, rest: np.float64) -> np.float32:
    """Return the sum of three numbers, rounded to binary32 once; what is not finite is of no use.

    The binary64 sum is rounded twice where it lies on a tie between two binary32 numbers, and `error` says
    that the exact sum does not: then the neighbour on the other side is right, if `error` points there.
    """
    both, error = with_error(np.float64(total), term)
    error, below = with_error(error, rest)
    both, error = with_error(both, error)
    error = error if error != 0.0 else below
    near = np.float32(both)
    half = both - np.float64(near)
    other = np.float64(near) + (half + half)
    beyond = error * half > 0.0 and np.float64(np.float32(other)) == other
    return np.float32(other) if beyond else near
