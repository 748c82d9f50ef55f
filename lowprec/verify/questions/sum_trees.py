"""Sums by a tree of adders, one of which, or those of one level, round in another mode."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator

import numpy as np

from lowprec.arrays.arith import add, multiply
from lowprec.arrays.checks import code_dtype
from lowprec.arrays.convert import encode
from lowprec.spec.accumulation import Accumulation
from lowprec.spec.format import Carrier
from lowprec.spec.order import PAIRWISE
from lowprec.spec.rounding import MODES, Rounding
from lowprec.verify.codes.values import as_doubles, doubles
from lowprec.verify.questions.causes import in_words
from lowprec.verify.questions.dot_operands import Given
from lowprec.verify.questions.question import Array, Change

__all__ = ["of_adders", "tree_sums"]

#: Adder of a tree: its level, its index in the level or None for the whole level, and its rounding mode.
Adder = tuple[int, int | None, Rounding]


def of_adders(given: Given, right: Array, how: Accumulation) -> Iterator[Change]:
    """Yield a change for each adder, level and other mode, if the unchanged tree gives the right codes."""
    plain = how.product is not None and isinstance(how.accumulator, tuple) and how.output == how.accumulator
    if how.order != PAIRWISE or how.split or how.term or how.addend != "first" or not plain:
        return
    if how.machine or how.rounds_randomly or isinstance(how.output[0], Carrier):
        return
    length = given.x.shape[1]
    if (
        given.addend is None
        or given.scales is not None
        or (tree_sums(given.x, given.y, given.addend, how) != right).any()
    ):
        return
    modes = [mode for mode in MODES if mode != how.output[1].rounding]
    for level in range(length.bit_length()):
        which: dict[int | None, str] = {None: f"all sums of level {level + 1} of the tree"}
        for place in range((length + 1 + (1 << level) - 1 >> level) // 2):
            first = place << level + 1
            last = min(first + (2 << level) - 1, length)
            which[place] = f"the sum of terms {first} to {last}, of which the addend is 0"
        for (at, words), mode in itertools.product(which.items(), modes):
            yield Change("adder", (level, at, mode), f"{words}: {in_words(mode)}", 2)


def tree_sums(x: Array, y: Array, addend: Array, how: Accumulation, adder: Adder | None = None) -> Array:
    """Return the codes of an addend plus rounded products, summed by a tree; `adder` has its own mode."""
    assert how.product is not None, "asked of rounded products"
    (fmt, rule), into = how.output, how.product
    codes = np.asarray(multiply(x, y, into[0], projection=into[1], dtype=code_dtype(into[0])))
    terms = [doubles(addend), *as_doubles(codes, into[0]).T]
    level = 0
    while len(terms) > 1:
        made = []
        for place, pair in enumerate(zip(terms[::2], terms[1::2], strict=False)):
            own = adder is None or adder[0] != level or adder[1] not in (place, None)
            mode = rule.rounding if own else adder[2]  # type: ignore[index]
            other = dataclasses.replace(rule, rounding=mode)
            made.append(as_doubles(np.asarray(add(*pair, fmt, projection=other, dtype=code_dtype(fmt))), fmt))
        terms = made + terms[2 * len(made) :]
        level += 1
    return np.asarray(encode(terms[0], fmt, projection=rule))
