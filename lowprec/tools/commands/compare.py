"""Outputs held against the reference.

Floor 5.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

import click

from lowprec.tools.arguments import AGREE, DIFFER, NOTHING, operation_formats, project
from lowprec.tools.commands.options import OPERATIONS_HELP, define_option, projection_options

__all__ = ["compare"]


@click.command(epilog=OPERATIONS_HELP)
@click.argument("lines", metavar="-|FILE", type=click.File("r", encoding="utf-8", errors="replace"))
@click.argument("operation")
@click.argument("formats", metavar="FORMAT...", nargs=-1, required=True)
@define_option
@projection_options
@click.option(
    "--nan", type=click.Choice(["exact", "any"]), default="exact", show_default=True, help="Which NaN will do."
)
@click.option("--all", "everything", is_flag=True, help="Report every line that differs, not the first 20.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON (schema lowprec.compare/1).")
def compare(
    lines: Iterable[str],
    operation: str,
    formats: tuple[str, ...],
    define: str | None,
    rounding: str,
    saturation: str,
    nan: str,
    everything: bool,
    as_json: bool,
) -> None:
    """Judge what a program answered: recompute every line of operands and result.

    Reads from standard input (-) or a file; takes the same arguments as `lowprec vectors`:
    `lowprec compare - add e4m3fn e4m3fn e4m3fn`.
    """
    from lowprec.tools.compare import Malformed, check_lines

    chosen, projection = operation_formats(operation, formats, define), project(rounding, saturation)
    try:
        report = check_lines(
            lines, operation, chosen, projection, any_nan=nan == "any", limit=None if everything else 20
        )
    except Malformed as error:
        raise click.UsageError(str(error)) from None
    click.echo(report.as_json() if as_json else report.as_text())
    sys.exit(NOTHING if not report.lines else DIFFER if report.wrong else AGREE)
