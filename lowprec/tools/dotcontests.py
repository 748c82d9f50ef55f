"""What takes part in a row about products of matrices, and whether lowprec's results are right.

Two square matrices of a format's values are multiplied as an accumulation says. Before anything is
timed some results are compared with the oracle's, and more of them with loops in NumPy where these
are exact but for the roundings that are meant.

Floor 5.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays import dot as dots
from lowprec.arrays.checks import code_dtype, dtype
from lowprec.arrays.convert import decode, encode
from lowprec.oracle import dot as oracle
from lowprec.oracle.convert import decode as decode_exactly
from lowprec.oracle.exact import to_float
from lowprec.spec import catalog
from lowprec.spec.accumulation import Accumulation, Window, chunked
from lowprec.spec.accumulations import ACCUMULATIONS
from lowprec.spec.block import BlockFormat
from lowprec.spec.families import ieee
from lowprec.spec.format import Format, Sign
from lowprec.spec.projection import Projection
from lowprec.tools import arithcontests, dotpeers, peers
from lowprec.tools.benchreport import Job
from lowprec.tools.contests import WrongResult, judged
from lowprec.tools.timing import Contender

__all__ = [
    "KINDS",
    "LARGEST",
    "SMALL",
    "VARIANTS",
    "DotContest",
    "accumulation_of",
    "dot_contest",
    "dot_operands",
    "has_work",
]

Array = npt.NDArray[Any]

#: What is timed: accumulations of codes, and some of the same values in float32.
VARIANTS = (
    "fp32_fma codes",
    "fp32_sequential codes",
    "bf16_sequential codes",
    "hopper_wgmma codes",
    "groups_of_16 codes",
    "exact codes",
    "fp32_fma",
    "fp32_sequential",
    "bf16_sequential",
    "hopper_wgmma",
)

#: What data there are.
KINDS = ("normal", "hard")

#: Rows of the largest matrices, and of the smallest.
LARGEST, SMALL = 4096, 192

#: Places that the oracle is asked about; rows and columns of which loops in NumPy are.
_SAMPLE, _CROSSED = 6, 64

_SINGLE = (catalog.BINARY32, Projection())

#: Where sums of a group are kept: 26 bits in 64 binades.
_GROUP = ieee("e6m25", 6, 25)


def accumulation_of(variant: str, fmt: Format) -> Accumulation | None:
    """The accumulation of a variant for operands of a format, if there is one.

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
    name = f"hopper_wgmma_{fmt.name}_binary32" if variant == "hopper_wgmma" else variant
    return ACCUMULATIONS.get(name)


def has_work(fmt: Format | BlockFormat, variant: str, kind: str) -> bool:
    """Whether a format has a row: NumPy or ml_dtypes has its codes, and float32 its values.

    >>> has_work(catalog.E5M2, "hopper_wgmma", "normal"), has_work(catalog.E3M4, "hopper_wgmma", "normal")
    (True, False)
    """
    return (
        kind in KINDS
        and arithcontests.has_work(fmt, "add")
        and arithcontests.has_work(fmt, "add codes")
        and isinstance(fmt, Format)
        and accumulation_of(variant.removesuffix(" codes"), fmt) is not None
    )


def dot_operands(kind: str, fmt: Format, size: int) -> tuple[Array, Array]:
    """Two square matrices of codes, the same for the same arguments.

    Parameters
    ----------
    kind : str
        "normal": N(0, 1), rounded to the format. "hard": any finite codes.
    fmt : Format
        Unsigned ones get no negative values.
    size : int
        Rows and columns.
    """
    rng = np.random.default_rng(0)
    if kind == "hard":
        known = np.arange(1 << fmt.width, dtype=np.uint64).astype(code_dtype(fmt))
        known = known[np.isfinite(np.asarray(decode(known, fmt)))]
        return rng.choice(known, (size, size)), rng.choice(known, (size, size))
    values = rng.standard_normal((2, size, size), np.float32)
    if fmt.sign is Sign.UNSIGNED:
        values = np.abs(values)
    codes = np.asarray(encode(values, fmt, saturation="finite"))
    return codes[0], codes[1]


def dot_contest(job: Job) -> DotContest:
    """The work of a row."""
    assert isinstance(job.fmt, Format)
    variant, _, codes = job.variant.partition(" ")
    how = accumulation_of(variant, job.fmt)
    assert how is not None, "the row has work"
    product = dotpeers.Product(variant, how, *dot_operands(job.kind, job.fmt, job.size), job.fmt)
    return DotContest(job, product, bool(codes))


