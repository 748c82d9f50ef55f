"""Powers of two: rounding to them, splitting them off, E8M0 codes, and the best one for a format.

Rounding to a power of two is rounding to a format of one bit of precision, which the library does. POW2
is E8M0 with more exponents, so that nothing that float64 holds is out of its range.

Floor 4.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from lowprec.arrays.arith import fma, sqrt
from lowprec.arrays.checks import Array
from lowprec.arrays.convert import decode, encode, quantize
from lowprec.arrays.doubles import doubles, reals
from lowprec.arrays.measures.statistics import error_report, scale_for
from lowprec.methods.scale_propagation.config import ScaleRounding, current
from lowprec.methods.scale_propagation.rounding import SCALES
from lowprec.spec import catalog
from lowprec.spec.codebook import Codebook
from lowprec.spec.families import power_of_two
from lowprec.spec.format import Format
from lowprec.spec.projection import Projection, Saturation
from lowprec.spec.rounding import AWAY_FROM_ZERO, NEAREST_EVEN, TO_ODD, TOWARD_ZERO, Rounding, stochastic

#: Powers of two from 2**-1023 to 2**1023.
POW2 = power_of_two("e11m0", 11, source="SCALIFY")

#: Truncation to a power of two; negative, zero and small numbers become 2**-127, large ones 2**127.
TRUNCATED = Projection(rounding=TOWARD_ZERO, saturation=Saturation.FINITE, negative="zero", zero="smallest")

_ROUNDINGS = {
    "down": TOWARD_ZERO,
    "up": AWAY_FROM_ZERO,
    "nearest": NEAREST_EVEN,
    "stochastic": stochastic(24),
}


def pow2_round(
    values: npt.ArrayLike,
    mode: ScaleRounding | None = None,
    *,
    rng: int | np.random.Generator | None = None,
) -> Any:
    """Round to powers of two; zeros, infinities and NaNs stay as they are, and so do signs.

    >>> pow2_round(np.float32([2.1, 0.3, -9.0, 0.0])), pow2_round(np.float32([2.1, 0.3, 4.0]), "up")
    (array([ 2.  ,  0.25, -8.  ,  0.  ], dtype=float32), array([4. , 0.5, 4. ], dtype=float32))

    Parameters
    ----------
    values : array_like of float or integer, shape (...)
        Dimensionless.
    mode : {"down", "up", "nearest", "stochastic", "none"}, optional
        By default that of `config`. "nearest" is to the nearer number: from 1.5 to 2 on up, and at 1.5 to
        the one whose exponent's code is even. "stochastic" goes up with probability x / 2**k - 1, to 24 bits.
        "none" leaves values as they are.
    rng : int or Generator, optional
        For "stochastic", by default that of `config`.

    Returns
    -------
    powers : array of float, shape (...)
        Of the type of values where that is float16, bfloat16 or float32, else float64. Results beyond the
        largest power of two of the type are infinite; in float64 the smallest is 2**-1023.

    Raises ValueError: an unknown mode, or a stochastic one without rng.

    Source: [SCALIFY] 3.2.
    """
    array = reals(values, "values")
    ordinary = np.isfinite(array) & (array != 0)
    powers = _rounded(np.where(ordinary, array, array.dtype.type(1)), mode, rng)
    given = array.dtype.newbyteorder("=") if _is_single(array) else np.dtype(np.float64)
    with np.errstate(over="ignore"):  # a power of two is exact in each of these types, or beyond its range
        return np.where(ordinary, np.copysign(powers, array), array).astype(given)[()]


def pow2_decompose(values: npt.ArrayLike) -> tuple[Any, Any]:
    """Split values into scales, the powers of two below them, and significands in [1, 2) with the sign.

    scale * significand is the value. Zeros give (0, 0), infinities (inf, ±inf), NaNs (inf, nan).

    >>> pow2_decompose(np.float16([65504.0, -0.3, 0.0]))
    (array([3.2768e+04, 2.5000e-01, 0.0000e+00], dtype=float32), array([ 1.999, -1.2  ,  0.   ],
    dtype=float16))

    Parameters
    ----------
    values : array_like of float or integer, shape (...)

    Returns
    -------
    scales : array of float32, shape (...)
        float64 for float64 and integers. Wider than float16, whose smallest subnormals have a scale too.
    significands : array of the type of values, shape (...)
        Below 1 for the subnormals of float64, whose scale is 2**-1023.

    Raises ValueError: an integer that float64 does not have.

    Source: [SCALIFY] 3.4.
    """
    array = reals(values, "values")
    array = array if _is_single(array) else doubles(array, "values")
    wide = array.astype(np.float64)
    scales = np.where(np.isfinite(wide), np.abs(pow2_round(wide, "down")), np.inf)
    ordinary = np.isfinite(wide) & (wide != 0)
    significands = np.where(ordinary, wide, 1.0) / np.where(ordinary, scales, 1.0)
    significands = np.where(ordinary, significands, wide)
    kind = array.dtype.newbyteorder("=")
    return scales.astype(np.result_type(kind, np.float32))[()], significands.astype(kind)[()]


def encode_e8m0(values: npt.ArrayLike) -> Any:
    """Encode scales as E8M0 codes, truncated to powers of two.

    Numbers below 2**-127, zeros and negative ones have code 0, which is 2**-127; those above 2**127 have
    the code of 2**127; NaN is 255.

    >>> encode_e8m0([-3.0, 0.0, 0.3, 1.0, 9.0])
    array([  0,   0, 125, 127, 130], dtype=uint8)

    Parameters
    ----------
    values : array_like of float, shape (...)

    Returns
    -------
    codes : array of uint8, shape (...)

    Source: [OCPMX]; [SCALIFY], whose code truncates.
    """
    return encode(values, catalog.E8M0FNU, projection=TRUNCATED)


def decode_e8m0(codes: npt.ArrayLike, dtype: npt.DTypeLike = np.float32) -> Any:
    """Decode E8M0 codes, exactly; code c is 2**(c - 127), and 255 is NaN.

    >>> decode_e8m0([0, 125, 254]).tolist() == [2.0**-127, 0.25, 2.0**127]
    True

    Parameters
    ----------
    codes : array_like of integer, 0 to 255, shape (...)
    dtype : dtype
        Of the result.

    Returns
    -------
    scales : array of float, shape (...)

    Source: [OCPMX].
    """
    return decode(codes, catalog.E8M0FNU, dtype=dtype)


def best_pow2_scale(values: npt.ArrayLike, fmt: Format | str | npt.DTypeLike) -> Any:
    """Find the power of two s that maximises the SQNR of s * quantize(values / s, fmt, saturation="finite").

    >>> import lowprec as lp
    >>> x = np.random.default_rng(0).standard_normal(1000, np.float32)
    >>> float(best_pow2_scale(x, "e4m3fn")), float(best_pow2_scale(x, "int4"))
    (0.0078125, 0.5)

    Parameters
    ----------
    values : array_like of float or integer, shape (...)
        NaNs and infinities take no part.
    fmt : Format, str or dtype

    Returns
    -------
    scale : float32
        A value of E8M0, 2**-127 to 2**127; 1 where no value is other than zero. Of several with the same
        SQNR the largest, but none above the smallest that clips nothing. Of codebooks that of
        `lowprec.scale_for` by "mse".

    Notes
    -----
    The search begins at the smallest scale that clips nothing. Above it nothing is better: within the
    range of both, every value that the format has at twice the scale it has at the scale itself. Below it
    the error of the largest magnitude grows with every step, and the search ends where that alone exceeds
    the least error found. So the result is the best of all.

    Source: [SCALIFY] 2, which approximates it by a root mean square of 1.
    """
    target = catalog.format(fmt)
    array = reals(values, "values")
    if isinstance(target, Codebook):  # which may have values closest anywhere
        return np.float32(np.clip(scale_for(array, target, "mse", power_of_two=True), 2.0**-127, 2.0**127))
    scale = float(np.clip(scale_for(array, target, "max", power_of_two=True), 2.0**-127, 2.0**127))
    finite = np.abs(array[np.isfinite(array)].astype(np.float64))
    amax, most = float(finite.max(initial=0.0)), max(target.max_finite, -target.min_finite)
    best, least = scale, math.inf
    while amax and scale >= 2.0**-127 and max(0.0, amax - scale * most) ** 2 <= least * finite.size:
        mse = error_report(array, target, scale=scale, saturation="finite").mse
        if mse < least:
            best, least = scale, mse
        scale /= 2
    return np.float32(best)


# -- scales of rules --------------------------------------------------------------------------------


def pow2_below(number: float) -> float:
    """Return the power of two at or below a finite positive number, from 2**-1023 on."""
    return max(math.ldexp(0.5, math.frexp(number)[1]), 2.0**-1023)


def pow2_sqrt(number: float) -> float:
    """Return the square root of a positive number, rounded to a power of two as `config` says.

    Unrounded (scale_rounding="none") it is binary64's.
    """
    return _remembered(_sqrt, number)


def _remembered(rule: Callable[..., float], *numbers: float) -> float:
    """Apply a rule to numbers, or return its earlier result in the same mode."""
    mode = current().scale_rounding
    return rule(*numbers) if mode == "stochastic" else _of_mode(rule, mode, *map(float, numbers))


@functools.lru_cache(maxsize=SCALES)
def _of_mode(rule: Callable[..., float], mode: ScaleRounding, *numbers: float) -> float:
    return rule(*numbers)


def _sqrt(number: float) -> float:
    return float(_rounded_sqrt(np.float64(number)))


def pow2_norm(x: float, y: float) -> float:
    """Return the square root of x*x + y*y, of finite positive numbers of 24 bits, rounded to a power of two.

    Whether it lies below, at or above a border of powers of two is decided on the exact sum: rounded to
    odd, it stays on its side of every number of fewer bits.
    """
    return _remembered(_norm, x, y)


def _norm(x: float, y: float) -> float:
    if not x or not y:
        return float(_rounded(np.asarray(max(x, y)), None, None)) if x or y else 0.0
    exponent = math.frexp(max(x, y))[1]
    large, small = math.ldexp(max(x, y), -exponent), math.ldexp(min(x, y), -exponent)
    if current().scale_rounding == "none":
        return math.ldexp(math.sqrt(large * large + small * small), exponent)
    total = fma(small, small, large * large, catalog.BINARY32, rounding=TO_ODD)  # 48 bits of large are exact
    return math.ldexp(float(_rounded_sqrt(total)), exponent)


def _rounded_sqrt(number: Any) -> Any:
    if current().scale_rounding == "none":
        return np.sqrt(number)
    rounding, rng = _how(None, None)
    return sqrt(number, POW2, rounding=rounding, rng=rng)


def _rounded(numbers: Array, mode: ScaleRounding | None, rng: int | np.random.Generator | None) -> Any:
    if (mode or current().scale_rounding) == "none":
        return numbers
    rounding, rng = _how(mode, rng)
    how = Projection(rounding=rounding, saturation=Saturation.FINITE, negative="drop_sign")
    return quantize(numbers, POW2, projection=how, rng=rng)


def _how(
    mode: ScaleRounding | None, rng: int | np.random.Generator | None
) -> tuple[Rounding, int | np.random.Generator | None]:
    mode = current().scale_rounding if mode is None else mode
    if mode not in _ROUNDINGS:
        raise ValueError(
            f"mode={mode!r} of rounding to powers of two is unknown; use one of "
            f"{', '.join(get_args(ScaleRounding))}"
        )
    if mode != "stochastic":
        return _ROUNDINGS[mode], None
    rng = current().rng if rng is None else rng
    if rng is None:
        raise ValueError(
            "scales are rounded stochastically, which needs random integers: give rng=, or config(rng=...)"
        )
    return _ROUNDINGS[mode], rng


def _is_single(array: Array) -> bool:
    """Return whether an array has one of the narrower float types that results are given in."""
    known = catalog.carrier(array.dtype)
    return known in (catalog.BINARY16, catalog.BFLOAT16, catalog.BINARY32)
