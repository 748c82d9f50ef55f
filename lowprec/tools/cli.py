"""The command line. Exit codes: 0 all agree, 1 some differ, 2 bad input or usage, 3 nothing was compared.

Floor 5. Each command imports what it needs, so that `lowprec --help` does not wait for numba.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import lowprec
from lowprec.tools.progress import progress
from lowprec.tools.tabulate import TABLE_KINDS, VECTOR_KINDS

if TYPE_CHECKING:
    import numpy.typing as npt

    from lowprec.spec.format import Format
    from lowprec.spec.projection import Projection
    from lowprec.tools.frameworks import Framework

__all__ = ["main"]

AGREE, DIFFER, MISUSE, NOTHING = 0, 1, 2, 3


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(lowprec.__version__, prog_name="lowprec")
def main() -> None:
    """Show what low-precision number formats must give, bit for bit, and who differs.

    Exit codes: 0 all agree, 1 some differ, 2 bad input or usage, 3 nothing was compared.
    """


@main.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def formats(as_json: bool) -> None:
    """List the formats of the catalog."""
    from lowprec.spec.catalog import FORMATS
    from lowprec.tools import cards

    if as_json:
        click.echo(json.dumps([cards.describe(fmt) for fmt in FORMATS.values()], indent=1))
    else:
        cards.show(cards.listing())


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

    FORMAT is a name, an alias, a P3109 name such as binary8p3se, or a .toml file.
    """
    from lowprec.tools import cards

    if profile is not None:
        from lowprec.spec.profiles import profile as profile_of

        if as_json:
            raise click.UsageError("--json shows a format; leave --profile out")
        chosen = None if fmt is None and define is None else _one_format(fmt, define)
        try:
            cards.show(cards.profile_card(profile_of(profile), chosen))
        except ValueError as error:
            raise click.UsageError(str(error)) from None
        return
    known = _one_format(fmt, define)
    if as_json:
        click.echo(json.dumps(cards.describe(known), indent=1))
    else:
        cards.show(cards.card(known))


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
    known, projection = _one_format(fmt, define), _project(rounding, saturation)
    words = ["lowprec table", fmt or f"--define {define}", f"--as {kind}", *(["--thresholds"] if thresholds else [])]
    if thresholds or kind in ("sv", "vhdl"):
        words.append(f"--rounding {rounding} --saturation {saturation}")
    try:
        content = Table(known, projection, thresholds, " ".join(words)).render(kind)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    _deliver(content, output)


