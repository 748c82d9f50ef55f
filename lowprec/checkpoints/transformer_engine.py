"""Weights in Transformer Engine's two copies: scaled along rows, and along columns for other products.

MXFP8's copies are rounded separately, and so are other numbers. NVFP4's of weights have scales of 16x16
elements, and the second copy is the first one transposed. Scales are padded to tiles of 128x4, in which a
scale of 16x16 elements lies 16 times.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays.block import BlockArray
from lowprec.arrays.convert import decode, encode
from lowprec.arrays.packing import pack
from lowprec.checkpoints.decoding import ranges, values_of
from lowprec.checkpoints.errors import Errors
from lowprec.checkpoints.schemes import TRANSFORMER_ENGINE
from lowprec.checkpoints.weights import Weight
from lowprec.spec import catalog
from lowprec.spec.block import BlockFormat

if TYPE_CHECKING:
    from lowprec.checkpoints.targets import Target

__all__ = ["encoded", "metadata_of", "parts", "write_copies"]

Array = npt.NDArray[Any]

#: Of a block of NVFP4, and columns whose codes are transposed at a time.
_SIDE, _COLUMNS = 16, 256


def encoded(values: Array, fmt: BlockFormat, amax: Any, scales: Array | None = None) -> BlockArray:
    """Encode some rows of a tensor whose largest magnitude is known, as the whole tensor would be.

    The inverse that the tensor's scale is rounded from counts, so `amax` is encoded with them.
    """
    rows = np.zeros((_SIDE, *values.shape[1:]), values.dtype)
    rows.reshape(-1)[:1] = amax
    made: BlockArray
    if scales is not None:
        over: Any = encode(rows, fmt).tensor_scale
        made = encode(values, fmt, tensor_scale=over, scales=scales)
        return made
    made = encode(np.concatenate([values, rows]), fmt)
    return made[: len(values)]


def parts(weight: Weight, how: Target) -> dict[str, tuple[str, str, tuple[int, ...]]]:
    """Return name, type and shape of each tensor by its role."""
    rows, columns = weight.value_shape
    name, tag, scale = weight.name, *(how.scheme.code_tags[0], how.scheme.scale_tags[0])
    if how.scheme.tensor:
        codes, turned = (rows, columns // 2), (columns, rows // 2)
        grid, other = _padded(rows, columns // _SIDE, 128, 4), _padded(columns, rows // _SIDE, 128, 4)
    else:
        codes = turned = rows, columns
        grid, other = _padded(rows, columns // 32, 128, 4), _padded(rows // 32, columns, 4, 128)
    plan: dict[str, tuple[str, str, tuple[int, ...]]] = {
        "codes": (f"{name}._rowwise_data", tag, codes),
        "scales": (f"{name}._rowwise_scale_inv", scale, grid),
        "turned": (f"{name}._columnwise_data", tag, turned),
        "others": (f"{name}._columnwise_scale_inv", scale, other),
    }
    if how.scheme.tensor:
        plan["tensor"] = (f"{name}._amax_rowwise", "F32", (1,))
        plan["amax"] = (f"{name}._amax_columnwise", "F32", (1,))
    return plan


def _padded(rows: int, columns: int, to: int, by: int) -> tuple[int, int]:
    return -(-rows // to) * to, -(-columns // by) * by


def write_copies(
    weight: Weight,
    how: Target,
    names: Mapping[str, str],
    write: Callable[[str, Array, int], None],
    rows: Array,
    scales: Callable[[int, int], Array] | None = None,
) -> dict[str, Any]:
    """Write both copies of a weight, and return the report of the one along rows.

    Parameters
    ----------
    weight : Weight
    how : Target
    names : mapping of str to str
        Of tensors by their roles.
    write : callable
    rows : array
        The largest magnitude of each row.
    scales : callable, optional
        Of conversions of MXFP8: gives codes of scales of some rows, which are kept along rows.
    """
    assert how.blocks is not None
    errors = Errors(-how.element.max_finite, how.element.max_finite)
    amax, held, tiles = rows.max(initial=np.float32(0)), [], []
    unit = _SIDE if how.scheme.tensor else 32
    aligned = dataclasses.replace(weight, sizes=(unit, *[1] * (len(weight.shape) - 1)))
    for start, stop in ranges(aligned):
        values = np.ascontiguousarray(values_of(weight, start, stop), np.float32)
        if how.scheme.tensor:
            made = encoded(values, how.blocks, amax)
            held.append(pack(made.codes, how.element))
            tiles.append(made.scales)
            write(names["codes"], held[-1], start)
            along = np.repeat(made.scales, _SIDE, axis=0)
            tensor = float(amax) / (6 * 448)
        else:
            made = encode(values, how.blocks, scales=None if scales is None else scales(start, stop))
            write(names["codes"], made.codes, start)
            along, tensor = made.scales, 1.0
            down = encode(values, how.blocks, axis=0)
            write(names["turned"], down.codes, start)
            write(names["others"], _filled(down.scales, 128), start // unit)
        write(names["scales"], _filled(along, 4), start)
        units = decode(made.scales, how.blocks.scale, dtype=np.float64) * tensor
        sizes = how.blocks.sizes if len(how.blocks.sizes) > 1 else (1, *how.blocks.sizes)
        errors.add(values, decode(made.codes, how.element), sizes, units)
    if how.scheme.tensor:
        for role in ("tensor", "amax"):
            write(names[role], np.array([amax], np.float32), 0)
        _turned(np.concatenate(held), np.concatenate(tiles), names, write)
    return errors.report()


def _turned(
    packed: Array, tiles: Array, names: Mapping[str, str], write: Callable[[str, Array, int], None]
) -> None:
    """Write the transposed copy of NVFP4."""
    for start in range(0, packed.shape[1], _COLUMNS // 2):
        part = packed[:, start : start + _COLUMNS // 2]
        codes = np.stack([part & np.uint8(15), part >> np.uint8(4)], axis=-1).reshape(len(part), -1)
        write(names["turned"], pack(np.ascontiguousarray(codes.T), catalog.E2M1FN), 2 * start)
    write(names["others"], _filled(np.repeat(tiles.T, _SIDE, axis=0), 4), 0)


def _filled(scales: Array, by: int) -> Array:
    return np.pad(scales, ((0, 0), (0, -scales.shape[1] % by)))


def metadata_of(
    weights: Iterable[Weight], done: Iterable[str], how: Target | None, metadata: Mapping[str, str]
) -> dict[str, str]:
    """Return what is said of weights that are written by `how`, and what the source says of others."""
    chosen, found = set(done), dict[str, str]()
    for weight in weights:
        if weight.name in chosen and how is not None and how.scheme.family == TRANSFORMER_ENGINE:
            dtype = weight.codes.tag if weight.codes.tag in ("F32", "F16", "BF16") else "BF16"
            said = {"is_swizzled_scales": False, "dtype": dtype}
            said |= {"with_2d_quantization": True} if how.scheme.tensor else {}
            found[weight.name] = json.dumps({"_type": how.scheme.name, "_data": said})
        elif weight.name not in chosen and weight.scheme.family == TRANSFORMER_ENGINE:
            found |= {weight.name: metadata[weight.name]} if weight.name in metadata else {}
    return found
