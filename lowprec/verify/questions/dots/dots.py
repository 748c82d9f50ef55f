"""Dot products and products of matrices, as a question of comparison."""

from __future__ import annotations

import functools
import math
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays.axes import broadcast_shapes
from lowprec.arrays.checks import code_dtype
from lowprec.arrays.dots.dot import dot, matmul
from lowprec.spec import catalog
from lowprec.spec.accumulation import Accumulation, Window
from lowprec.spec.accumulations import ACCUMULATIONS
from lowprec.spec.epilogue import Epilogue, LibraryCall
from lowprec.spec.format import Format
from lowprec.spec.rounding import rounding
from lowprec.verify.codes.display import shown_value
from lowprec.verify.codes.values import as_doubles, carried, is_values, words_of
from lowprec.verify.difference import Difference
from lowprec.verify.dumps.files import Dump
from lowprec.verify.questions.causes import in_words
from lowprec.verify.questions.definitions import definition
from lowprec.verify.questions.dots import dot_changes, dot_faults, dot_operands, edits, former, scale_edits
from lowprec.verify.questions.dots.dot_operands import Given, OutputScales
from lowprec.verify.questions.dots.dot_parts import DotParts
from lowprec.verify.questions.dots.lane_edits import shown_edits
from lowprec.verify.questions.dots.stages import stages_of
from lowprec.verify.questions.dots.step_faults import nans_as_numbers, step_faults
from lowprec.verify.questions.dots.step_features import of_sums
from lowprec.verify.questions.dots.step_model import Formats, PlainSums, has_steps, stepped
from lowprec.verify.questions.dots.step_trees import is_tree, nodes_of
from lowprec.verify.questions.dots.sum_edits import narrowed, of_steps
from lowprec.verify.questions.features import Feature
from lowprec.verify.questions.question import Array, Batch, Budget, Change, Changes, Question
from lowprec.verify.questions.scales import factor_between, shown_factor, spread_places
from lowprec.verify.reference.dots import check_random, drawn_codes
from lowprec.verify.reference.sum_ranges import check_bound

__all__ = ["DotQuestion"]

#: Products of a piece, rows and columns of a sample, and outputs of one.
_PIECE, _SIDE, _OUTPUTS = 1 << 25, 64, 1 << 11
#: Batches whose sums without a fault are kept.
_KNOWN = 4

#: Fields of changes of the operands, in the order in which they are made; others that are not of the
#: accumulation; the longest step, and K, of which lanes are tried.
_OF_OPERANDS = ("lane", "fault", "addend", "bias", "output_scale", "backward")
_NOT_HOW = {*_OF_OPERANDS, "former", "loaded", "register", "epilogue", "pair", "scaling"}
_LANES, _WIRED = 64, 32
#: Products of which faults within steps are tried: fewer of matrices, whose samples are large.
_STEPPED = {"dot": 1 << 24, "matmul": 1 << 16}


