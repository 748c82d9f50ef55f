"""scale_for, error_report: the scale that values need, and what a format does to them.

Statistics are in float64, part by part; conversions are those of `convert`. Floor 3.

    amax      the largest magnitude among the finite values of a channel, or of the whole array
    result    what `quantize` makes of a value; with scale= that of value / scale, times scale
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays import lazy
from lowprec.arrays.blocks import block
from lowprec.arrays.blocks.block_products import spread
from lowprec.arrays.blocks.block_stream import axes_of
from lowprec.arrays.checks import Array, projection as projection_of, values_operand
from lowprec.arrays.convert import decode, quantize
from lowprec.arrays.kinds import check_labels, keeps_kind
from lowprec.arrays.measures import lazy_statistics
from lowprec.arrays.measures.errors import ErrorReport, decibels, report_of
from lowprec.arrays.measures.scale_search import (
    PART,
    is_lopsided,
    least_errors,
    measured,
    only_finite,
    smallest_scales,
)
from lowprec.arrays.progress import Progress, reporting
from lowprec.arrays.random import integers_of
from lowprec.arrays.result_signatures import ScaleFor
from lowprec.arrays.signatures import Returns
from lowprec.arrays.traverse import tile_of, tiles
from lowprec.kernels.codes import unlocked
from lowprec.kernels.errors import LONGEST, TOTALS, measure, measure_runs
from lowprec.kernels.modes import usual_arithmetic
from lowprec.spec import catalog
from lowprec.spec.block import BlockFormat, ScaleRule
from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Format, Sign
from lowprec.spec.layouts import lanes
from lowprec.spec.profiles import Profile
from lowprec.spec.projection import Projection, Saturation
from lowprec.spec.rounding import Rounding

__all__ = ["ErrorReport", "error_report", "scale_for"]

Doubles = npt.NDArray[np.float64]

METHODS = ("max", "percentile", "mse")

#: Values that are worked on at a time.
_PART = PART
#: And where that takes several arrays of each.
_FEW = 1 << 13


@Returns[ScaleFor]()
@keeps_kind(1)
@usual_arithmetic()
def scale_for(
    values: npt.ArrayLike,
    fmt: Format | str | npt.DTypeLike,
    method: str | None = None,
    axis: int | Iterable[int] | None = None,
    *,
    percentile: float = 99.9,
    power_of_two: bool = False,
    rounding: Rounding | str | None = None,
    saturation: Saturation | str | None = None,
    projection: Projection | None = None,
    profile: Profile | str | None = None,
    progress: Progress = None,
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
    method : {"max", "percentile", "mse"}, optional
        By default max; of codebooks that are coarsest at their largest value, as posits, takums and HiF8
        are, mse. max: the smallest float32 s with amax <= s * fmt.max_finite, in exact arithmetic, so that
        nothing is clipped; codebooks that reach less far below zero, such as "dynamic8", also hold the most
        negative value, s * fmt.min_finite or above. percentile: amax is a percentile of the magnitudes,
        unless that is 0. mse: the one with the least sum of squared errors; see Notes.
    axis : int or tuple of int, optional
        The axes of the channels: those that keep a scale for each index, as `ch_axis` in PyTorch and
        `axis` in ONNX. axis=0 gives each row of a weight matrix (out, in) its own. By default there
        is one scale for everything.
    percentile : float, above 0 and up to 100
        For that method: linear interpolation in float64, as `numpy.percentile` does it.
    power_of_two : bool
        The smallest power of two that is no smaller. mse then takes the best of it and those below.
    rounding, saturation, projection, profile
        Of mse: how values will be quantized, as for `lowprec.quantize`, but with saturation "finite" by
        default. Rounding at random counts as rounding to nearest. The other methods need none of them.
    progress : callable or True, optional
        Of mse: called with (done, total), in values of channels that are done; True shows a bar on stderr.

    Returns
    -------
    scales : array of float32
        The shape of values with 1 for each axis that is not in `axis`, so that values / scales
        broadcasts; a float32 scalar if axis is None. 1 where all values are zero, or there are none.

    Raises
    ------
    ValueError
        A block format, a negative value and an unsigned format, or a scale that float32 does not hold.

    Notes
    -----
    mse searches all float32 scales up to twice that of max: of those above, half is never worse to nearest,
    except for codebooks such as nf4, which lack halves of their values.
    Errors are those of ``quantize(values / s, fmt, ...) * s``, with the product exact, summed in float64;
    overflow that gives an infinity or NaN rules a scale out. The result is never worse than the scale of max,
    which remains where no other is better. A search takes 0.1 to 1 ms for each channel, and for long ones the
    time to sort them; values are copied.

    - Formats of at most 8 bits, rounded to nearest, or as near as 2**-16 of a step: the error is at most
      1 + 2**-9 times that of any scale searched (of near ones 2**-12 more; 0.01 dB in all), or beyond it by
      less than 2**-40 (120 dB) of the sum of squared values.
    - Other roundings into them: the best of 256 scales a binade.
    - Wider formats: the best of the scale of max times m/16 * 2**-k, m from 16 to 9, k from 0 to 5.
    - Powers of two: the best of all; into wider formats of the six below that of max.
    - Codebooks, whose finest steps may lie far below their largest value: the best of every fourth binade, of
      the binades around it, then, as above, from a quarter to twice that; of wider ones, and of those that
      binary32 does not hold, of 32nds of it.

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
    how = _trial(target, rounding, saturation, projection, profile)
    method = _usual_method(target) if method is None else method
    if method not in METHODS:
        raise ValueError(f"unknown method {method!r} of a scale; use one of {', '.join(METHODS)}")
    if not isinstance(power_of_two, (bool, np.bool_)):
        raise TypeError(f"power_of_two must be True or False, not {power_of_two!r}")
    if not isinstance(percentile, (int, float, np.integer, np.floating)):
        raise TypeError(f"percentile must be a number, not {percentile!r}")
    if not 0 < percentile <= 100:
        raise ValueError(f"percentile={percentile!r} must lie above 0 and be 100 at most")
    if lazy.is_lazy(values):
        lazy.refuse(values, progress=progress)
        verb = functools.partial(scale_for, fmt=target, power_of_two=power_of_two, projection=how)
        finite = functools.partial(only_finite, away=method == "max")
        whole = method == "max" and is_lopsided(target)
        return lazy_statistics.scale_for(verb, finite, values, method, axis, percentile, whole)
    array, power_of_two = values_operand(values).array, bool(power_of_two)
    if axis is None and method != "mse":  # sums of errors depend on the order
        array = array.ravel("K")
    kept = lazy_statistics.channels_of(axis, array.ndim)
    shape = tuple(length if place in kept else 1 for place, length in enumerate(array.shape))
    channels = math.prod(shape)
    rows = np.moveaxis(array, kept, range(len(kept))).reshape(channels, array.size // max(1, channels))
    amax = _largest(rows, target, method != "percentile")
    if method == "percentile":
        amax = np.where((lower := _percentiles(rows, percentile)) > 0, lower, amax)
    scales = smallest_scales(amax, target.max_finite, power_of_two)
    if method != "percentile" and is_lopsided(target):
        lowest = _largest(np.where(rows < 0, rows, rows.dtype.type(0)), target, True)
        least = smallest_scales(lowest, -target.min_finite, power_of_two)
        scales = np.where(lowest > 0, np.maximum(scales, least), scales)
    if not np.isfinite(scales).all():
        raise ValueError(
            f"values up to {amax.max():.9g} need a scale for {target.name!r} that float32 does not hold; "
            f"divide them by a power of two first, or use a format with a larger range"
        )
    if method == "mse":
        with reporting(progress, rows.size, "looking for scales") as step:
            scales = least_errors(rows, target, how, scales, power_of_two, step)
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
    >>> round(error_report(values, "int8", scale=np.float32(7 / 127)).sqnr, 2)
    47.2

    Parameters
    ----------
    values : array_like of float or integer, shape (...)
        Of `lowprec.error_report` the name of an array in a file too, as `lowprec.compare` takes it: for
        instance "model.safetensors:layer.weight", of a quantised weight its values.
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
        Results of blocks are taken in float64. Sums are NumPy's, of parts of 2**18 values in the order of
        their places. Of Dask arrays, or a lazy `scale` or `random`, a `dask.delayed` value of one.

    Raises
    ------
    ValueError
        Keywords that the format does not take, and what `lowprec.encode` refuses.
    """
    check_labels(values, scale=scale, random=random)
    lazy.check(values, scale, random, tensor_scale)
    is_lazy = any(map(lazy.is_lazy, (values, scale, random, tensor_scale)))
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
        if is_lazy:
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
    if is_lazy:
        array, scale, random = lazy_statistics.by_name(array, scale, random, group)
        _given_scales(np.ones(scale.shape) if lazy.is_dask(scale) else scale, array.shape)  # type: ignore[union-attr]
        finish = functools.partial(report_of, target.name)
        return lazy_statistics.of_singles(measure, finish, array, scale, random, rng, tile, group)  # type: ignore[no-any-return]
    return report_of(target.name, measure(array, scale, random, rng).parts)


