"""Dot products by vectors of columns, for what is usual: the order along K is kept, columns are lanes.

Running sums in binary32, bfloat16 and binary16, and windows of hardware. Operands come as panels of
binary32 numbers, and of their exponents where windows need them. What a vector cannot say (NaN, and
in windows whatever is very small or large) is marked, and done by `scalar.dot`.

It rests on subnormal operands that are kept, and on a processor that rounds to nearest. Where a
process does otherwise, nothing is written.

Floor 2b. Imports numba through `jit`; never the oracle, which checks it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.kernels.jit import inlined, jit
from lowprec.kernels.lower.vector import PAST, Words, plan as conversion_plan
from lowprec.kernels.vector.arith import DOWNWARD, RESULT, TARGET, fma
from lowprec.kernels.vector.convert import (
    DONE,
    UNSUITED,
    keeps_subnormals,
    load_decoder,
    load_encoder,
    project,
    read,
    rounds_to_nearest,
)
from lowprec.kernels.vector.ir.lanes import (
    LANES,
    Lanes,
    as_singles,
    as_words,
    choose,
    equal,
    fill,
    fused,
    greater,
    less,
    lesser,
    load,
    one_where,
    settle,
    store,
    widened_from_half,
)
from lowprec.kernels.vector.rounding import (
    cut_short_sum,
    cut_sum,
    joined_sum,
    narrowed_to_half,
    odd_sum,
    to_short,
    truncated,
)

__all__ = [
    "ACCUMULATORS",
    "BIAS",
    "SINKS",
    "blocks",
    "pairwise",
    "panels",
    "plan",
    "projected",
    "running",
    "windows",
]

Codes = npt.NDArray[Any]  #: of uint32
Kernel = Callable[..., int]
Shape = tuple[int, ...]

_MAGNITUDE, _INFINITY = 0x7FFFFFFF, 0x7F800000

#: The largest upper half of a finite binary64 number.
_LARGEST = 0x7FEFFFFF

#: Added to exponents of operands that are not zero: then those of products are above all others.
BIAS = 1024

#: Rows that go through a panel together: as many as registers hold; of windows, step by step.
_ROWS, _TOGETHER = 3, 8


@functools.cache
def plan() -> Words:
    """Return the plan of the probe of the processor's rounding mode."""
    return conversion_plan()


# -- running sums ------------------------------------------------------------------------------------


@inlined
def fuse(total: Lanes, x: Lanes, y: Lanes) -> Lanes:
    """Add a product to a sum, rounded once."""
    return as_words(fused(as_singles(x), as_singles(y), as_singles(total)))


@inlined
def multiply_and_add(total: Lanes, x: Lanes, y: Lanes) -> Lanes:
    """Add a rounded product to a sum, and round it."""
    return as_words(as_singles(total) + as_singles(x) * as_singles(y))


@inlined
def fuse_to_short(total: Lanes, x: Lanes, y: Lanes) -> Lanes:
    """Add as `fuse` does, then round to 8 bits; equal to one rounding for short products (decision 11)."""
    return to_short(fuse(total, x, y))


@inlined
def fuse_to_half(total: Lanes, x: Lanes, y: Lanes) -> Lanes:
    """Add as `fuse` does, then round to 11 bits; equal to one rounding for short products."""
    return widened_from_half(narrowed_to_half(fuse(total, x, y)))


@inlined
def add_singles(total: Lanes, part: Lanes) -> Lanes:
    """Add two numbers, to nearest."""
    return as_words(as_singles(total) + as_singles(part))


#: What a step does, by name.
ACCUMULATORS: dict[str, Any] = {
    "fma": fuse,
    "multiply_and_add": multiply_and_add,
    "short": fuse_to_short,
    "half": fuse_to_half,
}


