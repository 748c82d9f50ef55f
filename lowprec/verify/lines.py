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
from lowprec.verify.questions.elements import ElementQuestion
from lowprec.verify.shown import quoted

__all__ = ["compare_lines"]

_HEXADECIMAL = re.compile(r"(0[xX])?[0-9a-fA-F]+")


def compare_lines(
    lines: Iterable[str],
    operation: str,
    formats: tuple[Format, ...],
    projection: Projection = DEFAULT,
    *,
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
    any_nan, limit, why, watch
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
    held: list[list[int]] = []

    def keep() -> None:
        if held:
            *operands, got, number = zip(*held, strict=True)
            for spool, column in zip((*columns, results, numbers), (*operands, got, number), strict=True):
                spool.append(column)
            held.clear()

    for number, line in enumerate(lines, 1):
        words = line.split()
        if not words or words[0].startswith(("#", "//")):
            continue
        if not count <= len(words) <= count + 1:
            raise DumpError(
                f"line {number} has {len(words)} words, but {operation} needs {count} operand(s) and a "
                f"result: {quoted(line.strip())}"
            )
        codes = [_code(word, fmt, number) for word, fmt in zip(words, formats, strict=False)]
        held.append([*codes, *([-1] if len(codes) == count else []), number])
        if len(held) >= 1 << 16:
            keep()
    keep()
    question = ElementQuestion(
        operation,
        [spool.dump() for spool in columns],
        formats,
        projection,
        results.dump(),
        any_nan=any_nan,
        labels=numbers.dump(),
    )
    return judge(question, limit=limit, why=why, unit="line", watch=watch)


def _code(word: str, fmt: Format, number: int) -> int:
    if not _HEXADECIMAL.fullmatch(word):
        raise DumpError(f"line {number} holds {quoted(word)}, which is no hexadecimal number")
    code = int(word, 16)
    if code >> fmt.width:
        raise DumpError(
            f"line {number} holds {quoted(word)}, which is no {fmt.width}-bit code of {fmt.name!r}"
        )
    return code
