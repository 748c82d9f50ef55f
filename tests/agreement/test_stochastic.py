"""Stochastic rounding: of all integers the table's share rounds up; kernels agree with the oracle."""

import functools
import math
from fractions import Fraction

import numpy as np
import pytest

import lowprec as lp
from lowprec.oracle import convert as oracle
from lowprec.spec import catalog
from lowprec.spec.projection import Projection
from lowprec.spec.rounding import stochastic
from tests.oracle.test_stochastic import SHARES
from tests.support import CATALOG_UP_TO_8, assert_same_codes, most_apart, value_of

#: Tails that no number of bits up to 32 holds, that all hold, next to both ends, and ties.
TAILS = (
    Fraction(1, 3),
    Fraction(1, 2),
    Fraction(1, 512),
    Fraction(511, 512),
    Fraction(5, 16),
    Fraction(3, 1 << 30),
)


def operands(fmt):
    """Inputs in every binade, among subnormals and far below them, with the tail of each."""
    magnitudes = range(0 if fmt.subnormals else 1, fmt.max_magnitude)
    starts = [m for m in magnitudes if m < 2 or fmt.scaled(m)[0] & (fmt.scaled(m)[0] - 1) == 0]
    chosen = dict.fromkeys([*starts, fmt.max_magnitude - 1, fmt.max_magnitude])
    step = 2 if len(starts) < 40 else len(TAILS)  # of hundreds of binades one tail each
    for number, magnitude in enumerate(chosen):
        low, high = value_of(magnitude, fmt), value_of(magnitude + 1, fmt)
        for tail in TAILS[number % step :: step]:
            yield float(low + tail * (high - low))
    if fmt.subnormals:
        for far in (1, 7, 30, 60):
            yield float(value_of(1, fmt) / (1 << far) * Fraction(4097, 4096))


def share(tail, bits, variant):
    """Return how many of the 2**bits random integers take the farther code."""
    return SHARES[variant](tail * (1 << bits))


@functools.cache
def values_of(fmt):
    return [value_of(magnitude, fmt) for magnitude in range(fmt.max_magnitude + 1)]


@functools.cache
def nearer_and_tail(value, fmt):
    tail, last = oracle.position(abs(Fraction(value)), fmt)
    size = abs(Fraction(value))
    below = [magnitude for magnitude, value in enumerate(values_of(fmt)) if value <= size]
    assert last == (below[-1] == fmt.max_magnitude)
    return below[-1], tail


@pytest.mark.parametrize("bits", most_apart([1, 2, 4, 8], [1, 4]))
@pytest.mark.parametrize("fmt", CATALOG_UP_TO_8, ids=str)
def test_over_all_random_integers_the_share_is_the_tables(fmt, bits):
    """Exact counts, no statistics; the oracle gives the same codes for all pairs (8 bits: every fifth)."""
    values = np.array(list(operands(fmt)))
    integers = np.arange(1 << bits, dtype=np.uint32)
    every = np.repeat(values, integers.size)
    random = np.tile(integers, values.size)
    for variant in "ABC":
        projection = Projection(rounding=stochastic(bits, variant), saturation="finite")
        codes = lp.encode(every, fmt, projection=projection, random=random).reshape(
            values.size, integers.size
        )
        for value, row in zip(values.tolist(), codes, strict=True):
            nearer, tail = nearer_and_tail(value, fmt)
            taken = (row != nearer).sum()
            if nearer == fmt.max_magnitude:  # it overflows, and saturates to where it was
                assert taken == 0
                none = lp.encode(
                    np.full(integers.size, value), fmt, rounding=projection.rounding, random=integers
                )
                overflow = oracle.project(Fraction(value) * 4, fmt)
                taken = (none == overflow).sum() if overflow != nearer else share(tail, bits, variant)
            assert taken == share(tail, bits, variant), (value, variant)
            assert set(row.tolist()) <= {nearer, min(nearer + 1, fmt.max_magnitude)}
        pairs = slice(None, None, 5 if bits == 8 else 1)
        chosen = zip(every[pairs].tolist(), random[pairs].tolist(), strict=True)
        want = [oracle.encode(value, fmt, projection, random=integer) for value, integer in chosen]
        assert_same_codes(codes.reshape(-1)[pairs], want, fmt, every[pairs], projection)


