"""Scales of tensors, channels and blocks; and the scale that results seem to have had."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.spec import catalog
from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Format, Sign
from lowprec.spec.rounding import Rounding
from lowprec.verify.codes.display import number
from lowprec.verify.codes.values import as_doubles, doubles
from lowprec.verify.dumps.files import Dump

__all__ = [
    "POWERS",
    "SIZES",
    "Spread",
    "factor_between",
    "float_grid",
    "is_listed",
    "scale_values",
    "shown_factor",
]
__all__ += ["spread_places", "times"]

Array = npt.NDArray[Any]

#: Sizes of blocks that stacks use.
SIZES = (8, 16, 32, 64, 128)
#: Powers of two that every diagnosis of a conversion tries as factors.
POWERS = (-1, 1, -2, 2, -3, 3, -4, 4, -7, 7, -8, 8)
#: Results that a factor is looked for in, and the share and the number of them that it must give.
_LOOKED_AT, _SHARE, _FEW = 1 << 14, 0.9, 8


# -- scales that are given -----------------------------------------------------------------------------


def float_grid(scales: Array, name: str, shape: tuple[int, ...]) -> Array:
    """Return scales with as many axes as the tensor."""
    if catalog.carrier(scales.dtype) is not None and scales.dtype.kind == "V":
        scales = scales.astype(np.float32)  # of ml_dtypes
    if scales.dtype.kind != "f":
        raise ValueError(f"{name} gave scales of {scales.dtype}; those of a format without blocks are floats")
    full = scales.reshape((1,) * len(shape)) if scales.size == 1 else scales
    if full.ndim == 1 and full.size == shape[0]:
        full = full.reshape(-1, *(1,) * (len(shape) - 1))
    if full.ndim != len(shape) or any(
        not count or size % count for size, count in zip(shape, full.shape, strict=True)
    ):
        raise ValueError(
            f"{name} gave scales of shape {scales.shape} for a tensor of shape {shape}; give one for the "
            f"tensor, for each row, or for each block of equal sizes"
        )
    return full


def scale_values(scale: Dump, *, of_hardware: bool = False) -> Array:
    """Return scales as float32, or as float64 where float32 does not hold them.

    Raises ValueError: codes, and what is not positive and finite, which hardware with own scales takes.
    """
    if scale.dtype.kind not in "fV" or scale.unnamed or catalog.carrier(scale.dtype) is None:
        raise ValueError(f"{scale} holds {scale.dtype}; scales are given as values, float16 to float64")
    values = doubles(scale.read(0, scale.size)).reshape(scale.shape)
    wrong = ~(np.isfinite(values) & (values > 0)) & (not of_hardware)
    if wrong.any():
        place = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
        at = f" at index {tuple(int(part) for part in place)}" if place else ""
        raise ValueError(f"{scale} holds {float(values[place])!r}{at}; a scale is a positive, finite number")
    with np.errstate(all="ignore"):
        narrow = values.astype(np.float32)
    return narrow if ((narrow == values) | np.isnan(values)).all() else values


class Spread(Dump):
    """Scales, each as often as there are elements that share it."""

    def __init__(self, name: str, scale: Array, sizes: tuple[int, ...], shape: tuple[int, ...]) -> None:
        self.name, self.dtype, self.shape = name, scale.dtype, shape
        self._scale, self._sizes, self._of = scale, sizes, shape

    def read(self, start: int, stop: int) -> Array:
        """Return elements start to stop, in one dimension."""
        return self.take(np.arange(start, min(stop, self.size)))

    def take(self, index: Array) -> Array:
        """Return the elements at these places."""
        if self._scale.size == 1:
            return np.full(index.shape, self._scale.reshape(())[()])
        parts = np.unravel_index(index, self._of)
        return np.asarray(
            self._scale[tuple(part // size for part, size in zip(parts, self._sizes, strict=True))]
        )


# -- a scale that seems to have been there ---------------------------------------------------------------


def spread_places(size: int) -> Array:
    """Return some places of an array of that many elements, ascending."""
    if size <= _LOOKED_AT:
        return np.arange(size)
    return np.unique(np.random.default_rng(2).integers(0, size, _LOOKED_AT))


def factor_between(numbers: Array, codes: Array, fmt: Format, mode: Rounding) -> float | None:
    """Return the simplest number by which exact numbers were multiplied before they became these codes.

    Each code says between which bounds its factor lies; where nine of ten bounds have a factor in common,
    that is it. None where they have none, or 1.

    >>> import lowprec as lp
    >>> from lowprec.spec.catalog import E4M3FN
    >>> from lowprec.spec.rounding import NEAREST_EVEN
    >>> x = np.linspace(1, 2, 50)
    >>> codes = np.asarray(lp.encode(x * 0.37, "e4m3fn"))
    >>> factor_between(x, codes, E4M3FN, NEAREST_EVEN)
    0.37

    Parameters
    ----------
    numbers : array of float64
    codes : array of integers, as many
        -1 is no code.
    fmt : Format
        Of the codes.
    mode : Rounding
    """
    if isinstance(fmt, Codebook) or fmt.sign is Sign.TWOS_COMPLEMENT:
        return None
    wide = codes.astype(np.int64)
    magnitude, negative = wide & ~fmt.sign_code, (wide & fmt.sign_code) != 0
    used = (wide >= 0) & (magnitude > 0) & (magnitude < fmt.max_magnitude)
    used &= np.isfinite(numbers) & (numbers != 0) & (negative == (numbers < 0))
    if np.count_nonzero(used) < max(_FEW, _SHARE * np.count_nonzero(numbers) / 4):
        return None
    size = np.abs(numbers[used])
    before, at, after = (_values(magnitude[used] + step, fmt) for step in (-1, 0, 1))
    if str(mode).startswith("nearest"):
        before, after = (before + at) / 2, (at + after) / 2
    with np.errstate(all="ignore"):
        low, high = before / size, after / size
    # Through the bounds in order: where most of them are open lies what they have in common.
    ends = np.concatenate([low, high])
    order = np.argsort(ends, kind="stable")
    opened = np.cumsum(np.concatenate([np.ones(low.size), -np.ones(high.size)])[order])
    best = int(np.argmax(opened))
    if opened[best] < _SHARE * low.size or best + 1 == ends.size:
        return None
    first, last = float(ends[order[best]]), float(ends[order[best + 1]])
    return None if first <= 1 <= last else _simplest(first, last)


def _values(magnitudes: Array, fmt: Format) -> Array:
    wide = np.uint32 if fmt.width > 16 else np.uint16 if fmt.width > 8 else np.uint8
    return as_doubles(magnitudes.astype(wide), fmt)


def _simplest(low: float, high: float) -> float:
    """Return a power of two between the bounds, or else the number with the fewest decimal digits."""
    power = 2.0 ** (math.frexp(high)[1] - 1)
    if low <= power <= high:
        return power
    middle = low + (high - low) / 2
    for digits in range(1, 17):
        if low < (found := float(f"{middle:.{digits}g}")) < high:
            return found
    return middle


def is_listed(factor: float) -> bool:
    """Return whether the factor is one of the powers of two that are always tried."""
    fraction, exponent = math.frexp(factor)
    return fraction == 0.5 and exponent - 1 in POWERS


def shown_factor(factor: float) -> str:
    """Return a factor, and the scale that divides by it.

    >>> shown_factor(0.0625), shown_factor(0.37)
    ('2^-4 (a scale of 16)', '0.37 (a scale of 2.7027)')
    """
    return f"{number(factor)} (a scale of {number(float(f'{1 / factor:.6g}'))})"


def times(
    operands: list[Array], sources: tuple[Format, ...], places: Array, factor: float
) -> tuple[str, list[Array], tuple[Format, ...]]:
    """Return the operation that multiplies the first operand by a constant."""
    constant = np.full(operands[0].shape, factor).view(np.uint64)
    return "multiply", [operands[0], constant], (sources[0], catalog.BINARY64)
