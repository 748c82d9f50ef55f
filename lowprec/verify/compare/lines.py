"""Lines of operands and result that a program printed, as columns to compare.

Every result is computed from the operands of its own line, so a program that only echoes its input cannot
pass. The words of a line are the columns of the vectors of `lowprec vectors`, from the left: lanes apart by
blanks, or, of units, a column as one number (`--packed`). A line of a unit that lacks its result, or is of
another width than the first, is refused by its number.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays.blocks.block import BlockArray
from lowprec.arrays.checks import code_dtype
from lowprec.spec.accumulation import Accumulation
from lowprec.spec.block import BlockFormat
from lowprec.spec.catalog import BINARY32
from lowprec.spec.format import Format, Sign
from lowprec.spec.layouts import lanes
from lowprec.spec.projection import DEFAULT, Projection
from lowprec.verify.codes.display import quoted
from lowprec.verify.compare.compare import compare, drawn_integers
from lowprec.verify.compare.judging import Watch, judge, judge_flags
from lowprec.verify.compare.report import Comparison
from lowprec.verify.dumps.files import DumpError, Held, Spool
from lowprec.verify.inputs.block_cases import source_values
from lowprec.verify.inputs.dot_shape import Shape, shape_of, values_of
from lowprec.verify.inputs.operands import random_width
from lowprec.verify.questions.blocks.decoded import DecodedQuestion
from lowprec.verify.questions.blocks.tensor_scales import TensorsQuestion
from lowprec.verify.questions.elements.elements import ElementQuestion
from lowprec.verify.questions.elements.flags import FlagQuestion, SumFlagQuestion
from lowprec.verify.questions.question import budget
from lowprec.verify.reference.dots import check_flags, random_bits_of, roundings
from lowprec.verify.reference.operations import OPERATIONS, check_operands

__all__ = ["NoLines", "compare_block_lines", "compare_decoder_lines", "compare_dot_lines", "compare_lines"]

Row = tuple[int, list[str], str]


class NoLines(DumpError):
    """Lines of a unit that are none: the first one would say how wide they are."""


_HEXADECIMAL = re.compile(r"(0[xX])?[0-9a-fA-F]+")
_HEADER = re.compile(r"(?:#|//) (\d+) cases: ")


def _rows(lines: Iterable[str]) -> Iterator[Row]:
    """Yield the number, the words and the text of each line that is no comment.

    Raises DumpError: fewer lines than the headers of files of vectors say.
    """
    wanted = count = last = 0
    for number, line in enumerate(lines, 1):
        words = line.split()
        if not words or words[0].startswith(("#", "//")):
            found = _HEADER.match(line)
            wanted += int(found[1]) if found else 0
        else:
            count, last = count + 1, number
            yield number, words, line.strip()
    if count < wanted:
        raise DumpError(
            f"the file ends after line {last} with {count:,} cases, and its header says {wanted:,}: it was "
            f"cut short; leave out the header to compare a part"
        )


def compare_lines(
    lines: Iterable[str],
    operation: str,
    formats: tuple[Format, ...],
    projection: Projection = DEFAULT,
    *,
    flags: bool = False,
    ulps: int | None = None,
    any_nan: bool = False,
    limit: int | None = 20,
    why: bool = True,
    watch: Watch | None = None,
) -> Comparison:
    """Hold every line against what its operands give.

    >>> from lowprec.spec.catalog import BINARY32, E4M3FN
    >>> compare_lines(["3f800000 38", "3f880000 39"], "convert", (BINARY32, E4M3FN)).mismatches
    1

    Parameters
    ----------
    lines : iterable of str
        Operands and result, hexadecimal codes apart by blanks; of a stochastic mode the random integer is
        between them, and where lanes share one, a line has those of each operand, the integer, and those of
        the result. Empty lines and lines that begin with # or // are passed over; a line without a result is
        wrong.
    operation, formats, projection
        As for `vectors.suite`.
    flags : bool
        Whether each line ends with the exception flags that were raised, as in TestFloat's output.
    ulps, any_nan, limit, why, watch
        As for `lowprec.compare`.

    Raises
    ------
    DumpError
        A line that is no case: words that are no codes of their format, or too few or many.
    ValueError
        Operands that the operation does not take.
    """
    check_operands(operation, formats)
    count = OPERATIONS[operation].operands
    columns = [Spool(code_dtype(fmt), f"operand {place}") for place, fmt in enumerate(formats[:-1], 1)]
    results, numbers = Spool("int64", "results"), Spool("int64", "lines")
    raised, random = Spool("int64", "flags"), Spool("uint32", "random integers")
    mode, target = projection.rounding, formats[-1]
    drawn, group = bool(mode.bits), lanes(mode, target) if mode.bits else 1
    if drawn and flags:
        raise ValueError(f"flags are compared with deterministic roundings, not with {mode}")
    asked, whole = count * group + drawn, count * group + drawn + group + flags
    held: list[list[int]] = []

    integers: list[int] = []

    def keep() -> None:
        if integers:
            random.append(integers)
            integers.clear()
        if held:
            spools = (*columns, results, raised, numbers)
            for spool, column in zip(spools, zip(*held, strict=True), strict=True):
                spool.append(column)
            held.clear()

    for number, words, text in _rows(lines):
        if len(words) not in (asked, whole):
            wanted = "a result and flags" if flags else "a result" if group == 1 else f"{group} results"
            wanted = f"a random integer and {wanted}" if drawn else wanted
            raise DumpError(
                f"line {number} has {len(words)} words, but {operation} needs {count * group} operand(s) and "
                f"{wanted}: {quoted(text)}"
            )
        if drawn:
            integers.append(_integer(words[count * group], random_width(mode), number))
        found = _flags_in(words[-1], number) if flags and len(words) == whole else -1
        for lane in range(group):
            lane_words = words[lane : count * group : group] + words[asked + lane : asked + lane + 1]
            codes = [_code_in(word, number, fmt) for word, fmt in zip(lane_words, formats, strict=False)]
            codes += [-1] if len(codes) == count else []
            held.append([*codes, found, number])
        if len(held) >= 1 << 16:
            keep()
    keep()
    operands, labels = [spool.dump() for spool in columns], numbers.dump()
    how, of_results = projection, None
    if drawn:
        how, of_results = drawn_integers(projection, target, random.dump(), operands[0].size)
    question = ElementQuestion(
        operation,
        operands,
        formats,
        how,
        results.dump(),
        any_nan=any_nan,
        labels=labels,
        budget=budget(ulps, operation),
        integers=of_results,
    )
    report = judge(question, limit=limit, why=why, unit="line", watch=watch)
    if flags:
        beside = FlagQuestion(operation, operands, formats, projection, raised.dump(), labels=labels)
        told: dict[str, Any] = {"limit": limit, "why": why, "unit": "line", "watch": watch}
        report.flags = judge_flags(beside, question.agreeing, report, **told)
    return report


def _integer(word: str, bits: int, number: int) -> int:
    if not _HEXADECIMAL.fullmatch(word) or int(word, 16) >> bits:
        raise DumpError(f"line {number} holds {quoted(word)}, which is no random integer of {bits} bits")
    return int(word, 16)


def _flags_in(word: str, number: int) -> int:
    """Return the flags that a word at the end of a line stands for; more than 62 bits as 62 ones."""
    if not _HEXADECIMAL.fullmatch(word):
        raise DumpError(f"line {number} ends with {quoted(word)}, which are no flags: a hexadecimal number")
    return min(int(word, 16), (1 << 62) - 1)


def _code_in(word: str, number: int, fmt: Format, count: int = 1) -> int:
    """Return the code that a word of a line is, or `count` codes, the first in the lowest bits."""
    if not _HEXADECIMAL.fullmatch(word):
        raise DumpError(
            f"line {number} holds {quoted(word)}, which is no hexadecimal number; "
            "lines of other text begin with '#'"
        )
    code = int(word, 16)
    if code >> fmt.width * count:
        what = f"{fmt.width}-bit code of" if count == 1 else f"{count} codes of"
        raise DumpError(f"line {number} holds {quoted(word)}, which is no {what} {fmt.name!r}")
    return code


# -- dot products and blocks -----------------------------------------------------------------------


Array = npt.NDArray[Any]


def compare_dot_lines(
    lines: Iterable[str],
    how: Accumulation,
    formats: tuple[Format, Format] | None = None,
    *,
    size: tuple[int, int, int] | None = None,
    length: int | None = None,
    flags: bool = False,
    **options: Any,
) -> Comparison:
    """Hold lines of x, y, addend and result against what an accumulation gives.

    Scales stand behind x and behind y, the random integers of sums that are rounded stochastically before the
    result.

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
    size : (int, int, int), optional
        M, N and K of matrices, as `lowprec vectors matmul` has them; by default lines are of dot products.
    length : int, optional
        Products of a dot product; by default the first line says it.
    flags : bool
        Whether each line ends with the exception flags that the sum raised.
    options
        `any_nan`, `limit`, `why` and `watch` of `lowprec.compare`.

    Raises
    ------
    DumpError
        A line of another width than the first, without a result, or with a word that is no code.
    ValueError
        Formats that the accumulation does not take.
    """
    shape, rows = shape_of(how, formats), _some_rows(lines)
    m, n, k = size or (1, 1, 0)
    raised: list[int] = []
    if flags:
        if size is not None:
            raise ValueError("flags are of dot products alone; leave out the size of matrices, or the flags")
        check_flags(how)
        raised = [_flags(row) for row in rows]
        rows = [(number, words[:-1], text) for number, words, text in rows]
    columns, packed = _layout(shape, rows[0], size, length)
    layout = [each for each in columns if each[1]] if packed else [
        (fmt, 1) for fmt, lanes in columns for _ in range(lanes)
    ]  # fmt: skip
    parts = np.split(_columns(rows, layout), np.cumsum([lanes for _, lanes in columns])[:-1], axis=1)
    codes = [part.astype(code_dtype(fmt)) for part, (fmt, _) in zip(parts, columns, strict=True)]
    x, x_scales, y, y_scales, addend, random, results = codes
    joined = values_of(addend, shape.addend)
    if how.scale is not None:
        each = [values_of(part, how.scale[0]) for part in (x_scales, y_scales)]
        if size is not None:
            each = [each[0].reshape(len(rows), m, -1), each[1].reshape(len(rows), n, -1).swapaxes(1, 2)]
        options["scale"] = tuple(each)
    if random.size:
        options["random"] = random
    if size is None:
        joined, results = joined[:, 0], results[:, 0]
    else:
        x, y = x.reshape(-1, m, k), y.reshape(-1, k, n)
        joined, results = (part.reshape(-1, m, n) for part in (joined, results))
    report = compare(
        (x, y), results, operation="dot" if size is None else "matmul", source=shape.formats,
        accumulation=how, addend=joined, **options,
    )  # fmt: skip
    if flags:
        of_all = *shape.formats, shape.addend
        asked = SumFlagQuestion(x, y, addend[:, 0], of_all, how, np.array(raised), results)
        said = {name: options[name] for name in ("limit", "why", "watch") if name in options}
        report.flags = _numbered(judge_flags(asked, asked.agreeing, report, **said, unit="line"), rows, 1)
    return _numbered(report, rows, m * n)


def _layout(
    shape: Shape, first: Row, size: tuple[int, int, int] | None, length: int | None
) -> tuple[list[tuple[Format, int]], bool]:
    """Return the format and the lanes of each column, 0 where there is none; and whether each is a word."""
    how, (x, y) = shape.how, shape.formats
    m, n, _ = size or (1, 1, 0)
    scale, block = how.scale or (x, 0)
    bits = random_bits_of(how)

    def columns(k: int) -> list[tuple[Format, int]]:
        blocks = -(-k // block) if block else 0
        drawn = len(roundings(how, k)) if bits else 0
        return [
            *((x, m * k), (scale, m * blocks), (y, n * k), (scale, n * blocks)),
            *((shape.addend, m * n), (_word(bits), drawn), (how.output[0], m * n)),
        ]

    words, digits = first[1], len(first[1][0].lower().removeprefix("0x"))
    known = size[2] if size else length
    if known or digits > -(-x.width // 4):  # else the digits of the first word tell how many lanes it holds
        found = columns(known or digits * 4 // x.width)
        whole = known or digits == -(-found[0][1] * x.width // 4)
        if whole and len(words) == sum(lanes > 0 for _, lanes in found) < sum(lanes for _, lanes in found):
            return found, True
    lengths = (known,) if known else range(max(block, 1), len(words), max(block, 1))
    for k in lengths:
        found = columns(k)
        if sum(lanes for _, lanes in found) == len(words):
            return found, False
    parts = ["x and y of as many lanes", *(["their scales"] if block else []), "the addend"]
    parts += ["the random integers"] if bits else []
    wanted = f"{', '.join(parts)} and the result"
    wanted += f" of M, N, K = {size}" if size else f" of K = {length}" if length else ""
    short = size is not None and len(words) < sum(lanes for _, lanes in columns(size[2]))
    without = "; it ends before its result" if short else ""
    _refuse(first, f"{len(words)} words, not {wanted}{without}")
    raise AssertionError("refused")


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
        One-dimensional. A scale of the tensor stands behind the values of each line.
    options
        As for `compare_dot_lines`.

    Raises
    ------
    DumpError, ValueError
        As `compare_dot_lines`; a block format of two dimensions.
    """
    size, tensor = math.prod(fmt.sizes), int(fmt.tensor_scale != "none")
    if len(fmt.sizes) > 1:
        raise ValueError(
            f"lines of {fmt.name!r} are not read: its blocks have two dimensions; compare files with --scales"
        )
    rows = _some_rows(lines)
    packed = len(rows[0][1]) == 3 + tensor and size > 1
    one = [*[(BINARY32, 1)] * tensor, (fmt.scale, 1)]
    layout = [(source, size), *one, (fmt.element, size)] if packed else [
        *[(source, 1)] * size, *one, *[(fmt.element, 1)] * size
    ]  # fmt: skip
    codes = _columns(rows, layout)
    values = source_values(codes[:, :size].astype(code_dtype(source)), source)
    found = codes[:, -size:].astype(code_dtype(fmt.element))
    scales = codes[:, -size - 1 : -size].astype(code_dtype(fmt.scale))
    if tensor:
        tensors = codes[:, size].astype(np.uint32).view(np.float32)
        options |= {"budget": budget(options.pop("ulps", None), "blocks")}
        about = {name: options.pop(name) for name in ("any_nan", "budget") if name in options}
        given = Held(values, "values"), fmt, Held(found, "elements"), tensors
        report = judge(TensorsQuestion(*given, scales=Held(scales, "scales"), **about), **options)
    else:
        report = compare(values, found, fmt, scales=scales, **options)
    return _numbered(report, rows, size)


