"""A question judged: all results compared, what differs counted and told, and the reason looked for."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lowprec.verify.comparison import Comparison
from lowprec.verify.diagnosis import Sample, diagnose
from lowprec.verify.question import Question, differ

__all__ = ["Watch", "judge"]

Watch = Callable[[int, int, str], None]


def judge(
    question: Question,
    *,
    limit: int | None = 20,
    why: bool = True,
    unit: str = "result",
    watch: Watch | None = None,
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
    """
    report = Comparison(question.words(), question.facts(), unit=unit)
    sample, done = Sample(), 0
    for batch in question.batches():
        if watch is not None:
            watch(done, question.size, "comparing")
        want = question.answer(batch)
        wrong = differ(question, batch.got, want)
        done += wrong.size
        places, asked = batch.places, question.compared(batch)
        if asked is not None:
            report.left_out += int(np.count_nonzero(~asked))
            wrong &= asked
            sample.add(places[asked], wrong[asked])
        else:
            sample.add(places, wrong)
        report.compared += wrong.size if asked is None else int(np.count_nonzero(asked))
        if not wrong.any():
            continue
        report.mismatches += int(np.count_nonzero(wrong))
        if unit == "line":
            report.unanswered += int(np.count_nonzero(batch.got < 0))
        report.tally.add(question, batch, wrong, want)
        room = None if limit is None else max(limit - len(report.details), 0)
        for place in np.flatnonzero(wrong)[:room]:
            report.details.append(question.difference(batch, int(place), int(want[place])))
    if why and report.mismatches:
        if watch is not None:
            watch(done, question.size, "looking for the reason")
        report.diagnosis = diagnose(question, sample, report.mismatches)
    return report
