"""Rules of functions that move elements: the scale stays, and joined arrays get their largest scale.

Floor 4. Source: [SCALIFY] 3.2, 3.4 and its published code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from lowprec.arrays.checks import Array, as_array
from lowprec.methods.scale_propagation.registry import register_each, register_scaled_op
from lowprec.methods.scale_propagation.rounding import fitting, project
from lowprec.methods.scale_propagation.rules.operands import largest_scale, operands, taking_zeros
from lowprec.methods.scale_propagation.scaled_array import (
    ScaledArray,
    comparable,
    holds_no_scale,
    over,
    refuse_masks,
    scaled_scalar,
    with_data,
)


@register_each(
    *(np.reshape, np.ravel, np.squeeze, np.expand_dims, np.broadcast_to, np.atleast_1d, np.atleast_2d),
    *(np.transpose, np.swapaxes, np.moveaxis, np.rollaxis, np.matrix_transpose),
    *(np.flip, np.fliplr, np.flipud, np.rot90, np.roll, np.copy),
    *(np.take_along_axis, np.delete, np.repeat, np.tile, np.diagonal, sliding_window_view),
)
def _move(function: Callable[..., Any], x: ScaledArray, *args: Any, **keywords: Any) -> ScaledArray:
    refuse_masks(*args, *keywords.values())
    return with_data(x, function(x.data, *args, **keywords))


@register_scaled_op(np.sort)
def sort(x: ScaledArray, axis: Any = -1, *, kind: Any = None, stable: Any = None) -> ScaledArray:
    """Sort by the values, NaNs last."""
    places = np.argsort(_in_order(x), axis, kind, stable=stable)
    return with_data(x, np.take_along_axis(x.data, places, axis))


@register_scaled_op(np.take)
def take(x: ScaledArray, indices: Any, axis: Any = None, *, mode: Any = "raise") -> ScaledArray:
    """Return elements by their indices; `out` would get them without their scale."""
    refuse_masks(indices)
    return with_data(x, np.take(x.data, indices, axis, mode=mode))


@register_scaled_op(np.compress)
def compress(condition: Any, a: Any, axis: Any = None) -> ScaledArray:
    """Return selected elements. This is the one function whose condition comes first."""
    return with_data(a, np.compress(as_array(condition), a.data, axis=axis))


@register_each(np.tril, np.triu, np.diag)
def _move_with_zeros(
    function: Callable[..., Any], x: ScaledArray, *args: Any, **keywords: Any
) -> ScaledArray:
    return _move(function, taking_zeros(x), *args, **keywords)


@register_scaled_op(np.pad)
def pad(x: ScaledArray, pad_width: Any, mode: Any = "constant", **keywords: Any) -> ScaledArray:
    """Pad with zeros, or with elements of x: the modes that compute nothing."""
    moves = ("edge", "reflect", "symmetric", "wrap")
    if (
        mode not in ("constant", *moves)
        or np.any(keywords.get("constant_values", 0))
        or "reflect_type" in keywords
    ):
        raise ValueError(
            f"numpy.pad of ScaledArrays takes mode 'constant' with zeros, {', '.join(map(repr, moves))}, not "
            f"mode={mode!r} with {keywords}; for other constants use numpy.concatenate"
        )
    x = taking_zeros(x) if mode == "constant" else x
    return with_data(x, np.pad(x.data, pad_width, mode, **keywords))


# -- joining and splitting --------------------------------------------------------------------------


@register_each(np.hstack, np.vstack, np.dstack, np.column_stack)
def _join(function: Callable[..., Any], arrays: Any) -> ScaledArray:
    return _joined(function, arrays)


@register_each(np.concatenate, np.stack)
def _join_along(function: Callable[..., Any], arrays: Any, axis: Any = 0) -> ScaledArray:
    return _joined(function, arrays, axis=axis)


def _joined(function: Callable[..., Any], arrays: Any, **keywords: Any) -> ScaledArray:
    given = operands(*arrays)
    scale = fitting(largest_scale(given.arrays), given.scale_format)
    data = [project(over(array, float(scale)), given.fmt) for array in given.arrays]
    return given.result(function(data, **keywords), scale)


@register_each(np.split, np.array_split, np.hsplit, np.vsplit, np.dsplit)
def _split(function: Callable[..., Any], x: ScaledArray, *args: Any, **keywords: Any) -> list[ScaledArray]:
    return [with_data(x, part) for part in function(x.data, *args, **keywords)]


# -- constants of the same shape --------------------------------------------------------------------


@register_scaled_op(np.full_like)
def full_like(x: ScaledArray, fill_value: Any, *, shape: Any = None) -> ScaledArray:
    """Return a constant, with the power of two below it as its scale, or 0 for 0."""
    one = scaled_scalar(fill_value, x.format, scale_format=x.scale_format)
    return with_data(x, np.full(x.shape if shape is None else shape, one.data), one.scale)


@register_scaled_op(np.zeros_like)
def zeros_like(x: ScaledArray, *, shape: Any = None) -> ScaledArray:
    """Return zeros of scale 0."""
    return full_like(x, 0.0, shape=shape)


@register_scaled_op(np.ones_like)
def ones_like(x: ScaledArray, *, shape: Any = None) -> ScaledArray:
    """Return ones of scale 1."""
    return full_like(x, 1.0, shape=shape)


# -- results without scale----------------------------------------------------------------------------


@register_each(np.shape, np.ndim, np.size, np.argmax, np.argmin, np.argsort)
def _of_data(function: Callable[..., Any], x: ScaledArray, *args: Any, **keywords: Any) -> Any:
    return function(_in_order(x), *args, **keywords)


def _in_order(x: ScaledArray) -> Array:
    """Return numbers that NumPy orders as it does the values: NaNs last, and the first of extremes."""
    return over(x, 1.0) if holds_no_scale(x) else comparable(x.data)


@register_each(np.array_equal, np.allclose, np.isclose, np.count_nonzero, np.nonzero, np.any, np.all)
def _of_values(function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    return function(*map(_plain, args), **{name: _plain(x) for name, x in keywords.items()})


def _plain(x: Any) -> Any:
    return x.to_array() if isinstance(x, ScaledArray) else x
