"""Benchmarks.

Floor 5.
"""

from __future__ import annotations

import sys
from typing import Any

import click

from lowprec.tools.arguments import DIFFER, deliver, format_named
from lowprec.tools.progress import progress
from lowprec.tools.terminal import say

__all__ = ["bench"]


@click.command()
@click.argument("topics", metavar="[TOPIC]...", nargs=-1)
@click.option("--format", "names", multiple=True, metavar="FORMAT", help="Only this format; may be repeated.")
@click.option(
    "--size",
    "sizes",
    multiple=True,
    type=click.IntRange(1, 1 << 28),
    help="Elements, for matmul rows; may be repeated.",
)
@click.option("--data", "kinds", multiple=True, help="normal, hard, subnormal or nan; may be repeated.")
@click.option(
    "--threads", default=1, show_default=True, type=click.IntRange(min=1), help="Of lowprec, the stream and torch."
)
@click.option("--budget", default=1.0, show_default=True, type=click.FloatRange(min=0), help="Seconds for each row.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON (schema lowprec.bench/1).")
def bench(names: tuple[str, ...], budget: float, as_json: bool, **asked: Any) -> None:
    """Time conversions beside the best installed peer and beside the movement of as many bytes.

    TOPIC is cast, decode, quantize, modes, stochastic, f64, small, block, arith, matmul, threads or import; without
    one, all are run. Products of matrices (matmul) stand beside np.matmul.
    """
    from lowprec.spec.catalog import block_format, is_block
    from lowprec.tools import bench, cards
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
