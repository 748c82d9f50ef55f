"""Conformance: what frameworks answer held against the golden reference, code by code.

Every difference is put into one kind, each a hypothesis about what the framework did that is
tested on the very input (`tasks.KINDS`). Three more questions are asked of every task: does the code
depend on the place in the array, on the array being a strided view, and on whether the process flushes
subnormals? Divergences that are known and explained are a reviewed file, tables/divergences.toml; anything
beyond it fails the run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Group, RenderableType
from rich.table import Table

from lowprec import __version__
from lowprec.spec.block import BlockFormat
from lowprec.spec.format import Format
from lowprec.spec.profiles import PROFILES
from lowprec.spec.projection import Projection
from lowprec.verify.divergences import Divergence, known_divergences
from lowprec.verify.environment import flushing
from lowprec.verify.frameworks.base import Answer, Framework
from lowprec.verify.tasks import KINDS, Asked, Blocks, Cast, Operands, Task, as_values, comparable, is_zero, shown

__all__ = [
    "KINDS",
    "Divergence",
    "Finding",
    "Row",
    "compare",
    "compare_casts",
    "known_divergences",
    "report",
    "run",
    "table",
]

Array = npt.NDArray[Any]

#: Of how many special operands the place is varied, and how often each is repeated: whole vectors and a rest.
_SPECIALS, _REPEATED = 32, 67
#: Among how many operands a row is asked whether it rounds twice.
_WIDELY = 1 << 16
#: Operands that are tried with subnormals flushed.
_TINY = 4096


@dataclass(frozen=True)
class Finding:
    """The differences of one kind in one row, with the smallest input that shows it."""

    kind: str
    count: int
    operand: str  #: bits in hexadecimal
    value: str
    got: str
    want: str
    known: str | None = None  #: why, from the reviewed file

    def as_json(self) -> dict[str, Any]:
        """As plain data, in a fixed order."""
        return {
            "kind": self.kind,
            "count": self.count,
            "smallest": {"operand": self.operand, "value": self.value, "got": self.got, "want": self.want},
            "known": self.known,
        }


@dataclass(frozen=True)
class Row:
    """One task of one framework: an operation, the operands' type and the target format."""

    framework: str
    version: str
    source: str
    target: str
    tried: int
    findings: tuple[Finding, ...] = ()
    operation: str = "cast"
    profile: str | None = None  #: the one that reproduces most of what was tried, if that was asked for
    reproduced: int = 0  #: how many inputs that is

    @property
    def mismatches(self) -> int:
        """Inputs whose code differs, or depends on what it should not depend on."""
        return sum(finding.count for finding in self.findings)

    @property
    def unexplained(self) -> int:
        """Those among them that the reviewed file does not list."""
        return sum(finding.count for finding in self.findings if finding.known is None)

    def as_json(self) -> dict[str, Any]:
        """As plain data, in a fixed order."""
        return {
            "framework": self.framework,
            "version": self.version,
            "operation": self.operation,
            "source": self.source,
            "target": self.target,
            "tried": self.tried,
            "mismatches": self.mismatches,
            "unexplained": self.unexplained,
            "findings": [finding.as_json() for finding in self.findings],
        }


def run(
    frameworks: Iterable[Framework],
    *,
    sources: Iterable[str] | None = None,
    targets: Iterable[Format | BlockFormat] | None = None,
    operations: Iterable[str] | None = None,
    values: Array | None = None,
    samples: int = 1 << 20,
    seed: int = 0,
    known: Iterable[Divergence] = (),
    profiles: bool = False,
    watch: Callable[[int, int, str], None] | None = None,
) -> Iterator[Row]:
    """Compare every task of the frameworks with the reference, one row after the other.

    Parameters
    ----------
    frameworks : iterable of Framework
    sources, targets, operations : optional
        Only these; by default all that a framework has.
    values : array, optional
        Own data, instead of the cases: casts from its type alone are tried then.
    samples, seed : int
        Random float32 and float64 bit patterns beside the cases.
    known : iterable of Divergence
    profiles : bool
        Whether rows that differ name the profile that reproduces most of them.
    watch : function, optional
        Called with the rows done, the rows in all, and the row under way.
    """
    formats = None if targets is None else [getattr(target, "name", target) for target in targets]
    chosen = None if sources is None else set(sources)
    doings = None if operations is None else set(operations)
    if values is not None:
        name = values.dtype.name
        chosen = {name} if chosen is None else chosen & {name}
        doings = {"cast"} if doings is None else doings & {"cast"}
    jobs = [
        (framework, task, answer)
        for framework in frameworks
        for task, answer in framework.tasks().items()
        if (formats is None or task.target.name in formats)
        and (chosen is None or task.source in chosen)
        and (doings is None or task.operation in doings)
    ]
    known = tuple(known)
    for done, (framework, task, answer) in enumerate(jobs):
        if watch is not None:
            watch(done, len(jobs), f"{framework.name} {task.operation} {task.source} to {task.target.name}")
        operands = (values.reshape(-1),) if values is not None else task.operands(samples, seed, framework.few)
        yield compare(framework, task, answer, operands, known, own=values is not None, profiles=profiles)


