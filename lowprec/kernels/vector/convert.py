"""Conversions by vectors, for whatever fits 32-bit words.

A vector of operands goes through the stages that a verb asks for: read codes as binary32, round and
encode, read the result back, encode it for the type that carries it. Formats and projections
arrive as integers. A plan's first words, its *shape*, decide every branch. Usual shapes have kernels of their
own for large arrays, with the shape as constants; small arrays and all other shapes share one kernel.

Results are computed in integers, except in `read`, whose subtraction is exact in every mode, and on the
routes NEAREST and HALF: the processor's own addition and conversion, where the thread rounds to nearest.

Floor 2b. Imports numba through `jit`; never the oracle, which checks it.

Notation:

    word        a binary32 pattern, or the upper half of a binary64 pattern rounded to odd
    magnitude   the code without its sign; consecutive magnitudes are consecutive values
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.kernels.engine import DONE, REFUSED
from lowprec.kernels.jit import elements, has_half, helper, inlined, jit, jit_for_all
from lowprec.kernels.lower.vector import (
    CUT,
    DECODER,
    DRAWN,
    ENCODER,
    HALF,
    NEAREST,
    NONE,
    PARITY,
    PAST,
    PROBE,
    SHIFT,
    Decoder,
    Encoder,
    Words,
)
from lowprec.kernels.random import philox_fill
from lowprec.kernels.vector.ir.lanes import (
    LANES,
    Lanes,
    any_lane,
    as_singles,
    as_words,
    between,
    choose,
    equal,
    fill,
    less,
    lesser,
    load,
    negative,
    not_a_number,
    padded,
    put_rest,
    rare_nan,
    settle,
    store,
    store_past,
)
from lowprec.kernels.vector.rounding import (
    limited,
    load_odd,
    narrowed_to_half,
    nearest,
    nearest_even,
)

__all__ = ["DONE", "REFUSED", "UNSUITED", "kernel"]

Shape = tuple[int, ...]
Kernel = Callable[..., int]
Codes = npt.NDArray[Any]  #: of unsigned integers or floats, which stand for their bits

_MAGNITUDE, _SIGN_BIT, _INFINITY, _NAN = 0x7FFFFFFF, 0x80000000, 0x7F800000, 0x7FC00000

#: A constant to the compiler, which leaves out the route HALF where no plan takes it.
_HALVES = has_half()

#: Results of the route HALF, which does the least: from `_MANY` on, stores are a tenth faster at
#: addresses that are multiples of `_ALIGNED` bytes.
_MANY, _ALIGNED = 1 << 17, 32

#: Elements whose random words are drawn at a time: they stay in the nearest cache.
_TILE = 2048

_DECODER, _ENCODER = tuple(range(DECODER)), tuple(range(ENCODER))


# -- reading -----------------------------------------------------------------------------------------


@inlined
def read(code: Lanes, f: Decoder) -> Lanes:
    """Return the values of codes, as binary32 patterns."""
    if f.route == NONE:
        return code
    sign = (code & f.sign) << f.sign_shift
    magnitude = code & f.mask
    if f.route == SHIFT:
        word = magnitude << f.shift
        return choose(less(_INFINITY, word), _NAN, word) | sign
    if f.complement != 0:
        magnitude = choose(negative(sign), (0 - code) & f.mask, magnitude)
    word = (magnitude << f.shift) + f.rebase
    if f.subnormals != 0:
        # No operand nor result of the subtraction is subnormal, and it is exact: no mode can change it
        # but the sign of zero.
        small = as_words(as_singles(magnitude | f.magic) - as_singles(fill(f.magic))) & _MAGNITUDE
        word = choose(less(magnitude, f.first_normal), small, word)
    else:
        word = choose(equal(magnitude, 0), f.first, word)
    if f.specials == 1:
        word = choose(less(f.largest, magnitude), _NAN, word)
    elif f.specials != 0:
        special = choose(equal(magnitude, f.infinity), _INFINITY, _NAN)
        word = choose(less(f.largest, magnitude), special, word)
    if f.not_a_zero != 0:  # the sign alone is the NaN, and NaNs get no sign
        word = choose(less(_INFINITY, word), _NAN, word | sign)
        return choose(equal(code, f.sign), _NAN, word)
    return word | sign


# -- rounding and encoding ---------------------------------------------------------------------------


@inlined
def project(word: Lanes, random: Lanes, f: Encoder) -> Lanes:
    """Return the codes of real numbers: round, then saturate, then encode."""
    if f.route == NONE:
        return word
    if f.route == CUT:
        if rare_nan(word):
            word = choose(not_a_number(word), (word & _SIGN_BIT) | f.nan << f.shift, word)
        return nearest_even(word, f.half, f.shift)
    if _HALVES and f.route == HALF:
        if rare_nan(word):
            word = choose(not_a_number(word), (word & _SIGN_BIT) | _NAN, word)
        return narrowed_to_half(word)
    return project_magnitude(word, word & _MAGNITUDE, random, f)


@inlined
def project_magnitude(word: Lanes, a: Lanes, random: Lanes, f: Encoder) -> Lanes:
    """Return the codes of magnitudes with the signs of words, by the routes NEAREST and LIMITS."""
    if f.route == NEAREST:
        magnitude = nearest(a, f)
    else:
        magnitude = limited(word, a, random, f)
    if f.simple != 0:
        if f.limits != PARITY and f.limits != DRAWN:
            magnitude = lesser(magnitude, choose(negative(word), f.over_negative, f.over))
        else:
            magnitude = lesser(magnitude, f.over)
        if f.infinity_differs != 0:
            magnitude = choose(equal(a, f.special), f.infinity, magnitude)
        if f.refuses == 0:
            magnitude = choose(less(f.special, a), f.nan, magnitude)
        sign = choose(negative(word), f.sign, 0)
        if f.positive_zero != 0:
            sign = choose(equal(magnitude, 0), 0, sign)
        return magnitude | sign
    return ended(word, a, magnitude, f)


@inlined
def ended(word: Lanes, a: Lanes, magnitude: Lanes, f: Encoder) -> Lanes:
    """Return the codes of magnitudes, whatever a projection does with signs, zeros, infinities and NaN."""
    minus = negative(word)
    below = ((magnitude ^ f.flip) & f.step_negative) + f.base_negative
    code = choose(minus, below, magnitude) & f.mask
    code = choose(equal(magnitude, 0), choose(minus, f.rounded_zero_negative, f.rounded_zero), code)
    largest = choose(minus, f.largest_negative, f.largest)
    code = choose(less(largest, magnitude), choose(minus, f.beyond_negative, f.beyond), code)
    if f.no_zero != 0:
        code = choose(equal(a, 0), choose(minus, f.zero_negative, f.zero), code)
    code = choose(equal(a, f.special), choose(minus, f.infinite_negative, f.infinite), code)
    return choose(less(f.special, a), choose(minus, f.nan_negative, f.nan), code)


# -- loops -------------------------------------------------------------------------------------------


@inlined
def rounds_to_nearest(plan: Words) -> bool:
    """Return whether this thread rounds to nearest: 1 + 2**-24 is 1, and 1 + 3 * 2**-24 is 1 + 2**-22."""
    one = as_singles(fill(plan[0]))
    down = equal(as_words(one + as_singles(fill(plan[1]))), plan[0])
    up = equal(as_words(one + as_singles(fill(plan[2]))), plan[3])
    return any_lane(down & up)


@inlined
def keeps_subnormals(plan: Words, zero: np.uint32) -> bool:
    """Return whether this thread's processor reads and writes subnormals unflushed: 2**-149 + 0 is not 0.

    `zero` must come from memory, or the compiler would answer.
    """
    smallest = as_singles(fill(plan[0] >> np.uint32(29)))
    return any_lane(less(0, as_words(smallest + as_singles(fill(zero)))))


@inlined
def load_decoder(plan: Words, place: int, shape: Shape) -> Decoder:
    """Load a format; the words of its shape are constants where they are known."""
    f = Decoder(*(shape + elements(plan[place:], _DECODER)[len(shape) :]))
    if f.route > SHIFT or f.specials > 2:
        raise ValueError("a way to read codes without a kernel")
    return f


@inlined
def load_encoder(plan: Words, place: int, shape: Shape) -> Encoder:
    """Load a target; the words of its shape are constants where they are known."""
    f = Encoder(*(shape + elements(plan[place:], _ENCODER)[len(shape) :]))
    if f.route > HALF or f.limits > DRAWN or (f.route == HALF and not _HALVES):
        raise ValueError("a way to round without a kernel")
    return f


@inlined
def load_nothing(plan: Words, place: int, shape: Shape) -> None:
    """Return None: the stage is left out."""


@inlined
def left_out(word: Lanes, f: None) -> Lanes:
    """Return the words as they are: the stage is left out."""
    return word


@inlined
def carried(word: Lanes, f: Encoder) -> Lanes:
    """Return a result as the type that holds all of them: nothing is left to round."""
    return project(word, fill(0), f)


@inlined
def suited(f: Encoder, plan: Words) -> bool:
    """Return whether a target's route is exact in the rounding mode that the processor has in this thread."""
    return (f.route != HALF and f.route != NEAREST) or rounds_to_nearest(plan)


