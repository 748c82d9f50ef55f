"""Counts of mismatches: by distance, class, binade and rounding situation."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays.orders.order import classify
from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Format, Sign
from lowprec.verify.codes import codebooks
from lowprec.verify.codes.values import distances, is_nan
from lowprec.verify.questions.question import Batch, Question

__all__ = ["Tally", "binned", "by_binade"]

Array = npt.NDArray[Any]

_CLASSES = (
    "infinity",
    "normal",
    "subnormal",
    "zero",
    "zero",
    "subnormal",
    "normal",
    "infinity",
    "NaN",
    "NaN",
    "no code",
)
_NO_CODE = 10


@dataclass
class Tally:
    """Counts of the mismatches."""

    distances: Counter[int] = field(default_factory=Counter)  #: in codes; NaNs and what is no code have none
    no_distance: int = 0
    classes: Counter[tuple[str, str]] = field(default_factory=Counter)  #: what it is, what it must be
    signs: int = 0  #: that differ in the sign alone
    binades: Counter[Any] = field(default_factory=Counter)
    situations: Counter[str] = field(default_factory=Counter)

    @property
    def foreign(self) -> int:
        """Results that are no codes or values of the format."""
        return sum(count for (got, _), count in self.classes.items() if got == _CLASSES[_NO_CODE])

    def add(self, question: Question, batch: Batch, where: Array, want: Array) -> None:
        """Count the mismatches at some places of a batch."""
        if question.coded:
            self._codes(question, batch.got[where], want[where])
        self._binades(question.numbers(batch, where, want[where]))
        counts = np.bincount(question.situations(batch, where, want[where]))
        for number in np.flatnonzero(counts):
            self.situations[question.situation_names[number]] += int(counts[number])

    def _codes(self, question: Question, found: Array, want: Array) -> None:
        fmt = question.target
        got, right = question.codes(found), question.codes(want)
        known = (got >= 0) & (right >= 0)
        nans = [is_nan(np.where(known, codes, 0), fmt) for codes in (got, right)]
        counted, alike = known & ~(nans[0] | nans[1]), known & (nans[0] == nans[1])
        self._distances(distances(got[counted], right[counted], fmt))
        self.no_distance += int(got.size - counted.sum())
        if isinstance(fmt, Codebook):
            self.signs += int(np.count_nonzero(known & (codebooks.negated(fmt)[np.maximum(right, 0)] == got)))
        elif fmt.sign is Sign.MAGNITUDE:
            self.signs += int(np.count_nonzero(alike & ((got ^ right) == fmt.sign_code)))
        elif fmt.sign is Sign.TWOS_COMPLEMENT:
            self.signs += int(np.count_nonzero(alike & (got + right == 1 << fmt.width)))
        pairs = np.bincount(_kinds(got, fmt) * len(_CLASSES) + _kinds(right, fmt))
        for pair in np.flatnonzero(pairs):
            self.classes[_CLASSES[pair // len(_CLASSES)], _CLASSES[pair % len(_CLASSES)]] += int(pairs[pair])

    def join(self, other: Tally) -> None:
        """Add what was counted elsewhere."""
        for name in ("distances", "classes", "binades", "situations"):
            getattr(self, name).update(getattr(other, name))
        self.no_distance += other.no_distance
        self.signs += other.signs

    def _distances(self, found: Array) -> None:
        if not found.size:
            return
        least = int(found.min())
        if int(found.max()) - least < 1 << 20:
            counts = np.bincount(found - least)
            values = np.flatnonzero(counts)
            counts, values = counts[values], values + least
        else:
            values, counts = np.unique(found, return_counts=True)
        for value, count in zip(values.tolist(), counts.tolist(), strict=True):
            self.distances[value] += count

    def _binades(self, numbers: npt.NDArray[np.float64]) -> None:
        """Count numbers by exponent of the power of two at or below; zeros, infinities and NaNs by name."""
        finite = np.isfinite(numbers) & (numbers != 0)
        others = {"zero": numbers == 0, "infinite": np.isinf(numbers), "NaN": np.isnan(numbers)}
        for name, where in others.items():
            if where.any():
                self.binades[name] += int(np.count_nonzero(where))
        counts = np.bincount(np.frexp(numbers[finite])[1] + 1100)
        for place in np.flatnonzero(counts):
            self.binades[int(place) - 1101] += int(counts[place])


def _kinds(codes: Array, fmt: Format) -> Array:
    unsigned = np.where(codes < 0, 0, codes).astype(np.uint32)
    if isinstance(fmt, Codebook):
        return np.where(codes < 0, _NO_CODE, codebooks.classes(fmt)[unsigned])
    return np.where(codes < 0, _NO_CODE, classify(unsigned, fmt).astype(np.int64))


def binned(distances: Counter[int]) -> list[tuple[int, int, int]]:
    """Return distances in bins: each by itself up to 4 either way, then up to powers of two."""
    bins: Counter[tuple[int, int]] = Counter()
    for distance, count in distances.items():
        far = abs(distance)
        if far <= 4:
            bins[distance, distance] += count
            continue
        low, high = 1 << (far - 1).bit_length() - 1, 1 << (far - 1).bit_length()
        bins[(low + 1, high) if distance > 0 else (-high, -low - 1)] += count
    return [(low, high, count) for (low, high), count in sorted(bins.items())]


def by_binade(binades: Counter[Any]) -> list[tuple[Any, int]]:
    """Return binades in order, then zeros, infinities and NaNs."""
    return sorted(binades.items(), key=lambda pair: (isinstance(pair[0], str), pair[0]))
