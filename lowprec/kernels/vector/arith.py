"""Operations by vectors: operands are read, and results rounded and encoded, as `convert` does it.

In between stand the processor's own binary64 instructions, on numbers that binary32 holds: a product is
exact, of a sum the error is known, and quotients and square roots never come close to what rounding
them twice would change. All this is rounded to odd, and then once to the format. Results in binary32, to
nearest, are the processor's own: nothing is left to round.

It rests on subnormal operands that are kept, and on a processor that rounds to nearest. Where a
process does otherwise, nothing is written, and `scalar.arith` does all.

Floor 2b. Imports numba through `jit`; never the oracle, which checks it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.kernels.jit import helper, inlined, jit, jit_for_all
from lowprec.kernels.lower.vector import DECODER, DRAWN, ENCODER, PAST, PROBE, Words, plan as conversion_plan
from lowprec.kernels.vector.convert import (
    DONE,
    REFUSED,
    UNSUITED,
    carried,
    keeps_subnormals,
    load_decoder,
    load_encoder,
    project,
    put,
    read,
    rounds_to_nearest,
)
from lowprec.kernels.vector.ir.lanes import (
    LANES,
    Lanes,
    Mask,
    Singles,
    all_lanes,
    any_lane,
    as_singles,
    as_words,
    choose,
    equal,
    fill,
    fused,
    less,
    load,
    not_a_number,
    padded,
    put_rest,
    settle,
    square_root,
)
from lowprec.kernels.vector.rounding import (
    LARGEST,
    SMALL,
    fma_to_odd,
    product_to_odd,
    quotient_to_odd,
    root_to_odd,
    shortened,
    sum_to_odd,
    to_odd,
)
from lowprec.spec.arith import operands_of
from lowprec.spec.format import Format
from lowprec.spec.rounding import Rounding

__all__ = [
    "DOWNWARD",
    "NATIVE",
    "OPERATIONS",
    "RESULT",
    "SHORT",
    "TARGET",
    "fma",
    "is_short",
    "kernel",
    "plan",
]

Shape = tuple[int, ...]
Kernel = Callable[..., int]
Codes = npt.NDArray[Any]

_MAGNITUDE, _SIGN = 0x7FFFFFFF, 0x80000000

#: Upper halves of binary64 numbers. NaNs are above infinity.
_INFINITY, _NAN = 0x7FF00000, 0x7FF80000

#: Binary32 numbers.
_SHORT_INFINITY, _SHORT_NAN = 0x7F800000, 0x7FC00000

#: Where stages stand in a plan: three operands, the target, its results read back, the type that carries
#: them.
_Y, _Z = PROBE + DECODER, PROBE + 2 * DECODER
TARGET = PROBE + 3 * DECODER
RESULT = TARGET + ENCODER
_CARRIER = RESULT + DECODER
DOWNWARD = _CARRIER + ENCODER


def plan(stages: tuple[Words, ...], downward: bool) -> Words:
    """Return the words of three decoders, an encoder, a decoder, an encoder, and of the sign of zero sums."""
    words = np.zeros(DOWNWARD + 2, np.uint32)  # the last one stays 0
    words[:PROBE] = conversion_plan()[:PROBE]
    for place, stage in zip((PROBE, _Y, _Z, TARGET, RESULT, _CARRIER), stages, strict=True):
        words[place : place + stage.size] = stage
    words[DOWNWARD] = downward
    return words


# -- results as upper halves of binary64 numbers, rounded to odd -------------------------------------


@inlined
def zero_signed(word: Lanes, signs: Lanes, downward: np.uint32) -> Lanes:
    """Sums; +0, where downward, with the signs of what was added."""
    if downward != 0:
        word = choose(equal(word, 0), signs & _SIGN, word)
    return word


@inlined
def add(x: Lanes, y: Lanes, z: Lanes, downward: np.uint32) -> Lanes:
    """Return the sum x + y."""
    return zero_signed(sum_to_odd(x, y), x | y, downward)


@inlined
def subtract(x: Lanes, y: Lanes, z: Lanes, downward: np.uint32) -> Lanes:
    """Return the difference x - y."""
    return add(x, y ^ _SIGN, z, downward)


@inlined
def multiply(x: Lanes, y: Lanes, z: Lanes, downward: np.uint32) -> Lanes:
    """Return the product x * y."""
    return product_to_odd(x, y)


@inlined
def divide(x: Lanes, y: Lanes, z: Lanes, downward: np.uint32) -> Lanes:
    """Return the quotient x / y."""
    return quotient_to_odd(x, y)


@inlined
def sqrt(x: Lanes, y: Lanes, z: Lanes, downward: np.uint32) -> Lanes:
    """Return the square root of x."""
    return root_to_odd(x)


@inlined
def fma(x: Lanes, y: Lanes, z: Lanes, downward: np.uint32) -> Lanes:
    """Return the product and sum x * y + z."""
    return zero_signed(fma_to_odd(x, y, z), (x ^ y) | z, downward)


# -- results as binary32 numbers, rounded to odd -----------------------------------------------------


@inlined
def add_short(x: Lanes, y: Lanes, z: Lanes, downward: np.uint32) -> Lanes:
    """Return the sum x + y."""
    total, error = two_sum(as_singles(x), as_singles(y))
    return zero_signed(to_odd(as_words(total), as_words(error)), x | y, downward)


@inlined
def subtract_short(x: Lanes, y: Lanes, z: Lanes, downward: np.uint32) -> Lanes:
    """Return the difference x - y."""
    return add_short(x, y ^ _SIGN, z, downward)


@inlined
def multiply_short(x: Lanes, y: Lanes, z: Lanes, downward: np.uint32) -> Lanes:
    """Return the product x * y."""
    a, b = as_singles(x), as_singles(y)
    product = as_words(a * b)
    return to_odd(product, as_words(fused(a, b, as_singles(product ^ _SIGN))))


@inlined
def divide_short(x: Lanes, y: Lanes, z: Lanes, downward: np.uint32) -> Lanes:
    """Return the quotient x / y rounded to odd, by the sign of the remainder."""
    quotient = as_words(as_singles(x) / as_singles(y))
    rest = as_words(fused(as_singles(quotient ^ _SIGN), as_singles(y), as_singles(x)))
    return to_odd(quotient, rest ^ (y & _SIGN))


@inlined
def sqrt_short(x: Lanes, y: Lanes, z: Lanes, downward: np.uint32) -> Lanes:
    """Return the square root of x rounded to odd, by the sign of the remainder."""
    single = square_root(as_singles(x))
    root = as_words(single)
    return to_odd(root, as_words(fused(as_singles(root ^ _SIGN), single, as_singles(x))))


@inlined
def fma_short(x: Lanes, y: Lanes, z: Lanes, downward: np.uint32) -> Lanes:
    """Return the product and sum x * y + z: the processor's, and on which side of it the exact one lies.

    What lies between is (near - total) + error + below. The first sum of these may be rounded; it then
    hides what is left only where the total is odd already (docs/decisions/0010).
    """
    a, b, c = as_singles(x), as_singles(y), as_singles(z)
    total, product = fused(a, b, c), a * b
    below = fused(a, b, as_singles(as_words(product) ^ _SIGN))
    near, error = two_sum(product, c)
    return to_odd(as_words(total), as_words(((near - total) + error) + below))


@inlined
def two_sum(a: Singles, b: Singles) -> tuple[Singles, Singles]:
    """Return a sum, and what it was rounded by. Source: [KNUTH] 4.2.2."""
    total = a + b
    other = total - a
    return total, (a - (total - other)) + (b - other)


# -- results in binary32 -----------------------------------------------------------------------------


@inlined
def add_native(x: Lanes, y: Lanes, z: Lanes, downward: np.uint32) -> Lanes:
    """Return the sum x + y."""
    return as_words(as_singles(x) + as_singles(y))


@inlined
def subtract_native(x: Lanes, y: Lanes, z: Lanes, downward: np.uint32) -> Lanes:
    """Return the difference x - y."""
    return as_words(as_singles(x) - as_singles(y))


@inlined
def multiply_native(x: Lanes, y: Lanes, z: Lanes, downward: np.uint32) -> Lanes:
    """Return the product x * y."""
    return as_words(as_singles(x) * as_singles(y))


@inlined
def divide_native(x: Lanes, y: Lanes, z: Lanes, downward: np.uint32) -> Lanes:
    """Return the quotient x / y."""
    return as_words(as_singles(x) / as_singles(y))


@inlined
def sqrt_native(x: Lanes, y: Lanes, z: Lanes, downward: np.uint32) -> Lanes:
    """Return the square root of x."""
    return as_words(square_root(as_singles(x)))


@inlined
def fma_native(x: Lanes, y: Lanes, z: Lanes, downward: np.uint32) -> Lanes:
    """Return the product and sum x * y + z."""
    return as_words(fused(as_singles(x), as_singles(y), as_singles(z)))


# -- which results are right -------------------------------------------------------------------------


@inlined
def is_between(magnitude: Lanes) -> Mask:
    """Return whether numbers are neither very small nor as large as infinity, which `to_odd` spoils."""
    return less(SMALL, magnitude) & less(magnitude, LARGEST)


@inlined
def beyond(word: Lanes) -> Mask:
    """Return whether binary32 operands are infinite or NaN; the processor's results of these are exact."""
    return less(_SHORT_INFINITY - 1, word & _MAGNITUDE)


