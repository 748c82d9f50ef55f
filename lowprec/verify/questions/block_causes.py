"""Changes that a block converter may have: to values, lanes, scales and special blocks."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays.block import BlockArray
from lowprec.arrays.block_products import spread
from lowprec.arrays.convert import encode, quantize
from lowprec.spec import catalog
from lowprec.spec.block import BlockFormat
from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Format, Sign
from lowprec.spec.projection import Projection
from lowprec.verify.codes.values import as_doubles, doubles
from lowprec.verify.questions.causes import cut_behind_guard, guard_words
from lowprec.verify.questions.question import Array, Change

__all__ = ["SCALE_SHIFT", "elements", "lanes", "moved", "operands", "orders", "scales", "special_blocks"]
__all__ += ["with_nan"]

#: A scale's code stands so many bits above the code of the element.
SCALE_SHIFT = 32

#: Bits behind the guard bit that a rounder without sticky bit may see.
_BEHIND = 20

_SPECIAL: dict[str, dict[Any, str]] = {
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
    for field, words in _SPECIAL.items():
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
        yield Change("operand", _numbers, "NaNs and infinities taken as numbers, of the next exponent")
        yield Change("operand", _flushed, "subnormal values taken as zeros")


def _through(values: Array, name: str) -> Array:
    return np.asarray(quantize(values, name))


def _cut(values: Array) -> Array:
    return np.asarray(values.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)


def _numbers(values: Array) -> Array:
    words = values.view(np.uint32)
    wide = np.ldexp(((words & 0x7FFFFF) | 0x800000).astype(np.float64), 105)
    return np.where(np.isfinite(values), values, np.where(words >> 31, -wide, wide))


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
    if len(axes) == 1:
        backward = functools.partial(_backward, axis=axes[0], size=fmt.sizes[0])
        yield Change("made", backward, "the elements of each block in reverse order")
    if _has_sign_bit(fmt.element):
        yield Change("made", functools.partial(_unsigned, sign=fmt.element.sign_code), "zeros have no sign")


def _has_sign_bit(element: Format) -> bool:
    return not isinstance(element, Codebook) and element.sign is Sign.MAGNITUDE


def _pairs(made: Array) -> Array:
    """Exchange neighbours along the last axis."""
    flat = made.reshape(-1)
    whole = flat.size // 2 * 2
    pairs = flat[:whole].reshape(-1, 2)[:, ::-1].reshape(-1)
    return np.concatenate([pairs, flat[whole:]]).reshape(made.shape)


def moved(made: Array, axis: int, to: Array) -> Array:
    """Return elements, of whole blocks, in another order within each block; their scales stay."""
    place = np.arange(made.shape[axis])
    if place.size % to.size:
        raise ValueError("the last block is shorter")
    mask = (1 << SCALE_SHIFT) - 1
    found = np.take(made, place // to.size * to.size + np.resize(to, place.size), axis)
    return np.asarray(found & mask | made & ~mask)


def _backward(made: Array, axis: int, size: int) -> Array:
    place = np.arange(made.shape[axis])
    first = place // size * size
    return np.take(made, first + np.minimum(size, len(place) - first) - 1 - place % size, axis)


def _unsigned(made: Array, sign: int) -> Array:
    return np.where(made & (1 << SCALE_SHIFT) - 1 == sign, made ^ sign, made)


def lanes(fmt: BlockFormat, axis: int, values: Array, got: Array, want: Array) -> Iterator[Change]:
    """Yield lanes that the results show to be left out: of everything, or of the largest magnitude.

    Those that are zero wherever something else is right, and those that hold the largest magnitude of the
    blocks whose scales are too small.
    """
    size = fmt.sizes[0]
    given, came, right = (_blocks(side.reshape(values.shape), axis, size) for side in (values, got, want))
    mask = (1 << SCALE_SHIFT) - 1
    if _has_sign_bit(fmt.element):
        mask ^= fmt.element.sign_code
    silent = np.flatnonzero(((came & mask) == 0).all(0) & ((right & mask) != 0).any(0)).tolist()
    if 0 < len(silent) < size:
        away = functools.partial(_without, lanes=silent, axis=axis, size=size)
        yield Change("lane", away, f"{_named(silent)} of {size} left out")
    nans = np.isnan(doubles(given))
    unread = np.flatnonzero(nans[~_has_nan(fmt, came) & _has_nan(fmt, right)].any(0)).tolist()
    if 0 < len(unread) < size:
        words = f"NaNs in {_named(unread)} of {size} become elements, and the scale does not see them"
        yield Change("scaling", functools.partial(_unread, lanes=unread), words)
    low = doubles(given[(came[:, 0] >> SCALE_SHIFT) < (right[:, 0] >> SCALE_SHIFT)])
    unseen = np.unique(np.argmax(np.abs(low[np.isfinite(low).all(1)]), axis=1)).tolist()
    if 0 < len(unseen) < size and _given_scales(fmt):
        words = f"{_named(unseen)} of {size} left out of the largest magnitude"
        away = functools.partial(_without, lanes=unseen, axis=axis, size=size)
        yield Change("scaling", _of_values(away), words)


def _has_nan(fmt: BlockFormat, side: Array) -> Array:
    """Return the rows whose scale is NaN."""
    return np.isnan(_units(side[:, 0] >> SCALE_SHIFT & (1 << fmt.scale.width) - 1, fmt))


def _blocks(side: Array, axis: int, size: int) -> Array:
    """Return whole blocks as rows."""
    moved = np.moveaxis(side, axis, -1)
    return moved[..., : moved.shape[-1] // size * size].reshape(-1, size)


def _named(lanes: Sequence[int]) -> str:
    first, last = lanes[0], lanes[-1]
    if first == last:
        return f"lane {first}"
    if len(lanes) == last - first + 1:
        return f"lanes {first} to {last}"
    return f"lanes {', '.join(map(str, lanes))}"


def _without(values: Array, lanes: Sequence[int], axis: int, size: int) -> Array:
    made = values.copy()
    np.moveaxis(made, axis, -1)[..., np.isin(np.arange(values.shape[axis]) % size, lanes)] = 0
    return made


# -- scales ------------------------------------------------------------------------------------------


def _given_scales(fmt: BlockFormat) -> bool:
    """Return whether elements under other scales are known: plain quotients, rounded once."""
    if isinstance(fmt.scale, Codebook):
        return False
    return fmt.arithmetic == "exact" and fmt.tensor_scale == "none" and not fmt.elements.rounding.bits


def scales(fmt: BlockFormat) -> Iterator[Change]:
    """Yield scales off by a factor of two, with their elements; and codes of scales that are off by one."""
    if not _given_scales(fmt):
        return
    emax = ": emax taken as one {}" if fmt.rule.divisor == "binade" else ""
    for power, words, other in ((2.0, "twice", "less"), (0.5, "half", "more")):
        off = _of_values(functools.partial(np.multiply, power))
        yield Change("scaling", off, f"scales {words} as large{emax.format(other)}")
    positive = _of_values(lambda values: np.where(values < 0, 0.0, values))
    yield Change("scaling", positive, "negative values left out of the largest magnitude")
    last = (1 << fmt.scale.width) - 1
    for by, words in ((1, "high"), (-1, "low")):
        written = _with_scales(lambda codes, nan, by=by: np.where(nan, codes, codes + by & last))
        yield Change("scaling", written, f"scale codes one too {words}, above elements that are right")
    yield Change("scaling", _kept, "elements under scales that are NaN are not cleared")
    if fmt.scale.has_nan:
        for code, said in ((fmt.scale.max_magnitude, "the largest number"), (0, "the smallest number")):
            named = _with_scales(lambda codes, nan, code=code: np.where(nan, code, codes))
            yield Change("scaling", named, f"NaN scales are {code:#x}, {said}")
    if not fmt.scale.trailing_bits and not fmt.scale.subnormals:
        words = f"scales below the smallest wrap around, modulo {1 << fmt.scale.width}"
        yield Change("scaling", _wrapped, words)
    for words, by in (("the block before", 1), ("the next block", -1)):
        moved = _with_scales(lambda codes, _, by=by: np.roll(codes, by))
        yield Change("scaling", moved, f"scales are those of {words}, above right elements")
    exchanged = _with_scales(lambda codes, _: _pairs(codes))
    yield Change("scaling", exchanged, "scales of neighbouring blocks swapped, above right elements")


def elements(fmt: BlockFormat) -> Iterator[Change]:
    """Yield elements that overflow, carry or lose their signs otherwise."""
    element = fmt.element
    if not _given_scales(fmt) or not _has_sign_bit(element):
        return
    yield Change("shaping", _over_zero, "elements past the largest are zero")
    if element.exponent_bits:
        yield Change(
            "shaping", _over_wide, "elements past the largest wrap around: codes lose their upper bits"
        )
        yield Change("shaping", _carry_lost, "the carry of rounding into the exponent of elements lost")
        yield Change("shaping", _codes_flushed, "elements that are subnormal after rounding become zeros")
        if not fmt.scale.trailing_bits and not fmt.scale.subnormals:  # quotients are exact
            for bits in range(_BEHIND):
                lost = functools.partial(_sticky_lost, bits=bits)
                yield Change("shaping", lost, f"elements: {guard_words(bits)}")
        known = element.max_magnitude, None if element.infinity else element.nan_code  # as saturation has it
        for code in dict.fromkeys((element.max_magnitude - 1, element.sign_code - 1)):
            if code not in known:
                clipped = functools.partial(_clipped, code=code)
                yield Change("shaping", clipped, f"elements past the largest become {code:#x}")
    if element.min_subnormal is not None:
        words = "elements past the largest wrap around as whole numbers of the smallest element"
        yield Change("shaping", _over_whole, words)
    for zero, words in (
        (False, "elements that round to zero lose their sign"),
        (True, "values that are zero lose their sign"),
    ):
        yield Change("shaping", functools.partial(_unsigned_zeros, zero=zero), words)


BlockChange = Callable[[BlockArray, Array], BlockArray]


def _of_values(change: Callable[[Array], Array]) -> BlockChange:
    """Return the blocks with the scales that changed values have, and the elements under these."""

    def changed(blocks: BlockArray, values: Array) -> BlockArray:
        seen = change(doubles(values))
        return _under(blocks, values, encode(seen, blocks.format, axis=blocks.axes).scales)

    return changed


def _with_scales(change: Callable[..., Any]) -> BlockChange:
    """Return the blocks with other codes of scales, made of the codes and where they are NaN."""

    def changed(blocks: BlockArray, values: Array) -> BlockArray:
        codes = blocks.scales.astype(np.int64)
        made = change(codes, np.isnan(_units(blocks.scales, blocks.format)))
        return dataclasses.replace(blocks, scales=made.astype(blocks.scales.dtype))

    return changed


def _unread(blocks: BlockArray, values: Array, lanes: Sequence[int]) -> BlockArray:
    """Return blocks whose NaNs in some lanes are elements; those with others are as before."""
    fmt, axis, size = blocks.format, blocks.axes[0], blocks.format.sizes[0]
    plain = with_nan(dataclasses.replace(fmt, nan="elements"))
    other = encode(values, plain, axis=blocks.axes)
    seen = np.isnan(_units(encode(_without(values, lanes, axis, size), fmt, axis=blocks.axes).scales, fmt))
    kept = spread(seen, values.shape, blocks.axes, fmt.sizes)
    return dataclasses.replace(
        blocks,
        codes=np.where(kept, blocks.codes, other.codes),
        scales=np.where(seen, blocks.scales, other.scales),
    )


def _kept(blocks: BlockArray, values: Array) -> BlockArray:
    fmt = blocks.format
    plain = with_nan(dataclasses.replace(fmt, nan="elements", infinity="elements"))
    other = encode(values, plain, axis=blocks.axes).codes
    nan = spread(np.isnan(_units(blocks.scales, fmt)), values.shape, blocks.axes, fmt.sizes)
    return dataclasses.replace(blocks, codes=np.where(nan, other, blocks.codes))


def _but_nan(blocks: BlockArray, codes: Array) -> Array:
    """Return codes of scales, but NaN where those of the blocks are."""
    nan = _units(blocks.scales, blocks.format)
    return np.where(np.isnan(nan), blocks.scales, codes).astype(blocks.scales.dtype)


def _wrapped(blocks: BlockArray, values: Array) -> BlockArray:
    """Return scales whose exponents are below the smallest as codes that wrap around, and their elements."""
    fmt, up = blocks.format, 64
    high = encode(np.ldexp(doubles(values), up), fmt, axis=blocks.axes).scales.astype(np.int64)
    low = (blocks.scales == 0) & (0 < high) & (high < up)  # blocks of zeros are as before
    codes = np.where(low, high - up & (1 << fmt.scale.width) - 1, blocks.scales)
    under = _under(blocks, values, np.minimum(codes, fmt.scale.max_magnitude).astype(blocks.scales.dtype))
    return dataclasses.replace(under, scales=codes.astype(blocks.scales.dtype))


# -- elements ----------------------------------------------------------------------------------------


def _over(blocks: BlockArray, values: Array) -> tuple[Array, Array]:
    """Return which elements are finite and past the largest one, and what their scales are."""
    fmt = blocks.format
    units = spread(_units(blocks.scales, fmt), values.shape, blocks.axes, fmt.sizes)
    wide = np.abs(doubles(values))
    return np.isfinite(wide) & (units > 0) & (wide > units * fmt.element.max_finite), units


def _over_zero(blocks: BlockArray, values: Array) -> BlockArray:
    over, _ = _over(blocks, values)
    return _with_magnitudes(blocks, over, 0)


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


def _wider(blocks: BlockArray, values: Array) -> Array:
    """Return the magnitudes of elements as codes of a format with one exponent bit more."""
    fmt = blocks.format
    wider = dataclasses.replace(
        fmt.element, name="", exponent_bits=fmt.element.exponent_bits + 1, nans=0, infinity=False
    )
    made = _again(blocks, values, dataclasses.replace(fmt, element=wider, nan="block"))
    return made & wider.sign_code - 1


def _clipped(blocks: BlockArray, values: Array, code: int) -> BlockArray:
    """Return elements with another code where they are past the largest after rounding."""
    made, largest = _wider(blocks, values), blocks.format.element.max_magnitude
    return _with_magnitudes(blocks, (made > largest) & _over(blocks, values)[0], code)


def _sticky_lost(blocks: BlockArray, values: Array, bits: int) -> BlockArray:
    fmt = blocks.format
    units = spread(_units(blocks.scales, fmt), values.shape, blocks.axes, fmt.sizes)
    plain = np.isfinite(units) & (units > 0)
    cut = cut_behind_guard(doubles(values) / np.where(plain, units, 1), fmt.element, bits)
    made = _again(blocks, np.where(plain, cut * units, values), fmt)
    return dataclasses.replace(blocks, codes=np.where(plain, made, blocks.codes))


def _carry_lost(blocks: BlockArray, values: Array) -> BlockArray:
    fmt = blocks.format
    element, rule = (
        fmt.element,
        dataclasses.replace(fmt.elements, rounding=Projection(rounding="toward_zero").rounding),
    )
    cut = _again(blocks, values, dataclasses.replace(fmt, elements=rule)) & element.sign_code - 1
    magnitude, one = blocks.codes & element.sign_code - 1, 1 << element.trailing_bits
    lost = (
        (magnitude != cut)
        & (magnitude & one - 1 == 0)
        & (magnitude > one)
        & (magnitude <= element.max_magnitude)
    )
    return _with_magnitudes(blocks, lost, magnitude - one)


def _codes_flushed(blocks: BlockArray, values: Array) -> BlockArray:
    element = blocks.format.element
    return _with_magnitudes(blocks, blocks.codes & element.sign_code - 1 < 1 << element.trailing_bits, 0)


def _unsigned_zeros(blocks: BlockArray, values: Array, zero: bool) -> BlockArray:
    """Return elements without sign where they are zero, and the values were, or were not."""
    sign = blocks.format.element.sign_code
    lost = (blocks.codes == sign) & ((values == 0) == zero)
    return dataclasses.replace(blocks, codes=np.where(lost, 0, blocks.codes).astype(blocks.codes.dtype))


def _again(blocks: BlockArray, values: Array, fmt: BlockFormat) -> Array:
    """Return the codes of elements in another format, under the same scales."""
    made: BlockArray = encode(values, fmt, axis=blocks.axes, scales=blocks.scales)
    return made.codes


def _with_magnitudes(blocks: BlockArray, where: Array, magnitudes: Array | int) -> BlockArray:
    signed = blocks.codes & blocks.format.element.sign_code | magnitudes
    return dataclasses.replace(blocks, codes=np.where(where, signed, blocks.codes).astype(blocks.codes.dtype))


def _units(codes: Array, fmt: BlockFormat) -> npt.NDArray[np.float64]:
    return as_doubles(codes, fmt.scale)


def _under(blocks: BlockArray, values: Array, codes: Array) -> BlockArray:
    """Return the blocks with other scales, and the elements under these; those of scale NaN stay."""
    fmt, codes = blocks.format, _but_nan(blocks, codes)
    units = spread(_units(codes, fmt), values.shape, blocks.axes, fmt.sizes)
    made = encode(values, fmt, axis=blocks.axes, scales=codes)
    valid = np.isfinite(units) & (units > 0)
    return dataclasses.replace(blocks, codes=np.where(valid, made.codes, blocks.codes), scales=codes)
