"""Question of arrays in blocks that share a scale.

An answer is a value; or the code of an element, with the code of its block's scale in the bits above it if
scales were given.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays.blocks.block_array import BlockArray, tensor_scale_of
from lowprec.arrays.blocks.block_products import spread
from lowprec.arrays.blocks.block_stream import axes_of, grid_of
from lowprec.arrays.checks import UNSIGNED
from lowprec.arrays.convert import encode
from lowprec.spec import catalog
from lowprec.spec.block import RULES, BlockFormat
from lowprec.spec.format import Format
from lowprec.spec.profiles import PROFILES
from lowprec.spec.projection import Projection
from lowprec.spec.rounding import MODES, TO_ODD
from lowprec.verify.codes.display import hex_of, shown_code
from lowprec.verify.codes.values import (
    as_doubles,
    carrier_of,
    distances,
    doubles,
    is_nan,
    is_values,
    words_of,
)
from lowprec.verify.difference import Difference
from lowprec.verify.dumps.files import Dump
from lowprec.verify.questions.blocks import block_causes, block_features
from lowprec.verify.questions.blocks.block_before import Earlier
from lowprec.verify.questions.blocks.block_causes import SCALE_SHIFT
from lowprec.verify.questions.blocks.block_edits import block_edits
from lowprec.verify.questions.blocks.block_lanes import lanes
from lowprec.verify.questions.blocks.block_trees import maxima, trees
from lowprec.verify.questions.causes import SATURATIONS, in_words, other_modes
from lowprec.verify.questions.definitions import definition
from lowprec.verify.questions.dots.dot_operands import holding
from lowprec.verify.questions.features import Feature, has_fields
from lowprec.verify.questions.question import Array, Batch, Budget, Change, Changes, Question, count_columns
from lowprec.verify.questions.result_edits import of_scale_codes, parts_moved
from lowprec.verify.questions.scales import SIZES

__all__ = ["BlockQuestion"]

#: Elements of a piece, about.
_PIECE = 1 << 19
#: Situations of mismatches: two if scales were given; of codes without scales; of values.
_UNDER = ("elements under the right scale", "elements of another scale", "elements", "values")


class BlockQuestion(Question):
    """Question of values in a block format, answered by codes with or without scales, or by values."""

    situation_names, numbered = _UNDER, "element"

    def __init__(
        self,
        values: Dump,
        fmt: BlockFormat,
        got: Dump,
        *,
        scales: Dump | None = None,
        axis: int | tuple[int, ...] | None = None,
        tensor_scale: float | None = None,
        any_nan: bool = False,
        budget: Budget | None = None,
    ) -> None:
        self.budget = budget
        self.dump, self.format, self.received, self.scales = values, fmt, got, scales
        self.shape, self.size, self.target = values.shape, values.size, fmt.element
        self.axes = axes_of(fmt, axis, len(self.shape))
        self.values = is_values(got.dtype, fmt.element)
        self.any_nan = any_nan or self.values
        if got.shape != self.shape:
            raise ValueError(
                f"there are {got.shape} results of values of shape {self.shape}; they must be equal"
            )
        for dump, what in ((scales, fmt.scale), (None if self.values else got, fmt.element)):
            if dump is not None and is_values(dump.dtype, what):
                raise ValueError(f"{dump} holds {dump.dtype}, which are no codes of {what.name!r}")
        if self.values and scales is not None:
            raise ValueError(
                f"results of type {got.dtype} are values, which have no scales; leave scales out"
            )
        if self.values and budget is not None:
            raise ValueError(
                f"ulps= counts codes of elements, and results of type {got.dtype} are values of blocks; give "
                f"codes"
            )
        self.unfit = ""
        if scales is not None and scales.shape != (needed := grid_of(self.shape, self.axes, fmt.sizes)):
            axes = range(len(self.shape) if len(fmt.sizes) == 1 else 0)
            fits = [axis for axis in axes if scales.shape == grid_of(self.shape, (axis,), fmt.sizes)]
            if not fits:
                raise ValueError(
                    f"scales have shape {scales.shape}, but blocks of {fmt.name!r} here need {needed}"
                )
            # The elements are compared without scales, and the report says so: a wrong axis is to be found.
            self.unfit = f"scales of shape {scales.shape} are those of axis {fits[0]}, and left out"
            self.scales = None
        given = tensor_scale_of(fmt, tensor_scale, computed=True)
        self.given = given is not None
        self.tensor_scale = None if given is None else float(given)
        if fmt.tensor_scale != "none" and given is None:
            self.tensor_scale = self._tensor_scale(fmt)
        self.told = self.shape
        self._unroll()

    def _unroll(self) -> None:
        """Reshape one long row to rows of whole blocks, so that it is read in pieces."""
        unit = math.lcm(max(SIZES), *self.format.sizes)
        if len(self.axes) != 1 or self.size != self.shape[self.axes[0]]:
            return
        if self.size <= unit or self.size % unit:
            return
        self.shape, self.axes = (self.size // unit, unit), (1,)
        self.dump, self.received = self.dump.reshaped(self.shape), self.received.reshaped(self.shape)
        if self.scales is not None:
            self.scales = self.scales.reshaped((self.size // unit, unit // self.format.sizes[0]))

    @functools.cached_property
    def _largest(self) -> Array:
        """Largest finite magnitude of all values, in their type."""
        kind = self.dump.dtype
        found = np.zeros((), f"u{kind.itemsize}" if kind.kind == "i" else kind)
        for start in range(0, self.size, _PIECE):
            part = np.abs(self.dump.read(start, start + _PIECE))
            known = part[np.isfinite(doubles(part))]
            # The most negative integer is its own magnitude, as unsigned.
            known = known.view(found.dtype) if kind.kind == "i" else known
            found = np.maximum(found, np.max(known, initial=0))
        return found.astype(kind)

    def _tensor_scale(self, fmt: BlockFormat, change: Any = None) -> float:
        """Return the scale of the whole tensor, from its largest magnitude."""
        amax = self._largest.reshape((1,) * len(fmt.sizes))
        one = encode(amax if change is None else change(amax), fmt)
        assert one.tensor_scale is not None
        return float(one.tensor_scale)

    # -- what was asked -------------------------------------------------------------------------

    def words(self) -> str:
        """Return the request in words."""
        along = " and ".join(str(axis) for axis in self.axes)
        return (
            f"{self.dump.dtype} to {self.format.name} along axis {along}, {self.format.rule} "
            f"scales{'; ' * bool(self.unfit)}{self.unfit}"
        )

    def facts(self) -> dict[str, Any]:
        """Return the request as data."""
        return {
            "operation": "blocks",
            "formats": [str(self.dump.dtype), self.format.name],
            "axes": list(self.axes),
        }

    def asked(self) -> dict[str, Any]:
        """Return what a baseline must have been asked, with the block format and the given scales."""
        given = {"scales": self.scales is not None, "tensor_scale": self.tensor_scale if self.given else None}
        return {**super().asked(), "blocks": definition(self.format), **given}

    @property
    def _step(self) -> int:
        """Rows of the first axis in a piece: whole blocks of every size, if blocks lie along it."""
        width = max(math.prod(self.shape[1:]), 1)
        unit = math.lcm(max(SIZES), *self.format.sizes) if 0 in self.axes else 1
        return max(_PIECE // width // unit, 1) * unit

    def bounds(self) -> Iterator[tuple[int, ...]]:
        """Yield the first row and the end of each piece."""
        for start in range(0, self.shape[0], self._step):
            yield start, min(start + self._step, self.shape[0])

    def piece(self, *bounds: int) -> Batch:
        """Return the values and results of rows start to stop of the first axis."""
        start, stop = bounds
        width = math.prod(self.shape[1:])
        got = words_of(self.received.rows(start, stop)).astype(np.int64)
        if self.scales is not None:
            size = dict(zip(self.axes, self.format.sizes, strict=True)).get(0, 1)
            codes = words_of(self.scales.rows(start // size, -(-stop // size))).astype(np.int64)
            got |= spread(codes, got.shape, self.axes, self.format.sizes) << SCALE_SHIFT
        return Batch(slice(start * width, stop * width), got.reshape(-1), self.dump.rows(start, stop))

    def rows_of(self, answers: Array) -> Array:
        """Return answers with scales as rows of codes: the scale's, then the elements' of its block."""
        rows = answers.reshape(-1, math.prod(self.format.sizes))
        return np.concatenate([rows[:, :1] >> SCALE_SHIFT, rows & (1 << SCALE_SHIFT) - 1], axis=1)

    def sample(self, different: Array, equal: Array) -> Batch:
        """Return the piece that has the median of the different results."""
        width, step = max(math.prod(self.shape[1:]), 1), self._step
        first = int(different[different.size // 2 :][:1].sum()) // width // step * step
        return self.piece(first, min(first + step, self.shape[0]))

    # -- answers --------------------------------------------------------------------------------

    @np.errstate(all="ignore")  # signaling NaNs and overflow, where values are changed
    def answer(self, batch: Batch, changes: Changes = ()) -> Array:
        """Return the right results, or those under changes."""
        fields = {change.field: change.value for change in changes}
        fmt, axes, tensor, values = self.format, self.axes, self.tensor_scale, batch.given
        if "profile" in fields:
            fmt = fields["profile"].block(fmt)
        whole = {field.name for field in dataclasses.fields(BlockFormat)}
        fmt = dataclasses.replace(fmt, **{key: value for key, value in fields.items() if key in whole})
        rule = {
            key: fields[key] for key in ("rounding", "saturation", "subnormals", "symmetric") if key in fields
        }
        if rule:
            fmt = dataclasses.replace(fmt, elements=dataclasses.replace(fmt.elements, **rule))
        if "scale_rounding" in fields:
            scales = dataclasses.replace(fmt.scales, rounding=fields["scale_rounding"])
            fmt = dataclasses.replace(fmt, scales=scales)
        if "nan" in fields:
            fmt = block_causes.with_nan(fmt)
        axes = fields.get("axis", axes)
        if fmt.tensor_scale == "none":
            tensor = None
        elif fmt.tensor_scale != self.format.tensor_scale or tensor is None:
            tensor = self._tensor_scale(fmt)
        tensor = fields.get("one_scale", tensor)
        if "transposed" in fields:
            columns = batch.places.reshape(values.shape) % self.shape[1]
            rows = batch.places.reshape(values.shape) // self.shape[1]
            values = self.dump.take((columns * self.shape[1] + rows).reshape(-1)).reshape(values.shape)
        if "lane" in fields:
            values = fields["lane"](values)
        if "operand" in fields:
            values = fields["operand"](values)
            own = tensor is not None and not self.given
            tensor = self._tensor_scale(fmt, fields["operand"]) if own else tensor
        if "late" in fields:
            late = {"places": batch.places, "numbers": fields["late"]}
            fields["shaping"] = functools.partial(self._earlier.divided, **late)
        made = self._encoded(values, fmt, axes, tensor, fields)
        if "made" in fields:
            made = fields["made"](made)
        if "former" in fields:
            kept, numbers = fields["former"]
            made = made.reshape(-1) & kept | self._earlier.results(batch.places, numbers) & ~kept
        return made.reshape(-1)

    @functools.cached_property
    def _earlier(self) -> Earlier:
        size, last = self.format.sizes[0], len(self.shape) - 1
        if self.axes != (last,) or self.shape[last] % size or self.scales is None:
            raise ValueError("blocks do not follow each other")
        return Earlier(self.received, self.scales, self.format)

    def _encoded(
        self, values: Array, fmt: BlockFormat, axes: tuple[int, ...], tensor: float | None, fields: Any
    ) -> Array:
        shift = fields.get("offset", 0)
        keep = tuple(slice(None) for _ in values.shape)
        if shift:  # the first block has `shift` elements of the array, after zeros
            pads = [(0, 0)] * values.ndim
            pads[axes[-1]] = (fmt.sizes[-1] - shift, 0)
            values = np.pad(values, pads)
            keep = tuple(slice(pad, None) for pad, _ in pads)
        random = fields.get("random") if fmt.elements.rounding.bits else None
        blocks: BlockArray = encode(values, fmt, axis=axes, tensor_scale=tensor, random=random)
        for name in ("scaling", "shaping"):
            blocks = fields[name](blocks, values) if name in fields else blocks
        if self.values:
            made = np.asarray(blocks.values(self.received.dtype))
            return made.view(UNSIGNED[made.dtype.itemsize])[keep].astype(np.int64)
        codes = blocks.codes.astype(np.int64)
        if self.scales is None:
            return codes[keep]
        scales = spread(blocks.scales.astype(np.int64), codes.shape, axes, fmt.sizes)
        return np.asarray((codes | scales << SCALE_SHIFT)[keep])

    def changes(self) -> Iterator[Change]:
        """Yield other rules, axes, sizes, projections, profiles and elements."""
        fmt = self.format
        for rule in RULES:
            if rule != fmt.rule:
                yield Change("rule", rule, f"scale rule {rule.name!r} instead of {fmt.rule.name!r}")
        for axis in range(len(self.shape)) if len(self.axes) == 1 else ():
            if axis != self.axes[0]:
                yield Change("axis", (axis,), f"blocks along axis {axis}, not {self.axes[0]}")
        if len(self.axes) == 2:
            yield Change("axis", self.axes[::-1], "the two axes of blocks exchanged")
        if len(self.shape) == 2 and self.shape[0] == self.shape[1] > 1:
            yield Change("transposed", True, "transposed: rows and columns exchanged")
        yield from block_causes.operands(self.dump.dtype)
        yield from block_causes.special_blocks(fmt)
        yield from (*block_causes.scales(fmt), *maxima(fmt))
        yield from block_causes.elements(fmt)
        if len(self.axes) == 1:
            for size in SIZES:
                if size != fmt.size and self.scales is None:
                    yield Change("size", size, f"blocks of {size}, not {fmt.size}")
            for shift in range(1, min(fmt.sizes[0], self.shape[self.axes[0]])) if self.scales is None else ():
                words = f"blocks shifted: the first has {shift} elements"
                yield Change("offset", shift, words, 1 if shift & (shift - 1) == 0 else 2)
        yield from self._projections()
        for name, profile in PROFILES.items():
            if fmt in profile.blocks and profile.block(fmt) != fmt:
                yield Change("profile", profile, f"what profile {name!r} does", 2)
        for other in catalog.FORMATS.values():
            if other != fmt.element and (self.values or other.width == fmt.element.width):
                yield Change("element", other, f"elements in {other.name} instead of {fmt.element.name}")
        if not self.values:
            yield from block_causes.orders(fmt, self.axes)
        if len(self.axes) == 1 and self.scales is not None and self.size:
            batch = next(self.batches())
            given = np.asarray(batch.given)
            yield from lanes(fmt, self.axes[0], given, batch.got, self.answer(batch))

    def _projections(self) -> Iterator[Change]:
        fmt = self.format
        for mode in MODES:
            if mode != fmt.elements.rounding:
                yield Change("rounding", mode, f"elements: {in_words(mode)}", 1 + (mode == TO_ODD))
            if mode != fmt.scales.rounding and fmt.rule.powers == "none":
                yield Change("scale_rounding", mode, f"scales: {in_words(mode)}", 1 + (mode == TO_ODD))
        for policy, words in SATURATIONS.items():
            if policy != str(fmt.elements.saturation):
                yield Change("saturation", policy, f"elements: {words}")
        yield Change("subnormals", "flush_results", "elements: subnormal results become zeros")
        if fmt.element.sign.value == "twos_complement":
            yield Change("symmetric", not fmt.elements.symmetric, "the most negative code is left out")
        for arithmetic in ("exact", "product", "reciprocal", "reciprocals"):
            if arithmetic != fmt.arithmetic:
                words = f"{arithmetic!r} arithmetic of quotients, not {fmt.arithmetic!r}"
                yield Change("arithmetic", arithmetic, words)
        if fmt.tensor_scale != "none":
            yield Change("one_scale", 1.0, "no scale of the whole tensor: it is 1")
            for how in ("divide", "reciprocal"):
                if how != fmt.tensor_scale:
                    yield Change("tensor_scale", how, f"the tensor's scale by {how!r}")

    # -- edits and features for rules --------------------------------------------------------------

    def edits(self) -> Iterator[Change]:
        """Yield edits of scales, and moves of elements within their blocks."""
        if self.scales is not None and not self.values:
            mask = (1 << SCALE_SHIFT) - 1
            for block, numbers in {"the block before": False, "the last block without NaN": True}.items():
                words = f"scales that are as they came of {block}, above elements that are right"
                yield Change("former", (mask, numbers), words, 2)
                words = f"elements that are as they came of {block}, under scales that are right"
                yield Change("former", (~mask, numbers), words, 2)
                yield Change("late", numbers, f"elements divided by the scale of {block}", 2)
            yield from of_scale_codes(self.format.scale)
            yield from block_edits(self.format, self._source)
            for field, what in {"rounding": "elements", "scale_rounding": "scales"}.items():
                if field == "rounding" or self.format.rule.powers == "none":
                    yield from (Change(field, mode, f"{what}: {mode}", 2) for mode in other_modes())
            source = catalog.carrier(self.dump.dtype)
            if block_causes.given_scales(self.format) and len(self.axes) == 1 and source is not None:
                held = self._source
                if held is None or held.exponent_bits != source.exponent_bits:
                    held = source
                yield from trees(self.format.sizes[0], source, held.trailing_bits)
        if not self.values and len(self.axes) == 1:
            axis, size, masks = self.axes[0], self.format.sizes[0], {"elements": (1 << SCALE_SHIFT) - 1}
            if has_fields(self.target):
                masks["signs of elements"] = self.target.sign_code
            for words, to in parts_moved(size):
                for what, mask in masks.items():
                    moved = functools.partial(block_causes.moved, axis=axis, to=to, mask=mask)
                    yield Change("made", moved, f"the {what} of each block {words}", 2)

    @property
    def _source(self) -> Format | None:
        """Narrowest usual format that holds the values of the first piece."""
        return holding(np.asarray(self.dump.rows(0, min(self._step, self.shape[0]))))

    def edited(self, answers: Array, change: Change) -> Array:
        """Return answers with the codes of elements or of scales edited."""
        if self.values:
            return super().edited(answers, change)
        scales, elements = answers >> SCALE_SHIFT, answers & (1 << SCALE_SHIFT) - 1
        if change.field == "scale_code":
            return np.asarray(change.value(scales) << SCALE_SHIFT | elements)
        return np.asarray(scales << SCALE_SHIFT | change.value(elements, self.target))

    def own_features(self, batch: Batch, want: Array) -> Iterator[Feature]:
        """Yield features of the value, of its block's largest magnitude, and of their quotient."""
        values, scales = np.asarray(batch.given), None if self.scales is None else want >> SCALE_SHIFT
        yield from block_features.of_one_value(values)
        if not self.values and len(self.axes) == 1 and values.shape[self.axes[0]] % self.format.sizes[0] == 0:
            yield from block_features.of_a_block(values, self.format, self.axes[0])
            if scales is not None:
                tensor = 1.0 if self.tensor_scale is None else self.tensor_scale
                yield from block_features.of_a_scale(values, self.format, scales, tensor, self.codes(want))
                yield from block_features.of_rounded_scale(
                    values, self.format, self.axes, scales, self.tensor_scale
                )

    # -- counts and reports ---------------------------------------------------------------------

    def independent(self, places: Array) -> int:
        """Return how many blocks these elements belong to."""
        at = list(np.unravel_index(places, self.shape))
        for axis, size in zip(self.axes, self.format.sizes, strict=True):
            at[axis] = at[axis] // size
        return count_columns(np.stack(at))

    def nans(self, answers: Array) -> npt.NDArray[np.bool_]:
        """Return which answers are NaN; values have no codes here."""
        if not self.values:
            return super().nans(answers)
        dtype = self.received.dtype
        return is_nan(answers.astype(UNSIGNED[dtype.itemsize]), carrier_of(dtype))

    def codes(self, answers: Array) -> Array:
        """Return codes of the elements, -1 for values, which have none without their scales."""
        wide = answers.astype(np.int64)
        if self.values:
            return np.full(wide.shape, -1)
        codes = wide & (1 << SCALE_SHIFT) - 1
        return np.where(codes < 1 << self.target.width, codes, -1)

    def apart(self, got: Array, want: Array) -> tuple[Array, Array]:
        """Return by how many codes elements exceed the right ones, where they have the same scale."""
        far, finite = super().apart(got, want)
        return far, finite & (got >> SCALE_SHIFT == want >> SCALE_SHIFT)

    def situations(self, batch: Batch, where: Array, want: Array) -> npt.NDArray[np.uint8]:
        """Return the index in `_UNDER` of the situation of each mismatch."""
        if self.scales is None:
            return np.full(int(np.count_nonzero(where)), 2 + self.values, np.uint8)
        return np.asarray(batch.got[where] >> SCALE_SHIFT != want >> SCALE_SHIFT, np.uint8)

    def numbers(self, batch: Batch, where: Array, want: Array) -> npt.NDArray[np.float64]:
        """Return the values of the results that `where` marks."""
        return doubles(batch.given.reshape(-1)[where])

    def random(self, batch: Batch) -> tuple[Array, Array, Array] | None:
        """Return each element's neighbours, and how far it lies from the lower to the upper in magnitude."""
        down, up = (
            self.answer(batch, (Change("rounding", Projection(rounding=name).rounding, ""),))
            for name in ("toward_zero", "away_from_zero")
        )
        ends = [self._values(answers, batch) for answers in (down, up)]
        with np.errstate(all="ignore"):
            far = (doubles(batch.given.reshape(-1)) - ends[0]) / (ends[1] - ends[0])
        return down, up, far

    def _values(self, answers: Array, batch: Batch) -> npt.NDArray[np.float64]:
        if self.values:
            dtype = self.received.dtype
            return as_doubles(answers.astype(UNSIGNED[dtype.itemsize]), carrier_of(dtype))
        blocks: BlockArray = encode(batch.given, self.format, axis=self.axes, tensor_scale=self.tensor_scale)
        codes = (answers & (1 << SCALE_SHIFT) - 1).astype(blocks.codes.dtype).reshape(blocks.shape)
        return np.asarray(dataclasses.replace(blocks, codes=codes).values(np.float64)).reshape(-1)

    def difference(self, batch: Batch, place: int, want: int) -> Difference:
        """Return a mismatch as a report shows it."""
        got, value = int(batch.got[place]), batch.given.reshape(-1)[place]
        assert isinstance(batch.index, slice)
        at = batch.index.start + place
        said = [("value", f"{float(value)!r}")]
        data: dict[str, Any] = {"index": at, "at": [int(part) for part in np.unravel_index(at, self.told)]}
        if self.values:
            return self.differing(said, data | {"operands": [repr(float(value))]}, got, want, "values")
        codes = [code & (1 << SCALE_SHIFT) - 1 for code in (got, want)]
        said += [
            (name, shown_code(code, self.target)) for name, code in zip(("got", "want"), codes, strict=True)
        ]
        kind, distance = "elements", None
        scales = [got >> SCALE_SHIFT, want >> SCALE_SHIFT]
        if self.scales is not None:
            same = scales[0] == scales[1]
            kind = _UNDER[not same]
            names = ("scale, got", "scale, want") if not same else ("scale",)
            said += [
                (name, shown_code(code, self.format.scale)) for name, code in zip(names, scales, strict=False)
            ]
        if scales[0] == scales[1] and codes[0] < 1 << self.target.width:
            distance = int(distances(np.array(codes[:1]), np.array(codes[1:]), self.target)[0])
        data |= {
            "operands": [repr(float(value))],
            "got": f"{codes[0]:x}",
            "want": hex_of(codes[1], self.target),
            "scale_got": hex_of(scales[0], self.format.scale) if self.scales is not None else None,
            "scale_want": hex_of(scales[1], self.format.scale) if self.scales is not None else None,
            "situation": kind,
            "ulps": distance,
        }
        return Difference(tuple(said), kind, distance, data)