@inlined
def any_fit(magnitude: Lanes, x: Lanes, y: Lanes) -> Mask:
    """Return whether the upper half of a binary64 number is right as it is: all are, but NaNs' signs."""
    return less(magnitude, _INFINITY + 1)


@inlined
def number_fits(magnitude: Lanes, x: Lanes, y: Lanes) -> Mask:
    """Return whether a binary32 number is right as it is: all are, but NaNs' signs and payloads."""
    return less(magnitude, _SHORT_INFINITY + 1)


@inlined
def sum_fits(magnitude: Lanes, x: Lanes, y: Lanes) -> Mask:
    """Return whether a sum of binary32 numbers, rounded to odd, is right as it is.

    Beside the largest number, what `two_sum` takes apart may be beyond it.
    """
    return less(magnitude, LARGEST) & less(x & _MAGNITUDE, LARGEST) & less(y & _MAGNITUDE, LARGEST)


@inlined
def product_fits(magnitude: Lanes, x: Lanes, y: Lanes) -> Mask:
    """Return whether a product rounded to odd is valid: its rounding error must be normal."""
    return is_between(magnitude)


@inlined
def rest_fits(magnitude: Lanes, x: Lanes, y: Lanes) -> Mask:
    """Return whether a quotient or root rounded to odd is valid: its remainder must be normal."""
    return is_between(magnitude) & less(SMALL, x & _MAGNITUDE)


