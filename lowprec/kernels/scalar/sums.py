"""Sums of the terms of a dot product, in integers: in sequence, in pairs, in chunks, and exact ones.

The running sum is a code of the accumulator; every sum goes through `convert.project`.

Floor 2b. Imports numba through `jit`; never the oracle, which checks it.

Notation, beside that of `numbers`:

    term    a product, or the exact sum of a block's products times its scales
    stage   where numbers are kept: how they are projected, and how they are read back
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lowprec.kernels.jit import helper, inlined, load_record
from lowprec.kernels.lower.dot import DOWNWARD, SOURCE, How, Scales, Stages
from lowprec.kernels.lower.kinds import FINITE, GENERATED, INFINITY, NAN
from lowprec.kernels.lower.scalar import Grid, Params
from lowprec.kernels.random import philox
from lowprec.kernels.scalar.arith import multiplied
from lowprec.kernels.scalar.exact_sum import add_number, number_of_sum, scale_sum
from lowprec.kernels.scalar.numbers import Number, long_product, shifted_up
from lowprec.kernels.scalar.rounding import odd
from lowprec.kernels.scalar.stages import Stage, number_of, placed, summed
from lowprec.kernels.scalar.windows import (
    Panel,
    State,
    exact_step,
    factor,
    factor_of,
    group_window,
    number,
    settled,
    window,
)

__all__ = ["Operand", "Work", "drawn", "in_order", "precisely", "scaled"]

Words = npt.NDArray[Any]  #: of uint64

_U = np.uint64
_I = np.int64
_0, _1, _2, _3, _32, _TOP = _U(0), _U(1), _U(2), _U(3), _U(32), _U(1 << 63)
_LOW = _U(0xFFFFFFFF)

_ZERO = Number(FINITE, False, _0, _0, _I(0))


class Operand(NamedTuple):
    """One side of the products, read: the elements, and their scales if they are in blocks."""

    elements: Panel
    scales: Panel


class Work(NamedTuple):
    """What one output after the other is made with."""

    words: Words  #: of an exact sum
    spare: Words  #: of another beside it
    leaves: Words  #: numbers in a row, four words each
    places: Words  #: in which order steps take products
    counter: Words  #: roundings so far, of one output
    key: np.uint64


@inlined
def leaf(leaves: Words, i: int) -> Number:
    """The number at a place."""
    mark = leaves[i, 0]
    return Number(_I(mark >> _1), mark & _1 != _0, leaves[i, 1], leaves[i, 2], _I(leaves[i, 3]))


@helper
def put(leaves: Words, i: int, x: Number) -> None:
    """Set the number at a place."""
    leaves[i, 0] = _U(min(x.kind, NAN)) << _1 | _U(x.negative)
    leaves[i, 1], leaves[i, 2], leaves[i, 3] = x.high, x.low, _U(x.exponent)


@helper
def drawn(stage: Stage, element: np.uint64, work: Work) -> np.uint64:
    """The random integer of the next rounding, if it is stochastic."""
    bits, step = load_record(Grid, stage, 0).bits, work.counter[0]
    work.counter[0] = step + _1
    if bits == _0:
        return _0
    block, key = element >> _2, work.key
    w0, w1, w2, w3 = philox(block & _LOW, block >> _32, step + _2, _0, key & _LOW, key >> _32)
    lane = element & _3
    word = w0 if lane == _0 else w1 if lane == _1 else w2 if lane == _2 else w3
    return word >> (_32 - bits)


# -- terms -------------------------------------------------------------------------------------------


@helper
def times(x: Number, y: Number) -> Number:
    """The product of two numbers of 64 bits, without rounding."""
    if x.kind >= NAN or y.kind >= NAN:
        return x if x.kind >= NAN and (x.kind != GENERATED or y.kind < NAN) else y
    made = multiplied(x, y)
    return Number(made.kind, made.negative, made.high, made.low, made.exponent)


@helper
def scaled(x: Number, y: Number) -> Number:
    """The product of a number of 128 bits and one of 64, rounded to odd at 128."""
    if x.kind != FINITE or y.kind != FINITE or x.low == _0 or y.high == _0:
        return times(x, y)
    carry, low = long_product(x.low, y.high)
    high, middle = long_product(x.high, y.high)
    middle += carry
    high += _U(middle < carry)
    exponent = x.exponent + y.exponent + _I(64)
    up = _I(high < _TOP)
    high, middle, low = shifted_up(high, middle, low, up)
    return Number(FINITE, x.negative != y.negative, high, odd(middle, low != _0), exponent - up)


@helper
def product_at(x: Operand, i: int, y: Operand, j: int, k: int) -> Number:
    """The product of two elements."""
    return times(number(factor(x.elements, i, k)), number(factor(y.elements, j, k)))


@helper
def scale_at(x: Operand, i: int, y: Operand, j: int, block: int) -> Number:
    """The product of the scales of two blocks."""
    return times(number(factor(x.scales, i, block)), number(factor(y.scales, j, block)))


# -- exact sums --------------------------------------------------------------------------------------


class Seen(NamedTuple):
    """What an exact sum leaves to say: of infinities and NaN among the terms, and how many are negative."""

    state: State
    nan: Number
    negatives: Any


_NOTHING_SEEN = Seen(State(False, False, False), _ZERO, _I(0))


@helper
def joined(seen: Seen, x: Number, how: Params, work: Work) -> Seen:
    """An exact sum with one more term. The first NaN counts, unless an operation generated it."""
    state, nan = seen.state, seen.nan
    if x.kind >= NAN and (nan.kind == FINITE or (nan.kind == GENERATED and x.kind != GENERATED)):
        nan = x
    if x.kind == INFINITY:
        state = State(state.nan, state.positive or not x.negative, state.negative or x.negative)
    if x.kind == FINITE:
        add_number(work.words, how[How.BASE], x)
    return Seen(state, nan, seen.negatives + _I(x.negative))


@helper
def whole(seen: Seen, count: Any, downward: bool, how: Params, work: Work) -> Number:
    """An exact sum of so many terms, rounded to odd at 128 bits. A zero is -0 if all terms are negative."""
    if seen.nan.kind != FINITE:
        return seen.nan
    total = number_of_sum(work.words, how[How.BASE])
    if total.high == _0:
        negative = seen.negatives > 0 and (seen.negatives == count or downward)
        total = Number(FINITE, negative, _0, _0, _I(0))
    return settled(seen.state, total)


@helper
def block_sum(x: Operand, i: int, y: Operand, j: int, block: int, downward: bool, how: Params, work: Work) -> Number:
    """The exact sum of a block's products, times its scales."""
    start = block * how[How.BLOCK]
    stop, seen = min(start + how[How.BLOCK], x.elements.shape[1]), _NOTHING_SEEN
    work.words[:] = _0
    for k in range(start, stop):
        seen = joined(seen, product_at(x, i, y, j, k), how, work)
    return scaled(whole(seen, stop - start, downward, how, work), scale_at(x, i, y, j, block))


