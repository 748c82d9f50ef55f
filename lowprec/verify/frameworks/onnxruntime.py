"""ONNX Runtime, on CPUs: the Cast operator."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from lowprec.arrays.checks import code_dtype
from lowprec.spec import catalog
from lowprec.spec.format import Format
from lowprec.verify.frameworks.base import Array, Framework
from lowprec.verify.frameworks.onnx import TYPES, cast_model
from lowprec.verify.inputs.conversions import SOURCES

__all__ = ["FRAMEWORKS"]

#: It has no kernel for FLOAT4E2M1. Only 8-bit floats have a choice, and FLOAT8E8M0 refuses saturate=0.
_FORMATS = tuple(fmt for fmt in TYPES if fmt != catalog.E2M1FN)
_NOT_SATURATED = (catalog.E5M2, catalog.E4M3FN, catalog.E4M3FNUZ, catalog.E5M2FNUZ)


@functools.lru_cache(maxsize=64)
def _session(source: np.dtype[Any], fmt: Format, saturate: bool) -> Any:
    import onnxruntime

    model = cast_model(source, fmt, saturate, opset=25, ir_version=11)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1  # this thread, whose state the process may have changed
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def _cast(values: Array, fmt: Format, *, saturate: bool) -> Array:
    from onnx import TensorProto, helper
    from onnxruntime import OrtValue

    # Types that NumPy has not go in and out as the memory of unsigned integers.
    kind = helper.np_dtype_to_tensor_dtype(values.dtype)
    made = np.zeros(values.shape, code_dtype(fmt) if fmt != catalog.BINARY32 else np.float32)
    if not values.size:
        return made.view(code_dtype(fmt))
    given = np.ascontiguousarray(values.view(np.uint16) if values.dtype.itemsize == 2 else values)
    session = _session(values.dtype, fmt, saturate)
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", OrtValue.ortvalue_from_numpy_with_onnx_type(given, kind))
    goal = getattr(TensorProto, TYPES[fmt])
    binding.bind_ortvalue_output("y", OrtValue.ortvalue_from_numpy_with_onnx_type(made, goal))
    session.run_with_iobinding(binding)
    return made.view(code_dtype(fmt))


def _framework(name: str, formats: tuple[Format, ...], saturate: bool) -> Framework:
    return Framework(
        name=name,
        package="onnxruntime",
        install="pip install onnxruntime onnx",
        sources=tuple(SOURCES),
        targets=lambda: formats,
        cast=functools.partial(_cast, saturate=saturate),
        needs=("onnx",),
    )


FRAMEWORKS = (
    _framework("onnxruntime", _FORMATS, True),
    _framework("onnxruntime_nosat", _NOT_SATURATED, False),
)
