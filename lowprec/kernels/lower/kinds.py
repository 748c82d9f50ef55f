"""The kinds of operands and results, and the ways to cut: one list of each for all kernels.

Floor 2b. Imports the standard library only.
"""

from __future__ import annotations

import enum

__all__ = [
    "CUT_DOWN",
    "CUT_TO_NEAREST",
    "CUT_TO_ODD",
    "CUT_TO_ZERO",
    "FINITE",
    "FLUSHED",
    "GENERATED",
    "INFINITY",
    "NAN",
    "SIGNALING",
    "Cut",
    "Kind",
]


class Kind(enum.IntEnum):
    """Kinds of operands and results. All kinds from NAN on except FLUSHED are NaNs."""

    FINITE = 0  #: zeros too
    INFINITY = 1
    NAN = 2  #: a quiet one
    SIGNALING = 3
    FLUSHED = 4  #: a subnormal operand that counts as zero: `operand` makes zeros of these
    GENERATED = 5  #: a NaN that an invalid operation makes of operands that are none


#: The same as plain integers: numba gives members of an enum a type of their own, and would compile helpers
#: once more.
FINITE, INFINITY, NAN, SIGNALING, FLUSHED, GENERATED = map(int, Kind)


class Cut(enum.IntEnum):
    """Cuts of a window's terms, by the names that `lowprec.spec.accumulation.Window` has for them."""

    TOWARD_ZERO = 0
    FLOOR = 1
    TO_ODD = 2
    NEAREST_AWAY = 3


CUT_TO_ZERO, CUT_DOWN, CUT_TO_ODD, CUT_TO_NEAREST = map(int, Cut)
