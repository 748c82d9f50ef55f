"""Dot products step by step: a term of every output, and then each output's sum with it.

A term is a product, or the exact sum of a block's products times its scales: one binary64 number, or two that
nobody has added. Running sums are binary64 numbers too, for these hold every accumulator's: a step rounds the
exact sum to odd in binary64, and the program of a conversion rounds that as the accumulator does. So any
order and any deterministic accumulator is served, at a sum for each term.

Floor 2b. Imports the other programs of the engine; never the oracle, which checks them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.kernels import engine
from lowprec.kernels.codes import code_dtype
from lowprec.kernels.engine import DONE, Rows
from lowprec.kernels.lower.vector import plan
from lowprec.kernels.lower.words import DOUBLE, SINGLE
from lowprec.kernels.modes import usual_arithmetic
from lowprec.kernels.request import CONVERT, Dot, Elementwise
from lowprec.kernels.vector.convert import UNSUITED
from lowprec.kernels.vector.dot_operands import converted, cut_in_slices, finite, singles, span
from lowprec.kernels.vector.dot_specials import loses_nans
from lowprec.kernels.vector.doubles import DOUBLES, ODD, SINGLES, cutting, sums
from lowprec.kernels.vector.in_parts import NO_FLAGS, NO_RANDOM
from lowprec.spec.accumulation import Accumulation, Rounded
from lowprec.spec.format import Carrier
from lowprec.spec.order import PAIRWISE
from lowprec.spec.projection import DEFAULT, Projection
from lowprec.spec.rounding import TO_ODD, TOWARD_ZERO

__all__ = ["MOST", "Place", "Unsuited", "by_steps", "is_served"]

Array = npt.NDArray[Any]
Numbers = npt.NDArray[Any]  #: of binary64
Terms = Callable[[int], list[Numbers]]  #: the numbers whose sum a term is, by its place
Share = Callable[[Callable[[int, int], int], int, int], int]

#: The most bits that a number rounded to odd in binary64 may then be rounded to.
MOST = 51

#: Outputs that go through all terms together: what a step takes stays in the caches, and no threads are
#: started for a product of blocks of 32.
_TILE = 1 << 13


class Unsuited(Exception):
    """The thread's processor does not round as usual."""


def is_served(how: Accumulation, block: bool) -> bool:
    """Return whether sums can go through binary64 to all places of an accumulation, exactly."""
    if how.accumulator is None or not isinstance(how.accumulator, tuple):
        return False
    places = [place for place in (how.product, how.accumulator, how.total) if place is not None]
    if loses_nans(places):
        return False
    # Which sign an exact sum of a block's products has is not known where it is zero.
    return not any(
        rule.rounding.bits or (fmt.precision > MOST and fmt != DOUBLE) or (block and rule.rounding.downward)
        for fmt, rule in (*places, how.output)
    )


class Place:
    """Where sums are kept: numbers of a format, as binary64."""

    def __init__(self, place: Rounded) -> None:
        fmt, rule = place
        self._to = DOUBLES if fmt == DOUBLE else SINGLES if place == (SINGLE, DEFAULT) else ODD
        self._downward, self._program = rule.rounding.downward, None
        self._cut: Callable[..., int] | None = None
        if self._to == ODD and _only_cuts(place):
            most = math.inf if rule.overflow_test == "exponent" else float(fmt.max_finite)
            self._cut = cutting(_CUTTING[rule.rounding])
            self._limits = float(fmt.emin), float(fmt.trailing_bits), math.ldexp(1.0, fmt.emax + 1), most
        elif self._to == ODD:
            self._program = engine.lower(Elementwise(CONVERT, (DOUBLE,), fmt, rule, carrier=DOUBLE))

    def rounded(self, *parts: Numbers) -> Numbers:
        """Return sums of one to three numbers, rounded once."""
        first, second, *third = (*parts, np.full_like(parts[0], -0.0)) if len(parts) == 1 else parts
        out = np.empty(first.size)
        rest = third[0] if third else out[:0]
        downward = self._downward and len(parts) > 1
        if sums(first, second, rest, self._to, downward, out, plan()) != DONE:
            raise Unsuited
        if self._cut is not None:
            exact, out = out, np.empty(first.size)  # in its own memory the loop would be no vectors
            if self._cut(exact, *self._limits, out, plan()) != DONE:
                raise Unsuited
        if self._program is not None:
            words = out.view(np.uint64)
            out = out if self._program.in_place else np.empty(first.size)
            if self._program.run([words], out.view(np.uint64), NO_FLAGS, NO_RANDOM) != DONE:
                raise Unsuited
        return out


#: Rounding modes that cut.
_CUTTING = {TOWARD_ZERO: "toward_zero", TO_ODD: "to_odd"}


def _only_cuts(place: Rounded) -> bool:
    """Whether sums are cut, and nothing else is done to numbers: in a format like IEEE 754's."""
    fmt, rule = place
    plain = Projection(
        rounding=rule.rounding, overflow_test=rule.overflow_test, nan=rule.nan, nan_code=rule.nan_code,
        nan_sign=rule.nan_sign,
    )  # fmt: skip
    cuts = rule.rounding in _CUTTING and rule == plain and rule.overflow_test != "before"
    near = -1000 < fmt.emin - fmt.trailing_bits and fmt.emax < 1000  # so that units are binary64 numbers
    return cuts and near and fmt.payload_bits is not None and not isinstance(fmt, Carrier)


