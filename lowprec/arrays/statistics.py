"""scale_for, error_report: the scale that values need, and what a format does to them.

Statistics are in float64, part by part; conversions are those of `convert`. Floor 3.

    amax      the largest magnitude among the finite values of a channel, or of the whole array
    result    what `quantize` makes of a value; with scale= that of value / scale, times scale
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.array_utils import normalize_axis_tuple

from lowprec.arrays import block, lazy, lazy_statistics
from lowprec.arrays.arith import divide
from lowprec.arrays.block_stream import axes_of, spread
from lowprec.arrays.checks import Array, projection as projection_of, values_operand
from lowprec.arrays.convert import decode, quantize
from lowprec.arrays.errors import ErrorReport, decibels, report_of
from lowprec.arrays.random import integers_of
from lowprec.arrays.traverse import tile_of, tiles
from lowprec.kernels.modes import usual_arithmetic
from lowprec.spec import catalog
from lowprec.spec.block import BlockFormat, ScaleRule
from lowprec.spec.format import Format, Sign, exact_float
from lowprec.spec.layouts import lanes
from lowprec.spec.profiles import Profile
from lowprec.spec.projection import Projection, Saturation
from lowprec.spec.rounding import TOWARD_POSITIVE, Rounding

__all__ = ["ErrorReport", "error_report", "scale_for"]

Doubles = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]

METHODS = ("max", "percentile", "mse")

#: Values that are worked on at a time.
_PART = 1 << 18
#: What "mse" multiplies the scale of "max" by, largest first: eight steps a binade, six binades down.
_FACTORS = np.array([math.ldexp(m, -4 - k) for k in range(6) for m in range(16, 8, -1)] + [1 / 64])

_SMALLEST = exact_float(1, -149)

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

#: For "mse", so that zeros count as what they must become where a format has no zero.
_TRIAL = Projection(saturation=Saturation.FINITE, zero="smallest")


@usual_arithmetic()
def scale_for(
    values: npt.ArrayLike,
    fmt: Format | str | npt.DTypeLike,
    method: str = "max",
    axis: int | Iterable[int] | None = None,
    *,
    percentile: float = 99.9,
    power_of_two: bool = False,
) -> Any:
    """Find scales s for which quantize(values / s, fmt, saturation="finite") * s is close to values.

    One scale for the whole array, or one for each channel. Scales are symmetric: zero stays zero,
    and of two's complement the most negative code is not needed.

    >>> import numpy as np
    >>> weights = np.array([[0.5, -1.0, 0.25], [10.0, 2.0, -127.0]], np.float32)
    >>> scale_for(weights, "int8", axis=0)
    array([[0.00787402],
           [1.        ]], dtype=float32)
    >>> scale_for(weights, "e4m3fn", power_of_two=True)
    np.float32(0.5)

    Parameters
    ----------
    values : array_like of float or integer, shape (...)
        NaNs and infinities take no part. Dask arrays, lazily; xarray objects, whose scales have the
        dimensions of channels alone.
    fmt : Format, str or dtype
        Integers and fixed point included. Block formats bring scales of their own.
    method : {"max", "percentile", "mse"}
        max: the smallest float32 s with amax <= s * fmt.max_finite, in exact arithmetic, so that
        nothing is clipped. percentile: the same of a percentile of the magnitudes instead of amax;
        of amax, where the percentile is 0. mse: of the scale of max times m/16 * 2**-k (m 16 to 9,
        k 0 to 5, and 2**-6), each rounded to float32, the one with the least sum of squared errors
        in float64; the largest of several.
    axis : int or tuple of int, optional
        The axes of the channels: those that keep a scale for each index, as `ch_axis` in PyTorch and
        `axis` in ONNX. axis=0 gives each row of a weight matrix (out, in) its own. By default there
        is one scale for everything.
    percentile : float, above 0 and up to 100
        For that method: linear interpolation in float64, as `numpy.percentile` does it.
    power_of_two : bool
        The smallest power of two that is no smaller. mse then tries it and the six below it.

    Returns
    -------
    scales : array of float32
        The shape of values with 1 for each axis that is not in `axis`, so that values / scales
        broadcasts; a float32 scalar if axis is None. 1 where all values are zero, or there are none.

    Raises
    ------
    ValueError
        A block format, a negative value and an unsigned format, or a scale that float32 does not hold.

    Source
    ------
    [FP8]: maxima for weights, the best of the three for activations.
    """
    if catalog.is_block(fmt):
        raise ValueError(
            f"{str(fmt)!r} is a block format, whose scales follow from the values of each block: "
            f"use lowprec.encode(values, {str(fmt)!r}, axis=...)"
        )
    target = catalog.format(fmt)
    if method not in METHODS:
        raise ValueError(f"unknown method {method!r} of a scale; use one of {', '.join(METHODS)}")
    if not 0 < percentile <= 100:
        raise ValueError(f"percentile={percentile!r} must lie above 0 and be 100 at most")
    if lazy.is_lazy(values):
        verb = functools.partial(scale_for, fmt=target, power_of_two=power_of_two)
        return lazy_statistics.scale_for(verb, _finite, values, method, axis, percentile)
    array = values_operand(values).array
    kept = sorted(normalize_axis_tuple(() if axis is None else axis, array.ndim))
    shape = tuple(length if place in kept else 1 for place, length in enumerate(array.shape))
    channels = math.prod(shape)
    rows = np.moveaxis(array, kept, range(len(kept))).reshape(channels, array.size // max(1, channels))
    amax = _largest(rows, target)
    if method == "percentile":
        amax = np.where((lower := _percentiles(rows, percentile)) > 0, lower, amax)
    scales = _smallest_scales(amax, target, power_of_two)
    if not np.isfinite(scales).all():
        raise ValueError(
            f"values up to {amax.max():.9g} need a scale for {target.name!r} that float32 does not hold; "
            f"divide them by a power of two first, or use a format with a larger range"
        )
    if method == "mse":
        scales = _least_errors(rows, target, scales, _FACTORS[::8] if power_of_two else _FACTORS)
    return scales[0] if axis is None else scales.reshape(shape)


@usual_arithmetic()
def error_report(
    values: npt.ArrayLike,
    fmt: Format | BlockFormat | str | npt.DTypeLike,
    axis: int | tuple[int, ...] | None = None,
    *,
    scale: npt.ArrayLike | None = None,
    rounding: Rounding | str | None = None,
    saturation: Saturation | str | None = None,
    projection: Projection | None = None,
    profile: Profile | str | None = None,
    random: npt.ArrayLike | None = None,
    rng: int | np.random.Generator | None = None,
    rule: ScaleRule | str | None = None,
    tensor_scale: float | None = None,
) -> ErrorReport:
    """Measure what a format or a block format does to values.

    >>> import numpy as np
    >>> values = np.linspace(-2, 7, 64, dtype=np.float32)
    >>> print(error_report(values, "mxfp4"))
    mxfp4: 64 values in 2 blocks
      SQNR           19.70 dB; of the worst block 19.49 dB
      mean square    0.1417
      largest error  1
      mean error     -0.07812
      clipped        10.9%, in 50.0% of blocks
      flushed        0.0% of non-zero values
      zeros          1.6%
    >>> round(error_report(values, "int8", scale=scale_for(values, "int8")).sqnr, 2)
    47.2

    Parameters
    ----------
    values : array_like of float or integer, shape (...)
    fmt : Format, BlockFormat, str or dtype
    axis, rule, tensor_scale
        Of block formats: as for `lowprec.encode`. axis is that of the blocks.
    scale : array_like of float32, optional
        Of formats of single values: what they are divided by first, and results multiplied by, such
        as `lowprec.scale_for` gives. Broadcasts with values. Quotients are float32, or float64
        where float32 does not hold the values' type; products are float64.
    rounding, saturation, projection, profile, random, rng
        As for `lowprec.quantize`: overflow gives infinities or NaNs by default, which count as lost.

    Returns
    -------
    report : ErrorReport
        Results of blocks are taken in float64. Of Dask arrays a `dask.delayed` value of one, with the
        same numbers.

    Raises
    ------
    ValueError
        Keywords that the format does not take, and what `lowprec.encode` refuses.
    """
    lazy.check(values)
    array: Any = values if lazy.is_lazy(values) else values_operand(values).array
    if catalog.is_block(fmt):
        if scale is not None:
            raise ValueError(
                f"scale= is for formats of single values, and {str(fmt)!r} has scales of its blocks"
            )
        whole = block.asked(fmt, rule, rounding, saturation, projection, profile)
        axes = axes_of(whole, axis, array.ndim)
        sizes = dict(zip(axes, whole.sizes, strict=True))
        units = [sizes.get(axis, 1) for axis in range(array.ndim)]
        units[-1] = math.lcm(units[-1], _together(whole.elements, whole.element))
        tile = tile_of(array.shape, tuple(units), _PART)
        measure = functools.partial(_of_blocks, fmt=whole, axes=axes, tile=tile)
        if lazy.is_lazy(values):
            asked = lazy_statistics.Asked(whole, axes, tensor_scale, random, rng, None)
            finish = functools.partial(report_of, whole.name)
            return lazy_statistics.of_blocks(measure, finish, array, asked, tile)  # type: ignore[no-any-return]
        sums = measure(array, tensor_scale=tensor_scale, random=random, rng=rng)
        return report_of(whole.name, sums.parts, sums.by_block, sums.clipped)
    for name, given in (("axis", axis), ("rule", rule), ("tensor_scale", tensor_scale)):
        if given is not None:
            raise ValueError(
                f"{name}= is for block formats, and {str(fmt)!r} is none; for scales of channels give "
                f"scale=lowprec.scale_for(values, {str(fmt)!r}, axis=...)"
            )
    target = catalog.format(fmt)
    how = projection_of(target, rounding, saturation, projection, profile)
    group = _together(how, target)
    tile = tile_of(array.shape, (1,) * (array.ndim - 1) + (group,) * (array.ndim > 0), _PART)
    measure = functools.partial(_of_singles, fmt=target, how=how, tile=tile)
    if lazy.is_lazy(values):
        divisors: Any = scale
        if not lazy.is_named(scale):
            divisors = np.broadcast_to(1.0, divisors.shape) if lazy.is_dask(scale) else scale
            _given_scales(divisors, array.shape)
        finish = functools.partial(report_of, target.name)
        return lazy_statistics.of_singles(measure, finish, array, scale, random, rng, tile, group)  # type: ignore[no-any-return]
    return report_of(target.name, measure(array, scale, random, rng).parts)


# -- scales ------------------------------------------------------------------------------------------


def _largest(rows: Array, fmt: Format) -> Doubles:
    """Each row's amax; 0 of a row without finite values."""
    amax, negative = np.zeros(rows.shape[0]), 0
    for tile in tiles(rows.shape, (1, 1), _PART):
        part, _ = _finite(rows[tile])
        negative += int(np.count_nonzero(part < 0))
        amax[tile[0]] = np.maximum(amax[tile[0]], np.abs(part).max(axis=1))
    if negative and fmt.sign is Sign.UNSIGNED:
        raise ValueError(
            f"{fmt.name!r} is unsigned, and {negative:,} of {rows.size:,} values are negative: subtract a "
            f"zero point first, or use a signed format"
        )
    return amax


