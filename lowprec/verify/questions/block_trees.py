"""Trees that find the largest magnitude of a block otherwise: by OR, or by some bits of magnitudes alone."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

import numpy as np

from lowprec.arrays.block import BlockArray
from lowprec.spec import catalog
from lowprec.spec.format import Format
from lowprec.verify.codes.values import words_of
from lowprec.verify.questions.block_causes import encoded, of_blocks, under
from lowprec.verify.questions.question import Array, Change

__all__ = ["trees"]

#: Last bits of magnitudes that may be lost.
_LOST = 3

#: One magnitude of some along the last axis, from their codes.
Node = Callable[[Array], Array]


def trees(size: int, source: Format, places: int) -> Iterator[Change]:
    """Yield trees of blocks of so many values of a format, of which some nodes or all are otherwise.

    Values have so many trailing bits, if the format has more.
    """
    for bits in range(1, min(_LOST, places) + 1):
        cut = functools.partial(_cut, lost=source.trailing_bits - places + bits)
        words = f"the largest magnitude read without its last {f'{bits} bits' if bits > 1 else 'bit'}"
        yield Change("scaling", functools.partial(_by_tree, size=size, first=cut, last=_right), words, 2)
    every, half = size.bit_length() - 1, "the largest of both halves"
    for words, node in _nodes(source):
        for bits in range(every, 0, -1):
            if bits in (1, every) or "OR" in words:
                of = "all" if 1 << bits == size else f"every {1 << bits} neighbours"
                made = functools.partial(_by_tree, size=1 << bits, first=node, last=_right)
                yield Change("scaling", made, words.format(of), 2)
        if size % 2 == 0:
            made = functools.partial(_by_tree, size=size // 2, first=_right, last=node)
            yield Change("scaling", made, words.format(half), 2)


def _nodes(source: Format) -> Iterator[tuple[str, Node]]:
    """Yield nodes, and what they make of the magnitudes that stand in the braces of these words."""
    top, last = source.width - 1, source.trailing_bits
    for what, low in (("magnitudes", 0), ("exponents", last)):
        words = f"the largest magnitude is the OR of {what} of {{}}"
        yield words, functools.partial(_or, mask=-1 << low)
    masks = {"exponents alone": -1 << last, "exponents without the last bit": -2 << last}
    masks |= {f"magnitudes without bit {top - bits} and above": (1 << top - bits) - 1 for bits in range(1, 4)}
    for what, mask in masks.items():
        for step, said in ((1, "first"), (-1, "last")):
            words = f"the largest magnitude is searched in {{}} by {what}, of equal ones the {said}"
            yield words, functools.partial(_by_bits, mask=mask, step=step)


def _right(codes: Array) -> Array:
    return np.asarray(codes.max(-1))


def _cut(codes: Array, lost: int) -> Array:
    return _right(codes) >> lost << lost


def _or(codes: Array, mask: int) -> Array:
    return np.asarray(np.bitwise_or.reduce(codes & mask, -1))


def _by_bits(codes: Array, mask: int, step: int) -> Array:
    ordered = codes[..., ::step]
    return np.take_along_axis(ordered, np.argmax(ordered & mask, -1)[..., None], -1)[..., 0]


def _by_tree(blocks: BlockArray, values: Array, size: int, first: Node, last: Node) -> BlockArray:
    """Return the blocks under scales by other maxima. Raises ValueError: values have no codes."""
    source = catalog.carrier(values.dtype)
    if source is None or source.width > 32:
        raise ValueError("not known of these")

    def largest(codes: Array, axis: int) -> Array:
        return last(first(codes.reshape(*codes.shape[:-1], -1, size)))

    found = of_blocks(blocks, words_of(values).astype(np.int64) & source.sign_code - 1, largest)
    field, trailing = found >> source.trailing_bits, source.trailing_bits
    whole = found & (1 << trailing) - 1 | (field > 0) << trailing  # infinities and NaNs are numbers here
    sizes = np.ldexp(whole.astype(np.float64), np.maximum(field, 1) - source.bias - trailing)
    return under(blocks, values, encoded(blocks, sizes).scales)
