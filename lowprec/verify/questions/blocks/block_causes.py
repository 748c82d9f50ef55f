"""Changes that a block converter may have: to values, lanes, scales and special blocks."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays.blocks.block import BlockArray
from lowprec.arrays.blocks.block_products import spread
from lowprec.arrays.convert import encode, quantize
from lowprec.spec import catalog
from lowprec.spec.block import BlockFormat
from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Format, Sign
from lowprec.verify.codes.values import as_doubles, doubles
from lowprec.verify.questions.question import Array, Change
from lowprec.verify.questions.situations import continued

__all__ = ["SCALE_SHIFT", "SPECIAL", "elements", "moved", "operands", "orders", "scales", "special_blocks"]
__all__ += [
    "again",
    "encoded",
    "given_scales",
    "has_sign_bit",
    "numbers_beyond",
    "of_blocks",
    "under",
    "units_of",
    "with_nan",
]
__all__ += ["of_values", "with_scales"]

#: A scale's code stands so many bits above the code of the element.
SCALE_SHIFT = 32

SPECIAL: dict[str, dict[Any, str]] = {
    "zero": {
        "smallest": "blocks of zeros have the smallest scale",
        "one": "blocks of zeros have the scale 1",
        "rule": "blocks of zeros have the scale that the rule gives for 0",
    },
    "nan": {
        "block": "a NaN makes the scale NaN and all elements 0",
        "scale": "a NaN makes the scale NaN; elements are NaN where the values are, and zeros elsewhere",
        "all": "a NaN makes the scale and all elements NaN",
        "elements": "NaNs become elements, and the scale does not see them",
    },
    "infinity": {
        "block": "an infinity makes the scale NaN and all elements 0",
        "power": "an infinity counts for the scale as the next power of two after binary32's largest value",
        "largest": "an infinity makes the scale the largest",
        "elements": "infinities become elements, and the scale does not see them",
    },
    "flush_subnormals": {True: "blocks whose largest magnitude is subnormal in binary32 become zeros"},
}


def special_blocks(fmt: BlockFormat) -> Iterator[Change]:
    """Yield other treatment of blocks of zeros, and of those with a NaN, an infinity or subnormals alone."""
    for field, words in SPECIAL.items():
        for value, said in words.items():
            if value != getattr(fmt, field):
                yield Change(field, value, said)


def with_nan(fmt: BlockFormat) -> BlockFormat:
    """Return the format, or one whose NaN elements are the largest value where they have no other code."""
    if fmt.nan == "block" or fmt.element.nan_code is not None or fmt.elements.nan != "error":
        return fmt
    return dataclasses.replace(fmt, elements=dataclasses.replace(fmt.elements, nan="max"))


def operands(dtype: np.dtype[Any]) -> Iterator[Change]:
    """Yield values that were changed before they were encoded."""
    if dtype.kind != "f":
        return
    for name in ("binary32", "binary16", "bfloat16"):
        if catalog.format(name).width < 8 * dtype.itemsize:
            yield Change("operand", functools.partial(_through, name=name), f"values rounded to {name} first")
    if dtype == np.float32:
        yield Change("operand", _cut, "values cut off to bfloat16 first, not rounded")
        for sign, signs in {"": (False, True), "negative ": (True,), "positive ": (False,)}.items():
            numbers = functools.partial(_numbers_beyond, signs=signs)
            words = f"{sign}NaNs and infinities taken as numbers, of the next exponent"
            yield Change("operand", numbers, words, 1 + bool(sign))
        yield Change("operand", _flushed, "subnormal values taken as zeros")


def _through(values: Array, name: str) -> Array:
    return np.asarray(quantize(values, name))


def _cut(values: Array) -> Array:
    return np.asarray(values.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)


def numbers_beyond(values: Array) -> Array:
    """Return values of binary32 whose infinities and NaNs are numbers of the next exponent."""
    words = values.view(np.uint32)
    wide = np.ldexp(((words & 0x7FFFFF) | 0x800000).astype(np.float64), 105)
    return np.where(np.isfinite(values), values, np.where(words >> 31, -wide, wide))


def _numbers_beyond(values: Array, signs: tuple[bool, ...]) -> Array:
    return np.where(np.isin(np.signbit(values), signs), numbers_beyond(values), values)


def _flushed(values: Array) -> Array:
    return np.where(np.abs(values) < np.finfo(np.float32).tiny, np.copysign(np.float32(0), values), values)


# -- lanes -------------------------------------------------------------------------------------------


def orders(fmt: BlockFormat, axes: tuple[int, ...]) -> Iterator[Change]:
    """Yield codes in another order or without the signs of zeros; scales stand above the codes."""
    swapped = (
        "swapped nibbles: the two codes of a byte"
        if fmt.element.width == 4
        else "neighbours swapped in pairs"
    )
    yield Change("made", _pairs, swapped)
    if has_sign_bit(fmt.element):
        yield Change(
            "made", functools.partial(_unsigned, sign=fmt.element.sign_code), "zeros lose their sign"
        )


def has_sign_bit(element: Format) -> bool:
    """Return whether codes of elements have a sign bit."""
    return not isinstance(element, Codebook) and element.sign is Sign.MAGNITUDE


def _pairs(made: Array) -> Array:
    """Exchange neighbours along the last axis."""
    flat = made.reshape(-1)
    whole = flat.size // 2 * 2
    pairs = flat[:whole].reshape(-1, 2)[:, ::-1].reshape(-1)
    return np.concatenate([pairs, flat[whole:]]).reshape(made.shape)


def moved(made: Array, axis: int, to: Array, mask: int) -> Array:
    """Return the bits of a mask of elements, of whole blocks, in another order within each block."""
    place = np.arange(made.shape[axis])
    if place.size % to.size:
        raise ValueError("the last block is shorter")
    found = np.take(made, place // to.size * to.size + np.resize(to, place.size), axis)
    return np.asarray(found & mask | made & ~mask)


def _unsigned(made: Array, sign: int) -> Array:
    return np.where(made & (1 << SCALE_SHIFT) - 1 == sign, made ^ sign, made)


# -- scales ------------------------------------------------------------------------------------------


def _next_scales(blocks: BlockArray, values: Array, by: int) -> BlockArray:
    """Return the blocks under the next scales, up to the first and the last one."""
    codes = np.clip(blocks.scales.astype(np.int64) + by, 0, blocks.format.scale.max_magnitude)
    return under(blocks, values, codes)


def _next_to(codes: Array, by: int) -> Array:
    """Return the codes so many places before, or after; those that have none keep their own."""
    return codes.reshape(-1)[np.clip(np.arange(codes.size) - by, 0, codes.size - 1)].reshape(codes.shape)


def given_scales(fmt: BlockFormat) -> bool:
    """Return whether elements under other scales are known: plain quotients, rounded once."""
    if isinstance(fmt.scale, Codebook):
        return False
    return fmt.arithmetic == "exact" and not fmt.elements.rounding.bits


def scales(fmt: BlockFormat) -> Iterator[Change]:
    """Yield scales off by a factor of two, with their elements; and codes of scales that are off by one."""
    if not given_scales(fmt):
        return
    emax = ": emax taken as one {}" if fmt.rule.divisor == "binade" else ""
    for power, words, other in ((2.0, "twice", "less"), (0.5, "half", "more")):
        off = of_values(functools.partial(np.multiply, power))
        yield Change("scaling", off, f"scales {words} as large{emax.format(other)}")
    if fmt.element.has_nan and has_sign_bit(fmt.element):
        yield Change("made", functools.partial(_positive_nans, fmt=fmt.element), "NaN elements have no sign")
    if fmt.rule.divisor != "binade":
        yield Change("shaping", _by_unrounded, "elements divided by the scale before it is rounded")
        wide = continued(fmt.scale, 2)
        if wide is not None:
            unlimited = functools.partial(_by_unlimited, wide=wide)
            yield Change("shaping", unlimited, "elements divided by the scale before it is limited")
    if fmt.scale.subnormals:
        low = functools.partial(_low_scales, least=1 << fmt.scale.trailing_bits)
        yield Change("scaling", low, "scales that are subnormal become zero")
    positive = of_values(lambda values: np.where(values < 0, 0.0, values))
    yield Change("scaling", positive, "negative values left out of the largest magnitude")
    words = "negative values left out of the largest magnitude, where a value is positive"
    yield Change("scaling", _of_positive, words)
    last = (1 << fmt.scale.width) - 1
    for by, words in ((1, "high"), (-1, "low")):
        written = with_scales(lambda codes, nan, by=by: np.where(nan, codes, codes + by & last))
        yield Change("scaling", written, f"scale codes one too {words}, above elements that are right")
        yield Change("scaling", functools.partial(_next_scales, by=by), f"scale codes one too {words}", 2)
    yield Change("scaling", _kept, "elements under scales that are NaN are not cleared")
    if fmt.scale.has_nan:
        for code, said in ((fmt.scale.max_magnitude, "the largest number"), (0, "the smallest number")):
            named = with_scales(lambda codes, nan, code=code: np.where(nan, code, codes))
            yield Change("scaling", named, f"NaN scales are {code:#x}, {said}")
    if not fmt.scale.trailing_bits and not fmt.scale.subnormals:
        words, own = (
            f"scales below the smallest wrap around, modulo {1 << fmt.scale.width}",
            "elements are under",
        )
        yield Change("scaling", _wrapped, words)
        for said, wraps in {
            f"{words}; {own} what they are before": True,
            f"{own} scales that have no smallest": False,
        }.items():
            yield Change("scaling", functools.partial(_unlimited, wraps=wraps), said)
    for words, by in (("the block before", 1), ("the next block", -1)):
        moved = with_scales(lambda codes, _, by=by: _next_to(codes, by))
        yield Change("scaling", moved, f"scales are those of {words}, above right elements")
    exchanged = with_scales(lambda codes, _: _pairs(codes))
    yield Change("scaling", exchanged, "scales of neighbouring blocks swapped, above right elements")


def elements(fmt: BlockFormat) -> Iterator[Change]:
    """Yield elements that overflow, carry or lose their signs otherwise."""
    element = fmt.element
    if not given_scales(fmt) or not has_sign_bit(element):
        return
    if element.exponent_bits:
        words = "elements past the largest wrap around: codes lose their upper bits"
        yield Change("shaping", _over_wide, words)
        yield Change(
            "shaping", _over_sign, "elements past the largest wrap around: codes carry into the sign"
        )
    if element.min_subnormal is not None:
        words = "elements past the largest wrap around as whole numbers of the smallest element"
        yield Change("shaping", _over_whole, words)


BlockChange = Callable[[BlockArray, Array], BlockArray]


def of_values(change: Callable[[Array], Array]) -> BlockChange:
    """Return the blocks with the scales that changed values have, and the elements under these."""

    def changed(blocks: BlockArray, values: Array) -> BlockArray:
        return under(blocks, values, encoded(blocks, change(doubles(values))).scales)

    return changed


def encoded(blocks: BlockArray, values: Array, fmt: BlockFormat | None = None, **given: Any) -> BlockArray:
    """Return values in a format, or in that of the blocks, with the scale of their tensor."""
    tensor = None if blocks.tensor_scale is None else float(blocks.tensor_scale)
    made: BlockArray = encode(values, fmt or blocks.format, axis=blocks.axes, tensor_scale=tensor, **given)
    return made


def _positive_nans(made: Array, fmt: Format) -> Array:
    nan = (made & fmt.sign_code - 1) > fmt.max_magnitude + fmt.infinity
    return np.where(nan, made & ~fmt.sign_code, made)


def of_blocks(blocks: BlockArray, values: Array, reduced: Callable[..., Array]) -> Array:
    """Return what values of each block are reduced to, at each of its elements."""
    axis, size = blocks.axes[0], blocks.format.sizes[0]
    if len(blocks.axes) > 1 or values.shape[axis] % size:
        raise ValueError("not known of these")
    last = np.moveaxis(values, axis, -1)
    each = reduced(last.reshape(*last.shape[:-1], -1, size), axis=-1)
    return np.moveaxis(np.repeat(each, size, -1), -1, axis)


def _of_positive(blocks: BlockArray, values: Array) -> BlockArray:
    some = of_blocks(blocks, values > 0, np.any)
    return of_values(lambda wide: np.where(some & (wide < 0), 0.0, wide))(blocks, values)


def _by_unrounded(blocks: BlockArray, values: Array) -> BlockArray:
    """Return elements that are quotients of values by their blocks' largest magnitude, times the largest."""
    largest, element = of_blocks(blocks, np.abs(doubles(values)), np.max), blocks.format.element
    plain = np.isfinite(largest) & (largest > 0)
    quotients = np.where(plain, doubles(values) * element.max_finite / np.where(plain, largest, 1), 0)
    made = np.asarray(encode(quotients, element, projection=blocks.format.elements))
    return dataclasses.replace(blocks, codes=np.where(plain, made, blocks.codes).astype(blocks.codes.dtype))