class DotQuestion(Question):
    """Sums of products by an accumulation."""

    def __init__(
        self,
        verb: str,
        x: Dump,
        y: Dump,
        asked: Accumulation | LibraryCall,
        got: Dump,
        *,
        formats: tuple[Format | None, Format | None] = (None, None),
        addend: Dump | None = None,
        any_nan: bool = False,
        budget: Budget | None = None,
        scale: Dump | tuple[Dump | None, Dump | None] | None = None,
        block: int | None = None,
        bias: Dump | None = None,
        output_scale: Dump | None = None,
        random: Array | None = None,
    ) -> None:
        self.epilogue: Epilogue | None = None
        sides = scale if isinstance(scale, tuple) else (scale,)
        self.said: dict[str, Any] = {"addend": addend is not None, "block": block}
        self.said["definitions"] = [fmt and definition(fmt) for fmt in formats]
        self.said["scales"] = [None if each is None else len(each.shape) for each in sides]
        self.said["accumulation"] = str(asked) if isinstance(asked, LibraryCall) else definition(asked)
        if isinstance(asked, LibraryCall):
            how, self.epilogue = dot_operands.parts_of(asked)
        else:
            how = asked
            if bias is not None or output_scale is not None:
                self.epilogue = Epilogue()
        if self.epilogue is not None and isinstance(scale, Dump):
            if scale.size != 1:
                what = f"the library call {asked}" if isinstance(asked, LibraryCall) else "an epilogue"
                raise ValueError(
                    f"{what} scales x and y, and scale has a number for each result: give a pair"
                )
            scale = scale, None
        self.budget, self.dear = budget, verb == "dot"
        self._blocks = dot_operands.KeptBlocks(_KNOWN)
        self._known = deque[tuple[Given, Accumulation, PlainSums]](maxlen=_KNOWN)
        self.verb, self.how, self.received, self.target = verb, how, got, asked.output[0]
        operands = how.operands or formats
        for said, meant in zip(formats, operands, strict=True):
            if said is not None and said != meant:
                raise ValueError(f"accumulation {how.name!r} takes {meant}, not source={said.name!r}")
        left, right = (dot_operands.factors(side, fmt) for side, fmt in zip((x, y), operands, strict=True))
        shape = dot_operands.shape_of(verb, left, right)
        if got.shape != shape:
            raise ValueError(
                f"{verb} of shapes {x.shape} and {y.shape} has results of shape {shape}, not {got.shape}"
            )
        self.shape, self.size, length = shape, got.size, left.shape[-1]
        self.formats = formats
        self.read = formats[0] or catalog.carrier(left.dtype), formats[1] or catalog.carrier(right.dtype)
        # One layout inside: rows against rows, or matrices against matrices.
        if verb == "matmul":
            left = left[None] if left.ndim == 1 else left
            right = right[:, None] if right.ndim == 1 else right
        if (random is not None) != how.rounds_randomly:
            needs = "needs the random integers of each result" if random is None else "is not stochastic"
            raise ValueError(
                f"accumulation {how} {needs}: {'give' if random is None else 'leave out'} random="
            )
        self.integers = random
        if random is not None:
            check_random(
                random, verb, how, got.size, length, alone=not (self.epilogue or scale is not None or budget)
            )
        if block is not None:
            dot_operands.check_block(block, scale, left, right)
        size = block or (self.epilogue.block if self.epilogue else 0) or (how.scale[1] if how.scale else 0)
        self.scales = None
        if scale is not None:
            own = how.scale is not None
            self.scales = dot_operands.DotScales(verb, scale, left, right, shape, size, of_hardware=own)
        takes_blocks = how.scale is not None or not (how.machine or isinstance(how.accumulator, Window))
        if self.scales is not None and any(self.scales.blocks) and not takes_blocks:
            self.epilogue = self.epilogue or Epilogue()  # as in lowprec.matmul
        if budget == "auto" and self.epilogue is not None:
            what = f"the library call {asked}" if isinstance(asked, LibraryCall) else "an epilogue"
            raise ValueError(
                f"ulps='auto' knows no bound for {what}: it scales in steps; give a number of codes"
            )
        if budget == "auto":
            check_bound(how)
        if verb == "dot":
            self.x, self.y = (
                np.broadcast_to(side, (*shape, length)).reshape(got.size, length) for side in (left, right)
            )
            inner: tuple[int, ...] = (got.size,)
        else:
            outer = broadcast_shapes(left.shape[:-2], right.shape[:-2])
            count = math.prod(outer)
            self.x = np.broadcast_to(left, (*outer, *left.shape[-2:])).reshape(count, *left.shape[-2:])
            self.y = np.broadcast_to(right, (*outer, *right.shape[-2:])).reshape(count, *right.shape[-2:])
            inner = (count, left.shape[-2], right.shape[-1])
        width = how.summed[0].width
        self.addend, self.bias, self.output_scale = (
            None if each is None else dot_operands.joining(each, name, shape, width).reshape(inner)
            for each, name in ((addend, "an addend"), (bias, "a bias"), (output_scale, "an output scale"))
        )
        self.inner = inner
        self.values = is_values(got.dtype, self.target)
        self.any_nan = any_nan or self.values

    def words(self) -> str:
        """Return what was asked, in words."""
        parts = {"scaled": self.scales, "with a bias": self.bias, "with an output scale": self.output_scale}
        said = "".join(f", {words}" for words, part in parts.items() if part is not None)
        return f"{self.verb} by {self.how.name or 'an accumulation'}, K = {self.x.shape[-1]}{said}"

    def facts(self) -> dict[str, Any]:
        """Return what was asked, as data."""
        name = self.how.name or str(self.how)
        return {"operation": self.verb, "formats": [self.target.name], "accumulation": name}

    def asked(self) -> dict[str, Any]:
        """Return what a baseline must have been asked, with the axes of scales."""
        return {**super().asked(), **self.said}

    def bounds(self) -> Iterator[tuple[int, ...]]:
        """Yield the rows of each piece; of matrices their number first."""
        length = max(self.x.shape[-1], 1)
        if self.verb == "dot":
            step = max(_PIECE // length, 1)
            yield from ((start, min(start + step, self.size)) for start in range(0, self.size, step))
            return
        matrices, m, n = self.inner
        step = max(_PIECE // max(n * length, 1), 1)
        for number in range(matrices):
            yield from ((number, start, min(start + step, m)) for start in range(0, m if n else 0, step))

    def piece(self, *bounds: int) -> Batch:
        """Return the results of whole rows."""
        *number, start, stop = bounds
        if not number:
            return self._batch(slice(start, stop), slice(start, stop), np.s_[:])
        _, m, n = self.inner
        first = number[0] * m * n
        index = slice(first + start * n, first + stop * n)
        return self._batch(index, (number[0], slice(start, stop)), np.s_[:])

    def _batch(self, index: Array | slice, rows: Any, columns: Any) -> Batch:
        """Return the results at some places: of rows of x, and columns of y."""
        read, scales = isinstance(index, slice), None
        if self.scales is not None:
            scales = self.scales.at(rows, columns)
        got = words_of(self.received.read(index.start, index.stop) if read else self.received.take(index))  # type: ignore[union-attr, arg-type]
        joins = self.addend, self.bias, self.output_scale
        if self.verb == "dot":
            addend, bias, after = (None if each is None else each[rows] for each in joins)
            return Batch(index, got, Given(self.x[rows], self.y[rows], addend, scales, bias, after))
        of, chosen = rows
        addend, bias, after = (None if each is None else each[of][chosen][:, columns] for each in joins)
        given = self.x[of][chosen], self.y[of][:, columns], addend, scales, bias, after
        return Batch(index, got, Given(*given, paired=False))

    def _rows(self, index: Array) -> Batch:
        return self._batch(index, index, np.s_[:])

    def sample(self, different: Array, equal: Array) -> Batch:
        """Return rows and columns of the matrix with most mismatches, mismatched first; or some results."""
        if self.verb == "dot":
            half = _OUTPUTS // 2
            index = np.unique(np.concatenate([different[:half], equal[:half]]))
            return self._rows(index)
        _, m, n = self.inner
        places = different if different.size else equal
        number = int(np.argmax(np.bincount(places // (m * n)))) if places.size else 0
        here = [side[side // (m * n) == number] % (m * n) for side in (different, equal)]
        chosen = []
        for part in (0, 1):
            found = np.concatenate([np.divmod(side, n)[part] for side in here])
            _, first = np.unique(found, return_index=True)
            chosen.append(np.sort(found[np.sort(first)][:_SIDE]))
        index = (number * m * n + chosen[0][:, None] * n + chosen[1]).reshape(-1)
        return self._batch(index, (number, chosen[0]), chosen[1])

    # -- answers --------------------------------------------------------------------------------

    def answer(self, batch: Batch, changes: Changes = ()) -> Array:
        """Return what the results must be, or would be."""
        codes, target = self._codes(batch, changes)
        return carried(codes, target, self.received.dtype) if self.values else codes

    def _codes(self, batch: Batch, changes: Changes) -> tuple[Array, Format]:
        """Return codes of the output, and its format."""
        if any(change.field == "parts" for change in changes):
            return self._in_parts(batch, changes)
        how, given, fields = self.how, batch.given, {change.field: change.value for change in changes}
        for change in changes:
            if change.field not in _NOT_HOW and not change.field.startswith("stage."):
                how = change.value(how)
        for field in _OF_OPERANDS:
            if field in fields:
                given = fields[field](given)
        if "former" in fields:
            at = fields["loaded"][batch.places] if "loaded" in fields else np.maximum(batch.places - 1, 0)
            given = fields["former"](given, lambda _: self._rows(at).given)
        if "register" in fields:
            given = former.from_register(self, batch, given)
        x, y, addend, scales, bias, output_scale, _ = given
        factor = None if scales is None else scales.factor
        epilogue = None if "scaling" in fields else fields.get("epilogue", self.epilogue)
        if "scaling" in fields:
            factor = fields["scaling"](scales)
        if epilogue is None:
            in_blocks = self._blocks.of if given is batch.given else dot_operands.in_blocks
            x, y = in_blocks(given, how, self.formats)
        verb: Callable[..., Any] = dot if self.verb == "dot" else matmul
        target = how.output[0] if epilogue is None else (epilogue.output or how.output)[0]
        if self.integers is not None:
            return drawn_codes(how, x, y, addend, self.integers[batch.places]), target
        if self.epilogue is not None and epilogue is None and how.machine:
            raise ValueError("a machine's sums are in binary32, and its epilogue has another output")
        if epilogue is not None:
            pair, block = dot_operands.scale_pair(scales)
            if "pair" in fields:
                pair = fields["pair"](pair)
            made = verb(
                x, y, how, addend=addend, scales=pair, bias=bias, output_scale=output_scale,
                epilogue=replace(epilogue, block=block), dtype=code_dtype(target),
            )  # fmt: skip
            codes = np.asarray(made).reshape(-1)
        elif (stages := stages_of(changes)) is not None:
            plain = self._plain_sums(batch, given, how)
            if self.verb == "matmul":  # row against column
                x, y = np.repeat(x, y.shape[-1], 0), np.tile(y.T, (len(x), 1))
            codes = stepped(x, y, addend, how, how.operands or self.read, stages, plain)
        elif factor is None:
            codes = np.asarray(verb(x, y, how, addend=addend, dtype=code_dtype(target))).reshape(-1)
        else:
            codes = dot_operands.times(verb, x, y, addend, how, factor)
        return codes, target

    def _in_parts(self, batch: Batch, changes: Changes) -> tuple[Array, Format]:
        """Return codes under changes of which some are of single products or steps."""
        made = list[Array]()
        for start in range(0, batch.places.size, _OUTPUTS):
            places = batch.places[start : start + _OUTPUTS]
            at = (c.value.at(places) if c.field == "parts" else c for c in changes)
            codes, target = self._codes(self._rows(places), tuple(at))
            made.append(codes)
        return np.concatenate(made), target

    def _plain_sums(self, batch: Batch, given: Given, how: Accumulation) -> PlainSums | None:
        """Return the sums without a fault of the last few batches; None of operands that are changed."""
        if given is not batch.given:
            return None
        for of_batch, of_how, sums in self._known:
            if of_batch is given and of_how == how:
                return sums
        self._known.append((given, how, {}))
        return self._known[-1][2]

    def changes(self) -> Iterator[Change]:
        """Yield other accumulations, orders and outputs."""
        how = self.how
        if self.integers is not None:  # others draw at other places
            yield Change("backward", dot_faults.backward, "the products in reverse order", 2)
            yield from self._lanes()
            if self.addend is not None:
                yield dot_faults.LEFT_OUT["addend"]
            return
        if isinstance(how.accumulator, Window):
            yield from dot_changes.windows(how, how.accumulator)
        elif how.accumulator is not None:
            yield from dot_changes.sums(how)
        for name in dot_operands.could_be(self.x, self.y, self.target):
            if ACCUMULATIONS[name] != how:
                yield Change("named", dot_changes.named(name), f"accumulation {name!r}", 2)
        if how.order.name != "sequential" or how.split or not isinstance(how.accumulator, tuple):
            yield Change("backward", dot_faults.backward, "the products in reverse order", 2)
        yield from self._lanes()
        if self.addend is not None:
            yield dot_faults.LEFT_OUT["addend"]
        mode = how.output[1].rounding
        for name in (n for n in ("nearest_even", "toward_zero", "nearest_away") if n != str(mode)):
            rounded = dot_changes.with_rule("output", rounding=rounding(name))
            yield Change("output", rounded, f"output: {in_words(name)}", 2)
        if not how.rounds_randomly:
            yield from dot_changes.splits(how, self.x.shape[-1])
            yield from dot_changes.runs(how, self.x.shape[-1])
        steps = self.bias is not None or self.output_scale is not None
        if self.scales is not None:
            yield from dot_operands.pairings() if steps else dot_operands.scalings(self.scales)
        if self.bias is not None:
            yield dot_faults.LEFT_OUT["bias"]
            if self.addend is None and self.epilogue is not None:
                fused = replace(self.epilogue, fused_bias=not self.epilogue.fused_bias)
                words = "before the sums are rounded" if fused.fused_bias else "after the sums are scaled"
                yield Change("epilogue", fused, f"the bias joins {words}")
        if self.output_scale is not None:
            yield dot_faults.LEFT_OUT["output_scale"]
            yield Change("output_scale", dot_operands.inverse_output, "the inverse of the output scale")
        blocks = self.scales is not None and any(self.scales.blocks)
        if not steps and (self.epilogue is None or not (how.machine or blocks)):
            yield from self._factors()

    def _lanes(self) -> Iterator[Change]:
        how, length = self.how, self.x.shape[-1]
        period = how.accumulator.step if isinstance(how.accumulator, Window) else length
        for lane in range(min(period, length)) if period <= _LANES else ():
            left_out = dot_faults.left_out(np.s_[lane::period], (0, 1))
            yield Change("lane", left_out, f"lane {lane} of {period} left out")
        operands = how.operands or self.read
        yield from dot_faults.faults(operands, paired=self.verb == "dot", addend=self.addend is not None)
        if length <= _WIRED and self.scales is None:
            yield from dot_faults.of_lanes(length, period, self._step)
        blocks = how.scale is not None and self.verb == "dot"
        if (blocks or self.scales is None) and self._steps_known:
            yield from step_faults(how, operands, length, addend=self.addend is not None)
            if self.verb == "dot":
                yield from self._nans(operands, period)

    # -- what conditions are made of --------------------------------------------------------------

    def edits(self) -> Iterator[Change]:
        """Yield other addends, orders of lanes, scales and shifts, and edits of the lanes that show them."""
        how, length = self.how, self.x.shape[-1]
        if self.integers is not None or self.epilogue is not None:
            return
        period = how.accumulator.step if isinstance(how.accumulator, Window) else length
        if self.addend is not None:
            yield from edits.of_addends(self.addend.dtype)
            yield from former.of_addend() if self.verb == "dot" else ()
        yield from edits.orders(length, min(period, length))
        operands = how.operands or self.read
        if self._steps_known:
            window = how.accumulator if isinstance(how.accumulator, Window) else None
            yield from of_steps(how.summed[0], window)
            yield from scale_edits.of_scales(how.scale[0]) if how.scale else ()
        if self.verb == "dot" and length <= _LANES:
            whole = self.piece(0, min(self.size, 2 * _OUTPUTS))
            counts = length, length if is_tree(how) else min(self._step, length)
            known, addend = self._steps_known, self.addend is not None
            parts = DotParts(self._rows, how, operands, self.formats, length, addend)
            yield from shown_edits(self, self._rows, whole, how, operands, counts, known, parts)
            yield from (*parts.edits_of_steps(), *parts.edits_of_sums()) if known else ()

    def narrowed(self, change: Change) -> Iterator[Change]:
        """Yield a fault of one step alone, or of sums of one sign."""
        length, addend = self.x.shape[-1], self.addend is not None
        nodes = nodes_of(self.how, length, addend) if is_tree(self.how) and length <= _LANES else ()
        return narrowed(change, -(-length // self._step), nodes)

    @property
    def _steps_known(self) -> bool:
        """Known stages, of few enough steps to try faults of them."""
        length = self.x.shape[-1]
        few = length <= _LANES if is_tree(self.how) else self.size * length <= _STEPPED[self.verb]
        return few and has_steps(self.how, self.how.operands or self.read)

    @property
    def _step(self) -> int:
        """Products of a step."""
        return int(getattr(self.how.accumulator, "step", max(self.how.term, 1)))

    def own_features(self, batch: Batch, want: Array) -> Iterator[Feature]:
        """Yield features of the operands, and of steps where they are known."""
        stepped = self.epilogue is None and self.integers is None
        stepped &= not is_tree(self.how) or self.x.shape[-1] <= _LANES
        yield from of_sums(batch.given, self.how, self.formats, self.read, stepped=stepped)

    def before(self, batch: Batch) -> Array | None:
        """Return the results at the places before."""
        return words_of(self.received.take(np.maximum(batch.places - 1, 0)))

    def _nans(self, operands: Formats, period: int) -> Iterator[Change]:
        """Yield what becomes of NaNs of lanes whose NaNs are lost."""
        whole = self.piece(0, self.size)
        lost = self.nans(self.answer(whole)) & ~self.nans(whole.got)
        lanes = dot_faults.lanes_without_nan(self.x, self.y, lost)
        if lanes.any() and not lanes.all():
            where = dot_faults.lanes_in_words(lanes, period)
            yield dot_faults.nans_left_out(lanes, where)
            yield from nans_as_numbers(operands, lanes, f" in products {where}")

    def _factors(self) -> Iterator[Change]:
        """Yield the constant by which sums seem to have been multiplied, if there is one."""
        places = spread_places(self.size)
        batch = self.sample(places, places[:0])
        scales, into = batch.given.scales, self.how.summed
        inner = Change("output", dot_changes.with_fields(output=into), "")
        codes, _ = self._codes(batch, (inner, Change("scaling", lambda scales: None, "")))
        numbers = as_doubles(codes, into[0]) * (1.0 if scales is None else scales.factor)
        found = factor_between(numbers, self.codes(batch.got), self.target, self.how.output[1].rounding)
        if found is not None:
            words = f"every sum times {shown_factor(found)}, as if by a scale"
            if scales is not None:
                words = f"scales off by one factor: results are times {shown_factor(found)}"
            yield Change("scaling", functools.partial(_off, factor=found), words)

    def limits(self, batch: Batch, places: Array, want: Array) -> tuple[Array, Array]:
        """Return the least and the greatest distance that the budget allows, of each output its own."""
        if self.budget != "auto":
            return super().limits(batch, places, want)
        return dot_operands.limits(batch.given, places, self.codes(want), self.how)

    # -- what is counted and told ---------------------------------------------------------------

    situation_names = ("sums",)

    def situations(self, batch: Batch, where: Array, want: Array) -> npt.NDArray[np.uint8]:
        """Return one situation for all: sums are rounded many times."""
        return np.zeros(int(np.count_nonzero(where)), np.uint8)

    def numbers(self, batch: Batch, where: Array, want: Array) -> npt.NDArray[np.float64]:
        """Return the right results."""
        return as_doubles(self.codes(want).astype(code_dtype(self.target)), self.target)

    def difference(self, batch: Batch, place: int, want: int) -> Difference:
        """Return a mismatch, told in full."""
        got = int(batch.got[place])
        at = int(batch.places[place])
        where = tuple(int(part) for part in np.unravel_index(at, self.shape)) if self.shape else ()
        value = self._exact(at)
        said = [("exact", "NaN or infinite" if value is None else shown_value(value))]
        data = {"index": at, "at": list(where), "operands": [], "exact": said[0][1]}
        return self.differing(said, data, got, want, "sums")

    def _exact(self, at: int) -> Fraction | None:
        """Return the sum of the products times their scales, without any rounding."""
        if self.verb == "dot":
            given = self._rows(np.array([at])).given
        else:
            number, row, column = map(int, np.unravel_index(at, self.inner))
            one = slice(row, row + 1), slice(column, column + 1)
            given = self._batch(np.array([at]), (number, one[0]), one[1]).given
        return dot_operands.exact_result(given, -1 if self.verb == "dot" else 0)


def _off(scales: OutputScales | None, factor: float) -> Array:
    return np.asarray(factor) if scales is None else scales.factor * factor
