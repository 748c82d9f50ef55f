"""Laws of decoding: which number a code stands for."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from lowprec.spec.format import Sign
from lowprec.spec.projection import Saturation
from lowprec.testing.grid import EXACT, Array, values_of
from lowprec.testing.law import Outcome, law, number
from lowprec.testing.subjects import Subject, is_verbs
from lowprec.verify.codes.values import own_dtype


def same(x: Array, y: Array) -> Array:
    """Return whether floats are equal, zeros by their sign and NaNs all alike."""
    right: Array = ((x == y) & (np.signbit(x) == np.signbit(y))) | (np.isnan(x) & np.isnan(y))
    return right


def _half(subject: Subject) -> int:
    """Return how many codes have a clear sign bit."""
    return 1 << (subject.width - (subject.sign is not Sign.UNSIGNED))


def _magnitudes(subject: Subject) -> Array:
    """Return codes with a clear sign bit, ascending."""
    codes: Array = subject.codes[subject.codes < _half(subject)]
    return codes


@law("values", "every code", lambda s: s.known)
def values(subject: Subject) -> Outcome:
    """A code stands for what the parameters say: (1 + trailing / 2**t) * 2**(field - bias), with its sign.

    Where field 0 means subnormals it is trailing / 2**t * 2**(1 - bias). From the top down codes are NaNs,
    then an infinity; a NaN has the sign of its code, or none where the code of -0 is a NaN too.
    """
    codes = subject.codes
    want, got = values_of(codes, subject.format), subject.decode(codes)
    wrong = ~same(got, want) | np.isnan(want) & (np.signbit(got) != np.signbit(want))
    return Outcome.of(wrong, ("code", subject.shown, codes), ("want", number, want))


@law("increasing", "finite codes with a clear sign bit")
def increasing(subject: Subject) -> Outcome:
    """A larger magnitude stands for a larger value."""
    codes = _magnitudes(subject)
    numbers = subject.decode(codes)
    pairs = np.isfinite(numbers[:-1]) & np.isfinite(numbers[1:])
    wrong = pairs & ~(numbers[:-1] < numbers[1:])
    columns = (("code", subject.shown, codes), ("next", subject.shown, codes[1:]))
    said = ("want", lambda value: f"more than {number(value)}", numbers)
    return Outcome.of(wrong, *columns, said, tried=int(pairs.sum()))


@law("specials on top", "codes with a clear sign bit")
def specials_on_top(subject: Subject) -> Outcome:
    """Finite codes come first, then at most one infinity, then NaNs: none lies inside the finite range."""
    codes = _magnitudes(subject)
    numbers = subject.decode(codes)
    finite = np.flatnonzero(np.isfinite(numbers))
    end = int(finite[-1]) if finite.size else -1
    wrong = ~np.isfinite(numbers) & (np.arange(codes.size) <= end)
    wrong |= np.isinf(numbers) & (np.arange(codes.size) > end + 1)
    wrong[0] |= not finite.size
    row = ("code", subject.shown, codes)
    if int(np.argmax(wrong)) > end + 1:
        return Outcome.of(wrong, row, ("want", "NaN"))
    above = (("finite above", subject.shown(codes[end])),) if end > 0 else ()
    return Outcome.of(wrong, row, *above, ("want", "a finite value"))


@law("signs", "signed formats, every code with a clear sign bit", lambda s: s.sign is not Sign.UNSIGNED)
def signs(subject: Subject) -> Outcome:
    """With the sign bit set, or the two's complement taken, it stands for the negative of its value.

    The code of -0 may be that of a NaN instead; two's complement has no -0.
    """
    codes = _magnitudes(subject)
    other = codes + _half(subject)
    if subject.sign is Sign.TWOS_COMPLEMENT:
        codes = codes[codes > 0]
        other = 2 * _half(subject) - codes
    numbers, negated = subject.decode(codes), subject.decode(other)
    right = same(negated, -numbers) | (codes == 0) & (numbers == 0) & np.isnan(negated)
    columns = (("code", subject.shown, codes), ("with sign", subject.shown, other))
    return Outcome.of(~right, *columns, ("want", number, -numbers))


@law(
    "round trip",
    "every code that is not a NaN; nor an infinity where nothing but `decode` describes the format, or "
    "saturation is finite",
    lambda s: s.encodes,
    codebooks=True,
)
def round_trip(subject: Subject) -> Outcome:
    """Encoding the value of a code gives the code."""
    numbers = subject.decode(subject.codes)
    infinite = subject.known and tuple(subject.policies) != (Saturation.FINITE,)
    chosen = ~np.isnan(numbers) if infinite else np.isfinite(numbers)
    codes, got = subject.codes[chosen], subject.encode(numbers[chosen])
    columns = (("code", subject.shown, codes), ("got", subject.shown, got))
    return Outcome.of(got != codes, *columns, ("want", "the code itself"))


@law(
    "published type",
    "every code; formats that NumPy or ml_dtypes has a type for",
    lambda s: s.known and own_dtype(s.format) is not None,
)
def published_type(subject: Subject) -> Outcome:
    """A code stands for what that type makes of it."""
    codes, own = subject.codes, own_dtype(subject.format)
    assert own is not None
    if own.kind in "iu" or own.name.startswith(("int", "uint")):  # narrow ones have their sign extended
        negative = (codes >> (subject.width - 1) > 0) & (subject.sign is Sign.TWOS_COMPLEMENT)
        want = np.where(negative, codes - (1 << subject.width), codes).astype(float)
    else:
        want = codes.astype(f"u{own.itemsize}").view(own).astype(np.float64)
    said = ("want", lambda value: f"{number(value)}, by {own.name}", want)
    return Outcome.of(~same(subject.decode(codes), want), ("code", subject.shown, codes), said)


@law("limits", "every format, as lowprec describes it", is_verbs)
def limits(subject: Subject) -> Outcome:
    """The limits that a `Format` states are those of its codes.

    They are max_finite, min_finite, min_normal, min_subnormal, emin, emax, eps, infinity_code, has_nan and
    nan_code.
    """
    fmt, grid = subject.format, subject.grid
    first = 1 << fmt.trailing_bits if fmt.subnormals else 0
    normal = grid.number(first) if fmt.exponent_bits and first <= grid.last else None
    lowest = -grid.number(grid.last_negative) if grid.last_negative >= 0 else grid.number(0)
    one = grid.place(Fraction(1))
    want: dict[str, object] = {
        "max_finite": grid.number(grid.last),
        "min_finite": lowest,
        "min_normal": normal,
        "min_subnormal": grid.number(1) if fmt.subnormals and fmt.trailing_bits else None,
        "emax": _exponent(grid.number(grid.last)),
        "eps": grid.number(one.magnitude + 1) - 1.0
        if one.kind == EXACT and one.magnitude < grid.last
        else None,
        "infinity_code": grid.last + 1 if fmt.infinity else None,
        "has_nan": bool(fmt.nans) or not fmt.negative_zero,
    }
    if normal is not None:
        want["emin"] = _exponent(normal)
    tried = len(want) + 1
    for name, value in want.items():
        given = getattr(fmt, name)
        if given != value:
            return Outcome.broken(tried, (name, str(given)), ("want", str(value)))
    nan = fmt.nan_code
    if nan is not None and not np.isnan(subject.decode(np.array([nan]))).all():
        return Outcome.broken(tried, ("nan_code", subject.shown(nan)), ("want", "NaN"))
    return Outcome(tried)


def _exponent(value: float) -> int:
    return int(np.frexp(value)[1]) - 1
