"""Options that commands share."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import click

from lowprec.cli import completing
from lowprec.cli.arguments import usage_errors
from lowprec.spec.arith import OPERANDS
from lowprec.spec.functions import FUNCTIONS
from lowprec.spec.projection import Saturation, SubnormalPolicy
from lowprec.spec.rounding import MODES

Decorator = Callable[[Any], Any]


class _Place(click.Path):
    """A file or folder to write, which others mean by - the standard output by."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path."""
        if os.fsdecode(value) == "-":
            self.fail("'-' does not stand for the standard output here; name a file", param, ctx)
        return super().convert(value, param, ctx)


class _Output(_Place):
    """A file to write, which need not be readable; its folder is looked for before the work begins."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path."""
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        if not path.parent.is_dir():
            self.fail(f"there is no folder {str(path.parent)!r} to write {path.name!r} to", param, ctx)
        return path


#: A file to write, which need not be readable; a file, a folder and a place of either to read; and a place of
#: either to write.
OUTPUT = _Output(dir_okay=False, readable=False, writable=True, path_type=Path)
INPUT = click.Path(exists=True, dir_okay=False, path_type=Path)
FOLDER = click.Path(file_okay=False, path_type=Path)
PLACE = click.Path(path_type=Path)
NEW = _Place(path_type=Path)


def flag(*names: str, help: str) -> Decorator:
    """Return an option without a value."""
    return click.option(*names, is_flag=True, help=help)


def named(
    *names: str, of: completing.Completer | None = None, metavar: str = "NAME", help: str, **more: Any
) -> Decorator:
    """Return an option that takes a name of some kind."""
    return click.option(*names, metavar=metavar, shell_complete=of, help=help, **more)


def several(*names: str, **more: Any) -> Decorator:
    """Return an option as `named` does, which may be repeated."""
    return named(*names, multiple=True, show_default="default" in more, **more)


def count(*names: str, default: int, type: click.IntRange, help: str) -> Decorator:
    """Return an option that takes a number with a default."""
    return click.option(*names, default=default, show_default=True, type=type, metavar="N", help=help)


def seed_option(what: str) -> Decorator:
    """Return the option of a seed that this is drawn with."""
    return count("--seed", default=0, type=click.IntRange(0), help=f"Draw {what} with this seed.")


def json_option(note: str = "") -> Decorator:
    """Return the option to print JSON; a note says more of it."""
    return flag("--json", "as_json", help=f"Print JSON instead of text{note}.")


def tables_option(what: str) -> Decorator:
    """Return the option of the folder of golden data."""
    where = "Default: tables/ of the checkout that lowprec runs in."
    return click.option("--tables", type=FOLDER, help=f"Folder of {what}. {where}")


def baseline_option(help: str) -> Decorator:
    """Return the option of an earlier report, whose differences are accepted."""
    return click.option("--baseline", type=INPUT, metavar="FILE", help=help)


def _define(context: click.Context, parameter: click.Parameter, text: str | None) -> None:
    if text is not None:
        from lowprec.cli import definitions

        with usage_errors():
            definitions.keep(context, text)


define_option = click.option(
    "--define",
    callback=_define,
    expose_value=False,
    metavar="KEY=VALUE,...",
    help="Define a private format by its parameters, for instance exponent_bits=4,trailing_bits=3,nans=1. "
    "Others, by default: bias (IEEE's), sign=magnitude (or unsigned, twos_complement), infinity=false, "
    "negative_zero=true, subnormals=true, name=private.",
)
junit_option = click.option("--junit", type=OUTPUT, help="Also write a JUnit test report to this file.")
output_option = click.option("-o", "--output", type=OUTPUT, help="Write to this file instead of printing.")
nan_option = click.option(
    "--nan",
    type=click.Choice(["exact", "any"]),
    help="Accept the exact NaN code only, or any NaN, where NaN is right. By default exact; captures say "
    "their own.",
)
scheduler_option = named(
    "--scheduler",
    metavar="ADDRESS",
    help="Work on the Dask cluster at this address, such as tcp://host:8786, instead of on this machine.",
)

MODES_HELP = ", ".join(mode.name for mode in MODES)
POLICIES_HELP = ", ".join(policy.value for policy in Saturation)

_rounding = named(
    "--rounding",
    of=completing.roundings,
    metavar="MODE",
    help=f"Round by this mode: {MODES_HELP}. By default nearest_even; block formats say their own.",
)
_saturation = named(
    "--saturation",
    of=completing.saturations,
    metavar="POLICY",
    help=f"Treat results beyond the largest value by this policy: {POLICIES_HELP}. By default none; block "
    "formats say their own.",
)


subnormals_option = click.option(
    "--subnormals",
    type=click.Choice(get_args(SubnormalPolicy)),
    help="Treat subnormal results and operands by this policy. By default keep.",
)


def projection_options(function: Callable[..., Any]) -> Any:
    """Add --rounding and --saturation."""
    return _rounding(_saturation(function))


#: Below the help of the commands that take an operation.
OPERATIONS_HELP = "Operations, with the number of operands: convert 1, "
OPERATIONS_HELP += ", ".join(f"{name} {operands}" for name, operands in OPERANDS.items())
OPERATIONS_HELP += ". Functions: "
OPERATIONS_HELP += ", ".join(f"{name} {rule.operands}" for name, rule in FUNCTIONS.items())
