"""A format and how numbers are rounded to it: the places of an accumulation that are rounded.

Floor 1. Imports the standard library only.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lowprec.spec import formats
from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Carrier, Format
from lowprec.spec.projection import Projection, Saturation
from lowprec.spec.rounding import NEAREST_EVEN, Rounding

Rounded = tuple[Format, Projection]
#: What stands for one: a format, rounded to nearest even, or a format and a mode; all of them by name too.
RoundedLike = Rounded | Format | str | tuple[Format | str, Projection | Rounding | str]


def rounded(name: str, given: object) -> Any:
    """Return the (Format, Projection) that names in its place stand for; anything else as it is.

    >>> print(*rounded("output", ("binary32", "toward_zero")), sep="; ")
    binary32; toward_zero, saturation none

    Raises ValueError: an unknown name; the message begins with the place's.
    """
    pair = (given, Projection()) if isinstance(given, (str, Format)) else given
    if not isinstance(pair, tuple) or len(pair) != 2:
        return given
    fmt, how = pair
    try:
        if isinstance(fmt, str):
            fmt = formats.carrier(fmt) or formats.find(fmt)
        if isinstance(how, (str, Rounding)):
            how = Projection(rounding=how)
    except ValueError as error:
        raise ValueError(f"{name} of an accumulation: {error}") from None
    return fmt, how


def check_begins(name: str, fmt: Format, *, aligns: bool = False) -> None:
    """Refuse a running sum in a format without zero, and an aligned one in a format without exponents."""
    if not fmt.subnormals:
        raise ValueError(
            f"{name}={fmt.name!r} of an accumulation has no zero, which a sum begins with; use another"
        )
    if aligns and (isinstance(fmt, Codebook) or not fmt.exponent_bits):
        raise ValueError(
            f"{name}={fmt.name!r} of an accumulation lacks exponents, by which a window aligns; use another"
        )


def check_rounded(name: str, given: object, *, accumulates: bool = False) -> None:
    """Refuse all but (Format, Projection); float64 is for sums only, to nearest."""
    if (
        not isinstance(given, tuple)
        or len(given) != 2
        or not isinstance(given[0], Format)
        or not isinstance(given[1], Projection)
    ):
        raise TypeError(f"{name} of an accumulation must be (Format, Projection), not {given!r}")
    fmt, how = given
    if accumulates:
        check_begins(name, fmt)
    if isinstance(fmt, Carrier):
        if not accumulates or not fmt.exponent_bits:
            raise ValueError(
                f"{name} of an accumulation cannot be {fmt.name!r}: it is a type that values come in"
            )
        if how.rounding != NEAREST_EVEN or how != Projection():
            raise ValueError(f"{name} in {fmt.name!r} is rounded as the processor does: use Projection()")
    elif fmt.nan_code is None and how.nan == "error":
        raise ValueError(f"{name} in {fmt.name!r}, which has no NaN, needs Projection(nan=...)")
    elif how.negative == "error":
        raise ValueError(
            f"{name} of an accumulation cannot refuse negative numbers: use another Projection(negative=...)"
        )
    elif how.nan_code is not None and how.nan_code >= 1 << fmt.width:
        raise ValueError(
            f"{name} in {fmt.name!r} has codes 0 to {(1 << fmt.width) - 1:#x}: "
            f"Projection(nan_code={how.nan_code:#x}) is none"
        )
    elif how.lacks_nan(fmt):
        raise ValueError(
            f"{name} in {fmt.name!r}, which has neither NaN nor {how.nan.replace('_', ' ')}, needs another "
            f"Projection(nan=...) than {how.nan!r}"
        )
    if isinstance(fmt, Codebook):
        if how.binary_only:
            raise ValueError(
                f"{name} in {fmt.name!r}: {how.binary_only} is for binary formats, and this is a codebook"
            )
    else:
        how.grid_of(fmt)
    if how.flushes_operands:
        raise ValueError(f"{name} of an accumulation reads no operands: use subnormals='flush_results'")
    if how.nan_payload != "drop":
        raise ValueError(f"{name} of an accumulation carries no payloads of NaNs: leave out nan_payload")
    if how.via:
        raise ValueError(f"{name} of an accumulation is rounded once: leave out via")
    if name == "product" and how.rounding.bits:
        raise ValueError(
            "product of an accumulation cannot be rounded stochastically; the accumulator and the output can"
        )


def as_it_is(place: Rounded) -> Rounded:
    """Return how numbers that are in a place stay what they are.

    Flushing would change one that saturated to a subnormal, and a zero has the code of the smallest value. A
    NaN of a number that overflowed has a sign; the code given for NaNs may be an infinity, or -128.
    """
    fmt, rule = place
    saturation = Saturation.PROPAGATE if rule.saturation == Saturation.FINITE else rule.saturation
    return fmt, replace(
        rule, saturation=saturation, nan_sign="keep", nan_payload="drop", symmetric=False,
        subnormals="keep", smallest="itself",
    )  # fmt: skip


def to_nearest(place: Rounded) -> Rounded:
    """Return how numbers that join a sum get to a place: to nearest even, whatever the mode of its sums."""
    fmt, rule = place
    return fmt, rule if rule.rounding == NEAREST_EVEN else replace(rule, rounding=NEAREST_EVEN)