def _percentiles(rows: Array, percentile: float) -> Doubles:
    """Of each row's finite magnitudes; 0 of a row without any."""
    found = np.zeros(rows.shape[0])
    for tile in tiles(rows.shape, (1, rows.shape[1]), _PART):
        part, finite = _finite(rows[tile])
        magnitudes = np.abs(part).astype(np.float64)
        whole = finite.all(axis=1)
        found[tile[0]][whole] = np.percentile(magnitudes[whole], percentile, axis=1)
        for row in np.flatnonzero(finite.any(axis=1) & ~whole):
            found[tile[0].start + row] = np.percentile(magnitudes[row][finite[row]], percentile)
    return found


def _smallest_scales(amax: Doubles, fmt: Format, power_of_two: bool) -> Singles:
    """The smallest float32 scales s with amax <= s * fmt.max_finite; 1 for amax 0, inf if there is none."""
    target = _POWERS if power_of_two else catalog.BINARY32
    scales = divide(amax, fmt.max_finite, target, rounding=TOWARD_POSITIVE, dtype=np.float32)
    return np.where(amax == 0, np.float32(1), scales)


def _least_errors(rows: Array, fmt: Format, scales: Singles, factors: Doubles) -> Singles:
    """Of the scales times the factors, the first with the least sum of squared errors, for each row."""
    trials = np.maximum(factors[:, None] * scales.astype(np.float64), _SMALLEST).astype(np.float32)
    errors = np.zeros(trials.shape)
    for tile in tiles(rows.shape, (1, 1), _PART):
        part, finite = _finite(rows[tile])
        for trial, sums in zip(trials[:, tile[0], None], errors[:, tile[0]], strict=True):
            error = part - quantize(part / trial, fmt, projection=_TRIAL).astype(np.float64) * trial
            error *= error
            error[~finite] = 0
            sums += error.sum(axis=1)
    chosen: Singles = np.take_along_axis(trials, errors.argmin(axis=0)[None], axis=0)[0]
    return chosen


