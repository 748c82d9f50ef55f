"""Blocks of GGUF: codes, scales and offsets out of the bytes of each type.

A value is code * scale + offset. Blocks of K types have 256 elements in groups of 16 or 32, whose scale is a
whole number of 4, 6 or 8 bits times a binary16 number of the block; offsets are made so too. Such a product
is a float32 number.

Source: [GGML] ggml-common.h, ggml-quants.c.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["Blocks", "split_blocks"]

Array = npt.NDArray[Any]


class Blocks(NamedTuple):
    """Contents of rows of blocks.

    Parameters
    ----------
    codes : array, shape (..., n)
        Of integers in two's complement where their format has a sign.
    scales : array, shape (..., n / size)
        Codes of the scales' format, or float32 numbers.
    offsets : array of float32, optional
        Of the shape of the scales.
    """

    codes: Array
    scales: Array
    offsets: Array | None = None


def split_blocks(data: Array, packing: str) -> Blocks:
    """Return the codes of elements and of scales that rows of GGUF's blocks hold, and offsets.

    >>> row = np.zeros((1, 17), np.uint8)
    >>> row[0, :2] = 127, 0x21                             # element 0 in the low half, 16 in the high one
    >>> codes, scales, _ = split_blocks(row, "mxfp4")
    >>> codes[0, [0, 16]], scales
    (array([1, 2], dtype=uint8), array([[127]], dtype=uint8))

    Parameters
    ----------
    data : array of uint8, shape (..., bytes of a row)
    packing : str
        A type in lower case, such as "q4_k".
    """
    size, split = _TYPES[packing]
    *rows, width = data.shape
    found = split(data.reshape(-1, size))
    parts = (None if part is None else part.reshape(*rows, width // size * part.shape[-1]) for part in found)
    return Blocks(*parts)  # type: ignore[arg-type]


# Each function takes blocks of bytes, shape (blocks, bytes), and gives arrays of the shape (blocks, ...).


def _mxfp4(blocks: Array) -> Blocks:
    return Blocks(_halves(blocks[:, 1:]), blocks[:, :1])


def _nvfp4(blocks: Array) -> Blocks:
    groups = _halves(blocks[:, 4:].reshape(-1, 4, 8))
    return Blocks(groups.reshape(-1, 64), blocks[:, :4])


def _of_32(
    read: Callable[[Array], Array], flip: int = 0, has_offsets: bool = False
) -> Callable[[Array], Blocks]:
    """Return what splits blocks of a scale in binary16, perhaps an offset, and codes that `read` finds.

    The bits of codes that `flip` has are stored the other way round.
    """

    def split(blocks: Array) -> Blocks:
        codes = read(blocks[:, 4 if has_offsets else 2 :]) ^ np.uint8(flip)
        return Blocks(codes, _words(blocks[:, :2]), _halfs(blocks[:, 2:4]) if has_offsets else None)

    return split


def _q2_k(blocks: Array) -> Blocks:
    both = blocks[:, :16]
    scales = _halfs(blocks[:, 80:82]) * (both & np.uint8(15)).astype(np.float32)
    offsets = _halfs(blocks[:, 82:84]) * (both >> np.uint8(4)).astype(np.float32)
    return Blocks(_quarters(blocks[:, 16:80]), scales, -offsets)


def _q3_k(blocks: Array) -> Blocks:
    tops = _bits(blocks[:, :32]).reshape(-1, 256)  # 1 where 4 is not subtracted
    codes = (_quarters(blocks[:, 32:96]) | tops << np.uint8(2)) ^ np.uint8(4)
    packed = blocks[:, 96:108]
    low = np.concatenate([packed[:, :8] & np.uint8(15), packed[:, :8] >> np.uint8(4)], axis=1)
    high = _quarters(packed[:, 8:], 4)
    whole = (low | high << np.uint8(4)).astype(np.float32) - np.float32(32)
    return Blocks(codes, _halfs(blocks[:, 108:]) * whole)


def _q4_k(blocks: Array) -> Blocks:
    codes = _halves(blocks[:, 16:].reshape(-1, 4, 32)).reshape(-1, 256)
    return Blocks(codes, *_sixes(blocks))


def _q5_k(blocks: Array) -> Blocks:
    low = _halves(blocks[:, 48:].reshape(-1, 4, 32)).reshape(-1, 256)
    tops = _bits(blocks[:, 16:48]).reshape(-1, 256)
    return Blocks(low | tops << np.uint8(4), *_sixes(blocks))


def _q6_k(blocks: Array) -> Blocks:
    low = _halves(blocks[:, :128].reshape(-1, 2, 64)).reshape(-1, 256)
    high = _quarters(blocks[:, 128:192])
    scales = _halfs(blocks[:, 208:]) * blocks[:, 192:208].view(np.int8).astype(np.float32)
    return Blocks((low | high << np.uint8(4)) ^ np.uint8(32), scales)


def _words(data: Array) -> Array:
    """Return pairs of bytes as words of 16 bits."""
    return np.ascontiguousarray(data).view("<u2")


def _halfs(data: Array) -> npt.NDArray[np.float32]:
    """Return binary16 numbers in pairs of bytes."""
    found: npt.NDArray[np.float32] = np.ascontiguousarray(data).view("<f2").astype(np.float32)
    return found


def _halves(data: Array) -> Array:
    """Return codes of 4 bits: those of all low halves, then those of all high ones."""
    return np.concatenate([data & np.uint8(15), data >> np.uint8(4)], axis=-1)


def _quarters(data: Array, run: int = 32) -> Array:
    """Return codes of 2 bits of each run of bytes: those of all lowest bits, then those of the next ones."""
    runs = data.reshape(len(data), -1, run)
    parts = [runs >> np.uint8(shift) & np.uint8(3) for shift in (0, 2, 4, 6)]
    return np.concatenate(parts, axis=-1).reshape(len(data), -1)


def _bits(data: Array) -> Array:
    """Return the bits of some bytes: those of all lowest places, then those of the next ones."""
    return np.stack([data >> np.uint8(shift) & np.uint8(1) for shift in range(8)], axis=-2)


def _fives(data: Array) -> Array:
    """Return codes of 5 bits: 4 bytes with the highest bits of 32 codes, then their halves."""
    tops = np.unpackbits(np.ascontiguousarray(data[:, :4]), axis=-1, bitorder="little")
    found: Array = _halves(data[:, 4:]) | tops << np.uint8(4)
    return found


def _sixes(blocks: Array) -> tuple[Array, Array]:
    """Return eight scales and eight offsets whose factors have 6 bits, in 12 bytes behind two numbers."""
    first, second, rest = (blocks[:, start : start + 4] for start in (4, 8, 12))
    low, top = np.uint8(63), np.uint8(48)
    factors = np.concatenate([first & low, rest & np.uint8(15) | first >> np.uint8(2) & top], axis=1)
    others = np.concatenate([second & low, rest >> np.uint8(4) | second >> np.uint8(2) & top], axis=1)
    scales = _halfs(blocks[:, :2]) * factors.astype(np.float32)
    return scales, -(_halfs(blocks[:, 2:4]) * others.astype(np.float32))


#: Bytes of a block, and what splits it, by the types' names.
_TYPES: dict[str, tuple[int, Callable[[Array], Blocks]]] = {
    "mxfp4": (17, _mxfp4),
    "nvfp4": (36, _nvfp4),
    "iq4_nl": (18, _of_32(_halves)),
    "q8_0": (34, _of_32(np.asarray)),
    "q4_0": (18, _of_32(_halves, flip=8)),
    "q4_1": (20, _of_32(_halves, has_offsets=True)),
    "q5_0": (22, _of_32(_fives, flip=16)),
    "q5_1": (24, _of_32(_fives, has_offsets=True)),
    "q2_k": (84, _q2_k),
    "q3_k": (110, _q3_k),
    "q4_k": (144, _q4_k),
    "q5_k": (176, _q5_k),
    "q6_k": (210, _q6_k),
}
