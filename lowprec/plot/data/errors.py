"""Errors: by scale, binade, block and length of a sum.

Floor 4.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lowprec.arrays.blocks.block import encode as encode_blocks
from lowprec.arrays.checks import as_array, values_operand
from lowprec.arrays.dots.dot import dot
from lowprec.arrays.kinds import check_labels
from lowprec.arrays.measures.scale_search import measured
from lowprec.arrays.measures.statistics import error_report, scale_for
from lowprec.plot.data.parts import Array, Doubles, Like
from lowprec.spec import catalog
from lowprec.spec.accumulation import Accumulation
from lowprec.spec.block import BlockFormat

__all__ = [
    "AccumulationError",
    "BlockErrors",
    "ErrorByBinade",
    "SqnrByScale",
    "accumulation_error",
    "block_errors",
    "error_by_binade",
    "sqnr_by_scale",
]


@dataclass(frozen=True, eq=False)
class SqnrByScale:
    """SQNR by scale: what a scale costs.

    Parameters
    ----------
    format : str
    scales : array of float32, shape (n,)
        Ascending.
    sqnr : array of float64, shape (n,)
        In decibels.
    """

    format: str
    scales: npt.NDArray[np.float32]
    sqnr: Doubles

    @property
    def best(self) -> float:
        """The scale of the highest SQNR."""
        return float(self.scales[np.argmax(self.sqnr)])


@dataclass(frozen=True, eq=False)
class ErrorByBinade:
    """Relative errors of results, by the binade of the values.

    Parameters
    ----------
    binades : array of int, shape (n,)
        Ascending: e stands for 2**e <= abs(value) < 2**(e + 1).
    counts : array of int, shape (n,)
    largest, rms : array of float64, shape (n,)
        Of abs(result - value) / abs(value).
    left_out : int
        Zeros, and values or results that are not finite.
    """

    binades: Array
    counts: Array
    largest: Doubles
    rms: Doubles
    left_out: int


@dataclass(frozen=True, eq=False)
class BlockErrors:
    """Errors of a block format, value by value.

    Parameters
    ----------
    format : str
    errors : array of float64, shape (rows, columns)
        Result - value; nan where either is not finite.
    sqnr : array of float64
        In decibels, of each block.
    size : tuple of int
        Rows and columns of a block.
    """

    format: str
    errors: Doubles
    sqnr: Doubles
    size: tuple[int, int]


@dataclass(frozen=True, eq=False)
class AccumulationError:
    """Errors of sums, by accumulation and length.

    Parameters
    ----------
    accumulations : tuple of str
    lengths : array of int, shape (n,)
        Products in a sum, K.
    rms : array of float64, shape (accumulations, n)
        Of (sum - exact sum) / (sum of magnitudes of products), over all rows whose products are not all zero.
    """

    accumulations: tuple[str, ...]
    lengths: Array
    rms: Doubles


def sqnr_by_scale(values: npt.ArrayLike, fmt: Like, *, scales: npt.ArrayLike | None = None) -> SqnrByScale:
    """Return the SQNR of values under scales of the whole array; overflow saturates.

    >>> found = sqnr_by_scale([0.5, 1.0, 6.0], "e2m1fn", scales=[0.5, 1.0, 2.0])
    >>> found.sqnr, found.best
    (array([ 6.16883768,         inf, 21.73186268]), 1.0)

    Parameters
    ----------
    values : array_like of float
    fmt : Format, str or dtype
    scales : array_like of float32, shape (n,), optional
        By default 33 from 2**-6 to 2**2 times the one of `lowprec.scale_for` by "mse", fewer where
        float32 ends.
    """
    target = catalog.format(fmt)
    if scales is None:
        single = np.finfo(np.float32)
        scales = np.float64(scale_for(values, target, "mse")) * np.exp2(np.linspace(-6, 2, 33))
        scales = np.unique(np.clip(scales, single.smallest_subnormal, single.max).astype(np.float32))
    tried = np.sort(np.asarray(scales, np.float32).reshape(-1))
    reports = [error_report(values, target, scale=scale, saturation="finite") for scale in tried]
    return SqnrByScale(target.name, tried, np.array([report.sqnr for report in reports]))


def error_by_binade(values: npt.ArrayLike, results: npt.ArrayLike) -> ErrorByBinade:
    """Return the relative errors of results by the binade of the values.

    >>> import lowprec as lp
    >>> found = error_by_binade([1.0, 1.5, 3.25], lp.quantize([1.0, 1.5, 3.25], "e2m1fn"))
    >>> found.binades, found.counts, found.largest
    (array([0, 1]), array([2, 1]), array([0.        , 0.07692308]))

    Parameters
    ----------
    values, results : array_like of float, one shape
        Such as values and what `lowprec.quantize` or another implementation makes of them.

    Raises
    ------
    ValueError
        Shapes differ; integers that float64 does not hold.
    """
    check_labels(values, results)
    given, found = (measured(values_operand(each).array).astype(np.float64) for each in (values, results))
    if given.shape != found.shape:
        raise ValueError(f"values have shape {given.shape}, and results {found.shape}; they must be equal")
    kept = np.isfinite(given) & np.isfinite(found) & (given != 0)
    given, found = given[kept], found[kept]
    places = np.frexp(given)[1] - 1
    relative = np.abs((found - given) / given)
    binades, where, counts = np.unique(places, return_inverse=True, return_counts=True)
    largest = np.zeros(binades.size)
    np.maximum.at(largest, where, relative)
    squares = np.bincount(where, np.square(relative), binades.size)
    return ErrorByBinade(
        binades.astype(np.int64), counts, largest, np.sqrt(squares / counts), int((~kept).sum())
    )


def block_errors(
    values: npt.ArrayLike, fmt: BlockFormat | str, axis: int | tuple[int, ...] | None = None
) -> BlockErrors:
    """Return the error of each value in a block format.

    >>> found = block_errors([[1.0, 5.0]], "mxfp4")
    >>> found.errors, found.size
    (array([[ 0., -1.]]), (1, 32))

    Parameters
    ----------
    values : array_like of float, shape (columns,) or (rows, columns)
    fmt : BlockFormat or str
    axis : int or pair of int, optional
        As for `lowprec.encode`.

    Raises
    ------
    ValueError
        Another number of axes.
    """
    array = as_array(values)
    if array.ndim not in (1, 2):
        raise ValueError(f"block_errors draws 1 or 2 axes, not {array.ndim}; give a slice of the array")
    blocks = encode_blocks(array, catalog.block_format(fmt), axis)
    report = error_report(array, blocks.format, axis)
    with np.errstate(invalid="ignore"):
        errors = np.asarray(blocks.values(np.float64)) - array.astype(np.float64)
    errors = np.where(np.isfinite(errors), errors, np.nan)
    sizes = dict(zip(blocks.axes, blocks.format.sizes, strict=True))
    size = [sizes.get(place, 1) for place in range(array.ndim)]
    grid = np.asarray(report.by_block, np.float64)
    if array.ndim == 1:
        errors, grid, size = errors[np.newaxis], grid[np.newaxis], [1, *size]
    return BlockErrors(blocks.format.name, errors, grid, (size[0], size[1]))


def accumulation_error(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    accumulations: Sequence[Accumulation | str],
    *,
    lengths: Sequence[int] | None = None,
) -> AccumulationError:
    """Return how far accumulations are from the exact sums of the first K products, for growing K.

    >>> found = accumulation_error([[1.0, 2.0**-24] * 2], [[1.0] * 4], ["fp32_fma"], lengths=[1, 2])
    >>> found.rms.tolist() == [[0.0, 2.0**-24 / (1 + 2.0**-24)]]
    True

    Parameters
    ----------
    x, y : array_like of float, shape (rows, K)
        Values of the operands' formats, of at most 24 significant bits.
    accumulations : sequence of Accumulation or str
        Keys of `lowprec.accumulations`, or others.
    lengths : sequence of int, optional
        1 to K; by default powers of two, and K.

    Raises
    ------
    ValueError
        Shapes that are not those of rows, a length that the rows do not have, or factors that binary32 lacks.

    Notes
    -----
    The exact sum is `math.fsum` of products in float64, which hold them exactly: rounded once, to float64.
    """
    left, right = (np.asarray(as_array(each), np.float32) for each in (x, y))
    for name, narrow, given in (("x", left, x), ("y", right, y)):
        wide = as_array(given)
        if ((narrow != wide) & (wide == wide)).any():
            raise ValueError(f"{name} holds numbers that binary32 does not have; give values of float32")
    if left.ndim != 2 or left.shape != right.shape or not left.size:
        raise ValueError(f"x and y must have one shape (rows, K), not {left.shape} and {right.shape}")
    most = left.shape[1]
    sizes = sorted({*lengths} if lengths is not None else {1 << i for i in range(most.bit_length())} | {most})
    outside = [size for size in sizes if not 1 <= size <= most]
    if outside:
        raise ValueError(f"lengths must lie between 1 and K={most}; {outside[0]} does not")
    products = left.astype(np.float64) * right.astype(np.float64)
    rms = np.zeros((len(accumulations), len(sizes)))
    for place, size in enumerate(sizes):
        exact = np.array([math.fsum(row) for row in products[:, :size]])
        weight = np.array([math.fsum(row) for row in np.abs(products[:, :size])])
        kept = weight > 0
        for row, how in enumerate(accumulations):
            sums = np.asarray(dot(left[:, :size], right[:, :size], how), np.float64)
            errors = (sums - exact)[kept] / weight[kept]
            rms[row, place] = math.sqrt(float(np.mean(np.square(errors)))) if errors.size else 0.0
    names = tuple(how if isinstance(how, str) else how.name for how in accumulations)
    return AccumulationError(names, np.array(sizes), rms)
