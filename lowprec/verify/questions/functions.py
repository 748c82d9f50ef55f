"""The value of a function at exact operands, as the oracle has exact values.

The oracle has no functions: python-flint encloses them, and 128 bits of a value, rounded to odd, stand for
it.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Context, Decimal, localcontext
from fractions import Fraction

from lowprec.kernels.functions.tables import value_at
from lowprec.kernels.lower.kinds import FINITE, INFINITY
from lowprec.oracle.arith import Result
from lowprec.oracle.exact import Exact, Special, to_float
from lowprec.spec.projection import Flag
from lowprec.verify.codes.display import shown_value

__all__ = ["function_value", "shown_result"]

#: Exponents are cut to this: every format ends long before.
_FAR = 1 << 16


def function_value(name: str, operands: Sequence[Exact]) -> Result:
    """Return what a function gives before it is projected, and the flags that it raises.

    Parameters
    ----------
    name : str
        A key of `lowprec.spec.functions.FUNCTIONS`.
    operands : sequence of Fraction or Special
        Numbers that float64 holds.

    >>> function_value("exp2", [Fraction(-3)]).value
    Fraction(1, 8)
    >>> function_value("log", [Fraction(0)])
    Result(value=Special.NEGATIVE_INFINITY, signals=<Flag.DIVIDE_BY_ZERO: 8>)
    """
    kind, negative, high, low, exponent, raised = value_at(name, *map(to_float, operands))
    signals = Flag(raised)
    if kind == INFINITY:
        return Result(Special.NEGATIVE_INFINITY if negative else Special.INFINITY, signals)
    if kind != FINITE:
        return Result(Special.NAN, signals)
    whole = high << 64 | low
    if not whole:
        return Result(Special.NEGATIVE_ZERO if negative else Fraction(0), signals)
    value = whole * Fraction(2) ** max(-_FAR, min(_FAR, exponent - 64))
    return Result(-value if negative else value, signals)


def shown_result(value: Exact) -> str:
    """Return what a function gives, in words: a number of 128 bits stands for one of more, and is rounded.

    >>> shown_result(function_value("exp2", [Fraction(-3)]).value)
    '0.125 = 0x1p-3'
    >>> shown_result(function_value("exp", [Fraction(1000)]).value)
    'about 1.9700711140170470e+434'
    """
    if isinstance(value, Special) or value == 0:
        return shown_value(value)
    size, below = abs(value.numerator), value.denominator
    bits = size.bit_length() - below.bit_length()
    if abs(bits) > _FAR - 256:
        sign = "-" if value < 0 else ""
        return f"beyond {sign}2**{_FAR - 256}" if bits > 0 else f"between {sign}2**-{_FAR - 256} and 0"
    if (size // (size & -size)).bit_length() < 128:
        return shown_value(value)
    with localcontext(Context(prec=17, Emax=1 << 20, Emin=-(1 << 20))):
        return f"about {Decimal(value.numerator) / Decimal(below):.17g}"
