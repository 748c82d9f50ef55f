"""Dot products by definition: exact terms, their sums in the order that is asked for, each projected.

Windows are in `window`, hardware that no parameters describe in `machines`.

Floor 2a. Imports spec and the standard library.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

from lowprec.oracle import machines, window
from lowprec.oracle.convert import decode, project
from lowprec.oracle.exact import Exact, Special
from lowprec.oracle.terms import Term, product, scaled, total
from lowprec.spec.accumulation import Accumulation, Rounded, Window
from lowprec.spec.format import Format
from lowprec.spec.order import EXACT, TREES, InnerOrder, Split, Tree
from lowprec.spec.projection import DEFAULT, Projection
from lowprec.spec.rounded import to_nearest
from lowprec.spec.rounding import Rounding

__all__ = ["dot"]

#: Scales of x, scales of y, and how many elements share one.
Scales = tuple[Sequence[Exact], Sequence[Exact], int]

_NANS = (Special.NAN, Special.NEGATIVE_NAN)
_ZERO, _ONE = Fraction(0), Fraction(1)


def dot(
    x: Sequence[Exact],
    y: Sequence[Exact],
    accumulation: Accumulation,
    addend: Exact | None = None,
    *,
    scales: Scales | None = None,
    tensor: Fraction = _ONE,
    random: Callable[[int, int], int] | None = None,
) -> int:
    """Return the code of a dot product in the accumulation's output.

    >>> from lowprec.spec.accumulations import accumulation
    >>> one, tiny = Fraction(1), Fraction(1, 1 << 24)
    >>> [hex(dot([one, tiny, tiny], [one] * 3, accumulation(name))) for name in ("fp32_fma", "exact")]
    ['0x3f800000', '0x3f800001']

    Parameters
    ----------
    x, y : sequences of Exact
        Of one length, which may be 0.
    accumulation : Accumulation
    addend : Exact, optional
        By default +0; in pairwise order and in the order "exact" it is then no term.
    scales : (sequence of Exact, sequence of Exact, int), optional
        The scales of x and of y, and how many elements share one. Each block's exact sum of products
        times its scales is one term; a window with `scales` has a rule of its own.
    tensor : Fraction
        The product of the tensors' scales: the factor of the sum before it is rounded to the output.
    random : function, optional
        Of a stochastic accumulation: from the number of a rounding, and its bits, to its random integer. All
        roundings of sums are numbered from 0 in their order, in pairs level by level; that of the output
        comes last.

    Raises ValueError: other lengths, operands that are no values of their formats, scales that the
    accumulation does not take or lacks, no random integers, or what `convert.project` refuses.

    Source: [IEEE754] for sums and products; the docstrings of `Accumulation` and `Window` for all else.
    """
    if accumulation.split is not None and len(x) == len(y):
        return _by_splits(x, y, accumulation, accumulation.split, addend, scales, tensor)
    if len(x) != len(y):
        raise ValueError(f"x has {len(x)} elements and y has {len(y)}; a dot product needs as many of both")
    if random is None and accumulation.rounds_randomly:
        raise ValueError(f"random is missing; {accumulation} rounds stochastically")
    _check_scales(len(x), accumulation, scales)
    if accumulation.operands is not None:
        x = _operands("x", x, accumulation.operands[0], accumulation.operand_rounding)
        y = _operands("y", y, accumulation.operands[1], accumulation.operand_rounding)
    sums = _Sums(random, tensor)
    if accumulation.machine:
        return sums.result(_by_machine(x, y, accumulation, addend), accumulation.output)
    if isinstance(accumulation.accumulator, Window):
        return _by_window(x, y, accumulation, addend, scales, sums)
    if accumulation.term:
        scales = _scales_of_terms(len(x), scales, accumulation.term)
    terms = _products(x, y, accumulation) if scales is None else _blocks(x, y, scales, accumulation)
    if accumulation.order == EXACT:
        given = [] if addend is None else [Term(addend)]
        return sums.result(total([*terms, *given], _mode(accumulation.output)).value, accumulation.output)
    return _by_sums(terms, accumulation, addend, sums)


# -- roundings --------------------------------------------------------------------------------------


class _Sums:
    """Projects sums, and counts them: each has its own random integer."""

    def __init__(self, random: Callable[[int, int], int] | None, tensor: Fraction) -> None:
        self.random, self.count, self.tensor = random, 0, tensor

    def code(self, value: Exact, into: Rounded) -> int:
        integer = None
        if into[1].rounding.bits:
            assert self.random is not None, "random integers are checked before"
            integer = self.random(self.count, into[1].rounding.bits)
        self.count += 1
        return project(value, *into, random=integer)

    def result(self, value: Exact, into: Rounded) -> int:
        """Return the code of a sum in the output's format."""
        return self.code(value if self.tensor == 1 else product(value, self.tensor).value, into)

    def value(self, value: Exact, into: Rounded) -> Exact:
        """Decode a code of the output."""
        return decode(self.code(value, into), into[0])

    def sum(self, terms: Sequence[Term], into: Rounded) -> Exact:
        return self.value(total(terms, _mode(into)).value, into)


