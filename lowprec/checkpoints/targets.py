"""Targets of weights: schemes and formats that go together, and the options that they have."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lowprec.arrays.random import is_plain
from lowprec.checkpoints.configured import LINEAR_ONLY
from lowprec.checkpoints.container import CheckpointError
from lowprec.checkpoints.decoding import OTHER_BLOCKS, engine_format
from lowprec.checkpoints.schemes.packings import GGUF_NVFP4
from lowprec.checkpoints.schemes.schemes import PLAIN, Scheme, find
from lowprec.spec import catalog
from lowprec.spec.block import BlockFormat, rule as rule_of
from lowprec.spec.format import Format
from lowprec.spec.rounding import NEAREST_EVEN, Rounding, rounding as rounding_of

__all__ = ["EXCLUDED", "FAMILIES", "SMALLEST_SCALE", "Target", "target", "usable"]

#: The smallest scale of a tensor or a channel: devices flush subnormals, and its inverse is a number.
SMALLEST_SCALE = np.finfo(np.float32).smallest_normal
#: What `--scheme` and `--to` together mean: the scheme that is written.
FAMILIES: dict[str, dict[str, str]] = {
    "compressed-tensors": {
        "nvfp4": "nvfp4-pack-quantized",
        "mxfp4": "mxfp4-pack-quantized",
        "mxfp6_e2m3": "mxfp6-pack-quantized",
        "mxfp8_e4m3": "mxfp8-quantized",
        "e4m3fn": "float-quantized",
        "int8": "int-quantized",
        "int4": "pack-quantized",
    },
    "modelopt": {"nvfp4": "modelopt nvfp4", "e4m3fn": "modelopt fp8"},
    "quark": {
        "mxfp4": "quark mxfp4",
        "mxfp6_e3m2": "quark mxfp6_e3m2",
        "mxfp6_e2m3": "quark mxfp6_e2m3",
        "e4m3fn": "quark fp8",
    },
    "bitsandbytes": {"nf4": "bitsandbytes nf4", "fp4": "bitsandbytes fp4"},
    "gpt-oss": {"mxfp4": "gpt-oss mxfp4"},
    "deepseek": {"e4m3fn": "deepseek fp8"},
    "deepseek-v4": {"e4m3fn": "deepseek-v4 fp8", "mxfp4": "deepseek-v4 fp4"},
    "torchao": {
        "nvfp4": "torchao nvfp4",
        "mxfp4": "torchao mxfp4",
        "mxfp8_e4m3": "torchao mxfp8",
        "e4m3fn": "torchao float8",
    },
    "comfyui": {"e4m3fn": "comfyui scaled fp8", "nvfp4": "comfyui nvfp4", "mxfp8_e4m3": "comfyui mxfp8"},
    "gguf": {name.lower(): f"gguf {name}" for name in ("MXFP4", "NVFP4", "Q8_0", "IQ4_NL")},
    "onnx": {
        "nvfp4": "onnx nvfp4",
        "mxfp4": "onnx mxfp4",
        "mxfp8_e4m3": "onnx mxfp8",
        "e4m3fn": "onnx fp8",
        "int8": "onnx int8",
        "int4": "onnx int4",
    },
    "transformer-engine": {"mxfp8_e4m3": "transformer-engine mxfp8", "nvfp4": "transformer-engine nvfp4"},
    "plain": {name: "plain" for name in ("e4m3fn", "e5m2", "bfloat16", "binary16")},
}

#: Schemes whose rows may have a scale each.
_OF_CHANNELS = ("float-quantized", "torchao float8", "int-quantized", "pack-quantized")
#: Columns of a group of packed integers that servers have kernels for; the last by default.
_GROUPS = (32, 64, 128)

#: Weights that stay as they are unless `include` names them.
EXCLUDED = (
    *("*embed*", "*lm_head*", "*norm*", "*bias*", "*router*", "*.gate.weight"),
    *("*wte.weight", "*wpe.weight", "shared.weight"),  # embeddings of GPT-2 and T5
    *("*token_embd.*", "position_embd.*", "token_types.*", "*.ffn_gate_inp.*", "output.weight"),  # in GGUF
    *("*.exp_avg", "*.exp_avg_sq", "*.max_exp_avg_sq", "*.momentum_buffer"),  # states of torch's optimizers
)


@dataclass(frozen=True)
class Target:
    """Target of weights: a scheme, a format, and options.

    Parameters
    ----------
    scheme : Scheme
    element : Format
    blocks : BlockFormat, optional
        Where scales belong to blocks.
    channel : bool
        Whether each row has a scale, where they do not.
    rounding : Rounding
        Of elements.
    seed : int
        Of stochastic roundings: a weight's random integers are those of its name and of the elements' places.
    """

    scheme: Scheme
    element: Format
    blocks: BlockFormat | None = None
    channel: bool = False
    rounding: Rounding = NEAREST_EVEN
    seed: int = 0

    @property
    def is_linear_only(self) -> bool:
        """True if the scheme's software quantises linear layers, and no convolutions."""
        return self.scheme.family in (*LINEAR_ONLY, "deepseek-v4")

    def misfit(self, shape: tuple[int, ...], summed: int = -1) -> str:
        """Return why a weight of this shape cannot be written so; empty if it can.

        Products sum over its axis `summed`. ONNX has blocks along it; other schemes have them along the last
        axis, those of bitsandbytes and Transformer Engine whatever products sum over.
        """
        if not math.prod(shape):
            return "it has no elements"
        if self.scheme == PLAIN:
            return ""
        needed = self.scheme.packing.axes
        if len(shape) < needed:
            return f"{len(shape)} axes, {needed} needed"
        of_axis = self.scheme.block and self.scheme.block[0] == 1 and self.scheme.family != "onnx"
        if summed != -1 and of_axis and not (self.scheme.state or self.scheme.padded):
            return (
                f"products sum over its axis {summed}, and blocks of {self.scheme.name} lie along the last; "
                f"use --scheme onnx"
            )
        if self.scheme.swizzled or self.scheme.padded:
            unit, why = 16 if self.scheme.tensor else 32, ", which ComfyUI pads to" * self.scheme.swizzled
            fits = len(shape) == 2 and not any(length % unit for length in shape)
            return "" if fits else f"two axes in multiples of {unit} needed{why}"
        if self.scheme.block == (128, 128):
            return "" if len(shape) == 2 else "tiles need exactly two axes"
        along = shape[-2] if self.scheme.transposed else shape[-1 if of_axis else summed]
        size = self.scheme.block[1] if self.scheme.block else 1
        size = 64 if self.scheme.packing == GGUF_NVFP4 else size
        return "" if along % size == 0 else f"{along} elements are no multiple of {size}"


