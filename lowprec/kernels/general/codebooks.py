"""Round to the values of a codebook: results are rounded to odd, as words of binary64, and looked up.

A word has at most one step in its range (`lower.codebook`), so two loads and a comparison find its answer.
The scalar kernel gives the answers, by its results next to all values and thresholds.

Rounding to odd keeps a number on its side of every number of few bits. A value or a threshold of more bits
may lie within a result's `margin`: where words that far below or above have other answers, the scalar kernel
decides.

For stochastic modes the steps are the values, and the distance to the value below, as a share of the gap, is
compared with a limit: by products of 128 bits, which are exact.

Floor 2b. Imports numba through `jit`; never the oracle, which checks it.

Notation:

    answer    the code, flags from bit 16 on, and bit 24 where there is no code or the scalar kernel decides
    draw      the value below a number and the gap to the next value, in one unit, and the answers at both
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lowprec.kernels.codes import values_of
from lowprec.kernels.general.numbers import CHUNK, pick, word_product
from lowprec.kernels.general.rounding import drawn_limit, long_shifted
from lowprec.kernels.jit import helper, in_wide_vectors, inlined, load_record
from lowprec.kernels.lower.codebook import (
    CROWDED,
    SHIFTS,
    TABLES,
    Place,
    is_between,
    part,
    points_of,
    words_next_to,
)
from lowprec.kernels.lower.records import REFUSED, Grid, Params
from lowprec.kernels.lower.scalar import lower_source, lower_target
from lowprec.kernels.lower.words import DOUBLE, SINGLE
from lowprec.kernels.scalar.convert import convert_to_codebook
from lowprec.spec.codebook import Codebook
from lowprec.spec.projection import Flag, Projection

__all__ = ["REFUSES", "answer_words", "answered", "steps_of"]

Word = Any
Codes = npt.NDArray[Any]

_U = np.uint64
_I = np.int64
_0, _1, _11, _16, _24, _32, _52 = (_U(number) for number in (0, 1, 11, 16, 24, 32, 52))
_LOW, _CODE, _FLAGS = _U((1 << 32) - 1), _U((1 << 16) - 1), _U((1 << 8) - 1)
_SIGN, _INFINITY, _HIDDEN, _ONES = _U(1 << 63), _U(0x7FF << 52), _U(1 << 52), _U((1 << 64) - 1)
_FRACTION = _U((1 << 52) - 1)
_SHIFTS, _SHIFT = _U(SHIFTS), _U(CROWDED)
_REFUSED = _U(REFUSED)
_DIVIDED, _INVALID = _U(Flag.DIVIDE_BY_ZERO), _U(Flag.INVALID)

#: The answer where there is no code, or the scalar kernel says which.
REFUSES = 1 << 24

#: Bits of numbers that quotients to odd lie on the right side of; units of binary64 by which they may be off.
_SHORT, _MARGIN = 50, 8

#: Exponents between which values and thresholds lie, so that words of binary64 tell numbers apart.
_FAR = 900

#: Signs and exponents of words.
_BINADES = 1 << 12


class Book(NamedTuple):
    """Places of a codebook's words: the first words after those of a target; then come the binades."""

    margin: Word
    ranges: Word  #: pairs of words: where the answer changes, and the answers below and from there on
    values: Word  #: what each code stands for, as binary64
    draws: Word  #: of stochastic modes: the words of each `Draw`


class Draw(NamedTuple):
    """An interval between two values, the numbers in units of 2**unit."""

    low: Word
    gap: Word
    unit: Word
    answers: Word  #: of the value below, and of the next one in the upper half


_FIRST, _DRAW = TABLES + len(Book._fields), len(Draw._fields)

# -- kernels -----------------------------------------------------------------------------------------


@inlined
def looked_up(word: np.uint64, book: Book, words: Params) -> np.uint64:
    """Return what a word's range says of it: its answer, or the number of its draw."""
    binade = words[_U(_FIRST) + (word >> _52)]
    place = book.ranges + (((binade >> _SHIFTS) + ((word & _FRACTION) >> (binade & _SHIFT))) << _1)
    both = words[place + _1]
    return pick(word >= words[place], both >> _32, both & _LOW)


@inlined
def beside(word: np.uint64, off: np.uint64) -> np.uint64:
    """Return the word of a number farther from zero, or nearer; zeros, infinities and NaNs as they are."""
    size = word & ~_SIGN
    return word + pick((size != _0) & (size < _INFINITY), off, _0)


@inlined
def is_farther(word: np.uint64, limit: np.uint64, low: np.uint64, gap: np.uint64, unit: np.int64) -> bool:
    """Return whether the share of a number's distance to the value below in the gap is above a limit."""
    size = word & ~_SIGN
    significand = pick(size == _0, _0, (word & _FRACTION | _HIDDEN) << _11)
    high, below = long_shifted(significand, _0, max(unit + _I(1023 + 63) - _I(size >> _52), _I(0)))
    high -= low
    # The limit times the gap; limits that are odd count as one more, which is taken too.
    taken = limit & _1
    by_high, by_low = word_product(gap, limit + taken)
    equal = (below > by_low) | ((below == by_low) & (taken != _0))
    return (limit != _ONES) & ((high > by_high) | ((high == by_high) & equal))


