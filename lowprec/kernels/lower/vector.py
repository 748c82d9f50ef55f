"""Lower formats and projections to 32-bit words for vector kernels; None where only scalar ones serve.

Codes and limits are those of `lower.scalar`, where every policy is decided. Here they become the constants
of vector loops, and the route with the fewest instructions is chosen.

Floor 2b. Imports spec and NumPy.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lowprec.kernels.jit import has_half
from lowprec.kernels.lower.scalar import REFUSED, Grid, Side, Source, Word, lower_source, lower_target, parts
from lowprec.spec.format import Format, Sign
from lowprec.spec.projection import Projection

__all__ = [
    "BOTH",
    "CUT",
    "DRAWN",
    "FIELDS",
    "FRACTION",
    "HALF",
    "LIMITS",
    "NEAREST",
    "NONE",
    "PARITY",
    "PAST",
    "SHIFT",
    "SIGN",
]
__all__ += ["DECODER", "ENCODER", "NOTHING", "PROBE", "Decoder", "Encoder", "Words"]
__all__ += [
    "anywhere",
    "is_usual",
    "lower_decoder",
    "lower_encoder",
    "past_caches",
    "plan",
    "refuses",
    "shapes",
    "specialized",
]

Words = npt.NDArray[np.uint32]

#: Routes. How an encoder rounds: not at all; by comparing the tail with a limit, in any mode; to nearest even
#: by one addition; the same, of formats that are the upper bits of binary32; by the processor, to binary16.
#: How a decoder reads: not at all; field by field; by a shift, of formats that are such upper bits.
NONE, LIMITS, NEAREST, CUT, HALF = range(5)
FIELDS, SHIFT = 1, 2

#: Fraction bits of operands in binary32.
FRACTION = 23

#: On what the limit of an encoder depends, for `LIMITS`.
PARITY, SIGN, BOTH, DRAWN = range(4)


class Encoder(NamedTuple):
    """Parameters that turn words into codes of a target: an exponent field above fraction bits, below a sign.

    Such a word is a binary32 number, or the upper half of a binary64 number rounded to odd. Fields marked
    `simple`, `nearest` or `limits` are read in that case alone.
    """

    route: Word  #: NONE to HALF. From here to `one_bit`: the shape, compile-time constants
    fraction: Word  #: fraction bits of the operand: 23 or 20
    simple: Word  #: 1 where the code of -x is that of x with the sign bit, NaN included
    infinity_differs: Word  #: simple: 1 where infinity has another code than what overflows
    positive_zero: Word  #: simple: 1 where -0 becomes +0
    refuses: Word  #: 1 where NaN has no code and may not be given one
    limits: Word  #: on what the limit depends: PARITY, SIGN, BOTH or DRAWN
    near: Word  #: 1 where subnormal operands may be as large as the smallest result
    deeper: Word  #: 1 where the smallest normal result is a subnormal operand
    no_zero: Word  #: 1 where the format has no zero, nor subnormals
    one_bit: Word  #: 1 where there are no trailing bits: the exponent field is even or odd
    special: Word  #: the word of an infinite operand; those of NaNs are larger
    shift: Word  #: fraction bits that a normal result loses
    trailing_bits: Word
    lowest: Word  #: the operand's exponent field of the smallest normal result
    rebase: Word  #: what to subtract from a field shifted down by the trailing bits
    hidden: Word  #: as in `lower.scalar.Grid`
    first_normal: Word  #: nearest: the operand that is the smallest normal result
    half: Word  #: nearest: one below half of what is lost, with the exponent's change of bias
    magic: Word  #: nearest: a number whose last place is the target's smallest subnormal
    even: Word  #: limits: of the tail, in units of 2**-31; above it the code after an even one is taken
    odd: Word  #: the same after an odd one, with bit 31 set
    even_negative: Word
    odd_negative: Word
    bits: Word  #: random bits
    random_turn: Word  #: XORed with a random integer in a word's upper bits: a limit
    over: Word  #: simple: magnitudes above the largest become this one
    over_negative: Word
    sign: Word  #: of the code
    infinity: Word  #: simple: the magnitude of an infinite operand
    nan: Word  #: the code of a NaN
    nan_negative: Word
    mask: Word  #: of the code's bits
    largest: Word  #: from here on, what the other ending needs: the largest magnitude
    largest_negative: Word
    flip: Word  #: all ones where negative codes are two's complements
    base_negative: Word  #: the code of a negative magnitude is this plus the magnitude, flipped
    step_negative: Word  #: all ones, or 0 where every negative magnitude has the same code
    beyond: Word  #: the code above the largest magnitude
    beyond_negative: Word
    infinite: Word  #: the code of an infinite operand
    infinite_negative: Word
    zero: Word
    zero_negative: Word
    rounded_zero: Word
    rounded_zero_negative: Word


class Decoder(NamedTuple):
    """A format whose values are binary32 numbers, and its NaN and infinity as such."""

    route: Word  #: NONE, FIELDS or SHIFT. From here to `complement`: the shape, compile-time constants
    subnormals: Word  #: 1 where the format has them
    specials: Word  #: 1 where magnitudes above the largest finite one are NaNs, 2 where one is infinity
    not_a_zero: Word  #: 1 where the sign bit alone is NaN
    complement: Word  #: 1 where negative codes are two's complements
    mask: Word  #: of the magnitude
    sign: Word  #: of the code
    sign_shift: Word  #: from there to bit 31
    shift: Word  #: from a code to the fields of a binary32 number
    rebase: Word  #: what to add to the exponent field there
    first_normal: Word  #: the smallest normal magnitude
    first: Word  #: magnitude 0 where there are no subnormals
    magic: Word  #: a number whose last place is the smallest subnormal
    largest: Word  #: the largest finite magnitude
    infinity: Word  #: its magnitude, or all ones


#: Words of the shapes: all before these.
DECODER_SHAPE, ENCODER_SHAPE = Decoder._fields.index("mask"), Encoder._fields.index("special")

_ONES = 0xFFFFFFFF

#: Limits after an even and an odd magnitude, of nearest_even: above a half, and from a half on.
_TO_NEAREST = [1 << 30, (1 << 30) - 1 + (1 << 31)]
_NEVER = (1 << 64) - 1

#: Words at the start of a plan, of a stage that reads and of one that writes.
PROBE, DECODER, ENCODER = 5, len(Decoder._fields), len(Encoder._fields)

#: The place in a plan of 1 where results are stored past the caches: see `lanes.store_past`.
PAST = 4

#: 1, 2**-24, 3 * 2**-24 and 1 + 2**-22: two sums that only one rounding mode gives.
_PROBE = (0x3F800000, 0x33800000, 0x34400000, 0x3F800002)

#: A stage that changes nothing: no route.
NOTHING: Words = np.zeros(DECODER, np.uint32)
NOTHING.flags.writeable = False


def plan(*stages: Words) -> Words:
    """Return the words of a kernel's stages: decoder, encoder, decoder, encoder; missing ones do nothing."""
    words, place = np.zeros(PROBE + 2 * DECODER + 2 * ENCODER, np.uint32), PROBE
    words[: len(_PROBE)] = _PROBE
    for stage, size in zip(stages, (DECODER, ENCODER) * 2, strict=False):
        words[place : place + stage.size] = stage
        place += size
    return words


