"""Blocks at the speed of memory: one pass finds the largest magnitudes, makes scales, encodes elements.

An array is gone through in tiles that the nearest caches hold: rows by columns, so that blocks lie
along a row, along a column, or across both. A tile is read for its largest magnitudes, one for each
block; each becomes a scale; then the tile is read again, and its elements are encoded as `stream`
does it. Where a scale is a power of two, elements are divided by a subtraction from their exponent
fields, where it is not, in binary64.

What is unusual is left to `block`, which checks all this too: such blocks are marked, and nothing
is promised about what was written there.

Floor 2b. Imports numba through `jit`; never the oracle, which checks it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.kernels.block import divisor_of, load_rule, load_tensor, normalized, scale_code
from lowprec.kernels.block_stream_params import NEVER, Setup
from lowprec.kernels.convert import load_grid, load_source
from lowprec.kernels.jit import elements, helper, inlined, jit
from lowprec.kernels.lanes import (
    LANES,
    Lanes,
    choose,
    equal,
    fill,
    first_lane,
    greater,
    greatest,
    greatest_of_16,
    less,
    lesser,
    load,
    negative,
    quotients,
    settle,
    store,
)
from lowprec.kernels.params import Params
from lowprec.kernels.stream import left_out, load_decoder, load_encoder, load_nothing, project, put, read, suited
from lowprec.kernels.stream_params import DECODER, DRAWN, NONE, PAST, PROBE, Encoder, Words

__all__ = ["UNSUITED", "kernel"]

Codes = npt.NDArray[Any]
Shape = tuple[int, ...]
Kernel = Callable[..., int]

#: Marks: none, left for `block`, and a NaN scale with elements of code 0.
NOT_MARKED, UNDONE, BLANK = range(3)

#: More blocks than there can be.
UNSUITED = 1 << 62

_MAGNITUDE, _SIGN_BIT = 0x7FFFFFFF, 0x80000000
_SETUP = tuple(range(len(Setup._fields)))
_U, _I = np.uint64, np.int64
_ONE = np.uint64(1023 << 52)


@inlined
def shifted(word: Lanes, by: Codes, place: int, f: Encoder) -> Lanes:
    """Values over powers of two: what to take off their exponent fields is in `by`.

    What would become subnormal, and far too small to be told from other such numbers, stays small.
    """
    a, off = word & _MAGNITUDE, load(by, place)
    lowest = 1 << f.fraction
    normal = choose(negative(off), lowest, off + lowest)
    return choose(less(a, normal), lesser(a, lowest), a - off) | (word & _SIGN_BIT)


@inlined
def divided(word: Lanes, by: Codes, place: int, f: Encoder) -> Lanes:
    """Values over numbers in `by`, as upper halves of binary64; subnormals as the smallest normal number."""
    a = word & _MAGNITUDE
    normal = choose(less(a, 1 << 23), 1 << 23, a)
    return choose(equal(a, 0), a, quotients(by, place, normal)) | (word & _SIGN_BIT)


@helper
def largest_of_groups(big: Codes, width: int, wide: int) -> None:
    """Put the largest of each group of `wide` words, one after the other, in the place of its first."""
    if wide % LANES == 0:
        for start in range(0, width, wide):
            most = load(big, start)
            for i in range(start + LANES, start + wide, LANES):
                most = greater(most, load(big, i))
            big[start] = first_lane(greatest(most))
    elif wide == 16 and width % LANES == 0:
        for i in range(0, width, LANES):
            store(big, i, greatest_of_16(load(big, i)))
    elif wide > 1:
        for start in range(0, width, wide):
            largest = big[start]
            for i in range(start + 1, start + wide):
                largest = max(largest, big[i])
            big[start] = largest


@helper
def scales_of_powers(
    big: Codes, by: Codes, groups: int, wide: int, scales: Codes, marks: Codes, first: int, setup: Words,
    tables: Codes, general: tuple[Params, ...],
) -> int:  # fmt: skip
    """The scale of each group of columns, and what to take off its exponent fields; how many are marked.

    `tables` has a row of codes and one of what to take off, by exponent.
    """
    s = Setup(*elements(setup, _SETUP))
    marked = 0
    for group in range(groups):
        amax, mark, off = big[group * wide], UNDONE, np.uint32(0)
        if amax >= s.infinity:
            if s.nan != NEVER:
                scales[first + group], mark = s.nan, BLANK
        elif amax >= s.least:
            place = (amax + s.carry) >> s.fraction
            code, off = tables[0, place], tables[1, place]
            if code != NEVER:
                scales[first + group], mark = code, NOT_MARKED
        elif amax == 0 and s.zero != NEVER:
            scales[first + group], mark = s.zero, NOT_MARKED
        for i in range(group * wide, group * wide + wide):
            by[i] = off
        if mark != NOT_MARKED:
            marks[first + group] = mark
            marked += 1
    return marked


@helper
def scales_of_numbers(
    big: Codes, by: Codes, groups: int, wide: int, scales: Codes, marks: Codes, first: int, setup: Words,
    tables: Codes, general: tuple[Params, ...],
) -> int:  # fmt: skip
    """As `scales_of_powers`, for scales that are any numbers: their binary64 patterns divide the columns."""
    s = Setup(*elements(setup, _SETUP))
    rule, tensor = load_rule(general[0]), load_tensor(general[1])
    grid, source = load_grid(general[2]), load_source(general[3])
    lowest, highest = _I(np.int32(s.lowest)), _I(np.int32(s.highest))
    marked = 0
    for group in range(groups):
        amax, mark, divisor = big[group * wide], UNDONE, _ONE
        if amax >= s.infinity:
            if s.nan != NEVER:
                scales[first + group], mark = s.nan, BLANK
        elif amax >= s.least:
            significand = (_U(amax & np.uint32(0x7FFFFF)) | _U(1 << 23)) << _U(40)
            exponent = _I(amax >> np.uint32(23)) - _I(127 + 63)
            code = scale_code(significand, exponent, _U(0), rule, tensor, grid, general[2])
            kind, significand, exponent = divisor_of(code, source, rule, tensor)
            significand, exponent = normalized(significand, exponent)
            lead = exponent + _I(63)
            if kind == 0 and significand != _U(0) and lowest <= lead and lead <= highest:
                scales[first + group], mark = code, NOT_MARKED
                divisor = _U(lead + _I(1023)) << _U(52) | (significand << _U(1)) >> _U(12)
        elif amax == 0 and s.zero != NEVER:
            scales[first + group], mark = s.zero, NOT_MARKED
        for i in range(group * wide, group * wide + wide):
            by[i] = divisor
        if mark != NOT_MARKED:
            marks[first + group] = mark
            marked += 1
    return marked


@helper
def blank(out: Codes, to: int, stride: int, high: int, wide: int, marks: Codes, first: int, groups: int) -> int:
    """Zeros in the blocks whose scale is NaN, which need nothing else; how many there are."""
    found = 0
    for group in range(groups):
        if marks[first + group] == BLANK:
            marks[first + group] = NOT_MARKED
            found += 1
            for row in range(high):
                for i in range(to + row * stride + group * wide, to + row * stride + group * wide + wide):
                    out[i] = 0
    return found


@functools.cache
def kernel(source_shape: Shape, target_shape: Shape, powers: bool) -> Kernel:
    """The kernel for plans of these shapes, or for all where they are empty, and for scales that are powers of two.

    Called as kernel(values, out, scales, marks, layout, plan, setup, tables, general, random), with

        values, out      flat, of one size
        scales, marks    flat, one for each block; marks are zeros, and become UNDONE for blocks left undone
        layout           outer, rows, columns; rows and columns of a block; columns of a tile, and of
                         the smallest one: multiples of LANES and of a block's
        plan             of a decoder and an encoder
        setup            see `Setup`
        tables           see `scales_of_powers`
        general          arrays that `block` reads: rule, tensor, target of scales, source of scales
        random           an integer for each element, or empty

    Returns how many blocks are marked, or UNSUITED where nothing is written, as the processor does not
    round to nearest in this thread: take the plan of `stream_params.anywhere`.
    """
    known = not source_shape or source_shape[0] != NONE
    load_reader: Any = load_decoder if known else load_nothing
    read_values: Any = read if known else left_out
    find_scales: Any = scales_of_powers if powers else scales_of_numbers
    over: Any = shifted if powers else divided
    name = f"_{'powers' if powers else 'numbers'}" + "".join(
        "_" + ".".join(map(str, shape)) for shape in (source_shape, target_shape)
    )

    def find_largest(values: Codes, start: int, stride: int, high: int, width: int, big: Codes, plan: Words) -> None:
        """The largest magnitude of each column."""
        source = load_reader(plan, PROBE, source_shape)
        for c in range(0, width, LANES):
            most = fill(0)
            for row in range(high):
                most = greater(most, read_values(load(values, start + row * stride + c), source) & _MAGNITUDE)
            store(big, c, most)

    def encode_tile(
        values: Codes, start: int, stride: int, out: Codes, to: int, to_stride: int, random: Words,
        high: int, width: int, by: Codes, plan: Words, past: bool,
    ) -> None:  # fmt: skip
        """The codes of a tile, each element divided by what its column is."""
        source = load_reader(plan, PROBE, source_shape)
        target = load_encoder(plan, PROBE + DECODER, target_shape)
        random_word = fill(0)
        for row in range(high):
            at, there = start + row * stride, to + row * to_stride
            for c in range(0, width, LANES):
                word = over(read_values(load(values, at + c), source), by, c, target)
                if target.limits == DRAWN:
                    random_word = load(random, at + c) << (32 - target.bits)
                put(out, there + c, project(word, random_word, target), past)

    find, encode = helper(find_largest, f"find_largest{name}"), helper(encode_tile, f"encode_tile{name}")

    def all_blocks(
        values: Codes, out: Codes, scales: Codes, marks: Codes, layout: tuple[int, ...], plan: Words, setup: Words,
        tables: Codes, general: tuple[Params, ...], random: Words,
    ) -> int:  # fmt: skip
        outer, rows, columns, high, wide, tile, unit = layout
        if not suited(load_encoder(plan, PROBE + DECODER, target_shape), plan):
            return UNSUITED
        down, across = -(-rows // high), -(-columns // wide)
        big, by = np.empty(tile, np.uint32), np.empty(tile, np.uint32 if powers else np.uint64)
        held, made = np.empty(high * tile, values.dtype), np.empty(high * tile, out.dtype)
        drawn = np.empty(high * tile if random.size > 0 else 0, np.uint32)
        marked, past = 0, plan[PAST] != 0
        for slab in range(outer * down):
            row = (slab // down) * rows + (slab % down) * high
            some = min(high, rows - (slab % down) * high)
            for column in range(0, columns, tile):
                width = min(tile, columns - column)
                start, first, groups = row * columns + column, slab * across + column // wide, -(-width // wide)
                if some == high and width % unit == 0:
                    find(values, start, columns, high, width, big, plan)
                    largest_of_groups(big, width, wide)
                    found = find_scales(big, by, groups, wide, scales, marks, first, setup, tables, general)
                    encode(values, start, columns, out, start, columns, random, high, width, by, plan, past)
                    if found > 0:
                        marked += found - blank(out, start, columns, high, wide, marks, first, groups)
                    continue
                # What is missing at the end is taken from the last row and column.
                whole = -(-width // unit) * unit
                for i in range(high):
                    for j in range(whole):
                        place = start + min(i, some - 1) * columns + min(j, width - 1)
                        held[i * whole + j] = values[place]
                        if random.size > 0:
                            drawn[i * whole + j] = random[place]
                find(held, 0, whole, high, whole, big, plan)
                largest_of_groups(big, whole, wide)
                by[:whole] = 0
                found = find_scales(big, by, groups, wide, scales, marks, first, setup, tables, general)
                encode(held, 0, whole, made, 0, whole, drawn, high, whole, by, plan, False)
                if found > 0:
                    marked += found - blank(made, 0, whole, high, wide, marks, first, groups)
                for i in range(some):
                    for j in range(width):
                        out[start + i * columns + j] = made[i * whole + j]
        settle()
        return marked

    return jit(all_blocks, f"all_blocks{name}")
