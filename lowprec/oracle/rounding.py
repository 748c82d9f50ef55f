"""Choice between two neighbours by a mode, and how hardware cuts random integers out of words.

Floor 2a. Imports spec and the standard library.
"""

from __future__ import annotations

from fractions import Fraction

from lowprec.spec.format import Format
from lowprec.spec.layouts import check_layout, lanes
from lowprec.spec.rounding import Rounding, Threshold

__all__ = ["check_random", "is_farther", "random_integer"]


def is_farther(
    tail: Fraction, rounding: Rounding, *, negative: bool, odd: bool, random: int | None = None
) -> bool:
    """Return whether the mode takes the neighbour farther from zero.

    >>> from lowprec.spec.rounding import NEAREST_EVEN, stochastic
    >>> is_farther(Fraction(1, 2), NEAREST_EVEN, negative=False, odd=True)
    True
    >>> [is_farther(Fraction(1, 4), stochastic(2), negative=False, odd=True, random=r) for r in range(4)]
    [False, False, False, True]

    Parameters
    ----------
    tail : Fraction
        The distance from the nearer neighbour in units of the gap, 0 or more.
    rounding : Rounding
    negative, odd : bool
        The sign of the value, and the parity of the nearer neighbour's code.
    random : int, optional
        Of a stochastic mode.
    """
    if rounding.bits:
        assert random is not None, "a stochastic mode without a random integer"
        levels = 1 << rounding.bits
        if rounding.variant == "B":
            return int(tail * 2 * levels) + 2 * random + 1 >= 2 * levels
        if rounding.variant == "C":  # Python rounds a Fraction to the nearest even integer.
            return round(tail * levels) + random >= levels
        return int(tail * levels) + random >= levels
    threshold = rounding.threshold(negative=negative, odd=odd)
    if threshold is Threshold.ANY:
        return tail > 0
    if threshold is Threshold.NEVER:
        return False
    twice, whole = 2 * tail.numerator, tail.denominator
    return twice >= whole if threshold is Threshold.HALF_OR_ABOVE else twice > whole


def check_random(random: int | None, rounding: Rounding, fmt: Format) -> None:
    """Refuse a random integer that the mode does not take, and a mode that does not fit the format."""
    check_layout(rounding, fmt)
    if rounding.bits == 0:
        if random is not None:
            raise ValueError(f"random={random} is given, but {rounding} is deterministic; leave it out")
    elif random is None:
        raise ValueError(
            f"random is missing; {rounding} needs an integer from 0 to {(1 << rounding.bits) - 1}"
        )
    elif not 0 <= random < 1 << rounding.bits:
        raise ValueError(
            f"random={random} of {rounding} is out of range; use 0 to {(1 << rounding.bits) - 1}"
        )


def random_integer(word: int, lane: int, rounding: Rounding, fmt: Format) -> int:
    """Return the random integer that an element takes from its 32-bit word.

    >>> from lowprec.spec import catalog
    >>> from lowprec.spec.rounding import stochastic
    >>> hex(random_integer(0xABCD1234, 0, stochastic(8), catalog.E4M3FN))
    '0xab'
    >>> [hex(random_integer(0x00018000, lane, stochastic(16, "ptx_rs"), catalog.E4M3FN)) for lane in range(4)]
    ['0x8000', '0x1', '0x1', '0x8000']

    Parameters
    ----------
    word : int
    lane : int
        The element's place among those that share the word, from 0.
    rounding : Rounding
        A stochastic mode.
    fmt : Format

    Raises ValueError: a deterministic mode, no 32-bit word, no lane of the group, or a variant that does
    not fit.

    Source: [PTX] cvt; [RDNA4]; [HIP]; [AVX10].
    """
    if rounding.bits == 0:
        raise ValueError(f"{rounding} is deterministic and takes no random word")
    if not 0 <= word < 1 << 32:
        raise ValueError(f"word={word} is out of range; use 0 to {(1 << 32) - 1}")
    if not 0 <= lane < lanes(rounding, fmt):
        raise ValueError(f"lane={lane} is out of range; use 0 to {lanes(rounding, fmt) - 1}")
    if rounding.variant == "ptx_rs":
        if lanes(rounding, fmt) == 2:
            return (word >> 16 if lane == 0 else word) % (1 << rounding.bits)
        half = word >> 16 if lane < 2 else word % (1 << 16)
        return int(f"{half:016b}"[::-1], 2) if lane % 2 == 0 else half
    if rounding.variant == "hip":
        return word % (1 << rounding.bits)
    if rounding.variant == "avx10_2":
        return word % (1 << 8) >> 8 - rounding.bits
    return word >> 32 - rounding.bits
