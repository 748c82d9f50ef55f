"""Operands of dot products, as their question has them: factors, what joins the sums, and scales.

Scales of tensors and of channels multiply the sum, before it becomes the output; those of blocks along K
multiply the exact sum of a block's products, which is then a term.
"""

from __future__ import annotations

import dataclasses
import functools
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from lowprec.arrays.axes import broadcast_shapes
from lowprec.arrays.blocks.block import BlockArray
from lowprec.arrays.blocks.scaling import ScaledBlocks, operand_scales
from lowprec.arrays.checks import code_dtype
from lowprec.arrays.convert import decode, encode
from lowprec.arrays.dots.epilogue import check_blocks
from lowprec.spec import catalog
from lowprec.spec.accumulation import Accumulation, Rounded
from lowprec.spec.accumulations import ACCUMULATIONS
from lowprec.spec.block import BlockFormat
from lowprec.spec.epilogue import Epilogue, LibraryCall
from lowprec.spec.format import Carrier, Format
from lowprec.spec.projection import Projection
from lowprec.verify.codes.values import as_doubles, distances, doubles
from lowprec.verify.dumps.files import Dump
from lowprec.verify.questions.question import Array, Change
from lowprec.verify.questions.scales import scale_values
from lowprec.verify.reference.operations import OPERATIONS
from lowprec.verify.reference.sum_ranges import finite, ranges, results

__all__ = [
    "DotScales",
    "Given",
    "KeptBlocks",
    "OutputScales",
    "check_block",
    "could_be",
    "exact_sum",
    "factors",
    "holding",
    "limits",
]
__all__ += ["in_blocks", "inverse_output", "joining"]
__all__ += ["pairings", "parts_of", "scale_pair", "scaled", "scalings", "shape_of", "spread_blocks", "times"]

#: Terms whose orders are looked at together.
_TERMS = 1 << 16
#: Formats that elements of blocks are looked for in, the narrowest first.
_ELEMENTS = ("e4m3fn", "e5m2", "bfloat16", "binary16")


class OutputScales(NamedTuple):
    """Scales of some outputs."""

    x: Array  #: of rows, or of outputs
    y: Array  #: of columns, or of outputs
    x_blocks: ScaledBlocks | None
    y_blocks: ScaledBlocks | None

    @property
    def factor(self) -> Array:
        """Factors of the sums, one for each output: exact where both scales are in binary32."""
        return np.asarray(self.x * self.y, np.float64).reshape(-1)


class Given(NamedTuple):
    """Operands of some outputs."""

    x: Array
    y: Array
    addend: Array | None
    scales: OutputScales | None
    bias: Array | None = None
    output_scale: Array | None = None
    paired: bool = (
        True  #: whether x and y are in pairs, as those of dot products are; of matrices y has K first
    )


