"""Laws between the verbs, and of what must not matter: the type, the place and the form of a value."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import ml_dtypes
import numpy as np

from lowprec.spec.catalog import BINARY16, BINARY32, E5M2
from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Format, Sign
from lowprec.spec.projection import Projection, Saturation
from lowprec.spec.rounding import TO_ODD
from lowprec.testing.grid import Array
from lowprec.testing.law import Outcome, law, number
from lowprec.testing.laws.decoding import same
from lowprec.testing.laws.rounding import compared, inside, mirrored
from lowprec.testing.subjects import Subject, is_verbs
from lowprec.verify.inputs.conversions import inputs

_TYPES = (np.float32, np.float16, ml_dtypes.bfloat16, np.int8, np.uint8, np.int32, np.int64)


@law("idempotence", "finite numbers, every mode, saturation finite", lambda s: s.projects, codebooks=True)
def idempotence(subject: Subject) -> Iterator[Outcome]:
    """A quantized number is not changed by quantizing it again."""
    for mode in subject.modes:
        how = Projection(rounding=mode, saturation=Saturation.FINITE, zero="smallest")
        once = subject.quantize(subject.points, how)
        kept = ~np.isnan(once)
        again = subject.quantize(once[kept], how)
        said = (("rounding", mode.name), ("once", number, once[kept]), ("twice", number, again))
        yield Outcome.of(~same(again, once[kept]), ("value", number, subject.points[kept]), *said)


@law("quantize", "finite numbers in float64 and float32, every mode", is_verbs, codebooks=True)
def quantize_is_decode_of_encode(subject: Subject) -> Iterator[Outcome]:
    """Quantize gives the values of the codes that encode gives."""
    narrow = inputs(subject.format, np.float32, sparse=True)
    for values in (subject.points, narrow[np.isfinite(narrow)]):
        for mode in subject.modes:
            how = Projection(rounding=mode)
            got, want = subject.quantize(values, how), subject.decode(subject.encode(values, how))
            columns = (("value", number, values), ("type", str(values.dtype)), ("rounding", mode.name))
            yield Outcome.of(~same(got, want), *columns, ("got", number, got), ("want", number, want))


@law("types", "finite values of narrower floats, and integers below 2**53", is_verbs, codebooks=True)
def types(subject: Subject) -> Iterator[Outcome]:
    """A number gets one code, whatever type it comes in: that of the float64 that it is.

    Every mode for float32 and integers, nearest_even and toward_positive for 16-bit floats.
    """
    for kind in _TYPES:
        values = inputs(subject.format, kind, sparse=True)
        wide = values.astype(np.float64)
        values = values[np.abs(wide) < (2.0**53 if values.dtype.kind in "iu" else np.inf)]
        values = values[:: 5 if values.size > 1 << 15 else 1]
        wide = values.astype(np.float64)
        short = values.dtype.itemsize == 2
        for mode in [
            mode for mode in subject.modes if not short or mode.name in ("nearest_even", "toward_positive")
        ]:
            how = Projection(rounding=mode)
            said = (("type", str(values.dtype)), ("rounding", mode.name))
            yield compared(subject, wide, subject.encode(values, how), subject.encode(wide, how), *said)


@law(
    "place",
    "finite numbers in float64 and float32; alone, shifted, reversed, spread, with flags",
    is_verbs,
    codebooks=True,
)
def place_does_not_matter(subject: Subject) -> Iterator[Outcome]:
    """A code depends on its value alone: not on its place in the array, nor on strides, nor on flags."""
    for kind in (np.float64, np.float32):
        values = subject.points.astype(kind)
        values = values[np.isfinite(values)]
        whole = subject.encode(values)
        spread = np.zeros((values.size, 3), kind)
        spread[:, 1] = values
        some = slice(0, None, max(values.size // 16, 1))
        ways: tuple[tuple[str, Array, Array, Array], ...] = (
            ("shifted", values[3:], subject.encode(values[3:]), whole[3:]),
            ("reversed", values, subject.encode(values[::-1])[::-1], whole),
            ("spread", values, subject.encode(spread[:, 1]), whole),
            (
                "alone",
                values[some],
                np.concatenate([subject.encode(one[None]) for one in values[some]]),
                whole[some],
            ),
            ("with flags", values, _with_flags(subject, values), whole),
        )
        for name, numbers, got, want in ways:
            yield compared(subject, numbers, got, want, ("type", str(values.dtype)), ("how", name))


def _with_flags(subject: Subject, values: Array) -> Array:
    from lowprec.arrays.convert import encode

    return np.asarray(encode(values, subject.format, flags=np.zeros(values.shape, np.uint8))).astype(np.int64)


@law("cast", "every code, to e5m2, binary16 and binary32", is_verbs, codebooks=True)
def cast_is_encode_of_decode(subject: Subject) -> Iterator[Outcome]:
    """A cast gives the code that encode gives of what decode gives."""
    from lowprec.arrays.convert import cast, encode

    codes = subject.codes
    for target in (E5M2, BINARY16, BINARY32):
        got = np.asarray(cast(codes, subject.format, target))
        want = np.asarray(encode(subject.decode(codes), target))
        said = (("target", target.name), ("got", hex, got), ("want", hex, want))
        yield Outcome.of(got != want, ("code", subject.shown, codes), *said)


@law(
    "lossless widening",
    "every code that is no NaN, to binary32; formats whose values that has",
    lambda s: is_verbs(s) and _in_binary32(s),
    codebooks=True,
)
def lossless_widening(subject: Subject) -> Outcome:
    """A cast to a format with all values of this one, and back, gives the code."""
    from lowprec.arrays.convert import cast

    codes = subject.codes[~np.isnan(subject.decode(subject.codes))]
    wide = cast(codes, subject.format, BINARY32)
    got = np.asarray(cast(wide, BINARY32, subject.format)).astype(np.int64)
    columns = (("code", subject.shown, codes), ("widened", "0x{:08x}".format, wide))
    return Outcome.of(got != codes, *columns, ("got", subject.shown, got), ("want", "the code itself"))


def _in_binary32(subject: Subject) -> bool:
    if isinstance(subject.format, Codebook):
        return BINARY32.contains(subject.format)
    grid = subject.grid
    return subject.format.trailing_bits <= 23 and grid.unit >= -149 and grid.value(grid.last) < 2**128


@law(
    "odd, then even",
    "finite numbers in range; formats that can have two more trailing bits",
    lambda s: s.projects and _finer(s.format) is not None,
)
def odd_then_even(subject: Subject) -> Iterator[Outcome]:
    """Rounding to odd with two more bits, and then to nearest, rounds as once to nearest: even,
    away and zero.
    """
    finer = _finer(subject.format)
    assert finer is not None
    values = subject.places.take(inside(subject.places)).values
    first = subject.like(finer).quantize(values, Projection(rounding=TO_ODD, saturation=Saturation.FINITE))
    for mode in ("nearest_even", "nearest_away", "nearest_zero"):
        how = Projection(rounding=mode)
        got, want = subject.encode(first, how), subject.encode(values, how)
        yield compared(subject, values, got, want, ("rounding", mode))


def _finer(fmt: Format) -> Format | None:
    """Return the format with two more trailing bits and nothing but numbers, or None where there is none."""
    more = {"trailing_bits": fmt.trailing_bits + 2, "nans": 0, "infinity": False, "negative_zero": True}
    try:
        return dataclasses.replace(fmt, name="finer", **more)  # type: ignore[arg-type]
    except ValueError:
        return None


@law(
    "powers of two",
    "floating point with trailing bits; numbers from the smallest normal value to half of the largest, every "
    "mode",
    lambda s: s.projects and s.format.exponent_bits > 0 and s.format.trailing_bits > 0,
)
def powers_of_two(subject: Subject) -> Iterator[Outcome]:
    """Quantizing twice a number gives twice what quantizing the number gives, if that is in range."""
    grid, fmt = subject.grid, subject.format
    low, top = grid.number(1 << fmt.trailing_bits if fmt.subnormals else 0), grid.number(grid.last)
    sizes = np.abs(subject.points)
    values = subject.points[(sizes >= low) & (sizes <= top / 2)]
    for mode in subject.modes:
        how = Projection(rounding=mode, saturation=Saturation.PROPAGATE)
        once, twice = subject.quantize(values, how), subject.quantize(values * 2, how)
        wrong = (twice != 2 * once) & (2 * np.abs(once) <= top)
        said = (("becomes", number, once), ("its double", number, twice), ("want", number, 2 * once))
        yield Outcome.of(wrong, ("value", number, values), ("rounding", mode.name), *said)


@law(
    "sign symmetry",
    "signed formats; numbers above 0 and below the largest value, every mode",
    lambda s: s.projects and s.sign is not Sign.UNSIGNED,
)
def sign_symmetry(subject: Subject) -> Iterator[Outcome]:
    """The negative of a number becomes the negative of what the number becomes, in the mirrored mode."""
    places = subject.places.take(inside(subject.places))
    values = places.values[(places.values > 0) & (places.magnitude < subject.grid.last)]
    for mode in subject.modes:
        other = mirrored(mode.name)
        got = subject.quantize(-values, Projection(rounding=other))
        want = -subject.quantize(values, Projection(rounding=mode))
        said = (("rounding", other), ("got", number, got), ("want", number, want))
        yield Outcome.of(got != want, ("value", number, -values), *said)
