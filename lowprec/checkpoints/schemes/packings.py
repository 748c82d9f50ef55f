"""Packings: how the codes of a weight lie in the bytes of a tensor, and how these are made.

A packing that codes are written in has `stored` and `packed`; every packing has `shape` and `codes`.
Integers with zero points, in words of 32 bits, are in `words`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lowprec.checkpoints.schemes.gguf_blocks import Blocks, split_blocks
from lowprec.spec import catalog
from lowprec.spec.format import Format

if TYPE_CHECKING:
    from lowprec.checkpoints.weights import Weight

__all__ = ["GGUF_NVFP4", "GROUPS", "HIGH_LOW", "LONG_ROW", "LOW_FIRST", "WHOLE", "GgufPacking", "Packing"]

Array = npt.NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class Packing:
    """Layout of codes in a tensor; one that nothing is written in has neither `stored` nor `packed`.

    Parameters
    ----------
    axes : int
        The fewest axes of a weight.
    is_paired : bool
        Whether two neighbouring codes share a byte.
    """

    axes: int = 2
    is_paired: bool = False

    def shape(self, stored: tuple[int, ...], element: str) -> tuple[int, ...]:
        """Return the shape of the codes that a tensor of this shape holds; of words `resolved` tells it."""
        return stored

    def stored(self, shape: tuple[int, ...], element: Format) -> tuple[int, ...]:
        """Return the shape of the tensor of codes of this shape."""
        raise NotImplementedError

    def packed(self, codes: Array, element: Format) -> Array:
        """Return what is stored of whole rows of codes."""
        raise NotImplementedError

    def codes(self, weight: Weight, start: int, stop: int | None) -> Array:
        """Return the codes of rows start to stop of a weight, one for each element, as unsigned integers."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class _Whole(Packing):
    """Codes as they are, one in each element of the tensor."""

    def stored(self, shape: tuple[int, ...], element: Format) -> tuple[int, ...]:
        return shape

    def packed(self, codes: Array, element: Format) -> Array:
        return codes

    def codes(self, weight: Weight, start: int, stop: int | None) -> Array:
        data = weight.codes.read(start, stop)
        return data.view(f"u{data.dtype.itemsize}")


@dataclass(frozen=True, kw_only=True)
class _LowFirst(Packing):
    """Codes without gaps, the first in the lowest bits."""

    def shape(self, stored: tuple[int, ...], element: str) -> tuple[int, ...]:
        width = catalog.format(element).width
        return (*stored[:-1], 8 * stored[-1] // width) if stored else stored

    def stored(self, shape: tuple[int, ...], element: Format) -> tuple[int, ...]:
        return (*shape[:-1], shape[-1] * element.width // 8)

    def packed(self, codes: Array, element: Format) -> Array:
        from lowprec.arrays.blocks.packing import pack

        return pack(codes, element)

    def codes(self, weight: Weight, start: int, stop: int | None) -> Array:
        return self.unpacked(weight.codes.read(start, stop), weight.format)

    def unpacked(self, data: Array, element: Format) -> Array:
        from lowprec.arrays.blocks.packing import unpack

        return unpack(data, element)


@dataclass(frozen=True, kw_only=True)
class _HighLow(_LowFirst):
    """Two codes in a byte, the first in the high half."""

    def packed(self, codes: Array, element: Format) -> Array:
        pairs = super().packed(codes, element)
        return pairs << np.uint8(4) | pairs >> np.uint8(4)

    def unpacked(self, data: Array, element: Format) -> Array:
        pairs = np.stack([data >> np.uint8(4), data & np.uint8(15)], axis=-1)
        return pairs.reshape(*data.shape[:-1], 2 * data.shape[-1])


@dataclass(frozen=True, kw_only=True)
class _LongRow(Packing):
    """All codes of a weight in one row, two in a byte, the first in the high half; rows may share a byte."""

    def codes(self, weight: Weight, start: int, stop: int | None) -> Array:
        width, rows = math.prod(weight.shape[1:]), weight.shape[0]
        stop = rows if stop is None else min(stop, rows)
        data = weight.codes.read(start * width // 2, -(-stop * width // 2)).reshape(1, -1)
        first = start * width % 2
        found = HIGH_LOW.unpacked(data, weight.format)[0, first : first + (stop - start) * width]
        return found.reshape(stop - start, *weight.shape[1:])


@dataclass(frozen=True, kw_only=True)
class _Groups(_LowFirst):
    """Codes of 4 bits in groups of 16 bytes, along an axis more; the first of two in the low half."""

    def shape(self, stored: tuple[int, ...], element: str) -> tuple[int, ...]:
        return (*stored[:-2], 32 * stored[-2]) if len(stored) > 1 else stored

    def stored(self, shape: tuple[int, ...], element: Format) -> tuple[int, ...]:
        return (*shape[:-1], shape[-1] // 32, 16)

    def packed(self, codes: Array, element: Format) -> Array:
        return super().packed(codes, element).reshape(*codes.shape[:-1], -1, 16)

    def unpacked(self, data: Array, element: Format) -> Array:
        return super().unpacked(data.reshape(*data.shape[:-2], -1), element)


@dataclass(frozen=True, kw_only=True)
class GgufPacking(Packing):
    """Blocks of GGUF of a type, in lower case, which hold scales too; see `gguf_blocks`."""

    type: str

    def blocks(self, weight: Weight, start: int, stop: int | None) -> Blocks:
        """Return codes, scales and offsets of rows start to stop of a weight."""
        return split_blocks(weight.codes.read(start, stop), self.type)

    def codes(self, weight: Weight, start: int, stop: int | None) -> Array:
        """Return the codes of rows start to stop of a weight."""
        return self.blocks(weight, start, stop).codes


WHOLE = _Whole()
LOW_FIRST = _LowFirst(is_paired=True)
HIGH_LOW = _HighLow(is_paired=True)
LONG_ROW = _LongRow()
GROUPS = _Groups(axes=3, is_paired=True)
GGUF_NVFP4 = GgufPacking(type="nvfp4")
