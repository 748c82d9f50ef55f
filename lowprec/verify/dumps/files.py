"""Arrays that are compared, in memory or in files larger than memory.

A dump is read in pieces, in the order of C, and taken from at single places.
"""

from __future__ import annotations

import ast
import math
import os
import re
import struct
from pathlib import Path
from typing import IO, Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from lowprec import files
from lowprec.arrays.blocks.block_stream import axes_of
from lowprec.arrays.blocks.packing import packed_bytes, packed_shape, unpack
from lowprec.arrays.checks import UNSIGNED, code_dtype, typed_codes
from lowprec.arrays.convert import decode
from lowprec.checkpoints.container import (
    TAGS,
    CheckpointError,
    HeldEntry,
    absent,
    changed,
    counts,
    stamp,
)
from lowprec.checkpoints.folder import open_checkpoint
from lowprec.checkpoints.weights import by_name, weights_of
from lowprec.spec import catalog
from lowprec.spec.block import BlockFormat
from lowprec.spec.format import Format
from lowprec.verify.codes.display import quoted
from lowprec.verify.codes.values import own_dtype
from lowprec.verify.dumps.base import Dump, DumpError, Held
from lowprec.verify.dumps.weights import WeightDump

__all__ = ["Dump", "DumpError", "Held", "Spool", "Values", "npy_header", "open_dump", "open_npy"]
__all__ += ["open_results"]

Array = npt.NDArray[Any]

_TEXT = (".hex", ".mem", ".txt")
_CHECKPOINTS = (".safetensors", ".gguf", ".onnx", ".pt", ".pth")
#: A comment; its group is there where a line ends within it.
_COMMENT = re.compile(r"/\*.*?(?:\*/|(\Z))|(?://|#).*", re.DOTALL)
_WORD = re.compile(r"(?:0[xX])?[0-9a-fA-F]+(?:_[0-9a-fA-F]+)*")
_PIECE, _SCATTERED = 1 << 20, 1 << 11
#: Elements that are read at once where some of them are taken.
_WINDOW = 1 << 16

#: Characters of NumPy's headers, at most.
_NPY_HEADER = 10_000


class Values(Dump):
    """The values of elements in a wider type."""

    def __init__(self, of: Dump, dtype: np.dtype[Any]) -> None:
        self._of, self.name, self.shape, self.dtype = of, of.name, of.shape, dtype

    def read(self, start: int, stop: int) -> Array:
        """Return elements start to stop, in one dimension."""
        return self._widened(self._of.read(start, stop))

    def take(self, index: Array) -> Array:
        """Return the elements at these places."""
        return self._widened(self._of.take(index))

    def _widened(self, elements: Array) -> Array:
        fmt = catalog.carrier(elements.dtype)
        assert fmt is not None, "results are real numbers"
        return np.asarray(decode(typed_codes(elements, fmt), fmt, dtype=self.dtype))


