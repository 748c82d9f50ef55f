"""Products and steps of dot units as parts of their results: features, and faults of single steps."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lowprec.arrays.convert import encode
from lowprec.spec.accumulation import Accumulation, Window
from lowprec.spec.projection import Projection
from lowprec.verify.codes.values import doubles
from lowprec.verify.questions.dot_operands import Given, in_blocks
from lowprec.verify.questions.features import Feature, exponents, has_fields, of_codes
from lowprec.verify.questions.parts import PartEdit, ResultParts, Rows
from lowprec.verify.questions.question import Array, Batch, Change
from lowprec.verify.questions.stages import OF_A_STEP
from lowprec.verify.questions.step_cuts import LANE, Numbers
from lowprec.verify.questions.step_faults import step_faults
from lowprec.verify.questions.step_features import of_each_step, of_step
from lowprec.verify.questions.step_model import Formats, folded, stepped
from lowprec.verify.questions.step_trees import is_tree, nodes_of
from lowprec.verify.questions.sum_edits import of_rounding

__all__ = ["DotParts"]


@dataclass(frozen=True)
class DotParts:
    """The products and the steps of dot products whose results are compared."""

    rows: Callable[[Array], Batch]  #: results at some places, which may repeat each other
    how: Accumulation
    operands: Formats
    read: Formats  #: formats that operands are given in, if they are codes
    length: int  #: products of a result
    addend: bool

    @property
    def products(self) -> ResultParts:
        """The products of each result."""
        found = functools.partial(_of_terms, how=self.how, operands=self.operands, read=self.read)
        return ResultParts("of products", self.length, self.rows, found)

    def edits_of_steps(self) -> Iterator[Change]:
        """Yield faults of steps, or of a tree's nodes, of which a rule may tell those that have them."""
        how, window = self.how, self.how.accumulator
        step = window.step if isinstance(window, Window) else max(how.term, 1)
        count = -(-self.length // step)
        if is_tree(how):
            count = sum(map(bool, nodes_of(how, self.length, self.addend)))
        if count < 2 or how.order.name == "chunked":
            return
        found = functools.partial(_of_steps, how=how, operands=self.operands, read=self.read)
        steps = ResultParts("in sums" if is_tree(how) else "in steps", count, self.rows, found)
        for change in (
            *step_faults(how, self.operands, self.length, addend=self.addend),
            *of_rounding(how.summed[0]),
        ):
            if change.field.startswith("stage.") and dict(change.value).keys() <= OF_A_STEP:
                yield _in_steps(change, steps, functools.partial(of_step, how))


def _of_steps(given: Given, how: Accumulation, operands: Formats, read: Formats) -> Iterator[Feature]:
    left, right = in_blocks(given, how, read)
    return of_each_step(left, right, given.addend, how, operands)


def _in_steps(change: Change, steps: ResultParts, found: Callable[[int, Any, Any], list[Feature]]) -> Change:
    """Return a fault of steps as an edit of some of them.

    `found` gives the features of a step, from its number, its terms and its sum: what a faulty step makes of
    the next ones is not what `steps` knows of them.
    """

    def at(where: Callable[[int, Any, Any], Array]) -> Change:
        return replace(change, value=(*change.value, ("at", where), ("together", True)))

    def of(mask: Array) -> Change:
        return at(lambda number, *_: mask[:, number])

    def ruled(where: Rows) -> Change:
        return at(lambda *step: where(found(*step)))

    return Change("parts", PartEdit(steps, of, None, ruled), change.words, 3)


def _of_terms(given: Given, how: Accumulation, operands: Formats, read: Formats) -> Iterator[Feature]:
    """Yield features of the products of rows, one row after the other."""
    x, y = doubles(given.x), doubles(given.y)
    rows, count = x.shape
    lane = np.tile(np.arange(count), rows)
    yield Feature("the lane", lane)
    for bits in range(1, 4):
        yield Feature(f"the lane modulo {1 << bits}", lane & (1 << bits) - 1)
    for name, side, fmt in zip("xy", (x, y), operands, strict=True):
        if fmt is not None and has_fields(fmt) and fmt.width <= 32:
            codes = np.asarray(encode(side.reshape(-1), fmt, projection=Projection(nan="max")))
            yield from of_codes(name, codes, fmt)
    with np.errstate(all="ignore"):
        products = (x * y).reshape(-1)
        whole = np.abs(np.frexp(x)[0] * np.frexp(y)[0]).reshape(-1)
    yield Feature("the product is negative", np.signbit(products))
    yield Feature("the product is zero", products == 0)
    yield Feature("the product is not finite", ~np.isfinite(products))
    least = [-4096 if fmt is None else fmt.emin for fmt in operands]
    own = [np.maximum(exponents(side), low).reshape(-1) for side, low in zip((x, y), least, strict=True)]
    yield Feature("the sum of the factors' exponents", own[0] + own[1])
    yield Feature("the sum of the factors' exponents is odd", (own[0] + own[1]) & 1 == 1)
    yield Feature("the exponent of x less that of y", own[0] - own[1])
    small = [
        (np.abs(side) < 2.0**low).reshape(-1) & (side != 0).reshape(-1)
        for side, low in zip((x, y), least, strict=True)
    ]
    yield Feature("a factor is subnormal", small[0] | small[1])
    plain = np.isfinite(products) & (products != 0)
    yield Feature("the significands' product is at least 2", plain & (whole >= 0.5))
    if given.addend is not None:
        minus = np.repeat(np.signbit(doubles(given.addend.reshape(-1))), count)
        yield Feature("the product has the sign of the addend", np.signbit(products) == minus)
    if folded(how) is how:
        yield from _of_alignment(given, how, operands, read, (rows, count))


def _of_alignment(
    given: Given, how: Accumulation, operands: Formats, read: Formats, shape: tuple[int, int]
) -> Iterator[Feature]:
    """Yield features of terms in their steps: how they are aligned, and signs."""
    found = {name: np.zeros(shape, np.int64) for name in ("shift", "largest", "sign")}

    def running(terms: Numbers) -> Numbers:
        lanes = (terms.marks >> LANE) - 1
        nonzero = terms.significand != 0
        largest = np.where(nonzero, terms.exponent, -4096).max(1)[:, None]
        shifts = np.where(nonzero, largest - terms.exponent, 0)
        held = {
            "shift": shifts,
            "largest": nonzero & (shifts == 0),
            "sign": terms.negative == terms.negative[:, -1:],
        }
        here = lanes >= 0
        at = np.nonzero(here)[0], lanes[here]
        for name, values in held.items():
            found[name][at] = values[here]
        return terms

    left, right = in_blocks(given, how, read)
    stages: dict[str, Any] = {"running": running, "together": True, "numbered": True}
    stepped(left, right, given.addend, how, operands, stages)
    yield Feature("the shift of the product", found["shift"].reshape(-1))
    yield Feature("the product has the largest exponent", found["largest"].reshape(-1) == 1)
    yield Feature("the product has the sign of the running sum", found["sign"].reshape(-1) == 1)
