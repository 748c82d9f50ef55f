"""Operations of any operands, in integers: an exact number of up to 128 bits, then `convert.project`.

What does not fit is rounded to odd, far below the last place of any format, which projects as the whole.

Integers only: neither flush-to-zero nor the rounding mode of the process can change an answer. This
kernel serves everything; `arith_stream` serves what is usual, fast, and is checked against it.

Floor 2b. Imports numba through `jit`; never the oracle, which checks it.

Notation, beside that of `convert`:

    number    high, low, exponent: (high + low / 2**64) * 2**exponent with bit 63 of high set, and
              low not 0 where anything lies below high, however far; or zero, where high is 0
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lowprec.kernels.convert import load_grid, load_side, load_source, project, read, split, takes_farther
from lowprec.kernels.jit import bit_length, helper, inlined, jit
from lowprec.kernels.params import REFUSED, Grid, Params, Source
from lowprec.spec.arith import OPERANDS
from lowprec.spec.projection import Flag

__all__ = ["KNOWN", "operate"]

Words = npt.NDArray[np.uint64]
Random = npt.NDArray[np.uint32]
Flags = npt.NDArray[np.uint8]
Word = Any

_U = np.uint64
_I = np.int64
_0, _1, _2, _32, _63, _64 = _U(0), _U(1), _U(2), _U(32), _U(63), _U(64)
_TOP = _U(1 << 63)
_HALF = _U(0xFFFFFFFF)
_REFUSED = _U(REFUSED)
_FINITE, _INFINITY, _NAN, _SIGNALING, _FLUSHED, _GENERATED = 0, 1, 2, 3, 4, 5
_INEXACT, _DIVIDED, _INVALID = (_U(flag) for flag in (Flag.INEXACT, Flag.DIVIDE_BY_ZERO, Flag.INVALID))

#: The number by which a kernel knows an operation.
KNOWN = {name: number for number, name in enumerate(OPERANDS)}
_ADD, _SUBTRACT, _MULTIPLY, _DIVIDE = (KNOWN[name] for name in ("add", "subtract", "multiply", "divide"))
_SQRT, _FMA, _REMAINDER, _SCALEB, _LOGB = (KNOWN[name] for name in ("sqrt", "fma", "remainder", "scaleb", "logb"))
_MINIMUM = KNOWN["minimum"]
_MINIMUM_NUMBER, _MAXIMUM_NUMBER = KNOWN["minimum_number"], KNOWN["maximum_number"]
_NEGATIVE, _ABSOLUTE, _COPYSIGN = (KNOWN[name] for name in ("negative", "absolute", "copysign"))

#: Beyond these powers of two all is too large, or too small, for any format.
_FAR = 1 << 13


class Number(NamedTuple):
    """An operand or a result: a class, a sign, and a number as above, of a NaN its payload."""

    kind: Word
    negative: Word
    high: Word
    low: Word
    exponent: Word


class Outcome(NamedTuple):
    """A result, and the flags of the operation itself."""

    kind: Word
    negative: Word
    high: Word
    low: Word
    exponent: Word
    raised: Word


# -- numbers of 128 bits -----------------------------------------------------------------------------


@inlined
def operand(code: np.uint64, source: Source) -> tuple[Number, np.uint64]:
    """What a code stands for, normalized, and whether it was flushed to zero, as flags."""
    kind, negative, significand, exponent = read(code, source)
    if kind == _FLUSHED:
        return Number(_FINITE, negative, _0, _0, _I(0)), _INEXACT
    if kind != _FINITE or significand == _0:
        return Number(kind, negative, significand, _0, _I(0)), _0
    up = _I(64) - bit_length(significand)
    return Number(kind, negative, significand << _U(up), _0, exponent - up), _0


@inlined
def is_larger(x: Number, y: Number) -> bool:
    """Whether the magnitude of one finite number is larger than that of another."""
    if x.high == _0 or y.high == _0:
        return bool(x.high != _0)
    if x.exponent != y.exponent:
        return bool(x.exponent > y.exponent)
    return bool(x.high > y.high or (x.high == y.high and x.low > y.low))


@helper
def shifted_down(high: np.uint64, low: np.uint64, shift: np.int64) -> tuple[np.uint64, np.uint64, np.uint64]:
    """Three words of a number shifted down, the last bit set where anything is lost."""
    if shift == _I(0):
        return high, low, _0
    if shift < _I(64):
        up, down = _U(_I(64) - shift), _U(shift)
        return high >> down, high << up | low >> down, low << up
    if shift == _I(64):
        return _0, high, low
    if shift < _I(128):
        up, down = _U(_I(128) - shift), _U(shift - _I(64))
        return _0, high >> down, high << up | low >> down | _U(low << up != _0)
    if shift < _I(192):
        down = _U(shift - _I(128))
        third = high >> down
        return _0, _0, third | _U(third << down != high or low != _0)
    return _0, _0, _1


@helper
def total(x: Number, y: Number, downward: bool) -> Number:
    """The sum of finite numbers."""
    if is_larger(y, x):
        x, y = y, x
    if x.high == _0:
        negative = (x.negative or y.negative) if downward else (x.negative and y.negative)
        return Number(_FINITE, negative, _0, _0, _I(0))
    if y.high == _0:
        return x
    first, second, third = shifted_down(y.high, y.low, x.exponent - y.exponent)
    if x.negative == y.negative:
        low = x.low + second
        carry = _U(low < x.low)
        high = x.high + first
        over = high < x.high
        high += carry
        over = over or (carry != _0 and high == _0)
        if over:
            lost = _U(third != _0) | (low & _1)
            return Number(_FINITE, x.negative, high >> _1 | _TOP, low >> _1 | high << _63 | lost, x.exponent + _I(1))
        return Number(_FINITE, x.negative, high, low | _U(third != _0), x.exponent)
    borrow = _U(third != _0)
    third = _0 - third
    low = x.low - second
    again = _U(x.low < second)
    again |= _U(low < borrow)
    low -= borrow
    high = x.high - first - again
    exponent = x.exponent
    for _ in range(2):
        if high == _0:
            high, low, third, exponent = low, third, _0, exponent - _I(64)
    if high == _0:
        return Number(_FINITE, downward, _0, _0, _I(0))
    up = _I(64) - bit_length(high)
    if up > _I(0):
        left, down = _U(up), _U(_I(64) - up)
        high = high << left | low >> down
        low = low << left | third >> down
        third = third << left
    return Number(_FINITE, x.negative, high, low | _U(third != _0), exponent - up)


@helper
def product(x: Number, y: Number) -> Number:
    """The product of finite numbers of 64 bits."""
    negative = x.negative != y.negative
    if x.high == _0 or y.high == _0:
        return Number(_FINITE, negative, _0, _0, _I(0))
    a, b, c, d = x.high >> _32, x.high & _HALF, y.high >> _32, y.high & _HALF
    lowest, left, right = b * d, a * d, b * c
    middle = (lowest >> _32) + (left & _HALF) + (right & _HALF)
    high = a * c + (left >> _32) + (right >> _32) + (middle >> _32)
    low = middle << _32 | lowest & _HALF
    exponent = x.exponent + y.exponent + _I(64)
    if high < _TOP:
        high, low, exponent = high << _1 | low >> _63, low << _1, exponent - _I(1)
    return Number(_FINITE, negative, high, low, exponent)


@helper
def digits(over: np.uint64, by: np.uint64) -> tuple[np.uint64, np.uint64]:
    """The 64 bits behind the point of a fraction below 1, whose denominator fills 64 bits, and the rest."""
    upper, lower = by >> _32, by & _HALF
    quotient = _0
    for _ in range(2):  # 32 bits at a time, each at most two too large at first
        part = over // upper
        rest = over - part * upper
        while part > _HALF or part * lower > rest << _32:
            part -= _1
            rest += upper
            if rest > _HALF:
                break
        over = (over << _32) - part * by
        quotient = quotient << _32 | part
    return quotient, over


@helper
def quotient(x: Number, y: Number) -> Number:
    """A number of 64 bits over one that is not 0. What 64 bits leave is above 2**-64, so `low` tells of it."""
    negative = x.negative != y.negative
    if x.high == _0:
        return Number(_FINITE, negative, _0, _0, _I(0))
    whole = x.high >= y.high
    high, rest = digits(x.high - y.high if whole else x.high, y.high)
    low, _ = digits(rest, y.high)
    exponent = x.exponent - y.exponent - _I(64)
    if whole:
        high, low, exponent = high >> _1 | _TOP, high << _63 | low >> _1 | low & _1, exponent + _I(1)
    return Number(_FINITE, negative, high, low, exponent)


@helper
def square_root(x: Number) -> Number:
    """The square root of a positive number of 64 bits, by its digits: 72 of them, and whether more follow."""
    down = _U(x.exponent & _I(1))  # an even exponent below the 128 bits
    bits, low = x.high >> down, x.high << (_64 - down) if down != _0 else _0
    root_high = root = rest_high = rest = _0
    for _ in range(72):
        rest_high, rest = rest_high << _2 | rest >> _U(62), rest << _2 | bits >> _U(62)
        bits, low = bits << _2 | low >> _U(62), low << _2
        trial_high, trial = root_high << _2 | root >> _U(62), root << _2 | _1
        root_high, root = root_high << _1 | root >> _63, root << _1
        if rest_high > trial_high or (rest_high == trial_high and rest >= trial):
            rest_high -= trial_high + _U(rest < trial)
            rest -= trial
            root |= _1
    high, exponent = root_high << _U(56) | root >> _U(8), (x.exponent + _I(down) - _I(64)) >> _I(1)
    low = root << _U(56) | _U(rest_high != _0 or rest != _0)
    return Number(_FINITE, False, high, low, exponent)


@helper
def remainder(x: Number, y: Number) -> Number:
    """What x is beside the nearest whole multiple of y, the even one of two; y is not 0."""
    if x.high == _0 or x.exponent < y.exponent - _I(1):
        return x
    odd, rest = False, x.high
    if x.exponent == y.exponent - _I(1):  # below y: nearest to 0 or to y
        if x.high <= y.high:
            return x
        return total(x, Number(_FINITE, not x.negative, y.high, _0, y.exponent), False)
    if rest >= y.high:
        odd, rest = True, rest - y.high
    for _ in range(x.exponent - y.exponent):
        over = rest >= _TOP
        rest = rest << _1
        odd = over or rest >= y.high
        if odd:
            rest -= y.high
    if rest == _0:
        return Number(_FINITE, x.negative, _0, _0, _I(0))
    negative = x.negative
    twice_over = rest >= _TOP or rest << _1 > y.high
    if twice_over or (rest << _1 == y.high and odd):
        negative, rest = not negative, y.high - rest
    up = _I(64) - bit_length(rest)
    return Number(_FINITE, negative, rest << _U(up), _0, y.exponent - up)


# -- operations --------------------------------------------------------------------------------------


@inlined
def outcome(x: Number, raised: np.uint64) -> Outcome:
    """A number as the result."""
    return Outcome(x.kind, x.negative, x.high, x.low, x.exponent, raised)


@inlined
def special(kind: int, negative: bool, raised: np.uint64) -> Outcome:
    """An infinity, a zero, or a NaN that no operand is."""
    return Outcome(kind, negative, _0, _0, _I(0), raised)


@inlined
def added(x: Number, y: Number, downward: bool) -> Outcome:
    """The sum x + y, without NaNs."""
    if x.kind == _INFINITY or y.kind == _INFINITY:
        if x.kind == y.kind and x.negative != y.negative:
            return special(_GENERATED, False, _INVALID)
        return outcome(x if x.kind == _INFINITY else y, _0)
    return outcome(total(x, y, downward), _0)


@inlined
def multiplied(x: Number, y: Number) -> Outcome:
    """The product x * y, without NaNs."""
    if x.kind == _INFINITY or y.kind == _INFINITY:
        if (x.kind == _FINITE and x.high == _0) or (y.kind == _FINITE and y.high == _0):
            return special(_GENERATED, False, _INVALID)
        return special(_INFINITY, x.negative != y.negative, _0)
    return outcome(product(x, y), _0)


@inlined
def divided(x: Number, y: Number) -> Outcome:
    """The quotient x / y, without NaNs."""
    negative = x.negative != y.negative
    if x.kind == _INFINITY:
        return special(_GENERATED, False, _INVALID) if y.kind == _INFINITY else special(_INFINITY, negative, _0)
    if y.kind == _INFINITY:
        return special(_FINITE, negative, _0)
    if y.high == _0:
        return special(_GENERATED, False, _INVALID) if x.high == _0 else special(_INFINITY, negative, _DIVIDED)
    return outcome(quotient(x, y), _0)


@inlined
def comes_first(x: Number, y: Number) -> bool:
    """Whether x is below y, or the zero that is."""
    if x.negative != y.negative:
        return bool(x.negative)
    if x.kind != y.kind:
        return bool((y.kind == _INFINITY) != x.negative)
    return bool(is_larger(x, y) if x.negative else is_larger(y, x))


@helper
def of_one(operation: int, x: Number, random: np.uint64, grid: Grid, words: Params) -> Outcome:
    """An operation of one operand that is no NaN."""
    if operation == _SQRT:
        if x.kind == _FINITE and x.high == _0:
            return outcome(x, _0)
        if x.negative:
            return special(_GENERATED, False, _INVALID)
        return outcome(x, _0) if x.kind == _INFINITY else outcome(square_root(x), _0)
    if operation == _LOGB:
        if x.kind == _INFINITY:
            return special(_INFINITY, False, _0)
        if x.high == _0:
            return special(_INFINITY, True, _DIVIDED)
        exponent = x.exponent + _I(63)
        if exponent == _I(0):
            return special(_FINITE, False, _0)
        size = _U(exponent if exponent > _I(0) else -exponent)
        up = _I(64) - bit_length(size)
        return Outcome(_FINITE, exponent < _I(0), size << _U(up), _0, -up, _0)
    if x.kind == _INFINITY or x.high == _0 or x.exponent >= _I(0):  # round_to_integral
        return outcome(x, _0)
    kept, tail = split(x.high, _0, -x.exponent)
    kept += _U(takes_farther(tail, kept & _1 != _0, random, grid, load_side(words, x.negative)))
    raised = _U(tail != _0) * _INEXACT
    if kept == _0:
        return special(_FINITE, x.negative, raised)
    up = _I(64) - bit_length(kept)
    return Outcome(_FINITE, x.negative, kept << _U(up), _0, -up, raised)


@helper
def of_two(operation: int, x: Number, y: Number, downward: bool) -> Outcome:
    """An operation of two operands that are no NaNs."""
    if operation == _ADD:
        return added(x, y, downward)
    if operation == _SUBTRACT:
        return added(x, Number(y.kind, not y.negative, y.high, y.low, y.exponent), downward)
    if operation == _MULTIPLY:
        return multiplied(x, y)
    if operation == _DIVIDE:
        return divided(x, y)
    if operation == _REMAINDER:
        if x.kind == _INFINITY or (y.kind == _FINITE and y.high == _0):
            return special(_GENERATED, False, _INVALID)
        return outcome(x, _0) if y.kind == _INFINITY else outcome(remainder(x, y), _0)
    if operation == _SCALEB:
        if x.kind == _INFINITY or x.high == _0:
            return outcome(x, _0)
        # A whole number, whose size is what is left of 64 bits above its last.
        size = _I(_FAR)
        if y.high == _0 or y.exponent <= _I(-51):
            size = _I(y.high >> _U(min(-y.exponent, _I(63))))
        return Outcome(_FINITE, x.negative, x.high, x.low, x.exponent + (-size if y.negative else size), _0)
    lower = operation == _MINIMUM or operation == _MINIMUM_NUMBER
    return outcome(x if comes_first(x, y) == lower else y, _0)


@inlined
def is_nan(x: Number) -> bool:
    """Whether an operand is a NaN of either kind."""
    return bool(x.kind == _NAN or x.kind == _SIGNALING)


@helper
def delivered(x: Number, y: Number, z: Number, count: int, signaling_first: bool) -> Number:
    """The NaN that is the result: the first, or the first signaling one; some operand is one."""
    if signaling_first:
        if count == 3 and z.kind == _SIGNALING:
            return z
        if x.kind == _SIGNALING:
            return x
        if count > 1 and y.kind == _SIGNALING:
            return y
        if count == 3 and z.kind == _NAN:
            return z
    if is_nan(x):
        return x
    if count > 1 and is_nan(y):
        return y
    return z


@helper
def result_of(
    operation: int,
    count: int,
    x: Number,
    y: Number,
    z: Number,
    downward: bool,
    signaling_first: bool,
    random: np.uint64,
    grid: Grid,
    words: Params,
) -> Outcome:
    """What an operation gives, before it is projected."""
    if operation == _NEGATIVE or operation == _ABSOLUTE or operation == _COPYSIGN:
        negative = (not x.negative) if operation == _NEGATIVE else (operation == _COPYSIGN and y.negative)
        return Outcome(_NAN if is_nan(x) else x.kind, negative, x.high, x.low, x.exponent, _0)
    nan = is_nan(x) or (count > 1 and is_nan(y)) or (count > 2 and is_nan(z))
    if nan:
        signals = x.kind == _SIGNALING or (count > 1 and y.kind == _SIGNALING) or (count > 2 and z.kind == _SIGNALING)
        raised = _U(signals) * _INVALID
        if (operation == _MINIMUM_NUMBER or operation == _MAXIMUM_NUMBER) and not (is_nan(x) and is_nan(y)):
            return outcome(y if is_nan(x) else x, raised)
        if operation == _FMA and not is_nan(x) and not is_nan(y) and multiplied(x, y).kind == _GENERATED:
            if signaling_first and not signals:
                return special(_GENERATED, False, _INVALID)
            raised = _INVALID
        first = delivered(x, y, z, count, signaling_first)
        return Outcome(_NAN, first.negative, first.high, _0, _I(0), raised)
    if operation == _FMA:
        made = multiplied(x, y)
        if made.kind == _GENERATED:
            return made
        return added(Number(made.kind, made.negative, made.high, made.low, made.exponent), z, downward)
    if count == 2:
        return of_two(operation, x, y, downward)
    return of_one(operation, x, random, grid, words)


@jit
def operate(
    operation: int,
    count: int,
    xs: Words,
    x_words: Params,
    ys: Words,
    y_words: Params,
    zs: Words,
    z_words: Params,
    out: Words,
    target_words: Params,
    downward: bool,
    signaling_first: bool,
    random: Random,
    flags: Flags,
) -> tuple[int, int]:
    """Write to `out` what an operation of `count` operands gives; count the refused results and find the first.

    All are one-dimensional and of one size: codes in 64 bits, of the operands and of the results; those of
    operands that the operation does not take are not looked at. `random` is empty for deterministic modes.
    """
    x_source, y_source, z_source = load_source(x_words), load_source(y_words), load_source(z_words)
    grid = load_grid(target_words)
    refused, first = 0, -1
    for i in range(out.size):
        x, tiny = operand(xs[i], x_source)
        y = z = x
        if count > 1:
            y, flushed = operand(ys[i], y_source)
            tiny |= flushed
        if count > 2:
            z, flushed = operand(zs[i], z_source)
            tiny |= flushed
        word = _U(random[i]) if random.size > 0 else _0
        made = result_of(operation, count, x, y, z, downward, signaling_first, word, grid, target_words)
        code, raised = project(made.kind, made.negative, made.high, made.low, made.exponent, word, grid, target_words)
        if code == _REFUSED:
            refused += 1
            if first < 0:
                first = i
            continue
        out[i] = code
        if made.kind < _NAN:
            raised |= tiny
        raised = raised | made.raised
        if made.raised == _DIVIDED:
            raised = _DIVIDED
        flags[i] = _INVALID if raised & _INVALID != _0 else raised
    return refused, first
