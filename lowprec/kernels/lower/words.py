"""Formats that kernels have routes of their own for: those that the processor computes in, and near ones.

Floor 2b. Imports spec.
"""

from __future__ import annotations

from lowprec.spec.families import ieee, power_of_two
from lowprec.spec.format import Carrier, Format

__all__ = ["BRAIN", "CUT_SINGLE", "DOUBLE", "HALF", "POWERS", "SINGLE"]

#: Formats are equal when their parameters are, whatever they are called.
SINGLE: Format = ieee("single", 8, 23)
DOUBLE: Format = Carrier(
    name="double", exponent_bits=11, trailing_bits=52, bias=1023, nans=(1 << 52) - 1, infinity=True
)

#: The accumulators of running sums, and what windows of hardware round to.
HALF, BRAIN, CUT_SINGLE = ieee("half", 5, 10), ieee("brain", 8, 7), ieee("cut_single", 8, 13)

#: Scales that are powers of two.
POWERS = power_of_two("powers", 8)
