"""Transformer Engine's reference quantisers, as functions for `lowprec equal`, on a CPU.

    export TRANSFORMER_ENGINE=CHECKOUT PYTHONPATH=docs/examples
    lowprec equal transformer_engine_references:nvfp4 transformer_engine --to nvfp4
    lowprec equal transformer_engine_references:nvfp4_2d transformer_engine --to nvfp4_2d
    lowprec equal transformer_engine_references:fp8 transformer_engine_references:fp8_steps --to e4m3fn

The package itself needs CUDA to be imported. Its references are plain torch: this reads their files from a
checkout, with the two base classes that they take from the rest of the package in a few lines. Needs torch.
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import torch

import lowprec as lp

_RECIPES = "transformer_engine.pytorch.custom_recipes"


class _Quantizer:
    """What the references need of the package's base class."""

    def __init__(self, *, rowwise: bool, columnwise: bool) -> None:
        self.rowwise_usage, self.columnwise_usage = rowwise, columnwise


@functools.cache
def _reference(name: str) -> Any:
    """Import a file of custom_recipes from the checkout, without the package around it."""
    folder = Path(os.environ.get("TRANSFORMER_ENGINE", "")).joinpath(*_RECIPES.split("."))
    if not (folder / f"{name}.py").exists():
        raise ImportError(
            f"TRANSFORMER_ENGINE names no checkout of Transformer Engine: {folder} has no {name}.py, as "
            "it had in August 2026; set it to the folder of such a checkout"
        )
    for module in ("", ".pytorch", ".pytorch.custom_recipes", ".pytorch.tensor", ".pytorch.tensor.utils"):
        made: Any = sys.modules.setdefault(
            f"transformer_engine{module}", types.ModuleType(f"transformer_engine{module}")
        )
        made.__path__ = [str(folder)] if module.endswith("recipes") else []
    made.is_custom = None
    base: Any = types.ModuleType("transformer_engine.pytorch.quantized_tensor")
    base.Quantizer, base.QuantizedTensorStorage = _Quantizer, object
    sys.modules[base.__name__] = base
    return importlib.import_module(f"{_RECIPES}.{name}")


def _nvfp4(x: Any, tile: tuple[int, int]) -> tuple[Any, Any, Any]:
    module = _reference("reference_nvfp4")
    quantizer = module.NVFP4QuantizerRef(
        dtype=module.reference_utils.Fp4Formats.E2M1, columnwise=False, quant_tile_shape=tile
    )
    made = quantizer.quantize(torch.tensor(np.asarray(x)))
    with np.errstate(divide="ignore", over="ignore"):  # it keeps the amax: the scale is as its steps make it
        amax = made.global_amax_row.numpy()[0]
        encoding = np.minimum(np.float32(2688) / amax, np.finfo(np.float32).max)
        return made.data.numpy(), made.scale.view(torch.uint8).numpy()[:: tile[0]], np.float32(1) / encoding


def nvfp4(x: Any) -> tuple[Any, Any, Any]:
    """Quantise in blocks of 16; return codes, two to a byte, scales and the scale of the tensor."""
    return _nvfp4(x, (1, 16))


def nvfp4_2d(x: Any) -> tuple[Any, Any, Any]:
    """Quantise in blocks of 16 times 16, as weights are."""
    return _nvfp4(x, (16, 16))


def fp8(x: Any) -> tuple[Any, Any]:
    """Quantise by current scaling to E4M3; return codes and the number that they are times."""
    quantizer = _reference("reference_current_scaling").CurrentScalingQuantizerRef(
        torch.float8_e4m3fn, columnwise=False
    )
    made = quantizer.quantize(torch.tensor(np.asarray(x)))
    return made.data.view(torch.uint8).numpy(), made.scale.numpy()[0]


def fp8_steps(x: Any) -> tuple[Any, Any]:
    """Do what current scaling does, by lowprec: multiply by 448 / amax, each step rounded to binary32."""
    amax = np.abs(x).max()
    scale = lp.divide(np.float32(448), amax, "binary32") if amax else np.float32(1)
    return lp.encode(lp.multiply(x, scale, "binary32"), "e4m3fn"), lp.divide(np.float32(1), scale, "binary32")
