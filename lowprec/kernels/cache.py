"""Compiled kernels on disk: never stale, never fatal.

numba's own cache looks at the file of the compiled function alone: after an edit of a helper in
another file it gives the old machine code, and so the old answers. Here the name of a file is a
digest of every source that could matter and of everything that the machine code depends on; what
it holds, and its name, are checked against the digest that it begins with; and whatever goes wrong,
the kernel is compiled.

What is loaded is executed. So files are only loaded that nobody but this user and root can have put
there: `private` asks who may change the folder and those above it, and `_read` who may change the file.

Floor 2b. docs/decisions/0004.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import logging
import os
import pathlib
import pickle
import platform
import stat
from typing import Any

import llvmlite
import numba
import numpy as np
from numba.core.caching import _Cache
from numba.core.compiler import CompileResult
from numba.core.runtime import rtsys
from numba.core.serialize import dumps

from lowprec import files

__all__ = ["LOST", "DiskCache", "directory", "private"]

#: Why kernels of this process could not be kept, such as a disk that is full.
LOST: list[str] = []

#: Digits of a file's name that say the kernel; the others say its types and the processor, too.
_DIGITS = 32

_WAY_OUT = "set LOWPREC_CACHE_DIR to a folder that only you can change, or to nothing for no cache"

#: Settings of numba that change the code it makes.
_SETTINGS = (
    "OPT",
    "LOOP_VECTORIZE",
    "SLP_VECTORIZE",
    "BOUNDSCHECK",
    "DEBUGINFO_DEFAULT",
    "LLVM_PASS_TIMINGS",
)


def directory() -> pathlib.Path | None:
    """Return the folder of compiled kernels, unchecked: $LOWPREC_CACHE_DIR, or the user's cache.

    None where that variable is set and empty, and where no user's folder is known.
    """
    chosen = os.environ.get("LOWPREC_CACHE_DIR")
    if chosen is not None:
        return pathlib.Path(chosen) if chosen else None
    from platformdirs import user_cache_path

    try:
        base = user_cache_path("lowprec", appauthor=False)
    except RuntimeError:  # of newer versions; older ones return a relative path
        base = pathlib.Path("~")
    if not base.is_absolute():
        _tell("no home folder is known, or XDG_CACHE_HOME is a relative path")
        return None
    return base / "kernels"


def private(folder: pathlib.Path, *, make: bool = False) -> pathlib.Path | None:
    """Return a folder, with links resolved, if only this user and root can change what it holds; else None.

    Nobody else may own or write it, nor any folder above it, as who renames one of those puts another in its
    place; above it folders such as /tmp will do, where all may write but nobody rename what is another's.
    Where ownership is not POSIX's, any folder will do. Says why in the log where it refuses one.

    Parameters
    ----------
    folder : Path
    make : bool
        Make it, for this user alone, where it does not exist.

    Raises
    ------
    OSError
        It cannot be made or looked at, or is no folder.
    """
    place = pathlib.Path(os.path.realpath(folder))
    while True:
        missing = []
        for path in (place, *place.parents):
            try:
                info = path.lstat()
            except FileNotFoundError:
                missing.append(path)
                continue
            if not stat.S_ISDIR(info.st_mode):
                raise NotADirectoryError(str(path))
            if _is_foreign(path, info, above=path is not place):
                return None
        if not missing:
            return place
        if not make:
            return None
        with contextlib.suppress(FileExistsError):  # of another process; looked at like any other
            missing[-1].mkdir(0o700)


def _is_foreign(path: pathlib.Path, info: os.stat_result, *, above: bool = False) -> bool:
    """Return whether others may change a file or folder, and say so in the log."""
    if not hasattr(os, "geteuid"):
        return False
    sticky = above and info.st_mode & stat.S_ISVTX
    if info.st_uid not in (0, os.geteuid()):
        _tell(f"{str(path)!r} belongs to user {info.st_uid}, who could put other code there")
    elif info.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not sticky:
        mode = stat.S_IMODE(info.st_mode)
        _tell(
            f"others may write {str(path)!r} (mode {mode:04o}) and could put other code there; chmod go-w it"
        )
    else:
        return False
    return True


@functools.cache
def _tell(why: str) -> None:
    """Log once why nothing is loaded."""
    logging.getLogger("lowprec").warning("compiled kernels are not kept: %s, or %s", why, _WAY_OUT)


def _read(path: pathlib.Path) -> bytes | None:
    """Return what a file holds that only this user and root can change; None of any other."""
    # Not through a link; and no waiting for the writer of a pipe.
    flags = [getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY")]
    with os.fdopen(os.open(path, os.O_RDONLY | sum(flags)), "rb") as file:
        info = os.fstat(file.fileno())
        if not stat.S_ISREG(info.st_mode) or _is_foreign(path, info):
            return None
        return file.read()


def _seal(path: pathlib.Path, data: bytes) -> bytes:
    """Return the digest that a file begins with: of its name too, as another kernel's file may be copied."""
    return hashlib.sha256(path.name.encode() + data).digest()


