"""Exception flags of dot products, as a question of comparison: those of accumulations of IEEE operations."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from lowprec.spec.accumulation import Accumulation
from lowprec.spec.format import Format
from lowprec.verify.codes.display import shown_code
from lowprec.verify.difference import Difference
from lowprec.verify.dumps.files import Held
from lowprec.verify.questions.element_flags import RecordedFlags
from lowprec.verify.questions.question import Array, Batch, Change, Changes
from lowprec.verify.reference.dots import check_flags, sums_with_flags

__all__ = ["SumFlagQuestion"]


class SumFlagQuestion(RecordedFlags):
    """The flags that dot products raise, of operands as codes."""

    values = False

    def __init__(
        self,
        x: Array,
        y: Array,
        addend: Array,
        formats: tuple[Format, Format, Format],
        how: Accumulation,
        got: Array,
    ) -> None:
        check_flags(how)
        self.operands, self.formats, self.how = (x, y, addend), formats, how
        self.received, self.size, self.target = Held(got.astype(np.int64), "flags"), got.size, how.output[0]

    def words(self) -> str:
        """Return what was asked, in words."""
        return f"flags of dot by {self.how}, K = {self.operands[0].shape[1]}"

    def facts(self) -> dict[str, Any]:
        """Return what was asked, as data."""
        return {"operation": "flags of dot", "formats": [self.target.name], "accumulation": str(self.how)}

    def bounds(self) -> Iterator[tuple[int, ...]]:
        """Yield one piece: lines are read whole."""
        yield 0, self.size

    def piece(self, *bounds: int) -> Batch:
        """Return the results of some lines."""
        index = slice(*bounds)
        return Batch(index, self.received.read(*bounds), tuple(part[index] for part in self.operands))

    def sample(self, different: Array, equal: Array) -> Batch:
        """Return the lines at these places."""
        index = np.union1d(different, equal).astype(np.int64)
        return Batch(index, self.received.take(index), tuple(part[index] for part in self.operands))

    def answer(self, batch: Batch, changes: Changes = ()) -> Array:
        """Return the flags that must be raised, or would be."""
        fields = {change.field: change.value for change in changes}
        how = fields["tininess"](self.how) if "tininess" in fields else self.how
        x, y, addend = batch.given
        found = sums_with_flags(x, y, addend, self.formats, how)[1].astype(np.int64)
        return fields["flags"](found) if "flags" in fields else found

    def changes(self) -> Iterator[Change]:
        """Yield tininess judged otherwise, and flags that are lost, stuck or renumbered."""
        yield Change("tininess", _tininess, "tininess judged before rounding", 0)
        yield from self.flag_changes()

    def difference(self, batch: Batch, place: int, want: int) -> Difference:
        """Return flags that differ, with the right result."""
        x, y, addend = (part[place : place + 1] for part in batch.given)
        result = int(sums_with_flags(x, y, addend, self.formats, self.how)[0][0])
        data = {"index": int(batch.places[place]), "operands": []}
        return self.told([], data, ("result", shown_code(result, self.target)), int(batch.got[place]), want)


def _tininess(how: Accumulation) -> Accumulation:
    """Return the accumulation whose every rounding judges tininess otherwise."""
    swap: Callable[[Any], Any] = lambda into: (  # noqa: E731
        into
        if into is None
        else (
            into[0],
            dataclasses.replace(into[1], tininess={"after": "before", "before": "after"}[into[1].tininess]),
        )
    )
    return dataclasses.replace(
        how,
        product=swap(how.product),
        accumulator=swap(how.accumulator),
        total=swap(how.total),
        output=swap(how.output),
    )
