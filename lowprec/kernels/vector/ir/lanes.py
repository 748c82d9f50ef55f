"""Vectors of words for kernels: many elements in one step, with the same results on every machine.

numba widens 32-bit arithmetic to 64 bits, and whether LLVM then turns a loop into vector
instructions depends on all that is in it (docs/decisions/0007). So kernels name their vectors: a
`Lanes` is LANES words that one operator changes together, and LLVM cuts it into what the processor
has. Shifts, sums and products wrap as unsigned words do; nothing is ever widened.

Without the compiler a `Lanes` is a NumPy array and everything here is NumPy.

Floor 2b. Source: LLVM Language Reference [LLVM], vector types.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.kernels.vector.ir.language import (
    VectorType,
    boolean,
    builtin,
    from_stack,
    ir,
    memory,
    nothing,
    on_stack,
    section,
    word as number,
)

__all__ = [
    "LANES",
    "MASK",
    "SINGLES",
    "WIDES",
    "WORDS",
    "Lanes",
    "Mask",
    "Singles",
    "Wides",
    "Word",
    "all_lanes",
    "any_lane",
    "as_singles",
    "as_unsigned",
    "as_words",
    "between",
    "choose",
    "equal",
    "fetch",
    "fill",
    "fill_wide",
    "first_lane",
    "fused",
    "greater",
    "greatest",
    "greatest_of_16",
    "halves",
    "lesser",
    "less",
    "load",
    "load_lowered",
    "load_wide",
    "negative",
    "not_a_number",
    "one_where",
    "padded",
    "places",
    "put_rest",
    "rare_nan",
    "settle",
    "square_root",
    "store",
    "store_past",
    "widened_from_half",
]

#: Words in a vector: those of several instructions, which run at the same time.
LANES = 32

Lanes = npt.NDArray[Any]  #: of uint32
Wides = npt.NDArray[Any]  #: of uint64, LANES of them
Singles = npt.NDArray[np.float32]
Mask = npt.NDArray[np.bool_]
Codes = npt.NDArray[Any]  #: of unsigned integers or floats, which stand for their bits
Word = Any  #: Lanes, or one number for all of them

_WORD = ir.IntType(32)
WORDS = _WORDS = VectorType("words", _WORD, LANES)
MASK = VectorType("mask", ir.IntType(1), LANES)
SINGLES = _SINGLES = VectorType("singles", ir.FloatType(), LANES)
WIDES = VectorType("wides", ir.IntType(64), LANES)


# -- operators of unsigned words -------------------------------------------------------------------

#: Operators, and llvmlite's names of their instructions.
_OPERATORS = {
    operator.add: "add",
    operator.sub: "sub",
    operator.mul: "mul",
    operator.and_: "and_",
    operator.or_: "or_",
    operator.xor: "xor",
    operator.lshift: "shl",
    operator.rshift: "lshr",
}


def as_unsigned(kind: VectorType) -> None:
    """Give vectors of a type the operators of unsigned integers, which wrap."""
    for function, name in _OPERATORS.items():
        builtin(function, kind, kind, kind)(
            lambda builder, left, right, name=name: getattr(builder, name)(left, right)
        )


as_unsigned(_WORDS)
builtin(operator.and_, MASK, MASK, MASK)(lambda builder, left, right: builder.and_(left, right))
builtin(operator.or_, MASK, MASK, MASK)(lambda builder, left, right: builder.or_(left, right))
builtin(operator.add, _SINGLES, _SINGLES, _SINGLES)(lambda builder, left, right: builder.fadd(left, right))
builtin(operator.sub, _SINGLES, _SINGLES, _SINGLES)(lambda builder, left, right: builder.fsub(left, right))
builtin(operator.mul, _SINGLES, _SINGLES, _SINGLES)(lambda builder, left, right: builder.fmul(left, right))
builtin(operator.truediv, _SINGLES, _SINGLES, _SINGLES)(
    lambda builder, left, right: builder.fdiv(left, right)
)


# -- functions ---------------------------------------------------------------------------------------


def fill(word: Word) -> Lanes:
    """Return the same word in every lane."""
    return np.full(LANES, word, np.uint32)


builtin(fill, _WORDS, _WORDS)(lambda builder, word: word)


def fill_wide(number: np.uint64) -> Wides:
    """Return the same number of 64 bits in every lane."""
    return np.full(LANES, number, np.uint64)


builtin(fill_wide, WIDES, WIDES)(lambda builder, number: number)


def padded(array: Codes, start: int) -> Codes:
    """Return memory of a vector: the elements of an array from index `start` to its end, then zeros.

    These are at most LANES elements. The memory is gone when the calling function returns.
    """
    room = np.zeros(LANES, array.dtype)
    room[: array.size - start] = array[start:]
    return room


on_stack(padded, LANES)


def put_rest(array: Codes, start: int, rest: Codes) -> None:
    """Store a padded vector's elements in an array, from index `start` to its end."""
    array[start:] = rest[: array.size - start]


