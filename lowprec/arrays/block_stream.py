"""Arrays of blocks through the kernels: which ones serve a call, and how an array is gone through.

The kernels in lanes do what they can, and say which blocks they left; the general one does those,
or everything. Results do not depend on it.

Floor 3.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lowprec.arrays.checks import Array, Operand
from lowprec.arrays.threads import ALIGNED, share
from lowprec.arrays.traverse import PAST_FROM
from lowprec.kernels.lower.block import lower_block, lower_tensor
from lowprec.kernels.lower.scalar import Params, lower_source, lower_target
from lowprec.kernels.lower.vector import anywhere, past_caches, shapes, specialized
from lowprec.kernels.lower.vector_block import BlockPlan, lower_blocks, lower_products
from lowprec.kernels.scalar import block as general
from lowprec.kernels.vector import block as lanes, block_values
from lowprec.kernels.vector.ir.lanes import LANES
from lowprec.spec import catalog
from lowprec.spec.block import BlockFormat
from lowprec.spec.format import Format, Sign
from lowprec.spec.projection import DEFAULT

__all__ = ["Tensor", "decode_blocks", "encode_blocks", "exact_single", "grid_of", "spread", "tensor_of"]

Words = npt.NDArray[np.uint32]
Places = npt.NDArray[np.intp]

#: Columns of a tile where blocks lie along rows, and where they lie along or across columns; and the most.
_TILE, _TILE_OF_COLUMNS, _WIDEST = 4096, 512, 1 << 20

#: Elements that the general kernel is given at a time.
_PART = 1 << 16


def grid_of(shape: tuple[int, ...], axes: tuple[int, ...], sizes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of the scales."""
    grid = list(shape)
    for axis, size in zip(axes, sizes, strict=True):
        grid[axis] = -(-shape[axis] // size)
    return tuple(grid)


def spread(scales: Array, shape: tuple[int, ...], axes: tuple[int, ...], sizes: tuple[int, ...]) -> Array:
    """Repeat the scales of blocks of these sizes along these axes, for each element of an array of this shape."""
    for axis, size in zip(axes, sizes, strict=True):
        scales = np.take(scales, np.arange(shape[axis]) // size, axis)
    return scales


def _flat(codes: Array) -> Array:
    """Elements one after the other, at their natural addresses: the array's own, if it is so."""
    return np.require(codes, codes.dtype.newbyteorder("="), ["C", "A"]).reshape(-1)


# -- the scale of a tensor ---------------------------------------------------------------------------


class Tensor(NamedTuple):
    """The scale of a whole tensor: as it is kept, and as kernels take it."""

    value: np.float32 | None
    words: Params


def tensor_of(operand: Operand, fmt: BlockFormat, given: np.float32 | None) -> Tensor:
    """The scale that is given, or that follows from the values."""
    if fmt.tensor_scale == "none":
        return Tensor(None, lower_tensor(fmt, Fraction(1), Fraction(1)))
    if given is not None:
        scale = exact_single(given)
        return Tensor(given, lower_tensor(fmt, scale, _numbers(scale, Fraction(1), True)[1]))
    amax = _amax(operand)
    if not amax:
        return Tensor(np.float32(1), lower_tensor(fmt, Fraction(1), Fraction(1)))
    most = Fraction(fmt.element.max_finite) * Fraction(fmt.scale.max_finite)
    scale, inverse = _numbers(amax, most, fmt.tensor_scale == "reciprocal")
    return Tensor(_single(scale), lower_tensor(fmt, scale, inverse))


def exact_single(value: np.float32) -> Fraction:
    """What a positive float32 stands for, from its bits: the process may take subnormals for zeros."""
    significand, exponent = catalog.BINARY32.scaled(int(value.view(np.uint32)))
    return significand * Fraction(2) ** exponent


def _single(value: Fraction) -> np.float32:
    """The float32 that is this positive number, from its bits."""
    field = max(value.numerator.bit_length() - value.denominator.bit_length() + 127, 1)
    field -= value < Fraction(2) ** (field - 127) and field > 1
    fraction = int(value / Fraction(2) ** (field - 150))  # with the leading one, but for subnormals
    return np.uint32((field - 1 << 23) + fraction).view(np.float32)


def _numbers(amax: Fraction, most: Fraction, by_inverse: bool) -> tuple[Fraction, Fraction]:
    """The scale and its inverse."""
    (over, place), (by, by_place) = _scaled(amax), _scaled(most)
    made = general.tensor_numbers(np.uint64(over), np.int64(place), np.uint64(by), np.int64(by_place), by_inverse)
    scale, scale_exponent, inverse, inverse_exponent = map(int, made)
    return scale * Fraction(2) ** scale_exponent, inverse * Fraction(2) ** inverse_exponent


def _scaled(number: Fraction) -> tuple[int, int]:
    """Significand, odd, and exponent."""
    significand = number.numerator
    zeros = (significand & -significand).bit_length() - 1
    return significand >> zeros, zeros + 1 - number.denominator.bit_length()


def _amax(operand: Operand) -> Fraction:
    """The largest magnitude among the finite values of an array."""
    codes, fmt = operand.codes, operand.fmt
    mask = ((1 << fmt.width) - 1) & ~fmt.sign_code
    if not codes.size:
        return Fraction(0)
    if fmt.sign is Sign.TWOS_COMPLEMENT:
        largest = max(int(operand.array.max()), -int(operand.array.min()))
    elif mask < 1 << 31 and fmt.subnormals:
        flat = _flat(codes)
        limits = np.uint32(mask), np.uint32(fmt.max_magnitude)
        largest = share(lambda i, j: lanes.largest_magnitude(flat[i:j], *limits), flat.size)
    else:
        magnitudes = codes & codes.dtype.type(mask)
        finite = magnitudes <= fmt.max_magnitude
        largest = int(magnitudes.max(where=finite, initial=0))
        if not finite.any():  # of a format without zero, 0 is a value
            return Fraction(0)
    significand, exponent = fmt.scaled(largest)
    return significand * Fraction(2) ** exponent


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
) -> None:
    """Write the codes of values, and those of their scales, to new arrays."""
    way = None if scale_random.size else _way(operand.fmt, fmt, tensor.value is not None)
    layout = None if way is None or not codes.size else _layout(codes.shape, axes, fmt.sizes)
    if way is None or layout is None:
        _encode_generally(operand, fmt, axes, tensor, codes, scales, random, scale_random, None)
        return
    marks = np.zeros(scales.size, np.uint8)
    values = _flat(operand.codes)
    if _encode_in_lanes(way, values, layout, tensor, codes, scales, marks, random):
        _encode_generally(operand, fmt, axes, tensor, codes, scales, random, scale_random, np.flatnonzero(marks))


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
    """Blocks along the last axis, along another, or across the last two; None for other pairs."""
    if len(axes) == 2:
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


class _Way(NamedTuple):
    """A kernel, and what it reads but the tensor's scale."""

    kernel: Callable[..., int]
    plan: BlockPlan
    rule: Params
    target: Params
    source: Params


@functools.lru_cache(maxsize=1024)
def _way(source: Format, fmt: BlockFormat, tensor: bool) -> _Way | None:
    """How the kernels in lanes encode values of a format, or None where they do not."""
    plan = lower_blocks(source, fmt, source == catalog.BINARY64, tensor)
    if plan is None:
        return None
    words = lower_block(fmt), lower_target(fmt.scale, fmt.scales), lower_source(fmt.scale)
    return _Way(_encoder(plan, plan.plan), plan, *words)


def _encoder(way: BlockPlan, plan: Words) -> Callable[..., int]:
    source, target = shapes(plan)[:2] if way.usual else ((), ())
    return lanes.encoder(source, target, way.powers)


def _encode_in_lanes(
    way: _Way, values: Array, layout: _Layout, tensor: Tensor, codes: Array, scales: Array, marks: Array, random: Words
) -> int:
    """How many blocks are left undone, and marked."""
    plan, out, flat_scales = way.plan.plan, codes.reshape(-1), scales.reshape(-1)
    if out.nbytes >= PAST_FROM and _aligned(out, layout):
        plan = past_caches(plan)
    words = way.rule, tensor.words, way.target, way.source

    def encode_with(run: Callable[..., int], plan: Words) -> int:
        def part(part: _Layout, elements: slice, blocks: slice) -> int:
            return run(
                values[elements], out[elements], flat_scales[blocks], marks[blocks], part,
                plan, way.plan.setup, way.plan.tables, words, random[elements],
            )  # fmt: skip

        return _shared(part, layout, values.size)

    undone = encode_with(way.kernel, plan)
    if undone >= lanes.UNSUITED:
        plan, marks[:] = anywhere(plan), 0
        undone = encode_with(_encoder(way.plan, plan), plan)
    return undone


def _aligned(out: Array, layout: _Layout) -> bool:
    """Whether every tile begins where memory can be written past the caches."""
    whole = layout.outer * layout.rows == 1
    return not (out.__array_interface__["data"][0] | (0 if whole else layout.columns * out.itemsize)) % 16


def _shared(part: Callable[[_Layout, slice, slice], int], layout: _Layout, size: int) -> int:
    """Call part(layout, elements, blocks) for parts of an array, in threads if it is large."""
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

    return share(one, size, each)


# -- decoding ----------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=1024)
def _way_back(fmt: BlockFormat, tensor: Fraction, scaled: bool) -> tuple[Callable[..., int], Words, Words] | None:
    """The kernel that decodes blocks to float32, and what it reads; None where the general one does."""
    products = lower_products(fmt, tensor, scaled)
    if products is None:
        return None
    shape = shapes(products.plan)[0] if specialized(products.plan) else ()
    return block_values.decoder(shape, scaled), products.plan, products.factors


def decode_blocks(
    codes: Array,
    scales: Array,
    fmt: BlockFormat,
    axes: tuple[int, ...],
    tensor: np.float32 | None,
    result: Array,
    carrier: Format,
) -> None:
    """Write the values of blocks to a contiguous array of a type with this format."""
    if not codes.size:
        return
    flat_codes, flat_scales = _flat(codes), _flat(scales)
    layout = _layout(codes.shape, axes, fmt.sizes) if carrier == catalog.BINARY32 else None
    scale = Fraction(1) if tensor is None else exact_single(tensor)
    way = None if layout is None else _way_back(fmt, scale, tensor is not None)
    if layout is None or way is None:
        _decode_generally(flat_codes, flat_scales, codes.shape, fmt, axes, tensor, result, carrier, None)
        return
    out, marks, (run, plan, factors) = result.reshape(-1).view(np.uint32), np.zeros(flat_scales.size, np.uint8), way
    if out.nbytes >= PAST_FROM and _aligned(out, layout):
        plan = past_caches(plan)

    def part(part: _Layout, elements: slice, blocks: slice) -> int:
        return run(flat_codes[elements], out[elements], flat_scales[blocks], marks[blocks], part, plan, factors)

    undone = _shared(part, layout, out.size)
    if undone:
        some = None if undone >= lanes.UNSUITED else np.flatnonzero(marks)
        _decode_generally(flat_codes, flat_scales, codes.shape, fmt, axes, tensor, result, carrier, some)


# -- the general kernel ------------------------------------------------------------------------------


def _parts(
    shape: tuple[int, ...], axes: tuple[int, ...], sizes: tuple[int, ...], blocks: Places | None
) -> Iterable[tuple[Places, Places]]:
    """Blocks by number, some at a time, with the places of their elements: shape (blocks, elements of one).

    Blocks at the end that lack elements have the last one several times. None has more than its axes are long.
    """
    sizes = tuple(max(1, min(size, shape[axis])) for size, axis in zip(sizes, axes, strict=True))
    grid, each = grid_of(shape, axes, sizes), math.prod(sizes)
    ids = np.arange(math.prod(grid)) if blocks is None else blocks
    step = max(1, _PART // each)
    for start in range(0, ids.size, step):
        some = ids[start : start + step]
        places = np.zeros((some.size,) + (1,) * len(axes), np.intp)
        for axis, first in enumerate(np.unravel_index(some, grid)):
            stride, along = math.prod(shape[axis + 1 :]), [some.size] + [1] * len(axes)
            if axis in axes:
                size = along[1 + axes.index(axis)] = sizes[axes.index(axis)]
                first = np.minimum(first[:, None] * size + np.arange(size), shape[axis] - 1)
            places = places + (first * stride).reshape(along)
        yield some, places.reshape(some.size, each)


def _encode_generally(
    operand: Operand,
    fmt: BlockFormat,
    axes: tuple[int, ...],
    tensor: Tensor,
    codes: Array,
    scales: Array,
    random: Words,
    scale_random: Words,
    blocks: Places | None,
) -> None:
    """Blocks, all or those of these numbers, by the kernel that knows every format and policy."""
    given = _flat(operand.codes)
    flat, flat_scales = codes.reshape(-1), scales.reshape(-1)
    source = lower_source(operand.fmt, fmt.elements.subnormals in ("flush_operands", "flush_both"))
    element_words, scale_words = lower_target(fmt.element, fmt.elements), lower_target(fmt.scale, fmt.scales)
    scale_source, rule = lower_source(fmt.scale), lower_block(fmt)
    for ids, places in _parts(codes.shape, axes, fmt.sizes, blocks):
        made, made_scales = np.zeros(places.size, codes.dtype), np.zeros(ids.size, scales.dtype)
        refused, first, refused_scales, first_scale = general.convert_blocks(
            given[places].reshape(-1), source, places.shape[1], made, element_words, made_scales, scale_words,
            scale_source, rule, tensor.words, random[places].reshape(-1) if random.size else random,
            scale_random[ids] if scale_random.size else scale_random,
        )  # fmt: skip
        if refused:
            _refuse(operand, fmt, int(places.reshape(-1)[first]))
        if refused_scales:
            _refuse_scale(fmt, int(ids[first_scale]), scales.shape)
        flat[places.reshape(-1)] = made
        flat_scales[ids] = made_scales


def _decode_generally(
    codes: Array,
    scales: Array,
    shape: tuple[int, ...],
    fmt: BlockFormat,
    axes: tuple[int, ...],
    tensor: np.float32 | None,
    result: Array,
    carrier: Format,
    blocks: Places | None,
) -> None:
    flat = result.reshape(-1).view(f"u{result.itemsize}")
    words = lower_tensor(fmt, Fraction(1) if tensor is None else exact_single(tensor), Fraction(1))
    for ids, places in _parts(shape, axes, fmt.sizes, blocks):
        part = np.empty(places.size, flat.dtype)
        general.decode_blocks(
            codes[places].reshape(-1), lower_source(fmt.element), places.shape[1], scales[ids],
            lower_source(fmt.scale), words, part, lower_target(carrier, DEFAULT),
        )  # fmt: skip
        flat[places.reshape(-1)] = part


def _refuse(operand: Operand, fmt: BlockFormat, first: int) -> None:
    place = tuple(int(i) for i in np.unravel_index(first, operand.array.shape))
    raise ValueError(
        f"cannot encode the value {operand.array[place]} at index {place} as an element of {fmt.name!r}: "
        f"{fmt.element.name!r} has no code for it. Replace it, or say what becomes of it with the block format's "
        f"nan= or elements="
    )


def _refuse_scale(fmt: BlockFormat, block: int, grid: tuple[int, ...]) -> None:
    place = tuple(int(i) for i in np.unravel_index(block, grid))
    raise ValueError(
        f"cannot encode NaN or infinite values in blocks of {fmt.name!r}, whose scales ({fmt.scale.name!r}) have no "
        f"NaN code; the first such block is {place}. Replace them, or say what becomes of them with the block format's "
        f"nan= and infinity="
    )
