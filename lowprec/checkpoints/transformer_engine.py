"""Weights in Transformer Engine's two copies: scaled along rows, and along columns for other products.

MXFP8's copies are rounded separately, and so are other numbers. NVFP4's of weights have scales of 16x16
elements, and the second copy is the first one transposed. Scales are padded to tiles of 128x4, in which a
scale of 16x16 elements lies 16 times.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays.blocks.block import BlockArray
from lowprec.arrays.blocks.packing import pack, unpack
from lowprec.arrays.convert import decode, encode
from lowprec.checkpoints.containers.torch_reading import checked
from lowprec.checkpoints.containers.writer import Planned
from lowprec.checkpoints.decoding import ranges, values_of
from lowprec.checkpoints.errors import Errors
from lowprec.checkpoints.schemes.schemes import TRANSFORMER_ENGINE, find
from lowprec.checkpoints.schemes.sharing import padded
from lowprec.checkpoints.schemes.torchao import attributes
from lowprec.checkpoints.weights import OVER, Weight
from lowprec.spec import catalog
from lowprec.spec.block import BlockFormat

if TYPE_CHECKING:
    from lowprec.checkpoints.targets import Target

__all__ = ["encoded", "metadata_of", "parts", "write_copies"]

Array = npt.NDArray[Any]

_LOST = "the package's scale is no float32 for so small a weight, and its values come back smaller or as 0"
#: Of a block of NVFP4, and columns whose codes are transposed at a time.
_SIDE, _COLUMNS = 16, 256


def encoded(values: Array, fmt: BlockFormat, amax: Any, scales: Array | None = None) -> BlockArray:
    """Encode some rows of a tensor whose largest magnitude is known, as the whole tensor would be.

    The inverse that the tensor's scale is rounded from counts, so `amax` is encoded with them; values beyond
    it are as large.
    """
    rows = np.zeros((_SIDE, *values.shape[1:]), values.dtype)
    rows.reshape(-1)[:1] = amax
    made: BlockArray
    if scales is not None:
        over: Any = encode(rows, fmt).tensor_scale
        made = encode(values, fmt, tensor_scale=over, scales=scales)
        return made
    made = encode(np.concatenate([np.clip(values, -amax, amax), rows]), fmt)
    return made[: len(values)]


def parts(weight: Weight, how: Target) -> dict[str, Planned]:
    """Return name, type and shape of each tensor by its role."""
    plan: dict[str, Planned] = {}
    across = find(f"{how.scheme.name} columnwise")
    of_rows, of_columns = ("codes", "scales", "tensor"), ("turned", "others", "amax")
    for scheme, (codes, scales, tensor) in ((how.scheme, of_rows), (across, of_columns)):
        assert scheme.block is not None
        rows, columns = weight.value_shape[::-1] if scheme.transposed else weight.value_shape
        grid = padded((rows, columns), scheme.block)
        plan[scales] = (weight.name + scheme.scales, scheme.scale_tags[0], grid)
        if scheme.tensor:
            plan[tensor] = (weight.name + scheme.tensor, "F32", (1,))
            columns //= 2
        plan[codes] = (weight.name + scheme.codes, scheme.code_tags[0], (rows, columns))
    return plan


def write_copies(
    weight: Weight,
    how: Target,
    names: Mapping[str, str],
    write: Callable[[str, Array, int], None],
    rows: Array,
    scales: Callable[[int, int], Array] | None,
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
    for start, stop in ranges(weight, unit=unit):
        values = np.ascontiguousarray(values_of(weight, start, stop), np.float32)
        if how.scheme.tensor:
            made = encoded(values, how.blocks, amax)
            held.append(pack(made.codes, how.element))
            tiles.append(made.scales)
            write(names["codes"], held[-1], start)
            along = np.repeat(made.scales, _SIDE, axis=0)
        else:
            made = encode(values, how.blocks, scales=None if scales is None else scales(start, stop))
            write(names["codes"], made.codes, start)
            along = made.scales
            down = encode(values, how.blocks, axis=0)
            write(names["turned"], down.codes, start)
            write(names["others"], _filled(down.scales, 128), start // unit)
        write(names["scales"], _filled(along, 4), start)
        units = decode(made.scales, how.blocks.scale, dtype=np.float64)
        if how.scheme.tensor:  # readers multiply by the largest magnitude in float32, and divide then
            with np.errstate(over="ignore"):
                product = np.float32(units) * np.float32(amax)
            units = np.where(np.isfinite(product), units * float(amax) / OVER, np.inf)
        sizes = how.blocks.sizes if len(how.blocks.sizes) > 1 else (1, *how.blocks.sizes)
        errors.add(values, decode(made.codes, how.element), sizes, units)
    if how.scheme.tensor:
        for role in ("tensor", "amax"):
            write(names[role], np.array([amax], np.float32), 0)
        _turned(np.concatenate(held), np.concatenate(tiles), names, write)
    lost = how.scheme.tensor and 0 < float(amax) < OVER / np.finfo(np.float32).max
    return errors.report(_LOST if lost else "")


def _turned(
    packed: Array, tiles: Array, names: Mapping[str, str], write: Callable[[str, Array, int], None]
) -> None:
    """Write the transposed copy of NVFP4."""
    for start in range(0, packed.shape[1], _COLUMNS // 2):
        part = packed[:, start : start + _COLUMNS // 2]
        codes = unpack(np.ascontiguousarray(part), catalog.E2M1FN)
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
        is_made = weight.name in chosen
        scheme = how.scheme if is_made and how is not None else weight.scheme
        if scheme.family != TRANSFORMER_ENGINE or (is_made and how is None):
            continue
        said = attributes(metadata, weight.name)
        if is_made:
            dtype = weight.codes.tag if weight.codes.tag in ("F32", "F16", "BF16") else "BF16"
            said = {"dtype": dtype, "with_2d_quantization": bool(scheme.tensor)}
        kind = scheme.name.removesuffix(" columnwise")
        found[weight.name] = json.dumps({"_type": kind, "_data": checked(said)})
    return found
