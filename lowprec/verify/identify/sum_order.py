"""The order of a sum, by masks: nothing is assumed about its arithmetic except that large numbers swallow.

A large number in one lane and its negative in another swallow every unit that is added between them. So
the units that are left count the lanes outside the smallest part of the sum that holds both [FPREV].
Roundings that are not to nearest leave multiples of a large power of two besides, which are taken off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays.checks import code_dtype
from lowprec.arrays.convert import decode
from lowprec.spec.order import PAIRWISE, SEQUENTIAL, Order, Tree, spelled_tree
from lowprec.verify.identify.ports import Ports, Rows

__all__ = ["orders_of", "reveal", "said"]

Array = npt.NDArray[Any]

#: Pairs of lanes that a size of units and large numbers is tried on, and that a tree is held against.
_SCREENED, _HELD = 12, 24

#: Questions besides one for each two lanes, after which no other size is tried.
_SHARE = 500

#: Bits by which the large number exceeds what K units need: those of binary64, binary32, binary16 and less.
_PRECISIONS = (53, 24, 16, 11, 8, 6, 4)


def reveal(ask: Callable[[Rows], Array], ports: Ports, rng: np.random.Generator) -> Tree | None:
    """Return the order in which products are added, groups by their least lane.

    None where masks fail, or where nothing is swallowed: then no order shows.

    Parameters
    ----------
    ask : callable
        From rows to the codes that the unit answers.
    ports : Ports
        Of a unit without scales.
    rng : Generator
        Of the lanes that are asked about first.
    """
    found: Tree | None = None
    left = _SHARE + ports.length**2 // 2

    def limited(rows: Rows) -> Array:
        nonlocal left
        left -= len(rows.x)
        return ask(rows)

    for unit, large in _sizes(ports):
        masks = _Masks(limited, ports, rng, unit, large)
        if left > 0 and (seen := masks.screened()) is not None:
            tree = masks.tree() if seen else None
            if tree is not None and _is_binary(tree):
                return tree
            found = found or tree
    return found


class _Masks:
    """Questions with one size of units and large numbers."""

    def __init__(
        self, ask: Callable[[Rows], Array], ports: Ports, rng: np.random.Generator,
        unit: tuple[float, float], large: tuple[float, float],
    ) -> None:  # fmt: skip
        self.ask, self.ports, self.rng, self.unit, self.large = ask, ports, rng, unit, large

    def left(self, pairs: Sequence[tuple[int, int]]) -> list[int] | None:
        """Return the number of units that are left, with a large number and its negative in two lanes."""
        count, length = len(pairs), self.ports.length
        x, y = np.full((count, length), self.unit[0]), np.full((count, length), self.unit[1])
        row, (one, other) = np.arange(count), np.transpose(pairs)
        x[row, one], x[row, other] = self.large[0], -self.large[0]
        y[row, one] = y[row, other] = self.large[1]
        none = np.zeros((count, 0), np.uint8)
        codes = self.ask(Rows(x, y, np.zeros(count), none, none)).astype(code_dtype(self.ports.output))
        units = np.asarray(decode(codes, self.ports.output, dtype=np.float64)) / (self.unit[0] * self.unit[1])
        if not np.isfinite(units).all() or (units != np.floor(units)).any():
            return None
        found = np.mod(units, 1 << (length - 2).bit_length())
        return None if (found > length - 2).any() else [int(each) for each in found]

    def pairs(self, count: int) -> list[tuple[int, int]]:
        """Return random pairs of lanes."""
        lanes = [self.rng.permutation(self.ports.length)[:2] for _ in range(count)]
        return [(int(one), int(other)) for one, other in lanes]

    def screened(self) -> bool | None:
        """Return whether anything is swallowed; None where the answers are no counts."""
        left = self.left(self.pairs(_SCREENED))
        return None if left is None else min(left) < self.ports.length - 2

    def tree(self) -> Tree | None:
        """Return the tree, if answers to other pairs agree with it.

        What a group of several that is exact leaves of units is no count of lanes; then other lanes are
        asked about first, and must give the same tree.
        """
        tree = self.once()
        if tree is None:
            return None
        if not _is_binary(tree):
            again = self.once()
            return tree if again and spelled_tree(again) == spelled_tree(tree) else None
        pairs = self.pairs(_HELD)
        left, sizes = self.left(pairs), _meeting(tree, pairs)
        return tree if left == [self.ports.length - size for size in sizes] else None

    def once(self) -> Tree | None:
        """Return the tree that answers to some pairs give."""
        parts = self.parts(list(range(self.ports.length)), self.ports.length + 1)
        return _sorted(parts[0]) if parts is not None and len(parts) == 1 else None

    def parts(self, lanes: list[int], top: int) -> list[Tree] | None:
        """Return the parts, among these lanes, of a sum of `top` lanes."""
        found: list[Tree] = []
        while lanes:
            lane = lanes[int(self.rng.integers(len(lanes)))]
            rest = [other for other in lanes if other != lane]
            left = self.left([(lane, other) for other in rest]) if rest else []
            if left is None:
                return None
            known = [self.ports.length - each for each in left]
            inside: dict[int, list[int]] = {}
            for other, size in zip(rest, known, strict=True):
                if size < top:
                    inside.setdefault(size, []).append(other)
            part: Tree = lane
            for size in sorted(inside):
                more = self.parts(inside[size], size)
                if more is None:
                    return None
                part = (part, *more)
            found.append(part)
            lanes = [other for other, size in zip(rest, known, strict=True) if size >= top]
        return found


def _sizes(ports: Ports) -> Iterator[tuple[tuple[float, float], tuple[float, float]]]:
    """Yield factors of units and of large numbers, the farthest apart first."""
    one, other = ports.operands
    if ports.scale is not None or ports.length < 2 or not one.has_negative_zero:
        return
    if not (one.exponent_bits and other.exponent_bits):
        return
    highs = [fmt.emax - (fmt.max_finite < 2.0**fmt.emax) for fmt in ports.operands]
    normal = [fmt.emin for fmt in ports.operands]
    least = [fmt.emin - fmt.trailing_bits * bool(fmt.subnormals) for fmt in ports.operands]
    most, room = min(sum(highs), ports.output.emax - 1), ports.length.bit_length() + 2
    for lows in dict.fromkeys((tuple(normal), tuple(least))):
        for low in dict.fromkeys((max(sum(lows), ports.output.emin, -40), max(sum(lows), -20))):
            tops = [min(most, 40), *(low + bits + room for bits in _PRECISIONS)]
            for top in sorted({top for top in tops if top <= most}, reverse=True):
                if top - low > room:
                    yield _powers(low, lows, highs), _powers(top, lows, highs)


def _powers(exponent: int, lows: Sequence[int], highs: Sequence[int]) -> tuple[float, float]:
    first = min(max(lows[0], exponent - highs[1], (exponent + 1) // 2), highs[0], exponent - lows[1])
    return 2.0**first, 2.0 ** (exponent - first)


# -- trees -------------------------------------------------------------------------------------------


def _leaves(tree: Tree) -> list[int]:
    """Return the lanes of a tree, without calling itself: chains are deep."""
    found, waiting = [], [tree]
    while waiting:
        part = waiting.pop()
        if isinstance(part, int):
            found.append(part)
        else:
            waiting += part
    return found


def _walk(tree: Tree, make: Callable[[list[Any]], Any], leaf: Callable[[int], Any]) -> Any:
    """Return what `make` makes of the parts of each group, from the leaves up."""
    done: list[Any] = []
    waiting: list[tuple[Tree, bool]] = [(tree, False)]
    while waiting:
        part, made = waiting.pop()
        if isinstance(part, int):
            done.append(leaf(part))
        elif made:
            cut = len(done) - len(part)
            done[cut:] = [make(done[cut:])]
        else:
            waiting += [(part, True), *((each, False) for each in part[::-1])]
    return done[0]


def _sorted(tree: Tree) -> Tree:
    """Return a tree whose groups have the member with the least lane first; +0 and lone members left out."""

    def make(parts: list[tuple[int, Tree]]) -> tuple[int, Tree]:
        parts = sorted(part for part in parts if part[0] >= 0)
        if len(parts) < 2:
            return parts[0] if parts else (-1, ())
        return parts[0][0], tuple(part for _, part in parts)

    found: tuple[int, Tree] = _walk(tree, make, lambda lane: (lane, lane))
    return found[1]


def _is_binary(tree: Tree) -> bool:
    return bool(_walk(tree, lambda parts: len(parts) == 2 and all(parts), lambda lane: True))


def _meeting(tree: Tree, pairs: Sequence[tuple[int, int]]) -> list[int]:
    """Return how many lanes the smallest part with both lanes of each pair has."""
    found = [0] * len(pairs)

    def make(parts: list[set[int]]) -> set[int]:
        whole: set[int] = set().union(*parts)
        for number, pair in enumerate(pairs):
            if not found[number] and whole.issuperset(pair):
                found[number] = len(whole)
        return whole

    _walk(tree, make, lambda lane: {lane})
    return found


def orders_of(tree: Tree | None) -> list[Order]:
    r"""Return the orders that a tree of sums of two may be: those with a name, then trees.

    Masks do not tell where a sum begins as +0, nor which of two products that are added is the first.

    >>> print(*orders_of(((0, 2), (1, 3))), sep="\n")
    lanes(2)
    lanes(2, pairwise)
    ((0, 2), (1, 3))
    ((), ((0, 2), (1, 3)))
    ((((), 2), 0), (((), 3), 1))
    """
    if tree is None or not _is_binary(tree):
        return []
    length, begun = len(_leaves(tree)), _sizes_on_the_way(tree)
    orders = [SEQUENTIAL, Order("reversed"), PAIRWISE]
    for size in range(2, length):
        if size in begun:
            orders += [Order("chunked", size), Order("chunked", size, "pairwise")]
        if -(-length // size) in begun:
            orders += [Order("lanes", size), Order("lanes", size, "pairwise")]
    text = spelled_tree(tree)  # deep tuples are not compared by tuples
    found = [each for each in orders if spelled_tree(_sorted(each.nodes(length))) == text]

    def chain(parts: list[Tree]) -> Tree:
        one, other = parts
        leaves = isinstance(one, int) and isinstance(other, int)
        return ((((), other), one)) if leaves else (one, other)

    found += map(Order.of_tree, (tree, ((), tree), _walk(tree, chain, int), _begun(tree)))
    return list(dict.fromkeys(found))


def _begun(tree: Tree) -> Tree:
    """Return a tree whose pairs of products begin as +0 and the first."""

    def make(parts: list[Tree]) -> Tree:
        one, other = parts
        return (((), one), other) if isinstance(one, int) and isinstance(other, int) else (one, other)

    found: Tree = _walk(tree, make, int)
    return found


def _sizes_on_the_way(tree: Tree) -> set[int]:
    """Return the sizes of the parts that hold lane 0."""
    found: set[int] = set()

    def make(parts: list[tuple[bool, int]]) -> tuple[bool, int]:
        whole = any(part[0] for part in parts), sum(part[1] for part in parts)
        if whole[0]:
            found.add(whole[1])
        return whole

    _walk(tree, make, lambda lane: (lane == 0, 1))
    return found


def said(tree: Tree) -> str:
    """Return the name of the order that a tree may be, or the tree with brackets."""
    found = orders_of(tree)
    return str(found[0] if found else Order("tree", groups=spelled_tree(tree)))
