"""The blocks that matter for a block format: where scales change, and elements at ties under these scales."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays.convert import decode, encode
from lowprec.spec.block import BlockFormat
from lowprec.verify.codes.values import as_doubles

__all__ = ["blocks"]

Array = npt.NDArray[Any]

_LARGEST = np.finfo(np.float32).max

#: Largest magnitudes of tensors whose scale is their 2688th part: near a tie of block scales, and far out.
_TENSORS = (950.51324, 1e-3, math.ldexp(1.0, -100), float(_LARGEST))


@functools.lru_cache(maxsize=8)
def blocks(fmt: BlockFormat, seed: int = 0) -> tuple[Array, ...]:
    """Return blocks of float32, and for a format with a scale of the tensor that scale for each block.

    Every amax comes alone, with one element, and in a full block. An element is a value or a tie of its
    format times a scale that the block may have, or a number next to it. Last come blocks of zeros and
    blocks with infinities and NaNs.

    >>> from lowprec.spec.catalog import MXFP4, NVFP4
    >>> [part.ndim for part in blocks(MXFP4)], [part.ndim for part in blocks(NVFP4)]
    ([2], [2, 1])
    """
    if fmt.tensor_scale == "none":
        amaxes, units = _powers_of_two(fmt)
        return (np.concatenate([_filled(fmt, amaxes, units, seed), _specials(fmt)]),)
    parts, scales = [], []
    for scale in (1.0, *(most / 2688 for most in _TENSORS)):
        amaxes, units = _small_floats(fmt, np.float32(scale))
        parts += [_filled(fmt, amaxes, units, seed), _specials(fmt)]
        scales += [np.full(sum(map(len, parts[-2:])), scale, np.float32)]
    return np.concatenate(parts), np.concatenate(scales)


def _powers_of_two(fmt: BlockFormat) -> tuple[Array, Array]:
    """Return amaxes around each border of a scale rule in each binade of binary32, with scales near it."""
    largest, precision = fmt.element.max_finite, fmt.element.precision
    binade = np.floor(np.log2(largest))
    borders = np.array([1.0, largest / 2.0**binade, 2 - 2.0**-precision, np.sqrt(2), 1.2])
    points = np.ldexp(borders[:, None], np.arange(-150, 128)).reshape(-1)
    points = points[points <= _LARGEST].astype(np.float32)
    beside = np.array([-2, -1, 0, 1, 2, 5, 40])
    amaxes = np.unique(_stepped(points[:, None], beside))
    exponents = np.maximum(np.frexp(amaxes)[1] - 1, -126) - int(binade)
    lower = np.random.default_rng(1).integers(-1, 2, amaxes.size)
    return amaxes, np.ldexp(1.0, np.maximum(exponents + lower, -127))


def _small_floats(fmt: BlockFormat, scale: np.float32) -> tuple[Array, Array]:
    """Return amaxes around each value and tie of the scales' format and beyond, with the scales there."""
    grid = _ties(np.arange(1 << fmt.scale.width, dtype=np.uint8), fmt.scale)
    points = np.concatenate([grid, [464.0, 480.0, 1000.0, 2.0**-12, 2.0**-30]]) * fmt.element.max_finite
    points = np.minimum(points * float(scale), float(_LARGEST)).astype(np.float32)
    amaxes = np.unique(_stepped(points[:, None], np.array([-2, -1, 0, 1, 2])))
    quotients = amaxes / (fmt.element.max_finite * np.float64(scale))
    units = decode(encode(quotients, fmt.scale, saturation="finite"), fmt.scale, dtype="float64")
    return amaxes, units * np.float64(scale)


def _ties(codes: Array, fmt: Any) -> Array:
    """Return the finite magnitudes of codes, and the midpoints between them."""
    values = as_doubles(codes[codes < 1 << fmt.width], fmt)
    grid = np.unique(np.abs(values[np.isfinite(values)]))
    return np.concatenate([grid, (grid[:-1] + grid[1:]) / 2])


def _stepped(values: Array, steps: Array) -> Array:
    """Return the float32 magnitudes some steps further; none below 0, none infinite."""
    bits = values.view(np.int32) + steps.astype(np.int32)
    return np.clip(bits, 0, _LARGEST.view(np.int32)).astype(np.int32).view(np.float32)


def _filled(fmt: BlockFormat, amaxes: Array, units: Array, seed: int) -> Array:
    generator = np.random.default_rng(seed)
    size = fmt.sizes[-1]
    grid = _ties(np.arange(1 << fmt.element.width, dtype=np.uint8), fmt.element)
    points = np.minimum(generator.choice(grid, (amaxes.size, size)) * units[:, None], float(_LARGEST))
    points = _stepped(points.astype(np.float32), generator.integers(-1, 2, points.shape))
    points = np.minimum(points, amaxes[:, None])
    points[generator.random(points.shape) < 1 / 16] = 0
    points[:, 0] = amaxes
    whole = np.where(generator.random(points.shape) < 0.5, points, -points)
    alone, pair = np.zeros_like(whole), np.zeros_like(whole)
    alone[:, 0], pair[:, :2] = points[:, 0], points[:, :2]
    last = generator.integers(0, size, amaxes.size)
    rows = np.arange(amaxes.size)
    whole[rows, 0], whole[rows, last] = whole[rows, last], whole[rows, 0]
    return np.concatenate([alone, pair, whole])


def _specials(fmt: BlockFormat) -> Array:
    """Return blocks of zeros of either sign, and blocks of infinities or plain NaNs beside other numbers."""
    nan, infinity = float("nan"), float("inf")
    ends = [[], [nan], [-nan], [infinity], [-infinity, infinity]]
    made = np.zeros((1 + len(ends), fmt.sizes[-1]), np.float32)
    made[0, 1::2] = -0.0
    for row, end in enumerate(ends[1:], 2):
        made[row, : len(end)] = end
        made[row, len(end) : len(end) + 5] = 1, -1, 3.3, -1e-30, -0.0
    return made
