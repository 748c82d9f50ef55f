"""What takes part in a row about blocks, and whether lowprec's results are right.

All scales and elements of some blocks are compared with the oracle's before anything is timed.

Floor 5.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays.block import BlockArray
from lowprec.arrays.convert import decode, encode
from lowprec.arrays.threads import share
from lowprec.kernels.roofline import stream
from lowprec.oracle import block as oracle
from lowprec.oracle.exact import from_float, to_float
from lowprec.spec.block import BlockFormat
from lowprec.tools import peers
from lowprec.tools.benchreport import Job
from lowprec.tools.contests import WrongResult, judged, operands
from lowprec.tools.timing import Contender

__all__ = ["BlockContest", "block_contest"]

Array = npt.NDArray[Any]

#: Blocks that the oracle is asked about.
_SAMPLE = 16


def block_contest(job: Job) -> BlockContest:
    """The work of a row: an array of two axes, blocks along the last one or the first."""
    assert isinstance(job.fmt, BlockFormat)
    columns = 1 << (job.size.bit_length() // 2)
    while job.size % columns:
        columns >>= 1
    values = operands(job.kind, job.fmt.element, job.size).reshape(-1, columns)
    pair = len(job.fmt.sizes) == 2
    return BlockContest(job, job.fmt, values, None if pair else 0 if job.variant == "axis 0" else -1)


@dataclass(frozen=True)
class BlockContest:
    """The work of a row: to encode values in blocks along an axis, or to decode such blocks."""

    job: Job
    fmt: BlockFormat
    values: Array
    axis: int | None

    @functools.cached_property
    def _blocks(self) -> BlockArray:
        made: BlockArray = encode(self.values, self.fmt, axis=self.axis)
        return made

    def contenders(self, found: Sequence[peers.Peer]) -> Iterator[Contender]:
        """All that take part: lowprec first, then what it does otherwise, the yardsticks and the peers."""
        threads, values = self.job.threads, self.values
        if self.job.variant == "decode":
            given = np.empty(values.shape, np.float32)
            yield Contender(
                "lowprec", "ours", True, functools.partial(decode, self._blocks, out=given), np.asarray, threads
            )
            yield Contender("lowprec", "ours", False, functools.partial(decode, self._blocks), np.asarray, threads)
            yield from self._yardsticks(self._blocks.codes, given.view(np.uint32))
            return
        element = self.fmt.element
        yield self._encoding("lowprec", "ours", self.axis)
        plain = functools.partial(encode, values, element, saturation="finite")
        yield Contender("own plain cast", "own", False, plain, None, threads)
        if self.axis == 0:
            yield self._encoding("own last axis", "own", -1)
        yield from self._yardsticks(values.view(np.uint32), np.empty(values.shape, f"u{element.code_bits // 8}"))
        if self.axis in (-1, None):
            for peer in (peer for peer in found if peer.name == "torchao"):
                work = peers.Work("blocks", values, self.fmt, threads=threads)
                for way in peer.ways(work) if self.job.size <= peer.limit else ():
                    yield Contender(peer.name, "peer", way.out, way.call, way.read, threads)

    def _encoding(self, name: str, role: str, axis: int | None) -> Contender:
        call = functools.partial(encode, self.values, self.fmt, axis=axis)
        return Contender(name, role, False, call, lambda made: made.codes, self.job.threads)

    def _yardsticks(self, source: Array, given: Array) -> Iterator[Contender]:
        """The loop that moves as many bytes but those of the scales."""
        words, out, threads = source.reshape(-1), given.reshape(-1), self.job.threads
        loop = stream(words, out)

        def move(out: Array) -> None:
            share(lambda start, stop: loop(words[start:stop], out[start:stop]) or 0, words.size)

        yield Contender("stream", "yardstick", True, functools.partial(move, out), threads=threads)
        yield Contender("stream", "yardstick", False, lambda: move(np.empty_like(out)), threads=threads)

    # -- whether it is right ------------------------------------------------------------------------

    def checked(
        self, contenders: Sequence[Contender], refused: Callable[[Contender, Exception], None]
    ) -> tuple[list[Contender], list[int | None]]:
        """Run each contender once and compare what it gives, as `Contest.checked` does."""
        self._confirm()
        ours = np.empty(0)

        def judge(contender: Contender, result: Array) -> int | None:
            nonlocal ours
            if contender.role == "ours":
                ours = result.copy()
            return int((result != ours).sum()) if contender.role == "peer" else None

        return judged(contenders, judge, refused)

    def _confirm(self) -> None:
        """Compare some blocks with the oracle's."""
        blocks, fmt = self._blocks, self.fmt
        decoded, tensor = decode(blocks), oracle.ONE
        if blocks.tensor_scale is not None:
            largest = float(np.max(np.abs(self.values), where=np.isfinite(self.values), initial=0))
            tensor = oracle.tensor_scale([Fraction(largest)], fmt)
        for number in np.unique(np.linspace(0, blocks.scales.size - 1, _SAMPLE).astype(np.int64)):
            place = np.unravel_index(number, blocks.scales.shape)
            key = tuple(
                slice(int(i) * fmt.sizes[blocks.axes.index(axis)], (int(i) + 1) * fmt.sizes[blocks.axes.index(axis)])
                if axis in blocks.axes
                else slice(int(i), int(i) + 1)
                for axis, i in enumerate(place)
            )
            at = tuple(map(int, place))
            exact = [from_float(value) for value in self.values[key].astype(np.float64).reshape(-1).tolist()]
            want_scale, want = oracle.encode(exact, fmt, tensor)
            got_scale, got = int(blocks.scales[place]), blocks.codes[key].reshape(-1).tolist()
            if (got_scale, got) != (want_scale, want):
                raise WrongResult(
                    f"lowprec is wrong and is not timed: {self.job}: block {at} has scale "
                    f"{got_scale} and codes {got}, want {want_scale} and {want}"
                )
            values = [to_float(value) for value in oracle.decode(want_scale, want, fmt, tensor.value)]
            with np.errstate(over="ignore"):
                wanted = np.array(values).astype(np.float32)
            if not np.array_equal(decoded[key].reshape(-1), wanted, equal_nan=True):
                raise WrongResult(f"lowprec is wrong and is not timed: {self.job}: block {at} decodes wrongly")
