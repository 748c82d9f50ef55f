"""Laws of dot products: exact sums are rounded once, sums in sequence after each product.

Floor 5.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.spec.accumulation import Accumulation
from lowprec.spec.format import Sign
from lowprec.spec.projection import Projection
from lowprec.testing.law import Counterexample, Outcome, law, shown_value
from lowprec.testing.laws.rounding import projected
from lowprec.testing.operationcheck import decoded
from lowprec.testing.subjects import Subject

__all__: list[str] = []

Array = npt.NDArray[Any]

_TERMS = 6


def _ours(subject: Subject) -> bool:
    """Signed formats with a zero, by the verbs or the oracle."""
    return subject.path in ("arrays", "oracle") and subject.sign is not Sign.UNSIGNED and subject.format.subnormals


def _vectors(subject: Subject) -> tuple[Array, Array]:
    """Rows of finite values: small ones, some that cancel, and any."""
    random = np.random.default_rng(subject.seed)
    codes = subject.codes[np.isfinite(decoded(subject.codes, subject.format))]
    values = decoded(codes, subject.format)
    count = 24 if subject.path == "arrays" else 8
    rows = values[random.integers(0, codes.size, (2, count, _TERMS))]
    near = values[np.argsort(np.abs(np.abs(values) - 1), kind="stable")[: max(values.size // 3, 2)]]
    rows[:, ::2] = near[random.integers(0, near.size, (2, (count + 1) // 2, _TERMS))]
    rows[:, ::3, 1] = -rows[:, ::3, 0] * np.array([1, -1])[:, None]  # x0 * y0 + x1 * y1 is 0, if both are values
    kept = np.isin(rows, values)
    x, y = np.where(kept, rows, values[0])
    return x, y


def _dots(subject: Subject, x: Array, y: Array, how: Accumulation) -> Array:
    """Values of dot products of rows."""
    if subject.path == "arrays":
        from lowprec.arrays.dot import dot

        return np.asarray(dot(x, y, how)).astype(np.float64)
    from lowprec.oracle.dot import dot as exact_dot
    from lowprec.oracle.exact import from_float

    pairs = zip(x.tolist(), y.tolist(), strict=True)
    codes = [exact_dot([from_float(v) for v in left], [from_float(v) for v in right], how) for left, right in pairs]
    return decoded(np.array(codes), how.output[0])


def _rounded(number: Fraction, subject: Subject, how: Projection) -> float:
    """A number, rounded into the format by the kit's own reading."""
    if number == 0:
        return 0.0
    return float(decoded(projected([number], subject.format, how), subject.format)[0])


def _compared(subject: Subject, x: Array, y: Array, got: Array, want: list[float]) -> Outcome:
    wanted = np.array(want)
    right = (got == wanted) | (np.isnan(got) & np.isnan(wanted))
    if right.all():
        return Outcome(got.size)
    place = int(np.argmin(right))
    rows = (
        ("x", " ".join(repr(float(value)) for value in x[place])),
        ("y", " ".join(repr(float(value)) for value in y[place])),
        ("got", shown_value(got[place])),
        ("want", shown_value(wanted[place])),
    )
    return Outcome(got.size, Counterexample(rows))


def _rule(subject: Subject, mode: str) -> Projection:
    nan: Any = "error" if subject.format.has_nan else "max"
    return Projection(rounding=mode, saturation="finite", nan=nan)  # type: ignore[arg-type]


@law("exact dot", "format", "signed formats with a zero; order exact into the format, saturation finite", _ours)
def exact_dot(subject: Subject) -> Outcome:
    """A dot product in the order exact is the sum of all products in real numbers, rounded once."""
    x, y = _vectors(subject)
    how = _rule(subject, "toward_zero")
    got = _dots(subject, x, y, Accumulation(order="exact", output=(subject.format, how)))  # type: ignore[arg-type]
    sums = [
        sum((Fraction(a) * Fraction(b) for a, b in zip(left, right, strict=True)), Fraction(0))
        for left, right in zip(x.tolist(), y.tolist(), strict=True)
    ]
    return _compared(subject, x, y, got, [_rounded(number, subject, how) for number in sums])


@law("dot in sequence", "format", "signed formats with a zero; accumulator of the format, saturation finite", _ours)
def dot_in_sequence(subject: Subject) -> Outcome:
    """A dot product in sequence with exact products rounds after each addition, from the first term to the last."""
    x, y = _vectors(subject)
    how = _rule(subject, "nearest_even")
    place = (subject.format, how)
    got = _dots(subject, x, y, Accumulation(accumulator=place, output=place))
    want = []
    for left, right in zip(x.tolist(), y.tolist(), strict=True):
        total = 0.0
        for a, b in zip(left, right, strict=True):
            total = _rounded(Fraction(total) + Fraction(a) * Fraction(b), subject, how)
        want.append(total)
    return _compared(subject, x, y, got, want)
