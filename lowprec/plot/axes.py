"""Results of plots, and the axes that they draw on.

Floor 4. Imports matplotlib when something is drawn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

__all__ = ["Plot", "axes_of"]

Data = TypeVar("Data")


@dataclass(frozen=True)
class Plot(Generic[Data]):
    """Result of a plot: what was drawn, and where.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
        `ax.figure.savefig("name.png")` writes its figure.
    artists : tuple of matplotlib.artist.Artist
        In the order in which they were drawn.
    data : dataclass of `lowprec.plot.data`
        The numbers that they show.
    """

    ax: Any
    artists: tuple[Any, ...]
    data: Data


def axes_of(ax: Any, width: float = 7, height: float = 4) -> Any:
    """Return the axes, or those of a new figure of this size in inches.

    Raises
    ------
    ImportError
        matplotlib is not installed.
    """
    if ax is not None:
        return ax
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError("plots need matplotlib: pip install 'lowprec[plot]'") from None
    return Figure(figsize=(width, height), layout="constrained").subplots()
