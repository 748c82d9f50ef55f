"""Lower codebooks: their values for reading, and their rays, as a projection walks along them, for rounding.

A deterministic mode takes the next place of a ray from some number on, its *step*: each step is lowered to
that number, and to whether the number itself passes it. So kernels compare, and know neither modes nor ties.
A stochastic mode's steps are the values, and kernels find the tail between two of them.

Of words of binary32 or binary64 a projection is a step function. Words are parted into ranges in which
results change at most once: the upper bits of a word name its range. Values may lie close in one binade and
far apart in another: there the sign and the exponent say how many bits name the range.

Floor 2b. Imports spec and NumPy.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lowprec.kernels.codes import values_of
from lowprec.kernels.lower.records import (
    LIMITS,
    REFUSED,
    VARIANTS_BY_NUMBER,
    Grid,
    Params,
    Side,
    Source,
)
from lowprec.spec.codebook import Codebook, Number, Ray
from lowprec.spec.format import Sign
from lowprec.spec.projection import Flag, Projection, Saturation
from lowprec.spec.rounding import Threshold

__all__ = [
    "CROWDED",
    "SHIFTS",
    "TABLES",
    "Place",
    "Ranges",
    "in_values",
    "lower_codebook",
    "part",
    "points_of",
]
__all__ += ["words_next_to"]

Word = Any
Codes = npt.NDArray[Any]

#: A number, and whether it itself goes on to the next place.
Step = tuple[Number, bool]

#: An exponent below all others: that of 0.
FAR = -(1 << 40)

#: Where the places of the rays begin: behind the words of a stage, which has a target, a source and one more.
TABLES = len(Grid._fields) + 2 * len(Side._fields) + len(Source._fields) + 1


class Place(NamedTuple):
    """A place of a ray: the words of its value and of the step to the next place.

    A number is a significand whose highest bit is bit 63, 64 bits more in `step_low`, and the exponent of the
    last bit of the first word; 0 has no bits.
    """

    size: Word
    exponent: Word
    other: Word  #: 1 where the value is of the other sign: the first of a ray without zero
    code: Word
    step: Word  #: numbers of more than this, or of as much if `passes`, go on
    step_low: Word
    step_exponent: Word
    passes: Word
    low: Word  #: for stochastic modes, the value in units of 2**unit, and 64 bits more
    low_rest: Word
    gap: Word  #: the distance to the next value in them; 0 where there is none
    gap_rest: Word
    unit: Word


def lower_codebook(fmt: Codebook, projection: Projection) -> Params:
    """Return what a kernel needs to project onto a codebook: words as of formats, then the rays' places.

    Raises
    ------
    ValueError
        The projection asks for what the codebook does not have.
    """
    _refuse(fmt, projection)
    rays, unsigned = [fmt.ray(False), fmt.ray(True)], fmt.sign is Sign.UNSIGNED
    kept = [True, not unsigned or projection.negative == "drop_sign"]
    nans = _nans(fmt, projection)
    zeros = _zeros(fmt, projection, nans)
    negative = _negative_result(fmt, projection, zeros, nans)
    extremes = [ray.codes[-1] if keeps else negative for ray, keeps in zip(rays, kept, strict=True)]
    beyond = [
        code if code is not None else (nans if fmt.has_nan and nans is not None else extreme)
        for code, extreme in zip(fmt.infinity_codes, extremes, strict=True)
    ]
    if unsigned:
        beyond[1] = beyond[0] if projection.negative == "drop_sign" else negative
    nan = _nan_results(fmt, projection, extremes, zeros, nans)
    places = [_places(fmt, projection, ray, bool(sign)) for sign, ray in enumerate(rays)]
    grid = Grid(
        **{
            **dict.fromkeys(Grid._fields, 0),
            "mask": len(fmt.values) - 1,
            "bits": projection.rounding.bits,
            "variant": VARIANTS_BY_NUMBER[projection.rounding.variant],
            "rays": 2 if is_between(fmt) else 1,
        }
    )
    sides = []
    for sign in (False, True):
        mode, ray = fmt.mode(projection.rounding), rays[sign]
        stays = mode.threshold(negative=sign, odd=bool(ray.codes[-1] & 1)) is Threshold.NEVER
        stays = stays and not mode.bits and projection.overflow_test == "after"
        saturates = projection.saturation is not Saturation.NONE or stays
        refused = negative == REFUSED and not kept[sign]
        sides.append(
            Side(
                max_magnitude=len(ray.codes) - 1,
                limit_even=LIMITS[projection.rounding.threshold(negative=sign, odd=False)],
                limit_odd=LIMITS[projection.rounding.threshold(negative=sign, odd=True)],
                base=REFUSED if refused else 0 if kept[sign] else negative,
                step=int(kept[sign]),
                rounded_zero=zeros[sign] if fmt.subnormals else REFUSED,
                zero=zeros[sign],
                overflow=extremes[sign] if saturates else beyond[sign],
                infinity=extremes[sign] if projection.saturation is Saturation.FINITE else beyond[sign],
                nan=nan[sign],
                carried=nan[sign],
                negative_invalid=Flag.INVALID if sign and unsigned else 0,
                zero_invalid=0 if fmt.subnormals or is_between(fmt) else Flag.INVALID,
                infinity_invalid=0 if fmt.infinity_codes[sign] is not None else Flag.INVALID,
                nan_invalid=0 if fmt.has_nan else Flag.INVALID,
                first=TABLES + sign * len(places[0]) * len(Place._fields),
            )
        )
    words = [*grid, *sides[0], *sides[1]]
    words += [0] * (TABLES - len(words))
    head = np.array([int(word) & _ONES for word in words], dtype=np.uint64)
    array = np.concatenate([head, *(side.reshape(-1) for side in places)])
    array.flags.writeable = False
    return array


def in_values(fmt: Codebook, target: Params) -> Params:
    """Return the words that project onto a codebook, with values in binary64 in the place of codes."""
    values, words = values_of(fmt), target.copy()
    begin = len(Grid._fields)
    for start in (begin, begin + len(Side._fields)):
        for name in _CODES:
            place = start + Side._fields.index(name)
            if words[place] != REFUSED:
                words[place] = values[int(words[place])]
    codes = words[TABLES:].reshape(-1, len(Place._fields))[:, Place._fields.index("code")]
    codes[:] = values[codes.astype(np.intp)]
    return words


#: The words of a side that are codes.
_CODES = ("base", "rounded_zero", "zero", "overflow", "infinity", "nan", "carried")


def _refuse(fmt: Codebook, projection: Projection) -> None:
    if projection.binary_only:
        raise ValueError(
            f"{projection.binary_only} of a projection is for binary formats; {fmt.name!r} is a codebook, "
            "which has no exponents. Leave it out"
        )
    if projection.nan_code is not None and projection.nan_code >= len(fmt.values):
        raise ValueError(
            f"nan_code={projection.nan_code:#x} of a projection is no code of {fmt.name!r}; use 0 to "
            f"{len(fmt.values) - 1:#x}"
        )


def is_between(fmt: Codebook) -> bool:
    """Return whether zero lies between two values, so that it is rounded to one of them."""
    return fmt.ray(False).sizes[0] < 0


def _nans(fmt: Codebook, projection: Projection) -> int | None:
    return fmt.nan_code if projection.nan_code is None else projection.nan_code


def _zeros(fmt: Codebook, projection: Projection, nans: int | None) -> list[int]:
    """Return what +0 and -0 become, unless they lie between two values."""
    positive, negative = fmt.ray(False), fmt.ray(True)
    if fmt.subnormals:
        return [positive.codes[0], (negative if fmt.has_negative_zero else positive).codes[0]]
    if projection.zero == "smallest" or nans is None or not fmt.has_nan:
        return [positive.codes[0]] * 2
    return [nans, nans]


def _negative_result(fmt: Codebook, projection: Projection, zeros: list[int], nans: int | None) -> int:
    """Return what negative results become in an unsigned codebook."""
    if projection.negative == "error":
        return REFUSED
    return nans if projection.negative == "nan" and fmt.has_nan and nans is not None else zeros[0]


def _nan_results(
    fmt: Codebook, projection: Projection, extremes: list[int], zeros: list[int], nans: int | None
) -> list[int]:
    """Return what NaN operands of either sign become."""
    if nans is not None:
        return [nans, nans]
    if projection.nan == "error":
        return [REFUSED, REFUSED]
    if projection.nan == "max":
        codes = [extremes[0], extremes[0] if fmt.sign is Sign.UNSIGNED else extremes[1]]
    elif projection.nan == "zero" and fmt.subnormals:
        codes = zeros
    elif projection.nan == "negative_zero" and fmt.has_negative_zero:
        return [zeros[1], zeros[1]]
    else:
        raise ValueError(
            f"nan={projection.nan!r} of a projection asks for a code that {fmt.name!r} does not have; "
            f"use 'error' or 'max'"
        )
    return codes if projection.nan_sign == "keep" else [codes[0], codes[0]]


# -- rays ------------------------------------------------------------------------------------------------


class _Numbers(NamedTuple):
    """Numbers as `_words` gives them: an array for each of its words."""

    high: Codes
    low: Codes
    exponent: Codes

    def at(self, places: Any) -> _Numbers:
        """Return some of them."""
        return _Numbers(*(words[places] for words in self))

    def equal(self, others: _Numbers) -> npt.NDArray[np.bool_]:
        """Say which of them equal the others."""
        return np.logical_and.reduce([mine == other for mine, other in zip(self, others, strict=True)])

    def where(self, these: npt.NDArray[np.bool_], others: _Numbers) -> _Numbers:
        """Return the others where `these` says so, and else these."""
        return _Numbers(*(np.where(these, other, mine) for mine, other in zip(self, others, strict=True)))


class _Points(NamedTuple):
    """The magnitudes of a ray that no projection changes."""

    sizes: _Numbers
    aboves: _Numbers  #: the size at the next place, or 0 where there is none
    thresholds: _Numbers


@functools.lru_cache(maxsize=32)
def points_of(fmt: Codebook, negative: bool) -> _Points:
    """Return the magnitudes of a ray."""
    ray = fmt.ray(negative)
    aboves = (*ray.sizes[1:], 0.0 if ray.beyond is None else ray.beyond)
    thresholds = [0.0 if each is None else each for each in ray.thresholds]
    return _Points(*(_words_of(each) for each in (ray.sizes, aboves, thresholds)))


def _words_of(numbers: Sequence[Number]) -> _Numbers:
    """Return the words of the magnitudes of numbers; those of normal float64 numbers from their bits."""
    floats = np.array([each if type(each) is float else 0.0 for each in numbers])
    words = floats.view(np.uint64) & np.uint64((1 << 63) - 1)
    fields = (words >> np.uint64(52)).astype(np.int64)
    found = _Numbers((words << np.uint64(11)) | np.uint64(1 << 63), np.zeros_like(words), fields - 1086)
    (places,) = np.nonzero(fields == 0)
    if places.size:
        pairs = [numbers[place].as_integer_ratio() for place in places.tolist()]
        others = zip(*(_words(abs(numerator), denominator) for numerator, denominator in pairs), strict=True)
        for array, column in zip(found, others, strict=True):
            array[places] = column
    return found


def _step(fmt: Codebook, projection: Projection, ray: Ray, negative: bool, place: int) -> Step | None:
    """Return from which number on the next place is taken, and whether from that number itself."""
    size, above, threshold = ray.sizes[place], ray.size(place + 1), ray.thresholds[place]
    mode = fmt.mode(projection.rounding)
    if place == len(ray.sizes) - 1 and projection.overflow_test == "before":
        return size, False
    if above is None or threshold is None:
        return None
    if mode.bits:
        return above, True
    taken = mode.threshold(negative=negative, odd=bool(ray.codes[place] & 1))
    at, passes = {
        Threshold.ANY: (size, False),
        Threshold.HALF_OR_ABOVE: (threshold, True),
        Threshold.ABOVE_HALF: (threshold, False),
        Threshold.NEVER: (above, True),
    }[taken]
    # A threshold may be the next value itself, which is never rounded down.
    return (above, True) if at == above else (at, passes and at != size)


def _steps(
    fmt: Codebook, projection: Projection, negative: bool, codes: Codes
) -> tuple[_Numbers, npt.NDArray[np.bool_]]:
    """Return what `_step` does for all places but the ends: there numbers may be negative, or missing."""
    mode, points = fmt.mode(projection.rounding), points_of(fmt, negative)
    if mode.bits:
        return points.aboves, np.ones(codes.size, bool)
    odd = (codes & 1).astype(bool)
    taken = [mode.threshold(negative=negative, odd=each) for each in (False, True)]
    numbers = {
        Threshold.ANY: points.sizes,
        Threshold.HALF_OR_ABOVE: points.thresholds,
        Threshold.ABOVE_HALF: points.thresholds,
        Threshold.NEVER: points.aboves,
    }
    passing = [each in (Threshold.HALF_OR_ABOVE, Threshold.NEVER) for each in taken]
    at = numbers[taken[0]].where(odd, numbers[taken[1]])
    passes = np.where(odd, passing[1], passing[0]) & ~at.equal(points.sizes)
    return at, passes | at.equal(points.aboves)


def _places(fmt: Codebook, projection: Projection, ray: Ray, negative: bool) -> npt.NDArray[np.uint64]:
    """Return the words of a ray's places, a row for each."""
    codes, points = np.array(ray.codes), points_of(fmt, negative)
    at, passes = _steps(fmt, projection, negative, codes)
    gaps = _gaps(fmt, negative) if projection.rounding.bits else np.zeros((5, codes.size), np.uint64)
    columns = Place(
        size=points.sizes.high, exponent=points.sizes.exponent, other=np.zeros_like(codes), code=codes,
        step=at.high, step_low=at.low, step_exponent=at.exponent, passes=passes,
        low=gaps[0], low_rest=gaps[1], gap=gaps[2], gap_rest=gaps[3], unit=gaps[4],
    )  # fmt: skip
    places = np.stack([column.astype(np.uint64) for column in columns], axis=1)
    for place in {0, codes.size - 1}:
        step = _step(fmt, projection, ray, negative, place)
        words = (1 << 63, 0, 1 << 40) if step is None else _words(*max(step[0], 0.0).as_integer_ratio())
        passed = step is not None and (step[1] or step[0] < 0)
        first = Place._fields.index("step")
        places[place, first : first + 4] = [word & _ONES for word in (*words, int(passed))]
        places[place, Place._fields.index("other")] = ray.sizes[place] < 0
    return places


