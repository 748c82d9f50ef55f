"""Scales of operands: of a tensor, of its rows or columns, or of blocks.

Floor 3.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lowprec.arrays import calls
from lowprec.arrays.checks import Array, Operand, code_dtype, codes_operand, values_operand
from lowprec.arrays.lazy import in_memory
from lowprec.spec import catalog
from lowprec.spec.block import BlockFormat
from lowprec.spec.codebook import Codebook
from lowprec.spec.projection import DEFAULT, Projection

__all__ = ["ScaledBlocks", "given_scales", "operand_scales", "sizes_of", "spread_scales"]


class ScaledBlocks(NamedTuple):
    """Scales of blocks along K of one operand."""

    scales: Array  #: with K/size in the place of K
    size: int


def sizes_of(
    name: str, scale: Array, shape: tuple[int, ...], axis: int | None, block: int = 0
) -> tuple[Array, tuple[int, ...]]:
    """Return scales with as many axes as what they scale, and along each how many elements share one.

    >>> scales, sizes = sizes_of("scale", np.ones((2, 4)), (2, 512), None)
    >>> sizes
    (1, 128)
    >>> sizes_of("scale", np.ones(3), (2, 3), 1)[1]                       # of channels
    (2, 1)

    Parameters
    ----------
    name : str
        What messages call them.
    scale : array
        One number; or, of one dimension, one for each place along `axis`; or as many dimensions as `shape`,
        with one for each block.
    shape : tuple of int
    axis : int, optional
        Needed only where several axes have as many elements as there are scales.
    block : int
        Elements of a block, along the axes that have as many blocks of it as there are scales; by default, or
        0, blocks are as small as can be.

    Raises
    ------
    ValueError
        Scales that do not fit the shape.
    """
    if scale.size == 1:
        return scale.reshape((1,) * len(shape)), tuple(max(size, 1) for size in shape)
    if scale.ndim == 1 and (len(shape) != 1 or axis is not None):
        fits = [place for place, size in enumerate(shape) if size == scale.size]
        if axis is not None:
            fits = [place for place in fits if axis in (place, place - len(shape))]
        if len(fits) > 1:
            axes = " and ".join(map(str, fits))
            raise ValueError(
                f"{name} has {scale.size} numbers, and axes {axes} of {shape} have as many elements: say "
                f"which it belongs to, axis="
            )
        if fits:
            wide = tuple(scale.size if place == fits[0] else 1 for place in range(len(shape)))
            scale = scale.reshape(wide)
    if scale.ndim == len(shape):
        sizes = tuple(
            block if block and 1 < count == -(-size // block) else max(-(-size // max(count, 1)), count == 1)
            for size, count in zip(shape, scale.shape, strict=True)
        )
        counts = zip(shape, sizes, scale.shape, strict=True)
        if all(count in (1, -(-size // max(each, 1))) for size, each, count in counts):
            return scale, sizes
    along = "" if axis is None else f" along axis {axis}"
    raise ValueError(
        f"{name} of shape {scale.shape} does not fit {shape}{along}: give one number, one for each place "
        f"along an axis, or one for each block, with as many axes"
    )


def spread_scales(
    name: str, values: Array, shape: tuple[int, ...], k: int, block: int = 0
) -> tuple[Array, int]:
    """Return scales with as many axes as the operand, one for each row; and how many along K share one.

    Scales of one dimension belong to the last axis that is not K. `block` is as of `sizes_of`.
    """
    channels = [axis for axis in range(len(shape)) if axis != k % len(shape)][-1:]
    along = channels[0] if values.ndim == 1 < len(shape) and values.size != 1 else None
    values, sizes = sizes_of(f"scale of {name}", values, shape, along, block)
    for axis, size in enumerate(sizes):
        if axis != k % len(shape) and values.shape[axis] > 1:
            values = np.repeat(values, size, axis=axis)[(*[slice(None)] * axis, slice(shape[axis]))]
    return values, sizes[k]


def operand_scales(
    name: str, values: Array, shape: tuple[int, ...], k: int, block: int = 0
) -> tuple[Array, ScaledBlocks | None]:
    """Return the scales of an operand's rows, K left out, and those of its blocks along K."""
    values, size = spread_scales(name, values, shape, k, block)
    if values.shape[k] == 1:
        return values.squeeze(k), None
    return np.ones((), values.dtype), ScaledBlocks(values, size)


def given_scales(given: object, fmt: BlockFormat, grid: tuple[int, ...]) -> Array:
    """Return the codes of a block format's scales that are given as codes or as values."""
    array, scale = in_memory("scales", given), fmt.scale
    if array.shape != grid:
        raise ValueError(
            f"scales of shape {array.shape} do not fit: {fmt.name!r} has {grid} for these values"
        )
    if array.dtype.kind in "iu":
        codes = codes_operand(array, scale).codes.astype(code_dtype(scale))
    else:
        operand, rule = (
            values_operand(array, "scales"),
            Projection(nan="max", negative="zero", zero="smallest"),
        )
        codes = np.asarray(calls.convert(operand, scale, rule, code_dtype(scale)))
        values, held = (
            np.asarray(calls.convert(each, catalog.BINARY64, DEFAULT, np.dtype(np.float64)))
            for each in (operand, Operand(codes, scale, codes, True))
        )
        wrong = (held != values) & ~(np.isnan(held) & np.isnan(values))
        if wrong.any():
            place = tuple(int(i) for i in np.unravel_index(int(np.argmax(wrong)), grid))
            raise ValueError(
                f"scales has {array[place]} at index {place}, which {scale.name!r} does not have"
            )
    signs = np.array(scale.values)[codes] < 0 if isinstance(scale, Codebook) else codes & scale.sign_code
    if signs.any():
        raise ValueError("scales of blocks are positive, and some of those given have a sign")
    return codes
