"""Largest magnitudes of blocks that are found otherwise, as by OR or by some bits, or scaled otherwise."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator

import numpy as np

from lowprec.arrays.blocks.block import BlockArray
from lowprec.arrays.convert import quantize
from lowprec.spec import catalog
from lowprec.spec.block import BlockFormat
from lowprec.spec.format import Format
from lowprec.verify.codes.values import doubles, words_of
from lowprec.verify.questions.blocks.block_causes import encoded, given_scales, of_blocks, of_values, under
from lowprec.verify.questions.dots.former import last_loaded
from lowprec.verify.questions.question import Array, Change

__all__ = ["maxima", "trees"]

#: Bits of reciprocals, and formats that largest magnitudes are scaled in: the usual ones first.
_RECIPROCAL = (24, 11, 8, *range(4, 8), 9, 10, *range(12, 17))
_SCALED_IN = {"binary32": 24, "binary16": 11, "bfloat16": 8}
#: Less than a last place of any value.
_LITTLE = 2.0**-40
#: Last bits of magnitudes that may be lost.
_LOST = 3

#: One magnitude of some along the last axis, from their codes.
Node = Callable[[Array], Array]


def maxima(fmt: BlockFormat) -> Iterator[Change]:
    """Yield largest magnitudes that are scaled otherwise, or that the block before has a part in."""
    if not given_scales(fmt):
        return
    if fmt.rule.divisor != "binade":
        for factor, words in ((1 + _LITTLE, "above"), (1 - _LITTLE, "below")):
            moved = of_values(functools.partial(np.multiply, factor))
            yield Change("scaling", moved, f"scales as if the largest magnitude lay just {words} its value")
        largest = fmt.element.max_finite
        for words, inverse in _reciprocals(largest):
            said = f"scales by the reciprocal of the largest element, {words}"
            yield Change("scaling", of_values(functools.partial(np.multiply, inverse * largest)), said)
            for name in [name for name, bits in _SCALED_IN.items() if words == f"rounded to {bits} bits"]:
                by = functools.partial(_scaled_in, factor=inverse, largest=largest, name=name)
                yield Change("scaling", of_values(by), f"{said}, and products with it to {name}")
        for name in _SCALED_IN:
            by = functools.partial(_scaled_in, factor=1 / largest, largest=largest, name=name)
            words = f"largest magnitudes divided by the largest element are rounded to {name} first"
            yield Change("scaling", of_values(by), words)
    for words, own in {
        "the largest magnitude of the block before counts too": True,
        "scales by the values of the block before": False,
    }.items():
        for said, finite in {"": False, ", of blocks without NaNs and infinities": True}.items():
            former = functools.partial(_by_former, own=own, finite=finite)
            yield Change("scaling", former, f"{words}{said}", 2)


def _scaled_in(values: Array, factor: float, largest: float, name: str) -> Array:
    """Return values that, divided by the largest element, are the products with a factor in a format."""
    return np.asarray(quantize(values * factor, name)) * largest


def _reciprocals(number: float) -> Iterator[tuple[str, float]]:
    """Yield the reciprocal of a number in a few bits, rounded and cut, in words."""
    fraction, exponent = math.frexp(1 / number)
    for bits in _RECIPROCAL:
        for words, whole in {"rounded": round(fraction * 2**bits), "cut": int(fraction * 2**bits)}.items():
            yield f"{words} to {bits} bits", math.ldexp(whole, exponent - bits)


def _by_former(blocks: BlockArray, values: Array, own: bool, finite: bool) -> BlockArray:
    """Return blocks under scales by the finite values of the blocks before, and by their own or not.

    If `finite`, blocks with other values are passed over.
    """
    wide, size = doubles(values), blocks.format.sizes[0]
    largest = of_blocks(blocks, np.where(np.isfinite(wide), np.abs(wide), 0), np.max)
    if blocks.axes[0] != values.ndim - 1:
        raise ValueError("blocks do not follow each other")
    passed = np.asarray(~np.isfinite(wide).reshape(-1, size).all(1) & finite)
    at = last_loaded(passed)
    former = np.repeat(np.where(passed[at], 0, largest.reshape(-1, size)[at, 0]), size).reshape(values.shape)
    former.reshape(-1)[:size] = 0
    return of_values(lambda wide: np.fmax(np.abs(wide), former) if own else former)(blocks, values)


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
