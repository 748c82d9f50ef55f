"""Sums of products in 64-bit lanes: one term after the other of a tile of outputs, in any order.

A sum is projected to a code of its stage and read back after every addition, by the functions that operations
have; `numbers` and `operations` say why 64 bits suffice, and `serves` for which formats.

Floor 2b. Imports numba through `jit`; never the oracle, which checks it.

Notation:

    tile    a range of outputs; its words are rows of TILE: factors, numbers, random integers
    stage   where numbers are kept: how they are projected, and how they are read back
    term    a product, or the sum of the products of two blocks times their scales
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lowprec.kernels.general.numbers import Lane, pick, read
from lowprec.kernels.general.operations import (
    Context,
    Outcome,
    add,
    bits_of,
    fma,
    lane,
    long_number,
    long_sum,
    multiply,
    serves as serves_operation,
    with_nans,
)
from lowprec.kernels.general.rounding import Target, drawn_limit, load_target, project, project_usual
from lowprec.kernels.jit import helper, in_wide_vectors, inlined, jit, load_record
from lowprec.kernels.lower.dot import ADD_TERM, BEGIN, DOWNWARD, ROUND, SOURCE, How, Stages
from lowprec.kernels.lower.records import Grid, Params, Source
from lowprec.kernels.lower.words import POWERS
from lowprec.kernels.random import philox_fill
from lowprec.kernels.vector.ir.longs import LONGS
from lowprec.spec.accumulation import Accumulation
from lowprec.spec.format import Format
from lowprec.spec.order import EXACT

__all__ = ["NO_BLOCKS", "Blocks", "factors", "kernel", "serves"]

Words = npt.NDArray[Any]  #: of uint64

_U = np.uint64
_I = np.int64
_0, _1, _2, _3, _4, _32, _40 = _U(0), _U(1), _U(2), _U(3), _U(4), _U(32), _U(40)
_63, _LOW = _I(63), _U((1 << 32) - 1)

#: Outputs per tile; its words fit the nearest cache.
_TILE = 256

#: Where the words of a tile have both factors, sums and terms in three rows each, and lower words of terms.
_X, _Y, _SUMS, _TERMS, _LOWER, _RANDOM = (row * _TILE for row in (0, 1, 2, 5, 8, 9))
_NUMBERS = 3 * _TILE

#: Bits of a significand in a word of `factors`.
_FACTOR_BITS = 32

_BITS = Grid._fields.index("bits")


class Blocks(NamedTuple):
    """Sums of products of blocks: those of `parts[k]`, integers shifted up by `shifts`, times 2**base."""

    parts: Any  #: int64, shape (blocks, numbers in a sum, outputs); empty where there are no blocks
    shifts: Any
    base: Any
    minus: Any  #: whether a sum that is zero is -0, shape (blocks, outputs)


class Tile(NamedTuple):
    """A range of outputs, and what they are made with."""

    x: Words  #: factors, or scales of blocks, shape (K, rows); see `factors`
    y: Words
    blocks: Blocks
    words: Words
    waiting: Words  #: sums in pairs without a partner yet
    room: Any  #: of random integers
    start: Any
    count: Any
    columns: Any
    paired: Any  #: whether output i has row i of both sides
    element: Any  #: the number of the first output, on which random integers depend
    key: Any


@inlined
def load(words: Words, place: int, i: int) -> Lane:
    """Return a number of a tile."""
    marks = words[_U(place + 2 * _TILE + i)]
    negative, infinite, nan = marks & _1 != _0, marks & _2 != _0, marks & _4 != _0
    significand, exponent = words[_U(place + i)], _I(words[_U(place + _TILE + i)])
    return Lane(negative, significand, exponent, infinite, nan, False, False)


@inlined
def store(words: Words, place: int, i: int, x: Lane) -> None:
    """Write a number of a tile: its significand, its exponent, and what else it is."""
    words[_U(place + i)], words[_U(place + _TILE + i)] = x.significand, _U(x.exponent)
    words[_U(place + 2 * _TILE + i)] = _U(x.negative) | _U(x.infinite) << _1 | _U(x.nan) << _2


@helper
def copy(words: Words, start: int, into: Words, place: int) -> None:
    """Copy the numbers of a tile."""
    for i in range(_NUMBERS):
        into[_U(place + i)] = words[_U(start + i)]


@jit
def factors(codes: Words, source_words: Params) -> bool:
    """Replace codes by words: significand, marks as of `store`, exponent; return whether all are finite."""
    source, special = load_record(Source, source_words, 0), False
    for i in range(codes.size):
        x = read(codes[i], source, False)
        marks = _U(x.negative) | _U(x.infinite) << _1 | _U(x.nan) << _2
        codes[i] = pick(x.nan, _1, x.significand) | marks << _32 | _U(x.exponent) << _40
        special |= x.infinite | x.nan
    return not special


@inlined
def factor(word: np.uint64, finite: bool) -> Lane:
    """Return the number of a word."""
    negative, infinite, nan = word >> _32 & _1 != _0, word >> _32 & _2 != _0, word >> _32 & _4 != _0
    significand, exponent = word & _LOW, _I(word) >> _I(40)
    return Lane(negative, significand, exponent, (not finite) & infinite, (not finite) & nan, False, False)


@helper
def gather(tile: Tile, k: int) -> None:
    """Write both factors of product k of each output."""
    words, x, y = tile.words, tile.x[k], tile.y[k]
    if tile.paired:
        for i in range(tile.count):
            at = _U(tile.start + i)
            words[_U(_X + i)], words[_U(_Y + i)] = x[at], y[at]
        return
    row, column, done = tile.start // tile.columns, tile.start % tile.columns, 0
    while done < tile.count:
        some, left = min(tile.columns - column, tile.count - done), x[row]
        for i in range(some):
            words[_U(_X + done + i)], words[_U(_Y + done + i)] = left, y[_U(column + i)]
        row, column, done = row + 1, 0, done + some


@helper
def draw(tile: Tile, step: int, stage: Params) -> None:
    """Write the random integers of rounding `step` of each output, if the stage rounds stochastically."""
    bits = stage[_BITS]
    if bits == _0:
        return
    skipped = _I(tile.element & _3)
    philox_fill(tile.room, tile.element - _U(skipped), tile.key, _U(step) + _2)
    for i in range(tile.count):
        tile.words[_U(_RANDOM + i)] = _U(tile.room[_U(skipped + i)]) >> (_32 - bits)


@functools.cache
def steps(usual: bool, finite: bool, stochastic: bool) -> tuple[Any, Any, Any, Any]:
    """Return the steps that all outputs of a tile take, each compiled as a function.

    `fuse` adds products to the sums, `times` makes terms of them, `join` adds terms to the sums, and
    `settle` rounds the sums and writes their codes. `usual` says that all formats are so to `read` and to
    `project_usual`, `finite` that no factor is an infinity or a NaN.
    """
    place, name = project_usual if usual else project, f"{usual:d}{finite:d}{stochastic:d}"

    @inlined
    def code_of(found: Outcome, words: Words, i: int, target: Target) -> np.uint64:
        code, _ = place(found.made, found.invalid, _0, target, False, not usual)
        if stochastic:
            limit = drawn_limit(words[_U(_RANDOM + i)], target.grid)
            drawn, _ = place(found.made, found.invalid, limit, target, True, not usual)
            code = pick(target.grid.bits != _0, drawn, code)
        return code

    def fuse(words: Words, count: int, stage: Params) -> None:
        in_wide_vectors()
        target, source = load_target(stage), load_record(Source, stage, SOURCE)
        context = Context(stage[DOWNWARD] != _0, _0, stochastic, target)
        for i in range(count):
            x, y, z = (
                factor(words[_U(_X + i)], finite),
                factor(words[_U(_Y + i)], finite),
                load(words, _SUMS, i),
            )
            found = with_nans(fma(x, y, z, context), x, y, z, True, False, usual)
            store(words, _SUMS, i, read(code_of(found, words, i, target), source, usual))

    def times(words: Words, count: int, stage: Params, rounds: bool) -> None:
        in_wide_vectors()
        target, source = load_target(stage), load_record(Source, stage, SOURCE)
        context, none = Context(False, _0, False, target), lane(False, _0, _I(0), False)
        for i in range(count):
            x, y = factor(words[_U(_X + i)], finite), factor(words[_U(_Y + i)], finite)
            found = with_nans(multiply(x, y, none, context), x, y, none, False, False, usual)
            if rounds:
                store(words, _TERMS, i, read(code_of(found, words, i, target), source, usual))
            else:
                store(words, _TERMS, i, found.made)

    def join(words: Words, count: int, stage: Params) -> None:
        in_wide_vectors()
        target, source = load_target(stage), load_record(Source, stage, SOURCE)
        context, none = Context(stage[DOWNWARD] != _0, _0, stochastic, target), lane(False, _0, _I(0), False)
        for i in range(count):
            x, y = load(words, _SUMS, i), load(words, _TERMS, i)
            found = with_nans(add(x, y, none, context), x, y, none, False, False, usual)
            store(words, _SUMS, i, read(code_of(found, words, i, target), source, usual))

    def settle(words: Words, count: int, stage: Params) -> None:
        in_wide_vectors()
        target, source = load_target(stage), load_record(Source, stage, SOURCE)
        for i in range(count):
            code = code_of(Outcome(load(words, _SUMS, i), False, _0), words, i, target)
            store(words, _SUMS, i, read(code, source, usual))
            words[_U(_X + i)] = code

    made = [helper(step, f"sums_{step.__name__}_{name}") for step in (fuse, times, join, settle)]
    return made[0], made[1], made[2], made[3]


@inlined
def added(high: np.uint64, low: np.uint64, number: np.int64, shift: np.int64) -> tuple[np.uint64, np.uint64]:
    """Add a number that is shifted up to another of two words, all in two's complement."""
    up, near = _U(number) << _U(shift & _63), shift < _I(64)
    over = _U((number >> _I(1)) >> (_63 - (shift & _63)))
    made = low + pick(near, up, _0)
    return high + pick(near, over, up) + _U(made < low), made


