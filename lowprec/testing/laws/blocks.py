"""Laws of blocks: a value is its scale times its element, and the scale is what the rule says of real numbers.

Floor 5.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.testing.blockcheck import Blocks
from lowprec.testing.grid import grid_of, nan_code
from lowprec.testing.law import Counterexample, Outcome, law, shown_value
from lowprec.testing.laws.decoding import same
from lowprec.testing.laws.rounding import projected
from lowprec.testing.operationcheck import decoded

__all__: list[str] = []

Array = npt.NDArray[Any]

#: Elements of a block that are looked at one by one, and all together.
_EACH, _ALL = 64, 4000


def _plain(subject: Blocks) -> bool:
    """Exact arithmetic, and scales as the rule says."""
    fmt = subject.fmt
    return (
        fmt.arithmetic == "exact"
        and not fmt.min_scale
        and fmt.smallest_divides_as is None
        and not fmt.flush_subnormals
        and not fmt.elements.rounding.bits
        and not fmt.scales.rounding.bits
        and fmt.elements.subnormals == fmt.scales.subnormals == "keep"
    )


def _two_to(power: int) -> Fraction:
    return Fraction(2) ** power


def _floor_log2(value: Fraction) -> int:
    """The k with 2**k <= value < 2**(k + 1)."""
    k = value.numerator.bit_length() - value.denominator.bit_length()
    return k if _two_to(k) <= value else k - 1


def _wanted(amax: Fraction, subject: Blocks, tensor: Fraction) -> Fraction:
    """The scale that a rule asks for, before the scale's format sees it."""
    fmt, rule = subject.fmt, subject.fmt.rule
    grid = grid_of(fmt.element)
    top = grid.value(grid.last)
    emax = _floor_log2(top)
    if rule.name == "floor":  # the largest power of two that keeps amax above the element's last binade
        return _two_to(_floor_log2(amax / tensor) - emax)
    quotient = amax / tensor / (top if rule.divisor == "maximum" else 1)
    if rule.name in ("divide", "project"):
        return quotient
    if rule.name == "ceil":
        quotient = amax / tensor / _two_to(emax)
    if rule.name in ("ceil", "rceil"):  # the least power of two that is not below
        k = _floor_log2(quotient)
        return _two_to(k) if quotient == _two_to(k) else _two_to(k + 1)
    if rule.name == "even":  # floor, of amax rounded to the element's bits with ties away from zero
        bits = fmt.element.trailing_bits + (fmt.element.exponent_bits > 0)
        unit = _two_to(_floor_log2(amax) - bits + 1)
        rounded = int(amax / unit + Fraction(1, 2)) * unit
        return _two_to(_floor_log2(amax / tensor) - emax + (_floor_log2(rounded) - _floor_log2(amax)))
    k = _floor_log2(quotient)
    part = quotient / _two_to(k)
    up = part * part >= 2 if rule.threshold is None else part >= rule.threshold
    return _two_to(k + up)


def _amax(row: Array) -> Fraction:
    return Fraction(float(np.abs(row).max()))


@law("scale identity", "blocks", "every element of blocks with a finite scale")
def scale_identity(subject: Blocks) -> Outcome:
    """A decoded value is the element's value times the scale's, times the tensor's."""
    scales, codes, tensor = subject.encoded
    got = subject.decode(scales, codes, tensor)
    shared = decoded(scales, subject.fmt.scale)
    elements = decoded(codes, subject.fmt.element)
    want = elements * shared[:, None] * float(tensor)  # 24 + 24 bits at most, and a power of two or 24 bits more
    judged = np.isfinite(shared)[:, None] & np.isfinite(elements)
    judged &= (float(tensor) == 1.0) | (np.abs(want) > 2.0**-1000)
    wrong = judged & ~same(got, want)
    if not wrong.any():
        return Outcome(int(judged.sum()))
    row, column = (int(i) for i in np.argwhere(wrong)[0])
    rows = (
        ("scale", subject.shown(scales[row], subject.fmt.scale)),
        ("element", subject.shown(codes[row, column], subject.fmt.element)),
        ("got", shown_value(got[row, column])),
        ("want", shown_value(want[row, column])),
    )
    return Outcome(int(judged.sum()), Counterexample(rows))


