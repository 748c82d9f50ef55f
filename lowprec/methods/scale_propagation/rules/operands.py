"""Operands of rules, as ScaledArrays of one scale format. Floor 4."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from lowprec.arrays.checks import as_array
from lowprec.methods.scale_propagation import rounding
from lowprec.methods.scale_propagation.scaled_array import (
    ScaledArray,
    as_scaled,
    holds_no_scale,
    over,
    scaled_scalar,
    unchecked,
    with_data,
)
from lowprec.spec.format import Format


class Operands(NamedTuple):
    """Operands of a rule, and the formats of its result."""

    arrays: tuple[ScaledArray, ...]
    fmt: Format
    scale_format: Format

    def result(self, data: Any, scale: Any, fmt: Format | None = None) -> ScaledArray:
        """Return a result in the common formats, or in another one of its data."""
        return unchecked(data, scale, fmt or self.fmt, self.scale_format)


def operands(*given: Any) -> Operands:
    """Convert operands, at least one of which is a ScaledArray, to ScaledArrays of one scale format.

    Python numbers, and single numbers and bools that NumPy has no narrower type for, are rounded to the
    common format of the others; all other operands have a format of their own.
    """
    scale_format = rounding.promoted(*(x.scale_format for x in given if isinstance(x, ScaledArray)))
    whole = [x if _is_weak(x) else own(x, scale_format) for x in given]
    fmt = rounding.promoted(*(x.format for x in whole if isinstance(x, ScaledArray)))
    arrays = [x if isinstance(x, ScaledArray) else _weak(x, fmt, scale_format) for x in whole]
    return Operands(tuple(arrays), fmt, scale_format)


def _is_weak(x: Any) -> bool:
    if isinstance(x, ScaledArray):
        return False
    array = as_array(x)
    return array.dtype.kind == "b" or (
        array.ndim == 0 and (array.dtype.kind in "iu" or array.dtype == np.float64)
    )


def own(x: Any, scale_format: Format | None = None) -> ScaledArray:
    """Return an operand as a ScaledArray of its own format; integers and bools are of binary32."""
    if isinstance(x, ScaledArray):
        return x
    array = as_array(x)
    fmt = "binary32" if array.dtype.kind in "biu" else None
    return as_scaled(array, fmt=fmt, scale_format=scale_format)  # type: ignore[no-any-return]


def _weak(x: Any, fmt: Format, scale_format: Format) -> ScaledArray:
    if np.ndim(x) == 0:
        return scaled_scalar(x, fmt, scale_format=scale_format)
    return as_scaled(as_array(x), fmt=fmt, scale_format=scale_format)  # type: ignore[no-any-return]


def one(scale_format: Format) -> Any:
    """Return a scale of 1."""
    return rounding.carrier(scale_format).type(1)


def factor(x: ScaledArray) -> ScaledArray:
    """Return the same values at a scale that is neither 0 nor infinite nor NaN.

    The data may then be infinities that the format lacks: results made of them may be numbers again.
    """
    return with_data(x, over(x, 1.0), one(x.scale_format)) if holds_no_scale(x) else x


def settled(x: ScaledArray) -> ScaledArray:
    """Return the same values at a scale that is neither 0 nor infinite nor NaN, as data of the format."""
    return with_data(factor(x), rounding.project(over(x, 1.0), x.format)) if holds_no_scale(x) else x


def addends(x: ScaledArray) -> ScaledArray:
    """Return the same values as addends; at a scale of 0 the data become zeros or NaNs."""
    return settled(x) if x.scale else with_data(x, rounding.project(over(x, 1.0), x.format))


def taking_zeros(x: ScaledArray) -> ScaledArray:
    """Return the same values at a finite scale; at an infinite one zeros of the data would be NaN.

    A format without infinity keeps an infinite scale: it has infinite values at no other.
    """
    return settled(x) if x.scale != 0 and x.format.infinity else x


def largest_scale(arrays: tuple[ScaledArray, ...]) -> float:
    """Return the largest finite scale above 0; without one, 0 if all is zero, 1 for infinities and NaNs."""
    held = [float(x.scale) for x in arrays if not holds_no_scale(x)]
    return max(held, default=float(any(x.scale != 0 for x in arrays)))
