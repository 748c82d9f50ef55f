"""Laws of what is no ordinary number: zeros, NaNs, negative numbers of unsigned formats; and of flags and flushing.

Floor 5.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.spec.format import Sign
from lowprec.spec.projection import Flag, Projection, Saturation
from lowprec.testing.grid import ABOVE, BELOW, EXACT, TIE, Places, code_of, nan_code
from lowprec.testing.law import Counterexample, Outcome, law, shown_value
from lowprec.testing.laws.rounding import codes_at, farther, inside
from lowprec.testing.subjects import Subject

__all__: list[str] = []

Array = npt.NDArray[Any]


def _ours(subject: Subject) -> bool:
    """One that takes projections."""
    return subject.fmt is not None and subject.encodes and len(subject.modes) > 1


@law("zeros", "format", "+0 and -0, every mode", lambda s: s.fmt is not None and s.encodes)
def zeros(subject: Subject) -> Outcome:
    """Zero becomes zero, with its sign where the format has that; NaN, else the smallest, where there is no zero."""
    fmt, values = subject.format, np.array([0.0, -0.0])
    if fmt.subnormals:
        want = code_of(np.zeros(2, np.int64), np.array([False, True]), fmt)
    elif fmt.nans:
        want = np.array([nan_code(subject.format, False), nan_code(subject.format, True)])
    else:
        want = np.array([0, 0 if fmt.sign is Sign.UNSIGNED else 1 << (subject.width - 1)])
    for mode in subject.modes:
        got = subject.encode(values, Projection(rounding=mode))
        if (got != want).any():
            place = int(np.argmax(got != want))
            rows = (("value", shown_value(values[place])), ("rounding", mode.name))
            shown = (("got", subject.shown(got[place])), ("want", subject.shown(want[place])))
            return Outcome(2, Counterexample((*rows, *shown)))
    return Outcome(2 * len(subject.modes))


@law("NaN", "format", "NaNs of both signs; formats with NaN", lambda s: s.fmt is not None and s.encodes)
def nans(subject: Subject) -> Outcome:
    """NaN becomes the format's quiet NaN, with its sign where that has one; a format without NaN refuses it."""
    fmt, values = subject.format, np.array([np.nan, -np.nan])
    if not fmt.nans and fmt.negative_zero:
        if len(subject.modes) == 1:
            return Outcome(0)
        try:
            got = subject.encode(values)
        except ValueError:
            return Outcome(2)
        refusal = ("want", "a ValueError: there is no NaN")
        return Outcome(2, Counterexample((("value", "nan"), ("got", subject.shown(got[0])), refusal)))
    got = subject.encode(values)
    want = np.array([nan_code(subject.format, False), nan_code(subject.format, True)])
    for place in range(2):
        if got[place] != want[place]:
            rows = (("value", "-nan" if place else "nan"), ("got", subject.shown(got[place])))
            return Outcome(2, Counterexample((*rows, ("want", subject.shown(want[place])))))
    return Outcome(2)


@law(
    "below the smallest",
    "format",
    "formats without zero, numbers below their smallest",
    lambda s: s.fmt is not None and s.encodes and not s.fmt.subnormals,
)
def below_the_smallest(subject: Subject) -> Outcome:
    """What is below the smallest value of a format without zero becomes that value, in every mode."""
    places = subject.places.take((subject.places.magnitude < 0) & (subject.places.values != 0))
    want = code_of(np.zeros_like(places.magnitude), places.negative, subject.format)
    for mode in subject.modes:
        got = subject.encode(places.values, Projection(rounding=mode))
        if (got != want).any():
            place = int(np.argmax(got != want))
            rows = (("value", shown_value(places.values[place])), ("rounding", mode.name))
            shown = (("got", subject.shown(got[place])), ("want", subject.shown(want[place])))
            return Outcome(got.size, Counterexample((*rows, *shown)))
    return Outcome(want.size * len(subject.modes))