@functools.lru_cache(maxsize=32)
def _gaps(fmt: Codebook, negative: bool) -> Codes:
    """Return the values, the distances to the next places, and their units: 0 where there is no next one."""
    ray = fmt.ray(negative)
    sizes = np.array([*ray.sizes, *([] if ray.beyond is None else [float(ray.beyond)])])
    units = np.frexp(np.maximum(abs(sizes[:-1]), sizes[1:]))[1] - 63
    ends = np.stack([sizes[:-1], sizes[1:]])
    with np.errstate(under="ignore"):
        scaled = abs(np.ldexp(ends, -units))
    rests = np.ldexp(scaled - np.floor(scaled), 64)
    wide = ((rests != np.floor(rests)) | (np.ldexp(scaled, units) != abs(ends))).any(axis=0)
    wholes, rests, minus = np.floor(scaled).astype(np.uint64), rests.astype(np.uint64), ends < 0
    low, high = np.where(minus, ~wholes + (rests == 0), wholes)  # of a negative one the complement
    low_rest, high_rest = np.where(minus, ~rests + np.uint64(1), rests)
    if isinstance(ray.beyond, Fraction):
        exact = ray.beyond * Fraction(2) ** (64 - int(units[-1]))
        wide[-1] |= exact.denominator > 1
        high[-1], high_rest[-1] = int(exact) >> 64, int(exact) & _ONES
    if wide.any():
        raise ValueError(
            f"stochastic rounding to {fmt.name!r} is not served: the gap above {ray.sizes[wide.argmax()]!r} "
            "is too wide for the 128 bits that numbers are divided in. Use a deterministic mode"
        )
    gap = high - low - (high_rest < low_rest)
    gaps = np.zeros((5, len(ray.sizes)), np.uint64)
    gaps[:, : low.size] = low, low_rest, gap, high_rest - low_rest, units.astype(np.int64).view(np.uint64)
    return gaps


def _words(numerator: int, denominator: int) -> tuple[int, int, int]:
    """Return a number of at most 128 bits as two words, normalized, and the exponent of the first."""
    if numerator == 0:
        return 0, 0, FAR
    bits = numerator.bit_length()
    whole = numerator << 128 >> bits
    assert whole << bits == numerator << 128, "more than 128 bits"
    assert denominator & (denominator - 1) == 0, "no binary fraction"
    return whole >> 64, whole & _ONES, bits - 63 - denominator.bit_length()


_ONES = (1 << 64) - 1


# -- steps of words --------------------------------------------------------------------------------------

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
    sizes = np.unique(np.concatenate([near, near + unit, near[near > 0] - unit, [last]]))
    words = np.concatenate([sizes, sizes | (last + unit)])
    words.flags.writeable = False
    return words


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
