"""Enclosures of real numbers, proven: 128 bits of a number, rounded to odd.

python-flint's balls of real numbers (Arb) enclose a value; their precision is raised until all of a ball
has the same 128 bits. What is exactly a binary fraction never gets there, so these cases come first: by
algebra, and by the theorems of Lindemann and Weierstrass, and of Niven, they are all. Of `erf`, `gelu` and
their like nobody has proven that there are none but at zero: precision would be raised to a limit, and then
an error says so.

Floor 2b. Imports python-flint when it is first needed. Source: [ARB].
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

from lowprec.kernels.lower.kinds import FINITE, GENERATED, INFINITY
from lowprec.spec.projection import Flag

__all__ = [
    "INVALID",
    "Bounds",
    "Value",
    "enclosed",
    "exact",
    "flint",
    "infinity",
    "of_bits",
    "pole",
    "zero",
]

#: Bits that are tried first, and at most.
_PRECISION, _MOST = 160, 1 << 17

#: Exponents beyond are as good as infinite.
_FAR = 1 << 40

_MASK = (1 << 64) - 1

#: Numbers that a value lies between, and is neither of.
Bounds = tuple[Fraction | None, Fraction | None]


class Value(NamedTuple):
    """Result of a function, as kernels know numbers."""

    kind: int
    negative: bool
    high: int = 0
    low: int = 0
    exponent: int = 0
    raised: int = 0


INVALID = Value(GENERATED, False, raised=int(Flag.INVALID))


def flint() -> Any:
    """Return python-flint, or say how to install it."""
    try:
        import flint
    except ImportError as error:
        raise ImportError(
            "functions need python-flint, which encloses their values: pip install 'lowprec[functions]'"
        ) from error
    return flint


def pole(negative: bool) -> Value:
    """Return the infinity of a pole, which signals a division by zero."""
    return Value(INFINITY, negative, raised=int(Flag.DIVIDE_BY_ZERO))


def infinity(negative: bool) -> Value:
    """Return an infinity."""
    return Value(INFINITY, negative)


def zero(negative: bool = False) -> Value:
    """Return a zero."""
    return Value(FINITE, negative)


def exact(number: Fraction) -> Value:
    """Return a rational number, rounded to odd."""
    if number == 0:
        return zero()
    size, below = abs(number.numerator), number.denominator
    shift = size.bit_length() - below.bit_length() - 128
    quotient, rest = divmod(size << max(-shift, 0), below << max(shift, 0))
    while quotient.bit_length() < 128:
        shift -= 1
        quotient, rest = divmod(size << max(-shift, 0), below << max(shift, 0))
    if quotient.bit_length() > 128:
        rest |= quotient & 1
        quotient, shift = quotient >> 1, shift + 1
    return of_bits(quotient | (rest != 0), shift, number < 0)


def of_bits(bits: int, exponent: int, negative: bool) -> Value:
    """Return a number of 128 bits, and the exponent of its last one."""
    place = max(-_FAR, min(_FAR, exponent + 64))
    return Value(FINITE, negative, bits >> 64, bits & _MASK, place)


def enclosed(name: str, make: Callable[[Any], Any], between: Bounds = (None, None)) -> Value:
    """Return a value that is no binary fraction: `make` encloses it, given the arithmetic of balls.

    It lies `between` two numbers, if given, and is neither.
    """
    module = flint()
    before, precision = module.ctx.prec, _PRECISION
    try:
        while precision <= _MOST:
            module.ctx.prec = precision
            found = _decided(make(module.arb), between)
            if found is not None:
                return found
            precision *= 2
    finally:
        module.ctx.prec = before
    raise ValueError(
        f"a value of {name} could not be decided with {_MOST:,} bits: it may be a binary fraction of which "
        "nobody has proven that there is none"
    )


def _decided(ball: Any, between: Bounds) -> Value | None:
    """Return the 128 leading bits that all numbers of a ball between the bounds have, or None."""
    if not ball.is_finite():
        return None
    (middle, place), (radius, tiny) = (
        tuple(int(part) for part in each.man_exp()) for each in (ball.mid(), ball.rad())
    )
    if radius == 0:
        return exact(Fraction(middle) * Fraction(2) ** place) if abs(place) < 1 << 16 else None
    if middle == 0:
        place = tiny
    if place - tiny > 1 << 16:  # a radius of nothing beside the number
        radius, tiny = 1, place - (1 << 16)
    if tiny - place > _MOST:  # a number of nothing beside its radius, as erfc has where it is tiny
        middle, place, radius = 0, tiny, radius + 1
    last = min(place, tiny)
    center, reach = middle << (place - last), radius << (tiny - last)
    low, high = center - reach, center + reach
    above, below = between
    negative = high < 0 or (below is not None and below <= 0)
    if negative:
        low, high, above, below = -high, -low, _negated(below), _negated(above)
    found = _common(low, high, last, negative)
    if found is None and high.bit_length() + last < -_FAR and None not in between and 0 in between:
        return of_bits(1 << 127 | 1, -2 * _FAR, negative)  # not zero, and below every number of a format
    if found is None and abs(last) < 1 << 18:  # not far from numbers that it cannot be
        unit = Fraction(2) ** last
        if above is not None:
            low = max(low, math.floor(above / unit))
        if below is not None:
            high = min(high, math.ceil(below / unit) - 1)
        found = _common(low, high, last, negative)
    return found


def _common(low: int, high: int, last: int, negative: bool) -> Value | None:
    """Return the 128 leading bits of all numbers between two, which none of them is exactly, or None."""
    down = low.bit_length() - 128
    if low <= 0 or down <= 0 or low >> down != high >> down:
        return None
    return of_bits(low >> down | 1, last + down, negative)


def _negated(bound: Fraction | None) -> Fraction | None:
    return None if bound is None else -bound
