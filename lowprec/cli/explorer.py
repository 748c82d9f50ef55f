"""A page to explore formats with, as one HTML file."""

from __future__ import annotations

from pathlib import Path

import click

from lowprec.cli.arguments import deliver, format_named
from lowprec.cli.options import output_option


@click.command(short_help="Write a page that explores formats, as one HTML file.")
@click.option(
    "--format",
    "name",
    metavar="FORMAT",
    default="e4m3fn",
    show_default=True,
    help="Open the page with this format: a name, or mine.toml, or mine.toml:NAME.",
)
@output_option
def explorer(name: str, output: Path | None) -> None:
    """Write one HTML page, which needs no network: formats, their codes and values, and how they round."""
    from lowprec.export.explorer_page import page

    fmt = format_named(name)
    deliver(page([fmt], fmt.name), output, of=(name,))
