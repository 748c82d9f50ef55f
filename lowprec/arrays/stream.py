"""Conversions at the speed of memory: which plan serves one, and how an array is gone through.

Contiguous arrays as they are, large ones in threads; all others through small buffers, in the order
of their elements. Results do not depend on any of it.

Floor 3.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lowprec.arrays.checks import unlocked
from lowprec.arrays.random import key_of
from lowprec.arrays.threads import SHARED_FROM, share
from lowprec.kernels.lower.vector import (
    NOTHING,
    anywhere,
    lower_decoder,
    lower_encoder,
    past_caches,
    plan,
    refuses,
    shapes,
    specialized,
)
from lowprec.kernels.vector.convert import REFUSED, UNSUITED, kernel, magnitude_above
from lowprec.spec import catalog
from lowprec.spec.format import Format, Sign
from lowprec.spec.projection import DEFAULT, Projection

__all__ = ["PAST_FROM", "Conversion", "chosen", "conversion", "has_nan", "known_to_kernels", "nan_above", "run"]

Array = npt.NDArray[Any]

#: Elements that are gone through at a time where they do not lie one after the other.
_BUFFER = 1 << 14

#: Bytes of results from which no cache would hold them until they are used.
PAST_FROM = 1 << 24

_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))
_NO_RANDOM = np.empty(0, np.uint32)


class Conversion(NamedTuple):
    """A kernel, and the plan that says what it does."""

    kernel: Callable[..., int]
    plan: Array
    refuses: bool  #: whether a NaN is refused


@functools.lru_cache(maxsize=4096)
def conversion(source: Format, target: Format, rule: Projection, carrier: Format | None) -> Conversion | None:
    """How to convert codes to codes of a target, and on to a type that carries its values if one is named.

    None where only the general kernel does.
    """
    wide = source == catalog.BINARY64
    whole = target in (catalog.BINARY32, catalog.BINARY64) and carrier is None
    if whole and (rule != DEFAULT or wide):
        return None
    first = NOTHING if wide else lower_decoder(source, target == catalog.BINARY64, quiet=whole)
    stages = [first, NOTHING if whole else lower_encoder(target, rule, wide), NOTHING, NOTHING]
    if carrier is not None:
        stages[2] = lower_decoder(target, carrier == catalog.BINARY64)
        if carrier not in (catalog.BINARY32, catalog.BINARY64):
            stages[3] = lower_encoder(carrier, DEFAULT)
    if any(stage is None for stage in stages):
        return None
    words = plan(*stages)  # type: ignore[arg-type]
    return Conversion(chosen(words, False), words, refuses(words))


def chosen(words: Array, drawn: bool) -> Callable[..., int]:
    """The kernel for a plan; the one that draws its random integers, or not."""
    return kernel(shapes(words) if specialized(words) else ((),) * 4, drawn)


def known_to_kernels(array: Array) -> Array:
    """The array, or its bits where it is of a type that numba does not know."""
    known = array.dtype.kind == "u" or array.dtype in _FLOATS
    return unlocked(array if known else array.view(f"u{array.itemsize}"))


def run(way: Conversion, codes: Array, out: Array, random: Array | None, rng: Any) -> bool:
    """Convert elements to those of `out`, of the same shape; whether a NaN was refused.

    Both as `known_to_kernels` gives them. They may be the same memory, element for element, but must not
    overlap otherwise. `random` holds an integer for each element; else `rng` gives them, or neither.
    """
    codes = unlocked(codes)
    if not codes.ndim:  # NumPy 2.2 loses what buffered iteration writes to an array without axes
        codes, out = codes.reshape(1), out.reshape(1)
    if codes.flags.aligned and out.flags.aligned and codes.dtype.isnative:
        if codes.flags.c_contiguous and out.flags.c_contiguous:
            return _flat(way, codes.reshape(-1), out.reshape(-1), random, rng) == REFUSED
        if random is None and rng is None and codes.flags.f_contiguous and out.flags.f_contiguous:
            return _flat(way, codes.T.reshape(-1), out.T.reshape(-1), None, None) == REFUSED
    return _buffered(way, codes, out, random, rng) == REFUSED


def nan_above(source: Format, codes: Array) -> tuple[np.uint32, np.uint32] | None:
    """The limit and the mask for `magnitude_above`, where it tells the NaNs of a format from its other codes."""
    if source.infinity_code is None or not (source.has_signed_nan or source.sign is Sign.UNSIGNED):
        return None
    upper, magnitudes = 32 if codes.itemsize == 8 else 0, (1 << source.width) - 1 & ~source.sign_code
    return np.uint32(source.infinity_code >> upper), np.uint32(magnitudes >> upper)


def has_nan(source: Format, codes: Array) -> bool:
    """Whether there is a NaN among codes; where that takes long to find out, whether there may be one."""
    limits = nan_above(source, codes)
    if limits is None or not (codes.flags.c_contiguous and codes.flags.aligned and codes.dtype.isnative):
        return source.has_nan
    return magnitude_above(codes.reshape(-1), *limits)


def _flat(way: Conversion, codes: Array, out: Array, random: Array | None, rng: Any) -> int:
    if out.nbytes >= PAST_FROM and not np.may_share_memory(codes, out) and not _address(out) % 16:
        way = way._replace(plan=past_caches(way.plan))
    if rng is None:
        words = _NO_RANDOM if random is None else random.reshape(-1)
        if codes.size < SHARED_FROM:
            return _convert(way, codes, out, words)
        return share(lambda i, j: _convert(way, codes[i:j], out[i:j], words[i:j]), codes.size)
    key = np.uint64(key_of(rng))
    return share(lambda i, j: _draw(way, codes[i:j], out[i:j], key, i), codes.size)


def _address(array: Array) -> int:
    return int(array.__array_interface__["data"][0])


def _convert(way: Conversion, codes: Array, out: Array, random: Array) -> int:
    status = way.kernel(codes, out, way.plan, random)
    if status == UNSUITED:
        words = anywhere(way.plan)
        return chosen(words, False)(codes, out, words, random)
    return status


def _draw(way: Conversion, codes: Array, out: Array, key: np.uint64, first: int) -> int:
    return chosen(way.plan, True)(codes, out, way.plan, key, np.uint64(first))


def _buffered(way: Conversion, codes: Array, out: Array, random: Array | None, rng: Any) -> int:
    """In the order of elements where they have random integers, else in the order of memory."""
    ordered = random is not None or rng is not None
    reading, writing = ["readonly", "aligned", "nbo", "contig"], ["writeonly", "aligned", "contig"]
    operands, modes = [codes, out], [reading, writing]
    if random is not None:
        operands, modes = [*operands, random.reshape(codes.shape)], [*modes, reading]
    if rng is not None:
        rng = key_of(rng)
    status = done = 0
    flags = ["external_loop", "buffered", "zerosize_ok"]
    with np.nditer(
        operands, flags=flags, op_flags=modes, order="C" if ordered else "K", buffersize=_BUFFER, casting="equiv"
    ) as parts:  # type: ignore[call-overload]
        for part in parts:
            given = unlocked(part[0])
            if rng is None:
                got = _convert(way, given, part[1], unlocked(part[2]) if ordered else _NO_RANDOM)
            else:
                got = _draw_from(way, given, part[1], rng, done)
            status, done = max(status, got), done + given.size
    return status


def _draw_from(way: Conversion, codes: Array, out: Array, key: int, first: int) -> int:
    """Also where the first element is not the first of four."""
    skipped = first % 4
    if not skipped:
        return _draw(way, codes, out, np.uint64(key), first)
    held = np.concatenate([np.zeros(skipped, codes.dtype), codes])
    result = np.empty(held.size, out.dtype)
    status = _draw(way, held, result, np.uint64(key), first - skipped)
    out[...] = result[skipped:]
    return status
