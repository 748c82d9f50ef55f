"""Primitives that round, each as LLVM instructions and in NumPy: only `vector.rounding` imports them.

Binary32 operands are widened to binary64 for one operation, whose result goes back as a word: the upper
half of a binary64 pattern, rounded to odd, which rounds to at most 18 bits as the exact number does.
Nothing here is subnormal in binary64, and nothing overflows. Beside them stand the processor's own
conversions to narrower numbers.

Floor 2b. Source: [BOLDO] for rounding to odd, [KNUTH] for the sum, [LLVM] for the instructions.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from lowprec.kernels.vector.ir.lanes import (
    LANES,
    SINGLES,
    WIDES,
    WORDS,
    Codes,
    Lanes,
    Singles,
    Wides,
    as_singles,
    load,
    load_lowered,
)
from lowprec.kernels.vector.ir.language import VectorType, builtin, ir, memory

__all__ = [
    "cut_short_sum",
    "cut_sum",
    "fma_to_odd",
    "joined_sum",
    "load_odd",
    "narrowed_to_half",
    "odd_sum",
    "product_to_odd",
    "quotient_to_odd",
    "quotients",
    "root_to_odd",
    "sum_to_odd",
    "truncated",
]

Doubles = npt.NDArray[np.float64]
Patterns = npt.NDArray[np.uint64]  #: of binary64 numbers
F = TypeVar("F", bound=Callable[..., Any])

_LOW = np.uint64(0xFFFFFFFF)

# -- in NumPy ----------------------------------------------------------------------------------------


def _widened(word: Lanes) -> Doubles:
    return word.view(np.float32).astype(np.float64)


def _folded(pattern: Patterns) -> Lanes:
    """Return the upper halves of patterns, rounded to odd."""
    return (pattern >> np.uint64(32)).astype(np.uint32) | ((pattern & _LOW) != 0)


def _narrowed(pattern: Patterns) -> Lanes:
    """Return the patterns of binary32 numbers that binary64 numbers are rounded to."""
    with np.errstate(over="ignore", under="ignore"):
        return pattern.view(np.float64).astype(np.float32).view(np.uint32)


def _odd(number: Doubles, error: Doubles) -> Patterns:
    """Return the pattern of a number that was rounded by `error`: the odd one of two neighbours."""
    inexact = (error < 0) | (error > 0)
    return (number.view(np.uint64) - (inexact & (np.signbit(error) != np.signbit(number)))) | inexact


def _sum(a: Doubles, b: Doubles) -> Patterns:
    with np.errstate(invalid="ignore", over="ignore"):
        total = a + b
        other = total - a
        return _odd(total, (a - (total - other)) + (b - other))


def _units(first: Lanes, second: Lanes, third: Lanes, field: Lanes) -> Patterns:
    """Return the sum of signed integers times the power of two of an exponent field: exact."""
    total = sum(part.view(np.int32).astype(np.float64) for part in (first, second, third))
    return np.asarray(total * (field.astype(np.uint64) << np.uint64(52)).view(np.float64)).view(np.uint64)


# -- in LLVM -----------------------------------------------------------------------------------------

#: Numbers that go through an operation together: few enough for the registers to hold all that it needs.
_PART = 8
_NUMBERS = ir.VectorType(ir.DoubleType(), _PART)
_NARROW = ir.VectorType(ir.FloatType(), _PART)
_LONGS = VectorType("numbers", ir.IntType(64), _PART)
_SHORT = VectorType("parts", ir.IntType(32), _PART)
_ZEROS = ir.Constant(_NUMBERS, [0.0] * _PART)


def _in_parts(function: Any, *kinds: VectorType) -> Callable[[F], F]:
    """Decorate a function that emits instructions for _PART lanes at a time: (builder, *parts) -> words."""

    def register(make: F) -> F:
        def lower(builder: Any, *vectors: Any) -> Any:
            parts = []
            for start in range(0, LANES, _PART):
                places = ir.Constant(_SHORT.llvm, list(range(start, start + _PART)))
                parts.append(
                    make(builder, *(builder.shuffle_vector(whole, whole, places) for whole in vectors))
                )
            while len(parts) > 1:
                count = 2 * parts[0].type.count
                places = ir.Constant(ir.VectorType(ir.IntType(32), count), list(range(count)))
                parts = [
                    builder.shuffle_vector(*pair, places)
                    for pair in zip(parts[::2], parts[1::2], strict=True)
                ]
            return parts[0]

        builtin(function, WORDS, *kinds)(lower)
        return make

    return register


def _widen(builder: Any, word: Any) -> Any:
    return builder.fpext(builder.bitcast(word, _NARROW), _NUMBERS)


def _fold(builder: Any, pattern: Any) -> Any:
    low = _LONGS.constant(0xFFFFFFFF)
    # Adding `low` carries into the upper half.
    pattern = builder.or_(pattern, builder.add(builder.and_(pattern, low), low))
    return builder.trunc(builder.lshr(pattern, _LONGS.constant(32)), _SHORT.llvm)


def _fold_number(builder: Any, number: Any) -> Any:
    return _fold(builder, builder.bitcast(number, _LONGS.llvm))


def _narrow(builder: Any, pattern: Any) -> Any:
    return builder.bitcast(builder.fptrunc(builder.bitcast(pattern, _NUMBERS), _NARROW), _SHORT.llvm)


def _make_odd(builder: Any, number: Any, error: Any) -> Any:
    pattern, rest = builder.bitcast(number, _LONGS.llvm), builder.bitcast(error, _LONGS.llvm)
    inexact = builder.zext(builder.fcmp_ordered("!=", error, _ZEROS), _LONGS.llvm)
    unlike = builder.lshr(builder.xor(pattern, rest), _LONGS.constant(63))
    return builder.or_(builder.sub(pattern, builder.and_(unlike, inexact)), inexact)


def _add(builder: Any, a: Any, b: Any) -> Any:
    total = builder.fadd(a, b)
    other = builder.fsub(total, a)
    left, right = builder.fsub(a, builder.fsub(total, other)), builder.fsub(b, other)
    return _make_odd(builder, total, builder.fadd(left, right))


def _add_units(builder: Any, *parts: Any) -> Any:
    *integers, field = parts
    first, *others = (builder.sitofp(part, _NUMBERS) for part in integers)
    for other in others:
        first = builder.fadd(first, other)
    power = builder.shl(builder.zext(field, _LONGS.llvm), _LONGS.constant(52))
    return builder.bitcast(builder.fmul(first, builder.bitcast(power, _NUMBERS)), _LONGS.llvm)


# -- results as upper halves of binary64 numbers, rounded to odd -------------------------------------


def sum_to_odd(x: Lanes, y: Lanes) -> Lanes:
    """Return the sum x + y, if the processor rounds to nearest. Its rounding error is a binary64 number."""
    return _folded(_sum(_widened(x), _widened(y)))


@_in_parts(sum_to_odd, WORDS, WORDS)
def _sum_to_odd(builder: Any, x: Any, y: Any) -> Any:
    return _fold(builder, _add(builder, _widen(builder, x), _widen(builder, y)))


def product_to_odd(x: Lanes, y: Lanes) -> Lanes:
    """Return the product x * y: 48 bits, exact."""
    with np.errstate(invalid="ignore"):
        return _folded((_widened(x) * _widened(y)).view(np.uint64))


@_in_parts(product_to_odd, WORDS, WORDS)
def _product_to_odd(builder: Any, x: Any, y: Any) -> Any:
    return _fold_number(builder, builder.fmul(_widen(builder, x), _widen(builder, y)))


def fma_to_odd(x: Lanes, y: Lanes, z: Lanes) -> Lanes:
    """Return the product and sum x * y + z, where the processor rounds to nearest."""
    with np.errstate(invalid="ignore"):
        return _folded(_sum(_widened(x) * _widened(y), _widened(z)))


@_in_parts(fma_to_odd, WORDS, WORDS, WORDS)
def _fma_to_odd(builder: Any, x: Any, y: Any, z: Any) -> Any:
    return _fold(
        builder, _add(builder, builder.fmul(_widen(builder, x), _widen(builder, y)), _widen(builder, z))
    )


def quotient_to_odd(x: Lanes, y: Lanes) -> Lanes:
    """Return the quotient x / y in any mode; unless it has 51 bits, it differs from all numbers that do."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return _folded((_widened(x) / _widened(y)).view(np.uint64))


