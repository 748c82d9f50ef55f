"""Programs of elements: conversions and operations of any formats and rules.

Kernels in 64-bit lanes compute all results that they are exact for; the scalar kernels compute the others:
operations on numbers of too many bits, and few results in codebooks.

Floor 2b. Imports the general and the scalar kernels; never the oracle, which checks them.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.kernels import engine
from lowprec.kernels.codes import code_dtype, nans, signaling_nans, unlocked, values_of
from lowprec.kernels.compiling import is_worth
from lowprec.kernels.engine import DONE, REFUSED, Refusal
from lowprec.kernels.general.codebooks import answer_words
from lowprec.kernels.general.kernel import kernel, run
from lowprec.kernels.general.operations import is_exact, serves
from lowprec.kernels.lower.records import REFUSED as NO_CODE, Grid, Params, Source
from lowprec.kernels.lower.scalar import lower_source, lower_target, may_refuse, parts
from lowprec.kernels.lower.words import DOUBLE
from lowprec.kernels.request import CONVERT, Elementwise
from lowprec.kernels.scalar.arith import KNOWN, operate
from lowprec.kernels.scalar.convert import convert_to_codebook
from lowprec.spec.arith import SIGN_ONLY
from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Format, Sign
from lowprec.spec.projection import DEFAULT, Flag, Projection

__all__ = [
    "SHARE",
    "Conversion",
    "Operation",
    "Program",
    "Step",
    "carried",
    "joined",
    "readable",
    "reader",
]

Codes = npt.NDArray[Any]

#: Elements that the scalar kernel is given at a time, as 64-bit words, and that go to a carrier together.
_PART = 1 << 15

#: Tables of a codebook are made when so many elements have come for each of its values.
SHARE = 4

_NO_RANDOM, _NO_FLAGS = np.empty(0, np.uint32), np.empty(0, np.uint8)
#: Flags in their own type: with members of the enumeration NumPy computes in int64.
_DIVIDED, _INVALID = np.uint8(Flag.DIVIDE_BY_ZERO), np.uint8(Flag.INVALID)


def read_as(fmt: Format) -> Format:
    """Return the format in which kernels read codes: the values of codebooks, as binary64."""
    return DOUBLE if isinstance(fmt, Codebook) else fmt


def reader(fmt: Format, flush: bool = False) -> Params:
    """Return the words that read codes of a format; no value of a codebook is subnormal."""
    return lower_source(read_as(fmt), flush and not isinstance(fmt, Codebook))


def readable(codes: Codes, fmt: Format) -> Codes:
    """Return codes as kernels read them; bits above a code's count for nothing."""
    if isinstance(fmt, Codebook):
        return np.asarray(values_of(fmt)[codes & codes.dtype.type(len(fmt.values) - 1)])
    return unlocked(codes)


def is_usual(sources: list[Params], fmt: Format, target: Params) -> bool:
    """Return whether `rounding.project_usual`, if needed, and the same variant of `numbers.read` serve."""
    grid, (plus, minus) = parts(target)
    if not all(words[_COMPLEMENT] == 0 and words[_FLUSH] == 0 for words in sources):
        return False
    return isinstance(fmt, Codebook) or (
        fmt.width <= 32
        and fmt.sign is Sign.MAGNITUDE
        and fmt.subnormals
        and not (grid.hidden or grid.flush or grid.before or grid.shared)
        and (plus.carried, minus.carried) == (plus.nan, minus.nan)
        and not grid.payload
    )


_COMPLEMENT, _FLUSH = Source._fields.index("complement"), Source._fields.index("flush")
_FLUSH_RESULTS = Grid._fields.index("flush")


