"""Frameworks held against the reference."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lowprec.cli.arguments import AGREE, DIFFER, NOTHING, deliver, frameworks_named, load, target_named
from lowprec.cli.exhaustive import exhaustive_options
from lowprec.cli.options import OUTPUT, seed_option
from lowprec.cli.progress import progress
from lowprec.cli.terminal import say

if TYPE_CHECKING:
    from lowprec.verify.conformance import Row

__all__ = ["conform"]


@click.command(short_help="Compare installed frameworks with the reference.")
@click.argument("frameworks", metavar="[FRAMEWORK]...", nargs=-1)
@click.option(
    "--source",
    "sources",
    multiple=True,
    metavar="DTYPE",
    help="Try only casts from this type, such as float32; may be repeated. Default: all.",
)
@click.option(
    "--target",
    "targets",
    multiple=True,
    metavar="FORMAT",
    help="Try only this format or block format; may be repeated. Default: all.",
)
@click.option(
    "--operation",
    "operations",
    multiple=True,
    metavar="NAME",
    help="Try only this operation: cast, blocks, add, ...; may be repeated. Default: all.",
)
@click.option(
    "--values",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Cast the numbers of this .npy file instead of the chosen inputs.",
)
@click.option(
    "--samples",
    default=1 << 20,
    show_default=True,
    type=click.IntRange(max=1 << 28),
    metavar="N",
    help="Add this number of random inputs to each cast from float32 and float64.",
)
@seed_option("the random inputs")
@click.option(
    "--json", "as_json", is_flag=True, help="Print JSON instead of text (schema lowprec.conform/2)."
)
@click.option(
    "--markdown",
    is_flag=True,
    help="Print a Markdown page, as docs/conformance.md is, with the profile of every row.",
)
@click.option("-o", "--output", type=OUTPUT, help="Write JSON or Markdown to this file instead of printing.")
@click.option(
    "--against",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Compare a page written by --markdown with this run; exit 1 if they differ.",
)
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
) -> None:
    """Compare frameworks with the reference, code by code.

    FRAMEWORK is ml_dtypes, numpy, torch, jax and the like. Default: all that are installed. Their casts,
    operations and blocks are run on all ties, thresholds, borders and specials, on all 16-bit inputs and on
    random bit patterns, with nearest_even and saturation none, except for frameworks that have other rules.
    Exit code 0: all agree but for known divergences (marked *); 1: something else differs.
    """
    from lowprec.export import conformance_page
    from lowprec.spec.arith import OPERANDS
    from lowprec.verify import conformance
    from lowprec.verify.inputs.conversions import SOURCES

    chosen = frameworks_named(frameworks)
    for source in sources:
        if source not in SOURCES:
            raise click.UsageError(f"unknown source {source!r}; use one of {', '.join(SOURCES)}")
    for operation in operations:
        if operation not in ("cast", "blocks", *OPERANDS):
            names = ", ".join(("cast", "blocks", *OPERANDS))
            raise click.UsageError(f"unknown operation {operation!r}; use one of {names}")
    if sum((as_json, markdown, against is not None)) > 1:
        raise click.UsageError("--json, --markdown and --against exclude each other")
    if output is not None and not (as_json or markdown):
        raise click.UsageError("-o FILE needs --json or --markdown")
    if samples < 0 or seed < 0:
        raise click.UsageError("--samples and --seed must not be negative")
    wanted = [target_named(target) for target in targets]
    data = None if values is None else load(values)

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
                profiles=markdown or against is not None,
                watch=watch,
            )
        )
    stale, compared = ([], [""]) if against is None else conformance_page.changes(against.read_text(), rows)
    if as_json or markdown:
        content = conformance_page.page(rows) if markdown else conformance.report(rows) + "\n"
        deliver(content.encode(), output)
    elif against is not None:
        say("\n".join(stale) or f"{against} says what these do: {', '.join(compared) or 'none'}")
    else:
        _show(rows)
    if not compared:
        say(f"nothing was compared: {against} is about other versions", err=True)
        sys.exit(NOTHING)
    if not sum(row.tried for row in rows):
        say("nothing was compared: no framework has such a cast, or there were no values", err=True)
        sys.exit(NOTHING)
    sys.exit(DIFFER if stale or any(row.unexplained for row in rows) else AGREE)


def _show(rows: list[Row]) -> None:
    """Print the rows as a table, the reasons of known divergences, and a line that sums them up."""
    from rich.console import Group
    from rich.markup import escape

    from lowprec.export import cards

    kinds = "of what kind (* known): count, smallest operand, got, want"
    numbers = ("tried", "differ")
    grid = cards.columns(
        "framework", "operation", "source", "target", *numbers, kinds, right=numbers, fold=(kinds,)
    )
    for row in rows:
        found = [
            f"{finding.kind}{'*' if finding.known else ''} {finding.count:,}: "
            + escape("{value} [{got}, want {want}]".format(**dict(finding.smallest.rows)))
            for finding in row.findings
        ]
        grid.add_row(
            f"{row.framework} {row.version}",
            row.operation,
            row.source,
            row.target,
            f"{row.tried:,}",
            f"{row.mismatches:,}" if row.mismatches else "-",
            "\n".join([*found, *(f"explained by {escape(cause)}" for cause in row.causes[:1])]),
            style="red" if row.unexplained else None,
        )
    reasons = dict.fromkeys(finding.known for row in rows for finding in row.findings if finding.known)
    tried, differ = sum(row.tried for row in rows), sum(row.mismatches for row in rows)
    beyond = sum(row.unexplained for row in rows)
    summary = (
        f"{len(rows)} tasks, {tried:,} inputs: {differ:,} differ from the reference, "
        f"{beyond:,} of them beyond the known divergences"
    )
    cards.show(Group(grid, "", *(f"* {reason}" for reason in reasons), "", summary))
