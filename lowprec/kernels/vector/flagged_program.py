"""Programs of the vector engine that give flags: results by vectors, and then what they signal.

Floor 2b. Imports the vector kernels; never the oracle, which checks them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.kernels import engine
from lowprec.kernels.codes import code_dtype
from lowprec.kernels.engine import DONE, ElementwiseProgram
from lowprec.kernels.lower.vector import plan
from lowprec.kernels.lower.words import DOUBLE, SINGLE
from lowprec.kernels.request import CONVERT, Elementwise
from lowprec.kernels.vector import flags as judges
from lowprec.spec.format import Carrier, Format, Sign
from lowprec.spec.projection import DEFAULT, Projection, Saturation

__all__ = ["FEW", "Flagged", "lower", "numbers_of"]

Codes = npt.NDArray[Any]

#: Results whose flags are found at a time: what that takes stays in the caches.
_PART = 1 << 14

#: Results below which the scalar engine is as fast, unless vectors are asked for.
FEW = 256

_NONE, _NO_RANDOM = np.empty(0, np.uint8), np.empty(0, np.uint32)


def lower(request: Elementwise) -> Flagged | None:
    """Return the program of a request with flags, or None where flags need another engine."""
    if request.operation not in judges.OPERATIONS or not _is_plain(request.target, request.projection):
        return None
    made = engine.lower_by("vector", dataclasses.replace(request, flags=False, backend=None))
    read = [numbers_of(fmt) for fmt in (*request.sources, request.carrier or request.target)]
    if made is None or any(each is None for each in read):
        return None
    return Flagged(request, made, read)  # type: ignore[arg-type]


def _is_plain(target: Format, rule: Projection) -> bool:
    """Whether results show which finite operands overflowed, and no zero or sign signals anything."""
    shows = target.infinity or rule.saturation is Saturation.FINITE or rule.nan in ("max", "error")
    return bool(
        target.sign is Sign.MAGNITUDE
        and target.negative_zero
        and target.subnormals
        and target.min_normal is not None
        and not isinstance(target, Carrier)
        and rule.nan_code is None
        and (shows or target.has_nan)
    )


def numbers_of(fmt: Format) -> Callable[[Codes], Codes] | None:
    """Return what makes numbers of codes, binary32 or binary64 ones; None where vectors cannot."""
    if fmt in (SINGLE, DOUBLE):
        return lambda codes: codes.view(f"f{codes.itemsize}")
    program: ElementwiseProgram | None = engine.lower_by(
        "vector", Elementwise(CONVERT, (fmt,), SINGLE, DEFAULT)
    )
    if program is None:
        return None

    def numbers(codes: Codes) -> Codes:
        words = np.empty(codes.size, code_dtype(SINGLE))
        program.run([codes], words, _NONE, _NO_RANDOM)
        return words.view(np.float32)

    return numbers


class Flagged:
    """Results of another program, with their flags; see `engine.ElementwiseProgram`."""

    draws = in_place = False

    def __init__(
        self, request: Elementwise, program: ElementwiseProgram, read: list[Callable[[Codes], Codes]]
    ) -> None:
        self._request, self._program, self._read = request, program, read
        self._judge, self._plan = judges.judge(request.operation), plan()
        self._least, self._most = request.target.min_normal, request.target.max_finite
        self.refuses = program.refuses

    def run(self, operands: list[Codes], out: Codes, flags: Codes, random: Codes, past: bool = False) -> int:
        """Write results and flags."""
        few = out.size < FEW and self._request.backend is None
        if few or self._program.run(operands, out, _NONE, random, past) != DONE:
            return self._scalar(operands, out, flags, random)
        for start in range(0, out.size, _PART):
            part = slice(start, start + _PART)
            some, signals = out[part], flags[part]
            given = [np.repeat(codes, some.size) if codes.size == 1 else codes[part] for codes in operands]
            self._signal(given, some, signals)
            (left,) = np.nonzero(signals == judges.LEFT)
            if left.size:
                chosen = [codes[left] for codes in given]
                results, found = np.empty(left.size, out.dtype), np.empty(left.size, np.uint8)
                words = random[part][left] if random.size else random
                status = self._scalar(chosen, results, found, words)
                if status != DONE:
                    return status
                signals[left] = found
        return DONE

    def _signal(self, operands: list[Codes], out: Codes, flags: Codes) -> None:
        """Write the flags of results, or LEFT."""
        *numbers, results = [read(codes) for codes, read in zip((*operands, out), self._read, strict=True)]
        x, y, z = (*numbers, *numbers[:1] * (3 - len(numbers)))
        drawn = self._request.projection.rounding.bits > 0
        if self._judge(
            x, y, z, results, flags, self._least, self._most, drawn, self._plan
        ) != DONE:  # fmt: skip
            flags[:] = judges.LEFT

    def _scalar(self, operands: list[Codes], out: Codes, flags: Codes, random: Codes) -> int:
        program = engine.lower(dataclasses.replace(self._request, backend="scalar"))
        status: int = program.run(operands, out, flags, random)
        return status
