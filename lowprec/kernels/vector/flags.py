"""Flags of results that vectors made: binary64 tells whether a result is the exact one.

Whether it is, and whether it is tiny, is all there is to say of most results of binary32 operands. Others
(overflow, NaNs, infinities, results on the border of the subnormal ones) are marked, for the scalar engine.

Floor 2b. Imports numba through `jit`; never the oracle, which checks it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.kernels.jit import inlined, jit
from lowprec.kernels.lower.vector import PAST, Words
from lowprec.kernels.vector.convert import DONE, UNSUITED, keeps_subnormals, rounds_to_nearest
from lowprec.kernels.vector.rounding import with_error

__all__ = ["LEFT", "OPERATIONS", "judge"]

Numbers = npt.NDArray[Any]  #: of binary32 or binary64
Number = Any

#: The mark of a result that is left, instead of flags.
LEFT = 0xFF

_TINY, _LEFT = np.uint8(2), np.uint8(LEFT)


@inlined
def convert_is_exact(x: Number, y: Number, z: Number, result: Number) -> bool:
    """Whether the result is x."""
    return bool(x == result)


@inlined
def add_is_exact(x: Number, y: Number, z: Number, result: Number) -> bool:
    """Whether the result is x + y."""
    total, error = with_error(x, y)
    return bool((total == result) & (error == 0))


@inlined
def subtract_is_exact(x: Number, y: Number, z: Number, result: Number) -> bool:
    """Whether the result is x - y."""
    total, error = with_error(x, -y)
    return bool((total == result) & (error == 0))


@inlined
def multiply_is_exact(x: Number, y: Number, z: Number, result: Number) -> bool:
    """Whether the result is x * y, which binary64 holds."""
    return bool(x * y == result)


@inlined
def divide_is_exact(x: Number, y: Number, z: Number, result: Number) -> bool:
    """Whether the result is x / y: binary64 holds the result times y."""
    return bool(result * y == x)


@inlined
def sqrt_is_exact(x: Number, y: Number, z: Number, result: Number) -> bool:
    """Whether the result is the square root of x: binary64 holds its square."""
    return bool(result * result == x)


@inlined
def fma_is_exact(x: Number, y: Number, z: Number, result: Number) -> bool:
    """Whether the result is x * y + z."""
    total, error = with_error(x * y, z)
    return bool((total == result) & (error == 0))


#: What tells that a result is exact, by operation.
OPERATIONS: dict[str, Any] = {
    "convert": convert_is_exact,
    "add": add_is_exact,
    "subtract": subtract_is_exact,
    "multiply": multiply_is_exact,
    "divide": divide_is_exact,
    "sqrt": sqrt_is_exact,
    "fma": fma_is_exact,
}


@functools.cache
def judge(operation: str) -> Callable[..., int]:
    """The kernel that writes the flags of an operation's results.

    Called as kernel(x, y, z, results, flags, least, most, drawn, plan), with arrays of one size: binary32
    numbers, or binary64 ones that are converted; results as numbers of a format with this smallest normal and
    largest finite number, `least` and `most`. `drawn` says that they were rounded by random integers, which
    decide what is tiny. Flags become LEFT where the scalar engine must say.
    """
    is_exact = OPERATIONS[operation]

    def flagged(
        x: Numbers, y: Numbers, z: Numbers, results: Numbers, flags: Numbers, least: float, most: float,
        drawn: bool, plan: Words,
    ) -> int:  # fmt: skip
        if not rounds_to_nearest(plan) or not keeps_subnormals(plan, plan[PAST]):
            return UNSUITED
        for i in range(results.size):  # without a branch, so that the compiler makes vectors of it
            a, b, c, result = np.float64(x[i]), np.float64(y[i]), np.float64(z[i]), np.float64(results[i])
            size = abs(result)
            finite = (size < most) & (abs(a) < np.inf) & (abs(b) < np.inf) & (abs(c) < np.inf)
            inexact, tiny = not is_exact(a, b, c, result), size < least
            doubtful = inexact & ((size == least) | (tiny & drawn))
            signals = np.uint8(inexact) + np.uint8(inexact & tiny) * _TINY
            flags[i] = signals if finite & (not doubtful) else _LEFT
        return DONE

    return jit(flagged, f"flags_{operation}")
