"""scale_for, error_report: the scale that values need, and what a format does to them.

Statistics are in float64, part by part; conversions are those of `convert`. Floor 3.

    amax      the largest magnitude among the finite values of a channel, or of the whole array
    result    what `quantize` makes of a value; with scale= that of value / scale, times scale
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.array_utils import normalize_axis_tuple

from lowprec.arrays.arith import divide
from lowprec.arrays.block import BlockArray
from lowprec.arrays.block_stream import spread
from lowprec.arrays.checks import Array, projection as projection_of, values_operand
from lowprec.arrays.convert import decode, encode, quantize
from lowprec.arrays.scale_search import PART, least_errors, only_finite
from lowprec.arrays.traverse import tiles
from lowprec.kernels.modes import usual_arithmetic
from lowprec.spec import catalog
from lowprec.spec.block import BlockFormat, ScaleRule
from lowprec.spec.format import Format, Sign
from lowprec.spec.profiles import Profile
from lowprec.spec.projection import Projection, Saturation
from lowprec.spec.rounding import TOWARD_POSITIVE, Rounding

__all__ = ["ErrorReport", "error_report", "scale_for"]

Doubles = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]

METHODS = ("max", "percentile", "mse")

#: Values that are worked on at a time.
_PART = PART
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


@usual_arithmetic()
def scale_for(
    values: npt.ArrayLike,
    fmt: Format | str | npt.DTypeLike,
    method: str = "max",
    axis: int | Iterable[int] | None = None,
    *,
    percentile: float = 99.9,
    power_of_two: bool = False,
    rounding: Rounding | str | None = None,
    saturation: Saturation | str | None = None,
    projection: Projection | None = None,
    profile: Profile | str | None = None,
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
        NaNs and infinities take no part.
    fmt : Format, str or dtype
        Integers and fixed point included. Block formats bring scales of their own.
    method : {"max", "percentile", "mse"}
        max: the smallest float32 s with amax <= s * fmt.max_finite, in exact arithmetic, so that
        nothing is clipped. percentile: the same of a percentile of the magnitudes instead of amax;
        of amax, where the percentile is 0. mse: the one with the least sum of squared errors; see Notes.
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
    mse searches all float32 scales up to twice that of max: of those above, half is never worse to nearest.
    Errors are those of ``quantize(values / s, fmt, ...) * s``, with the product exact, summed in float64;
    overflow that gives an infinity or NaN rules a scale out. The result is never worse than the scale of max,
    which remains where no other is better. A search takes 0.1 to 1 ms for each channel, and for long ones the
    time to sort them; values are copied.

    - Formats of at most 8 bits, rounded to nearest: the error is at most 1 + 2**-9 times (0.01 dB above) that
      of any scale searched, or beyond it by less than 2**-40 (120 dB) of the sum of squared values.
    - Other roundings into them: the best of 256 scales a binade.
    - Wider formats: the best of the scale of max times m/16 * 2**-k, m from 16 to 9, k from 0 to 5.
    - Powers of two: the best of all; into wider formats of the six below that of max.

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
    if method not in METHODS:
        raise ValueError(f"unknown method {method!r} of a scale; use one of {', '.join(METHODS)}")
    if not 0 < percentile <= 100:
        raise ValueError(f"percentile={percentile!r} must lie above 0 and be 100 at most")
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
        scales = least_errors(rows, target, how, scales, power_of_two)
    return scales[0] if axis is None else scales.reshape(shape)


@dataclass(frozen=True)
class ErrorReport:
    """What a format did to values; str() is a short table.

    Errors are result - value, of the finite values with finite results.

    Parameters
    ----------
    format : str
        The name of the format or block format.
    size, non_finite : int
        Values of all kinds, and those that are NaN or infinite: left out of everything below.
    lost : int
        Finite values whose result is not (overflow, or a NaN in the same block): not in the errors.
    sqnr : float
        Signal to quantisation noise in decibels: 10 * log10(sum of squared values / sum of squared
        errors). inf where every result is exact, nan where there are no values.
    mse, max_abs_error, mean_error : float
        Mean of the squared errors, the largest magnitude of an error, and the mean of the errors,
        which is the bias of the rounding. nan where there are no values.
    clipped : float
        Share of the finite values that lie beyond the largest, or the most negative, value that the
        format holds, times the scale that applies to them, by however little. Of no values 0.
    flushed, zeros : float
        Share of the non-zero finite values whose result is zero; of the finite ones that are zero.
    clipped_blocks : float, optional
        Share of the blocks with a clipped value; None where there are no blocks.
    by_block : array of float64, optional
        `sqnr` of each block, in the shape of the scales; None where there are no blocks.
    """

    format: str
    size: int
    non_finite: int
    lost: int
    sqnr: float
    mse: float
    max_abs_error: float
    mean_error: float
    clipped: float
    flushed: float
    zeros: float
    clipped_blocks: float | None = None
    by_block: Doubles | None = dataclasses.field(default=None, compare=False, repr=False)

    @property
    def worst_block(self) -> float | None:
        """The smallest `sqnr` of a block, or None where there are no blocks with values."""
        known = () if self.by_block is None else self.by_block[~np.isnan(self.by_block)]
        return float(np.min(known)) if len(known) else None

    def as_dict(self) -> dict[str, Any]:
        """All numbers for JSON, without `by_block` but with `worst_block`; None for inf and nan.

        >>> error_report([1.0, 2.5], "e2m1fn").as_dict()["mse"]
        0.125
        """
        found = {field.name: getattr(self, field.name) for field in dataclasses.fields(self) if field.compare}
        found["worst_block"] = self.worst_block
        odd = [name for name, value in found.items() if isinstance(value, float) and not math.isfinite(value)]
        return found | dict.fromkeys(odd)

    def __str__(self) -> str:
        blocks = (
            ""
            if self.by_block is None
            else f" in {self.by_block.size:,} block{'s' * (self.by_block.size != 1)}"
        )
        worst = "" if self.worst_block is None else f"; of the worst block {self.worst_block:.2f} dB"
        of_blocks = "" if self.clipped_blocks is None else f", in {self.clipped_blocks:.1%} of blocks"
        lines = [
            f"{self.format}: {self.size:,} value{'s' * (self.size != 1)}{blocks}",
            f"  SQNR           {self.sqnr:.2f} dB{worst}",
            f"  mean square    {self.mse:.4g}",
            f"  largest error  {self.max_abs_error:.4g}",
            f"  mean error     {self.mean_error:.4g}",
            f"  clipped        {self.clipped:.1%}{of_blocks}",
            f"  flushed        {self.flushed:.1%} of non-zero values",
            f"  zeros          {self.zeros:.1%}",
        ]
        if self.non_finite or self.lost:
            lines.append(
                f"  left out       {self.non_finite:,} NaN or infinite, {self.lost:,} that became so"
            )
        return "\n".join(lines)


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
        Results of blocks are taken in float64.

    Raises
    ------
    ValueError
        Keywords that the format does not take, and what `lowprec.encode` refuses.
    """
    array = values_operand(values).array
    if catalog.is_block(fmt):
        if scale is not None:
            raise ValueError(
                f"scale= is for formats of single values, and {str(fmt)!r} has scales of its blocks"
            )
        blocks = encode(
            array, fmt, axis=axis, rule=rule, tensor_scale=tensor_scale, rounding=rounding,
            saturation=saturation, projection=projection, profile=profile, random=random, rng=rng,
        )  # fmt: skip
        return _of_blocks(array, blocks)
    for name, given in (("axis", axis), ("rule", rule), ("tensor_scale", tensor_scale)):
        if given is not None:
            raise ValueError(
                f"{name}= is for block formats, and {str(fmt)!r} is none; for scales of channels give "
                f"scale=lowprec.scale_for(values, {str(fmt)!r}, axis=...)"
            )
    target = catalog.format(fmt)
    how = projection_of(target, rounding, saturation, projection, profile)
    return _of_singles(array, target, how, _given_scales(scale, array.shape), random, rng)


