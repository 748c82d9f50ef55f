"""Faults within the steps of a dot unit, as changes to try: each replaces a stage of `step_model`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from lowprec.spec.accumulation import Accumulation, Window
from lowprec.spec.format import Format
from lowprec.verify.questions.dots.largest_exponent import uncounted, zeros_counted
from lowprec.verify.questions.dots.stages import fault
from lowprec.verify.questions.dots.step_cuts import (
    LOW,
    Numbers,
    Parts,
    chosen,
    exactly,
    in_terms,
    lanes_of,
    limited,
    signed,
    window_sum,
)
from lowprec.verify.questions.dots.step_ends import Ends, of_ends, of_zeros
from lowprec.verify.questions.dots.step_model import Formats, folded
from lowprec.verify.questions.dots.step_sums import Sum, carry_lost
from lowprec.verify.questions.features import has_fields
from lowprec.verify.questions.question import Array, Change

__all__ = ["beyond", "nans_as_numbers", "readings_in_lanes", "step_faults", "zeros_beside_infinities"]

#: Bits that the rounder may not see, and that it may keep.
_UNSEEN, _TWICE = 4, 8


def step_faults(how: Accumulation, formats: Formats, length: int, *, addend: bool) -> Iterator[Change]:
    """Yield what may go wrong in a step, from its operands to the code of its sum.

    Parameters
    ----------
    how : Accumulation
        One whose stages are known: `step_model.has_steps`.
    formats : pair of Format
        Of x and y.
    length : int
        Products of a sum.
    addend : bool
        Whether there is one.
    """
    window = how.accumulator if isinstance(how.accumulator, Window) else None
    step = max(how.term, 1) if window is None else window.step
    what = "running sums" if not addend else "the addend" if length <= step else "the addend and running sums"
    form = how.accumulator.result[0] if isinstance(how.accumulator, Window) else how.summed[0]
    for number, (side, fmt) in enumerate(zip("xy", formats, strict=True)):
        other = formats[1 - number]
        for zero, words, read in _readings(fmt):
            said = f"subnormal{' and zero' * zero} {side} {words}"
            yield fault(said, **{side: read})
            if zero and other is not None and other.infinity:
                nonzero = partial(_beside_infinity, number=number)
                yield fault(f"{said}, beside infinities too", **{side: read}, values=nonzero)
    yield from infinities_as_numbers(formats)
    yield from nans_as_numbers(formats, np.ones(1, bool))
    for words, values in zeros_beside_infinities(formats):
        yield fault(words, values=values(np.arange(length)))
    yield from _of_running(form, what)
    terms = folded(how).accumulator
    if isinstance(terms, Window) and terms.fraction_bits is not None:
        yield from _of_alignment(terms, what)
        if terms is not window:
            words = "groups whose products cancel do not count for the largest exponent"
            yield fault(words, 2, counts=lambda terms: terms.significand != 0)
    yield from _of_rounding(window, form)
    yield from of_zeros(window)
    yield from of_ends(addend)
    yield from _of_conversion(how.total[0] if how.total else form, how.output[0])


def _of_conversion(fmt: Format, output: Format) -> Iterator[Change]:
    """Yield bits of the last sum that the sticky bit of its conversion to a narrow output misses."""
    lost = fmt.trailing_bits - output.trailing_bits - 1  # behind the guard bit
    if not has_fields(output):
        return
    every = {f"bit {bit}": 1 << bit for bit in range(lost)} | {
        f"the last {bits} bits": (1 << bits) - 1 for bits in range(2, lost + 1)
    }
    for words, bits in every.items():
        said = f"{words} of sums not seen by the sticky bit of their conversion to {output.name}"
        yield fault(said, 2, output=partial(_without_bits, fmt=fmt, bits=bits))


def _without_bits(codes: Array, fmt: Format, bits: int) -> Array:
    wide = codes.astype(np.int64)
    return np.where(wide & fmt.sign_code - 1 <= fmt.max_magnitude, wide & ~bits, wide).astype(codes.dtype)


# -- operands ------------------------------------------------------------------------------------------


def _readings(fmt: Format | None) -> Iterator[tuple[bool, str, Callable[..., Numbers]]]:
    """Yield how a format's subnormal numbers may be misread: whether zeros are too, and how, in words."""
    if fmt is None or not fmt.subnormals:
        return
    for zero in (False, True):
        yield zero, "read with a leading one", partial(_leading_one, zero=zero)
        yield zero, "read as normal numbers are", partial(_as_normal, zero=zero)
    for by, where in ((-1, "low"), (1, "high")):
        yield False, f"one exponent too {where}", partial(_lowered, by=by)


