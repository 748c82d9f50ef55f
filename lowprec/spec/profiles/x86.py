"""x86: AVX10.2, and the NaNs of SSE and AVX.

Floor 1. Imports the standard library only.
"""

from __future__ import annotations

from dataclasses import replace

from lowprec.spec import catalog
from lowprec.spec.profiles.profile import IEEE, Profile
from lowprec.spec.projection import Projection, Saturation

# SSE and AVX: the first NaN operand, quiet; if none is one, the "real indefinite", which is negative.
_X86 = {fmt: Projection(nan_payload="first", nan_code=(fmt.nan_code or 0) | fmt.sign_code) for fmt in IEEE}

# HF8 has one NaN of each sign; BF8 keeps the payload of a NaN, made quiet. The forms with a bias are
# rounding="stochastic(8, avx10_2)", where results are not subnormal: of those the descriptions disagree, and
# the model in Bochs adds the bias at the operand's last bits, so that fewer are rounded up.
_HF8, _BF8 = Projection(), Projection(nan_payload="first")
_BFLOAT = Projection(subnormals="flush_both")

CASTS = (
    Profile(
        "avx10_2",
        "AVX10.2, the forms that do not saturate; from documents",
        {catalog.E4M3FN: _HF8, catalog.E5M2: _BF8, catalog.BFLOAT16: _BFLOAT},
        "AVX10",
    ),
    Profile(
        "avx10_2_sat",
        "AVX10.2, the forms that saturate (VCVT*S); from documents",
        {
            fmt: replace(rule, saturation=Saturation.FINITE)
            for fmt, rule in ((catalog.E4M3FN, _HF8), (catalog.E5M2, _BF8))
        },
        "AVX10",
    ),
)

ARITHMETIC = (
    Profile(
        "x86", "SSE and AVX: the NaNs of arithmetic, of fma in the order x, y, z; not its flags", _X86, "X86"
    ),
)
