"""Dot products by definition: their exception flags, and sums rounded stochastically by given integers.

Flags are those of dot products whose steps are operations of IEEE 754. Status flags stay raised until they
are lowered (IEEE 754, 7.1), so a sum in sequence, in pairs or in chunks raises what any of its
multiplications, additions, fused ones and conversions raises. Sums of several products at once are no
operation of the standard, which leaves the exceptions of its own reductions (9.4) to their implementers.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lowprec.arrays.checks import code_dtype
from lowprec.oracle.dot import dot
from lowprec.oracle.exact import from_float
from lowprec.spec.accumulation import Accumulation, Rounded, Window
from lowprec.spec.format import Format
from lowprec.spec.order import EXACT, TREES
from lowprec.verify.reference.operations import OPERATIONS

__all__ = ["check_flags", "check_random", "drawn_codes", "random_bits_of", "roundings", "sums_with_flags"]

Array = npt.NDArray[Any]


def check_flags(how: Accumulation) -> None:
    """Refuse an accumulation of which no standard says which flags it raises, with the reason."""
    why = ""
    if how.machine or how.order == EXACT or not isinstance(how.accumulator, tuple):
        why = "it adds several products at once"
    elif how.term > 1:
        why = f"its terms are exact sums of {how.term} products"
    elif how.order.name in TREES:
        why = f"flags are kept of sums in sequence, in pairs and in chunks, not of the order {how.order}"
    elif how.product is None and "pairwise" in (how.order.name, how.order.inner):
        why = "it adds exact products in pairs"
    elif how.split is not None or how.operand_rounding is not None or how.rounds_randomly:
        why = "flags are of sums without a split, of operands as they are, rounded deterministically"
    if why:
        raise ValueError(
            f"no standard says which exceptions {how} raises: {why}. Flags are those of multiplications, "
            f"additions and fused ones, as fp32_fma and fp32_sequential are made of; leave them out"
        )


class _Codes(NamedTuple):
    """Codes and their format."""

    codes: Array
    format: Format


class _FlaggedOperations:
    """Operations on codes, whose flags add up."""

    def __init__(self, size: int) -> None:
        self.flags = np.zeros(size, np.uint8)

    def __call__(self, operation: str, into: Rounded, *operands: _Codes) -> _Codes:
        raised = np.zeros(self.flags.size, np.uint8)
        formats = (*(operand.format for operand in operands), into[0])
        codes = OPERATIONS[operation].compute(
            [operand.codes for operand in operands], formats, into[1], raised
        )
        self.flags |= raised
        return _Codes(codes, into[0])


def sums_with_flags(
    x: Array, y: Array, addend: Array, formats: tuple[Format, Format, Format], how: Accumulation
) -> tuple[Array, Array]:
    """Return codes of dot products, and the flags that each raises.

    Parameters
    ----------
    x, y : arrays of codes, shape (rows, K), K at least 1
    addend : array of codes, shape (rows,)
    formats : (Format, Format, Format)
        Of x, y and the addend.
    how : Accumulation
        One that `check_flags` takes.
    """
    check_flags(how)
    inside = how.accumulator
    assert isinstance(inside, tuple), "checked"
    steps, begun = _FlaggedOperations(len(x)), _Codes(addend, formats[2])
    zero = _Codes(np.zeros(len(x), code_dtype(inside[0])), inside[0])

    def pair(place: int) -> tuple[_Codes, _Codes]:
        return tuple(  # type: ignore[return-value]
            _Codes(np.ascontiguousarray(side[:, place]), fmt)
            for side, fmt in zip((x, y), formats, strict=False)
        )

    def product(place: int) -> _Codes:
        assert how.product is not None, "asked"
        return steps("multiply", how.product, *pair(place))

    def run(places: range, start: _Codes, order: str) -> _Codes:
        if order == "pairwise":
            level = [product(place) for place in places]
            return _in_pairs(level, inside, steps)
        for place in places:
            if how.product is None:
                start = steps("fma", inside, *pair(place), start)
            else:
                start = steps("add", inside, start, product(place))
        return start

    length, first = x.shape[1], how.addend == "first"
    into = how.total or inside
    if how.order.name == "chunked":
        running = begun if first else _Codes(zero.codes.astype(code_dtype(into[0])), into[0])
        for low in range(0, length, how.order.size):
            part = run(range(low, min(low + how.order.size, length)), zero, how.order.inner)
            running = steps("add", into, running, part)
    elif how.order.name == "pairwise":
        level = [*([begun] if first else []), *(product(place) for place in range(length))]
        running = _in_pairs(level, inside, steps)
    else:
        running = run(range(length), begun if first else zero, "sequential")
    if not first:
        running = steps("add", into, running, begun)
    if how.output != into:
        running = steps("convert", how.output, running)
    return running.codes, steps.flags


def _in_pairs(level: list[_Codes], into: Rounded, steps: _FlaggedOperations) -> _Codes:
    """Return the sum of terms level by level; one without a partner stays as it is, except a lone one."""
    if len(level) == 1:
        return steps("convert", into, level[0])
    while len(level) > 1:
        pairs = [level[first : first + 2] for first in range(0, len(level), 2)]
        level = [steps("add", into, *each) if len(each) == 2 else each[0] for each in pairs]
    return level[0]


# -- random integers ---------------------------------------------------------------------------------


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

    def random(number: int, bits: int) -> int:
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

        def random(number: int, bits: int, of_row: dict[int, int] = of_row) -> int:
            return of_row[number]

        made[row] = dot(sides[0], sides[1], how, addend=added, random=random)
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
