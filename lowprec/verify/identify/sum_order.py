"""The order of a sum as masks show it, with nothing assumed about its arithmetic but that it swallows.

A large number in one lane and its negative in another swallow every unit that is added between them. So
what is left of units in all other lanes counts the lanes outside the smallest part of the sum that holds
both [FPREV]. An accumulation is better where one fits; this serves where none does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays.arith import add, fma, multiply
from lowprec.arrays.checks import code_dtype
from lowprec.arrays.convert import decode, encode
from lowprec.verify.identify.ports import Ports, Rows

__all__ = ["Tree", "evaluate", "reveal", "spelled"]

Array = npt.NDArray[Any]

#: A lane, or parts that are added at once: two of a sum in sequence or in pairs, more of a fused one.
Tree = int | tuple["Tree", ...]


def reveal(ask: Callable[[Rows], Array], ports: Ports) -> Tree | None:
    """Return the order in which products are added; None where masks do not tell it.

    Parameters
    ----------
    ask : callable
        From rows to the codes that the unit answers.
    ports : Ports
        Of a unit without scales.
    """
    factors = None if ports.scale is not None else _factors(ports)
    if factors is None or ports.length < 2:
        return None
    unit, large = factors
    value = unit[0] * unit[1]

    def sizes(lane: int, others: Sequence[int]) -> list[int] | None:
        """Return how many lanes the smallest part with this lane and each of the others has."""
        x = np.full((len(others), ports.length), unit[0])
        y = np.full((len(others), ports.length), unit[1])
        row = np.arange(len(others))
        x[row, lane], x[row, list(others)] = large[0], -large[0]
        y[row, lane] = y[row, list(others)] = large[1]
        none = np.zeros((len(others), 0), np.uint8)
        codes = ask(Rows(x, y, np.zeros(len(others)), none, none)).astype(code_dtype(ports.output))
        left = np.asarray(decode(codes, ports.output, dtype=np.float64)) / value
        if not np.isin(left, np.arange(ports.length - 1)).all():
            return None
        return [ports.length - int(each) for each in left]

    def parts(lanes: list[int], top: int) -> list[Tree] | None:
        """Return the parts, among these lanes, of a sum of `top` lanes."""
        found: list[Tree] = []
        while lanes:
            lane, rest = lanes[0], lanes[1:]
            known = sizes(lane, rest) if rest else []
            if known is None:
                return None
            inside: dict[int, list[int]] = {}
            for other, size in zip(rest, known, strict=True):
                if size < top:
                    inside.setdefault(size, []).append(other)
            part: Tree = lane
            for size in sorted(inside):
                more = parts(inside[size], size)
                if more is None:
                    return None
                part = (part, *more)
            found.append(part)
            lanes = [other for other, size in zip(rest, known, strict=True) if size >= top]
        return found

    whole = parts(list(range(ports.length)), ports.length + 1)
    return whole[0] if whole is not None and len(whole) == 1 else None


def _factors(ports: Ports) -> tuple[tuple[float, float], tuple[float, float]] | None:
    """Return factors of a unit and of a number that swallows all units, if the formats have them."""
    one, other = ports.operands
    if not (one.exponent_bits and other.exponent_bits and one.has_negative_zero):
        return None
    lows, highs = [fmt.emin for fmt in ports.operands], [fmt.emax for fmt in ports.operands]
    # In the middle of the range, so that narrow accumulators hold both.
    top = min(sum(highs), ports.output.emax - 1, 40)
    low = max(sum(lows), ports.output.emin, -40)
    if top - low < ports.output.precision + ports.length.bit_length() + 2:
        return None
    return _powers(low, lows, highs), _powers(top, lows, highs)


def _powers(exponent: int, lows: Sequence[int], highs: Sequence[int]) -> tuple[float, float]:
    first = min(max(lows[0], exponent - highs[1], (exponent + 1) // 2), highs[0], exponent - lows[1])
    return 2.0**first, 2.0 ** (exponent - first)


def evaluate(tree: Tree, rows: Rows, ports: Ports, *, fused: bool, begun: bool) -> Array:
    """Return the codes of sums in this order, each rounded to the output to nearest even.

    `fused` says that a product which joins a running sum is not rounded itself, `begun` that sums begin as
    +0. The addend comes last.
    """
    fmt = ports.output

    def product(lane: int) -> Array:
        return np.asarray(multiply(rows.x[:, lane], rows.y[:, lane], fmt, dtype=np.float64))

    def value(part: Tree) -> Array:
        if isinstance(part, int):
            return product(part)
        running = value(part[0])
        for each in part[1:]:
            if fused and isinstance(each, int):
                running = np.asarray(fma(rows.x[:, each], rows.y[:, each], running, fmt, dtype=np.float64))
            else:
                running = np.asarray(add(running, value(each), fmt, dtype=np.float64))
        return running

    made = value(tree)
    if begun:
        made = made + 0.0
    if ports.addend is not None:
        made = np.asarray(add(made, rows.addend, fmt, dtype=np.float64))
    return np.asarray(encode(made, fmt)).astype(np.int64)


def spelled(tree: Tree) -> str:
    """Return an order as a sum with brackets; a + b + c is (a + b) + c, and {a, b, c} is added at once.

    >>> spelled((((0, 1), 2), (3, 4, 5)))
    '0 + 1 + 2 + {3, 4, 5}'
    """
    if isinstance(tree, int):
        return str(tree)
    if len(tree) > 2:
        return f"{{{', '.join(map(spelled, tree))}}}"
    first, second = tree
    right = spelled(second)
    bracketed = f"({right})" if isinstance(second, tuple) and len(second) == 2 else right
    return f"{spelled(first)} + {bracketed}"
