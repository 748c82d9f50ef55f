"""Projection: every knob of a conversion from a real number to a code, in one value.

Floor 1. Imports the standard library only.
"""

from __future__ import annotations

import dataclasses
import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from lowprec.spec.fields import Hashed, by_field, choose, described, truth
from lowprec.spec.format import Carrier, Format
from lowprec.spec.formats import carrier, find
from lowprec.spec.rounding import MODES, NEAREST_EVEN, Rounding, rounding


class Saturation(enum.Enum):
    """A policy for finite overflow and infinite operands.

    ============= ==================================== ====================================
    policy        finite overflow                      infinite operand
    ============= ==================================== ====================================
    `none`        Inf, else NaN, else the extreme      the same
    `finite`      the extreme finite value             the same
    `propagate`   the extreme finite value             Inf, else NaN, else the extreme
    ============= ==================================== ====================================

    Source: [P3109] Saturate, [IEEE754] 7.4; the differences from P3109 are in docs/decisions/0002.
    """

    NONE = "none"
    FINITE = "finite"
    PROPAGATE = "propagate"

    def __repr__(self) -> str:
        return f"Saturation.{self.name}"

    def __str__(self) -> str:
        return self.value


def saturation(policy: Saturation | str) -> Saturation:
    """Return the saturation policy of that name, or the policy itself.

    >>> saturation("finite")
    Saturation.FINITE
    """
    if isinstance(policy, Saturation):
        return policy
    if not isinstance(policy, str):
        raise TypeError(f"saturation must be a Saturation or a name, not {policy!r}")
    try:
        return Saturation(policy)
    except ValueError:
        names = ", ".join(member.value for member in Saturation)
        raise ValueError(f"unknown saturation {policy!r}; use one of {names}") from None


class Flag(enum.IntFlag):
    """Exception flags of a conversion, in the order of RISC-V and TestFloat; for `flags=`.

    Source: [IEEE754] 7; tininess is detected after rounding unless `Projection.tininess` says otherwise.
    """

    INEXACT = 1
    UNDERFLOW = 2
    OVERFLOW = 4
    DIVIDE_BY_ZERO = 8
    INVALID = 16


NanPolicy = Literal["error", "zero", "max", "negative_zero"]
PayloadPolicy = Literal["drop", "first", "signaling_first"]
SignPolicy = Literal["keep", "drop", "positive"]
NegativePolicy = Literal["nan", "zero", "error", "drop_sign"]
ZeroPolicy = Literal["nan", "smallest"]
SmallestPolicy = Literal["itself", "zero"]
SubnormalPolicy = Literal["keep", "flush_results", "flush_operands", "flush_both"]
OverflowTest = Literal["after", "before", "exponent"]
Tininess = Literal["after", "before"]

_CHOICES = {
    "nan": get_args(NanPolicy),
    "nan_payload": get_args(PayloadPolicy),
    "nan_sign": get_args(SignPolicy),
    "negative": get_args(NegativePolicy),
    "zero": get_args(ZeroPolicy),
    "smallest": get_args(SmallestPolicy),
    "subnormals": get_args(SubnormalPolicy),
    "overflow_test": get_args(OverflowTest),
    "tininess": get_args(Tininess),
}