class DotScales:
    """The scales of a product of vectors or matrices, in the layout of its question."""

    def __init__(
        self,
        verb: str,
        scale: Dump | tuple[Dump | None, Dump | None],
        left: Array,
        right: Array,
        shape: tuple[int, ...],
        block: int = 0,
        *,
        of_hardware: bool = False,
    ) -> None:
        self.verb = verb
        self.rows: list[Array] = []
        self.blocks: list[ScaledBlocks | None] = []
        if isinstance(scale, Dump):
            self.rows, self.blocks = [_of_results(verb, scale, left, right, shape), np.ones(())], [None, None]
            return
        outer = shape if verb == "dot" else broadcast_shapes(left.shape[:-2], right.shape[:-2])
        for number, (given, operand) in enumerate(zip(scale, (left, right), strict=True)):
            k = -1 if verb == "dot" or number == 0 else -2
            values = np.ones(())
            if given is not None:
                values = np.asarray(scale_values(given, of_hardware=of_hardware), np.float64)
            if values.ndim == operand.ndim and values.size > 1:
                _check_sizes("xy"[number], values.shape, operand.shape, k % operand.ndim, block)
            rows, blocks = operand_scales("xy"[number], values, operand.shape, k, block)
            if of_hardware and blocks is None and values.ndim == operand.ndim and operand.shape[k] <= block:
                rows, blocks = np.ones(()), ScaledBlocks(values, block)  # one block
            if verb == "dot":
                rows, inner = np.broadcast_to(rows, outer).reshape(-1), list(operand.shape[-1:])
            else:
                places = operand.shape[-1 if number else -2]
                rows = np.broadcast_to(rows, (*outer, places)).reshape(
                    -1, *((1, places) if number else (places, 1))
                )
                inner = list(operand.shape[-2:])
            if blocks is not None:
                inner[k] = blocks.scales.shape[k]
                laid = np.broadcast_to(blocks.scales, (*outer, *inner)).reshape(-1, *inner)
                blocks = blocks._replace(scales=laid)
            self.rows.append(rows)
            self.blocks.append(blocks)

    def at(self, rows: Any, columns: Any) -> OutputScales:
        """Return the scales of rows of x and columns of y; of matrices their number first."""
        x_blocks, y_blocks = self.blocks
        if self.verb == "dot":
            x, y = (side[rows] if side.ndim else side for side in self.rows)
            of_x, of_y = (None if b is None else b._replace(scales=b.scales[rows]) for b in self.blocks)
            return OutputScales(x, y, of_x, of_y)
        number, some = rows
        x, y = self.rows
        if not y.ndim:  # scales of the results themselves
            return OutputScales(x[number][some][:, columns], y, None, None)
        if x_blocks is not None:
            x_blocks = x_blocks._replace(scales=x_blocks.scales[number][some])
        if y_blocks is not None:
            y_blocks = y_blocks._replace(scales=y_blocks.scales[number][:, columns])
        return OutputScales(x[number][some], y[number][:, columns], x_blocks, y_blocks)


