"""Random integers that stochastic rounding takes otherwise than they are given, as edits for conditions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

import numpy as np

from lowprec.verify.questions.question import Array, Change

__all__ = ["of_integers"]

#: Takes the random integers of some lines.
Take = Callable[[Array], Array]


def of_integers(bits: int) -> Iterator[Change]:
    """Yield changes of random integers of so many bits, each of a line, and those of the line before."""
    top = (1 << bits) - 1
    changed: dict[str, Callable[[Array], Array]] = {
        "less one: a sum must exceed the next value, not reach it": lambda r: np.maximum(r, 1) - 1,
        "and one more": lambda r: np.minimum(r, top - 1) + 1,
        "with all bits inverted": lambda r: r ^ top,
        "with their bits in reverse order": functools.partial(_reversed, bits=bits),
    }
    for bit in range(bits):
        changed[f"with bit {bit} stuck at 0"] = functools.partial(np.bitwise_and, top ^ 1 << bit)
        changed[f"with bit {bit} stuck at 1"] = functools.partial(np.bitwise_or, 1 << bit)
    for lost in range(1, bits):
        changed[f"without their last {lost} bit{'s' * (lost > 1)}"] = functools.partial(
            np.bitwise_and, top >> lost << lost
        )
        changed[f"shifted {lost} bit{'s' * (lost > 1)} down"] = functools.partial(_shifted, by=lost)
    for words, change in changed.items():
        yield Change("integers", functools.partial(_edited, change=change), f"random integers {words}", 2)
    yield Change("integers", _former, "random integers of the line before", 2)


def _edited(take: Take, places: Array, change: Callable[[Array], Array]) -> Array:
    return change(take(places))


def _former(take: Take, places: Array) -> Array:
    return take(np.maximum(places - 1, 0))


def _shifted(integers: Array, by: int) -> Array:
    return integers >> by


def _reversed(integers: Array, bits: int) -> Array:
    made = np.zeros_like(integers)
    for bit in range(bits):
        made |= (integers >> bit & 1) << bits - 1 - bit
    return made