#: What only binary formats take, and no codebook.
_BINARY_ONLY = {"overflow_test": "exponent", "smallest": "zero"}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Projection(Hashed):
    """Rules by which a real number becomes a code: round, then saturate, then encode.

    The defaults are what NumPy and IEEE 754 do. Fields name the one rule that they change.

    >>> Projection(rounding="toward_zero", saturation="finite")
    Projection(rounding='toward_zero', saturation='finite')

    Parameters
    ----------
    rounding : Rounding or str
    saturation : Saturation or str
    nan : {"error", "zero", "max", "negative_zero"}
        What a NaN operand becomes in a format without NaN: a ValueError, zero, the extreme finite
        value, or -0 for either sign.
    nan_code : int, optional
        The code, without its sign, to give wherever the result is NaN, instead of the format's own.
        In a format with a sign it takes the sign of the NaN, as the codes of numbers do: 0 stays 0
        where there is no negative zero.
    nan_payload : {"drop", "first", "signaling_first"}
        Whether a NaN operand is delivered with its payload, made quiet, where the format has IEEE
        754's NaNs; `nan_code` is then for those that no operand brings. Payloads are aligned at
        their highest bit. Of several NaN operands the first one counts; or the first signaling one,
        if any is, and of `fma` the addend before the factors, as on Arm.
    nan_sign : {"keep", "drop", "positive"}
        Which NaN results have a sign, where the format's NaNs have one: all keep that of the operand; all
        except those of NaN operands, so that a negative number that overflows to NaN keeps it; or none.
    negative : {"nan", "zero", "error", "drop_sign"}
        What a negative result becomes in an unsigned format; "nan" gives 0 where there is none.
    zero : {"nan", "smallest"}
        What zero becomes in a format without zero; "nan" gives the smallest where there is none.
    smallest : {"itself", "zero"}
        In a format without zero: what numbers near the smallest value are rounded to, that value, or a zero
        that has its code. Then those below the second smallest lie between zero and it, and modes to
        nearest take a tie of the two to zero. Frameworks round to `e8m0fnu` so, as they add to exponents:
        "zero" is for formats of powers of two.
    subnormals : {"keep", "flush_results", "flush_operands", "flush_both"}
        Which become zeros of their sign: results that are tiny (see `tininess`), operands that are
        subnormals of the type they come in, or both.
    symmetric : bool
        Leave the most negative code of two's complement unused.
    overflow_test : {"after", "before", "exponent"}
        Whether overflow is judged on the rounded value alone; or on the operand: then everything
        beyond the largest finite value overflows; or on its exponent too: from 2**(emax + 1) on
        it overflows in every mode, where rounding toward zero or to odd gives the largest value else.
    tininess : {"after", "before"}
        Which results are tiny, and so flushed, or an underflow where they are inexact: those that are
        below the smallest normal rounded with an unbounded exponent, or those of operands and exact
        results below it. So what rounds up to the smallest normal is tiny before rounding alone.
    via : tuple of Format or str
        Formats that the value is rounded to first, one after the other, to nearest even; operations
        are done in the first of them.

    Raises ValueError: a value that the field does not take.
    """

    rounding: Rounding = NEAREST_EVEN
    saturation: Saturation = Saturation.NONE
    nan: NanPolicy = "error"
    nan_code: int | None = None
    nan_payload: PayloadPolicy = "drop"
    nan_sign: SignPolicy = "keep"
    negative: NegativePolicy = "nan"
    zero: ZeroPolicy = "nan"
    smallest: SmallestPolicy = "itself"
    subnormals: SubnormalPolicy = "keep"
    symmetric: bool = False
    overflow_test: OverflowTest = "after"
    tininess: Tininess = "after"
    via: tuple[Format, ...] = ()

    if TYPE_CHECKING:  # names stand for objects

        def __init__(
            self,
            *,
            rounding: Rounding | str = ...,
            saturation: Saturation | str = ...,
            nan: NanPolicy = ...,
            nan_code: int | None = ...,
            nan_payload: PayloadPolicy = ...,
            nan_sign: SignPolicy = ...,
            negative: NegativePolicy = ...,
            zero: ZeroPolicy = ...,
            smallest: SmallestPolicy = ...,
            subnormals: SubnormalPolicy = ...,
            symmetric: bool = ...,
            overflow_test: OverflowTest = ...,
            tininess: Tininess = ...,
            via: tuple[Format | str, ...] = ...,
        ) -> None: ...

    __hash__ = Hashed.__hash__

    def __post_init__(self) -> None:
        object.__setattr__(self, "rounding", rounding(self.rounding))
        object.__setattr__(self, "saturation", saturation(self.saturation))
        choose(self, "a projection", **_CHOICES)
        truth(self, "a projection", "symmetric")
        if self.nan_code is not None and (type(self.nan_code) is not int or self.nan_code < 0):
            raise ValueError(f"nan_code={self.nan_code!r} of a projection must be a code, 0 or more, or None")
        if not isinstance(self.via, (tuple, list)):
            raise TypeError(f"via of a projection must be a tuple of Format, not {self.via!r}")
        via = tuple(carrier(stop) or find(stop) if isinstance(stop, str) else stop for stop in self.via)
        object.__setattr__(self, "via", via)
        for stop in self.via:
            # Integers hold no infinity or NaN that could pass through them.
            if not isinstance(stop, Format) or (isinstance(stop, Carrier) and not stop.exponent_bits):
                raise TypeError(f"via of a projection must be a tuple of Format, not {self.via!r}")

    @property
    def flushes_operands(self) -> bool:
        """True if operands that are subnormals of their type become zeros."""
        return self.subnormals in ("flush_operands", "flush_both")

    @property
    def flushes_results(self) -> bool:
        """True if tiny results become zeros."""
        return self.subnormals in ("flush_results", "flush_both")

    @property
    def binary_only(self) -> str:
        """The first field with a value that only binary formats take, as it is spelled; empty if none has.

        >>> Projection(smallest="zero").binary_only, Projection().binary_only
        ("smallest='zero'", '')
        """
        given = (name for name, value in _BINARY_ONLY.items() if getattr(self, name) == value)
        return next((f"{name}={_BINARY_ONLY[name]!r}" for name in given), "")

    def grid_of(self, fmt: Format) -> Format:
        """Return the format to whose values numbers are rounded: with a zero where the smallest is one.

        >>> from lowprec.spec.formats import E8M0FNU
        >>> [Projection(smallest=each).grid_of(E8M0FNU).subnormals for each in ("itself", "zero")]
        [False, True]
        """
        if self.smallest == "itself" or fmt.subnormals:
            return fmt
        if fmt.trailing_bits:
            raise ValueError(
                f"smallest='zero' of a projection is for formats of powers of two; {fmt.name!r} has "
                f"trailing_bits={fmt.trailing_bits}, leave it out"
            )
        return _WithZero(**{**by_field(fmt), "subnormals": True})

    def lacks_nan(self, fmt: Format) -> bool:
        """Return whether NaNs become a zero that a format lacks, which has no NaN either.

        >>> from lowprec.spec.formats import FORMATS
        >>> [Projection(nan="negative_zero").lacks_nan(FORMATS[name]) for name in ("int8", "e2m1fn", "e5m2")]
        [True, False, False]
        """
        if fmt.nan_code is not None or self.nan_code is not None:
            return False
        return {"zero": not fmt.subnormals, "negative_zero": not fmt.has_negative_zero}.get(self.nan, False)

    def __str__(self) -> str:
        said = [str(self.rounding)]
        for field in dataclasses.fields(self)[1:]:
            value = getattr(self, field.name)
            if field.name == "saturation" or value != field.default:
                said.append(
                    f"{field.name} "
                    f"{' and '.join(fmt.name for fmt in value) if field.name == 'via' else value}"
                )
        return ", ".join(said)

    def __repr__(self) -> str:
        stochastic = isinstance(self.rounding, Rounding) and self.rounding.bits > 0
        names = (*MODES, *Saturation, *([self.rounding] if stochastic else []))
        return described(self, lambda value: value in names)


class _WithZero(Format):
    """The values of a format whose smallest is a zero, which may be the only one."""

    __slots__ = ()

    def _check(self) -> None:
        """Refuse nothing: the format itself was checked."""


DEFAULT = Projection()
