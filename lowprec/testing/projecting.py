"""Projections of real numbers: the kit's own reading, by places on the grid.

A mode is said here by real numbers, one expression each, and not by the thresholds of `Rounding`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Format, Sign
from lowprec.spec.projection import DEFAULT, Projection, Saturation
from lowprec.spec.rounding import MODES
from lowprec.testing import book
from lowprec.testing.grid import Array, Grid, Positions, code_of, grid_of, nan_code, takes_farther


def farther(mode: str, places: Positions) -> Array:
    """Return whether a deterministic mode takes the neighbour farther from zero."""
    return takes_farther(mode, places.magnitude % 2 == 1, places.negative, places.kind)


def beyond_codes(negative: Array, fmt: Format, grid: Grid, policy: Saturation, *, infinite: bool) -> Array:
    """Return the codes of numbers that overflow, or of `infinite` operands; positive ones if unsigned."""
    ends = np.where(negative & (grid.last_negative >= 0), grid.last_negative, grid.last)
    extreme = code_of(ends, negative, fmt)
    if policy is Saturation.FINITE or (policy is Saturation.PROPAGATE and not infinite):
        return extreme
    if fmt.infinity:
        return code_of(np.full_like(ends, grid.last + 1), negative, fmt)
    if fmt.nans or not fmt.negative_zero:
        return np.where(negative, nan_code(fmt, True), nan_code(fmt, False))
    return extreme


def projected(numbers: Sequence[Fraction], fmt: Format, projection: Projection) -> Array:
    """Return the codes of real numbers other than 0, under a projection that `is_plain`."""
    if isinstance(fmt, Codebook):
        return _in_book(numbers, fmt, projection)
    grid = grid_of(fmt)
    if projection.symmetric and fmt.sign is Sign.TWOS_COMPLEMENT:
        grid = grid._replace(last_negative=grid.last)
    places = Positions.of(numbers, grid)
    up = farther(projection.rounding.name, places)
    codes = code_of(np.maximum(places.magnitude + up, 0), places.negative, fmt)
    over = up & (places.magnitude == places.last) & ~(places.negative & (fmt.sign is Sign.UNSIGNED))
    return np.where(
        over, beyond_codes(places.negative, fmt, grid, projection.saturation, infinite=False), codes
    )


def _in_book(numbers: Sequence[Fraction], fmt: Codebook, projection: Projection) -> Array:
    stops = book.stops_of([abs(n) if fmt.sign is Sign.UNSIGNED else n for n in numbers], fmt)
    codes = book.codes_of(stops, fmt, projection)
    if fmt.sign is not Sign.UNSIGNED:
        return codes
    stops = stops._replace(negative=np.array([number < 0 for number in numbers], bool))
    zero, smallest = book.zero_codes(fmt)[0], fmt.values.index(fmt.min_finite)
    nan = book.nan_code(fmt)
    rest = max(zero, smallest) if nan is None else nan
    made = np.where(stops.past, -1, book.codes_of(stops, fmt, projection))
    return np.where(stops.negative, np.where((made == zero) & (zero >= 0), zero, rest), codes)


def is_plain(projection: Projection) -> bool:
    """Return whether a projection does no more than round and saturate numbers, zeros aside."""
    others = {"nan": "error", "nan_payload": "drop", "zero": "nan"}
    if projection.nan_sign != "positive":  # which numbers that overflow to NaN feel
        others["nan_sign"] = "keep"
    numbers = {"rounding": DEFAULT.rounding, "saturation": DEFAULT.saturation, "symmetric": False}
    return projection.rounding in MODES and dataclasses.replace(projection, **others, **numbers) == DEFAULT  # type: ignore[arg-type]
