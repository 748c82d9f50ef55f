"""Laws of what is no ordinary number: zeros, NaNs, negative numbers of unsigned formats; and of flags and flushing.

Floor 5.
"""

from __future__ import annotations

import numpy as np

from lowprec.spec.format import Sign
from lowprec.spec.projection import Flag, Projection, Saturation
from lowprec.testing.grid import EXACT, code_of, nan_code
from lowprec.testing.law import Counterexample, Outcome, law, shown_value
from lowprec.testing.laws.rounding import codes_at, farther, inside
from lowprec.testing.subjects import Subject

__all__: list[str] = []


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
        rows = (("value", "nan"), ("got", subject.shown(got[0])), ("want", "a ValueError: there is no NaN"))
        return Outcome(2, Counterexample(rows))
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
    """Inexact is signalled exactly where the value changes, overflow where the rounded number exceeds the largest, and
    underflow where an inexact result is tiny.
    """
    fmt, grid = subject.format, subject.grid
    places, tried = subject.places, 0
    keep = (places.magnitude >= 0) & (places.values != 0)
    if grid.last_negative < 0:
        keep &= ~places.negative
    places = places.take(keep)
    sizes = np.abs(places.values)
    first = 1 << fmt.trailing_bits
    normal = float(grid.value(first)) if fmt.exponent_bits and fmt.subnormals else 0.0
    for mode in subject.modes:
        up = farther(mode.name, places)
        over = places.beyond | ((places.magnitude == places.last) & up)
        inexact = (places.kind != EXACT) | places.beyond
        # What rounds up to the smallest normal may or may not be tiny: the last half of the gap is another law's.
        clear = ~((places.magnitude == first - 1) & up)
        tiny = (sizes < normal) & inexact & ~over
        want = Flag.INEXACT * inexact | Flag.OVERFLOW * over | Flag.UNDERFLOW * tiny
        got = subject.flags(places.values, Projection(rounding=mode))
        wrong = (got != want) & clear
        tried += int(clear.sum())
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


def _flagged(signals: int) -> str:
    return " ".join(str(flag.name).lower().replace("_", " ") for flag in Flag if signals & flag) or "nothing"


@law(
    "flushing",
    "format",
    "formats with subnormals; subnormals of the result flushed",
    lambda s: _ours(s) and s.fmt.exponent_bits > 0 and s.fmt.subnormals and s.fmt.trailing_bits > 0,
)
def flushing(subject: Subject) -> Outcome:
    """With flush_results no result is subnormal, zeros keep their sign, and nothing else changes."""
    grid, fmt = subject.grid, subject.format
    places = subject.places.take(inside(subject.places))
    if grid.last_negative < 0:
        places = places.take(~places.negative)
    normal = 1 << fmt.trailing_bits
    tried = 0
    for mode in subject.modes:
        up = farther(mode.name, places)
        made = places.magnitude + up
        clear = ~((places.magnitude == normal - 1) & up)  # whether that is tiny is finer than this law
        want = np.where(made < normal, code_of(np.zeros_like(made), places.negative, fmt), codes_at(subject, places, up))
        got = subject.encode(places.values, Projection(rounding=mode, subnormals="flush_results"))
        wrong = (got != want) & clear
        tried += int(clear.sum())
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
