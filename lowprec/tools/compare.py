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
from lowprec.arrays.checks import code_dtype
from lowprec.oracle.arith import exact
from lowprec.oracle.convert import decode, position
from lowprec.oracle.exact import Exact, Special, to_float
from lowprec.spec.format import Format
from lowprec.spec.projection import DEFAULT, Flag, Projection
from lowprec.tools.tabulate import decimal, hex_digits, hex_float
from lowprec.tools.vectors import OPERATIONS, Operation, check_operands, is_nan, operand_names

__all__ = ["LineMismatch", "Malformed", "Report", "check_lines", "fields", "situation"]

Array = npt.NDArray[Any]

_CHUNK = 1 << 16
_NANS = (Special.NAN, Special.NEGATIVE_NAN)
_INFINITIES = (Special.INFINITY, Special.NEGATIVE_INFINITY)
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
        names = operand_names(len(sources))
        codes = zip(names, mismatch.operands, sources, strict=True)
        said = [(name, _shown(code, fmt)) for name, code, fmt in codes]
        said.append(("got", "nothing" if mismatch.got is None else _shown(mismatch.got, target)))
        said.append(("want", _shown(mismatch.want, target)))
        said.append(("", f"{mismatch.situation}; {self.projection}"))
        width = len(names[0])
        return "\n".join([f"line {mismatch.line}:", *(f"    {name:<{width}} {what}" for name, what in said)])

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
    ValueError
        Operands that the operation does not take.
    """
    chosen = OPERATIONS[operation]
    check_operands(operation, formats)
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
    operands = [np.array(column, dtype=code_dtype(fmt)) for column, fmt in zip(columns[:-1], formats, strict=False)]
    got = np.array(columns[-1], dtype=np.int64)
    try:
        want = operation.compute(operands, formats, projection).astype(np.int64)
    except ValueError as error:
        if operation.name != "convert" and (nan := operation.gives_nan(operands, formats, projection)).any():
            number, codes = parsed[int(np.argmax(nan))]
            given = " and ".join(_hex(code, fmt) for code, fmt in zip(codes[:-1], formats, strict=False))
            raise Malformed(
                f"line {number}: {operation.name} of {given} is NaN, which {target.name!r} has no code for; leave out "
                f"such operands, as `lowprec vectors` does"
            ) from None
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
    >>> situation([0x38, 0x18], "add", (E4M3FN, E4M3FN, E4M3FN), DEFAULT)  # 1 + 2**-4
    'at a tie'
    >>> situation([0x38, 0x00], "divide", (E4M3FN, E4M3FN, E4M3FN), DEFAULT)
    'division by zero'
    """
    values = [decode(code, fmt) for code, fmt in zip(operands, formats, strict=False)]
    if operation == "convert":
        return _place(values[0], formats[-1], "operand")
    rounding = DEFAULT.rounding if projection.via else projection.rounding
    result = exact(operation, values, rounding)
    if result.value in _NANS:
        return "NaN operand" if any(value in _NANS for value in values) else "invalid operation"
    if result.signals & Flag.DIVIDE_BY_ZERO:
        return "division by zero"
    if operation == "round_to_integral" and result.value != values[0]:
        assert isinstance(values[0], Fraction)
        return f"{_tail(abs(values[0]) % 1)} between integers"
    return _place(result.value, formats[-1], "result")


def _place(value: Exact, target: Format, what: str) -> str:
    """Where a value lies between those of a format."""
    if value in _NANS:
        return f"NaN {what}"
    if value in _INFINITIES:
        return f"infinite {what}"
    if isinstance(value, Special) or value == 0:
        return f"zero {what}"
    tail, last = position(abs(value), target)
    if tail is None:
        return "beyond the next value after the largest" if last else "below the smallest value"
    return f"{_tail(tail)}, past the largest value" if last and tail else _tail(tail)


def _tail(tail: Fraction) -> str:
    half = Fraction(1, 2)
    return "exact" if not tail else "at a tie" if tail == half else "below a tie" if tail < half else "above a tie"


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
    value, bits = decode(code, fmt), f"{_hex(code, fmt)}  {fields(code, fmt)}"
    if isinstance(value, Fraction) and not fmt.exponent_bits and abs(value) > 1 << 53:
        return f"{bits}  {value}"  # an integer that may be no float64
    shown, in_hex = decimal(to_float(value)), hex_float(to_float(value))
    return f"{bits}  {shown}{'' if in_hex == shown else f' = {in_hex}'}"
