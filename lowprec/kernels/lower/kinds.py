"""The kinds of operands and results: one list for all kernels.

Floor 2b. Imports the standard library only.
"""

from __future__ import annotations

import enum

__all__ = ["FINITE", "FLUSHED", "GENERATED", "INFINITY", "NAN", "SIGNALING", "Kind"]


class Kind(enum.IntEnum):
    """What an operand or a result is. All kinds from NAN on but FLUSHED are NaNs."""

    FINITE = 0  #: zeros too
    INFINITY = 1
    NAN = 2  #: a quiet one
    SIGNALING = 3
    FLUSHED = 4  #: a subnormal operand that counts as zero: `operand` makes zeros of these
    GENERATED = 5  #: a NaN that an invalid operation makes of operands that are none


#: The same as plain integers: numba gives members of an enum a type of their own, and would compile helpers
#: once more.
FINITE, INFINITY, NAN, SIGNALING, FLUSHED, GENERATED = map(int, Kind)
