"""Compute operations one element at a time, in integers: exact, in up to 128 bits, then `convert.project`.

Integers only: neither flush-to-zero nor the rounding mode of the process can change an answer. This
kernel serves results in codebooks, and operands of too many bits for `general.operations`.

Floor 2b. Imports numba through `jit`; never the oracle, which checks it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lowprec.kernels.jit import bit_length, helper, inlined, jit
from lowprec.kernels.lower.kinds import CUT_TO_ZERO, FINITE, GENERATED, INFINITY, NAN, SIGNALING
from lowprec.kernels.lower.scalar import REFUSED, Grid, Params
from lowprec.kernels.scalar.convert import load_grid, load_side, load_source, project
from lowprec.kernels.scalar.numbers import (
    Number,
    is_larger,
    is_nan,
    operand,
    product,
    quotient,
    remainder,
    square_root,
    total,
)
from lowprec.kernels.scalar.rounding import cut, split, takes_farther
from lowprec.spec.arith import OPERANDS
from lowprec.spec.projection import Flag

__all__ = ["KNOWN", "encode_numbers", "multiplied", "operate", "result_of"]

Words = npt.NDArray[np.uint64]
Random = npt.NDArray[np.uint32]
Flags = npt.NDArray[np.uint8]
Word = Any

_U = np.uint64
_I = np.int64
_0, _1 = _U(0), _U(1)
_REFUSED = _U(REFUSED)
_INEXACT, _DIVIDED, _INVALID = (_U(flag) for flag in (Flag.INEXACT, Flag.DIVIDE_BY_ZERO, Flag.INVALID))

#: The number by which a kernel knows an operation.
KNOWN = {name: number for number, name in enumerate(OPERANDS)}
_ADD, _SUBTRACT, _MULTIPLY, _DIVIDE = (KNOWN[name] for name in ("add", "subtract", "multiply", "divide"))
_SQRT, _FMA, _REMAINDER, _SCALEB, _LOGB = (
    KNOWN[name] for name in ("sqrt", "fma", "remainder", "scaleb", "logb")
)
_MINIMUM, _MAXIMUM, _ROUND = KNOWN["minimum"], KNOWN["maximum"], KNOWN["round_to_integral"]
_MINIMUM_NUMBER, _MAXIMUM_NUMBER = KNOWN["minimum_number"], KNOWN["maximum_number"]
_NEGATIVE, _ABSOLUTE, _COPYSIGN = (KNOWN[name] for name in ("negative", "absolute", "copysign"))

#: Beyond these powers of two all is too large, or too small, for any format.
_FAR = 1 << 13


class Operands(NamedTuple):
    """The operands of an operation; those beyond `count` are the first once more."""

    count: Word
    x: Number
    y: Number
    z: Number


class Outcome(NamedTuple):
    """A result, and the flags of the operation itself."""

    kind: Word
    negative: Word
    high: Word
    low: Word
    exponent: Word
    raised: Word


# -- operations --------------------------------------------------------------------------------------


@inlined
def outcome(x: Number, raised: np.uint64) -> Outcome:
    """Return a number as the result."""
    return Outcome(x.kind, x.negative, x.high, x.low, x.exponent, raised)


@inlined
def special(kind: int, negative: bool, raised: np.uint64) -> Outcome:
    """Return an infinity, a zero, or a NaN that no operand is."""
    return Outcome(kind, negative, _0, _0, _I(0), raised)


@inlined
def added(x: Number, y: Number, downward: bool) -> Outcome:
    """Return the sum x + y, without NaNs."""
    if x.kind == INFINITY or y.kind == INFINITY:
        if x.kind == y.kind and x.negative != y.negative:
            return special(GENERATED, False, _INVALID)
        return outcome(x if x.kind == INFINITY else y, _0)
    return outcome(total(x, y, downward), _0)


@inlined
def multiplied(x: Number, y: Number) -> Outcome:
    """Return the product x * y, without NaNs."""
    if x.kind == INFINITY or y.kind == INFINITY:
        if (x.kind == FINITE and x.high == _0) or (y.kind == FINITE and y.high == _0):
            return special(GENERATED, False, _INVALID)
        return special(INFINITY, x.negative != y.negative, _0)
    return outcome(product(x, y), _0)


@inlined
def divided(x: Number, y: Number) -> Outcome:
    """Return the quotient x / y, without NaNs."""
    negative = x.negative != y.negative
    if x.kind == INFINITY:
        return special(GENERATED, False, _INVALID) if y.kind == INFINITY else special(INFINITY, negative, _0)
    if y.kind == INFINITY:
        return special(FINITE, negative, _0)
    if y.high == _0:
        return special(GENERATED, False, _INVALID) if x.high == _0 else special(INFINITY, negative, _DIVIDED)
    return outcome(quotient(x, y), _0)


@inlined
def comes_first(x: Number, y: Number) -> bool:
    """Return whether x is below y, or the zero that is."""
    if x.negative != y.negative:
        return bool(x.negative)
    if x.kind != y.kind:
        return bool((y.kind == INFINITY) != x.negative)
    return bool(is_larger(x, y) if x.negative else is_larger(y, x))


@helper
def of_one(operation: int, x: Number, random: np.uint64, grid: Grid, words: Params) -> Outcome:
    """Return the exact result for one operand that is no NaN."""
    if operation == _SQRT:
        if x.kind == FINITE and x.high == _0:
            return outcome(x, _0)
        if x.negative:
            return special(GENERATED, False, _INVALID)
        return outcome(x, _0) if x.kind == INFINITY else outcome(square_root(x), _0)
    if operation == _LOGB:
        if x.kind == INFINITY:
            return special(INFINITY, False, _0)
        if x.high == _0:
            return special(INFINITY, True, _DIVIDED)
        exponent = x.exponent + _I(63)
        if exponent == _I(0):
            return special(FINITE, False, _0)
        size = _U(exponent if exponent > _I(0) else -exponent)
        up = _I(64) - bit_length(size)
        return Outcome(FINITE, exponent < _I(0), size << _U(up), _0, -up, _0)
    if operation != _ROUND:
        raise ValueError("an operation of one operand without a kernel")
    if x.kind == INFINITY or x.high == _0 or x.exponent >= _I(0):
        return outcome(x, _0)
    kept, tail = split(x.high, _0, -x.exponent)
    kept += _U(takes_farther(tail, kept & _1, random, grid, load_side(words, x.negative)))
    raised = _U(tail != _0) * _INEXACT
    if kept == _0:
        return special(FINITE, x.negative, raised)
    up = _I(64) - bit_length(kept)
    return Outcome(FINITE, x.negative, kept << _U(up), _0, -up, raised)


@helper
def of_two(operation: int, x: Number, y: Number, downward: bool) -> Outcome:
    """Return the exact result for two operands that are no NaNs."""
    if operation == _ADD:
        return added(x, y, downward)
    if operation == _SUBTRACT:
        return added(x, Number(y.kind, not y.negative, y.high, y.low, y.exponent), downward)
    if operation == _MULTIPLY:
        return multiplied(x, y)
    if operation == _DIVIDE:
        return divided(x, y)
    if operation == _REMAINDER:
        if x.kind == INFINITY or (y.kind == FINITE and y.high == _0):
            return special(GENERATED, False, _INVALID)
        return outcome(x, _0) if y.kind == INFINITY else outcome(remainder(x, y), _0)
    if operation == _SCALEB:
        if x.kind == INFINITY or x.high == _0:
            return outcome(x, _0)
        # A whole number, whose size is what is left of 64 bits above its last.
        size = _I(_FAR)
        if y.high == _0 or y.exponent <= _I(-51):
            size = cut(False, y.high, min(-y.exponent, _I(63)), CUT_TO_ZERO)
        return Outcome(FINITE, x.negative, x.high, x.low, x.exponent + (-size if y.negative else size), _0)
    lower = operation == _MINIMUM or operation == _MINIMUM_NUMBER
    if not lower and operation != _MAXIMUM and operation != _MAXIMUM_NUMBER:
        raise ValueError("an operation of two operands without a kernel")
    return outcome(x if comes_first(x, y) == lower else y, _0)


@helper
def delivered(operands: Operands, signaling_first: bool) -> Number:
    """Return the NaN that is the result: the first, or the first signaling one; some operand is one."""
    count, x, y, z = operands
    if signaling_first:
        if count == 3 and z.kind == SIGNALING:
            return z
        if x.kind == SIGNALING:
            return x
        if count > 1 and y.kind == SIGNALING:
            return y
        if count == 3 and z.kind == NAN:
            return z
    if is_nan(x):
        return x
    if count > 1 and is_nan(y):
        return y
    return z


@helper
def result_of(
    operation: int,
    operands: Operands,
    downward: bool,
    signaling_first: bool,
    random: np.uint64,
    grid: Grid,
    words: Params,
) -> Outcome:
    """Return the exact result of an operation."""
    count, x, y, z = operands
    if operation == _NEGATIVE or operation == _ABSOLUTE or operation == _COPYSIGN:
        negative = (not x.negative) if operation == _NEGATIVE else (operation == _COPYSIGN and y.negative)
        return Outcome(NAN if is_nan(x) else x.kind, negative, x.high, x.low, x.exponent, _0)
    nan = is_nan(x) or (count > 1 and is_nan(y)) or (count > 2 and is_nan(z))
    if nan:
        signals = (
            x.kind == SIGNALING or (count > 1 and y.kind == SIGNALING) or (count > 2 and z.kind == SIGNALING)
        )
        raised = _U(signals) * _INVALID
        if (operation == _MINIMUM_NUMBER or operation == _MAXIMUM_NUMBER) and not (is_nan(x) and is_nan(y)):
            return outcome(y if is_nan(x) else x, raised)
        if operation == _FMA and not is_nan(x) and not is_nan(y) and multiplied(x, y).kind == GENERATED:
            if signaling_first and not signals:
                return special(GENERATED, False, _INVALID)
            raised = _INVALID
        first = delivered(operands, signaling_first)
        return Outcome(NAN, first.negative, first.high, _0, _I(0), raised)
    if operation == _FMA:
        made = multiplied(x, y)
        if made.kind == GENERATED:
            return made
        return added(Number(made.kind, made.negative, made.high, made.low, made.exponent), z, downward)
    if count == 2:
        return of_two(operation, x, y, downward)
    return of_one(operation, x, random, grid, words)


@jit
def operate(
    operation: int,
    count: int,
    xs: Words,
    x_words: Params,
    ys: Words,
    y_words: Params,
    zs: Words,
    z_words: Params,
    out: Words,
    target_words: Params,
    downward: bool,
    signaling_first: bool,
    random: Random,
    flags: Flags,
) -> tuple[int, int]:
    """Write the results of an operation of `count` operands to `out`; count the refused, find the first.

    All are one-dimensional and of one size: codes in 64 bits, of the operands and of the results; those of
    operands that the operation does not take are not looked at. `random` is empty for deterministic modes.
    """
    x_source, y_source, z_source = load_source(x_words), load_source(y_words), load_source(z_words)
    grid = load_grid(target_words)
    refused, first = 0, -1
    for i in range(out.size):
        x, tiny = operand(xs[i], x_source)
        y = z = x
        if count > 1:
            y, flushed = operand(ys[i], y_source)
            tiny |= flushed
        if count > 2:
            z, flushed = operand(zs[i], z_source)
            tiny |= flushed
        word = _U(random[i]) if random.size > 0 else _0
        made = result_of(
            operation, Operands(count, x, y, z), downward, signaling_first, word, grid, target_words
        )
        code, raised = project(
            made.kind, made.negative, made.high, made.low, made.exponent, word, grid, target_words
        )
        if code == _REFUSED:
            refused += 1
            if first < 0:
                first = i
            continue
        out[i] = code
        if made.kind < NAN:
            raised |= tiny
        raised = raised | made.raised
        if made.raised == _DIVIDED:
            raised = _DIVIDED
        flags[i] = _INVALID if raised & _INVALID != _0 else raised
    return refused, first


@jit
def encode_numbers(
    kinds: Words,
    negatives: Words,
    highs: Words,
    lows: Words,
    exponents: Words,
    raised: Flags,
    out: Words,
    target_words: Params,
    random: Random,
    flags: Flags,
) -> tuple[int, int]:
    """Write the codes of numbers, with what made them signaled; count the refused, find the first.

    All are one-dimensional and of one size, one word of a number in each; `random` is empty for deterministic
    modes.
    """
    grid = load_grid(target_words)
    refused, first = 0, -1
    for i in range(out.size):
        word = _U(random[i]) if random.size > 0 else _0
        code, signaled = project(
            kinds[i], negatives[i], highs[i], lows[i], exponents[i], word, grid, target_words
        )
        if code == _REFUSED:
            refused += 1
            if first < 0:
                first = i
            continue
        out[i] = code
        signaled = _DIVIDED if raised[i] == _DIVIDED else signaled | raised[i]
        flags[i] = _INVALID if signaled & _INVALID != _0 else signaled
    return refused, first
