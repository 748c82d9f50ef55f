"""Edits of the lanes of a dot unit that its results show."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np

from lowprec.verify.questions import edits
from lowprec.verify.questions.question import Array, Batch, Change, Question
from lowprec.verify.questions.step_faults import fault
from lowprec.verify.questions.step_model import Formats

__all__ = ["shown_edits"]


def shown_edits(
    question: Question, whole: Batch, formats: Formats, counts: tuple[int, int], stepped: bool
) -> Iterator[Change]:
    """Yield edits of the lanes whose edit contradicts no result, all together and each alone.

    Lanes are counted of K for operands, and of a step for products, whose edits need known steps.
    """
    plain = question.answer(whole)
    right = whole.got == plain
    families = [
        (words, counts[0], functools.partial(_on_operands, edit=edit))
        for words, edit in edits.lane_edits(formats)
    ]
    if stepped:
        families += [
            (words, counts[1], functools.partial(_on_terms, edit=edit))
            for words, edit in edits.product_edits((*formats, question.target))
        ]
    for words, count, edit in families:
        if not (~right & (question.answer(whole, (edit(np.arange(count), ""),)) != plain)).any():
            continue
        shown = []
        for lane in range(count):
            made = question.answer(whole, (edit(np.array([lane]), ""),))
            if (made == whole.got)[~right].any() and not (made != whole.got)[right].any():
                shown.append(lane)
        for lanes in ([shown] if shown else []) + [[lane] for lane in shown if len(shown) > 1]:
            at = np.array(lanes)
            yield edit(at, f"{words} in {edits.runs_of(at)}")


def _on_operands(lanes: Array, words: str, edit: edits.OnLanes) -> Change:
    return Change("fault", edit(lanes), words, 2)


def _on_terms(lanes: Array, words: str, edit: edits.OnLanes) -> Change:
    return fault(words, 2, running=edit(lanes))
