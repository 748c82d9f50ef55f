"""Flags by definition: what a conversion signals, from the operand and the value that it delivers.

Floor 2a. Imports spec and the standard library.
"""

from __future__ import annotations

from lowprec.oracle import codebook
from lowprec.oracle.convert import (
    check,
    check_operand,
    decode,
    flushed_operand,
    is_flushed,
    is_tiny,
    largest_magnitude,
    project,
    round_magnitude,
    value_of,
)
from lowprec.oracle.exact import Exact, Special, is_negative
from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Format, Sign
from lowprec.spec.projection import DEFAULT, Flag, Projection

__all__ = ["flags", "is_signaling"]


def is_signaling(code: int, fmt: Format) -> bool:
    """Return whether a code is a signaling NaN: quiet bit clear, in a format that has that bit.

    >>> from lowprec.spec.catalog import BINARY16, E4M3FN
    >>> is_signaling(0x7C01, BINARY16), is_signaling(0x7E00, BINARY16), is_signaling(0x7F, E4M3FN)
    (True, False, False)

    Source: [IEEE754] 6.2.1.
    """
    if fmt.quiet_bit is None:
        return False
    if code == fmt.sign_code and not fmt.negative_zero:  # the NaN in the place of -0 is quiet
        return False
    is_nan = decode(code, fmt) in (Special.NAN, Special.NEGATIVE_NAN)
    return is_nan and not code & fmt.quiet_bit


def flags(
    value: Exact,
    fmt: Format,
    projection: Projection = DEFAULT,
    *,
    random: int | None = None,
    subnormal_operand: bool = False,
    signaling: bool = False,
) -> int:
    """Return the flags that the conversion of a number raises, as bits of `Flag`.

    ========= ==========================================================================================
    flag      signalled for
    ========= ==========================================================================================
    inexact   a finite operand that is not delivered as it is, and every overflow
    underflow an inexact result that is tiny (`Projection.tininess`); without zero, below the smallest
    overflow  a finite operand that, rounded with an unbounded exponent, exceeds the extreme finite value,
              for every result
    invalid   a signaling NaN, and an operand that the format has no counterpart for: a NaN, an infinity,
              a zero, or a negative number that does not round to zero; it is signalled alone, but for
              the inexact of an operand that is flushed
    ========= ==========================================================================================

    An operand that is flushed signals inexact, and what its zero signals. With `Projection.via`,
    every stage adds its flags.

    >>> from fractions import Fraction
    >>> from lowprec.spec.catalog import E4M3FN
    >>> Flag(flags(Fraction(449), E4M3FN)), Flag(flags(Fraction(465), E4M3FN))
    (<Flag.INEXACT: 1>, <Flag.INEXACT|OVERFLOW: 5>)

    Parameters
    ----------
    value, fmt, projection, random, subnormal_operand
        As of `project`. A refusal by `Projection.nan` or `Projection.negative` is an invalid
        operation here, not an error.
    signaling : bool
        The operand is a signaling NaN.

    Raises ValueError: a random integer or a `nan_code` that `project` refuses.

    Source: [IEEE754] 7.
    """
    check(fmt, projection, random)
    check_operand(value)
    operand = flushed_operand(value, projection, subnormal_operand)
    signals = 0 if operand == value else int(Flag.INEXACT)
    if signaling:
        signals |= Flag.INVALID
    for stop in projection.via:
        signals |= _flags(operand, stop, DEFAULT, None)
        if operand in (Special.NAN, Special.NEGATIVE_NAN) and not stop.has_nan:
            return signals  # `project` refuses it.
        operand = decode(project(operand, stop), stop)
    return signals | _flags(operand, fmt, projection, random)


def _flags(value: Exact, fmt: Format, projection: Projection, random: int | None) -> int:
    """Return the flags of the last stage."""
    negative = is_negative(value)
    if isinstance(fmt, Codebook):
        return codebook.flags(value, negative, fmt, projection, random)
    if isinstance(value, Special) and value is not Special.NEGATIVE_ZERO:
        if value in (Special.NAN, Special.NEGATIVE_NAN):
            return 0 if fmt.has_nan else int(Flag.INVALID)
        has_counterpart = fmt.infinity and not (negative and fmt.sign is Sign.UNSIGNED)
        return 0 if has_counterpart else int(Flag.INVALID)
    if value is Special.NEGATIVE_ZERO or value == 0:
        return 0 if fmt.subnormals else int(Flag.INVALID)

    size = abs(value)
    last = largest_magnitude(negative, fmt, projection)
    magnitude = round_magnitude(size, last, negative, fmt, projection, random)
    overflows = magnitude > last or size >= value_of(last + 1, fmt)
    grid = projection.grid_of(fmt)
    tiny = is_tiny(size, negative, grid, projection, random)
    flushed = tiny and magnitude <= last and is_flushed(fmt, projection)
    becomes_zero = fmt.subnormals and (magnitude == 0 or flushed)
    if negative and fmt.sign is Sign.UNSIGNED and not becomes_zero:
        return int(Flag.INVALID)
    if overflows:
        return int(Flag.OVERFLOW | Flag.INEXACT)
    delivered = 0 if becomes_zero else value_of(magnitude, grid)
    if delivered == size:
        return 0
    return int(Flag.UNDERFLOW | Flag.INEXACT if tiny else Flag.INEXACT)
