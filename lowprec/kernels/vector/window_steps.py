"""Windows of any width and range by vectors in binary64: what lanes of 32 bits do not hold.

A step goes through its products twice: for the largest exponent of each output, and to add the products, cut
to its unit. Every product is a binary64 number, and so is every sum of a step.

Floor 2b. Imports the other programs of the engine; never the oracle, which checks them.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lowprec.kernels import engine
from lowprec.kernels.codes import code_dtype
from lowprec.kernels.engine import DONE
from lowprec.kernels.jit import inlined, jit
from lowprec.kernels.lower.vector import PAST, Words, plan
from lowprec.kernels.lower.words import DOUBLE
from lowprec.kernels.modes import usual_arithmetic
from lowprec.kernels.request import CONVERT, Dot, Elementwise
from lowprec.kernels.vector.convert import UNSUITED, keeps_subnormals, rounds_to_nearest
from lowprec.kernels.vector.dot_operands import converted, finite
from lowprec.kernels.vector.dot_specials import loses_nans
from lowprec.kernels.vector.doubles import exponent_of, power
from lowprec.kernels.vector.in_parts import NO_FLAGS, NO_RANDOM
from lowprec.kernels.vector.rounding import CUTS
from lowprec.spec.accumulation import Accumulation, Rounded, Window
from lowprec.spec.format import Format
from lowprec.spec.projection import DEFAULT

__all__ = ["by_windows", "is_wide"]

Array = npt.NDArray[Any]
Numbers = npt.NDArray[Any]  #: of binary64
Share = Callable[[Callable[[int, int], int], int, int], int]

#: Columns that go through a step together.
_WIDTH = 128

#: Products that are looked at between the reading and the writing of what they change.
_PRODUCTS = 4

#: Outputs that go through all steps together.
_TILE = 1 << 13

#: The exponent of zero: no sum of two such is as large as that of a number, nor as `_LEAST`.
_NOTHING, _LEAST, _MOST = -5000.0, -900.0, 500


def is_wide(how: Accumulation, window: Window) -> bool:
    """Return whether every product, sum and result of a window is a binary64 number."""
    fmt, rule = window.result
    if how.operands is None or window.fraction_bits is None or window.scales == "groups":
        return False
    if sum(operand.precision for operand in how.operands) > 53 or window.lowest_exponent > _MOST:
        return False
    bits = window.fraction_bits + 2 + (window.step + 1).bit_length()
    places = [place for place in (window.result, how.total, how.output) if place is not None]
    return (
        bits <= 53
        and not loses_nans([place for place in (window.result, how.total) if place is not None])
        and all(place.precision <= 51 and -150 < place.emin and place.emax < 200 for place, _ in places)
        and not any(rule.rounding.bits for _, rule in places)
        and rule.via == ()
        and fmt.exponent_bits > 0
    )


class Side(NamedTuple):
    """Operands as binary64 numbers, and the exponents that their products count with."""

    numbers: Numbers
    exponents: Numbers


def _side(words: Array, raised: Array | None, fmt: Format) -> Side:
    """Return the operands of patterns of binary32, which are finite, and of the exponents of their scales."""
    numbers = words.view(np.float32).astype(np.float64)
    exponents = np.maximum(np.frexp(numbers)[1] - 1.0, float(fmt.emin))
    if raised is not None:
        numbers, exponents = np.ldexp(numbers, raised), exponents + raised
    return Side(numbers, np.where(numbers == 0, _NOTHING, exponents))


def by_windows(
    request: Dot, sides: list[Array], raised: list[Array | None], addends: Array, share: Share
) -> tuple[Numbers, Array] | None:
    """Return all sums, and where they are in doubt; None where the processor does not round as usual.

    `sides` are the operands as patterns of binary32, `raised` the exponents of their scales; see
    `dot_program.Dots.run` for the rest.
    """
    how, begin = request.accumulation, request.addend
    assert isinstance(how.accumulator, Window)
    (left, x_doubts), (right, y_doubts) = (finite(side) for side in sides)
    x, y = (_side(*each) for each in zip((left, right), raised, (request.x, request.y), strict=True))
    y = Side(*(np.ascontiguousarray(array.T) for array in y))
    shape = len(left), len(right)
    if addends.size:
        addends = converted(addends.astype(code_dtype(begin)), begin, DOUBLE, DEFAULT).view(np.float64)
    out, sums = np.empty(shape), _Windows(how, x.numbers.shape[1])

    def part(start: int, stop: int) -> int:
        many = max(1, _TILE // shape[1])
        try:
            with usual_arithmetic():
                for first in range(start, stop, many):
                    some = slice(first, min(first + many, stop))
                    given = addends[some] if addends.size else np.zeros(out[some].shape)
                    out[some] = sums.of(Side(x.numbers[some], x.exponents[some]), y, given)
        except Unsuited:
            return UNSUITED
        return DONE

    if share(part, shape[0], shape[1] * x.numbers.shape[1]) != DONE:
        return None
    # A sum with a NaN is a positive NaN, whatever the sign of the addend, and may become a number.
    doubts = x_doubts[:, None] | y_doubts | np.isnan(out)
    return out, doubts | np.isnan(addends) if addends.size else doubts


class Unsuited(Exception):
    """The thread's processor does not round as usual."""


