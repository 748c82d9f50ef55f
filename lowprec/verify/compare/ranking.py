"""Formats and accumulations ranked by the share of results that they give."""

from __future__ import annotations

from typing import Any

import numpy as np

from lowprec.spec import catalog
from lowprec.spec.accumulations import ACCUMULATIONS
from lowprec.spec.format import Format
from lowprec.spec.projection import Projection
from lowprec.verify.codes.values import is_values
from lowprec.verify.compare.diagnosis import Failures, trying
from lowprec.verify.compare.report import Ranked
from lowprec.verify.dumps.files import Dump, Held
from lowprec.verify.questions.blocks import BlockQuestion
from lowprec.verify.questions.dot_operands import could_be
from lowprec.verify.questions.dots import DotQuestion
from lowprec.verify.questions.elements import ElementQuestion, Scaling
from lowprec.verify.questions.question import Batch, Question, differ

__all__ = ["rank_accumulations", "rank_formats"]

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
    if own is not None and own.width <= 8:
        return [Ranked(own.name, 1.0, places.size)]  # the type says it
    codes = results.read(0, results.size) if got.dtype.kind in "iu" else np.zeros(0, np.int64)
    largest = int(codes.max(initial=0))
    for fmt in catalog.FORMATS.values():
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
    if got.size and values.shape == got.shape and got.dtype.kind not in "iu" and by is None:
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
    """Rank the accumulations that take the factors by the share of results that they give."""
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
    return sorted(ranking, key=lambda ranked: -ranked.share)[:_TOLD]
