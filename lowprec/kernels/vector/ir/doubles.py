"""Vectors of binary64 numbers: what words become on the way through a product, a sum or a quotient.

Each function takes words, which are binary32 patterns, or numbers that were made of them, and the
results go back as words: upper halves of binary64 patterns, rounded to odd, which rounds to at most
18 bits as the exact number does. Nothing here is subnormal in binary64, and nothing overflows.

Floor 2b. Imports LLVM's types through `jit`. Source: [BOLDO] for rounding to odd, [KNUTH] for the sum.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from lowprec.kernels.jit import VectorType, builtin, ir, memory
from lowprec.kernels.vector.ir.lanes import LANES, WORDS, Lanes

__all__ = [
    "Doubles",
    "cut_short_sum",
    "cut_sum",
    "divided",
    "fill_wide",
    "fused",
    "joined_sum",
    "load_wide",
    "multiplied",
    "odd_sum",
    "quotients",
    "rooted",
    "summed",
]

Wides = npt.NDArray[Any]  #: of uint64, as many as words
Doubles = npt.NDArray[np.float64]
F = TypeVar("F", bound=Callable[..., Any])

_WIDES = VectorType("wides", ir.IntType(64), LANES)


# -- without the compiler ----------------------------------------------------------------------------


def _doubles(word: Lanes) -> Doubles:
    return word.view(np.float32).astype(np.float64)


def _folded(number: Doubles, error: Doubles | None = None) -> Lanes:
    """Upper halves rounded to odd of numbers, or of numbers and what they were rounded by."""
    wide = number.view(np.uint64)
    inexact = np.zeros(LANES, bool)
    if error is not None:
        inexact = (error < 0) | (error > 0)
        wide = wide - (inexact & (np.signbit(error) != np.signbit(number)))
    return (wide >> np.uint64(32)).astype(np.uint32) | ((wide & np.uint64(0xFFFFFFFF)) != 0) | inexact


def _sum(a: Doubles, b: Doubles) -> Lanes:
    with np.errstate(invalid="ignore"):
        total = a + b
        other = total - a
        return _folded(total, (a - (total - other)) + (b - other))


# -- with it -----------------------------------------------------------------------------------------

#: Numbers that go through an operation together: few enough for the registers to hold all that it needs.
_PART = 8
_NUMBERS = ir.VectorType(ir.DoubleType(), _PART)
_LONGS = VectorType("numbers", ir.IntType(64), _PART)
_SHORT = VectorType("parts", ir.IntType(32), _PART)


def _operation(function: Any, operands: int) -> Callable[[F], F]:
    """Decorate what makes the instructions of an operation, of vectors of _PART binary64 numbers."""

    def register(make: F) -> F:
        def lower(builder: Any, *words: Any) -> Any:
            parts = []
            for start in range(0, LANES, _PART):
                places = ir.Constant(_SHORT.llvm, list(range(start, start + _PART)))
                taken = (builder.shuffle_vector(word, word, places) for word in words)
                singles = (builder.bitcast(part, ir.VectorType(ir.FloatType(), _PART)) for part in taken)
                parts.append(make(builder, *(builder.fpext(single, _NUMBERS) for single in singles)))
            return _joined(builder, parts)

        builtin(function, *[WORDS] * (operands + 1))(lower)
        return make

    return register


def _joined(builder: Any, parts: list[Any]) -> Any:
    while len(parts) > 1:
        count = 2 * parts[0].type.count
        places = ir.Constant(ir.VectorType(ir.IntType(32), count), list(range(count)))
        parts = [builder.shuffle_vector(*pair, places) for pair in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]


def _fold(builder: Any, number: Any, error: Any = None) -> Any:
    wide, lower = builder.bitcast(number, _LONGS.llvm), _LONGS.constant(0xFFFFFFFF)
    if error is not None:
        inexact = builder.fcmp_ordered("!=", error, ir.Constant(_NUMBERS, [0.0] * _PART))
        inexact = builder.sext(inexact, _LONGS.llvm)
        unlike = builder.lshr(builder.xor(wide, builder.bitcast(error, _LONGS.llvm)), _LONGS.constant(63))
        wide = builder.sub(wide, builder.and_(unlike, inexact))
        wide = builder.or_(wide, builder.lshr(inexact, _LONGS.constant(32)))
    wide = builder.or_(wide, builder.add(builder.and_(wide, lower), lower))  # carries into the upper half
    return builder.trunc(builder.lshr(wide, _LONGS.constant(32)), _SHORT.llvm)


def _add(builder: Any, a: Any, b: Any) -> Any:
    total = builder.fadd(a, b)
    other = builder.fsub(total, a)
    left, right = builder.fsub(a, builder.fsub(total, other)), builder.fsub(b, other)
    return _fold(builder, total, builder.fadd(left, right))


# -- functions ---------------------------------------------------------------------------------------


def summed(x: Lanes, y: Lanes) -> Lanes:
    """The sum x + y, where the processor rounds to nearest. What the sum was rounded by is a binary64 number."""
    return _sum(_doubles(x), _doubles(y))


_operation(summed, 2)(_add)


def multiplied(x: Lanes, y: Lanes) -> Lanes:
    """The product x * y: 48 bits, exact."""
    with np.errstate(invalid="ignore"):
        return _folded(_doubles(x) * _doubles(y))


_operation(multiplied, 2)(lambda builder, x, y: _fold(builder, builder.fmul(x, y)))


def fused(x: Lanes, y: Lanes, z: Lanes) -> Lanes:
    """The product and sum x * y + z, where the processor rounds to nearest."""
    with np.errstate(invalid="ignore"):
        return _sum(_doubles(x) * _doubles(y), _doubles(z))


_operation(fused, 3)(lambda builder, x, y, z: _add(builder, builder.fmul(x, y), z))


def divided(x: Lanes, y: Lanes) -> Lanes:
    """The quotient x / y, however the processor rounds: what no number of 51 bits is stays apart from all of them."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return _folded(_doubles(x) / _doubles(y))