# -- scales ------------------------------------------------------------------------------------------


def _largest(rows: Array, fmt: Format, away: bool) -> Doubles:
    """Return each row's amax, rounded up or to nearest; 0 of a row without finite values."""
    amax, negative = np.zeros(rows.shape[0]), 0
    for tile in tiles(rows.shape, (1, 1), _PART):
        part, _ = only_finite(rows[tile], away)
        negative += int(np.count_nonzero(part < 0))
        amax[tile[0]] = np.maximum(amax[tile[0]], np.abs(part).max(axis=1))
    if negative and fmt.sign is Sign.UNSIGNED:
        raise ValueError(
            f"{fmt.name!r} is unsigned, and {negative:,} of {rows.size:,} values are negative: subtract a "
            f"zero point first, or use a signed format"
        )
    return amax


def _trial(
    fmt: Format,
    rounding: Rounding | str | None,
    saturation: Saturation | str | None,
    projection: Projection | None,
    profile: Profile | str | None,
) -> Projection:
    """Return the projection of "mse": with shorthands, overflow and zeros become what they must become."""
    if projection is not None or profile is not None:
        return projection_of(fmt, rounding, saturation, projection, profile)
    how = projection_of(fmt, rounding, Saturation.FINITE if saturation is None else saturation, None, None)
    return dataclasses.replace(how, zero="smallest")


