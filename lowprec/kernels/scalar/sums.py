"""Sums of the terms of a dot product, in integers: in sequence, in pairs, in chunks, and exact ones.

The running sum is a code of the accumulator; every sum goes through `convert.project`, and what
an exact sum loses marks its last bit (`rounding.odd`).

Floor 2b. Imports numba through `jit`; never the oracle, which checks it.

Notation, beside that of `numbers`:

    term    a product, or the exact sum of a block's products times its scales
    stage   where numbers are kept: how they are projected, and how they are read back
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lowprec.kernels.general.numbers import word_product
from lowprec.kernels.jit import helper, inlined, load_record
from lowprec.kernels.lower.dot import BEGIN, DOWNWARD, SOURCE, START, How, Stages
from lowprec.kernels.lower.kinds import FINITE, GENERATED, INFINITY, NAN
from lowprec.kernels.lower.scalar import Grid, Params
from lowprec.kernels.random import philox
from lowprec.kernels.scalar.arith import multiplied
from lowprec.kernels.scalar.exact_sum import add_number, number_of_sum, scale_sum
from lowprec.kernels.scalar.numbers import Number, shifted_up
from lowprec.kernels.scalar.rounding import odd
from lowprec.kernels.scalar.stages import Stage, number_of, placed, summed
from lowprec.kernels.scalar.windows import (
    Operand,
    Row,
    State,
    exact_step,
    factor,
    factor_of,
    number,
    settled,
)

__all__ = ["Dot", "Work", "begun", "drawn", "in_order", "precisely", "scaled"]

Words = npt.NDArray[Any]  #: of uint64

_U = np.uint64
_I = np.int64
_0, _1, _2, _3, _32, _TOP = _U(0), _U(1), _U(2), _U(3), _U(32), _U(1 << 63)
_LOW = _U(0xFFFFFFFF)

_ZERO = Number(FINITE, False, _0, _0, _I(0))


class Work(NamedTuple):
    """Arrays in which outputs are computed, one after the other."""

    words: Words  #: of an exact sum
    spare: Words  #: of another beside it
    leaves: Words  #: numbers in a row, four words each
    places: Words  #: in which order steps take products
    steps: Words  #: of a tree: see `additions`
    counter: Words  #: roundings so far, of one output
    key: np.uint64


class Dot(NamedTuple):
    """Operands and parameters of one output."""

    x: Operand
    y: Operand
    how: Params  #: see `How`
    stages: Words  #: see `Stages`
    element: Any  #: the number of the output, on which random integers depend
    work: Work


@inlined
def leaf(leaves: Words, i: int) -> Number:
    """Return the number at a place."""
    mark = leaves[i, 0]
    return Number(_I(mark >> _1), mark & _1 != _0, leaves[i, 1], leaves[i, 2], _I(leaves[i, 3]))


@helper
def put(leaves: Words, i: int, x: Number) -> None:
    """Set the number at a place."""
    leaves[i, 0] = _U(min(x.kind, NAN)) << _1 | _U(x.negative)
    leaves[i, 1], leaves[i, 2], leaves[i, 3] = x.high, x.low, _U(x.exponent)


@helper
def drawn(stage: Stage, element: np.uint64, work: Work) -> np.uint64:
    """Return the random integer of the next rounding, if it is stochastic."""
    bits, step = load_record(Grid, stage, 0).bits, work.counter[0]
    work.counter[0] = step + _1
    if bits == _0:
        return _0
    block, key = element >> _2, work.key
    w0, w1, w2, w3 = philox(block & _LOW, block >> _32, step + _2, _0, key & _LOW, key >> _32)
    at = element & _3
    word = w0 if at == _0 else w1 if at == _1 else w2 if at == _2 else w3
    return word >> (_32 - bits)


# -- terms -------------------------------------------------------------------------------------------


@helper
def times(x: Number, y: Number) -> Number:
    """Multiply two numbers of 64 bits, without rounding."""
    if x.kind >= NAN or y.kind >= NAN:
        return x if x.kind >= NAN and (x.kind != GENERATED or y.kind < NAN) else y
    made = multiplied(x, y)
    return Number(made.kind, made.negative, made.high, made.low, made.exponent)


@helper
def scaled(x: Number, y: Number) -> Number:
    """Multiply numbers of 128 and of 64 bits, rounded to odd at 128."""
    if x.kind != FINITE or y.kind != FINITE or x.low == _0 or y.high == _0:
        return times(x, y)
    carry, low = word_product(x.low, y.high)
    high, middle = word_product(x.high, y.high)
    middle += carry
    high += _U(middle < carry)
    exponent = x.exponent + y.exponent + _I(64)
    up = _I(high < _TOP)
    high, middle, low = shifted_up(high, middle, low, up)
    return Number(FINITE, x.negative != y.negative, high, odd(middle, low != _0), exponent - up)


@helper
def product_at(x: Row, y: Row, k: int) -> Number:
    """Return the product of two elements, or of the scales of two blocks."""
    return times(number(factor(x, k)), number(factor(y, k)))


# -- exact sums --------------------------------------------------------------------------------------


class Seen(NamedTuple):
    """Infinities and NaNs among the terms of an exact sum, and the count of negative terms."""

    state: State
    nan: Number
    negatives: Any


_NOTHING_SEEN = Seen(State(False, False, False), _ZERO, _I(0))


@helper
def joined(seen: Seen, x: Number, words: Words, base: np.int64) -> Seen:
    """Add a term to an exact sum. The first NaN counts, unless an operation generated it."""
    state, nan = seen.state, seen.nan
    if x.kind >= NAN and (nan.kind == FINITE or (nan.kind == GENERATED and x.kind != GENERATED)):
        nan = x
    if x.kind == INFINITY:
        state = State(state.nan, state.positive or not x.negative, state.negative or x.negative)
    if x.kind == FINITE:
        add_number(words, base, x)
    return Seen(state, nan, seen.negatives + _I(x.negative))


@helper
def whole(seen: Seen, count: Any, downward: bool, words: Words, base: np.int64) -> Number:
    """Return an exact sum, rounded to odd at 128 bits. A zero is -0 if all terms are negative."""
    if seen.nan.kind != FINITE:
        return seen.nan
    total = number_of_sum(words, base)
    if total.high == _0:
        negative = seen.negatives > 0 and (seen.negatives == count or downward)
        total = Number(FINITE, negative, _0, _0, _I(0))
    return settled(seen.state, total)


@helper
def block_sum(dot: Dot, block: int, downward: bool, words: Words) -> Number:
    """Return the exact sum of a block's products, times its scales."""
    start, base = block * dot.how[How.BLOCK], dot.how[How.BASE]
    x, y, seen = dot.x.elements, dot.y.elements, _NOTHING_SEEN
    stop = min(start + dot.how[How.BLOCK], x.shape[0])
    words[:] = _0
    for k in range(start, stop):
        seen = joined(seen, product_at(x, y, k), words, base)
    return scaled(
        whole(seen, stop - start, downward, words, base), product_at(dot.x.scales, dot.y.scales, block)
    )


