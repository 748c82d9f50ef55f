"""Ports of a unit: the formats and counts of its operands and results; and rows of operands for it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lowprec.arrays import calls
from lowprec.arrays.blocks.block import BlockArray
from lowprec.arrays.checks import code_dtype, values_operand
from lowprec.arrays.convert import encode
from lowprec.arrays.dots.factors import alike, factors, takes_scales
from lowprec.kernels import engine
from lowprec.kernels.lower.dot import kept_as
from lowprec.kernels.request import Dot
from lowprec.spec.accumulation import Accumulation, Window, begins_in
from lowprec.spec.block import BlockFormat
from lowprec.spec.catalog import BINARY64
from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Carrier, Format, Sign
from lowprec.spec.order import EXACT
from lowprec.spec.projection import Projection

__all__ = ["Prepared", "Ports", "Rows", "fitted", "joined", "signed"]

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
        Products in a dot product, K: 2 to 4096.
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
            if isinstance(fmt, Carrier | Codebook):
                what = "a codebook" if isinstance(fmt, Codebook) else "a type that values come in"
                raise ValueError(f"{fmt.name!r} is {what}, not a format of a unit's ports")
        if type(self.length) is not int or not 2 <= self.length <= 4096:
            raise ValueError(f"k={self.length!r} is out of range: a sum to identify has 2 to 4096 products")
        if self.scale is not None and self.length % self.scale[1]:
            raise ValueError(f"k={self.length} is no whole number of blocks of {self.scale[1]} elements")

    @property
    def blocks(self) -> int:
        """Scales of a row, 0 without blocks."""
        return 0 if self.scale is None else self.length // self.scale[1]

    @property
    def cancels(self) -> bool:
        """Return whether products may have either sign."""
        return any(fmt.sign is not Sign.UNSIGNED for fmt in self.operands)


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
        """Return what is equal for equal rows only, by bits."""
        whole = (self.x, self.y, self.addend[:, None], self.x_scales, self.y_scales)
        parts = [np.ascontiguousarray(part).view(np.uint8) for part in whole]
        return [row.tobytes() for row in np.concatenate(parts, axis=1)]


def joined(parts: Sequence[Rows]) -> Rows:
    """Return rows one below the other."""
    return Rows(*(np.concatenate(each) for each in zip(*parts, strict=True)))


class Prepared:
    """Rows made ready once, to be summed by many accumulations.

    What `lowprec.dot` gives, without its preparation of operands, which takes longer than the sums of a few
    rows: searches try thousands of accumulations on the same ones.
    """

    def __init__(self, rows: Rows, ports: Ports) -> None:
        self.rows, self.ports = rows, ports
        self._sides: dict[Any, Any] = {}
        self._addends: dict[Any, Any] = {}

    def codes(self, how: Accumulation) -> Array:
        """Return the codes that an accumulation gives, int64.

        Raises ValueError: an accumulation that does not take such operands.
        """
        x, y = (self._side(how, number) for number in (0, 1))
        if how.term:
            x, y = alike(x, y, how.term)
        begin, addends = self._begun(how)
        scales = None if x.scale_fmt is None or y.scale_fmt is None else (x.scale_fmt, y.scale_fmt)
        program = engine.lower(Dot(how, x.fmt, y.fmt, begin, scales, x.block, backend="scalar"))
        out = np.zeros((len(self.rows.x), 1), np.uint64)
        program.part(x, y, addends, out, 0, 0, True)
        return out[:, 0].astype(np.int64)

    def _side(self, how: Accumulation, number: int) -> Any:
        key = number, how.operands, how.operand_rounding, takes_scales(how)
        if key not in self._sides:
            side = factors("xy"[number], _side(self.rows, number, self.ports), how, number, -1)
            self._sides[key] = side.rows(side.shape)
        return self._sides[key]

    def _begun(self, how: Accumulation) -> tuple[Format, Array]:
        """Return the addends as codes, and their format."""
        begin, rule = begins_in(how)
        if self.ports.addend is None:
            return kept_as(begin), np.empty((0, 0), np.uint64)
        if how.order == EXACT:
            begin, rule = BINARY64, Projection()
        key = begin, rule
        if key not in self._addends:
            operand = values_operand(self.rows.addend, "addend")
            if begin == BINARY64:
                codes = self.rows.addend.view(np.uint64)
            elif kept_as(begin) == BINARY64:
                made = calls.convert(operand, begin, rule, np.dtype(np.float64), BINARY64)
                codes = np.asarray(made).view(np.uint64)
            else:
                codes = np.asarray(calls.convert(operand, begin, rule, code_dtype(begin)))
            self._addends[key] = codes.astype(np.uint64)[:, None]
        return kept_as(begin), self._addends[key]


def _side(rows: Rows, number: int, ports: Ports) -> Any:
    values = rows[number]
    if ports.scale is None:
        return values
    element = ports.operands[number]
    blocks = BlockFormat(name="asked", element=element, scale=ports.scale[0], size=ports.scale[1])
    return BlockArray(np.asarray(encode(values, element)), rows[3 + number], blocks)


def fitted(how: Accumulation, ports: Ports) -> Accumulation:
    """Return an accumulation for a unit's operands: one that aligns has their formats."""
    if how.operands is not None or how.machine or isinstance(how.accumulator, Window):
        return dataclasses.replace(how, operands=ports.operands)
    return how


def signed(fmt: Format) -> bool:
    """Return whether a format has negative numbers."""
    return fmt.sign is not Sign.UNSIGNED
