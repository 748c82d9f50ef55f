"""Programs of the vector engine that give flags: results by vectors, and then what they signal.

Floor 2b. Imports the vector kernels; never the oracle, which checks them.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy.typing as npt

from lowprec.kernels import engine
from lowprec.kernels.engine import DONE, ElementwiseProgram
from lowprec.kernels.lower.vector import plan
from lowprec.kernels.lower.words import DOUBLE, SINGLE
from lowprec.kernels.request import CONVERT, Elementwise
from lowprec.kernels.vector import flags as judges
from lowprec.kernels.vector.in_parts import NO_FLAGS, InParts, Read, places_of, readers
from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Carrier, Format, Sign
from lowprec.spec.projection import Projection, Saturation

__all__ = ["Flagged", "lower"]

Codes = npt.NDArray[Any]

#: Operations that make NaNs of numbers.
_MAKE_NANS = ("divide", "sqrt")


def lower(request: Elementwise) -> Flagged | None:
    """Return the program of a request with flags, or None where flags need another engine."""
    if request.operation not in judges.OPERATIONS or not _is_plain(request.target, request.projection):
        return None
    if request.operation in _MAKE_NANS and not _shows_nans(request.target, request.projection):
        return None
    if DOUBLE in request.sources and request.operation != CONVERT:  # binary64 does not hold exact results
        return None
    made = engine.lower_by("vector", dataclasses.replace(request, flags=False, backend=None))
    read = readers(*request.sources, request.carrier or request.target)
    return None if made is None or read is None else Flagged(request, made, read)


def _is_plain(target: Format, rule: Projection) -> bool:
    """Return whether results show which finite operands overflowed, and no zero or sign signals anything."""
    shows = target.infinity or rule.saturation is Saturation.FINITE or rule.nan in ("max", "error")
    signed = target.sign is Sign.MAGNITUDE and target.negative_zero and target.subnormals
    return bool(
        (target.sign is Sign.TWOS_COMPLEMENT or (signed and target.min_normal is not None))
        and not isinstance(target, Carrier)
        and rule.nan_code is None
        and (shows or target.has_nan)
    )


def _shows_nans(target: Format, rule: Projection) -> bool:
    """Return whether no result of NaN is a number below the largest one."""
    return target.has_nan or rule.nan in ("max", "error")


def _fits_single(request: Elementwise) -> bool:
    """Return whether binary32 shows which results are exact: it holds all values, and products of two.

    Of a sum it holds the error, whatever the formats.
    """
    formats = (*request.sources, request.target, *([request.carrier] if request.carrier else []))
    if any(isinstance(fmt, Codebook) or not SINGLE.contains(fmt) for fmt in formats):
        return False
    if request.operation in ("convert", "add", "subtract"):
        return True
    return all(
        2 * fmt.precision <= SINGLE.precision
        and 2 * fmt.scaled(1)[1] >= SINGLE.scaled(1)[1]
        and fmt.max_finite**2 <= SINGLE.max_finite
        for fmt in formats[: len(request.sources) + 1]
    )


def _least(target: Format) -> float:
    """Return the smallest normal number, or one that no result has where none are tiny."""
    return -1.0 if target.min_normal is None else target.min_normal


class Flagged(InParts):
    """Results of another program, with their flags."""

    def __init__(self, request: Elementwise, program: ElementwiseProgram, read: list[Read]) -> None:
        super().__init__(request, program.refuses)
        self._program, self._read = program, read
        self._judge, self._plan = judges.judge(request.operation, _fits_single(request)), plan()
        self._least, self._most = _least(request.target), request.target.max_finite
        self._drawn = request.projection.rounding.bits > 0

    def part(self, operands: list[Codes], out: Codes, flags: Codes, random: Codes) -> Codes | None:
        """Write results and flags."""
        if self._program.run(operands, out, NO_FLAGS, random) != DONE:
            return None
        *numbers, results = [read(codes) for read, codes in zip(self._read, (*operands, out), strict=True)]
        x, y, z = (*numbers, *numbers[:1] * (3 - len(numbers)))
        limits = self._least, self._most, self._drawn
        if self._judge(x, y, z, results, flags, *limits, self._plan) != DONE:
            return None
        return places_of(flags == judges.LEFT)