@functools.cache
def block_steps(usual: bool, wide: bool) -> tuple[Any, Any]:
    """Return the steps of blocks: one makes terms of two of them, one adds those of two words."""
    place, name = project_usual if usual else project, f"{usual:d}{wide:d}"

    def terms(tile: Tile, k: int, stage: Params, rounds: bool) -> None:
        in_wide_vectors()
        words, start, blocks = tile.words, tile.start, tile.blocks
        parts, minus, many = blocks.parts[k], blocks.minus[k], blocks.shifts.size
        target, source = load_target(stage), load_record(Source, stage, SOURCE)
        for i in range(tile.count):
            high, low = added(_0, _0, parts[0, _U(start + i)], blocks.shifts[0] if wide else _I(0))
            if wide:
                for part in range(1, many):
                    high, low = added(high, low, parts[part, _U(start + i)], blocks.shifts[part])
            negative = high >> _U(63) != _0
            high = pick(negative, _0 - high - _U(low != _0), high)
            low = pick(negative, _0 - low, low)
            x, y = factor(words[_U(_X + i)], True), factor(words[_U(_Y + i)], True)
            negative = pick(high | low == _0, minus[_U(start + i)], negative) != (x.negative != y.negative)
            scale, exponent = x.significand * y.significand, blocks.base + x.exponent + y.exponent
            high, low = high * scale, low * scale
            significand = low
            if wide:
                short = high == _0
                high, low, exponent = long_number(
                    pick(short, low, high), pick(short, _0, low), pick(short, exponent, exponent + _I(64))
                )
                words[_U(_LOWER + i)] = low
                significand = high
                if rounds:
                    significand, exponent = high | _U(low != _0), exponent + _I(64)
            made = lane(negative, significand, exponent, False)
            if rounds:
                code, _ = place(made, False, _0, target, False, not usual)
                made = read(code, source, usual)
            store(words, _TERMS, i, made)

    def join_long(words: Words, count: int, stage: Params) -> None:
        in_wide_vectors()
        target, source = load_target(stage), load_record(Source, stage, SOURCE)
        context, none = Context(stage[DOWNWARD] != _0, _0, False, target), lane(False, _0, _I(0), False)
        for i in range(count):
            x, y = load(words, _SUMS, i), load(words, _TERMS, i)
            term = y.significand, words[_U(_LOWER + i)], y.exponent
            found = long_sum(x, *long_number(x.significand, _0, x.exponent), y, *term, context)
            found = with_nans(found, x, none, none, False, False, usual)
            code, _ = place(found.made, found.invalid, _0, target, False, not usual)
            store(words, _SUMS, i, read(code, source, usual))

    return helper(terms, f"sums_terms_{name}"), helper(join_long, f"sums_join_long_{name}")


