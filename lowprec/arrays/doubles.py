"""Real numbers as arrays, in their own type or exactly in float64. Floor 3."""

from __future__ import annotations

import numpy as np

from lowprec.arrays.checks import Array, values_operand

__all__ = ["doubles", "reals"]


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