@pytest.mark.parametrize("bits", [16, 32])
@pytest.mark.parametrize("fmt", [*CATALOG_UP_TO_8[::2], catalog.BINARY16, catalog.BFLOAT16], ids=str)
def test_wide_random_integers_turn_at_the_boundary(fmt, bits):
    """R at the first integer that rounds up, and one less; significands shifted by 1 to over 60 places."""
    steps = [value_of(magnitude, fmt) for magnitude in (1, 2)]
    ulp = steps[1] - steps[0]
    significands = (Fraction(1), Fraction(0x800001, 0x800000), Fraction((1 << 53) - 1, 1 << 52))
    values = [steps[0] + ulp * s / (1 << k) for k in range(1, 29) for s in significands[:1]]
    if fmt.subnormals:
        values += [ulp * s / (1 << k) for k in range(1, 61) for s in significands]
    values = np.array([float(value) for value in values if Fraction(float(value)) == value])
    assert values.size > 20
    for variant in "ABC":
        projection = Projection(rounding=stochastic(bits, variant))
        first = []
        for value in values.tolist():
            _, tail = (
                nearer_and_tail(value, fmt)
                if fmt.width <= 8
                else (0, oracle.position(Fraction(value), fmt)[0])
            )
            first.append((1 << bits) - share(tail, bits, variant))
        for offset in (0, -1):
            random = np.array([min(max(r + offset, 0), (1 << bits) - 1) for r in first], np.uint32)
            codes = lp.encode(values, fmt, projection=projection, random=random)
            pairs = zip(values.tolist(), random.tolist(), strict=True)
            want = [oracle.encode(value, fmt, projection, random=integer) for value, integer in pairs]
            assert_same_codes(codes, want, fmt, values, projection)
            up = lp.encode(values, fmt, rounding="away_from_zero")
            down = lp.encode(values, fmt, rounding="toward_zero")
            expected = np.where(random >= np.array(first, np.int64), up, down)
            assert_same_codes(codes, expected, fmt, values, projection)


def test_a_deep_subnormal_takes_the_right_side_of_thirty_two_bits():
    """Significand 0x800001 shifted by 32: the tail is 0x00800001, so that R = 2**32 - 0x800001 rounds up."""
    value = np.float32(math.ldexp(0x800001, -9 - 32))  # in units of e4m3fn's smallest, 2**-9
    random = np.array([4286578687, 4286578686], np.uint32)
    assert (1 << 32) - 0x800001 == 4286578687
    codes = lp.encode(np.array([value, value]), "e4m3fn", rounding="stochastic(32)", random=random)
    assert codes.tolist() == [1, 0]


def test_lanes_of_the_ptx_instruction_are_as_measured():
    """One word, four lanes a, b, e, f: b and f take half-words as they are, a and e with bits reversed."""
    value = np.full(
        4, 1 + 2.0**-3 * 2.0**-16, np.float32
    )  # rounds up for the largest of 16-bit integers alone
    taken = [
        lp.encode(value, "e4m3fn", rounding="stochastic(16, ptx_rs)", random=np.array([word], np.uint32)) - 56
        for word in (0xFFFF0000, 0x0000FFFF, 0xFFFE0000, 0x00007FFF)
    ]
    assert [row.tolist() for row in taken] == [[1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 0, 0], [0, 0, 0, 0]]
    half = np.full(4, 1 + 2.0**-3 * 2.0**-1, np.float32)  # rounds up where the top bit of the integer is set
    top = (
        lp.encode(half, "e4m3fn", rounding="stochastic(16, ptx_rs)", random=np.array([0x80000001], np.uint32))
        - 56
    )
    assert top.tolist() == [0, 1, 1, 0]
