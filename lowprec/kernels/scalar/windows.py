"""Steps of hardware in integers: products added exactly, and rounded once.

Steps whose products are aligned and cut are made in 64-bit lanes: see `general.windows`.

Floor 2b. Imports numba through `jit`; never the oracle, which checks it.

Notation, beside that of `arith`:

    factor     significand * 2**exponent as its code has it: not normalized
    exponent   of a term: that of the bit which a normal number of its format has in front of its point
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lowprec.kernels.jit import bit_length, helper, inlined
from lowprec.kernels.lower.kinds import FINITE, GENERATED, INFINITY
from lowprec.kernels.lower.scalar import Params
from lowprec.kernels.scalar.convert import load_source, read
from lowprec.kernels.scalar.exact_sum import add_number, number_of_sum
from lowprec.kernels.scalar.numbers import Number

__all__ = [
    "Factor",
    "Operand",
    "State",
    "exact_step",
    "factor",
    "joined",
    "settled",
]

Words = npt.NDArray[Any]  #: of uint64
Panel = npt.NDArray[Any]  #: of uint64, shape (rows, K, 2)
Row = npt.NDArray[Any]  #: of a panel
Word = Any

_U = np.uint64
_I = np.int64
_0, _1 = _U(0), _U(1)


class Factor(NamedTuple):
    """An operand as its code has it."""

    kind: Word
    negative: Word
    significand: Word
    exponent: Word  #: of the last bit
    bits: Word  #: behind the point of a normal number


class Operand(NamedTuple):
    """A side of the products: a row of elements, and one of their scales if they are in blocks."""

    elements: Row
    scales: Row


class State(NamedTuple):
    """Terms of a step that are not finite: whether there is NaN, and infinities of either sign."""

    nan: Word
    positive: Word
    negative: Word


@helper
def factor_of(code: np.uint64, words: Params) -> Factor:
    """Read a code."""
    source = load_source(words)
    kind, negative, significand, exponent = read(code, source)
    return Factor(kind, negative, significand, exponent, _I(source.trailing_bits))


@helper
def panel(codes: Words, words: Params) -> Panel:
    """Rows of codes, read once: of each the significand, and all else in one word."""
    made = np.empty((codes.shape[0], codes.shape[1], 2), np.uint64)
    for i in range(codes.shape[0]):
        for k in range(codes.shape[1]):
            x = factor_of(codes[i, k], words)
            made[i, k, 0] = x.significand
            made[i, k, 1] = _U(x.exponent) << _U(16) | _U(x.bits) << _U(8) | _U(x.kind) << _1 | _U(x.negative)
    return made


@inlined
def factor(x: Row, k: int) -> Factor:
    """Return an operand of a row."""
    mark = x[k, 1]
    kind, bits = _I(mark >> _1 & _U(0x7F)), _I(mark >> _U(8) & _U(0xFF))
    return Factor(kind, mark & _1 != _0, x[k, 0], _I(mark) >> _I(16), bits)


@inlined
def number(x: Factor) -> Number:
    """Return an operand as a number: normalized."""
    if x.kind != FINITE or x.significand == _0:
        return Number(x.kind, x.negative, _0, _0, _I(0))
    up = _I(64) - bit_length(x.significand)
    return Number(FINITE, x.negative, x.significand << _U(up), _0, x.exponent - up)


@inlined
def is_zero(x: Factor) -> bool:
    """Return whether an operand is a zero."""
    return bool(x.kind == FINITE and x.significand == _0)


@inlined
def joined(state: State, x: Factor, y: Factor) -> State:
    """Return the state with one more product."""
    if x.kind == FINITE and y.kind == FINITE:
        return state
    infinite = x.kind <= INFINITY and y.kind <= INFINITY
    if not infinite or is_zero(x) or is_zero(y):
        return State(True, state.positive, state.negative)
    minus = x.negative != y.negative
    return State(state.nan, state.positive or not minus, state.negative or minus)


@inlined
def joined_one(state: State, x: Factor) -> State:
    """Return the state with one more term."""
    if x.kind == FINITE:
        return state
    if x.kind != INFINITY:
        return State(True, state.positive, state.negative)
    return State(state.nan, state.positive or not x.negative, state.negative or x.negative)


@inlined
def settled(state: State, total: Number) -> Number:
    """Return a sum, or the NaN or infinity that the state demands."""
    if state.nan or (state.positive and state.negative):
        return Number(GENERATED, False, _0, _0, _I(0))
    if state.positive or state.negative:
        return Number(INFINITY, state.negative, _0, _0, _I(0))
    return total


@inlined
def normalized(x: Factor, y: Factor) -> Number:
    """Return the product of finite factors of at most 32 bits."""
    significand = x.significand * y.significand
    if significand == _0:
        return Number(FINITE, False, _0, _0, _I(0))
    up = _I(64) - bit_length(significand)
    return Number(FINITE, x.negative != y.negative, significand << _U(up), _0, x.exponent + y.exponent - up)


@helper
def exact_step(
    x: Row, y: Row, places: Words, start: int, stop: int, c: Factor, words: Words, base: np.int64
) -> Number:
    """Return the exact sum of the products at some places and c, whose bits lie above the words' base."""
    state = joined_one(State(False, False, False), c)
    words[:] = _0
    for k in places[start:stop]:
        a, b = factor(x, k), factor(y, k)
        state = joined(state, a, b)
        if a.kind == FINITE and b.kind == FINITE:
            add_number(words, base, normalized(a, b))
    if c.kind == FINITE:
        add_number(words, base, normalized(c, Factor(FINITE, False, _1, _I(0), _I(0))))
    return settled(state, number_of_sum(words, base))
