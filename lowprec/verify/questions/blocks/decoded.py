"""Values of blocks, element by element, as a question of comparison."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from lowprec.arrays.checks import code_dtype
from lowprec.spec import catalog
from lowprec.spec.block import BlockFormat
from lowprec.spec.format import Format
from lowprec.verify.codes.values import as_doubles
from lowprec.verify.dumps.files import Dump, Held
from lowprec.verify.questions.definitions import definition
from lowprec.verify.questions.dots.edits import code_edits, subnormals_read
from lowprec.verify.questions.dots.scale_edits import single_scale_edits
from lowprec.verify.questions.elements.elements import ElementQuestion
from lowprec.verify.questions.features import Feature, has_fields, of_codes, of_values
from lowprec.verify.questions.question import Array, Batch, Change
from lowprec.verify.questions.result_edits import parts_moved

__all__ = ["DecodedQuestion"]

OnCodes = tuple[str, list[Array], tuple[Format, ...]]


class DecodedQuestion(ElementQuestion):
    """Values that blocks stand for, rounded to a format; blocks have one dimension."""

    numbered = "element"

    def __init__(
        self,
        values: Array,
        parts: tuple[Array, Array, Array],
        fmt: BlockFormat,
        target: Format,
        got: Dump,
        **options: Any,
    ) -> None:
        """Take exact `values`, in binary64, and the `parts` of blocks.

        Codes of elements, and of each block the code of its scale and the scale of its tensor, 1 without one.
        """
        self.elements, self.of_blocks, self.tensors = parts
        self.format = fmt
        held = Held(np.ascontiguousarray(values).view(np.uint64), "values")
        super().__init__(
            "convert", [held], (catalog.BINARY64, target), options.pop("projection"), got, **options
        )

    def words(self) -> str:
        """Return what was asked, in words."""
        return f"{self.format.name} to {self.target.name}, {self.projection}"

    def asked(self) -> dict[str, Any]:
        """Return what a baseline must have been asked, with the definition of the block format."""
        return {**super().asked(), "blocks": definition(self.format)}

    def edits(self) -> Iterator[Change]:
        """Yield edits of elements and of scales, moves of elements, and edits of any conversion."""
        size, element = self.format.sizes[0], self.format.element
        of_scales = single_scale_edits(self.format.scale)
        low = has_fields(element) and element.subnormals
        read = subnormals_read(2.0**element.emin, zero=False) if low else {}
        for number, changes in enumerate((code_edits(element), read, of_scales)):
            what, which = "scales" if number == 2 else "the element", " if it is subnormal" * (number == 1)
            for words, change in changes.items():
                edited = functools.partial(self._edited, number=number, change=change)
                yield Change("operation", edited, f"{what} {words}{which}", 2)
        before = functools.partial(self._taken, to=None)
        yield Change("operation", before, "scales of the block before", 2)
        for words, to in parts_moved(size):
            taken = functools.partial(self._taken, to=to)
            yield Change("operation", taken, f"the elements of each block {words}", 2)
        yield from super().edits()

    def _edited(
        self,
        operands: list[Array],
        sources: tuple[Format, ...],
        places: Array,
        number: int,
        change: Callable[[Array], Array],
    ) -> OnCodes:
        """Return the values of edited codes (0) or values (1) of elements, or of edited scales (2)."""
        codes, fmt = self.elements[places], self.format.element
        own = as_doubles(codes, fmt), self._units(places)
        if number == 0:
            codes = np.asarray(change(codes.astype(np.int64))).astype(code_dtype(fmt))
        made = as_doubles(codes, fmt), own[1]
        with np.errstate(all="ignore"):
            made = change(made[0]) if number == 1 else made[0], change(made[1]) if number == 2 else made[1]
        return self._values(operands, places, own, made)

    def _values(
        self, operands: list[Array], places: Array, own: tuple[Array, Array], made: tuple[Array, Array]
    ) -> OnCodes:
        """Return the values of other elements and scales; those of their own as they are."""
        values, tensors = operands[0].view(np.float64), self.tensors[places // self.format.sizes[0]]
        with np.errstate(all="ignore"):
            before, after = own[0] * own[1], made[0] * made[1]
            found = np.where(
                (before == after) | (np.isnan(after) & np.isnan(values)), values, after * tensors
            )
        return "convert", [found.view(np.uint64)], (catalog.BINARY64,)

    def _taken(
        self, operands: list[Array], sources: tuple[Format, ...], places: Array, to: Array | None
    ) -> OnCodes:
        """Return the values with elements of other lanes, or without `to` under the scales before."""
        size, fmt = self.format.sizes[0], self.format.element
        own = as_doubles(self.elements[places], fmt), self._units(places)
        if to is None:
            return self._values(operands, places, own, (own[0], self._units(np.maximum(places - size, 0))))
        moved = self.elements[places // size * size + to[places % size]]
        return self._values(operands, places, own, (as_doubles(moved, fmt), own[1]))

    def _units(self, places: Array) -> Array:
        return as_doubles(self.of_blocks[places // self.format.sizes[0]], self.format.scale)

    def own_features(self, batch: Batch, want: Array) -> Iterator[Feature]:
        """Yield features of elements and scales, and those of any conversion."""
        places, size = batch.places, self.format.sizes[0]
        codes = self.of_blocks[places // size].astype(np.int64)
        yield Feature("the code of the scale", codes)
        yield from of_codes("the element", self.elements[places], self.format.element)
        if not has_fields(self.format.element):
            yield from of_values("the element", as_doubles(self.elements[places], self.format.element))
        yield from of_values("the scale", self._units(places))
        yield Feature("the lane", places % size)
        yield from super().own_features(batch, want)

    def independent(self, places: Array) -> int:
        """Return how many blocks these results belong to."""
        return int(np.unique(places // self.format.sizes[0]).size)
