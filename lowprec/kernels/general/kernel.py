"""Kernels of operations on arrays of codes: read, compute, project, write.

Kernels compute with 64-bit words, and take arrays as bytes with the size of an element: one compilation of an
operation serves all types and formats. A chunk of codes is widened before, and narrowed after, while both
lie in the nearest cache.

Floor 2b. Imports numba through `jit`; never the oracle, which checks it.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.kernels.general.codebooks import answered
from lowprec.kernels.general.numbers import CHUNK, pick, read
from lowprec.kernels.general.operations import COMPUTE, Context, lane, of_numbers, with_nans
from lowprec.kernels.general.remainders import fold
from lowprec.kernels.general.rounding import (
    Target,
    drawn_limit,
    load_target,
    project,
    project_usual,
    to_odd,
)
from lowprec.kernels.jit import helper, in_wide_vectors, inlined, jit, load_record, retyped
from lowprec.kernels.lower.records import REFUSED, Params, Source
from lowprec.kernels.request import CONVERT
from lowprec.spec.arith import OPERANDS, SIGN_ONLY
from lowprec.spec.projection import Flag

__all__ = ["counted", "element", "kernel", "narrow", "run", "widen"]

Codes = npt.NDArray[Any]

_U = np.uint64
_I = np.int64
_0, _63, _LOW = _U(0), _U(63), _U((1 << 63) - 1)
_REFUSED = _U(REFUSED)
_INEXACT, _DIVIDED, _INVALID = (_U(flag) for flag in (Flag.INEXACT, Flag.DIVIDE_BY_ZERO, Flag.INVALID))


@inlined
def copied(given: Any, at: int, out: Any, to: int, count: int) -> None:
    """Copy elements from index `at` on to index `to`.

    Indices that are sums are unsigned: of signed ones numba asks whether they count from the end, and the
    compiler makes no vectors then.
    """
    for i in range(count):
        out[_U(to + i)] = given[_U(at + i)]


@helper
def widen(codes: Any, size: int, start: int, words: Any, first: int, count: int) -> None:
    """Copy elements of `size` bytes to words, from index `first` on; one element stands for all."""
    one = codes.size == size
    at, some = 0 if one else start, 1 if one else count
    if size == 1:
        copied(codes, at, words, first, some)
    elif size == 2:
        copied(retyped(codes, np.uint16), at, words, first, some)
    elif size == 4:
        copied(retyped(codes, np.uint32), at, words, first, some)
    else:
        copied(retyped(codes, np.uint64), at, words, first, some)
    for i in range(some, count):
        words[_U(first + i)] = words[first]


@helper
def narrow(words: Any, first: int, count: int, out: Any, size: int, start: int) -> None:
    """Copy words, from index `first` on, to elements of `size` bytes."""
    if size == 1:
        copied(words, first, out, start, count)
    elif size == 2:
        copied(words, first, retyped(out, np.uint16), start, count)
    elif size == 4:
        copied(words, first, retyped(out, np.uint32), start, count)
    else:
        copied(words, first, retyped(out, np.uint64), start, count)


@helper
def counted(words: Any, place: int, count: int, start: int, refused: int, first: int) -> tuple[int, int]:
    """Count results without a code from index `place` on; return their number, and the first one's index."""
    for i in range(count):
        if words[_U(place + i)] == _REFUSED:
            refused, first = refused + 1, start + i if first < 0 else first
    return refused, first


@functools.cache
def element(operation: str, wide: bool, stochastic: bool, book: bool, usual: bool, signals: bool) -> Any:
    """Return the function that gives the code of one result, and its flags where `signals`.

    `wide` says that exact results have two words, `usual` that formats are so to `read` and `place`, `book`
    that the target is a codebook. Projections that flush results need `signals`. In place of the code of
    a third operand remainders have the word that `fold` made of both.
    """
    number = operation.endswith("_number")
    compute = COMPUTE[operation.removesuffix("_number") + ("_long" if wide else "")]
    count, converts, fused = OPERANDS.get(operation, 1), operation == CONVERT, operation == "fma"
    two, three, chooses = count > 1, count > 2, converts or operation in SIGN_ONLY
    place = to_odd if book else project_usual if usual else project

    @inlined
    def result(
        x_code: np.uint64, y_code: np.uint64, z_code: np.uint64, x_source: Source, y_source: Source,
        z_source: Source, target: Target, downward: bool, drawn: np.uint64, signaling_first: bool,
    ) -> tuple[np.uint64, np.uint64]:  # fmt: skip
        nothing = lane(False, _0, _I(0), False)
        x = read(x_code, x_source, usual)
        y = read(y_code, y_source, usual) if two else nothing
        z = read(z_code, z_source, usual) if three else lane(z_code >> _63 != _0, z_code & _LOW, _I(0), False)
        found = compute(x, y, z, Context(downward, drawn, stochastic, target))
        if number:
            found = of_numbers(found, x, y, signaling_first)
        elif not chooses:
            found = with_nans(found, x, y, z, fused, signaling_first, usual)
        made = found.made
        code, raised = place(made, found.invalid, drawn, target, stochastic, signals)
        if signals:
            flushed = (x.flushed | y.flushed | z.flushed) & (not made.nan)
            raised |= found.raised | (_U(flushed) * _INEXACT)
            if not converts:
                raised = pick(found.raised == _DIVIDED, _DIVIDED, raised)
                raised = pick(raised & _INVALID != _0, _INVALID, raised)
        return code, raised

    return result


