"""PyTorch and torchao, on CPUs: `Tensor.to`, operations on the types that have them, and blocks."""

from __future__ import annotations

import functools
import logging
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np

from lowprec.arrays.checks import code_dtype, dtype
from lowprec.spec import catalog
from lowprec.spec.block import BlockFormat, rule
from lowprec.spec.format import Format
from lowprec.verify.frameworks.base import Answer, Array, formats
from lowprec.verify.frameworks.tasks import Blocks, Task

__all__ = ["tensor", "torch", "torch_operation", "torch_targets", "torchao_mx", "torchao_nvfp4"]


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


def torch_targets() -> tuple[Format, ...]:
    """Return the formats that the installed torch casts to.

    Casts to float4_e2m1fn_x2 and to the 1- to 7-bit integers raise NotImplementedError.
    """
    named = formats("binary32 binary16 bfloat16 e5m2 e4m3fn e4m3fnuz e5m2fnuz e8m0fnu")
    return tuple(fmt for fmt in named if _type(dtype(fmt).name) is not None)


def torch(values: Array, fmt: Format) -> Array:
    """Cast by `Tensor.to`."""
    return _codes(tensor(values).to(_type(dtype(fmt).name)), fmt)


def torch_operation(operation: str, fmt: Format, *operands: Array) -> Array:
    """Compute by torch's function of that name."""
    import torch

    kind = _type(dtype(fmt).name)
    given = [torch.from_numpy(codes.view(f"i{codes.itemsize}")).view(kind) for codes in operands]
    return _codes(getattr(torch, operation)(*given), fmt)


# -- torchao: MX blocks under each of its scaling modes, and NVFP4 blocks -----------------------------

#: Elements as `to_mx` names them: attributes of torch, or its own words.
_ELEMENTS = {
    catalog.MXFP8_E4M3: "float8_e4m3fn",
    catalog.MXFP8_E5M2: "float8_e5m2",
    catalog.MXFP6_E2M3: "fp6_e2m3",
    catalog.MXFP6_E3M2: "fp6_e3m2",
    catalog.MXFP4: "float4_e2m1fn_x2",
}


@functools.cache
def _prototype() -> tuple[Any, Any, Any]:
    """Import its functions; what it logs while it looks for GPUs is not shown."""
    logging.disable(logging.WARNING)
    try:
        from torchao.prototype.mx_formats.config import ScaleCalculationMode
        from torchao.prototype.mx_formats.mx_tensor import to_mx
        from torchao.prototype.mx_formats.nvfp4_tensor import nvfp4_quantize
    finally:
        logging.disable(logging.NOTSET)
    return ScaleCalculationMode, to_mx, nvfp4_quantize


def _rows(parts: tuple[Any, Any], shape: tuple[int, ...]) -> Array:
    """Return the scale's code and then the elements', one block in each row."""
    import torch

    scales, codes = (part.view(torch.uint8).numpy() for part in parts)
    if codes.size < shape[0] * shape[1]:
        codes = np.stack([codes & 15, codes >> 4], axis=-1)
    return np.concatenate([scales.reshape(-1, 1), codes.reshape(shape)], axis=1)


def torchao_mx(mode: str) -> dict[Task, Answer]:
    """Return the tasks of MX blocks with the scales of a mode."""

    def answer(fmt: BlockFormat) -> Answer:
        def blocks(values: Array) -> Array:
            import torch

            modes, to_mx, _ = _prototype()
            element = getattr(torch, _ELEMENTS[fmt], _ELEMENTS[fmt])
            return _rows(to_mx(tensor(np.ascontiguousarray(values)), element, 32, modes(mode)), values.shape)

        return blocks

    return {
        Blocks(source, replace(fmt, rule=rule(mode))): answer(fmt)
        for fmt in _ELEMENTS
        for source in ("float32", "bfloat16")
    }


def torchao_nvfp4() -> dict[Task, Answer]:
    """Return the tasks of NVFP4 blocks."""
    return {Blocks(source, catalog.NVFP4): _nvfp4 for source in ("float32", "bfloat16")}


def _nvfp4(values: Array, scales: Array) -> Array:
    import torch

    _, _, nvfp4_quantize = _prototype()
    made = np.empty((len(values), 17), np.uint8)
    for scale in np.unique(scales):
        here = scales == scale
        part = values[here]
        made[here] = _rows(nvfp4_quantize(tensor(part), 16, torch.tensor(scale)), part.shape)
    return made
