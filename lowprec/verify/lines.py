"""Lines of operands and result that a program printed, as columns to compare.

Every result is computed from the operands of its own line, so a program that only echoes its input cannot
pass.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from lowprec.arrays.checks import code_dtype
from lowprec.spec.format import Format
from lowprec.spec.projection import DEFAULT, Projection
from lowprec.verify.comparison import Comparison
from lowprec.verify.dumps import DumpError, Spool
from lowprec.verify.judge import Watch, judge
from lowprec.verify.operations import OPERATIONS, check_operands
from lowprec.verify.question import budget
from lowprec.verify.questions.elements import ElementQuestion
from lowprec.verify.questions.flags import FlagQuestion
from lowprec.verify.shown import quoted

__all__ = ["compare_lines"]

_HEXADECIMAL = re.compile(r"(0[xX])?[0-9a-fA-F]+")


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
        Operands and result, hexadecimal codes apart by blanks. Empty lines and lines that begin
        with # or // are passed over; a line without a result is wrong.
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
    raised = Spool("int64", "flags")
    held: list[list[int]] = []

    def keep() -> None:
        if held:
            spools = (*columns, results, raised, numbers)
            for spool, column in zip(spools, zip(*held, strict=True), strict=True):
                spool.append(column)
            held.clear()

    for number, line in enumerate(lines, 1):
        words = line.split()
        if not words or words[0].startswith(("#", "//")):
            continue
        whole = count + 1 + flags
        if len(words) not in (count, whole):
            wanted = "a result and flags" if flags else "a result"
            raise DumpError(
                f"line {number} has {len(words)} words, but {operation} needs {count} operand(s) and "
                f"{wanted}: {quoted(line.strip())}"
            )
        codes = [_code(word, fmt, number) for word, fmt in zip(words[: count + 1], formats, strict=False)]
        codes += [-1] if len(codes) == count else []
        found = _flags(words[-1], number) if flags and len(words) == whole else -1
        held.append([*codes, found, number])
        if len(held) >= 1 << 16:
            keep()
    keep()
    operands, labels = [spool.dump() for spool in columns], numbers.dump()
    question = ElementQuestion(
        operation,
        operands,
        formats,
        projection,
        results.dump(),
        any_nan=any_nan,
        labels=labels,
        budget=budget(ulps, operation),
    )
    report = judge(question, limit=limit, why=why, unit="line", watch=watch)
    if flags:
        beside = FlagQuestion(operation, operands, formats, projection, raised.dump(), labels=labels)
        report.flags = judge(beside, limit=limit, why=why, unit="line", watch=watch)
    return report


def _flags(word: str, number: int) -> int:
    if not _HEXADECIMAL.fullmatch(word):
        raise DumpError(f"line {number} ends with {quoted(word)}, which are no flags: a hexadecimal number")
    return int(word, 16) & (1 << 62) - 1


def _code(word: str, fmt: Format, number: int) -> int:
    if not _HEXADECIMAL.fullmatch(word):
        raise DumpError(f"line {number} holds {quoted(word)}, which is no hexadecimal number")
    code = int(word, 16)
    if code >> fmt.width:
        raise DumpError(
            f"line {number} holds {quoted(word)}, which is no {fmt.width}-bit code of {fmt.name!r}"
        )
    return code
