"""Factors of dot products: what comes in as arrays or blocks, as rows of codes with K along the last axis.

Floor 3.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lowprec.arrays import calls
from lowprec.arrays.blocks.block import BlockArray
from lowprec.arrays.blocks.block_products import spread
from lowprec.arrays.checks import (
    UNSIGNED,
    Array,
    Operand,
    code_dtype,
    float_dtype,
    narrowed,
    refuse_codes,
    values_operand,
)
from lowprec.kernels.codes import nans, unlocked
from lowprec.kernels.engine import Backend, Rows
from lowprec.spec import catalog
from lowprec.spec.accumulation import Accumulation, Window
from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Format
from lowprec.spec.projection import DEFAULT, Projection

__all__ = ["Factors", "Side", "alike", "along", "factors", "part_of", "takes_scales"]

Factors = npt.ArrayLike | BlockArray

#: Projections that say of all values whether a format with NaN, or one without, has them.
_CODES = {True: Projection(nan="error"), False: Projection(nan="max")}
#: Columns that are copied together: what is read of a transposed array stays in the caches meanwhile.
_STRIP = 128


class Scales(NamedTuple):
    """Scales of operands in blocks, with K in the place where the elements have it."""

    codes: Array
    fmt: Format
    block: int
    tensor: float


def part_of(rows: Rows, number: int, each: int) -> Rows:
    """Return the rows of one of several matrices of so many rows."""
    return rows.at(slice(number * each, (number + 1) * each))


def along(rows: Rows, runs: list[range]) -> Rows:
    """Some runs of products, one after the other; of operands in blocks whole blocks.

    Raises ValueError: a run that begins or ends within a block.
    """
    codes = [rows.codes[:, run.start : run.stop] for run in runs]
    whole = np.concatenate([rows.codes[:, :0], *codes], axis=1)
    if rows.scales is None:
        return rows._replace(codes=whole)
    length, size = rows.codes.shape[1], rows.block
    for run in runs:
        if run.start % size or (run.stop % size and run.stop != length):
            raise ValueError(
                f"a split of K takes products {run.start} to {run.stop}, which are no whole blocks of "
                f"{size}: give it tiles of whole blocks"
            )
    blocks = [rows.scales[:, run.start // size : -(-run.stop // size)] for run in runs]
    scales = np.concatenate([rows.scales[:, :0], *blocks], axis=1)
    return rows._replace(codes=whole, scales=scales)


def _cut(rows: Rows, size: int) -> Rows:
    """In smaller blocks; what is in none has scales of 1."""
    count = -(-rows.codes.shape[1] // size)
    if rows.scales is None:
        ones = np.full((len(rows.codes), count), catalog.E8M0FNU.bias, np.uint8)
        return rows._replace(scales=ones, scale_fmt=catalog.E8M0FNU, block=size)
    return rows._replace(scales=rows.scales[:, np.arange(count) * size // rows.block], block=size)


class Side(NamedTuple):
    """A side of the products, with K as its last axis; the side of y as given, before `transposed`."""

    codes: Array
    fmt: Format
    scales: Scales | None
    given: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the elements."""
        return self.codes.shape

    def expanded(self, axis: int) -> Side:
        """Return the side with one more axis of length 1."""
        return self._changed(lambda array: np.expand_dims(array, axis))

    def single(self, axes: int) -> Side | None:
        """Return the side with its last axes alone if it is one row, or one matrix; else None."""
        if len(self.shape) == axes:
            return self
        alone = math.prod(self.shape[:-axes]) == 1
        return self._changed(lambda array: array.reshape(array.shape[-axes:])) if alone else None

    def transposed(self) -> Side:
        """Return the side with the last two axes exchanged."""
        return self._changed(lambda array: array.swapaxes(-1, -2))

    def _changed(self, change: Callable[[Array], Array]) -> Side:
        scales = None if self.scales is None else self.scales._replace(codes=change(self.scales.codes))
        return self._replace(codes=change(self.codes), scales=scales)

    def rows(self, shape: tuple[int, ...], turned: bool = False) -> Rows:
        """Return the codes in this shape, as rows; if `turned`, these may be columns in memory."""
        codes = _turned(self.codes, shape) if turned else None
        codes = _flat(self.codes, shape) if codes is None else codes
        if self.scales is None:
            return Rows(codes, self.fmt)
        scales = _flat(self.scales.codes, (*shape[:-1], self.scales.codes.shape[-1]))
        return Rows(codes, self.fmt, scales, self.scales.fmt, self.scales.block, self.scales.tensor)


