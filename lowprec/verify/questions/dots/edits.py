"""Small edits of the exact model, which change its results everywhere: a condition says where they hold.

A change of the catalogue is an edit too. Those here are of codes of results, of lanes and of scales.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from lowprec.arrays.checks import code_dtype
from lowprec.arrays.convert import encode, quantize
from lowprec.spec import catalog
from lowprec.spec.format import Format
from lowprec.verify.codes.values import as_doubles, doubles
from lowprec.verify.questions.causes import led_by
from lowprec.verify.questions.conversion_edits import wrapped_at
from lowprec.verify.questions.dots.dot_faults import Fault, flushed, of_addend, of_sides
from lowprec.verify.questions.dots.dot_operands import Given
from lowprec.verify.questions.dots.step_cuts import (
    LOW,
    Numbers,
    in_terms,
    terms_in,
)
from lowprec.verify.questions.features import has_fields
from lowprec.verify.questions.question import Array, Change
from lowprec.verify.questions.result_edits import moves

__all__ = [
    "LEFT_OUT",
    "OnLanes",
    "code_edits",
    "lane_edits",
    "lane_moves",
    "of_addends",
]
__all__ += [
    "on_codes",
    "orders",
    "product_edits",
    "specials_read",
    "subnormals_read",
    "term_edits",
    "value_edits",
]

#: The edit that no result of all lanes shows, as most sums have other products.
LEFT_OUT = "products left out"
#: Bits of formats of which each bit may be stuck.
_SHORT, _NARROW = 4, 16
#: Places by which products may be misplaced, and last places by which they may be off.
_PLACES, _UNITS = (1, 2, 4, 8, 16, 32), (1, 2, 4, 8, 16, 32, 64)
#: Bits of formats of which each pair may be exchanged; last bits that products may lack, less one.
_TABLE, _PRODUCTS = 8, 9


# -- operands of dot products --------------------------------------------------------------------------

OnLanes = Callable[[Array], Fault]


def value_edits() -> dict[str, Callable[[Array], Array]]:
    """Return edits of values, in words: negated, rounded, cut, or left out."""
    changes: dict[str, Callable[[Array], Array]] = {"negated": np.negative}
    for name in ("bfloat16", "tf32", "binary16"):
        changes[f"rounded to {name}"] = functools.partial(_rounded, name=name)
        if name != "binary16":
            changes[f"cut off to {name}"] = functools.partial(_rounded, name=name, rounding="toward_zero")
    return changes | {"without its sign": np.abs, "taken as zero": np.zeros_like}


def of_addends(dtype: np.dtype[Any]) -> Iterator[Change]:
    """Yield addends of a type whose values, or last bits, are edited."""
    changes, fmt = value_edits(), catalog.carrier(dtype)
    if fmt is not None and fmt.width <= 32:
        for words, on_code in _of_bits(fmt):
            changes[words] = functools.partial(on_codes, fmt=fmt, change=on_code)
    changes["infinite where it is NaN"] = _nan_as_infinity
    for words, change in changes.items():
        yield Change("addend", of_addend(change), f"the addend {words}")


def _nan_as_infinity(values: Array) -> Array:
    return np.where(np.isnan(values), np.copysign(np.array(math.inf, values.dtype), values), values)


def _rounded(values: Array, name: str, rounding: str = "nearest_even") -> Array:
    return np.asarray(quantize(doubles(values), name, rounding=rounding))


def orders(length: int, period: int) -> Iterator[Change]:
    """Yield lanes of x, y or both in pairs exchanged, rotated or in reverse, in all steps or in K."""
    for size, where in dict.fromkeys([(period, f" in each step of {period}"), (length, "")]):
        if not 1 < size <= length or length % size:
            continue
        first = np.arange(length) // size * size
        for words, to in moves(size).items():
            for name, sides in {"x": (0,), "y": (1,), "products": (0, 1)}.items():
                taken = functools.partial(np.take, indices=first + np.resize(to, length), axis=-1)
                yield Change("fault", of_sides(sides, taken), f"{name} {words}{where}", 2)


def lane_edits(formats: tuple[Format | None, Format | None]) -> Iterator[tuple[str, OnLanes]]:
    """Yield edits of lanes of x and y, each as words and what makes the edit of some lanes."""
    least = [0.0 if fmt is None else 2.0**fmt.emin for fmt in formats]
    yield LEFT_OUT, _left_out
    for words, negative in {"by OR": np.logical_or, "by AND": np.logical_and}.items():
        yield f"signs of products {words}, not by XOR", functools.partial(_with_signs, negative)
    for side, fmt in enumerate(formats):
        name = "xy"[side]
        if fmt is None or not has_fields(fmt) or fmt.width > 32:
            continue
        changes: dict[str, Callable[[Array], Array]] = {
            **{
                f"{bit} of {name} read as {value}": functools.partial(on_codes, fmt=fmt, change=stuck)
                for bit, value, stuck in _stuck_bits(fmt)
            },
            f"the sign of {name} lost": np.abs,
            f"{name} negated": np.negative,
            f"{name} read as zero": np.zeros_like,
        }
        if fmt.subnormals:
            changes[f"subnormal {name} taken as zero"] = functools.partial(flushed, least=2.0**fmt.emin)
            by_other = functools.partial(_led_by_other, side=side, least=least)
            yield f"the leading one of {name} by the exponent of {'yx'[side]}", by_other
        for by, words in ((1, "before"), (-1, "behind")):
            if fmt.subnormals:
                led = functools.partial(_led_by_lane, by=by, least=2.0**fmt.emin)
                changes[f"the leading one of {name} by the exponent of the lane {words}"] = led
            changes[f"the sign of {name} of the lane {words}"] = functools.partial(_sign_of, by=by)
            changes[f"{name} of the lane {words}"] = functools.partial(np.roll, shift=by, axis=-1)
            for bit in range(fmt.width if fmt.width <= _TABLE else 0):
                taken = functools.partial(_bit_of, bit=bit, by=by)
                beside = functools.partial(on_codes, fmt=fmt, change=taken)
                changes[f"bit {bit} of {name} of the lane {words}"] = beside
        for words, change in changes.items():
            yield words, functools.partial(_in_lanes, side=side, change=change)


def _left_out(where: Array) -> Fault:
    """Return what makes products -0, which leaves sums as they are."""

    def changed(given: Given) -> Given:
        for side, zero in enumerate((-0.0, 0.0)):
            zeros = functools.partial(np.full_like, fill_value=zero)
            given = of_sides((side,), functools.partial(_at, where=where, change=zeros))(given)
        return given

    return changed


def lane_moves() -> Iterator[tuple[str, OnLanes]]:
    """Yield exchanges of some lanes of x or y, each as words and what makes the exchange."""
    for flip, words in ((1, "pairs"), (3, "fours"), (7, "eights")):
        taken = functools.partial(_flipped, flip=flip)
        for side, name in enumerate("xy"):
            yield (
                f"{name} in reverse within {words}",
                functools.partial(_in_lanes, side=side, change=taken),
            )


def _flipped(values: Array, flip: int) -> Array:
    lane = np.arange(values.shape[-1])
    return np.take(values, np.where((lane ^ flip) < lane.size, lane ^ flip, lane), -1)


def _led_by_lane(values: Array, by: int, least: float) -> Array:
    return led_by(values, ~(np.abs(np.roll(values, by, -1)) < least), least)


def _led_by_other(where: Array, side: int, least: Sequence[float]) -> Fault:
    def changed(given: Given) -> Given:
        normal = ~(np.abs((given.x, given.y)[1 - side]) < least[1 - side])
        change = functools.partial(led_by, normal=normal, least=least[side])
        return _in_lanes(where, side, change)(given)

    return changed


def _with_signs(negative: Callable[[Array, Array], Array], where: Array) -> Fault:
    """Return what gives products other signs than those of their factors."""

    def changed(given: Given) -> Given:
        of_y = np.signbit(given.y)
        signs = np.where(negative(np.signbit(given.x), of_y) != of_y, -1.0, 1.0)
        return _in_lanes(where, 0, lambda x: np.copysign(x, signs))(given)

    return changed


def _bit_of(codes: Array, bit: int, by: int) -> Array:
    return np.asarray(codes & ~(1 << bit) | np.roll(codes, by, -1) & 1 << bit)


def _sign_of(values: Array, by: int) -> Array:
    return np.copysign(values, np.roll(values, by, -1))


def code_edits(fmt: Format) -> dict[str, Callable[[Array], Array]]:
    """Return edits of codes of operands, in words: of signs, of last bits, and of subnormal numbers."""
    if not has_fields(fmt) or fmt.width > 32:
        return {}

    def of_numbers(change: Callable[[Array], Array]) -> Callable[[Array], Array]:
        return lambda codes: np.where(codes & fmt.sign_code - 1 <= fmt.max_magnitude, change(codes), codes)

    found = {
        "negated": lambda codes: codes ^ fmt.sign_code,
        "without its sign": lambda codes: codes & fmt.sign_code - 1,
        **{words: of_numbers(on_code) for words, on_code in _of_bits(fmt)},
    }
    for what, code in {"infinity": fmt.infinity_code, "NaN": fmt.nan_code}.items():
        if code is not None and fmt.nan_code is not None:
            read = functools.partial(_special_as, fmt=fmt, code=code)
            found[f"read as {what} if it is {'NaN' if what == 'infinity' else 'infinite'}"] = read
    for bits in itertools.combinations(range(fmt.width if fmt.width <= _TABLE else 0), 2):
        found["with bits {} and {} exchanged".format(*bits)] = functools.partial(_exchanged, bits=bits)
    if fmt.subnormals:
        low = (1 << fmt.trailing_bits) - 1
        found["taken as zero if it is subnormal"] = lambda codes: np.where(
            codes & fmt.sign_code - 1 <= low, codes & fmt.sign_code, codes
        )
    return found


def _exchanged(codes: Array, bits: tuple[int, int]) -> Array:
    """Return codes with two bits in each other's place, as by a table's address lines."""
    low, high = bits
    unlike = (codes >> low ^ codes >> high) & 1
    return np.asarray(codes ^ (unlike << low | unlike << high))


def subnormals_read(least: float, *, zero: bool) -> dict[str, Callable[[Array], Array]]:
    """Return how values below the smallest normal one, zeros too or not, may be misread, in words."""

    def misread(change: Callable[[Array], Array]) -> Callable[[Array], Array]:
        return lambda values: np.where(
            (zero | (values != 0)) & (np.abs(values) < least), change(values), values
        )

    return {
        "one exponent too low": misread(lambda values: values / 2),
        "one exponent too high": misread(lambda values: values * 2),
        "read with a leading one": misread(lambda values: values + np.copysign(least, values)),
        "read as normal numbers are": misread(lambda values: (values + np.copysign(least, values)) / 2),
    }


def specials_read(fmt: Format) -> dict[str, Callable[[Array], Array]]:
    """Return how values may be read whose exponent fields are all ones, in words."""
    least = math.inf if fmt.infinity else 2.0**fmt.emax
    return {
        f"read as {what} where {'it is infinite' if fmt.infinity else 'the exponent field is all ones'}": (
            functools.partial(_read_special, least=least, value=value)
        )
        for what, value in {"NaN": math.nan, "infinity": math.inf}.items()
        if not (fmt.infinity and value == math.inf)
    }


def _read_special(values: Array, least: float, value: float) -> Array:
    return np.where(np.abs(values) >= least, np.copysign(value, values), values)


def _special_as(codes: Array, fmt: Format, code: int) -> Array:
    """Return codes of which the infinite ones, or if `code` is that of infinity the NaNs, are this code."""
    magnitude = codes & fmt.sign_code - 1
    which = magnitude > code if code == fmt.infinity_code else magnitude == fmt.infinity_code
    return np.where(which, codes & fmt.sign_code | code, codes)


def product_edits(
    formats: Sequence[Format | None], *, few: bool
) -> Iterator[tuple[str, Callable[[Array], Any]]]:
    """Yield edits of the products of some lanes of a step, each as words and what makes the edit.

    `few`: whether there are so few lanes that products may be off by other amounts too.
    """
    changes: dict[str, Callable[[Array], Array]] = {
        "the last bit of products lost": lambda whole: whole & ~1,
        "the last bit of products set": lambda whole: whole | (whole > 0),
        "products taken as zero": np.zeros_like,
        **{
            f"the last {bits} bits of products lost": functools.partial(np.bitwise_and, -1 << bits)
            for bits in range(2, _PRODUCTS)
        },
    }
    precisions = [fmt.precision for fmt in formats[:2] if fmt is not None and has_fields(fmt)]
    for bits in range(min(precisions, default=0), sum(precisions)):
        kept = functools.partial(np.bitwise_and, (1 << bits) - 1)
        changes[f"products without the bits above their last {bits}"] = kept
    for words, change in changes.items():
        yield words, functools.partial(in_terms, change=functools.partial(_significands, change=change))
    for places, (sign, words) in itertools.product(_PLACES if few else (1,), ((-1, "low"), (1, "high"))):
        shifted, how_far = functools.partial(_aligned, by=sign * places), "one place"
        how_far = f"{places} places" if places > 1 else how_far
        yield f"terms aligned {how_far} too {words}", functools.partial(in_terms, change=shifted)
    for unit in _UNITS if few else ():
        for words, by in {"too large": unit, "too small": -unit}.items():
            moved = functools.partial(_moved_by, by=by)
            said = f"products {unit} last place{'s' * (unit > 1)} {words}"
            edit = functools.partial(_significands, change=moved)
            yield said, functools.partial(in_terms, change=edit)
    limits = {top: f", of {bits} bits" for bits in range(4, 10) for top in (1 << bits - 1,)}
    limits |= {1 - fmt.emin + low: "" for fmt in formats if fmt is not None for low in (0, fmt.trailing_bits)}
    for top, of_bits in limits.items():
        changed: dict[str, Callable[[Array], Array]] = {
            f"at most {top - 1}": functools.partial(np.minimum, top - 1),
            f"at least {-top}": functools.partial(np.maximum, -top),
            f"at least {1 - top}": functools.partial(np.maximum, 1 - top),
        }
        if of_bits:
            changed[f"wrap around{of_bits}"] = functools.partial(wrapped_at, top=top)
        for said, limited in changed.items():
            on_terms = functools.partial(in_terms, change=functools.partial(_exponents, change=limited))
            yield f"exponents of products {said}", on_terms


def _moved_by(whole: Array, by: int) -> Array:
    return np.where(whole > 0, np.maximum(whole + by, 0), whole)


def _aligned(terms: Numbers, by: int) -> Numbers:
    return terms._replace(last=terms.last + by)


def _significands(terms: Numbers, change: Callable[[Array], Array]) -> Numbers:
    return terms._replace(significand=change(terms.significand))


def _exponents(terms: Numbers, change: Callable[[Array], Array]) -> Numbers:
    by = change(terms.exponent) - terms.exponent
    return terms._replace(exponent=terms.exponent + by, last=terms.last + by)


def term_edits(total: Callable[[Any], Any]) -> Iterator[tuple[str, OnLanes]]:
    """Yield how aligned terms of some lanes may be cut or negated otherwise; `total` sums them."""
    changes: dict[str, Callable[[Any], Array]] = {
        "negative terms in one's complement": lambda p: p.negative & (p.kept > 0),
        "negative terms in one's complement, those too that are cut to zero": lambda p: (
            p.negative & (p.kept + p.lost > 0)
        ),
        "terms cut downwards": lambda p: p.negative & (p.lost > 0),
        "terms cut upwards": lambda p: ~p.negative & (p.lost > 0),
        "terms cut away from zero": lambda p: p.lost > 0,
        "terms rounded, not cut: ties away from zero": lambda p: p.lost >> LOW - 1 & 1,
        "negative terms that are cut to zero are -1 in the window's last place": lambda p: (
            p.negative & (p.kept == 0) & (p.lost > 0)
        ),
        "terms cut one place earlier": lambda p: -(p.kept & 1),
        "terms cut two places earlier": lambda p: -(p.kept & 3),
    }
    for words, change in changes.items():
        yield words, functools.partial(_of_parts, change=change, total=total)


def _of_parts(lanes: Array, change: Callable[[Any], Array], total: Callable[[Any], Any]) -> Any:
    def changed(parts: Any) -> Any:
        here = terms_in(lanes, *parts.kept.shape)
        return total(parts._replace(kept=parts.kept + np.where(here, change(parts), 0)))

    return changed


def _in_lanes(where: Array, side: int, change: Callable[[Array], Array]) -> Fault:
    return of_sides((side,), functools.partial(_at, where=where, change=change))


def _at(values: Array, where: Array, change: Callable[[Array], Array]) -> Array:
    """Return values changed at some lanes, or where a mask holds."""
    with np.errstate(all="ignore"):
        here = where if where.dtype == bool else np.isin(np.arange(values.shape[-1]), where)
        return np.where(here, change(values), values).astype(values.dtype)


def on_codes(values: Array, fmt: Format, change: Callable[[Array], Array]) -> Array:
    """Return values of a format whose codes are changed; infinities and NaNs stay."""
    finite = np.isfinite(values)
    codes = np.asarray(encode(doubles(np.where(finite, values, 0)), fmt)).astype(np.int64)
    made = as_doubles(change(codes).astype(code_dtype(fmt)), fmt)
    return np.where(finite, made, values).astype(values.dtype)


def _of_bits(fmt: Format) -> Iterator[tuple[str, Callable[[Array], Array]]]:
    """Yield edits of codes, in words: a bit that is stuck, and last bits that are lost."""
    for bit, value, stuck in _stuck_bits(fmt):
        yield f"with {bit} read as {value}", stuck
    for bits in range(2, fmt.trailing_bits + 1):
        yield f"without its last {bits} bits", functools.partial(np.bitwise_and, -1 << bits)


def _stuck_bits(fmt: Format) -> Iterator[tuple[str, int, Callable[[Array], Array]]]:
    """Yield each bit below the sign as read as 0 and as 1: its name, the value, and the change of codes.

    Of formats of a few bits each code is tried as each other one; of wide ones the last bit and the first
    trailing one are stuck alone.
    """
    every = range(fmt.sign_code.bit_length() - 1 if _SHORT < fmt.width <= _NARROW else 1)
    for bit in (0, fmt.trailing_bits - 1) if fmt.width > _NARROW else every:
        name = f"bit {bit}" if bit else "the last bit"
        yield name, 0, functools.partial(np.bitwise_and, ~(1 << bit))
        yield name, 1, functools.partial(np.bitwise_or, 1 << bit)