class Sums:
    """The sums that an accumulation makes of terms."""

    def __init__(self, how: Accumulation, blocks: bool) -> None:
        assert isinstance(how.accumulator, tuple)
        self._order, self._blocks, self._sum = how.order, blocks, Place(how.accumulator)
        self._total = self._sum if how.total is None else Place(how.total)
        self._product = None if how.product is None else Place(how.product)

    def of(self, terms: Terms, count: int, begin: Numbers, size: int) -> tuple[Numbers, Numbers]:
        """Return `size` sums of so many terms, and where they are in doubt.

        They begin as `begin`, if it is not empty. In doubt are zeros whose sign is that of an exact sum of
        products: this is +0 here, whatever its products are.
        """
        minus = np.zeros(size, bool)
        if self._order.name != "chunked":
            made = self._some(terms, 0, count, begin, minus)
        else:
            made = begin if begin.size else np.zeros(size)
            for start in range(0, count, self._order.size):
                stop = min(start + self._order.size, count)
                made = self._total.rounded(made, self._some(terms, start, stop, np.zeros(0), minus))
        return made, np.isnan(made) | (minus & (made == 0) if self._blocks else False)

    def _some(self, terms: Terms, start: int, stop: int, begin: Numbers, minus: Numbers) -> Numbers:
        """Return the sum of the terms from `start` to `stop`."""
        if self._order == PAIRWISE or self._order.inner == "pairwise":
            minus[:] = True
            return self._in_pairs([[begin]] if begin.size else [], terms, start, stop)
        total = begin if begin.size else np.zeros(minus.size)
        for place in range(start, stop):
            term = self._term(terms, place)
            if self._blocks:
                minus |= np.signbit(total) & (total == 0)
            total = self._sum.rounded(total, *term)
        return total

    def _in_pairs(self, waiting: list[list[Numbers]], terms: Terms, start: int, stop: int) -> Numbers:
        """Return the sum in pairs, after what waits: the sums of 2**i terms that have no partner yet."""
        count = len(waiting)
        for place in range(start, stop):
            waiting.append(self._term(terms, place))
            count += 1
            for _ in range((count & -count).bit_length() - 1):
                self._join(waiting)
        while len(waiting) > 1:
            self._join(waiting)
        return self._sum.rounded(*waiting[0]) if count == 1 else waiting[0][0]

    def _join(self, waiting: list[list[Numbers]]) -> None:
        second, first = waiting.pop(), waiting.pop()
        waiting.append([self._sum.rounded(*first, *second)])

    def _term(self, terms: Terms, place: int) -> list[Numbers]:
        parts = terms(place)
        return parts if self._product is None else [self._product.rounded(*parts)]


def by_steps(
    request: Dot, x: Rows, y: Rows, sides: list[Array], addends: Array, share: Share
) -> tuple[Numbers, Array] | None:
    """Return all sums, and where they are in doubt; None where terms take too many numbers.

    `sides` are the operands as patterns of binary32; see `dot_program.Dots.run` for the rest.
    """
    how, begin = request.accumulation, request.addend
    (left, x_doubts), (right, y_doubts) = (finite(side) for side in sides)
    rows, columns = ([side.view(np.float32).astype(np.float64)] for side in (left, right))
    scales: list[Numbers] = []
    if request.scales is not None:
        count = (request.block - 1).bit_length()
        factors = sum(fmt.precision for fmt in request.scales if fmt.precision > 1)
        parts = cut_in_slices(rows[0], columns[0], span(left), span(right), 53 - count - factors, 2)
        if parts is None:
            return None
        if (
            how.product is None
            and max(map(len, parts)) > 1
            and "pairwise" in (how.order.name, how.order.inner)
        ):
            return None  # a sum of four numbers
        rows, columns = parts
        for side, fmt, doubts in zip((x, y), request.scales, (x_doubts, y_doubts), strict=True):
            words, others = finite(singles(np.asarray(side.scales), fmt))
            scales.append(words.view(np.float32).astype(np.float64))
            doubts |= others
    columns = [np.ascontiguousarray(column.T) for column in columns]
    length, block = rows[0].shape[1], request.block
    shape = len(left), len(right)
    if addends.size:
        addends = converted(addends.astype(code_dtype(begin)), begin, DOUBLE, DEFAULT).view(np.float64)
    out, doubts, plan = np.empty(shape), x_doubts[:, None] | y_doubts, Sums(how, block > 0)

    def tile(some: slice) -> None:
        def products(place: int) -> list[Numbers]:
            return [np.multiply.outer(rows[0][some, place], columns[0][place]).reshape(-1)]

        def blocks(place: int) -> list[Numbers]:
            inner = slice(place * block, place * block + block)
            scale = np.multiply.outer(scales[0][some, place], scales[1][:, place])
            return [
                (np.matmul(row[some, inner], column[inner]) * scale).reshape(-1)
                for row in rows
                for column in columns
            ]

        given = addends[some].reshape(-1) if addends.size else addends
        made, unsure = plan.of(
            blocks if block else products, -(-length // block) if block else length, given, out[some].size
        )
        out[some] = made.reshape(out[some].shape)
        doubts[some] |= unsure.reshape(out[some].shape)

    def part(start: int, stop: int) -> int:
        many = max(1, _TILE // shape[1])
        try:
            with usual_arithmetic():
                for first in range(start, stop, many):
                    tile(slice(first, min(first + many, stop)))
        except Unsuited:
            return UNSUITED
        return DONE

    if share(part, shape[0], shape[1] * length // 4) != DONE:
        return None
    if request.tensor != 1:  # subnormal numbers are not scaled
        doubts |= (np.abs(out) < np.finfo(np.float64).tiny) & (out != 0)
    return out, doubts
