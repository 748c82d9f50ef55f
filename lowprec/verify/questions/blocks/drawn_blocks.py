"""Blocks of lines whose elements are rounded stochastically, as a question of comparison."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.spec.block import BlockFormat
from lowprec.spec.projection import Projection
from lowprec.verify.dumps.files import Dump
from lowprec.verify.questions.blocks import block_features
from lowprec.verify.questions.blocks.blocks import BlockQuestion
from lowprec.verify.questions.blocks.tensor_scales import TensorsQuestion
from lowprec.verify.questions.elements.stochastic_edits import of_integers
from lowprec.verify.questions.features import Feature
from lowprec.verify.questions.question import Array, Batch, Change, Changes

__all__ = ["DrawnQuestion"]


class DrawnQuestion(TensorsQuestion):
    """A block in each row, a scale of the tensor for each row, and a random integer for each element."""

    def __init__(
        self, values: Dump, fmt: BlockFormat, got: Dump, tensors: Array, integers: Array, **options: Any
    ) -> None:
        super().__init__(values, fmt, got, tensors, **options)
        self.integers = integers.reshape(-1)

    def answer(self, batch: Batch, changes: Changes = ()) -> Array:
        """Return what the results must be, or would be, by the random integers of their lines."""
        made, fields = np.empty(batch.got.size, np.int64), {change.field: change.value for change in changes}
        integers = fields.get("integers", _as_given)(self.integers.take, batch.places)
        for one, part, here in self._parts(batch, fields.get("tensors", np.asarray)):
            given = Change("random", integers[here].reshape(part.given.shape), "")
            made[here] = BlockQuestion.answer(one, part, (*changes, given))
        return made

    def changes(self) -> Iterator[Change]:
        """Yield other projections, and random integers that are read otherwise."""
        yield from self._projections()

    def edits(self) -> Iterator[Change]:
        """Yield random integers that are taken otherwise than they are given."""
        yield from of_integers(self.format.elements.rounding.bits)

    def own_features(self, batch: Batch, want: Array) -> Iterator[Feature]:
        """Yield features of the values."""
        yield from block_features.of_one_value(np.asarray(batch.given))

    def _values(self, answers: Array, batch: Batch) -> npt.NDArray[np.float64]:
        nearest = copy.copy(self)
        nearest.format = dataclasses.replace(self.format, elements=Projection())
        return TensorsQuestion._values(nearest, answers, batch)


def _as_given(take: Any, places: Array) -> Array:
    return np.asarray(take(places))
