"""NumPy: casts to its own types, and its functions on them."""

from __future__ import annotations

from lowprec.spec import catalog
from lowprec.verify.frameworks.base import Framework, arithmetic, astype, ufunc

__all__ = ["FRAMEWORKS"]

_FORMATS = (catalog.BINARY16, catalog.BINARY32)

FRAMEWORKS = (
    Framework(
        name="numpy",
        package="numpy",
        install="pip install numpy",
        sources=("float32", "float64", "int32", "int64"),
        targets=lambda: _FORMATS,
        cast=astype,
        others=lambda: arithmetic(("add", "subtract", "multiply", "divide", "sqrt"), _FORMATS, ufunc),
    ),
)
