"""Values of a function at every operand of an array, as columns of numbers.

Floor 2b. Imports NumPy.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lowprec.kernels.functions.enclosures import Value
from lowprec.kernels.functions.values import value_of
from lowprec.kernels.lower.kinds import NAN
from lowprec.kernels.modes import usual_modes

__all__ = ["Columns", "columns_of", "value_at"]

Array = npt.NDArray[Any]

#: Distinct rows of operands up to which their values are kept for the next call, and how often.
_KEPT_ROWS, _KEPT = 1 << 16, 4


class Columns(NamedTuple):
    """Numbers, one in each place: see `enclosures.Value`."""

    kinds: Array
    negatives: Array
    highs: Array
    lows: Array
    exponents: Array
    raised: Array

    def at(self, places: Array) -> Columns:
        """Return the numbers at some places."""
        return Columns(*(column[places] for column in self))


_TYPES = (np.int64, np.bool_, np.uint64, np.uint64, np.int64, np.uint8)


@usual_modes()
def columns_of(name: str, operands: list[Array]) -> Columns:
    """Return the value of a function for each row of float64 operands, each distinct row once."""
    words = [np.ascontiguousarray(operand).view(np.uint64) for operand in operands]
    rows = np.stack(words, axis=1)
    if len(words) == 1:
        distinct, places = np.unique(rows[:, 0], return_inverse=True)
        distinct = distinct[:, None]
    else:
        distinct, places = np.unique(rows, axis=0, return_inverse=True)
    enclose = _kept if len(distinct) <= _KEPT_ROWS else _columns
    return enclose(name, len(words), distinct.tobytes()).at(places.reshape(-1))


def _columns(name: str, operands: int, rows: bytes) -> Columns:
    """Return the value of a function for each row, given as the bytes of float64 numbers."""
    numbers = [value_at(name, *row) for row in np.frombuffer(rows).reshape(-1, operands).tolist()]
    fields = list(zip(*numbers, strict=True)) or [()] * len(_TYPES)
    columns: Any = [np.array(words, kind) for words, kind in zip(fields, _TYPES, strict=True)]
    return Columns(*columns)


#: A comparison asks for the same operands under many projections.
_kept = functools.lru_cache(_KEPT)(_columns)


def value_at(name: str, *operands: float) -> Value:
    """Return the value of a function at float64 numbers or NaNs."""
    if any(map(math.isnan, operands)) and not _is_settled(name, *operands):
        return Value(NAN, False)
    return value_of(name, *operands)


def _is_settled(name: str, *operands: float) -> bool:
    """Return whether a function has a value beside a quiet NaN."""
    if name == "hypot":
        return any(map(math.isinf, operands))
    return name == "pow" and (operands[0] == 1 or operands[1] == 0)
