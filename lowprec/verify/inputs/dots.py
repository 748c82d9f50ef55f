"""The operands that matter for a dot unit: where sums in steps of hardware go wrong.

Each recipe is aimed at one place: the ends of the window, carries, cancellation, ties, the lane that sets the
exponent. A recipe may miss; `lowprec.verify.coverage.dots` counts what was hit.

Notation:

    K           lanes: products of a dot product
    e           the largest exponent of a step's terms; exponents of products are those of the factors, added
    F           places behind the point of e that the step keeps
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays.checks import code_dtype
from lowprec.arrays.convert import encode
from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Carrier, Format
from lowprec.verify.inputs.dot_borders import borders
from lowprec.verify.inputs.dot_ends import CLOSEST, at_the_ends, of_blocks
from lowprec.verify.inputs.dot_shape import DotCases, Shape, values_of
from lowprec.verify.inputs.operands import special_codes

__all__ = ["dots"]

Array = npt.NDArray[Any]
Terms = tuple[Array, Array, Array]

#: Cases of a recipe for each lane, at least.
_A_LANE = 3
#: How far terms lie above the last bit of a window.
_REACH = np.array([-2, -1, -1, 0, 0, 1, 2, 4])


def dots(shape: Shape, samples: int = 1024, seed: int = 0) -> DotCases:
    """Return operands for a dot unit: recipes by turns, special codes in every lane, and random codes.

    >>> from lowprec.spec.accumulations import ACCUMULATIONS
    >>> from lowprec.verify.inputs.dot_shape import shape_of
    >>> dots(shape_of(ACCUMULATIONS["ada_mma_e4m3fn_binary32"])).x.shape[1]
    16

    Parameters
    ----------
    shape : Shape
    samples, seed : int
        Cases of all recipes together; there are at least three for each lane and recipe.

    Raises ValueError: codebooks, whose values have no exponents to aim at.
    """
    for fmt in (*shape.formats, shape.addend, shape.result, shape.how.output[0]):
        if isinstance(fmt, Codebook):
            raise ValueError(
                f"there are no vectors of dot products in {fmt.name!r}, which is a codebook: they aim at "
                "exponents. Compare results of operands of your own with lowprec.compare(operation='dot')"
            )
    random = np.random.default_rng(seed)
    aim = _Aim(shape, random)
    count = max(_A_LANE * shape.lanes, -(-samples // len(_RECIPES)))
    with np.errstate(all="ignore"):
        made = [aim.codes(recipe(aim, count)) for recipe in _RECIPES]
    made += [_specials(aim), _zeros(aim), _patterns(aim, count), *borders(aim)]
    x, y, addend = (np.concatenate(parts) for parts in zip(*made, strict=True))
    if shape.how.scale is None:
        return DotCases(x, y, addend)
    return _scaled(aim, DotCases(x, y, addend))


# -- aiming -----------------------------------------------------------------------------------------


class _Aim:
    """Draws terms: exponents of products are chosen, factors follow."""

    def __init__(self, shape: Shape, random: np.random.Generator) -> None:
        self.shape, self.random, self.lanes = shape, random, shape.lanes
        self.places, self.precision = shape.places, shape.result.trailing_bits + 1
        x, y = shape.formats
        self.low, self.high = _lowest(x) + _lowest(y), x.emax + y.emax
        growth = self.lanes.bit_length() + 2
        self.top_high = max(
            self.low, min(self.high, shape.result.emax - growth, shape.how.output[0].emax - growth)
        )
        self.top_low = min(self.top_high, max(self.low, shape.result.emin + 4, self.top_high - 24))

    def tops(self, n: int) -> Array:
        """Return largest exponents, of the products where those reach, such that sums overflow rarely."""
        return self.random.integers(self.top_low, self.top_high, n, endpoint=True)

    def less(self, n: int, most: int, least: int = 1) -> Array:
        """Return how far terms lie below the largest, for each lane."""
        return self.random.integers(least, max(most, least), (n, self.lanes), endpoint=True)

    def signs(self, *size: int) -> Array:
        """Return -1 or 1."""
        return self.random.choice(np.array([-1.0, 1.0]), size)

    def significands(self, fmt: Format, size: tuple[int, ...], kinds: Array) -> Array:
        """Return significands in [1, 2): 1, all ones, odd, or any, as the kinds 0 to 3 say."""
        ends = 1 << min(fmt.trailing_bits, 40) if fmt.exponent_bits else 1 << max(fmt.trailing_bits - 1, 0)
        any_ = self.random.integers(0, ends, size)
        return (
            1 + np.choose(kinds, [0 * any_, 0 * any_ + ends - 1, any_ | 1 if ends > 1 else any_, any_]) / ends
        )

    def factors(self, exponents: Array, kinds: Array | int | None = None) -> tuple[Array, Array]:
        """Return factors whose exponents add up to these, as far as the formats reach."""
        x, y = self.shape.formats
        whole = np.clip(exponents, self.low, self.high)
        least, most = np.maximum(_lowest(x), whole - y.emax), np.minimum(x.emax, whole - _lowest(y))
        first = np.floor(least + self.random.random(whole.shape) * (most - least + 1)).astype(np.int64)
        kinds = (
            self.random.integers(0, 4, whole.shape) if kinds is None else np.broadcast_to(kinds, whole.shape)
        )
        left = np.ldexp(self.significands(x, whole.shape, kinds), first)
        right = np.ldexp(self.significands(y, whole.shape, kinds), whole - first)
        return left * self.signs(*whole.shape), right * self.signs(*whole.shape)

    def addends(self, exponents: Array) -> Array:
        """Return addends with these exponents."""
        kinds = self.random.integers(0, 4, exponents.shape)
        held = self.significands(self.shape.addend, exponents.shape, kinds)
        return np.ldexp(held, exponents) * self.signs(*exponents.shape)

    def sparse(self, factors: tuple[Array, Array], share: float) -> tuple[Array, Array]:
        """Return factors, some of them zeros."""
        return np.where(self.random.random(factors[0].shape) < share, 0.0, factors[0]), factors[1]

    def sometimes(self, values: Array, share: float = 0.5) -> Array:
        """Return values, some of them zeros."""
        return np.where(self.random.random(values.shape) < share, values, 0.0)

    def turns(self, n: int) -> Array:
        """Return each lane by turns."""
        return np.arange(n) % self.lanes

    def codes(self, terms: Terms) -> Terms:
        """Return values as codes."""
        x, y = (_encoded(values, fmt) for values, fmt in zip(terms[:2], self.shape.formats, strict=True))
        return x, y, _encoded(terms[2], self.shape.addend)


def _lowest(fmt: Format) -> int:
    """Return the exponent of the smallest normal value; of fixed point, of its step."""
    return fmt.emin if fmt.exponent_bits else fmt.scaled(1)[1]


def _encoded(values: Array, fmt: Format) -> Array:
    if isinstance(fmt, Carrier):
        return values.astype(np.float64).view(np.uint64)
    return np.asarray(encode(values, fmt, projection=CLOSEST))


# -- recipes ----------------------------------------------------------------------------------------


def _alone(aim: _Aim, n: int) -> Terms:
    """Return one product, in each lane by turns, and an addend near it or none."""
    top, rows = aim.tops(n), np.arange(n)
    x, y = aim.factors(np.repeat(top[:, None], aim.lanes, 1))
    kept = np.zeros(x.shape)
    kept[rows, aim.turns(n)] = x[rows, aim.turns(n)]
    near = top - aim.random.integers(-3, aim.places + 2, n)
    return kept, y, aim.sometimes(aim.addends(near))


def _largest_lane(aim: _Aim, n: int) -> Terms:
    """Return sums in which each lane by turns has the largest exponent."""
    top = aim.tops(n)
    below = np.where(aim.random.random((n, 1)) < 0.5, aim.less(n, 4), aim.less(n, aim.places + 3))
    exponents = top[:, None] - below
    exponents[np.arange(n), aim.turns(n)] = top
    return *aim.factors(exponents), aim.sometimes(
        aim.addends(top - aim.random.integers(1, aim.places + 3, n))
    )


def _largest_addend(aim: _Aim, n: int) -> Terms:
    """Return an addend that is largest, and products that reach from it to below the window."""
    products = aim.random.integers(aim.low, aim.top_high, n, endpoint=True)
    top = np.minimum(products + aim.random.integers(1, aim.places + 4, n), aim.shape.result.emax - 1)
    return *aim.factors(products[:, None] - aim.less(n, 3, 0)), aim.addends(top)


def _ends(aim: _Aim, n: int, *, largest: str) -> Terms:
    """Return products whose last bits are at the window's end, one below it, or just above.

    The largest term is the addend, or a product; or a product that an addend one step smaller cancels, so
    that what the window kept of the others is all that is left.
    """
    rows, lane = np.arange(n), aim.turns(n)
    top = aim.random.integers(min(aim.low + aim.places, aim.high), aim.high, n, endpoint=True)
    if largest == "addend":
        lowest = aim.random.integers(aim.low, aim.high, n, endpoint=True)
        top = np.minimum(lowest + aim.places, aim.shape.result.emax - 1)
    exponents = top[:, None] - aim.places + aim.random.choice(_REACH, (n, aim.lanes))
    kinds = aim.random.choice(np.array([0, 0, 1, 2]), exponents.shape)
    if largest != "addend":
        exponents[rows, lane] = top
    if largest == "cancelled":
        kinds[rows, lane] = 0
    x, y = aim.factors(exponents, kinds)
    kept = np.where(aim.random.random(x.shape) < aim.random.random((n, 1)), x, 0.0)
    kept[rows, lane] = x[rows, lane]
    if largest == "addend":
        return kept, y, aim.addends(top)
    if largest == "cancelled":
        whole, places = kept[rows, lane] * y[rows, lane], aim.shape.addend.precision
        if aim.lanes > 1:  # and, in half of them, the step that is left
            other, left = (
                (lane + 1 + rows // aim.lanes % (aim.lanes - 1)) % aim.lanes,
                aim.factors(top - places, 0),
            )
            half = rows % 2 == 0
            step = -np.sign(whole) * np.abs(left[0])
            kept[rows[half], other[half]], y[rows[half], other[half]] = step[half], np.abs(left[1])[half]
        return kept, y, -whole * (1 - 2.0**-places)
    return kept, y, aim.sometimes(np.ldexp(aim.signs(n), top - aim.places + aim.random.choice(_REACH, n)))


def _tie(aim: _Aim, n: int, *, sticky: bool) -> Terms:
    """Return an addend, a product of half its last place, and for `sticky` one near the window's end.

    Without, in half of the cases the addend is half a last place of the product, and its own last bit.
    """
    rows = np.arange(n)
    half = aim.random.integers(aim.low, aim.high, n, endpoint=True)
    top = np.minimum(half + aim.precision, aim.shape.result.emax - 1)
    exponents = np.full((n, aim.lanes), aim.low)
    exponents[rows, aim.turns(n)] = top - aim.precision
    end = aim.random.integers(-2, 2, n, endpoint=True)
    other = (aim.turns(n) + aim.random.integers(1, max(aim.lanes, 2), n)) % aim.lanes
    kept = np.zeros((n, aim.lanes), bool)
    if sticky and aim.lanes > 1:
        exponents[rows, other] = top - aim.places + end
        kept[rows, other] = True
    kept[rows, aim.turns(n)] = True
    addend, beside = aim.addends(top), rows % 2 * (not sticky) == 1
    above = np.clip(half, aim.top_low, aim.top_high)
    exponents[rows[beside], aim.turns(n)[beside]] = above[beside]
    x, y = aim.factors(exponents, 0)
    least = np.ldexp(1 + 2.0 ** (1 - aim.shape.addend.precision), above - aim.precision)
    return np.where(kept, x, 0.0), y, np.where(beside, np.copysign(least, addend), addend)


def _carry(aim: _Aim, n: int) -> Terms:
    """Return products of one sign and one exponent: more and more of them, which grow to the left."""
    top = aim.tops(n)
    x, y = aim.factors(np.repeat(top[:, None], aim.lanes, 1), aim.random.choice(np.array([1, 1, 3]), (n, 1)))
    sign = aim.signs(n, 1)
    most = np.where(aim.random.random((n, 1)) < 0.3, aim.lanes, aim.random.integers(1, aim.lanes + 1, (n, 1)))
    active = aim.random.permuted(np.broadcast_to(np.arange(aim.lanes), x.shape), axis=1) < most
    addend = np.abs(aim.addends(top + aim.random.integers(-1, 2, n))) * sign[:, 0]
    return np.where(active, np.abs(x) * sign, 0.0), np.abs(y), aim.sometimes(addend)


def _cancel(aim: _Aim, n: int) -> Terms:
    """Return sums that cancel to their last bits: by the addend, or by a lane against another."""
    rows, top = np.arange(n), aim.tops(n)
    x, y = aim.sparse(aim.factors(top[:, None] - aim.less(n, 4, 0)), 0.4)
    total = -np.sum(x * y, axis=1)
    by_lanes = rows % 2 == 0
    first = aim.turns(n)
    other = (first + aim.random.integers(1, max(aim.lanes, 2), n)) % aim.lanes
    whole = aim.random.integers(min(aim.low + aim.places, aim.high), aim.high, n, endpoint=True)
    left = aim.factors(whole - aim.places + aim.random.integers(-1, 2, n), 0)
    against = aim.factors(whole)
    third = (other + 1) % aim.lanes
    for at in rows[by_lanes]:
        big = against[0][at], against[1][at]
        x[at], y[at] = 0.0, 1.0
        x[at, third[at]], y[at, third[at]] = left[0][at], left[1][at]
        x[at, first[at]], y[at, first[at]] = big
        if aim.lanes > 1:
            x[at, other[at]], y[at, other[at]] = -big[0], big[1]
    return x, y, np.where(by_lanes, 0.0, total)


def _overflow(aim: _Aim, n: int) -> Terms:
    """Return the largest results: products at their largest, and an addend at the last finite values."""
    x, y = aim.factors(np.full((n, aim.lanes), aim.high), aim.random.integers(0, 4, (n, 1)))
    out = aim.shape.how.output[0]
    sign = aim.signs(n, 1)
    addend = out.max_finite * (1 - aim.random.integers(0, 3, n) * 2.0**-out.precision)
    last = np.clip(out.emax - out.precision + aim.random.integers(-1, 3, n), aim.low, aim.high)
    small = aim.factors(np.repeat(last[:, None], aim.lanes, 1), 0)
    near = aim.random.random((n, 1)) < 0.5
    x, y = np.where(near, small[0], x), np.where(near, small[1], y)
    few = aim.random.random(x.shape) < np.where(near, 1.5 / aim.lanes, aim.random.random((n, 1)))
    few[np.arange(n), aim.turns(n)] = True
    return (
        np.where(few, np.abs(x) * sign, 0.0),
        np.abs(y),
        np.where(near[:, 0] | (sign[:, 0] > 0), addend * sign[:, 0], 0.0),
    )


def _underflow(aim: _Aim, n: int) -> Terms:
    """Return the smallest results: products at their smallest, and addends below the smallest normal."""
    x, y = aim.sparse(aim.factors(aim.low + aim.less(n, 4, 0)), 0.5)
    out = aim.shape.how.output[0]
    tiny = out.emin - aim.random.integers(-2, out.trailing_bits + 2, n)
    tiny[::8] = out.emin
    none = aim.random.random(n) < (0.7 if aim.low > out.emin else 0.2)
    addend = np.where(np.arange(n) % 16, aim.sometimes(aim.addends(tiny), 0.8), 2.0**out.emin)
    return np.where(none[:, None], 0.0, x), y, addend


def _subnormal_lane(aim: _Aim, n: int) -> Terms:
    """Return subnormal factors in each lane by turns: of x, of y and of both."""
    rows, lane = np.arange(n), aim.turns(n)
    formats, kind = aim.shape.formats, (lane + rows // aim.lanes) % 3
    # A subnormal factor against a large one, or two of them; the other lanes are about as large.
    largest = aim.random.integers(0, 4, n)
    tops = [_lowest(formats[0]) + formats[1].emax - largest, _lowest(formats[1]) + formats[0].emax - largest]
    top = np.choose(kind, [*tops, np.full(n, aim.low)])
    x, y = aim.factors(top[:, None] + aim.less(n, 4, -4))
    for values, fmt, which in ((x, formats[0], 0), (y, formats[1], 1)):
        if fmt.min_subnormal is None or not fmt.exponent_bits:
            continue
        small = aim.random.integers(1, 1 << fmt.trailing_bits, n) * fmt.min_subnormal * aim.signs(n)
        large = np.ldexp(1.0 + aim.random.integers(0, 2, n) / 2, fmt.emax - largest)
        values[rows, lane] = np.where((kind == which) | (kind == 2), small, large)
    kept = np.where(aim.random.random(x.shape) < aim.random.random((n, 1)) ** 2, x, 0.0)
    kept[rows, lane] = x[rows, lane]
    return kept, y, aim.sometimes(aim.addends(top + aim.random.integers(-3, 4, n)), 0.4)


def _order(aim: _Aim, n: int) -> Terms:
    """Return a large product, its negative in another lane, and small ones between that a sum may lose."""
    rows, top = np.arange(n), np.full(n, aim.top_high)
    x, y = aim.factors(top[:, None] - aim.places + aim.less(n, 3, -3))
    first = aim.turns(n)
    other = (first + aim.random.integers(1, max(aim.lanes, 2), n)) % aim.lanes
    big = aim.factors(top, 3)
    if aim.lanes > 1:
        x[rows, other], y[rows, other] = -big[0], big[1]
    x[rows, first], y[rows, first] = big
    return x, y, aim.sometimes(aim.addends(top - aim.random.integers(0, aim.places + 2, n)), 0.3)


def _near(aim: _Aim, n: int) -> Terms:
    """Return sums of numbers that are alike, as most are."""
    top = aim.tops(n)
    return *aim.factors(top[:, None] - aim.less(n, 3, 0)), aim.sometimes(
        aim.addends(top + aim.random.integers(-3, 4, n))
    )


_RECIPES: tuple[Callable[[_Aim, int], Terms], ...] = (
    _alone,
    _largest_lane,
    _largest_addend,
    lambda aim, n: _ends(aim, n, largest="addend"),
    lambda aim, n: _ends(aim, n, largest="product"),
    lambda aim, n: _ends(aim, n, largest="cancelled"),
    lambda aim, n: _tie(aim, n, sticky=False),
    lambda aim, n: _tie(aim, n, sticky=True),
    _carry,
    _cancel,
    _overflow,
    _underflow,
    _subnormal_lane,
    _order,
    _near,
)


# -- codes ------------------------------------------------------------------------------------------


def _specials(aim: _Aim) -> Terms:
    """Return infinities, NaNs and zeros in every lane, against numbers, zeros and each other."""
    x_fmt, y_fmt = aim.shape.formats
    one = [int(_encoded(np.ones(1), fmt)[0]) for fmt in (x_fmt, y_fmt)]
    pairs: list[tuple[int, int]] = []
    few = [(fmt, special_codes(fmt, few=True)) for fmt in (x_fmt, y_fmt)]
    special = [codes[~np.isfinite(values_of(codes, fmt))].tolist() for fmt, codes in few]
    # A NaN against zero is negative, if its format has such NaNs, and one against a number too.
    for c in special[0]:
        pairs += [(c, one[1])] + [(_negative_nan(c, x_fmt), other) for other in (0, one[1])]
    for c in special[1]:
        pairs += [(one[0], c)] + [(other, _negative_nan(c, y_fmt)) for other in (0, one[0])]
    pairs += [(left, right) for left in special[0][:1] for right in special[1][:1]]
    infinite = [[int(fmt.infinity_code or 0)] * fmt.infinity for fmt in (x_fmt, y_fmt)]  # against subnormals
    pairs += [(code, 1) for code in infinite[0]] + [(1, code) for code in infinite[1]]
    ends = _addend_specials(aim)
    alone = aim.codes(_near(aim, 2 * ends.size))
    if not pairs:
        return alone[0], alone[1], np.tile(ends, 2)
    n = len(pairs) * aim.lanes
    x, y, addend = aim.codes(_near(aim, n))
    rows, lane = np.arange(n), np.arange(n) % aim.lanes
    chosen = np.array(pairs)[rows // aim.lanes]
    x[rows, lane], y[rows, lane] = chosen[:, 0].astype(x.dtype), chosen[:, 1].astype(y.dtype)
    again = np.array(pairs)[aim.random.integers(0, len(pairs), n)]  # in another lane too, or as the addend
    other = (lane + aim.random.integers(1, max(aim.lanes, 2), n)) % aim.lanes
    twice = (aim.random.random(n) < 0.3) & (other != lane)
    x[rows[twice], other[twice]] = again[twice, 0].astype(x.dtype)
    y[rows[twice], other[twice]] = again[twice, 1].astype(y.dtype)
    both = _opposite(aim, ends.tolist(), one)
    added = aim.random.random(n) < 0.3
    addend[added] = aim.random.choice(ends, int(added.sum()))
    return (
        np.concatenate([x, alone[0], *both[:1]]),
        np.concatenate([y, alone[1], *both[1:2]]),
        np.concatenate([addend, np.tile(ends, 2), *both[2:]]),
    )


def _negative_nan(code: int, fmt: Format) -> int:
    """Return a code of a format, of NaN with the sign bit if that is NaN too."""
    both = values_of(np.array([code, code | fmt.sign_code]), fmt)
    return code | fmt.sign_code if np.isnan(both).all() else code


def _opposite(aim: _Aim, codes: list[int], ones: list[int]) -> Terms | tuple[()]:
    """Return an infinite product in each lane, against one of the other sign: of a lane, or the addend."""
    side = next(
        (place for place, fmt in enumerate(aim.shape.formats) if fmt.infinity and fmt.sign_code), None
    )
    if side is None:
        return ()
    n, infinity = 2 * aim.lanes, int(aim.shape.formats[side].infinity_code or 0)
    x, y, addend = aim.codes(_near(aim, n))
    rows, lane = np.arange(n), aim.turns(n)
    factors, partners = (x, y) if side == 0 else (y, x)
    factors[rows, lane], partners[rows, lane] = infinity, ones[1 - side]
    other = (lane + 1) % aim.lanes
    factors[rows[: aim.lanes], other[: aim.lanes]] = infinity | aim.shape.formats[side].sign_code
    partners[rows[: aim.lanes], other[: aim.lanes]] = ones[1 - side]
    infinite = [code for code in codes if np.isneginf(values_of(np.array([code]), aim.shape.addend)[0])]
    if infinite:
        addend[aim.lanes :] = infinite[0]
    return x, y, addend


def _addend_specials(aim: _Aim) -> Array:
    fmt = aim.shape.addend
    if isinstance(fmt, Carrier):
        return np.array([np.inf, -np.inf, np.nan, -0.0, 5e-324]).view(np.uint64)
    return special_codes(fmt)


def _zeros(aim: _Aim) -> Terms:
    """Return sums of zeros of either sign, and single zeros among them."""
    n = 32
    zero = aim.random.choice(np.array([0.0, -0.0]), (n, aim.lanes))
    zero[:12] = np.array([0.0, 0.0, -0.0, -0.0] * 3)[:, None]
    held = [np.where(np.signbit(zero) & (not fmt.has_negative_zero), 0.0, zero) for fmt in aim.shape.formats]
    ones = np.ones((n, aim.lanes))
    addend = np.resize(np.array([0.0, -0.0]), n)
    addend[n // 2 :] = aim.addends(aim.tops(n - n // 2))
    return aim.codes((held[0], ones, addend))


def _patterns(aim: _Aim, n: int) -> Terms:
    """Return random finite codes, which have every exponent."""
    columns, size = [], (n, aim.lanes)
    for fmt in aim.shape.formats:
        codes = aim.random.integers(0, fmt.max_magnitude + 1, size).astype(code_dtype(fmt))
        signs = (
            aim.random.integers(0, 2, size).astype(bool) if fmt.has_negative_zero else np.zeros(size, bool)
        )
        columns.append(codes | np.where(signs, fmt.sign_code, 0).astype(code_dtype(fmt)))
    addend = aim.codes(_near(aim, n))[2]
    return columns[0], columns[1], addend


def _scaled(aim: _Aim, cases: DotCases) -> DotCases:
    """Return the cases with scales: a third of 1, a third shifted as one, and a third by block."""
    assert aim.shape.how.scale is not None
    fmt, size = aim.shape.how.scale
    n, blocks = len(cases.x), aim.lanes // size
    one = int(encode(1.0, fmt))
    last = fmt.max_magnitude
    reach = max(1, min(6 << fmt.trailing_bits, one, last - one))
    sides = []
    for _ in range(2):
        codes = one + aim.random.integers(-reach, reach, (n, blocks), endpoint=True)
        codes[: n // 3] = one
        codes[n // 3 : 2 * n // 3] = codes[n // 3 : 2 * n // 3, :1]
        far = aim.random.random((n, blocks)) < 0.02
        codes = np.where(
            far,
            aim.random.choice(np.array([0, 1, last - 1, last, int(fmt.nan_code or last)]), (n, blocks)),
            codes,
        )
        sides.append(codes.astype(code_dtype(fmt)))
    order = aim.random.permutation(n)
    made = dataclasses.replace(cases, scales=(sides[0][order], sides[1][order]))
    return of_blocks(aim, at_the_ends(aim, made))
