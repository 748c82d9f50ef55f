"""Numbers in float64, exactly. Floor 3."""

from __future__ import annotations

import numpy as np

from lowprec.arrays.checks import Array

__all__ = ["doubles"]


def doubles(array: Array, name: str) -> Array:
    """Return numbers in float64; refuse integers that it does not have."""
    made: Array = array.astype(np.float64)
    if array.dtype.kind in "iu" and array.dtype.itemsize == 8:
        lost = np.asarray(made.astype(object) != array.astype(object))
        if lost.any():
            raise ValueError(
                f"{name} has an integer that float64 does not have, {array[lost][0]}; round {name} to it "
                "first"
            )
    return made
