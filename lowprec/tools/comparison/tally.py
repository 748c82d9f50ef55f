"""Counts of mismatches: by distance, class, binade and rounding situation.

Floor 5.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays.order import classify
from lowprec.spec.format import Format, Sign
from lowprec.tools.comparison.subject import Batch, Subject
from lowprec.tools.vectors import is_nan

__all__ = ["Tally", "distances"]

Array = npt.NDArray[Any]

_CLASSES = np.array(
    ["infinity", "normal", "subnormal", "zero", "zero", "subnormal", "normal", "infinity", "NaN", "NaN", "no code"],
    object,
)
_NO_CODE = 10


def distances(got: Array, want: Array, fmt: Format) -> Array:
    """By how many codes, in the order of values, results lie above what is right; both zeros are one.

    >>> from lowprec.spec.catalog import E4M3FN
    >>> distances(np.array([0x39, 0x80, 0xB8]), np.array([0x38, 0x00, 0x38]), E4M3FN)
    array([   1,    0, -112])
    """
    return _place(got, fmt) - _place(want, fmt)


def _place(codes: Array, fmt: Format) -> Array:
    wide = codes.astype(np.int64)
    negative = (wide & fmt.sign_code) != 0
    if fmt.sign is Sign.TWOS_COMPLEMENT:
        return np.where(negative, wide - (1 << fmt.width), wide)
    return np.where(negative, -(wide & ~fmt.sign_code), wide)


@dataclass
class Tally:
    """What is counted of the mismatches."""

    distances: Counter[int] = field(default_factory=Counter)  #: in codes; NaNs and what is no code have none
    no_distance: int = 0
    classes: Counter[tuple[str, str]] = field(default_factory=Counter)  #: what it is, what it must be
    signs: int = 0  #: that differ in the sign alone
    binades: Counter[Any] = field(default_factory=Counter)
    situations: Counter[str] = field(default_factory=Counter)

    def add(self, subject: Subject, batch: Batch, where: Array, want: Array) -> None:
        """Count the mismatches at some places of a batch."""
        fmt = subject.target
        got, right = subject.codes(batch.got[where]), subject.codes(want[where])
        known = (got >= 0) & (right >= 0)
        nan = is_nan(np.where(known, got, 0), fmt) | is_nan(np.where(known, right, 0), fmt)
        counted = known & ~nan
        self._count(self.distances, distances(got[counted], right[counted], fmt))
        self.no_distance += int(got.size - counted.sum())
        if fmt.sign is Sign.MAGNITUDE:
            self.signs += int(np.count_nonzero(known & ((got ^ right) == fmt.sign_code)))
        pairs = _kinds(got, fmt) * len(_CLASSES) + _kinds(right, fmt)
        for pair, count in zip(*np.unique(pairs, return_counts=True), strict=True):
            self.classes[_CLASSES[pair // len(_CLASSES)], _CLASSES[pair % len(_CLASSES)]] += int(count)
        self._count(self.binades, subject.exponents(batch, where))
        self._count(self.situations, subject.situations(batch, where))

    @staticmethod
    def _count(counter: Counter[Any], found: Array) -> None:
        if found.dtype == object:
            counter.update(found.tolist())
            return
        for value, count in zip(*np.unique(found, return_counts=True), strict=True):
            counter[value.item()] += int(count)


def _kinds(codes: Array, fmt: Format) -> Array:
    unsigned = np.where(codes < 0, 0, codes).astype(np.uint32)
    return np.where(codes < 0, _NO_CODE, classify(unsigned, fmt).astype(np.int64))
