"""Programs of the scalar engine: every request but a few sums of blocks, one element at a time, in integers.

Floor 2b. Imports the scalar kernels; never the oracle, which checks them.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.kernels.codes import code_dtype, nans, signaling_nans, unlocked, values_of
from lowprec.kernels.engine import DONE, REFUSED, BlockRefusal, Refusal, Rows, Tensor
from lowprec.kernels.functions.tables import columns_of
from lowprec.kernels.general import runs
from lowprec.kernels.lower.block import lower_block, lower_tensor
from lowprec.kernels.lower.dot import bits_of_terms, integer, kind_of, lower_how, lower_stages
from lowprec.kernels.lower.kinds import NAN
from lowprec.kernels.lower.scalar import lower_source, lower_target, may_refuse
from lowprec.kernels.lower.words import DOUBLE
from lowprec.kernels.request import CONVERT, BlockDecoding, BlockEncoding, Dot, Elementwise, Request
from lowprec.kernels.scalar.arith import KNOWN, encode_numbers, operate
from lowprec.kernels.scalar.convert import convert_to_codebook
from lowprec.spec.accumulation import Window
from lowprec.spec.arith import SIGN_ONLY
from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Carrier, Format
from lowprec.spec.functions import FUNCTIONS
from lowprec.spec.projection import DEFAULT, Flag, Projection

__all__ = ["SERVES", "BlockDecoder", "BlockEncoder", "Conversion", "Dots", "Operation", "lower"]

Codes = npt.NDArray[Any]

#: What this engine takes.
SERVES = "all but sums in pairs of exact sums of blocks that have more than 128 bits"

#: Bits of a number in the kernels. Sums of two with more, of which no one is rounded yet, could cancel.
_BITS = 128

#: Elements that an operation is given at a time, as 64-bit words.
_PART = 1 << 15

#: Policies under which subnormal operands are zeros.
_FLUSHES = ("flush_operands", "flush_both")

_NO_RANDOM, _NO_FLAGS = np.empty(0, np.uint32), np.empty(0, np.uint8)
_NO_VALUES = np.empty(0, np.uint64)
_NO_VALUES.flags.writeable = False


def lower(request: Request) -> Any:
    """Return the program of a request; None of sums of more bits than a number has here."""
    if isinstance(request, Elementwise):
        rule, carrier = request.projection, request.carrier
        if request.operation == CONVERT:
            return Conversion(request.sources[0], request.target, rule, carrier)
        kind = Function if request.operation in FUNCTIONS else Operation
        return kind(request.operation, request.sources, request.target, rule, carrier)
    if isinstance(request, BlockEncoding):
        return BlockEncoder(request)
    if isinstance(request, BlockDecoding):
        return BlockDecoder(request)
    if isinstance(request, Dot):
        return Dots(request) if bits_of_terms(request) <= _BITS else None
    raise TypeError(f"no scalar program for a {type(request).__name__}")


def _read_as(fmt: Format) -> Format:
    """Return the format in which kernels read codes: the values of codebooks, as binary64."""
    return DOUBLE if isinstance(fmt, Codebook) else fmt


def _reader(fmt: Format, flush: bool = False) -> Any:
    """Return the words that read codes of a format; no value of a codebook is subnormal."""
    return lower_source(_read_as(fmt), flush and not isinstance(fmt, Codebook))


def _readable(codes: Codes, fmt: Format) -> Codes:
    """Return codes as kernels read them; bits above a code's count for nothing."""
    if isinstance(fmt, Codebook):
        return np.asarray(values_of(fmt)[codes & codes.dtype.type(len(fmt.values) - 1)])
    return unlocked(codes)


@functools.lru_cache(maxsize=64)
def _carried(fmt: Codebook, carrier: Format) -> Codes:
    """Return the value of each code in a type that holds them all."""
    values, target = np.empty(len(fmt.values), code_dtype(carrier)), lower_target(carrier, DEFAULT)
    runs.convert(unlocked(values_of(fmt)), lower_source(DOUBLE), values, target, _NO_RANDOM, _NO_FLAGS)
    return values


