"""Dot products whose sums are rounded stochastically, by random integers that are given: by definition."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.oracle.dot import dot
from lowprec.oracle.exact import from_float
from lowprec.spec.accumulation import Accumulation, Window

__all__ = ["check_random", "drawn_codes", "random_bits_of", "roundings"]

Array = npt.NDArray[Any]


def random_bits_of(how: Accumulation) -> int:
    """Return the bits of an accumulation's random integers, 0 if it draws none.

    Raises ValueError: places that take different numbers of bits.
    """
    sums = how.accumulator.result if isinstance(how.accumulator, Window) else how.accumulator
    bits = {place[1].rounding.bits for place in (sums, how.total, how.output) if place is not None} - {0}
    if len(bits) > 1:
        raise ValueError(
            f"{how} draws {' and '.join(map(str, sorted(bits)))} bits in different places; vectors and lines "
            f"have random integers of one width"
        )
    return max(bits, default=0)


def roundings(how: Accumulation, length: int) -> list[int]:
    """Return the numbers of the stochastic roundings of a dot product of that length, in their order.

    >>> roundings(Accumulation(accumulator=("bfloat16", "stochastic(8)"), output="binary32"), 3)
    [0, 1, 2]
    """
    seen: list[int] = []
    zeros = [Fraction(0)] * length

    def random(number: int) -> int:
        seen.append(number)
        return 0

    dot(zeros, zeros, how, addend=Fraction(0), random=random)
    return seen


def drawn_codes(how: Accumulation, x: Array, y: Array, addend: Array | None, words: Array) -> Array:
    """Return the codes of dot products of the rows of x and y, with the random integers of each row.

    Parameters
    ----------
    how : Accumulation
    x, y : array of float, shape (n, K)
    addend : array of float, shape (n,), optional
    words : array of integers, shape (n, roundings)
    """
    numbers = roundings(how, x.shape[1])
    made = np.zeros(len(x), np.uint64)
    for row in range(len(x)):
        sides = [[from_float(float(value)) for value in side[row]] for side in (x, y)]
        added = None if addend is None else from_float(float(addend[row]))
        of_row = dict(zip(numbers, words[row].tolist(), strict=True))
        made[row] = dot(sides[0], sides[1], how, addend=added, random=of_row.__getitem__)
    return made


def check_random(random: Array, verb: str, how: Accumulation, size: int, length: int, *, alone: bool) -> None:
    """Refuse random integers that are not those of all roundings; `alone`: nothing else joins the sums."""
    wanted = (size, len(roundings(how, length)))
    if verb != "dot" or not alone:
        raise ValueError("random= is of dot alone, without scales, a bias or a budget")
    if random.shape != wanted or random.dtype.kind not in "iu":
        raise ValueError(
            f"random= of {how} is an array of integers of shape {wanted}, not {random.dtype} of "
            f"{random.shape}"
        )
    bits = random_bits_of(how)
    if random.size and not 0 <= int(random.min()) <= int(random.max()) < 1 << bits:
        raise ValueError(f"random= of {how} has integers of {bits} bits, from 0 to {(1 << bits) - 1}")
