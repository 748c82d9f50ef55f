"""Stages of a step, and faults as changes that put functions in their places."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from lowprec.verify.questions.question import Change, Changes

__all__ = ["OF_A_STEP", "Stages", "fault", "stages_of"]

#: Functions that a fault puts in the place of what the accumulation says, by the stage that each replaces:
#:
#: step : the only step of which the others hold, counted from 0, or from the end as -1.
#: together : if there, a function has a word for each row: each step is taken by all rows at once.
#: at : in which rows the faults hold, from the number, the terms and the sum of a step, or node.
#: numbered : if there, marks of products have their numbers among all products.
#: values : the values of x and y.
#: x, y : factors as they are read, and their format.
#: scales : the scales of the blocks of x and of y. scale_lanes : the lanes that these reach, if not all.
#: product_mode : the rounding mode of products, and the lanes that have it.
#: products : significands of products, and the exponents of their last bits, from the factors.
#: group_parts : a number of products, and what changes their sums before these are added to those of groups.
#: scale_products : products of the significands of the scales of x and y, from these.
#: unscaled : if there, the exponents that are searched for the largest one are without scales.
#: addend_scaled : sides whose first scale the addend takes. mode : the rounding mode of sums.
#: running : terms of a step, in whose last column the addend or the running sum is.
#: addend : those of the first step alone.
#: counts : which terms the largest exponent is of.
#: seen : their exponents, as they are seen there.
#: empty : the exponent where no term of these counts.
#: above : terms of which some have an exponent above the largest: by default they are shifted to the left.
#: total : the two words of the sum.
#: before : the sum before it is rounded.
#: wrapped : a format with more exponents, and the bits of exponents that are kept.
#: after : codes of the rounded sum, if it is a number. codes : codes of every sum.
#: zero : which sums that are zero are negative.
#: ends : what is not finite.
#: settled : what becomes of it.
#: nan : which NaNs are negative.
#: output : codes of the last sum, before they are converted to another output format.
Stages = Mapping[str, Any]

#: Stages of steps: those of operands and scales are the same for all of them.
OF_A_STEP = {
    "mode",
    "running",
    "addend",
    "counts",
    "seen",
    "empty",
    "above",
    "total",
    "before",
    "after",
    "zero",
}
OF_A_STEP |= {"codes", "ends", "settled", "nan", "wrapped"}


def stages_of(changes: Changes) -> Stages | None:
    """Return the stages with the faults among some changes; None where none is one."""
    faults = [change.value for change in changes if change.field.startswith("stage.")]
    found: dict[str, Any] = {}
    for name, stage in itertools.chain.from_iterable(faults):
        found[name] = partial(_one_by_one, found[name], stage) if name in _CHAINED & found.keys() else stage
    return found if faults else None


#: Stages of which several follow each other.
_CHAINED = {"scales", "running", "before"}


def _one_by_one(first: Callable[..., Any], then: Callable[..., Any], *given: Any) -> Any:
    made = first(*given)
    return then(*made) if len(given) > 1 else then(made)


def fault(words: str, cost: int = 1, /, **stages: Any) -> Change:
    """Return the change that replaces some stages of a step."""
    return Change(f"stage.{next(iter(stages))}", tuple(stages.items()), words, cost)
