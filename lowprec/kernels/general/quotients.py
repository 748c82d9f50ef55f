"""Quotients in 64-bit lanes: the processor finds digits near the first ones, the exact rest corrects them.

So no mode of the process changes an answer.

Floor 2b. Imports numba through `jit`; never the oracle, which checks it.
"""

from __future__ import annotations

import numpy as np

from lowprec.kernels.general.numbers import pick, zeros_above
from lowprec.kernels.jit import inlined

__all__ = ["as_53_bits", "as_double", "as_integer", "corrected", "long_quotient", "quotient"]

_U = np.uint64
_I = np.int64
_0, _1, _63 = _U(0), _U(1), _U(63)
_10, _11, _12, _50, _52 = _U(10), _U(11), _U(12), _U(50), _U(52)
_FRACTION = _U((1 << 52) - 1)


@inlined
def as_53_bits(significand: np.uint64, exponent: np.int64) -> tuple[np.uint64, np.int64]:
    """Return a number of at most 53 bits with bit 52 set, and its exponent; for zero any other number."""
    up = zeros_above(significand)
    return pick(significand == _0, _1 << _52, (significand << _U(up)) >> _11), exponent - up + _I(11)


@inlined
def as_double(word: np.uint64, up: np.uint64) -> np.float64:
    """Return a word with bit 52 as the leading one, times 2**up, as a binary64 number."""
    return _U((word & _FRACTION) | ((_U(1075) + up) << _52)).view(np.float64)


@inlined
def as_integer(number: np.float64) -> np.uint64:
    """Return an integer next to a binary64 number, which is not negative and below 2**52."""
    return np.float64(number + 2.0**52).view(np.uint64) & _FRACTION


@inlined
def quotient(
    significand: np.uint64, exponent: np.int64, by: np.uint64, by_exponent: np.int64
) -> tuple[np.uint64, np.int64]:
    """Divide numbers of at most 53 bits, not zero: 50 digits or more, and whether any follow."""
    a, a_exponent = as_53_bits(significand, exponent)
    b, b_exponent = as_53_bits(by, by_exponent)
    digits, rest = first_digits(a, b)
    return digits << _1 | _U(rest != _0), a_exponent - b_exponent - _I(51)


@inlined
def first_digits(a: np.uint64, b: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Divide 2**50 a by b, numbers with bit 52 as the leading one: the whole quotient, and the rest."""
    return corrected(as_integer(np.divide(as_double(a, _0), as_double(b, _0)) * 2.0**50), a << _50, b)


@inlined
def corrected(digits: np.uint64, a: np.uint64, b: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Return the whole quotient and the rest, from digits near them; a is given by its last 64 bits."""
    rest = a - digits * b  # wraps as words do, but is small
    for _ in range(2):
        below = rest >> _63 != _0
        digits, rest = digits - _U(below), rest + pick(below, b, _0)
    for _ in range(2):
        above = rest >= b
        digits, rest = digits + _U(above), rest - pick(above, b, _0)
    return digits, rest


@inlined
def long_quotient(
    significand: np.uint64, exponent: np.int64, by: np.uint64, by_exponent: np.int64
) -> tuple[np.uint64, np.int64]:
    """Divide a number by one of at most 53 bits, not zero: 60 digits or more, and whether any follow."""
    up = zeros_above(significand)
    word = significand << _U(up)
    b, b_exponent = as_53_bits(by, by_exponent)
    digits, rest = first_digits(word >> _11 | _1 << _52, b)
    more = (rest << _10) + ((word & _U((1 << 11) - 1)) << _U(49))
    some = _U(more >> _12 | _U(1075) << _52).view(np.float64) - 2.0**52
    last, rest = corrected(as_integer(some / as_double(b, _0) * 2.0**12), more, b)
    made = ((digits << _10) + last) << _1 | _U(rest != _0)
    return pick(significand == _0, _0, made), exponent - up - b_exponent - _I(50)
