"""Terms of a step: which of them an edit changes, and the ways in which windows cut and add them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lowprec.spec.accumulation import Window
from lowprec.spec.format import Format

__all__ = [
    "LANE",
    "LOW",
    "OF_PRODUCTS",
    "Numbers",
    "Parts",
    "chosen",
    "exactly",
    "in_terms",
    "lanes_of",
    "last_raised",
    "limited",
]
__all__ += [
    "joined",
    "multiplied",
    "step_places",
    "numbers_of",
    "signed",
    "terms_in",
    "which_terms",
]
__all__ += ["window_sum"]

Array = npt.NDArray[Any]

#: Bits of the lower word.
LOW = 50

#: Mark of products and of sums of their groups, as opposed to running sums.
OF_PRODUCTS = 1
#: Place of the bits that have the number of a product, from 1 on, where its column does not say it.
LANE = 1
#: Bits more of numbers that their format lacks.
_LONGER = 8


class Numbers(NamedTuple):
    """Finite numbers, as sign, significand and two exponents; what is not finite is zero here."""

    negative: Array
    significand: Array
    last: Array  #: exponent of the significand's last bit
    exponent: Array  #: by which it is aligned
    cancelled: Array  #: whether it is zero, and counts for the largest exponent: a group's sum
    marks: Array  #: `OF_PRODUCTS`, of products; and their numbers from bit `LANE` on, if they are asked for


class Parts(NamedTuple):
    """Aligned terms: whole units, and what is cut off in 2**-LOW units."""

    negative: Array
    kept: Array
    lost: Array
    bits: int  #: behind the point


def limited(words: Array, least: int, most: int) -> Array:
    """Return words within limits; for few words this is faster than `np.clip`."""
    return np.asarray(np.minimum(np.maximum(words, least), most))


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


def lanes_of(where: Array, rows: int, count: int) -> Array:
    """Return a mask of rows and lanes, of which there may be fewer than `where` has."""
    here = np.zeros((rows, count), bool)
    if where.dtype == bool:
        here[:, : where.shape[1]] = where[:, :count]
    else:
        here[:, where[(where >= 0) & (where < count)]] = True
    return here


def which_terms(terms: Numbers, where: Array) -> Array:
    """Return which terms of a step are meant; the lane -1 is that of running sums."""
    products = terms.marks & OF_PRODUCTS > 0
    found = lanes_of(where[where >= 0] if where.dtype != bool else where, *terms.negative.shape)
    if (own := terms.marks >> LANE).any():  # in a tree
        lanes = np.maximum(own - 1, 0)
        here = lanes_of(where, len(lanes), max(int(lanes.max()) + 1, where.shape[-1]))
        found = np.take_along_axis(here, lanes, 1)
    return found & products | (~products if where.dtype != bool and (where == -1).any() else False)


def terms_in(where: Array, rows: int, count: int) -> Array:
    """Return a mask of the terms of lanes; the lane -1 is the last term."""
    last = np.full((rows, 1), where.dtype != bool and bool((where == -1).any()))
    return np.hstack([lanes_of(where[where >= 0] if where.dtype != bool else where, rows, count - 1), last])


def in_terms(where: Array, change: Callable[[Numbers], Numbers]) -> Callable[[Numbers], Numbers]:
    """Return what changes some terms of a step."""

    def changed(terms: Numbers) -> Numbers:
        made: Numbers = chosen(which_terms(terms, where), change(terms), terms)
        return made

    return changed


def chosen(here: Array, new: Any, old: Any) -> Any:
    """Return the parts of one where a mask holds, and of another elsewhere."""
    return type(old)(*(np.where(here, one, other) for one, other in zip(new, old, strict=True)))


def numbers_of(values: Array, fmt: Format, least: int | None = None) -> Numbers:
    """Return finite values as a format writes them: not normalized below its least exponent."""
    least = fmt.emin if least is None else least
    if (plain := _plain_numbers(values, fmt, least)) is not None:
        return plain
    finite = np.isfinite(values)
    size = np.where(finite, np.abs(values), 0)
    of_size = np.frexp(size)[1].astype(np.int64) - 1
    exponent = np.maximum(of_size, least)
    exponent = np.where(size == 0, fmt.emin, exponent)
    last = exponent - fmt.trailing_bits
    finer = np.ldexp(size, -last) % 1 != 0  # what the format lacks is normalized
    exponent, last = exponent - finer * (exponent - of_size), last - finer * (exponent - of_size)
    last = last - _LONGER * (np.ldexp(size, -last) % 1 != 0)  # and of more bits
    significand = np.ldexp(size, -last).astype(np.int64)
    none = np.zeros(size.shape, np.int64)
    return Numbers(np.signbit(values), significand, last, exponent, none > 0, none)


def _plain_numbers(values: Array, fmt: Format, least: int) -> Numbers | None:
    """Return values as `numbers_of` does, by their binary64 words; None where the format lacks bits."""
    words = np.ascontiguousarray(values, np.float64).view(np.int64)
    size, low = words & (1 << 63) - 1, (1 << 52) - 1
    fields = size >> 52
    plain = (fields > 0) & (fields < 0x7FF)
    if (~plain & (size > 0) & (fields < 0x7FF)).any():
        return None
    exponent = np.where(plain, np.maximum(fields - 1023, least), fmt.emin)
    last = exponent - fmt.trailing_bits
    down = limited(last - fields + 1075, 0, 63)
    whole = np.where(plain, size & low | low + 1, 0)
    significand = whole >> down
    if (significand << down != whole).any() or (last - fields + 1075 < 0)[plain].any():
        return None
    none = np.zeros(size.shape, np.int64)
    return Numbers(words < 0, significand, last, exponent, none > 0, none)


def multiplied(a: Numbers, b: Numbers) -> tuple[Array, Array]:
    """Return significands of products, and the exponents of their last bits."""
    return a.significand * b.significand, a.last + b.last


def joined(of_lanes: Array, own: Array) -> Array:
    """Return values of lanes, and in a last column those of running sums."""
    return np.concatenate([of_lanes, own[:, None]], axis=1)


def step_places(length: int, window: Window | None, term: int) -> Iterator[Array]:
    """Yield the places of the products of each step."""
    step, every = term if window is None else window.step, np.arange(length)
    if window is None or window.groups == "consecutive":
        yield from (every[first : first + step] for first in range(0, length, step))
        return
    for first in range(0, length, 2 * step):
        both = every[first : first + 2 * step]
        for half in (0, 1):
            if (part := both[np.arange(both.size) >> 1 & 1 == half]).size:
                yield part
