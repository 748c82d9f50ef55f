"""The smallest scale that clips nothing, and that with the least sum of squared errors, for `scale_for`.

What a format's results are, and from which quotient on a value becomes each, is asked of `quantize`. Where
there are few, `kernels.scales` searches all scales; else some are tried.

Floor 3.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lowprec.arrays.arith import divide
from lowprec.arrays.checks import Array
from lowprec.arrays.convert import decode, quantize
from lowprec.arrays.progress import Step
from lowprec.arrays.threads import share_rows
from lowprec.arrays.traverse import tiles
from lowprec.kernels.modes import usual_arithmetic
from lowprec.kernels.scales import find_scales
from lowprec.kernels.sorting import sort_rows
from lowprec.spec import catalog
from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Format, Sign, exact_float
from lowprec.spec.projection import Projection
from lowprec.spec.rounding import NEAREST_EVEN, TOWARD_POSITIVE

__all__ = ["PART", "is_lopsided", "least_errors", "narrowed", "only_finite", "smallest_scales"]

Doubles = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]

#: Values that are worked on at a time.
PART = 1 << 18

#: Values whose rows are sorted at a time, but for a longer row.
_SORTED = 1 << 22
#: And where someone is told of each.
_REPORTED = 1 << 18

#: What the largest scale is multiplied by where scales are tried, largest first: eight steps a binade, six
#: binades down.
_FACTORS = np.array([math.ldexp(m, -4 - k) for k in range(6) for m in range(16, 8, -1)] + [1 / 64])

#: Of the distance of two results: how far from their middle one may become the other. What lies in between
#: has a squared error larger by nine times that at most, relatively, than the nearest result, which is what
#: the search counts; so the error of what it finds is larger by so much at most than it believes.
_NEARLY = math.ldexp(1.0, -16)

#: The powers of two that float32 has, and infinity.
_POWERS = Format(
    name="powers of two",
    exponent_bits=9,
    trailing_bits=0,
    bias=149,
    sign=Sign.UNSIGNED,
    nans=234,
    infinity=True,
    subnormals=False,
)

_SMALLEST = exact_float(1, -149)
_LARGEST = np.finfo(np.float32).max
_LARGEST_POWER = exact_float(1, 127)


def is_lopsided(fmt: Format) -> bool:
    """Return whether a codebook reaches less far below zero than above it."""
    return isinstance(fmt, Codebook) and 0 < -fmt.min_finite < fmt.max_finite


def smallest_scales(amax: Doubles, limit: float, power_of_two: bool) -> Singles:
    """Return least float32 scales s with amax <= s * limit; 1 for amax 0, inf if there is none."""
    target = _POWERS if power_of_two else catalog.BINARY32
    scales = divide(amax, limit, target, rounding=TOWARD_POSITIVE, dtype=np.float32)
    return np.where(amax == 0, np.float32(1), scales)


def least_errors(
    rows: Array, fmt: Format, how: Projection, usual: Singles, powers: bool, step: Step
) -> Singles:
    """Return the scale of each row with the least sum of squared errors, or one that is nearly as good.

    Parameters
    ----------
    rows : array of a type that `values_operand` gives, shape (rows, n)
    usual : array of float32, shape (rows,)
        The smallest scales that clip nothing. They remain where no other is better.
    powers : bool
        Whether to try the usual scale over powers of two only.
    step : callable, optional
        Told how many more values are done.
    """
    if how.rounding.bits:
        how = dataclasses.replace(how, rounding=NEAREST_EVEN)
    steps = _steps(fmt, how)
    if isinstance(fmt, Codebook):
        return _of_codebook(rows, fmt, how, usual, steps, powers, step)
    if steps is None:
        factors = _FACTORS[::8] if powers else _FACTORS
        return _tried(rows, fmt, how, _times(usual, factors[:, None]), step)
    found, together = np.empty_like(usual), _REPORTED if step else _SORTED
    for (part,) in tiles(usual.shape, (1,), max(1, together // max(1, rows.shape[1]))):
        found[part] = _searched(rows[part], steps, usual[part], powers)
        if step:
            step(rows[part].size)
    return found


class _Steps(NamedTuple):
    """A format's results, ascending, and where one becomes the next."""

    grid: Doubles
    limits: Doubles  #: the least quotients, rounded, that become the second and later results
    ends: tuple[float, float]  #: quotients from which on results are not finite, or infinities
    nearest: bool  #: whether limits are middles, or so near to them that it does not matter
    odd: bool  #: whether a sign changes nothing else: then grid and limits are of magnitudes


