"""The conformance matrix as a page: what each framework does, where it differs and why, from a real run.

The page holds nothing but what a run gives: no dates and no times, so that the same versions give the
same page, and rows of the frameworks that are installed can be checked against it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from lowprec.export import markdown
from lowprec.verify.conform.conformance import Finding, Row, flushing
from lowprec.verify.frameworks import FRAMEWORKS
from lowprec.verify.frameworks.tasks import KINDS, Blocks

_INTRODUCTION = """\
# What frameworks do, held against the reference

This page is written by `lowprec conform --markdown -o docs/conformance.md`. `lowprec conform --against
docs/conformance.md` runs the same again and compares the sections of the frameworks that are installed, in
the versions of this page.

A row is one task of one framework: a cast from a source type to a format, an operation on codes of a format,
or blocks with their scales. Its inputs are every tie, threshold, border and special (above 16 bits: at the
ends of binades), all 16-bit inputs, all pairs of 8-bit codes, and random bit patterns; where a library takes
one number at a time, some of these. *differ* is the sum of the counts beside the kinds: codes that are not
the reference's under the rounding and saturation that the framework was asked for, and codes that change with
the place, a strided view or flushing; an input may count twice. Each kind has an input that shows it, the
smallest unless place or view matters: its bits, its value, what the framework gives and what the reference
gives. Where the framework gives several codes for one input, *got* has all of them: `a or b` in different
places of an array, `a, strided b` where it gives b in a strided view, and `a, flushed b` where it gives b
while the process flushes subnormals to zero. The numbers of reasons are those below the table.

