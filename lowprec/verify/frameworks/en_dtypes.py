"""en-dtypes: NumPy's casts to HiFloat8."""

from __future__ import annotations

import numpy as np

from lowprec.arrays.checks import code_dtype
from lowprec.spec.format import Format
from lowprec.verify.frameworks.base import Array, Framework, formats

__all__ = ["FRAMEWORKS"]


def _cast(values: Array, fmt: Format) -> Array:
    import en_dtypes

    with np.errstate(all="ignore"):
        return values.astype(np.dtype(en_dtypes.hifloat8)).view(code_dtype(fmt))


FRAMEWORKS = (
    Framework(
        name="en_dtypes",
        package="en-dtypes",
        install="pip install en-dtypes",
        sources=("float32", "float64", "float16"),
        targets=lambda: formats("hif8"),
        cast=_cast,
    ),
)
