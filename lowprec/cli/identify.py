"""A unit's accumulation, found by asking it."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lowprec.cli.arguments import AGREE, DIFFER, FAILED, deliver, format_named, refuse, usage_errors
from lowprec.cli.options import OUTPUT, count, json_option, named, nan_option, seed_option
from lowprec.cli.terminal import progress, say
from lowprec.spec.number_text import read_count

if TYPE_CHECKING:
    from lowprec.spec.format import Format
    from lowprec.verify.identify.ports import Ports


@click.command(short_help="Ask a dot-product unit until its accumulation is known.")
@named(
    *("--command", "unit"),
    metavar="COMMAND",
    help="Program to ask: it reads lines of operands and prints results.",
)
@named(
    *("--rows", "recorded"),
    metavar="FILE",
    help="Lines of operands and results that are known, such as --save writes; - is the standard input. Or "
    "CAPTURE.npz:NAME, which says formats and length too.",
)
@named("--formats", nargs=2, metavar="FORMAT FORMAT", help="Formats of a and of b.")
@named("--output", metavar="FORMAT", help="Format of the results.")
@click.option("--k", type=click.IntRange(2, 4096), help="Products in a dot product. Default: 32.")
@named(
    "--addend",
    metavar="FORMAT",
    help="Format of the addend c; output is that of the results, none a unit without one. Default: output.",
)
@named(
    "--scale",
    metavar="FORMAT:SIZE",
    help="Operands in blocks: the format of scales, and elements of a block.",
)
@count(
    "--budget",
    default=10_000,
    type=click.IntRange(1, 1_000_000),
    help="Ask this many dot products at most.",
)
@named(
    "--time-limit",
    default=60.0,
    show_default=True,
    type=click.FloatRange(0, 1_000_000, min_open=True),
    metavar="SECONDS",
    help="Give up when one run of the command takes longer.",
)
@seed_option("operands")
@nan_option
@named(
    "--save", type=OUTPUT, metavar="FILE", help="Write every row that was answered to this file, for --rows."
)
@named(
    "--sail",
    type=OUTPUT,
    metavar="FILE",
    help="Write the Sail fragment that RISC-V's integrated matrix extension asks vendors for to this file.",
)
@json_option(" (schema lowprec.identify/1)")
def identify(
    unit: str | None,
    recorded: str | None,
    formats: tuple[str, str] | None,
    output: str | None,
    k: int | None,
    addend: str | None,
    scale: str | None,
    time_limit: float,
    nan: str | None,
    save: Path | None,
    sail: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Ask a unit that multiplies and adds for dot products until one accumulation is left.

    \b
    lowprec identify --command './unit' --formats e4m3fn e4m3fn --output binary32 --k 32
    lowprec identify --rows answers.txt --formats binary16 binary16 --output binary32 --k 16
    lowprec identify --rows capture.npz:matmul_binary32

    The command reads a line for each dot product: K hexadecimal codes of a, K of b, the addend's, and of
    operands in blocks the scales of a and of b. It prints a line for each, whose last word is the code of the
    result, and ends when its input ends. It is started for every batch of questions.

    Rows are such lines with the result behind them. With both, the search goes on from the rows.

    Exit codes: 0 an accumulation reproduces every answer, 1 none was found, 2 bad input or usage, or a unit
    that failed on the way: what was found until then is printed, and saved.
    """  # noqa: D301
    from lowprec.verify.capture.reading import is_capture
    from lowprec.verify.identify import units
    from lowprec.verify.identify.identify import asked

    if unit is None and recorded is None:
        raise click.UsageError("give a --command to ask, or --rows that were recorded")
    if unit is None:
        refuse("is of questions to a --command", "budget", "time_limit", "seed")
    named: dict[str, Any] = {"formats": formats, "output": output, "k": k, "addend": addend, "scale": scale}
    with usage_errors((ValueError, OSError)):
        ports, lines = _captured(recorded, named) if recorded and is_capture(recorded) else _named(**named)
        ask = None if unit is None else units.command(unit, ports, time_limit)
        if recorded is not None and not lines:
            with click.open_file(recorded, encoding="utf-8", errors="replace") as file:
                lines = file.read().splitlines()
        with progress() as watch:
            found = asked(ask, ports, any_nan=nan == "any", rows=lines, watch=watch, **options)
    given = (recorded, *(formats or ()), output, addend, scale)
    words = [*(word for word in given if word), *shlex.split(unit or "")]
    if save is not None:
        deliver("".join(f"{line}\n" for line in found.lines()), save, of=words)
    if as_json:
        deliver(found.as_json() + "\n")
    else:
        say(found.as_text())
    if sail is not None and not found.wrong:
        from lowprec.export.sail import fragment

        with usage_errors((ValueError,)):
            made = fragment(replace(found.accumulation, operands=ports.operands))
            deliver(made, sail, of=[*words, str(save or "")])
    sys.exit(FAILED if found.stopped else DIFFER if found.wrong else AGREE)


def _captured(spelled: str, named: dict[str, Any]) -> tuple[Ports, list[str]]:
    """Return the ports and the rows of a question of a capture."""
    from lowprec.verify.capture.reading import read_question

    for name, value in named.items():
        if value is not None:
            raise click.UsageError(f"--{name} is said by the capture {spelled!r}; leave it out")
    return read_question(spelled).rows()


def _named(
    formats: tuple[str, str] | None, output: str | None, k: int | None, addend: str | None, scale: str | None
) -> tuple[Ports, list[str]]:
    """Return the ports that options name, and no rows."""
    from lowprec.verify.identify.identify import ports_of

    if formats is None or output is None:
        raise click.UsageError("a unit has formats that only you know; give --formats and --output")
    third: Format | str | None = {None: "output", "none": None}.get(addend, addend)
    if isinstance(third, str) and third != "output":
        third = format_named(third)
    pair = [format_named(name) for name in formats]
    return ports_of(pair, format_named(output), 32 if k is None else k, third, _scale(scale)), []


def _scale(spelled: str | None) -> tuple[Format, int] | None:
    if spelled is None:
        return None
    name, _, digits = spelled.rpartition(":")
    size = read_count(digits)
    if not name or size is None:
        raise click.UsageError(f"--scale {spelled[:60]!r} is not FORMAT:SIZE, such as e8m0fnu:32")
    return format_named(name), size
