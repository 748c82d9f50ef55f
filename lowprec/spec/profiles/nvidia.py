"""NVIDIA: the headers of CUDA, the instruction cvt, Transformer Engine, ModelOpt and cuBLASLt.

Floor 1. Imports the standard library only.
"""

from __future__ import annotations

from dataclasses import replace

from lowprec.spec import catalog
from lowprec.spec.format import exact_float
from lowprec.spec.profiles.profile import E4M3_E5M2, FINITE, NO_ZERO, Profile, changed, each
from lowprec.spec.projection import Projection, Saturation
from lowprec.spec.rounding import AWAY_FROM_ZERO, NEAREST_ZERO

# From float; from double the NaN keeps its sign. E8M0 is rounded up, as block scales are.
_CUDA_NOSAT = {
    **each(E4M3_E5M2, Projection(nan_code=0x7F, nan_sign="drop")),
    catalog.E8M0FNU: Projection(rounding=AWAY_FROM_ZERO, negative="drop_sign", zero="smallest"),
    catalog.UE5M3: Projection(negative="drop_sign"),
}
_CUDA_SATFINITE = {
    **{fmt: replace(rule, saturation=Saturation.FINITE) for fmt, rule in _CUDA_NOSAT.items()},
    **each((catalog.E2M3FN, catalog.E3M2FN, catalog.E2M1FN), replace(FINITE, nan="max", nan_sign="drop")),
}

#: FP8, FP6, FP4, E8M0 and UE5M3 as the headers have them; and NaNs of what `cvt` widens, or narrows to
#: 16 bits.
_PTX_CVT = {
    **_CUDA_SATFINITE,
    **each((catalog.BINARY16, catalog.BFLOAT16), Projection(nan_code=0x7FFF, nan_sign="drop")),
}

_TRANSFORMER_ENGINE = {
    **changed(
        (catalog.MXFP8_E4M3, catalog.MXFP8_E5M2),
        rule="rceil",
        elements=replace(FINITE, nan_code=0x7F),
        scales=NO_ZERO,
        arithmetic="reciprocal",
        nan="elements",
        infinity="largest",
        source="TRANSFORMER_ENGINE",
    ),
    **changed(
        (catalog.NVFP4, catalog.NVFP4_2D),
        tensor_scale="reciprocal",
        arithmetic="reciprocal",
        source="TRANSFORMER_ENGINE",
    ),
}

_MODELOPT = {
    **changed([catalog.MXFP8_E4M3], rule="rceil", arithmetic="product", scales=NO_ZERO, source="MODELOPT"),
    **changed(
        [catalog.MXFP4],
        rule="rceil",
        arithmetic="product",
        elements=replace(FINITE, rounding=NEAREST_ZERO),
        scales=NO_ZERO,
        source="MODELOPT",
    ),
    **changed(
        [catalog.NVFP4], arithmetic="product", min_scale=exact_float(1, -9), zero="one", source="MODELOPT"
    ),
}

#: Results in blocks. The scale of an NVFP4 tensor is the caller's, and multiplies the results before.
_CUBLASLT = {
    **changed([catalog.MXFP8_E4M3], rule="rceil", source="PANTHEON"),
    **changed([catalog.NVFP4], tensor_scale="none", arithmetic="reciprocal", source="PANTHEON"),
}

CASTS = (
    Profile("cuda_satfinite", "CUDA 13 headers, on the host, from float", _CUDA_SATFINITE, "CUDA"),
    Profile("ptx_cvt", "cvt.rn.satfinite, cvt.rn to 16 bits, cvt.rp.satfinite to ue8m0", _PTX_CVT, "PTX"),
    Profile("cuda_nosat", "CUDA 13 headers, on the host, from float", _CUDA_NOSAT, "CUDA"),
)

BLOCKS = (
    Profile(
        "transformer_engine",
        "August 2026: its NVFP4 reference in Python, finite values; MXFP8 from its kernels, never run",
        {},
        "TRANSFORMER_ENGINE",
        _TRANSFORMER_ENGINE,
    ),
    Profile("modelopt", "August 2026, finite values", {}, "MODELOPT", _MODELOPT),
    Profile(
        "cublaslt",
        "13.3 on an RTX PRO 6000: results in blocks, finite values, no block of zeros",
        {},
        "PANTHEON",
        _CUBLASLT,
    ),
)