@inlined
def put(out: Codes, place: int, word: Lanes, past: bool) -> None:
    """Store results, past the caches or not."""
    if past:
        store_past(out, place, word)
    else:
        store(out, place, word)


# -- kernels -----------------------------------------------------------------------------------------

#: What a kernel returns besides DONE and REFUSED (a NaN has no code): nothing is written, since this thread
#: does not round to nearest; the plan of `lower.vector.anywhere` serves then.
UNSUITED = 2


@functools.cache
def kernel(shapes: tuple[Shape, ...], drawn: bool) -> Kernel:
    """Return the kernel for plans of these shapes, or for all plans where the shapes are empty.

    `codes` and `out` have one axis and one size, and may share memory element for element;
    codes of 64 bits are binary64 numbers. Called as below.

        kernel(plan, random, codes, out)        random integers for each element, or none at all
        kernel(plan, key, first, codes, out)    those of `random_bits` from number `first` on,
                                                a multiple of 4, if `drawn`
    """
    source_shape, target_shape, result_shape, carrier_shape = shapes
    # What changes nothing is left out here: the compiler would find out too, but late.
    nothing: tuple[Any, Any] = (load_nothing, left_out)
    load_source, read_source = (load_decoder, read) if _changes(source_shape) else nothing
    load_result, read_result = (load_decoder, read) if _changes(result_shape) else nothing
    load_carrier, carry = (load_encoder, carried) if _changes(carrier_shape) else nothing

    def decode_elements(plan: Words, random: Words, codes: Codes, out: Codes) -> int:
        """Decode whole vectors, then the rest in one that is filled up."""
        source, past = load_source(plan, PROBE, source_shape), plan[PAST] != 0
        whole = codes.size - codes.size % LANES
        given, made, size = codes, out, whole
        for part in range(2):
            if part == 1:
                given, made, size = padded(codes, whole), padded(out, out.size), codes.size - whole
            for i in range(0, size, LANES):
                put(made, i, read_source(load_odd(given, i), source), past)
        settle()
        put_rest(out, whole, made)
        return DONE

    def project_elements(plan: Words, random: Words, codes: Codes, out: Codes) -> int:
        """Round and encode whole vectors, then the rest in one that is filled up; return the status."""
        source = load_source(plan, PROBE, source_shape)
        target = load_encoder(plan, PROBE + DECODER, target_shape)
        result = load_result(plan, PROBE + DECODER + ENCODER, result_shape)
        carrier = load_carrier(plan, PROBE + 2 * DECODER + ENCODER, carrier_shape)
        if not suited(target, plan):
            return UNSUITED
        status, random_word, past = DONE, fill(0), plan[PAST] != 0
        whole = codes.size - codes.size % LANES
        given, made, words, size = codes, out, random, whole
        for part in range(2):
            if part == 1:
                given, made, size = padded(codes, whole), padded(out, out.size), codes.size - whole
                words = padded(random, min(whole, random.size))
            for i in range(0, size, LANES):
                word = read_source(load_odd(given, i), source)
                if target.limits == DRAWN:
                    random_word = load(words, i)
                    if drawn:
                        random_word = random_word & (0xFFFFFFFF << (32 - target.bits))
                    else:
                        random_word = random_word << (32 - target.bits)
                if target.refuses != 0 and any_lane(less(target.special, word & _MAGNITUDE)):
                    status = REFUSED
                word = read_result(project(word, random_word, target), result)
                put(made, i, carry(word, carrier), past)
        settle()
        put_rest(out, whole, made)
        return status

    name = "_drawn" * drawn + "".join("_" + ".".join(map(str, shape)) for shape in shapes)
    all_elements = project_elements if _changes(target_shape) else decode_elements

    halves = bool(target_shape) and target_shape[Encoder._fields.index("route")] == HALF
    if not drawn and not halves:
        return _compiled(all_elements, f"convert{name}", shapes)
    everything = helper(all_elements, f"everything{name}")

    def convert_aligned(plan: Words, random: Words, codes: Codes, out: Codes) -> int:
        """Convert the elements before the first aligned address, then the others."""
        head = -out.ctypes.data % _ALIGNED // out.itemsize
        if head == 0 or out.size < _MANY:
            return everything(plan, random, codes, out)
        status = everything(plan, random[:head], codes[:head], out[:head])
        return max(status, everything(plan, random[head:], codes[head:], out[head:]))

    if not drawn:
        return jit(convert_aligned, f"convert{name}")

    def convert_drawn(plan: Words, key: np.uint64, first: np.uint64, codes: Codes, out: Codes) -> int:
        words, status = np.empty(_TILE, np.uint32), DONE
        for start in range(0, codes.size, _TILE):
            stop = min(start + _TILE, codes.size)
            philox_fill(words, first + np.uint64(start), key, np.uint64(0))
            tile = between(codes, start, stop), between(out, start, stop)
            status = max(status, everything(plan, words[: stop - start], *tile))
        return status

    return _compiled(convert_drawn, f"convert{name}", shapes)


def _compiled(function: Kernel, name: str, shapes: tuple[Shape, ...]) -> Kernel:
    """Return a kernel for `codes` and `out` of any types, if it is for all plans; else one for each type."""
    return jit(function, name) if any(shapes) else jit_for_all(function, name, slice(-2, None))


def _changes(shape: Shape) -> bool:
    """Return whether a stage does anything; one of unknown shape may."""
    return not shape or shape[0] != NONE
