"""Edits of exact results of sums and products, on their way to the rounder: bits that it does not see."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from lowprec.arrays.convert import quantize
from lowprec.spec import catalog
from lowprec.spec.format import Format
from lowprec.spec.projection import Projection
from lowprec.verify.codes.values import as_doubles
from lowprec.verify.questions.causes import cut_behind_guard, guard_words
from lowprec.verify.questions.conversion_edits import of_conversions
from lowprec.verify.questions.features import exponents
from lowprec.verify.questions.question import Array
from lowprec.verify.reference.operations import OPERATIONS

__all__ = ["EXACT", "OnExact", "edited_codes", "exact_results", "of_exact", "of_held", "operand_features"]

#: Operations whose exact results are those of a product and a sum, or a value.
EXACT = ("add", "subtract", "multiply", "fma", "convert")
#: Bits behind the guard bit that the sticky bit may stop at; single and last bits, and bits in a row, that it
#: may miss.
_GUARDED, _MISSED, _RUN = 16, 8, 4

_TO_ODD = Projection(rounding="to_odd")

OnExact = Callable[[Array, Array], Array]


def exact_results(operation: str, operands: Sequence[Array], formats: Sequence[Format]) -> Array:
    """Return exact results of codes of these formats in float64, to odd where they have more than 53 bits."""
    if operation == "convert":
        return as_doubles(operands[0], formats[0])
    into = (*formats, catalog.BINARY64)
    return OPERATIONS[operation].compute(list(operands), into, _TO_ODD, random=None).view(np.float64)


def _last_places(operation: str, operands: Sequence[Array], formats: Sequence[Format]) -> Array:
    """Return the exponents of the last bits of exact results, counted from those of the operands."""
    lasts = [
        _fields(as_doubles(codes, fmt), fmt) - fmt.trailing_bits
        for codes, fmt in zip(operands, formats, strict=True)
    ]
    first = lasts[0] + lasts[1] if operation in ("multiply", "fma") else lasts[0]
    return first if operation == "multiply" else np.minimum(first, lasts[-1])


def _fields(values: Array, fmt: Format) -> Array:
    """Return exponents as fields of codes have them; of infinities and NaNs 0."""
    return np.where(values == 0, fmt.emin, np.maximum(exponents(values), fmt.emin))


def edited_codes(asked: Any, codes: Array, change: OnExact, *, zeros: bool = False) -> Array:
    """Return codes of edited exact results of a computation, where these are finite, and zeros too or not."""
    given = asked.operation, asked.operands, asked.formats[:-1]
    exact, lasts = exact_results(*given), _last_places(*given)
    plain = np.isfinite(exact) & (zeros | (exact != 0))
    with np.errstate(all="ignore"):
        made = np.copysign(change(np.where(plain, exact, 1.0), lasts), exact)
    formats = (catalog.BINARY64, asked.formats[-1])
    edited = OPERATIONS["convert"].compute([made.view(np.uint64)], formats, asked.rule, random=None)
    return np.where(plain, edited, codes)


def of_exact(operation: str, target: Format, precision: int) -> Iterator[tuple[str, OnExact]]:
    """Yield edits of exact results of so many bits, given with the exponents of their last bits, in words."""
    for words, change in _on_all(operation, target, precision):
        yield words, change
        if operation == "multiply":
            high = functools.partial(_of_high, change=change, places=precision - 2)
            yield f"{words}, where the significands' product is 2 or more", high


def of_held(target: Format, rule: Projection) -> Iterator[tuple[str, Callable[..., Array]]]:
    """Yield parts of exact results that those of former ones replace, in words."""
    for words, bits in {"guard bit": (0,), "sticky bit": (1,), "guard and sticky bits": (0, 1)}.items():
        yield f"the {words}", functools.partial(_held_rest, fmt=target, bits=bits)
    yield "the increment of rounding", functools.partial(_held_increment, fmt=target, rule=rule)
    yield "the carry of rounding", functools.partial(_held_carry, fmt=target, rule=rule)
    for words, part in {"significand": 0, "exponent": 1}.items():
        yield f"the {words} of the exact result", functools.partial(_held_part, part=part)


def _held_rest(values: Array, lasts: Array, before: Array, fmt: Format, bits: Sequence[int]) -> Array:
    """Return values with the guard or the sticky bit of others."""
    (whole, unit, *own), (_, _, *other) = (_cut_at_guard(side, fmt) for side in (values, before))
    guard, sticky = ((other if bit in bits else own)[bit] for bit in (0, 1))
    return (whole + 0.5 * guard + 0.25 * sticky) * unit


def _cut_at_guard(values: Array, fmt: Format) -> tuple[Array, ...]:
    """Return magnitudes cut to whole units of a format, the units, the guard and the sticky bits."""
    unit = np.ldexp(1.0, _fields(values, fmt) - fmt.trailing_bits)
    size = np.abs(values) / unit
    whole = np.floor(size)
    rest = 2 * (size - whole)
    return whole, unit, np.floor(rest), rest > np.floor(rest)


def _held_increment(values: Array, lasts: Array, before: Array, fmt: Format, rule: Projection) -> Array:
    """Return values cut to a format's last places, and raised by one where others are rounded up."""
    # What overflows is rounded as if exponents went on.
    before = np.ldexp(before, np.minimum(fmt.emax - 1 - exponents(before), 0))
    (whole, unit, *_), (other, of_other, *_) = (_cut_at_guard(side, fmt) for side in (values, before))
    up = np.abs(np.asarray(quantize(before, fmt, projection=rule))) > other * of_other
    return np.where(whole > 0, (whole + up) * unit, values)


