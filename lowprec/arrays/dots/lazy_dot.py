"""Dot products of lazy arrays: each chunk has all of K; rows and columns keep their chunks.

Floor 3.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from lowprec.arrays import lazy
from lowprec.arrays.blocks.block import BlockArray
from lowprec.arrays.blocks.lazy_blocks import grids, number
from lowprec.arrays.blocks.scaling import spread_scales
from lowprec.arrays.checks import as_array, values_operand
from lowprec.arrays.dots.epilogue import check_blocks
from lowprec.arrays.random import Place
from lowprec.spec.block import BlockFormat

__all__ = ["FactorChunks", "Joined", "check_k", "is_lazy", "product", "side"]


class FactorChunks(NamedTuple):
    """Arrays of a factor: its values; or the codes, scales and tensor scale of its blocks."""

    name: str
    arrays: tuple[Any, ...]
    blocks: tuple[BlockFormat, tuple[int, ...]] | None  #: their format and axes

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the elements."""
        return np.shape(self.arrays[0])

    @property
    def given(self) -> tuple[int, ...]:
        """Shape of the elements, for messages."""
        return self.shape

    def at(self, *chunks: Any) -> Any:
        """Return the part of the factor that a chunk of each array makes up."""
        if self.blocks is None:
            return chunks[0]
        codes, scales, tensor = chunks
        return BlockArray._made(codes, scales, *self.blocks, number(tensor))


def is_lazy(factor: object) -> bool:
    """Return whether a factor, or an addend, is a Dask array, an xarray object, or blocks of such arrays."""
    return factor.is_lazy if isinstance(factor, BlockArray) else lazy.is_lazy(factor)


def side(name: str, factor: Any) -> FactorChunks:
    """Return the arrays of a factor."""
    if isinstance(factor, BlockArray):
        parts = factor.codes, factor.scales, factor.tensor_scale
        return FactorChunks(name, parts, (factor.format, factor.axes))
    lazy.check(factor)
    return FactorChunks(name, (lazy.as_named(factor) if lazy.is_lazy(factor) else as_array(factor),), None)


class Joined(NamedTuple):
    """Arrays that join a product: scales of its factors, and an addend, a bias or the like of its results."""

    scales: tuple[Any, ...]
    others: dict[str, Any]  #: by their keywords
    block: int = 0  #: elements along K that share a scale, if it is said

    def keywords(self) -> dict[str, Any]:
        """Return the arrays that are given, as keywords of a verb."""
        scales = None if all(each is None for each in self.scales) else self.scales
        return lazy.present(scales=scales, **self.others)


def product(
    verb: Callable[..., Any],
    sides: tuple[FactorChunks, FactorChunks],
    outer: tuple[int, ...],
    paired: bool,
    joined: Joined,
    key: int | None,
) -> Any:
    """Return the products of two factors; `verb(x, y, rng=, **joined.keywords())` computes those of a chunk.

    `outer` is the shape of the axes in front of the matrices, or if vectors are `paired`, of all outputs.
    """
    if any(lazy.is_named(each.arrays[0]) for each in sides):
        return _named(verb, sides, outer, paired, joined, key)
    joined = _by_name(joined, None, (), ())
    if not sides[0].shape[-1]:  # sums of nothing have no scales
        joined = joined._replace(scales=(None, None))
    if not any(
        map(lazy.is_dask, (*sides[0].arrays, *sides[1].arrays, *joined.scales, *joined.others.values()))
    ):
        return verb(*(each.at(*each.arrays) for each in sides), rng=key, **joined.keywords())
    da: Any = importlib.import_module("dask.array")
    # Axes have names, as in einsum: numbers in front, then the rows of x, the columns of y, and K.
    front = [str(axis) for axis in range(len(outer))]
    rows, columns = [
        () if paired or len(each.shape) == 1 else (name,) for each, name in zip(sides, "mn", strict=True)
    ]
    inner = (*rows, "k"), ("k", *columns)
    chunks: dict[Any, tuple[int, ...]] = {}
    arguments: list[Any] = []
    empty, scales = [], []
    for each, last, scale in zip(sides, inner, joined.scales, strict=True):
        first = len(front) + len(last) - len(each.shape)
        names = (*front[first:], *last)
        arrays = _with_whole_k(each, names, chunks)
        empty.append(each.at(*(_without_rows(array, names) for array in arrays)))
        for array in arrays:
            arguments += [array, (names if np.ndim(array) else ()) if lazy.is_dask(array) else None]
        scales.append(scale)
        if scale is not None:
            found = _in_chunks(_scale(each, scale, names.index("k"), joined.block), names, chunks)
            own = tuple(each.name + "k" if name == "k" else name for name in names)
            scales[-1] = np.ones(
                [n if name == "k" else 0 for n, name in zip(found.shape, names, strict=True)]
            )
            arguments += [found, own]
    others = {name: lazy.dask_of(each) for name, each in joined.others.items() if each is not None}
    tried = Joined(tuple(scales), {name: np.zeros((), each.dtype) for name, each in others.items()})
    made = np.asarray(verb(*empty, rng=key, **tried.keywords()))  # refuses wrong arguments now
    names = (*front, *rows, *columns)
    along = [chunks.get(name, (1,)) for name in names]
    for added in others.values():
        own = names[len(names) - added.ndim :]
        arguments += [_in_chunks(added, own, dict(zip(names, along, strict=True))), own]
    if key is not None:  # indices of the outputs, for their random integers
        for name, parts in zip(names, along, strict=True):
            arguments += [da.arange(sum(parts), chunks=(parts,)), (name,)]
    return da.blockwise(
        _of_chunks, names, *arguments, verb=verb, sides=tuple(each._replace(arrays=()) for each in sides),
        scaled=tuple(each is not None for each in scales), others=tuple(others), key=key,
        whole=tuple(map(sum, along)), dtype=made.dtype, concatenate=True, align_arrays=False,
        adjust_chunks=dict(zip(names, along, strict=True)), meta=np.empty((0,) * len(names), made.dtype),
    )  # fmt: skip


