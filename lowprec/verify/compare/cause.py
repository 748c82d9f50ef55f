"""Causes that a comparison names, each with how much it explains."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from lowprec.verify.compare.rules import Rule
from lowprec.verify.questions.question import Changes

__all__ = ["MANY", "Cause", "Conditional", "Diagnosis", "Examples"]

#: Of fewer mismatches than these a cause must explain all.
MANY = 8


@dataclass(frozen=True)
class Examples:
    """Indices of a few results: wrong ones where the rule holds; right ones, first where it holds."""

    wrong: tuple[int, ...]
    right: tuple[int, ...]


@dataclass(frozen=True)
class Conditional:
    """An edit, or none, where a rule holds."""

    rule: Rule | None  #: None: everywhere
    edit: Changes
    words: str
    examples: Examples
    errors: int = field(compare=False, default=0)  #: in the sample
    exact: bool = field(compare=False, default=False)  #: whether the rule holds of wrong results alone


@dataclass
class Cause:
    """A hypothesis, and how much it explains."""

    words: str
    explained: int = 0
    contradicted: int = 0
    changes: Changes = ()
    same: list[str] = field(default_factory=list)  #: hypotheses that explain, and contradict, as many
    rule: Rule | None = None  #: where the changes hold; without changes: where results are wrong
    examples: Examples | None = None  #: of a rule
    inside: tuple[int, int] = (0, 0)  #: results where the rule holds: wrong ones, and right ones

    @property
    def net(self) -> int:
        """Results that the cause explains less those that it contradicts."""
        return self.explained - self.contradicted

    def patched(self, mismatches: int) -> bool:
        """Return whether it is no explanation: contradicts right results, or is a rule with exceptions."""
        several = self.rule is not None and len(self.rule.alternatives) > 1 and self.inside[1] > 0
        return self.contradicted > 0 or several or (self.rule is not None and self.explained < mismatches)

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
    rest: Cause | None = None  #: what explains others than the first does, if that contradicts nothing
    few: bool = False  #: whether so few mismatches, or blocks with some, prove no cause

    def without_functions(self) -> Diagnosis:
        """Return it without the functions of changes, which other processes need not have."""
        causes, rest = map(_without_functions, self.causes), self.rest and _without_functions(self.rest)
        return replace(self, causes=list(causes), rest=rest)


def _without_functions(cause: Cause) -> Cause:
    return replace(cause, changes=tuple(replace(change, value=None) for change in cause.changes))