@helper
def look_up(
    numbers: Any, off: np.uint64, book: Book, words: Params, limits: Any, draws: Any, answers: Any,
    stochastic: bool,
) -> None:  # fmt: skip
    """Write the answers of numbers, or of those that are `off` from them."""
    in_wide_vectors()
    if not stochastic:
        for i in range(numbers.size):
            answers[i] = looked_up(beside(numbers[i], off), book, words)
        return
    lows, gaps, units, both = draws
    for i in range(numbers.size):
        step = looked_up(beside(numbers[i], off), book, words)
        draw = load_record(Draw, words, book.draws + step * _U(_DRAW))
        lows[i], gaps[i], units[i], both[i] = draw.low, draw.gap, draw.unit, draw.answers
    for i in range(numbers.size):
        farther = is_farther(beside(numbers[i], off), limits[i], lows[i], gaps[i], _I(units[i]))
        answers[i] = pick(farther, both[i] >> _32, both[i] & _LOW)


@helper
def answered(
    numbers: Any, raised: Any, words: Params, random: Any, stochastic: bool, signals: bool, converts: bool
) -> bool:  # fmt: skip
    """Write codes in the place of numbers, and their flags; return whether any has none."""
    in_wide_vectors()
    grid, book = load_record(Grid, words, 0), load_record(Book, words, TABLES)
    rows = np.empty((8, CHUNK), np.uint64)
    limits, answers, others, values = rows[0], rows[1], rows[2], rows[3]
    draws = rows[4], rows[5], rows[6], rows[7]
    if stochastic:
        for i in range(numbers.size):
            limits[i] = drawn_limit(_U(random[i]), grid)
    look_up(numbers, _0, book, words, limits, draws, answers, stochastic)
    if book.margin != _0:
        for off in (book.margin, _0 - book.margin):
            look_up(numbers, off, book, words, limits, draws, others, stochastic)
            for i in range(numbers.size):
                answers[i] |= _U(answers[i] != others[i]) << _24
    if signals:
        for i in range(numbers.size):
            values[i] = words[book.values + (answers[i] & _CODE)]
        for i in range(numbers.size):
            word, answer = numbers[i], answers[i]
            flags = pick(word == values[i], _0, answer >> _16 & _FLAGS) | raised[i]
            alone = pick(flags & _INVALID != _0, _INVALID, flags)
            alone = pick(raised[i] & _DIVIDED != _0, _DIVIDED, alone)
            raised[i] = pick(converts, flags, alone)
            off = beside(word, book.margin) - word
            answers[i] = answer | _U((values[i] - word + off <= off + off) & (off != _0)) << _24
    any_refused = False
    for i in range(numbers.size):
        refused = answers[i] >> _24 != _0
        numbers[i] = pick(refused, _REFUSED, answers[i] & _CODE)
        any_refused |= refused
    return any_refused


# -- words -------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=64)
def answer_words(fmt: Codebook, rule: Projection, loses: bool) -> Params | None:
    """Return the words of a target and of all answers; None where words of binary64 do not tell these apart.

    `loses` says that results may be rounded to odd.
    """
    if not all(_is_near(fmt, negative) for negative in (False, True)):
        return None
    target, bits = lower_target(fmt, rule), rule.rounding.bits
    below = target.copy()
    below[Grid._fields.index("variant")] = 0  # then the random integer 0 takes no next value
    firsts, answers = steps_of(fmt, below, np.dtype(_U), bits > 0, signals=True)
    _, _, entries, binades, shift = part(firsts, np.arange(firsts.size, dtype=np.uint32) if bits else answers)
    if not binades.size:
        binades = (np.arange(_BINADES) << 64 - shift) >> 12 << SHIFTS | min(shift, CROWDED)
    elif (binades & CROWDED == CROWDED).any():
        return None
    ranges = np.stack([entries["first"], entries["above"].astype(_U) << _32 | entries["below"]], axis=1)
    draws = _draws(fmt, rule, target, firsts, answers) if bits else np.empty(0, _U)
    at = _FIRST + _BINADES
    margin = _MARGIN * (loses and not _is_short(fmt, bits, target))
    book = Book(margin, at, at + ranges.size, at + ranges.size + len(fmt.values))
    words = [target[:TABLES], book, binades, ranges.reshape(-1), values_of(fmt), draws.reshape(-1)]
    found = np.concatenate([np.asarray(each, _U) for each in words])
    found.flags.writeable = False
    return found


def _is_short(fmt: Codebook, bits: int, target: Params) -> bool:
    """Return whether quotients to odd lie on the right side of all points, with so many random bits."""
    zeros = (1 << 64 - _SHORT) - 1
    for negative in (False, True):
        for numbers in points_of(fmt, negative):
            if numbers.low.any() or (numbers.high & _U(zeros)).any():
                return False
    places = _places_of(target)
    # Of 63 bits, as many as precision and random bits leave; the last place is half a unit.
    used = (places.low | places.gap) & _U(((zeros + 1) << bits) - 1)
    return not (bits and (used | places.low_rest | places.gap_rest).any())


