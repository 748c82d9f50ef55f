"""Rules of functions along axes.

Floor 4. Source: [SCALIFY] 3.2, 3.4 and its published code.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lowprec.arrays.axes import axes_within, axis_within
from lowprec.arrays.checks import Array
from lowprec.methods.scale_propagation.config import current
from lowprec.methods.scale_propagation.pow2 import pow2_decompose, pow2_round, pow2_sqrt
from lowprec.methods.scale_propagation.registry import register_scaled_op
from lowprec.methods.scale_propagation.rounding import (
    fitting,
    operate,
    product,
    project,
    quotient,
    total,
)
from lowprec.methods.scale_propagation.rules.elementwise import scale_power
from lowprec.methods.scale_propagation.rules.operands import addends, settled
from lowprec.methods.scale_propagation.scaled_array import (
    ScaledArray,
    comparable,
    holds_no_scale,
    over,
    with_data,
)
from lowprec.spec.accumulations import ACCUMULATIONS
from lowprec.spec.format import Format

Axis = int | tuple[int, ...] | None


def _axes(x: ScaledArray, axis: Axis) -> tuple[tuple[int, ...], int]:
    """Return the axes, and the number of elements that each result sums."""
    axes = tuple(range(x.ndim)) if axis is None else axes_within(axis, x.ndim)
    return axes, math.prod(x.shape[each] for each in axes)


def _kept(x: ScaledArray, axes: tuple[int, ...], keepdims: bool) -> ScaledArray:
    data = np.expand_dims(x.data, tuple(sorted(axes))) if keepdims else x.data
    return with_data(x, data)


def _summed(x: ScaledArray, axis: Axis, keepdims: bool, root: float, count: float) -> ScaledArray:
    """Divide the sum by a count; the scale is that of x times the root."""
    axes, _ = _axes(x, axis)
    x = addends(x)
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


@register_scaled_op(np.cumsum)
def scaled_cumsum(x: ScaledArray, axis: int | None = None) -> ScaledArray:
    """Sum the elements up to each; the scale is that of the whole sum along the axis.

    Each sum is that of `config` of its own terms, so that sums in some order take time as the square of
    their number.
    """
    x = x.ravel() if axis is None else x
    along = axis_within(0 if axis is None else axis, x.ndim)
    count = x.shape[along]
    x = addends(x)
    rows = np.moveaxis(x.data, along, -1)
    how = current().sums
    # Zeros beside the terms change no exact sum where all is finite, except the sign of a sum of -0 alone.
    step = 256 if how == ACCUMULATIONS["exact"] and np.isfinite(rows).all() else 1
    sums = np.empty(rows.shape, np.float32)
    for start in range(0, count, step):
        stop = min(start + step, count)
        taken = np.triu(np.ones((stop, stop), np.float32))[:, start:]
        sums[..., start:stop] = product(rows[..., :stop].reshape(-1, stop), taken, how).reshape(
            *rows.shape[:-1], stop - start
        )
    if step > 1:
        sums[np.logical_and.accumulate((rows == 0) & np.signbit(rows), axis=-1)] = -0.0
    scale = fitting(float(x.scale) * (pow2_sqrt(count) if count else 1.0), x.scale_format)
    divisor = float(scale) / float(x.scale) if x.scale else 1.0
    return with_data(x, np.moveaxis(quotient(sums, divisor, x.format), -1, along), scale)


@register_scaled_op(np.linalg.norm)
def scaled_norm(x: ScaledArray, ord: Any = None, axis: Axis = None, keepdims: bool = False) -> ScaledArray:
    """Return the root of the sum of squares, of vectors also the sum of magnitudes and the largest.

    The scale of the first grows by the root of the number of terms, as a power of two; that of the others
    is as for `sum` and `max`.
    """
    axes, count = _axes(x, axis)
    kinds = (2, 1, math.inf) if len(axes) == 1 else ("fro",)
    if ord is None or (ord == kinds[0] and len(axes) <= 2):
        return _kept(_root_of_squares(settled(x), axes, count), axes, keepdims)
    if len(axes) == 1 and ord in kinds:
        magnitudes: Any = np.abs(x)
        return (scaled_sum if ord == 1 else scaled_max)(magnitudes, axes, keepdims=keepdims)
    raise ValueError(
        f"numpy.linalg.norm of ScaledArrays takes ord=None or 'fro', and 1, 2 or inf of vectors, not "
        f"ord={ord!r} of {len(axes)} axes; use x.to_array() for norms of singular values"
    )


def _root_of_squares(x: ScaledArray, axes: tuple[int, ...], count: int) -> ScaledArray:
    """Sum squares as `config` says, over a power of two of their own, so that none overflows."""
    root = pow2_sqrt(count) if count else 1.0
    scale = fitting(float(x.scale) * root, x.scale_format)
    largest = np.float64(np.abs(x.data).max(initial=0))
    unit = float(pow2_round(largest, "down")) if 0 < largest < math.inf else 1.0
    kept = [each for each in range(x.ndim) if each not in axes]
    shape = tuple(x.shape[each] for each in kept)
    rows = (x.data.astype(np.float64) / unit).astype(np.float32).transpose([*kept, *axes])
    rows = rows.reshape(math.prod(shape), 1, count)
    sums = product(rows, rows.transpose(0, 2, 1), current().sums).reshape(shape)
    with np.errstate(over="ignore", invalid="ignore"):
        ratio = unit * float(x.scale) / float(scale)
        data = operate("sqrt", sums.astype(np.float64) * ratio**2, fmt=x.format)
    return with_data(x, data, scale)


@register_scaled_op(np.max, np.amax)
def scaled_max(x: ScaledArray, axis: Axis = None, *, keepdims: bool = False) -> ScaledArray:
    """Return the largest element; the scale stays."""
    return _extreme(x, axis, keepdims, np.max, np.argmax)


@register_scaled_op(np.min, np.amin)
def scaled_min(x: ScaledArray, axis: Axis = None, *, keepdims: bool = False) -> ScaledArray:
    """Return the smallest element; the scale stays."""
    return _extreme(x, axis, keepdims, np.min, np.argmin)


def _extreme(x: ScaledArray, axis: Axis, keepdims: bool, extreme: Any, place_of: Any) -> ScaledArray:
    """Return the extreme of the values: zeros at an infinite scale are NaN, of which NumPy makes NaN."""
    if not holds_no_scale(x):
        found = extreme(comparable(x.data), axis=axis, keepdims=keepdims)
        return with_data(x, found.astype(x.data.dtype))
    axes, count = _axes(x, axis)
    kept = [each for each in range(x.ndim) if each not in axes]
    shape = [x.shape[each] for each in kept]
    values, data = (each.transpose([*kept, *axes]).reshape(*shape, count) for each in (over(x, 1.0), x.data))
    places = place_of(values, axis=-1, keepdims=True)
    return _kept(with_data(x, np.take_along_axis(data, places, -1)[..., 0]), axes, keepdims)
