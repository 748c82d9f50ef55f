"""Stochastic rounding in binary64: results to odd, and then to a format by random integers.

For what 32-bit words have too few bits for: binary32, and many random bits. The operands are binary32
numbers, or binary64 ones that are converted.

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
from lowprec.kernels.vector.rounding import by_random, made_odd, summed_to_odd

__all__ = ["OPERATIONS", "kernel"]

Numbers = npt.NDArray[Any]  #: of binary32 or binary64
Number = Any

#: Splits a binary64 number into two of at most 26 bits. Source: [DEKKER].
_SPLIT = 134217729.0


@inlined
def halves(x: Number) -> tuple[Number, Number]:
    """Two numbers of few bits whose sum is x."""
    turned = _SPLIT * x
    high = turned - (turned - x)
    return high, x - high


@inlined
def number(x: Number, y: Number, z: Number) -> Number:
    """The operand itself."""
    return x


@inlined
def sum_of(x: Number, y: Number, z: Number) -> Number:
    """Return x + y, to odd."""
    return summed_to_odd(x, y)


@inlined
def difference(x: Number, y: Number, z: Number) -> Number:
    """Return x - y, to odd."""
    return summed_to_odd(x, -y)


@inlined
def product(x: Number, y: Number, z: Number) -> Number:
    """Return x * y, which binary64 holds."""
    return x * y


@inlined
def fused(x: Number, y: Number, z: Number) -> Number:
    """Return x * y + z, to odd."""
    return summed_to_odd(x * y, z)


@inlined
def quotient(x: Number, y: Number, z: Number) -> Number:
    """Return x / y, to odd: what is left of x tells on which side of it the nearest number is."""
    made = np.divide(x, y)  # by 0 too
    high, low = halves(made)
    whole = made * y
    rest = (x - whole) - ((high * y - whole) + low * y)
    return made_odd(made, rest if y > 0.0 else -rest)


@inlined
def root(x: Number, y: Number, z: Number) -> Number:
    """Return the square root of x, to odd, likewise."""
    made = np.sqrt(x)
    high, low = halves(made)
    square = made * made
    return made_odd(made, (x - square) - (((high * high - square) + 2.0 * high * low) + low * low))


#: Results in binary64, exact or to odd, by operation.
OPERATIONS: dict[str, Any] = {
    "convert": number,
    "add": sum_of,
    "subtract": difference,
    "multiply": product,
    "divide": quotient,
    "sqrt": root,
    "fma": fused,
}


@functools.cache
def kernel(operation: str) -> Callable[..., int]:
    """The kernel that draws the results of an operation among the numbers of a format.

    Called as kernel(x, y, z, random, bits, between, trailing, emin, out, plan), with arrays of one size:
    operands, random integers of so many bits, and binary64 numbers. `between` says that the random numbers
    lie halfway between integers; `trailing` and `emin` say which numbers the format has. What is not finite
    stays.
    """
    make = OPERATIONS[operation]

    def drawn(
        x: Numbers, y: Numbers, z: Numbers, random: Words, bits: int, between: bool, trailing: int, emin: int,
        out: Numbers, plan: Words,
    ) -> int:  # fmt: skip
        if not rounds_to_nearest(plan) or not keeps_subnormals(plan, plan[PAST]):
            return UNSUITED
        for i in range(out.size):  # without a branch, so that the compiler makes vectors of it
            exact = make(np.float64(x[i]), np.float64(y[i]), np.float64(z[i]))
            out[i] = by_random(exact, random[i], bits, between, trailing, emin)
        return DONE

    return jit(drawn, f"drawn_{operation}")
