"""Frameworks that convert numbers, each as a small adapter. None is trusted: all are under test.

One file for each library says which tasks it can do and how they are given to it. Several entries of
one library are different ways to ask it: another rounding mode, saturation or scale rule.
"""

from __future__ import annotations

from lowprec.verify.frameworks import (
    apytypes,
    bitstring,
    en_dtypes,
    gfloat,
    iree,
    jax,
    ml_dtypes,
    numpy,
    onnx,
    onnxruntime,
    pychop,
    qtorch,
    tensorflow,
    torch,
    torchao,
    triton,
    tvm,
    universal,
)
from lowprec.verify.frameworks.base import Framework

__all__ = ["FRAMEWORKS", "Framework"]

_LIBRARIES = (
    ml_dtypes,
    numpy,
    torch,
    jax,
    onnx,
    onnxruntime,
    tensorflow,
    torchao,
    gfloat,
    apytypes,
    pychop,
    qtorch,
    bitstring,
    universal,
    en_dtypes,
    tvm,
    iree,
    triton,
)

#: Every framework that there is an adapter for, by name.
FRAMEWORKS: dict[str, Framework] = {
    framework.name: framework for library in _LIBRARIES for framework in library.FRAMEWORKS
}
