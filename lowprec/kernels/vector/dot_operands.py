"""Operands of dot products as the vector kernels take them: rows of binary32 or binary64 numbers.

Floor 2b. Imports spec and NumPy.
"""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lowprec.kernels import engine
from lowprec.kernels.codes import code_dtype, unlocked
from lowprec.kernels.engine import Rows
from lowprec.kernels.lower.words import DOUBLE, POWERS, SINGLE
from lowprec.kernels.request import CONVERT, Elementwise, known
from lowprec.kernels.vector.dot import BIAS
from lowprec.kernels.vector.exact import NO_BIT, extent
from lowprec.spec.accumulation import Window
from lowprec.spec.format import Format
from lowprec.spec.projection import DEFAULT, Projection

__all__ = [
    "MOST_PARTS",
    "Exact",
    "Prepared",
    "converted",
    "cut_in_slices",
    "enclosed",
    "doubles",
    "finite",
    "halved",
    "placed",
    "places_of",
    "precision_of",
    "prepared",
    "products",
    "quiet",
    "raised_by",
    "scaled",
    "singles",
    "slices",
    "span",
    "values",
]

Array = npt.NDArray[Any]

#: The most slices of an operand of exact sums: the square of it is how many products of matrices there are.
_SLICES = 8

#: Products of a run: sums of runs are then added, so that errors are those of fewer additions.
_RUN = 128

#: Magnitudes of factors, and their inverses, up to which products have an exact rounding error; 2**27 + 1.
_FAR, _HALVES = float.fromhex("0x1p400"), float.fromhex("0x1.0000002p27")

#: Binary64 numbers of an exact sum, at most: a product of two slices adds to one of these.
MOST_PARTS = 2 * _SLICES - 1


