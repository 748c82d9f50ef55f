"""Profiles: what a named stack does, as a projection for each of its formats.

A profile of a library is checked against that library, one of hardware against published data
where there is some; docs/references.md has the sources.

Floor 1. Imports the standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from lowprec.spec import catalog
from lowprec.spec.format import Format
from lowprec.spec.projection import Projection, Saturation

__all__ = ["PROFILES", "Profile", "profile"]


@dataclass(frozen=True)
class Profile:
    """A named stack, the versions it is true of, and how it projects onto each of its formats.

    >>> profile("ocp_sat").projection(catalog.E4M3FN)
    Projection(saturation='finite')

    Parameters
    ----------
    name : str
    versions : str
        The release or document that it was read from or tested against.
    formats : mapping of Format to Projection
    source : str
        Key in docs/references.md.
    """

    name: str
    versions: str
    formats: Mapping[Format, Projection] = field(hash=False)
    source: str = ""

    def projection(self, fmt: Format) -> Projection:
        """How the stack projects onto a format.

        Raises
        ------
        ValueError
            A format that it does not have.
        """
        if fmt not in self.formats:
            names = ", ".join(known.name for known in list(self.formats)[:40])
            raise ValueError(f"profile {self.name!r} does not say how to convert to {fmt.name!r}; it has {names}")
        return self.formats[fmt]

    def __str__(self) -> str:
        return self.name


_FINITE = Projection(saturation=Saturation.FINITE)
_NONE = Projection()

#: Every profile, by name.
PROFILES: Mapping[str, Profile] = MappingProxyType(
    {
        item.name: item
        for item in (
            Profile("ocp_sat", "OFP8 1.0", {catalog.E4M3FN: _FINITE, catalog.E5M2: _FINITE}, "OFP8"),
            Profile("ocp_ovf", "OFP8 1.0", {catalog.E4M3FN: _NONE, catalog.E5M2: _NONE}, "OFP8"),
        )
    }
)


def profile(name: Profile | str) -> Profile:
    """The profile of that name, or the profile itself.

    >>> profile("ocp_ovf").source
    'OFP8'
    """
    if isinstance(name, Profile):
        return name
    if not isinstance(name, str):
        raise TypeError(f"profile must be a Profile or a name, not {name!r}")
    if name not in PROFILES:
        raise ValueError(f"unknown profile {name!r}; use one of {', '.join(PROFILES)}")
    return PROFILES[name]
