"""Functions: their names, operands, and what IEEE 754 and common use say of their special cases.

As of operations, the result is exact: a real number, an infinity or NaN, which one projection encodes.

Floor 1. Imports the standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class Function(NamedTuple):
    """A function of one or two operands."""

    operands: int
    what: str  #: the value, as its docstring says
    special: str  #: zeros, infinities, poles and what is invalid
    example: str  #: operands in a call
    shown: str  #: what the call prints


def _one(what: str, special: str, example: str, shown: str) -> Function:
    return Function(1, what, special, example, shown)


#: Functions by name. Source: [IEEE754] 9.2; of those that it does not have, limits.
FUNCTIONS: Mapping[str, Function] = MappingProxyType(
    {
        "exp": _one("e to the power x", "1 at zeros; +0 at -Inf", "1.0", "2.75"),
        "exp2": _one("2 to the power x", "1 at zeros; +0 at -Inf", "0.5", "1.375"),
        "exp10": _one("10 to the power x", "1 at zeros; +0 at -Inf", "2.0", "96."),
        "expm1": _one("exp(x) - 1", "zeros are themselves; -1 at -Inf", "1.0", "1.75"),
        "exp2m1": _one("exp2(x) - 1", "zeros are themselves; -1 at -Inf", "3.0", "7."),
        "exp10m1": _one("exp10(x) - 1", "zeros are themselves; -1 at -Inf", "1.0", "9."),
        "log": _one("the natural logarithm", "-Inf at zeros, a pole; invalid below", "10.0", "2.25"),
        "log2": _one("the logarithm to base 2", "-Inf at zeros, a pole; invalid below", "10.0", "3.25"),
        "log10": _one("the logarithm to base 10", "-Inf at zeros, a pole; invalid below", "20.0", "1.25"),
        "log1p": _one(
            "log(1 + x)", "zeros are themselves; -Inf at -1, a pole; invalid below", "1.0", "0.6875"
        ),
        "log2p1": _one("log2(1 + x)", "zeros are themselves; -Inf at -1, a pole; invalid below", "7.0", "3."),
        "log10p1": _one(
            "log10(1 + x)", "zeros are themselves; -Inf at -1, a pole; invalid below", "9.0", "1."
        ),
        "sin": _one("the sine of x radians", "zeros are themselves; invalid at infinities", "1.0", "0.8125"),
        "cos": _one("the cosine of x radians", "1 at zeros; invalid at infinities", "1.0", "0.5625"),
        "tan": _one("the tangent of x radians", "zeros are themselves; invalid at infinities", "1.0", "1.5"),
        "sinpi": _one(
            "sin(pi * x)", "zeros of the sign of x at integers; invalid at infinities", "0.25", "0.6875"
        ),
        "cospi": _one("cos(pi * x)", "+0 halfway between integers; invalid at infinities", "0.25", "0.6875"),
        "tanpi": _one(
            "tan(pi * x)",
            "at integers zeros of the sign of x if even, else of the other; halfway between poles",
            "0.25",
            "1.",
        ),
        "asin": _one("the arc sine, in radians", "zeros are themselves; invalid beyond 1", "1.0", "1.625"),
        "acos": _one("the arc cosine, in radians", "+0 at 1; invalid beyond 1", "0.0", "1.625"),
        "atan": _one("the arc tangent, in radians", "zeros are themselves", "1.0", "0.8125"),
        "asinpi": _one("asin(x) / pi", "zeros are themselves; invalid beyond 1", "1.0", "0.5"),
        "acospi": _one("acos(x) / pi", "+0 at 1; invalid beyond 1", "-1.0", "1."),
        "atanpi": _one("atan(x) / pi", "zeros are themselves", "1.0", "0.25"),
        "sinh": _one("the hyperbolic sine", "zeros and infinities are themselves", "1.0", "1.125"),
        "cosh": _one("the hyperbolic cosine", "1 at zeros; +Inf at infinities", "1.0", "1.5"),
        "tanh": _one("the hyperbolic tangent", "zeros are themselves; 1 and -1 at infinities", "1.0", "0.75"),
        "asinh": _one("the inverse hyperbolic sine", "zeros and infinities are themselves", "1.0", "0.875"),
        "acosh": _one("the inverse hyperbolic cosine", "+0 at 1; invalid below", "2.0", "1.375"),
        "atanh": _one(
            "the inverse hyperbolic tangent",
            "zeros are themselves; infinities at 1 and -1, poles; invalid beyond",
            "0.5",
            "0.5625",
        ),
        "rsqrt": _one(
            "1 over the square root",
            "infinities at zeros, poles, of their sign; +0 at +Inf; invalid below",
            "4.0",
            "0.5",
        ),
        "reciprocal": _one(
            "1 over x", "infinities at zeros, poles, of their sign; zeros at infinities", "3.0", "0.34375"
        ),
        "cbrt": _one("the cube root", "zeros and infinities are themselves", "-8.0", "-2."),
        "sigmoid": _one("1 / (1 + exp(-x))", "1/2 at zeros; +0 at -Inf, 1 at +Inf", "1.0", "0.75"),
        "erf": _one("the error function", "zeros are themselves; 1 and -1 at infinities", "0.5", "0.5"),
        "erfc": _one("1 - erf(x)", "1 at zeros; 2 at -Inf, +0 at +Inf", "0.5", "0.46875"),
        "gelu": _one(
            "x times the normal distribution's share below x",
            "zeros are themselves; -0 at -Inf",
            "1.0",
            "0.8125",
        ),
        "gelu_tanh": _one(
            "x * sigmoid(2 * sqrt(2 / pi) * (x + 0.044715 * x**3)), which stands for gelu",
            "zeros are themselves; -0 at -Inf",
            "1.0",
            "0.8125",
        ),
        "silu": _one("x * sigmoid(x)", "zeros are themselves; -0 at -Inf", "1.0", "0.75"),
        "softplus": _one("log(1 + exp(x))", "+0 at -Inf", "0.0", "0.6875"),
        "hypot": Function(
            2, "sqrt(x**2 + y**2)", "+Inf if either operand is infinite, even beside a NaN", "3.0, 4.0", "5."
        ),
        "atan2": Function(
            2,
            "the angle of the point (y, x), in radians: atan2(y, x)",
            "zeros and multiples of pi/4 at zeros and infinities, by the signs of both",
            "1.0, -1.0",
            "2.25",
        ),
        "atan2pi": Function(
            2,
            "atan2(y, x) / pi",
            "zeros and multiples of 1/4 at zeros and infinities, by the signs of both",
            "1.0, -1.0",
            "0.75",
        ),
        "pow": Function(
            2,
            "x to the power y",
            "1 if x is 1 or y is zero, even beside a NaN, and for -1 to infinite powers; invalid for "
            "finite x below zero and finite y that are no integers; a pole for zeros to negative powers",
            "2.0, 0.5",
            "1.375",
        ),
    }
)
