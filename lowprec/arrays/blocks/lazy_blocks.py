"""Arrays in blocks, lazily: chunks that end where blocks do, each encoded by itself.

`verb` is the function of `block` that does the same in memory; what it returns and what is given here as
`blocks` are BlockArrays.

Floor 3.
"""

from __future__ import annotations

import functools
import importlib
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from lowprec.arrays import lazy
from lowprec.arrays.blocks.block_stream import largest_finite, tensor_of
from lowprec.arrays.checks import Array, code_dtype, codes_operand, values_operand
from lowprec.arrays.random import key_of
from lowprec.kernels.engine import Backend
from lowprec.kernels.modes import usual_modes
from lowprec.spec.block import BlockFormat
from lowprec.spec.format import Format

__all__ = [
    "Asked",
    "by_name",
    "codes_of",
    "computed",
    "decode",
    "encode",
    "grids",
    "number",
    "over_chunks",
    "parts_of",
    "quantize",
]

Verb = Callable[..., Any]


class Asked(NamedTuple):
    """Arguments of a call, besides the values."""

    fmt: BlockFormat
    axes: tuple[int, ...]
    tensor_scale: Any
    random: Any
    rng: Any
    backend: Backend | None


# -- encoding ----------------------------------------------------------------------------------------


def encode(verb: Verb, values: Any, asked: Asked) -> Any:
    """Return the BlockArray of lazy values: `verb(chunk, tensor_scale=, random=, rng=)` encodes a chunk."""
    fmt, axes, asked = asked.fmt, asked.axes, by_name(values, asked)
    if lazy.is_named(values):
        made = _of_data(encode, verb, values, asked)
        values = lazy.as_named(values)
        scales = lazy.named(made.scales, values.dims, values, {values.dims[axis] for axis in axes})
        return type(made)._made(lazy.renewed(values, made.codes), scales, fmt, axes, made.tensor_scale)
    mapped, values, empty, tensor = over_chunks(verb, values, asked)
    made = mapped(dtype=object, meta=np.empty(empty.shape, object))
    codes = made.map_blocks(_codes, dtype=empty.codes.dtype, meta=empty.codes)
    chunks = grids(values.chunks, fmt, axes)
    scales = made.map_blocks(_scales, chunks=chunks, dtype=empty.scales.dtype, meta=empty.scales)
    return type(empty)._made(codes, scales, fmt, axes, empty.tensor_scale if tensor is None else tensor)


def quantize(verb: Verb, values: Any, asked: Asked) -> Any:
    """Lazy values rounded to those of blocks, by `verb` as by `encode`."""
    asked = by_name(values, asked)
    if lazy.is_named(values):
        return lazy.renewed(values, _of_data(quantize, verb, values, asked))
    mapped, _, empty, _ = over_chunks(verb, values, asked)
    return mapped(dtype=empty.dtype, meta=empty)


def _of_data(function: Verb, verb: Verb, values: Any, asked: Asked) -> Any:
    """Return a function's result for the array in an xarray object, or the verb's for an array in memory."""
    if any(map(lazy.is_dask, (values.data, asked.random, asked.tensor_scale))):
        return function(verb, values.data, asked)
    return verb(values.data, tensor_scale=asked.tensor_scale, random=asked.random, rng=asked.rng)


def by_name(values: Any, asked: Asked) -> Asked:
    """Return the request with the data of arrays that have names, in the order of the values' dimensions."""
    dims, elements = values.dims if lazy.is_named(values) else None, asked.fmt.elements
    shared = dims[-1:] if dims and lazy.group_of(elements, asked.fmt.element) > 1 else ()
    random = lazy.by_name("random", asked.random, dims, values, exclude=shared)
    return asked._replace(random=random, tensor_scale=lazy.plain(asked.tensor_scale))


def over_chunks(verb: Verb, values: Any, asked: Asked) -> tuple[Verb, Any, Any, Any]:
    """Return a verb over chunks of whole blocks, these chunks, an empty result, and a lazy tensor scale."""
    da: Any = importlib.import_module("dask.array")
    values, scale = lazy.dask_of(values), asked.tensor_scale
    fmt, rounding = asked.fmt, asked.fmt.elements.rounding
    tensor = lazy.dask_of(scale) if lazy.is_dask(scale) else None
    if tensor is not None and tensor.ndim:
        raise TypeError(f"tensor_scale must be a number, not an array of shape {tensor.shape}")
    key = None if asked.rng is None else key_of(asked.rng)
    # So arguments are refused now, not when the first chunk is computed.
    none = None if asked.random is None else np.zeros((0,) * values.ndim, np.uint32)
    empty = verb(lazy.empty_of(values), tensor_scale=scale if tensor is None else 1.0, random=none, rng=key)
    units = dict(zip(asked.axes, fmt.sizes, strict=True))
    values = lazy.aligned(values, units, f"blocks of {fmt.name!r} must not be cut")
    group, last = lazy.group_of(fmt.elements, fmt.element), values.ndim - 1
    if group > 1:
        unit = math.lcm(group, units.get(last, 1))
        values = lazy.aligned(values, {last: unit}, f"{group} elements share a random word of {rounding}")
    if fmt.tensor_scale != "none" and scale is None:
        tensor = _tensor_scale(values, fmt, asked.backend)
    random = None if asked.random is None else lazy.words(asked.random, values, group)
    options = {"scale": scale, "key": key, "whole": tuple(map(int, values.shape))}
    mapped = functools.partial(
        da.map_blocks,
        _on_chunk,
        values,
        *(array for array in (random, tensor) if array is not None),
        verb=verb,
        has=(random is not None, tensor is not None),
        options=options,
    )
    return mapped, values, empty, tensor