def _by_unlimited(blocks: BlockArray, values: Array, wide: Format) -> BlockArray:
    """Return elements that are quotients by scales in a format of longer exponents."""
    fmt, tensor = blocks.format, 1.0 if blocks.tensor_scale is None else float(blocks.tensor_scale)
    exact = of_blocks(blocks, np.abs(doubles(values)), np.max) / (fmt.element.max_finite * tensor)
    units = doubles(quantize(exact, wide, rounding=fmt.scales.rounding))
    past = np.isfinite(units) & (units > fmt.scale.max_finite)
    quotients = np.where(past, doubles(values) / np.where(past, units * tensor, 1), 0)
    made = np.asarray(encode(quotients, fmt.element, projection=fmt.elements))
    return dataclasses.replace(blocks, codes=np.where(past, made, blocks.codes).astype(blocks.codes.dtype))


def _low_scales(blocks: BlockArray, values: Array, least: int) -> BlockArray:
    """Return the blocks whose subnormal scales are zero, with zeros of the values' signs as elements."""
    low = blocks.scales < least
    here = spread(low, values.shape, blocks.axes, blocks.format.sizes)
    element = blocks.format.element
    zeros = np.where(np.signbit(values), element.sign_code if has_sign_bit(element) else 0, 0)
    codes = np.where(here, zeros, blocks.codes).astype(blocks.codes.dtype)
    return dataclasses.replace(blocks, codes=codes, scales=blocks.scales * ~low)


