"""Programs and formulas in other languages that give what lowprec gives."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import cast, get_args

import click

from lowprec.cli import completing
from lowprec.cli.arguments import (
    deliver,
    format_named,
    operation_formats,
    product_named,
    project,
    usage_errors,
)
from lowprec.cli.options import named, output_option, projection_options, several
from lowprec.spec.projection import NanPolicy

_formats_option = several(
    "--format",
    "formats",
    of=completing.formats,
    help="The format of an operation's operands and of its result; or one for each, in this order.",
)

_nan_option = named(
    "--nan-becomes",
    "nan",
    type=click.Choice([policy for policy in get_args(NanPolicy) if policy != "error"]),
    help="What NaN becomes in a format without NaN: zero, the largest number or negative zero. Default: such "
    "results are refused.",
)


@click.group(short_help="Export an accumulation or an operation to C, or to SMT-LIB.")
def export() -> None:
    """Export what gives the same results in other languages."""


@export.command("c", short_help="Write a C99 header of an accumulation or an operation.")
@named(
    "--accumulation",
    of=completing.accumulations,
    help="The accumulation, by name or in a .toml file; or a library call, by name.",
)
@click.option(
    "--operands",
    nargs=2,
    metavar="X Y",
    help="Formats of x and y, for an accumulation that takes any.",
)
@click.option(
    "--scale",
    nargs=2,
    type=(str, click.IntRange(1)),
    metavar="FORMAT SIZE",
    help="Take operands in blocks: the format of their scales, and how many elements share one.",
)
@named("--operation", of=completing.operations, help="The operation, such as fma, or convert.")
@_formats_option
@projection_options
@_nan_option
@output_option
def as_c(
    accumulation: str | None,
    operands: tuple[str, str] | None,
    scale: tuple[str, int] | None,
    operation: str | None,
    formats: tuple[str, ...],
    rounding: str | None,
    saturation: str | None,
    nan: str | None,
    output: Path | None,
) -> None:
    """Write a C99 header that gives the same results, bit for bit.

    Of an accumulation: dot and matmul, for any K. Rows of y are columns of the second matrix; operands in
    blocks come with the codes of their scales. Of a library call: with scales, bias, addend and the scale of
    the output, too. Of an operation: the code and the flags of one result.

    It takes and gives codes, needs stdint.h and stddef.h, allocates nothing and uses no floating point.

    For instance: lowprec export c --operation fma --format e4m3fn -o fma.h
    """
    from lowprec.export.c.c_operation import operation_header

    if (accumulation is None) == (operation is None):
        raise click.UsageError("give either --accumulation or --operation")
    if operation is not None:
        if operands is not None or scale is not None:
            raise click.UsageError(
                "--operands and --scale are for --accumulation; give an operation its --format"
            )
        made = _of_operation("c", operation_header, operation, formats, rounding, saturation, nan)
        deliver(made, output, of=formats)
        return
    assert accumulation is not None, "one of both is given"
    if formats or rounding or saturation or nan:
        raise click.UsageError(
            "--format, --rounding, --saturation and --nan-becomes are for --operation; an accumulation says "
            "its own"
        )
    with usage_errors():
        content = _of_product(accumulation, operands, scale)
    deliver(content, output, of=(accumulation, *(operands or ()), *map(str, scale or ())))


def _of_product(name: str, operands: tuple[str, str] | None, scale: tuple[str, int] | None) -> str:
    """Return the header of an accumulation or a library call."""
    from lowprec.export.c.c_accumulation import accumulation_header
    from lowprec.export.c.c_call import call_header
    from lowprec.export.tabulate import provenance
    from lowprec.spec.epilogue import LibraryCall

    how = product_named(name)
    words = f"lowprec export c --accumulation {shlex.quote(name)}"
    if isinstance(how, LibraryCall):
        if operands is not None or scale is not None:
            raise ValueError(f"the library call {name!r} says its operands: leave out --operands and --scale")
        return call_header(dataclasses.replace(how, name=name), provenance(words))
    if operands is not None and how.operands is not None:
        each = " and ".join(fmt.name for fmt in how.operands)
        raise ValueError(f"accumulation {name!r} takes operands in {each}; leave --operands out")
    if operands is not None:
        words += f" --operands {' '.join(operands)}"
        how = dataclasses.replace(how, operands=(format_named(operands[0]), format_named(operands[1])))
    blocks = None
    if scale is not None:
        words += f" --scale {scale[0]} {scale[1]}"
        blocks = (format_named(scale[0]), scale[1])
    return accumulation_header(how, provenance(words), blocks)


@export.command("smt", short_help="Write an operation as functions of SMT-LIB.")
@named("--operation", of=completing.operations, required=True, help="The operation, such as fma, or convert.")
@_formats_option
@projection_options
@_nan_option
@output_option
def as_smt(
    operation: str,
    formats: tuple[str, ...],
    rounding: str | None,
    saturation: str | None,
    nan: str | None,
    output: Path | None,
) -> None:
    """Write an operation as two functions of SMT-LIB, of its code and of its flags.

    They are in the logic of bit vectors, which Z3, cvc5, Bitwuzla and others read, to prove that a design
    gives the same for all operands. For instance: lowprec export smt --operation add --format e4m3fn
    """
    from lowprec.export.smt import operation_functions

    made = _of_operation("smt", operation_functions, operation, formats, rounding, saturation, nan)
    deliver(made, output, of=formats)


def _of_operation(
    language: str,
    write: Callable[..., str],
    operation: str,
    names: tuple[str, ...],
    rounding: str | None,
    saturation: str | None,
    nan: str | None,
) -> str:
    """Return what is written of an operation in these formats; one stands for all."""
    from lowprec.export.tabulate import provenance
    from lowprec.spec.arith import OPERANDS

    if not names:
        raise click.UsageError("an operation needs its --format; for instance --format e4m3fn")
    every = names * (OPERANDS.get(operation, 1) + 1) if len(names) == 1 else names
    *sources, target = operation_formats(operation, every)
    words = [f"lowprec export {language} --operation {operation}", *(f"--format {name}" for name in names)]
    words += [f"--rounding {rounding}"] * (rounding is not None)
    words += [f"--saturation {saturation}"] * (saturation is not None)
    words += [f"--nan-becomes {nan}"] * (nan is not None)
    if nan is not None and target.nan_code is not None:
        raise click.UsageError(
            f"--nan-becomes is for formats without NaN, and {target.name!r} has one; leave it out"
        )
    with usage_errors():
        projection = project(rounding, saturation, stochastic=True)
        if nan is not None:
            projection = dataclasses.replace(projection, nan=cast(NanPolicy, nan))
        return write(operation, sources, target, projection, provenance(" ".join(words)))
