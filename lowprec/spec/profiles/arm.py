"""Arm: FP8, and the NaNs of arithmetic.

FPMR.NSCALE and LSCALE are said by the bias of an FP8 format: where it is greater by n, a value has the code
that 2**n times the value has in the format itself.

Floor 1. Imports the standard library only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from lowprec.spec import catalog
from lowprec.spec.format import Format
from lowprec.spec.profiles.profile import E4M3_E5M2, FINITE, IEEE, OnDemand, Profile, each
from lowprec.spec.projection import Projection


class _Scaled(OnDemand):
    """E4M3 and E5M2 of every bias that FPMR.NSCALE gives them, -128 to 127 from their own."""

    def __init__(self, rule: Projection) -> None:
        self._rule = rule

    def of(self, fmt: Format) -> Projection:
        """Return how the stack projects onto a binary format."""
        for own in E4M3_E5M2:
            if -128 <= fmt.bias - own.bias <= 127 and fmt == replace(own, bias=fmt.bias):
                return self._rule
        raise KeyError(fmt)

    def __iter__(self) -> Iterator[Format]:
        return iter(E4M3_E5M2)

    def __len__(self) -> int:
        return len(E4M3_E5M2)


# NaNs are Arm's default NaN. FPCR does not matter: to nearest even, and nothing is flushed. With FPCR.AH = 0
# what is tiny is so before rounding.
_ARM = _Scaled(Projection(nan_sign="drop", tininess="before"))
_ARM_SAT = _Scaled(replace(FINITE, nan_sign="drop", tininess="before"))

# FPCR.DN = 0. To integers what does not fit saturates, and NaN is 0.
_ARM_INTEGERS = each(
    (catalog.INT8, catalog.UINT8), replace(FINITE, nan="zero", nan_sign="drop", negative="zero")
)
_ARM_NANS = {**each(IEEE, Projection(nan_payload="signaling_first", tininess="before")), **_ARM_INTEGERS}

# FPCR.DN = 1, as RISC-V: one NaN, which is positive.
_ARM_DEFAULT_NAN = {**each(IEEE, Projection(nan_sign="drop", tininess="before")), **_ARM_INTEGERS}

CASTS = (
    Profile("arm_fp8", "FEAT_FP8 with FPMR.OSC = 0, NSCALE as another bias; from documents", _ARM, "ARM"),
    Profile(
        "arm_fp8_sat", "FEAT_FP8 with FPMR.OSC = 1, NSCALE as another bias; from documents", _ARM_SAT, "ARM"
    ),
)

ARITHMETIC = (
    Profile("arm", "FPCR.DN = 0: the NaNs of arithmetic; to integers; from documents", _ARM_NANS, "ARMFP"),
    Profile("arm_default_nan", "FPCR.DN = 1: likewise; from documents", _ARM_DEFAULT_NAN, "ARMFP"),
)
