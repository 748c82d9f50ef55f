"""Dot products of lazy arrays: K lies whole in every chunk, rows and columns in as many as they are given in.

Floor 3.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from lowprec.arrays import lazy
from lowprec.arrays.block import BlockArray
from lowprec.arrays.checks import as_array
from lowprec.arrays.lazy_blocks import grids, number
from lowprec.arrays.random import Place
from lowprec.spec.block import BlockFormat

__all__ = ["FactorChunks", "is_lazy", "product", "side"]


class FactorChunks(NamedTuple):
    """A factor as arrays: its values; or the codes, scales and tensor scale of its blocks."""

    name: str
    arrays: tuple[Any, ...]
    blocks: tuple[BlockFormat, tuple[int, ...]] | None  #: their format and axes

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the elements."""
        return np.shape(self.arrays[0])

    @property
    def given(self) -> tuple[int, ...]:
        """The same, for messages."""
        return self.shape

    def at(self, *chunks: Any) -> Any:
        """The factor that chunks of the arrays stand for."""
        if self.blocks is None:
            return chunks[0]
        codes, scales, tensor = chunks
        return BlockArray._made(codes, scales, *self.blocks, number(tensor))


def is_lazy(factor: object) -> bool:
    """Whether a factor, or an addend, is a Dask array, an xarray object, or blocks of such."""
    return factor.is_lazy if isinstance(factor, BlockArray) else lazy.is_lazy(factor)


def side(name: str, factor: Any) -> FactorChunks:
    """A factor as its arrays."""
    if isinstance(factor, BlockArray):
        parts = factor.codes, factor.scales, factor.tensor_scale
        return FactorChunks(name, parts, (factor.format, factor.axes))
    lazy.check(factor)
    return FactorChunks(name, (factor if lazy.is_lazy(factor) else as_array(factor),), None)


def product(
    verb: Callable[..., Any],
    sides: tuple[FactorChunks, FactorChunks],
    outer: tuple[int, ...],
    paired: bool,
    addend: Any,
    key: int | None,
) -> Any:
    """The products of two sides: `verb(x, y, addend=, rng=)` gives those of chunks.

    `outer` is the shape of the axes in front of the matrices, or of all outputs where they are `paired`.
    """
    if any(lazy.is_named(each.arrays[0]) for each in sides):
        return _named(verb, sides, outer, paired, addend, key)
    addend = lazy.by_name("addend", addend, None)
    if not any(lazy.is_dask(array) for array in (*sides[0].arrays, *sides[1].arrays, addend)):
        return verb(*(each.at(*each.arrays) for each in sides), addend=addend, rng=key)
    da: Any = importlib.import_module("dask.array")
    # Axes have names, as in einsum: numbers in front, then the rows of x, the columns of y, and K.
    front = [str(axis) for axis in range(len(outer))]
    rows, columns = [
        () if paired or len(each.shape) == 1 else (name,) for each, name in zip(sides, "mn", strict=True)
    ]
    inner = (*rows, "k"), ("k", *columns)
    chunks: dict[Any, tuple[int, ...]] = {}
    arguments: list[Any] = []
    empty = []
    for each, last in zip(sides, inner, strict=True):
        first = len(front) + len(last) - len(each.shape)
        names = (*front[first:], *last)
        arrays = _with_whole_k(each, names, chunks)
        empty.append(each.at(*(_without_rows(array, names) for array in arrays)))
        for array in arrays:
            arguments += [array, (names if np.ndim(array) else ()) if lazy.is_dask(array) else None]
    made = np.asarray(verb(*empty, rng=key))  # so arguments are refused now
    names = (*front, *rows, *columns)
    along = [chunks.get(name, (1,)) for name in names]
    if addend is not None:
        added = lazy.dask_of(addend)
        own = along[len(names) - added.ndim :]
        own = [(1,) if n == 1 else parts for n, parts in zip(added.shape, own, strict=True)]
        arguments += [added.rechunk(tuple(own)), names[len(names) - added.ndim :]]
    if key is not None:  # the places of the outputs
        for name, parts in zip(names, along, strict=True):
            arguments += [da.arange(sum(parts), chunks=(parts,)), (name,)]
    return da.blockwise(
        _of_chunks, names, *arguments, verb=verb, sides=tuple(each._replace(arrays=()) for each in sides),
        added=addend is not None, key=key, whole=tuple(map(sum, along)), dtype=made.dtype, concatenate=True,
        align_arrays=False, adjust_chunks=dict(zip(names, along, strict=True)),
        meta=np.empty((0,) * len(names), made.dtype),
    )  # fmt: skip


