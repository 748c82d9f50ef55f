"""Codes: how often they occur, and how far two of them are apart.

Floor 4.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lowprec.arrays.blocks.block import BlockArray
from lowprec.arrays.convert import decode
from lowprec.plot.data.parts import Array, Doubles, Like, codes_of, narrow, pair_of, places
from lowprec.spec import catalog

__all__ = ["CodeConfusion", "CodeUsage", "UlpHistogram", "code_confusion", "code_usage", "ulp_histogram"]


@dataclass(frozen=True, eq=False)
class CodeUsage:
    """Counts of how often codes occur.

    Parameters
    ----------
    format : str
    codes : array of int, shape (2**width,)
        In ascending order of their values, NaNs last.
    values : array of float64, shape (2**width,)
    counts : array of int, shape (2**width,)
    """

    format: str
    codes: Array
    values: Doubles
    counts: Array


@dataclass(frozen=True, eq=False)
class UlpHistogram:
    """Counts of distances between two results, in places of the format.

    Parameters
    ----------
    format : str
    distances : array of int, shape (n,)
        Actual - expected, ascending; those that occur.
    counts : array of int, shape (n,)
    no_distance : int
        Pairs of which one is a NaN. Two NaNs have distance 0, as have -0 and 0.
    """

    format: str
    distances: Array
    counts: Array
    no_distance: int


@dataclass(frozen=True, eq=False)
class CodeConfusion:
    """Counts of how often an old code became a new one.

    Parameters
    ----------
    formats : tuple of str
        Of old and of new codes.
    counts : array of int, shape (2**width, 2**width)
        At [old code, new code].
    """

    formats: tuple[str, str]
    counts: Array


def code_usage(codes: npt.ArrayLike | BlockArray, fmt: Like | None = None) -> CodeUsage:
    """Return how often each code of a format of at most 16 bits occurs.

    >>> import lowprec as lp
    >>> found = code_usage(lp.encode([0.4, 0.5, 6.0, 9.0], "e2m1fn", saturation="finite"), "e2m1fn")
    >>> dict(zip(found.values[found.counts > 0].tolist(), found.counts[found.counts > 0].tolist()))
    {0.5: 2, 6.0: 2}

    Parameters
    ----------
    codes : array_like of integer, or BlockArray
        Of a BlockArray the codes of its elements.
    fmt : Format, str or dtype, optional
        Left out for a BlockArray.

    Raises
    ------
    ValueError
        No format; one of more than 16 bits; numbers that are no codes.
    """
    if isinstance(codes, BlockArray):
        fmt = codes.format.element
        codes = codes.codes
    if fmt is None:
        raise ValueError("code_usage needs the format of the codes, such as 'e4m3fn'")
    known = narrow(fmt, 16, "code_usage")
    given = codes_of(codes, known)
    every = np.arange(1 << known.width)
    values = np.asarray(decode(every, known, dtype=np.float64))
    order = np.lexsort((~np.signbit(values), values))
    counts = np.bincount(given, minlength=every.size)
    return CodeUsage(known.name, every[order], values[order], counts[order])


def ulp_histogram(expected: npt.ArrayLike, actual: npt.ArrayLike, fmt: Like) -> UlpHistogram:
    """Return how many places of the format lie between expected and actual codes.

    >>> found = ulp_histogram([0x38, 0x38, 0x80, 0x7F], [0x38, 0x3A, 0x01, 0x00], "e4m3fn")
    >>> found.distances, found.counts, found.no_distance
    (array([0, 1, 2]), array([1, 1, 1]), 1)

    Parameters
    ----------
    expected, actual : array_like of integer, one shape
        Codes.
    fmt : Format, str or dtype

    Raises
    ------
    ValueError
        Shapes differ; numbers that are no codes.
    """
    known = catalog.format(fmt)
    want, got = pair_of("expected", expected, known, "actual", actual, known)
    ours, theirs = (np.isnan(np.asarray(decode(codes, known, dtype=np.float64))) for codes in (want, got))
    distances = places(got, known) - places(want, known)
    distances[ours & theirs] = 0
    found, counts = np.unique(distances[ours == theirs], return_counts=True)
    return UlpHistogram(known.name, found, counts, int((ours != theirs).sum()))


def code_confusion(
    old: npt.ArrayLike, new: npt.ArrayLike, fmt: Like, new_fmt: Like | None = None
) -> CodeConfusion:
    """Return how often each old code became each new one; formats of at most 8 bits.

    >>> found = code_confusion([1, 1, 2], [1, 2, 2], "e2m1fn")
    >>> found.counts[1, :3]
    array([0, 1, 1])

    Parameters
    ----------
    old, new : array_like of integer, one shape
        Codes.
    fmt, new_fmt : Format, str or dtype
        Of the old and of the new codes; by default both have the first one.

    Raises
    ------
    ValueError
        Shapes differ; a format of more than 8 bits; numbers that are no codes.
    """
    before = narrow(fmt, 8, "code_confusion")
    after = before if new_fmt is None else narrow(new_fmt, 8, "code_confusion")
    first, second = pair_of("old", old, before, "new", new, after)
    flat = np.bincount((first << after.width) + second, minlength=1 << (before.width + after.width))
    return CodeConfusion((before.name, after.name), flat.reshape(1 << before.width, 1 << after.width))
