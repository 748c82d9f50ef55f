"""Edits of a block converter that hold under a condition: bits of scales, quotients, the tensor's scale."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator

import numpy as np

from lowprec.arrays.blocks.block import BlockArray
from lowprec.arrays.blocks.block_products import spread
from lowprec.arrays.convert import encode
from lowprec.spec.block import BlockFormat
from lowprec.spec.format import Format
from lowprec.verify.codes.values import doubles
from lowprec.verify.questions.blocks.block_causes import (
    again,
    encoded,
    given_scales,
    under,
    units_of,
    with_scales,
)
from lowprec.verify.questions.causes import GUARDED, cut_behind_guard, guard_words
from lowprec.verify.questions.conversion_edits import of_conversions, of_exponents, shifts
from lowprec.verify.questions.dots.scale_edits import single_scale_edits
from lowprec.verify.questions.exact_edits import of_exact
from lowprec.verify.questions.features import exponents, has_fields
from lowprec.verify.questions.question import Array, Change

__all__ = ["block_edits"]

#: Bits of divisors and reciprocals, the usual ones first: of those that explain as much the first is told.
_DIVISOR = tuple(dict.fromkeys((24, 11, 8, *range(24, 3, -1))))
#: Last bits of the scale of a tensor that may be lost.
_LOST = (1, 2, 4, 8, 16, 23)


def block_edits(fmt: BlockFormat, source: Format | None) -> Iterator[Change]:
    """Yield edits of bits of scales, of quotients and of the scale of the tensor; `source`: of the values."""
    if not given_scales(fmt):
        return
    for bit in range(fmt.scale.width):
        name = f"bit {bit}" if bit else "the last bit"
        for value in (0, 1):
            words = f"scales with {name} read as {value}"
            stuck = functools.partial(_stuck, bit=bit, value=value)
            yield Change("scaling", with_scales(stuck), f"{words}, above elements that are right", 2)
            yield Change("scaling", functools.partial(_stuck_under, stuck=stuck), words, 2)
    if fmt.tensor_scale != "none":
        for bits in _LOST:
            last = "last bit" if bits == 1 else f"last {bits} bits"
            cut = functools.partial(_by_tensor, bits=bits)
            yield Change("shaping", cut, f"elements divided by the tensor's scale without its {last}", 2)
    for parts, words in {2: "half", 4: "quarter"}.items() if len(fmt.sizes) == 1 else ():
        if fmt.sizes[0] % parts == 0 and fmt.sizes[0] > parts:
            own = functools.partial(_by_parts, parts=parts)
            yield Change("shaping", own, f"elements under the scale of their {words} of the block alone", 2)
    for words, of_units in single_scale_edits(fmt.scale).items():
        by = functools.partial(_by_units, change=of_units)
        yield Change("shaping", by, f"elements divided by their scales {words}, which are right", 2)
    if fmt.scale.subnormals:
        words = "elements divided by scales that are zero have the largest magnitude, and zeros are zero"
        yield Change("shaping", _by_zero, words, 2)
    power = not fmt.scale.trailing_bits and not fmt.scale.subnormals
    if not power:
        yield from _of_reciprocals(fmt.scale)
    if not power or fmt.tensor_scale != "none":
        yield from _of_divisors("their scales" + ", times the tensor's," * (fmt.tensor_scale != "none"))
    if power and source is not None and has_fields(source) and has_fields(fmt.element):
        for words, change in _of_quotients(source, fmt.element):
            yield Change("shaping", functools.partial(_quotients, change=change, source=source), words, 2)


def _stuck(codes: Array, nan: Array, bit: int, value: int) -> Array:
    return np.where(nan, codes, codes & ~(1 << bit) | value << bit)


def _stuck_under(blocks: BlockArray, values: Array, stuck: Callable[[Array, Array], Array]) -> BlockArray:
    codes = stuck(blocks.scales.astype(np.int64), np.isnan(units_of(blocks.scales, blocks.format)))
    return under(blocks, values, codes)


def _by_parts(blocks: BlockArray, values: Array, parts: int) -> BlockArray:
    """Return the blocks with the elements of smaller blocks, under the same scales."""
    fmt = blocks.format
    made = encoded(blocks, values, dataclasses.replace(fmt, size=fmt.sizes[0] // parts))
    nan = spread(np.isnan(units_of(blocks.scales, fmt)), values.shape, blocks.axes, fmt.sizes)
    return dataclasses.replace(blocks, codes=np.where(nan, blocks.codes, made.codes))


def _by_tensor(blocks: BlockArray, values: Array, bits: int) -> BlockArray:
    """Return the blocks with quotients by another scale of the tensor, under the same scales."""
    assert blocks.tensor_scale is not None, "asked of formats with one"
    word = np.float32(blocks.tensor_scale).view(np.uint32) >> np.uint32(bits) << np.uint32(bits)
    other = float(word.view(np.float32))
    made: BlockArray = encode(
        values, blocks.format, axis=blocks.axes, tensor_scale=other, scales=blocks.scales
    )
    return dataclasses.replace(blocks, codes=made.codes)


def _of_divisors(what: str) -> Iterator[Change]:
    """Yield quotients by divisors, and products with reciprocals, of a few bits; `what`: the divisors."""
    for of, inverse in ((f"divided by {what}", False), (f"times the reciprocals of {what}", True)):
        for how, whole in {"cut": np.floor, "rounded": np.rint, "rounded up": np.ceil}.items():
            for bits in _DIVISOR:
                by = functools.partial(_by_divisors, inverse=inverse, whole=whole, bits=bits)
                yield Change("shaping", by, f"elements {of} {how} to {bits} bits", 2)


def _by_divisors(
    blocks: BlockArray, values: Array, inverse: bool, whole: Callable[[Array], Array], bits: int
) -> BlockArray:
    """Return the blocks with quotients by divisors of a few bits, under the same scales."""
    fmt, wide = blocks.format, doubles(values)
    units = spread(units_of(blocks.scales, fmt), values.shape, blocks.axes, fmt.sizes)
    units = units * (1.0 if blocks.tensor_scale is None else float(blocks.tensor_scale))
    plain = np.isfinite(units) & (units > 0) & np.isfinite(wide)
    # Units have 28 bits: but for powers of two no reciprocal in binary64 is a number of few bits.
    fraction, exponent = np.frexp(1 / np.where(plain, units, 1) if inverse else np.where(plain, units, 1))
    by = np.ldexp(whole(np.ldexp(fraction, bits)), exponent - bits)
    quotients = np.where(plain, wide * by if inverse else wide / by, 0)
    codes = np.asarray(encode(quotients, fmt.element, projection=fmt.elements))
    return dataclasses.replace(blocks, codes=np.where(plain, codes, blocks.codes).astype(blocks.codes.dtype))


def _by_units(blocks: BlockArray, values: Array, change: Callable[[Array], Array]) -> BlockArray:
    """Return the blocks with quotients by changed scales, under the same scales."""
    units = units_of(blocks.scales, blocks.format)
    with np.errstate(all="ignore"):
        by = np.asarray(change(units))
        made = _divided(blocks, values, by)
    same = spread(by == units, values.shape, blocks.axes, blocks.format.sizes)
    return dataclasses.replace(blocks, codes=np.where(same, blocks.codes, made.codes))


def _by_zero(blocks: BlockArray, values: Array) -> BlockArray:
    """Return the blocks with quotients by scales of zero, which are beyond every number."""
    return _divided(blocks, values, units_of(blocks.scales, blocks.format))


def _of_reciprocals(scale: Format) -> Iterator[Change]:
    """Yield products with reciprocals of the significands of scales, as whole numbers of a last place."""
    for how, whole in {"cut": np.floor, "rounded": np.rint, "rounded up": np.ceil}.items():
        for bits in range(scale.precision + 2, 19):
            by = functools.partial(_by_reciprocals, whole=whole, bits=bits)
            words = f"elements times 2**{bits} / significands of scales as integers, {how} to whole numbers"
            yield Change("shaping", by, words, 2)


def _by_reciprocals(
    blocks: BlockArray, values: Array, whole: Callable[[Array], Array], bits: int
) -> BlockArray:
    scale = blocks.format.scale
    units = units_of(blocks.scales, blocks.format)
    plain = np.isfinite(units) & (units > 0)
    last = np.maximum(exponents(units), scale.emin) - scale.trailing_bits
    significand = np.where(plain, np.ldexp(units, -last), 1)
    return _divided(blocks, values, np.ldexp(1.0, bits + last) / whole(np.ldexp(1.0, bits) / significand))


def _divided(blocks: BlockArray, values: Array, units: Array) -> BlockArray:
    """Return the blocks with quotients by these units, times the tensor's scale, where they are positive."""
    fmt, wide = blocks.format, doubles(values)
    by = spread(units, values.shape, blocks.axes, fmt.sizes)
    by = by * (1.0 if blocks.tensor_scale is None else float(blocks.tensor_scale))
    nan = np.isnan(spread(units_of(blocks.scales, fmt), values.shape, blocks.axes, fmt.sizes))
    plain = np.isfinite(by) & (by >= 0) & np.isfinite(wide) & ~nan
    beyond = np.copysign(2 * fmt.element.max_finite * (wide != 0), wide)
    quotients = np.where(plain & (by > 0), wide / np.where(plain & (by > 0), by, 1), beyond)
    codes = np.asarray(encode(quotients, fmt.element, projection=fmt.elements))
    return dataclasses.replace(blocks, codes=np.where(plain, codes, blocks.codes).astype(blocks.codes.dtype))


