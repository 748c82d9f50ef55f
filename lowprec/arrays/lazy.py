"""Dask and xarray arrays go through the verbs lazily, chunk by chunk.

A chunk knows its place in the whole array, so that stochastic rounding with `rng=` gives the same codes
whatever the chunks are. Chunks that would cut what belongs together are made whole, with a warning.

Floor 3.
"""

from __future__ import annotations

import importlib
import itertools
import math
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from lowprec.arrays.checks import as_array
from lowprec.arrays.frames import is_frame
from lowprec.arrays.random import Place, key_of
from lowprec.spec.format import Format
from lowprec.spec.layouts import lanes
from lowprec.spec.projection import DEFAULT, Projection

__all__ = [
    "plain",
    "check_sizes",
    "aligned",
    "as_named",
    "apply",
    "by_name",
    "check",
    "computed",
    "dask_of",
    "empty_of",
    "group_of",
    "in_memory",
    "is_dask",
    "is_lazy",
    "is_named",
    "named",
    "named_like",
    "place_of",
    "present",
    "refuse",
    "renewed",
    "trial",
    "words",
]

_RESULTS = {
    "dask": "a dask array is converted lazily",
    "xarray": "results of xarray objects are xarray objects",
}
_NAMELESS = (
    "{name} has dimensions {dims}, and the arrays that it goes with have no names: make them DataArrays, or "
    "give its .data"
)


def is_lazy(values: object) -> bool:
    """Return whether values are a Dask array, or an xarray object around one."""
    return _package(values) in ("dask", "xarray")


def is_dask(values: object) -> bool:
    """Return whether values are a Dask object."""
    return _package(values) == "dask"


def plain(values: Any) -> Any:
    """Return the array in an xarray object; everything else as it is."""
    return values.data if is_named(values) else values


def is_named(values: object) -> bool:
    """Return whether values are an xarray object."""
    return _package(values) == "xarray"


def as_named(values: Any) -> Any:
    """Return a variable of xarray as a DataArray; everything else as it is."""
    if not is_named(values) or hasattr(values, "coords"):
        return values
    return importlib.import_module("xarray").DataArray(values)


def _package(values: object) -> str:
    return type(values).__module__.partition(".")[0]


# -- arguments ---------------------------------------------------------------------------------------


def refuse(*operands: object, **given: object) -> None:
    """Refuse keywords that results of lazy operands have no place for, such as arrays to write to."""
    package = next(_package(values) for values in operands if is_lazy(values))
    for name, array in given.items():
        if array is not None:
            raise ValueError(f"{name}= is for NumPy arrays; {_RESULTS[package]}: leave it out")


def in_memory(name: str, values: object) -> Any:
    """Return an array; refuse lazy ones and those with names where neither would be kept."""
    if is_lazy(values):
        raise TypeError(
            f"{name} must be an array in memory without names, not a {type(values).__name__} of "
            f"{_package(values)}: give .compute() of Dask arrays, .to_numpy() of xarray objects"
        )
    return as_array(values)


def check(*operands: Any) -> None:
    """Refuse lazy objects that are no arrays."""
    for values in operands:
        needed = ("chunks",) if is_dask(values) else ("dtype", "shape")
        if is_lazy(values) and not all(hasattr(type(values), name) for name in needed):
            way = "use .map for the arrays of a Dataset, and dask.array for delayed values"
            if hasattr(type(values), "to_dask_array") and values.ndim:  # of dask.dataframe
                way = "give .to_dask_array(lengths=True)"
            raise TypeError(f"{type(values).__name__} of {_package(values)} is no array; {way}")


def empty_of(values: Any) -> Any:
    """Return an array of the same type and number of dimensions without elements, to try arguments on."""
    return np.zeros((0,) * values.ndim, values.dtype)


def computed(values: list[Any]) -> list[Any]:
    """Return values, those that are Dask's computed at once by the scheduler in use."""
    if not any(hasattr(each, "__dask_graph__") for each in values):
        return values
    return list(importlib.import_module("dask").compute(*values))