@_in_parts(quotient_to_odd, WORDS, WORDS)
def _quotient_to_odd(builder: Any, x: Any, y: Any) -> Any:
    return _fold_number(builder, builder.fdiv(_widen(builder, x), _widen(builder, y)))


def root_to_odd(x: Lanes) -> Lanes:
    """Return the square root of x, however the processor rounds: one of 24 bits has at most 12, or no end."""
    with np.errstate(invalid="ignore"):
        return _folded(np.sqrt(_widened(x)).view(np.uint64))


@_in_parts(root_to_odd, WORDS)
def _root_to_odd(builder: Any, x: Any) -> Any:
    name, kind = f"llvm.sqrt.v{_PART}f64", ir.FunctionType(_NUMBERS, [_NUMBERS])
    root = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
    return _fold_number(builder, builder.call(root, [_widen(builder, x)]))


def quotients(single: Lanes, double: Wides) -> Lanes:
    """Normal binary32 numbers over binary64 ones, both positive, as `quotient_to_odd` gives them."""
    over = (single.astype(np.uint64) << np.uint64(29)) + np.uint64(896 << 52)
    return _folded((over.view(np.float64) / double.view(np.float64)).view(np.uint64))


@_in_parts(quotients, WORDS, WIDES)
def _quotients(builder: Any, single: Any, double: Any) -> Any:
    wide = builder.zext(single, _LONGS.llvm)
    over = builder.add(builder.shl(wide, _LONGS.constant(29)), _LONGS.constant(896 << 52))
    return _fold_number(
        builder, builder.fdiv(builder.bitcast(over, _NUMBERS), builder.bitcast(double, _NUMBERS))
    )


