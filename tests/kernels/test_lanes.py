"""Vectors of words: what is compiled is what NumPy does, lane by lane, on words at every border."""

import functools

import numba
import numpy as np
import pytest

from lowprec.kernels.jit import has_half
from lowprec.kernels.vector.ir import lanes, longs, rounding
from lowprec.kernels.vector.ir.lanes import LANES
from lowprec.kernels.vector.ir.longs import LONGS

BORDERS = [
    0, 1, 2, 31, 0x7F, 0x80, 0xFF, 0x100, 0x7FFF, 0x8000, 0xFFFF, 0x10000, 0x7FFFFF, 0x800000, 0x7F7FFFFF,
]  # fmt: skip
BORDERS += [
    0x7F800000, 0x7F800001, 0x7FC00000, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFF800000, 0xFFC00001,
    0xFFFFFFFF,
]  # fmt: skip


def _words(seed):
    rng = np.random.default_rng(seed)
    words = rng.integers(0, 1 << 32, LANES, dtype=np.uint32)
    words[rng.permutation(LANES)[: LANES // 2]] = rng.choice(np.array(BORDERS, np.uint32), LANES // 2)
    return words


@functools.cache
def _compiled(python):
    return numba.njit(python)


def _compare(python, *arguments):
    """Run a kernel of one vector compiled and not; `out` is the last argument."""
    compiled, plain = arguments[-1].copy(), arguments[-1].copy()
    _compiled(python)(*arguments[:-1], compiled)
    with np.errstate(all="ignore"):
        python(*arguments[:-1], plain)
    assert compiled.tobytes() == plain.tobytes()


def arithmetic(a, b, number, out):
    """Every operator, between vectors and with a number on either side."""
    x, y = lanes.load(a, 0), lanes.load(b, 0)
    lanes.store(
        out, 0, (x + y) - number + (number - x) + (x * y) + (x ^ y) + (x | number) + (number & y) + (1 + x)
    )


def shifts(a, b, number, out):
    """By amounts of each lane's own, and by one for all."""
    x, y = lanes.load(a, 0), lanes.load(b, 0) & 31
    lanes.store(out, 0, (x << y) ^ (x >> y) ^ (x << (number & 31)) ^ (x >> (number & 31)) ^ (x >> 7))


def comparisons(a, b, number, out):
    """As signed, equal, negative, NaN; each as 0 or 1 in a place of its own."""
    x, y = lanes.load(a, 0), lanes.load(b, 0)
    found = lanes.one_where(lanes.less(x, y)) + (lanes.one_where(lanes.less(x, number)) << 1)
    found = found + (lanes.one_where(lanes.less(number, x)) << 2) + (lanes.one_where(lanes.equal(x, y)) << 3)
    found = found + (lanes.one_where(lanes.equal(x, number)) << 4) + (lanes.one_where(lanes.negative(x)) << 5)
    found = found + (lanes.one_where(lanes.not_a_number(x)) << 6)
    lanes.store(out, 0, found + (lanes.one_where(lanes.negative(x) & lanes.negative(y)) << 7))


def choices(a, b, number, out):
    """Between vectors and numbers; lesser and greater as unsigned."""
    x, y = lanes.load(a, 0), lanes.load(b, 0)
    chosen = lanes.choose(lanes.less(x, y), x, y) + lanes.choose(lanes.negative(x), number, 5)
    lanes.store(out, 0, chosen + lanes.lesser(x, y) + lanes.greater(x, number) + lanes.fill(number))


@pytest.mark.parametrize("kernel", [arithmetic, shifts, comparisons, choices])
@pytest.mark.parametrize("seed", range(6))
def test_operators_and_functions(kernel, seed):
    """Wrapping where unsigned words wrap, and never wider than they are."""
    number = np.uint32(BORDERS[seed * 3])
    _compare(kernel, _words(seed), _words(seed + 100), number, np.zeros(LANES, np.uint32))


def halves(a, out):
    """Rounded to 16 bits by the processor."""
    lanes.store(out, 0, rounding.narrowed_to_half(lanes.load(a, 0)))


def sums(a, b, out):
    """As binary32 numbers."""
    x, y = lanes.as_singles(lanes.load(a, 0)), lanes.as_singles(lanes.load(b, 0))
    lanes.store(out, 0, lanes.as_words((x + y) - x))


def test_the_processors_own_rounding():
    """To nearest, with what comes of NaN left out: its payload is the processor's business."""
    finite = np.random.default_rng(1).standard_normal(LANES).astype(np.float32) * np.float32(
        2.0
    ) ** np.arange(-16, LANES - 16).astype(np.float32)
    words = finite.view(np.uint32)
    if has_half():
        _compare(halves, words, np.zeros(LANES, np.uint32))
    _compare(sums, words, words[::-1].copy(), np.zeros(LANES, np.uint32))


def through(a, out):
    """From one size of element to another."""
    lanes.store(out, 0, rounding.load_odd(a, 0))


@pytest.mark.parametrize("read", ["u1", "u2", "u4", "u8"])
@pytest.mark.parametrize("written", ["u1", "u2", "u4"])
def test_elements_of_every_size(read, written):
    """Bytes and half-words are widened with zeros, cut on the way back; 64 bits are folded to odd."""
    bits = 8 * np.dtype(read).itemsize
    rng = np.random.default_rng(bits)
    elements = (
        rng.integers(0, 1 << bits, LANES, dtype=read) if bits < 64 else rng.integers(0, 1 << 63, LANES, read)
    )
    elements[:4] = [0, 1, (1 << bits) - 1, 1 << (bits - 1)]
    _compare(through, elements, np.zeros(LANES, written))
    if read == "u8":
        folded = [int(word) >> 32 | (int(word) & 0xFFFFFFFF != 0) for word in elements]
        assert rounding.load_odd(elements, 0).tolist() == folded


def rare(a, out):
    """Whether any lane is NaN."""
    lanes.store(out, 0, lanes.fill(1 if lanes.rare_nan(lanes.load(a, 0)) else 0))


def test_a_nan_is_found_in_every_lane():
    """Of either sign, quiet or signaling; infinities and the largest patterns of numbers are none."""
    words = np.resize(np.array([0, 0x7F800000, 0xFF800000, 0x7F7FFFFF, 1], np.uint32), LANES)
    found = np.ones(LANES, np.uint32)
    compiled = _compiled(rare)
    compiled(words, found)
    assert not found.any()
    for lane in range(LANES):
        for nan in (0x7F800001, 0xFFC00000):
            some = words.copy()
            some[lane] = nan
            _compare(rare, some, np.zeros(LANES, np.uint32))
            compiled(some, found)
            assert found.all()


def test_binary32_is_widened_to_binary64():
    """Normal numbers, zeros, infinities and the NaN without payload."""
    words = np.full(LANES, 0x7FC00000, np.uint32)
    words[:6] = [0, 0x80000000, 0x7F800000, 0xFF800000, 0x00800000, 0x3F800001]
    _compare(through, words, np.zeros(LANES, np.uint64))
    wide = np.zeros(LANES, np.uint64)
    lanes.store(wide, 0, words)
    assert wide[:6].view(np.float64).tolist() == words[:6].view(np.float32).astype(np.float64).tolist()
    assert int(wide[6]) == 0x7FF8000000000000


def past(a, out):
    """As `through`, past the caches."""
    lanes.store_past(out, 0, lanes.load(a, 0))
    lanes.settle()


@pytest.mark.parametrize("written", ["u1", "u2", "u4"])
def test_stores_past_the_caches_store_the_same(written):
    """At an address that is a multiple of 16."""
    memory = np.zeros(LANES * 4 + 16, np.uint8)
    start = -memory.__array_interface__["data"][0] % 16
    out = memory[start : start + LANES * np.dtype(written).itemsize].view(written)
    _compiled(past)(_words(3), out)
    assert out.tolist() == _words(3).astype(written).tolist()


def long_products(first, out):
    """Products of 64 bits, their halves, and four vectors interleaved."""
    a = longs.long_range(first)
    b = a * np.uint64(0xD2511F53)
    longs.interleaved(out, 0, a, b, b >> np.uint64(32), a ^ b)


@pytest.mark.parametrize("first", [0, 5, (1 << 32) - 3, (1 << 64) - 2])
def test_numbers_of_64_bits(first):
    """Around the borders of both halves."""
    _compare(long_products, np.uint64(first), np.zeros(4 * LONGS, np.uint32))


def some(a, number, out):
    """Whether any lane is equal to a number."""
    out[0] = lanes.any_lane(lanes.equal(lanes.load(a, 0), number))


def test_one_lane_is_enough():
    """In the first place, in the last, and in none."""
    for place in (0, LANES - 1, None):
        words = np.zeros(LANES, np.uint32)
        if place is not None:
            words[place] = 7
        out = np.zeros(1, np.uint8)
        _compiled(some)(words, np.uint32(7), out)
        assert out[0] == (place is not None)


def groups(a, out):
    """The greatest word of all, and of each half; and the first."""
    x = lanes.load(a, 0)
    most = lanes.greatest(x) ^ lanes.greatest_of_16(x)
    lanes.store(out, 0, most ^ lanes.fill(lanes.first_lane(x)))


@pytest.mark.parametrize("seed", range(6))
def test_the_greatest_of_groups(seed):
    """As unsigned words, wherever in a group it is."""
    _compare(groups, _words(seed), np.zeros(LANES, np.uint32))


def test_the_greatest_is_found_in_every_lane():
    """One word above all others, once in each place."""
    for place in range(LANES):
        words = np.full(LANES, 7, np.uint32)
        words[place] = 0x80000001
        out = np.zeros(LANES, np.uint32)
        _compiled(groups)(words, out)
        half = np.where(np.arange(LANES) // 16 == place // 16, 0x80000001, 7).astype(np.uint32)
        np.testing.assert_array_equal(out, np.uint32(0x80000001) ^ half ^ words[0])


def over_doubles(a, doubles, number, out):
    """Normal numbers over others, each by its own and all by one."""
    x = lanes.load(a, 0)
    each = rounding.quotients(x, lanes.load_wide(doubles, 0))
    lanes.store(out, 0, each ^ (rounding.quotients(x, lanes.fill_wide(number)) << 1))


@pytest.mark.parametrize("seed", range(6))
def test_quotients(seed):
    """Folded upper halves of binary64 quotients, exact and not, as NumPy's division gives them."""
    rng = np.random.default_rng(seed)
    words = rng.integers(1 << 23, 0x7F800000, LANES, dtype=np.uint32)
    doubles = np.ldexp(rng.integers(1, 64, LANES).astype(np.float64), rng.integers(-40, 40, LANES))
    words[:8] = (doubles[:8] * 3).astype(np.float32).view(np.uint32)
    bits = doubles.view(np.uint64)
    _compare(over_doubles, words, bits, bits[3], np.zeros(LANES, np.uint32))


def products(a, b, out):
    """As binary32 numbers."""
    lanes.store(
        out, 0, lanes.as_words(lanes.as_singles(lanes.load(a, 0)) * lanes.as_singles(lanes.load(b, 0)))
    )


def test_products():
    """Rounded by the processor."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(0x20000000, 0x50000000, LANES, dtype=np.uint32) for _ in range(2))
    _compare(products, a, b, np.zeros(LANES, np.uint32))


def to_odd(a, b, c, out):
    """Sums, products, quotients and roots in binary64, rounded to odd; and those of binary32."""
    x, y, z = lanes.load(a, 0), lanes.load(b, 0), lanes.load(c, 0)
    lanes.store(out, 0, rounding.sum_to_odd(x, y))
    lanes.store(out, 32, rounding.product_to_odd(x, y))
    lanes.store(out, 64, rounding.fma_to_odd(x, y, z))
    lanes.store(out, 96, rounding.quotient_to_odd(x, y))
    lanes.store(out, 128, rounding.root_to_odd(x & 0x7FFFFFFF))
    singles, root = lanes.as_singles(x), lanes.square_root(lanes.as_singles(x & 0x7FFFFFFF))
    fused = lanes.fused(singles, lanes.as_singles(y), lanes.as_singles(z))
    lanes.store(out, 160, lanes.as_words(fused) ^ (lanes.as_words(root) << 1))


def units(a, b, c, field, lost, out):
    """Sums of signed integers times powers of two: cut, to odd, plus a number; numbers cut to integers."""
    x, y, z = lanes.load(a, 0), lanes.load(b, 0), lanes.load(c, 0)
    power, few = lanes.load(field, 0), lanes.load(lost, 0)
    lanes.store(out, 0, rounding.cut_sum(x, y, z, power))
    lanes.store(out, 32, rounding.cut_short_sum(x, y, z, power))
    lanes.store(out, 64, rounding.odd_sum(x, y, z, power))
    number = rounding.cut_sum(z, x, y, power)
    lanes.store(out, 96, rounding.joined_sum(number, x, y, power, few))
    lanes.store(
        out, 128, rounding.truncated(lanes.as_singles(rounding.cut_sum(x, x & 0, x & 0, (x & 0) + 1010)))
    )


@pytest.mark.parametrize("seed", range(4))
def test_primitives_that_round(seed):
    """Numbers of exponents so far apart that most results are inexact, and some are not."""
    rng = np.random.default_rng(seed)
    numbers = np.ldexp(rng.normal(size=(3, LANES)), rng.integers(-40, 40, (3, LANES))).astype(np.float32)
    numbers[1, :8] = np.float32(2.0) ** rng.integers(-60, 60, 8)
    _compare(to_odd, *numbers.view(np.uint32), np.zeros(6 * LANES, np.uint32))
    integers = rng.integers(-(1 << 30), 1 << 30, (3, LANES)) >> rng.integers(0, 30, (3, LANES))
    fields, lost = rng.integers(950, 1050, LANES, np.uint32), rng.integers(3, 28, LANES, np.uint32)
    _compare(units, *integers.astype(np.uint32), fields, lost, np.zeros(5 * LANES, np.uint32))
