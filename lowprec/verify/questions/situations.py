"""Say where exact results lie between the values of their format: of whole arrays, and of one case.

For arrays they follow from how the kernels round, for one case the oracle tells; tests compare the two.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.kernels.functions.tables import value_at
from lowprec.kernels.lower.kinds import FINITE, INFINITY
from lowprec.kernels.modes import usual_modes
from lowprec.oracle.arith import Result, exact
from lowprec.oracle.convert import decode, largest_magnitude, position
from lowprec.oracle.exact import Exact, Special, to_float
from lowprec.oracle.flags import is_signaling
from lowprec.spec.catalog import BINARY32
from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Format, Sign
from lowprec.spec.functions import FUNCTIONS
from lowprec.spec.projection import DEFAULT, Flag, Projection
from lowprec.spec.rounding import Rounding, rounding
from lowprec.verify.codes.display import shown_value
from lowprec.verify.codes.values import is_nan
from lowprec.verify.reference.operations import OPERATIONS

__all__ = ["continued", "exact_value", "function_value", "names_of", "neighbours", "shown_result"]
__all__ += ["situation", "situations"]

Array = npt.NDArray[Any]

_NANS = (Special.NAN, Special.NEGATIVE_NAN)
_INFINITIES = (Special.INFINITY, Special.NEGATIVE_INFINITY)
_PAST, _BEYOND = ", past the largest value", "beyond the next value after the largest"
#: Most cases of a call that the oracle is asked about, one by one, where the kernels do not say.
_ONE_BY_ONE = 4096
#: Operations that round by themselves: results in directed modes do not enclose the exact one.
_ROUND_THEMSELVES = ("round_to_integral", "scaleb", "logb")


# -- of one case -------------------------------------------------------------------------------------


def exact_value(
    operands: list[int], operation: str, formats: tuple[Format, ...], projection: Projection
) -> Exact:
    """Return the result before it is projected: the operand itself, or the operation's exact result."""
    if operation == "convert":
        return decode(operands[0], formats[0])
    return _result(operation, operands, formats, projection).value


def _result(
    operation: str, operands: list[int], formats: tuple[Format, ...], projection: Projection
) -> Result:
    """Return the result of an operation before it is projected; of a function 128 bits of it, rounded to odd.

    Rounded to odd, the 128 bits lie at a tie only where the function's exact value does.
    """
    pairs = list(zip(operands, formats, strict=False))
    values = [decode(code, fmt) for code, fmt in pairs]
    if operation in FUNCTIONS:
        if any(is_signaling(code, fmt) for code, fmt in pairs):
            return Result(Special.NAN, Flag.INVALID)
        return function_value(operation, values)
    return exact(operation, values, _rounding(projection))


def _rounding(projection: Projection) -> Rounding:
    return DEFAULT.rounding if projection.via else projection.rounding


def situation(
    operands: list[int], operation: str, formats: tuple[Format, ...], projection: Projection
) -> str:
    """Return where the exact result lies between the values of its format.

    >>> from lowprec.spec.catalog import BINARY32, E4M3FN
    >>> situation([0x3F880000], "convert", (BINARY32, E4M3FN), DEFAULT)
    'at a tie'
    >>> situation([0x38, 0x18], "add", (E4M3FN, E4M3FN, E4M3FN), DEFAULT)  # 1 + 2**-4
    'at a tie'
    >>> situation([0x38, 0x00], "divide", (E4M3FN, E4M3FN, E4M3FN), DEFAULT)
    'division by zero'
    """
    values = [decode(code, fmt) for code, fmt in zip(operands, formats, strict=False)]
    if operation == "convert":
        return _place(values[0], formats[-1], projection, "operand")
    result = _result(operation, operands, formats, projection)
    if result.value in _NANS:
        return "NaN operand" if any(value in _NANS for value in values) else "invalid operation"
    if result.signals & Flag.DIVIDE_BY_ZERO:
        return "division by zero"
    if operation == "round_to_integral" and result.value != values[0]:
        assert isinstance(values[0], Fraction)
        return f"{_tail(abs(values[0]) % 1)} between integers"
    return _place(result.value, formats[-1], projection, "result")


