"""Real numbers: arrays in their own type or exactly in float64, and single ones as floats. Floor 3."""

from __future__ import annotations

from typing import Any

import numpy as np

from lowprec.arrays.checks import Array, values_operand

__all__ = ["doubles", "real", "reals"]


def reals(values: object, name: str) -> Array:
    """Return real numbers as an array of their own type; refuse complex numbers, texts, dates and objects."""
    return values_operand(values, name).array


def doubles(values: object, name: str) -> Array:
    """Return real numbers in float64; refuse integers that it does not have."""
    array = reals(values, name)
    made: Array = array.astype(np.float64)
    if array.dtype.kind in "iu" and array.dtype.itemsize == 8:
        lost = np.asarray(made.astype(object) != array.astype(object))
        if lost.any():
            raise ValueError(
                f"{name} has an integer that float64 does not have, {array[lost][0]}; round {name} to it "
                "first"
            )
    return made


def real(value: Any, name: str) -> float:
    """Return one real number as a float; refuse texts, complex numbers and what is beyond float64."""
    try:
        if np.asarray(value).dtype.kind in "cmMSU":  # of which Python and NumPy make floats
            raise TypeError
        return float(value)
    except TypeError:
        raise TypeError(f"{name} must be one real number, not {value!r}") from None
    except OverflowError:
        largest = np.finfo(np.float64).max
        raise ValueError(
            f"{name} is beyond the largest float64, {largest:.2g}; give a smaller number"
        ) from None
