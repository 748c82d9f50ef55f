"""Metadata that torchao keeps besides its tensors: the class of each weight, and the order of scales.

Its loader makes a tensor of each name in `tensor_names`, by JSON under the tensor's own name. Scales that are
`is_swizzled_scales` lie in tiles of 128x4.

Source: pytorch/ao, torchao/prototype/safetensors.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from lowprec.checkpoints.container import CheckpointError, parse_json

if TYPE_CHECKING:
    from lowprec.checkpoints.targets import Target
    from lowprec.checkpoints.weights import Weight

__all__ = ["attributes", "described", "metadata_of"]

#: torch's names of the types of sources; what was quantised before counts as bfloat16.
_TYPES = {"F32": "float32", "F16": "float16"}
#: Of JSON in the header: which parts a weight has.
_PARTS = "_tensor_data_names"
_CODES = {"e4m3fn": "float8_e4m3fn", "e5m2": "float8_e5m2", "e2m1fn": "float4_e2m1fn_x2"}


def attributes(metadata: Mapping[str, str], name: str) -> dict[str, Any]:
    """Return what the header says of a weight: its class's attributes, and `_tensor_data_names`, its parts.

    Nothing where it says nothing.
    """
    try:
        said = parse_json(metadata.get(name, "{}").encode(), name)
    except CheckpointError:
        return {}
    data, parts = said.get("_data"), said.get(_PARTS)
    found = data if isinstance(data, dict) else {}
    return {**found, _PARTS: parts} if isinstance(parts, list) else found


def described(weight: Weight, how: Target) -> str:
    """Return the JSON for a weight that is quantised by a target."""
    last, block = weight.value_shape[-1], how.scheme.block
    kind = {"_type": "torch.dtype", "_data": _TYPES.get(weight.codes.tag, "bfloat16")}
    data: dict[str, Any] = {"act_quant_kwargs": None}
    if how.scheme.tensor:
        name = "NVFP4Tensor"
        data |= {"is_swizzled_scales": False, "use_triton_kernel": False, "block_size": 16}
    elif block is not None:
        name = "MXTensor"
        element = {"_type": "torch.dtype", "_data": _CODES[how.element.name]}
        data |= {"elem_dtype": element, "block_size": block[1], "is_swizzled_scales": False}
        data |= {"kernel_preference": {"_type": "KernelPreference", "_data": "EMULATED"}}
    else:
        name = "Float8Tensor"
        sizes = [1] * (len(weight.shape) - 1) + [last] if how.channel else list(weight.value_shape)
        data |= {"block_size": sizes, "mm_config": None, "dtype": kind}
        data |= {"kernel_preference": {"_type": "KernelPreference", "_data": "AUTO"}}
    if block is not None:
        data["orig_dtype"] = kind
    parts = ["qdata", "scale", *(["per_tensor_scale"] if how.scheme.tensor else [])]
    return json.dumps({"_type": name, "_data": data, _PARTS: parts})


def metadata_of(
    weights: Iterable[Weight], done: Iterable[str], how: Target, metadata: Mapping[str, str]
) -> dict[str, str]:
    """Return the header's metadata for torchao's loader.

    Parameters
    ----------
    weights : iterable of Weight
        All of the checkpoint.
    done : iterable of str
        The names of those that are quantised by `how`.
    how : Target
    metadata : mapping of str to str
        Of the source: what it says of torchao's weights that stay as they are.
    """
    chosen, found = set(done), dict[str, str]()
    for weight in weights:
        if weight.name in chosen:
            found[f"{weight.name.removesuffix('.weight')}.weight"] = described(weight, how)
        elif weight.scheme.family == "torchao" and attributes(metadata, weight.name):
            found[weight.name] = metadata[weight.name]
        else:
            found |= {part.name: json.dumps({"_type": "Tensor"}) for part in weight.parts}
    # The loader splits every name at its last dot; tensors without one are left to it as they are.
    named = {name: text for name, text in found.items() if "." in name}
    return {**named, "tensor_names": json.dumps(list(named))}
