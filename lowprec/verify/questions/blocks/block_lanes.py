"""Lanes and limits of a block converter that its results show: left out, misread, or never passed."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from lowprec.arrays.blocks.block import BlockArray
from lowprec.arrays.blocks.block_products import spread
from lowprec.spec.block import BlockFormat
from lowprec.verify.codes.display import hex_of
from lowprec.verify.codes.values import doubles
from lowprec.verify.questions.blocks.block_causes import (
    SCALE_SHIFT,
    SPECIAL,
    encoded,
    given_scales,
    has_sign_bit,
    numbers_beyond,
    of_values,
    under,
    units_of,
    with_nan,
)
from lowprec.verify.questions.question import Array, Change

__all__ = ["lanes"]

#: What the fields of blocks with special values are about.
_SEEN: dict[str, tuple[str, Callable[[Array], Array]]] = {
    "nan": ("NaNs", np.isnan),
    "infinity": ("infinities", np.isinf),
}


def lanes(fmt: BlockFormat, axis: int, values: Array, got: Array, want: Array) -> Iterator[Change]:
    """Yield lanes that the results show to be left out: of everything, or of the largest magnitude.

    Those that are zero wherever something else is right, and those that hold the largest magnitude of the
    blocks whose scales are too small.
    """
    size = fmt.sizes[0]
    given, came, right = (_blocks(side.reshape(values.shape), axis, size) for side in (values, got, want))
    mask = (1 << SCALE_SHIFT) - 1
    if has_sign_bit(fmt.element):
        mask ^= fmt.element.sign_code
    silent = np.flatnonzero(((came & mask) == 0).all(0) & ((right & mask) != 0).any(0)).tolist()
    if 0 < len(silent) < size:
        away = functools.partial(_without, lanes=silent, axis=axis, size=size)
        yield Change("lane", away, f"{_named(silent)} of {size} left out")
    missed = given[~_has_nan(fmt, came) & _has_nan(fmt, right)]
    for field, (what, is_it) in _SEEN.items():
        unread = np.flatnonzero(is_it(doubles(missed)).any(0)).tolist()
        treated = {"": "taken as numbers, of the next exponent"} | {
            value: words for value, words in SPECIAL[field].items() if value not in ("block", "scale", "all")
        }
        for value, said in treated.items() if unread else ():
            own = said.removeprefix(f"{what} ")
            words = f"{what} in {_named(unread)} of {size}{' ' if own != said else ': '}{own}"
            unseen_by = functools.partial(_unread, lanes=unread, field=field, value=value)
            yield Change("scaling", unseen_by, words)
    yield from _limits(fmt, came[:, 0] >> SCALE_SHIFT, right[:, 0] >> SCALE_SHIFT)
    low = doubles(given[(came[:, 0] >> SCALE_SHIFT) < (right[:, 0] >> SCALE_SHIFT)])
    low = low[np.isfinite(low).all(1)]
    largest = np.argmax(np.abs(low), axis=1)
    for lane in np.flatnonzero(np.signbit(low).all(0)).tolist() if len(low) and given_scales(fmt) else ():
        alone = functools.partial(_alone, lane=lane, axis=axis, size=size)
        yield Change(
            "scaling", of_values(alone), f"a negative value in lane {lane} is the largest magnitude", 2
        )
    minus = np.signbit(np.take_along_axis(low, largest[:, None], 1))[:, 0]
    unseen = np.unique(largest).tolist()
    signs = (
        {"": None}
        if len(set(minus.tolist())) > 1
        else {"": None, f"{'negative' if minus.any() else 'positive'} values in ": bool(minus.any())}
    )
    for said, sign in signs.items() if unseen and given_scales(fmt) else ():
        for some in {tuple(part): None for part in (unseen, *_around(unseen, size))}:
            if len(some) < size:
                words = f"{said}{_named(some)} of {size} left out of the largest magnitude"
                away = functools.partial(_without, lanes=some, axis=axis, size=size, negative=sign)
                cost = 1 + (len(some) != some[-1] - some[0] + 1) + (sign is not None)
                yield Change("scaling", of_values(away), words, cost)


def _limits(fmt: BlockFormat, came: Array, right: Array) -> Iterator[Change]:
    """Yield a limit of scales, if all that differ have one code, above the right ones or below them."""
    differ = came != right
    codes = np.unique(came[differ])
    if codes.size != 1 or not given_scales(fmt) or codes[0] > fmt.scale.max_magnitude:
        return
    for words, limit, beyond in (("least", np.maximum, came > right), ("most", np.minimum, came < right)):
        if beyond[differ].all():
            limited = functools.partial(_limited, code=int(codes[0]), limit=limit)
            yield Change("scaling", limited, f"scale codes are at {words} {hex_of(int(codes[0]), fmt.scale)}")


def _limited(blocks: BlockArray, values: Array, code: int, limit: Any) -> BlockArray:
    return under(blocks, values, limit(blocks.scales, code))


def _has_nan(fmt: BlockFormat, side: Array) -> Array:
    """Return the rows whose scale is NaN."""
    return np.isnan(units_of(side[:, 0] >> SCALE_SHIFT & (1 << fmt.scale.width) - 1, fmt))


def _blocks(side: Array, axis: int, size: int) -> Array:
    """Return whole blocks as rows."""
    moved = np.moveaxis(side, axis, -1)
    return moved[..., : moved.shape[-1] // size * size].reshape(-1, size)


def _named(lanes: Sequence[int]) -> str:
    first, last = lanes[0], lanes[-1]
    if first == last:
        return f"lane {first}"
    if len(lanes) == last - first + 1:
        return f"lanes {first} to {last}"
    return f"lanes {', '.join(map(str, lanes))}"


def _around(lanes: Sequence[int], size: int) -> Iterator[Sequence[int]]:
    """Yield the run of these lanes, and the smallest half, quarter or less of all lanes that has them all."""
    yield range(lanes[0], lanes[-1] + 1)
    count = 1
    while count < size and lanes[0] // count != lanes[-1] // count:
        count *= 2
    first = lanes[0] // count * count
    yield range(first, min(first + count, size))


def _without(
    values: Array, lanes: Sequence[int], axis: int, size: int, negative: bool | None = None
) -> Array:
    """Return values of which those of some lanes, of one sign or both, are zero."""
    made = values.copy()
    last = np.moveaxis(made, axis, -1)
    which = np.isin(np.arange(values.shape[axis]) % size, lanes)
    which = which & (True if negative is None else np.signbit(last) == negative)
    last[np.broadcast_to(which, last.shape)] = 0
    return made


def _alone(values: Array, lane: int, axis: int, size: int) -> Array:
    """Return values of which those of blocks with a negative one in a lane are zero but for this one."""
    last = np.moveaxis(values, axis, -1)
    blocks = last.reshape(*last.shape[:-1], -1, size)
    others = np.signbit(blocks[..., lane : lane + 1]) & (np.arange(size) != lane)
    return np.moveaxis(np.where(others, 0.0, blocks).reshape(last.shape), -1, axis)


def _unread(blocks: BlockArray, values: Array, lanes: Sequence[int], field: str, value: str) -> BlockArray:
    """Return blocks whose NaNs or infinities in some lanes are treated otherwise; others are as before."""
    fmt, axis, size = blocks.format, blocks.axes[0], blocks.format.sizes[0]
    if value:
        given: dict[str, Any] = {field: value}
        other = encoded(blocks, values, with_nan(dataclasses.replace(fmt, **given)))
    else:
        other = encoded(blocks, numbers_beyond(np.asarray(values, np.float32)))
    without = np.where(_SEEN[field][1](values), _without(values, lanes, axis, size), values)
    seen = np.isnan(units_of(encoded(blocks, without).scales, fmt))
    kept = spread(seen, values.shape, blocks.axes, fmt.sizes)
    return dataclasses.replace(
        blocks,
        codes=np.where(kept, blocks.codes, other.codes),
        scales=np.where(seen, blocks.scales, other.scales),
    )
