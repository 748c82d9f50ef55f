"""Comparisons, predicates, classes, neighbours, and what formats and projection specifications are.

Floor 3b. Source: [P3109] 4.12 to 4.16.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays.checks import Array, code_dtype, codes_operand
from lowprec.p3109.parameters import Specified
from lowprec.p3109.projecting import nan_code
from lowprec.p3109.values import Numbers
from lowprec.spec.format import Format, Sign

__all__ = [
    "COMPARISONS",
    "NEIGHBOURS",
    "OF_FORMATS",
    "OF_SPECIFICATIONS",
    "PREDICATES",
    "ClassEnum",
    "places",
]


class ClassEnum(enum.IntEnum):
    """The eight classes of floating-point values, in the draft's order; the numbers are ours.

    Source: [P3109] 4.13.1, table 2.
    """

    ClsNaN = 0
    ClsNegativeInfinity = 1
    ClsNegativeNormal = 2
    ClsNegativeSubnormal = 3
    ClsZero = 4
    ClsPositiveSubnormal = 5
    ClsPositiveNormal = 6
    ClsPositiveInfinity = 7


# -- comparisons -----------------------------------------------------------------------------------------


def _total_order(x: Numbers, y: Numbers) -> Array:
    return np.isnan(x) | (~np.isnan(y) & (x <= y))


#: Relations of two closed extended reals.
COMPARISONS: Mapping[str, Callable[[Numbers, Numbers], Array]] = MappingProxyType(
    {
        "CompareLess": np.less,
        "CompareLessEqual": np.less_equal,
        "CompareEqual": np.equal,
        "CompareGreater": np.greater,
        "CompareGreaterEqual": np.greater_equal,
        "TotalOrder": _total_order,
    }
)


# -- predicates ------------------------------------------------------------------------------------------


def _is_zero(x: Numbers, fmt: Format) -> Array:
    return np.asarray(x == 0)


def _is_one(x: Numbers, fmt: Format) -> Array:
    return np.asarray(x == 1)


def _is_nan(x: Numbers, fmt: Format) -> Array:
    return np.isnan(x)


def _is_infinite(x: Numbers, fmt: Format) -> Array:
    return np.isinf(x)


def _is_finite(x: Numbers, fmt: Format) -> Array:
    return np.isfinite(x)


def _is_sign_minus(x: Numbers, fmt: Format) -> Array:
    return np.asarray(x < 0)


def _is_normal(x: Numbers, fmt: Format) -> Array:
    assert fmt.min_normal is not None
    return np.isfinite(x) & (np.abs(x) >= fmt.min_normal)


def _is_subnormal(x: Numbers, fmt: Format) -> Array:
    return np.asarray(np.isfinite(x) & (x != 0) & ~_is_normal(x, fmt))


def _class(x: Numbers, fmt: Format) -> Array:
    size = np.where(np.isinf(x), 3, np.where(_is_normal(x, fmt), 2, 1))
    signed = np.where(x == 0, ClassEnum.ClsZero, ClassEnum.ClsZero + np.where(x < 0, -size, size))
    return np.where(np.isnan(x), ClassEnum.ClsNaN, signed).astype(np.uint8)


#: What is said of a closed extended real of a format.
PREDICATES: Mapping[str, Callable[[Numbers, Format], Array]] = MappingProxyType(
    {
        "IsZero": _is_zero,
        "IsOne": _is_one,
        "IsNaN": _is_nan,
        "IsInfinite": _is_infinite,
        "IsFinite": _is_finite,
        "IsSignMinus": _is_sign_minus,
        "IsNormal": _is_normal,
        "IsSubnormal": _is_subnormal,
        "Class": _class,
    }
)


# -- neighbours ------------------------------------------------------------------------------------------


def _last(fmt: Format) -> int:
    """Return the magnitude of infinity, or of the largest finite value where there is none."""
    return fmt.max_magnitude if fmt.infinity_code is None else fmt.infinity_code


def places(codes: npt.ArrayLike, fmt: Format) -> tuple[Array, Array]:
    """Return the places of values in order, 0 for zero, as int64; and which are NaN, whose place is 0.

    Neighbouring values have neighbouring places, infinities too.
    """
    given = codes_operand(codes, fmt).codes.astype(np.int64)
    if fmt.sign is Sign.UNSIGNED:
        nan = given == nan_code(fmt)
        return np.where(nan, 0, given), nan
    magnitude, negative = given & (fmt.sign_code - 1), given & fmt.sign_code != 0
    nan = magnitude > _last(fmt)
    if not fmt.negative_zero:
        nan |= given == fmt.sign_code
    return np.where(nan, 0, np.where(negative, -magnitude, magnitude)), nan


def _neighbour(step: int) -> Callable[[npt.ArrayLike, Format], Array]:
    def neighbour(codes: npt.ArrayLike, fmt: Format) -> Array:
        place, nan = places(codes, fmt)
        place = place + step
        lowest = 0 if fmt.sign is Sign.UNSIGNED else -_last(fmt)
        nan |= (place > _last(fmt)) | (place < lowest)
        made = np.where(place < 0, fmt.sign_code - place, place)
        return np.where(nan, nan_code(fmt), made).astype(code_dtype(fmt))

    return neighbour


#: The next value of a format, or NaN where there is none.
NEIGHBOURS: Mapping[str, Callable[[npt.ArrayLike, Format], Array]] = MappingProxyType(
    {"NextGreaterThan": _neighbour(1), "NextLessThan": _neighbour(-1)}
)


# -- formats and projection specifications -----------------------------------------------------------------


def _code_of(place: Callable[[Format], int | None]) -> Callable[[Format], Any]:
    def code(fmt: Format) -> Any:
        magnitude = place(fmt)
        return code_dtype(fmt).type(nan_code(fmt) if magnitude is None else magnitude)

    return code


def _least_finite(fmt: Format) -> int:
    return 0 if fmt.sign is Sign.UNSIGNED else fmt.sign_code | fmt.max_magnitude


#: Of a format: integers, names, and codes.
OF_FORMATS: Mapping[str, Callable[[Format], Any]] = MappingProxyType(
    {
        "BitwidthOf": lambda fmt: fmt.width,
        "PrecisionOf": lambda fmt: fmt.precision,
        "SignednessOf": lambda fmt: "Unsigned" if fmt.sign is Sign.UNSIGNED else "Signed",
        "DomainOf": lambda fmt: "Extended" if fmt.infinity else "Finite",
        "ExponentBitwidthOf": lambda fmt: fmt.exponent_bits,
        "TrailingSignificandBitwidthOf": lambda fmt: fmt.trailing_bits,
        "ExponentBiasOf": lambda fmt: fmt.bias,
        "MaxFiniteOf": _code_of(lambda fmt: fmt.max_magnitude),
        "MinFiniteOf": _code_of(_least_finite),
        "MinPositiveOf": _code_of(lambda fmt: 1),
        "MaxSubnormalOf": _code_of(lambda fmt: (1 << fmt.trailing_bits) - 1 or None),
        "MinNormalOf": _code_of(lambda fmt: 1 << fmt.trailing_bits),
    }
)

#: Of a projection specification: its modes.
OF_SPECIFICATIONS: Mapping[str, Callable[[Specified], str]] = MappingProxyType(
    {"RoundOf": lambda how: how.rounding, "SatOf": lambda how: how.saturation}
)
