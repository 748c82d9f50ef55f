"""RISC-V's and Arm's dot products, which round to odd, against their definitions in integers."""

from fractions import Fraction

import numpy as np
import pytest

import lowprec as lp
from lowprec.oracle.dot import dot
from lowprec.spec import catalog
from lowprec.spec.accumulations import accumulation, bulk_normalized

NAN, INFINITE = 0x7FC00000, 0x7F800000


def pattern_to_odd(value, flush=False):
    """A real number as a pattern of binary32: truncated, and its last bit set where anything is lost."""
    sign, size = (0x80000000 if value < 0 else 0), abs(value)
    if size >= Fraction(2) ** 128:
        return sign | INFINITE
    if flush and size < Fraction(2) ** -126:
        return sign
    place = -149
    while size >= Fraction(2) ** (place + 24):
        place += 1
    units = size / Fraction(2) ** place
    whole = units.numerator // units.denominator
    whole |= whole != units
    return sign | (whole if whole < 1 << 23 else (place + 150 << 23) + whole - (1 << 23))


def value_of(pattern):
    """The number that a finite pattern of binary32 stands for."""
    field, fraction = pattern >> 23 & 0xFF, pattern & 0x7FFFFF
    size = Fraction(fraction | (0x800000 if field else 0)) * Fraction(2) ** (max(field, 1) - 150)
    return -size if pattern >> 31 else size


def added(x, y):
    """The sum of two finite patterns, to odd; of zeros the sign that they share."""
    if (x | y) & 0x7FFFFFFF == 0:
        return x & y
    if x & INFINITE == INFINITE:  # of numbers only this one may be infinite
        return x
    return pattern_to_odd(value_of(x) + value_of(y))


def factor(code, fmt):
    """Significand with a sign and exponent of a finite code, as its bits have them."""
    t = fmt.trailing_bits
    field, fraction = code >> t & (1 << fmt.exponent_bits) - 1, code & (1 << t) - 1
    significand = fraction | (1 << t if field else 0)
    return (-significand if code & fmt.sign_code else significand), max(field, 1) - fmt.bias


def bulk(xs, ys, formats, addend):
    """RISC-V's sum of finite codes: one chunk, and then the addend, a pattern of binary32."""
    terms = []
    for x, y in zip(xs, ys, strict=True):
        (m, e), (n, f) = factor(x, formats[0]), factor(y, formats[1])
        terms.append((m * n, e + f))
    bits = 23 + (len(xs) - 1).bit_length()
    top = max([e for m, e in terms if m], default=0)
    up = bits - sum(fmt.trailing_bits for fmt in formats)
    total = 0
    for m, e in terms:
        size = abs(m) << up
        kept = size >> (top - e) if m else 0
        kept |= bool(m) and kept << (top - e) != size
        total += -kept if m < 0 else kept
    return added(pattern_to_odd(total * Fraction(2) ** (top - bits)), addend)


def codes_of(rng, fmt, count):
    """Finite codes; of a half of the vectors of nearly one exponent, so that terms cancel."""
    codes = rng.integers(0, fmt.max_magnitude + 1, count)
    if rng.random() < 0.5:
        codes = codes % (3 << fmt.trailing_bits) + (int(rng.integers(0, 4)) << fmt.trailing_bits)
    codes = np.minimum(codes, fmt.max_magnitude)
    codes[rng.random(count) < 0.1] = 0
    return [int(code) | (fmt.sign_code if rng.random() < 0.5 else 0) for code in codes]


def addend_of(rng, value):
    """A pattern of binary32: any finite one, or one that is near a sum or takes it back."""
    if rng.random() < 0.4:
        return int(rng.integers(0, INFINITE)) | (int(rng.integers(2)) << 31)
    near = -value * int(rng.choice([1, 1, 3])) / int(rng.choice([1, 1 << 20, 1 << 23, 1 << 24]))
    return pattern_to_odd(near if abs(near) < Fraction(2) ** 128 else -value)


@pytest.mark.apart
@pytest.mark.parametrize("engine", ["oracle", "scalar"])
@pytest.mark.parametrize(
    ("x", "y", "products"), [("bfloat16", "bfloat16", 8), ("e4m3fn", "e5m2", 16), ("e5m2", "e5m2", 4)]
)
def test_bulk_normalized_sums(x, y, products, engine):
    """Terms that lose bits, sums that cancel, overflow, subnormal results, an addend of any size."""
    formats = lp.format(x), lp.format(y)
    how, rng = bulk_normalized(formats, products), np.random.default_rng(products)
    cases = [(codes_of(rng, formats[0], products), codes_of(rng, formats[1], products)) for _ in range(300)]
    addends = [addend_of(rng, value_of(bulk(*case, formats, 0) & 0xFF7FFFFF)) for case in cases]
    want = [bulk(*case, formats, addend) for case, addend in zip(cases, addends, strict=True)]
    left, right = (
        lp.decode(np.array(side).astype(np.uint16), fmt)
        for side, fmt in zip(zip(*cases, strict=True), formats, strict=True)
    )
    given = np.array(addends, np.uint32).view(np.float32)
    got = lp.dot(left, right, how, addend=given, backend=engine)
    assert np.asarray(got).view(np.uint32).tolist() == want
    assert len({code & 1 for code in want}) == 2


