"""Laws of decoding: which number a code stands for.

Floor 5.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.spec.format import Sign
from lowprec.testing.grid import code_of
from lowprec.testing.law import Counterexample, Outcome, law, shown_value
from lowprec.testing.subjects import Subject

__all__ = ["defined_values", "same"]

Array = npt.NDArray[Any]


def same(x: Array, y: Array) -> Array:
    """Whether floats are equal, zeros by their sign and NaNs all alike."""
    right: Array = ((x == y) & (np.signbit(x) == np.signbit(y))) | (np.isnan(x) & np.isnan(y))
    return right


def _half(subject: Subject) -> int:
    """How many codes have a clear sign bit."""
    return 1 << (subject.width - (subject.sign is not Sign.UNSIGNED))


def _magnitudes(subject: Subject) -> Array:
    """Codes with a clear sign bit, ascending."""
    codes: Array = subject.codes
    return codes[subject.codes < _half(subject)]


def defined_values(subject: Subject) -> tuple[Array, Array]:
    """Codes and the values that the parameters of the format give them, NaNs with their signs."""
    known: tuple[Array, Array] | None = subject.__dict__.get("_defined")
    if known is not None:
        return known
    fmt, grid, codes = subject.format, subject.grid, subject.codes
    size = 1 << (fmt.exponent_bits + fmt.trailing_bits)
    signs = codes >= size if fmt.sign is not Sign.UNSIGNED else np.zeros(codes.size, bool)
    magnitude = np.where(signs, codes - size, codes)
    if fmt.sign is Sign.TWOS_COMPLEMENT:
        magnitude = np.where(signs, 2 * size - codes, codes)
    inside = magnitude <= np.where(signs, grid.last_negative, grid.last)
    values = np.full(codes.size, np.nan)
    values[inside] = [float(grid.value(int(m))) for m in magnitude[inside]]
    if fmt.infinity:
        values[magnitude == grid.last + 1] = np.inf
    values = np.where(signs & (fmt.negative_zero | ~np.isnan(values)), -values, np.abs(values))
    if fmt.sign is Sign.MAGNITUDE and not fmt.negative_zero:
        values = np.where(codes == size, np.nan, np.where(np.isnan(values), np.nan, values))
    if fmt.sign is Sign.TWOS_COMPLEMENT:
        values = values + 0.0
    subject.__dict__["_defined"] = codes, values
    return codes, values


@law("values", "format", "every code", lambda s: s.fmt is not None)
def values_of_codes(subject: Subject) -> Outcome:
    """A code stands for what the parameters say: (1 + trailing / 2**t) * 2**(field - bias).

    It is 0.xxx where the field is 0 and the format has subnormals; from the top down codes are NaNs, then infinity.
    """
    codes, want = defined_values(subject)
    got = subject.decode(codes)
    wrong = ~same(got, want) | (np.isnan(want) & (np.signbit(got) != np.signbit(want)))
    if not wrong.any():
        return Outcome(codes.size)
    place = int(np.argmax(wrong))
    return Outcome(
        codes.size, Counterexample((("code", subject.shown(codes[place])), ("want", shown_value(want[place]))))
    )


@law("increasing", "format", "finite codes with a clear sign bit; those next to each other")
def increasing(subject: Subject) -> Outcome:
    """A larger magnitude stands for a larger value."""
    codes = _magnitudes(subject)
    values = subject.decode(codes)
    pairs = np.isfinite(values[:-1]) & np.isfinite(values[1:])
    wrong = pairs & ~(values[:-1] < values[1:])
    if not wrong.any():
        return Outcome(int(pairs.sum()))
    place = int(np.argmax(wrong))
    rows = (("code", subject.shown(codes[place])), ("next", subject.shown(codes[place + 1])))
    return Outcome(int(pairs.sum()), Counterexample((*rows, ("want", f"more than {shown_value(values[place])}"))))


@law("specials on top", "format", "codes with a clear sign bit")
def specials_on_top(subject: Subject) -> Outcome:
    """Finite codes come first, then at most one infinity, then NaNs: none lies inside the finite range."""
    codes = _magnitudes(subject)
    values = subject.decode(codes)
    finite = np.flatnonzero(np.isfinite(values))
    end = int(finite[-1]) if finite.size else -1
    wrong = ~np.isfinite(values) & (np.arange(codes.size) <= end)
    wrong |= np.isinf(values) & (np.arange(codes.size) > end + 1)
    if finite.size and not wrong.any():
        return Outcome(codes.size)
    if not finite.size:
        return Outcome(codes.size, Counterexample((("code", subject.shown(codes[0])), ("want", "a finite value"))))
    place = int(np.argmax(wrong))
    rows: tuple[tuple[str, str], ...] = (("code", subject.shown(codes[place])),)
    if place < end:
        rows += (("finite above", subject.shown(codes[end])), ("want", "a finite value"))
    else:
        rows += (("want", "NaN"),)
    return Outcome(codes.size, Counterexample(rows))


@law("signs", "format", "signed formats, every magnitude", lambda s: s.sign is not Sign.UNSIGNED)
def signs(subject: Subject) -> Outcome:
    """The code with the sign bit set stands for the negative of the value; of two's complement, the complement does."""
    codes = _magnitudes(subject)
    other = codes + _half(subject)
    if subject.sign is Sign.TWOS_COMPLEMENT:
        codes = codes[codes > 0]
        other = 2 * _half(subject) - codes
    values, negated = subject.decode(codes), subject.decode(other)
    right = same(negated, -values)
    # The code of -0 may be that of a NaN; two's complement has no -0.
    right |= (codes == 0) & (values == 0) & np.isnan(negated)
    if right.all():
        return Outcome(codes.size)
    place = int(np.argmin(right))
    rows = (("code", subject.shown(codes[place])), ("with sign", subject.shown(other[place])))
    return Outcome(codes.size, Counterexample((*rows, ("want", shown_value(-values[place])))))