def past_caches(plan: Words) -> Words:
    """Return the plan whose results are stored past the caches."""
    other = plan.copy()
    other[PAST] = 1
    return other


def target_of(plan: Words) -> Encoder:
    """Return the target of a plan as a record."""
    return Encoder(*plan[PROBE + DECODER : PROBE + DECODER + ENCODER].tolist())


def refuses(plan: Words) -> bool:
    """Return whether NaN operands are refused."""
    return bool(target_of(plan).refuses)


def anywhere(plan: Words) -> Words:
    """Return the plan with a route that is exact in every rounding mode of the processor."""
    other, target = plan.copy(), PROBE + DECODER
    if other[target] in (NEAREST, HALF):
        other[target] = LIMITS
    return other


def specialized(plan: Words) -> bool:
    """Return whether plans of this shape have a kernel of their own, with the shape as constants."""
    source, target, result, carrier = shapes(plan)

    def plain(shape: tuple[int, ...]) -> bool:
        read = dict(zip(Decoder._fields, shape, strict=False))
        odd = not read["subnormals"] or read["not_a_zero"] or read["complement"]
        return read["route"] != FIELDS or not odd

    simple = target_of(plan).simple == 1 or target[0] == NONE
    return plain(source) and plain(result) and simple and carrier[0] in (NONE, CUT, HALF)


