"""Standards, drafts and papers: OFP8, MX, P3109.

Floor 1. Imports the standard library only.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from lowprec.spec import catalog
from lowprec.spec.families import p3109
from lowprec.spec.format import Format, Sign
from lowprec.spec.profiles.profile import (
    E4M3_E5M2,
    FINITE,
    MX,
    NO_ZERO,
    PROPAGATE,
    OnDemand,
    Profile,
    changed,
    each,
)
from lowprec.spec.projection import Projection


class _P3109(OnDemand):
    """The formats of P3109, constructed on demand: there are hundreds."""

    def of(self, fmt: Format) -> Projection:
        """Return how the stack projects onto a binary format."""
        signed = fmt.sign is Sign.MAGNITUDE
        try:
            known = p3109(fmt.width, fmt.trailing_bits + 1, signed=signed, extended=fmt.infinity)
        except ValueError:
            raise KeyError(fmt) from None
        if known != fmt:
            raise KeyError(fmt)
        # Formats of the finite domain clamp under every policy; unsigned ones have 0 for negative numbers,
        # where the report 4.0 has NaN, to nearest: `lowprec.p3109` has its rules for every mode.
        return Projection(saturation="none" if fmt.infinity else "finite", negative="zero")

    def __iter__(self) -> Iterator[Format]:
        for width in range(3, 17):
            for signed in (True, False):
                for precision in range(1, width + (not signed)):
                    for extended in (True, False):
                        with contextlib.suppress(ValueError):  # float64 does not hold its values
                            yield p3109(width, precision, signed=signed, extended=extended)

    def __len__(self) -> int:
        return sum(1 for _ in self)


_P3109_BLOCKS = changed(
    (*MX, catalog.NVFP4),
    rule="project",
    tensor_scale="none",
    scales=NO_ZERO,
    zero="rule",
    nan="elements",
    infinity="elements",
    source="P3109",
)

_OCP = {fmt: fmt for fmt in catalog.BLOCK_FORMATS.values()}

CASTS = (
    Profile("ocp_sat", "OFP8 1.0", each(E4M3_E5M2, FINITE), "OFP8"),
    Profile("ocp_ovf", "OFP8 1.0", each(E4M3_E5M2, Projection()), "OFP8"),
    Profile("fp8_paper", "arXiv:2209.05433", each(E4M3_E5M2, PROPAGATE), "FP8"),
)

BLOCKS = (
    Profile("p3109", "interim report 3.2.1, a draft", _P3109(), "P3109", _P3109_BLOCKS),
    Profile("ocp", "MX 1.0, and what it leaves open as this catalog has it", {}, "OCPMX", _OCP),
)
