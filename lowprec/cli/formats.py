"""Formats, block formats, accumulations and profiles: list them, show one; export a format."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lowprec.cli.arguments import deliver, kind_named, one_format, project, usage_errors
from lowprec.cli.options import define_option, json_option, output_option, projection_options
from lowprec.cli.terminal import say
from lowprec.export.tabulate import TABLE_KINDS

if TYPE_CHECKING:
    from rich.console import RenderableType

    from lowprec.spec.format import Format

__all__ = ["accumulations", "block_formats", "formats", "profiles", "show", "table"]


def _print(as_json: bool, described: Callable[[], object], *shown: Callable[[], RenderableType]) -> None:
    """Print JSON, or cards and lists with an empty line between them."""
    from lowprec.export import cards

    if as_json:
        deliver(json.dumps(described(), indent=1) + "\n")
        return
    for place, renderable in enumerate(shown):
        if place:
            say("")
        cards.show(renderable())


@click.command(short_help="List the formats and the block formats.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text, of the formats only.")
def formats(as_json: bool) -> None:
    """List the formats and the block formats.

    `lowprec show NAME` shows one.
    """
    from lowprec.export import block_cards, cards
    from lowprec.spec.catalog import FORMATS

    _print(
        as_json, lambda: [*map(cards.describe, FORMATS.values())], cards.listing, block_cards.block_listing
    )


@click.command("block-formats", short_help="List the block formats.")
@json_option
def block_formats(as_json: bool) -> None:
    """List the block formats.

    `lowprec show NAME` shows one.
    """
    from lowprec.export.block_cards import block_listing, describe_block
    from lowprec.spec.catalog import BLOCK_FORMATS

    _print(as_json, lambda: [*map(describe_block, BLOCK_FORMATS.values())], block_listing)


@click.command(short_help="List the accumulations of dot products.")
@json_option
def accumulations(as_json: bool) -> None:
    """List the accumulations: how hardware and plain loops sum dot products.

    `lowprec show NAME` tells in words what one does. deepseek_promote(N), which promotes after N products, is
    one too.
    """
    from lowprec.export.accumulation_cards import accumulation_listing, describe_accumulation
    from lowprec.spec.accumulations import ACCUMULATIONS

    _print(as_json, lambda: [*map(describe_accumulation, ACCUMULATIONS.values())], accumulation_listing)


@click.command(short_help="List the profiles of software and hardware.")
@json_option
def profiles(as_json: bool) -> None:
    """List the profiles: how named software and hardware converts.

    `lowprec show NAME` shows one.
    """
    from lowprec.export import cards
    from lowprec.spec.profiles import PROFILES

    _print(as_json, lambda: [*map(cards.describe_profile, PROFILES.values())], cards.profile_listing)


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

    NAME is a format: its name, an alias, a P3109 name such as binary8p3se, or a .toml file with the
    parameters of a private format. It may also be a block format, an accumulation, which is told in words, or
    a profile.
    """
    kind = "format"
    if name is None and define is None and profile is not None:
        kind, name, profile = "profile", profile, None
    elif name is not None and define is None and not name.endswith(".toml"):
        kind = kind_named(name)
    with usage_errors():
        if kind == "format":
            _show_format(one_format(name, define), profile, as_json)
        elif kind == "block format":
            _show_block(str(name), profile, as_json)
        elif profile is not None:
            a = "an" if kind == "accumulation" else "a"
            raise ValueError(f"--profile is of formats, and {name!r} is {a} {kind}; leave it out")
        elif kind == "accumulation":
            _show_accumulation(str(name), as_json)
        else:
            _show_profile(str(name), as_json)


def _show_format(fmt: Format, profile: str | None, as_json: bool) -> None:
    from lowprec.export import cards
    from lowprec.spec.profiles import profile as profile_of

    if profile is not None and as_json:
        raise ValueError("--json shows a format; leave --profile out")
    shown = cards.card(fmt) if profile is None else cards.profile_card(profile_of(profile), fmt)
    _print(as_json, lambda: cards.describe(fmt), lambda: shown)


def _show_profile(name: str, as_json: bool) -> None:
    from lowprec.export import cards
    from lowprec.spec.profiles import profile

    shown = profile(name)
    _print(as_json, lambda: cards.describe_profile(shown), lambda: cards.profile_card(shown, None))


def _show_block(name: str, profile: str | None, as_json: bool) -> None:
    from lowprec.export.block_cards import block_card, describe_block
    from lowprec.spec.catalog import block_format
    from lowprec.spec.profiles import profile as profile_of

    fmt = block_format(name)
    stack = None if profile is None else profile_of(profile)
    shown = fmt if stack is None else stack.block(fmt)
    _print(as_json, lambda: describe_block(shown), lambda: block_card(fmt, stack))


def _show_accumulation(name: str, as_json: bool) -> None:
    from lowprec.export.accumulation_cards import accumulation_card, describe_accumulation
    from lowprec.spec.accumulations import accumulation

    how = accumulation(name)
    _print(as_json, lambda: describe_accumulation(how), lambda: accumulation_card(how))


@click.command(short_help="Export the values of a format, or the thresholds of encoding.")
@click.argument("fmt", metavar="[FORMAT]", required=False)
@define_option
@click.option(
    "--as",
    "kind",
    default="csv",
    show_default=True,
    type=click.Choice(TABLE_KINDS),
    help="Write this kind of file: md is a Markdown table, mem hexadecimal for $readmemh, c a C99 header, "
    "sv and vhdl packages.",
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
    words = [
        "lowprec table",
        fmt or f"--define {define}",
        f"--as {kind}",
        *(["--thresholds"] if thresholds else []),
    ]
    if thresholds or kind in ("sv", "vhdl"):
        words.append(f"--rounding {rounding} --saturation {saturation}")
    with usage_errors():
        content = Table(known, projection, thresholds, " ".join(words)).render(kind)
    deliver(content, output)
