"""Programs of the vector engine for dot products: which kernel serves an accumulation, and what it leaves.

Floor 2b. Imports the vector kernels; never the oracle, which checks them.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lowprec.kernels import engine
from lowprec.kernels.codes import code_dtype
from lowprec.kernels.engine import Rows
from lowprec.kernels.jit import has_half
from lowprec.kernels.lower.dot import Stages, integer, lower_how, lower_stages
from lowprec.kernels.lower.vector import (
    DECODER_SHAPE,
    ENCODER_SHAPE,
    NOTHING,
    Encoder,
    Words as Plan,
    is_usual,
    lower_decoder,
    lower_encoder,
)
from lowprec.kernels.lower.words import BRAIN, CUT_SINGLE, DOUBLE, HALF, POWERS, SINGLE
from lowprec.kernels.request import CONVERT, Dot, Elementwise
from lowprec.kernels.scalar.dot import sums_of_doubles
from lowprec.kernels.vector.arith import plan as stages_plan
from lowprec.kernels.vector.convert import DONE
from lowprec.kernels.vector.dot import BIAS, pairwise, panels, plan, projected, running, windows
from lowprec.kernels.vector.doubles import block_terms, sequence
from lowprec.kernels.vector.ir.lanes import LANES
from lowprec.spec.accumulation import EXACT, PAIRWISE, SEQUENTIAL, Accumulation, Rounded, Window
from lowprec.spec.format import Carrier, Format
from lowprec.spec.projection import DEFAULT, Projection, Saturation
from lowprec.spec.rounding import NEAREST_EVEN, TOWARD_ZERO

__all__ = ["Dots", "lower"]

Array = npt.NDArray[Any]
Share = Callable[[Callable[[int, int], int], int, int], int]

#: Exponents of products that a window's vectors hold.
_LOWEST, _HIGHEST = -60, 100

#: Bits of sums of blocks that two binary64 numbers hold.
_WIDEST = 100

#: The most slices of an operand of exact sums: the square of it is how many products of matrices there are.
_SLICES = 8


class Way(NamedTuple):
    """Which kernel serves an accumulation, and what it asks for."""

    kind: str  #: "exact", "running", "sequence" in binary64, "pairwise", "terms" of blocks, or "windows"
    running: str = ""  #: the key of `dot.ACCUMULATORS`, or none
    bits: int = 0  #: that products may have there
    stages: tuple[Plan, Plan] | None = None  #: of an accumulator of any format: to it, and back
    sink: str = ""
    chunk: int = 0
    lost: int = 0  #: bits of 53 that a step's own sum does not keep


class Done(NamedTuple):
    """The sums, as patterns of binary32 or as binary64 numbers, and where the scalar engine must say."""

    words: Array
    doubts: Array


def lower(request: Dot) -> Dots | None:
    """Return the program of a request, or None where no kernel serves the accumulation of such operands."""
    way = None if request.accumulation.output[1].rounding.bits else _way(request)
    return None if way is None else Dots(request, way)


def _way(request: Dot) -> Way | None:
    how, x, y = request.accumulation, request.x, request.y
    if isinstance(x, Carrier) or isinstance(y, Carrier) or how.machine or how.addend != "first":
        return None
    if not (SINGLE.contains(x) and SINGLE.contains(y)):
        return None
    if how.order == EXACT:
        return Way("exact")
    if isinstance(how.accumulator, Window):
        way = _window(how, how.accumulator, x.precision + y.precision)
        return None if request.tensor != 1 or (request.block and how.scale is None) else way
    if how.accumulator is None:
        return None
    into, rounded = how.accumulator, how.product is not None
    single = into[0] == SINGLE and _is_plain(into) and how.product in (None, (SINGLE, DEFAULT))
    if request.block:
        assert request.scales is not None, "blocks have scales"
        known = single and how.order == SEQUENTIAL and all(map(SINGLE.contains, request.scales))
        return Way("terms") if known else None
    if how.order == PAIRWISE:
        return Way("pairwise") if single and rounded else None
    if how.order != SEQUENTIAL:
        return None
    if single:
        return Way("running", "multiply_and_add" if rounded else "fma", 48)
    if rounded:
        return None
    if into[0] == DOUBLE:
        return Way("sequence") if _is_plain(into) and x.precision + y.precision <= 53 else None
    name = "short" if into[0] == BRAIN else "half" if into[0] == HALF and has_half() else ""
    name, stages = name if _is_plain(into) else "", _stages(into)
    return Way("running", name, into[0].precision, stages) if name or stages else None


def _stages(place: Rounded) -> tuple[Plan, Plan] | None:
    """The stages of an accumulator of any format, or None where vectors cannot be exact."""
    fmt, rule = place
    to, back = lower_encoder(fmt, rule, True), lower_decoder(fmt)
    if to is None or back is None or rule.rounding.bits or to[Encoder._fields.index("refuses")]:
        return None
    return to, back


def _window(how: Accumulation, window: Window, bits: int) -> Way | None:
    fmt, rule = window.result
    sinks = {SINGLE: "single", CUT_SINGLE: "short", HALF: "half"}
    if fmt not in sinks and window.step == how.order.size:
        return _direct(how, window, bits)
    mode = NEAREST_EVEN if fmt == HALF else TOWARD_ZERO
    if (
        fmt not in sinks
        or rule.rounding != mode
        or not _is_plain((fmt, dataclasses.replace(rule, rounding=NEAREST_EVEN)))
    ):
        return None
    if not _fits(window, bits) or (fmt == HALF and not has_half()):
        return None
    # The addend comes in the output's format, whose exponents it has in the first step.
    added = HALF if fmt == HALF else SINGLE
    if how.total is None:
        return Way("windows", sink=sinks[fmt]) if how.output[0] == added else None
    if how.total[0] != added or not _is_plain(how.total) or how.order.size % window.step:
        return None
    return Way("windows", sink=sinks[fmt], chunk=how.order.size)


def _direct(how: Accumulation, window: Window, bits: int) -> Way | None:
    """Steps that are summed from zero into a format with many bits, and then in binary32."""
    fmt = window.result[0]
    wide = 26 <= fmt.precision <= 50 and fmt.exponent_bits > 0 and fmt.subnormals
    if not _fits(window, bits) or not _is_plain(window.result) or not wide or window.groups != "consecutive":
        return None
    if how.total is None or how.total[0] != SINGLE or not _is_plain(how.total):
        return None
    return Way("windows", sink="nearest", chunk=window.step, lost=53 - fmt.precision)


def _fits(window: Window, bits: int) -> bool:
    """Whether vectors align so: sums of 16 products fit signed words, and each is cut as numbers are."""
    if window.fraction_bits is None or window.fraction_bits > 25 or window.step > 32 or bits > 24:
        return False
    return window.cut == "toward_zero" and window.scales != "groups" and not window.negative_zero


def _is_plain(place: Rounded) -> bool:
    """Whether sums get there as the processor rounds. NaNs are none of a vector's business."""
    rule = place[1]
    return rule == Projection(nan_code=rule.nan_code, nan_sign=rule.nan_sign, nan=rule.nan)


