"""A question judged: all results compared, what differs counted and told, and the reason looked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from lowprec.verify.comparison import Comparison
from lowprec.verify.diagnosis import Sample, diagnose
from lowprec.verify.difference import Difference
from lowprec.verify.pieces import Each, each_here
from lowprec.verify.question import Batch, Question, differ
from lowprec.verify.tally import Tally

__all__ = ["Watch", "judge"]

Watch = Callable[[int, int, str], None]


@dataclass
class _Part:
    """What was found in a piece."""

    sample: Sample
    compared: int = 0
    mismatches: int = 0
    left_out: int = 0
    unanswered: int = 0
    details: list[Difference] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)


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
    report = Comparison(question.words(), question.facts(), unit=unit)
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
        sample.join(part.sample)
    if why and report.mismatches:
        if watch is not None:
            watch(done, question.size, "looking for the reason")
        report.diagnosis = diagnose(question, sample, report.mismatches, each)
    return report


def _judge_piece(
    question: Question, batch: Batch, limit: int | None, unit: str, below: Sequence[float]
) -> _Part:
    part = _Part(Sample(below))
    want = question.answer(batch)
    wrong = differ(question, batch.got, want)
    asked = question.compared(batch)
    part.sample.add(batch.index.start, wrong, asked)  # type: ignore[union-attr]
    if asked is not None:
        part.left_out = int(np.count_nonzero(~asked))
        wrong &= asked
    part.compared = wrong.size - part.left_out
    if not wrong.any():
        return part
    part.mismatches = int(np.count_nonzero(wrong))
    if unit == "line":
        part.unanswered = int(np.count_nonzero(batch.got < 0))
    part.tally.add(question, batch, wrong, want)
    for place in np.flatnonzero(wrong)[:limit]:
        part.details.append(question.difference(batch, int(place), int(want[place])))
    return part
