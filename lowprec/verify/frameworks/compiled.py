"""Casts of libraries that compile or run a program, on CPUs: ONNX, OpenVINO, TVM, IREE, Triton."""

from __future__ import annotations

import functools
from typing import Any

import ml_dtypes
import numpy as np

from lowprec.arrays.checks import code_dtype, dtype
from lowprec.spec import catalog
from lowprec.spec.format import Format
from lowprec.verify.frameworks.base import Array, codes_in
from lowprec.verify.frameworks.torch import tensor

__all__ = ["ONNX_TYPES", "iree", "iree_targets", "onnx", "onnx_targets", "onnxruntime", "openvino", "triton"]
__all__ += ["triton_targets", "tvm"]

# -- the Cast operator of ONNX ------------------------------------------------------------------------

ONNX_TYPES = {
    catalog.BINARY32: "FLOAT",
    catalog.BINARY16: "FLOAT16",
    catalog.BFLOAT16: "BFLOAT16",
    catalog.E5M2: "FLOAT8E5M2",
    catalog.E4M3FN: "FLOAT8E4M3FN",
    catalog.E4M3FNUZ: "FLOAT8E4M3FNUZ",
    catalog.E5M2FNUZ: "FLOAT8E5M2FNUZ",
    catalog.E8M0FNU: "FLOAT8E8M0",
    catalog.E2M1FN: "FLOAT4E2M1",
}


def onnx_targets() -> tuple[Format, ...]:
    """Return the formats that the installed ONNX names."""
    import onnx

    return tuple(fmt for fmt, name in ONNX_TYPES.items() if hasattr(onnx.TensorProto, name))


def _onnx_model(
    source: np.dtype[Any], fmt: Format, saturate: bool, opset: int | None = None, **options: Any
) -> Any:
    """Return a model of one Cast, of the newest operator set or the given one."""
    import onnx
    from onnx import TensorProto, helper

    goal = getattr(TensorProto, ONNX_TYPES[fmt])
    node = helper.make_node("Cast", ["x"], ["y"], to=goal, saturate=int(saturate))
    graph = helper.make_graph(
        [node],
        "cast",
        [helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(source), [None])],
        [helper.make_tensor_value_info("y", goal, [None])],
    )
    opsets = [helper.make_opsetid("", opset or onnx.defs.onnx_opset_version())]
    return helper.make_model(graph, opset_imports=opsets, **options)


def onnx(values: Array, fmt: Format, *, saturate: bool) -> Array:
    """Cast in ONNX's own reference evaluator."""
    from onnx.reference import ReferenceEvaluator

    (made,) = ReferenceEvaluator(_onnx_model(values.dtype, fmt, saturate)).run(None, {"x": values})
    return codes_in(fmt, made)


@functools.lru_cache(maxsize=64)
def _onnx_session(source: np.dtype[Any], fmt: Format, saturate: bool) -> Any:
    import onnxruntime

    model = _onnx_model(source, fmt, saturate, opset=25, ir_version=11)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1  # this thread, whose state the process may have changed
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def onnxruntime(values: Array, fmt: Format, *, saturate: bool) -> Array:
    """Cast by ONNX Runtime."""
    from onnx import TensorProto, helper
    from onnxruntime import OrtValue

    # Types that NumPy has not go in and out as the memory of unsigned integers.
    kind = helper.np_dtype_to_tensor_dtype(values.dtype)
    made = np.zeros(values.shape, code_dtype(fmt) if fmt != catalog.BINARY32 else np.float32)
    if not values.size:
        return codes_in(fmt, made)
    given = np.ascontiguousarray(values.view(np.uint16) if values.dtype.itemsize == 2 else values)
    session = _onnx_session(values.dtype, fmt, saturate)
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", OrtValue.ortvalue_from_numpy_with_onnx_type(given, kind))
    goal = getattr(TensorProto, ONNX_TYPES[fmt])
    binding.bind_ortvalue_output("y", OrtValue.ortvalue_from_numpy_with_onnx_type(made, goal))
    session.run_with_iobinding(binding)
    return codes_in(fmt, made)


# -- OpenVINO: a model of one Convert -----------------------------------------------------------------

_OPENVINO_TYPES = {
    catalog.BINARY32: "f32",
    catalog.BINARY16: "f16",
    catalog.BFLOAT16: "bf16",
    catalog.E5M2: "f8e5m2",
    catalog.E4M3FN: "f8e4m3",
    catalog.E8M0FNU: "f8e8m0",
    catalog.E2M1FN: "f4e2m1",
    catalog.BINARY64: "f64",
}


@functools.lru_cache(maxsize=64)
def _openvino_request(source: str, target: str) -> Any:
    """Return a request of the compiled model, which takes one axis of any length."""
    import openvino
    from openvino import opset15

    x = opset15.parameter([-1], getattr(openvino.Type, source))
    model = openvino.Model([opset15.convert(x, target)], [x], "cast")
    options = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}
    return openvino.Core().compile_model(model, "CPU", options).create_infer_request()


