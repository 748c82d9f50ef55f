"""Laws of rounding: which of the two neighbours of a number its code stands for.

Where a number lies is found in fractions, on the grid that the parameters of the format describe.

Floor 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.spec.format import Format, Sign
from lowprec.spec.projection import Projection, Saturation
from lowprec.spec.rounding import Rounding
from lowprec.testing.grid import ABOVE, BELOW, EXACT, TIE, Grid, Places, code_of, grid_of, nan_code
from lowprec.testing.law import Counterexample, Outcome, law, shown_value
from lowprec.testing.subjects import Subject

__all__ = ["codes_at", "farther", "inside", "overflow_codes", "projected"]

Array = npt.NDArray[Any]

NEAREST = ("nearest_even", "nearest_away", "nearest_zero")
DIRECTED = ("toward_zero", "toward_positive", "toward_negative", "away_from_zero")


def inside(places: Places) -> Array:
    """Numbers whose neighbours are both values of the format, or that are one; not below a smallest one above 0."""
    kept: Array = (places.magnitude >= 0) & ((places.magnitude < places.last) | (places.kind == EXACT)) & ~places.beyond
    return kept


def codes_at(subject: Subject, places: Places, up: Array) -> Array:
    """The codes of the nearer magnitudes, or where `up` of the farther ones; of an unsigned format's negatives NaN."""
    magnitude = places.magnitude + up
    if subject.fmt is not None:
        return code_of(magnitude, places.negative, subject.fmt)
    half = 1 << (subject.width - (subject.sign.value != "unsigned"))
    if subject.sign.value == "twos_complement":
        return np.where(places.negative, -magnitude % (2 * half), magnitude)
    return np.where(places.negative, magnitude + half, magnitude)


def farther(mode: str, places: Places) -> Array:
    """Whether a mode takes the neighbour farther from zero, said by real numbers and not by thresholds."""
    odd = places.magnitude % 2 == 1
    ties = {"nearest_even": odd, "nearest_away": np.ones_like(odd), "nearest_zero": np.zeros_like(odd)}
    if mode in ties:
        nearer: Array = (places.kind == ABOVE) | ((places.kind == TIE) & ties[mode])
        return nearer
    away = {
        "toward_zero": np.zeros_like(odd),
        "away_from_zero": np.ones_like(odd),
        "toward_positive": ~places.negative,
        "toward_negative": places.negative,
        "to_odd": ~odd,
    }
    taken: Array = (places.kind != EXACT) & away[mode]
    return taken


def _tried(subject: Subject, names: tuple[str, ...]) -> list[Rounding]:
    return [mode for mode in subject.modes if mode.name in names]


def _judged(subject: Subject, names: tuple[str, ...], want: str) -> Outcome:
    """Numbers inside the range under some modes: the code must be the one of the neighbour that the mode takes."""
    places, tried = subject.places.take(inside(subject.places)), 0
    # -0 and what becomes of it are another law's.
    zero = (places.values == 0) & places.negative
    places = places.take(~zero)
    if subject.fmt is None:
        places = places.take(places.magnitude + 1 <= places.last)
    for mode in _tried(subject, names):
        up = farther(mode.name, places)
        got = subject.encode(places.values, Projection(rounding=mode))
        wrong = got != codes_at(subject, places, up)
        if subject.fmt is None:
            wrong &= ~((places.magnitude + up == 0) & places.negative & (got == 0))
        tried += places.values.size
        if wrong.any():
            place = int(np.argmax(wrong))
            one = places.take(np.arange(places.values.size) == place)
            return Outcome(tried, _told(subject, one, mode, int(got[place]), want))
    return Outcome(tried)


_KINDS = {EXACT: "a value of the format", BELOW: "below the tie", TIE: "the tie", ABOVE: "above the tie"}


def _told(subject: Subject, one: Places, mode: Rounding, got: int, want: str) -> Counterexample:
    """A number between its neighbours."""
    wanted = int(codes_at(subject, one, farther(mode.name, one))[0])
    rows = [
        ("value", f"{shown_value(one.values[0])}, {_KINDS[int(one.kind[0])]}"),
        ("rounding", mode.name),
        ("got", subject.shown(got)),
        ("want", f"{subject.shown(wanted)}, {want}"),
    ]
    return Counterexample(tuple(rows))


def _encodes(subject: Subject, names: tuple[str, ...]) -> bool:
    return subject.encodes and bool(_tried(subject, names))


@law("nearest", "format", "in range; nearest modes", lambda s: _encodes(s, NEAREST))
def nearest(subject: Subject) -> Outcome:
    """No value of the format is closer; ties go to the even code, away from zero or toward zero, as the mode says."""
    return _judged(subject, NEAREST, "the nearest")


@law("directed bounds", "format", "in range; directed modes", lambda s: _encodes(s, DIRECTED))
def directed(subject: Subject) -> Outcome:
    """A number lies between what it becomes toward_negative and toward_positive, and no value lies between these.

    What it becomes toward_zero is not larger in magnitude, and away_from_zero not smaller.
    """
    return _judged(subject, DIRECTED, "the value on that side")


@law("to odd", "format", "in range; to_odd", lambda s: _encodes(s, ("to_odd",)))
def to_odd(subject: Subject) -> Outcome:
    """Of the two neighbours of a number that the format lacks, the one with the odd code is taken."""
    return _judged(subject, ("to_odd",), "the odd code")


