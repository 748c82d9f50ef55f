"""Axes of arrays. Floor 3."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.exceptions import AxisError
from numpy.lib.array_utils import normalize_axis_tuple

__all__ = ["axes_within", "axis_within"]


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
