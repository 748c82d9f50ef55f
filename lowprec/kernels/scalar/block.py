"""Scales of blocks of any format, and their elements one at a time, in integers of 64 bits.

`general.blocks` reads values and calls this for each scale, and for each element where lanes are not exact:
of codebooks, and for values of more than 53 bits.

Floor 2b. Imports numba through `jit`; never the oracle, which checks it.

Notation, beside that of `convert`:

    number       a significand and an exponent, or 0 and any exponent
    normalized   a significand whose highest bit is bit 63, or 0; rounded to odd: its last bit is set
                 where anything is lost below, so that projecting it projects the exact number
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.kernels.jit import bit_length, helper, inlined, jit, load_record
from lowprec.kernels.lower.block import (
    ARITHMETICS,
    LARGEST,
    ONE,
    RULE,
    SMALLEST,
    BlockRule,
    Tensor,
)
from lowprec.kernels.lower.kinds import FINITE
from lowprec.kernels.lower.scalar import REFUSED, Grid, Params, Source
from lowprec.kernels.scalar.convert import project, read
from lowprec.kernels.scalar.rounding import odd, to_nearest_even, to_power

__all__ = [
    "above",
    "divided",
    "divisor_of",
    "load_rule",
    "normalized",
    "product",
    "scale_code",
    "tensor_numbers",
]

Codes = npt.NDArray[np.unsignedinteger[Any]]
Words = npt.NDArray[np.uint32]
Number = tuple[np.uint64, np.int64]

_U = np.uint64
_I = np.int64
_0, _1, _16 = _U(0), _U(1), _U(16)
_TOP = _U(1 << 63)
_REFUSED = _U(REFUSED)

_EXACT, _PRODUCT, _RECIPROCAL, _RECIPROCALS = (_U(place) for place in range(len(ARITHMETICS)))

#: The largest binary32 number, the power of two after it, and the exponent of the smallest.
_MOST, _MOST_EXPONENT, _POWER, _SMALLEST = _U((1 << 24) - 1), _I(104), _I(128), _I(-149)

#: A normalized number below 2**-126 has an exponent below this.
_LEAST_NORMAL = _I(-126 - 63)


# -- numbers -----------------------------------------------------------------------------------------


@inlined
def normalized(significand: np.uint64, exponent: np.int64) -> Number:
    """Return the same number with its highest bit in bit 63."""
    up = _I(64) - bit_length(significand)
    return (significand << _U(up), exponent - up) if significand != _0 else (_0, _I(0))


@inlined
def above(left: np.uint64, left_exponent: np.int64, right: np.uint64, right_exponent: np.int64) -> bool:
    """Return whether one number, normalized, is larger than another."""
    if left == _0 or right == _0:
        return bool(right == _0 and left != _0)
    return bool(left_exponent > right_exponent or (left_exponent == right_exponent and left > right))


@helper
def quotient(over: np.uint64, over_exponent: np.int64, by: np.uint64, by_exponent: np.int64) -> Number:
    """Divide a normalized number by one that is not 0; normalized."""
    if over == _0:
        return _0, _I(0)
    lead, lead_exponent = normalized(by, by_exponent)
    exponent = over_exponent - lead_exponent - _I(63)
    if lead == _TOP:
        return over, exponent
    if over >= lead:
        rest = over - lead
    else:
        rest, exponent = over + over - lead, exponent - _I(1)
    by = lead >> _U(32)
    if by << _U(32) == lead:  # the first bit of the quotient is 1; 32 and 31 more by a division each
        word = _TOP | (rest // by) << _U(31)
        rest = (rest % by) << _U(31)
    elif lead << _U(48) != _0:  # bit by bit
        word = _TOP
        for place in range(62, -1, -1):
            carry, rest = rest >> _U(63), rest << _1
            if carry != _0 or rest >= lead:
                rest -= lead
                word |= _1 << _U(place)
        return odd(word, rest != _0), exponent
    else:  # the first bit is 1; 16, 16, 16 and 15 more by a division each
        by = lead >> _16
        word = _TOP | (rest // by) << _U(47)
        rest = (rest % by) << _16
        word |= (rest // by) << _U(31)
        rest = (rest % by) << _16
        word |= (rest // by) << _U(15)
        rest = (rest % by) << _U(15)
    word |= rest // by
    return odd(word, rest % by != _0), exponent


@helper
def single(significand: np.uint64, exponent: np.int64) -> Number:
    """Round to binary32, nearest even, and normalize; overflow gives the largest finite number."""
    if significand == _0:
        return _0, _I(0)
    significand, exponent = normalized(significand, exponent)
    place = max(exponent + _I(40), _SMALLEST)
    kept = to_nearest_even(significand, place - exponent)
    if place + bit_length(kept) > _POWER:
        kept, place = _MOST, _MOST_EXPONENT
    return normalized(kept, place)


@inlined
def product(left: np.uint64, left_exponent: np.int64, right: np.uint64, right_exponent: np.int64) -> Number:
    """Return the exact product of normalized numbers, of at most 40 and 24 significant bits, or 64 and 1."""
    if right == _TOP:
        return left, left_exponent + right_exponent + _I(63)
    return (left >> _U(24)) * (right >> _U(40)), left_exponent + right_exponent + _I(64)


@inlined
def inverse(by: np.uint64, by_exponent: np.int64) -> Number:
    """Divide 1 by a number in binary32; by 0, the largest finite number."""
    if by == _0:
        return normalized(_MOST, _MOST_EXPONENT)
    over, exponent = quotient(_TOP, _I(-63), by, by_exponent)
    return single(over, exponent)


# -- scales ------------------------------------------------------------------------------------------


@inlined
def load_rule(words: Params) -> BlockRule:
    """Load the rule of a block format, whose policies all have a branch here."""
    rule = load_record(BlockRule, words, 0)
    known = rule.arithmetic < _U(len(ARITHMETICS)) and rule.zero <= _U(RULE)
    if not known or rule.nan > _U(LARGEST) or rule.infinity > _U(LARGEST):
        raise ValueError("a policy of blocks without a kernel")
    return rule


@helper
def wanted_scale(amax: np.uint64, exponent: np.int64, rule: BlockRule, tensor: Tensor) -> Number:
    """Return the scale that the rule gives for an amax, normalized and not 0, before it is projected."""
    if rule.by_limit != _0:
        return _TOP, to_power(amax, exponent - tensor.lift, tensor.above)
    by, by_exponent = rule.divisor, rule.divisor_exponent
    if rule.arithmetic == _EXACT:
        by, by_exponent = product(by, by_exponent, tensor.scale, tensor.scale_exponent)
        wanted, place = quotient(amax, exponent, by, by_exponent)
    elif rule.arithmetic == _RECIPROCAL:
        by, by_exponent = single(by, by_exponent)
        by, by_exponent = inverse(by, by_exponent)
        by, by_exponent = product(by, by_exponent, tensor.inverse, tensor.inverse_exponent)
        by, by_exponent = single(by, by_exponent)
        wanted, place = single(amax, exponent)
        wanted, place = product(wanted, place, by, by_exponent)
        wanted, place = single(wanted, place)
    else:
        wanted, place = single(amax, exponent)
        by, by_exponent = single(by, by_exponent)
        if rule.arithmetic == _PRODUCT:
            by, by_exponent = product(by, by_exponent, tensor.scale, tensor.scale_exponent)
            by, by_exponent = single(by, by_exponent)
        if by == _0 and wanted != _0:
            wanted, place = normalized(_MOST, _MOST_EXPONENT)
        else:  # 0 over 0 is 0
            wanted, place = quotient(wanted, place, by, by_exponent)
            wanted, place = single(wanted, place)
        if rule.arithmetic == _RECIPROCALS:
            wanted, place = quotient(wanted, place, tensor.scale, tensor.scale_exponent)
            wanted, place = single(wanted, place)
    if rule.powers != _0 and wanted != _0:
        place = to_power(amax if rule.of_amax != _0 else wanted, place, rule.up_above)
        wanted = _TOP
    return wanted, place


@helper
def scale_code(
    amax: np.uint64,
    exponent: np.int64,
    random: np.uint64,
    rule: BlockRule,
    tensor: Tensor,
    grid: Grid,
    words: Params,
) -> np.uint64:
    """Return the code of the scale of a block with this amax, normalized or 0."""
    wanted, place = _0, _I(0)
    if amax == _0 and rule.zero == _U(SMALLEST):
        return rule.lowest
    if amax == _0 and rule.zero == _U(ONE):
        wanted = _1
    else:
        if amax != _0:
            wanted, place = wanted_scale(amax, exponent, rule, tensor)
        if above(rule.least, rule.least_exponent, wanted, place):
            wanted, place = rule.least, rule.least_exponent
    code, _ = project(FINITE, False, wanted, _0, place, random, grid, words)
    return code


@helper
def divisor_of(
    code: np.uint64, word: np.uint64, source: Source, rule: BlockRule, tensor: Tensor
) -> tuple[int, np.uint64, np.int64]:
    """Return the kind of a scale, and the divisor of its elements; their factor if they are multiplied.

    `word` is what the source reads: the code, or the value that a codebook has for it.
    """
    kind, _, significand, exponent = read(word, source)
    if kind != FINITE:
        return kind, _0, _I(0)
    significand, exponent = normalized(significand, exponent)
    if code == rule.lowest and rule.smallest != _0:
        significand, exponent = rule.smallest, rule.smallest_exponent
    if rule.arithmetic == _RECIPROCALS:
        first, place = inverse(tensor.scale, tensor.scale_exponent)
        if significand == _0:
            significand, exponent = normalized(_MOST, _MOST_EXPONENT)
        else:
            significand, exponent = quotient(first, place, significand, exponent)
            significand, exponent = single(significand, exponent)
        return kind, significand, exponent
    significand, exponent = product(significand, exponent, tensor.scale, tensor.scale_exponent)
    if rule.arithmetic == _EXACT:
        return kind, significand, exponent
    significand, exponent = single(significand, exponent)
    if rule.arithmetic == _RECIPROCAL:
        significand, exponent = inverse(significand, exponent)
    return kind, significand, exponent


# -- elements ----------------------------------------------------------------------------------------


@helper
def divided(
    significand: np.uint64, exponent: np.int64, by: np.uint64, by_exponent: np.int64, arithmetic: np.uint64
) -> Number:
    """Divide a value, not 0, by its scale; 0 where an exact scale is 0."""
    significand, exponent = normalized(significand, exponent)
    if arithmetic == _EXACT:
        if by == _0:
            return _0, _I(0)
        return quotient(significand, exponent, by, by_exponent)
    significand, exponent = single(significand, exponent)
    if arithmetic == _PRODUCT:
        if by == _0 and significand != _0:
            return normalized(_MOST, _MOST_EXPONENT)
        significand, exponent = quotient(significand, exponent, by, by_exponent)
    else:
        significand, exponent = product(significand, exponent, by, by_exponent)
    return single(significand, exponent)


# -- tensors -----------------------------------------------------------------------------------------


@jit
def tensor_numbers(
    amax: np.uint64, exponent: np.int64, most: np.uint64, most_exponent: np.int64, by_inverse: bool
) -> tuple[np.uint64, np.int64, np.uint64, np.int64]:
    """Return the scale of a tensor of this amax, and its inverse: binary32 numbers.

    The scale is amax / most, rounded, where `most` has at most 48 bits; with `by_inverse`, amax is rounded,
    then most / amax, which is the inverse, then 1 over that.
    """
    amax, exponent = normalized(amax, exponent)
    if by_inverse:
        amax, exponent = not_zero(single(amax, exponent))
        most, most_exponent = normalized(most, most_exponent)
        turned, place = quotient(most, most_exponent, amax, exponent)
        turned, place = not_zero(single(turned, place))
        scale, scale_exponent = not_zero(inverse(turned, place))
    else:
        scale, scale_exponent = quotient(amax, exponent, most, most_exponent)
        scale, scale_exponent = not_zero(single(scale, scale_exponent))
        turned, place = inverse(scale, scale_exponent)
    return scale, scale_exponent, turned, place


@inlined
def not_zero(number: Number) -> Number:
    """Return the number, or the smallest binary32 number where it is 0."""
    return number if number[0] != _0 else normalized(_1, _SMALLEST)
