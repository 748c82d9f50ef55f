"""Axes of arrays. Floor 3."""

from __future__ import annotations

from collections.abc import Iterable

from numpy.exceptions import AxisError
from numpy.lib.array_utils import normalize_axis_tuple

__all__ = ["axes_within"]


def axes_within(axis: int | Iterable[int], ndim: int) -> tuple[int, ...]:
    """Return axes counted from the first; refuse those that an array of so many axes does not have."""
    try:
        return normalize_axis_tuple(axis, ndim)
    except OverflowError:  # an integer beyond 64 bits
        raise AxisError(f"axis {axis} is out of bounds for array of dimension {ndim}") from None