def _place(value: Exact, target: Format, projection: Projection, what: str) -> str:
    """Return where a value lies between those of a format."""
    if value in _NANS:
        return f"NaN {what}"
    if value in _INFINITIES:
        return f"infinite {what}"
    if isinstance(value, Special) or value == 0:
        return f"zero {what}"
    tail, last = position(abs(value), target, value < 0, projection)
    if tail is None:
        return _BEYOND if last else "below the smallest value"
    return f"{_tail(tail)}{_PAST}" if last and tail else _tail(tail)


def _tail(tail: Fraction) -> str:
    half = Fraction(1, 2)
    where = "at" if tail == half else "below" if tail < half else "above"
    return f"{where} a tie" if tail else "exact"


def _has_poles(operation: str) -> bool:
    """Return whether an infinite result may be that of a division by zero."""
    return operation == "divide" or operation in FUNCTIONS


# -- of arrays ---------------------------------------------------------------------------------------


def neighbours(
    operation: str, operands: list[Array], formats: tuple[Format, ...], projection: Projection
) -> tuple[Array, Array]:
    """Return the codes of results rounded toward zero and away from it, all else by the projection."""
    compute = OPERATIONS[operation].compute
    down, up = (
        compute(operands, formats, dataclasses.replace(projection, rounding=rounding(name)))
        for name in ("toward_zero", "away_from_zero")
    )
    return down, up


def names_of(operation: str) -> tuple[str, ...]:
    """Return what the numbers that `situations` gives stand for."""
    what = "operand" if operation == "convert" else "result"
    tails = [f"{tail} a tie" for tail in ("below", "at", "above")]
    found = ["exact", *tails, *(tail + _PAST for tail in tails), _BEYOND]
    found += [f"infinite {what}", f"zero {what}", "NaN operand", "invalid operation", "division by zero"]
    found += [f"{tail} between integers" for tail in tails]
    return (*found, "below the smallest value", f"exact{_PAST}", "not looked at")


_EXACT, _BELOW, _TIE, _ABOVE = range(4)
_PASSED, _OVER, _INFINITE, _ZERO, _NAN, _INVALID = 3, *range(7, 12)


def situations(
    operation: str, operands: list[Array], formats: tuple[Format, ...], projection: Projection
) -> npt.NDArray[np.uint8]:
    """Return the `situation` of each case, from codes of operands, as indices into `names_of`.

    >>> from lowprec.spec.catalog import BINARY32, E4M3FN
    >>> found = situations("convert", [np.uint32([0x3F880000, 0x3F880001])], (BINARY32, E4M3FN), DEFAULT)
    >>> [names_of("convert")[number] for number in found]
    ['at a tie', 'above a tie']
    """
    *sources, target = formats
    size = operands[0].size
    if isinstance(target, Codebook):
        return _in_codebook(operation, operands, formats, projection)
    wide = continued(target)
    if wide is None:
        return _one_by_one(
            operation, operands, formats, projection, np.zeros(size, np.uint8), np.ones(size, bool)
        )
    rounded = {}
    for name in ("toward_zero", "away_from_zero", "nearest_zero", "nearest_away"):
        rounded[name] = OPERATIONS[operation].compute(
            operands, (*sources, wide), Projection(rounding=rounding(name))
        )
    down, up, near = rounded["toward_zero"], rounded["away_from_zero"], rounded["nearest_zero"]
    below, above = down & (wide.sign_code - 1), up & (wide.sign_code - 1)
    found = np.where(near == down, np.uint8(_BELOW), np.uint8(_ABOVE))
    found[near != rounded["nearest_away"]] = _TIE
    negative = (up & wide.sign_code) != 0
    most, least = (largest_magnitude(side, target, projection) for side in (False, True))
    largest = np.where(negative, least, most)
    found[above > largest] += _PASSED
    found[down == up] = _EXACT
    found[below > largest] = _OVER
    infinite = below == wide.max_magnitude + 1
    found[infinite] = _INFINITE
    found[above == 0] = _ZERO
    nan = is_nan(down, wide)
    found[nan] = _NAN
    if operation == "convert":
        return found
    nans = [is_nan(codes, source) for codes, source in zip(operands, sources, strict=True)]
    found[nan & ~np.any(nans, axis=0)] = _INVALID
    unsure = infinite if _has_poles(operation) else np.zeros(size, bool)
    if operation in _ROUND_THEMSELVES:
        unsure = ~nan
    return _one_by_one(operation, operands, formats, projection, found, unsure)


