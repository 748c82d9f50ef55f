"""Sums of products in 64-bit lanes: one term after the other of a tile of outputs, in any order.

A sum is projected to a code of its stage and read back after every addition, by the functions that operations
have; `numbers` and `operations` say why 64 bits suffice, and `serves` for which formats.

Floor 2b. Imports numba through `jit`; never the oracle, which checks it.

Notation, beside that of `tiles`:

    term    a product, or the sum of the products of two blocks times their scales
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.kernels.general.numbers import Lane, pick, read
from lowprec.kernels.general.operations import (
    Context,
    Outcome,
    add,
    bits_of,
    fma,
    fma_long,
    lane,
    long_number,
    long_sum,
    multiply,
    multiply_long,
    serves as serves_operation,
    with_nans,
)
from lowprec.kernels.general.rounding import load_target, project, project_usual
from lowprec.kernels.general.tiles import (
    FACTOR_BITS,
    LOWER,
    NUMBERS,
    RANDOM_ROOM,
    ROOM,
    SUMS,
    TERMS,
    TILE,
    Blocks,
    Tile,
    X,
    Y,
    coder,
    copy,
    draw,
    factor,
    gather,
    load,
    open_sums,
    store,
)
from lowprec.kernels.jit import helper, in_wide_vectors, inlined, jit, load_record
from lowprec.kernels.lower.dot import ADD_TERM, BEGIN, DOWNWARD, IN_PAIRS, ROUND, SOURCE, How, Stages
from lowprec.kernels.lower.records import Params, Source
from lowprec.kernels.lower.words import POWERS
from lowprec.spec.accumulation import Accumulation
from lowprec.spec.format import Format
from lowprec.spec.order import EXACT

__all__ = ["closing", "kernel", "serves"]

Words = npt.NDArray[Any]  #: of uint64

_U = np.uint64
_I = np.int64
_0, _63 = _U(0), _I(63)


@functools.cache
def multiplying(usual: bool, finite: bool, stochastic: bool, wide: bool) -> tuple[Any, Any]:
    """Return the steps of products that all outputs of a tile take, each compiled as a function.

    `fuse` adds products to the sums, and `times` makes terms of them. `usual` says that all formats are so to
    `read` and to `project_usual`, `finite` that no factor is an infinity or a NaN. Factors are words of
    `factors`, or if `wide` codes, whose products have two words.
    """
    code_of, name = coder(usual, stochastic), f"{usual:d}{finite:d}{stochastic:d}{wide:d}"
    fused, multiplied = (fma_long, multiply_long) if wide else (fma, multiply)

    @inlined
    def factor_of(word: np.uint64, source: Source) -> Lane:
        return read(word, source, usual) if wide else factor(word, finite)

    def fuse(words: Words, count: int, stage: Params, sources: Words) -> None:
        in_wide_vectors()
        target, source = load_target(stage), load_record(Source, stage, SOURCE)
        x_source, y_source = load_record(Source, sources[0], 0), load_record(Source, sources[1], 0)
        context = Context(stage[DOWNWARD] != _0, _0, stochastic, target)
        for i in range(count):
            x, y = factor_of(words[_U(X + i)], x_source), factor_of(words[_U(Y + i)], y_source)
            z = load(words, SUMS, i)
            found = with_nans(fused(x, y, z, context), x, y, z, True, False, usual)
            store(words, SUMS, i, read(code_of(found, words, i, target), source, usual))

    def times(words: Words, count: int, stage: Params, sources: Words, rounds: bool) -> None:
        in_wide_vectors()
        target, source = load_target(stage), load_record(Source, stage, SOURCE)
        x_source, y_source = load_record(Source, sources[0], 0), load_record(Source, sources[1], 0)
        context, none = Context(False, _0, False, target), lane(False, _0, _I(0), False)
        for i in range(count):
            x, y = factor_of(words[_U(X + i)], x_source), factor_of(words[_U(Y + i)], y_source)
            found = with_nans(multiplied(x, y, none, context), x, y, none, False, False, usual)
            if rounds:
                store(words, TERMS, i, read(code_of(found, words, i, target), source, usual))
            else:
                store(words, TERMS, i, found.made)

    return helper(fuse, f"sums_fuse_{name}"), helper(times, f"sums_times_{name}")


@functools.cache
def closing(usual: bool, stochastic: bool) -> tuple[Any, Any]:
    """Return the other steps: `join` adds terms to the sums, `settle` rounds the sums; they write codes."""
    code_of, name = coder(usual, stochastic), f"{usual:d}{stochastic:d}"

    def join(words: Words, count: int, stage: Params) -> None:
        in_wide_vectors()
        target, source = load_target(stage), load_record(Source, stage, SOURCE)
        context, none = Context(stage[DOWNWARD] != _0, _0, stochastic, target), lane(False, _0, _I(0), False)
        for i in range(count):
            x, y = load(words, SUMS, i), load(words, TERMS, i)
            found = with_nans(add(x, y, none, context), x, y, none, False, False, usual)
            code = code_of(found, words, i, target)
            store(words, SUMS, i, read(code, source, usual))
            words[_U(X + i)] = code

    def settle(words: Words, count: int, stage: Params) -> None:
        in_wide_vectors()
        target, source = load_target(stage), load_record(Source, stage, SOURCE)
        for i in range(count):
            code = code_of(Outcome(load(words, SUMS, i), False, _0), words, i, target)
            store(words, SUMS, i, read(code, source, usual))
            words[_U(X + i)] = code

    return helper(join, f"sums_join_{name}"), helper(settle, f"sums_settle_{name}")


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
            x, y = factor(words[_U(X + i)], True), factor(words[_U(Y + i)], True)
            negative = pick(high | low == _0, minus[_U(start + i)], negative) != (x.negative != y.negative)
            scale, exponent = x.significand * y.significand, blocks.base + x.exponent + y.exponent
            high, low = high * scale, low * scale
            significand = low
            if wide:
                short = high == _0
                high, low, exponent = long_number(
                    pick(short, low, high), pick(short, _0, low), pick(short, exponent, exponent + _I(64))
                )
                words[_U(LOWER + i)] = low
                significand = high
                if rounds:
                    significand, exponent = high | _U(low != _0), exponent + _I(64)
            made = lane(negative, significand, exponent, False)
            if rounds:
                code, _ = place(made, False, _0, target, False, not usual)
                made = read(code, source, usual)
            store(words, TERMS, i, made)

    def join_long(words: Words, count: int, stage: Params) -> None:
        in_wide_vectors()
        target, source = load_target(stage), load_record(Source, stage, SOURCE)
        context, none = Context(stage[DOWNWARD] != _0, _0, False, target), lane(False, _0, _I(0), False)
        for i in range(count):
            x, y = load(words, SUMS, i), load(words, TERMS, i)
            term = y.significand, words[_U(LOWER + i)], y.exponent
            found = long_sum(x, *long_number(x.significand, _0, x.exponent), y, *term, context)
            found = with_nans(found, x, none, none, False, False, usual)
            code, _ = place(found.made, found.invalid, _0, target, False, not usual)
            store(words, SUMS, i, read(code, source, usual))

    return helper(terms, f"sums_terms_{name}"), helper(join_long, f"sums_join_long_{name}")


@helper
def numbered(terms: int, size: int, start: int) -> int:
    """Return which rounding, level by level, adds the `size` terms from `start` on to the next ones."""
    step, half = 0, 1
    while half < size:
        step, terms, half = step + terms // 2, terms - terms // 2, 2 * half
    return step + start // (2 * size)


@functools.cache
def kernel(
    usual: bool, finite: bool, stochastic: bool, words_of_terms: int = 0, wide: bool = False
) -> Any:  # fmt: skip
    """Return the kernel of sums for such formats, factors and modes; see `multiplying`.

    `words_of_terms` is 0 for products. Terms of blocks have 1 or 2 words, in pairs 1 unless they are rounded.
    Called as kernel(x, y, sources, blocks, addends, out, how, stages, steps, key, first, columns, paired):
    words of `factors`, or codes that `sources` read, shape (K, rows); codes of addends, if any, and of
    outputs, row by row; steps of `additions`.
    """
    fuse, times = multiplying(usual, finite, stochastic, wide)
    join, settle = closing(usual, stochastic)
    terms_of, join_long = block_steps(usual, words_of_terms == 2)
    blocked, name = words_of_terms > 0, f"{usual:d}{finite:d}{stochastic:d}{words_of_terms}{wide:d}"

    def in_sequence(
        tile: Tile, sources: Words, first: int, stop: int, step: int, stages: Words, rounds: bool
    ) -> int:  # fmt: skip
        for k in range(first, stop):
            gather(tile, k)
            if blocked:
                terms_of(tile, k, stages[Stages.PRODUCT], rounds)
            elif rounds:
                times(tile.words, tile.count, stages[Stages.PRODUCT], sources, rounds)
            draw(tile, step, stages[Stages.SUM])
            if words_of_terms == 2 and not rounds:
                join_long(tile.words, tile.count, stages[Stages.SUM])
            elif blocked or rounds:
                join(tile.words, tile.count, stages[Stages.SUM])
            else:
                fuse(tile.words, tile.count, stages[Stages.SUM], sources)
            step += 1
        return step

    def in_pairs(
        tile: Tile, sources: Words, begins: bool, first: int, stop: int, step: int, stages: Words,
        rounds: bool,
    ) -> int:  # fmt: skip
        words, waiting, stage = tile.words, tile.waiting, stages[Stages.SUM]
        terms, depth = stop - first + begins, 0
        for number in range(terms):
            if begins and number == 0:
                copy(words, SUMS, words, TERMS)
            else:
                gather(tile, first + number - begins)
                if blocked:
                    terms_of(tile, first + number - begins, stages[Stages.PRODUCT], rounds)
                else:
                    times(words, tile.count, stages[Stages.PRODUCT], sources, rounds)
            size = 1
            while (number + 1) // size % 2 == 0:
                depth -= 1
                copy(waiting, depth * NUMBERS, words, SUMS)
                draw(tile, step + numbered(terms, size, number + 1 - 2 * size), stage)
                join(tile.words, tile.count, stage)
                copy(words, SUMS, words, TERMS)
                size *= 2
            copy(words, TERMS, waiting, depth * NUMBERS)
            depth += 1
        rest = terms - (terms & -terms)
        while depth > 1:
            depth, size = depth - 1, rest & -rest
            rest -= size
            copy(waiting, (depth - 1) * NUMBERS, words, SUMS)
            copy(waiting, depth * NUMBERS, words, TERMS)
            draw(tile, step + numbered(terms, size, rest), stage)
            join(tile.words, tile.count, stage)
            copy(words, SUMS, waiting, (depth - 1) * NUMBERS)
        if terms > 0:
            copy(waiting, 0, words, SUMS)
        if terms == 1:
            draw(tile, step, stage)
            settle(tile.words, tile.count, stage)
        return step + max(terms - 1, min(terms, 1))

    def in_groups(
        tile: Tile, sources: Words, addends: Words, begin: Words, steps: Words, stages: Words, rounds: bool
    ) -> int:  # fmt: skip
        words, waiting, stage = tile.words, tile.waiting, stages[Stages.SUM]
        depth, drawn, at = 0, 0, 1  # the number on top of the stack is in SUMS, those below it wait
        while at < steps.size:
            step, at = steps[at], at + 1
            if step >= BEGIN:
                if step >= 0 and depth > 0 and steps[at] == ADD_TERM:
                    gather(tile, step)
                    draw(tile, drawn, stage)
                    if rounds:
                        times(words, tile.count, stages[Stages.PRODUCT], sources, rounds)
                        join(words, tile.count, stage)
                    else:
                        fuse(words, tile.count, stage, sources)
                    at, drawn = at + 1, drawn + 1
                    continue
                if depth > 0:
                    copy(words, SUMS, waiting, (depth - 1) * NUMBERS)
                depth += 1
                if step >= 0:
                    gather(tile, step)
                    times(words, tile.count, stages[Stages.PRODUCT], sources, rounds)
                    copy(words, TERMS, words, SUMS)
                else:
                    open_sums(tile, SUMS, addends[: addends.size * (step == BEGIN)], begin)
                continue
            draw(tile, drawn, stage)
            drawn += 1
            if step == ROUND:
                settle(words, tile.count, stage)
                continue
            depth -= 1
            copy(words, SUMS, words, TERMS)
            copy(waiting, (depth - 1) * NUMBERS, words, SUMS)
            join(words, tile.count, stage)
        return drawn

    in_groups = helper(in_groups, f"sums_groups_{name}")
    in_sequence = helper(in_sequence, f"sums_sequence_{name}")
    in_pairs = helper(in_pairs, f"sums_pairs_{name}")

    def run(
        x: Words, y: Words, sources: Words, blocks: Blocks, addends: Words, out: Words, how: Params,
        stages: Words, steps: Words, key: np.uint64, first: np.uint64, columns: int, paired: bool,
    ) -> None:  # fmt: skip
        length, chunk, pairs = x.shape[0], how[How.CHUNK], how[How.PAIRWISE] != 0
        rounds, last = how[How.ROUNDS_PRODUCTS] != 0, how[How.ADDEND_LAST] != 0
        begin, nothing = stages[Stages.BEGIN, SOURCE:], addends[:0]
        end = stages[Stages.TOTAL] if chunk != 0 else stages[Stages.SUM]
        begins = addends.size != 0 and not last and chunk == 0
        size, whole = (chunk, length) if chunk != 0 else (max(length, 1), int(steps.size == 0))
        words, sums = np.zeros(ROOM, np.uint64), np.empty(NUMBERS, np.uint64)
        waiting = np.empty((max(64, steps[0]) if steps.size else 64) * NUMBERS, np.uint64)
        room = np.empty(RANDOM_ROOM, np.uint32)
        for start in range(0, out.size, TILE):
            tile = Tile(
                x, y, blocks, words, waiting, room, start, min(out.size - start, TILE), columns, paired,
                first + _U(start), key,
            )  # fmt: skip
            step = 0
            open_sums(tile, SUMS, nothing if last else addends, begin)
            if steps.size:
                step = in_groups(tile, sources, nothing if last else addends, begin, steps, stages, rounds)
            for k in range(0, whole, size):
                if chunk != 0:
                    copy(words, SUMS, sums, 0)
                    open_sums(tile, SUMS, nothing, begin)
                if pairs:
                    step = in_pairs(tile, sources, begins, k, min(k + size, length), step, stages, rounds)
                else:
                    step = in_sequence(tile, sources, k, min(k + size, length), step, stages, rounds)
                if chunk != 0:
                    copy(words, SUMS, words, TERMS)
                    copy(sums, 0, words, SUMS)
                    draw(tile, step, end)
                    join(tile.words, tile.count, end)
                    step += 1
            if last:
                open_sums(tile, TERMS, addends, begin)
                draw(tile, step, end)
                join(tile.words, tile.count, end)
                step += 1
            draw(tile, step, stages[Stages.OUTPUT])
            settle(tile.words, tile.count, stages[Stages.OUTPUT])
            for i in range(tile.count):
                out[_U(start + i)] = words[_U(X + i)]

    return jit(run, f"sums_{name}")


def serves(how: Accumulation, *factors: Format) -> tuple[bool, bool]:
    """Return whether an accumulation's sums are exact in lanes until they are rounded, and only if `wide`.

    Without `factors` terms are said to be.
    """
    if how.machine:
        return how.machine in IN_PAIRS, False
    if (
        how.order.widest > 2
        or how.order == EXACT
        or how.has_codebooks
        or not isinstance(how.accumulator, tuple)
    ):
        return False, False
    wide = any(bits_of(fmt) > FACTOR_BITS for fmt in factors)
    places = [place for place in (how.product, how.accumulator, how.total) if place is not None]
    for into, rule in (*places, how.output):
        for kept, _ in places:
            served, long = serves_operation("fma", [*(factors or (kept, POWERS)), kept], into, rule)
            if not served or serves_operation("add", [kept, kept], into, rule) != (True, False):
                return False, False
            wide |= long
    running = how.order.name in ("sequential", "chunked") and how.order.inner == "sequential"
    return running or how.product is not None or not wide, wide
