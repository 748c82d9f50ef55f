"""Conversions to codebooks, looked up: the steps of a projection, and where a word's upper bits begin.

A deterministic conversion is a step function of the operand's word: results change at a few words only. The
scalar kernel finds them, by its results next to all values and thresholds; then a word's upper bits say at
which step to look, and a few comparisons how many more are passed.

Floor 2b. Imports numba through `jit`, and the scalar engine, whose results these are.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lowprec.kernels.codes import code_dtype
from lowprec.kernels.engine import DONE, REFUSED
from lowprec.kernels.jit import jit
from lowprec.kernels.lower.words import DOUBLE, SINGLE
from lowprec.kernels.request import CONVERT, Elementwise
from lowprec.kernels.scalar import program as scalar
from lowprec.kernels.table.refusals import attempt_all
from lowprec.spec.codebook import Codebook

__all__ = ["Steps", "serves"]

Codes = npt.NDArray[Any]

#: Upper bits of a word that steps are looked up by, at least and at most.
_FEWEST, _MOST = 10, 16

#: Steps are made for arrays of at least so many elements for each of them.
_SHARE = 4

_NO_FLAGS = np.empty(0, np.uint8)


def serves(request: Elementwise) -> bool:
    """Return whether results are a step function of one operand's word, and neither flags nor draws asked."""
    return (
        request.operation == CONVERT
        and isinstance(request.target, Codebook)
        and request.sources[0] in (SINGLE, DOUBLE)
        and not request.flags
        and not request.projection.rounding.bits
        and not request.projection.via
        and request.projection.subnormals in ("keep", "flush_results")
        and request.projection.nan_payload == "drop"
    )


class _Found(NamedTuple):
    """The steps of a request."""

    firsts: Codes  #: the first word of each step, ascending; then as many of all ones as are compared
    results: Codes
    refused: Codes  #: 1 for steps whose words are refused
    starts: Codes  #: the step that each value of the upper bits begins in
    shift: int
    depth: int  #: comparisons that find a word's step from there


class Steps:
    """A program that looks up steps; see `engine.ElementwiseProgram`."""

    draws = in_place = False

    def __init__(self, request: Elementwise) -> None:
        assert isinstance(request.target, Codebook), "of `serves`"
        self._scalar, self._fmt = scalar.lower(request), request.target
        self._request, self._asked = request, request.backend == "table"
        self.refuses: bool = self._scalar.refuses
        self._found: _Found | None = None

    def run(self, operands: list[Codes], out: Codes, flags: Codes, random: Codes, past: bool = False) -> int:
        """Look up the step of each element."""
        if not self._asked and out.size < _SHARE * len(self._fmt.values):
            status: int = self._scalar.run(operands, out, flags, random)
            return status
        if self._found is None:  # two threads may both find them, which are the same
            self._found = self._find()
        firsts, results, refused, starts, shift, depth = self._found
        return look_up_steps(operands[0], firsts, results, refused, starts, shift, depth, out)

    def _find(self) -> _Found:
        fmt, kind = self._fmt, code_dtype(self._request.sources[0])
        words = _words_next_to(fmt, kind)
        results = np.empty(words.size, code_dtype(self._request.carrier or fmt))
        refused = attempt_all(self._scalar, [words], results, _NO_FLAGS)
        changes = (results[1:] != results[:-1]) | (refused[1:] != refused[:-1])
        assert np.all(np.diff(words)[changes] == 1), "a step between two words that were looked at"
        at = np.concatenate([[0], np.nonzero(changes)[0] + 1])
        firsts = words[at]
        width = 8 * kind.itemsize
        for upper in range(_FEWEST, _MOST + 1):
            shift = width - upper
            begins = np.arange(1 << upper, dtype=kind) << kind.type(shift)
            starts = np.searchsorted(firsts, begins, side="right") - 1
            ends = np.searchsorted(firsts, begins | kind.type((1 << shift) - 1), side="right") - 1
            passed = int((ends - starts).max())
            if passed <= 1:
                break
        depth = passed.bit_length()
        # A word of all ones, a NaN, passes the padding too: there the last step goes on.
        padded = np.concatenate([firsts, np.full(1 << depth, -1).astype(kind)])
        at = np.concatenate([at, np.full(1 << depth, at[-1])])
        narrow = np.uint16 if firsts.size <= 1 << 16 else np.uint32
        return _Found(padded, results[at], refused[at], starts.astype(narrow), shift, depth)


def _words_next_to(fmt: Codebook, kind: np.dtype[Any]) -> Codes:
    """Return the words of all numbers where results may change, and of those next to them."""
    numbers = {0.0}
    for ray in (fmt.ray(False), fmt.ray(True)):
        points = (*ray.sizes, *ray.thresholds, ray.beyond)
        numbers |= {abs(float(point)) for point in points if point is not None}
    single = kind.itemsize == 4
    with np.errstate(over="ignore", under="ignore"):
        floats = np.array(sorted(numbers)).astype(np.float32 if single else np.float64)
    near = np.concatenate([floats.view(kind), np.array([np.inf], floats.dtype).view(kind)]).astype(np.int64)
    last = (1 << 8 * kind.itemsize - 1) - 1
    sizes = np.unique(np.clip(np.add.outer(near, np.arange(-2, 3)), 0, last)).astype(kind)
    sizes = np.append(sizes, kind.type(last))
    return np.unique(np.concatenate([sizes, sizes | kind.type(last + 1)]))


@jit
def look_up_steps(
    words: Codes,
    firsts: Codes,
    results: Codes,
    refused: Codes,
    starts: Codes,
    shift: int,
    depth: int,
    out: Codes,
) -> int:
    """Write the result of each word's step; return whether any is refused."""
    down, most = words.dtype.type(shift), np.int64(1) << depth >> 1
    if depth == 1:
        any_refused = np.uint8(0)
        for i in range(words.size):
            word = words[i]
            step = np.int64(starts[np.int64(word >> down)])
            step += np.int64(word >= firsts[step + 1])
            out[i] = results[step]
            any_refused |= refused[step]
        return REFUSED if any_refused else DONE
    any_refused = np.uint8(0)
    for i in range(words.size):
        word = words[i]
        step = np.int64(starts[np.int64(word >> down)])
        ahead = most
        while ahead > 0:
            step += ahead if word >= firsts[step + ahead] else np.int64(0)
            ahead >>= 1
        out[i] = results[step]
        any_refused |= refused[step]
    return REFUSED if any_refused else DONE