class Step:
    """An operation and its projection on a format, by kernels that are exact for it."""

    def __init__(
        self, operation: str, sources: list[Format], reads: list[Params], fmt: Format, rule: Projection
    ) -> None:
        self.fmt, self.rule, self.words = fmt, rule, lower_target(fmt, rule)
        self.refuses, self._operation, self._reads = may_refuse(self.words), operation, reads
        self._modes = rule.rounding.downward, rule.nan_payload == "signaling_first"
        read = [read_as(source) for source in sources]
        self._general, wide = serves(operation, read, fmt, rule)
        self._loses, self._came = not is_exact(operation, read), 0
        book = isinstance(fmt, Codebook)
        usual = rule.nan_payload == "drop" and is_usual(reads, fmt, self.words)
        self._kind, self._usual = (operation, wide, rule.rounding.bits > 0, book), usual
        self._signals = bool(self.words[_FLUSH_RESULTS])

    def run(self, operands: list[Codes], out: Codes, flags: Codes, random: Codes) -> Refusal | None:
        """Write results and flags, or say which results have no code; `readable` gave the operands."""
        words = self._lane_words(out.size) if self._general else None
        if words is None:
            refused, first = self._by_scalar(operands, out, flags, random)
        else:
            refused, first = self._in_lanes(words, operands, out, flags, random)
            if refused and words is not self.words:
                refused, first = self._decided(words, operands, out, flags, random)
        return Refusal(refused, first, self.fmt, self.rule) if refused else None

    def _lane_words(self, size: int) -> Params | None:
        """Return the words of the target; those of a codebook once they pay, and if lanes serve it."""
        if not isinstance(self.fmt, Codebook):
            return self.words
        self._came += size
        pays = self._came >= SHARE * len(self.fmt.values)
        return answer_words(self.fmt, self.rule, self._loses) if pays else None

    def _in_lanes(
        self, words: Params, operands: list[Codes], out: Codes, flags: Codes, random: Codes
    ) -> tuple[int, int]:
        every = kernel(*self._kind, False, True)  # with flags and without, whatever the format
        own = kernel(*self._kind, self._usual, self._signals or flags.size > 0)
        by = own if is_worth(own, out.size) else every
        if (self._signals or by is every) and not flags.size:
            flags = np.empty(out.size, np.uint8)
        pairs = list(zip(operands, self._reads, strict=True))
        return run(by, pairs, out, words, random, flags, *self._modes)

    def _decided(
        self, words: Params, operands: list[Codes], out: Codes, flags: Codes, random: Codes
    ) -> tuple[int, int]:
        """Write the results in a codebook that lanes left, by the scalar kernels."""
        codes = np.empty(out.size, np.uint64)
        self._in_lanes(words, operands, codes, flags, random)
        (left,) = np.nonzero(codes == NO_CODE)
        given = [each if each.size == 1 != out.size else each[left] for each in operands]
        results, signals = np.zeros(left.size, out.dtype), np.empty(left.size * (flags.size > 0), np.uint8)
        chosen = random[left] if random.size else random
        refused, first = self._by_scalar(given, results, signals, chosen)
        out[left] = results
        if flags.size:
            flags[left] = signals
        return refused, int(left[first])

    def _by_scalar(self, operands: list[Codes], out: Codes, flags: Codes, random: Codes) -> tuple[int, int]:
        total, place = 0, -1
        for start in range(0, out.size, _PART):
            part = slice(start, min(start + _PART, out.size))
            codes, raised = np.zeros(out[part].size, np.uint64), np.zeros(out[part].size, np.uint8)
            given = [
                unlocked(np.ascontiguousarray(np.broadcast_to(each, out.shape)[part], np.uint64))
                for each in operands
            ]
            pairs, drawn = [*zip(given, self._reads, strict=True)], random[part]
            if self._operation == CONVERT:
                refused, first = convert_to_codebook(*pairs[0], codes, self.words, drawn, raised)
            else:
                (x, y, z) = (*pairs, *pairs[:1] * (3 - len(pairs)))
                refused, first = operate(
                    KNOWN[self._operation], len(given), *x, *y, *z, codes, self.words, *self._modes, drawn,
                    raised,
                )  # fmt: skip
            place = start + first if refused and not total else place
            total += refused
            out[part] = codes
            if flags.size:
                flags[part] = raised
        return total, place