def check_block(
    block: int, scale: Dump | tuple[Dump | None, Dump | None] | None, left: Array, right: Array
) -> None:
    """Refuse a size of blocks beside scales that are in none: it would say nothing."""
    given = scale if isinstance(scale, tuple) else (scale, scale)
    found = []
    for dump, operand in zip(given, (left, right), strict=True):
        if dump is not None and len(dump.shape) == operand.ndim and isinstance(scale, tuple):
            sizes = zip(dump.shape, operand.shape, strict=True)
            # Another number than blocks make is told where scales are laid out.
            found.append(any(count == -(-size // block) or count not in (1, size) for count, size in sizes))
    if any(found):
        return
    what = "there is no scale="
    if scale is not None:
        shapes = {str(dump.shape) for dump in given if dump is not None}
        what = f"the scales, of shape {' and '.join(sorted(shapes))}, are in no blocks of {block}"
    raise ValueError(f"block={block} says how many elements share a scale, and {what}: leave it out")


def _check_sizes(name: str, counts: tuple[int, ...], shape: tuple[int, ...], k: int, block: int) -> None:
    """Refuse scales of blocks of another size, and of a size that is not said: their number does not tell."""
    if block:
        return check_blocks(name, counts, shape, k, block)
    for axis, (count, size) in enumerate(zip(counts, shape, strict=True)):
        if count == 1 or (count == size and axis != k) or -(-size // (least := -(-size // count))) != count:
            continue  # that no size fits is told where they are laid out
        power = 1 << (least - 1).bit_length()
        such = power if -(-size // power) == count else least
        along = "K" if axis == k else f"axis {axis}"
        raise ValueError(
            f"scale of {name} has {count} numbers along {along} of {size}: say how many elements "
            f"share one, such as block={such}"
        )


def _of_results(verb: str, scale: Dump, left: Array, right: Array, shape: tuple[int, ...]) -> Array:
    values = np.asarray(scale_values(scale), np.float64)
    try:
        whole = np.broadcast_to(values, shape)
    except ValueError:
        raise ValueError(
            f"scale of shape {values.shape} does not broadcast to the results' {shape}; give a pair for the "
            f"scales of the two operands"
        ) from None
    return whole.reshape(-1) if verb == "dot" else whole.reshape(-1, left.shape[-2], right.shape[-1])


# -- what is computed --------------------------------------------------------------------------------


def in_blocks(given: Given, how: Accumulation, formats: tuple[Format | None, Format | None]) -> list[Any]:
    """Return x and y, those with scales of blocks as arrays in blocks.

    Raises ValueError: scales that their format does not have, blocks that the accumulation does not take.
    """
    blocks = (None, None) if given.scales is None else (given.scales.x_blocks, given.scales.y_blocks)
    sides = zip((given.x, given.y), blocks, formats, (-1, -1 if given.paired else -2), strict=True)
    return [_in_blocks(*side, how, number) for number, side in enumerate(sides)]


class KeptBlocks:
    """Sides of dot products in blocks, which are made once for the last few operands."""

    def __init__(self, most: int) -> None:
        self._held = deque[tuple[Given, Any, list[Any]]](maxlen=most)

    def of(self, given: Given, how: Accumulation, formats: tuple[Format | None, Format | None]) -> list[Any]:
        """Return x and y as `in_blocks` does."""
        for held, of_how, sides in self._held:
            if held is given and of_how == (how.scale, how.operands):
                return sides
        self._held.append((given, (how.scale, how.operands), in_blocks(given, how, formats)))
        return self._held[-1][-1]


def _in_blocks(
    values: Array, blocks: ScaledBlocks | None, fmt: Format | None, axis: int, how: Accumulation, side: int
) -> Any:
    if blocks is None:
        return values
    element = how.operands[side] if how.operands is not None else fmt or holding(values)
    if element is None or isinstance(element, Carrier):
        raise ValueError(
            f"scales of blocks need operands in a format of at most 32 bits, and {'xy'[side]} holds "
            f"{values.dtype}; say which it is, source="
        )
    scale = catalog.BINARY32 if how.scale is None else how.scale[0]
    given = blocks.scales.reshape(-1)
    codes = np.asarray(encode(given, scale)).reshape(blocks.scales.shape)
    held = as_doubles(codes, scale)
    if ((held != blocks.scales) & ~(np.isnan(held) & np.isnan(blocks.scales))).any():
        raise ValueError(f"scale of {'xy'[side]} has numbers that {scale.name!r} does not have")
    plain = Projection(nan="max") if element.nan_code is None else Projection()
    name = f"blocks of {blocks.size} {element.name} with scales in {scale.name}"
    form = BlockFormat(name=name, element=element, scale=scale, size=blocks.size)
    elements = np.asarray(encode(values, element, projection=plain))
    return BlockArray(elements, codes, form, (values.ndim + axis,))


def inverse_output(given: Given) -> Given:
    """Return the operands with the inverse of the output scale."""
    assert given.output_scale is not None, "asked of calls with one"
    return given._replace(output_scale=np.reciprocal(given.output_scale))


def holding(values: Array) -> Format | Carrier | None:
    """Return the narrowest usual format that has all values, or the one of their type.

    Products of wide formats are too long for sums in pairs of all engines but the slow one.
    """
    usual = map(catalog.format, _ELEMENTS)
    return next((fmt for fmt in usual if _holds(fmt, values)), catalog.carrier(values.dtype))


def times(verb: Any, x: Any, y: Any, addend: Array | None, how: Accumulation, factor: Array) -> Array:
    """Return the output's codes of sums times factors, each rounded once."""
    into = how.summed
    inner = dataclasses.replace(how, output=into)
    sums = np.asarray(verb(x, y, inner, addend=addend, dtype=code_dtype(into[0]))).reshape(-1)
    return scaled(sums, factor, into, how.output)


def scaled(sums: Array, factor: Array, into: Rounded, output: Rounded) -> Array:
    """Return codes of sums times factors."""
    by = np.broadcast_to(np.asarray(factor, np.float64), sums.shape).copy().view(np.uint64)
    formats = (into[0], catalog.BINARY64, output[0])
    return OPERATIONS["multiply"].compute([sums, by], formats, output[1])


def scale_pair(scales: OutputScales | None) -> tuple[tuple[Any, Any] | None, int]:
    """Return the scales of both operands as `lowprec.matmul` takes them, and the size of their blocks."""
    if scales is None:
        return None, 0
    blocks = scales.x_blocks, scales.y_blocks
    x, y = (side if of is None else of.scales for side, of in zip((scales.x, scales.y), blocks, strict=True))
    return (x, y), max((of.size for of in blocks if of is not None), default=0)


def spread_blocks(values: Array, blocks: ScaledBlocks | None, axis: int) -> Array:
    """Return values times the scales of their blocks along an axis, in float64: exact, or refused later."""
    if blocks is None:
        return values
    each = np.asarray(np.repeat(blocks.scales, blocks.size, axis=axis))
    each = each.take(range(values.shape[axis]), axis=axis)
    return np.asarray(doubles(values) * each)


# -- changes -----------------------------------------------------------------------------------------


def scalings(scales: DotScales) -> Iterator[Change]:
    """Yield scales that were used otherwise."""
    inverse = "the inverse of the scales: sums divided by them, not multiplied"
    yield Change("scaling", lambda scales: 1 / scales.factor, inverse)
    if not any(scales.blocks):
        yield Change("scaling", lambda scales: None, "the scales left out")
    if scales.rows[1].ndim:
        for side, other in (("x", "y"), ("y", "x")):
            yield Change("scaling", functools.partial(_without, side=other), f"the scale of {side} alone")
        yield Change("scaling", _single, "the product of the scales rounded to binary32 first")
    if scales.rows[1].ndim and not any(scales.blocks):
        for order, words in (
            ("product", "sums times the product of the scales, both rounded to binary32"),
            ("x_first", "sums times the scale of x, and then times that of y, both rounded to binary32"),
            ("y_first", "sums times the scale of y, and then times that of x, both rounded to binary32"),
        ):
            yield Change("epilogue", Epilogue(scales=order), f"{words}, before the output")  # type: ignore[arg-type]


def pairings() -> Iterator[Change]:
    """Yield scales of x and y that were used otherwise, before a bias or an output scale."""
    inverse = "the inverse of the scales: sums divided by them, not multiplied"
    yield Change("pair", lambda pair: tuple(map(np.reciprocal, pair)), inverse)
    yield Change("pair", lambda pair: None, "the scales left out")
    yield Change("pair", lambda pair: (pair[0], None), "the scale of x alone")
    yield Change("pair", lambda pair: (None, pair[1]), "the scale of y alone")


def _without(scales: OutputScales, side: str) -> Array:
    return scales._replace(**{side: np.ones_like(getattr(scales, side))}).factor


def _single(scales: OutputScales) -> Array:
    with np.errstate(all="ignore"):
        return scales.factor.astype(np.float32).astype(np.float64)


# -- operands ----------------------------------------------------------------------------------------


def _holds(fmt: Format, values: Array) -> bool:
    """Return whether a format has all values, by bits: one without -0 does not hold it. Any NaN is one."""
    given = doubles(values.reshape(-1))
    back = as_doubles(encode(given, fmt, projection=Projection(nan="max", negative="zero")), fmt)
    return bool(((back.view(np.uint64) == given.view(np.uint64)) | np.isnan(given)).all())


def could_be(x: Array, y: Array, target: Format) -> Iterator[str]:
    """Yield the names of accumulations that take such factors and give such results."""
    has: dict[tuple[int, Format], bool] = {}

    def holds(number: int, side: Array, fmt: Format) -> bool:
        if (number, fmt) not in has:
            has[number, fmt] = _holds(fmt, side)
        return has[number, fmt]

    for name, how in ACCUMULATIONS.items():
        if how.output[0] != target or how.scale is not None:
            continue
        if how.operands is None or all(
            holds(number, side, fmt)
            for number, (side, fmt) in enumerate(zip((x, y), how.operands, strict=True))
        ):
            yield name


def factors(side: Dump, fmt: Format | None) -> Array:
    """Return factors as values."""
    whole = side.read(0, side.size).reshape(side.shape)
    if whole.dtype.kind not in "iu":
        return whole
    if fmt is None:
        raise ValueError(f"{side} holds {whole.dtype}: say of which format its codes are")
    return np.asarray(decode(whole, fmt))


def joining(given: Dump, name: str, shape: tuple[int, ...], width: int) -> Array:
    """Return numbers that join the sums, one for each; in a narrower type of at least `width` bits."""
    if given.dtype.kind in "iu":
        raise ValueError(f"{given} holds {given.dtype}; {name} is given as values, float16 to float64")
    whole = given.read(0, given.size).reshape(given.shape)
    for dtype in (np.float16, np.float32):
        if width <= np.finfo(dtype).bits < 8 * whole.dtype.itemsize:
            with np.errstate(all="ignore"):
                narrow = whole.astype(dtype)
            whole = narrow if ((narrow == whole) | np.isnan(whole)).all() else whole
    try:
        return np.broadcast_to(whole, shape)
    except ValueError:
        raise ValueError(
            f"{given} of shape {given.shape} does not broadcast to the results' {shape}"
        ) from None


def shape_of(verb: str, x: Array, y: Array) -> tuple[int, ...]:
    """Return the shape of the results; raise ValueError for factors that do not fit each other."""
    if not x.ndim or not y.ndim or x.shape[-1] != y.shape[-1 if verb == "dot" else max(-2, -y.ndim)]:
        raise ValueError(f"{verb} of shapes {x.shape} and {y.shape}: both need the same K")
    try:
        if verb == "dot":
            return broadcast_shapes(x.shape[:-1], y.shape[:-1])
        outer = broadcast_shapes(x.shape[:-2], y.shape[:-2])
    except ValueError:
        raise ValueError(
            f"{verb} of shapes {x.shape} and {y.shape}: the axes in front do not broadcast"
        ) from None
    return (*outer, *x.shape[-2:-1], *(y.shape[-1:] if y.ndim > 1 else ()))


def parts_of(call: LibraryCall) -> tuple[Accumulation, Epilogue]:
    """Return the accumulation of a call, with the call's output where it may have it, and the epilogue."""
    how, epilogue = call.accumulation, call.epilogue
    if how.machine:
        return how, epilogue
    return replace(how, output=call.output), replace(epilogue, output=None)


def exact_result(given: Given, axis: int) -> Fraction | None:
    """Return the exact sum of one output times its scales, blocks of y along an axis; None if not finite."""
    x, y, factor, scales = given.x, given.y, 1.0, given.scales
    if scales is not None:
        x, y = spread_blocks(x, scales.x_blocks, -1), spread_blocks(y, scales.y_blocks, axis)
        factor = float(scales.factor[0])
    first = 0.0 if given.addend is None else float(given.addend.reshape(-1)[0])
    value = exact_sum(x.reshape(-1), y.reshape(-1), first)
    return None if value is None or not np.isfinite(factor) else value * Fraction(factor)


def exact_sum(x: Array, y: Array, first: float) -> Fraction | None:
    """Return the sum of products and a number, without any rounding; None where one is not finite."""
    terms = doubles(x), doubles(y)
    if not (np.isfinite(terms[0]).all() and np.isfinite(terms[1]).all() and np.isfinite(first)):
        return None
    pairs = zip(*(side.tolist() for side in terms), strict=True)
    products = (Fraction(a) * Fraction(b) for a, b in pairs)
    return sum(products, Fraction(first))


def limits(given: Given, places: Array, want: Array, how: Accumulation) -> tuple[Array, Array]:
    """Return the least and the greatest distance from codes of outputs that any order of summation gives."""
    x, y, addend, scales, *_ = given
    grouped = scales is not None and (scales.x_blocks is not None or scales.y_blocks is not None)
    if scales is not None:
        x = spread_blocks(x, scales.x_blocks, -1)
        y = spread_blocks(y, scales.y_blocks, -1 if given.paired else 0)
    if given.paired:
        rows, columns = places, places
    else:
        rows, columns = np.divmod(places, y.shape[-1])
        y, addend = y.T, None if addend is None else addend.reshape(-1)
    ends = np.empty((2, places.size), np.int64)
    for start in range(0, places.size, step := max(_TERMS // max(x.shape[-1], 1), 1)):
        some = slice(start, start + step)
        added = None if addend is None else addend[places[some]]
        found = ranges(x[rows[some]], y[columns[some]], added, how, grouped=grouped)
        for row, end in zip(ends, found, strict=True):
            if scales is None:
                limit = results(end, how.output)
            else:
                into = how.summed
                sums = results(end, into).astype(code_dtype(into[0]))
                limit = finite(
                    scaled(sums, scales.factor[places[some]], into, how.output),
                    how.output[0],
                )
            row[some] = distances(limit, np.maximum(want[some], 0), how.output[0])
    return ends[0], ends[1]
