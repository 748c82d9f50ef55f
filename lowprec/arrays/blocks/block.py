"""The verbs between values and blocks: arguments of block formats, and what they come to.

Everything here is about arrays; `block_stream` chooses the kernels.

Floor 3.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays import lazy
from lowprec.arrays.blocks import lazy_blocks
from lowprec.arrays.blocks.block_array import BlockArray, decode, tensor_scale_of
from lowprec.arrays.blocks.block_stream import (
    axes_of,
    encode_blocks,
    grid_of,
    inverse,
    order_in_memory,
    tensor_of,
)
from lowprec.arrays.blocks.scaling import given_scales
from lowprec.arrays.checks import (
    Array,
    Operand,
    as_array,
    code_dtype,
    narrowed,
    projection as projection_of,
    values_operand,
)
from lowprec.arrays.kinds import brings_dtype, check_labels
from lowprec.arrays.outputs import output
from lowprec.arrays.random import Place, integers_for, key_of, words_at
from lowprec.kernels.engine import Backend
from lowprec.spec import catalog
from lowprec.spec.block import BlockFormat, ScaleRule, rule as rule_of
from lowprec.spec.profiles import Profile, profile as profile_of
from lowprec.spec.projection import Projection, Saturation
from lowprec.spec.rounding import Rounding

__all__ = ["BlockArray", "asked", "decode", "encode", "quantize"]

_NO_RANDOM = np.empty(0, np.uint32)


# -- verbs -------------------------------------------------------------------------------------------


def encode(
    values: npt.ArrayLike,
    fmt: BlockFormat,
    axis: int | Iterable[int] | None = None,
    tensor_scale: float | None = None,
    random: object = None,
    rng: object = None,
    backend: Backend | None = None,
    scales: object = None,
) -> BlockArray:
    """Values in blocks: `lowprec.encode` with a block format comes here."""
    check_labels(values, random=random, scales=scales)
    if any(map(lazy.is_lazy, (values, random, tensor_scale))):
        lazy.refuse(values, random, tensor_scale, scales=scales)
        return _lazily(encode, values, fmt, axis, tensor_scale, random, rng, backend)  # type: ignore[no-any-return]
    return _encode(values_operand(values), fmt, axis, tensor_scale, random, rng, backend, scales)


def _encode(
    operand: Operand,
    fmt: BlockFormat,
    axis: int | Iterable[int] | None,
    tensor_scale: float | None,
    random: object,
    rng: object,
    backend: Backend | None,
    scales: object = None,
) -> BlockArray:
    shape = operand.array.shape
    axes = axes_of(fmt, axis, len(shape))
    order = order_in_memory(operand.codes)
    if order is not None and random is None is rng and scales is None:
        moved = operand._replace(codes=operand.codes.transpose(order), array=operand.array.transpose(order))
        along = tuple(map(order.index, axes))
        with contextlib.suppress(ValueError):  # raised again below, with the place in this array
            return _encode(moved, fmt, along, tensor_scale, None, None, backend)._moved(inverse(order))
    if backend in (None, "vector") and not (
        fmt.elements.flushes_operands and operand.fmt == catalog.BINARY64
    ):
        operand = narrowed(operand)  # subnormals of float64 are not those of float32
    grid = grid_of(shape, axes, fmt.sizes)
    given = (
        None
        if fmt.tensor_scale == "none" and tensor_scale is None
        else tensor_scale_of(fmt, tensor_scale, True)
    )
    if scales is not None and given is None and fmt.tensor_scale != "none":
        raise ValueError(f"scales of {fmt.name!r} are parts of the tensor's scale: give tensor_scale= too")
    tensor = tensor_of(operand, fmt, given, backend)
    words, scale_words = _random(fmt, shape, axes, random, rng)
    codes = np.empty(shape, code_dtype(fmt.element))
    made = np.empty(grid, code_dtype(fmt.scale)) if scales is None else given_scales(scales, fmt, grid)
    encode_blocks(
        operand, fmt, axes, tensor, codes, made, words, scale_words, backend, given=scales is not None
    )
    return BlockArray._made(codes, made, fmt, axes, tensor.value)


def quantize(
    values: npt.ArrayLike,
    fmt: BlockFormat,
    axis: int | Iterable[int] | None = None,
    tensor_scale: float | None = None,
    random: object = None,
    rng: object = None,
    out: Array | None = None,
    backend: Backend | None = None,
) -> Array:
    """Values rounded to those of blocks: `lowprec.quantize` with a block format comes here."""
    check_labels(values, random=random)
    if any(map(lazy.is_lazy, (values, random, tensor_scale))):
        lazy.refuse(values, random, tensor_scale, out=out)
        return _lazily(quantize, values, fmt, axis, tensor_scale, random, rng, backend)  # type: ignore[no-any-return]
    operand = values_operand(values)
    kept = np.dtype(np.float64 if operand.fmt == catalog.BINARY64 and brings_dtype(values) else np.float32)
    output(out, kept, operand.array.shape, f"values of {fmt.name!r}")
    return decode(_encode(operand, fmt, axis, tensor_scale, random, rng, backend), kept, out, backend)


def _lazily(
    verb: Callable[..., Any], values: Any, fmt: BlockFormat, axis: Any, tensor_scale: Any, random: Any,
    rng: Any, backend: Backend | None,
) -> Any:  # fmt: skip
    """Run a verb on a lazy array, chunk by chunk."""
    lazy.check(values, random, tensor_scale)
    values = values if lazy.is_lazy(values) else as_array(values)
    axes = axes_of(fmt, axis, values.ndim)
    part = functools.partial(verb, fmt=fmt, axis=axes, backend=backend)
    over = lazy_blocks.encode if verb is encode else lazy_blocks.quantize
    return over(part, values, lazy_blocks.Asked(fmt, axes, tensor_scale, random, rng, backend))


# -- arguments ---------------------------------------------------------------------------------------


def asked(
    name: object,
    rule: ScaleRule | str | None,
    rounding: Rounding | str | None,
    saturation: Saturation | str | None,
    projection: Projection | None,
    profile: Profile | str | None,
) -> BlockFormat:
    """Return the block format that the keywords of a verb request."""
    fmt = catalog.block_format(name)
    given = {"rule": rule, "projection": projection, "rounding": rounding, "saturation": saturation}
    if profile is not None:
        others = [f"{key}=" for key, value in given.items() if value is not None and key != "rounding"]
        if others:
            raise ValueError(
                f"profile={str(profile)!r} and {' and '.join(others)} both say what {fmt.name!r} is; give "
                "one of them, for instance "
                f"dataclasses.replace(lowprec.profiles[{str(profile)!r}].block({fmt.name!r}), ...)"
            )
        fmt = profile_of(profile).block(fmt)
    if rule is not None:
        fmt = dataclasses.replace(fmt, rule=rule_of(rule))
    if projection is not None or rounding is not None or saturation is not None:
        alone = projection_of(fmt.element, rounding, saturation, projection, None)
        if projection is None:  # what the shorthands leave open is the block format's
            changed = {key: given[key] for key in ("rounding", "saturation") if given[key] is not None}
            alone = dataclasses.replace(fmt.elements, **changed)  # type: ignore[arg-type]
        fmt = dataclasses.replace(fmt, elements=alone)
    return fmt


def _random(
    fmt: BlockFormat, shape: tuple[int, ...], axes: tuple[int, ...], random: object, rng: object
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
    """Return the random integers of elements and of scales, by index, in streams 0 and 1 of one key."""
    elements, scales = fmt.elements.rounding, fmt.scales.rounding
    scale_words = _NO_RANDOM
    if scales.bits:
        if rng is None:
            raise ValueError(
                f"scales of {fmt.name!r} are rounded by {scales} and need rng=; random= is for elements"
            )
        rng = rng if isinstance(rng, Place) else key_of(rng)
        sizes = dict(zip(axes, fmt.sizes, strict=True))
        units = [sizes.get(axis, 1) for axis in range(len(shape))]
        grid = grid_of(shape, axes, fmt.sizes)
        scale_words = words_at(grid, rng, scales.bits, units, stream=1).reshape(-1)
        rng = rng if elements.bits else None
    return integers_for(elements, fmt.element, shape, random, rng), scale_words
