"""APyTypes: `APyFloatArray.from_array`, for formats with infinities and NaNs as IEEE 754 has them."""

from __future__ import annotations

import numpy as np

from lowprec.arrays.checks import code_dtype
from lowprec.spec.format import Format
from lowprec.verify.frameworks.base import Array, Framework, formats

__all__ = ["FRAMEWORKS"]

_FORMATS = formats("binary32 binary16 bfloat16 tf32 e5m2 float8_e4m3 e3m4")


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
