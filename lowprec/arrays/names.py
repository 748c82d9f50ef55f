"""Names of formats for type checkers, by the types that their codes and their values have.

`tests/arrays/test_signatures.py` holds them against the catalog. Names that are made on demand, such as
P3109's, are not here: type checkers know of these no more than that they are strings.

Floor 3.
"""

from __future__ import annotations

from typing import Literal

__all__ = ["BlockName", "Name8", "Name16", "Name32", "SingleName"]

#: Codes of uint8, values of float32.
_Single8 = Literal[
    "e5m2", "e4m3fn", "float8_e4m3", "e3m4", "e4m3fnuz", "e5m2fnuz", "e4m3b11fnuz", "e2m3fn", "e3m2fn",
    "e2m1fn", "e3m0fn", "ue4m3", "ue5m3", "e8m0fnu", "int8f6", "sm8f6", "sm4f2", "sm2f0", "int2", "int4",
    "int8", "uint2", "uint4", "uint8",
    "float8_e5m2", "float8_e4m3fn", "float8_e3m4", "float8_e4m3fnuz", "float8_e5m2fnuz",
    "float8_e4m3b11fnuz", "float8_e8m0fnu", "float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn", "fp8_e5m2",
    "fp8_e4m3fn", "fp6_e2m3", "e2m3", "fp6_e3m2", "e3m2", "fp4_e2m1", "float4_e2m1fn_x2", "e2m1", "e8m0",
    "ue8m0",
    "posit8", "hif8", "nf4", "fp4_bnb", "iq4_nl", "dynamic8", "udynamic8",
]  # fmt: skip

#: Codes of uint8, values of float64.
_Double8 = Literal["takum8", "takum_linear8", "lns8_3"]

_Single16 = Literal["binary16", "bfloat16", "float16", "fp16", "half", "bf16", "posit16"]
_Double16 = Literal["takum16", "takum_linear16", "lns16_8"]

Name8 = _Single8 | _Double8
Name16 = _Single16 | _Double16
Name32 = Literal["binary32", "tf32", "float32", "fp32", "single", "tensorfloat32"]

#: Values of float32.
SingleName = _Single8 | _Single16 | Name32

BlockName = Literal[
    "mxfp8_e4m3", "mxfp8_e5m2", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp4", "mxint8", "nvfp4", "nvfp4_2d",
    "fp8_block_1x128", "fp8_block_128x128", "msfp12", "msfp16", "bfp8", "bfp4", "bfp2", "bnb_nf4", "bnb_fp4",
    "mxfp8_e4m3fn", "mxfp6_e2m3fn", "mxfp6_e3m2fn", "mxfp4_e2m1", "mxfp4_e2m1fn",
]  # fmt: skip