from_stack(put_rest)


def between(array: Codes, start: int, stop: int) -> Codes:
    """Return the elements of a contiguous array from an index to another; they must be there."""
    return array[start:stop]


section(between)


def less(left: Word, right: Word) -> Mask:
    """Return where left < right as signed words; one instruction everywhere, unlike unsigned comparison."""
    return fill(left).view(np.int32) < fill(right).view(np.int32)


builtin(less, MASK, _WORDS, _WORDS)(lambda builder, left, right: builder.icmp_signed("<", left, right))


def equal(left: Lanes, right: Word) -> Mask:
    """Return where two words are equal."""
    return left == right


builtin(equal, MASK, _WORDS, _WORDS)(lambda builder, left, right: builder.icmp_unsigned("==", left, right))


def negative(word: Lanes) -> Mask:
    """Return where the highest bit is set."""
    return word.view(np.int32) < 0


builtin(negative, MASK, _WORDS)(lambda builder, word: builder.icmp_signed("<", word, _WORDS.constant(0)))


def not_a_number(word: Lanes) -> Mask:
    """Return where a word is the pattern of a binary32 NaN."""
    return (word & 0x7FFFFFFF) > 0x7F800000


@builtin(not_a_number, MASK, _WORDS)
def _not_a_number(builder: Any, word: Any) -> Any:
    single = builder.bitcast(word, _SINGLES.llvm)
    return builder.fcmp_unordered("uno", single, single)


def choose(mask: Mask, yes: Word, no: Word) -> Lanes:
    """Return `yes` where the mask is set, else `no`; both are computed, without a branch."""
    return np.where(mask, fill(yes) if np.ndim(yes) == 0 else yes, fill(no) if np.ndim(no) == 0 else no)


builtin(choose, _WORDS, MASK, _WORDS, _WORDS)(lambda builder, mask, yes, no: builder.select(mask, yes, no))


def lesser(left: Lanes, right: Word) -> Lanes:
    """Return the lesser of two unsigned words."""
    return np.minimum(left, right)


builtin(lesser, _WORDS, _WORDS, _WORDS)(
    lambda builder, left, right: builder.select(builder.icmp_unsigned("<", left, right), left, right)
)


def greater(left: Lanes, right: Word) -> Lanes:
    """Return the greater of two unsigned words."""
    return np.maximum(left, right)


builtin(greater, _WORDS, _WORDS, _WORDS)(
    lambda builder, left, right: builder.select(builder.icmp_unsigned(">", left, right), left, right)
)


def one_where(mask: Mask) -> Lanes:
    """Return 1 where the mask is set, else 0."""
    return mask.astype(np.uint32)


builtin(one_where, _WORDS, MASK)(lambda builder, mask: builder.zext(mask, _WORDS.llvm))


def fused(x: Singles, y: Singles, z: Singles) -> Singles:
    """Return the product and sum x * y + z, rounded once."""
    with np.errstate(all="ignore"):
        product, z = x.astype(np.float64) * y, z.astype(np.float64)  # exact
        total = product + z
        other = total - product
        error = (product - (total - other)) + (z - other)
        # Rounded to odd, so that rounding to binary32 after it equals rounding once.
        even = (total.view(np.uint64) & np.uint64(1)) == 0
        odd = np.nextafter(total, np.copysign(np.inf, error))
        return np.where(even & (error != 0) & np.isfinite(error), odd, total).astype(np.float32)


builtin(fused, _SINGLES, _SINGLES, _SINGLES, _SINGLES)(
    lambda builder, *parts: _intrinsic(builder, "fma", *parts)
)


def square_root(x: Singles) -> Singles:
    """Return the square root."""
    with np.errstate(invalid="ignore"):
        return np.sqrt(x)


builtin(square_root, _SINGLES, _SINGLES)(lambda builder, x: _intrinsic(builder, "sqrt", x))


