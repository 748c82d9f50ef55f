"""Rows about conversions of one array.

All results are compared with those of ml_dtypes or NumPy where these have the format, and 64 of them with
the oracle's in any case.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks import peers
from benchmarks.contest import Contest, Flags, same_floats, sampled, unreliable
from benchmarks.data import values
from benchmarks.stream import move
from benchmarks.timing import Contender
from benchmarks.topics import Job
from lowprec.arrays.checks import code_dtype, float_dtype
from lowprec.arrays.convert import decode, encode, quantize
from lowprec.arrays.random import random_bits
from lowprec.oracle import convert as oracle
from lowprec.oracle.exact import from_float, to_float
from lowprec.spec import catalog
from lowprec.spec.format import Format
from lowprec.spec.projection import Projection
from lowprec.verify.codes.values import is_nan

__all__ = ["Conversion", "conversion", "differing_codes"]

Array = npt.NDArray[Any]

#: Places that the oracle is asked about.
_SAMPLE = 64


def conversion(job: Job) -> Conversion:
    """Return the work of a row."""
    fmt = job.fmt
    assert isinstance(fmt, Format)
    verbs: dict[str, Callable[..., Any]] = {"decode": decode, "quantize": quantize}
    source = values(job.kind, fmt, job.size)
    keywords: dict[str, Any] = {}
    if job.work == "decode":
        source = encode(source, fmt)
    elif job.work == "f64":
        source = source.astype(np.float64)  # values that float32 has, for ml_dtypes rounds all others twice
    elif job.work == "modes":
        keywords["rounding"] = job.variant
    elif job.work == "stochastic":
        keywords["rounding"] = "stochastic(32)"
        keywords |= {"random": random_bits(source.shape, 1, 32)} if job.variant == "random" else {"rng": 1}
    return Conversion(job, fmt, verbs.get(job.work, encode), source, keywords)


@dataclass(frozen=True)
class Conversion(Contest):
    """A verb of the public interface, the array that it converts, and its keywords."""

    fmt: Format
    verb: Callable[..., Any]
    source: Array
    keywords: dict[str, Any]

    @property
    def result_type(self) -> np.dtype[Any]:
        """The dtype of the results."""
        if self.verb is encode:
            return np.dtype(code_dtype(self.fmt))
        return float_dtype(self.fmt)[0] if self.verb is decode else self.source.dtype

    @property
    def work(self) -> peers.Work:
        """The work as peers are told it; of a stochastic mode without its bits."""
        rounding = str(self.keywords.get("rounding", "nearest_even")).partition("(")[0]
        return peers.Work(self.verb.__name__, (self.source,), self.fmt, rounding, self.job.threads)

    @property
    def comparable(self) -> bool:
        """Peers draw other random numbers."""
        return self.work.rounding != "stochastic"

    def contenders(self, found: Sequence[peers.Peer]) -> Iterator[Contender]:
        """Yield all that take part."""
        job = self.job
        yield from self._verb("lowprec", "ours", self.source, self.keywords)
        if job.work in ("modes", "stochastic"):
            yield from self._verb("own nearest_even", "own", self.source, {})
        if job.work == "cast" and job.kind == "hard":
            yield from self._verb("own normal", "own", values("normal", self.fmt, job.size), self.keywords)
        words = self.source.view(f"u{self.source.itemsize}")
        yield from self.streams(
            functools.partial(move, words), np.empty(words.shape, f"u{self.result_type.itemsize}")
        )
        if self.verb is quantize and job.threads == 1:
            copy = functools.partial(np.copyto, np.empty_like(self.source), self.source)
            yield Contender("np.copyto", "yardstick", True, copy)
        if self.verb is decode or catalog.carrier(self.source.dtype) != self.fmt:
            yield from self.others(found, self.work)
        if job.topic == "threads":
            yield from self._verb("own 1 thread", "own", self.source, self.keywords, 1)

    def _verb(
        self, name: str, role: str, source: Array, keywords: dict[str, Any], threads: int = 0
    ) -> Iterator[Contender]:
        """Yield the verb as it is called, with a format of the catalog by its name."""
        fmt = self.fmt.name if self.fmt.name in catalog.FORMATS else self.fmt
        call = functools.partial(self.verb, source, fmt, **keywords)
        yield from self.both(name, role, call, np.empty(source.shape, self.result_type), threads=threads)

    def witnesses(self) -> Iterator[tuple[str, Array | None, Array]]:
        """Yield the oracle, and ml_dtypes or NumPy where one has the format and is not known to be wrong."""
        places = sampled(self.job.size, _SAMPLE)
        yield "the oracle", places, self._truth(places)
        if not self.keywords and self.fmt.name not in unreliable("cast", "float32", ("NaN",)):
            ways = itertools.chain.from_iterable(peer.ways(self.work) for peer in peers.PEERS[:2])
            yield from (("ml_dtypes or NumPy", None, way.read(way.call())) for way in ways if not way.out)

    def _truth(self, places: Array) -> Array:
        fmt, there = self.fmt, self.source[places]
        if self.verb is decode:
            codes = there.tolist()
        else:
            rule = Projection(rounding=self.keywords.get("rounding", "nearest_even"))
            random = self.keywords.get("random")
            if "rng" in self.keywords:
                random = random_bits(self.source.shape, self.keywords["rng"], 32)
            words = [None] * places.size if random is None else random[places].tolist()
            exact = map(from_float, there.astype(np.float64).tolist())
            codes = [
                oracle.project(value, fmt, rule, random=word)
                for value, word in zip(exact, words, strict=True)
            ]
        if self.verb is not encode:
            codes = [to_float(oracle.decode(code, fmt)) for code in codes]
        return np.array(codes, self.result_type)

    def where(self, place: int) -> str:
        """Return the index and the operand."""
        return f"index {place}: {self.source[place]} gave"

    def differing(self, got: Array, want: Array) -> Flags:
        """Return where results differ, other than in which NaN it is."""
        if want.dtype.kind == "f":
            return ~same_floats(got, want)
        return differing_codes(got, want, self.fmt)


def differing_codes(got: Array, want: Array, fmt: Format) -> Flags:
    """Return where codes differ, other than in which NaN it is."""
    wrong = np.asarray(got != want)
    wrong[wrong] = ~(is_nan(got[wrong], fmt) & is_nan(want[wrong], fmt))
    return wrong
