"""ONNX: the Cast operator in its own reference evaluator."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from lowprec.arrays.checks import code_dtype
from lowprec.spec import catalog
from lowprec.spec.format import Format
from lowprec.verify.frameworks.base import Array, Framework
from lowprec.verify.inputs.conversions import SOURCES

__all__ = ["FRAMEWORKS", "TYPES", "cast_model"]

TYPES = {
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


def _targets() -> tuple[Format, ...]:
    import onnx

    return tuple(fmt for fmt, name in TYPES.items() if hasattr(onnx.TensorProto, name))


def cast_model(
    source: np.dtype[Any], fmt: Format, saturate: bool, opset: int | None = None, **options: Any
) -> Any:
    """Return a model of one Cast, of the newest operator set or the given one."""
    import onnx
    from onnx import TensorProto, helper

    goal = getattr(TensorProto, TYPES[fmt])
    node = helper.make_node("Cast", ["x"], ["y"], to=goal, saturate=int(saturate))
    graph = helper.make_graph(
        [node],
        "cast",
        [helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(source), [None])],
        [helper.make_tensor_value_info("y", goal, [None])],
    )
    opsets = [helper.make_opsetid("", opset or onnx.defs.onnx_opset_version())]
    return helper.make_model(graph, opset_imports=opsets, **options)


def _cast(values: Array, fmt: Format, *, saturate: bool) -> Array:
    from onnx.reference import ReferenceEvaluator

    with np.errstate(all="ignore"):
        (made,) = ReferenceEvaluator(cast_model(values.dtype, fmt, saturate)).run(None, {"x": values})
    return np.asarray(made).view(code_dtype(fmt))


FRAMEWORKS = tuple(
    Framework(
        name=name,
        package="onnx",
        install='pip install "lowprec[onnx]"',
        sources=tuple(SOURCES),
        targets=_targets,
        cast=functools.partial(_cast, saturate=saturate),
    )
    for name, saturate in (("onnx", True), ("onnx_nosat", False))
)
