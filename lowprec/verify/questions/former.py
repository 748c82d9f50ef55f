"""Operands of the line before in the place of a line's own: of a register that is not loaded."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from lowprec.arrays.checks import code_dtype
from lowprec.spec import catalog
from lowprec.spec.format import Format
from lowprec.verify.codes.values import as_doubles
from lowprec.verify.questions.dot_operands import Given
from lowprec.verify.questions.features import has_fields
from lowprec.verify.questions.question import Array, Batch, Change, Question
from lowprec.verify.questions.step_cuts import lanes_of

__all__ = ["from_register", "kept", "of_addend", "of_blocks", "of_gated_scales", "of_lanes", "of_operands"]

#: What makes operands of some lanes or blocks those of the line before.
OnFormer = Callable[[Array], Callable[[Given, "Before"], Given]]
#: Operands of so many lines before.
Before = Callable[[int], Any]

#: Lines up to which is looked back for one that is loaded.
_BACK = 64
_KEPT = "{0}s that are {1} are the last {0} before that is not"


def of_operands(names: Sequence[str], formats: Sequence[Format]) -> Iterator[Change]:
    """Yield operands of a computation, fields of them, and operands under an enable, one at a time."""
    for place, (name, fmt) in enumerate(zip(names, formats, strict=False)):
        fields = {f"the {name}": -1}
        if has_fields(fmt) and fmt.width <= 32:
            trailing = (1 << fmt.trailing_bits) - 1
            fields |= {f"the sign of the {name}": fmt.sign_code, f"the last bits of the {name}": trailing}
            fields[f"the exponent field of the {name}"] = fmt.sign_code - 1 - trailing
            for said, least in {"zero": 1, "zero or subnormal": trailing + 1}.items():
                kept = functools.partial(_kept_operand, place=place, fmt=fmt, least=least)
                yield Change("former", kept, _KEPT.format(name, said), 2)
        for words, mask in fields.items():
            part = functools.partial(_operand, place=place, mask=mask)
            yield Change("former", part, f"{words} of the line before", 2)


def _operand(given: list[Array], before: Before, place: int, mask: int) -> list[Array]:
    own, other = (side[place].astype(np.int64) for side in (given, before(1)))
    made = (own & ~mask | other & mask).astype(given[place].dtype)
    return [*given[:place], made, *given[place + 1 :]]


def _kept_operand(given: list[Array], before: Before, place: int, fmt: Format, least: int) -> list[Array]:
    def loaded(codes: Array) -> Array:
        return np.asarray(codes.astype(np.int64) & fmt.sign_code - 1 >= least)

    made = kept(given[place], loaded, lambda by: before(by)[place])
    return [*given[:place], made, *given[place + 1 :]]


def kept(own: Array, loaded: Callable[[Array], Array], before: Callable[[int], Array]) -> Array:
    """Return values of which those that are not loaded are the last ones before that are."""
    for by in range(1, _BACK):
        idle = ~loaded(own)
        if not idle.any():
            break
        own = np.where(idle, before(by), own)
    return own


def of_addend(dtype: np.dtype[Any]) -> Iterator[Change]:
    """Yield the addend of a sum, and one of this type that is loaded under an enable."""
    yield Change("former", _addend, "the addend of the line before", 2)
    yield Change("register", True, "the addend is the result of the line before", 2)
    fmt, least = catalog.carrier(dtype), {"zero": 0.0}
    if fmt is not None:
        least["zero or subnormal"] = 2.0**fmt.emin
    for said, size in least.items():
        yield Change("former", functools.partial(_kept_addend, least=size), _KEPT.format("addend", said), 2)


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


def _kept_addend(given: Given, before: Before, least: float) -> Given:
    def loaded(values: Array) -> Array:
        return np.asarray((values != 0) & ~(np.abs(values) < least))

    assert given.addend is not None, "asked of sums with an addend"
    return given._replace(addend=kept(given.addend, loaded, lambda by: before(by).addend))


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


def of_gated_scales() -> Iterator[Change]:
    """Yield scales of blocks that are loaded if some lanes of x or y are not zero, or else those before."""
    gates = {
        "lane 0 of {} is": slice(0, 1),
        "the last lane of {} is": slice(-1, None),
        "all of {} are": slice(None),
    }
    for (words, lanes), gate in itertools.product(gates.items(), "xy"):
        for sides in ("x",), ("y",), ("x", "y"):
            held = functools.partial(_gated, gate=gate, lanes=lanes, sides=sides)
            said = f"the scales of {' and '.join(sides)} are the last before, where {words.format(gate)} zero"
            yield Change("former", held, said, 2)


def _gated(given: Given, before: Before, gate: str, lanes: slice, sides: Sequence[str]) -> Given:
    if given.scales is None or not given.paired:
        return given

    def row(one: Given) -> Array:
        loaded = (np.asarray(getattr(one, gate))[:, lanes] != 0).any(1)[:, None]
        return np.hstack([loaded, *(getattr(one.scales, f"{side}_blocks").scales for side in sides)])

    made = kept(row(given), lambda rows: rows[:, :1] != 0, lambda by: row(before(by)))
    found = {}
    for side, own in zip(sides, np.split(made[:, 1:], len(sides), 1), strict=True):
        blocks = getattr(given.scales, f"{side}_blocks")
        found[f"{side}_blocks"] = blocks._replace(scales=own.astype(blocks.scales.dtype))
    return given._replace(scales=given.scales._replace(**found))


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
