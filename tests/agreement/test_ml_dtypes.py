"""Agreement with ml_dtypes, from float32: the formats that both have.

Nearest even, no saturation. What differs is known, and asserted to be exactly what it is:

- e8m0fnu rounds ties up in ml_dtypes (1.5 * 2**127 becomes NaN), to even here; and between 2**-127
  and 2**-126 it always gives 2**-126 (code 01), where the nearer of the two is right.
- A NaN has no code in formats without NaN; ml_dtypes gives -0, lowprec refuses. Left out.
"""

import ml_dtypes
import numpy as np
import pytest

import lowprec as lp
from lowprec.spec import catalog
from lowprec.spec.format import Sign
from tests.support import assert_same_bits, assert_same_codes, both_signs, value_and_tie

FORMATS = tuple(
    fmt
    for fmt in catalog.FORMATS.values()
    if (name := catalog.ml_dtypes_name(fmt))
    and name.startswith(("float", "bfloat"))
    and hasattr(ml_dtypes, name)
)

CHUNK = 1 << 20


def _theirs(values, fmt):
    with np.errstate(all="ignore"):  # ml_dtypes warns of NaNs and overflows
        return values.astype(lp.dtype(fmt)).view(f"u{fmt.code_bits // 8}")


def _explained(values, codes, fmt):
    """Their codes, but where a difference is known: there ours, given that theirs are as described."""
    if fmt.sign is not Sign.UNSIGNED:
        return codes
    bits = values.view(np.uint32)
    field, trailing = (bits >> 23).astype(np.int64), bits & 0x7FFFFF
    ties = (0 < field) & (field < 255) & (trailing == 0x400000)
    below = (0x400000 < bits) & (bits < 0x800000)  # 2**-127 < x < 2**-126
    assert np.array_equal(codes[ties], field[ties] + 1), "ml_dtypes rounds ties up in e8m0fnu"
    assert (codes[below] == 1).all(), "ml_dtypes gives 2**-126 for all between 2**-127 and 2**-126"
    # To the even code of two; 0x600000 is the tie of the codes 00 and 01.
    even = field + (field & 1)
    return np.where(ties, even, np.where(below, bits > 0x600000, codes))


def _around_ties(fmt):
    """Each value and tie of the format that is a float32, with float32 neighbours; and float32's ends."""
    points = np.array([point for m in range(fmt.max_magnitude + 2) for point in value_and_tie(m, fmt)])
    with np.errstate(over="ignore"):
        bits = np.unique(points.astype(np.float32)).view(np.int32)
    around = np.concatenate([bits - 1, bits, bits + 1, np.arange(256), 0x7F800000 - np.arange(256)])
    around = np.unique(around[(around >= 0) & (around <= 0x7F800000)])
    return both_signs(around.astype(np.int32).view(np.float32))


def test_all_floating_formats_of_ml_dtypes_are_compared():
    """Eleven of at most 8 bits, and bfloat16."""
    ours = {catalog.ml_dtypes_name(fmt) for fmt in FORMATS}
    assert ours == {name for name in dir(ml_dtypes) if name.startswith(("float", "bfloat"))}
    assert len(ours) == 12


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
def test_encode_agrees_with_ml_dtypes_around_every_tie(fmt):
    """Values, ties and their neighbours are where rounding is decided."""
    values = _around_ties(fmt)
    assert_same_codes(lp.encode(values, fmt), _explained(values, _theirs(values, fmt), fmt), fmt, values)


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
def test_encode_agrees_with_ml_dtypes_on_random_bit_patterns(fmt):
    """In addition: 2**24 patterns, all exponents, NaNs with payloads among them."""
    generator = np.random.default_rng(20260628)
    for _ in range(16):
        bits = generator.integers(0, 1 << 32, CHUNK, dtype=np.uint32)
        values = bits.view(np.float32)
        if not fmt.has_nan:
            values = values[~np.isnan(values)]
        assert_same_codes(lp.encode(values, fmt), _explained(values, _theirs(values, fmt), fmt), fmt, values)


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


@pytest.mark.parametrize("fmt", [fmt for fmt in FORMATS if fmt.has_nan], ids=str)
def test_nans_encode_as_ml_dtypes_does(fmt):
    """Quiet and signalling, both signs: the canonical NaN with the operand's sign if the format has one."""
    values = np.array([0x7FC00000, 0xFFC00000, 0x7F800001, 0xFF800001, 0x7FFFFFFF, 0xFFFFFFFF], np.uint32)
    values = values.view(np.float32)
    assert_same_codes(lp.encode(values, fmt), _theirs(values, fmt), fmt, values)
