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

from lowprec.kernels.jit import inlined, jit
from lowprec.kernels.vector.ir.lanes import (
    LANES,
    MASK,
    SINGLES,
    WIDES,
    WORDS,
    Codes,
    Lanes,
    Mask,
    Singles,
    Wides,
    as_singles,
    load,
    load_lowered,
)
from lowprec.kernels.vector.ir.language import VectorType, builtin, ir, memory

__all__ = [
    "added_exact",
    "added_once",
    "by_random",
    "cut_down",
    "cut_short_sum",
    "cut_sum",
    "cut_to_odd",
    "cut_to_zero",
    "drawn_farther",
    "fma_to_odd",
    "joined_sum",
    "load_nearest",
    "load_odd",
    "loses_bits",
    "made_odd",
    "narrowed_to_half",
    "nearest_single",
    "nearest_singles",
    "odd_sum",
    "product_to_odd",
    "quotient_to_odd",
    "quotients",
    "root_to_odd",
    "sum_to_odd",
    "summed_to_odd",
    "three_to_odd",
    "truncated",
    "with_error",
]

Doubles = npt.NDArray[np.float64]
Patterns = npt.NDArray[np.uint64]  #: of binary64 numbers
F = TypeVar("F", bound=Callable[..., Any])

_LOW = np.uint64(0xFFFFFFFF)

#: The largest binary64 number.
_LARGEST = sys.float_info.max

# -- in NumPy ----------------------------------------------------------------------------------------


def _widened(word: Lanes) -> Doubles:
    return word.view(np.float32).astype(np.float64)


def _folded(pattern: Patterns) -> Lanes:
    """The upper halves of patterns, rounded to odd."""
    return (pattern >> np.uint64(32)).astype(np.uint32) | ((pattern & _LOW) != 0)


def _narrowed(pattern: Patterns) -> Lanes:
    """The patterns of binary32 numbers that binary64 numbers are rounded to."""
    with np.errstate(over="ignore", under="ignore"):
        return pattern.view(np.float64).astype(np.float32).view(np.uint32)


def _odd(number: Doubles, error: Doubles) -> Patterns:
    """The pattern of a number that was rounded by `error`: the odd one of two neighbours."""
    inexact = (error < 0) | (error > 0)
    return (number.view(np.uint64) - (inexact & (np.signbit(error) != np.signbit(number)))) | inexact


def _sum(a: Doubles, b: Doubles) -> Patterns:
    with np.errstate(invalid="ignore", over="ignore"):
        total = a + b
        other = total - a
        return _odd(total, (a - (total - other)) + (b - other))


def _units(first: Lanes, second: Lanes, third: Lanes, field: Lanes) -> Patterns:
    """The sum of signed integers times the power of two of an exponent field: exact."""
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
    """The sum x + y, if the processor rounds to nearest. Its rounding error is a binary64 number."""
    return _folded(_sum(_widened(x), _widened(y)))


@_in_parts(sum_to_odd, WORDS, WORDS)
def _sum_to_odd(builder: Any, x: Any, y: Any) -> Any:
    return _fold(builder, _add(builder, _widen(builder, x), _widen(builder, y)))


def product_to_odd(x: Lanes, y: Lanes) -> Lanes:
    """The product x * y: 48 bits, exact."""
    with np.errstate(invalid="ignore"):
        return _folded((_widened(x) * _widened(y)).view(np.uint64))


@_in_parts(product_to_odd, WORDS, WORDS)
def _product_to_odd(builder: Any, x: Any, y: Any) -> Any:
    return _fold_number(builder, builder.fmul(_widen(builder, x), _widen(builder, y)))


def fma_to_odd(x: Lanes, y: Lanes, z: Lanes) -> Lanes:
    """The product and sum x * y + z, where the processor rounds to nearest."""
    with np.errstate(invalid="ignore"):
        return _folded(_sum(_widened(x) * _widened(y), _widened(z)))


@_in_parts(fma_to_odd, WORDS, WORDS, WORDS)
def _fma_to_odd(builder: Any, x: Any, y: Any, z: Any) -> Any:
    return _fold(
        builder, _add(builder, builder.fmul(_widen(builder, x), _widen(builder, y)), _widen(builder, z))
    )


