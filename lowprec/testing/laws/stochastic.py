"""Laws of stochastic rounding: over all random integers at once, so that nothing is left to chance."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from lowprec.spec.projection import Projection
from lowprec.spec.rounding import stochastic
from lowprec.testing.grid import Array, Positions
from lowprec.testing.law import Outcome, law, number
from lowprec.testing.laws.rounding import codes_at, unbiased
from lowprec.testing.subjects import Subject

_BITS = 4
_ALL = 1 << _BITS


def _places(subject: Subject, parts: int) -> Positions:
    """Return numbers of both signs at every multiple of a part of some gaps, and where they lie."""
    grid = subject.grid
    few = {0, grid.last - 1} if subject.slow else {0, 1, 2, grid.last // 2, grid.last - 2, grid.last - 1}
    numbers = []
    for magnitude in sorted(few):
        if 0 <= magnitude < grid.last:
            low, high = grid.value(magnitude), grid.value(magnitude + 1)
            numbers += [low + (high - low) * part / parts for part in range(parts)]
    signs = (1, -1) if grid.last_negative >= 0 else (1,)
    exact = [sign * float(each) for sign in signs for each in numbers if each and _is_float(each)]
    return Positions.of(exact, grid)


def _is_float(number: Fraction) -> bool:
    return Fraction(float(number)) == number


def _drawn(subject: Subject, places: Positions, variant: str) -> Array:
    """Return the codes of numbers under all random integers, a row for each number."""
    values, random = np.repeat(places.values, _ALL), np.tile(np.arange(_ALL), places.values.size)
    return subject.encode(values, Projection(rounding=stochastic(_BITS, variant)), random).reshape(-1, _ALL)


@law(
    "exact stochastic mean",
    "multiples of 2**-4 of some gaps; variant A with 4 bits, all 16 random integers",
    lambda s: s.projects,
)
def mean(subject: Subject) -> Outcome:
    """The mean over all random integers is the number itself."""
    places = _places(subject, _ALL)
    made = subject.decode(_drawn(subject, places, "A").ravel()).reshape(-1, _ALL)
    return unbiased(places.values.tolist(), made)


@law(
    "stochastic shares",
    "multiples of 2**-5 of some gaps, of 2**-7 where that is quick; variants A, B, C with 4 bits, all random "
    "integers",
    lambda s: s.projects,
)
def shares(subject: Subject) -> Iterator[Outcome]:
    """The last ones of the 2**bits random integers take the farther code: floor(tail * 2**bits) of
    them under A.

    Under B it is tail * 2**bits rounded to nearest with halves up, under C with halves to even. The tail is
    how far the number lies above the magnitude at or below it, in gaps.
    """
    places = _places(subject, 32 if subject.slow else 128)
    tails = _tails(subject, places)
    near, far = (codes_at(subject, places, np.full(len(tails), up))[:, None] for up in (0, 1))
    values, random = np.repeat(places.values, _ALL), np.tile(np.arange(_ALL), len(tails))
    for variant in "ABC":
        got = _drawn(subject, places, variant).ravel()
        counts = np.array([_count(tail, variant) for tail in tails])
        want = np.where(np.arange(_ALL) >= _ALL - counts[:, None], far, near).ravel()
        said = ("rounding", f"{stochastic(_BITS, variant)}, random {{}}".format, random)
        shown = (("got", subject.shown, got), ("want", subject.shown, want))
        yield Outcome.of(got != want, ("value", number, values), said, *shown)


def _tails(subject: Subject, places: Positions) -> list[Fraction]:
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
