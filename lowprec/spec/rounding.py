"""Rounding, as four thresholds: from which tail on the code farther from zero is taken.

A value between two neighbouring codes has a tail: what lies above the code nearer to zero, in
units of the gap. A deterministic rounding mode says, for each sign and each parity of the nearer
code, how large the tail must be for the farther code to be taken. That is all a mode is.

Floor 1. Imports the standard library only.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

__all__ = ["MODES", "Rounding", "Threshold", "rounding"]


class Threshold(enum.IntEnum):
    """From which tail on the farther code is taken. An exact value never moves."""

    ANY = 0  #: any tail but zero
    HALF_OR_ABOVE = 1
    ABOVE_HALF = 2
    NEVER = 3

    def __repr__(self) -> str:
        return f"Threshold.{self.name}"


@dataclass(frozen=True, slots=True)
class Rounding:
    """A rounding mode: a threshold for each sign and each parity of the nearer code.

    Parity is the code's, so ties to even are right for formats of one-bit precision too.
    Overflow asks the same thresholds at the largest finite code.

    >>> str(NEAREST_EVEN)
    'nearest_even'
    >>> NEAREST_EVEN.threshold(negative=False, odd=True)
    Threshold.HALF_OR_ABOVE

    Parameters
    ----------
    name : str
    positive_even, positive_odd, negative_even, negative_odd : Threshold

    Source
    ------
    [IEEE754] 4.3; [P3109] RoundToPrecision.
    """

    name: str
    positive_even: Threshold
    positive_odd: Threshold
    negative_even: Threshold
    negative_odd: Threshold

    def threshold(self, *, negative: bool, odd: bool) -> Threshold:
        """The threshold for a value of this sign whose nearer code has this parity."""
        if negative:
            return self.negative_odd if odd else self.negative_even
        return self.positive_odd if odd else self.positive_even

    def __str__(self) -> str:
        return self.name


_ANY, _HALF, _ABOVE, _NEVER = Threshold.ANY, Threshold.HALF_OR_ABOVE, Threshold.ABOVE_HALF, Threshold.NEVER

#                                                    positive        negative
#                                                    even    odd     even    odd
NEAREST_EVEN = Rounding("nearest_even",              _ABOVE, _HALF,  _ABOVE, _HALF)  # fmt: skip
NEAREST_AWAY = Rounding("nearest_away",              _HALF,  _HALF,  _HALF,  _HALF)  # fmt: skip
NEAREST_ZERO = Rounding("nearest_zero",              _ABOVE, _ABOVE, _ABOVE, _ABOVE)  # fmt: skip
TOWARD_ZERO = Rounding("toward_zero",                _NEVER, _NEVER, _NEVER, _NEVER)  # fmt: skip
TOWARD_POSITIVE = Rounding("toward_positive",        _ANY,   _ANY,   _NEVER, _NEVER)  # fmt: skip
TOWARD_NEGATIVE = Rounding("toward_negative",        _NEVER, _NEVER, _ANY,   _ANY)  # fmt: skip
AWAY_FROM_ZERO = Rounding("away_from_zero",          _ANY,   _ANY,   _ANY,   _ANY)  # fmt: skip
TO_ODD = Rounding("to_odd",                          _ANY,   _NEVER, _ANY,   _NEVER)  # fmt: skip

#: The deterministic modes, in the order of documents and tables.
MODES = (
    NEAREST_EVEN,
    NEAREST_AWAY,
    NEAREST_ZERO,
    TOWARD_ZERO,
    TOWARD_POSITIVE,
    TOWARD_NEGATIVE,
    AWAY_FROM_ZERO,
    TO_ODD,
)

_BY_NAME = {mode.name: mode for mode in MODES}


def rounding(mode: Rounding | str) -> Rounding:
    """The rounding mode of that name, or the mode itself.

    >>> rounding("to_odd") is TO_ODD
    True
    """
    if isinstance(mode, Rounding):
        return mode
    if not isinstance(mode, str):
        raise TypeError(f"rounding must be a Rounding or a name, not {mode!r}")
    if mode not in _BY_NAME:
        raise ValueError(f"unknown rounding {mode!r}; use one of {', '.join(_BY_NAME)}")
    return _BY_NAME[mode]
