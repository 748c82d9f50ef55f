"""Exact values: a Fraction, or one of the few things that no Fraction is.

Floats go in and out by their bits. `Fraction(x)` would lose float64 subnormals in a process that
treats them as zero.

Floor 2a. Imports spec and the standard library.
"""

from __future__ import annotations

import enum
import math
import struct
from fractions import Fraction

from lowprec.spec.format import exact_float

__all__ = ["Exact", "Special", "from_float", "is_negative", "to_float"]


class Special(enum.Enum):
    """The values of codes and operands that are not Fractions."""

    NEGATIVE_ZERO = "-0"
    INFINITY = "+Inf"
    NEGATIVE_INFINITY = "-Inf"
    NAN = "NaN"
    NEGATIVE_NAN = "-NaN"

    def __repr__(self) -> str:
        return f"Special.{self.name}"


Exact = Fraction | Special

_NEGATIVE = (Special.NEGATIVE_ZERO, Special.NEGATIVE_INFINITY, Special.NEGATIVE_NAN)


def is_negative(value: Exact) -> bool:
    """Return whether the sign is minus, that of -0 and of NaNs included."""
    return value in _NEGATIVE if isinstance(value, Special) else value.numerator < 0


def from_float(value: float) -> Exact:
    """Return the exact value of a float64, read from its bits.

    >>> from_float(0.75), from_float(-0.0)
    (Fraction(3, 4), Special.NEGATIVE_ZERO)
    """
    (bits,) = struct.unpack("<Q", struct.pack("<d", value))
    negative, field, trailing = bits >> 63, bits >> 52 & 0x7FF, bits & (1 << 52) - 1
    if field == 0x7FF:
        if trailing:
            return Special.NEGATIVE_NAN if negative else Special.NAN
        return Special.NEGATIVE_INFINITY if negative else Special.INFINITY
    if field == trailing == 0:
        return Special.NEGATIVE_ZERO if negative else Fraction(0)
    significand = trailing | (1 << 52 if field else 0)
    exponent = max(field, 1) - 1075
    return scale(Fraction(-significand if negative else significand), exponent)


def scale(value: Fraction, exponent: int) -> Fraction:
    """Return value * 2**exponent."""
    return Fraction(value.numerator << max(exponent, 0), value.denominator << max(-exponent, 0))


def to_float(value: Exact) -> float:
    """Return the float64 that equals a value; every value of a format is one.

    >>> to_float(Fraction(3, 4)), to_float(Special.NEGATIVE_ZERO)
    (0.75, -0.0)
    """
    if isinstance(value, Special):
        return {
            Special.NEGATIVE_ZERO: -0.0,
            Special.INFINITY: math.inf,
            Special.NEGATIVE_INFINITY: -math.inf,
            Special.NAN: math.nan,
            Special.NEGATIVE_NAN: math.copysign(math.nan, -1.0),
        }[value]
    return exact_float(value.numerator, 1 - value.denominator.bit_length())