@inlined
def needs_sum(scale: Number) -> bool:
    """Return whether a scale must multiply the sum of products, not each: zeros, infinities and NaNs."""
    return bool(scale.kind != FINITE or scale.high == _0)


@helper
def zero_of_blocks(given: bool, addend: Number, dot: Dot, downward: bool) -> Number:
    """Return a sum that is zero, whose terms are blocks: their sums may have other signs than products."""
    block, stop, terms, negatives = 0, dot.x.elements.shape[0], _I(given), _I(given and addend.negative)
    while block * dot.how[How.BLOCK] < stop:
        negatives += _I(block_sum(dot, block, downward, dot.work.spare).negative)
        terms, block = terms + _I(1), block + 1
    return Number(FINITE, negatives > 0 and (negatives == terms or downward), _0, _0, _I(0))


@helper
def precisely(given: bool, addend: Number, dot: Dot, downward: bool) -> Number:
    """Return the sum of all products and the addend, times the tensors' scales."""
    x, y, seen, terms = dot.x.elements, dot.y.elements, _NOTHING_SEEN, _I(given)
    how, words, base = dot.how, dot.work.words, dot.how[How.BASE]
    words[:] = _0
    for k in range(x.shape[0]):
        made = product_at(x, y, k)
        if how[How.BLOCK] != 0:
            block = k // how[How.BLOCK]
            by = product_at(dot.x.scales, dot.y.scales, block)
            if needs_sum(by):
                if k % how[How.BLOCK] == 0:
                    seen = joined(seen, block_sum(dot, block, downward, dot.work.spare), words, base)
                    terms += _I(1)
                continue
            made = scaled(made, by)
        seen = joined(seen, made, words, base)
        terms += _I(1)
    if given:
        seen = joined(seen, addend, words, base)
    if how[How.TENSOR] != 1:
        scale_sum(words, _U(how[How.TENSOR]))
    made = whole(seen, terms, downward, words, base)
    if how[How.BLOCK] != 0 and made.kind == FINITE and made.high == _0:
        made = zero_of_blocks(given, addend, dot, downward)
    if made.kind == FINITE:
        made = Number(FINITE, made.negative, made.high, made.low, made.exponent + how[How.TENSOR_EXPONENT])
    return made


