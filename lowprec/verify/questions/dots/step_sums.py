"""Sums of a step in two words, before they are rounded; what lies below them is one sticky bit."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lowprec.spec.format import Format
from lowprec.verify.questions.dots.step_cuts import LOW, Numbers, Parts, limited

__all__ = ["Sum", "aligned", "as_float64", "carry_lost", "magnitude", "wide_sums", "with_places"]
__all__ += ["with_tops"]

Array = npt.NDArray[Any]

#: Exponents below all others, of terms that are zero.
_NONE = -(1 << 20)


class Sum(NamedTuple):
    """The magnitude of a sum before it is rounded: significand * 2**last."""

    negative: Array
    significand: Array
    last: Array
    unit: Array  #: place of the last bit that alignment keeps
    discarded: Array  #: bits of the significand that the result has no place for
    largest: Array  #: exponent of the terms
    first: Array  #: exponent of the first bit of the largest term
    apart: Array  #: how far the first bit of the next term is below it


def wide_sums(sums: Sum, row: int, terms: Numbers, kept: Array | None, unit: int) -> Sum:
    """Return sums of which one has terms that two words do not hold; `kept`: terms after they were cut."""
    sizes = list(zip(terms.significand.tolist(), terms.last.tolist(), strict=True))
    if kept is None:
        least = min(unit, *(last for significand, last in sizes if significand))
        wholes = [significand << max(last - least, 0) for significand, last in sizes]
    else:
        least = unit
        wholes = [
            significand << last - unit if last > unit else left
            for (significand, last), left in zip(sizes, kept.tolist(), strict=True)
        ]
    total = sum(-whole if minus else whole for minus, whole in zip(terms.negative, wholes, strict=True))
    size = abs(total)
    down = max(size.bit_length() - 60, 0)
    found = total < 0, size >> down | (size & (1 << down) - 1 != 0), least + down
    made = sums._replace(
        negative=sums.negative.copy(), significand=sums.significand.copy(), last=sums.last.copy()
    )
    for words, value in zip(made[:3], found, strict=True):
        words[row] = value
    return made


def aligned(terms: Numbers, unit: Array, bits: int) -> tuple[Parts, Array, Array]:
    """Return the terms in units, and the sums with a term that is too large or several that are too small."""
    up = terms.last - unit[:, None]
    significand = terms.significand
    far = (up > 0) & (significand != 0) & (_bit_length(significand) + up > 61)
    left = significand << limited(np.where(far, 0, up), 0, 62)
    down = limited(-up, 0, 62)
    kept = significand >> down
    rest = significand - (kept << down)
    near = rest << limited(LOW - down, 0, LOW)
    deep = limited(-up - LOW, 0, 62)
    sticky = (rest & ((1 << deep) - 1)) != 0
    lost = np.where(-up <= LOW, near, (rest >> deep) | sticky)
    parts = Parts(terms.negative, np.where(up >= 0, left, kept), np.where(up >= 0, 0, lost), bits)
    return parts, far.any(1), (sticky & (-up > LOW)).sum(1) > 1


def magnitude(hi: Array, lo: Array, unit: Array) -> Sum:
    """Return a sum of two words as sign and significand, of at most 61 bits."""
    negative, rest = hi < 0, (hi < 0) & (lo > 0)
    high = np.abs(hi) - rest
    low = np.where(rest, (1 << LOW) - lo, lo)
    up = limited(60 - _bit_length(high), 0, LOW)
    down = LOW - up
    significand = (high << up) | (low >> down) | ((low & ((1 << down) - 1)) != 0)
    return Sum(negative, significand, unit - up, unit, up, unit, unit, unit)


def with_tops(sums: Sum, terms: Numbers) -> Sum:
    """Return a sum with where its two largest terms begin."""
    tops = np.where(terms.significand > 0, _bit_length(terms.significand) - 1 + terms.last, _NONE)
    low, high = np.sort(tops, 1)[:, -2:].T
    return sums._replace(first=high, apart=high - low)


def with_places(sums: Sum, fmt: Format, largest: Array) -> Sum:
    """Return a sum with the number of its bits that a format has no place for, and its largest exponent."""
    top = _bit_length(sums.significand) - 1 + sums.last
    discarded = np.maximum(top, fmt.emin) - fmt.trailing_bits - sums.last
    return sums._replace(discarded=discarded, largest=largest)


def as_float64(sums: Sum) -> Array:
    """Return sums as float64, of 53 bits: the last is set where any below it is."""
    down = limited(_bit_length(sums.significand) - 53, 0, 62)
    odd = (sums.significand >> down) | ((sums.significand & ((1 << down) - 1)) != 0)
    return np.asarray(np.ldexp(odd.astype(np.float64), sums.last + down))


def _bit_length(words: Array) -> Array:
    """Return how many bits positive words have, below 2**62."""
    # With each one below another cleared, float64 does not round a word up to the next power of two.
    return np.asarray(np.frexp((words & ~(words >> 1)).astype(np.float64))[1].astype(np.int64))


def carry_lost(codes: Array, sums: Sum, fmt: Format, increment: bool = False, infinite: bool = True) -> Array:
    """Return codes whose exponent, or all of which, rounding does not raise where it carries into it.

    If not `infinite`, what it carries past the largest number is infinite all the same.
    """
    places, one = limited(sums.discarded, 0, 62), 1 << fmt.trailing_bits
    below = (sums.discarded > 0) & (sums.significand >> places == 2 * one - 1)
    below &= infinite or codes & fmt.sign_code - 1 != fmt.infinity_code
    return np.where(below & (codes & one - 1 == 0), codes - (1 if increment else one), codes)
