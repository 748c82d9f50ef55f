"""Edits of values on their way to a rounder: of shifts, of exponents, and of bits that it does not see."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

import numpy as np

from lowprec.arrays.checks import code_dtype
from lowprec.spec.format import Format
from lowprec.verify.codes.values import as_doubles
from lowprec.verify.questions.causes import GUARDED, cut_behind_guard, guard_words
from lowprec.verify.questions.features import exponents
from lowprec.verify.questions.question import Array

__all__ = ["of_conversions", "of_exponents", "shifts", "wrapped_at"]


def of_conversions(source: Format, target: Format) -> Iterator[tuple[str, Callable[[Array], Array]]]:
    """Yield edits of values that are to be rounded, in words: of shifts of subnormal results, and of bits."""
    lacks = source.trailing_bits - target.trailing_bits
    for more, also in {0: "", lacks: f", by {lacks} places more than these,"}.items():
        for words, change in shifts(f"shifts of subnormal results{also}"):
            lowest = source.emin if more else None
            by = functools.partial(of_exponents, change=change, least=target.emin, more=more, lowest=lowest)
            yield words, by
            if "modulo" in words or "is 0" in words:
                yield f"{words}; bits before the point lost", functools.partial(by, whole=False)
                as_codes = functools.partial(_as_codes, change=by, fmt=target)
                yield f"{words}; what is left is the code", as_codes
    bits = target.precision
    twice = functools.partial(_rounded_first, bits=bits, least=target.emin)
    yield "rounded twice where the result is subnormal: first as if exponents had no least", twice
    for bit in range(1, target.trailing_bits + 1):
        by_bit = functools.partial(_ties_by, fmt=target, bit=bit)
        yield f"ties to the neighbour that is even by bit {bit}, not by the last bit", by_bit
    least = 2.0**target.emin
    yield (
        "the leading one of results below the normal numbers lost, not shifted",
        lambda values: np.where(
            exponents(values) == target.emin - 1, 2 * values - np.copysign(least, values), values
        ),
    )
    yield (
        "bits between the guard bits of subnormal and of normal results not seen by the sticky bit",
        functools.partial(_sticky_early, fmt=target),
    )
    unit = 2.0 ** (target.emin - source.trailing_bits)
    yield "bits that shifts of subnormal results drop lost", lambda values: np.trunc(values / unit) * unit
    for bits in range(3, source.exponent_bits):
        wrapped = functools.partial(_exponents_wrapped, top=1 << bits - 1)
        yield f"exponents of the operand of {bits} bits, which wrap around", wrapped
    for bits in range(GUARDED, source.trailing_bits - target.trailing_bits - 1):
        yield guard_words(bits), functools.partial(cut_behind_guard, fmt=target, bits=bits)


def _as_codes(values: Array, change: Callable[[Array], Array], fmt: Format) -> Array:
    """Return values of which those below the normal numbers, after an edit, count steps between codes."""
    made = change(values)
    steps = np.minimum(np.abs(made) / 2.0 ** (fmt.emin - fmt.trailing_bits), fmt.max_magnitude + 1.0)
    below = np.floor(steps).astype(np.int64)
    last = np.minimum(below, fmt.max_magnitude - 1)
    ends = [as_doubles((last + up).astype(code_dtype(fmt)), fmt) for up in (0, 1)]
    size = ends[0] + (steps - last) * (ends[1] - ends[0])
    return np.where(exponents(values) < fmt.emin, np.copysign(size, values), made)


def _sticky_early(values: Array, fmt: Format) -> Array:
    """Return values without the bits that only a shift to the right brings behind the guard bit."""
    unit = np.ldexp(1.0, exponents(values) - fmt.trailing_bits - 1)
    between = np.trunc(values / unit) * unit - cut_behind_guard(values, fmt, 0)
    return np.where(exponents(values) < fmt.emin, values - between, values)


def _ties_by(values: Array, fmt: Format, bit: int) -> Array:
    """Return values of which ties lie a little farther from zero where the code below has a bit set."""
    exponent = np.maximum(exponents(values), fmt.emin)
    unit = np.ldexp(1.0, exponent - fmt.trailing_bits)
    with np.errstate(all="ignore"):
        size = np.abs(values) / unit
    below = np.floor(size)
    tie = size - below == 0.5
    code = np.where(tie, below, 0).astype(np.int64) + (exponent - fmt.emin << fmt.trailing_bits)
    up = (code >> bit & 1) == 1
    return np.where(tie, np.copysign((below + np.where(up, 0.75, 0.25)) * unit, values), values)


def _exponents_wrapped(values: Array, top: int) -> Array:
    """Return values whose exponents are taken modulo 2 * top, from -top on."""
    return np.asarray(np.ldexp(values, wrapped_at(exponents(values), top) - exponents(values)))


def _rounded_first(values: Array, bits: int, least: int) -> Array:
    """Return values below a power of two rounded to so many bits, ties to even."""
    unit = np.ldexp(1.0, exponents(values) + 1 - bits)
    return np.where(exponents(values) < least, np.rint(values / unit) * unit, values)


def shifts(what: str) -> Iterator[tuple[str, Callable[[Array], Array]]]:
    """Yield edits of shifts, as words that say of what they are, and functions of integers."""
    for bits in range(3, 9):
        yield f"{what} modulo {1 << bits}", functools.partial(np.bitwise_and, (1 << bits) - 1)
        yield f"bit {bits - 1} of {what} is 0", functools.partial(np.bitwise_and, ~(1 << bits - 1))
    yield f"{what} one place too far", lambda by: by + (by > 0)
    yield f"{what} one place too short", lambda by: np.maximum(by - 1, 0)
    for most in (*range(3, 33), 48, 63):
        yield f"{what} at most {most}", functools.partial(np.minimum, most)


def of_exponents(
    values: Array,
    change: Callable[[Array], Array],
    least: int,
    more: int = 0,
    lowest: int | None = None,
    whole: bool = True,
) -> Array:
    """Return values whose shifts, by which their exponents are below one, and so many more, are changed.

    Exponents of values are read as `lowest`, if it is given, where they are lower. If not `whole`, what
    shifts leave above twice the smallest normal number is lost.
    """
    far = least - (exponents(values) if lowest is None else np.maximum(exponents(values), lowest))
    shift = far + more
    made = np.ldexp(values, shift - change(shift))
    return np.asarray(np.where(far > 0, made if whole else np.fmod(made, 2.0 ** (least + 1)), values))


def wrapped_at(exponents: Array, top: int) -> Array:
    """Return integers modulo 2 * top, from -top on."""
    return np.asarray(np.mod(exponents + top, 2 * top) - top)
