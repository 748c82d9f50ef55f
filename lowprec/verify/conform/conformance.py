"""Conformance: what frameworks answer held against the golden reference, code by code.

Every difference is put into one kind, each a hypothesis about what the framework did that is
tested on the very input (`tasks.KINDS`). Three more questions are asked of every task: does the code
depend on the place in the array, on the array being a strided view, and on whether the process flushes
subnormals? Divergences that are known and explained are a reviewed file, tables/divergences.toml; anything
beyond it fails the run.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec import __version__
from lowprec.spec.block import BlockFormat
from lowprec.spec.format import Format
from lowprec.spec.profiles import INSTRUCTIONS, PROFILES, Profile
from lowprec.spec.projection import Projection
from lowprec.verify.compare.judging import judge
from lowprec.verify.conform.baseline import Divergence, known_divergences
from lowprec.verify.difference import Difference
from lowprec.verify.frameworks.base import Answer, Framework
from lowprec.verify.frameworks.tasks import (
    KINDS,
    Asked,
    Blocks,
    Cast,
    Operands,
    Task,
    comparable,
    is_zero,
    shown,
)
from lowprec.verify.questions.elements.elements import ElementQuestion
from lowprec.verify.questions.question import Change, Changes, Question, differ

__all__ = ["Divergence", "Finding", "KINDS", "Row", "compare", "flushing"]
__all__ += ["known_divergences", "report", "run"]

Array = npt.NDArray[Any]

#: Of how many special operands the place is varied, and how often each is repeated: whole vectors and a rest.
_SPECIALS, _REPEATED = 32, 67
#: Among how many operands a row is asked whether it rounds twice.
_WIDELY = 1 << 16
#: Operands that are tried with subnormals flushed.
_TINY = 4096

#: Elements that are a thread's share of an operation of torch.
_SHARE = 1 << 15


@dataclass(frozen=True)
class Finding:
    """The differences of one kind in one row, with the smallest input that shows it."""

    kind: str
    count: int
    smallest: Difference  #: its operand's bits in hexadecimal, its value, got and want
    known: str | None = None  #: why, from the reviewed file

    def as_json(self) -> dict[str, Any]:
        """Return plain data, in a fixed order."""
        return {
            "kind": self.kind,
            "count": self.count,
            "smallest": dict(self.smallest.rows),
            "known": self.known,
        }


@dataclass(frozen=True)
class Row:
    """Counts of a framework's task: an operation, the operands' type and the target format."""

    framework: str
    version: str
    source: str
    target: str
    tried: int
    findings: tuple[Finding, ...] = ()
    operation: str = "cast"
    profile: str | None = None  #: the one that reproduces most of what was tried, if that was asked for
    reproduced: int = 0  #: how many inputs that is
    causes: tuple[str, ...] = ()  #: hypotheses that explain differences beyond the known ones, the best first

    @property
    def mismatches(self) -> int:
        """Inputs whose code differs, or depends on what it should not depend on."""
        return sum(finding.count for finding in self.findings)

    @property
    def unexplained(self) -> int:
        """Those among them that the reviewed file does not list."""
        return sum(finding.count for finding in self.findings if finding.known is None)

    def as_json(self) -> dict[str, Any]:
        """Return plain data, in a fixed order."""
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
        operands = (
            (values.reshape(-1),) if values is not None else task.operands(samples, seed, framework.few)
        )
        yield compare(framework, task, answer, operands, known, own=values is not None, profiles=profiles)


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
    why: bool = True,
) -> Row:
    """Compare one task of a framework with the reference, on given operands.

    Unless these are one's `own`, the sparse cases of the task are asked again: in other places, with
    `strided` in strided views, and with `flush` while the process flushes subnormals. With `why` the cause is
    looked for of differences that are not known.
    """
    asking = _Asking(framework, task, answer)
    operands = asking.answerable(operands)
    given = asking.ask(tuple(side.copy() for side in operands))  # who answers may write on them
    want = asking.right(operands)
    row = Row(
        framework.name,
        framework.version or "",
        task.source,
        task.target.name,
        len(want),
        operation=task.operation,
    )
    varied = operands if own else asking.answerable(task.operands(0, 0, few=True))
    found = [
        *asking.depends_on_place(varied, strided),
        *(asking.depends_on_flushing(varied) if flush else ()),
        *asking.differs(operands, given, want),
    ]
    row = replace(
        row,
        findings=tuple(
            replace(
                finding, known=next((entry.why for entry in known if entry.covers(row, finding.kind)), None)
            )
            for finding in found
        ),
    )
    if row.unexplained and why:
        row = replace(row, causes=asking.causes(operands, given))
    if profiles and row.mismatches:
        name, reproduced = asking.best_profile(operands, given)
        row = replace(row, profile=name, reproduced=reproduced)
    return row


class _Asking:
    """A framework asked one task: its answers, and the right ones in the same form.

    Answers are codes, bits of values, or rows of codes of blocks.
    """

    def __init__(self, framework: Framework, task: Task, answer: Answer) -> None:
        self.framework, self.task, self.answer = framework, task, answer
        self.dtype: np.dtype[Any] = np.dtype(np.uint8)  #: of the answers, from the first on

    def ask(self, operands: Operands) -> Array:
        """Return what the framework answers."""
        given = self.answer(*operands)
        self.dtype = given.dtype if given.dtype.kind in "iu" else np.dtype(np.float64)
        return comparable(given)

    def question(self, operands: Operands, projection: Projection, given: Array | None = None) -> Question:
        """Return the question about operands, with answers such as were given, or these."""
        if isinstance(self.task, Blocks):
            return self.task.question(operands, given)
        results = np.zeros(operands[0].shape, self.dtype) if given is None else given.view(self.dtype)
        return self.task.question(operands, projection, results)

    def answerable(self, operands: Operands) -> Operands:
        """Return the cases that have an answer: no NaN where the format has none."""
        if isinstance(self.task, Blocks):
            return operands
        question = self.task.question(operands, self.framework.projection)
        kept = question.compared(question.piece(0, question.size))
        return operands if kept is None else _part(operands, kept)

    def right(self, operands: Operands, changes: Changes = ()) -> Array:
        """Return the right answers, or those under changes."""
        if isinstance(self.task, Blocks):
            return self.task.answers(operands, changes)
        question = self.question(operands, self.framework.projection)
        assert isinstance(question, ElementQuestion)
        return self._like_theirs(question.answer(question.piece(0, question.size), changes))

    def _like_theirs(self, answers: Array) -> Array:
        return comparable(answers.view(self.dtype)) if self.dtype.kind == "f" else answers

    def differ(self, operands: Operands, got: Array, want: Array) -> Array:
        """Return where answers differ."""
        if got.ndim > 1:
            return np.asarray((got != want).any(axis=-1))
        return differ(self.question(operands, self.framework.projection), got, want)

    def finding(
        self,
        kind: str,
        count: int,
        operands: Operands,
        got: Iterable[Any],
        want: Array,
        between: str = " or ",
    ) -> Finding:
        """Return a finding, of the operands of one case and what was answered, once or in several ways."""
        said = between.join(shown(answer, self.task.target, self.dtype) for answer in got)
        bits, value = self.task.show(operands)
        right = shown(want[0], self.task.target, self.dtype)
        return Finding(
            kind,
            count,
            Difference((("operand", bits), ("value", value), ("got", said), ("want", right)), kind),
        )

    def differs(self, operands: Operands, got: Array, want: Array) -> Iterator[Finding]:
        """Yield what differs from the reference, by kind."""
        different = np.flatnonzero(self.differ(operands, got, want))
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
        """Return cases, and ways to ask again about them."""

        def again(operands: Operands = operands, **fields: Any) -> Array:
            return self.right(operands, tuple(Change(field, value, "") for field, value in fields.items()))

        values = self.dtype.kind == "f"
        zeros = is_zero(got, self.task.target, values) & is_zero(want, self.task.target, values)
        return Asked(operands, got, want, again, self.ask, zeros, "float32" in self.framework.sources)

    def depends_on_place(self, operands: Operands, strided: bool) -> Iterator[Finding]:
        """Yield special operands whose code depends on place: alone, among others, or in a strided view."""
        special, nan = self.task.special(operands), np.isnan(self.task.size(operands))
        places = np.concatenate([_some(special & nan, _SPECIALS // 2), _some(special & ~nan, _SPECIALS // 2)])
        chosen = _part(operands, places)
        if not len(chosen[0]):
            return
        each = np.arange(len(chosen[0]))
        many = self.ask(_part(chosen, np.repeat(each, _REPEATED)))
        alone = [self.ask(_part(chosen, [place])) for place in each]
        among = self.ask(tuple(column.copy() for column in operands))[places]
        seen = [
            np.unique(np.concatenate(codes), axis=0)
            for codes in zip(np.split(many, each.size), alone, np.split(among, each.size), strict=True)
        ]
        found = [place for place in each if len(seen[place]) > 1]
        if found:
            one = _part(chosen, found[:1])
            yield self.finding("place", len(found), one, seen[found[0]], self.right(one))
        if not strided:
            return
        spread = self.ask(tuple(np.repeat(column, 2, axis=0)[::2] for column in chosen))
        found = [place for place in each if not _among(spread[place], seen[place])]
        if found:
            one = _part(chosen, found[:1])
            answers = [*alone[found[0]], spread[found[0]]]
            yield self.finding(
                "strided view", len(found), one, answers, self.right(one), between=", strided "
            )

    def depends_on_flushing(self, operands: Operands) -> Iterator[Finding]:
        """Yield operands whose code is another in a process that flushes subnormals to zero."""
        chosen = _part(operands, _some(self.task.tiny(operands), _TINY // 8 if self.framework.few else _TINY))
        if not len(chosen[0]):
            return
        usual = self.ask(chosen)
        with flushing() as flushes:
            if not flushes:
                return
            given = self.answer(*chosen)
        flushed = comparable(given)
        here = np.flatnonzero((flushed != usual).reshape(len(usual), -1).any(axis=1))
        if here.size:
            smallest = here[[np.argmin(self.task.rank(chosen)[here])]]
            one = _part(chosen, smallest)
            answers = [*usual[smallest], *flushed[smallest]]  # flushing may also make a wrong code right
            yield self.finding("flush", here.size, one, answers, self.right(one), between=", flushed ")

    def causes(self, operands: Operands, given: Array) -> tuple[str, ...]:
        """Return the causes of differences, the best first, as `lowprec.compare` finds them.

        Of blocks whose tensors have a scale those of the first tensor are looked at.
        """
        if isinstance(self.task, Blocks) and len(operands) > 1:
            first = operands[1] == operands[1][0]
            operands, given = _part(operands, first), given[first]
        report = judge(self.question(operands, self.framework.projection, given), limit=0)
        return tuple(
            f"{cause.words}: {cause.explained:,} of {report.mismatches:,}"
            for cause in (report.diagnosis.causes if report.diagnosis else ())
        )

    def best_profile(self, operands: Operands, got: Array) -> tuple[str | None, int]:
        """Return the profile that gives most of the codes: the framework's own if there are several."""
        best: tuple[str | None, int] = (None, 0)
        exact = [name for name in PROFILES if name == self.framework.name]
        alike = [name for name in reversed([*PROFILES]) if name.startswith(self.framework.name)]
        for name in dict.fromkeys([*exact, *alike, *(each for each in PROFILES if each not in INSTRUCTIONS)]):
            try:
                codes = self._under(PROFILES[name], operands)
            except ValueError:  # it has no such format, or refuses an operand
                continue
            if codes is None:
                continue
            same = len(got) - int(self.differ(operands, codes, got).sum())
            if same > best[1]:
                best = name, same
            if same == len(got):
                break
        return best

    def _under(self, profile: Profile, operands: Operands) -> Array | None:
        """Return the answers under a profile; None if it rounds stochastically, or lacks some operand's."""
        if isinstance(self.task, Blocks):
            return self.task.answers(operands, (Change("profile", profile, ""),))
        rule = profile.projection(self.task.target)
        if rule.rounding.bits:
            return None
        question = self.question(operands, rule)
        assert isinstance(question, ElementQuestion)
        batch = question.piece(0, question.size)
        compared = question.compared(batch)
        return (
            None if compared is not None and not compared.all() else self._like_theirs(question.answer(batch))
        )


