"""The search for an accumulation that reproduces answers, and for questions that tell such ones apart."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays.convert import decode
from lowprec.spec.accumulation import Accumulation, Window
from lowprec.spec.order import Order
from lowprec.verify.identify.hypotheses import Move, Stage, described, kind_of, known, moves, starts
from lowprec.verify.identify.ports import Ports, Prepared, Rows, joined
from lowprec.verify.identify.probes import CORE
from lowprec.verify.questions.dots.dot_changes import unless_refused

__all__ = ["Answers", "Search"]

Array = npt.NDArray[Any]

#: Rows that a hypothesis is tried on first: some that the best one gets wrong, some that it gets right.
_FIRST = 40

#: Starts of each family that are climbed from, how often, and how many take pairs of moves.
_STARTS, _AGAIN, _PAIRING = 2, 2, 4

#: Neighbours by one parameter that are held against more rows at a time.
_ALIKE = 24

#: Accumulations tried, after which no further start is climbed from.
_MOST = 20_000

#: The distance of an answer that has nothing to do with the result.
_FARTHEST = 12.0

#: One wrong answer in so many may be for what a stage leaves as it is.
_CLOSE = 20

#: Topics to climb on first: what few parameters decide.
_SIMPLE, _MIDDLE = tuple(CORE)[:3], tuple(CORE)[:6]

#: An accumulation is dropped where so many times its distance from a fourth of the answers is not nearer.
_EARLY = 2.5

#: Accumulations kept to climb from again with some parameters changed, how often from one that is not the
#: nearest, and accumulations tried in that.
_KEPT, _ELSEWHERE, _KICKED = 4, 0.5, 40_000

#: Work after which a search ends that found nothing, in products of plain sums: 40 s of a processor. A
#: hypothesis costs as many besides, and a product in a window a share of one.
_WORK, _EACH, _WINDOWED = 1 << 26, 300, 8

#: Moves of which each pair is tried where none helps alone.
_PAIRED = 28


class Answers:
    """Rows that were asked, each with its topic and the code that was answered."""

    def __init__(self, ports: Ports) -> None:
        self.ports = ports
        self.rows: Rows | None = None
        self.codes = np.zeros(0, np.int64)
        self.topics: list[str] = []
        self._seen: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self.topics)

    def new(self, rows: Rows) -> Array:
        """Return which rows were not asked before, once each."""
        fresh: dict[bytes, int] = {}
        for place, key in enumerate(rows.keys()):
            if key not in self._seen:
                fresh.setdefault(key, place)
        return np.array(sorted(fresh.values()), np.int64)

    def add(self, rows: Rows, codes: Array, topics: Sequence[str]) -> None:
        """Keep answers. Raises ValueError: one that contradicts an earlier answer to the same operands."""
        places = []
        for place, (key, code) in enumerate(zip(rows.keys(), codes.tolist(), strict=True)):
            before = self._seen.setdefault(key, code)
            if before != code:
                raise ContradictionError(rows.at(slice(place, place + 1)), before, code)
            places.append(place)
        self.rows = rows if self.rows is None else joined([self.rows, rows])
        self.codes = np.concatenate([self.codes, codes])
        self.topics += topics

    def of(self, names: Iterable[str]) -> Array:
        """Return the places of the answers of these topics."""
        chosen = set(names)
        return np.array([place for place, topic in enumerate(self.topics) if topic in chosen], np.int64)


class ContradictionError(ValueError):
    """Two answers to the same operands."""

    def __init__(self, row: Rows, before: int, after: int) -> None:
        super().__init__(
            f"the unit answered {before:#x} and then {after:#x} for the same operands: it has state, or draws"
        )
        self.row, self.before, self.after = row, before, after


class Search:
    """Hypotheses held against answers."""

    def __init__(self, answers: Answers, rng: np.random.Generator, *, any_nan: bool = False) -> None:
        self.answers, self.rng, self.any_nan = answers, rng, any_nan
        self.ports = answers.ports
        self.tried = self.summed = 0
        self.orders: list[Order] = []  # the only ones that may be, if any are known
        self._ready: list[tuple[Array, int, Prepared]] = []

    @property
    def spent(self) -> bool:
        """True if enough was summed to say that nothing fits."""
        return self.summed > _WORK

    def give_up(self) -> None:
        """Look for what is nearest among the starts only."""
        self.summed = _WORK + 1

    # -- one hypothesis -------------------------------------------------------------------------

    def wrong(self, how: Accumulation, places: Array) -> Array:
        """Return which of these answers an accumulation does not give."""
        return self.far(how, places) > 0

    def far(self, how: Accumulation, places: Array) -> Array:
        """Return how far an accumulation's results are from these answers: 0 where it gives them.

        Else 1 and the logarithm of the codes between, so that a sum in the right order that is rounded
        wrongly is nearer than one in another order.
        """
        products = places.size * self.ports.length
        self.tried += 1
        self.summed += _EACH + products // (_WINDOWED if isinstance(how.accumulator, Window) else 1)
        answers = self.answers.codes[places]
        far = np.full(places.size, _FARTHEST)
        codes = unless_refused(lambda: self._asked(places).codes(how))
        if codes is None:
            return far
        between = np.abs(self._ordered(codes) - self._ordered(answers))
        far = np.asarray(np.minimum(1 + np.log2(np.maximum(between, 1)), _FARTHEST))
        far[~self.differ(codes, answers)] = 0
        return far

    def _ordered(self, codes: Array) -> Array:
        """Return integers in the order of the numbers that codes are; zeros of both signs are neighbours."""
        sign = self.ports.output.sign_code
        return np.asarray(np.where(codes & sign, -1 - (codes & (sign - 1)), codes))

    def _asked(self, places: Array) -> Prepared:
        """Return answered rows made ready; the last few stay so."""
        for kept, size, asked in self._ready:
            if kept is places and size == len(self.answers):
                return asked
        assert self.answers.rows is not None, "something was asked"
        asked = Prepared(self.answers.rows.at(places), self.ports)
        self._ready = [*self._ready[-3:], (places, len(self.answers), asked)]
        return asked

    def differ(self, one: Array, other: Array) -> Array:
        """Return where codes differ; where any NaN will do, NaNs do not."""
        different: Array = one != other
        if self.any_nan and different.any():
            different[different] = ~(self.is_nan(one[different]) & self.is_nan(other[different]))
        return different

    def is_nan(self, codes: Array) -> Array:
        """Return which codes are NaNs of the output."""
        fmt = self.ports.output
        typed = codes.astype(f"u{fmt.code_bits // 8}")
        return np.asarray(np.isnan(decode(typed, fmt, dtype=np.float64)))

    def count(self, how: Accumulation, places: Array) -> int:
        """Return how many of these answers an accumulation does not give."""
        return int(np.count_nonzero(self.wrong(how, places)))

    # -- climbing -------------------------------------------------------------------------------

    def nans(self) -> set[int]:
        """Return the codes of NaN that were answered, without signs."""
        codes = np.unique(self.answers.codes)
        found = codes[self.is_nan(codes)] if codes.size else codes
        low = self.ports.output.sign_code - 1
        return {int(code) & low if self.ports.output.has_signed_nan else int(code) for code in found}

    def first(self, far: Array, places: Array) -> tuple[Array, float]:
        """Return some places to try hypotheses on first, and how far the one of these distances is there."""
        chosen = [np.flatnonzero(far), np.flatnonzero(far == 0)]
        some = np.concatenate([self.rng.permutation(part)[:_FIRST] for part in chosen])
        return places[some], float(far[some].sum())

    def distance(self, how: Accumulation, places: Array) -> float:
        """Return how far an accumulation is from these answers together."""
        return float(self.far(how, places).sum())

    def climb(
        self, how: Accumulation, places: Array, stage: Stage = "all", *, pairs: bool = True
    ) -> tuple[Accumulation, int]:
        """Change an accumulation for the better while that is possible; return it and what it gets wrong."""
        far = self.far(how, places)
        while far.any() and not self.spent:
            better = self._step(how, far, places, stage)
            if better is None and stage == "all":
                better = self._step(how, far, places, "deep")
            if better is None and pairs:
                better = self._pairs(how, far, places, stage)
            if better is None:
                break
            how, far = better
        return how, int(np.count_nonzero(far))

    def _options(self, how: Accumulation, stage: Stage) -> list[list[Move]]:
        """Return the moves of each parameter, in any order: which comes first can lead astray."""
        found = list(moves(how, self.ports, self.nans(), stage, self.orders))
        return [found[place] for place in self.rng.permutation(len(found))]

    def _step(
        self, how: Accumulation, far: Array, places: Array, stage: Stage
    ) -> tuple[Accumulation, Array] | None:
        """Change each parameter in turn to the best of its values."""
        improved = False
        for options in self._options(how, stage):
            first, now = self.first(far, places)
            made = self._nearest(how, options, first, now)
            if made is None:
                continue
            after = self.far(made, places)
            if after.sum() < far.sum():
                how, far, improved = made, after, True
                if not far.any():
                    break
        return (how, far) if improved else None

    def _nearest(
        self, how: Accumulation, options: Sequence[Move], places: Array, now: float
    ) -> Accumulation | None:
        """Return the option that is nearest to these answers, if one is nearer than now."""
        some, rest = places[::4], np.delete(places, np.s_[::4])
        found = None
        for move in options:
            made = move(how)
            if made is None:
                continue
            distance = self.distance(made, some)
            if _EARLY * distance < now and (distance := distance + self.distance(made, rest)) < now:
                found, now = made, distance
        return found

    def _pairs(
        self, how: Accumulation, far: Array, places: Array, stage: Stage
    ) -> tuple[Accumulation, Array] | None:
        """Try the best moves two at a time."""
        first, now = self.first(far, places)
        ranked: list[tuple[float, int, Move]] = []
        for options in self._options(how, stage):
            some = sorted(
                (
                    (self.distance(made, first), n, move)
                    for n, move in enumerate(options)
                    if (made := move(how))
                ),
                key=lambda each: each[:2],
            )
            ranked += some[:5]
        ranked.sort(key=lambda each: each[0])
        best: tuple[float, Accumulation] | None = None
        for (_, _, one), (_, _, other) in itertools.combinations(ranked[:_PAIRED], 2):
            middle = one(how)
            made = None if middle is None or one.field == other.field else other(middle)
            if made is None:
                continue
            distance = self.distance(made, first)
            if distance < (now if best is None else best[0]):
                best = distance, made
        if best is None:
            return None
        after = self.far(best[1], places)
        return (best[1], after) if after.sum() < far.sum() else None

    def best(self, first_of_all: Sequence[Accumulation] = ()) -> tuple[Accumulation, int]:
        """Return the accumulation that reproduces most answers, and how many it does not."""
        everything = np.arange(len(self.answers))
        sample = self.rng.permutation(everything)[: 4 * _FIRST]
        named = [*first_of_all, *known(self.ports)]
        for how in itertools.chain(named, described(self.ports)):
            if not self.wrong(how, sample).any() and not self.wrong(how, everything).any():
                return how, 0
        core, simple = self.answers.of(CORE), self.answers.of(_SIMPLE)
        if not simple.size:
            core = simple = everything
        sample = self.rng.permutation(core)[: 4 * _FIRST]
        ranked: dict[str, list[tuple[int, int, Accumulation]]] = {}
        for number, how in enumerate(
            itertools.chain(named, starts(self.ports, self.precision(), self.orders))
        ):
            ranked.setdefault(kind_of(how), []).append((self.count(how, sample), number, how))
        tried = sorted(
            (place, count, number, how)
            for some in ranked.values()
            for place, (count, number, how) in enumerate(sorted(some)[:_STARTS])
        )
        found: list[tuple[float, int, Accumulation]] = []
        for again in range(_AGAIN):
            for place, (*_, how) in enumerate(tried):
                if found and (self.tried > _MOST or self.spent):
                    break
                how, left = self.climb(how, simple, "simple", pairs=False)
                if left <= len(simple) // _CLOSE or again:
                    how, left = self.climb(how, self.answers.of(_MIDDLE), "simple", pairs=False)
                    if left <= len(simple) // 4 or again:
                        how, left = self.climb(how, core, "core", pairs=place < _PAIRING and again > 0)
                        if left <= len(core) // 8:
                            how, left = self.climb(how, everything)
                            if not left:
                                return how, 0
                found.append((self.distance(how, everything), len(found), how))
            if min(found)[0] > len(everything):
                break
        return self._kicked([how for *_, how in sorted(found)[:_KEPT]], everything)

    def _kicked(self, nearest: list[Accumulation], places: Array) -> tuple[Accumulation, int]:
        """Climb from the nearest; where that ends, change parameters at random and climb again."""
        how, left = self.climb(nearest[0], places)
        ranked = [
            (self.distance(each, places), number, each) for number, each in enumerate((how, *nearest[1:]))
        ]
        until = self.tried + _KICKED
        while left and self.tried < until and not self.spent:
            base = ranked[int(self.rng.integers(len(ranked))) if self.rng.random() < _ELSEWHERE else 0][2]
            for _ in range(int(self.rng.integers(2, 4))):
                options = next(
                    filter(None, self._options(base, "all"))
                )  # some parameters have no other value
                base = options[int(self.rng.integers(len(options)))](base) or base
            how, left = self.climb(base, places, "core", pairs=False)
            how, left = self.climb(how, places, pairs=False)
            if not left:
                return how, 0
            ranked.append((self.distance(how, places), self.tried, how))
            ranked = sorted(ranked, key=lambda each: each[:2])[:_KEPT]
        how = ranked[0][2]
        return how, self.count(how, places)

    def precision(self) -> int:
        """Return the most trailing bits that normal results have, by the lowest bits of their codes."""
        fmt = self.ports.output
        codes = self.answers.codes & ((1 << (fmt.exponent_bits + fmt.trailing_bits)) - 1)
        codes = codes[(codes >> fmt.trailing_bits > 0) & (codes <= fmt.max_magnitude)]
        low = np.bitwise_and(codes, -codes)
        for bits in range(fmt.trailing_bits):  # rare ones come of what has one more rounding
            if np.count_nonzero(low == 1 << bits) > codes.size // 64:
                return fmt.trailing_bits - bits
        return 1

    # -- telling apart --------------------------------------------------------------------------

    def rivals(self, how: Accumulation) -> Iterator[tuple[Move, Accumulation]]:
        """Yield the neighbours that reproduce every answer too; of those of one parameter so many at most."""
        everything = np.arange(len(self.answers))
        first = self.rng.permutation(everything)[: 3 * _FIRST]
        for options in moves(how, self.ports, self.nans(), "near", self.orders):
            found = []
            for number in self.rng.permutation(len(options)):
                made = options[number](how)
                if made is None or self.wrong(made, first).any() or self.wrong(made, everything).any():
                    continue
                found.append((int(number), made))
                if len(found) == _ALIKE:
                    break
            yield from ((options[number], made) for number, made in sorted(found, key=lambda each: each[0]))