def compare_decoder_lines(
    lines: Iterable[str], fmt: BlockFormat, target: Format, **options: Any
) -> Comparison:
    """Hold lines of scale, elements and values against what the blocks stand for.

    A scale of the tensor comes first, where there is one. A value is the product of the scales and an
    element, which binary64 holds, rounded once.

    >>> from lowprec.spec.catalog import BFLOAT16, MXFP4
    >>> line = " ".join(["7d"] + ["6"] * 32 + ["3f80"] * 32)
    >>> compare_decoder_lines([line], MXFP4, BFLOAT16).mismatches
    0

    Parameters
    ----------
    lines : iterable of str
    fmt : BlockFormat
    target : Format
        Of the values.
    options
        As for `compare_dot_lines`.

    Raises
    ------
    DumpError
        As `compare_dot_lines`.
    """
    size, tensor = math.prod(fmt.sizes), int(fmt.tensor_scale != "none")
    rows = _some_rows(lines)
    packed = len(rows[0][1]) == 3 + tensor and size > 1
    one = [*[(BINARY32, 1)] * tensor, (fmt.scale, 1)]
    lanes = [(fmt.element, size), (target, size)]
    codes = _columns(rows, one + (lanes if packed else [(each, 1) for each, _ in lanes for _ in range(size)]))
    scales = codes[:, tensor].astype(code_dtype(fmt.scale))
    elements = codes[:, tensor + 1 : tensor + 1 + size].astype(code_dtype(fmt.element))
    tensors = codes[:, 0].astype(np.uint32).view(np.float32) if tensor else np.ones(len(rows), np.float32)
    grid = (size,) if len(fmt.sizes) == 1 else fmt.sizes
    values = np.empty((len(rows), size))
    for at, held in enumerate(tensors.tolist()):
        one_scale = scales[at].reshape((1,) * len(grid))
        given = {"tensor_scale": held} if tensor else {}
        values[at] = BlockArray(elements[at].reshape(grid), one_scale, fmt, **given).values("float64").ravel()
    results = codes[:, -size:].astype(code_dtype(target))
    if len(grid) > 1:
        return _numbered(compare(values, results, target, **options), rows, size)
    options |= {"budget": budget(options.pop("ulps", None), "convert")}
    about = {name: options.pop(name) for name in ("any_nan", "budget") if name in options}
    question = DecodedQuestion(
        values.reshape(-1),
        (elements.reshape(-1), scales.reshape(-1), tensors.astype(np.float64)),
        fmt,
        target,
        Held(results.reshape(-1), "results"),
        projection=DEFAULT,
        **about,
    )
    return _numbered(judge(question, **options), rows, size)


def _word(bits: int) -> Format:
    """Return a format of which every code of so many bits is one."""
    return Format(
        name=f"random integer of {bits} bits",
        exponent_bits=0,
        trailing_bits=max(bits, 2),
        bias=0,
        sign=Sign.UNSIGNED,
    )


def _some_rows(lines: Iterable[str]) -> list[Row]:
    rows = list(_rows(lines))
    if not rows:
        raise NoLines("there are no lines to compare")
    return rows


def _flags(row: Row) -> int:
    if len(row[1]) < 2:
        _refuse(row, "no flags at its end")
    return _flags_in(row[1][-1], row[0])


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
            code = _code_in(word, number, fmt, count)
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