@functools.lru_cache(maxsize=256)
def _usual_method(fmt: Format) -> str:
    """Return the method that is of use: "mse" where steps are widest at the largest value, else "max"."""
    if not isinstance(fmt, Codebook):
        return "max"
    values = [float(value) for value in sorted(fmt.values) if 0 < value < math.inf]
    steps = [1 - low / high for low, high in itertools.pairwise(values)]
    return "mse" if steps and steps[-1] > 2 * min(steps) else "max"


def _percentiles(rows: Array, percentile: float) -> Doubles:
    """Return the percentile of each row's finite magnitudes; 0 of a row without any."""
    found = np.zeros(rows.shape[0])
    for tile in tiles(rows.shape, (1, rows.shape[1]), _PART):
        part, finite = only_finite(rows[tile])
        magnitudes = np.abs(part).astype(np.float64)
        whole = finite.all(axis=1)
        found[tile[0]][whole] = np.percentile(magnitudes[whole], percentile, axis=1)
        for row in np.flatnonzero(finite.any(axis=1) & ~whole):
            found[tile[0].start + row] = np.percentile(magnitudes[row][finite[row]], percentile)
    return found


# -- errors ------------------------------------------------------------------------------------------


class _Sums:
    """Sums of parts, kept part by part: they are added in their order, whoever measured them."""

    def __init__(self) -> None:
        self.parts: list[Doubles] = []
        self.by_block: Doubles | None = None  #: of blocks alone, as is the next
        self.clipped = 0  #: blocks with clipped values

    def add(self, part: Array, results: Array, units: Any, limits: tuple[float, float]) -> None:
        """Add a part: its values, and their results over units, one for as many values as another."""
        totals = np.empty(TOTALS)
        measure(*_flat(part, results, units), *limits, totals)
        self.parts.append(totals)