@law("scale rule", "blocks", "blocks with a non-zero number; exact arithmetic", _plain)
def scale_rule(subject: Blocks) -> Outcome:
    """The scale of a block is what its rule says of its largest magnitude, in real numbers, projected.

    It is the power of two below (floor), not below (ceil, rceil) or nearest to a quotient, or the quotient itself.
    """
    scales, _, tensor = subject.encoded
    places = [place for place, row in enumerate(subject.rows) if row.any()]
    wanted = [_wanted(_amax(subject.rows[place]), subject, tensor) for place in places]
    want = projected(wanted, subject.fmt.scale, subject.fmt.scales)
    got = scales[places]
    if (got == want).all():
        return Outcome(len(places))
    first = int(np.argmax(got != want))
    rows = (
        ("amax", shown_value(float(np.abs(subject.rows[places[first]]).max()))),
        ("rule", str(subject.fmt.rule)),
        ("got", subject.shown(got[first], subject.fmt.scale)),
        ("want", subject.shown(want[first], subject.fmt.scale)),
    )
    return Outcome(len(places), Counterexample(rows))


@law("elements", "blocks", "elements of blocks with a finite scale that is not 0; exact arithmetic", _plain)
def elements(subject: Blocks) -> Outcome:
    """An element is the value over the rounded scale, projected once; zeros keep their sign where there is one."""
    scales, codes, tensor = subject.encoded
    shared = subject.scale_values
    numbers, places = [], []
    for row in range(scales.size):
        if not np.isfinite(shared[row]) or shared[row] == 0:
            continue
        by = Fraction(float(shared[row])) * tensor
        for column in range(min(subject.size, _EACH)):
            if subject.rows[row, column]:
                numbers.append(Fraction(float(subject.rows[row, column])) / by)
                places.append((row, column))
        if len(places) > _ALL:
            break
    want = projected(numbers, subject.fmt.element, subject.fmt.elements)
    got = codes[tuple(np.array(places).T)]
    if (got == want).all():
        return Outcome(len(places))
    first = int(np.argmax(got != want))
    row, column = places[first]
    rows = (
        ("value", shown_value(subject.rows[row, column])),
        ("scale", subject.shown(scales[row], subject.fmt.scale)),
        ("got", subject.shown(got[first], subject.fmt.element)),
        ("want", subject.shown(want[first], subject.fmt.element)),
    )
    return Outcome(len(places), Counterexample(rows))


@law("nothing clips", "blocks", "rules ceil of elements in one binade, rceil; scales below their largest", _plain)
def nothing_clips(subject: Blocks) -> Outcome:
    """Under rceil no value over its scale exceeds the element's largest."""
    if subject.fmt.rule.name != "rceil":
        return Outcome(0)
    shared, grid = subject.scale_values, grid_of(subject.fmt.element)
    top, last = grid.value(grid.last), grid_of(subject.fmt.scale)
    largest = float(last.value(last.last))
    for row in range(shared.size):
        amax = _amax(subject.rows[row])
        if np.isfinite(shared[row]) and 0 < shared[row] < largest and amax / Fraction(float(shared[row])) > top:
            scale = subject.shown(subject.encoded[0][row], subject.fmt.scale)
            rows = (("amax", shown_value(float(amax))), ("scale", scale))
            return Outcome(row + 1, Counterexample((*rows, ("want", f"amax over the scale at most {float(top)!r}"))))
    return Outcome(shared.size)


@law("zero block", "blocks", "blocks of zeros; zero=smallest", lambda s: s.fmt.zero == "smallest")
def zero_block(subject: Blocks) -> Outcome:
    """A block of zeros has scale code 0 and decodes to zeros."""
    rows = subject.rows[:2]
    scales, codes, tensor = subject.encode(rows)
    values = subject.decode(scales, codes, tensor)
    if not subject.fmt.element.subnormals:
        return Outcome(0)
    wrong = (scales != 0) | (values != 0).any(axis=1)
    if not wrong.any():
        return Outcome(2)
    place = int(np.argmax(wrong))
    told = (("block", "zeros"), ("scale", subject.shown(scales[place], subject.fmt.scale)))
    return Outcome(2, Counterexample((*told, ("want", "scale code 0 and values 0"))))


