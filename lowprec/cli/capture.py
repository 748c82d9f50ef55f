"""Captures: scripts that ask somebody's machine, and what their files say."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lowprec.cli.arguments import (
    AGREE,
    DIFFER,
    FAILED,
    NOTHING,
    deliver,
    product_named,
    profile_named,
    refuse,
    usage_errors,
)
from lowprec.cli.options import count, flag, output_option, seed_option, several

if TYPE_CHECKING:
    from lowprec.verify.capture.reading import Capture, CapturedQuestion
    from lowprec.verify.compare.report import Comparison

#: What the comparison of one question takes instead of what the capture expects.
_INSTEAD = ("accumulation", "profile", "rounding", "saturation", "ulps")


@click.command(short_help="Write a script that asks a GPU or CPU, for compare and identify.")
@flag("--list", "listed", help="List what can be captured, and where that has been run, instead.")
@several(
    *("--only", "names"),
    help="Ask this question only, or those of a pattern such as 'cast_*'; may be repeated. Default: all.",
)
@seed_option("operands")
@count(
    "--count",
    default=1024,
    type=click.IntRange(16, 1 << 16),
    help="Add this number of random operands to each conversion, and aim this number of dot products.",
)
@output_option
def capture(listed: bool, names: tuple[str, ...], seed: int, count: int, output: Path | None) -> None:
    """Write a Python script that captures what casts and dot products give on another machine.

    \b
    lowprec capture -o capture.py
    python capture.py --out capture.npz     (there: needs NumPy and torch, and no lowprec)
    lowprec compare capture.npz             (here: all of it, against what is expected)
    lowprec compare capture.npz:NAME        (one question, in full)
    lowprec identify --rows capture.npz:NAME

    The script asks torch's casts and products of matrices, and on NVIDIA GPUs the instructions cvt and
    mma.sync. Operands are aimed as those of `lowprec vectors` are. What a machine lacks is skipped, and the
    file says why.
    """  # noqa: D301
    from lowprec.verify.capture.calls import chosen, written

    if listed:
        refuse("is of the script, which --list does not write", "seed", "count", "output")
    with usage_errors():
        questions = chosen(names)
    if not listed:
        words = [*(f"--only {name}" for name in names), f"--seed {seed}", f"--count {count}"]
        deliver(written(questions, count, seed, " ".join(["lowprec capture", *words])), output)
        return
    from lowprec.export import cards

    table = cards.columns("question", "asks", "run on", fold=("asks",))
    for question in questions:
        table.add_row(question.name, question.words, question.run_on)
    cards.show(table)


def compare_question(spelled: str, asked: dict[str, Any], **options: Any) -> Comparison:
    """Return the report of FILE.npz:NAME."""
    from lowprec.verify.capture.reading import read_question

    _refuse_others(asked)
    given = {name: asked[name] for name in _INSTEAD if asked[name] is not None}
    for name, of in (("accumulation", product_named), ("profile", profile_named)):
        given |= {name: of(given[name])} if name in given else {}
    return read_question(spelled).compare(**given, **options)


def _refuse_others(asked: dict[str, Any]) -> None:
    refuse("is for other files, and a capture says what it holds", *(set(asked) - set(_INSTEAD)))


def compare_capture(
    path: str,
    asked: dict[str, Any],
    *,
    as_json: bool,
    why: bool,
    watch: Callable[[int, int, str], None] | None,
    limit: int | None,
    junit: Path | None,
    **any_nan: bool,
) -> int:
    """Compare and print all questions of a capture, and return the exit code.

    `any_nan`, if it is given, replaces what the capture says itself. The JUnit report has a case for each
    question with an expectation. A question that this lowprec does not know all of is named, and not judged.
    """
    from lowprec.verify.capture.reading import read_capture
    from lowprec.verify.compare.report_pages import case_of, junit as as_suites

    _refuse_others(asked)
    refuse("is for one question of a capture, FILE.npz:NAME", *_INSTEAD)
    held = read_capture(path)
    reports: dict[str, Comparison | str] = {}
    for name, question in held.questions.items():
        if question.skipped:
            continue
        expected = question.expects is not None
        try:
            reports[name] = question.compare(limit=limit, why=why and expected, watch=watch, **any_nan)
        except ValueError as error:
            # Such as an accumulation that only a newer lowprec knows, or none that gives this format.
            reports[name] = str(error)
    wanted = [report for name, report in reports.items() if held.questions[name].expects is not None]
    judged = [report for report in wanted if not isinstance(report, str)]
    differ = sum(bool(report.mismatches) for report in judged)
    if junit is not None:
        cases = [
            (name, "lowprec.compare", (report, "not judged", report), "")
            if isinstance(report, str)
            else case_of(report, name)
            for name, report in reports.items()
            if held.questions[name].expects is not None
        ]
        deliver(as_suites({"lowprec compare": cases}), junit, of=[path])
    if as_json:
        deliver(_json(held, reports) + "\n")
    else:
        _show(held, reports, len(wanted), differ)
    if not wanted:
        return NOTHING
    return DIFFER if differ else FAILED if len(judged) < len(wanted) else AGREE


def _json(held: Capture, reports: dict[str, Comparison | str]) -> str:
    questions = []
    for name, question in held.questions.items():
        report = reports.get(name)
        said = {"name": name, "expects": question.expects, "skipped": question.skipped or None}
        said["report"] = None if report is None or isinstance(report, str) else report.as_dict()
        said["not_judged"] = report if isinstance(report, str) else None
        questions.append(said)
    about = {"machine": dict(held.machine), "script": dict(held.script)}
    return json.dumps({"schema": "lowprec.compare_capture/1", **about, "questions": questions}, indent=1)


def _show(held: Capture, reports: dict[str, Comparison | str], wanted: int, differ: int) -> None:
    from rich.console import Group
    from rich.markup import escape

    from lowprec.export import cards
    from lowprec.spec.naming import plain
    from lowprec.verify.capture.reading import shortened

    names = ("question", "expected", "rows", "differ", "cause")
    table = cards.columns(*names, right=names[2:4], fold=(names[1], names[4]))
    untold = {name: report for name, report in reports.items() if isinstance(report, str)}
    untold = {name: why for name, why in untold.items() if _is_unknown(held.questions[name])}
    for name, report in reports.items():
        question = held.questions[name]
        if name in untold:
            continue
        if isinstance(report, str) or question.expects is None:
            told = report if isinstance(report, str) else _nearest(report)
            cells, wrong = ["-", f"{len(question.output):,}", "-", told], False
        else:
            wrong = bool(report.mismatches)
            count = f"{report.mismatches:,}" if wrong else "-"
            cells = [_expected(question), f"{report.compared:,}", count, _cause(report)]
        table.add_row(*(escape(plain(cell)) for cell in (name, *cells)), style="red" if wrong else None)
    skipped: dict[str, list[str]] = {}
    for name, question in held.questions.items():
        if question.skipped:
            skipped.setdefault(question.skipped, []).append(name)
    lines = [f"not judged: {why}" for why in untold.values()]
    lines += [f"skipped ({len(names)}), {why}: {shortened(names)}" for why, names in skipped.items()]
    kinds = [held.machine.get(key) for key in ("device", "architecture", "driver")]
    kinds += [f"torch {held.machine.get('torch')}", held.machine.get("cuda") or held.machine.get("hip")]
    about = ", ".join(str(each) for each in kinds if each)
    counts = f"{len(reports)} questions answered, {len(held.questions) - len(reports)} skipped"
    counts += f", {len(untold)} not judged" if untold else ""
    verdict = f"of {wanted} with an expectation {differ or 'none'} {'differs' if differ == 1 else 'differ'}"
    told_last = [escape(plain(line)) for line in (*lines, f"{counts}; {verdict}")]
    cards.show(Group(escape(plain(about)), "", table, "", *told_last))


def _is_unknown(question: CapturedQuestion) -> bool:
    """Return whether a question could not be compared for a name that is not known here."""
    return bool(question.unread) or question.expects is not None


def _expected(question: CapturedQuestion) -> str:
    said = question.expects or {}
    if "projection" in said:
        return ", ".join(str(value) for value in said["projection"].values())
    how = str(said.get("profile") or said.get("accumulation"))
    how += f", then {said['output']}" if "output" in said else ""
    return f"{how}, any order" if said.get("ulps") == "auto" else how


def _cause(report: Comparison) -> str:
    if not report.mismatches:
        return ""
    return report.cause.words if report.cause else "unexplained"


def _nearest(report: Comparison) -> str:
    if not report.ranking:
        return f"nothing was expected; {report.sum()}"
    first = report.ranking[0]
    return f"nothing was expected; nearest: {first.name}, {first.share:.1%}"