def _flat(part: Array, results: Array, units: Any) -> tuple[Array, Array, Array]:
    """Return the operands of kernels in the order of their places; values in float64 if results are."""
    kind = np.float64 if np.float64 in (part.dtype, results.dtype) else np.float32
    kinds = (part.dtype, kind, np.float64)
    x, y, z = (
        np.ascontiguousarray(array, of) for array, of in zip((part, results, units), kinds, strict=True)
    )
    return unlocked(x.reshape(-1)), unlocked(y.reshape(-1)), unlocked(z.reshape(-1))


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
    """Return the sums of formats of single values, in parts of this shape."""
    limits, sums, scales = _limits(fmt, how), _Sums(), _given_scales(scale, array.shape)
    integers = integers_of(how.rounding, fmt, array.shape, random, rng)
    for box in tiles(array.shape, tile, 1):
        given: Array = np.asarray(array[box])
        part = measured(given)
        source = given if scales is None else part
        if not (finite := np.isfinite(part)).all():
            source = np.where(finite, source, np.zeros((), source.dtype))
        units: Any = 1.0
        if scales is not None:
            source = source / scales[box]
            units = scales[box] if any(scales.strides) else scales[(0,) * scales.ndim]
        results = np.asarray(quantize(source, fmt, projection=how, **integers(box)))
        sums.add(part, results, units, limits)
    return sums


def _given_scales(scale: npt.ArrayLike | None, shape: tuple[int, ...]) -> Array | None:
    """Scales as float32, one for each value; a view."""
    if scale is None:
        return None
    scales = values_operand(scale, "scale").array.astype(np.float32)
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
    """Return the sums of values and the blocks that they become, in parts of this shape."""
    blocks = block.encode(array, fmt, axes, **options)
    sizes = dict(zip(axes, fmt.sizes, strict=True))
    low, high = limits = _limits(fmt.element, fmt.elements)
    tensor = 1.0 if blocks.tensor_scale is None else float(blocks.tensor_scale)
    grids = [np.zeros(blocks.scales.shape, kind) for kind in (np.float64, np.float64, np.bool_, np.bool_)]
    units = [sizes.get(axis, 1) for axis in range(array.ndim)]
    sums = _Sums()
    for box in tiles(array.shape, tile, 1):
        piece, part = blocks[box], measured(array[box])
        scales = np.asarray(decode(piece.scales, fmt.scale)).astype(np.float64) * tensor
        found = [grid[_grid_box(box, units)] for grid in grids]
        results = np.asarray(decode(piece.codes, fmt.element))
        if axes == (array.ndim - 1,) and piece.shape[-1] % fmt.sizes[0] == 0 and fmt.sizes[0] <= LONGEST:
            sums.add(part, results, scales, limits)
            runs = [np.empty(scales.size, grid.dtype) for grid in grids]
            measure_runs(*_flat(part, results, scales), *limits, *runs)
            for grid, run in zip(found, runs, strict=True):
                grid[...] = run.reshape(scales.shape)
            continue
        scales = spread(scales, piece.shape, axes, fmt.sizes)
        sums.add(part, results, scales, limits)
        for few in tiles(part.shape, tuple(units), _FEW):
            each = _each(part[few], results[few] * scales[few], low * scales[few], high * scales[few])
            for grid, total in zip(found, each, strict=True):
                add = np.logical_or if grid.dtype == np.bool_ else np.add
                for axis, size in sizes.items():
                    total = np.asarray(add.reduceat(total, np.arange(0, total.shape[axis], size), axis=axis))
                grid[_grid_box(few, units)] = total
    signal, noise, known, clipped = grids
    sums.by_block, sums.clipped = decibels(signal, noise, known), int(np.count_nonzero(clipped))
    return sums


def _grid_box(box: tuple[slice, ...], units: list[int]) -> tuple[slice, ...]:
    """Return the blocks of a part that begins and ends where blocks do."""
    return tuple(
        slice(item.start // unit, -(-item.stop // unit)) for item, unit in zip(box, units, strict=True)
    )


def _each(part: Array, results: Doubles, low: Doubles, high: Doubles) -> tuple[Array, ...]:
    """Return each value's square and squared error, whether it counts, and whether it is clipped."""
    finite = np.isfinite(part)
    known = finite & np.isfinite(results)
    values = np.where(finite, part, 0).astype(np.float64)
    noise = np.square(np.where(known, results - values, 0.0))
    return np.where(known, values * values, 0.0), noise, known, (values < low) | (values > high)


def _together(how: Projection, fmt: Format) -> int:
    """Return the number of elements along the last axis that share a random word."""
    return lanes(how.rounding, fmt) if how.rounding.bits else 1


def _limits(fmt: Format, how: Projection) -> tuple[float, float]:
    """Return the most negative and the largest value that results may have."""
    symmetric = how.symmetric and fmt.sign is Sign.TWOS_COMPLEMENT
    return -fmt.max_finite if symmetric else min(0.0, fmt.min_finite), fmt.max_finite
