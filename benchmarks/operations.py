"""Rows about operations, on values of float32, which lowprec alone rounds in one step, or on codes.

Some results are compared with the oracle's, and all codes with those of ml_dtypes or NumPy where these
are known to be right.
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
from benchmarks.contest import Contest, Flags, same_floats, sampled, unreliable
from benchmarks.conversions import differing_codes
from benchmarks.data import operation_operands
from benchmarks.stream import move
from benchmarks.timing import Contender
from benchmarks.topics import Job
from lowprec.arrays import arith
from lowprec.arrays.checks import dtype
from lowprec.arrays.convert import quantize
from lowprec.oracle import arith as oracle
from lowprec.oracle.convert import decode as decode_exactly
from lowprec.oracle.exact import to_float
from lowprec.spec import catalog
from lowprec.spec.block import BlockFormat
from lowprec.spec.format import Format

__all__ = ["OperationContest", "has_operation", "operation_contest"]

Array = npt.NDArray[Any]

#: Places that the oracle is asked about.
_SAMPLE = 256


def has_operation(fmt: Format | BlockFormat, variant: str) -> bool:
    """Return whether a format can have a row: float32 holds its values, or NumPy or ml_dtypes its codes.

    >>> e4m3fn, ue4m3 = catalog.E4M3FN, catalog.UE4M3
    >>> has_operation(e4m3fn, "add codes"), has_operation(ue4m3, "add codes"), has_operation(ue4m3, "add")
    (True, False, True)
    """
    if isinstance(fmt, BlockFormat):
        return False
    if not variant.endswith("codes"):
        return catalog.BINARY32.contains(fmt)
    native = peers.native(fmt)
    return native is not None and native.itemsize > 0 and fmt.exponent_bits > 0


def operation_contest(job: Job) -> OperationContest:
    """Return the work of a row."""
    assert isinstance(job.fmt, Format)
    operation, _, codes = job.variant.partition(" ")
    table = operation_operands(operation, job.kind, job.fmt, job.size, codes=bool(codes))
    return OperationContest(job, job.fmt, operation, table)


@dataclass(frozen=True)
class OperationContest(Contest):
    """An operation on values of float32 or on codes, with results of the operands' type."""

    fmt: Format
    operation: str
    table: Array  #: an operand in each row

    @property
    def on_codes(self) -> bool:
        """Whether operands and results are codes."""
        return self.table.dtype.kind == "u"

    @property
    def native(self) -> np.dtype[Any]:
        """The type of operands and results as they are passed."""
        return dtype(self.fmt) if self.on_codes else self.table.dtype

    @property
    def work(self) -> peers.Work:
        """The work as peers are told it."""
        return peers.Work(self.operation, tuple(self.table), self.fmt)

    def contenders(self, found: Sequence[peers.Peer]) -> Iterator[Contender]:
        """Yield all that take part."""
        fmt = self.fmt.name if self.fmt.name in catalog.FORMATS else self.fmt
        out = np.empty(self.job.size, self.native)
        keywords = {"dtype": self.native} if self.on_codes else {}
        call = functools.partial(
            getattr(arith, self.operation), *self.table.view(self.native), fmt, **keywords
        )
        yield from self.both("lowprec", "ours", call, out, self._read)
        if not self.on_codes:
            yield from self.both("own quantize", "own", functools.partial(quantize, self.table[0], fmt), out)
        yield from self.streams(self._move, np.empty(self.job.size, self.table.dtype))
        if self.on_codes:
            signals = np.empty(self.job.size, np.uint8)
            yield from self.both(
                "own with flags", "own", functools.partial(call, flags=signals), out, self._read
            )
            yield from self.others(found, self.work)

    def _read(self, result: Any) -> Array:
        return np.asarray(result).view(self.table.dtype)

    def _move(self, out: Array) -> None:
        for read, written in moves(self.table, out):
            move(read, written)

    def witnesses(self) -> Iterator[tuple[str, Array | None, Array]]:
        """Yield the oracle, and of codes ml_dtypes or NumPy where one has the format and rounds rightly."""
        places = sampled(self.job.size, _SAMPLE)
        yield "the oracle", places, self._truth(places)
        if self.on_codes and self.fmt.name not in unreliable(self.operation, "", ("NaN", "invalid", "flush")):
            ways = itertools.chain.from_iterable(peer.ways(self.work) for peer in peers.PEERS[:2])
            yield from (("ml_dtypes or NumPy", None, way.read(way.call())) for way in ways if not way.out)

    def _truth(self, places: Array) -> Array:
        formats = [self.fmt if self.on_codes else catalog.BINARY32] * len(self.table)
        columns = self.table.view(f"u{self.table.itemsize}")[:, places].T.tolist()
        codes = [oracle.operate(self.operation, column, formats, self.fmt)[0] for column in columns]
        if self.on_codes:
            return np.array(codes, self.table.dtype)
        return np.array([to_float(decode_exactly(code, self.fmt)) for code in codes], self.table.dtype)

    def where(self, place: int) -> str:
        """Return the index and the operands."""
        return f"index {place}: {', '.join(str(operand) for operand in self.table[:, place])} gave"

    def differing(self, got: Array, want: Array) -> Flags:
        """Return where results differ, other than in which NaN it is."""
        return differing_codes(got, want, self.fmt) if self.on_codes else ~same_floats(got, want)


def moves(table: Array, out: Array) -> Iterator[tuple[Array, Array]]:
    """Yield words to read and to write, as many bytes as operands and results have but for a few at the end.

    The loop reads one array: two operands are words twice as wide, and of three one half is read in
    words twice as wide and the other in words four times as wide.
    """
    read, written = table.reshape(-1).view(np.uint8), out.view(np.uint8)
    ratios = {1: (1,), 2: (2,), 3: (2, 4)}[len(table)]
    step, start = written.size // len(ratios) // 8 * 8, 0
    for place, ratio in enumerate(ratios):
        width = min(8, ratio * out.itemsize)
        source, target = read[start : start + ratio * step], written[place * step : (place + 1) * step]
        yield source.view(f"u{width}"), target.view(f"u{width // ratio}")
        start += ratio * step
