"""Compute exact results of operations, in 64-bit lanes without a branch; a sticky last bit says what is lost.

All is in integers, except that the processor finds the first digits of quotients and roots; the exact rest
corrects them, so that no mode of the process changes an answer.

Floor 2b. Imports numba through `jit`; never the oracle, which checks it.

An operand of a sum that is shifted down loses bits to the sticky one only if its exponent lies so far below
the other's that at most one leading bit cancels: every bit that decides a result is exact. `serves` says
for which formats that holds.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from lowprec.kernels.general.numbers import Lane, normal, pick, word_product, zeros_above
from lowprec.kernels.general.quotients import as_53_bits, as_double, as_integer, quotient
from lowprec.kernels.general.rounding import limit_of, long_shifted, shifted, split
from lowprec.kernels.jit import inlined
from lowprec.spec.arith import SIGN_ONLY
from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Format
from lowprec.spec.projection import Flag, Projection

__all__ = ["COMPUTE", "Context", "Outcome", "bits_of", "is_exact", "lane", "of_numbers", "serves"]
__all__ += ["with_nans"]

Word = Any

_U = np.uint64
_I = np.int64
_0, _1, _2, _63 = _U(0), _U(1), _U(2), _U(63)
_48 = _U(48)
_INEXACT, _DIVIDED, _INVALID = (_U(flag) for flag in (Flag.INEXACT, Flag.DIVIDE_BY_ZERO, Flag.INVALID))
#: Operations whose results have no more bits than the longest operand.
_SHORT = frozenset(
    ("convert", "remainder", "minimum", "maximum", "round_to_integral", "scaleb", "logb", *SIGN_ONLY)
)
#: The exponent that infinities are compared by, above those of all numbers.
_FAR = _I(1 << 40)
#: Beyond this power of two all is too large, or too small, for any format.
_LARGEST_POWER = _U(1 << 13)


class Context(NamedTuple):
    """Parameters of an operation besides its operands."""

    downward: Word  #: whether exact zero sums are negative
    drawn: Word  #: the limit of a stochastic mode; 0 for others
    stochastic: Word
    target: Word


class Outcome(NamedTuple):
    """A result: a number, an infinity, or a NaN if invalid; and the flags of the operation itself."""

    made: Word
    invalid: Word
    raised: Word


@inlined
def lane(negative: Word, significand: Word, exponent: Word, infinite: Word) -> Lane:
    """Return a number or an infinity."""
    return Lane(negative, significand, exponent, infinite, False, False, False)


@inlined
def either(of_first: bool, x: Lane, y: Lane) -> Lane:
    """Return one of two operands."""
    return Lane(
        pick(of_first, x.negative, y.negative),
        pick(of_first, x.significand, y.significand),
        pick(of_first, x.exponent, y.exponent),
        pick(of_first, x.infinite, y.infinite),
        pick(of_first, x.nan, y.nan),
        pick(of_first, x.signaling, y.signaling),
        False,
    )


@inlined
def signed(negative: bool, x: Lane) -> Lane:
    """Return an operand, a NaN too, with another sign; nothing of it signals."""
    return Lane(negative, x.significand, x.exponent, x.infinite, x.nan, False, False)


@inlined
def is_zero(x: Lane) -> bool:
    """Return whether an operand is a zero, if it is no NaN."""
    return (x.significand == _0) & (not x.infinite)


# -- sums and products -------------------------------------------------------------------------------


@inlined
def add(x: Lane, y: Lane, z: Lane, context: Context) -> Outcome:
    """Return the sum of two operands of at most 57 bits."""
    a, ae = normal(x.significand, x.exponent)
    b, be = normal(y.significand, y.exponent)
    swap = (be > ae) | ((be == ae) & (b > a))
    large, small = pick(swap, b, a), pick(swap, a, b)
    exponent, lower = pick(swap, be, ae), pick(swap, ae, be)
    small = shifted(small, exponent - lower)
    significand = pick(x.negative == y.negative, large + small, large - small)
    return total(x, y, swap, significand, exponent, context)


@inlined
def total(x: Lane, y: Lane, swap: bool, significand: Word, exponent: Word, context: Context) -> Outcome:
    """Return a sum with its sign, that of y if `swap`, and the results of zeros and infinities."""
    zero = pick(context.downward, x.negative | y.negative, x.negative & y.negative)
    negative = pick(significand == _0, zero, pick(swap, y.negative, x.negative))
    negative = pick(x.infinite, x.negative, pick(y.infinite, y.negative, negative))
    opposite = x.infinite & y.infinite & (x.negative != y.negative)
    return Outcome(lane(negative, significand, exponent, x.infinite | y.infinite), opposite, _0)


@inlined
def subtract(x: Lane, y: Lane, z: Lane, context: Context) -> Outcome:
    """Return the difference of two operands of at most 57 bits."""
    return add(x, signed(not y.negative, y), z, context)


@inlined
def add_long(x: Lane, y: Lane, z: Lane, context: Context) -> Outcome:
    """Return the sum of two operands."""
    a, b = long_number(x.significand, _0, x.exponent), long_number(y.significand, _0, y.exponent)
    return long_sum(x, *a, y, *b, context)


@inlined
def subtract_long(x: Lane, y: Lane, z: Lane, context: Context) -> Outcome:
    """Return the difference of two operands."""
    return add_long(x, signed(not y.negative, y), z, context)


@inlined
def long_number(high: np.uint64, low: np.uint64, exponent: np.int64) -> tuple[Word, Word, Word]:
    """Return (high + low / 2**64) * 2**exponent as two words with bit 126 set, and the last bit's exponent.

    A zero has an exponent below all others. The last bit that `low` loses is 0.
    """
    up = zeros_above(high)
    word = high << _U(up) | pick(up == _I(0), _0, low >> _U((_I(64) - up) & _I(63)))
    rest = low << _U(up)
    return word >> _1, word << _63 | rest >> _1, pick(high == _0, -_FAR, exponent - up - _I(63))


@inlined
def long_sum(
    x: Lane, xh: Word, xl: Word, xe: Word, y: Lane, yh: Word, yl: Word, ye: Word, context: Context
) -> Outcome:
    """Return the sum of numbers of two words with bit 126 set: 62 bits or more, and whether any follow."""
    swap = (ye > xe) | ((ye == xe) & ((yh > xh) | ((yh == xh) & (yl > xl))))
    high, low, exponent = pick(swap, yh, xh), pick(swap, yl, xl), pick(swap, ye, xe)
    sh, sl = pick(swap, xh, yh), pick(swap, xl, yl)
    sh, sl = long_shifted(sh, sl, exponent - pick(swap, xe, ye))
    alike = x.negative == y.negative
    sl = pick(alike, sl, _0 - sl)
    sh = pick(alike, sh, (_0 - sh) - _U(sl != _0))
    rest = low + sl
    word = high + sh + _U(rest < low)
    up = zeros_above(word)
    upper = word << _U(up) | pick(up == _I(0), _0, rest >> _U((_I(64) - up) & _I(63)))
    upper |= _U(rest << _U(up) != _0)
    significand = pick(word == _0, rest, upper)
    return total(x, y, swap, significand, exponent + pick(word == _0, _I(0), _I(64) - up), context)


@inlined
def multiply(x: Lane, y: Lane, z: Lane, context: Context) -> Outcome:
    """Return the product of two operands, which has at most 64 bits."""
    return product(x, y, x.significand * y.significand, x.exponent + y.exponent)


@inlined
def multiply_long(x: Lane, y: Lane, z: Lane, context: Context) -> Outcome:
    """Return the product of two operands: 62 bits or more, and whether any follow."""
    return product(x, y, *long_product(x.significand, x.exponent, y.significand, y.exponent))


@inlined
def long_product(
    x: np.uint64, x_exponent: np.int64, y: np.uint64, y_exponent: np.int64
) -> tuple[np.uint64, np.int64]:
    """Multiply numbers: 62 bits or more, and whether any follow."""
    high, low, exponent = full_product(x, x_exponent, y, y_exponent)
    return high | _U(low != _0), exponent


@inlined
def full_product(
    x: np.uint64, x_exponent: np.int64, y: np.uint64, y_exponent: np.int64
) -> tuple[np.uint64, np.uint64, np.int64]:
    """Multiply numbers; return both words, and the exponent of the last bit of the high one."""
    x_up, y_up = zeros_above(x), zeros_above(y)
    high, low = word_product(x << _U(x_up), y << _U(y_up))
    return high, low, x_exponent + y_exponent - x_up - y_up + _I(64)


@inlined
def product(x: Lane, y: Lane, significand: Word, exponent: Word) -> Outcome:
    """Return a product with its sign, and the results of zeros and infinities."""
    zero, infinite = is_zero(x) | is_zero(y), x.infinite | y.infinite
    significand = pick(zero | infinite, _0, significand)
    return Outcome(lane(x.negative != y.negative, significand, exponent, infinite), zero & infinite, _0)


@inlined
def fma_long(x: Lane, y: Lane, z: Lane, context: Context) -> Outcome:
    """Return x * y + z, of operands of at most 63 bits."""
    high, low, exponent = full_product(x.significand, x.exponent, y.significand, y.exponent)
    times = product(x, y, high, exponent)
    addend = long_number(z.significand, _0, z.exponent)
    made = times.made
    summed = long_sum(made, *long_number(made.significand, low, made.exponent), z, *addend, context)
    return Outcome(summed.made, times.invalid | summed.invalid, _U(times.invalid) * _INVALID)


@inlined
def fma(x: Lane, y: Lane, z: Lane, context: Context) -> Outcome:
    """Return x * y + z, where the product and z have at most 57 bits."""
    times = multiply(x, y, z, context)
    total = add(times.made, z, z, context)
    return Outcome(total.made, times.invalid | total.invalid, _U(times.invalid) * _INVALID)


# -- quotients and roots -----------------------------------------------------------------------------


@inlined
def divide(x: Lane, y: Lane, z: Lane, context: Context) -> Outcome:
    """Return the quotient of two operands of at most 53 bits."""
    significand, exponent = quotient(x.significand, x.exponent, y.significand, y.exponent)
    infinite = x.infinite | is_zero(y)
    significand = pick(is_zero(x) | y.infinite | infinite, _0, significand)
    invalid = (x.infinite & y.infinite) | (is_zero(x) & is_zero(y))
    divided = infinite & (not x.infinite) & (not invalid)
    made = lane(x.negative != y.negative, significand, exponent, infinite)
    return Outcome(made, invalid, _U(divided) * _DIVIDED)


@inlined
def sqrt(x: Lane, y: Lane, z: Lane, context: Context) -> Outcome:
    """Return the square root of an operand of at most 53 bits: 50 digits or more, and whether any follow."""
    a, exponent = as_53_bits(x.significand, x.exponent)
    uneven = _U(exponent) & _1
    digits = as_integer(np.sqrt(as_double(a, uneven)) * 2.0**24)
    rest = (a << (_48 + uneven)) - digits * digits  # wraps as words do, but is small
    for _ in range(2):
        below = rest >> _63 != _0
        rest += pick(below, digits + digits - _1, _0)
        digits -= _U(below)
    for _ in range(2):
        above = rest > digits + digits
        rest -= pick(above, digits + digits + _1, _0)
        digits += _U(above)
    significand = pick(x.significand == _0, _0, digits << _1 | _U(rest != _0))
    half = (exponent - _I(uneven) - _I(48)) >> _I(1)
    made = lane(x.negative, significand, half - _I(1), x.infinite)
    return Outcome(made, x.negative & (not is_zero(x)), _0)


@inlined
def remainder(x: Lane, y: Lane, z: Lane, context: Context) -> Outcome:
    """Return x less the nearest multiple of y, the even one of two; z is what `remainders.fold` made of them.

    All is counted in halves of the unit of y's 53 bits, of which y has twice as many as `b`.
    """
    a, a_exponent = as_53_bits(x.significand, x.exponent)
    b, exponent = as_53_bits(y.significand, y.exponent)
    above = a_exponent - exponent
    rest = pick(above < _I(0), a, z.significand << _1)
    rest = rest + pick(z.negative & (above >= _I(0)), b << _1, _0)  # below four times b
    multiple = pick(rest >= (b << _1) + b, b << _2, b << _1)
    over, turns = rest > b, rest < multiple
    rest = pick(over, pick(turns, multiple - rest, rest - multiple), rest)
    keeps = (above < _I(-1)) | is_zero(x) | y.infinite
    significand = pick(keeps, x.significand, rest)
    negative = x.negative != (over & turns & (not keeps))
    made = lane(negative, significand, pick(keeps, x.exponent, exponent - _I(1)), x.infinite)
    return Outcome(made, x.infinite | is_zero(y), _0)


# -- other operations --------------------------------------------------------------------------------


@inlined
def rank(x: Lane) -> tuple[np.int64, np.uint64]:
    """Return an exponent and a word that magnitudes are ordered by."""
    up = zeros_above(x.significand)
    exponent = pick(x.significand == _0, -_FAR, x.exponent - up)
    return pick(x.infinite, _FAR, exponent), pick(x.infinite, _0, x.significand << _U(up))


@inlined
def is_larger(x: Lane, y: Lane) -> bool:
    """Return whether the magnitude of an operand is larger than that of another."""
    (x_exponent, a), (y_exponent, b) = rank(x), rank(y)
    return (x_exponent > y_exponent) | ((x_exponent == y_exponent) & (a > b))


@inlined
def comes_first(x: Lane, y: Lane) -> bool:
    """Return whether an operand is below another, or the zero that is."""
    return pick(x.negative != y.negative, x.negative, pick(x.negative, is_larger(x, y), is_larger(y, x)))


@inlined
def minimum(x: Lane, y: Lane, z: Lane, context: Context) -> Outcome:
    """Return the smaller of two operands."""
    return Outcome(either(comes_first(x, y), x, y), False, _0)


@inlined
def maximum(x: Lane, y: Lane, z: Lane, context: Context) -> Outcome:
    """Return the larger of two operands."""
    return Outcome(either(comes_first(x, y), y, x), False, _0)


@inlined
def convert(x: Lane, y: Lane, z: Lane, context: Context) -> Outcome:
    """Return the operand."""
    return Outcome(x, False, _0)


@inlined
def round_to_integral(x: Lane, y: Lane, z: Lane, context: Context) -> Outcome:
    """Return an operand rounded to an integer."""
    up = zeros_above(x.significand)
    exponent = x.exponent - up
    kept, tail = split(x.significand << _U(up), max(-exponent, _I(1)), True)
    limit = limit_of(x.negative, kept & _1, context.target)
    farther = tail > pick(context.stochastic, context.drawn, limit)
    whole = (exponent >= _I(0)) | (x.significand == _0) | x.infinite
    significand = pick(whole, x.significand, kept + _U(farther))
    made = lane(x.negative, significand, pick(whole, x.exponent, _I(0)), x.infinite)
    return Outcome(made, False, _U((not whole) & (tail != _0)) * _INEXACT)


@inlined
def scaleb(x: Lane, y: Lane, z: Lane, context: Context) -> Outcome:
    """Return an operand times two to the power of an integer."""
    up = zeros_above(y.significand)
    place = y.exponent - up
    power = (y.significand << _U(up)) >> _U(min(max(-place, _I(0)), _I(63)))
    power = pick((place > _I(-51)) & (not is_zero(y)), _LARGEST_POWER, power)
    exponent = x.exponent + pick(y.negative, -_I(power), _I(power))
    return Outcome(lane(x.negative, x.significand, exponent, x.infinite), False, _0)


@inlined
def logb(x: Lane, y: Lane, z: Lane, context: Context) -> Outcome:
    """Return the exponent of an operand's leading bit."""
    lead = x.exponent - zeros_above(x.significand) + _I(63)
    zero = is_zero(x)
    infinite = x.infinite | zero
    significand = pick(infinite, _0, _U(pick(lead < _I(0), -lead, lead)))
    made = lane(pick(infinite, zero, lead < _I(0)), significand, _I(0), infinite)
    return Outcome(made, False, _U(zero) * _DIVIDED)


