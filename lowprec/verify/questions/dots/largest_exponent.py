"""Faults of the search for the largest exponent of a step: terms that do not count, or count otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from lowprec.verify.questions.dots.step_cuts import Numbers, which_terms
from lowprec.verify.questions.dots.step_orders import nonzero
from lowprec.verify.questions.question import Array

__all__ = ["cut_when_seen", "halves_compared", "smaller_counted", "uncounted", "zeros_counted"]

#: Exponent below all others, of terms that do not count.
_NONE = -(1 << 12)


def uncounted(what: str) -> Iterator[tuple[str, Callable[[Array], dict[str, Any]]]]:
    """Yield terms of some lanes that the largest exponent is not of, as words and what makes the stages."""
    clamped = ", and aligned by it where they exceed it"
    for beyond, above in (
        ("", {}), (", and lost where they exceed it", {"above": _lost}), (clamped, {"above": _clamped})
    ):  # fmt: skip
        for begin, least in (({"empty": int}, "0"), ({}, "the least")):
            words = f"left out of the largest exponent, which is {least} where nothing else counts"
            yield f"{what} {words}{beyond}", partial(_uncounted, stages={**begin, **above})


def zeros_counted(where: Array | None) -> dict[str, Any]:
    """Return the stage in which zeros, or those of some lanes, count for the largest exponent."""
    if where is None:
        return {"counts": lambda terms: terms.significand >= 0}
    return {"counts": lambda terms: nonzero(terms) | which_terms(terms, where)}


def cut_when_seen(bits: int, where: Array) -> dict[str, Any]:
    """Return the stage in which the largest exponent is searched without their last bits."""
    return {
        "seen": lambda terms: np.where(
            which_terms(terms, where), terms.exponent >> bits << bits, terms.exponent
        )
    }


def smaller_counted(where: Array) -> dict[str, Any]:
    """Return the stage in which of two neighbours the one with the smaller exponent counts."""

    def counts(terms: Numbers) -> Array:
        which, here = nonzero(terms), which_terms(terms, where)
        pairs = which.shape[1] - 1 & ~1
        left, right = np.arange(0, pairs, 2), np.arange(1, pairs, 2)
        both = which[:, left] & which[:, right] & here[:, left] & here[:, right]
        larger = terms.exponent[:, left] > terms.exponent[:, right]
        which[:, left] &= ~(both & larger)
        which[:, right] &= ~(both & ~larger)
        return which

    return {"counts": counts}


def halves_compared(bits: int, where: Array) -> dict[str, Any]:
    """Return the stage in which one half of some lanes counts: where exponents lack so many last bits."""

    def counts(terms: Numbers) -> Array:
        which, here = nonzero(terms), which_terms(terms, where)
        first = here & (2 * np.cumsum(here, 1) <= here.sum(1)[:, None])
        last = here & ~first
        seen = [np.where(which & half, terms.exponent, _NONE).max(1) >> bits for half in (first, last)]
        return np.asarray(which & ~np.where((seen[1] > seen[0])[:, None], first, last))

    return {"counts": counts}


def _uncounted(where: Array, stages: dict[str, Any]) -> dict[str, Any]:
    return {"counts": lambda terms: nonzero(terms) & ~which_terms(terms, where), **stages}


def _lost(terms: Numbers, largest: Array) -> Numbers:
    return terms._replace(significand=np.where(terms.exponent > largest[:, None], 0, terms.significand))


def _clamped(terms: Numbers, largest: Array) -> Numbers:
    return terms._replace(last=terms.last - np.maximum(terms.exponent - largest[:, None], 0))