def _in_codebook(
    operation: str, operands: list[Array], formats: tuple[Format, ...], projection: Projection
) -> npt.NDArray[np.uint8]:
    """Return the `situation` of each case of a codebook, found by other modes and rules of ties."""
    *sources, target = formats
    assert isinstance(target, Codebook)
    unsigned = target.sign is Sign.UNSIGNED
    signs = sources[0].sign is Sign.MAGNITUDE and not isinstance(sources[0], Codebook)
    if unsigned and operation == "convert" and signs:  # the negative numbers mirror the positive ones
        operands = [operands[0] & operands[0].dtype.type(sources[0].sign_code - 1)]

    def rounded(fmt: Format, name: str) -> tuple[Array, Array]:
        how, flags = Projection(rounding=rounding(name), nan="max"), np.zeros(operands[0].shape, np.uint8)
        return OPERATIONS[operation].compute(operands, (*sources, fmt), how, flags), flags

    def tied(rule: str) -> tuple[Array, Array]:
        again = (target.thresholds, target.overflow)
        fmt = Codebook(target.name, target.values, thresholds=again[0], ties=rule, overflow=again[1])
        return rounded(fmt, "nearest_even")

    (down, signals), (up, over) = rounded(target, "toward_zero"), rounded(target, "away_from_zero")
    above, reached = (
        (codes != down)
        | ((flags & ~signals & Flag.OVERFLOW) != 0)  # the last value stands for numbers past it
        for codes, flags in (tied("zero"), tied("away"))
    )
    inexact, passed = (signals & Flag.INEXACT) != 0, (over & Flag.OVERFLOW) != 0
    found = np.where(above, np.uint8(_ABOVE), np.uint8(_BELOW))
    found[above != reached] = _TIE
    found[passed | (inexact & (down == up))] += _PASSED
    found[~inexact] = _EXACT
    found[(signals & Flag.OVERFLOW) != 0] = _OVER
    (low, _), (high, _) = (rounded(BINARY32, name) for name in ("toward_zero", "away_from_zero"))
    numbers = low.view(np.float32)
    found[np.isinf(numbers)] = _INFINITE
    found[high & 0x7FFFFFFF == 0] = _ZERO
    found[np.isnan(numbers)] = _NAN
    unsure = (signals & (Flag.UNDERFLOW | Flag.INVALID)) != 0  # below the smallest, or of a missing sign
    unsure |= unsigned & (numbers < 0)
    if operation != "convert":
        nans = [is_nan(codes, source) for codes, source in zip(operands, sources, strict=True)]
        found[np.isnan(numbers) & ~np.any(nans, axis=0)] = _INVALID
        unsure |= np.isinf(numbers) & _has_poles(operation)
    unsure |= (high & 0x7FFFFFFF == 0) & inexact  # zero lies between two values
    if operation in _ROUND_THEMSELVES:
        unsure = ~np.isnan(numbers)
    return _one_by_one(operation, operands, formats, projection, found, unsure & ~np.isnan(numbers))


