"""In which order the terms of a sum are added, and how they are dealt to several sums.

Floor 1. Imports the standard library only.

Notation:

    K           the length of the dot product
    p0, p1, …   the sums of the splits
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from lowprec.spec.fields import LARGEST_SIZE, choose, integer
from lowprec.spec.rounded import Rounded, RoundedLike, check_begins, check_rounded, rounded

OrderName = Literal["sequential", "reversed", "pairwise", "chunked", "lanes", "exact", "tree"]
InnerOrder = Literal["sequential", "pairwise"]
Deal = Literal["contiguous", "balanced", "interleaved"]

#: A term's index, or a group: what is added at once. The group without members is +0, or the addend.
Tree = int | tuple["Tree", ...]

#: Orders whose sums kernels take as programs of additions: see `Order.nodes`.
TREES = ("reversed", "lanes", "tree")

#: Splits of a product: more than any library makes; terms of a tree.
_MOST_SPLITS, _MOST_TERMS = 1 << 16, 1 << 16
#: Marks and numbers of the tuples of a tree: sixteen for each term.
_MOST_PARTS = 16 * _MOST_TERMS

_KNOWN = (
    "sequential, reversed, pairwise, chunked(n), chunked(n, pairwise), lanes(n), lanes(n, pairwise), exact"
)


@dataclass(frozen=True, slots=True, repr=False)
class Order:
    """The order in which terms are added.

    ============= =============================================================================
    name          the sum
    ============= =============================================================================
    `sequential`  ((t0 + t1) + t2) + ...
    `reversed`    `sequential`, from the last term to the first
    `pairwise`    neighbours, then neighbours of their sums, and so on; an odd one goes up as it is, and a
                  lone term is rounded as a sum is
    `chunked`     each `size` consecutive terms by `inner` order, and the sums one after the other
    `lanes`       term i is added to sum i mod `size`; these sums are added by `inner` order
    `exact`       all at once, infinitely precise
    `tree`        what `groups` say, for one number of terms
    ============= =============================================================================

    >>> str(order("chunked(4, pairwise)"))
    'chunked(4, pairwise)'

    A tree is written with brackets: a number is a term, brackets are the sum of what is in them, exact and
    rounded once. `()` is where a sum begins: +0, and the first one is the addend where `addend="first"`.

    >>> str(Order.of_tree(((0, 2), (1, 3))))
    '((0, 2), (1, 3))'
    >>> Order.of_tree("(((((), 0), 2), 4), ((((), 1), 3), 5))")
    Order(name='lanes', size=2, inner='sequential')

    Parameters
    ----------
    name : {"sequential", "reversed", "pairwise", "chunked", "lanes", "exact", "tree"}
    size : int
        Of "chunked" and "lanes": 1 to 2**32.
    inner : {"sequential", "pairwise"}
        Of "chunked", in each chunk; of "lanes", for the sums of the lanes.
    groups : str
        Of "tree": the whole sum, in which every number from 0 on stands once.
    """

    name: OrderName
    size: int = 0
    inner: InnerOrder = "sequential"
    groups: str = ""

    def __post_init__(self) -> None:
        choose(self, "an order", name=get_args(OrderName), inner=get_args(InnerOrder))
        if self.name in ("chunked", "lanes"):
            integer(self, f"order {self.name!r}", "size", 1, LARGEST_SIZE)
        else:
            for name, default in (("size", 0), ("inner", "sequential")):
                if getattr(self, name) != default:
                    raise ValueError(
                        f"{name}={getattr(self, name)!r} is for orders 'chunked' and 'lanes', not for "
                        f"{self.name!r}; leave it out"
                    )
            integer(self, f"order {self.name!r}", "size", 0, 0)
        if self.name == "tree":
            if not isinstance(self.groups, str):
                raise TypeError(f"groups of an order must be a string, not {self.groups!r}")
            object.__setattr__(self, "groups", spelled_tree(_parsed(self.groups)))
        elif self.groups != "":
            raise ValueError(f"groups={self.groups!r} are for order 'tree', not for {self.name!r}")

    @staticmethod
    def of_tree(tree: Tree | str) -> Order:
        """Return the order that adds as a tree does: one with a name, if there is one.

        >>> Order.of_tree(((0, 1), (2, 3))) == PAIRWISE
        True

        Parameters
        ----------
        tree : nested tuples of int, or str
            As `groups`, in text or as tuples.

        Raises ValueError: brackets that do not match, terms that are missing or stand twice.
        """
        found = Order("tree", groups=tree if isinstance(tree, str) else spelled_tree(tree))
        numbers = _numbers(found.groups)
        sizes = {"lanes": {*numbers[1:2], len(numbers)}, "chunked": _first_chunk(_parsed(found.groups))}
        named = [SEQUENTIAL, Order("reversed"), PAIRWISE] + [
            Order(name, size, inner)  # type: ignore[arg-type]
            for name, some in sizes.items()
            for size in sorted(some - {0})
            for inner in get_args(InnerOrder)
        ]
        return next((each for each in named if each.spelled(len(numbers)) == found.groups), found)

    @property
    def length(self) -> int | None:
        """Number of terms that a tree has; None of orders for any number of terms."""
        return len(_numbers(self.groups)) if self.name == "tree" else None

    @property
    def widest(self) -> int:
        """Most members of a group of a tree; 2 of other orders that are sums of two."""
        groups = [0]
        most = 2
        for mark in self.groups:
            if mark == "(":
                groups.append(1)
            elif mark == ")":
                most = max(most, groups.pop())
            elif mark == ",":
                groups[-1] += 1
        return most

    def check_length(self, terms: int) -> None:
        """Refuse another number of terms than the order is for."""
        if self.length not in (None, terms):
            raise ValueError(
                f"order {_short(self.groups)} is for {self.length} terms, and this sum has {terms}; use "
                "another order"
            )

    def nodes(self, terms: int) -> Tree:
        """Return the sum of so many terms as a tree, of every order.

        >>> Order("reversed").nodes(3), chunked(2).nodes(3), EXACT.nodes(3)
        (((((), 2), 1), 0), (((), (((), 0), 1)), ((), 2)), (0, 1, 2))
        """
        self.check_length(terms)
        numbers: list[Tree] = [*range(terms)]
        if self.name == "tree":
            return _parsed(self.groups)
        if self.name == "exact":
            return tuple(numbers)
        if self.name == "pairwise":
            return _in_pairs(numbers)
        if self.name == "reversed":
            return _one_by_one(numbers[::-1])
        if self.name == "sequential":
            return _one_by_one(numbers)
        if self.name == "lanes":
            lanes = [_one_by_one(numbers[lane :: self.size]) for lane in range(min(self.size, terms))] or [()]
            return _in_pairs(lanes) if self.inner == "pairwise" else functools.reduce(_pair, lanes)
        chunks = [numbers[first : first + self.size] for first in range(0, terms, self.size)]
        return _one_by_one(
            [_in_pairs(each) if self.inner == "pairwise" else _one_by_one(each) for each in chunks]
        )

    def spelled(self, terms: int) -> str:
        """Return the sum of so many terms with brackets, as `groups` of a tree."""
        return spelled_tree(self.nodes(terms))

    def __str__(self) -> str:
        if self.name == "tree":
            return self.groups
        if self.name not in ("chunked", "lanes"):
            return self.name
        return f"{self.name}({self.size}{', pairwise' * (self.inner == 'pairwise')})"

    def __repr__(self) -> str:
        groups = f", groups={self.groups!r}" if self.groups else ""
        return f"Order(name={self.name!r}, size={self.size!r}, inner={self.inner!r}{groups})"


def _pair(first: Tree, second: Tree) -> Tree:
    return first, second


def _one_by_one(terms: list[Tree]) -> Tree:
    """Return the sum of terms one after the other, from +0."""
    begun: Tree = ()
    return functools.reduce(_pair, terms, begun)


def _in_pairs(level: list[Tree]) -> Tree:
    """Return the sum of neighbours, then of neighbours of their sums; a lone term is rounded."""
    if len(level) < 2:
        return level[0] if level and isinstance(level[0], tuple) else tuple(level)
    while len(level) > 1:
        pairs = [tuple(level[first : first + 2]) for first in range(0, len(level), 2)]
        level = [pair if len(pair) == 2 else pair[0] for pair in pairs]
    return level[0]


def _numbers(groups: str) -> list[int]:
    """Return the terms of a tree's text, as they stand there."""
    return [int(word) for word in re.findall(r"\d+", groups)]


