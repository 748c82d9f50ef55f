"""Vectors of a few numbers of 64 bits, for products of words that are kept whole. See `lanes`.

Floor 2b.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.kernels.vector.ir.lanes import as_unsigned, places
from lowprec.kernels.vector.ir.language import VectorType, builtin, ir, memory

__all__ = ["LONGS", "Longs", "interleaved", "long_range"]

#: Numbers in a vector: so few that four vectors fit the registers at once.
LONGS = 8

Longs = npt.NDArray[Any]  #: of uint64, LONGS of them

_LONGS = VectorType("longs", ir.IntType(64), LONGS)

as_unsigned(_LONGS)


def long_range(first: np.uint64) -> Longs:
    """LONGS consecutive numbers."""
    return np.uint64(first) + np.arange(LONGS, dtype=np.uint64)


builtin(long_range, _LONGS, _LONGS)(
    lambda builder, first: builder.add(first, ir.Constant(_LONGS.llvm, list(range(_LONGS.count))))
)


def interleaved(array: npt.NDArray[np.uint32], start: int, a: Longs, b: Longs, c: Longs, d: Longs) -> None:
    """Store the low halves of four vectors as a0 b0 c0 d0 a1 …: 4 * LONGS words from `start` on."""
    array[start : start + 4 * LONGS] = np.stack([a, b, c, d], axis=-1).reshape(-1).astype(np.uint32)


@memory(interleaved, None, _LONGS, _LONGS, _LONGS, _LONGS)
def _interleaved(builder: Any, pointer: Any, element: Any, a: Any, b: Any, c: Any, d: Any) -> None:
    low, shift = _LONGS.constant(0xFFFFFFFF), _LONGS.constant(32)
    left, right = [
        builder.or_(builder.and_(even, low), builder.shl(odd, shift)) for even, odd in ((a, b), (c, d))
    ]
    # In two steps, of pairs and then of halves of instructions' vectors: LLVM finds no shorter way.
    pairs = [
        [place + side + from_right for place in range(0, _LONGS.count, 2) for from_right in (0, _LONGS.count)]
        for side in (0, 1)
    ]
    firsts, seconds = (builder.shuffle_vector(left, right, places(pair)) for pair in pairs)
    sides = (0, 1, _LONGS.count, _LONGS.count + 1)
    order = [place + side for place in range(0, _LONGS.count, 2) for side in sides]
    mixed = builder.shuffle_vector(firsts, seconds, places(order))
    builder.store(mixed, builder.bitcast(pointer, mixed.type.as_pointer())).align = 1
