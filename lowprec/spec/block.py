"""The block format: elements that share a scale, as parameters.

A block is a group of neighbours along one axis, or a tile of two. Its scale follows from its largest
magnitude by a rule; the elements are the values divided by the scale. Other differences between stacks are
fields too, so that a `BlockFormat` describes a stack's blocks completely.

Floor 1. Imports the standard library only.

Notation:

    amax    the largest magnitude among the finite values of a block, or of the whole tensor
    scale   the number that multiplies decoded elements: the block's, times the tensor's if there is one
"""

from __future__ import annotations

import dataclasses
import math
import operator
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, get_args

from lowprec.spec import formats
from lowprec.spec.codebook import Codebook
from lowprec.spec.codebooks import ENTRIES, named
from lowprec.spec.fields import LARGEST_SIZE, Hashed, choose, described, text, truth
from lowprec.spec.format import Carrier, Format, Sign
from lowprec.spec.projection import Projection, Saturation

Divisor = Literal["binade", "maximum", "one"]
Powers = Literal["none", "down", "up", "even", "nearest"]


@dataclass(frozen=True, slots=True)
class ScaleRule:
    """Rule by which the scale of a block follows from its amax: a quotient, or a power of two near it.

    >>> rule("floor")
    ScaleRule(name='floor', divisor='binade', powers='down', threshold=None)
    >>> rule("nearest(4/3)").threshold
    Fraction(4, 3)

    Parameters
    ----------
    name : str
    divisor : {"binade", "maximum", "one"}
        The divisor of amax: the power of two at or below the element's largest value, that
        value itself, or 1.
    powers : {"none", "down", "up", "even", "nearest"}
        What the quotient becomes before the scale's format sees it: itself, or 2**k or 2**(k + 1)
        where it is s * 2**k with 1 <= s < 2. "up": the latter unless s is 1. "even": the latter
        where amax, rounded to the element's precision with ties away from zero, reaches the next
        binade; k is the quotient's, but the exact amax itself is rounded, even where a tensor has a scale
        or the quotient is computed in binary32. "nearest": the latter where s >= `threshold`.
    threshold : Fraction, optional
        Of "nearest": above 1, below 2; None is the square root of 2, nearest in the logarithm.

    Source: [OCPMX] 6.3 for floor; [TORCHAO] for ceil, even and rceil; [PTX] cvt.rp for rceil; [P3109] for
    project.
    """

    name: str
    divisor: Divisor
    powers: Powers
    threshold: Fraction | None = None

    def __post_init__(self) -> None:
        text(self, "a scale rule", "name")
        choose(self, "a scale rule", divisor=get_args(Divisor), powers=get_args(Powers))
        if self.threshold is not None:
            if self.powers != "nearest":
                raise ValueError(
                    f"threshold={self.threshold} of a scale rule is for powers='nearest'; leave it out"
                )
            if not isinstance(self.threshold, Fraction):
                raise TypeError(f"threshold of a scale rule must be a Fraction, not {self.threshold!r}")
            if not 1 < self.threshold < 2:
                raise ValueError(f"threshold={self.threshold} of a scale rule must lie above 1 and below 2")

    def __str__(self) -> str:
        return self.name

    def divides_by(self, element: Format) -> Fraction:
        """Return the divisor of amax, for elements of a format.

        >>> from lowprec.spec.catalog import E2M1FN
        >>> [str(rule(name).divides_by(E2M1FN)) for name in ("floor", "rceil", "project")]
        ['4', '6', '1']
        """
        largest = Fraction(element.max_finite)
        lead = largest.numerator.bit_length() - largest.denominator.bit_length()
        binade = Fraction(2) ** (lead - (Fraction(2) ** lead > largest))
        return {"maximum": largest, "one": Fraction(1), "binade": binade}[self.divisor]

    def next_power_from(self, element: Format) -> tuple[Fraction, bool]:
        """Return the square of the s from which on the power is 2**(k + 1), and whether s itself has that.

        The square, as that of the square root of 2 is rational.

        >>> from lowprec.spec.catalog import E2M1FN
        >>> [(str(square), from_on) for square, from_on in
        ...  (rule(name).next_power_from(E2M1FN) for name in ("floor", "ceil", "even", "nearest"))]
        [('4', True), ('1', False), ('49/16', True), ('2', True)]

        Raises ValueError: a rule with ``powers="none"``.
        """
        if self.powers == "none":
            raise ValueError(
                f"scale rule {self.name!r} has powers='none': its quotients become no powers of two; use a "
                f"rule with another"
            )
        squares = {"down": Fraction(4), "up": Fraction(1)}
        if self.powers == "even":
            squares["even"] = (2 - Fraction(1, 1 << element.precision)) ** 2
        squares["nearest"] = Fraction(2) if self.threshold is None else self.threshold**2
        return squares[self.powers], self.powers != "up"


