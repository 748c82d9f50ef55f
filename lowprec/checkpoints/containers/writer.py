"""Files written part by part, at places that are known from the beginning: what all their formats share."""

from __future__ import annotations

import contextlib
import os
import weakref
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from lowprec import files
from lowprec.checkpoints.container import MOST_TENSORS, CheckpointError, Entry

__all__ = ["Laid", "Planned", "Writer", "filling", "writable"]

#: Name, type and shape of a tensor that is to be written.
Planned = tuple[str, str, tuple[int, ...]]
#: The tensors of a file; what else it has, each piece with its place, of which the first begins the file and
#: says which tensors it has; and its size in bytes.
Laid = tuple[list[Entry], list[tuple[int, bytes]], int]


@contextlib.contextmanager
def writable(path: Path) -> Iterator[None]:
    """Say of an OSError in the body that a path cannot be written, and why."""
    try:
        yield
    except OSError as error:
        raise CheckpointError(f"cannot write {str(path)!r}: {error.strerror}") from None


@contextlib.contextmanager
def filling(file: BinaryIO) -> Iterator[None]:
    """Name an open file in an OSError of the body as `writable` does, and drop what was not written."""
    with writable(Path(file.name)), files.filling(file, Path(file.name)):
        yield


class Writer:
    """A file whose tensors have their places before they are written; subclasses say where, by its format.

    Parameters
    ----------
    file : binary file
        Open to read and write, and read by nobody else yet: the caller renames it when it is whole.
    plan : iterable of (str, str, tuple of int)
        Name, type and shape of each tensor; of GGUF's blocks the shape of their values.
    metadata : mapping of str to str
        Of Transformer Engine's tensors what they are made of, as `transformer_engine.metadata_of` gives it.
    again : bool
        Whether the file may have the same first piece and size already, and keeps what it has.
    source : Path, optional
        A GGUF file whose keys and values are kept, or an ONNX model whose nodes are.
    split : mapping of str to sequence of str
        Weights whose parts have other names, and these, which are in the plan: nodes of ONNX decode them.
    """

    def __init__(
        self,
        file: BinaryIO,
        plan: Iterable[Planned],
        metadata: Mapping[str, str],
        again: bool = False,
        source: Path | None = None,
        split: Mapping[str, Collection[str]] = MappingProxyType({}),
    ) -> None:
        self._source, self._split = source, split
        entries, pieces, size = self._laid(Path(file.name), list(plan), metadata)
        self.entries = {entry.name: entry for entry in entries}
        if len(self.entries) > MOST_TENSORS:
            raise CheckpointError(
                f"the file would have {len(self.entries):,} tensors, and at most {MOST_TENSORS:,} are read; "
                f"write several files"
            )
        self.kept = again and _begins(file, pieces[0][1], size)
        self._file = file
        if not self.kept:
            with filling(file):
                self._file.truncate(0)
                self._file.truncate(size)
                for place, piece in pieces:
                    self._file.seek(place)
                    self._file.write(piece)

    def _laid(self, path: Path, plan: Sequence[Planned], metadata: Mapping[str, str]) -> Laid:
        """Return where everything lies."""
        raise NotImplementedError

    def write(self, name: str, values: npt.NDArray[Any], start: int = 0) -> None:
        """Write parts of a tensor, from `start` along its first axis; elements of few bits are packed.

        Bytes are those of little-endian numbers, whatever the order that `values` has.
        """
        entry = self.entries[name]
        data = np.ascontiguousarray(values, values.dtype.newbyteorder("<")).reshape(-1)
        offset = start * entry.row_bits
        if entry.bits < 8:
            from lowprec.arrays.blocks.packing import pack
            from lowprec.spec import catalog

            count = -(-data.size * entry.bits // 8)
            data = pack(data.view(np.uint8), catalog.format(entry.dtype))[:count]
        fits = data.itemsize * 8 == max(entry.bits, 8) and offset // 8 + data.nbytes <= entry.nbytes
        if offset % 8 or not fits:
            raise CheckpointError(
                f"{values.dtype} of shape {values.shape} from {start} on does not fit {name!r}, "
                f"{entry.tag} of shape {entry.shape}"
            )
        with filling(self._file):
            self._file.seek(entry.start + offset // 8)
            self._file.write(data.view(np.uint8).data)

    def sync(self) -> None:
        """Return when all that was written is on the disk."""
        with filling(self._file):
            self._file.flush()
            os.fsync(self._file.fileno())

    def __getstate__(self) -> dict[str, Any]:
        """Return what another process needs to write to the same file."""
        return {"entries": self.entries, "path": self._file.name}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.entries, self.kept = state["entries"], True
        self._file = files.own(Path(state["path"]))
        weakref.finalize(self, self._file.close)

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


def _begins(file: BinaryIO, first: bytes, size: int) -> bool:
    """Return whether a file has that size and begins so."""
    file.seek(0)
    return os.fstat(file.fileno()).st_size == size and file.read(len(first)) == first
