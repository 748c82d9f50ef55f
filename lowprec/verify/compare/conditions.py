"""Explain differences that no change explains alone: a rule says where results differ, an edit how.

An edit is a change of the question or of its results. Edits that give most of the wrong results are tried
one by one: a rule must tell the wrong results that the edit gives from the right ones that it would spoil.
A last rule, without an edit, tells all wrong results from right ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from lowprec.verify.compare.cause import Conditional, Examples
from lowprec.verify.compare.part_rules import of_parts
from lowprec.verify.compare.rules import Rule, entries, is_whole, learn, of_classes
from lowprec.verify.questions.dots.former import last_loaded
from lowprec.verify.questions.features import Feature, has_fields
from lowprec.verify.questions.question import Array, Batch, Change, Changes, Judged, Question, excluded
from lowprec.verify.questions.result_edits import of_results

__all__ = ["conditional", "edited"]

Mask = npt.NDArray[np.bool_]
Agrees = Callable[[Batch, Changes], Mask]

#: Results of each kind that an edit is tried on, and edits that a rule is sought for; at most.
_TRIED, _EDITS = 256, 10
#: Edits of results that a rule is sought for besides; wrong results below which rules are guesses.
_OF_RESULTS, _FEW = 4, 8
#: Shares of wrong results that an edit gives: from the first on, narrower edits are tried too; above the
#: second, the edit may be the whole cause.
_NARROWED, _WHOLLY = 0.1, 0.9
#: Wrong results needed for each condition of a rule, if right results meet the rule too.
_PROOF = 8
#: Edits that are tried as the first of two.
_FIRST = 8
#: Right results that a second change may take back what the first does to.
_REPAIRED = 64
#: Lines back to which a register may keep its value, less one, and times that the rule is learnt of these.
_LAGS, _HELD = 7, 3
#: Classes and statements that may say where a register keeps its value, at most.
_COVERING = 8
#: Examples of each kind in a report, at most.
_LINES = 3
#: Fields of changes that edit results; others change the question.
ON_RESULTS = ("result_code", "scale_code", "before", "nans")
#: Edits that give each result, or its sign, from the previous result.
BEFORE = Change("before", None, "results equal to the results before", 2)
SIGN_BEFORE = Change("before", "sign", "results with the signs of the results before", 2)
#: Edit that undoes what another one does to the codes of NaNs.
NANS_KEPT = Change("nans", None, "what is NaN all the same is as it must be", 1)
#: The edit that takes back what another one does to results that are not infinite.
INFINITIES_KEPT = Change("nans", "infinite", "except where it would make results infinite", 1)


def edited(question: Question, batch: Batch, changes: Changes) -> Array:
    """Return answers under changes of the question, then edited by changes of results."""
    answers = question.answer(batch, tuple(c for c in changes if c.field not in ON_RESULTS))
    for change in changes:
        if change.field == "before":
            before = question.before(batch)
            if before is not None:
                if change is SIGN_BEFORE:
                    sign = question.target.sign_code
                    before = answers.astype(np.int64) & ~sign | before.astype(np.int64) & sign
                answers = before
        elif change.field == "nans":
            right = question.answer(batch)
            kept = question.nans(answers) & question.nans(right)
            if change is INFINITIES_KEPT:
                sizes = [question.codes(each) & question.target.sign_code - 1 for each in (answers, right)]
                kept = (sizes[0] == question.target.infinity_code) & (sizes[1] < sizes[0])
            answers = np.where(kept, right, answers)
        elif change.field in ON_RESULTS:
            answers = question.edited(answers, change)
    return answers


def conditional(
    question: Question,
    batch: Batch,
    judged: Judged,
    changes: Iterable[Change],
    agrees: Agrees,
) -> list[Conditional]:
    """Return explanations, the best first: by fewest exceptions, then by the shortest rule."""
    wrong, right = judged.wrong, judged.right
    swept = question.swept(batch)
    given = question.features(batch, judged.want)
    features = useful((one for one in given if not (swept and one.before)), wrong | right)
    on_results: list[Change] = []
    if question.coded and not question.values:
        sides = (question.codes(side[wrong]) for side in (batch.got, judged.want))
        on_results = [*of_results(question.target, *sides), BEFORE]
        on_results += [SIGN_BEFORE] * has_fields(question.target)
    places = np.random.default_rng(4).permutation(batch.places[wrong])[:_TRIED]
    few = question.sample(np.sort(places), places[:0])
    asked = np.isin(few.places, places)
    plain = np.random.default_rng(7).permutation(batch.places[right])[:_TRIED]
    others = question.sample(plain[:0], np.sort(plain))
    near = np.isin(others.places, plain)
    edits = list(question.edits())
    tried = [*on_results, *changes, *(edit for edit in edits if edit.field != "parts")]
    masks = [(change, agrees(few, (change,))[asked]) for change in tried]
    for change, mask in tuple(masks):
        if mask.mean() >= _NARROWED:
            masks += [(less, agrees(few, (less,))[asked]) for less in question.narrowed(change)]
    spent = math.log2(len(masks) + 1)

    def distinct(mask: Mask) -> int:
        return question.independent(batch.places[mask])

    # Elements of one block have the same block before them and count once; lines of the same operands do not.
    behind = distinct if question.numbered == "element" else np.count_nonzero
    shares = [(mask.mean(), change) for change, mask in masks if mask.mean() >= 0.5]
    spoilt = {id(change): near.size for _, change in shares}
    for share, change in shares:
        if share > _WHOLLY:
            asked_of, which = (others, near) if question.dear else (batch, right)
            lost = int(np.count_nonzero(~agrees(asked_of, (change,))[which]))
            spoilt[id(change)] = min(lost, 1) if change.field in ON_RESULTS else lost
    best = sorted(shares, key=lambda pair: (-pair[0], spoilt[id(pair[1])], pair[1].cost))
    of_codes = [pair for pair in best if pair[1].field in _PLAIN][:_OF_RESULTS]
    best = best[:_EDITS] + [pair for pair in of_codes if pair not in best[:_EDITS]]
    scarce = np.count_nonzero(wrong) < _FEW
    found, tries = [], False
    for _, change in best:
        agree = agrees(batch, (change,))
        inside, outside = wrong & agree, right & ~agree
        if not outside.any():  # it may hold everywhere
            errors = int(np.count_nonzero(wrong & ~agree))
            found.append(Conditional(None, (change,), change.words, Examples((), ()), errors))
            continue
        repaired = not tries and bool(agree[wrong].all()) and change.field not in (*ON_RESULTS, *_WHOLE)
        tries |= repaired
        for also in _repairs(question, batch, change, changes if repaired else (), outside, agrees):
            kept = agrees(batch, (change, also))
            if kept[right].all() and not (agree & ~kept & wrong).any():
                words, errors = f"{change.words}; {also.words}", int(np.count_nonzero(wrong & ~agree))
                found.append(Conditional(None, (change, also), words, Examples((), ()), errors))
                break
        # An edit of results leaves some right results as they are. A rule that excludes those too says more.
        for beyond in (right, outside) if change.field in ON_RESULTS else (outside,):
            rule = None
            if change.field not in _WHOLE:
                rule = learn(
                    features,
                    inside,
                    beyond,
                    spent,
                    of=right if scarce else None,
                    distinct=distinct,
                    behind=behind,
                )
            if rule is None:
                continue
            where = rule.where(features)
            # If right results meet a rule too, few wrong results prove no two conditions but on classes.
            seldom = sum(not is_whole(one) for together in rule.alternatives for one in together)
            doubtful = np.count_nonzero(inside) < _PROOF * max(seldom, len(rule.alternatives) - 1)
            if rule.size > 1 and doubtful and (right & where).any():
                continue
            errors = int(np.count_nonzero(wrong & ~(agree & where)) + np.count_nonzero(outside & where))
            # Sorted lines may repeat the previous result by chance: only one condition, without exceptions.
            if change.field == "before" and (errors or rule.size > 1):
                continue
            found.append(_told(rule, (change,), batch, wrong, right, where, errors))
            if not errors and rule.size == 1:
                break
        by_codes = (
            all(one.rule is not None and one.rule.of_codes for one in found) and change.field not in _WHOLE
        )
        rule = entries(features, inside, right) if by_codes and not (wrong & ~agree).any() else None
        if rule is not None:
            named = _told(rule, (change,), batch, wrong, right, rule.where(features), 0)
            found.append(replace(named, exact=False))
        if repaired and _PROOF * np.count_nonzero(outside) < np.count_nonzero(inside):  # as the nearest
            errors = int(np.count_nonzero(outside))
            found.append(Conditional(None, (change,), change.words, Examples((), ()), errors))
    if all(one.errors for one in found):
        found += _of_two(masks, batch, wrong, right, agrees)
    if all(one.errors for one in found):
        singly = (edit for edit in edits if edit.field == "parts")
        found += of_parts(question, batch, judged, singly, agrees, spent)
    if all(one.errors for one in found) and batch.got.size == question.size and question.numbered == "line":

        def rules(inside: Mask, outside: Mask) -> Rule | None:
            return learn(features, inside, outside, spent, distinct=distinct, behind=behind)

        former = [change for change, mask in masks if change.field in ("former", "held") and mask.any()]
        found += [one for one in (_held(c, features, batch, judged, agrees, rules) for c in former) if one]
    rule = learn(features, wrong, right, distinct=distinct, behind=behind)
    if rule is not None:
        where = rule.where(features)
        errors = int(np.count_nonzero(wrong & ~where) + np.count_nonzero(right & where))
        found.append(_told(rule, (), batch, wrong, right, where, errors))
    return sorted(found, key=_order)


def _repairs(
    question: Question, batch: Batch, change: Change, tried: Iterable[Change], outside: Mask, agrees: Agrees
) -> Iterator[Change]:
    """Yield changes that take back what an edit does to the right results `outside`, of many only to NaNs.

    The other results need not tell such a change from what was asked.
    """
    places = batch.places[outside]
    if places.size > _REPAIRED:
        if question.nans(batch.got[outside]).all() and agrees(batch, (change, NANS_KEPT))[outside].all():
            yield NANS_KEPT
        return
    few, settled = question.sample(places[:0], places), excluded((change,))
    asked = np.isin(few.places, places)
    for also in (
        NANS_KEPT,
        *[INFINITIES_KEPT] * has_fields(question.target),
        *(one for one in tried if one.field not in (*settled, *ON_RESULTS)),
    ):
        if agrees(few, (change, also))[asked].all():
            yield also


def _held(
    change: Change,
    features: list[Feature],
    batch: Batch,
    judged: Judged,
    agrees: Agrees,
    rules: Callable[[Mask, Mask], Rule | None],
) -> Conditional | None:
    """Return a register that keeps its value where a rule holds, if that gives every result.

    A wrong result that has the value of an earlier line says that no line between loads the register. The
    rule then says which lines load it, and is learnt again from what the register holds.
    """
    every = np.arange(batch.got.size)

    def of(source: Array) -> Changes:
        return change, Change("loaded", source, "")

    shown, left = np.zeros(every.size, bool), judged.wrong.copy()
    for lag in range(1, _LAGS):
        found = np.flatnonzero(left & agrees(batch, of(np.maximum(every - lag, 0))))
        shown[np.concatenate([found - by for by in range(lag)])] = True
        left[found] = False

    def kept(held: Mask, taken: Mask) -> Changes:
        return of(np.where(taken, last_loaded(held), every))

    def missed(changes: Changes) -> int:
        return int(np.count_nonzero(~agrees(batch, changes)[judged.wrong | judged.right]))

    def told(changes: Changes, rule: Rule, taken: str = "") -> Conditional:
        return Conditional(None, changes, f"{change.words}{taken}, and kept, where {rule}", Examples((), ()))

    held = np.zeros(every.size, bool)
    for _ in range(_HELD):
        spoilt = judged.right & ~agrees(batch, of(last_loaded(held)))
        rule = rules(shown, spoilt & ~shown)
        if rule is None:
            break
        held = rule.where(features)
        if not missed(made := kept(held, held)):
            return told(made, rule)
    # Where long runs of lines load nothing, nearer lines may have the same value.
    classes = list(of_classes(features))
    masks = [rule.where(features) for rule in classes]
    order = sorted(range(len(classes)), key=lambda place: int(masks[place].sum()))
    tried: list[tuple[int, int]] = []
    for place in [place for place in order if masks[place][judged.wrong].all()][:_COVERING]:
        over = missed(made := kept(masks[place], masks[place]))
        if not over:
            return told(made, classes[place])
        tried.append((over, place))
    over, place = min(tried, default=(every.size, 0))
    # Others may neither load the register nor take what it holds.
    for other in order if over < np.count_nonzero(judged.wrong) else ():
        if not missed(made := kept(masks[place] | masks[other], masks[place])):
            either = replace(
                classes[place], alternatives=classes[place].alternatives + classes[other].alternatives
            )
            return told(made, either, f", where {classes[place]}")
    return None


def _of_two(
    masks: list[tuple[Change, Mask]], batch: Batch, wrong: Mask, right: Mask, agrees: Agrees
) -> list[Conditional]:
    """Return an explanation by two edits that together give every result, each of them some, or nothing."""
    some = [pair for pair in masks if pair[1].any() and pair[0].field not in ON_RESULTS]
    some.sort(key=lambda pair: -np.count_nonzero(pair[1]))
    pairs = [
        (np.count_nonzero(mask | more), one, other)
        for place, (one, mask) in enumerate(some[:_FIRST])
        for other, more in some[place + 1 :]
        if np.mean(mask | more) > max(_WHOLLY, mask.mean())
    ]
    pairs.sort(key=lambda pair: (-pair[0], pair[1].cost + pair[2].cost))
    for _, *pair in pairs[:_EDITS]:
        agree = agrees(batch, tuple(pair))
        if agree[wrong | right].all():
            words = "; and ".join(change.words for change in pair)
            return [Conditional(None, tuple(pair), words, Examples((), ()), 0)]
    return []


#: Fields of changes of flags alone, and of what presumes the least.
_OF_FLAGS = ("flags", "raised", "tininess")
_PLAIN = (*ON_RESULTS, *_OF_FLAGS)

#: Fields of changes that say another format, unit or place as a whole: they hold everywhere or not at all.
_WHOLE = ("format", "element", "profile", "place", "named", "received", "rule", "arithmetic")


def _order(one: Conditional) -> tuple[int, int, int, int, int]:
    """Return the sort key of an explanation: exceptions, length, how little it presumes, and cost.

    An edit of results presumes the least. If its rule holds of wrong results alone, it comes before a more
    particular edit, which has the same effect there by chance.
    """
    cost = sum(change.cost + 2 * (change.field in _WHOLE) for change in one.edit)
    plain = all(change.field in _PLAIN for change in one.edit)
    size = (one.rule.size if one.rule else 0) + (not one.edit) + (INFINITIES_KEPT in one.edit)
    size += any(change.field in ON_RESULTS and change.learnt for change in one.edit)
    size -= any(change.field in _OF_FLAGS and change.cost < 2 for change in one.edit)  # of right results
    return one.errors, size, not (plain and one.exact), cost, plain


def useful(features: Iterable[Feature], asked: Mask) -> list[Feature]:
    """Return the features that differ among the requested results."""
    return [f for f in features if f.values[asked].size and (f.values[asked] != f.values[asked][0]).any()]


def _told(
    rule: Rule, edit: Changes, batch: Batch, wrong: Mask, right: Mask, where: Mask, errors: int
) -> Conditional:
    words = f"{edit[0].words}, where {rule}" if edit else f"wrong where {rule}"
    near = np.concatenate([np.flatnonzero(right & where), np.flatnonzero(right & ~where)])
    examples = Examples(
        tuple(batch.places[np.flatnonzero(wrong & where)[:_LINES]].tolist()),
        tuple(batch.places[near[:_LINES]].tolist()),
    )
    return Conditional(rule, edit, words, examples, errors, not (right & where).any())
