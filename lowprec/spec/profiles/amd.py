"""AMD: the headers of HIP, and the conversions of RDNA4.

Floor 1. Imports the standard library only.
"""

from __future__ import annotations

from dataclasses import replace

from lowprec.spec import catalog
from lowprec.spec.profiles.profile import E4M3_E5M2, FINITE, OCP_AND_FNUZ, Profile, each
from lowprec.spec.projection import Projection, Saturation

# A NaN of the FNUZ formats has no sign of its own, but 7F and FF, the extreme values, have.
_HIP_SAT = each(OCP_AND_FNUZ, replace(FINITE, nan_code=0x7F))
_HIP_NOSAT = {
    **each(E4M3_E5M2, Projection(nan_code=0x7F, overflow_test="before")),
    **each((catalog.E4M3FNUZ, catalog.E5M2FNUZ), Projection(overflow_test="before")),
}

# All NaNs are one code. MODE.FP16_OVFL = 1 saturates what is finite; infinities are as without.
_RDNA4 = {catalog.E4M3FN: Projection(nan_code=0xFF), catalog.E5M2: Projection(nan_code=0xFE)}
_RDNA4_OVFL = {fmt: replace(rule, saturation=Saturation.PROPAGATE) for fmt, rule in _RDNA4.items()}

CASTS = (
    Profile("hip_sat", "ROCm clr headers, on the host", _HIP_SAT, "HIP"),
    Profile("hip_nosat", "ROCm clr headers, on the host", _HIP_NOSAT, "HIP"),
)

INSTRUCTIONS = (
    Profile("rdna4", "v_cvt_pk_fp8_f32 and bf8 with FP16_OVFL = 0; from documents", _RDNA4, "RDNA4"),
    Profile(
        "rdna4_ovfl", "v_cvt_pk_fp8_f32 and bf8 with FP16_OVFL = 1; from documents", _RDNA4_OVFL, "RDNA4"
    ),
)
