"""Laws of special cases: zeros, NaNs, negative numbers in unsigned formats; and of flags and flushing."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from fractions import Fraction
from typing import get_args

import numpy as np

from lowprec.spec.format import Sign
from lowprec.spec.projection import Flag, Projection, Saturation, Tininess
from lowprec.testing.grid import ABOVE, BELOW, EXACT, TIE, Array, Positions, code_of, nan_code
from lowprec.testing.law import Outcome, law, number
from lowprec.testing.laws.rounding import codes_at, compared, encoded, inside, refused
from lowprec.testing.projecting import farther
from lowprec.testing.subjects import Subject


def _in_every_mode(subject: Subject, values: Array, want: Array) -> Iterator[Outcome]:
    """Yield values whose codes are the same in every mode."""
    for mode in subject.modes:
        got = subject.encode(values, Projection(rounding=mode))
        yield compared(subject, values, got, want, ("rounding", mode.name))


@law("zeros", "+0 and -0, every mode", lambda s: s.known and s.encodes)
def zeros(subject: Subject) -> Iterator[Outcome]:
    """Zero becomes zero, with its sign where the format has that; NaN, else the smallest, where
    there is no zero.
    """
    fmt, signs = subject.format, np.array([False, True])
    if fmt.subnormals or not fmt.nans:
        want = code_of(np.zeros(2, np.int64), signs, fmt)
    else:
        want = np.array([nan_code(fmt, False), nan_code(fmt, True)])
    return _in_every_mode(subject, np.array([0.0, -0.0]), want)


@law(
    "NaN",
    "NaNs of both signs, every mode",
    lambda s: s.known and s.encodes and (s.projects or s.format.nans > 0 or not s.format.negative_zero),
)
def nans(subject: Subject) -> Outcome | Iterator[Outcome]:
    """NaN becomes the format's quiet NaN, with its sign where that has one; lowprec refuses it
    where there is none.
    """
    fmt, values = subject.format, np.array([np.nan, -np.nan])
    if fmt.nans or not fmt.negative_zero:
        return _in_every_mode(subject, values, np.array([nan_code(fmt, False), nan_code(fmt, True)]))
    return refused(subject, values)


@law(
    "below the smallest",
    "formats without zero, numbers below their smallest, every mode",
    lambda s: s.known and s.encodes and not s.format.subnormals,
)
def below_the_smallest(subject: Subject) -> Iterator[Outcome]:
    """A number below the smallest value becomes that value, with its sign."""
    places = subject.places.take((subject.places.magnitude < 0) & (subject.points != 0))
    return _in_every_mode(
        subject, places.values, code_of(np.zeros_like(places.magnitude), places.negative, subject.format)
    )


@law(
    "negative numbers",
    "unsigned formats; negative numbers and -infinity, every mode and policy",
    lambda s: s.known and s.encodes and s.sign is Sign.UNSIGNED,
)
def negative_numbers(subject: Subject) -> Iterator[Outcome]:
    """A negative number that does not round to 0 becomes NaN, or magnitude 0 where there is no NaN."""
    values = -subject.points[subject.points != 0]
    places = Positions.of(values.tolist(), subject.grid)
    for mode in subject.modes:
        up = farther(mode.name, places)
        want = code_of(np.maximum(places.magnitude + up, 0), places.negative, subject.format)
        infinite = code_of(np.ones(1, np.int64), np.ones(1, bool), subject.format)
        for policy in subject.policies:
            how = Projection(rounding=mode, saturation=policy)
            yield encoded(subject, np.append(values, -np.inf), np.append(want, infinite), how)


_TININESS: tuple[Tininess, ...] = get_args(Tininess)

# -- what is signalled, and what is flushed ------------------------------------------------------------


@law(
    "flags",
    "finite numbers other than 0, every mode, saturation none; not below the smallest of a format without "
    "zero",
    lambda s: s.projects,
)
def flags(subject: Subject) -> Iterator[Outcome]:
    """Inexact is signalled where the value changes, and with it overflow, underflow or neither.

    Overflow is where a number, rounded on the grid continued past the largest value, exceeds that; underflow
    is where it is tiny: before rounding, or rounded to the bits of a normal value with an unbounded exponent,
    below the smallest normal value.
    """
    places = subject.places.take((subject.places.magnitude >= 0) & (subject.places.values != 0))
    for mode, tininess in itertools.product(subject.modes, _TININESS):
        over = places.beyond | ((places.magnitude == places.last) & farther(mode.name, places))
        inexact = places.kind != EXACT
        tiny = _tiny(subject, places, mode.name, tininess) & inexact & ~over
        want = Flag.INEXACT * inexact | Flag.OVERFLOW * over | Flag.UNDERFLOW * tiny
        how = Projection(rounding=mode, tininess=tininess)
        got = subject.flags(places.values, how)
        said = (("projection", str(how)), ("got", _named, got), ("want", _named, want))
        yield Outcome.of(got != want, ("value", number, places.values), *said)


def _tiny(subject: Subject, places: Positions, mode: str, tininess: Tininess) -> Array:
    """Return whether numbers, rounded to a normal value's precision or not, are below the smallest one."""
    fmt, grid = subject.format, subject.grid
    if not fmt.exponent_bits or not fmt.subnormals:
        return np.zeros(places.values.size, bool)
    first = 1 << fmt.trailing_bits
    normal = grid.value(first)
    below = normal - (normal - grid.value(first - 1)) / 2  # the last number of that many bits before it
    tiny = np.abs(places.values) < float(normal)
    if tininess == "before":
        return tiny
    for place in np.flatnonzero(tiny & (places.magnitude == first - 1)).tolist():
        size = abs(Fraction(float(places.values[place])))
        if size < below:
            continue
        twice = 2 * (size - below) - (normal - below)
        kind = EXACT if size == below else BELOW if twice < 0 else TIE if twice == 0 else ABOVE
        # With an unbounded exponent `below` has the parity of the magnitude before the smallest normal one.
        one = places.take(np.arange(tiny.size) == place)._replace(kind=np.array([kind]))
        tiny[place] = not farther(mode, one)[0]
    return tiny


