"""Codes of a format in arrays: the types that hold them, and which of them are NaNs.

Integers decide it, so that a signaling NaN raises nothing and the modes of the process change nothing.

Floor 2b. Imports spec and NumPy.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Format, Sign

__all__ = ["as_floats", "as_words", "code_dtype", "nans", "signaling_nans", "unlocked", "values_of"]

Codes = npt.NDArray[Any]
Truth = npt.NDArray[np.bool_]


def code_dtype(fmt: Format) -> np.dtype[np.unsignedinteger[Any]]:
    """Return the narrowest unsigned integer type that holds a code."""
    return np.dtype(f"u{fmt.code_bits // 8}")


@functools.lru_cache(maxsize=64)
def values_of(fmt: Codebook) -> npt.NDArray[np.uint64]:
    """Return the value of each code of a codebook, as binary64; a NaN is the quiet positive one."""
    values = np.array(fmt.values, np.float64)
    words = np.where(np.isnan(values), np.uint64(0x7FF8 << 48), values.view(np.uint64))
    words.flags.writeable = False
    return words


def nans(codes: Codes, fmt: Format) -> Truth:
    """Say which codes are NaNs; bits above a code's count for nothing."""
    if isinstance(fmt, Codebook):
        kinds = np.isnan(values_of(fmt).view(np.float64))
        return np.asarray(kinds[codes & codes.dtype.type(kinds.size - 1)])
    if fmt.sign is Sign.TWOS_COMPLEMENT:
        return np.zeros(codes.shape, bool)
    # A Python integer keeps the type of the codes, which holds every code of the format.
    magnitude = codes & ((1 << fmt.width) - 1 - fmt.sign_code)
    found = magnitude > fmt.max_magnitude + fmt.infinity
    if not fmt.negative_zero:
        found |= codes == fmt.sign_code
    return np.asarray(found)


def signaling_nans(codes: Codes, fmt: Format) -> Truth:
    """Say which codes are signaling NaNs."""
    if fmt.quiet_bit is None:
        return np.zeros(codes.shape, bool)
    return np.asarray(nans(codes, fmt) & (codes != fmt.sign_code) & (codes & fmt.quiet_bit == 0))


#: Vector kernels are given words of 32 and 64 bits as the floats that most are: for two types they would be
#: compiled twice, and a view takes as long as a kernel that has little to do.
_FLOATS = {np.dtype(f"u{size}"): np.dtype(f"f{size}") for size in (4, 8)}
_WORDS = {floats: words for words, floats in _FLOATS.items()}


def as_floats(codes: Codes) -> Codes:
    """View words of 32 and 64 bits as binary32 and binary64 numbers, others as they are."""
    kind = _FLOATS.get(codes.dtype)
    return codes if kind is None else codes.view(kind)


def as_words(codes: Codes) -> Codes:
    """View numbers of `as_floats` as words."""
    kind = _WORDS.get(codes.dtype)
    return codes if kind is None else codes.view(kind)


#: Of ndarray.flags.
_WRITEABLE = 0x400


class _Memory:
    """Memory of another array, which it holds, for NumPy to view."""

    def __init__(self, array: Codes) -> None:
        self.held = array
        place = array.__array_interface__["data"][0]
        self.__array_interface__ = {**array.__array_interface__, "data": (place, False)}


def unlocked(array: Codes) -> Codes:
    """Return the array, writeable: kernels write to no operand, so one compiled variant is enough."""
    return array if array.flags.num & _WRITEABLE else np.asarray(_Memory(array))