# -- errors ------------------------------------------------------------------------------------------


class _Sums:
    """What parts add up to, kept part by part: they are added in their order, whoever measured them."""

    def __init__(self) -> None:
        self.parts: list[Doubles] = []
        self.by_block: Doubles | None = None  #: of blocks alone, as is the next
        self.clipped = 0  #: blocks with clipped values

    def add(self, part: Array, finite: Array, results: Doubles, low: Any, high: Any) -> tuple[Array, ...]:
        """A part, with zeros where values are not finite, and limits that broadcast with it.

        Returns squares, squared errors, what counts and what is clipped, for each value.
        """
        known = finite & np.isfinite(results)
        values, non_zero = part.astype(np.float64), part != 0
        clipped = (values < low) | (values > high)
        masks = (np.ones_like(finite), finite, known, non_zero, clipped, non_zero & (results == 0))
        counts = [np.count_nonzero(mask) for mask in masks]
        error = np.where(known, results - values, 0.0)
        signal, noise = np.where(known, values * values, 0.0), error * error
        sums = signal.sum(), noise.sum(), error.sum()
        self.parts.append(np.array([*counts, *sums, np.abs(error).max()]))
        return signal, noise, known, clipped


@usual_arithmetic()
def _of_singles(
    array: Array,
    scale: npt.ArrayLike | None,
    random: Any,
    rng: Any,
    *,
    fmt: Format,
    how: Projection,
    tile: tuple[int, ...],
) -> _Sums:
    """The sums of formats of single values, in parts of this shape."""
    low, high = _limits(fmt, how)
    sums, scales = _Sums(), _given_scales(scale, array.shape)
    integers = integers_of(how.rounding, fmt, array.shape, random, rng)
    for box in tiles(array.shape, tile, 1):
        given: Array = np.asarray(array[box])
        part, finite = _finite(given)
        unit = np.float64(1) if scales is None else scales[box].astype(np.float64)
        given = np.where(finite, given, np.zeros((), given.dtype)) if scales is None else part / scales[box]
        results = np.asarray(quantize(given, fmt, projection=how, **integers(box))).astype(np.float64)
        sums.add(part, finite, results * unit, low * unit, high * unit)
    return sums


