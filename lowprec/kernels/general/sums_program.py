"""Programs of dot products in 64-bit lanes.

Floor 2b. Imports the kernels; never the oracle, which checks them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.kernels.dots import DotProgram
from lowprec.kernels.engine import Rows
from lowprec.kernels.general.program import is_usual, readable, reader
from lowprec.kernels.general.sums import NO_BLOCKS, factors, kernel, serves
from lowprec.kernels.lower.dot import additions, lower_how, lower_stages
from lowprec.kernels.lower.scalar import lower_target
from lowprec.kernels.request import Dot
from lowprec.spec.accumulation import Accumulation

__all__ = ["Sums", "is_usual_sum", "lower"]

Codes = npt.NDArray[Any]


def lower(request: Dot) -> Sums | None:
    """Return the program of a request, or None where sums are not exact in lanes."""
    plain = not request.block and request.tensor == 1
    return Sums(request) if plain and serves(request.accumulation, request.x, request.y) else None


def is_usual_sum(how: Accumulation) -> bool:
    """Return whether all places of an accumulation are `usual` to kernels."""
    places = (how.product, how.accumulator, how.total, how.output)
    return all(is_usual([], place[0], lower_target(*place)) for place in places if isinstance(place, tuple))


class Sums(DotProgram):
    """Dot products of rows in no blocks, whose sums are exact in lanes until they are rounded."""

    rows, all_from = 64, 1 / 6

    def __init__(self, request: Dot) -> None:
        how = request.accumulation
        self._formats = request.x, request.y
        self._order, self._first = how.order, how.addend == "first"
        self._how = lower_how(how, request.x, request.y, request.addend)
        self._stages = lower_stages(how, request.addend)
        self._usual = is_usual_sum(how)
        self._stochastic = how.rounds_randomly

    def part(
        self, x: Rows, y: Rows, addends: Codes, out: Codes, key: int, first: int, paired: bool
    ) -> None:  # fmt: skip
        """Write the codes of all dot products of rows of x and of y, or of row i of both if `paired`."""
        sides, finite = [], True
        for rows, fmt in zip((x, y), self._formats, strict=True):
            words = np.array(readable(rows.codes, fmt).T, np.uint64, order="C")
            finite &= factors(words.reshape(-1), reader(fmt))
            sides.append(words)
        made = np.empty(out.size, np.uint64)
        steps = additions(self._order, x.codes.shape[1], True, addends.size > 0 and self._first)
        kernel(self._usual, bool(finite), self._stochastic)(
            *sides, NO_BLOCKS, addends.reshape(-1), made, self._how, self._stages,
            steps, np.uint64(key), np.uint64(first), out.shape[1], paired,
        )  # fmt: skip
        out[...] = made.reshape(out.shape)