_operation(divided, 2)(lambda builder, x, y: _fold(builder, builder.fdiv(x, y)))


def rooted(x: Lanes) -> Lanes:
    """The square root of x, however the processor rounds: one of 24 bits has at most 12, or no end."""
    with np.errstate(invalid="ignore"):
        return _folded(np.sqrt(_doubles(x)))


@_operation(rooted, 1)
def _rooted(builder: Any, x: Any) -> Any:
    name, kind = f"llvm.sqrt.v{_PART}f64", ir.FunctionType(_NUMBERS, [_NUMBERS])
    root = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
    return _fold(builder, builder.call(root, [x]))


# -- numbers that scales are made of -----------------------------------------------------------------


def load_wide(array: npt.NDArray[np.uint64], start: int) -> Wides:
    """LANES elements of 64 bits, from index `start` on; nothing checks the bounds."""
    return array[start : start + LANES].copy()


@memory(load_wide, _WIDES)
def _load_wide(builder: Any, pointer: Any, element: Any) -> Any:
    loaded = builder.load(builder.bitcast(pointer, _WIDES.llvm.as_pointer()))
    loaded.align = 8
    return loaded


def fill_wide(number: np.uint64) -> Wides:
    """The same number in every lane."""
    return np.full(LANES, number, np.uint64)


builtin(fill_wide, _WIDES, _WIDES)(lambda builder, number: number)


def quotients(single: Lanes, double: Wides) -> Lanes:
    """Normal binary32 numbers over binary64 ones, both positive, as `divided` gives them."""
    over = (single.astype(np.uint64) << np.uint64(29)) + np.uint64(896 << 52)
    return _folded(over.view(np.float64) / double.view(np.float64))


@builtin(quotients, WORDS, WORDS, _WIDES)
def _quotients(builder: Any, single: Any, double: Any) -> Any:
    parts = []
    for start in range(0, LANES, _PART):
        places = ir.Constant(_SHORT.llvm, list(range(start, start + _PART)))
        wide = builder.zext(builder.shuffle_vector(single, single, places), _LONGS.llvm)
        over = builder.add(builder.shl(wide, _LONGS.constant(29)), _LONGS.constant(896 << 52))
        by = builder.shuffle_vector(double, double, places)
        parts.append(_fold(builder, builder.fdiv(builder.bitcast(over, _NUMBERS), builder.bitcast(by, _NUMBERS))))
    return _joined(builder, parts)


# -- sums of units ------------------------------------------------------------------------------------


def _sums(first: Lanes, second: Lanes, third: Lanes, field: Lanes) -> Doubles:
    total = sum(part.view(np.int32).astype(np.float64) for part in (first, second, third))
    return np.asarray(total * (field.astype(np.uint64) << np.uint64(52)).view(np.float64))


def _cut(number: Doubles, lost: int, odd: bool) -> Lanes:
    wide, rest = number.view(np.uint64), np.uint64((1 << lost) - 1)
    sticky = ((wide & rest) != 0) & odd
    kept = wide & ~rest | sticky.astype(np.uint64) << np.uint64(lost)
    with np.errstate(over="ignore", under="ignore"):
        return kept.view(np.float64).astype(np.float32).view(np.uint32)


def cut_sum(first: Lanes, second: Lanes, third: Lanes, field: Lanes) -> Lanes:
    """The sum of three signed integers times a power of two, given by its exponent field, cut to 24 bits."""
    return _cut(_sums(first, second, third, field), 29, False)


def cut_short_sum(first: Lanes, second: Lanes, third: Lanes, field: Lanes) -> Lanes:
    """The same, cut to 14 bits."""
    return _cut(_sums(first, second, third, field), 39, False)


def odd_sum(first: Lanes, second: Lanes, third: Lanes, field: Lanes) -> Lanes:
    """The same, rounded to odd at 24 bits."""
    return _cut(_sums(first, second, third, field), 29, True)


