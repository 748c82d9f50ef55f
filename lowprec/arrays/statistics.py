"""scale_for, error_report: the scale that values need, and what a format does to them.

Floor 3. Statistics are computed in float64, part by part; conversions are those of `convert`.

Notation:

    amax      the largest magnitude among the finite values of a channel, or of the whole array
    result    what `quantize` makes of a value; with scale= that of value / scale, times scale
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import operator
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays.block import BlockArray
from lowprec.arrays.checks import Array, projection as projection_of, values_operand
from lowprec.arrays.convert import decode, encode, quantize
from lowprec.spec import catalog
from lowprec.spec.block import BlockFormat, ScaleRule
from lowprec.spec.format import Format, Sign
from lowprec.spec.profiles import Profile
from lowprec.spec.projection import Projection, Saturation
from lowprec.spec.rounding import Rounding

__all__ = ["ErrorReport", "error_report", "scale_for"]

Doubles = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]

#: Values that are worked on at a time.
_PART = 1 << 18

METHODS = ("max", "percentile", "mse")

#: What "mse" multiplies the scale of "max" by, largest first: eight steps a binade, six binades down.
_FACTORS = tuple(m / 16 * 2.0**-k for k in range(6) for m in range(16, 8, -1)) + (2.0**-6,)

_SMALLEST = 2.0**-149
_UP = np.float32(np.inf)

#: For "mse", so that zeros count as what they must become where a format has no zero.
_TRIAL = Projection(saturation=Saturation.FINITE, zero="smallest")


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
        NaNs and infinities take no part.
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
        A block format; a negative value and an unsigned format; a scale that float32 does not hold.
    TypeError
        Values that are no real numbers.

    Source
    ------
    [FP8] 3.2 and 4: maxima for weights, the best of the three for activations.
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
    array = values_operand(values).array
    kept = _channel_axes(axis, array.ndim)
    shape = tuple(length if place in kept else 1 for place, length in enumerate(array.shape))
    channels = math.prod(shape)
    each = math.prod(length for place, length in enumerate(array.shape) if place not in kept)
    rows = np.moveaxis(array, kept, range(len(kept))).reshape(channels, each)

    amax = _largest(rows, target)
    if method == "percentile":
        lower = _percentiles(rows, percentile)
        amax = np.where(lower > 0, lower, amax)
    scales = _smallest_scales(amax, target)
    if power_of_two:
        scales = _powers_of_two(scales)
    if not np.isfinite(scales).all():
        worst = float(amax.max())
        raise ValueError(
            f"values up to {worst:.9g} need a scale for {target.name!r} that float32 does not hold; divide them by a "
            f"power of two first, or use a format with a larger range"
        )
    if method == "mse":
        factors = _FACTORS[::8] if power_of_two else _FACTORS
        scales = _least_errors(rows, target, scales, np.array(factors))
    return scales[0] if axis is None else scales.reshape(shape)


@dataclass(frozen=True)
class ErrorReport:
    """What a format did to values: `lowprec.error_report` makes it, and str() is a short table.

    Errors are result - value, of the finite values with finite results.

    Parameters
    ----------
    format : str
        The name of the format or block format.
    size : int
        Values, of all kinds.
    non_finite : int
        Values that are NaN or infinite: left out of everything below.
    lost : int
        Finite values whose result is not: they overflowed, or share a block with a NaN. Left out of
        the errors.
    sqnr : float
        Signal to quantisation noise in decibels: 10 * log10(sum of squared values / sum of squared
        errors). inf where every result is exact, nan where there are no values.
    mse, max_abs_error, mean_error : float
        Mean of the squared errors, the largest magnitude of an error, and the mean of the errors,
        which is what rounding is biased by. nan where there are no values.
    clipped : float
        Share of the finite values that lie beyond the largest, or the most negative, value that the
        format holds, times the scale that applies to them.
    flushed : float
        Share of the non-zero finite values whose result is zero.
    zeros : float
        Share of the finite values that are zero themselves.
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
        if self.by_block is None or np.isnan(self.by_block).all():
            return None
        return float(np.nanmin(self.by_block))

    def as_dict(self) -> dict[str, Any]:
        """All numbers for JSON, without `by_block` but with `worst_block`; None for inf and nan.

        >>> error_report([1.0, 2.5], "e2m1fn").as_dict()["mse"]
        0.125
        """
        found = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        del found["by_block"]
        found["worst_block"] = self.worst_block
        return {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in found.items()
        }

    def __str__(self) -> str:
        blocks = "" if self.by_block is None else f" in {self.by_block.size:,} block{'s' * (self.by_block.size != 1)}"
        worst = "" if self.worst_block is None else f"; of the worst block {self.worst_block:.2f} dB"
        of_blocks = "" if self.clipped_blocks is None else f", in {_percent(self.clipped_blocks)} of blocks"
        lines = [
            f"{self.format}: {self.size:,} value{'s' * (self.size != 1)}{blocks}",
            f"  SQNR           {self.sqnr:.2f} dB{worst}",
            f"  mean square    {self.mse:.4g}",
            f"  largest error  {self.max_abs_error:.4g}",
            f"  mean error     {self.mean_error:.4g}",
            f"  clipped        {_percent(self.clipped)}{of_blocks}",
            f"  flushed        {_percent(self.flushed)} of non-zero values",
            f"  zeros          {_percent(self.zeros)}",
        ]
        if self.non_finite or self.lost:
            lines.append(f"  left out       {self.non_finite:,} NaN or infinite, {self.lost:,} that became so")
        return "\n".join(lines)


