"""Frameworks held against the reference.

Floor 5.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from lowprec.tools.arguments import AGREE, DIFFER, NOTHING, format_named, frameworks_named, load
from lowprec.tools.commands.exhaustive import exhaustive_options
from lowprec.tools.progress import progress

__all__ = ["conform"]


@click.command()
@click.argument("frameworks", metavar="[FRAMEWORK]...", nargs=-1)
@click.option("--source", "sources", multiple=True, metavar="DTYPE", help="Only this source type; may be repeated.")
@click.option("--target", "targets", multiple=True, metavar="FORMAT", help="Only this target; may be repeated.")
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
@click.option("--json", "as_json", is_flag=True, help="Print JSON (schema lowprec.conform/1).")
@exhaustive_options
def conform(
    frameworks: tuple[str, ...],
    sources: tuple[str, ...],
    targets: tuple[str, ...],
    values: Path | None,
    samples: int,
    seed: int,
    as_json: bool,
) -> None:
    """Hold the casts of the installed FRAMEWORKs against the golden reference, code by code.

    Runs every source type and target format of each on all ties, thresholds, borders and
    specials, on all 16-bit inputs and on random bit patterns, under nearest_even and saturation
    none. Exit 0: nothing beyond the known divergences (marked *); 1: something else differs.
    """
    from lowprec.tools import conformance
    from lowprec.tools.cases import SOURCES

    chosen = frameworks_named(frameworks)
    for source in sources:
        if source not in SOURCES:
            raise click.UsageError(f"unknown source {source!r}; use one of {', '.join(SOURCES)}")
    if samples < 0 or seed < 0:
        raise click.UsageError("--samples and --seed must not be negative")
    wanted = [format_named(target) for target in targets]
    data = None if values is None else load(values)

    with progress() as watch:
        rows = list(
            conformance.run(
                chosen,
                sources=sources or None,
                targets=wanted or None,
                values=data,
                samples=samples,
                seed=seed,
                known=conformance.known_divergences(),
                watch=watch,
            )
        )
    if as_json:
        click.echo(conformance.report(rows))
    else:
        from lowprec.tools import cards

        cards.show(conformance.table(rows))
    if not sum(row.tried for row in rows):
        click.echo("nothing was compared: no framework has such a cast, or there were no values", err=True)
        sys.exit(NOTHING)
    sys.exit(DIFFER if any(row.unexplained for row in rows) else AGREE)
