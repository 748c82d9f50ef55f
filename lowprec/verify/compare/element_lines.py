"""Lines of operands and result that a program printed, as columns to compare.

Every result is computed from the operands of its own line, so a program that only echoes its input cannot
pass.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from lowprec.arrays.checks import code_dtype
from lowprec.spec.format import Format
from lowprec.spec.layouts import lanes
from lowprec.spec.projection import DEFAULT, Projection
from lowprec.verify.codes.display import quoted
from lowprec.verify.compare.compare import drawn_integers
from lowprec.verify.compare.judging import Watch, judge
from lowprec.verify.compare.report import Comparison
from lowprec.verify.dumps.files import DumpError, Spool
from lowprec.verify.inputs.random_words import random_width
from lowprec.verify.questions.elements import ElementQuestion
from lowprec.verify.questions.flags import FlagQuestion
from lowprec.verify.questions.question import budget
from lowprec.verify.reference.operations import OPERATIONS, check_operands

__all__ = ["check_whole", "code_in", "compare_lines", "flags_in", "promised"]

_HEXADECIMAL = re.compile(r"(0[xX])?[0-9a-fA-F]+")
_HEADER = re.compile(r"(?:#|//) (\d+) cases: ")


def promised(line: str) -> int:
    """Return how many cases the header of a file of vectors says that follow; 0 for any other line.

    >>> promised("# 1208 cases: x0 to x3, y0 to y3, addend, result; codes in hexadecimal")
    1208
    """
    found = _HEADER.match(line)
    return int(found[1]) if found else 0


def check_whole(wanted: int, cases: int, last: int) -> None:
    """Refuse a file that has fewer cases than its headers say."""
    if cases < wanted:
        raise DumpError(
            f"the file ends after line {last} with {cases:,} cases, and its header says {wanted:,}: it was "
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
    wanted_cases = cases = last = 0

    def keep() -> None:
        if integers:
            random.append(integers)
            integers.clear()
        if held:
            spools = (*columns, results, raised, numbers)
            for spool, column in zip(spools, zip(*held, strict=True), strict=True):
                spool.append(column)
            held.clear()

    for number, line in enumerate(lines, 1):
        words = line.split()
        if not words or words[0].startswith(("#", "//")):
            wanted_cases += promised(line)
            continue
        cases, last = cases + 1, number
        if len(words) not in (asked, whole):
            wanted = "a result and flags" if flags else "a result" if group == 1 else f"{group} results"
            wanted = f"a random integer and {wanted}" if drawn else wanted
            raise DumpError(
                f"line {number} has {len(words)} words, but {operation} needs {count * group} operand(s) and "
                f"{wanted}: {quoted(line.strip())}"
            )
        if drawn:
            integers.append(_integer(words[count * group], random_width(mode), number))
        found = flags_in(words[-1], number) if flags and len(words) == whole else -1
        for lane in range(group):
            lane_words = words[lane : count * group : group] + words[asked + lane : asked + lane + 1]
            codes = [code_in(word, number, fmt) for word, fmt in zip(lane_words, formats, strict=False)]
            codes += [-1] if len(codes) == count else []
            held.append([*codes, found, number])
        if len(held) >= 1 << 16:
            keep()
    keep()
    check_whole(wanted_cases, cases, last)
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
        report.flags = judge(beside, limit=limit, why=why, unit="line", watch=watch)
    return report


def _integer(word: str, bits: int, number: int) -> int:
    if not _HEXADECIMAL.fullmatch(word) or int(word, 16) >> bits:
        raise DumpError(f"line {number} holds {quoted(word)}, which is no random integer of {bits} bits")
    return int(word, 16)


def flags_in(word: str, number: int) -> int:
    """Return the flags that a word at the end of a line stands for; more than 62 bits as 62 ones."""
    if not _HEXADECIMAL.fullmatch(word):
        raise DumpError(f"line {number} ends with {quoted(word)}, which are no flags: a hexadecimal number")
    return min(int(word, 16), (1 << 62) - 1)


def code_in(word: str, number: int, fmt: Format, count: int = 1) -> int:
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
