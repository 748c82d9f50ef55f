"""Counts and sums of errors in one pass, with the bits of NumPy's sums.

`numpy.add.reduce` adds the halves of an array, each a multiple of 8 terms but for the last, and so on down to
128 terms; those it adds in eight sums of every eighth. `numpy.add.reduceat` adds the first term to what so
many others give.

Floor 2b.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.kernels.jit import helper, jit

__all__ = ["LONGEST", "TOTALS", "measure", "measure_runs"]

Doubles = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

#: What `measure` counts and adds up: values, finite ones, those whose result is finite too, those that are
#: not zero, clipped and flushed ones; squares, squared errors, errors, and the largest magnitude of one.
TOTALS = 10

#: Terms that NumPy adds without halving them.
_LEAF = 128

#: Values of the longest run that `measure_runs` takes.
LONGEST = _LEAF + 1

_MAGNITUDE = np.int64(0x7FFFFFFFFFFFFFFF)


@helper
def leaf_sum(terms: Doubles, start: int, count: int) -> float:
    """Return the sum of `count` terms, at most 128, as NumPy adds them."""
    past, total = start + count - count % 8, 0.0
    if past > start:
        a, b, c, d = terms[start], terms[start + 1], terms[start + 2], terms[start + 3]
        e, f, g, h = terms[start + 4], terms[start + 5], terms[start + 6], terms[start + 7]
        for i in range(start + 8, past, 8):
            a, b, c, d = a + terms[i], b + terms[i + 1], c + terms[i + 2], d + terms[i + 3]
            e, f, g, h = e + terms[i + 4], f + terms[i + 5], g + terms[i + 6], h + terms[i + 7]
        total = ((a + b) + (c + d)) + ((e + f) + (g + h))
    for i in range(past, start + count):
        total += terms[i]
    return total


@helper
def compare(
    values: npt.NDArray[Any], results: npt.NDArray[Any], units: Doubles, square: Doubles, noise: Doubles,
    error: Doubles,
) -> None:  # fmt: skip
    """Write squared values, squared errors and errors; 0 where the value or the result is not finite."""
    for i in range(values.size):
        x, result = np.float64(values[i]), np.float64(results[i]) * units[i]
        both = (x - x == 0.0) & (result - result == 0.0)
        wrong = result - x if both else 0.0
        error[i], noise[i], square[i] = wrong, wrong * wrong, x * x if both else 0.0


@jit
def measure(
    values: npt.NDArray[Any], results: npt.NDArray[Any], units: Doubles, low: float, high: float,
    totals: Doubles,
) -> None:  # fmt: skip
    """Write the totals of values and their results.

    Parameters
    ----------
    values, results : arrays of float32 or float64, shape (n,)
    units : array of float64, shape (runs,)
        What results are times, in binary64, for each run of n / runs values.
    low, high : float
        Values beyond these times the unit are clipped.
    totals : array of float64, shape (TOTALS,)
    """
    square, error, noise, unit = np.empty(_LEAF), np.empty(_LEAF), np.empty(_LEAF), np.empty(_LEAF)
    bits = error.view(np.int64)
    # Halves that wait: how many terms, or 0 where the last two sums are to be added; and the sums.
    waiting, sums = np.empty(128, np.int64), np.empty((128, 3))
    waiting[0], waits, done, first = values.size, 1, 0, 0
    finite = counts = nonzero = clipped = flushed = most = np.int64(0)
    run = values.size // units.size
    index, left = -1, 0
    if units.size == 1:
        unit[:] = units[0]
    while waits:
        waits -= 1
        count = waiting[waits]
        if count == 0:
            done -= 1
            for k in range(3):
                sums[done - 1, k] += sums[done, k]
            continue
        if count > _LEAF:
            half = count // 2
            half -= half % 8
            waiting[waits], waiting[waits + 1], waiting[waits + 2] = 0, count - half, half
            waits += 3
            continue
        place = 0
        while place < count and units.size > 1:
            if left == 0:
                index, left = index + 1, run
            take = min(left, count - place)
            unit[place : place + take] = units[index]
            place, left = place + take, left - take
        some, theirs = values[first : first + count], results[first : first + count]
        compare(some, theirs, unit, square, noise, error)
        for i in range(count):
            most = max(most, bits[i] & _MAGNITUDE)
        for i in range(count):
            x, result = np.float64(some[i]), np.float64(theirs[i]) * unit[i]
            there, other = np.int64(x - x == 0.0), np.int64(x != 0.0)
            finite += there
            counts += there & np.int64(result - result == 0.0)
            nonzero += there & other
            flushed += there & other & np.int64(result == 0.0)
            clipped += there & (np.int64(x < low * unit[i]) | np.int64(x > high * unit[i]))
        sums[done, 0], sums[done, 1] = leaf_sum(square, 0, count), leaf_sum(noise, 0, count)
        sums[done, 2] = leaf_sum(error, 0, count)
        done, first = done + 1, first + count
    totals[0], totals[1], totals[2], totals[3] = values.size, finite, counts, nonzero
    totals[4], totals[5] = clipped, flushed
    totals[6], totals[7], totals[8] = sums[0, 0], sums[0, 1], sums[0, 2]
    bits[0] = most
    totals[9] = error[0]


@jit
def measure_runs(
    values: npt.NDArray[Any], results: npt.NDArray[Any], units: Doubles, low: float, high: float,
    squares: Doubles, noises: Doubles, known: Bools, clipped: Bools,
) -> None:  # fmt: skip
    """Write of each run the sums of squares and squared errors, and whether any value counts, and is clipped.

    Parameters are those of `measure`; runs are of at most `LONGEST` values.
    """
    square, noise, error, unit = np.empty(LONGEST), np.empty(LONGEST), np.empty(LONGEST), np.empty(LONGEST)
    count = values.size // units.size
    for run in range(units.size):
        unit[:] = units[run]
        some, theirs = values[run * count : (run + 1) * count], results[run * count : (run + 1) * count]
        compare(some, theirs, unit, square, noise, error)
        squares[run] = square[0] + leaf_sum(square, 1, count - 1)
        noises[run] = noise[0] + leaf_sum(noise, 1, count - 1)
        least, most, any_known, any_clipped = low * units[run], high * units[run], np.int64(0), np.int64(0)
        for i in range(count):
            x, result = np.float64(some[i]), np.float64(theirs[i]) * units[run]
            there = np.int64(x - x == 0.0)
            any_known |= there & np.int64(result - result == 0.0)
            any_clipped |= there & (np.int64(x < least) | np.int64(x > most))
        known[run], clipped[run] = any_known != 0, any_clipped != 0