@law(
    "special block",
    "blocks",
    "blocks with a NaN or an infinity; nan=block, infinity=block, scales with NaN",
    lambda s: s.fmt.nan == s.fmt.infinity == "block" and s.fmt.scale.has_nan,
)
def special_block(subject: Blocks) -> Outcome:
    """A NaN or an infinity anywhere makes the scale NaN and every element code 0."""
    rows = np.repeat(subject.rows[2:3], 3, axis=0)
    rows[0, -1], rows[1, 0], rows[2, subject.size // 2] = np.nan, np.inf, -np.inf if subject.signed else np.inf
    scales, codes, _ = subject.encode(rows)
    wrong = (scales != nan_code(subject.fmt.scale, False)) | (codes != 0).any(axis=1)
    if not wrong.any():
        return Outcome(3)
    place = int(np.argmax(wrong))
    kind = ("with NaN", "with +Inf", "with -Inf")[place]
    told = (("block", kind), ("scale", subject.shown(scales[place], subject.fmt.scale)))
    return Outcome(3, Counterexample((*told, ("want", "a NaN scale and element codes 0"))))


@law(
    "powers of two scale",
    "blocks",
    "rules of powers of two into formats of powers of two; blocks away from the ends",
    lambda s: _plain(s) and s.fmt.rule.powers != "none" and _powers_alone(s),
)
def powers_of_two_scale(subject: Blocks) -> Outcome:
    """Doubling all values of a block changes its scale's code by one and no element."""
    amax = np.abs(subject.rows).max(axis=1)
    rows = subject.rows[(amax > 2.0**-90) & (amax < 2.0**90)]
    first, second = subject.encode(rows), subject.encode(2 * rows)
    wrong = (second[0] != first[0] + 1) | (second[1] != first[1]).any(axis=1)
    if not wrong.any():
        return Outcome(rows.shape[0])
    place = int(np.argmax(wrong))
    told = (
        ("amax", shown_value(float(np.abs(rows[place]).max()))),
        ("scale", subject.shown(first[0][place], subject.fmt.scale)),
        ("of the double", subject.shown(second[0][place], subject.fmt.scale)),
    )
    return Outcome(rows.shape[0], Counterexample(told))


def _powers_alone(subject: Blocks) -> bool:
    return subject.fmt.scale.trailing_bits == 0 and subject.fmt.tensor_scale == "none"


def _one_axis(subject: Blocks) -> bool:
    return subject.path == "arrays" and len(subject.fmt.sizes) == 1


@law("axes and tails", "blocks", "blocks along one axis; lp.encode along axis 0, and of a part", _one_axis)
def axes_and_tails(subject: Blocks) -> Outcome:
    """Blocks along the other axis of the transposed array are the same, and a tail is a block of its own."""
    from lowprec.arrays.convert import encode

    values = subject.rows[:8].astype(np.float32)
    wide = values.reshape(2, -1)
    cut = wide[:, : wide.shape[1] - subject.size // 2] if subject.size > 1 else wide
    given: dict[str, Any] = {} if subject.fmt.tensor_scale == "none" else {"tensor_scale": 0.25}
    whole, across, part = (
        encode(wide, subject.fmt, axis=1, **given),
        encode(np.ascontiguousarray(wide.T), subject.fmt, axis=0, **given),
        encode(cut, subject.fmt, axis=1, **given),
    )
    full = (cut.shape[1] // subject.size) * subject.size
    checks = (
        ("along axis 0", across.codes.T, whole.codes),
        ("scales along axis 0", across.scales.T, whole.scales),
        ("before a tail", part.codes[:, :full], whole.codes[:, :full]),
        ("scales before a tail", part.scales[:, : full // subject.size], whole.scales[:, : full // subject.size]),
    )
    for name, got, want in checks:
        if (got != want).any():
            row, column = (int(i) for i in np.argwhere(got != want)[0])
            told = ((name, f"0x{int(got[row, column]):x}"), ("want", f"0x{int(want[row, column]):x}"))
            return Outcome(values.size, Counterexample(told))
    return Outcome(2 * values.size)


@law("blocks of the oracle", "blocks", "blocks of at most 256 values", lambda s: s.path == "arrays" and s.size <= 256)
def blocks_of_the_oracle(subject: Blocks) -> Outcome:
    """Scales and elements are the oracle's."""
    rows = subject.rows[: 40 + 2000 // subject.size]
    got, want = subject.encode(rows), Blocks(subject.fmt, "oracle", 0, subject.seed).encode(rows)
    wrong = (got[0] != want[0]) | (got[1] != want[1]).any(axis=1)
    if not wrong.any():
        return Outcome(rows.size)
    place = int(np.argmax(wrong))
    told = (
        ("amax", shown_value(float(np.abs(rows[place]).max()))),
        ("got", subject.shown(got[0][place], subject.fmt.scale)),
        ("want", subject.shown(want[0][place], subject.fmt.scale)),
    )
    return Outcome(rows.size, Counterexample(told))