FLOOR = ScaleRule("floor", "binade", "down")
CEIL = ScaleRule("ceil", "binade", "up")
EVEN = ScaleRule("even", "binade", "even")
RCEIL = ScaleRule("rceil", "maximum", "up")
NEAREST = ScaleRule("nearest", "maximum", "nearest")
PROJECT = ScaleRule("project", "one", "none")
DIVIDE = ScaleRule("divide", "maximum", "none")

#: Every rule, in the order of documents and tables.
RULES = (FLOOR, CEIL, EVEN, RCEIL, NEAREST, PROJECT, DIVIDE)

_BY_NAME = {item.name: item for item in RULES}
_NEAREST_NAME = re.compile(r"nearest\((\d{1,9})/(\d{1,9})\)")


def rule(name: ScaleRule | str) -> ScaleRule:
    """Return the scale rule of that name, or the rule itself.

    >>> rule("rceil") is RCEIL
    True
    """
    if isinstance(name, ScaleRule):
        return name
    if not isinstance(name, str):
        raise TypeError(f"rule must be a ScaleRule or a name, not {name!r}")
    if (match := _NEAREST_NAME.fullmatch(name)) and int(match[2]):
        threshold = Fraction(int(match[1]), int(match[2]))
        return ScaleRule(f"nearest({threshold})", "maximum", "nearest", threshold)
    if name not in _BY_NAME:
        raise ValueError(
            f"unknown scale rule {name!r}; use one of {', '.join(_BY_NAME)} or nearest(<fraction>)"
        )
    return _BY_NAME[name]


TensorScale = Literal["none", "divide", "reciprocal"]
Arithmetic = Literal["exact", "product", "reciprocal", "reciprocals"]
ZeroBlock = Literal["smallest", "one", "rule"]
NanBlock = Literal["block", "scale", "all", "elements"]
InfinityBlock = Literal["block", "power", "largest", "elements"]

_CHOICES = {
    "tensor_scale": get_args(TensorScale),
    "arithmetic": get_args(Arithmetic),
    "zero": get_args(ZeroBlock),
    "nan": get_args(NanBlock),
    "infinity": get_args(InfinityBlock),
}

#: Significant bits of a codebook's scales whose product with that of a tensor kernels hold.
_MOST_BITS = 40

