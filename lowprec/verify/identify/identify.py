"""Identification: questions to a unit, until one accumulation is left that reproduces every answer."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.spec import catalog
from lowprec.spec.accumulation import Accumulation, Window
from lowprec.spec.accumulations import ACCUMULATIONS
from lowprec.spec.format import Format
from lowprec.spec.projection import Projection
from lowprec.verify.identify import tree, units
from lowprec.verify.identify.hypotheses import known
from lowprec.verify.identify.ports import Asked, Ports, Rows, joined
from lowprec.verify.identify.probes import CORE, TOPICS, draw
from lowprec.verify.identify.report import Identification, Undecided
from lowprec.verify.identify.search import Answers, ContradictionError, Search
from lowprec.verify.identify.units import Ask, UnitError

__all__ = ["identify"]

Array = npt.NDArray[Any]

#: Rows of each topic that are asked first, and in each round after; of a pool to tell hypotheses apart.
_BEGIN, _MORE, _POOL = 24, 8, 40

#: Rounds without news after which a search ends; tries of one where nothing fits; rows asked twice.
_QUIET, _TRIES, _TWICE = 2, 3, 16

#: Differences that a pair of hypotheses is asked about in one round.
_EACH = 3

Watch = Callable[[int, int | None, str], None]


def identify(
    unit: Callable[..., Any] | None,
    formats: Sequence[Format | str],
    output: Format | str,
    *,
    k: int = 32,
    addend: Format | str | None = "output",
    scale: tuple[Format | str, int] | None = None,
    codes: bool = False,
    rows: Identification | Iterable[str] = (),
    budget: int = 10_000,
    time_limit: float = 60.0,
    seed: int = 0,
    watch: Watch | None = None,
) -> Identification:
    """Ask a unit for dot products until its accumulation is known.

    >>> import lowprec as lp
    >>> def unit(a, b, c):
    ...     return lp.dot(a, b, "hopper_wgmma_e4m3fn_binary32", addend=c)
    >>> found = identify(unit, ("e4m3fn", "e4m3fn"), "binary32", k=64)
    >>> found.names, found.wrong, found.accumulation.accumulator.fraction_bits
    (('hopper_wgmma_e4m3fn_binary32',), 0, 13)

    Parameters
    ----------
    unit : callable or None
        Takes arrays a and b of shape (rows, K), and returns results of shape (rows,): values of the
        output's format, or its codes as integers. With an addend it takes c, shape (rows,), too, and with
        scales those of a and of b, shape (rows, blocks). None: nothing is asked, rows are all there is.
    formats : pair of Format or str
        Of a and b.
    output : Format or str
    k : int
        Products in a dot product, 1 to 4096. Steps and chunks that are longer than half of it are seen in
        part only.
    addend : Format, str or None
        The format of c, by default that of the output; None for a unit without one.
    scale : (Format or str, int), optional
        Of operands in blocks: the format of scales, and how many elements share one.
    codes : bool
        Whether the unit takes codes as integers instead of values as float32 or float64.
    rows : Identification or iterable of str
        Answers that are known: of an earlier identification, or lines as `units.lines_of` has them.
    budget : int
        Dot products to ask at most.
    time_limit : float
        Seconds that one call of the unit may take.
    seed : int
        Of the operands that are drawn.
    watch : callable, optional
        Told (asked, budget, what is under way).

    Raises
    ------
    ValueError
        Formats and lengths that cannot be; a unit that fails before it answered anything; rows that
        contradict each other.

    Notes
    -----
    A unit that raises, hangs, or answers other shapes or types ends the search: `stopped` says why, and
    what was answered before is in the result, from which `rows=` goes on.

    Source
    ------
    docs/identify.md.
    """
    made = ports_of(formats, output, k, addend, scale)
    ask = None if unit is None else units.function(unit, made, time_limit, codes=codes)
    return asked(ask, made, rows=rows, budget=budget, seed=seed, watch=watch)


def ports_of(
    formats: Sequence[Format | str],
    output: Format | str,
    k: int,
    addend: Format | str | None,
    scale: tuple[Format | str, int] | None,
) -> Ports:
    """Return the ports of a unit. Raises ValueError: what cannot be."""
    if isinstance(formats, str) or len(formats) != 2:
        raise ValueError(f"formats={formats!r} must be two: of a and of b")
    target = catalog.format(output)
    third = None if addend is None else target if addend == "output" else catalog.format(addend)
    scaled = None if scale is None else (catalog.format(scale[0]), scale[1])
    return Ports((catalog.format(formats[0]), catalog.format(formats[1])), target, k, third, scaled)


def asked(
    ask: Ask | None,
    ports: Ports,
    *,
    rows: Identification | Iterable[str] = (),
    budget: int = 10_000,
    seed: int = 0,
    watch: Watch | None = None,
) -> Identification:
    """Ask until the accumulation is known; see `identify`."""
    run = _Run(ask, ports, budget, seed, watch)
    run.take(rows)
    if ask is None and not len(run.answers):
        raise ValueError("there is nothing to identify: give a unit, or rows that were recorded")
    try:
        run.begin()
        run.go_on()
    except (UnitError, ContradictionError) as error:
        if not len(run.answers):
            raise
        run.stopped = str(error)
        if run.how is None:
            run.how, run.left = run.search.best()
    return run.result()


class _Run:
    """One identification under way."""

    def __init__(self, ask: Ask | None, ports: Ports, budget: int, seed: int, watch: Watch | None) -> None:
        self.ask, self.ports, self.budget, self.watch = ask, ports, budget, watch
        self.rng = np.random.default_rng([seed, 24])
        self.answers = Answers(ports)
        self.search = Search(self.answers, self.rng)
        self.asked = 0
        self.stopped = ""
        self.how: Accumulation | None = None
        self.left = 0
        self.rivals: list[tuple[Any, Accumulation]] = []
        self.open: dict[int, Rows] = {}

    # -- questions ------------------------------------------------------------------------------

    def take(self, rows: Identification | Iterable[str]) -> None:
        """Take answers that are known."""
        if isinstance(rows, Identification):
            if rows.answers.ports != self.ports:
                raise ValueError("rows= are of a unit with other formats or another k")
            if rows.answers.rows is not None:
                self.answers.add(rows.answers.rows, rows.answers.codes, rows.answers.topics)
            self.search.any_nan = rows.any_nan
            return
        given, codes = units.parsed(rows, self.ports, "row")
        keys: dict[bytes, tuple[int, int]] = {}
        for place, (key, code) in enumerate(zip(given.keys(), codes.tolist(), strict=True), 1):
            first, before = keys.setdefault(key, (place, code))
            if before != code:
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
        if self.watch is not None:
            self.watch(self.asked, self.budget, what)

    def put_topics(self, names: Iterable[str], count: int) -> bool:
        """Ask so many rows of each topic, all in one batch."""
        chosen = list(names)
        rows = joined([draw(self.ports, name, count, self.rng) for name in chosen])
        return self.put(rows, [name for name in chosen for _ in range(count)])

    def begin(self) -> None:
        """Ask the first rows, and some of them twice: a unit must answer alike."""
        self.put_topics(TOPICS, _BEGIN)
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
        self.tell("searching")
        self.how, self.left = self.search.best()
        while quiet < _QUIET:
            if self.left:
                tries += 1
                if tries == _TRIES or not self.put_topics(CORE, _BEGIN):
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

    def pool(self) -> tuple[Rows, list[str]]:
        """Return rows of all topics that were not asked."""
        drawn = [draw(self.ports, name, _POOL, self.rng) for name in TOPICS]
        rows, topics = joined(drawn), [name for name in TOPICS for _ in range(_POOL)]
        fresh = self.answers.new(rows)
        return rows.at(fresh), [topics[place] for place in fresh]

    def differing(self, pool: tuple[Rows, list[str]]) -> tuple[Rows, list[str]]:
        """Return rows of a pool on which those that reproduce all answers differ."""
        assert self.how is not None, "something was found"
        everything = np.arange(len(self.answers))
        if self.rivals:
            self.rivals = [each for each in self.rivals if not self.search.wrong(each[1], everything).any()]
        else:
            self.rivals = list(self.search.rivals(self.how))
            self.rivals += [
                (None, how)
                for how in known(self.ports)
                if how != self.how and not self.search.wrong(how, everything).any()
            ]
        rows, topics = pool
        ready = Asked(rows, self.ports)
        ours = ready.codes(self.how)
        chosen = np.zeros(len(topics), bool)
        self.open = {}
        for number, (_, rival) in enumerate(self.rivals):
            differ = self.search.differ(ready.codes(rival), ours)
            if differ.any():
                self.open[number] = rows.at(np.flatnonzero(differ)[:1])
            if np.count_nonzero(differ & chosen) < _EACH:
                chosen[self.rng.permutation(np.flatnonzero(differ))[:_EACH]] = True
        places = np.flatnonzero(chosen)
        return rows.at(places), [topics[place] for place in places]

    # -- the result -----------------------------------------------------------------------------

    def result(self) -> Identification:
        """Return what was found."""
        assert self.how is not None, "something was found"
        undecided: list[Undecided] = []
        names: tuple[str, ...] = ()
        missed: Counter[str] = Counter()
        everything = np.arange(len(self.answers))
        if not self.left:
            pool = self.pool()
            self.differing(pool)
            self.simplify(pool[0])
            self.differing(pool)
            alike = [self.how] + [rival for n, (_, rival) in enumerate(self.rivals) if n not in self.open]
            names = tuple(name for name, each in ACCUMULATIONS.items() if each in alike)
            undecided = self.undecided()
        else:
            wrong = self.search.wrong(self.how, everything)
            missed.update(topic for topic, miss in zip(self.answers.topics, wrong, strict=True) if miss)
        order = self.order() if self.left and not self.stopped else ""
        return Identification(
            self.how, self.left, names, undecided, self.asked, self.answers, self.search.any_nan, self.stopped,
            order if self.left else "", dict(missed),
        )  # fmt: skip

    def order(self) -> str:
        """Return the order of the sum that masks show, and what it reproduces, in words."""
        if self.ask is None:
            return ""

        def ask(rows: Rows) -> Array:
            if self.asked + len(rows.x) > self.budget:
                raise UnitError("the budget is spent")
            assert self.ask is not None, "looked at before"
            codes, _ = self.ask(rows)
            self.asked += len(rows.x)
            return codes

        try:
            found = tree.reveal(ask, self.ports)
        except UnitError:
            return ""
        if found is None or self.answers.rows is None:
            return ""
        said = []
        for fused, words in ((False, "rounded products"), (True, "fused products")):
            codes = tree.evaluate(found, self.answers.rows, self.ports, fused=fused)
            count = int(np.count_nonzero(~self.search.differ(codes, self.answers.codes)))
            said.append((count, words))
        count, words = max(said)
        return (
            f"{tree.spelled(found)}; with {words} and sums in {self.ports.output.name} that order gives "
            f"{count:,} of the {len(self.answers):,} answers"
        )

    def simplify(self, rows: Rows) -> None:
        """Take the catalog's accumulation if it is one, else the fewest parameters that matter."""
        assert self.how is not None, "something was found"
        alike = [(move, how) for n, (move, how) in enumerate(self.rivals) if n not in self.open]
        for how in known(self.ports):
            if how == self.how or any(how == rival for _, rival in alike):
                self.how, self.rivals = how, []
                return
        everything, ready = np.arange(len(self.answers)), Asked(rows, self.ports)
        ours = ready.codes(self.how)
        for move, _ in alike:
            made = None if move is None else move(self.how)
            if made is None or _cost(made) >= _cost(self.how) or self.search.wrong(made, everything).any():
                continue
            if not self.search.differ(ready.codes(made), ours).any():
                self.how, self.rivals = made, []

    def undecided(self) -> list[Undecided]:
        """Return the parameters of which other values reproduce every answer too."""
        assert self.how is not None, "something was found"
        by_field: dict[str, list[int]] = {}
        for number, (move, _) in enumerate(self.rivals):
            if move is not None:
                by_field.setdefault(move.field, []).append(number)
        found = []
        longer = dataclasses.replace(self.ports, length=min(2 * self.ports.length, 4096))
        wide = Asked(joined([draw(longer, name, _MORE, self.rng) for name in TOPICS]), longer)
        ours = wide.codes(self.how)
        for field, numbers in by_field.items():
            parts: dict[str, list[int]] = {"here": [], "longer": [], "nowhere": []}
            questions: dict[str, Rows] = {}
            for number in numbers:
                differ = self.search.differ(wide.codes(self.rivals[number][1]), ours)
                where = "here" if number in self.open else "longer" if differ.any() else "nowhere"
                parts[where].append(number)
                if where == "here":
                    questions.setdefault(where, self.open[number])
                elif where == "longer":
                    questions.setdefault(where, wide.rows.at(np.flatnonzero(differ)[:1]))
            for where, some in parts.items():
                values = tuple(self.rivals[number][0].value for number in some)
                ports = longer if where == "longer" else self.ports
                if values:
                    found.append(Undecided(field, values, ports, questions.get(where)))
        return found


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
