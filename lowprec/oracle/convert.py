"""Conversion by definition: a format is its decode function, and rounding is a search over it.

`project` finds the two neighbouring codes by bisection over `decode`, with codes continued past the
largest as if the exponent were unbounded, and asks the rounding mode which to take.

Floor 2a. Imports spec and the standard library.
"""

from __future__ import annotations

import functools
import itertools
import struct
from bisect import bisect_right
from collections.abc import Sequence
from fractions import Fraction

from lowprec.oracle import codebook
from lowprec.oracle.exact import Exact, Special, is_negative, scale
from lowprec.oracle.rounding import check_random, is_farther
from lowprec.spec.catalog import BINARY64
from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Format, Sign
from lowprec.spec.projection import DEFAULT, Projection, Saturation
from lowprec.spec.rounding import Threshold

__all__ = ["cast", "decode", "encode", "is_subnormal", "largest_magnitude", "position", "project", "steps"]


def decode(code: int, fmt: Format) -> Exact:
    """Return the number that a code stands for.

    >>> from lowprec.spec.catalog import E4M3FN
    >>> decode(0x7E, E4M3FN), decode(0xFF, E4M3FN)
    (Fraction(448, 1), Special.NEGATIVE_NAN)

    Raises ValueError: no code of the format.
    """
    if not 0 <= code < 1 << fmt.width:
        raise ValueError(f"{code} is no code of {fmt.name!r}, whose codes are 0 to {(1 << fmt.width) - 1}")
    if isinstance(fmt, Codebook):
        return codebook.decode(code, fmt)
    negative = bool(code & fmt.sign_code)
    if fmt.sign is Sign.TWOS_COMPLEMENT:
        return -value_of((1 << fmt.width) - code, fmt) if negative else value_of(code, fmt)
    magnitude = code & ~fmt.sign_code
    if negative and magnitude == 0 and not fmt.negative_zero:
        return Special.NAN
    if magnitude > fmt.max_magnitude:
        if magnitude == fmt.infinity_code:
            return Special.NEGATIVE_INFINITY if negative else Special.INFINITY
        return Special.NEGATIVE_NAN if negative and fmt.has_signed_nan else Special.NAN
    value = value_of(magnitude, fmt)
    if negative:
        return -value if value else Special.NEGATIVE_ZERO
    return value


def value_of(magnitude: int, fmt: Format) -> Fraction:
    """Return the value of a magnitude, on the grid continued past the largest."""
    significand, exponent = fmt.scaled(magnitude)
    return Fraction(significand << max(exponent, 0), 1 << max(-exponent, 0))


