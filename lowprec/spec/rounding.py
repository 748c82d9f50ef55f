"""Rounding, as four thresholds: from which tail on the code farther from zero is taken.

A value between two neighbouring codes has a tail: what lies above the code nearer to zero, in
units of the gap. A deterministic rounding mode says, for each sign and each parity of the nearer
code, how large the tail must be for the farther code to be taken. That is all a mode is.

Floor 1. Imports the standard library only.
"""

from __future__ import annotations

import enum
import operator
import re
from dataclasses import dataclass

from lowprec.spec.fields import text


class Threshold(enum.IntEnum):
    """From which tail on the farther code is taken. An exact value never moves."""

    ANY = 0  #: any tail but zero
    HALF_OR_ABOVE = 1
    ABOVE_HALF = 2
    NEVER = 3

    def __repr__(self) -> str:
        return f"Threshold.{self.name}"


#: The stochastic variants: P3109's three, which take the same integers, and the layouts of random words that
#: hardware has.
P3109_VARIANTS = ("A", "B", "C")
VARIANTS = (*P3109_VARIANTS, "ptx_rs", "rdna4", "hip", "avx10_2")


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
    bits : int
        Random bits of a stochastic mode, 0 for a deterministic one.
    variant : str
        Of a stochastic mode: see `stochastic`.

    Source: [IEEE754] 4.3; [P3109] RoundToPrecision.
    """

    name: str
    positive_even: Threshold
    positive_odd: Threshold
    negative_even: Threshold
    negative_odd: Threshold
    bits: int = 0
    variant: str = ""

    def __post_init__(self) -> None:
        text(self, "a rounding mode", "name", "variant")
        for name in ("positive_even", "positive_odd", "negative_even", "negative_odd"):
            if not isinstance(getattr(self, name), Threshold):
                raise TypeError(f"{name} of a rounding mode must be a Threshold, not {getattr(self, name)!r}")
        if type(self.bits) is not int:
            raise TypeError(f"bits of stochastic rounding must be an integer, not {self.bits!r}")
        if not 0 <= self.bits <= 32:
            raise ValueError(
                f"bits={self.bits} of a rounding mode is out of range; use 1 to 32, or 0 without variant"
            )
        if self.variant not in (VARIANTS if self.bits else ("",)):
            known = ", ".join(VARIANTS) if self.bits else "none where bits=0"
            raise ValueError(
                f"variant={self.variant!r} of stochastic rounding is unknown; use one of {known}"
            )

    def threshold(self, *, negative: bool, odd: bool) -> Threshold:
        """Return the threshold for a value of this sign whose nearer code has this parity."""
        if negative:
            return self.negative_odd if odd else self.negative_even
        return self.positive_odd if odd else self.positive_even

    @property
    def nearest(self) -> bool:
        """True for modes to the nearest value, whatever they do at ties."""
        return not self.bits and {
            self.positive_even, self.positive_odd, self.negative_even, self.negative_odd
        } <= {Threshold.HALF_OR_ABOVE, Threshold.ABOVE_HALF}  # fmt: skip

    @property
    def downward(self) -> bool:
        """True if an exact zero sum of numbers of unlike signs is -0, as it is under `toward_negative`."""
        above, below = (self.positive_even, self.positive_odd), (self.negative_even, self.negative_odd)
        return not self.bits and {*above} == {Threshold.NEVER} and {*below} == {Threshold.ANY}

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

_STOCHASTIC_NAME = re.compile(r"stochastic\((\d+)(?:, *(\w+))?\)")


def stochastic(bits: int, variant: str = "A") -> Rounding:
    """Return the stochastic rounding mode with this many random bits.

    With the tail eta and a random integer R below 2**bits, the farther code is taken iff

    ======= =================================================================
    variant condition
    ======= =================================================================
    A       floor(eta * 2**bits) + R >= 2**bits
    B       floor(eta * 2**(bits + 1)) + 2 * R + 1 >= 2**(bits + 1)
    C       eta * 2**bits rounded to the nearest even integer, + R >= 2**bits
    ======= =================================================================

    The others are variant A with R cut out of a 32-bit word as the hardware does:

    ``ptx_rs``
        PTX ``cvt.rs``, 16 bits (13 for binary16). 8- and 6-bit formats: four lanes along the
        last axis share a word; the upper half-word serves the first two, the lower half-word the
        last two, the first of each pair with its bits reversed. bfloat16 and binary16: two lanes
        share a word, the upper half-word serves the first; binary16 takes its low 13 bits.
    ``rdna4``
        The upper bits of each element's word: 20 for E4M3, 21 for E5M2 (23 - trailing bits).
    ``hip``
        The lower bits of each element's word, as many.
    ``avx10_2``
        The bias byte, in the word's lowest 8 bits: all 8 for E5M2, the upper 7 of them for E4M3.

    >>> str(stochastic(8)), stochastic(16, "ptx_rs").bits
    ('stochastic(8, A)', 16)

    Parameters
    ----------
    bits : int
        1 to 32.
    variant : str

    Raises ValueError: another number of bits or an unknown variant.

    Source: [P3109] StochasticA, StochasticB, StochasticC; [PTX] cvt; [RDNA4]; [HIP]; [AVX10].
    """
    if not hasattr(bits, "__index__") or isinstance(bits, bool):
        raise TypeError(f"bits of stochastic rounding must be an integer, not {bits!r}")
    bits = operator.index(bits)
    if not 1 <= bits <= 32:
        raise ValueError(f"bits={bits} of stochastic rounding is out of range; use 1 to 32")
    return Rounding(f"stochastic({bits}, {variant})", _NEVER, _NEVER, _NEVER, _NEVER, bits, variant)


_BY_NAME = {mode.name: mode for mode in MODES}


def rounding(mode: Rounding | str) -> Rounding:
    """Return the rounding mode of that name, or the mode itself.

    >>> rounding("to_odd") is TO_ODD
    True
    """
    if isinstance(mode, Rounding):
        return mode
    if not isinstance(mode, str):
        raise TypeError(f"rounding must be a Rounding or a name, not {mode!r}")
    if match := _STOCHASTIC_NAME.fullmatch(mode):
        return stochastic(int(match[1]), match[2] or "A")
    if mode not in _BY_NAME:
        raise ValueError(f"unknown rounding {mode!r}; use one of {', '.join(_BY_NAME)} or stochastic(<bits>)")
    return _BY_NAME[mode]
