"""Conversion by definition: a format is its decode function, and rounding is a search over it.

`project` is the only place on this floor where anything is rounded. It finds the two neighbouring
codes by bisection over `decode`, with codes continued past the largest as if the exponent were
unbounded, and asks the rounding mode which to take.

Floor 2a. Imports spec and the standard library.
"""

from __future__ import annotations

import functools
import itertools
import struct
from bisect import bisect_right
from collections.abc import Sequence
from fractions import Fraction

from lowprec.oracle.exact import Exact, Special, from_float, is_negative, scale
from lowprec.spec.format import Format, Sign
from lowprec.spec.projection import DEFAULT, Projection, Saturation
from lowprec.spec.rounding import Threshold

__all__ = ["cast", "decode", "encode", "position", "project", "steps"]


def decode(code: int, fmt: Format) -> Exact:
    """The number that a code stands for.

    >>> from lowprec.spec.catalog import E4M3FN
    >>> decode(0x7E, E4M3FN), decode(0xFF, E4M3FN)
    (Fraction(448, 1), Special.NEGATIVE_NAN)

    Raises
    ------
    ValueError
        No code of the format.
    """
    if not 0 <= code < 1 << fmt.width:
        raise ValueError(f"{code} is no code of {fmt.name!r}, whose codes are 0 to {(1 << fmt.width) - 1}")
    negative = bool(code & fmt.sign_code)
    if fmt.sign is Sign.TWOS_COMPLEMENT:
        return -_value((1 << fmt.width) - code, fmt) if negative else _value(code, fmt)
    magnitude = code & ~fmt.sign_code
    if negative and magnitude == 0 and not fmt.negative_zero:
        return Special.NAN
    if magnitude > fmt.max_magnitude:
        if magnitude == fmt.infinity_code:
            return Special.NEGATIVE_INFINITY if negative else Special.INFINITY
        return Special.NEGATIVE_NAN if negative and fmt.has_signed_nan else Special.NAN
    value = _value(magnitude, fmt)
    if negative:
        return -value if value else Special.NEGATIVE_ZERO
    return value


def _value(magnitude: int, fmt: Format) -> Fraction:
    """The value of a magnitude, on the grid continued past the largest."""
    significand, exponent = fmt.scaled(magnitude)
    return scale(Fraction(significand), exponent)


class _Grid(Sequence[Fraction]):
    """The values of the magnitudes 0, 1, 2, ... up to one past `last`, as a sequence to search."""

    def __init__(self, fmt: Format, last: int) -> None:
        self.fmt, self.length = fmt, last + 2
        self.known: dict[int, Fraction] = {}

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, magnitude: int) -> Fraction:  # type: ignore[override]
        value = self.known.get(magnitude)
        if value is None:
            value = self.known[magnitude] = _value(magnitude, self.fmt)
            if len(self.known) > 1 << 17:
                self.known.clear()
        return value


_grid = functools.lru_cache(maxsize=512)(_Grid)


def project(value: Exact, fmt: Format, projection: Projection = DEFAULT) -> int:
    """The code of a real number: round, then saturate, then encode.

    >>> from lowprec.spec.catalog import E4M3FN
    >>> project(Fraction(464), E4M3FN), project(Fraction(465), E4M3FN)
    (126, 127)

    Raises
    ------
    ValueError
        A NaN, or a negative number, that the format lacks and the projection refuses.

    Source
    ------
    [P3109] Project; docs/decisions/0002 for what the standards leave open.
    """
    negative = is_negative(value)
    if value in (Special.NAN, Special.NEGATIVE_NAN):
        return _nan(negative, fmt, projection)
    if value in (Special.INFINITY, Special.NEGATIVE_INFINITY):
        if projection.saturation is Saturation.FINITE:
            return _signed(_last(negative, fmt, projection), negative, fmt, projection)
        return _beyond(negative, fmt, projection)
    if value == 0 or isinstance(value, Special):
        return _zero(negative, fmt, projection)

    last = _last(negative, fmt, projection)
    grid = _grid(fmt, last)
    size = abs(value)
    nearer = min(bisect_right(grid, size) - 1, last)
    if nearer < 0:  # below the smallest value of a format without zero
        return _signed(0, negative, fmt, projection)
    tail = (size - grid[nearer]) / (grid[nearer + 1] - grid[nearer])
    threshold = projection.rounding.threshold(negative=negative, odd=nearer % 2 == 1)
    if not _reaches(tail, threshold):
        return _signed(nearer, negative, fmt, projection)
    if nearer < last:
        return _signed(nearer + 1, negative, fmt, projection)
    if projection.saturation is Saturation.NONE:
        return _beyond(negative, fmt, projection)
    return _signed(last, negative, fmt, projection)


