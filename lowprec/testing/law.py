"""What a law is, what comes of trying one, and how a counterexample is told.

Floor 5. Imports the standard library only.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

__all__ = ["LAWS", "Counterexample", "Law", "Outcome", "Report", "Verdict", "law", "shown_code", "shown_value"]

Topic = Literal["format", "operation", "blocks"]


@dataclass(frozen=True, slots=True)
class Counterexample:
    """Where a law does not hold: what was given, what came of it, what should have; a label and a text each."""

    rows: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        size = max(len(label) for label, _ in self.rows)
        return "\n".join(f"    {label:{size}}  {text}" for label, text in self.rows)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What trying a law gives: how many cases, and the smallest that breaks it."""

    tried: int
    found: Counterexample | None = None


@dataclass(frozen=True, slots=True)
class Law:
    """A truth about numbers that formats, functions or blocks keep.

    Parameters
    ----------
    name : str
    topic : {"format", "operation", "blocks"}
        What it is about.
    domain : str
        Where it holds, in words.
    statement : str
        The truth, in words.
    check : function
        Tries it on a subject.
    applies : function
        Whether it says anything about a subject.
    """

    name: str
    topic: Topic
    domain: str
    statement: str
    check: Callable[[Any], Outcome]
    applies: Callable[[Any], bool]


#: Every law by name, in the order of documents and tables.
LAWS: dict[str, Law] = {}


def law(
    name: str, topic: Topic, domain: str, applies: Callable[[Any], bool] = lambda subject: True
) -> Callable[[Callable[[Any], Outcome]], Callable[[Any], Outcome]]:
    """Make a function a law; its docstring is the statement."""

    def enter(check: Callable[[Any], Outcome]) -> Callable[[Any], Outcome]:
        assert name not in LAWS, f"two laws are called {name!r}"
        statement = " ".join((inspect.getdoc(check) or "").split())
        LAWS[name] = Law(name, topic, domain, statement, check, applies)
        return check

    return enter


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a law fared with one implementation: `arrays`, `oracle`, or the user's."""

    law: Law
    path: str
    tried: int
    found: Counterexample | None

    @property
    def holds(self) -> bool:
        """Whether no counterexample was found."""
        return self.found is None


@dataclass(frozen=True, slots=True)
class Report:
    """What a check tried.

    Parameters
    ----------
    subject : str
        What was checked.
    verdicts : tuple of Verdict
        In the order of the laws.
    """

    subject: str
    verdicts: tuple[Verdict, ...]

    @property
    def broken(self) -> tuple[Verdict, ...]:
        """The laws that do not hold."""
        return tuple(verdict for verdict in self.verdicts if not verdict.holds)

    @property
    def tried(self) -> int:
        """Cases in all."""
        return sum(verdict.tried for verdict in self.verdicts)

    def __str__(self) -> str:
        if not self.broken:
            return f"{self.subject} keeps all {len({v.law.name for v in self.verdicts})} laws in {self.tried:,} cases"
        return message(self)

    def __repr__(self) -> str:
        said = f"{len(self.broken)} broken" if self.broken else "all hold"
        return f"<Report of {self.subject}: {len(self.verdicts)} checks, {self.tried:,} cases, {said}>"

    def as_json(self) -> dict[str, Any]:
        """Plain data, as `lowprec check-format --json` prints it."""
        return {
            "schema": "lowprec.check/1",
            "subject": self.subject,
            "tried": self.tried,
            "holds": not self.broken,
            "laws": [
                {
                    "law": verdict.law.name,
                    "statement": verdict.law.statement,
                    "domain": verdict.law.domain,
                    "path": verdict.path,
                    "tried": verdict.tried,
                    "holds": verdict.holds,
                    "counterexample": None if verdict.found is None else dict(verdict.found.rows),
                }
                for verdict in self.verdicts
            ],
        }


def message(report: Report) -> str:
    """The first broken law in full, and the names of the others."""
    first = report.broken[0]
    lines = [
        f"{report.subject} breaks the law {first.law.name!r} ({first.path})",
        f"  law     {first.law.statement}",
        f"  domain  {first.law.domain}",
        "  smallest counterexample",
        str(first.found),
    ]
    others = list(dict.fromkeys(f"{verdict.law.name} ({verdict.path})" for verdict in report.broken[1:]))
    if others:
        count = f"{len(others)} other laws" if len(others) > 1 else "one other law"
        lines.append(f"  {count} broken too: {', '.join(others)}")
    return "\n".join(lines)


def shown_value(value: float) -> str:
    """A number in decimal and in hexadecimal.

    >>> shown_value(0.1), shown_value(float("nan"))
    ('0.1 = 0x1.999999999999ap-4', 'nan')
    """
    number = float(value)
    if number != number:
        return "-nan" if math.copysign(1.0, number) < 0 else "nan"
    if math.isinf(number):
        return str(number)
    return f"{number!r} = {number.hex()}"


def shown_code(code: int, width: int, fields: Sequence[int] = ()) -> str:
    """A code in hexadecimal and its bits, split into fields of these widths.

    >>> shown_code(0x7E, 8, (1, 4, 3))
    '0x7e  0 1111 110'
    """
    if not 0 <= code < 1 << width:
        return f"{code}, which is no code of {width} bits"
    bits, parts = f"{code:0{width}b}", []
    for field in fields or (width,):
        parts.append(bits[:field])
        bits = bits[field:]
    return f"0x{code:0{-(-width // 4)}x}  {' '.join(part for part in parts if part)}"
