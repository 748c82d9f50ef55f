"""Dot products and products of matrices, by any accumulation.

Floor 3.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lowprec.arrays import calls, lazy
from lowprec.arrays.block import BlockArray
from lowprec.arrays.checks import Array, Operand, code_dtype, output, values_operand
from lowprec.arrays.operations import result_type
from lowprec.arrays.random import key_of
from lowprec.arrays.threads import share_rows
from lowprec.kernels import dot as general
from lowprec.kernels.dot_params import begins_in, kind_of, lower_how, lower_stages
from lowprec.kernels.params import lower_source
from lowprec.spec import catalog
from lowprec.spec.accumulation import EXACT, Accumulation, Window
from lowprec.spec.accumulations import accumulation as accumulation_of
from lowprec.spec.format import Carrier, Format
from lowprec.spec.projection import DEFAULT, Projection

__all__ = ["dot", "matmul"]

Factors = npt.ArrayLike | BlockArray

_DOUBLE = np.dtype(np.float64)


def dot(
    x: Factors,
    y: Factors,
    accumulation: Accumulation | str,
    *,
    addend: npt.ArrayLike | None = None,
    rng: int | np.random.Generator | None = None,
    dtype: npt.DTypeLike | None = None,
    out: Array | None = None,
) -> Any:
    """The dot products along the last axes of x and y, summed as an accumulation says.

    >>> dot([1.0, 2.0**-24, 2.0**-24], [1.0, 1.0, 1.0], "fp32_fma")
    np.float32(1.0)
    >>> dot([1.0, 2.0**-24, 2.0**-24], [1.0, 1.0, 1.0], "exact")
    np.float32(1.0000001)

    Parameters
    ----------
    x, y : array_like of float or integer, or BlockArray, shapes (..., K)
        Those in front of K broadcast. Where the accumulation has `operands`, values of these formats.
        Blocks lie along K.
    accumulation : Accumulation or str
        Such as "hopper_wgmma_e4m3fn_binary32"; `lowprec.accumulations` has all names.
    addend : array_like, shape that broadcasts to (...), optional
        Added where the accumulation says; by default +0.
    rng : int or Generator
        Of stochastic accumulations: the key of the random integers. Rounding s of output i takes
        `random_bits(..., stream=2 + s)` at i.
    dtype : dtype, optional
        As for `add`: of values, or of the output format's codes.
    out : array of such a type, shape (...), optional
        Untouched if the call fails.

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
    how = accumulation_of(accumulation)
    left, right = _factors("x", x, how, 0, -1), _factors("y", y, how, 1, -1)
    _check_shapes("dot", left, right, -1)
    shape = _broadcast("dot", left, right, left.shape[:-1], right.shape[:-1])
    pair = (left.rows((*shape, left.shape[-1])), right.rows((*shape, left.shape[-1])))
    return _run(how, *pair, shape, (1, len(pair[0].codes), 1), True, addend, rng, dtype, out)


