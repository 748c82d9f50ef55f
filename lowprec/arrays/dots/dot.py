"""Dot products and products of matrices, by any accumulation.

Floor 3.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lowprec.arrays import calls, lazy
from lowprec.arrays.checks import Array, code_dtype, values_operand
from lowprec.arrays.dots import lazy_dot
from lowprec.arrays.dots.dot_shapes import broadcast_outer, check_joins, check_shapes
from lowprec.arrays.dots.epilogue import Scales, scaled_product
from lowprec.arrays.dots.factors import Factors, alike, along, factors, part_of
from lowprec.arrays.dots.sums import PartialSum, as_values, coded, combined, computed, rounded_codes
from lowprec.arrays.kinds import keeps_kind
from lowprec.arrays.operations import result_type, wanted_type
from lowprec.arrays.outputs import output
from lowprec.arrays.progress import Progress, reporting
from lowprec.arrays.random import Place, key_of
from lowprec.arrays.result_signatures import Dot as DotSignature, MatMul
from lowprec.arrays.signatures import Returns
from lowprec.arrays.threads import share_rows
from lowprec.kernels import engine
from lowprec.kernels.engine import Backend, Rows, check_backend
from lowprec.kernels.lower.dot import kept_as
from lowprec.kernels.modes import usual_arithmetic
from lowprec.kernels.request import CONVERT, Dot, known
from lowprec.spec.accumulation import Accumulation, begins_in
from lowprec.spec.accumulations import accumulation as accumulation_of
from lowprec.spec.codebook import Codebook
from lowprec.spec.epilogue import Epilogue, LibraryCall
from lowprec.spec.format import Carrier, Format
from lowprec.spec.library_calls import library_call
from lowprec.spec.order import EXACT
from lowprec.spec.rounded import as_it_is

__all__ = ["dot", "matmul"]

_ONE = Fraction(1)


@Returns[DotSignature]()
@keeps_kind(2, along=-1)
@usual_arithmetic()
def dot(
    x: Factors,
    y: Factors,
    accumulation: Accumulation | LibraryCall | str,
    *,
    addend: npt.ArrayLike | None = None,
    scales: Scales | None = None,
    bias: npt.ArrayLike | None = None,
    output_scale: npt.ArrayLike | None = None,
    epilogue: Epilogue | None = None,
    rng: int | np.random.Generator | None = None,
    dtype: npt.DTypeLike | None = None,
    out: Array | None = None,
    backend: Backend | None = None,
    progress: Progress = None,
) -> Any:
    """Return the dot products along the last axes of x and y, summed as an accumulation says.

    >>> dot([1.0, 2.0**-24, 2.0**-24], [1.0, 1.0, 1.0], "fp32_fma")
    np.float32(1.0)
    >>> dot([1.0, 2.0**-24, 2.0**-24], [1.0, 1.0, 1.0], "exact")
    np.float32(1.0000001)

    Parameters
    ----------
    x, y : array_like of float or integer, or BlockArray, shapes (..., K)
        Those in front of K broadcast. Where the accumulation has `operands`, values of these formats.
        Blocks lie along K. Dask arrays, lazily, with K in one chunk; xarray objects, both of them, with
        one name for K.
    accumulation : Accumulation, LibraryCall or str
        Such as "hopper_wgmma_e4m3fn_binary32"; `lowprec.accumulations` has all names.
    addend : array_like, shape that broadcasts to (...), optional
        Added where the accumulation says; by default +0. With an epilogue, where that says.
    scales : (array_like, array_like), optional
        Of x and of y, either may be None: one number; one for each row of x and column of y, or as many axes
        as the operand has, with 1 in the place of K; or K/n there for blocks of n along K.
    bias, output_scale : array_like, shape that broadcasts to the results', optional
        These, `addend` and `scales` may be Dask arrays, or xarray objects, which go by names.
    epilogue : Epilogue, optional
        What is done with the sums where any of these are given; by default `Epilogue()`.
    rng : int or Generator
        Of stochastic accumulations: the key of the random integers. Rounding s of output i takes
        `random_bits(..., stream=2 + s)` at i. All roundings of sums are counted from 0 in their order,
        in pairs level by level; that of the output comes last.
    dtype : dtype, optional
        As for `add`: of values, or of the output format's codes.
    out : array of such a type, shape (...), optional
        Untouched if the call fails.
    backend
        As for `encode`.
    progress : callable or True, optional
        Called with (done, total) as the product goes on, in outputs, and with scales of blocks along K in
        blocks; True shows a bar on stderr. What it raises ends the call.

    Returns
    -------
    values : array of float, shape (...)

    Raises
    ------
    ValueError
        Shapes that do not fit, values that the operands' formats do not have, blocks that the
        accumulation does not take.

    Notes
    -----
    With operands in blocks the exact sum of a block's products times both scales is one term, unless
    the accumulation is hardware that has scales of its own. A tensor's scale multiplies the sum before
    it becomes the output.

    Source
    ------
    [IEEE754] 9.4 for what may differ; docs/dot-products.md.
    """
    check_backend(backend)
    how, after = _call(accumulation, epilogue, scales, bias, output_scale)
    joins = {"addend": addend, "bias": bias, "output_scale": output_scale}
    if any(map(lazy_dot.is_lazy, (x, y, *joins.values(), *(scales or ())))):
        verb = functools.partial(dot, accumulation=how, epilogue=after, dtype=dtype, backend=backend)
        return _lazily("dot", verb, x, y, scales, joins, after.block if after else 0, rng, out, progress)
    if after is not None:
        return scaled_product(dot, x, y, how, after, scales=scales, addend=addend, bias=bias,
                              output_scale=output_scale, rng=rng, dtype=dtype, out=out, backend=backend,
                              progress=progress)  # fmt: skip
    left, right = factors("x", x, how, 0, -1, backend), factors("y", y, how, 1, -1, backend)
    check_shapes("dot", left, right, -1)
    shape = broadcast_outer("dot", left, right, left.shape[:-1], right.shape[:-1])
    count, length = math.prod(shape), left.shape[-1]
    one = right.single(1) if count > 1 else None
    if one is not None:  # a row that all others meet is a matrix of one row
        pair = left.rows((*shape, length)), one.rows((1, length))
        outputs = _Outputs(shape, (1, count, 1), False)
    else:
        pair = left.rows((*shape, length)), right.rows((*shape, length))
        outputs = _Outputs(shape, (1, count, 1), True)
    return _run(how, *pair, outputs, addend, rng, dtype, out, backend, progress)


@Returns[MatMul]()
@keeps_kind(2, along=0)
@usual_arithmetic()
def matmul(
    x: Factors,
    y: Factors,
    accumulation: Accumulation | LibraryCall | str,
    *,
    addend: npt.ArrayLike | None = None,
    scales: Scales | None = None,
    bias: npt.ArrayLike | None = None,
    output_scale: npt.ArrayLike | None = None,
    epilogue: Epilogue | None = None,
    rng: int | np.random.Generator | None = None,
    dtype: npt.DTypeLike | None = None,
    out: Array | None = None,
    backend: Backend | None = None,
    progress: Progress = None,
) -> Any:
    """Return the product of matrices, each element summed as an accumulation says; see `dot`.

    The order along K is the accumulation's: neither threads nor the size of the matrices change a bit.

    >>> import numpy as np
    >>> matmul(np.ones((2, 32)), np.full((32, 1), 0.125), "hopper_wgmma_e4m3fn_binary32")
    array([[4.],
           [4.]], dtype=float32)

    Parameters
    ----------
    x : array_like or BlockArray, shape (..., M, K)
    y : array_like or BlockArray, shape (..., K, N)
        Axes in front of the last two broadcast; one dimension is a row of x, a column of y, as for
        `numpy.matmul`. Blocks lie along K in both.
    accumulation, scales, bias, output_scale, epilogue, rng, dtype, out, backend, progress
        As for `dot`.
    addend : array_like, shape that broadcasts to (..., M, N), optional

    Returns
    -------
    values : array of float, shape (..., M, N)

    Raises
    ------
    ValueError
        As for `dot`.
    """
    check_backend(backend)
    how, after = _call(accumulation, epilogue, scales, bias, output_scale)
    joins = {"addend": addend, "bias": bias, "output_scale": output_scale}
    if any(map(lazy_dot.is_lazy, (x, y, *joins.values(), *(scales or ())))):
        verb = functools.partial(matmul, accumulation=how, epilogue=after, dtype=dtype, backend=backend)
        return _lazily("matmul", verb, x, y, scales, joins, after.block if after else 0, rng, out, progress)
    if after is not None:
        return scaled_product(matmul, x, y, how, after, scales=scales, addend=addend, bias=bias,
                              output_scale=output_scale, rng=rng, dtype=dtype, out=out, backend=backend,
                              progress=progress)  # fmt: skip
    left, right = factors("x", x, how, 0, -1, backend), factors("y", y, how, 1, -2, backend)
    check_shapes("matmul", left, right, max(-2, -len(right.shape)))
    row, column = len(left.shape) == 1, len(right.shape) == 1
    left = left.expanded(0) if row else left
    right = right.expanded(1) if column else right
    right = right.transposed()
    outer = broadcast_outer("matmul", left, right, left.shape[:-2], right.shape[:-2])
    (m, length), n = left.shape[-2:], right.shape[-2]
    count = math.prod(outer) if m and n else 0
    shape = (*outer, *(() if row else (m,)), *(() if column else (n,)))
    if (one := right.single(2)) is not None:  # which all rows of x meet
        pair = left.rows((*outer, m, length)), one.rows((n, length), turned=True)
        outputs = _Outputs(shape, (1, count * m, n), False)
    else:
        pair = left.rows(left.shape), right.rows(right.shape)
        each = (left.shape[:-2], right.shape[:-2]) if count else ()
        numbers = (np.arange(math.prod(own)).reshape(own) for own in each)
        matrices = [np.broadcast_to(some, outer).reshape(-1) for some in numbers]
        outputs = _Outputs(shape, (count, m, n), False, matrices)
    return _run(how, *pair, outputs, addend, rng, dtype, out, backend, progress)


def _call(
    given: Accumulation | LibraryCall | str, epilogue: Epilogue | None, scales: object, *parts: object
) -> tuple[Accumulation, Epilogue | None]:
    """Return the accumulation, and its epilogue, if there is one."""
    if epilogue is not None and not isinstance(epilogue, Epilogue):
        raise TypeError(f"epilogue must be an Epilogue, not {epilogue!r}")
    if scales is not None and (not isinstance(scales, (tuple, list)) or len(scales) != 2):
        raise TypeError("scales must be a pair: those of x and those of y, or None")
    if isinstance(given, str):
        given = library_call(given) or given
    if callable(given):
        raise TypeError("a library call must be called: lowprec.library_calls[name](output=..., fast=...)")
    if isinstance(given, LibraryCall):
        if epilogue is not None:
            raise ValueError(
                f"{given} has an epilogue of its own, and epilogue= is another; give one of them, or "
                f"dataclasses.replace(call, epilogue=...)"
            )
        return given.accumulation, given.epilogue
    if epilogue is None and any(part is not None for part in (scales, *parts)):
        epilogue = Epilogue()
    return accumulation_of(given), epilogue


def _lazily(
    name: str, verb: Callable[..., Any], x: Any, y: Any, scales: Scales | None, joins: dict[str, Any],
    block: int, rng: Any, out: object, progress: object,
) -> Any:  # fmt: skip
    """Return the products of lazy arrays, to be computed chunk by chunk."""
    sides = lazy_dot.side("x", x), lazy_dot.side("y", y)
    given = [*sides[0].arrays, *sides[1].arrays, *joins.values(), *(scales or ())]
    lazy.check(*given)
    lazy.refuse(*given, out=out, progress=progress)
    lazy.check_sizes(
        f"{name} needs the shapes of what it takes", *(each for each in given if each is not None)
    )
    lazy_dot.check_k(sides, name == "dot")
    axis = -1 if name == "dot" else max(-2, -len(sides[1].shape))
    check_shapes(name, *sides, axis)
    tail = 1 if name == "dot" else 2
    outer = broadcast_outer(name, *sides, sides[0].shape[:-tail], sides[1].shape[:-tail])
    inner = () if name == "dot" else (*sides[0].shape[-2:-1], *sides[1].shape[-2:][1:])
    for key, each in joins.items():
        if each is not None and not lazy.is_named(each):
            check_joins(key, np.shape(each), (*outer, *inner))
    parts = lazy_dot.Joined(tuple(scales or (None, None)), joins, block)
    return lazy_dot.product(verb, sides, outer, tail == 1, parts, None if rng is None else key_of(rng))


# -- the run ----------------------------------------------------------------------------------------


class _Outputs(NamedTuple):
    """The outputs of a product: their shape, and how many matrices of how many rows and columns they are."""

    shape: tuple[int, ...]
    layout: tuple[int, int, int]
    paired: bool  #: row i of y belongs to row i of x
    #: for each product the number of that of x and of y
    matrices: Sequence[Sequence[int] | Array] = (0,), (0,)

    @property
    def size(self) -> int:
        return math.prod(self.layout)


class _Way(NamedTuple):
    """Options for computing outputs, whatever their accumulation."""

    rng: object
    key: int
    backend: Backend | None
    step: Any  #: to be called with the number of outputs that are done, or None


def _run(
    how: Accumulation,
    x: Rows,
    y: Rows,
    outputs: _Outputs,
    addend: object,
    rng: object,
    dtype: npt.DTypeLike | None,
    out: object,
    backend: Backend | None,
    progress: Progress,
) -> Any:
    """Compute all outputs, in the requested type."""
    fmt, shape = how.output[0], outputs.shape
    given, carrier = result_type(fmt, wanted_type(dtype, out))
    place = output(out, given, shape, f"values of {fmt.name!r}")
    key = _key(how, rng)
    x, y = alike(x, y, how.term)
    if how.split is None:
        how.order.check_length(-(-x.codes.shape[1] // (x.block or 1)))
    if _tensor(x, y) != 1 and addend is not None:
        raise ValueError(
            "an addend cannot join a product with tensor scales, which multiply the sum; add it to the result"
        )
    runs = [] if how.split is None else how.split.runs(x.codes.shape[1])
    size = outputs.size * max(1, len({tuple(some) for some in runs}))
    with reporting(progress, size, f"dot products, {how}") as step:
        summed = _codes if how.split is None else _in_splits
        codes = summed(how, x, y, outputs, addend, _Way(rng, key, backend, step))
    result = as_values(codes.reshape(shape), how.output, given, carrier, calls.thorough(backend))
    if place is None:
        return result if shape else result[()]
    place[...] = result
    return out


def _codes(how: Accumulation, x: Rows, y: Rows, outputs: _Outputs, addend: object, way: _Way) -> Array:
    """Return the codes of all outputs, as 64-bit words."""
    shape, layout, paired, matrices = outputs
    into = how.output[0]
    if (
        isinstance(into, Codebook)
        and how.summed[0] != into
        and way.backend is None
        and not how.rounds_randomly
        and _tensor(x, y) == 1
    ):
        # The sum, which is kept in a binary format, is made by any engine, and looked up. Times the scales
        # of tensors it is rounded once.
        inner = dataclasses.replace(how, output=as_it_is(how.summed))
        sums = coded(_codes(inner, x, y, outputs, addend, way), how.summed[0])
        return computed(CONVERT, [sums], how.output, None).astype(np.uint64)
    begin, addends = _addends(how, addend, shape, layout, calls.thorough(way.backend))
    codes = np.zeros(layout, np.uint64)
    scales = None if x.scale_fmt is None or y.scale_fmt is None else (x.scale_fmt, y.scale_fmt)
    request = known(Dot, how, x.fmt, y.fmt, begin, scales, x.block, _tensor(x, y), backend=way.backend)
    program = engine.lower(request)
    most = _steps(program.rows, layout, x.codes.shape[1]) if way.step else layout[1]
    for number in range(layout[0]):
        left = part_of(x, matrices[0][number], layout[1])
        right = part_of(y, matrices[1][number], layout[1 if paired else 2])
        for some, first in _runs(way.rng, shape, layout, number, most):
            theirs = right.at(some) if paired else right
            added, made = addends[number][some], codes[number][some]
            program.run(left.at(some), theirs, added, made, way.key, first, paired, share_rows)
            if way.step:
                way.step(made.size)
    return codes


def _tensor(x: Rows, y: Rows) -> Fraction:
    """Return what multiplies sums: the scales of both tensors."""
    return _ONE if x.tensor == y.tensor == 1 else Fraction(x.tensor) * Fraction(y.tensor)


def _in_splits(how: Accumulation, x: Rows, y: Rows, outputs: _Outputs, addend: Any, way: _Way) -> Array:
    """Compute all outputs where K is dealt to several sums, which are then added."""
    split, shape = how.split, outputs.shape
    assert split is not None, "asked for"
    assert split.total is not None, "an accumulation sees to that"
    into, only = split.total, calls.thorough(way.backend)
    inner = dataclasses.replace(how, split=None).partial(split.stored or into)
    unscaled = x._replace(tensor=1.0), y._replace(tensor=1.0)

    @functools.cache  # splits without products have one sum
    def summed(*runs: range) -> PartialSum:
        left, right = (along(rows, [*runs]) for rows in unscaled)
        one = coded(_codes(inner, left, right, outputs, None, way).reshape(shape), inner.output[0])
        if split.stored is not None and inner.kept is not None:
            one = coded(computed(CONVERT, [one], split.stored, only), split.stored[0])
        return PartialSum(one, not runs)

    total = combined([summed(*runs) for runs in split.runs(x.codes.shape[1])], split, only)
    if addend is not None:
        check_joins("addend", np.shape(addend), shape)
        added = coded(rounded_codes(addend, into, only), into[0])
        total = coded(computed("add", [total, added], into, only), into[0])
    tensor = float(_tensor(x, y))
    if tensor == 1:
        made = computed(CONVERT, [total], how.output, only)
    else:
        made = computed("multiply", [total, values_operand(np.float64(tensor))], how.output, only)
    return made.astype(np.uint64).reshape(outputs.layout)


def _runs(
    rng: object, shape: tuple[int, ...], layout: tuple[int, int, int], number: int, most: int
) -> Iterator[tuple[slice, int]]:  # fmt: skip
    """Rows of a matrix whose outputs follow each other, and the place of the first, for random integers.

    All rows, at most so many at a time, but for a part of a larger array, at its place: there each row by
    itself.
    """
    if not isinstance(rng, Place):
        for row in range(0, layout[1], max(1, most)):
            yield slice(row, row + most), (number * layout[1] + row) * layout[2]
        return
    places: Any = np.zeros((), np.int64)
    for origin, length, whole in zip(rng.origin, shape, rng.within, strict=True):
        places = places[..., None] * whole + np.arange(origin, origin + length)
    firsts = places.reshape(layout)[number, :, :1]
    step = shape[-1] if layout[2] == 1 and shape else 1
    for row in range(0, layout[1], step):
        yield slice(row, row + step), int(firsts[row, 0])


def _steps(least: int, layout: tuple[int, int, int], length: int) -> int:
    """Return the rows between reports: a hundredth, or what is worth preparing the other side for."""
    return max(least, -(-layout[1] // 100), (1 << 22) // max(1, layout[2] * length))


def _key(how: Accumulation, rng: object) -> int:
    if how.rounds_randomly:
        if rng is None:
            raise ValueError(
                f"{how} rounds stochastically: give rng=, an integer or a numpy.random.Generator"
            )
        return rng.key if isinstance(rng, Place) else key_of(rng)
    if rng is not None:
        raise ValueError(f"rng= is of no use: nothing of {how} is rounded stochastically; leave it out")
    return 0


def _addends(
    how: Accumulation,
    addend: object,
    shape: tuple[int, ...],
    layout: tuple[int, int, int],
    backend: Backend | None,
) -> tuple[Format, Array]:
    """Return addends as codes, and their format: the sum's, or their own for exact sums and the oracle."""
    begin, rule = begins_in(how)
    if addend is None:
        return kept_as(begin), np.empty((layout[0], 0, 0), np.uint64)
    operand = values_operand(addend, "addend")
    check_joins("addend", operand.array.shape, shape)
    if how.order == EXACT or backend == "oracle":
        begin, codes = operand.fmt, operand.codes
    elif isinstance(kept_as(begin), Carrier):
        carrier = None if begin == kept_as(begin) else kept_as(begin)
        made = calls.convert(operand, begin, rule, np.dtype(np.float64), carrier, backend=backend)
        begin, codes = kept_as(begin), np.asarray(made).view(np.uint64)
    else:
        codes = np.asarray(calls.convert(operand, begin, rule, code_dtype(begin), backend=backend))
    return begin, np.ascontiguousarray(np.broadcast_to(codes, shape)).astype(np.uint64).reshape(layout)
