"""Remainders in 64-bit lanes: a dividend is taken modulo its divisor, 50 digits of the quotient at a time.

Floor 2b. Imports numba through `jit`; never the oracle, which checks it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lowprec.kernels.general.numbers import CHUNK, pick, read
from lowprec.kernels.general.quotients import as_53_bits, as_integer, corrected
from lowprec.kernels.jit import helper, in_wide_vectors, inlined
from lowprec.kernels.lower.records import Source

__all__ = ["fold"]

_U = np.uint64
_I = np.int64
_0, _1, _52, _63, _BIAS = _U(0), _U(1), _U(52), _U(63), _U(1023)
_LOW = _U((1 << 63) - 1)

#: Digits of a quotient that are found at a time.
_STEP = 50


@inlined
def step(rest: np.uint64, up: np.uint64, b: np.uint64) -> np.uint64:
    """Return 2**up times a rest modulo b, and in bit 63 whether the quotient is odd; at most 50 bits up."""
    near = np.divide(np.float64(_I(rest)), np.float64(_I(b))) * _U((_BIAS + up) << _52).view(np.float64)
    digits, rest = corrected(as_integer(near), rest << up, b)
    return rest | digits << _63


@helper
def fold(words: Any, size: int, x_source: Source, y_source: Source, usual: bool) -> None:
    """Write x modulo y, magnitudes, to the third row of words, and to bit 63 whether the quotient is odd.

    The unit is that of y's 53 bits. Where x reaches lower than that, or one is no number or y zero, the word
    counts for nothing. The fourth and the fifth row hold what further steps need.
    """
    in_wide_vectors()
    farthest = _I(0)
    for i in range(size):
        x, y = read(words[i], x_source, usual), read(words[_U(CHUNK + i)], y_source, usual)
        a, exponent = as_53_bits(x.significand, x.exponent)
        b, unit = as_53_bits(y.significand, y.exponent)
        counts = (x.significand != _0) & (y.significand != _0)
        counts &= not (x.infinite | y.infinite | x.nan | y.nan)
        left = pick(counts, max(exponent - unit, _I(0)), _I(0))
        up = min(left, _I(_STEP))
        words[_U(2 * CHUNK + i)] = step(a, _U(up), b)
        words[_U(3 * CHUNK + i)] = _U(left - up)
        words[_U(4 * CHUNK + i)] = b
        farthest = max(farthest, left)
    for _ in range(_STEP, farthest, _STEP):
        for i in range(size):
            before, left = words[_U(2 * CHUNK + i)], words[_U(3 * CHUNK + i)]
            up = min(left, _U(_STEP))
            after = step(before & _LOW, up, words[_U(4 * CHUNK + i)])
            words[_U(2 * CHUNK + i)] = pick(up == _0, before, after)
            words[_U(3 * CHUNK + i)] = left - up