@inlined
def negative(x: Lane, y: Lane, z: Lane, context: Context) -> Outcome:
    """Return an operand with the other sign."""
    return Outcome(signed(not x.negative, x), False, _0)


@inlined
def absolute(x: Lane, y: Lane, z: Lane, context: Context) -> Outcome:
    """Return an operand without its sign."""
    return Outcome(signed(False, x), False, _0)


@inlined
def copysign(x: Lane, y: Lane, z: Lane, context: Context) -> Outcome:
    """Return an operand with the sign of another."""
    return Outcome(signed(y.negative, x), False, _0)


#: Operations by name.
COMPUTE = {
    function.__name__: function
    for function in (
        *(convert, add, subtract, multiply, fma, divide, sqrt, remainder, minimum, maximum),
        *(add_long, subtract_long, multiply_long, fma_long),
        *(round_to_integral, scaleb, logb, negative, absolute, copysign),
    )
}

# -- NaNs --------------------------------------------------------------------------------------------


@inlined
def first_nan(x: Lane, y: Lane, z: Lane, signaling_first: bool) -> Lane:
    """Return the NaN operand that is the result: the first one, or the first signaling one."""
    first = either(x.nan, x, either(y.nan, y, z))
    signaling = either(x.signaling, x, either(y.signaling, y, either(z.nan, z, first)))
    return either(signaling_first, either(z.signaling, z, signaling), first)


