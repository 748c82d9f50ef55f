"""Results of a search among formats: candidates with their bits and errors, the best, the Pareto front.

Floor 3.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from lowprec.spec.block import BlockFormat
from lowprec.spec.format import Format

__all__ = ["Candidate", "FormatSweep", "Scaling", "sorted_rows"]

#: Where scales are: in the format's own bias, one for each tensor, or one for each block.
Scaling = Literal["bias", "tensor", "blocks"]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A format with its scales, and what it did to the values.

    Parameters
    ----------
    format : Format or BlockFormat
    scaling : {"bias", "tensor", "blocks"}
        Whether values are encoded as they are, under one float32 scale for each tensor, or in blocks.
    bits : float
        For each value: its code, and its shares of the scales of its block and tensor; blocks count as full.
    sqnr : float
        Signal to quantisation noise in decibels, of all tensors together; -inf where a result is not finite,
        nan where squares leave the range of float64, as for `ErrorReport`, which ranks below all numbers.
    by_tensor : mapping of str to float
        The same of each tensor.
    """

    format: Format | BlockFormat
    scaling: Scaling
    bits: float
    sqnr: float
    by_tensor: Mapping[str, float] = field(hash=False)

    def __str__(self) -> str:
        """Return the format in words."""
        return f"{self.format.name}, one scale" if self.scaling == "tensor" else self.format.name


@dataclass(frozen=True)
class FormatSweep:
    """Results of `sweep_formats`; str() is the Pareto front as a table.

    Parameters
    ----------
    rows : tuple of Candidate
        By ascending bits, the best first where they are equal.
    size : int
        Finite values that were tried.
    """

    rows: tuple[Candidate, ...]
    size: int

    @property
    def pareto(self) -> tuple[Candidate, ...]:
        """Candidates that no other one beats with as few bits."""
        front: list[Candidate] = []
        for row in self.rows:
            if not front or _rank(row) > _rank(front[-1]):
                front.append(row)
        return tuple(front)

    def best(self, bits: float = math.inf) -> Candidate:
        """Return the candidate of least error with at most so many bits for each value.

        Raises
        ------
        ValueError
            None has so few.
        """
        served = [row for row in self.rows if row.bits <= bits]
        if not served:
            raise ValueError(
                f"no candidate has at most {bits} bits for each value; the least is {self.rows[0].bits:g}"
            )
        return max(served, key=_rank)

    def __str__(self) -> str:
        lines = [
            f"{len(self.rows):,} candidates, {self.size:,} values; those that none beats with as few bits:"
        ]
        lines += [f"{'bits':>9}  {'SQNR dB':>8}  format"]
        lines += [f"{row.bits:9.4f}  {row.sqnr:8.2f}  {row}" for row in self.pareto]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<FormatSweep of {len(self.rows):,} candidates on {self.size:,} values>"

    def as_dict(self) -> dict[str, Any]:
        """Return all candidates as data for JSON; None for what is not finite."""

        def number(value: float) -> float | None:
            return value if math.isfinite(value) else None

        rows = [
            {
                "format": str(row),
                "scaling": row.scaling,
                "bits": row.bits,
                "sqnr": number(row.sqnr),
                "by_tensor": {name: number(value) for name, value in row.by_tensor.items()},
            }
            for row in self.rows
        ]
        return {"size": self.size, "candidates": rows, "pareto": [str(row) for row in self.pareto]}


def sorted_rows(rows: list[Candidate]) -> tuple[Candidate, ...]:
    """Return candidates by ascending bits, the best first where they are equal."""
    return tuple(sorted(rows, key=lambda row: (row.bits, -_rank(row)[0], -_rank(row)[1])))


def _rank(row: Candidate) -> tuple[float, bool]:
    """Return what grows with a candidate's rank: nan comes below numbers and above -inf."""
    return (-math.inf, True) if math.isnan(row.sqnr) else (row.sqnr, False)
