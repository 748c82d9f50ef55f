"""Families of codebooks, and those that have names: posits, takums, logarithmic numbers, quantisers' tables.

They are made when they are first asked for: some have 65,536 values.

Floor 1. Imports the standard library only.
"""

from __future__ import annotations

import decimal
import functools
import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from types import MappingProxyType
from typing import NamedTuple

from lowprec.spec.codebook import Codebook, Number
from lowprec.spec.naming import Catalog

__all__ = ["CODEBOOKS", "ENTRIES", "Entry", "dynamic_map", "lns", "named", "posit", "takum"]

_NAN = float("nan")

#: Digits and bits of powers that are no fractions, and the significant bits of the thresholds between them.
_DIGITS, _WORK, _BITS = 70, 220, 110


# -- posits and takums: rounded on the string of bits ---------------------------------------------------


def posit(width: int, exponent_bits: int = 2) -> Codebook:
    """Return the posit format of a width.

    Numbers are rounded on the string of bits: between two posits lies the posit with one bit more. None but 0
    becomes 0, and none overflows; infinities and NaNs are NaR.

    >>> posit(8).max_finite == 2.0**24
    True

    Parameters
    ----------
    width : int
        2 to 16 bits, so that there are at least 4 values.
    exponent_bits : int
        0 to 5. The standard of 2022 has 2 for every width; its drafts had others.

    Raises ValueError: outside those ranges, or values that float64 does not hold.

    Source: [POSIT] sections 3 and 4.1.
    """
    _check_width("posit", width, 2)
    if not 0 <= exponent_bits <= 5:
        raise ValueError(f"exponent_bits={exponent_bits} of a posit is out of range; use 0 to 5")
    if (width - 1) << exponent_bits > 1022:
        raise ValueError(
            f"posits of {width} bits with exponent_bits={exponent_bits} exceed float64, which lowprec "
            "carries values in; use fewer of either"
        )
    name = f"posit{width}" + ("" if exponent_bits == 2 else f"_es{exponent_bits}")
    return _by_bits(name, width, functools.partial(_posit, exponent_bits=exponent_bits), "POSIT")


def _posit(code: int, width: int, exponent_bits: int) -> float:
    """Return the value of a positive code."""
    bits = f"{code:0{width}b}"[1:]
    run = len(bits) - len(bits.lstrip(bits[0]))
    regime = run - 1 if bits[0] == "1" else -run
    rest = bits[run + 1 :]
    exponent, fraction = rest[:exponent_bits].ljust(exponent_bits, "0"), rest[exponent_bits:]
    power = (regime << exponent_bits) + int(exponent or "0", 2)
    return math.ldexp(1 + _fraction_of(fraction), power)


def takum(width: int, *, linear: bool = False) -> Codebook:
    """Return the takum format of a width, logarithmic or linear.

    The value of a logarithmic takum is a power of the square root of e, rounded to float64; it is rounded to
    on its logarithm. Both are rounded on the string of bits, as posits are.

    >>> takum(8, linear=True).max_finite == 2.0**239
    True

    Parameters
    ----------
    width : int
        2 to 16 bits.
    linear : bool

    Raises ValueError: outside that range.

    Source: [TAKUM].
    """
    _check_width("takum", width, 2)
    if linear:
        return _by_bits(f"takum_linear{width}", width, _takum_linear, "TAKUM")
    return _by_bits(f"takum{width}", width, lambda code, bits: sum(_takum(code, bits)), "TAKUM", _half_exp)


def _takum(code: int, width: int) -> tuple[int, float]:
    """Return the characteristic and the mantissa of a positive code."""
    code, width = code << max(12 - width, 0), max(12, width)
    positive, regime = code >> width - 2 & 1, code >> width - 5 & 7
    size = regime if positive else 7 - regime
    rest = width - 5 - size
    characteristic = code >> rest & (1 << size) - 1
    characteristic += (1 << size) - 1 if positive else 1 - (2 << size)
    return characteristic, math.ldexp(code & (1 << rest) - 1, -rest)


