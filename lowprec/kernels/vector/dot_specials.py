"""Dot products with infinities and NaNs among the operands, where these alone decide the result.

A NaN in a row or column makes NaNs of all its outputs. Which one counts where several meet depends on the
order of the sum, but for its sign: so only positive NaNs are decided here, as those are that operations
generate. An infinity decides where no sum of numbers can overflow.

Floor 2b. Imports spec and NumPy.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.spec.accumulation import Accumulation, Rounded, Window
from lowprec.spec.format import Sign
from lowprec.spec.projection import Saturation

__all__ = ["decided"]

Array = npt.NDArray[Any]

#: Patterns of binary32 that results are made of.
_INFINITE, _NOT_A_NUMBER = 0x7F800000, 0x7FC00000

_SIGN = 0x80000000

#: The most products that binary32 counts one by one.
_COUNTED = 1 << 24


def decided(how: Accumulation, x: Array, y: Array, scales: list[Array], only_nans: bool) -> Array | None:
    """Return the outputs that special operands decide, as patterns of binary32; 0 elsewhere.

    None where none can be. `x` and `y` are patterns of binary32 too, shapes (rows, K) and (columns, K), and
    `scales` none, or the scales of the blocks of both. There is no addend.
    """
    places = _places(how)
    if not how.output[0].has_nan or not all(
        _keeps_nans(place) and not _makes_nans(place) for place in places
    ):
        return None
    sides = [x.view(np.float32), y.view(np.float32), *(side.view(np.float32) for side in scales)]
    nans = [np.isnan(side) for side in sides]
    if any((np.signbit(side) & nan).any() for side, nan in zip(sides, nans, strict=True)):
        return None
    rows, columns = (np.logical_or.reduce([nan.any(axis=1) for nan in nans[side::2]]) for side in (0, 1))
    made = np.where(rows[:, None] | columns, np.uint32(_NOT_A_NUMBER), np.uint32(0))
    if only_nans or scales or x.shape[1] > _COUNTED:
        return made
    infinite = [np.isinf(side).any(axis=1) for side in sides]
    if not np.concatenate(infinite).any() or not _stays_below(places, x, y):
        return made
    for side, some in enumerate(infinite):
        if some.any():
            chosen = [each[some] if number == side else each for number, each in enumerate(sides)]
            where = (some, slice(None)) if side == 0 else (slice(None), some)
            made[where] = np.where(made[where] == 0, _with_infinities(*chosen), made[where])
    return made


def _places(how: Accumulation) -> list[Rounded]:
    """Return the formats and rules that keep sums on the way to the output."""
    into = how.accumulator.result if isinstance(how.accumulator, Window) else how.accumulator
    return [place for place in (how.product, into, how.total) if place is not None]


def _keeps_nans(place: Rounded) -> bool:
    """Return whether every NaN becomes a NaN of the format, and a positive one a positive NaN."""
    fmt, rule = place
    infinity = fmt.infinity_code if fmt.payload_bits is not None else None
    named = rule.nan_code is None or (infinity is not None and infinity < rule.nan_code < fmt.sign_code)
    return bool(fmt.has_nan and named) and rule.nan_payload == "drop"


def _makes_nans(place: Rounded) -> bool:
    """Return whether a number can become a NaN, which counts before one of a later operand."""
    fmt, rule = place
    overflows = not fmt.infinity and rule.saturation is Saturation.NONE
    return overflows or not fmt.subnormals  # there is no zero


def _stays_below(places: list[Rounded], x: Array, y: Array) -> bool:
    """Return whether all formats keep both infinities, and no finite sum nears their largest number."""
    for fmt, rule in places:
        if not fmt.infinity or fmt.sign is not Sign.MAGNITUDE or rule.saturation is Saturation.FINITE:
            return False
    fields = [side & _INFINITE for side in (x, y)]
    exponents = [int(field.max(where=field != _INFINITE, initial=0) >> 23) - 126 for field in fields]
    largest = sum(exponents) + x.shape[1].bit_length() + 1
    return all(largest < fmt.emax for fmt, _ in places)


def _with_infinities(x: Array, y: Array) -> Array:
    """Infinite sums, and NaNs of those without a value, as patterns; 0 where no product is infinite."""
    signs, others = (np.nan_to_num(np.sign(side)) for side in (x, y))
    left, right = np.isinf(x), np.isinf(y)
    # Products of an infinity, and what else has one: each is counted once.
    pairs = [(signs * left, others), (signs * ~left, others * right)]
    total = sum(a @ b.T for a, b in pairs)
    count = sum(np.abs(a) @ np.abs(b).T for a, b in pairs)
    nothing = left.astype(np.float32) @ (y == 0).T + (x == 0).astype(np.float32) @ right.T
    infinite = np.where(total < 0, np.uint32(_SIGN | _INFINITE), np.uint32(_INFINITE))
    valid = np.where(count > 0, infinite, np.uint32(0))
    return np.where((nothing > 0) | (np.abs(total) != count), np.uint32(_NOT_A_NUMBER), valid)
