"""Values of formats, and what modes round to them.

Floor 4.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from lowprec.arrays.convert import decode, quantize
from lowprec.plot.data.parts import Array, Doubles, Like, narrow
from lowprec.spec import catalog
from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Format
from lowprec.spec.rounding import Rounding, rounding

__all__ = ["Line", "NumberLine", "Staircase", "number_line", "staircase", "MODES"]

#: Modes that a staircase has by default.
MODES = ("nearest_even", "toward_zero", "toward_positive")


@dataclass(frozen=True, eq=False)
class Line:
    """The finite values of a format.

    Parameters
    ----------
    format : str
    codes : array of integer, shape (n,)
        In ascending order of their values.
    values : array of float64, shape (n,)
    ties : array of float64
        Between each value and the next: where modes to nearest change from one to the other.
    """

    format: str
    codes: Array
    values: Doubles
    ties: Doubles


@dataclass(frozen=True, eq=False)
class NumberLine:
    """Values of formats, a line for each.

    Parameters
    ----------
    lines : tuple of Line
    """

    lines: tuple[Line, ...]


@dataclass(frozen=True, eq=False)
class Staircase:
    """Numbers, and what each rounding mode makes of them.

    Parameters
    ----------
    format : str
    modes : tuple of str
    inputs : array of float64, shape (n,)
        Ascending, at equal distances.
    results : array of float64, shape (modes, n)
    """

    format: str
    modes: tuple[str, ...]
    inputs: Doubles
    results: Doubles


def number_line(*formats: Like, low: float = -math.inf, high: float = math.inf) -> NumberLine:
    """Return the finite values of formats of at most 16 bits, and the ties between them.

    >>> line = number_line("e2m1fn", low=0).lines[0]
    >>> line.values
    array([0. , 0.5, 1. , 1.5, 2. , 3. , 4. , 6. ])
    >>> line.ties
    array([0.25, 0.75, 1.25, 1.75, 2.5 , 3.5 , 5.  ])

    Parameters
    ----------
    *formats : Format, str or dtype
    low, high : float
        Values outside are left out.

    Raises
    ------
    ValueError
        No format; one of more than 16 bits.
    """
    if not formats:
        raise ValueError("number_line needs a format, such as 'e4m3fn'")
    return NumberLine(tuple(_line(narrow(fmt, 16, "number_line"), low, high) for fmt in formats))


def _line(fmt: Format, low: float, high: float) -> Line:
    """Return the values of a format, -0 left out where there is a zero beside it."""
    codes = np.arange(1 << fmt.width)
    values = np.asarray(decode(codes, fmt, dtype=np.float64))
    kept = np.isfinite(values)
    if np.count_nonzero(values == 0) > 1:
        kept &= ~((values == 0) & np.signbit(values))
    codes, values = codes[kept], values[kept]
    order = np.argsort(values, kind="stable")
    codes, values = codes[order], values[order]
    if isinstance(fmt, Codebook):
        ties = np.array([float(each) for each in fmt.thresholds])
    else:
        ties = values[:-1] + (values[1:] - values[:-1]) / 2
    inside = (values >= low) & (values <= high)
    codes, values, ties = codes[inside], values[inside], ties[inside[:-1] & inside[1:]]
    return Line(fmt.name, codes, values, ties)


def staircase(
    fmt: Like, low: float, high: float, *, modes: Iterable[Rounding | str] = MODES, points: int = 1025
) -> Staircase:
    """Return numbers from low to high and what rounding modes make of them; overflow saturates.

    >>> staircase("e2m1fn", 2, 3, modes=["nearest_even", "toward_zero"], points=5).results
    array([[2., 2., 2., 3., 3.],
           [2., 2., 2., 2., 3.]])

    Parameters
    ----------
    fmt : Format, str or dtype
    low, high : float
        Finite, low below high.
    modes : iterable of Rounding or str
        Without random bits.
    points : int
        2 or more.

    Raises
    ------
    ValueError
        An empty range, too few points, or a stochastic mode.
    """
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError(f"staircase needs finite limits, low below high, not {low} and {high}")
    if points < 2:
        raise ValueError(f"points={points} of a staircase is too few; use 2 or more")
    known = [rounding(mode) for mode in modes]
    drawn = [mode.name for mode in known if mode.bits]
    if drawn:
        raise ValueError(f"a staircase has no random integers for {drawn[0]!r}; use modes without them")
    target, inputs = catalog.format(fmt), np.linspace(low, high, points)
    results = [
        np.asarray(quantize(inputs, target, rounding=mode, saturation="finite"), np.float64) for mode in known
    ]
    return Staircase(
        target.name, tuple(mode.name for mode in known), inputs, np.array(results).reshape(-1, points)
    )
