"""The grid of a format by its primary parameters alone: which number each code stands for, and where a number lies.

This is the kit's own reading of what a `Format` says, in integers. It uses neither the properties of
`Format`, nor the oracle, nor a kernel, so that all of them can be judged by it.

Floor 5.

Notation:

    place    of a number on the grid: the magnitude at or below it, and how far it lies toward the next
    kind     of a place: EXACT, BELOW, TIE or ABOVE half of the gap
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lowprec.spec.format import Format, Sign

__all__ = ["ABOVE", "BELOW", "EXACT", "TIE", "Grid", "Place", "Places", "code_of", "grid_of", "listed", "nan_code"]

Array = npt.NDArray[Any]

EXACT, BELOW, TIE, ABOVE = range(4)


class Place(NamedTuple):
    """Where a positive number lies."""

    magnitude: int  #: at or below it, at most the largest; -1 below the smallest value of a format without zero
    kind: int
    beyond: bool  #: at the next magnitude of the continued grid, or farther


class Grid(NamedTuple):
    """Magnitudes and their values, in units of a power of two; continued by one past the largest."""

    last: int  #: magnitude of the largest finite value
    last_negative: int  #: on the negative side; -1 where there are no negative numbers
    unit: int  #: the exponent of the unit
    units: Callable[[int], int]  #: the value of a magnitude in units

    def value(self, magnitude: int) -> Fraction:
        """The value of a magnitude."""
        return Fraction(self.units(magnitude)) * Fraction(2) ** self.unit

    def place(self, size: Fraction, last: int | None = None) -> Place:
        """Where a number that is not negative lies."""
        end = self.last if last is None else last
        numerator, denominator = size.numerator << max(-self.unit, 0), size.denominator << max(self.unit, 0)
        magnitude = bisect_right(range(end + 2), numerator // denominator, key=self.units) - 1
        if magnitude < 0:
            return Place(-1, ABOVE, False)
        if magnitude > end:
            return Place(end, ABOVE, True)
        low, high = self.units(magnitude), self.units(magnitude + 1)
        twice, whole = 2 * (numerator - low * denominator), denominator * (high - low)
        kind = EXACT if twice == 0 else BELOW if twice < whole else TIE if twice == whole else ABOVE
        return Place(magnitude, kind, False)


class Places(NamedTuple):
    """Where many numbers lie, a number at each index."""

    values: npt.NDArray[np.float64]
    negative: npt.NDArray[np.bool_]
    magnitude: npt.NDArray[np.int64]
    kind: npt.NDArray[np.int64]
    beyond: npt.NDArray[np.bool_]
    last: npt.NDArray[np.int64]  #: the largest magnitude on the number's side

    @classmethod
    def of(cls, numbers: Sequence[float | Fraction], grid: Grid, values: Array | None = None) -> Places:
        """Of finite numbers, exactly; `values` are what to show for them."""
        shown = np.array([float(number) for number in numbers] if values is None else values, np.float64)
        negative = np.signbit(shown) | np.array([number < 0 for number in numbers], bool)
        lasts = np.where(negative & (grid.last_negative >= 0), grid.last_negative, grid.last)
        found = [grid.place(abs(Fraction(n)), int(last)) for n, last in zip(numbers, lasts, strict=True)]
        columns = np.array(found, np.int64).reshape(-1, 3).T
        return cls(shown, negative, columns[0], columns[1], columns[2].astype(bool), lasts)

    def take(self, where: Array) -> Places:
        """Only those that are marked."""
        return Places._make(column[where] for column in self)


def grid_of(fmt: Format) -> Grid:
    """The grid that the parameters of a format describe.

    >>> from lowprec.spec.catalog import E4M3FN
    >>> grid = grid_of(E4M3FN)
    >>> grid.last, grid.value(grid.last), grid.place(Fraction(17, 16))
    (126, Fraction(448, 1), Place(magnitude=56, kind=2, beyond=False))
    """
    t, w, bias = fmt.trailing_bits, fmt.exponent_bits, fmt.bias
    last = 2 ** (w + t) - fmt.nans - (1 if fmt.infinity else 0) - 1
    unit = (1 if fmt.subnormals else 0) - bias - t

    def units(magnitude: int) -> int:
        field, trailing = divmod(magnitude, 2**t)
        if w == 0:
            return magnitude
        if fmt.subnormals:
            return trailing if field == 0 else int((2**t + trailing) << (field - 1))
        return int((2**t + trailing) << field)

    one_more = fmt.sign is Sign.TWOS_COMPLEMENT
    return Grid(last, -1 if fmt.sign is Sign.UNSIGNED else last + one_more, unit, units)


def listed(values: Sequence[Fraction]) -> Grid:
    """The grid of values that are listed, from magnitude 0 on, continued by a gap as wide as the last."""
    denominator = max([value.denominator for value in values])
    units = [int(value * denominator) for value in values]
    units.append(2 * units[-1] - (units[-2] if len(units) > 1 else 0))
    last = len(values) - 1
    return Grid(last, last, 1 - denominator.bit_length(), units.__getitem__)


def code_of(magnitude: Array, negative: Array, fmt: Format) -> Array:
    """The codes of finite magnitudes with signs; of what an unsigned format cannot sign, NaN's or 0."""
    size = 2 ** (fmt.exponent_bits + fmt.trailing_bits)
    if fmt.sign is Sign.TWOS_COMPLEMENT:
        return np.where(negative, -magnitude % (2 * size), magnitude)
    if fmt.sign is Sign.MAGNITUDE:
        keeps = negative & (fmt.negative_zero | (magnitude > 0))
        return np.where(keeps, magnitude + size, magnitude)
    instead = nan_code(fmt, True) if fmt.nans else 0
    return np.where(negative & ((magnitude > 0) | (not fmt.subnormals)), instead, magnitude)


def nan_code(fmt: Format, negative: bool) -> int:
    """The code of NaN with a sign: quiet as in IEEE 754 where NaNs are those, else the top one."""
    size = 1 << (fmt.exponent_bits + fmt.trailing_bits)
    if not fmt.negative_zero:
        return size
    ieee = fmt.infinity and fmt.trailing_bits > 0 and fmt.nans == (1 << fmt.trailing_bits) - 1
    top = size - 1 if not ieee else size - (1 << (fmt.trailing_bits - 1))
    return top + size if negative and fmt.sign is Sign.MAGNITUDE else top
