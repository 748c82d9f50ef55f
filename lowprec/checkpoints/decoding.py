"""Weights as codes and values: of any scheme, a range of rows at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays.blocks.block import BlockArray
from lowprec.arrays.blocks.packing import unswizzle
from lowprec.arrays.convert import decode, encode
from lowprec.checkpoints.container import CheckpointError, Entry
from lowprec.checkpoints.containers.gguf import GgufBlocks
from lowprec.checkpoints.schemes import bitsandbytes
from lowprec.checkpoints.schemes.packings import GGUF_NVFP4, GgufPacking
from lowprec.checkpoints.schemes.schemes import FLOATS, SAVED, TRANSFORMER_ENGINE, Scheme
from lowprec.checkpoints.schemes.sharing import for_elements, needed
from lowprec.checkpoints.schemes.words import Words
from lowprec.checkpoints.weights import Weight
from lowprec.kernels.modes import usual_arithmetic
from lowprec.spec import catalog
from lowprec.spec.block import BlockFormat, rule
from lowprec.spec.profiles import profile

__all__ = [
    "OTHER_BLOCKS",
    "WIDE",
    "as_blocks",
    "axes_of",
    "block_format_of",
    "codes_of",
    "engine_format",
    "given_values",
    "offset_values",
    "ranges",
    "rows_together",
    "scale_codes",
    "scale_values",
    "stored_scales",
    "values_of",
    "zero_values",
]

Array = npt.NDArray[Any]

#: Block formats by element, and by how many share a scale along the last axis.
_BLOCKS = {
    ("e2m1fn", 32): "mxfp4",
    ("e2m1fn", 16): "nvfp4",
    ("e3m2fn", 32): "mxfp6_e3m2",
    ("e2m3fn", 32): "mxfp6_e2m3",
    ("nf4", 64): "bnb_nf4",
    ("fp4_bnb", 64): "bnb_fp4",
    ("e4m3fn", 32): "mxfp8_e4m3",
    ("e5m2", 32): "mxfp8_e5m2",
    ("e4m3fn", 128): "fp8_block_128x128",
}

#: Block formats of GGUF and ONNX that the catalog has not: elements are the nearest for the scale.
OTHER_BLOCKS = {
    name: BlockFormat(
        name=name,
        element=catalog.format(element),
        scale=scale,
        size=32,
        rule=catalog.NVFP4.rule,
        elements=replace(catalog.MXINT8.elements, symmetric=name != "iq4_nl"),
        source=source,
    )
    for name, element, scale, source in (
        ("q8_0", "int8", catalog.BINARY16, "GGML"),
        ("iq4_nl", "iq4_nl", catalog.BINARY16, "GGML"),
        ("int4", "int4", catalog.BINARY32, "ONNX"),
    )
}

#: Integers that are no formats here: of ONNX, mostly of biases.
WIDE = ("int16", "uint16", "int32", "uint32")
#: Bytes of a tile of scales, of 128 rows and 4 columns.
_TILE = 512
#: Elements that are worked on at a time: some 64 MB with all that is computed from them.
PART = 1 << 21


def rows_together(weight: Weight) -> int:
    """Return how many rows a block has; 1 if the scheme has no blocks and all rows have the same scales."""
    if not weight.sizes or (weight.scheme.block is None and weight.sizes[0] >= weight.shape[0]):
        return 1
    return weight.sizes[0]


def ranges(weight: Weight, part: int = PART, unit: int = 1) -> Iterator[tuple[int, int]]:
    """Yield ranges of rows, along the first axis of the codes and of values, that cut through no block.

    A weight with no more rows than a block has is one range. A weight without elements has none, however
    long its first axis is.

    Parameters
    ----------
    weight : Weight
    part : int
        Elements of a range, about: never less than one row of blocks.
    unit : int
        Rows of other blocks, those that are written or compared, which are not cut either.
    """
    rows = weight.shape[0] if weight.shape else 1
    if not math.prod(weight.shape):
        return
    if weight.is_turned or weight.scheme.family == "gguf" and len(weight.shape) == 1:
        yield 0, rows
        return
    width = max(math.prod(weight.shape[1:]), 1)
    unit = math.lcm(rows_together(weight), unit)
    each = max(part // width // unit, 1) * unit
    for start in range(0, rows, each):
        yield start, min(start + each, rows)


def codes_of(weight: Weight, start: int = 0, stop: int | None = None) -> Array:
    """Return the codes of rows start to stop as unsigned integers, one for each element."""
    return weight.scheme.packing.codes(weight, start, stop)


def stored_scales(weight: Weight, start: int = 0, stop: int | None = None) -> Array:
    """Return the scales of these rows, in the grid's shape: codes, or numbers where the file has numbers."""
    if isinstance(weight.scheme.packing, GgufPacking):
        return weight.scheme.packing.blocks(weight, start, stop).scales
    scales, grid = needed(weight.scales), weight.grid
    if weight.groups is not None:
        return _of_columns(weight, scales.read())[start:stop]
    first, last = _scale_rows(weight, start, stop)
    if not grid:
        return scales.read().reshape(grid)
    if weight.swizzled:
        return _unswizzled(scales, grid, first, last)
    if weight.scheme.padded:
        return scales.read(first, last)[:, : grid[1]]
    if scales.shape[:1] == grid[:1]:
        return scales.read(first, last).reshape(last - first, *grid[1:])
    return scales.read().reshape(grid)[first:last]


