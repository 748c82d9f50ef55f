"""Arrays of a codebook's values, order and classes by code, for comparisons, vectors and laws."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.spec.arith import Class
from lowprec.spec.codebook import Codebook

__all__ = ["classes", "marks", "negated", "ranks", "values"]

Array = npt.NDArray[Any]


@functools.lru_cache(maxsize=64)
def values(fmt: Codebook) -> npt.NDArray[np.float64]:
    """Return the value of every code.

    >>> values(Codebook("ternary", [0, 1, float("nan"), -1]))
    array([ 0.,  1., nan, -1.])
    """
    return _kept(np.array(fmt.values))


@functools.lru_cache(maxsize=64)
def ranks(fmt: Codebook) -> npt.NDArray[np.int64]:
    """Return the place of every code's value in ascending order; both zeros have one, NaNs the last.

    >>> ranks(Codebook("ternary", [0, 1, float("nan"), -1]))
    array([1, 2, 3, 0])
    """
    return _kept(np.unique(values(fmt), return_inverse=True)[1].reshape(-1))


@functools.lru_cache(maxsize=64)
def classes(fmt: Codebook) -> npt.NDArray[np.int64]:
    """Return the class of every code: numbers other than zeros are normal.

    >>> [Class(number).name for number in classes(Codebook("ternary", [0, 1, float("nan"), -1]))]
    ['POSITIVE_ZERO', 'POSITIVE_NORMAL', 'QUIET_NAN', 'NEGATIVE_NORMAL']
    """
    numbers = values(fmt)
    kind = np.where(numbers == 0, Class.POSITIVE_ZERO, Class.POSITIVE_NORMAL)
    kind = np.where(np.isinf(numbers), Class.POSITIVE_INFINITY, kind)
    kind = np.where(np.signbit(numbers), 7 - kind, kind)  # as Class numbers them
    return _kept(np.where(np.isnan(numbers), Class.QUIET_NAN, kind))


@functools.lru_cache(maxsize=64)
def negated(fmt: Codebook) -> npt.NDArray[np.int64]:
    """Return for every code that of the negative of its value, -1 where there is none.

    >>> negated(Codebook("ternary", [0, 1, float("nan"), -1]))
    array([ 0,  3, -1,  1])
    """
    codes = {
        (value, str(value)[0] == "-" if value == 0 else False): code for code, value in enumerate(fmt.values)
    }
    found = [
        codes.get((-value, value == 0 and str(value)[0] != "-" and fmt.has_negative_zero), -1)
        for value in fmt.values
    ]
    return _kept(np.array(found))


@functools.lru_cache(maxsize=64)
def marks(fmt: Codebook) -> npt.NDArray[np.float64]:
    """Return the numbers, without sign, where rounding may change its answer, ascending, as float64.

    They are values, thresholds, and the bounds of overflow.

    >>> marks(Codebook("ternary", [0, 1, float("nan"), -1]))
    array([0. , 0.5, 1. , 1.5, 2. ])
    """
    points = {0.0}
    for ray in (fmt.ray(False), fmt.ray(True)):
        points |= {abs(_near(each)) for each in (*ray.sizes, *ray.thresholds, ray.beyond) if each is not None}
    return _kept(np.array(sorted(points)))


def _near(number: Any) -> float:
    try:
        return float(number)
    except OverflowError:
        return float(np.finfo(float).max)


def _kept(made: Array) -> Array:
    made.flags.writeable = False
    return made
