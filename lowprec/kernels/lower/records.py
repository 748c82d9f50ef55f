"""Records of integers for scalar kernels and kernels in 64-bit lanes: to read codes, and to round to codes.

`lower.scalar` builds them from binary formats, `lower.codebook` from codebooks.

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

#: Sentinel of an operand that is refused. Wider than any code; as binary64 a signaling NaN, which no kernel
#: returns.
REFUSED = 0x7FF0000000000001


class Source(NamedTuple):
    """Parameters to read a code: 64-bit words, in the order of the array."""

    mask: Word  #: of the code's bits
    sign: Word  #: the sign's bit, or 0
    complement: Word  #: all ones where negative codes are two's complements, else 0
    not_a_zero: Word  #: all ones where the sign bit alone is NaN, else 0
    max_magnitude: Word  #: of finite codes
    infinity: Word  #: magnitude of infinity; all ones if there is none, as no magnitude is
    keeps_nan_sign: Word  #: 1 where the sign of a NaN counts
    quiet: Word  #: the bit that is clear in signaling NaNs; all ones if there are none
    trailing_bits: Word
    trailing_mask: Word  #: all ones where there is no exponent field
    field_mask: Word  #: 0 where there is no exponent field
    lowest: Word  #: the lowest exponent field whose significands have a leading one
    exponent: Signed  #: exponent of the significand's last bit, less the exponent field
    flush: Word  #: 1 where subnormal operands become zeros
    payload: Word  #: number of payload bits of a NaN


class Grid(NamedTuple):
    """Values of a target: the first words of its array."""

    mask: Word  #: of the code's bits
    trailing_bits: Word
    hidden: Word  #: the leading one, if the lowest exponent field has it too, else 0
    emin: Signed  #: exponent of the smallest normal value
    top: Signed  #: numbers of a larger exponent lie beyond the largest code and the tie after it
    tiny: Signed  #: numbers below this exponent may be tiny: emin, or -2**30 if none is
    surely: Signed  #: numbers below this exponent are tiny
    flush: Word  #: 1 where tiny results become zeros
    before: Word  #: where overflow is judged on the operand: 1 beyond the largest value, 2 from `top` on
    bits: Word  #: random bits, 0 for deterministic modes
    variant: Word  #: of a stochastic mode: 0 for A, 1 for B, 2 for C
    payload: Word  #: bits of a NaN operand's payload that are kept
    shared: Word  #: 1 where the code of the smallest value stands for zero, which ties with it round to
    rays: Word  #: 1 for a codebook, whose values follow (`lower.codebook`); 2 if 0 lies between two values


class Side(NamedTuple):
    """Results of operands of one sign: the array has the grid, the side of + and the side of -.

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
    carried: Word  #: NaN that an operand's payload is joined to; `nan` if no payload is kept
    negative_invalid: Word  #: flags: INVALID if the format has no code for such an operand, else 0
    zero_invalid: Word
    infinity_invalid: Word
    nan_invalid: Word
    first: Word  #: of a codebook, the word where the places of this sign begin


ONES = (1 << 64) - 1

#: Number of each stochastic variant's rule; 0 for A, and for hardware's, which have other random words only.
VARIANTS_BY_NUMBER = {"": 0, **dict.fromkeys(VARIANTS, 0), "B": 1, "C": 2}

#: Values of `Grid.before`, by `Projection.overflow_test`.
OVERFLOW_TESTS = {"after": 0, "before": 1, "exponent": 2}

#: Values of `Side.limit_even` and `limit_odd`, in units of 2**-64.
LIMITS = {
    Threshold.ANY: 0,
    Threshold.HALF_OR_ABOVE: (1 << 63) - 1,
    Threshold.ABOVE_HALF: 1 << 63,
    Threshold.NEVER: ONES,
}
