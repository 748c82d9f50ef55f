"""Comparisons of codes, their classes, and the neighbours of values: what integers alone decide.

Magnitudes are ordered as their values are, so a code is compared as an integer with a sign.

Floor 3.
"""

from __future__ import annotations

import functools
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
from lowprec.arrays.traverse import BUFFER, bits_of, run
from lowprec.kernels.engine import DONE
from lowprec.spec import catalog
from lowprec.spec.arith import Class
from lowprec.spec.format import Format, Sign
from lowprec.spec.projection import DEFAULT, Flag, Projection

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


# -- parts ---------------------------------------------------------------------------------------------


class _Parts:
    """A program, as `traverse.run` takes it, that NumPy runs on parts of arrays that stay in the caches."""

    def __init__(self, make: Callable[..., Array]) -> None:
        self._make = make

    def run(self, operands: list[Array], out: Array, flags: Array, random: Array, past: bool = False) -> int:
        """Write what is made of each part."""
        for start in range(0, out.size, BUFFER):
            part = slice(start, start + BUFFER)
            given = [array[part] if array.size == out.size else array for array in operands]
            if flags.size:
                out[part] = self._make(*given, flags[part])
            else:
                out[part] = self._make(*given)
        return DONE


def _run(make: Callable[..., Array], operands: list[Array], dtype: Any, flags: Array | None = None) -> Any:
    """What is made of arrays that broadcast, as patterns: of this type, or a single one."""
    result = np.empty(np.broadcast_shapes(*(array.shape for array in operands)), dtype)
    program: Any = _Parts(make)  # it is not asked to draw
    run(program, [bits_of(array) for array in operands], bits_of(result), flags)
    return result if result.shape else result[()]


# -- codes as integers ---------------------------------------------------------------------------------


def _parts(codes: Array, fmt: Format) -> tuple[Array, Array, Array]:
    """Magnitudes, whether codes are negative, and whether they are NaNs."""
    kept = code_dtype(fmt).type
    negative = (codes & kept(fmt.sign_code)) != 0
    # Magnitudes and their negatives, and one more: of 32 bits, these are integers of 32 bits with a sign.
    integer = fmt.sign is Sign.MAGNITUDE and fmt.subnormals and fmt.has_signed_nan
    signed = np.int16 if fmt.width <= 8 else np.int32 if fmt.width <= 16 or integer else np.int64
    if fmt.sign is Sign.TWOS_COMPLEMENT:
        extended: Array = _mask(negative, signed) << fmt.width
        extended |= codes.astype(signed)
        return _signed(extended, negative), negative, np.zeros(codes.shape, bool)
    magnitude = (codes & kept(((1 << fmt.width) - 1) & ~fmt.sign_code)).astype(signed)
    return magnitude, negative, nans(codes, fmt)


def _places(magnitude: Array, negative: Array, fmt: Format) -> Array:
    """Integers that are ordered as the values are; 0 is zero, and no value where the format has none."""
    place = magnitude + magnitude.dtype.type(fmt.sign is Sign.MAGNITUDE and not fmt.subnormals)
    return _signed(place, negative)


def _mask(negative: Array, dtype: Any) -> npt.NDArray[np.signedinteger[Any]]:
    """All ones where a truth holds: masks are several times as fast as choices."""
    return -negative.view(np.int8).astype(dtype)


def _signed(magnitude: Array, negative: Array) -> Array:
    """Magnitudes, negated where they are negative."""
    mask = _mask(negative, magnitude.dtype)
    return np.asarray((magnitude ^ mask) - mask)


def _codes(codes: npt.ArrayLike, fmt: Format) -> Array:
    """Codes, checked, in the type that `encode` returns."""
    return codes_operand(codes, fmt).codes.astype(code_dtype(fmt), copy=False)


# -- comparisons ---------------------------------------------------------------------------------------


