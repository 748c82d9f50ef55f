"""The format, as parameters that cannot lie: which code stands for which number.

A format is a handful of integers. Everything else about it, from its largest value to the code of
its NaN, follows from them here, in integers, and is nowhere typed a second time.

Floor 1. Imports the standard library only.

Notation, beside IEEE 754-2019 clause 3.3 and the P3109 draft:

    magnitude      the code without its sign; magnitudes 0, 1, 2, ... stand for growing values
    field          the exponent field of a magnitude, a raw integer
    significand    integer, exponent: of its last bit; the value is significand * 2**exponent
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import struct
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from lowprec.spec.fields import Hashed, check_line, described


class Sign(enum.Enum):
    """Representation of negative numbers in a format."""

    MAGNITUDE = "magnitude"  #: the top bit is the sign, the others the magnitude
    UNSIGNED = "unsigned"  #: there are none
    TWOS_COMPLEMENT = "twos_complement"  #: as integers do

    def __repr__(self) -> str:
        return f"Sign.{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Format(Hashed):
    """A binary format: which code stands for which number.

    Magnitude codes run 0, 1, 2, ... in order of value. From the top down they are spent on
    `nans` NaNs, then on one infinity if `infinity`; all that remain are finite.

    >>> e4m3fn = Format(name="e4m3fn", exponent_bits=4, trailing_bits=3, bias=7, nans=1)
    >>> e4m3fn.max_finite, e4m3fn.min_subnormal, hex(e4m3fn.nan_code)
    (448.0, 0.001953125, '0x7f')
    >>> Format(exponent_bits=3, trailing_bits=4)
    Format(exponent_bits=3, trailing_bits=4, bias=3)

    Parameters
    ----------
    name : str, default "private"
        For people; two formats that differ in name alone are equal.
    exponent_bits : int
        Width of the exponent field, 0 for integers and fixed point.
    trailing_bits : int
        Bits of the significand that are stored.
    bias : int, default 2**(exponent_bits - 1) - 1, as IEEE 754 has it
        A normal code with this exponent field lies in [1, 2). May be negative.
    sign : Sign or {"magnitude", "unsigned", "twos_complement"}
    nans : int
        NaN codes at the top of each sign's range.
    infinity : bool
        The next code down is an infinity.
    negative_zero : bool
        For Sign.MAGNITUDE only: where False, the code of -0 is the NaN of results; no NaN then has a sign.
    subnormals : bool
        Exponent field 0 means 0.xxx, so that zero exists.
    source : str
        Key in docs/references.md.

    Raises ValueError: the parameters are no format; the message names the field at fault.

    Source: [IEEE754] 3.3, [OFP8], [OCPMX], [P3109].
    """

    name: str = dataclasses.field(default="private", compare=False)
    exponent_bits: int
    trailing_bits: int
    bias: int = None  # type: ignore[assignment]  # IEEE's: see __post_init__
    sign: Sign = Sign.MAGNITUDE
    nans: int = 0
    infinity: bool = False
    negative_zero: bool = True
    subnormals: bool = True
    source: str = dataclasses.field(default="", compare=False)

    if TYPE_CHECKING:  # names stand for objects

        def __init__(
            self,
            *,
            name: str = ...,
            exponent_bits: int,
            trailing_bits: int,
            bias: int = ...,
            sign: Sign | str = ...,
            nans: int = ...,
            infinity: bool = ...,
            negative_zero: bool = ...,
            subnormals: bool = ...,
            source: str = ...,
        ) -> None: ...

    __hash__ = Hashed.__hash__

    def __post_init__(self) -> None:
        names = {member.value: member for member in Sign}
        if isinstance(self.sign, str) and self.sign in names:
            object.__setattr__(self, "sign", names[self.sign])
        if self.bias is None:
            width = self.exponent_bits
            usual = (1 << width >> 1) - 1 if type(width) is int and 0 <= width <= 32 else 0
            object.__setattr__(self, "bias", usual)
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            wanted = {"int": int, "bool": bool, "str": str, "Sign": Sign}[str(field.type)]
            if type(value) is not wanted:
                hint = f", one of {', '.join(names)}" if wanted is Sign else ""
                raise TypeError(
                    f"{field.name} of a format must be of type {wanted.__name__}, not {value!r}{hint}"
                )
        self._check()

    def _check(self) -> None:
        """Refuse parameters that make no format; `Carrier` waives this."""

        def refuse(field: str, why: str) -> None:
            raise ValueError(f"{field}={getattr(self, field)!r} of format {self.name!r} {why}")

        for field in ("name", "source"):
            check_line("a format", field, getattr(self, field))
        for field in ("exponent_bits", "trailing_bits", "nans"):
            if getattr(self, field) < 0:
                refuse(field, "is negative; it counts bits or codes. Use 0 or more")
        if not 2 <= self.width <= 32:
            refuse(
                "exponent_bits",
                f"with trailing_bits={self.trailing_bits} makes {self.width} bits in all; use 2 to 32",
            )
        if self.sign is Sign.TWOS_COMPLEMENT:
            if self.exponent_bits:
                refuse(
                    "exponent_bits", "cannot be in two's complement; use Sign.MAGNITUDE, or exponent_bits=0"
                )
            if self.nans:
                refuse("nans", "cannot be in two's complement, where every code is a number; use 0")
            if self.infinity:
                refuse("infinity", "cannot be in two's complement, where every code is a number; use False")
        if not self.negative_zero and self.sign is not Sign.MAGNITUDE:
            refuse("negative_zero", f"means nothing for {self.sign}, which has no code of -0; leave it True")
        if not self.subnormals:
            if not self.exponent_bits:
                refuse("subnormals", "leaves no values where exponent_bits=0; use True")
            if not self.negative_zero:
                refuse(
                    "subnormals",
                    "leaves no zero whose sign negative_zero=False could spend; use True for one of them",
                )
        if self.max_magnitude < (1 if self.subnormals else 0):
            refuse("nans", f"with infinity={self.infinity} leaves no finite non-zero code; use fewer")
        # Every value is a multiple of the smallest step and lies below the next power of two.
        step = self.scaled(0)[1]
        if step < -1074:
            raise ValueError(
                f"the smallest step of {self.name!r} is 2**{step}, below float64's 2**-1074, and lowprec "
                f"carries values in float64. Reduce exponent_bits={self.exponent_bits} or bias={self.bias}"
            )
        if self._emax_of(self._extreme_magnitude) > 1023:
            raise ValueError(
                f"the largest value of {self.name!r} is at least 2**1024, above float64's range, and lowprec "
                f"carries values in float64. Reduce exponent_bits={self.exponent_bits} or increase "
                f"bias={self.bias}"
            )

    # -- codes ----------------------------------------------------------------------------------

    @property
    def width(self) -> int:
        """Bits of a code."""
        return self.exponent_bits + self.trailing_bits + (self.sign is not Sign.UNSIGNED)

    @property
    def code_bits(self) -> int:
        """Bits of the narrowest unsigned integer that holds a code: 8, 16 or 32."""
        return max(8, 1 << (self.width - 1).bit_length())

    @property
    def sign_code(self) -> int:
        """The sign bit's place in a code, 0 for unsigned formats."""
        return 0 if self.sign is Sign.UNSIGNED else 1 << (self.width - 1)

    @property
    def max_magnitude(self) -> int:
        """Magnitude of `max_finite`, the last that is finite."""
        return (1 << (self.exponent_bits + self.trailing_bits)) - 1 - self.nans - self.infinity

    @property
    def has_negative_zero(self) -> bool:
        """True if there is a code of -0."""
        return self.sign is Sign.MAGNITUDE and self.negative_zero and self.subnormals

    @property
    def has_nan(self) -> bool:
        """True if any code is a NaN."""
        return self.nans > 0 or not self.negative_zero

    @property
    def has_signed_nan(self) -> bool:
        """True if a NaN can carry a sign."""
        return self.sign is Sign.MAGNITUDE and self.nans > 0 and self.negative_zero

    @property
    def infinity_code(self) -> int | None:
        """The code of +Inf, or None."""
        return self.max_magnitude + 1 if self.infinity else None

    @property
    def nan_code(self) -> int | None:
        """The code that stands for NaN in results: the quiet one, or None where there is none."""
        if not self.negative_zero:
            return self.sign_code
        if self.nans == 0:
            return None
        if self.quiet_bit is not None:
            return self.max_magnitude + 1 + (1 << (self.trailing_bits - 1))
        return self.max_magnitude + self.infinity + self.nans

    @property
    def quiet_bit(self) -> int | None:
        """The bit of a NaN's code that is clear in signaling ones; None where no NaN signals.

        Formats have it whose NaNs are those of IEEE 754, 3.4: each code above an infinity that has the
        largest exponent field. The NaN in the place of -0, if there is one, is quiet all the same.

        >>> ieee = Format(exponent_bits=2, trailing_bits=3, nans=7, infinity=True)
        >>> ieee.quiet_bit, Format(exponent_bits=2, trailing_bits=3, nans=1).quiet_bit
        (4, None)
        """
        ieee = self.infinity and self.trailing_bits > 0 and self.nans == (1 << self.trailing_bits) - 1
        return 1 << (self.trailing_bits - 1) if ieee else None

    @property
    def payload_bits(self) -> int | None:
        """Bits of a NaN below `quiet_bit`; None where NaNs have no payload: without it, or without -0."""
        return self.trailing_bits - 1 if self.quiet_bit is not None and self.negative_zero else None

    # -- values ---------------------------------------------------------------------------------

    def scaled(self, magnitude: int) -> tuple[int, int]:
        """Return significand and exponent of a magnitude: its value is significand * 2**exponent.

        The rule is continued past `max_finite` as if the exponent were unbounded, which is
        what overflow is judged on.

        >>> Format(name="e4m3fn", exponent_bits=4, trailing_bits=3, bias=7, nans=1).scaled(0x7E)
        (14, 5)
        """
        t = self.trailing_bits
        lowest = 1 if self.subnormals else 0
        field = magnitude >> t if self.exponent_bits else 0
        if field < lowest:
            return (magnitude, 1 - self.bias - t)
        return ((magnitude & ((1 << t) - 1)) | (1 << t), field - self.bias - t)

    def _emax_of(self, magnitude: int) -> int:
        significand, exponent = self.scaled(magnitude)
        return significand.bit_length() - 1 + exponent

    @property
    def _extreme_magnitude(self) -> int:
        """Magnitude of the value farthest from zero: two's complement has one more below than above."""
        return self.max_magnitude + (self.sign is Sign.TWOS_COMPLEMENT)

    @property
    def precision(self) -> int:
        """Significant bits of a normal value; for fixed point, of the largest."""
        return self.trailing_bits + (1 if self.exponent_bits else 0)

    @property
    def emin(self) -> int:
        """Exponent of the smallest normal value."""
        return (1 if self.subnormals else 0) - self.bias

    @property
    def emax(self) -> int:
        """Exponent of `max_finite`."""
        return self._emax_of(self.max_magnitude)

    @property
    def max_finite(self) -> float:
        """The largest value."""
        return exact_float(*self.scaled(self.max_magnitude))

    @property
    def min_finite(self) -> float:
        """The most negative value; the smallest of an unsigned format."""
        if self.sign is Sign.UNSIGNED:
            return exact_float(*self.scaled(0))
        significand, exponent = self.scaled(self._extreme_magnitude)
        return exact_float(-significand, exponent)

    @property
    def min_normal(self) -> float | None:
        """The smallest positive normal value, or None."""
        lowest = (1 << self.trailing_bits) if self.subnormals else 0
        if not self.exponent_bits or lowest > self.max_magnitude:
            return None
        return exact_float(*self.scaled(lowest))

    @property
    def min_subnormal(self) -> float | None:
        """The smallest positive subnormal value, or None; for fixed point, its step."""
        has_any = self.subnormals and self.trailing_bits > 0
        return exact_float(*self.scaled(1)) if has_any else None

    @property
    def eps(self) -> float | None:
        """The ulp of 1, or None where 1 has no code or no finite neighbour above.

        >>> Format(name="binary16", exponent_bits=5, trailing_bits=10, bias=15).eps == 2**-10
        True
        """
        step = self.scaled(0)[1]
        if self.exponent_bits and self.bias >= (1 if self.subnormals else 0):
            one = self.bias << self.trailing_bits
        elif self.subnormals and step <= 0:  # a fixed-point or subnormal number
            one = 1 << -step
        else:
            return None
        if one + 1 > self.max_magnitude:
            return None
        return exact_float(1, self.scaled(one)[1])

    def contains(self, other: Format) -> bool:
        """Return whether this format has all that `other` has: numbers, signed zeros, infinities, NaN.

        >>> binary32 = Format(name="binary32", exponent_bits=8, trailing_bits=23, bias=127)
        >>> binary32.contains(Format(name="e4m3", exponent_bits=4, trailing_bits=3, bias=7))
        True
        """
        return other.is_within(self)

    def is_within(self, fmt: Format) -> bool:
        """Return whether a format has all that this one has."""
        return _contains(fmt, self)

    def _holds(self, ours: int, other: Format, theirs: int) -> bool:
        """Return whether magnitudes of `other` up to `theirs` are values of this format up to `ours`."""
        first = 1 if other.subnormals else 0
        while first <= theirs:
            significand, exponent = other.scaled(first)
            lead = significand.bit_length() - 1 + exponent
            # Magnitudes of one binade are consecutive multiples of one step; the last may be cut short.
            last = min(theirs, first + (1 << (significand.bit_length() - 1)) - 1)
            size = exponent if last > first else exponent + (significand & -significand).bit_length() - 1
            step = self.scaled(0)[1] if not self.exponent_bits else max(lead, self.emin) - self.trailing_bits
            if size < step or (not self.subnormals and lead < self.emin):
                return False
            first = last + 1
        return _fraction(*self.scaled(ours)) >= _fraction(*other.scaled(theirs))

    # -- text -----------------------------------------------------------------------------------

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return described(self)


