"""Dot units that vectors tell apart: with one field changed, one lane missing, or operands misread.

They are asked of the library: a unit is told apart by the vectors whose result is another.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from lowprec.spec.accumulation import Accumulation, AddendPlace, Cut, Window
from lowprec.spec.order import EXACT, PAIRWISE, SEQUENTIAL, chunked
from lowprec.spec.rounding import NEAREST_AWAY, NEAREST_EVEN, TOWARD_NEGATIVE, TOWARD_ZERO
from lowprec.verify.coverage.points import Plan
from lowprec.verify.inputs.dot_shape import DotCases, Shape, answers
from lowprec.verify.questions.dots.dot_changes import How, part_of, tried, window_with, with_fields, with_rule

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
        differs("the lanes in reverse", given=_in_reverse(cases))
    differs("y in reverse", given=dataclasses.replace(cases, y=cases.y[:, ::-1]))
    for name, fmt in (("x", shape.formats[0]), ("y", shape.formats[1])):
        if fmt.min_subnormal is not None and fmt.exponent_bits:
            codes = getattr(cases, name)
            small = (codes & (fmt.sign_code - 1 if fmt.sign_code else ~0)) >> fmt.trailing_bits == 0
            flushed = np.where(small, codes & fmt.sign_code, codes).astype(codes.dtype)
            differs(f"subnormal {name} taken as zero", given=dataclasses.replace(cases, **{name: flushed}))
    for words, how in others_of(shape):
        differs(words, how)


def _in_reverse(cases: DotCases) -> DotCases:
    scales = None if cases.scales is None else (cases.scales[0][:, ::-1], cases.scales[1][:, ::-1])
    return DotCases(cases.x[:, ::-1], cases.y[:, ::-1], cases.addend, scales)


def others_of(shape: Shape) -> Iterator[tuple[str, Accumulation]]:
    """Yield units with one field changed."""
    for words, change in _changes(shape):
        other = tried(change, shape.how)
        if other is not None:
            yield words, other


def _changes(shape: Shape) -> Iterator[tuple[str, How]]:
    how, held = shape.how, shape.how.accumulator

    def rules(words: str, place: str) -> Iterator[tuple[str, How]]:
        into = part_of(how, place)
        assert into is not None, "asked where sums are rounded"
        for mode in (NEAREST_EVEN, NEAREST_AWAY, TOWARD_ZERO, TOWARD_NEGATIVE):
            yield f"{words} rounded {mode}", with_rule(place, rounding=mode)
        if into[1].subnormals == "keep":
            yield f"{words} subnormals flushed", with_rule(place, subnormals="flush_results")

    if isinstance(held, Window):
        if vanishes(shape):
            yield "the sign of sums that vanish", window_with(negative_zero=not held.negative_zero)
        yield from _windows(held, shape.lanes)
        yield from rules("steps", "accumulator")
    elif held is not None:
        yield from rules("sums", "accumulator")
        yield "products rounded to the accumulator", with_fields(product=held)
        x, y = shape.formats
        if how.product is not None and x.precision + y.precision > how.product[0].precision:
            yield "products not rounded", with_fields(product=None)
        for term in {1, how.term // 2, 2 * how.term} - {0} if how.term else ():
            yield f"terms of {term}", with_fields(term=term)
        for order in (SEQUENTIAL, PAIRWISE, chunked(max(shape.lanes // 2, 1))):
            yield f"order {order}", with_fields(order=order, total=None)
    summed = how.total[0] if how.total is not None else shape.result
    if not how.machine and (held is None or not how.output[0].contains(summed)):
        yield from rules("output", "output")
    if how.output[1].nan_code is not None:
        yield "NaNs of either sign", with_rule("output", nan_code=None, nan_sign="keep")
    if how.order.name != "chunked" or shape.lanes > how.order.size:
        other: AddendPlace = "last" if how.addend == "first" else "first"
        yield f"the addend {other}", with_fields(addend=other)


def _windows(window: Window, lanes: int) -> Iterator[tuple[str, How]]:
    bits = window.fraction_bits
    if bits is not None:
        for other in (bits - 1, bits + 1):
            yield f"F = {other}", window_with(fraction_bits=other)
        yield "nothing cut", window_with(fraction_bits=None)
        for way in get_args(Cut):
            yield f"cut {way.replace('_', ' ')}", window_with(cut=way)
    for size in (window.step // 2, window.step * 2):
        if 0 < size <= lanes:
            yield f"L = {size}", window_with(step=size)
    groups = "alternate_pairs" if window.groups == "consecutive" else "consecutive"
    if lanes > window.step > 1:
        yield f"steps of {groups.replace('_', ' ')}", window_with(groups=groups)