def _convert(
    codes: Codes, read: Any, fmt: Format, out: Codes, words: Any, random: Codes, flags: Codes
) -> tuple[int, int]:
    """Convert codes to those of a format; return how many are refused, and the index of the first."""
    by = convert_to_codebook if isinstance(fmt, Codebook) else runs.convert
    return by(codes, read, out, words, random, flags)


class _Program(abc.ABC):
    """What programs of elements have in common: they refuse, and draw no random integers themselves."""

    draws = in_place = widens = narrows = floats = False
    bound = None
    refuses: bool

    @abc.abstractmethod
    def attempt(self, operands: list[Codes], out: Codes, flags: Codes, random: Codes) -> Refusal | None:
        """Write results and flags, or say which operands are refused."""

    def run(self, operands: list[Codes], out: Codes, flags: Codes, random: Codes, past: bool = False) -> int:
        """Write results and flags; see `engine.ElementwiseProgram`."""
        return DONE if self.attempt(operands, out, flags, random) is None else REFUSED


class Conversion(_Program):
    """Codes to codes of a target, through the formats of `Projection.via`, and then to a carrier type."""

    def __init__(self, source: Format, target: Format, rule: Projection, carrier: Format | None) -> None:
        self.source, self.target, self.rule = source, target, rule
        self._keeps_payloads = rule.nan_payload != "drop"
        onward = Projection(nan_payload=rule.nan_payload)
        read, at = _reader(source, rule.subnormals in _FLUSHES), source
        self._stops = []
        for stop in rule.via:
            unsigned = (
                rule.subnormals in _FLUSHES and not stop.negative_zero
            )  # of subnormals that are flushed
            shorter = self._keeps_payloads and (stop.payload_bits or 0) < (at.payload_bits or 0)
            if (
                shorter
                or unsigned
                or not stop.contains(at)
                or (at.has_signed_nan and not stop.has_signed_nan)
            ):
                self._stops.append((read, stop, lower_target(stop, onward)))
                read, at = _reader(stop), stop
        self._read, self._last, self._words = read, at, lower_target(target, rule)
        self._values = None
        if isinstance(target, Codebook) and carrier is not None:
            self._values, carrier = _carried(target, carrier), None
        self._carry = None if carrier is None else (lower_source(target), lower_target(carrier, onward))
        self.refuses = any(may_refuse(words) for words in (self._words, *(stop[2] for stop in self._stops)))

    def attempt(
        self, operands: list[Codes], out: Codes, flags: Codes, random: Codes, brought: Codes | None = None
    ) -> Refusal | None:
        """Write results and flags, or say which operands are refused.

        `brought` says which NaNs, on their way through `via`, are those of operands, whose payloads are kept
        where that is asked; by default those that are NaNs now.
        """
        (codes,) = operands
        if brought is None and self._keeps_payloads and self.rule.via:
            brought = nans(codes, self.source)
        codes = _readable(codes, self.source)
        earlier = np.zeros_like(flags)
        for read, stop, words in self._stops:
            passed = np.empty(codes.size, code_dtype(stop))
            count, first = _convert(codes, read, stop, passed, words, _NO_RANDOM, flags)
            if count:
                return Refusal(count, first, stop, DEFAULT)
            codes = _readable(passed, stop)
            earlier |= flags
        count, first = self._project(codes, out, self._words, random, flags)
        if count:
            return Refusal(count, first, self.target, self.rule)
        if brought is not None:
            (arisen,) = np.nonzero(nans(codes, _read_as(self._last)) & ~brought)
            if arisen.size:  # NaNs without a payload to keep, which `nan_code` is for
                results = np.empty(arisen.size, out.dtype)
                plain = lower_target(self.target, dataclasses.replace(self.rule, nan_payload="drop"))
                self._project(codes[arisen], results, plain, random[:0], flags[:0])
                out[arisen] = results
        flags |= earlier
        return None

    def _project(
        self, codes: Codes, out: Codes, words: Codes, random: Codes, flags: Codes
    ) -> tuple[int, int]:
        if self._values is None and self._carry is None:
            return _convert(codes, self._read, self.target, out, words, random, flags)
        made = np.zeros(codes.size, code_dtype(self.target))
        found = _convert(codes, self._read, self.target, made, words, random, flags)
        if self._values is not None:
            out[:] = self._values[made]
        elif self._carry is not None:
            runs.convert(made, self._carry[0], out, self._carry[1], _NO_RANDOM, _NO_FLAGS)
        return found


