"""Laws of codebooks: values as they are given, and rounding by thresholds, whatever the sign, zero and NaN.

Between which values a number lies is found among all of them in ascending order (`lowprec.testing.book`).
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Sign
from lowprec.spec.projection import Flag, Projection, Saturation
from lowprec.spec.rounding import stochastic
from lowprec.testing import book
from lowprec.testing.grid import EXACT, Array
from lowprec.testing.law import Outcome, law as any_law, number
from lowprec.testing.laws.decoding import same
from lowprec.testing.laws.rounding import compared, encoded, mirrored, refused, unbiased
from lowprec.testing.subjects import Subject

#: A law about codebooks alone.
law = functools.partial(any_law, codebooks=True, formats=False)


def _of(subject: Subject) -> Codebook:
    assert isinstance(subject.format, Codebook)
    return subject.format


@law("codebook values", "every code of a codebook", lambda s: s.known)
def values(subject: Subject) -> Outcome:
    """A code stands for the value that is given for it, zeros with their signs."""
    codes = subject.codes
    want = np.array(_of(subject).values)[codes]
    wrong = ~same(subject.decode(codes), want)
    return Outcome.of(wrong, ("code", subject.shown, codes), ("want", number, want))


@law(
    "thresholds",
    "numbers in the range of a codebook, zeros among them, every mode",
    lambda s: s.known and s.encodes,
)
def thresholds(subject: Subject) -> Iterator[Outcome]:
    """A number becomes one of the values next to it: the lower below their threshold, the upper above it.

    So in modes to nearest. At the threshold it becomes what the codebook's ties say, or the mode's own; other
    modes take the value on the side that they name, whatever the threshold. What lies below the smallest
    value of a codebook that begins above 0 becomes that.
    """
    fmt = _of(subject)
    stops = subject.stops
    keep = ~stops.past & ((subject.points != 0) | (fmt.min_finite < 0) | fmt.subnormals)
    yield from _judged(subject, book.Stops._make(column[keep] for column in stops), subject.points[keep])


@law(
    "codebook overflow",
    "numbers beyond the extreme values of a codebook, every mode and policy",
    lambda s: s.known and s.encodes,
)
def overflow(subject: Subject) -> Iterator[Outcome]:
    """Past the extreme value a number becomes that, or what stands beyond: infinity, else NaN, else that.

    The mode decides as between the extreme value and one more, as far from it as the one before, or with a
    given bound as threshold; where nothing overflows, the extreme value is what there is. Under saturation
    finite and propagate it always is.
    """
    stops = subject.stops
    past = book.Stops._make(column[stops.past] for column in stops)
    yield from _judged(subject, past, subject.points[stops.past])


def _judged(subject: Subject, stops: book.Stops, numbers: Array) -> Iterator[Outcome]:
    policies = subject.policies if stops.past.any() else subject.policies[:1]
    for mode, policy in itertools.product(subject.modes, policies):
        how = Projection(rounding=mode, saturation=policy)
        want = book.codes_of(stops, _of(subject), how)
        yield encoded(subject, numbers, want, how)


@law(
    "specials of codebooks",
    "infinities and NaNs, of codebooks without zero also 0, every mode and policy",
    lambda s: s.known and s.encodes,
)
def specials(subject: Subject) -> Iterator[Outcome]:
    """An infinity becomes that, else NaN, else the extreme value, which it is under saturation finite.

    NaN becomes the first NaN; where there is none, lowprec refuses it. Zero becomes NaN where it lies outside
    of the values, and the smallest where there is no NaN.
    """
    fmt = _of(subject)
    finite = np.flatnonzero(np.isfinite(np.array(fmt.values)))
    order = finite[np.argsort(np.array(fmt.values)[finite], kind="stable")]
    signs = np.array([False] if fmt.sign is Sign.UNSIGNED else [False, True])
    extremes = np.where(signs, order[0], order[-1])
    infinite = np.where(signs, -np.inf, np.inf)
    for mode, policy in itertools.product(subject.modes, subject.policies):
        how = Projection(rounding=mode, saturation=policy)
        want = extremes if policy is Saturation.FINITE else book.beyond(fmt, signs, extremes)
        yield encoded(subject, infinite, want, how)
    nan = book.nan_code(fmt)
    if not fmt.subnormals and fmt.min_finite > 0:
        zero = np.array([order[0] if nan is None else nan])
        yield compared(subject, np.zeros(1), subject.encode(np.zeros(1)), zero)
    if nan is not None:
        yield compared(subject, np.array([np.nan]), subject.encode(np.array([np.nan])), np.array([nan]))
    elif subject.projects:
        yield refused(subject, np.array([np.nan]))


@law(
    "negatives of unsigned codebooks",
    "codebooks without negative values; negative numbers, every mode",
    lambda s: s.known and s.encodes and s.sign is Sign.UNSIGNED,
)
def negatives(subject: Subject) -> Iterator[Outcome]:
    """A negative number that is not rounded to 0 becomes NaN, else 0, else the smallest value."""
    fmt = _of(subject)
    zero = book.zero_codes(fmt)[0]
    smallest = min(value for value in fmt.values if math.isfinite(value))
    nan = book.nan_code(fmt)
    rest = nan if nan is not None else zero if zero >= 0 else fmt.values.index(smallest)
    numbers = subject.points[subject.points > 0]
    stops = subject.stops
    stops = book.Stops._make(column[subject.points > 0] for column in stops)
    stops = stops._replace(negative=np.ones_like(stops.negative))
    for mode in subject.modes:
        how = Projection(rounding=mode)
        made = np.where(stops.past, -1, book.codes_of(stops, fmt, how))
        want = np.where((made == zero) & (zero >= 0), zero, rest)
        yield encoded(subject, -numbers, want, how)


@law("flags of codebooks", "finite numbers other than 0, every mode", lambda s: s.projects)
def flags(subject: Subject) -> Iterator[Outcome]:
    """Inexact is signalled where the value changes; with it overflow where the number passes the extreme
    value by more than rounding back, and underflow below a smallest value above 0.
    """
    fmt, keep = _of(subject), subject.points != 0
    stops = book.Stops._make(column[keep] for column in subject.stops)
    numbers = subject.points[keep]
    for mode in subject.modes:
        up = book.farther(mode.name, stops, fmt)
        over = stops.past & (up | stops.beyond) & (fmt.overflow != "never")
        want = Flag.INEXACT * ((stops.kind != EXACT) | stops.below) | Flag.OVERFLOW * over
        want |= Flag.UNDERFLOW * stops.below
        got = subject.flags(numbers, Projection(rounding=mode))
        said = (("got", _signals, got), ("want", _signals, want))
        yield Outcome.of(got != want, ("value", number, numbers), ("rounding", mode.name), *said)


def _signals(flags: int) -> str:
    return str(Flag(int(flags)))


@law(
    "stochastic mean of codebooks",
    "multiples of 2**-4 of some gaps between values; 4 random bits, all 16 integers",
    lambda s: s.projects,
)
def mean(subject: Subject) -> Outcome:
    """The mean over all random integers is the number itself: of these as many take a value as it is near."""
    listed = sorted({Fraction(value) for value in _of(subject).values if math.isfinite(value)})
    last = len(listed) - 2
    places = sorted({min(max(place, 0), last) for place in (0, len(listed) // 2 - 1, len(listed) // 2, last)})
    exact = []
    for place in places:
        low, high = listed[place : place + 2]
        points = [low + (high - low) * part / 16 for part in range(1, 16)]
        exact += [float(point) for point in points if Fraction(float(point)) == point]
    drawn, random = np.repeat(np.array(exact), 16), np.tile(np.arange(16), len(exact))
    made = subject.decode(subject.encode(drawn, Projection(rounding=stochastic(4, "A")), random))
    return unbiased(exact, made.reshape(-1, 16))


@law(
    "sign symmetry of codebooks",
    "codebooks whose negatives are values too, with the same thresholds; finite numbers, every mode",
    lambda s: s.projects and isinstance(s.fmt, Codebook) and book.is_symmetric(s.fmt),
)
def symmetry(subject: Subject) -> Iterator[Outcome]:
    """The negative of a number becomes the negative of what the number becomes, in the mirrored mode."""
    numbers = subject.points[subject.points > 0]
    for mode in subject.modes:
        other = mirrored(mode.name)
        got = subject.quantize(-numbers, Projection(rounding=other, saturation=Saturation.FINITE))
        want = -subject.quantize(numbers, Projection(rounding=mode, saturation=Saturation.FINITE))
        said = (("rounding", other), ("got", number, got), ("want", number, want))
        yield Outcome.of(got != want, ("value", number, -numbers), *said)


def law_of_codebook(value: float, fmt: Codebook) -> str:
    """Return the name of the law that says what a number becomes.

    >>> ternary = Codebook("ternary", [0, 1, float("nan"), -1])
    >>> [law_of_codebook(x, ternary) for x in (0.3, 9.0, np.inf)]
    ['thresholds', 'codebook overflow', 'specials of codebooks']
    """
    if not math.isfinite(value) or (value == 0 and not fmt.subnormals and fmt.min_finite > 0):
        return "specials of codebooks"
    if value < 0 and fmt.sign is Sign.UNSIGNED:
        return "negatives of unsigned codebooks"
    return "codebook overflow" if not fmt.min_finite <= value <= fmt.max_finite and value else "thresholds"
