"""Parts of results, such as products or steps, one by one: edits of those that a rule tells."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lowprec.verify.questions.features import Feature
from lowprec.verify.questions.question import Array, Batch, Change

__all__ = ["PartEdit", "ResultParts", "Holds", "part_edit"]


@dataclass(frozen=True)
class ResultParts:
    """Parts of a question's results, of which one at a time can be edited."""

    name: str  #: how a rule on them begins
    count: int  #: of each result
    rows: Callable[[Array], Batch]  #: results at some places, which may repeat each other
    found: Callable[[Any], Iterator[Feature]]  #: features of all parts, one result after the other

    def copies(self, places: Array) -> tuple[Batch, Array]:
        """Return copies of results, one for each part, and a mask of that part in each copy."""
        alone = np.repeat(np.eye(self.count, dtype=bool), places.size, 0)
        return self.rows(np.tile(places, self.count)), alone

    def features(self, places: Array) -> list[Feature]:
        """Return features of all parts of some results, one result after the other."""
        return list(self.found(self.rows(places).given))


#: Which parts a rule holds of, from their features.
Holds = Callable[[Sequence[Feature]], Array]


@dataclass(frozen=True)
class PartEdit:
    """An edit of some parts of results."""

    parts: ResultParts
    of: Callable[[Array], Change]  #: of a mask of results and parts
    where: Holds | None = None  #: which parts
    ruled: Callable[[Holds], Change] | None = None  #: the edit by a rule that is asked part by part
    of_many: bool = False  #: whether results show that many parts at once may have it

    def at(self, places: Array) -> Change:
        """Return the edit of the parts that the rule holds of, in results at some places."""
        assert self.where is not None, "a rule says which"
        if self.ruled is not None:
            return self.ruled(self.where)
        return self.of(self.where(self.parts.features(places)).reshape(-1, self.parts.count))


def part_edit(
    parts: ResultParts, of: Callable[[Array], Change], words: str, *, of_many: bool = False
) -> Change:
    """Return an edit of parts that a rule is to be found for."""
    return Change("parts", PartEdit(parts, of, of_many=of_many), words, 3)
