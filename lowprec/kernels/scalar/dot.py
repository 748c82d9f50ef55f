"""Dot products in integers: any operands, any order, any accumulator, one output after the other.

What is summed, and how, is in `sums`, `windows` and `machines`. These kernels serve everything;
`vector.dot` serves what is usual, fast, and is checked against them.

Floor 2b. Imports numba through `jit`; never the oracle, which checks it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lowprec.kernels.jit import bit_length, helper, inlined, jit
from lowprec.kernels.lower.dot import DOWNWARD, How, Machine, Stages
from lowprec.kernels.lower.kinds import FINITE, GENERATED
from lowprec.kernels.lower.scalar import Params
from lowprec.kernels.scalar.machines import cdna2, cdna3
from lowprec.kernels.scalar.numbers import Number, is_nan
from lowprec.kernels.scalar.stages import number_of, placed, summed
from lowprec.kernels.scalar.sums import Dot, Work, drawn, in_order, precisely, scaled
from lowprec.kernels.scalar.windows import Operand, panel

__all__ = ["KINDS", "Rows", "kernel"]

Words = npt.NDArray[Any]  #: of uint64

_U = np.uint64
_I = np.int64
_0 = _U(0)
_ZERO = Number(FINITE, False, _0, _0, _I(0))


class Rows(NamedTuple):
    """One side of the products: rows of codes, and how they are read."""

    codes: Words  #: shape (rows, K)
    source: Params
    scales: Words  #: codes, shape (rows, blocks), or (rows, 0)
    scale_source: Params


@helper
def make_work(length: int, leaves: int, how: Params, key: np.uint64) -> Work:
    """Allocate what one output needs."""
    places = np.arange(length)
    if how[How.ALTERNATE] != 0:
        both, at = 2 * how[How.WINDOW], 0
        for start in range(0, length, both):
            for odd in range(2):
                for k in range(min(both, length - start)):
                    if k >> 1 & 1 == odd:
                        places[at] = start + k
                        at += 1
    leaf_words, counter = np.zeros((leaves, 4), np.uint64), np.zeros(1, np.uint64)
    words, spare = np.zeros(how[How.WORDS], np.uint64), np.zeros(how[How.WORDS], np.uint64)
    return Work(words, spare, leaf_words, places, counter, key)


@inlined
def stretched(x: Number, how: Params) -> Number:
    """A sum times the scales of the tensors."""
    up = _I(64) - bit_length(_U(how[How.TENSOR]))
    return scaled(x, Number(FINITE, False, _U(how[How.TENSOR]) << _U(up), _0, how[How.TENSOR_EXPONENT] - up))


# -- one output, by each kind of accumulation --------------------------------------------------------


@helper
def by_sums(given: bool, addend: np.uint64, dot: Dot, terms: int) -> np.uint64:
    """In an accumulator, or in windows."""
    how, stages, output = dot.how, dot.stages, dot.stages[Stages.OUTPUT]
    number, last = number_of(addend, stages[Stages.BEGIN]) if given else _ZERO, how[How.ADDEND_LAST] != 0
    made = in_order(given and not last, number, dot, terms)
    if last:
        end = stages[Stages.TOTAL] if how[How.CHUNK] != 0 else output if how[How.WINDOW] != 0 else stages[Stages.SUM]
        code = summed(made, number, drawn(end, dot.element, dot.work), end)
        if how[How.WINDOW] != 0 and how[How.CHUNK] == 0:
            return code
        made = number_of(code, end)
    if how[How.TENSOR] != 1:
        made = stretched(made, how)
    return placed(made, drawn(output, dot.element, dot.work), output)


@helper
def by_exact_sum(given: bool, addend: np.uint64, dot: Dot, terms: int) -> np.uint64:
    """All at once."""
    output = dot.stages[Stages.OUTPUT]
    number = number_of(addend, dot.stages[Stages.BEGIN]) if given else _ZERO
    made = precisely(given, number, dot, output[DOWNWARD] != _0)
    return placed(made, drawn(output, dot.element, dot.work), output)


@helper
def by_machine(given: bool, addend: np.uint64, dot: Dot, terms: int) -> np.uint64:
    """As a matrix core does."""
    x, y, stage, output = dot.x.elements, dot.y.elements, dot.stages[Stages.SUM], dot.stages[Stages.OUTPUT]
    code, machine, step = addend if given else _0, dot.how[How.MACHINE], dot.how[How.STEP]
    if machine == Machine.CDNA2:
        made = cdna2(x, y, code, step, stage)
    elif machine == Machine.CDNA3 or machine == Machine.CDNA3_FP8:
        made = number_of(cdna3(x, y, code, step, machine == Machine.CDNA3_FP8, stage), stage)
    else:
        raise ValueError("a machine without a kernel")
    if is_nan(made):  # the addend's too, where there are no products
        made = Number(GENERATED, False, _0, _0, _I(0))
    return placed(made, drawn(output, dot.element, dot.work), output)


#: What makes an output, by the kind of accumulation. Each is a kernel of its own, as it takes seconds to compile.
KINDS: dict[str, Any] = {"sums": by_sums, "exact": by_exact_sum, "machine": by_machine}


@functools.cache
def kernel(kind: str) -> Callable[..., None]:
    """The kernel of a kind of accumulation.

    Called as kernel(x, y, addends, out, how, stages, key, first, paired) with `Rows`, it writes to `out`
    the codes of all dot products of the rows of x and those of y; if `paired`, of each and its own.
    `out` has shape (rows of x, rows of y), or (rows, 1). `addends` is empty or has the shape of `out`:
    codes of `stages[Stages.BEGIN]`, where the running sum begins. `first` is the number of the first output,
    on which random integers depend.
    """
    one = KINDS[kind]

    def dots(
        xs: Rows, ys: Rows, addends: Words, out: Words, how: Params, stages: Words, key: np.uint64, first: np.uint64,
        paired: bool,
    ) -> None:  # fmt: skip
        x, x_scales = panel(xs.codes, xs.source), panel(xs.scales, xs.scale_source)
        y, y_scales = panel(ys.codes, ys.source), panel(ys.scales, ys.scale_source)
        length, given, addend = xs.codes.shape[1], addends.size > 0, _0
        terms = (
            length if how[How.BLOCK] == 0 or how[How.WINDOW] != 0 else (length + how[How.BLOCK] - 1) // how[How.BLOCK]
        )
        work = make_work(length, terms + 1, how, key)
        for i in range(out.shape[0]):
            for column in range(out.shape[1]):
                j = i if paired else column
                element, work.counter[0] = first + _U(i * out.shape[1] + column), _0
                if given:
                    addend = addends[i, column]
                dot = Dot(Operand(x[i], x_scales[i]), Operand(y[j], y_scales[j]), how, stages, element, work)
                out[i, column] = one(given, addend, dot, terms)

    return jit(dots, f"dots_{kind}")