def scale_codes(weight: Weight, start: int = 0, stop: int | None = None) -> Array:
    """Return `stored_scales` as codes, whatever the file has."""
    return _bits(stored_scales(weight, start, stop))


def _bits(stored: Array) -> Array:
    return stored.view(f"u{stored.dtype.itemsize}")


def _unswizzled(scales: Entry, grid: tuple[int, ...], first: int, last: int) -> Array:
    """Return scales `first` to `last` along the first axis of a grid; tiles of other rows are not read."""
    each, across = math.prod(grid[1:-1]), -(-grid[-1] // 4) * _TILE
    tiles = first * each // 128, -(-last * each // 128)
    width = max(scales.nbytes // max(scales.rows, 1), 1)
    begin, end = tiles[0] * across // width, -(-tiles[1] * across // width)
    data = scales.read(begin, end)
    flat = data.reshape(-1).view(np.uint8)[tiles[0] * across - begin * width :]
    flat = flat[: (tiles[1] - tiles[0]) * across].view(data.dtype)
    rows = min(tiles[1] * 128, grid[0] * each) - tiles[0] * 128
    table = unswizzle(flat, (rows, grid[-1]))
    start = first * each - tiles[0] * 128
    return table[start : start + (last - first) * each].reshape(last - first, *grid[1:])


def _scale_rows(weight: Weight, start: int, stop: int | None) -> tuple[int, int]:
    size, rows = (weight.sizes[0], weight.shape[0]) if weight.sizes else (1, 1)
    return start // size, -(-min(rows if stop is None else stop, rows) // size)


def scale_values(weight: Weight, start: int = 0, stop: int | None = None) -> npt.NDArray[np.float32]:
    """Return the scales of these rows as numbers, without the tensor's."""
    stored = stored_scales(weight, start, stop)
    if weight.scheme.packing == GGUF_NVFP4:
        codes = stored & np.uint8(0x7F)
        found: npt.NDArray[Any] = decode(np.where(codes == 0x7F, np.uint8(0), codes), "ue4m3")
        found = np.where(stored == 0xFF, np.float32(480), found)  # ggml looks at bit 7 to tell its zero only
    elif weight.scheme.family == "gguf":
        found = stored if stored.dtype == np.float32 else decode(stored, weight.scale)
    elif bitsandbytes.is_nested(weight.scheme):
        first = _scale_rows(weight, start, stop)[0] * math.prod(weight.grid[1:])
        return bitsandbytes.nested_values(weight, stored, first)
    else:
        # A sign that a scale should not have is in the file all the same: E4M3 reads it, UE4M3 has none.
        name = "e4m3fn" if weight.scale == "ue4m3" else weight.scale
        found = decode(_bits(stored), name)
    return np.asarray(found, np.float32)


def zero_values(
    weight: Weight, start: int = 0, stop: int | None = None, dtype: npt.DTypeLike = np.float32
) -> Array:
    """Return the zero points of these rows as numbers, in the grid's shape."""
    if isinstance(weight.scheme.packing, Words):
        whole = weight.scheme.packing.zeros(weight)
        if weight.groups is not None:
            return _of_columns(weight, whole)[start:stop].astype(dtype)
        return whole.reshape(weight.grid)[slice(*_scale_rows(weight, start, stop))].astype(dtype)
    stored = needed(weight.zeros).read().reshape(weight.grid)
    if stored.ndim:
        stored = stored[slice(*_scale_rows(weight, start, stop))]
    return _elements(weight, _bits(stored), np.dtype(dtype))


def _of_columns(weight: Weight, table: Array) -> Array:
    """Return what each column's group has in a table of scales or zero points."""
    return np.take(table, needed(weight.groups).read(), axis=0 if weight.scheme.transposed else -1)


def offset_values(weight: Weight, start: int = 0, stop: int | None = None) -> npt.NDArray[np.float32] | None:
    """Return what is added to the products of these rows, in the grid's shape; None where nothing is."""
    if not isinstance(weight.scheme.packing, GgufPacking):
        return None
    return weight.scheme.packing.blocks(weight, start, stop).offsets


def tensor_scale(weight: Weight, start: int = 0, stop: int | None = None) -> npt.NDArray[np.float32] | None:
    """Return the tensor's scale for these rows: one number, or one for each part along the first axis."""
    if weight.tensor is None:
        return None
    numbers = weight.tensor.read().astype(np.float32).reshape(-1)
    if numbers.size == 1:
        return numbers.reshape(())
    if numbers.size != weight.shape[0]:
        raise CheckpointError(
            f"{weight.tensor.name!r} has {numbers.size} numbers: one is needed, or "
            f"{weight.shape[0]} for {weight.name!r}"
        )
    parts = numbers.reshape(-1, *[1] * (len(weight.shape) - 1))
    return parts[slice(*_scale_rows(weight, start, stop))]


def check(weight: Weight) -> None:
    """Raise CheckpointError for a weight whose values cannot be known."""
    if weight.problem is not None:
        raise CheckpointError(f"weight {weight.name!r} cannot be decoded: {weight.problem[1]}")
    if not weight.is_quantized and weight.codes.tag not in FLOATS:
        is_block = isinstance(weight.codes, GgufBlocks)
        what = "these are bytes of an unsupported block type" if is_block else "no floats"
        raise CheckpointError(f"tensor {weight.name!r} is {weight.codes.tag}: {what}")


@usual_arithmetic()
def values_of(
    weight: Weight, start: int = 0, stop: int | None = None, dtype: npt.DTypeLike = np.float32
) -> Array:
    """Return the values of rows start to stop along the first axis.

    In float32 as the schemes' own software computes them: the scales of block and tensor make one float32
    number, and its product with the element is rounded once; of GGUF the element is multiplied by the block's
    scale first, exactly. Of ONNX the product is rounded to the result's type too, of integers in safetensors
    to that of their scales. What `lowprec.save` wrote has the values of its `BlockArray`. In float64 exactly,
    but for one rounding where a tensor's scale divides, or is stored as the largest magnitude.

    Parameters
    ----------
    weight : Weight
    start, stop : int
        Multiples of the block's rows, as `ranges` gives them; all by default.
    dtype : {float32, float64}

    Raises
    ------
    CheckpointError
        A weight with a problem: scales that are missing or do not fit.
    """
    check(weight)
    kind = np.dtype(dtype)
    if weight.scheme.family == SAVED.family and kind == np.float32:  # as a BlockArray has them: rounded once
        return values_of(weight, start, stop, np.float64).astype(np.float32)
    codes = codes_of(weight, start, stop)
    elements = _elements(weight, codes, kind)
    if not weight.is_quantized:
        return elements
    if not elements.size:
        return _turned(weight, elements)
    if weight.scheme.family in ("gguf", "bitsandbytes"):
        elements += 0  # in whose tables 0 has no sign
    if weight.zeros is not None:
        elements -= for_elements(zero_values(weight, start, stop, kind), elements.shape, weight.sizes)
    units, tensor = scale_values(weight, start, stop).astype(kind), tensor_scale(weight, start, stop)
    if tensor is not None:
        over = tensor.astype(kind)
        if weight.scheme.family == "gguf" or weight.scheme.divides and kind == np.float64:
            # The product is exact, and rounded once by the tensor's scale.
            elements *= for_elements(units, elements.shape, weight.sizes)
            elements = elements / over if weight.scheme.divides else elements * over
            return _turned(weight, elements)
        units = units / over if weight.scheme.divides else units * over
        if weight.over != 1 and kind == np.float64:  # exact till here, and rounded once
            elements *= for_elements(units, elements.shape, weight.sizes)
            elements /= weight.over
            return _turned(weight, elements)
        units = units * (np.float32(1) / np.float32(weight.over)) if weight.over != 1 else units
    elements *= for_elements(units, elements.shape, weight.sizes)
    if (offsets := offset_values(weight, start, stop)) is not None:
        elements += for_elements(offsets.astype(kind), elements.shape, weight.sizes)
    if weight.rounded and kind == np.float32:
        elements = decode(encode(elements, FLOATS[weight.rounded]), FLOATS[weight.rounded], dtype=kind)
    return _turned(weight, elements)


def given_values(weight: Weight, scheme: Scheme, start: int = 0, stop: int | None = None) -> Array:
    """Return the values of rows start to stop that a scheme quantises.

    They are float64 where the weight is stored so, except for schemes whose own software takes float32.
    """
    wide = weight.codes.tag == "F64" and not (weight.is_quantized or scheme.state or scheme.padded)
    return values_of(weight, start, stop, np.float64 if wide else np.float32)


def _elements(weight: Weight, codes: Array, kind: np.dtype[Any]) -> Array:
    """Return what codes mean, of the widest integers too."""
    if weight.element in WIDE:
        return codes.view(weight.element).astype(kind)
    if weight.element == "binary64":
        with np.errstate(all="ignore"):  # past binary32's largest number, and signaling NaNs
            return codes.view(np.float64).astype(kind)
    return np.asarray(decode(codes, weight.format, dtype=kind))


def _turned(weight: Weight, values: Array) -> Array:
    return np.ascontiguousarray(values.swapaxes(-1, -2)) if weight.scheme.transposed else values


def block_format_of(weight: Weight, made: bool = False) -> BlockFormat | None:
    """Return the block format that a weight's codes and scales are in; None of others.

    It is the file's own where the file defines one, else one of the catalog by elements, scales and sizes,
    with the catalog's rule. GGUF's NVFP4 is none: there the scale 0x7F is 0. Nested scales of bitsandbytes
    are none, as an offset is added to them. With `made` that in which codes were made: of both, it is a block
    format. Weights with a scale of the tensor are in none without one, whose values would be others.
    """
    fmt = _fitting_format(weight, made) if weight.saved is None else weight.saved
    has_tensor = fmt is not None and fmt.tensor_scale != "none"
    return fmt if weight.tensor is None or has_tensor else None


def _fitting_format(weight: Weight, made: bool) -> BlockFormat | None:
    """Return the block format that elements, scales and sizes of a weight are those of."""
    odd = weight.scheme.packing == GGUF_NVFP4 or bitsandbytes.is_nested(weight.scheme)
    if weight.scheme.block is None or not weight.sizes or (odd and not made) or weight.zeros is not None:
        return None
    if weight.scheme.state:
        rows = weight.sizes[:-1] == (1,) * (len(weight.sizes) - 1)
        whole = catalog.block_format(_BLOCKS[weight.element, 64])
        return replace(whole, size=weight.sizes[-1]) if rows else None
    if (known := weight.scheme.name.split(" ")[-1].lower()) in OTHER_BLOCKS:
        return OTHER_BLOCKS[known]
    along = [place for place, size in enumerate(weight.sizes) if size > 1]
    if made and weight.scheme.family == TRANSFORMER_ENGINE:
        return engine_format("nvfp4" if weight.tensor is not None else f"mxfp8_{weight.element[:4]}")
    name = _BLOCKS.get((weight.element, max(weight.sizes)))
    fmt = None if name is None else catalog.block_format(name)
    if fmt is None or fmt.sizes != tuple(weight.sizes[place] for place in along):
        return None
    scale = catalog.format(weight.scale)
    if scale == catalog.E8M0FNU != fmt.scale:  # of a rule that makes powers of two
        return replace(fmt, scale=scale, rule=rule("rceil"))
    return fmt if fmt.scale == scale else replace(fmt, scale=scale)


def engine_format(name: str) -> BlockFormat:
    """Return the block format of a name with Transformer Engine's arithmetic.

    >>> engine_format("nvfp4_2d").sizes
    (16, 16)
    """
    return profile("transformer_engine").block(catalog.block_format(name))


def axes_of(weight: Weight, fmt: BlockFormat) -> tuple[int, ...]:
    """Return the axes of the codes that blocks of a format lie along."""
    if weight.axes:
        return weight.axes
    last = len(weight.shape) - 1
    if len(fmt.sizes) > 1:
        return last - 1, last
    return (next((place for place, size in enumerate(weight.sizes) if size > 1), last),)


def as_blocks(weight: Weight) -> BlockArray:
    """Return the codes and scales as a BlockArray, where that gives the same values exactly.

    Raises
    ------
    CheckpointError
        A scheme without a block format here, several scales of a tensor, or one that divides and has no
        exact inverse; `values_of` serves all of them.
    """
    check(weight)
    fmt = block_format_of(weight)
    if fmt is None:
        raise CheckpointError(
            f"weight {weight.name!r} of {weight.scheme.name} is in no block format; use its values"
        )
    tensor = tensor_scale(weight)
    if fmt.tensor_scale == "none":
        number = None
    else:
        number = np.float32(1) if tensor is None else tensor
        if number.size != 1:
            raise CheckpointError(f"weight {weight.name!r} has several scales of the tensor; use its values")
        stored = float(number)
        number = np.float32(1) / number if weight.scheme.divides else number
        if weight.over != 1:
            raise CheckpointError(
                f"weight {weight.name!r} has the scale {stored:.9g} / {weight.over:g}, which is no "
                f"float32; use its values"
            )
        if weight.scheme.divides and math.frexp(stored)[0] != 0.5:
            raise CheckpointError(
                f"weight {weight.name!r} is divided by {stored:.9g}, whose inverse is no float32; "
                f"use its values"
            )
    given = None if number is None else np.float32(number)
    return BlockArray(codes_of(weight), scale_codes(weight), fmt, axes_of(weight, fmt), given)
