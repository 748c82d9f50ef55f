"""Laws of blocks: a value is its scale times its element, and the scale follows from the rule exactly."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Format
from lowprec.testing.block import ArrayBlocks, BlockSubject, OracleBlocks
from lowprec.testing.grid import Array, grid_of, largest, nan_code, values_of
from lowprec.testing.law import Outcome, law as any_law, number
from lowprec.testing.laws.decoding import same
from lowprec.testing.projecting import is_plain, projected
from lowprec.verify.reference.oracle_arrays import BlockCodes

#: A law about blocks.
law = functools.partial(any_law, topic="blocks")

#: Elements of a block that are looked at one by one, and of all blocks together.
_EACH, _ALL = 64, 4000


def _plain(subject: BlockSubject) -> bool:
    """Return whether scales and elements are exact quotients, projected once, without exceptions."""
    fmt = subject.fmt
    usual = fmt.arithmetic == "exact" and not fmt.min_scale and fmt.smallest_divides_as is None
    usual = usual and not fmt.flush_subnormals and is_plain(fmt.elements) and is_plain(fmt.scales)
    return usual and subject.encodes


_PLAIN = "exact quotients, each rounded and saturated once"


def _two_to(power: int) -> Fraction:
    return Fraction(2) ** power


def _floor_log2(value: Fraction) -> int:
    """Return the k with 2**k <= value < 2**(k + 1)."""
    k = value.numerator.bit_length() - value.denominator.bit_length()
    return k if _two_to(k) <= value else k - 1


def _wanted(amax: Fraction, subject: BlockSubject) -> Fraction:
    """Return the scale that a rule asks for, before the scale's format sees it."""
    fmt, rule = subject.fmt, subject.fmt.rule
    top = largest(fmt.element)
    divisor = {"binade": _two_to(_floor_log2(top)), "maximum": top, "one": Fraction(1)}[rule.divisor]
    quotient = amax / subject.encoded.tensor / divisor
    if rule.powers == "none":
        return quotient
    k = _floor_log2(quotient)
    part = quotient / _two_to(k)
    if rule.powers == "down":
        up = False
    elif rule.powers == "up":
        up = part > 1
    elif (
        rule.powers == "even"
    ):  # amax, rounded to the element's bits with ties away from zero, is a power of two
        unit = _two_to(_floor_log2(amax) - fmt.element.trailing_bits - (fmt.element.exponent_bits > 0) + 1)
        up = int(amax / unit + Fraction(1, 2)) * unit >= _two_to(_floor_log2(amax) + 1)
    else:
        up = part * part >= 2 if rule.threshold is None else part >= rule.threshold
    return _two_to(k + up)


def _amax(row: Array) -> Fraction:
    return Fraction(float(np.abs(row).max()))


@law("scale identity", "any codes of finite scales and elements, and NaNs", lambda s: s.decodes)
def scale_identity(subject: BlockSubject) -> Outcome:
    """A decoded value is the element's value times the scale's, times the tensor's, and NaN where
    one of these is.

    It is judged where the type of the answer has that product. The sign of a zero counts.
    """
    scales, codes, tensor = subject.any_codes
    got = subject.decode(subject.any_codes)
    shared, elements = values_of(scales, subject.fmt.scale), values_of(codes, subject.fmt.element)
    tried = 0
    for row in range(scales.size):
        for column in range(min(subject.size, _EACH)):
            factors = float(shared[row]), float(elements[row, column])
            if any(abs(factor) == np.inf for factor in factors):
                continue
            tried += 1
            value, want = float(got[row, column]), _product(factors, tensor, got.dtype)
            if want is None or same(np.array(value), np.array(want)):
                continue
            codes_told = (
                ("scale", subject.scale(scales[row])),
                ("element", subject.element(codes[row, column])),
            )
            return Outcome.broken(tried, *codes_told, ("got", number(value)), ("want", number(want)))
    return Outcome(tried)


def _product(factors: tuple[float, float], tensor: Fraction, kind: np.dtype[Any]) -> float | None:
    """Return the product, None where a type of floats does not have it."""
    if any(factor != factor for factor in factors):
        return np.nan
    exact = Fraction(factors[0]) * Fraction(factors[1]) * tensor
    try:
        near = float(exact)
    except OverflowError:
        return None
    signed = math.copysign(near, math.copysign(1, factors[0]) * math.copysign(1, factors[1]))
    return signed if Fraction(near) == exact and float(kind.type(near)) == near else None


@law("scale rule", f"blocks with a number other than 0; {_PLAIN}", _plain)
def scale_rule(subject: BlockSubject) -> Outcome:
    """The scale is what the rule says of the block's largest magnitude, in real numbers, projected.

    The quotient is amax over the tensor's scale and over the element's largest value, its binade or 1. It is
    the scale itself, or its power of two, or the next one: always, where it is none, from a threshold on, or
    where amax, rounded to the element's bits, is.
    """
    rows = [row for row in subject.rows if row.any()]
    got = subject.encoded.scales[subject.rows.any(axis=1)]
    wanted = [_wanted(_amax(row), subject) for row in rows]
    want = projected(wanted, subject.fmt.scale, subject.fmt.scales)
    columns = (("amax", _told_amax, rows), ("rule", str(subject.fmt.rule)))
    return Outcome.of(got != want, *columns, ("got", subject.scale, got), ("want", subject.scale, want))


