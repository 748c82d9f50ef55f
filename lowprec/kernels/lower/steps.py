"""Step functions of words: where results in a codebook change, and ranges of words in which they do so once.

A deterministic conversion is a step function of the operand's word: results change at a few words only, which
are values, thresholds, or words next to them. Words are parted into ranges so short that results change at
most once in each: the upper bits of a word name its range, and a comparison says which of two results it has.
Values may lie close in one binade and far apart in another: there the sign and the exponent say how many bits
name the range.

Flags change at the same words; but those of numbers that are values of the codebook signal nothing.

Floor 2b. Imports spec and NumPy.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lowprec.spec.codebook import Codebook, Number

__all__ = ["CROWDED", "SHIFTS", "Ranges", "part", "words_next_to"]

Codes = npt.NDArray[Any]

#: Upper bits that name ranges of equal lengths, at most.
_UPPER = 16

#: Bits below the exponent that name ranges, and ranges in all, at most.
_FINEST, _MOST = 14, 1 << 19

#: Bits of `Ranges.binades` that say how far a word is shifted, and what they are where steps are searched.
SHIFTS, CROWDED = 6, 63


class Ranges(NamedTuple):
    """A step function of words, and ranges of words in which it changes at most once."""

    firsts: Codes  #: the first word of each step, ascending
    results: Codes
    entries: Codes  #: of each range `first`, the word it changes at, and what it is `below` and `above` that
    binades: Codes  #: of each sign and exponent, where its ranges are and how far they shift; none: all alike
    shift: int  #: how far a word is shifted down to look up `binades`, or `entries` where there are none


@functools.lru_cache(maxsize=16)
def words_next_to(fmt: Codebook, kind: np.dtype[Any]) -> Codes:
    """Return the words of all numbers where results may change, and of those next to them, ascending."""
    points: list[Number | None] = [0.0]
    for ray in (fmt.ray(False), fmt.ray(True)):
        points += [*ray.sizes, *ray.thresholds, ray.beyond]
    single, unit = kind.itemsize == 4, kind.type(1)
    with np.errstate(over="ignore", under="ignore"):
        floats = np.array([float(each) for each in points if each is not None])
        near = np.abs(floats).astype(np.float32 if single else np.float64).view(kind)
    last = kind.type((1 << 8 * kind.itemsize - 1) - 1)
    infinity = kind.type(0xFF << 23 if single else 0x7FF << 52)
    quiet = infinity + (infinity & (~infinity + unit)) // kind.type(2)  # other NaNs signal
    near = np.append(near, [infinity, quiet])
    sizes = _ascending(np.concatenate([near, near + unit, near[near > 0] - unit, [last]]))
    words = np.concatenate([sizes, sizes | (last + unit)])
    words.flags.writeable = False
    return words


def _ascending(words: Codes) -> Codes:
    """Return the words in ascending order, each once."""
    words = np.sort(words)
    return words[np.append(True, words[1:] != words[:-1])]


# -- ranges ----------------------------------------------------------------------------------------------


def part(firsts: Codes, results: Codes) -> Ranges:
    """Return ranges in which a step function changes at most once.

    `firsts` are the first words of its steps, ascending and from 0 on, and `results` what the steps are.
    Binades that would need too many ranges, as that of float32's subnormal numbers may, have one alone:
    there steps are searched, but for the first word, which may be zero.
    """
    width = 8 * firsts.itemsize
    bits = max(1, int(_needed(firsts, width, _UPPER).max(initial=0)))
    if bits <= _UPPER:
        entries = _entries(firsts, results, width, np.array([bits]))
        return Ranges(firsts, results, entries, np.empty(0, np.int64), width - bits)
    shift = 23 if width == 32 else 52
    needed = np.zeros(1 << width - shift, np.int64)
    np.maximum.at(
        needed, (firsts[:-1] >> firsts.dtype.type(shift)).astype(np.int64), _needed(firsts, shift, _FINEST)
    )
    finest = _FINEST
    while (sizes := 1 << np.where(needed > finest, 0, needed)).sum() > _MOST:
        finest -= 1
    crowded = needed > finest
    needed[crowded] = 0
    begins = np.cumsum(sizes) - sizes
    binades = begins << SHIFTS | shift - needed
    binades[crowded] = begins[crowded] << SHIFTS | CROWDED
    entries = _entries(firsts, results, shift, needed)
    return Ranges(firsts, results, entries, binades, shift)


def _needed(firsts: Codes, below: int, most: int) -> Codes:
    """Return how many of the lowest `below` bits name ranges in which no step and the next both lie inside.

    A step that begins a range does not lie inside of it. One more than `most` stands for any number above.
    """
    first, second = firsts[:-1].astype(np.uint64), firsts[1:].astype(np.uint64)
    needed = np.zeros(first.size, np.int64)
    for bits in range(most + 1):
        rest = np.uint64((1 << below - bits) - 1)
        needed[(first & rest != 0) & ((first | rest) == (second | rest))] = bits + 1
    return needed


def _entries(firsts: Codes, results: Codes, below: int, bits: Codes) -> Codes:
    """Return the entries of ranges, named by `bits` of the lowest `below` bits; for each upper part."""
    kind = firsts.dtype
    sizes = 1 << bits
    shifts = np.repeat(below - bits, sizes).astype(np.uint64)
    tops = np.repeat(np.arange(bits.size), sizes).astype(np.uint64)
    within = (np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)).astype(np.uint64)
    top = tops << np.uint64(below) if bits.size > 1 else tops
    starts = top | within << shifts
    lasts = starts | ((np.uint64(1) << shifts) - np.uint64(1))
    step, end = (np.searchsorted(firsts, each.astype(kind), side="right") - 1 for each in (starts, lasts))
    entries = np.empty(
        starts.size,
        np.dtype([("first", kind), ("below", results.dtype), ("above", results.dtype)], align=True),
    )
    # A binade with too many steps has an entry for its first word.
    entries["first"] = np.where(end - step <= 1, firsts[end], starts)
    entries["below"], entries["above"] = results[step], results[end]
    return entries
