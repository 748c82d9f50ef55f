"""Laws of stochastic rounding: over all random integers at once, so that nothing is left to chance."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from lowprec.spec.projection import Projection
from lowprec.spec.rounding import stochastic
from lowprec.testing.grid import Array, Places
from lowprec.testing.law import Outcome, law
from lowprec.testing.laws.rounding import codes_at
from lowprec.testing.subjects import Subject
from lowprec.verify.codes.display import shown_float

_BITS = 4
_ALL = 1 << _BITS


def _places(subject: Subject, parts: int) -> Places:
    """Return numbers of both signs at every multiple of a part of some gaps, and where they lie."""
    grid = subject.grid
    few = {0, grid.last - 1} if subject.slow else {0, 1, 2, grid.last // 2, grid.last - 2, grid.last - 1}
    numbers = []
    for magnitude in sorted(few):
        if 0 <= magnitude < grid.last:
            low, high = grid.value(magnitude), grid.value(magnitude + 1)
            numbers += [low + (high - low) * part / parts for part in range(parts)]
    signs = (1, -1) if grid.last_negative >= 0 else (1,)
    exact = [sign * float(number) for sign in signs for number in numbers if number and _is_float(number)]
    return Places.of(exact, grid)


def _is_float(number: Fraction) -> bool:
    return Fraction(float(number)) == number


def _drawn(subject: Subject, places: Places, variant: str) -> Array:
    """Return the codes of numbers under all random integers, a row for each number."""
    values, random = np.repeat(places.values, _ALL), np.tile(np.arange(_ALL), places.values.size)
    return subject.encode(values, Projection(rounding=stochastic(_BITS, variant)), random).reshape(-1, _ALL)


@law(
    "exact stochastic mean",
    "format",
    "multiples of 2**-4 of some gaps; variant A with 4 bits, all 16 random integers",
    lambda s: s.projects,
)
def mean(subject: Subject) -> Outcome:
    """The mean over all random integers is the number itself."""
    places = _places(subject, _ALL)
    made = subject.decode(_drawn(subject, places, "A").ravel()).reshape(-1, _ALL)
    for number, row in zip(places.values.tolist(), made.tolist(), strict=True):
        if not np.isfinite(row).all() or sum(map(Fraction, row)) != Fraction(number) * _ALL:
            got = shown_float(sum(row) / _ALL)
            return Outcome.broken(
                made.size, ("value", shown_float(number)), ("mean", got), ("want", "the value")
            )
    return Outcome(made.size)


@law(
    "stochastic shares",
    "format",
    "multiples of 2**-5 of some gaps, of 2**-7 where that is quick; variants A, B, C with 4 bits, all random "
    "integers",
    lambda s: s.projects,
)
def shares(subject: Subject) -> Outcome:
    """The last ones of the 2**bits random integers take the farther code: floor(tail * 2**bits) of
    them under A.

    Under B it is tail * 2**bits rounded to nearest with halves up, under C with halves to even. The tail is
    how far the number lies above the magnitude at or below it, in gaps.
    """
    places, tried = _places(subject, 32 if subject.slow else 128), 0
    tails = _tails(subject, places)
    near, far = (codes_at(subject, places, np.full(len(tails), up))[:, None] for up in (0, 1))
    for variant in "ABC":
        codes = _drawn(subject, places, variant)
        counts = np.array([_count(tail, variant) for tail in tails])
        want = np.where(np.arange(_ALL) >= _ALL - counts[:, None], far, near)
        tried += codes.size
        if (codes != want).any():
            place, integer = (int(i) for i in np.argwhere(codes != want)[0])
            rows = (
                ("value", shown_float(float(places.values[place]))),
                ("rounding", f"{stochastic(_BITS, variant)}, random {integer}"),
                ("got", subject.shown(codes[place, integer])),
                ("want", subject.shown(want[place, integer])),
            )
            return Outcome.broken(tried, *rows)
    return Outcome(tried)


def _tails(subject: Subject, places: Places) -> list[Fraction]:
    """Return how far numbers lie above the magnitude at or below them, in parts of 2**-bits of the gap."""
    grid, tails = subject.grid, []
    for value, magnitude in zip(places.values.tolist(), places.magnitude.tolist(), strict=True):
        low, high = grid.value(magnitude), grid.value(magnitude + 1)
        tails.append((abs(Fraction(value)) - low) / (high - low) * _ALL)
    return tails


def _count(tail: Fraction, variant: str) -> int:
    """Return how many of the random integers take the farther code."""
    if variant == "C":
        return round(tail)
    return int(tail + Fraction(1, 2)) if variant == "B" else int(tail)
