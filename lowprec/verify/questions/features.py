"""Features of results, by which wrong ones may be told from right ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays.checks import code_dtype
from lowprec.arrays.orders.order import classify
from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Format, Sign
from lowprec.verify.codes.values import as_doubles, is_nan

__all__ = ["STEP", "Feature", "any_of", "exponents", "has_fields", "of_codes", "of_neighbours", "of_overflow"]
__all__ += ["of_place", "of_rounding", "of_steps", "of_tails", "of_values"]

Array = npt.NDArray[Any]

#: Classes of numbers: `classify` has each twice, by the sign.
_CLASSES = ("infinite", "normal", "subnormal", "zero", "NaN")
_BY_SIGN = np.array([0, 1, 2, 3, 3, 2, 1, 0, 4, 4])
#: Bits behind a result's last one that are looked at.
STEP = 4
#: Lowest bits of codes that are looked at, of formats wider than this.
_LOW, _NARROW = 3, 16


@dataclass(frozen=True)
class Feature:
    """A feature of each of some results.

    Its values are integers, True or False, or places in `labels`.
    """

    name: str  #: a statement, if values are True or False; else a noun
    values: Array
    labels: tuple[str, ...] = ()
    before: bool = False  #: whether it is of what stood before the result


def has_fields(fmt: Format) -> bool:
    """Return whether codes of a format have a sign bit, an exponent and trailing bits."""
    return not isinstance(fmt, Codebook) and fmt.sign is Sign.MAGNITUDE and fmt.exponent_bits > 0


def of_codes(name: str, codes: Array, fmt: Format) -> Iterator[Feature]:
    """Yield features of codes: class, sign, exponent and trailing bits."""
    wide = np.asarray(codes).astype(np.int64)
    if not has_fields(fmt) or fmt.width > 32:
        if fmt.width <= 8:
            yield Feature(f"the code of {name}", wide)
        elif fmt.width > 32 and has_fields(fmt):
            yield from of_values(name, as_doubles(codes, fmt))
        return
    held = np.maximum(wide, 0).astype(np.uint32)
    classes = np.where(is_nan(held, fmt), 4, _BY_SIGN[classify(held, fmt).astype(np.int64)])
    yield Feature(name, classes, _CLASSES)
    yield Feature(f"{name} is negative", (wide & fmt.sign_code) != 0)
    yield Feature(f"{name} is finite", classes % 4 > 0)
    if fmt.infinity and fmt.trailing_bits > 1:
        quiet = wide >> fmt.trailing_bits - 1 & 1 == 1
        nan = classes == _CLASSES.index("NaN")
        yield Feature(f"{name} is a signaling NaN", nan & ~quiet)
        yield Feature(f"{name} is a quiet NaN", nan & quiet)
    magnitude, trailing = wide & fmt.sign_code - 1, (1 << fmt.trailing_bits) - 1
    yield Feature(f"the exponent of {name}", np.maximum(magnitude >> fmt.trailing_bits, 1) + fmt.emin - 1)
    if fmt.exponent_bits > 4:
        yield Feature(f"the exponent's field of {name} modulo 16", magnitude >> fmt.trailing_bits & 15)
    if fmt.exponent_bits > 2:
        odd = magnitude >> fmt.trailing_bits & 1 == 1
        yield Feature(f"the last bit of the exponent's field of {name} is 1", odd)
    power = (magnitude & trailing == 0) & (classes == _CLASSES.index("normal"))
    yield Feature(f"{name} has the largest finite magnitude", magnitude == fmt.max_magnitude)
    yield Feature(f"{name} has the smallest normal magnitude", magnitude == 1 << fmt.trailing_bits)
    yield Feature(f"{name} is a power of two", power)
    yield Feature(f"the trailing bits of {name} are all ones", magnitude & trailing == trailing)
    if fmt.trailing_bits:
        yield Feature(f"the first trailing bit of {name} is 1", wide >> fmt.trailing_bits - 1 & 1 == 1)
        zeros = fmt.trailing_bits - np.frexp((wide & trailing).astype(np.float64))[1]
        yield Feature(f"the number of leading zeros in the trailing bits of {name}", zeros)
        last = (wide & trailing) & -(wide & trailing)
        ends = np.where(last > 0, np.frexp(last.astype(np.float64))[1] - 1, fmt.trailing_bits)
        yield Feature(f"the number of zeros at the end of the trailing bits of {name}", ends)
        ones = fmt.trailing_bits - np.frexp((~wide & trailing).astype(np.float64))[1]
        yield Feature(f"the number of leading ones in the trailing bits of {name}", ones)
    for bit in range(0, fmt.trailing_bits - 1, 2) if fmt.width <= _NARROW else ():
        digit = wide << 1 >> bit & 7
        yield Feature(f"bits {bit - 1 if bit else 0} to {bit + 1} of {name}, as a digit of Booth's,", digit)
    for bit in range(fmt.trailing_bits - 1 if fmt.width <= _NARROW else _LOW):
        place = "last bit" if not bit else f"bit {bit}"
        yield Feature(f"the {place} of {name} is 1", (wide >> bit & 1) == 1)


def of_values(name: str, values: Array) -> Iterator[Feature]:
    """Yield features of values, in float64: class, sign and exponent."""
    finite = np.isfinite(values)
    kinds = np.select([np.isnan(values), np.isinf(values), values == 0], [4, 0, 3], 1)
    yield Feature(name, kinds, _CLASSES)
    yield Feature(f"{name} is negative", np.signbit(values))
    size = np.abs(np.where(finite, values, 0.0))
    yield Feature(f"the exponent of {name}", exponents(values))
    yield Feature(f"{name} is a power of two", np.asarray(finite & (np.frexp(size)[0] == 0.5)))


def exponents(values: Array) -> Array:
    """Return the exponents of values; of zeros, infinities and NaNs 0."""
    plain = np.isfinite(values) & (values != 0)
    return np.where(plain, np.frexp(np.where(plain, values, 1.0))[1].astype(np.int64) - 1, 0)


def of_place(places: Array, unit: str = "line") -> Iterator[Feature]:
    """Yield where a result stands: its number by powers of two."""
    for bits in range(1, 6):
        yield Feature(f"the {unit}'s number, counted from 0, modulo {1 << bits},", places & (1 << bits) - 1)


def of_neighbours(name: str, codes: Array, fmt: Format) -> Iterator[Feature]:
    """Yield the class of a result before, from its code."""
    if has_fields(fmt) and fmt.width <= 32:
        held = np.maximum(codes, 0).astype(code_dtype(fmt))
        classes = _BY_SIGN[classify(held.astype(np.uint32), fmt).astype(np.int64)]
        yield Feature(name, np.where(is_nan(held, fmt), 4, classes), _CLASSES, before=True)


def of_rounding(cut: Array, codes: Array, fmt: Format) -> Iterator[Feature]:
    """Yield how results are rounded, from the codes of the results cut toward zero and of those rounded."""
    mask, trailing = fmt.sign_code - 1, (1 << fmt.trailing_bits) - 1
    below, found = np.maximum(cut, 0) & mask, np.maximum(codes, 0) & mask
    up = (found > below) & (below <= fmt.max_magnitude)
    yield Feature("rounding goes away from zero", up)
    yield Feature(
        "rounding carries into the exponent", up & (below & trailing == trailing) & (below > trailing)
    )
    yield Feature("rounding carries from the subnormal numbers", up & (below == trailing))
    yield Feature("the exact result is below the normal numbers", below <= trailing)
    yield Feature("the result cut toward zero is zero", below == 0)
    yield Feature("the result cut toward zero is subnormal", (below > 0) & (below <= trailing))


def of_tails(tails: Array) -> Iterator[Feature]:
    """Yield the guard and sticky bits; `tails`: 0 of exact results, 1 below ties, 2 at them, 3 above."""
    yield Feature("the guard bit is 1", tails > 1)
    yield Feature("the sticky bit is 1", tails % 2 == 1)


def of_steps(codes: Array, finer: Format, name: str) -> Iterator[Feature]:
    """Yield what results are cut to, and how far behind it they lie; `codes`: of `STEP` bits more."""
    exact = codes.astype(np.int64) & finer.sign_code - 1
    yield Feature(f"the code of {name} cut toward zero, without its sign,", exact >> STEP)
    yield Feature("the sixteenths of a step from that code to the exact result", exact & (1 << STEP) - 1)


def of_overflow(codes: Array, wide: Format, fmt: Format) -> Iterator[Feature]:
    """Yield how far past a format's largest value results lie, from codes of a format that goes on."""
    past = np.maximum(np.asarray(codes).astype(np.int64) & wide.sign_code - 1, 0) - fmt.max_magnitude
    yield Feature("the codes past the largest value, if it did not end there,", np.clip(past, 0, 1 << 30))


def any_of(name: str, where: Array, lanes: Sequence[int] | None = None) -> Iterator[Feature]:
    """Yield whether something is so in any lane, and in each of a few lanes."""
    yield Feature(f"some {name}", np.asarray(where.any(1)))
    for lane in range(where.shape[1]) if lanes is None else lanes:
        yield Feature(f"in lane {lane} {name}", where[:, lane])
