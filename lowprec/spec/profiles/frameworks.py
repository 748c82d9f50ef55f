"""NumPy with ml_dtypes, torch, JAX, ONNX and ONNX Runtime.

Floor 1. Imports the standard library only.
"""

from __future__ import annotations

from dataclasses import replace

from lowprec.spec import catalog
from lowprec.spec.profiles.profile import OCP_AND_FNUZ, TWICE, Profile, each
from lowprec.spec.projection import Projection, Saturation
from lowprec.spec.rounding import AWAY_FROM_ZERO, NEAREST_AWAY, TOWARD_ZERO

_OTHER_FP8 = (catalog.FLOAT8_E4M3, catalog.E3M4, catalog.E4M3B11FNUZ)
_TWICE_FINITE = replace(TWICE, saturation=Saturation.FINITE)

# A NaN becomes -0 in formats without NaN; in ml_dtypes and ONNX, but not in JAX, a negative NaN becomes +0.
_NO_NAN = replace(TWICE, nan="negative_zero")
# They round a binary32's exponent up by its first fraction bit: ties go up, and 2**-127 counts as zero.
_TWICE_E8M0 = replace(TWICE, rounding=NEAREST_AWAY, smallest="zero")

_ML_DTYPES = {
    **each(
        (catalog.BFLOAT16, *OCP_AND_FNUZ, *_OTHER_FP8),
        TWICE,
    ),
    **each((catalog.E2M3FN, catalog.E3M2FN, catalog.E2M1FN), _NO_NAN),
    catalog.E8M0FNU: _TWICE_E8M0,
}

_TORCH_213 = {
    catalog.BINARY32: Projection(),
    catalog.BINARY16: TWICE,
    # True of single elements: vectors encode NaNs of float32 and float64 as ffff.
    catalog.BFLOAT16: replace(TWICE, nan_sign="drop"),
    catalog.E4M3FN: _TWICE_FINITE,
    catalog.E5M2: replace(TWICE, nan_code=0x7F),
    catalog.E4M3FNUZ: TWICE,
    catalog.E5M2FNUZ: TWICE,
    catalog.E8M0FNU: replace(
        TWICE, rounding=NEAREST_AWAY, negative="drop_sign", zero="smallest", smallest="zero"
    ),
}

_JAX = {
    # XLA rounds float64 once, except for binary16 and bfloat16.
    **each(
        (catalog.BINARY32, *OCP_AND_FNUZ, *_OTHER_FP8),
        Projection(),
    ),
    catalog.E2M1FN: replace(_NO_NAN, via=()),
    catalog.BINARY16: TWICE,
    catalog.BFLOAT16: TWICE,
    catalog.E8M0FNU: replace(_TWICE_E8M0, via=()),
}


# round_mode="up", the default, is away from zero for magnitudes.
_ONNX_E8M0 = replace(TWICE, rounding=AWAY_FROM_ZERO, negative="drop_sign", zero="smallest", smallest="zero")
# Casts to integers cut. Beyond their range, and of NaNs, the standard leaves open what they give; the
# evaluator wraps, which no projection does.
_ONNX_INTEGERS = each(
    (catalog.INT2, catalog.INT4, catalog.INT8, catalog.UINT2, catalog.UINT4, catalog.UINT8),
    Projection(rounding=TOWARD_ZERO, saturation=Saturation.FINITE, nan="zero", negative="zero"),
)
_ONNX_NOSAT = {
    **_ONNX_INTEGERS,
    catalog.BINARY32: Projection(),
    catalog.BINARY16: Projection(),
    catalog.BFLOAT16: TWICE,
    **each(OCP_AND_FNUZ, TWICE),
    catalog.E2M1FN: _NO_NAN,
    catalog.E8M0FNU: _ONNX_E8M0,
}
_ONNX = {
    **_ONNX_NOSAT,
    **each(OCP_AND_FNUZ, _TWICE_FINITE),
    # Finite values stop at the top, infinities become NaN.
    catalog.E8M0FNU: replace(_ONNX_E8M0, saturation=Saturation.PROPAGATE),
}

# A NaN of e5m2 is the last code. E8M0 is rounded up too, and saturates.
_ONNXRUNTIME = {
    catalog.BINARY32: Projection(),
    catalog.BINARY16: TWICE,
    catalog.BFLOAT16: TWICE,
    **each(OCP_AND_FNUZ, _TWICE_FINITE),
    catalog.E5M2: replace(_TWICE_FINITE, nan_code=0x7F),
    catalog.E8M0FNU: replace(_ONNX_E8M0, saturation=Saturation.FINITE, negative="zero", smallest="itself"),
}


CASTS = (
    Profile("ml_dtypes", "0.5 and 0.6", _ML_DTYPES, "ML_DTYPES"),
    Profile("numpy", "2", each((catalog.BINARY16, catalog.BINARY32), Projection()), "NUMPY"),
    Profile(
        "torch<2.13",
        "before 2.13, on CPUs; from its published behaviour, never run",
        {**_TORCH_213, catalog.E4M3FN: TWICE},
        "TORCH",
    ),
    Profile("torch>=2.13", "2.13.0, on CPUs", _TORCH_213, "TORCH"),
    Profile("jax", "0.10.2, on CPUs", _JAX, "JAX"),
    Profile(
        "onnx",
        "1.23.2, reference evaluator: Cast with saturate=1; integers within their range",
        _ONNX,
        "ONNX",
    ),
    Profile(
        "onnx_nosat",
        "1.23.2, reference evaluator: Cast with saturate=0; integers within their range",
        _ONNX_NOSAT,
        "ONNX",
    ),
    Profile("onnxruntime", "1.31.1 and 1.32.0, on CPUs: Cast with saturate=1", _ONNXRUNTIME, "ONNXRUNTIME"),
)
