"""Rules that tell parts of results, products or steps of dot units: an edit holds where such a rule does.

Where an edit of one part alone gives a wrong result, that part must meet the rule; where it would spoil a
right result, the part must not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from lowprec.verify.compare.cause import Conditional, Examples
from lowprec.verify.compare.rules import Condition, Rule, learn
from lowprec.verify.questions.features import Feature
from lowprec.verify.questions.question import Array, Batch, Change, Changes, Judged, Question

__all__ = ["of_parts"]

#: Results of each kind whose parts are looked at, edits that a rule is sought for, and times that it is
#: sought again with right results that the last one contradicts.
_WRONG, _RIGHT, _EDITS, _ROUNDS = 256, 128, 8, 4
#: Parts of wrong results that are looked at, at most.
_LOOKED = 4096
#: Parts that each edit is tried on, of so many wrong results at least; and the share of these results that it
#: must give.
_PARTS, _LEAST, _SHARE = 256, 4, 0.1
#: Wrong results that conditions on many parts are tried on, and the share of these that they must give.
_FEW, _MANY = 32, 0.9
#: Draws of so many parts that a rule is learnt of, if none holds of all; and the share that it must hold of.
_DRAWS, _SOME, _MOST = 8, 8, 0.6
#: One of so many parts of right results may meet the rule all the same.
_SPARED = 64

Mask = npt.NDArray[np.bool_]


def of_parts(
    question: Question,
    batch: Batch,
    judged: Judged,
    edits: Iterable[Change],
    agrees: Callable[[Batch, Changes], Mask],
    spent: float,
) -> list[Conditional]:
    """Return what edits explain, each where a rule on parts holds; `spent` as `learn` has it."""
    drawn, found = np.random.default_rng(9), list[Conditional]()
    bad, good = (
        drawn.permutation(np.flatnonzero(side))[:most]
        for side, most in ((judged.wrong, _WRONG), (judged.right, _RIGHT))
    )

    def add(edit: Change, rule: Rule) -> Array:
        """Take a rule down, and return the right results that it contradicts."""
        words = f"{edit.words}, {edit.value.parts.name} where {rule}"
        value = replace(edit.value, where=rule.where)
        change = replace(edit, value=value, words=words, cost=edit.cost + rule.size)
        agree = agrees(batch, (change,))
        spoilt = np.flatnonzero(judged.right & ~agree)
        errors = spoilt.size + int(np.count_nonzero(judged.wrong & ~agree))
        found.append(Conditional(None, (change,), words, Examples((), ()), errors))
        return spoilt

    edits = list(edits)
    for edit, rule in _of_many(question, batch.places[bad[:_FEW]], edits):
        add(edit, rule)
    copies = dict[str, tuple[Batch, Array]]()  # of the same parts, for all edits of these
    shares = [(_share(question, batch.places[bad], edit, copies), edit) for edit in edits]
    shares.sort(key=lambda pair: (-pair[0], pair[1].cost))
    for _, edit in (pair for pair in shares[:_EDITS] if pair[0] >= _SHARE):
        told, plain = _Told(question, batch, edit), good
        told.add(bad[: _LOOKED // edit.value.parts.count], wrong=True)
        for _ in range(_ROUNDS):
            told.add(plain, wrong=False)
            learnt = told.rule(drawn, spent)
            plain = drawn.permutation(add(edit, learnt))[:_RIGHT] if learnt else plain[:0]
            if not plain.size:
                break
    return found


def _of_many(question: Question, places: Array, edits: Sequence[Change]) -> Iterator[tuple[Change, Rule]]:
    """Yield edits of so many parts that no result shows one alone, with conditions that give most results."""
    known = dict[str, tuple[list[Condition], Array, Batch]]()
    for edit in (edit for edit in edits if edit.value.of_many):
        parts = edit.value.parts
        if parts.name not in known:
            features = parts.features(places)
            tried = [(one, feature.values) for feature in features for one in _conditions(feature)]
            masks = np.stack([one.where(values).reshape(-1, parts.count) for one, values in tried])
            copies = parts.rows(np.tile(places[:_LEAST], len(tried)))
            known[parts.name] = [one for one, _ in tried], masks, copies
        conditions, masks, copies = known[parts.name]
        made = question.answer(copies, (edit.value.of(masks[:, :_LEAST].reshape(-1, parts.count)),))
        for number in np.flatnonzero((made == copies.got).reshape(len(conditions), -1).all(1)):
            few = parts.rows(places)
            if (question.answer(few, (edit.value.of(masks[number]),)) == few.got).mean() >= _MANY:
                yield edit, Rule(((conditions[number],),))


def _conditions(feature: Feature) -> Iterator[Condition]:
    """Yield conditions on a feature that is a statement or has names for its values."""
    if feature.values.dtype == bool:
        yield from (Condition(feature.name, "=", 1, holds=holds, statement=True) for holds in (True, False))
    for value, label in enumerate(feature.labels):
        yield Condition(feature.name, "=", value, label=label)


def _share(question: Question, places: Array, edit: Change, known: dict[str, tuple[Batch, Array]]) -> float:
    """Return the share of wrong results that an edit of one part alone gives."""
    parts = edit.value.parts
    if parts.name not in known:
        known[parts.name] = parts.copies(places[: max(_PARTS // parts.count, _LEAST)])
    copies, alone = known[parts.name]
    given = question.answer(copies, (edit.value.of(alone),)) == copies.got
    return float(given.reshape(parts.count, -1).any(0).mean())


class _Told:
    """Parts of results of which an edit is known to hold, or known not to."""

    def __init__(self, question: Question, batch: Batch, edit: Change) -> None:
        self.question, self.batch, self.edit = question, batch, edit
        self.parts: list[tuple[list[Feature], Mask, Mask]] = []

    def add(self, places: Array, *, wrong: bool) -> None:
        """Look at the parts of some results, all wrong ones or all right."""
        parts, at = self.edit.value.parts, self.batch.places[places]
        copies, alone = parts.copies(at)
        made = self.question.answer(copies, (self.edit.value.of(alone),))
        shows = (made != self.question.answer(copies)).reshape(-1, at.size).T
        given = shows & (made == copies.got).reshape(-1, at.size).T
        given &= (given.sum(1) == 1)[:, None]  # of several that give a result each may be the one
        sides = (given, np.zeros_like(given)) if wrong else (np.zeros_like(given), shows)
        self.parts.append((parts.features(at), *(side.reshape(-1) for side in sides)))

    def rule(self, drawn: np.random.Generator, spent: float) -> Rule | None:
        """Return the rule of the parts that the edit holds of; if none holds of all, of most.

        A part may give a wrong result by chance, where the edit holds of several others, and two parts may
        make up for each other in a right one.
        """
        features, of, outside = zip(*self.parts, strict=True)
        joined = [
            replace(each[0], values=np.concatenate([one.values for one in each]))
            for each in zip(*features, strict=True)
        ]
        inside, others = np.concatenate(of), np.concatenate(outside)
        every = np.flatnonzero(inside)
        found = learn(joined, inside, others, spent)
        if every.size < 2 * _SOME:
            return found
        if found is not None and len(found.alternatives) == 1 and found.where(joined)[every].all():
            return found
        spared = int(np.count_nonzero(others)) // _SPARED
        for number in range(_DRAWS):
            some = np.zeros(inside.size, bool)
            some[drawn.permutation(every)[:_SOME] if number else every] = True
            of_some = learn(joined, some, others, spent, spared=spared)
            where = some & False if of_some is None else of_some.where(joined)
            if where[every].mean() >= _MOST and np.count_nonzero(where & others) <= spared:
                return of_some
        return found
