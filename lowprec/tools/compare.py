"""Compare what a program answered with what it must answer, line by line.

The program under test prints operands and result; every line is recomputed from its operands, so a
program that only echoes its input cannot pass.

Floor 5.
"""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec import __version__
from lowprec.oracle.convert import decode, position
from lowprec.oracle.exact import Special, to_float
from lowprec.spec.format import Format
from lowprec.spec.projection import DEFAULT, Projection
from lowprec.tools.tabulate import decimal, hex_digits, hex_float
from lowprec.tools.vectors import OPERATIONS, Operation, is_nan

__all__ = ["LineMismatch", "Malformed", "Report", "check_lines", "fields", "situation"]

Array = npt.NDArray[Any]

_CHUNK = 1 << 16
_HEXADECIMAL = re.compile(r"(0[xX])?[0-9a-fA-F]+")


class Malformed(ValueError):
    """A line that is no case, with its number; the command line exits with 2."""


@dataclass(frozen=True)
class LineMismatch:
    """One line whose result is wrong."""

    line: int
    operands: tuple[int, ...]
    got: int | None  #: None where the line has operands alone
    want: int
    situation: str


@dataclass
class Report:
    """What a comparison found."""

    operation: str
    formats: tuple[Format, ...]
    projection: Projection
    lines: int = 0
    wrong: int = 0
    unanswered: int = 0
    situations: Counter[str] = field(default_factory=Counter)
    mismatches: list[LineMismatch] = field(default_factory=list)

    def as_text(self) -> str:
        """For people: the first mismatches, then the sum."""
        parts = [self._explain(mismatch) for mismatch in self.mismatches]
        if self.wrong > len(self.mismatches):
            parts.append(f"... and {self.wrong - len(self.mismatches):,} more")
        parts.append(self._sum())
        return "\n".join(parts)

    def _explain(self, mismatch: LineMismatch) -> str:
        sources, target = self.formats[:-1], self.formats[-1]
        lines = [f"line {mismatch.line}:"]
        for code, fmt in zip(mismatch.operands, sources, strict=True):
            lines.append(f"    operand {_shown(code, fmt)}")
        lines.append(f"    got     {'nothing' if mismatch.got is None else _shown(mismatch.got, target)}")
        lines.append(f"    want    {_shown(mismatch.want, target)}")
        lines.append(f"            {mismatch.situation}; {self.projection}")
        return "\n".join(lines)

    def _sum(self) -> str:
        if not self.lines:
            return "nothing was compared"
        if not self.wrong:
            return f"{self.lines:,} line{'s' if self.lines > 1 else ''} agree{'' if self.lines > 1 else 's'}"
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in self.situations.most_common())
        none = f"; {self.unanswered:,} have no result" if self.unanswered else ""
        return f"{self.wrong:,} of {self.lines:,} lines differ: {kinds}{none}"

    def as_json(self) -> str:
        """For machines."""
        target = self.formats[-1]
        return json.dumps(
            {
                "schema": "lowprec.compare/1",
                "lowprec": __version__,
                "operation": self.operation,
                "formats": [fmt.name for fmt in self.formats],
                "rounding": str(self.projection.rounding),
                "saturation": str(self.projection.saturation),
                "lines": self.lines,
                "wrong": self.wrong,
                "unanswered": self.unanswered,
                "situations": dict(self.situations.most_common()),
                "mismatches": [
                    {
                        "line": one.line,
                        "operands": [_hex(code, fmt) for code, fmt in zip(one.operands, self.formats, strict=False)],
                        "got": None if one.got is None else _hex(one.got, target),
                        "want": _hex(one.want, target),
                        "situation": one.situation,
                    }
                    for one in self.mismatches
                ],
            },
            indent=1,
        )


def check_lines(
    lines: Iterable[str],
    operation: str,
    formats: tuple[Format, ...],
    projection: Projection = DEFAULT,
    *,
    any_nan: bool = False,
    limit: int | None = 20,
) -> Report:
    """Recompute every line and report those whose result is wrong.

    Parameters
    ----------
    lines : iterable of str
        Operands and result, hexadecimal codes apart by blanks. Empty lines and lines that begin
        with # or // are passed over.
    operation, formats, projection
        As for `vectors.suite`.
    any_nan : bool
        Take any NaN where a NaN is right.
    limit : int, optional
        How many mismatches to keep; None keeps all.

    Raises
    ------
    Malformed
        A line that is no case: words that are no codes of their format, or too few or many.
    """
    chosen = OPERATIONS[operation]
    report = Report(operation, formats, projection)
    numbered = enumerate(lines, 1)
    while chunk := list(itertools.islice(numbered, _CHUNK)):
        parsed = list(_parse(chunk, chosen, formats))
        if parsed:
            _compare(parsed, chosen, formats, projection, report, any_nan, limit)
    return report


