"""In which order the terms of a sum are added, and how they are dealt to several sums.

Floor 1. Imports the standard library only.

Notation:

    K           the length of the dot product
    p0, p1, …   the sums of the splits
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from lowprec.spec.fields import LARGEST_SIZE, choose, integer
from lowprec.spec.rounded import Rounded, RoundedLike, check_begins, check_rounded, rounded

OrderName = Literal["sequential", "pairwise", "chunked", "exact"]
InnerOrder = Literal["sequential", "pairwise"]
Deal = Literal["contiguous", "balanced", "interleaved"]

#: Splits of a product: more than any library makes.
_MOST_SPLITS = 1 << 16


@dataclass(frozen=True, slots=True)
class Order:
    """The order in which terms are added.

    ============= =============================================================================
    name          the sum
    ============= =============================================================================
    `sequential`  ((t0 + t1) + t2) + ...
    `pairwise`    neighbours, then neighbours of their sums, and so on; an odd one goes up as it is, and a
                  lone term is rounded as a sum is
    `chunked`     each `size` consecutive terms by `inner` order, and the sums one after the other
    `exact`       all at once, infinitely precise
    ============= =============================================================================

    >>> str(order("chunked(4, pairwise)"))
    'chunked(4, pairwise)'

    Parameters
    ----------
    name : {"sequential", "pairwise", "chunked", "exact"}
    size : int
        Of "chunked": 1 to 2**32.
    inner : {"sequential", "pairwise"}
        Of "chunked".
    """

    name: OrderName
    size: int = 0
    inner: InnerOrder = "sequential"

    def __post_init__(self) -> None:
        choose(self, "an order", name=get_args(OrderName), inner=get_args(InnerOrder))
        if self.name == "chunked":
            integer(self, "order 'chunked'", "size", 1, LARGEST_SIZE)
            return
        for name, default in (("size", 0), ("inner", "sequential")):
            if getattr(self, name) != default:
                raise ValueError(
                    f"{name}={getattr(self, name)!r} is for order 'chunked', not for {self.name!r}; leave it "
                    "out"
                )
        integer(self, f"order {self.name!r}", "size", 0, 0)

    def __str__(self) -> str:
        if self.name != "chunked":
            return self.name
        return f"chunked({self.size}{', pairwise' * (self.inner == 'pairwise')})"


SEQUENTIAL, PAIRWISE, EXACT = Order("sequential"), Order("pairwise"), Order("exact")


def chunked(size: int, inner: InnerOrder = "sequential") -> Order:
    """Return the order that sums each `size` terms from zero, and then their sums.

    >>> chunked(128)
    Order(name='chunked', size=128, inner='sequential')
    """
    return Order("chunked", size, inner)


def order(spelled: Order | str) -> Order:
    """Return the order of that name, such as "pairwise" or "chunked(128)", or the order itself.

    >>> order("pairwise") == PAIRWISE
    True
    """
    if isinstance(spelled, Order):
        return spelled
    if not isinstance(spelled, str):
        raise TypeError(f"order must be an Order or a name, not {spelled!r}")
    found = re.fullmatch(r"chunked\((\d+)(?:, *(sequential|pairwise))?\)", spelled)
    if found:
        return chunked(int(found[1]), found[2] or "sequential")  # type: ignore[arg-type]
    if spelled not in ("sequential", "pairwise", "exact"):
        raise ValueError(
            f"unknown order {spelled!r}; use sequential, pairwise, chunked(n), chunked(n, pairwise) or exact"
        )
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
        Products of a tile, 1 to 2**32: a whole number of the accumulation's steps, or a step is short at
        the end of every tile that is not followed by the next one.
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
