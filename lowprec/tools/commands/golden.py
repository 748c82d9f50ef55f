"""The golden data.

Floor 5.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from lowprec.tools.arguments import AGREE, DIFFER
from lowprec.tools.progress import progress

__all__ = ["golden"]


@click.command()
@click.option("--write", "action", flag_value="write", help="Make the files anew.")
@click.option("--check", "action", flag_value="check", help="Compare them byte for byte.")
@click.option(
    "--tables", type=click.Path(file_okay=False, path_type=Path), help="The folder; by default the checkout's tables/."
)
def golden(action: str | None, tables: Path | None) -> None:
    """Make or check the golden data: encoding tables, digests and test vectors.

    The oracle generates them and the kernels verify them. Exit 1: a file differs, or the two do.
    """
    from lowprec.tools import golden as data

    if action is None:
        raise click.UsageError("say --write or --check")
    folder = tables or data.tables_folder()
    if action == "check" and not folder.is_dir():
        raise click.UsageError(f"there is no folder {str(folder)!r}; give the checkout's with --tables")
    try:
        with progress() as watch:
            if action == "write":
                click.echo(f"{data.write(folder, watch)} files written to {folder}")
                return
            problems = data.check(folder, watch)
    except data.Disagreement as error:
        click.echo(str(error), err=True)
        sys.exit(DIFFER)
    for problem in problems:
        click.echo(problem)
    click.echo(f"{len(problems)} golden files are wrong" if problems else "the golden files are right")
    sys.exit(DIFFER if problems else AGREE)
