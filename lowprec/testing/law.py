"""Laws, the outcomes of their checks, and reports with counterexamples."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

from lowprec.spec.codebook import Codebook
from lowprec.verify.codes.display import shown_float
from lowprec.verify.difference import Difference

Topic = Literal["format", "operation", "function", "blocks"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of a law: how many cases were tried, and the first that breaks it."""

    tried: int
    found: Difference | None = None

    @classmethod
    def broken(cls, tried: int, *rows: tuple[str, str]) -> Outcome:
        """Return the outcome of a law that a case breaks; rows are labels and texts."""
        return cls(tried, Difference(rows))

    @classmethod
    def of(cls, wrong: Any, *columns: tuple[Any, ...], tried: int | None = None) -> Outcome:
        """Return the outcome of a mask of wrong cases; the counterexample is the first of them.

        A column is (label, text), or (label, function from a number to its text, numbers of all cases).
        """
        count = wrong.size if tried is None else tried
        if not wrong.any():
            return cls(count)
        place = int(wrong.argmax())
        rows = ((label, says[0] if len(says) == 1 else says[0](says[1][place])) for label, *says in columns)
        return cls.broken(count, *rows)


def number(value: Any) -> str:
    """Return the text of a number of any float type in a counterexample."""
    return shown_float(float(value))


@dataclass(frozen=True, slots=True)
class Law:
    """A law that formats, operations, functions or blocks must keep.

    Parameters
    ----------
    name : str
    topic : {"format", "operation", "function", "blocks"}
        Kind of its subjects.
    domain : str
        Where it holds, in words.
    statement : str
        The law, in words.
    check : function
        Tries the law on a subject, the implementation under test.
    applies : function
        Whether the law applies to a subject.
    codebooks, formats : bool
        Whether a law of formats applies to codebooks, and to all other formats.
    """

    name: str
    topic: Topic
    domain: str
    statement: str
    check: Callable[[Any], Outcome]
    applies: Callable[[Any], bool]
    codebooks: bool = False
    formats: bool = True

    def concerns(self, subject: Any) -> bool:
        """Return whether the law applies to a subject."""
        served = self.codebooks if isinstance(getattr(subject, "fmt", None), Codebook) else self.formats
        return served and self.applies(subject)


Check = Callable[[Any], Outcome | Iterable[Outcome]]

#: Every law by name, in the order of documents and tables. `lowprec.testing.laws` fills it.
LAWS: dict[str, Law] = {}


def law(
    name: str,
    domain: str,
    applies: Callable[[Any], bool] = lambda subject: True,
    *,
    topic: Topic = "format",
    codebooks: bool = False,
    formats: bool = True,
) -> Callable[[Check], Check]:
    """Register a function as a law: its docstring is the statement, and the first broken outcome counts."""

    def enter(check: Check) -> Check:
        assert name not in LAWS, f"two laws are called {name!r}"
        statement = " ".join((inspect.getdoc(check) or "").split())

        @functools.wraps(check)
        def tried(subject: Any) -> Outcome:
            return _joined(check(subject))

        LAWS[name] = Law(name, topic, domain, statement, tried, applies, codebooks, formats)
        return check

    return enter


def _joined(outcomes: Outcome | Iterable[Outcome]) -> Outcome:
    tried = 0
    for outcome in [outcomes] if isinstance(outcomes, Outcome) else outcomes:
        tried += outcome.tried
        if outcome.found:
            return Outcome(tried, outcome.found)
    return Outcome(tried)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Verdict of a law on one implementation.

    Parameters
    ----------
    law : Law
    path : str
        Implementation that was tried: "arrays", "arrays with flags", "oracle", or the name of a user's own.
    tried : int
        Number of cases.
    found : Difference or None
    """

    law: Law
    path: str
    tried: int
    found: Difference | None

    @property
    def holds(self) -> bool:
        """True if no counterexample was found."""
        return self.found is None


@dataclass(frozen=True, slots=True)
class Report:
    """Report of a check.

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
        """Number of cases of all verdicts."""
        return sum(verdict.tried for verdict in self.verdicts)

    def demand(self) -> Report:
        """Return the report itself; raise an AssertionError with its text if a law is broken."""
        if self.broken:
            raise AssertionError(str(self))
        return self

    def __str__(self) -> str:
        """Return the first broken law in full, and the names of the others."""
        if not self.broken:
            return (
                f"{self.subject} keeps all {len({v.law.name for v in self.verdicts})} laws in "
                f"{self.tried:,} cases"
            )
        first = self.broken[0]
        lines = [
            f"{self.subject} breaks the law {_told(first, self.subject)}",
            f"  law     {first.law.statement}",
            f"  domain  {first.law.domain}",
            "  smallest counterexample",
            str(first.found),
        ]
        others = list(dict.fromkeys(_told(verdict, self.subject) for verdict in self.broken[1:]))
        if others:
            lines.append(f"  broken too: {', '.join(others)}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        said = f"{len(self.broken)} broken" if self.broken else "all hold"
        return f"<Report of {self.subject}: {len(self.verdicts)} checks, {self.tried:,} cases, {said}>"

    def as_json(self) -> dict[str, Any]:
        """Return plain data, as `lowprec check-format --json` prints it."""
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


def _told(verdict: Verdict, subject: str) -> str:
    """Return a law's name, with the path unless the path is the subject."""
    return f"'{verdict.law.name}'" + (f" ({verdict.path})" if verdict.path != subject else "")
