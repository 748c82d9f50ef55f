"""GGUF files written in parts: the header, then tensors at their places.

Tensors keep the names of the source. Keys and values of a GGUF source are kept; of others there is the
architecture alone, so llama.cpp loads what was made of a GGUF file.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.checkpoints.container import TAGS, CheckpointError, Entry
from lowprec.checkpoints.containers.gguf import GgufBlocks, GgufHeader, gguf_package, open_gguf
from lowprec.checkpoints.containers.writer import Laid, Planned, Writer

__all__ = ["GgufWriter", "join_blocks"]

Array = npt.NDArray[Any]

#: Of `general.file_type`, by the blocks that most weights are in.
_FILE_TYPES = {"Q8_0": 7, "IQ4_NL": 25, "MXFP4": 38, "NVFP4": 39}
#: Axes that ggml has, and bytes that names have there.
_AXES, _NAME = 4, 63


def join_blocks(codes: Array, scales: Array, packing: str) -> Array:
    """Return rows of GGUF's blocks that hold these codes of elements and of scales.

    >>> codes = np.zeros((1, 32), np.uint8)
    >>> codes[0, [0, 16]] = 1, 2
    >>> join_blocks(codes, np.array([[127]], np.uint8), "mxfp4")[0, :3]
    array([127,  33,   0], dtype=uint8)

    Parameters
    ----------
    codes, scales : array, shapes (..., n) and (..., n / block)
    packing : {"mxfp4", "nvfp4", "q8_0", "iq4_nl"}

    Returns
    -------
    data : array of uint8, shape (..., bytes of a row)

    Source
    ------
    [GGML] ggml-common.h.
    """
    count = scales.shape[-1]
    if packing == "nvfp4":
        groups = _halved(codes.reshape(*codes.shape[:-1], count // 4, 4, 16))
        head = scales.reshape(*codes.shape[:-1], count // 4, 4)
        parts = [head, groups.reshape(*groups.shape[:-2], 32)]
    else:
        blocks = codes.reshape(*codes.shape[:-1], count, 32)
        head = np.ascontiguousarray(scales[..., None].astype(scales.dtype.newbyteorder("<"))).view(np.uint8)
        parts = [head, blocks if packing == "q8_0" else _halved(blocks)]
    return np.concatenate(parts, axis=-1).reshape(*codes.shape[:-1], -1)


def _halved(codes: Array) -> Array:
    """Return codes of 4 bits in bytes: the first half of each row in the low halves."""
    half = codes.shape[-1] // 2
    return np.asarray(codes[..., :half] | codes[..., half:] << np.uint8(4))


class GgufWriter(Writer):
    """A GGUF file; see `Writer`."""

    def _laid(self, path: Path, plan: Sequence[Planned], metadata: Mapping[str, str]) -> Laid:
        head, align = _header(plan, metadata, self._source)
        entries: list[Entry] = []
        end = len(head)
        for name, tag, shape in plan:
            kind = Entry if tag in TAGS else GgufBlocks
            entries.append(kind(name, tag, shape, path, end, _nbytes(tag, shape)))
            end += -(-entries[-1].nbytes // align) * align
        return entries, [(0, head)], end


def _nbytes(tag: str, shape: tuple[int, ...]) -> int:
    gguf = gguf_package()
    size, each = gguf.GGML_QUANT_SIZES[_type(gguf, tag, "")]
    return int(math.prod(shape) // size * each)


def _type(gguf: Any, tag: str, name: str) -> Any:
    try:
        return gguf.GGMLQuantizationType[tag]
    except KeyError:
        raise CheckpointError(
            f"tensor {name!r} is {tag}, which this version of the gguf package has not; write a file of "
            f"another kind, dequantise it first if it has scales, or store it in the source as another type"
        ) from None


def _header(plan: Sequence[Planned], metadata: Mapping[str, str], source: Path | None) -> tuple[bytes, int]:
    """Return all bytes before the first tensor, and how tensors are aligned."""
    gguf = gguf_package()
    old = GgufHeader({}, gguf.GGUF_DEFAULT_ALIGNMENT, {}) if source is None else open_gguf(source)
    pairs = {"general.architecture": _string("unknown"), **old.pairs}
    for key in ("general.file_type", "general.quantization_version", "lowprec"):  # of the source's weights
        pairs.pop(key, None)
    blocks = [tag for _, tag, _ in plan if tag in _FILE_TYPES]
    if blocks:
        kind = _FILE_TYPES[max(set(blocks), key=blocks.count)]
        pairs["general.file_type"] = struct.pack("<II", 4, kind)
        pairs["general.quantization_version"] = struct.pack("<II", 4, gguf.GGML_QUANT_VERSION)
    for key, text in sorted(metadata.items()):
        if key != "format":
            pairs.pop(key, None)
            pairs[key] = _string(text)
    parts = [struct.pack("<4sIQQ", b"GGUF", 3, len(plan), len(pairs))]
    parts += [_text(key) + value for key, value in pairs.items()]
    end = 0
    for name, tag, shape in plan:
        if not 1 <= len(shape) <= _AXES or len(name.encode()) > _NAME:
            raise CheckpointError(
                f"tensor {name!r} of shape {list(shape)} does not fit GGUF, which has 1 to {_AXES} axes and "
                f"names of at most {_NAME} bytes; rename or reshape it in the source, or take it out there"
            )
        axes = struct.pack(f"<I{len(shape)}Q", len(shape), *shape[::-1])
        parts.append(_text(name) + axes + struct.pack("<IQ", _type(gguf, tag, name), end))
        end += -(-_nbytes(tag, shape) // old.align) * old.align
    content = b"".join(parts)
    return content + bytes(-len(content) % old.align), old.align


def _text(text: str) -> bytes:
    """Return a string with its length."""
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _string(text: str) -> bytes:
    """Return the type and value of a key whose value is a string."""
    return struct.pack("<I", 8) + _text(text)
