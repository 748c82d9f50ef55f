"""Operations: their names, and how many operands each takes.

An operation is exact: its result is a real number, an infinity or NaN. One projection encodes it.

Floor 1. Imports the standard library only.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from types import MappingProxyType

from lowprec.spec.functions import FUNCTIONS

#: Number of operands, by operation. Source: [IEEE754] 5.3, 5.4, 5.5.1, 9.6.
OPERANDS: Mapping[str, int] = MappingProxyType(
    {
        "add": 2,
        "subtract": 2,
        "multiply": 2,
        "divide": 2,
        "sqrt": 1,
        "fma": 3,
        "remainder": 2,
        "minimum": 2,
        "maximum": 2,
        "minimum_number": 2,
        "maximum_number": 2,
        "negative": 1,
        "absolute": 1,
        "copysign": 2,
        "round_to_integral": 1,
        "scaleb": 2,
        "logb": 1,
    }
)

#: Operations that change the sign bit of any operand, NaNs too, and raise no flags. Source: [IEEE754] 5.5.1.
SIGN_ONLY = frozenset(("negative", "absolute", "copysign"))


def operands_of(operation: str) -> int:
    """Return the number of operands of an operation.

    >>> operands_of("fma")
    3
    """
    if operation in FUNCTIONS:
        return FUNCTIONS[operation].operands
    if operation not in OPERANDS:
        raise ValueError(
            f"unknown operation {operation!r}; use one of {', '.join(OPERANDS)}, or a function such as exp"
        )
    return OPERANDS[operation]


class Class(enum.IntEnum):
    """The classes of codes. Source: [IEEE754] 5.7.2; numbered as in RISC-V's fclass."""

    NEGATIVE_INFINITY = 0
    NEGATIVE_NORMAL = 1
    NEGATIVE_SUBNORMAL = 2
    NEGATIVE_ZERO = 3
    POSITIVE_ZERO = 4
    POSITIVE_SUBNORMAL = 5
    POSITIVE_NORMAL = 6
    POSITIVE_INFINITY = 7
    SIGNALING_NAN = 8
    QUIET_NAN = 9