def _turned(array: Array, shape: tuple[int, ...]) -> Array | None:
    """Return rows that a matrix has one beside the other in memory, or None."""
    flags = array.flags
    usual = flags.f_contiguous and flags.aligned and array.dtype.isnative
    return unlocked(array) if usual and array.shape == shape and array.ndim == 2 else None


def _flat(array: Array, shape: tuple[int, ...]) -> Array:
    """Return rows of codes, one after the other in memory."""
    flags = array.flags
    if flags.c_contiguous and flags.aligned and array.dtype.isnative and array.shape == shape:
        return unlocked(array).reshape(math.prod(shape[:-1]), shape[-1])
    rows = np.empty((int(np.prod(shape[:-1], dtype=np.int64)), shape[-1]), array.dtype.newbyteorder("="))
    made, array = rows.reshape(shape), np.broadcast_to(array, shape)
    for start in range(0, shape[-1] if rows.size else 0, _STRIP):
        made[..., start : start + _STRIP] = array[..., start : start + _STRIP]
    return rows


def factors(
    name: str, values: Factors, how: Accumulation, side: int, axis: int, backend: Backend | None = None
) -> Side:
    """Return one side of the products, as codes of its own format or of the one requested; K is an axis."""
    if isinstance(values, BlockArray):
        return _in_blocks(name, values, how, side, axis, backend)
    operand = values_operand(values, name)
    wanted = None if how.operands is None else how.operands[side]
    if wanted is not None:
        refuse_codes(name, operand.array, wanted, str(how))
    if takes_scales(how):
        raise ValueError(
            f"{how} takes operands in blocks, but {name} is {operand.array.dtype}: {_way_to(how, side)}"
        )
    if wanted is None and not how.machine and not isinstance(how.accumulator, Window):
        operand = narrowed(operand)
    if wanted is not None and (wanted != operand.fmt or how.operand_rounding is not None):
        operand = _as_format(name, operand, wanted, how.operand_rounding, backend)
    return Side(*_carried(operand.codes, operand.fmt), None, operand.array.shape)


def _carried(codes: Array, fmt: Format) -> tuple[Array, Format]:
    """Codes of a codebook as those of a type that has its values; others as they are."""
    if not isinstance(fmt, Codebook):
        return codes, fmt
    dtype, carrier = float_dtype(fmt)
    values = np.asarray(calls.convert(Operand(codes, fmt, codes, True), carrier, DEFAULT, dtype))
    return values.view(UNSIGNED[dtype.itemsize]), carrier


def _as_format(
    name: str, operand: Operand, fmt: Format, how: Projection | None, backend: Backend | None
) -> Operand:
    """Return the values as codes of a format; those that the format lacks are refused, or projected."""
    flags = None if how is not None else np.zeros(operand.array.shape, np.uint8)
    rule = how or _CODES[fmt.has_nan]
    made = np.asarray(
        calls.convert(operand, fmt, rule, code_dtype(fmt), backend=calls.thorough(backend), flags=flags)
    )
    if flags is not None:
        wrong = flags != 0
        if fmt.has_nan:  # a signaling one is as good as any
            wrong &= ~nans(operand.codes, operand.fmt)
        if operand.fmt.has_negative_zero and not fmt.has_negative_zero:
            wrong |= operand.codes == operand.fmt.sign_code
        if wrong.any():
            place = tuple(int(i) for i in np.unravel_index(int(np.argmax(wrong)), made.shape))
            raise ValueError(
                f"{name} has values that {fmt.name!r} does not have: {int(wrong.sum()):,} of {wrong.size:,}, "
                f"the first at index {place}: {operand.array[place]}. Quantize {name} to {fmt.name!r} first"
                f"{', or decode it if these are codes' if operand.array.dtype.kind in 'iu' else ''}"
            )
    return Operand(made, fmt, made, True)


