"""Schemes of integers, and of GGUF's blocks, which are integers mostly: entries of `schemes.SCHEMES`."""

from __future__ import annotations

from lowprec.checkpoints.schemes.packings import GgufPacking
from lowprec.checkpoints.schemes.scheme import Scheme
from lowprec.checkpoints.schemes.words import ColumnWords, RowWords

__all__ = ["GGUF_SCHEMES", "INTEGER_SCHEMES", "WEIGHT_SHAPE", "WIDE_SCALES", "ZERO_POINT"]

#: Types of scales that are floats of 16 bits and more.
WIDE_SCALES = ("F32", "BF16", "F16")
#: What some software subtracts from codes: 0 wherever weights of floats are symmetric.
ZERO_POINT = ".weight_zero_point"
#: The shape of a weight beside packed codes, which have it too.
WEIGHT_SHAPE = ".weight_shape"
#: What compressed-tensors has of integers for what goes into a layer and comes out of it.
_OF_ACTIVATIONS = tuple(f".{side}_{part}" for side in ("input", "output") for part in ("scale", "zero_point"))

#: Integers in safetensors: layers of compressed-tensors, GPTQ and AWQ.
INTEGER_SCHEMES: tuple[Scheme, ...] = (
    Scheme(
        name="int-quantized",
        family="compressed-tensors",
        codes=".weight",
        code_tags=("I8",),
        scales=".weight_scale",
        scale_tags=WIDE_SCALES,
        zeros=ZERO_POINT,
        element="int8",
        by_scale=True,
        extras=_OF_ACTIVATIONS,
        source="vllm-project/compressed-tensors",
    ),
    Scheme(
        name="pack-quantized",
        family="compressed-tensors",
        codes=".weight_packed",
        code_tags=("I32",),
        scales=".weight_scale",
        scale_tags=WIDE_SCALES,
        zeros=ZERO_POINT,
        packing=RowWords(groups=".weight_g_idx"),
        by_scale=True,
        extras=(WEIGHT_SHAPE, ".weight_g_idx", *_OF_ACTIVATIONS),
        source="vllm-project/compressed-tensors",
    ),
    *(
        Scheme(
            name=name,
            family=name.split(" ")[0],
            codes=".qweight",
            code_tags=("I32",),
            scales=".scales",
            scale_tags=WIDE_SCALES,
            zeros=".qzeros",
            packing=packing,
            transposed=True,
            by_scale=True,
            extras=(".g_idx",) if packing.groups else (),
            marks=marks,
            source=source,
        )
        for name, packing, marks, source in (
            ("awq", ColumnWords(places=(0, 2, 4, 6, 1, 3, 5, 7)), {}, "casper-hansen/AutoAWQ"),
            *(
                ("gptq v2", ColumnWords(groups=".g_idx", down=True), marks, "ModelCloud/GPTQModel")
                for marks in (
                    {"checkpoint_format": "gptq_v2"},
                    {"packing_format": "auto_round"},
                    {"packing_format": "auto_round:gptqmodel"},
                )
            ),
            ("gptq", ColumnWords(groups=".g_idx", down=True, plus=1), {}, "AutoGPTQ/AutoGPTQ"),
        )
    ),
)

#: Blocks of GGUF by their types' names.
GGUF_SCHEMES: tuple[Scheme, ...] = (
    *(
        Scheme(
            name=f"gguf {name}",
            family="gguf",
            codes=end,
            weight=end,
            code_tags=(name,),
            tensor=".scale" if name == "NVFP4" else "",
            element=element,
            scale=scale,
            block=(1, size),
            packing=GgufPacking(type=name.lower()),
            signed=name in ("IQ4_NL", "Q4_0", "Q5_0", "Q3_K", "Q6_K"),
            vanishing=name.endswith("_K"),
            source="ggml-org/llama.cpp",
        )
        for name, element, scale, size in (
            ("MXFP4", "e2m1fn", "e8m0fnu", 32),
            ("NVFP4", "e2m1fn", "ue4m3", 16),
            ("IQ4_NL", "iq4_nl", "binary16", 32),
            ("Q8_0", "int8", "binary16", 32),
            ("Q4_0", "int4", "binary16", 32),
            ("Q4_1", "uint4", "binary16", 32),
            ("Q5_0", "int5", "binary16", 32),
            ("Q5_1", "uint5", "binary16", 32),
            ("Q2_K", "uint2", "binary16", 16),
            ("Q3_K", "int3", "binary16", 16),
            ("Q4_K", "uint4", "binary16", 32),
            ("Q5_K", "uint5", "binary16", 32),
            ("Q6_K", "int6", "binary16", 16),
        )
        for end in (".weight", "")  # types alone say what it is; of NVFP4's scale the name has no ".weight"
    ),
)
