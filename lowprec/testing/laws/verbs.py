"""Laws between the verbs, and of what must not matter: the type, the place and the way that a value comes in.

Floor 5.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from lowprec.spec.format import Format, Sign
from lowprec.spec.projection import Projection, Saturation
from lowprec.spec.rounding import TO_ODD
from lowprec.testing.grid import EXACT
from lowprec.testing.law import Counterexample, Outcome, law, shown_value
from lowprec.testing.laws.decoding import same
from lowprec.testing.laws.rounding import inside
from lowprec.testing.subjects import Subject
from lowprec.tools.cases import inputs

__all__: list[str] = []

Array = npt.NDArray[Any]

_TYPES = (np.float32, np.float16, ml_dtypes.bfloat16, np.int8, np.uint8, np.int32, np.int64)
_MIRROR = {"toward_positive": "toward_negative", "toward_negative": "toward_positive"}


def _ours(subject: Subject) -> bool:
    return subject.fmt is not None and subject.encodes and len(subject.modes) > 1


def _arrays(subject: Subject) -> bool:
    return subject.path == "arrays"


def _differ(subject: Subject, values: Array, got: Array, want: Array, *more: tuple[str, str]) -> Counterexample | None:
    """The first value whose codes differ."""
    if not (got != want).any():
        return None
    place = int(np.argmax(got != want))
    rows = (("value", shown_value(float(values[place]))), *more)
    return Counterexample((*rows, ("got", subject.shown(got[place])), ("want", subject.shown(want[place]))))


@law("idempotence", "format", "finite numbers, every mode", lambda s: _ours(s))
def idempotence(subject: Subject) -> Outcome:
    """What has been quantized is not changed by quantizing it again."""
    values, tried = subject.points, 0
    for mode in subject.modes:
        how = Projection(rounding=mode, saturation=Saturation.FINITE, zero="smallest")
        once = subject.quantize(values, how)
        kept = ~np.isnan(once)
        again = subject.quantize(once[kept], how)
        right = same(again, once[kept])
        tried += again.size
        if not right.all():
            place = int(np.argmin(right))
            rows = (
                ("value", shown_value(values[kept][place])),
                ("rounding", mode.name),
                ("once", shown_value(once[kept][place])),
                ("twice", shown_value(again[place])),
            )
            return Outcome(tried, Counterexample(rows))
    return Outcome(tried)


@law("quantize", "format", "finite numbers, every mode", _arrays)
def quantize_is_decode_of_encode(subject: Subject) -> Outcome:
    """Quantize gives the values of the codes that encode gives."""
    values, tried = subject.points, 0
    for kind in (np.float64, np.float32):
        numbers = values.astype(kind) if kind is np.float64 else inputs(subject.format, kind, sparse=True)
        numbers = numbers[np.isfinite(numbers)]
        for mode in subject.modes:
            how = Projection(rounding=mode)
            got = subject.quantize(numbers, how)
            want = subject.decode(subject.encode(numbers, how))
            right = same(got, want)
            tried += got.size
            if not right.all():
                place = int(np.argmin(right))
                rows = (
                    ("value", f"{shown_value(float(numbers[place]))} as {np.dtype(kind)}"),
                    ("rounding", mode.name),
                    ("got", shown_value(got[place])),
                    ("want", shown_value(want[place])),
                )
                return Outcome(tried, Counterexample(rows))
    return Outcome(tried)


@law("types", "format", "values of narrower floats and of integers, every mode", _arrays)
def types(subject: Subject) -> Outcome:
    """A number gets one code, whatever type it comes in: that of the float64 that it is."""
    tried = 0
    for kind in _TYPES:
        values = inputs(subject.format, kind, sparse=True)
        if values.dtype.kind in "iu":
            values = values[np.abs(values.astype(np.float64)) < 2.0**53]  # all of these are float64s
        else:
            values = values[np.isfinite(values)]
        values = values[:: 5 if values.size > 1 << 15 else 1]
        few = values.dtype.itemsize < 4 and values.dtype.kind not in "iu"
        for mode in subject.modes[:1] + subject.modes[4:5] if few else subject.modes:
            how = Projection(rounding=mode)
            wide = values.astype(np.float64)
            found = _differ(
                subject,
                wide,
                subject.encode(values, how),
                subject.encode(wide, how),
                ("type", str(values.dtype)),
                ("rounding", mode.name),
            )
            tried += values.size
            if found is not None:
                return Outcome(tried, found)
    return Outcome(tried)


@law("place", "format", "finite numbers, alone, shifted, reversed and spread", _arrays)
def place_does_not_matter(subject: Subject) -> Outcome:
    """A code depends on its value alone: not on its place in the array, nor on strides, nor on flags."""
    tried = 0
    for kind in (np.float64, np.float32):
        values = subject.points.astype(kind)
        values = values[np.isfinite(values)]
        whole = subject.encode(values)
        spread = np.zeros((values.size, 3), kind)
        spread[:, 1] = values
        some = slice(0, None, max(values.size // 16, 1))
        ways: tuple[tuple[str, Array, Array], ...] = (
            ("shifted", subject.encode(values[3:]), whole[3:]),
            ("reversed", subject.encode(values[::-1])[::-1], whole),
            ("spread", subject.encode(spread[:, 1]), whole),
            ("alone", np.concatenate([subject.encode(one[None]) for one in values[some]]), whole[some]),
            ("with flags", _with_flags(subject, values), whole),
        )
        for name, got, want in ways:
            numbers = values[some] if name == "alone" else values[3:] if name == "shifted" else values
            found = _differ(subject, numbers.astype(np.float64), got, want, ("type", str(values.dtype)), ("how", name))
            tried += got.size
            if found is not None:
                return Outcome(tried, found)
    return Outcome(tried)


def _with_flags(subject: Subject, values: Array) -> Array:
    from lowprec.arrays.convert import encode

    signals = np.zeros(values.shape, np.uint8)
    return np.asarray(encode(values, subject.format, flags=signals)).astype(np.int64)


@law("cast", "format", "every code, to e5m2, binary16 and binary32", _arrays)
def cast_is_encode_of_decode(subject: Subject) -> Outcome:
    """A cast gives the code that encode gives of what decode gives."""
    from lowprec.arrays.convert import cast, encode
    from lowprec.spec.catalog import BINARY16, BINARY32, E5M2

    codes, tried = subject.codes, 0
    values = subject.decode(codes)
    for target in (E5M2, BINARY16, BINARY32):
        got = np.asarray(cast(codes, subject.format, target)).astype(np.int64)
        want = np.asarray(encode(values, target)).astype(np.int64)
        tried += codes.size
        if (got != want).any():
            place = int(np.argmax(got != want))
            rows = (
                ("code", subject.shown(codes[place])),
                ("target", target.name),
                ("got", f"0x{got[place]:x}"),
                ("want", f"0x{want[place]:x}"),
            )
            return Outcome(tried, Counterexample(rows))
    return Outcome(tried)


@law(
    "lossless widening",
    "format",
    "every code; formats that binary32 contains",
    lambda s: _arrays(s) and _holds_all(s),
)
def lossless_widening(subject: Subject) -> Outcome:
    """A cast to a format that contains this one, and back, gives the code; of a NaN the format's own."""
    from lowprec.arrays.convert import cast
    from lowprec.spec.catalog import BINARY32

    codes = subject.codes[~np.isnan(subject.decode(subject.codes))]
    wide = cast(codes, subject.format, BINARY32)
    got = np.asarray(cast(wide, BINARY32, subject.format)).astype(np.int64)
    if (got == codes).all():
        return Outcome(codes.size)
    place = int(np.argmin(got == codes))
    rows = (("code", subject.shown(codes[place])), ("widened", f"0x{int(wide[place]):08x}"))
    return Outcome(codes.size, Counterexample((*rows, ("got", subject.shown(got[place])))))


