"""Operands that tell accumulations apart, drawn by topics.

A row of a topic aims at few parameters: one product alone shows how products and results are rounded, a
pair how far alignment reaches, numbers that cancel what was kept below them, and so on. Those of `CORE`
keep to moderate exponents, so that neither overflow nor subnormal numbers have a part in them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays.checks import code_dtype
from lowprec.arrays.convert import encode, quantize
from lowprec.spec.format import Format
from lowprec.verify.identify.ports import Ports, Rows, signed

__all__ = ["CORE", "FIRST", "TOPICS", "draw"]

Array = npt.NDArray[Any]

#: Exponents of moderate products, and distances between terms.
_MODERATE, _FAR = 10, 40


class _Draw:
    """Rows of a topic while they are drawn."""

    def __init__(
        self, ports: Ports, count: int, rng: np.random.Generator, levels: Sequence[int] = ()
    ) -> None:
        self.levels = levels
        self.ports, self.count, self.rng, self.length = ports, count, rng, ports.length
        self.lows = [_lowest(fmt) for fmt in ports.operands]
        self.normals = [fmt.emin if fmt.exponent_bits else _lowest(fmt) for fmt in ports.operands]
        self.highs = [fmt.emax for fmt in ports.operands]
        self.x, self.y = (np.zeros((count, self.length)) for _ in range(2))
        self.addend = np.zeros(count)
        # The least exponents that are asked for; subnormal operands count as they are in some topics only.
        self.low, self.high = sum(self.normals), sum(self.highs)
        self.least = sum(self.lows)
        self.scales: list[Array] = []
        for _ in range(2):
            fmt = None if ports.scale is None else ports.scale[0]
            one = 0 if fmt is None else int(np.asarray(encode(1.0, fmt)))
            self.scales.append(
                np.full((count, ports.blocks), one, np.uint8 if fmt is None else code_dtype(fmt))
            )

    def integers(self, low: Any, high: Any, shape: Any = None) -> Array:
        """Return integers of low to high, both included."""
        return np.asarray(self.rng.integers(low, np.maximum(low, high) + 1, shape))

    def chance(self, share: float, shape: Any = None) -> Array:
        return np.asarray(self.rng.random(self.count if shape is None else shape) < share)

    # -- lanes ----------------------------------------------------------------------------------

    def places(self, count: int) -> Array:
        """Return distinct lanes of each row, (rows, count): near each other, at strides, or anywhere."""
        lane = np.arange(self.length)
        most = max(self.length // max(count, 1), 1)
        stride = 1 << self.integers(0, most.bit_length() - 1, (self.count, 1))
        span = np.minimum(count * stride << self.integers(0, 3, (self.count, 1)), self.length)
        start = self.integers(0, self.length - span) * self.chance(0.6, (self.count, 1))
        away = (lane < start) | (lane >= start + span) | ((lane - start) % stride != 0)
        return np.argsort(self.rng.random((self.count, self.length)) + 10 * away, axis=1)[:, :count]

    def put(self, lanes: Array, exponents: Any, *, plain: float = 0.4, negative: float = 0.5) -> None:
        """Put products of about these exponents into lanes, (rows, lanes)."""
        exponents = np.broadcast_to(exponents, lanes.shape)
        first = np.maximum(self.lows[0], exponents - self.highs[1])
        last = np.minimum(self.highs[0], exponents - self.lows[1])
        # Normal operands where they will do.
        first, last = (
            np.where(np.maximum(first, self.normals[0]) <= last, np.maximum(first, self.normals[0]), first),
            np.where(np.minimum(last, exponents - self.normals[1]) >= first,
                     np.minimum(last, exponents - self.normals[1]), last),
        )  # fmt: skip
        one = self.integers(np.minimum(first, last), last)
        index = np.arange(self.count)[:, None], lanes
        sign = np.where(self.rng.random(lanes.shape) < negative, -1.0, 1.0)
        both = [self.values(fmt, part, plain) for fmt, part in
                zip(self.ports.operands, (one, exponents - one), strict=True)]  # fmt: skip
        side = 0 if signed(self.ports.operands[0]) else 1
        if signed(self.ports.operands[side]):
            both[side] = both[side] * sign
        if all(map(signed, self.ports.operands)):
            turn = np.where(self.rng.random(lanes.shape) < 0.3, -1.0, 1.0)
            both = [part * turn for part in both]
        self.x[index], self.y[index] = both

    def cancel(self, lane: Array, other: Array) -> None:
        """Put the negative of one lane's product into another lane."""
        row = np.arange(self.count)
        self.x[row, other], self.y[row, other] = self.x[row, lane], self.y[row, lane]
        if signed(self.ports.operands[0]):
            self.x[row, other] *= -1
        elif signed(self.ports.operands[1]):
            self.y[row, other] *= -1

    def values(self, fmt: Format, exponents: Array, plain: float) -> Array:
        """Return positive values of these exponents, or of the nearest that the format has."""
        exponent = np.clip(exponents, _lowest(fmt), fmt.emax)
        least = fmt.emin - fmt.trailing_bits if fmt.exponent_bits else fmt.scaled(0)[1]
        last = (
            np.maximum(exponent - fmt.trailing_bits, least)
            if fmt.exponent_bits
            else np.full_like(exponent, least)
        )
        size = np.ldexp(1.0, exponent - last)
        tail = np.floor(self.rng.random(exponent.shape) * size)
        kind = self.rng.random(exponent.shape)
        for share, special in ((1.0, size - 1), (0.8, 1.0), (0.6, 0.0)):
            tail = np.where(kind < plain * share, np.minimum(special, size - 1), tail)
        return np.asarray(np.minimum(np.ldexp(size + tail, last), fmt.max_finite))

    def add(self, exponents: Any, share: float = 1.0, *, plain: float = 0.4, negative: float = 0.5) -> None:
        """Give rows an addend of about these exponents."""
        if self.ports.addend is None:
            return
        value = self.values(
            self.ports.addend, np.broadcast_to(exponents, (self.count,)).astype(np.int64), plain
        )
        if signed(self.ports.addend):
            value = np.where(self.chance(negative), -value, value)
        self.addend = np.where(self.chance(share), value, self.addend)

    def base(self, low: int | None = None, high: int | None = None) -> Array:
        """Return an exponent of the largest product for each row, (rows, 1)."""
        low = max(self.low, -_MODERATE) if low is None else low
        high = min(self.high, _MODERATE) if high is None else high
        return self.integers(min(low, high), high, (self.count, 1))

    def distances(self, shape: Any) -> Array:
        """Return distances below the largest: small ones, those about precisions, and any."""
        kind = self.rng.random(shape)
        near, far = self.integers(0, 4, shape), self.integers(0, _FAR, shape)
        far = np.where(self.rng.random(shape) < 0.15, self.integers(_FAR, 2 * _FAR, shape), far)
        return np.where(
            kind < 0.3, near, np.where(kind < 0.8, np.minimum(far, self.integers(0, _FAR, shape)), far)
        )

    def heights(self) -> Array:
        """Return any exponents of products, half of them about the levels that are asked for."""
        anywhere = self.base(self.least, self.high)
        if not len(self.levels):
            return anywhere
        about = self.rng.choice(np.asarray(self.levels), (self.count, 1)) + self.integers(
            -3, 2, anywhere.shape
        )
        return np.where(self.chance(0.5, anywhere.shape), np.clip(about, self.least, self.high), anywhere)

    def rows(self) -> Rows:
        """Return the rows; without blocks, scales have no columns."""
        return Rows(self.x, self.y, self.addend, *self.scales)


