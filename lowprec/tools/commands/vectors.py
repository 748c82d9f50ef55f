"""Test vectors.

Floor 5.
"""

from __future__ import annotations

from pathlib import Path

import click

from lowprec.tools.arguments import deliver, operation_formats, project
from lowprec.tools.commands.options import OPERATIONS_HELP, define_option, output_option, projection_options
from lowprec.tools.tabulate import VECTOR_KINDS

__all__ = ["vectors"]


@click.command(epilog=OPERATIONS_HELP)
@click.argument("operation")
@click.argument("formats", metavar="FORMAT...", nargs=-1, required=True)
@define_option
@projection_options
@click.option(
    "--samples",
    default=1024,
    show_default=True,
    type=click.IntRange(max=1 << 24),
    help="Random operands beside the chosen ones, where not all are tried.",
)
@click.option("--seed", default=0, show_default=True, help="Of the random operands.")
@click.option("--as", "kind", default="text", show_default=True, type=click.Choice(VECTOR_KINDS))
@click.option("--operands", is_flag=True, help="Print operands only, for a program under test to read.")
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
    output: Path | None,
) -> None:
    """Make test vectors: operands that matter and the code each must give, in hexadecimal.

    Give the FORMAT of each operand, then of the result: `lowprec vectors convert binary32 e4m3fn`,
    `lowprec vectors fma e4m3fn e4m3fn binary32 binary32`. With --operands, a program under test can
    read them and `lowprec compare - fma e4m3fn e4m3fn binary32 binary32` judge what it prints.

    Operands of at most 16 bits together are all tried, of wider ones those at ties, at limits and the like.
    """
    from lowprec.tools.vectors import suite

    if samples < 0 or seed < 0:
        raise click.UsageError("--samples and --seed must not be negative")
    if operands and kind != "text":
        raise click.UsageError("--operands prints text; leave --as out")
    chosen = operation_formats(operation, formats, define)
    words = ["lowprec vectors", operation, *formats, *([f"--define {define}"] if define else [])]
    words += [f"--rounding {rounding} --saturation {saturation} --samples {samples} --seed {seed}"]
    made = suite(operation, chosen, project(rounding, saturation), samples=samples, seed=seed, command=" ".join(words))
    deliver(made.operand_lines().encode() if operands else made.render(kind), output)