class Program(abc.ABC):
    """A program of elements; it draws no random integers itself."""

    draws = in_place = widens = floats = False
    bound = None
    refuses: bool

    def __init__(self, target: Format, rule: Projection, carrier: Format | None) -> None:
        self.target, self.rule = target, rule
        self._carrier = carrier

    @abc.abstractmethod
    def encode(self, operands: list[Codes], out: Codes, flags: Codes, random: Codes) -> Refusal | None:
        """Write codes of the target and flags, or say which operands are refused."""

    def attempt(self, operands: list[Codes], out: Codes, flags: Codes, random: Codes) -> Refusal | None:
        """Write results and flags, or say which operands are refused."""
        if self._carrier is None:
            return self.encode(operands, out, flags, random)
        refusal = None
        codes = np.empty(min(out.size, _PART), code_dtype(self.target))
        for start in range(0, out.size, _PART):
            part = slice(start, start + _PART)
            given = [each if each.size == 1 != out.size else each[part] for each in operands]
            made = codes[: out[part].size]
            found = self.encode(given, made, flags[part], random[part])
            if found is None:
                self._carry(made, out[part])
            elif refusal is None:
                refusal = found._replace(first=start + found.first)
            else:
                refusal = refusal._replace(refused=refusal.refused + found.refused)
        return refusal

    def run(self, operands: list[Codes], out: Codes, flags: Codes, random: Codes, past: bool = False) -> int:
        """Write results and flags; see `engine.ElementwiseProgram`."""
        return DONE if self.attempt(operands, out, flags, random) is None else REFUSED

    @functools.cached_property
    def _carry(self) -> Callable[[Codes, Codes], object]:
        """Return what writes the value of each code, in a type that holds them all."""
        assert self._carrier is not None
        if isinstance(self.target, Codebook):
            values = carried(self.target, self._carrier)
            return lambda codes, out: np.take(values, codes, out=out)
        rule = Projection(nan_payload=self.rule.nan_payload)
        request = Elementwise(CONVERT, (self.target,), self._carrier, rule)
        program = engine.lower_by("vector", request) or engine.lower_by("scalar", request)
        return lambda codes, out: program.run([codes], out, _NO_FLAGS, _NO_RANDOM)


@functools.lru_cache(maxsize=64)
def carried(fmt: Codebook, carrier: Format) -> Codes:
    """Return the value of each code in a type that holds them all."""
    values = np.empty(len(fmt.values), code_dtype(carrier))
    step = Step(CONVERT, [DOUBLE], [lower_source(DOUBLE)], carrier, DEFAULT)
    step.run([unlocked(values_of(fmt))], values, _NO_FLAGS, _NO_RANDOM)
    return values


class Conversion(Program):
    """Codes to codes of a target, through the formats of `Projection.via`, and then to a carrier type."""

    def __init__(self, source: Format, target: Format, rule: Projection, carrier: Format | None) -> None:
        super().__init__(target, rule, carrier)
        self._source = source
        self._keeps_payloads = rule.nan_payload != "drop"
        onward = Projection(nan_payload=rule.nan_payload)
        flushes = rule.flushes_operands
        read, at = reader(source, flushes), source
        self._stops = []
        for stop in rule.via:
            unsigned = flushes and not stop.negative_zero  # of subnormals that are flushed
            shorter = self._keeps_payloads and (stop.payload_bits or 0) < (at.payload_bits or 0)
            loses_sign = at.has_signed_nan and not stop.has_signed_nan
            if shorter or unsigned or not stop.contains(at) or loses_sign:
                self._stops.append(Step(CONVERT, [at], [read], stop, onward))
                read, at = reader(stop), stop
        self._at, self._read = at, read
        self._last = Step(CONVERT, [at], [read], target, rule)
        self.refuses = any(step.refuses for step in (self._last, *self._stops))

    @functools.cached_property
    def _plain(self) -> Step:
        """The last step for NaNs without a payload to keep, which `nan_code` is for."""
        rule = dataclasses.replace(self.rule, nan_payload="drop")
        return Step(CONVERT, [self._at], [self._read], self.target, rule)

    def encode(
        self, operands: list[Codes], out: Codes, flags: Codes, random: Codes, brought: Codes | None = None
    ) -> Refusal | None:
        """Write codes and flags, or say which operands are refused.

        `brought` says which NaNs, on their way through `via`, are those of operands, whose payloads are kept
        if the rule keeps any; by default those that are NaNs now.
        """
        (codes,) = operands
        if brought is None and self._keeps_payloads and self.rule.via:
            brought = nans(codes, self._source)
        codes = readable(codes, self._source)
        earlier = np.zeros_like(flags) if self._stops else _NO_FLAGS
        for step in self._stops:
            passed = np.empty(codes.size, code_dtype(step.fmt))
            refusal = step.run([codes], passed, flags, _NO_RANDOM)
            if refusal is not None:
                return refusal
            codes = readable(passed, step.fmt)
            earlier |= flags
        refusal = self._last.run([codes], out, flags, random)
        if refusal is not None:
            return refusal
        if brought is not None:
            (arisen,) = np.nonzero(nans(codes, read_as(self._at)) & ~brought)
            if arisen.size:
                results = np.empty(arisen.size, out.dtype)
                self._plain.run([codes[arisen]], results, flags[:0], random[:0])
                out[arisen] = results
        if earlier.size:
            flags |= earlier
        return None


