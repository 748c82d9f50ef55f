"""Programs of the vector engine for dot products.

Floor 2b. Imports the vector kernels; never the oracle, which checks them.
"""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lowprec.kernels import engine
from lowprec.kernels.codes import code_dtype
from lowprec.kernels.dots import DotProgram, Share, fill_places
from lowprec.kernels.engine import Rows
from lowprec.kernels.lower.dot import Stages, integer, lower_how, lower_stages
from lowprec.kernels.lower.vector import (
    DECODER_SHAPE,
    ENCODER_SHAPE,
    NOTHING,
    is_usual,
)
from lowprec.kernels.lower.words import DOUBLE, SINGLE
from lowprec.kernels.request import Dot, Elementwise
from lowprec.kernels.scalar.dot import sums_of_doubles
from lowprec.kernels.vector.arith import plan as stages_plan
from lowprec.kernels.vector.convert import DONE
from lowprec.kernels.vector.dot import pairwise, panels, plan, projected, running, windows
from lowprec.kernels.vector.dot_operands import (
    MOST_PARTS,
    Exact,
    converted,
    doubles,
    enclosed,
    finite,
    halved,
    placed,
    places_of,
    precision_of,
    prepared,
    products,
    quiet,
    raised_by,
    scaled,
    singles,
    span,
)
from lowprec.kernels.vector.dot_specials import decided
from lowprec.kernels.vector.dot_terms import by_terms
from lowprec.kernels.vector.dot_ways import Way, way_of
from lowprec.kernels.vector.doubles import joined, products_joined, sequence, singles_between
from lowprec.kernels.vector.in_parts import NO_FLAGS, NO_RANDOM
from lowprec.kernels.vector.ir.lanes import LANES
from lowprec.spec.accumulation import Accumulation, Window
from lowprec.spec.format import Carrier, Format
from lowprec.spec.projection import DEFAULT, Projection, Saturation

__all__ = ["Dots", "lower"]

Array = npt.NDArray[Any]
#: Exponents of products that a window's vectors hold.
_LOWEST, _HIGHEST = -60, 100


#: The most bits that a number rounded to odd in binary64 may then be rounded to.
_ODD = 51

#: Numbers of a tile of enclosed sums and its operands, sized for the L2 cache, and its least rows.
_TILE, _LEAST = 1 << 16, 16

#: More than the relative error of a product whose factor was rounded, too, and than the least normal number.
_ERROR, _SMALL = float.fromhex("0x1p-50"), float.fromhex("0x1p-1000")


class Done(NamedTuple):
    """The sums, as patterns of binary32 or as binary64 numbers, and where the scalar engine must say."""

    words: Array
    doubts: Array


def lower(request: Dot) -> Dots | None:
    """Return the program of a request, or None where no kernel serves the accumulation of such operands."""
    way = way_of(request)
    return None if way is None else Dots(request, way)


