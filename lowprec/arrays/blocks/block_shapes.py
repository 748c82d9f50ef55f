"""Indices and shapes that turn an array in blocks into another array in blocks.

Floor 3.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

__all__ = ["indexed", "reshaped"]

Shape = tuple[int, ...]


def indexed(
    key: Any, shape: Shape, axes: Shape, sizes: Shape
) -> tuple[tuple[Any, ...], tuple[Any, ...], Shape]:
    """Return the index of elements, that of scales, and the axes of blocks of the result.

    Raises
    ------
    IndexError, TypeError
        An index that cuts a block in two, or is neither an integer nor a slice.
    """
    keys, ndim = key if isinstance(key, tuple) else (key,), len(shape)
    if sum(item is Ellipsis for item in keys) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    if any(item is Ellipsis for item in keys):
        place = [item is Ellipsis for item in keys].index(True)
        keys = (*keys[:place], *[slice(None)] * (ndim - len(keys) + 1), *keys[place + 1 :])
    if sum(item is not None for item in keys) > ndim:
        raise IndexError(f"too many indices: a BlockArray of shape {shape} has {ndim} axes")
    keys = (*keys, *[slice(None)] * (ndim - len(keys)))
    along = dict(zip(axes, sizes, strict=True))
    blocks = []
    for axis, item in enumerate(keys):
        one = _is_integer(item)
        if not isinstance(item, slice) and not one:
            raise TypeError(
                f"a BlockArray is indexed by integers and slices, not by {item!r}; use .values()[...]"
            )
        if one and not -shape[axis] <= operator.index(item) < shape[axis]:
            raise IndexError(f"index {item} is out of bounds for axis {axis} with size {shape[axis]}")
        blocks.append(_blocks(axis, item, shape[axis], along[axis]) if axis in along else item)
    gone = [axis for axis, item in enumerate(keys) if not isinstance(item, slice)]
    return keys, tuple(blocks), tuple(axis - sum(other < axis for other in gone) for axis in axes)


def _is_integer(item: Any) -> bool:
    """Return whether an object is one integer, and no truth value."""
    try:
        operator.index(item)
    except TypeError:
        return False
    return not isinstance(item, (bool, np.bool_)) and not np.ndim(item)


def _blocks(axis: int, item: Any, length: int, size: int) -> slice:
    """Return the blocks that a slice along one of the axes of blocks takes."""
    if not isinstance(item, slice):
        raise IndexError(
            f"index {item} along axis {axis} would take one element out of a block of {size}; use "
            ".values()[...]"
        )
    start, stop, step = item.indices(length)
    stop = max(start, stop)
    if step != 1 or any(end % size and end != length for end in (start, stop)):
        spelled = ":".join("" if part is None else str(part) for part in (item.start, item.stop, item.step))
        raise IndexError(
            f"{spelled.removesuffix(':')} along axis {axis} cuts through blocks of {size}: "
            f"begin and end at multiples of {size}, in steps of 1, or use .values()[...]"
        )
    return slice(-(-start // size), -(-stop // size))


def reshaped(wanted: tuple[Any, ...], shape: Shape, axes: Shape, sizes: Shape) -> tuple[Shape, Shape]:
    """Return the shape with -1 replaced by a length, and the axes along which its blocks lie.

    Elements keep their order, that of C. Axes after the first axis of blocks must stay; for blocks along
    one axis only their product must. The axis itself may be of another length only if both lengths
    are whole blocks.

    Raises
    ------
    ValueError
        Another number of elements, or blocks that would be cut; the message says what would do.
    """
    new = _filled(wanted, shape)
    first = min(axes)
    size, length = dict(zip(axes, sizes, strict=True))[first], shape[first]
    behind = shape[first + 1 :]
    for axis in reversed(range(len(new))):
        whole = new[axis] == length or not (new[axis] % size or length % size)
        same = new[axis + 1 :] == behind if len(axes) > 1 else math.prod(new[axis + 1 :]) == math.prod(behind)
        if whole and same:
            return new, tuple(each - first + axis for each in axes)
    kept = ", ".join(map(str, behind))
    raise ValueError(
        f"shape {new} would cut blocks of {'x'.join(map(str, sizes))} of an array of shape {shape}: an axis "
        f"must have length {length}{f' or a multiple of {size}' if length % size == 0 else ''}"
        f"{f', and then come {kept}' if kept else ' and be the last'}; or use .values().reshape(...)"
    )


def _filled(wanted: tuple[Any, ...], shape: Shape) -> Shape:
    """Return a shape with the length in place of -1."""
    given = wanted[0] if len(wanted) == 1 and np.ndim(wanted[0]) else wanted
    if not all(map(_is_integer, given)):
        raise TypeError(
            f"a shape is integers, or one tuple of them, and not {given!r}; -1 stands for the rest"
        )
    new = tuple(map(operator.index, given))
    count, known = math.prod(shape), math.prod(each for each in new if each != -1)
    if new.count(-1) == 1 and known and count % known == 0:
        new = tuple(count // known if each == -1 else each for each in new)
    if math.prod(new) != count or min(new, default=0) < 0:
        raise ValueError(f"cannot reshape {count:,} elements of shape {shape} into shape {new}")
    return new
