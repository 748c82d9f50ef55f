"""encode, decode, quantize, cast: the four verbs between values and codes.

Floor 3. What is asked is worked out here; `calls` and `block` answer it.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays import calls
from lowprec.arrays.blocks import block
from lowprec.arrays.blocks.block import BlockArray
from lowprec.arrays.checks import (
    Array,
    code_dtype,
    codes_operand,
    float_dtype,
    keeps_dtype,
    projection as projection_of,
    values_operand,
)
from lowprec.arrays.kinds import apply, brings_dtype, is_outside, like
from lowprec.arrays.lazy import is_lazy
from lowprec.arrays.outputs import refuse_other_order
from lowprec.arrays.signatures import Cast, Decode, Encode, Quantize, Returns
from lowprec.kernels.engine import Backend, check_backend
from lowprec.kernels.modes import usual_modes
from lowprec.spec import catalog
from lowprec.spec.block import BlockFormat, ScaleRule
from lowprec.spec.format import Format
from lowprec.spec.profiles import Profile
from lowprec.spec.projection import DEFAULT, Projection, Saturation
from lowprec.spec.rounding import Rounding

__all__ = ["cast", "decode", "encode", "quantize"]

Like = Format | BlockFormat | str | npt.DTypeLike


@Returns[Encode]()
def encode(
    values: npt.ArrayLike,
    fmt: Like,
    *,
    rounding: Rounding | str | None = None,
    saturation: Saturation | str | None = None,
    projection: Projection | None = None,
    profile: Profile | str | None = None,
    random: npt.ArrayLike | None = None,
    rng: int | np.random.Generator | None = None,
    flags: Array | None = None,
    out: Array | None = None,
    axis: int | tuple[int, ...] | None = None,
    rule: ScaleRule | str | None = None,
    tensor_scale: float | None = None,
    scales: npt.ArrayLike | None = None,
    backend: Backend | None = None,
) -> Any:
    """Encode real values as codes of a format, or in blocks that share a scale.

    Each value is rounded to the format's precision, saturated as the projection says, and
    replaced by its code. Values that the format has are encoded exactly.

    >>> encode([0.1, 448.0, 500.0], "e4m3fn")
    array([ 29, 126, 127], dtype=uint8)
    >>> encode([500.0], "e4m3fn", saturation="finite")
    array([126], dtype=uint8)
    >>> encode([1.03, 1.03], "e4m3fn", rounding="stochastic(8)", random=[0, 255])
    array([56, 57], dtype=uint8)
    >>> encode([[0.5, 1.5, 3.0]], "mxfp4", axis=-1)
    BlockArray of mxfp4, shape (1, 3), 1 block of 32 along axis 1, 3 bytes

    Parameters
    ----------
    values : array_like of float or integer, shape (...)
        Any float of at most 64 bits, integers, and every ml_dtypes type; torch tensors and pandas' frames,
        which give such; JAX arrays; Dask and xarray arrays, lazily. Each value is rounded once, from its
        own bits, in a frame too. A Python number is what NumPy makes of it: a float64 or an int64.
    fmt : Format, str or dtype
    rounding : str or Rounding, default "nearest_even"
    saturation : str or Saturation, default "none"
        Shorthands for a projection.
    projection : Projection, optional
    profile : str or Profile, optional
        What a named stack does, instead: a key of `lowprec.profiles`.
    random : array of uint32, shape (...)
        For stochastic rounding, and only then: one integer below 2**bits for each value. Hardware
        variants take whole words, one for each group of lanes (`lowprec.stochastic`). May be lazy; of
        xarray it goes by names, and of pandas it must have those of values.
    rng : int or Generator
        Instead of `random`: the key that `lowprec.random_bits` makes them from.
    flags : array of uint8, shape (...), optional
        Where to put what each conversion signals: `lowprec.Flag`.
    out : array of the codes' dtype, shape (...), optional
        Where to put the codes. Untouched if the call fails.
    axis : int or pair of int, optional
        Of block formats: along which the blocks lie, the last by default.
    rule : str or ScaleRule, optional
        Of block formats: how a scale follows from a block's largest magnitude, instead of as the
        format says. The shorthands above are for the elements.
    tensor_scale : float, optional
        Of block formats that have one: instead of the one that follows from the values.
    scales : array_like of integer or float, the shape of `BlockArray.scales`, optional
        Of block formats: scales that are given, as codes or as values that their format has, instead of those
        that follow from the blocks. NaNs and infinities are then elements like others, but under a NaN scale.
    backend : {"vector", "table", "scalar", "oracle"}, optional
        The engine that must answer, by default the fastest that is exact. All give the same bits: "oracle"
        computes in fractions, slowly, and shares no algorithm with the others. What the vector engine cannot
        be exact for, such as blocks of subnormal numbers, it leaves to the scalar one.

    Returns
    -------
    codes : array of uint8, uint16 or uint32, shape (...)
        The narrowest that holds fmt.width bits; unused high bits are zero. A scalar for a scalar.
        Of a block format a `BlockArray`, whose codes and scales are lazy where values are.

    Raises
    ------
    ValueError
        A NaN in values and no NaN code in fmt.
    TypeError
        Values that are no real numbers.

    Source
    ------
    [P3109] Project; [IEEE754] 4.3 and 7.4; for e4m3fn [OFP8].
    """
    asked = ("encode", fmt, rounding, saturation, projection, profile, axis, rule, tensor_scale, backend)
    key, done = (None, None) if scales is not None else calls.again(asked, values, out, flags, random, rng)
    if done is not None:
        return done
    with usual_modes():
        check_backend(backend)
        if catalog.is_block(fmt):
            whole = block.asked(fmt, rule, rounding, saturation, projection, profile)
            _only_blocks(whole, flags, out)
            if scales is not None and rule is not None:
                raise ValueError(
                    "rule= says how scales follow from values, scales= gives them; leave one out"
                )
            return block.encode(values, whole, axis, tensor_scale, random, rng, backend, scales)
        if scales is not None:
            raise ValueError(f"scales= is for block formats, not for {str(fmt)!r}; divide the values")
        _no_blocks(fmt, axis, rule, tensor_scale)
        target = catalog.format(fmt)
        how = projection_of(target, rounding, saturation, projection, profile)
        if is_outside(values) or is_lazy(random):
            verb = functools.partial(encode, fmt=target, projection=how, backend=backend)
            return apply(verb, values, fmt=target, rule=how, random=random, rng=rng, flags=flags, out=out)
        return calls.convert(
            values_operand(values), target, how, code_dtype(target), random=random, rng=rng, flags=flags,
            out=out, backend=backend, key=key,
        )  # fmt: skip


@Returns[Decode]()
def decode(
    codes: npt.ArrayLike | BlockArray,
    fmt: Like | None = None,
    *,
    dtype: npt.DTypeLike | None = None,
    flags: Array | None = None,
    out: Array | None = None,
    backend: Backend | None = None,
) -> Any:
    """Decode codes of a format to the values that they stand for, exactly.

    >>> decode([0, 126, 127], "e4m3fn")
    array([  0., 448.,  nan], dtype=float32)
    >>> decode(encode([[0.6, 1.2, 2.9]], "mxfp4"))
    array([[0.5, 1. , 3. ]], dtype=float32)

    Parameters
    ----------
    codes : array_like of integer, shape (...)
        From 0 to 2**fmt.width - 1, or an array of the ml_dtypes type of this very format; or a
        BlockArray, which brings its format.
    fmt : Format, str or dtype
    dtype : dtype, optional
        float16, bfloat16, float32 or float64, as long as it holds every value of the format.
        By default float32 if it does, else float64. Of a BlockArray float32 by default, and every
        product is rounded to it once, nearest even. float64 holds products of up to 53 bits
        exactly, which those of the catalog's block formats have.
    out : array of that dtype, shape (...), optional
    flags, backend
        As for `encode`.

    Returns
    -------
    values : array of float, shape (...)
        Infinities, NaNs (quiet, without payload) and signed zeros included.

    Raises
    ------
    ValueError
        A number that is no code of the format, or a dtype that does not hold its values.

    Source
    ------
    [P3109] Decode; [IEEE754] 3.4.
    """
    if isinstance(codes, BlockArray):
        if fmt is not None and not (catalog.is_block(fmt) and catalog.block_format(fmt) == codes.format):
            raise ValueError(
                f"these are blocks of {codes.format.name!r}, not of {str(fmt)!r}; leave the format out"
            )
        _only_blocks(codes.format, flags, None)
        check_backend(backend)
        return block.decode(codes, dtype, out, backend)
    if fmt is None:
        raise TypeError(
            "decode needs the format of codes: decode(codes, format); only a BlockArray brings its own"
        )
    if catalog.is_block(fmt):
        raise TypeError(
            f"codes of {str(fmt)!r} need their scales: decode(BlockArray(codes, scales, {str(fmt)!r}, "
            "axes=...))"
        )
    asked = ("decode", fmt, getattr(out, "dtype", None) if dtype is None else dtype, backend)
    key, done = calls.again(asked, codes, out, flags, None, None)
    if done is not None:
        return done
    with usual_modes():
        check_backend(backend)
        source = catalog.format(fmt)
        if is_outside(codes):
            verb = functools.partial(decode, fmt=source, dtype=dtype, backend=backend)
            return apply(verb, codes, flags=flags, out=out)
        operand = codes_operand(codes, source)
        refuse_other_order(out)
        if dtype is None and isinstance(out, np.ndarray):
            dtype = out.dtype
        given, carrier = float_dtype(source, dtype)
        return calls.convert(operand, carrier, DEFAULT, given, flags=flags, out=out, backend=backend, key=key)


@Returns[Quantize]()
def quantize(
    values: npt.ArrayLike,
    fmt: Like,
    *,
    rounding: Rounding | str | None = None,
    saturation: Saturation | str | None = None,
    projection: Projection | None = None,
    profile: Profile | str | None = None,
    random: npt.ArrayLike | None = None,
    rng: int | np.random.Generator | None = None,
    flags: Array | None = None,
    out: Array | None = None,
    axis: int | tuple[int, ...] | None = None,
    rule: ScaleRule | str | None = None,
    tensor_scale: float | None = None,
    backend: Backend | None = None,
) -> Any:
    """Round real values to values that a format has: decode of encode.

    >>> quantize([1.1, 2.9, 500.0], "e4m3fn", saturation="finite")
    array([  1.125,   3.   , 448.   ], dtype=float32)
    >>> quantize([[0.6, 1.2, 2.9]], "mxfp4", axis=-1)
    array([[0.5, 1. , 3. ]], dtype=float32)

    Parameters
    ----------
    values, fmt, rounding, saturation, projection, profile, random, rng, flags, axis, rule, tensor_scale,
    backend
        As for `encode`.
    out : array of float, shape (...), optional
        May be `values` itself. Untouched if the call fails.

    Returns
    -------
    values : array of float, shape (...)
        float16, bfloat16, float32 and float64 stay what they are where that type holds every
        value of the format; everything else comes as from `decode`. Of block formats float64 for
        float64, and float32 for everything else.

    Raises
    ------
    ValueError
        A NaN in values and no NaN code in fmt, or `out` of a type that does not hold the format.

    Source
    ------
    As for `encode`.
    """
    into = getattr(out, "dtype", None)
    asked = (
        "quantize",
        fmt,
        into,
        rounding,
        saturation,
        projection,
        profile,
        axis,
        rule,
        tensor_scale,
        backend,
    )
    key, done = calls.again(asked, values, out, flags, random, rng)
    if done is not None:
        return done
    with usual_modes():
        check_backend(backend)
        if catalog.is_block(fmt):
            whole = block.asked(fmt, rule, rounding, saturation, projection, profile)
            _only_blocks(whole, flags, None)
            rounded = block.quantize(values, whole, axis, tensor_scale, random, rng, out, backend)
            return like(rounded, values, out=out)
        _no_blocks(fmt, axis, rule, tensor_scale)
        target = catalog.format(fmt)
        how = projection_of(target, rounding, saturation, projection, profile)
        if is_outside(values) or is_lazy(random):
            verb = functools.partial(quantize, fmt=target, projection=how, backend=backend)
            return apply(verb, values, fmt=target, rule=how, random=random, rng=rng, flags=flags, out=out)
        operand = values_operand(values)
        refuse_other_order(out)
        if isinstance(out, np.ndarray):
            wanted: object = out.dtype
        else:
            kept = brings_dtype(values) and keeps_dtype(operand.array, target)
            wanted = operand.array.dtype.newbyteorder("=") if kept else None
        given, carrier = float_dtype(target, wanted)
        return calls.convert(
            operand, target, how, given, carrier, random=random, rng=rng, flags=flags, out=out,
            backend=backend, key=key,
        )  # fmt: skip


@Returns[Cast]()
def cast(
    codes: npt.ArrayLike,
    source: Like,
    target: Like,
    *,
    rounding: Rounding | str | None = None,
    saturation: Saturation | str | None = None,
    projection: Projection | None = None,
    profile: Profile | str | None = None,
    random: npt.ArrayLike | None = None,
    rng: int | np.random.Generator | None = None,
    flags: Array | None = None,
    out: Array | None = None,
    backend: Backend | None = None,
) -> Any:
    """Convert codes of one format to codes of another, rounding once.

    >>> cast([126, 127], "e4m3fn", "e5m2")
    array([ 95, 126], dtype=uint8)

    Parameters
    ----------
    codes : array_like of integer, shape (...)
        As for `decode`.
    source, target : Format, str or dtype
    rounding, saturation, projection, profile, random, rng, flags, out, backend
        As for `encode`.

    Returns
    -------
    codes : array of uint8, uint16 or uint32, shape (...)

    Raises
    ------
    ValueError
        A number that is no code of the source, or a NaN that the target has no code for.

    Source
    ------
    As for `encode`.
    """
    asked = ("cast", target, source, rounding, saturation, projection, profile, backend)
    key, done = calls.again(asked, codes, out, flags, random, rng)
    if done is not None:
        return done
    with usual_modes():
        check_backend(backend)
        origin, goal = catalog.format(source), catalog.format(target)
        rule = projection_of(goal, rounding, saturation, projection, profile)
        if is_outside(codes) or is_lazy(random):
            verb = functools.partial(cast, source=origin, target=goal, projection=rule, backend=backend)
            return apply(verb, codes, fmt=goal, rule=rule, random=random, rng=rng, flags=flags, out=out)
        return calls.convert(
            codes_operand(codes, origin), goal, rule, code_dtype(goal), random=random, rng=rng, flags=flags,
            out=out, backend=backend, key=key,
        )  # fmt: skip


def _only_blocks(fmt: BlockFormat, flags: object, out: object) -> None:
    """Refuse what blocks do not take."""
    for name, given in (("flags", flags), ("out", out)):
        if given is not None:
            raise ValueError(
                f"{name}= is for formats of single values, and {fmt.name!r} has blocks; leave it out"
            )


def _no_blocks(fmt: object, axis: object, rule: object, tensor_scale: object) -> None:
    """Refuse what only blocks take, and values where the format is meant."""
    shape = getattr(fmt, "shape", None)
    if isinstance(fmt, list) or (isinstance(shape, tuple) and shape):
        raise TypeError(
            "a format must be a Format, a name or a dtype, not an array: values come first, the format second"
        )
    for name, given in (("axis", axis), ("rule", rule), ("tensor_scale", tensor_scale)):
        if given is not None:
            raise ValueError(
                f"{name}= is for block formats, and {str(fmt)!r} is none; those are "
                f"{', '.join(catalog.BLOCK_FORMATS)}"
            )
