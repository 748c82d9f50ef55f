"""Lower block formats for `vector.block`, or to None where only `general.blocks` serves.

Floor 2b. Imports spec and NumPy.
"""

from __future__ import annotations

import functools
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lowprec.kernels.lower.block import edge, exactly, floor_log2, nearest_single, up_above
from lowprec.kernels.lower.scalar import REFUSED, Word, lower_target, parts
from lowprec.kernels.lower.vector import (
    LIMITS,
    NEAREST,
    NONE,
    NOTHING,
    SHIFT,
    Encoder,
    Words,
    lower_decoder,
    lower_encoder,
    plan,
    specialized,
)
from lowprec.spec.block import BlockFormat, ScaleRule
from lowprec.spec.format import Format
from lowprec.spec.rounding import NEAREST_EVEN, Threshold

__all__ = ["NEVER", "BlockPlan", "Factors", "Setup", "lower_blocks", "lower_factors", "lower_products"]

#: Instead of a code: the blocks that it would be for are left to `block`.
NEVER = 0xFFFFFFFF


class Setup(NamedTuple):
    """Parameters by which scales follow from the largest magnitudes, as words."""

    fraction: Word  #: fraction bits of the operands' words
    least: Word  #: the smallest normal word; blocks below it are left out, but for those of zeros
    infinity: Word
    carry: Word  #: what to add to a word so that its exponent field becomes that of the next power of two
    zero: Word  #: the scale of a block of zeros, or NEVER
    nan: Word  #: the scale of a block with NaN or infinity, whose elements are of code 0, or NEVER
    lowest: Word  #: the least exponent of a divisor whose results are normal, or small beyond doubt
    raised: (
        Word  #: what quotients are raised to where scales are made by vectors, as the upper half of binary64
    )


class BlockPlan(NamedTuple):
    """Parameters of a kernel for a block format and a type of values."""

    scales: (
        str  #: "powers" of two, other numbers by "vectors" (the tables are a plan), or "numbers" one by one
    )
    usual: bool  #: whether it has a kernel of its own, in which what branches depend on is constant
    plan: Words
    setup: Words
    tables: npt.NDArray[np.uint32]


class Factors(NamedTuple):
    """Factors of elements, as words: all but the first are binary32 patterns."""

    exact: Word  #: 1 where nothing is rounded
    tensor: Word  #: the tensor's scale, or 1.0
    lowest: Word  #: where codes of scales are patterns themselves, between which products stay normal
    highest: Word


@functools.lru_cache(maxsize=1024)
def lower_blocks(source: Format, fmt: BlockFormat, wide: bool, tensor: bool) -> BlockPlan | None:
    """Return the plan for values of a format, folded from binary64 or not, and blocks, tensor scale or not.

    None where vectors cannot be exact, or cannot follow a policy.
    """
    powers = fmt.rule.powers != "none" and not tensor
    rounding = fmt.elements.rounding
    near = Threshold.ANY not in (
        rounding.threshold(negative=negative, odd=odd) for negative in (False, True) for odd in (False, True)
    )
    in_steps = fmt.arithmetic != "exact"
    if (
        (
            in_steps
            and (wide or tensor or not (powers and near and not rounding.bits and fmt.element.subnormals))
        )
        or fmt.scales.rounding.bits
        or fmt.scales.grid_of(fmt.scale) != fmt.scale
        or fmt.flush_subnormals
        or (wide and not powers)
        or fmt.element.emax > 120
        or fmt.element.emin - fmt.element.trailing_bits < -80
    ):
        return None
    reader = NOTHING if wide else lower_decoder(source)
    encoder = lower_encoder(fmt.element, fmt.elements, wide or not powers)
    if reader is None or encoder is None or encoder[0] not in (LIMITS, NEAREST):
        return None
    encoder = np.array(Encoder(*encoder.tolist())._replace(refuses=1), np.uint32)  # no NaN gets that far
    fraction, bias = (20, 1023) if wide else (23, 127)
    tables: npt.NDArray[np.uint32] = NOTHING
    carry, scales = 0, None
    if powers:
        found = _carry(fmt.rule, fmt.element, fraction)
        if found is None:
            return None
        carry, lift = found
        if in_steps and not _stays(fmt, (2 << fraction) - carry, lift):
            return None
        tables = _tables(fmt, fraction, bias, lift)
    elif fmt.scale.precision + 24 * tensor + fmt.element.precision + rounding.bits + 2 > 50:
        return None
    else:
        scales = _scale_plan(fmt, tensor) if fmt.rule.powers == "none" else None
        tables = tables if scales is None else scales
    smallest = fmt.element.emin - fmt.element.trailing_bits - 34
    setup = Setup(
        fraction=fraction,
        least=1 << fraction,
        infinity=(2 * bias + 1) << fraction,
        carry=carry,
        zero=_zero(fmt),
        nan=_nan(fmt),
        lowest=1 - bias - smallest,
        raised=int(np.float64(fmt.min_scale).view(np.uint64)) >> 32,
    )
    words = np.array([word & NEVER for word in setup], np.uint32)
    whole = plan(reader, encoder)
    usual = reader[0] in (NONE, SHIFT) and not wide and rounding == NEAREST_EVEN and specialized(whole)
    by = "powers" if powers else "numbers" if scales is None else "vectors"
    return BlockPlan(by, usual, whole, words, tables)


