"""Lines of operands and results of units: dot products and blocks, as `lowprec vectors` writes them.

The words of a line are the columns of the vectors, from the left: lanes apart by blanks, or a column as one
number (`--packed`). A line that lacks its result, or is of another width than the first, is refused by its
number.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays.checks import code_dtype
from lowprec.spec.accumulation import Accumulation
from lowprec.spec.block import BlockFormat
from lowprec.spec.format import Format, Sign
from lowprec.verify.compare import compare
from lowprec.verify.comparison import Comparison
from lowprec.verify.drawn_dots import random_bits_of, roundings
from lowprec.verify.dumps import DumpError
from lowprec.verify.inputs.block_cases import source_values
from lowprec.verify.inputs.dot_shape import shape_of, values_of
from lowprec.verify.shown import quoted

__all__ = ["compare_block_lines", "compare_dot_lines"]

Array = npt.NDArray[Any]

_HEXADECIMAL = re.compile(r"(0[xX])?[0-9a-fA-F]+")


def compare_dot_lines(
    lines: Iterable[str],
    how: Accumulation,
    formats: tuple[Format, Format] | None = None,
    **options: Any,
) -> Comparison:
    """Hold lines of x, y, addend and result against what an accumulation gives.

    The random integers of one that rounds stochastically stand before the result.

    >>> from lowprec.spec.accumulations import ACCUMULATIONS
    >>> unit = ACCUMULATIONS["volta_mma_binary16_binary32"]
    >>> compare_dot_lines(["3c00 0000 3c00 0000 3f800000 40000000"], unit).compared
    1

    Parameters
    ----------
    lines : iterable of str
    how : Accumulation
    formats : (Format, Format), optional
        Of the operands, where the accumulation takes any.
    options
        `any_nan`, `limit`, `why` and `watch` of `lowprec.compare`.

    Raises
    ------
    DumpError
        A line of another width than the first, without a result, or with a word that is no code.
    ValueError
        Formats that the accumulation does not take; operands in blocks.
    """
    if how.scale is not None:
        raise ValueError(f"{how} takes operands in blocks, whose scales lines of results are not read with")
    shape = shape_of(how, formats)
    out = how.output[0]
    rows = _rows(lines)
    if not rows:
        raise DumpError("there are no lines to compare")
    first, (x, y), bits = rows[0][1], shape.formats, random_bits_of(how)
    fits = [lanes for lanes in range(1, len(first) // 2) if 2 * lanes + 2 + _drawn(how, lanes) == len(first)]
    if bits and len(first) == 5:
        fits = [1]  # each column is one number
    if not fits:
        beside = "the addend, the random integers" if bits else "the addend"
        _refuse(rows[0], f"{len(first)} words, not x and y of as many lanes, {beside} and the result")
    lanes, together = fits[0], 1
    if lanes == 1 and len(first[0].removeprefix("0x")) > -(-x.width // 4):  # a column is one number
        together = len(first[0].removeprefix("0x")) * 4 // x.width
    words = _drawn(how, lanes * together)
    random_at = [(_word(bits), words)] if together > 1 and words else [(_word(bits), 1)] * words
    layout = [(x, together)] * lanes + [(y, together)] * lanes + [(shape.addend, 1), *random_at, (out, 1)]
    codes = _columns(rows, layout)
    lanes *= together
    if words:
        options["random"] = codes[:, -1 - words : -1]
    sides = [codes[:, :lanes].astype(code_dtype(x)), codes[:, lanes : 2 * lanes].astype(code_dtype(y))]
    report = compare(
        (sides[0], sides[1]), codes[:, -1].astype(code_dtype(out)), operation="dot", source=shape.formats,
        accumulation=how, addend=values_of(codes[:, 2 * lanes], shape.addend), **options,
    )  # fmt: skip
    return _numbered(report, rows, 1)


def compare_block_lines(lines: Iterable[str], source: Format, fmt: BlockFormat, **options: Any) -> Comparison:
    """Hold lines of values, scale and elements against the blocks that the values become.

    >>> from lowprec.spec.catalog import BFLOAT16, MXFP4
    >>> line = " ".join(["3f80"] * 32 + ["7d"] + ["6"] * 32)
    >>> compare_block_lines([line], BFLOAT16, MXFP4).mismatches
    0

    Parameters
    ----------
    lines : iterable of str
    source : Format
        Of the values.
    fmt : BlockFormat
        One-dimensional, and without a scale of the tensor.
    options
        As for `compare_dot_lines`.

    Raises
    ------
    DumpError, ValueError
        As `compare_dot_lines`; a block format of two dimensions, or with a scale of the tensor.
    """
    size = math.prod(fmt.sizes)
    if fmt.tensor_scale != "none" or len(fmt.sizes) > 1:
        raise ValueError(
            f"lines of {fmt.name!r} are not read: it has a scale of the tensor, or blocks of two dimensions; "
            f"compare files with --scales"
        )
    rows = _rows(lines)
    if not rows:
        raise DumpError("there are no lines to compare")
    packed = len(rows[0][1]) == 3 and size > 1
    one, many = [(source, 1)] * size, [(fmt.element, 1)] * size
    layout = (
        [(source, size), (fmt.scale, 1), (fmt.element, size)] if packed else [*one, (fmt.scale, 1), *many]
    )
    codes = _columns(rows, layout)
    values = source_values(codes[:, :size].astype(code_dtype(source)), source)
    report = compare(
        values, codes[:, size + 1 :].astype(code_dtype(fmt.element)), fmt,
        scales=codes[:, size : size + 1].astype(code_dtype(fmt.scale)), **options,
    )  # fmt: skip
    return _numbered(report, rows, size)


def _drawn(how: Accumulation, lanes: int) -> int:
    """Return how many random integers a dot product of so many lanes takes."""
    return len(roundings(how, lanes)) if how.rounds_randomly else 0


def _word(bits: int) -> Format:
    """Return a format of which every code of so many bits is one."""
    return Format(
        name=f"random integer of {bits} bits",
        exponent_bits=0,
        trailing_bits=max(bits, 2),
        bias=0,
        sign=Sign.UNSIGNED,
    )


Row = tuple[int, list[str], str]


def _rows(lines: Iterable[str]) -> list[Row]:
    """Return the number, the words and the text of each line that is no comment."""
    held = ((number, line.split(), line.strip()) for number, line in enumerate(lines, 1))
    return [row for row in held if row[1] and not row[1][0].startswith(("#", "//"))]


def _refuse(row: Row, why: str) -> None:
    raise DumpError(f"line {row[0]} has {why}: {quoted(row[2])}")


def _columns(rows: list[Row], layout: list[tuple[Format, int]]) -> Array:
    """Return the codes of each line, lanes unpacked, as many as the layout says."""
    wide = sum(count for _, count in layout)
    codes = np.zeros((len(rows), wide), np.uint64)
    for at, row in enumerate(rows):
        number, words, _ = row
        if len(words) != len(layout):
            without = len(words) < len(layout)
            why = "; it ends before its result" if without else ""
            _refuse(row, f"{len(words)} words, not {len(layout)}{why}")
        place = 0
        for word, (fmt, count) in zip(words, layout, strict=True):
            if not _HEXADECIMAL.fullmatch(word):
                raise DumpError(f"line {number} holds {quoted(word)}, which is no hexadecimal number")
            code = int(word, 16)
            if code >> fmt.width * count:
                what = (
                    f"{fmt.width}-bit code of {fmt.name!r}"
                    if count == 1
                    else f"{count} codes of {fmt.name!r}"
                )
                raise DumpError(f"line {number} holds {quoted(word)}, which is no {what}")
            for lane in range(count):
                codes[at, place + lane] = code >> fmt.width * lane & (1 << fmt.width) - 1
            place += count
    return codes


def _numbered(report: Comparison, rows: list[Row], lanes: int) -> Comparison:
    """Return the report with the numbers of lines."""
    for detail in report.details:
        if "index" in detail.data:
            detail.data["line"] = rows[detail.data["index"] // lanes][0]
    return report
