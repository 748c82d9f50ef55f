"""Options that commands share.

Floor 5.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from lowprec.spec.arith import OPERANDS

__all__ = ["OPERATIONS_HELP", "OUTPUT", "define_option", "json_option", "output_option", "projection_options"]

define_option = click.option(
    "--define",
    metavar="KEY=VALUE,...",
    help="A private format: name=, exponent_bits=, trailing_bits=, bias=, sign=, nans=, infinity=, negative_zero=, "
    "subnormals=. Named by its name, or 'private'.",
)

#: A file to write, which need not be readable.
OUTPUT = click.Path(dir_okay=False, readable=False, writable=True, path_type=Path)

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")

output_option = click.option("-o", "--output", type=OUTPUT, help="Write to this file, whole or not at all.")

_rounding = click.option("--rounding", default="nearest_even", show_default=True, metavar="MODE")
_saturation = click.option("--saturation", default="none", show_default=True, metavar="POLICY")


def projection_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add --rounding and --saturation."""
    return _rounding(_saturation(function))


#: Below the help of the commands that take an operation.
OPERATIONS_HELP = "Operations, with the number of operands: convert 1, "
OPERATIONS_HELP += ", ".join(f"{name} {operands}" for name, operands in OPERANDS.items())
