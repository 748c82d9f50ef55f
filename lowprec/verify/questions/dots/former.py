"""Operands of former lines in the place of a line's own: of a register that keeps its value."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from lowprec.arrays.checks import code_dtype
from lowprec.spec.format import Format
from lowprec.verify.codes.values import as_doubles
from lowprec.verify.questions.dots.dot_operands import Given
from lowprec.verify.questions.dots.step_cuts import lanes_of
from lowprec.verify.questions.features import has_fields
from lowprec.verify.questions.question import Array, Batch, Change, Question

__all__ = ["from_register", "last_loaded", "of_addend", "of_blocks", "of_lanes", "of_operands"]

#: What makes operands of some lanes or blocks those of the line before.
OnFormer = Callable[[Array], Callable[[Given, "Before"], Given]]
#: Operands of so many lines before.
Before = Callable[[int], Any]


def of_operands(names: Sequence[str], formats: Sequence[Format]) -> Iterator[Change]:
    """Yield operands of a computation, and fields of them, one at a time."""
    for place, (name, fmt) in enumerate(zip(names, formats, strict=False)):
        fields = {f"the {name}": -1}
        if has_fields(fmt) and fmt.width <= 32:
            trailing = (1 << fmt.trailing_bits) - 1
            fields |= {f"the sign of the {name}": fmt.sign_code, f"the last bits of the {name}": trailing}
            fields[f"the exponent field of the {name}"] = fmt.sign_code - 1 - trailing
        for words, mask in fields.items():
            part = functools.partial(_operand, place=place, mask=mask)
            yield Change("former", part, f"{words} of the line before", 2)


def _operand(given: list[Array], before: Before, place: int, mask: int) -> list[Array]:
    own, other = (side[place].astype(np.int64) for side in (given, before(1)))
    made = (own & ~mask | other & mask).astype(given[place].dtype)
    return [*given[:place], made, *given[place + 1 :]]


def last_loaded(held: Array) -> Array:
    """Return for each line the last one before it whose register is loaded; of the first one itself."""
    place = np.arange(held.size)
    last = np.maximum.accumulate(np.where(held, 0, place))
    return np.concatenate([place[:1], last[:-1]])


def of_addend() -> Iterator[Change]:
    """Yield the addend of a sum, and the result of the line before in its place."""
    yield Change("former", _addend, "the addend of the line before", 2)
    yield Change("register", True, "the addend is the result of the line before", 2)


def _addend(given: Given, before: Before) -> Given:
    return given._replace(addend=before(1).addend)


def from_register(question: Question, batch: Batch, given: Given) -> Given:
    """Return the operands with the results that came of the lines before as addends."""
    before = question.before(batch)
    assert before is not None, "asked of results that follow each other"
    assert given.addend is not None, "asked of sums with an addend"
    codes = np.maximum(question.codes(before), 0).astype(code_dtype(question.target))
    made = np.where(batch.places > 0, as_doubles(codes, question.target), 0)
    return given._replace(addend=np.asarray(made, given.addend.dtype))


def of_lanes() -> Iterator[tuple[str, OnFormer]]:
    """Yield x, y and both, each as words and what takes some of their lanes from the line before."""
    for sides in ("x",), ("y",), ("x", "y"):
        words = f"{' and '.join(sides)} of the line before"
        yield words, functools.partial(_lanes, sides=sides)


def of_blocks() -> Iterator[tuple[str, OnFormer]]:
    """Yield scales of x, of y and of both, each as words and what takes some from the line before."""
    for sides in ("x",), ("y",), ("x", "y"):
        words = f"the scales of {' and '.join(sides)} of the line before"
        yield words, functools.partial(_blocks, sides=sides)


def _lanes(where: Array, sides: Sequence[str]) -> Callable[[Given, Before], Given]:
    def changed(given: Given, before: Before) -> Given:
        here, former = lanes_of(where, *given.x.shape), before(1)
        made = {side: np.where(here, getattr(former, side), getattr(given, side)) for side in sides}
        return given._replace(**made)

    return changed


def _blocks(where: Array, sides: Sequence[str]) -> Callable[[Given, Before], Given]:
    def changed(given: Given, before: Before) -> Given:
        scales, former = given.scales, before(1)
        for side in sides:
            own, other = (getattr(one.scales, f"{side}_blocks") for one in (given, former))
            here = lanes_of(where, *own.scales.shape)
            blocks = own._replace(scales=np.where(here, other.scales, own.scales))
            scales = scales._replace(**{f"{side}_blocks": blocks})  # type: ignore[union-attr]
        return given._replace(scales=scales)

    return changed