def _part(operands: Operands, where: Any) -> Operands:
    return tuple(column[where] for column in operands)


def _among(answer: Array, seen: Array) -> bool:
    return bool((seen == answer).reshape(len(seen), -1).all(axis=1).any())


def _some(where: Array, most: int) -> Array:
    """Return places, evenly, of at most so many."""
    places = np.flatnonzero(where)
    return places if places.size <= most else places[np.linspace(0, places.size - 1, most).astype(np.int64)]


def report(rows: Iterable[Row]) -> str:
    """Return the rows as JSON: schema lowprec.conform/2, keys in a fixed order."""
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


# -- subnormals --------------------------------------------------------------------------------------


@contextlib.contextmanager
def flushing() -> Iterator[bool]:
    """Let this thread flush subnormals to zero, operands and results, as torch.set_flush_denormal does.

    Gives whether it does: not without torch, nor on processors where torch cannot. Afterwards all is as
    before.

    >>> with flushing() as set_:
    ...     halved = np.float32(1e-38) / np.float32(2)
    >>> bool(halved == 0) == set_
    True
    """
    if importlib.util.find_spec("torch") is None:
        yield False
        return
    import torch

    before = _flushes()
    _begin_threads(torch.get_num_threads())
    try:
        yield bool(torch.set_flush_denormal(True))
    finally:
        torch.set_flush_denormal(before)


@functools.cache
def _begin_threads(count: int) -> None:
    """Let threads of torch begin, by a long operation: they keep the mode in which they began."""
    import torch

    torch.zeros(count * _SHARE).add_(1)


def _flushes() -> bool:
    smallest = np.array([1], np.uint32).view(np.float32)
    return not (smallest * np.float32(1))[0]
