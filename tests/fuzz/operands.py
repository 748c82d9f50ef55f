"""Draw operands: numbers where a conversion can go wrong, in any type that values come in, and codes.

Ties and overflow thresholds with the numbers next to them in the operands' own type, borders of subnormals,
extremes, zeros, infinities, NaNs of every payload, and any patterns.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

import lowprec as lp
from lowprec.spec import catalog
from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Format
from tests.fuzz.drawing import Draw

Array = npt.NDArray[Any]

FLOATS = tuple(np.dtype(kind) for kind in (np.float16, ml_dtypes.bfloat16, np.float32, np.float64))
INTEGERS = tuple(np.dtype(f"{kind}{size}") for kind in "iu" for size in (1, 2, 4, 8))
#: Those that no operation takes for codes.
NUMBERS = tuple(kind for kind in INTEGERS if kind.kind == "i" or kind.itemsize > 2)

#: Types of single bytes, and of less, that ml_dtypes has.
SMALL = tuple(
    np.dtype(getattr(ml_dtypes, name))
    for name in ml_dtypes.__all__
    if name.startswith(("float", "int", "uint"))
)
SMALL = tuple(kind for kind in SMALL if catalog.carrier(kind) is not None and kind not in INTEGERS)


def bits_of(array: Array) -> Array:
    """The bit patterns of an array, as unsigned integers in the byte order of this machine."""
    array = np.asarray(array)
    native = array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
    return np.ascontiguousarray(native).view(f"u{array.dtype.itemsize}").reshape(array.shape)


def codes_in(array: Array, fmt: Format) -> Array:
    """The codes that an array holds: of the type whose elements they are, or integers."""
    try:
        typed_so = array.dtype == lp.dtype(fmt)
    except ValueError:
        typed_so = False
    return bits_of(array) if typed_so else array.astype(np.uint64)


def any_dtype(draw: Draw, integers: tuple[np.dtype[Any], ...] = INTEGERS) -> np.dtype[Any]:
    """A type that values come in: mostly float32 and float64."""
    usual = (np.dtype(np.float32), np.dtype(np.float64))
    kinds = (usual, usual, usual, FLOATS, integers, SMALL, (np.dtype(bool),))
    return draw.alike.choice(draw.alike.choice(kinds))


# -- codes ------------------------------------------------------------------------------------------


def magnitudes(draw: Draw, fmt: Format, count: int) -> list[int]:
    """Magnitudes of finite numbers: borders, ends of binades, small ones and any."""
    last, normal = fmt.max_magnitude, 1 << fmt.trailing_bits
    borders = {0, 1, 2, normal - 1, normal, normal + 1, 2 * normal - 1, 2 * normal, last - 2, last - 1, last}
    found = [place for place in sorted(borders) if 0 <= place <= last]
    while len(found) < count:
        place = draw.randint(0, last)
        if draw.chance(0.3):
            place = (place >> fmt.trailing_bits << fmt.trailing_bits) + draw.choice((-1, 0, 1))
        elif draw.chance(0.3):
            place = int(last * draw.random() ** 8)
        found.append(min(max(place, 0), last))
    return found[:count] if count >= len(borders) else draw.sample(found, count)


def codes(draw: Draw, fmt: Format, count: int) -> Array:
    """Codes: all of narrow formats, else borders, specials and any, of both signs."""
    top = (1 << fmt.width) - 1
    if top < 2 * count and draw.chance(0.5):
        found = list(range(top + 1))
    elif isinstance(fmt, Codebook):
        rays = (fmt.ray(False), fmt.ray(True))
        ends = [code for ray in rays for code in (*ray.codes[:3], *ray.codes[-3:])]
        found = [*ends, *(code for code in fmt.infinity_codes if code is not None), fmt.nan_code or 0]
        found = found[: count // 2] + [draw.randint(0, top) for _ in range(count)]
    else:
        found = [m | draw.choice((0, fmt.sign_code)) for m in magnitudes(draw, fmt, count // 2)]
        past = fmt.max_magnitude + 1
        special = [past, past + 1, past + 2, top, top & ~fmt.sign_code, fmt.nan_code or 0, fmt.sign_code]
        found += [m & top | draw.choice((0, fmt.sign_code)) for m in special]
        found += [draw.randint(0, top) for _ in range(count - len(found))]
    draw.shuffle(found)
    return np.array(found[:count], np.uint64).astype(f"u{fmt.code_bits // 8}")


# -- values -----------------------------------------------------------------------------------------


def values(draw: Draw, kind: np.dtype[Any], formats: Sequence[Format], count: int) -> Array:
    """Values of a type: near what matters for the formats they are projected onto, specials, any patterns."""
    if kind == np.bool_:
        return np.array([draw.chance(0.5) for _ in range(count)])
    points = [point for fmt in formats for point in near(draw, fmt, count // (2 * len(formats)))]
    if kind.kind in "iu":
        return _integers(draw, kind, points, count)
    with np.errstate(all="ignore"):
        close = np.array(points, np.float64).astype(kind).view(f"u{kind.itemsize}").astype(np.uint64)
    steps = np.array([draw.choice((-2, -1, -1, 0, 0, 0, 1, 1, 2)) for _ in points], np.int64).astype(
        np.uint64
    )
    patterns = (close + steps).astype(f"u{kind.itemsize}")
    known = catalog.carrier(kind)
    assert known is not None
    width = known.width
    special = codes(draw, known, count // 4)
    some = np.array([draw.getrandbits(width) for _ in range(count // 4)], np.uint64)
    # Junk in the high bits of types of less than a byte is no value.
    top = np.uint64((1 << width) - 1)
    whole = np.concatenate([patterns.astype(np.uint64) & top, special.astype(np.uint64), some])
    np.random.default_rng(draw.getrandbits(32)).shuffle(whole)
    return whole[:count].astype(f"u{kind.itemsize}").view(kind)


def near(draw: Draw, fmt: Format, count: int) -> list[float]:
    """float64s at a format's values and ties, at what its stochastic tails resolve, and past its largest."""
    if isinstance(fmt, Codebook):
        return _near_values(draw, fmt, count)
    found = []
    for place in magnitudes(draw, fmt, count):
        significand, exponent = fmt.scaled(place)
        above, scale = fmt.scaled(place + 1)
        gap = _float(above, scale) - _float(significand, exponent)
        tail = draw.choice((0.0, 0.0, 0.5, 0.5, 0.5, 0.25, 0.75, 2.0 ** -draw.randint(1, 33), draw.random()))
        point = _float(significand, exponent) + (0.0 if math.isinf(gap) else gap) * tail
        found.append(-point if draw.chance(0.45) else point)
    top = _float(*fmt.scaled(fmt.max_magnitude))
    found += [draw.choice((-1.0, 1.0)) * min(top * times, 1.7e308) for times in (1.01, 1.5, 2.0, 2.0**40)]
    return found


