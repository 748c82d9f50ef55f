"""Remainders against those of the standard library, which are exact."""

import math

import numpy as np
import pytest

import lowprec as lp

SIZE = 1500


def exact(x, y):
    """Return the remainder of each pair as Python gives it, or its first NaN; and whether it is invalid."""
    invalid = np.isinf(x) | (y == 0)
    nan = np.isnan(x) | np.isnan(y)
    usual = ~(invalid | nan)
    made = np.where(np.isnan(x), x, np.where(np.isnan(y), y, np.nan))
    made[usual] = [math.remainder(*pair) for pair in zip(x[usual].tolist(), y[usual].tolist(), strict=True)]
    return made, invalid & ~nan


def check(x, y, *names):
    """Compare results, the sign of zeros and NaNs too, and flags."""
    rest, invalid = exact(np.float64(x), np.float64(y))
    for name in names:
        flags, onward = (np.zeros(x.size, np.uint8) for _ in range(2))
        made, want = lp.remainder(x, y, name, flags=flags), lp.quantize(rest, name, flags=onward)
        assert np.array_equal(made, want, equal_nan=True)
        assert np.array_equal(np.signbit(made), np.signbit(want))
        assert np.array_equal(flags, np.where(invalid, 16, onward))
        assert np.array_equal(lp.remainder(x, y, name), made, equal_nan=True)


def test_remainders_beside_ties():
    """Quotients next to half an integer, of few bits and of many."""
    rng = np.random.default_rng(0)
    y = (rng.integers(1 << 23, 1 << 24, SIZE) | 1).astype(np.float32)
    count = rng.integers(0, 1 << rng.integers(1, 29, SIZE)) + rng.choice([0, 0.5], SIZE)
    near = (count * y).astype(np.float32) + np.float32(1) * rng.integers(-2, 3, SIZE).astype(np.float32)
    for x in (near, -near, (y / 2).astype(np.float32), y * np.float32(1.5), np.zeros(SIZE, np.float32)):
        for by in (y, -y, y * np.float32(2.0**-140), y * np.float32(2.0**-170)):
            check(x, by, "binary32")


@pytest.mark.parametrize("spread", [3, 60, 500, 1000])
def test_remainders_of_binary64_numbers(spread):
    """Ties and what lies next to them, quotients of few digits, and of as many as there are."""
    rng = np.random.default_rng(spread)
    x, y, z = (rng.standard_normal(SIZE) * 2.0 ** rng.integers(-spread, spread, SIZE) for _ in range(3))
    x[::50], x[1::60], y[2::70], y[3::80], x[4::90], y[5::91] = 0, np.inf, 0, -np.inf, np.nan, np.nan
    x[7::50], y[8::60] = -0.0, 5e-324
    count = np.floor(2.0 ** rng.uniform(0, 53, SIZE)) + rng.choice([0, 0.5], SIZE)
    short = np.ldexp(rng.integers(1, 256, SIZE) * 1.0, rng.integers(-spread, spread, SIZE) // 2)
    with np.errstate(all="ignore"):
        beside = np.nextafter(count * z, rng.choice([-1, 0, 1], SIZE) * np.inf)
    for first, second in ((x, y), (beside, z), (count * short, short), (-count * short, short)):
        check(first, second, "binary32", "bfloat16")


def test_remainders_of_any_exponents():
    """Each bit that two quotients' digits may begin at, one after the other."""
    rng = np.random.default_rng(5)
    for most in (1 << 4, 1 << 24, 1 << 53):
        significands = rng.integers(1, most, (2, 2200))
        x, y = np.ldexp(significands[0] * 1.0, np.arange(2200) // 3), np.ldexp(significands[1] * 1.0, -60)
        check(x, y, "bfloat16")
        check(
            np.ldexp(significands[0] * 1.0, -10),
            np.ldexp(significands[1] * 1.0, np.arange(2200) % 130 - 60),
            "binary32",
        )
