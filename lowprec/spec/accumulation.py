"""The accumulation: how the products of a dot product are summed, as parameters.

Products are exact or rounded; they are added in an order, into an accumulator; the sum is rounded to
the output. Every rounding is a projection. Hardware that adds several products at once is a `Window`.

Floor 1. Imports the standard library only.

Notation:

    K           the length of the dot product
    term        an operand of the sum: a product, or the exact sum of several products times their scales
    rounded     (Format, Projection): the format of numbers, and how they are rounded to it; names will do
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, get_args

from lowprec.spec.codebook import Codebook
from lowprec.spec.fields import LARGEST_SIZE, Hashed, choose, integer, text, truth
from lowprec.spec.format import Carrier, Format, Sign
from lowprec.spec.formats import BINARY32, find
from lowprec.spec.order import EXACT, SEQUENTIAL, Order, Split, order
from lowprec.spec.projection import Projection
from lowprec.spec.rounded import (
    Rounded as Rounded,
    RoundedLike,
    as_it_is,
    check_begins,
    check_rounded,
    rounded,
    to_nearest,
)
from lowprec.spec.rounding import NEAREST_EVEN

Cut = Literal["toward_zero", "floor", "to_odd", "nearest_away"]
Groups = Literal["consecutive", "alternate_pairs"]
Scales = Literal["none", "products", "groups"]
AddendPlace = Literal["first", "last"]

#: Beyond the exponents of all sums of products of values, and of their scales.
_FAR = 1 << 15

#: Products of which hardware makes one term, at most.
_LONGEST_TERM = 1 << 12

#: Hardware that no parameters describe: the oracle and the kernels have a function for each.
MACHINES = ("cdna2", "cdna2_pairs", "cdna3", "cdna3_fp8")


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A step of hardware that adds several products and the running sum at once.

    The significands of products are exact and not normalized: a product's exponent is the sum of
    those of its factors, and a subnormal factor has the exponent of the smallest normal number. Of
    all terms that are not zero the largest exponent e counts. Each term is cut to a multiple of
    2**(e - fraction_bits); the sum of the cut terms is exact, and is rounded once.

    Infinite products, zero times infinity and NaNs follow IEEE 754.
    A sum of 2**(emax + 1) or more, with the emax of the result's format, is infinite in every mode.

    Parameters
    ----------
    step : int
        Products in a step, 1 to 2**32; with `fraction_bits` to 2**(60 - fraction_bits), so that sums
        have 63 bits. The last step may be shorter.
    fraction_bits : int or None
        Bits behind the point that alignment keeps, 1 to 48; None keeps all, and the step is one
        exact sum. Below the precision of `result` less 1, every step cuts the running sum too, a step of
        zeros like any other: there K padded with zeros may have another sum, as it has in hardware.
    result : (Format, Projection)
        What the sum of a step is rounded to; it is a term of the next step. A format with exponents
        and zero.
    lowest_exponent : int
        e is at least this, -32768 to 32768.
    cut : {"toward_zero", "floor", "to_odd", "nearest_away"}
        To odd: toward zero, and the last bit that is kept is set where anything is lost. To nearest: halves
        away from zero.
    groups : {"consecutive", "alternate_pairs"}
        Which products make a step: the next ones; or, of each 2 * step, first those whose index has
        bit 1 clear and then the others: 0, 1, 4, 5, 8 and so on.
    scales : {"none", "products", "groups"}
        Of operands in blocks. "products": the exponents of both scales, which are powers of two, join
        each product's. "groups": each `group` products are summed exactly and multiplied by the
        significands of their scales; the group's exponent is the sum of the scales', and counts
        unless all its products are zero. Both need `fraction_bits`.
    group : int
        Products in a group; it divides `step`. 1 unless `scales` is "groups".
    negative_zero : bool
        Whether a negative sum that rounds to zero is -0. A sum that is zero is +0.

    Source: [MMASIM], [KHATTAK], [FASI].
    """

    step: int
    fraction_bits: int | None
    result: Rounded
    lowest_exponent: int = -4096
    cut: Cut = "toward_zero"
    groups: Groups = "consecutive"
    scales: Scales = "none"
    group: int = 1
    negative_zero: bool = False

    if TYPE_CHECKING:  # names stand for objects

        def __init__(
            self,
            *,
            step: int,
            fraction_bits: int | None,
            result: RoundedLike,
            lowest_exponent: int = ...,
            cut: Cut = ...,
            groups: Groups = ...,
            scales: Scales = ...,
            group: int = ...,
            negative_zero: bool = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "result", rounded("result", self.result))
        most, why = LARGEST_SIZE, ""
        if self.fraction_bits is not None:
            integer(self, "a window", "fraction_bits", 1, 48, ", or None to keep all")
            most = min(most, 1 << (60 - self.fraction_bits))
            why = f", so that the sum of a step with fraction_bits={self.fraction_bits} has at most 63 bits"
        integer(self, "a window", "step", 1, most, why)
        integer(self, "a window", "group", 1, self.step)
        integer(self, "a window", "lowest_exponent", -_FAR, _FAR)
        choose(self, "a window", cut=get_args(Cut), groups=get_args(Groups), scales=get_args(Scales))
        truth(self, "a window", "negative_zero")
        if self.step % self.group or (self.group > 1) != (self.scales == "groups"):
            raise ValueError(
                f"group={self.group} of a window must divide step={self.step}, and be above 1 for "
                f"scales='groups' only, not for {self.scales!r}"
            )
        if self.scales != "none" and self.fraction_bits is None:
            raise ValueError(
                f"scales={self.scales!r} of a window join what aligns its terms, and fraction_bits=None "
                f"aligns none; give fraction_bits"
            )
        if self.groups == "alternate_pairs" and self.step % 2:
            raise ValueError(f"step={self.step} of a window of alternate pairs must be even")
        check_rounded("result", self.result)
        check_begins("result", self.result[0], aligns=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Accumulation(Hashed):
    """Specification of how the products of a dot product are summed.

    Terms are added to a running sum that begins as the addend, or as +0. Each sum is projected into the
    accumulator, in pairs that of a single term too; the last one then into the output.

    >>> how = Accumulation(product="binary32", accumulator="binary32", output=("bfloat16", "toward_zero"))
    >>> print(*how.output, how.order, sep="; ")
    bfloat16; toward_zero, saturation none; sequential

    Where a (Format, Projection) is expected, a format's name stands for rounding to nearest even, and the
    names of a format and of a rounding mode for both; names of formats will do everywhere.

    Parameters
    ----------
    name : str
        Not compared, like source.
    operands : (Format, Format) or Format, optional
        The formats of the factors, or one for both: other values are refused. A window needs them, for it
        aligns by the operands' exponents.
    operand_rounding : Projection, optional
        How factors are projected into `operands` instead of being refused.
    product : (Format, Projection), optional
        The format of products, and of other terms; by default, and always of windows, machines and the order
        "exact", they are exact, so that every step of a sequence is a fused multiplication and addition.
    term : int, default 0
        Products in a term, 1 to 4096: the exact sum of so many consecutive ones, times the scales of their
        blocks if they are in any, is rounded to `product` and added at once. 0: a product is a term,
        and of operands in blocks a block. Orders count terms. Needs `operands`; not of windows, machines
        and the order "exact".
    order : Order or str, default "sequential"
        Of several NaNs in a group that of a product comes first, then that of a sum; rounded products yield.
    accumulator : (Format, Projection) or Window, optional
        None for the order "exact" and for machines only. May be (BINARY64, Projection()). A window
        is in sequence, or within chunks.
    total : (Format, Projection), optional
        Of chunked orders: where the sums of chunks are added; by default the accumulator, and of windows
        binary32, to nearest.
    split : Split, optional
        How K is dealt to several such sums, and how those are added; by default there is one. An addend is
        then added to their total, whatever `addend` says.
    addend : {"first", "last"}
        Whether the running sum (of chunked orders the total) begins as the addend, or the addend is
        added to the sum of the products, by the projection of the accumulator; of a window that of the
        output, and of chunks that of their total. "first" in pairwise order: it is the first term; in lanes
        and trees it is the first `()`; to a tree without one it is added, if there is one. The addend is
        first rounded to the format that it is added in (of a window the output's), whatever its type: to
        nearest even in every rounding mode, and otherwise by that format's projection, its saturation and
        flushing included. Order "exact" takes it as it is.
    scale : (Format, int), optional
        Of operands in blocks: the format of their scales, unsigned and without infinity, and how many
        elements share one. A window with `scales` needs it.
    output : (Format, Projection)
    machine : str
        A key of `MACHINES`, instead of product, order and accumulator; the output and the addend are
        binary32.
    source : str
        A key of docs/references.md.

    Raises ValueError: parameters that contradict each other; the message names the field.

    Source: [KHATTAK], [MMASIM] for what hardware does.
    """

    output: Rounded
    name: str = field(default="", compare=False)
    operands: tuple[Format, Format] | None = None
    operand_rounding: Projection | None = None
    product: Rounded | None = None
    term: int = 0
    order: Order = SEQUENTIAL
    accumulator: Rounded | Window | None = None
    total: Rounded | None = None
    split: Split | None = None
    addend: AddendPlace = "first"
    scale: tuple[Format, int] | None = None
    machine: str = ""
    source: str = field(default="", compare=False)

    if TYPE_CHECKING:  # names stand for objects

        def __init__(
            self,
            *,
            output: RoundedLike,
            name: str = ...,
            operands: tuple[Format | str, Format | str] | Format | str | None = ...,
            operand_rounding: Projection | None = ...,
            product: RoundedLike | None = ...,
            term: int = ...,
            order: Order | str = ...,
            accumulator: RoundedLike | Window | None = ...,
            total: RoundedLike | None = ...,
            split: Split | None = ...,
            addend: AddendPlace = ...,
            scale: tuple[Format | str, int] | None = ...,
            machine: str = ...,
            source: str = ...,
        ) -> None: ...

    __hash__ = Hashed.__hash__

    def __post_init__(self) -> None:
        text(self, "an accumulation", "name", "machine", "source")
        self._find_names()
        object.__setattr__(self, "order", order(self.order))
        check_rounded("output", self.output)
        for name in ("product", "total"):
            if getattr(self, name) is not None:
                check_rounded(name, getattr(self, name), accumulates=name == "total")
        if isinstance(self.accumulator, tuple):
            check_rounded("accumulator", self.accumulator, accumulates=True)
        elif self.accumulator is not None and not isinstance(self.accumulator, Window):
            raise TypeError(f"accumulator must be (Format, Projection) or a Window, not {self.accumulator!r}")
        choose(self, "an accumulation", addend=get_args(AddendPlace))
        if isinstance(self.accumulator, Window) and self.order.name == "chunked" and self.total is None:
            object.__setattr__(self, "total", self._promoted)
        if self.machine:
            self._check_machine()
        elif self.order == EXACT:
            self._check_exact()
        else:
            self._check_sum()
        self._check_term()
        self._check_operands()
        self._check_split()

    def _find_names(self) -> None:
        """Replace names of formats by the formats, and those of roundings by projections."""
        for name in ("output", "product", "accumulator", "total"):
            object.__setattr__(self, name, rounded(name, getattr(self, name)))
        if isinstance(self.operands, str | Format):
            object.__setattr__(self, "operands", (self.operands, self.operands))
        for name in ("operands", "scale"):
            given = getattr(self, name)
            if isinstance(given, tuple) and any(isinstance(item, str) for item in given):
                try:
                    found = tuple(find(item) if isinstance(item, str) else item for item in given)
                except ValueError as error:
                    raise ValueError(f"{name} of an accumulation: {error}") from None
                object.__setattr__(self, name, found)

    def _check_machine(self) -> None:
        if self.machine not in MACHINES:
            raise ValueError(f"unknown machine {self.machine!r}; use one of {', '.join(MACHINES)}")
        if self.product or self.accumulator or self.total or self.scale or self.order != SEQUENTIAL:
            raise ValueError(
                f"machine {self.machine!r} takes no product, order, accumulator, total or scale: it is all "
                "of that"
            )
        if self.operands is None:
            raise ValueError(f"machine {self.machine!r} needs operands: it aligns by their exponents")
        if self.addend != "first":
            raise ValueError(f"machine {self.machine!r} has its addend in the sum: use addend='first'")
        if self.output[0] != BINARY32:
            raise ValueError(f"machine {self.machine!r} has binary32 results, not {self.output[0].name!r}")
        # Of those with FP8, sums of products cannot overflow.
        precision, limit, such = (
            (4, 64, "e4m3fnuz, e5m2fnuz") if "fp8" in self.machine else (11, 128, "binary16, bfloat16")
        )
        for fmt in self.operands:
            held = (
                fmt.exponent_bits
                and fmt.precision <= precision
                and fmt.emax < limit
                and BINARY32.contains(fmt)
            )
            if not held:
                raise ValueError(
                    f"machine {self.machine!r} takes no operands in {fmt.name!r}: its multipliers take "
                    f"floats of at most {precision} bits of precision, below 2**{limit}, that binary32 "
                    f"holds; use {such} or the like"
                )

    def _check_exact(self) -> None:
        if self.accumulator is not None or self.total is not None:
            raise ValueError(
                "order 'exact' has no accumulator and no total: its sum is rounded once, to the output"
            )
        if self.product is not None:
            raise ValueError("order 'exact' adds exact products; leave out product")
        if self.addend != "first":
            raise ValueError("order 'exact' has its addend in the sum: use addend='first'")

    def _check_sum(self) -> None:
        if self.accumulator is None:
            raise ValueError(f"order {str(self.order)!r} needs an accumulator")
        if self.total is not None and self.order.name != "chunked":
            raise ValueError(f"order {str(self.order)!r} has no total; chunked(n) has")
        if isinstance(self.accumulator, Window):
            if self.order.name not in ("sequential", "chunked") or self.order.inner == "pairwise":
                raise ValueError(f"a window is in sequence, not in order {str(self.order)!r}")
            if self.operands is None:
                raise ValueError("a window needs operands: it aligns by their exponents")
            if self.product is not None:
                raise ValueError("a window adds exact products; leave out product")
            both = 2 * self.accumulator.step
            if self.accumulator.groups == "alternate_pairs" and self.order.size % both:
                raise ValueError(
                    f"chunks of {self.order.size} do not hold whole alternate pairs of steps, {both} products"
                )
            if self.total is None:
                check_begins("output", self.output[0], aligns=True)

    def _check_term(self) -> None:
        integer(self, "an accumulation", "term", 0, _LONGEST_TERM)
        if not self.term:
            return
        if self.machine or self.order == EXACT or isinstance(self.accumulator, Window):
            what = "a machine" if self.machine else "a window" if self.accumulator else "order 'exact'"
            raise ValueError(
                f"term={self.term} is of sums in an accumulator, and {what} has no terms of its own"
            )
        if self.operands is None:
            raise ValueError(f"term={self.term} needs operands, whose products are summed exactly")

    def _check_operands(self) -> None:
        if self.operands is not None and (
            not isinstance(self.operands, tuple)
            or len(self.operands) != 2
            or not all(isinstance(fmt, Format) and not isinstance(fmt, Carrier) for fmt in self.operands)
        ):
            raise TypeError(f"operands of an accumulation must be two Formats, not {self.operands!r}")
        aligns = self.machine or isinstance(self.accumulator, Window)
        floats = [not isinstance(fmt, Codebook) and fmt.exponent_bits > 0 for fmt in self.operands or ()]
        if aligns and self.operands is not None and not all(floats):
            raise ValueError(f"operands {' and '.join(map(str, self.operands))} lack exponents to align by")
        if self.operand_rounding is not None:
            self._check_operand_rounding(self.operand_rounding)
        self._check_scale()

    def _check_operand_rounding(self, how: Projection) -> None:
        if self.operands is None:
            raise ValueError("operand_rounding needs operands: the formats that factors are rounded to")
        if not isinstance(how, Projection) or how.rounding.bits:
            raise ValueError(f"operand_rounding must be a Projection that is not stochastic, not {how!r}")
        if how.flushes_operands:
            raise ValueError(
                "operand_rounding knows no type that factors come in: use subnormals='flush_results', which "
                "flushes the subnormals of the operands' formats"
            )

    def _check_scale(self) -> None:
        """Refuse scales that are not positive, or no powers of two where only their exponents are used."""
        window = self.accumulator
        if not isinstance(window, Window) or window.scales == "none" or self.scale is None:
            if isinstance(window, Window) and window.scales != "none" or self.scale is not None:
                raise ValueError("a window with scales needs scale=(Format, size), and nothing else takes it")
            return
        if (
            not isinstance(self.scale, tuple)
            or len(self.scale) != 2
            or not isinstance(self.scale[0], Format)
            or type(self.scale[1]) is not int
            or self.scale[1] < 1
        ):
            raise TypeError(f"scale of an accumulation must be (Format, size), not {self.scale!r}")
        fmt, size = self.scale
        if fmt.sign is not Sign.UNSIGNED or fmt.infinity or isinstance(fmt, Carrier):
            raise ValueError(
                f"scale={fmt.name!r} of an accumulation has a sign or an infinity, and a window's scales "
                f"have none; use a format such as 'e8m0fnu' or 'ue4m3'"
            )
        if window.scales == "products" and (fmt.trailing_bits or fmt.subnormals):
            raise ValueError(
                f"scale={fmt.name!r} of an accumulation has more than powers of two, and only exponents of "
                f"scales join those of products; use a format such as 'e8m0fnu', or scales='groups'"
            )
        if self.order.size % window.step or window.groups != "consecutive":
            raise ValueError("a window with scales takes consecutive products, and chunks of whole steps")
        group = window.group if window.scales == "groups" else window.step
        if size % group:
            raise ValueError(f"scale for {size} elements does not fill groups of {group}")

    def _check_split(self) -> None:
        if self.split is None:
            return
        if not isinstance(self.split, Split):
            raise TypeError(f"split of an accumulation must be a Split, not {self.split!r}")
        if self.rounds_randomly:
            raise ValueError("a split has no stochastic rounding: leave out split, or round otherwise")
        if isinstance(self.accumulator, tuple) and isinstance((self.total or self.accumulator)[0], Carrier):
            raise ValueError("the sums of a split have at most 32 bits: accumulate in binary32 or less")
        if self.split.total is None:
            object.__setattr__(self, "split", replace(self.split, total=self._promoted))

    @property
    def _promoted(self) -> Rounded:
        """Format and projection of sums of sums by default: binary32, to nearest, with the output's NaN."""
        rule = self.output[1] if self.output[0] == BINARY32 else Projection()
        return BINARY32, Projection(rounding=NEAREST_EVEN, nan_code=rule.nan_code, nan_sign=rule.nan_sign)

    @property
    def kept(self) -> Rounded | None:
        """Format and projection of the sum of the products; None where the sum is exact, or in binary64."""
        if self.split is not None:
            return self.split.total
        last = self.total or self.accumulator
        if isinstance(last, Window):
            last = last.result
        if self.machine:
            last = self.output
        return None if last is None or isinstance(last[0], Carrier) else last

    @property
    def summed(self) -> Rounded:
        """Format and projection of the sum, with its addend, before the output; else the output's own."""
        late = isinstance(self.accumulator, Window) and not self.total and self.addend == "last"
        return self.output if self.kept is None or (late and self.split is None) else self.kept

    def partial(self, exact: Rounded) -> Accumulation:
        """Return the accumulation of the sums alone, for what is done with them: their output is as they are.

        An exact sum, or one in binary64, is rounded to `exact`. No addend joins it.
        """
        if self.machine:
            return replace(self, output=(BINARY32, Projection()))
        return replace(self, addend="first", output=as_it_is(self.kept) if self.kept else exact)

    @property
    def rounds_randomly(self) -> bool:
        """True if any projection of the accumulation is stochastic."""
        return any(how.rounding.bits > 0 for _, how in self._places)

    @property
    def has_codebooks(self) -> bool:
        """True if products, sums or results are kept in codebooks."""
        return any(isinstance(fmt, Codebook) for fmt, _ in self._places)

    @property
    def _places(self) -> list[Rounded]:
        """Formats and projections that round; products are not rounded stochastically."""
        sums = self.accumulator.result if isinstance(self.accumulator, Window) else self.accumulator
        return [place for place in (self.product, sums, self.total, self.output) if place is not None]

    def __str__(self) -> str:
        return self.name or "accumulation"


def begins_in(how: Accumulation) -> Rounded:
    """Return the format where the running sum begins, and the addend's projection to it: to nearest even."""
    return to_nearest(how.total or (how.accumulator if isinstance(how.accumulator, tuple) else how.output))