@inlined
def fma_fits(magnitude: Lanes, x: Lanes, y: Lanes) -> Mask:
    """Return whether a fused product and sum rounded to odd is valid."""
    return is_between(magnitude) & less(SMALL, as_words(as_singles(x) * as_singles(y)) & _MAGNITUDE)


#: Operations by name.
OPERATIONS: dict[str, Any] = {
    "add": add,
    "subtract": subtract,
    "multiply": multiply,
    "divide": divide,
    "sqrt": sqrt,
    "fma": fma,
}

#: The same for targets that binary32 suffices for, each with what tells results that are right. Others are
#: done in binary64.
SHORT: dict[str, tuple[Any, Any]] = {
    "add": (add_short, sum_fits),
    "subtract": (subtract_short, sum_fits),
    "multiply": (multiply_short, product_fits),
    "divide": (divide_short, rest_fits),
    "sqrt": (sqrt_short, rest_fits),
    "fma": (fma_short, fma_fits),
}

#: The same for binary32 itself.
NATIVE: dict[str, tuple[Any, Any]] = {
    "add": (add_native, number_fits),
    "subtract": (subtract_native, number_fits),
    "multiply": (multiply_native, number_fits),
    "divide": (divide_native, number_fits),
    "sqrt": (sqrt_native, number_fits),
    "fma": (fma_native, number_fits),
}


def is_short(operation: str, fmt: Format, rounding: Rounding) -> bool:
    """Return whether binary32 numbers, rounded to odd, suffice on the way to a format.

    They do if all its values, and the gaps between them, lie between 2**-60 and 2**60, and its precision
    leaves two bits of 20, half of a last place and what is left below, beside those of random integers. Small
    sums are exact in binary32; how far one is above the largest number, only random integers ask.
    """
    if operation not in SHORT or rounding.bits + (rounding.variant == "B") >= 20 - fmt.trailing_bits:
        return False
    least = fmt.emin - fmt.trailing_bits
    if operation in ("add", "subtract") and not rounding.bits and fmt.emax <= 127 and least >= -149:
        return fmt.trailing_bits <= 18
    return fmt.emax < 60 and least > -60 and fmt.trailing_bits <= 18


