"""Codes and their values: NumPy types, float64, NaNs, and distances in codes."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays.checks import UNSIGNED, code_dtype, dtype, typed_codes, values_operand
from lowprec.arrays.convert import decode, encode
from lowprec.spec import catalog
from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Carrier, Format, Sign
from lowprec.spec.projection import Projection
from lowprec.verify.codes import codebooks

__all__ = ["as_doubles", "carried", "carrier_dtype", "carrier_of", "distances", "doubles", "is_nan"]
__all__ += ["is_own", "is_values", "on_grid", "own_dtype", "unsigned", "words_of"]

Array = npt.NDArray[Any]

#: Bits of codes whose values are looked up.
_LOOKED_UP = 16


def is_nan(codes: Array, fmt: Format) -> Array:
    """Return which codes of a format are NaNs."""
    if isinstance(fmt, Codebook):
        return np.isnan(codebooks.values(fmt))[codes]
    wide = codes.astype(np.uint64)
    magnitude = wide & np.uint64(~fmt.sign_code & (1 << fmt.width) - 1)
    above = np.uint64(min(fmt.max_magnitude + fmt.infinity, (1 << 64) - 1))
    nan = (magnitude > above) & (fmt.nans > 0)
    return np.asarray(nan if fmt.negative_zero else nan | (wide == np.uint64(fmt.sign_code)))


def carrier_dtype(fmt: Format) -> np.dtype[Any]:
    """Return the NumPy type of a source wider than 16 bits."""
    names = {"binary32": "float32", "binary64": "float64"}
    return np.dtype(names.get(fmt.name, fmt.name))


def words_of(elements: Array) -> Array:
    """Return the bit patterns of elements; of types that do not fill their bytes the codes."""
    own = catalog.carrier(elements.dtype) if elements.dtype.kind == "V" else None
    return elements.view(UNSIGNED[elements.dtype.itemsize]) if own is None else typed_codes(elements, own)


def own_dtype(fmt: Format) -> np.dtype[Any] | None:
    """Return the type of NumPy or ml_dtypes for a format, or None."""
    try:
        return dtype(fmt)
    except ValueError:
        return None


def is_own(kind: np.dtype[Any], fmt: Format) -> bool:
    """Return whether a type is that of a format's codes; to NumPy None, where there is none, is float64."""
    own = own_dtype(fmt)
    return own is not None and kind == own


def unsigned(codes: Array, fmt: Format, what: str) -> Array:
    """Return codes as unsigned integers; types without a name are bits as they lie."""
    native = codes.astype(codes.dtype.newbyteorder("="), copy=False)
    if is_own(native.dtype, fmt):
        return typed_codes(native, fmt)
    if native.dtype.kind == "i" or native.dtype.type is np.void:
        native = native.view(f"u{native.dtype.itemsize}")
    if native.dtype.kind != "u":
        raise ValueError(f"{what} of {codes.dtype}; codes of {fmt.name!r} are integers or of its own type")
    return native


def is_values(kind: np.dtype[Any], target: Format) -> bool:
    """Return whether results of a type are values, not codes: floats, but for the format's own type."""
    return kind.kind not in "iub" and not is_own(kind, target)


def as_doubles(codes: Array, fmt: Format) -> npt.NDArray[np.float64]:
    """Return the values of codes; of integers of 64 bits the nearest float64."""
    if isinstance(fmt, Carrier):
        return np.asarray(codes.view(carrier_dtype(fmt)).astype(np.float64))
    if fmt.width > _LOOKED_UP or codes.dtype.kind != "u":
        return np.asarray(decode(codes, fmt, dtype=np.float64))
    try:
        return np.asarray(_values(fmt)[codes])
    except IndexError:
        return np.asarray(decode(codes, fmt, dtype=np.float64))  # which names what is no code


@lru_cache(maxsize=32)
def _values(fmt: Format) -> npt.NDArray[np.float64]:
    """Return the values of all codes of a format."""
    return np.asarray(decode(np.arange(1 << fmt.width), fmt, dtype=np.float64))


def doubles(values: Array) -> npt.NDArray[np.float64]:
    """Return values as float64, read by their codes: a cast by NumPy warns of signaling NaNs."""
    given = values_operand(values)
    return as_doubles(given.codes.astype(code_dtype(given.fmt)), given.fmt)  # of this machine's byte order


def carrier_of(kind: np.dtype[Any]) -> Format:
    """Return the format of a type of numbers."""
    found = catalog.carrier(kind)
    assert found is not None
    return found


def carried(codes: Array, fmt: Format, kind: np.dtype[Any]) -> Array:
    """Return the bit patterns of values of a type that codes stand for."""
    return np.asarray(decode(codes, fmt, dtype=kind)).view(UNSIGNED[kind.itemsize])


def on_grid(patterns: Array, kind: np.dtype[Any], target: Format) -> Array:
    """Return codes of values that a format has, -1 for others."""
    source = carrier_of(kind)
    rule = Projection(nan="max" if target.nan_code is None else "error")
    codes = np.asarray(encode(patterns.view(kind), target, projection=rule))
    nan = is_nan(patterns, source)
    same = np.where(nan, target.nan_code is not None, carried(codes, target, kind) == patterns)
    return np.where(same, codes.astype(np.int64), -1)


def distances(got: Array, want: Array, fmt: Format) -> Array:
    """Return by how many codes, in the order of values, results exceed the right ones; both zeros are one.

    >>> from lowprec.spec.catalog import E4M3FN
    >>> distances(np.array([0x39, 0x80, 0xB8]), np.array([0x38, 0x00, 0x38]), E4M3FN)
    array([   1,    0, -112])
    """
    return _place(got, fmt) - _place(want, fmt)


def _place(codes: Array, fmt: Format) -> Array:
    wide = codes.astype(np.int64)
    if isinstance(fmt, Codebook):
        return codebooks.ranks(fmt)[wide]
    negative = (wide & fmt.sign_code) != 0
    if fmt.sign is Sign.TWOS_COMPLEMENT:
        return np.where(negative, wide - (1 << fmt.width), wide)
    return np.where(negative, -(wide & ~fmt.sign_code) - (not fmt.subnormals), wide)  # some have no zero
