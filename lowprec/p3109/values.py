"""The draft's operations on closed extended reals: in float64, exact or rounded to odd.

An array of float64 stands for real numbers, infinities and NaN; -0 does not occur. Where binary64 does not
hold a result, it is rounded to odd there, and projects as the exact result does onto every format of at most
`BITS` - 2 bits: no boundary of such a format lies between the two. Overflow to odd stays finite.

Arithmetic here expects the usual modes of the process, which calls of specializations set.

Floor 3b. Source: [P3109] 4.9 to 4.11; [BOLDO] for rounding to odd.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays.axes import broadcast_arrays
from lowprec.arrays.checks import values_operand
from lowprec.arrays.convert import decode
from lowprec.arrays.dots.dot import dot
from lowprec.arrays.dots.sums import computed
from lowprec.spec.accumulation import Accumulation
from lowprec.spec.catalog import BINARY64
from lowprec.spec.families import ieee
from lowprec.spec.format import Format
from lowprec.spec.order import EXACT
from lowprec.spec.projection import Projection

__all__ = ["BITS", "VALUES", "decoded", "multiplied", "product", "summed", "without_negative_zero"]

Numbers = npt.NDArray[np.float64]
Real = Callable[..., Numbers]

#: Bits of the numbers that stand for results: 53, but of sums, which are made of two parts of 21 bits.
BITS = 42

_ODD = BINARY64, Projection(rounding="to_odd")
_PART = ieee("part", 11, 20)  # as wide a range as a format of 32 bits can have
_HIGH = Accumulation(order=EXACT, output=(_PART, Projection(rounding="toward_zero", saturation="propagate")))
_LOW = Accumulation(order=EXACT, output=(_PART, Projection(rounding="to_odd", saturation="propagate")))


def without_negative_zero(x: Numbers) -> Numbers:
    """Return the same numbers, and 0 for -0."""
    return np.where(x == 0, 0.0, x)


def decoded(codes: npt.ArrayLike, fmt: Format) -> Numbers:
    """Return the closed extended reals that codes stand for: ωDecode.

    Raises ValueError: no codes of the format.

    Source: [P3109] 4.7.2, 4.8.1.
    """
    return without_negative_zero(np.asarray(decode(codes, fmt, dtype=np.float64)))


# -- arithmetic ------------------------------------------------------------------------------------------


def _odd(name: str, *operands: Numbers) -> Numbers:
    """Return what an operation or function of the general verbs gives, to odd."""
    made = computed(name, [values_operand(operand) for operand in operands], _ODD, None)
    return without_negative_zero(made.view(np.float64))


def _verb(name: str) -> Real:
    return functools.partial(_odd, name)


def _invalid(made: Numbers, where: npt.NDArray[np.bool_]) -> Numbers:
    return np.where(where, np.nan, made)


def product(scale: Numbers, x: Numbers) -> Numbers:
    """Return the product of decoded numbers, which binary64 holds."""
    return without_negative_zero(scale * x)


def summed(x: Numbers, y: Numbers) -> Numbers:
    """Return the sums of products along the last axis: 21 bits toward zero, then of what is left, to odd."""
    high = np.asarray(dot(x, y, _HIGH, dtype=np.float64))
    known = np.where(np.isfinite(high), high, 0.0)
    low = np.asarray(dot(x, y, _LOW, addend=-known, dtype=np.float64))
    return np.where(np.isfinite(high), _odd("add", known, np.where(np.isfinite(high), low, 0.0)), high)


def multiplied(x: Numbers) -> Numbers:
    """Return the products along the last axis: integers, then rounded to odd."""
    made = np.empty(x.shape[:-1])
    for place in np.ndindex(made.shape):
        made[place] = _product(x[place].tolist())
    return made


def _product(factors: list[float]) -> float:
    finite = [factor for factor in factors if math.isfinite(factor)]
    if len(finite) < len(factors):
        infinite = not any(map(math.isnan, factors)) and 0.0 not in finite
        negative = sum(factor < 0 for factor in factors) % 2 == 1
        return (-math.inf if negative else math.inf) if infinite else math.nan
    ratios = [factor.as_integer_ratio() for factor in factors]
    above = math.prod(ratio[0] for ratio in ratios)
    exponent = 1 - math.prod(ratio[1] for ratio in ratios).bit_length()
    size = abs(above)
    cut = max(size.bit_length() - BITS, 0)
    kept = size >> cut | (size & ((1 << cut) - 1) != 0)
    # Beyond 2**1000, or below 2**-1000, all numbers project alike.
    made = math.ldexp(kept, max(-1000 - BITS, min(1000 - BITS, exponent + cut)))
    return -made if above < 0 else made


def _add_three(x: Numbers, y: Numbers, z: Numbers) -> Numbers:
    terms = np.stack(broadcast_arrays(x, y, z), axis=-1)
    return summed(terms, np.ones(3))


def _divide(x: Numbers, y: Numbers) -> Numbers:
    return _invalid(_odd("divide", x, y), y == 0)


def _recip(x: Numbers) -> Numbers:
    return _invalid(_odd("reciprocal", x), x == 0)


def _rsqrt(x: Numbers) -> Numbers:
    return _invalid(_odd("rsqrt", x), x == 0)


def _tanpi(x: Numbers) -> Numbers:
    made = _odd("tanpi", x)
    return _invalid(made, np.isinf(made))


def _hypot(x: Numbers, y: Numbers) -> Numbers:
    return _invalid(_odd("hypot", x, y), np.isnan(x) | np.isnan(y))


def _angle(name: str) -> Real:
    def angle(y: Numbers, x: Numbers) -> Numbers:
        """At minus infinity the draft's angle is π for negative y too."""
        made = _odd(name, np.where(np.isneginf(x), np.abs(y), y), x)
        return _invalid(made, ((x == 0) & (y == 0)) | (np.isinf(x) & np.isinf(y)))

    return angle


