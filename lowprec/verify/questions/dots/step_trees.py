"""Sums by a tree, node by node, each a step of its own, so that the stages of nodes can be faulty."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import lru_cache

import numpy as np

from lowprec.spec.accumulation import Accumulation
from lowprec.spec.order import PAIRWISE, TREES, Tree
from lowprec.verify.questions.dots.dot_faults import runs_of
from lowprec.verify.questions.question import Array

__all__ = ["Node", "Nodes", "is_tree", "nodes_of", "places_of_nodes", "summed"]

#: Members of a node: products by their numbers from 0 on, and nodes before it, the last as -1.
Node = tuple[int, ...]
#: Those of a sum, each after its members; the first one without members is the addend, others are +0.
Nodes = tuple[Node, ...]

#: The codes of nodes: of their numbers, rows, the codes of all nodes, and whether a fault holds of them.
After = Callable[[Array, Array, Array, bool], Array]


def is_tree(how: Accumulation) -> bool:
    """Return whether an accumulation adds rounded sums to each other by a tree."""
    return how.order == PAIRWISE or how.order.name in TREES


@lru_cache(maxsize=32)
def nodes_of(how: Accumulation, length: int, addend: bool) -> Nodes:
    """Return the nodes of the tree of so many products; `addend`: whether there is one."""
    first = addend and how.addend == "first"
    if how.order == PAIRWISE:
        tree = how.order.nodes(length + first)
        tree = _raised(tree) if first else tree
    else:
        tree = how.order.nodes(length)
        if first and "()" not in how.order.spelled(length):
            tree = (), tree
    made: list[Node] = []

    def add(part: Tree) -> int:
        if isinstance(part, int):
            return part
        members = [add(each) for each in part]
        if how.order != PAIRWISE:  # of NaNs those of products come first
            members.sort(key=lambda member: member < 0)
        made.append(tuple(members))
        return ~(len(made) - 1)

    add(tree)
    return tuple(made)


def _raised(tree: Tree) -> Tree:
    """Return a tree whose first term is the addend."""
    if isinstance(tree, int):
        return tree - 1 if tree else ()
    return tuple(_raised(each) for each in tree)


def products_of(nodes: Nodes, number: int) -> list[int]:
    """Return the products of a node's sum, and -1 for the addend, in ascending order."""
    found, waiting = [], [~number]
    while waiting:
        member = waiting.pop()
        if member >= 0:
            found.append(member)
            continue
        waiting += nodes[~member]
        if not nodes[~member] and ~member == nodes.index(()):
            found.append(-1)
    return sorted(found)


def places_of_nodes(nodes: Nodes) -> Iterator[tuple[frozenset[int], str]]:
    """Yield the nodes of each level, and each alone, with where they are in words."""
    heights: list[int] = []
    for node in nodes:
        heights.append(1 + max((heights[~member] for member in node if member < 0), default=0) if node else 0)
    levels = {height: [n for n, found in enumerate(heights) if found == height] for height in heights}
    for height, some in sorted(levels.items()):
        if height and len(some) > 1:
            yield frozenset(some), f"in all sums of level {height} of the tree"
    for number, node in enumerate(nodes):
        if node:
            first, *rest = terms = products_of(nodes, number)
            of = runs_of(terms) if first >= 0 else runs_of(rest)
            words = f"product{'s' * (len(terms) - (first < 0) > 1)} {of}"
            yield frozenset([number]), f"in the sum of {'the addend and ' * (first < 0)}{words} alone"


def summed(nodes: Nodes, after: After, sums: Array, faulty: Collection[int], known: Array | None) -> Array:
    """Return the codes of all nodes, of rows.

    Parameters
    ----------
    nodes : tuple of nodes
    after : callable
        Of nodes with as many members, a row for each, the codes of all nodes, and whether a fault holds of
        these: the codes of their sums.
    sums : array
        Of nodes and rows: codes of the nodes without members.
    faulty : numbers
        The nodes that a fault holds of.
    known : array or None
        The codes of all nodes without a fault: what no fault reaches is taken from there.
    """
    every = np.arange(sums.shape[1])
    if known is None:
        for number, node in enumerate(nodes):
            if node:
                sums[number] = after(np.full(every.size, number), every, sums, number in faulty)
        return sums
    found = known.copy()
    for size in {len(nodes[number]) for number in faulty} - {0}:
        some = np.array([number for number in faulty if len(nodes[number]) == size])
        made = after(np.repeat(some, every.size), np.tile(every, some.size), known, True)
        found[some] = made.reshape(some.size, -1)
    for number, node in enumerate(nodes):
        inner = [~member for member in node if member < 0]
        rows = np.flatnonzero((found[inner] != known[inner]).any(0))
        if rows.size:
            found[number, rows] = after(np.full(rows.size, number), rows, found, number in faulty)
    return found
