"""Products that a table, or a multiplier, gives wrongly for two factors: read as others."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from lowprec.spec.format import Format
from lowprec.verify.questions.dots.stages import fault
from lowprec.verify.questions.dots.step_cuts import Numbers, lanes_of, multiplied, numbers_of
from lowprec.verify.questions.dots.step_model import Formats
from lowprec.verify.questions.question import Array, Batch, Question

__all__ = ["products_misread"]

#: Bits of significands, and of formats, whose products may come from a table.
_TABLE, _SHORT = 4, 4
#: Bits that the numbers of a pair are kept in.
_FAR = 16
#: Pairs of factors that are tried, those that fewest right results have.
_LIKELY = 3


def products_misread(
    question: Question, few: Batch, factors: Sequence[Array], right: Sequence[Array], formats: Formats
) -> Iterator[tuple[str, Callable[[Array], Any]]]:
    """Yield products that every one of some wrong results has, and few right ones, read as others.

    They are those of significands, and in formats of a few bits also those of magnitudes, in units of the
    smallest ones.

    Parameters
    ----------
    question : Question
    few : Batch
        The wrong results: some of these come of a product that is read so.
    factors, right : pairs of arrays
        x and y of the wrong results, and of right ones.
    formats : pair of Format
        Of x and y.
    """
    x, y = formats
    if x is None or y is None or max(x.precision, y.precision) > _TABLE:
        return
    sides, others = (
        [numbers_of(side, fmt) for side, fmt in zip(each, (x, y), strict=True)] for each in (factors, right)
    )
    for whole in (False, True) if max(x.width, y.width) <= _SHORT else (False,):
        units = [_least_of(fmt) if whole else None for fmt in (x, y)]
        pairs, of_right = (
            [_in_units(side, unit) for side, unit in zip(each, units, strict=True)]
            for each in (sides, others)
        )
        most = max(int(pairs[0].max() * pairs[1].max()).bit_length(), x.precision + y.precision)
        for swapped in (False, True):
            keys, held = _keys(pairs, swapped), _keys(of_right, swapped)
            found = [key for key in np.unique(keys).tolist() if (keys == key).any(1).all()]
            for key in sorted(found, key=lambda key: (held == key).any(1).mean())[:_LIKELY]:
                one, other = key >> _FAR, key & (1 << _FAR) - 1
                if not one * other or (swapped and one == other):
                    continue
                tried = {}
                for value in {*range(1 << most)} - {one * other}:
                    change = functools.partial(
                        _product_as, pair=(one, other), swapped=swapped, value=value, units=units
                    )
                    gives = question.answer(few, (fault("", products=change),)) == few.got
                    tried[value] = int(np.count_nonzero(gives)), change
                value, (count, change) = max(tried.items(), key=lambda item: item[1][0])
                if count:
                    said = f"{one} and {other}" if swapped else f"{one} of x and {other} of y"
                    of = "magnitudes, in units of the smallest," if whole else "significands"
                    words = f"products of the {of} {said} read as {value}, not {one * other}"
                    yield words, functools.partial(_product_in, change=change)


def _keys(sides: Sequence[Array], swapped: bool) -> Array:
    """Return pairs of factors as numbers, in either order as the same if they may be swapped."""
    one, other = sides
    pairs = one << _FAR | other
    return np.minimum(pairs, other << _FAR | one) if swapped else pairs


def _least_of(fmt: Format) -> int:
    """Return the exponent of the smallest number of a format."""
    return int(fmt.emin - fmt.trailing_bits)


def _in_units(side: Numbers, unit: int | None) -> Array:
    """Return significands, or magnitudes in units of a power of two."""
    return np.asarray(side.significand << (0 if unit is None else np.maximum(side.last - unit, 0)))


def _product_as(
    a: Numbers, b: Numbers, pair: tuple[int, int], swapped: bool, value: int, units: Sequence[int | None]
) -> tuple[Array, Array]:
    one, other = (_in_units(side, unit) for side, unit in zip((a, b), units, strict=True))
    whole, last = multiplied(a, b)
    here = (one == pair[0]) & (other == pair[1])
    here |= swapped & (one == pair[1]) & (other == pair[0])
    least = last if units[0] is None or units[1] is None else np.full_like(last, units[0] + units[1])
    return np.where(here, value, whole), np.where(here, least, last)


def _product_in(lanes: Array, change: Any) -> Callable[[Numbers, Numbers], tuple[Array, Array]]:
    def changed(a: Numbers, b: Numbers) -> tuple[Array, Array]:
        here = lanes_of(lanes, *a.negative.shape)
        pairs = zip(change(a, b), multiplied(a, b), strict=True)
        whole, last = (np.where(here, new, old) for new, old in pairs)
        return whole, last

    return changed