def _intrinsic(builder: Any, name: str, *operands: Any) -> Any:
    """Return a call of one of LLVM's own functions of vectors."""
    kind = operands[0].type
    name = f"llvm.{name}.v{kind.count}f{32 if kind.element == ir.FloatType() else 64}"
    function = builder.module.globals.get(name)
    if function is None:
        function = ir.Function(builder.module, ir.FunctionType(kind, [kind] * len(operands)), name)
    return builder.call(function, operands)


def as_singles(word: Lanes) -> Singles:
    """Return the binary32 numbers whose patterns the words are."""
    return word.view(np.float32)


builtin(as_singles, _SINGLES, _WORDS)(lambda builder, word: builder.bitcast(word, _SINGLES.llvm))


def as_words(single: Singles) -> Lanes:
    """Return the patterns of binary32 numbers."""
    return single.view(np.uint32)


builtin(as_words, _WORDS, _SINGLES)(lambda builder, single: builder.bitcast(single, _WORDS.llvm))


def widened_from_half(word: Lanes) -> Lanes:
    """Convert patterns of binary16 to patterns of binary32, by the processor."""
    return word.astype(np.uint16).view(np.float16).astype(np.float32).view(np.uint32)


@builtin(widened_from_half, _WORDS, _WORDS)
def _widened_from_half(builder: Any, word: Any) -> Any:
    half = builder.trunc(word, ir.VectorType(ir.IntType(16), LANES))
    half = builder.bitcast(half, ir.VectorType(ir.HalfType(), LANES))
    return builder.bitcast(builder.fpext(half, _SINGLES.llvm), _WORDS.llvm)


def any_lane(mask: Mask) -> bool:
    """Return whether the mask is set anywhere."""
    return bool(mask.any())


@builtin(any_lane, boolean, MASK)
def _any_lane(builder: Any, mask: Any) -> Any:
    bits = ir.IntType(mask.type.count * mask.type.element.width)
    return builder.icmp_unsigned("!=", builder.bitcast(mask, bits), ir.Constant(bits, 0))


