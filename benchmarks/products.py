"""Rows about products of matrices: two square matrices of a format's values, as an accumulation says.

Some results are compared with the oracle's, and more of them with loops in NumPy where these are exact
but for the roundings that are meant.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks import peers
from benchmarks.contest import Contest, Flags, same_floats, sampled
from benchmarks.data import matrices
from benchmarks.operations import has_operation
from benchmarks.timing import Contender
from benchmarks.topics import Job
from lowprec.arrays.checks import dtype
from lowprec.arrays.convert import decode
from lowprec.arrays.dots import dot as dots
from lowprec.oracle import dot as oracle
from lowprec.oracle.convert import decode as decode_exactly
from lowprec.oracle.exact import to_float
from lowprec.spec import catalog
from lowprec.spec.accumulation import Accumulation, Window
from lowprec.spec.accumulations import ACCUMULATIONS
from lowprec.spec.block import BlockFormat
from lowprec.spec.families import ieee
from lowprec.spec.format import Format
from lowprec.spec.order import chunked
from lowprec.spec.projection import Projection

__all__ = ["ProductContest", "accumulation_of", "has_product", "product_contest"]

Array = npt.NDArray[Any]

#: Places that the oracle is asked about; rows and columns of which loops in NumPy are.
_SAMPLE, _CROSSED = 6, 64

_SINGLE = (catalog.BINARY32, Projection())

#: Where sums of a group are kept: 26 bits in 64 binades.
_GROUP = ieee("e6m25", 6, 25)


def accumulation_of(variant: str, fmt: Format) -> Accumulation | None:
    """Return the accumulation of a variant for operands of a format, if there is one.

    "groups_of_16" is VeriFloat's `Accumulator(FP32, "sequential", group=16, align_bits=25)`: products of a
    group are cut to 25 bits below the largest, their sum is exact, and is added to the running sum to
    nearest. It is that as long as sums of a group need no more than 26 bits and nothing is cut; where
    something is, VeriFloat goes by the largest product's exponent, and lowprec by those of its factors.
    """
    if variant == "groups_of_16":
        return Accumulation(
            name=f"groups_of_16_{fmt.name}",
            operands=(fmt, fmt),
            order=chunked(16),
            accumulator=Window(step=16, fraction_bits=25, result=(_GROUP, Projection())),
            total=_SINGLE,
            output=_SINGLE,
        )
    return ACCUMULATIONS.get(f"hopper_wgmma_{fmt.name}_binary32" if variant == "hopper_wgmma" else variant)


def has_product(fmt: Format | BlockFormat, variant: str, kind: str) -> bool:
    """Return whether a format has a row: NumPy or ml_dtypes has its codes, and float32 its values.

    >>> [has_product(fmt, "hopper_wgmma", "normal") for fmt in (catalog.E5M2, catalog.E3M4)]
    [True, False]
    """
    return (
        kind in ("normal", "hard")
        and has_operation(fmt, "add")
        and has_operation(fmt, "add codes")
        and isinstance(fmt, Format)
        and accumulation_of(variant.removesuffix(" codes"), fmt) is not None
    )


def product_contest(job: Job) -> ProductContest:
    """Return the work of a row."""
    assert isinstance(job.fmt, Format)
    variant, _, codes = job.variant.partition(" ")
    how = accumulation_of(variant, job.fmt)
    assert how is not None, "the row has work"
    work = peers.Work(variant, matrices(job.kind, job.fmt, job.size), job.fmt, threads=job.threads, how=how)
    return ProductContest(job, work, how, bool(codes))


@dataclass(frozen=True)
class ProductContest(Contest):
    """A product of two matrices, passed as arrays of ml_dtypes' type or of float32."""

    work: peers.Work
    how: Accumulation
    on_codes: bool

    @functools.cached_property
    def _values(self) -> tuple[Array, Array]:
        x, y = (np.asarray(decode(codes, self.work.fmt)) for codes in self.work.operands)
        return x.astype(np.float32, copy=False), y.astype(np.float32, copy=False)

    def contenders(self, found: Sequence[peers.Peer]) -> Iterator[Contender]:
        """Yield all that take part: NumPy's float32 product is the yardstick, the oracle one of the rest."""
        work, threads = self.work, self.job.threads
        native = dtype(work.fmt)
        x, y = (codes.view(native) for codes in work.operands) if self.on_codes else self._values
        how = self.how.name if self.how.name in ACCUMULATIONS else self.how
        call = functools.partial(dots.matmul, x, y, how)
        yield Contender("lowprec", "ours", False, call, np.asarray, threads)
        yield Contender(
            "np.matmul", "yardstick", False, functools.partial(np.matmul, *self._values), None, threads
        )
        if self.on_codes:
            if work.verb in ("exact", "hopper_wgmma"):
                way = peers.fractions(work)
                yield Contender("own Fractions", "own", False, way.call, way.read, threads, way.share)
            yield from self.others(found, work)

    def witnesses(self) -> Iterator[tuple[str, Array | None, Array]]:
        """Yield the oracle, and a loop in NumPy where one is exact."""
        size = self.job.size
        places = sampled(size * size, _SAMPLE)
        yield "the oracle", places, self._truth(places)
        crossed = sampled(size, _CROSSED)
        looped = self._looped(crossed)
        if looped is not None:
            yield "a loop in NumPy", np.add.outer(crossed * size, crossed).reshape(-1), looped

    def where(self, place: int) -> str:
        """Return the row and the column."""
        row, column = divmod(place, self.job.size)
        return f"row {row}, column {column}:"

    def differing(self, got: Array, want: Array) -> Flags:
        """Return where results differ, other than in which NaN it is."""
        return ~same_floats(got, want)

    def _truth(self, places: Array) -> Array:
        (left, right), fmt, results = self.work.operands, self.work.fmt, []
        for row, column in zip(*np.divmod(places, self.job.size), strict=True):
            factors = left[row].tolist(), right[:, column].tolist()
            x, y = ([decode_exactly(code, fmt) for code in codes] for codes in factors)
            results.append(to_float(decode_exactly(oracle.dot(x, y, self.how), self.how.output[0])))
        return np.array(results, np.float32)

    def _looped(self, crossed: Array) -> Array | None:
        """Return the results of a loop in NumPy in some rows and columns, if its other steps are exact."""
        x, y = self._values[0][crossed], self._values[1][:, crossed]
        loop = _LOOPS.get(self.work.verb)
        fmt, largest = self.work.fmt, float(np.abs(x).max()) * float(np.abs(y).max())
        unit = math.ldexp(fmt.min_normal or 0.0, -fmt.trailing_bits) ** 2
        exact = (
            unit >= 2.0**-126
            and len(y) * largest < 2.0**53 * unit
            and largest < 2.0**100
            and fmt.precision <= 12
        )
        looped = loop(x, y, unit) if loop is not None and exact else None
        return None if looped is None else looped.reshape(-1)


