"""Formats, block formats, accumulations and profiles: list them, show one; export a format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lowprec.cli.arguments import deliver, kind_named, one_format, project
from lowprec.cli.options import define_option, json_option, output_option, projection_options
from lowprec.cli.terminal import say
from lowprec.export.tabulate import TABLE_KINDS

if TYPE_CHECKING:
    from lowprec.spec.format import Format

__all__ = ["accumulations", "block_formats", "formats", "profiles", "show", "table"]


def _print_json(described: object) -> None:
    deliver(json.dumps(described, indent=1) + "\n")


@click.command(short_help="List the formats and the block formats.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text, of the formats only.")
def formats(as_json: bool) -> None:
    """List the formats and the block formats.

    `lowprec show NAME` shows one.
    """
    from lowprec.export import block_cards, cards
    from lowprec.spec.catalog import FORMATS

    if as_json:
        _print_json([cards.describe(fmt) for fmt in FORMATS.values()])
    else:
        cards.show(cards.listing())
        say("")
        cards.show(block_cards.block_listing())


@click.command("block-formats", short_help="List the block formats.")
@json_option
def block_formats(as_json: bool) -> None:
    """List the block formats.

    `lowprec show NAME` shows one.
    """
    from lowprec.export import block_cards, cards
    from lowprec.spec.catalog import BLOCK_FORMATS

    if as_json:
        _print_json([block_cards.describe_block(fmt) for fmt in BLOCK_FORMATS.values()])
    else:
        cards.show(block_cards.block_listing())


@click.command(short_help="List the accumulations of dot products.")
@json_option
def accumulations(as_json: bool) -> None:
    """List the accumulations: how hardware and plain loops sum dot products.

    `lowprec show NAME` tells in words what one does. deepseek_promote(N), which promotes after N products, is one too.
    """
    from lowprec.export import accumulation_cards, cards
    from lowprec.spec.accumulations import ACCUMULATIONS

    if as_json:
        _print_json([accumulation_cards.describe_accumulation(how) for how in ACCUMULATIONS.values()])
    else:
        cards.show(accumulation_cards.accumulation_listing())


@click.command(short_help="List the profiles of software and hardware.")
@json_option
def profiles(as_json: bool) -> None:
    """List the profiles: how named software and hardware converts.

    `lowprec show NAME` shows one.
    """
    from lowprec.export import cards
    from lowprec.spec.profiles import PROFILES

    if as_json:
        _print_json([cards.describe_profile(profile) for profile in PROFILES.values()])
    else:
        cards.show(cards.profile_listing())


@click.command(short_help="Show a format, block format, accumulation or profile.")
@click.argument("name", required=False)
@define_option
@click.option(
    "--profile",
    metavar="PROFILE",
    help="Show what NAME, a format or block format, is in this profile; without NAME, the profile.",
)
@json_option
def show(name: str | None, define: str | None, profile: str | None, as_json: bool) -> None:
    """Show a format: parameters, limits, special codes and, up to 8 bits, every code's value.

    NAME is a format: its name, an alias, a P3109 name such as binary8p3se, or a .toml file with the parameters of a
    private format. It may also be a block format, an accumulation, which is told in words, or a profile.
    """
    kind = "format"
    if name is None and define is None and profile is not None:
        kind, name, profile = "profile", profile, None
    elif name is not None and define is None and not name.endswith(".toml"):
        kind = kind_named(name)
    if kind == "block format" and name is not None:
        _show_block(name, profile, as_json)
    elif kind == "accumulation" and name is not None:
        _show_accumulation(name, profile, as_json)
    elif kind == "profile" and name is not None:
        _show_profile(name, profile, as_json)
    else:
        _show_format(one_format(name, define), profile, as_json)


def _show_format(fmt: Format, profile: str | None, as_json: bool) -> None:
    from lowprec.export import cards
    from lowprec.spec.profiles import profile as profile_of

    if profile is None:
        if as_json:
            _print_json(cards.describe(fmt))
        else:
            cards.show(cards.card(fmt))
        return
    if as_json:
        raise click.UsageError("--json shows a format; leave --profile out")
    try:
        cards.show(cards.profile_card(profile_of(profile), fmt))
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def _show_profile(name: str, other: str | None, as_json: bool) -> None:
    from lowprec.export import cards
    from lowprec.spec.profiles import profile as profile_of

    if other is not None:
        raise click.UsageError(f"--profile is of formats, and {name!r} is a profile; leave it out")
    try:
        shown = profile_of(name)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if as_json:
        _print_json(cards.describe_profile(shown))
    else:
        cards.show(cards.profile_card(shown, None))


def _show_block(name: str, profile: str | None, as_json: bool) -> None:
    from lowprec.export import block_cards, cards
    from lowprec.spec.catalog import block_format
    from lowprec.spec.profiles import profile as profile_of

    try:
        fmt = block_format(name)
        stack = None if profile is None else profile_of(profile)
        shown = fmt if stack is None else stack.block(fmt)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if as_json:
        _print_json(block_cards.describe_block(shown))
    else:
        cards.show(block_cards.block_card(fmt, stack))


def _show_accumulation(name: str, profile: str | None, as_json: bool) -> None:
    from lowprec.export import accumulation_cards, cards
    from lowprec.spec.accumulations import accumulation

    if profile is not None:
        raise click.UsageError(f"--profile is of formats, and {name!r} is an accumulation; leave it out")
    try:
        how = accumulation(name)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if as_json:
        _print_json(accumulation_cards.describe_accumulation(how))
    else:
        cards.show(accumulation_cards.accumulation_card(how))


@click.command(short_help="Export the values of a format, or the thresholds of encoding.")
@click.argument("fmt", metavar="[FORMAT]", required=False)
@define_option
@click.option(
    "--as",
    "kind",
    default="csv",
    show_default=True,
    type=click.Choice(TABLE_KINDS),
    help="Write this kind of file: md is a Markdown table, mem hexadecimal for $readmemh, c a C99 header, sv and vhdl "
    "packages.",
)
@click.option(
    "--thresholds",
    is_flag=True,
    help="Export the first operand that gives each code, not the value of each code; not as c, sv or vhdl.",
)
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
    """Export a format: the value of every code, or with --thresholds the first operand that gives each code.

    FORMAT is a name, or a .toml file with the parameters of a private format; leave it out with --define.
    """
    from lowprec.export.tables import Table

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
