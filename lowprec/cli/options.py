"""Options that commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from lowprec.cli import completing
from lowprec.spec.arith import OPERANDS
from lowprec.spec.functions import FUNCTIONS
from lowprec.spec.projection import Saturation
from lowprec.spec.rounding import MODES

define_option = click.option(
    "--define",
    metavar="KEY=VALUE,...",
    help="Define a private format by its parameters, for instance exponent_bits=4,trailing_bits=3,nans=1. "
    "Others, by default: bias (IEEE's), sign=magnitude (or unsigned, twos_complement), infinity=false, "
    "negative_zero=true, subnormals=true, name=private.",
)

#: A file to write, which need not be readable.
OUTPUT = click.Path(dir_okay=False, readable=False, writable=True, path_type=Path)

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")

output_option = click.option("-o", "--output", type=OUTPUT, help="Write to this file instead of printing.")

nan_option = click.option(
    "--nan",
    type=click.Choice(["exact", "any"]),
    default="exact",
    show_default=True,
    help="Accept the exact NaN code only, or any NaN, where NaN is right.",
)


def seed_option(what: str) -> Callable[[Any], Any]:
    """Return the option of a seed that this is drawn with."""
    return click.option(
        "--seed",
        default=0,
        show_default=True,
        type=click.IntRange(0),
        metavar="N",
        help=f"Draw {what} with this seed.",
    )


scheduler_option = click.option(
    "--scheduler",
    metavar="ADDRESS",
    help="Work on the Dask cluster at this address, such as tcp://host:8786, instead of on this machine.",
)

MODES_HELP = ", ".join(mode.name for mode in MODES)
POLICIES_HELP = ", ".join(policy.value for policy in Saturation)

_rounding = click.option(
    "--rounding",
    default="nearest_even",
    show_default=True,
    metavar="MODE",
    shell_complete=completing.roundings,
    help=f"Round by this mode: {MODES_HELP}.",
)
_saturation = click.option(
    "--saturation",
    default="none",
    show_default=True,
    metavar="POLICY",
    shell_complete=completing.saturations,
    help=f"Treat results beyond the largest value by this policy: {POLICIES_HELP}.",
)


def projection_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add --rounding and --saturation."""
    return _rounding(_saturation(function))


#: Below the help of the commands that take an operation.
OPERATIONS_HELP = "Operations, with the number of operands: convert 1, "
OPERATIONS_HELP += ", ".join(f"{name} {operands}" for name, operands in OPERANDS.items())
OPERATIONS_HELP += ". Functions: "
OPERATIONS_HELP += ", ".join(f"{name} {rule.operands}" for name, rule in FUNCTIONS.items())
