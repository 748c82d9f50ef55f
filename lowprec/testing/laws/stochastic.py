"""Laws of stochastic rounding: over all random integers at once, so that nothing is left to chance.

Floor 5.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from lowprec.spec.projection import Projection
from lowprec.spec.rounding import stochastic
from lowprec.testing.grid import Places
from lowprec.testing.law import Counterexample, Outcome, law, shown_value
from lowprec.testing.laws.rounding import codes_at
from lowprec.testing.subjects import Subject

__all__: list[str] = []

_BITS = 4
_ALL = 1 << _BITS


def _ours(subject: Subject) -> bool:
    return subject.fmt is not None and subject.encodes and len(subject.modes) > 1


def _operands(subject: Subject, fine: int) -> tuple[list[Fraction], Places]:
    """Numbers at every multiple of a part of some gaps, and where they lie."""
    grid = subject.grid
    ends = {0, grid.last - 1}
    more = {1, 2, grid.last // 2, grid.last - 2}
    few = sorted(ends if subject.path == "oracle" else ends | more)
    numbers, values = [], []
    for magnitude in few:
        if not 0 <= magnitude < grid.last:
            continue
        low, high = grid.value(magnitude), grid.value(magnitude + 1)
        for part in range(fine):
            number = low + (high - low) * part / fine
            if Fraction(float(number)) == number and number:
                numbers.append(number)
                values.append(float(number))
    if grid.last_negative >= 0:
        numbers, values = numbers + [-number for number in numbers], values + [-value for value in values]
    return numbers, Places.of(numbers, grid, np.array(values))


@law("exact stochastic mean", "format", "multiples of 2**-4 of a gap; variant A with 4 bits, all 16 integers", _ours)
def mean(subject: Subject) -> Outcome:
    """The mean over all random integers is the number itself."""
    numbers, places = _operands(subject, _ALL)
    values = np.repeat(places.values, _ALL)
    random = np.tile(np.arange(_ALL), places.values.size)
    codes = subject.encode(values, Projection(rounding=stochastic(_BITS)), random)
    made = subject.decode(codes).reshape(-1, _ALL)
    for place, number in enumerate(numbers):
        got = sum((Fraction(value) for value in made[place].tolist()), Fraction(0)) / _ALL
        if got != number:
            rows = (("value", shown_value(float(number))), ("mean", shown_value(float(got))), ("want", "the value"))
            return Outcome(codes.size, Counterexample(rows))
    return Outcome(codes.size)


@law(
    "stochastic shares", "format", "multiples of 2**-5 of a gap at least; variants A, B, C, 4 bits, all integers", _ours
)
def shares(subject: Subject) -> Outcome:
    """Of all random integers the last ones take the farther code: the floor of tail * 2**bits of them (A).

    Under B it is that number rounded half up, under C half to even.
    """
    fine = 128 if subject.path == "arrays" else 32
    _, places = _operands(subject, fine)
    tails = _tails(subject, places)
    values = np.repeat(places.values, _ALL)
    random = np.tile(np.arange(_ALL), places.values.size)
    tried = 0
    for variant in "ABC":
        how = Projection(rounding=stochastic(_BITS, variant))
        codes = subject.encode(values, how, random).reshape(-1, _ALL)
        wanted = [int(tail) if variant == "A" else _nearest(tail, variant == "C") for tail in tails]
        takes = np.arange(_ALL) >= _ALL - np.array(wanted, np.int64)[:, None]
        near = codes_at(subject, places, np.zeros(places.values.size, np.int64))[:, None]
        far = codes_at(subject, places, np.ones(places.values.size, np.int64))[:, None]
        want = np.where(takes, far, near)
        tried += codes.size
        if (codes != want).any():
            place, integer = (int(i) for i in np.argwhere(codes != want)[0])
            rows = (
                ("value", shown_value(places.values[place])),
                ("rounding", f"{how.rounding}, random {integer}"),
                ("got", subject.shown(codes[place, integer])),
                ("want", subject.shown(want[place, integer])),
            )
            return Outcome(tried, Counterexample(rows))
    return Outcome(tried)


def _tails(subject: Subject, places: Places) -> list[Fraction]:
    """How far numbers lie above the nearer magnitude, in sixteenths of the gap."""
    grid, tails = subject.grid, []
    for value, magnitude in zip(places.values.tolist(), places.magnitude.tolist(), strict=True):
        low, high = grid.value(magnitude), grid.value(magnitude + 1)
        tails.append((abs(Fraction(value)) - low) / (high - low) * _ALL)
    return tails


def _nearest(tail: Fraction, even: bool) -> int:
    return round(tail) if even else int(tail + Fraction(1, 2))