def _named(signals: int) -> str:
    return " ".join(str(flag.name).lower().replace("_", " ") for flag in Flag if signals & flag) or "nothing"


@law(
    "flushing",
    "numbers in range, every mode, subnormals flush_results; floating point with zero",
    lambda s: s.projects and s.format.exponent_bits > 0 and s.format.subnormals,
)
def flushing(subject: Subject) -> Iterator[Outcome]:
    """Results that are tiny, as underflow has it, become zeros of their sign, and nothing else changes."""
    places = subject.places.take(inside(subject.places))
    zero = code_of(np.zeros_like(places.magnitude), places.negative, subject.format)
    for mode, tininess in itertools.product(subject.modes, _TININESS):
        usual = codes_at(subject, places, farther(mode.name, places))
        want = np.where(_tiny(subject, places, mode.name, tininess), zero, usual)
        how = Projection(rounding=mode, subnormals="flush_results", tininess=tininess)
        yield encoded(subject, places.values, want, how)


@law(
    "symmetric",
    "finite numbers, saturation finite; two's complement",
    lambda s: s.projects and s.sign is Sign.TWOS_COMPLEMENT,
)
def symmetric(subject: Subject) -> Outcome:
    """A symmetric projection gives the code above the most negative one in its place, and changes
    nothing else.
    """
    plain = subject.encode(subject.points, Projection(saturation=Saturation.FINITE))
    got = subject.encode(subject.points, Projection(saturation=Saturation.FINITE, symmetric=True))
    lowest = 1 << (subject.width - 1)
    return compared(subject, subject.points, got, np.where(plain == lowest, lowest + 1, plain))
