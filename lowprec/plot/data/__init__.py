"""The numbers that plots show; no matplotlib is needed.

>>> from lowprec.plot import data
>>> data.number_line("e2m1fn").lines[0].values[-3:]
array([3., 4., 6.])

Floor 4.
"""

from __future__ import annotations

from lowprec.plot.data.codes import (
    CodeConfusion,
    CodeUsage,
    UlpHistogram,
    code_confusion,
    code_usage,
    ulp_histogram,
)
from lowprec.plot.data.errors import (
    AccumulationError,
    BlockErrors,
    ErrorByBinade,
    SqnrByScale,
    accumulation_error,
    block_errors,
    error_by_binade,
    sqnr_by_scale,
)
from lowprec.plot.data.values import Line, NumberLine, Staircase, number_line, staircase

__all__ = [
    "AccumulationError",
    "BlockErrors",
    "CodeConfusion",
    "CodeUsage",
    "ErrorByBinade",
    "Line",
    "NumberLine",
    "SqnrByScale",
    "Staircase",
    "UlpHistogram",
    "accumulation_error",
    "block_errors",
    "code_confusion",
    "code_usage",
    "error_by_binade",
    "number_line",
    "sqnr_by_scale",
    "staircase",
    "ulp_histogram",
]