def halves(builder: Any, vector: Any) -> list[Any]:
    """Return the first and the last half of a vector."""
    lanes = list(range(vector.type.count))
    orders = lanes[: len(lanes) // 2], lanes[len(lanes) // 2 :]
    return [builder.shuffle_vector(vector, vector, places(order)) for order in orders]


def _rarely(builder: Any, truth: Any) -> Any:
    """Mark a condition as unlikely."""
    kind = ir.IntType(1)
    expect = builder.module.declare_intrinsic("llvm.expect", [kind], ir.FunctionType(kind, [kind, kind]))
    return builder.call(expect, [truth, kind(0)])


def rare_nan(word: Lanes) -> bool:
    """Return whether any lane is NaN, which is rare; one comparison tests two lanes."""
    return bool(not_a_number(word).any())


@builtin(rare_nan, boolean, _WORDS)
def _rare_nan(builder: Any, word: Any) -> Any:
    pairs = halves(builder, builder.bitcast(word, _SINGLES.llvm))
    return _rarely(builder, _any_lane(builder, builder.fcmp_unordered("uno", *pairs)))


def all_lanes(mask: Mask) -> bool:
    """Return whether the mask is set everywhere."""
    return bool(mask.all())


builtin(all_lanes, boolean, MASK)(
    lambda builder, mask: builder.icmp_signed(
        "==", builder.bitcast(mask, (bits := ir.IntType(LANES))), bits(-1)
    )
)


def greatest_of_16(word: Lanes) -> Lanes:
    """Return in each lane the greatest unsigned word of its half."""
    return np.repeat(word.reshape(-1, 16).max(axis=1), 16)


builtin(greatest_of_16, _WORDS, _WORDS)(lambda builder, word: _greater_of_partners(builder, word, 8, 4, 2, 1))


def greatest(word: Lanes) -> Lanes:
    """Return in every lane the greatest unsigned word of all."""
    return fill(word.max())


builtin(greatest, _WORDS, _WORDS)(lambda builder, word: _greater_of_partners(builder, word, 16, 8, 4, 2, 1))


def places(order: list[int]) -> Any:
    """Return indices of lanes as the constant that LLVM's shuffle takes."""
    return ir.Constant(ir.VectorType(_WORD, len(order)), order)


def _greater_of_partners(builder: Any, word: Any, *distances: int) -> Any:
    """Return, for each distance in turn, the greater of each word and the word at that distance."""
    for distance in distances:
        partners = builder.shuffle_vector(word, word, places([lane ^ distance for lane in range(LANES)]))
        word = builder.select(builder.icmp_unsigned(">", word, partners), word, partners)
    return word


def first_lane(word: Lanes) -> np.uint32:
    """Return the word in the first lane."""
    return np.uint32(word[0])


@builtin(first_lane, number, _WORDS)
def _first_lane(builder: Any, word: Any) -> Any:
    return builder.extract_element(word, ir.Constant(_WORD, 0))


# -- memory ------------------------------------------------------------------------------------------


def load(array: Codes, start: int) -> Lanes:
    """Load LANES elements of 8, 16 or 32 bits, from index `start` on; nothing checks the bounds."""
    assert array.itemsize < 8, "elements of 64 bits are for load_odd, which rounds them"
    return array[start : start + LANES].view(f"u{array.itemsize}").astype(np.uint32)


@memory(load, _WORDS, widths=(8, 16, 32))
def load_lowered(builder: Any, pointer: Any, element: Any) -> Any:
    """Return the instructions of `load`."""
    assert element.width < 64, "elements of 64 bits are for load_odd, which rounds them"
    loaded = builder.load(builder.bitcast(pointer, ir.VectorType(element, LANES).as_pointer()))
    loaded.align = 1
    return builder.zext(loaded, _WORDS.llvm) if element.width < 32 else loaded


def load_wide(array: npt.NDArray[np.uint64], start: int) -> Wides:
    """Load LANES elements of 64 bits, from index `start` on; nothing checks the bounds."""
    return array[start : start + LANES].copy()


@memory(load_wide, WIDES)
def _load_wide(builder: Any, pointer: Any, element: Any) -> Any:
    loaded = builder.load(builder.bitcast(pointer, WIDES.llvm.as_pointer()))
    loaded.align = 8
    return loaded


def fetch(array: Codes, start: int) -> None:
    """Prefetch LANES elements from index `start` on, for a load soon; they may lie past the array's end."""


@memory(fetch, None)
def _fetch(builder: Any, pointer: Any, element: Any) -> None:
    byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
    kind = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
    name = "llvm.prefetch.p0i8"
    ask = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
    first = builder.bitcast(pointer, byte)
    for line in range(0, LANES * element.width // 8, 64):
        place = builder.gep(first, [word(line)])
        builder.call(ask, [place, word(0), word(3), word(1)])


def store(array: Codes, start: int, word: Lanes) -> None:
    """Store the low bits of each lane in elements of 8, 16 or 32 bits; nothing checks the bounds.

    Elements of 64 bits get the same numbers in binary64: lanes are then binary32 numbers, none subnormal.
    """
    part = array[start : start + LANES].view(f"u{array.itemsize}")
    if array.itemsize < 8:
        part[:] = word.astype(part.dtype)
    else:
        with np.errstate(invalid="ignore"):
            part[:] = as_singles(word).astype(np.float64).view(np.uint64)


@memory(store, None, _WORDS)
def _store(builder: Any, pointer: Any, element: Any, word: Any) -> Any:
    vector = ir.VectorType(element, LANES)
    if element.width < 32:
        word = builder.trunc(word, vector)
    elif element.width > 32:
        wide = builder.fpext(builder.bitcast(word, _SINGLES.llvm), ir.VectorType(ir.DoubleType(), LANES))
        word = builder.bitcast(wide, vector)
    stored = builder.store(word, builder.bitcast(pointer, vector.as_pointer()))
    stored.align = 1
    return stored


def store_past(array: Codes, start: int, word: Lanes) -> None:
    """Store past the caches, which keep their contents; memory is not read before it is written.

    The array begins at a multiple of 16 bytes, and `start` is a multiple of LANES. `settle` must follow.
    """
    store(array, start, word)


@memory(store_past, None, _WORDS)
def _store_past(builder: Any, pointer: Any, element: Any, word: Any) -> None:
    stored = _store(builder, pointer, element, word)
    stored.align = 16
    stored.set_metadata("nontemporal", builder.module.add_metadata([ir.Constant(ir.IntType(32), 1)]))


def settle() -> None:
    """Fence after non-temporal stores."""


@builtin(settle, nothing)
def _settle(builder: Any) -> Any:
    builder.fence("seq_cst")
    return ir.Constant(ir.IntType(8).as_pointer(), None)
