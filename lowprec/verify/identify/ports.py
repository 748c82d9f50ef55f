"""What a unit takes and gives, and rows of operands for it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import lowprec as lp
from lowprec.arrays.checks import code_dtype
from lowprec.spec.accumulation import Accumulation, Window
from lowprec.spec.block import BlockFormat
from lowprec.spec.format import Carrier, Format, Sign

__all__ = ["Ports", "Rows", "joined", "predict"]

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Ports:
    """The formats and the length of a unit's dot products.

    Parameters
    ----------
    operands : (Format, Format)
        Of a and b.
    output : Format
        Of the results, at most 32 bits.
    length : int
        Products in a dot product, K: 1 to 4096.
    addend : Format, optional
        Of c; None for a unit without one.
    scale : (Format, int), optional
        Of operands in blocks: the format of scales, and how many elements share one.
    """

    operands: tuple[Format, Format]
    output: Format
    length: int
    addend: Format | None
    scale: tuple[Format, int] | None = None

    def __post_init__(self) -> None:
        for fmt in (*self.operands, self.output, *([self.addend] if self.addend else [])):
            if isinstance(fmt, Carrier):
                raise ValueError(f"{fmt.name!r} is a type that values come in, not a format of a unit's ports")
        if type(self.length) is not int or not 1 <= self.length <= 4096:
            raise ValueError(f"k={self.length!r} is out of range: a dot product has 1 to 4096 products here")
        if self.scale is not None and self.length % self.scale[1]:
            raise ValueError(f"k={self.length} is no whole number of blocks of {self.scale[1]} elements")

    @property
    def blocks(self) -> int:
        """Scales of a row, 0 without blocks."""
        return 0 if self.scale is None else self.length // self.scale[1]


class Rows(NamedTuple):
    """Operands of some dot products, one a row: values as float64, scales as codes."""

    x: Array  #: (rows, K)
    y: Array  #: (rows, K)
    addend: Array  #: (rows,), zeros where the unit takes none
    x_scales: Array  #: (rows, blocks)
    y_scales: Array  #: (rows, blocks)

    def at(self, index: Array | slice) -> Rows:
        """Return some of the rows."""
        return Rows(*(part[index] for part in self))

    def keys(self) -> list[bytes]:
        """Return what is equal for equal rows only; NaNs are alike."""
        whole = [np.where(np.isnan(part), np.nan, part) for part in (self.x, self.y, self.addend[:, None])]
        parts = [np.ascontiguousarray(part).view(np.uint8) for part in (*whole, self.x_scales, self.y_scales)]
        return [row.tobytes() for row in np.concatenate(parts, axis=1)]


def joined(parts: Sequence[Rows]) -> Rows:
    """Return rows one below the other."""
    return Rows(*(np.concatenate(each) for each in zip(*parts, strict=True)))


def predict(how: Accumulation, rows: Rows, ports: Ports) -> Array:
    """Return the codes that an accumulation gives for rows, int64.

    Raises ValueError: an accumulation that does not take such operands.
    """
    x, y = (_side(rows, number, ports) for number in (0, 1))
    codes = lp.dot(
        x, y, how, addend=None if ports.addend is None else rows.addend, dtype=code_dtype(ports.output)
    )
    return np.asarray(codes).astype(np.int64)


def _side(rows: Rows, number: int, ports: Ports) -> Any:
    values = rows[number]
    if ports.scale is None:
        return values
    element = ports.operands[number]
    blocks = BlockFormat(name="asked", element=element, scale=ports.scale[0], size=ports.scale[1])
    codes = np.asarray(lp.encode(values, element))
    return lp.BlockArray(codes, rows[3 + number], blocks)


def fitted(how: Accumulation, ports: Ports) -> Accumulation:
    """Return an accumulation for a unit's operands: one that aligns has their formats."""
    if how.operands is not None or how.machine or isinstance(how.accumulator, Window):
        return dataclasses.replace(how, operands=ports.operands)
    return how


def signed(fmt: Format) -> bool:
    """Return whether a format has negative numbers."""
    return fmt.sign is not Sign.UNSIGNED