@main.command()
@click.argument("operation")
@click.argument("formats", metavar="FORMAT...", nargs=-1, required=True)
@_define
@_options(*_projection)
@click.option(
    "--samples",
    default=1024,
    show_default=True,
    type=click.IntRange(max=1 << 24),
    help="Random operands beside the chosen ones.",
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

    For OPERATION convert, give the FORMAT of the operand and of the result:
    `lowprec vectors convert binary32 e4m3fn`. With --operands, a program under test can read them
    and `lowprec compare - convert binary32 e4m3fn` judge what it prints.
    """
    from lowprec.tools.vectors import suite

    if samples < 0 or seed < 0:
        raise click.UsageError("--samples and --seed must not be negative")
    if operands and kind != "text":
        raise click.UsageError("--operands prints text; leave --as out")
    chosen = _operation_formats(operation, formats, define)
    words = ["lowprec vectors", operation, *formats, *([f"--define {define}"] if define else [])]
    words += [f"--rounding {rounding} --saturation {saturation} --samples {samples} --seed {seed}"]
    made = suite(operation, chosen, _project(rounding, saturation), samples=samples, seed=seed, command=" ".join(words))
    _deliver(made.operand_lines().encode() if operands else made.render(kind), output)


@main.command()
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

    Reads from standard input (-) or a file; takes the same arguments as `lowprec vectors`.
    """
    from lowprec.tools.compare import Malformed, check_lines

    chosen, projection = _operation_formats(operation, formats, define), _project(rounding, saturation)
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

    chosen = _frameworks(frameworks)
    for source in sources:
        if source not in SOURCES:
            raise click.UsageError(f"unknown source {source!r}; use one of {', '.join(SOURCES)}")
    if samples < 0 or seed < 0:
        raise click.UsageError("--samples and --seed must not be negative")
    wanted = [_format(target) for target in targets]
    data = None if values is None else _load(values)

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
@click.option("--size", "sizes", multiple=True, type=click.IntRange(1, 1 << 28), help="Elements; may be repeated.")
@click.option("--data", "kinds", multiple=True, help="normal, hard, subnormal or nan; may be repeated.")
@click.option(
    "--threads", default=1, show_default=True, type=click.IntRange(min=1), help="Of lowprec, the stream and torch."
)
@click.option("--budget", default=1.0, show_default=True, type=click.FloatRange(min=0), help="Seconds for each row.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON (schema lowprec.bench/1).")
def bench(names: tuple[str, ...], budget: float, as_json: bool, **asked: Any) -> None:
    """Time conversions beside the best installed peer and beside the movement of as many bytes.

    TOPIC is cast, decode, quantize, modes, stochastic, f64, small, block, threads or import; without one, all are run.
    """
    from lowprec.spec.catalog import block_format, is_block
    from lowprec.tools import bench, cards
    from lowprec.tools.contests import WrongResult

    try:
        formats = [block_format(name) if is_block(name) else _format(name) for name in names]
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


def _format(name: str, define: str | None = None, *, operand: bool = False, operation: bool = False) -> Format:
    """A format by name, by file, or the one that --define defines."""
    from lowprec.spec.catalog import format as format_of
    from lowprec.tools import definitions

    try:
        if define is not None:
            defined = definitions.from_text(define)
            if name == defined.name:
                return defined
            if not operation:
                raise ValueError(f"--define defines {defined.name!r}, but {name!r} is asked for; leave one of them out")
        if name.endswith(".toml"):
            return definitions.from_toml(Path(name))
        if operand:
            from lowprec.tools.vectors import operand_format

            return operand_format(name)
        return format_of(name)
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def _one_format(name: str | None, define: str | None) -> Format:
    from lowprec.tools import definitions

    if name is not None:
        return _format(name, define)
    if define is None:
        raise click.UsageError("name a FORMAT, or define one with --define exponent_bits=...,trailing_bits=...")
    try:
        return definitions.from_text(define)
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def _operation_formats(operation: str, names: tuple[str, ...], define: str | None) -> tuple[Format, ...]:
    from lowprec.tools.vectors import OPERATIONS

    if operation not in OPERATIONS:
        raise click.UsageError(f"unknown operation {operation!r}; use one of {', '.join(OPERATIONS)}")
    wanted = OPERATIONS[operation].operands + 1
    if len(names) != wanted:
        raise click.UsageError(
            f"{operation} takes {wanted} formats, of each operand and of the result, not {len(names)} "
            f"({' '.join(names)})"
        )
    chosen = tuple(
        _format(name, define, operand=place < wanted - 1, operation=True) for place, name in enumerate(names)
    )
    if define is not None and _one_format(None, define).name not in names:
        raise click.UsageError(f"--define defines {_one_format(None, define).name!r}, which is not among the formats")
    return chosen


def _project(rounding: str, saturation: str) -> Projection:
    from lowprec.spec.projection import Projection

    try:
        projection = Projection(rounding=rounding, saturation=saturation)  # type: ignore[arg-type]
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if projection.rounding.bits:
        raise click.UsageError(
            f"rounding {rounding!r} needs a random integer for each operand; use a deterministic mode"
        )
    return projection


def _deliver(content: bytes, output: Path | None) -> None:
    """Print, or write beside the file and rename."""
    if output is None:
        click.echo(content, nl=False)
        return
    beside = output.with_name(f".{output.name}.{os.getpid()}")
    try:
        beside.write_bytes(content)
        os.replace(beside, output)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise click.UsageError(f"cannot write {str(output)!r}: {error.strerror}") from None


def _frameworks(names: tuple[str, ...]) -> list[Framework]:
    from lowprec.tools.frameworks import FRAMEWORKS

    for name in names:
        if name not in FRAMEWORKS:
            raise click.UsageError(f"unknown framework {name!r}; use one of {', '.join(FRAMEWORKS)}")
    for name in names:
        if FRAMEWORKS[name].version is None:
            click.echo(f"nothing was compared: {name} is not installed; {FRAMEWORKS[name].install}", err=True)
            sys.exit(NOTHING)
    return [
        framework
        for framework in FRAMEWORKS.values()
        if framework.version is not None and (not names or framework.name in names)
    ]


def _load(path: Path) -> npt.NDArray[Any]:
    """Values from an .npy file of one of the source types."""
    import numpy as np

    from lowprec.tools.cases import SOURCES

    try:
        values = np.load(path, allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise click.UsageError(f"cannot read {str(path)!r} as an .npy file: {error}") from None
    if not isinstance(values, np.ndarray):
        raise click.UsageError(f"{str(path)!r} holds several arrays; save one with np.save")
    if values.dtype.newbyteorder("=") not in SOURCES.values():
        raise click.UsageError(
            f"{str(path)!r} holds {values.dtype}; own data must be one of {', '.join(SOURCES)} "
            f"(np.save loses ml_dtypes types: save bfloat16 as float32)"
        )
    return values.astype(values.dtype.newbyteorder("="))


if __name__ == "__main__":
    main()
