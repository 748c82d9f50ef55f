"""Recipes that aim the operands of an operation at points of the result's format.

Three of four points are ties. A recipe gives values in float64; the operands are the codes nearest to these
values. A recipe may miss: it chooses operands and says nothing about results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays.checks import code_dtype
from lowprec.arrays.convert import encode
from lowprec.spec import catalog
from lowprec.spec.format import Carrier, Format, Sign
from lowprec.spec.projection import Projection

__all__ = ["INVERSES", "RECIPES", "Aim", "narrowed", "nearest", "recipes_of"]

Array = npt.NDArray[Any]

_NEAREST = Projection(saturation="finite", nan="max", negative="drop_sign", zero="smallest")


# -- codes and values ---------------------------------------------------------------------------------


def nearest(values: Array, fmt: Format) -> Array:
    """Return the codes nearest to values, at most the extreme finite ones; of NaNs those of zero."""
    values = np.where(np.isnan(values), 0.0, values)
    if fmt == catalog.BINARY64:
        return values.view(np.uint64)
    if not isinstance(fmt, Carrier):
        return np.asarray(encode(values, fmt, projection=_NEAREST))
    # float64 has no 2**63 - 1, and 2**63 is no int64.
    high = min(float(fmt.max_magnitude), np.nextafter(2.0**fmt.trailing_bits, 0.0))
    low = 0.0 if fmt.sign is Sign.UNSIGNED else -(2.0**fmt.trailing_bits)
    whole = np.clip(np.rint(values), low, high).astype(np.uint64 if fmt.sign is Sign.UNSIGNED else np.int64)
    return narrowed(whole.view(np.uint64), fmt)


def _sizes(magnitudes: Array, fmt: Format) -> Array:
    """Return the values of magnitudes, on the grid continued past the largest."""
    if not fmt.exponent_bits:
        return np.asarray(np.ldexp(magnitudes.astype(np.float64), fmt.scaled(0)[1]))
    magnitudes = magnitudes.astype(np.int64)
    fields, trailing = magnitudes >> fmt.trailing_bits, magnitudes & ((1 << fmt.trailing_bits) - 1)
    significands = np.where(fields < fmt.subnormals, trailing, trailing | 1 << fmt.trailing_bits)
    exponents = np.maximum(fields, int(fmt.subnormals)) - fmt.bias - fmt.trailing_bits
    return np.asarray(np.ldexp(significands.astype(np.float64), exponents))


def _values(codes: Array, fmt: Format) -> Array:
    """Return what codes stand for that are finite."""
    codes, sign = codes.astype(np.uint64), np.uint64(fmt.sign_code)
    negative = codes & sign != 0
    if fmt.sign is Sign.TWOS_COMPLEMENT:
        return np.where(negative, -_sizes(sign - (codes ^ sign), fmt), _sizes(codes, fmt))
    sizes = _sizes(codes & ~sign, fmt)
    return np.where(negative, -sizes, sizes)


def narrowed(codes: Array, fmt: Format) -> Array:
    """Return codes in the type that holds them, without what lies above their bits."""
    return (codes & np.uint64((1 << fmt.width) - 1)).astype(code_dtype(fmt))


# -- what recipes are made of -------------------------------------------------------------------------


class Aim:
    """A random point of the result's format for each case, and numbers to reach it with.

    `point` is a value of the format or, mostly, lies in the middle between two; a quarter of them are tiny
    and a quarter as large as can be. `half` is half the gap there, a power of two.
    """

    #: Where points lie between two values, in halves of their gap.
    places: tuple[float, ...] = (0.0, 1.0, 1.0, 1.0)

    def __init__(self, random: np.random.Generator, size: int, sources: list[Format], target: Format) -> None:
        self.random, self.size, self.sources, self.target = random, size, sources, target
        magnitudes = self.magnitudes()
        low = _sizes(magnitudes, target)
        self.half = np.maximum((_sizes(magnitudes + 1, target) - low) / 2, 2.0**-1074)
        self.point = low + self.half * random.choice(np.array(self.places), size)
        if target.sign is not Sign.UNSIGNED:
            self.point *= self.sign()

    def magnitudes(self) -> Array:
        """Return the magnitudes of the result's format at or above which the points lie."""
        last, random, size = self.target.max_magnitude, self.random, self.size
        return np.choose(
            random.integers(0, 4, size),
            [
                random.integers(0, last, size, endpoint=True),
                random.integers(0, last, size, endpoint=True),
                random.integers(0, min(last, 2 << self.target.trailing_bits), size, endpoint=True),
                last - random.integers(0, min(last, 2), size, endpoint=True),
            ],
        )

    def sign(self) -> Array:
        """Return 1 or -1 for each case."""
        return self.random.choice(np.array([-1.0, 1.0]), self.size)

    def integer(self, low: Array | int, high: Array | int) -> Array:
        """Return an integer from `low` to `high`, or `low` where that is the larger one."""
        return self.random.integers(low, np.maximum(low, high), self.size, endpoint=True)

    def odd(self, bits: Array | int, *, full: bool = False) -> Array:
        """Return an odd integer of at most so many bits, or of exactly so many; at most 53."""
        bits = np.clip(bits, 1, 53)
        below = np.left_shift(1, bits)
        number = self.random.integers(0, 1 << 53, self.size) & (below - 1) | 1
        return np.asarray(number | below >> 1 if full else number)

    def short(self, place: int) -> Array:
        """Return an odd integer that an operand can hold, of any number of bits, with a sign."""
        return self.odd(self.integer(1, self.sources[place].precision)) * self.sign()

    def held(self, place: int, values: Array) -> Array:
        """Return the nearest values that an operand can have."""
        return _values(nearest(values, self.sources[place]), self.sources[place])

    def any(self, place: int) -> Array:
        """Return a finite value of an operand, every code as likely as any."""
        source = self.sources[place]
        codes = self.random.integers(0, source.max_magnitude, self.size, dtype=np.uint64, endpoint=True)
        return _sizes(codes, source) * self.sign()

    def ends(self, place: int) -> tuple[int, int]:
        """Return the exponents of the last bit of an operand's smallest and largest value."""
        source = self.sources[place]
        return source.scaled(0)[1], source.scaled(source.max_magnitude)[1]

    def power(self, place: int, low: Array | int = -(1 << 20), high: Array | int = 1 << 20) -> Array:
        """Return an exponent for the last bit of an operand, if possible from `low` to `high`."""
        first, last = self.ends(place)
        return self.integer(np.maximum(first, low), np.minimum(last, high))

    def shared(self, total: Array) -> Array:
        """Return an exponent for the second operand that leaves one for the first; they sum to `total`."""
        low, high = self.ends(0)
        return self.power(1, total - high, total - low)

    def ahead(self, total: Array) -> Array:
        """Return an exponent for the second operand that lets the first one's be larger by `total`."""
        low, high = self.ends(0)
        return self.power(1, low - total, high - total)