def _compared(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    fmt: Like,
    relation: Callable[[Array, Array], Array] | None,
    quiet: bool,
    flags: object,
) -> Any:
    """A relation of ordered codes; false where either is NaN, which is signaled unless it is quiet.

    Without a relation, whether either is NaN.
    """
    known = catalog.format(fmt)
    operands = [_codes(codes, known) for codes in (x, y)]
    shape = np.broadcast_shapes(*(codes.shape for codes in operands))
    signals = output(flags, np.dtype(np.uint8), shape, "what is signaled", name="flags")

    def part(first: Array, second: Array, signals: Array | None = None) -> Array:
        left, right = _parts(first, known), _parts(second, known)
        nan = left[2] | right[2]
        if signals is not None:
            invalid = signaling_nans(first, known) | signaling_nans(second, known) if quiet else nan
            signals[...] = np.where(invalid, np.uint8(Flag.INVALID), np.uint8(0))
        if relation is None:
            return nan
        return np.asarray(relation(_places(*left[:2], known), _places(*right[:2], known)) & ~nan)

    return _run(part, operands, bool, signals)


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
    return _compared(x, y, fmt, None, True, flags)


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

    def part(first: Array, second: Array) -> Array:
        return np.asarray(_place(first, known) <= _place(second, known))

    return _run(part, [_codes(codes, known) for codes in (x, y)], bool)


def _place(codes: Array, fmt: Format) -> Array:
    """An integer that orders all codes."""
    magnitude, negative, nan = _parts(codes, fmt)
    if fmt.sign is Sign.TWOS_COMPLEMENT:
        return _places(magnitude, negative, fmt)
    if not fmt.has_signed_nan:
        magnitude = np.where(nan & negative, magnitude | fmt.sign_code, magnitude)
        negative = negative & ~nan
    return np.asarray(magnitude ^ _mask(negative, magnitude.dtype))


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
    if known.width > 16:
        return _run(lambda part: _kinds(part, known), [_codes(codes, known)], np.uint8)
    kinds = _all_kinds(known)
    return _run(kinds.take, [_codes(codes, known)], np.uint8)


@functools.lru_cache(maxsize=64)
def _all_kinds(fmt: Format) -> Array:
    """The classes of all codes of a narrow format."""
    return _kinds(np.arange(1 << fmt.width).astype(code_dtype(fmt)), fmt)


def _kinds(codes: Array, fmt: Format) -> Array:
    magnitude, negative, nan = _parts(codes, fmt)
    first_normal = 1 << fmt.trailing_bits if fmt.exponent_bits and fmt.subnormals else 0
    kind = np.full(magnitude.shape, Class.POSITIVE_NORMAL, np.uint8)
    kind[magnitude < first_normal] = Class.POSITIVE_SUBNORMAL
    if fmt.subnormals:
        kind[magnitude == 0] = Class.POSITIVE_ZERO
    if fmt.infinity:
        kind[magnitude == fmt.infinity_code] = Class.POSITIVE_INFINITY
    kind = np.where(negative, np.uint8(7) - kind, kind)
    kind[nan] = Class.QUIET_NAN
    kind[signaling_nans(codes, fmt)] = Class.SIGNALING_NAN
    return kind


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

    def part(start: Array, toward: Array) -> Array:
        first, second = np.broadcast_arrays(start.view(np.float64), toward.view(np.float64))
        made = _next(first, second, known)
        return made.view(f"u{made.itemsize}")

    return _run(part, [_doubles(x), _doubles(y)], float_dtype(known)[0])


def _next(start: Array, toward: Array, fmt: Format) -> Array:
    """The values next to some; see `nextafter`."""
    negative, place, goal = np.signbit(start), _place_of(start), _place_of(toward)
    up, down = place < goal, place > goal
    code = encode(start, fmt, projection=_nearest(fmt))
    found = _place_of(np.asarray(decode(code, fmt, dtype="float64")))
    # The nearest value, or its neighbour if that lies between it and the goal.
    near = _places(*_parts(code, fmt)[:2], fmt).astype(np.int32 if fmt.width <= 16 else np.int64)
    near = near + (up & (found <= place))
    near = near - (down & (found >= place)).view(np.int8)
    if fmt.sign is Sign.MAGNITUDE and not fmt.subnormals:  # there is no zero to stop at
        near = np.where(near == 0, np.where(up, 1, -1), near)
    least, last = _extremes(fmt)
    limits = least - (fmt.infinity and fmt.sign is not Sign.UNSIGNED), last + fmt.infinity
    result = np.asarray(decode(_code(np.clip(near, *limits), negative, fmt), fmt))
    stays = ~(up | down)
    if stays.any():
        result[stays] = decode(encode(toward[stays], fmt, projection=_nearest(fmt)), fmt)
    result[np.isnan(start) | np.isnan(toward)] = np.nan
    return result


