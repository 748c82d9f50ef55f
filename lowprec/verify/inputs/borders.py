"""Operands whose results lie beside borders of the result's format, or cancel to few bits.

Borders are the smallest normal number, powers of two and the largest number: where a rounding that goes up
changes the exponent. Sums lose 1, 2, 3 and more leading bits by turns. Of three operands two are NaNs of
unlike signs in a few cases.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Carrier, Format, Sign
from lowprec.verify.inputs.operands import FEW
from lowprec.verify.inputs.recipes import Aim, nearest, recipes_of

__all__ = ["beside_borders"]

Array = npt.NDArray[Any]


def beside_borders(operation: str, formats: tuple[Format, ...], samples: int, seed: int) -> list[Array]:
    """Return codes of each operand: of a recipe four cases for each bit of the result, or more.

    There are none where all combinations are tried, and of codebooks and integers.

    >>> from lowprec.spec.catalog import BINARY16
    >>> [codes.size for codes in beside_borders("fma", (BINARY16,) * 4, 1024, 0)]
    [352, 352, 352]

    Parameters
    ----------
    operation, formats, samples, seed
        As those of `lowprec.verify.inputs.operands.operands`; a recipe has an eighth of the samples' share.
    """
    *sources, target = formats
    few = sum(source.width for source in sources) <= FEW
    if few or any(isinstance(fmt, Codebook | Carrier) for fmt in formats):
        return [np.zeros(0, np.uint64) for _ in sources]
    random, recipes = np.random.default_rng(seed), recipes_of(operation, len(sources))
    parts, each = [], -(-samples // 8 // len(recipes))
    for recipe in (*recipes, *_MORE.get(operation, ())):
        aim = _BorderAim(random, max(each, 4 * target.precision), sources, target)
        with np.errstate(all="ignore"):
            values = recipe(aim)
        parts.append([nearest(column, source) for column, source in zip(values, sources, strict=True)])
    columns = [np.concatenate(codes) for codes in zip(*parts, strict=True)]
    pairs = itertools.permutations(range(len(sources)), 2) if len(sources) > 2 else ()
    for case, pair in enumerate(pairs if all(map(_has_signed_nans, sources)) else (), 1):
        for place, (column, source) in enumerate(zip(columns, sources, strict=True)):
            nan = int(source.nan_code or 0) | source.sign_code * (place == pair[1])
            column[-case] = nan if place in pair else nearest(np.ones(1), source)[0]
    return columns


def _has_signed_nans(fmt: Format) -> bool:
    """Return whether a format has NaNs of either sign."""
    return fmt.nan_code is not None and fmt.sign is Sign.MAGNITUDE and not fmt.nan_code & fmt.sign_code


class _BorderAim(Aim):
    """Points in the gap below the smallest normal number, below powers of two, and beyond the largest."""

    places = (0.5, 1.0, 1.5)

    def magnitudes(self) -> Array:
        """Return the magnitudes below borders, those of the smallest normal number most often."""
        last, gap = self.target.max_magnitude, 1 << self.target.trailing_bits
        powers = np.arange(gap, last + 2, gap) - 1 if self.target.exponent_bits else np.array([last])
        chosen = self.random.choice(powers, self.size)
        chosen[::3], chosen[1::6] = powers[0], last
        return np.asarray(np.minimum(chosen, last))


def _product_alone(aim: Aim) -> tuple[Array, ...]:
    """Return a product that is nearly the point, and an addend of zero."""
    second = aim.held(
        1,
        np.ldexp(
            aim.odd(aim.sources[1].precision, full=True) * aim.sign(),
            aim.shared(
                np.frexp(aim.point)[1].astype(np.int64) - aim.sources[0].precision - aim.sources[1].precision
            ),
        ),
    )
    return aim.point / second, second, 0.0 * second


def _cancelling(aim: Aim) -> tuple[Array, ...]:
    """Return a number, and its opposite but for what is left where 1, 2, 3 and more leading bits cancel."""
    value = aim.any(0)
    bits = 1 + np.arange(aim.size) % (aim.target.precision - 1 or 1)
    return value, -value * (1 + aim.sign() * np.ldexp(0.75, -bits))


def _cancelling_difference(aim: Aim) -> tuple[Array, ...]:
    first, second = _cancelling(aim)
    return first, -second


def _cancelling_product(aim: Aim) -> tuple[Array, ...]:
    """Return factors, and an addend that cancels 1, 2, 3 and more leading bits of their product."""
    total = np.frexp(aim.any(2))[1].astype(np.int64) - sum(source.precision for source in aim.sources[:2])
    power = aim.shared(total)
    first = np.ldexp(aim.odd(aim.sources[0].precision, full=True) * aim.sign(), total - power)
    second = np.ldexp(aim.odd(aim.sources[1].precision, full=True) * aim.sign(), power)
    bits = 1 + np.arange(aim.size) % (aim.target.precision - 1 or 1)
    return first, second, -(first * second) * (1 + aim.sign() * np.ldexp(0.75, -bits))


def _single_bits(aim: Aim) -> tuple[Array, ...]:
    """Return a number whose last bit is 0, and half of that bit and one bit below, each by turns.

    In a third of the cases the second number has bits above, too. In a quarter a power of two comes instead,
    and what is taken off it: a quarter of its last place or more, but not half.
    """
    rows, trailing = np.arange(aim.size), min(aim.target.trailing_bits, aim.sources[-1].trailing_bits)
    exponent = np.frexp(aim.any(0))[1].astype(np.int64) - 1
    last = exponent - aim.target.trailing_bits
    whole = aim.integer(0, (1 << max(aim.target.trailing_bits - 1, 0)) - 1) * 2.0
    above = np.where(rows % 3 == 0, 3.0, 1.0)
    below = 1 + rows // 2 % np.maximum(trailing - (rows % 3 == 0), 1)
    half = np.ldexp(above + np.ldexp(1.0, -below), last - 1)
    quarter = -np.ldexp(1 + np.ldexp(aim.integer(0, (1 << trailing) - 1) * 1.0, -trailing), last - 2)
    first, second = np.ldexp(1.0, exponent) + np.ldexp(whole, last), np.where(rows % 4 == 3, quarter, half)
    first = np.where(rows % 4 == 3, np.ldexp(1.0, exponent), first)
    return np.copysign(first, aim.sign()), second * aim.sign()


def _carrying_out(aim: Aim) -> tuple[Array, ...]:
    """Return two numbers whose sum has one more leading bit, and is one bit, by turns, above a tie."""
    rows, trailing = np.arange(aim.size), min(aim.target.trailing_bits, aim.sources[-1].trailing_bits)
    last = np.frexp(aim.any(0))[1].astype(np.int64) - 1 - aim.target.trailing_bits
    below = 1 + rows % max(trailing - 1, 1)
    most = np.ldexp(1.0, np.maximum(trailing + 1 - below, 2)) - 1
    whole = 2 + np.floor(aim.random.random(aim.size) * (most - 1))
    even = 4 * np.floor(aim.random.random(aim.size) * (whole - 2) / 4)
    second = np.ldexp(whole + np.ldexp(1.0, -below), last)
    first = np.ldexp(np.ldexp(2.0, aim.target.trailing_bits) + even + 1 - whole, last)
    sign = aim.sign()
    return first * sign, second * sign


def _carrying_difference(aim: Aim) -> tuple[Array, ...]:
    first, second = _carrying_out(aim)
    return first, -second


def _carrying_addend(aim: Aim) -> tuple[Array, ...]:
    first, second = _carrying_out(aim)
    return first, np.ones(aim.size), second


def _single_bits_of_addend(aim: Aim) -> tuple[Array, ...]:
    first, second = _single_bits(aim)
    return first, np.ones(aim.size), second


_MORE: dict[str, tuple[Any, ...]] = {
    "add": (_cancelling, _single_bits, _carrying_out),
    "subtract": (_cancelling_difference, _single_bits, _carrying_difference),
    "fma": (_product_alone, _cancelling_product, _single_bits_of_addend, _carrying_addend),
}
