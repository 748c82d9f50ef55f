"""Random words by position: Philox4x32-10, a counter-based generator.

Word i of a stream depends on the key and on i alone, so that any part of an array, in any order and
on any machine, gets the same words.

Floor 2b. Source: J. Salmon et al., Parallel random numbers: as easy as 1, 2, 3, SC 2011 [PHILOX].
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.kernels.jit import helper, inlined, jit
from lowprec.kernels.vector.ir.longs import LONGS, Longs, interleaved, long_range

__all__ = ["philox", "philox_fill", "philox_runs"]

_U = np.uint64
_LOW = _U(0xFFFFFFFF)
_32 = _U(32)
_M0, _M1 = _U(0xD2511F53), _U(0xCD9E8D57)
_W0, _W1 = _U(0x9E3779B9), _U(0xBB67AE85)

Block = tuple[Longs, Longs, Longs, Longs]


@inlined
def philox(
    c0: np.uint64, c1: np.uint64, c2: np.uint64, c3: np.uint64, k0: np.uint64, k1: np.uint64
) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    """Ten rounds on a counter of four 32-bit words under a key of two, each in 64 bits."""
    for _ in range(10):
        p0, p1 = _M0 * c0, _M1 * c2
        c0, c1, c2, c3 = (p1 >> _32) ^ c1 ^ k0, p1 & _LOW, (p0 >> _32) ^ c3 ^ k1, p0 & _LOW
        k0, k1 = (k0 + _W0) & _LOW, (k1 + _W1) & _LOW
    return c0, c1, c2, c3


@inlined
def twice(c: Block, k0: np.uint64, k1: np.uint64) -> Block:
    """Run two rounds on counters of which the low halves count; the high halves are not cleared."""
    c0, c1, c2, c3 = c
    p0, p1 = (c0 & _LOW) * _M0, (c2 & _LOW) * _M1
    c0, c2 = (p1 >> _32) ^ (c1 ^ k0), (p0 >> _32) ^ (c3 ^ k1)
    q0, q1 = (c0 & _LOW) * _M0, (c2 & _LOW) * _M1
    return (q1 >> _32) ^ (p1 ^ (k0 + _W0)), q1, (q0 >> _32) ^ (p0 ^ (k1 + _W1)), q0


@helper
def philox_fill(out: npt.NDArray[np.uint32], first: np.uint64, key: np.uint64, stream: np.uint64) -> None:
    """Fill `out`, a multiple of 4 * LONGS long, with the stream from word `first` on, a multiple of 4.

    The ten rounds stand one after the other: in a loop each would wait for the one before.
    """
    k0, k1 = key & _LOW, key >> _32
    for i in range(0, out.size, 4 * LONGS):
        block = long_range((first + _U(i)) >> _U(2))
        c = block, block >> _32, (block ^ block) + stream, block ^ block
        c = twice(c, k0, k1)
        c = twice(c, k0 + _U(2) * _W0, k1 + _U(2) * _W1)
        c = twice(c, k0 + _U(4) * _W0, k1 + _U(4) * _W1)
        c = twice(c, k0 + _U(6) * _W0, k1 + _U(6) * _W1)
        c = twice(c, k0 + _U(8) * _W0, k1 + _U(8) * _W1)
        interleaved(out, i, c[0], c[1], c[2], c[3])


#: Words that `philox_runs` makes at a time.
_ROOM = 1024


@jit
def philox_runs(
    out: npt.NDArray[np.uint32],
    starts: npt.NDArray[np.uint64],
    length: int,
    key: np.uint64,
    stream: int,
    bits: int,
) -> None:
    """Fill `out` with runs of `length` words, each from word starts[r] of the stream: their top `bits` bits.

    Word i is word i mod 4 of the block with counter (low, high of i div 4, stream, 0).
    """
    room, shift = np.empty(_ROOM, np.uint32), np.uint32(32 - bits)
    for run in range(starts.size):
        done = 0
        while done < length:
            first = starts[run] + _U(done)
            skipped = np.int64(first & _U(3))
            count: Any = min(length - done, _ROOM - skipped)
            made = room[: -(-(skipped + count) // (4 * LONGS)) * (4 * LONGS)]
            philox_fill(made, first - _U(skipped), key, _U(stream))
            for j in range(count):
                out[run * length + done + j] = room[skipped + j] >> shift
            done += count