@functools.cache
def kernel(operation: str, wide: bool, stochastic: bool, book: bool, usual: bool, signals: bool) -> Any:
    """Return the kernel of an operation; it returns how many results have no code, and the first one's index.

    For the parameters see `element`.
    """
    count, converts = OPERANDS.get(operation, 1), operation == CONVERT
    two, three, folds = count > 1, count > 2, operation == "remainder"
    result = element(operation, wide, stochastic, book, usual, signals)

    def operate(
        xs: Any, x_size: int, x_words: Any, ys: Any, y_size: int, y_words: Any, zs: Any, z_size: int,
        z_words: Any, out: Any, out_size: int, target_words: Any, downward: bool, signaling_first: bool,
        random: Any, flags: Any, words: Any,
    ) -> tuple[int, int]:  # fmt: skip
        in_wide_vectors()
        x_source, y_source = load_record(Source, x_words, 0), load_record(Source, y_words, 0)
        z_source, target = load_record(Source, z_words, 0), load_target(target_words)
        total, refused, first = out.size // out_size, 0, -1
        for start in range(0, total, CHUNK):
            size = min(total - start, CHUNK)
            widen(xs, x_size, start, words, 0, size)
            if two:
                widen(ys, y_size, start, words, CHUNK, size)
            if three:
                widen(zs, z_size, start, words, 2 * CHUNK, size)
            if folds:
                fold(words, size, x_source, y_source, usual)
            refuses = False
            for i in range(size):
                drawn = drawn_limit(_U(random[_U(start + i)]), target.grid) if stochastic else _0
                y_code = words[_U(CHUNK + i)] if two else _0
                z_code = words[_U(2 * CHUNK + i)] if three or folds else _0
                code, raised = result(
                    words[i], y_code, z_code, x_source, y_source, z_source, target, downward, drawn,
                    signaling_first,
                )  # fmt: skip
                words[_U(3 * CHUNK + i)] = code
                refuses |= code == _REFUSED
                if signals:
                    words[_U(4 * CHUNK + i)] = raised
            if book:
                numbers, raised_by = words[3 * CHUNK :][:size], words[4 * CHUNK :][:size]
                drawn_by = random[start : start + size]
                refuses = answered(numbers, raised_by, target_words, drawn_by, stochastic, signals, converts)
            if refuses:
                refused, first = counted(words, 3 * CHUNK, size, start, refused, first)
            narrow(words, 3 * CHUNK, size, out, out_size, start)
            if signals:
                narrow(words, 4 * CHUNK, size, flags, 1, start)
        return refused, first

    return jit(operate, f"general_{operation}_{wide:d}{stochastic:d}{book:d}{usual:d}{signals:d}")


def run(
    by: Any,
    operands: list[tuple[Codes, Params]],
    out: Codes,
    target: Params,
    random: Codes,
    flags: Codes,
    downward: bool = False,
    signaling_first: bool = False,
) -> tuple[int, int]:
    """Run a kernel of `kernel` on one to three operands, of the size of `out` or of one element."""
    read = [(codes.view(np.uint8), codes.itemsize, words) for codes, words in operands]
    x, y, z = (*read, *read[:1] * (3 - len(read)))
    words = np.empty(5 * CHUNK, np.uint64)
    refused, first = by(
        *x, *y, *z, out.view(np.uint8), out.itemsize, target, downward, signaling_first, random, flags, words
    )
    return int(refused), int(first)