@inlined
def with_nans(
    found: Outcome, x: Lane, y: Lane, z: Lane, fused: bool, signaling_first: bool, usual: bool
) -> Outcome:
    """Return the result with the NaN that an operand, or an invalid operation, makes of it."""
    signaling = x.signaling | y.signaling | z.signaling
    nan = x.nan | y.nan | z.nan
    signals = signaling
    if fused:  # an invalid product is invalid beside a NaN addend too
        beside = (found.raised != _0) & (not x.nan) & (not y.nan) & z.nan
        nan &= not (beside & signaling_first & (not signaling))
        signals |= beside
    invalid = found.invalid & (not nan)
    if usual:
        first_sign = pick(x.nan, x.negative, pick(y.nan, y.negative, z.negative))
        negative = pick(nan, first_sign, found.made.negative & (not invalid))
        made = found.made
        made = Lane(
            negative, made.significand, made.exponent, made.infinite, nan | invalid, nan & signals, False
        )
        return Outcome(made, invalid, pick(nan, _0, found.raised))
    first = first_nan(x, y, z, signaling_first)
    made = Lane(
        pick(nan, first.negative, found.made.negative & (not invalid)),
        pick(nan, first.significand, found.made.significand),
        found.made.exponent,
        found.made.infinite & (not nan) & (not invalid),
        nan | invalid,
        nan & signals,
        False,
    )
    return Outcome(made, invalid, pick(nan, _0, found.raised))


