"""A result that differs from the right one, for people and machines. Needs the standard library only."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

__all__ = ["Difference"]


@dataclass(frozen=True)
class Difference:
    """A difference in rows of a label and a text: what was requested, the result, and the right result.

    >>> print(Difference((("value", "1.0625"), ("got", "0x39"), ("want", "0x38")), "at a tie", 1))
        value  1.0625
        got    0x39
        want   0x38
    """

    rows: tuple[tuple[str, str], ...]
    situation: str = ""  #: where the exact result lies between the values of its format
    distance: int | None = None  #: by how many codes the result lies above what is right
    data: dict[str, Any] = field(default_factory=dict, compare=False)  #: the same for machines

    def allowed(self, low: int, high: int) -> Difference:
        """Return the same with the distances that a budget allows."""
        said = f"{low:+,} to {high:+,} codes" if low or high else "no difference"
        rows = (*self.rows, ("allowed", said))
        return replace(self, rows=rows, data=self.data | {"allowed": [low, high]})

    def __getitem__(self, label: str) -> str:
        return dict(self.rows)[label]

    def __str__(self) -> str:
        return self.text()

    def text(self, gap: int = 2, last: str | None = None) -> str:
        """Return a line for each row, texts below each other, and under the texts a last line."""
        width = max(len(label) for label, _ in self.rows) + gap
        rows = self.rows if last is None else (*self.rows, ("", last))
        return "\n".join(f"    {label:{width}}{text}" for label, text in rows)
