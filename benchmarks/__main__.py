"""The command: `python -m benchmarks`, in a checkout."""

from __future__ import annotations

import sys
from typing import Any

import click

from benchmarks.contest import WrongResult
from benchmarks.run import plan, run
from lowprec.cli.arguments import DIFFER, format_named
from lowprec.export import cards
from lowprec.spec.catalog import block_format, is_block

__all__ = ["main"]


@click.command()
@click.argument("topics", metavar="[TOPIC]...", nargs=-1)
@click.option(
    "--format",
    "names",
    multiple=True,
    metavar="FORMAT",
    help="Time only this format or block format; may be repeated. Default: those of each topic.",
)
@click.option(
    "--size",
    "sizes",
    multiple=True,
    type=click.IntRange(1, 1 << 28),
    metavar="N",
    help="Time arrays of N elements, for matmul square matrices of N rows; may be repeated. "
    "Default: those of each topic.",
)
@click.option(
    "--data",
    "kinds",
    multiple=True,
    metavar="KIND",
    help="Time this kind of data: normal, hard, subnormal or nan; may be repeated. Default: those of "
    "each topic.",
)
@click.option(
    "--threads",
    default=1,
    show_default=True,
    type=click.IntRange(min=1),
    metavar="N",
    help="Run lowprec, torch and the copy of memory with this number of threads.",
)
@click.option(
    "--budget",
    default=1.0,
    show_default=True,
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="Spend about this time on each row.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text (schema lowprec.bench/1).")
def main(names: tuple[str, ...], budget: float, as_json: bool, **asked: Any) -> None:
    """Time lowprec beside the fastest installed library that does the same, and beside copying as many bytes.

    TOPIC is cast, decode, quantize, modes, stochastic, f64, small, block, arith, matmul, threads or import.
    Default: all of them. Products of matrices (matmul) stand beside np.matmul. Exit code 1: a result of
    lowprec is wrong, and is not timed.
    """
    try:
        formats = [block_format(name) if is_block(name) else format_named(name) for name in names]
        jobs = plan(formats=formats, **asked)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    click.echo(f"{len(jobs)} rows", err=True)
    try:
        report = run(jobs, budget=budget)
    except WrongResult as error:
        click.echo(error, err=True)
        sys.exit(DIFFER)
    if as_json:
        click.echo(report.as_json())
    else:
        cards.show(report.table())


if __name__ == "__main__":
    main(prog_name="python -m benchmarks")