def scaled(rows: Rows, fmt: Format) -> Array | None:
    """Return rows times their scales, as patterns; None where binary32 does not hold them."""
    if fmt == DOUBLE:
        return rows.codes
    words = singles(rows.codes, fmt)
    if rows.scales is None or rows.scale_fmt is None:
        return words
    if not SINGLE.contains(rows.scale_fmt):
        return None
    scales = singles(rows.scales, rows.scale_fmt).view(np.float32).astype(np.float64)
    exact = words.view(np.float32) * scales[:, np.arange(words.shape[1]) // rows.block]
    with np.errstate(all="ignore"):
        made = exact.astype(np.float32)
    same = (made == exact) | np.isnan(exact)
    return made.view(np.uint32) if same.all() else None


def finite(words: Array) -> tuple[Array, Array]:
    """Rows with zeros in place of those that have an infinity or NaN, and which these are."""
    infinity = words.dtype.type((0x7FF << 52) if words.dtype == np.uint64 else 0x7F800000)
    others = ((words & infinity) == infinity).any(axis=1)
    return (np.where(others[:, None], words.dtype.type(0), words) if others.any() else words), others


def doubles(codes: Array, fmt: Format) -> tuple[Array, Array]:
    """Rows of binary64 numbers, zeros in those with any whose products are not exact; and which these are."""
    numbers = (codes if fmt == DOUBLE else converted(codes, fmt, DOUBLE, DEFAULT)).view(np.float64)
    size = np.abs(numbers)
    others = ~((size == 0) | ((size >= 1 / _FAR) & (size <= _FAR))).all(axis=1)
    return (np.where(others[:, None], 0.0, numbers) if others.any() else numbers), others


def halved(numbers: Array) -> Array:
    """Return numbers rounded to 26 bits, so that products of these, and of the rests, are exact.

    Source: [DEKKER].
    """
    wide = numbers * _HALVES
    return wide - (wide - numbers)


class Exact(NamedTuple):
    """Exact sums of a few binary64 numbers each, the highest first, and their units: see `doubles.joined`."""

    parts: list[Array]
    base: int
    bits: int


def enclosed(few: Array, many: Array, low: int) -> tuple[Array, Array]:
    """Return sums of products of rows in binary64, and a bound of the errors for each of many rows.

    `few` are binary64 numbers, multiples of 2**low. Products are exact and no sum of them is subnormal: an
    error is at most a unit of 2**-52 for each addition, of the sum of all magnitudes, however the processor
    rounds. The factor 2 is for rounding that sum, and what is then added to the results. Nothing is rounded
    where all magnitudes together are below 2**53 units of the least product.
    """
    numbers = np.ascontiguousarray(many.T).view(np.float32).astype(np.float64)
    sums = np.zeros((len(few), len(many)))
    for start in range(0, len(numbers), _RUN):
        sums += np.matmul(few[:, start : start + _RUN], numbers[start : start + _RUN])
    np.abs(numbers, out=numbers)
    error = np.matmul(np.abs(few).max(axis=0), numbers)
    numbers[numbers == 0] = np.inf
    exact = error <= numbers.min(axis=0) * 2.0 ** (53 - 24 - 1 + low)
    error *= 2.0**-51 * (_RUN + -(-len(numbers) // _RUN) + 2)
    error[exact] = 0
    return sums, error


def products(x: Array, y: Array, most: int) -> Exact | None:
    """Return exact sums of products as at most `most` binary64 numbers each; None where these are too few.

    Operands are cut into slices of few bits, so that binary64 holds every sum of products of two slices, in
    any order. Source: [OZAKI].
    """
    (x_low, x_high), (y_low, y_high) = span(x), span(y)
    length = x.shape[1].bit_length()
    if x_low + y_low < -1000 or min(x_low, y_low) < -900:
        return None
    one = x_high + y_high + length - (x_low + y_low) <= 53
    bits = (53 - length - 3) // 2
    if not one and (most == 1 or bits < 8 or max(x_high - x_low, y_high - y_low) > _SLICES * bits):
        return None
    left, right = (values(side) for side in (x, y.T))
    if one:
        return Exact([np.matmul(left, right)], x_low + y_low, 53)
    rows, columns = slices(left, x_low, x_high, bits), slices(right, y_low, y_high, bits)
    parts = [np.zeros((len(left), right.shape[1])) for _ in range(len(rows) + len(columns) - 1)]
    for i, row in enumerate(rows):
        for j, column in enumerate(columns):
            parts[i + j] += np.matmul(row, column)  # of at most 8 such: three bits
    return Exact(parts, x_low + y_low, bits)


def slices(numbers: Array, low: int, high: int, bits: int) -> list[Array]:
    """Numbers as sums of multiples of 2**(low + i * bits) below 2**(low + (i + 1) * bits), largest first."""
    made = []
    for place in reversed(range(low + bits, high, bits)):
        part = numbers * 2.0**-place
        np.trunc(part, out=part)
        part *= 2.0**place
        made.append(part)
        numbers = numbers - part
    return [*made, numbers]


def cut_in_slices(
    x: Array, y: Array, x_span: tuple[int, int], y_span: tuple[int, int], room: int, most: int
) -> tuple[list[Array], list[Array]] | None:
    """Return both operands as sums of slices, of which any two have at most `room` bits together.

    There are as few products of two slices as can be; None where that takes more than `most`.
    """
    x_bits, y_bits = (max(1, high - low) for low, high in (x_span, y_span))
    pairs = itertools.product(range(1, most + 1), repeat=2)
    fits = [
        (math.prod(pair), max(pair), pair) for pair in pairs
        if math.prod(pair) <= most and -(-x_bits // pair[0]) - (-y_bits // pair[1]) <= room
    ]  # fmt: skip
    if not fits:
        return None
    first, second = min(fits)[2]
    return (
        [x] if first == 1 else slices(x, *x_span, -(-x_bits // first)),
        [y] if second == 1 else slices(y, *y_span, -(-y_bits // second)),
    )


def converted(codes: Array, source: Format, target: Format, rule: Projection) -> Array:
    """Codes of one format as those of another, columns in memory as these."""
    if codes.ndim == 2 and codes.flags.f_contiguous and not codes.flags.c_contiguous:
        return converted(codes.T, source, target, rule).T
    program = engine.lower(known(Elementwise, CONVERT, (source,), target, rule))
    flat, out = np.ascontiguousarray(codes).reshape(-1), np.empty(codes.size, code_dtype(target))
    program.run([flat], out, np.empty(0, np.uint8), np.empty(0, np.uint32))
    return out.reshape(codes.shape)


def singles(codes: Array, fmt: Format) -> Array:
    """Return the values of rows of codes, as patterns of binary32."""
    return codes.view(np.uint32) if fmt == SINGLE else converted(codes, fmt, SINGLE, DEFAULT)


def raised_by(side: Rows) -> Array | None:
    """Return the exponent of each element's scale, 0 of NaN; None where scales are no powers of two."""
    if side.scales is None or side.scale_fmt != POWERS:
        return None
    exponents = np.where(side.scales == POWERS.nan_code, 0, side.scales.astype(np.int32) - POWERS.bias)
    return exponents[:, np.arange(side.codes.shape[1]) // side.block]


def precision_of(words: Array, fmt: Format) -> int:
    """Return the bits of the widest significand: of the format, or of the numbers given."""
    if fmt.precision <= 8:
        return fmt.precision
    used = int(np.bitwise_or.reduce(words, axis=None)) & 0x7FFFFF | 0x800000
    return 24 - ((used & -used).bit_length() - 1)


def quiet(words: Array) -> Array:
    """NaNs without payload: the processor then keeps them apart from numbers, however sums are rounded."""
    nan = np.isnan(words.view(np.float32))
    return np.where(nan, np.uint32(0x7FC00000), words) if nan.any() else words


def span(words: Array) -> tuple[int, int]:
    """Return low and high: finite numbers are multiples of 2**low and below 2**high."""
    if words.dtype == np.uint64:
        fractions, powers = np.frexp(values(words[words << np.uint64(1) != 0]))
        integers = np.int64(np.ldexp(fractions, 53))
        _, last = np.frexp((integers & -integers).astype(np.float64))
        return (int((powers + last).min()) - 54, int(powers.max())) if last.size else (200, 200)
    low, high = extent(unlocked(words.ravel(order="K")))
    return (low - 277, high - 126) if low < NO_BIT else (200, 200)


def values(words: Array) -> Array:
    """Return patterns as binary64 numbers."""
    return words.view(np.float64) if words.dtype == np.uint64 else words.view(np.float32).astype(np.float64)


class Prepared(NamedTuple):
    """Operands with their scales, exponents for windows, with BIAS or 0 for zeros, and the extreme ones."""

    words: Array
    exponents: Array
    low: int
    high: int


def prepared(words: Array, raised: Array | None, fmt: Format) -> Prepared | None:
    """Operands, which are finite; None where they are not with their scales."""
    fields = (words >> 23) & 0xFF
    numbers = (words & 0x7FFFFFFF) != 0
    exponents = np.maximum(fields.astype(np.int32) - 127, fmt.emin)
    if raised is not None:
        exponents = exponents + raised
        words = np.ldexp(words.view(np.float32), np.where(numbers, raised, 0)).view(np.uint32)
    if not numbers.any():
        return Prepared(words, np.zeros_like(words), 0, 0)
    low, high = (
        int(exponents.min(where=numbers, initial=1000)),
        int(exponents.max(where=numbers, initial=-1000)),
    )
    if raised is not None and (low < -100 or high > 100):
        return None
    return Prepared(words, np.where(numbers, exponents + BIAS, 0).astype(np.uint32), low, high)


def places_of(length: int, window: Window) -> Array:
    """Return the order of products; `length` stands for one that is zero."""
    pairs = window.groups == "alternate_pairs"
    both = window.step * (2 if pairs else 1)
    places = np.arange(-(-length // both) * both)
    if pairs:
        steps = places.reshape(-1, both)
        clear = (np.arange(both) >> 1 & 1) == 0
        places = np.concatenate([steps[:, clear], steps[:, ~clear]], axis=1).reshape(-1)
    return np.minimum(places, length)


def placed(side: Array, places: Array) -> Array:
    """Columns in another order, and zeros."""
    if places.size == side.shape[1] and (places == np.arange(places.size)).all():
        return np.ascontiguousarray(side)
    padded = np.concatenate([side, np.zeros((len(side), 1), side.dtype)], axis=1)
    return np.ascontiguousarray(padded[:, places])
