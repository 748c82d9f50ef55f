"""Formats, block formats, accumulations and profiles: list them, show one; export a format."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from lowprec.cli import completing, definitions
from lowprec.cli.arguments import (
    anything_named,
    deliver,
    deliver_json,
    one_format,
    profile_named,
    project,
    usage_errors,
)
from lowprec.cli.options import define_option, flag, json_option, named, output_option, projection_options
from lowprec.cli.terminal import say
from lowprec.export.tabulate import TABLE_KINDS
from lowprec.spec.accumulation import Accumulation
from lowprec.spec.block import BlockFormat
from lowprec.spec.epilogue import LibraryCall
from lowprec.spec.format import Format

if TYPE_CHECKING:
    from rich.console import RenderableType

    from lowprec.spec.profiles import Profile
    from lowprec.spec.toml_reading import Specification

Named = TypeVar("Named")


def _print(as_json: bool, described: Callable[[], object], *shown: Callable[[], RenderableType]) -> None:
    """Print JSON, or cards and lists with an empty line between them."""
    from lowprec.export import cards

    if as_json:
        deliver_json(described())
        return
    for place, renderable in enumerate(shown):
        if place:
            say("")
        cards.show(renderable())


_words = click.argument("words", metavar="[WORD]...", nargs=-1)


def _having(
    words: tuple[str, ...], items: Iterable[Named], describe: Callable[[Named], object]
) -> list[Named]:
    """Return the items whose description has all the words; none is a usage error."""
    found = [item for item in items if all(word.lower() in _text_of(describe(item)) for word in words)]
    if not found:
        raise click.UsageError(f"nothing here has {' and '.join(map(repr, words))}; leave some of it out")
    return found


def _text_of(described: object) -> str:
    """Return all values of a description, without the names of its fields."""
    if isinstance(described, dict):
        return "\n".join(map(_text_of, described.values()))
    if isinstance(described, list):
        return "\n".join(map(_text_of, described))
    return str(described).lower()


@click.command(short_help="List the formats, the codebooks and the block formats.")
@_words
@json_option(", of the formats only")
def formats(words: tuple[str, ...], as_json: bool) -> None:
    """List the formats, the codebooks and the block formats; or the formats that have each WORD.

    `lowprec show NAME` shows one.
    """
    from lowprec.export import block_cards, cards
    from lowprec.spec.catalog import FORMATS
    from lowprec.spec.codebooks import ENTRIES

    described = {**{name: cards.describe(fmt) for name, fmt in FORMATS.items()},
                 **{name: cards.describe_entry(name) for name in ENTRIES}}  # fmt: skip
    found = _having(words, described, described.__getitem__)
    known = [FORMATS[name] for name in found if name in FORMATS]
    books = [name for name in found if name in ENTRIES]
    shown: list[Callable[[], RenderableType]] = []
    if known:
        shown.append(lambda: cards.listing(known))
    if books:
        shown.append(lambda: cards.codebook_listing(books))
    if not words:
        shown.append(block_cards.block_listing)
    _print(as_json, lambda: [*map(cards.describe, known)], *shown)


@click.command("codebooks", short_help="List the codebooks: formats given as their values.")
@_words
@json_option()
def codebooks(words: tuple[str, ...], as_json: bool) -> None:
    """List the codebooks; those that have each WORD, such as posit or logarithm.

    A codebook is a format given as its values; wherever a format's name is taken, so is a codebook's.
    `lowprec show NAME` shows one, of a family too, such as posit6_es1, takum12 or lns10_4.
    """
    from lowprec.export import cards
    from lowprec.spec.codebooks import ENTRIES

    found = _having(words, ENTRIES, cards.describe_entry)
    _print(as_json, lambda: [*map(cards.describe_entry, found)], lambda: cards.codebook_listing(found))


@click.command("block-formats", short_help="List the block formats.")
@_words
@json_option()
def block_formats(words: tuple[str, ...], as_json: bool) -> None:
    """List the block formats; those that have each WORD, such as e2m1fn or floor.

    `lowprec show NAME` shows one.
    """
    from lowprec.export.block_cards import block_listing, describe_block
    from lowprec.spec.catalog import BLOCK_FORMATS

    found = _having(words, BLOCK_FORMATS.values(), describe_block)
    _print(as_json, lambda: [*map(describe_block, found)], lambda: block_listing(found))


@click.command(short_help="List the accumulations of dot products.")
@_words
@json_option()
def accumulations(words: tuple[str, ...], as_json: bool) -> None:
    """List the accumulations, how hardware and plain loops sum dot products; those that have each WORD.

    A WORD is part of a name, a format or anything that `lowprec show NAME` says of one, in words or as
    parameters: lowprec accumulations hopper e4m3fn. deepseek_promote(N), which promotes after N products, is
    an accumulation too.
    """
    from lowprec.export.accumulation_cards import accumulation_listing, describe_accumulation
    from lowprec.spec.accumulations import ACCUMULATIONS

    found = _having(words, ACCUMULATIONS.values(), describe_accumulation)
    _print(as_json, lambda: [*map(describe_accumulation, found)], lambda: accumulation_listing(found))


@click.command(short_help="List the profiles of software and hardware.")
@_words
@json_option()
def profiles(words: tuple[str, ...], as_json: bool) -> None:
    """List the profiles, how named software and hardware converts; those that have each WORD.

    `lowprec show NAME` shows one.
    """
    from lowprec.export import cards
    from lowprec.spec.profiles import PROFILES

    def describe(profile: Profile) -> object:
        return [cards.describe_profile(profile), [fmt.name for fmt in profile.formats]]

    found = _having(words, PROFILES.values(), describe)
    _print(as_json, lambda: [*map(cards.describe_profile, found)], lambda: cards.profile_listing(found))


@click.command(short_help="List the products of libraries.")
@_words
@json_option()
def library_calls(words: tuple[str, ...], as_json: bool) -> None:
    """List the library calls, what libraries' products of matrices compute; those that have each WORD.

    `lowprec show NAME` tells one in words; so does `lowprec show 'NAME(fast=false, split=3:halves)'`.
    """
    from lowprec.export.accumulation_cards import call_listing, calls, describe_call

    found = _having(words, calls(), describe_call)
    _print(as_json, lambda: [*map(describe_call, found)], lambda: call_listing(found))


@click.group("list", short_help="List formats, blocks, accumulations, calls or profiles.")
def listing() -> None:
    """List formats, blocks, accumulations, calls or profiles; of all, those that have each word."""


for _command, _name in ((formats, "formats"), (codebooks, "codebooks"), (block_formats, "blocks"),
                        (accumulations, "accumulations"), (library_calls, "calls"),
                        (profiles, "profiles")):  # fmt: skip
    listing.add_command(_command, _name)


@click.command(short_help="Show a format, block format, accumulation or profile.")
@click.argument("name", required=False, shell_complete=completing.anything)
@define_option
@named(
    "--profile",
    of=completing.profiles,
    metavar="PROFILE",
    help="Show what NAME, a format or block format, is in this profile; without NAME, the profile.",
)
@json_option()
@flag("--toml", "as_toml", help="Print TOML, which every command reads from a file.")
def show(name: str | None, profile: str | None, as_json: bool, as_toml: bool) -> None:
    """Show a format: parameters, limits, special codes and, up to 8 bits, every code's value.

    NAME is a format: its name, an alias or a P3109 name such as binary8p3se. It may also be a block format,
    an accumulation or a library call, which are told in words, or a profile; and mine.toml, or
    mine.toml:NAME, for what a file defines.
    """
    from lowprec.spec.library_calls import library_call

    with usage_errors():
        call = None if name is None else library_call(name)
    if call is not None and (profile is not None or as_toml):
        raise click.UsageError(f"{name!r} is a library call: leave out --profile and --toml")
    if name is None and definitions.given() is None and profile is not None:
        name, profile = profile, None
        shown: Specification | LibraryCall = profile_named(name)
    elif name is None:
        shown = one_format(None)
    else:
        shown = definitions.named(name) or call or anything_named(name)
    definitions.check_named()
    stack = None if profile is None else profile_named(profile)
    with usage_errors():
        if as_toml:
            _show_toml(shown, stack, as_json)
        else:
            described, card = _views(shown, stack, name)
            if as_json and stack is not None and not isinstance(shown, BlockFormat):
                raise ValueError("--json shows a format; leave --profile out")
            _print(as_json, described, card)


def _views(
    shown: Any, stack: Profile | None, name: str | None
) -> tuple[Callable[[], object], Callable[[], RenderableType]]:
    """Return what describes an object, by itself or in a profile, and what shows its card."""
    from lowprec.export import accumulation_cards, block_cards, cards

    if isinstance(shown, Format):
        card = partial(cards.card, shown) if stack is None else partial(cards.profile_card, stack, shown)
        return partial(cards.describe, shown), card
    if isinstance(shown, BlockFormat):
        own = shown if stack is None else stack.block(shown)
        return partial(block_cards.describe_block, own), partial(block_cards.block_card, shown, stack)
    if stack is not None:
        a = "an accumulation" if isinstance(shown, Accumulation) else "a profile"
        raise ValueError(f"--profile is of formats, and {name!r} is {a}; leave it out")
    if isinstance(shown, Accumulation):
        card = partial(accumulation_cards.accumulation_card, shown)
        return partial(accumulation_cards.describe_accumulation, shown), card
    if isinstance(shown, LibraryCall):
        return partial(accumulation_cards.describe_call, shown), partial(accumulation_cards.call_card, shown)
    return partial(cards.describe_profile, shown), partial(cards.profile_card, shown, None)


def _show_toml(shown: Any, stack: Profile | None, as_json: bool) -> None:
    from lowprec.spec.toml_writing import to_toml

    if as_json:
        raise ValueError("--toml and --json are two ways to print; give one of them")
    if stack is not None and not isinstance(shown, BlockFormat):
        raise ValueError("--toml shows block formats as a --profile has them, and all else as it is")
    deliver(to_toml(stack.block(shown) if stack is not None and isinstance(shown, BlockFormat) else shown))


@click.command(short_help="Export the values of a format, or the thresholds of encoding.")
@click.argument("fmt", metavar="[FORMAT]", required=False, shell_complete=completing.formats)
@define_option
@click.option(
    *("--as", "kind"),
    default="csv",
    show_default=True,
    type=click.Choice(TABLE_KINDS),
    help="Write this kind of file: md is a Markdown table, mem hexadecimal for $readmemh, c a C99 header, "
    "sv and vhdl packages.",
)
@flag(
    "--thresholds",
    help="Export the first operand that gives each code, not the value of each code; not as c, sv or vhdl.",
)
@projection_options
@output_option
def table(
    fmt: str | None,
    kind: str,
    thresholds: bool,
    rounding: str | None,
    saturation: str | None,
    output: Path | None,
) -> None:
    """Export a format: the value of every code, or with --thresholds the first operand that gives each code.

    FORMAT is a name, or a .toml file with the parameters of a private format; leave it out with --define.
    """
    from lowprec.export.tables import Table

    if thresholds and kind in ("c", "sv", "vhdl"):
        raise click.UsageError(f"--thresholds is for csv, json, md, npy and mem: {kind} files encode already")
    if (rounding or saturation) and not thresholds and kind not in ("sv", "vhdl"):
        raise click.UsageError(
            f"--rounding and --saturation are of --thresholds, and of sv and vhdl: {kind} has values alone"
        )
    known, projection = one_format(fmt), project(rounding, saturation)
    defined = definitions.given()
    words = [
        "lowprec table",
        *([] if fmt is None else [fmt]),
        *([] if defined is None else [f"--define {defined.text}"]),
        f"--as {kind}",
        *(["--thresholds"] if thresholds else []),
    ]
    if thresholds or kind in ("sv", "vhdl"):
        words.append(f"--rounding {rounding or 'nearest_even'} --saturation {saturation or 'none'}")
    with usage_errors():
        content = Table(known, projection, thresholds, " ".join(words)).render(kind)
    deliver(content, output, of=(fmt or "",))