_FINITE = Projection(saturation=Saturation.FINITE)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class BlockFormat(Hashed):
    """A block format: the elements, their scale, and how both follow from the values.

    The scale of a block is the rule's quotient, projected into the scale's format; the elements are
    the values divided by the projected scale, each projected once. A tail that does not fill a block
    is a block of its own.

    >>> mine = BlockFormat(name="mine", element="e2m1fn", scale="e8m0fnu", size=32, rule="rceil")
    >>> mine.bits_per_value, mine.sizes
    (4.25, (32,))

    Parameters
    ----------
    name : str
        For people; two block formats that differ in name alone are equal.
    element, scale : Format or str
        Of the elements' codes, and of one code for each block. Scales may be in a codebook that has no
        negative values or has a zero; rules that make powers of two are for one that has all of these between
        its smallest and its largest value.
    size : int or pair of int
        Values of a block along one axis, or along two; each 1 to 2**32.
    rule : ScaleRule or str
    tensor_scale : {"none", "divide", "reciprocal"}
        Whether there is a binary32 scale of the whole tensor: its amax over the product of the
        element's and the scale's largest values, rounded to nearest even; or 1 over the rounded
        inverse of that, all in binary32, to which amax itself is rounded first. 1 for a tensor
        without non-zero finite values; never 0.
    elements, scales : Projection
        Of the elements, and of the scales; `finite` saturation by default. Neither goes `via` other formats,
        nor keeps payloads of NaNs; the `nan_code` of scales is no negative number.
    arithmetic : {"exact", "product", "reciprocal", "reciprocals"}
        How quotients are computed. "exact": as real numbers. The others round each step to binary32,
        nearest even: with amax of a block, d what the rule divides by, t the tensor's scale
        (1 without one) and s the block's,

        =============  =====================  ==================
        arithmetic     the rule's quotient    element x
        =============  =====================  ==================
        product        amax / (d * t)         x / (s * t)
        reciprocal     amax * (1/t * (1/d))   x * (1 / (s * t))
        reciprocals    (amax / d) / t         x * ((1 / t) / s)
        =============  =====================  ==================

        1/t of "reciprocal" is the inverse that t was rounded from, where tensor_scale is "reciprocal"
        too. What is too large stops at the largest finite number, and so does a number over 0; 0 over
        0 is 0, with the sign of an element. An exact quotient by a scale of 0 is 0 likewise.
    min_scale : float
        Quotients below this are raised to it before they are projected.
    smallest_divides_as : float, optional
        The divisor of elements where the scale is its format's smallest value; None: that value.
    zero : {"smallest", "one", "rule"}
        The scale of a block without non-zero finite values: the smallest (code 0, but in a codebook), the
        code of 1, or the rule's for 0.
        That may be NaN, in a format without zero: then elements are as `nan` says of a block with a NaN,
        and of code 0 where it says "elements".
    nan : {"block", "scale", "all", "elements"}
        What a block with a NaN becomes: a NaN scale and elements of code 0; a NaN scale and zeros of the
        values' signs, NaN for NaN; a NaN scale and NaN for all elements; or what it is without the NaN,
        which is projected like a value.
    infinity : {"block", "power", "largest", "elements"}
        What a block with an infinity, but no NaN that counts, becomes: a NaN scale and elements of
        code 0; a scale as if it were the power of two after binary32's largest value; the largest
        scale; or what it is without it. Infinite elements are then projected like a value.
    flush_subnormals : bool
        Blocks whose amax is below 2**-126 count as zeros of the values' signs.
    source : str
        Key in docs/references.md.

    Raises ValueError: parameters that are no block format; the message names the field at fault.

    Source: [OCPMX] 5 and 6; [NVFP4]; docs/decisions/0009.
    """

    name: str = dataclasses.field(compare=False)
    element: Format
    scale: Format
    size: int | tuple[int, int]
    rule: ScaleRule = FLOOR
    tensor_scale: TensorScale = "none"
    elements: Projection = _FINITE
    scales: Projection = _FINITE
    arithmetic: Arithmetic = "exact"
    min_scale: float = 0.0
    smallest_divides_as: float | None = None
    zero: ZeroBlock = "smallest"
    nan: NanBlock = "block"
    infinity: InfinityBlock = "block"
    flush_subnormals: bool = False
    source: str = dataclasses.field(default="", compare=False)

    if TYPE_CHECKING:  # names stand for objects

        def __init__(
            self,
            *,
            name: str,
            element: Format | str,
            scale: Format | str,
            size: int | tuple[int, int],
            rule: ScaleRule | str = ...,
            tensor_scale: TensorScale = ...,
            elements: Projection = ...,
            scales: Projection = ...,
            arithmetic: Arithmetic = ...,
            min_scale: float = ...,
            smallest_divides_as: float | None = ...,
            zero: ZeroBlock = ...,
            nan: NanBlock = ...,
            infinity: InfinityBlock = ...,
            flush_subnormals: bool = ...,
            source: str = ...,
        ) -> None: ...

    __hash__ = Hashed.__hash__

    def __post_init__(self) -> None:
        text(self, "a block format", "name", "source")
        for name in ("element", "scale"):
            if isinstance(getattr(self, name), str):
                try:
                    object.__setattr__(self, name, formats.find(getattr(self, name)))
                except ValueError as error:
                    raise ValueError(f"{name} of block format {self.name!r}: {error}") from None
            if not isinstance(getattr(self, name), Format):
                raise TypeError(f"{name} of a block format must be a Format, not {getattr(self, name)!r}")
            if isinstance(getattr(self, name), Carrier):
                raise ValueError(
                    f"{name}={getattr(self, name).name!r} of block format {self.name!r} is a type that "
                    f"values come in, not a format to encode to; use a Format of at most 32 bits"
                )
        for name in ("elements", "scales"):
            if not isinstance(getattr(self, name), Projection):
                raise TypeError(f"{name} of a block format must be a Projection, not {getattr(self, name)!r}")
            if getattr(self, name).via:
                raise ValueError(
                    f"{name} of block format {self.name!r} goes via other formats; blocks round once"
                )
            if getattr(self, name).nan_payload != "drop":
                raise ValueError(
                    f"{name} of block format {self.name!r} keeps payloads of NaNs, but those of a block are "
                    f"made by its rules; use nan_payload='drop'"
                )
        if _is_negative_number(self.scales.nan_code, self.scale):
            raise ValueError(
                f"scales of block format {self.name!r} have nan_code={self.scales.nan_code}, a negative "
                f"number of {self.scale.name!r}, but no scale is negative; use a NaN's code or that of a "
                "positive number"
            )
        object.__setattr__(self, "rule", rule(self.rule))
        choose(self, "a block format", **_CHOICES)
        truth(self, "a block format", "flush_subnormals")
        self._check_codebooks()
        self._check_sizes()
        for name in ("min_scale", "smallest_divides_as"):
            value = getattr(self, name)
            if value is None and name == "smallest_divides_as":
                continue
            if type(value) is not float:
                raise TypeError(f"{name} of a block format must be a float, not {value!r}")
            if not 0.0 <= value < float("inf") or (name == "smallest_divides_as" and value == 0.0):
                least = "0 or more" if name == "min_scale" else "above 0"
                raise ValueError(f"{name}={value!r} of block format {self.name!r} must be finite and {least}")
            if _significant_bits(value) > 24:
                raise ValueError(
                    f"{name}={value!r} of block format {self.name!r} has more than 24 significant bits; use "
                    f"a number that binary32 has"
                )

    def _check_codebooks(self) -> None:
        """Refuse codebooks that scales cannot be in, and rules that kernels cannot divide by exactly."""
        owner, element = f"of block format {self.name!r}", self.element
        for name, fmt, how in (("elements", element, self.elements), ("scales", self.scale, self.scales)):
            if isinstance(fmt, Codebook) and how.binary_only:
                raise ValueError(
                    f"{how.binary_only} of the {name} {owner} is for binary formats; {fmt.name!r} is a "
                    f"codebook, which has no exponents. Leave it out"
                )
        if isinstance(self.scale, Codebook):
            self._check_scale(self.scale, f"scale={self.scale.name!r} {owner}")
        if not isinstance(element, Codebook):
            return
        if self.rule.powers == "even":
            raise ValueError(
                f"rule={self.rule.name!r} {owner} asks for the precision of {element.name!r}, which is a "
                "codebook; use a rule with other powers, such as 'nearest'"
            )
        if _significant_bits(self.rule.divides_by(element)) > 24:
            raise ValueError(
                f"rule={self.rule.name!r} {owner} divides by {element.max_finite!r}, the largest value of "
                f"{element.name!r}, which has more than 24 significant bits; use a rule that divides by "
                "a power of two, such as 'floor'"
            )

    def _check_scale(self, book: Codebook, said: str) -> None:
        """Refuse what gives negative scales, lacks those of the rule, or has too many bits for products."""
        if book.min_finite < 0 and not book.subnormals:
            raise ValueError(
                f"{said} has negative values and no zero, so small quotients would become negative scales; "
                "use a codebook with a zero, or without negative values"
            )
        if self.rule.powers != "none" and (missing := _missing_power(book)) is not None:
            raise ValueError(
                f"{said} lacks 2**{missing}, and rule={self.rule.name!r} makes quotients powers of two; use "
                "'divide' or 'project', which round the quotient itself to the codebook's values"
            )
        most = max(map(_significant_bits, (each for each in book.values if math.isfinite(each))))
        if self.tensor_scale != "none" and most > _MOST_BITS:
            raise ValueError(
                f"{said} has values of {most} significant bits, and the product with a tensor's scale is "
                f"exact for {_MOST_BITS} at most; use tensor_scale='none', or another format for scales"
            )

    def _check_sizes(self) -> None:
        sizes = tuple(self.size) if isinstance(self.size, (tuple, list)) else (self.size,)
        if not all(hasattr(size, "__index__") and not isinstance(size, bool) for size in sizes):
            raise TypeError(f"size of a block format must be an integer or a pair of them, not {self.size!r}")
        sizes = tuple(int(operator.index(size)) for size in sizes)
        pair = isinstance(self.size, (tuple, list))
        object.__setattr__(self, "size", sizes if pair else sizes[0])
        if len(sizes) != 1 + pair or not all(1 <= size <= LARGEST_SIZE for size in sizes):
            raise ValueError(
                f"size={self.size!r} of block format {self.name!r} must be 1 to {LARGEST_SIZE:,}, or a pair "
                "of such"
            )

    @property
    def sizes(self) -> tuple[int, ...]:
        """Values of a block along each of its axes: one number, or two."""
        return self.size if isinstance(self.size, tuple) else (self.size,)

    @property
    def smallest_scale(self) -> int:
        """The code of the scale 0, or of the smallest positive one where there is no zero."""
        return self.scale.ray(False).codes[0] if isinstance(self.scale, Codebook) else 0

    @property
    def largest_scale(self) -> int:
        """The code of the largest finite scale."""
        scale = self.scale
        return scale.ray(False).codes[-1] if isinstance(scale, Codebook) else scale.max_magnitude

    @property
    def bits_per_value(self) -> float:
        """Bits for each value of a full block: its code, and its share of the bytes of the scale."""
        return self.element.width + self.scale.code_bits / math.prod(self.sizes)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return described(self, _has_name)


