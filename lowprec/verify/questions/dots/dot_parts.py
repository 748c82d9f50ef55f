"""Products and steps of dot units as parts of their results: features, and faults of single steps."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lowprec.arrays.convert import encode
from lowprec.spec.accumulation import Accumulation, Window
from lowprec.spec.format import Format
from lowprec.spec.projection import Projection
from lowprec.verify.codes.values import doubles
from lowprec.verify.questions.dots.dot_operands import Given, in_blocks
from lowprec.verify.questions.dots.stages import OF_A_STEP, fault
from lowprec.verify.questions.dots.step_cuts import LANE, Numbers
from lowprec.verify.questions.dots.step_faults import step_faults
from lowprec.verify.questions.dots.step_features import of_each_step, of_step
from lowprec.verify.questions.dots.step_model import Formats, folded, has_steps, stepped
from lowprec.verify.questions.dots.step_trees import is_tree, nodes_of
from lowprec.verify.questions.dots.sum_edits import of_rounding, partial_sum_edits, partial_sum_sizes
from lowprec.verify.questions.features import Feature, exponents, has_fields, of_codes, of_values
from lowprec.verify.questions.parts import Holds, PartEdit, ResultParts, part_edit
from lowprec.verify.questions.question import Array, Batch, Change

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

    @property
    def blocks(self) -> ResultParts:
        """The blocks along K of each result, of which each has a scale of x and one of y."""
        assert self.how.scale is not None, "asked of units with scales"
        fmt, size = self.how.scale
        found = functools.partial(_of_blocks, fmt=fmt, size=size)
        return ResultParts("of blocks", -(-self.length // size), self.rows, found)

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

    def edits_of_sums(self) -> Iterator[Change]:
        """Yield faults of sums of some products, of units that add groups of these before they are scaled."""
        window = self.how.accumulator
        if not isinstance(window, Window) or window.scales != "groups":
            return
        for size in partial_sum_sizes(window.group):
            found = functools.partial(_of_sums, size=size, group=window.group)
            sums = ResultParts(f"of sums of {size} products", self.length // size, self.rows, found)
            for words, change in partial_sum_edits(size, window.group):
                yield part_edit(sums, functools.partial(_in_sums, change, size), words)


def _in_sums(change: Callable[[Array], Array], size: int, mask: Array) -> Change:
    """Return a fault of some sums of so many products."""

    def changed(sums: Array) -> Array:
        return np.where(mask, change(sums), sums)

    return fault("", 2, group_parts=(size, changed), together=True)


def _of_sums(given: Given, size: int, group: int) -> Iterator[Feature]:
    """Yield features of sums of so many products of rows, one row after the other."""
    with np.errstate(all="ignore"):
        products = doubles(given.x) * doubles(given.y)
        sums = products.reshape(len(products), -1, size).sum(2)
    number = np.tile(np.arange(sums.shape[1]), len(sums))
    yield Feature("the number of the sum, counted from 0,", number)
    if size < group:
        yield Feature("its number within the group", number % (group // size))
        yield Feature("the number of the group, counted from 0,", number // (group // size))
    yield from of_values("the sum", sums.reshape(-1))


def _of_blocks(given: Given, fmt: Format, size: int) -> Iterator[Feature]:
    """Yield features of the blocks of rows, one row after the other."""
    first = np.arange(0, given.x.shape[1], size)
    yield Feature("the number of the block, counted from 0,", np.tile(np.arange(first.size), len(given.x)))
    both = np.zeros(len(given.x) * first.size, np.int64)
    for name, side, scales in zip("xy", given[:2], given.scales[2:], strict=True):  # type: ignore[index]
        codes = np.asarray(encode(scales.scales.reshape(-1), fmt)).astype(np.int64)
        both += codes
        yield from of_codes(f"the scale of {name}", codes, fmt)
        zero = np.logical_and.reduceat(doubles(side) == 0, first, axis=1)
        yield Feature(f"{name} is zero in the whole block", zero.reshape(-1))
    yield Feature("the sum of the scales' codes", both)


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

    def ruled(where: Holds) -> Change:
        return at(lambda *step: where(found(*step)))

    return Change("parts", PartEdit(steps, of, None, ruled), change.words, 3)


def _of_terms(given: Given, how: Accumulation, operands: Formats, read: Formats) -> Iterator[Feature]:
    """Yield features of the products of rows, one row after the other."""
    x, y = doubles(given.x), doubles(given.y)
    rows, count = x.shape
    lane = np.tile(np.arange(count), rows)
    yield Feature("the lane", lane)
    for bits in range(1, (count - 1).bit_length()):
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
    yield Feature("the exponent of the product", exponents(products))
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
    if folded(how) is how and has_steps(how, operands):
        yield from _of_alignment(given, how, operands, read, (rows, count))


def _of_alignment(
    given: Given, how: Accumulation, operands: Formats, read: Formats, shape: tuple[int, int]
) -> Iterator[Feature]:
    """Yield features of products as terms of their steps: shifts, and signs."""
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