# -- loops -------------------------------------------------------------------------------------------


@helper
def nan_signed(word: Lanes, x: Lanes, y: Lanes, z: Lanes, infinity: int, nan: int) -> Lanes:
    """NaNs with the sign of the first NaN among the operands, or +."""
    sign = choose(not_a_number(z), z & _SIGN, 0)
    sign = choose(not_a_number(y), y & _SIGN, sign)
    sign = choose(not_a_number(x), x & _SIGN, sign)
    return choose(less(infinity, word & _MAGNITUDE), sign | nan, word)


@functools.cache
def kernel(operation: str, shapes: tuple[Shape, ...], short: bool, native: bool = False) -> Kernel:
    """Return the kernel of an operation for plans of these shapes; `short`: near 1; `native`: binary32.

    Called as kernel(plan, random, steps, x, y, z, out), with one-dimensional arrays of one size, and a
    step of 1, or of LANES times the same operand with a step of 0; operands that the operation does not
    take are the first once more. `random` holds an integer for each element, or none at all.
    """
    x_shape, y_shape, z_shape, target_shape, result_shape, carrier_shape = shapes
    in_doubles = OPERATIONS[operation]
    natively, _ = NATIVE[operation]
    operate, fits = SHORT[operation] if short else NATIVE[operation] if native else (in_doubles, any_fit)
    infinity, nan = (_SHORT_INFINITY, _SHORT_NAN) if short or native else (_INFINITY, _NAN)
    count = operands_of(operation)
    name = f"_{operation}{'_short' * short}{'_native' * native}" + "".join(
        "_" + ".".join(map(str, shape)) for shape in shapes
    )

    def elements(
        plan: Words, random: Words, steps: tuple[int, int, int], x: Codes, y: Codes, z: Codes, out: Codes
    ) -> int:
        """Whole vectors, then the rest in one that is filled up."""
        x_source, y_source = load_decoder(plan, PROBE, x_shape), load_decoder(plan, _Y, y_shape)
        z_source, target = load_decoder(plan, _Z, z_shape), load_encoder(plan, TARGET, target_shape)
        result, carrier = (
            load_decoder(plan, RESULT, result_shape),
            load_encoder(plan, _CARRIER, carrier_shape),
        )
        if not rounds_to_nearest(plan) or not keeps_subnormals(plan, plan[DOWNWARD + 1]):
            return UNSUITED
        status, random_word, past, downward = DONE, fill(0), plan[PAST] != 0, plan[DOWNWARD]
        x_step, y_step, z_step = steps
        whole = out.size - out.size % LANES
        first, second, third, words, made, size = x, y, z, random, out, whole
        for part in range(2):
            if part == 1:
                first, second = padded(x, whole * x_step), padded(y, whole * y_step)
                third, words = padded(z, whole * z_step), padded(random, min(whole, random.size))
                made, size = padded(out, out.size), out.size - whole
            for i in range(0, size, LANES):
                a = b = c = read(load(first, i * x_step), x_source)
                if count > 1:
                    b = c = read(load(second, i * y_step), y_source)
                if count > 2:
                    c = read(load(third, i * z_step), z_source)
                word = operate(a, b, c, downward)
                right = fits(word & _MAGNITUDE, a, b)
                if not all_lanes(right):
                    if short:
                        special = beyond(a) | beyond(b) | beyond(c)
                        word, right = choose(special, natively(a, b, c, downward), word), right | special
                        if not all_lanes(right):
                            word = choose(right, word, shortened(in_doubles(a, b, c, downward)))
                    word = nan_signed(word, a, b, c, infinity, nan)
                    if target.refuses != 0 and any_lane(less(infinity, word & _MAGNITUDE)):
                        status = REFUSED
                if target.limits == DRAWN:
                    random_word = load(words, i) << (32 - target.bits)
                word = read(project(word, random_word, target), result)
                put(made, i, carried(word, carrier), past)
        settle()
        put_rest(out, whole, made)
        return status

    if any(shapes):
        return jit(elements, f"operate{name}")
    return jit_for_all(elements, f"operate{name}", slice(3, None))
