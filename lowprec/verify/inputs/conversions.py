"""The inputs that matter for a conversion: where an implementation can go wrong.

Between two neighbouring codes only the tie and its neighbours tell rounding modes apart; at the
ends there are the overflow threshold, the subnormal border and the specials. `inputs` gives all of
them in the type that an implementation reads.
"""

from __future__ import annotations

import functools
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Format, Sign
from lowprec.verify.codes.codebooks import marks

__all__ = ["SOURCES", "inputs", "magnitudes", "sample"]

Array = npt.NDArray[Any]

#: The types that values come in, by name.
SOURCES: dict[str, np.dtype[Any]] = {
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float32": np.dtype(np.float32),
    "float64": np.dtype(np.float64),
    "int32": np.dtype(np.int32),
    "int64": np.dtype(np.int64),
}


_TRAILING_BITS = {4: 23, 8: 52}


def inputs(fmt: Format, source: npt.DTypeLike, *, sparse: bool = False) -> Array:
    """Return every input of a type that matters for a format, in ascending order of its bits.

    16-bit types: all of their values. float32 and float64: every value, tie and overflow
    threshold of the format with the two neighbours on either side, both signs; at two neighbouring
    codes of up to 32 binades every bit of the tail by itself (a sticky bit that misses one is caught);
    powers of two; the type's own subnormals, limits, infinities, zeros and NaNs. Integers: those next to
    every value and tie, and the powers of two with their neighbours. Formats above 16 bits are taken at
    the ends of their binades (`magnitudes`).

    >>> from lowprec.spec.catalog import E4M3FN
    >>> 464.0 in inputs(E4M3FN, "float32")
    True

    Parameters
    ----------
    fmt : Format
    source : dtype
        A float of at most 64 bits or an integer.
    sparse : bool
        Without the bits of the tail by themselves, and of formats above 8 bits only the lowest,
        the middle and the highest binades.

    Returns
    -------
    inputs : array of that dtype, shape (n,)
        Each bit pattern once.
    """
    dtype = np.dtype(source)
    if dtype.itemsize == 2 and dtype.kind != "i" and dtype.kind != "u":
        return np.arange(1 << 16, dtype=np.uint16).view(dtype)
    if dtype.kind in "iu":
        return _integers(fmt, dtype)
    bits = np.dtype(f"u{dtype.itemsize}")
    infinity = np.array(np.inf, dtype).view(bits)

    def around(points: Array, offsets: Array) -> Array:
        with np.errstate(over="ignore", under="ignore"):
            near = points.astype(dtype).view(bits)
        patterns = (near[:, None] + offsets.astype(f"i{dtype.itemsize}").view(bits)).reshape(-1)
        # Below 0 they have wrapped round to huge ones.
        real: Array = patterns[patterns <= infinity]
        return real

    points, few = _marks(fmt, sparse)
    powers = np.int64(1) << np.arange(_TRAILING_BITS[dtype.itemsize])
    unsigned = np.unique(
        np.concatenate(
            [
                around(points, np.arange(-2, 3)),
                around(few, np.concatenate([powers, -powers])),
                _specials(dtype),
            ]
        )
    )
    return np.concatenate([unsigned, unsigned | bits.type(1 << (8 * dtype.itemsize - 1))]).view(dtype)


def sample(source: npt.DTypeLike, size: int, seed: int = 0) -> Array:
    """Return random bit patterns of a float type: every exponent, and NaNs, as likely as any.

    >>> sample("float32", 3).dtype
    dtype('float32')
    """
    dtype = np.dtype(source)
    words = np.random.default_rng(seed).integers(0, 256, size * dtype.itemsize, dtype=np.uint8)
    return words.view(dtype)