def _first_chunk(tree: Tree) -> set[int]:
    """Return the number of terms that are added first to the +0 that a sum begins with, if it is one."""
    while isinstance(tree, tuple) and len(tree) == 2 and tree[0] != ():
        tree = tree[0]
    return {len(_numbers(spelled_tree(tree[1])))} if isinstance(tree, tuple) and len(tree) == 2 else set()


def _short(groups: str) -> str:
    return repr(groups if len(groups) < 60 else f"{groups[:40]} ... {groups[-10:]}")


def spelled_tree(tree: Tree) -> str:
    """Return a tree with brackets. Trees may be deep, so nothing here calls itself."""
    found: list[str] = []
    waiting: list[Tree | str] = [tree]
    while waiting:
        part = waiting.pop()
        if len(found) > _MOST_PARTS:  # tuples that stand in many places have more than memory holds
            raise ValueError(f"a tree of terms has at most {_MOST_PARTS:,} numbers, brackets and commas")
        if isinstance(part, str):
            found.append(part)
        elif isinstance(part, tuple):
            members: list[Tree | str] = [")"]
            for each in part[::-1]:
                members += [each, ", "]
            waiting += members[:-1] if part else members
            waiting.append("(")
        elif isinstance(part, bool) or not hasattr(part, "__index__"):
            raise TypeError(f"a tree of terms has integers and tuples, not {part!r}")
        else:
            found.append(str(operator.index(part)))
    return "".join(found)


