"""The error function of arrays, with the bits of the C library's, in threads.

Floor 3.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays.threads import share
from lowprec.kernels import special
from lowprec.kernels.modes import usual_arithmetic

__all__ = ["erf", "erfc"]

Doubles = npt.NDArray[np.float64]


def erf(values: npt.ArrayLike) -> Doubles:
    """Return `math.erf` of each value, in float64.

    >>> erf([0.0, 0.5]).round(4)
    array([0.    , 0.5205])
    """
    return _apply(special.erf, values)


def erfc(values: npt.ArrayLike) -> Doubles:
    """Return `math.erfc` of each value, in float64.

    >>> erfc([0.0, 0.5]).round(4)
    array([1.    , 0.4795])
    """
    return _apply(special.erfc, values)


@usual_arithmetic()  # signaling NaNs
def _apply(kernel: Any, values: npt.ArrayLike) -> Doubles:
    given = np.asarray(values, np.float64)
    flat = np.ascontiguousarray(given).reshape(-1)
    found = np.empty_like(flat)

    @usual_arithmetic()  # for a thread may have other modes than ours
    def part(start: int, stop: int) -> int:
        kernel(flat[start:stop], found[start:stop])
        return 0

    share(part, flat.size)
    return found.reshape(given.shape)