def readings_in_lanes(side: str, fmt: Format | None) -> Iterator[tuple[str, Callable[[Array], Any]]]:
    """Yield how subnormal numbers of some lanes may be misread, as words and what makes the stage."""
    for zero, words, read in _readings(fmt):
        yield f"subnormal{' and zero' * zero} {side} {words}", partial(partial, _read_in, read)


def _read_in(read: Callable[..., Numbers], lanes: Array, x: Numbers, fmt: Format) -> Numbers:
    made: Numbers = chosen(lanes_of(lanes, *x.negative.shape), read(x, fmt), x)
    return made


def _leading_one(x: Numbers, fmt: Format, zero: bool) -> Numbers:
    low = (x.significand >= (not zero)) & (x.significand < 1 << fmt.trailing_bits)
    return x._replace(significand=np.where(low, x.significand + (1 << fmt.trailing_bits), x.significand))


def _as_normal(x: Numbers, fmt: Format, zero: bool) -> Numbers:
    return _leading_one(_lowered(x, fmt, -1), fmt, zero)


def _beside_infinity(x: Array, y: Array, number: int) -> tuple[Array, Array]:
    """Return values in which zeros of one side are numbers, where the other is infinite."""
    sides = [x, y]
    which = (sides[number] == 0) & np.isinf(sides[1 - number])
    sides[number] = np.where(which, np.copysign(1.0, sides[number]), sides[number])
    return sides[0], sides[1]


def zeros_beside_infinities(formats: Formats) -> Iterator[tuple[str, Callable[[Array], Any]]]:
    """Yield zeros of some lanes that are numbers beside infinities, as words and what makes the stage."""
    for words, zeros in {"x": (0,), "y": (1,), "x or y": (0, 1)}.items():
        if all(fmt is not None and fmt.infinity for fmt in formats):
            yield f"zero {words} times infinity is infinite", partial(partial, _zeros, zeros)
            if all(fmt is not None and fmt.subnormals for fmt in formats):
                least = [2.0**fmt.emin for fmt in formats if fmt is not None]
                low = partial(partial, _low_beside_infinity, zeros, least)
                yield f"subnormal {words} taken as zero beside infinities", low


def _low_beside_infinity(
    sides: Sequence[int], least: Sequence[float], lanes: Array, x: Array, y: Array
) -> tuple[Array, Array]:
    here, made = lanes_of(lanes, *x.shape), [x, y]
    for number in sides:
        low = here & (np.abs(made[number]) < least[number]) & np.isinf(made[1 - number])
        made[number] = np.where(low, np.copysign(0.0, made[number]), made[number])
    return made[0], made[1]


def _zeros(zeros: Sequence[int], lanes: Array, x: Array, y: Array) -> tuple[Array, Array]:
    here, made = lanes_of(lanes, *x.shape), (x, y)
    for number in zeros:
        made = _beside_infinity(*made, number)
    return np.where(here, made[0], x), np.where(here, made[1], y)


def _lowered(x: Numbers, fmt: Format, by: int) -> Numbers:
    shift = np.where(x.significand < 1 << fmt.trailing_bits, by, 0)
    return x._replace(last=x.last + shift, exponent=x.exponent + shift)


def _as_numbers(
    x: Array,
    y: Array,
    formats: Formats,
    which: Any,
    lanes: Array,
    sides: Sequence[int] = (0, 1),
    largest: bool = False,
) -> tuple[Array, Array]:
    """Return values in which NaNs or infinities of some lanes are the numbers that their codes would be.

    Or the largest number of their format.
    """
    made = [x, y]
    for side in sides:
        fmt, values = formats[side], made[side]
        assert fmt is not None, "asked before"
        number = float(fmt.max_finite) if largest else beyond(fmt)
        made[side] = np.where(which(values) & lanes, np.copysign(number, values), values)
    return made[0], made[1]


