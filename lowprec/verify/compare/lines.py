"""Lines of operands and result that a program printed, as columns to compare.

Every result is computed from the operands of its own line, so a program that only echoes its input cannot
pass. The words of a line are the columns of the vectors of `lowprec vectors`, from the left: lanes apart by
blanks, or, of units, a column as one number (`--packed`). A line of a unit that lacks its result, or is of
another width than the first, is refused by its number.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from lowprec.arrays.checks import code_dtype
from lowprec.spec.accumulation import Accumulation
from lowprec.spec.format import Format
from lowprec.spec.layouts import lanes
from lowprec.spec.projection import DEFAULT, Projection
from lowprec.verify.codes.display import hex_of, quoted
from lowprec.verify.compare.compare import compare, drawn_integers
from lowprec.verify.compare.judging import Watch, judge, judge_flags
from lowprec.verify.compare.line_rows import (
    MARKS,
    Row,
    Unknown,
    code_in,
    columns_of,
    flags_in,
    integer,
    line_flags,
    numbered,
    refuse_row,
    rows_of,
    some_rows,
    unknown_lanes,
    word_format,
)
from lowprec.verify.compare.report import Comparison
from lowprec.verify.difference import Difference
from lowprec.verify.dumps.files import DumpError, Spool
from lowprec.verify.inputs.dot_shape import Shape, shape_of, values_of
from lowprec.verify.inputs.operands import random_width
from lowprec.verify.questions.elements.elements import ElementQuestion
from lowprec.verify.questions.elements.flags import FlagQuestion, SumFlagQuestion
from lowprec.verify.questions.question import budget
from lowprec.verify.reference.dots import check_flags, random_bits_of, roundings
from lowprec.verify.reference.operations import OPERATIONS, check_operands

__all__ = ["compare_dot_lines", "compare_lines"]

#: Lanes of a dot product that a report shows of a mismatch.
_LANES = 8


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
        wrong, and so is a result with an unknown bit, which simulators print as x, z or u.
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
    unknown = Unknown()

    def keep() -> None:
        if integers:
            random.append(integers)
            integers.clear()
        if held:
            spools = (*columns, results, raised, numbers)
            for spool, column in zip(spools, zip(*held, strict=True), strict=True):
                spool.append(column)
            held.clear()

    for number, words, text in rows_of(lines):
        if len(words) not in (asked, whole):
            wanted = "a result and flags" if flags else "a result" if group == 1 else f"{group} results"
            wanted = f"a random integer and {wanted}" if drawn else wanted
            raise DumpError(
                f"line {number} has {len(words)} words, but {operation} needs {count * group} operand(s) and "
                f"{wanted}: {quoted(text)}"
            )
        random_word = [integer(words[count * group], random_width(mode), number)] if drawn else []
        if not MARKS.isdisjoint(text) and (lost := unknown_lanes(words[asked:], target.width)):
            for place, word in enumerate(words[: count * group]):
                code_in(word, number, formats[place // group])
            unknown.add(number, min(lost, group))
            continue
        integers += random_word
        found = flags_in(words[-1], number) if flags and len(words) == whole else -1
        for lane in range(group):
            lane_words = words[lane : count * group : group] + words[asked + lane : asked + lane + 1]
            codes = [code_in(word, number, fmt) for word, fmt in zip(lane_words, formats, strict=False)]
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
    return unknown.told(report)


# -- dot products and blocks -----------------------------------------------------------------------


def compare_dot_lines(
    lines: Iterable[str],
    how: Accumulation,
    formats: tuple[Format, Format] | None = None,
    *,
    size: tuple[int, int, int] | None = None,
    length: int | None = None,
    flags: bool = False,
    added: bool = True,
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
    added : bool
        Whether each line has an addend.
    options
        `any_nan`, `limit`, `why` and `watch` of `lowprec.compare`.

    Raises
    ------
    DumpError
        A line of another width than the first, without a result, or with a word that is no code.
    ValueError
        Formats that the accumulation does not take.
    """
    shape, rows = shape_of(how, formats), some_rows(lines)
    m, n, k = size or (1, 1, 0)
    raised: dict[int, int] = {}
    if flags:
        if not added:
            raise ValueError("flags of dot products are of units with an addend; leave --addend none out")
        if size is not None:
            raise ValueError("flags are of dot products alone; leave out the size of matrices, or the flags")
        check_flags(how)
        lines_with_flags, rows = rows, []
        for number, words, text in lines_with_flags:
            lost = not MARKS.isdisjoint(text) and unknown_lanes(words[-1:], 4) and len(words) > 2
            raised[number] = 0 if lost else line_flags((number, words, text))
            # Unknown flags are counted as an unknown result is.
            rows.append((number, [*words[:-2], words[-1]] if lost else words[:-1], text))
    if not added and how.rounds_randomly:
        raise ValueError(
            "random integers of dot products are of units with an addend; leave --addend none out"
        )
    parted, packed = _layout(shape, rows[0], size, length, added)
    layout = [each for each in parted if each[1]] if packed else [
        (fmt, 1) for fmt, lanes in parted for _ in range(lanes)
    ]  # fmt: skip
    rows, codes, unknown = columns_of(rows, layout, 1 if packed else m * n)
    parts = np.split(codes, np.cumsum([lanes for _, lanes in parted])[:-1], axis=1)
    held = [part.astype(code_dtype(fmt)) for part, (fmt, _) in zip(parts, parted, strict=True)]
    x, x_scales, y, y_scales, addend, random, results = held
    joined: Any = values_of(addend, shape.addend)
    if how.scale is not None:
        each = [values_of(part, how.scale[0]) for part in (x_scales, y_scales)]
        if size is not None:
            each = [each[0].reshape(len(rows), m, -1), each[1].reshape(len(rows), n, -1).swapaxes(1, 2)]
        options["scale"] = tuple(each)
    if random.size:
        options["random"] = random
    if size is None:
        joined, results = joined[:, 0] if added else None, results[:, 0]
    else:
        x, y = x.reshape(-1, m, k), y.reshape(-1, k, n)
        joined, results = (part.reshape(-1, m, n) for part in (joined, results))
    report = compare(
        (x, y), results, operation="dot" if size is None else "matmul", source=shape.formats,
        accumulation=how, addend=joined, **options,
    )  # fmt: skip
    if flags:
        of_all = *shape.formats, shape.addend
        asked = SumFlagQuestion(
            x, y, addend[:, 0], of_all, how, np.array([raised[row[0]] for row in rows], np.int64), results
        )
        said = {name: options[name] for name in ("limit", "why", "watch") if name in options}
        report.flags = numbered(judge_flags(asked, asked.agreeing, report, **said, unit="line"), rows, 1)
    if size is None:
        addends = addend[:, 0] if added else None
        report.details = [
            _with_operands(detail, shape, (x, y, addends, x_scales, y_scales)) for detail in report.details
        ]
    return unknown.told(numbered(report, rows, m * n))


