"""Matrix cores whose rule is no set of parameters, in integers.

Floor 2b. Imports numba through `jit`; never the oracle, which checks it. Source: [MMASIM].
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.kernels.jit import helper, inlined
from lowprec.kernels.lower.dot import DOWNWARD, SOURCE
from lowprec.kernels.lower.kinds import CUT_DOWN, CUT_TO_ZERO, FINITE, GENERATED, INFINITY, NAN
from lowprec.kernels.scalar.arith import multiplied
from lowprec.kernels.scalar.numbers import Number, is_nan, total
from lowprec.kernels.scalar.rounding import cut, floored
from lowprec.kernels.scalar.stages import Stage, placed
from lowprec.kernels.scalar.windows import (
    NOTHING,
    Factor,
    Row,
    State,
    factor,
    factor_of,
    in_units,
    is_zero,
    joined,
    joined_one,
    number,
    settled,
)

__all__ = ["cdna2", "cdna3"]

Words = npt.NDArray[Any]  #: of uint64

_U = np.uint64
_I = np.int64
_0, _1 = _U(0), _U(1)

#: Of binary32: the exponent of its normal numbers' smallest, and of what is beyond its largest.
_EMIN, _BEYOND = -126, 128

#: Bits that CDNA3 keeps behind the point: of products, and of sums of a step.
_PRODUCT_BITS, _SUM_BITS = 24, 31


# -- CDNA2: sums of binary32 in pairs, without subnormals ----------------------------------------------


@inlined
def is_subnormal(x: Factor) -> bool:
    """Return whether an operand has no leading one; zeros have none."""
    return bool(x.kind == FINITE and x.significand < _1 << _U(x.bits))


@helper
def kept(x: Number, stage: Stage) -> Number:
    """Round a number to binary32, and to a zero of its sign where it becomes subnormal."""
    made = factor_of(placed(x, _0, stage), stage[SOURCE:])
    return Number(FINITE, made.negative, _0, _0, _I(0)) if is_subnormal(made) else number(made)


@helper
def added(x: Number, y: Number, stage: Stage) -> Number:
    """Return the sum of two numbers, as binary32."""
    if is_nan(x) or is_nan(y):
        return Number(NAN, False, _0, _0, _I(0))
    if x.kind == INFINITY or y.kind == INFINITY:
        if x.kind == y.kind and x.negative != y.negative:
            return Number(NAN, False, _0, _0, _I(0))
        return x if x.kind == INFINITY else y
    return kept(total(x, y, stage[DOWNWARD] != _0), stage)


@inlined
def flushed(x: Factor) -> Number:
    """Return an operand; for a subnormal one, and for -0, +0."""
    return Number(FINITE, False, _0, _0, _I(0)) if is_subnormal(x) else number(x)


@helper
def multiplied_flushed(x: Factor, y: Factor, stage: Stage) -> Number:
    """Return the product of two operands, as binary32."""
    p, q = flushed(x), flushed(y)
    if is_nan(p) or is_nan(q):
        return Number(NAN, False, _0, _0, _I(0))
    made = multiplied(p, q)
    if made.kind == GENERATED:
        return Number(NAN, False, _0, _0, _I(0))
    return kept(Number(made.kind, made.negative, made.high, made.low, made.exponent), stage)


@helper
def cdna2(x: Row, y: Row, addend: np.uint64, step: int, stage: Stage) -> Number:
    """Sums of `step` products, 2 or 4, in pairs, one after the other added to the addend."""
    nothing = Number(FINITE, False, _0, _0, _I(0))
    c, length = flushed(factor_of(addend, stage[SOURCE:])), x.shape[0]
    for start in range(0, length, step):
        halves = nothing
        for half in range(start, start + step, 2):
            first = second = nothing
            if half < length:
                first = multiplied_flushed(factor(x, half), factor(y, half), stage)
            if half + 1 < length:
                second = multiplied_flushed(factor(x, half + 1), factor(y, half + 1), stage)
            pair = added(first, second, stage)
            halves = pair if half == start else added(halves, pair, stage)
        c = added(c, halves, stage)
    return c


# -- CDNA3: aligned, then aligned with the addend, rounded down ------------------------------------------


@helper
def aligned(
    x: Row, y: Row, start: int, stop: int, stride: np.int64, fp8: bool
) -> tuple[np.int64, np.int64, State]:
    """Sum each `stride`-th product, in units of 2**(top - _PRODUCT_BITS); return the top exponent too."""
    state, largest = State(False, False, False), _I(NOTHING)
    for k in range(start, stop, stride):
        a, b = factor(x, k), factor(y, k)
        state = joined(state, a, b)
        if a.kind == FINITE and b.kind == FINITE and not is_zero(a) and not is_zero(b):
            exponent = a.exponent + a.bits + b.exponent + b.bits
            largest = max(largest, exponent)
            over = a.significand * b.significand >= _1 << _U(a.bits + b.bits + _I(1))
            if not fp8 and exponent + _I(over) >= _I(_BEYOND):
                minus = a.negative != b.negative
                state = State(state.nan, state.positive or not minus, state.negative or minus)
    unit, sum_ = largest - _I(_PRODUCT_BITS), _I(0)
    for k in range(start, stop, stride):
        a, b = factor(x, k), factor(y, k)
        if a.kind == FINITE and b.kind == FINITE and not is_zero(a) and not is_zero(b):
            shift = unit - (a.exponent + b.exponent)
            sum_ += cut(a.negative != b.negative, a.significand * b.significand, shift, CUT_TO_ZERO)
    return sum_, largest, state


@helper
def cdna3(x: Row, y: Row, addend: np.uint64, step: int, fp8: bool, stage: Stage) -> np.uint64:
    """Run steps one after the other, and return the code: products, then their sum and the running one."""
    code, length = addend, x.shape[0]
    for start in range(0, length, step):
        stop = min(start + step, length)
        if fp8:
            even, even_exponent, state = aligned(x, y, start, stop, _I(2), fp8)
            odd, odd_exponent, other = aligned(x, y, start + 1, stop, _I(2), fp8)
            state = State(
                state.nan or other.nan, state.positive or other.positive, state.negative or other.negative
            )
            exponent = max(even_exponent, odd_exponent)
            products = floored(even, exponent - even_exponent) + floored(odd, exponent - odd_exponent)
        else:
            products, exponent, state = aligned(x, y, start, stop, _I(1), fp8)
        c = factor_of(code, stage[SOURCE:])
        state = joined_one(state, c)
        c_exponent = c.exponent + c.bits
        both = max(exponent, c_exponent)
        sum_ = floored(products, (both - _I(_SUM_BITS + 1)) - (exponent - _I(_PRODUCT_BITS)))
        if c.kind == FINITE and not (fp8 and c_exponent < both - _I(_PRODUCT_BITS + 1)):
            size = cut(c.negative, c.significand, both - _I(_PRODUCT_BITS) - c.exponent, CUT_DOWN)
            sum_ += size << _I(_SUM_BITS + 1 - _PRODUCT_BITS)
        made = in_units(sum_, both - _I(_SUM_BITS + 1))
        if made.high != _0:  # down to _SUM_BITS behind the point of a normalized number
            lead = max(made.exponent + _I(63), _I(_EMIN))
            last = lead - _I(_SUM_BITS)
            made = in_units(cut(made.negative, made.high, last - made.exponent, CUT_DOWN), last)
        code = placed(settled(state, made), _0, stage)
    return code
