"""Steps of a dot unit, stage by stage, so that one stage at a time can be faulty.

The accumulation says what a step does, as `lowprec.dot` has it: here its stages are functions, each of which
a fault replaces. Without a fault the results are those of `lowprec.dot`. Sums have two words, of some
hundred bits together; what lies below is kept as one sticky bit.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays.arith import add
from lowprec.arrays.block import BlockArray
from lowprec.arrays.checks import code_dtype
from lowprec.arrays.convert import cast, decode, encode, quantize
from lowprec.spec.accumulation import Accumulation, Rounded, Window
from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Carrier, Format, Sign
from lowprec.spec.order import SEQUENTIAL
from lowprec.spec.projection import Saturation
from lowprec.spec.rounding import NEAREST_EVEN
from lowprec.verify.codes.values import as_doubles, doubles
from lowprec.verify.questions.result_edits import exponents_wrapped
from lowprec.verify.questions.stages import Stages
from lowprec.verify.questions.step_cuts import (
    Numbers,
    joined,
    lanes_of,
    last_raised,
    marks_of,
    numbers_of,
    step_places,
    window_sum,
)
from lowprec.verify.questions.step_ends import Ends, ieee
from lowprec.verify.questions.step_sums import (
    aligned,
    as_float64,
    magnitude,
    wide_sums,
    with_places,
    with_tops,
)

__all__ = ["Formats", "PlainSums", "folded", "has_steps", "nonzero", "stepped"]

Array = npt.NDArray[Any]

#: Products that are computed at a time.
_AT_ONCE = 1 << 20
#: Bits behind the point of what is summed exactly, and the longest step.
_WIDE, _LONGEST = 50, 256
#: Exponents of edited scales are at least this, negated.
_FAR = 1000


Formats = tuple[Format | None, Format | None]


@dataclass
class Plain:
    """Terms without a fault, and sums by the first product of each run of steps."""

    sums: dict[int, Array] = field(default_factory=dict)
    terms: tuple[Numbers, Ends] | None = None


#: Of the rows from the key on.
PlainSums = dict[int, Plain]

#: Stages that change terms before any step.
_OF_TERMS = {
    "values",
    "x",
    "y",
    "scales",
    "scale_lanes",
    "group",
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
    if sum(fmt.precision for fmt in formats if fmt is not None) > _WIDE:
        return False
    if isinstance(inside, Window):
        form = inside.result[0]
        fits = inside.step <= _LONGEST and (inside.scales != "groups" or how.order == SEQUENTIAL)
    elif isinstance(inside, tuple) and how.order.inner == "sequential":
        rounded = how.product is not None and (how.term > 1 or how.product[1].rounding.bits)
        form, fits = inside[0], how.order.name in ("sequential", "chunked") and not rounded
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
        products, ends, stages = _terms(sides, how, formats, stages)
    else:
        plain.terms = plain.terms or _terms(sides, how, formats, stages)[:2]
        products, ends = plain.terms
    return _in_order(products, ends, addend, folded(how), stages, sums)


def _terms(
    sides: list[tuple[Array, Array | None]], how: Accumulation, formats: Formats, stages: Stages
) -> tuple[Numbers, Ends, Stages]:
    """Return the terms of all steps, and the stages of these."""
    read, wild = [], [values for values, _ in sides]
    if "values" in stages:
        wild = list(stages["values"](*wild))
    for number, fmt in enumerate(formats):
        assert fmt is not None, "asked before"
        if how.operand_rounding is not None:
            rounded = quantize(wild[number], fmt, projection=how.operand_rounding)
            wild[number] = np.asarray(rounded, np.float64)
        read.append(stages.get("xy"[number], _as_read)(numbers_of(wild[number], fmt), fmt))
    a, b = read
    negative = np.signbit(wild[0]) != np.signbit(wild[1])
    exponents = a.last + b.last, a.exponent + b.exponent
    marks = marks_of(wild[0], wild[1], [2.0**fmt.emin for fmt in formats if fmt is not None])
    products = Numbers(negative, a.significand * b.significand, *exponents, a.cancelled, marks)
    scales = [scale for _, scale in sides if scale is not None]
    if how.scale is not None and len(scales) == 2:
        scales = _of_lanes(scales, negative.shape[1], how.scale[1], stages)
        for side, scale in enumerate(scales):
            wild[side] = np.where(np.isnan(scale), np.nan, wild[side])
    finite = np.isfinite(wild[0]) & np.isfinite(wild[1])
    nan = np.isnan(wild[0]) | np.isnan(wild[1])
    invalid = ~finite & ~nan & ((wild[0] == 0) | (wild[1] == 0))
    if how.product is not None:
        products, overflown = _rounded_products(products, finite, how.product)
        finite &= ~overflown
    products = products._replace(significand=np.where(finite, products.significand, 0))
    ends = Ends(nan, invalid, ~finite & ~nan & ~invalid, negative)
    signs = np.where(np.isnan(wild[0]), *(np.signbit(side) for side in wild))
    ends = ends._replace(negative=np.where(nan, signs, negative))
    if how.scale is not None and scales:
        products, ends = _scaled(products, ends, scales, how, stages)
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
        sums = stages.get("group", _same)(np.add.reduceat(whole, first, axis=1))
        last = np.full_like(sums, least)
        some = np.logical_or.reduceat(whole != 0, first, axis=1)
        none = np.zeros_like(last)
        products = Numbers(sums < 0, np.abs(sums), last, none, (sums == 0) & some, none)
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


def _in_order(
    products: Numbers,
    ends: Ends,
    addend: Array | None,
    how: Accumulation,
    stages: Stages,
    plain: dict[int, Array] | None,
) -> Array:
    """Return codes of the output, all steps in sequence or within chunks."""
    count, length = products.negative.shape
    into = how.total or (how.output if isinstance(how.accumulator, Window) else how.summed)
    start = np.zeros(count) if addend is None else doubles(addend)
    nearest = dataclasses.replace(into[1], rounding=NEAREST_EVEN)
    given = np.asarray(encode(start, into[0], projection=nearest))
    signs = np.signbit(start)
    nothing = np.zeros_like(given)
    first = how.addend == "first"

    def inner(low: int, high: int, begin: Array, minus: Array, fmt: Format) -> tuple[Array, Format]:
        some = slice(low, high)
        of_run = Numbers(*(part[:, some] for part in products)), Ends(*(part[:, some] for part in ends))
        return _run(*of_run, begin, minus, fmt, how, stages, plain, low)

    if how.order.name != "chunked":
        begun = (given, signs) if first else (nothing, np.zeros_like(signs))
        codes, fmt = inner(0, length, *begun, into[0])
        if not first:
            codes, fmt = _added((codes, fmt), (given, into[0]), into), into[0]
    else:
        codes, fmt = (given if first else nothing), into[0]
        size = how.order.size * max(how.term, 1)
        for low in range(0, length, size):
            high = min(low + size, length)
            zero = np.zeros(count, code_dtype(how.output[0]))
            part, of_part = inner(low, high, zero, np.zeros_like(signs), how.output[0])
            codes = _added((codes, into[0]), (part, of_part), into)
        codes = codes if first else _added((codes, into[0]), (given, into[0]), into)
    result = how.accumulator.result if isinstance(how.accumulator, Window) else how.accumulator
    same = (how.total or result) == how.output
    return codes if same else np.asarray(cast(codes, fmt, how.output[0], projection=how.output[1]))


def _added(first: tuple[Array, Format], second: tuple[Array, Format], into: Rounded) -> Array:
    """Return the codes of sums of codes, each with its format."""
    x, y = (np.asarray(decode(*side)) for side in (first, second))
    return np.asarray(add(x, y, into[0], projection=into[1], dtype=code_dtype(into[0])))


def _run(
    products: Numbers,
    ends: Ends,
    codes: Array,
    signs: Array,
    fmt: Format,
    how: Accumulation,
    stages: Stages,
    plain: dict[int, Array] | None,
    low: int,
) -> tuple[Array, Format]:
    """Return the codes of the sum after all steps, and their format.

    `plain` has the sums without a fault after each step under `low`; where it has none, they are put there.
    """
    window = how.accumulator if isinstance(how.accumulator, Window) else None
    result: Rounded = window.result if window is not None else how.accumulator  # type: ignore[assignment]
    places = list(step_places(products.negative.shape[1], window, max(how.term, 1)))
    rounded = how.product is not None

    def after(
        rows: Array, lanes: Array, c: tuple[Array, Array, Format], stages: Stages, first: bool
    ) -> Array:
        """Return codes of sums of lanes of some rows, and of running sums: their codes, signs and format."""
        codes, signs, fmt = c
        running = as_doubles(codes, fmt)
        of_c = numbers_of(running, fmt)._replace(negative=signs)
        terms = Numbers(*(joined(part[rows, lanes], own) for part, own in zip(products, of_c, strict=True)))
        terms = stages.get("addend", _same)(terms) if first else terms
        own_ends = np.isnan(running), np.zeros(codes.size, bool), np.isinf(running), signs
        of_step = Ends(*(joined(part[rows, lanes], own) for part, own in zip(ends, own_ends, strict=True)))
        return _step(terms, of_step, window, result, stages, product_rounded=rounded)

    def of(number: int) -> Stages:
        return stages if stages.get("step", number) in (number, number - len(places)) else {}

    def then(codes: Array) -> tuple[Array, Array, Format]:
        return codes, (codes & result[0].sign_code) != 0, result[0]

    every = np.arange(codes.size)[:, None]
    begin = codes, signs, fmt
    if plain is None or low not in plain or len({lanes.size for lanes in places}) != 1:
        made = []
        for number, some in enumerate(places):
            codes = after(every, some[None], begin if not number else then(codes), of(number), not number)
            made.append(codes)
        if plain is not None and not stages:
            plain[low] = np.array(made)
        return codes, result[0] if places else fmt
    sums, lanes = plain[low], np.array(places)
    found = sums.copy()
    if of(0):
        found[0] = after(every, lanes[:1], begin, of(0), True)
    later = np.array([number for number in range(1, len(places)) if of(number)], np.intp)
    rows, numbers = np.tile(every, (later.size, 1)), np.repeat(later, codes.size)
    if later.size:
        begin = then(sums[numbers - 1, rows[:, 0]])
        found[later] = after(rows, lanes[numbers], begin, stages, False).reshape(later.size, -1)
    beyond = {} if "step" in stages else stages
    last = _followed(
        sums, found, lambda rows, at, codes: after(rows[:, None], lanes[at], then(codes), beyond, False)
    )
    return last, result[0]


def _followed(sums: Array, found: Array, after: Callable[[Array, Array, Array], Array]) -> Array:
    """Return the last sums of rows, of which those behind a fault are computed again.

    Parameters
    ----------
    sums, found : array
        Of steps and rows: sums without a fault, and what a faulty step makes of the sum before it.
    after : callable
        Of rows, steps and codes of the sums before them: the sums after them.
    """
    differ, numbers = found != sums, np.arange(len(sums))[:, None]
    last, rows, at = sums[-1].copy(), np.arange(sums.shape[1]), np.full(sums.shape[1], -1)
    codes = sums[0].copy()
    while True:
        # A sum that is right again stays so up to the next step whose fault shows.
        right = (at < 0) | (codes == sums[at, rows])
        ahead = differ[:, rows[right]] & (numbers > at[right])
        shows, at[right] = ahead.any(0), ahead.argmax(0)
        codes[right] = found[at[right], rows[right]]
        going = np.ones(rows.size, bool)
        going[right] = shows
        rows, at, codes = rows[going], at[going], codes[going]
        ended = at == len(sums) - 1
        last[rows[ended]] = codes[ended]
        rows, at, codes = rows[~ended], at[~ended], codes[~ended]
        if not rows.size:
            return np.asarray(last)
        at = at + 1
        codes = after(rows, at, codes)


def _step(
    terms: Numbers,
    ends: Ends,
    window: Window | None,
    result: Rounded,
    stages: Stages,
    *,
    product_rounded: bool,
) -> Array:
    """Return codes of the sums of one step."""
    fmt, rule = result
    rule = dataclasses.replace(rule, rounding=stages["mode"]) if "mode" in stages else rule
    ends = stages.get("ends", _same)(ends)
    terms = stages.get("running", _same)(terms)
    bits = _WIDE if window is None or window.fraction_bits is None else window.fraction_bits
    counted = stages.get("counts", nonzero)(terms)
    least = -4096 if window is None else window.lowest_exponent
    seen = stages["seen"](terms) if "seen" in stages else terms.exponent
    largest = np.where(counted, seen, least).max(1).clip(least)
    if "empty" in stages:
        largest = np.where(counted.any(1), largest, stages["empty"]())
    terms = stages.get("above", _as_read)(terms, largest)
    unit = largest - bits
    parts, beyond, below = aligned(terms, unit, bits)
    hi, lo = stages["total"](parts) if "total" in stages else window_sum(window, parts)
    sums = magnitude(hi, lo, unit)
    exact = "total" not in stages and (window is None or window.fraction_bits is None)
    for row in np.flatnonzero(beyond | below if exact else beyond).tolist():
        kept = None if exact else parts.kept[row]
        sums = wide_sums(sums, row, Numbers(*(part[row] for part in terms)), kept, int(unit[row]))
    sums = with_places(sums, fmt, largest)
    sums = stages["before"](with_tops(sums, terms)) if "before" in stages else sums
    zero = sums.significand == 0
    sizes = np.where(zero, 0, as_float64(sums))
    if window is not None:
        sizes = np.where(sizes >= np.ldexp(1.0, fmt.emax + 1), np.inf, sizes)
    nan, infinite, minus = stages.get("settled", ieee)(ends)
    if "zero" in stages:
        none = stages["zero"](terms)
    elif window is not None:
        none = np.zeros(zero.size, bool)
    else:
        none = np.asarray(terms.negative.all(1) | (rule.rounding.downward & terms.negative.any(1)))
    negative = np.where(zero, none, sums.negative)
    numbers = np.where(negative, -sizes, sizes)
    numbers = np.where(infinite, np.where(minus, -np.inf, np.inf), numbers)
    numbers = np.where(nan, np.nan, numbers)
    if window is None and nan.any():  # the NaN of an operand has its sign
        # That of a product which was rounded before comes after that of the running sum.
        found = ends.nan.copy()
        found[:, :-1] &= ~(ends.nan[:, -1:] & product_rounded)
        first = np.argmax(found, 1)[:, None]
        minus = ends.nan.any(1) & np.take_along_axis(ends.negative, first, 1)[:, 0]
        numbers = np.where(nan & minus, np.copysign(numbers, -1), numbers)
    codes = np.asarray(encode(numbers, fmt, projection=rule))
    plain = ~(nan | infinite | zero)
    if "wrapped" in stages:
        wide = stages["wrapped"][0]
        whole = np.where(sums.negative, -as_float64(sums), as_float64(sums))
        beyond = np.asarray(
            encode(whole, wide, projection=dataclasses.replace(rule, saturation=Saturation.NONE))
        )
        codes = np.where(plain, exponents_wrapped(codes, beyond, fmt, *stages["wrapped"]), codes)
    if "after" in stages:
        codes = np.where(plain, stages["after"](codes, sums, fmt), codes).astype(codes.dtype)
    if window is not None and not window.negative_zero:
        codes = np.where(plain & (codes == fmt.sign_code), 0, codes).astype(codes.dtype)
    if "nan" in stages:
        codes = np.where(nan & stages["nan"](ends), codes | fmt.sign_code, codes).astype(codes.dtype)
    return codes


def _same(part: Any) -> Any:
    return part


def _as_read(numbers: Numbers, _: Any) -> Numbers:
    return numbers


def nonzero(terms: Numbers) -> Array:
    """Return which terms the largest exponent is of."""
    return np.asarray((terms.significand != 0) | terms.cancelled)