def beyond(fmt: Format) -> float:
    """Return the number after the largest one of a format, as if its exponents went on."""
    return float(fmt.max_finite + 2.0 ** (fmt.emax - fmt.trailing_bits))


def infinities_as_numbers(formats: Formats) -> Iterator[Change]:
    """Yield that factors which are infinite are read as the next power of two."""
    if any(fmt is not None and fmt.infinity for fmt in formats):
        every = np.ones(1, bool)
        for what, largest in {"numbers": False, "the largest number": True}.items():
            for name, sides in {"factors": (0, 1), "x": (0,), "y": (1,)}.items():
                values = partial(_as_numbers, formats=formats, which=np.isinf, lanes=every, sides=sides)
                said = f"infinite {name} read as {what}"
                yield fault(said, values=partial(values, largest=largest))


def nans_as_numbers(formats: Formats, lanes: Array, where: str = "") -> Iterator[Change]:
    """Yield that NaNs of some lanes are read as numbers, in formats that have one code of NaN."""
    if all(fmt is not None and fmt.nans == 1 and not fmt.infinity and fmt.negative_zero for fmt in formats):
        for sign, of_signs in {"": (False, True), "negative ": (True,), "positive ": (False,)}.items():
            which = partial(_nans, signs=of_signs)
            values = partial(_as_numbers, formats=formats, which=which, lanes=lanes)
            yield fault(f"{sign}NaNs{where} read as numbers", values=values)


def _nans(values: Array, signs: Sequence[bool]) -> Array:
    return np.asarray(np.isnan(values) & np.isin(np.signbit(values), signs))


# -- the running sum -----------------------------------------------------------------------------------


def _of_running(form: Format, what: str) -> Iterator[Change]:
    """Yield faults of what is added to the products, in every step: in the first one it is the addend."""
    yield fault(f"NaNs of {what} left out", ends=partial(_of_running_sum, nan=False))
    yield fault(f"infinities of {what} left out", ends=partial(_of_running_sum, infinite=False))
    yield fault(f"infinities of {what} left out, unless a product is infinite", ends=_lonely)
    for zero, words, read in _readings(form):
        said = f"subnormals{' and zeros' * zero} among {what} {words}"
        yield fault(said, running=_last(partial(read, fmt=form)))
    if form.subnormals:
        flushed = _last(partial(_flushed, least=1 << form.trailing_bits))
        yield fault(f"subnormals among {what} taken as zero", running=flushed)
    for by, words in ((-1, "low"), (1, "high")):
        said = f"{what} aligned one place too {words}"
        shifted = _last(partial(_shifted, by=by))
        yield fault(said, running=shifted)
        if what == "the addend and running sums":
            yield fault(f"the addend aligned one place too {words}", addend=shifted)
    plus = _last(lambda c: c._replace(negative=c.negative & False))
    yield fault(f"the signs of {what} lost", running=plus, ends=partial(_of_running_sum, negative=False))
    if form.infinity:
        yield fault(f"the signs of {what} lost, but for infinities", running=plus)


def _shifted(terms: Numbers, by: int) -> Numbers:
    return terms._replace(last=terms.last + by)


_last = partial(in_terms, np.array([-1]))


def _flushed(c: Numbers, least: int) -> Numbers:
    return c._replace(significand=np.where(c.significand < least, 0, c.significand))


def _of_running_sum(ends: Ends, **value: bool) -> Ends:
    """Return what is not finite, with other properties of the running sum."""
    made = {name: getattr(ends, name).copy() for name in value}
    for name, to in value.items():
        made[name][:, -1] = to
    return ends._replace(**made)


def _lonely(ends: Ends) -> Ends:
    infinite = ends.infinite.copy()
    infinite[:, -1] &= infinite[:, :-1].any(1)
    return ends._replace(infinite=infinite)


