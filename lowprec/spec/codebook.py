"""A format given as its values: which number each code stands for, and where rounding changes its answer.

Posits, takums, logarithmic numbers, codebooks of quantisers: whatever finite set of numbers has codes is one.
A `Codebook` is a `Format` without the parameters of a binary format; to ask for one of these is an error.

Floor 1. Imports the standard library only.

Notation:

    ray        the values of one sign, from zero outward: what rounding walks along
    place      of a value on its ray, from 0
    threshold  the number between two neighbouring values at which modes to nearest change their answer
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import itertools
import math
import struct
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from lowprec.spec.fields import by_field, check_line, choose
from lowprec.spec.format import Format, Sign, holds
from lowprec.spec.rounding import NEAREST_AWAY, NEAREST_EVEN, NEAREST_ZERO, Rounding, Threshold

#: A finite number: a float64, or what float64 does not hold.
Number = float | Fraction

#: Significant bits of a threshold, at most, and of the number beyond an overflow: what kernels hold.
_BITS, _BEYOND_BITS = 120, 128

_UP = Rounding(
    "nearest_up", Threshold.HALF_OR_ABOVE, Threshold.HALF_OR_ABOVE, Threshold.ABOVE_HALF, Threshold.ABOVE_HALF
)
_DOWN = Rounding(
    "nearest_down",
    Threshold.ABOVE_HALF,
    Threshold.ABOVE_HALF,
    Threshold.HALF_OR_ABOVE,
    Threshold.HALF_OR_ABOVE,
)

#: What `nearest_even` does at a threshold of a codebook, by the name of its rule.
TIES = {"even": NEAREST_EVEN, "away": NEAREST_AWAY, "zero": NEAREST_ZERO, "up": _UP, "down": _DOWN}


class Ray(NamedTuple):
    """The values of one sign, from zero outward.

    Between `sizes[i]` and `sizes[i + 1]` lies `thresholds[i]`; the last threshold is where numbers overflow,
    and `beyond` the size that they would then have. Both are None where nothing overflows.
    """

    sizes: tuple[float, ...]  #: ascending; the first is negative if a value of the other sign is next to zero
    codes: tuple[int, ...]
    thresholds: tuple[Number | None, ...]
    beyond: Number | None

    def size(self, place: int) -> Number | None:
        """Return the size at a place, of the one past the last too."""
        return self.beyond if place == len(self.sizes) else self.sizes[place]


@dataclasses.dataclass
class _Fields:
    """The fields of a `Codebook`, for `dataclasses.replace` and files."""

    name: str
    values: tuple[Number, ...]
    thresholds: tuple[Number, ...] | None = None
    ties: str = "even"
    overflow: str | Number = "gap"
    source: str = ""


class Codebook(Format):
    """A format given as its values.

    It stands wherever a format may: in the verbs, operations, dot products, blocks, tables and vectors.

    >>> ternary = Codebook("ternary", [0.0, 1.0, float("nan"), -1.0])
    >>> ternary.width, ternary.max_finite, ternary.nan_code
    (2, 1.0, 2)

    Parameters
    ----------
    name : str
        For people; two codebooks that differ in name alone are equal.
    values : sequence of float, int or Fraction
        The value of each code, 4 to 65,536 of them, a power of two. Finite ones are float64 numbers and
        differ from one another; -0.0 is a value beside 0.0. At most one infinity of each sign. NaNs fill what
        is left: the first is the one that results become.
    thresholds : sequence of float, int or Fraction, optional
        Between each finite value and the next, in ascending order of values: the number at which modes to
        nearest change from one to the other, from the lower value up to the higher one. By default midpoints.
    ties : {"even", "away", "zero", "up", "down"}
        What `nearest_even` takes at a threshold: the value whose code is even, the one farther from zero or
        nearer to it, the higher or the lower one. Other modes have ties of their own.
    overflow : "gap", "never" or a number
        Which numbers overflow: those that would be rounded to one more value after the extreme one, as far
        from it as the one before; none, as posits have it; or, in modes to nearest, those of more than this
        magnitude. A number of just this magnitude is a tie between the extreme value and overflow.
    source : str
        Key in docs/references.md.

    Raises ValueError: values or thresholds that make no format; the message names the first code at fault.

    `dataclasses.replace` keeps the thresholds too; give thresholds=None beside other values for midpoints.

    Numbers between the two values next to zero are rounded to one of these, if there is no zero. What lies
    outside of the values' range then, zero too, has the rules of formats without zero (`Projection.zero`).
    No result is tiny: nothing underflows or is flushed, but that numbers below the smallest of such a format
    underflow.

    Source: docs/decisions/0034.
    """

    __slots__ = ("_hash", "_nan", "_rays", "overflow", "thresholds", "ties", "values")
    __dataclass_fields__ = _Fields.__dataclass_fields__

    values: tuple[float, ...]
    thresholds: tuple[Number, ...]
    ties: str
    overflow: str | Number

    def __init__(
        self,
        name: str,
        values: Sequence[float | Fraction],
        *,
        thresholds: Sequence[float | Fraction] | None = None,
        ties: str = "even",
        overflow: str | float | Fraction = "gap",
        source: str = "",
    ) -> None:
        if not isinstance(name, str) or not isinstance(source, str):
            raise TypeError(f"name and source of a codebook must be strings, not {name!r} and {source!r}")
        owner = f"codebook {name!r}"
        count = len(values)
        if count < 4 or count > 1 << 16 or count & (count - 1):
            raise ValueError(
                f"values of {owner} are {count:,}; give one for each code, 4 to 65,536 and a power of two. "
                "Codes without a value can be NaN: one bit is [-1, 1, nan, nan], of which two are used"
            )
        self._set(name=name, source=source, ties=ties)
        choose(self, owner, ties=tuple(TIES))
        given = tuple(_double(value, code, owner) for code, value in enumerate(values))
        self._set(values=given)
        finite = self._finite(owner)
        nans = [code for code, value in enumerate(given) if math.isnan(value)]
        self._set(
            sign=Sign.MAGNITUDE
            if any(value < 0 for value, _ in finite) or _negative_zero(given)
            else Sign.UNSIGNED,
            nans=len(nans),
            infinity=math.inf in given or -math.inf in given,
            negative_zero=True,
            subnormals=any(value == 0 for value, _ in finite),
            _nan=nans[0] if nans else None,
        )
        self._set(thresholds=self._between(finite, thresholds, owner))
        self._set(overflow=self._limit(finite, overflow, owner))
        self._set(_rays=tuple(self._ray(finite, negative) for negative in (False, True)))
        self._set(_hash=hash((self._key()[0], ties)))  # hashes of many long thresholds would take time
        self._check()

    def _set(self, **fields: Any) -> None:
        for field, value in fields.items():
            object.__setattr__(self, field, value)

    def _check(self) -> None:
        """Refuse texts that are no names and keys; all else is checked where it is read."""
        for field in ("name", "source"):
            check_line("a codebook", field, getattr(self, field))

    # -- what is given, checked -------------------------------------------------------------------

    def _finite(self, owner: str) -> list[tuple[float, int]]:
        """Return the finite values in ascending order with their codes, -0 left out where there is 0."""
        seen: dict[object, int] = {}
        finite = []
        for code, value in enumerate(self.values):
            if math.isnan(value):
                continue
            key: object = "-0" if _is_negative_zero(value) else value
            if key in seen:
                raise ValueError(
                    f"values of {owner} are not all different: codes {seen[key]:#x} and {code:#x} are both "
                    f"{value!r}; make one of them NaN"
                )
            seen[key] = code
            if key != "-0" and math.isfinite(value):
                finite.append((value, code))
        for lacks, missing in (
            ("0.0", 0 not in seen),
            ("negative number", not any(value < 0 for value, _ in finite)),
        ):
            if "-0" in seen and missing:
                raise ValueError(
                    f"values of {owner} have -0.0 (code {seen['-0']:#x}) but no {lacks}; give that too"
                )
        if len(finite) < 2 or all(value <= 0 for value, _ in finite):
            raise ValueError(
                f"values of {owner} have no two finite numbers of which one is positive; give at least these"
            )
        return sorted(finite)

    def _between(
        self, finite: list[tuple[float, int]], given: Sequence[float | Fraction] | None, owner: str
    ) -> tuple[Number, ...]:
        """Return the thresholds between neighbours, checked."""
        pairs = list(itertools.pairwise(finite))
        if given is None:
            found = [_short((Fraction(low) + Fraction(high)) / 2) for (low, _), (high, _) in pairs]
        else:
            if len(given) != len(pairs):
                raise ValueError(
                    f"thresholds of {owner} are {len(given):,}; its {len(finite):,} finite values have "
                    f"{len(pairs):,} gaps. Give one for each"
                )
            found = [_finite(each, "threshold %d of %s", i, owner) for i, each in enumerate(given)]
        for each, ((low, code), (high, _)) in zip(found, pairs, strict=True):
            if not low < float(each) < high and not low <= each <= high:
                raise ValueError(
                    f"threshold {float(each)!r} of {owner} lies outside its gap, from {float(low)!r} "
                    f"(code {code:#x}) to {float(high)!r}; give thresholds in ascending order of values"
                )
            if not _is_short(each):
                raise ValueError(
                    f"the threshold of {owner} above code {code:#x} is no binary fraction of at most {_BITS} "
                    "significant bits; give thresholds= that are, such as the nearest ones"
                )
        return tuple(found)

    def _limit(
        self, finite: list[tuple[float, int]], given: str | float | Fraction, owner: str
    ) -> str | Number:
        """Return from where on numbers overflow, checked."""
        if isinstance(given, str):
            if given not in ("gap", "never"):
                raise ValueError(f'overflow={given!r} of {owner} is unknown; use "gap", "never" or a number')
            return given
        limit = _finite(given, "overflow of %s", owner)
        extreme = max(abs(finite[0][0]) if self.sign is Sign.MAGNITUDE else 0, finite[-1][0])
        if limit <= extreme:
            raise ValueError(
                f"overflow={float(limit)!r} of {owner} must lie beyond its extreme value, {float(extreme)!r}"
            )
        if not _is_short(limit):
            raise ValueError(f"overflow of {owner} is no binary fraction of at most {_BITS} significant bits")
        return limit

    def _ray(self, finite: list[tuple[float, int]], negative: bool) -> Ray:
        """Return one side of the values; that of an unsigned codebook mirrors the positive one."""
        sizes, codes = [value for value, _ in finite], [code for _, code in finite]
        between: list[Number | None] = list(self.thresholds)
        if negative and self.sign is Sign.MAGNITUDE:
            sizes, codes = [-size for size in reversed(sizes)], codes[::-1]
            between = [None if each is None else -each for each in reversed(between)]
            if self.has_negative_zero:
                codes[sizes.index(0)] = next(
                    i for i, each in enumerate(self.values) if _is_negative_zero(each)
                )
        start = max((i for i, size in enumerate(sizes) if size <= 0), default=0)
        sizes = [abs(size) if size == 0 else size for size in sizes[start:]]
        codes, between = codes[start:], between[start:]
        last = Fraction(sizes[-1])
        beyond: Number | None = None
        limit: Number | None = None
        if isinstance(self.overflow, Number):
            limit = self.overflow
            beyond = _short(2 * Fraction(limit) - last)
            if not _is_short(beyond, _BEYOND_BITS):
                raise ValueError(
                    f"overflow={float(limit)!r} of codebook {self.name!r} lies too far beyond {sizes[-1]!r}: "
                    f"their distance has more than {_BEYOND_BITS} significant bits"
                )
        elif self.overflow == "gap":
            gap = last - Fraction(sizes[-2]) if len(sizes) > 1 else abs(last)
            beyond, limit = _short(last + gap), _short(last + gap / 2)
            if not _is_short(limit):
                raise ValueError(
                    f"overflow='gap' of codebook {self.name!r} would begin at a number of more than {_BITS} "
                    'significant bits; give overflow="never", or a number'
                )
        return Ray(tuple(sizes), tuple(codes), (*between, limit), beyond)

    # -- what formats have ------------------------------------------------------------------------

    @property
    def width(self) -> int:
        """Bits of a code."""
        return len(self.values).bit_length() - 1

    @property
    def has_negative_zero(self) -> bool:
        """True if there is a code of -0."""
        return _negative_zero(self.values)

    @property
    def has_nan(self) -> bool:
        """True if any code is a NaN."""
        return self.nans > 0

    @property
    def has_signed_nan(self) -> bool:
        """False: no NaN of a codebook carries a sign."""
        return False

    @property
    def nan_code(self) -> int | None:
        """The code that stands for NaN in results, or None."""
        return self._nan  # type: ignore[no-any-return]

    @property
    def infinity_code(self) -> int | None:
        """The code of +Inf, or None."""
        return self.infinity_codes[0]

    @property
    def infinity_codes(self) -> tuple[int | None, int | None]:
        """The codes of +Inf and -Inf, each None where there is none."""
        first, second = (
            self.values.index(each) if each in self.values else None for each in (math.inf, -math.inf)
        )
        return first, second

    @property
    def payload_bits(self) -> None:
        """Bits of a NaN's payload: a codebook's NaNs carry none, and none signals."""
        return None

    quiet_bit = payload_bits

    @property
    def max_finite(self) -> float:
        """The largest value."""
        return max(value for value in self.values if math.isfinite(value))

    @property
    def min_finite(self) -> float:
        """The smallest value: the most negative one, if there is any."""
        return min(value for value in self.values if math.isfinite(value))

    @property
    def min_normal(self) -> None:
        """A codebook has no normal range."""
        return None

    @property
    def min_subnormal(self) -> float | None:
        """The smallest positive value where that is next to zero, else None."""
        ray = self.ray(False)
        return ray.sizes[1] if self.subnormals and len(ray.sizes) > 1 else None

    @property
    def eps(self) -> float | None:
        """The gap above 1, or None where 1 has no code or no finite neighbour above."""
        sizes = self.ray(False).sizes
        return sizes[sizes.index(1.0) + 1] - 1 if 1.0 in sizes[:-1] else None

    def ray(self, negative: bool) -> Ray:
        """Return the values of one sign, from zero outward; the positive ones where there are no others."""
        return self._rays[negative]  # type: ignore[no-any-return]

    def mode(self, rounding: Rounding) -> Rounding:
        """Return the mode itself, or for `nearest_even` the one that has the codebook's own ties."""
        return TIES[self.ties] if rounding == NEAREST_EVEN else rounding

    def contains(self, other: Format) -> bool:
        """Return whether this format has all that `other` has: numbers, signed zeros, infinities, NaN."""
        return isinstance(other, Codebook) and other.is_within(self)

    def is_within(self, fmt: Format) -> bool:
        """Return whether a format has all that this one has."""
        return _is_within(self, fmt)

    # -- identity ---------------------------------------------------------------------------------

    def _key(self) -> tuple[bytes, tuple[Number, ...], str, str | Number]:
        """Return what compares by meaning: NaNs are equal, and zeros of unlike signs are not."""
        plain = [_QUIET if math.isnan(value) else value for value in self.values]
        return struct.pack(f"<{len(plain)}d", *plain), self.thresholds, self.ties, self.overflow

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Codebook):
            return NotImplemented
        return self is other or (self._hash == other._hash and self._key() == other._key())

    def __hash__(self) -> int:
        return self._hash  # type: ignore[no-any-return]

    def __reduce__(self) -> tuple[Any, ...]:
        return functools.partial(Codebook, **by_field(self)), ()

    def __setattr__(self, name: str, value: object) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")

    def __getattribute__(self, name: str) -> Any:
        if name in _PARAMETERS:
            raise AttributeError(
                f"{name} of {self.name!r}: it is a codebook, given as its values, and has no such parameter"
            )
        return super().__getattribute__(name)

    def __repr__(self) -> str:
        """Return a line that two codebooks of one name share only if they are equal."""
        plain, thresholds, ties, overflow = self._key()
        numbers = [each.as_integer_ratio() for each in thresholds]
        limit = overflow if isinstance(overflow, str) else overflow.as_integer_ratio()
        digest = hashlib.sha256(plain + repr((numbers, ties, limit)).encode()).hexdigest()[:16]
        span = f"from {self.min_finite!r} to {self.max_finite!r}"
        return f"Codebook({self.name!r}, {len(self.values)} values {span}, digest {digest})"


