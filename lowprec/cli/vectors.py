"""Test vectors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lowprec.cli import completing, definitions
from lowprec.cli.arguments import (
    accumulation_named,
    blocks_asked,
    deliver,
    format_named,
    one_format,
    operation_formats,
    profile_named,
    project,
    refuse,
    size_of,
    target_named,
    usage_errors,
)
from lowprec.cli.options import (
    OPERATIONS_HELP,
    count,
    define_option,
    flag,
    named,
    output_option,
    projection_options,
    scheduler_option,
    seed_option,
    subnormals_option,
)
from lowprec.export.tabulate import VECTOR_KINDS
from lowprec.spec.block import BlockFormat
from lowprec.spec.projection import Projection

if TYPE_CHECKING:
    from lowprec.export.unit_vectors import UnitSuite
    from lowprec.export.vectors import Suite
    from lowprec.spec.format import Format

#: What is not an operation on codes, with what is named behind it.
_UNITS = {
    "dot": "ACCUMULATION [FORMAT FORMAT]",
    "matmul": "ACCUMULATION [FORMAT FORMAT]",
    "block": "FORMAT BLOCK_FORMAT",
    "compare": "FORMAT",
}

#: Units whose flags no standard defines.
_SUMMED = {"matmul": "a product of matrices", "block": "a block converter"}

_EPILOG = f"{OPERATIONS_HELP}. Units: " + ", ".join(f"{name} {words}" for name, words in _UNITS.items())


@click.command(short_help="Generate test vectors of an operation or a unit.", epilog=_EPILOG)
@click.argument("operation", shell_complete=completing.operations)
@click.argument("formats", metavar="FORMAT...", nargs=-1, required=True, shell_complete=completing.anything)
@define_option
@projection_options
@subnormals_option
@named(
    "--profile",
    of=completing.profiles,
    help="Convert as this profile does, by name or in a .toml file.",
)
@named(
    "--rule",
    of=completing.rules,
    help="Scale rule of blocks, such as floor or rceil. Default: the format's own.",
)
@named(
    "--length", type=int, metavar="K", help="Products of a dot product. Default: what one step or chunk sums."
)
@named("--size", metavar="M,N,K", help="Rows of x, columns of y and products of matmul.")
@named(
    "--addend",
    metavar="none",
    type=click.Choice(["none"]),
    help="For a dot unit without an addend say none. Default: one in the format of the sum.",
)
@count(
    "--samples",
    default=1024,
    type=click.IntRange(max=1 << 24),
    help="Add this number of random operands where not all operands are tried; of units, of aimed ones.",
)
@seed_option("the random operands")
@flag("--flags", help="Add a column of the exception flags that each case raises.")
@click.option(
    *("--as", "kind"),
    default="text",
    show_default=True,
    type=click.Choice(VECTOR_KINDS),
    help="Write this kind of file: mem is hexadecimal for $readmemh, text what `lowprec compare` reads.",
)
@flag("--packed", help="Write the lanes of an operand as one number, lane 0 in its lowest bits.")
@flag("--operands", help="Print the operands without results, for a program under test to read.")
@flag("--coverage", help="Print the points of the verification plan, and the vectors that hit each.")
@scheduler_option
@output_option
def vectors(
    operation: str,
    formats: tuple[str, ...],
    kind: str,
    packed: bool,
    operands: bool,
    coverage: bool,
    output: Path | None,
    **asked: Any,
) -> None:
    """Generate test vectors: operands that matter and the code each must give, in hexadecimal.

    Name the FORMAT of each operand, then that of the result:

    \b
    lowprec vectors convert binary32 e4m3fn
    lowprec vectors fma e4m3fn e4m3fn binary32 binary32
    lowprec vectors dot ada_mma_e4m3fn_binary32
    lowprec vectors dot fp32_fma binary16 binary16 --length 16
    lowprec vectors matmul mine.toml --size 16,8,32
    lowprec vectors block bfloat16 mxfp4 --rule rceil
    lowprec vectors block mxfp4 bfloat16            (from blocks)
    lowprec vectors compare e5m2 --flags

    With --operands only the operands are printed. A program under test reads them and prints each line with
    its result, and `lowprec compare - OPERATION FORMAT...` judges those lines.

    All operands are tried if they have at most 16 bits together; of wider ones, those at ties, limits and the
    like. Units get operands aimed at what breaks them; --coverage says what is covered.
    """  # noqa: D301
    from lowprec.verify.sweeps.keeping import SweepError

    if asked["samples"] < 0 or asked["seed"] < 0:
        raise click.UsageError("--samples and --seed must not be negative")
    if operands and (kind != "text" or coverage):
        raise click.UsageError("--operands prints text; leave --as and --coverage out")
    if coverage:
        _refuse("the plan that --coverage prints", "packed")
    if coverage and kind not in ("text", "csv", "jsonl"):
        raise click.UsageError(f"--coverage is text, csv or jsonl, not {kind}")
    with usage_errors((ValueError, TypeError, ImportError, SweepError)):
        made = (
            _unit(operation, formats, asked) if operation in _UNITS else _elements(operation, formats, asked)
        )
        if coverage:
            plan = made.plan()
            content: str | bytes = {"text": plan.as_text, "csv": plan.as_csv, "jsonl": plan.as_jsonl}[
                kind
            ]() + "\n"
        else:
            content = made.operand_lines(packed=packed) if operands else made.render(kind, packed=packed)
    deliver(content, output, of=(*formats, asked["profile"] or ""))


#: Options of a projection, which say nothing if they are not given.
_PLAIN = ("rounding", "saturation", "subnormals")
#: Options, with their defaults, that a command line repeats in the headers of files; the last ones if given.
_REPEATED = ("rounding", "saturation", "samples", "seed")
_IF_GIVEN = ("subnormals", "profile", "rule", "length", "size", "addend")


def _command(operation: str, formats: tuple[str, ...], asked: dict[str, Any], names: tuple[str, ...]) -> str:
    words = ["lowprec vectors", operation, *formats]
    defined = definitions.given()
    words += [] if defined is None else [f"--define {defined.text}"]
    words += [f"--{name} {asked[name]}" for name in names]
    words += [f"--{name} {asked[name]}" for name in _IF_GIVEN if asked[name] is not None]
    return " ".join([*words, *["--flags"] * asked["flags"]])


def _refuse(operation: str, *names: str) -> None:
    """Refuse options that say nothing about an operation."""
    refuse(f"says nothing about {operation}", *names)


def _projection(target: Format, asked: dict[str, Any]) -> Projection:
    """Return the projection that the options ask for."""
    if asked["profile"] is None:
        return project(asked["rounding"], asked["saturation"], asked["subnormals"], stochastic=True)
    if any(asked[name] is not None for name in _PLAIN):
        raise click.UsageError(
            "--profile and --rounding, --saturation or --subnormals all say how to convert; give one of them"
        )
    return profile_named(asked["profile"]).projection(target)


def _elements(operation: str, formats: tuple[str, ...], asked: dict[str, Any]) -> Suite:
    from lowprec.export.vectors import suite

    _refuse(operation, "rule", "length", "size", "addend", "packed")
    name = "convert" if operation == "cast" else operation
    chosen = operation_formats(name, formats)
    how = _projection(chosen[-1], asked)
    if how.rounding.bits and asked["scheduler"] is not None:
        raise click.UsageError("--scheduler is for deterministic modes; leave it out")
    said = {
        **asked,
        "rounding": asked["rounding"] or "nearest_even",
        "saturation": asked["saturation"] or "none",
    }
    command = _command(operation, formats, said, _REPEATED[0 if asked["profile"] is None else 2 :])
    options = {key: asked[key] for key in ("samples", "seed", "flags", "scheduler")}
    return suite(name, chosen, how, command=command, **options)


def _unit(operation: str, names: tuple[str, ...], asked: dict[str, Any]) -> UnitSuite:
    from lowprec.export import unit_vectors

    _refuse(operation, "scheduler")
    options: dict[str, Any] = {"samples": asked["samples"], "seed": asked["seed"]}
    if operation == "compare":
        _refuse(operation, *_IF_GIVEN, *_PLAIN, "packed")
        _count(operation, names, 1)
        options |= {"flags": asked["flags"], "command": _command(operation, names, asked, _REPEATED[2:])}
        return unit_vectors.comparison_suite(one_format(names[0]), **options)
    if asked["flags"] and operation != "dot":
        raise click.UsageError(
            f"--flags are of operations on numbers, and of dot products that are made of them: no standard "
            f"says which exceptions {_SUMMED[operation]} raises; leave it out"
        )
    if operation == "block":
        _count(operation, names, 2)
        _refuse(operation, "length", "size", "addend")
        return _block(names, asked, options)
    _refuse(operation, *_PLAIN, "profile", "rule")
    how = accumulation_named(names[0])
    pair = tuple(map(format_named, names[1:]))
    definitions.check_named()
    if len(pair) not in (0, 2):
        raise click.UsageError(f"{operation} takes {_UNITS[operation]}; name both operands' formats, or none")
    options |= {"formats": pair or None, "command": _command(operation, names, asked, _REPEATED[2:])}
    if operation == "dot":
        _refuse(operation, "size")
        options |= {"flags": asked["flags"], "added": asked["addend"] is None}
        return unit_vectors.dot_suite(how, length=asked["length"], **options)
    _refuse(operation, "length", "addend")
    return unit_vectors.matmul_suite(how, size_of(asked["size"]), **options)


def _count(operation: str, names: tuple[str, ...], wanted: int) -> None:
    if len(names) != wanted:
        raise click.UsageError(f"{operation} takes {_UNITS[operation]}, not {' '.join(names)}")


def _block(names: tuple[str, ...], asked: dict[str, Any], options: dict[str, Any]) -> UnitSuite:
    from lowprec.export import block_vectors

    first, second = map(target_named, names)
    definitions.check_named()
    shown = tuple(name for name in _REPEATED[:2] if asked[name] is not None)
    options["command"] = _command("block", names, asked, (*shown, *_REPEATED[2:]))
    if isinstance(first, BlockFormat) and not isinstance(second, BlockFormat):
        _refuse("decoding blocks", *_PLAIN, "rule", "profile")
        return block_vectors.decoder_suite(first, second, **options)
    if not isinstance(second, BlockFormat) or isinstance(first, BlockFormat):
        raise click.UsageError(
            f"block takes {_UNITS['block']}, or them the other way round, not {' '.join(names)}"
        )
    return block_vectors.block_suite(first, blocks_asked(second, asked), **options)
