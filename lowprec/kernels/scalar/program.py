"""Programs of `backend="scalar"`: those of `general`, and functions and dot products one element at a time.

Floor 2b. Imports the scalar kernels; never the oracle, which checks them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.kernels.codes import signaling_nans
from lowprec.kernels.dots import DotProgram
from lowprec.kernels.engine import Refusal, Rows
from lowprec.kernels.functions.tables import columns_of
from lowprec.kernels.general import sums_program
from lowprec.kernels.general.block_program import BlockDecoder, BlockEncoder, scales_fit
from lowprec.kernels.general.program import Conversion, Operation, Step, joined, readable, reader
from lowprec.kernels.lower.dot import additions, bits_of_terms, integer, kind_of, lower_how, lower_stages
from lowprec.kernels.lower.kinds import NAN
from lowprec.kernels.lower.scalar import lower_source
from lowprec.kernels.lower.words import DOUBLE
from lowprec.kernels.request import CONVERT, BlockDecoding, BlockEncoding, Dot, Elementwise, Request
from lowprec.kernels.scalar.arith import encode_numbers
from lowprec.spec.accumulation import Window
from lowprec.spec.format import Carrier, Format
from lowprec.spec.functions import FUNCTIONS
from lowprec.spec.projection import DEFAULT, Flag, Projection

__all__ = ["SERVES", "BlockDecoder", "BlockEncoder", "Conversion", "Dots", "Operation", "lower"]

Codes = npt.NDArray[Any]

#: What this engine takes.
SERVES = (
    "all but sums in pairs of exact sums of blocks that have more than 128 bits, sums in windows whose "
    "results have more than 58 bits, random ones included, and blocks whose scales have as many or are "
    "quotients by more than 53"
)

#: Bits of a number in the kernels. Sums of two with more, of which no one is rounded yet, could cancel.
_BITS = 128

_NO_RANDOM = np.empty(0, np.uint32)
#: Flags that stand alone, in their own type: with members of the enumeration NumPy computes in int64.
_ALONE = np.uint8(Flag.INVALID | Flag.DIVIDE_BY_ZERO)


def lower(request: Request) -> Any:
    """Return the program of a request; None of numbers of more bits than are kept here."""
    if isinstance(request, Elementwise):
        rule, carrier = request.projection, request.carrier
        if request.operation == CONVERT:
            return Conversion(request.sources[0], request.target, rule, carrier)
        kind = Function if request.operation in FUNCTIONS else Operation
        return kind(request.operation, request.sources, request.target, rule, carrier)
    if isinstance(request, BlockEncoding):
        return BlockEncoder(request) if scales_fit(request.format, request.tensor) else None
    if isinstance(request, BlockDecoding):
        return BlockDecoder(request)
    if isinstance(request, Dot):
        window = request.accumulation.accumulator
        aligned = isinstance(window, Window) and window.fraction_bits is not None
        program = sums_program.lower(request)
        if program is not None or aligned:
            return program
        return Dots(request) if bits_of_terms(request) <= _BITS else None
    raise TypeError(f"no scalar program for a {type(request).__name__}")


class Function(Operation):
    """A function, by enclosures of its values; NaNs go through as an operation's do."""

    def __init__(
        self, operation: str, sources: tuple[Format, ...], target: Format, rule: Projection,
        carrier: Format | None,
    ) -> None:  # fmt: skip
        by = "sqrt" if len(sources) == 1 else "add"
        super().__init__(operation, sources, target, rule, carrier, by)
        flushes = self.rule.flushes_operands
        self._numbers = [
            Step(CONVERT, [source], [reader(source, flushes)], DOUBLE, DEFAULT) for source in sources
        ]

    def first(self, operands: list[Codes], out: Codes, flags: Codes, random: Codes) -> Refusal | None:
        """Write the codes and the flags of the function itself, before it goes on through `via`."""
        wide = [np.ascontiguousarray(np.broadcast_to(each, out.shape)) for each in operands]
        pairs = list(zip(wide, self.sources, strict=True))
        numbers, flushed = [], np.zeros(out.size, np.uint8)
        for (each, source), step in zip(pairs, self._numbers, strict=True):
            values, inexact = np.empty(each.size, np.uint64), np.zeros(each.size, np.uint8)
            step.run([readable(each, source)], values, inexact, _NO_RANDOM)
            if isinstance(source, Carrier) and not source.exponent_bits and np.any(inexact):
                raise ValueError(
                    f"{self.operation} takes integers of at most 53 bits, which float64 holds; convert others"
                )
            numbers.append(values.view(np.float64))
            flushed |= inexact & np.uint8(Flag.INEXACT)
        columns = columns_of(self.operation, numbers)
        signaling = joined(np.logical_or, [signaling_nans(each, source) for each, source in pairs])
        through = (columns.kinds == NAN) | signaling
        if through.any():
            (places,) = np.nonzero(through)
            some, signals = np.empty(places.size, out.dtype), np.empty(places.size, np.uint8)
            chosen = random[places] if random.size else random
            refusal = super().first([each[places] for each in wide], some, signals, chosen)
            if refusal is not None:
                return refusal._replace(first=int(places[refusal.first]))
            out[places] = some
            if flags.size:
                flags[places] = signals
        (others,) = np.nonzero(~through)
        if others.size:
            made, signals = np.zeros(others.size, np.uint64), np.zeros(others.size, np.uint8)
            refused, first = encode_numbers(
                *columns.at(others), made, self._step.words, random[others] if random.size else random,
                signals,
            )  # fmt: skip
            if refused:
                return Refusal(refused, int(others[first]), self._step.fmt, self._step.rule)
            out[others] = made
            if flags.size:
                alone = signals & _ALONE  # as of operations
                flags[others] = np.where(alone, alone, signals | flushed[others])
        return None


