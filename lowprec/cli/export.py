"""Programs of other languages that give what lowprec gives."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import click

from lowprec.cli import completing
from lowprec.cli.arguments import accumulation_named, deliver, format_named, usage_errors
from lowprec.cli.options import named, output_option


@click.group(short_help="Export an accumulation as a C header that replays it.")
def export() -> None:
    """Export what replays results in other languages."""


@export.command("c", short_help="Write a C99 header that replays an accumulation.")
@named(
    "--accumulation",
    of=completing.accumulations,
    required=True,
    help="The accumulation, by name or in a .toml file.",
)
@click.option(
    "--operands",
    nargs=2,
    metavar="X Y",
    help="Formats of x and y, for an accumulation that takes any.",
)
@output_option
def as_c(accumulation: str, operands: tuple[str, str] | None, output: Path | None) -> None:
    """Write a C99 header that replays an accumulation, bit for bit: dot and matmul, for any K.

    It takes and gives codes, needs stdint.h and stddef.h, allocates nothing and uses no floating point. Rows
    of y are columns of the second matrix; operands in blocks come with the codes of their scales.
    """
    from lowprec.export.c_accumulation import accumulation_header
    from lowprec.export.tabulate import provenance

    words = f"lowprec export c --accumulation {accumulation}"
    with usage_errors():
        how = accumulation_named(accumulation)
        if operands is not None:
            words += f" --operands {' '.join(operands)}"
            how = dataclasses.replace(how, operands=(format_named(operands[0]), format_named(operands[1])))
        content = accumulation_header(how, provenance(words))
    deliver(content, output)
