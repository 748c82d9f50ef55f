"""Rows of binary32 numbers in ascending order, by their digits: each pass puts them in the order of 11 bits.

Of short rows NumPy's sort is as fast; of long ones it took four to five times as long on a Zen 4.

Floor 2b. Source: [KNUTH] volume 3, 5.2.5.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.kernels.jit import jit

__all__ = ["sort_rows"]

Words = npt.NDArray[np.uint32]

#: Values of a row from which on digits are faster.
_MANY = 1 << 11

_PASSES, _BITS = 3, 11
_DIGIT, _SHIFT = np.uint32((1 << _BITS) - 1), np.uint32(_BITS)
_SIGN = np.uint32(1 << 31)


def sort_rows(rows: npt.NDArray[Any]) -> None:
    """Sort rows in place; positive NaNs come last, and of zeros -0 first or where NumPy leaves it.

    >>> rows = np.float32([[3, -1, 2]])
    >>> sort_rows(rows)
    >>> rows
    array([[-1.,  2.,  3.]], dtype=float32)

    Parameters
    ----------
    rows : array of float32 or float64, shape (rows, n)
        NaNs are positive.
    """
    if rows.dtype == np.float32 and rows.shape[1] >= _MANY and rows.size and rows.flags.c_contiguous:
        words = rows.view(np.uint32)
        _sort(words, np.empty_like(words[0]))
    else:
        rows.sort(axis=1)


@jit
def _sort(rows: Words, room: Words) -> None:
    """Sort patterns of binary32 numbers; `room` is for one row."""
    places = np.empty((_PASSES, 1 << _BITS), np.int64)
    for row in range(rows.shape[0]):
        given, other = rows[row], room
        places[:] = 0
        for i in range(given.size):
            word = given[i]
            # Unsigned integers in the order of the numbers: negative ones are turned round, and come first.
            word = word ^ (_SIGN if word < _SIGN else np.uint32(0xFFFFFFFF))
            given[i] = word
            places[0, word & _DIGIT] += 1
            places[1, word >> _SHIFT & _DIGIT] += 1
            places[2, word >> _SHIFT >> _SHIFT] += 1
        for digit in range(_PASSES):
            place, total, shift = places[digit], np.int64(0), np.uint32(digit * _BITS)
            for i in range(place.size):
                count = place[i]
                place[i] = total
                total += count
            for i in range(given.size):
                word = given[i]
                part = word >> shift & _DIGIT
                other[place[part]] = word
                place[part] += 1
            given, other = other, given
        for i in range(given.size):
            word = given[i]
            rows[row, i] = word ^ (_SIGN if word >= _SIGN else np.uint32(0xFFFFFFFF))
