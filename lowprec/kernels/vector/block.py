"""Blocks at the speed of memory: one pass finds the largest magnitudes, makes scales, encodes elements.

An array is gone through in tiles that the nearest caches hold: rows by columns, so that blocks lie
along a row, along a column, or across both. A tile is read for its largest magnitudes, one for each
block; each becomes a scale; then the tile is read again, and its elements are encoded as `convert`
does it. Where a scale is a power of two, elements are divided by a subtraction from their exponent
fields, where it is not, in binary64.

What is unusual is left to `general.blocks`, which checks all this too: such blocks are marked, and nothing
is promised about what was written there.

Floor 2b. Imports numba through `jit`; never the oracle, which checks it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.kernels.general.numbers import read as read_lane
from lowprec.kernels.general.rounding import load_target
from lowprec.kernels.general.scales import (
    code_of,
    divisor_of,
    divisor_of_amax,
    load_rule,
    normalized,
    product,
)
from lowprec.kernels.jit import helper, inlined, jit, load_record
from lowprec.kernels.lower.block import Tensor
from lowprec.kernels.lower.scalar import Params, Source
from lowprec.kernels.lower.vector import DECODER, DRAWN, NEAREST, NONE, PAST, PROBE, Encoder, Words
from lowprec.kernels.lower.vector_block import NEVER, Setup
from lowprec.kernels.vector.convert import (
    left_out,
    load_decoder,
    load_encoder,
    load_nothing,
    project,
    project_magnitude,
    put,
    read,
    suited,
)
from lowprec.kernels.vector.ir.lanes import (
    LANES,
    Lanes,
    choose,
    equal,
    fetch,
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
    padded,
    settle,
    store,
)
from lowprec.kernels.vector.rounding import load_odd, power_field, quotients

__all__ = ["UNDONE", "UNSUITED", "encoder", "largest_magnitude"]

Codes = npt.NDArray[Any]
Shape = tuple[int, ...]
Kernel = Callable[..., int]

#: Marks: none, left for `block`, and a NaN scale with elements of code 0.
NOT_MARKED, UNDONE, BLANK = range(3)

#: More blocks than there can be.
UNSUITED = 1 << 62

_MAGNITUDE, _INFINITY = 0x7FFFFFFF, 0x7F800000
_U, _I = np.uint64, np.int64
_ONE = np.uint64(1023 << 52)

#: Divisors of this exponent could take a normal binary32 number below the normal ones of binary64.
_HUGE = _I(1022 - 126)


@inlined
def shifted(a: Lanes, off: Lanes, normal: Lanes, f: Encoder) -> Lanes:
    """Magnitudes over powers of two: from `normal` on by what to take off their exponent fields.

    What would become subnormal is far too small to be told from other such numbers.
    """
    small = fill(0) if f.route == NEAREST else lesser(a, 1 << f.fraction)
    return choose(less(a, normal), small, a - off)


@inlined
def divided(a: Lanes, by: Lanes) -> Lanes:
    """Magnitudes over binary64 numbers, as upper halves of binary64; subnormals as the least normal."""
    return choose(equal(a, 0), 0, quotients(greater(a, 1 << 23), by))


@inlined
def shifted_in_row(a: Lanes, by: Codes, group: int, f: Encoder) -> Lanes:
    """Shift all lanes by what a group has: what to take off, and from where on."""
    return shifted(a, fill(by[group]), fill(by[by.size // 2 + group]), f)


@inlined
def shifted_in_columns(a: Lanes, by: Codes, column: int, f: Encoder) -> Lanes:
    """Shift each lane by what its column has."""
    return shifted(a, load(by, column), load(by, by.size // 2 + column), f)


@inlined
def divided_in_columns(a: Lanes, by: Codes, column: int, f: Encoder) -> Lanes:
    """Divide each lane by the number that its column has."""
    return divided(a, load_wide(by, column))


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
    big: Codes, by: Codes, groups: int, step: int, scales: Codes, marks: Codes, setup: Words,
    tables: Codes, general: tuple[Params, ...],
) -> int:  # fmt: skip
    """Write the scale of each group of columns, and what to take off its fields; return how many are marked.

    The largest word of a group is in `big`, at its first column or, where blocks lie in rows, at its
    number; so is, for all its columns or for its number, what `by` gets: what to take off, and in its
    second half from which word on. `tables` has a row of codes and one of what to take off, by exponent.
    """
    s = load_record(Setup, setup, 0)
    marked = 0
    for group in range(groups):
        amax, mark, off = big[group * step], UNDONE, np.uint32(0)
        if amax >= s.infinity:
            if s.nan != NEVER:
                scales[group], mark = s.nan, BLANK
        elif amax >= s.least:
            place = power_field(amax, s.carry, s.fraction)
            code, off = tables[0, place], tables[1, place]
            if code != NEVER:
                scales[group], mark = code, NOT_MARKED
        elif amax == 0 and s.zero != NEVER:
            scales[group], mark = s.zero, NOT_MARKED
        lowest = np.uint32(1) << s.fraction
        normal = lowest if off >> np.uint32(31) != 0 else off + lowest
        for i in range(group * step, group * step + step):
            by[i] = off
            by[by.size // 2 + i] = normal
        if mark != NOT_MARKED:
            marks[group] = mark
            marked += 1
    return marked


@helper
def scales_by_vectors(
    big: Codes, groups: int, step: int, made: Codes, over: Codes, s: Setup, tables: Codes,
    general: tuple[Params, ...],
) -> None:  # fmt: skip
    """Write the code of each group's scale, and its divisor as a binary64 pattern: LANES at a time.

    The pattern is 0 where the group falls back to `general.blocks`. `tables` is the plan of a decoder and an
    encoder.
    """
    rule, tensor = load_rule(general[0]), load_record(Tensor, general[1], 0)
    divisor = as_double(*product(rule.divisor, rule.divisor_exponent, tensor.scale, tensor.scale_exponent))
    source, target = load_decoder(tables, PROBE, ()), load_encoder(tables, PROBE + DECODER, ())
    few, words = padded(big, big.size), padded(big, big.size)
    for start in range(0, groups, LANES):
        for i in range(min(LANES, groups - start)):
            few[i] = big[(start + i) * step]
        wanted = greater(quotients(greater(load(few, 0), 1 << 23), fill_wide(divisor)), s.raised)
        code = project(wanted, fill(0), target)
        store(made, start, code)
        store(words, 0, read(code, source))
        for i in range(min(LANES, groups - start)):
            word, over[start + i] = words[i], 0
            if word >= np.uint32(1 << 23) and word < np.uint32(_INFINITY):
                significand, exponent = single_of(word)
                significand, exponent = product(significand, exponent, tensor.scale, tensor.scale_exponent)
                over[start + i] = divisor_pattern(significand, exponent, s)


@helper
def scales_one_by_one(
    big: Codes, groups: int, step: int, made: Codes, over: Codes, s: Setup, tables: Codes,
    general: tuple[Params, ...],
) -> None:  # fmt: skip
    """Write what `scales_by_vectors` writes, for all rules."""
    rule, tensor = load_rule(general[0]), load_record(Tensor, general[1], 0)
    target, source = load_target(general[2]), load_record(Source, general[3], 0)
    by = divisor_of_amax(rule, tensor, rule.arithmetic)
    for group in range(groups):
        amax, over[group] = big[group * step], 0
        if s.least <= amax and amax < s.infinity:
            significand, exponent = single_of(amax)
            code = code_of(significand, exponent, by, rule, tensor, target)
            x = read_lane(code, source, False)
            significand, exponent = divisor_of(x, code == rule.lowest, rule, tensor, rule.arithmetic)
            if not x.nan and not x.infinite and significand != _U(0):
                made[group], over[group] = code, divisor_pattern(significand, exponent, s)


def _scales_of_numbers(find: Any) -> Any:
    def scales_of_numbers(
        big: Codes, by: Codes, groups: int, step: int, scales: Codes, marks: Codes, setup: Words,
        tables: Codes, general: tuple[Params, ...],
    ) -> int:  # fmt: skip
        """Do as `scales_of_powers`, for scales that are any numbers: binary64 patterns divide the columns."""
        s = load_record(Setup, setup, 0)
        made, over = np.empty(groups + LANES, np.uint32), np.empty(groups, np.uint64)
        find(big, groups, step, made, over, s, tables, general)
        marked = 0
        for group in range(groups):
            amax, mark, divisor = big[group * step], UNDONE, _ONE
            if amax >= s.infinity:
                if s.nan != NEVER:
                    scales[group], mark = s.nan, BLANK
            elif amax >= s.least:
                if over[group] != _U(0):
                    scales[group], mark, divisor = made[group], NOT_MARKED, over[group]
            elif amax == 0 and s.zero != NEVER:
                scales[group], mark = s.zero, NOT_MARKED
            for i in range(group * step, group * step + step):
                by[i] = divisor
            if mark != NOT_MARKED:
                marks[group] = mark
                marked += 1
        return marked

    return scales_of_numbers


#: How scales are found, by the name in a `BlockPlan`.
_FINDERS = {
    "powers": scales_of_powers,
    "vectors": helper(_scales_of_numbers(scales_by_vectors), "scales_of_vectors"),
    "numbers": helper(_scales_of_numbers(scales_one_by_one), "scales_of_numbers"),
}


@inlined
def single_of(word: np.uint32) -> tuple[np.uint64, np.int64]:
    """Return a normal binary32 number, normalized."""
    significand = (_U(word & np.uint32(0x7FFFFF)) | _U(1 << 23)) << _U(40)
    return significand, _I(word >> np.uint32(23)) - _I(127 + 63)


@inlined
def as_double(significand: np.uint64, exponent: np.int64) -> np.uint64:
    """Return the pattern of a number of at most 53 bits that is normal in binary64."""
    significand, exponent = normalized(significand, exponent)
    return _U(exponent + _I(63 + 1023)) << _U(52) | (significand << _U(1)) >> _U(12)


@inlined
def divisor_pattern(significand: np.uint64, exponent: np.int64, s: Setup) -> np.uint64:
    """Return the binary64 pattern of a normalized divisor; 0 where quotients could be too small to tell."""
    lead = exponent + _I(63)
    near = lead > _I(np.int32(s.lowest)) and lead < _HUGE
    return as_double(significand, exponent) if near else _U(0)


@helper
def blank(out: Codes, stride: int, high: int, wide: int, marks: Codes, groups: int) -> int:
    """Zeros in the blocks whose scale is NaN, which need nothing else; how many there are."""
    found, nothing = 0, fill(0)
    for group in range(groups):
        if marks[group] == BLANK:
            marks[group] = NOT_MARKED
            found += 1
            for row in range(high):
                start = row * stride + group * wide
                if wide == LANES:  # a loop of any length would become a call
                    store(out, start, nothing)
                else:
                    for i in range(start, start + wide):
                        out[i] = 0
    return found


@inlined
def never(*given: Any) -> None:
    """Do nothing: a kernel that is not called."""


@functools.cache
def encoder(source_shape: Shape, target_shape: Shape, scales_by: str) -> Kernel:
    """Return the kernel for plans of these shapes, or of all if empty, and scales of `BlockPlan.scales`.

    Called as encode(values, out, scales, marks, layout, plan, setup, tables, general, random), with

        values, out      flat, of one size
        scales, marks    flat, one for each block; marks are zeros, and become UNDONE for blocks left undone
        layout           outer, rows, columns; rows and columns of a block; columns of a tile, and of
                         the smallest one: multiples of LANES and of a block's columns
        plan             of a decoder and an encoder
        setup            see `Setup`
        tables           see `scales_of_powers` and `scales_by_vectors`
        general          arrays that `block` reads: rule, tensor, target of scales, source of scales
        random           an integer for each element, or empty

    Returns how many blocks are left undone, or UNSUITED where nothing is written, as the processor does not
    round to nearest in this thread: take the plan of `lower.vector.anywhere`.
    """
    known = not source_shape or source_shape[0] != NONE
    load_reader: Any = load_decoder if known else load_nothing
    read_values: Any = read if known else left_out
    find_scales, powers = _FINDERS[scales_by], scales_by == "powers"
    in_columns: Any = shifted_in_columns if powers else divided_in_columns
    name = f"_{scales_by}" + "".join(
        "_" + ".".join(map(str, shape)) for shape in (source_shape, target_shape)
    )

    def find_in_rows(values: Codes, start: int, groups: int, wide: int, big: Codes, plan: Words) -> None:
        """Write the largest magnitude of each group of a row, by number."""
        source = load_reader(plan, PROBE, source_shape)
        for group in range(groups):
            at = start + group * wide
            most = read_values(load_odd(values, at), source) & _MAGNITUDE
            for i in range(at + LANES, at + wide, LANES):
                most = greater(most, read_values(load_odd(values, i), source) & _MAGNITUDE)
            big[group] = first_lane(greatest(most))

    def find_in_columns(
        values: Codes, start: int, stride: int, high: int, width: int, big: Codes, plan: Words
    ) -> None:
        """Write the largest magnitude of each column."""
        source = load_reader(plan, PROBE, source_shape)
        big[:width] = 0
        even = high - high % 4
        for row in range(0, even, 4):  # each row from one end to the other, as memory likes it
            at = start + row * stride
            for c in range(0, width, LANES):
                a = read_values(load_odd(values, at + c), source) & _MAGNITUDE
                b = read_values(load_odd(values, at + c + stride), source) & _MAGNITUDE
                most = greater(load(big, c), greater(a, b))
                a = read_values(load_odd(values, at + c + 2 * stride), source) & _MAGNITUDE
                b = read_values(load_odd(values, at + c + 3 * stride), source) & _MAGNITUDE
                store(big, c, greater(most, greater(a, b)))
        for row in range(even, high):
            at = start + row * stride
            for c in range(0, width, LANES):
                a = read_values(load_odd(values, at + c), source) & _MAGNITUDE
                store(big, c, greater(load(big, c), a))

    def encode_rows(
        values: Codes, start: int, out: Codes, random: Words, groups: int, wide: int, by: Codes, plan: Words,
        past: bool,
    ) -> None:  # fmt: skip
        """Write a row's codes, each group divided by what it has. Meanwhile memory brings the next tile."""
        ahead = groups * wide
        source = load_reader(plan, PROBE, source_shape)
        target = load_encoder(plan, PROBE + DECODER, target_shape)
        random_word = fill(0)
        for group in range(groups):
            for i in range(group * wide, group * wide + wide, LANES):
                fetch(values, start + ahead + i)
                word = read_values(load_odd(values, start + i), source)
                if target.limits == DRAWN:
                    random_word = load(random, start + i) << (32 - target.bits)
                a = shifted_in_row(word & _MAGNITUDE, by, group, target)
                put(out, start + i, project_magnitude(word, a, random_word, target), past)

    def encode_columns(
        values: Codes, stride: int, out: Codes, random: Words, high: int, width: int, by: Codes, plan: Words,
        past: bool,
    ) -> None:  # fmt: skip
        """Write a tile's codes, each column divided by what it has. Meanwhile memory brings the next tile."""
        source = load_reader(plan, PROBE, source_shape)
        target = load_encoder(plan, PROBE + DECODER, target_shape)
        random_word = fill(0)
        for row in range(high):
            at = row * stride
            for c in range(0, width, LANES):
                fetch(values, at + c + width)
                word = read_values(load_odd(values, at + c), source)
                if target.limits == DRAWN:
                    random_word = load(random, at + c) << (32 - target.bits)
                a = in_columns(word & _MAGNITUDE, by, c, target)
                put(out, at + c, project_magnitude(word, a, random_word, target), past)

    find_columns = helper(find_in_columns, f"find_columns{name}")
    code_columns = helper(encode_columns, f"code_columns{name}")
    # Where a block is a number of whole vectors there is a faster way; elsewhere it is left out, and not
    # compiled.
    in_rows = bool(target_shape) and powers
    find_rows: Any = helper(find_in_rows, f"find_rows{name}") if in_rows else never
    code_rows: Any = helper(encode_rows, f"code_rows{name}") if in_rows else never

    def all_blocks(
        values: Codes, out: Codes, scales: Codes, marks: Codes, layout: tuple[int, ...], plan: Words,
        setup: Words, tables: Codes, general: tuple[Params, ...], random: Words,
    ) -> int:  # fmt: skip
        outer, rows, columns, high, wide, tile, unit = layout
        if not suited(load_encoder(plan, PROBE + DECODER, target_shape), plan):
            return UNSUITED
        down, across = -(-rows // high), -(-columns // wide)
        big, by = np.empty(tile, np.uint32), np.empty(2 * tile, np.uint32 if powers else np.uint64)
        by[:] = 0 if powers else _ONE  # for columns that belong to no block
        held, made = np.empty(high * tile, values.dtype), np.empty(high * tile, out.dtype)
        drawn = np.empty(high * tile if random.size > 0 else 0, np.uint32)
        undone, past, nothing = 0, plan[PAST] != 0, tile - tile
        rows_of_vectors = in_rows and high == 1 and wide % LANES == 0
        for slab in range(outer * down):
            row = (slab // down) * rows + (slab % down) * high
            some = min(high, rows - (slab % down) * high)
            for column in range(0, columns, tile):
                width = min(tile, columns - column)
                start, first, groups = (
                    row * columns + column,
                    slab * across + column // wide,
                    -(-width // wide),
                )
                whole = some == high and width % unit == 0
                source, target, words, at, stride = values, out, random, start, columns
                if not whole:
                    # What is missing at the end is taken from the last row and column.
                    source, target, words, at, stride = held, made, drawn, nothing, -(-width // unit) * unit
                    for i in range(high):
                        for j in range(stride):
                            place = start + min(i, some - 1) * columns + min(j, width - 1)
                            held[i * stride + j] = values[place]
                            if random.size > 0:
                                drawn[i * stride + j] = random[place]
                size, step = width if whole else stride, wide
                if rows_of_vectors:
                    find_rows(source, at, groups, wide, big, plan)
                    step = 1
                else:
                    find_columns(source, at, stride, high, size, big, plan)
                    largest_of_groups(big, size, wide)
                found = find_scales(
                    big, by, groups, step, scales[first:], marks[first:], setup, tables, general
                )
                if rows_of_vectors:
                    code_rows(source, at, target, words, groups, wide, by, plan, past and whole)
                else:
                    code_columns(
                        source[at:], stride, target[at:], words[at:], high, size, by, plan, past and whole
                    )
                if found > 0:
                    undone += found - blank(target[at:], stride, high, wide, marks[first:], groups)
                if not whole:
                    for i in range(some):
                        for j in range(width):
                            out[start + i * columns + j] = made[i * stride + j]
        settle()
        return undone

    return jit(all_blocks, f"all_blocks{name}")


@jit
def largest_magnitude(codes: Codes, mask: np.uint32, limit: np.uint32) -> int:
    """Return the largest of the codes without their sign that are not above a limit; 0 if there is none."""
    largest = fill(0)
    whole = codes.size - codes.size % LANES
    for i in range(0, whole, LANES):
        magnitude = load_odd(codes, i) & mask
        largest = greater(largest, choose(less(limit, magnitude), 0, magnitude))
    magnitude = load_odd(padded(codes, whole), 0) & mask
    largest = greater(largest, choose(less(limit, magnitude), 0, magnitude))
    return int(first_lane(greatest(largest)))
