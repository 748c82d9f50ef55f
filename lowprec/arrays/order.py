"""Comparisons of codes, their classes, and the neighbours of values: what integers alone decide.

Magnitudes are ordered as their values are, so a code is compared as an integer with a sign.

Floor 3.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays import calls, lazy
from lowprec.arrays.checks import (
    Array,
    Operand,
    code_dtype,
    codes_operand,
    float_dtype,
    nans,
    output,
    signaling_nans,
    values_operand,
)
from lowprec.arrays.convert import decode, encode
from lowprec.spec import catalog
from lowprec.spec.arith import Class
from lowprec.spec.format import Format, Sign
from lowprec.spec.projection import DEFAULT, Flag, Projection
from lowprec.spec.rounding import TOWARD_NEGATIVE, TOWARD_POSITIVE

__all__ = [
    "classify",
    "equal",
    "greater",
    "greater_equal",
    "less",
    "less_equal",
    "nextafter",
    "not_equal",
    "total_order",
    "ulp",
    "unordered",
]

Like = Format | str | npt.DTypeLike


# -- codes as integers ---------------------------------------------------------------------------------


def _parts(codes: npt.ArrayLike, fmt: Format) -> tuple[Array, Array, Array]:
    """Magnitudes, whether codes are negative, and whether they are NaNs."""
    wide = codes_operand(codes, fmt).codes.astype(np.int64)
    negative = (wide & fmt.sign_code) != 0
    if fmt.sign is Sign.TWOS_COMPLEMENT:
        return np.where(negative, (1 << fmt.width) - wide, wide), negative, np.zeros(wide.shape, bool)
    return wide & ~fmt.sign_code, negative, nans(wide, fmt)


def _places(magnitude: Array, negative: Array, fmt: Format) -> Array:
    """Integers that are ordered as the values are; 0 is zero, and no value where the format has none."""
    place = magnitude + (fmt.sign is Sign.MAGNITUDE and not fmt.subnormals)
    return np.where(negative, -place, place)


# -- comparisons ---------------------------------------------------------------------------------------


def _compared(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    fmt: Like,
    relation: Callable[[Array, Array], Array],
    quiet: bool,
    flags: object,
) -> Any:
    """A relation of ordered codes; false where either is NaN, which is signaled unless it is quiet."""
    known = catalog.format(fmt)
    first, second = _parts(x, known), _parts(y, known)
    nan = first[2] | second[2]
    result = np.asarray(relation(_places(*first[:2], known), _places(*second[:2], known)) & ~nan)
    signals = output(flags, np.dtype(np.uint8), result.shape, "what is signaled", name="flags")
    if signals is not None:
        signaling = [signaling_nans(codes_operand(codes, known).codes, known) for codes in (x, y)]
        invalid = signaling[0] | signaling[1] if quiet else nan
        signals[...] = np.where(invalid, np.uint8(Flag.INVALID), np.uint8(0))
    return result[()] if not result.shape else result


def equal(x: npt.ArrayLike, y: npt.ArrayLike, fmt: Like, *, flags: Array | None = None) -> Any:
    """Whether two codes stand for the same number: -0 equals +0, NaN nothing.

    >>> equal([0x00, 0x38, 0x7F], [0x80, 0x38, 0x7F], "e4m3fn")
    array([ True,  True, False])

    Parameters
    ----------
    x, y : array_like of integer, shapes that broadcast to (...)
        Codes, as for `decode`.
    fmt : Format, str or dtype
        Of both.
    flags : array of uint8, shape (...), optional
        Where to put what is signaled: an invalid operation for signaling NaNs; by `less` and the
        like for every NaN.

    Returns
    -------
    result : array of bool, shape (...)

    Source
    ------
    [IEEE754] 5.6.1, 5.11.
    """
    return _compared(x, y, fmt, np.equal, True, flags)


def not_equal(x: npt.ArrayLike, y: npt.ArrayLike, fmt: Like, *, flags: Array | None = None) -> Any:
    """Whether two codes do not stand for the same number, as NaN never does; see `equal`.

    >>> not_equal([0x00, 0x7F], [0x80, 0x7F], "e4m3fn")
    array([False,  True])
    """
    return ~equal(x, y, fmt, flags=flags)


def less(x: npt.ArrayLike, y: npt.ArrayLike, fmt: Like, *, flags: Array | None = None) -> Any:
    """Whether the number of one code is below that of the other; see `equal`.

    >>> less([0x80, 0x81, 0x7F], [0x00, 0x00, 0x00], "e4m3fn")
    array([False,  True, False])
    """
    return _compared(x, y, fmt, np.less, False, flags)


def less_equal(x: npt.ArrayLike, y: npt.ArrayLike, fmt: Like, *, flags: Array | None = None) -> Any:
    """Whether the number of one code is not above that of the other, and neither is NaN; see `equal`."""
    return _compared(x, y, fmt, np.less_equal, False, flags)


def greater(x: npt.ArrayLike, y: npt.ArrayLike, fmt: Like, *, flags: Array | None = None) -> Any:
    """Whether the number of one code is above that of the other; see `equal`."""
    return _compared(x, y, fmt, np.greater, False, flags)


def greater_equal(x: npt.ArrayLike, y: npt.ArrayLike, fmt: Like, *, flags: Array | None = None) -> Any:
    """Whether the number of one code is not below that of the other, and neither is NaN; see `equal`."""
    return _compared(x, y, fmt, np.greater_equal, False, flags)


def unordered(x: npt.ArrayLike, y: npt.ArrayLike, fmt: Like, *, flags: Array | None = None) -> Any:
    """Whether one of two codes is NaN; see `equal`.

    >>> unordered([0x7F, 0x38], [0x38, 0x38], "e4m3fn")
    array([ True, False])
    """
    known = catalog.format(fmt)
    nan = _parts(x, known)[2] | _parts(y, known)[2]
    _compared(x, y, known, np.equal, True, flags)
    return nan[()] if not nan.shape else nan


def total_order(x: npt.ArrayLike, y: npt.ArrayLike, fmt: Like) -> Any:
    """Whether a code equals another or precedes it in the total order: -NaN, -Inf, ... -0, +0 ... +Inf, +NaN.

    Among positive NaNs signaling ones come first, then the lower payload; among negative ones last. NaNs
    without a sign (of unsigned formats, and of those without -0) all come last, in the order of their codes.
    So no two codes come before each other.

    >>> total_order([0x80, 0x00, 0x7F], [0x00, 0x80, 0x7E], "e4m3fn")
    array([ True, False, False])

    Parameters
    ----------
    x, y, fmt
        As for `equal`.

    Returns
    -------
    result : array of bool, shape (...)

    Source
    ------
    [IEEE754] 5.10.
    """
    known = catalog.format(fmt)
    result = np.asarray(_place(x, known) <= _place(y, known))
    return result[()] if not result.shape else result


def _place(codes: npt.ArrayLike, fmt: Format) -> Array:
    """An integer that orders all codes."""
    magnitude, negative, nan = _parts(codes, fmt)
    if fmt.sign is Sign.TWOS_COMPLEMENT:
        return _places(magnitude, negative, fmt)
    if not fmt.has_signed_nan:
        magnitude = np.where(nan & negative, magnitude | fmt.sign_code, magnitude)
        negative = negative & ~nan
    return np.where(negative, -1 - magnitude, magnitude)


def classify(codes: npt.ArrayLike, fmt: Like) -> Any:
    """What kind of number each code is, as one of `lowprec.Class`.

    >>> classify([0x00, 0x01, 0x80, 0xFE, 0x7F], "e4m3fn")
    array([4, 5, 3, 1, 9], dtype=uint8)

    Parameters
    ----------
    codes : array_like of integer, shape (...)
        As for `decode`.
    fmt : Format, str or dtype

    Returns
    -------
    classes : array of uint8, shape (...)
        0 to 9, in the order of RISC-V's fclass.

    Source
    ------
    [IEEE754] 5.7.2.
    """
    known = catalog.format(fmt)
    magnitude, negative, nan = _parts(codes, known)
    first_normal = 1 << known.trailing_bits if known.exponent_bits and known.subnormals else 0
    kind = np.full(magnitude.shape, Class.POSITIVE_NORMAL, np.uint8)
    kind[magnitude < first_normal] = Class.POSITIVE_SUBNORMAL
    if known.subnormals:
        kind[magnitude == 0] = Class.POSITIVE_ZERO
    if known.infinity:
        kind[magnitude == known.infinity_code] = Class.POSITIVE_INFINITY
    kind = np.where(negative, 7 - kind, kind)
    kind = np.where(nan, Class.QUIET_NAN, kind)
    kind = np.where(
        signaling_nans(codes_operand(codes, known).codes, known), Class.SIGNALING_NAN, kind
    ).astype(np.uint8)
    return kind[()] if not kind.shape else kind


# -- neighbours ----------------------------------------------------------------------------------------


def nextafter(x: npt.ArrayLike, y: npt.ArrayLike, fmt: Like) -> Any:
    """The value of a format next to x in the direction of y.

    Of a number between two values the one on that side; of y itself what y is rounded to. Beyond the
    extreme value lies infinity, or nothing: then it is the extreme value. Zero has the sign of x.

    >>> nextafter([1.0, 448.0, 0.0], [2.0, 1000.0, -1.0], "e4m3fn")
    array([ 1.125000e+00,  4.480000e+02, -1.953125e-03], dtype=float32)

    Parameters
    ----------
    x, y : array_like of float or integer, shapes that broadcast to (...)
        Integers of at most 53 bits.
    fmt : Format, str or dtype

    Returns
    -------
    values : array of float, shape (...)
        As from `decode`. NaN where x or y is NaN.

    Raises
    ------
    ValueError
        An integer that float64 does not hold.

    Source
    ------
    [IEEE754] 5.3.1, nextUp and nextDown.
    """
    known = catalog.format(fmt)
    start, toward = np.broadcast_arrays(_doubles(x), _doubles(y))
    negative = np.signbit(start)
    place, goal = _place_of(start), _place_of(toward)
    up, down = place < goal, place > goal
    inside: dict[str, Any] = {"saturation": "finite", "negative": "zero", "zero": "smallest", "nan": "max"}
    below = encode(start, known, projection=Projection(rounding=TOWARD_NEGATIVE, **inside))
    above = encode(start, known, projection=Projection(rounding=TOWARD_POSITIVE, **inside))
    # All are on their side of x, but where x lies beyond the extreme value: that is the result then.
    least, last = _extremes(known)
    low, high = (_places(*_parts(codes, known)[:2], known) for codes in (below, above))
    low_place, high_place = (
        _place_of(np.asarray(decode(codes, known, dtype="float64"))) for codes in (below, above)
    )
    upper = np.where(low_place > place, low, low + 1)
    lower = np.where(high_place < place, high, high - 1)
    if known.sign is Sign.MAGNITUDE and not known.subnormals:  # there is no zero to stop at
        upper, lower = np.where(upper == 0, 1, upper), np.where(lower == 0, -1, lower)
    upper = np.minimum(upper, last + known.infinity)
    lower = np.maximum(lower, least - (known.infinity and known.sign is not Sign.UNSIGNED))
    result = decode(_code(np.where(up, upper, lower), negative, known), known)
    policy: Any = "none" if known.infinity else "finite"
    same = Projection(saturation=policy, negative="zero", zero="smallest", nan="max")
    stays = decode(encode(toward, known, projection=same), known)
    result = np.where(up | down, result, stays)
    result = np.where(np.isnan(start) | np.isnan(toward), np.nan, result).astype(stays.dtype)
    return result[()] if not result.shape else result


def _place_of(values: Array) -> Array:
    """Integers in the order of float64 values, even if the processor flushes subnormals; both zeros are 0."""
    bits = np.asarray(values).view(np.int64)
    return np.where(bits < 0, -(bits & ((1 << 63) - 1)), bits)


def _extremes(fmt: Format) -> tuple[int, int]:
    """The places of the most negative and of the largest finite value."""
    if fmt.sign is not Sign.MAGNITUDE:
        return (0 if fmt.sign is Sign.UNSIGNED else -fmt.max_magnitude - 1), fmt.max_magnitude
    last = fmt.max_magnitude + (not fmt.subnormals)
    return -last, last


def _code(place: Array, negative: Array, fmt: Format) -> Array:
    """The codes of places; of zero with the sign that is given."""
    if fmt.sign is not Sign.MAGNITUDE:
        return (place & ((1 << fmt.width) - 1)).astype(code_dtype(fmt))
    minus = (place < 0) | ((place == 0) & negative & fmt.has_negative_zero)
    return ((np.abs(place) - (not fmt.subnormals)) | np.where(minus, fmt.sign_code, 0)).astype(
        code_dtype(fmt)
    )


def ulp(x: npt.ArrayLike, fmt: Like) -> Any:
    """The gap between values of a format at x: from the magnitude at or below it to the next.

    Below the smallest value it is the gap above that, past the largest the one above the largest.

    >>> ulp([0.0, 1.0, 1.9, 448.0], "e4m3fn")
    array([1.953125e-03, 1.250000e-01, 1.250000e-01, 3.200000e+01],
          dtype=float32)

    Parameters
    ----------
    x : array_like of float or integer, shape (...)
        As for `nextafter`.
    fmt : Format, str or dtype

    Returns
    -------
    gaps : array of float, shape (...)
        float32 where the format's own values are, else float64. NaN of infinities and NaN.
    """
    known = catalog.format(fmt)
    start = _doubles(x)
    bits = start.view(np.uint64) & np.uint64((1 << 63) - 1)
    field, fraction = (bits >> np.uint64(52)).astype(np.int64), bits & np.uint64((1 << 52) - 1)
    tiny = np.frexp(fraction.astype(np.float64))[1].astype(np.int64) - 1075
    exponent = np.where(field == 0, np.where(fraction == 0, -(1 << 20), tiny), field - 1023)
    last = np.maximum(np.minimum(exponent, known.emax), known.emin) - known.trailing_bits
    if not known.exponent_bits:
        last = np.full(exponent.shape, known.scaled(1)[1])
    normal = (np.maximum(last, -1022) + 1023).astype(np.uint64) << np.uint64(52)
    subnormal = np.uint64(1) << (np.minimum(last, -1023) + 1074).astype(np.uint64)
    gap = np.where(last >= -1022, normal, subnormal).view(np.float64)
    gap = np.where(field == 0x7FF, np.nan, gap)
    given, carrier = float_dtype(known)
    operand = Operand(gap.view(np.uint64), catalog.BINARY64, gap, True)
    return calls.convert(operand, carrier, DEFAULT, given)


def _doubles(values: npt.ArrayLike) -> Array:
    """Values as float64, which must hold them."""
    if lazy.is_lazy(values):
        raise TypeError(
            f"neighbours are found of NumPy arrays: compute the {type(values).__name__} first, or use its "
            "map_blocks"
        )
    operand = values_operand(values)
    if operand.array.dtype.kind in "iu" and operand.array.dtype.itemsize > 4:
        wide = operand.array.astype(np.float64)
        if (np.abs(wide) >= 1 << 53).any():
            raise ValueError(
                "integers of more than 53 bits are not compared with values: float64 does not hold them"
            )
        return wide
    exact = calls.convert(operand, catalog.BINARY64, DEFAULT, np.dtype(np.float64))
    return np.asarray(exact)
