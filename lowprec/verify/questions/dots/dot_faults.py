"""Faults of a unit's wiring, as changes of the operands that its sums are made of."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from lowprec.spec.format import Format
from lowprec.verify.questions.dots.dot_operands import Given
from lowprec.verify.questions.question import Array, Change

__all__ = [
    "LEFT_OUT",
    "Fault",
    "backward",
    "faults",
    "lanes_in_words",
    "lanes_without_nan",
    "left_out",
    "nans_left_out",
]
__all__ += ["flushed", "of_addend", "of_lanes", "of_sides", "runs_of"]


Fault = Callable[[Given], Given]

#: Numbers from which on equal steps are told as such.
_ALIKE = 3


def faults(formats: tuple[Format | None, Format | None], *, paired: bool, addend: bool) -> Iterator[Change]:
    """Yield what a unit may lose of its operands: subnormal numbers, NaNs, signs.

    Parameters
    ----------
    formats : pair of Format or None
        Of x and y; None where they are not known.
    paired : bool
        Whether x and y are in pairs, as those of dot products are.
    addend : bool
        Whether there is one.
    """
    for number, fmt in enumerate(formats):
        if fmt is not None and fmt.exponent_bits and fmt.subnormals:
            zeroed = of_sides((number,), functools.partial(flushed, least=2.0**fmt.emin))
            yield Change("fault", zeroed, f"subnormal {'xy'[number]} taken as zero")
    for sides, words in (((0,), "x"), ((1,), "y"), ((0, 1), "products")):
        yield Change("fault", of_sides(sides, np.abs), f"signs of {words} lost")
    if paired:
        nan_in_x = _without(lambda x, y: np.isnan(x) & np.isfinite(y))
        nan_in_y = _without(lambda x, y: np.isnan(y) & np.isfinite(x))
        yield Change("fault", nan_in_x, "products with a NaN in x left out")
        yield Change("fault", nan_in_y, "products with a NaN in y left out")
        zeros = _without(lambda x, y: ((x == 0) & np.isinf(y)) | (np.isinf(x) & (y == 0)))
        yield Change("fault", zeros, "zero times infinity is zero")
        yield Change("fault", _negative, "the product of two negative numbers is negative")
    if addend:
        yield Change("fault", of_addend(lambda c: np.where(np.isnan(c), 0, c)), "a NaN as addend left out")
        zeroed = of_addend(functools.partial(flushed, least=float(np.finfo(np.float32).tiny)))
        yield Change("fault", zeroed, "a subnormal addend of binary32 taken as zero")
        yield Change("fault", of_addend(lambda c: c * 0.5), "the addend half as large", 2)
        yield Change("fault", of_addend(lambda c: c * 2), "the addend twice as large", 2)


def lanes_without_nan(x: Array, y: Array, lost: Array) -> Array:
    """Return the lanes whose NaNs the results show to be lost: those with NaNs in rows that lost theirs.

    Such a row has NaNs in such lanes alone.
    """
    nan = np.isnan(x) | np.isnan(y)
    return np.asarray(nan[lost].any(0))


def nans_left_out(lanes: Array, where: str) -> Change:
    """Return the change that NaNs of some lanes are left out of sums."""
    which = _without(lambda x, y: (np.isnan(x) | np.isnan(y)) & lanes)
    return Change("fault", which, f"NaNs in products {where} left out")


def lanes_in_words(lanes: Array, period: int) -> str:
    """Return which lanes are meant: of steps, where it is the same in each."""
    found = np.flatnonzero(lanes).tolist()
    folded = sorted({lane % period for lane in found})
    if lanes.size > period and len(folded) * (lanes.size // period) == len(found):
        return f"{runs_of(folded)} of each step of {period}"
    return f"{runs_of(found)} of {lanes.size}"


def runs_of(numbers: Sequence[int]) -> str:
    """Return ascending numbers in words: "0, 2 to 4 and 9", or "1 to 31 in steps of 2"."""
    steps = np.unique(np.diff(numbers))
    if len(numbers) > _ALIKE and steps.size == 1 and steps[0] > 1:
        return f"{numbers[0]} to {numbers[-1]} in steps of {steps[0]}"
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    said = [str(first) if first == last else f"{first} to {last}" for first, last in runs]
    return said[0] if len(said) == 1 else f"{', '.join(said[:-1])} and {said[-1]}"


def of_lanes(length: int, period: int, step: int) -> Iterator[Change]:
    """Yield lanes that are wired wrongly: left out, swapped, or dealt to steps in another order.

    Lanes are told of a period; steps have as many products as `step` says.
    """
    for lane in range(length):
        if length > period:
            yield Change("fault", left_out(lane, (0, 1)), f"product {lane} of {length} left out", 2)
        for number in (0, 1):
            words = f"{'xy'[number]} of product {lane} of {length} read as zero"
            yield Change("fault", left_out(lane, (number,)), words, 2)
    even = [*range(0, length, 2), *range(1, length, 2)]
    evens_first = of_sides((0, 1), functools.partial(np.take, indices=even, axis=-1))
    yield Change("fault", evens_first, "first the products of even numbers, then the others", 2)
    if length > _ALIKE and not length & length - 1:
        bits = length.bit_length() - 1
        reversed_ = [int(f"{lane:0{bits}b}"[::-1], 2) for lane in range(length)]
        by_bits = of_sides((0, 1), functools.partial(np.take, indices=reversed_, axis=-1))
        yield Change("fault", by_bits, "products in the order of their numbers' reversed bits", 2)
    for lane in range(length - 1):
        if (lane + 1) % step == 0:
            order = [*range(lane), lane + 1, lane, *range(lane + 2, length)]
            exchanged = of_sides((0, 1), functools.partial(np.take, indices=order, axis=-1))
            yield Change("fault", exchanged, f"products {lane} and {lane + 1} exchanged", 2)
        for words, pairs in (
            (f"y of products {lane} and {lane + 1} swapped", ((lane, lane + 1), (lane + 1, lane))),
            (f"product {lane} takes y of product {lane + 1}", ((lane, lane + 1),)),
            (f"product {lane + 1} takes y of product {lane}", ((lane + 1, lane),)),
        ):
            order = list(range(length))
            for to, source in pairs:
                order[to] = source
            yield Change(
                "fault", of_sides((1,), functools.partial(np.take, indices=order, axis=-1)), words, 2
            )


def of_sides(sides: tuple[int, ...], change: Callable[[Array], Array]) -> Fault:
    """Return the operands with x (0), y (1) or both changed by a function of an array with K last."""

    def changed(given: Given) -> Given:
        made = [given.x, given.y if given.paired else np.moveaxis(given.y, 0, -1)]
        for number in sides:
            made[number] = change(made[number])
        return given._replace(x=made[0], y=made[1] if given.paired else np.moveaxis(made[1], -1, 0))

    return changed


def left_out(lanes: int | slice, sides: tuple[int, ...]) -> Fault:
    """Return the operands with zeros in some lanes of x, of y or of both."""

    def zeroed(side: Array) -> Array:
        made = side.copy()
        made[..., lanes] = 0
        return made

    return of_sides(sides, zeroed)


def backward(given: Given) -> Given:
    """Return the products in reverse order. Raises ValueError: operands in blocks."""
    if given.scales is not None and (given.scales.x_blocks or given.scales.y_blocks):
        raise ValueError("blocks have their scales in order")
    return of_sides((0, 1), lambda side: side[..., ::-1])(given)


def flushed(side: Array, least: float) -> Array:
    """Return values of which those below a magnitude are zeros of their sign."""
    return np.where(np.abs(side) < least, np.copysign(np.zeros_like(side), side), side)


def _without(which: Callable[[Array, Array], Array]) -> Fault:
    def changed(given: Given) -> Given:
        gone = which(given.x, given.y)
        return given._replace(x=np.where(gone, 0, given.x), y=np.where(gone, 0, given.y))

    return changed


def _negative(given: Given) -> Given:
    both = np.signbit(given.x) & np.signbit(given.y)
    return given._replace(x=np.where(both, np.abs(given.x), given.x))


def of_addend(change: Callable[[Array], Array]) -> Fault:
    """Return the operands with the addend changed."""

    def changed(given: Given) -> Given:
        assert given.addend is not None, "asked of units with one"
        with np.errstate(all="ignore"):
            return given._replace(addend=change(given.addend).astype(given.addend.dtype))

    return changed


def _lacking(given: Given, name: str) -> Given:
    none: dict[str, Any] = {name: None}
    return given._replace(**none)


LEFT_OUT = {
    name: Change(name, functools.partial(_lacking, name=name), f"the {words} left out")
    for name, words in {"addend": "addend", "bias": "bias", "output_scale": "output scale"}.items()
}
