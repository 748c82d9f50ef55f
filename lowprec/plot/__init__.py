"""Plots of formats, roundings, errors and codes.

Each function takes `ax=` (by default one of a new figure) and returns a `Plot`: the axes, the artists and the
data that they show. `lowprec.plot.data` has functions of the same names that return the data alone and
need no matplotlib. The extra `plot` installs matplotlib, which is imported when something is drawn.

Floor 4.
"""

from __future__ import annotations

from lowprec.plot import data
from lowprec.plot.axes import Plot
from lowprec.plot.codes import code_confusion, code_usage, ulp_histogram
from lowprec.plot.errors import (
    accumulation_error,
    block_errors,
    error_by_binade,
    error_by_bits,
    sqnr_by_scale,
)
from lowprec.plot.values import number_line, staircase

__all__ = [
    "Plot",
    "accumulation_error",
    "block_errors",
    "code_confusion",
    "code_usage",
    "data",
    "error_by_binade",
    "error_by_bits",
    "number_line",
    "sqnr_by_scale",
    "staircase",
    "ulp_histogram",
]
