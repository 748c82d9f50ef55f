"""Block formats, lowered to the integers that the kernels of blocks read.

Floor 2b. Imports spec and NumPy.
"""

from __future__ import annotations

import functools
import math
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lowprec.kernels.params import Params
from lowprec.spec.block import BlockFormat, ScaleRule
from lowprec.spec.format import Format

__all__ = [
    "ALL",
    "ARITHMETICS",
    "BLOCK",
    "ELEMENTS",
    "LARGEST",
    "NUMBERS",
    "ONE",
    "POWER",
    "SCALE",
    "SMALLEST",
    "BlockRule",
]
__all__ += ["lower_block", "lower_tensor", "up_above"]

Word = Any

#: What a block becomes that holds a NaN or an infinity.
BLOCK, SCALE, ALL, ELEMENTS, POWER, LARGEST = range(6)
_POLICIES = {"block": BLOCK, "scale": SCALE, "all": ALL, "elements": ELEMENTS, "power": POWER, "largest": LARGEST}

#: The scale of a block of zeros.
SMALLEST, ONE, RULE = range(3)
_ZEROS = {"smallest": SMALLEST, "one": ONE, "rule": RULE}

ARITHMETICS = ("exact", "product", "reciprocal", "reciprocals")

_ONES = (1 << 64) - 1


class BlockRule(NamedTuple):
    """How scales and elements follow from values. A number is a significand of at most 24 bits and its exponent."""

    powers: Word  #: 1 where the quotient becomes a power of two
    of_amax: Word  #: 1 where amax decides which one, not the quotient
    up_above: Word  #: the next power where the 64 leading bits of either are above this
    arithmetic: Word  #: place in ARITHMETICS
    zero: Word
    nan: Word
    infinity: Word
    flush: Word  #: 1 where blocks of amax below 2**-126 count as zeros
    divisor: Word  #: what amax is divided by, before the tensor's scale
    divisor_exponent: Word
    least: Word  #: quotients below are raised to it
    least_exponent: Word
    smallest: Word  #: what divides elements where the scale's code is 0; 0 for that scale itself
    smallest_exponent: Word
    largest: Word  #: the code of the largest scale


#: Words of a tensor's scale: the number and its inverse, each as a significand and an exponent.
NUMBERS = 4


@functools.lru_cache(maxsize=1024)
def lower_block(fmt: BlockFormat) -> Params:
    """What the kernels need beside the formats of elements and scales.

    Raises
    ------
    ValueError
        A number that is no binary32 number.
    """
    largest = _value(fmt.element, fmt.element.max_magnitude)
    by = {"one": Fraction(1), "maximum": largest, "binade": Fraction(2) ** fmt.element.emax}[fmt.rule.divisor]
    smallest = Fraction(0) if fmt.smallest_divides_as is None else Fraction(fmt.smallest_divides_as)
    divisor, divisor_exponent = _number(by, "the divisor of the scale")
    least, least_exponent = _number(Fraction(fmt.min_scale), "min_scale")
    smallest_significand, smallest_exponent = _number(smallest, "smallest_divides_as")
    words = BlockRule(
        powers=fmt.rule.powers != "none",
        of_amax=fmt.rule.powers == "even",
        up_above=up_above(fmt.rule, fmt.element),
        arithmetic=ARITHMETICS.index(fmt.arithmetic),
        zero=_ZEROS[fmt.zero],
        nan=_POLICIES[fmt.nan],
        infinity=_POLICIES[fmt.infinity],
        flush=fmt.flush_subnormals,
        divisor=divisor,
        divisor_exponent=divisor_exponent,
        least=least,
        least_exponent=least_exponent,
        smallest=smallest_significand,
        smallest_exponent=smallest_exponent,
        largest=fmt.scale.max_magnitude,
    )
    return _array(*words)


def lower_tensor(scale: Fraction, inverse: Fraction) -> Params:
    """The scale of a tensor, and its inverse, both binary32 numbers."""
    return _array(*_number(scale, "the tensor's scale"), *_number(inverse, "its inverse"))


def up_above(rule: ScaleRule, element: Format) -> int:
    """The next power of two is taken where the 64 leading bits, the last one set if any follow, are above this.

    No quotient of numbers of 24 bits comes closer to a limit than 2**-60, unless it is that limit.
    """
    if rule.powers == "up":
        return 1 << 63
    if rule.powers == "even":
        return (1 << 64) - (1 << (63 - element.precision)) - 1
    if rule.powers == "nearest":
        if rule.threshold is None:
            return (math.isqrt(2 << 126) | 1) - 1
        whole, rest = divmod(rule.threshold.numerator << 63, rule.threshold.denominator)
        return (whole | bool(rest)) - 1
    return _ONES


def _value(fmt: Format, magnitude: int) -> Fraction:
    significand, exponent = fmt.scaled(magnitude)
    return significand * Fraction(2) ** exponent


def _number(value: Fraction, what: str) -> tuple[int, int]:
    """Significand and exponent of a number that binary32's precision holds."""
    significand, exponent = value.numerator, 1 - value.denominator.bit_length()
    if significand:
        zeros = (significand & -significand).bit_length() - 1
        significand, exponent = significand >> zeros, exponent + zeros
    if significand.bit_length() > 24 or value.denominator & (value.denominator - 1):
        raise ValueError(f"{what} is {float(value)!r}, which no number of 24 significant bits is; blocks need one")
    return significand, exponent


def _array(*words: int) -> Params:
    array: npt.NDArray[np.uint64] = np.array([int(word) & _ONES for word in words], dtype=np.uint64)
    array.flags.writeable = False
    return array
