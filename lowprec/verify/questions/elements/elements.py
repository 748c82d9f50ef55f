"""Conversions and operations, also of scaled values, element by element, as questions of comparison."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays.checks import code_dtype
from lowprec.spec.format import Format
from lowprec.spec.functions import FUNCTIONS
from lowprec.spec.projection import Projection, Saturation
from lowprec.spec.rounding import rounding
from lowprec.verify.codes.display import hex_of, shown_code, shown_value
from lowprec.verify.codes.values import as_doubles, carried, is_nan, is_values, words_of
from lowprec.verify.difference import Difference
from lowprec.verify.dumps.files import Dump
from lowprec.verify.questions import causes
from lowprec.verify.questions.conversion_edits import of_conversions
from lowprec.verify.questions.definitions import definition
from lowprec.verify.questions.dots import former
from lowprec.verify.questions.dots.dot_changes import unless_refused
from lowprec.verify.questions.dots.edits import code_edits, specials_read, subnormals_read
from lowprec.verify.questions.dots.fused import Fused
from lowprec.verify.questions.dots.stages import stages_of
from lowprec.verify.questions.dots.sum_edits import narrowed
from lowprec.verify.questions.elements.stochastic_edits import of_integers
from lowprec.verify.questions.exact_edits import (
    EXACT,
    edited_codes,
    exact_results,
    of_exact,
    of_held,
    operand_features,
)
from lowprec.verify.questions.features import (
    STEP,
    Feature,
    has_fields,
    of_codes,
    of_overflow,
    of_rounding,
    of_steps,
    of_tails,
)
from lowprec.verify.questions.misread import of_numbers
from lowprec.verify.questions.question import (
    Array,
    Batch,
    Budget,
    Change,
    Changes,
    Question,
    count_columns,
    differ,
)
from lowprec.verify.questions.result_edits import exponents_wrapped, of_wrapped
from lowprec.verify.questions.scales import factor_between, is_listed, shown_factor, spread_places, times
from lowprec.verify.questions.situations import (
    continued,
    exact_value,
    names_of,
    neighbours,
    shown_result,
    situation,
    situations,
)
from lowprec.verify.reference.operations import OPERATIONS, operand_names

__all__ = ["Computation", "ElementQuestion"]

_PIECE = 1 << 19
#: Bits of operands whose exact results fit float64.
_EXACT = 50
#: Wrong results whose operands are looked at for a number that all of them have.
_SHOWING = 256
#: Lines back to which one with a finite result is sought.
_BACK = 64
#: Bits of the widest results whose codes are told, and of operands whose payloads are looked at.
_NARROW, _WIDE = 8, 32


@dataclass(frozen=True)
class Computation:
    """A computation: codes of operands, their formats and the target's, and how results are projected."""

    operation: str
    operands: list[Array]
    formats: tuple[Format, ...]
    rule: Projection
    outside: Array | None  #: results that have no operands


