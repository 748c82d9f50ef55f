"""Plots of errors: by scale, binade, block, length of a sum and bits.

Floor 4. Imports matplotlib when something is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays.measures.format_results import FormatSweep
from lowprec.plot import data
from lowprec.plot.axes import Plot, axes_of
from lowprec.plot.data.parts import Like
from lowprec.spec.accumulation import Accumulation
from lowprec.spec.block import BlockFormat

__all__ = ["accumulation_error", "block_errors", "error_by_binade", "error_by_bits", "sqnr_by_scale"]


def sqnr_by_scale(
    values: npt.ArrayLike, fmt: Like, *, scales: npt.ArrayLike | None = None, ax: Any = None
) -> Plot[data.SqnrByScale]:
    """Draw the SQNR of values under scales of the whole array; overflow saturates.

    >>> sqnr_by_scale([0.5, 1.0, 6.0], "e2m1fn", scales=[0.5, 1.0, 2.0]).data.best
    1.0

    Parameters
    ----------
    values : array_like of float
    fmt : Format, str or dtype
    scales : array_like of float32, shape (n,), optional
        By default 33, from 2**-6 to 2**2 times that of `lowprec.scale_for` by "mse", as far as float32
        holds them.
    ax : matplotlib.axes.Axes, optional
        By default one of a new figure.

    Raises
    ------
    ImportError
        matplotlib is not installed.
    """
    found = data.sqnr_by_scale(values, fmt, scales=scales)
    ax = axes_of(ax)
    lines = ax.plot(found.scales, found.sqnr, ".-", label=found.format)
    ax.set_xscale("log", base=2)
    ax.set_xlabel("scale")
    ax.set_ylabel("SQNR (dB)")
    ax.legend()
    return Plot(ax, tuple(lines), found)


def error_by_binade(
    values: npt.ArrayLike, results: npt.ArrayLike, *, ax: Any = None
) -> Plot[data.ErrorByBinade]:
    """Draw the largest and the root mean square relative error of results by the binade of the values.

    >>> import lowprec as lp
    >>> error_by_binade([1.0, 3.25], lp.quantize([1.0, 3.25], "e2m1fn")).data.binades
    array([0, 1])

    Parameters
    ----------
    values, results : array_like of float, one shape
        Such as values and what `lowprec.quantize` or another implementation makes of them.
    ax : matplotlib.axes.Axes, optional
        By default one of a new figure.

    Raises
    ------
    ValueError
        Shapes differ.
    ImportError
        matplotlib is not installed.
    """
    found = data.error_by_binade(values, results)
    ax = axes_of(ax)
    lines = ax.plot(found.binades, found.largest, ".-", label="largest")
    lines += ax.plot(found.binades, found.rms, ".-", label="root mean square")
    ax.set_xlabel("binade of the value: exponent of 2")
    ax.set_ylabel("relative error")
    ax.legend()
    return Plot(ax, tuple(lines), found)


def block_errors(
    values: npt.ArrayLike,
    fmt: BlockFormat | str,
    axis: int | tuple[int, ...] | None = None,
    *,
    ax: Any = None,
) -> Plot[data.BlockErrors]:
    """Draw the error of each value in a block format as a heat map, with the borders of blocks.

    >>> block_errors([[1.0, 5.0]], "mxfp4").data.errors
    array([[ 0., -1.]])

    Parameters
    ----------
    values : array_like of float, shape (columns,) or (rows, columns)
    fmt : BlockFormat or str
    axis : int or pair of int, optional
        As for `lowprec.encode`.
    ax : matplotlib.axes.Axes, optional
        By default one of a new figure.

    Raises
    ------
    ValueError
        `values` has neither one axis nor two.
    ImportError
        matplotlib is not installed.
    """
    found = data.block_errors(values, fmt, axis)
    ax = axes_of(ax)
    image = ax.imshow(np.abs(found.errors), cmap="magma_r", aspect="auto", interpolation="nearest")
    rows, columns = (
        range(size, most, size) for size, most in zip(found.size, found.errors.shape, strict=True)
    )
    borders = []
    if found.size[1] > 1:
        borders += [ax.axvline(place - 0.5, color="C0", lw=0.8) for place in columns]
    if found.size[0] > 1:
        borders += [ax.axhline(place - 0.5, color="C0", lw=0.8) for place in rows]
    ax.set_xlabel("column")
    ax.set_ylabel("row")
    ax.figure.colorbar(image, ax=ax, label="absolute error")
    ax.set_title(found.format, loc="left", fontsize="medium")
    return Plot(ax, (image, *borders), found)


def accumulation_error(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    accumulations: Sequence[Accumulation | str],
    *,
    lengths: Sequence[int] | None = None,
    ax: Any = None,
) -> Plot[data.AccumulationError]:
    """Draw how far accumulations are from the exact sums of the first K products, for growing K.

    Sums without an error have no point: the axis is logarithmic.

    >>> accumulation_error([[1.0, 2.0**-24]], [[1.0, 1.0]], ["fp32_fma"]).data.lengths
    array([1, 2])

    Parameters
    ----------
    x, y : array_like of float, shape (rows, K)
        Values of the operands' formats, of at most 24 significant bits.
    accumulations : sequence of Accumulation or str
        Keys of `lowprec.accumulations`, or others.
    lengths : sequence of int, optional
        1 to K; by default powers of two, and K.
    ax : matplotlib.axes.Axes, optional
        By default one of a new figure.

    Raises
    ------
    ValueError
        Shapes that are not those of rows, or a length that the rows do not have.
    ImportError
        matplotlib is not installed.
    """
    found = data.accumulation_error(x, y, accumulations, lengths=lengths)
    ax = axes_of(ax)
    lines: list[Any] = []
    for name, errors in zip(found.accumulations, found.rms, strict=True):
        shown = np.where(errors > 0, errors, np.nan)  # a logarithmic axis has no zero
        lines += ax.plot(found.lengths, shown, ".-", label=name)
    ax.set_xscale("log", base=2)
    if (found.rms > 0).any():
        ax.set_yscale("log")
    ax.set_xlabel("products in the sum, K")
    ax.set_ylabel("error / sum of magnitudes, root mean square")
    ax.legend()
    return Plot(ax, tuple(lines), found)


def error_by_bits(found: FormatSweep, *, ax: Any = None) -> Plot[FormatSweep]:
    """Draw finite SQNRs against bits of candidates of `lowprec.sweep_formats`, and the Pareto front.

    >>> import lowprec as lp
    >>> drawn = error_by_bits(lp.sweep_formats([0.5, 1.0, 6.0], elements=["e2m1fn", "e4m3fn"], sizes=[]))
    >>> drawn.ax.get_ylabel()
    'SQNR (dB)'

    Parameters
    ----------
    found : FormatSweep
    ax : matplotlib.axes.Axes, optional
        By default one of a new figure.

    Raises
    ------
    ImportError
        matplotlib is not installed.
    """
    ax = axes_of(ax)
    artists: list[Any] = []
    for scaling, marker in (("bias", "v"), ("tensor", "s"), ("blocks", "o")):
        rows = [row for row in found.rows if row.scaling == scaling and math.isfinite(row.sqnr)]
        if rows:
            bits, sqnr = [row.bits for row in rows], [row.sqnr for row in rows]
            artists += ax.plot(bits, sqnr, marker, ms=4, alpha=0.5, label=scaling)
    front = [row for row in found.pareto if math.isfinite(row.sqnr)]
    bits, sqnr = [row.bits for row in front], [row.sqnr for row in front]
    artists += ax.step(bits, sqnr, "k-", where="post", label="Pareto front")
    ax.set_xlabel("bits for each value, scales included")
    ax.set_ylabel("SQNR (dB)")
    ax.legend()
    return Plot(ax, tuple(artists), found)
