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
from lowprec.kernels.block_stream_params import NEVER, Factors, Setup
from lowprec.kernels.convert import load_grid, load_source
from lowprec.kernels.jit import elements, helper, inlined, jit
from lowprec.kernels.lanes import (
    LANES,
    Lanes,
    as_singles,
    as_words,
    choose,
    equal,
    fill,
    fill_wide,
    first_lane,
    greater,
    greatest,
    greatest_of_16,
    less,
    lesser,
    load,
    load_wide,
    negative,
    quotients,
    settle,
    store,
)
from lowprec.kernels.params import Params
from lowprec.kernels.stream import (
    left_out,
    load_decoder,
    load_encoder,
    load_nothing,
    project,
    put,
    read,
    rounds_to_nearest,
    suited,
)
from lowprec.kernels.stream_params import DECODER, DRAWN, NONE, PAST, PROBE, Decoder, Encoder, Words

__all__ = ["UNSUITED", "decoder", "encoder"]

Codes = npt.NDArray[Any]
Shape = tuple[int, ...]
Kernel = Callable[..., int]

#: Marks: none, left for `block`, and a NaN scale with elements of code 0.
NOT_MARKED, UNDONE, BLANK = range(3)

#: More blocks than there can be.
UNSUITED = 1 << 62

_MAGNITUDE, _SIGN_BIT, _INFINITY, _NAN = 0x7FFFFFFF, 0x80000000, 0x7F800000, 0x7FC00000
_SETUP, _FACTORS = tuple(range(len(Setup._fields))), tuple(range(len(Factors._fields)))
_U, _I = np.uint64, np.int64
_ONE = np.uint64(1023 << 52)


@inlined
def shifted(word: Lanes, off: Lanes, f: Encoder) -> Lanes:
    """Values over powers of two, by what to take off their exponent fields.

    What would become subnormal, and far too small to be told from other such numbers, stays small.
    """
    a, lowest = word & _MAGNITUDE, 1 << f.fraction
    normal = choose(negative(off), lowest, off + lowest)
    return choose(less(a, normal), lesser(a, lowest), a - off) | (word & _SIGN_BIT)


@inlined
def divided(word: Lanes, by: Lanes, f: Encoder) -> Lanes:
    """Values over binary64 numbers, as upper halves of binary64; subnormals as the smallest normal number."""
    a = word & _MAGNITUDE
    return choose(equal(a, 0), a, quotients(greater(a, 1 << 23), by)) | (word & _SIGN_BIT)


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
    big: Codes, by: Codes, groups: int, step: int, scales: Codes, marks: Codes, first: int, setup: Words,
    tables: Codes, general: tuple[Params, ...],
) -> int:  # fmt: skip
    """The scale of each group of columns, and what to take off its exponent fields; how many are marked.

    The largest word of a group is in `big`, at its first column or, where blocks lie in rows, at its
    number; so is, for all its columns or for its number, what `by` gets. `tables` has a row of codes
    and one of what to take off, by exponent.
    """
    s = Setup(*elements(setup, _SETUP))
    marked = 0
    for group in range(groups):
        amax, mark, off = big[group * step], UNDONE, np.uint32(0)
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
        for i in range(group * step, group * step + step):
            by[i] = off
        if mark != NOT_MARKED:
            marks[first + group] = mark
            marked += 1
    return marked


@helper
def scales_of_numbers(
    big: Codes, by: Codes, groups: int, step: int, scales: Codes, marks: Codes, first: int, setup: Words,
    tables: Codes, general: tuple[Params, ...],
) -> int:  # fmt: skip
    """As `scales_of_powers`, for scales that are any numbers: their binary64 patterns divide the columns."""
    s = Setup(*elements(setup, _SETUP))
    rule, tensor = load_rule(general[0]), load_tensor(general[1])
    grid, source = load_grid(general[2]), load_source(general[3])
    lowest, highest = _I(np.int32(s.lowest)), _I(np.int32(s.highest))
    marked = 0
    for group in range(groups):
        amax, mark, divisor = big[group * step], UNDONE, _ONE
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
        for i in range(group * step, group * step + step):
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


