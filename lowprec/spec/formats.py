"""Formats by name. Adding a format is one statement here; `lowprec.spec.catalog` has block formats too.

Floor 1. Imports the standard library only.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Hashable, Iterable, Mapping

from lowprec.spec import codebooks
from lowprec.spec.families import finite, fixed, fn, fnuz, ieee, p3109, power_of_two
from lowprec.spec.format import Carrier, Format, Sign
from lowprec.spec.naming import Catalog, by_name, close_names

__all__ = ["CARRIERS", "FORMATS", "P3109_UP_TO_8", "carrier", "find", "ml_dtypes_name"]
__all__ += ["BINARY32", "TF32", "BINARY16", "BFLOAT16", "E5M2", "E4M3FN", "FLOAT8_E4M3", "E3M4"]
__all__ += ["E4M3FNUZ", "E5M2FNUZ", "E4M3B11FNUZ", "E2M3FN", "E3M2FN", "E2M1FN", "E3M0FN", "UE4M3"]
__all__ += ["UE5M3", "E8M0FNU", "INT8F6", "SM8F6", "SM4F2", "SM2F0", "INT2", "INT4", "INT8", "UINT2"]
__all__ += ["UINT4", "UINT8", "BINARY64"]

# -- formats ----------------------------------------------------------------------------------------

BINARY32 = ieee("binary32", 8, 23)
TF32 = ieee("tf32", 8, 10, source="TF32")
BINARY16 = ieee("binary16", 5, 10)
BFLOAT16 = ieee("bfloat16", 8, 7, source="BFLOAT16")

E5M2 = ieee("e5m2", 5, 2, source="OFP8")
E4M3FN = fn("e4m3fn", 4, 3)
FLOAT8_E4M3 = ieee("float8_e4m3", 4, 3, source="ML_DTYPES")
E3M4 = ieee("e3m4", 3, 4, source="ML_DTYPES")
E4M3FNUZ = fnuz("e4m3fnuz", 4, 3)
E5M2FNUZ = fnuz("e5m2fnuz", 5, 2)
E4M3B11FNUZ = fnuz("e4m3b11fnuz", 4, 3, bias=11, source="ML_DTYPES")

E2M3FN = finite("e2m3fn", 2, 3)
E3M2FN = finite("e3m2fn", 3, 2)
E2M1FN = finite("e2m1fn", 2, 1)
E3M0FN = finite("e3m0fn", 3, 0, source="P3109")

UE4M3 = Format(
    name="ue4m3", exponent_bits=4, trailing_bits=3, bias=7, sign=Sign.UNSIGNED, nans=1, source="PTX"
)  # NVFP4's scale, stored in a byte
UE5M3 = Format(
    name="ue5m3", exponent_bits=5, trailing_bits=3, bias=15, sign=Sign.UNSIGNED, nans=1, source="GFX1250"
)
E8M0FNU = power_of_two("e8m0fnu", 8)

INT8F6 = fixed("int8f6", 8, 6)  # the element of MXINT8
SM8F6 = Format(name="sm8f6", exponent_bits=0, trailing_bits=7, bias=0, source="BFP")  # sign and magnitude
SM4F2 = Format(name="sm4f2", exponent_bits=0, trailing_bits=3, bias=0, source="BFP")
SM2F0 = Format(name="sm2f0", exponent_bits=0, trailing_bits=1, bias=0, source="BFP")
INT2 = fixed("int2", 2, source="ONNX")
INT4 = fixed("int4", 4, source="ONNX")
INT8 = fixed("int8", 8, source="ONNX")
UINT2 = fixed("uint2", 2, signed=False, source="ONNX")
UINT4 = fixed("uint4", 4, signed=False, source="ONNX")
UINT8 = fixed("uint8", 8, signed=False, source="ONNX")

#: Every named format, by name.
FORMATS: Mapping[str, Format] = Catalog(
    "formats",
    by_name(item for item in list(globals().values()) if isinstance(item, Format)),
    bits=lambda fmt: fmt.width,
    exponent=lambda fmt: fmt.exponent_bits,
    trailing=lambda fmt: fmt.trailing_bits,
    largest=lambda fmt: fmt.max_finite,
    smallest=lambda fmt: fmt.min_subnormal or fmt.min_normal,
    infinity=lambda fmt: fmt.infinity,
    NaN=lambda fmt: fmt.has_nan,
)

#: The P3109 formats of at most 8 bits; they join tests and tables, not the catalog.
P3109_UP_TO_8 = tuple(
    p3109(width, precision, signed=signed, extended=extended)
    for width in range(3, 9)
    for signed in (True, False)
    for precision in range(1, width + (not signed))
    for extended in (True, False)
)

# -- carriers ---------------------------------------------------------------------------------------

BINARY64 = Carrier(
    name="binary64",
    exponent_bits=11,
    trailing_bits=52,
    bias=1023,
    nans=(1 << 52) - 1,
    infinity=True,
    source="IEEE754",
)


def _integer(width: int, signed: bool) -> Carrier:
    trailing_bits = width - signed
    return Carrier(
        name=f"{'' if signed else 'u'}int{width}",
        exponent_bits=0,
        trailing_bits=trailing_bits,
        bias=1 - trailing_bits,
        sign=Sign.TWOS_COMPLEMENT if signed else Sign.UNSIGNED,
    )


#: Types that values may come in but are not encoded to, by name.
CARRIERS: Mapping[str, Carrier] = Catalog(
    "carriers",
    by_name((BINARY64, *(_integer(width, signed) for width in (1, 16, 32, 64) for signed in (True, False)))),
    bits=lambda fmt: fmt.width,
)

# -- names ------------------------------------------------------------------------------------------

_ML_DTYPES = {
    BFLOAT16: "bfloat16",
    E5M2: "float8_e5m2",
    E4M3FN: "float8_e4m3fn",
    FLOAT8_E4M3: "float8_e4m3",
    E3M4: "float8_e3m4",
    E4M3FNUZ: "float8_e4m3fnuz",
    E5M2FNUZ: "float8_e5m2fnuz",
    E4M3B11FNUZ: "float8_e4m3b11fnuz",
    E8M0FNU: "float8_e8m0fnu",
    E2M3FN: "float6_e2m3fn",
    E3M2FN: "float6_e3m2fn",
    E2M1FN: "float4_e2m1fn",
    INT2: "int2",
    INT4: "int4",
    UINT2: "uint2",
    UINT4: "uint4",
}

_ALIASES: dict[str, Format] = {
    **{name: item for item, name in _ML_DTYPES.items()},
    "float32": BINARY32,
    "fp32": BINARY32,
    "single": BINARY32,
    "tensorfloat32": TF32,
    "float16": BINARY16,
    "fp16": BINARY16,
    "half": BINARY16,
    "bf16": BFLOAT16,
    "fp8_e5m2": E5M2,
    "fp8_e4m3fn": E4M3FN,
    "fp6_e2m3": E2M3FN,
    "e2m3": E2M3FN,
    "fp6_e3m2": E3M2FN,
    "e3m2": E3M2FN,
    "fp4_e2m1": E2M1FN,
    "float4_e2m1fn_x2": E2M1FN,
    "e2m1": E2M1FN,
    "e8m0": E8M0FNU,
    "ue8m0": E8M0FNU,
}

_CARRIER_ALIASES = {"float64": "binary64", "double": "binary64", "fp64": "binary64", "bool": "uint1"}

#: Names that several formats go by, and which to use instead.
_AMBIGUOUS = {
    **dict.fromkeys(
        ("e4m3", "fp8_e4m3", "f8e4m3", "fp8", "float8"),
        "'e4m3fn' (OCP, no infinities, max 448), 'float8_e4m3' (with infinities, max 240) "
        "or 'e4m3fnuz' (one NaN, max 240)",
    ),
    **dict.fromkeys(("fp6", "float6"), "'e2m3fn' (max 7.5) or 'e3m2fn' (max 28)"),
    **dict.fromkeys(
        ("fp4", "float4"), "'e2m1fn' (of MXFP4 and NVFP4, max 6) or 'fp4_bnb' (of bitsandbytes, max 1)"
    ),
}

_P3109_NAME = re.compile(r"binary(\d+)p(\d+)([su])([ef])")


def ml_dtypes_name(fmt: Format) -> str | None:
    """Return the name of the ml_dtypes type with this format's codes, or None.

    >>> ml_dtypes_name(E4M3FN)
    'float8_e4m3fn'
    """
    return _ML_DTYPES.get(fmt)


def find(name: object, others: Iterable[str] = ()) -> Format:
    """Return the format of a name, as `catalog.format` does, which refuses names of block formats too.

    >>> find("float8_e4m3fn") is find("e4m3fn")
    True

    `others` are names of other things, to suggest where no format's name is close.
    """
    if isinstance(name, Carrier):
        raise ValueError(_no_target(name.name))
    if isinstance(name, Format):
        return name
    spelled = _spelled(name)
    if spelled is None:
        raise TypeError(f"a format must be a Format, a name or a dtype, not {name!r}")
    if spelled in FORMATS:
        return FORMATS[spelled]
    if spelled in _ALIASES:
        return _ALIASES[spelled]
    if match := _P3109_NAME.fullmatch(spelled):
        width, precision, sign, domain = match.groups()
        return p3109(int(width), int(precision), signed=sign == "s", extended=domain == "e")
    if (book := codebooks.named(spelled)) is not None:
        return book
    if spelled in _AMBIGUOUS:
        raise ValueError(f"format {name!r} is ambiguous: use {_AMBIGUOUS[spelled]}")
    if spelled in CARRIERS or spelled in _CARRIER_ALIASES:
        raise ValueError(_no_target(spelled))
    known = [*FORMATS, *_ALIASES, *codebooks.CODEBOOKS]
    near = close_names(spelled, known) or close_names(spelled, others)
    hint = f"did you mean {' or '.join(repr(item) for item in near)}? " if near else ""
    raise ValueError(f"unknown format {name!r}; {hint}`lowprec formats` lists all names")


@functools.lru_cache(maxsize=256)
def carrier(name: Hashable) -> Format | None:
    """Return the format or carrier that values of a dtype are in, or None where there is none.

    >>> carrier("float64").name, carrier("bfloat16").name, carrier("complex64")
    ('binary64', 'bfloat16', None)
    """
    spelled = _spelled(name)
    if spelled is None:
        return None
    spelled = _CARRIER_ALIASES.get(spelled, spelled)
    return CARRIERS.get(spelled) or FORMATS.get(spelled) or _ALIASES.get(spelled)


def _spelled(name: object) -> str | None:
    """Return the lower-case name that a string, a dtype (NumPy's, torch's) or a scalar type goes by."""
    text: object = name
    if isinstance(name, type):
        text = name.__name__
    elif type(name).__module__ == "torch":
        text = str(name).removeprefix("torch.")
    elif not isinstance(name, str):
        text = getattr(name, "name", None) if hasattr(name, "itemsize") else None
    return text.strip().lower() if isinstance(text, str) else None


def _no_target(name: str) -> str:
    return (
        f"{name!r} is a type that values come in, not a format to encode to: lowprec carries values in "
        "float64 and codes in at most 32 bits. Use 'binary32' or narrower; for integers, "
        "`lowprec.spec.families.fixed`"
    )