def with_scales(change: Callable[..., Any]) -> BlockChange:
    """Return the blocks with other codes of scales, made of the codes and where they are NaN."""

    def changed(blocks: BlockArray, values: Array) -> BlockArray:
        codes = blocks.scales.astype(np.int64)
        made = change(codes, np.isnan(units_of(blocks.scales, blocks.format)))
        return dataclasses.replace(blocks, scales=made.astype(blocks.scales.dtype))

    return changed


def _kept(blocks: BlockArray, values: Array) -> BlockArray:
    fmt = blocks.format
    plain = with_nan(dataclasses.replace(fmt, nan="elements", infinity="elements"))
    other = encoded(blocks, values, plain).codes
    nan = spread(np.isnan(units_of(blocks.scales, fmt)), values.shape, blocks.axes, fmt.sizes)
    return dataclasses.replace(blocks, codes=np.where(nan, other, blocks.codes))


def _but_nan(blocks: BlockArray, codes: Array) -> Array:
    """Return codes of scales, but NaN where those of the blocks are."""
    nan = units_of(blocks.scales, blocks.format)
    return np.where(np.isnan(nan), blocks.scales, codes).astype(blocks.scales.dtype)


def _low_codes(blocks: BlockArray, values: Array) -> tuple[BlockArray, Array, Array]:
    """Return blocks under higher scales, of which none is too low, codes that wrap around, and which do."""
    fmt, up = blocks.format, 64
    raised = encoded(blocks, np.ldexp(doubles(values), up))
    high = raised.scales.astype(np.int64)
    low = (blocks.scales == 0) & (0 < high) & (high < up)  # blocks of zeros are as before
    return raised, np.where(low, high - up & (1 << fmt.scale.width) - 1, blocks.scales), low


