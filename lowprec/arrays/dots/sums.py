"""Operations on the sums of dot products: what a library does with them before they are its results.

Floor 3.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from lowprec.arrays import calls
from lowprec.arrays.checks import Array, Operand, code_dtype, values_operand
from lowprec.kernels.engine import Backend
from lowprec.kernels.request import CONVERT
from lowprec.spec.format import Format
from lowprec.spec.order import Split
from lowprec.spec.projection import DEFAULT, Projection
from lowprec.spec.rounded import Rounded, to_nearest

__all__ = ["PartialSum", "as_values", "coded", "combined", "computed", "rounded_codes"]

T = TypeVar("T")


def coded(codes: Array, fmt: Format) -> Operand:
    """Return an operand from the codes of a format."""
    narrow = codes.astype(code_dtype(fmt))
    return Operand(narrow, fmt, narrow, True)


def computed(operation: str, operands: Sequence[Operand], into: Rounded, backend: Backend | None) -> Array:
    """Return the codes of an operation's results, rounded once."""
    fmt, rule = into
    made = calls.elementwise(
        operation, operands, fmt, rule, code_dtype(fmt), None, what=repr(fmt.name), backend=backend
    )
    return np.asarray(made)


def rounded_codes(
    values: npt.ArrayLike, into: Rounded, backend: Backend | None, name: str = "addend"
) -> Array:
    """Return the codes of values, rounded to nearest as every number that is added to sums is."""
    return computed(CONVERT, [values_operand(values, name)], to_nearest(into), backend)


def as_values(
    codes: Array, place: Rounded, given: np.dtype[Any], carrier: Format | None, backend: Backend | None
) -> Array:
    """Codes of a format in the type that is asked for: the codes themselves, or values in a carrier."""
    fmt, rule = place
    made = codes.astype(code_dtype(fmt))
    if carrier is None:
        return made.view(given)
    keeps = DEFAULT if rule.nan_code is None else Projection(nan_payload="first")
    return np.asarray(calls.convert(Operand(made, fmt, made, True), carrier, keeps, given, backend=backend))


@dataclass(frozen=True, eq=False)
class PartialSum:
    """The sum of a split, or of several."""

    operand: Operand
    empty: bool  #: whether it has no products


def combined(sums: list[PartialSum], split: Split, backend: Backend | None) -> Operand:
    """Return the total of the sums of splits, added in the split's order."""
    into = split.total
    assert into is not None, "an accumulation has it"

    def added(first: PartialSum, second: PartialSum) -> PartialSum:
        x, y = first.operand, second.operand
        made = coded(computed("add", [x, y], into, backend), into[0])
        if second.empty and made.fmt == x.fmt and made.codes.tobytes() == x.codes.tobytes():
            return first
        return PartialSum(made, first.empty and second.empty)

    known = functools.cache(added)  # of sums without products: there may be thousands

    def add(first: PartialSum, second: PartialSum) -> PartialSum:
        return known(first, second) if second.empty else added(first, second)

    return _in_order(sums, split, add).operand


def _in_order(sums: list[T], split: Split, add: Callable[[T, T], T]) -> T:
    """Add sums in the order of a split."""
    if split.combine == "sequential":
        return functools.reduce(add, sums)
    if split.combine == "pairwise":
        while len(sums) > 1:
            pairs = [sums[i : i + 2] for i in range(0, len(sums), 2)]
            sums = [add(*pair) if len(pair) == 2 else pair[0] for pair in pairs]
        return sums[0]
    *others, last = sums
    slots = others[: split.slots]
    for number, one in enumerate(others[split.slots :]):
        place = number % split.slots
        slots[place] = add(slots[place], one)
    for slot in slots:
        last = add(last, slot)
    return last