class Operation(_Program):
    """An operation of any operands; through `Projection.via` and to a carrier as conversions go on."""

    def __init__(
        self,
        operation: str,
        sources: tuple[Format, ...],
        target: Format,
        rule: Projection,
        carrier: Format | None,
    ) -> None:
        self.operation, self.sources, self.rule = operation, sources, rule
        self._by = operation
        flushes = rule.subnormals in _FLUSHES
        self._onward = self._carry = None
        self._target, self._first = target, rule
        if rule.via:
            self._target = rule.via[0]
            self._first = Projection(
                nan_payload=rule.nan_payload, subnormals="flush_operands" if flushes else "keep"
            )
            results = rule.subnormals in ("flush_results", "flush_both")
            rest = dataclasses.replace(
                rule, via=rule.via[1:], subnormals="flush_results" if results else "keep"
            )
            self._onward = Conversion(self._target, target, rest, None)
        if carrier is not None:
            self._carry = Conversion(target, carrier, Projection(nan_payload=rule.nan_payload), None)
        reads = [_reader(source, flushes and operation not in SIGN_ONLY) for source in sources]
        self._reads = [*reads, *reads[:1] * (3 - len(reads))]
        self._words, self._codes = lower_target(self._target, self._first), code_dtype(target)
        self._general, self._wide = runs.serves(
            operation, [_read_as(source) for source in sources], self._target, self._first
        )
        self.refuses = may_refuse(self._words) or (self._onward is not None and self._onward.refuses)

    def attempt(self, operands: list[Codes], out: Codes, flags: Codes, random: Codes) -> Refusal | None:
        """Write results and flags, or say which results have no code."""
        codes, raised = np.zeros(out.size, np.uint64), np.zeros(out.size, np.uint8)
        refusal = self._operate(operands, codes, raised, random[:0] if self._onward else random)
        if refusal is not None:
            return refusal
        if self._onward is not None:
            passed, later = codes.astype(code_dtype(self._target)), np.zeros_like(raised)
            codes = np.empty(out.size, self._codes)
            refusal = self._onward.attempt([passed], codes, later, random, self._brought(operands, raised))
            if refusal is not None:
                return refusal
            divided, invalid = raised & Flag.DIVIDE_BY_ZERO, (raised | later) & Flag.INVALID
            raised = np.where(divided, divided, np.where(invalid, invalid, raised | later))
        if self._carry is None:
            out[:] = codes
        else:
            self._carry.attempt([codes.astype(self._codes)], out, _NO_FLAGS, _NO_RANDOM)
        if flags.size:
            flags[:] = raised
        return None

    def _operate(self, operands: list[Codes], codes: Codes, raised: Codes, random: Codes) -> Refusal | None:
        count, signaling_first = len(operands), self.rule.nan_payload == "signaling_first"
        if self._general:
            read = [
                (_readable(given, fmt), words)
                for given, fmt, words in zip(operands, self.sources, self._reads, strict=False)
            ]
            refused, first = runs.operate(
                self._by, read, codes, self._words, self._first.rounding.downward, signaling_first,
                self._wide, random, raised,
            )  # fmt: skip
            return Refusal(refused, first, self._target, self._first) if refused else None
        for start in range(0, codes.size, _PART):
            part = slice(start, min(start + _PART, codes.size))
            given = [
                _readable(_wide(operand, part, codes.size), source)
                for operand, source in zip(operands, self.sources, strict=True)
            ]
            x, y, z = (*given, *given[:1] * (3 - count))
            refused, first = operate(
                KNOWN[self._by], count, x, self._reads[0], y, self._reads[1], z, self._reads[2],
                codes[part], self._words, self._first.rounding.downward, signaling_first,
                random[part], raised[part],
            )  # fmt: skip
            if refused:
                return Refusal(refused, start + first, self._target, self._first)
        return None

    def _brought(self, operands: list[Codes], raised: Codes) -> Codes | None:
        """Say which results are a NaN operand, whose payload may be kept; None where payloads are dropped.

        With `signaling_first` an invalid product makes a NaN of its own, whatever quiet one is added to it.
        """
        if self.rule.nan_payload == "drop":
            return None
        pairs = list(zip(operands, self.sources, strict=True))
        if self.operation in SIGN_ONLY:
            pairs = pairs[:1]
        join = np.logical_and if self.operation.endswith("_number") else np.logical_or
        nan = np.broadcast_to(_joined(join, [nans(codes, fmt) for codes, fmt in pairs]), raised.shape)
        if self.rule.nan_payload == "signaling_first":
            signaling = _joined(np.logical_or, [signaling_nans(codes, fmt) for codes, fmt in pairs])
            nan = nan & (signaling | (raised & Flag.INVALID == 0))
        return np.asarray(nan)


