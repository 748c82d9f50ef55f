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
    values: Any,
    *,
    fmt: Format,
    rule: Projection,
    random: Any,
    rng: Any,
    flags: object,
    out: object,
) -> Any:
    """A verb over every chunk: `verb(chunk, random=integers or None)` must give an array of the chunk's shape.

    Raises
    ------
    ValueError
        `out=` or `flags=`, which a lazy result has no place for.
    """
    for name, given in (("out", out), ("flags", flags)):
        if given is not None:
            raise ValueError(
                f"{name}= is for NumPy arrays; a {_package(values)} array is converted lazily: leave it out"
            )
    if not hasattr(values, "dtype") or not hasattr(values, "shape"):
        raise TypeError(
            f"{type(values).__name__} of {_package(values)} is no array; use .map for the arrays of a Dataset, and "
            f"dask.array for delayed values"
        )
    if _package(values) == "xarray":
        options = {"fmt": fmt, "rule": rule, "random": getattr(random, "data", random), "rng": rng}
        data = values.data
        if is_lazy(data):
            return values.copy(data=apply(verb, data, flags=None, out=None, **options))
        return values.copy(data=verb(data, random=options["random"], rng=rng))

    da: Any = importlib.import_module("dask.array")
    empty = np.zeros((0,) * values.ndim, values.dtype)
    stochastic = rule.rounding.bits > 0
    if (random is None) == (rng is None) if stochastic else (random is not None or rng is not None):
        verb(empty, random=random, rng=rng)  # says why not
    dtype = verb(empty, random=np.zeros(empty.shape, np.uint32) if stochastic else None).dtype
    options = {"dtype": dtype, "meta": np.empty(empty.shape, dtype)}
    if not stochastic:
        return da.map_blocks(lambda chunk: verb(chunk, random=None), values, **options)
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
        return da.map_blocks(lambda chunk, part: verb(chunk, random=part), values, words, **options)
    if any(n != n for n in values.shape):
        raise ValueError(
            "rng= needs the place of every chunk, and their sizes are unknown; call .compute_chunk_sizes()"
        )
    key, bits = key_of(rng), rule.rounding.bits if rule.rounding.variant in ("A", "B", "C") else 32
    whole = tuple(int(n) for n in values.shape)

    def convert(chunk: Any, block_info: Any = None) -> Any:
        place = block_info[0]["array-location"]
        origin = tuple(int(start) for start, _ in place)
        return verb(chunk, random=random_bits(chunk.shape, key, bits, origin=origin, within=whole))

    return da.map_blocks(convert, values, **options)
