"""Numbers that operands of all wrong results have, read as other numbers."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

import numpy as np

from lowprec.arrays.checks import code_dtype
from lowprec.spec.format import Format
from lowprec.verify.codes.display import hex_of
from lowprec.verify.codes.values import as_doubles
from lowprec.verify.questions.causes import Operands, valued
from lowprec.verify.questions.features import has_fields
from lowprec.verify.questions.question import Array, Change

__all__ = ["magnitude_as", "of_numbers"]

#: Factors by which one number may be read larger or smaller.
_FACTORS = (0.5, 2.0, 1.5, 0.75, 1.25, 1.75)


def of_numbers(
    names: Sequence[str], operands: Sequence[Array], formats: Sequence[Format]
) -> Iterator[Change]:
    """Yield other numbers for one that every result has among some operands; `operands`: of wrong results."""
    which: dict[str, tuple[int, ...]] = {name: (place,) for place, name in enumerate(names)}
    if len(set(formats)) < len(formats):
        which = {"each operand": tuple(range(len(names))), **which}
    for name, places in which.items():
        fmt = formats[places[0]]
        if len({formats[place] for place in places}) > 1 or not has_fields(fmt) or fmt.width > 32:
            continue
        sizes = np.stack([operands[place].astype(np.int64) & fmt.sign_code - 1 for place in places])
        for code in np.unique(sizes[:, :1]).tolist():
            if not 0 < code <= fmt.max_magnitude or not (sizes == code).any(0).all():
                continue
            for words, value in _others(code, fmt).items():
                found = float(_value(code, fmt))
                change = functools.partial(_read, places=places, found=found, value=value)
                yield Change("operand", change, f"{name} {hex_of(code, fmt)} read as {words}", 2, learnt=True)


def _value(code: int, fmt: Format) -> Array:
    return as_doubles(np.array(code, code_dtype(fmt)), fmt)


def _others(code: int, fmt: Format) -> dict[str, float]:
    """Return what the number of a code may be read as, in words."""
    near = [0, code - 1, code + 1, *(code ^ 1 << bit for bit in range(fmt.width - 1))]
    held = dict.fromkeys(other for other in near if 0 <= other <= fmt.max_magnitude and other != code)
    found = {hex_of(other, fmt): float(_value(other, fmt)) for other in held}
    own = float(_value(code, fmt))
    more = {f"{factor} times as large": factor * own for factor in _FACTORS if own}
    return found | {words: value for words, value in more.items() if value not in found.values()}


def _read(
    given: list[Array], sources: tuple[Format, ...], places: Sequence[int], found: float, value: float
) -> Operands:
    for place in places:
        change = functools.partial(magnitude_as, found=found, value=value)
        given, sources = valued(given, sources, change, place)
    return given, sources


def magnitude_as(values: Array, found: float, value: float) -> Array:
    """Return values of which those of one magnitude have another."""
    return np.where(np.abs(values) == found, np.copysign(value, values), values)
