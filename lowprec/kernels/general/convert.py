"""Convert codes to codes of another format, in 64-bit lanes without a branch: any binary format to any.

Floor 2b. Imports numba through `jit`; never the oracle, which checks it.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from lowprec.kernels.general.numbers import read
from lowprec.kernels.general.rounding import drawn_limit, load_target, project
from lowprec.kernels.jit import in_wide_vectors, jit, load_record
from lowprec.kernels.lower.records import REFUSED, Source

__all__ = ["converter"]

_U = np.uint64
_0 = _U(0)
_REFUSED = _U(REFUSED)


@functools.cache
def converter(stochastic: bool, signals: bool) -> Any:
    """Return the kernel of conversions.

    It writes codes, and flags where `signals`, and returns whether any result has no code. Projections that
    flush results need `signals`.
    """

    def convert(codes: Any, source_words: Any, out: Any, target_words: Any, random: Any, flags: Any) -> bool:
        in_wide_vectors()
        source, target = load_record(Source, source_words, 0), load_target(target_words)
        refused = False
        for i in range(codes.size):
            drawn = drawn_limit(_U(random[i]), target.grid) if stochastic else _0
            code, raised = project(read(codes[i], source), False, drawn, target, stochastic, signals)
            out[i] = code
            if signals:
                flags[i] = raised
            refused |= code == _REFUSED
        return refused

    return jit(convert, f"general_convert_{stochastic:d}{signals:d}")
