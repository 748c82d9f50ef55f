"""Blocks of a weight: how many elements share a scale, by the shapes of codes and scales."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lowprec.checkpoints.container import Entry
from lowprec.checkpoints.schemes.packings import LOW_FIRST, WHOLE

if TYPE_CHECKING:
    from lowprec.checkpoints.weights import Weight

__all__ = [
    "by_block",
    "for_elements",
    "grid_of",
    "in_tiles",
    "is_six",
    "misfit",
    "needed",
    "of_node",
    "padded",
    "sizes_of",
]

Array = npt.NDArray[Any]

#: Blocks of the last two axes that are tried in turn where no configuration says them: the field's own first.
_USUAL_BLOCKS = tuple((rows, size) for size in (128, 64, 32, 16) for rows in (size, 1))


def needed(part: Entry | None) -> Entry:
    """Return a part that a weight has, as its scheme needs it."""
    assert part is not None
    return part


def is_six(codes: Entry, scales: Entry | None) -> bool:
    """Return whether codes of 6 bits lie there: 24 bytes for each scale."""
    return scales is not None and codes.shape[-1:] == tuple(24 * count for count in scales.shape[-1:])


def _block(weight: Weight, config: Mapping[str, Any]) -> tuple[int, int] | None:
    if weight.scheme.family == "torchao" and weight.scheme.block is not None:
        size = config.get("block_size")
        return (1, size) if type(size) is int and size > 0 else weight.scheme.block
    given = config.get("weight_block_size")
    if weight.scheme.scale == "" and isinstance(given, list) and len(given) == 2:
        if all(type(size) is int and size > 0 for size in given):
            return given[0], given[1]
    return weight.scheme.block


def sizes_of(weight: Weight, config: Mapping[str, Any]) -> tuple[int, ...] | None:
    """Return how many elements share a scale along each axis, or None if codes and scales do not tell."""
    shape, scales, block = weight.shape, needed(weight.scales).shape, _block(weight, config)
    if weight.swizzled:  # there must be as many tiles as they need
        if block is None or len(shape) < 2 or block[0] > 1:
            return None
        grid = math.prod(shape[:-1]), -(-shape[-1] // block[1])
        return (*[1] * (len(shape) - 1), block[1]) if math.prod(scales) == math.prod(in_tiles(grid)) else None
    if weight.scheme.padded and weight.scheme.block is not None:
        fits = len(shape) == 2 and scales == padded(shape, weight.scheme.block)
        return weight.scheme.block if fits else None
    return _sizes(weight, scales, block)


def padded(shape: tuple[int, ...], block: tuple[int, int]) -> tuple[int, ...]:
    """Return the shape of scales of blocks, with rows and columns padded as tiles of 128x4 need.

    >>> padded((208, 192), (1, 16)), padded((224, 192), (32, 1))
    ((256, 12), (8, 256))
    """
    return in_tiles(grid_of(shape, block), (128, 4) if block[0] == 1 else (4, 128))


def in_tiles(grid: tuple[int, ...], tile: tuple[int, int] = (128, 4)) -> tuple[int, ...]:
    """Return rows and columns of scales, padded so that they are whole tiles."""
    return tuple(-(-count // each) * each for count, each in zip(grid, tile, strict=True))


def _sizes(weight: Weight, scales: tuple[int, ...], block: tuple[int, int] | None) -> tuple[int, ...] | None:
    """Return what shares a scale, or None if the scales do not fit or several blocks give their number."""
    shape = weight.shape
    if weight.scheme.packing != WHOLE and len(shape) < 2:
        return None
    may_have_blocks = weight.scheme.block is not None or len(scales) == len(shape)
    if block is not None and len(shape) >= 2 and may_have_blocks:
        sizes = (*[1] * (len(shape) - 2), *block)
        if scales == grid_of(shape, sizes):
            return sizes
        if weight.scheme.block is not None:
            return None
    if all(size == 1 for size in scales):
        return tuple(max(length, 1) for length in shape)
    if len(scales) == 1 and shape and scales[0] == shape[0]:
        return (1, *[max(length, 1) for length in shape[1:]])
    if len(scales) != len(shape):
        return None
    sizes = tuple(max(-(-length // max(count, 1)), 1) for length, count in zip(shape, scales, strict=True))
    if all(count in (1, length) for length, count in zip(shape, scales, strict=True)):  # of channels
        return sizes if grid_of(shape, sizes) == scales else None
    if block is not None:
        return None
    for usual in _USUAL_BLOCKS if len(shape) > 1 else ():
        tried = (*[1] * (len(shape) - 2), *usual)
        if grid_of(shape, tried) == scales:
            return tried
    divides = all(count and length % count == 0 for length, count in zip(shape, scales, strict=True))
    return sizes if divides else None


def _may_be(length: int, count: int) -> bool:
    """Return whether blocks of some size give that number of scales along an axis."""
    return 0 < count <= length and -(-length // -(-length // count)) == count


def grid_of(shape: tuple[int, ...], sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Return how many scales there are along each axis."""
    return tuple(-(-length // size) for length, size in zip(shape, sizes, strict=True))


def misfit(weight: Weight, config: Mapping[str, Any]) -> str:
    """Return what shapes there are, what they should be, and what the difference looks like."""
    entry = needed(weight.scales)
    shape, scales, said = weight.shape, entry.shape, _block(weight, config)
    block = said or (1, 1)
    if said is None and len(scales) == len(shape) and all(map(_may_be, shape, scales)):
        return (
            f"scales {entry.name} have shape {list(scales)}, which blocks of several sizes give for "
            f"{list(shape)} codes: the configuration must say which (block_structure or weight_block_size)"
        )
    wanted = grid_of(shape, (*[1] * (len(shape) - 2), *block)[-len(shape) :] if shape else ())
    guess = ""
    if len(shape) >= 2:
        rows, columns = wanted[-2:]
        tiles = in_tiles((rows, columns))
        if scales[-2:] == (shape[-1], -(-shape[-2] // block[1])):
            guess = "; these are scales of the other axis"
        elif weight.scheme.packing == LOW_FIRST and is_six(weight.codes, entry):
            guess = "; these may be codes of 6 bits: the configuration must say fp6_e2m3 or fp6_e3m2"
        elif len(scales) == 2 and scales == (rows, columns // 2) and columns > 1:
            guess = "; half as many: computed from packed bytes instead of elements"
        elif scales in (tiles, (tiles[0] * tiles[1],), (tiles[0] // 4, tiles[1] * 4)):
            guess = "; these are padded to tiles of 128x4, as swizzled scales are"
    return (
        f"scales {entry.name} have shape {list(scales)}, and {list(shape)} codes in blocks of "
        f"{block[0]}x{block[1]} need {list(wanted)}{guess}"
    )


def of_node(shape: tuple[int, ...], scales: tuple[int, ...], axis: int, size: int) -> tuple[int, ...] | None:
    """Return what shares a scale by a node's attributes; None if shapes do not fit them."""
    whole = tuple(max(length, 1) for length in shape)
    if math.prod(scales) == 1 and len(scales) <= 1:
        return whole
    if not -len(shape) <= axis < len(shape):
        return None
    axis %= len(shape)
    if size <= 0:
        fits = size == 0 and scales == (shape[axis],)
        return (*whole[:axis], 1, *whole[axis + 1 :]) if fits else None
    grid = (*shape[:axis], -(-shape[axis] // size), *shape[axis + 1 :])
    return tuple(size if place == axis else 1 for place in range(len(shape))) if scales == grid else None


def for_elements(numbers: Array, shape: tuple[int, ...], sizes: tuple[int, ...]) -> Array:
    """Return for each element of a shape the number that its block has in a table of the grid's shape."""
    from lowprec.arrays.blocks.block_products import spread  # which needs numba, as headers alone do not

    return spread(numbers, shape, tuple(range(len(shape))), sizes)


def by_block(join: np.ufunc, values: Array, sizes: tuple[int, ...]) -> Array:
    """Return the values of each block joined to one, in the grid's shape: `join` adds, or takes the largest.

    >>> by_block(np.add, np.arange(6).reshape(2, 3), (1, 2))
    array([[1, 2],
           [7, 5]])
    """
    for axis, size in enumerate(sizes):
        if size > 1 and values.shape[axis]:
            values = join.reduceat(values, np.arange(0, values.shape[axis], size), axis=axis)
    return values
