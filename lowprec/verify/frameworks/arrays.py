"""Casts and operations of libraries that take arrays, or single numbers: each function asks one library.

None of the formats that a library names and casts nothing to is asked for.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from lowprec.arrays.checks import code_dtype, dtype
from lowprec.spec import catalog
from lowprec.spec.block import BlockFormat, rule
from lowprec.spec.format import Format, Sign
from lowprec.verify.frameworks.base import Answer, Array, codes_in, formats
from lowprec.verify.frameworks.tasks import Blocks, Task
from lowprec.verify.frameworks.torch import tensor

__all__ = ["apytypes", "astype", "en_dtypes", "jax", "jax_targets", "ml_dtypes_targets", "mlx", "mlx_blocks"]
__all__ += ["mlx_operation", "paddle", "pychop"]
__all__ += ["qtorch", "qtorch_targets", "tensorflow", "ufunc", "universal", "universal_ufunc"]
__all__ += ["BITSTRING", "BITSTRING_SATURATED", "bitstring", "gfloat", "gfloat_scalars"]

# -- NumPy, ml_dtypes and other NumPy types -----------------------------------------------------------


def astype(values: Array, fmt: Format) -> Array:
    """Cast as NumPy does, to its own types and those of ml_dtypes."""
    return codes_in(fmt, values.astype(dtype(fmt)))


def ufunc(operation: str, fmt: Format, *operands: Array) -> Array:
    """Compute by NumPy's function of that name, on its own types and those of ml_dtypes."""
    return _computed(dtype(fmt), operation, fmt, *operands)


def _computed(kind: np.dtype[Any], operation: str, fmt: Format, *operands: Array) -> Array:
    with np.errstate(all="ignore"):
        return codes_in(fmt, getattr(np, operation)(*(codes.view(kind) for codes in operands)))


def ml_dtypes_targets() -> tuple[Format, ...]:
    """Return the formats of the types of ml_dtypes, and of NumPy's own.

    Casts to integers of ml_dtypes truncate and are undefined out of range, as NumPy's are: no projections.
    """
    import ml_dtypes

    floats = (fmt for fmt in catalog.FORMATS.values() if fmt.exponent_bits)
    return tuple(fmt for fmt in floats if hasattr(ml_dtypes, catalog.ml_dtypes_name(fmt) or ""))


#: Types of universal-dtypes. Its `lns16` is not asked for: logarithms in float64 miss a fifth of what lies
#: next to a threshold.
UNIVERSAL = {
    "posit8": "posit8",
    "posit16": "posit16",
    "posit8_es0": "posit8e0",
    "posit8_es1": "posit8e1",
    "takum_linear8": "takum8",
    "takum_linear16": "takum16",
}


def _universal_type(fmt: Format) -> np.dtype[Any]:
    import universal_dtypes

    kind: np.dtype[Any] = np.dtype(getattr(universal_dtypes, UNIVERSAL[fmt.name]))
    return kind


def universal(values: Array, fmt: Format) -> Array:
    """Cast to NumPy types of the Universal library: posits and linear takums."""
    return codes_in(fmt, values.astype(_universal_type(fmt)))


def universal_ufunc(operation: str, fmt: Format, *operands: Array) -> Array:
    """Compute by NumPy's function of that name, on types of the Universal library."""
    return _computed(_universal_type(fmt), operation, fmt, *operands)


def en_dtypes(values: Array, fmt: Format) -> Array:
    """Cast to HiFloat8, a NumPy type."""
    import en_dtypes

    return codes_in(fmt, values.astype(np.dtype(en_dtypes.hifloat8)))


# -- others -------------------------------------------------------------------------------------------


def jax_targets() -> tuple[Format, ...]:
    """Return the formats that JAX casts to.

    jax.numpy also names 6-bit types, but XLA has them on no CPU: "Invalid XLA PrimitiveType".
    """
    import jax.numpy as jnp

    names = "binary32 binary16 bfloat16 e5m2 e4m3fn float8_e4m3 e3m4 e4m3fnuz e5m2fnuz e4m3b11fnuz e8m0fnu"
    return tuple(fmt for fmt in formats(f"{names} e2m1fn") if hasattr(jnp, dtype(fmt).name))