def is_usual(encoder: Words) -> bool:
    """Return whether a target rounds to nearest even and writes negative numbers with a sign bit at most."""
    words = Encoder(*encoder.tolist())
    return words.simple == 1 and words.limits == PARITY and [words.even, words.odd] == _TO_NEAREST


def shapes(plan: Words) -> tuple[tuple[int, ...], ...]:
    """Return the shape of each stage of a plan."""
    found, place = [], PROBE
    for size, count in ((DECODER, DECODER_SHAPE), (ENCODER, ENCODER_SHAPE)) * 2:
        found.append(tuple(int(word) for word in plan[place : place + count]))
        place += size
    return tuple(found)


@functools.lru_cache(maxsize=4096)
def lower_encoder(fmt: Format, projection: Projection, wide: bool = False) -> Words | None:
    """Return the words of a target for binary32 operands, or for the upper halves of binary64 ones (`wide`).

    None where vectors cannot be exact: double rounding, flushing, overflow judged before
    rounding, refused signs, payloads, too many random bits for the tail that there is, or a format too wide.
    """
    fraction, bias = (20, 1023) if wide else (FRACTION, 127)
    grid, sides = parts(lower_target(fmt, projection))
    rounding, t = projection.rounding, fmt.trailing_bits
    random_bits = rounding.bits + (grid.variant == 1)
    lowest = fmt.emin + bias
    if (
        projection.via
        or grid.flush
        or grid.shared
        or projection.subnormals != "keep"
        or grid.before
        or (projection.nan_payload != "drop" and fmt.payload_bits is not None)
        or grid.variant == 2
        or random_bits > (fraction - t - 1 if wide else 32)
        or t > (18 if wide else 22)
        or lowest < 0
        or any(REFUSED in (side.base, side.overflow, side.infinity) for side in sides)
        or max(side.max_magnitude for side in sides) >= 1 << 31  # vectors compare words with a sign
    ):
        return None
    deeper = lowest == 0
    if deeper:  # subnormal operands are doubled, and the exponent fields of others one higher
        lowest = 1
        bias += 1
    shift = fraction - t
    limits = [[side.limit_even >> 33, side.limit_odd >> 33] for side in sides]
    beyond = [_beyond(side, grid, rounding.bits > 0) for side in sides]
    complement = fmt.sign is Sign.TWOS_COMPLEMENT
    fields: dict[str, int] = {
        "route": LIMITS,
        "simple": 0,
        "fraction": fraction,
        "special": (2 * bias + 1 - 2 * deeper) << fraction,
        "shift": shift,
        "trailing_bits": t,
        "lowest": lowest,
        "rebase": lowest << t,
        "deeper": deeper,
        "no_zero": not fmt.subnormals,
        "one_bit": t == 0,
        "limits": _dependence(limits, rounding.bits),
        "near": lowest + shift <= 32 + fraction + 1,
        "hidden": grid.hidden,
        "first_normal": 0 if lowest == 1 else lowest << fraction,
        "half": (1 << (shift - 1)) - 1 - ((lowest - 1) << fraction),
        "magic": 0,
        "even": limits[0][0],
        "odd": limits[0][1] + (1 << 31),
        "even_negative": limits[1][0],
        "odd_negative": limits[1][1] + (1 << 31),
        "over": 0,
        "over_negative": 0,
        "sign": fmt.sign_code,
        "positive_zero": 0,
        "infinity": 0,
        "infinity_differs": 0,
        "nan": sides[0].nan,
        "nan_negative": sides[1].nan,
        "mask": grid.mask,
        "largest": sides[0].max_magnitude,
        "largest_negative": sides[1].max_magnitude,
        "flip": _ONES if complement else 0,
        "base_negative": sides[1].base + complement,
        "step_negative": _ONES if sides[1].step else 0,
        "beyond": beyond[0],
        "beyond_negative": beyond[1],
        "infinite": sides[0].infinity,
        "infinite_negative": sides[1].infinity,
        "zero": sides[0].zero,
        "zero_negative": sides[1].zero,
        "rounded_zero": sides[0].rounded_zero,
        "rounded_zero_negative": sides[1].rounded_zero,
        "bits": rounding.bits,
        # All ones but the highest bit, and for variant B the bit below the integer.
        "random_turn": (_ONES >> 1) ^ (1 << (31 - rounding.bits) if grid.variant == 1 else 0),
        "refuses": sides[0].nan == REFUSED,
    }
    fields |= _simple_ending(fmt, fields)
    fields |= _route(fmt, fields)
    return _array(Encoder(**fields))


