"""Sums that no accumulation says: they are named where a short model gives every answer, and by evidence.

Models are of dot products without an addend whose operands are finite. Nothing is named that misses one
answer, or that an exact sum explains too.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays.arith import add, multiply, subtract
from lowprec.arrays.checks import code_dtype
from lowprec.arrays.convert import decode, encode
from lowprec.spec.accumulation import Accumulation
from lowprec.spec.catalog import BFLOAT16, BINARY16, BINARY32, TF32
from lowprec.spec.format import Format
from lowprec.spec.order import EXACT, PAIRWISE, SEQUENTIAL
from lowprec.spec.projection import Projection
from lowprec.spec.rounding import MODES, NEAREST_EVEN, TOWARD_ZERO
from lowprec.verify.identify.ports import Ports, Prepared, Rows
from lowprec.verify.identify.probes import draw

__all__ = ["by_lane", "drawn", "models", "random_bits"]

Array = npt.NDArray[Any]

#: Answers below which a model that gives all of them proves little.
_FEWEST = 100

#: Bits of sums that are summed as 64-bit integers.
_INTEGER = 62

#: Products that are asked alone in each lane.
_PRODUCTS = 4

#: Bits of random integers that are looked for, and times that a row is asked for each.
_DRAWN, _TIMES = 9, 8


def models(rows: Rows, codes: Array, ports: Ports) -> Iterator[str]:
    """Yield the models that give all answers, in words."""
    answers = np.asarray(decode(codes.astype(code_dtype(ports.output)), ports.output, dtype=np.float64))
    usual = np.isfinite(rows.x).all(axis=1) & np.isfinite(rows.y).all(axis=1) & (rows.addend == 0)
    usual &= np.isfinite(answers)
    rows, answers = rows.at(usual), answers[usual]
    if ports.scale is not None or len(answers) < _FEWEST:
        return
    ready = Prepared(rows, ports)
    for mode in MODES:  # compensated sums are often exact ones
        exact = ready.codes(Accumulation(order=EXACT, output=(ports.output, Projection(rounding=mode))))
        made = np.asarray(decode(exact.astype(code_dtype(ports.output)), ports.output, dtype=np.float64))
        if (made == answers).all():
            return
    gives = f"gives all {len(answers):,} finite answers without an addend"
    for model in (_fixed_point, _sorted, _compensated):
        if found := model(rows, answers, ports):
            yield f"{found}: {gives}"


def _same(values: Array, answers: Array, fmt: Format) -> bool:
    """Return whether values, rounded to the output, are the answers; signs of zeros do not count."""
    made = np.asarray(decode(np.asarray(encode(values, fmt)), fmt, dtype=np.float64))
    return bool((made == answers).all())


# -- fixed point -------------------------------------------------------------------------------------


_CUTS: dict[str, Callable[[Array, int], Array]] = {
    "rounded down": lambda terms, bits: terms >> bits,
    "cut toward zero": lambda terms, bits: np.sign(terms) * (np.abs(terms) >> bits),
    "rounded to nearest, halves up": lambda terms, bits: (terms + (1 << bits >> 1)) >> bits,
    "rounded to nearest, halves away from zero": lambda terms, bits: (
        np.sign(terms) * ((np.abs(terms) + (1 << bits >> 1)) >> bits)
    ),
}


def _fixed_point(rows: Rows, answers: Array, ports: Ports) -> str:
    """Return the fixed-point accumulator that gives all answers, in words."""
    least = sum(fmt.emin - fmt.trailing_bits for fmt in ports.operands)
    most = sum(fmt.emax + 1 for fmt in ports.operands)
    if most - least + ports.length.bit_length() > _INTEGER:
        return ""
    terms = np.ldexp(rows.x * rows.y, -least).astype(np.int64)
    if _same(np.ldexp(terms.sum(axis=1).astype(np.float64), least), answers, ports.output):
        return ""  # an exact sum is an accumulation
    alone = np.count_nonzero(terms, axis=1) <= 1
    size = np.abs(terms).max(axis=1)
    small = alone & (size <= np.quantile(size[alone], 0.5)) if alone.any() else alone
    for bits, (words, cut) in itertools.product(range(most - least), _CUTS.items()):
        whole = cut(terms, bits)
        if small.sum() < 8 or not _same(
            np.ldexp(whole[small].sum(axis=1).astype(np.float64), least + bits), answers[small], ports.output
        ):
            continue
        for width, (how, kind) in itertools.product(range(2, _INTEGER), _FIXED.items()):
            sums = np.ldexp(kind(whole, 1 << (width - 1)).astype(np.float64), least + bits)
            if _same(sums, answers, ports.output):
                kind_of = "an integer" if least + bits == 0 else "a fixed-point"
                units = "" if least + bits == 0 else f" in units of 2**{least + bits}"
                return f"{kind_of} accumulator of {width} bits{units} that {how}, products {words}"
    return ""


def _saturated(terms: Array, limit: int) -> Array:
    sums = np.zeros(len(terms), np.int64)
    for k in range(terms.shape[1]):
        sums = np.clip(sums + terms[:, k], -limit, limit - 1)
    return sums


def _symmetric(terms: Array, limit: int) -> Array:
    sums = np.zeros(len(terms), np.int64)
    for k in range(terms.shape[1]):
        sums = np.clip(sums + terms[:, k], 1 - limit, limit - 1)
    return sums


_FIXED: dict[str, Callable[[Array, int], Array]] = {
    "never overflows here": lambda terms, limit: terms.sum(axis=1),
    "saturates": _saturated,
    "saturates from the last product to the first": lambda terms, limit: _saturated(terms[:, ::-1], limit),
    "saturates, without the least number": _symmetric,
    "saturates at the end": lambda terms, limit: np.clip(terms.sum(axis=1), -limit, limit - 1),
    "wraps": lambda terms, limit: (terms.sum(axis=1) + limit) % (2 * limit) - limit,
}


# -- sorted and compensated sums ---------------------------------------------------------------------


def _sorted(rows: Rows, answers: Array, ports: Ports) -> str:
    """Return the sum of products in the order of their magnitudes that gives all answers, in words."""
    size = np.abs(rows.x * rows.y)
    index = np.arange(len(size))[:, None]
    for words, order in (
        ("the largest magnitude first", np.argsort(-size, axis=1, kind="stable")),
        ("the least magnitude first", np.argsort(size, axis=1, kind="stable")),
    ):
        ready = Prepared(rows._replace(x=rows.x[index, order], y=rows.y[index, order]), ports)
        for how in _plain(ports):
            codes = ready.codes(how).astype(code_dtype(ports.output))
            if (np.asarray(decode(codes, ports.output, dtype=np.float64)) == answers).all():
                assert isinstance(how.accumulator, tuple)
                products = "rounded" if how.product else "exact"
                fmt, rule = how.accumulator
                return (
                    f"{products} products sorted, {words}, added in {how.order} order in {fmt.name}, "
                    f"{rule.rounding}"
                )
    return ""


def _plain(ports: Ports) -> Iterator[Accumulation]:
    """Yield plain sums in usual formats."""
    output = ports.output, Projection()
    for fmt, mode, order in itertools.product(
        dict.fromkeys((ports.output, BINARY32, TF32, BFLOAT16, BINARY16)),
        (NEAREST_EVEN, TOWARD_ZERO),
        (SEQUENTIAL, PAIRWISE),
    ):
        into = fmt, Projection(rounding=mode)
        for product in (None, into):
            yield Accumulation(product=product, order=order, accumulator=into, output=output)


def _compensated(rows: Rows, answers: Array, ports: Ports) -> str:
    """Return the compensated sum that gives all answers, in words."""
    for fmt in dict.fromkeys((ports.output, BINARY32, BFLOAT16, BINARY16)):

        def plus(one: Array, other: Array, fmt: Format = fmt) -> Array:
            return np.asarray(add(one, other, fmt, dtype=np.float64))

        def minus(one: Array, other: Array, fmt: Format = fmt) -> Array:
            return np.asarray(subtract(one, other, fmt, dtype=np.float64))

        terms = np.asarray(multiply(rows.x, rows.y, fmt, dtype=np.float64))
        kahan, lost, double, low = np.zeros((4, len(terms)))
        for k in range(terms.shape[1]):
            term = minus(terms[:, k], lost)
            total = plus(kahan, term)
            lost, kahan = minus(minus(total, kahan), term), total
            total = plus(double, terms[:, k])
            back = minus(total, double)
            error = plus(minus(double, minus(total, back)), minus(terms[:, k], back))
            low, double = plus(low, error), total
        for words, made in (("Kahan's", kahan), ("a two-term", plus(double, low))):
            plain = np.isfinite(made)
            if plain.sum() > _FEWEST and _same(made[plain], answers[plain], ports.output):
                return f"{words} compensated sum in {fmt.name}, products rounded"
    return ""


# -- evidence from more questions --------------------------------------------------------------------


def _alone(ports: Ports, lanes: Array, x: float, y: float) -> Rows:
    """Return rows with one product each."""
    left, right = (np.zeros((len(lanes), ports.length)) for _ in range(2))
    left[np.arange(len(lanes)), lanes], right[np.arange(len(lanes)), lanes] = x, y
    none = np.zeros((len(lanes), 0), np.uint8)
    return Rows(left, right, np.zeros(len(lanes)), none, none)


def by_lane(ask: Callable[[Rows], Array], ports: Ports, rng: np.random.Generator) -> str:
    """Return which lanes treat a single product otherwise than most lanes, in words; or nothing."""
    if ports.scale is not None:
        return ""
    drawn_rows = draw(ports, "single", _PRODUCTS, rng)
    for x, y in zip(drawn_rows.x, drawn_rows.y, strict=True):
        lane = int(np.argmax(np.abs(x * y)))
        ones = float(x[lane]), float(y[lane])
        codes = ask(_alone(ports, np.arange(ports.length), *ones))
        values, counts = np.unique(codes, return_counts=True)
        if len(values) > 1:
            usual = values[np.argmax(counts)]
            other = np.flatnonzero(codes != usual)
            return (
                f"results depend on the place: {ones[0]:g} * {ones[1]:g} alone is {int(usual):#x}, and in "
                f"lane {int(other[0])} {int(codes[other[0]]):#x} ({len(other)} of {ports.length} lanes)"
            )
    return ""


def drawn(ask: Callable[[Rows], Array], row: Rows, ports: Ports) -> str:
    """Return what asking a row again and again tells of its random rounding, in words."""
    codes = ask(row.at(np.zeros(_TIMES << _DRAWN, np.int64)))
    values, counts = np.unique(codes, return_counts=True)
    if len(values) == 1:
        return "not deterministic: the row gave one answer only when it was asked again and again"
    shares = ", ".join(
        f"{int(value):#x} {count / len(codes):.1%}"
        for value, count in zip(values[:4], counts[:4], strict=True)
    )
    return f"not deterministic: one row, asked {len(codes):,} times, has {len(values)} answers ({shares})"


def random_bits(ask: Callable[[Rows], Array], ports: Ports) -> str:
    """Return the number of random bits by which small terms are rounded up, in words; or nothing.

    1 and a second product of 2**-j of the distance to the next number of some precision: with b random bits
    the sum is rounded up in 2**-j of all cases, and never where j is more than b.
    """
    lows = sum(fmt.emin for fmt in ports.operands)
    for precision in dict.fromkeys((8, 11, 24, ports.output.precision)):
        most = min(_DRAWN, -lows - precision + 1)
        seen = [0.0]
        for j in range(1, most + 1):
            count = _TIMES << j
            row = _alone(ports, np.zeros(count, np.int64), 1.0, 1.0)
            small = -(precision - 1) - j
            first = max(small // 2, ports.operands[0].emin)
            row.x[:, 1], row.y[:, 1] = 2.0**first, 2.0 ** (small - first)
            values, counts = np.unique(ask(row), return_counts=True)
            seen.append(counts.min() / count if len(values) == 2 else 0.0)
        bits = max((j for j, share in enumerate(seen) if share), default=0)
        fits = all(0.25 * 2.0**-j <= seen[j] <= 3 * 2.0**-j for j in range(2, bits + 1))
        if bits and fits:
            said = f"{bits} bits" if bits < most else f"{bits} bits or more"
            return (
                f"stochastic rounding at {precision} bits of precision, with random integers of {said}: "
                f"2**-j of the distance of numbers is rounded up in about 2**-j of cases, to j = {bits}"
            )
    return ""
