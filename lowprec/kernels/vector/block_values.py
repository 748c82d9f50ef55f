"""Decode blocks by vectors: elements are read as `convert` reads them, and multiplied by their scales.

An array is gone through in tiles, as `block` does it. What is unusual, such as scales that are
NaN or products beyond binary32's normal numbers, is left to `general.blocks`.

Floor 2b. Imports numba through `jit`; never the oracle, which checks it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.kernels.jit import helper, inlined, jit, load_record
from lowprec.kernels.lower.vector import PAST, PROBE, Decoder, Words
from lowprec.kernels.lower.vector_block import NEVER, Factors
from lowprec.kernels.vector.block import UNDONE, UNSUITED
from lowprec.kernels.vector.convert import load_decoder, put, read, rounds_to_nearest
from lowprec.kernels.vector.ir.lanes import (
    LANES,
    Lanes,
    as_singles,
    as_words,
    choose,
    fetch,
    fill,
    less,
    load,
    not_a_number,
    settle,
    store,
)

__all__ = ["decoder"]

Codes = npt.NDArray[Any]
Shape = tuple[int, ...]
Kernel = Callable[..., int]

_NAN = 0x7FC00000

#: How many codes ahead memory is asked for them.
_AHEAD = 4096
_FACTORS = len(Factors._fields)


@inlined
def times_scale(word: Lanes, scale: Lanes, tensor: np.uint32) -> Lanes:
    """Elements times their scale, where the tensor has none."""
    return as_words(as_singles(word) * as_singles(scale))


@inlined
def times_scales(word: Lanes, scale: Lanes, tensor: np.uint32) -> Lanes:
    """Elements times their scale, which is exact, times the tensor's."""
    return as_words(as_singles(as_words(as_singles(word) * as_singles(scale))) * as_singles(fill(tensor)))


@inlined
def positive_nan(product: Lanes, code: Lanes, f: Decoder) -> Lanes:
    """Products, those of NaNs positive."""
    if f.specials != 0 or f.not_a_zero != 0:
        product = choose(not_a_number(product), _NAN, product)
    return product


@inlined
def nan_above(product: Lanes, code: Lanes, f: Decoder) -> Lanes:
    """Products, NaN where the element was read as if there were none but finite ones."""
    return choose(less(f.largest, code & f.mask), _NAN, product)


@functools.cache
def decoder(source_shape: Shape, scaled: bool) -> Kernel:
    """Return the kernel that multiplies decoded elements by their scales, for plans of a shape, or all.

    If `scaled`, it multiplies by the scale of the tensor too.

    Called as decode(codes, out, scales, marks, layout, plan, factors), with arrays as `encoder` takes
    them and `factors` as `Factors` followed by the scale of each code, a binary32 pattern or NEVER;
    nothing follows where codes are such patterns themselves.

    Returns how many blocks are marked, or UNSUITED where the processor does not round to nearest in this
    thread, and it would have to.
    """
    name = "_scaled" * scaled + "_" + ".".join(map(str, source_shape))
    times: Any = times_scales if scaled else times_scale
    # Of formats whose only special codes are NaNs these are told by their codes, once.
    nans_alone = dict(zip(Decoder._fields, source_shape, strict=False)).get("specials") == 1
    shape = tuple(
        0 if nans_alone and name == "specials" else word
        for name, word in zip(Decoder._fields, source_shape, strict=False)
    )
    ended: Any = nan_above if nans_alone else positive_nan

    def find_factors(
        scales: Codes, first: int, groups: int, step: int, by: Codes, marks: Codes, factors: Words
    ) -> int:
        """Write each group's scale as binary32, once or for all its columns; return how many are marked."""
        f = load_record(Factors, factors, 0)
        marked = 0
        for group in range(groups):
            code = np.uint32(scales[first + group])
            if factors.size > _FACTORS:
                word = factors[np.uint32(_FACTORS) + code]
            else:
                word = code if f.lowest <= code and code <= f.highest else np.uint32(NEVER)
            if word == NEVER:
                marks[first + group] = UNDONE
                marked += 1
            by[group * step] = word
            for i in range(group * step + 1, group * step + step, LANES):
                store(by, i, fill(word))
        return marked

    def values_of_rows(
        codes: Codes, start: int, out: Codes, groups: int, wide: int, by: Codes, plan: Words,
        tensor: np.uint32, past: bool,
    ) -> None:  # fmt: skip
        source = load_decoder(plan, PROBE, shape)
        for group in range(groups):
            scale = fill(by[group])
            for i in range(group * wide, group * wide + wide, LANES):
                fetch(codes, start + i + _AHEAD)
                code = load(codes, start + i)
                put(out, start + i, ended(times(read(code, source), scale, tensor), code, source), past)

    def values_of_columns(
        codes: Codes, stride: int, out: Codes, high: int, width: int, by: Codes, plan: Words,
        tensor: np.uint32, past: bool,
    ) -> None:  # fmt: skip
        source = load_decoder(plan, PROBE, shape)
        for row in range(high):
            for c in range(row * stride, row * stride + width, LANES):
                code, scale = load(codes, c), load(by, c - row * stride)
                put(out, c, ended(times(read(code, source), scale, tensor), code, source), past)

    find = helper(find_factors, f"find_factors{name}")
    in_rows, in_columns = (
        helper(values_of_rows, f"value_rows{name}"),
        helper(values_of_columns, f"value_columns{name}"),
    )

    def all_values(
        codes: Codes,
        out: Codes,
        scales: Codes,
        marks: Codes,
        layout: tuple[int, ...],
        plan: Words,
        factors: Words,
    ) -> int:
        outer, rows, columns, high, wide, tile, unit = layout
        f = load_record(Factors, factors, 0)
        if f.exact == 0 and not rounds_to_nearest(plan):
            return UNSUITED
        down, across = -(-rows // high), -(-columns // wide)
        by = np.zeros(tile + LANES, np.uint32)  # the last group's may be more than there are columns
        held, made = np.zeros(high * tile, codes.dtype), np.empty(high * tile, out.dtype)
        in_row = high == 1 and wide % LANES == 0
        step, undone, nothing, past = 1 if in_row else wide, 0, tile - tile, plan[PAST] != 0
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
                undone += find(scales, first, groups, step, by, marks, factors)
                whole = width % unit == 0
                source, target, at, stride = codes, out, start, columns
                if not whole:
                    source, target, at, stride = held, made, nothing, -(-width // unit) * unit
                    for i in range(some):
                        for j in range(width):
                            held[i * stride + j] = codes[start + i * columns + j]
                if in_row:
                    in_rows(source, at, target, groups, wide, by, plan, f.tensor, past and whole)
                else:
                    size = width if whole else stride
                    in_columns(
                        source[at:], stride, target[at:], some, size, by, plan, f.tensor, past and whole
                    )
                if not whole:
                    for i in range(some):
                        for j in range(width):
                            out[start + i * columns + j] = made[i * stride + j]
        settle()
        return undone

    return jit(all_values, f"all_values{name}")