def matmul(
    x: Factors,
    y: Factors,
    accumulation: Accumulation | str,
    *,
    addend: npt.ArrayLike | None = None,
    rng: int | np.random.Generator | None = None,
    dtype: npt.DTypeLike | None = None,
    out: Array | None = None,
) -> Any:
    """The product of matrices, each element summed as an accumulation says; see `dot`.

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
    accumulation, rng, dtype, out
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
    how = accumulation_of(accumulation)
    left, right = _factors("x", x, how, 0, -1), _factors("y", y, how, 1, -2)
    _check_shapes("matmul", left, right, max(-2, -len(right.shape)))
    row, column = len(left.shape) == 1, len(right.shape) == 1
    left = left.expanded(0) if row else left
    right = right.expanded(1) if column else right
    right = right.transposed()
    outer = _broadcast("matmul", left, right, left.shape[:-2], right.shape[:-2])
    (m, length), n = left.shape[-2:], right.shape[-2]
    count = int(np.prod(outer, dtype=np.int64))
    shape = (*outer, *(() if row else (m,)), *(() if column else (n,)))
    pair = left.rows((*outer, m, length)), right.rows((*outer, n, length))
    return _run(how, *pair, shape, (count, m, n), False, addend, rng, dtype, out)


# -- factors ----------------------------------------------------------------------------------------


class _Scales(NamedTuple):
    """Of operands in blocks, with K in the place where the elements have it."""

    codes: Array
    fmt: Format
    block: int
    tensor: float


class _Rows(NamedTuple):
    """One side, as a kernel takes it: rows of codes, and of scales."""

    codes: Array
    fmt: Format
    scales: Array
    scale_fmt: Format | None
    block: int
    tensor: float

    def cut(self, size: int) -> _Rows:
        """In smaller blocks; what is in none has scales of 1."""
        count = -(-self.codes.shape[1] // size)
        if not self.block:
            ones = np.full((len(self.codes), count), 127, np.uint64)
            return self._replace(scales=ones, scale_fmt=catalog.E8M0FNU, block=size)
        scales = np.ascontiguousarray(np.repeat(self.scales, self.block // size, 1)[:, :count])
        return self._replace(scales=scales, block=size)


class _Side(NamedTuple):
    """One side of the products, with K as its last axis; of y as given, before `transposed`."""

    codes: Array
    fmt: Format
    scales: _Scales | None
    given: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.codes.shape

    def expanded(self, axis: int) -> _Side:
        """With one more axis of length 1."""
        return self._changed(lambda array: np.expand_dims(array, axis))

    def transposed(self) -> _Side:
        """With the last two axes changed."""
        return self._changed(lambda array: array.swapaxes(-1, -2))

    def _changed(self, change: Callable[[Array], Array]) -> _Side:
        scales = None if self.scales is None else self.scales._replace(codes=change(self.scales.codes))
        return self._replace(codes=change(self.codes), scales=scales)

    def rows(self, shape: tuple[int, ...]) -> _Rows:
        """The codes in this shape, as rows."""
        codes = _flat(self.codes, shape)
        if self.scales is None:
            return _Rows(codes, self.fmt, np.empty((0, 0), np.uint64), None, 0, 1.0)
        scales = _flat(self.scales.codes, (*shape[:-1], self.scales.codes.shape[-1]))
        return _Rows(codes, self.fmt, scales, self.scales.fmt, self.scales.block, self.scales.tensor)


def _flat(array: Array, shape: tuple[int, ...]) -> Array:
    """Rows of codes, in memory of their own."""
    rows = np.empty((int(np.prod(shape[:-1], dtype=np.int64)), shape[-1]), np.uint64)
    rows.reshape(shape)[...] = array
    return rows


def _factors(name: str, values: Factors, how: Accumulation, side: int, axis: int) -> _Side:
    """One side of the products, as codes of the format that they come in, or are asked to be of; K is an axis."""
    if isinstance(values, BlockArray):
        return _in_blocks(name, values, how, side, axis)
    operand = _in_memory(name, values)
    wanted = None if how.operands is None else how.operands[side]
    if _takes_scales(how):
        raise ValueError(f"{how} takes operands in blocks, but {name} is {operand.array.dtype}: {_way_to(how, side)}")
    if wanted is not None and wanted != operand.fmt:
        operand = _as_format(name, operand, wanted, how.operand_rounding)
    return _Side(operand.codes, operand.fmt, None, operand.array.shape)


def _in_memory(name: str, values: object) -> Operand:
    """Plain values, that nothing has to be computed for."""
    if lazy.is_lazy(values):
        package = type(values).__module__.partition(".")[0]
        raise TypeError(
            f"{name} must be an array in memory, not {type(values).__name__} of {package}: give np.asarray({name})"
        )
    return values_operand(values, name)


def _as_format(name: str, operand: Operand, fmt: Format, how: Projection | None) -> Operand:
    """The same values as codes of a format; those that it does not have are refused, or projected."""
    rule = how or Projection(nan="error" if fmt.has_nan else "max")
    made = np.asarray(calls.convert(operand, fmt, rule, code_dtype(fmt), None, None, None, None))
    codes = Operand(made, fmt, made, True)
    if how is None:
        inexact = np.zeros(made.shape, np.uint8) if operand.array.dtype.kind in "iu" else None
        array, back = (
            np.asarray(calls.convert(each, catalog.BINARY64, DEFAULT, _DOUBLE, None, None, flags, None))
            for each, flags in ((operand, inexact), (codes, None))
        )
        wrong = (back != array) & ~(np.isnan(back) & np.isnan(array))
        wrong |= (array == 0) & (np.signbit(back) != np.signbit(array))
        if inexact is not None:
            wrong |= inexact != 0
        if wrong.any():
            place = tuple(int(i) for i in np.unravel_index(int(np.argmax(wrong)), made.shape))
            raise ValueError(
                f"{name} has values that {fmt.name!r} does not have: {int(wrong.sum()):,} of {wrong.size:,}, the first "
                f"at index {place}: {operand.array[place]}. Quantize {name} to {fmt.name!r} first"
            )
    return codes


def _in_blocks(name: str, values: BlockArray, how: Accumulation, side: int, axis: int) -> _Side:
    """Operands in blocks: elements, and the scales of their rows."""
    fmt, ndim = values.format, values.codes.ndim
    along = max(ndim + axis, 0)
    if along not in values.axes:
        raise ValueError(
            f"blocks of {name} lie along axis {values.axes[-1]}, but K is axis {along}: encode with axis={along}"
        )
    wanted = None if how.operands is None else how.operands[side]
    if wanted is not None and wanted != fmt.element:
        raise ValueError(
            f"{how} takes {name} of {wanted.name!r}, not of {fmt.element.name!r} in blocks of {fmt.name!r}"
        )
    takes = _takes_scales(how)
    if not takes and (how.machine or isinstance(how.accumulator, Window)):
        raise ValueError(
            f"{how} takes no operands in blocks, but {name} is in {fmt.name!r}: use an accumulation that does, such as "
            f"'fp32_fma', or give {name} as values of {fmt.element.name!r}"
        )
    scales, size = values.scales, fmt.sizes[values.axes.index(along)]
    for axis, other in zip(values.axes, fmt.sizes, strict=True):
        if axis != along:  # a tile's scale is that of each of its rows
            scales = np.repeat(scales, other, axis)[(slice(None),) * axis + (slice(0, values.shape[axis]),)]
    if takes and how.scale != (fmt.scale, size):
        assert how.scale is not None
        raise ValueError(
            f"{how} takes one scale of {how.scale[0].name!r} for {how.scale[1]} elements, but {name} in {fmt.name!r} "
            f"has one of {fmt.scale.name!r} for {size}: {_way_to(how, side)}"
        )
    tensor = 1.0 if values.tensor_scale is None else float(values.tensor_scale)
    return _Side(values.codes, fmt.element, _Scales(scales, fmt.scale, size, tensor), values.shape)


def _takes_scales(how: Accumulation) -> bool:
    return isinstance(how.accumulator, Window) and how.accumulator.scales != "none"


def _way_to(how: Accumulation, side: int) -> str:
    """What to do to have operands in the blocks that an accumulation takes."""
    assert how.operands is not None, "a window has operands"
    assert how.scale is not None, "and this one scales"
    parts = (how.operands[side], how.scale[0], (how.scale[1],))
    known = [each.name for each in catalog.BLOCK_FORMATS.values() if (each.element, each.scale, each.sizes) == parts]
    like = f", such as {known[0]!r}" if known else ""
    return f"`encode` it in blocks of {parts[2][0]} of {parts[0].name!r} with scales of {parts[1].name!r}{like}"


# -- the run ----------------------------------------------------------------------------------------


def _run(
    how: Accumulation,
    x: _Rows,
    y: _Rows,
    shape: tuple[int, ...],
    layout: tuple[int, int, int],
    paired: bool,
    addend: object,
    rng: object,
    dtype: object,
    out: object,
) -> Any:
    """All outputs: `layout` is how many matrices, and their rows and columns."""
    fmt = how.output[0]
    given, carrier = result_type(fmt, getattr(out, "dtype", None) if dtype is None else np.dtype(dtype))  # type: ignore[call-overload]
    place = output(out, given, shape, f"values of {fmt.name!r}")
    key = _key(how, rng)
    begin, addends = _addends(how, addend, shape, layout)
    x, y = _alike(x, y)
    tensor = Fraction(x.tensor) * Fraction(y.tensor)
    if tensor != 1 and addend is not None:
        raise ValueError(
            "an addend cannot join a product with tensor scales, which multiply the sum; add it to the result"
        )
    codes = np.zeros(layout, np.uint64)
    scale_formats = None if x.scale_fmt is None or y.scale_fmt is None else (x.scale_fmt, y.scale_fmt)
    words = lower_how(how, x.fmt, y.fmt, begin, scale_formats, x.block, _integer(tensor))
    stages = lower_stages(how, begin)
    left, right = _operands(x, layout[0]), _operands(y, layout[0])
    for number in range(layout[0]):
        _threads(how, left[number], right[number], addends[number], codes[number], words, stages, key, number, paired)
    made = codes.reshape(shape).astype(code_dtype(fmt))
    if carrier is None:
        result = made.view(given)
    else:
        result = np.asarray(
            calls.convert(
                Operand(made, fmt, made, True),
                carrier,
                Projection(nan_payload="first"),
                given,
                None,
                None,
                None,
                None,
            )
        )
    if place is None:
        return result if shape else result[()]
    place[...] = result
    return place


def _threads(
    how: Accumulation, x: general.Rows, y: general.Rows, addends: Array, out: Array, words: Any, stages: Any, key: int,
    number: int, paired: bool,
) -> None:  # fmt: skip
    """One matrix, in ranges of its rows."""
    rows, columns = out.shape
    run = general.kernel(kind_of(how))

    def part(start: int, stop: int) -> int:
        if start < stop:
            first = np.uint64((number * rows + start) * columns)
            ours = x._replace(codes=x.codes[start:stop], scales=x.scales[start:stop])
            theirs = y._replace(codes=y.codes[start:stop], scales=y.scales[start:stop]) if paired else y
            given = addends[start:stop] if addends.size else addends
            run(ours, theirs, given, out[start:stop], words, stages, np.uint64(key), first, paired)
        return 0

    # A row costs its products: threads are worth it from some thousands of those on.
    share_rows(part, rows, columns * max(x.codes.shape[1], 1))


def _operands(rows: _Rows, count: int) -> list[general.Rows]:
    """The rows of each matrix."""
    source = lower_source(rows.fmt)
    scale_source = lower_source(rows.scale_fmt or catalog.E8M0FNU)
    each = len(rows.codes) // max(count, 1)
    parts = []
    for number in range(count):
        part = slice(number * each, (number + 1) * each)
        scales = rows.scales[part] if rows.block else np.zeros((each, 0), np.uint64)
        parts.append(general.Rows(rows.codes[part], source, scales, scale_source))
    return parts


def _alike(x: _Rows, y: _Rows) -> tuple[_Rows, _Rows]:
    """Both in blocks of one size, if one is."""
    if not x.block and not y.block:
        return x, y
    size = math.gcd(x.block, y.block)
    return x.cut(size), y.cut(size)


def _integer(number: Fraction) -> tuple[int, int]:
    """A positive dyadic number as an integer times a power of two. The integer is 1 for the number 1 only."""
    power = (number.numerator & -number.numerator).bit_length() - number.denominator.bit_length()
    integer = int(number / Fraction(2) ** power)
    return (2, power - 1) if integer == 1 and power else (integer, power)


def _key(how: Accumulation, rng: object) -> int:
    if how.rounds_randomly:
        if rng is None:
            raise ValueError(f"{how} rounds stochastically: give rng=, an integer or a numpy.random.Generator")
        return key_of(rng)
    if rng is not None:
        raise ValueError(f"rng= is of no use: nothing of {how} is rounded stochastically; leave it out")
    return 0


def _addends(
    how: Accumulation, addend: object, shape: tuple[int, ...], layout: tuple[int, int, int]
) -> tuple[Format, Array]:
    """The addends as codes, and of which format: that in which the sum begins, or their own if it is exact."""
    begin, rule = begins_in(how)
    if addend is None:
        return begin, np.empty((layout[0], 0, 0), np.uint64)
    operand = _in_memory("addend", addend)
    try:
        broadcast = np.broadcast_shapes(operand.array.shape, shape)
    except ValueError:
        broadcast = ()
    if broadcast != shape:
        raise ValueError(
            f"addend of shape {operand.array.shape} does not broadcast to the result's shape {shape}; give one number, "
            f"or one for each result"
        )
    if how.order == EXACT:
        begin, codes = operand.fmt, operand.codes
    elif operand.fmt == begin:
        codes = operand.codes
    elif isinstance(begin, Carrier):
        codes = np.asarray(calls.convert(operand, begin, rule, _DOUBLE, None, None, None, None)).view(np.uint64)
    else:
        codes = np.asarray(calls.convert(operand, begin, rule, code_dtype(begin), None, None, None, None))
    return begin, np.ascontiguousarray(np.broadcast_to(codes, shape)).astype(np.uint64).reshape(layout)


def _check_shapes(verb: str, x: _Side, y: _Side, axis: int) -> None:
    """Both have a K, and it is as long; it is this axis of y, and the last of x."""
    if not x.shape or not y.shape:
        raise ValueError(f"{verb} of shapes {x.given} and {y.given}: a single number has no K; use multiply or fma")
    if x.shape[-1] != y.shape[axis]:
        raise ValueError(
            f"{verb} of shapes {x.given} and {y.given}: x has {x.shape[-1]} elements along K, y has {y.shape[axis]}; "
            f"they must be equal"
        )


def _broadcast(verb: str, x: _Side, y: _Side, outer_x: tuple[int, ...], outer_y: tuple[int, ...]) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(outer_x, outer_y)
    except ValueError:
        raise ValueError(
            f"{verb} of shapes {x.given} and {y.given}: the axes in front, {outer_x} and {outer_y}, do not broadcast; "
            f"make them equal, or 1"
        ) from None