def _held_carry(values: Array, lasts: Array, before: Array, fmt: Format, rule: Projection) -> Array:
    """Return values twice as large where others round to the next power of two."""
    past = exponents(np.asarray(quantize(before, fmt, projection=rule)))
    return np.where((past > exponents(before)) & (exponents(before) >= fmt.emin), 2 * values, values)


def _held_part(values: Array, lasts: Array, before: Array, part: int) -> Array:
    """Return values with the significand (0) or the exponent (1) of others."""
    pairs = [np.frexp(side) for side in (values, before)]
    made = np.ldexp(pairs[part == 0][0], pairs[part == 1][1])
    return np.where((values == 0) | (before == 0), values, made)


def _of_high(values: Array, lasts: Array, change: OnExact, places: int) -> Array:
    return np.where(exponents(values) - lasts > places, change(values, lasts), values)


def _on_all(operation: str, target: Format, precision: int) -> Iterator[tuple[str, OnExact]]:
    if operation != "convert":  # which has these as edits of its operand
        for bits in range(min(_GUARDED, max(precision - target.precision, 1))):
            yield guard_words(bits), functools.partial(_cut, fmt=target, bits=bits)
        for words, change in of_conversions(target, target):
            yield words, functools.partial(_valued, change=change)
    for unit in (1 << bits for bits in range(precision)) if operation == "multiply" else ():
        for words, by in {"too small": -unit, "too large": unit}.items():
            off = functools.partial(_off, by=by)
            yield f"products of significands {unit} last place{'s' * (unit > 1)} {words}", off
    yield "the guard bit and the sticky bit exchanged", functools.partial(_exchanged, fmt=target)
    for words, places in {"below": 1, "above": -1}.items():
        said = f"rounded by the bit one place {words} the guard bit, and those behind it"
        yield said, functools.partial(_guard_moved, fmt=target, places=places)
    for bits in range(1, _MISSED + 1):
        which = "the last bit" if bits == 1 else f"the last {bits} bits"
        yield (
            f"{which} of the exact result not seen by the sticky bit",
            functools.partial(_missed, fmt=target, bits=bits),
        )
        behind = f"bit {bits} behind the guard bit not seen by the sticky bit"
        yield behind, functools.partial(_unwired, fmt=target, bit=bits, last=bits)
        for last in range(bits + 1, bits + _RUN):
            some = f"bits {bits} to {last} behind the guard bit not seen by the sticky bit"
            yield some, functools.partial(_unwired, fmt=target, bit=bits, last=last)
    if operation == "convert":
        for first in range(precision):
            for last in range(first, precision):
                if last - first >= _RUN and 0 < first and last < precision - 1:
                    continue
                which = f"bit{'s' * (last > first)} {first}{f' to {last}' * (last > first)}"
                words = f"{which} of the operand not seen by the sticky bit"
                yield words, functools.partial(_unwired_at, fmt=target, first=first, last=last)


