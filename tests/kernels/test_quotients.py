"""Quotients of the kernels against those of Python's integers: all digits, and whether any follow."""

import numpy as np
import pytest

from lowprec.kernels.general.quotients import long_quotient, quotient
from lowprec.kernels.jit import jit
from lowprec.kernels.lower.block import exactly, nearest_single
from lowprec.kernels.scalar.block import quotient as wide_quotient
from lowprec.spec.catalog import BINARY32


@jit
def by_lanes(over, by, found, places):
    for i in range(over.size):
        found[i], places[i] = long_quotient(over[i], np.int64(0), by[i], np.int64(0))


@jit
def by_short_lanes(over, by, found, places):
    for i in range(over.size):
        found[i], places[i] = quotient(over[i], np.int64(0), by[i], np.int64(0))


@jit
def one_by_one(over, by, found, places):
    for i in range(over.size):
        found[i], places[i] = wide_quotient(over[i], np.int64(0), by[i], np.int64(0))


def drawn(rng, bits, count):
    """Numbers of 1 to so many bits, powers of two and their neighbours among them."""
    size = rng.integers(1, bits + 1, count)
    made = [int(rng.integers(0, 1 << 63)) * 2 + int(rng.integers(2)) for _ in range(count)]
    made = [each >> 64 - int(n) | 1 << int(n) - 1 for each, n in zip(made, size, strict=True)]
    edges = [(1 << n) + step for n in range(2, bits) for step in (-1, 0, 1)] + [(1 << bits) - 1]
    return np.array(made + [edges[int(rng.integers(len(edges)))] for _ in range(count)], np.uint64)


@pytest.mark.apart
@pytest.mark.parametrize(
    ("kernel", "bits", "by_bits", "digits"),
    [(by_lanes, 64, 53, 60), (by_short_lanes, 53, 53, 50), (one_by_one, 64, 64, 63)],
)
def test_digits_and_what_follows_them(kernel, bits, by_bits, digits):
    rng = np.random.default_rng(bits + by_bits)
    over, by = drawn(rng, bits, 4000), drawn(rng, by_bits, 4000)
    by[::7] = over[::7] >> np.uint64(max(bits - by_bits, 0)) | np.uint64(1)  # quotients next to powers of two
    found, places = np.zeros(over.size, np.uint64), np.zeros(over.size, np.int64)
    kernel(over, by, found, places)
    for a, b, word, place in zip(over.tolist(), by.tolist(), found.tolist(), places.tolist(), strict=True):
        whole, rest = divmod(a << max(-place, 0), b << max(place, 0))
        assert word == whole | (rest != 0), (a, b)
        assert word.bit_length() > digits, (a, b)


@pytest.mark.parametrize(
    ("over", "under"),
    [((1, 1 << 31), (1, 1 << 31)), ((1, 1 << 22), (1 << 24, 1 << 31)), ((1 << 30, 1 << 31), (1, 1 << 24))],
)
def test_quotients_of_a_tensors_scale_are_the_processors(over, under):
    """Subnormal ones too; those beyond the largest number are that."""
    x, y = (
        np.random.default_rng(1).integers(*ends, 2000, np.uint32) % 0x7F800000 | 1 for ends in (over, under)
    )
    y[::3] = np.maximum(y[::3] >> 23, 1) << 23  # powers of two: ties, where results are subnormal
    with np.errstate(all="ignore"):
        words = np.minimum((x.view(np.float32) / y.view(np.float32)).view(np.uint32), 0x7F7FFFFF)
    for a, b, word in zip(x.tolist(), y.tolist(), words.tolist(), strict=True):
        made = nearest_single(BINARY32.scaled(a), BINARY32.scaled(b))
        assert exactly(*made) == exactly(*BINARY32.scaled(word))
