"""Steps of a dot unit in their order: one after the other, within chunks, or as nodes of a tree."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays.arith import add
from lowprec.arrays.checks import code_dtype
from lowprec.arrays.convert import cast, decode, encode
from lowprec.spec.accumulation import Accumulation, Rounded, Window
from lowprec.spec.format import Format
from lowprec.spec.order import PAIRWISE
from lowprec.spec.projection import Saturation
from lowprec.spec.rounding import NEAREST_EVEN
from lowprec.verify.codes.values import as_doubles, doubles
from lowprec.verify.questions.dots.stages import Stages
from lowprec.verify.questions.dots.step_cuts import (
    LANE,
    Numbers,
    chosen,
    joined,
    numbers_of,
    step_places,
    window_sum,
)
from lowprec.verify.questions.dots.step_ends import Ends, ieee
from lowprec.verify.questions.dots.step_sums import (
    aligned,
    as_float64,
    magnitude,
    wide_sums,
    with_places,
    with_tops,
)
from lowprec.verify.questions.dots.step_trees import is_tree, nodes_of, summed
from lowprec.verify.questions.result_edits import exponents_wrapped

__all__ = ["as_read", "in_order", "nonzero", "same", "WIDE"]

Array = npt.NDArray[Any]

#: Bits behind the point of what is summed exactly.
WIDE = 50


def in_order(
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

    if is_tree(how):
        of_addend = (given, signs) if first and addend is not None else None
        codes, fmt = _by_tree(products, ends, of_addend, how, stages, plain), into[0]
        codes = codes if first else _added((codes, fmt), (given, into[0]), into)
    elif how.order.name != "chunked":
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
    codes = stages["output"](codes) if "output" in stages else codes
    return codes if same else np.asarray(cast(codes, fmt, how.output[0], projection=how.output[1]))


def _by_tree(
    products: Numbers,
    ends: Ends,
    begun: tuple[Array, Array] | None,
    how: Accumulation,
    stages: Stages,
    plain: dict[int, Array] | None,
) -> Array:
    """Return the codes of a tree's sum; `begun`: codes and signs of the addend that it begins with.

    `plain` has the sums without a fault of all nodes; where it is empty, they are put there.
    """
    count, length = products.negative.shape
    nodes = nodes_of(how, length, begun is not None)
    result: Rounded = how.accumulator  # type: ignore[assignment]
    begin = nodes.index(()) if begun is not None else len(nodes)
    sums = np.zeros((len(nodes), count), code_dtype(result[0]))
    placed = np.cumsum([bool(node) for node in nodes]) - 1  # nodes with members, in their order
    if begun is not None:
        sums[begin] = begun[0]

    def after(numbers: Array, rows: Array, codes: Array, faulty: bool) -> Array:
        members, rows = np.array([nodes[number] for number in numbers.tolist()]), rows[:, None]
        leaf = members >= 0
        lanes, inner = np.where(leaf, members, 0), np.where(leaf, 0, ~members)
        own = codes[inner, rows]
        running, minus = as_doubles(own, result[0]), (own & result[0].sign_code) != 0
        if begun is not None:
            minus = np.where(inner == begin, begun[1][rows], minus)
        of_sums = numbers_of(running, result[0])._replace(negative=minus)
        terms: Numbers = chosen(leaf, Numbers(*(part[rows, lanes] for part in products)), of_sums)
        terms = terms._replace(marks=np.where(leaf, terms.marks | lanes + 1 << LANE, 0))
        of_sums_ends = Ends(np.isnan(running), np.zeros_like(leaf), np.isinf(running), minus)
        of_step: Ends = chosen(leaf, Ends(*(part[rows, lanes] for part in ends)), of_sums_ends)
        yields = leaf & (how.product is not None) & (how.order != PAIRWISE)
        yields &= ~leaf.all(1, keepdims=True)
        again = partial(_step, terms, of_step, None, result, yields=yields)
        if faulty and "addend" in stages:
            first = ((members < 0) & (inner == begin)).any(1)[:, None]
            terms = chosen(first, stages["addend"](terms), terms)
        found = _step(terms, of_step, None, result, stages if faulty else {}, yields=yields)
        some = faulty and "at" in stages
        return _in_some_rows(found, stages, int(placed[numbers[0]]), again) if some else found

    some = stages.get("step", range(len(nodes))) if stages else ()
    if isinstance(some, int):
        raise ValueError("a tree has nodes, and no steps in a row")
    found = summed(nodes, after, sums, some, None if plain is None else plain.get(0))
    if plain is not None and not stages:
        plain[0] = found
    return np.asarray(found[-1])


def _in_some_rows(codes: Array, stages: Stages, number: int, again: Callable[[Stages], Array]) -> Array:
    """Return codes of a step's sums with its fault in some rows, by the terms and sums without it."""
    held: list[Any] = []

    def kept(part: Any) -> Any:
        held.append(part)
        return part

    right = again(stages={"running": kept, "before": kept})  # type: ignore[call-arg]
    return np.where(stages["at"](number, *held), codes, right)


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
        terms = stages.get("addend", same)(terms) if first else terms
        own_ends = np.isnan(running), np.zeros(codes.size, bool), np.isinf(running), signs
        of_step = Ends(*(joined(part[rows, lanes], own) for part, own in zip(ends, own_ends, strict=True)))
        yields = np.arange(terms.negative.shape[1]) < (terms.negative.shape[1] - 1) * rounded
        return _step(terms, of_step, window, result, stages, yields=yields)

    def of(number: int) -> Stages:
        return stages if stages.get("step", number) in (number, number - len(places)) else {}

    def then(codes: Array) -> tuple[Array, Array, Format]:
        return codes, (codes & result[0].sign_code) != 0, result[0]

    every = np.arange(codes.size)[:, None]
    begin = codes, signs, fmt
    if plain is None or low not in plain or len({lanes.size for lanes in places}) != 1:
        made = []
        for number, some in enumerate(places):
            before = begin if not number else then(codes)
            codes = after(every, some[None], before, of(number), not number)
            if "at" in stages:
                again = partial(after, every, some[None], before, first=not number)
                codes = _in_some_rows(codes, stages, number, again)
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
    yields: Array,
) -> Array:
    """Return codes of the sums of one step."""
    fmt, rule = result
    rule = dataclasses.replace(rule, rounding=stages["mode"]) if "mode" in stages else rule
    ends = stages.get("ends", same)(ends)
    terms = stages.get("running", same)(terms)
    bits = WIDE if window is None or window.fraction_bits is None else window.fraction_bits
    counted = stages.get("counts", nonzero)(terms)
    least = -4096 if window is None else window.lowest_exponent
    seen = stages["seen"](terms) if "seen" in stages else terms.exponent
    largest = np.where(counted, seen, least).max(1, initial=least)
    if "empty" in stages:
        largest = np.where(counted.any(1), largest, stages["empty"]())
    terms = stages.get("above", as_read)(terms, largest)
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
        # That of a product which was rounded before comes after that of a running sum.
        firm = (ends.nan & ~yields).any(1, keepdims=True)
        found = ends.nan & ~(yields & firm)
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
    if "codes" in stages:
        codes = stages["codes"](codes, fmt).astype(codes.dtype)
    return codes


def same(part: Any) -> Any:
    """Return a part as it is."""
    return part


def as_read(numbers: Numbers, _: Any) -> Numbers:
    """Return numbers as they are."""
    return numbers


def nonzero(terms: Numbers) -> Array:
    """Return which terms the largest exponent is of."""
    return np.asarray((terms.significand != 0) | terms.cancelled)