def _with_operands(detail: Difference, shape: Shape, operands: tuple[Any, ...]) -> Difference:
    """Return a mismatch of a dot product with its operands: lanes, scales of their blocks, and the addend.

    More than `_LANES` lanes are shortened to the first of which neither factor is zero.
    """
    if "index" not in detail.data:
        return detail
    (x, y, addend, *scales), row = operands, detail.data["index"]
    pair = [values_of(side[row], fmt) for side, fmt in zip((x, y), shape.formats, strict=True)]
    shown = np.arange(x.shape[1])
    if shown.size > _LANES:
        shown = np.flatnonzero((pair[0] != 0) & (pair[1] != 0))
    said = []
    for lane in shown[:_LANES].tolist():
        codes = (hex_of(int(side[row, lane]), fmt) for side, fmt in zip((x, y), shape.formats, strict=True))
        text = f"{' * '.join(codes)} = {float(pair[0][lane])!r} * {float(pair[1][lane])!r}"
        if shape.how.scale is not None:
            fmt, block = shape.how.scale
            text += f", scales {' and '.join(hex_of(int(part[row, lane // block]), fmt) for part in scales)}"
        said.append((f"lane {lane}", text))
    if (more := shown.size - _LANES) > 0:
        said.append(
            ("", f"and {more} more lane{'s' * (more > 1)} that {'are' if more > 1 else 'is'} not zero")
        )
    if addend is not None:
        code = hex_of(int(addend[row]), shape.addend)
        value = values_of(addend[row : row + 1], shape.addend)[0]
        said.append(("addend", f"{code} = {float(value)!r}"))
    return replace(detail, rows=(*said, *detail.rows))


def _layout(
    shape: Shape, first: Row, size: tuple[int, int, int] | None, length: int | None, added: bool = True
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
            *((shape.addend, m * n * added), (word_format(bits), drawn), (how.output[0], m * n)),
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
    parts = ["x and y of as many lanes", *(["their scales"] if block else [])]
    parts += ["the addend"] if added else []
    parts += ["the random integers"] if bits else []
    wanted = f"{', '.join(parts)} and the result"
    wanted += f" of M, N, K = {size}" if size else f" of K = {length}" if length else ""
    short = size is not None and len(words) < sum(lanes for _, lanes in columns(size[2]))
    without = "; it ends before its result" if short else ""
    refuse_row(first, f"{len(words)} words, not {wanted}{without}")
    raise AssertionError("refused")
