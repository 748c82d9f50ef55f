"""Programs over arrays in blocks.

A partial program, as those of the vector engine are, marks the blocks that it leaves; the scalar engine does
those. Results do not depend on it.

Floor 3.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import operator
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lowprec.arrays.blocks.block_products import decode_products
from lowprec.arrays.checks import Array, Operand
from lowprec.arrays.threads import ALIGNED, share
from lowprec.arrays.traverse import PAST_FROM
from lowprec.kernels import engine
from lowprec.kernels.compiling import is_worth
from lowprec.kernels.engine import Backend, Tensor
from lowprec.kernels.lower.block import (
    Number,
    exactly,
    lower_tensor,
    nearest_single,
    number_of,
    tensor_numbers,
)
from lowprec.kernels.request import BlockDecoding, BlockEncoding, known
from lowprec.kernels.vector.block import largest_magnitude
from lowprec.kernels.vector.ir.lanes import LANES
from lowprec.spec import catalog
from lowprec.spec.block import BlockFormat
from lowprec.spec.format import Format, Sign

__all__ = [
    "axes_of",
    "Tensor",
    "decode_blocks",
    "encode_blocks",
    "exact_single",
    "grid_of",
    "inverse",
    "largest_finite",
    "order_in_memory",
    "tensor_of",
]

DTypeLike = npt.DTypeLike
Words = npt.NDArray[np.uint32]
Places = npt.NDArray[np.intp]

#: Columns of a tile where blocks lie along rows, and where they lie along or across columns; and the most.
_TILE, _TILE_OF_COLUMNS, _WIDEST = 4096, 512, 1 << 20

#: Where more than one block in so many is marked, the general kernel is given all.
_MANY = 2

#: Elements that the general kernel is given at a time.
_PART = 1 << 16


def axes_of(fmt: BlockFormat, axis: int | Iterable[int] | None, ndim: int) -> tuple[int, ...]:
    """Return the axes that the blocks of a format lie along, none negative; the last ones by default."""
    count = len(fmt.sizes)
    if axis is None:
        axes: tuple[int, ...] = tuple(range(-count, 0))
    else:
        several = np.iterable(axis) and not isinstance(axis, (bytes, Mapping))
        items: tuple[Any, ...] = tuple(axis) if several else (axis,)  # type: ignore[arg-type]
        try:
            if any(isinstance(item, bool) for item in items):
                raise TypeError
            axes = tuple(map(operator.index, items))
        except TypeError:
            raise TypeError(f"axis must be an integer or a tuple of them, not {axis!r}") from None
    if len(axes) != count:
        raise ValueError(
            f"blocks of {fmt.name!r} lie along {_count_axes(count)}, and axis={axis!r} names {len(axes)}"
        )
    if any(not -ndim <= item < ndim for item in axes):
        said = "the last of them" if axis is None else f"axis={axis!r}"
        raise ValueError(
            f"blocks of {fmt.name!r} need {_count_axes(count)}, and the array has {ndim}: {said} is not there"
        )
    axes = tuple(item % ndim for item in axes)
    if len(set(axes)) != count:
        raise ValueError(f"axis={axis!r} names an axis twice; blocks of {fmt.name!r} lie along two")
    return axes


def _count_axes(count: int) -> str:
    return "one axis" if count == 1 else "two axes"


def grid_of(shape: tuple[int, ...], axes: tuple[int, ...], sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of the scales."""
    grid = list(shape)
    for axis, size in zip(axes, sizes, strict=True):
        grid[axis] = -(-shape[axis] // size)
    return tuple(grid)


def order_in_memory(array: Array) -> tuple[int, ...] | None:
    """Return the axes from the outermost to the innermost in memory, if no elements lie between.

    None where that is their own order, too.
    """
    if array.flags.c_contiguous:
        return None
    order = tuple(sorted(range(array.ndim), key=lambda axis: -array.strides[axis]))
    return order if array.transpose(order).flags.c_contiguous else None


def inverse(order: tuple[int, ...]) -> tuple[int, ...]:
    """Return the order of axes that undoes another."""
    return tuple(map(order.index, range(len(order))))


def _flat(codes: Array) -> Array:
    """Elements one after the other, at their natural addresses: the array's own, if it is so."""
    if not (codes.flags.c_contiguous and codes.flags.aligned and codes.dtype.isnative):
        codes = np.require(codes, codes.dtype.newbyteorder("="), ["C", "A"])
    return codes.reshape(-1)


# -- the scale of a tensor ---------------------------------------------------------------------------


def tensor_of(
    operand: Operand, fmt: BlockFormat, given: np.float32 | None, backend: Backend | None
) -> Tensor:
    """Return the scale that is given, or that follows from the values."""
    if fmt.tensor_scale == "none" and given is None and backend != "oracle":
        return Tensor(None, lower_tensor(fmt))
    scale, inverse = (1, 0), (1, 0)
    if backend == "oracle":
        program = engine.lower(
            known(BlockEncoding, operand.fmt, fmt, fmt.tensor_scale != "none", backend="oracle")
        )
        exact = program.tensor_scale(operand.codes, None if given is None else exact_single(given))
        scale, inverse = map(number_of, exact)
    elif given is not None:
        scale = _number_of_single(given)
        inverse = tensor_numbers(scale, (1, 0), True)[1]
    elif (amax := largest_finite(operand))[0]:
        most = Fraction(fmt.element.max_finite) * Fraction(fmt.scale.max_finite)
        scale, inverse = tensor_numbers(amax, number_of(most), fmt.tensor_scale == "reciprocal")
    value = given if given is not None or fmt.tensor_scale == "none" else _single(scale)
    return Tensor(value, lower_tensor(fmt, scale, inverse))


def exact_single(value: np.float32) -> Fraction:
    """Return what a positive float32 stands for."""
    return exactly(*_number_of_single(value))


def _number_of_single(value: np.float32) -> Number:
    """Return what a positive float32 stands for, from its bits: the process may take subnormals for zeros."""
    return catalog.BINARY32.scaled(int(value.view(np.uint32)))


def _single(number: Number) -> np.float32:
    """Return the float32 that is this positive number, from its bits."""
    significand, place = nearest_single(number)  # with all bits that the last one's place leaves
    return np.uint32((place + 149 << 23) + significand).view(np.float32)


def largest_finite(operand: Operand) -> Number:
    """Return the largest magnitude among the finite values of an array: its significand and exponent."""
    codes, fmt = operand.codes, operand.fmt
    mask = ((1 << fmt.width) - 1) & ~fmt.sign_code
    if not codes.size:
        return 0, 0
    if fmt.sign is Sign.TWOS_COMPLEMENT:
        most = max(int(operand.array.max()), -int(operand.array.min()))
    elif mask < 1 << 31 and fmt.subnormals and is_worth(largest_magnitude, codes.size):
        flat = _flat(codes)
        limits = np.uint32(mask), np.uint32(fmt.max_magnitude)
        most = share(lambda i, j: largest_magnitude(flat[i:j], *limits), flat.size)
    else:
        magnitudes = codes & codes.dtype.type(mask)
        finite = magnitudes <= fmt.max_magnitude
        most = int(magnitudes.max(where=finite, initial=0))
        if not finite.any():  # of a format without zero, 0 is a value
            return 0, 0
    return fmt.scaled(most)


# -- encoding ----------------------------------------------------------------------------------------


def encode_blocks(
    operand: Operand,
    fmt: BlockFormat,
    axes: tuple[int, ...],
    tensor: Tensor,
    codes: Array,
    scales: Array,
    random: Words,
    scale_random: Words,
    backend: Backend | None,
    given: bool = False,
) -> None:
    """Write the codes of values, and those of their scales, to new arrays; scales that are given are read."""
    scaled = tensor.value is not None
    program = engine.lower(known(BlockEncoding, operand.fmt, fmt, scaled, given, backend=backend))
    if not codes.size:
        return
    layout = _layout(codes.shape, axes, fmt.sizes) if program.partial else None
    values, flat, flat_scales = _flat(operand.codes), codes.reshape(-1), scales.reshape(-1)
    blocks = None
    if layout is not None:
        marks = np.zeros(scales.size, np.uint8)
        past = flat.nbytes >= PAST_FROM and _aligned(flat, layout)

        def part(part: _Layout, elements: slice, blocks: slice) -> int:
            undone: int = program.run(
                values[elements], flat[elements], flat_scales[blocks], marks[blocks], part, tensor,
                random[elements], past,
            )  # fmt: skip
            return undone

        if not _shared(part, layout, values.size):
            return
        blocks = _marked(marks)
    if program.partial:
        program = engine.lower(known(BlockEncoding, operand.fmt, fmt, scaled, backend="scalar"))
    if blocks is None:
        in_rows = [_rows(array, codes.shape, axes, fmt.sizes) for array in (values, random)]
        made = np.empty(in_rows[0].size, codes.dtype)
        refusal = program.run(in_rows[0], made, flat_scales, tensor, in_rows[1], scale_random)
        if refusal is not None and refusal.element >= 0:
            places = _rows(np.arange(codes.size), codes.shape, axes, fmt.sizes)
            _refuse(operand, fmt, int(places[refusal.element]))
        if refusal is not None:
            _refuse_scale(fmt, refusal.scale, scales.shape)
        _from_rows(made, codes, axes, fmt.sizes)
        return
    for ids, places in _parts(codes.shape, axes, fmt.sizes, blocks):
        made = np.zeros(places.size, codes.dtype)
        made_scales = flat_scales[ids] if given else np.zeros(ids.size, scales.dtype)
        refusal = program.run(
            values[places].reshape(-1), made, made_scales, tensor,
            random[places].reshape(-1) if random.size else random,
            scale_random[ids] if scale_random.size else scale_random,
        )  # fmt: skip
        if refusal is not None and refusal.element >= 0:
            _refuse(operand, fmt, int(places.reshape(-1)[refusal.element]))
        if refusal is not None:
            _refuse_scale(fmt, int(ids[refusal.scale]), scales.shape)
        flat[places.reshape(-1)] = made
        flat_scales[ids] = made_scales


class _Layout(NamedTuple):
    """An array as the kernels in lanes go through it, a block of it, and its tiles."""

    outer: int
    rows: int
    columns: int
    high: int
    wide: int
    tile: int
    unit: int


@functools.lru_cache(maxsize=256)
def _layout(shape: tuple[int, ...], axes: tuple[int, ...], sizes: tuple[int, ...]) -> _Layout | None:
    """Return blocks along the last axis, along another, or across the last two; None for other pairs."""
    if len(axes) == 2:
        if axes[0] > axes[1]:
            axes, sizes = axes[::-1], sizes[::-1]
        if axes != (len(shape) - 2, len(shape) - 1):
            return None
        outer, rows, columns, high, wide = math.prod(shape[:-2]), *shape[-2:], *sizes
    else:
        before, length, after = math.prod(shape[: axes[0]]), shape[axes[0]], math.prod(shape[axes[0] + 1 :])
        if after > 1:
            outer, rows, columns, high, wide = before, length, after, sizes[0], 1
        elif length % sizes[0]:
            outer, rows, columns, high, wide = 1, before, length, 1, sizes[0]
        else:
            outer, rows, columns, high, wide = 1, 1, before * length, 1, sizes[0]
    unit = math.lcm(wide, LANES)
    if unit * high > _WIDEST:
        return None
    tile = unit * max(1, (_TILE if high == 1 else _TILE_OF_COLUMNS) // unit)
    return _Layout(outer, rows, columns, high, wide, tile, unit)


def _aligned(out: Array, layout: _Layout) -> bool:
    """Return whether every tile begins where memory can be written past the caches."""
    whole = layout.outer * layout.rows == 1
    return not (out.__array_interface__["data"][0] | (0 if whole else layout.columns * out.itemsize)) % 16


def _shared(
    part: Callable[[_Layout, slice, slice], int], layout: _Layout, size: int, most: int | None = None
) -> int:
    """Call part(layout, elements, blocks) for parts of an array, in threads if it is large.

    Parts have about `most` elements, if that is given.
    """
    across = -(-layout.columns // layout.wide)
    if layout.outer > 1:
        each, blocks = layout.rows * layout.columns, -(-layout.rows // layout.high) * across
    elif layout.rows > 1:
        each, blocks = layout.high * layout.columns, across
    else:
        blocks = math.lcm(layout.wide, ALIGNED) // layout.wide
        each = blocks * layout.wide

    def one(start: int, stop: int) -> int:
        if layout.outer > 1:
            smaller = layout._replace(outer=(stop - start) // each)
        elif layout.rows > 1:
            smaller = layout._replace(rows=(stop - start) // layout.columns)
        else:
            smaller = layout._replace(columns=stop - start)
        return part(smaller, slice(start, stop), slice(start // each * blocks, -(-stop // each) * blocks))

    def pieces(start: int, stop: int) -> int:
        step = stop - start if most is None else max(most // each, 1) * each
        return max(one(place, min(place + step, stop)) for place in range(start, stop, step))

    return share(pieces, size, each)


# -- decoding ----------------------------------------------------------------------------------------


def decode_blocks(
    codes: Array,
    scales: Array,
    fmt: BlockFormat,
    axes: tuple[int, ...],
    tensor: np.float32 | None,
    result: Array,
    carrier: Format,
    backend: Backend | None,
) -> None:
    """Write the values of blocks to a contiguous array of a type with this format."""
    if not codes.size:
        return
    if backend is None and tensor is None and decode_products(codes, scales, fmt, axes, result, carrier):
        return
    flat_codes, flat_scales, out = _flat(codes), _flat(scales), result.reshape(-1).view(f"u{result.itemsize}")
    request = known(BlockDecoding, fmt, tensor is not None, carrier, backend=backend)
    number = (1, 0) if tensor is None else _number_of_single(tensor)
    whole = Tensor(tensor, lower_tensor(fmt, number))
    program, blocks = engine.lower(request), None
    layout = _layout(codes.shape, axes, fmt.sizes) if program.partial else None
    if layout is not None:
        marks = np.zeros(flat_scales.size, np.uint8)
        past = out.nbytes >= PAST_FROM and _aligned(out, layout)

        def part(part: _Layout, elements: slice, blocks: slice) -> int:
            undone: int = program.run(
                flat_codes[elements], out[elements], flat_scales[blocks], marks[blocks], part, whole, past
            )
            return undone

        if not _shared(part, layout, out.size):
            return
        blocks = _marked(marks)
    if program.partial:
        program = engine.lower(dataclasses.replace(request, backend="scalar"))
    if blocks is None:
        in_rows = _rows(flat_codes, codes.shape, axes, fmt.sizes)
        values = np.empty(in_rows.size, out.dtype)
        program.run(in_rows, flat_scales, values, whole)
        _from_rows(values, result.view(out.dtype), axes, fmt.sizes)
        return
    for ids, places in _parts(codes.shape, axes, fmt.sizes, blocks):
        values = np.empty(places.size, out.dtype)
        program.run(flat_codes[places].reshape(-1), flat_scales[ids], values, whole)
        out[places.reshape(-1)] = values


def _marked(marks: Array) -> Places | None:
    """Return the numbers of marked blocks, or None for all where that is faster."""
    blocks = np.flatnonzero(marks)
    return None if blocks.size > marks.size // _MANY else blocks


# -- whole arrays, block after block -------------------------------------------------------------------


def _shorter(shape: tuple[int, ...], axes: tuple[int, ...], sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the sizes of blocks, none longer than its axis."""
    return tuple(max(1, min(size, shape[axis])) for size, axis in zip(sizes, axes, strict=True))


def _blocked(array: Array, axes: tuple[int, ...], sizes: tuple[int, ...]) -> Array:
    """View an array of whole blocks with the axes of their elements last, without others of length 1."""
    split: list[int] = []
    order, last = [], [0] * len(axes)
    for axis, length in enumerate(array.shape):
        if axis not in axes and length == 1:  # for NumPy has 64 axes, and blocks have some of their own
            continue
        order.append(len(split))
        if axis not in axes:
            split.append(length)
            continue
        size = sizes[axes.index(axis)]
        split += [length // size, size]
        last[axes.index(axis)] = len(split) - 1
    return array.reshape(split).transpose(order + last)


def _rows(array: Array, shape: tuple[int, ...], axes: tuple[int, ...], sizes: tuple[int, ...]) -> Array:
    """Return the elements of an array of such a shape, block after block; no elements of an empty one.

    Blocks at the end that lack elements have the last one several times.
    """
    if not array.size:
        return array
    array, sizes = array.reshape(shape), _shorter(shape, axes, sizes)
    for axis, size in zip(axes, sizes, strict=True):
        length = shape[axis]
        if length % size:
            array = array.take(np.minimum(np.arange(length + -length % size), length - 1), axis)
    return np.ascontiguousarray(_blocked(array, axes, sizes)).reshape(-1)


def _from_rows(rows: Array, array: Array, axes: tuple[int, ...], sizes: tuple[int, ...]) -> None:
    """Write what `_rows` would return of an array to the array."""
    if not array.size:
        return
    sizes, full = _shorter(array.shape, axes, sizes), list(array.shape)
    for axis, size in zip(axes, sizes, strict=True):
        full[axis] += -full[axis] % size
    whole = array if full == [*array.shape] else np.empty(full, array.dtype)
    view = _blocked(whole, axes, sizes)
    view[...] = rows.reshape(view.shape)
    if whole is not array:
        array[...] = whole[tuple(map(slice, array.shape))]


# -- blocks by number ----------------------------------------------------------------------------------


def _parts(
    shape: tuple[int, ...], axes: tuple[int, ...], sizes: tuple[int, ...], blocks: Places
) -> Iterable[tuple[Places, Places]]:
    """Yield blocks by number, some at a time, and the indices of their elements, shape (blocks, elements).

    Blocks at the end that lack elements have the last one several times. None has more than its axes are
    long.
    """
    sizes = _shorter(shape, axes, sizes)
    grid, each = grid_of(shape, axes, sizes), math.prod(sizes)
    step = max(1, _PART // each)
    for start in range(0, blocks.size, step):
        some = blocks[start : start + step]
        places = np.zeros((some.size,) + (1,) * len(axes), np.intp)
        for axis, first in enumerate(np.unravel_index(some, grid)):
            stride, along = math.prod(shape[axis + 1 :]), [some.size] + [1] * len(axes)
            if axis in axes:
                size = along[1 + axes.index(axis)] = sizes[axes.index(axis)]
                first = np.minimum(first[:, None] * size + np.arange(size), shape[axis] - 1)
            places = places + (first * stride).reshape(along)
        yield some, places.reshape(some.size, each)


def _refuse(operand: Operand, fmt: BlockFormat, first: int) -> None:
    place = tuple(int(i) for i in np.unravel_index(first, operand.array.shape))
    raise ValueError(
        f"cannot encode the value {operand.array[place]} at index {place} as an element of {fmt.name!r}: "
        f"{fmt.element.name!r} has no code for it. Replace it, or say what becomes of it with the block "
        f"format's nan= or elements="
    )


def _refuse_scale(fmt: BlockFormat, block: int, grid: tuple[int, ...]) -> None:
    place = tuple(int(i) for i in np.unravel_index(block, grid))
    raise ValueError(
        f"cannot encode NaN or infinite values in blocks of {fmt.name!r}, whose scales ({fmt.scale.name!r}) "
        f"have no NaN code; the first such block is {place}. Replace them, or say what becomes of them with "
        f"the block format's nan= and infinity="
    )
