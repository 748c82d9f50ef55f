"""MXFP4 blocks as NVFP4 blocks with the same values, where that is possible.

Which blocks it is possible for. Elements are 0 or +-o * 2**i with o = 1 (0.5, 1, 2, 4) or 3 (1.5, 3, 6), so
non-zero values of an MXFP4 block are +-o * 2**j. Let s be the scale of an NVFP4 block, the tensor's a power
of two, and let s have the odd part q. All values v = s * t * e need o_v = q * o_e, so q is 1, or it is 3
and o_v = 3, o_e = 1 for all values. Hence only scales 2**p and 1.5 * 2**p can do, and there is one if, for
one of these, all quotients are elements and p lies between -9 and 8: that is looked up.

Floor 3. Source: [OCPMX], [NVFP4].
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lowprec.arrays import convert
from lowprec.arrays.blocks.block import BlockArray
from lowprec.arrays.doubles import real
from lowprec.spec import catalog

__all__ = ["Conversion", "from_mxfp4", "tensor_scale_for"]

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Conversion:
    """Result of converting MXFP4: NVFP4 blocks, and for each whether its values are the same.

    Parameters
    ----------
    blocks : BlockArray
        In "nvfp4".
    exact : array of bool
        Of the shape of the blocks' scales.
    """

    blocks: BlockArray
    exact: Array

    @property
    def is_lossless(self) -> bool:
        """True if all values are the same."""
        return bool(self.exact.all())


def from_mxfp4(blocks: BlockArray, tensor_scale: float | None = None) -> Conversion:
    """Convert MXFP4 to NVFP4, exactly wherever that is possible.

    A block of 32 becomes two of 16. Where all scales lie within 2**17 of each other codes stay as they are,
    and each scale becomes an E4M3 number.

    >>> import numpy as np, lowprec as lp
    >>> x = np.float32([6.0, 0.5] * 16 + [3e-5] * 32 + [1.5e-6, 5e-7] * 16)
    >>> made = from_mxfp4(lp.encode(x, "mxfp4"))
    >>> made.exact
    array([ True,  True,  True,  True, False, False])
    >>> made.blocks.tensor_scale
    np.float32(0.0078125)

    Parameters
    ----------
    blocks : BlockArray
        In "mxfp4".
    tensor_scale : float, optional
        A power of two. By default the one with which most blocks are exact, of these the smallest exponent
        in magnitude.

    Returns
    -------
    conversion : Conversion
        Blocks that cannot be exact are encoded by `lowprec.encode`, with that tensor's scale. Blocks with a
        NaN scale become blocks with a NaN scale, and count as exact.

    Raises ValueError: blocks of another format, or a scale that is no power of two.

    Source: [OCPMX] 5; [NVFP4].
    """
    parts = _parts(blocks)
    codes, exponents, fits, free, nan = parts
    axis, (count, size) = blocks.axes[0], codes.shape[-2:]
    length = blocks.shape[axis]
    shifts, tables = _shifts()
    if tensor_scale is None:
        tensor = _best(_kinds([parts]))
    else:
        fraction, power = np.frexp(np.float32(real(tensor_scale, "tensor_scale")))
        if fraction != 0.5 or float(np.float32(tensor_scale)) != tensor_scale:
            raise ValueError(
                f"tensor_scale={tensor_scale!r} must be a power of two that float32 holds: others have no "
                f"exact blocks; leave it out for the best one"
            )
        tensor = int(power) - 1
    scale = np.ldexp(np.float32(1), tensor)
    given = np.ascontiguousarray(np.moveaxis(blocks.values(np.float64), axis, -1))
    nearest: BlockArray = convert.encode(given, "nvfp4", tensor_scale=float(scale))
    new_scales = nearest.scales.copy()
    new_codes = np.pad(nearest.codes, [(0, 0)] * (given.ndim - 1) + [(0, count * size - length)])
    new_codes = new_codes.reshape(codes.shape)
    done = nan.copy()
    for number, ((shift, half), table) in enumerate(zip(shifts, tables, strict=True)):
        places = exponents + shift - tensor
        now = ~done & fits[..., number] & _is_scale(places, half)
        powers = np.ldexp(1.5 if half else 1.0, np.where(now, places, 0)).astype(np.float32)
        found = np.asarray(convert.encode(powers, "ue4m3"))
        new_scales[now] = found[now]
        new_codes[now] = table[codes[now]]
        done |= now
    zero = free & ~done  # a zero block whose own scale does not fit
    new_codes[zero], done[zero] = codes[zero], True
    new_codes = new_codes.reshape(*given.shape[:-1], count * size)[..., :length]
    made = BlockArray(
        np.moveaxis(new_codes, -1, axis),
        np.moveaxis(new_scales, -1, axis),
        catalog.NVFP4,
        (axis,),
        scale,
    )
    return Conversion(made, np.moveaxis(done, -1, axis))


def tensor_scale_for(parts: Iterable[BlockArray]) -> np.float32:
    """Return the power of two of a tensor's scale with which most blocks of its parts are exact.

    Parameters
    ----------
    parts : iterable of BlockArray
        In "mxfp4".

    Returns
    -------
    tensor_scale : float32
        What `from_mxfp4` takes by default of all parts together.

    Raises ValueError: blocks of another format.
    """
    return np.float32(np.ldexp(1.0, _best(_kinds(_parts(part) for part in parts))))


class _Parts(NamedTuple):
    """Halves of blocks of 32, along the last axis."""

    codes: Array  #: shape (..., halves, 16)
    exponents: Array
    fits: Array  #: of each of `_shifts`, whether all codes have an equal
    free: Array  #: whether any scale will do: NaN, or nothing but zeros
    nan: Array


def _parts(blocks: BlockArray) -> _Parts:
    fmt, wanted = blocks.format, catalog.MXFP4
    if (fmt.element, fmt.scale, fmt.sizes) != (wanted.element, wanted.scale, wanted.sizes):
        raise ValueError(f"from_mxfp4 takes blocks of 'mxfp4', not of {fmt.name!r}")
    axis, size = blocks.axes[0], catalog.NVFP4.sizes[0]
    codes = np.moveaxis(blocks.codes, axis, -1)
    length = codes.shape[-1]
    count = -(-length // size)
    codes = np.pad(codes, [(0, 0)] * (codes.ndim - 1) + [(0, count * size - length)])
    codes = codes.reshape(*codes.shape[:-1], count, size)
    scales = np.repeat(np.moveaxis(blocks.scales, axis, -1), 2, axis=-1)[..., :count]
    nan = scales == catalog.E8M0FNU.nan_code
    fits = np.stack([(table[codes] >= 0).all(axis=-1) for table in _shifts()[1]], axis=-1)
    free = nan | ~(codes & 7).any(axis=-1)
    return _Parts(codes, scales.astype(np.int64) - catalog.E8M0FNU.bias, fits, free, nan)


def _kinds(parts: Iterable[_Parts]) -> tuple[Array, Array]:
    """Return which exponents and fits there are, and how many blocks have each."""
    rows = [
        np.unique(
            np.column_stack([part.exponents[~part.free], part.fits[~part.free]]), axis=0, return_counts=True
        )
        for part in parts
    ]
    whole = np.concatenate([np.zeros((0, 1 + len(_shifts()[0])), np.int64), *(kinds for kinds, _ in rows)])
    kinds, places = np.unique(whole, axis=0, return_inverse=True)
    counts = np.zeros(len(kinds), np.int64)
    np.add.at(
        counts, places.reshape(-1), np.concatenate([np.zeros(0, np.int64), *(each for _, each in rows)])
    )
    return kinds, counts


@functools.cache
def _shifts() -> tuple[list[tuple[int, bool]], list[Array]]:
    """Return powers by which the scale may change, whether it also is 1.5 times that, and the codes then.

    A code that has no equal is -1. No change is the first.
    """
    values = np.asarray(convert.decode(np.arange(16, dtype=np.uint8), "e2m1fn"), np.float64)
    shifts = [
        (shift, half)
        for half in (False, True)
        for shift in sorted(range(-4, 5), key=lambda shift: (abs(shift), shift))
    ]
    tables = []
    for shift, half in shifts:
        wanted = values / (np.ldexp(1.5 if half else 1.0, shift))
        table = np.full(16, -1)
        for code, value in enumerate(wanted):
            same = (values == value) & (np.signbit(values) == np.signbit(value))
            if same.any():
                table[code] = int(np.argmax(same))
        tables.append(table)
    return shifts, tables


def _is_scale(places: Array, half: bool) -> Array:
    """Return whether 2**p, or 1.5 * 2**p, is a number of E4M3: its smallest is 2**-9, its largest 448."""
    return np.asarray((places >= (-8 if half else -9)) & (places <= 8))


def _best(found: tuple[Array, Array]) -> int:
    """Return the power of two of a tensor's scale with which most blocks are exact."""
    kinds, counts = found
    if not counts.size:
        return 0
    tensors = np.array(sorted(range(-149, 128), key=lambda power: (abs(power), power)))
    exact = np.zeros((len(tensors), len(kinds)), bool)
    for (shift, half), fit in zip(_shifts()[0], kinds[:, 1:].T, strict=True):
        exact |= (fit > 0) & _is_scale(kinds[:, 0] + shift - tensors[:, None], half)
    return int(tensors[np.argmax(exact @ counts)])
