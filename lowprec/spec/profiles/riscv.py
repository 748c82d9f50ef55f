"""RISC-V: conversions to FP8 and of FP4, and the NaNs of arithmetic.

Floor 1. Imports the standard library only.
"""

from __future__ import annotations

from dataclasses import replace

from lowprec.spec import catalog
from lowprec.spec.profiles.profile import E4M3_E5M2, FINITE, IEEE, Profile, each
from lowprec.spec.projection import Projection

_RISCV = {
    **each(IEEE, Projection(nan_sign="drop")),
    **each((catalog.INT8, catalog.UINT8), replace(FINITE, nan="max", nan_sign="drop", negative="zero")),
}

# From bfloat16 and binary32. The canonical NaN of both formats is 7f; overflow and infinities become it in
# E4M3. frm may ask for another rounding.
_OFP8 = each(E4M3_E5M2, Projection(nan_code=0x7F, nan_sign="positive"))
_OFP8_SAT = each(E4M3_E5M2, replace(FINITE, nan_code=0x7F, nan_sign="positive"))

CASTS = (
    Profile(
        "riscv_zvfofp8min",
        "Zvfofp8min: vfncvt and vfncvtbf16 with frm = RNE; from documents",
        _OFP8,
        "RISCVFP8",
    ),
    Profile(
        "riscv_zvfofp8min_sat", "Zvfofp8min: the saturating forms; from documents", _OFP8_SAT, "RISCVFP8"
    ),
    Profile(
        "riscv_zvfofp4min",
        "Zvfofp4min: vfext.vf2 from e2m1fn, which is exact; from documents",
        {catalog.E4M3FN: Projection()},
        "RISCVFP8",
    ),
)

ARITHMETIC = (
    Profile("riscv", "F and Zfh: the NaNs of arithmetic; to integers; from documents", _RISCV, "RISCV"),
)