#: The NaN that stands for all when codebooks are compared.
_QUIET = float("nan")

#: What binary formats have, and codebooks have not.
_PARAMETERS = (
    *("exponent_bits", "trailing_bits", "bias", "sign_code", "max_magnitude"),
    *("precision", "emin", "emax", "scaled"),
)


def _double(value: object, code: int, owner: str) -> float:
    """Return a value as the float64 that it is."""
    if type(value) is float:
        return value
    if isinstance(value, bool) or not (isinstance(value, int) or hasattr(value, "as_integer_ratio")):
        raise TypeError(
            f"the value of code {code:#x} of {owner} must be a float, an integer or a Fraction, not {value!r}"
        )
    if isinstance(value, int | Fraction) and abs(Fraction(value)) >= 1 << 1024:
        raise ValueError(f"the value of code {code:#x} of {owner} is beyond float64's range")
    number = float(value)  # type: ignore[arg-type]  # such as NumPy's float32, which is no float
    if not isinstance(value, float) and value != number and number == number:
        raise ValueError(
            f"the value of code {code:#x} of {owner}, {value}, is no float64 number, which lowprec carries "
            f"values in; give float({value})"
        )
    return number


def _finite(value: Any, what: str, *of: object) -> Number:
    """Return a finite number as a float where it is one."""
    if isinstance(value, bool) or not hasattr(value, "as_integer_ratio"):  # NumPy's float32 has it, too
        raise TypeError(f"{what % of} must be a float, an integer or a Fraction, not {value!r}")
    if not isinstance(value, int | Fraction) and not math.isfinite(value):
        raise ValueError(f"{what % of} must be finite, not {float(value)!r}")
    return float(value) if isinstance(value, float) else _short(Fraction(*value.as_integer_ratio()))


