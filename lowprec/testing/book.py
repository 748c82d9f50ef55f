"""Projection onto a codebook by its values alone: between which two a number lies, and which it becomes.

This is the kit's own reading of a `Codebook`: a list of numbers in ascending order, negative ones among
them, with a threshold in each gap. It uses neither rays, nor the oracle, nor a kernel.
"""

from __future__ import annotations

import functools
import math
from bisect import bisect_right
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Sign
from lowprec.spec.projection import Projection, Saturation
from lowprec.testing.grid import ABOVE, BELOW, EXACT, TIE, Array, takes_farther


class Stops(NamedTuple):
    """The two codes next to each of some numbers: toward zero, and away from it."""

    negative: npt.NDArray[np.bool_]
    near: npt.NDArray[np.int64]
    far: npt.NDArray[np.int64]  #: the same as `near` where there is none farther
    kind: npt.NDArray[np.int64]  #: EXACT, or on which side of the threshold, seen from `near`
    past: npt.NDArray[np.bool_]  #: beyond the extreme value, so that the farther one overflows
    beyond: npt.NDArray[np.bool_]  #: as far as the value after the extreme one, or farther
    below: npt.NDArray[np.bool_]  #: between 0 and the smallest value of a codebook that begins above 0


class _Listed(NamedTuple):
    """Finite values in ascending order, their codes, and what lies between and beyond."""

    values: list[Fraction]
    codes: list[int]
    thresholds: list[Fraction]
    limits: tuple[Fraction | None, Fraction | None]  #: where numbers overflow, below and above
    ends: tuple[Fraction | None, Fraction | None]  #: the values that would follow there
    zeros: tuple[int, int]  #: codes of +0 and -0; -1 where there is no zero


@functools.lru_cache(maxsize=64)
def _listed(fmt: Codebook) -> _Listed:
    pairs = sorted(
        (Fraction(value), code)
        for code, value in enumerate(fmt.values)
        if math.isfinite(value) and (value or math.copysign(1, value) > 0)
    )
    values, codes = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    plus, minus = (
        next((code for code, value in enumerate(fmt.values) if str(value) == text), -1)
        for text in ("0.0", "-0.0")
    )
    limits: tuple[Fraction | None, Fraction | None]
    ends: tuple[Fraction | None, Fraction | None]
    if fmt.overflow == "never":
        limits = ends = (None, None)
    elif fmt.overflow == "gap":
        gaps = values[1] - values[0], values[-1] - values[-2]
        limits, ends = (
            (values[0] - gaps[0] / 2, values[-1] + gaps[1] / 2),
            (values[0] - gaps[0], values[-1] + gaps[1]),
        )
    else:
        limit = Fraction(fmt.overflow)
        limits, ends = (-limit, limit), (-2 * limit - values[0], 2 * limit - values[-1])
    between = [Fraction(each) for each in fmt.thresholds]
    return _Listed(values, codes, between, limits, ends, (plus, plus if minus < 0 else minus))


def zero_codes(fmt: Codebook) -> tuple[int, int]:
    """Return the codes of +0 and -0, which are one where there is no -0, or -1 without a zero.

    >>> zero_codes(Codebook("ternary", [0, 1, float("nan"), -1]))
    (0, 0)
    """
    return _listed(fmt).zeros


def stops_of(numbers: Sequence[float | Fraction], fmt: Codebook) -> Stops:
    """Return between which codes numbers lie; negative ones of a codebook that has some.

    >>> book = Codebook("ternary", [0, 1, float("nan"), -1])
    >>> stops = stops_of([0.5, -0.75], book)
    >>> stops.near.tolist(), stops.far.tolist(), stops.kind.tolist()
    ([0, 0], [1, 3], [2, 3])
    """
    rows = [_stop(Fraction(number), math.copysign(1, number) < 0, _listed(fmt)) for number in numbers]
    columns = np.array(rows, np.int64).reshape(-1, 7).T
    kinds = (bool, np.int64, np.int64, np.int64, bool, bool, bool)
    return Stops._make(column.astype(kind) for column, kind in zip(columns, kinds, strict=True))


def _stop(number: Fraction, signed: bool, book: _Listed) -> tuple[int, ...]:
    values, codes = book.values, book.codes
    negative = number < 0 or (number == 0 and signed and book.zeros[0] >= 0)
    low = bisect_right(values, number) - 1
    if low >= 0 and values[low] == number:
        code = book.zeros[negative] if number == 0 else codes[low]
        return negative, code, code, EXACT, False, False, False
    if low < 0 and not negative:  # the codebook begins above 0
        return negative, codes[0], codes[0], EXACT, False, False, number != 0
    if low < 0 or low == len(values) - 1:
        code = codes[0] if low < 0 else codes[-1]
        limit, end = book.limits[low >= 0], book.ends[low >= 0]
        if limit is None or end is None:
            return negative, code, code, BELOW, True, False, False
        return (
            negative,
            code,
            code,
            _side(number, limit, negative),
            True,
            _side(number, end, negative) != BELOW,
            False,
        )
    near, far = (low + 1, low) if negative else (low, low + 1)
    first, second = (book.zeros[negative] if values[each] == 0 else codes[each] for each in (near, far))
    return negative, first, second, _side(number, book.thresholds[low], negative), False, False, False


def _side(number: Fraction, threshold: Fraction, negative: bool) -> int:
    if number == threshold:
        return TIE
    return ABOVE if (number < threshold) == negative else BELOW


def farther(mode: str, stops: Stops, fmt: Codebook) -> Array:
    """Return whether a deterministic mode takes the code away from zero."""
    return takes_farther(mode, stops.near % 2 == 1, stops.negative, stops.kind, fmt.ties)


def codes_of(stops: Stops, fmt: Codebook, how: Projection) -> Array:
    """Return the codes of numbers under a projection of rounding and saturation."""
    up = farther(how.rounding.name, stops, fmt)
    codes = np.where(up, stops.far, stops.near)
    if fmt.overflow == "never" or how.saturation is not Saturation.NONE:
        return codes
    return np.where(up & stops.past, beyond(fmt, stops.negative, stops.near), codes)


def beyond(fmt: Codebook, negative: Array, extreme: Array) -> Array:
    """Return what stands for infinity, by sign: that, else NaN, else the extreme value."""
    codes = np.asarray(extreme)
    for sign, name in ((False, "inf"), (True, "-inf")):
        found = _code_of(fmt, name)
        found = nan_code(fmt) if found is None else found
        if found is not None:
            codes = np.where(negative == sign, found, codes)
    return codes


def nan_code(fmt: Codebook) -> int | None:
    """Return the first code of a NaN, or None where there is none."""
    return _code_of(fmt, "nan")


def _code_of(fmt: Codebook, text: str) -> int | None:
    """Return the first code whose value prints so."""
    return next((code for code, value in enumerate(fmt.values) if str(value) == text), None)


def is_symmetric(fmt: Codebook) -> bool:
    """Return whether negatives of values are values, with the same thresholds and parities of codes.

    >>> is_symmetric(Codebook("ternary", [0, 1, float("nan"), -1]))
    True
    """
    book = _listed(fmt)
    if fmt.sign is Sign.UNSIGNED or fmt.ties in ("up", "down") or None in fmt.infinity_codes != (None, None):
        return False
    places = {value: code for value, code in zip(book.values, book.codes, strict=True)}
    alike = all(
        value == 0 or -value in places and (places[-value] - code) % 2 == 0 for value, code in places.items()
    )
    turned = [-each for each in reversed(book.thresholds)]
    return alike and turned == book.thresholds and (book.zeros[0] - book.zeros[1]) % 2 == 0