@inlined
def term_at(dot: Dot, k: int) -> Number:
    """Return the product of two elements, or of two blocks."""
    if dot.how[How.BLOCK] == 0:
        return product_at(dot.x.elements, dot.y.elements, k)
    into = Stages.PRODUCT if dot.how[How.ROUNDS_PRODUCTS] != 0 else Stages.SUM
    return block_sum(dot, k, dot.stages[into, DOWNWARD] != _0, dot.work.words)


@inlined
def as_added(made: Number, dot: Dot) -> Number:
    """Return a term, rounded if products are."""
    if dot.how[How.ROUNDS_PRODUCTS] != 0:
        return number_of(placed(made, _0, dot.stages[Stages.PRODUCT]), dot.stages[Stages.PRODUCT])
    return made


# -- orders ------------------------------------------------------------------------------------------


@helper
def in_sequence(code: np.uint64, dot: Dot, start: int, stop: int) -> np.uint64:
    """Add terms to a running sum in order. A term's NaN precedes the sum's, unless it was rounded."""
    how, stage, work = dot.how, dot.stages[Stages.SUM], dot.work
    for k in range(start, stop):
        made, total = as_added(term_at(dot, k), dot), number_of(code, stage)
        if how[How.ROUNDS_PRODUCTS] != 0:
            made, total = total, made
        code = summed(made, total, drawn(stage, dot.element, work), stage)
    return code


