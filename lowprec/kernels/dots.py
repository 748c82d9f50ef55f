"""Programs of dot products: what engines lower `Dot` requests to, and how these go through rows.

Floor 2b. Imports spec and NumPy.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.kernels.engine import Rows

__all__ = ["DotProgram", "Share", "fill_places"]

Array = npt.NDArray[Any]

#: Calls part(start, stop) for ranges of rows, each as expensive as so many elements, in threads or not.
Share = Callable[[Callable[[int, int], int], int, int], int]

#: Outputs that are computed together, where they are one by one.
_TOGETHER = 4096


class DotProgram(abc.ABC):
    """Program that an engine lowers a `Dot` request to."""

    rows = 1  #: a call prepares y once: it is worth it for so many rows of x
    all_from = 1.0  #: where a larger share than this of outputs is asked for, all are computed sooner

    def run(
        self, x: Rows, y: Rows, addends: Array, out: Array, key: int, first: int, paired: bool, share: Share
    ) -> None:
        """Write the codes of all dot products of rows of x and of y, or of row i of both if `paired`.

        `addends` are codes of the shape of `out`, or none. Random integers are those of `key`, of outputs
        that are counted from number `first` on.
        """

        def part(start: int, stop: int) -> int:
            if start < stop:
                some = slice(start, stop)
                theirs, given = y.at(some) if paired else y, addends[some] if addends.size else addends
                self.part(x.at(some), theirs, given, out[some], key, first + start * out.shape[1], paired)
            return 0

        # A row costs its products: threads are worth it from some thousands of those on.
        share(part, len(out), out.shape[1] * max(x.codes.shape[1], 1))

    @abc.abstractmethod
    def part(
        self, x: Rows, y: Rows, addends: Array, out: Array, key: int, first: int, paired: bool
    ) -> None:  # fmt: skip
        """Write the codes of some rows, in one thread; see `run`."""


def fill_places(
    program: DotProgram, places: Array, x: Rows, y: Rows, addends: Array, out: Array, key: int, share: Share
) -> None:
    """Write the outputs of these rows and columns, an array of shape (count, 2), by another program."""
    for start in range(0, len(places), _TOGETHER):
        i, j = np.transpose(places[start : start + _TOGETHER])
        made = np.zeros((len(i), 1), np.uint64)
        given = addends[i, j][:, None] if addends.size else addends
        program.run(x.at(i), y.at(j), given, made, key, 0, True, share)
        out[i, j] = made[:, 0]
