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
    return _Search(question, batch, judged, list(changes), agrees).explanations()


class _Search:
    """A search for edits that give wrong results, and for rules that say where they do."""

    def __init__(
        self, question: Question, batch: Batch, judged: Judged, changes: list[Change], agrees: Agrees
    ) -> None:
        self.question, self.batch, self.judged, self.changes = question, batch, judged, changes
        self.agrees, self.wrong, self.right = agrees, judged.wrong, judged.right
        swept = question.swept(batch)
        given = question.features(batch, judged.want)
        self.features = useful((one for one in given if not (swept and one.before)), self.wrong | self.right)
        self.edits = list(question.edits())
        self.scarce = np.count_nonzero(self.wrong) < _FEW
        # Elements of one block have the same block before them and count once; lines of the same operands
        # do not.
        self.behind = self.distinct if question.numbered == "element" else np.count_nonzero
        self.spent, self.may_repair = 0.0, True
        self.found: list[Conditional] = []

    def distinct(self, mask: Mask) -> int:
        """Count results that do not share operands."""
        return self.question.independent(self.batch.places[mask])

    def explanations(self) -> list[Conditional]:
        """Return what the search finds, the best first."""
        masks, best = self._tried()
        self.spent = math.log2(len(masks) + 1)
        for change in best:
            self._explain_by(change)
        if self._all_fail():
            self.found += _of_two(masks, self.batch, self.wrong, self.right, self.agrees)
        if self._all_fail():
            singly = (edit for edit in self.edits if edit.field == "parts")
            self.found += of_parts(self.question, self.batch, self.judged, singly, self.agrees, self.spent)
        in_order = self.batch.got.size == self.question.size and self.question.numbered == "line"
        if self._all_fail() and in_order:
            former = [change for change, mask in masks if change.field in ("former", "held") and mask.any()]
            self.found += [one for one in map(self._held, former) if one]
        rule = self._learn(self.wrong, self.right)
        if rule is not None:
            self._tell(rule, (), self.wrong, self.right)
        return sorted(self.found, key=_order)

    def _learn(self, inside: Mask, outside: Mask, spent: float = 0, of: Mask | None = None) -> Rule | None:
        """Return the rule that tells some results from others."""
        distinct, behind = self.distinct, self.behind
        return learn(self.features, inside, outside, spent, of=of, distinct=distinct, behind=behind)

    def _all_fail(self) -> bool:
        return all(one.errors for one in self.found)

    def _tried(self) -> tuple[list[tuple[Change, Mask]], list[Change]]:
        """Return edits, with where each gives a few wrong results, and edits that rules are sought for."""
        question, agrees = self.question, self.agrees
        on_results: list[Change] = []
        if question.coded and not question.values:
            sides = (question.codes(side[self.wrong]) for side in (self.batch.got, self.judged.want))
            on_results = [*of_results(question.target, *sides), BEFORE]
            on_results += [SIGN_BEFORE] * has_fields(question.target)
        places = np.random.default_rng(4).permutation(self.batch.places[self.wrong])[:_TRIED]
        few = question.sample(np.sort(places), places[:0])
        asked = np.isin(few.places, places)
        tried = [*on_results, *self.changes, *(edit for edit in self.edits if edit.field != "parts")]
        masks = [(change, agrees(few, (change,))[asked]) for change in tried]
        for change, mask in tuple(masks):
            if mask.mean() >= _NARROWED:
                masks += [(less, agrees(few, (less,))[asked]) for less in question.narrowed(change)]
        shares = [(mask.mean(), change) for change, mask in masks if mask.mean() >= 0.5]
        spoilt = self._spoilt(shares)
        best = sorted(shares, key=lambda pair: (-pair[0], spoilt[id(pair[1])], pair[1].cost))
        of_codes = [pair for pair in best if pair[1].field in _PLAIN][:_OF_RESULTS]
        best = best[:_EDITS] + [pair for pair in of_codes if pair not in best[:_EDITS]]
        return masks, [change for _, change in best]

    def _spoilt(self, shares: list[tuple[np.floating, Change]]) -> dict[int, int]:
        """Return how many right results edits would spoil, by their identity: of those that may be all."""
        plain = np.random.default_rng(7).permutation(self.batch.places[self.right])[:_TRIED]
        others = self.question.sample(plain[:0], np.sort(plain))
        near = np.isin(others.places, plain)
        spoilt = {id(change): near.size for _, change in shares}
        for share, change in shares:
            if share > _WHOLLY:
                asked_of, which = (others, near) if self.question.dear else (self.batch, self.right)
                lost = int(np.count_nonzero(~self.agrees(asked_of, (change,))[which]))
                spoilt[id(change)] = min(lost, 1) if change.field in ON_RESULTS else lost
        return spoilt

    def _explain_by(self, change: Change) -> None:
        """Add what an edit explains: everywhere, with another that repairs what it spoils, or by rules."""
        batch, wrong, right = self.batch, self.wrong, self.right
        agree = self.agrees(batch, (change,))
        outside, errors = right & ~agree, int(np.count_nonzero(wrong & ~agree))
        if not outside.any():  # it may hold everywhere
            self._add((change,), errors)
            return
        repaired = self.may_repair and not errors and change.field not in (*ON_RESULTS, *_WHOLE)
        self.may_repair &= not repaired
        for also in self._repairs(change, self.changes if repaired else (), outside):
            kept = self.agrees(batch, (change, also))
            if kept[right].all() and not (agree & ~kept & wrong).any():
                self._add((change, also), errors)
                break
        if change.field not in _WHOLE:
            self._add_rules(change, agree, outside)
        if repaired and _PROOF * np.count_nonzero(outside) < np.count_nonzero(wrong):  # as the nearest
            self._add((change,), int(np.count_nonzero(outside)))

    def _add(self, edit: Changes, errors: int) -> None:
        """Add an explanation without a rule."""
        words = "; ".join(change.words for change in edit)
        self.found.append(Conditional(None, edit, words, Examples((), ()), errors))

    def _add_rules(self, change: Change, agree: Mask, outside: Mask) -> None:
        """Add what an edit explains where rules hold."""
        inside, right = self.wrong & agree, self.right
        # An edit of results leaves some right results as they are. A rule that excludes those too says more.
        for beyond in (right, outside) if change.field in ON_RESULTS else (outside,):
            rule = self._learn(inside, beyond, self.spent, right if self.scarce else None)
            if rule is None:
                continue
            where = rule.where(self.features)
            # If right results meet a rule too, few wrong results prove no two conditions but on classes.
            seldom = sum(not is_whole(one) for together in rule.alternatives for one in together)
            doubtful = np.count_nonzero(inside) < _PROOF * max(seldom, len(rule.alternatives) - 1)
            if rule.size > 1 and doubtful and (right & where).any():
                continue
            # Sorted lines may repeat the previous result by chance: only one condition, without exceptions.
            exact = np.array_equal(self.wrong, inside & where) and not (outside & where).any()
            if change.field == "before" and not (exact and rule.size == 1):
                continue
            self._tell(rule, (change,), inside, outside)
            if exact and rule.size == 1:
                break
        by_codes = all(one.rule is not None and one.rule.of_codes for one in self.found)
        whole = by_codes and np.array_equal(inside, self.wrong)
        rule = entries(self.features, inside, right) if whole else None
        if rule is not None:
            self._tell(rule, (change,), None, None)

    def _tell(self, rule: Rule, edit: Changes, inside: Mask | None, outside: Mask | None) -> None:
        """Add an explanation by a rule, whose exceptions `inside` and `outside` tell, if given."""
        wrong, right, where = self.wrong, self.right, rule.where(self.features)
        errors = 0
        if inside is not None and outside is not None:
            errors = int(np.count_nonzero(wrong & ~(inside & where)) + np.count_nonzero(outside & where))
        words = f"{edit[0].words}, where {rule}" if edit else f"wrong where {rule}"
        near = np.concatenate([np.flatnonzero(right & where), np.flatnonzero(right & ~where)])
        examples = Examples(
            tuple(self.batch.places[np.flatnonzero(wrong & where)[:_LINES]].tolist()),
            tuple(self.batch.places[near[:_LINES]].tolist()),
        )
        exact = inside is not None and not (right & where).any()
        self.found.append(Conditional(rule, edit, words, examples, errors, exact))

    def _repairs(self, change: Change, tried: Iterable[Change], outside: Mask) -> Iterator[Change]:
        """Yield changes that take back what an edit does to right results, of many only to NaNs.

        The other results need not tell such a change from what was asked.
        """
        question, batch, agrees = self.question, self.batch, self.agrees
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

    def _held(self, change: Change) -> Conditional | None:
        """Return a register that keeps its value where a rule holds, if that gives every result.

        A wrong result that has the value of an earlier line says that no line between loads the register. The
        rule then says which lines load it, and is learnt again from what the register holds.
        """
        features, batch, judged, agrees = self.features, self.batch, self.judged, self.agrees
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
            return Conditional(
                None, changes, f"{change.words}{taken}, and kept, where {rule}", Examples((), ())
            )

        held = np.zeros(every.size, bool)
        for _ in range(_HELD):
            spoilt = judged.right & ~agrees(batch, of(last_loaded(held)))
            rule = self._learn(shown, spoilt & ~shown, self.spent)
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