def _places_of(target: Params) -> Place:
    """Return the places of both rays, a column for each word."""
    return Place(*target[TABLES:].reshape(-1, len(Place._fields)).T)


def _is_near(fmt: Codebook, negative: bool) -> bool:
    """Return whether all numbers of a ray lie well within the exponents of binary64."""
    ray = fmt.ray(negative)
    ends = [*ray.sizes[:2], *ray.thresholds[:2], ray.sizes[-1], *ray.thresholds[-2:], ray.beyond]
    ratios = [each.as_integer_ratio() for each in ends if each]
    return all(abs(over.bit_length() - under.bit_length()) < _FAR for over, under in ratios)


def _answers(words: Codes, target: Params, random: int, stochastic: bool) -> Codes:
    """Return the answers that the scalar kernel gives to words of binary32 or binary64."""
    codes, flags = np.full(words.size, REFUSED, _U), np.zeros(words.size, np.uint8)
    integers = np.full(words.size if stochastic else 0, random, np.uint32)
    source = lower_source(SINGLE if words.itemsize == 4 else DOUBLE)
    convert_to_codebook(np.array(words, _U), source, codes, target, integers, flags)
    return np.where(codes == REFUSED, REFUSES, codes | flags.astype(_U) << _16).astype(np.uint32)


def steps_of(
    fmt: Codebook, target: Params, kind: np.dtype[Any], stochastic: bool = False, signals: bool = False
) -> tuple[Codes, Codes]:
    """Return the first word of each step of a projection, and its answer; with flags where `signals`.

    Of stochastic ones every value begins a step: numbers below the least value, which are all rounded to it,
    may have the answer of those above it, which are drawn.
    """
    words = words_next_to(fmt, kind)
    answers = _answers(words, target, 0, stochastic)
    codes = answers & (REFUSES | 0xFFFF)
    if signals:
        exact = (codes < REFUSES) & (values_of(fmt)[codes & 0xFFFF] == words)
        assert np.array_equal(codes[exact], answers[exact]), "a value that signals"
        # Values get the flags of a word next to them with their code: of the next word, if it has it.
        same = np.concatenate([[False], codes[1:] == codes[:-1], [False]])
        for beside, step in ((same[:-1], -1), (same[1:], 1)):
            (places,) = np.nonzero(exact & beside)
            answers[places] = answers[places + step]
    found = answers if signals else codes
    changes = np.append(True, found[1:] != found[:-1])
    if stochastic:
        sizes = values_of(fmt) & ~_SIGN
        changes[1:] |= np.isin(words[1:] & ~_SIGN, sizes) & (np.diff(words) == 1)
    assert np.all(np.diff(words)[changes[1:]] == 1), "a step between two words that were looked at"
    return words[changes], found[changes]


def _draws(fmt: Codebook, rule: Projection, target: Params, firsts: Codes, answers: Codes) -> Codes:
    """Return the words of the draw of each step; without an interval both answers are the same."""
    draws = np.zeros((firsts.size, _DRAW), _U)
    nexts = answers.copy()
    places = _places_of(target)
    for negative in (False, True):
        ray = fmt.ray(negative)
        sizes = np.array(ray.sizes)
        aboves = np.append(sizes[1:], sizes[-1] if ray.beyond is None else float(ray.beyond))
        mine = (firsts >= _SIGN + _U(is_between(fmt))) == negative  # there -0 is as 0 is
        numbers = (firsts & ~_SIGN).view(np.float64)
        place = np.searchsorted(sizes, numbers, side="right") - 1
        mine &= (place >= 0) & (numbers < np.inf)
        at = place[mine]
        row = at + negative * (places.size.size - sizes.size)
        low, gap, units = places.low[row], places.gap[row], places.unit[row].view(_I)
        whole = (places.low_rest[row] == 0) & (places.gap_rest[row] == 0)
        gaps = np.ldexp(gap.astype(np.float64), units)
        above, some = aboves[at], np.nonzero(mine)[0]
        # Three quarters of the gap, or on this side of zero if that lies within.
        middle = np.maximum(sizes[at] + 0.75 * gaps, above / 2)
        inside = numbers[mine] < above
        some, middle, whole = (
            some[inside],
            middle[inside],
            (whole & (sizes[at] < middle) & (middle < above))[inside],
        )
        draws[some, :3] = np.stack([low, gap, units.view(_U)], axis=1)[inside]
        points = (-middle if negative else middle).view(_U)
        nexts[some] = _answers(points, target, (1 << rule.rounding.bits) - 1, True)
        answers[some[~whole]], nexts[some[~whole]] = REFUSES, REFUSES
    draws[:, 3] = answers.astype(_U) | nexts.astype(_U) << _32
    return draws