@functools.lru_cache(maxsize=256)
def _steps(fmt: Format, how: Projection) -> _Steps | None:
    """Return results and limits of a format of at most 8 bits with finite results; None for any other."""
    if fmt.width > 8 or not catalog.BINARY32.contains(fmt):
        return None
    try:
        return _asked(fmt, how)
    except ValueError:  # some quotients are refused
        return None


def _asked(fmt: Format, how: Projection) -> _Steps | None:
    grid = _results(_finite_only(decode(np.arange(1 << fmt.width), fmt)), fmt, how)
    grid = np.unique(_finite_only(grid))
    limits, after = _first_of(grid[:-1], grid[1:], fmt, how)
    tiny = [-_SMALLEST, 0.0, _SMALLEST] if grid[0] < 0 else [0.0, _SMALLEST]
    if not np.isfinite(_results(np.concatenate([tiny, limits, after]), fmt, how)).all():
        return None
    middles, exact = (grid[:-1].astype(np.float64) + grid[1:]) / 2, grid.astype(np.float64)
    slack = _NEARLY * (exact[1:] - exact[:-1])
    nearest = bool(((after <= middles + slack) & (middles - slack <= limits)).all())
    borders = (limits.astype(np.float64) + after) / 2
    ends = _end(-exact[0], -1, fmt, how) if grid[0] < 0 else -math.inf, _end(exact[-1], 1, fmt, how)
    odd = nearest and ends[0] == -ends[1] and np.array_equal(grid, -grid[::-1])
    kept = slice(int(np.count_nonzero(grid < 0)) if odd else 0, None)
    return _Steps(exact[kept], borders[kept], ends, nearest, odd)


def _results(values: Array, fmt: Format, how: Projection) -> Singles:
    return np.asarray(quantize(np.asarray(values, np.float32), fmt, projection=how))


def _finite_only(values: Array) -> Array:
    return values[np.isfinite(values)]


def _first_of(low: Singles, high: Singles, fmt: Format, how: Projection) -> tuple[Singles, Singles]:
    """Return the least numbers from low to high that become high, by bisection; and those before them."""
    below, above = (_places(np.asarray(side)) for side in (low, high))
    while (above - below > 1).any():
        middle = (below + above) >> 1
        up = _results(_numbers(middle), fmt, how) >= high
        below, above = np.where(up, below, middle), np.where(up, middle, above)
    return _numbers(above), _numbers(below)


def _end(largest: float, sign: int, fmt: Format, how: Projection) -> float:
    """Return the magnitude, with its sign, from which on results are infinities or NaN."""
    if np.isfinite(_results(np.array([sign * _LARGEST]), fmt, how)).all():
        return sign * math.inf
    below, above = (int(_places(np.array([each], np.float32))[0]) for each in (largest, _LARGEST))
    while above - below > 1:
        middle = (below + above) // 2
        known = np.isfinite(_results(sign * _numbers(np.array([middle])), fmt, how)).all()
        below, above = (middle, above) if known else (below, middle)
    first, last = _numbers(np.array([above, below])).astype(np.float64)
    return sign * float(first + last) / 2


def _places(numbers: Singles) -> npt.NDArray[np.int64]:
    """Integers that ascend as float32 numbers do."""
    bits = numbers.view(np.int32).astype(np.int64)
    return np.where(bits < 0, -(bits & 0x7FFFFFFF), bits)


def _numbers(places: npt.NDArray[np.int64]) -> Singles:
    bits = np.where(places < 0, -places | 0x80000000, places)
    return bits.astype(np.uint32).view(np.float32)


def _searched(
    rows: Array, steps: _Steps, usual: Singles, powers: bool, least: Singles | float = 0
) -> Singles:
    """Return the best scales of some rows, of all up to twice the usual ones and from the least ones on."""
    part, known = only_finite(rows)
    if steps.odd:
        np.abs(part, out=part)
    if not known.all():
        part[~known] = np.nan  # sorted, NaNs come last
    sort_rows(part)
    counts = np.count_nonzero(known, axis=1)
    floors = np.zeros_like(usual) + np.float32(least)
    for place, end in zip((0, counts - 1), steps.ends, strict=True):
        if math.isfinite(end) and part.shape[1]:
            extreme = part[np.arange(len(part)), np.maximum(place, 0)].astype(np.float64)
            most = np.where(counts > 0, extreme, 0) / end
            near = most.astype(np.float32)
            above = np.where(near > most, near, np.nextafter(near, np.float32(np.inf)))
            floors = np.maximum(floors, above)
    found = np.empty_like(usual)

    @usual_arithmetic()  # for a thread may have other modes than ours
    def search(start: int, stop: int) -> int:
        some = slice(start, stop)
        find_scales(
            np.ascontiguousarray(part[some]), counts[some], steps.grid, steps.limits, usual[some],
            floors[some], powers, steps.nearest, found[some],
        )  # fmt: skip
        return 0

    share_rows(search, len(part), 64 * part.shape[1])
    return found


