"""Values of codebooks by random integers: the one below a number, or the next.

Floor 2b. Imports numba through `jit`; never the oracle, which checks it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lowprec.kernels.jit import jit
from lowprec.kernels.table.steps import Ranges
from lowprec.kernels.vector.rounding import drawn_farther

__all__ = ["Steps", "draw"]

Codes = npt.NDArray[Any]


class Steps(NamedTuple):
    """Steps of numbers: which one a word lies in, and of each the value below, the gap, and both results."""

    ranges: Ranges
    numbers: tuple[Codes, Codes, Codes, Codes]


@jit
def draw(
    numbers: Codes, places: Codes, random: Codes, lows: Codes, gaps: Codes, near: Codes, far: Codes,
    whole: float, variant: int, out: Codes,
) -> None:  # fmt: skip
    """Write the nearer or the farther result of each number's step, by random integers below `whole`."""
    for i in range(out.size):
        place = np.int64(places[i])
        farther = drawn_farther(abs(numbers[i]), lows[place], gaps[place], random[i], whole, variant)
        out[i] = far[place] if farther else near[place]
