"""The oracle on arrays of codes, one number after the other.

Codes come in arrays of any integer type and any shape; results are codes of the operands' shape, in int64, or
in uint64 where the target has 64 bits. `flags=`
is, as for the verbs, an array of uint8 of that shape, which is written; `random=` has an integer for each
rounding of a stochastic mode. Nothing here computes: it only calls `lowprec.oracle`.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lowprec.oracle import arith, block, convert
from lowprec.oracle.dot import dot as dot_of
from lowprec.oracle.exact import Exact, Special, from_float, to_float
from lowprec.oracle.flags import flags as signals_of, is_signaling
from lowprec.spec.accumulation import Accumulation
from lowprec.spec.block import BlockFormat
from lowprec.spec.catalog import BINARY64
from lowprec.spec.format import Format
from lowprec.spec.projection import DEFAULT, Projection

__all__ = ["BlockCodes", "cast", "decode", "decode_blocks", "dot", "encode", "encode_blocks", "operate"]

Array = npt.NDArray[Any]
Codes = npt.NDArray[Any]


class BlockCodes(NamedTuple):
    """Blocks in codes: a scale for each, elements in rows, and the tensor's scale, 1 if there is none."""

    scales: Array
    codes: Array
    tensor: Fraction = Fraction(1)


def decode(codes: Array, fmt: Format) -> npt.NDArray[np.float64]:
    """Return the values of codes.

    >>> from lowprec.spec.catalog import E4M3FN
    >>> decode(np.array([0x38, 0x80]), E4M3FN)
    array([ 1., -0.])
    """
    made = [to_float(convert.decode(code, fmt)) for code in codes.reshape(-1).tolist()]
    return np.array(made, np.float64).reshape(codes.shape)


def encode(
    values: Array,
    fmt: Format,
    projection: Projection = DEFAULT,
    *,
    random: Array | None = None,
    flags: Array | None = None,
) -> Codes:
    """Return the codes of floats, which are taken as float64."""
    return cast(
        values.astype(np.float64).view(np.uint64), BINARY64, fmt, projection, random=random, flags=flags
    )


def cast(
    codes: Array,
    source: Format,
    target: Format,
    projection: Projection = DEFAULT,
    *,
    random: Array | None = None,
    flags: Array | None = None,
) -> Codes:
    """Return the codes in `target` of what codes of `source` stand for.

    >>> from lowprec.spec.catalog import E4M3FN, E5M2
    >>> signals = np.zeros(2, np.uint8)
    >>> cast(np.array([0x7E, 0x39]), E4M3FN, E5M2, flags=signals), signals
    (array([95, 60]), array([0, 1], dtype=uint8))
    """
    given, words = codes.reshape(-1).tolist(), _words(random, codes.size)
    made = [
        convert.cast(code, source, target, projection, random=word)
        for code, word in zip(given, words, strict=True)
    ]
    if flags is not None:
        signals = [
            signals_of(
                convert.decode(code, source),
                target,
                projection,
                random=word,
                subnormal_operand=convert.is_subnormal(code, source),
                signaling=is_signaling(code, source),
            )
            for code, word in zip(given, words, strict=True)
        ]
        flags[...] = np.array(signals, np.uint8).reshape(codes.shape)
    return _codes(made, target).reshape(codes.shape)


def operate(
    name: str,
    operands: Sequence[Array],
    formats: Sequence[Format],
    target: Format,
    projection: Projection = DEFAULT,
    *,
    random: Array | None = None,
    flags: Array | None = None,
) -> Codes:
    """Return results of an operation of `lowprec.spec.arith.OPERANDS` on codes, an array for each operand.

    >>> from lowprec.spec.catalog import E4M3FN
    >>> operate("add", [np.array([0x38]), np.array([0x3A])], [E4M3FN, E4M3FN], E4M3FN)
    array([65])
    """
    rows = zip(*(column.reshape(-1).tolist() for column in operands), strict=True)
    made = [
        arith.operate(name, row, formats[: len(operands)], target, projection, random=word)
        for row, word in zip(rows, _words(random, operands[0].size), strict=True)
    ]
    if flags is not None:
        flags[...] = np.array([int(signals) for _, signals in made], np.uint8).reshape(flags.shape)
    return _codes([code for code, _ in made], target).reshape(operands[0].shape)


def encode_blocks(rows: Array, fmt: BlockFormat, tensor: block.TensorScale | None = None) -> BlockCodes:
    """Return the codes of blocks, each a row of floats; unless given, the tensor's scale is computed."""
    exact = _exact_rows(rows)
    shared = block.tensor_scale([value for row in exact for value in row], fmt) if tensor is None else tensor
    made = [block.encode(row, fmt, shared) for row in exact]
    return BlockCodes(
        np.array([scale for scale, _ in made]), np.array([codes for _, codes in made]), shared.value
    )


def decode_blocks(blocks: BlockCodes, fmt: BlockFormat) -> npt.NDArray[np.float64]:
    """Return the values of blocks in rows, each the float64 next to it."""
    pairs = zip(blocks.scales.tolist(), blocks.codes.tolist(), strict=True)
    made = [block.decode(scale, row, fmt, blocks.tensor) for scale, row in pairs]
    return np.array([[_nearest(value) for value in row] for row in made])


def dot(x: Array, y: Array, accumulation: Accumulation, addend: Array | None = None) -> Codes:
    """Return the codes, in the accumulation's output, of the dot products of rows of floats."""
    added: Sequence[Exact | None] = (
        [None] * len(x) if addend is None else [from_float(v) for v in addend.tolist()]
    )
    made = [
        dot_of(left, right, accumulation, first)
        for left, right, first in zip(_exact_rows(x), _exact_rows(y), added, strict=True)
    ]
    return np.array(made, np.int64)


def _exact_rows(rows: Array) -> list[list[Exact]]:
    return [[from_float(value) for value in row] for row in rows.tolist()]


def _nearest(value: Exact) -> float:
    """Return the float64 next to a value, of its sign; no infinity but of an infinity."""
    if isinstance(value, Special):
        return to_float(value)
    try:
        return float(value) or (-0.0 if value < 0 else 0.0)
    except OverflowError:
        return -np.finfo(float).max if value < 0 else np.finfo(float).max


def _codes(made: list[int], fmt: Format) -> Codes:
    return np.array(made, np.int64 if fmt.width < 64 else np.uint64)


def _words(random: Array | None, size: int) -> Sequence[int | None]:
    return [None] * size if random is None else random.reshape(-1).tolist()