@law("flags", "format", "finite numbers, every mode, saturation none", _ours)
def flags(subject: Subject) -> Outcome:
    """Inexact is signalled exactly where the value changes.

    Overflow is where the rounded number exceeds the largest, and underflow where an inexact result is tiny.
    """
    grid = subject.grid
    places, tried = subject.places, 0
    keep = (places.magnitude >= 0) & (places.values != 0)
    if grid.last_negative < 0:
        keep &= ~places.negative
    places = places.take(keep)
    for mode in subject.modes:
        up = farther(mode.name, places)
        over = places.beyond | ((places.magnitude == places.last) & up)
        inexact = (places.kind != EXACT) | places.beyond
        tiny = _tiny(subject, places, mode.name) & inexact & ~over
        want = Flag.INEXACT * inexact | Flag.OVERFLOW * over | Flag.UNDERFLOW * tiny
        got = subject.flags(places.values, Projection(rounding=mode))
        wrong = got != want
        tried += got.size
        if wrong.any():
            place = int(np.argmax(wrong))
            rows = (
                ("value", shown_value(places.values[place])),
                ("rounding", mode.name),
                ("got", _flagged(int(got[place]))),
                ("want", _flagged(int(want[place]))),
            )
            return Outcome(tried, Counterexample(rows))
    return Outcome(tried)


def _tiny(subject: Subject, places: Places, mode: str) -> Array:
    """Whether numbers, rounded to as many bits as a normal value has, stay below the smallest normal value."""
    fmt, grid = subject.format, subject.grid
    if not fmt.exponent_bits or not fmt.subnormals:
        return np.zeros(places.values.size, bool)
    first = 1 << fmt.trailing_bits
    normal = grid.value(first)
    below = normal - (normal - grid.value(first - 1)) / 2  # the last number of that many bits before it
    tiny = np.abs(places.values) < float(normal)
    for place in np.flatnonzero(tiny & (places.magnitude == first - 1)).tolist():
        size = abs(Fraction(float(places.values[place])))
        if size < below:
            continue
        twice = 2 * (size - below) - (normal - below)
        kind = EXACT if size == below else BELOW if twice < 0 else TIE if twice == 0 else ABOVE
        one = places.take(np.arange(tiny.size) == place)
        # On the grid with an unbounded exponent this number has the parity of the one before the smallest normal.
        one = one._replace(magnitude=np.array([first - 1]), kind=np.array([kind]))
        tiny[place] = not farther(mode, one)[0]
    return tiny


def _flagged(signals: int) -> str:
    return " ".join(str(flag.name).lower().replace("_", " ") for flag in Flag if signals & flag) or "nothing"


@law(
    "flushing",
    "format",
    "formats with subnormals; subnormals of the result flushed",
    lambda s: _ours(s) and s.fmt.exponent_bits > 0 and s.fmt.subnormals and s.fmt.trailing_bits > 0,
)
def flushing(subject: Subject) -> Outcome:
    """With flush_results tiny results become zeros of their sign, and nothing else changes."""
    grid, fmt = subject.grid, subject.format
    places = subject.places.take(inside(subject.places))
    if grid.last_negative < 0:
        places = places.take(~places.negative)
    tried = 0
    for mode in subject.modes:
        up = farther(mode.name, places)
        flushed = code_of(np.zeros_like(places.magnitude), places.negative, fmt)
        want = np.where(_tiny(subject, places, mode.name), flushed, codes_at(subject, places, up))
        got = subject.encode(places.values, Projection(rounding=mode, subnormals="flush_results"))
        wrong = got != want
        tried += got.size
        if wrong.any():
            place = int(np.argmax(wrong))
            rows = (("value", shown_value(places.values[place])), ("rounding", f"{mode}, subnormals flush_results"))
            shown = (("got", subject.shown(got[place])), ("want", subject.shown(want[place])))
            return Outcome(tried, Counterexample((*rows, *shown)))
    return Outcome(tried)


@law(
    "symmetric",
    "format",
    "two's complement, the most negative numbers",
    lambda s: _ours(s) and s.fmt.sign is Sign.TWOS_COMPLEMENT,
)
def symmetric(subject: Subject) -> Outcome:
    """A symmetric projection leaves the most negative code unused, and changes nothing else."""
    values = subject.points
    plain = subject.encode(values, Projection(saturation=Saturation.FINITE))
    got = subject.encode(values, Projection(saturation=Saturation.FINITE, symmetric=True))
    lowest = 1 << (subject.width - 1)
    want = np.where(plain == lowest, lowest + 1, plain)
    if (got != want).any():
        place = int(np.argmax(got != want))
        rows = (("value", shown_value(values[place])), ("got", subject.shown(got[place])))
        return Outcome(got.size, Counterexample((*rows, ("want", subject.shown(want[place])))))
    return Outcome(got.size)
