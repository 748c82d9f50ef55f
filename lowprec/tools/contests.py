"""What takes part in a row of a benchmark, on which data, and whether lowprec's results are right.

A wrong result is refused before anything is timed. All results are compared with those of
ml_dtypes or NumPy where these have the format, and some with the oracle's in any case.

Floor 5.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays.checks import code_dtype, float_dtype
from lowprec.arrays.convert import decode, encode, quantize
from lowprec.arrays.random import random_bits
from lowprec.arrays.threads import share
from lowprec.kernels.roofline import stream
from lowprec.oracle import convert as oracle
from lowprec.oracle.exact import from_float, to_float
from lowprec.spec import catalog
from lowprec.spec.block import BlockFormat
from lowprec.spec.format import Format, Sign
from lowprec.spec.projection import Projection
from lowprec.tools import peers
from lowprec.tools.benchreport import Job
from lowprec.tools.timing import Contender
from lowprec.verify.conformance import known_divergences
from lowprec.verify.inputs import conversions
from lowprec.verify.operations import is_nan

__all__ = ["KINDS", "Contest", "WrongResult", "contest", "has_data", "judged", "operands"]

Array = npt.NDArray[Any]

#: What data may be like: see `operands`.
KINDS = ("normal", "hard", "subnormal", "nan")

#: Places that the oracle is asked about.
_SAMPLE = 64


class WrongResult(AssertionError):
    """What lowprec gives is wrong, so that it does not matter how long it takes."""


def judged(
    contenders: Sequence[Contender],
    judge: Callable[[Contender, Array], int | None],
    refused: Callable[[Contender, Exception], None],
) -> tuple[list[Contender], list[int | None]]:
    """Run each contender once, and keep those that give something: with what `judge` says of it.

    A peer that raises goes to `refused`, also where what it gives cannot be judged.
    """
    kept: list[Contender] = []
    verdicts: list[int | None] = []
    for contender in contenders:
        peers.switch(contender.threads)
        try:
            result = contender.call()
            verdict = judge(contender, result if contender.read is None else contender.read(result))
        except Exception as error:  # whatever another library raises
            if contender.role != "peer":
                raise
            refused(contender, error)
            continue
        kept.append(contender)
        verdicts.append(verdict)
    return kept, verdicts


# -- data -------------------------------------------------------------------------------------------


def operands(kind: str, fmt: Format, size: int, seed: int = 0) -> Array:
    """Values of float32 to convert to a format, the same for the same arguments.

    >>> bool(np.isnan(operands("nan", catalog.E4M3FN, 9)).all())
    True

    Parameters
    ----------
    kind : str
        "normal": N(0, 1) * 2**U{-8..6}. "hard": one half random bit patterns, three eighths values,
        ties and limits of the format with their neighbours, one eighth NaNs, infinities, zeros,
        overflows and subnormals of float32. "subnormal": what becomes subnormals of the format.
        "nan": NaNs of both signs and any payload.
    fmt : Format
        Where it has no NaN there is 1 for every NaN, and where it is unsigned no negative value.
    size, seed : int
        After 2**20 elements the values repeat.
    """
    rng, few = np.random.default_rng(seed), min(size, 1 << 20)
    if kind == "normal":
        values = np.ldexp(rng.standard_normal(few, np.float32), rng.integers(-8, 7, few, np.int32))
    elif kind == "hard":
        choices = [
            conversions.sample("float32", few, seed),
            rng.choice(_telling(fmt), few),
            rng.choice(_specials(fmt), few),
        ]
        values = np.choose(rng.choice(3, few, p=(1 / 2, 3 / 8, 1 / 8)), choices)
    elif kind == "subnormal":
        step, end = fmt.min_subnormal or 0.0, fmt.min_normal or 0.0
        values = rng.choice([-1.0, 1.0], few) * rng.uniform(0.75 * step, end - 0.75 * step, few)
    else:
        values = (conversions.sample("float32", few, seed).view(np.uint32) | np.uint32(0x7F800001)).view(np.float32)
    if not fmt.has_nan:
        values = np.where(np.isnan(values), np.float32(1), values)
    if fmt.sign is Sign.UNSIGNED:
        values = np.abs(values)
    return np.resize(values.astype(np.float32, copy=False), size)


@functools.lru_cache(maxsize=4)
def _telling(fmt: Format) -> Array:
    return conversions.inputs(fmt, "float32")


def _specials(fmt: Format) -> Array:
    with np.errstate(over="ignore"):
        above = np.array([fmt.max_finite, 1.5 * fmt.max_finite, np.nan, np.inf, 0.0, 1e-39, 2.0**-149]).astype("f4")
    return np.concatenate([above, -above])


def has_data(fmt: Format | BlockFormat, kind: str) -> bool:
    """Whether a format has results of a kind of data."""
    if isinstance(fmt, BlockFormat):
        return kind in ("normal", "hard")
    if kind == "nan":
        return fmt.has_nan
    return kind != "subnormal" or bool(fmt.min_subnormal and fmt.min_normal)


# -- who takes part ---------------------------------------------------------------------------------


def contest(job: Job) -> Contest:
    """The work of a row."""
    fmt = job.fmt
    assert isinstance(fmt, Format)
    verbs: dict[str, Callable[..., Any]] = {"decode": decode, "quantize": quantize}
    source = operands(job.kind, fmt, job.size)
    keywords: dict[str, Any] = {}
    if job.what == "decode":
        source = encode(source, fmt)
    elif job.what == "f64":
        source = source.astype(np.float64)  # values that float32 has, for ml_dtypes rounds all others twice
    elif job.what == "modes":
        keywords["rounding"] = job.variant
    elif job.what == "stochastic":
        keywords["rounding"] = "stochastic(32)"
        keywords |= {"random": random_bits(source.shape, 1, 32)} if job.variant == "random" else {"rng": 1}
    return Contest(job, fmt, verbs.get(job.what, encode), source, keywords)


@dataclass(frozen=True)
class Contest:
    """The work of a row: a verb of the public interface, what it is applied to, and its keywords."""

    job: Job
    fmt: Format
    verb: Callable[..., Any]
    source: Array
    keywords: dict[str, Any]

    @property
    def rounding(self) -> str:
        """The mode, without the bits of a stochastic one."""
        return str(self.keywords.get("rounding", "nearest_even")).partition("(")[0]

    @property
    def made(self) -> np.dtype[Any]:
        """The type of the results."""
        if self.verb is encode:
            return np.dtype(code_dtype(self.fmt))
        return float_dtype(self.fmt)[0] if self.verb is decode else self.source.dtype

    @property
    def work(self) -> peers.Work:
        """The work as peers are told it."""
        return peers.Work(self.verb.__name__, self.source, self.fmt, self.rounding, self.job.threads)

    def contenders(self, found: Sequence[peers.Peer]) -> Iterator[Contender]:
        """All that take part: lowprec first, then what it does otherwise, the yardsticks and the peers."""
        job = self.job
        yield from self._verb("lowprec", "ours", self.source, self.keywords, job.threads)
        if job.what in ("modes", "stochastic"):
            yield from self._verb("own nearest_even", "own", self.source, {}, job.threads)
        if job.what == "cast" and job.kind == "hard":
            other = operands("normal", self.fmt, job.size)
            yield from self._verb("own normal", "own", other, self.keywords, job.threads)
        yield from self._yardsticks()
        if self.verb is decode or catalog.carrier(self.source.dtype) != self.fmt:
            for peer in found:
                for way in peer.ways(self.work) if job.size <= peer.limit else ():
                    yield Contender(peer.name, "peer", way.out, way.call, way.read, job.threads)
        if job.topic == "threads":
            yield from self._verb("own 1 thread", "own", self.source, self.keywords, 1)

    def _verb(self, name: str, role: str, source: Array, keywords: dict[str, Any], threads: int) -> Iterator[Contender]:
        """The verb as it is called: into given memory and into new memory, a format of the catalog by its name."""
        fmt = self.fmt.name if self.fmt.name in catalog.FORMATS else self.fmt
        call = functools.partial(self.verb, source, fmt, **keywords)
        given = functools.partial(call, out=np.empty(source.shape, self.made))
        yield Contender(name, role, True, given, np.asarray, threads)
        yield Contender(name, role, False, call, np.asarray, threads)

    def _yardsticks(self) -> Iterator[Contender]:
        """The loop that moves as many bytes, in as many threads; for float32 to float32 also NumPy's."""
        words, threads = self.source.view(f"u{self.source.itemsize}"), self.job.threads
        given = np.empty(words.shape, f"u{self.made.itemsize}")
        loop = stream(words, given)

        def move_shared(out: Array) -> None:
            share(lambda start, stop: loop(words[start:stop], out[start:stop]) or 0, words.size)

        move = move_shared if threads > 1 else functools.partial(loop, words)
        yield Contender("stream", "yardstick", True, functools.partial(move, given), threads=threads)
        yield Contender("stream", "yardstick", False, lambda: move(np.empty_like(given)), threads=threads)
        if self.verb is quantize and threads == 1:
            copy = functools.partial(np.copyto, np.empty_like(self.source), self.source)
            yield Contender("np.copyto", "yardstick", True, copy)

    # -- whether it is right ------------------------------------------------------------------------

    def checked(
        self, contenders: Sequence[Contender], refused: Callable[[Contender, Exception], None]
    ) -> tuple[list[Contender], list[int | None]]:
        """Run each contender once and compare what it gives.

        Parameters
        ----------
        contenders : sequence of Contender
            lowprec first.
        refused : function
            Told of each peer that raised an exception, which takes no part then.

        Returns
        -------
        kept : list of Contender
        differ : list of int or None
            How many results of each peer are not lowprec's, where one can say so.

        Raises
        ------
        WrongResult
            lowprec's results are not those of ml_dtypes or NumPy, or of the oracle.
        """
        places = np.unique(np.linspace(0, self.job.size - 1, _SAMPLE).astype(np.int64))
        witness, truth = self._witness(), self._truth(places)
        ours = np.empty(0, self.made)

        def judge(contender: Contender, result: Array) -> int | None:
            nonlocal ours
            if contender.role == "ours":
                self._confirm(contender, result[places], truth, "the oracle", places)
                if witness is not None:
                    self._confirm(contender, result, witness, "ml_dtypes or NumPy", range(result.size))
                ours = result.copy()
            if contender.role != "peer" or self.rounding == "stochastic":
                return None
            return int(self._differing(result, ours).sum())

        return judged(contenders, judge, refused)

    def _confirm(self, contender: Contender, got: Array, want: Array, by: str, places: Sequence[int] | Array) -> None:
        wrong = np.flatnonzero(self._differing(got, want))
        if wrong.size:
            first = wrong[0]
            raise WrongResult(
                f"lowprec is wrong and is not timed: {self.job}, {'with out=' if contender.out else 'without out='}: "
                f"{wrong.size:,} of {got.size:,} results are not those of {by}, the first at index {places[first]}: "
                f"{self.source[places[first]]} gave {got[first]}, want {want[first]}"
            )

    def _witness(self) -> Array | None:
        """What ml_dtypes or NumPy gives, where it has the format and is not known to be wrong."""
        unreliable = {
            target
            for entry in known_divergences()
            if {"ml_dtypes", "numpy"} & set(entry.frameworks) and entry.kind != "NaN"
            if "cast" in entry.operations and "float32" in entry.sources
            for target in entry.targets
        }
        if self.keywords or self.fmt.name in unreliable:
            return None
        ways = itertools.chain.from_iterable(peer.ways(self.work) for peer in peers.PEERS[:2])
        return next((way.read(way.call()) for way in ways if not way.out), None)

    def _truth(self, places: Array) -> Array:
        """What the oracle gives at some places."""
        fmt, there = self.fmt, self.source[places]
        if self.verb is decode:
            codes = there.tolist()
        else:
            rule = Projection(rounding=self.keywords.get("rounding", "nearest_even"))
            random = self.keywords.get("random")
            if "rng" in self.keywords:
                random = random_bits(self.source.shape, self.keywords["rng"], 32)
            words = [None] * places.size if random is None else random[places].tolist()
            values = map(from_float, there.astype(np.float64).tolist())
            codes = [oracle.project(value, fmt, rule, random=word) for value, word in zip(values, words, strict=True)]
        if self.verb is not encode:
            codes = [to_float(oracle.decode(code, fmt)) for code in codes]
        return np.array(codes, self.made)

    def _differing(self, got: Array, want: Array) -> npt.NDArray[np.bool_]:
        """Where results differ, in more than which NaN it is."""
        if want.dtype.kind == "f":
            words = f"u{want.itemsize}"
            return np.asarray((got.view(words) != want.view(words)) & ~(np.isnan(got) & np.isnan(want)))
        wrong = np.asarray(got != want)
        wrong[wrong] = ~(is_nan(got[wrong], self.fmt) & is_nan(want[wrong], self.fmt))
        return wrong