@functools.lru_cache(maxsize=1024)
def lower_products(fmt: BlockFormat, scaled: bool) -> Words | None:
    """Return the plan to decode elements of blocks to binary32, of a tensor that has a scale too if `scaled`.

    None where a product could be rounded twice, or where codes of scales are too many to list.
    """
    element, reader = fmt.element, lower_decoder(fmt.element)
    if reader is None or not reader[0] or _lowest(element) < -126:
        return None
    if not (_is_direct(fmt.scale) or fmt.scale.width <= 8):
        return None
    return None if scaled and element.precision + fmt.scale.precision > 24 else plan(reader)


def _lowest(element: Format) -> int:
    return element.emin - (element.trailing_bits if element.subnormals else 0)


def _is_direct(scale: Format) -> bool:
    """Return whether codes of scales are patterns of binary32."""
    reader = lower_decoder(scale)
    return reader is not None and not reader[0]


@functools.lru_cache(maxsize=1024)
def lower_factors(fmt: BlockFormat, scaled: bool, tensor: int, exponent: int) -> Words | None:
    """Return the scales, each as what `times` multiplies with; None where products might not be normal.

    `tensor` is the significand of the tensor's scale, with bit 63 set, and `exponent` that of its last bit.
    """
    element, scale, turn = fmt.element, fmt.scale, exponent + 63
    lowest = _lowest(element)
    highest = element.emax + 1  # one more, for the most negative of two's complement
    least = max(-126, -126 - lowest, -126 - lowest - turn)
    most = min(127, 127 - highest, 126 - highest - turn)
    if not -126 <= turn <= 127 or least > most:
        return None
    factors = Factors(
        exact=not scaled and element.precision + scale.precision <= 24,
        tensor=(turn + 126 << 23) + (tensor >> 40),
        lowest=(least + 127) << 23,
        highest=((most + 127) << 23) - 1,
    )
    words = np.array(factors, np.uint32)
    return words if _is_direct(scale) else np.concatenate([words, _patterns(scale, least, most)])


@functools.lru_cache(maxsize=1024)
def _patterns(scale: Format, least: int, most: int) -> Words:
    codes = range(1 << scale.code_bits)
    return np.array([_pattern(scale, code, least, most) for code in codes], np.uint32)


def _pattern(scale: Format, code: int, least: int, most: int) -> int:
    """Return a positive scale whose exponent is from `least` to below `most` as binary32; else NEVER."""
    if code > scale.max_magnitude:
        return NEVER
    significand, exponent = scale.scaled(code)
    lead = exponent + significand.bit_length() - 1
    if not significand or not least <= lead < most:
        return NEVER
    return (lead + 126 << 23) + (significand << 24 - significand.bit_length())


def _carry(rule: ScaleRule, element: Format, fraction: int) -> tuple[int, int] | None:
    """Return what to add to a word, and then subtract from its exponent, to get the scale's power of two.

    None where a word does not tell: next to an odd one rounding to odd hides on which side a number is.
    """
    root, exact, reached, exponent = edge(rule, element, fraction)
    if fraction < 23 and (not exact or root & 1):
        return None
    limit = root + (not exact or not reached)
    # From `limit` on, in the binade of `exponent`, the next power of two.
    return (2 << fraction) - limit, exponent


