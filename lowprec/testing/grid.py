"""Values of a format by its parameters alone: which number each code stands for, and where others lie.

This is the kit's own reading of a `Format`, in integers. It uses neither the properties of `Format`, nor the
oracle, nor a kernel, so that all of them can be judged by it.

Notation:

    magnitude    a code without its sign; magnitudes 0, 1, 2, ... stand for growing values
    place        of a number: the magnitude at or below it, and how far it lies toward the next
    kind         of a place: EXACT on a magnitude, else BELOW, TIE or ABOVE the middle of the gap
"""

from __future__ import annotations

import functools
import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Format, Sign

Array = npt.NDArray[Any]

EXACT, BELOW, TIE, ABOVE = range(4)


class Position(NamedTuple):
    """Position of a number that is not negative."""

    magnitude: (
        int  #: at or below it, at most the largest; -1 below the smallest value of a format without zero
    )
    kind: int
    beyond: bool  #: at the magnitude after the largest, on the grid continued by one, or farther


class Grid(NamedTuple):
    """Magnitudes and their values, in units of a power of two; continued by one past the largest."""

    last: int  #: magnitude of the largest value
    last_negative: int  #: of the most negative one; -1 where there are no negative numbers
    unit: int  #: the exponent of the unit
    units: Callable[[int], int]  #: the value of a magnitude in units

    def value(self, magnitude: int) -> Fraction:
        """Return the value of a magnitude."""
        units = self.units(magnitude)
        return Fraction(units << self.unit) if self.unit >= 0 else Fraction(units, 1 << -self.unit)

    def number(self, magnitude: int) -> float:
        """Return the same as a float64; infinity past the largest."""
        try:
            return float(self.value(magnitude))
        except OverflowError:
            return np.inf

    def place(self, size: Fraction, last: int | None = None) -> Position:
        """Return where a number that is not negative lies; `last` is the largest magnitude on its side."""
        end = self.last if last is None else last
        numerator, denominator = size.numerator << max(-self.unit, 0), size.denominator << max(self.unit, 0)
        magnitude = bisect_right(range(end + 2), numerator // denominator, key=self.units) - 1
        if magnitude < 0:
            return Position(-1, ABOVE, False)
        if magnitude > end:
            return Position(end, ABOVE, True)
        low, high = self.units(magnitude), self.units(magnitude + 1)
        twice, whole = 2 * (numerator - low * denominator), denominator * (high - low)
        kind = EXACT if twice == 0 else BELOW if twice < whole else TIE if twice == whole else ABOVE
        return Position(magnitude, kind, False)


class Positions(NamedTuple):
    """Positions of many numbers, a number at each index."""

    values: npt.NDArray[np.float64]  #: the numbers; only their signs are right where they are no float64s
    negative: npt.NDArray[np.bool_]
    magnitude: npt.NDArray[np.int64]
    kind: npt.NDArray[np.int64]
    beyond: npt.NDArray[np.bool_]
    last: npt.NDArray[np.int64]  #: the largest magnitude on the number's side

    @classmethod
    def of(cls, numbers: Sequence[float | Fraction], grid: Grid) -> Positions:
        """Find the places of finite numbers, exactly."""
        values = np.array([nearest(number) for number in numbers], np.float64)
        negative = np.signbit(values)
        lasts = np.where(negative & (grid.last_negative >= 0), grid.last_negative, grid.last)
        found = [grid.place(abs(Fraction(n)), int(last)) for n, last in zip(numbers, lasts, strict=True)]
        columns = np.array(found, np.int64).reshape(-1, 3).T
        return cls(values, negative, columns[0], columns[1], columns[2].astype(bool), lasts)

    def take(self, where: Array) -> Positions:
        """Return only those that are marked."""
        return Positions._make(column[where] for column in self)


def nearest(number: float | Fraction) -> float:
    """Return the float64 next to a number, of its sign, and no infinity."""
    if isinstance(number, float):
        return number
    try:
        return float(number) or (-0.0 if number < 0 else 0.0)
    except OverflowError:
        return -np.finfo(float).max if number < 0 else np.finfo(float).max


def grid_of(fmt: Format) -> Grid:
    """Return the grid that the parameters of a format describe.

    >>> from lowprec.spec.catalog import E4M3FN
    >>> grid = grid_of(E4M3FN)
    >>> grid.last, grid.value(grid.last), grid.place(Fraction(17, 16))
    (126, Fraction(448, 1), Position(magnitude=56, kind=2, beyond=False))
    """
    t, w, bias = fmt.trailing_bits, fmt.exponent_bits, fmt.bias
    last = 2 ** (w + t) - fmt.nans - (1 if fmt.infinity else 0) - 1

    def units(magnitude: int) -> int:
        field, trailing = divmod(magnitude, 2**t)
        if w == 0:
            return magnitude
        if fmt.subnormals:
            return trailing if field == 0 else int((2**t + trailing) << (field - 1))
        return int((2**t + trailing) << field)

    one_more = fmt.sign is Sign.TWOS_COMPLEMENT
    last_negative = -1 if fmt.sign is Sign.UNSIGNED else last + one_more
    return Grid(last, last_negative, (1 if fmt.subnormals else 0) - bias - t, units)


def takes_farther(mode: str, odd: Array, negative: Array, kind: Array, ties: str = "even") -> Array:
    """Return whether a deterministic mode takes the code away from zero, of numbers between two.

    `odd` is the parity of the nearer code, and `ties` what `nearest_even` does at ties.
    """
    never, always = np.zeros_like(odd), np.ones_like(odd)
    rules = {"nearest_even": ties, "nearest_away": "away", "nearest_zero": "zero"}
    if mode in rules:
        at = {"even": odd, "away": always, "zero": never, "up": ~negative, "down": negative}[rules[mode]]
        return np.asarray((kind == ABOVE) | ((kind == TIE) & at))
    taken = {
        "toward_zero": never,
        "away_from_zero": always,
        "toward_positive": ~negative,
        "toward_negative": negative,
        "to_odd": ~odd,
    }
    return np.asarray((kind != EXACT) & taken[mode])


def largest(fmt: Format) -> Fraction:
    """Return the largest finite value of a format.

    >>> from lowprec.spec.catalog import E4M3FN
    >>> largest(E4M3FN)
    Fraction(448, 1)
    """
    if isinstance(fmt, Codebook):
        return max(Fraction(value) for value in fmt.values if math.isfinite(value))
    grid = grid_of(fmt)
    return grid.value(grid.last)


def listed(values: Sequence[Fraction]) -> Grid:
    """Return the grid of values that are listed, from magnitude 0 on, continued by a gap as wide as the last.

    >>> grid = listed([Fraction(0), Fraction(1, 2), Fraction(2)])
    >>> grid.place(Fraction(5, 4)), grid.value(3)
    (Position(magnitude=1, kind=2, beyond=False), Fraction(7, 2))
    """
    unit = min(1 - value.denominator.bit_length() for value in values)
    units = [value.numerator * (1 << -unit) // value.denominator for value in values]
    units.append(2 * units[-1] - (units[-2] if len(units) > 1 else 0))
    last = len(values) - 1
    return Grid(last, last, unit, units.__getitem__)


# -- codes -------------------------------------------------------------------------------------------


def values_of(codes: Array, fmt: Format) -> npt.NDArray[np.float64]:
    """Return the values of codes, NaNs with their signs.

    >>> from lowprec.spec.catalog import E4M3FNUZ
    >>> values_of(np.array([0x7F, 0x80, 0xFF]), E4M3FNUZ)
    array([ 240.,   nan, -240.])
    """
    codes = np.asarray(codes, np.int64)
    if isinstance(fmt, Codebook):
        return np.array(fmt.values)[codes]
    return _table(fmt)[codes] if fmt.width <= 16 else _values(codes, fmt)


@functools.lru_cache(maxsize=64)
def _table(fmt: Format) -> npt.NDArray[np.float64]:
    """Return the value of every code of a format of at most 16 bits."""
    return _values(np.arange(1 << fmt.width), fmt)


def _values(codes: Array, fmt: Format) -> npt.NDArray[np.float64]:
    grid, size = grid_of(fmt), 1 << (fmt.exponent_bits + fmt.trailing_bits)
    negative = (codes >= size) & (fmt.sign is not Sign.UNSIGNED)
    magnitude = np.where(negative, codes - size, codes)
    if fmt.sign is Sign.TWOS_COMPLEMENT:
        magnitude = np.where(negative, 2 * size - codes, codes)
    values = np.full(codes.shape, np.nan)
    inside = magnitude <= np.where(negative, grid.last_negative, grid.last)
    values[inside] = [grid.number(each) for each in magnitude[inside].tolist()]
    if fmt.infinity:
        values[magnitude == grid.last + 1] = np.inf
    if fmt.sign is Sign.MAGNITUDE and not fmt.negative_zero:
        values[codes == size] = np.nan
        negative &= ~np.isnan(values)  # NaNs have no sign there
    return np.where(negative, -values, values)


def code_of(magnitude: Array, negative: Array, fmt: Format) -> Array:
    """Return the codes of signed finite magnitudes; NaN's, else 0, of negative ones in unsigned formats."""
    size = 2 ** (fmt.exponent_bits + fmt.trailing_bits)
    if fmt.sign is Sign.TWOS_COMPLEMENT:
        return np.where(negative, -magnitude % (2 * size), magnitude)
    if fmt.sign is Sign.MAGNITUDE:
        keeps = negative & (fmt.negative_zero | (magnitude > 0))
        return np.where(keeps, magnitude + size, magnitude)
    instead = nan_code(fmt, True) if fmt.nans else 0
    return np.where(negative & ((magnitude > 0) | (not fmt.subnormals)), instead, magnitude)


def nan_code(fmt: Format, negative: bool) -> int:
    """Return the code of NaN with a sign: quiet as in IEEE 754 where NaNs are those, else the top one."""
    if isinstance(fmt, Codebook):
        return next(code for code, value in enumerate(fmt.values) if value != value)
    size = 1 << (fmt.exponent_bits + fmt.trailing_bits)
    if not fmt.negative_zero:
        return size
    ieee = fmt.infinity and fmt.trailing_bits > 0 and fmt.nans == (1 << fmt.trailing_bits) - 1
    top = size - 1 if not ieee else size - (1 << (fmt.trailing_bits - 1))
    return top + size if negative and fmt.sign is Sign.MAGNITUDE else top
