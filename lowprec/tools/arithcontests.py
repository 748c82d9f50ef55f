"""What takes part in a row about operations, on which operands, and whether lowprec's results are right.

A row is about values of float32, which lowprec alone rounds in one step, or about codes of the
format. Some results are compared with the oracle's before anything is timed, and all codes with those
of ml_dtypes or NumPy where these are known to be right.

Floor 5.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays import arith
from lowprec.arrays.checks import code_dtype, dtype
from lowprec.arrays.convert import encode, quantize
from lowprec.arrays.threads import share
from lowprec.kernels.roofline import stream
from lowprec.oracle import arith as oracle
from lowprec.oracle.convert import decode as decode_exactly
from lowprec.oracle.exact import to_float
from lowprec.spec import catalog
from lowprec.spec.arith import operands_of
from lowprec.spec.block import BlockFormat
from lowprec.spec.format import Format, Sign
from lowprec.tools import arithpeers, peers
from lowprec.tools.benchreport import Job
from lowprec.tools.contests import WrongResult, judged, operands
from lowprec.tools.timing import Contender
from lowprec.verify.conformance import known_divergences
from lowprec.verify.operations import is_nan

__all__ = ["VARIANTS", "ArithContest", "arith_contest", "arith_operands", "has_work"]

Array = npt.NDArray[Any]

_TIMED = ("add", "multiply", "divide", "sqrt", "fma")

#: What is timed: each operation on values of float32, and on codes.
VARIANTS = (*_TIMED, *(f"{operation} codes" for operation in _TIMED))

#: Places that the oracle is asked about.
_SAMPLE = 256


def has_work(fmt: Format | BlockFormat, variant: str) -> bool:
    """Whether a format can have a row: float32 must hold its values, or NumPy or ml_dtypes its codes.

    >>> has_work(catalog.E4M3FN, "add codes"), has_work(catalog.UE4M3, "add codes"), has_work(catalog.UE4M3, "add")
    (True, False, True)
    """
    if isinstance(fmt, BlockFormat):
        return False
    if not variant.endswith("codes"):
        return catalog.BINARY32.contains(fmt)
    try:
        return dtype(fmt).itemsize > 0 and fmt.exponent_bits > 0
    except ValueError:
        return False


# -- data -------------------------------------------------------------------------------------------


def arith_operands(operation: str, kind: str, fmt: Format, size: int, *, codes: bool = False) -> Array:
    """The operands of an operation, one in each row, the same for the same arguments.

    >>> arith_operands("fma", "normal", catalog.E4M3FN, 9).shape
    (3, 9)
    >>> bool((arith_operands("sqrt", "normal", catalog.E4M3FN, 9) > 0).all())
    True

    Parameters
    ----------
    operation : str
    kind : str
        "normal": of either sign, so many binades around 1 that products and quotients stay in the
        format's range; positive for square roots. "hard": one half as `operands` has it, independently;
        for the other half the last operand is such that the exact result is what is hard to convert,
        or zero, or a neighbour. As codes: any codes. "subnormal" and "nan": each operand is, as
        `operands` has it.
    fmt : Format
        Where it has no NaN, no operation gives one.
    size : int
        After 2**20 elements the values repeat.
    codes : bool
        Codes of the format, to which values are rounded, instead of values of float32.

    Returns
    -------
    operands : array of float32 or of the codes' dtype, shape (operands, size)
    """
    few, count = min(size, 1 << 20), operands_of(operation)
    rng = np.random.default_rng(count)
    if codes and kind == "hard":
        table = rng.integers(0, 1 << fmt.width, (count, few), np.uint64).astype(code_dtype(fmt))
        if not fmt.has_nan:
            if operation == "sqrt":
                table %= table.dtype.type(fmt.max_magnitude + 1)
            elif operation == "divide":
                table[1] |= table.dtype.type(1)
    else:
        if kind == "normal":
            values = _mild(fmt, (count, few), rng)
        elif kind == "hard":
            values = _hard(operation, fmt, few, rng)
        else:
            values = np.stack([operands(kind, fmt, few, seed) for seed in range(count)])
        if fmt.sign is Sign.UNSIGNED or (operation == "sqrt" and not (fmt.has_nan and kind == "hard")):
            values = np.abs(values)
        if not fmt.has_nan:
            values[~np.isfinite(values)] = 1
            if operation == "divide":
                values[1, values[1] == 0] = 1
        table = encode(values, fmt, saturation="finite") if codes else values
    return np.stack([np.resize(row, size) for row in table])


def _mild(fmt: Format, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Half the exponents that a format has on either side of 0, so that a product's are its own; 7 at most."""
    ends = fmt.max_finite, fmt.min_normal or fmt.min_subnormal or 1.0
    highest, lowest = (math.frexp(end)[1] - 1 for end in ends)
    high, low = min(max(highest - 1, 0) // 2, 7), max(-(max(-lowest, 0) // 2), -7)
    significands = (1 + rng.random(shape, np.float32)) * rng.choice(np.array([-1, 1], np.float32), shape)
    return np.asarray(np.ldexp(significands, rng.integers(low, high + 1, shape, np.int32)))


#: The last operand by which an operation gives some result, nearly.
_LAST: dict[str, Callable[..., Array]] = {
    "add": lambda goal, x: goal - x,
    "multiply": lambda goal, x: goal / x,
    "divide": lambda goal, x: x / goal,
    "sqrt": lambda goal: goal * goal,
    "fma": lambda goal, x, y: goal - x * y,
}


def _hard(operation: str, fmt: Format, size: int, rng: np.random.Generator) -> Array:
    count = operands_of(operation)
    table = np.stack([operands("hard", fmt, size, seed) for seed in range(count)])
    goal = np.where(rng.random(size) < 1 / 4, np.float32(0), operands("hard", fmt, size, count))
    with np.errstate(all="ignore"):
        last = _LAST[operation](goal, *table[:-1]).view(np.int32) + rng.choice(np.array([-1, 0, 0, 1], np.int32), size)
    table[-1] = np.where(rng.random(size) < 1 / 2, last.view(np.float32), table[-1])
    return table


# -- who takes part ---------------------------------------------------------------------------------


def arith_contest(job: Job) -> ArithContest:
    """The work of a row."""
    assert isinstance(job.fmt, Format)
    operation, _, codes = job.variant.partition(" ")
    return ArithContest(
        job, job.fmt, operation, arith_operands(operation, job.kind, job.fmt, job.size, codes=bool(codes))
    )


@dataclass(frozen=True)
class ArithContest:
    """The work of a row: an operation on values of float32 or on codes, to what is as wide."""

    job: Job
    fmt: Format
    operation: str
    table: Array  #: an operand in each row

    @property
    def on_codes(self) -> bool:
        """Whether operands and results are codes."""
        return self.table.dtype.kind == "u"

    @property
    def made(self) -> np.dtype[Any]:
        """The type of operands and results as they are passed."""
        return dtype(self.fmt) if self.on_codes else self.table.dtype

    def contenders(self, found: Sequence[peers.Peer]) -> Iterator[Contender]:
        """All that take part: lowprec first, then what it does otherwise, the yardsticks and the peers."""
        threads, size = self.job.threads, self.job.size
        fmt = self.fmt.name if self.fmt.name in catalog.FORMATS else self.fmt
        call = functools.partial(getattr(arith, self.operation), *self.table.view(self.made), fmt)
        yield from self._both("lowprec", "ours", call)
        if not self.on_codes:
            yield from self._both("own quantize", "own", functools.partial(quantize, self.table[0], fmt))
        yield from self._yardsticks()
        task = arithpeers.Task(self.operation, tuple(self.table), self.fmt)
        for peer in found if self.on_codes else ():
            for way in arithpeers.ways(peer.name, task) if size <= peer.limit else ():
                yield Contender(peer.name, "peer", way.out, way.call, way.read, threads)

    def _both(self, name: str, role: str, call: Callable[..., Any]) -> Iterator[Contender]:
        """Into given memory and into new memory."""
        given, threads = np.empty(self.job.size, self.made), self.job.threads
        fresh = functools.partial(call, dtype=self.made) if self.on_codes else call
        yield Contender(name, role, True, functools.partial(call, out=given), self._read, threads)
        yield Contender(name, role, False, fresh, self._read, threads)

    def _read(self, result: Any) -> Array:
        return np.asarray(result).view(self.table.dtype)

    def _yardsticks(self) -> Iterator[Contender]:
        """The loop that moves as many bytes."""
        given, threads = np.empty(self.job.size, self.table.dtype), self.job.threads

        def move(out: Array) -> None:
            for read, written in _moves(self.table, out):
                _move(read, written)

        yield Contender("stream", "yardstick", True, lambda: move(given), threads=threads)
        yield Contender("stream", "yardstick", False, lambda: move(np.empty_like(given)), threads=threads)

    # -- whether it is right ------------------------------------------------------------------------

    def checked(
        self, contenders: Sequence[Contender], refused: Callable[[Contender, Exception], None]
    ) -> tuple[list[Contender], list[int | None]]:
        """Run each contender once and compare what it gives, as `Contest.checked` does."""
        places = np.unique(np.linspace(0, self.job.size - 1, _SAMPLE).astype(np.int64))
        truth, witness = self._truth(places), self._witness()
        ours = np.empty(0, self.table.dtype)

        def judge(contender: Contender, result: Array) -> int | None:
            nonlocal ours
            if contender.role == "ours":
                self._confirm(contender, result[places], truth, "the oracle", places)
                if witness is not None:
                    self._confirm(contender, result, witness, "ml_dtypes or NumPy", range(result.size))
                ours = result.copy()
            return int(self._differing(result, ours).sum()) if contender.role == "peer" else None

        return judged(contenders, judge, refused)

    def _confirm(self, contender: Contender, got: Array, want: Array, by: str, places: Sequence[int] | Array) -> None:
        wrong = np.flatnonzero(self._differing(got, want))
        if wrong.size:
            first = wrong[0]
            given = ", ".join(str(operand) for operand in self.table[:, places[first]])
            raise WrongResult(
                f"lowprec is wrong and is not timed: {self.job}, {'with out=' if contender.out else 'without out='}: "
                f"{wrong.size:,} of {got.size:,} results are not those of {by}, the first at index {places[first]}: "
                f"{given} gave {got[first]}, want {want[first]}"
            )

    def _truth(self, places: Array) -> Array:
        """What the oracle gives at some places."""
        source = self.fmt if self.on_codes else catalog.BINARY32
        formats = [source] * len(self.table)
        columns = self.table.view(f"u{self.table.itemsize}")[:, places].T.tolist()
        codes = [oracle.operate(self.operation, column, formats, self.fmt)[0] for column in columns]
        if self.on_codes:
            return np.array(codes, self.table.dtype)
        return np.array([to_float(decode_exactly(code, self.fmt)) for code in codes], self.table.dtype)

    def _witness(self) -> Array | None:
        """What ml_dtypes or NumPy gives of codes, where it has the format and is not known to round wrongly."""
        unreliable = {
            target
            for entry in known_divergences()
            if {"ml_dtypes", "numpy"} & set(entry.frameworks) and self.operation in entry.operations
            if entry.kind not in ("NaN", "invalid", "flush")
            for target in entry.targets
        }
        if not self.on_codes or self.fmt.name in unreliable:
            return None
        task = arithpeers.Task(self.operation, tuple(self.table), self.fmt)
        ways = itertools.chain.from_iterable(arithpeers.ways(name, task) for name in ("ml_dtypes", "numpy"))
        return next((way.read(way.call()) for way in ways if not way.out), None)

    def _differing(self, got: Array, want: Array) -> npt.NDArray[np.bool_]:
        """Where results differ, in more than which NaN it is."""
        words = f"u{want.itemsize}"
        wrong = np.flatnonzero(got.view(words) != want.view(words))
        nan = functools.partial(is_nan, fmt=self.fmt) if self.on_codes else np.isnan
        differing = np.zeros(want.shape, np.bool_)
        differing[wrong] = ~(nan(got[wrong]) & nan(want[wrong]))
        return differing


def _moves(table: Array, out: Array) -> Iterator[tuple[Array, Array]]:
    """Words to read and words to write, as many bytes as operands and results have but for a few at the end.

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


def _move(read: Array, written: Array) -> None:
    loop: Callable[..., Any] = stream(read, written)
    share(lambda start, stop: loop(read[start:stop], written[start:stop]) or 0, read.size)
