"""Agreement with NumPy and ml_dtypes on their types' own bits, decoded values, and integers.

What they make of floats is compared with their profiles, at every value and tie, in test_profiles.
"""

import ml_dtypes
import numpy as np
import pytest

import lowprec as lp
from lowprec.spec import catalog
from lowprec.spec.catalog import BINARY16, BINARY32
from tests.support import assert_same_bits, assert_same_codes

FORMATS = tuple(
    fmt
    for fmt in catalog.FORMATS.values()
    if (name := catalog.ml_dtypes_name(fmt))
    and name.startswith(("float", "bfloat"))
    and hasattr(ml_dtypes, name)
)


def test_all_floating_formats_of_ml_dtypes_are_compared():
    """Eleven of at most 8 bits, and bfloat16."""
    ours = {catalog.ml_dtypes_name(fmt) for fmt in FORMATS}
    assert ours == {name for name in dir(ml_dtypes) if name.startswith(("float", "bfloat"))}
    assert len(ours) == 12


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
def test_decode_agrees_with_ml_dtypes_on_every_code(fmt):
    """Exhaustive, through a view of the codes as ml_dtypes' type; bits compared, NaNs by place and sign."""
    codes = np.arange(1 << fmt.width, dtype=f"u{fmt.code_bits // 8}")
    typed = codes.view(lp.dtype(fmt))
    with np.errstate(invalid="ignore"):
        theirs = typed.astype(np.float32)
    ours = lp.decode(codes, fmt)
    assert np.array_equal(np.isnan(ours), np.isnan(theirs))
    numbers = ~np.isnan(ours)
    assert_same_bits(ours[numbers], theirs[numbers], codes[numbers], str(fmt))
    assert_same_bits(lp.decode(typed, fmt), ours, codes, f"{fmt}, codes as {typed.dtype}")


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
