"""Points of a verification plan, each with the vectors that hit it, and the table of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Plan", "PlanPoint"]

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class PlanPoint:
    """A point that vectors shall hit, and whether each vector does."""

    group: str
    words: str
    lane: int | None
    hits: npt.NDArray[np.bool_]

    @property
    def count(self) -> int:
        """Vectors that hit it."""
        return int(np.count_nonzero(self.hits))

    def __str__(self) -> str:
        return self.words if self.lane is None else f"{self.words}, lane {self.lane}"


class Plan:
    """The points of a suite, in the order in which they were added.

    >>> plan = Plan(3)
    >>> plan.add("lanes", "the only product", np.array([True, False, True]), lane=0)
    >>> plan.add("lanes", "the only product", np.array([False, True, False]), lane=1)
    >>> print(plan.as_text())
    group  point                           vectors
    lanes  the only product, lanes 0 to 1   1 to 2
    """

    def __init__(self, cases: int) -> None:
        self.cases = cases
        self._hits: dict[tuple[str, str, int | None], npt.NDArray[np.bool_]] = {}

    def add(self, group: str, words: str, hits: Any, lane: int | None = None) -> None:
        """Add vectors to a point."""
        key = (group, words, lane)
        held = self._hits.get(key)
        self._hits[key] = hits.astype(bool) if held is None else held | hits

    @property
    def points(self) -> list[PlanPoint]:
        """All points."""
        return [PlanPoint(*key, hits) for key, hits in self._hits.items()]

    def grouped(self, cases: int) -> Plan:
        """Return the plan of cases that each consist of as many consecutive ones of these.

        >>> plan = Plan(4)
        >>> plan.add("sum", "exact", np.array([True, True, False, False]))
        >>> plan.grouped(2).points[0].count
        1
        """
        made = Plan(cases)
        for point in self.points:
            made.add(point.group, point.words, np.any(point.hits.reshape(cases, -1), axis=1), point.lane)
        return made

    def best(self, caught: Array) -> PlanPoint | None:
        """Return the point that says best what these vectors have in common, and what others have not."""

        def likeness(point: PlanPoint) -> float:
            both, either = int((point.hits & caught).sum()), int((point.hits | caught).sum())
            return both / max(1, either)

        found = max(self.points, key=likeness, default=None)
        return found if found is not None and (found.hits & caught).any() else None

    def _rows(self) -> Iterator[tuple[str, str, str]]:
        """Yield a row for each point; the lanes of one in a row together."""
        whole: dict[tuple[str, str], list[PlanPoint]] = {}
        for point in self.points:
            whole.setdefault((point.group, point.words), []).append(point)
        for (group, words), points in whole.items():
            if points[0].lane is None:
                yield group, words, f"{points[0].count:,}"
                continue
            counts = [point.count for point in points]
            low, high = f"{min(counts):,}", f"{max(counts):,}"
            lanes = (
                f"lanes {points[0].lane} to {points[-1].lane}"
                if len(points) > 1
                else f"lane {points[0].lane}"
            )
            yield group, f"{words}, {lanes}", low if low == high else f"{low} to {high}"

    def as_text(self) -> str:
        """Return a table: group, point, vectors."""
        rows = [("group", "point", "vectors"), *self._rows()]
        widths = [max(len(row[place]) for row in rows) for place in range(3)]
        return "\n".join(
            f"{group:<{widths[0]}}  {words:<{widths[1]}}  {count:>{widths[2]}}"
            for group, words, count in rows
        )

    def as_csv(self) -> str:
        """Return a line for each point, lanes by themselves."""
        lines = ["group,point,lane,vectors"]
        for point in self.points:
            lane = "" if point.lane is None else point.lane
            lines.append(f'{point.group},"{point.words}",{lane},{point.count}')
        return "\n".join(lines)

    def as_jsonl(self) -> str:
        """Return a JSON object for each point."""
        return "\n".join(
            json.dumps({"group": p.group, "point": p.words, "lane": p.lane, "vectors": p.count})
            for p in self.points
        )