def _told_amax(row: Array) -> str:
    return number(_amax(row))


@law("elements", f"numbers other than 0 of blocks whose scale is finite and not 0; {_PLAIN}", _plain)
def elements(subject: BlockSubject) -> Outcome:
    """An element is the value over its block's scale, and over the tensor's, projected once."""
    scales, codes, tensor = subject.encoded
    shared = subject.scale_values
    numbers: list[Fraction] = []
    places: list[tuple[int, int]] = []
    for row in range(scales.size):
        if np.isfinite(shared[row]) and shared[row] != 0 and len(places) < _ALL:
            scale = Fraction(float(shared[row])) * tensor
            for column in np.flatnonzero(subject.rows[row])[:_EACH].tolist():
                numbers.append(Fraction(float(subject.rows[row, column])) / scale)
                places.append((row, column))
    if not places:
        return Outcome(0)
    want = projected(numbers, subject.fmt.element, subject.fmt.elements)
    where = tuple(np.array(places).T)
    got = codes[where]
    columns = (("value", number, subject.rows[where]), ("scale", subject.scale, scales[where[0]]))
    return Outcome.of(got != want, *columns, ("got", subject.element, got), ("want", subject.element, want))


@law(
    "nothing clips",
    f"rules ceil and rceil; blocks whose scale is neither 0 nor its format's largest; {_PLAIN}",
    lambda s: _plain(s) and s.fmt.rule.powers == "up",
)
def nothing_clips(subject: BlockSubject) -> Iterator[Outcome]:
    """No value over its scales exceeds the element's largest value."""
    top, most = largest(subject.fmt.element), largest(subject.fmt.scale)
    for row, shared in zip(subject.rows, subject.scale_values.tolist(), strict=True):
        if 0 < shared < most:
            clips = np.array([_amax(row) > top * Fraction(shared) * subject.encoded.tensor])
            columns = (("amax", _told_amax(row)), ("scale", number(shared)))
            yield Outcome.of(clips, *columns, ("want", f"amax over it at most {number(top)}"))


@law(
    "zero block",
    "blocks of +0 and of -0; zero=smallest, elements that have a zero",
    lambda s: s.encodes and s.fmt.zero == "smallest" and s.fmt.element.subnormals,
)
def zero_block(subject: BlockSubject) -> Outcome:
    """A block of zeros has the smallest scale (code 0, but in a codebook) and elements that are zeros."""
    scales, codes, _ = subject.encode(subject.rows[:2])
    want = _smallest(subject.fmt.scale)
    wrong = (scales != want) | (values_of(codes, subject.fmt.element) != 0).any(axis=1)
    columns = (("block", "all {}".format, subject.rows[:, 0]), ("scale", subject.scale, scales))
    return Outcome.of(wrong, *columns, ("want", f"scale code {want}, and zeros"))


def _smallest(fmt: Format) -> int:
    """Return the code of 0, or of the smallest positive value."""
    if not isinstance(fmt, Codebook):
        return 0
    return min((value, code) for code, value in enumerate(fmt.values) if str(value) != "-0.0" and value >= 0)[
        1
    ]


def _marks_specials(subject: BlockSubject) -> bool:
    """Return whether a NaN or an infinity makes a NaN of the block's scale."""
    return (
        subject.fmt.nan == subject.fmt.infinity == "block"
        and _has_nan(subject)
        and is_plain(subject.fmt.scales)
    )


