"""Lower block formats to the integers that `general.scales` reads.

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
__all__ += [
    "edge",
    "exactly",
    "floor_log2",
    "lower_block",
    "lower_tensor",
    "nearest_single",
    "number_of",
    "tensor_numbers",
    "tensor_scales",
    "up_above",
]

#: A significand, and the exponent of its last bit.
Number = tuple[int, int]

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
    """Rules for scales and elements of values. A number is 0 or a normalized significand, and exponent."""

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
    smallest: Word  #: what divides elements where the scale is the smallest; 0 for that scale itself
    smallest_exponent: Signed
    lowest: Word  #: the code of the smallest scale
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
    """Return the kernels' parameters besides the formats of elements and scales."""
    by = fmt.rule.divides_by(fmt.element)
    smallest = Fraction(0) if fmt.smallest_divides_as is None else Fraction(fmt.smallest_divides_as)
    by_significand, by_exponent = _normalized(*number_of(by))
    least, least_exponent = _normalized(*number_of(Fraction(fmt.min_scale)))
    smallest_significand, smallest_exponent = _normalized(*number_of(smallest))
    words = BlockRule(
        powers=fmt.rule.powers != "none",
        of_amax=fmt.rule.powers == "even",
        by_limit=_has_limit(fmt),
        up_above=0 if fmt.rule.powers == "none" else up_above(fmt.rule, fmt.element),
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
        lowest=fmt.smallest_scale,
        largest=fmt.largest_scale,
    )
    return _array(*words)


@functools.lru_cache(maxsize=1024)
def lower_tensor(fmt: BlockFormat, scale: Number = (1, 0), inverse: Number = (1, 0)) -> Params:
    """Return a tensor's scale and its inverse, both binary32; and a limit for amax, with its exponent.

    The quotient of an amax of 64 bits may lie closer to where the next power of two is nearer than 64
    bits tell. The amax itself does not.
    """
    limit, exponent = 0, 0
    if _has_limit(fmt):
        root, exact, reached, exponent = edge(fmt.rule, fmt.element, 63, exactly(*scale))
        limit = root + (not exact or not reached) - 1
        if limit == _ONES:
            limit, exponent = (1 << 63) - 1, exponent + 1
    return _array(*Tensor(*_normalized(*scale), *_normalized(*inverse), limit, exponent))


#: The largest binary32 number, and the smallest.
_MOST, _SMALLEST = ((1 << 24) - 1, 104), (1, -149)


def tensor_numbers(amax: Number, most: Number, by_inverse: bool) -> tuple[Number, Number]:
    """Return the scale of a tensor of this amax, and its inverse: binary32 numbers, each rounded once.

    The scale is amax / most; with `by_inverse` amax is rounded, then most / amax, which is the inverse, then
    1 over that. A scale is never 0, nor is an inverse that it follows from.
    """
    if by_inverse:
        inverse = _not_zero(nearest_single(most, _not_zero(nearest_single(amax))))
        return _not_zero(nearest_single((1, 0), inverse)), inverse
    scale = _not_zero(nearest_single(amax, most))
    return scale, nearest_single((1, 0), scale)


def _not_zero(number: Number) -> Number:
    return number if number[0] else _SMALLEST


def nearest_single(over: Number, under: Number = (1, 0)) -> Number:
    """Return a quotient rounded to binary32, ties to even; beyond the largest number that."""
    (x, exponent), (y, y_exponent) = over, under
    exponent -= y_exponent
    lead = x.bit_length() - y.bit_length()
    lead -= x << max(-lead, 0) < y << max(lead, 0)
    place = max(lead + exponent - 23, _SMALLEST[1])  # of the last bit
    y <<= max(place - exponent, 0)
    whole, rest = divmod(x << max(exponent - place, 0), y)
    whole += 2 * rest > y or (2 * rest == y and whole % 2 == 1)
    return _MOST if (place, whole) > _MOST[::-1] else (whole, place)


def _has_limit(fmt: BlockFormat) -> bool:
    """Return whether amax is compared with a limit, as 64 bits of an exact quotient may not suffice."""
    return fmt.arithmetic == "exact" and fmt.rule.powers not in ("none", "down", "up", "even")


def edge(
    rule: ScaleRule, element: Format, bits: int, tensor: Fraction = Fraction(1)
) -> tuple[int, bool, bool, int]:
    """From which amax on, or above which, a scale is 2**1 and not 2**0: root * 2**(exponent - bits).

    With `root` of bits + 1 bits, whether that is exact, or cut off below, and whether the scale is 2**1 there
    already. A scale is 2**(k + 1), not 2**k, from 2**k times that on.
    """
    square, reached = rule.next_power_from(element)
    square *= (rule.divides_by(element) * tensor) ** 2
    exponent = floor_log2(square) // 2
    scaled = square * Fraction(4) ** (bits - exponent)
    root = math.isqrt(math.floor(scaled))
    return root, root**2 == scaled, reached, exponent


def floor_log2(value: Fraction) -> int:
    """Return the integer k with 2**k <= value < 2**(k + 1)."""
    k = value.numerator.bit_length() - value.denominator.bit_length()
    return k if Fraction(2) ** k <= value else k - 1


def up_above(rule: ScaleRule, element: Format) -> int:
    """Return the limit above which 64 leading bits, the last one sticky, take the next power of two.

    For quotients that do not come close to a limit: exact ones if it has few bits, and those rounded to
    binary32.
    """
    square, reached = rule.next_power_from(element)
    scaled = square * Fraction(4) ** 63
    root = math.isqrt(math.floor(scaled))
    return (root if root**2 == scaled else root | 1) - reached


def number_of(value: Fraction) -> Number:
    """Return the significand and the exponent of a number that is a multiple of a power of two."""
    return value.numerator, 1 - value.denominator.bit_length()


def exactly(significand: int, exponent: int) -> Fraction:
    """Return a number of this significand and exponent."""
    return Fraction(significand << max(exponent, 0), 1 << max(-exponent, 0))


def tensor_scales(words: Params) -> tuple[Fraction, Fraction]:
    """Return the scale of a tensor and its inverse, of the words of `lower_tensor`."""
    scale, place, inverse, inverse_place = (int(word) for word in words[:4].view(np.int64))
    return exactly(scale & _ONES, place), exactly(inverse & _ONES, inverse_place)


def _normalized(significand: int, exponent: int) -> Number:
    """Return a number with bit 63 of its significand set, unless it is zero."""
    if not significand:
        return 0, 0
    up = 64 - significand.bit_length()
    normalized = significand << up if up > 0 else significand >> -up
    exact = significand.bit_length() - (significand & -significand).bit_length() < 32
    assert exact, f"{significand} has more than 32 significant bits"
    return normalized, exponent - up


def _array(*words: int) -> Params:
    array: npt.NDArray[np.uint64] = np.array([int(word) & _ONES for word in words], dtype=np.uint64)
    array.flags.writeable = False
    return array
