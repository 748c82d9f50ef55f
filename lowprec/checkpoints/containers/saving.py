"""save and load: arrays and blocks in a safetensors file, with the formats that codes are of.

A `BlockArray` takes two or three tensors: its codes under its name, `NAME.scales` and `NAME.tensor_scale`.
Codes have the type of their format where headers know it (F4, F6, F8), else they are unsigned integers. The
metadata has the block formats whole, as TOML, so that a file means the same when catalogs have changed.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lowprec import files
from lowprec.arrays import lazy
from lowprec.arrays.blocks.block import BlockArray
from lowprec.arrays.checks import as_array, code_dtype
from lowprec.checkpoints.container import (
    METADATA,
    TAGS,
    CheckpointError,
    Header,
    quoted,
    read_file,
    tag_of,
)
from lowprec.checkpoints.containers.safetensors_writing import SafetensorsWriter
from lowprec.checkpoints.containers.saved import (
    SCALES,
    TENSOR,
    Saved,
    holds,
    in_catalog,
    metadata_of,
    saved_in,
)
from lowprec.checkpoints.containers.writer import writable
from lowprec.checkpoints.schemes.schemes import FLOATS
from lowprec.spec.block import BlockFormat
from lowprec.spec.format import Format

__all__ = ["load", "save"]

Array = npt.NDArray[Any]
Given = npt.ArrayLike | BlockArray

_ALONE = "array"


class _Part(NamedTuple):
    tag: str
    shape: tuple[int, ...]
    data: Array


def save(path: str | os.PathLike[str], arrays: Given | Mapping[str, Given]) -> None:
    """Write an array, a `BlockArray` or a mapping of them to a safetensors file.

    Other software reads the codes and scales as tensors. The file is written beside and renamed when whole;
    one that is replaced keeps its mode and owner, and links are followed.

    >>> import tempfile, lowprec as lp
    >>> blocks = lp.encode([[1.0, -0.5, 6.0, 0.0]], "mxfp4")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(f"{folder}/blocks.safetensors", {"w": blocks, "b": np.float32([0.5])})
    ...     found = load(f"{folder}/blocks.safetensors")
    >>> found["w"], found["b"]
    (BlockArray of mxfp4, shape (1, 4), 1 block of 32 along axis 1, 3 bytes, array([0.5], dtype=float32))

    Parameters
    ----------
    path : str or path
        Ends with .safetensors. A file that is there is replaced.
    arrays : array_like, BlockArray or mapping of str to them
        Of types that safetensors has: bool, integers of 8 to 64 bits, floats of 4 to 64 bits, complex64.

    Raises
    ------
    CheckpointError
        Another ending, no folder to write to, a path that can name no file, a place that cannot be written or
        is a pipe or device, a type that safetensors lacks, a name that a part of a `BlockArray` takes too, or
        arrays of Dask, which are to be computed first.

    Source: [SAFETENSORS]; docs/checkpoints.md.
    """
    place = _place(path)
    if place.suffix != ".safetensors":
        raise CheckpointError(f"path {str(place)!r} must end with .safetensors, which is what is written")
    if not place.parent.is_dir():
        raise CheckpointError(f"there is no folder {str(place.parent)!r} to write {place.name!r} to")
    alone = not isinstance(arrays, Mapping)
    items: dict[str, Any] = {_ALONE: arrays} if not isinstance(arrays, Mapping) else dict(arrays)
    parts: dict[str, _Part] = {}
    said = Saved(alone, {})
    for name, value in items.items():
        if not isinstance(name, str) or not name or name == METADATA:
            raise CheckpointError(f"{name!r} is no name for a tensor; use a string, but not {METADATA!r}")
        if isinstance(value, BlockArray):
            if taken := [name + end for end in (SCALES, TENSOR) if name + end in items]:
                raise CheckpointError(
                    f"{taken[0]!r} is the name of a part of BlockArray {name!r}; rename one of both"
                )
            said.blocks[name] = value.format, value.axes
        parts |= _parts(name, value)
    plan = [(name, tensor.tag, tensor.shape) for name, tensor in parts.items()]
    with writable(place), files.replacing(place) as file:
        writer = SafetensorsWriter(file, plan, metadata_of(said))
        for name, tensor in parts.items():
            writer.write(name, tensor.data)


def load(path: str | os.PathLike[str]) -> Any:
    """Return what `save` wrote, or the tensors of any other safetensors file.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(f"{folder}/x.safetensors", np.arange(3, dtype=np.int8))
    ...     load(f"{folder}/x.safetensors")
    array([0, 1, 2], dtype=int8)

    Parameters
    ----------
    path : str or path

    Returns
    -------
    arrays : array, BlockArray or dict of str to them
        As they were saved, bit for bit, in memory; types that NumPy lacks are those of ml_dtypes. Of other
        software's files a dict of arrays, with nothing decoded: `lowprec checkpoint dequantize` does that.

    Raises
    ------
    CheckpointError
        A file that is cut, hostile or no safetensors file, or blocks whose parts lack or do not fit.

    Source: [SAFETENSORS]; docs/checkpoints.md.
    """
    header = read_file(_place(path))
    said, left = saved_in(header.metadata, repr(str(path))), dict.fromkeys(header.entries)
    found: dict[str, Any] = {}
    for name, (fmt, axes) in said.blocks.items():
        found[name] = _block(header, name, fmt, axes, f"BlockArray {name!r} of {str(path)!r}")
        for part in (name, name + SCALES, name + TENSOR):
            left.pop(part, None)
    found |= {name: header.entries[name].read() for name in left}
    return found[_ALONE] if said.alone and list(found) == [_ALONE] else found


def _place(path: str | os.PathLike[str]) -> Path:
    """Return a path, if the system can have a file of its name."""
    place = Path(path)
    try:
        os.lstat(place)
    except OSError:  # whoever opens it says what is wrong
        pass
    except ValueError as error:
        raise CheckpointError(f"no file can have the name {str(place)!r}: {error}") from None
    return place


def _parts(name: str, value: Given) -> dict[str, _Part]:
    """Return the tensors that an array becomes."""
    if isinstance(value, BlockArray):
        if lazy.is_dask(lazy.plain(value.codes)):
            raise CheckpointError(f"BlockArray {name!r} is of Dask arrays; save what its compute() returns")
        parts = {name: _codes(np.asarray(value.codes), value.format.element)}
        parts[name + SCALES] = _codes(np.asarray(value.scales), value.format.scale)
        if value.tensor_scale is not None:
            parts[name + TENSOR] = _Part("F32", (), np.asarray(value.tensor_scale, np.float32))
        return parts
    if lazy.is_dask(lazy.plain(value)):
        raise CheckpointError(f"array {name!r} is of Dask; save what its compute() returns")
    array = as_array(lazy.plain(value))
    try:
        tag = tag_of(array.dtype)
        _check_bits(array, tag)
    except CheckpointError as error:
        raise CheckpointError(f"array {name!r} cannot be saved: {error}") from None
    return {name: _Part(tag, array.shape, array)}


def _check_bits(array: Array, tag: str) -> None:
    """Refuse elements of few bits with others set, which would be written into their neighbours."""
    bits = TAGS[tag][1]
    if bits < 8 and (wrong := array.view(np.uint8) >> np.uint8(bits) != 0).any():
        first = tuple(int(place) for place in np.argwhere(wrong)[0])
        raise CheckpointError(
            f"its elements have bits beyond the {bits} of {tag}, the first at index {first}; save bytes of "
            f"packed codes as .view('uint8'), or take them apart by lowprec.BlockArray.unpack"
        )


def _codes(codes: Array, fmt: Format) -> _Part:
    """Return codes under the type of their format, if the header has it and readers take it in this shape.

    Codes fill whole bytes; of four bits those of each row, as readers that know no single one count bytes.
    """
    codes = np.asarray(codes, codes.dtype.newbyteorder("="))  # a view takes numbers for native ones
    for tag, name in FLOATS.items():
        dtype, bits = TAGS[tag]
        count = math.prod(codes.shape[-1:]) if bits == 4 else codes.size
        if name == fmt.name and in_catalog(fmt) and count * bits % 8 == 0:
            return _Part(tag, codes.shape, codes.view(dtype))
    return _Part(tag_of(codes.dtype), codes.shape, codes)


def _block(header: Header, name: str, fmt: BlockFormat, axes: tuple[int, ...], where: str) -> BlockArray:
    """Return a `BlockArray` of the tensors that are its parts."""
    wanted = {name: fmt.element, name + SCALES: fmt.scale}
    if lacking := [part for part in wanted if part not in header.entries]:
        raise CheckpointError(f"{where} lacks {lacking[0]!r}: the file was changed since; save it again")
    parts = []
    for part, of in wanted.items():
        if not holds(tag := header.entries[part].tag, of):
            raise CheckpointError(f"{where}: {part!r} is {tag}, which are no codes of {of.name!r}")
        parts.append(header.entries[part].read().view(code_dtype(of)))
    tensor = header.entries.get(name + TENSOR)
    scale = None if tensor is None else tensor.read().astype(np.float32).reshape(-1)
    if scale is not None and (scale.size != 1 or not np.isfinite(scale[0])):
        raise CheckpointError(f"{where} has the tensor scale {quoted(scale.tolist())}, which is no number")
    try:
        return BlockArray(parts[0], parts[1], fmt, axes, None if scale is None else scale[0])
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"{where} does not hold together: {error}") from None