def _reaches(tail: Fraction, threshold: Threshold) -> bool:
    """Whether the tail is large enough for the farther code."""
    half = Fraction(1, 2)
    return {
        Threshold.ANY: tail > 0,
        Threshold.HALF_OR_ABOVE: tail >= half,
        Threshold.ABOVE_HALF: tail > half,
        Threshold.NEVER: False,
    }[threshold]


def _last(negative: bool, fmt: Format, projection: Projection) -> int:
    """The largest finite magnitude on this side of zero."""
    one_more = negative and fmt.sign is Sign.TWOS_COMPLEMENT and not projection.symmetric
    return fmt.max_magnitude + one_more


def _signed(magnitude: int, negative: bool, fmt: Format, projection: Projection) -> int:
    """The code of a finite magnitude with a sign, or what stands for it where there is none."""
    if not negative:
        return magnitude
    if fmt.sign is Sign.TWOS_COMPLEMENT:
        return -magnitude % (1 << fmt.width)
    if fmt.sign is Sign.UNSIGNED:
        if magnitude == 0 and fmt.subnormals:
            return 0
        return _negative_of_unsigned(magnitude, fmt, projection)
    if magnitude == 0 and not fmt.negative_zero:
        return 0
    return fmt.sign_code | magnitude


def _negative_of_unsigned(magnitude: int, fmt: Format, projection: Projection) -> int:
    if projection.negative == "error":
        raise ValueError(f"a negative number has no code in {fmt.name!r}, which is unsigned")
    if projection.negative == "drop_sign":
        return magnitude
    if projection.negative == "nan" and fmt.nan_code is not None:
        return fmt.nan_code
    return _zero(False, fmt, projection)


def _beyond(negative: bool, fmt: Format, projection: Projection) -> int:
    """Infinity if there is one, else NaN, else the extreme finite value; of unsigned formats, by policy."""
    if negative and fmt.sign is Sign.UNSIGNED and projection.negative != "drop_sign":
        return _negative_of_unsigned(0, fmt, projection)
    sign = fmt.sign_code if negative else 0
    if fmt.infinity_code is not None:
        return fmt.infinity_code | sign
    if fmt.nan_code is not None:
        return fmt.nan_code | (sign if fmt.has_signed_nan else 0)
    return _signed(_last(negative, fmt, projection), negative, fmt, projection)


def _zero(negative: bool, fmt: Format, projection: Projection) -> int:
    if fmt.subnormals:
        return fmt.sign_code if negative and fmt.has_negative_zero else 0
    sign = fmt.sign_code if negative else 0
    if projection.zero == "smallest" or fmt.nan_code is None:
        return sign
    return fmt.nan_code | (sign if fmt.has_signed_nan else 0)


def _nan(negative: bool, fmt: Format, projection: Projection) -> int:
    negative = negative and projection.nan_sign == "keep"
    if fmt.nan_code is not None:
        return fmt.nan_code | (fmt.sign_code if negative and fmt.has_signed_nan else 0)
    if projection.nan == "error":
        raise ValueError(f"NaN has no code in {fmt.name!r}")
    if projection.nan == "max":
        return _signed(_last(negative, fmt, projection), negative and fmt.sign is not Sign.UNSIGNED, fmt, projection)
    if projection.nan == "zero" and fmt.subnormals:
        return _zero(negative, fmt, projection)
    if projection.nan == "negative_zero" and fmt.has_negative_zero:
        return fmt.sign_code
    raise ValueError(f"NaN cannot become {projection.nan!r} in {fmt.name!r}, which has no such code")


