"""Frames of pandas and tables of Arrow as arrays: their elements by type, each in the type of its column.

Floor 3.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.kernels.modes import usual_modes

__all__ = ["common_type", "is_arrow", "is_frame", "typed_parts", "whole_of"]

Array = npt.NDArray[Any]


def is_frame(values: object) -> bool:
    """Return whether values are a Series or a DataFrame of pandas."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(values, (pandas.Series, pandas.DataFrame))


def is_arrow(values: object) -> bool:
    """Return whether values are an array or a table of pyarrow."""
    pyarrow = sys.modules.get("pyarrow")
    kinds = ("Array", "ChunkedArray", "Table", "RecordBatch")
    return pyarrow is not None and isinstance(values, tuple(getattr(pyarrow, kind) for kind in kinds))


def typed_parts(frame: Any) -> dict[np.dtype[Any], tuple[Array, Array]]:
    """Return the elements of a frame by type: arrays of its shape, each with the mask of its own elements.

    Missing integers and booleans are NaNs of float64.
    """
    if is_arrow(frame):
        of_column, columns, shape = _of_arrow, getattr(frame, "columns", None), getattr(frame, "shape", ())
    else:
        kinds, shape = {frame.dtype} if frame.ndim == 1 else set(frame.dtypes), frame.shape
        if len(kinds) == 1 and isinstance(next(iter(kinds)), np.dtype):
            return {next(iter(kinds)): (np.asarray(frame), np.broadcast_to(np.True_, shape))}
        columns = None if frame.ndim == 1 else [frame.iloc[:, place] for place in range(shape[1])]
        of_column = _of_column
    if columns is None:
        return {numbers.dtype: (numbers, known) for numbers, known in of_column(frame)}
    found: dict[np.dtype[Any], tuple[Array, Array]] = {}
    for place, column in enumerate(columns):
        for numbers, known in of_column(column):
            if numbers.dtype not in found:
                found[numbers.dtype] = np.zeros(shape, numbers.dtype), np.zeros(shape, np.bool_)
            found[numbers.dtype][0][:, place], found[numbers.dtype][1][:, place] = numbers, known
    return found or {np.dtype(np.float64): (np.zeros(shape), np.ones(shape, np.bool_))}


def _of_arrow(column: Any) -> list[tuple[Array, Array]]:
    """Return the elements of an array of pyarrow by type, each with the mask of its own elements."""
    types = sys.modules["pyarrow"].types
    if types.is_run_end_encoded(column.type):
        column = importlib.import_module("pyarrow.compute").run_end_decode(column)
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if hasattr(column.type, "storage_type") and hasattr(column, "chunks"):  # NumPy reads each by its own rule
        parts = [np.asarray(chunk) for chunk in column.chunks]
        return [(np.concatenate(parts or [np.zeros(0)]), np.ones(len(column), np.bool_))]
    known = np.asarray(column.is_valid())
    if known.all() or not (types.is_integer(column.type) or types.is_boolean(column.type)):
        return [(np.asarray(column), np.ones(len(column), np.bool_))]
    held = np.asarray(column.drop_null())
    numbers = np.zeros(len(column), held.dtype)
    numbers[known] = held
    return [(numbers, known), (np.full(len(column), np.nan), ~known)]


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
    return [
        (column.to_numpy(kind, na_value=kind.type(0).item()), ~missing),
        (np.full(len(column), np.nan), missing),
    ]


def common_type(kinds: Iterable[np.dtype[Any]]) -> np.dtype[Any]:
    """Return NumPy's common type of several, object if there is none."""
    try:
        return np.result_type(*kinds)
    except TypeError:  # numbers and times
        return np.dtype(object)


@usual_modes()
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
