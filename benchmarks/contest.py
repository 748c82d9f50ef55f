"""A contest: who takes part in a row, and whether lowprec's results in it are right.

A wrong result is refused before anything is timed.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks import peers
from benchmarks.timing import Contender
from benchmarks.topics import Job
from lowprec.verify.conform.baseline import known_divergences

__all__ = ["Contest", "WrongResult", "sampled", "same_floats", "unreliable"]

Array = npt.NDArray[Any]
Flags = npt.NDArray[np.bool_]


class WrongResult(AssertionError):
    """A result of lowprec is wrong, so that it does not matter how long it takes."""


@dataclass(frozen=True)
class Contest(ABC):
    """The work of a row."""

    job: Job

    @abstractmethod
    def contenders(self, found: Sequence[peers.Peer]) -> Iterator[Contender]:
        """Yield all that take part: lowprec first, then its other ways, the yardsticks and the peers."""

    @abstractmethod
    def witnesses(self) -> Iterator[tuple[str, Array | None, Array]]:
        """Yield who says what: a name, places of the flat result (None for all), and the results there."""

    @abstractmethod
    def differing(self, got: Array, want: Array) -> Flags:
        """Return where results differ, other than in which NaN it is."""

    def where(self, place: int) -> str:
        """Return the words before a wrong result: its place in the flat result, and the operands there."""
        return f"index {place}:"

    @property
    def comparable(self) -> bool:
        """True if results of peers can be compared with lowprec's."""
        return True

    def both(
        self,
        name: str,
        role: str,
        call: Callable[..., Any],
        out: Array,
        read: Any = np.asarray,
        threads: int = 0,
    ) -> Iterator[Contender]:
        """Yield a call twice: into memory of the caller, and into new memory."""
        threads = threads or self.job.threads
        yield Contender(name, role, True, functools.partial(call, out=out), read, threads)
        yield Contender(name, role, False, call, read, threads)

    def streams(self, move: Callable[[Array], Any], out: Array) -> Iterator[Contender]:
        """Yield the loop that moves as many bytes."""
        threads = self.job.threads
        yield Contender("stream", "yardstick", True, functools.partial(move, out), threads=threads)
        yield Contender("stream", "yardstick", False, lambda: move(np.empty_like(out)), threads=threads)

    def others(self, found: Sequence[peers.Peer], work: peers.Work) -> Iterator[Contender]:
        """Yield every way of every peer that is fast enough."""
        for peer in found:
            for way in peer.ways(work) if work.operands[0].size <= peer.limit else ():
                yield Contender(peer.name, "peer", way.out, way.call, way.read, self.job.threads, way.share)

    def checked(
        self, contenders: Sequence[Contender], refused: Callable[[Contender, Exception], None]
    ) -> tuple[list[Contender], list[int | None]]:
        """Run each contender once and compare its results.

        Parameters
        ----------
        contenders : sequence of Contender
            lowprec first.
        refused : function
            Called with each peer that raises an exception, or whose result cannot be compared, which takes no
            part then.

        Returns
        -------
        kept : list of Contender
        differ : list of int or None
            How many results of each peer are not lowprec's, where one can say so.

        Raises
        ------
        WrongResult
            lowprec's results are not those of a witness.
        """
        kept: list[Contender] = []
        differ: list[int | None] = []
        witnesses = list(self.witnesses())
        ours: Any = None

        def compare(contender: Contender) -> int | None:
            nonlocal ours
            result = contender.call()
            result = result if contender.read is None else contender.read(result)
            if contender.role == "ours":
                for witness in witnesses:
                    self._confirm(contender, result, *witness)
                ours = result.copy()
            if contender.role != "peer" or not self.comparable:
                return None
            corner = tuple(map(slice, result.shape))  # some peers make a part of a product only
            return int(self.differing(result, ours[corner]).sum())

        for contender in contenders:
            peers.switch(contender.threads)
            try:
                number = compare(contender)
            except Exception as error:  # whatever another library raises
                if contender.role != "peer":
                    raise
                refused(contender, error)
                continue
            kept.append(contender)
            differ.append(number)
        return kept, differ

    def _confirm(
        self, contender: Contender, result: Array, by: str, places: Array | None, want: Array
    ) -> None:
        flat = result.reshape(-1)
        got = flat if places is None else flat[places]
        wrong = np.flatnonzero(self.differing(got, want))
        if wrong.size:
            first = int(wrong[0])
            place = first if places is None else int(places[first])
            raise WrongResult(
                f"lowprec is wrong and is not timed: {self.job}, "
                f"{'with out=' if contender.out else 'without out='}: {wrong.size:,} of {got.size:,} results "
                f"are not those of {by}, the first at {self.where(place)} {got[first]}, want {want[first]}"
            )


def sampled(size: int, most: int) -> Array:
    """Return at most so many places below a size, evenly spread, with both ends."""
    return np.unique(np.linspace(0, size - 1, most).astype(np.int64))


def same_floats(got: Array, want: Array) -> Flags:
    """Return where floats have the same bits, or are both NaN."""
    words = f"u{want.itemsize}"
    same = np.ascontiguousarray(got).view(words) == np.ascontiguousarray(want).view(words)
    return np.asarray(same | (np.isnan(got) & np.isnan(want)))


def unreliable(operation: str, source: str, harmless: Sequence[str]) -> set[str]:
    """Return the formats in which ml_dtypes or NumPy is known to give other results; harmless kinds aside."""
    return {
        target
        for entry in known_divergences()
        if {"ml_dtypes", "numpy"} & set(entry.frameworks) and entry.kind not in harmless
        if operation in entry.operations and (not source or source in entry.sources)
        for target in entry.targets
    }
