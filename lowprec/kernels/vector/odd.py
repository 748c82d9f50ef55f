"""Operations in binary64: results rounded to odd, which rounds on as the exact result does, or drawn.

For what 32-bit words have too few bits for: operands that only binary64 holds, and stochastic rounding into
binary32 or by many random bits.

Floor 2b. Imports numba through `jit`; never the oracle, which checks it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.kernels.jit import inlined, jit
from lowprec.kernels.lower.vector import PAST, Words
from lowprec.kernels.vector.convert import DONE, UNSUITED, keeps_subnormals, rounds_to_nearest
from lowprec.kernels.vector.rounding import by_random, made_odd, summed_to_odd, three_to_odd

__all__ = ["OPERATIONS", "kernel"]

Numbers = npt.NDArray[Any]  #: of binary32 or binary64
Number = Any

#: Splits a binary64 number into two of at most 26 bits. Source: [DEKKER].
_SPLIT = 134217729.0

#: Between these nothing that is computed here is subnormal or overflows.
_LEAST, _MOST = math.ldexp(1.0, -400), math.ldexp(1.0, 400)


@inlined
def halves(x: Number) -> tuple[Number, Number]:
    """Return two numbers of few bits whose sum is x."""
    turned = _SPLIT * x
    high = turned - (turned - x)
    return high, x - high


@inlined
def with_rest(x: Number, y: Number) -> tuple[Number, Number]:
    """Return the product of two numbers, and its rounding error: -0 if it is exact. Source: [DEKKER]."""
    made = x * y
    (a, b), (c, d) = halves(x), halves(y)
    rest = ((a * c - made) + a * d + b * c) + b * d
    return made, rest if (abs(made) < np.inf) & (rest != 0.0) else -0.0


@inlined
def number(x: Number, y: Number, z: Number) -> Number:
    """Return the operand itself."""
    return x


@inlined
def sum_of(x: Number, y: Number, z: Number) -> Number:
    """Return x + y."""
    return summed_to_odd(x, y)


@inlined
def difference(x: Number, y: Number, z: Number) -> Number:
    """Return x - y."""
    return summed_to_odd(x, -y)


@inlined
def product(x: Number, y: Number, z: Number) -> Number:
    """Return x * y."""
    made, rest = with_rest(x, y)
    return made_odd(made, rest)


@inlined
def fused(x: Number, y: Number, z: Number) -> Number:
    """Return x * y + z."""
    made, rest = with_rest(x, y)
    high, low = three_to_odd(z, made, rest)
    return summed_to_odd(high, low) if low != 0.0 else high


@inlined
def quotient(x: Number, y: Number, z: Number) -> Number:
    """Return x / y: what is left of x tells on which side of it the nearest number is."""
    made = np.divide(x, y)  # by 0 too
    whole, rest = with_rest(made, y)
    left = (x - whole) - rest
    return made_odd(made, left if y > 0.0 else -left)


@inlined
def root(x: Number, y: Number, z: Number) -> Number:
    """Return the square root of x, likewise."""
    made = np.sqrt(x)
    whole, rest = with_rest(made, made)
    return made_odd(made, (x - whole) - rest)


@inlined
def is_usual(x: Number) -> bool:
    """Return whether a number is zero, infinite, or far from both."""
    size = abs(x)
    return bool((size == 0.0) | (size == np.inf) | ((size > _LEAST) & (size < _MOST)))


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
def kernel(operation: str, drawn: bool) -> Callable[..., int]:
    """Return the kernel of an operation with results rounded to odd, or stochastically to a format.

    Called as kernel(x, y, z, random, bits, between, trailing, emin, out, plan), with arrays of one size:
    operands, random integers of so many bits, and binary64 numbers. `between` says that the random numbers
    lie halfway between integers; `trailing` and `emin` say which numbers the format has. What is infinite
    stays; where operands are very large or small, a result is NaN.
    """
    make, converts = OPERATIONS[operation], operation == "convert"

    def results(
        x: Numbers, y: Numbers, z: Numbers, random: Words, bits: int, between: bool, trailing: int, emin: int,
        out: Numbers, plan: Words,
    ) -> int:  # fmt: skip
        if not rounds_to_nearest(plan) or not keeps_subnormals(plan, plan[PAST]):
            return UNSUITED
        for i in range(out.size):  # without a branch, so that the compiler makes vectors of it
            a, b, c = np.float64(x[i]), np.float64(y[i]), np.float64(z[i])
            made = make(a, b, c)
            known = converts or (is_usual(a) & is_usual(b) & is_usual(c))
            made = np.float64(made if known else np.nan)
            out[i] = by_random(made, random[i], bits, between, trailing, emin) if drawn else made
        return DONE

    return jit(results, f"{'drawn' if drawn else 'odd'}_{operation}")
