"""The operands that matter for an operation: where an implementation can go wrong.

Few combinations are all tried. Of many, the special codes of each operand are combined with those of
the others; then come random operands, three of four of them aimed at a point of the result's format: at
ties and next to them, at the largest value, below the smallest normal, and where numbers cancel.

A recipe gives values in float64. The operands are the codes nearest to them, and half of the time one
is moved to the next code. A recipe may miss: it chooses operands and says nothing about results.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays.checks import code_dtype
from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Format, Sign
from lowprec.spec.layouts import check_layout, lanes
from lowprec.spec.projection import Projection
from lowprec.spec.rounding import Rounding
from lowprec.verify.inputs import codebooks
from lowprec.verify.inputs.recipes import Aim, narrowed, nearest, recipes_of

__all__ = ["FEW", "combinations", "operands", "random_width", "random_words", "special_codes"]

Array = npt.NDArray[Any]

#: Bits of all operands together, up to which all combinations are tried.
FEW = 16


def operands(operation: str, formats: tuple[Format, ...], samples: int, seed: int) -> list[Array]:
    """Return codes of each operand, a case at each index.

    >>> from lowprec.spec.catalog import BINARY16, E2M1FN
    >>> [codes.size for codes in operands("add", (E2M1FN, E2M1FN, E2M1FN), 10, 0)]
    [256, 256]
    >>> [codes.size for codes in operands("add", (BINARY16, BINARY16, BINARY16), 10, 0)]
    [686, 686]

    Parameters
    ----------
    operation : str
        A key of `lowprec.spec.arith.OPERANDS` or of `lowprec.spec.functions.FUNCTIONS`.
    formats : tuple of Format
        Of each operand, then of the result.
    samples : int
        Random cases, where not all combinations are tried.
    seed : int
    """
    *sources, target = formats
    if sum(source.width for source in sources) <= FEW:
        return combinations([np.arange(1 << source.width, dtype=code_dtype(source)) for source in sources])
    random = np.random.default_rng(seed)
    parts = [combinations([special_codes(source, few=len(sources) > 2) for source in sources])]
    recipes, patterns = recipes_of(operation, len(sources)), samples // 4
    if any(isinstance(fmt, Codebook) for fmt in formats):
        with np.errstate(all="ignore"):
            solved = codebooks.aimed(operation, formats, samples - patterns, random)
        codes = [nearest(column, source) for column, source in zip(solved, sources, strict=True)]
        parts.append(_moved(codes, sources, random))
        recipes = ()
    for place, recipe in enumerate(recipes):
        aim = Aim(random, len(range(place, samples - patterns, len(recipes))), sources, target)
        with np.errstate(all="ignore"):
            values = recipe(aim)
        codes = [nearest(column, source) for column, source in zip(values, sources, strict=True)]
        parts.append(_moved(codes, sources, random))
    parts.append([_patterns(source, patterns, random) for source in sources])
    return [np.concatenate(columns) for columns in zip(*parts, strict=True)]


def combinations(columns: list[Array]) -> list[Array]:
    """Return every element of a column with every one of the others.

    >>> combinations([np.array([1, 2]), np.array([3, 4])])
    [array([1, 1, 2, 2]), array([3, 4, 3, 4])]
    """
    return [column.reshape(-1) for column in np.meshgrid(*columns, indexing="ij")]


def special_codes(fmt: Format, *, few: bool = False) -> Array:
    """Return zeros, the ends of subnormals and normals, one, infinities and NaNs; or a `few` of these.

    The numbers next to one and next to the largest are among them, and a signaling NaN.

    >>> from lowprec.spec.catalog import E2M1FN, E5M2
    >>> special_codes(E2M1FN)
    array([ 0,  1,  2,  3,  6,  7,  8,  9, 10, 11, 14, 15], dtype=uint8)
    >>> special_codes(E5M2, few=True)
    array([  0,   1,  60, 123, 124, 125, 126, 127, 128, 129, 188, 251, 252],
          dtype=uint8)
    """
    if isinstance(fmt, Codebook):
        return codebooks.special_codes(fmt, few=few)
    last, one = fmt.max_magnitude, int(nearest(np.ones(1), fmt)[0])
    magnitudes, nans = {0, 1, one, last}, set()
    if fmt.nans:
        nans = {last + fmt.infinity + 1, last + fmt.infinity + fmt.nans, int(fmt.nan_code or 0)}
    if not few:
        normal = 1 << fmt.trailing_bits if fmt.exponent_bits else 1
        magnitudes |= {normal - 1, normal, one - 1, one + 1, last - 1}
    numbers = {magnitude for magnitude in magnitudes if 0 <= magnitude <= last}
    numbers |= {last + 1} if fmt.infinity else set()
    if fmt.sign is Sign.TWOS_COMPLEMENT:
        numbers |= {-number % (1 << fmt.width) for number in numbers} | {fmt.sign_code}
        return np.array(sorted(numbers), dtype=code_dtype(fmt))
    signed = numbers if few else numbers | nans
    return np.array(sorted(numbers | nans | {code | fmt.sign_code for code in signed}), dtype=code_dtype(fmt))


# -- random codes ------------------------------------------------------------------------------------


def _patterns(fmt: Format, size: int, random: np.random.Generator) -> Array:
    return random.integers(0, (1 << fmt.width) - 1, size, dtype=np.uint64, endpoint=True).astype(
        code_dtype(fmt)
    )


def _moved(columns: list[Array], sources: list[Format], random: np.random.Generator) -> list[Array]:
    """Return the operands, in half of the cases one of them moved one code up or down."""
    size = columns[0].size
    which = random.integers(0, 2 * len(columns), size)
    step = random.choice(np.array([-1, 1]), size)
    return [
        narrowed(
            (column.astype(np.uint64).view(np.int64) + np.where(which == place, step, 0)).view(np.uint64),
            source,
        )
        for place, (column, source) in enumerate(zip(columns, sources, strict=True))
    ]


# -- random integers of stochastic rounding: where the result changes ------------------------------


_PLAIN = ("A", "B", "C")


def random_width(mode: Rounding) -> int:
    """Return the bits of a random word: those of the integer, or 32 where hardware cuts it out of a word.

    >>> from lowprec.spec.rounding import stochastic
    >>> random_width(stochastic(8)), random_width(stochastic(16, "ptx_rs"))
    (8, 32)
    """
    return mode.bits if mode.variant in _PLAIN else 32


def random_words(
    compute: Callable[..., Array],
    operands: list[Array],
    formats: tuple[Format, ...],
    how: Projection,
    seed: int,
) -> tuple[list[Array], Array]:
    """Return operands and a random word for each case: of shape (n,), or (n, lanes) where lanes share a word.

    Of five cases one has the word 0, one all ones, one the first word with which the result is another, one
    the word before that, and one any word. A word that lanes share is any, and sometimes all zeros or ones.
    """
    mode, target = how.rounding, formats[-1]
    check_layout(mode, target)
    random = np.random.default_rng(seed)
    together = lanes(mode, target)
    if together > 1:
        count = operands[0].size // together * together
        shaped = [codes[:count].reshape(-1, together) for codes in operands]
        words = random.integers(0, 1 << 32, (len(shaped[0]), 1), dtype=np.uint32)
        words[::16], words[8::16] = 0, 0xFFFFFFFF
        return shaped, words
    size, most = operands[0].size, (1 << mode.bits) - 1
    shift = {"rdna4": 32 - mode.bits, "avx10_2": 8 - mode.bits}.get(mode.variant, 0)

    def results(integers: Array) -> Array:
        return compute(operands, formats, how, None, (integers << np.uint64(shift)).astype(np.uint32))

    first = results(np.zeros(size, np.uint64))
    low, high = np.zeros(size, np.uint64), np.full(size, most + 1, np.uint64)
    for _ in range(mode.bits):  # the last word of the first result lies from low to high - 1
        middle = (low + high) >> np.uint64(1)
        same = results(middle) == first
        low, high = np.where(same, middle, low), np.where(same, high, middle)
    turns = np.arange(size) % 5
    any_word = random.integers(0, most, size, dtype=np.uint64, endpoint=True)
    integers = np.choose(
        turns, [0 * low, 0 * low + np.uint64(most), np.minimum(high, np.uint64(most)), low, any_word]
    )
    words = integers << np.uint64(shift)
    if shift:  # bits that nobody reads
        words |= random.integers(0, 1 << shift, size, dtype=np.uint64)
    return operands, words.astype(np.uint32)
