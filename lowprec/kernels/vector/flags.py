"""Flags of results that vectors computed: a wider type tells where exact results lie.

Whether a result is exact, and whether it is tiny, is all there is to say of most results of binary32
operands. Results that may have overflowed or become the smallest normal number, NaNs, infinities and results
of random rounding fall back to the general engine.

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
def beside_number(x: Number, y: Number, z: Number, result: Number) -> Number:
    """Return x minus the result."""
    return x - result


@inlined
def beside_sum(x: Number, y: Number, z: Number, result: Number) -> Number:
    """Return a number that is zero where x + y is the result."""
    total, error = with_error(x, y)
    return total - result if total != result else error


@inlined
def beside_difference(x: Number, y: Number, z: Number, result: Number) -> Number:
    """Return a number that is zero where x - y is the result."""
    return beside_sum(x, -y, z, result)


@inlined
def beside_product(x: Number, y: Number, z: Number, result: Number) -> Number:
    """Return x * y, which binary64 holds, minus the result."""
    return x * y - result


@inlined
def beside_quotient(x: Number, y: Number, z: Number, result: Number) -> Number:
    """Return x minus the result times y, which binary64 holds."""
    return x - result * y


@inlined
def beside_root(x: Number, y: Number, z: Number, result: Number) -> Number:
    """Return x minus the square of the result, which binary64 holds."""
    return x - result * result


@inlined
def beside_fma(x: Number, y: Number, z: Number, result: Number) -> Number:
    """Return a number that is zero where x * y + z is the result."""
    return beside_sum(x * y, z, z, result)


#: Residuals by operation: zero where the result is exact.
OPERATIONS: dict[str, Any] = {
    "convert": beside_number,
    "add": beside_sum,
    "subtract": beside_difference,
    "multiply": beside_product,
    "divide": beside_quotient,
    "sqrt": beside_root,
    "fma": beside_fma,
}


@functools.cache
def judge(operation: str, single: bool) -> Callable[..., int]:
    """Return the kernel that writes the flags of an operation's results; `single`: by arithmetic of binary32.

    Called as kernel(x, y, z, results, flags, least, most, drawn, plan), with arrays of one size: binary32
    numbers, or binary64 ones that are converted; results as numbers of a format with this smallest normal and
    largest finite number, `least` and `most`. `drawn` says that they were rounded by random integers, which
    decide what is tiny. Flags become LEFT where the scalar engine must say. In binary32 products that the
    operation is checked by must be exact; sums need not be finite where results are LEFT.
    """
    beside = OPERATIONS[operation]
    kind: Any = np.float32 if single else np.float64
    infinity = kind(np.inf)

    def flagged(
        x: Numbers, y: Numbers, z: Numbers, results: Numbers, flags: Numbers, least: float, most: float,
        drawn: bool, plan: Words,
    ) -> int:  # fmt: skip
        if not rounds_to_nearest(plan) or not keeps_subnormals(plan, plan[PAST]):
            return UNSUITED
        normal, largest = kind(least), kind(most)
        for i in range(results.size):  # without a branch, so that the compiler makes vectors of it
            a, b, c, result = kind(x[i]), kind(y[i]), kind(z[i]), kind(results[i])
            size = abs(result)
            finite = (size < largest) & (abs(a) < infinity) & (abs(b) < infinity) & (abs(c) < infinity)
            inexact, tiny = beside(a, b, c, result) != 0, size < normal
            doubtful = inexact & ((size == normal) | (tiny & drawn))
            signals = np.uint8(inexact) + np.uint8(inexact & tiny) * _TINY
            flags[i] = signals if finite & (not doubtful) else _LEFT
        return DONE

    return jit(flagged, f"flags_{operation}{'_single' if single else ''}")
