"""Weights quantised as bitsandbytes does it, a few rows at a time."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays.blocks.block import BlockArray
from lowprec.arrays.blocks.packing import pack
from lowprec.arrays.convert import decode, encode
from lowprec.checkpoints.container import CheckpointError
from lowprec.checkpoints.containers.writer import Planned
from lowprec.checkpoints.decoding import ranges, values_of
from lowprec.checkpoints.errors import Errors
from lowprec.checkpoints.scaling import RAISED, usable_blocks
from lowprec.checkpoints.schemes.bitsandbytes import (
    NESTED,
    is_nested,
    padded,
    part,
    quant_map,
    state_of,
    state_text,
)
from lowprec.checkpoints.schemes.schemes import NESTED_ABSMAX, NESTED_MAP, Scheme
from lowprec.checkpoints.schemes.sharing import for_elements, needed
from lowprec.checkpoints.weights import Weight
from lowprec.spec import catalog
from lowprec.spec.block import BlockFormat

if TYPE_CHECKING:
    from lowprec.checkpoints.writing import Write

__all__ = ["nested_differ", "nested_scales", "parts", "write_blocks"]

Array = npt.NDArray[Any]

#: Types that bitsandbytes decodes to, by the type of the source.
_TYPES = {"BF16": "bfloat16", "F16": "float16"}


def nested_format() -> BlockFormat:
    """Return the block format of nested scales."""
    return BlockFormat(
        name="bnb_nested",
        element=catalog.format("dynamic8"),
        scale=catalog.BINARY32,
        size=NESTED,
        rule=catalog.BNB_NF4.rule,
        arithmetic="reciprocal",
        elements=catalog.BNB_NF4.elements,
        source="BNB",
    )


def nested_scales(
    scales: npt.NDArray[np.float32], offset: np.float32 | None = None
) -> tuple[BlockArray, float]:
    """Return scales quantised around their mean, and that mean.

    Parameters
    ----------
    scales : array of float32, shape (n,)
    offset : float32, optional
        In place of the mean, which is taken in binary64 here and in float32 by bitsandbytes.
    """
    mean = np.float32(scales.mean(dtype=np.float64)) if offset is None else offset
    return encode(scales - mean, nested_format()), float(mean)


def parts(weight: Weight, scheme: Scheme, stem: str) -> dict[str, Planned]:
    """Return name, type and shape of each tensor by its role."""
    assert scheme.block is not None
    shape = weight.value_shape
    count = math.prod(shape) // scheme.block[1]
    plan = {
        "codes": (stem + scheme.codes, "U8", (math.prod(shape) // 2, 1)),
        "scales": (stem + scheme.scales, scheme.scale_tags[0], (count,)),
        "state": (stem + scheme.state, "U8", (padded(scheme, _type(weight), shape),)),
    }
    lengths = {NESTED_ABSMAX: -(-count // NESTED), NESTED_MAP: 256}
    return plan | {end: (stem + end, "F32", (lengths.get(end, 16),)) for end in scheme.extras}


def state(weight: Weight, scheme: Scheme, offset: float | None = 0.0) -> bytes:
    """Return the JSON beside a weight, as long as it is whatever the offset of nested scales."""
    dtype, shape = _type(weight), weight.value_shape
    return state_text(scheme, dtype, shape, offset).ljust(padded(scheme, dtype, shape))


def write_blocks(
    weight: Weight,
    scheme: Scheme,
    blocks: BlockFormat,
    names: dict[str, str],
    write: Write,
    scales: Callable[[int, int], Array] | None,
) -> dict[str, Any]:
    """Write a weight, and return its report; `scales` gives codes of scales that are known before."""
    errors, shape, raised = Errors(-1.0, 1.0), weight.value_shape, False
    each, width = blocks.sizes[0], math.prod(shape[1:])
    final: Array | None = None
    offset: float | None = None
    if is_nested(scheme):
        high = [
            np.abs(values_of(weight, start, stop)).reshape(-1, each).max(axis=-1)
            for start, stop in ranges(weight)
        ]
        nested, offset = nested_scales(np.concatenate(high).astype(np.float32))
        write(names["scales"], nested.codes, 0)
        write(names[NESTED_ABSMAX], nested.scales, 0)
        write(names[NESTED_MAP], quant_map("dynamic8"), 0)
        units = decode(nested.scales, nested.format.scale)
        products = decode(nested.codes, nested.format.element) * for_elements(
            units, nested.codes.shape, (NESTED,)
        )
        final = np.asarray(products, np.float32) + np.float32(offset)
    write(names["state"], np.frombuffer(state(weight, scheme, offset), np.uint8), 0)
    write(names[".weight.quant_map"], quant_map(blocks.element.name), 0)
    for start, stop in ranges(weight):
        values = values_of(weight, start, stop)
        found = encode(values, blocks, scales=None if scales is None else scales(start, stop))
        if scales is None and final is None and (more := usable_blocks(found)) is not None:
            raised, found = True, encode(values, blocks, scales=more)
        packed = pack(found.codes.reshape(-1), blocks.element)
        write(
            names["codes"], (packed >> np.uint8(4) | packed << np.uint8(4)).reshape(-1, 1), start * width // 2
        )
        first, grid = start * width // each, found.scales.shape
        units = decode(found.scales, blocks.scale)
        if final is None:
            write(names["scales"], found.scales.reshape(-1), first)
        else:
            units = final[first : first + found.scales.size].reshape(grid)
        sizes = (*[1] * (values.ndim - 1), each)
        errors.add(values, decode(found.codes, blocks.element), sizes, units)
    return errors.report(RAISED if raised else "")


def nested_differ(weight: Weight, scales: npt.NDArray[np.float32]) -> int:
    """Return how many codes and scales of nested scales are others than these make around the file's mean."""
    state = state_of(weight)
    found, _ = nested_scales(scales, np.float32(state.offset))
    over = part(weight, NESTED_ABSMAX).read().reshape(-1)
    if state.nested != NESTED:
        raise CheckpointError(f"{weight.name!r} has nested blocks of {state.nested}; {NESTED} are verified")
    codes = np.count_nonzero(found.codes != needed(weight.scales).read().reshape(-1))
    return int(codes + np.count_nonzero(found.scales != over.view(np.uint32)))


def _type(weight: Weight) -> str:
    return _TYPES.get(weight.codes.tag, "float32")