_PADDLE = {"e4m3fn": "float8_e4m3fn", "e5m2": "float8_e5m2"}


def paddle(values: Array, fmt: Format) -> Array:
    """Cast by Paddle's `astype`, on CPUs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it looks for a compiler's cache
        paddle: Any = importlib.import_module("paddle")
    made = paddle.to_tensor(values, place="cpu").astype(_PADDLE.get(fmt.name, dtype(fmt).name))
    codes = made.view(f"{'u' if fmt.width == 8 else ''}int{fmt.width}").numpy()
    return np.asarray(codes).view(code_dtype(fmt))


def jax(values: Array, fmt: Format) -> Array:
    """Cast by JAX's `astype`, on CPUs."""
    import jax

    # 64-bit operands are narrowed to 32 bits without this; as a context it leaves the process as it was.
    with jax.enable_x64(True), jax.default_device(jax.devices("cpu")[0]):
        return codes_in(fmt, jax.numpy.asarray(values).astype(dtype(fmt)))


def _in_mlx(values: Array) -> Any:
    import mlx.core

    return mlx.core.array(values)


def _of_mlx(made: Any, fmt: Format) -> Array:
    import mlx.core

    codes = code_dtype(fmt)
    with mlx.core.stream(mlx.core.cpu):
        return np.array(made.view(getattr(mlx.core, codes.name)))


def mlx(values: Array, fmt: Format) -> Array:
    """Cast by MLX's `astype`, or by `to_fp8`, on CPUs."""
    import mlx.core

    with mlx.core.stream(mlx.core.cpu):
        given = _in_mlx(values)
        made = mlx.core.to_fp8(given) if fmt == catalog.E4M3FN else given.astype(_mlx_type(fmt))
    return _of_mlx(made, fmt)


def _mlx_type(fmt: Format) -> Any:
    import mlx.core

    return getattr(mlx.core, dtype(fmt).name)


def mlx_operation(operation: str, fmt: Format, *operands: Array) -> Array:
    """Compute by MLX's function of that name, on CPUs."""
    import mlx.core

    with mlx.core.stream(mlx.core.cpu):
        given = [mlx.core.array(codes).view(_mlx_type(fmt)) for codes in operands]
        return _of_mlx(getattr(mlx.core, operation)(*given), fmt)


def mlx_blocks() -> dict[Task, Answer]:
    """Return the tasks of MX blocks, and of NVFP4 blocks without a scale of the tensor."""

    def answer(mode: str, bits: int) -> Answer:
        def blocks(values: Array) -> Array:
            import mlx.core

            given = _in_mlx(np.concatenate([values, values]))  # an odd number of NVFP4 blocks is refused
            with mlx.core.stream(mlx.core.cpu):
                words, scales = (
                    np.array(part)[: len(values)] for part in mlx.core.quantize(given, mode=mode)
                )
            codes = words[..., None] >> np.arange(0, 32, bits, dtype=np.uint32) & np.uint32((1 << bits) - 1)
            return np.hstack([scales, codes.reshape(values.shape).astype(np.uint8)])

        return blocks

    made: dict[BlockFormat, Answer] = {
        replace(catalog.MXFP8_E4M3, rule=rule("rceil")): answer("mxfp8", 8),
        replace(catalog.MXFP4, rule=rule("rceil")): answer("mxfp4", 4),
        replace(catalog.NVFP4, tensor_scale="none"): answer("nvfp4", 4),
    }
    return {Blocks(source, fmt): one for fmt, one in made.items() for source in ("bfloat16", "float32")}


