"""Frameworks held against the reference.

Floor 5.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from lowprec.tools.arguments import AGREE, DIFFER, NOTHING, deliver, frameworks_named, load, target_named
from lowprec.tools.commands.exhaustive import exhaustive_options
from lowprec.tools.commands.options import OUTPUT
from lowprec.tools.progress import progress
from lowprec.tools.terminal import say

__all__ = ["conform"]


@click.command()
@click.argument("frameworks", metavar="[FRAMEWORK]...", nargs=-1)
@click.option("--source", "sources", multiple=True, metavar="DTYPE", help="Only this source type; may be repeated.")
@click.option("--target", "targets", multiple=True, metavar="FORMAT", help="Only this target; may be repeated.")
@click.option(
    "--operation", "operations", multiple=True, metavar="NAME", help="cast, blocks, add, ...; may be repeated."
)
@click.option(
    "--values", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Own data, an .npy file of numbers."
)
@click.option(
    "--samples",
    default=1 << 20,
    show_default=True,
    type=click.IntRange(max=1 << 28),
    help="Random float32 and float64 inputs for each target.",
)
@click.option("--seed", default=0, show_default=True, help="Of the random inputs.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON (schema lowprec.conform/2).")
@click.option("--markdown", is_flag=True, help="Print the page docs/conformance.md, with the profile of every row.")
@click.option("-o", "--output", type=OUTPUT, help="A file for JSON or Markdown.")
@click.option(
    "--against",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Compare a page of --markdown with this run; exit 1 where it says something else.",
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
    """Hold the installed FRAMEWORKS against the golden reference, code by code.

    Runs their casts, operations and blocks on all ties, thresholds, borders and specials, on all
    16-bit inputs and on random bit patterns, under nearest_even and saturation none unless a framework
    is asked for something else. Exit 0: nothing beyond the known divergences (marked *); 1: something
    else differs.
    """
    from lowprec.spec.arith import OPERANDS
    from lowprec.tools import conformance, matrix
    from lowprec.tools.cases import SOURCES

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
    stale, compared = ([], [""]) if against is None else matrix.changes(against.read_text(), rows)
    if as_json or markdown:
        content = matrix.page(rows) if markdown else conformance.report(rows) + "\n"
        deliver(content.encode(), output)
    elif against is not None:
        say("\n".join(stale) or f"{against} says what these do: {', '.join(compared) or 'none'}")
    else:
        from lowprec.tools import cards

        cards.show(conformance.table(rows))
    if not compared:
        say(f"nothing was compared: {against} is about other versions", err=True)
        sys.exit(NOTHING)
    if not sum(row.tried for row in rows):
        say("nothing was compared: no framework has such a cast, or there were no values", err=True)
        sys.exit(NOTHING)
    sys.exit(DIFFER if stale or any(row.unexplained for row in rows) else AGREE)