def _parse(
    chunk: list[tuple[int, str]], operation: Operation, formats: tuple[Format, ...]
) -> Iterator[tuple[int, list[int]]]:
    """Line numbers and codes; -1 for a result that is missing."""
    wanted = operation.operands + 1
    for number, line in chunk:
        words = line.split()
        if not words or words[0].startswith(("#", "//")):
            continue
        if not wanted - 1 <= len(words) <= wanted:
            raise Malformed(
                f"line {number} has {len(words)} words, but {operation.name} needs {operation.operands} operand(s) "
                f"and a result: {line.strip()!r}"
            )
        codes = []
        for word, fmt in zip(words, formats, strict=False):
            if not _HEXADECIMAL.fullmatch(word):
                raise Malformed(f"line {number} holds {word!r}, which is no hexadecimal number")
            code = int(word, 16)
            if not 0 <= code < 1 << fmt.width:
                raise Malformed(f"line {number} holds {word!r}, which is no {fmt.width}-bit code of {fmt.name!r}")
            codes.append(code)
        yield number, codes if len(codes) == wanted else [*codes, -1]


def _compare(
    parsed: list[tuple[int, list[int]]],
    operation: Operation,
    formats: tuple[Format, ...],
    projection: Projection,
    report: Report,
    any_nan: bool,
    limit: int | None,
) -> None:
    target = formats[-1]
    columns = list(zip(*(codes for _, codes in parsed), strict=True))
    operands = [
        np.array(column, dtype=f"u{max(8, 1 << (fmt.width - 1).bit_length()) // 8}")
        for column, fmt in zip(columns[:-1], formats, strict=False)
    ]
    got = np.array(columns[-1], dtype=np.int64)
    try:
        want = operation.compute(operands, formats, projection).astype(np.int64)
    except ValueError as error:
        raise Malformed(f"between line {parsed[0][0]} and line {parsed[-1][0]}: {error}") from None
    wrong = got != want
    if any_nan:
        answered = np.where(got < 0, 0, got).astype(np.uint64)
        wrong &= ~((got >= 0) & is_nan(answered, target) & is_nan(want.astype(np.uint64), target))
    report.lines += len(parsed)
    report.wrong += int(wrong.sum())
    report.unanswered += int((got < 0).sum())
    for index in np.flatnonzero(wrong):
        number, codes = parsed[index]
        kind = situation(codes[:-1], operation.name, formats, projection)
        report.situations[kind] += 1
        if limit is None or len(report.mismatches) < limit:
            result = None if codes[-1] < 0 else codes[-1]
            report.mismatches.append(LineMismatch(number, tuple(codes[:-1]), result, int(want[index]), kind))


def situation(operands: list[int], operation: str, formats: tuple[Format, ...], projection: Projection) -> str:
    """Where the exact result lies between the values of its format.

    >>> from lowprec.spec.catalog import BINARY32, E4M3FN
    >>> situation([0x3F880000], "convert", (BINARY32, E4M3FN), DEFAULT)
    'at a tie'
    """
    assert operation == "convert"
    value, target = decode(operands[0], formats[0]), formats[-1]
    if value in (Special.NAN, Special.NEGATIVE_NAN):
        return "NaN operand"
    if value in (Special.INFINITY, Special.NEGATIVE_INFINITY):
        return "infinite operand"
    if isinstance(value, Special) or value == 0:
        return "zero operand"
    tail, last = position(abs(value), target)
    if tail is None:
        return "beyond the next value after the largest" if last else "below the smallest value"
    half = Fraction(1, 2)
    kind = "exact" if not tail else "at a tie" if tail == half else "below a tie" if tail < half else "above a tie"
    return f"{kind}, past the largest value" if last and tail else kind


def fields(code: int, fmt: Format) -> str:
    """A code's bits, split into sign, exponent field and trailing bits.

    >>> from lowprec.spec.catalog import E4M3FN
    >>> fields(0x7E, E4M3FN)
    '0 1111 110'
    """
    text = f"{code:0{fmt.width}b}"
    sign = fmt.width - fmt.exponent_bits - fmt.trailing_bits
    parts = (text[:sign], text[sign : sign + fmt.exponent_bits], text[sign + fmt.exponent_bits :])
    return " ".join(part for part in parts if part)


def _hex(code: int, fmt: Format) -> str:
    return f"{code:0{hex_digits(fmt)}x}"


def _shown(code: int, fmt: Format) -> str:
    value = to_float(decode(code, fmt))
    exact = hex_float(value)
    shown = decimal(value)
    return f"{_hex(code, fmt)}  {fields(code, fmt)}  {shown}{'' if exact == shown else f' = {exact}'}"