# -- loops ------------------------------------------------------------------------------------------


def _singles(x: Array, y: Array, unit: float) -> Array:
    """Sum in float32. Products of the operands are exact, so rounding them changes nothing."""
    total = np.zeros((len(x), y.shape[1]), np.float32)
    for place in range(len(y)):
        total += x[:, place, None] * y[place]
    return total


def _bfloats(x: Array, y: Array, unit: float) -> Array:
    """Sum in float64, exactly, and round each sum to 8 bits."""
    x, y = x.astype(np.float64), y.astype(np.float64)
    total = np.zeros((len(x), y.shape[1]))
    for place in range(len(y)):
        part, exponent = np.frexp(total + x[:, place, None] * y[place])
        total = np.ldexp(np.rint(part * 256), exponent - 8)
    return total.astype(np.float32)


def _groups(x: Array, y: Array, unit: float) -> Array | None:
    """Sum groups in float64, exactly; None if anything would be cut, or a sum does not fit 26 bits."""
    if math.frexp(float(np.abs(x).max()) * float(np.abs(y).max()) / unit)[1] > 26:
        return None
    total = np.zeros((len(x), y.shape[1]), np.float32)
    for start in range(0, len(y), 16):
        group = x[:, start : start + 16].astype(np.float64) @ y[start : start + 16].astype(np.float64)
        if np.abs(group).max() >= 2.0**26 * unit:
            return None
        total = (total + group).astype(np.float32)
    return total


def _exactly(x: Array, y: Array, unit: float) -> Array:
    """Sum in float64, exactly in any order, and round once."""
    return np.asarray((x.astype(np.float64) @ y.astype(np.float64)).astype(np.float32))


_LOOPS: dict[str, Callable[[Array, Array, float], Array | None]] = {
    "fp32_fma": _singles,
    "fp32_sequential": _singles,
    "bf16_sequential": _bfloats,
    "groups_of_16": _groups,
    "exact": _exactly,
}
