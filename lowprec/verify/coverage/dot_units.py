"""Dot units that vectors tell apart: with one field changed, one lane missing, or operands misread.

They are asked of the library: a unit is told apart by the vectors whose result is another.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from lowprec.spec.accumulation import Accumulation, Cut, Window
from lowprec.spec.format import Format
from lowprec.spec.order import EXACT, PAIRWISE, SEQUENTIAL, chunked
from lowprec.spec.projection import Projection
from lowprec.spec.rounding import NEAREST_AWAY, NEAREST_EVEN, TOWARD_NEGATIVE, TOWARD_ZERO
from lowprec.verify.coverage.points import Plan
from lowprec.verify.inputs.dot_shape import DotCases, Shape, answers

__all__ = ["add_units", "vanishes"]

Array = npt.NDArray[Any]


def vanishes(shape: Shape) -> bool:
    """Return whether a sum that is not zero may lie below the smallest number of its result."""
    x, y = shape.formats
    window, fmt = shape.how.accumulator, shape.result
    last = min(x.scaled(1)[1] + y.scaled(1)[1], shape.addend.scaled(1)[1])
    if isinstance(window, Window) and window.fraction_bits is not None and window.scales == "none":
        lowest = min(x.emin + y.emin, fmt.emin)
        last = max(last, max(lowest, window.lowest_exponent) - window.fraction_bits)
    return last < fmt.scaled(1)[1]


def add_units(plan: Plan, shape: Shape, cases: DotCases, results: Array) -> None:
    """Add the vectors that tell the unit from another, or from one that misreads its operands."""

    def differs(
        words: str, how: Accumulation | None = None, given: DotCases = cases, lane: int | None = None
    ) -> None:
        try:
            other = answers(shape, given, how)
        except (ValueError, TypeError):  # no such unit, or none of these operands
            return
        plan.add("tells", words, other != results, lane)

    for lane in range(shape.lanes):
        kept = np.arange(shape.lanes) != lane
        missing = dataclasses.replace(cases, x=np.where(kept, cases.x, 0).astype(cases.x.dtype))
        differs("a lane missing", given=missing, lane=lane)
    differs("the addend missing", given=dataclasses.replace(cases, addend=cases.addend * 0))
    if len(shape.steps) > 1 and shape.how.order != EXACT:
        differs("the lanes in reverse", given=_lanes(cases, np.arange(shape.lanes)[::-1]))
    differs("y in reverse", given=dataclasses.replace(cases, y=cases.y[:, ::-1]))
    for name, fmt in (("x", shape.formats[0]), ("y", shape.formats[1])):
        if fmt.min_subnormal is not None and fmt.exponent_bits:
            codes = getattr(cases, name)
            small = (codes & (fmt.sign_code - 1 if fmt.sign_code else ~0)) >> fmt.trailing_bits == 0
            flushed = np.where(small, codes & fmt.sign_code, codes).astype(codes.dtype)
            differs(f"subnormal {name} taken as zero", given=dataclasses.replace(cases, **{name: flushed}))
    for words, how in others_of(shape):
        differs(words, how)


def _lanes(cases: DotCases, order: Array) -> DotCases:
    if cases.scales is None:
        return dataclasses.replace(cases, x=cases.x[:, order], y=cases.y[:, order])
    return DotCases(
        cases.x[:, order],
        cases.y[:, order],
        cases.addend,
        (cases.scales[0][:, ::-1], cases.scales[1][:, ::-1]),
    )


def others_of(shape: Shape) -> Iterator[tuple[str, Accumulation]]:
    """Yield units with one field changed."""
    how, held = shape.how, shape.how.accumulator

    def changed(words: str, **fields: Any) -> Iterator[tuple[str, Accumulation]]:
        try:
            other = dataclasses.replace(how, name="", **fields)
        except (ValueError, TypeError):
            return
        if other != how:
            yield words, other

    def modes(place: tuple[Format, Projection]) -> Iterator[tuple[str, tuple[Format, Projection]]]:
        for mode in (NEAREST_EVEN, NEAREST_AWAY, TOWARD_ZERO, TOWARD_NEGATIVE):
            if mode != place[1].rounding:
                yield f"rounded {mode}", (place[0], dataclasses.replace(place[1], rounding=mode))
        if place[1].subnormals == "keep":
            yield "subnormals flushed", (place[0], dataclasses.replace(place[1], subnormals="flush_results"))

    if isinstance(held, Window):
        if vanishes(shape):
            flipped = dataclasses.replace(held, negative_zero=not held.negative_zero)
            yield from changed("the sign of sums that vanish", accumulator=flipped)
        for words, window in _windows(held, shape.lanes):
            yield from changed(words, accumulator=window)
        for words, place in modes(held.result):
            try:
                yield from changed(f"steps {words}", accumulator=dataclasses.replace(held, result=place))
            except ValueError:
                continue
    elif held is not None:
        for words, place in modes(held):
            yield from changed(f"sums {words}", accumulator=place)
        yield from changed("products rounded to the accumulator", product=held)
        x, y = shape.formats
        if how.product is not None and x.precision + y.precision > how.product[0].precision:
            yield from changed("products not rounded", product=None)
        for term in {1, how.term // 2, 2 * how.term} - {0} if how.term else ():
            yield from changed(f"terms of {term}", term=term)
        for order in (SEQUENTIAL, PAIRWISE, chunked(max(shape.lanes // 2, 1))):
            yield from changed(f"order {order}", order=order, total=None)
    summed = how.total[0] if how.total is not None else shape.result
    if not how.machine and (held is None or not how.output[0].contains(summed)):
        for words, place in modes(how.output):
            yield from changed(f"output {words}", output=place)
    if how.output[1].nan_code is not None:
        any_nan = dataclasses.replace(how.output[1], nan_code=None, nan_sign="keep")
        yield from changed("NaNs of either sign", output=(how.output[0], any_nan))
    if how.order.name != "chunked" or shape.lanes > how.order.size:
        other = "last" if how.addend == "first" else "first"
        yield from changed(f"the addend {other}", addend=other)


def _windows(window: Window, lanes: int) -> Iterator[tuple[str, Window]]:
    """Yield windows with one field changed."""
    changes: list[tuple[str, dict[str, Any]]] = []
    if window.fraction_bits is not None:
        changes += [
            (f"F = {window.fraction_bits + more}", {"fraction_bits": window.fraction_bits + more})
            for more in (-1, 1)
        ]
        changes.append(("nothing cut", {"fraction_bits": None}))
        changes += [
            (f"cut {way.replace('_', ' ')}", {"cut": way}) for way in get_args(Cut) if way != window.cut
        ]
    changes += [
        (f"L = {size}", {"step": size}) for size in (window.step // 2, window.step * 2) if 0 < size <= lanes
    ]
    other = "alternate_pairs" if window.groups == "consecutive" else "consecutive"
    if lanes > window.step > 1:
        changes.append((f"steps of {other.replace('_', ' ')}", {"groups": other}))
    for words, fields in changes:
        try:
            yield words, dataclasses.replace(window, **fields)
        except ValueError:
            continue