def magnitudes(fmt: Format, *, sparse: bool = False) -> Array:
    """Return magnitudes worth looking at: all up to 16 bits, else the ends of every binade.

    >>> from lowprec.spec.catalog import E2M1FN
    >>> magnitudes(E2M1FN)
    array([0, 1, 2, 3, 4, 5, 6, 7])
    """
    last = fmt.max_magnitude + (fmt.sign is Sign.TWOS_COMPLEMENT)
    if fmt.width <= (8 if sparse else 16):
        return np.arange(last + 1, dtype=np.int64)
    t = fmt.trailing_bits
    binades = np.arange(0, last + 2, 1 << t if fmt.exponent_bits else 1 << (t // 2), dtype=np.int64)
    if sparse:
        places = np.array([0, 1, 2, binades.size // 2, *(binades.size - np.arange(1, 4))])
        binades = binades[places.clip(0, binades.size - 1)]
    ends = (binades[:, None] + np.arange(-4, 5)).reshape(-1)
    few = np.concatenate([ends, np.arange(last - 3, last + 1), np.int64(1) << np.arange(t)])
    return np.unique(few[(few >= 0) & (few <= last)])


@functools.lru_cache(maxsize=16)
def _marks(fmt: Format, sparse: bool) -> tuple[Array, Array]:
    """Return values, ties and bounds of overflow, and the few around which each bit of a tail is tried."""
    if isinstance(fmt, Codebook):
        points = marks(fmt)
        few = np.unique(np.linspace(0, points.size - 1, 64).astype(np.int64))
        return (points if fmt.width <= 8 or not sparse else points[few]), points[few if not sparse else []]
    here = magnitudes(fmt, sparse=sparse)
    walks = here[np.isin(here, [] if sparse else _two_of_each_binade(fmt))]
    return _points(fmt, here), _points(fmt, walks)


def _two_of_each_binade(fmt: Format) -> Array:
    """Return an even and an odd magnitude of 32 binades at most, the ends among them, and the last two."""
    last = fmt.max_magnitude
    starts = np.arange(0, last + 1, 1 << fmt.trailing_bits if fmt.exponent_bits else 1 << 3, dtype=np.int64)
    if starts.size > 32:
        starts = starts[np.linspace(0, starts.size - 1, 32).astype(np.int64)]
    return np.concatenate([starts, starts + 1, [last - 1, last]])


def _points(fmt: Format, here: Array) -> npt.NDArray[np.float64]:
    """Return the values of magnitudes and the ties above them, as float64."""
    low, high = _values(here, fmt), _values(here + 1, fmt)
    with np.errstate(over="ignore"):
        return np.unique(np.concatenate([low, low + (high - low) / 2, high]))


def _values(magnitude: Array, fmt: Format) -> npt.NDArray[np.float64]:
    pairs = np.array([fmt.scaled(int(m)) for m in magnitude], dtype=np.int64).reshape(-1, 2)
    with np.errstate(over="ignore"):
        return np.asarray(np.ldexp(pairs[:, 0].astype(np.float64), pairs[:, 1]))


def _specials(dtype: np.dtype[Any]) -> Array:
    """Return bit patterns without sign: zero, subnormals, powers of two, limits, infinity, NaNs."""
    size = 8 * dtype.itemsize
    trailing = _TRAILING_BITS[dtype.itemsize]
    infinity = int(np.array(np.inf, dtype).view(f"u{dtype.itemsize}"))
    powers = [field << trailing for field in range(1, infinity >> trailing)]
    if size == 64:  # float32's range and the ends; the others lie beyond every format
        powers = [power for power in powers if not 40 < (power >> trailing) < 1023 - 160]
    subnormals = [1 << bit for bit in range(trailing)] + [(1 << bit) - 1 for bit in range(1, trailing + 1)]
    quiet = infinity | 1 << (trailing - 1)
    nans = [infinity + 1, quiet, quiet | 1, quiet - 1, (1 << (size - 1)) - 1]
    patterns = [0, *subnormals, *powers, infinity - 1, infinity, *nans]
    return np.array(patterns, dtype=f"u{dtype.itemsize}")


def _integers(fmt: Format, dtype: np.dtype[Any]) -> Array:
    limits = np.iinfo(dtype)
    near = {0, limits.min, limits.max}
    points = _marks(fmt, False)[0]
    points = points[points <= limits.max]
    fits = abs(points) < 2.0**62
    for point in points[~fits]:
        near.update(range(int(point) - 1, int(point) + 3))
    for bit in range(limits.bits):
        near.update(((1 << bit) - 1, 1 << bit, (1 << bit) + 1))
    near |= {-number for number in near}
    others = (points[fits].astype(np.int64)[:, None] + np.arange(-1, 3)).reshape(-1)
    others = np.concatenate([others, -others])
    others = others[(others >= limits.min) & (others <= limits.max)]
    few = np.array([number for number in near if limits.min <= number <= limits.max], dtype)
    return np.unique(np.concatenate([others.astype(dtype), few]))
