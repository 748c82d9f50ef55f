"""Judging of questions: all results compared, differences counted and told, and the reason looked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from lowprec.verify.compare.counts import Tally
from lowprec.verify.compare.diagnosis import Sample, diagnose
from lowprec.verify.compare.report import Comparison, Farthest, Spent
from lowprec.verify.difference import Difference
from lowprec.verify.questions.question import Batch, Each, Judged, Question, each_here, judged

__all__ = ["Watch", "judge"]

Watch = Callable[[int, int, str], None]


@dataclass
class _Part:
    """Findings in a piece."""

    sample: Sample
    compared: int = 0
    mismatches: int = 0
    left_out: int = 0
    unanswered: int = 0
    details: list[Difference] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)
    spent: Spent = field(default_factory=Spent)


def judge(
    question: Question,
    *,
    limit: int | None = 20,
    why: bool = True,
    unit: str = "result",
    watch: Watch | None = None,
    each: Each | None = None,
) -> Comparison:
    """Compare all results of a question, count and tell what differs, and look for the reason.

    Parameters
    ----------
    question : Question
    limit : int, optional
        Mismatches to tell in full; None tells all.
    why : bool
        Whether to look for the reason.
    unit : str
        What results are called.
    watch : function, optional
        Called with the results done, the results in all, and what is under way.
    each : Each, optional
        Who goes through the pieces; by default this process does.
    """
    report = Comparison(question.words(), question.facts(), unit=unit, budget=question.budget)
    each, sample, done = each_here(question) if each is None else each, Sample(), 0
    if watch is not None:
        watch(0, question.size, "comparing")
    for part in each(_judge_piece, limit, unit, sample.below):
        done += part.compared + part.left_out
        if watch is not None:
            watch(done, question.size, "comparing")
        report.compared += part.compared
        report.mismatches += part.mismatches
        report.left_out += part.left_out
        report.unanswered += part.unanswered
        report.details += part.details if limit is None else part.details[: limit - len(report.details)]
        report.tally.join(part.tally)
        report.spent.join(part.spent)
        sample.join(part.sample)
    if why and report.mismatches:
        if watch is not None:
            watch(done, question.size, "looking for the reason")
        report.diagnosis = diagnose(question, sample, report.mismatches, each, report.failed)
    return report


def _judge_piece(
    question: Question, batch: Batch, limit: int | None, unit: str, below: Sequence[float]
) -> _Part:
    part = _Part(Sample(below))
    found, first = judged(question, batch), batch.index.start  # type: ignore[union-attr]
    wrong, compared = found.wrong, found.wrong | found.right
    compared[found.differing] = True
    part.compared = int(np.count_nonzero(compared))
    part.left_out = wrong.size - part.compared
    part.sample.add(first, wrong, wrong | found.right)
    part.spent = _spent(question, found, first)
    if not wrong.any():
        return part
    part.mismatches = int(np.count_nonzero(wrong))
    if unit == "line":
        part.unanswered = int(np.count_nonzero(batch.got < 0))
    part.tally.add(question, batch, wrong, found.want)
    for place in np.flatnonzero(wrong)[:limit]:
        detail = question.difference(batch, int(place), int(found.want[place]))
        if question.budget is not None:
            at = int(np.searchsorted(found.differing, place))
            detail = detail.allowed(*(int(limit[at]) for limit in found.limits))
        part.details.append(detail)
    return part


def _spent(question: Question, found: Judged, first: int) -> Spent:
    """Return how much of the budget the results of a piece spend."""
    low, high = found.limits
    spent = Spent(within=found.differing.size - int(np.count_nonzero(found.wrong)))
    if found.finite.any():
        finite = np.flatnonzero(found.finite)
        spent.widest = int(max(high[finite].max(), -low[finite].min()))
        at = finite[np.argmax(np.abs(found.far[finite]))]
        place = int(found.differing[at])
        spent.farthest = Farthest(int(found.far[at]), first + place, not bool(found.wrong[place]))
    return spent
