"""Edits of the scales of blocks of a dot unit: of blocks, of lanes, and of products of scales."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from lowprec.spec.format import Format
from lowprec.verify.questions.dots.dot_faults import flushed
from lowprec.verify.questions.dots.edits import OnLanes, on_codes, subnormals_read
from lowprec.verify.questions.dots.stages import fault
from lowprec.verify.questions.dots.step_cuts import lanes_of
from lowprec.verify.questions.dots.step_faults import beyond
from lowprec.verify.questions.features import exponents
from lowprec.verify.questions.question import Array, Change

#: Exponents of scales up to which each may be their limit.
_FEW = 16

__all__ = ["lane_scale_edits", "of_scales", "scale_edits", "single_scale_edits"]


def single_scale_edits(fmt: Format) -> dict[str, Callable[[Array], Array]]:
    """Return edits of scales by themselves, in words."""
    smallest = 2.0 ** (fmt.emin - fmt.trailing_bits) if fmt.subnormals else 2.0**fmt.emin
    changes: dict[str, Callable[[Array], Array]] = {
        "clamped at 1 from above": lambda scales: np.minimum(scales, 1.0),
        "clamped at 1 from above, NaN too": lambda scales: np.fmin(scales, 1.0),
        "clamped at 1 from below": lambda scales: np.maximum(scales, 1.0),
        "left out: 1": np.ones_like,
        "one exponent too low": lambda scales: scales / 2,
        "one exponent too high": lambda scales: scales * 2,
        "NaN taken as 1": lambda scales: np.where(np.isnan(scales), 1.0, scales),
        "NaN taken as zero": lambda scales: np.where(np.isnan(scales), 0.0, scales),
        "NaN read as a number": lambda scales: np.where(np.isnan(scales), beyond(fmt), scales),
        "below the normal numbers taken as zero": functools.partial(flushed, least=2.0**fmt.emin),
        "with exponents of the other sign": functools.partial(_inverted, least=fmt.emin),
        "with the smallest code taken as zero": lambda scales: np.where(scales <= smallest, 0.0, scales),
    }
    for exponent in _limits(fmt):
        most = 2.0 ** (exponent + 1) - 2.0 ** (exponent - fmt.trailing_bits)
        changes[f"limited to {most:g}"] = functools.partial(np.minimum, most)
        changes[f"at least {2.0**exponent:g}"] = functools.partial(np.maximum, 2.0**exponent)
    for exponent in (fmt.emax, fmt.emax - 1):
        beyond_it = functools.partial(_nan_from, least=2.0**exponent)
        changes[f"read as NaN from {2.0**exponent:g} on"] = beyond_it
    for zero, what in ((False, "subnormal"), (True, "subnormal or zero")) if fmt.subnormals else ():
        found = subnormals_read(2.0**fmt.emin, zero=zero)
        changes |= {f"{said} if they are {what}": read for said, read in found.items()}
    return changes | _scale_bits(fmt)


def _nan_from(scales: Array, least: float) -> Array:
    return np.where(scales >= least, np.nan, scales)


def _limits(fmt: Format) -> Iterable[int]:
    """Return exponents that scales may be limited to: all of few, or powers of two and those before them."""
    sizes = {0, *(1 << bits for bits in range(12)), *((1 << bits) - 1 for bits in range(12))}
    every = range(fmt.emin, fmt.emax)
    sizes |= {*map(abs, (*every[:4], *every[-4:]))}
    return [exponent for exponent in every if len(every) <= _FEW or abs(exponent) in sizes]


def _inverted(scales: Array, least: int) -> Array:
    """Return scales whose exponents, as their fields have them, have the other sign."""
    return np.asarray(np.ldexp(scales, -2 * np.maximum(exponents(scales), least)))


def scale_edits(fmt: Format, count: int) -> Iterator[tuple[str, OnLanes]]:
    """Yield edits of scales of some of `count` blocks along K, each as words and what makes the edit."""
    changes = single_scale_edits(fmt)
    if count > 1:
        changes |= {
            "of the block before": lambda scales: np.roll(scales, 1, -1),
            "of the block behind": lambda scales: np.roll(scales, -1, -1),
            "below that of the block before raised to it": functools.partial(_bounded, bound=np.fmax),
            "above that of the block before lowered to it": functools.partial(_bounded, bound=np.fmin),
            "of the first block": lambda scales: np.repeat(scales[..., :1], count, -1),
            "of the last block": lambda scales: np.repeat(scales[..., -1:], count, -1),
            "in reverse order of blocks": lambda scales: scales[..., ::-1],
        }
        for one, other in itertools.permutations(range(count), 2):
            order = np.where(np.arange(count) == one, other, np.arange(count))
            taken = functools.partial(np.take, indices=order, axis=-1)
            changes[f"of block {other} taken for block {one}"] = taken
        for one, other in itertools.combinations(range(count), 2):
            order = np.arange(count)
            order[[one, other]] = other, one
            exchanged = functools.partial(np.take, indices=order, axis=-1)
            changes[f"of blocks {one} and {other} exchanged"] = exchanged
    both: dict[str, Callable[[Array, Array], Sequence[Array]]] = {
        "the scales of x and y exchanged": lambda x, y: (y, x),
        "the scales of x taken for y too": lambda x, y: (x, x),
        "the scales of y taken for x too": lambda x, y: (y, y),
    }
    for least in (-128, -127, -254, -255):
        words = f"sums of scales' exponents wrap around, to {least} to {least + 255}"
        both[words] = functools.partial(_wrapped, least=least)
    for least, most in ((-128, 127), (-127, 127), (-126, 127), (-127, 128), (-128, 255), (-255, 127)):
        words = f"sums of scales' exponents clamped to {least} to {most}"
        both[words] = functools.partial(_clamped, least=least, most=most)
    for least in (-126, -127, -128):
        words = f"scales whose exponents add up to less than {least} taken as zero"
        both[words] = functools.partial(_too_small, least=least)
    for words, change in changes.items():
        for sides, name in (((0,), "x"), ((1,), "y"), ((0, 1), "x and y")):
            both[f"the scales of {name} {words}"] = functools.partial(_sides, sides=sides, change=change)
    for words, pair in both.items():
        yield words, functools.partial(_with_scales, change=pair)


def lane_scale_edits(fmt: Format, count: int) -> Iterator[tuple[str, Any]]:
    """Yield edits of the scales that some lanes take, each as words and a stage of all `count` blocks."""
    changes = {"one exponent too low": lambda scales: scales / 2, **_scale_bits(fmt)}
    if count > 1:
        changes["of the block before"] = functools.partial(np.roll, shift=1, axis=-1)
        changes["of the block behind"] = functools.partial(np.roll, shift=-1, axis=-1)
    for words, change in (changes | {"left out: 1": np.ones_like}).items():
        for side, name in enumerate("xy"):
            changed = functools.partial(_sides, sides=(side,), change=change)
            yield f"the scale of {name} {words}", changed


def _scale_bits(fmt: Format) -> dict[str, Callable[[Array], Array]]:
    """Return edits of scales of which one bit of the code is stuck, in words."""
    changes: dict[str, Callable[[Array], Array]] = {}
    for bit in range(fmt.width):
        name = f"bit {bit}" if bit else "the last bit"
        for value in (0, 1):
            stuck = functools.partial(_stuck_to, bit=bit, value=value)
            changes[f"with {name} read as {value}"] = functools.partial(on_codes, fmt=fmt, change=stuck)
    return changes


def _stuck_to(codes: Array, bit: int, value: int) -> Array:
    return codes & ~(1 << bit) | value << bit


def of_scales(fmt: Format) -> Iterator[Change]:
    """Yield scales of blocks that reach the addend, or not the largest exponent, and products of them cut."""
    yield fault("the largest exponent searched before scales are added", 2, unscaled=True)
    for sides, name in (((0,), "x"), ((1,), "y"), ((0, 1), "x and y")):
        yield fault(f"the addend scaled by the scales of {name} too", 2, addend_scaled=sides)
    for bits in range(1, 2 * fmt.trailing_bits + 1):
        for which, words in enumerate(("", ", where a scale is subnormal", ", where both are normal")):
            cut = functools.partial(_cut, bits=bits, fmt=fmt, normal=which)
            last = "last bit" if bits == 1 else f"last {bits} bits"
            yield fault(f"the {last} of products of scales lost{words}", 2, scale_products=cut)


def _cut(x: Array, y: Array, bits: int, fmt: Format, normal: int) -> Array:
    """Return products of significands without their last bits: of all, if `normal` is 0."""
    product, both = x * y, (x >> fmt.trailing_bits > 0) & (y >> fmt.trailing_bits > 0)
    return np.where((both == normal - 1) | (normal == 0), product >> bits << bits, product)


def _bounded(scales: Array, bound: Callable[[Array, Array], Array]) -> Array:
    """Return scales bounded by those of the block before, which the first block does not have."""
    before = np.concatenate([scales[..., :1], scales[..., :-1]], -1)
    return np.where(np.isnan(scales), scales, bound(scales, before))


def _sides(x: Array, y: Array, sides: tuple[int, ...], change: Callable[[Array], Array]) -> list[Array]:
    return [change(scale) if side in sides else scale for side, scale in enumerate((x, y))]


def _wrapped(x: Array, y: Array, least: int) -> tuple[Array, Array]:
    low, high = (np.frexp(scale)[1] - 1 for scale in (x, y))
    return np.ldexp(x, np.mod(low + high - least, 256) + least - low - high), y


def _clamped(x: Array, y: Array, least: int, most: int) -> tuple[Array, Array]:
    low = sum(np.frexp(scale)[1].astype(np.int64) - 1 for scale in (x, y))
    return np.ldexp(x, np.clip(low, least, most) - low), y


def _too_small(x: Array, y: Array, least: int) -> tuple[Array, Array]:
    low = sum(np.frexp(scale)[1].astype(np.int64) - 1 for scale in (x, y))
    return np.where((low < least) & np.isfinite(x) & np.isfinite(y), 0.0, x), y


def _with_scales(lanes: Array, change: Callable[[Array, Array], Sequence[Array]]) -> Any:
    """Return the stage in which the scales of some blocks are changed."""

    def changed(x: Array, y: Array) -> list[Array]:
        here = lanes_of(lanes, *x.shape)
        return [np.where(here, new, old) for new, old in zip(change(x, y), (x, y), strict=True)]

    return changed
