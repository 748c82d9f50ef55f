"""Quantised weights of checkpoints as dumps: their values, or the codes of their elements and scales."""

from __future__ import annotations

import itertools
import math
from typing import Any, Literal, NamedTuple

import numpy as np

from lowprec.checkpoints import decoding
from lowprec.checkpoints.container import CheckpointError
from lowprec.checkpoints.schemes import bitsandbytes
from lowprec.checkpoints.weights import Weight
from lowprec.spec import catalog
from lowprec.spec.block import BlockFormat
from lowprec.spec.format import Format
from lowprec.verify.dumps.base import Array, Dump, DumpError, Held

__all__ = ["Answer", "WeightDump"]


class Answer(NamedTuple):
    """A weight as an answer to `compare`: what it is in, and the keywords that say the same."""

    outputs: Dump
    to: Format | BlockFormat | str | None
    scales: Dump | None = None
    scale: float | Dump | None = None
    axis: int | tuple[int, ...] | None = None
    tensor_scale: float | None = None


class WeightDump(Dump):
    """A quantised weight: the values that its scheme gives it in float32, or codes, unpacked, one for each.

    Parameters
    ----------
    weight : Weight
    part : {"values", "codes", "scales"}
    name : str

    Raises
    ------
    CheckpointError
        A weight whose values cannot be known, as scales are missing or do not fit.
    """

    def __init__(self, weight: Weight, part: Literal["values", "codes", "scales"] | str, name: str) -> None:
        decoding.check(weight)
        self.name, self._weight, self._part = name, weight, part
        whole = weight.grid if part == "scales" else weight.shape
        self.shape = (*whole[:-2], whole[-1], whole[-2]) if weight.scheme.transposed else whole
        self.read_as = self._told(part)
        # Rows are decoded many at a time: the last ones are kept, as the next piece is mostly of them.
        self._ranges = list(decoding.ranges(weight))
        self._kept: tuple[int, Array] | None = None
        first = next(decoding.ranges(weight, 1), (0, 0))
        self.dtype = np.dtype(np.float32) if part == "values" else self._rows(*first).dtype

    def _told(self, what: str) -> str:
        blocks = self._weight.blocks
        of = f"in blocks of {blocks}" if blocks[0].isdigit() else f"with a scale for each {blocks}"
        if blocks == "tensor":
            of = "with one scale"
        return f"{self}: {what} of a weight of {self._weight.scheme.name}, {of}"

    def _rows(self, start: int, stop: int) -> Array:
        weight = self._weight
        if self._part == "values":
            return decoding.values_of(weight, start, stop)
        found = (decoding.codes_of if self._part == "codes" else decoding.stored_scales)(weight, start, stop)
        found = found.view(f"u{found.dtype.itemsize}")
        return found.swapaxes(-1, -2) if weight.scheme.transposed else found

    def _first(self, place: int) -> int:
        """Return how many elements lie before a range of rows."""
        if place == len(self._ranges):
            return self.size
        start = self._ranges[place][0]
        size = self._weight.sizes[0] if self._part == "scales" else 1
        return -(-start // size) * math.prod(self.shape[1:])

    def _range(self, place: int) -> Array:
        if self._kept is None or self._kept[0] != place:
            self._kept = place, np.ascontiguousarray(self._rows(*self._ranges[place])).reshape(-1)
        return self._kept[1]

    def read(self, start: int, stop: int) -> Array:
        """Return elements start to stop, in one dimension."""
        firsts = [self._first(place) for place in range(len(self._ranges) + 1)]
        stop = min(stop, self.size)
        parts = [
            self._range(place)[max(start - first, 0) : stop - first]
            for place, (first, end) in enumerate(itertools.pairwise(firsts))
            if first < stop and start < end
        ]
        return np.concatenate([np.empty(0, self.dtype), *parts])

    def take(self, index: Array) -> Array:
        """Return the elements at these places."""
        firsts = np.array([self._first(place) for place in range(len(self._ranges) + 1)])
        where = np.searchsorted(firsts, index, "right") - 1
        found = np.empty(index.shape, self.dtype)
        for place in np.unique(where):
            chosen = where == place
            found[chosen] = self._range(place)[index[chosen] - firsts[place]]
        return found

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_kept": None}

    def answer(self, to: Format | BlockFormat | str | None) -> Answer:
        """Return codes and scales, where the weight is in the format that is asked for; else the values.

        Without a format that is asked for, the weight's own.
        """
        weight = self._weight
        fmt: Format | BlockFormat | None = (
            None if bitsandbytes.is_nested(weight.scheme) else decoding.block_format_of(weight, made=True)
        )
        try:
            over = None if weight.tensor is None else decoding.tensor_scale(weight)
        except CheckpointError as error:
            raise DumpError(str(error)) from None
        if weight.over != 1 and self._part == "values" and over is not None and over.size == 1:
            return self._of_copies(to)
        is_codes = self._part == "values" and (over is None or over.size == 1) and weight.zeros is None
        if is_codes and isinstance(fmt, BlockFormat) and _is_asked(fmt, to):
            codes, scales = (WeightDump(weight, part, self.name) for part in ("codes", "scales"))
            codes.read_as = self._told("codes and scales")
            turned = weight.scheme.transposed
            axis = len(self.shape) - 2 if turned else decoding.axes_of(weight, fmt)
            number: float | None = None
            if fmt.tensor_scale != "none":
                stored = np.float32(1 if over is None else over.reshape(())[()])
                number = float(
                    np.float32(1) / stored if weight.scheme.divides else stored / np.float32(weight.over)
                )
            return Answer(codes, fmt if to is None else to, scales, None, axis, number)
        is_codes = is_codes and not (weight.scheme.by_scale and weight.rounded)
        if is_codes and over is None and fmt is None and weight.scheme.block is None and weight.sizes:
            element = weight.format
            if to is None or (not catalog.is_block(to) and catalog.format(to) == element):
                units = decoding.scale_values(weight)
                scale = float(units.reshape(-1)[0]) if units.size == 1 else Held(units, f"scales of {self}")
                codes = WeightDump(weight, "codes", self.name)
                codes.read_as = self._told("codes and scales")
                return Answer(codes, element, None, scale)
        return Answer(self, to)

    def _of_copies(self, to: Format | BlockFormat | str | None) -> Answer:
        """Return codes and scales of Transformer Engine's NVFP4, whose scales of 16x16 lie 16 times."""
        weight, stored = self._weight, decoding.stored_scales(self._weight)
        stored = stored.view(np.uint8)
        square = len(stored) % 16 == 0 and bool((stored == np.repeat(stored[::16], 16, axis=0)).all())
        fmt = decoding.engine_format("nvfp4_2d" if square else "nvfp4")
        known = weight.over == 6 * 448 and not weight.scheme.transposed
        if not known or not (to is None or _is_asked(fmt, to)):
            return Answer(self, to)
        codes = WeightDump(weight, "codes", self.name)
        codes.read_as = self._told("codes and scales")
        return Answer(codes, fmt, Held(stored[::16] if square else stored, f"scales of {self}"))


def _is_asked(fmt: BlockFormat, to: Format | BlockFormat | str | None) -> bool:
    if to is None:
        return True
    if not catalog.is_block(to):
        return False
    asked = catalog.block_format(to)
    return (asked.element, asked.sizes, asked.scale, asked.tensor_scale) == (
        fmt.element, fmt.sizes, fmt.scale, fmt.tensor_scale,
    )  # fmt: skip
