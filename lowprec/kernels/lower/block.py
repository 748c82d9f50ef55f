"""Lower block formats to the integers that `scalar.block` reads.

Floor 2b. Imports spec and NumPy.
"""

from __future__ import annotations

import functools
import math
from fractions import Fraction
from typing import NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from lowprec.kernels.lower.scalar import Params, Signed, Word
from lowprec.spec.block import Arithmetic, BlockFormat, ScaleRule
from lowprec.spec.format import Format

__all__ = [
    "ALL",
    "ARITHMETICS",
    "BLOCK",
    "ELEMENTS",
    "LARGEST",
    "ONE",
    "POWER",
    "RULE",
    "SCALE",
    "SMALLEST",
    "BlockRule",
    "Tensor",
]
__all__ += ["divisor", "edge", "floor_log2", "lower_block", "lower_tensor", "up_above"]

#: What a block becomes that holds a NaN or an infinity.
BLOCK, SCALE, ALL, ELEMENTS, POWER, LARGEST = range(6)
_POLICIES = {
    "block": BLOCK,
    "scale": SCALE,
    "all": ALL,
    "elements": ELEMENTS,
    "power": POWER,
    "largest": LARGEST,
}

#: The scale of a block of zeros.
SMALLEST, ONE, RULE = range(3)
_ZEROS = {"smallest": SMALLEST, "one": ONE, "rule": RULE}

ARITHMETICS = get_args(Arithmetic)

_ONES = (1 << 64) - 1


class BlockRule(NamedTuple):
    """How scales and elements follow from values. A number is 0 or a normalized significand, and exponent."""

    powers: Word  #: 1 where the quotient becomes a power of two
    of_amax: Word  #: 1 where amax decides which one, not the quotient
    by_limit: Word  #: 1 where the limit of `lower_tensor` does, which amax itself is compared with
    up_above: Word  #: else the next power where the 64 leading bits of either are above this
    arithmetic: Word  #: place in ARITHMETICS
    zero: Word
    nan: Word
    infinity: Word
    flush: Word  #: 1 where blocks of amax below 2**-126 count as zeros
    divisor: Word  #: what amax is divided by, before the tensor's scale
    divisor_exponent: Signed
    least: Word  #: quotients below are raised to it
    least_exponent: Signed
    smallest: Word  #: what divides elements where the scale's code is 0; 0 for that scale itself
    smallest_exponent: Signed
    largest: Word  #: the code of the largest scale


class Tensor(NamedTuple):
    """The scale of a tensor, and its inverse: numbers."""

    scale: Word
    scale_exponent: Signed
    inverse: Word
    inverse_exponent: Signed
    above: Word  #: the limit of a normalized amax, where it has the exponent `lift`
    lift: Signed


@functools.lru_cache(maxsize=1024)
def lower_block(fmt: BlockFormat) -> Params:
    """What the kernels need beside the formats of elements and scales."""
    by = divisor(fmt.rule, fmt.element)
    smallest = Fraction(0) if fmt.smallest_divides_as is None else Fraction(fmt.smallest_divides_as)
    by_significand, by_exponent = _number(by)
    least, least_exponent = _number(Fraction(fmt.min_scale))
    smallest_significand, smallest_exponent = _number(smallest)
    words = BlockRule(
        powers=fmt.rule.powers != "none",
        of_amax=fmt.rule.powers == "even",
        by_limit=fmt.rule.powers == "nearest" and fmt.arithmetic == "exact",
        up_above=up_above(fmt.rule, fmt.element),
        arithmetic=ARITHMETICS.index(fmt.arithmetic),
        zero=_ZEROS[fmt.zero],
        nan=_POLICIES[fmt.nan],
        infinity=_POLICIES[fmt.infinity],
        flush=fmt.flush_subnormals,
        divisor=by_significand,
        divisor_exponent=by_exponent,
        least=least,
        least_exponent=least_exponent,
        smallest=smallest_significand,
        smallest_exponent=smallest_exponent,
        largest=fmt.scale.max_magnitude,
    )
    return _array(*words)


@functools.lru_cache(maxsize=1024)
def lower_tensor(fmt: BlockFormat, scale: Fraction, inverse: Fraction) -> Params:
    """The scale of a tensor, and its inverse, both binary32 numbers; and a limit for amax, with its exponent.

    The quotient of an amax of 64 bits may lie closer to where the next power of two is nearer than 64
    bits tell. The amax itself does not.
    """
    root, exact, exponent = (
        edge(fmt.rule, fmt.element, 63, scale) if fmt.rule.powers == "nearest" else (0, True, 0)
    )
    limit = root + (not exact)
    if limit > _ONES:
        limit, exponent = 1 << 63, exponent + 1
    return _array(*Tensor(*_number(scale), *_number(inverse), limit - 1, exponent))


def divisor(rule: ScaleRule, element: Format) -> Fraction:
    """What a rule divides amax by."""
    if rule.divisor == "one":
        return Fraction(1)
    significand, exponent = element.scaled(element.max_magnitude)
    largest = significand * Fraction(2) ** exponent
    return {"maximum": largest, "binade": Fraction(2) ** floor_log2(largest)}[rule.divisor]


def edge(
    rule: ScaleRule, element: Format, bits: int, tensor: Fraction = Fraction(1)
) -> tuple[int, bool, int]:
    """From which amax on, or above which, a scale is 2**1 and not 2**0: root * 2**(exponent - bits).

    With `root` of bits + 1 bits, and whether that is exact, or cut off below. A scale is 2**(k + 1), not
    2**k, from 2**k times that on; only "up" has it above.
    """
    by = divisor(rule, element) * tensor
    squares = {"down": Fraction(4), "up": Fraction(1), "even": (2 - Fraction(1, 1 << element.precision)) ** 2}
    squares["nearest"] = Fraction(2) if rule.threshold is None else rule.threshold**2
    square = by**2 * squares[rule.powers]
    exponent = floor_log2(square) // 2
    scaled = square * Fraction(4) ** (bits - exponent)
    root = math.isqrt(math.floor(scaled))
    return root, root**2 == scaled, exponent


def floor_log2(value: Fraction) -> int:
    """The integer k with 2**k <= value < 2**(k + 1)."""
    k = value.numerator.bit_length() - value.denominator.bit_length()
    return k if Fraction(2) ** k <= value else k - 1


def up_above(rule: ScaleRule, element: Format) -> int:
    """The next power of two is taken where the 64 leading bits, the last one sticky, are above this.

    For "nearest" of quotients that were rounded to binary32: they do not come close to a limit.
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
    if rule.powers in ("down", "none"):
        return _ONES
    raise ValueError(f"powers={rule.powers!r} of a scale rule has no limit")


def _number(value: Fraction) -> tuple[int, int]:
    """The normalized significand and the exponent of a number that is a multiple of a power of two."""
    significand, exponent = value.numerator, 1 - value.denominator.bit_length()
    if not significand:
        return 0, 0
    up = 64 - significand.bit_length()
    normalized = significand << up if up > 0 else significand >> -up
    exact = significand.bit_length() - (significand & -significand).bit_length() < 32
    assert exact, f"{value} has more than 32 significant bits"
    return normalized, exponent - up


def _array(*words: int) -> Params:
    array: npt.NDArray[np.uint64] = np.array([int(word) & _ONES for word in words], dtype=np.uint64)
    array.flags.writeable = False
    return array
