"""Multipliers as hardware engineers write them: python -m tests.identify_multipliers [NAME]...

They are in NumPy and integers, not with the library's sums. What `identify` says of each is printed.
"""

import argparse
import time

import numpy as np

import lowprec as lp

#: Products of a dot product, and the format of the operands.
LENGTH, E4M3 = 16, ("e4m3fn", "e4m3fn")

#: Products of E4M3 numbers are multiples of this power of two.
LEAST = -18


def products(a, b):
    """Return exact products in float64."""
    return a.astype(np.float64) * b.astype(np.float64)


def quiet(unit):
    """Return a unit whose invalid operations do not warn."""

    def asked(a, b):
        with np.errstate(all="ignore"):
            return unit(a, b)

    return asked


def single(value):
    return value.astype(np.float32).astype(np.float64)


def fma_reversed(a, b):
    """Add products to a binary32 sum by fused operations, from the last to the first."""
    sums, made = np.zeros(len(a)), products(a, b)
    for k in reversed(range(a.shape[1])):
        sums = single(sums + made[:, k])  # exact in float64, or rounded twice innocuously: 8 and 24 bits
    return sums.astype(np.float32)


def lanes(count):
    """Return a unit with so many binary32 accumulators, lane = index mod count, added at the end."""

    def unit(a, b):
        sums, made = np.zeros((len(a), count), np.float32), products(a, b).astype(np.float32)
        for k in range(a.shape[1]):
            sums[:, k % count] += made[:, k]
        total = sums[:, 0]
        for lane in range(1, count):
            total = total + sums[:, lane]
        return total

    return unit


def halves(a, b):
    """Add products 0 and K/2, 1 and K/2 + 1, ..., and these sums in pairs, in binary32."""
    made, half = products(a, b).astype(np.float32), a.shape[1] // 2
    level = made[:, :half] + made[:, half:]
    while level.shape[1] > 1:
        level = level[:, 0::2] + level[:, 1::2]
    return level[:, 0]


def integers(a, b):
    """Return products as integers times 2**LEAST; zero where they are not finite."""
    made = products(a, b)
    finite = np.isfinite(made).all(axis=1)
    return np.where(finite[:, None], np.ldexp(np.where(np.isfinite(made), made, 0), -LEAST), 0).astype(
        np.int64
    ), finite


def sticky_window(a, b):
    """Align all products to the largest, keep 24 bits and a sticky bit of each, round toward zero."""
    made, finite = integers(a, b)
    exponents = [np.maximum(np.frexp(side.astype(np.float64))[1] - 1, -6) for side in (a, b)]
    high = np.where(made != 0, exponents[0] + exponents[1] - LEAST, 0).max(axis=1)  # of factors
    shift = np.maximum(high - 24, 0)[:, None]
    kept, lost = made >> shift, made & ((np.int64(1) << shift) - 1)
    total = ((kept * 2 + (lost != 0)).sum(axis=1)) << shift[:, 0]
    size = np.abs(total)
    cut = np.maximum(np.frexp(size.astype(np.float64))[1] - 24, 0)
    value = np.ldexp((np.sign(total) * (size >> cut << cut)).astype(np.float64), LEAST - 1)
    return np.where(finite, value, np.nan).astype(np.float32)


def by_magnitude(a, b):
    """Add products to a binary32 sum, the largest first."""
    made = products(a, b)
    order = np.argsort(-np.abs(made), axis=1, kind="stable")
    made = np.take_along_axis(made, order, axis=1).astype(np.float32)
    sums = np.zeros(len(a), np.float32)
    for k in range(a.shape[1]):
        sums = sums + made[:, k]
    return sums


def fixed_point(a, b):
    """Add products, cut to multiples of 2**-10, to a saturating accumulator of 24 bits."""
    made, finite = integers(a, b)
    sums, most = np.zeros(len(a), np.int64), (1 << 23) - 1
    for k in range(a.shape[1]):
        sums = np.clip(sums + (made[:, k] >> (-10 - LEAST)), -most - 1, most)
    return np.where(finite, np.ldexp(sums.astype(np.float64), -10), np.nan).astype(np.float32)


def kahan(a, b):
    """Add rounded products to a compensated binary32 sum."""
    made = products(a, b).astype(np.float32)
    sums, lost = np.zeros(len(a), np.float32), np.zeros(len(a), np.float32)
    for k in range(a.shape[1]):
        term = made[:, k] - lost
        total = sums + term
        lost, sums = (total - sums) - term, total
    return sums


def wrapping(a, b):
    """Add products, to the nearest multiple of 2**-6, to an accumulator of 20 bits that wraps."""
    made, finite = integers(a, b)
    shift = -6 - LEAST
    sums = ((made + (1 << (shift - 1))) >> shift).sum(axis=1)
    sums = (sums + (1 << 19)) % (1 << 20) - (1 << 19)
    return np.where(finite, np.ldexp(sums.astype(np.float64), -6), np.nan).astype(np.float32)


UNITS = {
    "fma chain from the last to the first": fma_reversed,
    "four lanes": lanes(4),
    "even and odd": lanes(2),
    "pairs of halves": halves,
    "window of 24 bits and sticky": sticky_window,
    "sorted by magnitude": by_magnitude,
    "saturating fixed point": fixed_point,
    "wrapping fixed point": wrapping,
    "Kahan": kahan,
}


def identified(name, k=LENGTH):
    """Return what is said of a unit, and the seconds of a processor."""
    begun = time.process_time()
    found = lp.identify(quiet(UNITS[name]), E4M3, "binary32", k=k, addend=None, nan="any")
    return found, time.process_time() - begun


def main():
    """Print a line for each unit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(UNITS))
    parser.add_argument("--k", type=int, default=LENGTH)
    given = parser.parse_args()
    for name in given.names:
        found, seconds = identified(name, given.k)
        if found.named:
            said = f"named, {'; '.join(found.named)}"
        elif found.wrong:
            said = f"NOT FOUND, misses {found.wrong} of {len(found.answers)}"
        else:
            said = f"found, {found.accumulation.order}"
        print(f"{name}: {said}; {found.asked:,} asked, {seconds:.1f} s", flush=True)


if __name__ == "__main__":
    main()