def _lowest(fmt: Format) -> int:
    """Return the exponent of the smallest positive value."""
    significand, exponent = fmt.scaled(1 if fmt.subnormals else 0)
    return significand.bit_length() - 1 + exponent


# -- topics ------------------------------------------------------------------------------------------


def _single(d: _Draw) -> None:
    d.put(d.places(1), d.base(), plain=0.2)


def _pair(d: _Draw) -> None:
    lanes, top = d.places(2), d.base()
    d.put(lanes, top - np.concatenate([0 * top, d.distances((d.count, 1))], 1))


def _tie(d: _Draw) -> None:
    """Put a number, half a unit of some precision below it, and perhaps a little more."""
    lanes, top = d.places(min(3, d.length)), d.base()
    half = d.integers(1, 26, (d.count, 1))
    below = half + d.integers(1, 12, (d.count, 1))
    d.put(lanes, top - np.concatenate([0 * top, half, below], 1)[:, : lanes.shape[1]], plain=1.2)
    if lanes.shape[1] > 2:
        d.x[np.arange(d.count), lanes[:, 2]] *= d.chance(0.5)


def _kept(d: _Draw) -> None:
    """Put small numbers and a large one that comes and goes, so that the sum shows what is left of them."""
    count = min(int(d.integers(3, 5)), d.length)
    lanes, top = d.places(count), d.base(high=min(d.high, 2 * _MODERATE))
    d.put(lanes, top - np.concatenate([0 * top, 0 * top, d.distances((d.count, count))], 1)[:, :count])
    if count > 1:
        d.cancel(lanes[:, 0], lanes[:, 1])


