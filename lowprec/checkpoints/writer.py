"""Files written part by part, at places that are known from the beginning: what all their formats share."""

from __future__ import annotations

import contextlib
import os
import weakref
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from lowprec import files
from lowprec.checkpoints.container import MOST_TENSORS, CheckpointError, Entry

__all__ = ["Writer", "filling", "writable"]


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
    """A file whose tensors have their places before they are written.

    Parameters
    ----------
    file : binary file
        Open to read and write, and read by nobody else yet: the caller renames it when it is whole.
    entries : iterable of Entry
        The tensors.
    pieces : sequence of (int, bytes)
        What else the file has, each with its place. The first begins the file, and says which tensors it has.
    size : int
        Of the whole file, in bytes.
    again : bool
        Whether the file may have the same first piece and size already, and keeps what it has.
    """

    def __init__(
        self,
        file: BinaryIO,
        entries: Iterable[Entry],
        pieces: Sequence[tuple[int, bytes]],
        size: int,
        again: bool,
    ) -> None:
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

    def write(self, name: str, values: npt.NDArray[Any], start: int = 0) -> None:
        """Write parts of a tensor, from `start` along its first axis; elements of few bits are packed.

        Bytes are those of little-endian numbers, whatever the order that `values` has.
        """
        entry = self.entries[name]
        data = np.ascontiguousarray(values, values.dtype.newbyteorder("<")).reshape(-1)
        offset = start * entry.row_bits
        if entry.bits < 8:
            from lowprec.arrays.packing import pack
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
