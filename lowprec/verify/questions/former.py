"""Operands of the line before in the place of a line's own: of a register that is not loaded."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from lowprec.verify.questions.dot_operands import Given
from lowprec.verify.questions.question import Array, Change
from lowprec.verify.questions.step_cuts import lanes_of

__all__ = ["of_addend", "of_blocks", "of_lanes", "of_operands"]

#: What makes operands of some lanes or blocks those of the line before.
OnFormer = Callable[[Array], Callable[[Given, Given], Given]]


def of_operands(names: Sequence[str]) -> Iterator[Change]:
    """Yield operands of a computation, one at a time."""
    for place, name in enumerate(names):
        held = functools.partial(_operand, place=place)
        yield Change("former", held, f"the {name} of the line before", 2)


def _operand(given: list[Array], former: list[Array], place: int) -> list[Array]:
    return [*given[:place], former[place], *given[place + 1 :]]


def of_addend() -> Iterator[Change]:
    """Yield the addend of a sum."""
    yield Change("former", _addend, "the addend of the line before", 2)


def _addend(given: Given, former: Given) -> Given:
    return given._replace(addend=former.addend)


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


def _lanes(where: Array, sides: Sequence[str]) -> Callable[[Given, Given], Given]:
    def changed(given: Given, former: Given) -> Given:
        here = lanes_of(where, *given.x.shape)
        made = {side: np.where(here, getattr(former, side), getattr(given, side)) for side in sides}
        return given._replace(**made)

    return changed


def _blocks(where: Array, sides: Sequence[str]) -> Callable[[Given, Given], Given]:
    def changed(given: Given, former: Given) -> Given:
        scales = given.scales
        for side in sides:
            own, other = (getattr(one.scales, f"{side}_blocks") for one in (given, former))
            here = lanes_of(where, *own.scales.shape)
            blocks = own._replace(scales=np.where(here, other.scales, own.scales))
            scales = scales._replace(**{f"{side}_blocks": blocks})  # type: ignore[union-attr]
        return given._replace(scales=scales)

    return changed
