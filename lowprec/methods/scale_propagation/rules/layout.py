"""Rules of functions that move elements about: the scale stays, and joined arrays get the largest of theirs.

Floor 4. Source: [SCALIFY] 3.2, 3.4 and its published code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from lowprec.methods.scale_propagation.registry import register_scaled_op
from lowprec.methods.scale_propagation.rounding import fitting, over, project
from lowprec.methods.scale_propagation.rules.operands import largest_scale, made, operands, taking_zeros, with_data
from lowprec.methods.scale_propagation.scaled_array import ScaledArray, scaled_scalar, unchecked

__all__: list[str] = []


def _register_move(function: Callable[..., Any]) -> None:
    def rule(x: ScaledArray, *args: Any, **keywords: Any) -> ScaledArray:
        return with_data(x, function(x.data, *args, **keywords))

    register_scaled_op(function)(rule)


_MOVES: tuple[Callable[..., Any], ...] = (
    *(np.reshape, np.ravel, np.squeeze, np.expand_dims, np.broadcast_to, np.atleast_1d, np.atleast_2d),
    *(np.transpose, np.swapaxes, np.moveaxis, np.rollaxis, np.matrix_transpose),
    *(np.flip, np.fliplr, np.flipud, np.rot90, np.roll, np.copy),
    *(np.take, np.take_along_axis, np.delete, np.repeat, np.tile, np.diagonal, np.sort, sliding_window_view),
)
for _function in _MOVES:
    _register_move(_function)


@register_scaled_op(np.compress)
def compress(condition: Any, a: Any, axis: Any = None) -> ScaledArray:
    """The one function whose condition comes first."""
    return with_data(a, np.compress(np.asarray(condition), a.data, axis=axis))


def _register_with_zeros(function: Callable[..., Any]) -> None:
    def rule(x: ScaledArray, *args: Any, **keywords: Any) -> ScaledArray:
        x = taking_zeros(x)
        return with_data(x, function(x.data, *args, **keywords))

    register_scaled_op(function)(rule)


_WITH_ZEROS: tuple[Callable[..., Any], ...] = (np.tril, np.triu, np.diag)
for _function in _WITH_ZEROS:
    _register_with_zeros(_function)


@register_scaled_op(np.pad)
def pad(x: ScaledArray, pad_width: Any, mode: Any = "constant", **keywords: Any) -> ScaledArray:
    """With zeros, or with elements of x: the modes that compute nothing."""
    moves = ("edge", "reflect", "symmetric", "wrap")
    if mode not in ("constant", *moves) or np.any(keywords.get("constant_values", 0)) or "reflect_type" in keywords:
        raise ValueError(
            f"numpy.pad of ScaledArrays takes mode 'constant' with zeros, {', '.join(map(repr, moves))}, not "
            f"mode={mode!r} with {keywords}; for other constants use numpy.concatenate"
        )
    x = taking_zeros(x) if mode == "constant" else x
    return with_data(x, np.pad(x.data, pad_width, mode, **keywords))


# -- several in, several out ------------------------------------------------------------------------


def _register_join(function: Callable[..., Any]) -> None:
    def join(arrays: Any, **keywords: Any) -> ScaledArray:
        given = operands(*arrays)
        scale = fitting(largest_scale(given.arrays), given.scale_format)
        data = [project(over(array, float(scale)), given.fmt) for array in given.arrays]
        return made(function(data, **keywords), scale, given.fmt, given.scale_format)

    def with_axis(arrays: Any, axis: Any = 0) -> ScaledArray:
        return join(arrays, axis=axis)

    def without(arrays: Any) -> ScaledArray:
        return join(arrays)

    register_scaled_op(function)(with_axis if function in (np.concatenate, np.stack) else without)


_JOINS: tuple[Callable[..., Any], ...] = (np.concatenate, np.stack, np.hstack, np.vstack, np.dstack, np.column_stack)
for _function in _JOINS:
    _register_join(_function)


def _register_split(function: Callable[..., Any]) -> None:
    def rule(x: ScaledArray, *args: Any, **keywords: Any) -> list[ScaledArray]:
        return [with_data(x, part) for part in function(x.data, *args, **keywords)]

    register_scaled_op(function)(rule)


_SPLITS: tuple[Callable[..., Any], ...] = (np.split, np.array_split, np.hsplit, np.vsplit, np.dsplit)
for _function in _SPLITS:
    _register_split(_function)

# -- constants of the same shape --------------------------------------------------------------------


@register_scaled_op(np.full_like)
def full_like(x: ScaledArray, fill_value: Any, *, shape: Any = None) -> ScaledArray:
    """A constant, with the power of two below it as its scale; 0 for 0."""
    one = scaled_scalar(fill_value, x.format, scale_format=x.scale_format)
    return unchecked(np.full(x.shape if shape is None else shape, one.data), one.scale, x.format, x.scale_format)


@register_scaled_op(np.zeros_like)
def zeros_like(x: ScaledArray, *, shape: Any = None) -> ScaledArray:
    """Zeros of scale 0."""
    return full_like(x, 0.0, shape=shape)


@register_scaled_op(np.ones_like)
def ones_like(x: ScaledArray, *, shape: Any = None) -> ScaledArray:
    """Ones of scale 1."""
    return full_like(x, 1.0, shape=shape)


# -- what has no scale ------------------------------------------------------------------------------


def _register_of_data(function: Callable[..., Any]) -> None:
    def rule(x: ScaledArray, *args: Any, **keywords: Any) -> Any:
        return function(x.data, *args, **keywords)

    register_scaled_op(function)(rule)


_OF_DATA: tuple[Callable[..., Any], ...] = (np.shape, np.ndim, np.size, np.argmax, np.argmin, np.argsort)
for _function in _OF_DATA:
    _register_of_data(_function)


def _register_of_values(function: Callable[..., Any]) -> None:
    def plain(x: Any) -> Any:
        return x.to_array() if isinstance(x, ScaledArray) else x

    def rule(*args: Any, **keywords: Any) -> Any:
        return function(*map(plain, args), **{name: plain(x) for name, x in keywords.items()})

    register_scaled_op(function)(rule)


_OF_VALUES: tuple[Callable[..., Any], ...] = (
    *(np.array_equal, np.allclose, np.isclose, np.count_nonzero, np.nonzero, np.any, np.all),
)
for _function in _OF_VALUES:
    _register_of_values(_function)
