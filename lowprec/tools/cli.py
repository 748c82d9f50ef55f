"""The command line. Exit codes: 0 all agree, 1 some differ, 2 bad input or usage, 3 nothing was compared.

Floor 5. Each command imports what it needs, so that `lowprec --help` does not wait for numba.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import lowprec
from lowprec.spec.arith import OPERANDS
from lowprec.tools.arguments import (
    NOTHING,
    deliver,
    format_named,
    frameworks_named,
    load,
    names_accumulation,
    one_format,
    operation_formats,
    project,
)
from lowprec.tools.progress import progress
from lowprec.tools.tabulate import TABLE_KINDS, VECTOR_KINDS

if TYPE_CHECKING:
    pass

__all__ = ["main"]

AGREE, DIFFER, MISUSE = 0, 1, 2


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(lowprec.__version__, prog_name="lowprec")
def main() -> None:
    """Show what low-precision number formats must give, bit for bit, and who differs.

    Exit codes: 0 all agree, 1 some differ, 2 bad input or usage, 3 nothing was compared.
    """


@main.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def formats(as_json: bool) -> None:
    """List the formats of the catalog, and its block formats."""
    from lowprec.spec.catalog import FORMATS
    from lowprec.tools import blockcards, cards

    if as_json:
        click.echo(json.dumps([cards.describe(fmt) for fmt in FORMATS.values()], indent=1))
    else:
        cards.show(cards.listing())
        click.echo()
        cards.show(blockcards.block_listing())


_define = click.option(
    "--define",
    metavar="KEY=VALUE,...",
    help="A private format: name=, exponent_bits=, trailing_bits=, bias=, sign=, nans=, infinity=, negative_zero=, "
    "subnormals=. Named by its name, or 'private'.",
)
_projection = [
    click.option("--rounding", default="nearest_even", show_default=True, metavar="MODE"),
    click.option("--saturation", default="none", show_default=True, metavar="POLICY"),
]
_output = click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write to this file, whole or not at all."
)


def _options(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def add(function: Any) -> Any:
        for option in reversed(options):
            function = option(function)
        return function

    return add


@main.command()
@click.argument("fmt", metavar="FORMAT", required=False)
@_define
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
        click.echo(json.dumps(cards.describe(known), indent=1))
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
        click.echo(json.dumps(blockcards.describe_block(shown), indent=1))
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
        click.echo(json.dumps(accumulationcards.describe_accumulation(how), indent=1))
    else:
        cards.show(accumulationcards.accumulation_card(how))


@main.command()
@click.argument("fmt", metavar="FORMAT", required=False)
@_define
@click.option(
    "--as",
    "kind",
    default="csv",
    show_default=True,
    type=click.Choice(TABLE_KINDS),
    help="mem is for $readmemh; c a C99 header; sv and vhdl packages.",
)
@click.option("--thresholds", is_flag=True, help="The steps of encoding, not the values (csv, json, md, npy, mem).")
@_options(*_projection)
@_output
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


#: Below the help of the commands that take an operation.
_operations = "Operations, with the number of operands: convert 1, "
_operations += ", ".join(f"{name} {operands}" for name, operands in OPERANDS.items())


@main.command(epilog=_operations)
@click.argument("operation")
@click.argument("formats", metavar="FORMAT...", nargs=-1, required=True)
@_define
@_options(*_projection)
@click.option(
    "--samples",
    default=1024,
    show_default=True,
    type=click.IntRange(max=1 << 24),
    help="Random operands beside the chosen ones, where not all are tried.",
)
@click.option("--seed", default=0, show_default=True, help="Of the random operands.")
@click.option("--as", "kind", default="text", show_default=True, type=click.Choice(VECTOR_KINDS))
@click.option("--operands", is_flag=True, help="Print operands only, for a program under test to read.")
@_output
def vectors(
    operation: str,
    formats: tuple[str, ...],
    define: str | None,
    rounding: str,
    saturation: str,
    samples: int,
    seed: int,
    kind: str,
    operands: bool,
    output: Path | None,
) -> None:
    """Make test vectors: operands that matter and the code each must give, in hexadecimal.

    Give the FORMAT of each operand, then of the result: `lowprec vectors convert binary32 e4m3fn`,
    `lowprec vectors fma e4m3fn e4m3fn binary32 binary32`. With --operands, a program under test can
    read them and `lowprec compare - fma e4m3fn e4m3fn binary32 binary32` judge what it prints.

    Operands of at most 16 bits together are all tried, of wider ones those at ties, at limits and the like.
    """
    from lowprec.tools.vectors import suite

    if samples < 0 or seed < 0:
        raise click.UsageError("--samples and --seed must not be negative")
    if operands and kind != "text":
        raise click.UsageError("--operands prints text; leave --as out")
    chosen = operation_formats(operation, formats, define)
    words = ["lowprec vectors", operation, *formats, *([f"--define {define}"] if define else [])]
    words += [f"--rounding {rounding} --saturation {saturation} --samples {samples} --seed {seed}"]
    made = suite(operation, chosen, project(rounding, saturation), samples=samples, seed=seed, command=" ".join(words))
    deliver(made.operand_lines().encode() if operands else made.render(kind), output)


@main.command(epilog=_operations)
@click.argument("lines", metavar="-|FILE", type=click.File("r", encoding="utf-8", errors="replace"))
@click.argument("operation")
@click.argument("formats", metavar="FORMAT...", nargs=-1, required=True)
@_define
@_options(*_projection)
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


@main.command()
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


@main.command()
@click.argument("frameworks", metavar="[FRAMEWORK]...", nargs=-1)
@click.option("--source", "sources", multiple=True, metavar="DTYPE", help="Only this source type; may be repeated.")
@click.option("--target", "targets", multiple=True, metavar="FORMAT", help="Only this target; may be repeated.")
@click.option(
    "--values", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Own data, an .npy file of numbers."
)
@click.option(
    "--samples",
    default=1 << 20,
    show_default=True,
    type=click.IntRange(max=1 << 28),
    help="Random float32 and float64 inputs for each target.",
)
@click.option("--seed", default=0, show_default=True, help="Of the random inputs.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON (schema lowprec.conform/1).")
def conform(
    frameworks: tuple[str, ...],
    sources: tuple[str, ...],
    targets: tuple[str, ...],
    values: Path | None,
    samples: int,
    seed: int,
    as_json: bool,
) -> None:
    """Hold the casts of the installed FRAMEWORKs against the golden reference, code by code.

    Runs every source type and target format of each on all ties, thresholds, borders and
    specials, on all 16-bit inputs and on random bit patterns, under nearest_even and saturation
    none. Exit 0: nothing beyond the known divergences (marked *); 1: something else differs.
    """
    from lowprec.tools import conformance
    from lowprec.tools.cases import SOURCES

    chosen = frameworks_named(frameworks)
    for source in sources:
        if source not in SOURCES:
            raise click.UsageError(f"unknown source {source!r}; use one of {', '.join(SOURCES)}")
    if samples < 0 or seed < 0:
        raise click.UsageError("--samples and --seed must not be negative")
    wanted = [format_named(target) for target in targets]
    data = None if values is None else load(values)

    with progress() as watch:
        rows = list(
            conformance.run(
                chosen,
                sources=sources or None,
                targets=wanted or None,
                values=data,
                samples=samples,
                seed=seed,
                known=conformance.known_divergences(),
                watch=watch,
            )
        )
    if as_json:
        click.echo(conformance.report(rows))
    else:
        from lowprec.tools import cards

        cards.show(conformance.table(rows))
    if not sum(row.tried for row in rows):
        click.echo("nothing was compared: no framework has such a cast, or there were no values", err=True)
        sys.exit(NOTHING)
    sys.exit(DIFFER if any(row.unexplained for row in rows) else AGREE)


@main.command()
@click.argument("topics", metavar="[TOPIC]...", nargs=-1)
@click.option("--format", "names", multiple=True, metavar="FORMAT", help="Only this format; may be repeated.")
@click.option(
    "--size",
    "sizes",
    multiple=True,
    type=click.IntRange(1, 1 << 28),
    help="Elements, for matmul rows; may be repeated.",
)
@click.option("--data", "kinds", multiple=True, help="normal, hard, subnormal or nan; may be repeated.")
@click.option(
    "--threads", default=1, show_default=True, type=click.IntRange(min=1), help="Of lowprec, the stream and torch."
)
@click.option("--budget", default=1.0, show_default=True, type=click.FloatRange(min=0), help="Seconds for each row.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON (schema lowprec.bench/1).")
def bench(names: tuple[str, ...], budget: float, as_json: bool, **asked: Any) -> None:
    """Time conversions beside the best installed peer and beside the movement of as many bytes.

    TOPIC is cast, decode, quantize, modes, stochastic, f64, small, block, arith, matmul, threads or import; without
    one, all are run. Products of matrices (matmul) stand beside np.matmul.
    """
    from lowprec.spec.catalog import block_format, is_block
    from lowprec.tools import bench, cards
    from lowprec.tools.contests import WrongResult

    try:
        formats = [block_format(name) if is_block(name) else format_named(name) for name in names]
        jobs = bench.plan(formats=formats, **asked)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    click.echo(f"{len(jobs)} rows, about {bench.seconds(jobs, budget):.0f} seconds", err=True)
    try:
        with progress() as watch:
            report = bench.run(jobs, budget=budget, watch=watch)
    except WrongResult as error:
        click.echo(str(error), err=True)
        sys.exit(DIFFER)
    click.echo(report.as_json()) if as_json else cards.show(report.table())


if __name__ == "__main__":
    main()
