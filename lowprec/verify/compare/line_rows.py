"""Lines of text as rows of codes, and the lines whose results hold unknown bits.

A simulator prints x, z or u where a bit is not known: such a result differs from every right one, and the
others of its line, if it has any, are not judged.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.spec.format import Format, Sign
from lowprec.verify.codes.display import quoted
from lowprec.verify.compare.report import Comparison
from lowprec.verify.dumps.files import DumpError

__all__ = [
    "MARKS",
    "NoLines",
    "Row",
    "Unknown",
    "code_in",
    "columns_of",
    "flags_in",
    "integer",
    "line_flags",
    "numbered",
    "refuse_row",
    "rows_of",
    "some_rows",
    "unknown_lanes",
    "word_format",
]

Array = npt.NDArray[Any]
#: The number of a line, its words and its text.
Row = tuple[int, list[str], str]


class NoLines(DumpError):
    """Lines of a unit that are none: the first one would say how wide they are."""


_HEXADECIMAL = re.compile(r"(0[xX])?[0-9a-fA-F]+")
#: Digits that simulators print for unknown or undriven bits.
MARKS = frozenset("xXzZuU")
_UNKNOWN = re.compile(r"[0-9a-fA-FxXzZuU]+")
_HEADER = re.compile(r"(?:#|//) (\d+) cases: ")


def rows_of(lines: Iterable[str]) -> Iterator[Row]:
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


def integer(word: str, bits: int, number: int) -> int:
    """Return the random integer that a word of a line is."""
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


def word_format(bits: int) -> Format:
    """Return a format of which every code of so many bits is one."""
    return Format(
        name=f"random integer of {bits} bits",
        exponent_bits=0,
        trailing_bits=max(bits, 2),
        bias=0,
        sign=Sign.UNSIGNED,
    )


def some_rows(lines: Iterable[str]) -> list[Row]:
    """Return the rows of lines. Raises NoLines: there are none."""
    rows = list(rows_of(lines))
    if not rows:
        raise NoLines("there are no lines to compare")
    return rows


def line_flags(row: Row) -> int:
    """Return the flags at the end of a line."""
    if len(row[1]) < 2:
        refuse_row(row, "no flags at its end")
    return flags_in(row[1][-1], row[0])


def refuse_row(row: Row, why: str) -> None:
    """Refuse a line by its number and text."""
    raise DumpError(f"line {row[0]} has {why}: {quoted(row[2])}")


@dataclass
class Unknown:
    """Results with unknown bits: how many, and the lines that hold them."""

    results: int = 0
    lines: list[int] = field(default_factory=list)

    def add(self, number: int, results: int) -> None:
        """Add results of a line."""
        self.results += results
        self.lines.append(number)

    def told(self, report: Comparison) -> Comparison:
        """Return the report of all other lines, with these results among its mismatches."""
        if self.results:
            report.compared += self.results
            report.mismatches += self.results
            report.unknown, report.unknown_lines = self.results, self.lines[:5]
            report.tally.situations["unknown"] += self.results
        return report


def unknown_lanes(words: list[str], width: int, count: int = 1) -> int:
    """Return how many of the codes in words have unknown bits: digits x, z or u, of either case.

    >>> unknown_lanes(["3f8xxxxx"], 32), unknown_lanes(["3fxx"], 8, 2), unknown_lanes(["0x3f"], 8)
    (1, 1, 0)
    """
    found = 0
    for word in words:
        if _HEXADECIMAL.fullmatch(word) or not _UNKNOWN.fullmatch(word):
            continue
        digits = word[2:] if word[:2] in ("0x", "0X") else word
        bits = int("".join("f" if digit in MARKS else "0" for digit in digits) or "f", 16)
        found += max(sum(bits >> width * lane & (1 << width) - 1 > 0 for lane in range(count)), 1)
    return found


def columns_of(
    rows: list[Row], layout: list[tuple[Format, int]], results: int
) -> tuple[list[Row], Array, Unknown]:
    """Return the lines without unknown bits, their codes, lanes unpacked, and what there is of the others.

    The last `results` words of the layout are results.
    """
    wide = sum(count for _, count in layout)
    codes, kept, unknown = np.zeros((len(rows), wide), np.uint64), list[int](), Unknown()
    for at, row in enumerate(rows):
        number, words, _ = row
        if len(words) != len(layout):
            without = len(words) < len(layout)
            why = "; it ends before its result" if without else ""
            refuse_row(row, f"{len(words)} words, not {len(layout)}{why}")
        place = lost = 0
        first = len(words) if MARKS.isdisjoint(row[2]) else len(words) - results
        for index, (word, (fmt, count)) in enumerate(zip(words, layout, strict=True)):
            lanes = unknown_lanes([word], fmt.width, count) if index >= first else 0
            code = 0 if lanes else code_in(word, number, fmt, count)
            for lane in range(count):
                codes[at, place + lane] = code >> fmt.width * lane & (1 << fmt.width) - 1
            place, lost = place + count, lost + lanes
        if lost:
            unknown.add(number, lost)
        else:
            kept.append(at)
    return [rows[at] for at in kept], codes[kept], unknown


def numbered(report: Comparison, rows: list[Row], lanes: int) -> Comparison:
    """Return the report with the numbers of lines."""
    for detail in report.details:
        if "index" in detail.data:
            detail.data["line"] = rows[detail.data["index"] // lanes][0]
    return report
