"""Triton, by its interpreter, which runs kernels on CPUs: `tensor.to`.

What a GPU gives is another matter. The interpreter refuses casts from binary64 and integers to 8-bit types;
to bfloat16 it casts their values as if they were codes.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from lowprec.arrays.checks import code_dtype
from lowprec.spec import catalog
from lowprec.spec.format import Format
from lowprec.verify.frameworks.base import Array, Framework
from lowprec.verify.frameworks.torch import tensor

__all__ = ["FRAMEWORKS"]

#: Formats, and their names in triton.language.
_TYPES = {
    catalog.BINARY32: "float32",
    catalog.BINARY16: "float16",
    catalog.BFLOAT16: "bfloat16",
    catalog.E5M2: "float8e5",
    catalog.E4M3FN: "float8e4nv",
    catalog.E4M3FNUZ: "float8e4b8",
    catalog.E5M2FNUZ: "float8e5b16",
}

#: Elements of a program: a power of two.
_BLOCK = 1 << 16


@functools.cache
def _kernel() -> Any:
    """Return the kernel of a cast, for the interpreter."""
    from triton.runtime.interpreter import InterpretedFunction

    from lowprec.verify.frameworks import triton_kernel

    return InterpretedFunction(triton_kernel.cast)


def _cast(values: Array, fmt: Format) -> Array:
    import torch
    import triton.language as tl

    codes = code_dtype(fmt)
    made = np.zeros(values.shape, codes)
    if not values.size:
        return made
    bits = f"int{8 * codes.itemsize}"
    given, out = tensor(np.ascontiguousarray(values)), torch.from_numpy(made.view(bits))
    grid = (-(-values.size // _BLOCK),)
    with np.errstate(all="ignore"):
        _kernel()[grid](given, out, values.size, getattr(tl, _TYPES[fmt]), getattr(tl, bits), _BLOCK)
    return made


FRAMEWORKS = (
    Framework(
        name="triton",
        package="triton",
        install="pip install triton torch",
        sources=("float16", "bfloat16", "float32"),
        targets=lambda: tuple(_TYPES),
        cast=_cast,
        needs=("torch",),
    ),
)