def _off(values: Array, lasts: Array, by: int) -> Array:
    """Return magnitudes that are off by so many last places of exact results."""
    return np.asarray(np.copysign(np.maximum(np.abs(values) + np.ldexp(float(by), lasts), 0), values))


def _cut(values: Array, lasts: Array, fmt: Format, bits: int) -> Array:
    return cut_behind_guard(values, fmt, bits)


def _exchanged(values: Array, lasts: Array, fmt: Format) -> Array:
    whole, unit, guard, sticky = _cut_at_guard(values, fmt)
    return np.asarray((whole + 0.5 * sticky + 0.25 * guard) * unit)


def _guard_moved(values: Array, lasts: Array, fmt: Format, places: int) -> Array:
    """Return values whose tails behind a format's last bit are twice or half as large, without what carries.

    Half as large, the tail has the last bit before it in front.
    """
    unit = np.ldexp(1.0, _fields(values, fmt) - fmt.trailing_bits)
    size = np.abs(values) / unit
    whole = np.floor(size)
    tail = 2 * (size - whole) % 1 if places > 0 else (size - whole + whole % 2) / 2
    return np.asarray((whole + tail) * unit)


def _valued(values: Array, lasts: Array, change: Callable[[Array], Array]) -> Array:
    return change(values)


def _missed(values: Array, lasts: Array, fmt: Format, bits: int) -> Array:
    """Return values without the last bits of exact results, where these lie behind the guard bit."""
    sizes = np.ldexp(1.0, lasts + bits)
    guard = np.maximum(exponents(values), fmt.emin) - fmt.trailing_bits - 1
    return np.where(lasts + bits <= guard, np.trunc(values / sizes) * sizes, values)


def _unwired(values: Array, lasts: Array, fmt: Format, bit: int, last: int) -> Array:
    """Return values without some bits behind the guard bit."""
    above, below = (cut_behind_guard(values, fmt, bits) for bits in (bit - 1, last))
    return values - (below - above)


def _unwired_at(values: Array, lasts: Array, fmt: Format, first: int, last: int) -> Array:
    """Return values without some bits, counted from the last one, where these lie behind the guard bit."""
    low = np.ldexp(1.0, lasts + first)
    guard = np.maximum(exponents(values), fmt.emin) - fmt.trailing_bits - 1
    high = np.ldexp(1.0, np.minimum(lasts + last + 1, guard))
    without = np.trunc(values / high) * high + (values - np.trunc(values / low) * low)
    return np.where(low < high, without, values)


def operand_features(
    operation: str, names: Sequence[str], codes: Sequence[Array], formats: Sequence[Format], result: Array
) -> Iterator[tuple[str, Array]]:
    """Yield how exponents of operands, as their fields have them, and signs compare, and the exact exponent.

    `result` : which results are negative.
    """
    values = [as_doubles(side, fmt) for side, fmt in zip(codes, formats, strict=True)]
    one, other = (_fields(side, fmt) for side, fmt in zip(values[:2], formats, strict=False))
    yield f"the exponent of {names[0]} less that of {names[1]}", one - other
    yield f"the exponents of {names[0]} and {names[1]}, how far they lie apart,", np.abs(one - other)
    yield "the operands have unlike signs", np.signbit(values[0]) != np.signbit(values[1])
    yield "the exponent of the exact result", exponents(exact_results(operation, codes, formats))
    if operation in ("multiply", "fma"):
        with np.errstate(all="ignore"):
            product = exponents(values[0] * values[1])
        yield "the significands' product is 2 or more", product > one + other
        yield "the sum of the factors' exponents", one + other
    for name, side in zip(names, values, strict=False):
        yield f"the result has the sign of {name}", np.signbit(side) == result
