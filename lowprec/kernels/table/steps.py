"""Conversions to codebooks, looked up: the steps of a projection, and in which range of words each lies.

A deterministic conversion is a step function of the operand's word: results change at a few words only. The
scalar kernel finds them, by its results next to all values and thresholds. Then words are parted into ranges
so short that results change at most once in each: the upper bits of a word name its range, and a comparison
says which of two results it has. Values may lie close in one binade and far apart in another: there the sign
and the exponent say how many bits name the range.

Flags change at the same words; but those of numbers that are values of the codebook signal nothing.

Floor 2b. Imports numba through `jit`, and the scalar engine, whose results these are.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lowprec.kernels.codes import code_dtype, values_of
from lowprec.kernels.engine import DONE, REFUSED
from lowprec.kernels.jit import helper, jit
from lowprec.kernels.lower.words import DOUBLE, SINGLE
from lowprec.kernels.modes import usual_arithmetic
from lowprec.kernels.request import CONVERT, Elementwise
from lowprec.kernels.scalar import program as scalar
from lowprec.kernels.table.refusals import attempt_all
from lowprec.spec.codebook import Codebook, Number

__all__ = ["Ranges", "Steps", "look_up", "part", "serves"]

Codes = npt.NDArray[Any]

#: Upper bits that name ranges of equal lengths, at most.
_UPPER = 16

#: Bits below the exponent that name ranges, and ranges in all, at most.
_FINEST, _MOST = 14, 1 << 19

#: Steps are made when so many elements have come for each of them.
_SHARE = 4

#: Elements that have flags and go together: their places stay in the caches.
_PART = 1 << 13


def serves(request: Elementwise) -> bool:
    """Return whether results are a step function of one operand's word, and nothing is drawn."""
    return (
        request.operation == CONVERT
        and isinstance(request.target, Codebook)
        and request.sources[0] in (SINGLE, DOUBLE)
        and not request.projection.rounding.bits
        and not request.projection.via
        and request.projection.subnormals in ("keep", "flush_results")
        and request.projection.nan_payload == "drop"
    )


class Ranges(NamedTuple):
    """A step function of words, and ranges of words in which it changes at most once."""

    firsts: Codes  #: the first word of each step, ascending
    results: Codes
    entries: Codes  #: of each range `first`, the word it changes at, and what it is `below` and `above` that
    binades: Codes  #: of each sign and exponent, where its ranges are and how far they shift; none: all alike
    shift: int  #: how far a word is shifted down to look up `binades`, or `entries` where there are none


class _Found(NamedTuple):
    """The steps of a request."""

    ranges: Ranges  #: of results, or of the numbers of steps where flags are asked
    refused: list[tuple[Any, ...]]  #: the first and the last word of two runs of words that are refused
    answers: tuple[Codes, Codes, Codes]  #: the word of each step that is its value, its result, and its flags


class Steps:
    """A program that looks up steps; see `engine.ElementwiseProgram`."""

    draws = in_place = widens = floats = False
    bound = None

    def __init__(self, request: Elementwise) -> None:
        assert isinstance(request.target, Codebook), "of `serves`"
        self._scalar, self._fmt = scalar.lower(request), request.target
        self._request, self._asked = request, request.backend == "table"
        self.refuses: bool = self._scalar.refuses
        self._found: _Found | None = None
        self._came = 0

    def run(self, operands: list[Codes], out: Codes, flags: Codes, random: Codes, past: bool = False) -> int:
        """Look up the step of each element."""
        self._came += out.size
        if not self._asked and self._came < _SHARE * len(self._fmt.values):
            status: int = self._scalar.run(operands, out, flags, random)
            return status
        if self._found is None:  # two threads may both find them, which are the same
            self._found = self._find()
        (words,), found = operands, self._found
        if any(is_any_between(words, *runs) for runs in found.refused):
            return REFUSED
        if not flags.size:
            look_up(words, *found.ranges, out)
            return DONE
        places = np.empty(_PART, np.uint32)
        for start in range(0, words.size, _PART):
            part = slice(start, min(start + _PART, words.size))
            some = places[: part.stop - start]
            look_up(words[part], *found.ranges, some)
            signal(words[part], some, *found.answers, out[part], flags[part])
        return DONE

    def _find(self) -> _Found:
        fmt, kind, signals = self._fmt, code_dtype(self._request.sources[0]), self._request.flags
        words = _words_next_to(fmt, kind)
        results = np.empty(words.size, code_dtype(self._request.carrier or fmt))
        flags = np.zeros(words.size if signals else 0, np.uint8)
        refused = attempt_all(self._scalar, [words], results, flags)
        changes = (results[1:] != results[:-1]) | (refused[1:] != refused[:-1])
        exact = np.zeros(words.size, bool)
        if signals:
            exact = self._is_value(words, results) & (refused == 0)
            flags = _between_values(flags, exact, changes)
            changes |= flags[1:] != flags[:-1]
        assert np.all(np.diff(words)[changes] == 1), "a step between two words that were looked at"
        at = np.concatenate([[0], np.nonzero(changes)[0] + 1])
        # Each step has one value at most; a word of the other sign stands for none.
        own = words[at] ^ (kind.type(1) << kind.type(8 * kind.itemsize - 1))
        own[np.searchsorted(at, np.nonzero(exact)[0], side="right") - 1] = words[exact]
        firsts, results, refused = words[at], results[at], refused[at]
        lasts = np.append(firsts[1:] - kind.type(1), ~kind.type(0))
        runs = list(zip(firsts[refused > 0], lasts[refused > 0], strict=True))
        pairs = [(*each, *(runs[i + 1] if i + 1 < len(runs) else each)) for i, each in enumerate(runs)]
        steps = np.arange(at.size, dtype=np.uint32) if signals else results
        return _Found(part(firsts, steps), pairs[::2], (own, results, flags[at] if signals else flags))

    @usual_arithmetic()
    def _is_value(self, words: Codes, results: Codes) -> Codes:
        """Return which words are the numbers that their results are."""
        if self._request.carrier is None:
            results = values_of(self._fmt)[results]
        return np.asarray(words.view(f"f{words.itemsize}") == results.view(f"f{results.itemsize}"))