class _Grid(Sequence[int]):
    """The values of the magnitudes 0, 1, 2, ... up to one past `last`, as a sequence to search.

    All are multiples of the smallest step: integers, which are compared faster than fractions.
    """

    def __init__(self, fmt: Format, last: int) -> None:
        self.fmt, self.length = fmt, last + 2
        self.step = fmt.scaled(0)[1]
        self.known: dict[int, int] = {}
        # Small grids are searched as lists, which takes a fifth of the time.
        self.searched: Sequence[int] = self if last > 500 else [self[i] for i in range(last + 2)]

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, magnitude: int) -> int:  # type: ignore[override]
        value = self.known.get(magnitude)
        if value is None:
            significand, exponent = self.fmt.scaled(magnitude)
            value = self.known[magnitude] = significand << (exponent - self.step)
            if len(self.known) > 1 << 17:
                self.known.clear()
        return value

    def below(self, size: Fraction) -> int:
        """Return the last magnitude whose value is not above a positive number, -1 where there is none."""
        numerator, denominator = self._in_steps(size)
        return bisect_right(self.searched, numerator // denominator) - 1

    def tail(self, size: Fraction, nearer: int) -> Fraction:
        """Return the distance of a number above a magnitude's value, in units of the gap to the next."""
        numerator, denominator = self._in_steps(size)
        low, high = self[nearer], self[nearer + 1]
        return Fraction(numerator - low * denominator, denominator * (high - low))

    def _in_steps(self, size: Fraction) -> tuple[int, int]:
        """Return a number in units of the smallest step, as numerator and denominator."""
        return size.numerator << max(-self.step, 0), size.denominator << max(self.step, 0)


_grid = functools.lru_cache(maxsize=512)(_Grid)


def project(
    value: Exact,
    fmt: Format,
    projection: Projection = DEFAULT,
    *,
    random: int | None = None,
    subnormal_operand: bool = False,
) -> int:
    """Return the code of a real number: round, then saturate, then encode.

    >>> from lowprec.spec.catalog import E4M3FN
    >>> project(Fraction(464), E4M3FN), project(Fraction(465), E4M3FN)
    (126, 127)
    >>> [project(Fraction(17, 16), E4M3FN, Projection(rounding="stochastic(1)"), random=r) for r in (0, 1)]
    [56, 57]

    Parameters
    ----------
    value : Exact
    fmt : Format
    projection : Projection
    random : int, optional
        The random integer of a stochastic mode, from 0 to 2**bits - 1.
    subnormal_operand : bool
        The operand is a subnormal of the type that it comes in, which `flush_operands` asks.

    Raises ValueError: a NaN, or a negative number, that the format lacks and the projection refuses; a
    random integer that the mode does not take; a `nan_code` that is no code of the format.

    Source: [P3109] Project; docs/decisions/0002 for what the standards leave open.
    """
    check(fmt, projection, random)
    check_operand(value)
    value = flushed_operand(value, projection, subnormal_operand)
    for stop in projection.via:
        value = decode(project(value, stop), stop)
    negative = is_negative(value)
    if isinstance(fmt, Codebook):
        return codebook.project(value, negative, fmt, projection, random)
    if isinstance(value, Special):
        if value in (Special.NAN, Special.NEGATIVE_NAN):
            return _nan(negative, fmt, projection)
        if value is Special.NEGATIVE_ZERO:
            return _zero(negative, fmt, projection)
        if projection.saturation is Saturation.FINITE:
            return _signed(largest_magnitude(negative, fmt, projection), negative, fmt, projection)
        return _beyond(negative, fmt, projection)
    if value == 0:
        return _zero(negative, fmt, projection)

    size, last = -value if negative else value, largest_magnitude(negative, fmt, projection)
    magnitude = round_magnitude(size, last, negative, fmt, projection, random)
    if magnitude > last:
        if projection.saturation is Saturation.NONE:
            return _beyond(negative, fmt, projection)
        return _signed(last, negative, fmt, projection)
    if is_flushed(fmt, projection) and is_tiny(size, negative, fmt, projection, random):
        return _zero(negative, fmt, projection)
    return _signed(magnitude, negative, fmt, projection)


def check(fmt: Format, projection: Projection, random: int | None) -> None:
    """Refuse what does not fit the format, whatever the operand: random integers, NaN codes, a zero."""
    check_random(random, projection.rounding, fmt)
    if projection.nan_code is not None and projection.nan_code >= 1 << fmt.width:
        raise ValueError(
            f"nan_code={projection.nan_code:#x} of the projection is no code of {fmt.name!r}, "
            f"whose codes are 0 to {(1 << fmt.width) - 1:#x}"
        )
    if isinstance(fmt, Codebook):
        codebook.check(fmt, projection)
        return
    projection.grid_of(fmt)
    if projection.lacks_nan(fmt):
        raise ValueError(f"NaN cannot become {projection.nan!r} in {fmt.name!r}, which has no such code")


def check_operand(value: object) -> None:
    """Refuse all but exact numbers: a float would bring its own arithmetic."""
    if isinstance(value, bool) or not isinstance(value, (Fraction, int, Special)):
        raise TypeError(
            f"the oracle takes a Fraction, an integer or a Special, not {value!r}; for a float use "
            f"lowprec.oracle.convert.encode"
        )


def flushed_operand(value: Exact, projection: Projection, subnormal_operand: bool) -> Exact:
    """Return the operand, or the zero of its sign if it is a subnormal that is flushed."""
    if subnormal_operand and projection.flushes_operands:
        return Special.NEGATIVE_ZERO if is_negative(value) else Fraction(0)
    return value


def round_magnitude(
    size: Fraction, last: int, negative: bool, fmt: Format, projection: Projection, random: int | None
) -> int:
    """Return the magnitude that the mode takes for a positive number, `last` + 1 where it overflows."""
    fmt, no_zero = projection.grid_of(fmt), not fmt.subnormals
    grid = _grid(fmt, last)
    if projection.overflow_test != "after" and size > value_of(last, fmt):
        if projection.overflow_test == "before" or size >= Fraction(2) ** (fmt.emax + 1):
            return last + 1
    nearer = min(grid.below(size), last)
    if nearer < 0:  # below the smallest value of a format without zero
        return 0
    tail = grid.tail(size, nearer)
    odd = nearer % 2 == 1
    if nearer == 0 and tail == Fraction(1, 2) and no_zero and fmt.subnormals:
        even = projection.rounding.threshold(negative=negative, odd=False)
        if even is Threshold.HALF_OR_ABOVE:  # to nearest: a tie with the zero that the smallest is
            return 0
    return nearer + is_farther(tail, projection.rounding, negative=negative, odd=odd, random=random)


def is_flushed(fmt: Format, projection: Projection) -> bool:
    """Return whether tiny results are flushed; fixed point and formats without zero flush nothing."""
    return projection.flushes_results and fmt.exponent_bits > 0 and fmt.subnormals


def is_tiny(size: Fraction, negative: bool, fmt: Format, projection: Projection, random: int | None) -> bool:
    """Return whether a positive number, rounded with an unbounded exponent or not, is below the normal range.

    Only the last gap below it can round up to it, and there the gap is half the one above it. In a
    format without zero all is tiny that lies below the smallest value.
    """
    if not fmt.exponent_bits:
        return False
    if not fmt.subnormals:
        return size < value_of(0, fmt)
    first_normal = 1 << fmt.trailing_bits
    normal = value_of(first_normal, fmt)
    if projection.tininess == "before":
        return size < normal
    below = normal - normal / (2 * first_normal)
    if not below <= size < normal:
        return size < below
    tail, odd = (size - below) / (normal - below), (first_normal - 1) % 2 == 1
    return not is_farther(tail, projection.rounding, negative=negative, odd=odd, random=random)


def largest_magnitude(negative: bool, fmt: Format, projection: Projection) -> int:
    """Return the largest finite magnitude on this side of zero."""
    one_more = negative and fmt.sign is Sign.TWOS_COMPLEMENT and not projection.symmetric
    return fmt.max_magnitude + one_more


def _signed(magnitude: int, negative: bool, fmt: Format, projection: Projection) -> int:
    """Return the code of a finite magnitude with a sign, or its substitute where there is none."""
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
        return _nan_code(True, fmt.nan_code, fmt, projection)
    return _zero(False, fmt, projection)


def _beyond(negative: bool, fmt: Format, projection: Projection) -> int:
    """Return infinity if there is one, else NaN, else the extreme finite value; unsigned: by policy."""
    if negative and fmt.sign is Sign.UNSIGNED and projection.negative != "drop_sign":
        return _negative_of_unsigned(0, fmt, projection)
    sign = fmt.sign_code if negative else 0
    if fmt.infinity_code is not None:
        return fmt.infinity_code | sign
    if fmt.nan_code is not None:
        return _nan_code(negative, fmt.nan_code, fmt, projection)
    return _signed(largest_magnitude(negative, fmt, projection), negative, fmt, projection)


def _zero(negative: bool, fmt: Format, projection: Projection) -> int:
    if fmt.subnormals:
        return fmt.sign_code if negative and fmt.has_negative_zero else 0
    sign = fmt.sign_code if negative else 0
    if projection.zero == "smallest" or fmt.nan_code is None:
        return sign
    return _nan_code(negative, fmt.nan_code, fmt, projection)


def _nan_code(negative: bool, own: int, fmt: Format, projection: Projection) -> int:
    """Return the code of a NaN result: the format's own or the projection's, with a sign as any code."""
    negative = negative and projection.nan_sign != "positive"
    if projection.nan_code is not None:
        takes_sign = fmt.sign is Sign.MAGNITUDE and (projection.nan_code > 0 or fmt.negative_zero)
        return projection.nan_code | (fmt.sign_code if negative and takes_sign else 0)
    return own | (fmt.sign_code if negative and fmt.has_signed_nan else 0)


def _nan(negative: bool, fmt: Format, projection: Projection) -> int:
    if isinstance(fmt, Codebook):
        special = Special.NEGATIVE_NAN if negative else Special.NAN
        return codebook.project(special, negative, fmt, projection, None)
    negative = negative and projection.nan_sign == "keep"
    own = projection.nan_code if fmt.nan_code is None else fmt.nan_code
    if own is not None:
        return _nan_code(negative, own, fmt, projection)
    if projection.nan == "error":
        raise ValueError(f"NaN has no code in {fmt.name!r}")
    if projection.nan == "max":
        return _signed(
            largest_magnitude(negative, fmt, projection),
            negative and fmt.sign is not Sign.UNSIGNED,
            fmt,
            projection,
        )
    return _zero(negative, fmt, projection) if projection.nan == "zero" else fmt.sign_code


def position(
    size: Fraction, fmt: Format, negative: bool = False, projection: Projection = DEFAULT
) -> tuple[Fraction | None, bool]:
    """Return the tail of a magnitude above the code below it, and whether that code is the last of its sign.

    The tail is None below the smallest value of a format without zero, and from the code after the last on.
    In a codebook the tail is one half at a threshold.

    >>> from lowprec.spec.catalog import E4M3FN
    >>> position(Fraction(17, 16), E4M3FN)
    (Fraction(1, 2), False)
    """
    if isinstance(fmt, Codebook):
        return codebook.position(size, fmt, negative)
    last = largest_magnitude(negative, fmt, projection)
    nearer = (grid := _grid(fmt, last)).below(size)
    if nearer < 0 or nearer > last:
        return None, nearer > last
    return grid.tail(size, nearer), nearer == last


def encode(value: float, fmt: Format, projection: Projection = DEFAULT, *, random: int | None = None) -> int:
    """Return the code of a float64.

    >>> from lowprec.spec.catalog import E4M3FN
    >>> encode(0.1, E4M3FN)
    29
    """
    (code,) = struct.unpack("<Q", struct.pack("<d", value))
    return cast(code, BINARY64, fmt, projection, random=random)


def cast(
    code: int, source: Format, target: Format, projection: Projection = DEFAULT, *, random: int | None = None
) -> int:
    """Convert a code of `source` to `target`.

    >>> from lowprec.spec.catalog import E4M3FN, E5M2
    >>> cast(0x7E, E4M3FN, E5M2)
    95
    """
    value = decode(code, source)
    if projection.nan_payload != "drop" and value in (Special.NAN, Special.NEGATIVE_NAN):
        check(target, projection, random)
        for stop in projection.via:
            code, source = nan_of(code, source, stop, Projection(nan_payload="first")), stop
        return nan_of(code, source, target, projection)
    tiny = projection.subnormals != "keep" and _is_subnormal(value, source)
    return project(value, target, projection, random=random, subnormal_operand=tiny)


def nan_of(code: int, source: Format, target: Format, projection: Projection) -> int:
    """Return the code in `target` of a NaN operand, with its payload if the projection keeps that."""
    negative = decode(code, source) is Special.NEGATIVE_NAN
    if projection.nan_payload == "drop" or target.payload_bits is None:
        return _nan(negative, target, projection)
    payload = Fraction(0)
    if source.payload_bits is not None:
        payload = Fraction(code % (1 << source.payload_bits), 1 << source.payload_bits)
    assert target.nan_code is not None
    sign = target.sign_code if negative and projection.nan_sign == "keep" and target.has_signed_nan else 0
    return target.nan_code + int(payload * (1 << target.payload_bits)) | sign


def is_subnormal(code: int, fmt: Format) -> bool:
    """Return whether a code is a subnormal; fixed-point formats have none.

    >>> from lowprec.spec.catalog import E4M3FN, INT8
    >>> is_subnormal(0x07, E4M3FN), is_subnormal(0x08, E4M3FN), is_subnormal(0x07, INT8)
    (True, False, False)
    """
    return _is_subnormal(decode(code, fmt), fmt)


def _is_subnormal(value: Exact, fmt: Format) -> bool:
    """Return whether a decoded number is a subnormal."""
    if isinstance(fmt, Codebook) or isinstance(value, Special) or not fmt.exponent_bits or not fmt.subnormals:
        return False
    return 0 < abs(value) < value_of(1 << fmt.trailing_bits, fmt)


Steps = tuple[list[float], list[int]]


def steps(fmt: Format, projection: Projection = DEFAULT) -> tuple[Steps, Steps]:
    """Return a deterministic projection as a step function of float64 operands, for + and for -.

    Each is a pair of lists: magnitudes, ascending from 0 to Inf, and codes. An operand of that
    sign has the code of the last magnitude that is not larger: each magnitude is the first
    float64 that yields its code. Found through `encode` alone.

    >>> from lowprec.spec.catalog import E2M1FN
    >>> positive, negative = steps(E2M1FN)
    >>> positive[0][1:4], positive[1][1:4]
    ([0.25000000000000006, 0.75, 1.2500000000000002], [1, 2, 3])

    Raises ValueError: a stochastic mode, which is no function of the operand.
    """
    if projection.rounding.bits:
        raise ValueError(f"{projection.rounding} has no steps: its codes depend on random integers too")
    positive, negative = _steps(fmt, projection, negative=False), _steps(fmt, projection, negative=True)
    return positive, negative


def _steps(fmt: Format, projection: Projection, *, negative: bool) -> Steps:
    sign = 1 << 63 if negative else 0

    @functools.cache
    def code(bits: int) -> int:
        return encode(_float(bits | sign), fmt, projection)

    # Finite results only ever move one way, so two pivots with the same code have no step between
    # them. Zeros, flushed operands and overflow may have any code, that of a NaN: there the pivots
    # stand on both sides of the border. All others only make the search short.
    last = 0 if isinstance(fmt, Codebook) else largest_magnitude(negative, fmt, projection)
    pivots = _pivots(fmt, negative, last, projection.via)
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
def _pivots(fmt: Format, negative: bool, last: int, via: tuple[Format, ...]) -> tuple[int, ...]:
    """Return bit patterns of float64 magnitudes around which to search for steps, with both ends."""
    infinity, first_normal = 0x7FF << 52, 1 << 52
    points: set[Fraction] = set()
    if isinstance(fmt, Codebook):
        points = codebook.points(fmt, negative)
    else:
        for magnitude in range(last + 1):
            low, high = value_of(magnitude, fmt), value_of(magnitude + 1, fmt)
            points.update((low, (low + high) / 2, high))
    if (
        not isinstance(fmt, Codebook) and fmt.exponent_bits and fmt.subnormals
    ):  # where results are no longer tiny
        normal = value_of(1 << fmt.trailing_bits, fmt)
        points.update(normal - normal / (divisor << fmt.trailing_bits) for divisor in (2, 4))
    for stop in via:  # its ties next to the points, and its own overflow
        grid = _grid(stop, stop.max_magnitude)
        around = {grid.below(point) for point in points} | {stop.max_magnitude}
        ends = {near for nearer in around for near in (nearer - 1, nearer) if 0 <= near <= stop.max_magnitude}
        points.update((value_of(near, stop) + value_of(near + 1, stop)) / 2 for near in ends)
    pivots = {0, 1, first_normal - 1, first_normal, infinity - 1, infinity}
    for point in points:
        bits = _floor_bits(point)
        pivots.update((bits - 1, bits, bits + 1))
    return tuple(sorted(bits for bits in pivots if 0 <= bits <= infinity))


def _floor_bits(value: Fraction) -> int:
    """Return the bits of the largest float64 not above a value from 0 to below 2**1024."""
    if value == 0:
        return 0
    lead = value.numerator.bit_length() - value.denominator.bit_length()
    lead -= value < scale(Fraction(1), lead)
    binade = max(lead, -1022)
    return int(scale(value, 52 - binade)) + ((binade + 1022) << 52)


def _float(bits: int) -> float:
    return float(struct.unpack("<d", struct.pack("<Q", bits))[0])