def _program(operation: str, place: Rounded) -> Any:
    """Return the program that rounds results of an operation on binary64 numbers to a place."""
    sources = (DOUBLE,) * (1 if operation == CONVERT else 2)
    return engine.lower(Elementwise(operation, sources, *place, carrier=DOUBLE))


def _made(program: Any, *operands: Numbers) -> Numbers:
    """Return results as binary64 numbers."""
    out = np.empty(operands[0].size)
    words = [each.view(np.uint64) for each in operands]
    if program.run(words, out.view(np.uint64), NO_FLAGS, NO_RANDOM) != DONE:
        raise Unsuited
    return out


class _Windows:
    """The sums that an accumulation in windows makes."""

    def __init__(self, how: Accumulation, length: int) -> None:
        assert isinstance(how.accumulator, Window)
        self._window, self._length, self._order = how.accumulator, length, how.order
        self._begin = how.output[0]
        self._result = _program(CONVERT, how.accumulator.result)
        self._total = None if how.total is None else _program("add", how.total)
        self._step = kernel(how.accumulator.cut)

    def of(self, x: Side, y: Side, begin: Numbers) -> Numbers:
        """Return the sums of the products of some rows and all columns, and of what they begin with."""
        if self._total is None:
            return self._run(x, y, 0, self._length, begin)
        total = begin.reshape(-1)
        for start in range(0, self._length, self._order.size):
            stop = min(start + self._order.size, self._length)
            some = self._run(x, y, start, stop, np.zeros(begin.shape))
            total = _made(self._total, total, some.reshape(-1))
        return total.reshape(begin.shape)

    def _run(self, x: Side, y: Side, start: int, stop: int, running: Numbers) -> Numbers:
        """Return the sums after the steps of these products."""
        window, fmt = self._window, self._begin
        bits, least = float(window.fraction_bits or 0), max(float(window.lowest_exponent), _LEAST)
        limit = math.ldexp(1.0, window.result[0].emax + 1)
        for places in self._steps(start, stop):
            made = np.empty(running.shape)
            limits = float(fmt.emin), bits, least, limit
            if self._step(*x, *y, places, running, *limits, made, plan()) != DONE:
                raise Unsuited
            running = _made(self._result, made.reshape(-1)).reshape(made.shape)
            if not window.negative_zero:
                running = running + 0.0  # of -0 this makes +0
            fmt = window.result[0]
        return running

    def _steps(self, start: int, stop: int) -> Iterator[Array]:
        """Yield the places of the products of each step; none is empty."""
        pairs = self._window.groups == "alternate_pairs"
        both = self._window.step << pairs
        for first in range(start, stop, both):
            places = np.arange(first, min(first + both, stop))
            later = (places - first & 2 != 0) if pairs else np.zeros(places.size, bool)
            yield from (some for some in (places[~later], places[later]) if some.size)