*profile* is the one of `lowprec.profiles` that reproduces most of these inputs. With *all*, `lp.encode(x,
fmt, profile=...)` gives what the framework's cast gives; a share says of how many inputs that is true; with
*none* no profile does better than the reference. A profile may cover fewer inputs than a framework takes:
ONNX's evaluator cuts to 2-, 4- and 8-bit integers and wraps beyond their range, which no projection says. Its
profiles are true within the range, and these casts are not tested here.
"""


def page(rows: Iterable[Row]) -> str:
    """Return the whole page."""
    rows = list(rows)
    sections = [
        _section(name, list(group)) for name, group in itertools.groupby(rows, lambda row: row.framework)
    ]
    kinds = [
        "## Kinds of difference",
        "",
        "The first three are asked again on some cases; of the others the first that holds counts.",
        "",
    ]
    kinds += [f"- **{kind}**: {meaning}." for kind, meaning in KINDS.items()]
    return (
        "\n".join([_INTRODUCTION, *_summary(rows), "", *kinds, "", *itertools.chain(*sections)]).rstrip()
        + "\n"
    )


def _summary(rows: list[Row]) -> list[str]:
    numbers = ("tasks", "inputs", "differ", "tasks that agree")
    lines = [
        *markdown.head("framework", "version", "asked for", *numbers, "kinds of difference", right=numbers)
    ]
    for name, group in itertools.groupby(rows, lambda row: row.framework):
        mine = list(group)
        kinds = {finding.kind for row in mine for finding in row.findings}
        lines.append(
            f"| [{name}](#{name}) | {mine[0].version} | {_asked(name)} | {len(mine)} "
            f"| {sum(row.tried for row in mine):,} | {sum(row.mismatches for row in mine):,} "
            f"| {sum(not row.findings for row in mine)} | "
            f"{', '.join(kind for kind in KINDS if kind in kinds) or '-'} |"
        )
    return lines


def _asked(name: str) -> str:
    """Return what a framework, and so the reference, is asked for."""
    framework = FRAMEWORKS[name]
    if framework.sources:
        return str(framework.projection)
    rules = {task.target.rule.name: task for task in framework.others() if isinstance(task, Blocks)}
    return f"scale rule {', '.join(rules)}"


def _section(name: str, rows: list[Row]) -> list[str]:
    reasons = list(dict.fromkeys(finding.known for row in rows for finding in row.findings if finding.known))
    agree = [row for row in rows if not row.findings]
    differ = [row for row in rows if row.findings]
    lines = [
        f"## {name}",
        "",
        f"{FRAMEWORKS[name].package} {rows[0].version}: `{FRAMEWORKS[name].install}`.",
        "",
    ]
    for operation, group in itertools.groupby(agree, lambda row: row.operation):
        tasks = list(group)
        pairs = ", ".join(_task(row) for row in tasks)
        tried = sum(row.tried for row in tasks)
        lines += [f"{operation}: as the reference on all of {tried:,} inputs: {pairs}.", ""]
    if differ:
        titles = (
            "operation source target inputs differ kind count operand value got want reason profile".split()
        )
        lines += markdown.head(*titles, right=("inputs", "differ", "count", "reason"))
    for row in differ:
        task = [row.operation, row.source, row.target, f"{row.tried:,}", f"{row.mismatches:,}"]
        profile = _profile(row)
        for finding in row.findings:
            lines.append(markdown.row(*task, *_cells(finding, reasons), profile))
            task, profile = [""] * 5, ""
    if differ:
        lines += ["", *(f"{number}. {reason}" for number, reason in enumerate(reasons, 1)), ""]
    return lines


def _task(row: Row) -> str:
    return _pair(row.operation, row.source, row.target)


def _pair(operation: str, source: str, target: str) -> str:
    """Name source and target, or the target alone: an operation's operands have its result's format."""
    return f"{source} to {target}" if operation in ("cast", "blocks") else target


def _cells(finding: Finding, reasons: list[str]) -> list[str]:
    reason = str(1 + reasons.index(finding.known)) if finding.known else "not known"
    return [finding.kind, f"{finding.count:,}", *(f"`{text}`" for _, text in finding.smallest.rows), reason]


def _profile(row: Row) -> str:
    if row.profile is None:
        return "none"
    if row.reproduced == row.tried:
        return f"{row.profile} (all)"
    # Never rounded up to a hundred.
    hundredths = row.reproduced * 10000 // row.tried
    return f"{row.profile} ({hundredths // 100}.{hundredths % 100:02} %)"


def changes(page: str, rows: Iterable[Row]) -> tuple[list[str], list[str]]:
    """Return where a page differs from these rows, a line for each; and the frameworks that were compared.

    Frameworks that are not among the rows, or have another version on the page, are left out, and so is
    what needs subnormals to be flushed where that cannot be done.

    Raises ValueError: a section that is cut or damaged.
    """
    with flushing() as flushes:
        left_out = () if flushes else ("flush",)
    found, compared = [], []
    for name, group in itertools.groupby(rows, lambda row: row.framework):
        mine = list(group)
        then = _read(page, name)
        try:
            if then and f" {mine[0].version}: " not in then[2]:
                continue
            said, tasks = _claims(then)
        except (ValueError, IndexError):
            raise ValueError(
                f"the page's section {name!r} is cut or damaged; write the page again with `lowprec conform "
                "--markdown -o FILE`"
            ) from None
        compared.append(f"{name} {mine[0].version}")
        now, still = _claims(_section(name, mine))
        found += [f"{name} {task}: only the page has it" for task in sorted(tasks - still)]
        found += [f"{name} {task}: the page lacks it" for task in sorted(still - tasks)]
        for task, kind in dict.fromkeys([*said, *now]):
            before, after = (claims.get((task, kind), "nothing") for claims in (said, now))
            unseen = kind in left_out or (not kind and "nothing" in (before, after))
            if task in tasks & still and before != after and not unseen:
                found.append(f"{name} {task} {kind}: the page has {before}; now it is {after}")
    return found, compared


def _read(page: str, name: str) -> list[str]:
    """Return the lines of a framework's section."""
    lines = page.splitlines()
    if f"## {name}" not in lines:
        return []
    start = lines.index(f"## {name}")
    end = next(
        (place for place in range(start + 1, len(lines)) if lines[place].startswith("## ")), len(lines)
    )
    return lines[start:end]


def _claims(section: list[str]) -> tuple[dict[tuple[str, str], str], set[str]]:
    """Return what a section says of each task and kind of difference, or of the task alone; and its tasks."""
    claims: dict[tuple[str, str], str] = {}
    tasks: set[str] = set()
    task = ""
    reasons = dict(line.split(". ", 1) for line in section if line[:1].isdigit())
    for line in section:
        if ": as the reference on all of " in line:
            operation, pairs = line.removesuffix(".").split(": as the reference on all of ")
            tasks |= {f"{operation} {pair}" for pair in pairs.split(" inputs: ")[1].split(", ")}
        elif line.startswith("| ") and not line.startswith("| operation "):
            operation, source, target, inputs, _, kind, *cells, reason, profile = line[2:-2].split(" | ")
            if operation:
                task = f"{operation} {_pair(operation, source, target)}"
                tasks.add(task)
                claims[task, ""] = f"{inputs} inputs, profile {profile}"
            claims[task, kind] = f"{' '.join(cells)} ({reasons.get(reason, reason)})"
    return claims, tasks
