"""Dot units as those see them who choose operands for them, and what they answer.

Notation as in `lowprec.verify.inputs.dots`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays.blocks.block import BlockArray
from lowprec.arrays.checks import code_dtype
from lowprec.arrays.dots.dot import dot
from lowprec.spec.accumulation import Accumulation, Window, begins_in
from lowprec.spec.block import BlockFormat
from lowprec.spec.format import Carrier, Format
from lowprec.spec.order import EXACT
from lowprec.verify.codes.values import as_doubles

__all__ = ["DotCases", "Shape", "answers", "shape_of", "values_of"]

Array = npt.NDArray[Any]

#: Lanes of a machine's step, by two steps.
_MACHINES = {"cdna2": 8, "cdna2_pairs": 4, "cdna3": 16, "cdna3_fp8": 32}
_PLAIN = 8


@dataclass(frozen=True)
class Shape:
    """Parameters of a dot unit that the choice of its operands depends on."""

    how: Accumulation
    formats: tuple[Format, Format]
    addend: Format
    lanes: int

    @property
    def step(self) -> int:
        """Products of a step."""
        window = self.how.accumulator
        return min(window.step if isinstance(window, Window) else self.how.term or 1, self.lanes)

    @property
    def places(self) -> int:
        """Places behind the point of the largest exponent that a step keeps, or that its result has."""
        window = self.how.accumulator
        if isinstance(window, Window):
            return window.fraction_bits or window.result[0].trailing_bits + 2
        if self.how.machine:
            return 24
        return (self.how.output if window is None else window)[0].trailing_bits

    @property
    def result(self) -> Format:
        """The format of a step's result."""
        held = self.how.accumulator
        return held.result[0] if isinstance(held, Window) else (self.how.output if held is None else held)[0]

    @property
    def steps(self) -> list[Array]:
        """The lanes of each step, in order."""
        lanes, size = np.arange(self.lanes), self.step
        window = self.how.accumulator
        if not isinstance(window, Window) or window.groups == "consecutive":
            return [lanes[start : start + size] for start in range(0, self.lanes, size)]
        both = [lanes[start : start + 2 * size] for start in range(0, self.lanes, 2 * size)]
        return [part[(part & 2) == side] for part in both for side in (0, 2)]


@dataclass(frozen=True)
class DotCases:
    """Operands as codes, a case in each row: x and y of shape (n, K), addends (n,), scales by block."""

    x: Array
    y: Array
    addend: Array
    scales: tuple[Array, Array] | None = None

    def at(self, rows: Array) -> DotCases:
        """Return some of the cases."""
        scales = None if self.scales is None else (self.scales[0][rows], self.scales[1][rows])
        return DotCases(self.x[rows], self.y[rows], self.addend[rows], scales)


def shape_of(
    how: Accumulation, formats: tuple[Format, Format] | None = None, lanes: int | None = None
) -> Shape:
    """Return what to choose operands for; the lanes are those of one step unless they are given.

    >>> from lowprec.spec.accumulations import ACCUMULATIONS
    >>> shape = shape_of(ACCUMULATIONS["hopper_mma_e4m3fn_binary16"])
    >>> shape.lanes, [step.tolist()[:4] for step in shape.steps]
    (32, [[0, 1, 4, 5], [2, 3, 6, 7]])

    Raises ValueError: an accumulation of any operands without formats; lanes that make no whole blocks.
    """
    if how.operands is None and formats is None:
        raise ValueError(f"{how} takes operands of any format; name those of x and y")
    if how.operands is not None and formats not in (None, how.operands):
        named = " and ".join(fmt.name for fmt in how.operands)
        raise ValueError(f"{how} takes operands in {named}; leave the formats out")
    chosen = how.operands or formats
    assert chosen is not None
    if any(isinstance(fmt, Carrier) for fmt in chosen):
        raise ValueError("operands of dot vectors are formats of at most 32 bits, such as 'binary32'")
    begin = how.output[0] if how.order == EXACT else begins_in(how)[0]
    window = how.accumulator
    own = max(_MACHINES.get(how.machine, _PLAIN), 2 * how.term)
    if isinstance(window, Window):
        own = max(window.step * (2 if window.groups == "alternate_pairs" else 1), how.order.size)
    if how.scale is not None:
        own = math.lcm(own, how.scale[1])
    count = own if lanes is None else lanes
    if not 1 <= count <= 4096:
        raise ValueError(f"{count} lanes are too many for vectors, or none; give a length of 1 to 4,096")
    if how.scale is not None and count % how.scale[1]:
        raise ValueError(f"length {count} holds no whole blocks of {how.scale[1]}; use a multiple")
    return Shape(how, chosen, begin, count)


def answers(shape: Shape, cases: DotCases, how: Accumulation | None = None, *, added: bool = True) -> Array:
    """Return the codes of the results: of the accumulation or another, with the addends or without."""
    how = how or shape.how
    sides: list[Any] = [
        values_of(codes, fmt) for codes, fmt in zip((cases.x, cases.y), shape.formats, strict=True)
    ]
    if cases.scales is not None and how.scale is not None:
        scale, size = how.scale
        for place, (codes, fmt) in enumerate(zip((cases.x, cases.y), shape.formats, strict=True)):
            blocks = BlockFormat(name="scaled", element=fmt, scale=scale, size=size)
            sides[place] = BlockArray(codes, cases.scales[place], blocks)
    addend = values_of(cases.addend, shape.addend) if added else None
    return np.asarray(dot(sides[0], sides[1], how, addend=addend, dtype=code_dtype(how.output[0])))


def values_of(codes: Array, fmt: Format) -> npt.NDArray[np.float64]:
    """Return values in float64: of any format, and of float64 itself."""
    if isinstance(fmt, Carrier):
        return codes.astype(np.uint64).view(np.float64)
    return as_doubles(codes.astype(code_dtype(fmt)), fmt)
