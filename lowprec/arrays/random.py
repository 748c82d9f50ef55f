"""Random integers for stochastic rounding: one for each element, by its place in the logical array.

Floor 3.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lowprec.arrays.checks import as_array
from lowprec.kernels.random import philox_runs
from lowprec.spec.format import Format
from lowprec.spec.layouts import lanes
from lowprec.spec.projection import Projection
from lowprec.spec.rounding import Rounding, stochastic

__all__ = [
    "Place",
    "integers_for",
    "integers_of",
    "is_plain",
    "key_of",
    "random_bits",
    "with_integers",
    "words_at",
    "words_for",
]

Words = npt.NDArray[np.uint32]


class Place(NamedTuple):
    """A box of a larger array, for which a verb draws that array's random integers: given as its `rng`."""

    key: int
    origin: tuple[int, ...]  #: where the box begins
    within: tuple[int, ...]  #: the larger array's shape

    def at(self, box: Sequence[slice]) -> Place:
        """Return a box within this box."""
        origin = (first + part.start for first, part in zip(self.origin, box, strict=True))
        return self._replace(origin=tuple(origin))


def random_bits(
    shape: int | Sequence[int],
    rng: int | np.random.Generator,
    bits: int,
    *,
    origin: Sequence[int] | None = None,
    within: Sequence[int] | None = None,
    stream: int = 0,
) -> Words:
    """Random integers for any box of a larger array, the same whoever asks for them.

    Element i of the larger array, in C order, has the top `bits` bits of word i of the
    Philox4x32-10 stream. A verb given `rng=` uses exactly these.

    >>> random_bits(4, 0, 32)
    array([1713891541, 3781805453, 3159862348, 2600524760], dtype=uint32)
    >>> random_bits((1, 2), 7, 8, origin=(2, 1), within=(4, 5)) == random_bits((4, 5), 7, 8)[2:3, 1:3]
    array([[ True,  True]])

    Parameters
    ----------
    shape : int or tuple of int
        Of the box.
    rng : int or Generator
        The key, 0 to 2**64 - 1, or a generator to draw one from.
    bits : int
        1 to 32.
    origin : tuple of int, optional
        Where the box begins in the larger array; by default at its beginning.
    within : tuple of int, optional
        The larger array's shape; by default that of the box.
    stream : int
        0 for elements, 1 for block scales, 2 + s for step s of an accumulation.

    Returns
    -------
    random : array of uint32, of that shape
        Integers below 2**bits.

    Raises
    ------
    ValueError
        A box that does not lie in the larger array, or a number out of range.

    Source
    ------
    [PHILOX]; docs/decisions/0005.
    """
    box, bits, stream = _tuple("shape", shape), _index("bits", bits), _index("stream", stream)
    whole = box if within is None else _tuple("within", within)
    start = (0,) * len(box) if origin is None else _tuple("origin", origin)
    if not 1 <= bits <= 32:
        raise ValueError(f"bits={bits} of random integers is out of range; use 1 to 32")
    if not 0 <= stream < 1 << 32:
        raise ValueError(f"stream={stream} is out of range; use 0 to 2**32 - 1")
    if len(start) != len(box) or len(whole) != len(box):
        raise ValueError(f"shape={box}, origin={start} and within={whole} must have as many dimensions")
    if any(
        low < 0 or size < 0 or low + size > limit for low, size, limit in zip(start, box, whole, strict=True)
    ):
        raise ValueError(f"a box of shape={box} at origin={start} does not lie within={whole}")
    if math.prod(whole) >= 1 << 64:
        raise ValueError(f"within={whole} has 2**64 elements or more, whose places do not fit 64 bits")
    key = key_of(rng)
    out = np.empty(box, np.uint32)
    if out.size:
        strides = [int(np.prod(whole[axis + 1 :], dtype=object)) for axis in range(len(whole))]
        if box == whole or not box:
            starts, length = np.zeros(1, np.uint64), out.size
        else:
            firsts = [
                np.uint64(low) + np.arange(size, dtype=np.uint64)
                for low, size in zip(start, box, strict=True)
            ]
            terms = [
                first * np.uint64(stride) for first, stride in zip(firsts[:-1], strides[:-1], strict=True)
            ]
            base = functools.reduce(np.add.outer, terms, firsts[-1][0])
            starts, length = np.ascontiguousarray(base).reshape(-1), box[-1]
        philox_runs(out.reshape(-1), starts, length, np.uint64(key), stream, bits)
    return out


def _index(name: str, value: object) -> int:
    """Return an integer, and refuse what would round to one."""
    if isinstance(value, (bool, np.bool_)) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} of random integers must be an integer, not {value!r}")
    return operator.index(value)


def _tuple(name: str, value: object) -> tuple[int, ...]:
    if isinstance(value, Iterable):
        return tuple(_index(name, item) for item in value)
    return (_index(name, value),)


def key_of(rng: object) -> int:
    """Return the 64-bit key that an `rng` argument stands for."""
    if isinstance(rng, np.random.Generator):
        return int(rng.integers(0, 1 << 64, dtype=np.uint64))
    if isinstance(rng, (bool, np.bool_)) or not isinstance(rng, (int, np.integer)):
        raise TypeError(f"rng must be an integer, the key, or a numpy.random.Generator, not {rng!r}")
    if not 0 <= int(rng) < 1 << 64:
        raise ValueError(f"rng={rng!r} is out of range; use 0 to 2**64 - 1")
    return int(rng)


