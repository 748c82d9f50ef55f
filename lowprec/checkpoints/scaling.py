"""Scales of tensors, channels and blocks when weights are quantised, and rounding under them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lowprec.arrays.arith import divide
from lowprec.arrays.blocks.block import BlockArray
from lowprec.arrays.convert import decode, encode
from lowprec.arrays.measures.statistics import scale_for
from lowprec.checkpoints.container import CheckpointError
from lowprec.checkpoints.schemes.schemes import PLAIN
from lowprec.checkpoints.targets import SMALLEST_SCALE, Target, usable
from lowprec.checkpoints.weights import Weight
from lowprec.spec import catalog
from lowprec.spec.projection import Projection, Saturation
from lowprec.spec.rounding import NEAREST_EVEN

__all__ = [
    "RAISED",
    "Given",
    "Rounding",
    "TensorScale",
    "single_scales",
    "tensor_scale",
    "usable_blocks",
]

Array = npt.NDArray[Any]

#: Of weights so small that their own scale would be subnormal.
RAISED = "a scale would be below 2**-126; that is stored, and the smallest values are coarser or 0"
#: The code of `SMALLEST_SCALE` in binary32.
_SMALLEST_CODE = np.uint32(SMALLEST_SCALE.view(np.uint32))


class Given(NamedTuple):
    """Scales that are known before: of the tensor, and codes of those of blocks in some rows."""

    tensor: np.float32 | None
    scales: Callable[[int, int], Array]


class TensorScale(NamedTuple):
    """The scale of a whole tensor."""

    stored: Any  #: a number of float32
    factor: Any  #: what is stored, or its reciprocal, as readers have it
    raised: bool  #: whether it would be too small by itself


def tensor_scale(weight: Weight, how: Target, given: Given | None, amax: Any) -> TensorScale | None:
    """Return the scale of a tensor, if its blocks have one.

    Raises CheckpointError: it has no inverse that the scheme could store.
    """
    if how.blocks is None or how.blocks.tensor_scale == "none":
        return None
    exact: Any = None if given is None else given.tensor
    if given is None:
        exact = encode(np.array([amax]), how.blocks, rounding=NEAREST_EVEN).tensor_scale
    stored = np.float32(1) / usable(exact) if how.scheme.divides else usable(exact)
    factor = np.float32(1) / stored if how.scheme.divides else stored
    if not np.isfinite(factor):
        raise CheckpointError(
            f"weight {weight.name!r} has values up to {amax:.9g}, whose scale has no inverse in float32 "
            f"that {how.scheme.name} could store; leave it out with --exclude, or name another scheme"
        )
    return TensorScale(stored, factor, bool(exact < SMALLEST_SCALE))


def single_scales(how: Target, rows: Array) -> tuple[Array | None, bool]:
    """Return the scales of channels, or that of all values, and whether one would be too small by itself."""
    if how.blocks is not None or how.scheme == PLAIN:
        return None, False
    # Of zeros any scale will do; 1 is none that a reader stumbles over.
    high = rows.reshape(-1) if how.channel else np.atleast_1d(rows.max(initial=np.float32(0)))
    high = np.where(high, high, np.float32(how.element.max_finite))
    exact = scale_for(high, how.element, "max", axis=0)
    shape = (*rows.shape, 1) if how.channel else (1,) * rows.ndim
    return usable(exact).reshape(shape), bool(np.any(exact < SMALLEST_SCALE))


def usable_blocks(blocks: BlockArray) -> Array | None:
    """Return scales of blocks in binary32, those that are subnormal raised to 2**-126; None if none is.

    A scale of 0 stays: all elements under it are 0.
    """
    if blocks.format.scale != catalog.BINARY32:
        return None
    small = (blocks.scales != 0) & (blocks.scales < _SMALLEST_CODE)
    return np.where(small, _SMALLEST_CODE, blocks.scales) if small.any() else None


class Rounding:
    """Rounds values, by scales of blocks if there are some: to values, scales and codes.

    Parameters
    ----------
    how : Target
    tensor : number, optional
        The scale of the tensor.
    single : array, optional
        Scales of channels, or that of all values.
    random : array of int, optional
        Of stochastic roundings.
    summed : int
        The axis that products sum over.

    Attributes
    ----------
    raised : bool
        Whether a scale of a block would have been subnormal by itself, in binary32.
    """

    def __init__(
        self, how: Target, tensor: Any, single: Array | None, random: Array | None, summed: int = -1
    ) -> None:
        self._how, self._tensor, self._single, self._random = how, tensor, single, random
        self._summed, self.raised = summed, False
        self._projection = Projection(rounding=how.rounding, saturation=Saturation.FINITE)

    def __call__(self, values: Array, scales: Any) -> tuple[Array, Any, Array]:
        """Return values, scales and codes; `scales` are found where they are None."""
        if self._how.blocks is not None:
            blocks = self._blocks(values, scales)
            if scales is None and (more := usable_blocks(blocks)) is not None:
                self.raised, blocks = True, self._blocks(values, more)
            return blocks.values(), blocks.scales, blocks.codes
        element, how, random = self._how.element, self._projection, self._random
        if self._single is None:
            codes = encode(values, element, projection=how, random=random)
            return decode(codes, element), None, codes
        over = np.broadcast_to(self._single, values.shape)
        found = divide(values, over, element, projection=how, random=random)
        return found * self._single, None, encode(found, element)

    def _blocks(self, values: Array, scales: Any) -> BlockArray:
        fmt = self._how.blocks
        assert fmt is not None
        axis = None if len(fmt.sizes) > 1 else self._summed
        found: BlockArray = encode(
            np.ascontiguousarray(values),
            fmt,
            axis=axis,
            tensor_scale=self._tensor,
            scales=scales,
            random=self._random,
        )
        return found
