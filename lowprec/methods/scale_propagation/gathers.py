"""Lookups of rows, and sums of rows by their indices, which are the gradients of lookups.

Floor 4.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays.checks import Array, as_array
from lowprec.arrays.doubles import reals
from lowprec.methods.scale_propagation.config import current
from lowprec.methods.scale_propagation.pow2 import pow2_sqrt
from lowprec.methods.scale_propagation.registry import register_scaled_op
from lowprec.methods.scale_propagation.rounding import fitting, quotient, total
from lowprec.methods.scale_propagation.rules.operands import addends
from lowprec.methods.scale_propagation.scaled_array import ScaledArray, with_data
from lowprec.methods.scale_propagation.transform import custom_scale


@custom_scale
def scatter_add(x: Any, indices: npt.ArrayLike, length: int) -> Any:
    """Add each row of x to the row of an array of zeros that its index names: `numpy.add.at` of a new array.

    >>> from lowprec.methods import scale_propagation as sp
    >>> scatter_add(sp.as_scaled(np.float32([1.0, 2.0, 4.0, 8.0]), 4.0), [1, 0, 1, 1], 2)
    ScaledArray([0.5 , 3.25], scale=4.0, format='binary32')

    Parameters
    ----------
    x : ScaledArray or array of float, shape (..., row)
    indices : array_like of integer, shape (...)
        From 0 to length - 1.
    length : int
        Rows of the result.

    Returns
    -------
    sums : ScaledArray or array, shape (length, row)
        With n indices the scale is that of x times the root of n / length, the mean number of terms, as a
        power of two; it never becomes smaller. Sums are those of `config`.

    Raises ValueError: an index out of range, or shapes that do not fit. TypeError: indices that are no
    integers.

    Source: the rule of `numpy.sum` in [SCALIFY] 3.2, for as many terms as a row has in the mean.
    """
    x = reals(x, "x")
    places = _places(x.shape, indices, length)
    sums = np.zeros((length, *x.shape[np.ndim(indices) :]), x.dtype)
    np.add.at(sums, places, x.reshape(places.size, *sums.shape[1:]))
    return sums


@register_scaled_op(scatter_add)
def _scaled_scatter_add(x: ScaledArray, indices: npt.ArrayLike, length: int) -> ScaledArray:
    places = _places(x.shape, indices, length)
    x = addends(x)
    scale = fitting(float(x.scale) * pow2_sqrt(max(1.0, places.size / max(1, length))), x.scale_format)
    row = x.shape[np.ndim(indices) :]
    data, order = x.data.reshape(places.size, *row), np.argsort(places, kind="stable")
    counts = np.bincount(places, minlength=length)
    starts, sums = np.cumsum(counts) - counts, np.zeros((length, *row), np.float32)
    for count in np.unique(counts[counts > 0]):
        alike = np.flatnonzero(counts == count)
        terms = data[order[starts[alike, None] + np.arange(count)]]
        sums[alike] = total(terms, (1,), current().sums)
    return with_data(x, quotient(sums, float(scale) / float(x.scale) if x.scale else 1.0, x.format), scale)


def embedding(indices: npt.ArrayLike, weight: Any) -> tuple[Any, Callable[[Any], Any]]:
    """Look up rows of a table, and return them and the function from their gradient to the table's.

    >>> from lowprec.methods import scale_propagation as sp
    >>> y, pull = embedding([1, 1, 0], sp.as_scaled(np.float32([[1.0], [2.0]]), 2.0))
    >>> pull(sp.as_scaled(np.float32([[1.0], [2.0], [4.0]]), 0.5))
    ScaledArray([[8.],
                 [6.]], scale=0.5, format='binary32')

    Parameters
    ----------
    indices : array_like of integer, shape (...)
        From 0 to rows - 1.
    weight : ScaledArray or array of float, shape (rows, row)

    Returns
    -------
    y : ScaledArray or array, shape (..., row)
        With the scale of weight.
    pull : function
        Takes the gradient at y to that at weight, by `scatter_add`.

    Raises ValueError and TypeError: as `scatter_add`.
    """
    places = _places(np.shape(indices), indices, len(weight)).reshape(np.shape(indices))
    return np.take(weight, places, axis=0), lambda gradient: scatter_add(gradient, places, len(weight))


def _places(shape: tuple[int, ...], indices: npt.ArrayLike, length: int) -> Array:
    """Return indices in one row, checked; `shape` begins with theirs."""
    places = as_array(indices)
    if places.dtype.kind not in "iu":
        raise TypeError(f"indices must be integers, not {places.dtype}")
    if not 0 <= length < 1 << 63:
        raise ValueError(f"length={length!r} of scatter_add must be a number of rows")
    if shape[: places.ndim] != places.shape:
        raise ValueError(f"indices of shape {places.shape} name no rows of an array of shape {shape}")
    if places.size and not 0 <= int(places.min()) <= int(places.max()) < length:
        raise ValueError(
            f"indices go from {places.min()} to {places.max()}, and there are rows 0 to {length - 1}"
        )
    return places.ravel().astype(np.int64)
