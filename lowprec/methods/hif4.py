"""HiFloat4: blocks of 64 elements of 4 bits under scales on three levels, 4.5 bits a value.

A block has one scale of 8 bits, a bit for each of its 8 eighths and a bit for each of its 16 sixteenths. A
bit that is set doubles the values of its part. `BlockFormat` has one scale a block, so the format is put
together here from the verbs: each step is one operation, rounded once.

Floor 3b. Source: [HIF4].

Notation:

    amax    the largest magnitude of a block, an eighth or a sixteenth
    scale   of a block: 2**-48 to 49152, with two trailing bits
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays import arith, convert
from lowprec.arrays.checks import values_operand
from lowprec.arrays.doubles import doubles
from lowprec.spec.format import Format, Sign
from lowprec.spec.formats import BFLOAT16, SM4F2

__all__ = ["ELEMENT", "SCALE", "HiF4Array", "decode", "encode", "quantize"]

Bytes = npt.NDArray[np.uint8]
Bits = npt.NDArray[np.bool_]

#: Of the elements: a sign and a magnitude in quarters, to 1.75.
ELEMENT = SM4F2

#: Of a block's scale: no sign, no zero; the last code is NaN.
SCALE = Format(
    name="ue6m2",
    exponent_bits=6,
    trailing_bits=2,
    bias=48,
    sign=Sign.UNSIGNED,
    nans=1,
    subnormals=False,
    source="HIF4",
)

_SIZE = 64
_PARTS = (8, 2, 4)  # eighths, sixteenths in each, elements in each


@dataclass(frozen=True, eq=False)
class HiF4Array:
    """An array in HiFloat4, in blocks along its last axis.

    >>> import numpy as np
    >>> array = encode(np.float32([[7.0, -3.0, 0.3, 0.0], [0.5, 0.5, 0.5, 0.5]]))
    >>> array.shape, array.scales.tolist(), array.nbytes
    ((2, 4), [[192], [177]], 72)

    Parameters
    ----------
    shape : tuple of int
        Of the values. The last block of a row is filled up with zeros.
    scales : array of uint8, shape (..., blocks)
        Codes of `SCALE`.
    eighths : array of bool, shape (..., blocks, 8)
        Whether the 8 values of an eighth are doubled.
    sixteenths : array of bool, shape (..., blocks, 16)
        Whether the 4 values of a sixteenth are doubled (once more).
    codes : array of uint8, shape (..., blocks, 64)
        Codes of `ELEMENT`.

    Source: [HIF4].
    """

    shape: tuple[int, ...]
    scales: Bytes
    eighths: Bits
    sixteenths: Bits
    codes: Bytes

    @property
    def nbytes(self) -> int:
        """Bytes of the blocks in memory: 36 each. The order of bits in them is not published."""
        return 36 * self.scales.size

    def __repr__(self) -> str:
        return f"HiF4Array of shape {self.shape}, {self.scales.size:,} blocks of 64, {self.nbytes:,} bytes"


def encode(x: npt.ArrayLike) -> HiF4Array:
    """Return an array in HiFloat4.

    1. The scale is amax * (1/7), with the inverse and the product rounded to bfloat16, brought between 2**-48
       and 49152, and rounded to `SCALE`, ties to even.
    2. r is 1 / scale, rounded to bfloat16. Products with it are exact below.
    3. An eighth is doubled where its amax * r reaches 4; then a sixteenth where its amax * r, halved if its
       eighth is doubled, reaches 2.
    4. An element is x * r, halved for each doubling, rounded to `ELEMENT`, ties away from zero, at most 1.75.

    >>> import numpy as np
    >>> decode(encode(np.float32([7.0, 0.3, -3.1, 0.1]))).tolist()
    [7.0, 0.0, -3.0, 0.0]

    Parameters
    ----------
    x : array_like of real numbers, shape (..., n)
        Of any type. A block with a NaN or an infinity has a NaN for its scale and elements of code 0: the
        authors' code leaves that open.

    Raises TypeError: values that are no real numbers. ValueError: an integer that float64 does not have, or
    one number instead of an array.

    Source: [HIF4], the authors' `To_HiFX` with N = 4.
    """
    values = _real(x)
    rows = values.reshape(math.prod(values.shape[:-1]), values.shape[-1])
    blocks = -(-rows.shape[1] // _SIZE)
    padded = np.zeros((len(rows), blocks * _SIZE), values.dtype)
    padded[:, : rows.shape[1]] = rows
    known = np.isfinite(padded.reshape(-1, _SIZE)).all(axis=1)
    parts = np.where(np.isfinite(padded), padded, 0).reshape(-1, *_PARTS)
    amax = np.abs(parts).max(axis=3, keepdims=True)
    seventh = convert.quantize(1 / 7, BFLOAT16)
    wanted = arith.multiply(amax.max(axis=(1, 2, 3)), seventh, BFLOAT16, saturation="finite")
    scales = convert.encode(np.maximum(wanted, np.ldexp(1.0, -48)), SCALE, saturation="finite")
    inverse = arith.divide(1.0, convert.decode(scales, SCALE), BFLOAT16).reshape(-1, 1, 1, 1)
    eighths = _reaches(4, amax.max(axis=2, keepdims=True), inverse)
    halved = np.ldexp(inverse, -1 * eighths)
    sixteenths = _reaches(2, amax, halved)
    halved = np.ldexp(halved, -1 * sixteenths)
    elements = arith.multiply(parts, halved, ELEMENT, rounding="nearest_away", saturation="finite")
    codes = convert.encode(elements, ELEMENT)
    scales[~known] = SCALE.nan_code
    shape = (*values.shape[:-1], blocks)
    lost = ~known.reshape(-1, 1)
    return HiF4Array(
        values.shape,
        scales.reshape(shape),
        np.where(lost, False, eighths.reshape(-1, 8)).reshape(*shape, 8),
        np.where(lost, False, sixteenths.reshape(-1, 16)).reshape(*shape, 16),
        np.where(lost, 0, codes.reshape(-1, _SIZE)).astype(np.uint8).reshape(*shape, _SIZE),
    )


def decode(array: HiF4Array) -> npt.NDArray[np.float32]:
    """Return the values of an array in HiFloat4, exactly, as float32.

    >>> import numpy as np
    >>> bool(np.isnan(decode(encode(np.float32([1.0, np.inf])))).all())
    True

    Source: [HIF4].
    """
    doublings = array.eighths.reshape(-1, 8, 1, 1) + array.sixteenths.reshape(-1, 8, 2, 1).astype(np.int32)
    elements = convert.decode(array.codes, ELEMENT).reshape(-1, *_PARTS)
    scales = convert.decode(array.scales, SCALE).reshape(-1, 1, 1, 1)
    blocks = array.scales.shape[-1]
    rows = np.ldexp(elements * scales, doublings).reshape(*array.shape[:-1], blocks * _SIZE)
    return np.ascontiguousarray(rows[..., : array.shape[-1]], dtype=np.float32)


def quantize(x: npt.ArrayLike) -> npt.NDArray[np.float32]:
    """Return the values that an array has in HiFloat4: ``decode(encode(x))``.

    >>> quantize([7.0, 0.26, -0.1, 5.0]).tolist()
    [7.0, 0.0, -0.0, 5.0]

    Raises TypeError, ValueError: as `encode`.

    Source: [HIF4].
    """
    return decode(encode(x))


def _real(x: npt.ArrayLike) -> npt.NDArray[Any]:
    """Return an array of at least one axis, in float32 or float64."""
    values = values_operand(x, "x").array
    if values.ndim == 0:
        raise ValueError("HiFloat4 has blocks along the last axis, and x is one number; give an array")
    if values.dtype == np.float32:
        return values
    return doubles(values, "x")


def _reaches(limit: int, amax: npt.NDArray[Any], inverse: npt.NDArray[Any]) -> Bits:
    """Return whether the exact product is the limit or more: a product cut to bfloat16 is, if and only if."""
    cut = arith.multiply(amax, inverse, BFLOAT16, rounding="toward_zero", saturation="finite")
    return np.asarray(cut >= limit)
