"""The yardstick: a loop that moves as many bytes as a conversion does, and changes none of them.

No conversion can be faster than its stream for long. The ratio of the two says how much of what the
machine allows a kernel uses, whichever machine it is and however busy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays.threads import share
from lowprec.kernels.jit import jit

__all__ = ["move"]

Array = npt.NDArray[Any]


def move(source: Array, out: Array) -> None:
    """Write each word of a flat array to the same place of another, in as many threads as lowprec uses.

    Of 32-bit words into bytes the upper byte is kept, which compiles to fewer instructions than the lower
    one; of everything else the low bits, with zeros above where `out` is wider.

    >>> codes = np.empty(2, np.uint8)
    >>> move(np.array([1 << 24, 7 << 24], np.uint32), codes)
    >>> codes
    array([1, 7], dtype=uint8)
    """
    loop: Callable[[Array, Array], Any] = (
        _upper_bytes if (source.itemsize, out.itemsize) == (4, 1) else _low_bits
    )
    share(lambda start, stop: loop(source[start:stop], out[start:stop]) or 0, source.size)


@jit
def _upper_bytes(source: Array, out: Array) -> None:
    for place in range(source.size):
        out[place] = source[place] >> np.uint32(24)


@jit
def _low_bits(source: Array, out: Array) -> None:
    for place in range(source.size):
        out[place] = source[place]