class _Filed(Dump):
    """An array in a file from some byte on."""

    keep: object = None  #: what must live as long as this

    def __init__(
        self,
        path: Path,
        name: str,
        dtype: np.dtype[Any],
        shape: tuple[int, ...],
        offset: int = 0,
        mark: tuple[int, ...] = (),
    ) -> None:
        self.name, self.shape, self._stored = name, shape, dtype
        self._mark = mark or stamp(path.stat())
        self.dtype = dtype.newbyteorder("=")
        self._path, self._offset = path.absolute(), offset
        known = catalog.carrier(self.dtype) if self.dtype.kind == "V" else None
        self._bits = 8 * dtype.itemsize if known is None else known.width
        have, need = path.stat().st_size - offset, math.prod(shape) * dtype.itemsize
        if have < need:
            raise DumpError(
                f"{name!r} has {have:,} bytes of data, but {_spelled(shape)} of {dtype} takes {need:,}"
            )

    def read(self, start: int, stop: int) -> Array:
        """Return elements start to stop, in one dimension."""
        stop = min(stop, self.size)
        offset = self._offset + start * self._stored.itemsize
        # As integers: NumPy's own reading of types that are not its own is slow.
        words = np.fromfile(self._path, _word(self._stored), max(stop - start, 0), offset=offset)
        self._check()
        if self._bits < 8 and (wrong := words >> self._bits != 0).any():
            raise DumpError(
                f"{self.name!r} has bits beyond the {self._bits} of {self.dtype}, the first at index "
                f"{start + int(np.argmax(wrong)):,}; codes without gaps are FILE:packed, bytes FILE:uint8"
            )
        return words.view(self._stored).astype(self.dtype, copy=False)

    def take(self, index: Array) -> Array:
        """Return the elements at these places."""
        if not index.size:
            return self.read(0, 0)
        found, order = np.empty(index.size, self.dtype), np.argsort(index)
        # Read, and not mapped into memory: where a mapped file is cut, the system ends the process.
        for some in np.split(order, np.flatnonzero(np.diff(index[order] // _WINDOW)) + 1):
            first, last = int(index[some[0]]), int(index[some[-1]])
            found[some] = self.read(first, last + 1)[index[some] - first]
        return found

    def _check(self) -> None:
        """Refuse what was read if the file is not the one that was opened, unchanged."""
        if stamp(self._path.stat()) != self._mark:
            raise DumpError(changed(self._path))


class _Packed(Dump):
    """Codes without gaps, as the codes that they are."""

    def __init__(self, of: Dump, fmt: Format, shape: tuple[int, ...] | None) -> None:
        self._of, self._fmt, self.name, self.dtype = of, fmt, of.name, code_dtype(fmt)
        self._codes, self._bytes = (2, 1) if fmt.width == 4 else (4, 3) if fmt.width == 6 else (4, 1)
        if not of.shape or shape == ():
            raise DumpError(f"{self.name!r}: packed codes have an axis, and this array has none")
        length = of.shape[-1] // self._bytes * self._codes
        self.shape = (*of.shape[:-1], length) if shape is None else shape
        if shape is not None and math.prod(shape[:-1]) * packed_bytes(shape[-1], fmt) != of.size:
            need = math.prod(shape[:-1]) * packed_bytes(shape[-1], fmt)
            raise DumpError(
                f"{self.name!r} has {of.size:,} bytes, but {_spelled(shape)} of {fmt.name!r} takes {need:,}"
            )
        if of.shape[-1] % self._bytes:
            raise DumpError(
                f"{self.name!r} has {of.shape[-1]:,} bytes along its last axis, no multiple of the "
                f"{self._bytes} that {self._codes} codes of {fmt.name!r} take; save rows without the bytes "
                "behind them"
            )
        if self.shape[-1] % self._codes and math.prod(self.shape[:-1]) > 1:
            raise DumpError(
                f"rows of {self.shape[-1]} codes of {fmt.name!r} do not fill their bytes; unpack them with "
                f"BlockArray.unpack, or give rows of a multiple of {self._codes}"
            )

    def read(self, start: int, stop: int) -> Array:
        """Return elements start to stop, in one dimension."""
        stop = min(stop, self.size)
        first, last = start // self._codes, -(-stop // self._codes)
        packed = self._of.read(first * self._bytes, last * self._bytes)
        return unpack(packed, self._fmt)[start - first * self._codes :][: stop - start]

    def take(self, index: Array) -> Array:
        """Return the elements at these places."""
        if not index.size:
            return np.empty(0, self.dtype)
        groups = index // self._codes
        places = (groups[:, None] * self._bytes + np.arange(self._bytes)).reshape(-1)
        codes = unpack(self._of.take(places).reshape(-1, self._bytes), self._fmt)
        return np.asarray(codes[np.arange(index.size), index % self._codes])


def open_results(
    spelled: str, to: Format | BlockFormat | str | None, shape: tuple[int, ...] | None, axis: Any = None
) -> Dump:
    """Open a file of results in a format, or of elements of blocks, which are packed along their axis."""
    if to is None or not catalog.is_block(to):
        return open_dump(spelled, None if to is None else catalog.format(to), shape)
    fmt = catalog.block_format(to)
    return open_dump(spelled, fmt.element, shape, -1 if shape is None else axes_of(fmt, axis, len(shape))[-1])


def open_dump(
    spelled: str, fmt: Format | None = None, shape: tuple[int, ...] | None = None, axis: int = -1
) -> Dump:
    """Return the array that a word of the command line names.

    ================================  ==========================================================
    `values.npy`                      an array that NumPy saved, ml_dtypes' types too
    `model.safetensors:layer.weight`  a tensor of a file; of a quantised weight, whose scales are in the
                                      file, the values. `.gguf`, `.onnx`, `.pt`, folders of shards too
    `model.safetensors:NAME:codes`    the codes of a quantised weight's elements, unpacked; `:scales` likewise
    `dump.bin:float32:1024,768`       bytes as they are, little-endian, or big-endian in a type such as
                                      `>f4`; if they are not one-dimensional, in a shape
    `dump.bin:packed:64,128`          codes of 2, 4 or 6 bits without gaps
    `codes.hex`, `.mem`, `.txt`       codes in hexadecimal, with comments behind // or #
    ================================  ==========================================================

    Parameters
    ----------
    spelled : str
    fmt : Format, optional
        Of the codes, where the file says none: text and packed codes need it.
    shape : tuple of int, optional
        Of packed codes whose file does not say how many there are.
    axis : int
        Axis of the shape that codes are packed along.

    Raises
    ------
    DumpError
        A file that is not there, or not what it is said to be.
    """
    path, *words = _split(spelled)
    if path.suffix == ".npy":
        dump: Dump = open_npy(path, fmt)
    elif path.suffix in _CHECKPOINTS or path.is_dir():
        dump, words = _tensor(path, ":".join(words)), []
    elif path.suffix in _TEXT:
        if fmt is None:
            raise DumpError(f"{str(path)!r} holds codes in hexadecimal: say of which format")
        dump = _text(path, fmt)
    else:
        return _raw(path, words, fmt, shape, axis)
    if words == ["packed"]:
        return _packed(dump, fmt, shape, axis)
    if words:
        raise DumpError(f"{spelled!r}: only raw files and packed codes take a type, not {':'.join(words)!r}")
    return dump


def _split(spelled: str) -> tuple[Any, ...]:
    """Return a path that is there, and the words behind it."""
    parts = spelled.split(":")
    for count in range(len(parts), 0, -1):
        path = Path(":".join(parts[:count]))
        try:
            is_there = path.is_file() or (path.is_dir() and count < len(parts))
        except OSError:  # with the tensor's name it is too long for a path
            continue
        if is_there:
            return path, *parts[count:]
    raise DumpError(absent(parts[0]))


def _raw(path: Path, words: list[str], fmt: Format | None, shape: tuple[int, ...] | None, axis: int) -> Dump:
    if not 1 <= len(words) <= 2:
        raise DumpError(
            f"{str(path)!r} does not say what it holds; give its type and shape, for instance "
            f"'{path}:float32:1024,768', or save an .npy file"
        )
    if len(words) == 2:
        try:
            shape = counts([int(part) for part in re.split("[,x]", words[1])], "a shape")
        except ValueError:
            raise DumpError(
                f"{words[1]!r} is no shape of {str(path)!r}; give for instance 1024,768"
            ) from None
    size = path.stat().st_size
    if words[0] == "packed":
        return _packed(_Filed(path, str(path), np.dtype(np.uint8), (size,)), fmt, shape, axis)
    dtype = _type(words[0])
    if shape is None or len(words) == 1:
        if size % dtype.itemsize:
            raise DumpError(
                f"{str(path)!r} has {size:,} bytes, which is no multiple of {dtype}'s {dtype.itemsize}"
            )
        shape = (size // dtype.itemsize,)
    stored = dtype if words[0].startswith(">") else dtype.newbyteorder("<")
    dump = _Filed(path, str(path), stored, shape)
    if dump.size * dtype.itemsize != size:
        taken = dump.size * dtype.itemsize
        raise DumpError(f"{str(path)!r} has {size:,} bytes, but {_spelled(shape)} of {dtype} takes {taken:,}")
    return dump


def _packed(dump: Dump, fmt: Format | None, shape: tuple[int, ...] | None, axis: int) -> Dump:
    if fmt is None or fmt.width not in (2, 4, 6):
        given = "none is named" if fmt is None else f"{fmt.name!r} has {fmt.width}"
        raise DumpError(f"{dump.name!r}: packed codes have 2, 4 or 6 bits, and {given}")
    if dump.dtype.itemsize != 1:
        raise DumpError(f"{dump.name!r}: packed codes are bytes, not {dump.dtype}")
    if shape and len(dump.shape) == len(shape):
        along = [place for place in range(len(shape)) if dump.shape == packed_shape(shape, fmt, place)]
        if along and axis % len(shape) not in along:
            raise DumpError(
                f"{dump.name!r} has shape {dump.shape}: codes of shape {shape} packed along axis {along[0]}, "
                f"and axis {axis % len(shape)} is read; give the axis of the blocks, or pack along the last"
            )
    if shape and axis % len(shape) < len(shape) - 1:
        packed = packed_shape(shape, fmt, axis)
        if dump.size != math.prod(packed):
            what = f"{_spelled(shape)} of {fmt.name!r} packed along axis {axis}"
            raise DumpError(f"{dump.name!r} has {dump.size:,} bytes, but {what} takes {math.prod(packed):,}")
        return Held(unpack(dump.read(0, dump.size).reshape(packed), fmt, axis, shape[axis]), dump.name)
    return _Packed(dump, fmt, shape)


def _type(name: str) -> np.dtype[Any]:
    try:
        found = np.dtype(getattr(ml_dtypes, name, name))
        if found.kind not in "iufV" or found.itemsize not in UNSIGNED:
            raise TypeError
        return found
    except TypeError:
        raise DumpError(
            f"{name!r} is no type; use one of NumPy or ml_dtypes, such as float32 or uint8"
        ) from None


def npy_header(file: IO[bytes]) -> tuple[np.dtype[Any], tuple[int, ...], bool]:
    """Read the header of an .npy file: type, shape, and whether the order is Fortran's.

    Raises ValueError: no header, or one that takes more than a number's header can.
    """
    version = np.lib.format.read_magic(file)
    if version not in ((1, 0), (2, 0), (3, 0)):
        raise ValueError(f"its version is {version}, and versions up to (3, 0) are read")
    try:
        kind = "<H" if version == (1, 0) else "<I"
        (length,) = struct.unpack(kind, file.read(struct.calcsize(kind)))
        if length > _NPY_HEADER:
            raise ValueError(
                f"its header is said to have {length:,} bytes, and NumPy's have at most {_NPY_HEADER:,}"
            )
        header = ast.literal_eval(file.read(length).decode("latin1"))
        descr, shape = header["descr"], counts(header["shape"], "its shape")
        if not isinstance(descr, str):
            raise ValueError("it holds named fields, and only plain numbers are compared")
        dtype = np.dtype("V1" if descr[1:] == "f1" else descr)  # of older versions of ml_dtypes
        if dtype.names is not None or dtype.subdtype is not None or type(header["fortran_order"]) is not bool:
            raise ValueError("it holds fields or arrays, or its order is neither True nor False")
        return dtype, shape, header["fortran_order"]
    except KeyError as error:
        raise ValueError(f"its header has no {error}") from None
    except (SyntaxError, TypeError, struct.error, RecursionError, MemoryError) as error:
        raise ValueError(str(error) or type(error).__name__) from None


def open_npy(path: Path, fmt: Format | None = None) -> Dump:
    """Open an .npy file; types of ml_dtypes, whose name NumPy does not save, are codes of the format."""
    with path.open("rb") as file:
        mark = stamp(os.fstat(file.fileno()))
        try:
            dtype, shape, fortran = npy_header(file)
        except ValueError as error:
            raise DumpError(f"cannot read {str(path)!r} as an .npy file: {error}") from None
        offset = file.tell()
    own = None if fmt is None or dtype.kind != "V" or 8 * dtype.itemsize != fmt.width else own_dtype(fmt)
    dtype = dtype if own is None else own
    unnamed = dtype.type is np.void and dtype.itemsize in UNSIGNED
    dtype = UNSIGNED[dtype.itemsize] if unnamed else dtype
    if (dtype.kind not in "iuf" and dtype != own) or dtype.itemsize not in UNSIGNED:
        raise DumpError(f"{str(path)!r} holds {dtype}; only numbers of at most 64 bits are compared")
    dump: Dump = _Filed(path, str(path), dtype, shape, offset, mark)
    if more := mark[0] - offset - dump.size * dtype.itemsize:
        raise DumpError(
            f"{str(path)!r} has {more:,} bytes behind its array, which may be another one; save one array in "
            f"a file"
        )
    if fortran and len(shape) > 1:
        dump = Held(dump.read(0, dump.size).reshape(shape, order="F"), str(path))
    dump.unnamed = unnamed
    return dump


def _tensor(path: Path, tensor: str) -> Dump:
    """Return a tensor by its name, or a quantised weight; F4 and F6, which have no whole bytes, are held."""
    try:
        checkpoint = open_checkpoint(path)
        if not tensor and len(checkpoint.entries) == 1:
            (tensor,) = checkpoint.entries
        name, _, part = tensor.rpartition(":")
        named = by_name(checkpoint, {tensor, name})
        quantized = {each: weight for each, weight in named.items() if weight.is_quantized}
        if tensor in quantized:
            return WeightDump(quantized[tensor], "values", f"{path}:{tensor}")
        if tensor not in checkpoint.entries and name in quantized and part in ("codes", "scales"):
            return WeightDump(quantized[name], part, f"{path}:{tensor}")
    except CheckpointError as error:
        kind = {".gguf": "a GGUF", ".onnx": "an ONNX", ".pt": "a torch", ".pth": "a torch"}.get(
            path.suffix, "a safetensors"
        )
        raise DumpError(f"cannot read {str(path)!r} as {kind} file: {error}") from None
    if tensor not in checkpoint.entries:
        quantised = [weight.name for weight in weights_of(checkpoint) if weight.is_quantized]
        names = list(dict.fromkeys([*quantised, *checkpoint.entries]))
        shown = ", ".join(map(quoted, names[:10])) + (", ..." if len(names) > 10 else "")
        which = f"no tensor {tensor!r}" if tensor else f"{len(checkpoint.entries)} tensors"
        raise DumpError(f"{str(path)!r} has {which}; name one behind a colon: {shown}")
    entry = checkpoint.entries[tensor]
    if entry.tag not in TAGS or entry.dtype.kind in "bc":
        raise DumpError(f"tensor {tensor!r} of {str(path)!r} has type {entry.tag!r}, which is not compared")
    if TAGS[entry.tag][1] < 8 or isinstance(entry, HeldEntry):
        return Held(entry.read(), f"{path}:{tensor}")
    return _Filed(entry.path, f"{path}:{tensor}", entry.dtype, entry.shape, entry.start, entry.stamp)


def _text(path: Path, fmt: Format) -> Dump:
    """Return codes in hexadecimal, put beside each other in a temporary file."""
    spool, count, opened = Spool(code_dtype(fmt), str(path)), 0, 0
    with path.open(encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(lines, 1):
            text, opened = _uncommented(line, opened, number)
            codes: list[int] = []
            for found in re.finditer(r"\S+", text):
                word = found[0]
                if len(codes) == _SCATTERED:  # a line may be a whole file
                    spool.append(codes)
                    count, codes = count + len(codes), []
                what = "" if _WORD.fullmatch(word.removeprefix("@")) else "no hexadecimal number"
                if word.startswith("@") and not what:
                    if int(word[1:], 16) == count + len(codes):
                        continue
                    what = f"an address other than that of the next code, {count + len(codes):x}"
                if not what and int(word, 16) >> fmt.width:
                    what = f"no {fmt.width}-bit code of {fmt.name!r}"
                if what:
                    raise DumpError(f"line {number} of {str(path)!r} holds {quoted(word)}, which is {what}")
                codes.append(int(word, 16))
            spool.append(codes)
            count += len(codes)
    if opened:
        raise DumpError(f"line {opened} of {str(path)!r} begins a comment /* that has no end")
    return spool.dump()


def _uncommented(line: str, opened: int, number: int) -> tuple[str, int]:
    """Return a line without comments, and the line that a comment which goes on began at, or 0."""
    if opened:
        _, end, line = line.partition("*/")
        opened = opened if not end else 0
    if any(found[1] is not None for found in _COMMENT.finditer(line)):
        opened = number
    return _COMMENT.sub(" ", line), opened


class Spool:
    """Numbers that come one after the other, kept in a temporary file."""

    def __init__(self, dtype: npt.DTypeLike, name: str) -> None:
        self._path, self._dtype, self._name = files.scratch(self) / "spool", np.dtype(dtype), name
        self._held: list[Array] = []
        self._count = self._pending = 0

    def append(self, numbers: npt.ArrayLike) -> None:
        """Append numbers."""
        self._held.append(np.asarray(numbers, self._dtype))
        self._count += self._held[-1].size
        self._pending += self._held[-1].size
        if self._pending > _PIECE:
            self._write()

    def _write(self) -> None:
        with files.own(self._path) as file, files.filling(file, self._path):
            file.seek(0, os.SEEK_END)
            file.write(np.concatenate([np.empty(0, self._dtype), *self._held]).tobytes())
        self._held, self._pending = [], 0

    def dump(self) -> Dump:
        """Return all of them. The file goes when nobody reads it any more."""
        self._write()
        dump = _Filed(self._path, self._name, self._dtype, (self._count,))
        dump.keep = self
        return dump


def _word(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return UNSIGNED[dtype.itemsize] if dtype.kind in "Vf" and dtype.isnative else dtype


def _spelled(shape: tuple[int, ...]) -> str:
    return f"an array of shape {'x'.join(map(str, shape))}"