def sources() -> bytes:
    """Return a digest of all code that a kernel may be compiled from, and of what compiles it."""
    package = pathlib.Path(__file__).parents[1]
    digest = hashlib.sha256()
    for path in sorted([*(package / "kernels").rglob("*.py"), *(package / "spec").rglob("*.py")]):
        name = path.relative_to(package).as_posix()
        digest.update(name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    made_by = (numba.__version__, llvmlite.__version__, np.__version__, platform.python_version())
    digest.update(repr((made_by, _settings())).encode())
    return digest.digest()


def _settings() -> list[object]:
    return [getattr(numba.config, name, None) for name in _SETTINGS]


#: Of the code as it is imported: files that are edited later are not what this process runs.
try:
    _SOURCES = sources()
except OSError:  # not in files: nothing can be kept
    _SOURCES = b""


class DiskCache(_Cache):  # type: ignore[misc]
    """Cache of the compiled code of one kernel, which numba calls before and after it compiles."""

    def __init__(self, kernel: str) -> None:
        """Cache the kernel of that name, which no other has."""
        self._kernel = kernel

    @property
    def cache_path(self) -> str:
        """The folder."""
        return str(directory())

    def enable(self) -> None:
        """Nothing to do: $LOWPREC_CACHE_DIR says whether there is a cache."""

    disable = flush = enable

    def load_overload(self, signature: Any, target: Any) -> Any:
        """Compiled code for these argument types, or None."""
        with contextlib.suppress(Exception):
            # All that loaded code needs of numba. What a compilation needs, half a second of imports, may
            # wait.
            rtsys.initialize(target)
            path = self._path(signature, target.codegen())
            stored = None if path is None else _read(path)
            if path is not None and stored is not None and _seal(path, stored[32:]) == stored[:32]:
                return CompileResult._rebuild(target, *pickle.loads(stored[32:]))
        return None

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Keep compiled code: written beside and renamed, so that no one reads half of it."""
        try:
            path = self._path(signature, compiled.codegen, make=True)
            if path is None or compiled.lifted or compiled.library.has_dynamic_globals:
                return
            data = dumps(compiled._reduce())
            files.keep(path, _seal(path, data) + data)
        except Exception as error:  # it is compiled all the same
            LOST.append(str(error))

    def is_kept(self) -> bool:
        """Return whether the folder had a file of this kernel, for any types, at the first look at it."""
        chosen = directory()
        return chosen is not None and self._digest() in _kept(chosen)

    def _path(self, signature: Any, codegen: Any, *, make: bool = False) -> pathlib.Path | None:
        chosen = directory()
        folder = None if chosen is None or not _SOURCES else private(chosen, make=make)
        if folder is None:
            return None
        key = repr((self._kernel, str(signature), codegen.magic_tuple(), _settings())).encode()
        return folder / (self._digest() + hashlib.sha256(_SOURCES + key).hexdigest()[_DIGITS:])

    def _digest(self) -> str:
        """Return what the names of all files of this kernel begin with."""
        return hashlib.sha256(_SOURCES + self._kernel.encode()).hexdigest()[:_DIGITS]


@functools.lru_cache(maxsize=1)
def _kept(folder: pathlib.Path) -> frozenset[str]:
    """Return what the names of the files in a folder begin with."""
    try:
        return frozenset(name[:_DIGITS] for name in os.listdir(folder))
    except OSError:
        return frozenset()