@inlined
def is_nothing(scale: Number) -> bool:
    """Whether a scale is zero."""
    return bool(scale.kind == FINITE and scale.high == _0)


@helper
def precisely(
    given: bool, addend: Number, x: Operand, i: int, y: Operand, j: int, how: Params, downward: bool, work: Work
) -> Number:
    """The sum of all products and the addend, times the tensors' scales."""
    length, seen, terms = x.elements.shape[1], _NOTHING_SEEN, _I(given)
    aside = Work(work.spare, work.spare, work.leaves, work.places, work.counter, work.key)
    work.words[:] = _0
    for k in range(length):
        made = product_at(x, i, y, j, k)
        if how[How.BLOCK] != 0:
            block = k // how[How.BLOCK]
            by = scale_at(x, i, y, j, block)
            if is_nothing(by):  # a block times zero is a zero with the sign of its sum, not of its products
                if k % how[How.BLOCK] == 0:
                    seen = joined(seen, block_sum(x, i, y, j, block, downward, how, aside), how, work)
                    terms += _I(1)
                continue
            made = scaled(made, by)
        seen = joined(seen, made, how, work)
        terms += _I(1)
    if given:
        seen = joined(seen, addend, how, work)
    if how[How.TENSOR] != 1:
        scale_sum(work.words, _U(how[How.TENSOR]))
    made = whole(seen, terms, downward, how, work)
    if made.kind == FINITE:
        made = Number(FINITE, made.negative, made.high, made.low, made.exponent + how[How.TENSOR_EXPONENT])
    return made


