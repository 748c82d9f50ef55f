"""Arm: FP8, and the NaNs of arithmetic.

Floor 1. Imports the standard library only.
"""

from __future__ import annotations

from dataclasses import replace

from lowprec.spec import catalog
from lowprec.spec.profiles.profile import E4M3_E5M2, FINITE, IEEE, Profile, each
from lowprec.spec.projection import Projection

__all__ = ["ARITHMETIC", "CASTS"]

# NaNs are Arm's default NaN. FPCR does not matter: to nearest even, and nothing is flushed. With FPCR.AH = 0
# what is tiny is so before rounding.
_ARM = each(E4M3_E5M2, Projection(nan_sign="drop", tininess="before"))
_ARM_SAT = each(E4M3_E5M2, replace(FINITE, nan_sign="drop", tininess="before"))

# FPCR.DN = 0. To integers what does not fit saturates, and NaN is 0.
_ARM_INTEGERS = each(
    (catalog.INT8, catalog.UINT8), replace(FINITE, nan="zero", nan_sign="drop", negative="zero")
)
_ARM_NANS = {**each(IEEE, Projection(nan_payload="signaling_first", tininess="before")), **_ARM_INTEGERS}

# FPCR.DN = 1, as RISC-V: one NaN, which is positive.
_ARM_DEFAULT_NAN = {**each(IEEE, Projection(nan_sign="drop", tininess="before")), **_ARM_INTEGERS}

CASTS = (
    Profile("arm_fp8", "FEAT_FP8 with FPMR.OSC = 0 and NSCALE = 0; never run", _ARM, "ARM"),
    Profile("arm_fp8_sat", "FEAT_FP8 with FPMR.OSC = 1 and NSCALE = 0; never run", _ARM_SAT, "ARM"),
)

ARITHMETIC = (
    Profile("arm", "FPCR.DN = 0: the NaNs of arithmetic; to integers; never run", _ARM_NANS, "ARMFP"),
    Profile("arm_default_nan", "FPCR.DN = 1: likewise; never run", _ARM_DEFAULT_NAN, "ARMFP"),
)