# -- scales ------------------------------------------------------------------------------------------


def _largest(rows: Array, fmt: Format) -> Doubles:
    """Each row's amax; 0 of a row without finite values."""
    amax, negative = np.zeros(rows.shape[0]), 0
    for tile in tiles(rows.shape, (1, 1), _PART):
        part, _ = only_finite(rows[tile])
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
    """What quantizes for "mse": with shorthands, overflow and zeros become what they must become."""
    if projection is not None or profile is not None:
        return projection_of(fmt, rounding, saturation, projection, profile)
    how = projection_of(fmt, rounding, Saturation.FINITE if saturation is None else saturation, None, None)
    return dataclasses.replace(how, zero="smallest")


def _percentiles(rows: Array, percentile: float) -> Doubles:
    """Of each row's finite magnitudes; 0 of a row without any."""
    found = np.zeros(rows.shape[0])
    for tile in tiles(rows.shape, (1, rows.shape[1]), _PART):
        part, finite = only_finite(rows[tile])
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


# -- errors ------------------------------------------------------------------------------------------


class _Sums:
    """What parts add up to."""

    def __init__(self) -> None:
        self.counts = np.zeros(6, np.int64)
        self.sums, self.largest = np.zeros(3), 0.0

    def add(self, part: Array, finite: Array, results: Doubles, low: Any, high: Any) -> tuple[Array, ...]:
        """A part, with zeros where values are not finite, and limits that broadcast with it.

        Returns squares, squared errors, what counts and what is clipped, for each value.
        """
        known = finite & np.isfinite(results)
        values, non_zero = part.astype(np.float64), part != 0
        clipped = (values < low) | (values > high)
        masks = (np.ones_like(finite), finite, known, non_zero, clipped, non_zero & (results == 0))
        self.counts += [np.count_nonzero(mask) for mask in masks]
        error = np.where(known, results - values, 0.0)
        signal, noise = np.where(known, values * values, 0.0), error * error
        self.sums += [signal.sum(), noise.sum(), error.sum()]
        self.largest = max(self.largest, float(np.abs(error).max()))
        return signal, noise, known, clipped

    def report(self, name: str, **blocks: Any) -> ErrorReport:
        """The sums as what people ask for."""
        size, finite, counted, non_zero, clipped, flushed = map(int, self.counts)
        signal, noise, error = map(float, self.sums)
        return ErrorReport(
            format=name,
            size=size,
            non_finite=size - finite,
            lost=finite - counted,
            sqnr=float(_decibels(signal, noise, counted)),
            mse=noise / counted if counted else math.nan,
            max_abs_error=self.largest if counted else math.nan,
            mean_error=error / counted if counted else math.nan,
            clipped=clipped / max(1, finite),
            flushed=flushed / max(1, non_zero),
            zeros=(finite - non_zero) / max(1, finite),
            **blocks,
        )