@helper
def term(x: Operand, i: int, y: Operand, j: int, k: int, how: Params, stages: Words, work: Work) -> Number:
    """A term, rounded if products are."""
    if how[How.BLOCK] == 0:
        made = product_at(x, i, y, j, k)
    else:
        into = Stages.PRODUCT if how[How.ROUNDS_PRODUCTS] != 0 else Stages.SUM
        made = block_sum(x, i, y, j, k, stages[into, DOWNWARD] != _0, how, work)
    if how[How.ROUNDS_PRODUCTS] != 0:
        return number_of(placed(made, _0, stages[Stages.PRODUCT]), stages[Stages.PRODUCT])
    return made


# -- orders ------------------------------------------------------------------------------------------


@helper
def in_sequence(
    code: np.uint64, x: Operand, i: int, y: Operand, j: int, start: int, stop: int, how: Params, stages: Words,
    element: np.uint64, work: Work,
) -> np.uint64:  # fmt: skip
    """A running sum with terms, one after the other. A term's NaN comes before the sum's, unless it was rounded."""
    for k in range(start, stop):
        made, total = term(x, i, y, j, k, how, stages, work), number_of(code, stages[Stages.SUM])
        if how[How.ROUNDS_PRODUCTS] != 0:
            made, total = total, made
        code = summed(made, total, drawn(stages[Stages.SUM], element, work), stages[Stages.SUM])
    return code