class Dots(DotProgram):
    """Dot products by vectors of columns; an output in doubt, or with unsuitable operands, is left."""

    rows = 64

    def __init__(self, request: Dot, way: Way) -> None:
        self._way, self._how, self._request = way, request.accumulation, request
        self._formats = (request.x, request.y)
        self._others: DotProgram = engine.lower_by("scalar", request) or engine.lower_by("oracle", request)

    def part(
        self, x: Rows, y: Rows, addends: Array, out: Array, key: int, first: int, paired: bool
    ) -> None:  # fmt: skip
        """Write the codes of some rows, by the scalar engine."""
        self._others.part(x, y, addends, out, key, first, paired)

    def run(
        self, x: Rows, y: Rows, addends: Array, out: Array, key: int, first: int, paired: bool, share: Share
    ) -> None:
        """Write the codes of all products; what lanes leave is done by the scalar engine."""
        doubts = None if paired else self._by_lanes(x, y, addends, out, share)
        if doubts is None or np.count_nonzero(doubts) > self._others.all_from * doubts.size:
            self._others.run(x, y, addends, out, key, first, paired, share)
        elif doubts.any():
            fill_places(self._others, np.argwhere(doubts), x, y, addends, out, key, share)

    def _by_lanes(self, x: Rows, y: Rows, addends: Array, out: Array, share: Share) -> Array | None:
        """Write the codes of the products of all rows; return the outputs left, None for all."""
        way, begin = self._way, self._request.addend
        if not out.size or not x.codes.shape[1]:
            return None
        if way.kind == "doubles":
            done = self._doubles(x, y, addends, out.shape, share)
            if done is not None:
                self._write(done, out)
            return None if done is None else done.doubts
        if way.kind == "exact":
            doubts = None if addends.size else self._exact(x, y, out)
            if doubts is None or DOUBLE in self._formats:
                return doubts
            return self._without_specials(x, y, out, doubts)
        given = addends
        if addends.size and way.kind not in ("sequence", "terms"):
            if isinstance(begin, Carrier):
                return None
            given = singles(addends.astype(code_dtype(begin)), begin)
        sides = [singles(rows.codes, fmt) for rows, fmt in zip((x, y), self._formats, strict=True)]
        if way.kind == "sequence":
            done = _sequence(sides[0], sides[1], given, out.shape, share)
        elif way.kind == "terms":
            made = by_terms(self._request, x, y, sides, addends, share)
            done = None if made is None else Done(*made)
        else:
            done = self._lanes(x, y, sides, given, share)
        if done is None:
            return None
        self._write(done, out)
        return done.doubts if addends.size else self._without_specials(x, y, out, done.doubts)

    def _without_specials(self, x: Rows, y: Rows, out: Array, doubts: Array) -> Array:
        """Write the outputs that infinities and NaNs among the operands decide; return those in doubt."""
        if not doubts.any():
            return doubts
        left, right = (singles(rows.codes, fmt) for rows, fmt in zip((x, y), self._formats, strict=True))
        scales = [
            singles(np.asarray(rows.scales), fmt)
            for rows, fmt in zip((x, y), self._request.scales or (), strict=False)
        ]
        made = decided(self._how, left, right, scales, only_nans=self._request.tensor != 1)
        if made is None:
            return doubts
        some = np.flatnonzero(doubts & (made != 0))
        out.reshape(-1)[some] = converted(made.reshape(-1)[some], SINGLE, *self._how.output)
        return np.asarray(doubts & (made == 0))

    def _write(self, done: Done, out: Array) -> None:
        """Write sums as codes of the output."""
        if self._request.tensor == 1:
            out[...] = _as_output(done.words, self._how)
        else:
            numbers = done.words if done.words.dtype == np.float64 else done.words.view(np.float32)
            high = max(1, _TILE // out.shape[1])
            for start in range(0, len(out), high):
                rows = slice(start, start + high)
                self._write_scaled(numbers[rows], done.doubts[rows], out[rows])

    def _write_scaled(self, sums: Array, doubts: Array, out: Array) -> None:
        """Write sums times the tensors' scales, rounded once to the output, unless they are in doubt."""
        errors = np.zeros(sums.shape[1])
        wrong = self._between(sums, float(self._request.tensor), _ERROR, errors, out)
        rest = np.nonzero(wrong & ~doubts)
        if rest[0].size:
            numbers, made = sums[rest].astype(np.float64), np.empty(rest[0].size, np.uint64)
            infinite = np.isinf(numbers)
            self._rounded([np.where(infinite, 0.0, numbers)], made)
            made[infinite] = converted(numbers[infinite].view(np.uint64), DOUBLE, *self._how.output)
            out[rest] = made

    def _between(self, numbers: Array, factor: float, relative: float, errors: Array, out: Array) -> Array:
        """Write the codes of numbers times a factor; return where these may be wrong.

        Of each column `errors` bounds what numbers lack, or `relative` does in proportion. Roundings never
        decrease between numbers of one sign, so a code of both bounds is that of what lies between.
        """
        rest = np.empty(out.shape, bool)
        if self._how.output == (SINGLE, DEFAULT):
            if singles_between(numbers, factor, relative, errors, out, rest, plan()) == DONE:
                return rest
            return np.ones(out.shape, bool)
        with np.errstate(all="ignore"):
            sums = np.multiply(numbers, factor, dtype=np.float64)
            size = np.abs(sums)
            error = size * relative + errors
            least, out[...], most = (
                _as_output(each, self._how) for each in (sums - error, sums, sums + error)
            )
        zero = (numbers == 0) & (relative > 0)
        usual = (size > error) & (size > _SMALL) & (size < 1 / _SMALL)
        return np.asarray((least != most) | ~(usual | zero))

    def _rounded(self, parts: list[Array], out: Array) -> None:
        """Write exact sums of binary64 numbers, times the tensors' scales, rounded once to the output."""
        request, how = self._request, self._how
        if len(parts) == 1 and Fraction(float(request.tensor)) == request.tensor:
            by = np.full(out.size, float(request.tensor))
            out[...] = _operated("multiply", [parts[0].reshape(-1), by], *how.output).reshape(out.shape)
            return
        words = lower_how(
            how, request.x, request.y, request.addend, request.scales, request.block, integer(request.tensor)
        )
        stage, made = lower_stages(how, request.addend)[Stages.OUTPUT], np.empty(out.size, np.uint64)
        sums_of_doubles(np.stack(parts).view(np.uint64).reshape(len(parts), -1), words, stage, made)
        out[...] = made.reshape(out.shape)

    def _doubles(
        self, x: Rows, y: Rows, addends: Array, shape: tuple[int, ...], share: Share
    ) -> Done | None:  # fmt: skip
        """Running sums of exact products of binary64 numbers."""
        fx, fy = self._formats
        (left, left_rows), (right, right_rows) = doubles(x.codes, fx), doubles(y.codes, fy)
        some = np.outer(left.any(axis=1), right.any(axis=1))
        columns = np.ascontiguousarray(right.T)
        highs, high, words = halved(left), halved(columns), plan()
        wide = self._way.running == "doubles"
        sums = np.zeros(shape, np.float64 if wide else np.float32)
        if addends.size:
            sums[...] = addends.view(np.float64) if wide else addends.astype(np.uint32).view(np.float32)
        kernel = products_joined(self._way.running)

        def part(start: int, stop: int) -> int:
            rows = slice(start, stop)
            return kernel(left[rows], highs[rows], columns, high, sums[rows], words) if start < stop else DONE

        if share(part, len(left), columns.size) != DONE:
            return None
        zeros = (sums == 0) & (some | (addends.size > 0))  # of zeros alone, after +0, a sum is +0
        doubts = zeros | ~np.isfinite(sums) | left_rows[:, None] | right_rows
        return Done(sums if wide else sums.view(np.uint32), doubts)

    def _exact(self, x: Rows, y: Rows, out: Array) -> Array | None:
        """Write exact sums; see `run`."""
        values = [scaled(rows, fmt) for rows, fmt in zip((x, y), self._formats, strict=True)]
        if any(side is None for side in values):
            return None
        (left, left_rows), (right, right_rows) = (finite(side) for side in values if side is not None)
        few, many, made = (right, left, out.T) if len(left) > len(right) else (left, right, out)
        exact = products(few, many, 1)
        if exact is not None:
            doubts = self._write_exact(exact, made)
        else:
            rest, doubts = self._by_bounds(few, many, made), np.zeros(made.shape, bool)
            if rest.size:
                exact, codes = (
                    products(few, many[rest], MOST_PARTS),
                    np.empty((len(few), rest.size), np.uint64),
                )
                doubts[:, rest] = True if exact is None else self._write_exact(exact, codes)
                made[:, rest] = codes
        return np.asarray((doubts if made is out else doubts.T) | left_rows[:, None] | right_rows)

    def _by_bounds(self, few: Array, many: Array, out: Array) -> Array:
        """Write exact sums that their bounds decide; return which of `many` have one that these do not."""
        wide = np.uint64 in (few.dtype, many.dtype)
        if wide or self._request.tensor != 1 or self._how.output[0].precision > SINGLE.precision:
            return np.arange(len(many))
        numbers, low, rest = few.view(np.float32).astype(np.float64), span(few)[0], np.empty(len(many), bool)
        wide = max(_LEAST, _TILE // (few.shape[1] + len(few)))
        for start in range(0, len(many), wide):
            tile = slice(start, start + wide)
            sums, errors = enclosed(numbers, many[tile], low)
            codes = np.empty(sums.shape, np.uint64)
            rest[tile] = self._between(sums, 1.0, 0.0, errors, codes).any(axis=0)
            out[:, tile] = codes
        return np.flatnonzero(rest)

    def _write_exact(self, exact: Exact, out: Array) -> Array:
        """Write exact sums; return which are zero, as their signs are unknown, or cannot be written."""
        parts, sums = exact.parts, exact.parts[0]
        if len(parts) > 1:  # parts that are not zero may sum to it
            sums = np.empty(out.shape)
            stack = np.stack(parts).reshape(len(parts), -1)
            if joined(stack, exact.base, exact.bits, sums.reshape(-1), plan()) != DONE:
                return np.ones(out.shape, bool)
            if self._request.tensor == 1 and self._how.output[0].precision <= _ODD:
                parts = [sums]
        if len(parts) == 1 and self._request.tensor == 1:
            self._write(Done(parts[0], sums == 0), out)
        else:
            self._rounded(parts, out)
        return np.asarray(sums == 0)

    def _lanes(self, x: Rows, y: Rows, sides: list[Array], addends: Array, share: Share) -> Done | None:
        """Sums whose columns are lanes: of patterns of binary32, shape (rows of x, rows of y)."""
        way, m, n = self._way, len(sides[0]), len(sides[1])
        starts = np.zeros((m, -(-n // LANES) * LANES), np.uint32)
        if addends.size:
            starts[:, :n] = addends
        if way.kind == "windows":
            window = self._how.accumulator
            assert isinstance(window, Window)
            raised = self._raised(x, y)
            done = None
            if raised is not None:
                done = _windows(way, window, sides, raised, self._formats, starts, share)
            if done is not None and self._request.scales:
                done.doubts[:, :n] |= _nan_scales(x, y)
        else:
            narrow = way.running and sum(map(precision_of, sides, self._formats)) <= way.bits
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

    def _raised(self, x: Rows, y: Rows) -> list[Array | None] | None:
        """Return the exponents of scales that join those of products; None if scales are no powers of two."""
        raised = [raised_by(rows) if self._request.scales else None for rows in (x, y)]
        return None if self._request.scales and any(side is None for side in raised) else raised


def _nan_scales(x: Rows, y: Rows) -> Array:
    """Return a mask of outputs with a scale that is NaN."""
    found = []
    for rows in (x, y):
        assert rows.scales is not None
        assert rows.scale_fmt is not None
        found.append((rows.scales == rows.scale_fmt.nan_code).any(axis=1))
    return np.asarray(found[0][:, None] | found[1])


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


def _operated(operation: str, operands: list[Array], fmt: Format, rule: Projection) -> Array:
    """Return the codes of results of an operation on binary64 numbers."""
    program = engine.lower(Elementwise(operation, (DOUBLE,) * len(operands), fmt, rule))
    made = np.empty(operands[0].size, code_dtype(fmt))
    program.run([side.view(np.uint64) for side in operands], made, NO_FLAGS, NO_RANDOM)
    return made


def _as_output(words: Array, how: Accumulation) -> Array:
    """Codes of the output, of sums as patterns of binary32 or as binary64 numbers."""
    fmt, rule = how.output
    if words.dtype == np.float64:
        return converted(words.view(np.uint64), DOUBLE, fmt, rule)
    if fmt == SINGLE and rule.saturation is Saturation.NONE and rule.subnormals == "keep":
        return words
    rule = dataclasses.replace(rule, nan="max") if fmt.nan_code is None else rule
    return converted(words, SINGLE, fmt, rule)


def _running(
    way: Way, sides: list[Array], begins: bool, starts: Array, how: Accumulation, share: Share
) -> Done | None:
    """Running sums, and sums in pairs."""
    x, columns, starts = quiet(sides[0]), panels(quiet(sides[1])), quiet(starts)
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


def _windows(
    way: Way,
    window: Window,
    sides: list[Array],
    raised: list[Array | None],
    formats: tuple[Format, Format],
    starts: Array,
    share: Share,
) -> Done | None:
    (x, x_rows), (y, y_rows) = map(finite, sides)
    left, right = (prepared(side, up, fmt) for side, up, fmt in zip((x, y), raised, formats, strict=True))
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
    places = places_of(sides[0].shape[1], window)
    operands = [placed(side, places) for side in (left.words, left.exponents, right.words, right.exponents)]
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