@functools.lru_cache(maxsize=64)
def _parsed(groups: str) -> Tree:
    """Return the tree that a text with brackets says."""
    stack: list[list[Tree]] = [[]]
    said = _short(groups)
    if re.search(r"[^()\s,0-9]|[0-9]{10}", groups):
        raise ValueError(
            f"{said} is no tree: it has numbers, brackets and commas, such as '((0, 1), (2, 3))'"
        )
    terms: list[int] = []
    for word in re.findall(r"[()]|[0-9]+", groups):
        if word == "(":
            stack.append([])
        elif word == ")":
            group = tuple(stack.pop())
            if not stack:
                raise ValueError(f"{said} is no tree: a bracket closes that was not opened")
            stack[-1].append(group)
        else:
            terms.append(int(word))
            stack[-1].append(int(word))
    if len(stack) > 1:
        raise ValueError(f"{said} is no tree: a bracket is not closed")
    if len(stack[0]) != 1 or not isinstance(stack[0][0], tuple):
        raise ValueError(f"{said} is no tree: brackets hold the whole sum")
    if not 0 < len(terms) <= _MOST_TERMS or sorted(terms) != [*range(len(terms))]:
        raise ValueError(
            f"{said} is no tree of terms: each number from 0 to at most {_MOST_TERMS - 1} stands once"
        )
    return stack[0][0]


SEQUENTIAL, PAIRWISE, EXACT = Order("sequential"), Order("pairwise"), Order("exact")


def chunked(size: int, inner: InnerOrder = "sequential") -> Order:
    """Return the order that sums each `size` terms from zero, and then their sums.

    >>> chunked(128)
    Order(name='chunked', size=128, inner='sequential')
    """
    return Order("chunked", size, inner)