class Dots(DotProgram):
    """Dot products of rows, one output after the other."""

    def __init__(self, request: Dot) -> None:
        from lowprec.kernels.scalar import dot

        how = request.accumulation
        self._how = lower_how(
            how, request.x, request.y, request.addend, request.scales, request.block, integer(request.tensor)
        )
        self._block = 0 if request.block == 0 or isinstance(how.accumulator, Window) else request.block
        self._order, self._rounded, self._first = how.order, how.product is not None, how.addend == "first"
        self._stages, self._kernel = (
            lower_stages(how, request.addend),
            dot.kernel(kind_of(how)),
        )
        scales = request.scales or (request.x, request.y)  # not read where there are none
        self._from = request.x, request.y
        self._sources = [
            (reader(fmt), lower_source(of)) for fmt, of in zip((request.x, request.y), scales, strict=True)
        ]

    def part(
        self, x: Rows, y: Rows, addends: Codes, out: Codes, key: int, first: int, paired: bool
    ) -> None:  # fmt: skip
        """Write the codes of all dot products."""
        from lowprec.kernels.scalar import dot

        sides = [
            dot.Rows(readable(rows.codes, fmt).astype(np.uint64, "C"), source, _scales_of(rows), scale_source)
            for rows, fmt, (source, scale_source) in zip((x, y), self._from, self._sources, strict=True)
        ]
        length = x.codes.shape[1]
        terms = -(-length // self._block) if self._block else length
        steps = additions(self._order, terms, self._rounded, addends.size > 0 and self._first)
        work = dot.work_of(self._how, length, terms, key, steps)
        self._kernel(*sides, addends, out, self._how, self._stages, work, np.uint64(first), paired)


def _scales_of(rows: Rows) -> Codes:
    """Return codes of scales as 64-bit words: none of operands that are in no blocks."""
    if rows.scales is None:
        return np.zeros((len(rows.codes), 0), np.uint64)
    return rows.scales.astype(np.uint64, "C")