def _dependence(limits: list[list[int]], bits: int) -> int:
    if bits:
        return DRAWN
    (even, odd), (even_negative, odd_negative) = limits
    if (even, odd) == (even_negative, odd_negative):
        return PARITY
    return SIGN if (even, even_negative) == (odd, odd_negative) else BOTH


def _beyond(side: Side, grid: Grid, stochastic: bool) -> int:
    """Return the code of results above the largest magnitude: its own where no tail is above its limit."""
    last = side.max_magnitude
    if not stochastic and (side.limit_odd if last & 1 else side.limit_even) == _NEVER:
        return int((side.base + side.step * last) & grid.mask)
    return int(side.overflow)


def _simple_ending(fmt: Format, fields: dict[str, int]) -> dict[str, int]:
    """Return the fields of a target whose codes are magnitudes with a sign bit; none for other targets."""
    sign, pairs = fmt.sign_code, ("infinite", "zero", "rounded_zero", "nan")
    if fmt.sign is not Sign.MAGNITUDE or fields["no_zero"]:
        return {}
    for name in pairs[:3] if fields["refuses"] else pairs:
        plus, minus = fields[name], fields[f"{name}_negative"]
        if not (minus == plus | sign or (name.endswith("zero") and minus == plus == 0)):
            return {}
    over = []
    for name, largest in (("beyond", "largest"), ("beyond_negative", "largest_negative")):
        code = fields[name]
        magnitude = code if code == sign else code & ~sign
        # At most one above the largest: then the lesser of it and a magnitude is the magnitude to store.
        if magnitude - fields[largest] not in (0, 1) or bool(code & sign) != (
            name == "beyond_negative" or code == sign
        ):
            return {}
        over.append(magnitude)
    if over[0] != over[1] and fields["limits"] in (PARITY, DRAWN):
        return {}
    return {
        "simple": 1,
        "over": over[0],
        "over_negative": over[1],
        "positive_zero": fields["zero_negative"] == 0,
        "infinity": fields["infinite"],
        # Where the target's largest value is above the operand's, infinity is no overflow by its size alone.
        "infinity_differs": over != [fields["infinite"]] * 2
        or fmt.emax >= (1024 if fields["fraction"] == 20 else 128),
    }