def _few(d: _Draw) -> None:
    count = min(int(d.integers(3, 7)), d.length)
    d.put(d.places(count), d.base() - d.distances((d.count, count)))
    d.add(d.base()[:, 0], 0.5)


def _addend(d: _Draw) -> None:
    """Put one or two products, and an addend far above or below."""
    lanes, top = d.places(min(2, d.length)), d.base()
    d.put(lanes, top - d.integers(0, 2, lanes.shape))
    d.add(top[:, 0] + d.integers(-_FAR, 30, d.count))
    d.x[np.arange(d.count), lanes[:, -1]] *= d.chance(0.5)


def _carried(d: _Draw) -> None:
    """Fill all lanes alike, below an addend that swallows some of them."""
    top = d.base()
    lanes = np.broadcast_to(np.arange(d.length), (d.count, d.length))
    d.put(lanes, top - d.integers(0, 1, lanes.shape), negative=float(d.rng.choice([0.0, 0.0, 1.0, 0.2])))
    d.add(top[:, 0] + d.integers(0, 30, d.count), 0.9)


def _dense(d: _Draw) -> None:
    lanes = np.broadcast_to(np.arange(d.length), (d.count, d.length))
    d.put(lanes, d.base() - d.integers(0, 6, lanes.shape), plain=0.2)
    d.add(d.base()[:, 0], 0.5)


def _swings(d: _Draw) -> None:
    """Fill all lanes, with large numbers that come and go."""
    lanes = np.broadcast_to(np.arange(d.length), (d.count, d.length))
    d.put(lanes, d.base() - d.distances(lanes.shape), plain=0.3)
    for _ in range(2):
        pair = d.places(min(2, d.length))
        d.cancel(pair[:, 0], pair[:, -1])
    d.add(d.base()[:, 0], 0.3)


def _masks(d: _Draw) -> None:
    """Units in all lanes, a large number in one and its negative in another: what is left tells the order."""
    lanes = np.broadcast_to(np.arange(d.length), (d.count, d.length))
    low = max(d.low, -_MODERATE)
    d.put(lanes, low, plain=3.0, negative=0.0)
    pair = d.places(min(2, d.length))
    d.put(pair, np.minimum(d.high, low + d.integers(8, 48, (d.count, 1))), plain=3.0, negative=0.0)
    d.cancel(pair[:, 0], pair[:, -1])