def _mode(into: Rounded) -> Rounding:
    """Return the rounding mode that decides the sign of a zero sum: that of the first format on the way."""
    return DEFAULT.rounding if into[1].via else into[1].rounding


def _nearest(value: Exact | None, into: Rounded) -> Exact:
    """Round the addend to where it is added, to nearest and otherwise as sums are."""
    return _ZERO if value is None else decode(project(value, *to_nearest(into)), into[0])


# -- operands ---------------------------------------------------------------------------------------


def _operands(name: str, values: Sequence[Exact], fmt: Format, how: Projection | None) -> list[Exact]:
    """Return the factors as values of the format: project them, or refuse others."""
    if how is not None:
        return [decode(project(value, fmt, how), fmt) for value in values]
    for place, value in enumerate(values):
        if not _is_value(value, fmt):
            number = value.value if isinstance(value, Special) else value
            raise ValueError(
                f"{name}[{place}]={number} is no value of {fmt.name!r}; quantize {name} first, or set "
                f"operand_rounding of the accumulation"
            )
    return list(values)


@functools.lru_cache(maxsize=1 << 16)
def _is_value(value: Exact, fmt: Format) -> bool:
    if value in _NANS:
        return fmt.has_nan
    return decode(project(value, fmt), fmt) == value


def _check_scales(length: int, accumulation: Accumulation, scales: Scales | None) -> None:
    accumulator = accumulation.accumulator
    rule = accumulator.scales if isinstance(accumulator, Window) else "none"
    if scales is None:
        if rule != "none":
            raise ValueError(f"scales are missing; {accumulation} takes operands in blocks")
        return
    if accumulation.machine or (isinstance(accumulator, Window) and rule == "none"):
        raise ValueError(
            f"{accumulation} takes no scales; multiply the elements by them, or take another accumulation"
        )
    if accumulation.scale is not None and accumulation.scale[1] != scales[2]:
        raise ValueError(
            f"{accumulation} has one scale for {accumulation.scale[1]} elements, not for {scales[2]}; use "
            "such blocks"
        )
    if scales[2] < 1:
        raise ValueError(f"a block of {scales[2]} elements has no scale; use 1 or more")
    needed = -(-length // scales[2])
    for name, given in zip(("x", "y"), scales[:2], strict=True):
        if len(given) != needed:
            raise ValueError(
                f"{name} has {len(given)} scales; {length} elements in blocks of {scales[2]} need {needed}"
            )


# -- terms ------------------------------------------------------------------------------------------


def _into(accumulation: Accumulation) -> Rounded:
    """Return the format and projection of terms, which decides the sign of zero sums."""
    if accumulation.product is not None:
        return accumulation.product
    return accumulation.accumulator if isinstance(accumulation.accumulator, tuple) else accumulation.output


def _rounded(term: Term, accumulation: Accumulation) -> Term:
    """Round the term to the format of products, if they have one: its NaN then yields to that of a sum."""
    if accumulation.product is None:
        return term
    fmt, how = accumulation.product
    return Term(decode(project(term.value, fmt, how), fmt), yields=True)


def _products(x: Sequence[Exact], y: Sequence[Exact], accumulation: Accumulation) -> list[Term]:
    return [_rounded(product(ours, theirs), accumulation) for ours, theirs in zip(x, y, strict=True)]


def _blocks(x: Sequence[Exact], y: Sequence[Exact], scales: Scales, accumulation: Accumulation) -> list[Term]:
    """Return each block's exact sum of products, times its scales."""
    x_scales, y_scales, size = scales
    terms = []
    for block, both in enumerate(zip(x_scales, y_scales, strict=True)):
        of_block = slice(block * size, (block + 1) * size)
        products = [product(ours, theirs) for ours, theirs in zip(x[of_block], y[of_block], strict=True)]
        terms.append(_rounded(scaled(total(products, _mode(_into(accumulation))), both), accumulation))
    return terms


def _scales_of_terms(length: int, scales: Scales | None, term: int) -> Scales:
    """Return the scales of each term of so many products: those of its block, or 1."""
    starts = range(0, length, term)
    if scales is None:
        return [_ONE] * len(starts), [_ONE] * len(starts), term
    of_x, of_y, size = scales
    if size % term:
        raise ValueError(f"a term of {term} products lies in several blocks of {size}")
    return [of_x[start // size] for start in starts], [of_y[start // size] for start in starts], term


# -- sums -------------------------------------------------------------------------------------------


def _sequential(terms: Sequence[Term], start: Exact, into: Rounded, sums: _Sums) -> Exact:
    running = start
    for term in terms:
        running = sums.sum([term, Term(running)], into)
    return running


def _pairwise(terms: Sequence[Term], into: Rounded, sums: _Sums) -> Exact:
    """Sum level by level; a term without a partner stays as it is, except a lone one."""
    if len(terms) < 2:
        return sums.sum(terms, into) if terms else _ZERO
    return _in_pairs([term.value for term in terms], lambda *pair: sums.sum([*map(Term, pair)], into))


def _in_pairs(level: list[Exact], add: Callable[[Exact, Exact], Exact]) -> Exact:
    """Add neighbours, then neighbours of their sums."""
    while len(level) > 1:
        pairs = [level[first : first + 2] for first in range(0, len(level), 2)]
        level = [add(*pair) if len(pair) == 2 else pair[0] for pair in pairs]
    return level[0]


def _in_groups(tree: Tree, terms: Sequence[Term], start: Exact, into: Rounded, sums: _Sums) -> Exact:
    """Sum the groups of a tree, each when all its members are known; the first without members is `start`."""
    assert isinstance(tree, tuple), "the whole sum is a group"
    starts = [start]
    waiting: list[tuple[tuple[Tree, ...], list[Term], list[Term]]] = [(tree, [], [])]
    while True:
        members, leaves, inner = waiting[-1]
        for member in members[len(leaves) + len(inner) :]:
            if isinstance(member, tuple):
                waiting.append((member, [], []))
                break
            leaves.append(terms[member])
        else:
            if not members:
                value = starts.pop() if starts else _ZERO
            elif inner:  # of NaNs those of products come first, unless they yield
                value = sums.sum([*leaves, *inner], into)
            else:
                value = sums.sum([Term(leaf.value) for leaf in leaves], into)
            waiting.pop()
            if not waiting:
                return value
            waiting[-1][2].append(Term(value))


def _by_order(terms: Sequence[Term], order: InnerOrder, into: Rounded, sums: _Sums) -> Exact:
    """Sum in the accumulation's order, from zero."""
    return _pairwise(terms, into, sums) if order == "pairwise" else _sequential(terms, _ZERO, into, sums)


def _by_sums(terms: Sequence[Term], accumulation: Accumulation, addend: Exact | None, sums: _Sums) -> int:
    """Sum in a plain accumulator."""
    accumulator, order, first = accumulation.accumulator, accumulation.order, accumulation.addend == "first"
    assert isinstance(accumulator, tuple), "an accumulation has an accumulator"
    into = accumulation.total or accumulator
    start = _nearest(addend, into)
    if order.name == "chunked":
        running = start if first else _ZERO
        for chunk in range(0, len(terms), order.size):
            part = _by_order(terms[chunk : chunk + order.size], order.inner, accumulator, sums)
            running = sums.sum([Term(running), Term(part)], into)
    elif order.name in TREES:
        tree = order.nodes(len(terms))
        if first and addend is not None and "()" not in order.spelled(len(terms)):
            tree = (), tree
        running = _in_groups(tree, terms, start if first else _ZERO, accumulator, sums)
    elif order.name == "pairwise":
        running = _pairwise(
            [*([Term(start)] if first and addend is not None else []), *terms], accumulator, sums
        )
    else:
        running = _sequential(terms, start if first else _ZERO, accumulator, sums)
    if not first:
        running = sums.sum([Term(running), Term(start)], into)
    return sums.result(running, accumulation.output)


def _by_window(
    x: Sequence[Exact],
    y: Sequence[Exact],
    accumulation: Accumulation,
    addend: Exact | None,
    scales: Scales | None,
    sums: _Sums,
) -> int:
    """Sum in steps of hardware, all in sequence or within chunks."""
    accumulator, order, into = accumulation.accumulator, accumulation.order, accumulation.total
    assert isinstance(accumulator, Window), "chosen by it"
    assert accumulation.operands is not None, "a window has operands"
    scale_format = None if accumulation.scale is None else accumulation.scale[0]
    factors = window.Factors(x, y, accumulation.operands, scales, scale_format)
    output, first = accumulation.output, accumulation.addend == "first"
    if into is None:
        start = _nearest(addend, output)
        running = window.run(
            range(len(x)), factors, accumulator, start if first else _ZERO, output[0], sums.value
        )
        if first:
            return sums.result(running, output)
        return sums.result(total([Term(running), Term(start)], _mode(output)).value, output)
    start = _nearest(addend, into)
    running = start if first else _ZERO
    for chunk in range(0, len(x), order.size):
        places = range(chunk, min(chunk + order.size, len(x)))
        part = window.run(places, factors, accumulator, _ZERO, output[0], sums.value)
        running = sums.sum([Term(running), Term(part)], into)
    if not first:
        running = sums.sum([Term(running), Term(start)], into)
    return sums.result(running, output)


def _by_splits(
    x: Sequence[Exact],
    y: Sequence[Exact],
    accumulation: Accumulation,
    split: Split,
    addend: Exact | None,
    scales: Scales | None,
    tensor: Fraction,
) -> int:
    """Sum each split by itself, and add the sums."""
    into = split.total
    assert into is not None, "an accumulation has it"
    inner = replace(accumulation, split=None).partial(split.stored or into)
    sums = _Sums(None, tensor)

    @functools.cache  # splits without products have one sum, and many sums of them are the same
    def part(places: tuple[int, ...]) -> Exact:
        of_split = _scales_at(places, len(x), scales)
        code = dot([x[i] for i in places], [y[i] for i in places], inner, scales=of_split)
        value = decode(code, inner.output[0])
        return value if split.stored is None or inner.kept is None else sums.value(value, split.stored)

    @functools.cache
    def add(first: Exact, second: Exact) -> Exact:
        return sums.sum([Term(first), Term(second)], into)

    parts = [part(places) for places in _dealt(len(x), split)]
    if split.combine == "pairwise":
        found = _in_pairs(parts, add)
    elif split.combine == "sequential":
        found = functools.reduce(add, parts)
    else:
        slots, found = split.slots, parts[-1]
        for slot in range(min(slots, split.count - 1)):
            found = add(found, functools.reduce(add, parts[slot:-1:slots]))
    if addend is not None:
        found = add(found, _nearest(addend, into))
    return sums.result(found, accumulation.output)


def _dealt(length: int, split: Split) -> list[tuple[int, ...]]:
    """Return the products of each split, in order."""
    tiles = -(-length // split.tile)
    owners = [tile % split.count for tile in range(tiles)]
    if split.deal == "contiguous":
        owners = [tile // -(-tiles // split.count) for tile in range(tiles)]
    elif split.deal == "balanced":  # as many to each, in order: one of each turn
        owners.sort()
    dealt: list[list[int]] = [[] for _ in range(split.count)]
    for i in range(length):
        dealt[owners[i // split.tile]].append(i)
    return [tuple(places) for places in dealt]


def _scales_at(places: Sequence[int], length: int, scales: Scales | None) -> Scales | None:
    """Return the scales of whole blocks."""
    if scales is None:
        return None
    of_x, of_y, size = scales
    blocks = list(dict.fromkeys(place // size for place in places))
    if len(places) != sum(min(size, length - block * size) for block in blocks):
        raise ValueError(f"a split of K ends within a block of {size}; give it tiles of whole blocks")
    return [of_x[block] for block in blocks], [of_y[block] for block in blocks], size


def _by_machine(
    x: Sequence[Exact], y: Sequence[Exact], accumulation: Accumulation, addend: Exact | None
) -> Exact:
    assert accumulation.operands is not None, "a machine has operands"
    start = _nearest(addend, accumulation.output)
    result = machines.RUN[accumulation.machine](x, y, accumulation.operands, start)
    return Special.NAN if result in _NANS else result
