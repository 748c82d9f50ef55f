"""Samples of mismatches and of matches, which those of parts join to."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from lowprec.verify.questions.question import Array

__all__ = ["MATCHES", "Sample"]

#: Mismatches and matches of a sample, and keys that are drawn at a time.
_MISMATCHES, MATCHES, _KEYS = 1 << 14, 1 << 14, 1 << 14


class Sample:
    """Places of mismatches and of matches, each as likely as any other of its kind.

    A place is drawn by a number of its own, its key, so that samples of parts join to that of the whole.
    `below` are the keys from which on places are of no use any more: samples of parts may begin with them.
    """

    def __init__(self, below: Sequence[float] = (math.inf, math.inf)) -> None:
        self._drawn = _Drawn(_MISMATCHES, below[0]), _Drawn(MATCHES, below[1])
        self.below = list(below)

    def add(self, first: int, wrong: Array, asked: Array | None = None) -> None:
        """Offer places that follow each other: which are mismatches, and which are compared."""
        places, found, generator = [], [], _generator(first)
        for start in range(0, wrong.size, _KEYS):  # which stay in the caches
            part = wrong[start : start + _KEYS]
            keys = generator.random(part.size, np.float32)
            # Where all agree, as most do, only low keys are looked at again.
            near = np.flatnonzero(keys < max(self.below) if part.any() else keys < self._drawn[1].below)
            places.append(near + start)
            found.append(keys[near])
        if not places:
            return
        index, low = np.concatenate(places), np.concatenate(found)
        different = wrong[index]
        compared = True if asked is None else asked[index]
        for drawn, which in zip(self._drawn, (different, ~different), strict=True):
            which = which & compared & (low < drawn.below)
            drawn.add(first + index[which], low[which])

    def join(self, other: Sample) -> None:
        """Take the sample of the places behind these."""
        for mine, theirs in zip(self._drawn, other._drawn, strict=True):
            mine.add(theirs.held, theirs.keys)
        self.below[:] = [drawn.below for drawn in self._drawn]

    def places(self) -> tuple[Array, Array]:
        """Return the places of mismatches and of matches, ascending."""
        different, equal = (np.sort(drawn.held) for drawn in self._drawn)
        return different, equal


def _generator(first: int) -> np.random.Generator:
    """Return what draws the keys of places from one on: it draws those of all places."""
    bits = np.random.PCG64(0)
    bits.advance(first // 2)  # two keys at a time
    generator = np.random.Generator(bits)
    generator.random(first % 2, np.float32)
    return generator


class _Drawn:
    """Sample of at most `wanted` places, those with the lowest keys; of equal keys the first places."""

    def __init__(self, wanted: int, below: float = math.inf) -> None:
        self._wanted, self.held, self.keys = wanted, np.empty(0, np.int64), np.empty(0, np.float32)
        self.below = below

    def add(self, places: Array, keys: Array) -> None:
        """Offer places behind those that are held."""
        self.held, self.keys = np.append(self.held, places), np.append(self.keys, keys)
        if self.keys.size < self._wanted:
            return
        self.below = float(np.partition(self.keys, self._wanted - 1)[self._wanted - 1])
        low = self.keys < self.below
        low[np.flatnonzero(self.keys == self.below)[: self._wanted - np.count_nonzero(low)]] = True
        self.held, self.keys = self.held[low], self.keys[low]