def _given_scales(scale: npt.ArrayLike | None, shape: tuple[int, ...]) -> Array | None:
    """Scales as float32, one for each value; a view."""
    if scale is None:
        return None
    scales = np.asarray(scale, np.float32)
    if not (np.isfinite(scales) & (scales > 0)).all():
        raise ValueError("scales must be positive numbers that float32 holds; lowprec.scale_for gives such")
    try:
        return np.broadcast_to(scales, shape)
    except ValueError:
        raise ValueError(
            f"scale of shape {scales.shape} does not broadcast to values of shape {shape}"
        ) from None


@usual_arithmetic()
def _of_blocks(
    array: Array, fmt: BlockFormat, axes: tuple[int, ...], tile: tuple[int, ...], **options: Any
) -> _Sums:
    """The sums of values and the blocks that they become, in parts of this shape."""
    blocks = block.encode(array, fmt, axes, **options)
    sizes = dict(zip(axes, fmt.sizes, strict=True))
    low, high = _limits(fmt.element, fmt.elements)
    tensor = 1.0 if blocks.tensor_scale is None else float(blocks.tensor_scale)
    grids = [np.zeros(blocks.scales.shape) for _ in range(4)]
    sums = _Sums()
    for box in tiles(array.shape, tile, 1):
        piece = blocks[box]
        scales = np.asarray(decode(piece.scales, fmt.scale)).astype(np.float64) * tensor
        scales = spread(scales, piece.shape, axes, fmt.sizes)
        found = sums.add(*_finite(array[box]), piece.values(np.float64), low * scales, high * scales)
        units = [sizes.get(axis, 1) for axis in range(array.ndim)]
        place = tuple(
            slice(item.start // unit, -(-item.stop // unit)) for item, unit in zip(box, units, strict=True)
        )
        for grid, each in zip(grids, found, strict=True):
            total = each.astype(np.float64)
            for axis, size in sizes.items():
                total = np.add.reduceat(total, np.arange(0, total.shape[axis], size), axis=axis)
            grid[place] = total
    signal, noise, known, clipped = grids
    sums.by_block, sums.clipped = decibels(signal, noise, known), int(np.count_nonzero(clipped))
    return sums


def _together(how: Projection, fmt: Format) -> int:
    """How many elements along the last axis share a random word."""
    return lanes(how.rounding, fmt) if how.rounding.bits else 1


def _limits(fmt: Format, how: Projection) -> tuple[float, float]:
    """The most negative and the largest value that results may have."""
    symmetric = how.symmetric and fmt.sign is Sign.TWOS_COMPLEMENT
    return -fmt.max_finite if symmetric else min(0.0, fmt.min_finite), fmt.max_finite


def _finite(given: Array) -> tuple[Array, Array]:
    """Values in float32 if that holds their type, else float64, 0 where not finite; and which are finite."""
    carrier = catalog.carrier(given.dtype)
    assert carrier is not None
    part = given.astype(np.float32 if catalog.BINARY32.contains(carrier) else np.float64)
    finite = np.isfinite(part)
    part[~finite] = 0
    return part, finite
