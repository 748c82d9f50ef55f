"""PyTorch, on CPUs: `Tensor.to`, and operations on the types that have them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from lowprec.arrays.checks import code_dtype
from lowprec.spec import catalog
from lowprec.spec.format import Format
from lowprec.verify.frameworks.base import Array, Framework, arithmetic
from lowprec.verify.inputs.conversions import SOURCES

__all__ = ["FRAMEWORKS", "tensor"]

_TYPES = {
    catalog.BINARY32: "float32",
    catalog.BINARY16: "float16",
    catalog.BFLOAT16: "bfloat16",
    catalog.E5M2: "float8_e5m2",
    catalog.E4M3FN: "float8_e4m3fn",
    catalog.E4M3FNUZ: "float8_e4m3fnuz",
    catalog.E5M2FNUZ: "float8_e5m2fnuz",
    catalog.E8M0FNU: "float8_e8m0fnu",
}

#: Operations on 8-bit floats raise NotImplementedError.
_COMPUTED = (catalog.BINARY32, catalog.BINARY16, catalog.BFLOAT16)


def _type(name: str) -> Any:
    import torch

    return getattr(torch, name, None)


def tensor(values: Array) -> Any:
    """Return a tensor on the array's memory."""
    import torch

    if values.dtype == ml_dtypes.bfloat16:  # NumPy's own bridge knows no bfloat16
        return torch.from_numpy(values.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(values)


def _codes(made: Any, fmt: Format) -> Array:
    codes = code_dtype(fmt)
    return np.asarray(made.view(_type(f"int{8 * codes.itemsize}")).numpy().view(codes))


def _targets() -> tuple[Format, ...]:
    # Casts to float4_e2m1fn_x2 and to the 1- to 7-bit integers raise NotImplementedError.
    return tuple(fmt for fmt, name in _TYPES.items() if _type(name) is not None)


def _cast(values: Array, fmt: Format) -> Array:
    return _codes(tensor(values).to(_type(_TYPES[fmt])), fmt)


def _operate(operation: str, fmt: Format, *operands: Array) -> Array:
    import torch

    given = [
        torch.from_numpy(codes.view(f"i{codes.itemsize}")).view(_type(_TYPES[fmt])) for codes in operands
    ]
    return _codes(getattr(torch, operation)(*given), fmt)


FRAMEWORKS = (
    Framework(
        name="torch",
        package="torch",
        install='pip install "lowprec[torch]"',
        sources=tuple(SOURCES),
        targets=_targets,
        cast=_cast,
        others=lambda: arithmetic(("add", "subtract", "multiply", "divide", "sqrt"), _COMPUTED, _operate),
    ),
)