class Operation(Program):
    """An operation of any operands; through `Projection.via` and to a carrier as conversions go on."""

    def __init__(
        self,
        operation: str,
        sources: tuple[Format, ...],
        target: Format,
        rule: Projection,
        carrier: Format | None,
        by: str | None = None,
    ) -> None:
        super().__init__(target, rule, carrier)
        self.operation, self.sources = operation, sources
        flushes = rule.flushes_operands
        self._onward = None
        first, at = rule, target
        if rule.via:
            first = Projection(
                nan_payload=rule.nan_payload, subnormals="flush_operands" if flushes else "keep"
            )
            rest = dataclasses.replace(
                rule, via=rule.via[1:], subnormals="flush_results" if rule.flushes_results else "keep"
            )
            at = rule.via[0]
            self._onward = Conversion(at, target, rest, None)
        reads = [reader(source, flushes and operation not in SIGN_ONLY) for source in sources]
        self._step = Step(by or operation, list(sources), reads, at, first)
        self.refuses = self._step.refuses or (self._onward is not None and self._onward.refuses)

    def encode(self, operands: list[Codes], out: Codes, flags: Codes, random: Codes) -> Refusal | None:
        """Write codes and flags, or say which results have no code."""
        if self._onward is None:
            return self.first(operands, out, flags, random)
        codes, raised = np.empty(out.size, code_dtype(self._step.fmt)), np.empty(out.size, np.uint8)
        refusal = self.first(operands, codes, raised, random[:0])
        if refusal is not None:
            return refusal
        later = np.zeros_like(raised)
        refusal = self._onward.encode([codes], out, later, random, self._brought(operands, raised))
        if refusal is None and flags.size:
            raised |= later
            divided, invalid = raised & _DIVIDED, raised & _INVALID
            flags[:] = raised * (raised < _DIVIDED) | divided | invalid & ~(divided << 1)  # each stands alone
        return refusal

    def first(self, operands: list[Codes], out: Codes, flags: Codes, random: Codes) -> Refusal | None:
        """Write the codes and the flags of the operation itself, before it goes on through `via`."""
        read = [readable(codes, fmt) for codes, fmt in zip(operands, self.sources, strict=True)]
        return self._step.run(read, out, flags, random)

    def _brought(self, operands: list[Codes], raised: Codes) -> Codes | None:
        """Return a mask of results that are a NaN operand, whose payload may be kept; None if none is.

        With `signaling_first` an invalid product makes a NaN of its own, whatever quiet one is added to it.
        """
        if self.rule.nan_payload == "drop":
            return None
        pairs = list(zip(operands, self.sources, strict=True))
        if self.operation in SIGN_ONLY:
            pairs = pairs[:1]
        join = np.logical_and if self.operation.endswith("_number") else np.logical_or
        nan = np.broadcast_to(joined(join, [nans(codes, fmt) for codes, fmt in pairs]), raised.shape)
        if self.rule.nan_payload == "signaling_first":
            signaling = joined(np.logical_or, [signaling_nans(codes, fmt) for codes, fmt in pairs])
            nan = nan & (signaling | (raised & _INVALID == 0))
        return np.asarray(nan)


def joined(join: Any, masks: list[Codes]) -> Codes:
    """Join masks, some of which may have one element for all."""
    found = masks[0]
    for mask in masks[1:]:
        found = join(found, mask)
    return np.asarray(found)