def order(spelled: Order | str) -> Order:
    """Return the order of that name, such as "lanes(4)" or "chunked(128)", or the order itself.

    >>> order("pairwise") == PAIRWISE
    True
    """
    if isinstance(spelled, Order):
        return spelled
    if not isinstance(spelled, str):
        raise TypeError(f"order must be an Order or a name, not {spelled!r}")
    if spelled.startswith("("):
        return Order.of_tree(spelled)
    found = re.fullmatch(r"(chunked|lanes)\((\d+)(?:, *(sequential|pairwise))?\)", spelled)
    if found:
        return Order(found[1], int(found[2]), found[3] or "sequential")  # type: ignore[arg-type]
    if spelled not in ("sequential", "reversed", "pairwise", "exact"):
        raise ValueError(f"unknown order {spelled!r}; use {_KNOWN} or a tree such as '((0, 2), (1, 3))'")
    return Order(spelled)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Split:
    """Split of the products of a dot product into several sums, and how these are added (split-K).

    K is cut into tiles, of which the last may be shorter. Each split sums the products of its tiles as the
    accumulation says, as if there were no others; a split without tiles has the sum +0. Of S splits the sums
    are added so:

    ============= =============================================================================
    combine       the sum
    ============= =============================================================================
    `sequential`  ((p0 + p1) + p2) + ...
    `pairwise`    neighbours, then neighbours of their sums, and so on; an odd one goes up as it is
    `slots(n)`    p0 to p(n-1) are in n slots; split n + i is added to slot i mod n, but for the
                  last one, to which all slots are added: ((p(S-1) + slot 0) + slot 1) + ...
    `halves`      `slots(n)` with half as many slots as splits, rounded up
    ============= =============================================================================

    >>> split = Split(3, tile=64, deal="interleaved", combine="halves")
    >>> split.slots
    2

    Parameters
    ----------
    count : int
        Splits, 2 to 65536.
    tile : int, default 1
        Products of a tile, 1 to 2**32. The tiles of a split follow each other without a gap: a step may
        hold the last products of one tile and the first ones of the next.
    deal : {"contiguous", "balanced", "interleaved"}
        Contiguous: ceil(tiles / count) consecutive tiles to each split, and what is left to the last ones.
        Balanced: consecutive tiles, as many to each split, and one more to the first ones. Interleaved: tile
        t to split t mod count, which sums them in order.
    combine : {"sequential", "pairwise", "halves", "slots(n)"}
    stored : (Format, Projection), optional
        What the sum of a split is rounded to before it is added; by default it is as its accumulator has it.
        A machine's is in binary32. One of order "exact" is rounded once: to `stored`, or else to `total`.
    total : (Format, Projection), optional
        In which they are added; by default binary32, to nearest.

    Source: [CUBLAS] for split-K and its reductions. How sums are dealt and combined is documented nowhere:
    a library's way is to be found from its results, which `compare` does.
    """

    count: int
    tile: int = 1
    deal: Deal = "contiguous"
    combine: str = "sequential"
    stored: Rounded | None = None
    total: Rounded | None = None

    if TYPE_CHECKING:  # names stand for objects

        def __init__(
            self,
            count: int,
            tile: int = ...,
            deal: Deal = ...,
            combine: str = ...,
            stored: RoundedLike | None = ...,
            total: RoundedLike | None = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        integer(self, "a split", "count", 2, _MOST_SPLITS)
        integer(self, "a split", "tile", 1, LARGEST_SIZE)
        choose(self, "a split", deal=get_args(Deal))
        for name in ("stored", "total"):
            object.__setattr__(self, name, rounded(name, getattr(self, name)))
            if getattr(self, name) is not None:
                check_rounded(name, getattr(self, name))
                check_begins(name, getattr(self, name)[0])
                if getattr(self, name)[1].rounding.bits:
                    raise ValueError(f"{name} of a split is not rounded stochastically")
        combine = self.combine
        found = isinstance(combine, str) and re.fullmatch(r"slots\([1-9][0-9]{0,4}\)", combine)
        if combine not in ("sequential", "pairwise", "halves") and not found:
            raise ValueError(
                f"combine={combine!r} of a split is unknown; use sequential, pairwise, halves or slots(n), "
                f"with n of 1 or more"
            )

    @property
    def slots(self) -> int:
        """Number of slots; 1 where the sums are added in sequence, 0 in pairs."""
        named = {"sequential": 1, "pairwise": 0, "halves": -(-self.count // 2)}
        return named[self.combine] if self.combine in named else int(self.combine[len("slots(") : -1])

    def runs(self, length: int) -> Iterator[list[range]]:
        """Yield the consecutive products of each split, of K = `length`.

        >>> [[list(run) for run in runs] for runs in Split(2, tile=2, deal="interleaved").runs(7)]
        [[[0, 1], [4, 5]], [[2, 3], [6]]]
        """
        tiles = -(-length // self.tile)
        each, more = (tiles // self.count, tiles % self.count) if self.deal == "balanced" else (0, 0)
        each = each or (0 if self.deal == "balanced" else -(-tiles // self.count))
        for number in range(self.count):
            if self.deal == "interleaved":
                places = range(number * self.tile, length, self.count * self.tile)
                yield [range(start, min(start + self.tile, length)) for start in places]
                continue
            first = number * each + min(number, more)
            last = first + each + (number < more)
            run = range(min(first * self.tile, length), min(last * self.tile, length))
            yield [run] if run else []