@dataclass(frozen=True)
class DotContest:
    """The work of a row: a product of two matrices, given as arrays of ml_dtypes' type or of float32."""

    job: Job
    product: dotpeers.Product
    on_codes: bool

    @functools.cached_property
    def _values(self) -> tuple[Array, Array]:
        x, y = (np.asarray(decode(codes, self.product.fmt)) for codes in (self.product.x, self.product.y))
        return x.astype(np.float32, copy=False), y.astype(np.float32, copy=False)

    def contenders(self, found: Sequence[peers.Peer]) -> Iterator[Contender]:
        """All that take part: lowprec first, then NumPy's product of float32, the oracle and the peers."""
        threads, product = self.job.threads, self.product
        native = dtype(product.fmt)
        given = (product.x.view(native), product.y.view(native)) if self.on_codes else self._values
        how = product.how.name if product.how.name in ACCUMULATIONS else product.how
        yield Contender("lowprec", "ours", False, functools.partial(dots.matmul, *given, how), np.asarray, threads)
        yield Contender("np.matmul", "yardstick", False, functools.partial(np.matmul, *self._values), None, threads)
        if not self.on_codes:
            return
        if product.variant in ("exact", "hopper_wgmma"):
            yield self._part("own Fractions", "own", dotpeers.fractions(product))
        for peer in found:
            for way in dotpeers.ways(peer.name, product):
                yield self._part(peer.name, "peer", way)

    def _part(self, name: str, role: str, way: dotpeers.Corner) -> Contender:
        share = way.rows * way.columns / self.job.size**2
        return Contender(name, role, False, way.call, way.read, self.job.threads, share)

    # -- whether it is right ------------------------------------------------------------------------

    def checked(
        self, contenders: Sequence[Contender], refused: Callable[[Contender, Exception], None]
    ) -> tuple[list[Contender], list[int | None]]:
        """Run each contender once and compare what it gives, as `Contest.checked` does."""
        size = self.job.size
        places = np.unique(np.linspace(0, size * size - 1, _SAMPLE).astype(np.int64))
        crossed = np.unique(np.linspace(0, size - 1, _CROSSED).astype(np.int64))
        lines = np.add.outer(crossed * size, crossed).reshape(-1)
        truth, witness = self._truth(places), self._witness(crossed)
        ours = np.empty((0, 0), np.float32)

        def judge(contender: Contender, result: Array) -> int | None:
            nonlocal ours
            if contender.role == "ours":
                self._confirm(result, truth, "the oracle", places)
                if witness is not None:
                    self._confirm(result, witness, "a loop in NumPy", lines)
                ours = result.copy()
            if contender.role != "peer":
                return None
            rows, columns = result.shape
            return int(_differing(result, ours[:rows, :columns]).sum())

        return judged(contenders, judge, refused)

    def _confirm(self, result: Array, want: Array, by: str, places: Array) -> None:
        got = result.reshape(-1)[places]
        wrong = np.flatnonzero(_differing(got, want))
        if wrong.size:
            first = wrong[0]
            row, column = divmod(int(places[first]), self.job.size)
            raise WrongResult(
                f"lowprec is wrong and is not timed: {self.job}: {wrong.size:,} of {got.size:,} results are not those "
                f"of {by}, the first at row {row}, column {column}: {got[first]}, want {want[first]}"
            )

    def _truth(self, places: Array) -> Array:
        """What the oracle gives at some places."""
        product, found = self.product, []
        for row, column in zip(*np.divmod(places, self.job.size), strict=True):
            factors = (product.x[row].tolist(), product.y[:, column].tolist())
            x, y = ([decode_exactly(code, product.fmt) for code in codes] for codes in factors)
            found.append(to_float(decode_exactly(oracle.dot(x, y, product.how), product.how.output[0])))
        return np.array(found, np.float32)

    def _witness(self, crossed: Array) -> Array | None:
        """What a loop in NumPy gives in some rows and columns, if what it does not mean to round is exact."""
        x, y = self._values[0][crossed], self._values[1][:, crossed]
        loop = _LOOPS.get(self.product.variant)
        fmt, largest = self.product.fmt, float(np.abs(x).max()) * float(np.abs(y).max())
        unit = math.ldexp(fmt.min_normal or 0.0, -fmt.trailing_bits) ** 2
        exact = unit >= 2.0**-126 and len(y) * largest < 2.0**53 * unit and largest < 2.0**100 and fmt.precision <= 12
        made = loop(x, y, unit) if loop is not None and exact else None
        return None if made is None else made.reshape(-1)


# -- loops ------------------------------------------------------------------------------------------


def _singles(x: Array, y: Array, unit: float) -> Array:
    """Sums in float32. Products of the operands are exact, so it matters not whether they are rounded."""
    total = np.zeros((len(x), y.shape[1]), np.float32)
    for place in range(len(y)):
        total += x[:, place, None] * y[place]
    return total


def _bfloats(x: Array, y: Array, unit: float) -> Array:
    """Sums in float64, exact, and each rounded to 8 bits."""
    x, y = x.astype(np.float64), y.astype(np.float64)
    total = np.zeros((len(x), y.shape[1]))
    for place in range(len(y)):
        part, exponent = np.frexp(total + x[:, place, None] * y[place])
        total = np.ldexp(np.rint(part * 256), exponent - 8)
    return total.astype(np.float32)


def _groups(x: Array, y: Array, unit: float) -> Array | None:
    """Groups in float64, exact; None if anything would be cut, or a sum does not fit 26 bits."""
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
    """All in float64, exact in any order, and rounded once."""
    return np.asarray((x.astype(np.float64) @ y.astype(np.float64)).astype(np.float32))


_LOOPS: dict[str, Callable[[Array, Array, float], Array | None]] = {
    "fp32_fma": _singles,
    "fp32_sequential": _singles,
    "bf16_sequential": _bfloats,
    "groups_of_16": _groups,
    "exact": _exactly,
}


def _differing(got: Array, want: Array) -> npt.NDArray[np.bool_]:
    """Where results differ, in more than which NaN it is."""
    other = np.ascontiguousarray(got).view(np.uint32) != np.ascontiguousarray(want).view(np.uint32)
    return np.asarray(other & ~(np.isnan(got) & np.isnan(want)))
