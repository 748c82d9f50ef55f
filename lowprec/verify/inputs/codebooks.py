"""The operands that matter where formats are codebooks: codes at borders, and results aimed at thresholds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays.checks import code_dtype
from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Format
from lowprec.verify.codes.codebooks import marks, ranks, values

__all__ = ["aimed", "special_codes"]

Array = npt.NDArray[Any]


def special_codes(fmt: Codebook, *, few: bool = False) -> Array:
    """Return the codes of zeros, NaNs and infinities, of both ends, and next to zero, to 1 and to -1.

    >>> from lowprec.spec.codebooks import posit
    >>> special_codes(posit(5))
    array([ 0,  1,  2,  6,  7,  8,  9, 10, 14, 15, 16, 17, 18, 22, 23, 24, 25,
           26, 30, 31], dtype=uint8)
    """
    numbers, order = values(fmt), np.argsort(ranks(fmt), kind="stable")
    others = np.flatnonzero(~np.isfinite(numbers) | (numbers == 0))
    finite = order[np.isfinite(numbers[order])]
    reach = 1 if few else 2
    near = [np.arange(reach), finite.size - 1 - np.arange(reach)]
    for number in (0.0, 1.0, -1.0):
        place = int(np.searchsorted(numbers[finite], number))
        near.append(place + np.arange(1 - reach, reach) if few else place + np.arange(-reach, reach + 1))
    chosen = finite[np.clip(np.concatenate(near), 0, finite.size - 1)]
    return np.unique(np.concatenate([others, chosen])).astype(code_dtype(fmt))


def aimed(operation: str, formats: tuple[Format, ...], size: int, random: np.random.Generator) -> list[Array]:
    """Return values of operands whose result lies at a value or threshold of the target, if they are held.

    All operands but one are any; that one is what the operation's inverse says. Of an operation without one,
    all are any.
    """
    *sources, target = formats
    points = _points(target)
    point = points[random.integers(0, points.size, size)]
    if target.min_finite < 0:
        point = point * random.choice(np.array([-1.0, 1.0]), size)
    given = [_any(source, size, random) for source in sources]
    if operation in ("multiply", "divide"):  # by a power of two, results are as short as operands
        other = 1 if operation == "divide" else 0
        power = np.copysign(np.ldexp(1.0, np.frexp(given[other])[1]), given[other])
        given[other] = np.where(random.random(size) < 0.5, power, given[other])
    if operation in _SOLVED:
        place, solve = _SOLVED[operation]
        wanted = solve(point, *given)
        given[place] = np.where(np.isfinite(wanted), wanted, given[place])
    return given


#: By operation the operand that is solved for, and how, from the result and all operands.
_SOLVED: dict[str, tuple[int, Callable[..., Array]]] = {
    "add": (1, lambda point, x, y: point - x),
    "subtract": (1, lambda point, x, y: x - point),
    "multiply": (1, lambda point, x, y: point / x),
    "divide": (0, lambda point, x, y: point * y),
    "sqrt": (0, lambda point, x: point * point),
    "fma": (2, lambda point, x, y, z: point - x * y),
}


def _points(fmt: Format) -> Array:
    if isinstance(fmt, Codebook):
        return marks(fmt)
    powers = np.ldexp(1.0, np.arange(-40, 40))
    return np.concatenate([[0.0], powers, 1.5 * powers])


def _any(fmt: Format, size: int, random: np.random.Generator) -> Array:
    """Return finite values: of a codebook, every code as likely as any; else numbers of any exponent."""
    if isinstance(fmt, Codebook):
        finite = values(fmt)[np.isfinite(values(fmt))]
        return np.asarray(finite[random.integers(0, finite.size, size)])
    return random.normal(size=size) * np.ldexp(1.0, random.integers(-20, 20, size))
