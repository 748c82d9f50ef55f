"""ml_dtypes: NumPy's casts and functions on its types."""

from __future__ import annotations

import ml_dtypes

from lowprec.spec import catalog
from lowprec.spec.format import Format
from lowprec.verify.frameworks.base import Framework, arithmetic, astype, ufunc
from lowprec.verify.inputs.conversions import SOURCES

__all__ = ["FRAMEWORKS"]


def _targets() -> tuple[Format, ...]:
    # Casts to its integers truncate and are undefined out of range, as NumPy's own are: no projections.
    floats = (fmt for fmt in catalog.FORMATS.values() if fmt.exponent_bits)
    return tuple(fmt for fmt in floats if hasattr(ml_dtypes, catalog.ml_dtypes_name(fmt) or ""))


FRAMEWORKS = (
    Framework(
        name="ml_dtypes",
        package="ml_dtypes",
        install="pip install ml_dtypes",
        sources=tuple(SOURCES),
        targets=_targets,
        cast=astype,
        others=lambda: arithmetic(("add", "subtract", "multiply", "divide", "sqrt"), _targets(), ufunc),
    ),
)
