"""Pychop: `Chop` of arrays, to values. It has no codes, and all its formats are like IEEE 754's."""

from __future__ import annotations

import numpy as np

from lowprec.spec.format import Format
from lowprec.verify.frameworks.base import Array, Framework, formats

__all__ = ["FRAMEWORKS"]

#: What its own names mean: half, bf16, fp32, fp8-e5m2 (q52) and fp8-e4m3 (q43).
_FORMATS = formats("binary32 binary16 bfloat16 e5m2 e4m3fn float8_e4m3")


def _cast(values: Array, fmt: Format) -> Array:
    from pychop import Chop

    with np.errstate(all="ignore"):
        return np.asarray(Chop(fmt.exponent_bits, fmt.trailing_bits, rmode=1)(values.copy()))


FRAMEWORKS = (
    Framework(
        name="pychop",
        package="pychop",
        install="pip install pychop",
        sources=("float32", "float64"),
        targets=lambda: _FORMATS,
        cast=_cast,
    ),
)
