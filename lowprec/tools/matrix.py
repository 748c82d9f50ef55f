"""The conformance matrix as a page: what each framework does, where it differs and why, from a real run.

The page holds nothing but what a run gives: no dates and no times, so that the same versions give the
same page, and rows of the frameworks that are installed can be checked against it.

Floor 5.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from lowprec.tools.conformance import Finding, Row
from lowprec.tools.frameworks import FRAMEWORKS
from lowprec.tools.tasks import KINDS

__all__ = ["changes", "page"]

_INTRODUCTION = """\
# What frameworks do, held against the reference

This page is written by `lowprec conform --markdown -o docs/conformance.md`. `lowprec conform --against
docs/conformance.md` runs the same again and compares the sections of the frameworks that are installed, in the
versions of this page.

A row is one task of one framework: a cast from a source type to a format, an operation on codes of a format,
or blocks with their scales. It is tried on every tie, threshold, border and special, on all 16-bit inputs and
all pairs of 8-bit codes, and on random bit patterns; a library that takes one number at a time, on the first of
these alone. *differ* counts the inputs whose code is not the reference's, under the rounding and saturation that
the framework was asked for. Each kind of difference comes with how often it was seen and the smallest input that
shows it: its bits, its value, what the framework gives and what the reference gives. The numbers of reasons are
those below the table.

*profile* is the one of `lowprec.profiles` that reproduces most of these inputs: *all*, or the share that it does.
`lp.encode(x, fmt, profile=...)` then gives what the framework gives.
"""


def page(rows: Iterable[Row]) -> str:
    """The whole page."""
    rows = list(rows)
    sections = [_section(name, list(group)) for name, group in itertools.groupby(rows, lambda row: row.framework)]
    kinds = ["## Kinds of difference", "", "In the order in which they are tried; the first that holds counts.", ""]
    kinds += [f"- **{kind}**: {meaning}." for kind, meaning in KINDS.items()]
    return "\n".join([_INTRODUCTION, *_summary(rows), "", *kinds, "", *itertools.chain(*sections)]).rstrip() + "\n"


def _summary(rows: list[Row]) -> list[str]:
    lines = [
        _line(
            "framework, version, asked for, tasks, inputs, differ, tasks that agree, kinds of difference".split(", ")
        ),
        "|---|---|---|--:|--:|--:|--:|---|",
    ]
    for name, group in itertools.groupby(rows, lambda row: row.framework):
        mine = list(group)
        kinds = {finding.kind for row in mine for finding in row.findings}
        lines.append(
            f"| [{name}](#{name}) | {mine[0].version} | {FRAMEWORKS[name].projection} | {len(mine)} "
            f"| {sum(row.tried for row in mine):,} | {sum(row.mismatches for row in mine):,} "
            f"| {sum(not row.findings for row in mine)} | {', '.join(kind for kind in KINDS if kind in kinds) or '-'} |"
        )
    return lines


def _section(name: str, rows: list[Row]) -> list[str]:
    reasons = list(dict.fromkeys(finding.known for row in rows for finding in row.findings if finding.known))
    agree = [row for row in rows if not row.findings]
    differ = [row for row in rows if row.findings]
    lines = [f"## {name}", "", f"{FRAMEWORKS[name].package} {rows[0].version}: `{FRAMEWORKS[name].install}`.", ""]
    for operation, group in itertools.groupby(agree, lambda row: row.operation):
        tasks = list(group)
        pairs = ", ".join(_task(row) for row in tasks)
        tried = sum(row.tried for row in tasks)
        lines += [f"{operation}: as the reference on all of {tried:,} inputs: {pairs}.", ""]
    if differ:
        lines += [
            _line("operation source target inputs differ kind count operand value got want reason profile".split()),
            "|---|---|---|--:|--:|---|--:|---|---|---|---|--:|---|",
        ]
    for row in differ:
        head = [row.operation, row.source, row.target, f"{row.tried:,}", f"{row.mismatches:,}"]
        profile = _profile(row)
        for finding in row.findings:
            lines.append(_line([*head, *_cells(finding, reasons), profile]))
            head, profile = [""] * 5, ""
    if differ:
        lines += ["", *(f"{number}. {reason}" for number, reason in enumerate(reasons, 1)), ""]
    return lines


def _task(row: Row) -> str:
    return row.target if row.operation not in ("cast", "blocks") else f"{row.source} to {row.target}"


def _cells(finding: Finding, reasons: list[str]) -> list[str]:
    reason = str(1 + reasons.index(finding.known)) if finding.known else "not known"
    words = (finding.operand, finding.value, finding.got, finding.want)
    return [finding.kind, f"{finding.count:,}", *(f"`{word}`" for word in words), reason]


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _profile(row: Row) -> str:
    if row.profile is None:
        return "none"
    if row.reproduced == row.tried:
        return f"{row.profile} (all)"
    # Never rounded up to a hundred.
    hundredths = row.reproduced * 10000 // row.tried
    return f"{row.profile} ({hundredths // 100}.{hundredths % 100:02} %)"


def changes(page: str, rows: Iterable[Row]) -> list[str]:
    """What a page says of the frameworks of some rows that a page of these rows does not say, and the reverse.

    Frameworks that are not among the rows, or have another version there, are left out.
    """
    from difflib import unified_diff

    rows = list(rows)
    found = []
    for name, group in itertools.groupby(rows, lambda row: row.framework):
        now = _section(name, list(group))
        then = _read(page, name)
        head = f"{FRAMEWORKS[name].package} {FRAMEWORKS[name].version}:"
        if then and not then[2].startswith(head):
            continue
        found += [line for line in unified_diff(then, now, "the page", f"now: {name}", n=0, lineterm="")]
    return found


def _read(page: str, name: str) -> list[str]:
    """The lines of a framework's section."""
    lines = page.splitlines()
    if f"## {name}" not in lines:
        return []
    start = lines.index(f"## {name}")
    end = next((place for place in range(start + 1, len(lines)) if lines[place].startswith("## ")), len(lines))
    section = lines[start:end]
    while section and not section[-1]:
        section.pop()
    return [*section, ""]
