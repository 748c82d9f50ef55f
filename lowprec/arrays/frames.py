"""Frames of pandas as arrays: their elements by type, each in the type of its column.

Floor 3.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["common_type", "is_frame", "typed_parts", "whole_of"]

Array = npt.NDArray[Any]


def is_frame(values: object) -> bool:
    """Return whether values are a Series or a DataFrame of pandas."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(values, (pandas.Series, pandas.DataFrame))


def typed_parts(frame: Any) -> dict[np.dtype[Any], tuple[Array, Array]]:
    """Return the elements of a frame by type: arrays of its shape, each with the mask of its own elements.

    Missing integers and booleans are NaNs of float64.
    """
    kinds = {frame.dtype} if frame.ndim == 1 else set(frame.dtypes)
    if len(kinds) == 1 and isinstance(next(iter(kinds)), np.dtype):
        return {next(iter(kinds)): (np.asarray(frame), np.broadcast_to(np.True_, frame.shape))}
    found: dict[np.dtype[Any], tuple[Array, Array]] = {}
    for place in range(frame.shape[-1] if frame.ndim > 1 else 1):
        column, at = (frame, ...) if frame.ndim == 1 else (frame.iloc[:, place], (slice(None), place))
        for numbers, known in _of_column(column):
            if numbers.dtype not in found:
                found[numbers.dtype] = np.zeros(frame.shape, numbers.dtype), np.zeros(frame.shape, np.bool_)
            found[numbers.dtype][0][at], found[numbers.dtype][1][at] = numbers, known
    return found or {np.dtype(np.float64): (np.zeros(frame.shape), np.ones(frame.shape, np.bool_))}


def _of_column(column: Any) -> list[tuple[Array, Array]]:
    """Return the elements of a Series by type, each with the mask of its own elements."""
    if hasattr(column, "cat") and column.cat.categories.dtype.kind in "iu":
        kind = column.cat.categories.dtype
        categories = column.cat.categories.astype(f"{'U' * (kind.kind == 'u')}Int{8 * kind.itemsize}")
        column = type(column)(categories.array.take(column.cat.codes.to_numpy(), allow_fill=True))
    kind, missing = getattr(column.dtype, "numpy_dtype", None), column.isna().to_numpy()
    if not isinstance(kind, np.dtype) or kind.kind not in "biuf":
        return [(np.asarray(column), np.ones(len(column), np.bool_))]
    if kind.kind == "f" or not missing.any():
        return [(column.to_numpy(kind, na_value=np.nan), np.ones(len(column), np.bool_))]
    return [(column.to_numpy(kind, na_value=0), ~missing), (np.full(len(column), np.nan), missing)]


def common_type(kinds: Iterable[np.dtype[Any]]) -> np.dtype[Any]:
    """Return NumPy's common type of several, object if there is none."""
    try:
        return np.result_type(*kinds)
    except TypeError:  # numbers and times
        return np.dtype(object)


def whole_of(parts: dict[np.dtype[Any], tuple[Array, Array]]) -> Array:
    """Return the elements of a frame in one type, which must hold them all."""
    if len(parts) == 1:
        return next(iter(parts.values()))[0]
    dtype = common_type(parts)
    made = np.empty(next(iter(parts.values()))[0].shape, dtype)
    for kind, (array, known) in parts.items():
        if (
            kind.kind in "iu"
            and dtype.kind == "f"
            and np.abs(array.astype(np.float64)).max(initial=0) >= 1 << 53
        ):
            raise TypeError(
                f"numbers of {' and '.join(map(str, parts))} would become an array of {dtype}, which rounds "
                "integers from 2**53 on; fill missing ones, which are NaN, and give columns of a frame one "
                "by one"
            )
        made[known] = array[known]
    return made
