"""Programs of dot products in 64-bit lanes.

Floor 2b. Imports the kernels; never the oracle, which checks them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.kernels.engine import Rows
from lowprec.kernels.general.program import is_usual, readable, reader
from lowprec.kernels.general.sums import factors, kernel
from lowprec.kernels.lower.dot import lower_how, lower_stages
from lowprec.kernels.lower.scalar import lower_target
from lowprec.kernels.request import Dot

__all__ = ["Sums"]

Codes = npt.NDArray[Any]


class Sums:
    """Dot products of rows whose sums are exact in lanes until they are rounded; see `sums.serves`."""

    partial = False

    def __init__(self, request: Dot) -> None:
        how = request.accumulation
        given = (how.product, how.accumulator, how.total, how.output)
        places = [place for place in given if isinstance(place, tuple)]
        self._formats = request.x, request.y
        self._how = lower_how(how, request.x, request.y, request.addend)
        self._stages = lower_stages(how, request.addend)
        self._usual = all(is_usual([], fmt, lower_target(fmt, rule)) for fmt, rule in places)
        self._stochastic = how.rounds_randomly

    def run(self, x: Rows, y: Rows, addends: Codes, out: Codes, key: int, first: int, paired: bool) -> None:
        """Write the codes of all dot products of rows of x and of y, or of row i of both if `paired`."""
        sides, finite = [], True
        for rows, fmt in zip((x, y), self._formats, strict=True):
            words = np.array(readable(rows.codes, fmt).T, np.uint64, order="C")
            finite &= factors(words.reshape(-1), reader(fmt))
            sides.append(words)
        made = np.empty(out.size, np.uint64)
        kernel(self._usual, bool(finite), self._stochastic)(
            *sides, addends.reshape(-1), made, self._how, self._stages, np.uint64(key), np.uint64(first),
            out.shape[1], paired,
        )  # fmt: skip
        out[...] = made.reshape(out.shape)
