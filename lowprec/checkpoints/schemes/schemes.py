"""Schemes: which tensors make up one quantised weight, and what their bits mean, as data.

One table serves `inspect`, `lint`, `dequantize`, `quantize`, `verify` and `convert`. A value is

    element(code) * scale                       with a scale for each block, channel or tensor
    element(code) * scale * tensor scale        where the tensor's scale is a multiplier
    element(code) * scale / tensor scale        where it is a divisor
    (element(code) - zero point) * scale        of integers
    element(code) * scale + offset              of some of GGUF's

Sources: the repositories and checkpoints that `Scheme.source` names; docs/checkpoints.md has the table.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from lowprec.checkpoints.container import Entry
from lowprec.checkpoints.schemes.integer_schemes import (
    GGUF_SCHEMES,
    INTEGER_SCHEMES,
    WEIGHT_SHAPE,
    WIDE_SCALES,
    ZERO_POINT,
)
from lowprec.checkpoints.schemes.packings import GROUPS, HIGH_LOW, LONG_ROW, LOW_FIRST, WHOLE
from lowprec.checkpoints.schemes.scheme import Scheme

__all__ = [
    "CACHE_SCALES",
    "COMFY_QUANT",
    "FLOATS",
    "INPUT_SCALES",
    "INTEGERS",
    "NESTED_ABSMAX",
    "NESTED_MAP",
    "ONNX",
    "PLAIN",
    "SAVED",
    "SCALED_FP8",
    "SCHEMES",
    "TRANSFORMER_ENGINE",
    "WEIGHT_SHAPE",
    "ZERO_POINT",
    "Scheme",
    "find",
    "is_mark",
]

#: Formats of elements and scales by the type's name in the header.
FLOATS: Mapping[str, str] = {
    "F4": "e2m1fn",
    "F6_E2M3": "e2m3fn",
    "F6_E3M2": "e3m2fn",
    "F8_E4M3": "e4m3fn",
    "F8_E5M2": "e5m2",
    "F8_E4M3FNUZ": "e4m3fnuz",
    "F8_E5M2FNUZ": "e5m2fnuz",
    "F8_E8M0": "e8m0fnu",
    "BF16": "bfloat16",
    "F16": "binary16",
    "F32": "binary32",
    "F64": "binary64",
}
#: The same of integers, which are numbers only where a scheme says so.
INTEGERS: Mapping[str, str] = {
    f"{kind}{bits}": f"{'u' if kind == 'U' else ''}int{bits}" for kind in "IU" for bits in (2, 4, 8, 16, 32)
}
_FP8 = ("F8_E4M3", "F8_E5M2", "F8_E4M3FNUZ", "F8_E5M2FNUZ")
_BYTES = ("U8", "F8_E8M0")

PLAIN = Scheme(name="plain", family="plain", source="safetensors", weight="")

#: Of `lowprec.save`: the metadata name the formats.
SAVED = Scheme(
    name="lowprec",
    family="lowprec",
    scales=".scales",
    tensor=".tensor_scale",
    weight="",
    source="docs/blocks.md",
)

#: What most schemes of NVFP4 and of MXFP4 have alike, to be named by those that `replace` the rest.
_NVFP4 = Scheme(
    name="",
    family="",
    source="",
    codes=".weight",
    code_tags=("U8",),
    scales=".weight_scale",
    scale_tags=("F8_E4M3",),
    element="e2m1fn",
    scale="ue4m3",
    block=(1, 16),
    packing=LOW_FIRST,
)
_MXFP4 = replace(_NVFP4, scale_tags=_BYTES, scale="e8m0fnu", block=(1, 32))

#: Of ComfyUI: JSON beside a weight that says its format.
COMFY_QUANT = ".comfy_quant"
#: ComfyUI's tensor that says of all weights that they are FP8 with scales.
SCALED_FP8 = "scaled_fp8"
#: Of bitsandbytes: scales of scales, and the values of their codes.
NESTED_ABSMAX, NESTED_MAP = ".weight.nested_absmax", ".weight.nested_quant_map"

#: Scales of what goes into a layer: no value of a weight depends on them.
INPUT_SCALES = (".input_scale", ".input_global_scale", ".scale_input", "._weight_act_per_tensor_scale")
#: Scales of keys, values and queries in the cache of attention: no value of a weight depends on them.
CACHE_SCALES = (".k_scale", ".v_scale", ".q_scale", ".kv_scale")

#: Of ONNX: what DequantizeLinear makes of any of its types; those that are written have schemes of their own.
ONNX = Scheme(
    name="onnx",
    family="onnx",
    codes="_quantized",
    scales="_scale",
    scale_tags=("F32", "F16", "BF16", "F8_E8M0"),
    weight="",
    source="onnx/onnx",
)

#: Of Transformer Engine: parts of a tensor by its attributes, elements along rows or along columns.
TRANSFORMER_ENGINE = "transformer-engine"


def _of_transformer_engine(name: str, along: str, block: tuple[int, int]) -> Scheme:
    is_fp4, other = name == "nvfp4", "columnwise" if along == "rowwise" else "rowwise"
    ends = ("data", "scale_inv")
    return Scheme(
        name=f"{TRANSFORMER_ENGINE} {name}{'' if along == 'rowwise' else ' columnwise'}",
        family=TRANSFORMER_ENGINE,
        codes=f"._{along}_data",
        code_tags=("U8",) if is_fp4 else ("F8_E4M3", "F8_E5M2"),
        scales=f"._{along}_scale_inv",
        scale_tags=("F8_E4M3",) if is_fp4 else ("F8_E8M0",),
        element="e2m1fn" if is_fp4 else "",
        scale="ue4m3" if is_fp4 else "e8m0fnu",
        block=block,
        packing=LOW_FIRST if is_fp4 else WHOLE,
        padded=True,
        transposed=is_fp4 and along == "columnwise",
        weight="",
        unless="" if along == "rowwise" else f"._{other}_data",
        extras=tuple(f"._{other}_{end}" for end in ends) + ((f"._amax_{other}",) if is_fp4 else ()),
        tensor=f"._amax_{along}" if is_fp4 else "",
        source="NVIDIA/TransformerEngine",
    )


#: All schemes, in the order in which they are tried.
SCHEMES: tuple[Scheme, ...] = (
    replace(
        _NVFP4,
        name="nvfp4-pack-quantized",
        family="compressed-tensors",
        codes=".weight_packed",
        tensor=".weight_global_scale",
        divides=True,
        extras=(".input_global_scale", WEIGHT_SHAPE),
        source="vllm-project/compressed-tensors",
    ),
    *(
        replace(
            _MXFP4,
            name=f"{name}-pack-quantized",
            family="compressed-tensors",
            codes=".weight_packed",
            element=element,
            extras=(WEIGHT_SHAPE,),
            source="vllm-project/compressed-tensors",
        )
        for name, element in (("mxfp6", "e2m3fn"), ("mxfp4", "e2m1fn"))
    ),
    *(
        Scheme(
            name=f"comfyui {name}",
            family="comfyui",
            codes=".weight",
            code_tags=code_tags,
            scales=".weight_scale",
            scale_tags=scale_tags,
            tensor=tensor,
            element=element,
            scale=scale,
            block=block,
            packing=HIGH_LOW if tensor else WHOLE,
            swizzled=True,
            extras=(".input_scale", COMFY_QUANT),
            marks={COMFY_QUANT: name},
            source="Comfy-Org/comfy-kitchen",
        )
        for name, code_tags, scale_tags, tensor, element, scale, block in (
            ("nvfp4", ("U8",), ("F8_E4M3",), ".weight_scale_2", "e2m1fn", "ue4m3", (1, 16)),
            ("mxfp8", ("F8_E4M3", "F8_E5M2"), ("F8_E8M0", "U8"), "", "", "e8m0fnu", (1, 32)),
        )
    ),
    replace(
        _NVFP4,
        name="modelopt nvfp4",
        family="modelopt",
        tensor=".weight_scale_2",
        extras=(".input_scale",),
        source="NVIDIA/Model-Optimizer",
    ),
    *(
        Scheme(
            name=f"bitsandbytes {name}{' nested' if nested else ''}",
            family="bitsandbytes",
            codes=".weight",
            code_tags=("U8",),
            scales=".weight.absmax",
            scale_tags=("U8",) if nested else ("F32",),
            element=element,
            scale="dynamic8" if nested else "binary32",
            block=(1, 64),
            packing=LONG_ROW,
            state=f".weight.quant_state.bitsandbytes__{name}",
            extras=(".weight.quant_map", *((NESTED_ABSMAX, NESTED_MAP) if nested else ())),
            source="bitsandbytes-foundation/bitsandbytes",
        )
        for name, element in (("nf4", "nf4"), ("fp4", "fp4_bnb"))
        for nested in (False, True)
    ),
    *(
        replace(
            _MXFP4,
            name=f"quark {name}",
            family="quark",
            element=element,
            extras=(".input_scale",),
            marks=marks,
            source="amd/Quark",
        )
        for name, element, marks in (
            ("mxfp6_e3m2", "e3m2fn", {"weight_dtype": "fp6_e3m2"}),
            ("mxfp6_e2m3", "e2m3fn", {"weight_dtype": "fp6_e2m3"}),
            ("mxfp4", "e2m1fn", {}),
        )
    ),
    Scheme(
        name="mxfp8-quantized",
        family="compressed-tensors",
        codes=".weight",
        code_tags=("F8_E4M3", "F8_E5M2"),
        scales=".weight_scale",
        scale_tags=_BYTES,
        scale="e8m0fnu",
        block=(1, 32),
        extras=(".input_scale",),
        source="vllm-project/compressed-tensors",
    ),
    *(
        Scheme(
            name=name,
            family=family,
            codes=".weight",
            code_tags=_FP8,
            scales=".weight_scale",
            scale_tags=WIDE_SCALES,
            extras=(".input_scale", ZERO_POINT, COMFY_QUANT),
            marks=marks,
            source=source,
        )
        for name, family, marks, source in (
            ("modelopt fp8", "modelopt", {"quant_method": "modelopt"}, "NVIDIA/Model-Optimizer"),
            ("quark fp8", "quark", {"quant_method": "quark"}, "amd/Quark"),
            ("float-quantized", "compressed-tensors", {}, "vllm-project/compressed-tensors"),
        )
    ),
    *INTEGER_SCHEMES,
    Scheme(
        name="deepseek fp8",
        family="deepseek",
        codes=".weight",
        code_tags=("F8_E4M3",),
        scales=".weight_scale_inv",
        scale_tags=("F32", "F8_E8M0", "BF16"),
        block=(128, 128),
        extras=(".input_scale",),
        source="deepseek-ai/DeepSeek-V3",
    ),
    replace(
        _MXFP4,
        name="deepseek-v4 fp4",
        family="deepseek-v4",
        code_tags=("I8",),
        scales=".scale",
        scale_tags=("F8_E8M0", "U8"),
        source="deepseek-ai/DeepSeek-V4",
    ),
    Scheme(
        name="deepseek-v4 fp8",
        family="deepseek-v4",
        codes=".weight",
        code_tags=("F8_E4M3",),
        scales=".scale",
        scale_tags=("F8_E8M0", "U8"),
        scale="e8m0fnu",
        block=(128, 128),
        source="deepseek-ai/DeepSeek-V4",
    ),
    Scheme(
        name="comfyui scaled fp8",
        family="comfyui",
        codes=".weight",
        code_tags=_FP8,
        scales=".scale_weight",
        scale_tags=WIDE_SCALES,
        extras=(".scale_input", COMFY_QUANT),
        source="comfyanonymous/ComfyUI",
    ),
    *(
        replace(
            _MXFP4,
            name=name,
            family="gpt-oss",
            codes=f"{mark}blocks",
            scales=f"{mark}scales",
            packing=GROUPS,
            transposed=transposed,
            weight="",
            source="openai/gpt-oss",
        )
        for name, mark, transposed in (("gpt-oss mxfp4", "_", True), ("gpt-oss mxfp4 (original)", ".", False))
    ),
    *(
        Scheme(
            name=name,
            family="torchao",
            codes="._weight_qdata",
            code_tags=code_tags,
            scales="._weight_scale",
            scale_tags=scale_tags,
            tensor=tensor,
            element=element,
            scale=scale,
            packing=LOW_FIRST if element else WHOLE,
            block=block,
            extras=("._weight_act_per_tensor_scale",),
            source="pytorch/ao",
        )
        for name, code_tags, scale_tags, tensor, element, scale, block in (
            ("torchao nvfp4", ("U8",), ("F8_E4M3",), "._weight_per_tensor_scale", "e2m1fn", "ue4m3", (1, 16)),
            ("torchao mxfp4", ("U8",), ("F8_E8M0", "U8"), "", "e2m1fn", "e8m0fnu", (1, 32)),
            ("torchao mxfp8", _FP8, ("F8_E8M0", "U8"), "", "", "e8m0fnu", (1, 32)),
            ("torchao float8", _FP8, WIDE_SCALES, "", "", "", None),
        )
    ),
    *GGUF_SCHEMES,
    *(
        replace(
            ONNX,
            name=f"onnx {name}",
            code_tags=(code_tag,),
            scale_tags=(scale_tag,),
            tensor=tensor,
            element=element,
            scale=scale,
            block=block,
            signed=code_tag in INTEGERS,
        )
        for name, code_tag, scale_tag, tensor, element, scale, block in (
            ("nvfp4", "F4", "F8_E4M3", "_scale_2", "e2m1fn", "ue4m3", (1, 16)),
            ("mxfp4", "F4", "F8_E8M0", "", "e2m1fn", "e8m0fnu", (1, 32)),
            ("mxfp8", "F8_E4M3", "F8_E8M0", "", "e4m3fn", "e8m0fnu", (1, 32)),
            ("fp8", "F8_E4M3", "F32", "", "e4m3fn", "binary32", None),
            ("int8", "I8", "F32", "", "int8", "binary32", None),
            ("int4", "I4", "F32", "", "int4", "binary32", (1, 32)),
        )
    ),
    _of_transformer_engine("mxfp8", "rowwise", (1, 32)),
    _of_transformer_engine("nvfp4", "rowwise", (1, 16)),
    _of_transformer_engine("mxfp8", "columnwise", (32, 1)),
    _of_transformer_engine("nvfp4", "columnwise", (1, 16)),
    Scheme(
        name=f"{TRANSFORMER_ENGINE} float8",
        family=TRANSFORMER_ENGINE,
        codes="._data",
        code_tags=("F8_E4M3", "F8_E5M2"),
        scales="._scale_inv",
        scale_tags=("F32",),
        weight="",
        source="NVIDIA/TransformerEngine",
    ),
)


def is_mark(entry: Entry) -> bool:
    """Return whether a tensor is ComfyUI's mark, which has at most two numbers; others may have its name."""
    return entry.name.rpartition(".")[2] == SCALED_FP8 and math.prod(entry.shape) <= 2


def find(name: str) -> Scheme:
    """Return the scheme of a name.

    >>> find("gpt-oss mxfp4").transposed
    True
    """
    for scheme in (*SCHEMES, SAVED, PLAIN):
        if scheme.name == name:
            return scheme
    from lowprec.spec.naming import close_names

    names = [scheme.name for scheme in SCHEMES]
    raise ValueError(f"unknown scheme {name!r}; use one of {', '.join(close_names(name, names) or names)}")