@law("round trip", "format", "every code that is not a NaN", lambda s: s.encodes)
def round_trip(subject: Subject) -> Outcome:
    """Encoding the value of a code gives the code."""
    codes = subject.codes
    values = subject.decode(codes)
    chosen = ~np.isnan(values)
    codes, values = codes[chosen], values[chosen]
    if subject.fmt is None:  # what it makes of infinities is its own affair
        codes, values = codes[np.isfinite(values)], values[np.isfinite(values)]
    got = subject.encode(values)
    wrong = got != codes
    if not wrong.any():
        return Outcome(codes.size)
    place = int(np.argmax(wrong))
    rows = (("code", subject.shown(codes[place])), ("got", subject.shown(got[place])))
    return Outcome(codes.size, Counterexample((*rows, ("want", "the code itself"))))


def _type_of(subject: Subject) -> Any:
    from lowprec.arrays.checks import dtype

    try:
        return dtype(subject.format)
    except ValueError:
        return None


@law(
    "published type",
    "format",
    "formats that NumPy or ml_dtypes has a type for",
    lambda s: s.fmt is not None and _type_of(s) is not None,
)
def published_type(subject: Subject) -> Outcome:
    """Codes stand for what the type of that name in NumPy or ml_dtypes makes of them."""
    codes, own = subject.codes, _type_of(subject)
    typed = codes.astype(f"u{own.itemsize}").view(own)
    if own.kind in "iu" or own.name in ("int2", "int4"):  # 8 bits of storage, sign extended
        top = 1 << (subject.width - 1)
        want = np.where((codes >= top) & (subject.sign is Sign.TWOS_COMPLEMENT), codes - 2 * top, codes).astype(float)
    else:
        want = typed.astype(np.float64)
    got = subject.decode(codes)
    wrong = ~same(got, want)
    if not wrong.any():
        return Outcome(codes.size)
    place = int(np.argmax(wrong))
    rows = (("code", subject.shown(codes[place])), ("want", f"{shown_value(want[place])}, by {own.name}"))
    return Outcome(codes.size, Counterexample(rows))


@law("limits", "format", "every format", lambda s: s.fmt is not None and s.path == "arrays")
def limits(subject: Subject) -> Outcome:
    """max_finite, min_finite, min_normal, min_subnormal, nan_code and infinity_code are those that the codes have."""
    fmt, grid = subject.format, subject.grid
    codes, values = defined_values(subject)
    top, normal = float(grid.value(grid.last)), 1 << fmt.trailing_bits
    first = normal if fmt.subnormals else 0
    lowest = -float(grid.value(grid.last_negative)) if grid.last_negative >= 0 else float(grid.value(0))
    want: dict[str, object] = {
        "max_finite": top,
        "min_finite": lowest,
        "min_normal": float(grid.value(first)) if fmt.exponent_bits and first <= grid.last else None,
        "min_subnormal": float(grid.value(1)) if fmt.subnormals and fmt.trailing_bits else None,
        "infinity_code": int(codes[np.argmax(values == np.inf)]) if np.inf in values else None,
        "has_nan": bool(np.isnan(values).any()),
    }
    for name, value in want.items():
        given = getattr(fmt, name)
        if given != value:
            return Outcome(len(want), Counterexample(((name, str(given)), ("want", str(value)))))
    if fmt.nan_code is not None and not np.isnan(subject.decode(np.array([fmt.nan_code]))).all():
        return Outcome(len(want), Counterexample((("nan_code", subject.shown(fmt.nan_code)), ("want", "NaN"))))
    return Outcome(len(want) + 1)


def extreme_codes(subject: Subject) -> tuple[int, int]:
    """The codes of the largest and of the most negative finite value; of unsigned formats 0 for the latter."""
    grid, fmt = subject.grid, subject.format
    if grid.last_negative < 0:
        return grid.last, 0
    lowest = code_of(np.array([grid.last_negative]), np.array([True]), fmt)
    return grid.last, int(lowest[0])