def _stays(fmt: BlockFormat, limit: int, lift: int) -> bool:
    """Return whether binary32 quotients, which grow with amax, cross a power of two where exact ones do."""
    by, found = fmt.rule.divides_by(fmt.element), []
    for word in (limit - 1, limit):
        amax = word * Fraction(2) ** (lift - 23)
        wanted = _single(amax * _single(1 / by)) if fmt.arithmetic == "reciprocal" else _single(amax / by)
        k = floor_log2(wanted)
        up = (
            int(wanted / Fraction(2) ** k * (1 << 63)),
            int(amax / Fraction(2) ** floor_log2(amax) * (1 << 63)),
        )
        found.append(k + (up[fmt.rule.powers == "even"] > up_above(fmt.rule, fmt.element)))
    return found == [0, 1]


def _single(value: Fraction) -> Fraction:
    """Round a positive number to binary32."""
    return exactly(*nearest_single((value.numerator, 0), (value.denominator, 0)))


def _tables(fmt: BlockFormat, fraction: int, bias: int, lift: int) -> npt.NDArray[np.uint32]:
    """By amax's exponent field and carry: the scale's code, and what to subtract from exponent fields."""
    smallest = fmt.element.emin - fmt.element.trailing_bits - 34
    tables = np.zeros((2, (2 * bias + 4)), np.uint32)
    tables[0] = NEVER
    # Formats of powers alone have no zero: what is smaller becomes the smallest.
    powers_alone = not fmt.scale.subnormals and not fmt.scale.trailing_bits
    for field in range(1, 2 * bias + 3):
        k = field - bias - lift
        k = max(k, fmt.scale.emin) if powers_alone else k
        code = _code(fmt.scale, k)
        if fmt.scales.subnormals != "keep" and k < fmt.scale.emin:
            continue
        if (
            code is None
            or (code == 0 and fmt.smallest_divides_as is not None)
            or Fraction(2) ** k < fmt.min_scale
        ):
            continue
        # Values that the subtraction makes subnormal must be too small to matter, and its words have a sign.
        if 1 - bias - k > smallest or k > bias or (fmt.arithmetic != "exact" and k < -100):
            continue
        tables[:, field] = code, (k << fraction) & NEVER
    return tables


def _scale_plan(fmt: BlockFormat, tensor: bool) -> Words | None:
    """Return the plan of a decoder and an encoder of scales, or None where vectors cannot be exact."""
    reader, encoder = lower_decoder(fmt.scale), lower_encoder(fmt.scale, fmt.scales, True)
    bits = fmt.element.precision + 24 * tensor + fmt.scale.precision + 2
    whole = int(np.float64(fmt.min_scale).view(np.uint64)) & NEVER == 0 and fmt.smallest_divides_as is None
    return None if reader is None or encoder is None or bits > 50 or not whole else plan(reader, encoder)


def _zero(fmt: BlockFormat) -> int:
    """Return the scale of a block of zeros."""
    if fmt.zero == "smallest":
        return 0
    return NEVER if fmt.zero == "rule" else NEVER if (one := _code(fmt.scale, 0)) is None else one


def _nan(fmt: BlockFormat) -> int:
    """Return the scale of blocks with a NaN or an infinity, where their elements are of code 0."""
    code = parts(lower_target(fmt.scale, fmt.scales))[1][0].nan
    return code if fmt.nan == fmt.infinity == "block" and code != REFUSED else NEVER


def _code(fmt: Format, exponent: int) -> int | None:
    """Return the code of a power of two, or None where there is none."""
    t = fmt.trailing_bits
    if fmt.exponent_bits and exponent >= fmt.emin:
        magnitude = (exponent + fmt.bias) << t
    else:
        magnitude = (
            1 << place if 0 <= (place := exponent - fmt.scaled(0)[1]) < t + (not fmt.exponent_bits) else -1
        )
        if not fmt.subnormals:
            magnitude = -1
    return magnitude if 0 <= magnitude <= fmt.max_magnitude else None
