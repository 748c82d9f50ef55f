"""Coverage of vectors for conversions and operations: classes of operands, where results lie."""

from __future__ import annotations

import dataclasses
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from lowprec.arrays.orders.order import classify
from lowprec.spec.arith import Class
from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Carrier, Format
from lowprec.spec.projection import Flag, Projection, Saturation, SubnormalPolicy
from lowprec.spec.rounding import MODES
from lowprec.verify.codes import codebooks
from lowprec.verify.coverage.points import Plan
from lowprec.verify.questions.situations import names_of, situations
from lowprec.verify.reference.operations import Operation, operand_names

__all__ = ["plan_of_elements"]

Array = npt.NDArray[Any]

#: Situations that every plan names; the others where they occur.
_COMMON = ("exact", "below a tie", "at a tie", "above a tie", "beyond the next value after the largest")


def plan_of_elements(
    operation: Operation,
    operands: tuple[Array, ...],
    formats: tuple[Format, ...],
    how: Projection,
    results: Array,
    flags: Array | None = None,
    random: Array | None = None,
) -> Plan:
    """Return the verification plan of a conversion or an operation, with the cases that hit each point."""
    plan = Plan(len(results))

    def add(group: str, words: str, hits: Any) -> None:
        plan.add(group, words, hits if hits.ndim == 1 else hits.any(1))

    for name, codes, fmt in zip(operand_names(operation.operands), operands, formats, strict=False):
        for words, hits in _classes(codes, fmt):
            add(name, words, hits)
    flat = [codes.reshape(-1) for codes in operands]
    found = situations(operation.name, flat, formats, how).reshape(results.shape)
    for number, words in enumerate(names_of(operation.name)):
        if words in _COMMON or (found == number).any():
            add("result", words, found == number)
    for words, hits in _classes(results, formats[-1]):
        if words != "signaling nan":
            add("result", words, hits)
    if flags is not None:
        for flag in Flag:
            add("flags", str(flag.name).lower().replace("_", " "), (flags & flag) != 0)
        add("flags", "none", flags == 0)
    others: dict[str, Projection] = {}
    if random is None:
        others |= {f"rounded {mode}": dataclasses.replace(how, rounding=mode) for mode in MODES}
    others |= {f"saturation {policy}": dataclasses.replace(how, saturation=policy) for policy in Saturation}
    for policy in get_args(SubnormalPolicy):
        if isinstance(formats[-1], Codebook) and policy in ("flush_results", "flush_both"):
            continue  # no result is tiny
        others[f"subnormals: {policy}"] = dataclasses.replace(how, subnormals=policy)
    for words, other in others.items():
        if other != how:
            answers = operation.compute(list(operands), formats, other, None, random)
            add("tells", words, answers != results)
    return plan


def _classes(codes: Array, fmt: Format) -> list[tuple[str, Array]]:
    """Return the classes that a format has, and which codes are of each."""
    if isinstance(fmt, Carrier):
        values = codes.view(np.float64) if fmt.exponent_bits else codes
        return [("zero", values == 0), ("not zero", values != 0)]
    if isinstance(fmt, Codebook):
        kinds = codebooks.classes(fmt)
        known = {Class(number) for number in np.unique(kinds)}
        return [
            (kind.name.lower().replace("_", " "), kinds[codes] == kind) for kind in Class if kind in known
        ]
    found = np.asarray(classify(codes, fmt))
    every = (
        np.asarray(classify(np.arange(1 << min(fmt.width, 16)).astype(codes.dtype), fmt))
        if fmt.width <= 16
        else None
    )
    held = set(Class) if every is None else {Class(number) for number in np.unique(every)}
    return [(kind.name.lower().replace("_", " "), found == kind) for kind in Class if kind in held]