def _short(number: Fraction) -> Number:
    """Return a number as a float where it is one."""
    over = number.numerator
    if over.bit_length() > 53 and (over & (1 << over.bit_length() - 53) - 1):
        return number
    try:
        short = float(number)
    except OverflowError:
        return number
    return short if short.as_integer_ratio() == (number.numerator, number.denominator) else number


def _is_short(number: Number, bits: int = _BITS) -> bool:
    """Return whether a number is a binary fraction of at most so many significant bits."""
    if isinstance(number, float):
        return True
    size, below = abs(number.numerator), number.denominator
    return not below & (below - 1) and (size == 0 or size.bit_length() - (size & -size).bit_length() < bits)


def _is_negative_zero(value: float) -> bool:
    return value == 0 and math.copysign(1, value) < 0


def _negative_zero(values: tuple[float, ...]) -> bool:
    return any(_is_negative_zero(value) for value in values)


@functools.lru_cache(maxsize=1024)
def _is_within(book: Codebook, fmt: Format) -> bool:
    lacks = (
        (book.infinity and not fmt.infinity)
        or (book.has_nan and not fmt.has_nan)
        or (book.has_negative_zero and not fmt.has_negative_zero)
    )
    if lacks:
        return False
    finite = {value for value in book.values if math.isfinite(value)}
    if isinstance(fmt, Codebook):
        return finite <= set(fmt.values)
    return all(holds(fmt, Fraction(value)) for value in finite)
