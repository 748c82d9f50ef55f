"""Why results differ: the changes to the question that explain most of the mismatches.

A hypothesis explains a mismatch if the result is what the hypothesis gives, and contradicts a match if it
gives something else there. What counts is what it explains less what it contradicts. Single changes are
tried on a sample, the best of them together with each other change, and the best of all on everything.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from lowprec.verify.compare.cause import MANY, Cause, Conditional, Diagnosis
from lowprec.verify.compare.conditions import conditional, edited
from lowprec.verify.compare.failures import Failures, trying
from lowprec.verify.compare.sample import Sample
from lowprec.verify.compare.stochastic_rounding import STOCHASTIC, chances
from lowprec.verify.questions.question import (
    Array,
    Batch,
    Change,
    Changes,
    Each,
    Judged,
    Question,
    differ,
    excluded,
    judged,
)

__all__ = ["diagnose"]

#: Hypotheses that are taken further, half as many where answers are dear, and changes together at most.
_BEAM, _DEPTH = 6, 3
#: Results of which all are looked at for conditions, not a sample.
_WHOLE = 1 << 16
#: Results that a hypothesis is tried on first, of a question whose answers are dear.
_FEW = 128
#: Times that conditions are sought again, with right results that the last ones contradict.
_ROUNDS = 2
#: Standard deviations by which what it is seen to contradict there must exceed what it explains, to be left.
_DOUBTS = 4
#: Hypotheses that are tried on everything; more, where more are as good as the best.
_FINALISTS, _MOST = 8, 32
#: Of fewer than these, but of many, edits that explain as much as a cause are told beside it.
_SCARCE = 64
#: Causes that are told, where none explains everything.
_TOLD = 3
#: Fields of faults of steps: one that alone gives no wrong result is no second change either.
_FAULTS = ("stage.",)
#: A cause explains at least this share of the mismatches, net.
_LEAST = 0.1


def diagnose(
    question: Question, sample: Sample, mismatches: int, each: Each, failures: Failures
) -> Diagnosis:
    """Return the hypotheses that explain the mismatches of a question, from a sample, then from all of it.

    Hypotheses that fail are noted in `failures`, and explain nothing.
    """
    trial = _Trial(question, question.sample(*sample.places()), failures)
    scores = trial.singles()
    ruled, few = None, mismatches < MANY
    if few or max(scores.values(), default=0) < np.count_nonzero(trial.wrong):
        ruled = trial.conditional()
    first = ruled[0] if ruled else None
    exact = first is not None and bool(first.edit) and not first.errors
    finalists = [
        Cause(_words(changes), changes=changes) for changes in trial.finalists(scores, deep=not exact)
    ]
    chance = None
    with trying(STOCHASTIC, failures, (ValueError,)):
        said = None if exact else chances(question)
        chance = None if said is None else Cause(said)
    tried = [*finalists, *([] if chance is None else [chance])]
    if tried:
        _on_everything(tried, each, failures)
    causes = _ranked(finalists, mismatches)
    if chance is not None and chance.net > max(0, causes[0].net if causes else 0):
        causes = [chance, *causes]
    if causes and causes[0].changes and 0 < causes[0].net < mismatches:
        causes = _completed(question, causes, each, failures)
    if few or not causes or causes[0].net < mismatches:
        # What single changes, or rules, contradict may not have been in the sample.
        ruled = trial.conditional() if ruled is None else ruled
        causes, against = _with_rules(ruled, causes, mismatches, each, failures)
        for _ in range(_ROUNDS if not causes or causes[0].net < mismatches else 0):
            if not against.size or trial.examined[0].got.size == question.size:
                break
            trial.examined_too(against)
            causes, against = _with_rules(trial.conditional(), causes, mismatches, each, failures)
    # Besides one that explains everything the others are worth nothing, unless it explains few.
    causes = causes[:1] if not few and causes and causes[0].net == mismatches else causes[:_TOLD]
    scarce = MANY <= mismatches < _SCARCE and not question.dear
    if scarce and causes and causes[0].net == mismatches and causes[0].rule is None:
        causes[0].same = trial.alike(causes[0], mismatches, each) + causes[0].same
    left = mismatches - (causes[0].explained if causes else 0)
    here = trial.batch.places[trial.wrong]
    # What holds everywhere is proven by the right results too, except of the elements of one block.
    learnt = causes and (causes[0].rule is not None or any(change.learnt for change in causes[0].changes))
    if question.numbered == "element" or learnt:
        few = few or (here.size == mismatches and question.independent(here) < MANY)
    rule = causes[0].rule if causes else None
    few = few and (rule is None or not rule.of_codes)
    rest = trial.rest(causes[0]) if left and causes and 2 * causes[0].net >= mismatches else None
    left -= rest.explained if rest else 0
    return Diagnosis(causes, left, trial.left(causes[0]) if causes and left else {}, rest, few)


def _with_rules(
    found: list[Conditional], causes: list[Cause], mismatches: int, each: Each, failures: Failures
) -> tuple[list[Cause], Array]:
    """Return the causes, and places of right results that edits contradict.

    In front of the causes, if it explains more than the first, comes an edit where a rule holds. A rule alone
    says where, and not why: it comes where no cause explains half of what differs.
    """
    alone = not causes or 2 * causes[0].net < mismatches
    tried = [
        Cause(one.words, changes=one.edit, rule=one.rule, examples=one.examples)
        for one in found[:_TOLD]
        if one.edit or alone
    ]
    if not tried:
        return causes, np.empty(0, np.int64)
    _on_everything(tried, each, failures)
    wrongly = [one for one in tried if one.contradicted and one.rule is None]
    some = [part.places()[1] for part in each(_contradicted, wrongly)] if wrongly else []
    against = np.unique(np.concatenate(some)) if some else np.empty(0, np.int64)
    best = max(tried, key=lambda cause: cause.net)  # of those with as much the first
    like = {one.words for one in tried if one.net == best.net and _size(one) == _size(best)}
    best.same = sorted(like - {best.words})
    if best.net > max(0, causes[0].net if causes else 0):
        return [best, *causes], against
    named = {word for cause in causes for word in (cause.words, *cause.same)}
    also = mismatches < MANY and best.net == mismatches and best.words not in named
    return ([*causes[:1], best, *causes[1:]] if also else causes), against


def _size(cause: Cause) -> int:
    return 0 if cause.rule is None else cause.rule.size


def _completed(question: Question, causes: list[Cause], each: Each, failures: Failures) -> list[Cause]:
    """Return the causes; in front, if found, the first with a change that explains what it leaves over.

    What is left may be too rare to be in the sample: it is collected from all of the results.
    """
    first, rest = causes[0], Sample()
    for some in each(_left_over, first.changes, rest.below):
        rest.join(some)
    trial = _Trial(question, question.sample(*rest.places()), failures)
    trial.wrong &= ~trial.agrees(first.changes)
    settled, best = excluded(first.changes), (0, first.changes)
    for change in trial.changes:
        if change.field not in settled:
            changes = (*first.changes, change)
            best = max(best, (trial.net(changes), changes), key=lambda pair: pair[0])
    left = int(np.count_nonzero(trial.wrong))
    if best[0] < left and (left < MANY or 2 * best[0] < left):
        return causes
    finalist = Cause(_words(best[1]), changes=best[1])
    _on_everything([finalist], each, failures)
    return [finalist, *causes] if finalist.net > first.net else causes


class _Trial:
    """Hypotheses on a sample."""

    def __init__(self, question: Question, batch: Batch, failures: Failures) -> None:
        self.question, self.batch, found = question, batch, judged(question, batch)
        self.want, self.wrong, self.right = found.want, found.wrong, found.right
        self.failures, self.examined = failures, (batch, found)
        self.changes: list[Change] = []
        self._screens: dict[Changes, _Screen] = {}
        self._idle: set[Change] = set()  # faults that alone give none of a few wrong results
        with trying("the list of hypotheses", failures):
            for change in question.changes():
                self.changes.append(change)

    def examined_too(self, places: Array) -> None:
        """Add right results to the sample."""
        equal = np.union1d(self.batch.places[self.right], places)
        self.batch = self.question.sample(self.batch.places[self.wrong], equal)
        found = judged(self.question, self.batch)
        self.want, self.wrong, self.right = found.want, found.wrong, found.right
        self._screens.clear()

    def agrees(self, changes: Changes) -> npt.NDArray[np.bool_]:
        """Return where results are what a hypothesis gives."""
        return _agrees(self.question, self.batch, changes, self.failures)

    def net(self, changes: Changes) -> int:
        """Return what is explained less what is contradicted; 0 where the last change mends nothing, net."""
        screen = self._screen(changes[:-1])
        if screen is not None:
            found, hopeful = screen.tried(self.question, changes, self.failures)
            if not found and len(changes) == 1 and changes[0].field.startswith(_FAULTS):
                self._idle.add(changes[0])
            if not hopeful:
                return 0
        agree = self.agrees(changes)
        return int(np.count_nonzero(agree & self.wrong)) - int(np.count_nonzero(~agree & self.right))

    def _screen(self, changes: Changes) -> _Screen | None:
        """Return a few of the results that a hypothesis does not give, and of those that it gives.

        A change more must give some of the first, and not lose more of the others.
        """
        if not self.question.dear or self.wrong.size <= 2 * _FEW:
            return None
        if changes not in self._screens:
            asked = self.wrong | self.right
            held = asked & ~self.wrong if not changes else asked & self.agrees(changes)
            drawn = np.random.default_rng(3)
            sides, sizes = [], []
            for which, most in ((asked & ~held, _FEW), (held, _FEW // 2)):
                places = drawn.permutation(self.batch.places[which])
                sides.append(np.sort(places[:most]))
                sizes.append(places.size)
            both = np.union1d(*sides)
            batch = self.question.sample(both, both[:0])
            self._screens[changes] = _Screen(batch, np.isin(batch.places, sides[1]), sizes)
        return self._screens[changes]

    def conditional(self) -> list[Conditional]:
        """Return edits where a rule holds, the best first."""
        bounds = list(itertools.islice(self.question.bounds(), 2))
        whole = len(bounds) == 1 and self.question.size <= _WHOLE
        batch = self.question.piece(*bounds[0]) if whole else self.batch
        found: list[Conditional] = []
        self.examined = batch, judged(self.question, batch)
        with trying("conditions", self.failures):
            found = conditional(self.question, *self.examined, self.changes, self.agrees_in)
        return found

    def alike(self, cause: Cause, mismatches: int, each: Each) -> list[str]:
        """Return edits that explain every mismatch too, and contradict nothing: a few of them, in words."""
        wrong, found = int(np.count_nonzero(self.wrong)), list[Cause]()
        known = {cause.words, *cause.same}
        for change in self.question.edits():
            if change.field == "parts" or change.words in known or len(found) == _TOLD:
                continue
            if self.net((change,)) == wrong:
                found.append(Cause(change.words, changes=(change,)))
        if found:
            _on_everything(found, each, self.failures)
        return [one.words for one in found if one.net == mismatches]

    def finalists(self, scores: dict[Changes, int], *, deep: bool) -> list[Changes]:
        """Return the best hypotheses, and all that are as good as the first."""
        found = self.search(scores, _DEPTH if deep else 1)
        best = scores[found[0]] if found else 0
        ties = sum(scores[changes] == best for changes in found)
        return found[: min(max(ties, _FINALISTS), _MOST)]

    def singles(self) -> dict[Changes, int]:
        """Return what each change alone explains, net."""
        return {(change,): self.net((change,)) for change in self.changes}

    def search(self, scores: dict[Changes, int], most: int) -> list[Changes]:
        """Return the hypotheses of so many changes that explain something, the best first.

        What each explains, net, joins the scores of single changes.
        """
        singles = list(scores)
        all_wrong, best = int(np.count_nonzero(self.wrong)), 0
        beam, least = singles, 0.0
        for depth in range(1, most + 1):
            beam = sorted(
                (changes for changes in beam if scores[changes] > least), key=lambda c: _rank(c, scores)
            )[: _BEAM // (1 + self.question.dear)]
            reached = max((scores[changes] for changes in beam), default=0)
            if depth == most or reached == all_wrong or reached <= best:
                break
            best, least = reached, all_wrong * _LEAST / 2 if self.question.dear else 0
            # Two changes in either order are one hypothesis.
            beam = list(
                {frozenset(more): more for changes in beam for more in self._with(changes, singles)}.values()
            )
            for changes in beam:
                score = self.net(changes)
                # A second change must explain what the first alone did not.
                simpler = max(scores.get(changes[:-1], 0), scores.get(changes[-1:], 0))
                scores[changes] = score if score > simpler + max(2, all_wrong // 5000) else 0
        positive = [changes for changes, score in scores.items() if score > 0]
        return sorted(positive, key=lambda changes: _rank(changes, scores))

    def _with(self, changes: Changes, singles: Iterable[Changes]) -> Iterator[Changes]:
        settled = excluded(changes)
        for (more,) in singles:
            if more.field not in settled and more not in self._idle:
                yield (*changes, more)

    def agrees_in(self, batch: Batch, changes: Changes) -> npt.NDArray[np.bool_]:
        """Return where results of a batch are what a hypothesis gives."""
        return _agrees(self.question, batch, changes, self.failures)

    def given(self, cause: Cause, batch: Batch, want: Array) -> npt.NDArray[np.bool_]:
        """Return where results of a batch are what a hypothesis gives, and its rule holds."""
        agree = self.agrees_in(batch, cause.changes) if cause.changes else np.ones(want.size, bool)
        if cause.rule is not None:
            agree &= cause.rule.where(list(self.question.features(batch, want)))
        return agree

    def rest(self, first: Cause) -> Cause | None:
        """Return what gives all results that a first hypothesis leaves over, if it contradicts no result."""
        batch, found = self.examined
        if first.contradicted or batch.got.size != self.question.size:
            return None
        given = found.wrong & self.given(first, batch, found.want)
        self.question.settled, apart = batch.places[given], replace(found, wrong=found.wrong & ~given)
        made: list[Conditional] = []
        with trying("what a second cause explains", self.failures):
            made = conditional(self.question, batch, apart, self.changes, self.agrees_in)
        self.question.settled, count = None, int(np.count_nonzero(apart.wrong))
        if not made or made[0].errors:
            return None
        one = made[0]
        return Cause(one.words, count, changes=one.edit, rule=one.rule, examples=one.examples)

    def left(self, cause: Cause) -> dict[str, int]:
        """Return where the mismatches lie that a hypothesis does not explain."""
        batch, found = (self.batch, self) if cause.rule is None else self.examined
        left = ~self.given(cause, batch, found.want) & found.wrong
        counts = np.bincount(self.question.situations(batch, left, found.want[left]))
        named = zip(self.question.situation_names, counts.tolist(), strict=False)
        return {name: count for name, count in sorted(named, key=lambda pair: -pair[1]) if count}


@dataclass
class _Screen:
    """Some results that a hypothesis does not give, and some that it gives."""

    batch: Batch
    held: Array  #: which it gives
    sizes: list[int]  #: how many there are in all: of the others, and of these

    def tried(self, question: Question, changes: Changes, failures: Failures) -> tuple[bool, bool]:
        """Return whether one change more gives any, and may explain more than it contradicts."""
        agree = _agrees(question, self.batch, changes, failures)
        found, lost = np.count_nonzero(agree & ~self.held), np.count_nonzero(~agree & self.held)
        if not found:
            return False, False
        left, held = (
            size / max(int(np.count_nonzero(which)), 1)
            for size, which in zip(self.sizes, (~self.held, self.held), strict=True)
        )
        gain, doubt = left * found - held * lost, math.hypot(left * math.sqrt(found), held * math.sqrt(lost))
        return True, bool(gain + _DOUBTS * doubt > 0)


def _rank(changes: Changes, scores: dict[Changes, int]) -> tuple[int, int]:
    return -scores[changes], sum(change.cost for change in changes)


def _agrees(question: Question, batch: Batch, changes: Changes, failures: Failures) -> npt.NDArray[np.bool_]:
    """Return where results are what a hypothesis gives: nowhere if it refuses an operand, or fails."""
    agree = np.zeros(batch.got.size, bool)
    with trying(_words(changes), failures, (ValueError,)):
        agree = ~differ(question, batch.got, edited(question, batch, changes))
    return agree


def _words(changes: Changes) -> str:
    return "; and ".join(change.words for change in changes)


def _count(
    question: Question, batch: Batch, cause: Cause, found: Judged, failures: Failures
) -> tuple[int, int, int, int]:
    """Return what a cause explains and contradicts in a piece, and the wrong and right results of its rule.

    Stochastic rounding contradicts nothing.
    """
    if cause.rule is not None:
        where = agree = np.zeros(found.wrong.size, bool)
        with trying(cause.words, failures, (ValueError,)):
            where = cause.rule.where(list(question.features(batch, found.want)))
            agree = where & found.wrong
            if cause.changes:
                agree = _agrees(question, batch, cause.changes, failures)
        pairs = (
            where & agree & found.wrong,
            where & ~agree & found.right,
            where & found.wrong,
            where & found.right,
        )
        explained, contradicted, wrong, right = (int(np.count_nonzero(each)) for each in pairs)
        return explained, contradicted, wrong, right
    if cause.changes:
        agree = _agrees(question, batch, cause.changes, failures)
        return int(np.count_nonzero(agree & found.wrong)), int(np.count_nonzero(~agree & found.right)), 0, 0
    agree = np.zeros(found.wrong.size, bool)
    with trying(cause.words, failures, (ValueError,)):
        sides = question.random(batch)
        assert sides is not None
        agree = ~differ(question, batch.got, sides[0]) | ~differ(question, batch.got, sides[1])
    return int(np.count_nonzero(agree & found.wrong)), 0, 0, 0


def _left_over(question: Question, batch: Batch, changes: Changes, below: Sequence[float]) -> Sample:
    """Return a sample of what a hypothesis does not explain."""
    found = judged(question, batch)
    agree = _agrees(question, batch, changes, {})  # it has not failed so far
    sample, first = Sample(below), batch.index.start  # type: ignore[union-attr]
    sample.add(first, found.wrong, (found.wrong | found.right) & ~(found.wrong & agree))
    return sample


def _contradicted(question: Question, batch: Batch, causes: list[Cause]) -> Sample:
    """Return a sample of the right results of a piece that causes contradict."""
    found, sample = judged(question, batch), Sample()
    agree = [_agrees(question, batch, cause.changes, {}) for cause in causes if cause.changes]
    against = found.right & ~np.logical_and.reduce([found.right, *agree])
    sample.add(batch.index.start, found.wrong & False, against)  # type: ignore[union-attr]
    return sample


def _counted(question: Question, batch: Batch, causes: list[Cause]) -> tuple[list[tuple[int, ...]], Failures]:
    """Return what each cause explains and contradicts in a piece, and those that fail there."""
    found, failures = judged(question, batch), Failures()
    return [_count(question, batch, cause, found, failures) for cause in causes], failures


def _on_everything(causes: list[Cause], each: Each, failures: Failures) -> None:
    for counts, failed in each(_counted, causes):
        failures |= failed
        for cause, (explained, contradicted, wrong, right) in zip(causes, counts, strict=True):
            cause.explained += explained
            cause.contradicted += contradicted
            cause.inside = cause.inside[0] + wrong, cause.inside[1] + right
    for cause in causes:
        if cause.words in failures:
            cause.explained = cause.contradicted = 0


def _ranked(causes: list[Cause], mismatches: int) -> list[Cause]:
    """Rank the causes that explain enough; those that explain the same come under the simplest."""
    kept: list[Cause] = []
    least = mismatches if mismatches < MANY else max(MANY // 2, _LEAST * mismatches)
    for cause in sorted(causes, key=lambda cause: (-cause.net, cause.cost)):
        if cause.net < least:
            continue
        twin = next(
            (k for k in kept if (k.explained, k.contradicted) == (cause.explained, cause.contradicted)), None
        )
        if twin is not None:
            twin.same.append(cause.words)
        else:
            kept.append(cause)
    return kept
