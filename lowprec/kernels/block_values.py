"""The values of blocks at the speed of memory: elements are read as `stream` reads them, and multiplied.

An array is gone through in tiles, as `block_stream` does it. What is unusual, such as scales that are
NaN or products beyond binary32's normal numbers, is left to `block`.

Floor 2b. Imports numba through `jit`; never the oracle, which checks it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.kernels.block_stream import UNDONE, UNSUITED
from lowprec.kernels.block_stream_params import NEVER, Factors
from lowprec.kernels.jit import elements, helper, inlined, jit
from lowprec.kernels.lanes import LANES, Lanes, as_singles, as_words, choose, fill, less, load, settle
from lowprec.kernels.stream import load_decoder, put, read, rounds_to_nearest
from lowprec.kernels.stream_params import PAST, PROBE, Decoder, Words

__all__ = ["decoder"]

Codes = npt.NDArray[Any]
Shape = tuple[int, ...]
Kernel = Callable[..., int]

_MAGNITUDE, _INFINITY, _NAN = 0x7FFFFFFF, 0x7F800000, 0x7FC00000
_FACTORS = tuple(range(len(Factors._fields)))


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
