"""Agreement with NumPy: binary16 and binary32, whose conversions it gets right.

NumPy keeps what fits of a NaN's payload; lowprec gives the quiet NaN alone. So NaNs are compared
by being NaN and by their sign, everything else by its code.
"""

import numpy as np
import pytest

import lowprec as lp
from lowprec.spec.catalog import BINARY16, BINARY32
from tests.support import assert_same_bits, assert_same_codes, border_points, both_signs, value_and_tie


def _assert_as_numpy(values, fmt, dtype):
    with np.errstate(all="ignore"):
        theirs = values.astype(dtype).view(f"u{fmt.code_bits // 8}")
    nan = np.isnan(values)
    sign = np.where(np.signbit(values), fmt.sign_code, 0)
    assert np.isnan(theirs[nan].view(dtype)).all()
    assert np.array_equal(theirs[nan] & fmt.sign_code, sign[nan])
    want = np.where(nan, sign | fmt.nan_code, theirs)
    assert_same_codes(lp.encode(values, fmt), want, fmt, values)


def test_float32_to_binary16_agrees_around_every_value_and_tie():
    """All 31,744 magnitudes, both signs, float32 neighbours: where rounding is decided."""
    points = np.array(
        [point for m in range(BINARY16.max_magnitude + 2) for point in value_and_tie(m, BINARY16)]
    )
    bits = np.unique(points.astype(np.float32)).view(np.int32)
    around = np.unique(
        np.concatenate([bits - 1, bits, bits + 1, np.arange(256), 0x7F800000 - np.arange(256)])
    )
    around = around[(around >= 0) & (around <= 0x7F800000)]
    _assert_as_numpy(both_signs(around.astype(np.int32).view(np.float32)), BINARY16, np.float16)


def test_float64_to_binary16_agrees_around_every_value_and_tie():
    """The same with float64 neighbours: NumPy rounds once from float64 too."""
    _assert_as_numpy(border_points(BINARY16, range(BINARY16.max_magnitude + 2)), BINARY16, np.float16)


def test_float32_to_binary16_agrees_on_random_bit_patterns():
    """In addition: 2**24 patterns, NaNs with payloads among them."""
    generator = np.random.default_rng(20260628)
    for _ in range(16):
        bits = generator.integers(0, 1 << 32, 1 << 20, dtype=np.uint32)
        _assert_as_numpy(bits.view(np.float32), BINARY16, np.float16)


def test_float64_to_binary32_agrees_on_random_patterns_near_its_range():
    """In addition: 2**22 float64 whose exponent is binary32's, tails of few and of many bits."""
    generator = np.random.default_rng(20260628)
    for cut in (0, 20, 27, 28):
        fields = generator.integers(1023 - 152, 1023 + 130, 1 << 20, dtype=np.uint64)
        bits = generator.integers(0, 1 << 52, 1 << 20, dtype=np.uint64) >> np.uint64(cut) << np.uint64(cut)
        signs = generator.integers(0, 2, 1 << 20, dtype=np.uint64)
        values = (bits | fields << np.uint64(52) | signs << np.uint64(63)).view(np.float64)
        _assert_as_numpy(values, BINARY32, np.float32)


@pytest.mark.parametrize(("fmt", "dtype"), [(BINARY16, np.float16), (BINARY32, np.float32)], ids=str)
def test_a_float_type_encodes_to_its_own_bits(fmt, dtype):
    """Both ends of every binade; a value of the format is not rounded."""
    ends = [
        m
        for start in range(0, fmt.max_magnitude + 2, 1 << fmt.trailing_bits)
        for m in (start - 1, start, start + 1)
    ]
    magnitudes = np.array([m for m in ends if 0 <= m <= fmt.max_magnitude + 1])
    codes = np.concatenate([magnitudes, magnitudes | fmt.sign_code]).astype(f"u{fmt.code_bits // 8}")
    assert_same_codes(lp.encode(codes.view(dtype), fmt), codes, fmt, codes)


def test_decode_of_binary16_is_numpys_widening():
    """All codes that are numbers, bits compared."""
    codes = np.arange(1 << 16, dtype=np.uint16)
    numbers = codes[~np.isnan(codes.view(np.float16))]
    for dtype in (np.float32, np.float64):
        got = lp.decode(numbers, BINARY16, dtype=dtype)
        assert_same_bits(
            got, numbers.view(np.float16).astype(dtype), numbers, f"binary16 as {dtype.__name__}"
        )


def test_integers_to_binary32_agree():
    """NumPy converts int64 and uint64 to float32 in one rounding; ties at both ends of all binades."""
    found = {0, 1, 2, 3}
    for binade in range(24, 64):
        ulp = 1 << (binade - 23)
        for end in (1 << binade, 1 << (binade + 1)):
            found.update(end + halves * ulp // 2 + step for halves in (-3, -1, 1, 3) for step in (-1, 0, 1))
    for dtype in (np.int64, np.uint64):
        limits = np.iinfo(dtype)
        signed = sorted(found | {-value for value in found} | {limits.min, limits.max})
        values = np.array([value for value in signed if limits.min <= value <= limits.max], dtype)
        assert_same_codes(
            lp.encode(values, BINARY32), values.astype(np.float32).view(np.uint32), BINARY32, values
        )
