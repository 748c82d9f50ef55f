"""Kernels of blocks of any format: the largest magnitude, the scale, the elements.

Values are read, divided and projected in 64-bit lanes; `scales` has what divides them. Where lanes are not
exact, for values of more than 53 bits and for few elements in codebooks, the scalar kernels divide and
project, element by element.

Floor 2b. Imports numba through `jit`; never the oracle, which checks it.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from lowprec.kernels.general.codebooks import answered
from lowprec.kernels.general.kernel import counted, narrow, widen
from lowprec.kernels.general.numbers import CHUNK, Lane, parted, pick, read
from lowprec.kernels.general.operations import long_product
from lowprec.kernels.general.quotients import quotient
from lowprec.kernels.general.rounding import (
    MOST,
    MOST_EXPONENT,
    drawn_limit,
    load_target,
    project,
    project_usual,
    to_odd,
    to_single,
)
from lowprec.kernels.general.scales import (
    BLANK,
    FINITE_ZEROS,
    INFINITE,
    NANS,
    NOT_A_NUMBER,
    ZEROS,
    normalized,
)
from lowprec.kernels.jit import bit_length, helper, in_wide_vectors, inlined, jit, load_record
from lowprec.kernels.lower.block import ARITHMETICS, Tensor
from lowprec.kernels.lower.kinds import FINITE, INFINITY, NAN
from lowprec.kernels.lower.records import REFUSED, Source
from lowprec.kernels.scalar.block import quotient as wide_quotient
from lowprec.kernels.scalar.convert import load_grid, project as project_one

__all__ = ["POWERS", "decoder", "encoder", "magnitudes"]

_U = np.uint64
_I = np.int64
_0, _40, _REFUSED = _U(0), _U(40), _U(REFUSED)
#: Above all magnitudes, and none that stands for infinity.
_BEYOND = _U((1 << 64) - 2)

#: Set in what is known of a block if it holds finite values; and of a scale if it is negative.
_FINITE = _U(4)
_NEGATIVE = _U(4)

_EXACT, _PRODUCT = ARITHMETICS.index("exact"), ARITHMETICS.index("product")

#: Instead of a place in ARITHMETICS: exact quotients by powers of two.
POWERS = len(ARITHMETICS)


@jit
def magnitudes(
    values: Any, value_size: int, source_words: Any, size: int, amax: Any, places: Any, kinds: Any, words: Any
) -> None:
    """Write the largest finite magnitude of each block, normalized, and what it holds besides finite values.

    Magnitudes of codes are in the order of values, infinities and NaNs last: only the largest is read.
    """
    in_wide_vectors()
    source = load_record(Source, source_words, 0)
    total, block, left, most, held = values.size // value_size, 0, size, _0, _0
    for start in range(0, total, CHUNK):
        count = min(CHUNK, total - start)
        widen(values, value_size, start, words, 0, count)
        for i in range(count):
            _, magnitude, _, _, not_a_zero = parted(words[i], source, False)
            words[_U(CHUNK + i)] = pick(not_a_zero, _BEYOND, magnitude)
        done = 0
        while done < count:
            some, largest = min(left, count - done), _0
            for i in range(done, done + some):
                largest = max(largest, words[_U(CHUNK + i)])
            if largest <= source.max_magnitude:
                most, held = max(most, largest), held | _FINITE
            else:
                for i in range(done, done + some):
                    magnitude = words[_U(CHUNK + i)]
                    if magnitude <= source.max_magnitude:
                        most, held = max(most, magnitude), held | _FINITE
                    else:
                        held |= INFINITE if magnitude == source.infinity else NOT_A_NUMBER
            done, left = done + some, left - some
            if left == 0:
                amax[block], kinds[block] = most, held
                block, left, most, held = block + 1, size, _0, _0
    for i in range(amax.size):
        x = read(amax[i], source, False)
        significand, places[i] = normalized(x.significand, x.exponent)
        amax[i] = pick(kinds[i] & _FINITE != _0, significand, _0)


@inlined
def divided(
    significand: np.uint64, exponent: np.int64, by: np.uint64, by_exponent: np.int64, arithmetic: int
) -> tuple[np.uint64, np.int64]:
    """Divide a value by its scale, or multiply it by the factor that stands for that."""
    if arithmetic == POWERS:
        return pick(by == _0, _0, significand), exponent - by_exponent - _I(63)
    if arithmetic == _EXACT:
        found, place = quotient(significand, exponent, by, by_exponent)
        return pick((significand == _0) | (by == _0), _0, found), place
    significand, exponent = to_single(significand, exponent)
    if arithmetic == _PRODUCT:
        zero, by_zero = significand == _0, by == _0
        significand, exponent = quotient(significand, exponent, by, by_exponent)
        significand = pick(zero, _0, pick(by_zero, MOST, significand))
        exponent = pick(by_zero, MOST_EXPONENT, exponent)
    else:
        significand, exponent = significand * (by >> _40), exponent + by_exponent + _I(40)
    return to_single(significand, exponent)


@helper
def spread(
    factors: Any, exponents: Any, kinds: Any, size: int, block: int, left: int, words: Any, count: int
) -> tuple[int, int]:
    """Write what each of `count` elements has from its block of `size`, of which `left` are to come.

    It returns the block of the next element, and how many of that are to come.
    """
    done = 0
    while done < count:
        some = min(left, count - done)
        factor, exponent, kind = factors[block], _U(exponents[block]), kinds[block]
        for i in range(done, done + some):
            words[_U(CHUNK + i)] = factor
            words[_U(2 * CHUNK + i)] = exponent
            words[_U(3 * CHUNK + i)] = kind
        done, left = done + some, left - some
        if left == 0:
            block, left = block + 1, size
    return block, left


@functools.cache
def encoder(arithmetic: int, lanes: bool, stochastic: bool, book: bool, usual: bool) -> Any:
    """Return the kernel that writes elements; it returns how many are refused, and the index of the first.

    `arithmetic` is a place in ARITHMETICS, or POWERS; `lanes` says that lanes are exact, `usual` that the
    element is so to `rounding.project_usual`, `book` that it is a codebook.
    """
    place = to_odd if book else project_usual if usual else project
    signals = not usual  # which flush results

    def encode(
        values: Any, value_size: int, source_words: Any, size: int, out: Any, out_size: int,
        element_words: Any, divisors: Any, exponents: Any, kinds: Any, random: Any, words: Any,
    ) -> tuple[int, int]:  # fmt: skip
        if lanes:
            in_wide_vectors()
        source, target = load_record(Source, source_words, 0), load_target(element_words)
        grid = load_grid(element_words)
        refused, first, block, left, total = 0, -1, 0, size, values.size // value_size
        for start in range(0, total, CHUNK):
            count = min(CHUNK, total - start)
            widen(values, value_size, start, words, 0, count)
            block, left = spread(divisors, exponents, kinds, size, block, left, words, count)
            refuses = False
            for i in range(count):
                x = read(words[i], source, False)
                by, by_exponent, becomes = (
                    words[_U(CHUNK + i)],
                    _I(words[_U(2 * CHUNK + i)]),
                    words[_U(3 * CHUNK + i)],
                )
                number = not (x.nan | x.infinite)
                if lanes or arithmetic != _EXACT:
                    made, exponent = divided(x.significand, x.exponent, by, by_exponent, arithmetic)
                else:
                    made, exponent = wide_quotient(x.significand, x.exponent, by, by_exponent)
                nans = becomes & NANS != _0
                zero = (becomes & ZEROS != _0) | ((becomes & FINITE_ZEROS != _0) & number)
                made = pick(nans, _0, pick(x.nan, x.significand, pick(zero, _0, made)))
                negative, infinite = x.negative & (not nans), x.infinite & (not zero) & (not nans)
                if lanes:
                    element = Lane(negative, made, exponent, infinite, x.nan | nans, False, False)
                    drawn = drawn_limit(_U(random[_U(start + i)]), target.grid) if stochastic else _0
                    code, _ = place(element, False, drawn, target, stochastic, signals)
                else:
                    kind = NAN if x.nan or nans else INFINITY if infinite else FINITE
                    word = _U(random[_U(start + i)]) if stochastic else _0
                    code, _ = project_one(kind, negative, made, _0, exponent, word, grid, element_words)
                code = pick(becomes & BLANK != _0, _0, code)
                words[i] = code
                refuses |= code == _REFUSED
            if lanes and book:
                drawn_by = random[start : start + count]
                refuses = answered(words[:count], words[:0], element_words, drawn_by, stochastic, False, True)
                for i in range(count):
                    words[i] = pick(words[_U(3 * CHUNK + i)] & BLANK != _0, _0, words[i])
            if refuses:
                refused, first = counted(words, 0, count, start, refused, first)
            narrow(words, 0, count, out, out_size, start)
        return refused, first

    return jit(encode, f"general_blocks_{arithmetic}{lanes:d}{stochastic:d}{book:d}{usual:d}")


@inlined
def whole(significand: np.uint64, exponent: np.int64) -> tuple[np.uint64, np.int64]:
    """Return the same number with an odd significand, or zero."""
    zeros = _I(bit_length(significand & (_0 - significand))) - _I(1)
    zero = significand == _0
    return pick(zero, _0, significand >> _U(max(zeros, _I(0)))), exponent + pick(zero, _I(0), zeros)


@functools.cache
def decoder(usual: bool) -> Any:
    """Return the kernel that writes the values of elements: products with their scale, rounded once."""
    place = project_usual if usual else project

    def decode(
        codes: Any, code_size: int, element_words: Any, size: int, scales: Any, scale_words: Any,
        tensor_words: Any, out: Any, out_size: int, out_words: Any, words: Any,
    ) -> None:  # fmt: skip
        in_wide_vectors()
        element, source = load_record(Source, element_words, 0), load_record(Source, scale_words, 0)
        tensor, target = load_record(Tensor, tensor_words, 0), load_target(out_words)
        factors, exponents = np.empty(scales.size, np.uint64), np.empty(scales.size, np.int64)
        kinds = np.empty(scales.size, np.uint64)
        part, place_of_part = whole(tensor.scale, tensor.scale_exponent)
        for block in range(scales.size):
            by = read(scales[block], source, False)
            factor, exponent = whole(by.significand, by.exponent)
            factors[block] = factor * part  # together they have at most 64 bits
            exponents[block] = exponent + place_of_part
            kinds[block] = (
                _U(by.negative) * _NEGATIVE | _U(by.infinite) * INFINITE | _U(by.nan) * NOT_A_NUMBER
            )
        block, left, total = 0, size, codes.size // code_size
        for start in range(0, total, CHUNK):
            count = min(CHUNK, total - start)
            widen(codes, code_size, start, words, 0, count)
            block, left = spread(factors, exponents, kinds, size, block, left, words, count)
            for i in range(count):
                x, scale, kind = (
                    read(words[i], element, False),
                    words[_U(CHUNK + i)],
                    words[_U(3 * CHUNK + i)],
                )
                significand, exponent = long_product(
                    x.significand, x.exponent, scale, _I(words[_U(2 * CHUNK + i)])
                )
                infinite = x.infinite | (kind & INFINITE != _0)
                zero = (x.significand == _0) & (not x.infinite)
                zero |= (scale == _0) & (kind & INFINITE == _0)
                nan = x.nan | (kind & NOT_A_NUMBER != _0) | (infinite & zero)
                negative = (x.negative != (kind & _NEGATIVE != _0)) & (not nan)
                value = Lane(
                    negative, pick(infinite | nan, _0, significand), exponent, infinite & (not nan), nan,
                    False, False,
                )  # fmt: skip
                words[i], _ = place(value, False, _0, target, False, False)
            narrow(words, 0, count, out, out_size, start)

    return jit(decode, f"general_unblocks_{usual:d}")