def quotient_to_odd(x: Lanes, y: Lanes) -> Lanes:
    """The quotient x / y in any mode: one that is no 51-bit number stays apart from all such numbers."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return _folded((_widened(x) / _widened(y)).view(np.uint64))


@_in_parts(quotient_to_odd, WORDS, WORDS)
def _quotient_to_odd(builder: Any, x: Any, y: Any) -> Any:
    return _fold_number(builder, builder.fdiv(_widen(builder, x), _widen(builder, y)))


def root_to_odd(x: Lanes) -> Lanes:
    """The square root of x, however the processor rounds: one of 24 bits has at most 12, or no end."""
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
    """As `load`, and of elements of 64 bits the upper halves, rounded to odd."""
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


def load_nearest(array: Codes, start: int) -> Lanes:
    """As `load`, and of elements of 64 bits the patterns of the binary32 numbers next to them."""
    if array.itemsize < 8:
        return load(array, start)
    return _narrowed(array[start : start + LANES].view(np.uint64))


@memory(load_nearest, WORDS)
def _load_nearest(builder: Any, pointer: Any, element: Any) -> Any:
    if element.width < 64:
        return load_lowered(builder, pointer, element)
    return builder.bitcast(_singles(builder, pointer)[1], WORDS.llvm)


def loses_bits(array: Codes, start: int) -> Mask:
    """Where `load_nearest` gives another number or NaN than the element."""
    if array.itemsize < 8:
        return np.zeros(LANES, np.bool_)
    part = array[start : start + LANES].view(np.uint64)
    return np.asarray(_widened(_narrowed(part)).view(np.uint64) != part)


@memory(loses_bits, MASK)
def _loses_bits(builder: Any, pointer: Any, element: Any) -> Any:
    if element.width < 64:
        return MASK.constant(0)
    numbers, narrow = _singles(builder, pointer)
    back = builder.bitcast(builder.fpext(narrow, numbers.type), WIDES.llvm)
    return builder.icmp_unsigned("!=", back, builder.bitcast(numbers, WIDES.llvm))


def _singles(builder: Any, pointer: Any) -> tuple[Any, Any]:
    """LANES binary64 numbers of memory, and what binary32 makes of them; LLVM does twice the same once."""
    kind = ir.VectorType(ir.DoubleType(), LANES)
    loaded = builder.load(builder.bitcast(pointer, kind.as_pointer()))
    loaded.align = 1
    return loaded, builder.fptrunc(loaded, SINGLES.llvm)


# -- sums of units as binary32 numbers ----------------------------------------------------------------


def cut_sum(first: Lanes, second: Lanes, third: Lanes, field: Lanes) -> Lanes:
    """The sum of three signed integers times a power of two, given by its exponent field, cut to 24 bits."""
    return _narrowed(_units(first, second, third, field) & np.uint64(-1 << 29 & _ONES))


def cut_short_sum(first: Lanes, second: Lanes, third: Lanes, field: Lanes) -> Lanes:
    """The same, cut to 14 bits."""
    return _narrowed(_units(first, second, third, field) & np.uint64(-1 << 39 & _ONES))


def odd_sum(first: Lanes, second: Lanes, third: Lanes, field: Lanes) -> Lanes:
    """The same, rounded to odd at 24 bits."""
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
    """A binary32 number plus a sum of two scaled integers, which is first rounded to 53 - `lost` bits."""
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
    """The patterns of binary32 numbers rounded to 16 bits by the processor, in its own rounding mode."""
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


# -- single numbers: loops over them become vectors --------------------------------------------------


@inlined
def with_error(x: np.float64, y: np.float64) -> tuple[np.float64, np.float64]:
    """The sum of two numbers, and what it was rounded by. Source: [KNUTH]."""
    total = x + y
    part = total - x
    return total, (x - (total - part)) + (y - part)


@inlined
def nearest_single(x: np.float64) -> np.float64:
    """The nearest binary32 number."""
    return np.float64(np.float32(x))


@jit
def nearest_singles(x: Doubles, out: npt.NDArray[Any]) -> None:
    """Write the binary32 numbers nearest to binary64 ones, as the processor rounds; NaNs are quiet."""
    for i in range(out.size):
        out[i] = np.copysign(np.nan, x[i]) if x[i] != x[i] else np.float32(x[i])


@inlined
def cut_to_zero(x: np.float64) -> np.float64:
    """An integer, toward zero."""
    return np.float64(np.trunc(x))


@inlined
def cut_down(x: np.float64) -> np.float64:
    """An integer, down."""
    return np.float64(np.floor(x))


@inlined
def cut_to_odd(x: np.float64) -> np.float64:
    """An integer, or the odd one of two next to each other."""
    even = np.trunc(x * 0.5) * 2.0  # the even integer next to it, toward zero
    return np.float64(even if even == x else even + np.copysign(1.0, x))


@inlined
def made_odd(total: np.float64, error: np.float64) -> np.float64:
    """A number that was rounded to nearest, by an error of this sign: the odd one of two neighbours."""
    inexact = (error < 0.0) | (error > 0.0)
    word = np.float64(total).view(np.uint64) - np.uint64(inexact & ((error < 0.0) != (total < 0.0)))
    return np.uint64(word | np.uint64(inexact)).view(np.float64)


@inlined
def summed_to_odd(x: np.float64, y: np.float64) -> np.float64:
    """The sum of two numbers, rounded to odd. Source: [BOLDO]."""
    total, error = with_error(x, y)
    return made_odd(total, error)


@inlined
def by_random(
    x: np.float64, random: np.uint32, bits: int, between: bool, trailing: int, emin: int
) -> np.float64:
    """The number of a format below or above x, in magnitude, by a random integer of so many bits.

    The format has these trailing bits and smallest exponent, and no largest number. Up where the tail, cut
    to as many bits, and the random integer make one; `between` takes a number halfway to the next integer.
    """
    field = np.int64(np.float64(x).view(np.uint64) >> np.uint64(52)) & np.int64(0x7FF)
    last = max(field - np.int64(1023), np.int64(emin)) - np.int64(trailing)
    places = np.int64(bits) + np.int64(between)
    unit = np.uint64((last + np.int64(1023)) << np.int64(52)).view(np.float64)
    parts = np.uint64((places - last + np.int64(1023)) << np.int64(52)).view(np.float64)
    whole = np.uint64((np.int64(1023) - places) << np.int64(52)).view(np.float64)
    added = np.float64(random) * (2.0 if between else 1.0) + (1.0 if between else 0.0)
    size = np.floor((np.floor(abs(x) * parts) + added) * whole) * unit
    size = min(size, _LARGEST)  # what was finite stays it
    return x if field == np.int64(0x7FF) else np.copysign(size, x)


@inlined
def drawn_farther(
    size: np.float64, low: np.float64, gap: np.float64, random: np.uint32, whole: float, variant: int
) -> bool:
    """Whether a random integer below `whole` takes a number to the next value, by its place in the gap.

    Up where the place, cut to a multiple of 1 / `whole`, and random / `whole` make one; variant 1 adds half a
    unit to the random integer, and variant 2 rounds the place to nearest even instead. No gap: never.
    """
    rest = summed_to_odd(size, -low) * (2.0 * whole)
    missing = np.float64(whole) - np.float64(random)
    limit = (2.0 * missing - (0.0 if variant == 0 else 1.0)) * gap
    half = missing * 0.5
    tied = (variant != 2) | (np.floor(half) == half)
    return bool((gap != 0.0) & ((rest > limit) | ((rest == limit) & tied)))


@inlined
def three_to_odd(x: np.float64, y: np.float64, z: np.float64) -> tuple[np.float64, np.float64]:
    """Two numbers, far apart, whose sum and that of three numbers are rounded alike. Source: [BOLDO]."""
    high, low = with_error(y, z)
    total, error = with_error(x, high)
    rest = summed_to_odd(error, low)
    return total, rest if abs(total) < np.inf else np.float64(0.0)


@inlined
def added_exact(total: np.float32, term: np.float64) -> np.float32:
    """The sum of two numbers, rounded to binary32 once; what is not finite is of no use."""
    return np.float32(summed_to_odd(np.float64(total), term))


@inlined
def added_once(total: np.float32, term: np.float64, rest: np.float64) -> np.float32:
    """The sum of three numbers, rounded to binary32 once; what is not finite is of no use.

    The binary64 sum is rounded twice where it lies on a tie between two binary32 numbers, and `error` says
    that the exact sum does not: then the neighbour on the other side is right, if `error` points there.
    """
    both, error = with_error(np.float64(total), term)
    error, below = with_error(error, rest)
    both, error = with_error(both, error)
    error = error if error != 0.0 else below
    near = np.float32(both)
    half = both - np.float64(near)
    other = np.float64(near) + (half + half)
    beyond = error * half > 0.0 and np.float64(np.float32(other)) == other
    return np.float32(other) if beyond else near