def position(size: Fraction, fmt: Format) -> tuple[Fraction | None, bool]:
    """Where a positive number lies: the tail above the nearest code below it, and whether that is the last.

    The tail is None below the smallest value of a format without zero, and from the next code of
    the continued grid on.

    >>> from lowprec.spec.catalog import E4M3FN
    >>> position(Fraction(17, 16), E4M3FN)
    (Fraction(1, 2), False)
    """
    last = fmt.max_magnitude
    grid = _grid(fmt, last)
    nearer = bisect_right(grid, size) - 1
    if nearer < 0 or nearer > last:
        return None, nearer > last
    return (size - grid[nearer]) / (grid[nearer + 1] - grid[nearer]), nearer == last


def encode(value: float, fmt: Format, projection: Projection = DEFAULT) -> int:
    """The code of a float64.

    >>> from lowprec.spec.catalog import E4M3FN
    >>> encode(0.1, E4M3FN)
    29
    """
    return project(from_float(value), fmt, projection)


def cast(code: int, source: Format, target: Format, projection: Projection = DEFAULT) -> int:
    """The code in `target` of what a code of `source` stands for.

    >>> from lowprec.spec.catalog import E4M3FN, E5M2
    >>> cast(0x7E, E4M3FN, E5M2)
    95
    """
    return project(decode(code, source), target, projection)


Steps = tuple[list[float], list[int]]


def steps(fmt: Format, projection: Projection = DEFAULT) -> tuple[Steps, Steps]:
    """A deterministic projection as a step function of float64 operands, for + and for -.

    Each is a pair of lists: magnitudes, ascending from 0 to Inf, and codes. An operand of that
    sign has the code of the last magnitude that is not larger: each magnitude is the first
    float64 that yields its code. Found through `project` alone.

    >>> from lowprec.spec.catalog import E2M1FN
    >>> positive, negative = steps(E2M1FN)
    >>> positive[0][1:4], positive[1][1:4]
    ([0.25000000000000006, 0.75, 1.2500000000000002], [1, 2, 3])
    """
    positive, negative = _steps(fmt, projection, negative=False), _steps(fmt, projection, negative=True)
    return positive, negative


def _steps(fmt: Format, projection: Projection, *, negative: bool) -> Steps:
    sign = 1 << 63 if negative else 0

    @functools.cache
    def code(bits: int) -> int:
        return project(from_float(_float(bits | sign)), fmt, projection)

    # Codes only ever move one way, so two pivots with the same code have no step between them.
    # Pivots close to the steps make the search short; they cannot make it wrong.
    pivots = _pivots(fmt, _last(negative, fmt, projection))
    firsts, codes = [pivots[0]], [code(pivots[0])]
    pending = list(itertools.pairwise(pivots))[::-1]
    while pending:
        low, high = pending.pop()
        if code(low) == code(high):
            continue
        if high == low + 1:
            firsts.append(high)
            codes.append(code(high))
        else:
            middle = (low + high) // 2
            pending += [(middle, high), (low, middle)]
    return [_float(bits) for bits in firsts], codes


@functools.lru_cache(maxsize=512)
def _pivots(fmt: Format, last: int) -> tuple[int, ...]:
    """Bit patterns of float64 magnitudes around which steps are to be looked for, with both ends."""
    infinity = 0x7FF0000000000000
    pivots = {0, 1, infinity - 1, infinity}
    for magnitude in range(last + 1):
        low, high = _value(magnitude, fmt), _value(magnitude + 1, fmt)
        for point in (low, (low + high) / 2, high):
            bits = _floor_bits(point)
            pivots.update((bits - 1, bits, bits + 1))
    return tuple(sorted(bits for bits in pivots if 0 <= bits <= infinity))


def _floor_bits(value: Fraction) -> int:
    """Bits of the largest float64 that is not larger than a value below 2**1024, which is not negative."""
    if value == 0:
        return 0
    lead = value.numerator.bit_length() - value.denominator.bit_length()
    lead -= value < scale(Fraction(1), lead)
    binade = max(lead, -1022)
    return int(scale(value, 52 - binade)) + ((binade + 1022) << 52)


def _float(bits: int) -> float:
    return float(struct.unpack("<d", struct.pack("<Q", bits))[0])
