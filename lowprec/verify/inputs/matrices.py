"""Matrices for quantisers: values at all thresholds of scales and elements, and random ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays.convert import encode
from lowprec.spec.block import BlockFormat
from lowprec.spec.format import Format
from lowprec.spec.profiles import Profile
from lowprec.verify.inputs.block_cases import blocks
from lowprec.verify.inputs.conversions import SOURCES, inputs

__all__ = ["matrices", "specials_are_said"]

Array = npt.NDArray[Any]

#: Rows and columns: whole blocks and whole tiles of scales.
_ROWS, _COLUMNS = 128, 512
#: Scales of tensors of a format without blocks: powers of two, and others, whose quotients round.
_SCALES = (1.0, 2.0**40, 2.0**-120, 0.7312, 1e-3 / 448, 1.9999999)


def matrices(
    fmt: Format | BlockFormat, source: str, samples: int, seed: int, specials: bool
) -> Iterator[Array]:
    """Return matrices of chosen values, and random ones behind them, of whole blocks and whole tiles."""
    random = np.random.default_rng(seed)
    dtype = SOURCES[source]
    with np.errstate(over="ignore"):
        for chosen in (
            _of_blocks(fmt, seed, specials) if isinstance(fmt, BlockFormat) else _of_values(fmt, dtype)
        ):
            yield chosen.astype(dtype)
        while samples > 0:
            drawn = random.standard_normal((_ROWS, _COLUMNS)) * np.exp2(random.normal(0, 2, (_ROWS, 1)))
            drawn[random.random(drawn.shape) < 0.01] *= 32
            yield drawn.astype(dtype)
            samples -= drawn.size


def _of_blocks(fmt: BlockFormat, seed: int, specials: bool) -> Iterator[Array]:
    """Return the blocks that matter, those of each tensor's scale as matrices of their own."""
    rows, *scales = blocks(fmt, seed)
    finite = np.isfinite(rows).all(axis=-1)
    if scales or not specials:  # they would be the amax of a whole tensor
        rows, scales = rows[finite], [scale[finite] for scale in scales]
    down, across = (1, *fmt.sizes)[-2:]
    count = _ROWS // down * (_COLUMNS // across)
    for scale in np.unique(scales[0]) if scales else [None]:
        here = rows if scale is None else rows[scales[0] == scale]
        padded = np.zeros((-(-len(here) // count) * count, down, across), np.float32)
        for place in range(down):  # rows of a tile have the same values in other columns
            padded[: len(here), place] = np.roll(here.reshape(-1, across), place, axis=-1)
        for tile in padded.reshape(-1, _ROWS // down, _COLUMNS // across, down, across):
            yield tile.transpose(0, 2, 1, 3).reshape(_ROWS, _COLUMNS)


def specials_are_said(fmt: Format | BlockFormat, profiles: Iterable[Profile]) -> bool:
    """Return whether the definition and all profiles say what becomes of a NaN."""
    if not isinstance(fmt, BlockFormat):
        return False
    try:
        for each in (fmt, *(profile.block(fmt) for profile in profiles)):
            encode(np.full((1, 1), np.nan, np.float32), each)
    except ValueError:
        return False
    return True


def _of_values(fmt: Format, dtype: np.dtype[Any]) -> Iterator[Array]:
    """Return the values that matter, times scales, with the format's largest in each block of 128."""
    points = inputs(fmt, dtype, sparse=True)
    points = np.random.default_rng(0).permutation(points[np.isfinite(points)].astype(np.float64))
    points = points[np.abs(points) <= fmt.max_finite]
    rows = -(-points.size // (_ROWS * (_COLUMNS - 4))) * _ROWS
    filled = np.zeros(rows * (_COLUMNS - 4))
    filled[: points.size] = points
    tensor = np.insert(filled.reshape(rows, -1), [0, 127, 254, 381], float(fmt.max_finite), axis=1)
    yield from (tensor * scale for scale in _SCALES)