@inlined
def larger(x: np.float64, y: np.float64) -> np.float64:
    """Return the larger of two numbers."""
    return np.float64(x if x > y else y)


@functools.cache
def kernel(by: str) -> Callable[..., int]:
    """Return the kernel of a step whose terms are cut in a way of `CUTS`.

    Called as step(x, x_exponents, y, y_exponents, places, running, emin, bits, least, limit, out, plan), it
    writes to `out` the exact sums of the products at some places and of `running`, cut to multiples of
    2**(e - bits) of the largest exponent e, which is at least `least`; that of a running sum is at least
    `emin`. Sums from `limit` on are infinite.
    """
    cut: Any = CUTS[by]

    def window_step(
        x: Numbers, x_exponents: Numbers, y: Numbers, y_exponents: Numbers, places: Array, running: Numbers,
        emin: np.float64, bits: np.float64, least: np.float64, limit: np.float64, out: Numbers, plan: Words,
    ) -> int:  # fmt: skip
        if not rounds_to_nearest(plan) or not keeps_subnormals(plan, plan[PAST]):
            return UNSUITED
        tops, parts, totals = np.empty(_WIDTH), np.empty(_WIDTH), np.empty(_WIDTH)
        several = places.size - places.size % _PRODUCTS
        for j in range(0, y.shape[1], _WIDTH):
            width = min(_WIDTH, y.shape[1] - j)
            columns = slice(j, j + width)
            for i in range(x.shape[0]):
                begun = running[i, columns]
                for c in range(width):
                    exponent = max(exponent_of(begun[c]), emin)
                    tops[c] = least if begun[c] == 0.0 or exponent < least else exponent
                for place in range(0, several, _PRODUCTS):
                    k0, k1, k2, k3 = places[place], places[place + 1], places[place + 2], places[place + 3]
                    x0, x1, x2, x3 = (
                        x_exponents[i, k0], x_exponents[i, k1], x_exponents[i, k2], x_exponents[i, k3],
                    )  # fmt: skip
                    y0, y1 = y_exponents[k0, columns], y_exponents[k1, columns]
                    y2, y3 = y_exponents[k2, columns], y_exponents[k3, columns]
                    for c in range(width):
                        top = larger(larger(x0 + y0[c], x1 + y1[c]), larger(x2 + y2[c], x3 + y3[c]))
                        tops[c] = larger(top, tops[c])
                for k in places[several:]:
                    x0, y0 = x_exponents[i, k], y_exponents[k, columns]
                    for c in range(width):
                        tops[c] = larger(x0 + y0[c], tops[c])
                for c in range(width):
                    parts[c] = power(bits - tops[c])
                    totals[c] = cut(begun[c] * parts[c])
                for place in range(0, several, _PRODUCTS):
                    k0, k1, k2, k3 = places[place], places[place + 1], places[place + 2], places[place + 3]
                    x0, x1, x2, x3 = x[i, k0], x[i, k1], x[i, k2], x[i, k3]
                    y0, y1, y2, y3 = y[k0, columns], y[k1, columns], y[k2, columns], y[k3, columns]
                    for c in range(width):
                        by = parts[c]
                        first, second = cut(x0 * y0[c] * by), cut(x1 * y1[c] * by)
                        totals[c] += (first + second) + (cut(x2 * y2[c] * by) + cut(x3 * y3[c] * by))
                for k in places[several:]:
                    x0, y0 = x[i, k], y[k, columns]
                    for c in range(width):
                        totals[c] += cut(x0 * y0[c] * parts[c])
                for c in range(width):
                    made = totals[c] * power(tops[c] - bits) + 0.0  # a sum that is zero is +0
                    out[i, j + c] = np.copysign(np.inf, made) if abs(made) >= limit else made
        return DONE

    return jit(window_step, f"window_step_{by}")
