"""Checks of the data and the scale of a ScaledArray. Floor 4."""

from __future__ import annotations

from typing import Any

import numpy as np

from lowprec.arrays.checks import Array, as_array, values_operand
from lowprec.arrays.convert import decode, encode
from lowprec.methods.scale_propagation.config import current
from lowprec.methods.scale_propagation.rounding import carrier
from lowprec.spec import catalog
from lowprec.spec.format import Carrier, Format
from lowprec.spec.projection import Flag


def checked_data(data: Any, fmt: Any) -> tuple[Array, Format]:
    """Return data in the type that carries their format, and the format; refuse values that it lacks."""
    operand = values_operand(data, "data")
    target = format_of(operand.fmt) if fmt is None else catalog.format(fmt)
    flags = np.zeros(operand.array.shape, np.uint8)
    codes = np.asarray(encode(operand.array, target, flags=flags))
    made = np.asarray(decode(codes, target, dtype=carrier(target)))
    wrong = (made != operand.array) & ~((made != made) & (operand.array != operand.array))
    wrong |= flags & Flag.INEXACT != 0  # of integers that NumPy compares as float64
    if wrong.any():
        first = tuple(int(i) for i in np.unravel_index(int(np.argmax(wrong)), wrong.shape))
        raise ValueError(
            f"data have values that {target.name!r} does not have: {int(wrong.sum()):,} of {wrong.size:,}, "
            f"the first at index {first}: {operand.array[first]}. as_scaled(values, scale, {target.name!r}) "
            "rounds them"
        )
    return made, target


def checked_scale(scale: Any, fmt: Any) -> tuple[Any, Format]:
    """Return a scale in the type that carries its format, and the format; refuse one that it lacks."""
    given, known = number("scale", scale), catalog.carrier(getattr(scale, "dtype", None))
    if fmt is not None:
        target = catalog.format(fmt)
    else:
        target = current().scale_format if known is None or isinstance(known, Carrier) else known
    if given < 0:
        raise ValueError(f"scale={given!r} is negative; scales are 0 or more, and the sign is the data's")
    if np.isfinite(given) and given and float(decode(encode(given, target), target)) != given:
        raise ValueError(
            f"scale={given!r} is no value of {target.name!r}; round it first, for instance with pow2_round, "
            f"or give scale_format="
        )
    return carrier(target).type(given), target


def finite_scale(scale: Any, fmt: Any) -> tuple[Any, Format]:
    """Apply `checked_scale`, and refuse infinity and NaN: values are divided by this scale."""
    given, target = checked_scale(scale, fmt)
    if not np.isfinite(given):
        raise ValueError(
            f"scale={float(given)!r} is not finite: values over it, times it again, would be NaN. Give a "
            f"finite scale; ScaledArray(data, scale) takes data that are meant at such a one"
        )
    return given, target


def check_zero(scale: Any, values: Any) -> None:
    """Refuse a scale of 0 for an array that is not zero."""
    if scale == 0 and (lost := np.count_nonzero(values)):
        raise ValueError(
            f"scale=0.0 would make zeros of {lost:,} values that are none: 0 is the scale of an array of "
            f"zeros. Give a positive scale, or none; set_scaling(x, 0) makes an array zero"
        )


def format_of(fmt: Format) -> Format:
    """Return the format of values of a type: their own; binary32, the widest, for float64 and integers."""
    return catalog.BINARY32 if isinstance(fmt, Carrier) else fmt


def number(name: str, given: Any) -> float:
    """Return a single number, of any type that holds one, as Python's float or int, unrounded."""
    array = given.to_array() if hasattr(given, "to_array") else as_array(given)
    if array.ndim or catalog.carrier(array.dtype) is None:
        raise TypeError(
            f"{name} must be a single number, not {given!r}; for scales of channels or blocks see "
            f"lowprec.scale_for and block formats"
        )
    return int(array) if array.dtype.kind in "iu" else float(array)