def _near_values(draw: Draw, fmt: Codebook, count: int) -> list[float]:
    """float64s at a codebook's values and thresholds, between them, and past its largest value."""
    found = []
    for _ in range(count + 4):
        ray = fmt.ray(draw.chance(0.45))
        place = draw.choice((0, len(ray.sizes) - 1, draw.randrange(len(ray.sizes))))
        low, above, threshold = ray.sizes[place], ray.size(place + 1), ray.thresholds[place]
        points = [low, -low, *(each for each in (above, threshold) if each is not None)]
        point = Fraction(draw.choice(points)) * (
            1 if draw.chance(0.8) else Fraction(draw.randint(60, 68), 64)
        )
        found.append(draw.choice((-1.0, 1.0)) * min(float(abs(point)), 1.7e308))
    return found


def _float(significand: int, exponent: int) -> float:
    """The number, or an infinity where float64 ends."""
    try:
        return math.ldexp(significand, exponent)
    except OverflowError:
        return math.inf


def _integers(draw: Draw, kind: np.dtype[Any], points: list[float], count: int) -> Array:
    limits = np.iinfo(kind)
    found = [limits.min, limits.max, limits.max - 1, 0, 1]
    for point in points:
        if math.isfinite(point):
            found.append(int(point) + draw.choice((-1, 0, 0, 1)))
    found += [
        draw.randint(limits.min, limits.max) >> draw.randint(0, limits.bits - 1) for _ in range(count // 3)
    ]
    found = [number for number in found if limits.min <= number <= limits.max]
    while len(found) < count:
        found.append(draw.randint(limits.min, limits.max))
    draw.shuffle(found)
    return np.array(found[:count], kind)


def random_words(draw: Draw, shape: tuple[int, ...], bits: int) -> Array:
    """Random integers below 2**bits: the ends, and any."""
    ends = (0, 1, (1 << bits) - 1, (1 << bits) - 2 & ((1 << bits) - 1), 1 << bits - 1)
    size = math.prod(shape)
    found = [draw.choice(ends) if draw.chance(0.4) else draw.getrandbits(bits) for _ in range(size)]
    return np.array(found, np.uint32).reshape(shape)


def typed(draw: Draw, array: Array, fmt: Format) -> Array:
    """Codes as they are, or as the type whose elements they are, where there is one; or in wider integers."""
    choice = draw.choice(("plain", "plain", "typed", "wide"))
    if choice == "typed":
        try:
            kind = lp.dtype(fmt)
        except ValueError:
            return array
        return array.view(kind)
    kinds = ("i8", "u8", "i4", "u4", "i2", "u2")[: 6 if fmt.width < 16 else 4 if fmt.width < 32 else 2]
    return array.astype(draw.choice(kinds)) if choice == "wide" else array
