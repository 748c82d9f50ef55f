"""Products and steps of dot units, one by one: features, and edits of those that a rule on these tells."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lowprec.arrays.convert import encode
from lowprec.spec.accumulation import Accumulation
from lowprec.spec.projection import Projection
from lowprec.verify.codes.values import doubles
from lowprec.verify.questions.dot_operands import Given, in_blocks
from lowprec.verify.questions.features import Feature, exponents, has_fields, of_codes
from lowprec.verify.questions.question import Array, Batch, Change
from lowprec.verify.questions.stages import OF_A_STEP
from lowprec.verify.questions.step_cuts import LANE, Numbers
from lowprec.verify.questions.step_model import Formats, folded, stepped

__all__ = ["PartEdit", "Parts", "in_steps", "of_terms", "part_edit"]


@dataclass(frozen=True)
class Parts:
    """Products or steps of a question's results, of which one at a time can be edited."""

    name: str  #: how a rule on them begins
    count: int  #: of each result
    rows: Callable[[Array], Batch]  #: results at some places, which may repeat each other
    found: Callable[
        [Given], Iterator[Feature]
    ]  #: features of all parts of results, one result after the other

    def copies(self, places: Array) -> tuple[Batch, Array]:
        """Return copies of results, one for each part, and a mask of that part in each copy."""
        alone = np.repeat(np.eye(self.count, dtype=bool), places.size, 0)
        return self.rows(np.tile(places, self.count)), alone

    def features(self, places: Array) -> list[Feature]:
        """Return features of all parts of some results, one result after the other."""
        return list(self.found(self.rows(places).given))


@dataclass(frozen=True)
class PartEdit:
    """An edit of some parts of results."""

    parts: Parts
    of: Callable[[Array], Change]  #: of a mask of results and parts
    where: Callable[[Sequence[Feature]], Array] | None = None  #: which parts, by their features

    def at(self, places: Array) -> Change:
        """Return the edit of the parts that the rule holds of, in results at some places."""
        assert self.where is not None, "a rule says which"
        return self.of(self.where(self.parts.features(places)).reshape(-1, self.parts.count))


def part_edit(parts: Parts, of: Callable[[Array], Change], words: str) -> Change:
    """Return an edit of parts that a rule is to be found for."""
    return Change("parts", PartEdit(parts, of), words, 3)


def in_steps(change: Change, steps: Parts) -> Change | None:
    """Return a fault of steps as an edit of some of them; None of a change that is none."""
    if not change.field.startswith("stage.") or not dict(change.value).keys() <= OF_A_STEP:
        return None

    def of(mask: Array) -> Change:
        return replace(change, value=(*change.value, ("at", mask), ("together", True)))

    return part_edit(steps, of, change.words)


def of_terms(given: Given, how: Accumulation, operands: Formats, read: Formats) -> Iterator[Feature]:
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
        yield from _of_steps(given, how, operands, read, (rows, count))


def _of_steps(
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
