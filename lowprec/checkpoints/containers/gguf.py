"""GGUF files: floats, and blocks of all types; sizes are those of the `gguf` package.

What blocks mean is in `gguf_blocks`. Of block types that are not there the bytes are known and not their
meaning: `inspect` shows them, `dequantize` refuses them.
"""

from __future__ import annotations

import math
import os
import re
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from lowprec.checkpoints.container import (
    MOST_TENSORS,
    TAGS,
    CheckpointError,
    Entry,
    counts,
    open_regular,
    quoted,
    stamp,
)

__all__ = ["GgufBlocks", "GgufHeader", "gguf_package", "open_gguf"]

Array = npt.NDArray[Any]

#: Bytes of values by the numbers of their types, and the types that are as long as they say.
_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_STRING, _ARRAY = 8, 9
#: Types of whole numbers.
_UNSIGNED, _SIGNED = (0, 2, 4, 10), (1, 3, 5, 11)
_UINT32 = struct.pack("<I", 4)
_ALIGNMENT = "general.alignment"
#: Ending of the name of one of several files of a model.
_PART = re.compile(r"-\d+-of-(?!0*1$)\d+$")
#: Bytes of a header and arrays in arrays, at most.
_LONGEST_HEADER, _DEEPEST = 100_000_000, 4
#: Strings of arrays, at most: tokenizers have some 300,000. Bytes that are read at a time.
_MOST_STRINGS, _WINDOW = 2_000_000, 1 << 16


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

    def read(self, start: int = 0, stop: int | None = None) -> Array:
        """Return the bytes of parts start to stop along the first axis, shape (..., bytes of a row)."""
        stop = self.rows if stop is None else min(stop, self.rows)
        gguf, width = gguf_package(), math.prod(self.shape[1:])
        block, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[self.tag]]
        lengths = (max(stop - start, 0), *self.shape[1:])
        data = self._bytes(start * width // block * size, math.prod(lengths) // block * size)
        return data.reshape(*lengths[:-1], lengths[-1] // block * size)


class GgufHeader(NamedTuple):
    """The header of a GGUF file: keys with their values, and tensors."""

    pairs: dict[str, bytes]  #: type and value of each key, as in the file
    align: int  #: bytes that tensors start at multiples of
    entries: dict[str, Entry]
    part: str = ""  #: "-00001-of-00003" of the first of three files of a model


def gguf_package() -> Any:
    """Return the `gguf` package, which knows the sizes of blocks."""
    try:
        import gguf
    except ImportError:
        raise CheckpointError(
            "GGUF files need the gguf package: pip install 'lowprec[checkpoints]'"
        ) from None
    return gguf


def open_gguf(path: Path) -> GgufHeader:
    """Return the header of a GGUF file; of the tensors' data nothing is read.

    Raises CheckpointError: a file that is none, that is cut, or the `gguf` package is missing.

    Source
    ------
    [GGML] docs/gguf.md.
    """
    gguf_package()
    try:
        with open_regular(path) as file:
            return _header(path, _Cursor(file), stamp(os.fstat(file.fileno())))
    except (ValueError, OSError) as error:
        raise CheckpointError(f"cannot read {str(path)!r} as a GGUF file: {error}") from None


class _Cursor:
    """A place in a header, which moves over what is read; each length is held against the file's size."""

    def __init__(self, file: BinaryIO) -> None:
        self.file, self.size, self.at = file, os.fstat(file.fileno()).st_size, 0
        self._window, self._first, self._left = b"", 0, _MOST_STRINGS

    def take(self, count: int) -> bytes:
        """Return so many bytes."""
        start = self.at
        self.skip(count)
        return self.since(start)

    def since(self, start: int) -> bytes:
        """Return the bytes from a place to this one."""
        if not self._first <= start <= self.at <= self._first + len(self._window):
            self.file.seek(start)
            self._window, self._first = self.file.read(max(self.at - start, _WINDOW)), start
        found = self._window[start - self._first : self.at - self._first]
        if len(found) < self.at - start:
            raise ValueError("it was cut while it was read")
        return found

    def skip(self, count: int) -> None:
        """Move over so many bytes."""
        left = min(self.size, _LONGEST_HEADER) - self.at
        if count > left:
            raise ValueError(f"{count:,} bytes are said to follow at byte {self.at:,}, and {left:,} do")
        self.at += count

    def number(self, kind: str = "Q") -> int:
        """Return an unsigned integer: "I" of 32 bits, "Q" of 64."""
        found: int = struct.unpack(f"<{kind}", self.take(struct.calcsize(kind)))[0]
        return found

    def text(self) -> str:
        """Return a string."""
        return self.take(self.number()).decode()

    def value(self, kind: int, depth: int = 0) -> None:
        """Move over a value of a type."""
        if kind in _SIZES:
            self.skip(_SIZES[kind])
        elif kind == _STRING:
            self.skip(self.number())
        elif kind == _ARRAY and depth < _DEEPEST:
            inner, count = self.number("I"), self.number()
            if inner in _SIZES:
                self.skip(count * _SIZES[inner])
            else:
                self._left -= count
                if self._left < 0:
                    raise ValueError(
                        f"its arrays have more than {_MOST_STRINGS:,} strings, which are not read"
                    )
                for _ in range(count):
                    self.value(inner, depth + 1)
        else:
            raise ValueError(f"at byte {self.at:,} is a value of type {kind}, or arrays nested too deeply")


def _header(path: Path, cursor: _Cursor, mark: tuple[int, ...]) -> GgufHeader:
    if cursor.take(4) != b"GGUF":
        raise ValueError("it does not begin with GGUF")
    version = cursor.number("I")
    if version not in (2, 3):
        raise ValueError(f"its version is {version}, and little-endian files of versions 2 and 3 are read")
    count, pairs_count = cursor.number(), cursor.number()
    if max(count, pairs_count) > MOST_TENSORS:
        what = f"it has {count:,} tensors and {pairs_count:,} keys"
        raise ValueError(f"{what}, and at most {MOST_TENSORS:,} of each are read")
    pairs: dict[str, bytes] = {}
    for _ in range(pairs_count):
        key, start = cursor.text(), cursor.at
        cursor.value(cursor.number("I"))
        if key in pairs:
            raise ValueError(f"it has the key {quoted(key)} twice")
        pairs[key] = cursor.since(start)
    align = int.from_bytes(pairs[_ALIGNMENT][4:], "little") if _ALIGNMENT in pairs else 32
    if pairs.get(_ALIGNMENT, _UINT32)[:4] != _UINT32 or align == 0 or align & (align - 1):
        raise ValueError(f"its {_ALIGNMENT} is no power of two in 32 bits")
    infos = [_info(cursor) for _ in range(count)]
    start = -(-cursor.at // align) * align
    entries: dict[str, Entry] = {}
    for name, shape, raw, offset in infos:
        entry = _entry(path, name, shape, raw, start + offset, mark)
        if entry.start + entry.nbytes > cursor.size:
            raise ValueError(f"tensor {quoted(name)} ends behind the file")
        if name in entries:
            raise ValueError(f"it has two tensors {quoted(name)}")
        entries[name] = entry
    number, files = _number(pairs, "split.no"), _number(pairs, "split.count")
    named = _PART.search(path.stem)
    part = f"-{number + 1:05}-of-{files:05}" if files > 1 else named[0] if named else ""
    return GgufHeader(pairs, align, entries, part)


def _number(pairs: dict[str, bytes], key: str) -> int:
    """Return the whole number of a key, 0 where the key is missing."""
    pair = pairs.get(key, _UINT32 + bytes(4))
    kind = int.from_bytes(pair[:4], "little")
    number = int.from_bytes(pair[4:], "little", signed=kind in _SIGNED)
    if kind not in (*_UNSIGNED, *_SIGNED) or number < 0:
        raise ValueError(f"its {key} is no whole number from 0 on")
    return number


def _info(cursor: _Cursor) -> tuple[str, tuple[int, ...], int, int]:
    """Return a tensor's name, shape, type and offset."""
    name, axes = cursor.text(), cursor.number("I")
    lengths = struct.unpack(f"<{axes}Q", cursor.take(8 * axes)) if axes <= 64 else (0,) * 65
    shape = counts(lengths[::-1], f"the shape of tensor {quoted(name)}")
    return name, shape, cursor.number("I"), cursor.number()


def _entry(
    path: Path, name: str, shape: tuple[int, ...], raw: int, start: int, mark: tuple[int, ...]
) -> Entry:
    gguf = gguf_package()
    tag = gguf.GGMLQuantizationType(raw)
    block, size = gguf.GGML_QUANT_SIZES[tag]
    if (shape or (1,))[-1] % block:
        raise ValueError(f"rows of tensor {quoted(name)} are no whole blocks of {block} elements")
    kind = Entry if tag.name in TAGS else GgufBlocks
    return kind(name, tag.name, shape, path, start, math.prod(shape) // block * size, stamp=mark)
