"""Dask and xarray arrays go through the verbs lazily, chunk by chunk.

A chunk knows its place in the whole array, so that stochastic rounding with `rng=` gives the same
codes whatever the chunks are.

Floor 3.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from lowprec.arrays.random import key_of, random_bits
from lowprec.spec.format import Format
from lowprec.spec.layouts import lanes
from lowprec.spec.projection import Projection

__all__ = ["apply", "is_lazy"]


def is_lazy(values: object) -> bool:
    """Whether values are a Dask array, or an xarray object around one."""
    return _package(values) in ("dask", "xarray")


def _package(values: object) -> str:
    return type(values).__module__.partition(".")[0]


def apply(
    verb: Callable[..., Any],
    *operands: Any,
    fmt: Format,
    rule: Projection,
    random: Any,
    rng: Any,
    flags: object,
    out: object,
) -> Any:
    """A verb over every chunk: `verb(*chunks, random=integers or None)` must give an array of their shape.

    Several operands broadcast; their chunks are made alike.

    Raises
    ------
    ValueError
        `out=` or `flags=`, which a lazy result has no place for.
    """
    package = next(_package(values) for values in operands if is_lazy(values))
    for name, given in (("out", out), ("flags", flags)):
        if given is not None:
            raise ValueError(
                f"{name}= is for NumPy arrays; a {package} array is converted lazily: leave it out"
            )
    for values in operands:
        if is_lazy(values) and not (hasattr(values, "dtype") and hasattr(values, "shape")):
            raise TypeError(
                f"{type(values).__name__} of {_package(values)} is no array; use .map for the arrays of a "
                f"Dataset, and dask.array for delayed values"
            )
    options = {"random": getattr(random, "data", random) if package == "xarray" else random, "rng": rng}
    if any(_package(values) == "xarray" for values in operands):
        if len(operands) > 1 and _package(random) == "xarray":
            raise TypeError(
                "random must be an array in the order of the result's dimensions, without names: give .data"
            )

        def of_data(*data: Any) -> Any:
            if any(is_lazy(part) for part in data):
                return apply(verb, *data, fmt=fmt, rule=rule, flags=None, out=None, **options)
            return verb(*data, **options)

        if len(operands) == 1:
            return operands[0].copy(data=of_data(operands[0].data))
        xarray: Any = importlib.import_module("xarray")
        return xarray.apply_ufunc(of_data, *operands, dask="allowed", keep_attrs=True)
    return _apply_dask(verb, operands, fmt, rule, random, rng)


def _apply_dask(
    verb: Callable[..., Any], operands: tuple[Any, ...], fmt: Format, rule: Projection, random: Any, rng: Any
) -> Any:
    da: Any = importlib.import_module("dask.array")
    if len(operands) > 1:
        if any(n != n for each in operands for n in np.shape(each)):
            raise ValueError(
                "operands are made alike chunk by chunk, and the sizes of some chunks are unknown; call "
                ".compute_chunk_sizes()"
            )
        operands = da.broadcast_arrays(*(da.asarray(values) for values in operands))
        operands = tuple(values.rechunk(operands[0].chunks) for values in operands)
    values = operands[0]
    empty = [np.zeros((0,) * values.ndim, each.dtype) for each in operands]
    stochastic = rule.rounding.bits > 0
    if (random is None) == (rng is None) if stochastic else (random is not None or rng is not None):
        verb(*empty, random=random, rng=rng)  # says why not
    dtype = verb(*empty, random=np.zeros(empty[0].shape, np.uint32) if stochastic else None).dtype
    options = {"dtype": dtype, "meta": np.empty(empty[0].shape, dtype)}
    if not stochastic:
        return da.map_blocks(lambda *chunks: verb(*chunks, random=None), *operands, **options)
    group = lanes(rule.rounding, fmt)
    if group > 1:
        raise ValueError(
            f"rounding {rule.rounding} shares random words between lanes, which chunks may cut through; "
            f"convert chunk by chunk with random=, or use variant 'A'"
        )
    if random is not None:
        words = da.asarray(random)
        if words.shape != values.shape:
            raise ValueError(f"random has shape {words.shape}, but needs {values.shape}")
        words = words.rechunk(values.chunks)
        return da.map_blocks(
            lambda *chunks: verb(*chunks[:-1], random=chunks[-1]), *operands, words, **options
        )
    if any(n != n for n in values.shape):
        raise ValueError(
            "rng= needs the place of every chunk, and their sizes are unknown; call .compute_chunk_sizes()"
        )
    key, bits = key_of(rng), rule.rounding.bits if rule.rounding.variant in ("A", "B", "C") else 32
    whole = tuple(int(n) for n in values.shape)

    def convert(*chunks: Any, block_info: Any = None) -> Any:
        place = block_info[0]["array-location"]
        origin = tuple(int(start) for start, _ in place)
        return verb(*chunks, random=random_bits(chunks[0].shape, key, bits, origin=origin, within=whole))

    return da.map_blocks(convert, *operands, **options)
