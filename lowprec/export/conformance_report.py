"""A conformance run as text for people, and as a test report for servers that run tests.

The text has what is new first, then known differences with their reasons, and ends with what to do next.
"""

from __future__ import annotations

import itertools
import re
import shlex
import textwrap
from collections.abc import Iterable, Iterator, Sequence

from lowprec.spec.naming import plain, plain_lines
from lowprec.verify.compare.report_pages import junit
from lowprec.verify.conform.conformance import Finding, Row

#: Columns of the text; most terminals, and logs of CI, show as many.
_WIDTH = 100
#: Of a task's columns in the list of every task.
_TASK, _NUMBER = 36, 14


def as_text(rows: Sequence[Row], *, everything: bool = False, next_steps: Sequence[str] = ()) -> str:
    """Return the text of a run: new differences, known differences, every row if asked for, and the sum.

    No line is longer than 100 columns.

    >>> from lowprec.verify.conform.conformance import Row
    >>> print(as_text([Row("mine", "1.0", "float32", "e4m3fn", 1000)]))
    mine 1.0: all of 1 task agree, on 1,000 inputs
    <BLANKLINE>
    1 task, 1,000 inputs: 0 differ from the reference, 0 of them beyond the known divergences

    Parameters
    ----------
    rows : sequence of Row
    everything : bool
        Whether tasks that agree are listed too, a line for each task.
    next_steps : sequence of str
        Lines that end the text, under "Next:".
    """
    parts = [*_new(rows), *_known(rows), *(_every(rows) if everything else ()), *_sum(rows)]
    if next_steps:
        parts += ["", "Next:", *next_steps]
    return plain_lines("\n".join(parts))


def _new(rows: Sequence[Row]) -> Iterator[str]:
    """Yield what is in no reviewed list: each row in full, with its cause."""
    new = [row for row in rows if row.unexplained]
    if not new:
        return
    yield f"New differences, which are in no reviewed list, in {_count(len(new), 'task')}:"
    yield ""
    for row in new:
        head = f"{_name(row)}, {_task(row)}: {row.mismatches:,} of {row.tried:,} inputs differ"
        yield from _wrapped(head, 0)
        for finding in row.findings:
            mark = f"{finding.kind}{'*' * bool(finding.known)} {finding.count:,}"
            yield from _wrapped(f"{mark}: {_smallest(finding)}", 4)
        for cause in row.causes[:1]:
            yield from _wrapped(f"explained by {cause}", 4)
        yield ""


