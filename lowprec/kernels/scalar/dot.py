"""Dot products in integers: any operands, any order, any accumulator, one output after the other.

What is summed, and how, is in `sums` and `windows`. These kernels serve everything;
`vector.dot` is faster where it serves, and is checked against them.

Floor 2b. Imports numba through `jit`; never the oracle, which checks it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lowprec.kernels.jit import bit_length, helper, inlined, jit
from lowprec.kernels.lower.dot import DOWNWARD, How, Stages
from lowprec.kernels.lower.kinds import FINITE
from lowprec.kernels.lower.scalar import Params
from lowprec.kernels.scalar.exact_sum import add_number, number_of_sum, scale_sum
from lowprec.kernels.scalar.numbers import Number
from lowprec.kernels.scalar.stages import Stage, number_of, placed, summed
from lowprec.kernels.scalar.sums import (
    Dot,
    Work,
    begun,
    drawn,
    in_order,
    precisely,
    scaled,
)
from lowprec.kernels.scalar.windows import Operand, panel

__all__ = ["KINDS", "Rows", "kernel", "sums_of_doubles", "work_of"]

Words = npt.NDArray[Any]  #: of uint64

_U = np.uint64
_I = np.int64
_0, _TOP = _U(0), _U(1 << 63)
_ZERO = Number(FINITE, False, _0, _0, _I(0))


class Rows(NamedTuple):
    """Operands of one side of the products: rows of codes, and how they are read."""

    codes: Words  #: shape (rows, K)
    source: Params
    scales: Words  #: codes, shape (rows, blocks), or (rows, 0)
    scale_source: Params


def work_of(how: Params, length: int, terms: int, key: int, steps: Words) -> Work:
    """Allocate what the outputs of one call need, one after the other."""
    places = np.arange(length, dtype=np.int64)
    if how[How.ALTERNATE]:  # of two steps the even pairs of products, then the odd ones
        both = 2 * int(how[How.WINDOW])
        places = places[np.lexsort((places % both >> 1 & 1, places // both))]
    words, spare = np.zeros((2, int(how[How.WORDS])), np.uint64)
    leaves = np.zeros((max(terms + 1, int(steps[0]) if steps.size else 0), 4), np.uint64)
    return Work(words, spare, leaves, places, steps, np.zeros(1, np.uint64), np.uint64(key))


@inlined
def stretched(x: Number, how: Params) -> Number:
    """Multiply a sum by the scales of the tensors."""
    up = _I(64) - bit_length(_U(how[How.TENSOR]))
    return scaled(x, Number(FINITE, False, _U(how[How.TENSOR]) << _U(up), _0, how[How.TENSOR_EXPONENT] - up))


# -- one output, by each kind of accumulation --------------------------------------------------------


@helper
def by_sums(given: bool, addend: np.uint64, dot: Dot, terms: int) -> np.uint64:
    """Return the code of a dot product summed in an accumulator or in windows."""
    how, stages, output = dot.how, dot.stages, dot.stages[Stages.OUTPUT]
    last, late = how[How.ADDEND_LAST] != 0, how[How.WINDOW] != 0 and how[How.CHUNK] == 0
    made = in_order(given and not last, addend, dot, terms)
    if last and late and how[How.TENSOR] != 1:  # +0 is added, as scales of tensors take no addend
        if made.kind == FINITE and made.high == _0:
            made = Number(FINITE, made.negative and output[DOWNWARD] != _0, _0, _0, _I(0))
    elif last:
        end = (
            stages[Stages.TOTAL]
            if how[How.CHUNK] != 0
            else output
            if how[How.WINDOW] != 0
            else stages[Stages.SUM]
        )
        number = number_of(begun(given, addend, dot), stages[Stages.BEGIN])
        code = summed(made, number, drawn(end, dot.element, dot.work), end)
        if late:
            return code
        made = number_of(code, end)
    if how[How.TENSOR] != 1:
        made = stretched(made, how)
    return placed(made, drawn(output, dot.element, dot.work), output)


@helper
def by_exact_sum(given: bool, addend: np.uint64, dot: Dot, terms: int) -> np.uint64:
    """Add all products at once, exactly."""
    output = dot.stages[Stages.OUTPUT]
    number = number_of(addend, dot.stages[Stages.BEGIN]) if given else _ZERO
    made = precisely(given, number, dot, output[DOWNWARD] != _0)
    return placed(made, drawn(output, dot.element, dot.work), output)


#: Functions of one output, by the kind of accumulation: a kernel each, as each takes seconds to compile.
KINDS: dict[str, Any] = {
    "sums": by_sums,
    "exact": by_exact_sum,
}


@functools.cache
def kernel(kind: str) -> Callable[..., None]:
    """Return the kernel of a kind of accumulation.

    Called as kernel(x, y, addends, out, how, stages, work, first, paired) with `Rows`, it writes to `out`
    the codes of all dot products of the rows of x and those of y; if `paired`, of row i of x and row i of y.
    `out` has shape (rows of x, rows of y), or (rows, 1). `addends` is empty or has the shape of `out`:
    codes of `stages[Stages.BEGIN]`, added first, or last with ADDEND_LAST. `work` is of `work_of`, `first`
    the number of the first output, on which random integers depend.
    """
    one = KINDS[kind]

    def dots(
        xs: Rows, ys: Rows, addends: Words, out: Words, how: Params, stages: Words, work: Work,
        first: np.uint64, paired: bool,
    ) -> None:  # fmt: skip
        x, x_scales = panel(xs.codes, xs.source), panel(xs.scales, xs.scale_source)
        y, y_scales = panel(ys.codes, ys.source), panel(ys.scales, ys.scale_source)
        given, addend, terms = addends.size > 0, _0, work.leaves.shape[0] - 1
        for i in range(out.shape[0]):
            for column in range(out.shape[1]):
                j = i if paired else column
                element, work.counter[0] = first + _U(i * out.shape[1] + column), _0
                if given:
                    addend = addends[i, column]
                dot = Dot(Operand(x[i], x_scales[i]), Operand(y[j], y_scales[j]), how, stages, element, work)
                out[i, column] = one(given, addend, dot, terms)

    return jit(dots, f"dots_{kind}")


@jit
def sums_of_doubles(parts: Words, how: Params, stage: Stage, out: Words) -> None:
    """Write the codes of sums of binary64 numbers, times the tensors' scales: exact, rounded once.

    `parts` are patterns, shape (numbers in a sum, sums): finite, and multiples of 2**How.BASE. A sum of one
    number keeps the sign of zero.
    """
    words = np.zeros(how[How.WORDS], np.uint64)
    for i in range(out.size):
        words[:] = _0
        for part in range(parts.shape[0]):
            add_number(words, how[How.BASE], number_of_double(parts[part, i]))
        if how[How.TENSOR] != 1:
            scale_sum(words, _U(how[How.TENSOR]))
        made = number_of_sum(words, how[How.BASE])
        if made.high == _0:
            made = Number(FINITE, parts.shape[0] == 1 and parts[0, i] >> _U(63) != _0, _0, _0, _I(0))
        made = Number(FINITE, made.negative, made.high, made.low, made.exponent + how[How.TENSOR_EXPONENT])
        out[i] = placed(made, _0, stage)


@helper
def number_of_double(pattern: np.uint64) -> Number:
    """Return the number that is a finite binary64 number, not subnormal."""
    field, negative = _I(pattern >> _U(52) & _U(0x7FF)), pattern >> _U(63) != _0
    if field == _I(0):
        return Number(FINITE, negative, _0, _0, _I(0))
    return Number(FINITE, negative, _TOP | pattern << _U(11), _0, field - _I(1023 + 63))
