"""Reports of comparisons, for people and for machines."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from lowprec import __version__
from lowprec.kernels.modes import usual_modes
from lowprec.verify.compare.cause import MANY, Cause, Diagnosis
from lowprec.verify.compare.counts import Tally, binned, by_binade
from lowprec.verify.compare.failures import Failures
from lowprec.verify.difference import Difference
from lowprec.verify.questions.question import Budget

__all__ = ["SCHEMA", "Comparison", "Farthest", "Ranked", "Spent"]

SCHEMA = "lowprec.compare/3"

#: Rows of a table that are shown.
_ROWS = 12


@dataclass(frozen=True)
class Ranked:
    """A format, or an accumulation, and the share of the results that it gives."""

    name: str
    share: float
    of: int  #: results looked at


@dataclass(frozen=True)
class Farthest:
    """The result that lies farthest from the right one, of those that are finite numbers."""

    distance: int  #: codes above what is right
    index: int
    within: bool  #: whether the budget allows it


@dataclass
class Spent:
    """Results that differ within a budget of codes, and the one that lies farthest."""

    within: int = 0  #: results that differ, as far as the budget allows
    widest: int | None = None  #: the greatest distance that the budget allows to a result that differs
    farthest: Farthest | None = None  #: the first of those that lie as far

    def join(self, other: Spent) -> None:
        """Add what results behind these spend."""
        self.within += other.within
        self.widest = max((each.widest for each in (self, other) if each.widest is not None), default=None)
        both = [each.farthest for each in (self, other) if each.farthest is not None]
        self.farthest = max(both, key=lambda one: abs(one.distance), default=None)


@dataclass
class Comparison:
    """Report of `lowprec.compare`.

    >>> import numpy as np, lowprec as lp
    >>> x = np.linspace(0.0, 2.0, 1001, dtype=np.float32)
    >>> report = lp.compare(x, lp.encode(x, "e4m3fn", rounding="toward_zero"), "e4m3fn")
    >>> report.mismatches, report.agrees, report.cause.words
    (487, False, 'truncation: rounded toward zero (toward_zero instead of nearest_even)')

    Attributes
    ----------
    question : str
        The computation in question, in words.
    compared, mismatches, left_out, unanswered : int
        Results. Where there is a budget, mismatches are those outside of it. Left out are those of NaN
        operands where the format has no NaN; without an answer are lines of text that end before it.
    unknown : int
        Mismatches that hold an unknown bit, as simulators print it (x, z, u); nothing is said of their cause.
    unknown_lines : list of int
        The first lines that hold one.
    budget : int, "auto" or None
        How many codes a result may lie from the right one.
    spent : Spent
        How many results differ within the budget, and the result that lies farthest.
    flags : Comparison or None
        Exception flags held against those that must be raised.
    apart : Comparison or None
        Of flags beside right results alone, where some results are wrong; `diagnosis` is of these.
    details : list of Difference
        The first mismatches, told in full.
    tally : Tally
        Counts of mismatches by distance, class, binade and rounding situation.
    diagnosis : Diagnosis or None
        Why, where something differs.
    ranking : list of Ranked
        Formats or accumulations, the best first, where none was named.
    read : tuple of str
        How dumps were read that are weights of checkpoints, with their scales.
    failed : dict of str to str
        Hypotheses that could not be tried because of an error in lowprec, and the error of each.
    """

    question: str
    facts: dict[str, Any]
    compared: int = 0
    mismatches: int = 0
    left_out: int = 0
    unanswered: int = 0
    unknown: int = 0
    unknown_lines: list[int] = field(default_factory=list)
    details: list[Difference] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)
    diagnosis: Diagnosis | None = None
    ranking: list[Ranked] = field(default_factory=list)
    names: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    unit: str = "result"
    budget: Budget | None = None
    spent: Spent = field(default_factory=Spent)
    flags: Comparison | None = None
    apart: Comparison | None = None
    failed: Failures = field(default_factory=dict)

    def __getstate__(self) -> dict[str, Any]:
        """Return what the report tells, for other processes."""
        return vars(self) | {"diagnosis": self.diagnosis and self.diagnosis.without_functions()}

    @property
    def agrees(self) -> bool:
        """True if something was compared, and all of it agrees or is within the budget; flags too."""
        return bool(self.compared) and not self.mismatches and (self.flags is None or self.flags.agrees)

    @property
    def exact(self) -> int:
        """Results that are equal to what they must be."""
        return self.compared - self.mismatches - self.spent.within

    @property
    def known(self) -> int:
        """Mismatches without unknown bits: those that causes are sought for."""
        return self.mismatches - self.unknown

    @property
    def cause(self) -> Cause | None:
        """The first hypothesis; None where nothing differs, or nothing explains what does."""
        return self.diagnosis.causes[0] if self.diagnosis and self.diagnosis.causes else None

    def __str__(self) -> str:
        return self.as_text()

    def __repr__(self) -> str:
        return f"<Comparison: {self.sum()}>"

    # -- text -----------------------------------------------------------------------------------

    @usual_modes()
    def as_text(self, shown: int | None = None) -> str:
        """Return the ranking, the sum, the diagnosis, the first mismatches and the counts as text.

        Parameters
        ----------
        shown : int, optional
            Mismatches that are told in full, of those in `details`. Default: all of these.
        """
        parts = [*self.read, *self._ranking(), self.sum(), *self._diagnosis()]
        told = self.told()[:shown]
        if told:
            parts += ["", *told]
        if self.known > len(told):
            parts += [f"... and {self.known - len(told):,} more"] if told else []
            counts = self._counts()
            parts += ["", *counts] if counts else []
        parts += [f"left out, please report it: {words} ({error})" for words, error in self.failed.items()]
        if self.flags is not None:
            parts += ["", "flags:", self.flags.as_text(shown)]
        return "\n".join(parts)

    def _ranking(self) -> list[str]:
        if not self.ranking:
            return []
        width = max(len(ranked.name) for ranked in self.ranking)
        head = [f"which it is, by the share of {self.ranking[0].of:,} {self.unit}s that each gives:"]
        return [
            *head,
            *(f"    {ranked.name:<{width}} {_percent(ranked.share)}" for ranked in self.ranking),
            "",
        ]

    @usual_modes()
    def told(self) -> list[str]:
        """Return the first mismatches, each in full."""
        return [self._explain(detail) for detail in self.details]

    def _explain(self, detail: Difference) -> str:
        data = detail.data
        at = f"line {data['line']}" if "line" in data else f"index {data['index']}"
        at += f" {tuple(data['at'])}" if "at" in data else ""
        return f"{at}:\n{detail.text(1, _last_line(detail))}"

    def _counts(self) -> list[str]:
        tally = self.tally
        parts: list[str] = []
        total = tally.distances.total() + tally.no_distance
        if total:
            shown = [(_ulps(low, high), count) for low, high, count in binned(tally.distances)]
            shown += [("no distance (NaN, or no code)", tally.no_distance)] if tally.no_distance else []
            parts += _table("by distance, in codes above what is right", shown)
        classes = [(f"{want} became {got}", count) for (got, want), count in tally.classes.most_common()]
        if tally.signs:
            classes.append(("(of these the sign alone differs)", tally.signs))
        if classes:
            parts += _table("by class", classes)
        if len(tally.binades) > 1:
            parts += _table("by binade", [(_binade(key), count) for key, count in by_binade(tally.binades)])
        return parts

    def sum(self) -> str:
        """Return one line: how many differ, and where they lie."""
        unit = self.unit
        if not self.compared:
            return "nothing was compared" + (
                f": {self.left_out:,} results that are NaN left out" if self.left_out else ""
            )
        out = (
            f"; {self.left_out:,} left out, whose result is NaN, which the format has not"
            if self.left_out
            else ""
        )
        if not self.mismatches and self.budget is None:
            return f"{self.compared:,} {unit}{'s agree' if self.compared > 1 else ' agrees'}{out}"
        if not self.mismatches:
            counts = f"{self.exact:,} exact, {self.spent.within:,} within the budget of {self._budget()}"
            return (
                f"{self.compared:,} {unit}{'s' * (self.compared > 1)} pass: {counts}{self._farthest()}{out}"
            )
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in self.tally.situations.most_common(_ROWS))
        none = f"; {self.unanswered:,} have no result" if self.unanswered else ""
        none += f"; unknown bits: line{'s' * (len(self.unknown_lines) > 1)} " * bool(self.unknown)
        none += ", ".join(map(str, self.unknown_lines))
        none += " ..." * (self.unknown > len(self.unknown_lines) > 4)
        share = _percent(self.mismatches / self.compared)
        where = f": {kinds}" if kinds else ""
        if self.budget is not None:
            verdict = f"lie outside the budget of {self._budget()} ({share})"
            rest = f"; {self.spent.within:,} within it, {self.exact:,} exact{self._farthest()}"
            return f"{self.mismatches:,} of {self.compared:,} {unit}s {verdict}{where}{rest}{none}{out}"
        return f"{self.mismatches:,} of {self.compared:,} {unit}s differ ({share}){where}{none}{out}"

    def _budget(self) -> str:
        if self.budget != "auto":
            return _codes(int(self.budget or 0))
        widest = self.spent.widest
        return "any order of summation" + ("" if widest is None else f", at most {_codes(widest)}")

    def _farthest(self) -> str:
        farthest = self.spent.farthest
        if farthest is None:
            return ""
        far = _ulps(farthest.distance, farthest.distance)
        return f"; the largest distance is {far}, at index {farthest.index:,}"

    def _diagnosis(self) -> list[str]:
        if self.apart is not None:
            beside = self.mismatches - self.apart.mismatches
            return [f"beside results that differ too: {beside:,}"] * (beside > 0) + self.apart._diagnosis()
        if self.diagnosis is None:
            return []
        causes, total = self.diagnosis.causes, self.known
        if not causes:
            return [
                "unexplained: no hypothesis explains a tenth of the mismatches without contradicting as much "
                "else",
                *self._foreign(),
            ]
        parts = []
        for number, cause in enumerate(causes):
            partly = "" if cause.explained == total else "partly "
            lead = "or by" if number else "may be" if self.diagnosis.few else f"{partly}explained by"
            if cause.patched(total) and not number:
                exact = cause.explained == total and not cause.contradicted
                lead = "may be" if exact else "not explained; nearest:"
            share = f"{cause.explained:,} of {total:,} mismatches, {_percent(cause.explained / total)}"
            against = f"; contradicts {cause.contradicted:,} results that agree" if cause.contradicted else ""
            parts.append(f"{lead} {cause.words}: {share}{against}")
            if cause.rule is not None:
                parts += self._ruled(cause)
            if cause.same:
                more = f"; and {len(cause.same) - 4} more" if len(cause.same) > 4 else ""
                parts.append(f"    the same: {'; '.join(cause.same[:4])}{more}")
        if (rest := self.diagnosis.rest) is not None:
            share = f"{rest.explained:,} of {total:,} mismatches, {_percent(rest.explained / total)}"
            parts.append(f"the others {'may be' if rest.explained < MANY else 'by'} {rest.words}: {share}")
        if self.diagnosis.unexplained:
            where = ", ".join(list(self.diagnosis.situations)[:4])
            said = f" ({where})" if where else ""
            parts.append(f"unexplained by the first: {self.diagnosis.unexplained:,}{said}")
        return parts

    def _ruled(self, cause: Cause) -> list[str]:
        """Return the counts both ways of a cause that holds where a rule does, and results of each kind."""
        wrong, right = cause.inside
        others = self.exact - right
        one = f"wrong in {wrong:,} of {wrong + right:,} {self.unit}s there"
        other = f"right in {others:,} of {self.compared - wrong - right:,} others"
        said = [f"    {one}, {other}"]
        if cause.changes and right > cause.contradicted:
            said[0] += f"; it makes no difference to {right - cause.contradicted:,} of the right ones there"
        assert cause.examples is not None, "a rule has examples"
        kinds = {"wrong": cause.examples.wrong, "right": cause.examples.right}
        shown = [f"{kind}: index {', '.join(map(str, at))}" for kind, at in kinds.items() if at]
        return [*said, f"    {'; '.join(shown)}"]

    def _foreign(self) -> list[str]:
        """Return a question about results that the format does not have, if most mismatches are such."""
        foreign = self.tally.foreign
        if 2 * foreign <= self.mismatches or self.unit != "result":
            return []
        return [
            f"{foreign:,} results are no values of the format: were they quantised, and to this format? "
            "Operands come first, results last"
        ]

    # -- data -----------------------------------------------------------------------------------

    @usual_modes()
    def as_dict(self) -> dict[str, Any]:
        """Return plain data, in a fixed order; `as_json` has it in text."""
        return {
            "schema": SCHEMA,
            "lowprec": __version__,
            "question": self.question,
            **self.facts,
            "names": list(self.names),
            **({"read": list(self.read)} if self.read else {}),
            "compared": self.compared,
            "mismatches": self.mismatches,
            "left_out": self.left_out,
            "unanswered": self.unanswered,
            **({"unknown": {"count": self.unknown, "lines": self.unknown_lines}} if self.unknown else {}),
            "budget": None if self.budget is None else self._spent(),
            "ranking": [{"name": one.name, "share": one.share, "of": one.of} for one in self.ranking],
            "situations": dict(self.tally.situations.most_common()),
            "distances": {str(key): count for key, count in sorted(self.tally.distances.items())},
            "no_distance": self.tally.no_distance,
            "classes": [
                {"got": got, "want": want, "count": count}
                for (got, want), count in self.tally.classes.most_common()
            ],
            "sign_alone": self.tally.signs,
            "binades": {str(key): count for key, count in by_binade(self.tally.binades)},
            "first": [detail.data for detail in self.details],
            "diagnosis": None if self.diagnosis is None else self._diagnosed(self.diagnosis),
            **(
                {"failed": [{"hypothesis": w, "error": e} for w, e in self.failed.items()]}
                if self.failed
                else {}
            ),
            "flags": None if self.flags is None else self.flags.as_dict(),
            **({} if self.apart is None else {"beside_right_results": self.apart.mismatches}),
        }

    def _spent(self) -> dict[str, Any]:
        farthest = self.spent.farthest
        return {
            "ulps": self.budget,
            "exact": self.exact,
            "within": self.spent.within,
            "outside": self.mismatches,
            "widest": self.spent.widest,
            "farthest": None if farthest is None else dataclasses.asdict(farthest),
        }

    def _diagnosed(self, diagnosis: Diagnosis) -> dict[str, Any]:
        return {
            "causes": [
                {
                    "hypothesis": cause.words,
                    "explained": cause.explained,
                    "share": cause.explained / self.known,
                    "contradicted": cause.contradicted,
                    "same": cause.same,
                }
                for cause in diagnosis.causes
            ],
            **({} if diagnosis.rest is None else {"others": diagnosis.rest.words}),
            "unexplained": diagnosis.unexplained,
            "situations_left": diagnosis.situations,
        }

    def as_json(self) -> str:
        """Return JSON of the schema tables/schema/compare.schema.json."""
        return json.dumps(self.as_dict(), indent=1)

    @usual_modes()
    def as_html(self) -> str:
        """Return a page with plots, all in one file; needs `pip install "lowprec[report]"`."""
        from lowprec.verify.compare.report_pages import as_html

        return as_html(self)

    @usual_modes()
    def as_junit(self, *, excused: bool = False, worse: Sequence[str] = ()) -> str:
        """Return a test report in JUnit's XML; needs `pip install "lowprec[report]"`.

        Parameters
        ----------
        excused : bool
            Whether what differs passes, as a baseline has it too.
        worse : sequence of str
            What makes it worse than a baseline, for the report.
        """
        from lowprec.verify.compare.report_pages import as_junit

        return as_junit(self, excused=excused, worse=worse)


# -- pieces of text ----------------------------------------------------------------------------------


def _last_line(detail: Difference) -> str:
    if detail.distance is None:
        return detail.situation
    ulps = abs(detail.distance)
    far = "the other zero" if not ulps else f"{_codes(ulps)} {'above' if detail.distance > 0 else 'below'}"
    return f"{detail.situation}; {far}"


def _codes(count: int) -> str:
    return f"{count:,} code{'s' * (count != 1)}"


def _ulps(low: int, high: int) -> str:
    return (
        f"{low:+,}" if low == high and low else "0, the other zero" if not low else f"{low:+,} to {high:+,}"
    )


def _binade(key: Any) -> str:
    return key if isinstance(key, str) else f"2**{key}"


def _table(title: str, rows: Iterable[tuple[str, int]]) -> list[str]:
    rows = list(rows)
    if len(rows) > _ROWS:  # the largest, in their order
        least = sorted((count for _, count in rows), reverse=True)[_ROWS - 1]
        kept = [row for row in rows if row[1] >= least][:_ROWS]
        rest = sum(count for _, count in rows) - sum(count for _, count in kept)
        rows = [*kept, (f"{len(rows) - len(kept)} others", rest)]
    width = max(len(name) for name, _ in rows)
    digits = max(len(f"{count:,}") for _, count in rows)
    return [f"{title}:", *(f"    {name:<{width}}  {count:>{digits},}" for name, count in rows)]


def _percent(share: float) -> str:
    """Return a share as text, with as many digits as it takes not to say 100 % of what is less.

    >>> _percent(1.0), _percent(0.5), _percent(0.99999)
    ('100%', '50%', '99.999%')
    """
    if share in (0.0, 1.0):
        return f"{share:.0%}"
    shown = next(
        text for digits in (3, 5, 7, 9, 12) if (text := f"{100 * share:.{digits}g}") != "100" or digits == 12
    )
    return f"{shown}%"
