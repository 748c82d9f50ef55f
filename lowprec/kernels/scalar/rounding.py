"""Round in integers: the one place among the scalar kernels where bits of a significand are discarded.

A significand is shifted down, and what falls off either decides how it is rounded (`split` and
`takes_farther`), or leaves a mark in the last bit that is kept, which is rounding to odd: rounding such
a number to at least two bits fewer is rounding the exact one.

Floor 2b. Imports numba through `jit`; never the oracle, which checks it. Source: [BOLDO] for rounding to odd.

Notation, beside IEEE 754-2019 clause 3.3 and the P3109 draft's RoundToPrecision:

    tail    what rounding discards, in units of 2**-64 of the gap, never rounded down to 0
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lowprec.kernels.general.rounding import drawn_limit
from lowprec.kernels.jit import inlined
from lowprec.kernels.lower.kinds import CUT_DOWN
from lowprec.kernels.lower.scalar import Grid, Side

__all__ = [
    "cut",
    "cut_payload",
    "halved",
    "limit_after",
    "odd",
    "shifted_down",
    "split",
    "takes_farther",
    "to_nearest_even",
    "to_power",
]

_U = np.uint64
_I = np.int64
_0, _1, _63 = _U(0), _U(1), _U(63)
_TOP = _U(1 << 63)


# -- to a mode ---------------------------------------------------------------------------------------


@inlined
def split(significand: np.uint64, low: np.uint64, shift: np.int64) -> tuple[np.uint64, np.uint64]:
    """Split a number of 128 bits at bit `shift` of its upper half: what lies above, and the tail below."""
    if shift <= _I(0):  # never of a significand that fills 64 bits
        return significand << _U(-shift), _0
    if shift < _I(64):
        tail = significand << _U(_I(64) - shift) | low >> _U(shift)
        return significand >> _U(shift), odd(tail, low << _U(_I(64) - shift) != _0)
    below = _U(min(shift - _I(64), _I(63)))
    tail = significand >> below
    return _0, odd(tail, tail << below != significand or low != _0)


@inlined
def limit_of(odd_code: np.uint64, side: Side) -> np.uint64:
    """Return the tail above which a deterministic mode goes farther. No branch: half would mispredict."""
    return (side.limit_odd & (_0 - odd_code)) | (side.limit_even & (odd_code - _1))


@inlined
def limit_after(magnitude: np.uint64, grid: Grid, side: Side) -> np.uint64:
    """Return the limit between a magnitude and the next. A tie with a least value that counts as 0 is 0."""
    limit = limit_of(magnitude & _1, side)
    if grid.shared != _0 and magnitude == _0 and limit == _TOP - _1:
        limit = _TOP
    return limit


@inlined
def takes_farther(tail: np.uint64, odd_code: np.uint64, random: np.uint64, grid: Grid, side: Side) -> bool:
    """Return whether the farther of two codes is taken; `odd_code` is 1 if the nearer one is odd, else 0."""
    return bool(tail > (limit_of(odd_code, side) if grid.bits == _0 else drawn_limit(random, grid)))


@inlined
def to_nearest_even(significand: np.uint64, shift: np.int64) -> np.uint64:
    """Shift a significand down, to nearest with ties to even."""
    kept, tail = split(significand, _0, shift)
    return kept + _U(tail > _TOP or (tail == _TOP and kept & _1 != _0))


@inlined
def cut(negative: bool, significand: np.uint64, shift: np.int64, by: Any) -> np.int64:
    """Cut a significand to units of its bit `shift`, with a sign: toward zero, or down."""
    if shift <= _I(0):
        size = _I(significand << _U(-shift))
        return -size if negative else size
    kept, lost = _0, significand != _0
    if shift < _I(64):
        kept = significand >> _U(shift)
        lost = kept << _U(shift) != significand
    size = _I(kept) + _I(lost and negative and by == CUT_DOWN)
    return -size if negative else size


@inlined
def to_power(significand: np.uint64, exponent: np.int64, above: np.uint64) -> np.int64:
    """Return the exponent of the power of two for a normalized number: the next one if above a limit."""
    return exponent + _I(significand > above)


# -- to odd ------------------------------------------------------------------------------------------


@inlined
def odd(word: np.uint64, inexact: bool) -> np.uint64:
    """Set the last bit of a word where anything is lost below it."""
    return word | _U(inexact)


@inlined
def shifted_down(high: np.uint64, low: np.uint64, shift: np.int64) -> tuple[np.uint64, np.uint64, np.uint64]:
    """Three words of a number of two, shifted down and rounded to odd."""
    if shift == _I(0):
        return high, low, _0
    if shift < _I(64):
        up, down = _U(_I(64) - shift), _U(shift)
        return high >> down, high << up | low >> down, low << up
    if shift == _I(64):
        return _0, high, low
    if shift < _I(128):
        up, down = _U(_I(128) - shift), _U(shift - _I(64))
        return _0, high >> down, odd(high << up | low >> down, low << up != _0)
    if shift < _I(192):
        down = _U(shift - _I(128))
        third = high >> down
        return _0, _0, odd(third, third << down != high or low != _0)
    return _0, _0, _1


@inlined
def halved(high: np.uint64, low: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Half of a number of 129 bits, whose first bit is set and not in `high`, rounded to odd."""
    return high >> _1 | _TOP, odd(high << _63 | low >> _1, low & _1 != _0)


# -- payloads of NaNs --------------------------------------------------------------------------------


@inlined
def cut_payload(payload: np.uint64, bits: np.uint64) -> np.uint64:
    """Return the upper bits of a NaN's payload, which fills its word from bit 63 down."""
    return (payload >> _1) >> (_63 - bits)
