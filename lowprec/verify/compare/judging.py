"""Judging of questions: results compared, differences counted and explained; formats that are ranked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lowprec.spec import catalog
from lowprec.spec.accumulations import ACCUMULATIONS
from lowprec.spec.format import Format
from lowprec.spec.projection import Projection
from lowprec.verify.codes.values import is_values
from lowprec.verify.compare.counts import Tally
from lowprec.verify.compare.diagnosis import diagnose
from lowprec.verify.compare.failures import Failures, trying
from lowprec.verify.compare.report import Comparison, Farthest, Ranked, Spent
from lowprec.verify.compare.sample import Sample
from lowprec.verify.difference import Difference
from lowprec.verify.dumps.files import Dump, Held
from lowprec.verify.questions.blocks.blocks import BlockQuestion
from lowprec.verify.questions.dots.dot_changes import orders
from lowprec.verify.questions.dots.dot_operands import could_be
from lowprec.verify.questions.dots.dots import DotQuestion
from lowprec.verify.questions.elements.elements import ElementQuestion
from lowprec.verify.questions.elements.flags import RecordedFlags
from lowprec.verify.questions.elements.scaled import Scaling
from lowprec.verify.questions.question import Array, Batch, Each, Judged, Question, differ, each_here, judged

__all__ = ["Watch", "judge", "rank_accumulations", "rank_formats"]

Watch = Callable[[int, int, str], None]


@dataclass
class _PieceFindings:
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
    facts = {**question.facts(), "asked": question.asked()}
    report = Comparison(question.words(), facts, unit=unit, budget=question.budget)
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


def judge_flags(
    asked: RecordedFlags,
    right: Callable[[Batch], Array],
    results: Comparison,
    each_of: Callable[[Question], Each] = each_here,
    **telling: Any,
) -> Comparison:
    """Compare flags; the reason is sought of those alone whose results are right.

    Parameters
    ----------
    asked : RecordedFlags
    right : callable
        Which results of a batch are right.
    results : Comparison
        Of the results that the flags stand beside.
    each_of : callable
        Who goes through the pieces of a question.
    **telling
        As of `judge`.
    """
    if not results.mismatches or not telling.get("why", True):
        return judge(asked, each=each_of(asked), **telling)
    found = judge(asked, each=each_of(asked), **{**telling, "why": False})
    if found.mismatches:
        asked.right = right
        found.apart = judge(asked, each=each_of(asked), **{**telling, "limit": 0})
        found.diagnosis, found.failed = found.apart.diagnosis, found.apart.failed
    return found


def _judge_piece(
    question: Question, batch: Batch, limit: int | None, unit: str, below: Sequence[float]
) -> _PieceFindings:
    part = _PieceFindings(Sample(below))
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
    spent = Spent()
    if question.budget is not None:
        spent.within = found.differing.size - int(np.count_nonzero(found.wrong))
    if found.finite.any():
        finite = np.flatnonzero(found.finite)
        spent.widest = int(max(high[finite].max(), -low[finite].min()))
        at = finite[np.argmax(np.abs(found.far[finite]))]
        place = int(found.differing[at])
        spent.farthest = Farthest(int(found.far[at]), first + place, not bool(found.wrong[place]))
    return spent


# -- formats and accumulations ranked by the share of results that they give -----------------------


#: Results on which formats and accumulations are ranked, and how many of these are told.
_RANKED_ON, _TOLD = 1 << 15, 8


def rank_formats(
    values: Dump, source: Format, got: Dump, by: Scaling | None, failed: Failures
) -> list[Ranked]:
    """Rank formats by the share of results that they give, with or without saturation."""
    places = (
        np.unique(np.random.default_rng(0).integers(0, got.size, _RANKED_ON))
        if got.size
        else np.empty(0, int)
    )
    part, results = Held(values.take(places), values.name), Held(got.take(places), got.name)
    operation, parts, sources = "convert", [part], [source]
    if by is not None:
        operation, parts = "divide", [part, Held(by.spread.take(places), "scale")]
        sources = [source, by.format]
    found: list[Ranked] = []
    own = catalog.carrier(got.dtype) if got.dtype.kind not in "iu" else None
    narrow = own is not None and own.width <= 8  # the type says it
    codes = results.read(0, results.size) if got.dtype.kind in "iu" else np.zeros(0, np.int64)
    largest = int(codes.max(initial=0))
    for fmt in (own,) if narrow and own else catalog.FORMATS.values():
        if not is_values(got.dtype, fmt):
            wide = got.dtype.itemsize * 8
            # Codes in a wider type than they need are told by the largest of them.
            if largest >> fmt.width or (got.dtype.kind == "u" and wide <= 16 and wide != fmt.code_bits):
                continue
        shares = []
        for policy in ("none", "finite"):
            rule = Projection(saturation=policy)
            with trying(f"{fmt.name} of saturation {policy}", failed, (ValueError,)):  # it may lack values
                question = ElementQuestion(operation, parts, (*sources, fmt), rule, results, any_nan=True)
                shares.append(_share(question))
        if shares:
            found.append(Ranked(fmt.name, max(shares), places.size))
    if got.size and not narrow and values.shape == got.shape and got.dtype.kind not in "iu" and by is None:
        found += _rank_blocks(values, got, failed)
    if not found:
        raise ValueError(f"{got} holds {got.dtype}, which is neither codes nor values of a format")
    return sorted(found, key=lambda ranked: -ranked.share)[:_TOLD]


def _rank_blocks(values: Dump, got: Dump, failed: Failures) -> list[Ranked]:
    found = []
    for fmt in catalog.BLOCK_FORMATS.values():
        with trying(fmt.name, failed, (ValueError,)):
            question = BlockQuestion(values, fmt, got)
            batch = next(question.batches())
            share = float(np.mean(~differ(question, batch.got, question.answer(batch))))
            found.append(Ranked(fmt.name, share, batch.got.size))
    return found


def _share(question: Question) -> float:
    right = total = 0
    for batch in question.batches():
        wrong = differ(question, batch.got, question.answer(batch))
        right, total = right + int(np.count_nonzero(~wrong)), total + wrong.size
    return right / total if total else 0.0


def rank_accumulations(question_of: Any, got: Dump, failed: Failures) -> list[Ranked]:
    """Rank the accumulations that take the factors by the share of results that they give.

    If none gives all, one comes first that gives more in another order than any gives in its own.
    """
    found = catalog.carrier(got.dtype)
    target = catalog.BINARY32 if found is None else found
    first: DotQuestion = question_of(ACCUMULATIONS["exact"])
    if not first.size:
        raise ValueError("there are no results to rank accumulations by; name one")
    places = np.random.default_rng(0).permutation(first.size)[:4096]
    batch: Batch = first.sample(places, places[:0])
    ranking = []
    for name in could_be(first.x, first.y, target):
        with trying(name, failed, (ValueError,)):  # it may refuse factors
            question: DotQuestion = question_of(ACCUMULATIONS[name])
            share = float(np.mean(~differ(question, batch.got, question.answer(batch))))
            ranking.append(Ranked(name, share, batch.got.size))
    if not ranking:
        raise ValueError(
            f"no named accumulation takes such factors and gives {target.name!r}; name one, or make one"
        )
    ranking.sort(key=lambda ranked: -ranked.share)
    best, first_name = ranking[0].share, ranking[0].name
    for name in [ranked.name for ranked in ranking] if best < 1 else ():
        how = ACCUMULATIONS[name]
        if how.order.name == "sequential" and isinstance(how.accumulator, tuple) and not how.machine:
            question = question_of(how)
            for change in orders(how):
                with trying(name, failed, (ValueError,)):
                    share = float(np.mean(~differ(question, batch.got, question.answer(batch, (change,)))))
                    best, first_name = max((best, first_name), (share, name), key=lambda pair: pair[0])
    return sorted(ranking, key=lambda ranked: ranked.name != first_name)[:_TOLD]
