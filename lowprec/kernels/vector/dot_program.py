"""Programs of the vector engine for dot products: which kernel serves an accumulation, and what it leaves.

Floor 2b. Imports the vector kernels; never the oracle, which checks them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lowprec.kernels import engine
from lowprec.kernels.codes import code_dtype
from lowprec.kernels.engine import Rows
from lowprec.kernels.jit import has_half
from lowprec.kernels.lower.words import BRAIN, CUT_SINGLE, DOUBLE, HALF, POWERS, SINGLE
from lowprec.kernels.request import CONVERT, Dot, Elementwise
from lowprec.kernels.vector.convert import DONE
from lowprec.kernels.vector.dot import BIAS, panels, plan, running, windows
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


class Way(NamedTuple):
    """Which kernel, and for windows what it asks for; or sums of binary64, where those are exact."""

    exact: bool = False
    running: str = ""
    bits: int = 48  #: that products of running sums may have
    sink: str = ""
    chunk: int = 0
    lost: int = 0  #: bits of 53 that a step's own sum does not keep


class Done(NamedTuple):
    """The sums, as patterns of binary32 or as binary64 numbers, and where the scalar engine must say."""

    words: Array
    doubts: Array


def lower(request: Dot) -> Dots | None:
    """Return the program of a request, or None where no kernel serves the accumulation of such operands."""
    way = _way(request) if request.tensor == 1 and not request.accumulation.output[1].rounding.bits else None
    return None if way is None or (request.block and not way.sink) else Dots(request, way)


def _way(request: Dot) -> Way | None:
    how, x, y = request.accumulation, request.x, request.y
    if isinstance(x, Carrier) or isinstance(y, Carrier) or how.machine or how.order == PAIRWISE:
        return None
    if how.addend != "first" or not (SINGLE.contains(x) and SINGLE.contains(y)):
        return None
    if how.order == EXACT:
        return Way(exact=True)
    if isinstance(how.accumulator, Window):
        return _window(how, how.accumulator, x.precision + y.precision)
    if (
        how.scale is not None
        or how.order != SEQUENTIAL
        or how.accumulator is None
        or not _is_plain(how.accumulator)
    ):
        return None
    fmt, rounded = how.accumulator[0], how.product is not None
    if fmt == SINGLE and (not rounded or (how.product is not None and how.product == (fmt, DEFAULT))):
        return Way(running="multiply_and_add" if rounded else "fma")
    if fmt == BRAIN and not rounded:
        return Way(running="short", bits=fmt.precision)
    if fmt == HALF and not rounded and has_half():
        return Way(running="half", bits=fmt.precision)
    return None


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
        return Way(sink=sinks[fmt]) if how.output[0] == added else None
    if how.total[0] != added or not _is_plain(how.total) or how.order.size % window.step:
        return None
    return Way(sink=sinks[fmt], chunk=how.order.size)


def _direct(how: Accumulation, window: Window, bits: int) -> Way | None:
    """Steps that are summed from zero into a format with many bits, and then in binary32."""
    fmt = window.result[0]
    wide = 26 <= fmt.precision <= 50 and fmt.exponent_bits > 0 and fmt.subnormals
    if not _fits(window, bits) or not _is_plain(window.result) or not wide or window.groups != "consecutive":
        return None
    if how.total is None or how.total[0] != SINGLE or not _is_plain(how.total):
        return None
    return Way(sink="nearest", chunk=window.step, lost=53 - fmt.precision)


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
        self._way, self._how, self._begin = way, request.accumulation, request.addend
        self._formats, self._scales = (request.x, request.y), request.scales

    def run(self, x: Rows, y: Rows, addends: Array, out: Array, share: Share) -> Array | None:
        """Write the codes of the products of all rows of x and y; return the outputs left, None for all.

        `addends` are codes of the shape of `out`, or none. `share(part, rows, cost)` calls part(start, stop)
        for ranges of rows, each as expensive as `cost` elements.
        """
        begin = self._begin
        if addends.size and isinstance(begin, Carrier):
            return None
        sides = [_singles(rows.codes, fmt) for rows, fmt in zip((x, y), self._formats, strict=True)]
        raised = [_raised(rows) if self._scales else None for rows in (x, y)]
        starts = _singles(addends.astype(code_dtype(begin)), begin) if addends.size else addends
        done = self._sums(sides, raised, starts, share)
        if done is None:
            return None
        out[...] = _as_output(done.words, self._how)
        return done.doubts

    def _sums(
        self, sides: list[Array], raised: list[Array | None], addends: Array, share: Share
    ) -> Done | None:
        """All sums of rows of two sides, shape (rows of x, rows of y); None where vectors cannot say.

        Both are patterns of binary32, and so are addends, which may be empty. `raised` are the exponents of
        scales, for each element, where an accumulation has such.
        """
        x, y = sides
        way, m, n, width = self._way, x.shape[0], y.shape[0], -(-y.shape[0] // LANES) * LANES
        if not m or not n or not x.shape[1]:
            return None
        if way.exact:
            return None if addends.size else _in_doubles(x, y)
        starts = np.zeros((m, width), np.uint32)
        if addends.size:
            starts[:, :n] = addends
        if way.running and sum(map(_precision, sides, self._formats)) > way.bits:
            return None
        if way.running:
            done = _running(way, _quiet(x), _quiet(y), starts, share)
        else:
            window = self._how.accumulator
            assert isinstance(window, Window)
            if window.scales != "none" and any(side is None for side in raised):
                return None
            done = _windows(way, window, x, y, raised, self._formats, starts, share)
        return None if done is None else Done(done.words[:, :n], done.doubts[:, :n])


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


def _running(way: Way, x: Array, y: Array, starts: Array, share: Share) -> Done | None:
    kernel, columns, out, how = running(way.running), panels(y), np.empty_like(starts), plan()
    starts = _quiet(starts)

    def part(start: int, stop: int) -> int:
        rows = slice(start, stop)
        return kernel(x[rows], columns, starts[rows], out[rows], how) if start < stop else DONE

    if share(part, len(x), starts.shape[1] * x.shape[1] // 4) != DONE:
        return None
    return Done(out, np.isnan(out.view(np.float32)))


def _in_doubles(x: Array, y: Array) -> Done | None:
    """Exact sums of numbers so close in size that binary64 holds all sums of their products, in any order."""
    spans = [_span(side) for side in (x, y)]
    if any(span is None for span in spans):
        return None
    (x_low, x_high), (y_low, y_high) = spans  # type: ignore[misc]
    if x_high + y_high + x.shape[1].bit_length() - (x_low + y_low) > 53 or x_low + y_low < -1000:
        return None
    sums = np.matmul(x.view(np.float32).astype(np.float64), y.view(np.float32).astype(np.float64).T)
    return Done(sums, sums == 0)


def _span(words: Array) -> tuple[int, int] | None:
    """All numbers are multiples of 2**low and below 2**high; None where one is not finite."""
    fields = (words >> 23) & 0xFF
    if (fields == 0xFF).any():
        return None
    numbers = (words & 0x7FFFFFFF) != 0
    fields = np.maximum(fields, 1).astype(np.int32)
    significands = (words & 0x7FFFFF | np.where(fields > 1, 0x800000, 0)).astype(np.int64)
    zeros = np.frexp((significands & -significands).astype(np.float64))[1] - 1
    low = int((fields + zeros - 150).min(where=numbers, initial=200))
    return low, int((fields - 126).max(where=numbers, initial=low))


def _windows(
    way: Way,
    window: Window,
    x: Array,
    y: Array,
    raised: list[Array | None],
    formats: tuple[Format, Format],
    starts: Array,
    share: Share,
) -> Done | None:
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
    places = _places(x.shape[1], window)
    sides = [_placed(side, places) for side in (left.words, left.exponents, right.words, right.exponents)]
    kernel, how, out, doubts = (
        windows(way.sink, way.chunk > 0),
        plan(),
        np.empty_like(starts),
        np.empty_like(starts),
    )
    columns, exponents = panels(sides[2]), panels(sides[3])
    assert window.fraction_bits is not None

    def part(start: int, stop: int) -> int:
        rows = slice(start, stop)
        if start >= stop:
            return DONE
        return kernel(
            sides[0][rows], sides[1][rows], columns, exponents, starts[rows], out[rows], doubts[rows],
            window.step, way.chunk, window.fraction_bits, max(window.lowest_exponent, _LOWEST - 100),
            way.lost, how,
        )  # fmt: skip

    if share(part, len(x), starts.shape[1] * x.shape[1]) != DONE:
        return None
    return Done(out, doubts != 0)


class _Side(NamedTuple):
    """Operands with their scales, exponents for windows, with BIAS or 0 for zeros, and the extreme ones."""

    words: Array
    exponents: Array
    low: int
    high: int


def _prepared(words: Array, raised: Array | None, fmt: Format) -> _Side | None:
    """None where an operand is not finite, or not with its scale."""
    fields = (words >> 23) & 0xFF
    if (fields == 0xFF).any():
        return None
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