def compare_casts(
    framework: Framework, source: str, target: Format, values: Array, known: Iterable[Divergence] = ()
) -> Row:
    """Compare one cast of a framework with the reference, on given values of the source type."""
    task = Cast(source, target)

    def answer(values: Array) -> Array:
        return framework.cast(values, target)

    return compare(framework, task, answer, (np.asarray(values).reshape(-1),), known)


def compare(
    framework: Framework,
    task: Task,
    answer: Answer,
    operands: Operands,
    known: Iterable[Divergence] = (),
    *,
    own: bool = True,
    flush: bool = True,
    strided: bool = True,
    profiles: bool = False,
) -> Row:
    """Compare one task of a framework with the reference, on given operands.

    Unless these are one's `own`, the sparse cases of the task are asked again: in other places, with `strided` in
    strided views, and with `flush` while the process flushes subnormals.
    """
    operands = _part(operands, task.allowed(operands, framework.projection))
    given = answer(*(side.copy() for side in operands))  # who answers may write on them
    subject = _Subject(framework, task, answer, given.dtype.kind == "f")
    got, want = comparable(given, task.target), subject.reference(operands)
    row = Row(
        framework.name, framework.version or "", task.source, task.target.name, len(want), operation=task.operation
    )
    varied = operands
    if not own:
        varied = task.operands(0, 0, few=True)
        varied = _part(varied, task.allowed(varied, framework.projection))
    found = [
        *subject.depends_on_place(varied, strided),
        *(subject.depends_on_flushing(varied) if flush else ()),
        *subject.differs(operands, got, want),
    ]
    row = replace(
        row,
        findings=tuple(
            replace(finding, known=next((entry.why for entry in known if entry.covers(row, finding.kind)), None))
            for finding in found
        ),
    )
    if profiles and row.mismatches:
        name, reproduced = subject.best_profile(operands, got)
        row = replace(row, profile=name, reproduced=reproduced)
    return row