def _wrapped(blocks: BlockArray, values: Array) -> BlockArray:
    """Return scales whose exponents are below the smallest as codes that wrap around, and their elements."""
    _, codes, _ = _low_codes(blocks, values)
    kept = np.minimum(codes, blocks.format.scale.max_magnitude).astype(blocks.scales.dtype)
    return dataclasses.replace(under(blocks, values, kept), scales=codes.astype(blocks.scales.dtype))


def _unlimited(blocks: BlockArray, values: Array, wraps: bool) -> BlockArray:
    """Return elements under scales below the smallest, whose codes wrap around or are the smallest."""
    raised, codes, low = _low_codes(blocks, values)
    here = spread(low, values.shape, blocks.axes, blocks.format.sizes)
    scales = codes.astype(blocks.scales.dtype) if wraps else blocks.scales
    return dataclasses.replace(blocks, codes=np.where(here, raised.codes, blocks.codes), scales=scales)


# -- elements ----------------------------------------------------------------------------------------


def _over(blocks: BlockArray, values: Array) -> tuple[Array, Array]:
    """Return which elements are finite and past the largest one, and what their scales are."""
    fmt = blocks.format
    units = spread(units_of(blocks.scales, fmt), values.shape, blocks.axes, fmt.sizes)
    units = units * (1.0 if blocks.tensor_scale is None else float(blocks.tensor_scale))
    wide = np.abs(doubles(values))
    return np.isfinite(wide) & (units > 0) & (wide > units * fmt.element.max_finite), units