class Dots:
    """Dot products by vectors of columns; an output in doubt, or with unsuitable operands, is left."""

    partial = True

    def __init__(self, request: Dot, way: Way) -> None:
        self._way, self._how, self._request = way, request.accumulation, request
        self._formats = (request.x, request.y)

    def run(self, x: Rows, y: Rows, addends: Array, out: Array, share: Share) -> Array | None:
        """Write the codes of the products of all rows of x and y; return the outputs left, None for all.

        `addends` are codes of the shape of `out`, or none. `share(part, rows, cost)` calls part(start, stop)
        for ranges of rows, each as expensive as `cost` elements.
        """
        way, begin = self._way, self._request.addend
        if not out.size or not x.codes.shape[1]:
            return None
        if way.kind == "exact":
            return None if addends.size else self._exact(x, y, out)
        if addends.size and way.kind != "sequence":
            if isinstance(begin, Carrier):
                return None
            addends = _singles(addends.astype(code_dtype(begin)), begin)
        sides = [_singles(rows.codes, fmt) for rows, fmt in zip((x, y), self._formats, strict=True)]
        if way.kind == "sequence":
            done = _sequence(sides[0], sides[1], addends, out.shape, share)
        elif way.kind == "terms":
            done = self._terms(x, y, sides, addends, out.shape, share)
        else:
            done = self._lanes(x, y, sides, addends, share)
        if done is None:
            return None
        self._write(done, out)
        return done.doubts

    def _write(self, done: Done, out: Array) -> None:
        """Write sums as codes of the output."""
        if self._request.tensor == 1:
            out[...] = _as_output(done.words, self._how)
        else:
            numbers = np.where(done.doubts, np.float32(0), done.words.view(np.float32))
            self._rounded([numbers.astype(np.float64)], out)

    def _rounded(self, parts: list[Array], out: Array) -> None:
        """Write exact sums of binary64 numbers, times the tensors' scales, rounded once to the output."""
        request, how = self._request, self._how
        words = lower_how(
            how, request.x, request.y, request.addend, request.scales, request.block, integer(request.tensor)
        )
        stage, made = lower_stages(how, request.addend)[Stages.OUTPUT], np.empty(out.size, np.uint64)
        sums_of_doubles(np.stack(parts).view(np.uint64).reshape(len(parts), -1), words, stage, made)
        out[...] = made.reshape(out.shape)

    def _exact(self, x: Rows, y: Rows, out: Array) -> Array | None:
        """Write exact sums; see `run`."""
        values = [_scaled(rows, fmt) for rows, fmt in zip((x, y), self._formats, strict=True)]
        if any(side is None for side in values):
            return None
        (left, left_rows), (right, right_rows) = (_finite(side) for side in values if side is not None)
        parts = _products(left, right)
        if parts is None:
            return None
        doubts = left_rows[:, None] | right_rows | np.logical_and.reduce([part == 0 for part in parts])
        if len(parts) == 1 and self._request.tensor == 1:
            self._write(Done(parts[0], doubts), out)
        else:
            self._rounded(parts, out)
        return np.asarray(doubts)

    def _terms(
        self, x: Rows, y: Rows, sides: list[Array], addends: Array, shape: tuple[int, ...], share: Share
    ) -> Done | None:
        """Running sums of blocks' products in binary32."""
        request = self._request
        assert request.scales is not None
        assert x.scales is not None
        assert y.scales is not None
        scales = [
            _singles(codes, fmt).view(np.float32).astype(np.float64)
            for codes, fmt in zip((x.scales, y.scales), request.scales, strict=True)
        ]
        (x_low, x_high), (y_low, y_high) = (_span(_finite(side)[0]) for side in sides)
        factors = sum(fmt.precision for fmt in request.scales if fmt.precision > 1)
        bits = x_high + y_high - (x_low + y_low) + request.block.bit_length() + factors
        least = [float(np.where(side > 0, side, np.inf).min(initial=1.0)) for side in scales]
        least_bit = math.frexp(least[0] * least[1])[1] - 1 - sum(fmt.trailing_bits for fmt in request.scales)
        # Sums are multiples of the least binary32 number: none is rounded below it, or becomes -0.
        if bits > (53 if factors else _WIDEST) or x_low + y_low + least_bit < -149:
            return None
        numbers = [side.view(np.float32).astype(np.float64) for side in sides]
        out = np.zeros(shape, np.float32)
        if addends.size:
            out[...] = addends.view(np.float32)
        zeros = np.signbit(out) & (out == 0)
        columns, shared = (np.ascontiguousarray(side[1].T) for side in (numbers, scales))
        rounds, wide, words = self._how.product is not None, bits > 53, plan()

        def part(start: int, stop: int) -> int:
            if start >= stop:
                return DONE
            rows = slice(start, stop)
            status: int = block_terms(
                numbers[0][rows],
                columns,
                scales[0][rows],
                shared,
                request.block,
                rounds,
                wide,
                out[rows],
                words,
            )
            return status

        if share(part, shape[0], shape[1] * columns.shape[0] // 4) != DONE:
            return None
        return Done(out.view(np.uint32), ~np.isfinite(out) | (zeros & (out == 0)))

    def _lanes(self, x: Rows, y: Rows, sides: list[Array], addends: Array, share: Share) -> Done | None:
        """Sums whose columns are lanes: of patterns of binary32, shape (rows of x, rows of y)."""
        way, m, n = self._way, len(sides[0]), len(sides[1])
        starts = np.zeros((m, -(-n // LANES) * LANES), np.uint32)
        if addends.size:
            starts[:, :n] = addends
        if way.kind == "windows":
            window = self._how.accumulator
            assert isinstance(window, Window)
            raised = [_raised(rows) if self._request.scales else None for rows in (x, y)]
            if window.scales != "none" and any(side is None for side in raised):
                return None
            done = _windows(way, window, sides, raised, self._formats, starts, share)
        else:
            narrow = way.running and sum(map(_precision, sides, self._formats)) <= way.bits
            if not narrow and way.kind == "running" and way.stages is None:
                return None
            done = _running(
                way._replace(running=way.running if narrow else ""),
                sides,
                bool(addends.size),
                starts,
                self._how,
                share,
            )
        return None if done is None else Done(done.words[:, :n], done.doubts[:, :n])


def _sequence(x: Array, y: Array, addends: Array, shape: tuple[int, ...], share: Share) -> Done | None:
    """Running sums in binary64."""
    left, right = (side.view(np.float32).astype(np.float64) for side in (x, y.T))
    out, words = np.zeros(shape), plan()
    if addends.size:
        out[...] = addends.view(np.float64)

    def part(start: int, stop: int) -> int:
        rows = slice(start, stop)
        return sequence(left[rows], right, out[rows], words) if start < stop else DONE

    right = np.ascontiguousarray(right)
    if share(part, shape[0], shape[1] * len(right) // 4) != DONE:
        return None
    return Done(out, np.isnan(out))


def _scaled(rows: Rows, fmt: Format) -> Array | None:
    """The values of rows of codes as patterns of binary32, times their scales; None where it does not hold them."""
    words = _singles(rows.codes, fmt)
    if rows.scales is None or rows.scale_fmt is None:
        return words
    if not SINGLE.contains(rows.scale_fmt):
        return None
    scales = _singles(rows.scales, rows.scale_fmt).view(np.float32).astype(np.float64)
    exact = words.view(np.float32) * scales[:, np.arange(words.shape[1]) // rows.block]
    with np.errstate(all="ignore"):
        made = exact.astype(np.float32)
    same = (made == exact) | np.isnan(exact)
    return made.view(np.uint32) if same.all() else None


def _finite(words: Array) -> tuple[Array, Array]:
    """Rows with zeros in place of those that have an infinity or NaN, and which these are."""
    others = ((words & 0x7F800000) == 0x7F800000).any(axis=1)
    return (np.where(others[:, None], np.uint32(0), words) if others.any() else words), others


def _products(x: Array, y: Array) -> list[Array] | None:
    """All sums of products, exact, each as the sum of a few binary64 numbers; None where there would be too many.

    Operands are cut into slices of few bits, so that binary64 holds every sum of products of two slices, in
    any order. Source: [OZAKI].
    """
    (x_low, x_high), (y_low, y_high) = _span(x), _span(y)
    left, right = (side.view(np.float32).astype(np.float64) for side in (x, y.T))
    length = x.shape[1].bit_length()
    if x_low + y_low < -1000:
        return None
    if x_high + y_high + length - (x_low + y_low) <= 53:
        return [np.matmul(left, right)]
    bits = (53 - length - 3) // 2
    if bits < 8 or max(x_high - x_low, y_high - y_low) > _SLICES * bits:
        return None
    rows, columns = _slices(left, x_low, x_high, bits), _slices(right, y_low, y_high, bits)
    parts = [np.zeros((len(left), right.shape[1])) for _ in range(len(rows) + len(columns) - 1)]
    for i, row in enumerate(rows):
        for j, column in enumerate(columns):
            parts[i + j] += np.matmul(row, column)  # of at most 8 such: three bits
    return parts


def _slices(numbers: Array, low: int, high: int, bits: int) -> list[Array]:
    """Numbers as sums, the largest first, of multiples of 2**(low + i * bits) below 2**(low + (i + 1) * bits)."""
    made = []
    for place in reversed(range(low, max(high, low + 1), bits)):
        unit = 2.0**place
        made.append(np.trunc(numbers / unit) * unit)
        numbers = numbers - made[-1]
    return made


def _converted(codes: Array, source: Format, target: Format, rule: Projection) -> Array:
    """Codes of one format as those of another."""
    program = engine.lower(Elementwise(CONVERT, (source,), target, rule))
    flat, out = np.ascontiguousarray(codes).reshape(-1), np.empty(codes.size, code_dtype(target))
    program.run([flat], out, np.empty(0, np.uint8), np.empty(0, np.uint32))
    return out.reshape(codes.shape)


def _singles(codes: Array, fmt: Format) -> Array:
    """The values of rows of codes, as patterns of binary32."""
    return codes.view(np.uint32) if fmt == SINGLE else _converted(codes, fmt, SINGLE, DEFAULT)


def _raised(side: Rows) -> Array | None:
    """The exponents of the scales, of each element; None where a scale is NaN, or no power of two."""
    if side.scales is None or side.scale_fmt != POWERS or (side.scales == POWERS.nan_code).any():
        return None
    exponents = side.scales.astype(np.int32) - POWERS.bias
    return exponents[:, np.arange(side.codes.shape[1]) // side.block]


def _as_output(words: Array, how: Accumulation) -> Array:
    """Codes of the output, of sums as patterns of binary32 or as binary64 numbers."""
    fmt, rule = how.output
    if words.dtype == np.float64:
        return _converted(words.view(np.uint64), DOUBLE, fmt, rule)
    if fmt == SINGLE and rule.saturation is Saturation.NONE and rule.subnormals == "keep":
        return words
    rule = dataclasses.replace(rule, nan="max") if fmt.nan_code is None else rule
    return _converted(words, SINGLE, fmt, rule)


def _precision(words: Array, fmt: Format) -> int:
    """The bits of the widest significand: of the format, or of the numbers that are there."""
    if fmt.precision <= 8:
        return fmt.precision
    used = int(np.bitwise_or.reduce(words, axis=None)) & 0x7FFFFF | 0x800000
    return 24 - ((used & -used).bit_length() - 1)


def _quiet(words: Array) -> Array:
    """NaNs without payload: the processor then keeps them apart from numbers, however sums are rounded."""
    nan = np.isnan(words.view(np.float32))
    return np.where(nan, np.uint32(0x7FC00000), words) if nan.any() else words


def _running(
    way: Way, sides: list[Array], begins: bool, starts: Array, how: Accumulation, share: Share
) -> Done | None:
    """Running sums, and sums in pairs."""
    x, columns, starts = _quiet(sides[0]), panels(_quiet(sides[1])), _quiet(starts)
    out, doubts = np.empty_like(starts), np.zeros_like(starts)
    if way.kind == "pairwise":
        words = plan()
    elif way.running:
        kernel, words = running(way.running), plan()
    else:
        assert way.stages is not None
        assert isinstance(how.accumulator, tuple)
        to, back = way.stages
        words = stages_plan(
            (NOTHING, NOTHING, NOTHING, to, back, NOTHING), how.accumulator[1].rounding.downward
        )
        known = is_usual(to)
        kernel = projected(*(tuple(int(word) for word in stage[:size]) if known else ()
                             for stage, size in ((to, ENCODER_SHAPE), (back, DECODER_SHAPE))))  # fmt: skip

    def part(start: int, stop: int) -> int:
        rows = slice(start, stop)
        if start >= stop:
            return DONE
        if way.kind == "pairwise":
            return pairwise(x[rows], columns, starts[rows], begins, out[rows], words)
        if way.running:
            return kernel(x[rows], columns, starts[rows], out[rows], words)
        return kernel(x[rows], columns, starts[rows], out[rows], doubts[rows], words)

    if share(part, len(x), starts.shape[1] * x.shape[1] // 4) != DONE:
        return None
    return Done(out, np.isnan(out.view(np.float32)) | (doubts != 0))


def _span(words: Array) -> tuple[int, int]:
    """All numbers, which are finite, are multiples of 2**low and below 2**high."""
    fields = (words >> 23) & 0xFF
    numbers = (words & 0x7FFFFFFF) != 0
    fields = np.maximum(fields, 1).astype(np.int32)
    significands = (words & 0x7FFFFF | np.where(fields > 1, 0x800000, 0)).astype(np.int64)
    zeros = np.frexp((significands & -significands).astype(np.float64))[1] - 1
    low = int((fields + zeros - 150).min(where=numbers, initial=200))
    return low, int((fields - 126).max(where=numbers, initial=low))


def _windows(
    way: Way,
    window: Window,
    sides: list[Array],
    raised: list[Array | None],
    formats: tuple[Format, Format],
    starts: Array,
    share: Share,
) -> Done | None:
    (x, x_rows), (y, y_rows) = map(_finite, sides)
    left, right = (_prepared(side, up, fmt) for side, up, fmt in zip((x, y), raised, formats, strict=True))
    if left is None or right is None:
        return None
    if left.low + right.low < _LOWEST or left.high + right.high > _HIGHEST:
        return None
    fmt = window.result[0]
    if way.lost and (
        left.high + right.high + 2 + window.step.bit_length() > fmt.emax
        or sum(side.emin - side.trailing_bits for side in formats) < fmt.emin - fmt.trailing_bits
    ):  # a step's own sum might be subnormal or too large
        return None
    places = _places(sides[0].shape[1], window)
    operands = [_placed(side, places) for side in (left.words, left.exponents, right.words, right.exponents)]
    kernel, how, out, doubts = (
        windows(way.sink, way.chunk > 0),
        plan(),
        np.empty_like(starts),
        np.empty_like(starts),
    )
    columns, exponents = panels(operands[2]), panels(operands[3])
    assert window.fraction_bits is not None

    def part(start: int, stop: int) -> int:
        rows = slice(start, stop)
        if start >= stop:
            return DONE
        return kernel(
            operands[0][rows], operands[1][rows], columns, exponents, starts[rows], out[rows], doubts[rows],
            window.step, way.chunk, window.fraction_bits, max(window.lowest_exponent, _LOWEST - 100),
            way.lost, how,
        )  # fmt: skip

    if share(part, len(sides[0]), starts.shape[1] * sides[0].shape[1]) != DONE:
        return None
    columns_left = np.zeros(out.shape[1], bool)
    columns_left[: len(y_rows)] = y_rows
    return Done(out, (doubts != 0) | x_rows[:, None] | columns_left)


class _Side(NamedTuple):
    """Operands with their scales, exponents for windows, with BIAS or 0 for zeros, and the extreme ones."""

    words: Array
    exponents: Array
    low: int
    high: int


def _prepared(words: Array, raised: Array | None, fmt: Format) -> _Side | None:
    """Operands, which are finite; None where they are not with their scales."""
    fields = (words >> 23) & 0xFF
    numbers = (words & 0x7FFFFFFF) != 0
    exponents = np.maximum(fields.astype(np.int32) - 127, fmt.emin)
    if raised is not None:
        exponents = exponents + raised
        words = np.ldexp(words.view(np.float32), np.where(numbers, raised, 0)).view(np.uint32)
    if not numbers.any():
        return _Side(words, np.zeros_like(words), 0, 0)
    low, high = (
        int(exponents.min(where=numbers, initial=1000)),
        int(exponents.max(where=numbers, initial=-1000)),
    )
    if raised is not None and (low < -100 or high > 100):
        return None
    return _Side(words, np.where(numbers, exponents + BIAS, 0).astype(np.uint32), low, high)


def _places(length: int, window: Window) -> Array:
    """Which product is taken when; `length` stands for one that is zero."""
    pairs = window.groups == "alternate_pairs"
    both = window.step * (2 if pairs else 1)
    places = np.arange(-(-length // both) * both)
    if pairs:
        steps = places.reshape(-1, both)
        clear = (np.arange(both) >> 1 & 1) == 0
        places = np.concatenate([steps[:, clear], steps[:, ~clear]], axis=1).reshape(-1)
    return np.minimum(places, length)


def _placed(side: Array, places: Array) -> Array:
    """Columns in another order, and zeros."""
    if places.size == side.shape[1] and (places == np.arange(places.size)).all():
        return np.ascontiguousarray(side)
    padded = np.concatenate([side, np.zeros((len(side), 1), side.dtype)], axis=1)
    return np.ascontiguousarray(padded[:, places])
