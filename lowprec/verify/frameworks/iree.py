"""IREE, on CPUs: MLIR's casts `arith.truncf` and `arith.extf`, compiled for any processor.

That is the `generic` target: with `host` casts to binary16, and their NaNs, are the processor's. Its compiler
refuses casts from binary16 and binary64 to 8-bit types, and to types of 4 and 6 bits; casts from integers to
bfloat16 do not link.
"""

from __future__ import annotations

import functools
from typing import Any

import ml_dtypes
import numpy as np

from lowprec.arrays.checks import code_dtype
from lowprec.spec import catalog
from lowprec.spec.format import Format
from lowprec.verify.frameworks.base import Array, Framework

__all__ = ["FRAMEWORKS"]

#: Formats, and their names in MLIR.
_TYPES = {
    catalog.BINARY32: "f32",
    catalog.BINARY16: "f16",
    catalog.BFLOAT16: "bf16",
    catalog.E5M2: "f8E5M2",
    catalog.E4M3FN: "f8E4M3FN",
    catalog.E4M3FNUZ: "f8E4M3FNUZ",
    catalog.E5M2FNUZ: "f8E5M2FNUZ",
    catalog.E8M0FNU: "f8E8M0FNU",
}

#: Types of the operands: their names in MLIR, and their widths.
_SOURCES = {"bfloat16": ("bf16", 16), "float32": ("f32", 32)}

_MODULE = """
func.func @cast(%x: tensor<?x{given}>) -> tensor<?x{made}> {{
  %zero = arith.constant 0 : index
  %n = tensor.dim %x, %zero : tensor<?x{given}>
  %0 = arith.bitcast %x : tensor<?x{given}> to tensor<?x{types[0]}>
{steps}
  %codes = arith.bitcast %{last} : tensor<?x{type}> to tensor<?x{made}>
  return %codes : tensor<?x{made}>
}}
"""


def _steps(kind: str, width: int, target: str, bits: int) -> list[tuple[str, str]]:
    """Return the operations of a cast, each with the type that it gives."""
    if kind == target:
        return []
    if width == bits:  # truncf and extf are between widths
        return [("extf", "f32"), ("truncf", target)]
    return [("truncf" if width > bits else "extf", target)]


@functools.lru_cache(maxsize=64)
def _compiled(source: str, fmt: Format) -> Any:
    """Return the compiled function of one cast: codes of the operands in, codes out."""
    from iree import compiler, runtime

    kind, width = _SOURCES[source]
    bits = 8 * code_dtype(fmt).itemsize
    steps = _steps(kind, width, _TYPES[fmt], bits)
    types = [kind, *(made for _, made in steps)]
    lines = [
        f"  %{place + 1} = arith.{operation} %{place} : tensor<?x{types[place]}> to tensor<?x{made}>"
        for place, (operation, made) in enumerate(steps)
    ]
    text = _MODULE.format(
        given=f"i{width}",
        made=f"i{bits}",
        types=types,
        steps="\n".join(lines),
        last=len(steps),
        type=types[-1],
    )
    module = compiler.compile_str(
        text, target_backends=["llvm-cpu"], extra_args=["--iree-llvmcpu-target-cpu=generic"]
    )
    context = runtime.SystemContext(config=_config())
    context.add_vm_module(runtime.VmModule.copy_buffer(context.instance, module))
    return context.modules.module["cast"]


@functools.cache
def _config() -> Any:
    from iree import runtime

    return runtime.Config("local-sync")  # this thread, whose state the process may have changed


def _cast(values: Array, fmt: Format) -> Array:
    codes = code_dtype(fmt)
    if not values.size:
        return np.zeros(0, codes)
    source = "bfloat16" if values.dtype == ml_dtypes.bfloat16 else values.dtype.name
    given = np.ascontiguousarray(values).view(f"i{values.dtype.itemsize}")
    made = _compiled(source, fmt)(given)
    return np.array(made.to_host()).view(codes)


FRAMEWORKS = (
    Framework(
        name="iree",
        package="iree-base-compiler",
        install="pip install iree-base-compiler iree-base-runtime",
        sources=tuple(_SOURCES),
        targets=lambda: tuple(_TYPES),
        cast=_cast,
        needs=("iree-base-runtime",),
    ),
)