# -- alignment -----------------------------------------------------------------------------------------


def _of_alignment(window: Window, what: str) -> Iterator[Change]:
    """Yield faults of the largest exponent, and of what is cut."""
    for words, stages in uncounted(what):
        yield fault(words, **stages(np.array([-1])))
    yield fault(f"zeros count for the largest exponent, of {what} too", **zeros_counted(None))
    for by, words in ((-1, "low"), (1, "high")):
        said = f"{what} counted for the largest exponent with an exponent one too {words}"
        yield fault(said, seen=partial(_seen_off, by=by))
    yield fault("products normalized before they are aligned", running=_normalized)
    for name, words, total in (
        ("nearest_even", "terms rounded, not cut: ties to even", _rounded(_half_even)),
        ("away", "terms cut away from zero", _rounded(lambda kept, lost: kept + (lost > 0))),
        ("sum", "the sum cut toward zero, not its terms", _sum_cut),
        ("sum_floor", "the sum cut downwards, not its terms", _sum_floor),
        ("whole", f"{what} never cut", _running_whole),
    ):
        if name != window.cut:
            yield fault(words, total=total)
    for words, change in (("terms", _complement_of_terms), ("sums", _complement_of_sum)):
        complement = partial(change, window=window)
        yield fault(f"negative {words} in one's complement: a last bit off", total=complement)
    for bit in range(1, (window.fraction_bits or 0) + window.step.bit_length()):
        broken = partial(_carry_into, window=window, bit=bit)
        yield fault(f"the carry into bit {bit} lost from sums of the products and {what}", total=broken)
        negated = partial(_carry_of_negation, window=window, bit=bit)
        yield fault(f"the carry into bit {bit} lost where negative sums are negated", total=negated)
    for bits in range(1, window.step.bit_length() + 3):
        places = f"bit{'s' * (bits > 1)} before the point"
        carry = partial(_carry, window=window, bits=bits)
        yield fault(f"the carry out of {bits} {places} lost from sums", total=carry)
        words = f"sums wrap around at {bits} {places}, in two's complement"
        yield fault(words, total=partial(_wrapped, window=window, bits=bits))


def _seen_off(terms: Numbers, by: int) -> Array:
    exponents = terms.exponent.copy()
    exponents[:, -1] += by
    return exponents


def _normalized(terms: Numbers) -> Numbers:
    length = np.frexp(terms.significand.astype(np.float64))[1]
    exponent = np.where(terms.significand != 0, terms.last + length - 1, terms.exponent)
    return terms._replace(exponent=exponent)


def _none(parts: Parts) -> Array:
    return np.zeros(len(parts.kept), np.int64)


def _rounded(change: Callable[[Array, Array], Array]) -> Callable[[Parts], tuple[Array, Array]]:
    """Return sums of terms that are rounded otherwise."""
    return lambda parts: (signed(parts, change(parts.kept, parts.lost)), _none(parts))


def _half_even(kept: Array, lost: Array) -> Array:
    half = 1 << LOW - 1
    return np.asarray(kept + ((lost > half) | ((lost == half) & (kept & 1 == 1))))


def _sum_cut(parts: Parts) -> tuple[Array, Array]:
    hi, lo = exactly(parts)
    return hi + ((hi < 0) & (lo > 0)), np.zeros_like(hi)


def _sum_floor(parts: Parts) -> tuple[Array, Array]:
    return exactly(parts)[0], _none(parts)


def _running_whole(parts: Parts) -> tuple[Array, Array]:
    lost = parts.lost.copy()
    lost[:, :-1] = 0
    return exactly(parts._replace(lost=lost))


def _complement_of_terms(parts: Parts, window: Window) -> tuple[Array, Array]:
    hi, lo = window_sum(window, parts)
    return hi - (parts.negative & ((parts.kept > 0) | (parts.lost > 0))).sum(1), lo


def _complement_of_sum(parts: Parts, window: Window) -> tuple[Array, Array]:
    hi, lo = window_sum(window, parts)
    return hi + (hi < 0), lo


