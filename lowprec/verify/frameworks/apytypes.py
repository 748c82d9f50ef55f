"""APyTypes: `APyFloatArray.from_array`, for formats with infinities and NaNs as IEEE 754 has them."""

from __future__ import annotations

import numpy as np

from lowprec.arrays.checks import code_dtype
from lowprec.spec import catalog
from lowprec.spec.format import Format
from lowprec.verify.frameworks.base import Array, Framework

__all__ = ["FRAMEWORKS"]

_FORMATS = (
    catalog.BINARY32,
    catalog.BINARY16,
    catalog.BFLOAT16,
    catalog.TF32,
    catalog.E5M2,
    catalog.FLOAT8_E4M3,
    catalog.E3M4,
)


def _cast(values: Array, fmt: Format) -> Array:
    from apytypes import APyFloatArray

    made = APyFloatArray.from_array(values, fmt.exponent_bits, fmt.trailing_bits, fmt.bias)
    return np.asarray(made.to_bits()).astype(code_dtype(fmt))


FRAMEWORKS = (
    Framework(
        name="apytypes",
        package="apytypes",
        install="pip install apytypes",
        sources=("float32", "float64", "int32", "int64"),
        targets=lambda: _FORMATS,
        cast=_cast,
    ),
)