def _on_chunk(
    chunk: Array, *given: Any, verb: Verb, has: tuple[bool, bool], options: Any, block_info: Any = None
) -> Any:
    random = given[0] if has[0] else None
    scale = number(given[-1]) if has[1] else options["scale"]
    key = options["key"]
    rng = None if key is None else lazy.place_of(block_info, key, options["whole"])
    return verb(chunk, tensor_scale=scale, random=random, rng=rng)


def _codes(blocks: Any) -> Any:
    return blocks.codes


def _scales(blocks: Any) -> Any:
    return blocks.scales


def grids(chunks: Any, fmt: BlockFormat, axes: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Return the chunks of scales."""
    sizes = dict(zip(axes, fmt.sizes, strict=True))
    return tuple(tuple(-(-int(n) // sizes.get(axis, 1)) for n in along) for axis, along in enumerate(chunks))


# -- the scale of a tensor ---------------------------------------------------------------------------


def _tensor_scale(values: Any, fmt: BlockFormat, backend: Backend | None) -> Any:
    """Return the scale of a whole tensor, from the largest magnitudes of its chunks."""
    ones = tuple((1,) * len(along) for along in values.chunks)
    empty = np.empty((0,) * values.ndim, np.uint64)
    found = values.map_blocks(_largest, chunks=ones, dtype=empty.dtype, meta=empty).max()
    options = {"integers": values.dtype.kind in "iub", "fmt": fmt, "backend": backend}
    return found.map_blocks(_scale_of, options=options, dtype=np.float32, meta=np.empty((), np.float32))


@usual_modes()
def _largest(chunk: Array) -> Array:
    """Return the largest finite magnitude: an integer, or the bits of a float64, in the same order."""
    most, exponent = largest_finite(values_operand(chunk))
    bits = most if chunk.dtype.kind in "iub" else np.float64(math.ldexp(most, exponent)).view(np.uint64)
    return np.full((1,) * chunk.ndim, bits, np.uint64)


@usual_modes()
def _scale_of(most: Any, *, options: Any) -> Array:
    whole = np.asarray(most, np.uint64).reshape(1)
    operand = values_operand(whole if options["integers"] else whole.view(np.float64))
    return np.asarray(tensor_of(operand, options["fmt"], None, options["backend"]).value)


def number(tensor: Any) -> np.float32 | None:
    """Return the scale of a tensor that was computed as an array without axes."""
    return None if tensor is None else np.float32(np.asarray(tensor).reshape(())[()])


# -- decoding ----------------------------------------------------------------------------------------


def decode(verb: Verb, blocks: Any, dtype: np.dtype[Any]) -> Any:
    """Return the values of a lazy BlockArray: `verb` decodes one in memory."""
    codes, scales, tensor = blocks.codes, blocks.scales, blocks.tensor_scale
    made = functools.partial(type(blocks)._made, fmt=blocks.format, axes=blocks.axes)
    if lazy.is_named(codes):
        plain = made(codes.data, lazy.plain(scales), tensor_scale=tensor)
        return lazy.renewed(codes, decode(verb, plain, dtype) if plain.is_lazy else verb(plain))
    da: Any = importlib.import_module("dask.array")
    names = tuple(range(codes.ndim))
    return da.blockwise(
        _decoded, names, codes, names, scales, names, tensor, () if lazy.is_dask(tensor) else None,
        verb=verb, made=made, dtype=dtype, align_arrays=False, meta=np.empty((0,) * codes.ndim, dtype),
    )  # fmt: skip


def _decoded(codes: Array, scales: Array, tensor: Any, *, verb: Verb, made: Verb) -> Any:
    return verb(made(codes, scales, tensor_scale=number(tensor)))


def computed(blocks: Any, options: dict[str, Any]) -> Any:
    """Return lazy blocks in memory."""
    dask: Any = importlib.import_module("dask")
    codes, scales, tensor = dask.compute(blocks.codes, blocks.scales, blocks.tensor_scale, **options)
    return type(blocks)._made(codes, scales, blocks.format, blocks.axes, number(tensor))


# -- blocks that are given ---------------------------------------------------------------------------


def parts_of(
    codes: Any, scales: Any, tensor: Any, fmt: BlockFormat, axes: tuple[int, ...]
) -> tuple[Any, ...]:
    """Return codes and scales as unsigned integers, in chunks that belong together if any part is lazy."""
    lazy.check(codes, scales, tensor)
    parts = [lazy.plain(codes), lazy.plain(scales)]
    if any(map(lazy.is_dask, (*parts, tensor))):
        units = dict(zip(axes, fmt.sizes, strict=True))
        parts[0] = lazy.aligned(lazy.dask_of(parts[0]), units, f"blocks of {fmt.name!r} must not be cut")
        parts[1] = lazy.dask_of(parts[1]).rechunk(grids(parts[0].chunks, fmt, axes))
    found = [_checked(part, kind) for part, kind in zip(parts, (fmt.element, fmt.scale), strict=True)]
    return tuple(
        lazy.renewed(given, part) if lazy.is_named(given) else part
        for given, part in zip((codes, scales), found, strict=True)
    )


def _checked(array: Any, fmt: Format) -> Any:
    """Codes of a format, refused now by their type, and by their numbers when they are computed."""
    if not lazy.is_dask(array):
        return codes_of(array, fmt)
    empty = codes_of(lazy.empty_of(array), fmt)
    return array.map_blocks(codes_of, fmt=fmt, dtype=empty.dtype, meta=empty)


def codes_of(codes: Any, fmt: Format) -> Array:
    """Return codes of a format in the type that its codes have, which layouts go by."""
    return codes_operand(codes, fmt).codes.astype(code_dtype(fmt), copy=False)
