"""Operations by definition: a real number from real numbers, then one projection.

Square roots are the only irrational results. A fraction stands for each: one between the same two
neighbours of a grid so fine that no format's values and no threshold of a rounding mode lie inside its gaps.

Floor 2a. Imports spec and the standard library.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import NamedTuple

from lowprec.oracle.convert import check, decode, flushed_operand, is_subnormal, nan_of, project
from lowprec.oracle.exact import Exact, Special, is_negative, scale
from lowprec.oracle.flags import flags as conversion_flags, is_signaling
from lowprec.oracle.rounding import is_farther
from lowprec.spec.arith import SIGN_ONLY, operands_of
from lowprec.spec.catalog import BINARY64
from lowprec.spec.format import Format
from lowprec.spec.projection import DEFAULT, Flag, Projection
from lowprec.spec.rounding import Rounding

__all__ = ["Result", "exact", "operate"]

_NANS = (Special.NAN, Special.NEGATIVE_NAN)
_INFINITIES = (Special.INFINITY, Special.NEGATIVE_INFINITY)

#: Fraction bits of the grid for square roots. Formats have values from 2**-1074 on, whose roots are
#: 2**-537 and more, and 32 random bits need 34 bits below a value's last.
_PLACES = 1200


class Result(NamedTuple):
    """The result of an operation before projection, and the flags that it has raised."""

    value: Exact
    signals: Flag = Flag(0)


_INVALID = Result(Special.NAN, Flag.INVALID)


# -- numbers with signs ------------------------------------------------------------------------------


def _number(value: Exact) -> Fraction:
    """Return a finite value; that of either zero is 0."""
    return Fraction(0) if value is Special.NEGATIVE_ZERO else Fraction(value)  # type: ignore[arg-type]


def _signed(value: Fraction, negative: bool) -> Exact:
    """Return a number, or the zero of that sign."""
    return Special.NEGATIVE_ZERO if value == 0 and negative else value


def _infinity(negative: bool) -> Exact:
    return Special.NEGATIVE_INFINITY if negative else Special.INFINITY


def _opposite(value: Exact) -> Exact:
    opposites: dict[Special, Exact] = {
        Special.NEGATIVE_ZERO: Fraction(0),
        Special.INFINITY: Special.NEGATIVE_INFINITY,
        Special.NEGATIVE_INFINITY: Special.INFINITY,
        Special.NAN: Special.NEGATIVE_NAN,
        Special.NEGATIVE_NAN: Special.NAN,
    }
    if isinstance(value, Special):
        return opposites[value]
    return -value if value else Special.NEGATIVE_ZERO


# -- operations ---------------------------------------------------------------------------------------


def _add(x: Exact, y: Exact, rounding: Rounding) -> Result:
    if x in _INFINITIES or y in _INFINITIES:
        if x in _INFINITIES and y in _INFINITIES and x != y:
            return _INVALID
        return Result(x if x in _INFINITIES else y)
    total = _number(x) + _number(y)
    if is_negative(x) == is_negative(y):
        return Result(_signed(total, is_negative(x)))
    return Result(_signed(total, rounding.downward))


def _subtract(x: Exact, y: Exact, rounding: Rounding) -> Result:
    return _add(x, _opposite(y), rounding)


def _multiply(x: Exact, y: Exact, rounding: Rounding) -> Result:
    negative = is_negative(x) != is_negative(y)
    if x in _INFINITIES or y in _INFINITIES:
        finite = [value for value in (x, y) if value not in _INFINITIES]
        return _INVALID if finite and _number(finite[0]) == 0 else Result(_infinity(negative))
    return Result(_signed(_number(x) * _number(y), negative))


def _divide(x: Exact, y: Exact, rounding: Rounding) -> Result:
    negative = is_negative(x) != is_negative(y)
    if x in _INFINITIES:
        return _INVALID if y in _INFINITIES else Result(_infinity(negative))
    if y in _INFINITIES:
        return Result(_signed(Fraction(0), negative))
    if _number(y) == 0:
        return _INVALID if _number(x) == 0 else Result(_infinity(negative), Flag.DIVIDE_BY_ZERO)
    return Result(_signed(_number(x) / _number(y), negative))


def _sqrt(x: Exact, rounding: Rounding) -> Result:
    if x is Special.NEGATIVE_ZERO or x is Special.INFINITY:
        return Result(x)
    if is_negative(x):
        return _INVALID
    square = scale(_number(x), 2 * _PLACES)
    root = math.isqrt(int(square))
    if root * root != square:
        return Result(scale(Fraction(2 * root + 1), -_PLACES - 1))
    return Result(scale(Fraction(root), -_PLACES))


def _fma(x: Exact, y: Exact, z: Exact, rounding: Rounding) -> Result:
    product = _multiply(x, y, rounding)
    if product.signals or z in _NANS:
        return product if z not in _NANS else Result(z, product.signals)
    return _add(product.value, z, rounding)


def _remainder(x: Exact, y: Exact, rounding: Rounding) -> Result:
    if x in _INFINITIES or (y not in _INFINITIES and _number(y) == 0):
        return _INVALID
    if y in _INFINITIES:
        return Result(x)
    times = round(_number(x) / _number(y))  # Python rounds a Fraction to the nearest even integer
    return Result(_signed(_number(x) - times * _number(y), is_negative(x)))


def _order(value: Exact) -> tuple[float, Fraction, int]:
    """Return a key that sorts all but NaNs, -0 before +0."""
    if value in _INFINITIES:
        return (-1 if is_negative(value) else 1), Fraction(0), 0
    return 0, _number(value), 0 if is_negative(value) else 1


def _minimum(x: Exact, y: Exact, rounding: Rounding) -> Result:
    return Result(min(x, y, key=_order))


def _maximum(x: Exact, y: Exact, rounding: Rounding) -> Result:
    return Result(max(x, y, key=_order))


def _minimum_number(x: Exact, y: Exact, rounding: Rounding) -> Result:
    return Result(min((value for value in (x, y) if value not in _NANS), key=_order))


def _maximum_number(x: Exact, y: Exact, rounding: Rounding) -> Result:
    return Result(max((value for value in (x, y) if value not in _NANS), key=_order))


def _negative(x: Exact, rounding: Rounding) -> Result:
    return Result(_opposite(x))


def _absolute(x: Exact, rounding: Rounding) -> Result:
    return Result(_opposite(x) if is_negative(x) else x)


def _copysign(x: Exact, y: Exact, rounding: Rounding) -> Result:
    return Result(_opposite(x) if is_negative(x) != is_negative(y) else x)


def _scaleb(x: Exact, n: Exact, rounding: Rounding) -> Result:
    if isinstance(x, Special):
        return Result(x)
    power = _number(n)
    if power.denominator != 1:
        raise ValueError(f"scaleb scales by whole powers of two, not by 2**{power}")
    # Beyond these powers every result is too large or too small for any format.
    return Result(scale(x, max(min(int(power), 1 << 13), -(1 << 13))))


def _logb(x: Exact, rounding: Rounding) -> Result:
    if x in _INFINITIES:
        return Result(Special.INFINITY)
    size = abs(_number(x))
    if size == 0:
        return Result(Special.NEGATIVE_INFINITY, Flag.DIVIDE_BY_ZERO)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    return Result(Fraction(exponent - (size < scale(Fraction(1), exponent))))


_OPERATIONS: dict[str, Callable[..., Result]] = {
    "add": _add,
    "subtract": _subtract,
    "multiply": _multiply,
    "divide": _divide,
    "sqrt": _sqrt,
    "fma": _fma,
    "remainder": _remainder,
    "minimum": _minimum,
    "maximum": _maximum,
    "minimum_number": _minimum_number,
    "maximum_number": _maximum_number,
    "negative": _negative,
    "absolute": _absolute,
    "copysign": _copysign,
    "scaleb": _scaleb,
    "logb": _logb,
}


def _round_to_integral(x: Exact, rounding: Rounding, random: int | None) -> Result:
    if isinstance(x, Special):
        return Result(x)
    negative, size = x < 0, abs(x)
    whole = size.numerator // size.denominator
    farther = is_farther(size - whole, rounding, negative=negative, odd=whole % 2 == 1, random=random)
    rounded = Fraction(whole + farther)
    return Result(
        _signed(-rounded if negative else rounded, negative), Flag(0) if rounded == size else Flag.INEXACT
    )


def exact(
    operation: str,
    values: Sequence[Exact],
    rounding: Rounding = DEFAULT.rounding,
    *,
    random: int | None = None,
) -> Result:
    """Return the result of an operation on exact values, and the flags that it raises before rounding.

    The rounding mode decides the sign of an exact zero sum and, with its random integer, the result of
    `round_to_integral`. The first NaN operand is delivered as it is.

    >>> exact("divide", (Fraction(1), Fraction(3)))
    Result(value=Fraction(1, 3), signals=<Flag: 0>)
    >>> exact("multiply", (Special.INFINITY, Fraction(0)))
    Result(value=Special.NAN, signals=<Flag.INVALID: 16>)

    Raises ValueError: another number of operands, or an unknown operation.

    Source: [IEEE754] 5.3 to 5.5, 6.3, 7, 9.6; `minimum` orders -0 below +0.
    """
    if len(values) != operands_of(operation):
        raise ValueError(f"{operation} takes {operands_of(operation)} operands, not {len(values)}")
    if operation == "round_to_integral":
        return _round_to_integral(values[0], rounding, random)
    numbers = [value for value in values if value not in _NANS]
    nans = [value for value in values if value in _NANS]
    if operation not in SIGN_ONLY and nans and not (operation.endswith("_number") and numbers):
        invalid = operation == "fma" and values[0] not in _NANS and values[1] not in _NANS
        signals = _multiply(values[0], values[1], rounding).signals if invalid else Flag(0)
        return Result(nans[0], signals)
    return _OPERATIONS[operation](*values, rounding)


def operate(
    operation: str,
    codes: Sequence[int],
    formats: Sequence[Format],
    target: Format,
    projection: Projection = DEFAULT,
    *,
    random: int | None = None,
) -> tuple[int, Flag]:
    """Return the code of a result in `target`, and the flags of the operation and its projection.

    Invalid is raised alone, and so is the division of a number by zero. An operand that is flushed raises
    inexact, but not beside these two, nor where the result is the NaN of an operand.

    >>> from lowprec.spec.catalog import E4M3FN
    >>> operate("add", (0x38, 0x3A), (E4M3FN, E4M3FN), E4M3FN)  # 1 + 1.25
    (65, <Flag: 0>)

    Parameters
    ----------
    operation : str
        A key of `lowprec.spec.arith.OPERANDS`.
    codes, formats : sequences of int and of Format
        The operands; formats may be carriers.
    target, projection, random
        As of `project`.

    Raises ValueError: a result that the format lacks and the projection refuses.
    """
    check(target, projection, random)
    flushing = projection.flushes_operands
    flushed = [
        flushing and operation not in SIGN_ONLY and is_subnormal(code, fmt)
        for code, fmt in zip(codes, formats, strict=True)
    ]
    values = [
        flushed_operand(decode(code, fmt), projection, tiny)
        for code, fmt, tiny in zip(codes, formats, flushed, strict=True)
    ]
    signaling = [is_signaling(code, fmt) for code, fmt in zip(codes, formats, strict=True)]
    rounding = DEFAULT.rounding if projection.via else projection.rounding
    result = exact(operation, values, rounding, random=random)
    signals = result.signals | (Flag.INEXACT if any(flushed) else Flag(0))
    if any(signaling) and operation not in SIGN_ONLY:
        signals |= Flag.INVALID
    value = result.value
    if value in _NANS:
        code, raised = _nan(operation, codes, formats, values, signaling, result, target, projection, random)
        return code, Flag.INVALID if raised or signals & Flag.INVALID else signals & ~Flag.INEXACT
    signals |= Flag(conversion_flags(value, target, projection, random=random))
    if result.signals & Flag.DIVIDE_BY_ZERO:
        signals = Flag.DIVIDE_BY_ZERO
    return project(
        value, target, projection, random=random
    ), Flag.INVALID if signals & Flag.INVALID else signals


def _nan(
    operation: str,
    codes: Sequence[int],
    formats: Sequence[Format],
    values: Sequence[Exact],
    signaling: Sequence[bool],
    result: Result,
    target: Format,
    projection: Projection,
    random: int | None,
) -> tuple[int, bool]:
    """Return the code of a NaN result, and the flag of a format without NaN."""
    order = [place for place, value in enumerate(values) if value in _NANS]
    if operation == "copysign":
        order = [0]
    if projection.nan_payload == "signaling_first":
        if operation == "fma":
            order = [*(place for place in order if place == 2), *(place for place in order if place != 2)]
        order = sorted(order, key=lambda place: not signaling[place])
        if operation == "fma" and result.signals & Flag.INVALID and not any(signaling):
            order = []  # the product is invalid, whatever quiet NaN it is added to
    missing = not target.has_nan
    if not order:
        return project(Special.NAN, target, projection, random=random), missing
    code, source = codes[order[0]], formats[order[0]]
    if operation in SIGN_ONLY:
        if (
            not source.has_signed_nan
        ):  # the result is a NaN operand all the same, with a sign that binary64 has
            code, source = nan_of(code, source, BINARY64, Projection(nan_payload="first")), BINARY64
        code = code & ~source.sign_code | (source.sign_code if is_negative(result.value) else 0)
    for stop in projection.via:
        code, source = nan_of(code, source, stop, Projection(nan_payload=projection.nan_payload)), stop
    return nan_of(code, source, target, projection), missing
