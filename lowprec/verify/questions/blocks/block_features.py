"""Features of elements of blocks: of values, of their blocks, and of quotients by scales."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np

from lowprec.arrays.blocks.block_products import spread
from lowprec.arrays.checks import UNSIGNED, code_dtype
from lowprec.arrays.convert import encode
from lowprec.spec import catalog
from lowprec.spec.block import BlockFormat
from lowprec.spec.codebook import Codebook
from lowprec.spec.projection import Projection
from lowprec.spec.rounding import TOWARD_ZERO
from lowprec.verify.codes.values import as_doubles, doubles, words_of
from lowprec.verify.questions import causes
from lowprec.verify.questions.dots.dot_changes import unless_refused
from lowprec.verify.questions.features import (
    STEP,
    Feature,
    exponents,
    has_fields,
    of_codes,
    of_overflow,
    of_rounding,
    of_steps,
    of_values,
)
from lowprec.verify.questions.question import Array
from lowprec.verify.questions.situations import continued

__all__ = ["of_a_block", "of_a_scale", "of_one_value", "of_rounded_scale"]


def of_one_value(values: Array, name: str = "the value") -> Iterator[Feature]:
    """Yield features of values, by their codes if these are of 32 bits at most."""
    source = catalog.carrier(values.dtype)
    if source is None or source.width > 32:
        yield from of_values(name, doubles(values).reshape(-1))
    else:
        yield from of_codes(name, words_of(values).reshape(-1), source)


def of_a_block(values: Array, fmt: BlockFormat, axis: int) -> Iterator[Feature]:
    """Yield features of the block of each value: its lane, special values, and the largest magnitude."""
    size = fmt.sizes[0]
    wide = np.moveaxis(doubles(values), axis, -1)
    blocks = wide.reshape(*wide.shape[:-1], -1, size)

    def spread_out(of_blocks: Array) -> Array:
        each = np.broadcast_to(of_blocks[..., None], blocks.shape).reshape(wide.shape)
        return np.moveaxis(each, -1, axis).reshape(-1)

    place = np.broadcast_to(np.arange(wide.shape[-1]) % size, wide.shape)
    yield Feature("the lane", np.moveaxis(place, -1, axis).reshape(-1))
    finite = np.isfinite(blocks)
    sizes = np.where(finite, np.abs(blocks), 0)
    largest = sizes.max(-1)
    for words, special in {
        "a NaN": np.isnan(blocks),
        "an infinity": np.isinf(blocks),
        "a NaN or an infinity": ~finite,
    }.items():
        has = np.asarray(special.any(-1))
        yield Feature(f"the block has {words}", spread_out(has))
        before = np.concatenate([[False], has.reshape(-1)[:-1]]).reshape(has.shape)
        yield Feature(f"the block before has {words}", spread_out(before), before=True)
    yield Feature("the block has zeros alone", spread_out(np.asarray((blocks == 0).all(-1))))
    yield Feature("the lane of the block's largest magnitude", spread_out(np.argmax(sizes, -1)))
    at = np.argmax(sizes, -1)[..., None]
    minus = np.signbit(np.take_along_axis(blocks, at, -1))[..., 0]
    yield Feature("the value of the block's largest magnitude is negative", spread_out(minus))
    magnitude = spread_out(largest).astype(values.dtype if values.dtype.kind == "f" else np.float64)
    yield from of_one_value(magnitude, "the block's largest magnitude")
    fraction = np.floor(np.ldexp(np.frexp(largest)[0], 4)).astype(np.int64)
    yield Feature("the leading four bits of the block's largest magnitude", spread_out(fraction))
    apart = exponents(largest)[..., None] - exponents(sizes)
    apart = np.where(sizes > 0, apart, -1).reshape(wide.shape)
    yield Feature("the exponent of the block's largest magnitude less the value's",
                  np.moveaxis(apart, -1, axis).reshape(-1))  # fmt: skip


def of_a_scale(
    values: Array, fmt: BlockFormat, scales: Array, tensor: float, elements: Array
) -> Iterator[Feature]:
    """Yield features of quotients by right scales and the scale of the tensor, rounded to right elements."""
    yield Feature("the code of the right scale", scales)
    if not isinstance(fmt.scale, Codebook) and fmt.scale.subnormals:
        yield Feature("the right scale is subnormal", (scales > 0) & (scales < 1 << fmt.scale.trailing_bits))
    units = as_doubles(scales.astype(UNSIGNED[1 if fmt.scale.width <= 8 else 4]), fmt.scale)
    units = units * tensor
    flat = doubles(values).reshape(-1)
    plain = np.isfinite(flat) & np.isfinite(units) & (units > 0)
    source = catalog.carrier(values.dtype)
    least = exponents(flat) if source is None else np.maximum(exponents(flat), source.emin)
    fields = np.where(plain & (flat != 0), least - exponents(units), 0)
    yield Feature("the exponent field of the value, less the exponent of the right scale,", fields)
    with np.errstate(all="ignore"):
        quotients = np.where(plain, flat / np.where(plain, units, 1), 0)
    yield from _of_quotients(quotients, elements, fmt)
    yield Feature("the exponent of the quotient", exponents(quotients))
    if not isinstance(fmt.element, Codebook):
        low = (flat != 0) & (np.abs(quotients) < 2.0**fmt.element.emin)
        yield Feature("the quotient is below the normal numbers", plain & low)


def of_rounded_scale(
    values: Array, fmt: BlockFormat, axes: tuple[int, ...], scales: Array, tensor: float | None
) -> Iterator[Feature]:
    """Yield how right scales are rounded, given as codes at each element."""
    if isinstance(fmt.scale, Codebook):
        return
    how = dataclasses.replace(fmt.scales, rounding=TOWARD_ZERO)
    made = encode(values, dataclasses.replace(fmt, scales=how), axis=axes, tensor_scale=tensor)
    cut = spread(made.scales, values.shape, axes, fmt.sizes).astype(np.int64).reshape(-1)
    low = (1 << fmt.scale.trailing_bits) - 1
    yield Feature("the right scale is rounded up", scales > cut)
    yield Feature("rounding carries into the exponent of the scale", (scales > cut) & (cut & low == low))


def _of_quotients(quotients: Array, codes: Array, fmt: BlockFormat) -> Iterator[Feature]:
    """Yield features of quotients of values and scales, and of how they are rounded to codes."""
    finite_rule = dataclasses.replace(fmt.elements, saturation=Projection(saturation="finite").saturation)
    made = {}
    for name in ("toward_zero", "nearest_zero", "nearest_away"):
        how = dataclasses.replace(finite_rule, rounding=Projection(rounding=name).rounding)
        made[name] = np.asarray(encode(quotients, fmt.element, projection=how)).astype(np.int64)
    yield Feature("the quotient is a tie", made["nearest_zero"] != made["nearest_away"])
    back = as_doubles(made["toward_zero"].astype(code_dtype(fmt.element)), fmt.element)
    yield Feature("the scaled value needs no rounding", back == quotients)
    yield Feature("the quotient is past the largest element", np.abs(quotients) > fmt.element.max_finite)
    longer = continued(fmt.element) if has_fields(fmt.element) else None
    if longer is not None:
        beyond = np.asarray(encode(quotients, longer, rounding=fmt.elements.rounding))
        yield from of_overflow(beyond, longer, fmt.element)
        yield from of_rounding(made["toward_zero"], codes, fmt.element)
    if has_fields(fmt.element):
        finer = unless_refused(lambda: causes.finer(fmt.element, STEP))
        if finer is not None:
            yield from of_steps(
                np.asarray(encode(quotients, finer, rounding="toward_zero")), finer, "the element"
            )
