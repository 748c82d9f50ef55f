"""safetensors files: hostile headers, tensors as arrays of NumPy and ml_dtypes.

A file is 8 bytes with the length of a JSON header, the header, and the data. Nothing that a header says is
believed before it has been held against the size of the file.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import math
import os
import stat
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO

import ml_dtypes
import numpy as np
import numpy.typing as npt

from lowprec.spec.number_text import read_integer

__all__ = [
    "LONGEST_HEADER",
    "METADATA",
    "TAGS",
    "TYPES",
    "CheckpointError",
    "Entry",
    "Header",
    "HeldEntry",
    "absent",
    "changed",
    "counts",
    "held_shape",
    "is_text",
    "naming",
    "open_file",
    "open_regular",
    "parse_json",
    "quoted",
    "read_file",
    "read_text",
    "stamp",
    "tag_of",
]

Array = npt.NDArray[Any]


class CheckpointError(ValueError):
    """A file that is not what it should be, or cannot be what is asked; the command line exits with 2."""


@contextmanager
def naming(weight: str) -> Iterator[None]:
    """Put the name of a weight before errors in its numbers that lack it; other errors have it as a note."""
    try:
        yield
    except (ValueError, ArithmeticError) as error:
        if repr(weight) in str(error):
            raise
        raise CheckpointError(f"weight {weight!r}: {error}") from error
    except Exception as error:
        error.add_note(f"in weight {weight!r}")
        raise


#: Bytes of a report that is read, at most.
_LONGEST_TEXT = 100_000_000
#: Key of the metadata in headers of safetensors, where the others are names of tensors.
METADATA = "__metadata__"
#: Names of types in headers, and how many bits an element takes. F4 and F6 have no gaps between elements.
TAGS: Mapping[str, tuple[np.dtype[Any], int]] = {
    "BOOL": (np.dtype(np.bool_), 8),
    "F4": (np.dtype(ml_dtypes.float4_e2m1fn), 4),
    "F6_E2M3": (np.dtype(ml_dtypes.float6_e2m3fn), 6),
    "F6_E3M2": (np.dtype(ml_dtypes.float6_e3m2fn), 6),
    "F8_E4M3": (np.dtype(ml_dtypes.float8_e4m3fn), 8),
    "F8_E5M2": (np.dtype(ml_dtypes.float8_e5m2), 8),
    "F8_E4M3FNUZ": (np.dtype(ml_dtypes.float8_e4m3fnuz), 8),
    "F8_E5M2FNUZ": (np.dtype(ml_dtypes.float8_e5m2fnuz), 8),
    "F8_E8M0": (np.dtype(ml_dtypes.float8_e8m0fnu), 8),
    "BF16": (np.dtype(ml_dtypes.bfloat16), 16),
    "F16": (np.dtype(np.float16), 16),
    "F32": (np.dtype(np.float32), 32),
    "F64": (np.dtype(np.float64), 64),
    "C64": (np.dtype(np.complex64), 64),
    **{
        f"{kind}{bits}": (np.dtype(f"{kind.lower()}{bits // 8}"), bits)
        for kind in "IU"
        for bits in (8, 16, 32, 64)
    },
}

#: Those, and types that other containers have: integers of 2 and 4 bits, without gaps too.
TYPES: Mapping[str, tuple[np.dtype[Any], int]] = {
    **TAGS,
    "I4": (np.dtype(ml_dtypes.int4), 4),
    "U4": (np.dtype(ml_dtypes.uint4), 4),
    "I2": (np.dtype(ml_dtypes.int2), 2),
    "U2": (np.dtype(ml_dtypes.uint2), 2),
}

#: Bytes that the safetensors library takes at most, and dimensions of NumPy's arrays. Tensors of a header and
#: keys of GGUF, of which models have fewer than 100,000; commas of a JSON text.
LONGEST_HEADER, _DIMENSIONS, MOST_TENSORS, _MOST_COMMAS = 100_000_000, 64, 250_000, 4_000_000
_NO_WAITING = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
#: Elements from which on NumPy makes no arrays of wide types; axes of 0 count as 1.
_ELEMENTS = 1 << 56
#: Bytes of a tensor that are read at a time where all of them are.
_PART = 1 << 24


def tag_of(dtype: npt.DTypeLike) -> str:
    """Return the name that headers have for a type.

    >>> tag_of(ml_dtypes.bfloat16)
    'BF16'

    Raises CheckpointError: a type that safetensors has no name for.
    """
    asked = np.dtype(dtype)
    for tag, (known, _) in TAGS.items():
        if asked in (known, known.newbyteorder("S")):
            return tag
    raise CheckpointError(
        f"safetensors has no name for {asked}; it has {', '.join(TAGS)}. Convert numbers to one of these, "
        f"and save codes as unsigned integers"
    )


@dataclass(frozen=True, slots=True)
class Entry:
    """A tensor of a file: where it lies, and its elements when asked.

    Parameters
    ----------
    name, tag : str
        Its name, and that of its type in the header.
    shape : tuple of int
        Of elements, also where several lie in a byte.
    path : Path
    start, nbytes : int
        First byte of it in the file, and how many there are.
    stamp : tuple of int
        `stamp` of the file when its header was read. No other file is read later.
    """

    name: str
    tag: str
    shape: tuple[int, ...]
    path: Path = field(repr=False)
    start: int = field(repr=False)
    nbytes: int
    stamp: tuple[int, ...] = field(default=(), compare=False, repr=False, kw_only=True)

    def __post_init__(self) -> None:
        """Refuse shapes that no array has, and names that no other software reads."""
        if not is_text(self.name):
            raise CheckpointError(f"the name of tensor {quoted(self.name)} is no Unicode text; rename it")
        held_shape(self.shape, f"the shape of tensor {quoted(self.name)} of {str(self.path)!r}")

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of its elements in memory."""
        return TYPES[self.tag][0]

    @property
    def bits(self) -> int:
        """Bits of an element."""
        return TYPES[self.tag][1]

    @property
    def row_bits(self) -> int:
        """Bits of a part along its first axis."""
        return self.bits * math.prod(self.shape[1:])

    @property
    def rows(self) -> int:
        """Number of parts along the first axis: 1 without axes."""
        return self.shape[0] if self.shape else 1

    def read(self, start: int = 0, stop: int | None = None) -> Array:
        """Return parts start to stop along the first axis, read into memory."""
        stop = self.rows if stop is None else min(stop, self.rows)
        shape = (max(stop - start, 0), *self.shape[1:]) if self.shape else ()
        if self.row_bits % 8:  # rows do not end with bytes: read all of them
            whole = self._codes(self._bytes(0, self.nbytes), self.shape)
            return whole[start:stop] if self.shape else whole
        data = self._bytes(start * self.row_bits // 8, math.prod(shape) * self.bits // 8)
        return self._codes(data, shape)

    def parts(self) -> Iterator[npt.NDArray[np.uint8]]:
        """Yield its bytes as the file has them, some at a time."""
        for offset in range(0, self.nbytes, _PART):
            yield self._bytes(offset, min(_PART, self.nbytes - offset))

    def _bytes(self, offset: int, count: int) -> npt.NDArray[np.uint8]:
        with self._opened() as file:
            file.seek(self.start + offset)
            found = np.fromfile(file, np.uint8, count)
            if found.size != count:
                raise CheckpointError(_cut(self))
        return found

    @contextlib.contextmanager
    def _opened(self) -> Iterator[BinaryIO]:
        """Open the file, and refuse what was read if it is not the one of the header, unchanged."""
        with self.path.open("rb") as file:
            yield file
            if self.stamp and stamp(os.fstat(file.fileno())) != self.stamp:
                raise CheckpointError(changed(self.path))

    def _codes(self, data: npt.NDArray[np.uint8], shape: tuple[int, ...]) -> Array:
        dtype, bits = TYPES[self.tag]
        if bits >= 8:
            return data.view(dtype).reshape(shape)
        from lowprec.arrays.blocks.packing import unpack
        from lowprec.spec import catalog

        # One run of codes: neither rows nor the last of them need end with whole groups.
        data = np.pad(data, (0, -data.size % 3)) if bits == 6 else data
        return unpack(data, catalog.format(dtype), size=math.prod(shape)).view(dtype).reshape(shape)


@dataclass(frozen=True, slots=True)
class HeldEntry(Entry):
    """A tensor whose bytes are in memory, as its file has them otherwise than in one run.

    Parameters
    ----------
    held : array of uint8
        Its elements, little-endian, packed as in files.
    """

    held: npt.NDArray[np.uint8] = field(compare=False, repr=False)

    def _bytes(self, offset: int, count: int) -> npt.NDArray[np.uint8]:
        if self.stamp and stamp(os.stat(self.path)) != self.stamp:
            raise CheckpointError(changed(self.path))
        return self.held[offset : offset + count]


@dataclass(frozen=True, slots=True)
class Header:
    """Contents of a file's header, checked.

    Parameters
    ----------
    path : Path
    entries : mapping of str to Entry
        By name, in the order of their data.
    metadata : mapping of str to str
    gaps : int
        Bytes of data that belong to no tensor; the safetensors library refuses files that have some.
    """

    path: Path
    entries: Mapping[str, Entry]
    metadata: Mapping[str, str]
    gaps: int


def open_file(path: Path) -> Header:
    """Return the tensors of a safetensors file; of its data nothing is read.

    Raises
    ------
    CheckpointError
        A header that is cut, hostile or wrong: longer than the file, no JSON, nested too deeply, a name
        twice, an unknown type, offsets outside of the data, overlapping, or not of the size that type and
        shape take.
    """
    try:
        with open_regular(path) as file:
            return _header(path, file)
    except OSError as error:
        raise CheckpointError(f"cannot read {str(path)!r}: {error.strerror or error}") from None


def read_file(path: Path) -> Header:
    """Return the tensors of a safetensors file, all in memory.

    The file is opened once, so that another one that takes its place meanwhile is not read.

    Raises CheckpointError: as `open_file`, or a file that was cut since.
    """
    try:
        with open_regular(path) as file:
            before = stamp(os.fstat(file.fileno()))[:2]  # another file of its name is no matter here
            header = _header(path, file)
            held = {name: _held(entry, file) for name, entry in header.entries.items()}
            if stamp(os.fstat(file.fileno()))[:2] != before:
                raise CheckpointError(changed(path))
            return replace(header, entries=held)
    except OSError as error:
        raise CheckpointError(f"cannot read {str(path)!r}: {error.strerror or error}") from None


def _held(entry: Entry, file: BinaryIO) -> HeldEntry:
    file.seek(entry.start)
    data = np.fromfile(file, np.uint8, entry.nbytes)
    if data.size != entry.nbytes:
        raise CheckpointError(_cut(entry))
    return HeldEntry(entry.name, entry.tag, entry.shape, entry.path, 0, entry.nbytes, data)


def _cut(entry: Entry) -> str:
    return f"{str(entry.path)!r} ends within tensor {entry.name!r}: it has been cut since"


def changed(path: Path) -> str:
    """Return the words for a file that did not stay as it was."""
    return f"{str(path)!r} was changed or replaced while it was read; start again when it is whole"


def stamp(found: os.stat_result) -> tuple[int, ...]:
    """Return size and times of a file, which change when it is written or another file takes its name."""
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns


def open_regular(path: Path) -> BinaryIO:
    """Open a file of a folder that need not be trusted; a pipe or a device would be waited for.

    Raises OSError: it cannot be opened, or is no regular file.
    """
    file = open(path, "rb", opener=lambda name, flags: os.open(name, os.O_RDONLY | flags | _NO_WAITING))
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
    return file


def read_text(path: Path, errors: str = "strict") -> str:
    """Return the text of a file or a pipe, which has an end, as some devices have not.

    Raises ValueError: it is too long, or no UTF-8.
    """
    with path.open("rb") as file:
        data = file.read(_LONGEST_TEXT + 1)
    if len(data) > _LONGEST_TEXT:
        raise ValueError(f"{str(path)!r} has more than {_LONGEST_TEXT:,} bytes, which no report has")
    return data.decode(errors=errors)


def absent(path: Path | str, what: str = "file") -> str:
    """Return why `os.path.isfile` is false: nothing is there, it cannot be reached, or it is no file."""
    why = "it is no regular file"
    try:
        os.stat(path)
    except (OSError, ValueError) as error:
        number = getattr(error, "errno", None)
        if number in (None, errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG):
            return f"there is no {what} {str(path)!r}"
        why = os.strerror(number or 0)
    return f"cannot read {str(path)!r}: {why}"


def parse_json(text: bytes, what: str) -> dict[str, Any]:
    """Return a JSON object from somewhere that need not be trusted.

    >>> parse_json(b'{"a": 1, "a": 2}', "the file")
    Traceback (most recent call last):
        ...
    lowprec.checkpoints.container.CheckpointError: the file has the name 'a' twice
    """
    if (many := text.count(b",")) > _MOST_COMMAS:
        raise CheckpointError(f"{what} has {many:,} commas, and at most {_MOST_COMMAS:,} are read")
    objects = itertools.count(1)
    try:
        found = json.loads(
            text.decode("utf-8-sig"),
            object_pairs_hook=lambda pairs: _once(pairs, what, next(objects)),
            parse_int=read_integer,
        )
    except RecursionError:
        raise CheckpointError(f"{what} is nested too deeply") from None
    except CheckpointError:
        raise
    except ValueError as error:
        raise CheckpointError(f"{what} is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise CheckpointError(f"{what} is no JSON object, but {quoted(found)}")
    return found


def counts(numbers: object, what: str) -> tuple[int, ...]:
    """Return a shape, or offsets: integers from 0 to 2**63 - 1, of at most 64 dimensions."""
    if not isinstance(numbers, list | tuple) or not all(
        type(part) is int and 0 <= part < 1 << 63 for part in numbers
    ):
        raise CheckpointError(f"{what} must be numbers from 0 to 2**63 - 1, not {quoted(numbers)}")
    if len(numbers) > _DIMENSIONS:
        raise CheckpointError(f"{what} has {len(numbers):,} dimensions, and arrays at most {_DIMENSIONS}")
    return tuple(numbers)


def held_shape(shape: tuple[int, ...], what: str) -> tuple[int, ...]:
    """Return a shape that an array can have: of no elements too, its other axes are limited.

    Raises CheckpointError: 2**56 elements and more, where axes of 0 count as 1.
    """
    if math.prod(max(length, 1) for length in shape) >= _ELEMENTS:
        raise CheckpointError(f"{what} is {quoted(list(shape))}, which no array has")
    return shape


def _once(pairs: list[tuple[str, Any]], what: str, number: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if number > MOST_TENSORS:
        raise CheckpointError(f"{what} has more than {MOST_TENSORS:,} objects, which are not read")
    for name, value in pairs:
        if name in found:
            raise CheckpointError(f"{what} has the name {quoted(name)} twice")
        for each in (name, value):
            if isinstance(each, str) and not is_text(each):
                raise CheckpointError(f"{what} has {quoted(each)}, which is no Unicode text")
        found[name] = value
    return found


def is_text(text: str) -> bool:
    r"""Return whether a string is Unicode text: one with half of a surrogate pair is none.

    >>> is_text("w\x00\U0001f600"), is_text("\ud83d")
    (True, False)
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def quoted(value: object) -> str:
    """Return the `repr` of a value, cut to 80 characters."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _header(path: Path, file: BinaryIO) -> Header:
    name, size = f"{str(path)!r}", os.fstat(file.fileno()).st_size
    mark = stamp(os.fstat(file.fileno()))  # before the header is read, lest it changes in between
    prefix = file.read(8)
    if len(prefix) < 8:
        raise CheckpointError(
            f"{name} is no safetensors file: it has {len(prefix)} bytes, and the first 8 are a length"
        )
    (length,) = struct.unpack("<Q", prefix)
    if length > size - 8 or length > LONGEST_HEADER:
        raise CheckpointError(
            f"{name} is no whole safetensors file: its header is said to have {length:,} bytes, and "
            f"{size - 8:,} "
            f"follow (at most {LONGEST_HEADER:,} are taken)"
        )
    entries = parse_json(file.read(length), f"the header of {name}")
    metadata = entries.pop(METADATA, {})
    if not isinstance(metadata, dict) or not all(isinstance(text, str) for text in metadata.values()):
        raise CheckpointError(
            f"the __metadata__ of {name} must be an object of strings, not {quoted(metadata)}"
        )
    start, room = 8 + length, size - 8 - length
    found = [_entry(path, name, tensor, entry, start, room, mark) for tensor, entry in entries.items()]
    found.sort(key=lambda entry: (entry.start, entry.nbytes))
    end = start
    gaps = 0
    for before, entry in zip([None, *found], found, strict=False):
        if entry.start < end and before is not None and entry.nbytes:
            raise CheckpointError(f"tensors {quoted(before.name)} and {quoted(entry.name)} of {name} overlap")
        gaps += max(entry.start - end, 0)
        end = max(end, entry.start + entry.nbytes)
    return Header(path, {entry.name: entry for entry in found}, metadata, gaps + start + room - end)


def _entry(
    path: Path, file: str, name: str, entry: object, start: int, room: int, mark: tuple[int, ...]
) -> Entry:
    where = f"tensor {quoted(name)} of {file}"
    if not isinstance(entry, dict) or not {"dtype", "shape", "data_offsets"} <= entry.keys():
        raise CheckpointError(f"{where} must have dtype, shape and data_offsets, not {quoted(entry)}")
    tag, shape = entry["dtype"], counts(entry["shape"], f"the shape of {where}")
    if not isinstance(tag, str) or tag not in TAGS:
        raise CheckpointError(f"{where} has type {quoted(tag)}; known are {', '.join(TAGS)}")
    offsets = counts(entry["data_offsets"], f"the data_offsets of {where}")
    if len(offsets) != 2 or not offsets[0] <= offsets[1] <= room:
        raise CheckpointError(f"{where} is said to lie at {quoted(list(offsets))} of {room:,} bytes of data")
    bits = math.prod(shape) * TAGS[tag][1]
    if bits != 8 * (offsets[1] - offsets[0]):
        raise CheckpointError(
            f"{where}: {tag} of shape {quoted(list(shape))} takes {bits / 8:,.10g} bytes, not the "
            f"{offsets[1] - offsets[0]:,} of its data_offsets"
        )
    return Entry(name, tag, shape, path, start + offsets[0], offsets[1] - offsets[0], stamp=mark)
