"""Convert codes to codes of another format, any to any."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from lowprec.kernels.general.numbers import read
from lowprec.kernels.general.rounding import drawn_limit, load_target, project
from lowprec.kernels.jit import in_wide_vectors, jit, load_record
from lowprec.kernels.lower.records import REFUSED, Source

_U = np.uint64
_0 = _U(0)
_REFUSED = _U(REFUSED)


@functools.cache
def converter(stochastic: bool, signals: bool) -> Any:
    """Return the kernel of conversions."""

    def convert(codes, source_words, out, target_words, random, flags):
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
