"""Arrays in block formats: codes of elements, codes of scales, and the verbs between them and values.

Everything here is about arrays; `block_stream` chooses the kernels.

Floor 3.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays import lazy, lazy_blocks
from lowprec.arrays.block_stream import axes_of, decode_blocks, encode_blocks, grid_of, tensor_of
from lowprec.arrays.calls import convert
from lowprec.arrays.checks import (
    FLOATS,
    Array,
    Operand,
    code_dtype,
    codes_operand,
    narrowed,
    output,
    projection as projection_of,
    values_operand,
)
from lowprec.arrays.kinds import brings_dtype
from lowprec.arrays.packing import pack, packed_bytes, swizzle, unpack as unpack_codes, unswizzle
from lowprec.arrays.random import Place, integers_for, key_of, words_at
from lowprec.arrays.scaling import given_scales
from lowprec.kernels.engine import Backend
from lowprec.spec import catalog
from lowprec.spec.block import BlockFormat, ScaleRule, rule as rule_of
from lowprec.spec.profiles import Profile, profile as profile_of
from lowprec.spec.projection import DEFAULT, Projection, Saturation
from lowprec.spec.rounding import Rounding

__all__ = ["BlockArray", "asked", "decode", "encode", "quantize"]

_NO_RANDOM = np.empty(0, np.uint32)


@dataclass(frozen=True, eq=False, repr=False)
class BlockArray:
    """An array in a block format: a code for each element, and one for the scale of each block.

    >>> import lowprec as lp
    >>> lp.encode([[1.0, 2.0, 3.0, 448.0]], "mxfp8_e4m3")
    BlockArray of mxfp8_e4m3, shape (1, 4), 1 block of 32 along axis 1, 5 bytes
    >>> lp.encode([[1.0, 2.0, 3.0, 448.0]], "mxfp8_e4m3").scales
    array([[127]], dtype=uint8)

    Parameters
    ----------
    codes : array of uint8, uint16 or uint32, shape (...)
        Codes of the elements, one for each value.
    scales : array of uint8, uint16 or uint32
        Codes of the scales: shape (...), but along the axes of the blocks as many as there are blocks.
        Codes and scales may be Dask arrays or xarray objects: see `compute`.
    format : BlockFormat or str
    axes : int or tuple of int
        Along which the blocks lie: as many as the format has sizes. The last by default.
    tensor_scale : float, optional
        The binary32 number that multiplies everything, where the format has one.

    Raises
    ------
    ValueError
        Shapes that do not fit each other, or numbers that are no codes.

    Source
    ------
    [OCPMX] 5; [NVFP4].
    """

    codes: Array
    scales: Array
    format: BlockFormat
    axes: tuple[int, ...] = ()
    tensor_scale: np.float32 | None = None

    @classmethod
    def _made(
        cls,
        codes: Array,
        scales: Array,
        fmt: BlockFormat,
        axes: tuple[int, ...],
        tensor_scale: np.float32 | None,
    ) -> BlockArray:
        """Of parts that need not be checked, as they were made here."""
        self = object.__new__(cls)
        self.__dict__.update(codes=codes, scales=scales, format=fmt, axes=axes, tensor_scale=tensor_scale)
        return self

    def __post_init__(self) -> None:
        fmt = catalog.block_format(self.format)
        codes, scales = self.codes, self.scales
        is_lazy = lazy.is_lazy(codes) or lazy.is_lazy(scales)
        if not is_lazy:
            codes, scales = codes_operand(codes, fmt.element).codes, codes_operand(scales, fmt.scale).codes
        axes = axes_of(fmt, self.axes if self.axes != () else None, np.ndim(codes))
        wanted = grid_of(codes.shape, axes, fmt.sizes)
        if scales.shape != wanted:
            raise ValueError(
                f"scales of {fmt.name!r} have shape {scales.shape}, but codes of shape {codes.shape} in "
                f"blocks of {_spelled_sizes(fmt)} along {_spelled_axes(axes)} need {wanted}"
            )
        if is_lazy:
            codes, scales = lazy_blocks.parts_of(codes, scales, fmt, axes)
        for name, value in (("format", fmt), ("codes", codes), ("scales", scales), ("axes", axes)):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "tensor_scale", _tensor_scale(fmt, self.tensor_scale))

    def compute(self, **options: Any) -> BlockArray:
        """The same blocks in memory, where codes and scales are Dask arrays; itself, where they are not.

        >>> import dask.array as da, lowprec as lp
        >>> lp.encode(da.ones((4, 64), chunks=32), "mxfp4").compute()
        BlockArray of mxfp4, shape (4, 64), 8 blocks of 32 along axis 1, 136 bytes

        Parameters
        ----------
        **options
            Of `dask.compute`, such as `scheduler`.
        """
        return lazy_blocks.computed(self, options) if self.is_lazy else self

    @property
    def is_lazy(self) -> bool:
        """Whether codes and scales are Dask arrays, or xarray objects, that are computed when needed."""
        return lazy.is_lazy(self.codes)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the values."""
        return self.codes.shape

    @property
    def nbytes(self) -> int:
        """Bytes that it takes once packed, as by `packed`: codes, scales, and the tensor's scale."""
        length = self.shape[self.axes[-1]]
        rows = self.codes.size // length if length else 0
        codes = rows * packed_bytes(length, self.format.element)
        return codes + self.scales.nbytes + (4 if self.tensor_scale is not None else 0)

    def values(self, dtype: npt.DTypeLike | None = None) -> Array:
        """The values, as `lowprec.decode` gives them.

        >>> import lowprec as lp
        >>> lp.encode([1.0, 2.2, 3.0], "mxfp4").values()
        array([1., 2., 3.], dtype=float32)

        Parameters
        ----------
        dtype : dtype, optional
            float32 by default. Each product is rounded to it once, as `decode` says.
        """
        return decode(self, dtype=dtype)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError("the values of a BlockArray are computed, never a view; leave out copy=False")
        exact = dtype is not None and np.dtype(dtype) == np.float64
        values = np.asarray(self.values(np.float64 if exact else None))
        return values if dtype is None else values.astype(dtype, copy=False)

    def __getitem__(self, key: Any) -> BlockArray:
        """A part that begins and ends where blocks do: slices and integers, and none through a block.

        >>> import numpy as np, lowprec as lp
        >>> lp.encode(np.ones((4, 96), np.float32), "mxfp4")[1, 32:]
        BlockArray of mxfp4, shape (64,), 2 blocks of 32 along axis 0, 34 bytes
        """
        keys, ndim = key if isinstance(key, tuple) else (key,), self.codes.ndim
        if sum(item is Ellipsis for item in keys) > 1:
            raise IndexError("an index can only have a single ellipsis ('...')")
        if Ellipsis in keys:
            place = keys.index(Ellipsis)
            keys = (*keys[:place], *[slice(None)] * (ndim - len(keys) + 1), *keys[place + 1 :])
        if len(keys) > ndim:
            raise IndexError(f"too many indices: a BlockArray of shape {self.shape} has {ndim} axes")
        keys = (*keys, *[slice(None)] * (ndim - len(keys)))
        sizes = dict(zip(self.axes, self.format.sizes, strict=True))
        elements, blocks = [], []
        for axis, item in enumerate(keys):
            if not isinstance(item, slice) and (isinstance(item, bool) or not hasattr(item, "__index__")):
                raise TypeError(
                    f"a BlockArray is indexed by integers and slices, not by {item!r}; use .values()[...]"
                )
            elements.append(item)
            blocks.append(self._blocks(axis, item, sizes[axis]) if axis in sizes else item)
        gone = [axis for axis, item in enumerate(keys) if not isinstance(item, slice)]
        axes = tuple(axis - sum(other < axis for other in gone) for axis in self.axes)
        return dataclasses.replace(
            self, codes=self.codes[tuple(elements)], scales=self.scales[tuple(blocks)], axes=axes
        )

    def _blocks(self, axis: int, item: Any, size: int) -> slice:
        """The blocks that a slice along one of the axes of blocks takes."""
        length = self.shape[axis]
        if not isinstance(item, slice):
            raise IndexError(
                f"index {item} along axis {axis} would take one element out of a block of {size}; use "
                ".values()[...]"
            )
        start, stop, step = item.indices(length)
        stop = max(start, stop)
        if step != 1 or start % size or (stop % size and stop != length):
            spelled = ":".join(
                "" if part is None else str(part) for part in (item.start, item.stop, item.step)
            )
            raise IndexError(
                f"{spelled.removesuffix(':')} along axis {axis} cuts through blocks of {size}: "
                f"begin and end at multiples of {size}, in steps of 1, or use .values()[...]"
            )
        return slice(start // size, -(-stop // size))

    # -- layouts --------------------------------------------------------------------------------

    def packed(self) -> Array:
        """The codes without gaps, along the last axis of the blocks.

        Codes of 4 bits two in a byte, the first in the low half; of 6 bits four in three bytes, the
        lowest bits first; of 8 bits and more as they are. Missing ones at the end are zeros.

        >>> import lowprec as lp
        >>> lp.encode([1.0, 2.0, 4.0], "mxfp4").packed()
        array([66,  6], dtype=uint8)
        """
        return pack(self.codes, self.format.element, axis=self.axes[-1])

    @classmethod
    def unpack(
        cls,
        packed: npt.ArrayLike,
        scales: npt.ArrayLike,
        format: BlockFormat | str,
        *,
        axes: int | tuple[int, ...] | None = None,
        size: int | None = None,
        tensor_scale: float | None = None,
    ) -> BlockArray:
        """The array whose `packed` codes these are.

        >>> import numpy as np
        >>> BlockArray.unpack(np.array([66, 6], np.uint8), [127], "mxfp4", size=3).values()
        array([1., 2., 4.], dtype=float32)

        Parameters
        ----------
        packed, scales : array_like of integer
        format : BlockFormat or str
        axes : int or tuple of int, optional
        size : int, optional
            How many codes there are along the last axis of the blocks; as many as fit by default.
        tensor_scale : float, optional
        """
        fmt, array = catalog.block_format(format), np.asarray(packed)
        axes = axes_of(fmt, axes, array.ndim)
        codes = unpack_codes(array, fmt.element, axis=axes[-1], size=size)
        return cls(codes, scales, fmt, axes, tensor_scale)  # type: ignore[arg-type]

    def swizzled(self) -> Array:
        """The scales in the layout that tensor cores read: tiles of 128 rows and 4 columns, flat.

        The last axis is that of the columns, all others together are rows; what a tile lacks is 0.

        Source
        ------
        [CUBLAS] 1-D block scaling factors layout.
        """
        return swizzle(self.scales)

    @staticmethod
    def unswizzle(swizzled: npt.ArrayLike, shape: tuple[int, ...]) -> Array:
        """The scales of that shape whose `swizzled` layout this is."""
        return unswizzle(swizzled, shape)

    def __repr__(self) -> str:
        count = self.scales.size
        parts = [
            f"shape {self.shape}",
            f"{count:,} block{'' if count == 1 else 's'} of {_spelled_sizes(self.format)}",
        ]
        parts[-1] += f" along {_spelled_axes(self.axes)}"
        if self.tensor_scale is not None:
            known = not lazy.is_lazy(self.tensor_scale)
            parts.append(
                f"tensor scale {float(self.tensor_scale):.9g}" if known else "tensor scale not computed"
            )
        return f"BlockArray of {self.format.name}, {', '.join(parts)}, {self.nbytes:,} bytes"


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
    if lazy.is_lazy(values):
        lazy.refuse(values, scales=scales)
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
    if backend in (None, "vector"):
        operand = narrowed(operand)
    shape = operand.array.shape
    axes = axes_of(fmt, axis, len(shape))
    grid = grid_of(shape, axes, fmt.sizes)
    given = (
        None
        if fmt.tensor_scale == "none" and tensor_scale is None
        else _tensor_scale(fmt, tensor_scale, True)
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


def decode(
    blocks: BlockArray,
    dtype: npt.DTypeLike | None = None,
    out: Array | None = None,
    backend: Backend | None = None,
) -> Array:
    """The values of a BlockArray: `lowprec.decode` of one comes here."""
    fmt = blocks.format
    wanted = np.dtype(np.float32 if dtype is None else dtype)
    carrier = next((known for name, known in FLOATS if name == wanted), None)
    if carrier is None:
        raise TypeError(f"values are given as float16, bfloat16, float32 or float64, not {wanted}")
    if blocks.is_lazy:
        lazy.refuse(blocks.codes, out=out)
        verb = functools.partial(decode, dtype=wanted, backend=backend)
        return lazy_blocks.decode(verb, blocks, wanted)  # type: ignore[no-any-return]
    place = output(out, wanted, blocks.shape, f"values of {fmt.name!r}")
    direct = place is not None and place.flags.c_contiguous and place.flags.aligned
    direct = direct and not any(np.may_share_memory(place, part) for part in (blocks.codes, blocks.scales))
    result = place if place is not None and direct else np.empty(blocks.shape, wanted)
    decode_blocks(
        blocks.codes, blocks.scales, fmt, blocks.axes, blocks.tensor_scale, result, carrier, backend
    )
    if place is None or direct:
        return result
    place[...] = result
    return place


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
    if lazy.is_lazy(values):
        lazy.refuse(values, out=out)
        return _lazily(quantize, values, fmt, axis, tensor_scale, random, rng, backend)  # type: ignore[no-any-return]
    operand = values_operand(values)
    kept = np.dtype(np.float64 if operand.fmt == catalog.BINARY64 and brings_dtype(values) else np.float32)
    output(out, kept, operand.array.shape, f"values of {fmt.name!r}")
    return decode(_encode(operand, fmt, axis, tensor_scale, random, rng, backend), kept, out, backend)


def _lazily(
    verb: Callable[..., Any], values: Any, fmt: BlockFormat, axis: Any, tensor_scale: Any, random: Any,
    rng: Any, backend: Backend | None,
) -> Any:  # fmt: skip
    """The same of a lazy array, chunk by chunk."""
    lazy.check(values)
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
    """The block format that the keywords of a verb ask for."""
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


def _spelled_sizes(fmt: BlockFormat) -> str:
    return "x".join(map(str, fmt.sizes))


def _spelled_axes(axes: tuple[int, ...]) -> str:
    return f"axis {axes[0]}" if len(axes) == 1 else f"axes {axes[0]} and {axes[1]}"


def _tensor_scale(fmt: BlockFormat, given: object, computed: bool = False) -> np.float32 | None:
    """A tensor's scale as it is given, checked; none, where it shall be computed."""
    if fmt.tensor_scale == "none":
        if given is not None:
            raise ValueError(
                f"tensor_scale={given!r} is for formats that have one, and {fmt.name!r} has none"
            )
        return None
    if given is None and computed:
        return None
    if lazy.is_lazy(given) and not computed:
        return given  # type: ignore[return-value]
    if given is None:
        raise ValueError(
            f"{fmt.name!r} has a scale of the whole tensor; give tensor_scale=, 1.0 if there is none"
        )
    array = np.asarray(given)
    if array.ndim or array.dtype.kind not in "iuf":
        raise TypeError(f"tensor_scale must be a number, not {given!r}")
    # By its bits: the process may take subnormals for zeros.
    code = convert(values_operand(array), catalog.BINARY32, DEFAULT, np.dtype(np.uint32))
    if not 0 < int(code) <= catalog.BINARY32.max_magnitude:
        raise ValueError(f"tensor_scale={given!r} must be one positive number that float32 holds")
    return np.uint32(code).view(np.float32)


def _random(
    fmt: BlockFormat, shape: tuple[int, ...], axes: tuple[int, ...], random: object, rng: object
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
    """The random integers of elements, and of scales: by their places, in streams 0 and 1 of one key."""
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