def _holds_all(subject: Subject) -> bool:
    """Whether binary32 has every value, judged by the values themselves."""
    grid, fmt = subject.grid, subject.format
    lowest, top = float(grid.value(0 if not fmt.subnormals else 1)), float(grid.value(grid.last))
    return fmt.trailing_bits <= 23 and lowest >= 2.0**-149 and top < 2.0**128 and grid.unit >= -149


def _finer(fmt: Format) -> Format | None:
    """The same format with two more trailing bits and nothing but numbers, or None where there is none."""
    try:
        return dataclasses.replace(
            fmt,
            name="finer",
            trailing_bits=fmt.trailing_bits + 2,
            nans=0,
            infinity=False,
            negative_zero=True,
        )
    except ValueError:
        return None


@law(
    "odd, then even",
    "format",
    "numbers in range; formats that can have two more trailing bits",
    lambda s: _ours(s) and _finer(s.fmt) is not None,
)
def odd_then_even(subject: Subject) -> Outcome:
    """Rounding to odd with two more bits, and then to nearest, rounds as once to nearest: even, away and zero."""
    finer = _finer(subject.format)
    assert finer is not None
    values = subject.points[np.abs(subject.points) <= float(subject.grid.value(subject.grid.last))]
    if subject.sign is Sign.UNSIGNED:
        values = values[~np.signbit(values)]
    if not subject.format.subnormals:
        values = values[np.abs(values) >= float(subject.grid.value(0))]
    first = type(subject)(finer).quantize(values, Projection(rounding=TO_ODD, saturation=Saturation.FINITE))
    tried = 0
    for mode in ("nearest_even", "nearest_away", "nearest_zero"):
        how = Projection(rounding=mode)  # type: ignore[arg-type]
        got, want = subject.encode(first, how), subject.encode(values, how)
        tried += values.size
        found = _differ(subject, values, got, want, ("rounding", mode))
        if found is not None:
            return Outcome(tried, found)
    return Outcome(tried)