@inlined
def of_numbers(found: Outcome, x: Lane, y: Lane, signaling_first: bool) -> Outcome:
    """Return the result of an operation that ignores a NaN next to a number."""
    both = x.nan & y.nan
    made = either(x.nan, y, either(y.nan, x, found.made))
    first = either(both, first_nan(x, y, x, signaling_first), made)
    signaling = x.signaling | y.signaling
    made = Lane(
        first.negative, first.significand, first.exponent, first.infinite, both, both & signaling, False
    )
    return Outcome(made, False, _U(signaling) * _INVALID)


def bits_of(fmt: Format) -> int:
    """Return how many bits the significands of a format have at most, as kernels read them."""
    return fmt.precision if fmt.exponent_bits else fmt.width


def serves(operation: str, sources: list[Format], target: Format, rule: Projection) -> tuple[bool, bool]:
    """Return whether results are exact for formats, and whether only by kernels in two words."""
    plain = operation.removesuffix("_number")
    if plain not in COMPUTE:
        return False, False
    bits = [bits_of(fmt) for fmt in sources]
    # Bits that decide, the sticky one included; for codebooks `codebooks` says what does.
    kept = 0 if isinstance(target, Codebook) else target.precision + rule.rounding.bits + 2
    if operation in ("add", "subtract"):
        return kept <= 60, max(bits) > 57
    if operation == "multiply":
        return sum(bits) <= 64 or kept <= 61, sum(bits) > 64
    if operation == "fma":
        return max(bits) <= 63 and kept <= 60, max(bits[0] + bits[1], bits[2]) > 57
    if operation in ("divide", "sqrt"):
        return max(bits) <= 53 and kept <= 50, False
    if operation == "remainder":
        return max(bits) <= 53, False
    if plain in _SHORT:
        return True, False
    raise ValueError(f"operation {operation!r} has no limit of bits in serves; add it there")


def is_exact(operation: str, sources: list[Format]) -> bool:
    """Return whether binary64 has all results, if exponents had no ends."""
    bits = [bits_of(fmt) for fmt in sources]
    if operation == "multiply":
        return sum(bits) <= 53
    return max(bits) <= 53 and operation.removesuffix("_number") in _SHORT
