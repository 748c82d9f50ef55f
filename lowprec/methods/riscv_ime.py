"""Dot products of blocks as RISC-V's integrated matrix extension scales them.

Each block's scales are converted to C's format by `frm`, and multiplied in it; a group's partial sum is
rounded to C's format, multiplied by the product of the scales, and added to C. Where all of it stays in the
range of C's format, `lowprec.dot` of the same blocks gives the same codes.

Floor 3b. Imports NumPy and the verbs.
Source: [RISCVIME], microscaling support.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays.arith import add, multiply
from lowprec.arrays.blocks.block_array import BlockArray
from lowprec.arrays.convert import cast, decode, encode
from lowprec.arrays.dots.dot import dot
from lowprec.arrays.doubles import doubles
from lowprec.spec.accumulation import Accumulation, Window
from lowprec.spec.block import BlockFormat
from lowprec.spec.format import Format
from lowprec.spec.order import EXACT, SEQUENTIAL
from lowprec.spec.riscv_ime import disclosed

__all__ = ["scaled_dot"]

Array = npt.NDArray[Any]


def scaled_dot(x: BlockArray, y: BlockArray, how: Accumulation, addend: npt.ArrayLike) -> Array:
    """Return the codes of C after an instruction that multiplies blocks, each row of x by that row of y.

    >>> import lowprec as lp
    >>> from lowprec.spec.riscv_ime import riscv_ime
    >>> blocks = lp.encode(np.ones((1, 32), np.float32), "mxfp8_e4m3")
    >>> how = riscv_ime((blocks.format.element,) * 2, lp.format("binary32"), 8, "frm")
    >>> [hex(code) for code in scaled_dot(blocks, blocks, how, np.zeros(1, np.float32))]
    ['0x42000000']

    Parameters
    ----------
    x, y : BlockArray
        Shape (rows, K), in blocks of one size along K, without a tensor scale.
    how : Accumulation
        Such as `riscv_ime` makes. Groups end where blocks do.
    addend : array of numbers
        C, shape (rows,).

    Raises ValueError: an accumulation that is no sum of the extension, other shapes or elements, blocks of
    two sizes or with a tensor scale, or a disclosed reduction (psm 1) of groups that blocks cut.
    """
    terms, (fmt, rule) = disclosed(how), how.output
    if terms is None:
        raise ValueError(f"{how} is no sum of RISC-V's matrix extension; use one that `riscv_ime` makes")
    if x.shape != y.shape or len(x.shape) != 2 or x.axes != (1,) or y.axes != (1,):
        raise ValueError(
            f"x and y must be of one shape (rows, K), in blocks along K, not {x.shape}, {y.shape}"
        )
    assert how.operands is not None, "groups have operands"
    for name, side, wanted in zip("xy", (x, y), how.operands, strict=True):
        if side.format.element != wanted:
            raise ValueError(
                f"{how} takes {name} of {wanted.name!r}, not of {side.format.element.name!r} in blocks of "
                f"{side.format.name!r}; `encode` it in blocks of {wanted.name!r}"
            )
        if side.tensor_scale is not None:
            raise ValueError(
                f"{name} has the tensor scale {side.tensor_scale}, and an instruction multiplies by none; "
                f"give blocks of a format without one"
            )
    if x.format.sizes != y.format.sizes:
        raise ValueError(
            f"x and y must be in blocks of one size, not of {x.format.sizes[0]} and {y.format.sizes[0]}: an "
            f"instruction has one; encode them so"
        )
    (size,), length = x.format.sizes, x.shape[1]
    if terms.psm and (size % terms.products or length % terms.products):
        raise ValueError(
            f"groups of {terms.products} products are cut by blocks of {size} of K = {length}, and the "
            f"reduction is disclosed for whole groups; give products that divide both"
        )
    ours, theirs = (
        _values(np.asarray(cast(side.scales, side.format.scale, fmt, projection=rule)), fmt)
        for side in (x, y)
    )
    scales = np.asarray(multiply(ours, theirs, fmt, projection=rule, dtype=np.float64))
    a, b = (_values(side.codes, side.format.element) for side in (x, y))
    made = doubles(addend, "addend")
    if made.shape != x.shape[:1]:
        raise ValueError(f"addend has shape {made.shape}, and the rows of x and y are {x.shape[0]}")
    for block in range(scales.shape[1]):
        scale, end = scales[:, block], min((block + 1) * size, length)
        for start in range(block * size, end, terms.products):
            group = slice(start, min(start + terms.products, end))
            if terms.rnd == "xct":
                made = _exactly(made, scale, (a[:, group], b[:, group]), how)
                continue
            partial = np.asarray(dot(a[:, group], b[:, group], _partial(how), dtype=np.float64))
            times = np.asarray(multiply(scale, partial, fmt, projection=rule, dtype=np.float64))
            made = np.asarray(add(made, times, fmt, projection=rule, dtype=np.float64))
    return np.asarray(encode(made, fmt, projection=rule))


def _values(codes: Array, fmt: Format) -> Array:
    return np.asarray(decode(codes, fmt, dtype=np.float64))


def _partial(how: Accumulation) -> Accumulation:
    """Return the sum of a group, rounded to C's format."""
    if isinstance(how.accumulator, Window):
        return replace(how, order=SEQUENTIAL, total=None, output=how.accumulator.result)
    assert how.product is not None, "not rounded only if rnd is xct"
    return Accumulation(operands=how.operands, order=EXACT, output=how.product)


def _exactly(made: Array, scale: Array, sides: tuple[Array, Array], how: Accumulation) -> Array:
    """Return C plus a group's exact sum times its scale, rounded once."""
    assert how.operands is not None, "groups have operands"
    (fmt, rule), size, ones = how.output, sides[0].shape[1], np.ones_like(scale)
    ours, theirs = (
        BlockArray(
            np.asarray(encode(side, element)),
            np.asarray(encode(each[:, None], fmt, projection=rule)),
            BlockFormat(name="group", element=element, scale=fmt, size=size),
            (1,),
        )
        for side, element, each in zip(sides, how.operands, (scale, ones), strict=True)
    )
    return np.asarray(dot(ours, theirs, replace(how, term=size), addend=made, dtype=np.float64))
