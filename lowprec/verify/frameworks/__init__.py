"""Frameworks that convert numbers, each asked by small functions. None is trusted: all are under test.

Several entries of one library are different ways to ask it: another rounding mode, saturation or scale rule.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from lowprec.spec.format import Format
from lowprec.spec.projection import Projection
from lowprec.verify.frameworks import arrays, compiled, torch, tosa
from lowprec.verify.frameworks.base import Answer, Array, Framework, arithmetic, formats, library
from lowprec.verify.frameworks.tasks import Task

__all__ = ["FRAMEWORKS", "Framework"]

_OPERATIONS = ("add", "subtract", "multiply", "divide", "sqrt")
_GFLOAT = (
    "binary16 bfloat16 e5m2 e4m3fn float8_e4m3 e3m4 e4m3fnuz e5m2fnuz e4m3b11fnuz e2m3fn "
    "e3m2fn e2m1fn e8m0fnu binary8p3se binary8p4sf"
)


def _no_casts(values: Array, fmt: Format) -> Array:
    return values


def _torchao() -> list[Framework]:
    others: dict[str, Callable[[], dict[Task, Answer]]] = {
        mode: functools.partial(torch.torchao_mx, mode) for mode in ("floor", "ceil", "even", "rceil")
    }
    return [
        library(
            f"torchao_{name}", _no_casts, lambda: (), package="torchao", install="torch torchao==0.18.0",
            sources=None, others=tasks, needs=("torch",),
        )
        for name, tasks in {**others, "nvfp4": torch.torchao_nvfp4}.items()
    ]  # fmt: skip


def _gfloat() -> list[Framework]:
    """Return gfloat of arrays and of single numbers, to nearest with ties to even or away."""
    return [
        library(
            f"gfloat{name}{ending}", functools.partial(cast, mode=mode), _GFLOAT, package="gfloat",
            sources="float64" if name else "float32 float64", projection=Projection(rounding=rounding),
            few=bool(name),
        )
        for name, cast in (("", arrays.gfloat), ("_scalar", arrays.gfloat_scalars))
        for ending, mode, rounding in (
            ("", "TiesToEven", "nearest_even"), ("_ties_away", "TiesToAway", "nearest_away"),
        )
    ]  # fmt: skip


def _bitstring() -> list[Framework]:
    return [
        library(
            name, functools.partial(arrays.bitstring, names=names), functools.partial(tuple, names),
            package="bitstring", sources="float64", projection=Projection(saturation=saturation), few=True,
        )
        for name, saturation, names in (
            ("bitstring", "none", arrays.BITSTRING),
            ("bitstring_saturate", "finite", arrays.BITSTRING_SATURATED),
        )
    ]  # fmt: skip


#: Every framework that can be asked, by name.
FRAMEWORKS: dict[str, Framework] = {
    framework.name: framework
    for framework in (
        library(
            "ml_dtypes", arrays.astype, arrays.ml_dtypes_targets,
            others=lambda: arithmetic(_OPERATIONS, arrays.ml_dtypes_targets(), arrays.ufunc),
        ),
        library(
            "numpy", arrays.astype, "binary16 binary32", sources="float32 float64 int32 int64",
            others=lambda: arithmetic(_OPERATIONS, formats("binary16 binary32"), arrays.ufunc),
        ),
        library(  # operations on 8-bit floats raise NotImplementedError
            "torch", torch.torch, torch.torch_targets, install='"lowprec[torch]"',
            others=lambda: arithmetic(
                _OPERATIONS, formats("binary32 binary16 bfloat16"), torch.torch_operation
            ),
        ),
        library("jax", arrays.jax, arrays.jax_targets, install='"lowprec[jax]"'),
        library(  # to_fp8 refuses integers, and reads binary64 as something else
            "mlx", arrays.mlx, "binary32 binary16 bfloat16 e4m3fn", install='"mlx[cpu]"',
            sources="float16 bfloat16 float32",
            others=lambda: {
                **arithmetic(_OPERATIONS, formats("binary32 binary16 bfloat16"), arrays.mlx_operation),
                **arrays.mlx_blocks(),
            },
        ),
        *(
            library(
                name, functools.partial(compiled.onnx, saturate=saturate), compiled.onnx_targets,
                package="onnx", install='"lowprec[onnx]"',
            )
            for name, saturate in (("onnx", True), ("onnx_nosat", False))
        ),
        *(  # no kernel for FLOAT4E2M1; only 8-bit floats have a choice, and FLOAT8E8M0 refuses saturate=0
            library(
                name, functools.partial(compiled.onnxruntime, saturate=saturate), targets,
                package="onnxruntime", install="onnxruntime onnx", needs=("onnx",),
            )
            for name, saturate, targets in (
                ("onnxruntime", True, "binary32 binary16 bfloat16 e5m2 e4m3fn e4m3fnuz e5m2fnuz e8m0fnu"),
                ("onnxruntime_nosat", False, "e5m2 e4m3fn e4m3fnuz e5m2fnuz"),
            )
        ),
        library(  # it converts binary64 to no type of 4 bits and not to powers of two; NF4 is for constants
            "openvino", compiled.openvino, "binary32 binary16 bfloat16 e5m2 e4m3fn e8m0fnu e2m1fn",
            sources="float16 bfloat16 float32",
        ),
        library(
            "paddle", arrays.paddle, "binary32 binary16 bfloat16 e5m2 e4m3fn", package="paddlepaddle",
            sources="float16 float32 float64",
        ),
        library(  # it needs older versions of NumPy and ml_dtypes in its tools alone
            "tosa", tosa.cast, "binary32 e5m2 e4m3fn", package="tosa-tools",
            install="--no-deps tosa-tools", sources="float16 bfloat16 float32", others=tosa.others,
        ),
        library(  # names three more 8-bit types and casts nothing to them; integers to 8-bit floats neither
            "tensorflow", arrays.tensorflow, "binary32 binary16 bfloat16 e5m2 e4m3fn",
            package="tensorflow-cpu", sources="float16 bfloat16 float32 float64",
        ),
        *_torchao(),
        *_gfloat(),
        library(
            "apytypes", arrays.apytypes, "binary32 binary16 bfloat16 tf32 e5m2 float8_e4m3 e3m4",
            sources="float32 float64 int32 int64",
        ),
        library(  # its own names mean half, bf16, fp32, fp8-e5m2 (q52) and fp8-e4m3 (q43)
            "pychop", arrays.pychop, "binary32 binary16 bfloat16 e5m2 e4m3fn float8_e4m3",
            sources="float32 float64",
        ),
        library(
            "qtorch", arrays.qtorch, arrays.qtorch_targets, install="qtorch torch ninja", sources="float32",
            needs=("torch",),
        ),
        *_bitstring(),
        library(
            "universal", arrays.universal, " ".join(arrays.UNIVERSAL), package="universal-dtypes",
            sources="float32 float64 float16",
            others=lambda: arithmetic(
                _OPERATIONS[:4], formats("posit8 takum_linear8"), arrays.universal_ufunc
            ),
        ),
        library(
            "en_dtypes", arrays.en_dtypes, "hif8", package="en-dtypes", sources="float32 float64 float16"
        ),
        library(  # types of 4 and 6 bits are refused by its code generator; it converts to FNUZ types with
            # the biases of e4m3fn and e5m2, so that every value is wrong by a power of two
            "tvm", compiled.tvm, "binary32 binary16 bfloat16 e5m2 e4m3fn float8_e4m3 e3m4 e8m0fnu",
            package="apache-tvm",
        ),
        library(  # its compiler refuses casts from binary16 and binary64 to 8-bit types, and to types of 4
            # and 6 bits; casts from integers to bfloat16 do not link
            "iree", compiled.iree, compiled.iree_targets, package="iree-base-compiler",
            install="iree-base-compiler iree-base-runtime", sources="bfloat16 float32",
            needs=("iree-base-runtime",),
        ),
        library(  # the interpreter refuses casts from binary64 and integers to 8-bit types; to bfloat16 it
            # casts their values as if they were codes
            "triton", compiled.triton, compiled.triton_targets, install="triton torch",
            sources="float16 bfloat16 float32", needs=("torch",),
        ),
    )
}  # fmt: skip
