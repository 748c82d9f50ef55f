"""Scales of blocks in 64-bit lanes: what a rule makes of the largest magnitude, and what divides elements.

Floor 2b. Imports numba through `jit`; never the oracle, which checks it.

Notation, beside that of `numbers`:

    normalized    a significand with bit 63 set, or zero
    wanted        the scale that a rule gives, before it is projected
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from lowprec.kernels.general.numbers import CHUNK, Lane, pick, read, zeros_above
from lowprec.kernels.general.quotients import long_quotient
from lowprec.kernels.general.rounding import (
    MOST,
    MOST_EXPONENT,
    Target,
    drawn_limit,
    load_target,
    project,
    to_single,
)
from lowprec.kernels.jit import helper, in_wide_vectors, inlined, jit, load_record
from lowprec.kernels.lower.block import (
    ALL,
    ARITHMETICS,
    BLOCK,
    ELEMENTS,
    LARGEST,
    ONE,
    POWER,
    RULE,
    SCALE,
    SMALLEST,
    BlockRule,
    Tensor,
)
from lowprec.kernels.lower.kinds import FINITE, NAN
from lowprec.kernels.lower.records import REFUSED, Params, Source
from lowprec.kernels.scalar.convert import load_grid, project as project_one
from lowprec.kernels.scalar.rounding import to_power

__all__ = [
    "BLANK",
    "FINITE_ZEROS",
    "INFINITE",
    "NANS",
    "NOT_A_NUMBER",
    "ZEROS",
    "above",
    "code_of",
    "divisor_of",
    "divisor_of_amax",
    "load_rule",
    "normalized",
    "product",
    "scaler",
]

Number = tuple[Any, Any]

_U = np.uint64
_I = np.int64
_0, _1, _24, _40 = _U(0), _U(1), _U(24), _U(40)
_TOP, _REFUSED = _U(1 << 63), _U(REFUSED)

#: What a block holds besides finite values, in bits.
INFINITE, NOT_A_NUMBER = _U(1), _U(2)
#: What becomes of a block's elements besides division: finite ones, or all numbers, become zeros; all become
#: NaN; all codes become 0.
FINITE_ZEROS, ZEROS, NANS, BLANK = _U(1), _U(2), _U(4), _U(8)

_EXACT, _PRODUCT, _RECIPROCAL, _RECIPROCALS = range(len(ARITHMETICS))

#: A normalized number below 2**-126 has an exponent below this.
_LEAST_NORMAL = _I(-126 - 63)
#: The exponent of the power of two after the largest binary32 number, normalized.
_POWER = _I(128 - 63)


@inlined
def normalized(significand: np.uint64, exponent: np.int64) -> Number:
    """Return the same number with its highest bit in bit 63."""
    up = zeros_above(significand)
    return significand << _U(up), pick(significand == _0, _I(0), exponent - up)


@inlined
def above(left: np.uint64, left_exponent: np.int64, right: np.uint64, right_exponent: np.int64) -> bool:
    """Return whether one number, normalized, is larger than another."""
    larger = (left_exponent > right_exponent) | ((left_exponent == right_exponent) & (left > right))
    return bool((left != _0) & ((right == _0) | larger))


@inlined
def product(left: np.uint64, left_exponent: np.int64, right: np.uint64, right_exponent: np.int64) -> Number:
    """Return the exact product of normalized numbers, of at most 40 and 24 significant bits, or 64 and 1."""
    made, exponent = (left >> _24) * (right >> _40), left_exponent + right_exponent
    return pick(right == _TOP, left, made), exponent + pick(right == _TOP, _I(63), _I(64))


@inlined
def over(left: Number, right: Number) -> Number:
    """Divide by at most 53 bits, to binary32; over 0, its largest finite number, and 0 over 0 is 0."""
    made, exponent = long_quotient(left[0], left[1], right[0], right[1])
    made, exponent = to_single(made, exponent)
    beyond = right[0] == _0
    made = pick(left[0] == _0, _0, pick(beyond, MOST, made))
    return made, pick(beyond, MOST_EXPONENT, exponent)


@inlined
def times(left: Number, right: Number) -> Number:
    """Multiply binary32 numbers that are not normalized."""
    return to_single(left[0] * right[0], left[1] + right[1])


@inlined
def load_rule(words: Params) -> BlockRule:
    """Load the rule of a block format, whose policies all have a branch here."""
    rule = load_record(BlockRule, words, 0)
    known = rule.arithmetic < _U(len(ARITHMETICS)) and rule.zero <= _U(RULE)
    if not known or rule.nan > _U(LARGEST) or rule.infinity > _U(LARGEST):
        raise ValueError("a policy of blocks without a kernel")
    return rule


@inlined
def divisor_of_amax(rule: BlockRule, tensor: Tensor, arithmetic: Any) -> Number:
    """Return what the largest magnitude is divided by, or its factor where it is multiplied."""
    by = rule.divisor, rule.divisor_exponent
    if arithmetic == _EXACT:
        return product(by[0], by[1], tensor.scale, tensor.scale_exponent)
    by = to_single(by[0], by[1])
    if arithmetic == _RECIPROCAL:
        return times(over((_1, _I(0)), by), to_single(tensor.inverse, tensor.inverse_exponent))
    if arithmetic == _PRODUCT:
        return times(by, to_single(tensor.scale, tensor.scale_exponent))
    return by


@inlined
def wanted(
    amax: np.uint64, exponent: np.int64, by: Number, rule: BlockRule, tensor: Tensor, arithmetic: Any,
    limited: Any,
) -> Number:  # fmt: skip
    """Return the scale that the rule gives for an amax, normalized and not 0, before it is projected."""
    if limited:
        return _TOP, to_power(amax, exponent - tensor.lift, tensor.above)
    if arithmetic == _EXACT:
        made, place = long_quotient(amax, exponent, by[0], by[1])
    else:
        single = to_single(amax, exponent)
        made, place = times(single, by) if arithmetic == _RECIPROCAL else over(single, by)
        if arithmetic == _RECIPROCALS:
            made, place = over((made, place), to_single(tensor.scale, tensor.scale_exponent))
    made, place = normalized(made, place)
    power = (rule.powers != _0) & (made != _0)
    up = to_power(pick(rule.of_amax != _0, amax, made), place, rule.up_above)
    return pick(power, _TOP, made), pick(power, up, place)


@inlined
def raised(
    amax: np.uint64, exponent: np.int64, by: Number, rule: BlockRule, tensor: Tensor, arithmetic: Any,
    limited: Any,
) -> Number:  # fmt: skip
    """Return the scale of a block with this amax, normalized or 0, before it is projected."""
    made, place = wanted(amax, exponent, by, rule, tensor, arithmetic, limited)
    made = pick(amax == _0, _0, made)
    least = above(rule.least, rule.least_exponent, made, place)
    one = (amax == _0) & (rule.zero == _U(ONE))
    made, place = pick(least, rule.least, made), pick(least, rule.least_exponent, place)
    return pick(one, _1, made), pick(one, _I(0), place)


@inlined
def code_of(
    amax: np.uint64, exponent: np.int64, by: Number, rule: BlockRule, tensor: Tensor, target: Target
) -> np.uint64:
    """Return the code of the scale of a block with this amax, normalized and not 0, rounded to a mode."""
    made, place = raised(amax, exponent, by, rule, tensor, rule.arithmetic, rule.by_limit != _0)
    code, _ = project(Lane(False, made, place, False, False, False, False), False, _0, target, False, True)
    return code


@inlined
def divisor_of(x: Lane, smallest: bool, rule: BlockRule, tensor: Tensor, arithmetic: Any) -> Number:
    """Return the divisor of elements, of a scale that is a number; their factor if they are multiplied."""
    significand, exponent = normalized(x.significand, x.exponent)
    smallest = smallest & (rule.smallest != _0)
    significand = pick(smallest, rule.smallest, significand)
    exponent = pick(smallest, rule.smallest_exponent, exponent)
    if arithmetic == _RECIPROCALS:
        first = over((_1, _I(0)), to_single(tensor.scale, tensor.scale_exponent))
        made, exponent = long_quotient(first[0], first[1], significand, exponent)
        made, exponent = to_single(made, exponent)
        by = pick(significand == _0, MOST, made), pick(significand == _0, MOST_EXPONENT, exponent)
    else:
        by = product(significand, exponent, tensor.scale, tensor.scale_exponent)
        if arithmetic != _EXACT:
            by = to_single(by[0], by[1])
        if arithmetic == _RECIPROCAL:
            by = over((_1, _I(0)), by)
    return normalized(by[0], by[1])


@functools.cache
def scaler(arithmetic: int, limited: bool, stochastic: bool, book: bool) -> Any:
    """Return the kernel that writes the codes of scales; it returns how many are refused, and the first.

    `arithmetic` is a place in ARITHMETICS, `limited` says that amax itself decides the power of two, `book`
    that scales are a codebook. Called as kernel(amax, places, kinds, scales, target, source, values, rule,
    tensor, random, given, words). `amax` and `places` become the divisor of each block, `kinds` what becomes
    of its elements besides. Scales stay as they are if they are `given`. `values` are those of the codebook.
    """

    def want(
        amax: Any, places: Any, kinds: Any, start: int, count: int, rule_words: Params, tensor_words: Params,
        words: Any,
    ) -> None:  # fmt: skip
        in_wide_vectors()
        rule, tensor = load_rule(rule_words), load_record(Tensor, tensor_words, 0)
        by = divisor_of_amax(rule, tensor, arithmetic)
        for i in range(count):
            most, place, kind = amax[_U(start + i)], places[_U(start + i)], kinds[_U(start + i)]
            nan, infinite = kind & NOT_A_NUMBER != _0, kind & INFINITE != _0
            tiny = (rule.flush != _0) & (place < _LEAST_NORMAL)
            policy = pick(infinite, rule.infinity, _U(ELEMENTS))
            policy = pick(nan & (rule.nan != _U(ELEMENTS)), rule.nan, policy)
            power = policy == _U(POWER)
            most = pick(power, _TOP, pick(tiny, _0, most))
            made, exponent = raised(most, pick(power, _POWER, place), by, rule, tensor, arithmetic, limited)
            zero = (most == _0) & (rule.zero == _U(SMALLEST))
            words[i], words[_U(CHUNK + i)] = made, _U(exponent)
            words[_U(2 * CHUNK + i)] = policy
            words[_U(3 * CHUNK + i)] = _U(tiny) | _U(zero) << _1

    def encode(
        scales: Any, start: int, count: int, target_words: Params, rule_words: Params, random: Any, words: Any
    ) -> None:  # fmt: skip
        if not book:
            in_wide_vectors()
        rule, target, grid = load_rule(rule_words), load_target(target_words), load_grid(target_words)
        for i in range(count):
            made, exponent, policy = words[i], _I(words[_U(CHUNK + i)]), words[_U(2 * CHUNK + i)]
            nan = (policy == _U(BLOCK)) | (policy == _U(SCALE)) | (policy == _U(ALL))
            drawn = _U(random[_U(start + i)]) if stochastic else _0
            if book:
                kind = NAN if nan else FINITE
                code, _ = project_one(
                    kind, False, _0 if nan else made, _0, exponent, drawn, grid, target_words
                )
            else:
                x = Lane(False, pick(nan, _0, made), exponent, False, nan, False, False)
                limit = drawn_limit(drawn, grid) if stochastic else _0
                code, _ = project(x, False, limit, target, stochastic, True)
            zero = words[_U(3 * CHUNK + i)] & _U(2) != _0
            code = pick(zero & (not nan), rule.lowest, code)
            words[i] = pick(policy == _U(LARGEST), rule.largest, code)

    def divide(
        amax: Any, places: Any, kinds: Any, scales: Any, start: int, count: int, source_words: Params,
        values: Any, rule_words: Params, tensor_words: Params, words: Any,
    ) -> bool:  # fmt: skip
        in_wide_vectors()
        rule, tensor = load_rule(rule_words), load_record(Tensor, tensor_words, 0)
        source, refuses = load_record(Source, source_words, 0), False
        for i in range(count):
            code, policy = words[i], words[_U(2 * CHUNK + i)]
            refused = code == _REFUSED
            code = pick(refused, _0, code)
            x = read(values[code] if book else code, source, False)
            number = (not x.nan) & (not x.infinite)
            by, exponent = divisor_of(x, code == rule.lowest, rule, tensor, arithmetic)
            by, exponent = pick(number, by, _0), pick(number, exponent, _I(0))
            none = (policy == _U(BLOCK)) | (policy == _U(SCALE)) | (policy == _U(ALL))
            other = pick(rule.nan == _U(ELEMENTS), _U(BLOCK), rule.nan)
            policy = pick(number | none, policy, other)
            becomes = pick(policy == _U(BLOCK), BLANK, pick(policy == _U(ALL), NANS, ZEROS))
            becomes = pick(number & (not none), _0, becomes)
            becomes |= pick(words[_U(3 * CHUNK + i)] & _1 != _0, FINITE_ZEROS, _0)
            amax[_U(start + i)], places[_U(start + i)] = by, exponent
            kinds[_U(start + i)] = pick(refused, BLANK, becomes)
            scales[_U(start + i)] = pick(refused, scales[_U(start + i)], code)
            refuses |= refused
        return refuses

    name = f"{arithmetic}{limited:d}{stochastic:d}{book:d}"
    want = helper(want, f"scales_want_{name}")
    encode = helper(encode, f"scales_encode_{name}")
    divide = helper(divide, f"scales_divide_{name}")

    def run(
        amax: Any, places: Any, kinds: Any, scales: Any, target_words: Params, source_words: Params,
        values: Any, rule_words: Params, tensor_words: Params, random: Any, given: bool, words: Any,
    ) -> tuple[int, int]:  # fmt: skip
        refused, first = 0, -1
        rule = load_rule(rule_words)
        for start in range(0, scales.size, CHUNK):
            count = min(CHUNK, scales.size - start)
            if given:
                for i in range(count):
                    tiny = (rule.flush != _0) & (places[_U(start + i)] < _LEAST_NORMAL)
                    words[i], words[_U(2 * CHUNK + i)] = scales[_U(start + i)], _U(ELEMENTS)
                    words[_U(3 * CHUNK + i)] = _U(tiny)
            else:
                want(amax, places, kinds, start, count, rule_words, tensor_words, words)
                encode(scales, start, count, target_words, rule_words, random, words)
            refuses = divide(
                amax, places, kinds, scales, start, count, source_words, values, rule_words, tensor_words,
                words,
            )  # fmt: skip
            if refuses:
                for i in range(count):
                    if words[i] == _REFUSED:
                        first = start + i if refused == 0 else first
                        refused += 1
        return refused, first

    return jit(run, f"general_scales_{name}")
