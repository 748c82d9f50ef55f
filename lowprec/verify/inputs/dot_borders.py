"""Cases of dot units that random operands seldom make.

They are zeros of large factors, addends far below ties, sums that cancel, exponents one place apart, and ties
of a narrow output.

Notation as in `lowprec.verify.inputs.dots`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["borders"]

Array = npt.NDArray[Any]
Terms = tuple[Array, Array, Array]

#: Cases of a recipe, at least: as many as bits that cancel, and as places of an addend, twice.
_LEAST = 48


def _zero_of_large_factors(aim: Any, n: int) -> Terms:
    """Return zero times the largest factor, in each lane by turns, beside products that are smaller."""
    rows, lane, formats = np.arange(n), aim.turns(n), aim.shape.formats
    of_x = rows // aim.lanes % 2 == 0
    largest = np.where(of_x, formats[0].emin + formats[1].emax, formats[0].emax + formats[1].emin)
    top = np.clip(largest - aim.random.integers(1, aim.places + 4, n), aim.low, aim.top_high)
    x, y = aim.factors(top[:, None] - aim.less(n, 4, 0))
    powers = rows // (2 * aim.lanes) % 2 == 1
    large = [aim.signs(n) * np.where(powers, 2.0**fmt.emax, fmt.max_finite) for fmt in formats]
    x[rows, lane], y[rows, lane] = np.where(of_x, 0.0, large[0]), np.where(of_x, large[1], 0.0)
    return x, y, aim.sometimes(aim.addends(top - aim.random.integers(0, 4, n)))


def _far_below_tie(aim: Any, n: int) -> Terms:
    """Return two products that make a tie, and an addend below both that decides it."""
    rows, lane = np.arange(n), aim.turns(n)
    top = aim.random.integers(min(aim.low + aim.precision, aim.top_high), aim.top_high, n, endpoint=True)
    exponents = np.repeat(top[:, None], aim.lanes, 1)
    other = (lane + aim.random.integers(1, max(aim.lanes, 2), n)) % aim.lanes
    exponents[rows, other] = top - aim.precision
    exponents[rows, lane] = top
    kept = np.zeros((n, aim.lanes), bool)
    kept[rows, lane] = kept[rows, other] = True
    x, y = (np.abs(factors) for factors in aim.factors(exponents, 0))
    x *= aim.signs(n, 1)
    below = aim.precision + 1 + rows // 2 % max(aim.places + 4, 24)
    addends = np.ldexp(aim.signs(n), np.maximum(top - below, aim.shape.addend.scaled(1)[1]))
    return np.where(kept, x, 0.0), y, addends


def _cancelled_bits(aim: Any, n: int) -> Terms:
    """Return a product and an addend whose sum has 1, 2, 3 and more bits fewer than they have, by turns."""
    rows, lane = np.arange(n), aim.turns(n)
    top = aim.tops(n)
    x, y = aim.factors(np.repeat(top[:, None], aim.lanes, 1))
    kept = np.zeros(x.shape)
    kept[rows, lane] = x[rows, lane]
    product = kept[rows, lane] * y[rows, lane]
    bits = 1 + rows % max(aim.shape.addend.precision - 1, 1)
    return kept, y, -product * (1 + aim.signs(n) * np.ldexp(0.75, -bits))


def _one_place_apart(aim: Any, n: int) -> Terms:
    """Return two neighbours one exponent apart, half a last place of their sum, and a bit below the window.

    Each lane by turns has the larger exponent, in a third of the cases alone. Were it missed, the window
    would keep the bit below it.
    """
    rows, lane = np.arange(n), aim.turns(n)
    least, group = min(aim.low + aim.places + 2, aim.top_high), np.arange(n) // aim.lanes
    top = aim.random.integers(least, aim.top_high, n, endpoint=True)
    top -= (top + group) % 2 * (top > least)
    exponents, kept = np.repeat(top[:, None] - aim.places - 1, aim.lanes, 1), np.zeros((n, aim.lanes), bool)
    below = lane ^ 2
    for place, exponent, some in (
        (below, top - aim.places - 1, group >= 0),
        (lane ^ 1, top - 1, group // 2 % 3 < 2),
    ):
        inside = (place < aim.lanes) & some
        kept[rows[inside], place[inside]] = True
        exponents[rows[inside], place[inside]] = exponent[inside]
    kept[rows, lane], exponents[rows, lane] = True, top
    x, y = (np.abs(factors) for factors in aim.factors(exponents, 0))
    x[rows, np.minimum(below, aim.lanes - 1)] *= np.where((group // 2 % 3 == 1) & (below < aim.lanes), -1, 1)
    return np.where(kept, x, 0.0), y, np.ldexp(1.0, top - aim.precision)


def _tie_of_output(aim: Any, n: int) -> Terms:
    """Return an addend between two values of the output, and a product about the last place of the sum."""
    rows, lane, output = np.arange(n), aim.turns(n), aim.shape.how.output[0]
    last = aim.random.integers(aim.low, aim.high, n, endpoint=True)
    most = min(aim.shape.addend.emax, aim.shape.result.emax, output.emax) - 1
    top = np.minimum(last + aim.precision + rows // aim.lanes % 4 - 1, most)
    x, y = aim.factors(np.repeat(last[:, None], aim.lanes, 1), 0)
    kept = np.zeros(x.shape)
    kept[rows, lane] = x[rows, lane]
    places = np.ldexp(1.0, 1 - output.precision)
    halves = 1 + (aim.random.integers(0, 1 << output.trailing_bits, n) + 0.5) * places
    return kept, y, np.ldexp(aim.signs(n) * halves, top)


def borders(aim: Any) -> list[Terms]:
    """Return the cases of each recipe as codes: three for each lane or, of neighbours, six; at least 48."""
    recipes = {_zero_of_large_factors: 3, _far_below_tie: 3, _cancelled_bits: 3, _one_place_apart: 6}
    if aim.shape.how.output[0].precision < min(aim.shape.addend.precision, aim.precision):
        recipes[_tie_of_output] = 3
    with np.errstate(all="ignore"):
        return [aim.codes(recipe(aim, max(n * aim.lanes, _LEAST))) for recipe, n in recipes.items()]
