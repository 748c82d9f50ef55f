"""Requests: what is asked of an engine, in full. Equal requests have equal answers.

A request holds specifications only, no arrays: how an array lies in memory, and how many threads go
through it, changes no answer. It is checked when it is made, cannot be changed, and hashes by value,
so that `engine.lower` can keep the program that it was lowered to.

Floor 2b. Imports spec.
"""

from __future__ import annotations

import dataclasses
import functools
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeVar, cast

from lowprec.spec.accumulation import Accumulation
from lowprec.spec.arith import operands_of
from lowprec.spec.block import BlockFormat
from lowprec.spec.fields import Hashed
from lowprec.spec.format import Format
from lowprec.spec.projection import Projection

__all__ = ["CONVERT", "BlockDecoding", "BlockEncoding", "Dot", "Elementwise", "Request", "known"]

_Kind = TypeVar("_Kind", bound="Request")

#: The operation of the four verbs: the value of the operand itself.
CONVERT = "convert"


@dataclass(frozen=True, slots=True)
class Request(Hashed):
    """Base class of all requests.

    Parameters
    ----------
    backend : str, optional
        The engine that must answer, a key of `lowprec.kernels.engine.ENGINES`; by default the fastest
        that is exact.
    """

    backend: str | None = dataclasses.field(default=None, kw_only=True)

    __hash__ = Hashed.__hash__

    @property
    def formats(self) -> tuple[Format, ...]:
        """The formats of operands and results."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Elementwise(Request):
    """An operation on each element: the exact result is projected once and returned in a carrier type.

    Parameters
    ----------
    operation : str
        `CONVERT` or a key of `lowprec.spec.arith.OPERANDS`.
    sources : tuple of Format
        The format of each operand; a carrier, such as binary64 or int32, where operands are values.
    target : Format
    projection : Projection
    carrier : Format, optional
        The floating-point type that results are given in; None for codes of the target.
    flags : bool
        Whether the flags of each result are asked for.
    """

    operation: str
    sources: tuple[Format, ...]
    target: Format
    projection: Projection
    carrier: Format | None = None
    flags: bool = False

    __hash__ = Hashed.__hash__

    @property
    def formats(self) -> tuple[Format, ...]:
        """The formats of operands and results."""
        return (*self.sources, self.target)

    def __post_init__(self) -> None:
        rule = self.projection
        if not self.flags and rule.tininess != "after" and not rule.flushes_results:
            # Nothing asks what is tiny: the same request as without.
            object.__setattr__(self, "projection", dataclasses.replace(rule, tininess="after"))
        wanted = 1 if self.operation == CONVERT else operands_of(self.operation)
        if len(self.sources) != wanted:
            raise ValueError(f"{self.operation} takes {wanted} operands, not {len(self.sources)}")
        if self.carrier is not None and not self.carrier.contains(self.target):
            raise ValueError(f"{self.carrier.name!r} does not hold every value of {self.target.name!r}")


@dataclass(frozen=True, slots=True)
class BlockEncoding(Request):
    """Values into blocks: a scale from each block's largest magnitude, and the elements divided by it.

    Parameters
    ----------
    source : Format
        Of the values, or the carrier that they come in.
    format : BlockFormat
        With its rule, and the projections of elements and scales.
    tensor : bool
        Whether the whole tensor has a scale.
    given : bool
        Whether the scales are given, and only the elements wanted.
    """

    source: Format
    format: BlockFormat
    tensor: bool
    given: bool = False

    __hash__ = Hashed.__hash__

    @property
    def formats(self) -> tuple[Format, ...]:
        """The formats of operands and results."""
        return self.source, self.format.element, self.format.scale


@dataclass(frozen=True, slots=True)
class BlockDecoding(Request):
    """Blocks into values: elements times the scale of their block and that of the tensor, rounded once.

    Parameters
    ----------
    format : BlockFormat
    tensor : bool
        Whether the whole tensor has a scale.
    carrier : Format
        The floating-point type of the values.
    """

    format: BlockFormat
    tensor: bool
    carrier: Format

    __hash__ = Hashed.__hash__

    @property
    def formats(self) -> tuple[Format, ...]:
        """The formats of operands and results."""
        return self.format.element, self.format.scale


@dataclass(frozen=True, slots=True)
class Dot(Request):
    """Dot products: the sum of products of two rows, as an accumulation makes it.

    Parameters
    ----------
    accumulation : Accumulation
    x, y : Format
        Of the operands.
    addend : Format
        In which addends come; see `lowprec.spec.accumulation.begins_in`.
    scales : (Format, Format), optional
        Of the scales of operands in blocks.
    block : int
        Elements that share a scale; 0 where there are none.
    tensor : Fraction
        What sums are multiplied by: the product of the tensors' scales.
    """

    accumulation: Accumulation
    x: Format
    y: Format
    addend: Format
    scales: tuple[Format, Format] | None = None
    block: int = 0
    tensor: Fraction = Fraction(1)

    __hash__ = Hashed.__hash__

    @property
    def formats(self) -> tuple[Format, ...]:
        """The formats of operands and results."""
        return self.x, self.y, *(self.scales or ()), self.accumulation.output[0]


def known(kind: type[_Kind], *fields: Any, backend: str | None = None) -> _Kind:
    """Return a request of a kind; for equal fields it is the same one, whose program is soon found."""
    return cast(_Kind, _known(cast(Any, kind), *fields, backend=backend))


@functools.lru_cache(maxsize=1024)
def _known(kind: Any, *fields: Any, backend: str | None) -> Request:
    made: Request = kind(*fields, backend=backend)
    return made
