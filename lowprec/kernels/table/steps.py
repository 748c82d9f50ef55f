"""Conversions of float32 and float64 values to codebooks, looked up: the steps of a projection.

Floor 2b. Imports numba through `jit`, and the scalar engine, whose results these are.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.kernels.codes import code_dtype
from lowprec.kernels.engine import DONE, REFUSED
from lowprec.kernels.general.codebooks import REFUSES, steps_of
from lowprec.kernels.general.program import SHARE, carried
from lowprec.kernels.jit import helper, jit
from lowprec.kernels.lower.codebook import CROWDED, SHIFTS, Ranges, part
from lowprec.kernels.lower.scalar import lower_target
from lowprec.kernels.lower.words import DOUBLE, SINGLE
from lowprec.kernels.request import CONVERT, Elementwise
from lowprec.kernels.scalar import program as scalar
from lowprec.spec.codebook import Codebook

__all__ = ["Steps", "look_up", "serves"]

Codes = npt.NDArray[Any]


def serves(request: Elementwise) -> bool:
    """Return whether results are a step function of one operand's word, and nothing is drawn."""
    return (
        request.operation == CONVERT
        and isinstance(request.target, Codebook)
        and request.sources[0] in (SINGLE, DOUBLE)
        and not request.flags
        and not request.projection.rounding.bits
        and not request.projection.via
        and not request.projection.flushes_operands
        and request.projection.nan_payload == "drop"
    )


class Steps:
    """A program that looks up steps; see `engine.ElementwiseProgram`."""

    draws = in_place = widens = floats = False
    bound = None

    def __init__(self, request: Elementwise) -> None:
        assert isinstance(request.target, Codebook), "of `serves`"
        self._scalar, self._fmt = scalar.lower(request), request.target
        self._request, self._asked = request, request.backend == "table"
        self.refuses: bool = self._scalar.refuses
        self._came = 0

    def run(self, operands: list[Codes], out: Codes, flags: Codes, random: Codes, past: bool = False) -> int:
        """Look up the step of each element."""
        self._came += out.size
        if not self._asked and self._came < SHARE * len(self._fmt.values):
            status: int = self._scalar.run(operands, out, flags, random)
            return status
        ranges, refused = self._found
        (words,) = operands
        if any(is_any_between(words, *runs) for runs in refused):
            return REFUSED
        look_up(words, *ranges, out)
        return DONE

    @functools.cached_property
    def _found(self) -> tuple[Ranges, list[tuple[Any, ...]]]:
        """Return the steps, and the first and the last words of runs of words that are refused, in pairs."""
        request, kind = self._request, code_dtype(self._request.sources[0])
        firsts, answers = steps_of(self._fmt, lower_target(self._fmt, request.projection), kind)
        codes, refused = answers & 0xFFFF, answers >= REFUSES
        lasts = np.append(firsts[1:] - kind.type(1), ~kind.type(0))
        runs = list(zip(firsts[refused], lasts[refused], strict=True))
        pairs = [(*each, *(runs[i + 1] if i + 1 < len(runs) else each)) for i, each in enumerate(runs)]
        values = None if request.carrier is None else carried(self._fmt, request.carrier)
        results = codes.astype(code_dtype(self._fmt)) if values is None else values[codes]
        return part(firsts, results), pairs[::2]


@jit
def is_any_between(words: Codes, first: Any, last: Any, other: Any, end: Any) -> bool:
    """Return whether any word is from `first` to `last`, or from `other` to `end`."""
    found = False
    for i in range(words.size):
        word = words[i]
        found |= ((word >= first) & (word <= last)) | ((word >= other) & (word <= end))
    return found


@jit
def look_up(
    words: Codes, firsts: Codes, results: Codes, entries: Codes, binades: Codes, shift: int, out: Codes
) -> None:
    """Write what a step function is at each word."""
    down = np.uint64(shift)
    within = (np.uint64(1) << down) - np.uint64(1)
    if binades.size == 0:
        for i in range(words.size):
            word = words[i]
            entry = entries[np.uint64(word) >> down]
            out[i] = entry["above"] if word >= entry["first"] else entry["below"]
        return
    for i in range(words.size):
        word = words[i]
        binade = binades[np.uint64(word) >> down]
        place, by = binade >> np.int64(SHIFTS), np.uint64(binade & CROWDED)
        if by == CROWDED:
            entry = entries[place]
            out[i] = entry["below"] if word == entry["first"] else results[searched(firsts, word)]
            continue
        entry = entries[np.uint64(place + np.int64((np.uint64(word) & within) >> by))]
        out[i] = entry["above"] if word >= entry["first"] else entry["below"]


@helper
def searched(firsts: Codes, word: Any) -> np.int64:
    """Return which step a word lies in."""
    start, end = np.int64(0), np.int64(firsts.size)
    while end - start > 1:
        middle = (start + end) >> np.int64(1)
        if word >= firsts[middle]:
            start = middle
        else:
            end = middle
    return start
