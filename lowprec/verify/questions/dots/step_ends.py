"""Terms of a step that are not finite, sums that are zero, and what faults make of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from lowprec.spec.accumulation import Window
from lowprec.verify.questions.dots.stages import fault
from lowprec.verify.questions.question import Array, Change

__all__ = ["Ends", "Settled", "ieee", "of_ends", "of_zeros"]


class Ends(NamedTuple):
    """Terms that are not finite: products, and in the last column the running sum."""

    nan: Array  #: a factor is NaN
    invalid: Array  #: zero times infinity
    infinite: Array
    negative: Array  #: of NaNs the sign that they bring


#: NaN, infinite, and the sign of what is infinite.
Settled = tuple[Array, Array, Array]


def ieee(ends: Ends) -> Settled:
    """Return what becomes of terms that are not finite, as in IEEE 754."""
    plus, minus = (np.asarray((ends.infinite & (ends.negative == of)).any(1)) for of in (False, True))
    nan = np.asarray((ends.nan | ends.invalid).any(1) | (plus & minus))
    return nan, (plus | minus) & ~nan, minus


def of_zeros(window: Window | None) -> Iterator[Change]:
    """Yield other signs of sums that are zero."""
    for words, zero in {
        "the sign of the first product": lambda terms: terms.negative[:, 0],
        "the sign of the last product": lambda terms: terms.negative[:, -2],
        "the sign of the addend or the running sum": lambda terms: terms.negative[:, -1],
        "a sign, where all of their terms have it": lambda terms: terms.negative.all(1),
        "a sign, where any of their terms has it": lambda terms: terms.negative.any(1),
        "a sign, where terms cancel that are not zero, or where all of their terms have it": lambda terms: (
            terms.negative.all(1) | (terms.significand != 0).any(1)
        ),
        "no sign": lambda terms: terms.negative[:, 0] & False,
    }.items():
        if window is None or words != "no sign":
            yield fault(f"sums that are zero have {words}", zero=zero)


def of_ends(addend: bool) -> Iterator[Change]:
    """Yield what may become of NaNs and infinities; `addend`: whether there is one."""
    yield fault("NaNs left out of sums", ends=lambda ends: ends._replace(nan=ends.nan & False))
    yield fault(
        "infinities left out of sums", ends=lambda ends: ends._replace(infinite=ends.infinite & False)
    )
    yield fault("infinite products left out of sums", ends=_finite_products)
    which = {
        "the first of them": lambda ends: _sign_at(ends, 0),
        "the last of them": lambda ends: _sign_at(ends, -1),
        "positive": lambda ends: ends.negative[:, 0] & False,
        "negative": lambda ends: ends.negative[:, 0] | True,
    }
    for words, sign in which.items():
        for over in (False, True):
            said = f"infinities of unlike signs give an infinity: {words}{', beside a NaN too' * over}"
            yield fault(said, settled=partial(_unlike, sign=sign, over=over))
    yield fault("an infinity wins against NaNs", settled=_infinity_wins)
    if addend:
        yield fault("a NaN of the addend gives its sign to the result", nan=_signed_nan)


def _finite_products(ends: Ends) -> Ends:
    infinite = ends.infinite.copy()
    infinite[:, :-1] = False
    return ends._replace(infinite=infinite, invalid=ends.invalid & False)


def _sign_at(ends: Ends, end: int) -> Array:
    """Return the sign of the first infinity, the running sum before the products, or of the last one."""
    order = np.roll(np.arange(ends.infinite.shape[1]), 1)[:: 1 if end == 0 else -1]
    place = order[np.argmax(ends.infinite[:, order], 1)]
    return np.asarray(np.take_along_axis(ends.negative, place[:, None], 1)[:, 0])


def _unlike(ends: Ends, sign: Callable[[Ends], Array], over: bool) -> Settled:
    nan, infinite, minus = ieee(ends)
    both = (ends.infinite & ends.negative).any(1) & (ends.infinite & ~ends.negative).any(1)
    both &= True if over else ~(ends.nan | ends.invalid).any(1)
    return nan & ~both, infinite | both, np.where(both, sign(ends), minus)


def _infinity_wins(ends: Ends) -> Settled:
    plus, minus = ((ends.infinite & (ends.negative == of)).any(1) for of in (False, True))
    nan = ((ends.nan | ends.invalid).any(1) & ~plus & ~minus) | (plus & minus)
    return nan, (plus | minus) & ~nan, minus


def _signed_nan(ends: Ends) -> Array:
    return np.asarray(ends.nan[:, -1] & ends.negative[:, -1])
