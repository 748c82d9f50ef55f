"""x86: AVX10.2, and the NaNs of SSE and AVX.

Floor 1. Imports the standard library only.
"""

from __future__ import annotations

from lowprec.spec import catalog
from lowprec.spec.profiles.profile import E4M3_E5M2, IEEE, Profile, each
from lowprec.spec.projection import Projection

__all__ = ["ARITHMETIC", "CASTS"]

# SSE and AVX: the first NaN operand, quiet; if none is one, the "real indefinite", which is negative.
_X86 = {fmt: Projection(nan_payload="first", nan_code=(fmt.nan_code or 0) | fmt.sign_code) for fmt in IEEE}

CASTS = (
    Profile(
        "avx10_2",
        "AVX10.2, the forms that do not saturate; NaNs but for their payloads; never run",
        {**each(E4M3_E5M2, Projection()), catalog.BFLOAT16: Projection(subnormals="flush_both")},
        "AVX10",
    ),
)

ARITHMETIC = (
    Profile(
        "x86", "SSE and AVX: the NaNs of arithmetic, of fma in the order x, y, z; not its flags", _X86, "X86"
    ),
)
