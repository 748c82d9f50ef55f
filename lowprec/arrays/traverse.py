"""Programs over whole arrays: contiguous ones directly, large ones in threads, others through small buffers.

Results do not depend on any of it.

Floor 3.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from lowprec.arrays.checks import Array
from lowprec.arrays.threads import SHARED_FROM, get_threads, share
from lowprec.kernels.codes import unlocked
from lowprec.kernels.engine import DONE, ElementwiseProgram

__all__ = ["BUFFER", "PAST_FROM", "bits_of", "flat", "run", "tile_of", "tiles"]

#: Elements that are gone through at a time where they do not lie one after the other.
BUFFER = 1 << 14

#: Bytes of results from which no cache would hold them until they are used.
PAST_FROM = 1 << 24

_NO_RANDOM, _NO_FLAGS = np.empty(0, np.uint32), np.empty(0, np.uint8)


def bits_of(array: Array) -> Array:
    """View elements as writeable unsigned integers of their size and byte order; programs write to none."""
    if array.dtype.kind != "u":
        array = array.view(f"{array.dtype.byteorder.replace('|', '=')}u{array.itemsize}")
    return unlocked(array)


def run(
    program: ElementwiseProgram,
    operands: list[Array],
    out: Array,
    flags: Array | None = None,
    random: Array | None = None,
    key: int | None = None,
) -> int:
    """Run a program for every element of `out`, to which operands broadcast; return DONE or REFUSED.

    All are arrays of unsigned integers, as `bits_of` gives them. Operands may be the memory of `out`, element
    for element, where the program converts; they must not overlap otherwise. `flags` and `random` have the
    shape of `out`; `key` stands for random integers that the program draws.
    """
    if not out.ndim:  # NumPy 2.2 loses what buffered iteration writes to an array without axes
        out, operands = out.reshape(1), [array.reshape(1) for array in operands]
        flags, random = (None if array is None else array.reshape(1) for array in (flags, random))
    others = [array for array in (flags, random) if array is not None]
    operands = [
        array.astype(array.dtype.newbyteorder("=")) if array.size == 1 else array for array in operands
    ]
    full = [array for array in operands if array.size != 1 or out.size == 1]
    everything = [*full, out, *others]
    if all(array.shape == out.shape and array.flags.aligned and array.dtype.isnative for array in everything):
        if all(array.flags.c_contiguous for array in everything):
            return flat(program, [array.reshape(-1) for array in operands], out, flags, random, key)
        if random is None and key is None and all(array.flags.f_contiguous for array in everything):
            flags = None if flags is None else flags.T
            return flat(program, [array.T.reshape(-1) for array in operands], out.T, flags, None, None)
    return _buffered(program, operands, out, flags, random, key)


def flat(
    program: ElementwiseProgram, operands: list[Array], out: Array, flags: Array | None, random: Array | None,
    key: int | None,
) -> int:  # fmt: skip
    """Do what `run` does, for arrays that are contiguous in memory; single elements go with all."""
    out = out.reshape(-1)
    raised = _NO_FLAGS if flags is None else flags.reshape(-1)
    words = _NO_RANDOM if random is None else random.reshape(-1)
    past = out.nbytes >= PAST_FROM and not out.__array_interface__["data"][0] % 16
    past = past and not any(np.may_share_memory(out, array) for array in operands)

    def part(start: int, stop: int) -> int:
        given = [array if array.size == 1 != out.size else array[start:stop] for array in operands]
        if key is not None:
            return program.draw(given, out[start:stop], key, start, past)
        return program.run(given, out[start:stop], raised[start:stop], words[start:stop], past)

    if out.size >= SHARED_FROM and (out.nbytes >= PAST_FROM or get_threads() > 1):
        return share(part, out.size)
    if key is not None:
        return program.draw(operands, out, key, 0, past)
    return program.run(operands, out, raised, words, past)


def _buffered(
    program: ElementwiseProgram, operands: list[Array], out: Array, flags: Array | None, random: Array | None,
    key: int | None,
) -> int:  # fmt: skip
    """In the order of elements where they have random integers, else in the order of memory."""
    reading, writing = ["readonly", "aligned", "nbo", "contig"], ["writeonly", "aligned", "contig"]
    arrays, modes = [*operands], [reading] * len(operands)
    if random is not None:
        arrays, modes = [*arrays, random], [*modes, reading]
    written = [out] if flags is None else [out, flags]
    status, done = DONE, 0
    ordered = random is not None or key is not None
    with np.nditer(
        [*arrays, *written],
        flags=["external_loop", "buffered", "zerosize_ok"],
        op_flags=[*modes, *[writing] * len(written)],
        order="C" if ordered else "K",
        buffersize=BUFFER,
        casting="equiv",
    ) as parts:  # type: ignore[call-overload]
        for part in parts:
            given, results = [unlocked(array) for array in part[: len(operands)]], part[len(arrays) :]
            if key is not None:
                got = _draw_from(program, given, results[0], key, done)
            else:
                words = _NO_RANDOM if random is None else unlocked(part[len(operands)])
                got = program.run(given, results[0], _NO_FLAGS if flags is None else results[1], words)
            status, done = max(status, got), done + results[0].size
    return status


def _draw_from(program: ElementwiseProgram, operands: list[Array], out: Array, key: int, first: int) -> int:
    """Draw also where the first element is not the first of four."""
    skipped = first % 4
    if not skipped:
        return program.draw(operands, out, key, first)
    held = [np.concatenate([np.zeros(skipped, array.dtype), array]) for array in operands]
    results: Any = np.empty(skipped + out.size, out.dtype)
    status = program.draw(held, results, key, first - skipped)
    out[...] = results[skipped:]
    return status


def tile_of(shape: tuple[int, ...], units: tuple[int, ...], most: int) -> tuple[int, ...]:
    """Return the shape of a part of an array, in multiples of the units, of about `most` elements."""
    steps = [max(1, min(length, unit)) for length, unit in zip(shape, units, strict=True)]
    for axis in reversed(range(len(steps))):
        steps[axis] = max(1, min(shape[axis], steps[axis] * max(1, most // math.prod(steps))))
    return tuple(steps)


def tiles(shape: tuple[int, ...], units: tuple[int, ...], most: int) -> Iterator[tuple[slice, ...]]:
    """Parts of an array, of about so many elements: multiples of the units, but for the last ones."""
    steps = tile_of(shape, units, most)
    starts = (range(0, length, step) for length, step in zip(shape, steps, strict=True))
    for corner in itertools.product(*starts) if 0 not in shape else ():
        yield tuple(slice(first, first + step) for first, step in zip(corner, steps, strict=True))
