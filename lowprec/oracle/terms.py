"""Terms of dot products: exact products, exact sums of many of them, and where their bits stand.

Floor 2a. Imports spec and the standard library.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import NamedTuple

from lowprec.oracle.arith import exact
from lowprec.oracle.exact import Exact, Special, is_negative, scale
from lowprec.spec.accumulation import Cut
from lowprec.spec.format import Format
from lowprec.spec.projection import DEFAULT
from lowprec.spec.rounding import Rounding

__all__ = ["Term", "cut", "exponent_of", "is_finite", "lead", "product", "scaled", "total"]

_NANS = (Special.NAN, Special.NEGATIVE_NAN)
_INFINITIES = (Special.INFINITY, Special.NEGATIVE_INFINITY)


class Term(NamedTuple):
    """A term of a sum. A NaN may yield to the NaN of another operand, as that of an invalid product does."""

    value: Exact
    yields: bool = False


def is_finite(value: Exact) -> bool:
    """Return whether a value is a number: a Fraction or -0."""
    return value not in _NANS and value not in _INFINITIES


# -- products and sums ------------------------------------------------------------------------------


def product(x: Exact, y: Exact) -> Term:
    """Return the exact product.

    >>> product(Fraction(3), Fraction(1, 4)), product(Fraction(0), Special.INFINITY)
    (Term(value=Fraction(3, 4), yields=False), Term(value=Special.NAN, yields=True))
    """
    result = exact("multiply", (x, y))
    return Term(result.value, bool(result.signals))


def scaled(term: Term, scales: Iterable[Exact]) -> Term:
    """Return the exact product of a term and its scales; a NaN of the term comes first, unless it yields."""
    for factor in scales:
        if factor in _NANS and (term.yields or term.value not in _NANS):
            term = Term(factor)
        else:
            times = product(term.value, factor)
            term = Term(times.value, times.yields or term.yields)
    return term


def total(terms: Sequence[Term], rounding: Rounding = DEFAULT.rounding) -> Term:
    """Return the infinitely precise sum; of two terms as `add`, of a product and a term as `fma`.

    A NaN is the first that does not yield, else the first. Zeros of one sign have that sign as their
    sum; the rounding mode says the sign of every other sum that is zero. Without terms it is +0.

    >>> total([Term(Fraction(1)), Term(Fraction(1, 3)), Term(Fraction(-4, 3))])
    Term(value=Fraction(0, 1), yields=False)

    Source: [IEEE754] 6.3, 7.2.
    """
    nans = [term for term in terms if term.value in _NANS]
    if nans:
        return next((term for term in nans if not term.yields), nans[0])
    infinities = {term.value for term in terms if term.value in _INFINITIES}
    if infinities:
        return Term(Special.NAN, True) if len(infinities) == 2 else Term(infinities.pop())
    number = sum((term.value for term in terms if isinstance(term.value, Fraction)), Fraction(0))
    if number:
        return Term(number)
    signs = {is_negative(term.value) for term in terms}
    negative = rounding.downward if len(signs) == 2 else signs == {True}
    return Term(Special.NEGATIVE_ZERO if negative else number)


# -- places -----------------------------------------------------------------------------------------


def lead(value: Fraction) -> int:
    """Return the exponent of a number that is not zero: floor(log2(abs(value))).

    >>> [lead(Fraction(value)) for value in (1, -3, "1/3")]
    [0, 1, -2]
    """
    size = abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    return exponent - (size < scale(Fraction(1), exponent))


def exponent_of(value: Exact, fmt: Format) -> int | None:
    """Return the exponent that a format writes a number with; None for zeros, infinities and NaNs.

    >>> from lowprec.spec.catalog import BINARY16
    >>> exponent_of(Fraction(3), BINARY16), exponent_of(Fraction(1, 1 << 20), BINARY16)
    (1, -14)
    """
    if isinstance(value, Special) or value == 0:
        return None
    return max(lead(value), fmt.emin)


def cut(value: Fraction, place: int, how: Cut = "toward_zero") -> Fraction:
    """Round to a multiple of 2**place: toward zero, down, to an odd one, or the nearest (halves away from 0).

    >>> [int(cut(Fraction(-5, 2), 0, how)) for how in ("toward_zero", "floor", "to_odd", "nearest_away")]
    [-2, -3, -3, -3]
    """
    units = scale(value, -place)
    whole = units.numerator // units.denominator
    if how == "toward_zero" and value < 0:
        whole = -(-units.numerator // units.denominator)
    if how == "to_odd" and units != whole:
        whole += whole % 2 == 0  # of the two on either side
    if how == "nearest_away":
        size = math.floor(abs(units) + Fraction(1, 2))
        whole = -size if units < 0 else size
    return scale(Fraction(whole), place)
