"""Why results differ: the changes to the question that explain most of the mismatches.

A hypothesis explains a mismatch if the result is what the hypothesis gives, and contradicts a match if it
gives something else there. What counts is what it explains less what it contradicts. Single changes are
tried on a sample, the best of them together with each other change, and the best of all on everything.

Floor 5.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from lowprec.tools.comparison.subject import Array, Batch, Changes, Subject, excluded
from lowprec.tools.vectors import is_nan

__all__ = ["Cause", "Diagnosis", "Sample", "diagnose", "differ"]

#: Mismatches and matches of a sample, hypotheses that are taken further, and changes together at most.
_MISMATCHES, _MATCHES, _BEAM, _DEPTH = 1 << 14, 1 << 14, 6, 3
#: Hypotheses that are tried on everything.
_FINALISTS = 8
#: Causes that are told, where none explains everything.
_TOLD = 3
#: A cause explains at least this share of the mismatches, net.
_LEAST = 0.1


@dataclass
class Cause:
    """A hypothesis, and how much it explains."""

    words: str
    explained: int = 0
    contradicted: int = 0
    changes: Changes = ()
    same: list[str] = field(default_factory=list)  #: hypotheses that explain the very same

    @property
    def net(self) -> int:
        """What it explains less what it contradicts."""
        return self.explained - self.contradicted

    @property
    def cost(self) -> int:
        """The lower, the simpler."""
        return sum(change.cost for change in self.changes)


@dataclass
class Diagnosis:
    """The causes that were found, the best first, and the mismatches that the first leaves unexplained."""

    causes: list[Cause]
    unexplained: int
    situations: dict[str, int] = field(default_factory=dict)  #: of those that the first leaves, in the sample

    @property
    def explained(self) -> bool:
        """Whether the first cause explains most mismatches."""
        return bool(self.causes)


def differ(subject: Subject, got: Array, want: Array) -> npt.NDArray[np.bool_]:
    """Where results are not what they must be."""
    wrong = got != want
    if subject.any_nan and wrong.any():
        places = np.flatnonzero(wrong)
        both = [subject.codes(codes[places]) for codes in (got, want)]
        nans = [(codes >= 0) & is_nan(np.maximum(codes, 0), subject.target) for codes in both]
        wrong[places[nans[0] & nans[1]]] = False
    return np.asarray(wrong)


class Sample:
    """Places of mismatches and of matches, each as likely as any other of its kind."""

    def __init__(self) -> None:
        self._random = np.random.default_rng(0)
        self._different, self._equal = _Drawn(_MISMATCHES), _Drawn(_MATCHES)

    def add(self, places: Array, wrong: Array) -> None:
        """What a batch has to offer: places, and which of them are mismatches."""
        keys = self._random.random(places.size, np.float32)
        self._different.add(places, keys, wrong)
        self._equal.add(places, keys, ~wrong)

    def places(self) -> tuple[Array, Array]:
        """Mismatches and matches, ascending."""
        return self._different.places(), self._equal.places()


class _Drawn:
    """As many places as wanted, those with the lowest keys."""

    def __init__(self, wanted: int) -> None:
        self._wanted, self._held, self._keys = wanted, np.empty(0, np.int64), np.empty(0, np.float32)
        self._limit = 2.0

    def add(self, places: Array, keys: Array, where: Array) -> None:
        found = np.flatnonzero(where & (keys < self._limit))
        if not found.size:
            return
        self._held, self._keys = np.append(self._held, places[found]), np.append(self._keys, keys[found])
        if self._keys.size > self._wanted:
            lowest = np.argpartition(self._keys, self._wanted)[: self._wanted]
            self._held, self._keys = self._held[lowest], self._keys[lowest]
            self._limit = float(self._keys.max())

    def places(self) -> Array:
        return np.sort(self._held)


def diagnose(subject: Subject, sample: Sample, mismatches: int) -> Diagnosis:
    """The hypotheses that explain the mismatches of a subject, from a sample and then on all of it."""
    trial = _Trial(subject, subject.sample(*sample.places()))
    found = list(trial.search())
    finalists = [_Finalist(changes) for changes in found[:_FINALISTS]]
    chance = trial.chance()
    if finalists or chance:
        _on_everything(subject, finalists, chance)
    causes = _ranked(finalists, mismatches)
    if chance is not None and (not causes or causes[0].net < mismatches * 0.98) and chance.cause.net > 0:
        if not causes or chance.cause.net > causes[0].net:
            causes = [chance.cause, *causes]
    # Beside one that explains everything the others are worth nothing.
    causes = causes[:1] if causes and causes[0].net == mismatches else causes[:_TOLD]
    left = mismatches - (causes[0].explained if causes else 0)
    return Diagnosis(causes, left, trial.left(causes[0].changes) if causes and left else {})


class _Trial:
    """Hypotheses on a sample."""

    def __init__(self, subject: Subject, batch: Batch) -> None:
        self.subject, self.batch = subject, batch
        self.want = subject.answer(batch)
        asked = subject.asked(batch)
        self.asked = np.ones(batch.got.size, bool) if asked is None else asked
        self.wrong = differ(subject, batch.got, self.want) & self.asked
        self.right = ~self.wrong & self.asked

    def net(self, changes: Changes) -> int:
        """What is explained less what is contradicted."""
        try:
            made = self.subject.answer(self.batch, changes)
        except ValueError:  # such as a profile that refuses an operand
            return 0
        agree = ~differ(self.subject, self.batch.got, made)
        return int(np.count_nonzero(agree & self.wrong)) - int(np.count_nonzero(~agree & self.right))

    def search(self) -> Iterator[Changes]:
        """Hypotheses that explain something, the best first."""
        singles: list[Changes] = [(change,) for change in self.subject.changes()]
        scores: dict[Changes, int] = {changes: self.net(changes) for changes in singles}
        all_wrong, best = int(np.count_nonzero(self.wrong)), 0
        beam = singles
        for depth in range(1, _DEPTH + 1):
            beam = sorted((changes for changes in beam if scores[changes] > 0), key=lambda c: _rank(c, scores))[:_BEAM]
            reached = max((scores[changes] for changes in beam), default=0)
            if depth == _DEPTH or reached == all_wrong or reached <= best:
                break
            best = reached
            # Two changes in either order are one hypothesis.
            beam = list({frozenset(more): more for changes in beam for more in self._with(changes, singles)}.values())
            for changes in beam:
                score = self.net(changes)
                # A second change must explain what the first alone did not.
                simpler = max(scores.get(changes[:-1], 0), scores.get(changes[-1:], 0))
                scores[changes] = score if score > simpler + max(2, all_wrong // 5000) else 0
        positive = [changes for changes, score in scores.items() if score > 0]
        yield from sorted(positive, key=lambda changes: _rank(changes, scores))

    @staticmethod
    def _with(changes: Changes, singles: Iterable[Changes]) -> Iterator[Changes]:
        settled = excluded(changes)
        for (more,) in singles:
            if more.field not in settled:
                yield (*changes, more)

    def left(self, changes: Changes) -> dict[str, int]:
        """Where the mismatches lie that a hypothesis does not explain."""
        made = self.subject.answer(self.batch, changes)
        left = differ(self.subject, self.batch.got, made) & self.wrong
        counts = np.bincount(self.subject.situations(self.batch, left))
        named = zip(self.subject.situation_names, counts.tolist(), strict=False)
        return {name: count for name, count in sorted(named, key=lambda pair: -pair[1]) if count}

    def chance(self) -> _Chance | None:
        """Stochastic rounding, if results lie on either side as often as it would have them do."""
        places = np.random.default_rng(1).integers(0, self.subject.size, 2 * _MATCHES)
        batch = self.subject.sample(places, places[:0])
        sides = self.subject.random(batch)
        if sides is None:
            return None
        (down, up, far), got = sides, batch.got
        inside = (down != up) & (far > 0) & (far < 1)
        faithful = ~differ(self.subject, got, down) | ~differ(self.subject, got, up)
        ups = (got == up)[inside & faithful]
        tail = far[inside & faithful]
        if ups.size < 64 or ups.size < 0.98 * np.count_nonzero(inside):
            return None
        bins = np.minimum((tail * 8).astype(np.int64), 7)
        expected, seen = np.bincount(bins, tail, 8), np.bincount(bins, ups, 8)
        spread = np.sqrt(np.bincount(bins, tail * (1 - tail), 8))
        # Few random bits pull the share of ups down a little.
        if (np.abs(seen - expected) > 6 * spread + 0.02 * np.bincount(bins, minlength=8)).any():
            return None
        return _Chance(Cause("stochastic rounding: each result is a neighbour, taken as often as it is near"))


def _rank(changes: Changes, scores: dict[Changes, int]) -> tuple[int, int]:
    return -scores[changes], sum(change.cost for change in changes)


class _Finalist:
    """A hypothesis tried on everything."""

    def __init__(self, changes: Changes) -> None:
        words = "; and ".join(change.words for change in changes)
        self.cause = Cause(words, changes=changes)
        self.agrees = np.zeros(0, np.uint64)

    def add(self, subject: Subject, batch: Batch, wrong: Array, right: Array) -> None:
        """Count a piece."""
        agree = ~differ(subject, batch.got, subject.answer(batch, self.cause.changes))
        self.cause.explained += int(np.count_nonzero(agree & wrong))
        self.cause.contradicted += int(np.count_nonzero(~agree & right))


class _Chance(_Finalist):
    """Stochastic rounding tried on everything."""

    def __init__(self, cause: Cause) -> None:
        super().__init__(())
        self.cause = cause

    def add(self, subject: Subject, batch: Batch, wrong: Array, right: Array) -> None:
        """Count a piece."""
        sides = subject.random(batch)
        assert sides is not None
        agree = ~differ(subject, batch.got, sides[0]) | ~differ(subject, batch.got, sides[1])
        self.cause.explained += int(np.count_nonzero(agree & wrong))


def _on_everything(subject: Subject, finalists: list[_Finalist], chance: _Chance | None) -> None:
    judged: list[_Finalist] = [*finalists, *([chance] if chance is not None else [])]
    for batch in subject.batches():
        wrong = differ(subject, batch.got, subject.answer(batch))
        asked = subject.asked(batch)
        right = ~wrong if asked is None else ~wrong & asked
        wrong = wrong if asked is None else wrong & asked
        for hypothesis in judged:
            hypothesis.add(subject, batch, wrong, right)


def _ranked(finalists: list[_Finalist], mismatches: int) -> list[Cause]:
    """Causes that explain enough, the best first; those that explain the same, under the simplest."""
    causes = sorted((finalist.cause for finalist in finalists), key=lambda cause: (-cause.net, cause.cost))
    kept: list[Cause] = []
    for cause in causes:
        if cause.net < max(1, _LEAST * mismatches):
            continue
        twin = next((k for k in kept if (k.explained, k.contradicted) == (cause.explained, cause.contradicted)), None)
        if twin is not None:
            twin.same.append(cause.words)
        else:
            kept.append(cause)
    return kept
