"""Blocks of lines, each line with its own scale of the tensor, as a question of comparison."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.spec.block import BlockFormat
from lowprec.verify.dumps.files import Dump
from lowprec.verify.questions.blocks.blocks import BlockQuestion
from lowprec.verify.questions.features import Feature
from lowprec.verify.questions.question import Array, Batch, Change, Changes

__all__ = ["TensorsQuestion"]


class TensorsQuestion(BlockQuestion):
    """A block in each row, and a scale of the tensor for each row."""

    def __init__(self, values: Dump, fmt: BlockFormat, got: Dump, tensors: Array, **options: Any) -> None:
        self.has_tensors = fmt.tensor_scale != "none"
        super().__init__(values, fmt, got, tensor_scale=1.0 if self.has_tensors else None, **options)
        self.tensors = tensors

    def _parts(
        self, batch: Batch, change: Callable[[Array], Array] = np.asarray
    ) -> Iterator[tuple[BlockQuestion, Batch, Array]]:
        """Yield the question of each scale of the tensor, its rows of a batch, and where its results are."""
        places, width = batch.places, self.shape[1]
        of_rows = change(self.tensors)[places[::width] // width]
        for scale in np.unique(of_rows):
            rows = of_rows == scale
            here = np.repeat(rows, width)
            one = copy.copy(self)
            one.tensor_scale = float(scale) if self.has_tensors else None
            yield one, Batch(places[here], batch.got[here], batch.given[rows]), here

    def answer(self, batch: Batch, changes: Changes = ()) -> Array:
        """Return what the results must be, or would be."""
        made, fields = np.empty(batch.got.size, np.int64), {change.field: change.value for change in changes}
        for one, part, here in self._parts(batch, fields.get("tensors", np.asarray)):
            made[here] = BlockQuestion.answer(one, part, changes)
        return made

    def changes(self) -> Iterator[Change]:
        """Yield those of blocks, and other scales of tensors."""
        yield from super().changes()
        yield Change("tensors", _late, "the tensor's scale of the line before")
        yield Change("tensors", _power, "the tensor's scale without its trailing bits, a power of two")

    def own_features(self, batch: Batch, want: Array) -> Iterator[Feature]:
        """Yield features of the values, of their blocks, and of quotients."""
        found: dict[str, Feature] = {}
        for one, part, here in self._parts(batch):
            for feature in BlockQuestion.own_features(one, part, want[here]):
                empty = np.empty(batch.got.size, feature.values.dtype)
                whole = found.setdefault(feature.name, Feature(feature.name, empty, feature.labels))
                whole.values[here] = feature.values
        yield from found.values()

    def _values(self, answers: Array, batch: Batch) -> npt.NDArray[np.float64]:
        made = np.empty(batch.got.size)
        for one, part, here in self._parts(batch):
            made[here] = BlockQuestion._values(one, answers[here], part)
        return made


def _late(tensors: Array) -> Array:
    return np.concatenate([tensors[:1], tensors[:-1]])


def _power(tensors: Array) -> Array:
    return np.asarray(np.ldexp(1.0, np.frexp(tensors)[1] - 1))