def openvino(values: Array, fmt: Format) -> Array:
    """Cast by OpenVINO."""
    import openvino

    if not values.size:
        return np.zeros(values.shape, code_dtype(fmt))
    source = _OPENVINO_TYPES[catalog.carrier(values.dtype) or catalog.BINARY32]
    flat = np.ascontiguousarray(values.reshape(-1))
    given = flat.view(np.uint16) if source == "bf16" else flat
    request = _openvino_request(source, _OPENVINO_TYPES[fmt])
    request.set_input_tensor(openvino.Tensor(given, [flat.size], getattr(openvino.Type, source)))
    request.infer()
    made = request.get_output_tensor(0).data
    if fmt.width == 4:
        made = np.stack([made & 15, made >> 4], axis=-1).reshape(-1)[: flat.size]
    return np.array(made).view(code_dtype(fmt)).reshape(values.shape)


# -- TVM: `astype` in a tensor expression, compiled by LLVM -------------------------------------------


@functools.lru_cache(maxsize=64)
def _tvm_compiled(source: str, target: str) -> Any:
    """Return the compiled function of one cast, from an array into another."""
    import tvm
    from tvm import te

    values = te.placeholder((te.var("n"),), source, name="values")
    cast = te.compute(values.shape, lambda place: values[place].astype(target), name="cast")
    return tvm.compile(te.create_prim_func([values, cast]), target="llvm")


def tvm(values: Array, fmt: Format) -> Array:
    """Cast by TVM."""
    import tvm

    if not values.size:
        return np.zeros(0, code_dtype(fmt))
    given = tvm.runtime.tensor(np.ascontiguousarray(values))
    made = tvm.runtime.empty(values.shape, dtype(fmt).name)
    _tvm_compiled(_name(values), dtype(fmt).name)(given, made)
    return codes_in(fmt, made.numpy())


def _name(values: Array) -> str:
    return "bfloat16" if values.dtype == ml_dtypes.bfloat16 else values.dtype.name


# -- IREE: MLIR's casts `arith.truncf` and `arith.extf` -----------------------------------------------

#: Formats, and their names in MLIR.
_MLIR_TYPES = {
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
_MLIR_SOURCES = {"bfloat16": ("bf16", 16), "float32": ("f32", 32)}

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


def iree_targets() -> tuple[Format, ...]:
    """Return the formats that IREE is asked for."""
    return tuple(_MLIR_TYPES)


def _mlir_steps(kind: str, width: int, target: str, bits: int) -> list[tuple[str, str]]:
    """Return the operations of a cast, each with the type that it gives."""
    if kind == target:
        return []
    if width == bits:  # truncf and extf are between widths
        return [("extf", "f32"), ("truncf", target)]
    return [("truncf" if width > bits else "extf", target)]


@functools.lru_cache(maxsize=64)
def _iree_compiled(source: str, fmt: Format) -> Any:
    """Return the compiled function of one cast, for any processor: codes of the operands in, codes out.

    That is the `generic` target: with `host` casts to binary16, and their NaNs, are the processor's.
    """
    from iree import compiler, runtime

    kind, width = _MLIR_SOURCES[source]
    bits = 8 * code_dtype(fmt).itemsize
    steps = _mlir_steps(kind, width, _MLIR_TYPES[fmt], bits)
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
    context = runtime.SystemContext(config=_iree_config())
    context.add_vm_module(runtime.VmModule.copy_buffer(context.instance, module))
    return context.modules.module["cast"]


@functools.cache
def _iree_config() -> Any:
    from iree import runtime

    return runtime.Config("local-sync")  # this thread, whose state the process may have changed


def iree(values: Array, fmt: Format) -> Array:
    """Cast by IREE."""
    if not values.size:
        return np.zeros(0, code_dtype(fmt))
    given = np.ascontiguousarray(values).view(f"i{values.dtype.itemsize}")
    return np.array(_iree_compiled(_name(values), fmt)(given).to_host()).view(code_dtype(fmt))


# -- Triton's interpreter: `tensor.to` ----------------------------------------------------------------

#: Formats, and their names in triton.language.
_TRITON_TYPES = {
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


def triton_targets() -> tuple[Format, ...]:
    """Return the formats that Triton is asked for."""
    return tuple(_TRITON_TYPES)


@functools.cache
def _triton_kernel() -> Any:
    """Return the kernel of a cast, for the interpreter."""
    from triton.runtime.interpreter import InterpretedFunction

    from lowprec.verify.frameworks import triton_kernel

    return InterpretedFunction(triton_kernel.cast)


def triton(values: Array, fmt: Format) -> Array:
    """Cast by Triton's interpreter, which runs kernels on CPUs; what a GPU gives is another matter."""
    import torch
    import triton.language as tl

    codes = code_dtype(fmt)
    made = np.zeros(values.shape, codes)
    if not values.size:
        return made
    bits = f"int{8 * codes.itemsize}"
    given, out = tensor(np.ascontiguousarray(values)), torch.from_numpy(made.view(bits))
    kind = getattr(tl, _TRITON_TYPES[fmt])
    _triton_kernel()[(-(-values.size // _BLOCK),)](given, out, values.size, kind, getattr(tl, bits), _BLOCK)
    return made
