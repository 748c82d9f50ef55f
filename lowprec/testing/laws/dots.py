"""Laws of dot products, in the orders that rest on nothing but exact sums and one rounding."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from lowprec.spec.accumulation import Accumulation
from lowprec.spec.format import Sign
from lowprec.spec.projection import Projection
from lowprec.testing.grid import Array, values_of
from lowprec.testing.law import Outcome, law, number
from lowprec.testing.projecting import projected
from lowprec.testing.subjects import Floats, Oracle, Subject, is_verbs
from lowprec.verify.reference import oracle_arrays

_TERMS = 6


def _has_dot(subject: Subject) -> bool:
    """Return whether it is the verbs or the oracle, of a signed format with a zero."""
    known = is_verbs(subject) or isinstance(subject, Oracle)
    return known and subject.sign is not Sign.UNSIGNED and subject.format.subnormals


def _vectors(subject: Subject) -> tuple[Floats, Floats]:
    """Return rows of finite values, the simplest first: near 1, any, and some whose products cancel."""
    random, count = np.random.default_rng(subject.seed), 8 if subject.slow else 24
    values = values_of(subject.codes, subject.format)
    values = values[np.isfinite(values)]
    rows = values[random.integers(0, values.size, (2, count, _TERMS))]
    near = values[np.argsort(np.abs(np.abs(values) - 1), kind="stable")[: max(values.size // 3, 2)]]
    rows[:, ::2] = near[random.integers(0, near.size, rows[:, ::2].shape)]
    rows[:, ::3, 1] = (
        rows[:, ::3, 0] * np.array([1, -1])[:, None]
    )  # x0 * y0 + x1 * y1 is 0, if both are values
    rows[:, :, 2:] *= np.arange(2, _TERMS) < np.resize(
        np.arange(_TERMS, 1, -1), (count, 1)
    )  # 6, 5, ... 2 terms
    x, y = np.where(np.isin(rows, values), rows, 0.0) + 0.0
    simple = np.lexsort((np.abs(x).sum(1) + np.abs(y).sum(1), ((x != 0) & (y != 0)).sum(1)))
    return x[simple], y[simple]


def _dots(subject: Subject, x: Array, y: Array, how: Accumulation) -> Floats:
    """Return the dot products of rows."""
    if is_verbs(subject):
        from lowprec.arrays.dots.dot import dot

        return np.asarray(dot(x, y, how)).astype(np.float64)
    return values_of(oracle_arrays.dot(x, y, how), how.output[0])


def _rounded(exact: Fraction, subject: Subject, how: Projection) -> float:
    """Return a number, rounded into the format by the kit's own reading."""
    return float(values_of(projected([exact], subject.format, how), subject.format)[0]) if exact else 0.0


def _compared(x: Array, y: Array, got: Array, want: list[float]) -> Outcome:
    """Compare dot products with what they should be; 0 without its sign, which the order decides."""
    terms = (x != 0) & (y != 0)
    columns = ((name, _told, [*zip(side, terms, strict=True)]) for name, side in (("x", x), ("y", y)))
    return Outcome.of(got != np.array(want), *columns, ("got", number, got), ("want", number, want))


def _told(row: tuple[Array, Array]) -> str:
    """Return the values of a row that are marked."""
    return " ".join(map(repr, row[0][row[1]].tolist()))


def _rule(mode: str) -> Projection:
    return Projection(rounding=mode, saturation="finite", nan="max")


_DOMAIN = "six terms of finite values; signed formats with a zero, saturation finite"


@law("exact dot", f"{_DOMAIN}, toward_zero", _has_dot)
def exact_dot(subject: Subject) -> Outcome:
    """A dot product in the order exact is the sum of all products in real numbers, rounded once."""
    x, y = _vectors(subject)
    how = _rule("toward_zero")
    got = _dots(subject, x, y, Accumulation(order="exact", output=(subject.format, how)))
    want = []
    for left, right in zip(x.tolist(), y.tolist(), strict=True):
        total = sum((Fraction(a) * Fraction(b) for a, b in zip(left, right, strict=True)), Fraction(0))
        want.append(_rounded(total, subject, how))
    return _compared(x, y, got, want)


@law("dot in sequence", f"{_DOMAIN}, nearest_even; the accumulator is of the format too", _has_dot)
def dot_in_sequence(subject: Subject) -> Outcome:
    """A dot product in sequence with exact products rounds after each addition, from the first
    term to the last.
    """
    x, y = _vectors(subject)
    how = _rule("nearest_even")
    place = (subject.format, how)
    got = _dots(subject, x, y, Accumulation(accumulator=place, output=place))
    want = []
    for left, right in zip(x.tolist(), y.tolist(), strict=True):
        total = 0.0
        for a, b in zip(left, right, strict=True):
            total = _rounded(Fraction(total) + Fraction(a) * Fraction(b), subject, how)
        want.append(total)
    return _compared(x, y, got, want)