def _with_whole_k(
    each: FactorChunks, names: tuple[Any, ...], chunks: dict[Any, tuple[int, ...]]
) -> list[Any]:
    """The arrays of a side as Dask arrays, in the chunks of axes with these names; of new names its own."""
    da: Any = importlib.import_module("dask.array")
    k, values = names.index("k"), each.arrays[0]
    values = lazy.dask_of(values if lazy.is_dask(values) else da.from_array(values, chunks=-1))
    what = f"sums along axis {k} of {each.name} take all of it"
    values = lazy.aligned(values, {k: int(values.shape[k]) or 1}, what)
    for axis, name in enumerate(names):
        if name != "k" and values.shape[axis] != 1:
            values = values.rechunk({axis: chunks.setdefault(name, values.chunks[axis])})
    if each.blocks is None:
        return [values]
    fmt, axes = each.blocks
    if any(names[axis].isdecimal() for axis in axes):
        raise ValueError(
            f"blocks of {each.name} lie along axes {axes}, but lazy products take blocks along the last two: "
            f"compute {each.name} first"
        )
    scales = lazy.dask_of(each.arrays[1]).rechunk(grids(values.chunks, fmt, axes))
    return [values, scales, each.arrays[2]]


def _without_rows(array: Any, names: tuple[Any, ...]) -> Any:
    """Zeros in place of an array: no rows and columns, but all of K."""
    if not np.ndim(array):
        return None if array is None else np.float32(1)
    return np.zeros(
        [n if name == "k" else 0 for n, name in zip(array.shape, names, strict=True)], array.dtype
    )


def _of_chunks(
    *chunks: Any,
    verb: Callable[..., Any],
    sides: tuple[FactorChunks, ...],
    added: bool,
    key: int | None,
    whole: tuple[int, ...],
) -> Any:
    left = iter(chunks)
    factors = [each.at(*(next(left) for _ in range(1 if each.blocks is None else 3))) for each in sides]
    addend = next(left) if added else None
    rng = None if key is None else Place(key, tuple(int(places[0]) for places in left), whole)
    return np.asarray(verb(*factors, addend=addend, rng=rng))


# -- names -------------------------------------------------------------------------------------------


def _named(
    verb: Callable[..., Any],
    sides: tuple[FactorChunks, FactorChunks],
    outer: tuple[int, ...],
    paired: bool,
    addend: Any,
    key: int | None,
) -> Any:
    """The products with names: those in front, that of x's rows, and that of y's columns."""
    xarray: Any = importlib.import_module("xarray")
    for each in sides:
        if not lazy.is_named(each.arrays[0]):
            raise TypeError(
                f"{each.name} has no names of dimensions, and the other factor has: make it a DataArray, or "
                f"give the other's .data"
            )
    x, y = (each.arrays[0] for each in sides)
    rows = () if paired or x.ndim == 1 else (x.dims[-2],)
    columns = () if paired or y.ndim == 1 else (y.dims[-1],)
    front = max((x.dims[: x.ndim - 1 - len(rows)], y.dims[: y.ndim - 1 - len(columns)]), key=len)
    for each, inner in ((x, len(rows) + 1), (y, len(columns) + 1)):
        mine = each.dims[: each.ndim - inner]
        if mine != front[len(front) - len(mine) :]:
            raise ValueError(
                f"the dimensions in front, {x.dims[: x.ndim - 1 - len(rows)]} of x and "
                f"{y.dims[: y.ndim - 1 - len(columns)]} of y, are of other names: transpose or rename them"
            )
    names = (*front, *rows, *columns)
    if len(set(names)) < len(names):
        raise ValueError(f"the result would have dimensions {names}, one name twice: rename that of x or y")
    xarray.align(x, y, join="exact", copy=False, exclude=set(rows) & set(columns))
    plain = tuple(each._replace(arrays=tuple(map(lazy.plain, each.arrays))) for each in sides)
    data = product(verb, plain, outer, paired, lazy.by_name("addend", addend, names, x, y), key)  # type: ignore[arg-type]
    coords: dict[Any, Any] = {}
    for each, other in ((y, rows), (x, columns)):
        mine = set(names) - set(other)
        coords |= {name: at for name, at in each.coords.items() if set(at.dims) <= mine & set(each.dims)}
    return xarray.DataArray(data, dims=names, coords=coords).rename(None)
