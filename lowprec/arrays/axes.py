"""Axes of arrays, and shapes that broadcast. Floor 3."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.exceptions import AxisError
from numpy.lib.array_utils import normalize_axis_tuple

__all__ = ["axes_within", "axis_within", "broadcast_arrays", "broadcast_shapes"]

#: Axes that NumPy's own functions of shapes take.
_NUMPYS = 32


def axes_within(axis: int | Iterable[int], ndim: int) -> tuple[int, ...]:
    """Return axes counted from the first; refuse those that an array of so many axes does not have."""
    items = tuple(axis) if isinstance(axis, Iterable) and np.iterable(axis) else (axis,)
    try:
        if any(isinstance(item, bool) for item in items):
            raise TypeError
        return normalize_axis_tuple(items, ndim)
    except OverflowError:  # an integer beyond 64 bits
        raise AxisError(f"axis {axis} is out of bounds for array of dimension {ndim}") from None
    except TypeError:
        raise TypeError(f"axis must be an integer or a tuple of them, not {axis!r}") from None


def axis_within(axis: int, ndim: int) -> int:
    """Return one axis counted from the first, as `axes_within`; refuse several."""
    if np.iterable(axis):
        raise TypeError(f"axis must be an integer, not {axis!r}")
    return axes_within(axis, ndim)[0]


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape that shapes broadcast to, as NumPy's function does, but of any number of axes."""
    if max(map(len, shapes)) <= _NUMPYS:
        return np.broadcast_shapes(*shapes)
    axes = [set(lengths) - {1} for lengths in itertools.zip_longest(*map(reversed, shapes), fillvalue=1)]
    if any(len(lengths) > 1 for lengths in axes):
        raise ValueError(f"shapes {' and '.join(map(str, shapes))} do not broadcast")
    return tuple(lengths.pop() if lengths else 1 for lengths in reversed(axes))


def broadcast_arrays(*arrays: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
    """Return views of arrays in the shape that they broadcast to, of any number of axes."""
    shape = broadcast_shapes(*map(np.shape, arrays))
    return [np.broadcast_to(array, shape) for array in arrays]