class ElementQuestion(Question):
    """Results of a conversion or an operation on elements."""

    def __init__(
        self,
        operation: str,
        operands: Sequence[Dump],
        formats: tuple[Format, ...],
        projection: Projection,
        got: Dump,
        *,
        any_nan: bool = False,
        labels: Dump | None = None,
        budget: Budget | None = None,
        integers: Dump | None = None,
    ) -> None:
        self.budget, self.integers = budget, integers
        self.operation, self.operands = operation, operands
        self.formats, self.projection = formats, projection
        self.target, self.received, self.labels = formats[-1], got, labels
        self.values = is_values(got.dtype, self.target)
        self.any_nan = any_nan or self.values
        self.size, self.shape = got.size, got.shape
        self.leaves_out = (
            self.target.nan_code is None and projection.nan_code is None and projection.nan == "error"
        )
        self.situation_names, self._rule = names_of(operation), projection
        if self.leaves_out:
            self._rule = dataclasses.replace(projection, nan="zero" if self.target.subnormals else "max")

    # -- what was asked -------------------------------------------------------------------------

    def words(self) -> str:
        """Return what was asked, in words."""
        names = [fmt.name for fmt in self.formats]
        what = f"{names[0]} to {names[1]}" if self.operation == "convert" else f"{self.operation} of "
        if self.operation != "convert":
            what += f"{', '.join(names[:-1])} into {names[-1]}"
        return f"{what}, {self.projection}"

    def facts(self) -> dict[str, Any]:
        """Return what was asked, as data."""
        return {
            "operation": self.operation,
            "formats": [fmt.name for fmt in self.formats],
            "rounding": str(self.projection.rounding),
            "saturation": str(self.projection.saturation),
        }

    def asked(self) -> dict[str, Any]:
        """Return what a baseline must have been asked, with the definitions of formats."""
        formats = (*self.formats, *self.projection.via)
        return {**super().asked(), "definitions": [definition(fmt) for fmt in formats]}

    def bounds(self) -> Iterator[tuple[int, ...]]:
        """Yield the first place of each piece, and the place behind its last."""
        for start in range(0, self.size, _PIECE):
            yield start, min(start + _PIECE, self.size)

    def piece(self, *bounds: int) -> Batch:
        """Return the results from one place up to another."""
        start, stop = bounds
        got = self._got(self.received.read(start, stop))
        return Batch(slice(start, stop), got, [words_of(dump.read(start, stop)) for dump in self.operands])

    def sample(self, different: Array, equal: Array) -> Batch:
        """Return a piece that holds these places."""
        index = np.unique(np.concatenate([different, equal]))
        return Batch(index, self._got(self.received.take(index)), self._at(index))

    def _at(self, index: Array) -> list[Array]:
        return [words_of(dump.take(index)) for dump in self.operands]

    def _got(self, results: Array) -> Array:
        if results.dtype.kind == "i" and results.dtype.itemsize > code_dtype(self.target).itemsize:
            return results  # a line without a result is -1
        return words_of(results)

    def agreeing(self, batch: Batch) -> Array:
        """Return which results are right, at the places of another question's batch."""
        own = self.sample(batch.places[:0], batch.places)
        return ~differ(self, own.got, self.answer(own))

    def compared(self, batch: Batch) -> Array | None:
        """Return which results are compared: not NaNs that the format lacks and the projection refuses."""
        if not self.leaves_out:
            return None
        if self.operation == "convert":
            return ~is_nan(batch.given[0], self.formats[0])
        return ~OPERATIONS[self.operation].gives_nan(batch.given, self.formats, self._rule)

    # -- answers --------------------------------------------------------------------------------

    def answer(self, batch: Batch, changes: Changes = ()) -> Array:
        """Return what the results must be, or would be."""
        fields = {change.field: change.value for change in changes}
        asked = self._asked(batch, fields)
        target = asked.formats[-1]
        stages = stages_of(changes)
        if stages is not None:
            assert self._fused is not None, "asked of sums with stages"
            codes = self._fused.answer(asked.operands, target, asked.rule, stages)
            return carried(codes, target, self.received.dtype) if self.values else codes
        random = None
        if asked.rule.rounding.bits:  # each result has its random integer, whatever else is changed
            assert self.integers is not None, "compare refuses a stochastic mode without random integers"
            random = fields.get("integers", _as_given)(self.integers.take, batch.places)
        codes = OPERATIONS[asked.operation].compute(asked.operands, asked.formats, asked.rule, random=random)
        codes = carried(codes, target, self.received.dtype) if self.values else codes
        if "exact" in fields:
            codes = edited_codes(asked, codes, fields["exact"])
        if "held" in fields:
            held = functools.partial(fields["held"], before=self._exact_before(batch, fields))
            codes = edited_codes(asked, codes, held, zeros=True)
        if "wrapped" in fields:
            wide = fields["wrapped"][0]
            rule = dataclasses.replace(asked.rule, saturation=Saturation.NONE)
            into = (*asked.formats[:-1], wide)
            beyond = OPERATIONS[asked.operation].compute(asked.operands, into, rule, random=random)
            codes = exponents_wrapped(codes, beyond, target, *fields["wrapped"])
        if "by_code" in fields:
            codes = fields["by_code"](asked.operands[0].astype(np.int64), codes)
        if "received" in fields:
            codes = fields["received"](codes, target)
        return codes if asked.outside is None else np.where(asked.outside, -1, codes.astype(np.int64))

    def _exact_before(self, batch: Batch, fields: dict[str, Any]) -> Array:
        """Return the last finite exact result before each, or of the lines that changes say, or 0."""
        at = fields["loaded"][batch.places] if "loaded" in fields else batch.places - 1
        made = np.full(at.size, np.inf)
        for _ in range(_BACK):
            idle = ~np.isfinite(made) & (at >= 0)
            if not idle.any():
                break
            made[idle] = exact_results(self.operation, self._at(at[idle]), self.formats[:-1])
            at = np.where(np.isfinite(made), at, at - 1)
        return np.where(np.isfinite(made), made, 0.0)

    def _asked(self, batch: Batch, fields: dict[str, Any]) -> Computation:
        """Return what is computed, with some fields changed."""
        operands, sources, target = batch.given, self.formats[:-1], fields.get("format", self.target)
        outside = None
        if "place" in fields:
            index = fields["place"](batch.places)
            outside = (index < 0) | (index >= self.size)
            operands = self._at(np.clip(index, 0, self.size - 1))
        if "former" in fields:
            at = fields["loaded"][batch.places] if "loaded" in fields else np.maximum(batch.places - 1, 0)
            operands = fields["former"](operands, lambda _: self._at(at))
        if "operand" in fields:
            operands, sources = fields["operand"](operands, sources)
        rule = self._rule
        if "profile" in fields:
            rule = fields["profile"].projection(target)
        named = {field.name for field in dataclasses.fields(Projection)}
        rule = dataclasses.replace(rule, **{key: value for key, value in fields.items() if key in named})
        if target.nan_code is None and rule.nan_code is None and rule.nan == "error":
            rule = dataclasses.replace(rule, nan="max")
        operation = self.operation
        if "unfused" in fields:
            *factors, addend = operands
            product = OPERATIONS["multiply"].compute(factors, (*sources[:2], fields["unfused"]), rule)
            operation, operands, sources = "add", [product, addend], (fields["unfused"], sources[2])
        if "operation" in fields:
            operation, operands, sources = fields["operation"](operands, sources, batch.places)
        return Computation(operation, operands, (*sources, target), rule, outside)

    def changes(self) -> Iterator[Change]:
        """Yield other projections, formats, profiles, operands, places and codes."""
        yield from causes.projections(self.target, self.projection, self.formats[:-1])
        yield from causes.formats(self.target, None if self.values else self.received.dtype)
        yield from causes.profiles(self.target, self.projection)
        yield from causes.operands(self.operation, self.formats)
        if self.operation == "convert":
            yield from self._factors()
        yield from causes.places(self.size, self.operands[0].shape, self.target)
        if not self.values:
            yield from causes.codes(self.target)

    def _factors(self) -> Iterator[Change]:
        """Yield the constant by which operands seem to have been multiplied, if there is one."""
        places = spread_places(self.size)
        got = self.codes(self._got(self.received.take(places)))
        numbers = as_doubles(self._at(places)[0], self.formats[0])
        found = factor_between(numbers, got, self.target, self.projection.rounding)
        if found is not None and not is_listed(found):
            words = f"every operand times {shown_factor(found)}, as if by a scale"
            yield Change("operation", functools.partial(times, factor=found), words, 2)

    # -- what conditions are made of -------------------------------------------------------------

    @functools.cached_property
    def _fused(self) -> Fused | None:
        """The operation as a step of a sum of products, if its stages are known."""
        with contextlib.suppress(ValueError):
            return Fused(self.operation, self.formats, self.projection)
        return None

    def edits(self) -> Iterator[Change]:
        """Yield edits of each operand, double rounding, and the faults of steps of an `fma`."""
        if self.projection.rounding.bits:
            yield from of_integers(self.projection.rounding.bits)
            return
        names = operand_names(len(self.operands))
        for place, (name, fmt) in enumerate(zip(names, self.formats, strict=False)):
            for words, change in code_edits(fmt).items():
                edit = functools.partial(causes.edited_code, place=place, change=change)
                yield Change("operand", edit, f"the {name} {words}", 2 + words.startswith("without its last"))
        yield from causes.leading_ones(names, self.formats)
        for place, name in enumerate(names if names[1:] else ()):
            one = functools.partial(causes.passed, place=place)
            yield Change("operation", one, f"{name} alone, not {self.operation}", 2)
        if self.operation in ("multiply", "divide") and all(map(has_fields, self.formats[:-1])):
            yield Change("operation", causes.zero_of_both, "results zero, of the sign of both operands", 2)
        if names[1:]:
            some = self.piece(0, min(self.size, _PIECE))
            differs = differ(self, some.got, self.answer(some)) & self.left(some.places)
            wrong = np.flatnonzero(differs)[:_SHOWING]
            yield from (
                of_numbers(names, [codes[wrong] for codes in some.given], self.formats[:-1])
                if wrong.size
                else ()
            )
        for place, (name, fmt) in enumerate(zip(names, self.formats, strict=False)):
            for words, read in specials_read(fmt).items() if has_fields(fmt) and not fmt.infinity else ():
                edit = functools.partial(causes.valued, change=read, place=place)
                yield Change("operand", edit, f"the {name} {words}", 2)
        if self._fused is None:
            for place, (name, fmt) in enumerate(zip(names, self.formats, strict=False)):
                for zero in (False, True) if has_fields(fmt) and fmt.subnormals else ():
                    for words, read in subnormals_read(2.0**fmt.emin, zero=zero).items():
                        edit = functools.partial(causes.valued, change=read, place=place)
                        said = f"the {name} {words} if it is subnormal{' or zero' * zero}"
                        yield Change("operand", edit, said, 2)
        yield from former.of_operands(names, self.formats)
        for mode in causes.other_modes() if self._fused is None else ():
            yield Change("rounding", mode, str(mode), 2)
        if has_fields(self.target) and not self.projection.via:
            for bits in range(1, STEP + 1):
                more = f"{bits} bit{'s' * (bits > 1)} more than the result has"
                wide = unless_refused(functools.partial(causes.finer, self.target, bits))
                if wide is not None:
                    yield Change("via", (wide,), f"rounded twice: first to {more}", 2)
        yield from of_wrapped(self.target) if not self.projection.via else ()
        first = self.formats[0]
        if self.operation == "convert" and has_fields(first) and has_fields(self.target):
            for words, of_number in of_conversions(first, self.target):
                yield Change("operand", functools.partial(causes.valued, change=of_number), words, 2)
            if first.infinity and self.target.infinity and first.width <= _WIDE:
                for words, quiet in {"": False, ", the first one set": True}.items():
                    kept = functools.partial(
                        causes.payloads_kept, source=first, target=self.target, quiet=quiet
                    )
                    yield Change(
                        "by_code", kept, f"NaNs keep their sign and the first bits of their payload{words}", 3
                    )
            if (first.exponent_bits, first.bias) == (self.target.exponent_bits, self.target.bias):
                dropped = first.trailing_bits - self.target.trailing_bits
                by = functools.partial(causes.added_to_codes, by=dropped)
                yield Change("by_code", by, "codes rounded as integers are, those of NaN too", 2)
        if self.operation in EXACT and all(map(has_fields, self.formats)) and not self.projection.via:
            sizes = [fmt.precision for fmt in self.formats[:-1]]
            precision = sum(sizes[:2]) if self.operation in ("multiply", "fma") else max(sizes)
            if precision <= _EXACT:
                for words, on_exact in of_exact(self.operation, self.target, precision):
                    yield Change("exact", on_exact, words, 2)
                for words, held in of_held(self.target, self._rule):
                    yield Change("held", held, f"{words} of the line before", 2)
        if self._fused is not None:
            yield from self._fused.edits()

    def narrowed(self, change: Change) -> Iterator[Change]:
        """Yield a fault of the sums of one sign."""
        return narrowed(change, 1)

    def own_features(self, batch: Batch, want: Array) -> Iterator[Feature]:
        """Yield features of the operands and of how the result is rounded; of an `fma` those of its sum."""
        # Those of the flags of results are features of the results.
        answered, codes_of = functools.partial(ElementQuestion.answer, self, batch), Question.codes
        every = ElementQuestion.situations(self, batch, np.ones(want.size, bool), want)
        names, kinds = operand_names(len(batch.given)), names_of(self.operation)
        right = codes_of(self, want if self.coded else answered())
        yield from () if self.coded else of_codes("the result", right, self.target)
        yield Feature("the exact result", every.astype(np.int64), tuple(kinds))
        for name, codes, fmt in zip(names, batch.given, self.formats, strict=False):
            yield from of_codes(f"the {name}" if name == "operand" else name, codes, fmt)
        if not names[1:] and has_fields(self.formats[0]) and self.formats[0].width <= _WIDE:
            codes = batch.given[0].astype(np.int64)
            yield Feature("the magnitude of the operand, as a code,", codes & self.formats[0].sign_code - 1)
            yield Feature("the operand, as a code,", codes)
            last = self._at(np.maximum(batch.places - 1, 0))[0].astype(np.int64)
            shared = self.formats[0].width - np.frexp((codes ^ last).astype(np.float64))[1].astype(np.int64)
            yield Feature("the number of leading bits shared with the operand before", shared, before=True)
        if self.operation in EXACT and names[1:] and all(has_fields(fmt) for fmt in self.formats):
            negative = right & self.target.sign_code != 0
            given = batch.given, self.formats[:-1]
            yield from (Feature(*one) for one in operand_features(self.operation, names, *given, negative))
        wide = continued(self.target) if has_fields(self.target) and not self.values else None
        if wide is not None and not self.projection.rounding.bits:
            beyond = answered((Change("format", wide, ""), Change("saturation", "none", "")))
            yield from of_overflow(beyond, wide, self.target)
        if self._fused is not None:
            yield from self._fused.features(batch.given)
        elif has_fields(self.target) and not self.projection.via:
            zero = Change("rounding", rounding("toward_zero"), "")
            yield from of_rounding(codes_of(self, answered((zero,))), right, self.target)
            yield from of_tails(np.where(every < 4, every, np.where(every < 7, every - 3, 0)))
            finer = unless_refused(functools.partial(causes.finer, self.target, STEP))
            if finer is not None and self.target.width <= _NARROW:
                yield from of_steps(answered((zero, Change("format", finer, ""))), finer, "the result")
        inexact = [not name.startswith(("exact", "zero", "NaN", "in", "div")) for name in kinds]
        yield Feature("the result is inexact", np.array(inexact)[every])

    def independent(self, places: Array) -> int:
        """Return how many of these results differ in more than signs and the order of operands."""
        if places.size == 0 or not all(has_fields(fmt) for fmt in self.formats[:-1]):
            return places.size
        given = self._at(places)
        sizes = np.array(
            [one.astype(np.int64) & fmt.sign_code - 1 for one, fmt in zip(given, self.formats, strict=False)]
        )
        if len(set(self.formats[:2])) == 1:
            sizes[:2] = np.sort(sizes[:2], axis=0)
        return count_columns(sizes)

    def swept(self, batch: Batch) -> bool:
        """Return whether the codes of an operand only go up."""
        return any(bool((codes[1:] >= codes[:-1]).all()) for codes in batch.given)

    def before(self, batch: Batch) -> Array | None:
        """Return the results at the places before."""
        return self._got(self.received.take(np.maximum(batch.places - 1, 0)))

    # -- what is counted and told ---------------------------------------------------------------

    def situations(self, batch: Batch, where: Array, want: Array) -> npt.NDArray[np.uint8]:
        """Return where exact results lie between the values of the target."""
        return situations(
            self.operation, [given[where] for given in batch.given], self.formats, self.projection
        )

    def numbers(self, batch: Batch, where: Array, want: Array) -> npt.NDArray[np.float64]:
        """Return the operand of a conversion, the right result of an operation."""
        if self.operation == "convert":
            return as_doubles(batch.given[0][where], self.formats[0])
        return as_doubles(self.codes(want).astype(code_dtype(self.target)), self.target)

    def random(self, batch: Batch) -> tuple[Array, Array, Array] | None:
        """Return each result's neighbours, and how far it lies from the lower to the upper in magnitude."""
        if self.operation != "convert" or self.projection.via:
            return None
        down, up = neighbours(self.operation, batch.given, self.formats, self._rule)
        ends = [as_doubles(codes, self.target) for codes in (down, up)]
        numbers = as_doubles(batch.given[0], self.formats[0])
        with np.errstate(all="ignore"):
            far = (numbers - ends[0]) / (ends[1] - ends[0])
        if self.values:
            down, up = (carried(codes, self.target, self.received.dtype) for codes in (down, up))
        return down, up, far

    def difference(self, batch: Batch, place: int, want: int) -> Difference:
        """Return a mismatch, told in full."""
        said, data = self._told(batch, place)
        operands = [int(given[place]) for given in batch.given]
        kind = situation(operands, self.operation, self.formats, self.projection)
        return self.differing(said, data, int(batch.got[place]), want, kind)

    def _told(self, batch: Batch, place: int) -> tuple[list[tuple[str, str]], dict[str, Any]]:
        """Return what is told of a result's operands, in words and as data."""
        operands, sources = [int(given[place]) for given in batch.given], self.formats[:-1]
        show = shown_result if self.operation in FUNCTIONS else shown_value
        value = show(exact_value(operands, self.operation, self.formats, self.projection))
        pairs = list(zip(operands, sources, strict=True))
        said = [
            (name, shown_code(*pair)) for name, pair in zip(operand_names(len(pairs)), pairs, strict=True)
        ]
        if self.operation != "convert":
            said.append(("exact", value))
        data = self._at_place(int(batch.places[place]))
        return said, data | {"operands": [hex_of(*pair) for pair in pairs], "exact": value}

    def _at_place(self, at: int) -> dict[str, Any]:
        """Return where a result is, as data."""
        if self.labels is not None:
            return {"index": at, "line": int(self.labels.read(at, at + 1)[0])}
        if len(self.shape) > 1:
            return {"index": at, "at": [int(part) for part in np.unravel_index(at, self.shape)]}
        return {"index": at}


def _as_given(take: Callable[[Array], Array], places: Array) -> Array:
    return take(places)
