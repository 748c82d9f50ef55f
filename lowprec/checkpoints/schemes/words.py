"""Integers of 2 to 8 bits in words of 32: codes, zero points, and groups of columns that share a scale.

A value is (code - zero point) * scale. Codes of a run of words have no gaps, the first in the lowest bits; a
code of 3 bits may begin in one word and end in the next.

Sources: vllm-project/compressed-tensors (pack_quantized), AutoGPTQ/AutoGPTQ and ModelCloud/GPTQModel
(qlinear), casper-hansen/AutoAWQ (modules/linear/gemm.py).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lowprec.checkpoints.container import CheckpointError, Entry
from lowprec.checkpoints.schemes.packings import Packing
from lowprec.checkpoints.schemes.sharing import needed
from lowprec.spec.format import Format

if TYPE_CHECKING:
    from lowprec.checkpoints.weights import Weight

__all__ = ["ColumnWords", "RowWords", "Words", "unpacked"]

Array = npt.NDArray[Any]

#: Bits that codes may have.
_WIDTHS = range(2, 9)


@dataclass(frozen=True, kw_only=True)
class Words(Packing):
    """Layout of codes in words, of zero points, and of the groups that columns of the weight belong to.

    Parameters
    ----------
    groups : str
        Ending of the tensor that has the group of each column.
    """

    groups: str = ""

    def resolved(self, weight: Weight, said: Mapping[str, Any]) -> Weight:
        """Return a weight with its element, shape and what shares a scale, or with its problem.

        Parameters
        ----------
        weight : Weight
            With scales of a type that the scheme has.
        said : mapping
            What the configuration says: `bits` and `group_size`.
        """
        scales = needed(weight.scales).shape
        try:
            shape, bits = self._size(weight, said)
            of = dataclasses.replace(weight, shape=shape)
            count = scales[self._axis] if scales else 1
            group, of = _grouped(of, self.groups, shape[self._axis], count, said)
        except CheckpointError as error:
            return dataclasses.replace(weight, problem=("parts", str(error)))
        name = f"{'' if self._is_signed else 'u'}int{bits}"
        scheme = dataclasses.replace(weight.scheme, element=name)
        return dataclasses.replace(of, scheme=scheme, sizes=self._sizes(shape, group, of))

    def fits(self, codes: Entry, scales: Entry | None) -> bool:
        """Return whether shapes may be of this layout; more than one layout has these names of parts."""
        return True

    def zeros(self, weight: Weight) -> Array:
        """Return the zero points as whole numbers, in the shape of the scales."""
        raise NotImplementedError

    _is_signed = False
    _axis = 0  #: the axis of the codes that has the columns of the weight, which are in groups

    def _size(self, weight: Weight, said: Mapping[str, Any]) -> tuple[tuple[int, ...], int]:
        """Return the shape of the codes, and the bits of one."""
        raise NotImplementedError

    def _sizes(self, shape: tuple[int, ...], group: int, weight: Weight) -> tuple[int, ...]:
        """Return what shares a scale, along each axis of the codes."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class RowWords(Words):
    """Layout of compressed-tensors: words along rows, zero points down columns, plus half their range."""

    _is_signed = True
    _axis = -1

    def _size(self, weight: Weight, said: Mapping[str, Any]) -> tuple[tuple[int, ...], int]:
        codes, scales = weight.codes, needed(weight.scales)
        beside = weight.extra(".weight_shape")
        if beside is None:
            raise CheckpointError(f"{codes.name} has no weight_shape beside it")
        if beside.tag not in ("I64", "I32") or len(codes.shape) < 2 or beside.shape != (len(codes.shape),):
            raise CheckpointError(
                f"{beside.name} is {beside.tag} of shape {list(beside.shape)}, and {codes.name} has shape "
                f"{list(codes.shape)}, whose rows and columns it must say as integers"
            )
        shape = tuple(map(int, beside.read()))
        has = f"{codes.name} has shape {list(codes.shape)}"
        if codes.shape[:-1] != shape[:-1] or min(shape) < 0:
            raise CheckpointError(f"{beside.name} says {list(shape)}, and {has}")
        fitting = [bits for bits in _WIDTHS if -(-shape[-1] * bits // 32) == codes.shape[-1]]
        named = said.get("bits")
        bits = _chosen(fitting, named, f"{has} for {list(shape)}")
        if bits is None or named not in (None, bits):
            of = "" if named is None else f" of {named} bits"
            raise CheckpointError(f"{beside.name} says {list(shape)}, and {has}, which are no words{of}")
        one = all(length == 1 for length in scales.shape)
        if not one and (len(scales.shape) != len(shape) or scales.shape[:-1] != shape[:-1]):
            raise CheckpointError(
                f"scales {scales.name} have shape {list(scales.shape)}, and rows {list(shape)}"
            )
        zeros = weight.zeros
        packed = (*scales.shape[:-2], -(-math.prod(scales.shape[-2:-1]) * bits // 32), *scales.shape[-1:])
        if zeros is not None and (zeros.tag, zeros.shape) not in (("I32", packed), ("I8", scales.shape)):
            raise CheckpointError(
                f"zero points {zeros.name} are {zeros.tag} of shape {list(zeros.shape)}, and must be I32 of "
                f"shape {list(packed)}"
            )
        return shape, bits

    def _sizes(self, shape: tuple[int, ...], group: int, weight: Weight) -> tuple[int, ...]:
        if all(length == 1 for length in needed(weight.scales).shape) and weight.groups is None:
            return tuple(max(length, 1) for length in shape)
        return (*[1] * (len(shape) - 1), 1 if weight.groups is not None else group)

    def codes(self, weight: Weight, start: int, stop: int | None) -> Array:
        """Return the codes of rows start to stop, in two's complement."""
        bits = weight.format.width
        found = unpacked(weight.codes.read(start, stop), bits, weight.shape[-1])
        return found ^ np.uint8(1 << (bits - 1))

    def stored(self, shape: tuple[int, ...], element: Format) -> tuple[int, ...]:
        """Return the shape of the words of codes of this shape."""
        return (*shape[:-1], -(-shape[-1] * element.width // 32))

    def packed(self, codes: Array, element: Format) -> Array:
        """Return the words of codes in two's complement, as `codes` reads them.

        >>> from lowprec.spec import catalog
        >>> RowWords().packed(np.array([[0, 1, 15]], np.uint8), catalog.format("int4"))
        array([[1944]], dtype=int32)
        """
        bits = element.width
        plus = (codes ^ np.uint8(1 << (bits - 1)))[..., None]
        table = np.unpackbits(plus, axis=-1, count=bits, bitorder="little").reshape(*codes.shape[:-1], -1)
        padding = [*[(0, 0)] * (codes.ndim - 1), (0, -table.shape[-1] % 32)]
        return np.packbits(np.pad(table, padding), axis=-1, bitorder="little").view("<i4")

    def zeros(self, weight: Weight) -> Array:
        """Return the zero points as whole numbers, in the shape of the scales."""
        zeros, rows = needed(weight.zeros), needed(weight.scales).shape[-2:-1]
        if zeros.tag == "I8":
            return zeros.read().astype(np.int32)
        bits = weight.format.width
        found = unpacked(zeros.read().swapaxes(-1, -2), bits, *rows).swapaxes(-1, -2)
        return found.astype(np.int32) - (1 << (bits - 1))


@dataclass(frozen=True, kw_only=True)
class ColumnWords(Words):
    """Layout of GPTQ and AWQ: of the transposed weight, with one row for each input of the layer.

    Parameters
    ----------
    down : bool
        Whether words lie down the columns of the table, of several inputs; else along its rows.
    places : tuple of int
        Which of eight columns each code of a word belongs to, of codes and zero points; empty in order.
    plus : int
        Added to zero points.
    """

    down: bool = False
    places: tuple[int, ...] = ()
    plus: int = 0

    def fits(self, codes: Entry, scales: Entry | None) -> bool:
        """Return whether words lie along the axis that shapes tell of."""
        whole = scales is not None and len(scales.shape) == len(codes.shape) == 2
        return self.down or (whole and scales is not None and 8 * codes.shape[1] == scales.shape[1])

    def _size(self, weight: Weight, said: Mapping[str, Any]) -> tuple[tuple[int, ...], int]:
        codes, scales, zeros = weight.codes, needed(weight.scales), needed(weight.zeros)
        shapes = ", ".join(f"{part.name} {list(part.shape)}" for part in (codes, scales, zeros))
        if not len(codes.shape) == len(scales.shape) == len(zeros.shape) == 2 or zeros.tag != "I32":
            raise CheckpointError(f"parts do not fit each other: {shapes}, zero points of {zeros.tag}")
        if not self.down:
            if zeros.shape != (scales.shape[0], codes.shape[1]) or 8 * codes.shape[1] != scales.shape[1]:
                raise CheckpointError(f"parts do not fit each other: {shapes}")
            return (codes.shape[0], 8 * codes.shape[1]), 4
        groups = weight.extra(self.groups)
        fitting = [
            bits
            for bits in _WIDTHS
            if zeros.shape == (scales.shape[0], -(-scales.shape[1] * bits // 32))
            and 32 * codes.shape[0] % bits == 0
            and (groups is None or groups.shape == (32 * codes.shape[0] // bits,))
        ]
        bits = _chosen(fitting, said.get("bits"), shapes)
        if bits is None or codes.shape[1] != scales.shape[1]:
            raise CheckpointError(f"parts do not fit each other: {shapes}")
        return (32 * codes.shape[0] // bits, codes.shape[1]), bits

    def _sizes(self, shape: tuple[int, ...], group: int, weight: Weight) -> tuple[int, ...]:
        return (1 if weight.groups is not None else group), 1

    def codes(self, weight: Weight, start: int, stop: int | None) -> Array:
        """Return the codes of rows start to stop of the transposed weight."""
        bits, (rows, columns) = weight.format.width, weight.shape
        if self.down:
            whole = unpacked(np.ascontiguousarray(weight.codes.read().T), bits, rows)
            return whole.T[start:stop]
        return self._in_order(unpacked(weight.codes.read(start, stop), bits, columns))

    def zeros(self, weight: Weight) -> Array:
        """Return the zero points as whole numbers, in the shape of the scales."""
        found = unpacked(needed(weight.zeros).read(), weight.format.width, weight.shape[1])
        return self._in_order(found).astype(np.int32) + self.plus

    def _in_order(self, codes: Array) -> Array:
        if not self.places:
            return codes
        eights = codes.reshape(*codes.shape[:-1], -1, 8)
        return eights[..., np.argsort(self.places)].reshape(codes.shape)


def unpacked(words: Array, bits: int, count: int) -> npt.NDArray[np.uint8]:
    """Return the codes of so many bits that words hold along the last axis, without gaps.

    >>> unpacked(np.array([[0x76543210]], np.int32), 4, 7)
    array([[0, 1, 2, 3, 4, 5, 6]], dtype=uint8)
    >>> unpacked(np.array([0b11010001 | 3 << 30, 0]), 3, 11)[[0, 1, 2, 10]]
    array([1, 2, 3, 3], dtype=uint8)

    Parameters
    ----------
    words : array of int32, shape (..., words)
    bits : int
        From 2 to 8.
    count : int
        How many codes there are; bits behind them are left out.
    """
    data = np.ascontiguousarray(words.astype("<i4", copy=False)).view(np.uint8)
    *rows, length = data.shape
    runs = -(-length // bits)  # of eight codes, in as many bytes as one has bits
    padded = np.zeros((*rows, runs, 8), np.uint8)
    data = np.pad(data, [*[(0, 0)] * len(rows), (0, runs * bits - length)])
    padded[..., :bits] = data.reshape(*rows, runs, bits)
    eights = padded.view("<u8")[..., 0]
    found = np.empty((*rows, runs, 8), np.uint8)
    for place in range(8):
        found[..., place] = eights >> np.uint64(bits * place) & np.uint64((1 << bits) - 1)
    return found.reshape(*rows, 8 * runs)[..., :count]


def _chosen(fitting: list[int], said: object, shapes: str) -> int | None:
    """Return the bits that shapes tell of, or the configuration where they leave a choice; refuse a guess."""
    if said is None and len(fitting) > 1:
        raise CheckpointError(
            f"{shapes} may be codes of {' or '.join(map(str, fitting))} bits, and no configuration says "
            "which: put the file into a folder with its config.json"
        )
    if type(said) is int and said in fitting:
        return said
    return fitting[0] if len(fitting) == 1 else None


def _grouped(
    weight: Weight, end: str, columns: int, count: int, said: Mapping[str, Any]
) -> tuple[int, Weight]:
    """Return how many columns are a group, and the weight with the groups of columns if they are no runs."""
    beside = weight.extra(end) if end else None
    size = said.get("group_size")
    if type(size) is not int or size < 1 or -(-columns // size) != count:
        size = -(-columns // max(count, 1))
        if columns % max(count, 1) and beside is None:
            raise CheckpointError(
                f"{weight.codes.name} has {columns} columns in {count} groups, whose size the configuration "
                f"must say (group_size)"
            )
    size = max(size, 1)
    are_runs = -(-columns // size) == count
    if beside is None and said.get("desc_act") is True and end:
        raise CheckpointError(f"{weight.codes.name} has no {end.lstrip('.')} beside it, and desc_act is said")
    if beside is None and are_runs:
        return size, weight
    if beside is None:
        raise CheckpointError(f"{weight.codes.name} has {columns} columns in {count} groups")
    if beside.tag not in ("I32", "I64") or beside.shape != (columns,):
        raise CheckpointError(
            f"{beside.name} is {beside.tag} of shape {list(beside.shape)}, and must have the groups of "
            f"{columns} columns"
        )
    groups = beside.read()
    if are_runs and weight.scheme.family == "compressed-tensors" and -1 in groups:  # no order was used
        return size, weight
    if columns and not (groups.min() >= 0 and groups.max() < count):
        raise CheckpointError(
            f"{beside.name} has groups from {groups.min()} to {groups.max()}, and there are {count}"
        )
    if are_runs and np.array_equal(groups, np.arange(columns) // size):
        return size, weight
    return size, dataclasses.replace(weight, groups=beside)
