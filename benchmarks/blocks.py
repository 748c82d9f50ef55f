"""Rows about blocks: scales and elements of some blocks are compared with the oracle's."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks import peers
from benchmarks.contest import Contest, Flags, WrongResult, sampled
from benchmarks.data import values as data
from benchmarks.stream import move
from benchmarks.timing import Contender
from benchmarks.topics import Job
from lowprec.arrays.blocks.block import BlockArray
from lowprec.arrays.convert import decode, encode
from lowprec.oracle import block as oracle
from lowprec.oracle.exact import from_float, to_float
from lowprec.spec.block import BlockFormat

__all__ = ["BlockContest", "block_contest"]

Array = npt.NDArray[Any]

#: Blocks that the oracle is asked about.
_SAMPLE = 16


def block_contest(job: Job) -> BlockContest:
    """Return the work of a row: an array of two axes, blocks along the last one or the first."""
    assert isinstance(job.fmt, BlockFormat)
    columns = 1 << (job.size.bit_length() // 2)
    while job.size % columns:
        columns >>= 1
    values = data(job.kind, job.fmt.element, job.size).reshape(-1, columns)
    pair = len(job.fmt.sizes) == 2
    return BlockContest(job, job.fmt, values, None if pair else 0 if job.variant == "axis 0" else -1)


@dataclass(frozen=True)
class BlockContest(Contest):
    """Encoding values in blocks along an axis, or decoding such blocks."""

    fmt: BlockFormat
    values: Array
    axis: int | None

    @functools.cached_property
    def _blocks(self) -> BlockArray:
        blocks: BlockArray = encode(self.values, self.fmt, axis=self.axis)
        return blocks

    def contenders(self, found: Sequence[peers.Peer]) -> Iterator[Contender]:
        """Yield all that take part."""
        values, element = self.values, self.fmt.element
        words = values.view(np.uint32).reshape(-1)
        if self.job.variant == "decode":
            out = np.empty(values.shape, np.float32)
            yield from self.both("lowprec", "ours", functools.partial(decode, self._blocks), out)
            source = self._blocks.codes.reshape(-1)
            yield from self.streams(functools.partial(move, source), np.empty_like(words))
            return
        yield self._encoding("lowprec", "ours", self.axis)
        plain = functools.partial(encode, values, element, saturation="finite")
        yield Contender("own plain cast", "own", False, plain, None, self.job.threads)
        if self.axis == 0:
            yield self._encoding("own last axis", "own", -1)
        yield from self.streams(
            functools.partial(move, words), np.empty(words.shape, f"u{element.code_bits // 8}")
        )
        if self.axis in (-1, None):
            work = peers.Work("blocks", (values,), self.fmt, threads=self.job.threads)
            yield from self.others([peer for peer in found if peer.name == "torchao"], work)

    def _encoding(self, name: str, role: str, axis: int | None) -> Contender:
        call = functools.partial(encode, self.values, self.fmt, axis=axis)
        return Contender(name, role, False, call, lambda blocks: blocks.codes, self.job.threads)

    def differing(self, got: Array, want: Array) -> Flags:
        """Return where codes or values differ."""
        return np.asarray(got != want)

    def witnesses(self) -> Iterator[tuple[str, Array | None, Array]]:
        """Compare some blocks with the oracle's, scale and all; there are no other witnesses."""
        blocks, fmt = self._blocks, self.fmt
        decoded, tensor = decode(blocks), oracle.ONE
        if blocks.tensor_scale is not None:
            largest = float(np.max(np.abs(self.values), where=np.isfinite(self.values), initial=0))
            tensor = oracle.tensor_scale([Fraction(largest)], fmt)
        for number in sampled(blocks.scales.size, _SAMPLE):
            at = tuple(map(int, np.unravel_index(number, blocks.scales.shape)))
            sizes = dict(zip(blocks.axes, fmt.sizes, strict=True))
            steps = [sizes.get(axis, 1) for axis in range(len(at))]
            key = tuple(slice(i * step, (i + 1) * step) for i, step in zip(at, steps, strict=True))
            exact = [from_float(value) for value in self.values[key].astype(np.float64).reshape(-1).tolist()]
            want_scale, want = oracle.encode(exact, fmt, tensor)
            got_scale, got = int(blocks.scales[at]), blocks.codes[key].reshape(-1).tolist()
            wrong = f"lowprec is wrong and is not timed: {self.job}: block {at}"
            if (got_scale, got) != (want_scale, want):
                raise WrongResult(
                    f"{wrong} has scale {got_scale} and codes {got}, want {want_scale} and {want}"
                )
            values = [to_float(value) for value in oracle.decode(want_scale, want, fmt, tensor.value)]
            with np.errstate(over="ignore"):
                wanted = np.array(values).astype(np.float32)
            if not np.array_equal(decoded[key].reshape(-1), wanted, equal_nan=True):
                raise WrongResult(f"{wrong} decodes wrongly")
        yield from ()
