"""Programs of dot products in 64-bit lanes.

Floor 2b. Imports the kernels; never the oracle, which checks them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.kernels.dots import DotProgram
from lowprec.kernels.engine import Rows
from lowprec.kernels.general import machines, windows
from lowprec.kernels.general.program import is_usual, readable, reader
from lowprec.kernels.general.sums import kernel, serves
from lowprec.kernels.general.tiles import NO_BLOCKS, NO_SOURCES, factors
from lowprec.kernels.lower.dot import IN_PAIRS, additions, integer, lower_how, lower_stages
from lowprec.kernels.lower.records import Params
from lowprec.kernels.lower.scalar import lower_target
from lowprec.kernels.request import Dot
from lowprec.spec.accumulation import Accumulation, Window
from lowprec.spec.format import Format

__all__ = ["Machine", "Sums", "Windows", "is_usual_sum", "lower"]

Codes = npt.NDArray[Any]

#: In a word of `factors` the significand, and what says that it is no number.
_NOT_A_ZERO = np.uint64((1 << 32) - 1 | 6 << 32)


def lower(request: Dot) -> Sums | Windows | Machine | None:
    """Return the program of a request, or None where sums are not exact in lanes."""
    if request.accumulation.machine and request.accumulation.machine not in IN_PAIRS:
        return Machine(request)
    if windows.serves(request.accumulation, request.addend, request.x, request.y, *(request.scales or ())):
        return Windows(request)
    if request.block or request.tensor != 1:
        return None
    served, wide = serves(request.accumulation, request.x, request.y)
    return Sums(request, wide) if served else None


def is_usual_sum(how: Accumulation, sources: Iterable[Params] = ()) -> bool:
    """Return whether all places of an accumulation, and what reads its factors, are `usual` to kernels."""
    sums = how.accumulator.result if isinstance(how.accumulator, Window) else how.accumulator
    places = (how.product, sums, how.total, how.output)
    reads = [*sources]
    return all(is_usual(reads, place[0], lower_target(*place)) for place in places if place is not None)


def words_of(
    sides: Iterable[Codes], formats: Iterable[Format], flush: bool = False
) -> tuple[list[Codes], bool]:
    """Return the factors that rows of codes are, shape (K, rows), and whether all are finite."""
    made, finite = [], True
    for codes, fmt in zip(sides, formats, strict=True):
        words = np.array(readable(codes, fmt).T, np.uint64, order="C")
        finite &= bool(factors(words.reshape(-1), reader(fmt, flush)))
        made.append(words)
    return made, finite


def without_subnormals(factors: Codes, step: int) -> Codes:
    """Return factors, of which zeros of either sign are +0, and more of those up to whole steps."""
    zeros = factors & _NOT_A_ZERO == 0
    return np.pad(np.where(zeros, np.uint64(0), factors), ((0, -len(factors) % step), (0, 0)))


class Sums(DotProgram):
    """Dot products of rows in no blocks, whose sums are exact in lanes until they are rounded.

    Products of `wide` factors have two words. Of a machine that knows no subnormal numbers, operands that are
    such, or -0, are +0.
    """

    rows, all_from = 64, 1 / 6

    def __init__(self, request: Dot, wide: bool) -> None:
        how = request.accumulation
        self._formats, self._wide = (request.x, request.y), wide
        self._order, self._first, self._addend = how.order, how.addend == "first", request.addend
        self._how = lower_how(how, request.x, request.y, request.addend)
        self._stages = lower_stages(how, request.addend)
        self._step = IN_PAIRS.get(how.machine, 0)
        self._sources = np.array([reader(fmt) for fmt in self._formats]) if wide else NO_SOURCES
        self._usual = not self._step and is_usual_sum(how, self._sources)
        self._stochastic = how.rounds_randomly

    def part(
        self, x: Rows, y: Rows, addends: Codes, out: Codes, key: int, first: int, paired: bool
    ) -> None:  # fmt: skip
        """Write the codes of all dot products of rows of x and of y, or of row i of both if `paired`."""
        if self._wide:
            pairs = zip((x.codes, y.codes), self._formats, strict=True)
            sides, finite = (
                [np.array(readable(codes, fmt).T, np.uint64, order="C") for codes, fmt in pairs],
                False,
            )
        else:
            sides, finite = words_of((x.codes, y.codes), self._formats, self._step > 0)
        made = np.empty(out.size, np.uint64)
        if self._step:
            sides = [without_subnormals(side, self._step) for side in sides]
            fields = (addends & ~np.uint64(self._addend.sign_code)) >> np.uint64(self._addend.trailing_bits)
            addends = np.where(fields, addends, 0)
        steps = additions(self._order, x.codes.shape[1], True, addends.size > 0 and self._first)
        kernel(self._usual, finite, self._stochastic, 0, self._wide)(
            *sides, self._sources, NO_BLOCKS, addends.reshape(-1), made, self._how, self._stages,
            steps, np.uint64(key), np.uint64(first), out.shape[1], paired,
        )  # fmt: skip
        out[...] = made.reshape(out.shape)


class Windows(DotProgram):
    """Dot products whose terms are aligned in windows; of rows in blocks, too."""

    rows, all_from = 64, 1 / 6

    def __init__(self, request: Dot) -> None:
        how, window = request.accumulation, request.accumulation.accumulator
        assert isinstance(window, Window)
        self._request, self._alternate = request, window.groups == "alternate_pairs"
        self._both = 2 * window.step
        tensor = integer(request.tensor)
        self._how = lower_how(
            how, request.x, request.y, request.addend, request.scales, request.block, tensor
        )
        self._stages = lower_stages(how, request.addend)

    def part(
        self, x: Rows, y: Rows, addends: Codes, out: Codes, key: int, first: int, paired: bool
    ) -> None:  # fmt: skip
        """Write the codes of all dot products of rows of x and of y, or of row i of both if `paired`."""
        request, codes, scales = self._request, [x.codes, y.codes], [x.codes[:, :0], y.codes[:, :0]]
        if self._alternate:  # first the even pairs of two steps, then the odd ones
            k = np.arange(x.codes.shape[1])
            order = np.lexsort((k % self._both >> 1 & 1, k // self._both))
            codes = [side[:, order] for side in codes]
        if request.scales is not None:
            scales = [np.asarray(x.scales), np.asarray(y.scales)]
        sides, _ = words_of(codes, (request.x, request.y))
        factors, _ = words_of(scales, request.scales or (request.x, request.y))
        made = np.empty(out.size, np.uint64)
        windows.kernel(request.accumulation.rounds_randomly)(
            *sides, *factors, NO_BLOCKS, addends.reshape(-1), made, self._how, self._stages,
            np.uint64(key), np.uint64(first), out.shape[1], paired,
        )  # fmt: skip
        out[...] = made.reshape(out.shape)


class Machine(DotProgram):
    """Dot products by a machine that aligns products, and then their sum and the running one."""

    rows, all_from = 64, 1 / 6

    def __init__(self, request: Dot) -> None:
        how = request.accumulation
        self._formats, self._stochastic = (request.x, request.y), how.rounds_randomly
        self._how = lower_how(how, request.x, request.y, request.addend)
        self._stages = lower_stages(how, request.addend)

    def part(
        self, x: Rows, y: Rows, addends: Codes, out: Codes, key: int, first: int, paired: bool
    ) -> None:  # fmt: skip
        """Write the codes of all dot products of rows of x and of y, or of row i of both if `paired`."""
        sides, _ = words_of((x.codes, y.codes), self._formats)
        made = np.empty(out.size, np.uint64)
        machines.kernel(self._stochastic)(
            *sides, NO_BLOCKS, addends.reshape(-1), made, self._how, self._stages, np.uint64(key),
            np.uint64(first), out.shape[1], paired,
        )  # fmt: skip
        out[...] = made.reshape(out.shape)