@functools.cache
def running(accumulator: str) -> Kernel:
    """Return the kernel whose running sums are kept in a format of `ACCUMULATORS`.

    Called as kernel(x, y, addends, out, plan): patterns of binary32, NaNs quiet and without payload, of
    x in rows of K, of y in `panels`; addends and results in rows of LANES for each panel.
    """
    step = ACCUMULATORS[accumulator]

    def rows(x: Codes, y: Codes, addends: Codes, out: Codes, plan: Words) -> int:
        if not rounds_to_nearest(plan) or not keeps_subnormals(plan, plan[PAST]):
            return UNSUITED
        length, width, flat = x.shape[1], out.shape[1], out.reshape(-1)
        starts = addends.reshape(-1)
        for j in range(0, width, LANES):
            panel = y[j // LANES]
            for i in range(0, x.shape[0], _ROWS):
                # The last rows go again with those before them: all are done alike.
                second, third = min(i + 1, x.shape[0] - 1), min(i + 2, x.shape[0] - 1)
                a, b, c = (
                    load(starts, i * width + j),
                    load(starts, second * width + j),
                    load(starts, third * width + j),
                )
                for k in range(length):
                    column = load(panel, k * LANES)
                    a = step(a, fill(x[i, k]), column)
                    b = step(b, fill(x[second, k]), column)
                    c = step(c, fill(x[third, k]), column)
                store(flat, i * width + j, a)
                store(flat, second * width + j, b)
                store(flat, third * width + j, c)
        settle()
        return DONE

    return jit(rows, f"running_{accumulator}")


@functools.cache
def blocks(accumulator: str) -> Kernel:
    """Return the kernel of running sums whose terms are sums of blocks, times both scales.

    Called as kernel(x, x_scales, y, y_scales, size, sums, plan): patterns of binary32, of x in rows, of y in
    `panels`; `sums` begin with the addends. A block's products, their sum and the product of its scales are
    exact in binary32, so that `accumulator`, "fma" or "multiply_and_add", rounds as its name says.
    """
    step = ACCUMULATORS[accumulator]

    def rows(
        x: Codes, x_scales: Codes, y: Codes, y_scales: Codes, size: int, sums: Codes, plan: Words
    ) -> int:  # fmt: skip
        if not rounds_to_nearest(plan) or not keeps_subnormals(plan, plan[PAST]):
            return UNSUITED
        length, width, flat = x.shape[1], sums.shape[1], sums.reshape(-1)
        for j in range(0, width, LANES):
            panel, scales = y[j // LANES], y_scales[j // LANES]
            for i in range(0, x.shape[0], _ROWS):
                # The last rows go again with those before them: all are done alike.
                second, third = min(i + 1, x.shape[0] - 1), min(i + 2, x.shape[0] - 1)
                total, total_2, total_3 = (
                    load(flat, i * width + j),
                    load(flat, second * width + j),
                    load(flat, third * width + j),
                )
                for block in range(x_scales.shape[1]):
                    a, b, c = fill(0), fill(0), fill(0)
                    for k in range(block * size, min(block * size + size, length)):
                        column = load(panel, k * LANES)
                        a = fuse(a, fill(x[i, k]), column)
                        b = fuse(b, fill(x[second, k]), column)
                        c = fuse(c, fill(x[third, k]), column)
                    scale = as_singles(load(scales, block * LANES))
                    total = step(total, a, as_words(as_singles(fill(x_scales[i, block])) * scale))
                    total_2 = step(total_2, b, as_words(as_singles(fill(x_scales[second, block])) * scale))
                    total_3 = step(total_3, c, as_words(as_singles(fill(x_scales[third, block])) * scale))
                store(flat, i * width + j, total)
                store(flat, second * width + j, total_2)
                store(flat, third * width + j, total_3)
        settle()
        return DONE

    return jit(rows, f"blocks_{accumulator}")


@functools.cache
def projected(target_shape: Shape, result_shape: Shape) -> Kernel:
    """Return the kernel of running sums in any format, for stages of given shapes, or of any if none.

    Called as kernel(x, y, addends, out, doubts, plan), as that of `running`; `plan` is of `arith`, with the
    accumulator as target. A sum is rounded to odd in binary64 first, and then as casts round.
    """

    def rows(x: Codes, y: Codes, addends: Codes, out: Codes, doubts: Codes, plan: Words) -> int:
        if not rounds_to_nearest(plan) or not keeps_subnormals(plan, plan[DOWNWARD + 1]):
            return UNSUITED
        target, result = load_encoder(plan, TARGET, target_shape), load_decoder(plan, RESULT, result_shape)
        length, width, flat, downward = x.shape[1], out.shape[1], out.reshape(-1), plan[DOWNWARD]
        starts, marks = addends.reshape(-1), doubts.reshape(-1)
        for j in range(0, width, LANES):
            panel = y[j // LANES]
            for i in range(x.shape[0]):
                total, largest = load(starts, i * width + j), fill(0)
                for k in range(length):
                    word = fma(fill(x[i, k]), load(panel, k * LANES), total, downward)
                    largest = greater(largest, word & _MAGNITUDE)
                    total = read(project(word, fill(0), target), result)
                store(flat, i * width + j, total)
                store(marks, i * width + j, one_where(less(_LARGEST, largest)))
        settle()
        return DONE

    name = "".join("_" + ".".join(map(str, shape)) for shape in (target_shape, result_shape))
    return jit(rows, f"running_projected{name}")


@inlined
def product(row: Codes, panel: Codes, k: int) -> Lanes:
    """Return the rounded products of a number of a row and those of the columns."""
    return as_words(as_singles(fill(row[k])) * as_singles(load(panel, k * LANES)))


@jit
def pairwise(x: Codes, y: Codes, addends: Codes, begins: bool, out: Codes, plan: Words) -> int:
    """Sums of neighbours, then of their sums, in binary32; products are rounded too. As `running`.

    The addend is the first term, where sums begin with one. Sums that wait for a neighbour are on a stack,
    each of twice as many terms as the next, or more: the binary digits of the number of terms say how many.
    """
    if not rounds_to_nearest(plan) or not keeps_subnormals(plan, plan[PAST]):
        return UNSUITED
    length, width, flat, starts = x.shape[1], out.shape[1], out.reshape(-1), addends.reshape(-1)
    stack = np.zeros(64 * LANES, np.uint32)
    for j in range(0, width, LANES):
        panel = y[j // LANES]
        for i in range(x.shape[0]):
            row = x[i]
            depth, count, k = 0, 0, 0
            if begins:
                store(stack, 0, load(starts, i * width + j))
                depth, count = 1, 1
            while k < length:
                if count % 4 == 0 and k + 4 <= length:
                    # Four products at once, whose sum waits for that of the next four.
                    total = add_singles(
                        add_singles(product(row, panel, k), product(row, panel, k + 1)),
                        add_singles(product(row, panel, k + 2), product(row, panel, k + 3)),
                    )
                    full, k, count = count // 4, k + 4, count + 4
                else:
                    total = product(row, panel, k)
                    full, k, count = count, k + 1, count + 1
                while full % 2 == 1:
                    depth, full = depth - 1, full // 2
                    total = add_singles(load(stack, depth * LANES), total)
                store(stack, depth * LANES, total)
                depth += 1
            while depth > 1:
                depth -= 1
                total = add_singles(load(stack, (depth - 1) * LANES), load(stack, depth * LANES))
                store(stack, (depth - 1) * LANES, total)
            store(flat, i * width + j, load(stack, 0))
    settle()
    return DONE


# -- windows -----------------------------------------------------------------------------------------


@inlined
def to_half(first: Lanes, second: Lanes, third: Lanes, field: Lanes) -> Lanes:
    """Round a sum of units to binary16, to nearest; +0 for -0."""
    half = narrowed_to_half(odd_sum(first, second, third, field))
    return widened_from_half(choose(equal(half & 0x7FFF, 0), 0, half))


@inlined
def add_halves(total: Lanes, part: Lanes) -> Lanes:
    """Add two numbers of 11 bits, which binary32 rounds first, harmlessly."""
    return widened_from_half(narrowed_to_half(add_singles(total, part)))


#: What rounds a step's sum, the exponent field of the smallest normal number there, and how chunks are added.
SINKS: dict[str, tuple[Any, int, Any]] = {
    "single": (cut_sum, 1, add_singles),
    "short": (cut_short_sum, 1, add_singles),
    "half": (to_half, 113, add_halves),
    "nearest": (cut_sum, 1, add_singles),
}


@inlined
def oddity(word: Lanes) -> Lanes:
    """Not 0 where a result is subnormal in binary32, infinite or NaN."""
    magnitude = word & _MAGNITUDE
    normal = greater(lesser(magnitude, _INFINITY - 1), 0x800000)
    return choose(equal(normal, magnitude), 0, magnitude)


@functools.cache
def windows(sink: str, chunks: bool) -> Kernel:
    """Return the kernel of windows with a kind of result.

    Called as kernel(x, x_exponents, y, y_exponents, addends, out, doubts, step, chunk, bits, lowest,
    lost, plan): finite numbers and exponents with BIAS, 0 for those of zeros, K a multiple of step and of the
    steps in a chunk. "nearest" sums each step from zero, rounds that to 53 - `lost` bits and adds it to the
    running sum in binary32. All products that are not zero lie between 2**-60 and 2**100. Where `doubts` is
    set, `dot` must say.
    """
    direct = sink == "nearest"
    becomes, smallest, add = SINKS[sink]

    def rows(
        x: Codes, x_exponents: Codes, y: Codes, y_exponents: Codes, addends: Codes, out: Codes, doubts: Codes,
        step: int, chunk: int, bits: int, lowest: int, lost: int, plan: Words,
    ) -> int:  # fmt: skip
        if not rounds_to_nearest(plan) or not keeps_subnormals(plan, plan[PAST]):
            return UNSUITED
        length, width, flat = x.shape[1], out.shape[1], out.reshape(-1)
        starts, marks, sums = addends.reshape(-1), doubts.reshape(-1), np.zeros(_TOGETHER * LANES, np.uint32)
        least, unit = 2 * BIAS + lowest, 2 * BIAS + 127 + bits
        for j in range(0, width, LANES):
            panel, exponents = y[j // LANES], y_exponents[j // LANES]
            for i0 in range(0, x.shape[0], _TOGETHER):
                i1 = min(i0 + _TOGETHER, x.shape[0])
                for i in range(i0, i1):
                    total, at = load(starts, i * width + j), i * width + j
                    store(flat, at, total)
                    store(marks, at, oddity(total))
                    store(sums, (i - i0) * LANES, fill(0) if chunks else total)
                # All rows take a step of the panel before the next: it is then in the nearest cache.
                for k in range(0, length, step):
                    for i in range(i0, i1):
                        at, place = i * width + j, (i - i0) * LANES
                        c = load(sums, place)
                        # Of each term the exponent; those of zeros are below every other.
                        largest = fill(least)
                        for at_k in range(k, k + step):
                            largest = greater(
                                largest, load(exponents, at_k * LANES) + fill(x_exponents[i, at_k])
                            )
                        field = greater((c >> 23) & 0xFF, smallest)
                        of_sum = choose(equal(c & _MAGNITUDE, 0), 0, field + (2 * BIAS - 127))
                        largest = greater(largest, of_sum)
                        power = unit - largest
                        doubt = one_where(less(254, power) & less(0, c & _MAGNITUDE))
                        scale = as_singles(lesser(power, 254) << 23)
                        first, second = fill(0), fill(0)
                        half = k + min(step, 16)
                        for at_k in range(k, half):
                            product = as_singles(load(panel, at_k * LANES)) * as_singles(fill(x[i, at_k]))
                            first = first + truncated(product * scale)
                        for at_k in range(half, k + step):
                            product = as_singles(load(panel, at_k * LANES)) * as_singles(fill(x[i, at_k]))
                            second = second + truncated(product * scale)
                        power = largest - (2 * BIAS - 1023 + bits)
                        if direct:
                            total = joined_sum(load(flat, at), first, second, power, fill(lost))
                            store(flat, at, total)
                            store(marks, at, load(marks, at) | oddity(total))
                        else:
                            c = becomes(first, second, truncated(as_singles(c) * scale), power)
                            odd = oddity(c)
                            store(marks, at, load(marks, at) | doubt | odd)
                            c = choose(equal(odd, 0), c, 0)
                            if chunks and ((k + step) % chunk == 0 or k + step == length):
                                total, c = add(load(flat, at), c), fill(0)
                                store(flat, at, total)
                                store(marks, at, load(marks, at) | oddity(total))
                            store(sums, place, c)
                if not chunks:
                    for i in range(i0, i1):
                        store(flat, i * width + j, load(sums, (i - i0) * LANES))
        settle()
        return DONE

    return jit(rows, f"windows_{sink}{'_chunks' * chunks}")


# -- panels ------------------------------------------------------------------------------------------


def panels(y: Codes) -> Codes:
    """Rows of y as columns of LANES side by side, shape (panels, K * LANES); what is missing is 0."""
    if not y.flags.f_contiguous:
        return _panels_of_rows(y)
    count, length = -(-len(y) // LANES), y.shape[1]
    made = np.zeros((count, length, LANES), y.dtype)
    whole = len(y) // LANES
    made[:whole] = y[: whole * LANES].T.reshape(length, whole, LANES).swapaxes(0, 1)
    if whole < count:
        made[whole, :, : len(y) - whole * LANES] = y[whole * LANES :].T
    return made.reshape(count, length * LANES)


@jit
def _panels_of_rows(y: Codes) -> Codes:
    count = (y.shape[0] + LANES - 1) // LANES
    made = np.zeros((count, y.shape[1] * LANES), np.uint32)
    for j in range(y.shape[0]):
        for k in range(y.shape[1]):
            made[j // LANES, k * LANES + j % LANES] = y[j, k]
    return made
