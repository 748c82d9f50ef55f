"""GGUF files, by the `gguf` package: floats, and blocks of MXFP4, NVFP4, Q8_0 and IQ4_NL.

Of other block types the bytes are known and not their meaning: `inspect` shows them, `dequantize` refuses
them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.checkpoints.container import TAGS, CheckpointError, Entry

__all__ = ["GgufBlocks", "open_gguf", "split_blocks"]

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class GgufBlocks(Entry):
    """A tensor in blocks of GGUF: its shape is that of the values, and what is read are bytes, row by row."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Bytes."""
        return np.dtype(np.uint8)

    @property
    def bits(self) -> int:
        """Bits of a byte."""
        return 8

    @property
    def row_bits(self) -> int:
        """Bits of a part along its first axis."""
        return 8 * (self.nbytes // max(self.rows, 1))

    def array(self) -> Array:
        """Return the bytes of all rows."""
        return self.read()

    def read(self, start: int = 0, stop: int | None = None) -> Array:
        """Return the bytes of parts start to stop along the first axis, shape (..., bytes of a row)."""
        stop = self.rows if stop is None else min(stop, self.rows)
        each = self.row_bits // 8
        data = self._bytes(start * each, max(stop - start, 0) * each)
        return data.reshape(stop - start, *self.shape[1:-1], -1)


def open_gguf(path: Path) -> dict[str, Entry]:
    """Return the tensors of a GGUF file by their names.

    Raises CheckpointError: a file that is none, that is cut, or the `gguf` package is missing.
    """
    try:
        import gguf
    except ImportError:
        raise CheckpointError(
            "GGUF files need the gguf package: pip install 'lowprec[checkpoints]'"
        ) from None
    size = path.stat().st_size
    try:
        reader = gguf.GGUFReader(path)
        tensors = list(reader.tensors)
    except Exception as error:  # of files that are cut or hostile NumPy and the package raise anything
        why = str(error) or type(error).__name__
        raise CheckpointError(f"cannot read {str(path)!r} as a GGUF file: {why}") from None
    entries: dict[str, Entry] = {}
    for tensor in tensors:
        tag, shape = tensor.tensor_type.name, tuple(int(length) for length in reversed(tensor.shape))
        start, nbytes = int(tensor.data_offset), int(tensor.n_bytes)
        if start + nbytes > size:
            raise CheckpointError(f"tensor {tensor.name!r} of {str(path)!r} ends behind the file")
        kind = Entry if tag in TAGS else GgufBlocks
        entries[tensor.name] = kind(tensor.name, tag, shape, path, start, nbytes)
    return entries


def split_blocks(data: Array, packing: str) -> tuple[Array, Array]:
    """Return the codes of elements and of scales that rows of GGUF's blocks hold.

    >>> row = np.zeros((1, 17), np.uint8)
    >>> row[0, :2] = 127, 0x21                             # element 0 in the low half, 16 in the high one
    >>> codes, scales = split_blocks(row, "gguf_mxfp4")
    >>> codes[0, [0, 16]], scales
    (array([1, 2], dtype=uint8), array([[127]], dtype=uint8))

    Parameters
    ----------
    data : array of uint8, shape (..., bytes of a row)
    packing : {"gguf_mxfp4", "gguf_nvfp4", "gguf_q8_0", "gguf_iq4_nl"}

    Returns
    -------
    codes, scales : array, shapes (..., n) and (..., n / block)

    Source
    ------
    [GGML] ggml-common.h.
    """
    each = {"gguf_mxfp4": 17, "gguf_nvfp4": 36, "gguf_q8_0": 34, "gguf_iq4_nl": 18}[packing]
    blocks = data.reshape(*data.shape[:-1], -1, each)
    if packing == "gguf_nvfp4":
        groups = blocks[..., 4:].reshape(*blocks.shape[:-1], 4, 8)
        return _halves(groups).reshape(*data.shape[:-1], -1), blocks[..., :4].reshape(*data.shape[:-1], -1)
    if packing == "gguf_mxfp4":
        scales, codes = blocks[..., 0], _halves(blocks[..., 1:])
    else:
        scales = np.ascontiguousarray(blocks[..., :2]).view("<u2")[..., 0]
        codes = blocks[..., 2:] if packing == "gguf_q8_0" else _halves(blocks[..., 2:])
    return codes.reshape(*data.shape[:-1], -1), scales


def _halves(data: Array) -> Array:
    """Return codes of 4 bits: those of all low halves, then those of all high ones."""
    return np.concatenate([data & np.uint8(15), data >> np.uint8(4)], axis=-1)
