"""The range in which the sum of a dot product lies, in whatever order its terms are added.

The derivation is in docs/decisions/0029. All bounds are computed in float64 and rounded outwards; sums that
float64 holds exactly are not widened.

Notation:

    K       the length of the dot product
    t       its terms: the exact products, and the addend
    P, N    the sums of its positive and of its negative terms, as magnitudes
    grain   a power of two of which all terms are multiples
    unit    the distance of neighbouring values below 2**k: 2**(k - precision), or the smallest value
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays.convert import decode, encode
from lowprec.spec.accumulation import Accumulation, Rounded, Window
from lowprec.spec.format import Carrier, Format, Sign
from lowprec.spec.order import EXACT
from lowprec.spec.projection import Saturation
from lowprec.spec.rounding import NEAREST_EVEN, TOWARD_ZERO
from lowprec.verify.codes.values import doubles, is_nan

__all__ = ["check_bound", "finite", "ranges", "results"]

Doubles = npt.NDArray[np.float64]
Array = npt.NDArray[Any]

#: Bits of the widest factors: products of two have at most 53.
_FACTOR = 26
#: What the roundings of these computations, some hundred, change at most, relatively.
_SLACK = 1 + 2.0**-40
#: A power of two that no sum has, and how often the bound of partial sums is raised before it is given up.
_NONE, _RAISED = 1 << 14, 64


def check_bound(how: Accumulation) -> None:
    """Refuse accumulations of which no range is known.

    Raises ValueError: a machine, scales within the sum, a format without signs, stochastic results.
    """
    why = ""
    if how.machine:
        why = f"it is the machine {how.machine!r}, which no parameters describe"
    elif how.order == EXACT:
        why = "its sum is exact in any order"
    elif how.split is not None:
        why = "it splits K; name the accumulation of a split, whose bound is of any order and grouping"
    elif how.scale is not None:
        why = "it takes the scales of blocks into its sums"
    elif unsigned := [fmt.name for fmt, _ in _nodes(how) if fmt.sign is Sign.UNSIGNED]:
        why = f"it adds in {unsigned[0]}, which has no negative numbers"
    elif how.output[0].sign is Sign.UNSIGNED:
        why = f"its output {how.output[0].name} has no negative numbers"
    elif how.output[1].rounding.bits:
        why = f"its output is rounded by {how.output[1].rounding}, not the same way each time"
    if why:
        raise ValueError(f"ulps='auto' knows no bound for accumulation {how}: {why}; give a number of codes")


def ranges(
    x: Array, y: Array, addend: Array | None, how: Accumulation, *, grouped: bool = False
) -> tuple[Doubles, Doubles]:
    """Return the ends of the ranges in which finite sums lie, before they become the output.

    >>> import lowprec as lp
    >>> low, high = ranges([[1.0, 2.0**-24, -1.0]], [[1.0, 1.0, 1.0]], None, lp.accumulations["fp32_fma"])
    >>> float(low[0]) <= 0.0 <= float(high[0]), bool(high[0] < 2.0**-22)
    (True, True)

    Parameters
    ----------
    x, y : arrays of shape (outputs, K)
        Factors.
    addend : array of shape (outputs,), optional
    how : Accumulation
    grouped : bool
        Whether terms are exact sums of several products, of any of them, as of blocks and of `how.term`.

    Raises
    ------
    ValueError
        Factors of more than 26 bits, whose products float64 does not hold; see `check_bound` too.
    """
    check_bound(how)
    left, right = _factors("x", x, how, 0), _factors("y", y, how, 1)
    with np.errstate(all="ignore"):
        products = left * right
        last = np.zeros((len(left), 1)) if addend is None else doubles(addend).reshape(-1, 1)
        terms = np.concatenate([products, last], axis=1)
        terms[~np.isfinite(terms)] = 0.0  # their results are no numbers, and not asked for
        sums = _SumBounds(terms, how, grouped or how.term > 1)
        if isinstance(how.accumulator, Window):
            assert how.operands is not None, "a window has operands"
            exponents = _exponents(left, how.operands[0]) + _exponents(right, how.operands[1])
            exponents[products == 0] = -_NONE
            sums.align(how.accumulator, exponents.max(axis=1, initial=-_NONE))
        return sums.ranges()


def results(ends: Doubles, output: Rounded) -> Array:
    """Return the codes of the ends of ranges in an output; those past its largest value are at that."""
    fmt, how = output
    inside = np.clip(ends, fmt.min_finite, fmt.max_finite)
    return np.asarray(encode(inside, fmt, projection=how)).astype(np.int64)


def finite(codes: Array, fmt: Format) -> Array:
    """Return codes, those of infinities and NaNs replaced by the largest finite value of their sign."""
    wide = codes.astype(np.int64)
    magnitude = wide & ~fmt.sign_code
    return np.where(magnitude > fmt.max_magnitude, fmt.max_magnitude | (wide & fmt.sign_code), wide)


# -- terms ------------------------------------------------------------------------------------------


def _factors(name: str, given: Array, how: Accumulation, number: int) -> Doubles:
    """Return factors as the accumulation reads them, in float64."""
    values = doubles(given)
    if how.operand_rounding is not None and how.operands is not None:
        fmt = how.operands[number]
        values = np.asarray(
            decode(encode(values, fmt, projection=how.operand_rounding), fmt, dtype=np.float64)
        )
    grain = _grain(values)
    with np.errstate(all="ignore"):
        wide = (np.frexp(values)[1] - grain > _FACTOR) | (np.abs(np.frexp(values)[1]) > 400)
    if (wide & np.isfinite(values) & (values != 0)).any():
        raise ValueError(
            f"ulps='auto' takes factors of at most {_FACTOR} bits of precision between 2**-400 and 2**400, "
            f"whose products float64 holds, and {name} has others; give a number of codes"
        )
    return values


def _grain(values: Doubles) -> npt.NDArray[np.int64]:
    """Return the exponent of the lowest bit of each number; of zeros a large one."""
    fractions, exponents = np.frexp(np.where(np.isfinite(values), values, 0.0))
    integers = np.abs(np.ldexp(fractions, 53)).astype(np.int64)
    lowest = np.frexp((integers & -integers).astype(np.float64))[1] - 1
    return np.where(integers == 0, _NONE, exponents.astype(np.int64) - 53 + lowest)


def _exponents(values: Doubles, fmt: Format) -> npt.NDArray[np.int64]:
    """Return the exponents that a window aligns by."""
    return np.asarray(np.maximum(np.frexp(values)[1].astype(np.int64) - 1, fmt.emin))


# -- roundings --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _RoundingBounds:
    """Bounds of how far one projection into a format leads from a number."""

    precision: int  #: significant bits; of fixed point none that count
    smallest: int  #: exponent of the smallest value
    flushed: int | None  #: exponent below which results become zero
    nearest: bool
    shrinks: bool  #: whether no result is larger in magnitude
    largest: float
    overflows: bool  #: whether what is too large is infinite, or NaN; else it may saturate
    keeps: bool  #: whether infinities and NaNs stay such
    saturates: bool  #: whether finite numbers stay such

    @staticmethod
    def of(rounded: Rounded, window: bool = False) -> _RoundingBounds:
        fmt, how = rounded
        nearest = how.rounding.nearest
        has_nan = fmt.has_nan and (how.nan_code is None or bool(is_nan(np.array([how.nan_code]), fmt).all()))
        plain = how.saturation is Saturation.NONE
        return _RoundingBounds(
            precision=(53 if isinstance(fmt, Carrier) else fmt.precision) if fmt.exponent_bits else _NONE,
            smallest=-1074 if isinstance(fmt, Carrier) else fmt.scaled(1)[1],
            flushed=fmt.emin if how.subnormals != "keep" and fmt.exponent_bits else None,
            nearest=nearest,
            shrinks=how.rounding == TOWARD_ZERO,
            largest=math.inf if isinstance(fmt, Carrier) else float(fmt.max_finite),
            overflows=plain and has_nan and (nearest or (window and fmt.infinity)),
            keeps=has_nan and how.saturation is not Saturation.FINITE,
            saturates=not plain or not (fmt.has_nan or fmt.infinity),
        )

    def error(self, below: Array, grain: Array) -> Doubles:
        """Return how far multiples of 2**grain below 2**below may be led."""
        unit = np.maximum(below - self.precision, self.smallest)
        error = np.where(unit <= grain, 0.0, np.ldexp(0.5 if self.nearest else 1.0, unit))
        if self.flushed is not None:
            error = np.where(grain < self.flushed, np.maximum(error, 2.0**self.flushed), error)
        return np.asarray(error)

    @property
    def relative(self) -> float:
        """By what share of itself a normal number may grow."""
        return (
            0.0
            if self.shrinks or self.precision == _NONE
            else 2.0 ** (not self.nearest) * 2.0**-self.precision
        )


def _nodes(how: Accumulation) -> list[Rounded]:
    """Return what sums are projected into."""
    window = isinstance(how.accumulator, Window)
    found = [how.accumulator.result if isinstance(how.accumulator, Window) else how.accumulator, how.total]
    found += [how.output] if window and how.addend == "last" else []
    return list(dict.fromkeys(each for each in found if each is not None))


class _SumBounds:
    """Bounds of the sums of some outputs."""

    def __init__(self, terms: Doubles, how: Accumulation, grouped: bool) -> None:
        self.terms, self.how, self.count = terms, how, np.count_nonzero(terms, axis=1)
        #: What rounds terms that are sums.
        self.of_terms = how.product if grouped else None
        self.length = terms.shape[1] - 1
        self.grains = _grain(terms)
        self.grain = self.grains.min(axis=1)
        self.positive = np.where(terms > 0, terms, 0.0).sum(axis=1)
        self.negative = -np.where(terms < 0, terms, 0.0).sum(axis=1)
        self.sum = terms.sum(axis=1)
        # In any order, the sum of numbers in float64 is off by at most count * 2**-53 of their magnitudes.
        held = self.positive + self.negative < np.ldexp(1.0, self.grain + 52)
        self.slack = np.where(held, 0.0, (self.positive + self.negative) * (self.length + 2) * 2.0**-52)
        window = isinstance(how.accumulator, Window)
        nodes = [*_nodes(how), *([self.of_terms] if self.of_terms else [])]
        self.roundings = [_RoundingBounds.of(each, window) for each in dict.fromkeys(nodes)]
        self.window: Window | None = None
        if window:  # its products are exact, and the addend is rounded
            into, rule = how.total or how.output
            self.leaves = [_RoundingBounds.of((into, dataclasses.replace(rule, rounding=NEAREST_EVEN)))]
            self.led = self._led(terms[:, -1:], self.grains[:, -1:])
        else:
            leaves = [each for each in (how.product, *_nodes(how)) if each is not None]
            self.leaves = [_RoundingBounds.of(each) for each in dict.fromkeys(leaves)]
            self.led = self._led(terms, self.grains)

    def align(self, window: Window, largest: npt.NDArray[np.int64]) -> None:
        """Add in steps of a window, whose products have exponents up to the largest."""
        lowest = max(window.lowest_exponent, window.result[0].emin, self.how.output[0].emin)
        self.window, self.largest = window, np.maximum(largest, lowest)

    def _led(self, terms: Doubles, grain: Array) -> Doubles:
        """Return how far roundings of terms themselves lead, all together."""
        below, led = np.frexp(terms)[1].astype(np.int64), np.zeros(terms.shape)
        for rounding in self.leaves:
            led += rounding.error(below, grain)
            below = below + 1  # rounded, a term may reach the next power of two
        return np.asarray(np.where(terms == 0, 0.0, led).sum(axis=1))

    @property
    def additions(self) -> tuple[Array, int]:
        """The sums that are rounded, and the steps of a window among them."""
        how, chunks = self.how, 0
        if how.total is not None:
            chunks = -(-self.length // how.order.size)
        if self.window is None:
            several = len({fmt for fmt, _ in _nodes(how)}) > 1
            terms = 0 if self.of_terms is None else self.count  # each may be rounded too
            return np.maximum(self.count - 1, 0) * (1 + several) + several + terms, 0
        run = min(self.length, how.order.size) if chunks else self.length
        both = 2 * self.window.step if self.window.groups == "alternate_pairs" else self.window.step
        steps = -(-run // both) * (both // self.window.step) * max(chunks, 1)
        return np.full(self.count.shape, steps + chunks + (how.addend == "last")), steps

    def _error(self, below: Array) -> Doubles:
        """Return how far a sum may be led whose partial sums are below 2**below."""
        additions, steps = self.additions
        each = np.max([rounding.error(below, self.grain) for rounding in self.roundings], axis=0)
        found = self.led + additions * each
        if self.window is not None and self.window.fraction_bits is not None:
            found = found + self._cut(below, self.window, self.window.fraction_bits, steps)
        return np.asarray(found * _SLACK)

    def _cut(self, below: Array, window: Window, bits: int, steps: int) -> Doubles:
        """Return what alignment cuts: off products once each, off the running sum in each step."""
        edge = np.maximum(self.largest, below - 1) - bits
        width = np.ldexp(1.0, edge)
        size = np.abs(self.terms)
        lost = np.broadcast_to(width[:, None], size.shape)
        if window.cut == "toward_zero":  # the addend has been rounded, to at most twice its magnitude
            lost = np.minimum(2 * size, lost)
        products = np.where(self.grains >= edge[:, None], 0.0, lost).sum(axis=1)
        # A sum of no more bits than are kept is cut only if a product is aligned above it.
        enough = bits >= self.roundings[0].precision - 1
        running = np.ldexp(1.0, self.largest - bits) if enough else width
        return np.asarray(products + np.where(np.log2(running) <= self.grain, 0.0, steps * running))

    def ranges(self) -> tuple[Doubles, Doubles]:
        """Return the ends of the ranges, of a bound of all errors and of one that knows no cancellation."""
        upper, lower = self._reach()
        most = np.maximum(self.positive, self.negative) * _SLACK + self.slack
        below = np.frexp(most)[1].astype(np.int64)
        error = self._error(below)
        for _ in range(_RAISED):
            needed = np.frexp((most + error) * _SLACK)[1]
            if (needed <= below).all():
                break
            below = np.maximum(below, needed)
            error = self._error(below)
        held = most + error < np.ldexp(1.0, below)
        # A sum that is infinite or NaN stays so, and is not asked for; one that saturates is off by more.
        places = (*self.roundings, *self.leaves)
        lasts = _RoundingBounds.of(self.how.output).keeps and all(each.keeps for each in places)
        for rounding in places:
            fits = (most + error) * _SLACK < rounding.largest
            held &= fits | (rounding.overflows and lasts)
            if (
                not lasts and not rounding.saturates
            ):  # an infinity may become the largest value, or a NaN zero
                upper = np.where(np.maximum(upper, lower) < rounding.largest, upper, np.inf)
                lower = np.where(upper < np.inf, lower, np.inf)
        wide = np.where(held & np.isfinite(error), error + self.slack, np.inf) * _SLACK
        exact = wide == 0
        low = np.where(exact, self.sum, np.nextafter(self.sum - wide, -np.inf))
        high = np.where(exact, self.sum, np.nextafter(self.sum + wide, np.inf))
        return np.maximum(low, -lower), np.minimum(high, upper)

    def _reach(self) -> tuple[Doubles, Doubles]:
        """Return how far the positive and the negative terms alone would lead, above and below zero."""
        additions, _ = self.additions
        smallest = max((2.0**each.smallest for each in self.roundings if not each.shrinks), default=0.0)
        growth = np.exp(additions * max((each.relative for each in self.roundings), default=0.0)) * _SLACK
        ends = []
        for part in (self.positive, self.negative):
            most = part + self.led + self.slack + additions * smallest
            ends.append(np.where(most == 0, 0.0, most * growth))
        if self.window is not None and self.window.cut != "toward_zero":  # magnitudes may grow
            ends[1] = np.full_like(ends[1], np.inf)
            ends[0] = np.full_like(ends[0], np.inf) if self.window.cut != "floor" else ends[0]
        return np.nextafter(ends[0], np.inf), np.nextafter(ends[1], np.inf)