Recipe = Callable[[Aim], tuple[Array, ...]]


def _exponent(values: Array) -> Array:
    """Return the exponent of the first bit."""
    return np.asarray(np.frexp(values)[1].astype(np.int64) - 1)


def _inverse(odd: Array) -> Array:
    """Return the inverse modulo 2**64. An odd number is its own modulo 8; steps double the right bits."""
    inverse = odd.copy()
    for _ in range(5):
        inverse *= np.uint64(2) - odd * inverse
    return inverse


# -- recipes ------------------------------------------------------------------------------------------


def _sum(aim: Aim) -> tuple[Array, ...]:
    """Return one operand, a multiple of half a gap or far smaller; the other is the point less that."""
    far = aim.integer(0, 60) * aim.integer(0, 1)
    second = np.ldexp(aim.short(1) * aim.half, -far)
    return aim.point - second, second


def _difference(aim: Aim) -> tuple[Array, ...]:
    first, second = _sum(aim)
    return first, -second


def _opposite(aim: Aim) -> tuple[Array, ...]:
    value = aim.any(0)
    return value, -value


def _equal(aim: Aim) -> tuple[Array, ...]:
    value = aim.any(0)
    return value, value


def _product(aim: Aim, first: Array, second: Array, total: Array) -> tuple[Array, Array]:
    """Return operands from integers whose product counts units of 2**total."""
    power = aim.shared(total)
    return np.ldexp(first * aim.sign(), total - power), np.ldexp(second * aim.sign(), power)


