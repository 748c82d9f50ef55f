"""Profiles: what a named stack does, as a projection for each of its formats; a file for each vendor.

A profile of a library is checked against that library, one of hardware against published data
where there is some; docs/references.md has the sources.

Floor 1. Imports the standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping

from lowprec.spec.naming import Catalog, by_name, close_names
from lowprec.spec.profiles import amd, arm, frameworks, nvidia, research, riscv, standards, torchao, x86
from lowprec.spec.profiles.profile import OnDemand, Profile

__all__ = ["INSTRUCTIONS", "PROFILES", "Profile", "profile"]

#: Every profile, by name. Where several explain a difference, a diagnosis names the first.
PROFILES: Mapping[str, Profile] = Catalog(
    "profiles",
    by_name(
        (
            *frameworks.CASTS,
            *research.CASTS,
            *standards.CASTS,
            *nvidia.CASTS,
            *amd.CASTS,
            *amd.INSTRUCTIONS,
            *x86.CASTS,
            *arm.CASTS,
            *riscv.CASTS,
            *x86.ARITHMETIC,
            *arm.ARITHMETIC,
            *riscv.ARITHMETIC,
            *standards.BLOCKS,
            *torchao.BLOCKS,
            *nvidia.BLOCKS,
            *research.BLOCKS,
        )
    ),
    formats=lambda each: "on demand" if isinstance(each.formats, OnDemand) else each.formats,
    blocks=lambda each: each.blocks,
    versions=lambda each: each.versions,
)


#: Profiles of conversion instructions, by name: what a library gives on a CPU without them is none of these.
INSTRUCTIONS = tuple(each.name for each in (*amd.INSTRUCTIONS, *x86.CASTS, *arm.CASTS, *riscv.CASTS))

#: Hardware whose conversions no public document or measurement describes, by the beginnings of names.
_UNDOCUMENTED = {
    (
        "ptx_cvt_pzo",
        "ptx_cvt_scaled",
    ): "what .pzo and .scaled of PTX 9.4's cvt, for Rubin, do with zeros, NaNs and overflow",
    ("cdna4", "gfx950"): "what CDNA4's scaled conversions do with NaNs, infinities and random bits",
    (
        "gfx1250",
        "rdna3_5",
        "rdna3.5",
        "gfx11",
    ): "what its conversions to FP8 and less do with NaNs and overflow",
}


def profile(name: Profile | str) -> Profile:
    """Return the profile of that name, or the profile itself.

    >>> profile("ocp_ovf").source
    'OFP8'
    """
    if isinstance(name, Profile):
        return name
    if not isinstance(name, str):
        raise TypeError(f"profile must be a Profile or a name, not {name!r}")
    if name not in PROFILES:
        for beginnings, what in _UNDOCUMENTED.items():
            if name.lower().startswith(beginnings):
                raise ValueError(
                    f"profile {name!r} is not here: no public document or measurement settles {what}. "
                    f"`lowprec compare` finds what explains a dump of its results"
                )
        near = close_names(name, PROFILES)
        hint = f"did you mean {' or '.join(map(repr, near))}? There are" if near else "use one of"
        raise ValueError(f"unknown profile {name!r}; {hint} {', '.join(PROFILES)}")
    return PROFILES[name]
