"""Casts and operations of libraries that take arrays: each function asks one library.

None of the formats that a library names and casts nothing to is asked for.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any

import numpy as np

from lowprec.arrays.checks import code_dtype, dtype
from lowprec.spec import catalog
from lowprec.spec.format import Format
from lowprec.verify.frameworks.base import Array, codes_in, formats
from lowprec.verify.frameworks.torch import tensor

__all__ = ["apytypes", "astype", "en_dtypes", "jax", "jax_targets", "ml_dtypes_targets", "pychop", "qtorch"]
__all__ += ["qtorch_targets", "tensorflow", "ufunc", "universal", "universal_ufunc"]


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


def jax(values: Array, fmt: Format) -> Array:
    """Cast by JAX's `astype`, on CPUs."""
    import jax

    # 64-bit operands are narrowed to 32 bits without this; as a context it leaves the process as it was.
    with jax.enable_x64(True), jax.default_device(jax.devices("cpu")[0]):
        return codes_in(fmt, jax.numpy.asarray(values).astype(dtype(fmt)))


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