def _short_product(aim: Aim) -> tuple[Array, ...]:
    """Return two odd integers with as many bits together as the point has in halves of its gap: ties."""
    bits = _exponent(aim.point / aim.half) + 1
    first = np.minimum(aim.integer(1, bits - 1), aim.sources[0].precision)
    rest = np.clip(bits - first + aim.integer(0, 1), 1, aim.sources[1].precision)
    return _product(aim, aim.odd(first, full=True), aim.odd(rest, full=True), _exponent(aim.half))


def _factor(aim: Aim) -> tuple[Array, ...]:
    """Return a number, and what makes the point of it."""
    power = aim.shared(_exponent(aim.point) - aim.sources[0].precision)
    second = np.ldexp(aim.short(1), power)
    return aim.point / aim.held(1, second), second


def _product_beside_tie(aim: Aim) -> tuple[Array, ...]:
    """Return full significands whose product lies one unit of its last place beside a tie or a value.

    With the second of them odd, the first one's last bits follow from those wanted of the product.
    """
    first, second = (source.precision for source in aim.sources[:2])
    dropped = first + second - aim.target.precision
    if not 2 <= dropped <= first or first + second > 62:
        return _factor(aim)
    y = aim.odd(second, full=True).astype(np.uint64)
    wanted = ((1 << (dropped - 1)) + aim.integer(0, 1) * 2 - 1).astype(np.uint64)
    x = wanted * _inverse(y) & np.uint64((1 << dropped) - 1)
    if dropped < first:
        x |= np.left_shift(aim.odd(first - dropped, full=True), dropped).astype(np.uint64)
    total = _exponent(aim.point) + 1 - first - second
    return _product(aim, x, y, total)


def _short_quotient(aim: Aim) -> tuple[Array, ...]:
    """Return the point times a short number: the quotient is exact where the product is."""
    spare = aim.sources[0].precision - _exponent(aim.point / aim.half)
    bits = aim.integer(1, np.where(spare > 0, spare, aim.sources[1].precision))
    second = np.ldexp(aim.odd(bits) * aim.sign(), aim.ahead(_exponent(aim.half)))
    return aim.point * second, second


def _quotient_beside_tie(aim: Aim) -> tuple[Array, ...]:
    """Return significands x = (p * y + r) / 2**k and y with a small r: quotient x / y lies beside tie p."""
    first, second, bits = (source.precision for source in (*aim.sources[:2], aim.target))
    bits += 1
    if first < second or second + bits > 62:
        return _short_quotient(aim)
    y = aim.odd(second, full=True).astype(np.uint64)
    rest = (aim.integer(0, 1) * 2 - 1).astype(np.uint64)  # 1, or -1 modulo 2**64
    tie = (np.uint64(0) - rest) * _inverse(y) & np.uint64((1 << bits) - 1)
    x = tie * y + rest >> np.uint64(bits)
    power = aim.ahead(_exponent(aim.point))
    return np.ldexp(x * aim.sign(), _exponent(aim.point) + power), np.ldexp(y * aim.sign(), power)


def _square(aim: Aim) -> tuple[Array, ...]:
    """Return the point's square, or one of the same digits where an operand has no such exponent."""
    square, even = aim.point * aim.point, aim.power(0) // 2 * 2
    inside = (square >= abs(aim.held(0, square)) / 2) & (square <= abs(aim.held(0, square)) * 2)
    return (np.where(inside, square, np.ldexp((aim.point / aim.half) ** 2, even - aim.target.precision)),)


