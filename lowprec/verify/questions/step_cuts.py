"""Terms of a step after they were aligned, and the ways in which windows cut and add them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lowprec.spec.accumulation import Window

__all__ = ["LOW", "Parts", "exactly", "last_raised", "signed", "window_sum"]

Array = npt.NDArray[Any]

#: Bits of the lower word.
LOW = 50


class Parts(NamedTuple):
    """Aligned terms: whole units, and what is cut off in 2**-LOW units."""

    negative: Array
    kept: Array
    lost: Array
    bits: int  #: behind the point


def signed(parts: Parts, words: Array) -> Array:
    """Return the sums of words with the signs of their terms."""
    return np.asarray(np.where(parts.negative, -words, words).sum(1))


def _cut_toward_zero(parts: Parts) -> tuple[Array, Array]:
    return signed(parts, parts.kept), np.zeros(len(parts.kept), np.int64)


def _cut_floor(parts: Parts) -> tuple[Array, Array]:
    return _cut_toward_zero(parts._replace(kept=parts.kept + (parts.negative & (parts.lost > 0))))


def _cut_to_odd(parts: Parts) -> tuple[Array, Array]:
    return _cut_toward_zero(parts._replace(kept=parts.kept | (parts.lost > 0)))


def _cut_to_nearest(parts: Parts) -> tuple[Array, Array]:
    return _cut_toward_zero(parts._replace(kept=parts.kept + (parts.lost >> LOW - 1)))


def exactly(parts: Parts) -> tuple[Array, Array]:
    """Return the sum of terms of which nothing is cut."""
    hi, lo = signed(parts, parts.kept), signed(parts, parts.lost)
    return hi + (lo >> LOW), lo & (1 << LOW) - 1


_CUTS = {
    "toward_zero": _cut_toward_zero,
    "floor": _cut_floor,
    "to_odd": _cut_to_odd,
    "nearest_away": _cut_to_nearest,
    "exact": exactly,
}


def window_sum(window: Window | None, parts: Parts) -> tuple[Array, Array]:
    """Return the two words of a sum, cut as a window says."""
    return _CUTS["exact" if window is None or window.fraction_bits is None else window.cut](parts)


def last_raised(terms: Any, by: Array) -> Any:
    """Return terms of which the last has another exponent."""
    up = np.pad(by[:, None], ((0, 0), (terms.last.shape[1] - 1, 0)))
    return terms._replace(last=terms.last + up, exponent=terms.exponent + up)
