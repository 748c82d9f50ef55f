"""The order of a codebook's codes, by tables: places, classes, neighbours and gaps.

Floor 3.
"""

from __future__ import annotations

import functools

import numpy as np

from lowprec.arrays.checks import Array
from lowprec.spec.arith import Class
from lowprec.spec.codebook import Codebook

__all__ = ["classes_of", "gaps", "next_values", "places_of"]

#: A quiet NaN of binary32; the others follow, by code.
_NAN = 0x7FC00000


@functools.lru_cache(maxsize=64)
def places_of(fmt: Codebook) -> Array:
    """Return for each code a binary32 word, so that words compare as the codes do: zeros are zeros."""
    values = np.array(fmt.values)
    finite = np.unique(values[np.isfinite(values)])
    places = np.searchsorted(finite, values).astype(np.float32) - np.searchsorted(finite, 0.0)
    words = np.where(np.isinf(values), values, places).astype(np.float32)
    if not fmt.subnormals:  # the first positive value is not zero
        words = np.where((values > 0) & np.isfinite(values), words + np.float32(1), words).astype(np.float32)
    words[(values == 0) & np.signbit(values)] = -0.0
    found = words.view(np.uint32)
    nan = np.isnan(values)
    found[nan] = _NAN + np.nonzero(nan)[0]
    return found


@functools.lru_cache(maxsize=64)
def classes_of(fmt: Codebook) -> Array:
    """Return the class of each code: no number of a codebook is subnormal."""
    values = np.array(fmt.values)
    kinds = np.where(values == 0, 3, np.where(np.isinf(values), 0, 1))
    classes = np.where(np.signbit(values), kinds, 7 - kinds)
    return np.where(np.isnan(values), int(Class.QUIET_NAN), classes).astype(np.uint8)


def next_values(x: Array, y: Array, fmt: Codebook) -> Array:
    """Return the value next to x in the direction of y, as float64; of y itself what y is rounded to."""
    values = np.array(fmt.values)
    ordered = np.unique(values[~np.isnan(values)])
    above = ordered[np.minimum(np.searchsorted(ordered, x, side="right"), ordered.size - 1)]
    below = ordered[np.maximum(np.searchsorted(ordered, x, side="left") - 1, 0)]
    found = np.where(y > x, above, below)
    zero = np.copysign(0.0, x) if fmt.has_negative_zero else np.zeros_like(x)
    return np.where(np.isnan(x) | np.isnan(y), np.nan, np.where(found == 0, zero, found))


def gaps(x: Array, fmt: Codebook) -> Array:
    """Return the gap of the ray of its sign that each number lies in; NaN of infinities and NaNs."""
    found = np.empty(x.shape)
    for negative in (False, True):
        ray = fmt.ray(negative)
        sizes = np.array(ray.sizes)
        beyond = sizes[-1] if ray.beyond is None else float(ray.beyond)
        steps = np.diff(np.append(sizes, beyond))
        steps[-1] = steps[-1] or (steps[-2] if steps.size > 1 else np.nan)
        one = np.signbit(x) == negative
        found[one] = steps[np.maximum(np.searchsorted(sizes, np.abs(x[one]), side="right") - 1, 0)]
    return np.where(np.isfinite(x), found, np.nan)
