"""The value of each function at exact numbers: special and exact cases, and what encloses all others.

Floor 2b. `enclosures` needs python-flint. Source: [IEEE754] 9.2.1; [ARB].
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

from lowprec.kernels.functions.enclosures import (
    INVALID,
    Bounds,
    Value,
    enclosed,
    exact,
    infinity,
    of_bits,
    pole,
    zero,
)

__all__ = ["value_of"]

# -- functions of one operand --------------------------------------------------------------------------


class _One(NamedTuple):
    """A function: what it is at zeros and infinities, where it is exact, and its enclosure elsewhere."""

    at_zero: Any  #: a fraction, "same", or a Value
    at_infinity: Any
    at_minus_infinity: Any
    ball: Callable[[Any, Any], Any]  #: of the type of balls, and a number
    exact: Callable[[Fraction], Any] = lambda x: None  #: a fraction or Value at a finite number, or None
    between: Callable[[Fraction], Bounds] = lambda x: (None, None)  #: what values lie between


def _given(made: Any, x: float) -> Value:
    if isinstance(made, Value):
        return made
    if made == "pole":
        return pole(math.copysign(1, x) < 0)
    if made == "same":
        return infinity(x < 0) if math.isinf(x) else zero(math.copysign(1, x) < 0)
    return exact(Fraction(made))


def value_of(name: str, *operands: float) -> Value:
    """Return the value of a function at float64 numbers that are no NaNs, or that it takes all the same."""
    if len(operands) == 2:
        return _TWO[name](*operands)
    (x,) = operands
    rule = _ONE[name]
    if x == 0 and rule.at_zero is not None:
        return _given(rule.at_zero, x)
    if math.isinf(x):
        made = rule.at_infinity if x > 0 else rule.at_minus_infinity
        return enclosed(name, made) if callable(made) else _given(made, x)
    number = Fraction(x)
    made = rule.exact(number)
    if made is not None:
        return made if isinstance(made, Value) else exact(Fraction(made))
    return enclosed(name, lambda arb: rule.ball(arb, arb(x)), rule.between(number))


def _log2_of(x: Fraction) -> int | None:
    """Return k if a positive number is 2**k."""
    size, below = x.numerator, x.denominator
    return (
        size.bit_length() - below.bit_length() if not size & (size - 1) and not below & (below - 1) else None
    )


def _log10_of(x: Fraction) -> int | None:
    """Return k if a positive number is 10**k; negative powers are no binary fractions."""
    if x.denominator != 1:
        return None
    k = len(str(x.numerator)) - 1
    return k if x.numerator == 10**k else None


def _if_positive(made: Callable[[Fraction], int | None], shift: int = 0) -> Callable[[Fraction], Any]:
    """Return the exact cases of a logarithm of x + shift: poles at zero, and what is invalid below."""

    def exact_case(x: Fraction) -> Any:
        if x + shift <= 0:
            return pole(True) if x + shift == 0 else INVALID
        return made(x + shift)

    return exact_case


def _root(x: Fraction, degree: int) -> Fraction | None:
    """Return the root of a positive binary fraction, if it is rational."""
    parts = []
    for part in (x.numerator, x.denominator):
        root = round(part ** (1 / degree)) if part < 1 << 50 else _integer_root(part, degree)
        if root**degree != part:
            return None
        parts.append(root)
    return Fraction(*parts)


def _integer_root(number: int, degree: int) -> int:
    """Return the integer below a root, by Newton's steps from above."""
    guess = 1 << -(-number.bit_length() // degree)
    while True:
        better = ((degree - 1) * guess + number // guess ** (degree - 1)) // degree
        if better >= guess:
            return guess
        guess = better


def _cube_root(x: Fraction) -> Fraction | None:
    root = _root(abs(x), 3)
    return root if root is None or x > 0 else -root


def _power_of_two(x: Fraction, less: int = 0) -> Fraction | Value | None:
    if x.denominator != 1:
        return None
    power = int(x)
    if abs(power) < 1 << 10:
        return Fraction(2) ** power - less
    if not less:
        return of_bits(1 << 127, power - 127, False)
    return of_bits((1 << 128) - 1, max(power, 0) - 128, power < 0)  # just below a power of two, or above -1


def _power_of_ten(x: Fraction, less: int = 0) -> Fraction | None:
    return Fraction(10) ** int(x) - less if x.denominator == 1 and 0 <= x < 400 else None


def _sinpi(x: Fraction) -> Any:
    if x.denominator == 1:
        return zero(x < 0)
    return 1 - 2 * (math.floor(x) % 2) if x.denominator == 2 else None


def _cospi(x: Fraction) -> Any:
    if x.denominator == 1:
        return 1 - 2 * (int(x) % 2)
    return zero() if x.denominator == 2 else None


def _tanpi(x: Fraction) -> Any:
    if x.denominator == 1:
        return zero((x < 0) != (int(x) % 2 == 1))
    if x.denominator == 2:
        return pole(math.floor(x) % 2 == 1)
    return 1 - 2 * (math.floor(2 * x) % 2) if x.denominator == 4 else None


def _within(values: dict[int, Any]) -> Callable[[Fraction], Any]:
    """Return the exact cases of an inverse: invalid beyond 1, known at some numbers."""

    def exact_case(x: Fraction) -> Any:
        return INVALID if abs(x) > 1 else values.get(int(x)) if x.denominator == 1 else None

    return exact_case


def _rsqrt(x: Fraction) -> Any:
    if x < 0:
        return INVALID
    power = _log2_of(x)
    return Fraction(2) ** (-power // 2) if power is not None and power % 2 == 0 else None


def _sigmoid(arb: Any, x: Any) -> Any:
    return 1 / (1 + (-x).exp())


def _gelu_tanh(arb: Any, x: Any) -> Any:
    inner = (2 / arb.pi()).sqrt() * (x + arb(44715) / 1000000 * x**3)
    return x * _sigmoid(arb, 2 * inner)


def _cbrt(arb: Any, x: Any) -> Any:
    return -((-x).root(3)) if x < 0 else x.root(3)


def _above_minus_one(x: Fraction) -> Bounds:
    return Fraction(-1), None


def _below_one(x: Fraction) -> Bounds:
    return (Fraction(0), Fraction(1)) if x > 0 else (Fraction(-1), Fraction(0))


def _share(x: Fraction) -> Bounds:
    """Return the bounds of x times a number between 0 and 1."""
    return (Fraction(0), x) if x > 0 else (x, Fraction(0))


_ONE: dict[str, _One] = {
    "exp": _One(1, "same", 0, lambda arb, x: x.exp()),
    "exp2": _One(1, "same", 0, lambda arb, x: (x * arb.const_log2()).exp(), _power_of_two),
    "exp10": _One(1, "same", 0, lambda arb, x: (x * arb.const_log10()).exp(), _power_of_ten),
    "expm1": _One("same", "same", -1, lambda arb, x: x.expm1(), between=_above_minus_one),
    "exp2m1": _One(
        "same",
        "same",
        -1,
        lambda arb, x: (x * arb.const_log2()).expm1(),
        lambda x: _power_of_two(x, 1),
        _above_minus_one,
    ),
    "exp10m1": _One(
        "same",
        "same",
        -1,
        lambda arb, x: (x * arb.const_log10()).expm1(),
        lambda x: _power_of_ten(x, 1),
        _above_minus_one,
    ),
    "log": _One(
        pole(True), "same", INVALID, lambda arb, x: x.log(), _if_positive(lambda x: 0 if x == 1 else None)
    ),
    "log2": _One(
        pole(True), "same", INVALID, lambda arb, x: x.log() / arb.const_log2(), _if_positive(_log2_of)
    ),
    "log10": _One(
        pole(True), "same", INVALID, lambda arb, x: x.log() / arb.const_log10(), _if_positive(_log10_of)
    ),
    "log1p": _One("same", "same", INVALID, lambda arb, x: x.log1p(), _if_positive(lambda x: None, 1)),
    "log2p1": _One(
        "same", "same", INVALID, lambda arb, x: x.log1p() / arb.const_log2(), _if_positive(_log2_of, 1)
    ),
    "log10p1": _One(
        "same", "same", INVALID, lambda arb, x: x.log1p() / arb.const_log10(), _if_positive(_log10_of, 1)
    ),
    "sin": _One("same", INVALID, INVALID, lambda arb, x: x.sin()),
    "cos": _One(1, INVALID, INVALID, lambda arb, x: x.cos()),
    "tan": _One("same", INVALID, INVALID, lambda arb, x: x.tan()),
    "sinpi": _One("same", INVALID, INVALID, lambda arb, x: x.sin_pi(), _sinpi),
    "cospi": _One(1, INVALID, INVALID, lambda arb, x: x.cos_pi(), _cospi),
    "tanpi": _One("same", INVALID, INVALID, lambda arb, x: x.tan_pi(), _tanpi),
    "asin": _One("same", INVALID, INVALID, lambda arb, x: x.asin(), _within({})),
    "acos": _One(None, INVALID, INVALID, lambda arb, x: x.acos(), _within({1: 0})),
    "atan": _One("same", lambda arb: arb.pi() / 2, lambda arb: -arb.pi() / 2, lambda arb, x: x.atan()),
    "asinpi": _One(
        "same",
        INVALID,
        INVALID,
        lambda arb, x: x.asin() / arb.pi(),
        _within({1: Fraction(1, 2), -1: Fraction(-1, 2)}),
    ),
    "acospi": _One(
        Fraction(1, 2), INVALID, INVALID, lambda arb, x: x.acos() / arb.pi(), _within({1: 0, -1: 1})
    ),
    "atanpi": _One(
        "same",
        Fraction(1, 2),
        Fraction(-1, 2),
        lambda arb, x: x.atan() / arb.pi(),
        lambda x: x / 4 if abs(x) == 1 else None,
    ),
    "sinh": _One("same", "same", "same", lambda arb, x: x.sinh()),
    "cosh": _One(1, "same", infinity(False), lambda arb, x: x.cosh()),
    "tanh": _One("same", 1, -1, lambda arb, x: x.tanh(), between=_below_one),
    "asinh": _One("same", "same", "same", lambda arb, x: x.asinh()),
    "acosh": _One(
        INVALID,
        "same",
        INVALID,
        lambda arb, x: x.acosh(),
        lambda x: INVALID if x < 1 else 0 if x == 1 else None,
    ),
    "atanh": _One(
        "same", INVALID, INVALID, lambda arb, x: x.atanh(), _within({1: pole(False), -1: pole(True)})
    ),
    "rsqrt": _One("pole", 0, INVALID, lambda arb, x: x.rsqrt(), _rsqrt),
    "reciprocal": _One("pole", 0, zero(True), lambda arb, x: 1 / x, lambda x: 1 / x),
    "cbrt": _One("same", "same", "same", _cbrt, _cube_root),
    "sigmoid": _One(Fraction(1, 2), 1, 0, _sigmoid, between=lambda x: (Fraction(0), Fraction(1))),
    "erf": _One("same", 1, -1, lambda arb, x: x.erf(), between=_below_one),
    "erfc": _One(1, 0, 2, lambda arb, x: x.erfc(), between=lambda x: (Fraction(0), Fraction(2))),
    "gelu": _One(
        "same", "same", zero(True), lambda arb, x: x * (-x / arb(2).sqrt()).erfc() / 2, between=_share
    ),
    "gelu_tanh": _One("same", "same", zero(True), _gelu_tanh, between=_share),
    "silu": _One("same", "same", zero(True), lambda arb, x: x * _sigmoid(arb, x), between=_share),
    "softplus": _One(
        None, "same", 0, lambda arb, x: x.exp().log1p(), between=lambda x: (max(x, Fraction(0)), None)
    ),
}


# -- functions of two operands ---------------------------------------------------------------------------


def _hypot(x: float, y: float) -> Value:
    if math.isinf(x) or math.isinf(y):
        return infinity(False)
    square = Fraction(x) ** 2 + Fraction(y) ** 2
    if square == 0:
        return zero()
    place = 0  # as a multiple of 4**place, whose root has more than 128 bits
    while (square / Fraction(4) ** place).denominator != 1 or square / Fraction(4) ** place < 1 << 260:
        place -= 64
    whole = int(square / Fraction(4) ** place)
    root = math.isqrt(whole)
    down = root.bit_length() - 128
    lost = root**2 != whole or root >> down << down != root
    return of_bits(root >> down | lost, place + down, False)


def _atan2(y: float, x: float) -> Value:
    negative, left = math.copysign(1, y) < 0, math.copysign(1, x) < 0
    sign = -1 if negative else 1
    if math.isinf(x) and math.isinf(y):
        return enclosed("atan2", lambda arb: sign * arb.pi() * (3 if left else 1) / 4)
    if math.isinf(y) or (x == 0 and y != 0):
        return enclosed("atan2", lambda arb: sign * arb.pi() / 2)
    if y == 0 or math.isinf(x):
        return enclosed("atan2", lambda arb: sign * arb.pi()) if left else zero(negative)
    if x > 0:  # the quotient is exact in a ball only if it is a binary fraction
        return enclosed("atan2", lambda arb: (arb(y) / arb(x)).atan())
    return enclosed("atan2", lambda arb: sign * arb.pi() + (arb(y) / arb(x)).atan())


def _atan2pi(y: float, x: float) -> Value:
    negative, left = math.copysign(1, y) < 0, math.copysign(1, x) < 0
    sign = -1 if negative else 1
    if y == 0 or (math.isinf(x) and not math.isinf(y)):
        return exact(Fraction(sign)) if left else zero(negative)
    if abs(x) == abs(y):  # infinities too
        return exact(Fraction(sign * (3 if left else 1), 4))
    if math.isinf(y) or x == 0:
        return exact(Fraction(sign, 2))
    if not left:
        return enclosed("atan2pi", lambda arb: (arb(y) / arb(x)).atan() / arb.pi())
    return enclosed("atan2pi", lambda arb: sign + (arb(y) / arb(x)).atan() / arb.pi())


def _pow(x: float, y: float) -> Value:
    if y == 0 or x == 1 or (x == -1 and math.isinf(y)):
        return exact(Fraction(1))
    whole = not math.isinf(y) and y == math.floor(y)
    odd = whole and int(y) % 2 == 1
    negative = odd and math.copysign(1, x) < 0
    if x == 0:
        return zero(negative) if y > 0 else infinity(False) if math.isinf(y) else pole(negative)
    if math.isinf(y):
        return infinity(False) if (abs(x) > 1) == (y > 0) else zero()
    if math.isinf(x):
        return infinity(negative) if y > 0 else zero(negative)
    if x < 0 and not whole:
        return INVALID
    power = _log2_of(abs(Fraction(x)))
    if power is not None and (power * Fraction(y)).denominator == 1:
        return of_bits(1 << 127, int(power * Fraction(y)) - 127, negative)
    found = _rational_power(abs(Fraction(x)), Fraction(y))
    if found is not None:
        return exact(-found if negative else found)
    made = enclosed("pow", lambda arb: (arb(abs(x)).log() * arb(y)).exp())
    return made._replace(negative=negative)


def _rational_power(x: Fraction, y: Fraction) -> Fraction | None:
    """Return a power that is a fraction of few bits; others have more than 128, or are no fractions."""
    if x.numerator == x.denominator:
        return Fraction(1)
    root: Fraction | None = x
    while root is not None and y.denominator > 1:  # y is a binary fraction: square roots, one after the other
        root, y = _root(root, 2), 2 * y
    if root is None:
        return None
    bits = max(root.numerator.bit_length(), root.denominator.bit_length())
    return root ** int(y) if abs(y) * bits < 1 << 14 else None


_TWO: dict[str, Callable[[float, float], Value]] = {
    "hypot": _hypot,
    "atan2": _atan2,
    "atan2pi": _atan2pi,
    "pow": _pow,
}
