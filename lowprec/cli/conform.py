"""Frameworks held against the reference."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lowprec.cli import completing
from lowprec.cli.arguments import (
    AGREE,
    DIFFER,
    check_known,
    deliver,
    frameworks_named,
    load,
    nothing_compared,
    refuse,
    target_named,
    usage_errors,
)
from lowprec.cli.exhaustive import exhaustive_options
from lowprec.cli.options import (
    INPUT,
    OUTPUT,
    baseline_option,
    count,
    flag,
    json_option,
    junit_option,
    seed_option,
    several,
)
from lowprec.cli.terminal import progress, say

if TYPE_CHECKING:
    from lowprec.verify.conform.conformance import Row


@click.command(short_help="Compare installed frameworks with the reference.")
@click.argument("frameworks", metavar="[FRAMEWORK]...", nargs=-1, shell_complete=completing.frameworks)
@several(
    *("--source", "sources"),
    of=completing.sources,
    metavar="DTYPE",
    help="Try only casts from this type, such as float32; may be repeated. Default: all.",
)
@several(
    *("--target", "targets"),
    of=completing.targets,
    metavar="FORMAT",
    help="Try only this format or block format; may be repeated. Default: all.",
)
@several(
    *("--operation", "operations"),
    of=completing.operations,
    help="Try only this operation: cast, blocks, add, ...; may be repeated. Default: all.",
)
@click.option("--values", type=INPUT, help="Cast the numbers of this .npy file instead of the chosen inputs.")
@count(
    "--samples",
    default=1 << 20,
    type=click.IntRange(max=1 << 28),
    help="Add this number of random inputs to each cast from float32 and float64.",
)
@seed_option("the random inputs")
@json_option(" (schema lowprec.conform/2)")
@flag("--markdown", help="Print a Markdown page, as docs/conformance.md is, with the profile of every row.")
@click.option("-o", "--output", type=OUTPUT, help="Write JSON or Markdown to this file instead of printing.")
@click.option(
    "--against", type=INPUT, help="Compare a page written by --markdown with this run; exit 1 if they differ."
)
@flag("--all", "everything", help="List every task, not only those that differ.")
@baseline_option("Accept the differences of this earlier run, which --json wrote; exit 1 for others only.")
@junit_option
@exhaustive_options
def conform(
    frameworks: tuple[str, ...],
    sources: tuple[str, ...],
    targets: tuple[str, ...],
    operations: tuple[str, ...],
    values: Path | None,
    samples: int,
    seed: int,
    as_json: bool,
    markdown: bool,
    output: Path | None,
    against: Path | None,
    everything: bool,
    baseline: Path | None,
    junit: Path | None,
) -> None:
    """Compare frameworks with the reference, code by code.

    FRAMEWORK is ml_dtypes, numpy, torch, jax and the like. Default: all that are installed. Their casts,
    operations and blocks are run on all ties, thresholds, borders and specials, on all 16-bit inputs and on
    random bit patterns, with nearest_even and saturation none, except for frameworks that have other rules.
    New differences come first, then known ones (marked *) with their reasons. Exit code 0: all agree but for
    known differences; 1: something else differs.
    """
    from lowprec.checkpoints.container import read_text
    from lowprec.export import conformance_page, conformance_report
    from lowprec.spec.arith import OPERANDS
    from lowprec.verify.conform import conformance
    from lowprec.verify.conform.baseline import read_baseline
    from lowprec.verify.inputs.conversions import SOURCES

    check_known("source", sources, SOURCES)
    check_known("operation", operations, ("cast", "blocks", *OPERANDS))
    page = markdown or against is not None
    if sum((as_json, markdown, against is not None)) > 1:
        raise click.UsageError("--json, --markdown and --against exclude each other")
    if output is not None and not (as_json or markdown):
        raise click.UsageError("-o FILE needs --json or --markdown")
    if everything and (as_json or page):
        raise click.UsageError("--all is for text: --json, --markdown and --against have every task anyway")
    if baseline is not None and page:
        raise click.UsageError("--baseline does not go with --markdown and --against, which are about a page")
    with usage_errors():
        accepted = None if baseline is None else read_baseline(baseline, "conform")
        earlier = "" if against is None else read_text(against, errors="replace")
    if samples < 0 or seed < 0:
        raise click.UsageError("--samples and --seed must not be negative")
    wanted = [target_named(target) for target in targets]
    if values is not None:
        refuse("is of inputs that are made, and --values are what is cast", "samples", "seed")
    data = None if values is None else load(values)

    chosen = frameworks_named(frameworks)  # which loads them: all that can be refused before is
    with progress() as watch:
        rows = list(
            conformance.run(
                chosen,
                sources=sources or None,
                targets=wanted or None,
                operations=operations or None,
                values=data,
                samples=samples,
                seed=seed,
                known=conformance.known_divergences(),
                profiles=page,
                watch=watch,
            )
        )
    rows, gone = (rows, []) if accepted is None else accepted.excuse(rows)
    with usage_errors():
        stale, compared = ([], [""]) if against is None else conformance_page.changes(earlier, rows)
    read = [*targets, *(str(path) for path in (values, against, baseline) if path is not None)]
    if as_json or markdown:
        content = conformance_page.page(rows) if markdown else conformance.report(rows) + "\n"
        deliver(content.encode(), output, of=read)
    elif against is not None:
        say("\n".join(stale) or f"{against} says what these do: {', '.join(compared) or 'none'}")
    else:
        steps = _next(rows, whole=not (frameworks or sources or targets or operations or values))
        say(conformance_report.as_text(rows, everything=everything, next_steps=steps))
    for difference in gone:
        say(f"gone, so write the baseline again: {difference}", err=True)
    if junit is not None:
        with usage_errors((ImportError,)):
            deliver(conformance_report.as_junit(rows).encode(), junit, of=[*read, str(output or "")])
    if not compared:
        nothing_compared(f"{against} is about other versions")
    if not sum(row.tried for row in rows):
        nothing_compared("no framework has such a cast, or there were no values")
    sys.exit(DIFFER if stale or any(row.unexplained for row in rows) else AGREE)


def _next(rows: list[Row], *, whole: bool) -> list[str]:
    """Return what to do next, a command a line: about what is new, or where all is known."""
    from lowprec.export.conformance_report import command_of
    from lowprec.verify.frameworks import FRAMEWORKS

    new = [row for row in rows if row.unexplained]
    if new:
        same = " (with the options of this run)" if not whole else ""
        return [
            "  The first of them alone, with its bits:",
            f"    {command_of(new[0])} --json",
            f"  Accept these, and fail for others only{same}:",
            "    lowprec conform --json -o baseline.json",
            "    lowprec conform --baseline baseline.json",
        ]
    steps = []
    missing = {each.package for each in FRAMEWORKS.values() if each.version is None}
    if whole and missing:
        steps.append(
            f"  lowprec doctor    which {len(missing)} frameworks are missing here, and how to install them"
        )
    steps += [
        "  lowprec conform --all    every task, also those that agree",
        "  lowprec compare x.npy codes.npy --to e4m3fn    results of a cast of your own, and their cause",
    ]
    return steps