def usable(scales: npt.ArrayLike) -> npt.NDArray[np.float32]:
    """Return scales of tensors or channels, those below the smallest normal float32 raised to it.

    >>> usable([1.0, 1e-40])
    array([1.0000000e+00, 1.1754944e-38], dtype=float32)
    """
    return np.maximum(np.asarray(scales, np.float32), SMALLEST_SCALE)


def target(
    family: str,
    to: str,
    *,
    rule: str | None = None,
    channel: bool = False,
    powers: bool = False,
    nested: bool = False,
    group: int | None = None,
    rounding: Rounding | str = NEAREST_EVEN,
    seed: int = 0,
) -> Target:
    """Return what `--scheme`, `--to` and the other options ask for.

    >>> target("modelopt", "nvfp4").scheme.name
    'modelopt nvfp4'

    Parameters
    ----------
    family, to : str
        Keys of `FAMILIES`.
    rule : str, optional
        Scale rule of blocks, in place of the block format's own.
    channel : bool
        A scale for each row; of e4m3fn in compressed-tensors and torchao, and of integers in the former.
    powers : bool
        Scales of 128x128 that are powers of two (`scale_fmt` "ue8m0"); DeepSeek V4 has no others.
    nested : bool
        Scales that are quantised too, of bitsandbytes ("double quantisation").
    group : int, optional
        Columns that share a scale, of int4 in compressed-tensors: 32, 64 or 128, by default 128.
    rounding : Rounding or str
        Of elements; those of bitsandbytes go to the nearest only. Stochastic ones have independent integers.
    seed : int
        Of stochastic roundings.

    Raises
    ------
    CheckpointError
        A scheme, format or option that there is not.
    """
    if family not in FAMILIES:
        raise CheckpointError(f"unknown scheme {family!r}; use one of {', '.join(FAMILIES)}")
    if to not in FAMILIES[family]:
        raise CheckpointError(f"scheme {family!r} has no {to!r}; it has {', '.join(FAMILIES[family])}")
    scheme, mode = find(FAMILIES[family][to]), rounding_of(rounding)
    if (scheme.state or scheme.padded) and mode != NEAREST_EVEN:
        raise CheckpointError(f"{scheme.name} is rounded to the nearest value, not by {mode}")
    if mode.bits and not is_plain(mode):
        raise CheckpointError(f"rounding {mode} shares words between elements; use stochastic(bits)")
    if channel and scheme.name not in _OF_CHANNELS:
        raise CheckpointError(
            f"scales of channels are for e4m3fn of compressed-tensors and torchao, and for int8 and int4 of "
            f"compressed-tensors, not for {scheme.name}"
        )
    if group is not None and (channel or scheme.name != "pack-quantized" or group not in _GROUPS):
        raise CheckpointError(
            f"group={group} of {scheme.name}{' with channel' * channel}: int4 of compressed-tensors without "
            f"channel has groups of {', '.join(map(str, _GROUPS))} columns; leave group out elsewhere"
        )
    if powers and scheme.family != "deepseek":
        raise CheckpointError(
            f"powers of two as scales can be chosen for deepseek only, not for {scheme.name}"
        )
    if nested and not scheme.state:
        raise CheckpointError(f"nested scales are for bitsandbytes only, not for {scheme.name}")
    if nested:
        scheme = find(f"{scheme.name} nested")
    if rule is not None and scheme.state:
        raise CheckpointError(f"rule={rule!r}: {scheme.name} has no scales but the largest magnitudes")
    if scheme.name == "pack-quantized":
        block = None if channel else (1, group or _GROUPS[-1])
        scheme = dataclasses.replace(scheme, element=to, block=block)
    if scheme == PLAIN or scheme.block is None:
        if rule is not None:
            raise CheckpointError(f"rule={rule!r} is for scales of blocks, which {scheme.name} has not")
        return Target(scheme, catalog.format(to), channel=channel, rounding=mode, seed=seed)
    name = f"bnb_{to}" if scheme.state else "fp8_block_128x128" if scheme.block == (128, 128) else to
    blocks = OTHER_BLOCKS[to] if to in OTHER_BLOCKS else catalog.block_format(name)
    if scheme.name == "pack-quantized":
        size = scheme.block[1]
        blocks = dataclasses.replace(blocks, name=f"{to} in groups of {size}", size=size)
    if scheme.block == (128, 128) and (powers or scheme.scale == "e8m0fnu"):
        tiles = catalog.format("e8m0fnu") if scheme.scale == "e8m0fnu" else blocks.scale
        blocks = dataclasses.replace(blocks, scale=tiles, rule=rule_of("rceil"))
    if scheme.padded:
        if rule is not None:
            raise CheckpointError(f"rule={rule!r}: {scheme.name} has the scales of its own software only")
        blocks = engine_format("nvfp4_2d" if scheme.tensor else to)
        return Target(scheme, blocks.element, blocks)
    if rule is not None:
        blocks = dataclasses.replace(blocks, rule=rule_of(rule))
    blocks = dataclasses.replace(blocks, elements=dataclasses.replace(blocks.elements, rounding=mode))
    return Target(scheme, blocks.element, blocks, rounding=mode, seed=seed)
