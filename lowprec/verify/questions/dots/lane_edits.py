"""Edits of the lanes of a dot unit that its results show."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from lowprec.spec.accumulation import Accumulation, Window
from lowprec.spec.rounding import MODES, Rounding
from lowprec.verify.codes.display import hex_of
from lowprec.verify.codes.values import as_doubles
from lowprec.verify.questions.causes import in_words
from lowprec.verify.questions.dots import edits, former, scale_edits
from lowprec.verify.questions.dots.dot_faults import runs_of
from lowprec.verify.questions.dots.dot_parts import DotParts
from lowprec.verify.questions.dots.largest_exponent import (
    cut_when_seen,
    halves_compared,
    smaller_counted,
    uncounted,
    zeros_counted,
)
from lowprec.verify.questions.dots.product_tables import products_misread
from lowprec.verify.questions.dots.stages import fault
from lowprec.verify.questions.dots.step_cuts import (
    lanes_of,
    window_sum,
)
from lowprec.verify.questions.dots.step_faults import (
    beyond,
    readings_in_lanes,
    zeros_beside_infinities,
)
from lowprec.verify.questions.dots.step_model import Formats, folded
from lowprec.verify.questions.dots.sum_edits import lane_shifts, node_edits
from lowprec.verify.questions.features import has_fields
from lowprec.verify.questions.misread import magnitude_as
from lowprec.verify.questions.parts import part_edit
from lowprec.verify.questions.question import Array, Batch, Change, Question

__all__ = ["shown_edits"]

#: Wrong results that show lanes, and those that show codes and products.
_SHOWING, _CODES = 64, 32
#: Products of which many edits are tried.
_FEW_LANES = 32
#: Codes, and magnitudes, that are tried as misread, those that fewest right results have.
_LIKELY = 4
#: Wrong results that a product read as another is tried on.
_ENTRIES = 8
#: Copies of wrong results, one for each run of lanes, that are asked at once.
_COPIES = 1024
#: Wrong results that an edit of a sum of some products must explain before all are asked.
_NODES = 8
#: Bits of formats of which each code is tried, and of which a few are.
_SHORT, _WIDE = 4, 8
_ADDEND = np.array([-1])
#: Share of wrong results from which on an edit of lanes may hold under a condition, also in a step alone,
#: and the most such edits of a kind.
_NEARLY, _IN_STEPS, _NEAR = 0.9, 0.3, 2
#: So many wrong results a lane's edit mends for each right one that it breaks, of lanes whose edits are tried
#: together: where two lanes make up for each other, each alone breaks what is right.
_RARELY = 4
#: Smallest numbers of a format that a number may be misread by.
_STEPS = (-2, -1, 1, 2)
#: Steps from a lane to the next, of lanes that are edited together.
_STRIDES = (2, 4, 8)


def shown_edits(
    question: Question,
    rows: Callable[[Array], Batch],
    whole: Batch,
    how: Accumulation,
    formats: Formats,
    counts: tuple[int, int],
    stepped: bool,
    parts: DotParts,
) -> Iterator[Change]:
    """Yield edits of the lanes whose edit contradicts no result: together, each alone, and in runs.

    `rows` takes results by their places. Lanes are counted of K for operands, and of a step for products,
    whose edits need known steps.
    """
    right = whole.got == question.answer(whole)
    left = whole.places[~right & question.left(whole.places)]
    wrong = np.random.default_rng(6).permutation(left)[:_SHOWING]
    if not wrong.size:
        return
    few = question.sample(np.sort(wrong), whole.places[:0])
    plain = question.answer(few)
    held = np.random.default_rng(8).permutation(whole.places[right])[:_SHOWING]
    others = question.sample(held[:0], np.sort(held))
    stages: list[tuple[str, str, int, Any]] = [
        ("fault", "lane", counts[0], (*edits.lane_edits(formats), *edits.lane_moves())),
        ("former", "lane", counts[0], former.of_lanes()),
    ]
    groups = 1
    if stepped:
        terms, few_lanes = folded(how), counts[0] <= _FEW_LANES
        window = terms.accumulator if isinstance(terms.accumulator, Window) else None
        count = counts[1] if window is None else min(counts[1], window.step)
        groups = how.accumulator.group if isinstance(how.accumulator, Window) else how.term
        some = question.sample(np.sort(wrong[:_CODES]), whole.places[:0])
        fewest = question.sample(some.places[:_ENTRIES], whole.places[:0])
        seen = _seen(question, some)
        right_seen = _seen(question, others) if others.got.size else seen
        misread = _codes_misread(seen, right_seen, formats)
        stages.append(
            ("products", "lane", counts[0], products_misread(question, fewest, seen, right_seen, formats))
        )
        read = *zeros_beside_infinities(formats), *_specials_read(formats), *misread
        stages.append(("values", "lane", counts[0], read))
        for side, fmt in zip("xy", formats, strict=True):
            stages.append((side, "lane", counts[0], readings_in_lanes(side, fmt)))
        if how.product is not None:
            modes = [(in_words(mode), mode) for mode in MODES if mode != how.product[1].rounding]
            rounded = ((f"products: {words}", functools.partial(_in_mode, mode)) for words, mode in modes)
            stages.append(("product_mode", "lane", counts[0], rounded))
        stages.append(
            ("running", "lane", count, edits.product_edits((*formats, question.target), few=few_lanes))
        )
        stages.append(("", "lane", count, lane_shifts() if count > 1 else ()))
        if how.scale is not None:
            blocks = -(-counts[0] // how.scale[1])
            stages.append(("scales", "block", blocks, scale_edits.scale_edits(how.scale[0], blocks)))
            stages.append(("former", "block", blocks, former.of_blocks()))
            stages.append(
                ("scale_lanes", "lane", counts[0], scale_edits.lane_scale_edits(how.scale[0], blocks))
            )
        if window is not None and window.fraction_bits is not None:
            total = edits.term_edits(functools.partial(window_sum, window))
            yield from _of_nodes(question, rows, few.places[:_NODES], window, count)
            smaller = "the smaller exponent of two neighbours counts for the largest", smaller_counted
            zeros = "zeros count for the largest exponent", zeros_counted
            cut = ("the largest exponent searched without the last bit", functools.partial(cut_when_seen, 1))
            halves = "halves compared without the last bits of exponents for the largest", _halves
            counted = (*uncounted("terms"), smaller, zeros, cut, halves)
            stages += [("total", "lane", count, total), ("", "lane", count, counted)]
    for stage, unit, count, found in stages:
        least = _IN_STEPS if stage == "running" and how.term > 1 else _NEARLY
        every = np.arange(count)
        # The products of a group have one scale.
        runs = _runs(count, groups) if stage == "scale_lanes" else _runs(count)
        # All runs at once: each has its own copy of the few results.
        fewer = few.places[: max(_COPIES // max(len(runs), 1), 1)]
        copies = rows(np.tile(fewer, len(runs)))
        masks = np.repeat([np.isin(every, run) for run in runs] or [every < 0], fewer.size, 0)
        for words, of_lanes in found:
            edit = functools.partial(_edit, stage, of_lanes)
            made = question.answer(few, (edit(every, ""),))
            if stage and not (made != plain).any():  # halves of some lanes are not those of all
                continue
            given = (made == few.got).any()
            if stage != "total":
                of = functools.partial(_edit_of_parts, stage, of_lanes)
                many = given or words == edits.LEFT_OUT
                yield part_edit(parts.products if unit == "lane" else parts.blocks, of, words, of_many=many)
            if unit == "block" or count == 1 or given:
                yield edit(every, words)
            if stage in ("values", "products") and counts[0] > _FEW_LANES and not given:
                continue
            if stage == "total" and (question.answer(few, (edit(_ADDEND, ""),)) == few.got).any():
                yield edit(_ADDEND, f"{words}: the addend or running sum alone")
            shown, best, near = list[int](), list[Array](), list[tuple[float, int, Array]]()
            same = np.zeros((0, fewer.size), bool)
            if runs:
                same = (question.answer(copies, (edit(masks, ""),)) == copies.got).reshape(len(runs), -1)
            for place in np.flatnonzero(same.any(1)).tolist():
                lanes, one = runs[place], (edit(runs[place], ""),)
                spoilt = int((question.answer(others, one) != others.got).sum())
                if spoilt > (lanes.size == 1):
                    near += [(-same[place].mean(), spoilt, lanes)] * int(same[place].mean() >= least)
                    continue
                differs = question.answer(whole, one) != whole.got
                broken, mended = int(differs[right].sum()), int((~differs & ~right).sum())
                shown += lanes.tolist() if lanes.size == 1 and broken * _RARELY <= mended else []
                best += [] if broken else [lanes]
                near += [(-same[place].mean(), broken, lanes)] * (0 < broken * _RARELY <= mended)
            near.sort(key=lambda one: (*one[:2], one[2].size))
            best += [lanes for _, _, lanes in near[:_NEAR]]
            for lanes in best + [np.array(shown)] * (1 < len(shown) < count):
                which = f"{unit}{'s' * (lanes.size > 1)} {runs_of(lanes.tolist())}"
                yield edit(lanes, f"{words}{',' * (',' in words)} in {which}")


def _in_mode(mode: Rounding, lanes: Array) -> tuple[Rounding, Array]:
    return mode, lanes


_halves = functools.partial(halves_compared, 1)


def _edit(stage: str, edit: Callable[[Any], Any], lanes: Array, words: str) -> Change:
    if stage in ("fault", "former"):
        return Change(stage, edit(lanes), words, 2)
    if stage == "scale_lanes":
        return fault(words, 2, scales=edit, scale_lanes=lanes, together=True)
    together = {"together": True} if lanes.dtype == bool else {}
    return fault(words, 2, **({stage: edit(lanes)} if stage else edit(lanes)), **together)


def _edit_of_parts(stage: str, edit: Callable[[Any], Any], mask: Array) -> Change:
    """Return an edit of single products, or blocks, by their numbers among all."""
    change = _edit(stage, edit, mask, "")
    if not change.field.startswith("stage."):
        return change
    return replace(change, value=(*change.value, ("numbered", True)))


def _of_nodes(
    question: Question, rows: Callable[[Array], Batch], places: Array, window: Window, count: int
) -> Iterator[Change]:
    """Yield edits of sums of some products, adders of a tree, each of which explains a few wrong results."""
    runs = [*_runs(count, least=2), np.arange(count)]
    copies = rows(np.tile(places, len(runs)))
    masks = np.repeat([np.isin(np.arange(count), run) for run in runs], places.size, 0)
    for words, of_lanes in node_edits(functools.partial(window_sum, window), count):
        edit = functools.partial(_edit, "total", of_lanes)
        same = question.answer(copies, (edit(masks, ""),)) == copies.got
        for place in np.flatnonzero(same.reshape(len(runs), -1).all(1)).tolist():
            lanes = runs[place]
            which = f" in lanes {runs_of(lanes.tolist())}" if lanes.size < count else ""
            yield edit(lanes, f"{words}{',' * (',' in words)}{which}")


def _runs(count: int, least: int = 1) -> list[Array]:
    """Return the halves, quarters, eighths of lanes, down to runs of `least`, and every 2nd, 4th and 8th.

    Of runs of more than two there are no such steps.
    """
    every = np.arange(count)
    sizes = [1 << bits for bits in range(count.bit_length()) if least <= 1 << bits < count]
    runs = [every[first : first + size] for size in sizes for first in range(0, count, size)]
    return runs + [
        every[first::step] for step in _STRIDES if count > 2 * step and least < 3 for first in range(step)
    ]


# -- codes and products that are read as others --------------------------------------------------------


def _seen(question: Question, few: Batch) -> tuple[Any, Any]:
    """Return the factors of some results."""
    held = list[Any]()

    def values(x: Array, y: Array) -> tuple[Array, Array]:
        held.extend((x, y))
        return x, y

    question.answer(few, (fault("", values=values, together=True),))
    return held[0], held[1]


def _specials_read(formats: Formats) -> Iterator[tuple[str, Callable[[Array], Any]]]:
    """Yield values of x or y whose exponents make them NaN or infinite."""
    for side, fmt in enumerate(formats):
        for words, read in edits.specials_read(fmt).items() if fmt is not None and has_fields(fmt) else ():
            change = functools.partial(_values_read, side=side, read=read)
            yield f"{'xy'[side]} {words}", functools.partial(functools.partial, change)


def _values_read(
    lanes: Array, x: Array, y: Array, side: int, read: Callable[[Array], Array]
) -> tuple[Array, Array]:
    made = [x, y]
    made[side] = np.where(lanes_of(lanes, *x.shape), read(made[side]), made[side])
    return made[0], made[1]


def _codes_misread(
    values: Sequence[Array], right: Sequence[Array], formats: Formats
) -> Iterator[tuple[str, Callable[[Array], Any]]]:
    """Yield codes of x or y that every one of some results has, read as others.

    `values` and `right`: of these results, and of right ones, which seldom have them.
    """
    for side, fmt in enumerate(formats):
        if fmt is None or not has_fields(fmt) or fmt.width > _WIDE:
            continue
        codes = np.arange(1 << fmt.width)
        read = as_doubles(codes.astype(np.uint8), fmt)
        magnitudes = read[: fmt.max_magnitude + 1]
        for found, value in _magnitudes_misread(values[side], right[side], magnitudes, fmt.width):
            as_other = functools.partial(magnitude_as, found=found, value=value)
            on_side = functools.partial(_values_read, side=side, read=as_other)
            words = f"{found:g} in {'xy'[side]} read as {value:g}"
            yield words, functools.partial(functools.partial, on_side)
        shared = [code for code in codes.tolist() if _is(values[side], read[code]).any(1).all()]
        held = {code: _is(right[side], float(read[code])).any(1).mean() for code in shared}
        for code in sorted(shared, key=held.__getitem__)[:_LIKELY]:
            near = codes.tolist() if fmt.width <= _SHORT else [0, code - 1, code + 1, code ^ fmt.sign_code]
            others = {hex_of(near_by, fmt): read[near_by] for near_by in near if 0 <= near_by < codes.size}
            if np.isnan(read[code]):
                others = {"a number": np.copysign(beyond(fmt), read[code])}
            for other, value in others.items():
                change = functools.partial(_read_as, side=side, found=read[code], value=value)
                said = f"the code {hex_of(code, fmt)} of {'xy'[side]} read as {other}"
                yield said, functools.partial(functools.partial, change)


def _magnitudes_misread(
    values: Array, right: Array, read: Array, width: int
) -> Iterator[tuple[float, float]]:
    """Yield magnitudes that every one of some results has, and others; `read`: those of the format."""
    shared = [code for code in range(1, read.size) if (np.abs(values) == read[code]).any(1).all()]
    for code in sorted(shared, key=lambda code: (np.abs(right) == read[code]).any(1).mean())[:_LIKELY]:
        found = float(read[code])
        near = read.tolist() if width <= _SHORT else read[[code - 1, min(code + 1, read.size - 1)]].tolist()
        steps = [found + by * read[1] for by in (-2, -1, 1, 2)] if width <= _SHORT else [found / 2]
        yield from ((found, float(value)) for value in {*near, *steps} if found != value >= 0)


def _is(values: Array, found: float) -> Array:
    same = np.isnan(values) if np.isnan(found) else values == found
    return np.asarray(same & (np.signbit(values) == np.signbit(found)))


def _read_as(lanes: Array, x: Array, y: Array, side: int, found: float, value: float) -> tuple[Array, Array]:
    return _values_read(lanes, x, y, side, lambda values: np.where(_is(values, found), value, values))
