"""Plots of codes: which are used, how far results are apart, what became what.

Floor 4. Imports matplotlib when something is drawn.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays.blocks.block import BlockArray
from lowprec.plot import data
from lowprec.plot.axes import Plot, axes_of
from lowprec.plot.data.parts import Like

__all__ = ["code_confusion", "code_usage", "ulp_histogram"]


def code_usage(
    codes: npt.ArrayLike | BlockArray, fmt: Like | None = None, *, ax: Any = None
) -> Plot[data.CodeUsage]:
    """Draw how often each code of a format of at most 16 bits occurs, in the order of their values.

    >>> import lowprec as lp
    >>> code_usage(lp.encode([0.5, 0.5, 6.0], "e2m1fn"), "e2m1fn").data.counts.sum()
    np.int64(3)

    Parameters
    ----------
    codes : array_like of integer, or BlockArray
        Of a BlockArray the codes of its elements.
    fmt : Format, str or dtype, optional
        Left out for a BlockArray.
    ax : matplotlib.axes.Axes, optional
        By default one of a new figure.

    Raises
    ------
    ValueError
        No format; one of more than 16 bits; numbers that are no codes.
    ImportError
        matplotlib is not installed.
    """
    found = data.code_usage(codes, fmt)
    ax = axes_of(ax)
    bars = ax.bar(range(found.counts.size), found.counts, width=1)
    marks = np.linspace(0, found.counts.size - 1, min(9, found.counts.size)).astype(int)
    ax.set_xticks(marks, [f"{found.values[mark]:g}" for mark in marks])
    ax.set_xlabel(f"codes of {found.format}, by value")
    ax.set_ylabel("count")
    return Plot(ax, (bars,), found)


def ulp_histogram(
    expected: npt.ArrayLike, actual: npt.ArrayLike, fmt: Like, *, ax: Any = None
) -> Plot[data.UlpHistogram]:
    """Draw how many places of the format lie between expected and actual codes.

    >>> ulp_histogram([0x38, 0x38], [0x38, 0x39], "e4m3fn").data.counts
    array([1, 1])

    Parameters
    ----------
    expected, actual : array_like of integer, one shape
        Codes.
    fmt : Format, str or dtype
    ax : matplotlib.axes.Axes, optional
        By default one of a new figure.

    Raises
    ------
    ValueError
        Shapes differ; numbers that are no codes.
    ImportError
        matplotlib is not installed.
    """
    found = data.ulp_histogram(expected, actual, fmt)
    ax = axes_of(ax)
    bars = ax.bar(found.distances, found.counts, width=1)
    ax.set_yscale("symlog")
    ax.set_xlabel(f"actual - expected, in values of {found.format}")
    ax.set_ylabel("count")
    if found.no_distance:
        ax.set_title(f"{found.no_distance:,} where one is NaN", fontsize="medium")
    return Plot(ax, (bars,), found)


def code_confusion(
    old: npt.ArrayLike,
    new: npt.ArrayLike,
    fmt: Like,
    new_fmt: Like | None = None,
    *,
    ax: Any = None,
) -> Plot[data.CodeConfusion]:
    """Draw how often each old code became each new one; formats of at most 8 bits.

    >>> code_confusion([1, 1, 2], [1, 2, 2], "e2m1fn").data.counts.trace()
    np.int64(2)

    Parameters
    ----------
    old, new : array_like of integer, one shape
        Codes.
    fmt, new_fmt : Format, str or dtype
        Of the old and of the new codes; by default both have the first one.
    ax : matplotlib.axes.Axes, optional
        By default one of a new figure.

    Raises
    ------
    ValueError
        Shapes differ; a format of more than 8 bits; numbers that are no codes.
    ImportError
        matplotlib is not installed.
    """
    found = data.code_confusion(old, new, fmt, new_fmt)
    ax = axes_of(ax, width=5.5, height=5)
    image = ax.imshow(np.log1p(found.counts), cmap="magma_r", origin="lower", interpolation="nearest")
    ax.set_xlabel(f"new code, {found.formats[1]}")
    ax.set_ylabel(f"old code, {found.formats[0]}")
    ax.figure.colorbar(image, ax=ax, label="log(1 + count)")
    return Plot(ax, (image,), found)
