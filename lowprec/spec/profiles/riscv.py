"""RISC-V: the NaNs of arithmetic.

Floor 1. Imports the standard library only.
"""

from __future__ import annotations

from dataclasses import replace

from lowprec.spec import catalog
from lowprec.spec.profiles.profile import FINITE, IEEE, Profile, each
from lowprec.spec.projection import Projection

__all__ = ["ARITHMETIC"]

_RISCV = {
    **each(IEEE, Projection(nan_sign="drop")),
    **each((catalog.INT8, catalog.UINT8), replace(FINITE, nan="max", nan_sign="drop", negative="zero")),
}

ARITHMETIC = (Profile("riscv", "F and Zfh: the NaNs of arithmetic; to integers; never run", _RISCV, "RISCV"),)
