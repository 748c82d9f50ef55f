"""An array in a block format: codes of elements and of scales, its values, and its shapes and layouts.

Floor 3.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, ValuesView
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays import lazy
from lowprec.arrays.blocks import lazy_blocks
from lowprec.arrays.blocks.block_products import exact_type, fits_doubles
from lowprec.arrays.blocks.block_shapes import indexed, reshaped
from lowprec.arrays.blocks.block_stream import axes_of, decode_blocks, grid_of, inverse, order_in_memory
from lowprec.arrays.blocks.packing import pack, packed_bytes, swizzle, unpack as unpack_codes, unswizzle
from lowprec.arrays.calls import convert
from lowprec.arrays.checks import FLOATS, Array, as_array, values_operand, values_type
from lowprec.arrays.dlpack import exported
from lowprec.arrays.kinds import check_labels
from lowprec.arrays.lists import is_list
from lowprec.arrays.outputs import output
from lowprec.kernels.engine import Backend
from lowprec.kernels.modes import usual_modes
from lowprec.spec import catalog
from lowprec.spec.block import BlockFormat
from lowprec.spec.projection import DEFAULT

__all__ = ["BlockArray", "decode", "tensor_scale_of"]

#: Elements of a wider type that results of 16 bits go through at a time: 4 or 8 MiB.
_PART = 1 << 20


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

    Notes
    -----
    Verbs that take values (`add`, `encode` ...) read the products of elements and scales exactly, and round
    once. Formats whose products float64 does not hold are refused there; none of the catalog is.

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
        """Return an array of parts that need no check, because the package computed them."""
        self = object.__new__(cls)
        self.__dict__.update(codes=codes, scales=scales, format=fmt, axes=axes, tensor_scale=tensor_scale)
        return self

    def __post_init__(self) -> None:
        fmt = catalog.block_format(self.format)
        codes, scales = self.codes, self.scales
        lazy.check(codes, scales, self.tensor_scale)
        check_labels(codes, scales=scales)
        ndim = np.ndim(codes if lazy.is_lazy(codes) else as_array(codes))
        axes = axes_of(fmt, self.axes if self.axes != () else None, ndim)
        scales = lazy.named_like(codes, "scales", scales, axes)
        tensor = lazy.plain(self.tensor_scale)
        is_lazy = any(map(lazy.is_lazy, (codes, scales, tensor)))
        codes, scales = (
            part if lazy.is_lazy(part) else lazy_blocks.codes_of(part, of)
            for part, of in ((codes, fmt.element), (scales, fmt.scale))
        )
        wanted = grid_of(codes.shape, axes, fmt.sizes)
        if scales.shape != wanted:
            raise ValueError(
                f"scales of {fmt.name!r} have shape {scales.shape}, but codes of shape {codes.shape} in "
                f"blocks of {_spelled_sizes(fmt)} along {_spelled_axes(axes)} need {wanted}"
            )
        if is_lazy:
            codes, scales = lazy_blocks.parts_of(codes, scales, tensor, fmt, axes)
        for name, value in (("format", fmt), ("codes", codes), ("scales", scales), ("axes", axes)):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "tensor_scale", tensor_scale_of(fmt, tensor))

    def compute(self, **options: Any) -> BlockArray:
        """Return the blocks in memory, computed if codes and scales are Dask arrays; else the array itself.

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
        """True if codes and scales are Dask arrays, or xarray objects, that are computed when needed."""
        return lazy.is_lazy(self.codes)

    def _refuse_lazy(self, done: str) -> None:
        """Refuse blocks that are not in memory, or have names, which results of NumPy would lose."""
        if self.is_lazy:
            raise TypeError(
                f"lazy blocks, and those of xarray, are not {done}: compute() them first, and give BlockArray"
                " .to_numpy() of codes and scales that have names"
            )

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the values."""
        return self.codes.shape

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of values."""
        return int(self.codes.size)

    @property
    def nbytes(self) -> int:
        """Bytes that it takes once packed, as by `packed`: codes, scales, and the tensor's scale."""
        length = self.shape[self.axes[-1]]
        rows = self.codes.size // length if length else 0
        codes = rows * packed_bytes(length, self.format.element)
        return codes + self.scales.nbytes + (4 if self.tensor_scale is not None else 0)

    def values(self, dtype: npt.DTypeLike | None = None) -> Array:
        """Return the values, as `lowprec.decode` gives them.

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
        """The values, for NumPy: as `values` gives them, in a float type alone."""
        if copy is False:
            raise ValueError("the values of a BlockArray are computed, never a view; leave out copy=False")
        if dtype is not None and not any(np.dtype(dtype) == known for known, _ in FLOATS):
            raise TypeError(
                f"a BlockArray is an array of its values, in float16, bfloat16, float32 or float64, not in "
                f"{np.dtype(dtype)}; its codes are .codes, without gaps .packed()"
            )
        return np.asarray(self.values(dtype))

    def _exact_values(self) -> Array:
        """Return the values in float64, which operations read; refuse formats whose products it rounds."""
        if not fits_doubles(self.format):
            raise TypeError(
                f"float64 rounds products of elements and scales of {self.format.name!r}, so operations do "
                "not take these blocks: give .values(), which rounds each once"
            )
        return as_array(self.values(np.float64))

    def __array_function__(self, function: Any, types: Any, values: Any, options: Any) -> Any:
        """Call NumPy's function with the values, which it cannot write to; refuse functions that save."""
        if function in (np.save, np.savez, np.savez_compressed, np.savetxt):
            raise TypeError(
                f"numpy.{function.__name__} would save the decoded values, without codes and scales: "
                "lowprec.save(path, {name: blocks}) saves the blocks; give .values() to save values"
            )
        try:
            return function(*_decoded(values), **_decoded(options))
        except ValueError as error:
            if "read-only" in str(error):
                error.add_note(
                    "the values of a BlockArray are computed, so nothing can be written to them; give "
                    ".values(), and encode what becomes of these"
                )
            raise

    def __contains__(self, value: object) -> bool:
        raise TypeError(
            "`in` looks for a value, and blocks hold codes; ask np.any(lp.decode(blocks) == value)"
        )

    def __getitem__(self, key: Any) -> BlockArray:
        """A part that begins and ends where blocks do: slices and integers, and none through a block.

        >>> import numpy as np, lowprec as lp
        >>> lp.encode(np.ones((4, 96), np.float32), "mxfp4")[1, 32:]
        BlockArray of mxfp4, shape (64,), 2 blocks of 32 along axis 0, 34 bytes
        """
        elements, blocks, axes = indexed(key, self.shape, self.axes, self.format.sizes)
        return dataclasses.replace(self, codes=self.codes[elements], scales=self.scales[blocks], axes=axes)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a BlockArray without axes")
        return self.shape[0]

    def __iter__(self) -> Iterator[BlockArray]:
        return (self[place] for place in range(len(self)))

    @property
    def T(self) -> BlockArray:
        """With the axes in reverse order, the blocks' too; a view of the same codes and scales.

        >>> import numpy as np, lowprec as lp
        >>> lp.encode(np.ones((4, 64), np.float32), "mxfp4").T
        BlockArray of mxfp4, shape (64, 4), 8 blocks of 32 along axis 0, 136 bytes
        """
        axes = tuple(len(self.shape) - 1 - axis for axis in self.axes)
        return self._made(self.codes.T, self.scales.T, self.format, axes, self.tensor_scale)

    def _moved(self, order: tuple[int, ...]) -> BlockArray:
        """Return a view with its axes in another order, of blocks in memory."""
        axes = tuple(map(order.index, self.axes))
        codes, scales = self.codes.transpose(order), self.scales.transpose(order)
        return self._made(codes, scales, self.format, axes, self.tensor_scale)

    def reshape(self, *shape: Any) -> BlockArray:
        """Return the blocks in another shape, if no block is cut: the elements keep their order.

        >>> import numpy as np, lowprec as lp
        >>> lp.encode(np.ones((4, 64), np.float32), "mxfp4").reshape(2, 2, -1)
        BlockArray of mxfp4, shape (2, 2, 64), 8 blocks of 32 along axis 2, 136 bytes

        Parameters
        ----------
        *shape : int, or one tuple of int
            One of them may be -1, as for NumPy.

        Raises
        ------
        ValueError
            Blocks that would be cut, or another number of elements.
        """
        self._refuse_lazy("reshaped")
        new, axes = reshaped(shape, self.shape, self.axes, self.format.sizes)
        scales = self.scales.reshape(grid_of(new, axes, self.format.sizes))
        return self._made(self.codes.reshape(new), scales, self.format, axes, self.tensor_scale)

    def copy(self) -> BlockArray:
        """Copy the blocks to memory of their own."""
        codes, scales = self.codes.copy(), self.scales.copy()
        return self._made(codes, scales, self.format, self.axes, self.tensor_scale)

    @usual_modes()
    def __eq__(self, other: object) -> bool:
        """Return whether two arrays have the same shape, axes, format, scales and codes: same bits, NaNs too.

        NumPy compares any other array with the values.
        """
        if not isinstance(other, BlockArray):
            return NotImplemented
        for each in (self, other):
            each._refuse_lazy("compared")
        return (
            (self.shape, self.axes, self.format) == (other.shape, other.axes, other.format)
            and np.array_equal(self.codes, other.codes)
            and np.array_equal(self.scales, other.scales)
            and bool(self.tensor_scale == other.tensor_scale)
        )

    __hash__ = None  # type: ignore[assignment]  # codes and scales can be written to

    def __dlpack__(self, **options: Any) -> Any:
        """The codes without gaps, as `packed` has them, in the element's own type where DLPack has it.

        ``torch.from_dlpack(blocks)`` is float8_e4m3fn of MXFP8, and float4_e2m1fn_x2 of MXFP4 and NVFP4, with
        pairs along the axis of the blocks, as `packed` has them. Scales are not part of it, nor of what
        ``torch.tensor`` and ``torch.as_tensor`` make of blocks: give these ``blocks.values()``.
        """
        return exported(np.ascontiguousarray(self.packed()), self.format.element, options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return np.empty(0, np.uint8).__dlpack_device__()

    # -- layouts --------------------------------------------------------------------------------

    def packed(self) -> Array:
        """Return the codes without gaps, along the last axis of the blocks.

        Codes of 4 bits two in a byte, the first in the low half; of 6 bits four in three bytes, the
        lowest bits first; of 8 bits and more as they are. Missing ones at the end are zeros.

        >>> import lowprec as lp
        >>> lp.encode([1.0, 2.0, 4.0], "mxfp4").packed()
        array([66,  6], dtype=uint8)
        """
        return pack(lazy.plain(self.codes), self.format.element, axis=self.axes[-1])

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
        """Return the array that has these `packed` codes.

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
        fmt, array = catalog.block_format(format), lazy.in_memory("packed", packed)
        axes = axes_of(fmt, axes, array.ndim)
        codes = unpack_codes(array, fmt.element, axis=axes[-1], size=size)
        return cls(codes, scales, fmt, axes, tensor_scale)  # type: ignore[arg-type]

    def swizzled(self) -> Array:
        """Return the scales in the layout that tensor cores read: tiles of 128 rows and 4 columns, flat.

        The last axis counts columns, all others together count rows; missing elements of a tile are 0.

        Source
        ------
        [CUBLAS] 1-D block scaling factors layout.
        """
        return swizzle(lazy.plain(self.scales))

    @staticmethod
    def unswizzle(swizzled: npt.ArrayLike, shape: tuple[int, ...]) -> Array:
        """Return the scales of a shape from their `swizzled` layout."""
        return unswizzle(lazy.in_memory("swizzled", swizzled), shape)

    @usual_modes()
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


def _decoded(given: Any) -> Any:
    """Arguments with values in place of blocks, in sequences and dictionaries too.

    Nothing can be written to these, as it would be lost.
    """
    if isinstance(given, BlockArray):
        values = np.asarray(given)
        values.flags.writeable = False
        return values
    if is_list(type(given)) or isinstance(given, ValuesView):
        return tuple(map(_decoded, given)) if isinstance(given, tuple) else list(map(_decoded, given))
    return {key: _decoded(each) for key, each in given.items()} if type(given) is dict else given


def decode(
    blocks: BlockArray,
    dtype: npt.DTypeLike | None = None,
    out: Array | None = None,
    backend: Backend | None = None,
) -> Array:
    """Return the values of a BlockArray; `lowprec.decode` calls this for one."""
    fmt = blocks.format
    wanted, carrier = values_type(np.float32 if dtype is None else dtype)
    if blocks.is_lazy:
        lazy.refuse(blocks.codes, out=out)
        verb = functools.partial(decode, dtype=wanted, backend=backend)
        return lazy_blocks.decode(verb, blocks, wanted)  # type: ignore[no-any-return]
    place = output(out, wanted, blocks.shape, f"values of {fmt.name!r}")
    order = order_in_memory(blocks.codes)
    if order is not None:
        into = None if place is None else place.transpose(order)
        if into is None or into.flags.c_contiguous:
            values = decode(blocks._moved(order), wanted, into, backend)
            return values.transpose(inverse(order)) if out is None else out
    direct = place is not None and place.flags.c_contiguous and place.flags.aligned
    direct = direct and not any(np.may_share_memory(place, part) for part in (blocks.codes, blocks.scales))
    result = place if place is not None and direct else np.empty(blocks.shape, wanted)
    exact = exact_type(fmt) if backend is None and wanted.itemsize == 2 else None
    if exact is None:
        decode_blocks(
            blocks.codes, blocks.scales, fmt, blocks.axes, blocks.tensor_scale, result, carrier, backend
        )
    else:
        for part in _rows(blocks):
            wide = values_operand(decode(blocks[part], exact))
            convert(wide, carrier, DEFAULT, wanted, out=result[part])
    if place is None:
        return result
    if not direct:
        place[...] = result
    return out  # type: ignore[return-value]


def _rows(blocks: BlockArray) -> Iterator[tuple[slice, ...]]:
    """Yield indices of parts of whole blocks, of about `_PART` elements, along a long axis."""
    enough = (axis for axis, length in enumerate(blocks.shape) if length * _PART >= blocks.size)
    axis = next(enough, blocks.shape.index(max(blocks.shape)))
    length, unit = blocks.shape[axis], dict(zip(blocks.axes, blocks.format.sizes, strict=True)).get(axis, 1)
    step = max(-(-_PART * length // max(blocks.size, 1) // unit), 1) * unit
    for start in range(0, length, step):
        yield (*(slice(None),) * axis, slice(start, start + step))


def _spelled_sizes(fmt: BlockFormat) -> str:
    return "x".join(map(str, fmt.sizes))


def _spelled_axes(axes: tuple[int, ...]) -> str:
    return f"axis {axes[0]}" if len(axes) == 1 else f"axes {axes[0]} and {axes[1]}"


def tensor_scale_of(fmt: BlockFormat, given: object, computed: bool = False) -> np.float32 | None:
    """Return a tensor's scale as given, checked; None where it shall be computed."""
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
    array = as_array(given)
    if array.ndim or array.dtype.kind == "b" or catalog.carrier(array.dtype) is None:
        raise TypeError(f"tensor_scale must be a number of at most 64 bits, not {given!r}")
    # By its bits: the process may take subnormals for zeros.
    code = convert(values_operand(array), catalog.BINARY32, DEFAULT, np.dtype(np.uint32))
    if not 0 < int(code) <= catalog.BINARY32.max_magnitude:
        raise ValueError(f"tensor_scale={given!r} must be one positive number that float32 holds")
    return np.uint32(code).view(np.float32)