@helper
def in_pairs(count: int, dot: Dot) -> Number:
    """Add `count` leaves, which are overwritten: neighbours, then neighbours of their sums."""
    if count == 0:
        return _ZERO
    work, leaves, stage = dot.work, dot.work.leaves, dot.stages[Stages.SUM]
    if count == 1:
        return number_of(placed(leaf(leaves, 0), drawn(stage, dot.element, work), stage), stage)
    while count > 1:
        for i in range(count // 2):
            code = summed(
                leaf(leaves, 2 * i), leaf(leaves, 2 * i + 1), drawn(stage, dot.element, work), stage
            )
            put(leaves, i, number_of(code, stage))
        if count % 2:
            put(leaves, count // 2, leaf(leaves, count - 1))
        count -= count // 2
    return leaf(leaves, 0)


@helper
def in_windows(code: np.uint64, dot: Dot, start: int, stop: int) -> np.uint64:
    """Add exact steps of products to a running sum: a code of `begin`, after them of `sum`."""
    x, y, how, work, stage = dot.x, dot.y, dot.how, dot.work, dot.stages[Stages.SUM]
    places = work.places
    c = factor_of(code, dot.stages[Stages.BEGIN, SOURCE:])
    alternate, first, last = how[How.ALTERNATE] != 0, start, start
    while last < stop:
        first, last = last, min(last + how[How.WINDOW], stop)
        if (
            alternate and (first - start) % (2 * how[How.WINDOW]) == 0
        ):  # of the pairs that are left, every other one
            left = min(stop - first, 2 * how[How.WINDOW])
            last = first + left // 4 * 2 + min(left % 4, 2)
        made = exact_step(x.elements, y.elements, places, first, last, c, work.words, how[How.BASE])
        if made.kind == FINITE and made.high != _0 and made.exponent + _I(63) >= how[How.TOP]:
            made = Number(INFINITY, made.negative, _0, _0, _I(0))
        code = placed(made, drawn(stage, dot.element, work), stage)
        c = factor_of(code, stage[SOURCE:])
        if how[How.NEGATIVE_ZERO] == 0 and made.kind == FINITE and c.kind == FINITE and c.significand == _0:
            code = placed(_ZERO, _0, stage)
            c = factor_of(code, stage[SOURCE:])
    return code


@inlined
def begun(given: bool, addend: np.uint64, dot: Dot) -> np.uint64:
    """Return the code that the running sum begins with: the addend's, if there is one, or zero's."""
    return addend if given else placed(_ZERO, _0, dot.stages[Stages.BEGIN])


@helper
def part_of(code: np.uint64, dot: Dot, first: int, stop: int) -> Number:
    """Add some terms to a running sum, in sequence or in steps: these begin in BEGIN's format, else SUM's."""
    if dot.how[How.WINDOW] == 0:
        code = in_sequence(code, dot, first, stop)
    elif first == stop:
        return number_of(code, dot.stages[Stages.BEGIN])
    else:
        code = in_windows(code, dot, first, stop)
    return number_of(code, dot.stages[Stages.SUM])


@helper
def joined_at(first: int, count: int, dot: Dot, downward: bool) -> Number:
    """Return the exact sum of `count` leaves, rounded to odd at 128 bits."""
    seen, words, base = _NOTHING_SEEN, dot.work.words, dot.how[How.BASE]
    words[:] = _0
    for i in range(first, first + count):
        seen = joined(seen, leaf(dot.work.leaves, i), words, base)
    return whole(seen, count, downward, words, base)


@helper
def in_groups(given: bool, addend: np.uint64, dot: Dot) -> Number:
    """Sum as a tree does: the leaves are a stack."""
    work, leaves, stage, depth = dot.work, dot.work.leaves, dot.stages[Stages.SUM], 0
    for step in work.steps[1:]:
        if step >= 0:
            made = as_added(term_at(dot, step), dot)
        elif step >= BEGIN:
            code = begun(given and step != START, addend, dot)
            made = number_of(code, dot.stages[Stages.BEGIN])
        else:
            count, mixed = (-step - 3) // 2, step % 2 == 0
            depth -= count
            for i in range(depth, depth + count):
                if not mixed:  # NaNs that operations generated count like others
                    put(leaves, i, leaf(leaves, i))
            if count == 2:
                random = drawn(stage, dot.element, work)
                code = summed(leaf(leaves, depth), leaf(leaves, depth + 1), random, stage)
            else:
                made = leaf(leaves, depth)
                if count > 1:
                    made = joined_at(depth, count, dot, stage[DOWNWARD] != _0)
                code = placed(made, drawn(stage, dot.element, work), stage)
            made = number_of(code, stage)
        put(leaves, depth, made)
        leaves[depth, 0] = _U(made.kind) << _1 | _U(made.negative)  # which NaNs an operation generated
        depth += 1
    return leaf(leaves, 0)


@helper
def in_order(given: bool, addend: np.uint64, dot: Dot, terms: int) -> Number:
    """Return the sum in sequence, in pairs, of chunks, or as a tree; an addend comes first."""
    how, stages, leaves = dot.how, dot.stages, dot.work.leaves
    begin, total = stages[Stages.BEGIN], stages[Stages.TOTAL]
    if dot.work.steps.size > 0:
        return in_groups(given, addend, dot)
    if how[How.CHUNK] == 0 and how[How.PAIRWISE] == 0:
        return part_of(begun(given, addend, dot), dot, 0 * terms, terms)
    if how[How.CHUNK] == 0:
        count = 0
        if given:
            put(leaves, count, number_of(addend, begin))
            count += 1
        for k in range(terms):
            put(leaves, count, as_added(term_at(dot, k), dot))
            count += 1
        return in_pairs(count, dot)
    code = begun(given, addend, dot)
    for start in range(0, terms, how[How.CHUNK]):
        stop = min(start + how[How.CHUNK], terms)
        if how[How.PAIRWISE] != 0:
            for k in range(start, stop):
                put(leaves, k - start, as_added(term_at(dot, k), dot))
            made = in_pairs(stop - start, dot)
        else:
            nothing = placed(_ZERO, _0, begin if how[How.WINDOW] != 0 else stages[Stages.SUM])
            made = part_of(nothing, dot, start, stop)
        code = summed(number_of(code, total), made, drawn(total, dot.element, dot.work), total)
    return number_of(code, total)
