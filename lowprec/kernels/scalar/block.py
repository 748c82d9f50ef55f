"""Quotients of 64 bits, one at a time, in integers: elements of blocks where lanes are not exact.

Floor 2b. Imports numba through `jit`; never the oracle, which checks it.

Notation, beside that of `general.scales`:

    to odd    the last bit is set where anything is lost below: projecting that projects the exact number
"""

from __future__ import annotations

import numpy as np

from lowprec.kernels.general.scales import normalized
from lowprec.kernels.jit import helper
from lowprec.kernels.scalar.rounding import odd

__all__ = ["quotient"]

Number = tuple[np.uint64, np.int64]

_U = np.uint64
_I = np.int64
_0, _1, _16 = _U(0), _U(1), _U(16)
_TOP = _U(1 << 63)


@helper
def quotient(over: np.uint64, over_exponent: np.int64, by: np.uint64, by_exponent: np.int64) -> Number:
    """Divide numbers; normalized, and rounded to odd. Over 0 it is 0."""
    if over == _0 or by == _0:
        return _0, _I(0)
    over, over_exponent = normalized(over, over_exponent)
    lead, lead_exponent = normalized(by, by_exponent)
    exponent = over_exponent - lead_exponent - _I(63)
    if lead == _TOP:
        return over, exponent
    if over >= lead:
        rest = over - lead
    else:
        rest, exponent = over + over - lead, exponent - _I(1)
    by = lead >> _U(32)
    if by << _U(32) == lead:  # the first bit of the quotient is 1; 32 and 31 more by a division each
        word = _TOP | (rest // by) << _U(31)
        rest = (rest % by) << _U(31)
    elif lead << _U(48) != _0:  # bit by bit
        word = _TOP
        for place in range(62, -1, -1):
            carry, rest = rest >> _U(63), rest << _1
            if carry != _0 or rest >= lead:
                rest -= lead
                word |= _1 << _U(place)
        return odd(word, rest != _0), exponent
    else:  # the first bit is 1; 16, 16, 16 and 15 more by a division each
        by = lead >> _16
        word = _TOP | (rest // by) << _U(47)
        rest = (rest % by) << _16
        word |= (rest // by) << _U(31)
        rest = (rest % by) << _16
        word |= (rest // by) << _U(15)
        rest = (rest % by) << _U(15)
    word |= rest // by
    return odd(word, rest % by != _0), exponent
