"""How many threads NumPy's products of matrices use, where the library that makes them can be told.

Floor 5.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

__all__ = ["restore", "switch"]

#: Functions that set and get the number, of OpenBLAS as NumPy and as distributions build it, and of MKL.
_FUNCTIONS = (
    ("scipy_openblas_set_num_threads64_", "scipy_openblas_get_num_threads64_"),
    ("scipy_openblas_set_num_threads", "scipy_openblas_get_num_threads"),
    ("openblas_set_num_threads64_", "openblas_get_num_threads64_"),
    ("openblas_set_num_threads", "openblas_get_num_threads"),
    ("MKL_Set_Num_Threads", "MKL_Get_Max_Threads"),
)


class _Library(NamedTuple):
    set: Callable[[int], Any]
    before: int  #: how many threads it had


def switch(threads: int) -> bool:
    """Let NumPy's products use so many threads, and say whether any library could be told.

    >>> switch(1) in (True, False)
    True
    """
    for library in _libraries():
        library.set(threads)
    return bool(_libraries())


def restore() -> None:
    """As many threads as before the first `switch`."""
    for library in _libraries():
        library.set(library.before)


@functools.lru_cache(maxsize=1)
def _libraries() -> tuple[_Library, ...]:
    found = []
    for path in dict.fromkeys(_loaded(Path("/proc/self/maps"))):
        try:
            library = ctypes.CDLL(path)
        except OSError:
            continue
        pairs = [pair for pair in _FUNCTIONS if hasattr(library, pair[0])]
        found += [_Library(getattr(library, sets), getattr(library, gets)()) for sets, gets in pairs[:1]]
    return tuple(found)


def _loaded(maps: Path) -> Iterator[str]:
    """Libraries by name: those that this process has loaded, and those that came with NumPy."""
    if maps.is_file():
        for line in maps.read_text(errors="replace").splitlines():
            path = line.partition("/")[2]
            if path and _is_blas(Path(path)):
                yield f"/{path}"
        return
    package = Path(np.__file__).parent
    for folder in (package.parent / "numpy.libs", package / ".dylibs"):
        yield from (str(path) for path in sorted(folder.glob("*")) if _is_blas(path))


def _is_blas(path: Path) -> bool:
    return any(name in path.name for name in ("openblas", "mkl_rt"))
