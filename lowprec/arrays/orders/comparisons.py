"""Comparisons of codes: integers alone decide.

Floor 3.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays import calls
from lowprec.arrays.checks import Array
from lowprec.arrays.kinds import keeps_kind
from lowprec.arrays.orders.order_parts import ordered, run_in_parts, shape_of
from lowprec.arrays.outputs import output
from lowprec.arrays.signatures import Compare, Returns, TotalOrder
from lowprec.kernels.vector import order as kernels
from lowprec.spec.format import Format
from lowprec.spec.projection import Flag

__all__ = [
    "equal",
    "greater",
    "greater_equal",
    "less",
    "less_equal",
    "not_equal",
    "total_order",
    "unordered",
]

Like = Format | str | npt.DTypeLike

#: What relations are where x is below y, where both are equal, and where either is NaN.
_LESS, _EQUAL, _LESS_EQUAL, _UNORDERED = (
    kernels.Relation(1, 0, 0),
    kernels.Relation(0, 1, 0),
    kernels.Relation(1, 1, 0),
    kernels.Relation(0, 0, 1),
)

#: Where NaNs have places.
_TOTAL = kernels.Relation(1, 1, 0, hides=False)

#: What is signaled where a NaN is.
_INVALID = kernels.Relation(0, 0, int(Flag.INVALID))


def _compared(
    x: npt.ArrayLike, y: npt.ArrayLike, fmt: Like, relation: kernels.Relation, quiet: bool, flags: object
) -> Any:
    """Return a relation of codes. All NaNs are signaled, or signaling ones alone if the relation is quiet."""
    key, done = calls.again_all(("compare", fmt, relation, quiet), (x, y), None, flags, None, None)
    if done is not None:
        return done
    total = relation == _TOTAL
    operands, known, alike = ordered((x, y), fmt)
    signals = output(flags, np.dtype(np.uint8), shape_of(operands), "what is signaled", name="flags")
    compare = kernels.compared(*kernels.kind_of(known, total))
    places = kernels.order_of(known, not total, total)
    signaled = kernels.signaling_order_of(known) if quiet else places

    def part(first: Array, second: Array, out: Array, signals: Array) -> None:
        compare(first, second, out, places, *relation)
        if signals.size and signaled is None:
            signals[...] = 0
        elif signals.size:
            compare(first, second, signals, signaled, *_INVALID)

    return run_in_parts(part, operands, bool, signals, key if alike else None, single=True)


@Returns[Compare]()
@keeps_kind(2, elementwise=True)
def equal(x_codes: npt.ArrayLike, y_codes: npt.ArrayLike, fmt: Like, *, flags: Array | None = None) -> Any:
    """Return whether two codes stand for the same number: -0 equals +0, NaN nothing.

    >>> equal([0x00, 0x38, 0x7F], [0x80, 0x38, 0x7F], "e4m3fn")
    array([ True,  True, False])

    Parameters
    ----------
    x_codes, y_codes : array_like of integer, shapes that broadcast to (...)
        As for `decode`; objects of xarray go by names. To compare values, compare them: ``x < y``.
    fmt : Format, str or dtype
        Of both.
    flags : array of uint8, shape (...), optional
        Where to put what is signaled: an invalid operation for signaling NaNs; by `less` and the
        like for every NaN.

    Returns
    -------
    result : array of bool, shape (...)

    Source
    ------
    [IEEE754] 5.6.1, 5.11.
    """
    return _compared(x_codes, y_codes, fmt, _EQUAL, True, flags)


@Returns[Compare]()
@keeps_kind(2, elementwise=True)
def not_equal(
    x_codes: npt.ArrayLike, y_codes: npt.ArrayLike, fmt: Like, *, flags: Array | None = None
) -> Any:
    """Return whether two codes do not stand for the same number, as NaN never does; see `equal`.

    >>> not_equal([0x00, 0x7F], [0x80, 0x7F], "e4m3fn")
    array([False,  True])
    """
    return ~equal(x_codes, y_codes, fmt, flags=flags)


@Returns[Compare]()
@keeps_kind(2, elementwise=True)
def less(x_codes: npt.ArrayLike, y_codes: npt.ArrayLike, fmt: Like, *, flags: Array | None = None) -> Any:
    """Return whether the number of one code is below that of the other; see `equal`.

    >>> less([0x80, 0x81, 0x7F], [0x00, 0x00, 0x00], "e4m3fn")
    array([False,  True, False])
    """
    return _compared(x_codes, y_codes, fmt, _LESS, False, flags)


@Returns[Compare]()
@keeps_kind(2, elementwise=True)
def less_equal(
    x_codes: npt.ArrayLike, y_codes: npt.ArrayLike, fmt: Like, *, flags: Array | None = None
) -> Any:
    """Return whether the number of one code is not above that of the other, neither a NaN; see `equal`."""
    return _compared(x_codes, y_codes, fmt, _LESS_EQUAL, False, flags)


@Returns[Compare]()
@keeps_kind(2, elementwise=True)
def greater(x_codes: npt.ArrayLike, y_codes: npt.ArrayLike, fmt: Like, *, flags: Array | None = None) -> Any:
    """Return whether the number of one code is above that of the other; see `equal`."""
    return _compared(y_codes, x_codes, fmt, _LESS, False, flags)


@Returns[Compare]()
@keeps_kind(2, elementwise=True)
def greater_equal(
    x_codes: npt.ArrayLike, y_codes: npt.ArrayLike, fmt: Like, *, flags: Array | None = None
) -> Any:
    """Return whether the number of one code is not below that of the other, neither a NaN; see `equal`."""
    return _compared(y_codes, x_codes, fmt, _LESS_EQUAL, False, flags)


@Returns[Compare]()
@keeps_kind(2, elementwise=True)
def unordered(
    x_codes: npt.ArrayLike, y_codes: npt.ArrayLike, fmt: Like, *, flags: Array | None = None
) -> Any:
    """Return whether one of two codes is NaN; see `equal`.

    >>> unordered([0x7F, 0x38], [0x38, 0x38], "e4m3fn")
    array([ True, False])
    """
    return _compared(x_codes, y_codes, fmt, _UNORDERED, True, flags)


@Returns[TotalOrder]()
@keeps_kind(2, elementwise=True)
def total_order(x_codes: npt.ArrayLike, y_codes: npt.ArrayLike, fmt: Like) -> Any:
    """Return whether a code equals or precedes another in total order: -NaN, -Inf ... -0, +0 ... +Inf, +NaN.

    Among positive NaNs signaling ones come first, then the lower payload; among negative ones last. NaNs
    without a sign (of unsigned formats, and of those without -0) all come last, in the order of their codes.
    So no two codes come before each other.

    >>> total_order([0x80, 0x00, 0x7F], [0x00, 0x80, 0x7E], "e4m3fn")
    array([ True, False, False])

    Parameters
    ----------
    x_codes, y_codes, fmt
        As for `equal`.

    Returns
    -------
    result : array of bool, shape (...)

    Source
    ------
    [IEEE754] 5.10. The draft [P3109] 4.12.1 has its NaN first: `lowprec.p3109.TotalOrder`.
    """
    return _compared(x_codes, y_codes, fmt, _TOTAL, True, None)
