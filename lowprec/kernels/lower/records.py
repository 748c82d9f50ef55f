"""Records of integers that scalar kernels read: how to read codes, and what to do with numbers.

`lower.scalar` makes them of binary formats, `lower.codebook` of codebooks.

Floor 2b. Imports spec and NumPy.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lowprec.spec.rounding import VARIANTS, Threshold

__all__ = [
    "LIMITS",
    "ONES",
    "OVERFLOW_TESTS",
    "REFUSED",
    "VARIANTS_BY_NUMBER",
    "Grid",
    "Params",
    "Side",
    "Signed",
    "Source",
    "Word",
]

Params = npt.NDArray[np.uint64]

#: A Python integer while lowering; a word of an array, as an unsigned or a signed integer, in a kernel.
Word = Any
Signed = Annotated[Any, "signed"]

#: Stands in the place of a code where the projection refuses the operand: more than 32 bits, and as binary64
#: a signaling NaN, which no kernel makes of anything.
REFUSED = 0x7FF0000000000001


class Source(NamedTuple):
    """Parameters to read a code: 64-bit words, in the order of the array."""

    mask: Word  #: of the code's bits
    sign: Word  #: the sign's bit, or 0
    complement: Word  #: all ones where negative codes are two's complements, else 0
    not_a_zero: Word  #: all ones where the sign bit alone is NaN, else 0
    max_magnitude: Word  #: of finite codes
    infinity: (
        Word  #: magnitude of infinity; all ones, which no magnitude past the largest is, where there is none
    )
    keeps_nan_sign: Word  #: 1 where the sign of a NaN counts
    quiet: Word  #: the bit of a NaN that is clear in signaling ones, or all ones
    trailing_bits: Word
    trailing_mask: Word  #: all ones where there is no exponent field
    field_mask: Word  #: 0 where there is no exponent field
    lowest: Word  #: the lowest exponent field that has a leading one
    exponent: Signed  #: of the last bit of the significand is this plus the field
    flush: Word  #: 1 where subnormal operands become zeros
    payload: Word  #: bits of a NaN below its quiet bit, where it has such


class Grid(NamedTuple):
    """Values of a target: the first words of its array."""

    mask: Word  #: of the code's bits
    trailing_bits: Word
    hidden: Word  #: what to take off where the lowest exponent field has a leading one too, else 0
    emin: Signed
    top: Signed  #: values of a larger exponent lie beyond every finite code and its tie
    tiny: Signed  #: the exponent below which values may be tiny: emin, or none
    surely: Signed  #: and the one below which they are
    flush: Word  #: 1 where tiny results become zeros
    before: Word  #: where overflow is judged on the operand: 1 beyond the largest value, 2 from `top` on
    bits: Word  #: random bits, 0 for deterministic modes
    variant: Word  #: of a stochastic mode: 0 for A, 1 for B, 2 for C
    payload: Word  #: bits of a NaN operand's payload that are kept
    shared: Word  #: 1 where the smallest value counts as zero, and a tie with it is one
    rays: Word  #: 1 where values are a codebook's, whose places follow (`codebook`); 2 if 0 lies between two


class Side(NamedTuple):
    """Results of operands of one sign: the words after the grid for +, those after them for -.

    A magnitude m becomes (base + step * m) & mask, except for 0, which becomes `rounded_zero`.
    """

    max_magnitude: Word
    limit_even: Word  #: the farther code is taken where the tail, in units of 2**-64, is above this
    limit_odd: Word
    base: Word
    step: Word
    rounded_zero: Word
    zero: Word
    overflow: Word
    infinity: Word
    nan: Word
    carried: Word  #: a NaN operand, where its payload is kept: that joins it; else the same as `nan`
    negative_invalid: Word  #: flags: INVALID where the format has no counterpart for such an operand, else 0
    zero_invalid: Word
    infinity_invalid: Word
    nan_invalid: Word
    first: Word  #: of a codebook, the word where the places of this sign begin


ONES = (1 << 64) - 1

#: Stochastic variants with a rule of their own; of the others only the random words are made otherwise.
VARIANTS_BY_NUMBER = {"": 0, **dict.fromkeys(VARIANTS, 0), "B": 1, "C": 2}

OVERFLOW_TESTS = {"after": 0, "before": 1, "exponent": 2}

LIMITS = {
    Threshold.ANY: 0,
    Threshold.HALF_OR_ABOVE: (1 << 63) - 1,
    Threshold.ABOVE_HALF: 1 << 63,
    Threshold.NEVER: ONES,
}