def _top(d: _Draw) -> None:
    """Products and addends next to overflow."""
    count = int(d.integers(1, min(d.length, 8)))
    d.put(d.places(count), d.base(max(d.high - 6, d.low), d.high) - d.integers(0, 2, (d.count, count)),
          negative=float(d.rng.choice([0.0, 0.5, 1.0])))  # fmt: skip
    if d.ports.addend is not None:
        emax = min(d.ports.addend.emax, d.ports.output.emax)
        d.add(emax - d.integers(0, 3, d.count), 0.7, plain=0.5)


def _level(d: _Draw) -> None:
    """Put a few products at any height: where a narrow accumulator ends above or below."""
    count = int(d.integers(1, min(d.length, 6)))
    top = d.heights()
    d.put(d.places(count), top - d.integers(0, 3, (d.count, count)), negative=float(d.rng.choice([0.0, 0.5])))
    d.add(top[:, 0] - d.integers(-2, 4, d.count), 0.3)


def _full(d: _Draw) -> None:
    """Put large products of one sign in most lanes: their sum has more leading bits than any of them."""
    lanes = np.broadcast_to(np.arange(d.length), (d.count, d.length))
    top, negative = d.base(), float(d.rng.choice([0.0, 1.0]))
    d.put(lanes, top, negative=negative)
    most = d.chance(0.5, (d.count, 1))
    for side, fmt in ((d.x, d.ports.operands[0]), (d.y, d.ports.operands[1])):
        largest = np.ldexp(1 - 0.5 ** (fmt.trailing_bits + 1), np.frexp(side)[1])
        largest = quantize(largest, fmt, rounding="toward_zero", saturation="finite")
        side[...] = np.where(most, np.copysign(largest, side), side)
    few = d.places(min(3, d.length // 2))
    d.put(few, top - d.integers(6, 30, few.shape), plain=0.2)
    d.add(top[:, 0] - d.integers(-2, 2, d.count), 0.8, plain=0.1, negative=negative)


def _bottom(d: _Draw) -> None:
    """Put the smallest products and addends, subnormal operands too; some of them alone in the last lane.

    Steps that come after would hide the sign of a sum that rounds to zero.
    """
    count = int(d.integers(1, min(d.length, 6)))
    d.put(d.places(count), d.base(d.least, min(d.least + 12, d.high)) + d.integers(0, 3, (d.count, count)))
    if d.ports.addend is not None:
        low = _lowest(d.ports.addend)
        d.add(low + d.integers(0, d.ports.addend.trailing_bits + 6, d.count), 0.7)
    alone = d.chance(0.4)
    d.x[alone], d.addend[alone] = 0, 0
    last = np.full((d.count, 1), d.length - 1)
    kept = d.x.copy(), d.y.copy()
    d.put(last, np.clip(d.heights() - 1, d.least, d.high), negative=0.7)
    d.x[~alone], d.y[~alone] = kept[0][~alone], kept[1][~alone]


def _small_addend(d: _Draw) -> None:
    """Put an addend among the smallest, and products of any height."""
    count = int(d.integers(1, min(d.length, 4)))
    d.put(d.places(count), d.base(d.least, d.high))
    d.x *= d.chance(0.6, (d.count, 1))
    if d.ports.addend is not None:
        d.add(_lowest(d.ports.addend) + d.integers(0, d.ports.addend.trailing_bits + 6, d.count), plain=0.2)


def _wide(d: _Draw) -> None:
    count = int(d.rng.choice([2, 3, 5, d.length]))
    count = min(count, d.length)
    d.put(d.places(count), d.integers(d.least, d.high, (d.count, count)))
    if d.ports.addend is not None:
        d.add(d.integers(_lowest(d.ports.addend), d.ports.addend.emax, d.count), 0.5)


def _zeros(d: _Draw) -> None:
    """Zeros of both signs, sums that cancel, and what rounds to zero."""
    count = min(int(d.integers(1, 4)), d.length)
    lanes = d.places(count)
    d.put(lanes, d.heights() - d.integers(0, 3, (d.count, count)))
    if count > 1:
        d.cancel(lanes[:, 0], lanes[:, 1])
    d.x *= d.chance(0.4, (d.count, 1))
    for side, fmt in ((d.x, d.ports.operands[0]), (d.y, d.ports.operands[1])):
        if fmt.has_negative_zero:
            flip = d.chance(0.5, (d.count, 1)) | d.chance(0.3, side.shape)
            side[(side == 0) & flip] = -0.0
    if d.ports.addend is not None and d.ports.addend.has_negative_zero:
        d.addend = np.where(d.chance(0.5), -0.0, d.addend)


def _specials(d: _Draw) -> None:
    """Infinities and NaNs in lanes and the addend."""
    count = min(int(d.integers(1, 4)), d.length)
    lanes = d.places(count)
    d.put(lanes, d.base(d.low, d.high))
    d.add(d.base()[:, 0], 0.4)
    row = np.arange(d.count)
    for side, fmt in ((d.x, d.ports.operands[0]), (d.y, d.ports.operands[1])):
        some = _special_values(fmt)
        if some:
            for lane in lanes.T[:2]:
                side[row, lane] = np.where(d.chance(0.35), d.rng.choice(some, d.count), side[row, lane])
    if d.ports.addend is not None and (some := _special_values(d.ports.addend)):
        d.addend = np.where(d.chance(0.3), d.rng.choice(some, d.count), d.addend)


def _special_values(fmt: Format) -> list[float]:
    some = [np.nan] * fmt.has_nan + [np.inf] * fmt.infinity + [-np.inf] * (fmt.infinity and signed(fmt))
    return [*some, 0.0] if some else []


#: Topics of moderate exponents: they tell the order, the window, and what is rounded how.
CORE: dict[str, Callable[[_Draw], None]] = {
    "single": _single,
    "pair": _pair,
    "tie": _tie,
    "kept": _kept,
    "few": _few,
    "addend": _addend,
    "carried": _carried,
    "dense": _dense,
    "swings": _swings,
    "masks": _masks,
}

#: All topics.
TOPICS: dict[str, Callable[[_Draw], None]] = {
    **CORE,
    "top": _top,
    "level": _level,
    "full": _full,
    "bottom": _bottom,
    "small addend": _small_addend,
    "wide": _wide,
    "zeros": _zeros,
    "specials": _specials,
}


#: Topics that are asked before anything is found; the others tell how that is rounded.
FIRST = tuple(topic for topic in TOPICS if topic != "full")


def draw(ports: Ports, topic: str, count: int, rng: np.random.Generator, levels: Sequence[int] = ()) -> Rows:
    """Return so many rows of a topic; some of products about these exponents, where formats begin and end."""
    drawn = _Draw(ports, count, rng, levels)
    with np.errstate(all="ignore"):
        TOPICS[topic](drawn)
    if ports.scale is not None:
        _scale(drawn)
    for side, fmt in ((drawn.x, ports.operands[0]), (drawn.y, ports.operands[1])):
        if not fmt.has_negative_zero:
            side[side == 0] = 0.0
    return drawn.rows()


def _scale(d: _Draw) -> None:
    """Give some rows scales that are not one."""
    assert d.ports.scale is not None, "asked by the caller"
    fmt = d.ports.scale[0]
    for number in range(2):
        codes = d.scales[number]
        near = d.values(fmt, d.integers(-8, 8, codes.shape), 0.3)
        far = d.values(fmt, d.integers(_lowest(fmt), fmt.emax, codes.shape), 0.3)
        value = np.where(d.chance(0.15, codes.shape), far, near)
        made = np.asarray(encode(value, fmt, saturation="finite"))
        d.scales[number] = np.where(d.chance(0.6, (d.count, 1)), made, codes)
