"""Features of dot products: of their operands lane by lane, and of what each step does with its terms."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from lowprec.arrays.convert import encode
from lowprec.spec import catalog
from lowprec.spec.accumulation import Accumulation, Window
from lowprec.spec.format import Format
from lowprec.spec.projection import Projection
from lowprec.verify.codes.values import doubles
from lowprec.verify.questions.dots.dot_operands import Given, in_blocks
from lowprec.verify.questions.dots.step_cuts import Numbers, limited
from lowprec.verify.questions.dots.step_model import Formats, folded, has_steps, stepped as run_steps
from lowprec.verify.questions.dots.step_sums import Sum
from lowprec.verify.questions.dots.step_trees import is_tree, nodes_of, places_of_nodes
from lowprec.verify.questions.features import Feature, any_of, exponents, of_codes, of_values
from lowprec.verify.questions.question import Array

__all__ = ["of_each_step", "of_products", "of_step", "of_steps", "of_sums"]

#: Lanes, and steps, of which each has features of its own.
_LANES, _STEPS = 32, 4
#: How places of single nodes of trees end; what terms of a step are called where they are those of a node.
_ALONE = " alone"
_OF_NODES = {"the (addend or )?running sum": "the last term", r"the product of lane (\d+)": r"term \1"}
#: Name of what tells the steps of a result from each other.
_NUMBER = "the number of the step, counted from 0,"
_OF_NODES |= {r"of lane (\d+)": r"of term \1", "some product": "a term but the last"}


def of_sums(
    given: Given, how: Accumulation, formats: Formats, read: Formats, *, stepped: bool
) -> Iterator[Feature]:
    """Yield features of dot products: of operands, scales, and steps where they are known."""
    x, y, addend, scales = given.x, given.y, given.addend, given.scales
    if not given.paired:
        rows, columns = len(x), y.shape[-1]
        x, y = np.repeat(x, columns, 0), np.tile(y.T, (rows, 1))
    operands = how.operands or read
    if scales is not None and how.scale is not None and given.paired:
        held: dict[int, Array | int] = {}
        for name, blocks in (("x", scales.x_blocks), ("y", scales.y_blocks)):
            for place in range(0 if blocks is None else blocks.scales.shape[-1]):
                part = np.asarray(blocks.scales[:, place], np.float64)  # type: ignore[union-attr]
                yield from of_values(f"scale {place} of {name}", part)
                codes: Array = np.asarray(encode(part, how.scale[0])).astype(np.int64)
                held[place] = held.get(place, 0) + codes
                yield Feature(f"the code of scale {place} of {name}", codes)
                yield Feature(f"the last bit of scale {place} of {name} is 1", codes & 1 == 1)
        for place, both in held.items() if not how.scale[0].trailing_bits else ():
            yield Feature(f"the sum of the codes of scales {place} of x and y", np.asarray(both))
    if x.shape[1]:
        yield from of_products(x, y, None if addend is None else addend.reshape(-1), operands)
    if stepped and has_steps(how, operands) and (scales is None or (how.scale is not None and given.paired)):
        left, right = in_blocks(given, how, formats) if given.paired else (x, y)
        yield from of_steps(left, right, addend, how, operands)


def of_products(x: Array, y: Array, addend: Array | None, formats: Formats) -> Iterator[Feature]:
    """Yield features of the factors of rows, of their products, and of the addend, all given as values."""
    if addend is not None:
        known = {np.dtype(np.float32): "binary32", np.dtype(np.float16): "binary16"}.get(addend.dtype)
        if known is not None:
            words = addend.reshape(-1).view(f"u{addend.dtype.itemsize}")
            yield from of_codes("the addend", words, catalog.format(known))
        else:
            yield from of_values("the addend", doubles(addend.reshape(-1)))
    wide = [doubles(x), doubles(y)]
    lanes = range(x.shape[1]) if x.shape[1] <= _LANES else ()
    for name, side, fmt in zip("xy", wide, formats, strict=True):
        yield from any_of(f"{name} is NaN", np.isnan(side), lanes)
        yield from any_of(f"{name} is infinite", np.isinf(side), lanes)
        yield from any_of(f"{name} is zero", side == 0, lanes)
        yield Feature(f"all {name} are zero", np.asarray((side == 0).all(1)))
        yield from any_of(f"{name} is negative", np.signbit(side), lanes)
        if fmt is None:
            continue
        if fmt.exponent_bits and fmt.subnormals:
            yield from any_of(f"{name} is subnormal", (side != 0) & (np.abs(side) < 2.0**fmt.emin), lanes)
        yield from any_of(f"{name} has the largest magnitude", np.abs(side) == fmt.max_finite, lanes)
        if fmt.width <= 16:
            how = Projection(nan="max", negative="drop_sign")
            codes = np.asarray(encode(side, fmt, projection=how)).astype(np.int64)
            for lane in lanes:
                yield Feature(f"in lane {lane} the last bit of {name} is 1", codes[:, lane] & 1 == 1)
    with np.errstate(all="ignore"):
        products = wide[0] * wide[1]
    finite = np.isfinite(products)
    nonzero = finite & (products != 0)
    for lane in lanes:
        yield Feature(f"in lane {lane} the product is negative", np.signbit(products[:, lane]))
        yield Feature(f"in lane {lane} the product is zero", products[:, lane] == 0)
    yield Feature("the number of products that are not zero", nonzero.sum(1))
    yield Feature("the number of negative products", (np.signbit(products) & nonzero).sum(1))
    yield Feature("the number of infinite products", np.isinf(products).sum(1))
    yield Feature("the number of NaN products", np.isnan(products).sum(1))
    yield from any_of(
        "zero is multiplied by infinity", np.isnan(products) & ~np.isnan(wide[0]) & ~np.isnan(wide[1]), ()
    )
    yield from any_of("both factors are negative", np.signbit(wide[0]) & np.signbit(wide[1]), ())
    size = np.where(nonzero, exponents(products), -(1 << 12))
    largest = size.max(1)
    yield Feature("the largest exponent of products", np.where(nonzero.any(1), largest, 0))
    if x.shape[1] > 1:
        yield Feature("the lane of the largest product", np.argmax(np.where(finite, np.abs(products), -1), 1))
    if addend is not None:
        of_addend = exponents(doubles(addend.reshape(-1)))
        both = nonzero.any(1) & (doubles(addend.reshape(-1)) != 0)
        apart = np.where(both, of_addend - largest, 0)
        yield Feature("the addend's exponent less the largest of products", apart)
        minus = np.signbit(doubles(addend.reshape(-1)))
        for lane in lanes:
            same = np.signbit(products[:, lane]) == minus
            yield Feature(f"in lane {lane} the product has the sign of the addend", same)
        first = np.take_along_axis(products, np.argmax(nonzero, 1)[:, None], 1)[:, 0]
        same = nonzero.any(1) & (np.signbit(first) == minus)
        yield Feature("the first nonzero product has the sign of the addend", same)


def _of_all_steps(
    x: Any, y: Any, addend: Array | None, how: Accumulation, formats: Formats
) -> list[list[Feature]]:
    """Return features of each step, or node of a tree."""
    held: list[Any] = []

    def kept(part: Any) -> Any:
        held.append(part)
        return part

    run_steps(x, y, addend, how, formats, {"running": kept, "before": kept, "together": True})
    return [of_step(how, number, *held[2 * number : 2 * number + 2]) for number in range(len(held) // 2)]


def of_step(how: Accumulation, number: int, terms: Numbers, total: Sum) -> list[Feature]:
    """Return features of a step, or node of a tree, of rows: from its number, its terms and its sum."""
    window = how.accumulator if isinstance(how.accumulator, Window) else None
    bits = None if window is None else window.fraction_bits
    result = window.result[0] if window is not None else how.summed[0]
    found = list(_of_step(terms, total, bits, result, of_groups=folded(how) is not how))
    for words, said in _OF_NODES.items() if is_tree(how) else ():
        found = [replace(feature, name=re.sub(words, said, feature.name)) for feature in found]
    return [Feature(_NUMBER, np.full(len(total.negative), number)), *found]


def of_each_step(
    x: Any, y: Any, addend: Array | None, how: Accumulation, formats: Formats
) -> Iterator[Feature]:
    """Yield features of all steps of rows, or of nodes of trees, one row after the other."""
    steps = _of_all_steps(x, y, addend, how, formats)
    by_name = [{feature.name: feature for feature in step} for step in steps]
    for name, feature in by_name[0].items():
        if all(name in step for step in by_name):
            values = np.stack([step[name].values for step in by_name], 1).reshape(-1)
            yield replace(feature, values=values)


def of_steps(x: Any, y: Any, addend: Array | None, how: Accumulation, formats: Formats) -> Iterator[Feature]:
    """Yield features of each step: shifts, cut bits, carries, cancellation, and how its sum is rounded."""
    steps = _of_all_steps(x, y, addend, how, formats)
    found: dict[str, list[Array]] = {}
    last = len(steps) - 1
    nodes = nodes_of(how, x.shape[1], addend is not None) if is_tree(how) else ()
    names = [f"{said.removesuffix(_ALONE)} " for _, said in places_of_nodes(nodes) if said.endswith(_ALONE)]
    for number, features in enumerate(steps):
        where = "" if last == 0 else names[number] if nodes else f"in step {number} of {last + 1} "
        for feature in features[1:]:
            if number < _STEPS or number == last:
                yield Feature(where + feature.name, feature.values)
            if feature.values.dtype == bool and last:
                found.setdefault(feature.name, []).append(feature.values)
    for name, each in found.items():
        yield Feature(f"in some step {name}", np.logical_or.reduce(each))


def _of_step(
    terms: Numbers, total: Sum, bits: int | None, result: Format, *, of_groups: bool
) -> Iterator[Feature]:
    nonzero = terms.significand != 0
    any_ = nonzero.any(1)
    largest = np.where(nonzero, terms.exponent, -(1 << 12)).max(1)
    shifts = np.where(nonzero, largest[:, None] - terms.exponent, 0)
    yield Feature("some product is nonzero", nonzero[:, :-1].any(1))
    yield Feature("the largest shift of alignment", shifts.max(1))
    yield Feature("the shift of the addend or running sum", shifts[:, -1])
    others = nonzero[:, :-1] & (shifts[:, :-1] == 0)
    alone = nonzero[:, -1] & (shifts[:, -1] == 0) & ~others.any(1)
    yield Feature("the addend or running sum has the largest exponent alone", alone)
    if bits is not None:
        down = limited((largest - bits)[:, None] - terms.last, 0, 62)
        cut = nonzero & (terms.significand & (1 << down) - 1 != 0)
        yield Feature("alignment cuts bits off", cut.any(1))
        yield Feature("alignment cuts bits off the addend or running sum", cut[:, -1])
        yield Feature("alignment cuts bits off a negative term", (cut & terms.negative).any(1))
        yield Feature(
            "alignment cuts a term off as a whole", (nonzero & (terms.significand >> down == 0)).any(1)
        )
        lowest = np.frexp((total.significand & -total.significand).astype(np.float64))[1] - 1
        ends = np.where(total.significand != 0, lowest + total.last - total.unit, 0).clip(0)
        yield Feature("the number of zeros at the end of the sum, from the window's last place on,", ends)
    signs = terms.negative & nonzero
    yield Feature("terms have unlike signs", signs.any(1) & (nonzero & ~terms.negative).any(1))
    plain = total.significand != 0
    high, low = total.significand >> 31, total.significand & (1 << 31) - 1
    length = np.where(
        high > 0, np.frexp(high.astype(np.float64))[1] + 31, np.frexp(low.astype(np.float64))[1]
    )
    top = np.where(plain, length - 1 + total.last, 0)
    yield Feature("the sum is negative", total.negative & plain)
    yield Feature(
        "the sum has the sign of the addend or running sum", plain & (total.negative == terms.negative[:, -1])
    )
    yield Feature("the sum is zero", ~plain)
    power = (total.significand & total.significand - 1) == 0
    yield Feature("the sum before rounding is a power of two", plain & power)
    yield Feature("terms cancel to zero", ~plain & any_)
    yield Feature(
        "the exponent of the sum less the largest of its terms", np.where(plain & any_, top - largest, 0)
    )
    yield Feature("the exponent of the sum", top)
    yield Feature("the exponent of the sum is odd", plain & (top & 1 == 1))
    sizes = np.frexp(terms.significand.astype(np.float64))[1] - 1 + terms.last
    leading = np.where(nonzero, sizes, -(1 << 12)).max(1)
    yield Feature("the number of leading bits that cancel", np.where(plain & any_, leading - top, 0).clip(0))
    yield Feature("the places between the first bits of the two largest terms", limited(total.apart, 0, 99))
    yield Feature("the sum before rounding is subnormal", plain & (top < result.emin))
    places = limited(total.discarded, 0, 62)
    rest = total.significand & (np.int64(1) << places) - 1
    half = np.where(places > 0, np.int64(1) << np.maximum(places - 1, 0), 0)
    kept = total.significand >> places
    inexact = plain & (places > 0) & (rest != 0)
    yield Feature("the sum is rounded", inexact)
    yield Feature("the guard bit is 1", inexact & (rest & half != 0))
    yield Feature("the sticky bit is 1", inexact & (rest & ~half != 0))
    yield Feature("the sum is a tie", inexact & (rest == half))
    yield Feature("the last bit before rounding is 1", plain & (kept & 1 == 1))
    up = inexact & ((rest > half) | ((rest == half) & (kept & 1 == 1)))
    yield Feature("rounding carries into the exponent", up & (kept == (2 << result.trailing_bits) - 1))
    yield Feature(
        "rounding carries from the subnormal numbers", up & (kept == (1 << result.trailing_bits) - 1)
    )
    yield Feature("the significand before rounding is all ones", plain & (kept & kept + 1 == 0) & (kept > 0))
    if terms.significand.shape[1] <= _LANES:
        for lane in range(shifts.shape[1] - 1):
            yield Feature(f"the shift of lane {lane}", shifts[:, lane])
            if not of_groups:
                added = np.where(nonzero[:, lane], terms.exponent[:, lane], 0)
                yield Feature(f"the sum of the factors' exponents in lane {lane}", added)
            same = terms.negative[:, lane] == terms.negative[:, -1]
            yield Feature(f"the product of lane {lane} has the sign of the running sum", same)
            if of_groups:
                yield Feature(f"the sum of group {lane} is negative", signs[:, lane])
                yield Feature(f"the sum of group {lane} is zero", ~nonzero[:, lane])