def words_at(
    shape: tuple[int, ...], rng: object, bits: int, units: Sequence[int] = (), stream: int = 0
) -> Words:
    """Random integers of an array, or of a box of it; one for each `units` elements along the last axes."""
    if not isinstance(rng, Place):
        return random_bits(shape, rng, bits, stream=stream)  # type: ignore[arg-type]
    each = (*(1,) * (len(shape) - len(units)), *units)
    origin = [first // unit for first, unit in zip(rng.origin, each, strict=True)]
    within = [-(-length // unit) for length, unit in zip(rng.within, each, strict=True)]
    return random_bits(shape, rng.key, bits, origin=origin, within=within, stream=stream)


def is_plain(rounding: Rounding) -> bool:
    """Return whether each element has a random integer of its own, as `random_bits` gives them."""
    return rounding.variant in ("A", "B", "C")


def with_integers(how: Projection) -> Projection:
    """Return the same projection for integers that are cut out of words already."""
    if not how.rounding.bits or is_plain(how.rounding):
        return how
    return dataclasses.replace(how, rounding=stochastic(how.rounding.bits))


def integers_for(
    rounding: Rounding, fmt: Format, shape: tuple[int, ...], random: object, rng: object
) -> npt.NDArray[np.uint32]:
    """Return a random integer below 2**bits for each element, flat: as given, drawn, or cut out of words.

    Empty for deterministic modes.
    """
    if not rounding.bits:
        for name, given in (("random", random), ("rng", rng)):
            if given is not None:
                raise ValueError(
                    f"{name}= is for stochastic rounding, and rounding {rounding} is not; leave it out"
                )
        return np.empty(0, np.uint32)
    group = lanes(rounding, fmt)
    return _cut(words_for(rounding, group, shape, random, rng), rounding, group, shape).reshape(-1)


def words_for(
    rounding: Rounding, group: int, shape: tuple[int, ...], random: object, rng: object
) -> npt.NDArray[np.uint32]:
    """Return the random words of an array, as given or drawn: one for each `group` elements of a row."""
    if (random is None) == (rng is None):
        how = "both" if random is not None else "neither"
        raise ValueError(f"rounding {rounding} needs random= or rng=, and was given {how}; give one of them")
    words_shape = shape if group == 1 or not shape else (*shape[:-1], -(-shape[-1] // group))
    word_bits = rounding.bits if is_plain(rounding) else 32
    if random is None:
        return words_at(words_shape, rng, word_bits, (group,) if shape else ())
    return _given(random, words_shape, word_bits, group)


def integers_of(
    rounding: Rounding, fmt: Format, shape: tuple[int, ...], random: object, rng: object
) -> Callable[[tuple[slice, ...]], dict[str, Any]]:
    """Return a function of boxes of an array: a verb's keywords for the random integers that belong there."""
    if not rounding.bits or (random is None) == (rng is None):
        integers_for(rounding, fmt, shape, random, rng)  # refuses what does not go together
        return lambda box: {}
    if rng is not None:
        place = rng if isinstance(rng, Place) else Place(key_of(rng), (0,) * len(shape), shape)
        return lambda box: {"rng": place.at(box)}
    group = lanes(rounding, fmt)
    words = words_for(rounding, group, shape, random, None)
    if group == 1 or not shape:
        return lambda box: {"random": words[box]}
    return lambda box: {
        "random": words[(*box[:-1], slice(box[-1].start // group, -(-box[-1].stop // group)))]
    }


def _given(random: object, shape: tuple[int, ...], bits: int, group: int) -> Words:
    words = as_array(random)
    if words.size and words.dtype.kind not in "iu":
        raise TypeError(
            f"random must be an array of integers, not of {words.dtype}; lowprec.random_bits makes them"
        )
    if words.shape != shape:
        share = f": {group} elements along the last axis share a word" if group > 1 else ""
        raise ValueError(f"random has shape {words.shape}, but needs {shape}{share}")
    if words.size and (int(words.min()) < 0 or int(words.max()) >> bits):
        raise ValueError(
            f"random must lie in 0 to 2**{bits} - 1, not {int(words.min())} to {int(words.max())}"
        )
    return words.astype(np.uint32)


def _cut(words: Words, rounding: Rounding, group: int, shape: tuple[int, ...]) -> Words:
    """Return the bits that each element takes of its word."""
    bits, variant = np.uint32(rounding.bits), rounding.variant
    if variant in ("A", "B", "C"):
        return np.ascontiguousarray(words)
    if variant == "rdna4":
        return words >> (np.uint32(32) - bits)
    if variant == "hip":
        return words & np.uint32((1 << rounding.bits) - 1)
    if variant == "avx10_2":
        return (words & np.uint32(0xFF)) >> (np.uint32(8) - bits)
    upper, lower = words >> np.uint32(16), words & np.uint32(0xFFFF)
    if group == 4:
        lanes_of = [_reversed16(upper), upper, _reversed16(lower), lower]
    else:
        low = np.uint32((1 << rounding.bits) - 1)
        lanes_of = [upper & low, lower & low]
    spread = np.stack(lanes_of, axis=-1)
    if not shape:
        return np.ascontiguousarray(spread[..., 0])
    flat = spread.reshape(*words.shape[:-1], words.shape[-1] * group)
    return np.ascontiguousarray(flat[..., : shape[-1]])


def _reversed16(words: Words) -> Words:
    """Return the 16 bits of each word in the opposite order."""
    result: Any = words
    for shift, mask in ((1, 0x5555), (2, 0x3333), (4, 0x0F0F), (8, 0x00FF)):
        by, low = np.uint32(shift), np.uint32(mask)
        result = ((result >> by) & low) | ((result & low) << by)
    reversed_words: Words = result
    return reversed_words
