"""Operands of dot products, as their question has them: factors, and what joins the sums.

All are read whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from lowprec.arrays.convert import decode, encode
from lowprec.spec.accumulations import ACCUMULATIONS
from lowprec.spec.format import Format
from lowprec.spec.projection import Projection
from lowprec.verify.codes.values import as_doubles, doubles
from lowprec.verify.dumps.files import Dump
from lowprec.verify.questions.dot_scales import Part
from lowprec.verify.questions.question import Array

__all__ = ["Given", "could_be", "factors", "joining", "shape_of"]


class Given(NamedTuple):
    """Operands of some outputs."""

    x: Array
    y: Array
    addend: Array | None
    scales: Part | None
    bias: Array | None = None
    output_scale: Array | None = None


def could_be(x: Array, y: Array, target: Format) -> Iterator[str]:
    """Yield the names of accumulations that take such factors and give such results."""
    has: dict[tuple[int, Format], bool] = {}

    def holds(number: int, side: Array, fmt: Format) -> bool:
        if (number, fmt) not in has:
            # By bits: a format without -0 does not hold it.
            given = doubles(side.reshape(-1))
            rule = Projection(nan="max", negative="zero")
            back = as_doubles(encode(given, fmt, projection=rule), fmt)
            has[number, fmt] = bool(((back.view(np.uint64) == given.view(np.uint64)) | np.isnan(given)).all())
        return has[number, fmt]

    for name, how in ACCUMULATIONS.items():
        if how.output[0] != target or how.scale is not None:
            continue
        if how.operands is None or all(
            holds(number, side, fmt)
            for number, (side, fmt) in enumerate(zip((x, y), how.operands, strict=True))
        ):
            yield name


def factors(side: Dump, fmt: Format | None) -> Array:
    """Return factors as values."""
    whole = side.read(0, side.size).reshape(side.shape)
    if whole.dtype.kind not in "iu":
        return whole
    if fmt is None:
        raise ValueError(f"{side} holds {whole.dtype}: say of which format its codes are")
    return np.asarray(decode(whole, fmt))


def joining(given: Dump, name: str, shape: tuple[int, ...]) -> Array:
    """Return numbers that join the sums, one for each."""
    if given.dtype.kind in "iu":
        raise ValueError(f"{given} holds {given.dtype}; {name} is given as values, float16 to float64")
    whole = given.read(0, given.size).reshape(given.shape)
    try:
        return np.broadcast_to(whole, shape)
    except ValueError:
        raise ValueError(
            f"{given} of shape {given.shape} does not broadcast to the results' {shape}"
        ) from None


def shape_of(verb: str, x: Array, y: Array) -> tuple[int, ...]:
    """Return the shape of the results; raise ValueError for factors that do not fit each other."""
    if not x.ndim or not y.ndim or x.shape[-1] != y.shape[-1 if verb == "dot" else max(-2, -y.ndim)]:
        raise ValueError(f"{verb} of shapes {x.shape} and {y.shape}: both need the same K")
    try:
        if verb == "dot":
            return np.broadcast_shapes(x.shape[:-1], y.shape[:-1])
        outer = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    except ValueError:
        raise ValueError(
            f"{verb} of shapes {x.shape} and {y.shape}: the axes in front do not broadcast"
        ) from None
    return (*outer, *x.shape[-2:-1], *(y.shape[-1:] if y.ndim > 1 else ()))
