"""The random integers that matter for stochastic rounding: where the result changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.spec.format import Format
from lowprec.spec.layouts import check_layout, lanes
from lowprec.spec.projection import Projection
from lowprec.spec.rounding import Rounding

__all__ = ["random_width", "random_words"]

Array = npt.NDArray[Any]

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
