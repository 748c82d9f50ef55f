"""Dot products in binary64: every product, and every sum that must be exact, is a binary64 number.

Loops over columns, which the compiler makes vectors of. Operands are binary64 numbers that the caller has
looked at: products and the sums of a block are exact. What cannot be said (infinities, NaN) is not finite in
the results, and is done by the scalar engine.

Floor 2b. Imports numba through `jit`; never the oracle, which checks it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.kernels.jit import helper, inlined, jit
from lowprec.kernels.lower.vector import PAST, Words
from lowprec.kernels.vector.convert import DONE, UNSUITED, keeps_subnormals, rounds_to_nearest
from lowprec.kernels.vector.rounding import (
    added_exact,
    added_once,
    made_odd,
    nearest_single,
    summed_to_odd,
    three_to_odd,
    with_error,
)

__all__ = [
    "JOINS",
    "doubles_added",
    "exponent_of",
    "joined",
    "power",
    "products_joined",
    "sequence",
    "singles_between",
    "terms_added",
]

Numbers = npt.NDArray[Any]  #: of binary64, but for results in binary32
Codes = npt.NDArray[Any]

#: Columns and rows of sums of single terms: fewer are as many reads, and more than three rows are slower.
_COLUMNS, _ROWS = 128, 3

#: Terms that a sum gets, one after the other, between being read and written.
_TERMS = 4


@jit
def sequence(x: Numbers, y: Numbers, out: Numbers, plan: Words) -> int:
    """Add products of rows of x and columns of y to `out`, one after the other, rounding to binary64."""
    if not rounds_to_nearest(plan) or not keeps_subnormals(plan, plan[PAST]):
        return UNSUITED
    length, several = x.shape[1], x.shape[1] - x.shape[1] % _TERMS
    a, b, c = np.empty(_COLUMNS), np.empty(_COLUMNS), np.empty(_COLUMNS)
    for j in range(0, y.shape[1], _COLUMNS):
        width = min(_COLUMNS, y.shape[1] - j)
        columns = slice(j, j + width)
        for i in range(0, x.shape[0], _ROWS):
            # The last rows are taken again where there are fewer: all are done alike.
            second, third = min(i + 1, x.shape[0] - 1), min(i + 2, x.shape[0] - 1)
            a[:width], b[:width], c[:width] = out[i, columns], out[second, columns], out[third, columns]
            for k in range(0, several, _TERMS):
                a0, a1, a2, a3 = x[i, k], x[i, k + 1], x[i, k + 2], x[i, k + 3]
                b0, b1, b2, b3 = x[second, k], x[second, k + 1], x[second, k + 2], x[second, k + 3]
                c0, c1, c2, c3 = x[third, k], x[third, k + 1], x[third, k + 2], x[third, k + 3]
                y0, y1, y2, y3 = y[k, columns], y[k + 1, columns], y[k + 2, columns], y[k + 3, columns]
                for n in range(width):
                    a[n] = a[n] + a0 * y0[n] + a1 * y1[n] + a2 * y2[n] + a3 * y3[n]
                    b[n] = b[n] + b0 * y0[n] + b1 * y1[n] + b2 * y2[n] + b3 * y3[n]
                    c[n] = c[n] + c0 * y0[n] + c1 * y1[n] + c2 * y2[n] + c3 * y3[n]
            for k in range(several, length):
                a0, b0, c0, y0 = x[i, k], x[second, k], x[third, k], y[k, columns]
                for n in range(width):
                    a[n] += a0 * y0[n]
                    b[n] += b0 * y0[n]
                    c[n] += c0 * y0[n]
            out[i, columns], out[second, columns], out[third, columns] = a[:width], b[:width], c[:width]
    return DONE


@inlined
def join_rounded(total: np.float32, term: np.float64, rest: np.float64) -> np.float32:
    """Add a product that is rounded to binary32 first."""
    return total + np.float32(made_odd(term, rest))


@inlined
def join_doubles(total: np.float64, term: np.float64, rest: np.float64) -> np.float64:
    """Add an exact product to a binary64 number, rounded once."""
    high, low = three_to_odd(total, term, rest)
    return high + low


#: How a product, as a binary64 number and what that was rounded by, joins a sum.
JOINS: dict[str, Any] = {"fused": added_once, "rounded": join_rounded, "doubles": join_doubles}


@functools.cache
def products_joined(join: str) -> Callable[..., int]:
    """Return the kernel that adds products of rows of x and columns of y, one after the other, to `out`.

    Called as kernel(x, x_high, y, y_high, out, plan): binary64 numbers, zeros or of magnitudes from 2**-400
    to 2**400, and what `halved` makes of them. Results that are infinite, NaN or zero are of no use, nor are
    zeros on the way for the sign of a zero.
    """
    joined = JOINS[join]

    def rows(x: Numbers, x_high: Numbers, y: Numbers, y_high: Numbers, out: Numbers, plan: Words) -> int:
        if not rounds_to_nearest(plan) or not keeps_subnormals(plan, plan[PAST]):
            return UNSUITED
        for j in range(0, y.shape[1], _COLUMNS):
            columns = slice(j, min(j + _COLUMNS, y.shape[1]))
            for i in range(x.shape[0]):
                sums = out[i, columns]
                for k in range(x.shape[1]):
                    a, high, row, highs = x[i, k], x_high[i, k], y[k, columns], y_high[k, columns]
                    low = a - high
                    for c in range(sums.size):
                        term, y_low = a * row[c], row[c] - highs[c]
                        rest = low * y_low - (((term - high * highs[c]) - low * highs[c]) - high * y_low)
                        sums[c] = joined(sums[c], term, rest)
        return DONE

    return jit(rows, f"products_joined_{join}")


@inlined
def joined_parts(parts: Numbers, row: int, terms: Numbers, rests: Numbers) -> bool:
    """Write the sums of the parts of a row, and what they were rounded by; return whether that is nothing."""
    terms[:], rests[:], lost = parts[0, row], 0.0, np.uint64(0)
    for place in range(1, len(parts)):
        more = parts[place, row]
        for c in range(more.size):
            terms[c], error = with_error(terms[c], np.float64(more[c]))
            rests[c] += error
            lost |= np.float64(error).view(np.uint64)
    return bool(lost << np.uint64(1) == np.uint64(0))


@helper
def exact_added(terms: Numbers, scale: np.float64, y_scales: Numbers, rounds: bool, sums: Numbers) -> None:
    """Add exact terms times their scales to a row of binary32 sums."""
    if rounds:
        for c in range(sums.size):
            sums[c] += np.float32(nearest_single(terms[c] * (scale * y_scales[c])))
    else:
        for c in range(sums.size):
            sums[c] = added_exact(sums[c], terms[c] * (scale * y_scales[c]))


@jit
def terms_added(
    parts: Numbers, x_scales: Numbers, y_scales: Numbers, rounds: bool, out: Numbers, plan: Words
) -> int:
    """Add a term to each of `out`, binary32 numbers: a sum of `parts`, exact, times both scales.

    It is rounded to binary32 before if `rounds`. Of more than one part scales are powers of two.
    """
    if not rounds_to_nearest(plan) or not keeps_subnormals(plan, plan[PAST]):
        return UNSUITED
    terms, rests = np.empty(out.shape[1]), np.empty(out.shape[1])
    for i in range(out.shape[0]):
        scale, sums = x_scales[i], out[i]
        if len(parts) == 1:
            exact_added(parts[0, i], scale, y_scales, rounds, sums)
        elif joined_parts(parts, i, terms, rests):
            exact_added(terms, scale, y_scales, rounds, sums)
        elif rounds:
            for c in range(sums.size):
                by = scale * y_scales[c]
                sums[c] += added_once(np.float32(0), terms[c] * by, rests[c] * by)
        else:
            for c in range(sums.size):
                by = scale * y_scales[c]
                sums[c] = added_once(sums[c], terms[c] * by, rests[c] * by)
    return DONE


@jit
def doubles_added(parts: Numbers, x_scales: Numbers, y_scales: Numbers, out: Numbers, plan: Words) -> int:
    """Add a term to each of `out`, binary64 numbers; see `terms_added`."""
    if not rounds_to_nearest(plan) or not keeps_subnormals(plan, plan[PAST]):
        return UNSUITED
    terms, rests = np.empty(out.shape[1]), np.empty(out.shape[1])
    for i in range(out.shape[0]):
        scale, sums, first = x_scales[i], out[i], parts[0, i]
        if len(parts) == 1:
            for c in range(sums.size):
                sums[c] += first[c] * (scale * y_scales[c])
        elif joined_parts(parts, i, terms, rests):
            for c in range(sums.size):
                sums[c] += terms[c] * (scale * y_scales[c])
        else:
            for c in range(sums.size):
                by = scale * y_scales[c]
                high, low = three_to_odd(sums[c], terms[c] * by, rests[c] * by)
                sums[c] = high + low
    return DONE


@jit
def joined(parts: Numbers, base: int, bits: int, out: Numbers, plan: Words) -> int:
    """Write the sums of the numbers in each column of `parts`, exact and then rounded to odd.

    A column is a number in digits, the highest first: each is a multiple of its unit, and below 2**53 units.
    The last one's unit is 2**base, and each of the others is 2**bits times the next.
    """
    if not rounds_to_nearest(plan) or not keeps_subnormals(plan, plan[PAST]):
        return UNSUITED
    last, shift = parts.shape[0] - 1, np.int64(bits)
    units = np.array([power(np.float64(-base - (last - place) * bits)) for place in range(last + 1)])
    digits, mask = np.empty(last + 1, np.int64), (np.int64(1) << shift) - np.int64(1)
    for i in range(out.size):
        carry = np.int64(0)
        for place in range(last, 0, -1):
            number = np.int64(parts[place, i] * units[place]) + carry
            digits[place], carry = number & mask, number >> shift
        number = np.int64(parts[0, i] * units[0]) + carry
        place, lost = 1, np.int64(0)
        while place <= last and abs(number) >> (np.int64(62) - shift) == np.int64(0):
            number = number << shift | digits[place]
            place += 1
        exponent = base + (last + 1 - place) * bits
        while place <= last:
            lost |= digits[place]
            place += 1
        number |= np.int64(lost != np.int64(0))
        low = number & np.int64(0xFFFFFFFF)
        out[i] = summed_to_odd(np.float64(number - low), np.float64(low)) * power(np.float64(exponent))
    return DONE


@jit
def singles_between(
    numbers: Numbers, factor: float, relative: float, errors: Numbers, out: Codes, rest: Codes, plan: Words
) -> int:  # fmt: skip
    """Write numbers times a factor as patterns of binary32; mark in `rest` what their bounds do not decide.

    A number may be wrong by its column's of `errors`, and by `relative` times itself; see `dot_program`.
    """
    if not rounds_to_nearest(plan) or not keeps_subnormals(plan, plan[PAST]):
        return UNSUITED
    for i in range(out.shape[0]):
        for c in range(out.shape[1]):
            number = numbers[i, c] * factor
            size = abs(number)
            error = size * relative + errors[c]
            same = nearest_single(number - error) == nearest_single(number + error)
            zero = (numbers[i, c] == 0.0) & (relative > 0.0)
            rest[i, c] = not (same & (((size > error) & (size > 2.0**-1000) & (size < 2.0**1000)) | zero))
            out[i, c] = np.float32(nearest_single(number)).view(np.uint32)
    return DONE


@inlined
def exponent_of(x: np.float64) -> np.float64:
    """Return the exponent of a number that is not subnormal; -1023 of zero, 1000 of what is not finite."""
    field = np.int64(np.float64(x).view(np.uint64) >> np.uint64(52) & np.uint64(0x7FF))
    return np.float64((field if field != np.int64(0x7FF) else np.int64(2023)) - np.int64(1023))


@inlined
def power(exponent: np.float64) -> np.float64:
    """Return two to the power of an integer from -1022 to 1023."""
    return np.uint64((np.int64(exponent) + np.int64(1023)) << np.int64(52)).view(np.float64)
