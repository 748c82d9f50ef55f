"""Comparisons, neighbours and classes by definition: by the values of codes.

Floor 2a. Imports spec and the standard library.
"""

from __future__ import annotations

from bisect import bisect_right
from fractions import Fraction

from lowprec.oracle.convert import decode, is_subnormal, project, value_of
from lowprec.oracle.exact import Exact, Special, is_negative
from lowprec.oracle.flags import is_signaling
from lowprec.spec.arith import Class
from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Format
from lowprec.spec.projection import Projection, Saturation

__all__ = ["classify", "compare", "nextafter", "total_order", "ulp"]

_NANS = (Special.NAN, Special.NEGATIVE_NAN)
_ENDS = {Special.NEGATIVE_INFINITY: -1, Special.INFINITY: 1}


def compare(x: Exact, y: Exact) -> int | None:
    """Return -1, 0 or 1 where x is less than, equal to or greater than y; None where they are unordered.

    >>> compare(Special.NEGATIVE_ZERO, Fraction(0)), compare(Special.NAN, Fraction(0))
    (0, None)
    """
    if x in _NANS or y in _NANS:
        return None
    left, right = ((_ENDS.get(value, 0), _finite(value)) for value in (x, y))  # type: ignore[arg-type]
    return (left > right) - (left < right)


def _finite(value: Exact) -> Fraction:
    return Fraction(0) if isinstance(value, Special) else Fraction(value)


def total_order(x: int, y: int, fmt: Format) -> bool:
    """Return whether x comes before y, or is y, in the order of all codes.

    -NaN, -Inf, the numbers with -0 before +0, +Inf, +NaN; among positive NaNs signaling ones first,
    then by payload, and the other way round among negative ones. NaNs without a sign come last, by code.

    Source: [IEEE754] 5.10.
    """

    def key(code: int) -> tuple[int, Fraction, int]:
        value = decode(code, fmt)
        if value in _NANS:
            if value is Special.NEGATIVE_NAN:
                return -2, Fraction(-code), 0
            return 2, Fraction(code), 0
        return _ENDS.get(value, 0), _finite(value), int(not is_negative(value))  # type: ignore[arg-type]

    return key(x) <= key(y)


def nextafter(x: Exact, y: Exact, fmt: Format) -> int | None:
    """Return the code of the value next to x in the direction of y; None where there is none, as of NaN.

    Between two values it is the one on that side; where x equals y it is y, rounded. Next to the extreme
    value is infinity or, in formats without one, the extreme value itself. Zero has the sign of x.

    >>> from lowprec.spec.catalog import E4M3FN
    >>> nextafter(Fraction(1), Fraction(2), E4M3FN), nextafter(Fraction(448), Special.INFINITY, E4M3FN)
    (57, 126)
    """
    direction = compare(y, x)
    if direction is None:
        return None
    if direction == 0:
        policy = Saturation.NONE if fmt.infinity else Saturation.FINITE
        return project(y, fmt, Projection(saturation=policy, negative="zero", zero="smallest"))
    by_value: dict[tuple[int, Fraction], list[int]] = {}
    for code in range(1 << fmt.width):
        value = decode(code, fmt)
        if value not in _NANS:
            by_value.setdefault((_ENDS.get(value, 0), _finite(value)), []).append(code)  # type: ignore[arg-type]
    values = sorted(by_value)
    place = _ENDS.get(x, 0), _finite(x)  # type: ignore[arg-type]
    if direction > 0:
        found = next((value for value in values if value > place), values[-1])
    else:
        found = next((value for value in reversed(values) if value < place), values[0])
    codes = by_value[found]
    return next((code for code in codes if is_negative(decode(code, fmt)) == is_negative(x)), codes[0])


def ulp(x: Exact, fmt: Format) -> Fraction | None:
    """Return the gap from the magnitude at or below x to the next, past the largest on the continued grid.

    Below the smallest value it is the gap above that, past the largest the one above the largest. None
    for infinities and NaNs.

    >>> from lowprec.spec.catalog import E4M3FN
    >>> ulp(Fraction(3, 2), E4M3FN), ulp(Fraction(0), E4M3FN)
    (Fraction(1, 8), Fraction(1, 512))
    """
    if isinstance(x, Special) and x is not Special.NEGATIVE_ZERO:
        return None
    size = abs(_finite(x))
    if isinstance(fmt, Codebook):
        ray = fmt.ray(is_negative(x))
        sizes = [Fraction(each) for each in (*ray.sizes, *(() if ray.beyond is None else (ray.beyond,)))]
        place = min(max(bisect_right(sizes, size) - 1, 0), len(sizes) - 2)
        return sizes[place + 1] - sizes[place]
    magnitude = max(
        bisect_right(range(fmt.max_magnitude + 1), size, key=lambda place: value_of(place, fmt)) - 1, 0
    )
    return value_of(magnitude + 1, fmt) - value_of(magnitude, fmt)


def classify(code: int, fmt: Format) -> Class:
    """Return the class of a code's number.

    >>> from lowprec.spec.catalog import BINARY16
    >>> classify(0x0001, BINARY16), classify(0xFC00, BINARY16)
    (<Class.POSITIVE_SUBNORMAL: 5>, <Class.NEGATIVE_INFINITY: 0>)

    Source: [IEEE754] 5.7.2.
    """
    value = decode(code, fmt)
    if value in _NANS:
        return Class.SIGNALING_NAN if is_signaling(code, fmt) else Class.QUIET_NAN
    if value in _ENDS:
        kind = 0
    elif value == 0 or isinstance(value, Special):
        kind = 3
    else:
        kind = 2 if is_subnormal(code, fmt) else 1
    return Class(kind if is_negative(value) else 7 - kind)
