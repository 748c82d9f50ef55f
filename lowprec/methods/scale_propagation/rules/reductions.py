"""Rules of functions along axes.

Floor 4. Source: [SCALIFY] 3.2, 3.4 and its published code.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from lowprec.arrays.checks import Array
from lowprec.methods.scale_propagation.config import current
from lowprec.methods.scale_propagation.pow2 import pow2_decompose, pow2_sqrt
from lowprec.methods.scale_propagation.registry import register_scaled_op
from lowprec.methods.scale_propagation.rounding import fitting, operate, project, quotient, total
from lowprec.methods.scale_propagation.rules.elementwise import scale_power
from lowprec.methods.scale_propagation.rules.operands import settled
from lowprec.methods.scale_propagation.scaled_array import ScaledArray, with_data
from lowprec.spec.format import Format

__all__: list[str] = []

Axis = int | tuple[int, ...] | None


def _axes(x: ScaledArray, axis: Axis) -> tuple[tuple[int, ...], int]:
    """Return the axes, and the number of elements that each result sums."""
    axes = tuple(range(x.ndim)) if axis is None else normalize_axis_tuple(axis, x.ndim)
    return axes, math.prod(x.shape[each] for each in axes)


def _kept(x: ScaledArray, axes: tuple[int, ...], keepdims: bool) -> ScaledArray:
    data = np.expand_dims(x.data, tuple(sorted(axes))) if keepdims else x.data
    return with_data(x, data)


def _summed(x: ScaledArray, axis: Axis, keepdims: bool, root: float, count: float) -> ScaledArray:
    """Divide the sum by a count; the scale is that of x times the root."""
    axes, _ = _axes(x, axis)
    x = settled(x) if x.scale else x
    scale = fitting(float(x.scale) * root, x.scale_format)
    sums = total(x.data, axes, current().sums)
    divisor = count * float(scale) / float(x.scale) if x.scale else 1.0
    data = quotient(sums, divisor, x.format)
    return _kept(with_data(x, data, scale), axes, keepdims)


@register_scaled_op(np.sum)
def scaled_sum(x: ScaledArray, axis: Axis = None, *, keepdims: bool = False) -> ScaledArray:
    """Sum; the scale grows by the root of the number of terms, as a power of two."""
    count = _axes(x, axis)[1]
    return _summed(x, axis, keepdims, pow2_sqrt(count) if count else 1.0, 1.0)


@register_scaled_op(np.mean)
def scaled_mean(x: ScaledArray, axis: Axis = None, *, keepdims: bool = False) -> ScaledArray:
    """Divide the sum by the number of terms; the scale is divided by the power of two below that number."""
    count = _axes(x, axis)[1]
    root = pow2_sqrt(count) / float(pow2_decompose(count)[0]) if count else 1.0
    return _summed(x, axis, keepdims, root, float(count))


@register_scaled_op(np.var)
def scaled_var(x: ScaledArray, axis: Axis = None, *, keepdims: bool = False) -> ScaledArray:
    """Return the mean of the squared differences from the mean."""
    return scaled_mean(np.square(x - scaled_mean(x, axis, keepdims=True)), axis, keepdims=keepdims)


@register_scaled_op(np.std)
def scaled_std(x: ScaledArray, axis: Axis = None, *, keepdims: bool = False) -> Any:
    """Return the root of `var`."""
    return np.sqrt(scaled_var(x, axis, keepdims=keepdims))


@register_scaled_op(np.prod)
def scaled_prod(x: ScaledArray, axis: Axis = None, *, keepdims: bool = False) -> ScaledArray:
    """Multiply one after the other, each product rounded; the scale is scale**n of n factors.

    Where the scale stops at an end of its format, the data take the rest, and only the result has to be in
    range.
    """
    axes, count = _axes(x, axis)
    x = settled(x)
    kept = [each for each in range(x.ndim) if each not in axes]
    rows = x.data.transpose([*axes, *kept]).reshape(count, *(x.shape[each] for each in kept))
    scale, rest, exponent = scale_power(float(x.scale), count, x.scale_format)
    if rest != 1 or exponent:
        data = _product_apart(rows, rest, exponent, x.format)
    else:
        data = np.ones(rows.shape[1:])
        for row in (*rows, 1.0):
            data = operate("multiply", data, row, fmt=x.format)
    return _kept(with_data(x, data, scale), axes, keepdims)


def _product_apart(rows: Array, rest: float, exponent: int, fmt: Format) -> Array:
    """Multiply rows, rest and 2**exponent, with exponents added separately.

    Partial products are rounded in the upper half of the range of the format, where all have its full
    precision.
    """
    data, exponents = np.frexp(np.full(rows.shape[1:], rest))
    exponents = exponents + exponent
    for row in rows:
        fractions, more = np.frexp(row.astype(np.float64))
        product = operate("multiply", np.ldexp(data, fmt.emax), fractions, fmt=fmt)
        data, shift = np.frexp(product.astype(np.float64))
        exponents = exponents + more + shift - fmt.emax
    with np.errstate(over="ignore"):
        return project(np.ldexp(data, np.clip(exponents, -3000, 3000)), fmt)


@register_scaled_op(np.max, np.amax)
def scaled_max(x: ScaledArray, axis: Axis = None, *, keepdims: bool = False) -> ScaledArray:
    """Return the largest element; the scale stays."""
    return with_data(x, np.max(x.data, axis=axis, keepdims=keepdims))


@register_scaled_op(np.min, np.amin)
def scaled_min(x: ScaledArray, axis: Axis = None, *, keepdims: bool = False) -> ScaledArray:
    """Return the smallest element; the scale stays."""
    return with_data(x, np.min(x.data, axis=axis, keepdims=keepdims))