@functools.lru_cache(maxsize=64)
def _nearest(fmt: Format) -> Projection:
    """How numbers become the nearest value; beyond the extreme one lies infinity, if the format has one."""
    if fmt.infinity and fmt.sign is Sign.MAGNITUDE and fmt.subnormals and fmt.has_nan:
        return DEFAULT
    return Projection(
        saturation="none" if fmt.infinity else "finite",
        negative="zero", zero="smallest", nan="max",
    )  # fmt: skip


def _place_of(values: Array) -> Array:
    """Integers in the order of float64 values, even if the processor flushes subnormals; both zeros are 0."""
    bits = np.asarray(values).view(np.int64)
    return _signed(bits & ((1 << 63) - 1), bits < 0)


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
    below = place >> (8 * place.itemsize - 1)  # all ones, or none
    magnitude = (place ^ below) - below - (not fmt.subnormals)
    if fmt.has_negative_zero:
        below = below | -(negative & (place == 0)).astype(place.dtype)
    return np.asarray(magnitude | (below & fmt.sign_code)).astype(code_dtype(fmt))


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
    gaps = _run(lambda bits: _gap(bits, known), [_doubles(x)], np.float64)
    given, carrier = float_dtype(known)
    operand = Operand(bits_of(np.asarray(gaps)), catalog.BINARY64, np.asarray(gaps), True)
    return calls.convert(operand, carrier, DEFAULT, given)


def _gap(bits: Array, fmt: Format) -> Array:
    """The gaps at binary64 numbers, as patterns of such; see `ulp`."""
    field = (bits >> np.uint64(52)).astype(np.int64) & 0x7FF
    exponent = field - 1023
    if fmt.emin < -1022 and not field.all():  # subnormal in binary64
        fraction = bits & np.uint64((1 << 52) - 1)
        tiny = np.frexp(fraction.astype(np.float64))[1].astype(np.int64) - 1075
        exponent = np.where(field == 0, np.where(fraction == 0, -(1 << 20), tiny), exponent)
    last = np.maximum(np.minimum(exponent, fmt.emax), fmt.emin) - fmt.trailing_bits
    if not fmt.exponent_bits:
        last = np.full(exponent.shape, fmt.scaled(1)[1])
    gap = (np.maximum(last, -1022) + 1023) << 52
    if fmt.emin - fmt.trailing_bits < -1022:
        subnormal = np.int64(1) << np.maximum(np.minimum(last, -1023) + 1074, 0)
        gap = np.where(last >= -1022, gap, subnormal)
    nan = int(np.array(np.nan).view(np.int64))
    return np.where(field == 0x7FF, nan, gap).view(np.uint64)


def _doubles(values: npt.ArrayLike) -> Array:
    """Values as float64, which must hold them."""
    if lazy.is_lazy(values):
        raise TypeError(
            f"neighbours are found of NumPy arrays: compute the {type(values).__name__} first, or use its "
            "map_blocks"
        )
    operand = values_operand(values)
    if operand.array.dtype.kind in "iu":
        wide = operand.array.astype(np.float64)
        if operand.array.dtype.itemsize > 4 and (np.abs(wide) >= 1 << 53).any():
            raise ValueError(
                "integers of more than 53 bits are not compared with values: float64 does not hold them"
            )
        return wide
    exact = calls.convert(operand, catalog.BINARY64, DEFAULT, np.dtype(np.float64))
    return np.asarray(exact)
