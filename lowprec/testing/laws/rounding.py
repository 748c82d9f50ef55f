"""Laws of rounding: which of a number's two neighbours its code stands for, and what lies past the largest.

Where a number lies is found in fractions, on the grid that the parameters of the format describe.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np

from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Sign
from lowprec.spec.projection import Projection, Saturation
from lowprec.spec.rounding import MODES, Rounding
from lowprec.testing.grid import ABOVE, BELOW, EXACT, TIE, Array, Grid, Positions, code_of
from lowprec.testing.law import Outcome, law, number
from lowprec.testing.projecting import beyond_codes, farther
from lowprec.testing.subjects import Subject

NEAREST = tuple(mode.name for mode in MODES if mode.nearest)
#: Modes that take one side whatever the tail; `to_odd` alone asks which code is odd.
DIRECTED = tuple(mode.name for mode in MODES if not mode.nearest and mode.positive_even == mode.positive_odd)
_KINDS = {EXACT: "a value of the format", BELOW: "below the tie", TIE: "the tie", ABOVE: "above the tie"}


def inside(places: Positions) -> Array:
    """Return where numbers lie between two values of the format, or at one; none below the least above 0."""
    kept: Array = (
        (places.magnitude >= 0) & ((places.magnitude < places.last) | (places.kind == EXACT)) & ~places.beyond
    )
    return kept


def codes_at(subject: Subject, places: Positions, up: Array) -> Array:
    """Return the codes of the magnitudes that numbers lie at or above, or where `up` of the next."""
    magnitude = places.magnitude + up
    if subject.known:
        return code_of(magnitude, places.negative, subject.format)
    half = 1 << (subject.width - (subject.sign is not Sign.UNSIGNED))
    negated = -magnitude % (2 * half) if subject.sign is Sign.TWOS_COMPLEMENT else magnitude + half
    return np.where(places.negative, negated, magnitude)


def compared(subject: Subject, values: Array, got: Array, want: Array, *more: tuple[str, str]) -> Outcome:
    """Compare codes with those that are wanted; the first value whose codes differ is told."""
    said = (("got", subject.shown, got), ("want", subject.shown, want))
    return Outcome.of(got != want, ("value", number, values), *more, *said)


def encoded(subject: Subject, values: Array, want: Array, how: Projection) -> Outcome:
    """Encode values by a projection, and compare their codes with those that are wanted."""
    return compared(subject, values, subject.encode(values, how), want, ("projection", str(how)))


def mirrored(mode: str) -> str:
    """Return the mode that rounds the negative of a number to the negative of what a mode makes of it."""
    ways = {"toward_positive": "toward_negative", "toward_negative": "toward_positive"}
    return ways.get(mode, mode)


def refused(subject: Subject, values: Array) -> Outcome:
    """Return the outcome of NaNs that are to be refused."""
    try:
        got = subject.encode(values)
    except ValueError:
        return Outcome(values.size)
    rows = (("value", "nan"), ("got", subject.shown(got[0])))
    return Outcome.broken(values.size, *rows, ("want", "a ValueError, as there is no NaN"))


def unbiased(numbers: list[float], made: Array) -> Outcome:
    """Compare numbers with the mean of what they were rounded to, a row for each."""
    for value, row in zip(numbers, made.tolist(), strict=True):
        if not np.isfinite(row).all() or sum(map(Fraction, row)) != Fraction(value) * len(row):
            rows = (("value", number(value)), ("mean", number(sum(row) / len(row))))
            return Outcome.broken(made.size, *rows, ("want", "the value"))
    return Outcome(made.size)


def _tried(subject: Subject, names: Sequence[str]) -> list[Rounding]:
    return [mode for mode in subject.modes if mode.name in names]


def _rounds(subject: Subject, names: Sequence[str]) -> bool:
    return subject.encodes and subject.placed and bool(_tried(subject, names))


def _judged(subject: Subject, names: Sequence[str], wanted: str) -> Iterator[Outcome]:
    """Try numbers in range under some modes: the code must be that of the neighbour that the mode takes."""
    places = subject.places.take(inside(subject.places) & (subject.points != 0))
    for mode in _tried(subject, names):
        up = farther(mode.name, places)
        got, want = subject.encode(places.values, Projection(rounding=mode)), codes_at(subject, places, up)
        wrong = got != want
        if not subject.known:  # it may have no code of -0
            wrong &= ~((places.magnitude + up == 0) & places.negative & (got == 0))
        lies = [*zip(places.values.tolist(), places.kind.tolist(), strict=True)] if wrong.any() else []
        yield Outcome.of(
            wrong,
            ("value", lambda pair: f"{number(pair[0])}, {_KINDS[pair[1]]}", lies),
            *(("rounding", mode.name), ("got", subject.shown, got)),
            ("want", lambda code: f"{subject.shown(code)}, {wanted}", want),
        )


@law("nearest", "numbers in range; nearest modes", lambda s: _rounds(s, NEAREST))
def nearest(subject: Subject) -> Iterator[Outcome]:
    """No value of the format is closer; ties go to the even code, away from zero or toward zero,
    as the mode says.
    """
    return _judged(subject, NEAREST, "the nearest")


@law("directed bounds", "numbers in range; directed modes", lambda s: _rounds(s, DIRECTED))
def directed(subject: Subject) -> Iterator[Outcome]:
    """A number becomes the value on the side that the mode says, with no other value between them.

    Toward_positive not below it, toward_negative not above it, toward_zero not larger in magnitude,
    away_from_zero not smaller.
    """
    return _judged(subject, DIRECTED, "the value on that side")


@law("to odd", "numbers in range; to_odd", lambda s: _rounds(s, ("to_odd",)))
def to_odd(subject: Subject) -> Iterator[Outcome]:
    """A number that the format lacks becomes that one of its two neighbours whose code is odd."""
    return _judged(subject, ("to_odd",), "the odd code")


@law("overflow", "numbers past the largest value, every mode and policy", lambda s: s.known and s.encodes)
def overflow(subject: Subject) -> Iterator[Outcome]:
    """The mode decides as between the largest value and the next of the continued grid, farther on
    as above the middle.

    The nearer one is the largest value; the farther one is infinity, else NaN, else the largest value under
    saturation none, and the largest value under finite and propagate.
    """
    fmt, grid, places = subject.format, subject.grid, subject.places
    places = places.take((places.magnitude == places.last) & (places.kind != EXACT))
    inner = code_of(places.magnitude, places.negative, fmt)
    for mode in subject.modes:
        over = farther(mode.name, places)  # far past the largest, a number lies above every half
        for policy in subject.policies:
            want = np.where(over, beyond_codes(places.negative, fmt, grid, policy, infinite=False), inner)
            how = Projection(rounding=mode, saturation=policy)
            yield encoded(subject, places.values, want, how)


@law(
    "infinities",
    "infinite operands, every mode and policy; of unsigned formats the positive one",
    lambda s: s.known and s.encodes,
)
def infinities(subject: Subject) -> Iterator[Outcome]:
    """An infinite operand becomes infinity, else NaN, else the largest value; under saturation
    finite that at once.
    """
    values = np.array([np.inf, -np.inf][: 1 if subject.sign is Sign.UNSIGNED else 2])
    for mode in subject.modes:
        for policy in subject.policies:
            how = Projection(rounding=mode, saturation=policy)
            want = beyond_codes(np.signbit(values), subject.format, subject.grid, policy, infinite=True)
            yield encoded(subject, values, want, how)


@law(
    "monotone",
    "finite numbers, every mode, saturation finite where it can be chosen; not 0 where the format has none; "
    "in codebooks where 0 lies between two values not the modes that look toward zero or at parities",
    lambda s: s.encodes and s.placed,
    codebooks=True,
)
def monotone(subject: Subject) -> Iterator[Outcome]:
    """A larger number never gets a smaller value."""
    values = np.sort(subject.points)
    if subject.known and not subject.format.subnormals:
        values = values[values != 0]
    policy = Saturation.FINITE if subject.projects else subject.policies[0]
    aside = ("toward_zero", "away_from_zero", "to_odd") if _straddles(subject) else ()
    for mode in subject.modes:
        if mode.name in aside:
            continue
        made = subject.quantize(values, Projection(rounding=mode, saturation=policy))
        keep = ~np.isnan(made)
        numbers, results = values[keep], made[keep]
        columns = (("value", number, numbers), ("becomes", number, results))
        after = (("larger value", number, numbers[1:]), ("becomes less", number, results[1:]))
        yield Outcome.of(results[:-1] > results[1:], *columns, *after, ("rounding", mode.name))


def _straddles(subject: Subject) -> bool:
    """Return whether 0 lies between two values: of a gap there is no end toward zero."""
    fmt = subject.fmt
    return isinstance(fmt, Codebook) and not fmt.subnormals and fmt.min_finite < 0


def law_at(value: float | int, grid: Grid, *, unsigned: bool, mode: str) -> str:
    """Return the name of the law that says what a number becomes, by where it lies.

    >>> from lowprec.spec.catalog import E4M3FN
    >>> from lowprec.testing.grid import grid_of
    >>> [law_at(x, grid_of(E4M3FN), unsigned=False, mode="nearest_even") for x in (1.0, 1.01, 500.0, np.inf)]
    ['round trip', 'nearest', 'overflow', 'infinities']
    """
    if value != value:
        return "NaN"
    if value == 0:
        return "zeros"
    if unsigned and value < 0:
        return "negative numbers"
    if abs(value) == np.inf:
        return "infinities"
    last = grid.last_negative if value < 0 else grid.last
    place = grid.place(abs(Fraction(value)), last)
    if place.magnitude < 0:
        return "below the smallest"
    if place.kind == EXACT:
        return "round trip"
    if place.magnitude == last:
        return "overflow"
    return "nearest" if mode in NEAREST else "directed bounds" if mode in DIRECTED else "to odd"
