"""Report of an identification, as data and in words."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lowprec.spec.accumulation import Accumulation, Rounded, Window
from lowprec.spec.riscv_ime import Disclosure, disclosed
from lowprec.verify.identify.ports import Ports, Rows
from lowprec.verify.identify.probes import TOPICS
from lowprec.verify.identify.search import Answers
from lowprec.verify.identify.units import lines_of

__all__ = ["Identification", "Undecided", "parameters"]


@dataclass(frozen=True)
class Undecided:
    """A parameter of which other values reproduce every answer too.

    Parameters
    ----------
    field : str
        Such as "step", or "output saturation".
    values : tuple of str
        The others.
    ports : Ports
        Of the question.
    question : Rows, optional
        Operands on which one of them differs; None where none were found.
    """

    field: str
    values: tuple[str, ...]
    ports: Ports
    question: Rows | None

    def __str__(self) -> str:
        shown = _runs(self.values)
        return (
            f"{self.field}: {', '.join(shown[:6])}{f' and {len(shown) - 6} more' if len(shown) > 6 else ''}"
        )

    def line(self) -> str | None:
        """Return the question as a line of operands."""
        return None if self.question is None else next(lines_of(self.question, self.ports))


@dataclass(frozen=True, repr=False)
class Identification:
    """The accumulation of a unit, as far as its answers tell.

    Parameters
    ----------
    accumulation : Accumulation
        The one that reproduces most answers: all of them where `wrong` is 0.
    wrong : int
        Answers that it does not reproduce.
    names : tuple of str
        Those of the catalog that reproduce every answer, and that no question was found to tell apart.
    undecided : list of Undecided
        Parameters that may have other values; empty where `wrong` is not 0.
    asked : int
        Dot products that the unit was asked, those asked twice included.
    answers : Answers
        Everything that was answered; `rows=` of `identify` takes this identification.
    any_nan : bool
        Whether the unit answered values of a wider type, so that its NaNs have no code.
    stopped : str
        Why the search ended before its time, or "".
    tree : str
        The order of the sum as masks show it, where no accumulation reproduces all answers; or "".
    missed : dict
        Answers that are not reproduced, by topic.
    named : tuple of str
        What the sum is where no accumulation says it, with the evidence.
    smallest : str
        The row of fewest products whose answer is not reproduced.
    """

    accumulation: Accumulation
    wrong: int
    names: tuple[str, ...]
    undecided: list[Undecided]
    asked: int
    answers: Answers
    any_nan: bool = False
    stopped: str = ""
    tree: str = ""
    missed: dict[str, int] = dataclasses.field(default_factory=dict)
    named: tuple[str, ...] = ()
    smallest: str = ""

    def __str__(self) -> str:
        return self.as_text()

    def __repr__(self) -> str:
        found = self.names or (self.accumulation.name or "an accumulation",)
        return f"<Identification: {', '.join(found)}; {self.asked:,} asked, {self.wrong:,} not reproduced>"

    def lines(self) -> Iterator[str]:
        """Yield every row and its answer as a line, which `rows=` takes."""
        if self.answers.rows is not None:
            yield from lines_of(self.answers.rows, self.answers.ports, self.answers.codes)

    def as_text(self) -> str:
        """Return what was found, for people."""
        total = len(self.answers)
        said = []
        if self.stopped:
            said.append(f"Stopped: {self.stopped}")
        said += [f"The unit is no accumulation, but {each}." for each in self.named]
        if self.wrong:
            said.append(
                f"No accumulation was found that reproduces all {total:,} answers ({self.asked:,} dot "
                f"products asked). The nearest misses {self.wrong:,}."
            )
            said += self._missed()
            if self.tree:
                said.append(f"Order of the sum, by masks: {self.tree}")
            if self.smallest:
                said.append(f"Fewest products that it misses: {self.smallest}.")
        else:
            said.append(f"Reproduces all {total:,} answers ({self.asked:,} dot products asked).")
            if self.names:
                said.append(f"In the catalog: {', '.join(self.names)}")
            if terms := disclosed(self.accumulation):
                said.append(f"As RISC-V's integrated matrix extension says it: {terms}")
        said += ["", *(f"  {name:<16} {value}" for name, value in parameters(self.accumulation))]
        told = [each for each in self.undecided if each.question is None]
        if self.undecided and len(told) < len(self.undecided):
            said += ["", "Undecided, and a question that decides:"]
            for each in self.undecided:
                if each.question is not None:
                    line = str(each.line())
                    short = line if len(line) < 160 else f"{line[:160]}..."
                    more = "" if each.ports == self.answers.ports else f" (K = {each.ports.length})"
                    said += [f"  {each}", f"    ask{more}: {short}"]
        if told:
            said += [
                "",
                "Not told apart by any question tried; these and others between them give the same results:",
            ]
            said += [f"  {each}" for each in told]
        return "\n".join(said)

    def _missed(self) -> Iterator[str]:
        counts = Counter(self.answers.topics)
        right = [topic for topic in counts if topic not in self.missed]
        if right:
            yield f"Reproduced in full: {', '.join(right)}."
        missed = [
            f"{topic} {self.missed[topic]} of {counts[topic]}" for topic in TOPICS if topic in self.missed
        ]
        if missed:
            yield f"Missed: {', '.join(missed)}."

    def as_json(self) -> str:
        """Return what was found, as JSON."""
        return json.dumps(
            {
                "schema": "lowprec.identify/1",
                "reproduces": not self.wrong,
                "wrong": self.wrong,
                "answers": len(self.answers),
                "asked": self.asked,
                "names": list(self.names),
                "accumulation": dict(parameters(self.accumulation)),
                "riscv_ime": None if self.wrong else _spelled(disclosed(self.accumulation)),
                "undecided": [
                    {
                        "field": each.field,
                        "values": list(each.values),
                        "k": each.ports.length,
                        "question": each.line(),
                    }
                    for each in self.undecided
                ],
                "missed": self.missed,
                "tree": self.tree,
                "named": list(self.named),
                "smallest": self.smallest,
                "stopped": self.stopped,
            },
            indent=1,
        )


def _runs(values: tuple[str, ...]) -> list[str]:
    """Return values with integers that follow each other as "first to last"."""
    found: list[list[str]] = []
    for value in values:
        last = found[-1][-1] if found else ""
        try:
            follows = int(value) == int(last) + 1
        except ValueError:
            follows = False
        if follows:
            found[-1].append(value)
        else:
            found.append([value])
    return [run[0] if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in found]


def parameters(how: Accumulation) -> Iterator[tuple[str, str]]:
    """Yield the parameters of an accumulation that matter, each with its value in words."""
    if how.name:
        yield "name", how.name
    if how.operands is not None:
        yield "operands", " and ".join(fmt.name for fmt in how.operands)
    if how.operand_rounding is not None:
        yield "operand_rounding", str(how.operand_rounding)
    if how.machine:
        yield "machine", how.machine
    else:
        yield "order", str(how.order)
    if how.product is not None:
        yield "product", _rounded(how.product)
    if how.term:
        yield "term", f"{how.term} products"
    if isinstance(how.accumulator, Window):
        for field in dataclasses.fields(Window):
            value: Any = getattr(how.accumulator, field.name)
            if field.name == "result":
                yield "result", _rounded(value)
            elif value != field.default or field.name in ("fraction_bits", "cut"):
                yield field.name, str(value)
    elif how.accumulator is not None:
        yield "accumulator", _rounded(how.accumulator)
    if how.total is not None:
        yield "total", _rounded(how.total)
    if how.order.name != "exact" and not how.machine:
        yield "addend", how.addend
    if how.scale is not None:
        yield "scale", f"{how.scale[0].name}, one for {how.scale[1]} elements"
    yield "output", _rounded(how.output)


def _spelled(terms: Disclosure | None) -> dict[str, Any] | None:
    """Return what is disclosed, as JSON has it."""
    if terms is None:
        return None
    return {field: getattr(terms, field) for field in ("products", "psm", "rnd", "frm")}


def _rounded(into: Rounded) -> str:
    return f"{into[0].name}, {into[1]}"
