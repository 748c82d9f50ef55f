"""The scale with the least squared error: a search that knows how far below measured errors others can lie.

Values are sorted, so those that share a result are a range, and sums of the values from each place on give
the error of any scale from the places of the limits between results. Where every value takes the nearest
result, the error is

    E(s) = C - D(s),    D(s) = sum of max over results r of (2 x r s - r**2 s**2),    C = sum of x**2

and D(s) / s**2 is convex in 1/s, as a sum of largest linear functions. So between two scales D lies below the
parabola a s**2 + b s through both ends, and E above C less its largest value: intervals whose bound is no
better than what is known are left, others are halved.

Floor 2b.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lowprec.kernels.jit import helper, inlined, jit

__all__ = ["GRID", "NEGLIGIBLE", "TOLERANCE", "find_scales"]

Doubles = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]

#: Of the least error: how much larger that of the scale found may be.
TOLERANCE = math.ldexp(1.0, -9)

#: Of the sum of squared values: what such a difference may be in any case.
NEGLIGIBLE = math.ldexp(1.0, -40)

#: Scales a binade that are tried where results are not the nearest, and no bound is known.
GRID = 256

#: More than all halvings: of at most 300 binades, and then of 2**23 scales.
_DEPTH = 64

#: Values of a row from which on the sums of every eighth place are kept: their memory is what takes time.
_LONG = 1 << 16

_SMALLEST, _LARGEST = math.ldexp(1.0, -149), float(np.finfo(np.float32).max)


class Sorted(NamedTuple):
    """Ascending values, and the results that they become."""

    values: npt.NDArray[Any]
    size: int  #: how many of them count
    tails: Doubles  #: sums of the values from places on
    shift: int  #: 3 where that is every eighth place, 0 where it is every one
    square: float  #: the sum of their squares
    results: Doubles
    limits: Doubles  #: quotients from which on values become the second and later results


@inlined
def first_from(values: npt.NDArray[Any], least: float, low: int, high: int) -> int:
    """Return the first place from low to high whose value is `least` or above; high if there is none."""
    count = high - low
    while count > 0:
        half = (count + 1) >> 1
        low += half * (values[low + half - 1] < least)  # without a branch, which could not be foretold
        count -= half
    return low


@inlined
def sums_at(data: Sorted, place: int, k: int) -> tuple[float, float]:
    """Return what the limit after result k adds to the sums of x q and of q q if it lies at a place."""
    low, high = data.results[k], data.results[k + 1]
    kept = (place + (1 << data.shift) - 1) >> data.shift
    tail = data.tails[kept]
    for i in range(place, min(kept << data.shift, data.size)):
        tail += data.values[i]
    return (high - low) * tail, (high * high - low * low) * (data.size - place)


@helper
def measured(data: Sorted, scale: float) -> tuple[float, float]:
    """Return the error of a scale, and the scale that would be best if every value kept its result."""
    count, place = data.size, 0
    cross, own = data.results[0] * data.tails[0], data.results[0] * data.results[0] * count
    for k in range(data.limits.size):
        least, stride = scale * data.limits[k], 1
        while place + stride < count and data.values[place + stride - 1] < least:
            place += stride
            stride += stride
        place = first_from(data.values, least, place, min(count, place + stride))
        if place == count:
            break
        more, squares = sums_at(data, place, k)
        cross += more
        own += squares
    return error_of(data, scale, cross, own), np.float64(np.float32(cross / own)) if own > 0.0 else 0.0


@helper
def error_of(data: Sorted, scale: float, cross: float, own: float) -> float:
    """Return the squared error of a scale from the sums of x q and of q q."""
    return max(0.0, data.square - scale * (2.0 * cross - scale * own))


@helper
def bound_between(square: float, a: float, at_a: float, b: float, at_b: float) -> float:
    """Return what the errors of scales from a to b are no smaller than, from those of both ends."""
    curve = ((square - at_b) / b - (square - at_a) / a) / (b - a)
    most = square - min(at_a, at_b)
    if curve < 0.0:
        top = (a - (square - at_a) / (a * curve)) / 2.0
        if a < top < b:
            most = max(most, top * ((square - at_a) / a + curve * (top - a)))
    return square - most


@helper
def clipped(data: Sorted, scale: float) -> float:
    """Return the squared errors of what lies beyond all results: no smaller scale has smaller ones.

    Results that are all positive come nearer to zero: values below them do not count.
    """
    error, count = 0.0, data.size
    least, most = scale * data.results[0], scale * data.results[-1]
    for i in range(count):
        if data.values[i] >= least or least > 0.0:
            break
        error += (data.values[i] - least) ** 2
    for i in range(count - 1, -1, -1):
        if data.values[i] <= most:
            break
        error += (data.values[i] - most) ** 2
    return error


@helper
def tried(data: Sorted, usual: float, floor: float, steps: int, top: float) -> tuple[float, float, float]:
    """Return the best of so many scales a binade, its error, and where they end: clipping alone is worse."""
    best, (least, _) = usual, measured(data, usual)
    if least <= NEGLIGIBLE * data.square:
        return best, least, top
    scale, place = top, 0
    while scale > 0.0 and scale >= floor:
        if place % steps == 0 and clipped(data, scale) > least:
            break
        error, _ = measured(data, scale)
        if error < least:
            least, best = error, scale
        place += 1
        scale = np.float64(np.float32(top * 2.0 ** (-place / steps)))
    return best, least, scale


@helper
def settled(data: Sorted, best: float, least: float, low: float, high: float) -> tuple[float, float]:
    """Return the best scale for the results of the best scale, a few times if that helps, and its error."""
    _, other = measured(data, best)
    for _ in range(4):
        if not low <= other <= high:
            break
        error, following = measured(data, other)
        if error >= least:
            break
        least, best, other = error, other, following
    return best, least


@helper
def searched(
    data: Sorted, best: float, least: float, low: float, high: float, places: Places, moving: Places
) -> float:
    """Return a scale whose error is nearly the least of all from low to high.

    Intervals are taken from the lowest up, each from a to the last of the ends that wait. Limits that have
    one place at both ends have it in between: their sums are kept, and only the others, which move, are
    looked for.

    `places` and `moving` are memory for places and numbers of limits, a row for each end.
    """
    rows, ends, errors = np.arange(_DEPTH), np.empty(_DEPTH), np.empty(_DEPTH)
    counts, crosses, owns = np.empty(_DEPTH, np.int64), np.empty(_DEPTH), np.empty(_DEPTH)
    count = data.size
    for row, scale in enumerate((low, high)):
        for k in range(data.limits.size):
            places[row, k] = first_from(data.values, scale * data.limits[k], 0, count)
            moving[1, k] = k
        ends[row] = scale
        errors[row], _ = measured(data, scale)
    if errors[0] < least:
        best, least = low, errors[0]
    counts[1] = data.limits.size
    crosses[1], owns[1] = data.results[0] * data.tails[0], data.results[0] ** 2 * count
    a, at_a, n = ends[0], errors[0], 1
    while n > 0:
        b, at_b = ends[n], errors[n]
        middle = np.float64(np.float32((a + b) / 2.0 if b <= 2.0 * a else math.sqrt(a) * math.sqrt(b)))
        wanted = least - max(TOLERANCE * least, NEGLIGIBLE * data.square)
        if not a < middle < b or bound_between(data.square, a, at_a, b, at_b) >= wanted:
            a, at_a, rows[0], rows[n] = b, at_b, rows[n], rows[0]
            n -= 1
            continue
        at, left, right = rows[n + 1], rows[0], rows[n]
        kept = m = 0
        cross = own = fixed_cross = fixed_own = left_cross = left_own = 0.0
        for j in range(counts[n]):  # without branches, which could not be foretold
            k = moving[n, j]
            one, other = places[left, k], places[right, k]
            place = first_from(data.values, middle * data.limits[k], min(one, other), max(one, other))
            places[at, k] = place
            more, squares = sums_at(data, place, k)
            cross += more
            own += squares
            fixed_cross += more * (one == other)
            fixed_own += squares * (one == other)
            left_cross += more * (one == place)
            left_own += squares * (one == place)
            moving[n, kept] = moving[n + 1, m] = k
            kept += one != other
            m += one != place
        cross, own = crosses[n] + cross, owns[n] + own
        crosses[n + 1], owns[n + 1] = crosses[n] + left_cross, owns[n] + left_own
        crosses[n], owns[n] = crosses[n] + fixed_cross, owns[n] + fixed_own
        counts[n], counts[n + 1] = kept, m
        ends[n + 1], errors[n + 1] = middle, error_of(data, middle, cross, own)
        n += 1
        if errors[n] < least:
            best, least = settled(data, middle, errors[n], low, high)
    return best


@helper
def find_scale(
    data: Sorted, usual: float, floor: float, powers: bool, nearest: bool, places: Places, moving: Places
) -> float:
    """Return the scale of one row; see `find_scales`."""
    steps = 1 if powers else 8 if nearest else GRID
    top = usual if powers else np.float64(np.float32(min(2.0 * usual, _LARGEST)))
    best, least, bottom = tried(data, usual, floor, steps, top)
    if powers or not nearest or bottom == top:
        return best
    low = max(floor, bottom, _SMALLEST)
    best, least = settled(data, best, least, low, top)
    return searched(data, best, least, low, top, places, moving)


@jit
def find_scales(
    rows: npt.NDArray[Any], counts: Places, results: Doubles, limits: Doubles, usual: npt.NDArray[np.float32],
    floors: npt.NDArray[np.float32], powers: bool, nearest: bool, out: npt.NDArray[np.float32],
) -> None:  # fmt: skip
    """Write the scale with the least sum of squared errors of each row, or one that is nearly as good.

    The usual scale remains unless another is better. Others are those from `floors` up to twice the usual
    one; with `powers` the usual one over powers of two.

    Parameters
    ----------
    rows : array of float32 or float64, shape (rows, n)
        Ascending.
    counts : array of int64, shape (rows,)
        How many values of each row count.
    results, limits : arrays of float64, shapes (results,), (results - 1,)
        The results, ascending, and the least quotients of value and scale that become the second and later
        ones: each has at most 25 significant bits, so that its product with a scale is exact.
    usual, floors : arrays of float32, shape (rows,)
    nearest : bool
        Whether every quotient becomes the nearest result; then the error is at most 1 + TOLERANCE times that
        of any of the scales, or larger by at most NEGLIGIBLE times the sum of squared values. Where it does
        not, `GRID` scales a binade are tried.
    out : array of float32, shape (rows,)
    """
    places = np.empty((_DEPTH, limits.size), np.int64)
    moving = np.empty((_DEPTH, limits.size), np.int64)
    shift = 0 if rows.shape[1] <= _LONG else 3
    step = 1 << shift
    tails = np.empty(rows.shape[1] // step + 2)
    for row in range(len(rows)):
        count, values = counts[row], rows[row]
        tails[(count + step - 1) // step] = total = square = 0.0
        for i in range(count - 1, -1, -1):
            x = np.float64(values[i])
            total += x
            square += x * x
            if i % step == 0:
                tails[i // step] = total
        data = Sorted(values, count, tails, shift, square, results, limits)
        found = find_scale(
            data, np.float64(usual[row]), np.float64(floors[row]), powers, nearest, places, moving
        )
        out[row] = np.float32(found)