@law(
    "powers of two",
    "format",
    "floating point; numbers that stay in the normal range when they are doubled",
    lambda s: _ours(s) and s.fmt.exponent_bits > 0 and s.fmt.trailing_bits > 0,
)
def powers_of_two(subject: Subject) -> Outcome:
    """Quantizing twice a number gives twice what quantizing the number gives."""
    grid, fmt = subject.grid, subject.format
    low = float(grid.value(1 << fmt.trailing_bits if fmt.subnormals else 0))
    high = float(grid.value(grid.last)) / 2
    values = subject.points[(np.abs(subject.points) >= low) & (np.abs(subject.points) <= high)]
    if subject.sign is Sign.UNSIGNED:
        values = values[~np.signbit(values)]
    tried = 0
    for mode in subject.modes:
        how = Projection(rounding=mode, saturation=Saturation.PROPAGATE)
        once, twice = subject.quantize(values, how), subject.quantize(values * 2, how)
        wrong = (twice != 2 * once) & (2 * np.abs(once) <= 2 * high)
        tried += values.size
        if wrong.any():
            place = int(np.argmax(wrong))
            rows = (
                ("value", shown_value(values[place])),
                ("rounding", mode.name),
                ("becomes", shown_value(once[place])),
                ("its double", shown_value(twice[place])),
                ("want", shown_value(2 * once[place])),
            )
            return Outcome(tried, Counterexample(rows))
    return Outcome(tried)


@law("sign symmetry", "format", "signed formats, numbers in range", lambda s: _ours(s) and s.sign is not Sign.UNSIGNED)
def sign_symmetry(subject: Subject) -> Outcome:
    """The negative of a number becomes the negative of what the number becomes, in the mirrored mode."""
    places = subject.places.take(inside(subject.places) | (subject.places.kind == EXACT))
    values = places.values[(places.values > 0) & (places.magnitude < subject.grid.last)]
    tried = 0
    for mode in subject.modes:
        mirrored = Projection(rounding=_MIRROR.get(mode.name, mode.name))  # type: ignore[arg-type]
        got = subject.quantize(-values, mirrored)
        want = -subject.quantize(values, Projection(rounding=mode))
        wrong = got != want
        tried += values.size
        if wrong.any():
            place = int(np.argmax(wrong))
            rows = (
                ("value", shown_value(-values[place])),
                ("rounding", str(mirrored.rounding)),
                ("got", shown_value(got[place])),
                ("want", shown_value(want[place])),
            )
            return Outcome(tried, Counterexample(rows))
    return Outcome(tried)
