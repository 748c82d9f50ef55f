"""Finished ranges and steps of sweeps, kept in a folder that several runs may share."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lowprec import files
from lowprec.arrays.checks import code_dtype
from lowprec.checkpoints.container import open_regular
from lowprec.checkpoints.containers.locking import in_turn
from lowprec.kernels.cache import directory, private
from lowprec.verify.sweeps.exhaustive import RANGES, SIZE, Found, Steps, Sweep

__all__ = ["Keeper", "SweepError", "state_folder"]

_WAY_OUT = "name another folder with --state"


class SweepError(Exception):
    """The sweeps cannot be finished."""


def state_folder() -> Path | None:
    """Return where ranges are kept by default: beside the compiled kernels; None if these are not kept."""
    kernels = directory()
    if kernels is None:
        return None
    folder = (kernels if os.environ.get("LOWPREC_CACHE_DIR") else kernels.parent) / "sweeps"
    try:
        return private(folder, make=True)
    except OSError:
        return folder  # the keeper says why it cannot be used


class Keeper:
    """Finished ranges and steps in a folder.

    A file is named by a digest of all that its content depends on, and begins with a digest of what
    follows. One that is damaged is told of in `damaged`, and not used.

    Parameters
    ----------
    folder : Path, optional
        None keeps nothing.
    fresh : bool
        Write only.
    way_out : str
        What to do where nothing can be kept, for the message.

    Raises
    ------
    SweepError
        The folder cannot be made, or not be written to.
    """

    def __init__(self, folder: Path | None, *, fresh: bool = False, way_out: str = _WAY_OUT) -> None:
        self.folder, self.fresh, self.way_out = folder, fresh, way_out
        self.damaged: list[str] = []
        if folder is not None:
            with self._told():
                folder.mkdir(0o700, parents=True, exist_ok=True)

    def ranges(self, sweep: Sweep) -> dict[int, Found]:
        """Return the ranges of a sweep that are done."""
        return self.load(f"{_digest(sweep.identity())}.json", lambda content: _ranges(content, sweep)) or {}

    def keep_ranges(self, sweep: Sweep, found: Iterable[Found], mine: Sequence[int] = range(RANGES)) -> None:
        """Keep all ranges of a sweep that are done, and those of others, which are not `mine`."""
        name = f"{_digest(sweep.identity())}.json"
        with self.adding(name, lambda content: _ranges(content, sweep), mine) as done:
            done |= {one.index: one for one in found}
            ranges = [dataclasses.astuple(done[index]) for index in sorted(done)]
            self.store(name, json.dumps({"sweep": sweep.identity(), "ranges": ranges}).encode())

    def steps(self, sweep: Sweep) -> Steps | None:
        """Return the steps of a sweep, whoever its subject is."""
        kept: Steps | None = self.load(_steps_file(sweep), lambda content: _steps(content, sweep))
        return kept

    def keep_steps(self, sweep: Sweep, steps: Steps) -> None:
        """Keep the steps of a sweep."""
        self.store(
            _steps_file(sweep), steps.firsts.astype("<u4").tobytes() + steps.codes.astype("<u4").tobytes()
        )

    def load(self, name: str, read: Callable[[bytes], Any]) -> Any:
        """Return what `read` makes of a kept file; None if there is none, or it is damaged."""
        return None if self.fresh else self._read(name, read)

    @contextlib.contextmanager
    def adding(
        self, name: str, read: Callable[[bytes], Any], mine: Sequence[int]
    ) -> Iterator[dict[int, Any]]:
        """Give what a file keeps of ranges that are not `mine`; nobody else adds to it meanwhile."""
        with contextlib.nullcontext() if self.folder is None else in_turn(self.folder / f".{name}.lock"):
            kept: dict[int, Any] = {}
            with contextlib.suppress(SweepError):  # of another version
                kept = self._read(name, read) or {}
            yield {index: one for index, one in kept.items() if index not in mine}

    def _read(self, name: str, read: Callable[[bytes], Any]) -> Any:
        if self.folder is None:
            return None
        path = self.folder / name
        try:
            with open_regular(path) as file:
                if files.is_foreign(os.fstat(file.fileno()), path):
                    raise ValueError("it is another user's, who could say that nothing differs")
                head, content = file.read(65), file.read()
            if head != hashlib.sha256(content).hexdigest().encode() + b"\n":
                raise ValueError("its digest is another")
            return read(content)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            why = f"{path} is not used, so what it kept is done again: {error}"
            self.damaged += [why] if why not in self.damaged else []
            return None

    def store(self, name: str, content: bytes) -> None:
        """Keep a file."""
        if self.folder is None:
            return
        with self._told():
            files.keep(self.folder / name, hashlib.sha256(content).hexdigest().encode() + b"\n" + content)

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            why = f"cannot keep what is done in {str(self.folder)!r}: {error.strerror}; {self.way_out}"
            raise SweepError(why) from None


def _digest(of: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(of, sort_keys=True).encode()).hexdigest()[:40]


def _steps_file(sweep: Sweep) -> str:
    return f"{_digest({**sweep.identity(), 'subject': '', 'version': ''})}.steps"


def _ranges(content: bytes, sweep: Sweep) -> dict[int, Found]:
    kept = json.loads(content)
    if kept["sweep"] != sweep.identity():
        raise ValueError("it belongs to another sweep")
    found = {}
    for index, differences, smallest, sha256, seconds in kept["ranges"]:
        place, got, want = (index * SIZE, 0, 0) if smallest is None else smallest
        numbers = all(type(each) is int for each in (index, differences, place, got, want))
        fits = numbers and 0 <= index < RANGES and place // SIZE == index and got >= 0 and want >= 0
        if not fits or not re.fullmatch("[0-9a-f]{64}", sha256) or not 0 <= seconds < math.inf:
            raise ValueError("a range has what no range can have")
        if not 0 <= differences <= SIZE or (differences > 0) != (smallest is not None):
            raise ValueError("its differences contradict each other")
        found[index] = Found(
            index, differences, None if smallest is None else (place, got, want), sha256, seconds
        )
    return found


def _steps(content: bytes, sweep: Sweep) -> Steps:
    firsts, codes = np.frombuffer(content, "<u4").reshape(2, -1)
    if not firsts.size or firsts[0] or (firsts[1:] <= firsts[:-1]).any() or (codes >> sweep.fmt.width).any():
        raise ValueError("its steps do not ascend from 0, or have codes that the format lacks")
    return Steps(firsts.astype(np.int64), codes.astype(code_dtype(sweep.fmt)))