def _root_beside_tie(aim: Aim) -> tuple[Array, ...]:
    """Return significands x = (p * p - r) / 2**k with a small r: the square root lies beside the tie p.

    An r that is 1 modulo 8 has a root modulo 2**k. It is found bit by bit, and k - 1 of its bits are enough.
    """
    bits = aim.target.precision + 1
    k = 2 * bits - aim.sources[0].precision
    if not 4 <= k <= bits + 1 or bits > 31:
        return _square(aim)
    rest = (aim.integer(-64, 64) * 8 + 1).astype(np.uint64)
    root = np.ones(aim.size, np.uint64)
    for place in range(3, k):
        root += (root * root - rest >> np.uint64(place) & np.uint64(1)) << np.uint64(place - 1)
    root &= np.uint64((1 << k - 1) - 1)
    if k - 1 == bits:
        root = np.maximum(root, np.uint64(1 << bits) - root)
    else:
        root |= np.left_shift(aim.odd(bits - k + 1, full=True), k - 1).astype(np.uint64)
    return (np.ldexp(root * root - rest >> np.uint64(k), (aim.power(0) - k) // 2 * 2 + k),)


def _fused_sum(aim: Aim) -> tuple[Array, ...]:
    """Return a product that is a multiple of half a gap, or far smaller; the addend the rest of the way."""
    far = aim.integer(0, 60) * aim.integer(0, 1)
    total = _exponent(aim.half) - far
    first, second = _product(aim, aim.short(0), aim.short(1), total)
    return first, second, aim.point - first * second


def _fused_tie(aim: Aim) -> tuple[Array, ...]:
    """Return a product at a tie, and an addend so small that it only says on which side of it."""
    small = np.ldexp(aim.short(2) * aim.half, -aim.integer(24, 60))
    return *_short_product(aim), small * aim.integer(0, 3)


def _fused_tie_beside(aim: Aim) -> tuple[Array, ...]:
    """Return a product beside a tie, and a small addend."""
    small = np.ldexp(aim.short(2) * aim.half, -aim.integer(1, 60))
    return *_product_beside_tie(aim), small


def _fused_opposite(aim: Aim) -> tuple[Array, ...]:
    """Return the nearest addend to the negative product: what is left is the product's rounding error."""
    first, second = (aim.held(place, values) for place, values in enumerate(_factor(aim)))
    return first, second, -(first * second)


def _multiple_and_half(aim: Aim) -> tuple[Array, ...]:
    """Return a half-integer times a short number: the quotient is rounded to the even integer."""
    second, power = aim.short(1), aim.power(1)
    return np.ldexp(aim.short(0) * second, power - 1), np.ldexp(second, power)


def _multiple_and_point(aim: Aim) -> tuple[Array, ...]:
    """Return a multiple and the point, so that the remainder is the point."""
    second = aim.held(1, aim.point * aim.integer(2, 8))
    return aim.point + second * aim.short(0), second


def _point(aim: Aim) -> tuple[Array, ...]:
    return (aim.point,)


def _point_twice(aim: Aim) -> tuple[Array, ...]:
    """Return the point twice, of equal or of unlike signs."""
    return aim.point, aim.point * aim.sign()


def _quarters(aim: Aim) -> tuple[Array, ...]:
    """Return integers, halves and quarters."""
    return (np.ldexp(aim.short(0), aim.integer(-2, 0)),)


def _scaled(aim: Aim) -> tuple[Array, ...]:
    """Return the point, divided by a power of two that leaves an exponent of the first operand."""
    powers = aim.held(1, _exponent(aim.half) - aim.power(0))
    return np.ldexp(aim.point, -powers.astype(np.int64)), powers


def _power(aim: Aim) -> tuple[Array, ...]:
    return (np.ldexp(aim.sign(), aim.power(0) + aim.integer(0, aim.sources[0].precision)),)


def _inverted(inverse: Callable[[Array], Array]) -> Recipe:
    """Return the recipe of a function: the operand of which it is nearly the point, or its opposite."""

    def recipe(aim: Aim) -> tuple[Array, ...]:
        found = inverse(aim.point)
        return (np.where(np.isnan(found), inverse(-aim.point), found),)

    return recipe


def _leg(aim: Aim) -> tuple[Array, ...]:
    """Return two sides whose hypotenuse is nearly the point."""
    first = aim.held(0, aim.point * aim.random.random(aim.size))
    return first, np.sqrt((aim.point - first) * (aim.point + first))


def _direction(aim: Aim) -> tuple[Array, ...]:
    """Return a point of the plane whose angle is nearly the point."""
    second = aim.any(1)
    return second * np.tan(aim.point), second


def _base(aim: Aim) -> tuple[Array, ...]:
    """Return a base and an exponent whose power is nearly the point."""
    second = aim.held(1, np.ldexp(aim.short(1), -aim.integer(0, 6)))
    return np.abs(aim.point) ** (1 / second), second


def _point_at(place: int) -> Recipe:
    """Return the recipe that has the point as this operand, and any values as the others."""
    return lambda aim: tuple(aim.point if at == place else aim.any(at) for at in range(len(aim.sources)))


def recipes_of(operation: str, operands: int) -> tuple[Recipe, ...]:
    """Return the recipes of an operation; where `RECIPES` has none, each operand in turn is the point."""
    return RECIPES.get(operation) or tuple(map(_point_at, range(operands)))


#: Inverses of functions, nearly: what is aimed at a result, as the nearest operand.
INVERSES: Mapping[str, Callable[[Array], Array]] = MappingProxyType(
    {
        "exp": np.log,
        "exp2": np.log2,
        "exp10": np.log10,
        "expm1": np.log1p,
        "exp2m1": lambda y: np.log1p(y) / np.log(2),
        "exp10m1": lambda y: np.log1p(y) / np.log(10),
        "log": np.exp,
        "log2": np.exp2,
        "log10": lambda y: 10**y,
        "log1p": np.expm1,
        "log2p1": lambda y: np.expm1(y * np.log(2)),
        "log10p1": lambda y: np.expm1(y * np.log(10)),
        "sin": np.arcsin,
        "cos": np.arccos,
        "tan": np.arctan,
        "sinpi": lambda y: np.arcsin(y) / np.pi,
        "cospi": lambda y: np.arccos(y) / np.pi,
        "tanpi": lambda y: np.arctan(y) / np.pi,
        "asin": np.sin,
        "acos": np.cos,
        "atan": np.tan,
        "asinpi": lambda y: np.sin(y * np.pi),
        "acospi": lambda y: np.cos(y * np.pi),
        "atanpi": lambda y: np.tan(y * np.pi),
        "sinh": np.arcsinh,
        "cosh": np.arccosh,
        "tanh": np.arctanh,
        "asinh": np.sinh,
        "acosh": np.cosh,
        "atanh": np.tanh,
        "rsqrt": lambda y: 1 / (y * y),
        "reciprocal": lambda y: 1 / y,
        "cbrt": lambda y: y**3,
        "sigmoid": lambda y: np.log(y / (1 - y)),
        "softplus": lambda y: np.log(np.expm1(y)),
    }
)

#: How the operands of operations are aimed whose hard cases lie elsewhere than at a point of one operand.
RECIPES: Mapping[str, tuple[Recipe, ...]] = MappingProxyType(
    {
        "add": (_sum, _sum, _sum, _opposite),
        "subtract": (_difference, _difference, _difference, _equal),
        "multiply": (_short_product, _factor, _product_beside_tie),
        "divide": (_short_quotient, _quotient_beside_tie),
        "sqrt": (_square, _root_beside_tie),
        "fma": (_fused_sum, _fused_tie, _fused_tie_beside, _fused_opposite),
        "remainder": (_multiple_and_half, _multiple_and_point),
        "minimum": (_point_twice, _point_at(0), _point_at(1)),
        "maximum": (_point_twice, _point_at(0), _point_at(1)),
        "minimum_number": (_point_twice, _point_at(0), _point_at(1)),
        "maximum_number": (_point_twice, _point_at(0), _point_at(1)),
        "copysign": (_point_at(0),),
        "round_to_integral": (_quarters, _point),
        "scaleb": (_scaled,),
        "logb": (_power, _point),
        "hypot": (_leg, _point_at(0)),
        "atan2": (_direction, _point_at(0), _point_at(1)),
        "pow": (_base, _point_at(0), _point_at(1)),
    }
    | {name: (_inverted(inverse), _inverted(inverse), _point) for name, inverse in INVERSES.items()}
)