def _between_values(flags: Codes, exact: Codes, changes: Codes) -> Codes:
    """Return flags of words; those of values are what the words next to them with their result have."""
    assert not flags[exact].any(), "a value that signals"
    flags, same = flags.copy(), np.concatenate([[False], ~changes, [False]])
    for beside, step in ((same[:-1], -1), (same[1:], 1)):  # the next one counts, if both have the result
        (places,) = np.nonzero(exact & beside)
        flags[places] = flags[places + step]
    return flags


@functools.lru_cache(maxsize=16)
def _words_next_to(fmt: Codebook, kind: np.dtype[Any]) -> Codes:
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
    # The upper bits of a word, shifted, are its sign and exponent, which count for nothing in its place.
    binades = begins - (np.arange(needed.size) << needed) << _SHIFTS | shift - needed
    binades[crowded] = begins[crowded] << _SHIFTS | _CROWDED
    entries = _entries(firsts, results, shift, needed)
    return Ranges(firsts, results, entries, binades, shift)


#: Bits of `Ranges.binades` that say how far a word is shifted, and what they are where steps are searched.
_SHIFTS, _CROWDED = 6, 63


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


@jit
def is_any_between(words: Codes, first: Any, last: Any, other: Any, end: Any) -> bool:
    """Return whether any word is from `first` to `last`, or from `other` to `end`."""
    found = False
    for i in range(words.size):
        word = words[i]
        found |= ((word >= first) & (word <= last)) | ((word >= other) & (word <= end))
    return found


@jit
def look_up(
    words: Codes, firsts: Codes, results: Codes, entries: Codes, binades: Codes, shift: int, out: Codes
) -> None:
    """Write what a step function is at each word."""
    down = np.uint64(shift)
    if binades.size == 0:
        for i in range(words.size):
            word = words[i]
            entry = entries[np.uint64(word) >> down]
            out[i] = entry["above"] if word >= entry["first"] else entry["below"]
        return
    for i in range(words.size):
        word = words[i]
        binade = binades[np.uint64(word) >> down]
        place, by = binade >> np.int64(_SHIFTS), np.uint64(binade & _CROWDED)
        if by == _CROWDED:
            entry = entries[place]
            out[i] = entry["below"] if word == entry["first"] else results[searched(firsts, word)]
            continue
        entry = entries[np.uint64(place + np.int64(np.uint64(word) >> by))]
        out[i] = entry["above"] if word >= entry["first"] else entry["below"]


@jit
def signal(
    words: Codes, places: Codes, own: Codes, results: Codes, signals: Codes, out: Codes, flags: Codes
) -> None:
    """Write the result of each word's step, and its flags: none of the value itself."""
    for i in range(out.size):
        place = np.int64(places[i])
        out[i] = results[place]
        flags[i] = np.uint8(0) if words[i] == own[place] else signals[place]


@helper
def searched(firsts: Codes, word: Any) -> np.int64:
    """Return which step a word lies in."""
    start, end = np.int64(0), np.int64(firsts.size)
    while end - start > 1:
        middle = (start + end) >> np.int64(1)
        if word >= firsts[middle]:
            start = middle
        else:
            end = middle
    return start
