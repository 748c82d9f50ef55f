"""Programs of operations into codebooks, and of conversions by random integers: in binary64, and looked up.

Results in binary64 are rounded to odd. Where values and thresholds of a codebook have fewer bits, such a
number lies on the same side of each as the exact one; where they have as many, elements next to one are left
to the scalar engine.

Floor 2b. Imports the other engines' programs; never the oracle, which checks them.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.kernels import engine
from lowprec.kernels.codes import code_dtype
from lowprec.kernels.engine import DONE, ElementwiseProgram
from lowprec.kernels.lower.records import VARIANTS_BY_NUMBER
from lowprec.kernels.lower.vector import plan
from lowprec.kernels.lower.words import DOUBLE
from lowprec.kernels.request import CONVERT, Elementwise
from lowprec.kernels.table.refusals import attempt_all
from lowprec.kernels.table.steps import look_up, part as ranges_of
from lowprec.kernels.vector.drawn import Steps, draw
from lowprec.kernels.vector.in_parts import NO_FLAGS, NO_RANDOM, InParts, Read, places_of, readers
from lowprec.kernels.vector.odd import OPERATIONS, kernel
from lowprec.spec.codebook import Codebook, Ray
from lowprec.spec.format import Carrier, Format, Sign
from lowprec.spec.rounding import Rounding

__all__ = ["lower"]

Codes = npt.NDArray[Any]

#: Bits of a binary64 number, less one that tells whether it is exact.
_BITS = 52

#: Steps of draws are made when so many elements have come for each value.
_SHARE = 4

#: Exponents of values between which nothing that is computed here is subnormal or overflows.
_FAR = 400


def lower(request: Elementwise) -> Odd | Drawn | None:
    """Return the program of a request into a codebook, or None where another engine must serve it."""
    target, rule = request.target, request.projection
    if not isinstance(target, Codebook) or request.operation not in OPERATIONS:
        return None
    if any(isinstance(source, Carrier) and not source.exponent_bits for source in request.sources):
        return None
    if rule.via or rule.subnormals != "keep" or rule.overflow_test != "after" or rule.nan_payload != "drop":
        return None
    read, bits = readers(*request.sources), rule.rounding.bits
    if read is None or (request.operation == CONVERT and not bits) or (rule.rounding.downward and not bits):
        return None
    if bits:
        served = not request.flags and target.sign is not Sign.UNSIGNED and may_draw(target, rule.rounding)
        return Drawn(request, target, read) if served else None
    short = _most_bits(target) <= _BITS
    if request.flags and not short:
        return None
    onward = dataclasses.replace(request, operation=CONVERT, sources=(DOUBLE,), backend=None)
    program = engine.lower_by("table", onward)
    return None if program is None else Odd(request, read, program, short)


@functools.lru_cache(maxsize=64)
def _most_bits(fmt: Codebook) -> int:
    """Return how many significant bits a value or a threshold has at most."""
    rays = (fmt.ray(False), fmt.ray(True))
    points = [each for ray in rays for each in (*ray.sizes, *ray.thresholds, ray.beyond) if each is not None]
    numerators = [abs(each.as_integer_ratio()[0]) for each in points]
    return max((each // (each & -each or 1)).bit_length() for each in numerators)


@functools.lru_cache(maxsize=64)
def may_draw(fmt: Codebook, rounding: Rounding) -> bool:
    """Return whether binary64 holds all numbers from which on a random integer takes the next value."""
    places = rounding.bits + (VARIANTS_BY_NUMBER[rounding.variant] > 0)
    for ray in (fmt.ray(False), fmt.ray(True)):
        aboves = [*ray.sizes[1:], 0.0 if ray.beyond is None else ray.beyond]
        if not isinstance(aboves[-1], float):
            return False
        lows, highs = np.array(ray.sizes), np.array(aboves)
        gaps = highs - lows
        exponents = np.frexp(np.concatenate([lows, highs, gaps]))[1]
        if exponents.max() > _FAR or exponents.min() < -_FAR:
            return False
        last = np.minimum(_last_place(lows), _last_place(highs)) - places
        if (np.frexp(np.maximum(np.abs(lows), np.abs(highs)))[1] - last).max() > _BITS:
            return False
    return True


def _last_place(numbers: Codes) -> Codes:
    """Return the exponents of the lowest bits of numbers; a large one for 0."""
    fractions, exponents = np.frexp(numbers)
    whole = np.abs(np.ldexp(fractions, 53)).astype(np.int64)
    lowest = np.frexp((whole & -whole).astype(np.float64))[1] - 1
    return np.where(whole == 0, _FAR, lowest + exponents - 53)


class Odd(InParts):
    """Results to odd, and their conversion. NaNs, and infinities with flags, go to the scalar engine."""

    def __init__(
        self, request: Elementwise, read: list[Read], program: ElementwiseProgram, short: bool
    ) -> None:
        super().__init__(request, program.refuses)
        self._read, self._program, self._short = read, program, short
        self._kernel, self._plan = kernel(request.operation, False), plan()
        self._any = request.target.max_finite

    def part(self, operands: list[Codes], out: Codes, flags: Codes, random: Codes) -> Codes | None:
        """Write results and flags."""
        made = _made(self._kernel, self._plan, self._read, operands, out.size)
        unsure = np.isnan(made) if not flags.size else ~np.isfinite(made)
        made[unsure] = self._any  # no conversion refuses that
        if self._program.run([made.view(np.uint64)], out, flags, random) != DONE:
            return None
        if not self._short:
            for toward in (0.0, np.inf):
                other = np.empty_like(out)
                beside = np.nextafter(made, np.copysign(toward, made)).view(np.uint64)
                if self._program.run([beside], other, flags, random) != DONE:
                    return None
                unsure |= other != out
        return places_of(unsure)


class Drawn(InParts):
    """Results to odd, or operands themselves, and one of two values by random integers."""

    def __init__(self, request: Elementwise, fmt: Codebook, read: list[Read]) -> None:
        self._fmt = fmt
        onward = dataclasses.replace(request, operation=CONVERT, sources=(DOUBLE,), backend="scalar")
        self._onward = engine.lower_by("scalar", onward)
        super().__init__(request, self._onward.refuses)
        self._read, self._kernel, self._plan = read, kernel(request.operation, False), plan()
        rounding = request.projection.rounding
        self._how = float(1 << rounding.bits), VARIANTS_BY_NUMBER[rounding.variant]
        self._came = 0

    @functools.cached_property
    def _steps(self) -> Steps:
        return _steps(self._fmt, self.request.carrier, self._onward)

    def part(self, operands: list[Codes], out: Codes, flags: Codes, random: Codes) -> Codes | None:
        """Write results."""
        self._came += out.size
        if self.request.backend is None and self._came < _SHARE * len(self._fmt.values):
            return None
        steps = self._steps
        made = _made(self._kernel, self._plan, self._read, operands, out.size)
        if self._fmt.ray(False).sizes[0] < 0:
            made += 0.0  # zero lies between two values, and has one sign
        places = np.empty(out.size, np.uint32)
        look_up(made.view(np.uint64), *steps.ranges, places)
        draw(made, places, random, *steps.numbers, *self._how, out)
        return places_of(np.isnan(made))


def _made(made_by: Any, plan: Codes, read: list[Read], operands: list[Codes], size: int) -> Codes:
    """Return exact results, or to odd, in binary64; NaN where the scalar engine must say."""
    numbers = [each(codes) for each, codes in zip(read, operands, strict=True)]
    x, y, z = (*numbers, *numbers[:1] * (3 - len(numbers)))
    made = np.empty(size)
    made_by(x, y, z, NO_RANDOM, 0, False, 0, 0, made, plan)
    return made


def _steps(fmt: Codebook, carrier: Format | None, program: Any) -> Steps:
    """Return the steps of all words of binary64: one begins at each value."""
    columns = [_side(fmt.ray(negative), negative) for negative in (False, True)]
    firsts, lows, gaps, given = (np.concatenate(pair) for pair in zip(*columns, strict=True))
    near = np.empty(firsts.size, code_dtype(carrier or fmt))
    attempt_all(program, [given.view(np.uint64)], near, NO_FLAGS)
    ranges = ranges_of(firsts, np.arange(firsts.size, dtype=np.uint32))
    far = np.append(near[1:], near[:1])  # what begins at the next value
    return Steps(ranges, (lows, gaps, near, far))


def _side(ray: Ray, negative: bool) -> tuple[Codes, Codes, Codes, Codes]:
    """Return steps of one sign: first words, the values below, gaps to the next ones, and what is nearest.

    Of numbers below the smallest value, from the largest one's next on, and of infinities no other is drawn.
    """
    sizes, beyond = list(ray.sizes), [] if ray.beyond is None else [float(ray.beyond)]
    starts, lows = [max(size, 0.0) for size in sizes], list(sizes)
    if sizes[0] > 0:
        starts, lows = [0.0, math.ulp(0.0), *starts], [0.0, math.ulp(0.0), *lows]
    gaps = [above - low for low, above in zip(lows, [*lows[1:], *beyond], strict=False)]
    if sizes[0] > 0:
        gaps[:2] = 0.0, 0.0
    starts, lows = [*starts, *beyond, np.inf], [*lows, *beyond, np.inf]
    gaps += [0.0] * (len(lows) - len(gaps))
    sign = -1.0 if negative else 1.0
    words = np.array(starts).view(np.uint64)
    if negative:
        words |= np.uint64(1 << 63)
    return words, np.array(lows), np.array(gaps), sign * np.array(lows)
