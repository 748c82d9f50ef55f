"""The two formats that the processor itself computes in, which requests may name under any name.

Floor 2b. Imports spec.
"""

from __future__ import annotations

from lowprec.spec.families import ieee
from lowprec.spec.format import Carrier, Format

__all__ = ["DOUBLE", "SINGLE"]

#: Formats are equal when their parameters are, whatever they are called.
SINGLE: Format = ieee("single", 8, 23)
DOUBLE: Format = Carrier(
    name="double", exponent_bits=11, trailing_bits=52, bias=1023, nans=(1 << 52) - 1, infinity=True
)