def _in_blocks(
    name: str, values: BlockArray, how: Accumulation, side: int, axis: int, backend: Backend | None
) -> Side:
    """Operands in blocks: elements, and the scales of their rows."""
    fmt, ndim = values.format, values.codes.ndim
    along = max(ndim + axis, 0)
    if along not in values.axes:
        raise ValueError(
            f"blocks of {name} lie along axis {values.axes[-1]}, but K is axis {along}: encode with "
            f"axis={along}"
        )
    wanted = None if how.operands is None else how.operands[side]
    if wanted is not None and wanted != fmt.element:
        raise ValueError(
            f"{how} takes {name} of {wanted.name!r}, not of {fmt.element.name!r} in blocks of {fmt.name!r}"
        )
    takes = takes_scales(how)
    if not takes and (how.machine or isinstance(how.accumulator, Window)):
        raise ValueError(
            f"{how} takes no operands in blocks, but {name} is in {fmt.name!r}: use an accumulation that "
            f"does, such as 'fp32_fma', or give {name} as values of {fmt.element.name!r}"
        )
    sizes = dict(zip(values.axes, fmt.sizes, strict=True))
    size = sizes.pop(along)
    scales = spread(
        values.scales, values.shape, tuple(sizes), tuple(sizes.values())
    )  # a tile's, of each of its rows
    if takes and how.scale != (fmt.scale, size):
        assert how.scale is not None
        raise ValueError(
            f"{how} takes one scale of {how.scale[0].name!r} for {how.scale[1]} elements, but {name} in "
            f"{fmt.name!r} has one of {fmt.scale.name!r} for {size}: {_way_to(how, side)}"
        )
    scales, kept = _carried(scales, fmt.scale)
    if kept == catalog.BINARY64:
        raise ValueError(
            f"{name} is in blocks of {fmt.name!r}, whose scales {fmt.scale.name!r} has with more than the 24 "
            f"significant bits of binary32: sums of blocks are exact for those alone; give {name} as values, "
            "which decode makes"
        )
    tensor = 1.0 if values.tensor_scale is None else float(values.tensor_scale)
    codes = values.codes
    if wanted is not None and how.operand_rounding is not None:
        codes = _as_format(
            name, Operand(codes, wanted, codes, True), wanted, how.operand_rounding, backend
        ).codes
    return Side(*_carried(codes, fmt.element), Scales(scales, kept, size, tensor), values.shape)


def takes_scales(how: Accumulation) -> bool:
    """Return whether an accumulation multiplies its sums by scales of blocks."""
    return isinstance(how.accumulator, Window) and how.accumulator.scales != "none"


def _way_to(how: Accumulation, side: int) -> str:
    """Return words on how to get operands in the blocks that an accumulation takes."""
    assert how.operands is not None, "a window has operands"
    assert how.scale is not None, "and this one scales"
    parts = (how.operands[side], how.scale[0], (how.scale[1],))
    known = [
        each.name
        for each in catalog.BLOCK_FORMATS.values()
        if (each.element, each.scale, each.sizes) == parts
    ]
    like = f", such as {known[0]!r}" if known else ""
    return (
        f"`encode` it in blocks of {parts[2][0]} of {parts[0].name!r} with scales of {parts[1].name!r}{like}"
    )


def alike(x: Rows, y: Rows, term: int = 0) -> tuple[Rows, Rows]:
    """Cut both sides into blocks of one size, if one has blocks; or of as many products as a term.

    Raises ValueError: a term that lies in several blocks.
    """
    if not x.block and not y.block and not term:
        return x, y
    size = math.gcd(x.block, y.block)
    if term and size % term:
        raise ValueError(
            f"terms of {term} products do not fill blocks of {size}, which share scales: use blocks of a "
            f"multiple of {term}"
        )
    size = term or size
    return _cut(x, size), _cut(y, size)
