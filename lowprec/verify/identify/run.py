"""An identification under way: what is requested of the unit, and when the identification ends."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.spec.accumulation import Accumulation, Window
from lowprec.spec.accumulations import ACCUMULATIONS, accumulation
from lowprec.spec.order import Tree
from lowprec.spec.projection import Projection
from lowprec.verify.identify import naming, sum_order, units
from lowprec.verify.identify.hypotheses import Move, described, known
from lowprec.verify.identify.ports import Ports, Prepared, Rows, joined
from lowprec.verify.identify.probes import CORE, FIRST, TOPICS, draw
from lowprec.verify.identify.report import Identification, Undecided
from lowprec.verify.identify.search import Answers, ContradictionError, Search
from lowprec.verify.identify.units import Ask, UnitError

__all__ = ["Run", "Watch"]

Array = npt.NDArray[Any]

#: Rows of each topic that are asked first, and in each round after; of a pool to tell hypotheses apart.
_BEGIN, _MORE, _POOL = 24, 24, 80

#: Rounds without news after which a search ends; tries of one where nothing fits; rows asked twice.
_QUIET, _TRIES, _TWICE = 2, 2, 16

#: Pools in which rows are looked for that tell what was found from the catalog.
_POOLS = 4

#: Rivals of several parameters that are drawn from those of one.
_DRIFTS = 60

#: Differences that a pair of hypotheses is asked about in one round.
_EACH = 3


class BudgetError(Exception):
    """No dot products are left to ask."""


Watch = Callable[[int, int | None, str], None]


class Run:
    """An identification under way."""

    def __init__(
        self,
        ask: Ask | None,
        ports: Ports,
        *,
        budget: int,
        seed: int,
        watch: Watch | None,
        any_nan: bool,
    ) -> None:
        self.ask, self.ports, self.budget, self.watch = ask, ports, budget, watch
        self.rng = np.random.default_rng([seed, 24])
        self.answers = Answers(ports)
        self.search = Search(self.answers, self.rng, any_nan=any_nan)
        self.asked, self.unknown = 0, False
        self.stopped = ""
        self.tree: Tree | None = None  # as masks show it
        self.named: list[str] = []  # what no accumulation says
        self.how: Accumulation | None = None
        self.left = 0
        self.rivals: list[tuple[Move | None, Accumulation]] = []
        self.drifts: list[Accumulation] = []
        self.open: dict[int, Rows] = {}
        self.checked = 0  # answers that all rivals are known to reproduce
        self.last: tuple[Rows, list[str]] | None = None  # rows that say what is undecided

    # -- questions ------------------------------------------------------------------------------

    def take(self, rows: Identification | Iterable[str]) -> None:
        """Take answers that are known."""
        if isinstance(rows, Identification):
            if rows.answers.ports != self.ports:
                raise ValueError("rows= are of a unit with other formats or another k")
            if rows.answers.rows is not None:
                self.answers.add(rows.answers.rows, rows.answers.codes, rows.answers.topics)
            self.search.any_nan |= rows.any_nan
            return
        given, codes = units.parsed(rows, self.ports, "row")
        keys: dict[bytes, tuple[int, int]] = {}
        for place, (key, code) in enumerate(zip(given.keys(), codes.tolist(), strict=True), 1):
            first, before = keys.setdefault(key, (place, code))
            if self.search.differ(np.array([before]), np.array([code])).any():
                raise UnitError(
                    f"rows {first} and {place} have the same operands but the results {before:#x} and "
                    f"{code:#x}: such a unit is not deterministic, or has state; no accumulation gives both"
                )
        if len(codes):
            fresh = self.answers.new(given)
            self.answers.add(given.at(fresh), codes[fresh], ["recorded"] * len(fresh))

    def put(self, rows: Rows, topics: list[str]) -> bool:
        """Ask what was not asked before, within the budget; return whether there was anything to ask."""
        fresh = self.answers.new(rows)[: max(0, self.budget - self.asked)]
        if self.ask is None or not fresh.size:
            return False
        chosen = rows.at(fresh)
        codes, any_nan = self.ask(chosen)
        self.search.any_nan |= any_nan
        self.asked += len(fresh)
        self.answers.add(chosen, codes, [topics[place] for place in fresh])
        self.tell("asking")
        return True

    def tell(self, what: str) -> None:
        """Tell the watch what is under way."""
        if self.watch is not None:
            self.watch(self.asked, self.budget, what)

    def put_topics(self, names: Iterable[str], count: int) -> bool:
        """Ask so many rows of each topic, all in one batch."""
        chosen = list(names)
        levels = self.levels()
        rows = joined([draw(self.ports, name, count, self.rng, levels) for name in chosen])
        return self.put(rows, [name for name in chosen for _ in range(count)])

    def begin(self) -> None:
        """Ask the first rows, and some of them twice: a unit must answer alike."""
        self.put_topics(FIRST, _BEGIN)
        if self.ask is None or self.answers.rows is None or self.budget - self.asked < _TWICE:
            return
        places = self.rng.permutation(len(self.answers))[:_TWICE]
        again, _ = self.ask(self.answers.rows.at(places))
        self.asked += len(places)
        different = self.search.differ(again, self.answers.codes[places])
        if different.any():
            place = int(np.argmax(different))
            row = self.answers.rows.at(places[place : place + 1])
            raise ContradictionError(row, int(self.answers.codes[places[place]]), int(again[place]))

    # -- rounds ---------------------------------------------------------------------------------

    def go_on(self) -> None:
        """Search, and ask where what is left differs, until nothing new is learned."""
        quiet = tries = 0
        self.look_at_order()
        # Where nothing cancels, masks show no order, and sums in any order are often the same.
        if self.ports.cancels:
            self.name()
        self.tell("searching")
        self.how, self.left = self.search.best()
        while quiet < _QUIET:
            if self.left:
                tries += 1
                if self.named or self.search.spent or tries == _TRIES or not self.put_topics(CORE, _BEGIN):
                    break
                self.how, self.left = self.search.best([self.how])
                continue
            pool = self.pool()
            chosen = self.differing(pool)
            self.put(*chosen)
            asked = self.put_topics(TOPICS, _MORE)
            everything = np.arange(len(self.answers))
            self.left = self.search.count(self.how, everything)
            if self.left:
                self.rivals, quiet = [], 0
                self.tell("searching")
                self.how, self.left = self.search.climb(self.how, everything)
                if self.left:
                    self.how, self.left = self.search.best([self.how])
                continue
            quiet = 0 if len(chosen[1]) and asked else quiet + 1
            if not asked:
                break
            if quiet == _QUIET and (self.against_the_catalog() or self.decide()):
                quiet = 0
        if self.left and not self.ports.cancels:
            self.name()
        if not self.left:
            self.named = []

    def against_the_catalog(self) -> bool:
        """Ask rows on which others of the catalog that fit differ from what was found; return whether any do.

        Of several pools: such a row may be one in thousands. What fits the new answers is then taken.
        """
        assert self.how is not None, "something was found"
        named = [how for move, how in self.rivals if move is None]
        pools = [self.pool() for _ in range(_POOLS if named else 0)]
        learned = False
        for rows, topics in pools:
            ready = Prepared(rows, self.ports)
            ours = ready.codes(self.how)
            apart = [np.flatnonzero(self.search.differ(ready.codes(how), ours))[:_EACH] for how in named]
            places = np.unique(np.concatenate(apart))
            learned |= bool(places.size) and self.put(rows.at(places), [topics[place] for place in places])
        everything = np.arange(len(self.answers))
        if learned and self.search.wrong(self.how, everything).any():
            fitting = [how for how in named if not self.search.wrong(how, everything).any()]
            self.how, self.left = self.search.best([*fitting, self.how])
            self.rivals = []
        return learned

    def decide(self) -> bool:
        """Ask what more rows show to be undecided; return whether anything was.

        Where nothing was, the result is told by these rows: it names no question that could have been asked.
        """
        self.last = self.pool()
        chosen = self.differing(self.last)
        if not chosen[1] and self.simplify(self.last[0]):
            chosen = self.differing(self.last)
        return self.put(*chosen)

    def levels(self) -> list[int]:
        """Return the exponents at which what was found begins and ends."""
        how = self.how
        if how is None:
            return []
        sums = how.accumulator.result if isinstance(how.accumulator, Window) else how.accumulator
        formats = {into[0] for into in (how.product, sums, how.total, how.output) if into is not None}
        found = [level for fmt in formats for level in (fmt.emin, fmt.emin - fmt.trailing_bits, fmt.emax)]
        if isinstance(how.accumulator, Window):
            found.append(how.accumulator.lowest_exponent)
        low = sum(fmt.emin - fmt.trailing_bits for fmt in self.ports.operands) - 2
        high = sum(fmt.emax for fmt in self.ports.operands) + 2
        return sorted(level for level in found if low <= level <= high)

    def settle(self) -> None:
        """Find what fits the answers that there are, as no more will come."""
        everything = np.arange(len(self.answers))
        if self.how is None:
            self.how, self.left = self.search.best()
        elif self.search.wrong(self.how, everything).any():
            self.rivals = []
            self.how, self.left = self.search.climb(self.how, everything)

    def pool(self) -> tuple[Rows, list[str]]:
        """Return rows of all topics that were not asked."""
        levels = self.levels()
        drawn = [draw(self.ports, name, _POOL, self.rng, levels) for name in TOPICS]
        rows, topics = joined(drawn), [name for name in TOPICS for _ in range(_POOL)]
        fresh = self.answers.new(rows)
        return rows.at(fresh), [topics[place] for place in fresh]

    def drifted(self, places: Array) -> list[Accumulation]:
        """Return accumulations that differ in several parameters at once and reproduce all answers."""
        moves = [move for move, _ in self.rivals if move is not None]
        found = []
        for _ in range(_DRIFTS if moves else 0):
            how = self.how
            for place in self.rng.permutation(len(moves))[: int(self.rng.integers(2, 6))]:
                assert how is not None, "something was found"
                made = moves[place](how)
                if made is not None and not self.search.wrong(made, places).any():
                    how = made
            if how is not None and how != self.how:
                found.append(how)
        return found

    def differing(self, pool: tuple[Rows, list[str]]) -> tuple[Rows, list[str]]:
        """Return rows of a pool on which those that reproduce all answers differ."""
        assert self.how is not None, "something was found"
        everything = np.arange(len(self.answers))
        new = everything[self.checked :]
        if not self.rivals or (new.size and any(self.search.wrong(how, new).any() for _, how in self.rivals)):
            self.rivals = list(self.search.rivals(self.how))
            self.rivals += [
                (None, how)
                for how in known(self.ports)
                if how != self.how and not self.search.wrong(how, everything).any()
            ]
            self.drifts = self.drifted(everything)
        self.checked = len(self.answers)
        rows, topics = pool
        ready = Prepared(rows, self.ports)
        ours = ready.codes(self.how)
        chosen = np.zeros(len(topics), bool)
        self.open = {}
        for number, (_, rival) in enumerate(self.rivals):
            differ = self.search.differ(ready.codes(rival), ours)
            if differ.any():
                self.open[number] = rows.at(np.flatnonzero(differ)[:1])
            if np.count_nonzero(differ & chosen) < _EACH:
                chosen[self.rng.permutation(np.flatnonzero(differ))[:_EACH]] = True
        for rival in self.drifts:
            differ = self.search.differ(ready.codes(rival), ours)
            if not (differ & chosen).any():
                chosen[self.rng.permutation(np.flatnonzero(differ))[:1]] = True
        places = np.flatnonzero(chosen)
        return rows.at(places), [topics[place] for place in places]

    # -- the result -----------------------------------------------------------------------------

    def result(self) -> Identification:
        """Return what was found."""
        self.name_place()
        assert self.how is not None, "something was found"
        undecided: list[Undecided] = []
        names: tuple[str, ...] = ()
        missed: Counter[str] = Counter()
        everything = np.arange(len(self.answers))
        if not self.left:
            pool = self.last or self.pool()
            self.differing(pool)
            if self.simplify(pool[0]):
                self.differing(pool)
            alike = [self.how] + [rival for n, (_, rival) in enumerate(self.rivals) if n not in self.open]
            names = tuple(name for name, each in ACCUMULATIONS.items() if each in alike)
            undecided = self.undecided()
        else:
            wrong = self.search.wrong(self.how, everything)
            missed.update(topic for topic, miss in zip(self.answers.topics, wrong, strict=True) if miss)
        return Identification(
            _unnamed(self.how), self.left, names, undecided, self.asked, self.answers, self.search.any_nan,
            self.stopped, "" if self.tree is None else sum_order.said(self.tree), dict(missed),
            tuple(self.named), self.smallest() if self.left else "",
        )  # fmt: skip

    def look_at_order(self) -> None:
        """Find the order of the sum by masks, unless the catalog has what gives all answers."""
        everything = np.arange(len(self.answers))
        alike = itertools.chain(known(self.ports), described(self.ports))
        if self.ask is None or any(not self.search.wrong(how, everything).any() for how in alike):
            return

        self.unknown = True
        self.tell("looking at the order")
        with contextlib.suppress(BudgetError):
            self.tree = sum_order.reveal(self.once, self.ports, self.rng)
            self.search.orders = sum_order.orders_of(self.tree)

    def once(self, rows: Rows) -> Array:
        """Return answers that are not kept, within the budget."""
        if self.ask is None or self.asked + len(rows.x) > self.budget:
            raise BudgetError
        codes, _ = self.ask(rows)
        self.asked += len(rows.x)
        return codes

    def name(self) -> None:
        """Name sums that no accumulation says: by models, and a second time with new rows."""
        if not self.unknown:
            return
        for _ in range(2):
            assert self.answers.rows is not None, "something was asked"
            self.named = list(naming.models(self.answers.rows, self.answers.codes, self.ports))
            if not self.named or not self.put_topics(FIRST, _BEGIN):
                break
        if self.named:
            self.search.give_up()

    def smallest(self) -> str:
        """Return the row with the fewest products that the nearest accumulation misses, in words."""
        rows = self.answers.rows
        assert self.how is not None, "something was found"
        assert rows is not None, "something was asked"
        wrong = np.flatnonzero(self.search.wrong(self.how, np.arange(len(self.answers))))
        place = wrong[np.argmin(np.count_nonzero(rows.x[wrong] * rows.y[wrong], axis=1))]
        row = rows.at(slice(place, place + 1))
        lanes = np.flatnonzero((row.x[0] * row.y[0] != 0) | ~np.isfinite(row.x[0] * row.y[0]))
        terms = [f"[{lane}] {row.x[0, lane]:g} * {row.y[0, lane]:g}" for lane in lanes[:8].tolist()]
        terms += ["..."] * (lanes.size > 8)
        terms += [f"addend {row.addend[0]:g}"] if self.ports.addend is not None else []
        made = int(Prepared(row, self.ports).codes(self.how)[0])
        answer = int(self.answers.codes[place])
        said = ", ".join(terms) or "zeros"
        return f"{said}: the unit answers {answer:#x}, the nearest accumulation gives {made:#x}"

    def name_place(self) -> None:
        """Name results that depend on the lane of a product, where nothing else was found."""
        if self.left and not self.named and not self.stopped:
            with contextlib.suppress(BudgetError):
                self.named = [said for said in [naming.by_lane(self.once, self.ports, self.rng)] if said]

    def name_random(self, row: Rows) -> None:
        """Name a unit that answers one row in several ways."""
        with contextlib.suppress(BudgetError, UnitError):
            self.named.append(naming.drawn(self.once, row, self.ports))
            if said := naming.random_bits(self.once, self.ports):
                self.named.append(said)

    def simplify(self, rows: Rows) -> bool:
        """Take the catalog's accumulation if it is one, else the fewest parameters that matter.

        Returns whether that is another one.
        """
        assert self.how is not None, "something was found"
        alike = [(move, how) for n, (move, how) in enumerate(self.rivals) if n not in self.open]
        for how in known(self.ports):
            if how == self.how:
                self.how = how  # with its name
                return False
            if any(how == rival for _, rival in alike):
                self.how, self.rivals = how, []
                return True
        everything, ready = np.arange(len(self.answers)), Prepared(rows, self.ports)
        ours, changed = ready.codes(self.how), False
        for move, _ in alike:
            made = None if move is None else move(self.how)
            if made is None or _cost(made) >= _cost(self.how) or self.search.wrong(made, everything).any():
                continue
            if not self.search.differ(ready.codes(made), ours).any():
                self.how, self.rivals, changed = made, [], True
        return changed

    def undecided(self) -> list[Undecided]:
        """Return the parameters of which other values reproduce every answer too.

        First those that a question of this K decides, then those that one of twice the K does.
        """
        assert self.how is not None, "something was found"
        longer = self.ports
        if self.how.order.length is None:
            longer = dataclasses.replace(self.ports, length=min(2 * self.ports.length, 4096))
        wide = Prepared(
            joined([draw(longer, name, _MORE, self.rng, self.levels()) for name in TOPICS]), longer
        )
        ours = wide.codes(self.how)
        found: dict[tuple[int, str], list[str]] = {}
        questions: dict[tuple[int, str], Rows] = {}
        for number, (move, rival) in enumerate(self.rivals):
            field, value = ("catalog", rival.name) if move is None else (move.field, move.value)
            differ = np.zeros(ours.size, bool)
            if rival.order.length in (None, longer.length):
                differ = self.search.differ(wide.codes(rival), ours)
            rank = 0 if number in self.open else 1 if differ.any() else 2
            if field == "roundings" or (move is None and rank == 2):  # told by other fields, and by names
                continue
            found.setdefault((rank, field), []).append(value)
            if rank == 0:
                questions.setdefault((rank, field), self.open[number])
            elif rank == 1:
                questions.setdefault((rank, field), wide.rows.at(np.flatnonzero(differ)[:1]))
        return [
            Undecided(field, tuple(values), longer if rank == 1 else self.ports, questions.get((rank, field)))
            for (rank, field), values in sorted(found.items(), key=lambda each: each[0][0])
        ]


def _unnamed(how: Accumulation) -> Accumulation:
    """Return an accumulation without the name of another that it was changed from."""
    if how.name and how != accumulation(how.name):
        return dataclasses.replace(how, name="", source="")
    return how


def _cost(part: Any) -> int:
    """Return how many parameters are not their defaults."""
    count = 0
    for field in dataclasses.fields(part):
        value = getattr(part, field.name)
        if isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], Projection):
            value = value[1]
        if isinstance(value, (Window, Projection)):
            count += 1 + _cost(value)
        elif field.name not in ("name", "source", "operands") and value != field.default:
            count += 1
    return count
