"""Blocks whose scales are given: elements divided by them, as values that conversions and divisions take.

Exact quotients are what `divide` projects; those in binary32 NumPy makes. Blocks whose scales are NaN,
infinite or zero are left.

Floor 3.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays.calls import convert
from lowprec.arrays.checks import Array, Operand
from lowprec.arrays.traverse import tiles
from lowprec.kernels import engine
from lowprec.kernels.engine import DONE, Tensor
from lowprec.kernels.modes import usual_arithmetic
from lowprec.kernels.request import CONVERT, Elementwise
from lowprec.spec import catalog
from lowprec.spec.block import BlockFormat
from lowprec.spec.format import Format
from lowprec.spec.projection import DEFAULT

__all__ = ["encode_quotients", "spread"]

#: Elements that are divided at a time: what they take stays in the caches.
_TILE = 1 << 14

#: Bits of a scale whose product with that of a tensor binary64 holds.
_BITS = 29

_LARGEST = np.finfo(np.float32).max


def spread(scales: Array, shape: tuple[int, ...], axes: tuple[int, ...], sizes: tuple[int, ...]) -> Array:
    """Repeat the scales of blocks of these sizes along these axes, for each element of such a shape."""
    for axis, size in zip(axes, sizes, strict=True):
        scales = np.take(scales, np.arange(shape[axis]) // size, axis)
    return scales


@usual_arithmetic()
def encode_quotients(
    operand: Operand,
    fmt: BlockFormat,
    axes: tuple[int, ...],
    tensor: Tensor,
    codes: Array,
    scales: Array,
    random: npt.NDArray[np.uint32],
) -> npt.NDArray[np.intp] | None:
    """Write the codes of elements under scales that are given, and return which blocks are left.

    None where all are: where other values than quotients count, or binary64 may not hold what divides.
    """
    rule, shape = fmt.elements, codes.shape
    plain = rule.subnormals == "keep" and rule.nan_payload == "drop" and not fmt.flush_subnormals
    single = catalog.BINARY32.contains(fmt.scale) and fmt.scale.precision <= _BITS
    if not (plain and single and codes.size):
        return None
    exact = fmt.arithmetic == "exact"
    if not exact and not catalog.BINARY32.contains(operand.fmt):
        return None
    units = convert(Operand(scales, fmt.scale, scales, True), catalog.BINARY64, DEFAULT, np.dtype(np.float64))
    if fmt.smallest_divides_as is not None:
        units[scales == 0] = fmt.smallest_divides_as
    left = ~np.isfinite(units)
    factors = _factors(np.where(left, 1.0, units), fmt, tensor)
    left |= factors == 0
    factors[left] = 1
    divide = (_exact if exact else _in_single)(operand.fmt, fmt, factors.dtype)
    sizes = dict(zip(axes, fmt.sizes, strict=True))
    each = tuple(sizes.get(axis, 1) for axis in range(len(shape)))
    words = random.reshape(shape) if random.size else random
    native = operand.codes.dtype.newbyteorder("=")
    for place in tiles(shape, each, _TILE):
        blocks = tuple(
            slice(part.start // size, -(-part.stop // size)) for part, size in zip(place, each, strict=True)
        )
        made = codes[place]
        values = np.ascontiguousarray(operand.codes[place], native)
        by = np.ascontiguousarray(spread(factors[blocks], made.shape, axes, fmt.sizes))
        drawn = np.ascontiguousarray(words[place]).reshape(-1) if random.size else random
        out = np.empty(made.size, codes.dtype)
        if divide(values.reshape(-1), by.reshape(-1), out, drawn) != DONE:
            left[blocks] = True
        made[...] = out.reshape(made.shape)
    return np.flatnonzero(left)


def _factors(units: npt.NDArray[np.float64], fmt: BlockFormat, tensor: Tensor) -> Array:
    """Return what divides the elements of each block; in arithmetic that multiplies, what multiplies them."""
    scale = float(tensor.scale)
    if fmt.arithmetic == "exact":
        return units.astype(np.float32) if tensor.value is None else units * scale
    if fmt.arithmetic in ("product", "reciprocal"):
        by: Array = _saturated((units * scale).astype(np.float32))
        return by if fmt.arithmetic == "product" else _over(np.float32(1), by)
    made: Array = _over(_over(np.float32(1), np.float32(scale)), units.astype(np.float32))
    return made


def _over(number: Any, by: Any) -> Any:
    """Divide in binary32; what is over zero is the largest number."""
    return _saturated(np.divide(number, by))


def _saturated(numbers: Array) -> Any:
    return np.clip(numbers, -_LARGEST, _LARGEST)


Divide = Callable[[Array, Array, Array, Array], int]


def _exact(source: Format, fmt: BlockFormat, kind: np.dtype[np.floating]) -> Divide:
    """Return what writes quotients rounded once."""
    by = catalog.BINARY32 if kind == np.float32 else catalog.BINARY64
    program = engine.lower(Elementwise("divide", (source, by), fmt.element, fmt.elements))

    def divide(values: Array, factors: Array, out: Array, random: Array) -> int:
        words = factors.view(f"u{factors.itemsize}")
        return int(program.run([values, words], out, np.empty(0, np.uint8), random))

    return divide


def _in_single(source: Format, fmt: BlockFormat, kind: np.dtype[np.floating]) -> Divide:
    """Return what writes quotients, or products with inverses, that are rounded to binary32 first."""
    read = engine.lower(Elementwise(CONVERT, (source,), catalog.BINARY32, DEFAULT))
    program = engine.lower(Elementwise(CONVERT, (catalog.BINARY32,), fmt.element, fmt.elements))
    make = np.divide if fmt.arithmetic == "product" else np.multiply
    no_flags, no_random = np.empty(0, np.uint8), np.empty(0, np.uint32)

    def divide(values: Array, factors: Array, out: Array, random: Array) -> int:
        words = np.empty(values.size, np.uint32)
        read.run([values], words, no_flags, no_random)
        numbers = words.view(np.float32)
        finite = np.isfinite(numbers)
        np.copyto(numbers, _saturated(make(numbers, factors)), where=finite)
        return int(program.run([words], out, no_flags, random))

    return divide
