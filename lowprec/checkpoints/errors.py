"""What became of weights, in sums over their parts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays.errors import decibels
from lowprec.kernels.modes import usual_arithmetic

__all__ = ["Errors"]

Array = npt.NDArray[Any]


class Errors:
    """Sums over the parts of a weight, for its report."""

    def __init__(self) -> None:
        self._signal = self._noise = 0.0
        self._count = self._clipped = self._flushed = self._blocks = self._exact = 0
        self._worst = math.inf

    @usual_arithmetic()
    def add(self, values: Array, results: Array, sizes: tuple[int, ...], limits: Array | None = None) -> None:
        """Count a part; `limits` are the largest magnitudes that blocks hold, for each element."""
        wide, found = values.astype(np.float64), results.astype(np.float64)
        signal, noise = wide * wide, (found - wide) ** 2
        self._signal, self._noise = self._signal + float(signal.sum()), self._noise + float(noise.sum())
        self._count += values.size
        self._flushed += int(np.count_nonzero((results == 0) & (values != 0)))
        if limits is not None:
            self._clipped += int(np.count_nonzero(np.abs(wide) > limits))
        if sizes and values.size:
            sums = [_by_block(part, sizes) for part in (signal, noise)]
            self._blocks += sums[1].size
            self._exact += int(np.count_nonzero(sums[1] == 0))
            with np.errstate(all="ignore"):
                ratios = decibels(sums[0], sums[1], sums[0] > 0)
            self._worst = min(self._worst, float(np.nanmin(ratios, initial=math.inf)))

    def report(self) -> dict[str, Any]:
        """Return the numbers, None for those that are infinite or of nothing."""
        with np.errstate(all="ignore"):
            sqnr = float(decibels(self._signal, self._noise, self._count))
        return {
            "size": self._count,
            "sqnr": sqnr if math.isfinite(sqnr) else None,
            "worst_block": self._worst if math.isfinite(self._worst) else None,
            "clipped": self._clipped / max(self._count, 1),
            "flushed": self._flushed / max(self._count, 1),
            "blocks": self._blocks,
            "exact_blocks": self._exact,
        }


def _by_block(numbers: Array, sizes: tuple[int, ...]) -> Array:
    for axis, size in enumerate(sizes):
        length = numbers.shape[axis]
        if size > 1:
            numbers = np.add.reduceat(numbers, np.arange(0, length, min(size, max(length, 1))), axis=axis)
    return numbers