def _over_whole(blocks: BlockArray, values: Array) -> BlockArray:
    over, units = _over(blocks, values)
    with np.errstate(all="ignore"):
        whole = np.where(over, np.abs(doubles(values)) / (units * blocks.format.element.min_subnormal), 0)
    return _with_magnitudes(
        blocks, over, np.mod(np.floor(whole), blocks.format.element.sign_code).astype(np.int64)
    )


def _over_wide(blocks: BlockArray, values: Array) -> BlockArray:
    made, mask = _wider(blocks, values), blocks.format.element.sign_code - 1
    return _with_magnitudes(blocks, _over(blocks, values)[0], made & mask)


def _over_sign(blocks: BlockArray, values: Array) -> BlockArray:
    sign, over = blocks.format.element.sign_code, _over(blocks, values)[0]
    made = (blocks.codes & sign) + (_wider(blocks, values) & 2 * sign - 1) & 2 * sign - 1
    return dataclasses.replace(blocks, codes=np.where(over, made, blocks.codes).astype(blocks.codes.dtype))


def _wider(blocks: BlockArray, values: Array) -> Array:
    """Return the magnitudes of elements as codes of a format with exponents of 8 bits."""
    fmt = blocks.format
    wider = dataclasses.replace(fmt.element, name="", exponent_bits=8, nans=0, infinity=False)
    made = again(blocks, values, dataclasses.replace(fmt, element=wider, nan="block"))
    return made & wider.sign_code - 1


def again(blocks: BlockArray, values: Array, fmt: BlockFormat) -> Array:
    """Return the codes of elements in another format, under the same scales."""
    return encoded(blocks, values, fmt, scales=blocks.scales).codes


def _with_magnitudes(blocks: BlockArray, where: Array, magnitudes: Array | int) -> BlockArray:
    signed = blocks.codes & blocks.format.element.sign_code | magnitudes
    return dataclasses.replace(blocks, codes=np.where(where, signed, blocks.codes).astype(blocks.codes.dtype))


def units_of(codes: Array, fmt: BlockFormat) -> npt.NDArray[np.float64]:
    """Return the values of codes of scales."""
    return as_doubles(codes, fmt.scale)


def under(blocks: BlockArray, values: Array, codes: Array) -> BlockArray:
    """Return the blocks with other scales, and the elements under these; those of scale NaN stay."""
    fmt, codes = blocks.format, _but_nan(blocks, codes)
    units = spread(units_of(codes, fmt), values.shape, blocks.axes, fmt.sizes)
    made = encoded(blocks, values, scales=codes)
    valid = np.isfinite(units) & (units > 0)
    zeros = np.where(np.signbit(values), fmt.element.sign_code if has_sign_bit(fmt.element) else 0, 0)
    kept = np.where(units == 0, zeros, blocks.codes).astype(blocks.codes.dtype)
    return dataclasses.replace(blocks, codes=np.where(valid, made.codes, kept), scales=codes)