def _lower_sum(lost: int, odd: bool) -> Callable[..., Any]:
    def lower(builder: Any, *words: Any) -> Any:
        parts = []
        for start in range(0, LANES, _PART):
            places = ir.Constant(_SHORT.llvm, list(range(start, start + _PART)))
            *whole, field = (builder.shuffle_vector(word, word, places) for word in words)
            first, second, third = (builder.sitofp(part, _NUMBERS) for part in whole)
            total = builder.fadd(builder.fadd(first, second), third)
            power = builder.shl(builder.zext(field, _LONGS.llvm), _LONGS.constant(52))
            wide = builder.bitcast(builder.fmul(total, builder.bitcast(power, _NUMBERS)), _LONGS.llvm)
            rest = _LONGS.constant((1 << lost) - 1)
            kept = builder.and_(wide, _LONGS.constant(-1 << lost & 0xFFFFFFFFFFFFFFFF))
            if odd:
                inexact = builder.icmp_unsigned("!=", builder.and_(wide, rest), _LONGS.constant(0))
                kept = builder.or_(kept, builder.shl(builder.zext(inexact, _LONGS.llvm), _LONGS.constant(lost)))
            single = builder.fptrunc(builder.bitcast(kept, _NUMBERS), ir.VectorType(ir.FloatType(), _PART))
            parts.append(builder.bitcast(single, _SHORT.llvm))
        return _joined(builder, parts)

    return lower


builtin(cut_sum, *[WORDS] * 5)(_lower_sum(29, odd=False))
builtin(cut_short_sum, *[WORDS] * 5)(_lower_sum(39, odd=False))
builtin(odd_sum, *[WORDS] * 5)(_lower_sum(29, odd=True))


def joined_sum(total: Lanes, first: Lanes, second: Lanes, field: Lanes, lost: Lanes) -> Lanes:
    """A binary32 number and a sum of two integers times a power of two, which is rounded to 53 - `lost` bits first."""
    part = _sums(first, second, np.zeros_like(first), field).view(np.uint64)
    lost = lost.astype(np.uint64)
    unit = np.uint64(1) << lost
    part = ((part + (unit >> np.uint64(1)) - np.uint64(1) + ((part >> lost) & np.uint64(1))) & (0 - unit)).view(
        np.float64
    )
    with np.errstate(invalid="ignore", over="ignore"):
        number = _doubles(total)
        whole = number + part
        other = whole - number
        error = (number - (whole - other)) + (part - other)
        inexact = (error < 0) | (error > 0)
        wide = whole.view(np.uint64) - (inexact & (np.signbit(error) != np.signbit(whole)))
        return (wide | inexact).view(np.float64).astype(np.float32).view(np.uint32)


@builtin(joined_sum, *[WORDS] * 6)
def _joined_sum(builder: Any, *words: Any) -> Any:
    parts = []
    for start in range(0, LANES, _PART):
        places = ir.Constant(_SHORT.llvm, list(range(start, start + _PART)))
        total, first, second, field, lost = (builder.shuffle_vector(word, word, places) for word in words)
        units = builder.fadd(builder.sitofp(first, _NUMBERS), builder.sitofp(second, _NUMBERS))
        power = builder.shl(builder.zext(field, _LONGS.llvm), _LONGS.constant(52))
        wide = builder.bitcast(builder.fmul(units, builder.bitcast(power, _NUMBERS)), _LONGS.llvm)
        lost, one = builder.zext(lost, _LONGS.llvm), _LONGS.constant(1)
        unit = builder.shl(one, lost)
        up = builder.add(builder.sub(builder.lshr(unit, one), one), builder.and_(builder.lshr(wide, lost), one))
        part = builder.bitcast(builder.and_(builder.add(wide, up), builder.sub(_LONGS.constant(0), unit)), _NUMBERS)
        number = builder.fpext(builder.bitcast(total, ir.VectorType(ir.FloatType(), _PART)), _NUMBERS)
        whole = builder.fadd(number, part)
        other = builder.fsub(whole, number)
        error = builder.fadd(builder.fsub(number, builder.fsub(whole, other)), builder.fsub(part, other))
        inexact = builder.zext(builder.fcmp_ordered("!=", error, ir.Constant(_NUMBERS, [0.0] * _PART)), _LONGS.llvm)
        wide, rest = builder.bitcast(whole, _LONGS.llvm), builder.bitcast(error, _LONGS.llvm)
        unlike = builder.lshr(builder.xor(wide, rest), _LONGS.constant(63))
        odd = builder.or_(builder.sub(wide, builder.and_(unlike, inexact)), inexact)
        single = builder.fptrunc(builder.bitcast(odd, _NUMBERS), ir.VectorType(ir.FloatType(), _PART))
        parts.append(builder.bitcast(single, _SHORT.llvm))
    return _joined(builder, parts)