@helper
def in_pairs(count: int, stages: Words, element: np.uint64, work: Work) -> Number:
    """The sum of so many leaves: neighbours, then neighbours of their sums. They are used up."""
    if count == 0:
        return _ZERO
    while count > 1:
        for i in range(count // 2):
            word = drawn(stages[Stages.SUM], element, work)
            code = summed(leaf(work.leaves, 2 * i), leaf(work.leaves, 2 * i + 1), word, stages[Stages.SUM])
            put(work.leaves, i, number_of(code, stages[Stages.SUM]))
        if count % 2:
            put(work.leaves, count // 2, leaf(work.leaves, count - 1))
        count -= count // 2
    return leaf(work.leaves, 0)


@helper
def in_windows(
    code: np.uint64, x: Operand, i: int, y: Operand, j: int, start: int, stop: int, how: Params, stages: Words,
    element: np.uint64, work: Work,
) -> np.uint64:  # fmt: skip
    """A running sum with steps of products. The code is one of `begin` before them, and after them of `sum`."""
    bits, lowest, floor = how[How.FRACTION_BITS], how[How.LOWEST], how[How.FLOOR] != 0
    c = factor_of(code, stages[Stages.BEGIN, SOURCE:])
    alternate, first, last = how[How.ALTERNATE] != 0, start, start
    while last < stop:
        first, last = last, min(last + how[How.WINDOW], stop)
        if alternate and (first - start) % (2 * how[How.WINDOW]) == 0:  # of the pairs that are left, every other one
            left = min(stop - first, 2 * how[How.WINDOW])
            last = first + left // 4 * 2 + min(left % 4, 2)
        if how[How.FRACTION_BITS] < 0:
            made = exact_step(x.elements, i, y.elements, j, work.places, first, last, c, work.words, how[How.BASE])
        elif how[How.SCALES] == Scales.GROUPS:
            made = group_window(
                x.elements, i, y.elements, j, x.scales, y.scales, how[How.BLOCK], how[How.LAST], first, last,
                how[How.GROUP], c, bits, lowest, floor,
            )  # fmt: skip
        else:
            raised, poisoned = _I(0), False
            if how[How.SCALES] == Scales.PRODUCTS:
                a, b = factor(x.scales, i, first // how[How.BLOCK]), factor(y.scales, j, first // how[How.BLOCK])
                raised = a.exponent + a.bits + b.exponent + b.bits
                poisoned = a.kind != FINITE or b.kind != FINITE
            made = window(
                x.elements, i, y.elements, j, work.places, first, last, c, raised, bits, lowest, floor, poisoned
            )
        if made.kind == FINITE and made.high != _0 and made.exponent + _I(63) >= how[How.TOP]:
            made = Number(INFINITY, made.negative, _0, _0, _I(0))
        code = placed(made, drawn(stages[Stages.SUM], element, work), stages[Stages.SUM])
        c = factor_of(code, stages[Stages.SUM, SOURCE:])
        if how[How.NEGATIVE_ZERO] == 0 and made.kind == FINITE and c.kind == FINITE and c.significand == _0:
            code = placed(_ZERO, _0, stages[Stages.SUM])
            c = factor_of(code, stages[Stages.SUM, SOURCE:])
    return code


@helper
def part_of(
    start: Number, x: Operand, i: int, y: Operand, j: int, first: int, stop: int, how: Params, stages: Words,
    element: np.uint64, work: Work,
) -> Number:  # fmt: skip
    """A number with some terms, in sequence or in steps."""
    if how[How.WINDOW] != 0:
        code = placed(start, _0, stages[Stages.BEGIN])
        if first == stop:
            return number_of(code, stages[Stages.BEGIN])
        code = in_windows(code, x, i, y, j, first, stop, how, stages, element, work)
    else:
        code = in_sequence(placed(start, _0, stages[Stages.SUM]), x, i, y, j, first, stop, how, stages, element, work)
    return number_of(code, stages[Stages.SUM])


@helper
def in_order(
    given: bool, addend: Number, x: Operand, i: int, y: Operand, j: int, terms: int, how: Params, stages: Words,
    element: np.uint64, work: Work,
) -> Number:  # fmt: skip
    """The sum in sequence, in pairs, or of chunks; with the addend at first, if there is one."""
    if how[How.CHUNK] == 0 and how[How.PAIRWISE] == 0:
        return part_of(addend if given else _ZERO, x, i, y, j, 0 * terms, terms, how, stages, element, work)
    if how[How.CHUNK] == 0:
        count = 0
        if given:
            put(work.leaves, count, addend)
            count += 1
        for k in range(terms):
            put(work.leaves, count, term(x, i, y, j, k, how, stages, work))
            count += 1
        return in_pairs(count, stages, element, work)
    code = placed(addend if given else _ZERO, _0, stages[Stages.TOTAL])
    for start in range(0, terms, how[How.CHUNK]):
        stop = min(start + how[How.CHUNK], terms)
        if how[How.PAIRWISE] != 0:
            for k in range(start, stop):
                put(work.leaves, k - start, term(x, i, y, j, k, how, stages, work))
            made = in_pairs(stop - start, stages, element, work)
        else:
            made = part_of(_ZERO, x, i, y, j, start, stop, how, stages, element, work)
        code = summed(
            number_of(code, stages[Stages.TOTAL]),
            made,
            drawn(stages[Stages.TOTAL], element, work),
            stages[Stages.TOTAL],
        )
    return number_of(code, stages[Stages.TOTAL])