@dataclass
class _Subject:
    """A framework's answer to one task, and the reference's in the same form."""

    framework: Framework
    task: Task
    answer: Answer
    values: bool  #: whether the framework answers with values, not codes

    def reference(self, operands: Operands, projection: Projection | None = None) -> Array:
        """What the reference answers, comparable."""
        return self._like_theirs(self.task.reference(operands, projection or self.framework.projection))

    def _like_theirs(self, codes: Array) -> Array:
        return as_values(codes, self.task.target) if self.values else codes  # type: ignore[arg-type]

    def theirs(self, operands: Operands) -> Array:
        """What the framework answers, comparable."""
        return comparable(self.answer(*operands), self.task.target)

    def finding(
        self, kind: str, count: int, operands: Operands, got: Iterable[Any], want: Array, between: str = " or "
    ) -> Finding:
        """A finding, of the operands of one case and what was answered, once or in several ways."""
        target, values = self.task.target, self.values
        said = between.join(shown(answer, target, values) for answer in got)
        return Finding(kind, count, *self.task.show(operands), said, shown(want[0], target, values))

    def differs(self, operands: Operands, got: Array, want: Array) -> Iterator[Finding]:
        """What differs from the reference, by kind."""
        different = np.flatnonzero(_differ(got, want))
        if not different.size:
            return
        tests = self.task.kinds(self.asked(_part(operands, different), got[different], want[different]))
        if isinstance(self.task, Cast) and tests["double rounding"].any():
            some = _some(np.ones(len(got), bool), _WIDELY)
            if not self.task.rounds_twice(self.asked(_part(operands, some), got[some], want[some])):
                del tests["double rounding"]
        never = np.zeros(different.size, bool)
        kinds = np.argmax([*(tests.get(kind, never) for kind in [*KINDS][:-1]), ~never], axis=0)
        rank = self.task.rank(_part(operands, different))
        for number, kind in enumerate(KINDS):
            here = np.flatnonzero(kinds == number)
            if here.size:
                one = different[here[[np.argmin(rank[here])]]]
                yield self.finding(kind, here.size, _part(operands, one), got[one], want[one])

    def asked(self, operands: Operands, got: Array, want: Array) -> Asked:
        """Cases, and ways to ask again about them."""

        def again(operands: Operands = operands, **changes: Any) -> Array:
            return self.reference(operands, replace(self.framework.projection, **changes))

        zeros = is_zero(got, self.task.target, self.values) & is_zero(want, self.task.target, self.values)
        return Asked(operands, got, want, again, self.theirs, zeros, "float32" in self.framework.sources)

    def depends_on_place(self, operands: Operands, strided: bool) -> Iterator[Finding]:
        """Special operands whose code is another alone, somewhere among others, or in a strided view."""
        special, nan = self.task.special(operands), np.isnan(self.task.size(operands))
        places = [_some(special & nan, _SPECIALS // 2), _some(special & ~nan, _SPECIALS // 2)]
        chosen = _part(operands, np.concatenate(places))
        if not len(chosen[0]):
            return
        each = np.arange(len(chosen[0]))
        many = self.theirs(_part(chosen, np.repeat(each, _REPEATED)))
        alone = [self.theirs(_part(chosen, [place])) for place in each]
        seen = [
            np.unique(np.concatenate(codes), axis=0) for codes in zip(np.split(many, each.size), alone, strict=True)
        ]
        found = [place for place in each if len(seen[place]) > 1]
        if found:
            one = _part(chosen, found[:1])
            yield self.finding("place", len(found), one, seen[found[0]], self.reference(one))
        if not strided:
            return
        spread = self.theirs(tuple(np.repeat(column, 2, axis=0)[::2] for column in chosen))
        found = [place for place in each if _differ(seen[place], spread[place]).all()]
        if found:
            one = _part(chosen, found[:1])
            answers = [*alone[found[0]], spread[found[0]]]
            yield self.finding("strided view", len(found), one, answers, self.reference(one), between=", strided ")

    def depends_on_flushing(self, operands: Operands) -> Iterator[Finding]:
        """Operands whose code is another in a process that flushes subnormals to zero."""
        chosen = _part(operands, _some(self.task.tiny(operands), _TINY // 8 if self.framework.few else _TINY))
        if not len(chosen[0]):
            return
        usual = self.theirs(chosen)
        with flushing() as flushes:
            if not flushes:
                return
            given = self.answer(*chosen)
        flushed = comparable(given, self.task.target)
        here = np.flatnonzero(_differ(flushed, usual))
        if here.size:
            smallest = here[[np.argmin(self.task.rank(chosen)[here])]]
            one = _part(chosen, smallest)
            answers = [*usual[smallest], *flushed[smallest]]  # flushing may also make a wrong code right
            yield self.finding("flush", here.size, one, answers, self.reference(one), between=", flushed ")

    def best_profile(self, operands: Operands, got: Array) -> tuple[str | None, int]:
        """The profile that gives most of the codes: the framework's own if there are several."""
        best: tuple[str | None, int] = (None, 0)
        exact = [name for name in PROFILES if name == self.framework.name]
        alike = [name for name in reversed([*PROFILES]) if name.startswith(self.framework.name)]
        for name in dict.fromkeys([*exact, *alike, *PROFILES]):
            profile = PROFILES[name]
            try:
                if isinstance(self.task, Blocks):
                    codes = self.task.under(operands, {"profile": name})
                elif profile.projection(self.task.target).rounding.bits:
                    continue
                else:
                    codes = self._like_theirs(self.task.reference(operands, profile.projection(self.task.target)))
            except ValueError:  # it has no such format, or refuses an operand
                continue
            same = len(got) - int(_differ(codes, got).sum())
            if same > best[1]:
                best = name, same
            if same == len(got):
                break
        return best


def _part(operands: Operands, where: Any) -> Operands:
    return tuple(column[where] for column in operands)


def _differ(got: Array, want: Array) -> Array:
    different = np.asarray(got != want)
    return np.asarray(different.any(axis=-1)) if different.ndim > 1 else different


def _some(where: Array, most: int) -> Array:
    """Places, evenly, of at most so many."""
    places = np.flatnonzero(where)
    return places if places.size <= most else places[np.linspace(0, places.size - 1, most).astype(np.int64)]


def report(rows: Iterable[Row]) -> str:
    """The rows as JSON: schema lowprec.conform/2, keys in a fixed order."""
    found = [row.as_json() for row in rows]
    return json.dumps(
        {
            "schema": "lowprec.conform/2",
            "lowprec": __version__,
            "tried": sum(row["tried"] for row in found),
            "mismatches": sum(row["mismatches"] for row in found),
            "unexplained": sum(row["unexplained"] for row in found),
            "rows": found,
        },
        indent=1,
    )


def table(rows: Iterable[Row]) -> RenderableType:
    """The rows as a table to read, with a line that sums them up."""
    rows = list(rows)
    grid = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("framework", "operation", "source", "target"):
        grid.add_column(name, no_wrap=True)
    for name in ("tried", "differ"):
        grid.add_column(name, justify="right", no_wrap=True)
    grid.add_column("of what kind (* known): count, smallest operand, got, want", overflow="fold")
    for row in rows:
        found = [
            f"{finding.kind}{'*' if finding.known else ''} {finding.count:,}: "
            f"{finding.value} [{finding.got}, want {finding.want}]".replace("[", r"\[")
            for finding in row.findings
        ]
        style = "red" if row.unexplained else None
        grid.add_row(
            f"{row.framework} {row.version}",
            row.operation,
            row.source,
            row.target,
            f"{row.tried:,}",
            f"{row.mismatches:,}" if row.mismatches else "-",
            "\n".join(found),
            style=style,
        )
    reasons = dict.fromkeys(finding.known for row in rows for finding in row.findings if finding.known)
    tried, differ = sum(row.tried for row in rows), sum(row.mismatches for row in rows)
    beyond = sum(row.unexplained for row in rows)
    summary = (
        f"{len(rows)} tasks, {tried:,} inputs: {differ:,} differ from the reference, "
        f"{beyond:,} of them beyond the known divergences"
    )
    return Group(grid, "", *(f"* {reason}" for reason in reasons), "", summary)
