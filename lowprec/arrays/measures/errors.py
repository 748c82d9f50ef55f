"""Reports of what a format did to values, in numbers.

Floor 3.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.kernels.modes import usual_modes

__all__ = ["ErrorReport", "decibels", "report_of", "sqnr"]

Doubles = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ErrorReport:
    """Report of what a format did to values; str() is a short table.

    Errors are result - value, of the finite values with finite results.

    Parameters
    ----------
    format : str
        The name of the format or block format.
    size, non_finite : int
        Values of all kinds, and those that are NaN or infinite: left out of everything below.
    lost : int
        Finite values whose result is not (overflow, or a NaN in the same block): not in the errors.
    sqnr : float
        Signal to quantisation noise in decibels: 10 * log10(sum of squared values / sum of squared
        errors). inf where every result is exact, nan where there are no values, or where squares leave the
        range of float64: those of errors below 1e-162, if all are, and of numbers above 1e154.
    mse, max_abs_error, mean_error : float
        Mean of the squared errors, the largest magnitude of an error, and the mean of the errors,
        which is the bias of the rounding. nan where there are no values.
    clipped : float
        Share of the finite values that lie beyond the largest, or the most negative, value that the
        format holds, times the scale that applies to them, by however little. Of no values 0.
    flushed, zeros : float
        Share of the non-zero finite values whose result is zero; of the finite ones that are zero.
    clipped_blocks : float, optional
        Share of the blocks with a clipped value; None where there are no blocks.
    by_block : array of float64, optional
        `sqnr` of each block, in the shape of the scales, but inf where all squares of errors are 0; None
        where there are no blocks.
    """

    format: str
    size: int
    non_finite: int
    lost: int
    sqnr: float
    mse: float
    max_abs_error: float
    mean_error: float
    clipped: float
    flushed: float
    zeros: float
    clipped_blocks: float | None = None
    by_block: Doubles | None = dataclasses.field(default=None, compare=False, repr=False)

    @usual_modes()
    def __eq__(self, other: object) -> bool:
        """Return whether all numbers but `by_block` are equal, nan too."""
        return repr(self) == repr(other) if isinstance(other, ErrorReport) else NotImplemented

    @usual_modes()
    def __hash__(self) -> int:
        return hash(repr(self))

    @property
    def worst_block(self) -> float | None:
        """The smallest `sqnr` of a block, or None where there are no blocks with values."""
        known = () if self.by_block is None else self.by_block[~np.isnan(self.by_block)]
        return float(np.min(known)) if len(known) else None

    def as_dict(self) -> dict[str, Any]:
        """Return all numbers for JSON, without `by_block` but with `worst_block`; None for inf and nan.

        >>> import lowprec as lp
        >>> lp.error_report([1.0, 2.5], "e2m1fn").as_dict()["mse"]
        0.125
        """
        found = {field.name: getattr(self, field.name) for field in dataclasses.fields(self) if field.compare}
        found["worst_block"] = self.worst_block
        odd = [name for name, value in found.items() if isinstance(value, float) and not math.isfinite(value)]
        return found | dict.fromkeys(odd)

    @usual_modes()
    def __str__(self) -> str:
        blocks = (
            ""
            if self.by_block is None
            else f" in {self.by_block.size:,} block{'s' * (self.by_block.size != 1)}"
        )
        worst = "" if self.worst_block is None else f"; of the worst block {self.worst_block:.2f} dB"
        of_blocks = "" if self.clipped_blocks is None else f", in {self.clipped_blocks:.1%} of blocks"
        lines = [
            f"{self.format}: {self.size:,} value{'s' * (self.size != 1)}{blocks}",
            f"  SQNR           {self.sqnr:.2f} dB{worst}",
            f"  mean square    {self.mse:.4g}",
            f"  largest error  {self.max_abs_error:.4g}",
            f"  mean error     {self.mean_error:.4g}",
            f"  clipped        {self.clipped:.1%}{of_blocks}",
            f"  flushed        {self.flushed:.1%} of non-zero values",
            f"  zeros          {self.zeros:.1%}",
        ]
        if self.non_finite or self.lost:
            lines.append(
                f"  left out       {self.non_finite:,} NaN or infinite, {self.lost:,} that became so"
            )
        return "\n".join(lines)


def report_of(
    name: str, parts: list[Doubles], by_block: Doubles | None = None, clipped_blocks: int = 0
) -> ErrorReport:
    """Return the report on parts: each has six counts, three sums, and the largest error, added in order."""
    table = np.array([np.zeros(10), *parts])
    size, finite, counted, non_zero, clipped, flushed = map(int, table[:, :6].sum(axis=0))
    signal, noise, error = map(float, np.add.accumulate(table[:, 6:9])[-1])
    largest = float(table[:, 9].max()) if counted else math.nan
    return ErrorReport(
        format=name,
        size=size,
        non_finite=size - finite,
        lost=finite - counted,
        sqnr=sqnr(signal, noise, largest, counted),
        mse=noise / counted if counted else math.nan,
        max_abs_error=largest,
        mean_error=error / counted if counted else math.nan,
        clipped=clipped / max(1, finite),
        flushed=flushed / max(1, non_zero),
        zeros=(finite - non_zero) / max(1, finite),
        clipped_blocks=None if by_block is None else clipped_blocks / max(1, by_block.size),
        by_block=by_block,
    )


def sqnr(signal: float, noise: float, largest: float, counted: int) -> float:
    """Return the ratio of sums of squares in decibels; nan where squares left the range of float64.

    `largest` is other than 0 if any result is inexact, whether its squared error is 0 or not.
    """
    if (largest and not noise) or (noise and math.isinf(signal)):
        return math.nan
    with np.errstate(all="ignore"):
        return float(decibels(signal, noise, counted))


def decibels(signal: Any, noise: Any, counted: Any) -> Any:
    """Return the ratio in decibels: inf without noise, nan where nothing is counted."""
    ratio = 10 * np.log10(np.asarray(signal, np.float64) / np.asarray(noise, np.float64))
    return np.where(np.equal(counted, 0), np.nan, np.where(np.equal(noise, 0), np.inf, ratio))
