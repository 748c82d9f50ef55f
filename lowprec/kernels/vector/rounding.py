"""Round in vectors: the one place among the vector kernels where bits of a significand are discarded.

To a format by `nearest` and `limited`, which `convert` chooses by a plan's route; to odd on the way, so that
rounding again gives what rounding once does; and by primitives of `ir.rounding`, LLVM's own, which nothing
else imports. What the processor's addition, multiplication, division and square root of binary32 round is
the modules' business that name them: `arith` and `dot` say where that is exact, or meant.

Floor 2b. Imports numba through `jit`; never the oracle, which checks it. Source: [BOLDO] for rounding to odd.

Notation:

    word        a binary32 pattern, or the upper half of a binary64 pattern rounded to odd
    magnitude   the code without its sign; consecutive magnitudes are consecutive values
    tail        what rounding discards, in units of 2**-31 of the gap, below the parity in bit 31;
                where the parity does not matter, in units of 2**-32
"""

from __future__ import annotations

import numpy as np

from lowprec.kernels.jit import inlined
from lowprec.kernels.lower.vector import DRAWN, PARITY, SIGN, Encoder
from lowprec.kernels.vector.ir.lanes import (
    Lanes,
    Word,
    as_singles,
    as_words,
    choose,
    equal,
    fill,
    greater,
    less,
    lesser,
    negative,
    one_where,
)
from lowprec.kernels.vector.ir.numbers import (
    added_exact,
    added_once,
    made_odd,
    nearest_single,
    nearest_singles,
    summed_to_odd,
    three_to_odd,
    with_error,
)
from lowprec.kernels.vector.ir.rounding import (
    cut_short_sum,
    cut_sum,
    fma_to_odd,
    joined_sum,
    load_odd,
    narrowed_to_half,
    odd_sum,
    product_to_odd,
    quotient_to_odd,
    quotients,
    root_to_odd,
    sum_to_odd,
    truncated,
)

__all__ = [
    "LARGEST",
    "SMALL",
    "added_exact",
    "added_once",
    "cut_short_sum",
    "cut_sum",
    "fma_to_odd",
    "joined_sum",
    "limited",
    "load_odd",
    "made_odd",
    "narrowed_to_half",
    "nearest",
    "nearest_even",
    "nearest_single",
    "nearest_singles",
    "odd_sum",
    "power_field",
    "product_to_odd",
    "quotient_to_odd",
    "quotients",
    "root_to_odd",
    "shortened",
    "sum_to_odd",
    "summed_to_odd",
    "three_to_odd",
    "to_odd",
    "to_short",
    "truncated",
    "with_error",
]

_MAGNITUDE, _SIGN_BIT = 0x7FFFFFFF, 0x80000000

#: The largest finite binary32 number, which is odd, and 2**-100.
LARGEST, SMALL = 0x7F7FFFFF, 27 << 23

#: Upper halves of binary64 numbers, and binary32 numbers.
_INFINITY, _SHORT_INFINITY, _SHORT_NAN = 0x7FF00000, 0x7F800000, 0x7FC00000


# -- to a format -------------------------------------------------------------------------------------


@inlined
def nearest_even(word: Lanes, half: Word, shift: Word) -> Lanes:
    """Words shifted down, to nearest with ties to even; `half` is one below half of what is lost."""
    return (word + half + ((word >> shift) & 1)) >> shift


@inlined
def nearest(a: Lanes, f: Encoder) -> Lanes:
    """Magnitudes, to nearest with ties to even, of the words' magnitudes."""
    # One addition rounds to the place of the smallest subnormal; a carry makes the smallest normal.
    small = as_words(as_singles(a) + as_singles(fill(f.magic))) - f.magic
    return choose(less(a, f.first_normal), small, nearest_even(a, f.half, f.shift))


@inlined
def limited(word: Lanes, a: Lanes, random: Lanes, f: Encoder) -> Lanes:
    """Magnitudes: the farther one where the tail is above a limit, of the mode or drawn."""
    if f.deeper != 0:
        a = choose(less(a, 1 << f.fraction), a + a, a + (1 << f.fraction))
    field = a >> f.fraction
    if f.near != 0:
        field = greater(field, 1)
    significand = (a & ((1 << f.fraction) - 1)) | lesser(a, 1 << f.fraction)
    binade = greater(field, f.lowest)
    lost = binade - field + f.shift
    if f.limits == DRAWN:
        # In units of 2**-32 the tail fills a word; up where it is above 2**32 - 1 - R, with the
        # integer R in the upper bits of `random`. The highest bits are turned to compare as signed.
        shift = lesser(lost, 32)
        significand = significand >> lesser(lost - shift, 31)
        tail = (significand << (32 - shift)) ^ _SIGN_BIT
        limit = random ^ f.random_turn
        shift = lesser(shift, 31)
    else:
        # Below 2**-7 of a gap all tails but zero are alike to a mode, and `shift` may stop at 31.
        shift = lesser(lost, 31)
        tail = significand << (31 - shift)
        if f.one_bit != 0:
            tail = tail ^ ((binade + f.lowest + f.hidden) << 31)
        if f.limits == PARITY:
            limit = choose(negative(tail), f.odd, f.even)
        elif f.limits == SIGN:
            limit = choose(negative(word), f.even_negative, f.even)
            tail = tail & _MAGNITUDE
        else:
            even = choose(negative(word), f.even_negative, f.even)
            limit = choose(negative(tail), choose(negative(word), f.odd_negative, f.odd), even)
    up = one_where(less(limit, tail))
    magnitude = (significand >> shift) + up + (binade << f.trailing_bits) - f.rebase
    if f.no_zero != 0:
        magnitude = greater(magnitude, f.hidden) - f.hidden
    return magnitude


@inlined
def power_field(word: np.uint32, carry: np.uint32, fraction: np.uint32) -> np.uint32:
    """Return the exponent field of a power of two for a word: the next one from where `carry` makes it so."""
    return (word + carry) >> fraction


# -- to odd, and to fewer bits on the way ------------------------------------------------------------


@inlined
def to_odd(total: Lanes, error: Lanes) -> Lanes:
    """Return a number rounded to odd, from the nearest one and its rounding error."""
    inexact = lesser(error & _MAGNITUDE, 1)
    return (total - (inexact & ((total ^ error) >> 31))) | inexact


@inlined
def shortened(word: Lanes) -> Lanes:
    """Upper halves of binary64 numbers as binary32 ones; what is very large or small stays so, and is odd."""
    magnitude = word & _MAGNITUDE
    short = (magnitude - (896 << 20)) << 3
    short = choose(less(magnitude, 923 << 20), choose(equal(magnitude, 0), 0, SMALL | 1), short)
    large = choose(
        less(magnitude, _INFINITY), LARGEST, choose(equal(magnitude, _INFINITY), _SHORT_INFINITY, _SHORT_NAN)
    )
    return choose(less(magnitude, 1151 << 20), short, large) | (word & _SIGN_BIT)


@inlined
def to_short(word: Lanes) -> Lanes:
    """Binary32 numbers to 8 bits, as binary32 numbers."""
    return nearest_even(word, 0x7FFF, 16) << 16