class Function(Operation):
    """A function, by enclosures of its values; NaNs go through as an operation's do."""

    def __init__(self, operation: str, sources: tuple[Format, ...], *others: Any) -> None:
        super().__init__(operation, sources, *others)
        self._by = "sqrt" if len(sources) == 1 else "add"
        self._flushes = self.rule.subnormals in _FLUSHES

    def _operate(self, operands: list[Codes], codes: Codes, raised: Codes, random: Codes) -> Refusal | None:
        wide = [np.ascontiguousarray(np.broadcast_to(each, codes.shape)) for each in operands]
        pairs = list(zip(wide, self.sources, strict=True))
        numbers, flushed = [], np.zeros(codes.size, np.uint8)
        for each, source in pairs:
            values, inexact = np.empty(each.size, np.uint64), np.zeros(each.size, np.uint8)
            runs.convert(
                _readable(each, source), _reader(source, self._flushes), values,
                lower_target(DOUBLE, DEFAULT), _NO_RANDOM, inexact,
            )  # fmt: skip
            if isinstance(source, Carrier) and not source.exponent_bits and np.any(inexact):
                raise ValueError(
                    f"{self.operation} takes integers of at most 53 bits, which float64 holds; convert others"
                )
            numbers.append(values.view(np.float64))
            flushed |= inexact & np.uint8(Flag.INEXACT)
        columns = columns_of(self.operation, numbers)
        signaling = _joined(np.logical_or, [signaling_nans(each, source) for each, source in pairs])
        through = (columns.kinds == NAN) | signaling
        if through.any():
            (places,) = np.nonzero(through)
            some, signals = np.zeros(places.size, np.uint64), np.zeros(places.size, np.uint8)
            refusal = super()._operate(
                [each[places] for each in wide], some, signals, random[places] if random.size else random
            )
            if refusal is not None:
                return refusal._replace(first=int(places[refusal.first]))
            codes[places], raised[places] = some, signals
        (others,) = np.nonzero(~through)
        if others.size:
            made, signals = np.zeros(others.size, np.uint64), np.zeros(others.size, np.uint8)
            refused, first = encode_numbers(
                *columns.at(others), made, self._words, random[others] if random.size else random, signals
            )
            if refused:
                return Refusal(refused, int(others[first]), self._target, self._first)
            alone = signals & (Flag.INVALID | Flag.DIVIDE_BY_ZERO)  # as of operations
            codes[others] = made
            raised[others] = np.where(alone, alone, signals | flushed[others])
        return None


def _joined(join: Any, parts: list[Codes]) -> Codes:
    """All parts joined, some of which may have one element for all."""
    found = parts[0]
    for part in parts[1:]:
        found = join(found, part)
    return np.asarray(found)


def _wide(codes: Codes, part: slice, size: int) -> Codes:
    """Part of an operand as 64-bit words; one element for all is repeated."""
    if codes.size == size:
        return codes[part].astype(np.uint64)
    return np.full(part.stop - part.start, codes[0], np.uint64)


