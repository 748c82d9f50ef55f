"""Laws of order: comparisons, classes and neighbours, by the verbs on arrays and by the oracle."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from lowprec.oracle import order as oracle
from lowprec.oracle.convert import decode
from lowprec.oracle.exact import Special, to_float
from lowprec.spec.arith import Class
from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Format, Sign
from lowprec.testing.grid import Array, values_of
from lowprec.testing.law import Outcome, law, number
from lowprec.testing.subjects import Floats, Oracle, Subject, is_verbs


def _has_order(subject: Subject) -> bool:
    return is_verbs(subject) or isinstance(subject, Oracle)


def _some(subject: Subject, count: int) -> Array:
    """Return codes spread over all, with both ends of each part."""
    codes = subject.codes
    if codes.size <= count:
        return codes
    end = codes.size if isinstance(subject.fmt, Codebook) else subject.grid.last
    middle, last = codes.size // 2, end + np.arange(-4, 5)
    ends = np.concatenate(
        [codes[:8], codes[middle - 8 : middle + 8], codes[-8:], last[(last >= 0) & (last < codes[-1])]]
    )
    return np.unique(np.concatenate([codes[:: codes.size // count], ends]))


def _pairs(codes: Array) -> tuple[Array, Array]:
    x, y = (column.reshape(-1) for column in np.meshgrid(codes, codes, indexing="ij"))
    return x, y


@law("total order", "pairs of codes", _has_order)
def total_order(subject: Subject) -> Outcome:
    """A code comes before another, or is it, in this order: negative NaNs, values with -0 before
    +0, other NaNs.

    Negative NaNs come by falling, others by growing codes. Where the code of -0 is a NaN, none is negative.
    """
    fmt = subject.format
    if is_verbs(subject):
        from lowprec.arrays.orders.comparisons import total_order as before

        x, y = _pairs(_some(subject, 64))
        got = np.asarray(before(x, y, fmt))
    else:
        x, y = _pairs(_some(subject, 16))
        got = np.array([oracle.total_order(a, b, fmt) for a, b in zip(x.tolist(), y.tolist(), strict=True)])
    keys = {
        code: _key(code, value, fmt)
        for code, value in zip(x.tolist(), values_of(x, fmt).tolist(), strict=True)
    }
    ranks = {key: rank for rank, key in enumerate(sorted(set(keys.values())))}
    left, right = (np.array([ranks[keys[code]] for code in column.tolist()]) for column in (x, y))
    return _compared(subject, x, y, "got", got, left <= right)


def _compared(subject: Subject, x: Array, y: Array, name: str, got: Array, want: Array) -> Outcome:
    """Compare what is said of pairs of codes with what is wanted; the first that differs is told."""
    columns = (("code", subject.shown, x), ("other", subject.shown, y))
    return Outcome.of(got != want, *columns, (name, str, got), ("want", str, want))


def _key(code: int, value: float, fmt: Format) -> tuple[int, float, int]:
    """Return a code's sort key: which of three parts, the value, and the zero's sign or the NaN's place."""
    if value == value:
        return 0, value, int(not np.signbit(value))
    negative = fmt.sign is Sign.MAGNITUDE and fmt.negative_zero and code >> (fmt.width - 1)
    return (-1, 0.0, -code) if negative else (1, 0.0, code)


@law("comparisons", "pairs of codes", is_verbs, codebooks=True)
def comparisons(subject: Subject) -> Iterator[Outcome]:
    """Codes compare as their values do: less, less_equal, equal, greater, greater_equal; unordered
    where one is NaN.
    """
    from lowprec.arrays.orders import comparisons as verbs

    x, y = _pairs(_some(subject, 64))
    left, right = values_of(x, subject.format), values_of(y, subject.format)
    relations = {
        "less": left < right,
        "less_equal": left <= right,
        "equal": left == right,
        "greater": left > right,
        "greater_equal": left >= right,
        "unordered": np.isnan(left) | np.isnan(right),
    }
    for name, want in relations.items():
        got = np.asarray(getattr(verbs, name)(x, y, subject.format))
        yield _compared(subject, x, y, name, got, want)


@law("classes", "every code", _has_order, codebooks=True)
def classes(subject: Subject) -> Outcome:
    """A code is of the class of its value: zero, subnormal, normal or infinity with its sign, or NaN.

    Subnormal is what lies below the smallest normal value of a floating-point format.
    """
    fmt = subject.format
    if is_verbs(subject):
        from lowprec.arrays.orders.order import classify

        codes = subject.codes
        got = np.asarray(classify(codes, fmt)).astype(np.int64)
    else:
        codes = _some(subject, 64)
        got = np.array([int(oracle.classify(code, fmt)) for code in codes.tolist()])
    values = values_of(codes, fmt)
    normal = 0.0
    if not isinstance(fmt, Codebook) and fmt.exponent_bits and fmt.subnormals:
        normal = float(subject.grid.value(1 << fmt.trailing_bits))
    sizes = np.abs(values)
    kind = np.full(codes.size, Class.POSITIVE_NORMAL.value)
    kind[sizes < normal] = Class.POSITIVE_SUBNORMAL
    kind[sizes == 0] = Class.POSITIVE_ZERO
    kind[np.isinf(sizes)] = Class.POSITIVE_INFINITY
    kind = np.where(np.signbit(values), 7 - kind, kind)  # as Class numbers them
    nan = np.isnan(values)
    wrong = np.where(nan, got < Class.SIGNALING_NAN, got != kind)
    want = ["a NaN" if nan[place] else Class(int(kind[place])).name for place in np.flatnonzero(wrong)[:1]]
    said = (("got", lambda of: Class(int(of)).name, got), *(("want", each) for each in want))
    return Outcome.of(wrong, ("code", subject.shown, codes), *said)


@law(
    "neighbours",
    "finite values of formats of at most 12 bits",
    lambda s: _has_order(s) and s.width <= 12,
    codebooks=True,
)
def neighbours(subject: Subject) -> Outcome:
    """The value next to a value toward +infinity is the least above it, and toward -infinity back again."""
    values = values_of(np.arange(1 << subject.width), subject.format)
    values = np.unique(values[np.isfinite(values)] + 0.0)
    below, above = values[:-1], values[1:]
    if is_verbs(subject):
        from lowprec.arrays.orders.order import nextafter

        up = np.asarray(nextafter(below, np.inf, subject.format)).astype(np.float64)
        down = np.asarray(nextafter(above, -np.inf, subject.format)).astype(np.float64)
    else:
        last = below.size - 1
        few = np.unique(np.clip([0, 1, 2, last // 2, last - 1, last], 0, last))
        below, above = below[few], above[few]
        up, down = _next(below, Special.INFINITY, subject), _next(above, Special.NEGATIVE_INFINITY, subject)
    start, got, want = map(np.concatenate, ((below, above), (up, down), (above, below)))
    columns = (("value", number, start), ("got", number, got), ("want", number, want))
    return Outcome.of(got != want, *columns)


def _next(values: Floats, toward: Special, subject: Subject) -> Floats:
    """Return the values next to others, by the oracle; NaN where it says that there is none."""
    codes = [oracle.nextafter(Fraction(value), toward, subject.format) for value in values.tolist()]
    return np.array([np.nan if code is None else to_float(decode(code, subject.format)) for code in codes])