@helper
def numbered(terms: int, size: int, start: int) -> int:
    """Return which rounding, level by level, adds the `size` terms from `start` on to the next ones."""
    step, half = 0, 1
    while half < size:
        step, terms, half = step + terms // 2, terms - terms // 2, 2 * half
    return step + start // (2 * size)


@helper
def open_sums(tile: Tile, place: int, addends: Words, source_words: Params) -> None:
    """Write addends as numbers; zeros where there are none."""
    for i in range(_NUMBERS):
        tile.words[_U(place + i)] = _0
    if addends.size != 0:
        source = load_record(Source, source_words, 0)
        for i in range(tile.count):
            store(tile.words, place, i, read(addends[_U(tile.start + i)], source, False))


@functools.cache
def kernel(usual: bool, finite: bool, stochastic: bool, words_of_terms: int = 0) -> Any:
    """Return the kernel of sums for such formats, factors and modes; see `steps`.

    `words_of_terms` is 0 for products. Terms of blocks have 1 or 2 words, in pairs 1 unless they are rounded.
    Called as kernel(x, y, blocks, addends, out, how, stages, steps, key, first, columns, paired): words of
    `factors`, shape (K, rows); codes of addends, if any, and of outputs, row by row; steps of `additions`.
    """
    fuse, times, join, settle = steps(usual, finite, stochastic)
    terms_of, join_long = block_steps(usual, words_of_terms == 2)
    blocked, name = words_of_terms > 0, f"{usual:d}{finite:d}{stochastic:d}{words_of_terms}"

    def in_sequence(tile: Tile, first: int, stop: int, step: int, stages: Words, rounds: bool) -> int:
        for k in range(first, stop):
            gather(tile, k)
            if blocked:
                terms_of(tile, k, stages[Stages.PRODUCT], rounds)
            elif rounds:
                times(tile.words, tile.count, stages[Stages.PRODUCT], rounds)
            draw(tile, step, stages[Stages.SUM])
            if words_of_terms == 2 and not rounds:
                join_long(tile.words, tile.count, stages[Stages.SUM])
            elif blocked or rounds:
                join(tile.words, tile.count, stages[Stages.SUM])
            else:
                fuse(tile.words, tile.count, stages[Stages.SUM])
            step += 1
        return step

    def in_pairs(
        tile: Tile, begins: bool, first: int, stop: int, step: int, stages: Words, rounds: bool,
    ) -> int:  # fmt: skip
        words, waiting, stage = tile.words, tile.waiting, stages[Stages.SUM]
        terms, depth = stop - first + begins, 0
        for number in range(terms):
            if begins and number == 0:
                copy(words, _SUMS, words, _TERMS)
            else:
                gather(tile, first + number - begins)
                if blocked:
                    terms_of(tile, first + number - begins, stages[Stages.PRODUCT], rounds)
                else:
                    times(words, tile.count, stages[Stages.PRODUCT], rounds)
            size = 1
            while (number + 1) // size % 2 == 0:
                depth -= 1
                copy(waiting, depth * _NUMBERS, words, _SUMS)
                draw(tile, step + numbered(terms, size, number + 1 - 2 * size), stage)
                join(tile.words, tile.count, stage)
                copy(words, _SUMS, words, _TERMS)
                size *= 2
            copy(words, _TERMS, waiting, depth * _NUMBERS)
            depth += 1
        rest = terms - (terms & -terms)
        while depth > 1:
            depth, size = depth - 1, rest & -rest
            rest -= size
            copy(waiting, (depth - 1) * _NUMBERS, words, _SUMS)
            copy(waiting, depth * _NUMBERS, words, _TERMS)
            draw(tile, step + numbered(terms, size, rest), stage)
            join(tile.words, tile.count, stage)
            copy(words, _SUMS, waiting, (depth - 1) * _NUMBERS)
        if terms > 0:
            copy(waiting, 0, words, _SUMS)
        if terms == 1:
            draw(tile, step, stage)
            settle(tile.words, tile.count, stage)
        return step + max(terms - 1, min(terms, 1))

    def in_groups(tile: Tile, addends: Words, begin: Words, steps: Words, stages: Words, rounds: bool) -> int:
        words, waiting, stage = tile.words, tile.waiting, stages[Stages.SUM]
        depth, drawn, at = 0, 0, 1  # the number on top of the stack is in _SUMS, those below it wait
        while at < steps.size:
            step, at = steps[at], at + 1
            if step >= BEGIN:
                if step >= 0 and depth > 0 and steps[at] == ADD_TERM:
                    gather(tile, step)
                    draw(tile, drawn, stage)
                    if rounds:
                        times(words, tile.count, stages[Stages.PRODUCT], rounds)
                        join(words, tile.count, stage)
                    else:
                        fuse(words, tile.count, stage)
                    at, drawn = at + 1, drawn + 1
                    continue
                if depth > 0:
                    copy(words, _SUMS, waiting, (depth - 1) * _NUMBERS)
                depth += 1
                if step >= 0:
                    gather(tile, step)
                    times(words, tile.count, stages[Stages.PRODUCT], rounds)
                    copy(words, _TERMS, words, _SUMS)
                else:
                    open_sums(tile, _SUMS, addends[: addends.size * (step == BEGIN)], begin)
                continue
            draw(tile, drawn, stage)
            drawn += 1
            if step == ROUND:
                settle(words, tile.count, stage)
                continue
            depth -= 1
            copy(words, _SUMS, words, _TERMS)
            copy(waiting, (depth - 1) * _NUMBERS, words, _SUMS)
            join(words, tile.count, stage)
        return drawn

    in_groups = helper(in_groups, f"sums_groups_{name}")
    in_sequence = helper(in_sequence, f"sums_sequence_{name}")
    in_pairs = helper(in_pairs, f"sums_pairs_{name}")

    def run(
        x: Words, y: Words, blocks: Blocks, addends: Words, out: Words, how: Params, stages: Words,
        steps: Words, key: np.uint64, first: np.uint64, columns: int, paired: bool,
    ) -> None:  # fmt: skip
        length, chunk, pairs = x.shape[0], how[How.CHUNK], how[How.PAIRWISE] != 0
        rounds, last = how[How.ROUNDS_PRODUCTS] != 0, how[How.ADDEND_LAST] != 0
        begin, nothing = stages[Stages.BEGIN, SOURCE:], addends[:0]
        end = stages[Stages.TOTAL] if chunk != 0 else stages[Stages.SUM]
        begins = addends.size != 0 and not last and chunk == 0
        size, whole = (chunk, length) if chunk != 0 else (max(length, 1), int(steps.size == 0))
        words, sums = np.zeros(_RANDOM + _TILE, np.uint64), np.empty(_NUMBERS, np.uint64)
        waiting = np.empty((max(64, steps[0]) if steps.size else 64) * _NUMBERS, np.uint64)
        room = np.empty(_TILE + 4 * LONGS, np.uint32)
        for start in range(0, out.size, _TILE):
            tile = Tile(
                x, y, blocks, words, waiting, room, start, min(out.size - start, _TILE), columns, paired,
                first + _U(start), key,
            )  # fmt: skip
            step = 0
            open_sums(tile, _SUMS, nothing if last else addends, begin)
            if steps.size:
                step = in_groups(tile, nothing if last else addends, begin, steps, stages, rounds)
            for k in range(0, whole, size):
                if chunk != 0:
                    copy(words, _SUMS, sums, 0)
                    open_sums(tile, _SUMS, nothing, begin)
                if pairs:
                    step = in_pairs(tile, begins, k, min(k + size, length), step, stages, rounds)
                else:
                    step = in_sequence(tile, k, min(k + size, length), step, stages, rounds)
                if chunk != 0:
                    copy(words, _SUMS, words, _TERMS)
                    copy(sums, 0, words, _SUMS)
                    draw(tile, step, end)
                    join(tile.words, tile.count, end)
                    step += 1
            if last:
                open_sums(tile, _TERMS, addends, begin)
                draw(tile, step, end)
                join(tile.words, tile.count, end)
                step += 1
            draw(tile, step, stages[Stages.OUTPUT])
            settle(tile.words, tile.count, stages[Stages.OUTPUT])
            for i in range(tile.count):
                out[_U(start + i)] = words[_U(_X + i)]

    return jit(run, f"sums_{name}")


#: What kernels of factors in no blocks are given.
NO_BLOCKS = Blocks(np.empty((0, 1, 0), np.int64), np.zeros(1, np.int64), 0, np.empty((0, 0), np.bool_))


def serves(how: Accumulation, *factors: Format) -> bool:
    """Return whether an accumulation's sums of products are exact in lanes until they are rounded.

    Without `factors` terms are said to be.
    """
    if (
        how.order.widest > 2
        or how.machine
        or how.order == EXACT
        or how.has_codebooks
        or not isinstance(how.accumulator, tuple)
    ):
        return False
    if any(bits_of(fmt) > _FACTOR_BITS for fmt in factors):
        return False
    places = [place for place in (how.product, how.accumulator, how.total) if place is not None]
    return all(
        serves_operation("fma", [*(factors or (source, POWERS)), source], fmt, rule) == (True, False)
        for fmt, rule in (*places, how.output)
        for source, _ in places
    )