# -- selections ------------------------------------------------------------------------------------------


def _copysign(x: Numbers, y: Numbers) -> Numbers:
    return _invalid(np.where(y < 0, -np.abs(x), np.abs(x)), np.isnan(x) | np.isnan(y))


def _by_magnitude(choose: Any, larger: bool) -> Real:
    def chosen(x: Numbers, y: Numbers) -> Numbers:
        first, second = (np.abs(y), np.abs(x)) if larger else (np.abs(x), np.abs(y))
        return np.where(first < second, x, np.where(second < first, y, choose(x, y)))

    return chosen


def _among_finite(choose: Any) -> Real:
    def chosen(x: Numbers, y: Numbers) -> Numbers:
        first, second = np.isfinite(x), np.isfinite(y)
        return np.where(first & ~second, x, np.where(second & ~first, y, choose(x, y)))

    return chosen


def _clamp(x: Numbers, low: Numbers, high: Numbers) -> Numbers:
    made = np.maximum(low, np.minimum(x, high))
    return _invalid(made, ~(low <= high))


#: ω-functions by the operation's name. Source: [P3109] 4.9 to 4.11.
VALUES: Mapping[str, Real] = MappingProxyType(
    {
        "Convert": np.positive,
        "Abs": np.abs,
        "Negate": np.negative,
        "CopySign": _copysign,
        "Add": _verb("add"),
        "Subtract": _verb("subtract"),
        "Multiply": _verb("multiply"),
        "Divide": _divide,
        "FMA": _verb("fma"),
        "FAA": _add_three,
        "Sqrt": _verb("sqrt"),
        "Recip": _recip,
        "RSqrt": _rsqrt,
        "Exp": _verb("exp"),
        "Exp2": _verb("exp2"),
        "Log": _verb("log"),
        "Log2": _verb("log2"),
        "LogOnePlus": _verb("log1p"),
        "ExpMinusOne": _verb("expm1"),
        "Sin": _verb("sin"),
        "Cos": _verb("cos"),
        "Tan": _verb("tan"),
        "ArcSin": _verb("asin"),
        "ArcCos": _verb("acos"),
        "ArcTan": _verb("atan"),
        "Sinh": _verb("sinh"),
        "Cosh": _verb("cosh"),
        "Tanh": _verb("tanh"),
        "ArcSinh": _verb("asinh"),
        "ArcCosh": _verb("acosh"),
        "ArcTanh": _verb("atanh"),
        "SinPi": _verb("sinpi"),
        "CosPi": _verb("cospi"),
        "TanPi": _tanpi,
        "ArcSinPi": _verb("asinpi"),
        "ArcCosPi": _verb("acospi"),
        "ArcTanPi": _verb("atanpi"),
        "Softplus": _verb("softplus"),
        "Hypot": _hypot,
        "ArcTan2": _angle("atan2"),
        "ArcTan2Pi": _angle("atan2pi"),
        "Minimum": np.minimum,
        "Maximum": np.maximum,
        "MinimumNumber": np.fmin,
        "MaximumNumber": np.fmax,
        "MinimumMagnitude": _by_magnitude(np.minimum, False),
        "MaximumMagnitude": _by_magnitude(np.maximum, True),
        "MinimumMagnitudeNumber": _by_magnitude(np.fmin, False),
        "MaximumMagnitudeNumber": _by_magnitude(np.fmax, True),
        "MinimumFinite": _among_finite(np.fmin),
        "MaximumFinite": _among_finite(np.fmax),
        "Clamp": _clamp,
    }
)