def _of_codebook(
    rows: Array,
    fmt: Codebook,
    how: Projection,
    usual: Singles,
    steps: _Steps | None,
    powers: bool,
    step: Step,
) -> Singles:
    """Return the best scales found: many codebooks have their finest steps far below their largest value.

    Every fourth binade is tried from the usual scale to that of which only the smallest value is left, then
    those around the best, and around the best of these all scales, or 32nds of it.
    """
    smallest = min(abs(value) for value in fmt.values if value and math.isfinite(value))
    span = math.frexp(max(fmt.max_finite, -fmt.min_finite) / smallest)[1]
    best = usual
    for binades in (np.arange(-4, span + 4, 4), np.arange(-3, 4)):
        best = _tried(rows, fmt, how, _times(best, np.ldexp(1.0, binades)[:, None]), None)
    if steps is None and not powers:
        best = _tried(rows, fmt, how, _times(best, np.arange(8, 65)[:, None] / 32), None)
    elif steps is not None and not powers:
        other = np.empty_like(best)
        for (part,) in tiles(usual.shape, (1,), max(1, _SORTED // max(1, rows.shape[1]))):
            other[part] = _searched(rows[part], steps, best[part], False, best[part] / np.float32(4))
        best = _tried(rows, fmt, how, np.stack([best, other]), None)
    return _tried(rows, fmt, how, np.stack([usual, best]), step)


def _times(usual: Singles, factors: Doubles) -> Singles:
    """Usual scales, and behind them those times the factors."""
    trials = np.clip(usual.astype(np.float64) * factors, _SMALLEST, _LARGEST_POWER)
    return np.concatenate([usual[None], trials]).astype(np.float32)


def _tried(rows: Array, fmt: Format, how: Projection, trials: Singles, step: Step) -> Singles:
    """Return each row's first trial with the least sum of squared errors; trials has shape (trials, rows)."""
    errors = np.zeros(trials.shape)
    for tile in tiles(rows.shape, (1, 1), PART):
        part, known = only_finite(rows[tile])
        for trial, sums in zip(trials[:, tile[0], None], errors[:, tile[0]], strict=True):
            error = part - quantize(part / trial, fmt, projection=how).astype(np.float64) * trial
            error *= error
            error[~known] = 0
            sums += error.sum(axis=1)
        if step:
            step(part.size)
    errors[~np.isfinite(errors)] = np.inf
    chosen: Singles = np.take_along_axis(trials, errors.argmin(axis=0)[None], axis=0)[0]
    return chosen


def narrowed(given: Array, away: bool = False) -> Array:
    """Return values in float32 if that holds their type, else in float64, to nearest or `away` from zero."""
    carrier = catalog.carrier(given.dtype)
    assert carrier is not None
    if away and given.dtype.kind in "iu" and given.dtype.itemsize == 8:
        sizes = np.abs(given).astype(np.uint64)
        high = np.ldexp((sizes >> np.uint64(32)).astype(np.float64), 32)
        low = (sizes & np.uint64(0xFFFFFFFF)).astype(np.float64)
        near = high + low
        return np.copysign(np.where(low > near - high, np.nextafter(near, np.inf), near), given)
    return given.astype(np.float32 if catalog.BINARY32.contains(carrier) else np.float64, copy=False)


def measured(given: Array) -> Array:
    """Return values as `narrowed`. Raises ValueError: integers that float64 does not hold."""
    if given.dtype.kind in "iu" and given.dtype.itemsize == 8:
        sizes = np.abs(given).astype(np.uint64)
        last = sizes & (~sizes + np.uint64(1))
        lost = given[(sizes >> np.uint64(53) >= last) & (sizes > 0)]
        if lost.size:
            raise ValueError(
                f"errors are measured in float64, which does not hold {lost.size:,} of the values, such as "
                f"{int(lost[0])}; give integers of at most 53 bits, or floats"
            )
    return narrowed(given)


def only_finite(given: Array, away: bool = False) -> tuple[Array, Array]:
    """Return a copy of values as `narrowed`, but 0 where not finite; and which are finite."""
    part = np.array(narrowed(given, away))
    known = np.isfinite(part)
    if not known.all():
        part[~known] = 0
    return part, known
