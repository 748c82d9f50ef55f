"""Error reports on weights, in sums over their parts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays.measures.errors import decibels, report_of
from lowprec.arrays.threads import share_rows
from lowprec.checkpoints.schemes.sharing import by_block, for_elements, grid_of
from lowprec.kernels.errors import LONGEST, TOTALS, measure, measure_runs
from lowprec.kernels.modes import usual_arithmetic

__all__ = ["Errors"]

Array = npt.NDArray[Any]

#: Values that are added up before others join them.
_PIECE = 1 << 18
#: Values below which the squares of their errors may underflow in float64.
_UNSEEN = float.fromhex("0x1p-465")
#: The least magnitude that float32 rounds to infinity.
_INFINITE = float.fromhex("0x1.ffffffp127")


class Errors:
    """Sums over the parts of a weight, by the kernels of `lowprec.error_report`, for its report.

    Parameters
    ----------
    low, high : float
        The most negative and the largest value of elements, beyond which values are clipped.
    """

    def __init__(self, low: float = -math.inf, high: float = math.inf) -> None:
        self._limits, self._parts = (low, high), list[npt.NDArray[np.float64]]()
        self._blocks = self._exact = self._lost = 0
        self._worst = math.inf

    @usual_arithmetic()
    def add(self, values: Array, elements: Array, sizes: tuple[int, ...] = (), units: Any = 1.0) -> None:
        """Count a part.

        Parameters
        ----------
        values : array of float, shape (...)
        elements : array of float, of that shape
            What they became, over units.
        sizes : tuple of int
            Elements that share a unit along each axis; empty where these are no blocks.
        units : array_like
            In the grid's shape; without blocks one number, or one for each row. Infinite where those of
            readers in float32 are.
        """
        kind = np.float64 if np.float64 in (values.dtype, elements.dtype) else np.float32
        some, theirs = (np.ascontiguousarray(part, kind).reshape(-1) for part in (values, elements))
        grid = grid_of(values.shape, sizes) if sizes else ()
        over = np.asarray(units, np.float64)
        whole = np.ascontiguousarray(np.broadcast_to(over, grid)) if sizes else over
        # A run is what a row has of a block; where rows are no whole runs, each element is one.
        is_run = bool(sizes) and values.shape[-1] % sizes[-1] == 0
        runs = (*values.shape[:-1], grid[-1]) if is_run else values.shape
        of_runs = (*sizes[:-1], 1) if is_run else sizes
        if sizes:
            whole = np.ascontiguousarray(for_elements(whole, runs, of_runs))
        self._parts += _totals(some, theirs, whole.reshape(-1), self._limits)
        most = np.abs(over).max(initial=0) * max(theirs.max(initial=0), -theirs.min(initial=0))
        lost: Any = None
        if not most < _INFINITE:
            each = np.repeat(whole, sizes[-1], -1) if is_run else whole
            lost = np.isfinite(values) & ~(np.abs(elements * each) < _INFINITE)
            self._lost += int(np.count_nonzero(lost))
        if not sizes or not values.size:
            return
        if is_run and sizes[-1] <= LONGEST:
            signal, noise = np.empty(whole.size), np.empty(whole.size)
            flags, over = np.empty((2, whole.size), np.bool_), whole.reshape(-1)
            low, high = self._limits

            def measured(start: int, stop: int) -> int:
                of, each = slice(start, stop), slice(start * sizes[-1], stop * sizes[-1])
                sums, shares = (signal[of], noise[of]), (flags[0, of], flags[1, of])
                measure_runs(some[each], theirs[each], over[of], low, high, *sums, *shares)
                return 0

            share_rows(measured, whole.size, sizes[-1])
            parts = signal.reshape(runs), noise.reshape(runs)
        else:
            of_runs, wide = sizes, values.astype(np.float64)
            each = np.repeat(whole, sizes[-1], -1) if is_run else whole
            parts = wide * wide, (elements * each - wide) ** 2
        signal, noise = (by_block(np.add, part, of_runs).reshape(-1) for part in parts)
        self._blocks += noise.size
        exact = noise == 0
        if values.dtype == np.float64 and ((np.abs(values) < _UNSEEN) & (values != 0)).any():
            each = np.repeat(whole, sizes[-1], -1) if is_run else whole
            apart = elements * each != values
            exact &= by_block(np.add, apart.astype(np.int64), sizes).reshape(-1) == 0
        if lost is not None:
            exact &= by_block(np.add, lost.astype(np.int64), sizes).reshape(-1) == 0
        self._exact += int(np.count_nonzero(exact))
        with np.errstate(all="ignore"):
            ratios = decibels(signal, noise, signal > 0)
        self._worst = min(self._worst, float(np.nanmin(ratios, initial=math.inf)))

    def report(self, note: str = "") -> dict[str, Any]:
        """Return the numbers, as those of `ErrorReport`, and a note; None for what is infinite or of nothing.

        `lost` counts finite values that are NaN or infinite when they are decoded in float32.
        """
        lost = (
            f"{self._lost:,} values become NaN or infinite when they are decoded in float32, as they are so "
            f"near to its largest number; leave the weight out with --exclude, or name another scheme or rule"
        )
        notes = [each for each in (note, self._lost and lost) if each]
        with np.errstate(all="ignore"):
            of = report_of("", self._parts).as_dict()
        return {
            **{key: of[key] for key in ("size", "sqnr")},
            "worst_block": self._worst if math.isfinite(self._worst) else None,
            **{key: of[key] for key in ("clipped", "flushed")},
            "blocks": self._blocks,
            "exact_blocks": self._exact,
            "lost": self._lost,
            **({"note": "; ".join(notes)} if notes else {}),
        }


def _totals(some: Array, theirs: Array, over: Array, limits: tuple[float, float]) -> list[Array]:
    """Return the totals of pieces of one size, by all threads: sums do not depend on how many there are."""
    run = some.size // max(over.size, 1)
    piece = _PIECE if over.size == 1 else max(_PIECE // max(run, 1), 1) * run
    found = [np.empty(TOTALS) for _ in range(0, some.size, piece or 1)]

    def measured(start: int, stop: int) -> int:
        for place in range(start, stop):
            first, last = place * piece, min((place + 1) * piece, some.size)
            units = over if over.size == 1 else over[first // run : last // run]
            measure(some[first:last], theirs[first:last], units, *limits, found[place])
        return 0

    if found:
        share_rows(measured, len(found), piece)
    return found