def _carry(parts: Parts, window: Window, bits: int) -> tuple[Array, Array]:
    hi, lo = window_sum(window, parts)
    kept = np.abs(hi) & (1 << parts.bits + bits) - 1
    return np.where(hi < 0, -kept, kept), lo


def _carry_into(parts: Parts, window: Window, bit: int) -> tuple[Array, Array]:
    """Return sums of products and a running sum, in two's complement, that are added in two segments."""
    hi, lo = window_sum(window, parts)
    none = np.zeros_like(parts.kept[:, :1])
    alone = [np.concatenate([none] * (parts.kept.shape[1] - 1) + [part[:, -1:]], 1) for part in parts[1:3]]
    last, _ = window_sum(window, parts._replace(kept=alone[0], lost=alone[1]))
    carries = ((hi - last) & (1 << bit) - 1) + (last & (1 << bit) - 1) >> bit
    return hi - (carries << bit), lo


def _carry_of_negation(parts: Parts, window: Window, bit: int) -> tuple[Array, Array]:
    """Return sums whose magnitude, if they are negative, is that of two segments, each negated alone."""
    hi, lo = window_sum(window, parts)
    carries = (hi < 0) & (hi & (1 << bit) - 1 == 0) & (lo == 0)
    return hi + (carries.astype(np.int64) << bit), lo


def _wrapped(parts: Parts, window: Window, bits: int) -> tuple[Array, Array]:
    hi, lo = window_sum(window, parts)
    top = 1 << parts.bits + bits - 1
    return ((hi + top) & 2 * top - 1) - top, lo


# -- rounding ------------------------------------------------------------------------------------------


def _of_rounding(window: Window | None, form: Format) -> Iterator[Change]:
    """Yield faults of how a step's sum is rounded, beside other modes."""
    for seen in range(_UNSEEN + 1):
        behind = f" and {seen} bit{'s' * (seen > 1)} behind it" if seen else ""
        yield fault(
            f"sticky bit lost: sums are rounded by the guard bit{behind} alone",
            before=partial(_seen, bits=seen),
        )
    if window is not None and window.fraction_bits is not None:
        for bits in range(1, _TWICE + 1):
            last = "last bit" if bits == 1 else f"last {bits} bits"
            yield fault(f"sticky bit without the {last} of the sum", before=partial(_unseen, bits=bits))
    for bits in range(1, _TWICE + 1):
        words = f"sums rounded twice: first to {bits} bit{'s' * (bits > 1)} more than the result has"
        yield fault(words, before=partial(_twice, bits=bits))
    yield fault(
        "the carry of rounding into the exponent lost: the exponent's field one too low", after=carry_lost
    )
    for by, words in ((-1, "half"), (1, "twice")):
        misplaced = partial(_misplaced, fmt=form, by=by)
        yield fault(f"subnormal sums {words} as large: shifted one place off", before=misplaced)


def _clear(sums: Sum, below: Array) -> Sum:
    """Return sums without the bits below a place."""
    down = limited(below, 0, 62)
    return sums._replace(significand=sums.significand >> down << down)


def _misplaced(sums: Sum, fmt: Format, by: int) -> Sum:
    """Return sums that are subnormal as numbers of another exponent."""
    top = np.frexp(sums.significand.astype(np.float64))[1] - 1 + sums.last
    low = top < fmt.emin
    return sums._replace(last=sums.last + np.where(low, by, 0))


def _seen(sums: Sum, bits: int) -> Sum:
    return _clear(sums, sums.discarded - 1 - bits)


def _unseen(sums: Sum, bits: int) -> Sum:
    """Return sums whose last bits count only as guard bits."""
    return _clear(sums, np.minimum(sums.unit - sums.last + bits, sums.discarded - 1))


def _twice(sums: Sum, bits: int) -> Sum:
    """Return sums that are rounded to nearest, ties to even, with so many bits behind the result's."""
    down = limited(sums.discarded - bits, 0, 62)
    kept, rest, half = sums.significand >> down, sums.significand & (1 << down) - 1, (1 << down) >> 1
    up = (down > 0) & ((rest > half) | ((rest == half) & (kept & 1 == 1)))
    return sums._replace(significand=kept + up << down)
