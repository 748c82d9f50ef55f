"""Results and scales that came in the block before each, which registers may keep."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from lowprec.arrays.blocks.block import BlockArray
from lowprec.spec.block import BlockFormat
from lowprec.verify.codes.values import words_of
from lowprec.verify.dumps.files import Dump
from lowprec.verify.questions.blocks.block_causes import SCALE_SHIFT, under, units_of
from lowprec.verify.questions.question import Array

__all__ = ["Earlier"]

#: Blocks that are looked through for one whose scale is no NaN, before those of a batch.
_BACK = 64


@dataclass
class Earlier:
    """Results in blocks that follow each other along the last axis; before the first comes itself."""

    elements: Dump
    scales: Dump
    format: BlockFormat

    def results(self, places: Array, numbers: bool) -> Array:
        """Return what came in the block before those of whole blocks of places, elements below scales.

        With `numbers` it is the last block whose scale is no NaN.
        """
        at, size = self._blocks(places, numbers), math.prod(self.format.sizes)
        elements = words_of(self.elements.take((at[:, None] * size + np.arange(size)).reshape(-1)))
        scales = words_of(self.scales.take(at)).astype(np.int64)
        return elements.astype(np.int64) | np.repeat(scales, size) << SCALE_SHIFT

    def divided(self, blocks: BlockArray, values: Array, places: Array, numbers: bool) -> BlockArray:
        """Return the blocks with elements under the scales before theirs, under the same scales."""
        codes = words_of(self.scales.take(self._blocks(places, numbers))).reshape(blocks.scales.shape)
        return replace(under(blocks, values, codes.astype(np.int64)), scales=blocks.scales)

    def _blocks(self, places: Array, numbers: bool) -> Array:
        """Return the number of the block before each."""
        size = math.prod(self.format.sizes)
        before = np.maximum(places[::size] // size - 1, 0)
        if not numbers:
            return np.asarray(before)
        first = max(int(before.min()) - _BACK, 0)
        scales = words_of(self.scales.read(first, int(before.max()) + 1))
        nan = np.isnan(units_of(scales, self.format))
        known = np.maximum.accumulate(np.where(nan, 0, np.arange(nan.size)))
        return np.asarray(first + known[before - first])