# -- encoding ----------------------------------------------------------------------------------------


@functools.cache
def encoder(source_shape: Shape, target_shape: Shape, powers: bool) -> Kernel:
    """The kernel for plans of these shapes, or for all where they are empty, and for scales that are powers of two.

    Called as encode(values, out, scales, marks, layout, plan, setup, tables, general, random), with

        values, out      flat, of one size
        scales, marks    flat, one for each block; marks are zeros, and become UNDONE for blocks left undone
        layout           outer, rows, columns; rows and columns of a block; columns of a tile, and of
                         the smallest one: multiples of LANES and of a block's columns
        plan             of a decoder and an encoder
        setup            see `Setup`
        tables           see `scales_of_powers`
        general          arrays that `block` reads: rule, tensor, target of scales, source of scales
        random           an integer for each element, or empty

    Returns how many blocks are left undone, or UNSUITED where nothing is written, as the processor does not
    round to nearest in this thread: take the plan of `stream_params.anywhere`.
    """
    known = not source_shape or source_shape[0] != NONE
    load_reader: Any = load_decoder if known else load_nothing
    read_values: Any = read if known else left_out
    find_scales: Any = scales_of_powers if powers else scales_of_numbers
    over: Any = shifted if powers else divided
    spread: Any = fill if powers else fill_wide
    take: Any = load if powers else load_wide
    name = f"_{'powers' if powers else 'numbers'}" + "".join(
        "_" + ".".join(map(str, shape)) for shape in (source_shape, target_shape)
    )

    def find_in_rows(values: Codes, start: int, groups: int, wide: int, big: Codes, plan: Words) -> None:
        """The largest magnitude of each group of a row, by number."""
        source = load_reader(plan, PROBE, source_shape)
        for group in range(groups):
            at = start + group * wide
            most = read_values(load(values, at), source) & _MAGNITUDE
            for i in range(at + LANES, at + wide, LANES):
                most = greater(most, read_values(load(values, i), source) & _MAGNITUDE)
            big[group] = first_lane(greatest(most))

    def find_in_columns(values: Codes, start: int, stride: int, high: int, width: int, big: Codes, plan: Words) -> None:
        """The largest magnitude of each column."""
        source = load_reader(plan, PROBE, source_shape)
        for c in range(0, width, LANES):
            most = fill(0)
            for row in range(high):
                most = greater(most, read_values(load(values, start + row * stride + c), source) & _MAGNITUDE)
            store(big, c, most)

    def encode_rows(
        values: Codes, start: int, out: Codes, to: int, random: Words, groups: int, wide: int, by: Codes, plan: Words,
        past: bool,
    ) -> None:  # fmt: skip
        """The codes of a row, each group divided by what it has."""
        source = load_reader(plan, PROBE, source_shape)
        target = load_encoder(plan, PROBE + DECODER, target_shape)
        random_word = fill(0)
        for group in range(groups):
            divisor = spread(by[group])
            for i in range(group * wide, group * wide + wide, LANES):
                word = over(read_values(load(values, start + i), source), divisor, target)
                if target.limits == DRAWN:
                    random_word = load(random, start + i) << (32 - target.bits)
                put(out, to + i, project(word, random_word, target), past)

    def encode_columns(
        values: Codes, start: int, stride: int, out: Codes, to: int, to_stride: int, random: Words,
        high: int, width: int, by: Codes, plan: Words, past: bool,
    ) -> None:  # fmt: skip
        """The codes of a tile, each column divided by what it has."""
        source = load_reader(plan, PROBE, source_shape)
        target = load_encoder(plan, PROBE + DECODER, target_shape)
        random_word = fill(0)
        for row in range(high):
            at, there = start + row * stride, to + row * to_stride
            for c in range(0, width, LANES):
                word = over(read_values(load(values, at + c), source), take(by, c), target)
                if target.limits == DRAWN:
                    random_word = load(random, at + c) << (32 - target.bits)
                put(out, there + c, project(word, random_word, target), past)

    find_rows, find_columns = helper(find_in_rows, f"find_rows{name}"), helper(find_in_columns, f"find_columns{name}")
    code_rows, code_columns = helper(encode_rows, f"code_rows{name}"), helper(encode_columns, f"code_columns{name}")

    def one_tile(
        values: Codes, start: int, stride: int, out: Codes, to: int, random: Words, high: int, wide: int, width: int,
        groups: int, scales: Codes, marks: Codes, first: int, plan: Words, setup: Words, tables: Codes,
        general: tuple[Params, ...], big: Codes, by: Codes, past: bool,
    ) -> int:  # fmt: skip
        """A tile of whole blocks; only `groups` of them have scales. How many are left undone."""
        if high == 1 and wide % LANES == 0:
            find_rows(values, start, groups, wide, big, plan)
            found = find_scales(big, by, groups, 1, scales, marks, first, setup, tables, general)
            code_rows(values, start, out, to, random, groups, wide, by, plan, past)
        else:
            find_columns(values, start, stride, high, width, big, plan)
            largest_of_groups(big, width, wide)
            found = find_scales(big, by, groups, wide, scales, marks, first, setup, tables, general)
            code_columns(values, start, stride, out, to, stride, random, high, width, by, plan, past)
        if found > 0:
            found -= blank(out, to, stride, high, wide, marks, first, groups)
        return found

    tile_of = helper(one_tile, f"tile{name}")

    def all_blocks(
        values: Codes, out: Codes, scales: Codes, marks: Codes, layout: tuple[int, ...], plan: Words, setup: Words,
        tables: Codes, general: tuple[Params, ...], random: Words,
    ) -> int:  # fmt: skip
        outer, rows, columns, high, wide, tile, unit = layout
        if not suited(load_encoder(plan, PROBE + DECODER, target_shape), plan):
            return UNSUITED
        down, across = -(-rows // high), -(-columns // wide)
        big, by = np.empty(tile, np.uint32), np.zeros(tile, np.uint32 if powers else np.uint64)
        held, made = np.empty(high * tile, values.dtype), np.empty(high * tile, out.dtype)
        drawn = np.empty(high * tile if random.size > 0 else 0, np.uint32)
        undone, past = 0, plan[PAST] != 0
        for slab in range(outer * down):
            row = (slab // down) * rows + (slab % down) * high
            some = min(high, rows - (slab % down) * high)
            for column in range(0, columns, tile):
                width = min(tile, columns - column)
                start, first, groups = row * columns + column, slab * across + column // wide, -(-width // wide)
                if some == high and width % unit == 0:
                    undone += tile_of(
                        values, start, columns, out, start, random, high, wide, width, groups, scales, marks, first,
                        plan, setup, tables, general, big, by, past,
                    )  # fmt: skip
                    continue
                # What is missing at the end is taken from the last row and column.
                whole = -(-width // unit) * unit
                for i in range(high):
                    for j in range(whole):
                        place = start + min(i, some - 1) * columns + min(j, width - 1)
                        held[i * whole + j] = values[place]
                        if random.size > 0:
                            drawn[i * whole + j] = random[place]
                undone += tile_of(
                    held, 0, whole, made, 0, drawn, high, wide, whole, groups, scales, marks, first,
                    plan, setup, tables, general, big, by, False,
                )  # fmt: skip
                for i in range(some):
                    for j in range(width):
                        out[start + i * columns + j] = made[i * whole + j]
        settle()
        return undone

    return jit(all_blocks, f"all_blocks{name}")


# -- decoding ----------------------------------------------------------------------------------------


@inlined
def times(word: Lanes, scale: Lanes, tensor: np.uint32, f: Decoder) -> Lanes:
    """Elements times their scale times the tensor's; the first product is exact, or the tensor's scale is 1."""
    result = as_words(as_singles(word) * as_singles(scale) * as_singles(fill(tensor)))
    if f.specials != 0 or f.not_a_zero != 0:
        result = choose(less(_INFINITY, word & _MAGNITUDE), _NAN, result)
    return result


@functools.cache
def decoder(source_shape: Shape) -> Kernel:
    """The kernel that multiplies decoded elements by their scales, for plans of this shape, or for all.

    Called as decode(codes, out, scales, marks, layout, plan, factors), with arrays as `encoder` takes
    them and `factors` as `Factors` followed by the scale of each code, a binary32 pattern or NEVER;
    nothing follows where codes are such patterns themselves.

    Returns how many blocks are marked, or UNSUITED where the processor does not round to nearest in this
    thread, and it would have to.
    """
    name = "_" + ".".join(map(str, source_shape))

    def find_factors(scales: Codes, first: int, groups: int, step: int, by: Codes, marks: Codes, factors: Words) -> int:
        """The scale of each group as a binary32 pattern, once or for all its columns; how many are marked."""
        f = Factors(*elements(factors, _FACTORS))
        marked = 0
        for group in range(groups):
            code = np.uint32(scales[first + group])
            if factors.size > len(_FACTORS):
                word = factors[np.uint32(len(_FACTORS)) + code]
            else:
                word = code if f.lowest <= code and code <= f.highest else np.uint32(NEVER)
            if word == NEVER:
                marks[first + group] = UNDONE
                marked += 1
            for i in range(group * step, group * step + step):
                by[i] = word
        return marked

    def values_of_rows(
        codes: Codes, start: int, out: Codes, to: int, groups: int, wide: int, by: Codes, plan: Words,
        tensor: np.uint32, past: bool,
    ) -> None:  # fmt: skip
        source = load_decoder(plan, PROBE, source_shape)
        for group in range(groups):
            scale = fill(by[group])
            for i in range(group * wide, group * wide + wide, LANES):
                put(out, to + i, times(read(load(codes, start + i), source), scale, tensor, source), past)

    def values_of_columns(
        codes: Codes, start: int, stride: int, out: Codes, to: int, high: int, width: int, by: Codes, plan: Words,
        tensor: np.uint32, past: bool,
    ) -> None:  # fmt: skip
        source = load_decoder(plan, PROBE, source_shape)
        for row in range(high):
            for c in range(row * stride, row * stride + width, LANES):
                word = read(load(codes, start + c), source)
                put(out, to + c, times(word, load(by, c - row * stride), tensor, source), past)

    find = helper(find_factors, f"find_factors{name}")
    in_rows, in_columns = helper(values_of_rows, f"value_rows{name}"), helper(values_of_columns, f"value_columns{name}")

    def all_values(
        codes: Codes, out: Codes, scales: Codes, marks: Codes, layout: tuple[int, ...], plan: Words, factors: Words
    ) -> int:
        outer, rows, columns, high, wide, tile, unit = layout
        f = Factors(*elements(factors, _FACTORS))
        if f.exact == 0 and not rounds_to_nearest(plan):
            return UNSUITED
        down, across = -(-rows // high), -(-columns // wide)
        by = np.empty(tile, np.uint32)
        held, made = np.zeros(high * tile, codes.dtype), np.empty(high * tile, out.dtype)
        rowwise = high == 1 and wide % LANES == 0
        step, undone, past = 1 if rowwise else wide, 0, plan[PAST] != 0
        for slab in range(outer * down):
            row = (slab // down) * rows + (slab % down) * high
            some = min(high, rows - (slab % down) * high)
            for column in range(0, columns, tile):
                width = min(tile, columns - column)
                start, first, groups = row * columns + column, slab * across + column // wide, -(-width // wide)
                undone += find(scales, first, groups, step, by, marks, factors)
                if width % unit == 0 and rowwise:
                    in_rows(codes, start, out, start, groups, wide, by, plan, f.tensor, past)
                elif width % unit == 0:
                    in_columns(codes, start, columns, out, start, some, width, by, plan, f.tensor, past)
                else:
                    whole = -(-width // unit) * unit
                    for i in range(some):
                        for j in range(width):
                            held[i * whole + j] = codes[start + i * columns + j]
                    if rowwise:
                        in_rows(held, 0, made, 0, groups, wide, by, plan, f.tensor, False)
                    else:
                        in_columns(held, 0, whole, made, 0, some, whole, by, plan, f.tensor, False)
                    for i in range(some):
                        for j in range(width):
                            out[start + i * columns + j] = made[i * whole + j]
        settle()
        return undone

    return jit(all_values, f"all_values{name}")