def tensorflow(values: Array, fmt: Format) -> Array:
    """Cast by `tf.cast`, on CPUs."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    with contextlib.suppress(ImportError):
        import triton  # noqa: F401  # torch imports it too; after TensorFlow its LLVM aborts the process
    import tensorflow

    with tensorflow.device("CPU"):
        made = tensorflow.cast(tensorflow.constant(values), tensorflow.as_dtype(dtype(fmt)))
    return codes_in(fmt, made.numpy())


def apytypes(values: Array, fmt: Format) -> Array:
    """Cast by `APyFloatArray.from_array`, to formats with infinities and NaNs as IEEE 754 has them."""
    from apytypes import APyFloatArray

    made = APyFloatArray.from_array(values, fmt.exponent_bits, fmt.trailing_bits, fmt.bias)
    return np.asarray(made.to_bits()).astype(code_dtype(fmt))


def pychop(values: Array, fmt: Format) -> Array:
    """Round by Pychop's `Chop`, to values: it has no codes, and all its formats are like IEEE 754's."""
    from pychop import Chop

    return np.asarray(Chop(fmt.exponent_bits, fmt.trailing_bits, rmode=1)(values.copy()))


def qtorch_targets() -> tuple[Format, ...]:
    """Return the formats that QPyTorch is asked for, which compiles itself when it is first imported."""
    import qtorch.quant  # noqa: F401  # needs a C++ compiler

    return formats("binary16 bfloat16 e5m2 e4m3fn e3m4 e2m3fn e3m2fn e2m1fn")


def qtorch(values: Array, fmt: Format) -> Array:
    """Round by QPyTorch's `float_quantize`, to values of an exponent and trailing bits, nothing else."""
    from qtorch.quant import float_quantize

    return np.asarray(
        float_quantize(tensor(values), fmt.exponent_bits, fmt.trailing_bits, rounding="nearest")
    )


# -- one number at a time: gfloat, of arrays too, and bitstring ------------------------------------


@functools.cache
def gfloat_info(fmt: Format) -> Any:
    """Return a format as gfloat describes it."""
    import gfloat

    return gfloat.FormatInfo(
        name=fmt.name,
        k=fmt.width,
        precision=fmt.precision,
        bias=fmt.bias,
        is_signed=fmt.sign is Sign.MAGNITUDE,
        domain=gfloat.Domain.Extended if fmt.infinity else gfloat.Domain.Finite,
        has_nz=fmt.negative_zero and fmt.sign is Sign.MAGNITUDE,
        num_high_nans=fmt.nans if fmt.negative_zero else 0,
        has_subnormals=fmt.subnormals,
        is_twos_complement=False,
    )


def _given(fmt: Format, mode: str) -> tuple[Any, bool]:
    """Return the mode, and whether to saturate: formats with neither infinity nor NaN must."""
    import gfloat

    return getattr(gfloat.RoundMode, mode), not (fmt.infinity or fmt.has_nan)


def gfloat(values: Array, fmt: Format, *, mode: str) -> Array:
    """Round and encode arrays by gfloat."""
    import gfloat

    rounded = gfloat.round_ndarray(gfloat_info(fmt), values, *_given(fmt, mode))
    return np.asarray(gfloat.encode_ndarray(gfloat_info(fmt), rounded)).astype(code_dtype(fmt))


def gfloat_scalars(values: Array, fmt: Format, *, mode: str) -> Array:
    """Round and encode single numbers by gfloat."""
    import gfloat

    info, given = gfloat_info(fmt), _given(fmt, mode)
    made = [gfloat.encode_float(info, gfloat.round_float(info, value, *given)) for value in values.tolist()]
    return np.array(made, code_dtype(fmt))


#: Names that bitstring gives to formats, of which two saturate where they are asked to.
BITSTRING = {
    catalog.E4M3FN: "e4m3mxfp_overflow",
    catalog.E5M2: "e5m2mxfp_overflow",
    catalog.BINARY32: "float32",
    catalog.BINARY16: "float16",
    catalog.BFLOAT16: "bfloat",
    catalog.E2M3FN: "e2m3mxfp",
    catalog.E3M2FN: "e3m2mxfp",
    catalog.E2M1FN: "e2m1mxfp",
    catalog.INT8F6: "mxint",
    catalog.format("binary8p3se"): "p3binary",
    catalog.format("binary8p4se"): "p4binary",
}
BITSTRING_SATURATED = {catalog.E4M3FN: "e4m3mxfp_saturate", catalog.E5M2: "e5m2mxfp_saturate"}


def bitstring(values: Array, fmt: Format, *, names: Mapping[Format, str]) -> Array:
    """Encode single numbers by bitstring."""
    from bitstring import Bits

    name = names[fmt]
    if name.startswith("float"):
        made = [Bits(float=value, length=fmt.width).uint for value in values.tolist()]
    else:
        made = [Bits(**{name: value}).uint for value in values.tolist()]
    return np.array(made, code_dtype(fmt))