class BlockEncoder:
    """Values in blocks of any format, element after element and block after block."""

    partial = False

    def __init__(self, request: BlockEncoding) -> None:
        fmt, self._given = request.format, request.given
        self._from, self._source = (
            request.source,
            _reader(request.source, fmt.elements.subnormals in _FLUSHES),
        )
        self._element, self._scale = (
            lower_target(fmt.element, fmt.elements),
            lower_target(fmt.scale, fmt.scales),
        )
        self._scale_source, self._rule = _reader(fmt.scale), lower_block(fmt)
        self._scale_values = values_of(fmt.scale) if isinstance(fmt.scale, Codebook) else _NO_VALUES

    def run(
        self, values: Codes, codes: Codes, scales: Codes, tensor: Tensor, random: Codes, scale_random: Codes
    ) -> BlockRefusal | None:
        """Write the codes and the scales of whole blocks, or say what is refused."""
        from lowprec.kernels.scalar.block import convert_blocks

        # Codes of scales go in one type: they are few, and a kernel for each type takes long to compile.
        made = scales.astype(np.uint64)
        refused, first, refused_scales, first_scale = convert_blocks(
            _readable(values, self._from), self._source, values.size // scales.size, codes, self._element,
            made, self._scale, self._scale_source, self._scale_values, self._rule, tensor.words, random,
            scale_random, self._given,
        )  # fmt: skip
        scales[:] = made
        return BlockRefusal(first if refused else -1, first_scale) if refused or refused_scales else None


class BlockDecoder:
    """The values of blocks of any format."""

    partial = False

    def __init__(self, request: BlockDecoding) -> None:
        fmt, scale = request.format, Fraction(1) if request.tensor is None else request.tensor
        self._from = fmt.element, fmt.scale
        self._element, self._scale = _reader(fmt.element), _reader(fmt.scale)
        self._tensor, self._target = (
            lower_tensor(fmt, scale, Fraction(1)),
            lower_target(request.carrier, DEFAULT),
        )

    def run(self, codes: Codes, scales: Codes, out: Codes) -> None:
        """Write the values of whole blocks."""
        from lowprec.kernels.scalar.block import decode_blocks

        decode_blocks(
            _readable(codes, self._from[0]),
            self._element,
            codes.size // scales.size,
            _readable(scales, self._from[1]).astype(np.uint64),
            self._scale,
            self._tensor,
            out,
            self._target,
        )


class Dots:
    """Dot products of rows, one output after the other."""

    partial = False

    def __init__(self, request: Dot) -> None:
        from lowprec.kernels.scalar import dot

        how = request.accumulation
        self._how = lower_how(
            how, request.x, request.y, request.addend, request.scales, request.block, integer(request.tensor)
        )
        self._block = 0 if request.block == 0 or isinstance(how.accumulator, Window) else request.block
        self._stages, self._kernel = (
            lower_stages(how, request.addend),
            dot.kernel(kind_of(how, request.block)),
        )
        scales = request.scales or (request.x, request.y)  # not read where there are none
        self._from = request.x, request.y
        self._sources = [
            (_reader(fmt), lower_source(of)) for fmt, of in zip((request.x, request.y), scales, strict=True)
        ]

    def run(self, x: Rows, y: Rows, addends: Codes, out: Codes, key: int, first: int, paired: bool) -> None:
        """Write the codes of all dot products."""
        from lowprec.kernels.scalar import dot

        sides = [
            dot.Rows(
                _readable(rows.codes, fmt).astype(np.uint64, "C"), source, _scales_of(rows), scale_source
            )
            for rows, fmt, (source, scale_source) in zip((x, y), self._from, self._sources, strict=True)
        ]
        length = x.codes.shape[1]
        work = dot.work_of(self._how, length, -(-length // self._block) if self._block else length, key)
        self._kernel(*sides, addends, out, self._how, self._stages, work, np.uint64(first), paired)


def _scales_of(rows: Rows) -> Codes:
    """Codes of scales as 64-bit words: none of operands that are in no blocks."""
    if rows.scales is None:
        return np.zeros((len(rows.codes), 0), np.uint64)
    return rows.scales.astype(np.uint64, "C")
