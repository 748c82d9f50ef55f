"""Files written part by part, at places that are known from the beginning: what all their formats share."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.checkpoints.container import CheckpointError, Entry

__all__ = ["Writer"]


class Writer:
    """A file whose tensors have their places before they are written.

    Parameters
    ----------
    path : Path
        A file that nobody else reads yet: whoever asked for it renames it when it is whole.
    entries : iterable of Entry
        The tensors.
    pieces : sequence of (int, bytes)
        What else the file has, each with its place. The first begins the file, and says which tensors it has.
    size : int
        Of the whole file, in bytes.
    again : bool
        Whether the file may be there already, with the same first piece, and keeps what it has.
    """

    def __init__(
        self,
        path: Path,
        entries: Iterable[Entry],
        pieces: Sequence[tuple[int, bytes]],
        size: int,
        again: bool,
    ) -> None:
        self.entries = {entry.name: entry for entry in entries}
        self.kept = again and path.is_file() and _begins(path, pieces[0][1], size)
        self._file = path.absolute().open("r+b" if self.kept else "w+b")
        if not self.kept:
            self._file.truncate(size)
            for place, piece in pieces:
                self._file.seek(place)
                self._file.write(piece)

    def write(self, name: str, values: npt.NDArray[Any], start: int = 0) -> None:
        """Write parts of a tensor, from `start` along its first axis; elements of few bits are packed."""
        entry = self.entries[name]
        data = np.ascontiguousarray(values).reshape(-1)
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
        self._file.seek(entry.start + offset // 8)
        self._file.write(data.view(np.uint8).data)

    def sync(self) -> None:
        """Return when all that was written is on the disk."""
        self._file.flush()
        os.fsync(self._file.fileno())

    def __getstate__(self) -> dict[str, Any]:
        """Return what another process needs to write to the same file."""
        return {"entries": self.entries, "path": self._file.name}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.entries, self.kept = state["entries"], True
        self._file = Path(state["path"]).open("r+b")
        weakref.finalize(self, self._file.close)

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


def _begins(path: Path, first: bytes, size: int) -> bool:
    """Return whether a file has that size and begins so."""
    with path.open("rb") as file:
        return path.stat().st_size == size and file.read(len(first)) == first