def load_odd(array: Codes, start: int) -> Lanes:
    """Load elements as `load`; of those of 64 bits the upper halves, rounded to odd."""
    if array.itemsize < 8:
        return load(array, start)
    return _folded(array[start : start + LANES].view(np.uint64))


@memory(load_odd, WORDS)
def _load_odd(builder: Any, pointer: Any, element: Any) -> Any:
    if element.width < 64:
        return load_lowered(builder, pointer, element)
    halves = ir.VectorType(ir.IntType(32), 2 * LANES)
    loaded = builder.load(builder.bitcast(pointer, halves.as_pointer()))
    loaded.align = 1
    # Shuffled, not shifted and cut: half of the instructions.
    upper, lower = (
        builder.shuffle_vector(loaded, loaded, ir.Constant(WORDS.llvm, list(range(first, 2 * LANES, 2))))
        for first in ((1, 0) if sys.byteorder == "little" else (0, 1))
    )
    below = builder.icmp_unsigned("!=", lower, WORDS.constant(0))
    return builder.or_(upper, builder.zext(below, WORDS.llvm))


# -- sums of units as binary32 numbers ----------------------------------------------------------------


def cut_sum(first: Lanes, second: Lanes, third: Lanes, field: Lanes) -> Lanes:
    """Return three signed integers' sum times a power of two, given by its exponent field, cut to 24 bits."""
    return _narrowed(_units(first, second, third, field) & np.uint64(-1 << 29 & _ONES))


def cut_short_sum(first: Lanes, second: Lanes, third: Lanes, field: Lanes) -> Lanes:
    """Return the sum of `cut_sum`, cut to 14 bits."""
    return _narrowed(_units(first, second, third, field) & np.uint64(-1 << 39 & _ONES))


