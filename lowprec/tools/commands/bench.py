"""Benchmarks.

Floor 5.
"""

from __future__ import annotations

import sys
from typing import Any

import click

from lowprec.cli.arguments import DIFFER, deliver, format_named
from lowprec.cli.progress import progress
from lowprec.cli.terminal import say

__all__ = ["bench"]


@click.command(short_help="Measure the speed beside that of installed libraries.")
@click.argument("topics", metavar="[TOPIC]...", nargs=-1)
@click.option(
    "--format",
    "names",
    multiple=True,
    metavar="FORMAT",
    help="Time only this format or block format; may be repeated. Default: as each topic has it.",
)
@click.option(
    "--size",
    "sizes",
    multiple=True,
    type=click.IntRange(1, 1 << 28),
    metavar="N",
    help="Time arrays of N elements, for matmul square matrices of N rows; may be repeated. Default: as each topic has "
    "it.",
)
@click.option(
    "--data",
    "kinds",
    multiple=True,
    metavar="KIND",
    help="Time this kind of data: normal, hard, subnormal or nan; may be repeated. Default: as each topic has it.",
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
def bench(names: tuple[str, ...], budget: float, as_json: bool, **asked: Any) -> None:
    """Time conversions beside the fastest installed library that does the same, and beside a copy of as many bytes.

    TOPIC is cast, decode, quantize, modes, stochastic, f64, small, block, arith, matmul, threads or import. Default:
    all of them. Products of matrices (matmul) stand beside np.matmul.
    """
    from lowprec.export import cards
    from lowprec.spec.catalog import block_format, is_block
    from lowprec.tools import bench
    from lowprec.tools.contests import WrongResult

    try:
        formats = [block_format(name) if is_block(name) else format_named(name) for name in names]
        jobs = bench.plan(formats=formats, **asked)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    say(f"{len(jobs)} rows, about {bench.seconds(jobs, budget):.0f} seconds", err=True)
    try:
        with progress() as watch:
            report = bench.run(jobs, budget=budget, watch=watch)
    except WrongResult as error:
        say(str(error), err=True)
        sys.exit(DIFFER)
    if as_json:
        deliver(report.as_json() + "\n")
    else:
        cards.show(report.table())
