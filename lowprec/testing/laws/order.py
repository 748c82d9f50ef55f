"""Laws of order: comparisons, classes and neighbours.

Floor 5.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.oracle import order as oracle
from lowprec.oracle.convert import decode
from lowprec.oracle.exact import Special, to_float
from lowprec.spec.arith import Class
from lowprec.spec.format import Sign
from lowprec.testing.law import Counterexample, Outcome, law, shown_value
from lowprec.testing.subjects import Subject

__all__: list[str] = []

Array = npt.NDArray[Any]


def _both(subject: Subject) -> bool:
    return subject.path in ("arrays", "oracle")


def _some(subject: Subject, count: int) -> Array:
    """Codes spread over all, both ends of each part among them."""
    codes = subject.codes
    if codes.size <= count:
        return codes
    ends = np.concatenate([codes[:8], codes[-8:], codes[codes.size // 2 - 8 : codes.size // 2 + 8]])
    last = subject.grid.last + np.arange(-4, 5)
    return np.unique(np.concatenate([codes[:: codes.size // count], ends, last[(last >= 0) & (last <= codes[-1])]]))


@law("total order", "format", "pairs of codes", _both)
def total_order(subject: Subject) -> Outcome:
    """The total order puts values in order, -0 before +0, and NaNs outside, positive ones above.

    Of two codes one comes before the other, and both do only where they are one, or NaNs without sign.
    """
    from lowprec.arrays.order import total_order as before

    codes = _some(subject, 64) if subject.path == "arrays" else _some(subject, 4)[::3]
    x, y = (column.reshape(-1) for column in np.meshgrid(codes, codes, indexing="ij"))
    if subject.path == "arrays":
        got, turned = np.asarray(before(x, y, subject.format)), np.asarray(before(y, x, subject.format))
    else:
        pairs = list(zip(x.tolist(), y.tolist(), strict=True))
        got = np.array([oracle.total_order(a, b, subject.format) for a, b in pairs])
        turned = np.array([oracle.total_order(b, a, subject.format) for a, b in pairs])
    left, right = subject.decode(x), subject.decode(y)
    keys = [np.where(np.isnan(v), np.where(np.signbit(v), -3, 3), np.clip(np.sign(v), -1, 1)) for v in (left, right)]
    below = (left < right) | ((left == right) & np.signbit(left) & ~np.signbit(right))
    below |= (keys[0] != keys[1]) & (keys[0] < keys[1]) & (np.isnan(left) | np.isnan(right))
    # NaNs without sign or payload are one number, whatever their codes.
    fmt = subject.format
    twins = np.isnan(left) & np.isnan(right) & (not (fmt.nans and fmt.negative_zero and fmt.sign is Sign.MAGNITUDE))
    wrong = (below & ~got) | (below & turned) | ((x == y) & ~got) | ((x != y) & (got == turned) & ~twins)
    if not wrong.any():
        return Outcome(x.size)
    place = int(np.argmax(wrong))
    rows = (("code", subject.shown(x[place])), ("other", subject.shown(y[place])))
    want = "before" if below[place] else "one of them before the other, and not both"
    return Outcome(x.size, Counterexample((*rows, ("got", f"{got[place]}, turned {turned[place]}"), ("want", want))))


@law("comparisons", "format", "pairs of codes", lambda s: s.path == "arrays")
def comparisons(subject: Subject) -> Outcome:
    """Codes compare as their values do: less, equal, greater, and unordered where one is NaN."""
    from lowprec.arrays import order

    codes = _some(subject, 64)
    x, y = (column.reshape(-1) for column in np.meshgrid(codes, codes, indexing="ij"))
    left, right = subject.decode(x), subject.decode(y)
    relations = {
        "less": left < right,
        "less_equal": left <= right,
        "equal": left == right,
        "greater": left > right,
        "greater_equal": left >= right,
        "unordered": np.isnan(left) | np.isnan(right),
    }
    for name, want in relations.items():
        got = np.asarray(getattr(order, name)(x, y, subject.format))
        if (got != want).any():
            place = int(np.argmax(got != want))
            rows = (("code", subject.shown(x[place])), ("other", subject.shown(y[place])))
            return Outcome(x.size, Counterexample((*rows, (name, str(got[place])), ("want", str(want[place])))))
    return Outcome(x.size * len(relations))


@law("classes", "format", "every code", _both)
def classes(subject: Subject) -> Outcome:
    """A code is of the class of its value: zero, subnormal, normal, infinity or NaN, and its sign."""
    from lowprec.arrays.order import classify

    fmt = subject.format
    codes = subject.codes if subject.path == "arrays" else _some(subject, 64)
    values = subject.decode(codes)
    if subject.path == "arrays":
        got = np.asarray(classify(codes, fmt)).astype(np.int64)
    else:
        got = np.array([int(oracle.classify(code, fmt)) for code in codes.tolist()])
    normal = float(subject.grid.value(1 << fmt.trailing_bits)) if fmt.exponent_bits and fmt.subnormals else 0.0
    sizes = np.abs(values)
    kind = np.where(sizes == 0, 4, np.where(sizes < normal, 5, np.where(np.isinf(values), 7, 6)))
    kind = np.where(np.signbit(values), 7 - kind, kind)
    nan = np.isnan(values)
    wrong = np.where(nan, got < Class.SIGNALING_NAN, got != kind)
    if not wrong.any():
        return Outcome(codes.size)
    place = int(np.argmax(wrong))
    want = "a NaN" if nan[place] else Class(int(kind[place])).name
    rows = (("code", subject.shown(codes[place])), ("got", Class(int(got[place])).name), ("want", want))
    return Outcome(codes.size, Counterexample(rows))


@law("neighbours", "format", "finite values but the extremes, of at most 12 bits", lambda s: _both(s) and s.width <= 12)
def neighbours(subject: Subject) -> Outcome:
    """The value next to a value toward +Inf is the least above it, and toward -Inf back again."""
    from lowprec.arrays.order import nextafter

    values = np.unique(subject.decode(subject.codes))
    values = np.unique(values[np.isfinite(values)] + 0.0)
    below, above = values[:-1], values[1:]
    if subject.path == "arrays":
        up = np.asarray(nextafter(below, np.inf, subject.format)).astype(np.float64)
        down = np.asarray(nextafter(above, -np.inf, subject.format)).astype(np.float64)
    else:
        few = np.unique(np.concatenate([np.arange(3), np.arange(below.size)[-3:], [below.size // 2]]))
        below, above = below[few[few < below.size]], above[few[few < below.size]]
        up = np.array([_next(value, Special.INFINITY, subject) for value in below.tolist()])
        down = np.array([_next(value, Special.NEGATIVE_INFINITY, subject) for value in above.tolist()])
    for got, start, want in ((up, below, above), (down, above, below)):
        if (got != want).any():
            place = int(np.argmax(got != want))
            rows = (("value", shown_value(start[place])), ("got", shown_value(got[place])))
            return Outcome(below.size, Counterexample((*rows, ("want", shown_value(want[place])))))
    return Outcome(2 * below.size)


def _next(value: float, toward: Special, subject: Subject) -> float:
    """The value next to another, by the oracle."""
    code = oracle.nextafter(Fraction(value), toward, subject.format)
    assert code is not None
    return to_float(decode(code, subject.format))
