"""TVM, on CPUs: `astype` in a tensor expression, compiled by LLVM.

Its FNUZ types are left out: it converts to them with the biases of e4m3fn and e5m2, so that every value is
wrong by a power of two.
"""

from __future__ import annotations

import functools
from typing import Any

import ml_dtypes
import numpy as np

from lowprec.arrays.checks import code_dtype, dtype
from lowprec.spec.format import Format
from lowprec.verify.frameworks.base import Array, Framework, formats
from lowprec.verify.inputs.conversions import SOURCES

__all__ = ["FRAMEWORKS"]

#: Types of 4 and 6 bits are refused by its code generator.
_FORMATS = formats("binary32 binary16 bfloat16 e5m2 e4m3fn float8_e4m3 e3m4 e8m0fnu")


@functools.lru_cache(maxsize=64)
def _compiled(source: str, target: str) -> Any:
    """Return the compiled function of one cast, from an array into another."""
    import tvm
    from tvm import te

    values = te.placeholder((te.var("n"),), source, name="values")
    cast = te.compute(values.shape, lambda place: values[place].astype(target), name="cast")
    return tvm.compile(te.create_prim_func([values, cast]), target="llvm")


def _cast(values: Array, fmt: Format) -> Array:
    import tvm

    if not values.size:
        return np.zeros(0, code_dtype(fmt))
    source = "bfloat16" if values.dtype == ml_dtypes.bfloat16 else values.dtype.name
    given = tvm.runtime.tensor(np.ascontiguousarray(values))
    made = tvm.runtime.empty(values.shape, dtype(fmt).name)
    _compiled(source, dtype(fmt).name)(given, made)
    return np.asarray(made.numpy()).view(code_dtype(fmt))


FRAMEWORKS = (
    Framework(
        name="tvm",
        package="apache-tvm",
        install="pip install apache-tvm",
        sources=tuple(SOURCES),
        targets=lambda: _FORMATS,
        cast=_cast,
    ),
)