def _route(fmt: Format, fields: dict[str, int]) -> dict[str, int]:
    """Return the fields of the shortest route to nearest even; none, which leaves LIMITS, for other modes."""
    t, lowest, shift = fmt.trailing_bits, fields["lowest"], fields["shift"]
    limits = [fields[name] for name in ("even", "odd", "even_negative", "odd_negative")]
    magic = 23 + fmt.emin - t + 127
    if (
        limits != _TO_NEAREST * 2
        or fields["limits"] == DRAWN
        or fields["fraction"] != FRACTION
        or fields["deeper"]
        or fields["no_zero"]
        or fields["one_bit"]
        or fields["over"] != fields["over_negative"]
        or not (lowest == 1 or (lowest > t + 1 and 1 <= magic <= 254))
    ):
        return {}
    top = ((1 << fmt.exponent_bits) - 1) << t
    plain = fields["simple"] and not fields["positive_zero"] and fields["over"] == fields["infinity"] == top
    if plain and lowest == 1 and fields["sign"] << shift == 1 << 31:
        return {"route": CUT}
    if plain and has_half() and (fmt.width, t, fmt.emin, fields["nan"]) == (16, 10, -14, 0x7E00):
        return {"route": HALF}
    return {"route": NEAREST, "magic": magic << 23 if lowest > 1 else 0}


@functools.lru_cache(maxsize=1024)
def lower_decoder(fmt: Format, wide: bool = False, quiet: bool = False) -> Words | None:
    """Return the words that read codes of a format as binary32 numbers; `NOTHING` for binary32 itself.

    Its NaNs keep their payload then; with `quiet` they are read like others. None where vectors cannot read:

    - binary32 lacks some value of the format, or has it only as a subnormal number, which the processor may
      flush; but formats that are the upper bits of binary32 are shifted, unless results are `wide`;
    - binary32 has no number whose last place is the format's smallest subnormal;
    - magnitudes have 32 bits: vectors compare words with a sign.
    """
    t, limits = fmt.trailing_bits, lower_source(fmt)
    source = Source(*limits.tolist())
    ieee = fmt.sign is Sign.MAGNITUDE and fmt.infinity and fmt.nans == (1 << t) - 1 and fmt.subnormals
    cut = ieee and fmt.negative_zero and (fmt.exponent_bits, fmt.bias) == (8, 127) and not wide
    if cut and t == 23 and not quiet:
        return NOTHING
    if source.mask & ~source.sign >= 1 << 31:
        return None
    smallest = fmt.emin - t
    lone = not fmt.subnormals and t == 0 and fmt.emin == -127 and not wide  # 2**-127, a word of its own
    if not cut and (t > 22 or fmt.emax > 127 or (smallest < -126 and not lone)):
        return None
    if not cut and fmt.subnormals and smallest > 127 - 23:
        return None
    first = 0 if fmt.subnormals else 1 << 22 if lone else (fmt.emin + 127) << 23
    return _array(
        Decoder(
            route=SHIFT if cut else FIELDS,
            subnormals=fmt.subnormals,
            mask=(1 << fmt.width) - 1 if fmt.sign is Sign.TWOS_COMPLEMENT else source.mask & ~source.sign,
            sign=fmt.sign_code,
            sign_shift=31 - (fmt.width - 1),
            complement=fmt.sign is Sign.TWOS_COMPLEMENT,
            shift=23 - t,
            rebase=(fmt.emin + 126 + (not fmt.subnormals)) << 23,
            first_normal=1 << t if fmt.subnormals else 0,
            first=first,
            magic=(23 + smallest + 127) << 23 if fmt.subnormals and not cut else 0,
            specials=0
            if fmt.sign is Sign.TWOS_COMPLEMENT or source.max_magnitude == source.mask & ~source.sign
            else 1 + fmt.infinity,
            largest=fmt.max_magnitude,
            infinity=_ONES if fmt.infinity_code is None else fmt.infinity_code,
            not_a_zero=fmt.sign is Sign.MAGNITUDE and not fmt.negative_zero,
        )
    )


def _array(words: tuple[int, ...]) -> Words:
    array = np.array([int(word) & _ONES for word in words], dtype=np.uint32)
    array.flags.writeable = False
    return array