def _special_rows(subject: BlockSubject) -> Array:
    """Return a block with a NaN, one with an infinity, and one with -infinity."""
    rows = np.repeat(subject.rows[2:3], 3, axis=0)
    rows[0, -1], rows[1, 0], rows[2, subject.size // 2] = np.nan, np.inf, -np.inf
    return rows


@law(
    "special block",
    "blocks with a NaN or an infinity; nan=block, infinity=block, scales with NaN",
    lambda s: s.encodes and _marks_specials(s),
)
def special_block(subject: BlockSubject) -> Outcome:
    """A NaN or an infinity anywhere makes the scale NaN and every element code 0."""
    scales, codes, _ = subject.encode(_special_rows(subject))
    wrong = (scales != nan_code(subject.fmt.scale, False)) | (codes != 0).any(axis=1)
    kinds = ("with NaN", "with an infinity", "with -infinity")
    columns = (("block", str, kinds), ("scale", subject.scale, scales))
    return Outcome.of(wrong, *columns, ("want", "a NaN scale and element codes 0"))


def _has_nan(subject: BlockSubject) -> bool:
    return subject.fmt.scale.nans > 0 or not subject.fmt.scale.negative_zero


def _has_exponents_alone(fmt: Format) -> bool:
    return not isinstance(fmt, Codebook) and not fmt.trailing_bits


@law(
    "powers of two scale",
    f"rules of powers of two into scales without trailing bits, not the lowest or the largest; {_PLAIN}",
    lambda s: _plain(s) and s.fmt.rule.powers != "none" and _has_exponents_alone(s.fmt.scale),
)
def powers_of_two_scale(subject: BlockSubject) -> Outcome:
    """Doubling all values of a block changes its scale's code by one and no element."""
    amax = np.abs(subject.rows).max(axis=1)
    rows = subject.rows[(amax > 2.0**-90) & (amax < 2.0**90)]
    first, second = subject.encode(rows), subject.encode(2 * rows)
    if first.tensor != second.tensor:  # that of the tensor is what has been doubled
        return Outcome(0)
    judged = (first.scales > 0) & (first.scales < grid_of(subject.fmt.scale).last)
    wrong = judged & ((second.scales != first.scales + 1) | (second.codes != first.codes).any(axis=1))
    columns = (("amax", _told_amax, rows), ("scale", subject.scale, first.scales))
    return Outcome.of(
        wrong, *columns, ("of the double", subject.scale, second.scales), tried=int(judged.sum())
    )


@law(
    "types of blocks",
    "blocks of finite numbers, and of others where these make a NaN scale; float64 and float32, by "
    "lowprec.encode",
    lambda s: isinstance(s, ArrayBlocks),
)
def types_of_blocks(subject: ArrayBlocks) -> Outcome:
    """Numbers become the same scales and elements in whatever type they come."""
    rows = subject.rows[: 40 + 2000 // subject.size]
    if _marks_specials(subject) and subject.fmt.tensor_scale == "none":
        rows = np.concatenate([rows, _special_rows(subject)])
    got, want = subject.encode(rows, "float64"), subject.encode(rows)
    return _compared(subject, rows, got, want)


def _compared(subject: BlockSubject, rows: Array, got: BlockCodes, want: BlockCodes) -> Outcome:
    """Compare the codes of blocks with others; the first that differs is told."""
    wrong = np.column_stack([got.scales != want.scales, got.codes != want.codes])
    if not wrong.any():
        return Outcome(rows.size)
    place, column = (int(i) for i in np.argwhere(wrong)[0])
    told = [("amax", _told_amax(rows[place]))]
    if column:
        told += [("value", number(rows[place, column - 1])), ("of", "the element")]
        said = [subject.element(each.codes[place, column - 1]) for each in (got, want)]
    else:
        told += [("of", "the scale")]
        said = [subject.scale(each.scales[place]) for each in (got, want)]
    return Outcome.broken(rows.size, *told, *zip(("got", "want"), said, strict=True))


@law(
    "axes and tails",
    "blocks along one axis, by lowprec.encode",
    lambda s: isinstance(s, ArrayBlocks) and len(s.fmt.sizes) == 1,
)
def axes_and_tails(subject: BlockSubject) -> Outcome:
    """Blocks along axis 0 of the transposed array are the same, and a tail leaves the blocks
    before it as they are.
    """
    from lowprec.arrays.convert import encode

    wide = subject.rows[:8].astype(np.float32).reshape(2, -1)
    cut = wide[:, : wide.shape[1] - subject.size // 2]
    given: dict[str, Any] = {} if subject.fmt.tensor_scale == "none" else {"tensor_scale": 0.25}
    whole = encode(wide, subject.fmt, axis=1, **given)
    across = encode(np.ascontiguousarray(wide.T), subject.fmt, axis=0, **given)
    part = encode(cut, subject.fmt, axis=1, **given)
    full = cut.shape[1] // subject.size
    checks = (
        ("codes along axis 0", across.codes.T, whole.codes),
        ("scales along axis 0", across.scales.T, whole.scales),
        ("codes before a tail", part.codes[:, : full * subject.size], whole.codes[:, : full * subject.size]),
        ("scales before a tail", part.scales[:, :full], whole.scales[:, :full]),
    )
    for name, got, want in checks:
        if (got != want).any():
            row, column = (int(i) for i in np.argwhere(got != want)[0])
            said = (("got", f"0x{int(got[row, column]):x}"), ("want", f"0x{int(want[row, column]):x}"))
            return Outcome.broken(2 * wide.size, ("of", name), ("at", f"{row}, {column}"), *said)
    return Outcome(2 * wide.size)


@law(
    "blocks of the oracle",
    "blocks of at most 256 values; not the oracle itself",
    lambda s: s.encodes and s.size <= 256 and not isinstance(s, OracleBlocks),
)
def blocks_of_the_oracle(subject: BlockSubject) -> Outcome:
    """Scales and elements are the oracle's."""
    rows = subject.rows[: 40 + 2000 // subject.size]
    want = OracleBlocks(subject.fmt, 0, subject.seed).encode(rows)
    return _compared(subject, rows, subject.encode(rows), want)
