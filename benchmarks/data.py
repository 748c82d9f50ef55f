"""What is converted, operated on and multiplied: the same for the same arguments."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays.checks import code_dtype
from lowprec.arrays.convert import decode, encode
from lowprec.spec.arith import operands_of
from lowprec.spec.block import BlockFormat
from lowprec.spec.format import Format, Sign
from lowprec.verify.inputs import conversions as cases

__all__ = ["KINDS", "has_data", "matrices", "operation_operands", "values"]

Array = npt.NDArray[Any]

#: Kinds of data: see `values`.
KINDS = ("normal", "hard", "subnormal", "nan")

#: Elements after which data repeat.
_PERIOD = 1 << 20


def has_data(fmt: Format | BlockFormat, kind: str) -> bool:
    """Return whether a format has results of a kind of data."""
    if isinstance(fmt, BlockFormat):
        return kind in ("normal", "hard")
    if kind == "nan":
        return fmt.has_nan
    return kind != "subnormal" or bool(fmt.min_subnormal and fmt.min_normal)


def values(kind: str, fmt: Format, size: int, seed: int = 0) -> Array:
    """Return float32 values to convert to a format; after 2**20 elements they repeat.

    >>> fmt = Format(name="", exponent_bits=4, trailing_bits=3, bias=7, nans=1)
    >>> bool(np.isnan(values("nan", fmt, 9)).all())
    True

    Parameters
    ----------
    kind : str
        "normal": N(0, 1) * 2**U{-8..6}. "hard": one half random bit patterns, three eighths values,
        ties and limits of the format with their neighbours, one eighth NaNs, infinities, zeros,
        overflows and subnormals of float32. "subnormal": what becomes subnormals of the format.
        "nan": NaNs of both signs and any payload.
    fmt : Format
        Where it has no NaN there is 1 for every NaN, and where it is unsigned no negative value.
    size, seed : int
    """
    rng, few = np.random.default_rng(seed), min(size, _PERIOD)
    if kind == "normal":
        made = np.ldexp(rng.standard_normal(few, np.float32), rng.integers(-8, 7, few, np.int32))
    elif kind == "hard":
        choices = [
            cases.sample("float32", few, seed),
            rng.choice(_telling(fmt), few),
            rng.choice(_specials(fmt), few),
        ]
        made = np.choose(rng.choice(3, few, p=(1 / 2, 3 / 8, 1 / 8)), choices)
    elif kind == "subnormal":
        step, end = fmt.min_subnormal or 0.0, fmt.min_normal or 0.0
        made = rng.choice([-1.0, 1.0], few) * rng.uniform(0.75 * step, end - 0.75 * step, few)
    else:
        made = (cases.sample("float32", few, seed).view(np.uint32) | np.uint32(0x7F800001)).view(np.float32)
    if not fmt.has_nan:
        made = np.where(np.isnan(made), np.float32(1), made)
    if fmt.sign is Sign.UNSIGNED:
        made = np.abs(made)
    return np.resize(made.astype(np.float32, copy=False), size)


@functools.lru_cache(maxsize=4)
def _telling(fmt: Format) -> Array:
    return cases.inputs(fmt, "float32")


def _specials(fmt: Format) -> Array:
    with np.errstate(over="ignore"):
        above = np.array(
            [fmt.max_finite, 1.5 * fmt.max_finite, np.nan, np.inf, 0.0, 1e-39, 2.0**-149]
        ).astype("f4")
    return np.concatenate([above, -above])


def operation_operands(operation: str, kind: str, fmt: Format, size: int, *, codes: bool = False) -> Array:
    """Return the operands of an operation, one in each row; after 2**20 elements they repeat.

    Parameters
    ----------
    operation : str
    kind : str
        "normal": of either sign, so many binades around 1 that products and quotients stay in the
        format's range; positive for square roots. "hard": one half as `values` has it, independently;
        for the other half the last operand is such that the exact result is what is hard to convert,
        or zero, or a neighbour. As codes: any codes. "subnormal" and "nan": each operand as `values` has it.
    fmt : Format
        Where it has no NaN, no operation gives one.
    size : int
    codes : bool
        Codes of the format, to which values are rounded, instead of values of float32.
    """
    few, count = min(size, _PERIOD), operands_of(operation)
    rng = np.random.default_rng(count)
    if codes and kind == "hard":
        table = rng.integers(0, 1 << fmt.width, (count, few), np.uint64).astype(code_dtype(fmt))
        if not fmt.has_nan:
            if operation == "sqrt":
                table %= table.dtype.type(fmt.max_magnitude + 1)
            elif operation == "divide":
                table[1] |= table.dtype.type(1)
    else:
        if kind == "normal":
            table = _mild(fmt, (count, few), rng)
        elif kind == "hard":
            table = _hard(operation, fmt, few, rng)
        else:
            table = np.stack([values(kind, fmt, few, seed) for seed in range(count)])
        if fmt.sign is Sign.UNSIGNED or (operation == "sqrt" and not (fmt.has_nan and kind == "hard")):
            table = np.abs(table)
        if not fmt.has_nan:
            table[~np.isfinite(table)] = 1
            if operation == "divide":
                table[1, table[1] == 0] = 1
        table = encode(table, fmt, saturation="finite") if codes else table
    return np.stack([np.resize(row, size) for row in table])


def _mild(fmt: Format, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Use half the exponents of a format on either side of 0, at most 7, so that products stay in range."""
    ends = fmt.max_finite, fmt.min_normal or fmt.min_subnormal or 1.0
    highest, lowest = (math.frexp(end)[1] - 1 for end in ends)
    high, low = min(max(highest - 1, 0) // 2, 7), max(-(max(-lowest, 0) // 2), -7)
    significands = (1 + rng.random(shape, np.float32)) * rng.choice(np.array([-1, 1], np.float32), shape)
    return np.asarray(np.ldexp(significands, rng.integers(low, high + 1, shape, np.int32)))


#: The last operand by which an operation gives some result, nearly.
_LAST: dict[str, Callable[..., Array]] = {
    "add": lambda goal, x: goal - x,
    "multiply": lambda goal, x: goal / x,
    "divide": lambda goal, x: x / goal,
    "sqrt": lambda goal: goal * goal,
    "fma": lambda goal, x, y: goal - x * y,
}


def _hard(operation: str, fmt: Format, size: int, rng: np.random.Generator) -> Array:
    count = operands_of(operation)
    table = np.stack([values("hard", fmt, size, seed) for seed in range(count)])
    goal = np.where(rng.random(size) < 1 / 4, np.float32(0), values("hard", fmt, size, count))
    with np.errstate(all="ignore"):
        last = _LAST[operation](goal, *table[:-1]).view(np.int32) + rng.choice(
            np.array([-1, 0, 0, 1], np.int32), size
        )
    table[-1] = np.where(rng.random(size) < 1 / 2, last.view(np.float32), table[-1])
    return table


def matrices(kind: str, fmt: Format, size: int) -> tuple[Array, Array]:
    """Return two square matrices of codes: of N(0, 1) rounded ("normal"), or of any finite codes ("hard").

    Unsigned formats get no negative values.
    """
    rng = np.random.default_rng(0)
    if kind == "hard":
        known = np.arange(1 << fmt.width, dtype=np.uint64).astype(code_dtype(fmt))
        known = known[np.isfinite(np.asarray(decode(known, fmt)))]
        return rng.choice(known, (size, size)), rng.choice(known, (size, size))
    normal = rng.standard_normal((2, size, size), np.float32)
    codes = np.asarray(
        encode(np.abs(normal) if fmt.sign is Sign.UNSIGNED else normal, fmt, saturation="finite")
    )
    return codes[0], codes[1]
