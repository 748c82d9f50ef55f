"""Functions of the C library that NumPy lacks, of arrays.

Floor 2b.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from lowprec.kernels.jit import jit

__all__ = ["erf", "erfc"]

Doubles = npt.NDArray[np.float64]


@jit
def erf(values: Doubles, out: Doubles) -> None:
    """Write the error function of each value, as `math.erf` gives it."""
    for i in range(values.size):
        out[i] = math.erf(values[i])


@jit
def erfc(values: Doubles, out: Doubles) -> None:
    """Write one less the error function of each value, as `math.erfc` gives it."""
    for i in range(values.size):
        out[i] = math.erfc(values[i])
