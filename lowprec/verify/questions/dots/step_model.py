"""Steps of a dot unit, stage by stage, so that one stage at a time can be faulty.

The accumulation says what a step does, as `lowprec.dot` has it: here its stages are functions, each of which
a fault replaces. Without a fault the results are those of `lowprec.dot`. Sums have two words, of some
hundred bits together; what lies below is kept as one sticky bit.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays.blocks.block import BlockArray
from lowprec.arrays.checks import code_dtype
from lowprec.arrays.convert import encode, quantize
from lowprec.spec.accumulation import Accumulation, Rounded, Window
from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Carrier, Format, Sign
from lowprec.spec.order import SEQUENTIAL
from lowprec.verify.codes.values import as_doubles, doubles
from lowprec.verify.questions.dots.stages import Stages
from lowprec.verify.questions.dots.step_cuts import (
    LANE,
    OF_PRODUCTS,
    Numbers,
    chosen,
    lanes_of,
    last_raised,
    multiplied,
    numbers_of,
)
from lowprec.verify.questions.dots.step_ends import Ends
from lowprec.verify.questions.dots.step_orders import WIDE, as_read, in_order
from lowprec.verify.questions.dots.step_trees import is_tree

__all__ = ["Formats", "PlainSums", "folded", "has_steps", "stepped"]

Array = npt.NDArray[Any]

#: Products that are computed at a time.
_AT_ONCE = 1 << 20
#: The longest step.
_LONGEST = 256
#: Exponents of edited scales are at least this, negated.
_FAR = 1000


Formats = tuple[Format | None, Format | None]


@dataclass
class Plain:
    """Factors and terms without a fault, and sums by the first product of each run of steps."""

    sums: dict[int, Array] = field(default_factory=dict)
    factors: tuple[list[Array], list[Numbers]] | None = None
    terms: tuple[Numbers, Ends] | None = None


#: Of the rows from the key on.
PlainSums = dict[int, Plain]

#: Stages that change terms before any step.
_OF_TERMS = {
    "numbered",
    "values",
    "x",
    "y",
    "scales",
    "scale_lanes",
    "product_mode",
    "products",
    "group_parts",
    "scale_products",
    "unscaled",
    "addend_scaled",
}


def has_steps(how: Accumulation, formats: Formats) -> bool:
    """Return whether the stages of an accumulation are known here: of windows, and of fused sums in order."""
    inside = how.accumulator
    if how.machine or how.split is not None or how.rounds_randomly:
        return False
    if any(isinstance(fmt, Codebook) or fmt is None or not fmt.exponent_bits for fmt in formats):
        return False
    if sum(fmt.precision for fmt in formats if fmt is not None) > WIDE:
        return False
    if isinstance(inside, Window):
        form = inside.result[0]
        fits = inside.step <= _LONGEST and (inside.scales != "groups" or how.order == SEQUENTIAL)
    elif isinstance(inside, tuple) and (how.order.inner == "sequential" or is_tree(how)):
        rounded = how.product is not None and (how.term > 1 or how.product[1].rounding.bits)
        fits = is_tree(how) and how.term <= 1 and how.scale is None
        form, fits = inside[0], (fits or how.order.name in ("sequential", "chunked")) and not rounded
    else:
        return False
    plain = isinstance(form, Format) and not isinstance(form, Carrier) and form.sign is Sign.MAGNITUDE
    return fits and plain and not isinstance((how.total or how.output)[0], Carrier)


def stepped(
    x: Any,
    y: Any,
    addend: Array | None,
    how: Accumulation,
    formats: Formats,
    stages: Stages,
    plain: PlainSums | None = None,
) -> Array:
    """Return codes of the output, of dot products of rows; of operands in these formats.

    Terms and sums without a fault are kept in `plain`, if it is given, for the next faults of the same
    operands: only rows and steps that a fault changes are computed again.

    Raises ValueError: an accumulation whose stages are not known.
    """
    if not has_steps(how, formats):
        raise ValueError(f"the stages of {how} are not known")
    sides = _values(x), _values(y)
    count, length = sides[0][0].shape
    found = np.empty(count, code_dtype(how.output[0]))
    for start in range(0, count, step := max(_AT_ONCE // max(length, 1), 1)):
        some = slice(start, start + step)
        rows = [(values[some], None if scale is None else scale[some]) for values, scale in sides]
        terms = rows, None if addend is None else addend.reshape(-1)[some], how, formats
        known = None if plain is None else plain.setdefault(start, Plain())
        if known is not None and not known.sums and "together" not in stages:
            _rows(*terms, {}, known)
        found[some] = _rows(*terms, stages, known)
    return found


def folded(how: Accumulation) -> Accumulation:
    """Return the accumulation with groups of products as its terms, if it sums groups before it aligns."""
    window = how.accumulator
    if not isinstance(window, Window) or window.scales != "groups":
        return how
    terms = dataclasses.replace(window, step=window.step // window.group, scales="none", group=1)
    return dataclasses.replace(how, accumulator=terms, scale=None)


def _values(side: Any) -> tuple[Array, Array | None]:
    """Return elements, and the scales of their blocks, if they are in blocks."""
    if not isinstance(side, BlockArray):
        return doubles(side), None
    return as_doubles(side.codes, side.format.element), as_doubles(side.scales, side.format.scale)


def _rows(
    sides: list[tuple[Array, Array | None]],
    addend: Array | None,
    how: Accumulation,
    formats: Formats,
    stages: Stages,
    plain: Plain | None,
) -> Array:
    """Return codes of the output, of rows."""
    sums = None if plain is None or "together" in stages else plain.sums
    if plain is None or _OF_TERMS & stages.keys():
        products, ends, stages = _terms(sides, how, formats, stages, plain)
    else:
        plain.terms = plain.terms or _terms(sides, how, formats, stages, plain)[:2]
        products, ends = plain.terms
    return in_order(products, ends, addend, folded(how), stages, sums)


def _factors(given: list[Array], how: Accumulation, formats: Formats) -> tuple[list[Array], list[Numbers]]:
    """Return the values of x and y as the unit takes them, and these as their formats write them."""
    wild, read = [], []
    for values, fmt in zip(given, formats, strict=True):
        assert fmt is not None, "asked before"
        if how.operand_rounding is not None:
            values = np.asarray(quantize(values, fmt, projection=how.operand_rounding), np.float64)
        wild.append(values)
        read.append(numbers_of(values, fmt))
    return wild, read


def _terms(
    sides: list[tuple[Array, Array | None]],
    how: Accumulation,
    formats: Formats,
    stages: Stages,
    plain: Plain | None,
) -> tuple[Numbers, Ends, Stages]:
    """Return the terms of all steps, and the stages of these."""
    given = [values for values, _ in sides]
    if "values" in stages:
        wild, read = _factors(list(stages["values"](*given)), how, formats)
    elif plain is None:
        wild, read = _factors(given, how, formats)
    else:
        plain.factors = plain.factors or _factors(given, how, formats)
        wild, read = list(plain.factors[0]), plain.factors[1]
    each = zip("xy", read, formats, strict=True)
    a, b = (stages.get(side, as_read)(numbers, fmt) for side, numbers, fmt in each)
    negative = np.signbit(wild[0]) != np.signbit(wild[1])
    marks = np.full(negative.shape, OF_PRODUCTS)
    whole, last = stages.get("products", multiplied)(a, b)
    products = Numbers(negative, whole, last, a.exponent + b.exponent, a.cancelled, marks)
    scales = [scale for _, scale in sides if scale is not None]
    if how.scale is not None and len(scales) == 2:
        scales = _of_lanes(scales, negative.shape[1], how.scale[1], stages)
        for side, scale in enumerate(scales):
            wild[side] = np.where(np.isnan(scale), np.nan, wild[side])
    finite = np.isfinite(wild[0]) & np.isfinite(wild[1])
    nan = np.isnan(wild[0]) | np.isnan(wild[1])
    invalid = ~finite & ~nan & ((wild[0] == 0) | (wild[1] == 0))
    if how.product is not None:
        exact, into = products, how.product
        products, overflown = _rounded_products(exact, finite, into)
        if "product_mode" in stages:
            mode, where = stages["product_mode"]
            rule = dataclasses.replace(into[1], rounding=mode)
            here = lanes_of(where, *negative.shape)
            other, also = _rounded_products(exact, finite, (into[0], rule))
            products, overflown = chosen(here, other, products), np.where(here, also, overflown)
        finite &= ~overflown
    products = products._replace(significand=np.where(finite, products.significand, 0))
    ends = Ends(nan, invalid, ~finite & ~nan & ~invalid, negative)
    signs = np.where(np.isnan(wild[0]), *(np.signbit(side) for side in wild))
    ends = ends._replace(negative=np.where(nan, signs, negative))
    if how.scale is not None and scales:
        products, ends = _scaled(products, ends, scales, how, stages)
    if "numbered" in stages:
        lanes = np.arange(1, products.negative.shape[1] + 1)
        products = products._replace(marks=products.marks | lanes << LANE)
    if "addend_scaled" in stages and scales:
        by = sum(np.frexp(scales[side][:, 0])[1].astype(np.int64) - 1 for side in stages["addend_scaled"])
        stages = {**stages, "addend": partial(last_raised, by=by)}
    return products, ends, stages


def _of_lanes(scales: list[Array], count: int, size: int, stages: Stages) -> list[Array]:
    """Return the scales of x and of y that each lane has."""
    each = np.arange(count) // size
    made = [scale[:, each] for scale in stages.get("scales", lambda x, y: (x, y))(*scales)]
    if "scale_lanes" not in stages:
        return made
    here = lanes_of(stages["scale_lanes"], *made[0].shape)
    return [np.where(here, new, old[:, each]) for new, old in zip(made, scales, strict=True)]


def _scaled(
    products: Numbers, ends: Ends, scales: list[Array], how: Accumulation, stages: Stages
) -> tuple[Numbers, Ends]:
    """Return products, or sums of groups of them, times their scales."""
    assert how.scale is not None, "asked of units with scales"
    assert isinstance(how.accumulator, Window), "asked of windows"
    fmt = how.scale[0]
    group = how.accumulator.group if how.accumulator.scales == "groups" else 1
    if group > 1:
        assert how.operands is not None, "hardware of blocks takes formats of its own"
        least = sum(each.emin - each.trailing_bits for each in how.operands)
        whole = products.significand << products.last - least
        whole = np.where(products.negative, -whole, whole)
        first = np.arange(0, whole.shape[1], group)
        if "group_parts" in stages:
            size, change = stages["group_parts"]
            parts = change(np.add.reduceat(whole, np.arange(0, whole.shape[1], size), axis=1))
            sums = np.add.reduceat(parts, first // size, axis=1)
        else:
            sums = np.add.reduceat(whole, first, axis=1)
        last = np.full_like(sums, least)
        some = np.logical_or.reduceat(whole != 0, first, axis=1)
        none = np.zeros_like(last)
        products = Numbers(sums < 0, np.abs(sums), last, none, (sums == 0) & some, none + OF_PRODUCTS)
        ends = Ends(*(np.logical_or.reduceat(part, first, axis=1) for part in ends))
    # Edits go beyond powers of two that have codes.
    far = None if fmt.trailing_bits else -_FAR
    a, b = (numbers_of(scale[:, ::group], fmt, far) for scale in scales)
    by = stages.get("scale_products", np.multiply)(a.significand, b.significand)
    products = Numbers(
        products.negative ^ a.negative ^ b.negative,
        products.significand * by,
        products.last + a.last + b.last,
        products.exponent + (0 if "unscaled" in stages else a.exponent + b.exponent),
        products.cancelled & (by != 0),
        products.marks,
    )
    return products, ends


def _rounded_products(products: Numbers, finite: Array, into: Rounded) -> tuple[Numbers, Array]:
    """Return products rounded to a format, and which of the finite ones became infinite."""
    size = np.where(finite, np.ldexp(products.significand.astype(np.float64), products.last), 0)
    exact = np.where(products.negative, -size, size)
    codes = np.asarray(encode(exact, into[0], projection=into[1]))
    values = as_doubles(codes, into[0])
    return numbers_of(values, into[0])._replace(marks=products.marks), np.isinf(values)