def overflow_codes(fmt: Format, grid: Grid, negative: Array, policy: Saturation, operand: bool) -> Array:
    """What numbers beyond the largest become, or infinite operands."""
    ends = np.where(negative & (grid.last_negative >= 0), grid.last_negative, grid.last)
    extreme = code_of(ends, negative, fmt)
    if policy is Saturation.FINITE or (policy is Saturation.PROPAGATE and not operand):
        return extreme
    if grid.last_negative < 0:  # unsigned: negative ones are NaN, or 0
        positive = grid.last + 1 if fmt.infinity else nan_code(fmt, False) if fmt.nans else grid.last
        return np.where(negative, code_of(np.ones_like(ends), negative, fmt), positive)
    if fmt.infinity:
        return code_of(np.full_like(ends, grid.last + 1), negative, fmt)
    if fmt.nans or not fmt.negative_zero:
        return np.where(negative, nan_code(fmt, True), nan_code(fmt, False))
    return extreme


def projected(numbers: Sequence[Fraction], fmt: Format, projection: Projection) -> Array:
    """The codes of real numbers, none of which is 0, by the kit's own reading of mode, saturation and `symmetric`."""
    grid = grid_of(fmt)
    if projection.symmetric and fmt.sign is Sign.TWOS_COMPLEMENT:
        grid = grid._replace(last_negative=grid.last)
    # Numbers may lie outside the range of float64; here only their signs are shown.
    places = Places.of(numbers, grid, np.array([-1.0 if number < 0 else 1.0 for number in numbers]))
    up = farther(projection.rounding.name, places)
    over = up & (places.magnitude == places.last)
    codes = code_of(np.maximum(places.magnitude + up, 0), places.negative, fmt)
    beyond = overflow_codes(fmt, grid, places.negative, projection.saturation, False)
    if fmt.sign is Sign.UNSIGNED:
        beyond = np.where(places.negative, codes, beyond)
    return np.where(over, beyond, codes)


@law("overflow", "format", "numbers past the largest value, every mode and policy", lambda s: s.fmt and s.encodes)
def overflow(subject: Subject) -> Outcome:
    """What rounds, on the grid continued past the largest value, to more than that value overflows.

    It becomes infinity, else NaN, else the largest under saturation none; the largest under finite and propagate.
    """
    places, tried = subject.places, 0
    places = places.take((places.magnitude == places.last) & ((places.kind != EXACT) | places.beyond))
    policies = tuple(Saturation) if len(subject.modes) > 1 else (Saturation.NONE,)
    for mode in subject.modes:
        over = farther(mode.name, places)  # far past the largest, a number lies above every half
        for policy in policies:
            inner = code_of(places.magnitude, places.negative, subject.format)
            want = np.where(over, overflow_codes(subject.format, subject.grid, places.negative, policy, False), inner)
            if subject.grid.last_negative < 0:
                negative = code_of(np.ones_like(places.magnitude), places.negative, subject.format)
                want = np.where(places.negative, negative, want)
            got = subject.encode(places.values, Projection(rounding=mode, saturation=policy))
            tried += got.size
            if (got != want).any():
                place = int(np.argmax(got != want))
                rows = (
                    ("value", shown_value(places.values[place])),
                    ("projection", f"{mode}, saturation {policy}"),
                    ("got", subject.shown(got[place])),
                    ("want", subject.shown(want[place])),
                )
                return Outcome(tried, Counterexample(rows))
    return Outcome(tried)


@law("infinities", "format", "both infinities, every mode and policy", lambda s: s.fmt is not None and s.encodes)
def infinities(subject: Subject) -> Outcome:
    """An infinite operand becomes infinity, else NaN, else the largest value; under finite always the last.

    So it does under none and propagate.
    """
    values, tried = np.array([np.inf, -np.inf]), 0
    for mode in subject.modes:
        for policy in Saturation if len(subject.modes) > 1 else (Saturation.NONE,):
            got = subject.encode(values, Projection(rounding=mode, saturation=policy))
            want = overflow_codes(subject.format, subject.grid, np.signbit(values), policy, True)
            if subject.grid.last_negative < 0:
                want[1] = code_of(np.array([1]), np.array([True]), subject.format)[0]
            tried += 2
            if (got != want).any():
                place = int(np.argmax(got != want))
                rows = (
                    ("value", shown_value(values[place])),
                    ("projection", f"{mode}, saturation {policy}"),
                    ("got", subject.shown(got[place])),
                    ("want", subject.shown(want[place])),
                )
                return Outcome(tried, Counterexample(rows))
    return Outcome(tried)


@law("monotone", "format", "numbers in order, every mode; signed formats and numbers of one sign", lambda s: s.encodes)
def monotone(subject: Subject) -> Outcome:
    """A larger number never gets a smaller value."""
    grid, tried = subject.grid, 0
    values = subject.points if subject.fmt is None else subject.points[np.isfinite(subject.points)]
    if grid.last_negative < 0 or subject.sign.value == "unsigned":
        values = values[~np.signbit(values)]
    if not subject.fmt or not subject.fmt.subnormals:
        values = values[values != 0]
    values = np.sort(values)
    for mode in subject.modes:
        how = Projection(rounding=mode, saturation=Saturation.FINITE if len(subject.modes) > 1 else Saturation.NONE)
        made = subject.quantize(values, how)
        keep = ~np.isnan(made)
        numbers, results = values[keep], made[keep]
        wrong = results[:-1] > results[1:]
        tried += max(numbers.size - 1, 0)
        if wrong.any():
            place = int(np.argmax(wrong))
            rows = (
                ("value", shown_value(numbers[place])),
                ("becomes", shown_value(results[place])),
                ("larger value", shown_value(numbers[place + 1])),
                ("becomes less", shown_value(results[place + 1])),
                ("rounding", mode.name),
            )
            return Outcome(tried, Counterexample(rows))
    return Outcome(tried)