def _significant_bits(number: float | Fraction) -> int:
    over = abs(number.as_integer_ratio()[0])
    return (over // (over & -over or 1)).bit_length()


def _missing_power(book: Codebook) -> int | None:
    """Return the exponent of a power of two within the codebook's positive values that is not among them."""
    positive = [each for each in book.values if 0 < each < math.inf]
    lowest, highest = (math.frexp(each)[1] for each in (min(positive), max(positive)))
    held = {math.frexp(each)[1] for each in positive if math.frexp(each)[0] == 0.5}
    lowest += lowest not in held  # that of the smallest value may lie below it
    return next((power - 1 for power in range(lowest, highest + 1) if power not in held), None)


def _has_name(value: object) -> bool:
    """Return whether a rule or a codebook is that of its name."""
    if isinstance(value, Codebook):
        return value.name in ENTRIES and value == named(value.name)
    return isinstance(value, ScaleRule) and value == _BY_NAME.get(value.name)


def _is_negative_number(code: int | None, fmt: Format) -> bool:
    """Return whether a code stands for a number below zero, infinity included."""
    if code is None:
        return False
    if isinstance(fmt, Codebook):
        return code < len(fmt.values) and fmt.values[code] < 0
    if not code & fmt.sign_code:
        return False
    if fmt.sign is Sign.TWOS_COMPLEMENT:
        return True
    return fmt.subnormals <= code & ~fmt.sign_code <= fmt.max_magnitude + fmt.infinity
