"""Scales and error reports of lazy arrays: sums and maxima over chunks, with the numbers of arrays in memory.

Sums of floats depend on their order. So chunks are made of whole parts of those that an array in memory is
measured by, and the sums of parts are added in the same order.

Floor 3.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from lowprec.arrays import lazy
from lowprec.arrays.blocks.lazy_blocks import Asked, by_name as by_name_of_blocks, over_chunks
from lowprec.arrays.checks import Array
from lowprec.arrays.random import key_of
from lowprec.kernels.modes import usual_arithmetic

__all__ = ["Asked", "by_name", "channels_of", "of_blocks", "of_singles", "scale_for"]

Verb = Callable[..., Any]


# -- error reports -----------------------------------------------------------------------------------


def by_name(values: Any, scale: Any, random: Any, group: int) -> tuple[Any, Any, Any]:
    """Return the data of values, scale and random integers, by the names of dimensions, if they have any.

    As many elements as `group` share a random word.
    """
    dims = values.dims if lazy.is_named(values) else None
    shared = dims[-1:] if dims and group > 1 else ()
    scale = lazy.by_name("scale", scale, dims, values)
    return lazy.plain(values), scale, lazy.by_name("random", random, dims, values, exclude=shared)


def of_singles(
    measure: Verb, finish: Verb, values: Any, scale: Any, random: Any, rng: Any, tile: tuple[int, ...],
    group: int,
) -> Any:  # fmt: skip
    """Return the report on lazy values; `measure(chunk, scales, random, rng)` sums each part of a chunk."""
    if not any(map(lazy.is_dask, (values, scale, random))):
        return finish(measure(values, scale, random, rng).parts)
    da: Any = importlib.import_module("dask.array")
    values, key = lazy.dask_of(values), None if rng is None else key_of(rng)
    none = None if random is None else np.zeros((0,) * values.ndim, np.uint32)
    measure(lazy.empty_of(values), None, none, key)  # so arguments are refused now
    values = _in_parts(values, tile)
    arrays = [values, None, None]
    if scale is not None:
        given = lazy.dask_of(scale)
        own = [
            (1,) if n == 1 else along
            for n, along in zip(given.shape, values.chunks[values.ndim - given.ndim :], strict=True)
        ]
        given = given.rechunk(tuple(own))
        arrays[1] = da.broadcast_to(given, values.shape, chunks=values.chunks)
    if random is not None:
        arrays[2] = lazy.words(random, values, group)
    made = da.map_blocks(
        _measured,
        *(array for array in arrays if array is not None),
        measure=measure,
        has=tuple(array is not None for array in arrays),
        key=key,
        whole=tuple(map(int, values.shape)),
        dtype=object,
        meta=np.empty((0,) * values.ndim, object),
    )
    return _finished(finish, made, values.chunks, tile)


def _measured(
    *chunks: Array, measure: Verb, has: tuple[bool, ...], key: int | None, whole: tuple[int, ...],
    block_info: Any = None,
) -> Any:  # fmt: skip
    left = iter(chunks)
    values, scale, random = (next(left) if there else None for there in has)
    return measure(values, scale, random, None if key is None else lazy.place_of(block_info, key, whole))


def of_blocks(measure: Verb, finish: Verb, values: Any, asked: Asked, tile: tuple[int, ...]) -> Any:
    """Return the report on lazy values in blocks: `measure(chunk, tensor_scale=, random=, rng=)` as above."""
    asked, values = by_name_of_blocks(values, asked), lazy.plain(values)
    if not any(map(lazy.is_dask, (values, asked.random, asked.tensor_scale))):
        sums = measure(values, tensor_scale=asked.tensor_scale, random=asked.random, rng=asked.rng)
        return finish(sums.parts, sums.by_block, sums.clipped)
    values = _in_parts(lazy.dask_of(values), tile)
    mapped, values, _, _ = over_chunks(measure, values, asked)
    made = mapped(dtype=object, meta=np.empty((0,) * values.ndim, object))
    return _finished(finish, made, values.chunks, tile)


def _in_parts(values: Any, tile: tuple[int, ...]) -> Any:
    """Values in chunks of whole parts; one part is small, and nobody need be told."""
    if values.shape == tile:
        return values.rechunk(tile)
    return lazy.aligned(values, dict(enumerate(tile)), "sums are added part by part as in memory")


def _finished(finish: Verb, made: Any, chunks: Any, tile: tuple[int, ...]) -> Any:
    """Return the report, once the sums of all chunks are there."""
    dask: Any = importlib.import_module("dask")
    sums, whole = made.to_delayed(), tuple(tuple(map(int, along)) for along in chunks)
    options = {"finish": finish, "shape": sums.shape, "chunks": whole, "tile": tile}
    return dask.delayed(_report, pure=True)(sums.reshape(-1).tolist(), **options)


@usual_arithmetic()
def _report(found: Any, *, finish: Verb, shape: tuple[int, ...], chunks: Any, tile: tuple[int, ...]) -> Any:
    """Return the report on all parts, in the order of parts of the whole array."""
    parts, places = [part for sums in found for part in sums.parts], []
    counts = [-(-sum(along) // step) for along, step in zip(chunks, tile, strict=True)]
    starts = [list(itertools.accumulate(along, initial=0))[:-1] for along in chunks]
    for firsts, lengths in zip(itertools.product(*starts), itertools.product(*chunks), strict=True):
        along = [
            range(first // step, -(-(first + length) // step))
            for first, length, step in zip(firsts, lengths, tile, strict=True)
        ]
        places += [_flat(place, counts) for place in itertools.product(*along)]
    ordered = [parts[at] for at in np.argsort(places)]
    if found[0].by_block is None:
        return finish(ordered)
    grid = np.empty(shape, object)
    for at, sums in zip(np.ndindex(*shape), found, strict=True):
        grid[at] = sums.by_block
    return finish(ordered, np.block(grid.tolist()), sum(sums.clipped for sums in found))


def _flat(place: Iterable[int], counts: Iterable[int]) -> int:
    flat = 0
    for index, count in zip(place, counts, strict=True):
        flat = flat * count + index
    return flat


# -- scales ------------------------------------------------------------------------------------------


def scale_for(
    verb: Verb, finite: Verb, values: Any, method: str, axis: Any, percentile: float, whole: bool = False
) -> Any:  # fmt: skip
    """Scales of lazy values: `verb(array, axis=, method=)` gives those of an array in memory.

    `finite(chunk)` gives values, with 0 for those that are not finite, and which are. With `whole` a
    scale needs all its values at once.
    """
    lazy.check(values)
    values = lazy.dask_of(values) if lazy.is_dask(values) else lazy.as_named(values)
    kept = channels_of(axis, values.ndim)
    if lazy.is_named(values):  # without the dimensions that have one scale, so that it divides the values
        if lazy.is_dask(values.data):
            data = scale_for(verb, finite, values.data, method, kept, percentile, whole)
        else:
            data = verb(values.data, method=method, axis=kept, percentile=percentile)
        rest = data.reshape([n for at, n in enumerate(data.shape) if at in kept])
        dims = [name for at, name in enumerate(values.dims) if at in kept]
        return lazy.named(rest, dims, values, {*values.dims} - {*dims})
    gone = tuple(place for place in range(values.ndim) if place not in kept)
    lazy.check_sizes("scales need the sizes of chunks", values)
    if whole or method == "mse" or not gone:
        what = f"method={method!r} needs all values of a scale"
        values = lazy.aligned(values, {place: max(1, int(values.shape[place])) for place in gone}, what)
        ones = tuple((1,) if place in gone else along for place, along in enumerate(values.chunks))
        options = {"axis": kept, "method": method, "percentile": percentile}
        made = values.map_blocks(verb, **options, chunks=ones, **_single(values))
    else:
        length = math.prod(int(values.shape[place]) for place in gone)
        method = method if length else "max"  # of no values both are 1
        verb = functools.partial(verb, method="max")  # of one magnitude a channel, whatever found it
        last = functools.partial(verb, axis=kept)
        da: Any = importlib.import_module("dask.array")
        first = functools.partial(_largest, verb=verb, finite=finite)
        more: dict[str, Any] = {"combine": _most, "aggregate": functools.partial(_scale_of_most, verb=last)}
        if method == "percentile":
            share = percentile / 100
            tops = functools.partial(_tops, count=min(length, int(length * (1 - share)) + 3))
            first = functools.partial(_magnitudes, verb=verb, finite=finite, tops=tops)
            done = functools.partial(_scale_of_tops, verb=last, share=share, tops=tops)
            more = {"combine": functools.partial(_merged, tops=tops), "aggregate": done, "concatenate": False}
        made = da.reduction(values, first, axis=gone, keepdims=True, **more, **_single(values))
    return made[(0,) * values.ndim] if axis is None else made


def channels_of(axis: Any, ndim: int) -> tuple[int, ...]:
    """Return the axes of channels, ascending and none of them negative."""
    try:
        if any(isinstance(item, bool) for item in (axis if np.iterable(axis) else (axis,))):
            raise TypeError
        return tuple(sorted(normalize_axis_tuple(() if axis is None else axis, ndim, "axis")))
    except TypeError:
        raise TypeError(f"axis must be an integer or a tuple of them, not {axis!r}") from None
    except (ValueError, OverflowError):  # NumPy's AxisError too
        raise ValueError(
            f"axis={axis!r} must name axes of the values, each once, and they have {ndim}"
        ) from None


def _single(values: Any) -> dict[str, Any]:
    return {"dtype": np.float32, "meta": np.empty((0,) * values.ndim, np.float32)}


@usual_arithmetic()
def _largest(chunk: Array, axis: Any, keepdims: bool, *, verb: Verb, finite: Verb) -> Array:
    """Return the largest magnitudes of a chunk along axes."""
    part, _ = finite(chunk)
    if (part < 0).any():
        verb(chunk)  # which refuses them where the format is unsigned
    return np.asarray(np.abs(part).max(axis=axis, keepdims=True, initial=0))


@usual_arithmetic()
def _most(chunks: Array, axis: Any, keepdims: bool) -> Array:
    return np.asarray(chunks.max(axis=axis, keepdims=True))


def _scale_of_most(chunks: Array, axis: Any, keepdims: bool, *, verb: Verb) -> Any:
    return verb(_most(chunks, axis, keepdims))


@usual_arithmetic()
def _magnitudes(chunk: Array, axis: Any, keepdims: bool, *, verb: Verb, finite: Verb, tops: Verb) -> Any:
    """Return the number of finite values of each channel, and the largest magnitudes."""
    part, known = finite(chunk)
    if (part < 0).any():
        verb(chunk)
    kept = [place for place in range(chunk.ndim) if place not in axis]
    rows = np.where(known, np.abs(part), part.dtype.type(-1)).transpose(*kept, *axis)
    rows = rows.reshape(*rows.shape[: len(kept)], math.prod(chunk.shape[place] for place in axis))
    return known.sum(axis=axis, keepdims=True), tops(rows)


@usual_arithmetic()
def _tops(rows: Array, *, count: int) -> Array:
    """Return the largest along the last axis, at most `count`."""
    return np.partition(rows, -count, axis=-1)[..., -count:] if rows.shape[-1] > count else rows


def _merged(found: Any, axis: Any, keepdims: bool, *, tops: Verb) -> Any:
    """Return the number of finite values and the largest magnitudes of several chunks."""
    flat = list(_flattened(found))
    return sum(count for count, _ in flat), tops(np.concatenate([rows for _, rows in flat], axis=-1))


def _flattened(found: Any) -> Iterable[Any]:
    if isinstance(found, tuple):
        yield found
    else:
        for each in found:
            yield from _flattened(each)


@usual_arithmetic()
def _scale_of_tops(found: Any, axis: Any, keepdims: bool, *, verb: Verb, share: float, tops: Verb) -> Any:
    """Return the scales of percentiles, or of the largest values where these are 0.

    Between two values it interpolates as `numpy.percentile` does, to the bit.
    """
    counts, rows = _merged(found, axis, keepdims, tops=tops)
    rows = np.sort(rows.astype(np.float64), axis=-1)
    number = counts.reshape(rows.shape[:-1])
    at = np.maximum(number - 1, 0) * np.float64(share)
    low = np.floor(at).astype(np.int64)
    places = [np.minimum(low + step, number - 1) + rows.shape[-1] - number for step in (0, 1)]
    places = [np.clip(place, 0, rows.shape[-1] - 1)[..., None] for place in places]
    below, above = (np.take_along_axis(rows, place, axis=-1)[..., 0] for place in places)
    past, gap = at - low, above - below
    lower = np.where(past >= 0.5, above - gap * (1 - past), below + gap * past)
    most = np.maximum(rows[..., -1], 0)
    return verb(np.where((number > 0) & (lower > 0), lower, most).reshape(counts.shape))
