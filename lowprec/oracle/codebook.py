"""Codebooks by definition: a code's value is looked up, and rounding searches among the values of one sign.

Floor 2a. Imports spec and the standard library.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from fractions import Fraction

from lowprec.oracle.exact import Exact, Special
from lowprec.oracle.rounding import is_farther
from lowprec.spec.codebook import Codebook, Ray
from lowprec.spec.format import Sign
from lowprec.spec.projection import Flag, Projection, Saturation
from lowprec.spec.rounding import NEAREST_EVEN, Rounding

__all__ = ["check", "decode", "flags", "points", "position", "project"]


def decode(code: int, fmt: Codebook) -> Exact:
    """Return the number that a code of a codebook stands for."""
    value = fmt.values[code]
    if math.isnan(value):
        return Special.NAN
    if math.isinf(value):
        return Special.INFINITY if value > 0 else Special.NEGATIVE_INFINITY
    if value == 0 and math.copysign(1, value) < 0:
        return Special.NEGATIVE_ZERO
    return Fraction(value)


def check(fmt: Codebook, projection: Projection) -> None:
    """Refuse what is asked of binary formats only, and a NaN for which there is no code."""
    if projection.binary_only:
        raise ValueError(f"{projection.binary_only} means nothing for {fmt.name!r}, which is a codebook")
    if projection.lacks_nan(fmt):
        raise ValueError(f"NaN cannot become {projection.nan!r} in {fmt.name!r}, which has no such code")


def project(value: Exact, negative: bool, fmt: Codebook, projection: Projection, random: int | None) -> int:
    """Return the code of a number; see `convert.project`, which has checked the arguments."""
    if value in (Special.NAN, Special.NEGATIVE_NAN):
        return _nan(negative and projection.nan_sign == "keep", fmt, projection)
    ray = fmt.ray(negative)
    if isinstance(value, Special) and value is not Special.NEGATIVE_ZERO:
        beyond = projection.saturation is not Saturation.FINITE
        return _beyond(negative, fmt, projection) if beyond else _last(negative, fmt, projection)
    if value is Special.NEGATIVE_ZERO or value == 0:
        if not _is_between(fmt):
            return _zero(negative, fmt, projection)
        value, negative, ray = Fraction(0), False, fmt.ray(False)
    place, _ = _rounded(abs(value), ray, negative, fmt, projection, random)
    if place == len(ray.sizes):
        saturates = projection.saturation is not Saturation.NONE
        return _last(negative, fmt, projection) if saturates else _beyond(negative, fmt, projection)
    if negative and fmt.sign is Sign.UNSIGNED and ray.sizes[place] != 0:
        return _negative_of_unsigned(ray.codes[place], fmt, projection)
    return ray.codes[place]


def flags(value: Exact, negative: bool, fmt: Codebook, projection: Projection, random: int | None) -> int:
    """Return what the conversion of a number signals; see `flags.flags`."""
    if value in (Special.NAN, Special.NEGATIVE_NAN):
        return 0 if fmt.has_nan else int(Flag.INVALID)
    if isinstance(value, Special) and value is not Special.NEGATIVE_ZERO:
        return 0 if fmt.infinity_codes[negative] is not None else int(Flag.INVALID)
    ray = fmt.ray(negative)
    if value is Special.NEGATIVE_ZERO or value == 0:
        return int(Flag.INEXACT if _is_between(fmt) else 0 if fmt.subnormals else Flag.INVALID)
    place, beyond = _rounded(abs(value), ray, negative, fmt, projection, random)
    if negative and fmt.sign is Sign.UNSIGNED and (place == len(ray.sizes) or ray.sizes[place] != 0):
        return int(Flag.INVALID)
    if beyond:
        return int(Flag.OVERFLOW | Flag.INEXACT)
    if 0 < abs(value) < ray.sizes[0]:
        return int(Flag.UNDERFLOW | Flag.INEXACT)
    return 0 if ray.sizes[place] == abs(value) else int(Flag.INEXACT)


def points(fmt: Codebook, negative: bool) -> set[Fraction]:
    """Return the positive numbers of one sign where rounding may change its answer."""
    ray = fmt.ray(negative)
    found = {Fraction(each) for each in (*ray.sizes, *ray.thresholds, ray.beyond) if each is not None}
    return {each for each in found if 0 < each < 1 << 1024}


def position(size: Fraction, fmt: Codebook, negative: bool) -> tuple[Fraction | None, bool]:
    """Return the tail of a positive number, and whether it lies past the last value, as `convert` does."""
    ray = fmt.ray(negative)
    place, last = bisect_right(ray.sizes, size) - 1, len(ray.sizes) - 1
    if place < 0 or (place == last and ray.beyond is not None and size >= ray.beyond):
        return None, place == last
    low, high, threshold = ray.sizes[place], ray.size(place + 1), ray.thresholds[place]
    if size == low or high is None or threshold is None:
        return Fraction(int(size != low), 4), place == last
    return _tail(
        size, Fraction(low), Fraction(high), Fraction(threshold), fmt.mode(NEAREST_EVEN)
    ), place == last


def _rounded(
    size: Fraction, ray: Ray, negative: bool, fmt: Codebook, projection: Projection, random: int | None
) -> tuple[int, bool]:
    """Return the place that a positive number is rounded to, one past the last if that is no number.

    And whether it overflows: rounding toward zero gives the last value even then.
    """
    nearer = max(bisect_right(ray.sizes, size) - 1, 0)
    low, last = Fraction(ray.sizes[nearer]), len(ray.sizes) - 1
    if size <= low:
        return nearer, False
    mode = fmt.mode(projection.rounding)
    odd = ray.codes[nearer] % 2 == 1
    if nearer == last:
        if projection.overflow_test == "before":
            return last + 1, True
        if ray.beyond is None:
            return last, False
        if size >= ray.beyond:
            return last + is_farther(Fraction(1), mode, negative=negative, odd=odd, random=random), True
    high, threshold = ray.size(nearer + 1), ray.thresholds[nearer]
    assert high is not None, "it has no end"
    assert threshold is not None, "it has no end"
    tail = _tail(size, low, Fraction(high), Fraction(threshold), mode)
    farther = is_farther(tail, mode, negative=negative, odd=odd, random=random)
    return nearer + farther, nearer + farther > last


def _tail(size: Fraction, low: Fraction, high: Fraction, threshold: Fraction, mode: Rounding) -> Fraction:
    """Return where a number lies in its gap, as a mode asks: the threshold is at one half to nearest."""
    if mode.bits:
        return (size - low) / (high - low)
    if size == threshold:
        return Fraction(1, 2)
    return Fraction(1, 4) if size < threshold else Fraction(3, 4)


def _is_between(fmt: Codebook) -> bool:
    """Return whether zero lies between two values, so that it is rounded to one of them."""
    return fmt.ray(False).sizes[0] < 0


def _last(negative: bool, fmt: Codebook, projection: Projection) -> int:
    code = fmt.ray(negative).codes[-1]
    if negative and fmt.sign is Sign.UNSIGNED:
        return _negative_of_unsigned(code, fmt, projection)
    return code


def _beyond(negative: bool, fmt: Codebook, projection: Projection) -> int:
    """Return infinity if there is one, else NaN, else the extreme value."""
    if negative and fmt.sign is Sign.UNSIGNED:
        if projection.negative != "drop_sign":
            return _negative_of_unsigned(0, fmt, projection)
        negative = False
    infinity = fmt.infinity_codes[negative]
    if infinity is not None:
        return infinity
    if fmt.nan_code is not None:
        return fmt.nan_code if projection.nan_code is None else projection.nan_code
    return fmt.ray(negative).codes[-1]


def _negative_of_unsigned(code: int, fmt: Codebook, projection: Projection) -> int:
    if projection.negative == "error":
        raise ValueError(f"a negative number has no code in {fmt.name!r}, which is unsigned")
    if projection.negative == "drop_sign":
        return code
    if projection.negative == "nan" and fmt.nan_code is not None:
        return fmt.nan_code if projection.nan_code is None else projection.nan_code
    return _zero(False, fmt, projection)


def _zero(negative: bool, fmt: Codebook, projection: Projection) -> int:
    if fmt.subnormals:
        return fmt.ray(negative and fmt.has_negative_zero).codes[0]
    if projection.zero == "smallest" or fmt.nan_code is None:
        return fmt.ray(False).codes[0]
    return fmt.nan_code if projection.nan_code is None else projection.nan_code


def _nan(negative: bool, fmt: Codebook, projection: Projection) -> int:
    own = fmt.nan_code if projection.nan_code is None else projection.nan_code
    if own is not None:
        return own
    if projection.nan == "error":
        raise ValueError(f"NaN has no code in {fmt.name!r}")
    if projection.nan == "max":
        return fmt.ray(negative and fmt.sign is not Sign.UNSIGNED).codes[-1]
    return _zero(negative or projection.nan == "negative_zero", fmt, projection)