def odd_sum(first: Lanes, second: Lanes, third: Lanes, field: Lanes) -> Lanes:
    """Return the sum of `cut_sum`, rounded to odd at 24 bits."""
    pattern, lost = _units(first, second, third, field), np.uint64(29)
    inexact = (pattern & np.uint64((1 << 29) - 1)) != 0
    return _narrowed((pattern >> lost | inexact) << lost)


_ONES = (1 << 64) - 1

for _function, _lost in ((cut_sum, 29), (cut_short_sum, 39)):

    @_in_parts(_function, WORDS, WORDS, WORDS, WORDS)
    def _cut(builder: Any, *parts: Any, lost: int = _lost) -> Any:
        return _narrow(
            builder, builder.and_(_add_units(builder, *parts), _LONGS.constant(-1 << lost & _ONES))
        )


@_in_parts(odd_sum, WORDS, WORDS, WORDS, WORDS)
def _odd_sum(builder: Any, *parts: Any) -> Any:
    pattern, lost = _add_units(builder, *parts), _LONGS.constant(29)
    rest = builder.and_(pattern, _LONGS.constant((1 << 29) - 1))
    inexact = builder.zext(builder.icmp_unsigned("!=", rest, _LONGS.constant(0)), _LONGS.llvm)
    kept = builder.and_(pattern, _LONGS.constant(-1 << 29 & _ONES))
    return _narrow(builder, builder.or_(kept, builder.shl(inexact, lost)))


def joined_sum(total: Lanes, first: Lanes, second: Lanes, field: Lanes, lost: Lanes) -> Lanes:
    """Return a binary32 number plus a sum of two scaled integers, first rounded to 53 - `lost` bits."""
    pattern, lost = _units(first, second, np.zeros_like(first), field), lost.astype(np.uint64)
    one = np.uint64(1)
    unit = one << lost
    up = (unit >> one) - one + ((pattern >> lost) & one)
    return _narrowed(_sum(_widened(total), ((pattern + up) & (0 - unit)).view(np.float64)))


@_in_parts(joined_sum, WORDS, WORDS, WORDS, WORDS, WORDS)
def _joined_sum(builder: Any, total: Any, first: Any, second: Any, field: Any, lost: Any) -> Any:
    pattern = _add_units(builder, first, second, field)
    lost, one = builder.zext(lost, _LONGS.llvm), _LONGS.constant(1)
    unit = builder.shl(one, lost)
    up = builder.add(
        builder.sub(builder.lshr(unit, one), one), builder.and_(builder.lshr(pattern, lost), one)
    )
    part = builder.and_(builder.add(pattern, up), builder.sub(_LONGS.constant(0), unit))
    return _narrow(builder, _add(builder, _widen(builder, total), builder.bitcast(part, _NUMBERS)))


# -- the processor's conversions ----------------------------------------------------------------------


def narrowed_to_half(word: Lanes) -> Lanes:
    """Return patterns of binary32 numbers rounded to 16 bits by the processor, in its own rounding mode."""
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        return as_singles(word).astype(np.float16).view(np.uint16).astype(np.uint32)


@builtin(narrowed_to_half, WORDS, WORDS)
def _narrowed_to_half(builder: Any, word: Any) -> Any:
    half = builder.fptrunc(builder.bitcast(word, SINGLES.llvm), ir.VectorType(ir.HalfType(), LANES))
    return builder.zext(builder.bitcast(half, ir.VectorType(ir.IntType(16), LANES)), WORDS.llvm)


def truncated(single: Singles) -> Lanes:
    """Binary32 numbers below 2**31 as signed integers, toward zero; of others anything."""
    with np.errstate(invalid="ignore"):
        return np.trunc(single).astype(np.int64).astype(np.uint32)


builtin(truncated, WORDS, SINGLES)(lambda builder, single: builder.fptosi(single, WORDS.llvm))
