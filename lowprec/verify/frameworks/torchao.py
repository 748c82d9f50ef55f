"""torchao, eager on CPUs: MX blocks under each of its scaling modes, and NVFP4 blocks."""

from __future__ import annotations

import functools
import logging
from dataclasses import replace
from typing import Any

import numpy as np

from lowprec.spec import catalog
from lowprec.spec.block import BlockFormat, rule
from lowprec.verify.frameworks.base import Answer, Array, Framework
from lowprec.verify.frameworks.tasks import Blocks, Task
from lowprec.verify.frameworks.torch import tensor

__all__ = ["FRAMEWORKS"]

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


def _mx(mode: str) -> dict[Task, Answer]:
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


def _nvfp4(values: Array, scales: Array) -> Array:
    import torch

    _, _, nvfp4_quantize = _prototype()
    made = np.empty((len(values), 17), np.uint8)
    for scale in np.unique(scales):
        here = scales == scale
        part = values[here]
        made[here] = _rows(nvfp4_quantize(tensor(part), 16, torch.tensor(scale)), part.shape)
    return made


def _framework(name: str, others: Any) -> Framework:
    return Framework(
        name=f"torchao_{name}",
        package="torchao",
        install="pip install torch torchao==0.18.0",
        sources=(),
        targets=lambda: (),
        cast=lambda values, fmt: values,
        others=others,
        needs=("torch",),
    )


FRAMEWORKS = (
    _framework("floor", lambda: _mx("floor")),
    _framework("ceil", lambda: _mx("ceil")),
    _framework("even", lambda: _mx("even")),
    _framework("rceil", lambda: _mx("rceil")),
    _framework(
        "nvfp4", lambda: {Blocks(source, catalog.NVFP4): _nvfp4 for source in ("float32", "bfloat16")}
    ),
)
