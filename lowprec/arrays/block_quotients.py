"""Blocks whose scales are known: elements divided by them, as values that conversions and divisions take.

Exact quotients are what `divide` projects; those in binary32 NumPy makes. Blocks whose scales are NaN,
infinite or zero are left. Where elements are of a codebook, conversions look their codes up: scales are made
of blocks of one value each, the largest magnitude, and values are products of what the codes stand for.

Floor 3.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays.calls import convert
from lowprec.arrays.checks import Array, Operand
from lowprec.arrays.traverse import tiles
from lowprec.kernels import engine
from lowprec.kernels.codes import code_dtype
from lowprec.kernels.engine import DONE, Tensor
from lowprec.kernels.modes import usual_arithmetic
from lowprec.kernels.request import CONVERT, BlockEncoding, Elementwise
from lowprec.spec import catalog
from lowprec.spec.block import BlockFormat
from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Format, Sign
from lowprec.spec.projection import DEFAULT, Projection

__all__ = ["decode_products", "encode_quotients", "encode_scales", "spread"]

#: Elements that are divided at a time: what they take stays in the caches.
_TILE = 1 << 14

#: Bits of a scale whose product with that of a tensor binary64 holds.
_BITS = 29

_LARGEST = np.finfo(np.float32).max


def spread(scales: Array, shape: tuple[int, ...], axes: tuple[int, ...], sizes: tuple[int, ...]) -> Array:
    """Repeat the scales of blocks of these sizes along these axes, for each element of such a shape."""
    for axis, size in zip(axes, sizes, strict=True):
        whole = np.repeat(scales, min(size, shape[axis]), axis)
        scales = whole[(slice(None),) * axis + (slice(shape[axis]),)]
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
    short = isinstance(fmt.scale, Codebook) or fmt.scale.precision <= _BITS
    single = catalog.BINARY32.contains(fmt.scale) and short
    if not (plain and single and codes.size):
        return None
    exact = fmt.arithmetic == "exact"
    if not exact and not catalog.BINARY32.contains(operand.fmt):
        return None
    units = convert(Operand(scales, fmt.scale, scales, True), catalog.BINARY64, DEFAULT, np.dtype(np.float64))
    if fmt.smallest_divides_as is not None:
        units[scales == fmt.smallest_scale] = fmt.smallest_divides_as
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
        blocks = _blocks_at(place, each)
        made = codes[place]
        values = np.ascontiguousarray(operand.codes[place], native)
        by = np.ascontiguousarray(spread(factors[blocks], made.shape, axes, fmt.sizes))
        drawn = np.ascontiguousarray(words[place]).reshape(-1) if random.size else random
        out = np.empty(made.size, codes.dtype)
        if divide(values.reshape(-1), by.reshape(-1), out, drawn) != DONE:
            left[blocks] = True
        made[...] = out.reshape(made.shape)
    return np.flatnonzero(left)


@usual_arithmetic()
def encode_scales(
    operand: Operand,
    fmt: BlockFormat,
    axes: tuple[int, ...],
    tensor: Tensor,
    scales: Array,
    random: npt.NDArray[np.uint32],
) -> npt.NDArray[np.intp] | None:
    """Write the scales of blocks that codebooks are in, and return which blocks are left.

    None where all are: of other blocks, and of values that `encode_quotients` does not take. Blocks with
    a NaN or an infinity are left.
    """
    source = operand.fmt
    if not _has_codebooks(fmt) or isinstance(source, Codebook) or not operand.codes.size:
        return None
    if source.sign is not Sign.MAGNITUDE or not source.subnormals or not catalog.BINARY32.contains(source):
        return None
    if not source.negative_zero:  # a NaN whose magnitude is that of zero
        return None
    kind = operand.codes.dtype.newbyteorder("=").type
    most = operand.codes & kind((1 << source.width) - 1 - source.sign_code)
    for axis, size in zip(axes, fmt.sizes, strict=True):
        most = np.maximum.reduceat(most, np.arange(0, most.shape[axis], size), axis)
    most = most.reshape(-1)
    left = most > source.max_magnitude
    most[left] = 0
    made = np.empty(most.size, scales.dtype)
    alone = dataclasses.replace(fmt, size=1, elements=_ANY)
    program = engine.lower(BlockEncoding(source, alone, tensor.value is not None, backend="scalar"))
    refusal = program.run(
        most, np.empty(most.size, code_dtype(fmt.element)), made, tensor, random[:0], random
    )
    scales.reshape(-1)[:] = made
    return np.flatnonzero(left) if refusal is None else np.arange(most.size)


#: For elements that are not looked at.
_ANY = Projection(saturation="finite", nan="max", negative="zero")


@usual_arithmetic()
def decode_products(
    codes: Array, scales: Array, fmt: BlockFormat, axes: tuple[int, ...], result: Array, carrier: Format
) -> bool:
    """Write what elements stand for times their scales where either is a codebook's; say if that is exact.

    It is where the type of results holds both, so that the processor rounds their product once.
    """
    if not _has_codebooks(fmt) or not carrier.contains(fmt.scale) or fmt.element.width > 16:
        return False
    kind = result.dtype
    if kind not in (np.float32, np.float64) or not carrier.contains(fmt.element):
        return False
    every = np.arange(1 << fmt.element.width).astype(code_dtype(fmt.element))
    values = convert(Operand(every, fmt.element, every, True), carrier, DEFAULT, kind)
    units = convert(Operand(scales, fmt.scale, scales, True), carrier, DEFAULT, kind)
    sizes = dict(zip(axes, fmt.sizes, strict=True))
    each = tuple(sizes.get(axis, 1) for axis in range(codes.ndim))
    mask = codes.dtype.type(len(values) - 1)
    for place in tiles(codes.shape, each, _TILE):
        blocks = _blocks_at(place, each)
        made = np.take(values, codes[place] & mask)
        made *= spread(units[blocks], made.shape, axes, fmt.sizes)
        made[np.isnan(made)] = np.nan
        result[place] = made
    return True


def _has_codebooks(fmt: BlockFormat) -> bool:
    return isinstance(fmt.element, Codebook) or isinstance(fmt.scale, Codebook)


def _blocks_at(place: tuple[slice, ...], each: tuple[int, ...]) -> tuple[slice, ...]:
    """Return the blocks of elements at a place that begins where blocks do."""
    return tuple(
        slice(part.start // size, -(-part.stop // size)) for part, size in zip(place, each, strict=True)
    )


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
    if isinstance(fmt.element, Codebook) and kind == np.float32 and not fmt.elements.rounding.bits:
        if catalog.BINARY32.contains(source) and _has_short_points(fmt.element):
            return _in_double(source, fmt)
    by = catalog.BINARY32 if kind == np.float32 else catalog.BINARY64
    program = engine.lower(Elementwise("divide", (source, by), fmt.element, fmt.elements))

    def divide(values: Array, factors: Array, out: Array, random: Array) -> int:
        words = factors.view(f"u{factors.itemsize}")
        return int(program.run([values, words], out, np.empty(0, np.uint8), random))

    return divide


def _in_double(source: Format, fmt: BlockFormat) -> Divide:
    """Return what writes exact quotients by way of binary64, for elements whose points are short.

    Two numbers of 24 bits, and a point of 28: their quotient is the point, or differs from it by more than
    2**-52 of it. So it lies on the same side of the point when it is rounded to binary64.
    """
    read = engine.lower(Elementwise(CONVERT, (source,), catalog.BINARY64, DEFAULT))
    program = engine.lower(Elementwise(CONVERT, (catalog.BINARY64,), fmt.element, fmt.elements))
    no_flags, no_random = np.empty(0, np.uint8), np.empty(0, np.uint32)

    def divide(values: Array, factors: Array, out: Array, random: Array) -> int:
        words = np.empty(values.size, np.uint64)
        read.run([values], words, no_flags, no_random)
        numbers = words.view(np.float64)
        np.divide(numbers, factors, out=numbers)
        return int(program.run([words], out, no_flags, no_random))

    return divide


@functools.lru_cache(maxsize=64)
def _has_short_points(book: Codebook) -> bool:
    """Return whether values and thresholds have at most 28 significant bits."""
    rays = (book.ray(False), book.ray(True))
    points = [each for ray in rays for each in (*ray.sizes, *ray.thresholds, ray.beyond) if each is not None]
    numerators = [abs(each.as_integer_ratio()[0]) for each in points]
    return all((each // (each & -each or 1)).bit_length() <= 28 for each in numerators)


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
