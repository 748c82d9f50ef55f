"""Codes without gaps, and scales in tiles: layouts that checkpoints and tensor cores use.

Floor 3.
"""

from __future__ import annotations

import math
import operator

import numpy as np
import numpy.typing as npt

from lowprec.arrays.checks import Array, code_dtype
from lowprec.spec.format import Format

__all__ = ["pack", "packed_bytes", "swizzle", "unpack", "unswizzle"]

#: Rows and columns of a tile of scales, and rows that lie side by side in it.
_ROWS, _COLUMNS, _BESIDE = 128, 4, 32


def pack(codes: Array, fmt: Format, axis: int = -1) -> Array:
    """Codes of 2, 4 or 6 bits without gaps along an axis, the first in the lowest bits; others as they are.

    >>> from lowprec.spec.catalog import E2M1FN, E3M2FN
    >>> pack(np.array([1, 2, 3], np.uint8), E2M1FN)
    array([33,  3], dtype=uint8)
    >>> pack(np.array([1, 2, 3, 4], np.uint8), E3M2FN)
    array([129,  48,  16], dtype=uint8)

    Parameters
    ----------
    codes : array of uint8, shape (...)
    fmt : Format
    axis : int

    Returns
    -------
    packed : array of uint8, shape (...)
        Along the axis as many bytes as the codes need, rounded up to whole groups of one or three
        bytes; codes that are missing at the end are zeros.
    """
    group, taken = _group(fmt)
    if group == 1:
        return codes
    moved = np.moveaxis(codes, axis, -1)
    length = moved.shape[-1]
    whole = np.ascontiguousarray(moved, np.uint8)
    if missing := -length % group:
        whole = np.concatenate([whole, np.zeros((*moved.shape[:-1], missing), np.uint8)], axis=-1)
    if taken == 1:
        # The codes lie a byte apart, each is drawn to the end of the one before it.
        word = whole.view(f"<u{group}")
        bits = word
        for place in range(1, group):
            bits = bits | word >> word.dtype.type(place * (8 - fmt.width))
        packed = bits.astype(np.uint8)
    else:
        a, b, c, d = (whole[..., place::4] for place in range(4))
        trio = (
            a | b << np.uint8(6),
            b >> np.uint8(2) | c << np.uint8(4),
            c >> np.uint8(4) | d << np.uint8(2),
        )
        packed = np.empty((*moved.shape[:-1], whole.shape[-1] // group * taken), np.uint8)
        for place, byte in enumerate(trio):
            packed[..., place::taken] = byte
    return np.ascontiguousarray(np.moveaxis(packed, -1, axis))


def packed_bytes(length: int, fmt: Format) -> int:
    """Bytes that so many codes along an axis take.

    >>> from lowprec.spec.catalog import E3M2FN
    >>> packed_bytes(5, E3M2FN)
    6
    """
    group, taken = _group(fmt)
    return -(-length // group) * taken if group > 1 else length * fmt.code_bits // 8


def packed_shape(shape: tuple[int, ...], fmt: Format, axis: int) -> tuple[int, ...]:
    """Shape of codes that are packed along an axis.

    >>> from lowprec.spec.catalog import E2M1FN
    >>> packed_shape((64, 3), E2M1FN, 0)
    (32, 3)
    """
    axis %= len(shape)
    return *shape[:axis], packed_bytes(shape[axis], fmt), *shape[axis + 1 :]


def unpack(packed: npt.ArrayLike, fmt: Format, axis: int = -1, size: int | None = None) -> Array:
    """Return the codes that `pack` turned into bytes.

    >>> from lowprec.spec.catalog import E2M1FN
    >>> unpack(np.array([33, 3], np.uint8), E2M1FN, size=3)
    array([1, 2, 3], dtype=uint8)

    Parameters
    ----------
    packed : array of uint8 or int8, shape (...)
    fmt : Format
    axis : int
    size : int, optional
        How many codes there are along the axis; as many as fit by default.

    Raises
    ------
    ValueError
        More codes than there are, so few that whole groups would be left, or bytes that make no whole groups.
    """
    array = np.asarray(packed)
    group, taken = _group(fmt)
    if group == 1:
        if size is not None and size != array.shape[axis]:
            raise ValueError(
                f"there are {array.shape[axis]} codes of {fmt.name!r} along axis {axis}, not size={size}"
            )
        return array
    if array.dtype not in (np.uint8, np.int8):
        raise TypeError(f"packed codes of {fmt.name!r} must be an array of uint8, not of {array.dtype}")
    moved = np.moveaxis(array.view(np.uint8), axis, -1)
    if moved.shape[-1] % taken:
        raise ValueError(
            f"{moved.shape[-1]} bytes along axis {axis} are no multiple of {taken}, as those of {fmt.name!r}"
        )
    most = moved.shape[-1] // taken * group
    try:
        length = most if size is None else operator.index(size)
    except TypeError:
        raise TypeError(f"size={size!r} must be an integer, the codes along axis {axis}") from None
    if not most - group < length <= most:
        raise ValueError(
            f"{moved.shape[-1]} bytes along axis {axis} hold {most} codes of {fmt.name!r}, not size={size}"
        )
    mask, codes = np.uint8((1 << fmt.width) - 1), np.empty((*moved.shape[:-1], most), np.uint8)
    if taken == 1:
        fields = [moved >> np.uint8(place * fmt.width) for place in range(group)]
    else:
        a, b, c = (moved[..., place::3] for place in range(3))
        fields = [
            a,
            a >> np.uint8(6) | b << np.uint8(2),
            b >> np.uint8(4) | c << np.uint8(4),
            c >> np.uint8(2),
        ]
    for place, field in enumerate(fields):
        np.bitwise_and(field, mask, out=codes[..., place::group])
    flat = codes[..., :length]
    return np.ascontiguousarray(np.moveaxis(flat, -1, axis)).astype(code_dtype(fmt))


def _group(fmt: Format) -> tuple[int, int]:
    """Codes in a group, and its bytes."""
    return {2: (4, 1), 4: (2, 1), 6: (4, 3)}.get(fmt.width, (1, 1))


def swizzle(scales: Array) -> Array:
    """Scales in tiles of 128 rows and 4 columns, flat, as tensor cores read them.

    Inside a tile of 512 the place of row r and column c is r % 32 * 16 + r // 32 * 4 + c.

    >>> swizzle(np.arange(8, dtype=np.uint8).reshape(2, 4))[:20]
    array([0, 1, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 5, 6, 7],
          dtype=uint8)

    Parameters
    ----------
    scales : array, shape (..., columns)
        All axes but the last together are rows.

    Returns
    -------
    swizzled : array of the same type, shape (n,)
        Of whole tiles, row by row of tiles; what is missing is 0.

    Source
    ------
    [CUBLAS] 1-D block scaling factors layout.
    """
    if not scales.ndim:
        raise ValueError("scales to swizzle need an axis; those of an array without axes have none")
    columns = scales.shape[-1]
    table = scales.reshape(-1, columns) if columns else np.zeros((0, 0), scales.dtype)
    down, across = _tiles(table.shape)
    padded = np.zeros((down * _ROWS, across * _COLUMNS), scales.dtype)
    padded[: table.shape[0], :columns] = table
    parts = padded.reshape(down, _ROWS // _BESIDE, _BESIDE, across, _COLUMNS)
    return np.ascontiguousarray(parts.transpose(0, 3, 2, 1, 4)).reshape(-1)


def unswizzle(swizzled: npt.ArrayLike, shape: tuple[int, ...]) -> Array:
    """Return the scales of a shape that `swizzle` put in tiles.

    >>> unswizzle(swizzle(np.arange(6, dtype=np.uint8).reshape(2, 3)), (2, 3))
    array([[0, 1, 2],
           [3, 4, 5]], dtype=uint8)

    Raises
    ------
    ValueError
        A length that is not that of the tiles of this shape, or a shape without axes.
    """
    try:
        shape = tuple(map(operator.index, shape))
    except TypeError:
        raise TypeError(f"shape must be a tuple of integers, that of the scales, not {shape!r}") from None
    if not shape:
        raise ValueError("scales in tiles have an axis at least, and shape=() has none")
    flat = np.asarray(swizzled).reshape(-1)
    rows = math.prod(shape[:-1])
    down, across = _tiles((rows, shape[-1]))
    if flat.size != down * across * _ROWS * _COLUMNS:
        wanted = down * across * _ROWS * _COLUMNS
        raise ValueError(f"scales of shape {shape} take {wanted} places in tiles of 128x4, not {flat.size}")
    parts = flat.reshape(down, across, _BESIDE, _ROWS // _BESIDE, _COLUMNS).transpose(0, 3, 2, 1, 4)
    table = parts.reshape(down * _ROWS, across * _COLUMNS)[:rows, : shape[-1]]
    return np.ascontiguousarray(table).reshape(shape)


def _tiles(shape: tuple[int, ...]) -> tuple[int, int]:
    return -(-shape[0] // _ROWS), -(-shape[1] // _COLUMNS)
