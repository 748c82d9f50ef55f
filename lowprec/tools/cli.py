"""The command line. Exit codes: 0 all agree, 1 some differ, 2 bad input or usage, 3 nothing was compared.

Floor 5. Each command imports what it needs, so that `lowprec --help` does not wait for numba.
"""

from __future__ import annotations

import click

import lowprec
from lowprec.tools.commands import bench, check, compare, conform, formats, golden, vectors

__all__ = ["main"]


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(lowprec.__version__, prog_name="lowprec")
def main() -> None:
    """Show what low-precision number formats must give, bit for bit, and who differs.

    Exit codes: 0 all agree, 1 some differ, 2 bad input or usage, 3 nothing was compared.
    """


for command in (
    formats.formats,
    formats.show,
    formats.table,
    vectors.vectors,
    compare.compare,
    golden.golden,
    conform.conform,
    check.check_format,
    bench.bench,
):
    main.add_command(command)


if __name__ == "__main__":
    main()