def _known(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a line for each framework, and below it its known differences by their reasons."""
    said = False
    for _, group in itertools.groupby(rows, _name):
        mine = list(group)
        differ = sum(bool(row.findings) for row in mine)
        inputs = sum(row.tried for row in mine)
        tasks = f"all of {_count(len(mine), 'task')} agree" if not differ else ""
        tasks = tasks or f"{len(mine) - differ:,} of {_count(len(mine), 'task')} agree"
        yield f"{_name(mine[0])}: {tasks}, on {inputs:,} inputs"
        reasons: dict[tuple[str, str], list[tuple[Row, Finding]]] = {}
        for row in mine:
            for finding in row.findings:
                if finding.known:
                    reasons.setdefault((finding.kind, finding.known), []).append((row, finding))
        for (kind, why), cases in reasons.items():
            count = sum(finding.count for _, finding in cases)
            yield from _wrapped(f"{kind}* {count:,}: {why}", 2)
            yield from _wrapped(_tasks(cases), 6)
            row, finding = cases[0]
            one = f"in {_task(row)}, " if len(cases) > 1 else ""
            yield from _wrapped(f"smallest {one}{_smallest(finding)}", 6)
            said = True
        yield ""
    if said:
        yield "* known: reviewed, for the reason given"
        yield ""


def _tasks(cases: Iterable[tuple[Row, Finding]]) -> str:
    """Return tasks with their counts; targets that follow each other share their operation and source."""
    parts = []
    alike = itertools.groupby(cases, key=lambda case: (case[0].operation, case[0].source, _own(case[0])))
    for (operation, source, own), group in alike:
        lead = operation if own else f"{source} to"
        lead = f"blocks of {lead}" if operation == "blocks" else lead
        parts.append(f"{lead} {', '.join(f'{row.target} {finding.count:,}' for row, finding in group)}")
    return "; ".join(parts)


def _every(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a line for each task."""
    yield f"{'every task':<{_TASK}}{'inputs':>{_NUMBER}}{'differ':>{_NUMBER}}  of what kind"
    for row in rows:
        kinds = ", ".join(f"{finding.kind}{'*' * bool(finding.known)}" for finding in row.findings)
        task = f"{row.framework} {_task(row)}"
        numbers = f"{row.tried:>{_NUMBER},}{f'{row.mismatches:,}' if row.findings else '-':>{_NUMBER}}"
        if len(task) > _TASK:
            yield task
            task = ""
        column = _TASK + 2 * _NUMBER + 2
        lines = textwrap.wrap(kinds, _WIDTH - column) or [""]
        yield f"{task:<{_TASK}}{numbers}  {lines[0]}".rstrip()
        yield from (" " * column + line for line in lines[1:])
    yield ""


def _sum(rows: Sequence[Row]) -> Iterator[str]:
    tried, differ = sum(row.tried for row in rows), sum(row.mismatches for row in rows)
    beyond = sum(row.unexplained for row in rows)
    yield from _wrapped(
        f"{_count(len(rows), 'task')}, {tried:,} inputs: {differ:,} differ from the reference, "
        f"{beyond:,} of them beyond the known divergences",
        0,
    )


def _own(row: Row) -> bool:
    """Return whether a task is an operation, whose operands have its result's format."""
    return row.operation not in ("cast", "blocks")


def _task(row: Row) -> str:
    if _own(row):
        return f"{row.operation} {row.target}"
    return f"{'blocks of ' * (row.operation == 'blocks')}{row.source} to {row.target}"


def _name(row: Row) -> str:
    return f"{row.framework} {row.version}"


def _smallest(finding: Finding) -> str:
    """Return the smallest input, in hexadecimal without zeros at the end, and both answers."""
    text = "{value} gives {got}, not {want}".format(**dict(finding.smallest.rows))
    return re.sub(r"\.0+p", "p", re.sub(r"(\.[0-9a-f]*[1-9a-f])0+p", r"\1p", text))


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"


def _wrapped(text: str, indent: int) -> list[str]:
    """Return lines, of which the second and later ones are indented further."""
    before = " " * indent
    return textwrap.wrap(
        plain(text),
        _WIDTH,
        initial_indent=before,
        subsequent_indent=f"{before}  ",
        break_on_hyphens=False,
    )


def command_of(row: Row) -> str:
    """Return the command that tries one row alone."""
    words = ["lowprec", "conform", row.framework, "--operation", row.operation]
    words += [] if _own(row) else ["--source", row.source]
    return shlex.join([*words, "--target", row.target])


def as_junit(rows: Iterable[Row]) -> str:
    """Return a test report in JUnit's XML: a case for each task, which fails where a difference is not known.

    Needs `pip install "lowprec[report]"`.

    >>> from lowprec.verify.conform.conformance import Row
    >>> 'failures="0"' in as_junit([Row("mine", "1.0", "float32", "e4m3fn", 1000)])
    True
    """
    suites = {}
    for name, group in itertools.groupby(rows, _name):
        cases = []
        for row in group:
            text = "\n".join(_lines(row))
            failure = f"{row.unexplained:,} of {row.tried:,} inputs differ in ways that are not known"
            failed = (failure, "mismatch", text) if row.unexplained else None
            nothing = ("nothing was compared", "nothing compared", "") if not row.tried else None
            cases.append((_task(row), f"lowprec.conform.{row.framework}", failed or nothing, text))
        suites[f"lowprec conform {name}"] = cases
    return junit(suites)


def _lines(row: Row) -> Iterator[str]:
    for finding in row.findings:
        yield f"{finding.kind} {finding.count:,}: {_smallest(finding)}"
        yield f"    {'known: ' + finding.known if finding.known else 'not known'}"
    yield from (f"explained by {cause}" for cause in row.causes)
