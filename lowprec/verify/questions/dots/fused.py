"""Operations that are one step of a sum of products: fused multiplications, and sums as products with 1."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from lowprec.spec.accumulation import Accumulation
from lowprec.spec.format import Carrier, Format
from lowprec.spec.projection import Projection
from lowprec.verify.codes.values import as_doubles
from lowprec.verify.questions import causes
from lowprec.verify.questions.dots.edits import product_edits, value_edits
from lowprec.verify.questions.dots.stages import Stages, fault
from lowprec.verify.questions.dots.step_cuts import Numbers
from lowprec.verify.questions.dots.step_faults import step_faults
from lowprec.verify.questions.dots.step_features import of_products, of_steps
from lowprec.verify.questions.dots.step_model import has_steps, stepped
from lowprec.verify.questions.dots.sum_edits import (
    of_behind,
    of_left_shifts,
    of_rounding,
    of_shifts,
    of_unseen,
)
from lowprec.verify.questions.features import Feature
from lowprec.verify.questions.question import Array, Change

__all__ = ["Fused"]

#: Words of terms, and those of the operands of a sum.
_SUMMANDS = {
    "the addend or (the )?running sum": "operand2", "the addend": "operand2", "the first product": "operand1",
    "NaNs read": "NaNs of operand1 read", "infinite factors": "infinite numbers of operand1",
    "infinite products": "an infinite operand1", "alignment of products": "operand1",
    "alignment of running sums": "operand2", "lane 0": "operand1", r"\bx\b": "operand1",
}  # fmt: skip
#: Places of shifts from which on terms may be lost.
_DROPPED = range(5, 41)
#: Words of terms that a sum of two operands does not have.
_OTHERS = re.compile(r"product|\by\b|times infinity")


class Fused:
    """An operation as a step: its accumulation, and the terms of its operands."""

    def __init__(self, operation: str, formats: Sequence[Format], projection: Projection) -> None:
        """Raises ValueError: an operation, or formats, whose stages are not known."""
        self.operation, target = operation, formats[-1]
        factors = {"fma": formats[:2]}.get(operation, [formats[0], formats[0]])
        if operation not in ("fma", "add") or projection.via or projection.rounding.bits:
            raise ValueError(f"{operation} is no step")
        if isinstance(target, Carrier) or not target.contains(formats[-2]):
            raise ValueError(f"{target.name} does not contain {formats[-2].name}")
        self.sources = tuple(formats[:-1])
        self.formats, into = (factors[0], factors[1]), (target, projection)
        self.how = Accumulation(name="fma", operands=self.formats, accumulator=into, output=into)
        if not has_steps(self.how, self.formats):
            raise ValueError(f"the stages of {self.how} are not known")

    def terms(self, operands: Sequence[Array]) -> tuple[Array, Array, Array]:
        """Return factors, each a row of one, and addends, as values."""
        values = [as_doubles(codes, fmt) for codes, fmt in zip(operands, self.sources, strict=True)]
        x, y = values[0], np.ones_like(values[0]) if self.operation == "add" else values[1]
        return x[:, None], y[:, None], values[-1]

    def answer(self, operands: Sequence[Array], target: Format, rule: Projection, stages: Stages) -> Array:
        """Return codes of results with faults in their stages."""
        how = replace(self.how, accumulator=(target, rule), output=(target, rule))
        if self.operation == "add":
            stages = {"y": _one, **stages}
        return stepped(*self.terms(operands), how, self.formats, stages)

    def edits(self) -> Iterator[Change]:
        """Yield the faults of the step."""
        for one in self._edits():
            words = self._said(one.words)
            if self.operation == "fma" or not _OTHERS.search(words):
                yield replace(one, words=words)

    def _edits(self) -> Iterator[Change]:
        target = self.how.output[0]
        yield from step_faults(self.how, self.formats, 1, addend=True)
        yield from of_shifts()
        yield from (*of_behind(_DROPPED), *of_unseen(target), *of_left_shifts(2 * target.precision))
        yield from of_rounding(target)
        for words, on_terms in product_edits((*self.formats, target), few=True):
            yield fault(words, 2, running=on_terms(np.array([0])))
        for words, of_value in value_edits().items() if self.operation == "fma" else ():
            yield Change("operand", partial(causes.third, change=of_value), f"the addend {words}")

    def features(self, operands: Sequence[Array]) -> Iterator[Feature]:
        """Yield features of the operands and of their step."""
        given = self.terms(operands)
        if self.operation == "fma":
            yield from of_products(*given, self.formats)
        for feature in of_steps(*given, self.how, self.formats):
            yield replace(feature, name=self._said(feature.name))

    def _said(self, words: str) -> str:
        for found, said in _SUMMANDS.items() if self.operation == "add" else ():
            words = re.sub(found, said, words)
        return words


def _one(y: Numbers, fmt: Format) -> Numbers:
    """Return factors of 1 without trailing bits, so that terms end where operands do."""
    return y._replace(significand=y.significand >> fmt.trailing_bits, last=y.last + fmt.trailing_bits)