def bfdot(xs, ys, addend):
    """Arm's sum of one pair of finite bfloat16 codes, and the addend, a pattern of binary32."""

    def read(pattern):
        return pattern if pattern & 0x7F800000 else pattern & 0x80000000

    def flushed(value, sign):
        made = pattern_to_odd(value, flush=True)
        return made | sign if value == 0 else made

    def sum_of(p, q):
        p, q = read(p), read(q)
        return (
            added(p, q)
            if (p | q) & 0x7FFFFFFF == 0
            else pattern_to_odd(value_of(p) + value_of(q), flush=True)
        )

    products = []
    for x, y in zip(xs, ys, strict=True):
        a, b = read(x << 16), read(y << 16)
        products.append(flushed(value_of(a) * value_of(b), (a ^ b) & 0x80000000))
    return sum_of(addend, sum_of(*products))


@pytest.mark.apart
@pytest.mark.parametrize("engine", ["oracle", "scalar"])
def test_bfdot(engine):
    """Products below the normal range, subnormal operands and addends, sums that cancel or overflow."""
    rng, fmt = np.random.default_rng(5), catalog.BFLOAT16
    cases, addends = [], []
    for _ in range(600):
        xs = rng.integers(0, 0x7F80, 2) if rng.random() < 0.6 else rng.integers(0x1F00, 0x2100, 2)
        ys = rng.integers(0, 0x7F80, 2) if rng.random() < 0.6 else rng.integers(0x1F00, 0x2100, 2)
        if rng.random() < 0.3:
            xs[1], ys[1] = xs[0] ^ 1, ys[0]
        signs = rng.integers(0, 2, 4) << 15
        cases.append(((xs | signs[:2]).tolist(), (ys | signs[2:]).tolist()))
        exponent = int(rng.integers(0, 255)) if rng.random() < 0.5 else 0
        addends.append(exponent << 23 | int(rng.integers(0, 1 << 23)) | int(rng.integers(2)) << 31)
    want = [bfdot(*case, addend) for case, addend in zip(cases, addends, strict=True)]
    # What is infinite between, and taken back, is NaN in hardware, and no number here.
    limit = Fraction(2) ** 126
    plain = [
        all(abs(value_of(x << 16) * value_of(y << 16)) < limit for x, y in zip(*case, strict=True))
        for case in cases
    ]
    left, right = (lp.decode(np.array(side).astype(np.uint16), fmt) for side in zip(*cases, strict=True))
    given = np.array(addends, np.uint32).view(np.float32)
    got = np.asarray(lp.dot(left, right, "arm_bfdot_bfloat16_binary32", addend=given, backend=engine))
    wrong = [
        (case, hex(addend), hex(code), hex(right))
        for case, addend, code, right, some in zip(
            cases, addends, got.view(np.uint32).tolist(), want, plain, strict=True
        )
        if some and code != right
    ]
    assert not wrong, wrong[0]
    assert sum(plain) > 300


@pytest.mark.apart
def test_bfdot_takes_subnormal_operands_for_zeros_of_whatever_type_they_come():
    """The oracle on fractions, and arrays of float64, in which these are not subnormal."""
    how, small, large = accumulation("arm_bfdot_bfloat16_binary32"), 2.0**-130, 2.0**100
    assert dot([Fraction(small), Fraction(1)], [Fraction(large), Fraction(1)], how) == 0x3F800000
    for kind in (np.float64, np.float32):
        x, y = np.array([-small, 1], kind), np.array([large, 1], kind)
        for engine in (None, "scalar", "oracle"):
            assert lp.dot(x, y, how, backend=engine) == 1.0


@pytest.mark.apart
def test_specials_of_both():
    """NaN is positive and without payload; infinities stay."""
    for name in ("arm_bfdot_bfloat16_binary32", "riscv_bulk8_bfloat16_binary32"):
        how, length = accumulation(name), 8
        x, y = np.ones(length, np.float32), np.ones(length, np.float32)
        x[3] = -np.nan
        assert lp.dot(x, y, how).view(np.uint32) == NAN
        x[3] = -np.inf
        assert lp.dot(x, y, how).view(np.uint32) == 0x80000000 | INFINITE
        y[3] = 0
        assert lp.dot(x, y, how).view(np.uint32) == NAN
    assert (
        dot([Fraction(1)] * 4, [Fraction(1)] * 4, bulk_normalized((catalog.E5M2, catalog.E5M2), 4))
        == 0x40800000
    )
