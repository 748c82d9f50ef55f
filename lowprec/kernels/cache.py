"""Compiled kernels on disk: never stale, never fatal.

numba's own cache looks at the file of the compiled function alone: after an edit of a helper in
another file it gives the old machine code, and so the old answers. Here the name of a file is a
digest of every source that could matter and of everything that the machine code depends on; what
it holds is checked against its own digest; and whatever goes wrong, the kernel is compiled.

Floor 2b. docs/decisions/0004.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pathlib
import pickle
import platform
import tempfile
from typing import Any

import llvmlite
import numba
import numpy as np
from numba.core.caching import _Cache
from numba.core.compiler import CompileResult
from numba.core.runtime import rtsys
from numba.core.serialize import dumps

__all__ = ["DiskCache", "directory"]

#: Settings of numba that change the code it makes.
_SETTINGS = ("OPT", "LOOP_VECTORIZE", "SLP_VECTORIZE", "BOUNDSCHECK", "DEBUGINFO_DEFAULT", "LLVM_PASS_TIMINGS")


def directory() -> pathlib.Path | None:
    """Where compiled kernels are kept: $LOWPREC_CACHE_DIR, or the user's cache; None where it is set and empty."""
    chosen = os.environ.get("LOWPREC_CACHE_DIR")
    if chosen is not None:
        return pathlib.Path(chosen) if chosen else None
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return pathlib.Path(base) / "lowprec" / "kernels"


def sources() -> bytes:
    """A digest of all code that a kernel may be made of, and of what compiles it."""
    package = pathlib.Path(__file__).parents[1]
    digest = hashlib.sha256()
    for path in sorted([*(package / "kernels").glob("*.py"), *(package / "spec").glob("*.py")]):
        digest.update(path.name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
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
    """What numba asks for the compiled code of one kernel, before it compiles and after."""

    def __init__(self, kernel: str) -> None:
        """Of the kernel of that name, which no other has."""
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
            # All that loaded code needs of numba. What a compilation needs, half a second of imports, may wait.
            rtsys.initialize(target)
            path = self._path(signature, target.codegen())
            if path is None or not path.is_file():
                return None
            stored = path.read_bytes()
            if hashlib.sha256(stored[32:]).digest() == stored[:32]:
                return CompileResult._rebuild(target, *pickle.loads(stored[32:]))
        return None

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Keep compiled code: written beside and renamed, so that no one reads half of it."""
        with contextlib.suppress(Exception):
            path = self._path(signature, compiled.codegen)
            if path is None or compiled.lifted or compiled.library.has_dynamic_globals:
                return
            data = dumps(compiled._reduce())
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
                beside = pathlib.Path(file.name)
                try:
                    file.write(hashlib.sha256(data).digest() + data)
                    file.close()
                    beside.replace(path)
                finally:
                    beside.unlink(missing_ok=True)

    def _path(self, signature: Any, codegen: Any) -> pathlib.Path | None:
        folder = directory()
        if folder is None or not _SOURCES:
            return None
        key = repr((self._kernel, str(signature), codegen.magic_tuple(), _settings())).encode()
        return folder / hashlib.sha256(_SOURCES + key).hexdigest()
