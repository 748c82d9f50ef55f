"""Codes and their order.

Floor 4.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays.checks import codes_operand
from lowprec.arrays.convert import decode
from lowprec.arrays.kinds import check_labels
from lowprec.spec import catalog
from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Format, Sign

__all__ = ["Array", "Doubles", "Like", "codes_of", "narrow", "pair_of", "places"]

Array = npt.NDArray[Any]
Doubles = npt.NDArray[np.float64]
Like = Format | str | npt.DTypeLike


def narrow(fmt: Like, bits: int, what: str) -> Format:
    """Return a format of which every code can be shown."""
    known = catalog.format(fmt)
    if known.width > bits:
        raise ValueError(f"{what} shows formats of at most {bits} bits, and {known.name!r} has {known.width}")
    return known


def codes_of(codes: npt.ArrayLike, fmt: Format) -> npt.NDArray[np.int64]:
    """Return codes in a row, checked."""
    return codes_operand(codes, fmt).codes.reshape(-1).astype(np.int64)


def pair_of(
    first: str, one: npt.ArrayLike, fmt: Format, second: str, other: npt.ArrayLike, other_fmt: Format
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return two rows of codes of one shape."""
    shapes = np.shape(one), np.shape(other)
    if shapes[0] != shapes[1]:
        raise ValueError(
            f"{first} codes have shape {shapes[0]}, and {second} ones {shapes[1]}; they must be equal"
        )
    check_labels(one, other)
    return codes_of(one, fmt), codes_of(other, other_fmt)


def places(codes: npt.NDArray[np.int64], fmt: Format) -> npt.NDArray[np.int64]:
    """Return places of codes among the values of their format, consecutive integers; of NaNs any."""
    if isinstance(fmt, Codebook):
        values = np.asarray(decode(np.arange(1 << fmt.width), fmt, dtype=np.float64))
        return np.unique(values, return_inverse=True)[1].reshape(-1).astype(np.int64)[codes]
    if fmt.sign is Sign.UNSIGNED:
        return codes
    negative = codes >= fmt.sign_code
    if fmt.sign is Sign.TWOS_COMPLEMENT:
        return np.where(negative, codes - 2 * fmt.sign_code, codes)
    magnitudes = codes & (fmt.sign_code - 1)
    return np.where(negative, -magnitudes - (not fmt.subnormals), magnitudes)
