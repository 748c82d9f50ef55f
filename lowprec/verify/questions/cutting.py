"""Values as a rounder sees them that loses its sticky bit: cut off some bits behind the guard bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.spec.format import Format

__all__ = ["cut_behind_guard", "guard_words"]


def cut_behind_guard(values: npt.ArrayLike, fmt: Format, bits: int) -> npt.NDArray[np.float64]:
    """Return values cut toward zero so many bits behind the guard bit, which follows a format's last place.

    >>> from lowprec.spec.catalog import E4M3FN
    >>> [cut_behind_guard([1.0625 + 2.0**-9], E4M3FN, bits).tolist() for bits in (0, 4, 5)]
    [[1.0625], [1.0625], [1.064453125]]
    """
    numbers = np.asarray(values, np.float64)
    finite = np.isfinite(numbers)
    held: npt.NDArray[Any] = np.where(finite, numbers, 0)
    exponent = np.maximum(np.frexp(held)[1] - 1, fmt.emin)
    last = exponent - fmt.trailing_bits - 1 - bits
    with np.errstate(all="ignore"):  # numbers may lie far below the format's
        return np.where(finite, np.ldexp(np.trunc(np.ldexp(held, -last)), last), numbers)


def guard_words(bits: int) -> str:
    """Return in words what such a rounder sees."""
    behind = f" and {bits} bit{'s' * (bits > 1)} behind it" if bits else ""
    return f"sticky bit lost: rounded by the guard bit{behind} alone"
