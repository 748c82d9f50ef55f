"""Which of two neighbours a mode takes, and how hardware cuts random integers out of words.

Floor 2a. Imports spec and the standard library.
"""

from __future__ import annotations

from fractions import Fraction

from lowprec.spec import catalog
from lowprec.spec.format import Format, Sign
from lowprec.spec.rounding import Rounding, Threshold

__all__ = ["check_random", "is_farther", "lanes", "random_integer"]


def is_farther(tail: Fraction, rounding: Rounding, *, negative: bool, odd: bool, random: int | None = None) -> bool:
    """Whether the mode takes the neighbour farther from zero.

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
    half = Fraction(1, 2)
    return {
        Threshold.ANY: tail > 0,
        Threshold.HALF_OR_ABOVE: tail >= half,
        Threshold.ABOVE_HALF: tail > half,
        Threshold.NEVER: False,
    }[rounding.threshold(negative=negative, odd=odd)]


_PTX_RS = {
    catalog.E4M3FN: 16,
    catalog.E5M2: 16,
    catalog.E2M3FN: 16,
    catalog.E3M2FN: 16,
    catalog.BFLOAT16: 16,
    catalog.BINARY16: 13,
}
_AVX10_2 = {catalog.E5M2: 8, catalog.E4M3FN: 7}


def _hardware_bits(variant: str, fmt: Format) -> int | None:
    """The random bits that the variant has for the format, or None where it has no such conversion."""
    if variant == "ptx_rs":
        return _PTX_RS.get(fmt)
    if variant == "avx10_2":
        return _AVX10_2.get(fmt)
    return 23 - fmt.trailing_bits if fmt.width == 8 and fmt.sign is Sign.MAGNITUDE else None


def _check_bits(rounding: Rounding, fmt: Format) -> None:
    """Refuse a hardware variant that has no conversion to the format, or one of other random bits."""
    if rounding.variant in ("", "A", "B", "C"):
        return
    wanted = _hardware_bits(rounding.variant, fmt)
    if wanted is None:
        known = {"ptx_rs": _PTX_RS, "avx10_2": _AVX10_2}.get(rounding.variant)
        names = ", ".join(item.name for item in known) if known else "8-bit formats with a sign bit"
        raise ValueError(
            f"variant={rounding.variant!r} with bits={rounding.bits} has no conversion to {fmt.name!r}; it has {names}"
        )
    if rounding.bits != wanted:
        raise ValueError(
            f"variant={rounding.variant!r} with bits={rounding.bits} does not fit {fmt.name!r}; use bits={wanted}"
        )


def check_random(random: int | None, rounding: Rounding, fmt: Format) -> None:
    """Refuse a random integer that the mode does not take, and a mode that does not fit the format."""
    _check_bits(rounding, fmt)
    if rounding.bits == 0:
        if random is not None:
            raise ValueError(f"random={random} is given, but {rounding} is deterministic; leave it out")
    elif random is None:
        raise ValueError(f"random is missing; {rounding} needs an integer from 0 to {(1 << rounding.bits) - 1}")
    elif not 0 <= random < 1 << rounding.bits:
        raise ValueError(f"random={random} of {rounding} is out of range; use 0 to {(1 << rounding.bits) - 1}")


def lanes(rounding: Rounding, fmt: Format) -> int:
    """How many neighbouring elements share a random word.

    >>> from lowprec.spec.rounding import stochastic
    >>> lanes(stochastic(16, "ptx_rs"), catalog.E4M3FN), lanes(stochastic(8), catalog.E4M3FN)
    (4, 1)

    Raises
    ------
    ValueError
        A variant or a number of bits that the format does not have.
    """
    _check_bits(rounding, fmt)
    if rounding.variant != "ptx_rs":
        return 1
    return 2 if fmt.width == 16 else 4


def random_integer(word: int, lane: int, rounding: Rounding, fmt: Format) -> int:
    """The random integer that an element takes out of its 32-bit word.

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

    Raises
    ------
    ValueError
        A deterministic mode, no 32-bit word, no lane of the group, or a variant that does not fit.

    Source
    ------
    [PTX] cvt; [RDNA4]; [HIP]; [AVX10].
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