class Carrier(Format):
    """A type that values come in but are not encoded to: binary64, 16- to 64-bit and 1-bit integers.

    It obeys the same rule as a format and only waives the limits on what a format may be.
    """

    __slots__ = ()

    def _check(self) -> None:
        """Refuse nothing: carriers are a fixed list in the catalog."""


@functools.lru_cache(maxsize=4096)
def _contains(fmt: Format, other: Format) -> bool:
    """Memoise `Format.contains`, which goes through all binades and is called for every array."""
    lacks = (
        (other.infinity and not fmt.infinity)
        or (other.has_nan and not fmt.has_nan)
        or (other.subnormals and not fmt.subnormals)
        or (other.has_negative_zero and not fmt.has_negative_zero)
        or (other.sign is not Sign.UNSIGNED and fmt.sign is Sign.UNSIGNED)
    )
    if lacks:
        return False
    sides = [(fmt.max_magnitude, other.max_magnitude)]
    if other.sign is not Sign.UNSIGNED:
        sides.append((fmt._extreme_magnitude, other._extreme_magnitude))
    return all(fmt._holds(ours, other, theirs) for ours, theirs in sides)


def holds(fmt: Format, value: Fraction) -> bool:
    """Return whether a format has a finite number.

    >>> e4m3 = Format(name="e4m3", exponent_bits=4, trailing_bits=3, bias=7)
    >>> [holds(e4m3, Fraction(number)) for number in (480, 481, 512)]
    [True, False, False]
    """
    size, below = abs(value.numerator), value.denominator
    if size == 0:
        return fmt.subnormals
    if below & (below - 1) or (value < 0 and fmt.sign is Sign.UNSIGNED):
        return False
    lead = size.bit_length() - below.bit_length()
    last = (size & -size).bit_length() - below.bit_length()
    step = max(lead, fmt.emin) - fmt.trailing_bits if fmt.exponent_bits else fmt.scaled(0)[1]
    farthest = fmt._extreme_magnitude if value < 0 else fmt.max_magnitude
    fits = last >= step and (fmt.subnormals or lead >= fmt.emin)
    return fits and abs(value) <= _fraction(*fmt.scaled(farthest))


def exact_float(significand: int, exponent: int) -> float:
    """Return the float64 equal to significand * 2**exponent, assembled from bits.

    No floating-point instruction is used, so a process that flushes subnormals gets the same
    answer. The number must be a float64.

    >>> exact_float(1, -1074)
    5e-324
    """
    magnitude = abs(significand)
    if magnitude == 0:
        return 0.0
    lead = magnitude.bit_length() - 1 + exponent
    last = max(lead, -1022) - 52
    shift = exponent - last
    scaled = magnitude << shift if shift >= 0 else magnitude >> -shift
    assert lead <= 1023, "not a float64"
    assert shift >= 0 or scaled << -shift == magnitude, "not a float64"
    bits = scaled + ((max(lead, -1022) + 1022) << 52)
    return float(struct.unpack("<d", struct.pack("<Q", bits | (significand < 0) << 63))[0])


def _fraction(significand: int, exponent: int) -> Fraction:
    return Fraction(significand << max(exponent, 0), 1 << max(-exponent, 0))
