"""Plots of formats: their values, and how modes round to them.

Floor 4. Imports matplotlib when something is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from lowprec.plot import data
from lowprec.plot.axes import Plot, axes_of
from lowprec.plot.data.parts import Like
from lowprec.plot.data.values import MODES
from lowprec.spec.rounding import Rounding

__all__ = ["number_line", "staircase"]


def number_line(
    *formats: Like,
    low: float = -math.inf,
    high: float = math.inf,
    log: bool = False,
    ties: bool = False,
    ax: Any = None,
) -> Plot[data.NumberLine]:
    """Draw the finite values of formats on the number line, a line for each.

    >>> drawn = number_line("e2m1fn", "e3m0fn", low=0, ties=True)
    >>> drawn.data.lines[0].values[1:4]
    array([0.5, 1. , 1.5])

    Parameters
    ----------
    *formats : Format, str or dtype
        Of at most 16 bits.
    low, high : float
        Values outside are left out.
    log : bool
        Positive values on a logarithmic axis.
    ties : bool
        Also mark where modes to nearest change from one value to the next.
    ax : matplotlib.axes.Axes, optional
        By default one of a new figure.

    Raises
    ------
    ValueError
        No format; one of more than 16 bits.
    ImportError
        matplotlib is not installed.
    """
    found = data.number_line(*formats, low=low, high=high)
    ax = axes_of(ax, height=0.8 + 0.6 * len(found.lines))
    artists = []
    for place, line in enumerate(found.lines):
        values = line.values[line.values > 0] if log else line.values
        artists += ax.plot(values, [place] * len(values), "|", ms=16, color="C0")
        if ties:
            marks = line.ties[line.ties > 0] if log else line.ties
            artists += ax.plot(marks, [place] * len(marks), ".", ms=4, color="C3")
    if log:
        ax.set_xscale("log", base=2)
    ax.set_yticks(range(len(found.lines)), [line.format for line in found.lines])
    ax.set_ylim(len(found.lines) - 0.5, -0.5)
    ax.set_xlabel("value; dots are ties" if ties else "value")
    return Plot(ax, tuple(artists), found)


def staircase(
    fmt: Like,
    low: float,
    high: float,
    *,
    modes: Iterable[Rounding | str] = MODES,
    points: int = 1025,
    ax: Any = None,
) -> Plot[data.Staircase]:
    """Draw what rounding modes make of the numbers from low to high; overflow saturates.

    >>> drawn = staircase("e2m1fn", 0, 7)
    >>> [line.get_label() for line in drawn.artists]
    ['nearest_even', 'toward_zero', 'toward_positive']

    Parameters
    ----------
    fmt : Format, str or dtype
    low, high : float
        Finite, low below high.
    modes : iterable of Rounding or str
        Without random bits.
    points : int
        2 or more.
    ax : matplotlib.axes.Axes, optional
        By default one of a new figure.

    Raises
    ------
    ValueError
        An empty range, too few points, or a stochastic mode.
    ImportError
        matplotlib is not installed.
    """
    found = data.staircase(fmt, low, high, modes=modes, points=points)
    ax = axes_of(ax)
    artists = []
    for mode, results in zip(found.modes, found.results, strict=True):
        artists += ax.plot(found.inputs, results, label=mode, lw=1)
    ax.plot(found.inputs, found.inputs, ":", color="0.6", lw=1)
    ax.set_xlabel("number")
    ax.set_ylabel(f"value of {found.format}")
    ax.legend()
    return Plot(ax, tuple(artists), found)