def _of_quotients(source: Format, element: Format) -> Iterator[tuple[str, Callable[[Array, Array], Array]]]:
    """Yield edits of quotients and the exponents of their last bits, in words."""
    for words, of_values in of_conversions(source, element):
        yield f"elements: {words}", functools.partial(_valued, change=of_values)
    for words, of_shift in shifts("shifts against the largest exponent"):
        moved = functools.partial(of_exponents, change=of_shift, least=element.emax)
        yield f"elements: {words}", functools.partial(_valued, change=moved)
    for words, by in {"half": 0.5, "twice": 2.0}.items():
        yield f"elements {words} as large before they are rounded", functools.partial(_times, by=by)
    for bits in range(GUARDED):
        cut = functools.partial(cut_behind_guard, fmt=element, bits=bits)
        yield f"elements: {guard_words(bits)}", functools.partial(_valued, change=cut)
    for words, change in of_exact("convert", element, source.precision):
        yield f"elements: {words}", change


def _times(values: Array, lasts: Array, by: float) -> Array:
    return values * by


def _valued(values: Array, lasts: Array, change: Callable[[Array], Array]) -> Array:
    return change(values)


def _quotients(
    blocks: BlockArray, values: Array, change: Callable[[Array, Array], Array], source: Format
) -> BlockArray:
    """Return the blocks with other quotients, under the same scales."""
    fmt, wide = blocks.format, doubles(values)
    units = spread(units_of(blocks.scales, fmt), values.shape, blocks.axes, fmt.sizes)
    plain = np.isfinite(units) & (units > 0) & np.isfinite(wide) & (wide != 0)
    by = np.where(plain, units, 1)
    quotients = np.where(plain, wide / by, 1)
    lasts = np.maximum(exponents(wide), source.emin) - source.trailing_bits - exponents(by)
    made = again(blocks, np.where(plain, np.copysign(change(quotients, lasts), wide) * by, wide), fmt)
    return dataclasses.replace(blocks, codes=np.where(plain, made, blocks.codes))
