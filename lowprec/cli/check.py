"""Formats held against the laws."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from lowprec.cli import completing
from lowprec.cli.arguments import AGREE, DIFFER, NOTHING, deliver_json, one_format, refuse, target_named
from lowprec.cli.options import count, define_option, flag, json_option, seed_option
from lowprec.cli.terminal import say

if TYPE_CHECKING:
    from lowprec.testing.law import Report


@click.command("check-format", short_help="Check every law of formats on one format.")
@click.argument("fmt", metavar="[FORMAT]", required=False, shell_complete=completing.targets)
@define_option
@count(
    "--samples",
    default=256,
    type=click.IntRange(0, 1 << 20),
    help="Try this number of random numbers beside the chosen ones.",
)
@seed_option("the random numbers")
@json_option(" (schema lowprec.check/1)")
@flag("--laws", "as_list", help="List all laws and where they hold, and check nothing.")
def check_format(fmt: str | None, samples: int, seed: int, as_json: bool, as_list: bool) -> None:
    """Check every law on a format: what its codes stand for, how it rounds, its arithmetic, order and blocks.

    FORMAT is a name, a P3109 name such as binary8p3se, a block format, or a .toml file that defines one of
    them; leave it out with --define. Both the kernels and the oracle are tried, against what the
    parameters alone say. Exit codes: 0 all laws hold, 1 one does not, 2 bad input or usage, 3 nothing was
    tried.
    """
    from lowprec.cli import definitions
    from lowprec.cli.terminal import progress
    from lowprec.spec.block import BlockFormat
    from lowprec.testing import checks
    from lowprec.testing.law import LAWS

    if as_list:
        refuse(
            "says nothing about --laws, which lists all laws", "fmt", "define", "samples", "seed", "as_json"
        )
        for law in LAWS.values():
            say(f"{law.name}  [{law.topic}: {law.domain}]\n    {law.statement}")
        return
    target = one_format(None) if fmt is None else target_named(fmt)
    definitions.check_named()
    with progress() as watch:
        if isinstance(target, BlockFormat):
            report = checks.report_of_blocks(target, samples=samples, seed=seed, watch=watch)
        else:
            report = checks.report_of(target, samples=samples, seed=seed, watch=watch)
    if as_json:
        deliver_json(report.as_json())
    else:
        _show(report)
    if not report.tried:
        sys.exit(NOTHING)
    sys.exit(DIFFER if report.broken else AGREE)


def _show(report: Report) -> None:
    """Print a row for each law, then what is broken in full."""
    from lowprec.export import cards

    table = cards.columns("law", "of", "cases", "holds", right=("cases",))
    for verdict in report.verdicts:
        table.add_row(verdict.law.name, verdict.path, f"{verdict.tried:,}", "yes" if verdict.holds else "NO")
    cards.show(table)
    say(f"\n{report}")
