"""Rounding errors of a format: of normal values at any scale, exactly, and of arrays.

Floor 4. Notation: sigma is the standard deviation of the values; signal to noise is mean(x**2) / mean((q -
x)**2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays.checks import as_array
from lowprec.arrays.convert import decode, quantize
from lowprec.arrays.doubles import real, reals
from lowprec.arrays.kinds import check_labels
from lowprec.arrays.measures.errors import decibels
from lowprec.arrays.measures.statistics import error_report
from lowprec.methods.unit_scaling.vjp import Array, array
from lowprec.spec import catalog
from lowprec.spec.format import Format, Sign
from lowprec.spec.rounding import Rounding

#: The widest format whose codes are gone through.
_WIDEST = 20
#: Standard deviations beyond which float64 has no density, and the width of the pieces that are integrated.
_FAR, _PIECE = 39.0, 1 / 16
#: For pieces that narrow, four nodes give twelve digits.
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(4)
#: Intervals that are worked on at a time.
_TOGETHER = 1 << 16


def snr(values: npt.ArrayLike, results: npt.ArrayLike) -> float:
    """Return the signal-to-noise ratio of results in decibels.

    >>> round(snr([1.0, 2.0], [1.0, 2.2]), 2)
    20.97

    Parameters
    ----------
    values, results : array_like of float, shape (...)

    Returns
    -------
    ratio : float
        10 * log10(sum of squared values / sum of squared errors); inf where there is no error.

    Raises ValueError: unequal shapes, or values that are all zero.
    """
    check_labels(values, results)
    given, found = (
        reals(each, name).astype(np.float64) for each, name in ((values, "values"), (results, "results"))
    )
    if given.shape != found.shape:
        raise ValueError(f"values and results must have one shape, not {given.shape} and {found.shape}")
    signal, noise = float(np.square(given).sum()), float(np.square(found - given).sum())
    if not signal:
        raise ValueError("values without any signal have no signal-to-noise ratio; leave them out")
    with np.errstate(all="ignore"):
        return float(decibels(signal, noise, given.size))


def snr_curve(fmt: Format | str | npt.DTypeLike, sigmas: npt.ArrayLike) -> Any:
    """Return the signal-to-noise ratio of normal values in a format, for each standard deviation, exactly.

    Rounding is to nearest (ties have no probability), and saturates. The noise is the sum over all codes
    of the integral of (x - value)**2 over the interval that is rounded to the code: no samples.

    >>> snr_curve("e4m3fn", [2.0**-6, 1.0, 2.0**8]).round(2)
    array([28.3 , 31.52, 16.21])

    Parameters
    ----------
    fmt : Format, str or dtype
        Of at most 20 bits, with a sign.
    sigmas : array_like of float, above 0, shape (...)

    Returns
    -------
    ratios : array of float64, shape (...)
        In decibels. A float for a float.

    Raises ValueError: a wider format, one without sign, or a sigma that is no positive number.

    Source: [UNIT_SCALING] figure 2. That figure's script clips significands where they must carry into the
    next binade, and reads 30.99 dB at E4M3's plateau, where it is 31.52.
    """
    values, borders = _intervals(catalog.format(fmt))
    given = reals(sigmas, "sigmas").astype(np.float64)
    if not (np.isfinite(given) & (given > 0)).all():
        raise ValueError("sigmas must be positive numbers: they are standard deviations")
    ratios = np.array([_ratio(values, borders, float(sigma)) for sigma in given.ravel()]).reshape(given.shape)
    return float(ratios) if given.ndim == 0 else ratios


def plateau(fmt: Format | str | npt.DTypeLike, drop: float = 3.0) -> tuple[float, float]:
    """Find the standard deviations at which normal values lose little of the best signal-to-noise ratio.

    >>> low, high = plateau("e4m3fn")
    >>> round(float(np.log2(low)), 1), round(float(np.log2(high)), 1)
    (-5.9, 7.3)

    Parameters
    ----------
    fmt : Format, str or dtype
        As for `snr_curve`.
    drop : float, above 0
        In decibels.

    Returns
    -------
    low, high : float
        Where the curve first comes up to the best ratio less `drop`, and where it goes below again; exponents
        are found to 2**-12.

    Raises ValueError: what `snr_curve` refuses, or a drop that is not positive.
    """
    if not 0 < real(drop, "drop") < math.inf:
        raise ValueError(f"drop={drop!r} must be a positive number of decibels")
    values, borders = _intervals(catalog.format(fmt))
    top = math.log2(float(values[-1]))

    def at(exponent: float) -> float:
        return _ratio(values, borders, 2.0**exponent)

    # The best is among the twelve binades below the largest value: a format whose range is longer is flat
    # there.
    _, near = max((at(top - step / 2), top - step / 2) for step in range(24))
    best, middle = max((at(near + step / 16), near + step / 16) for step in range(-8, 9))
    below, above = math.log2(float(np.diff(values).min())) - 10, top + 10
    return _crossing(at, below, middle, best - drop), _crossing(at, above, middle, best - drop)


@dataclass(frozen=True)
class FormatReport:
    """The errors of a format on an array; str() is one line.

    Parameters
    ----------
    format : str
        Its name.
    snr : float
        Signal to noise in decibels, of the finite values with finite results.
    overflowed : float
        Share of the finite values that lie beyond the largest one of the format.
    flushed : float
        Share of the non-zero finite values whose result is zero.
    subnormal : float
        Share of them whose result is subnormal.
    """

    format: str
    snr: float
    overflowed: float
    flushed: float
    subnormal: float

    def __str__(self) -> str:
        return (
            f"{self.format}: {self.snr:.2f} dB, {self.overflowed:.1%} overflowed, {self.flushed:.1%} "
            f"flushed, {self.subnormal:.1%} subnormal"
        )


def format_report(
    values: npt.ArrayLike,
    fmt: Format | str | npt.DTypeLike,
    *,
    rounding: Rounding | str | None = None,
    saturation: str = "finite",
    rng: int | np.random.Generator | None = None,
) -> FormatReport:
    """Measure the errors of a format on an array, which depend on its scale.

    >>> print(format_report(np.linspace(-300, 300, 1001) / 8192, "e4m3fn"))
    e4m3fn: 30.10 dB, 0.0% overflowed, 2.6% flushed, 37.2% subnormal

    Parameters
    ----------
    values : array_like of float, shape (...)
    fmt : Format, str or dtype
    rounding, saturation, rng
        As for `lowprec.quantize`.

    Returns
    -------
    report : FormatReport

    Raises ValueError: what `lowprec.quantize` refuses.

    See Also
    --------
    lowprec.error_report : more about the errors, of block formats too.
    """
    target = catalog.format(fmt)
    # A Generator would give each of the two conversions other random integers.
    key = int(rng.integers(0, 1 << 64, dtype=np.uint64)) if isinstance(rng, np.random.Generator) else rng
    how: dict[str, Any] = {"rounding": rounding, "saturation": saturation, "rng": key}
    given = as_array(values)
    errors = error_report(given, target, **how)
    results = np.abs(np.asarray(quantize(given, target, **how)).astype(np.float64))
    wide = array(given, "values")
    counted = np.isfinite(wide) & (wide != 0)
    least = target.min_normal if target.min_normal is not None else 0.0
    small = counted & (results > 0) & (results < least)
    return FormatReport(
        format=target.name,
        snr=errors.sqnr,
        overflowed=errors.clipped,
        flushed=errors.flushed,
        subnormal=int(np.count_nonzero(small)) / max(1, int(np.count_nonzero(counted))),
    )


# -- integrals ---------------------------------------------------------------------------------------


def _intervals(fmt: Format) -> tuple[Array, Array]:
    """Return the finite values of a format in order, and the borders between what is rounded to each."""
    if fmt.width > _WIDEST:
        raise ValueError(
            f"{fmt.name!r} has codes of {fmt.width} bits, and all are gone through; use a format of at most "
            f"{_WIDEST}"
        )
    if fmt.sign is Sign.UNSIGNED:
        raise ValueError(
            f"{fmt.name!r} is unsigned, and half of all normal values are negative; use a signed format"
        )
    codes = np.arange(1 << fmt.width, dtype=f"u{fmt.code_bits // 8}")
    decoded = np.asarray(decode(codes, fmt, dtype=np.float64))
    values = np.unique(decoded[np.isfinite(decoded)])
    borders = np.concatenate([[-np.inf], values[:-1] / 2 + values[1:] / 2, [np.inf]])
    return values, borders


def _ratio(values: Array, borders: Array, sigma: float) -> float:
    """Return the curve at one point."""
    # Of a format that is symmetric half of the line is enough.
    symmetric = np.array_equal(values, -values[::-1])
    edges = np.clip(borders / sigma, 0.0 if symmetric else -_FAR, _FAR)
    kept = edges[1:] > edges[:-1]
    low, high, value = edges[:-1][kept], edges[1:][kept], values[kept] / sigma
    counts = np.ceil((high - low) / _PIECE).astype(np.int64)
    noise = 0.0
    # Pieces of intervals are all positive: nothing cancels, which differences of distribution functions
    # would.
    for first in range(0, counts.size, _TOGETHER):
        part = slice(first, first + _TOGETHER)
        count = counts[part]
        width = np.repeat(np.divide(high[part] - low[part], count), count)
        place = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
        start = np.repeat(low[part], count) + place * width
        x = start[:, None] + width[:, None] * ((_NODES + 1) / 2)
        squares = np.square(x - np.repeat(value[part], count)[:, None]) * np.exp(-x * x / 2)
        noise += float((squares @ _WEIGHTS * width).sum()) / 2
    return -10 * math.log10(noise * (2 if symmetric else 1) / math.sqrt(2 * math.pi))


def _crossing(at: Any, outside: float, inside: float, level: float) -> float:
    """Find, by bisection, the power of two at whose exponent the curve crosses a level."""
    while abs(outside - inside) > 2.0**-12:
        middle = (outside + inside) / 2
        outside, inside = (outside, middle) if at(middle) >= level else (middle, inside)
    return float(2.0**inside)
