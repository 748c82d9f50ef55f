"""The yardstick: loops that move as many bytes as a conversion does, and do nothing to them.

No conversion can be faster than its stream for long. The ratio of the two says how much of what
the machine allows a kernel uses, whichever machine it is and however busy.

Floor 2b.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.kernels.jit import jit

__all__ = ["stream"]

Array = npt.NDArray[Any]


def stream(source: Array, out: Array) -> Callable[[Array, Array], None]:
    """The loop from an array of words to another of as many: (source, out) -> None.

    >>> words, codes = np.array([1 << 24, 7 << 24], np.uint32), np.empty(2, np.uint8)
    >>> stream(words, codes)(words, codes)
    >>> codes
    array([1, 7], dtype=uint8)

    Parameters
    ----------
    source, out : array of unsigned integers, shape (n,)
        Only their types matter.

    Returns
    -------
    loop : function
        Of words into bytes the upper byte is kept, which compiles to fewer instructions than the
        lower one; of everything else the low bits, with zeros above where `out` is wider.
    """
    return _upper_bytes if (source.itemsize, out.itemsize) == (4, 1) else _low_bits


@jit
def _upper_bytes(source: Array, out: Array) -> None:
    for place in range(source.size):
        out[place] = source[place] >> np.uint32(24)


@jit
def _low_bits(source: Array, out: Array) -> None:
    for place in range(source.size):
        out[place] = source[place]
