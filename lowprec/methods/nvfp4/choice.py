"""Four over six: each block is encoded with its amax at 6 and at 4, and the better of the two is kept.

Elements between 4 and 6 lie 2 apart. A block whose large values fall there may lose less where its largest
is encoded as 4, with a scale 1.5 times as large.

Floor 4. Source: [FOUROVERSIX].
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from lowprec.arrays import arith, convert
from lowprec.arrays.blocks.block import BlockArray
from lowprec.arrays.checks import Array, as_array
from lowprec.arrays.dots import dot
from lowprec.spec import catalog
from lowprec.spec.block import BlockFormat, ScaleRule

#: "six": always amax at 6. The others: at 4 too, and the less error is kept.
Choice = Literal["six", "mse", "mae", "max"]

#: amax at 4, the power of two of the element's binade.
_AT_FOUR = ScaleRule("four", "binade", "none")

#: The largest scale of amax at 6: 1.5 times this, 384, is a scale too, and 1.5 * 448 is not.
_MOST_SCALE = 256


def encode(
    values: npt.ArrayLike,
    choice: Choice = "mse",
    *,
    axis: int | tuple[int, int] | None = None,
    tiles: bool = False,
    tensor_scale: float | None = None,
) -> BlockArray:
    """Encode in NVFP4, each block with the better of two scales.

    >>> import numpy as np
    >>> x = np.float32([10, 20, 30, 40] * 4)
    >>> encode(x, "six").values()[:4], encode(x, "mse").values()[:4]
    (array([10.      , 20.      , 26.666666, 40.      ], dtype=float32),
     array([10., 20., 30., 40.], dtype=float32))

    Parameters
    ----------
    values : array_like
        float64 is rounded to float32 first.
    choice : {"six", "mse", "mae", "max"}
        By the sum of squared errors, of their magnitudes, or by the largest. Sums are compared exactly; if
        they are equal, or a value is not finite, 6 is kept.
    axis : int or pair of int, optional
        Along which blocks lie: the last by default, the last two with tiles.
    tiles : bool
        Blocks of 16 x 16, not of 16.
    tensor_scale : float, optional
        By default that of the format for "six"; else amax over 6 * 256, rounded to binary32, so that each
        scale times 1.5 is within range.

    Returns
    -------
    blocks : BlockArray
        In "nvfp4" or "nvfp4_2d".

    Raises ValueError: an unknown choice, and what `lowprec.encode` refuses.

    Source: [FOUROVERSIX] 3.
    """
    if choice not in get_args(Choice):
        raise ValueError(f"choice={choice!r} of scales is unknown; use one of {', '.join(get_args(Choice))}")
    fmt = catalog.NVFP4_2D if tiles else catalog.NVFP4
    where: Any = (-2, -1) if tiles and axis is None else axis
    given = np.asarray(convert.quantize(as_array(values), "binary32"), np.float32)
    if choice == "six":
        return _encoded(given, fmt, where, tensor_scale)
    if tensor_scale is None:
        tensor_scale = _tensor_scale(given)
    six = _encoded(given, fmt, where, tensor_scale)
    four = _encoded(given, dataclasses.replace(fmt, rule=_AT_FOUR), where, tensor_scale)
    taken = _is_better(given, four, six, choice)
    codes = np.where(_of_elements(taken, six), four.codes, six.codes)
    return dataclasses.replace(six, codes=codes, scales=np.where(taken, four.scales, six.scales))


def _encoded(values: Array, fmt: BlockFormat, axis: Any, tensor_scale: float | None) -> BlockArray:
    blocks: BlockArray = convert.encode(values, fmt, axis=axis, tensor_scale=tensor_scale)
    return blocks


def _tensor_scale(values: Array) -> float:
    """Return amax over 6 * 256; 1 where there are only zeros or what is not finite."""
    finite = np.abs(values[np.isfinite(values)])
    amax = finite.max(initial=np.float32(0))
    scale = float(arith.divide(amax, np.float32(6 * _MOST_SCALE), "binary32"))
    return scale or float(np.finfo(np.float32).smallest_subnormal if amax else 1)


def _is_better(values: Array, four: BlockArray, six: BlockArray, choice: Choice) -> Array:
    """Return for each block whether the errors of the first are less."""
    errors = [_in_rows(np.abs(blocks.values(np.float64) - values), six) for blocks in (four, six)]
    largest = np.maximum(*(each.max(axis=-1) for each in errors))
    usable = np.isfinite(largest)
    if choice == "max":
        return np.asarray(usable & (errors[0].max(axis=-1) < errors[1].max(axis=-1)))
    # The sign of an exact difference of sums, in which nothing underflows.
    place = np.where(usable, np.frexp(largest)[1], 0)[..., None]
    one, other = (np.ldexp(np.where(usable[..., None], each, 0), -place) for each in errors)
    left, right = np.concatenate([one, other], -1), np.concatenate([one, -other], -1)
    if choice == "mae":
        right = np.sign(right)
    return np.asarray(np.asarray(dot.dot(left, right, "exact")) < 0)


def _in_rows(values: Array, blocks: BlockArray) -> Array:
    """Return the values of each block along the last axis; zeros where it is not full."""
    sizes = dict(zip(blocks.axes, blocks.format.sizes, strict=True))
    lacking = [(0, -length % sizes.get(axis, 1)) for axis, length in enumerate(values.shape)]
    parts = [
        (count, sizes.get(axis, 1)) for axis, count in enumerate(blocks.scales.shape)
    ]  # of each axis, blocks and places in a block
    split = np.pad(values, lacking).reshape([number for part in parts for number in part])
    order = [*range(0, split.ndim, 2), *range(1, split.ndim, 2)]
    return split.transpose(order).reshape(*blocks.scales.shape, math.prod(blocks.format.sizes))


def _of_elements(taken: Array, blocks: BlockArray) -> Array:
    """Return what is said of blocks for each of their elements."""
    for axis, size in zip(blocks.axes, blocks.format.sizes, strict=True):
        taken = np.repeat(taken, size, axis=axis).take(range(blocks.shape[axis]), axis=axis)
    return taken