def _in_chunks(array: Any, names: tuple[Any, ...], chunks: dict[Any, tuple[int, ...]]) -> Any:
    """Rechunk an array by the names of its axes; an axis of length 1, or without chunks, is one chunk."""
    own = [chunks.get(name, (n,)) if n != 1 else (1,) for n, name in zip(array.shape, names, strict=True)]
    return array.rechunk(tuple(own))


def _scale(each: FactorChunks, scale: Any, k: int, block: int) -> Any:
    """Return the scales of a factor as a Dask array with the factor's axes; along K one for each block."""
    da: Any = importlib.import_module("dask.array")
    name = f"scale of {each.name}"
    scale = lazy.dask_of(scale) if lazy.is_dask(scale) else values_operand(scale, name).array
    if scale.ndim == len(each.shape) and scale.size > 1:
        check_blocks(each.name, scale.shape, each.shape, k, block)
    return lazy.dask_of(da.asarray(spread_scales(each.name, scale, each.shape, k, block)[0]))


def _with_whole_k(
    each: FactorChunks, names: tuple[Any, ...], chunks: dict[Any, tuple[int, ...]]
) -> list[Any]:
    """Return a factor's arrays, K in one chunk, other axes as `chunks` says by name; add new names to it."""
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
    """Return zeros in place of an array, without rows and columns, and with all of K."""
    if not np.ndim(array):
        return None if array is None else np.float32(1)
    return np.zeros(
        [n if name == "k" else 0 for n, name in zip(array.shape, names, strict=True)], array.dtype
    )


def _of_chunks(
    *chunks: Any,
    verb: Callable[..., Any],
    sides: tuple[FactorChunks, ...],
    scaled: tuple[bool, ...],
    others: tuple[str, ...],
    key: int | None,
    whole: tuple[int, ...],
) -> Any:
    """Return the outputs of one chunk of each array; `whole` is the shape of all outputs."""
    left = iter(chunks)
    factors, scales = [], []
    for each, has in zip(sides, scaled, strict=True):
        factors.append(each.at(*(next(left) for _ in range(1 if each.blocks is None else 3))))
        scales.append(next(left) if has else None)
    joined = Joined(tuple(scales), {name: next(left) for name in others})
    places = [*left]
    rng: int | Place | None = key
    if key is not None and all(each.size for each in places):  # a chunk without outputs has no index
        rng = Place(key, tuple(int(each[0]) for each in places), whole)
    return np.asarray(verb(*factors, rng=rng, **joined.keywords()))


# -- names -------------------------------------------------------------------------------------------


def _named(
    verb: Callable[..., Any],
    sides: tuple[FactorChunks, FactorChunks],
    outer: tuple[int, ...],
    paired: bool,
    joined: Joined,
    key: int | None,
) -> Any:
    """Return the products as a DataArray: the dimensions in front, x's rows, and y's columns."""
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
    data = product(verb, plain, outer, paired, _by_name(joined, names, (x, y), x.dims[-1:]), key)  # type: ignore[arg-type]
    coords: dict[Any, Any] = {}
    for each, other in ((y, rows), (x, columns)):
        mine = set(names) - set(other)
        coords |= {name: at for name, at in each.coords.items() if set(at.dims) <= mine & set(each.dims)}
    return xarray.DataArray(data, dims=names, coords=coords).rename(None)


def _by_name(
    joined: Joined, names: tuple[Any, ...] | None, sides: tuple[Any, ...], k: tuple[Any, ...]
) -> Joined:
    """Return joined arrays without names: scales in a factor's dimensions, others in the product's."""
    others = {name: lazy.by_name(name, each, names, *sides) for name, each in joined.others.items()}
    scales = [
        lazy.by_name(f"scale of {name}", scale, None if names is None else side.dims, side, exclude=k)
        for name, scale, side in zip("xy", joined.scales, sides or (None, None), strict=True)
    ]
    return joined._replace(scales=tuple(scales), others=others)


def check_k(sides: tuple[FactorChunks, FactorChunks], paired: bool) -> None:
    """Refuse factors whose axes K have other names."""
    x, y = (each.arrays[0] for each in sides)
    if not (lazy.is_named(x) and lazy.is_named(y) and x.ndim and y.ndim):
        return
    first, second = x.dims[-1], y.dims[-1 if paired or y.ndim == 1 else -2]
    if first != second:
        raise ValueError(
            f"K is dimension {first!r} of x, and {second!r} of y: transpose one of them, or rename it"
        )