def error_report(
    values: npt.ArrayLike,
    fmt: Format | BlockFormat | BlockArray | str | npt.DTypeLike,
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
    """Measure what a format, or blocks of it, would do to values.

    >>> import numpy as np
    >>> values = np.linspace(-2, 7, 64, dtype=np.float32)
    >>> print(error_report(values, "mxfp4"))
    mxfp4: 64 values in 2 blocks
      SQNR           22.02 dB; of the worst block 20.13 dB
      mean square    0.05894
      largest error  1
      mean error     -0.04315
      clipped        10.9 %, in 50.0 % of blocks
      flushed        3.1 % of non-zero values
      zeros          0.0 %
    >>> round(error_report(values, "int8", scale=scale_for(values, "int8")).sqnr, 2)
    46.52

    Parameters
    ----------
    values : array_like of float or integer, shape (...)
    fmt : Format, BlockFormat, BlockArray, str or dtype
        A BlockArray is taken as what values became, wherever it comes from.
    axis, rule, tensor_scale
        Of block formats: as for `lowprec.encode`.
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
    if isinstance(fmt, BlockArray) or catalog.is_block(fmt):
        if scale is not None:
            name = fmt.format.name if isinstance(fmt, BlockArray) else str(fmt)
            raise ValueError(f"scale= is for formats of single values; the scales of {name!r} are those of its blocks")
        how = {
            "axis": axis, "rounding": rounding, "saturation": saturation, "projection": projection,
            "profile": profile, "random": random, "rng": rng, "rule": rule, "tensor_scale": tensor_scale,
        }  # fmt: skip
        return _of_blocks(array, _blocks(array, fmt, how))
    for name, given in (("axis", axis), ("rule", rule), ("tensor_scale", tensor_scale)):
        if given is not None:
            raise ValueError(
                f"{name}= is for block formats, and {str(fmt)!r} is none; for scales of channels give "
                f"scale=lowprec.scale_for(values, {str(fmt)!r}, axis=...)"
            )
    target = catalog.format(fmt)
    rule_of = projection_of(target, rounding, saturation, projection, profile)
    return _of_singles(array, target, rule_of, scale, random, rng)


# -- scales ------------------------------------------------------------------------------------------


def _channel_axes(axis: object, ndim: int) -> tuple[int, ...]:
    """The axes of the channels, in order, none of them negative."""
    items = () if axis is None else axis if isinstance(axis, Iterable) else (axis,)
    axes = []
    for item in items:
        if not hasattr(item, "__index__") or isinstance(item, bool):
            raise TypeError(f"axis must be an integer or a tuple of them, not {axis!r}")
        place = operator.index(item)
        if not -ndim <= place < ndim:
            raise ValueError(f"axis={axis!r} names axis {place}, and values have {ndim} axes")
        axes.append(place % ndim)
    if len(set(axes)) != len(axes):
        raise ValueError(f"axis={axis!r} names an axis twice")
    return tuple(sorted(axes))


def _largest(rows: Array, fmt: Format) -> Doubles:
    """Each row's amax; 0 of a row without finite values."""
    amax = np.zeros(rows.shape[0])
    negative = 0
    for tile in _tiles(rows.shape, (1, 1), _PART):
        part, _ = _finite(rows[tile])
        if fmt.sign is Sign.UNSIGNED:
            negative += int(np.count_nonzero(part < 0))
        amax[tile[0]] = np.maximum(amax[tile[0]], np.abs(part).max(axis=1))
    if negative:
        raise ValueError(
            f"{fmt.name!r} is unsigned, and {negative:,} of {rows.size:,} values are negative: subtract a zero point "
            f"first, or use a signed format"
        )
    return amax


def _percentiles(rows: Array, percentile: float) -> Doubles:
    """Of each row's finite magnitudes; 0 of a row without any."""
    found = np.zeros(rows.shape[0])
    for tile in _tiles(rows.shape, (1, rows.shape[1]), _PART):
        part, finite = _finite(rows[tile])
        magnitudes = np.abs(part).astype(np.float64)
        if finite is None:
            found[tile[0]] = np.percentile(magnitudes, percentile, axis=1)
        else:
            for row, (line, known) in enumerate(zip(magnitudes, finite, strict=True), tile[0].start):
                found[row] = np.percentile(line[known], percentile) if known.any() else 0.0
    return found


def _smallest_scales(amax: Doubles, fmt: Format) -> Singles:
    """The smallest float32 numbers s with amax <= s * fmt.max_finite; 1 for an amax of 0, inf if there is none.

    With both as fractions in [1/2, 1), nothing overflows or loses bits below. The quotient is rounded
    to float64, and rounding keeps order: where it lies between two neighbours of float32, so does the
    exact quotient, and the upper one is the answer. Where it is a float32 number itself, the exact
    quotient may lie just above.
    """
    fraction, exponent = np.frexp(amax)
    most, most_exponent = math.frexp(fmt.max_finite)
    quotient = fraction / most
    up = quotient.astype(np.float32)
    up = np.where(up < quotient, np.nextafter(up, _UP), up)
    # up * most has more than 53 bits where max_finite has more than 29. Its two halves have fewer, and the
    # difference of neighbours is exact (Sterbenz).
    high = math.floor(most * 2**24) / 2**24
    exceeds = fraction - up * np.float64(high) > up * np.float64(most - high)
    up = np.where(exceeds, np.nextafter(up, _UP), up)
    with np.errstate(over="ignore"):
        wide = np.maximum(np.ldexp(up.astype(np.float64), exponent - most_exponent), _SMALLEST)
        scales = wide.astype(np.float32)
        scales = np.where(scales < wide, np.nextafter(scales, _UP), scales)
    return np.where(amax == 0, np.float32(1), scales)


def _powers_of_two(scales: Singles) -> Singles:
    """The smallest powers of two that are no smaller; inf if float32 has none."""
    fraction, exponent = np.frexp(scales)
    with np.errstate(over="ignore"):
        up = np.ldexp(np.float32(1), exponent - (fraction == 0.5))
    return np.where(np.isinf(scales), scales, up).astype(np.float32)


def _least_errors(rows: Array, fmt: Format, scales: Singles, factors: Doubles) -> Singles:
    """Of the scales times the factors, the first with the least sum of squared errors, for each row."""
    trials = np.maximum(factors[:, None] * scales.astype(np.float64), _SMALLEST).astype(np.float32)
    errors = np.zeros(trials.shape)
    for tile in _tiles(rows.shape, (1, 1), _PART):
        part, finite = _finite(rows[tile])
        for trial, sums in zip(trials[:, tile[0], None], errors[:, tile[0]], strict=True):
            with np.errstate(over="ignore"):
                error = part - quantize(part / trial, fmt, projection=_TRIAL).astype(np.float64) * trial
                error *= error
            sums += np.sum(error, axis=1, where=True if finite is None else finite)
    chosen: Singles = np.take_along_axis(trials, errors.argmin(axis=0)[None], axis=0)[0]
    return chosen


# -- errors ------------------------------------------------------------------------------------------


class _Sums:
    """What parts add up to."""

    def __init__(self, grid: tuple[int, ...] | None) -> None:
        """With arrays of that shape for the sums of blocks."""
        self.non_finite = self.lost = self.counted = self.clipped = self.non_zero = self.flushed = 0
        self.signal = self.noise = self.error = self.largest = 0.0
        self.blocks = None if grid is None else tuple(np.zeros(grid) for _ in range(4))

    def add(self, values: Array, results: Doubles, low: Any, high: Any) -> tuple[Doubles, Doubles, Array, Array]:
        """A part: its squares, squared errors, and masks of what counts and of what is clipped."""
        finite = np.isfinite(values)
        known = finite & np.isfinite(results)
        wide = np.where(known, values, 0).astype(np.float64)
        clipped = finite & ((values < low) | (values > high))
        with np.errstate(over="ignore"):
            error = np.where(known, results, 0) - wide
            signal, noise = wide * wide, error * error
            self.signal += float(signal.sum())
            self.noise += float(noise.sum())
        self.error += float(error.sum())
        self.largest = max(self.largest, float(np.abs(error).max()))
        self.non_finite += int(np.count_nonzero(~finite))
        self.lost += int(np.count_nonzero(finite & ~known))
        self.counted += int(np.count_nonzero(known))
        self.clipped += int(np.count_nonzero(clipped))
        non_zero = finite & (values != 0)
        self.non_zero += int(np.count_nonzero(non_zero))
        self.flushed += int(np.count_nonzero(non_zero & (results == 0)))
        return signal, noise, known, clipped

    def report(self, name: str) -> ErrorReport:
        """The sums as what people ask for."""
        finite, counted = self.lost + self.counted, self.counted
        by_block = clipped_blocks = None
        if self.blocks is not None:
            signal, noise, known, clipped = self.blocks
            by_block = _decibels(signal, noise, known)
            clipped_blocks = _share(int(np.count_nonzero(clipped)), clipped.size)
        return ErrorReport(
            format=name,
            size=finite + self.non_finite,
            non_finite=self.non_finite,
            lost=self.lost,
            sqnr=float(_decibels(np.float64(self.signal), np.float64(self.noise), np.float64(counted))),
            mse=self.noise / counted if counted else math.nan,
            max_abs_error=self.largest if counted else math.nan,
            mean_error=self.error / counted if counted else math.nan,
            clipped=_share(self.clipped, finite),
            flushed=_share(self.flushed, self.non_zero),
            zeros=_share(finite - self.non_zero, finite),
            clipped_blocks=clipped_blocks,
            by_block=by_block,
        )


def _of_singles(
    array: Array, fmt: Format, how: Projection, scale: npt.ArrayLike | None, random: Any, rng: Any
) -> ErrorReport:
    """The report on a format of single values."""
    scales = None if scale is None else _given_scales(scale, array.shape)
    low, high = _limits(fmt, how)
    sums = _Sums(None)
    flat = array.reshape(array.shape or (1,))
    # Random integers belong to places of the whole array, so that is one part.
    for tile in _tiles(flat.shape, (1,) * flat.ndim, array.size if how.rounding.bits else _PART):
        given = flat[tile]
        part, finite = _finite(given)
        if scales is None:
            given = given if finite is None else np.where(finite, given, np.zeros((), given.dtype))
        else:
            unit = scales.reshape(flat.shape)[tile]
            with np.errstate(over="ignore"):
                given = part / unit
        got = quantize(given if array.ndim else given[0], fmt, projection=how, random=random, rng=rng)
        results = np.asarray(got).astype(np.float64).reshape(part.shape)
        if scales is None:
            values = part if finite is None else given_back(part, finite)
            sums.add(values, results, low, high)
    return sums.report(fmt.name)
