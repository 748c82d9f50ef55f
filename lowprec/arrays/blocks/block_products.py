"""Products of elements and scales: the types that hold them, and those of codebooks.

Floor 3.
"""

from __future__ import annotations

import functools
import math
from fractions import Fraction

import numpy as np

from lowprec.arrays.calls import convert
from lowprec.arrays.checks import Array, Operand
from lowprec.arrays.traverse import tiles
from lowprec.kernels.codes import code_dtype
from lowprec.kernels.modes import usual_arithmetic
from lowprec.spec import catalog
from lowprec.spec.block import BlockFormat
from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Format
from lowprec.spec.projection import DEFAULT

__all__ = ["decode_products", "exact_type", "fits_doubles", "spread"]

#: Elements that are multiplied at a time: what they take stays in the caches.
_TILE = 1 << 15


@functools.lru_cache(maxsize=64)
def fits_doubles(fmt: BlockFormat) -> bool:
    """Return whether float64 holds each product of an element, a scale and the scale of a tensor."""
    factors = _factors(fmt)
    largest = math.prod(Fraction(max(each.max_finite, -each.min_finite)) for each in factors)
    widths, lasts = zip(*map(_extent, factors), strict=True)
    bits, double = sum(bits for bits in widths if bits > 1), catalog.BINARY64  # powers of two add none
    return bits <= double.precision and sum(lasts) >= double.scaled(0)[1] and largest <= double.max_finite


def _extent(fmt: Format) -> tuple[int, int]:
    """Return how many significant bits values have, at most, and the exponent of the last bit of all."""
    if not isinstance(fmt, Codebook):
        return fmt.precision, fmt.scaled(0)[1]
    values = np.array([float(each) for each in fmt.values])
    fractions, exponents = np.frexp(values[np.isfinite(values) & (values != 0)])
    whole = np.ldexp(fractions, 53).astype(np.int64)
    zeros = np.frexp((whole & -whole).astype(np.float64))[1] - 1
    return int((53 - zeros).max()), int((exponents - 53 + zeros).min())


@functools.lru_cache(maxsize=64)
def exact_type(fmt: BlockFormat) -> type | None:
    """Return a type whose rounding of products changes no result in 16 bits; None if there is none.

    In binary32 products of at most 16 bits are exact, except those that are zeros in 16 bits.
    """
    factors = _factors(fmt)
    binary = not any(isinstance(each, Codebook) for each in factors)
    if binary and sum(each.precision for each in factors) <= 16:
        return np.float32
    return np.float64 if fits_doubles(fmt) else None


def _factors(fmt: BlockFormat) -> list[Format]:
    """Return the formats of what a value is the product of: an element, a scale, the scale of a tensor."""
    return [fmt.element, fmt.scale, *[catalog.BINARY32] * (fmt.tensor_scale != "none")]


def spread(scales: Array, shape: tuple[int, ...], axes: tuple[int, ...], sizes: tuple[int, ...]) -> Array:
    """Repeat the scales of blocks of these sizes along these axes, for each element of such a shape."""
    for axis, size in zip(axes, sizes, strict=True):
        whole = np.repeat(scales, min(size, shape[axis]), axis)
        scales = whole[(slice(None),) * axis + (slice(shape[axis]),)]
    return scales


def decode_products(
    codes: Array, scales: Array, fmt: BlockFormat, axes: tuple[int, ...], result: Array, carrier: Format
) -> bool:
    """Write what elements stand for times their scales where either is a codebook's; say if that is exact.

    It is where the type of results holds both, so that the processor rounds their product once.
    """
    has_codebooks = isinstance(fmt.element, Codebook) or isinstance(fmt.scale, Codebook)
    if not has_codebooks or not carrier.contains(fmt.scale) or fmt.element.width > 16:
        return False
    kind = result.dtype
    if kind not in (np.float32, np.float64) or not carrier.contains(fmt.element):
        return False
    _write_products(codes, scales, fmt, axes, result, carrier)
    return True


@usual_arithmetic()
def _write_products(
    codes: Array, scales: Array, fmt: BlockFormat, axes: tuple[int, ...], result: Array, carrier: Format
) -> None:
    kind = result.dtype
    every = np.arange(1 << fmt.element.width).astype(code_dtype(fmt.element))
    values = convert(Operand(every, fmt.element, every, True), carrier, DEFAULT, kind)
    units = convert(Operand(scales, fmt.scale, scales, True), carrier, DEFAULT, kind)
    sizes = dict(zip(axes, fmt.sizes, strict=True))
    each = tuple(sizes.get(axis, 1) for axis in range(codes.ndim))
    mask = codes.dtype.type(len(values) - 1)
    for place in tiles(codes.shape, each, _TILE):
        # a place begins where blocks do
        pairs = zip(place, each, strict=True)
        blocks = tuple(slice(part.start // size, -(-part.stop // size)) for part, size in pairs)
        made = np.take(values, codes[place] & mask)
        made *= spread(units[blocks], made.shape, axes, fmt.sizes)
        made[np.isnan(made)] = np.nan
        result[place] = made