def _of_singles(
    array: Array, fmt: Format, how: Projection, scales: Array | None, random: Any, rng: Any
) -> ErrorReport:
    """The report on a format of single values."""
    low, high = _limits(fmt, how)
    sums = _Sums()
    # Random integers belong to places of the whole array, so that is one part.
    for tile in tiles(array.shape, (1,) * array.ndim, array.size if how.rounding.bits else _PART):
        given: Array = np.asarray(array[tile])
        part, finite = only_finite(given)
        unit = np.float64(1) if scales is None else scales[tile].astype(np.float64)
        given = np.where(finite, given, np.zeros((), given.dtype)) if scales is None else part / scales[tile]
        results = np.asarray(quantize(given, fmt, projection=how, random=random, rng=rng)).astype(np.float64)
        sums.add(part, finite, results * unit, low * unit, high * unit)
    return sums.report(fmt.name)


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


def _of_blocks(array: Array, blocks: BlockArray) -> ErrorReport:
    """The report on values and the blocks that they became."""
    fmt = blocks.format
    sizes = dict(zip(blocks.axes, fmt.sizes, strict=True))
    units = tuple(sizes.get(axis, 1) for axis in range(array.ndim))
    low, high = _limits(fmt.element, fmt.elements)
    tensor = 1.0 if blocks.tensor_scale is None else float(blocks.tensor_scale)
    grids = [np.zeros(blocks.scales.shape) for _ in range(4)]
    sums = _Sums()
    for tile in tiles(array.shape, units, _PART):
        piece = blocks[tile]
        scales = np.asarray(decode(piece.scales, fmt.scale)).astype(np.float64) * tensor
        scales = spread(scales, piece.shape, blocks.axes, fmt.sizes)
        found = sums.add(*only_finite(array[tile]), piece.values(np.float64), low * scales, high * scales)
        place = tuple(
            slice(item.start // unit, -(-item.stop // unit)) for item, unit in zip(tile, units, strict=True)
        )
        for grid, each in zip(grids, found, strict=True):
            total = each.astype(np.float64)
            for axis, size in sizes.items():
                total = np.add.reduceat(total, np.arange(0, total.shape[axis], size), axis=axis)
            grid[place] = total
    signal, noise, known, clipped = grids
    share = float(np.count_nonzero(clipped) / max(1, clipped.size))
    return sums.report(fmt.name, clipped_blocks=share, by_block=_decibels(signal, noise, known))


def _limits(fmt: Format, how: Projection) -> tuple[float, float]:
    """The most negative and the largest value that results may have."""
    symmetric = how.symmetric and fmt.sign is Sign.TWOS_COMPLEMENT
    return -fmt.max_finite if symmetric else min(0.0, fmt.min_finite), fmt.max_finite


def _decibels(signal: Any, noise: Any, counted: Any) -> Any:
    """The ratio in decibels: inf without noise, nan where nothing is counted."""
    ratio = 10 * np.log10(np.asarray(signal, np.float64) / np.asarray(noise, np.float64))
    return np.where(np.equal(counted, 0), np.nan, np.where(np.equal(noise, 0), np.inf, ratio))
