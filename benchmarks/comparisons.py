"""Rows about comparisons of codes, and about the lesser of two, which is a code again.

All results are compared with those of ml_dtypes or NumPy, and some with the oracle's.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks import peers
from benchmarks.contest import Contest, Flags, sampled
from benchmarks.conversions import differing_codes
from benchmarks.data import operation_operands
from benchmarks.operations import moves
from benchmarks.stream import move
from benchmarks.timing import Contender
from benchmarks.topics import Job
from lowprec.arrays import arith
from lowprec.arrays.checks import dtype
from lowprec.arrays.orders import comparisons
from lowprec.oracle import arith as oracle
from lowprec.oracle.convert import decode
from lowprec.oracle.order import compare
from lowprec.spec.format import Format

__all__ = ["ComparisonContest", "comparison_contest"]

Array = npt.NDArray[Any]

#: Places that the oracle is asked about.
_SAMPLE = 256

#: What comparisons say of numbers below, equal and above each other.
_HOLDS: dict[str, tuple[int, ...]] = {"less": (-1,), "less_equal": (-1, 0), "equal": (0,)}


def comparison_contest(job: Job) -> ComparisonContest:
    """Return the work of a row."""
    assert isinstance(job.fmt, Format)
    return ComparisonContest(job, job.fmt, operation_operands("add", job.kind, job.fmt, job.size, codes=True))


@dataclass(frozen=True)
class ComparisonContest(Contest):
    """A comparison of codes, as truths; or the lesser ones, as codes."""

    fmt: Format
    table: Array  #: an operand in each row

    @property
    def work(self) -> peers.Work:
        """The work as peers are told it."""
        return peers.Work(self.job.variant, tuple(self.table), self.fmt)

    def contenders(self, found: Sequence[peers.Peer]) -> Iterator[Contender]:
        """Yield all that take part: comparisons have no `out`."""
        kind, out = dtype(self.fmt), np.empty_like(self.table[0])
        if self.job.variant in _HOLDS:
            call: Any = functools.partial(getattr(comparisons, self.job.variant), *self.table, self.fmt)
            yield Contender("lowprec", "ours", False, call, np.asarray, self.job.threads)
        else:
            call = functools.partial(
                getattr(arith, self.job.variant), *self.table.view(kind), self.fmt, dtype=kind
            )
            yield from self.both("lowprec", "ours", call, np.empty(self.job.size, kind), self._codes)
        yield from self.streams(self._move, out)
        yield from self.others(found, self.work)

    def _codes(self, result: Any) -> Array:
        return np.asarray(result).view(self.table.dtype)

    def _move(self, out: Array) -> None:
        for read, written in moves(self.table, out):
            move(read, written)

    def witnesses(self) -> Iterator[tuple[str, Array | None, Array]]:
        """Yield the oracle; and of comparisons ml_dtypes or NumPy, which take either zero as the lesser."""
        places = sampled(self.job.size, _SAMPLE)
        yield "the oracle", places, self._truth(places)
        if self.job.variant in _HOLDS:
            ways = itertools.chain.from_iterable(peer.ways(self.work) for peer in peers.PEERS[:2])
            yield from (("ml_dtypes or NumPy", None, way.read(way.call())) for way in ways if not way.out)

    def _truth(self, places: Array) -> Array:
        pairs = self.table[:, places].T.tolist()
        if self.job.variant in _HOLDS:
            found = (compare(*(decode(code, self.fmt) for code in pair)) for pair in pairs)
            return np.array([each in _HOLDS[self.job.variant] for each in found])
        formats = [self.fmt] * 2
        codes = [oracle.operate(self.job.variant, pair, formats, self.fmt)[0] for pair in pairs]
        return np.array(codes, self.table.dtype)

    def where(self, place: int) -> str:
        """Return the index and the operands."""
        return f"index {place}: {', '.join(str(operand) for operand in self.table[:, place])} gave"

    def differing(self, got: Array, want: Array) -> Flags:
        """Return where truths differ, or codes other than of NaNs."""
        return np.asarray(got != want) if got.dtype == bool else differing_codes(got, want, self.fmt)
