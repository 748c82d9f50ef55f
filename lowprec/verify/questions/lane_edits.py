"""Edits of the lanes of a dot unit that its results show."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np

from lowprec.spec.accumulation import Accumulation, Window
from lowprec.verify.questions import edits
from lowprec.verify.questions.dot_faults import runs_of
from lowprec.verify.questions.question import Array, Batch, Change, Question
from lowprec.verify.questions.step_cuts import window_sum
from lowprec.verify.questions.step_faults import fault
from lowprec.verify.questions.step_model import Formats, folded

__all__ = ["shown_edits"]


def shown_edits(
    question: Question,
    whole: Batch,
    how: Accumulation,
    formats: Formats,
    counts: tuple[int, int],
    stepped: bool,
) -> Iterator[Change]:
    """Yield edits of the lanes whose edit contradicts no result, all together and each alone.

    Lanes are counted of K for operands, and of a step for products, whose edits need known steps.
    """
    plain = question.answer(whole)
    right = whole.got == plain
    few = question.sample(whole.places[~right], whole.places[:0])
    families = [
        (words, counts[0], "lane", functools.partial(_on_operands, edit=edit))
        for words, edit in edits.lane_edits(formats)
    ]
    if stepped:
        terms = folded(how)
        window = terms.accumulator if isinstance(terms.accumulator, Window) else None
        count = counts[1] if window is None else min(counts[1], window.step)
        stages = [("running", "lane", count, edits.product_edits((*formats, question.target)))]
        if how.scale is not None:
            blocks = -(-counts[0] // how.scale[1])
            stages.append(("scales", "block", blocks, edits.scale_edits(how.scale[0], blocks)))
        if window is not None and window.fraction_bits is not None:
            total = edits.term_edits(functools.partial(window_sum, window))
            stages.append(("total", "lane", count, total))
        families += [
            (words, many, unit, functools.partial(_on_stage, edit=edit, stage=stage))
            for stage, unit, many, found in stages
            for words, edit in found
        ]
    for words, count, unit, edit in families:
        made = question.answer(whole, (edit(np.arange(count), ""),))
        if not (~right & (made != plain)).any():
            continue
        if unit == "block" or count == 1:
            yield edit(np.arange(count), words)
        shown = []
        for lane in range(count) if count > 1 else ():
            one = (edit(np.array([lane]), ""),)
            if not (question.answer(few, one) == few.got).any():
                continue
            if not (question.answer(whole, one) != whole.got)[right].any():
                shown.append(lane)
        for lanes in ([shown] if shown else []) + [[lane] for lane in shown if len(shown) > 1]:
            units = unit + "s" * (len(lanes) > 1)
            yield edit(np.array(lanes), f"{words} in {units} {runs_of(lanes)}")


def _on_operands(lanes: Array, words: str, edit: edits.OnLanes) -> Change:
    return Change("fault", edit(lanes), words, 2)


def _on_stage(lanes: Array, words: str, edit: edits.OnLanes, stage: str) -> Change:
    return fault(words, 2, **{stage: edit(lanes)})