def check_sizes(what: str, *arrays: Any) -> None:
    """Refuse chunks of unknown sizes."""
    if any(n != n for array in arrays for n in np.shape(array)):
        raise ValueError(f"{what}, and the sizes of some chunks are unknown; call .compute_chunk_sizes()")


# -- chunks ------------------------------------------------------------------------------------------


def aligned(array: Any, units: Mapping[int, int], what: str) -> Any:
    """Return a Dask array with chunks that end at multiples of the units along axes; warn if they changed.

    Where chunks grow along one of these axes, they are made shorter along the others, as units let them.
    `what` says for the warning what needs it.
    """
    check_sizes(what, array)
    old, new = {axis: array.chunks[axis] for axis in units}, {}
    for axis, unit in units.items():
        ends = {int(end) // unit * unit for end in itertools.accumulate(old[axis][:-1])}
        ends |= {0, int(array.shape[axis])}
        new[axis] = tuple(np.diff(sorted(ends)).tolist()) or (0,)
    if all(new[axis] == tuple(old[axis]) for axis in units):
        return array
    grown = math.prod(max(new[axis]) / max(1, *old[axis]) for axis in units)
    for axis, unit in units.items():
        longest = max(new[axis])
        if grown >= 2 and longest > unit:
            step = max(int(longest / grown) // unit, 1) * unit
            length, grown = int(array.shape[axis]), grown * step / longest
            new[axis] = tuple(min(step, length - start) for start in range(0, length, step))
    da: Any = importlib.import_module("dask.array")
    told = [
        f"{_spelled(old[axis])} along axis {axis} become {_spelled(new[axis])}"
        for axis in units
        if new[axis] != tuple(old[axis])
    ]
    wanted = {
        axis: min(-(-max(new[axis]) // unit) * unit, int(array.shape[axis])) for axis, unit in units.items()
    }
    warnings.warn(
        f"{what}: chunks {' and '.join(told)}, which moves data between them; "
        f".rechunk({wanted}) where the array is made "
        f"saves that",
        da.PerformanceWarning,
        stacklevel=_outside(),
    )
    return array.rechunk(new)


def _spelled(chunks: tuple[int, ...]) -> str:
    if len(chunks) <= 4:
        return str(tuple(map(int, chunks)))
    return f"({', '.join(str(int(n)) for n in chunks[:3])}, ... {len(chunks)} in all)"


def _outside() -> int:
    """Return how many calls the caller of the package is away from `aligned`, as `warnings` counts them."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(
        ("lowprec.", "contextlib")
    ):
        level, frame = level + 1, frame.f_back
    return level


def group_of(rule: Projection, fmt: Format | None) -> int:
    """Return how many elements along the last axis share a random word."""
    return lanes(rule.rounding, fmt) if fmt is not None and rule.rounding.bits else 1


def place_of(block_info: Any, key: int, whole: tuple[int, ...]) -> Place:
    """Return the place of a chunk, as `map_blocks` tells of its first array."""
    return Place(key, tuple(int(start) for start, _ in block_info[0]["array-location"]), whole)


def words(random: Any, values: Any, group: int) -> Any:
    """Random integers in the chunks of the values: one for each `group` along the last axis."""
    given = dask_of(random)
    check_sizes("random= goes with values by their places", values, given)
    chunks, shape = values.chunks, values.shape
    if group > 1:
        chunks = (*chunks[:-1], tuple(-(-n // group) for n in chunks[-1]))
        shape = (*shape[:-1], -(-shape[-1] // group))
    if given.shape != shape:
        raise ValueError(f"random has shape {given.shape}, but needs {shape}")
    return given.rechunk(chunks)


# -- elements ----------------------------------------------------------------------------------------


def apply(
    verb: Callable[..., Any],
    *operands: Any,
    fmt: Format | None = None,
    rule: Projection = DEFAULT,
    random: Any = None,
    rng: Any = None,
    flags: object = None,
    out: object = None,
) -> Any:
    """Apply an elementwise verb chunk by chunk: `verb(*chunks, random= or rng=)` returns their results.

    Operands and `random` are aligned by the names of their dimensions, if they have any. Operands broadcast,
    and their chunks are made alike. `fmt` and `rule` say how random integers are shared.

    Raises
    ------
    ValueError
        `out=` or `flags=`, which a lazy result has no place for.
    """
    refuse(*operands, random, out=out, flags=flags)
    check(*operands, random)
    dims = tuple(dict.fromkeys(name for values in operands if is_named(values) for name in values.dims))
    shared = dims[-1:] if group_of(rule, fmt) > 1 else ()
    integers = by_name(
        "random", random, dims if any(map(is_named, operands)) else None, *operands, exclude=shared
    )

    lengths = dict(each for values in operands if is_named(values) for each in values.sizes.items())
    for each in operands if any(map(is_named, operands)) else ():
        if not is_named(each) and np.ndim(each) > len(dims):
            raise ValueError(
                f"an array of shape {np.shape(each)} has more axes than {dims}, the dimensions of the xarray "
                "objects beside it: make it a DataArray"
            )
        pairs = zip(reversed(dims), reversed(np.shape(each)), strict=False)
        if not is_named(each) and any(lengths[name] == 1 != length for name, length in pairs):
            raise ValueError(
                f"an array of shape {np.shape(each)} is longer than dimensions of length 1 of the xarray "
                f"objects beside it, {lengths}: make it a DataArray"
            )

    def of_data(*data: Any) -> Any:
        if any(map(is_dask, (*data, integers))):
            return _apply_dask(verb, data, fmt, rule, integers, rng)
        return verb(*map(as_array, data), **present(random=integers, rng=rng))

    if not any(map(is_named, operands)):
        return of_data(*operands)
    if any(map(is_frame, operands)):
        raise TypeError(
            "a frame of pandas and an xarray object name their axes in other ways; give .to_numpy() of the "
            "frame, or make it a DataArray"
        )
    xarray: Any = importlib.import_module("xarray")
    return xarray.apply_ufunc(of_data, *operands, dask="allowed", keep_attrs=True)


def by_name(
    name: str, array: Any, dims: tuple[Any, ...] | None, *others: Any, exclude: tuple[Any, ...] = ()
) -> Any:
    """Return an array's data in the order of a result's dimensions; an array without names as it is.

    Raises
    ------
    TypeError
        An array with names beside operands without any, whose `dims` are None.
    ValueError
        A dimension that the result does not have, or coordinates that differ from those of `others`.
    """
    if not is_named(array):
        return array
    if dims is None:
        raise TypeError(_NAMELESS.format(name=name, dims=array.dims))
    if any(dim not in dims for dim in array.dims):
        raise ValueError(
            f"{name} has dimensions {array.dims}, and the result has {dims}: rename or drop the others"
        )
    _check_coordinates(array, *others, exclude=exclude)
    return getattr(array, "variable", array).set_dims(dims).data


def named_like(values: Any, name: str, array: Any, axes: tuple[int, ...]) -> Any:
    """Return an array with its dimensions in the order of those of values; without names as it is.

    Coordinates are those of values, but along `axes`.
    """
    if not is_named(array):
        return array
    if not is_named(values):
        raise TypeError(_NAMELESS.format(name=name, dims=array.dims))
    if len(array.dims) != len(values.dims) or set(array.dims) != set(values.dims):
        raise ValueError(
            f"{name} has dimensions {array.dims}, and not {values.dims} in some order: rename them"
        )
    _check_coordinates(values, array, exclude={values.dims[axis] for axis in axes})
    return array.transpose(*values.dims)


def _check_coordinates(*arrays: Any, exclude: Any) -> None:
    """Refuse arrays whose coordinates differ along a dimension."""
    arrays = tuple(each for each in arrays if hasattr(each, "coords"))
    importlib.import_module("xarray").align(*arrays, join="exact", copy=False, exclude=exclude)


def named(data: Any, dims: Any, values: Any, changed: set[Any]) -> Any:
    """Return an array with the name, attributes and coordinates of values, except those along `changed`."""
    xarray: Any = importlib.import_module("xarray")
    known = values.coords.to_dataset()
    coords = known.drop_vars([name for name, each in known.coords.items() if changed & set(each.dims)]).coords
    return xarray.DataArray(data, dims=dims, coords=coords, name=values.name, attrs=values.attrs)


def renewed(values: Any, data: Any) -> Any:
    """Return an xarray object with other data, without `encoding`, which says how files hold the old data."""
    made = values.copy(data=data)
    made.encoding = {}
    return made


def dask_of(values: Any) -> Any:
    """Return values as a Dask array without chunks of no elements, which reductions and joins cannot take."""
    da: Any = importlib.import_module("dask.array")
    if not is_dask(values):
        return da.asarray(as_array(values))
    if isinstance(values._meta, np.ma.MaskedArray):
        as_array(values._meta)  # says why not
    if not any(0 in along and len(along) > 1 for along in values.chunks):
        return values
    return values.rechunk(tuple(tuple(n for n in along if n) or (0,) for along in values.chunks))


def trial(
    verb: Callable[..., Any], empty: list[Any], rule: Projection, random: Any, rng: Any
) -> np.dtype[Any]:
    """Return the type of a verb's results, of arrays without elements; arguments are refused here."""
    empty = [each.reshape(-1)[:0] if not each.ndim else each for each in empty]
    stochastic, words = rule.rounding.bits > 0, np.zeros(empty[0].shape, np.uint32)
    if (random is None) == (rng is None) if stochastic else (random is not None or rng is not None):
        verb(*empty, random=None if random is None else words, rng=rng)  # says why not
    made: np.dtype[Any] = verb(*empty, **present(random=words if stochastic else None)).dtype
    return made


def present(**options: Any) -> dict[str, Any]:
    """Return the keywords that are not None."""
    return {name: value for name, value in options.items() if value is not None}


def _apply_dask(
    verb: Callable[..., Any], operands: Any, fmt: Format | None, rule: Projection, random: Any, rng: Any
) -> Any:
    da: Any = importlib.import_module("dask.array")
    operands = [dask_of(values) for values in operands]
    if len(operands) > 1:
        check_sizes("operands are made alike chunk by chunk", *operands)
        operands = da.broadcast_arrays(*operands)
        operands = [values.rechunk(operands[0].chunks) for values in operands]
    empty = [empty_of(each) for each in operands]
    dtype = trial(verb, empty, rule, random, rng)
    options = {"dtype": dtype, "meta": np.empty(empty[0].shape, dtype)}
    if not rule.rounding.bits:
        return da.map_blocks(verb, *operands, **options)
    group = group_of(rule, fmt)
    if group > 1 and operands[0].ndim:
        what = f"{group} elements share a random word of {rule.rounding}"
        first = aligned(operands[0], {operands[0].ndim - 1: group}, what)
        operands = [values.rechunk(first.chunks) for values in operands]
    values = operands[0]
    if random is not None:
        given = words(random, values, group)
        return da.map_blocks(_given_words, *operands, given, verb=verb, **options)
    check_sizes("rng= needs the place of every chunk", values)
    whole = tuple(int(n) for n in values.shape)
    return da.map_blocks(_at_place, *operands, verb=verb, key=key_of(rng), whole=whole, **options)


def _given_words(*chunks: Any, verb: Callable[..., Any]) -> Any:
    return verb(*chunks[:-1], random=chunks[-1])


def _at_place(
    *chunks: Any, verb: Callable[..., Any], key: int, whole: tuple[int, ...], block_info: Any = None
) -> Any:
    return verb(*chunks, rng=place_of(block_info, key, whole))