@functools.cache
def continued(target: Format, bits: int = 1) -> Format | None:
    """Return a signed format with more exponent bits (without exponents: digits); None if there is none."""
    if target.width > 31 - bits or (target.exponent_bits and not target.subnormals):
        return None
    more = 0 if target.exponent_bits else 2  # bits of a format without exponents
    try:
        found = Format(
            name="continued",
            exponent_bits=target.exponent_bits + bits * bool(target.exponent_bits),
            trailing_bits=target.trailing_bits + more,
            bias=target.bias - more,
            nans=1,
            infinity=True,
            sign=Sign.MAGNITUDE,
        )
        # Of a format of few exponents one more bit holds no other number, but infinities and NaNs.
        return found if found.max_magnitude > target.max_magnitude + 1 else continued(target, bits + 1)
    except ValueError:  # its largest value is above float64's range
        return None


def _one_by_one(
    operation: str,
    operands: list[Array],
    formats: tuple[Format, ...],
    projection: Projection,
    found: npt.NDArray[np.uint8],
    where: Array,
) -> npt.NDArray[np.uint8]:
    """Ask the oracle about the first `_ONE_BY_ONE` cases."""
    names, places = names_of(operation), np.flatnonzero(where)
    for place in places[:_ONE_BY_ONE]:
        codes = [int(column[place]) for column in operands]
        found[place] = names.index(situation(codes, operation, formats, projection))
    found[places[_ONE_BY_ONE:]] = len(names) - 1
    return found


# -- of functions ------------------------------------------------------------------------------------


#: Exponents are cut to this: every format ends long before.
_FAR = 1 << 16


@usual_modes()
def function_value(name: str, operands: Sequence[Exact]) -> Result:
    """Return what a function gives before it is projected, and the flags that it raises.

    Parameters
    ----------
    name : str
        A key of `lowprec.spec.functions.FUNCTIONS`.
    operands : sequence of Fraction or Special
        Numbers that float64 holds.

    >>> function_value("exp2", [Fraction(-3)]).value
    Fraction(1, 8)
    >>> function_value("log", [Fraction(0)])
    Result(value=Special.NEGATIVE_INFINITY, signals=<Flag.DIVIDE_BY_ZERO: 8>)
    """
    kind, negative, high, low, exponent, raised = value_at(name, *map(to_float, operands))
    signals = Flag(raised)
    if kind == INFINITY:
        return Result(Special.NEGATIVE_INFINITY if negative else Special.INFINITY, signals)
    if kind != FINITE:
        return Result(Special.NAN, signals)
    whole = high << 64 | low
    if not whole:
        return Result(Special.NEGATIVE_ZERO if negative else Fraction(0), signals)
    value = whole * Fraction(2) ** max(-_FAR, min(_FAR, exponent - 64))
    return Result(-value if negative else value, signals)


def shown_result(value: Exact) -> str:
    """Return a function's value as text: exact below 128 bits, else rounded, as `about` so many digits.

    >>> shown_result(function_value("exp2", [Fraction(-3)]).value)
    '0.125 = 0x1p-3'
    >>> shown_result(function_value("exp", [Fraction(1000)]).value)
    'about 1.9700711140170470e+434'
    """
    if isinstance(value, Special) or value == 0:
        return shown_value(value)
    size, below = abs(value.numerator), value.denominator
    bits = size.bit_length() - below.bit_length()
    if abs(bits) > _FAR - 256:
        sign = "-" if value < 0 else ""
        return f"beyond {sign}2**{_FAR - 256}" if bits > 0 else f"between {sign}2**-{_FAR - 256} and 0"
    if (size // (size & -size)).bit_length() < 128:
        return shown_value(value)
    with localcontext(Context(prec=17, Emax=1 << 20, Emin=-(1 << 20))):
        return f"about {Decimal(value.numerator) / Decimal(below):.17g}"
