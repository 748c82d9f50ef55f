"""The catalog: formats and block formats by name. Adding a block format is one statement here.

Floor 1. Imports the standard library only.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from lowprec.spec import formats
from lowprec.spec.block import DIVIDE, BlockFormat
from lowprec.spec.format import Format
from lowprec.spec.formats import *  # noqa: F403 - the catalog has them all
from lowprec.spec.formats import (
    BINARY32,
    E2M1FN,
    E2M3FN,
    E3M2FN,
    E4M3FN,
    E5M2,
    E8M0FNU,
    INT8F6,
    SM2F0,
    SM4F2,
    SM8F6,
    UE4M3,
)
from lowprec.spec.naming import Catalog, by_name, close_names
from lowprec.spec.projection import Projection, Saturation

__all__ = ["BLOCK_FORMATS", "block_format", "format", "is_block", *formats.__all__]

# -- block formats ----------------------------------------------------------------------------------


def _mx(name: str, element: Format) -> BlockFormat:
    return BlockFormat(name=name, element=element, scale=E8M0FNU, size=32, source="OCPMX")


MXFP8_E4M3 = _mx("mxfp8_e4m3", E4M3FN)
MXFP8_E5M2 = _mx("mxfp8_e5m2", E5M2)
MXFP6_E2M3 = _mx("mxfp6_e2m3", E2M3FN)
MXFP6_E3M2 = _mx("mxfp6_e3m2", E3M2FN)
MXFP4 = _mx("mxfp4", E2M1FN)
MXINT8 = dataclasses.replace(  # -2 stays unused
    _mx("mxint8", INT8F6), elements=Projection(saturation=Saturation.FINITE, symmetric=True)
)

NVFP4 = BlockFormat(
    name="nvfp4", element=E2M1FN, scale=UE4M3, size=16, rule=DIVIDE, tensor_scale="divide", source="NVFP4"
)
NVFP4_2D = dataclasses.replace(NVFP4, name="nvfp4_2d", size=(16, 16))

FP8_BLOCK_1X128 = BlockFormat(
    name="fp8_block_1x128",
    element=E4M3FN,
    scale=BINARY32,
    size=128,
    rule=DIVIDE,
    zero="one",
    source="DEEPSEEK",
)
FP8_BLOCK_128X128 = dataclasses.replace(FP8_BLOCK_1X128, name="fp8_block_128x128", size=(128, 128))


def _shared_exponent(name: str, element: Format, source: str) -> BlockFormat:
    return BlockFormat(name=name, element=element, scale=E8M0FNU, size=16, source=source)


MSFP12 = _shared_exponent("msfp12", SM4F2, "MSFP")
MSFP16 = _shared_exponent("msfp16", SM8F6, "MSFP")
BFP8 = _shared_exponent("bfp8", SM8F6, "BFP")
BFP4 = _shared_exponent("bfp4", SM4F2, "BFP")
BFP2 = _shared_exponent("bfp2", SM2F0, "BFP")


def _bitsandbytes(name: str, element: str) -> BlockFormat:
    """Return blocks of 64 whose elements are multiplied by the inverse of their largest magnitude."""
    return BlockFormat(
        name=name,
        element=formats.find(element),
        scale=BINARY32,
        size=64,
        rule=DIVIDE,
        arithmetic="reciprocal",
        elements=Projection(saturation=Saturation.FINITE, nan="max"),
        source="BNB",
    )


BNB_NF4 = _bitsandbytes("bnb_nf4", "nf4")
BNB_FP4 = _bitsandbytes("bnb_fp4", "fp4_bnb")

#: Every named block format, by name.
BLOCK_FORMATS: Mapping[str, BlockFormat] = Catalog(
    "block formats",
    by_name(item for item in list(globals().values()) if isinstance(item, BlockFormat)),
    element=lambda fmt: fmt.element,
    scale=lambda fmt: fmt.scale,
    size=lambda fmt: "x".join(map(str, fmt.sizes)),
    rule=lambda fmt: fmt.rule,
    bits_per_value=lambda fmt: fmt.bits_per_value,
)

# -- names ------------------------------------------------------------------------------------------

_BLOCK_ALIASES = {
    "mxfp8_e4m3fn": MXFP8_E4M3,
    "mxfp6_e2m3fn": MXFP6_E2M3,
    "mxfp6_e3m2fn": MXFP6_E3M2,
    "mxfp4_e2m1": MXFP4,
    "mxfp4_e2m1fn": MXFP4,
}
_AMBIGUOUS_BLOCKS = {"mxfp8": (MXFP8_E4M3, MXFP8_E5M2), "mxfp6": (MXFP6_E2M3, MXFP6_E3M2)}


def format(name: object) -> Format:
    """Return the format that a name, an alias or a dtype stands for, or the format itself.

    >>> format("float8_e4m3fn") is format("e4m3fn")
    True
    >>> format("binary8p3se").max_finite
    49152.0

    Parameters
    ----------
    name : Format, str or dtype
        Case does not matter. P3109 names (binary<K>p<P><s|u><e|f>) are made on demand. A dtype
        of NumPy, ml_dtypes or torch stands for its own format.

    Raises ValueError: an unknown or ambiguous name; the message suggests names. TypeError:
    something that is neither.
    """
    if isinstance(name, str) and is_block(name):
        raise ValueError(
            f"{name!r} is a block format, whose elements share scales: see lowprec.block_formats"
        )
    return formats.find(name, (*BLOCK_FORMATS, *_BLOCK_ALIASES))


def block_format(name: object) -> BlockFormat:
    """Return the block format that a name stands for, or the block format itself.

    >>> block_format("mxfp4").rule.name
    'floor'

    Raises ValueError: an unknown or ambiguous name. TypeError: something that is neither.
    """
    if isinstance(name, BlockFormat):
        return name
    if not isinstance(name, str):
        raise TypeError(f"a block format must be a BlockFormat or a name, not {name!r}")
    spelled = name.strip().lower()
    if spelled in _AMBIGUOUS_BLOCKS:
        names = " or ".join(repr(item.name) for item in _AMBIGUOUS_BLOCKS[spelled])
        raise ValueError(f"block format {name!r} is ambiguous: use {names}")
    found = BLOCK_FORMATS.get(spelled) or _BLOCK_ALIASES.get(spelled)
    if found is None:
        near = close_names(spelled, [*BLOCK_FORMATS, *_BLOCK_ALIASES])
        hint = f"did you mean {' or '.join(repr(item) for item in near)}? " if near else ""
        names = ", ".join(BLOCK_FORMATS)
        raise ValueError(f"unknown block format {name!r}; {hint}`lowprec formats` lists {names}")
    return found


def is_block(name: object) -> bool:
    """Return whether a name, or an object in its place, means a block format."""
    if not isinstance(name, str):
        return isinstance(name, BlockFormat)
    spelled = name.strip().lower()
    return spelled in BLOCK_FORMATS or spelled in _BLOCK_ALIASES or spelled in _AMBIGUOUS_BLOCKS
