"""Schemes: how one quantised weight is stored, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lowprec.checkpoints.schemes.packings import WHOLE, Packing

__all__ = ["Scheme"]


@dataclass(frozen=True, kw_only=True)
class Scheme:
    """Storage of one quantised weight.

    Parameters
    ----------
    name, family : str
        Its own name, and that of the software whose files have it: `--scheme`.
    codes, scales, tensor : str
        What the names of the parts end with; what comes before is the weight's, which ends with `weight`.
    code_tags, scale_tags : tuple of str
        Types of the parts in the header, the one that is written first.
    element, scale : str
        Formats; empty where the type says it.
    block : tuple of int, optional
        Rows and columns of a block; None where the scales' shape says it.
    packing : Packing
        How codes lie in the bytes of their tensor: an object of `packings` or `words`.
    zeros : str
        What the name of the zero points ends with: whole numbers that are subtracted from elements.
    signed : bool
        Whether scales may be negative.
    vanishing : bool
        Whether scales may be 0 whatever the codes: products of two, of which one was rounded to 0.
    by_scale : bool
        Whether values are rounded to the type of the scales, as the scheme's software computes them in that.
    divides : bool
        Whether the tensor's scale divides.
    transposed : bool
        Whether the weight has its last two axes exchanged.
    swizzled : bool
        Whether scales lie in tiles of 128x4, of padded rows and columns.
    extras : tuple of str
        Endings of tensors that belong to it and do not change its values: scales of activations.
    padded : bool
        Whether rows and columns of scales are padded as tiles of 128x4 need, and lie row by row.
    unless : str
        Ending of a tensor that is the weight, where it is there: this is a copy of it then.
    state : str
        What the name of a tensor ends with that says in JSON what the others leave open.
    marks : mapping
        What the configuration must say for it, where names and types leave a choice.
    source : str
        Where the layout is defined.
    """

    name: str
    family: str
    source: str
    codes: str = ""
    code_tags: tuple[str, ...] = ()
    scales: str = ""
    scale_tags: tuple[str, ...] = ()
    tensor: str = ""
    element: str = ""
    scale: str = ""
    block: tuple[int, int] | None = None
    packing: Packing = WHOLE
    zeros: str = ""
    signed: bool = False
    vanishing: bool = False
    by_scale: bool = False
    divides: bool = False
    transposed: bool = False
    swizzled: bool = False
    weight: str = ".weight"
    extras: tuple[str, ...] = ()
    padded: bool = False
    unless: str = ""
    state: str = ""
    marks: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_distinctive(self) -> bool:
        """True if the name of the codes alone says that they need scales."""
        return self.codes != ".weight"

    def is_but_for_tensor(self, other: Scheme) -> bool:
        """Return whether another scheme has scales of that name and type, and no scale of the tensor."""
        return (other.scales, other.scale_tags, other.tensor) == (self.scales, self.scale_tags, "")
