"""Coverage of vectors for dot products: what happens in each step, and which other units they tell apart.

What happens is computed from the operands and the running sums, in integers. Units are told apart by results
of the library that differ: for an accumulation with one field changed, or for operands with one lane missing.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.spec.accumulation import Cut, Window
from lowprec.spec.format import Carrier, Format
from lowprec.spec.order import SEQUENTIAL
from lowprec.verify.coverage.dot_units import add_units, vanishes
from lowprec.verify.coverage.points import Plan
from lowprec.verify.inputs.dot_shape import DotCases, Shape, answers, values_of

__all__ = ["plan_of_dots"]

Array = npt.NDArray[Any]

#: An exponent below all others, of zeros.
_NONE = -(1 << 20)


def plan_of_dots(shape: Shape, cases: DotCases, results: Array) -> Plan:
    """Return the verification plan of a dot unit, with the vectors that hit each point.

    Parameters
    ----------
    shape : Shape
    cases : DotCases
        n of them.
    results : array of codes, shape (n,)
    """
    plan = Plan(len(cases.x))
    x, y = (values_of(codes, fmt) for codes, fmt in zip((cases.x, cases.y), shape.formats, strict=True))
    addend = values_of(cases.addend, shape.addend)
    with np.errstate(all="ignore"):
        _operands(plan, shape, x, y, addend)
        _specials(plan, x, y, addend)
        if not shape.how.machine and (shape.how.order.name, shape.how.order.inner) in (
            ("sequential", "sequential"),
            ("chunked", "sequential"),
        ):
            _steps(plan, shape, cases, x, y, addend)
        _outputs(plan, shape, results)
    add_units(plan, shape, cases, results)
    return plan


# -- operands ---------------------------------------------------------------------------------------


def _operands(plan: Plan, shape: Shape, x: Array, y: Array, addend: Array) -> None:
    present = (x != 0) & (y != 0) & np.isfinite(x) & np.isfinite(y)
    count = present.sum(1)
    finite = np.isfinite(x).all(1) & np.isfinite(y).all(1) & np.isfinite(addend)
    for lane in range(shape.lanes):
        plan.add("lanes", "the only product", finite & present[:, lane] & (count == 1), lane)
    plan.add("lanes", "the addend alone", finite & (count == 0) & (addend != 0))
    plan.add("lanes", "every product", finite & (count == shape.lanes))
    for name, values, fmt in (("x", x, shape.formats[0]), ("y", y, shape.formats[1])):
        if fmt.min_subnormal is None or not fmt.exponent_bits:
            continue
        small = (values != 0) & (np.abs(values) < 2.0**fmt.emin)
        for lane in range(shape.lanes):
            plan.add("operands", f"subnormal {name}", finite & small[:, lane] & present[:, lane], lane)
    begin = shape.addend
    if begin.min_subnormal is not None and begin.exponent_bits:
        plan.add("operands", "subnormal addend", finite & (addend != 0) & (np.abs(addend) < 2.0**begin.emin))
    zeros: Array = finite & (count == 0) & (addend == 0)
    plan.add(
        "operands",
        "zeros alone, some of them negative",
        zeros & (np.signbit(x).any(1) | np.signbit(y).any(1)),
    )
    plan.add("operands", "zeros alone, the addend -0", zeros & np.signbit(addend))


def _specials(plan: Plan, x: Array, y: Array, addend: Array) -> None:
    kinds: tuple[tuple[str, Any], ...] = (("NaN", np.isnan), ("infinity", np.isinf))
    for words, some in kinds:
        for name, values in (("x", x), ("y", y)):
            if some(values).any():
                for lane in range(x.shape[1]):
                    plan.add("specials", f"{words} in {name}", some(values[:, lane]), lane)
        plan.add("specials", f"{words} as the addend", some(addend))
    products = x * y
    invalid = np.isnan(products) & ~np.isnan(x) & ~np.isnan(y)
    if invalid.any():
        for lane in range(x.shape[1]):
            plan.add("specials", "zero times infinity", invalid[:, lane], lane)
    plus, minus = np.isposinf(products).any(1), np.isneginf(products).any(1)
    if plus.any():
        against = (plus & np.isneginf(addend)) | (minus & np.isposinf(addend))
        plan.add("specials", "infinities of unlike signs in two lanes", np.asarray(plus & minus))
        plan.add("specials", "an infinite product, an infinite addend of the other sign", np.asarray(against))


def _outputs(plan: Plan, shape: Shape, results: Array) -> None:
    out = shape.how.output[0]
    values = values_of(results, out)
    plan.add("result", "+0", (values == 0) & ~np.signbit(values))
    window = shape.how.accumulator
    minus = (values == 0) & np.signbit(values)
    if out.has_negative_zero and (window.negative_zero if isinstance(window, Window) else minus.any()):
        plan.add("result", "-0", minus)
    largest = min(out.max_finite, shape.result.max_finite)
    plan.add("result", "the largest number", np.abs(values) == largest)
    if out.infinity:
        plan.add("result", "infinity", np.isinf(values))
    if out.has_nan:
        plan.add("result", "NaN", np.isnan(values))
    if out.min_subnormal is not None and out.exponent_bits:
        small = (values != 0) & (np.abs(values) < 2.0**out.emin)
        if small.any() or not shape.how.machine:  # machines may flush them
            plan.add("result", "subnormal", small)
        plan.add("result", "the smallest normal number", np.abs(values) == 2.0**out.emin)


# -- steps ------------------------------------------------------------------------------------------


def _exponents(values: Array, fmt: Format) -> Array:
    """Return the exponents by which values are aligned: of subnormals that of the smallest normal."""
    lead = np.frexp(np.where(values == 0, 1.0, values))[1] - 1
    least = fmt.emin if fmt.exponent_bits else fmt.scaled(1)[1]
    return np.where(values == 0, _NONE, np.maximum(lead, least)).astype(np.int64)


def _last_bits(values: Array) -> Array:
    """Return the exponents of the lowest bits that are set."""
    fraction, exponent = np.frexp(values)
    whole = np.ldexp(np.abs(np.where(values == 0, 0.5, fraction)), 53).astype(np.int64)
    low = np.frexp((whole & -whole).astype(np.float64))[1] - 1
    return np.asarray(low + exponent - 53)


@dataclasses.dataclass(frozen=True)
class _Terms:
    """The terms of a step besides the running sum: values, exponents, and the lane that each begins at."""

    values: Array
    exponents: Array
    lanes: Array


def _terms(shape: Shape, cases: DotCases, x: Array, y: Array) -> _Terms:
    products = x * y
    exponents = _exponents(x, shape.formats[0]) + _exponents(y, shape.formats[1])
    lanes = np.arange(shape.lanes)
    window = shape.how.accumulator
    if isinstance(shape.how.product, tuple) and shape.how.term <= 1:
        from lowprec.arrays.convert import quantize  # of a part that few accumulations have

        products = np.asarray(quantize(products, shape.how.product[0], projection=shape.how.product[1]))
        exponents = _exponents(products, shape.how.product[0])
    if cases.scales is not None and isinstance(window, Window):
        assert shape.how.scale is not None
        fmt, size = shape.how.scale
        scales = [np.repeat(np.abs(values_of(codes, fmt)), size, axis=1) for codes in cases.scales]
        both = _exponents(scales[0], fmt) + _exponents(scales[1], fmt)
        products = products * scales[0] * scales[1]
        exponents = exponents + both
        if window.scales == "groups":
            held = (len(x), -1, window.group)
            products, exponents = products.reshape(held).sum(2), both.reshape(held)[:, :, 0]
            lanes = lanes[:: window.group]
    return _Terms(products, np.where(products == 0, _NONE, exponents), lanes)


def _steps(plan: Plan, shape: Shape, cases: DotCases, x: Array, y: Array, addend: Array) -> None:
    """Add what happens in each step, from the running sums before it."""
    how, terms = shape.how, _terms(shape, cases, x, y)
    held = how.accumulator
    assert held is not None
    result = held.result if isinstance(held, Window) else held
    chunk = how.order.size if how.order.name == "chunked" else 0
    partly = dataclasses.replace(
        how, name="", order=SEQUENTIAL, total=None, addend="first",
        output=result if not isinstance(result[0], Carrier) else how.output,
    )  # fmt: skip
    finite = (
        np.isfinite(x).all(1) & np.isfinite(y).all(1) & np.isfinite(addend) & np.isfinite(terms.values).all(1)
    )
    begin = np.where(chunk > 0 or how.addend == "last", 0.0, addend)
    done = np.zeros(shape.lanes, bool)
    for number, lanes in enumerate(shape.steps):
        if chunk and lanes[0] % chunk == 0:
            done[:] = False
        running = begin
        if done.any():
            before = dataclasses.replace(cases, x=np.where(done, cases.x, 0).astype(cases.x.dtype))
            before = dataclasses.replace(before, addend=cases.addend if not chunk else cases.addend * 0)
            running = values_of(answers(shape, before, partly), partly.output[0])
        _one_step(
            plan, shape, terms, np.isin(terms.lanes, lanes), running, finite & np.isfinite(running), number
        )
        done[lanes] = True


def _one_step(
    plan: Plan, shape: Shape, terms: _Terms, here: Array, running: Array, valid: Array, number: int
) -> None:
    window = shape.how.accumulator
    fmt = shape.result
    values = np.column_stack([terms.values[:, here], running])
    exponents = np.column_stack([terms.exponents[:, here], _exponents(running, fmt)])
    lanes = [int(lane) for lane in terms.lanes[here]]
    first = np.partition(exponents, -2, axis=1)[:, -2:]
    alone = valid & (first[:, 1] > first[:, 0])
    sets = exponents.argmax(1)
    for place, lane in enumerate(lanes):
        plan.add("exponents", "the largest, alone", alone & (sets == place), lane)
    what = "addend" if number == 0 and shape.how.addend == "first" else "running sum"
    if running.any():
        plan.add("exponents", f"the largest, alone: the {what}", alone & (sets == len(lanes)))
    plan.add(
        "exponents",
        "the largest in several terms",
        valid & (first[:, 1] == first[:, 0]) & (first[:, 1] > _NONE),
    )
    largest = first[:, 1]
    if isinstance(window, Window) and window.fraction_bits is not None:
        largest = np.maximum(largest, window.lowest_exponent)
        end = largest - window.fraction_bits
        # Whether the largest term may lie so far above products that one is cut.
        x, y = shape.formats
        highest = max(x.emax + y.emax, shape.addend.emax if shape.how.order.name != "chunked" else -(1 << 20))
        reached = highest - window.fraction_bits > x.scaled(1)[1] + y.scaled(1)[1] or window.scales != "none"
        _window(plan, values, end, valid, lanes, what, reached)
        scaled = np.ldexp(values, -end[:, None])
        kept = _cut(scaled, window.cut)
        total = [sum(map(int, row)) if ok else 0 for row, ok in zip(kept.tolist(), valid, strict=True)]
        # The result has the window's last bit, so that another window gives another result.
        short = np.array([0 < whole.bit_length() <= fmt.precision for whole in total])
        shows = alone & short & (kept != scaled).any(1)
        for place, lane in enumerate(lanes if shows.any() else []):
            plan.add("exponents", "the largest, alone, and what is cut shows", shows & (sets == place), lane)
    else:
        low = np.where(values == 0, 1 << 20, _last_bits(values)).min(1)
        end = np.where(low == 1 << 20, 0, low)
        rows = zip(values.tolist(), end.tolist(), valid, strict=True)
        total = [sum(_whole(value, unit) for value in row) if ok else 0 for row, unit, ok in rows]
    some = valid & (largest > _NONE) & (np.abs(values) > 0).any(1)
    _sum(plan, shape, total, end, np.where(some, largest, 0), some)


def _whole(value: float, unit: int) -> int:
    """Return a multiple of 2**unit as an integer: of numbers that float64 has not in these units."""
    over, under = value.as_integer_ratio()
    return (over << max(-unit, 0)) // (under << max(unit, 0))


def _cut(values: Array, way: Cut) -> Array:
    """Return values cut to integers."""
    if way == "floor":
        return np.asarray(np.floor(values))
    whole = np.trunc(values)
    if way == "nearest_away":
        return np.asarray(whole + np.trunc(2 * (values - whole)))
    odd = (whole != values) & (np.fmod(whole, 2) == 0)
    return np.where(odd, whole + np.copysign(1, values), whole) if way == "to_odd" else np.asarray(whole)


def _window(
    plan: Plan, values: Array, end: Array, valid: Array, lanes: list[int], what: str, reached: bool
) -> None:
    """Add where terms lie about the end of the window."""
    lead = np.frexp(values)[1] - 1 - end[:, None]
    low = _last_bits(values) - end[:, None]
    here = valid[:, None] & (values != 0)
    for words, hits in (
        ("last bit is the window's last", low == 0),
        ("one bit is cut", low == -1),
        ("several bits are cut", (low < -1) & (lead >= 0)),
        ("only its first bit is kept", lead == 0),
        ("first bit is one below the window", lead == -1),
        ("lies far below the window", lead < -1),
        ("negative, and bits are cut", (low < 0) & (values < 0)),
        ("positive, and bits are cut", (low < 0) & (values > 0)),
    ):
        if reached:
            plan.add("window", f"product: {words}", (here & hits)[:, :-1].any(1))
        if values[:, -1].any():
            plan.add("window", f"{what}: {words}", (here & hits)[:, -1])
    for place, lane in enumerate(lanes if reached else []):
        plan.add("window", "bits are cut", (here & (low < 0))[:, place], lane)
    cut = np.ldexp(values, -end[:, None])
    lost = np.where(here, np.abs(cut - np.trunc(cut)), 0.0).sum(1)
    plan.add("window", "what is cut adds up to a last bit or more", valid & (lost >= 1))


def _sum(plan: Plan, shape: Shape, total: list[int], end: Array, largest: Array, some: Array) -> None:
    """Add how the sum of a step lies in its result."""
    fmt = shape.result
    x, y = ((2 - 2.0 ** -min(fmt.trailing_bits, 50)) for fmt in shape.formats)
    largest_product = x * y if shape.how.product is None else 2.0
    group = shape.how.accumulator.group if isinstance(shape.how.accumulator, Window) else 1
    reach = (
        math.ceil(math.log2(shape.step * largest_product * (4 if group > 1 else 1) + 2)) - 1
    )  # the sum is below that
    found: dict[tuple[str, str], list[int]] = {}
    for at, (whole, unit, top, ok) in enumerate(
        zip(total, end.tolist(), largest.tolist(), some.tolist(), strict=True)
    ):
        if ok:
            for key in _situations(abs(whole), unit, top, fmt, reach):
                found.setdefault(key, []).append(at)
    for key in _all_situations(shape, reach):
        hits = np.zeros(len(total), bool)
        hits[found.get(key, [])] = True
        plan.add(*key, hits)


def _all_situations(shape: Shape, reach: int) -> Iterator[tuple[str, str]]:
    """Yield what may happen to a sum, with these operands and this result."""
    x, y = shape.formats
    fmt = shape.result
    yield from (("sum", _carried(places)) for places in range(1, reach + 1))
    yield from (("sum", words) for words in ("cancels to zero", "cancels to the last bit", "cancels in part"))
    ties = ("at a tie, to an even number", "at a tie, to an odd number", "below a tie", "above a tie")
    ends = ("one last bit above a number", "one last bit below a tie", "one last bit above a tie")
    for words in ("exact", *ties, *ends):
        yield "rounding", words
    if not isinstance(shape.how.accumulator, Window) or shape.places > fmt.trailing_bits:
        yield "rounding", "all ones before rounding"
    if x.emax + y.emax + shape.lanes.bit_length() + 2 >= fmt.emax - shape.places:
        yield "range", "beyond the largest number"
    yield "range", "subnormal"
    if vanishes(shape):
        yield "range", "below the smallest"


def _carried(places: int) -> str:
    return f"carries {places} place{'s' * (places > 1)} to the left"


def _situations(whole: int, unit: int, top: int, fmt: Format, reach: int) -> Iterator[tuple[str, str]]:
    if not whole:
        yield "sum", "cancels to zero"
        return
    lead = whole.bit_length() - 1 + unit
    if lead > top:
        yield "sum", _carried(min(lead - top, reach))
    elif whole == 1 and lead < top:
        yield "sum", "cancels to the last bit"
    elif lead < top - 1:
        yield "sum", "cancels in part"
    if lead > fmt.emax:
        yield "range", "beyond the largest number"
    least = fmt.emin if fmt.exponent_bits else fmt.scaled(1)[1]
    if lead < least:
        yield "range", "subnormal" if lead >= least - fmt.trailing_bits else "below the smallest"
    places = max(lead, least) - fmt.trailing_bits - unit
    if places <= 0:
        yield "rounding", "exact"
        return
    kept, tail, half = whole >> places, whole & (1 << places) - 1, 1 << places - 1
    if not tail:
        yield "rounding", "exact"
    elif tail == half:
        yield "rounding", f"at a tie, to an {'odd' if kept & 1 else 'even'} number"
    else:
        yield "rounding", "above a tie" if tail > half else "below a tie"
    if places > 1:
        for distance, words in ((1, "one last bit above a number"), (half - 1, "one last bit below a tie"),
                                (half + 1, "one last bit above a tie")):  # fmt: skip
            if tail == distance:
                yield "rounding", words
    if tail and kept and not (kept + 1) & kept:
        yield "rounding", "all ones before rounding"
