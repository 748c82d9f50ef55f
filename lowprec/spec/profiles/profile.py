"""The class of profiles, and what several of them share.

Floor 1. Imports the standard library only.
"""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lowprec.spec import catalog
from lowprec.spec.block import BlockFormat
from lowprec.spec.codebook import Codebook
from lowprec.spec.fields import Table, text
from lowprec.spec.format import Format
from lowprec.spec.projection import Projection, Saturation


class OnDemand(Mapping[Format, Projection]):
    """Formats of a profile that are too many to list: kept as they are, not copied."""

    def __getitem__(self, fmt: Format) -> Projection:
        if isinstance(fmt, Codebook):  # it has no parameters to look at
            raise KeyError(fmt)
        return self.of(fmt)

    @abstractmethod
    def of(self, fmt: Format) -> Projection:
        """Return how the stack projects onto a binary format. Raises KeyError: one that it does not have."""


@dataclass(frozen=True, repr=False)
class Profile:
    """A named stack, the versions it is true of, how it projects onto its formats and what its blocks are.

    >>> from lowprec.spec.profiles import profile
    >>> profile("ocp_sat").projection(catalog.E4M3FN)
    Projection(saturation='finite')
    >>> profile("torchao_even").block(catalog.MXFP4).rule.name
    'even'
    >>> profile("ocp_sat")
    <profile 'ocp_sat': OFP8 1.0>

    Parameters
    ----------
    name : str
    versions : str
        The release or document that it was read from or tested against.
    formats : mapping of Format, or its name, to Projection
        Copied: later changes to the mapping change nothing here.
    blocks : mapping of BlockFormat to BlockFormat
        From the catalog's block formats to those of this stack. Copied too.
    source : str
        Key in docs/references.md.
    """

    name: str
    versions: str
    formats: Mapping[Format, Projection] = field(hash=False)
    source: str = ""
    blocks: Mapping[BlockFormat, BlockFormat] = field(hash=False, default_factory=dict)

    if TYPE_CHECKING:  # names stand for objects

        def __init__(
            self,
            name: str,
            versions: str,
            formats: Mapping[Format, Projection] | Mapping[str, Projection],
            source: str = ...,
            blocks: Mapping[BlockFormat, BlockFormat] | Mapping[str, BlockFormat] = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        text(self, "a profile", "name", "versions", "source")
        for name, key, value in (("formats", Format, Projection), ("blocks", BlockFormat, BlockFormat)):
            given = getattr(self, name)
            if isinstance(given, Table | OnDemand):
                continue
            if not isinstance(given, Mapping):
                raise TypeError(f"{name} of a profile must be a mapping, not {given!r}")
            find = catalog.format if name == "formats" else catalog.block_format
            given = {find(item) if isinstance(item, str) else item: of for item, of in given.items()}
            for item in given.items():
                if not (isinstance(item[0], key) and isinstance(item[1], value)):
                    wanted = f"{key.__name__} to {value.__name__}"
                    raise TypeError(f"{name} of a profile must map {wanted}, not {item[0]!r} to {item[1]!r}")
            object.__setattr__(self, name, Table(given))

    def projection(self, fmt: Format | str) -> Projection:
        """Return how the stack projects onto a format.

        Raises ValueError: a format that it does not have.
        """
        fmt = catalog.format(fmt)
        if fmt not in self.formats:
            names = ", ".join(known.name for known in itertools.islice(self.formats, 40)) or "blocks alone"
            raise ValueError(
                f"profile {self.name!r} does not say how to convert to {fmt.name!r}; it has {names}"
            )
        return self.formats[fmt]

    def block(self, fmt: BlockFormat | str) -> BlockFormat:
        """Return what a block format is in this stack.

        Raises ValueError: a block format that it does not have.
        """
        fmt = catalog.block_format(fmt)
        if fmt not in self.blocks:
            names = ", ".join(known.name for known in self.blocks) or "no block formats"
            raise ValueError(f"profile {self.name!r} does not say what {fmt.name!r} is; it has {names}")
        return replace(self.blocks[fmt], name=fmt.name)  # two that differ in name alone are equal

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<profile {self.name!r}: {self.versions}>"


E4M3_E5M2 = (catalog.E4M3FN, catalog.E5M2)
OCP_AND_FNUZ = (*E4M3_E5M2, catalog.E4M3FNUZ, catalog.E5M2FNUZ)
IEEE = (catalog.BINARY16, catalog.BFLOAT16, catalog.BINARY32)
MXFP = (catalog.MXFP8_E4M3, catalog.MXFP8_E5M2, catalog.MXFP6_E2M3, catalog.MXFP6_E3M2, catalog.MXFP4)
MX = (*MXFP, catalog.MXINT8)

FINITE = Projection(saturation=Saturation.FINITE)
PROPAGATE = Projection(saturation=Saturation.PROPAGATE)
#: Through binary32: right for every operand, since what binary32 holds passes unchanged.
TWICE = Projection(via=(catalog.BINARY32,))
#: Of scales: quotients that are 0 become the smallest scale.
NO_ZERO = replace(FINITE, zero="smallest")


def each(formats: Iterable[Format], projection: Projection) -> dict[Format, Projection]:
    """Return the same projection for each format."""
    return dict.fromkeys(formats, projection)


def changed(formats: Iterable[BlockFormat], **fields: object) -> dict[BlockFormat, BlockFormat]:
    """Return each block format with some fields replaced."""
    return {fmt: replace(fmt, **fields) for fmt in formats}  # type: ignore[arg-type]
