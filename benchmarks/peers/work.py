"""What peers are told to do, and what they offer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lowprec.arrays.checks import dtype
from lowprec.spec.accumulation import Accumulation

__all__ = ["COMPARISONS", "CONVERSIONS", "OPERATIONS", "Way", "Work", "native"]

Array = npt.NDArray[Any]

#: What `Work.verb` may be, beside "blocks" and, with `how`, the variants of products of matrices.
CONVERSIONS = ("encode", "decode", "quantize")
OPERATIONS = ("add", "multiply", "divide", "sqrt", "fma")
COMPARISONS = ("less", "less_equal", "equal", "minimum")


class Work(NamedTuple):
    """What is to be done to arrays of values or, in decoding, operations and products, of codes.

    Blocks lie along the last axis. Results of operations are codes of the same format, to nearest even.
    """

    verb: str
    operands: tuple[Array, ...]
    fmt: Any  #: a Format, or for blocks a BlockFormat
    rounding: str = "nearest_even"  #: or "stochastic"
    threads: int = 1
    how: Accumulation | None = None  #: of products

    def corner(self, widest: int, most: int) -> tuple[tuple[Array, Array], float]:
        """Return as many first rows and columns as take at most `most` products, and their share of all.

        >>> x, y = np.zeros((384, 768), np.uint8), np.zeros((768, 384), np.uint8)
        >>> parts, share = Work("exact", (x, y), None).corner(192, 192**3)
        >>> [part.shape for part in parts], share
        ([(48, 768), (768, 192)], 0.0625)
        """
        x, y = self.operands
        columns = min(widest, y.shape[1])
        rows = min(widest, len(x), max(1, most // (columns * len(y))))
        parts = np.ascontiguousarray(x[:rows]), np.ascontiguousarray(y[:, :columns])
        return parts, rows * columns / (len(x) * y.shape[1])


class Way(NamedTuple):
    """One way to do it: into kept memory of its own (`out`) or new memory, and how to read the result."""

    out: bool
    call: Callable[[], Any]
    read: Callable[[Any], Array]
    share: float = 1.0  #: part of the work that is done


def native(fmt: Any) -> np.dtype[Any] | None:
    """Return the type that NumPy or ml_dtypes has for a format, or None."""
    try:
        return dtype(fmt)
    except ValueError:
        return None
