"""Formats: list them, show one, export one.

Floor 5.
"""

from __future__ import annotations

import json
from pathlib import Path

import click

from lowprec.tools.arguments import deliver, names_accumulation, one_format, project
from lowprec.tools.commands.options import define_option, output_option, projection_options
from lowprec.tools.tabulate import TABLE_KINDS
from lowprec.tools.terminal import say

__all__ = ["formats", "show", "table"]


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def formats(as_json: bool) -> None:
    """List the formats of the catalog, and its block formats."""
    from lowprec.spec.catalog import FORMATS
    from lowprec.tools import blockcards, cards

    if as_json:
        deliver(json.dumps([cards.describe(fmt) for fmt in FORMATS.values()], indent=1) + "\n")
    else:
        cards.show(cards.listing())
        say("")
        cards.show(blockcards.block_listing())


@click.command()
@click.argument("fmt", metavar="FORMAT", required=False)
@define_option
@click.option("--profile", metavar="NAME", help="Show how a named stack converts to it, or to all of its formats.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(fmt: str | None, define: str | None, profile: str | None, as_json: bool) -> None:
    """Show a format: parameters, limits, special codes and, up to 8 bits, every code's value.

    FORMAT is a name, an alias, a P3109 name such as binary8p3se, or a .toml file; or a block format; or an
    accumulation, such as hopper_wgmma_e4m3fn_binary32, which is told in words.
    """
    from lowprec.spec.catalog import is_block
    from lowprec.tools import cards

    if fmt is not None and is_block(fmt):
        _show_block(fmt, profile, as_json)
        return
    if fmt is not None and define is None and names_accumulation(fmt):
        _show_accumulation(fmt, profile, as_json)
        return
    if profile is not None:
        from lowprec.spec.profiles import profile as profile_of

        if as_json:
            raise click.UsageError("--json shows a format; leave --profile out")
        chosen = None if fmt is None and define is None else one_format(fmt, define)
        try:
            cards.show(cards.profile_card(profile_of(profile), chosen))
        except ValueError as error:
            raise click.UsageError(str(error)) from None
        return
    known = one_format(fmt, define)
    if as_json:
        deliver(json.dumps(cards.describe(known), indent=1) + "\n")
    else:
        cards.show(cards.card(known))


def _show_block(name: str, profile: str | None, as_json: bool) -> None:
    from lowprec.spec.catalog import block_format
    from lowprec.spec.profiles import profile as profile_of
    from lowprec.tools import blockcards, cards

    try:
        fmt = block_format(name)
        stack = None if profile is None else profile_of(profile)
        shown = fmt if stack is None else stack.block(fmt)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if as_json:
        deliver(json.dumps(blockcards.describe_block(shown), indent=1) + "\n")
    else:
        cards.show(blockcards.block_card(fmt, stack))


def _show_accumulation(name: str, profile: str | None, as_json: bool) -> None:
    from lowprec.spec.accumulations import accumulation
    from lowprec.tools import accumulationcards, cards

    if profile is not None:
        raise click.UsageError(f"--profile is of formats, and {name!r} is an accumulation; leave it out")
    try:
        how = accumulation(name)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if as_json:
        deliver(json.dumps(accumulationcards.describe_accumulation(how), indent=1) + "\n")
    else:
        cards.show(accumulationcards.accumulation_card(how))


@click.command()
@click.argument("fmt", metavar="FORMAT", required=False)
@define_option
@click.option(
    "--as",
    "kind",
    default="csv",
    show_default=True,
    type=click.Choice(TABLE_KINDS),
    help="mem is for $readmemh; c a C99 header; sv and vhdl packages.",
)
@click.option("--thresholds", is_flag=True, help="The steps of encoding, not the values (csv, json, md, npy, mem).")
@projection_options
@output_option
def table(
    fmt: str | None,
    define: str | None,
    kind: str,
    thresholds: bool,
    rounding: str,
    saturation: str,
    output: Path | None,
) -> None:
    """Export a format: the value of every code, or with --thresholds the first operand of every code.

    FORMAT is a name, a .toml file with the fields of a private format, or left out with --define.
    """
    from lowprec.tools.export import Table

    if thresholds and kind in ("c", "sv", "vhdl"):
        raise click.UsageError(f"--thresholds is for csv, json, md, npy and mem: {kind} files encode already")
    known, projection = one_format(fmt, define), project(rounding, saturation)
    words = ["lowprec table", fmt or f"--define {define}", f"--as {kind}", *(["--thresholds"] if thresholds else [])]
    if thresholds or kind in ("sv", "vhdl"):
        words.append(f"--rounding {rounding} --saturation {saturation}")
    try:
        content = Table(known, projection, thresholds, " ".join(words)).render(kind)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    deliver(content, output)
