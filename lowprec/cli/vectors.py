"""Test vectors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from lowprec.cli.arguments import deliver, operation_formats, project, usage_errors
from lowprec.cli.options import (
    OPERATIONS_HELP,
    define_option,
    output_option,
    projection_options,
    scheduler_option,
)
from lowprec.export.tabulate import VECTOR_KINDS

__all__ = ["vectors"]


@click.command(short_help="Generate test vectors of an operation.", epilog=OPERATIONS_HELP)
@click.argument("operation")
@click.argument("formats", metavar="FORMAT...", nargs=-1, required=True)
@define_option
@projection_options
@click.option(
    "--samples",
    default=1024,
    show_default=True,
    type=click.IntRange(max=1 << 24),
    metavar="N",
    help="Add this number of random operands where not all operands are tried.",
)
@click.option(
    "--seed", default=0, show_default=True, metavar="N", help="Draw the random operands with this seed."
)
@click.option(
    "--as",
    "kind",
    default="text",
    show_default=True,
    type=click.Choice(VECTOR_KINDS),
    help="Write this kind of file: mem is hexadecimal for $readmemh, text what `lowprec compare` reads.",
)
@click.option(
    "--operands", is_flag=True, help="Print the operands without results, for a program under test to read."
)
@scheduler_option
@output_option
def vectors(
    operation: str,
    formats: tuple[str, ...],
    define: str | None,
    rounding: str,
    saturation: str,
    samples: int,
    seed: int,
    kind: str,
    operands: bool,
    scheduler: str | None,
    output: Path | None,
) -> None:
    """Generate test vectors: operands that matter and the code each must give, in hexadecimal.

    Name the FORMAT of each operand, then that of the result:

    \b
    lowprec vectors convert binary32 e4m3fn
    lowprec vectors fma e4m3fn e4m3fn binary32 binary32

    With --operands only the operands are printed. A program under test reads them and prints each line with
    its result, and `lowprec compare - OPERATION FORMAT...` judges those lines.

    All operands are tried if they have at most 16 bits together; of wider ones, those at ties, limits and the
    like.
    """  # noqa: D301
    from lowprec.export.vectors import suite
    from lowprec.verify.sweeping import SweepError

    if samples < 0 or seed < 0:
        raise click.UsageError("--samples and --seed must not be negative")
    if operands and kind != "text":
        raise click.UsageError("--operands prints text; leave --as out")
    chosen = operation_formats(operation, formats, define)
    words = ["lowprec vectors", operation, *formats, *([f"--define {define}"] if define else [])]
    words += [f"--rounding {rounding} --saturation {saturation} --samples {samples} --seed {seed}"]
    how = project(rounding, saturation)
    options: dict[str, Any] = {"samples": samples, "seed": seed, "scheduler": scheduler}
    with usage_errors((SweepError,)):
        made = suite(operation, chosen, how, command=" ".join(words), **options)
    deliver(made.operand_lines().encode() if operands else made.render(kind), output)
