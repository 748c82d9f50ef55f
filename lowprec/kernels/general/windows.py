"""Steps of hardware in 64-bit lanes: products aligned to the largest, cut, added exactly, and rounded once.

Floor 2b. Imports numba through `jit`; never the oracle, which checks it.

Notation, beside that of `tiles`:

    exponent   of a term: that of the bit which a normal number of its format has in front of its point
    point      bits behind the points of both factors of a product, or of both scales
    unit       2**(exponent - fraction_bits) for the largest exponent: what terms are multiples of
    seen       whether NaN is among the terms, and infinities of either sign
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lowprec.kernels.general.numbers import Lane, pick, read, zeros_above
from lowprec.kernels.general.operations import Outcome, bits_of, long_product, serves as serves_operation
from lowprec.kernels.general.rounding import cut, load_target
from lowprec.kernels.general.sums import closing
from lowprec.kernels.general.tiles import (
    FACTOR_BITS,
    NUMBERS,
    RANDOM_ROOM,
    ROOM,
    SUMS,
    TERMS,
    TILE,
    Tile,
    X,
    Y,
    coder,
    copy,
    draw,
    gather,
    load,
    open_sums,
    store,
)
from lowprec.kernels.jit import helper, in_wide_vectors, inlined, jit, load_record
from lowprec.kernels.lower.dot import DOWNWARD, SOURCE, How, Scales, Stages
from lowprec.kernels.lower.records import Params, Source
from lowprec.spec.accumulation import Accumulation, Window
from lowprec.spec.format import Format

__all__ = ["EXPONENT", "MINUS", "NAN", "NOTHING", "PLUS", "ROWS", "SEEN", "TOTAL"]
__all__ += ["add", "align", "closer", "kernel", "pair_at", "serves"]

Words = npt.NDArray[Any]  #: of uint64

_U = np.uint64
_I = np.int64
_0, _1, _3, _32, _63 = _U(0), _U(1), _U(3), _U(32), _U(63)
_LOW = _U((1 << 32) - 1)
#: Marks of a factor that is an infinity or a NaN, and what is seen of terms.
_SPECIAL = _U(6)
NAN, PLUS, MINUS = _U(1), _U(2), _U(4)
#: The exponent of what is zero: below every other.
NOTHING = _I(-(1 << 20))

#: Rows of a tile's words, and the first of a group's two: its products, and the exponent of its scales.
_RAISED, EXPONENT, TOTAL, SEEN, ROWS = (ROOM + row * TILE for row in range(5))
_SUM, _SHIFT = 0, TILE
_GROUP = 2 * TILE


class Pair(NamedTuple):
    """Both factors of a product, or both scales of a group."""

    significand: Any  #: of the product
    exponent: Any  #: of its last bit
    negative: Any
    finite: Any
    seen: Any


@inlined
def pair_at(words: Words, i: int) -> Pair:
    """Return the product of both factors of output i."""
    x, y = words[_U(X + i)], words[_U(Y + i)]
    significand = (x & _LOW) * (y & _LOW)
    negative = (x ^ y) >> _32 & _1 != _0
    exponent = (_I(x) >> _I(40)) + (_I(y) >> _I(40))
    special = (x | y) >> _32 & _SPECIAL != _0
    nan = (x | y) >> _U(34) & _1 != _0
    zero = ((x & _LOW == _0) & (x >> _32 & _SPECIAL == _0)) | ((y & _LOW == _0) & (y >> _32 & _SPECIAL == _0))
    seen = pick(special, pick(nan | zero, NAN, pick(negative, MINUS, PLUS)), _0)
    return Pair(pick(special, _0, significand), exponent, negative, not special, seen)


@helper
def begin(tile: Tile, how: Params, point: np.int64) -> None:
    """Align to the running sums alone."""
    in_wide_vectors()
    words, lowest = tile.words, how[How.LOWEST]
    for i in range(tile.count):
        c = load(words, SUMS, i)
        counts = (c.significand != _0) & (not c.nan) & (not c.infinite)
        words[_U(EXPONENT + i)] = _U(max(pick(counts, c.exponent + point, NOTHING), lowest))
        seen = pick(c.infinite, pick(c.negative, MINUS, PLUS), _0)
        words[_U(SEEN + i)] = pick(c.nan, NAN, seen)


@helper
def start(tile: Tile, how: Params) -> None:
    """Cut the running sums."""
    in_wide_vectors()
    words, bits, by = tile.words, how[How.FRACTION_BITS], how[How.CUT]
    for i in range(tile.count):
        c = load(words, SUMS, i)
        shift = _I(words[_U(EXPONENT + i)]) - bits - c.exponent
        significand = pick(c.nan | c.infinite, _0, c.significand)
        words[_U(TOTAL + i)] = _U(cut(c.negative, significand, shift, by))


@helper
def raise_by(tile: Tile, how: Params) -> None:
    """Read the scales of products."""
    in_wide_vectors()
    words, point = tile.words, how[How.SCALE_POINT]
    for i in range(tile.count):
        scales = pair_at(words, i)
        words[_U(_RAISED + i)] = _U(scales.exponent + point)
        words[_U(SEEN + i)] |= pick(scales.finite, _0, NAN)


@helper
def align(tile: Tile, how: Params) -> None:
    """Align to the largest exponent of products, too."""
    in_wide_vectors()
    words, point = tile.words, how[How.POINT]
    for i in range(tile.count):
        product = pair_at(words, i)
        exponent = product.exponent + point + _I(words[_U(_RAISED + i)])
        exponent = pick(product.significand != _0, exponent, NOTHING)
        words[_U(EXPONENT + i)] = _U(max(_I(words[_U(EXPONENT + i)]), exponent))
        words[_U(SEEN + i)] |= product.seen


@helper
def add(tile: Tile, how: Params) -> None:
    """Add products that are cut."""
    in_wide_vectors()
    words, bits, by = tile.words, how[How.FRACTION_BITS], how[How.CUT]
    for i in range(tile.count):
        product = pair_at(words, i)
        last = product.exponent + _I(words[_U(_RAISED + i)])
        shift = _I(words[_U(EXPONENT + i)]) - bits - last
        words[_U(TOTAL + i)] += _U(cut(product.negative, product.significand, shift, by))


@helper
def open_group(tile: Tile, place: int) -> None:
    """Begin a sum of products that share a scale."""
    for i in range(tile.count):
        tile.words[_U(place + _SUM + i)] = tile.words[_U(place + _SHIFT + i)] = _0


@helper
def add_to_group(tile: Tile, how: Params, place: int) -> None:
    """Add products, exactly."""
    in_wide_vectors()
    words, last = tile.words, how[How.LAST]
    for i in range(tile.count):
        product = pair_at(words, i)
        nothing = product.significand == _0
        size = product.significand << _U(pick(nothing, _I(0), product.exponent - last))
        words[_U(place + _SUM + i)] += pick(product.negative, _0 - size, size)
        marks = words[_U(place + _SHIFT + i)]  # what is seen, and whether any product is not zero
        words[_U(place + _SHIFT + i)] = marks | product.seen | _U(not nothing) << _3


@helper
def align_group(tile: Tile, how: Params, place: int) -> None:
    """Read the scales of groups, and align to the largest exponent."""
    in_wide_vectors()
    words, point, last = tile.words, how[How.SCALE_POINT], how[How.LAST]
    for i in range(tile.count):
        scales, marks = pair_at(words, i), words[_U(place + _SHIFT + i)]
        nothing = scales.finite & (scales.significand == _0)
        seen = pick(nothing & (marks & (PLUS | MINUS) != _0), NAN, marks & (NAN | PLUS | MINUS))
        words[_U(SEEN + i)] |= pick(scales.finite, seen, NAN)
        counts = scales.finite & (not nothing) & (marks >> _3 != _0)
        largest = pick(counts, scales.exponent + point, NOTHING)
        words[_U(EXPONENT + i)] = _U(max(_I(words[_U(EXPONENT + i)]), largest))
        words[_U(place + _SUM + i)] *= pick(counts, scales.significand, _0)
        words[_U(place + _SHIFT + i)] = _U(last + scales.exponent)


@helper
def add_group(tile: Tile, how: Params, place: int) -> None:
    """Add groups that are cut."""
    in_wide_vectors()
    words, bits, by = tile.words, how[How.FRACTION_BITS], how[How.CUT]
    for i in range(tile.count):
        sum_ = words[_U(place + _SUM + i)]
        negative = sum_ >> _63 != _0
        shift = _I(words[_U(EXPONENT + i)]) - bits - _I(words[_U(place + _SHIFT + i)])
        words[_U(TOTAL + i)] += _U(cut(negative, pick(negative, _0 - sum_, sum_), shift, by))


@functools.cache
def closer(stochastic: bool) -> Any:
    """Return what rounds the sums of a step and reads them back."""
    code_of = coder(False, stochastic)

    def close(tile: Tile, how: Params, stage: Params) -> None:
        in_wide_vectors()
        words, bits, top, minus = tile.words, how[How.FRACTION_BITS], how[How.TOP], how[How.NEGATIVE_ZERO]
        target, source = load_target(stage), load_record(Source, stage, SOURCE)
        for i in range(tile.count):
            total, seen = words[_U(TOTAL + i)], words[_U(SEEN + i)]
            negative = total >> _63 != _0
            size, exponent = pick(negative, _0 - total, total), _I(words[_U(EXPONENT + i)]) - bits
            both = seen & (PLUS | MINUS)
            nan = (seen & NAN != _0) | (both == PLUS | MINUS)
            infinite = (size != _0) & (exponent - zeros_above(size) + _I(63) >= top)
            negative = pick(both != _0, both == MINUS, negative)
            infinite |= both != _0
            special = infinite | nan
            made = Lane(
                negative & (not nan), pick(nan, _1, size), exponent, infinite & (not nan), nan, False, False
            )
            x = read(code_of(Outcome(made, nan, _0), words, i, target), source, False)
            zero = (not special) & (not x.nan) & (not x.infinite) & (x.significand == _0) & (minus == _I(0))
            negative = x.negative & (not zero)
            store(words, SUMS, i, Lane(negative, x.significand, x.exponent, x.infinite, x.nan, False, False))

    return helper(close, f"window_close_{stochastic:d}")


@helper
def stretch(tile: Tile, how: Params, downward: bool, late: bool) -> None:
    """Multiply sums by the scales of the tensors, to 62 bits or more; an addend of +0 comes `late`."""
    by, power = _U(how[How.TENSOR]), how[How.TENSOR_EXPONENT]
    for i in range(tile.count):
        x = load(tile.words, SUMS, i)
        number = (not x.nan) & (not x.infinite)
        zero = x.significand == _0
        significand, exponent = long_product(x.significand, x.exponent, by, power)
        significand = pick(number, pick(zero, _0, significand), x.significand)
        negative = x.negative & ((not late) | (not number) | (not zero) | downward)
        store(tile.words, SUMS, i, Lane(negative, significand, exponent, x.infinite, x.nan, False, False))


@functools.cache
def kernel(stochastic: bool) -> Any:
    """Return the kernel of sums in windows, one for all formats; see `sums.closing`.

    Called as kernel(x, y, x_scales, y_scales, blocks, addends, out, how, stages, key, first, columns,
    paired): words of `factors`, shape (K, rows) and (blocks, rows), in the order in which steps take them;
    codes of addends, if any, and of outputs, row by row.
    """
    close, (join, settle), name = closer(stochastic), closing(False, stochastic), f"{stochastic:d}"

    def by_groups(tile: Tile, scales: Tile, first: int, last: int, how: Params) -> None:
        group, size, place = how[How.GROUP], how[How.BLOCK], ROWS
        for k in range(first, last, group):
            open_group(tile, place)
            for product in range(k, min(k + group, last)):
                gather(tile, product)
                add_to_group(tile, how, place)
            gather(scales, k // size)
            align_group(tile, how, place)
            place += _GROUP
        start(tile, how)
        for made in range(ROWS, place, _GROUP):
            add_group(tile, how, made)

    def by_products(tile: Tile, scales: Tile, first: int, last: int, how: Params) -> None:
        if how[How.SCALES] == Scales.PRODUCTS:
            gather(scales, first // how[How.BLOCK])
            raise_by(tile, how)
        for k in range(first, last):
            gather(tile, k)
            align(tile, how)
        start(tile, how)
        for k in range(first, last):
            gather(tile, k)
            add(tile, how)

    def in_windows(
        tile: Tile, scales: Tile, begins: int, stop: int, step: int, how: Params, stages: Words
    ) -> int:
        stage, size, last = stages[Stages.SUM], how[How.WINDOW], begins
        point = _I(load_record(Source, stages[Stages.BEGIN], SOURCE).trailing_bits)
        while last < stop:
            first, last = last, min(last + size, stop)
            if how[How.ALTERNATE] != 0 and (first - begins) % (2 * size) == 0:
                left = min(stop - first, 2 * size)  # of the pairs that are left, every other one
                last = first + left // 4 * 2 + min(left % 4, 2)
            begin(tile, how, point)
            if how[How.SCALES] == Scales.GROUPS:
                by_groups(tile, scales, first, last, how)
            else:
                by_products(tile, scales, first, last, how)
            draw(tile, step, stage)
            close(tile, how, stage)
            step, point = step + 1, _I(load_record(Source, stage, SOURCE).trailing_bits)
        return step

    by_groups = helper(by_groups, f"window_groups_{name}")
    by_products = helper(by_products, f"window_products_{name}")
    in_windows = helper(in_windows, f"windows_{name}")

    def run(
        x: Words, y: Words, x_scales: Words, y_scales: Words, blocks: Any, addends: Words, out: Words,
        how: Params, stages: Words, key: np.uint64, first: np.uint64, columns: int, paired: bool,
    ) -> None:  # fmt: skip
        length, chunk, late = x.shape[0], how[How.CHUNK], how[How.ADDEND_LAST] != 0
        scaled = how[How.TENSOR] != 1
        joins = late and not (scaled and chunk == 0)
        opening, output, nothing = stages[Stages.BEGIN, SOURCE:], stages[Stages.OUTPUT], addends[:0]
        end = stages[Stages.TOTAL] if chunk != 0 else output
        groups = (min(how[How.WINDOW], length) + how[How.GROUP] - 1) // how[How.GROUP]
        words = np.zeros(ROWS + groups * _GROUP * (how[How.SCALES] == Scales.GROUPS), np.uint64)
        sums, room = np.empty(NUMBERS, np.uint64), np.empty(RANDOM_ROOM, np.uint32)
        for place in range(0, out.size, TILE):
            count, element = min(out.size - place, TILE), first + _U(place)
            where = words, sums, room, place, count, columns, paired, element, key
            tile, scales = Tile(x, y, blocks, *where), Tile(x_scales, y_scales, blocks, *where)
            step = 0
            open_sums(tile, SUMS, nothing if late else addends, opening)
            for k in range(0, length, chunk if chunk != 0 else max(length, 1)):
                if chunk == 0:
                    step = in_windows(tile, scales, k, length, step, how, stages)
                    continue
                copy(words, SUMS, sums, 0)
                open_sums(tile, SUMS, nothing, opening)
                step = in_windows(tile, scales, k, min(k + chunk, length), step, how, stages)
                copy(words, SUMS, words, TERMS)
                copy(sums, 0, words, SUMS)
                draw(tile, step, end)
                join(words, tile.count, end)
                step += 1
            if joins:
                open_sums(tile, TERMS, addends, opening)
                draw(tile, step, end)
                join(words, tile.count, end)
                step += 1
            if scaled:
                stretch(tile, how, output[DOWNWARD] != _0, late and not joins)
            if chunk != 0 or not joins:
                draw(tile, step, output)
                settle(words, tile.count, output)
            for i in range(tile.count):
                out[_U(place + i)] = words[_U(X + i)]

    return jit(run, f"windows_{name}")


def serves(how: Accumulation, addend: Format, *factors: Format) -> bool:
    """Return whether an accumulation's sums in windows are exact in lanes until they are rounded."""
    window = how.accumulator
    if not isinstance(window, Window) or window.fraction_bits is None or how.has_codebooks:
        return False
    fmt, rule = how.output
    if any(bits_of(factor) > FACTOR_BITS for factor in factors) or fmt.precision + rule.rounding.bits > 58:
        return False
    joins = []
    if how.total is not None:
        joins.append((window.result[0], how.total))
    if how.addend == "last":
        joins.append((addend, how.total or how.output))
    return all(
        serves_operation("add", [(how.total or window.result)[0], source], *place) == (True, False)
        for source, place in joins
    )
