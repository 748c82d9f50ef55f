"""Windows by definition: terms are cut to the place that the largest exponent gives, summed, rounded once.

Floor 2a. Imports spec and the standard library.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import NamedTuple

from lowprec.oracle.exact import Exact, Special, scale
from lowprec.oracle.terms import Term, cut, exponent_of, is_finite, product, scaled, total
from lowprec.spec.accumulation import Rounded, Window
from lowprec.spec.format import Format

__all__ = ["Factors", "Project", "run"]

#: Projects a sum into a format, as the value that it has there.
Project = Callable[[Exact, Rounded], Exact]


class Factors(NamedTuple):
    """Operands, their formats, and of operands in blocks their scales."""

    x: Sequence[Exact]
    y: Sequence[Exact]
    formats: tuple[Format, Format]
    scales: tuple[Sequence[Exact], Sequence[Exact], int] | None = None
    scale_format: Format | None = None

    def product(self, place: int) -> Exact:
        """Return the product of two elements, without their scales."""
        return product(self.x[place], self.y[place]).value

    def exponent(self, place: int) -> int | None:
        """Return the sum of the exponents of two elements."""
        return _sum_of_exponents([(self.x[place], self.formats[0]), (self.y[place], self.formats[1])])

    def scales_of(self, place: int) -> list[Exact]:
        """Return the two scales that an element's product has, or none."""
        if self.scales is None:
            return []
        return [of_one[place // self.scales[2]] for of_one in self.scales[:2]]

    def scale_exponent(self, place: int) -> int | None:
        """Return the sum of the exponents of both scales."""
        return _sum_of_exponents([(value, self.scale_format) for value in self.scales_of(place)])


class _Aligned(NamedTuple):
    """A term of a window, and the exponent that it counts with."""

    value: Exact
    exponent: int | None


def run(
    places: Sequence[int], factors: Factors, window: Window, start: Exact, fmt: Format, project: Project
) -> Exact:
    """Return the sum of the products at these places and of `start`, a value of `fmt`, step after step.

    Source: [MMASIM], [KHATTAK], [FASI].
    """
    running = start
    for step in _steps(places, window):
        terms = _terms(step, factors, window)
        running = _step([*terms, _Aligned(running, exponent_of(running, fmt))], window, project)
        fmt = window.result[0]
    return running


def _steps(places: Sequence[int], window: Window) -> list[Sequence[int]]:
    """Return the places of each step; none is empty."""
    if window.groups == "consecutive":
        return [places[first : first + window.step] for first in range(0, len(places), window.step)]
    steps: list[Sequence[int]] = []
    for first in range(0, len(places), 2 * window.step):
        both = places[first : first + 2 * window.step]
        steps += [[place for index, place in enumerate(both) if index >> 1 & 1 == half] for half in (0, 1)]
    return [step for step in steps if step]


def _terms(places: Sequence[int], factors: Factors, window: Window) -> list[_Aligned]:
    """Return the terms that a step adds to the running sum: products, or sums of groups of them."""
    if window.scales == "groups":
        groups = [places[first : first + window.group] for first in range(0, len(places), window.group)]
        return [_group(group, factors) for group in groups]
    terms = []
    for place in places:
        value = scaled(Term(factors.product(place)), factors.scales_of(place)).value
        exponents = [factors.exponent(place)]
        if window.scales == "products":
            exponents.append(factors.scale_exponent(place))
        terms.append(_Aligned(value, _added(exponents)))
    return terms


def _group(places: Sequence[int], factors: Factors) -> _Aligned:
    """Return the exact sum of products times their scales; its exponent counts even where products cancel."""
    products = [factors.product(place) for place in places]
    value = scaled(total([Term(each) for each in products]), factors.scales_of(places[0])).value
    counts = any(factors.exponent(place) is not None for place in places)
    return _Aligned(value, factors.scale_exponent(places[0]) if counts else None)


def _step(terms: Sequence[_Aligned], window: Window, project: Project) -> Exact:
    exact = total([Term(term.value) for term in terms]).value
    if not is_finite(exact):
        nan = exact in (Special.NAN, Special.NEGATIVE_NAN)
        return project(Special.NAN if nan else exact, window.result)
    numbers = [term.value for term in terms if isinstance(term.value, Fraction)]
    if window.fraction_bits is not None:
        exponent = max(
            [window.lowest_exponent, *(term.exponent for term in terms if term.exponent is not None)]
        )
        numbers = [cut(number, exponent - window.fraction_bits, window.cut) for number in numbers]
    number = sum(numbers, Fraction(0))
    if abs(number) >= scale(Fraction(1), window.result[0].emax + 1):
        return project(Special.INFINITY if number > 0 else Special.NEGATIVE_INFINITY, window.result)
    result = project(number, window.result)
    return Fraction(0) if result is Special.NEGATIVE_ZERO and not window.negative_zero else result


def _sum_of_exponents(factors: Sequence[tuple[Exact, Format | None]]) -> int | None:
    return _added([None if fmt is None else exponent_of(value, fmt) for value, fmt in factors])


def _added(exponents: Sequence[int | None]) -> int | None:
    """Return the sum of exponents, or None if any is None."""
    return None if None in exponents else sum(exponent for exponent in exponents if exponent is not None)
