"""Frameworks that convert numbers, each as a small adapter. None is trusted: all are under test.

Floor 5.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from lowprec.arrays.checks import code_dtype, dtype
from lowprec.spec import catalog
from lowprec.spec.format import Format
from lowprec.tools.cases import SOURCES

__all__ = ["FRAMEWORKS", "Framework"]

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Framework:
    """A library whose casts can be run: which types it reads, which formats it makes, and how.

    Parameters
    ----------
    name : str
        As on the command line.
    package : str
        The distribution to install.
    install : str
        What to type to have it.
    sources : tuple of str
        Names in `cases.SOURCES`.
    targets : function
        Gives the formats; called where the package is installed.
    cast : function
        Values of a source type and a format to the format's codes.
    """

    name: str
    package: str
    install: str
    sources: tuple[str, ...]
    targets: Callable[[], tuple[Format, ...]]
    cast: Callable[[Array, Format], Array]

    @property
    def version(self) -> str | None:
        """The installed version, or None."""
        try:
            return importlib.metadata.version(self.package)
        except importlib.metadata.PackageNotFoundError:
            return None


def _ml_dtypes_targets() -> tuple[Format, ...]:
    # Casts to its integers truncate and are undefined out of range, as NumPy's own are: no projections.
    floats = (fmt for fmt in catalog.FORMATS.values() if fmt.exponent_bits)
    return tuple(fmt for fmt in floats if hasattr(ml_dtypes, catalog.ml_dtypes_name(fmt) or ""))


def _astype(values: Array, fmt: Format) -> Array:
    with np.errstate(all="ignore"):
        return values.astype(dtype(fmt)).view(code_dtype(fmt))


def _by_name(frameworks: Iterable[Framework]) -> dict[str, Framework]:
    return {framework.name: framework for framework in frameworks}


#: Every framework that there is an adapter for, by name.
FRAMEWORKS = _by_name(
    [
        Framework(
            name="ml_dtypes",
            package="ml_dtypes",
            install="pip install ml_dtypes",
            sources=tuple(SOURCES),
            targets=_ml_dtypes_targets,
            cast=_astype,
        ),
        Framework(
            name="numpy",
            package="numpy",
            install="pip install numpy",
            sources=("float32", "float64", "int32", "int64"),
            targets=lambda: (catalog.BINARY16, catalog.BINARY32),
            cast=_astype,
        ),
    ]
)