def _takum_linear(code: int, width: int) -> float:
    characteristic, mantissa = _takum(code, width)
    return math.ldexp(1 + mantissa, characteristic)


def _by_bits(
    name: str,
    width: int,
    value: Callable[[int, int], float],
    source: str,
    power: Callable[[float, bool], Number] | None = None,
) -> Codebook:
    """Return a codebook of two's complement strings, where half the string is 0 and NaR.

    `value` decodes a positive code of some width; `power` makes a number of what it gives, rounded as values
    are, or as thresholds are.
    """
    half = 1 << (width - 1)
    made: Callable[[float, bool], Number] = power or (lambda number, threshold: number)
    positive = [made(value(code, width), False) for code in range(1, half)]
    between = [made(value(2 * code + 1, width + 1), True) for code in range(1, half - 1)]
    return Codebook(
        name,
        [0.0, *map(float, positive), _NAN, *(-float(each) for each in reversed(positive))],
        thresholds=[*(-each for each in reversed(between)), 0.0, 0.0, *between],
        overflow="never",
        source=source,
    )


# -- logarithms ------------------------------------------------------------------------------------------


def lns(integer_bits: int, fraction_bits: int, base: float | Fraction = 2) -> Codebook:
    """Return a logarithmic format: a sign, and the logarithm in two's complement fixed point.

    The most negative logarithm stands for zero, and with the sign for NaN. Values that are no fractions are
    rounded to float64. Numbers are rounded on their logarithm, those beyond the largest to it.

    >>> lns(4, 3).name, lns(3, 2, base=4).max_finite
    ('lns8_3', 181.01933598375618)

    Parameters
    ----------
    integer_bits : int
        Of the logarithm, with its sign: 1 to 8.
    fraction_bits : int
        0 or more. With the sign of the number at most 16 bits in all.
    base : float or Fraction
        Above 1, at most 16: 2 by default.

    Raises ValueError: outside those ranges, or values that float64 does not hold.

    Source: [LNS].
    """
    base = Fraction(base)
    if not 1 <= integer_bits <= 8 or fraction_bits < 0 or not 2 <= 1 + integer_bits + fraction_bits <= 16:
        raise ValueError(
            f"integer_bits={integer_bits} and fraction_bits={fraction_bits} of a logarithmic format are out "
            "of range; use 1 to 8 integer bits, and 2 to 16 bits with the fraction and the sign"
        )
    if not 1 < base <= 16:
        raise ValueError(f"base={float(base)!r} of a logarithmic format is out of range; use above 1 to 16")
    if (1 << (integer_bits - 1)) * (base.numerator // base.denominator).bit_length() > 1022:
        raise ValueError(
            f"powers of {float(base)!r} with integer_bits={integer_bits} exceed float64, which lowprec "
            "carries values in; use fewer bits or a smaller base"
        )
    name = f"lns{1 + integer_bits + fraction_bits}_{fraction_bits}"
    name += "" if base == 2 else f"_base{float(base):g}"
    half = 1 << (integer_bits + fraction_bits)
    exponents = [*range(half // 2), *range(-half // 2, 0)]  # by code, the last half negative
    sizes = [float(_power(base, each, fraction_bits, threshold=False)) for each in exponents]
    sizes[half // 2] = 0.0
    between = [
        _power(base, 2 * each + 1, fraction_bits + 1, threshold=True) for each in range(-half // 2, half // 2)
    ]
    # The smallest threshold is that of zero: one unit below the smallest logarithm.
    inner = between[:-1]
    return Codebook(
        name,
        [*sizes, *(-each if each else _NAN for each in sizes)],
        thresholds=[*(-each for each in reversed(inner)), *inner],
        overflow="never",
        source="LNS",
    )


@functools.lru_cache(maxsize=16)
def _logarithm(base: Fraction) -> decimal.Decimal:
    with decimal.localcontext() as context:
        context.prec = _DIGITS
        return (decimal.Decimal(base.numerator) / base.denominator).ln()


def _power(base: Fraction, numerator: int, below: int, *, threshold: bool) -> Number:
    """Return base**(numerator / 2**below): itself if that is a power of 2, else rounded as `_exp` does."""
    if base == 2 and not numerator & (1 << below) - 1:
        return math.ldexp(1.0, numerator >> below)
    return _exp(_logarithm(base), numerator, below, threshold)


def _half_exp(exponent: float, threshold: bool) -> Number:
    """Return a power of the square root of e."""
    numerator, denominator = exponent.as_integer_ratio()
    return _exp(_HALF, numerator, denominator.bit_length() - 1, threshold)


#: The logarithm of the square root of e.
_HALF = decimal.Decimal("0.5")


def _exp(logarithm: decimal.Decimal, numerator: int, below: int, threshold: bool) -> Number:
    """Return exp(logarithm * numerator / 2**below), to nearest as a float64 or in the bits of a threshold.

    A product of few factors, which other powers have too: one for the bits before the point, and for each six
    behind it.
    """
    below_six = -below % 6
    numerator, below = numerator << below_six, below + below_six
    significand, exponent = _factor(logarithm, numerator >> below, 0)
    for places in range(6, below + 1, 6):
        if sixths := numerator >> below - places & 63:
            factor, lower = _factor(logarithm, sixths, places)
            significand, exponent = significand * factor >> _WORK, exponent + lower + _WORK
    rest = significand.bit_length() - _BITS
    if not threshold:
        return math.ldexp(float(significand), exponent)
    kept, rest_bits = significand >> rest, significand & (1 << rest) - 1
    kept += rest_bits > 1 << rest - 1 or (rest_bits == 1 << rest - 1 and kept & 1)
    exponent += rest
    return Fraction(kept << exponent) if exponent >= 0 else Fraction(kept, 1 << -exponent)


@functools.lru_cache(maxsize=4096)
def _factor(logarithm: decimal.Decimal, numerator: int, below: int) -> tuple[int, int]:
    """Return exp(logarithm * numerator / 2**below) as an integer of some `_WORK` bits, and its exponent."""
    with decimal.localcontext() as context:
        context.prec = _DIGITS
        power = (logarithm * numerator / (1 << below)).exp()
    over, by = power.as_integer_ratio()
    up = _WORK - over.bit_length() + by.bit_length()
    return (over << up) // by if up >= 0 else over // (by << -up), -up


# -- tables of quantisers --------------------------------------------------------------------------------

# Of both codebooks for blocks of 4 bits: values and thresholds are the float32 numbers of their kernels.
_NF4 = (
    *(-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635),
    *(-0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725),
    *(0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941),
    *(0.7229568362236023, 1.0),
)
_NF4_THRESHOLDS = (
    *(-0.8480964004993439, -0.6106329262256622, -0.4599952697753906, -0.33967943489551544),
    *(-0.23460740596055984, -0.13791173323988914, -0.045525018125772476, 0.03979014977812767),
    *(0.1202552504837513, 0.2035212516784668, 0.2920137718319893, 0.3893125355243683),
    *(0.5016634166240692, 0.6427869200706482, 0.8614784181118011),
)
_FP4_THRESHOLDS = (0.00260417, 0.0859375, 0.20833333, 0.29166667, 0.4166667, 0.583333, 0.8333333)


def _nf4() -> Codebook:
    thresholds = [_single(each) for each in _NF4_THRESHOLDS]
    values = [_single(each) for each in _NF4]
    return Codebook("nf4", values, thresholds=thresholds, ties="down", source="QLORA")


def _fp4() -> Codebook:
    sizes = [_single(Fraction(twelfths) / 12) for twelfths in (0, 0.0625, 8, 12, 4, 6, 2, 3)]
    inner = [_single(each) for each in _FP4_THRESHOLDS]
    return Codebook(
        "fp4_bnb",
        [*sizes, *(-each for each in sizes)],
        thresholds=[*(-each for each in reversed(inner)), *inner],
        ties="zero",
        source="BNB",
    )


def _iq4_nl() -> Codebook:
    values = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
    return Codebook("iq4_nl", values, ties="up", source="GGML")


def dynamic_map(*, signed: bool = True) -> Codebook:
    """Return the dynamic map of 8 bits that optimisers' states are quantised by.

    Values are the float32 numbers that its makers compute: in each decade the middles between numbers that
    lie equally far apart. Signed, there is 1 but no -1.

    >>> dynamic_map().max_finite, dynamic_map().min_finite
    (1.0, -0.992968738079071)

    Source: [BNB] create_dynamic_map.
    """
    sizes = []
    for decade in range(7):
        count = (1 << decade if signed else 2 << decade) + 1
        start, factor = _fraction(0.1), _fraction(Fraction(10) ** (decade - 6))
        step = _fraction(_fraction(1 - start) / (count - 1))
        borders = [
            _fraction(start + step * i if i < count // 2 else 1 - step * (count - 1 - i))
            for i in range(count)
        ]
        middles = [_middle(low, high) for low, high in itertools.pairwise(borders)]
        sizes += [_single(middle * factor) for middle in middles]
    values = sorted([0.0, 1.0, *sizes, *([-size for size in sizes] if signed else [])])
    thresholds = [float(_middle(Fraction(low), Fraction(high))) for low, high in itertools.pairwise(values)]
    name = "dynamic8" if signed else "udynamic8"
    return Codebook(name, values, thresholds=thresholds, ties="down", source="BNB")


# -- HiFloat8 --------------------------------------------------------------------------------------------


def _hif8() -> Codebook:
    positive = [_hif8_value(code) for code in range(1, 128)]
    positive[0x6F - 1] = float("inf")
    values = [0.0, *positive, _NAN, *(-each for each in positive)]
    return Codebook("hif8", values, ties="away", overflow=1.25 * 2**15, source="HIF8")


def _hif8_value(code: int) -> float:
    """Return the value of a positive code: a prefix says how many bits the exponent has."""
    bits = f"{code:07b}"
    prefix, exponent_bits, trailing_bits = next(each for each in _HIF8 if bits.startswith(each[0]))
    rest = bits[len(prefix) :]
    if prefix == "0000":
        return math.ldexp(1.0, int(rest, 2) - 23)
    exponent, fraction = rest[:exponent_bits], int(rest[exponent_bits:], 2) / (1 << trailing_bits)
    size = int("1" + exponent[1:], 2) if exponent else 0  # its sign, and what follows its leading one
    return math.ldexp(1 + fraction, -size if exponent.startswith("1") else size)


#: Prefixes of HiFloat8's codes, with the bits of exponent and significand that follow.
_HIF8 = (("11", 4, 1), ("10", 3, 2), ("01", 2, 3), ("001", 1, 3), ("0001", 0, 3), ("0000", 0, 3))


def _single(number: float | Fraction) -> float:
    """Return the float32 next to a number, ties to even, by integers: the process may round otherwise."""
    exact = Fraction(number)
    if exact == 0:
        return 0.0
    size = abs(exact)
    lead = size.numerator.bit_length() - size.denominator.bit_length()
    lead -= Fraction(2) ** lead > size
    return math.ldexp(round(exact / Fraction(2) ** (lead - 23)), lead - 23)


def _fraction(number: float | Fraction) -> Fraction:
    """Return the float32 next to a number, exactly."""
    return Fraction(_single(number))


def _middle(low: Fraction, high: Fraction) -> Fraction:
    """Return half of a sum in float32."""
    return _fraction(_fraction(low + high) / 2)


def _fraction_of(bits: str) -> float:
    """Return bits behind the point."""
    return math.ldexp(int(bits or "0", 2), -len(bits))


def _check_width(kind: str, width: int, least: int) -> None:
    if not least <= width <= 16:
        raise ValueError(
            f"width={width} of a {kind} is out of range; use {least} to 16: it is kept as the value of "
            "each code, and wider ones have too many"
        )


# -- names -----------------------------------------------------------------------------------------------


class Entry(NamedTuple):
    """Description of a named codebook that is not built yet."""

    width: int
    what: str
    source: str
    make: Callable[[], Codebook]


#: Every named codebook.
ENTRIES: Mapping[str, Entry] = MappingProxyType(
    {
        "posit8": Entry(8, "posit, 2 exponent bits", "POSIT", functools.partial(posit, 8)),
        "posit16": Entry(16, "posit, 2 exponent bits", "POSIT", functools.partial(posit, 16)),
        "takum8": Entry(8, "logarithmic takum", "TAKUM", functools.partial(takum, 8)),
        "takum16": Entry(16, "logarithmic takum", "TAKUM", functools.partial(takum, 16)),
        "takum_linear8": Entry(8, "linear takum", "TAKUM", functools.partial(takum, 8, linear=True)),
        "takum_linear16": Entry(16, "linear takum", "TAKUM", functools.partial(takum, 16, linear=True)),
        "lns8_3": Entry(8, "logarithm, 3 fraction bits", "LNS", functools.partial(lns, 4, 3)),
        "lns16_8": Entry(16, "logarithm, 8 fraction bits", "LNS", functools.partial(lns, 7, 8)),
        "hif8": Entry(8, "HiFloat8: tapered floating point", "HIF8", _hif8),
        "nf4": Entry(4, "NormalFloat4: quantiles of the normal distribution", "QLORA", _nf4),
        "fp4_bnb": Entry(4, "FP4 of bitsandbytes", "BNB", _fp4),
        "iq4_nl": Entry(4, "IQ4_NL of ggml, without zero", "GGML", _iq4_nl),
        "dynamic8": Entry(8, "dynamic map of 8-bit optimisers", "BNB", dynamic_map),
        "udynamic8": Entry(
            8, "the same without negatives", "BNB", functools.partial(dynamic_map, signed=False)
        ),
    }
)

_PATTERNS: tuple[tuple[re.Pattern[str], Callable[..., Codebook]], ...] = (
    (re.compile(r"posit(\d+)(?:_es(\d+))?"), lambda width, es: posit(int(width), int(es or 2))),
    (re.compile(r"takum(\d+)"), lambda width: takum(int(width))),
    (re.compile(r"takum_linear(\d+)"), lambda width: takum(int(width), linear=True)),
    (re.compile(r"lns(\d+)_(\d+)"), lambda width, rest: lns(int(width) - int(rest) - 1, int(rest))),
)


class _Books(Mapping[str, Codebook]):
    """The named codebooks, each made when it is first looked up."""

    def __getitem__(self, name: str) -> Codebook:
        return _named(name)

    def __iter__(self) -> Iterator[str]:
        return iter(ENTRIES)

    def __len__(self) -> int:
        return len(ENTRIES)


@functools.lru_cache(maxsize=64)
def _named(name: str) -> Codebook:
    return ENTRIES[name].make()


def named(name: str) -> Codebook | None:
    """Return the codebook of a name, of one of a family too, or None where there is none.

    >>> named("posit6_es1").max_finite
    256.0
    """
    if name in ENTRIES:
        return _named(name)
    for pattern, make in _PATTERNS:
        if match := pattern.fullmatch(name):
            return _of_family(make, match.groups())
    return None


@functools.lru_cache(maxsize=64)
def _of_family(make: Callable[..., Codebook], given: tuple[str | None, ...]) -> Codebook:
    return make(*given)


#: Every named codebook, by name.
CODEBOOKS: Mapping[str, Codebook] = Catalog(
    "codebooks",
    _Books(),
    ENTRIES,
    bits=lambda entry: entry.width,
    what=lambda entry: entry.what,
)
