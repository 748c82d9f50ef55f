"""Kernels against the oracle: what every other claim about the fast path rests on.

Between two steps of a deterministic projection nothing changes, so the steps and the floats on
either side of them are where an encoder can go wrong. The oracle finds the steps by bisection
through `project` alone.
"""

import itertools
import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

import lowprec as lp
from lowprec.oracle import convert as oracle
from lowprec.oracle.exact import to_float
from lowprec.spec import catalog
from lowprec.spec.families import fixed, p3109
from lowprec.spec.format import Format, Sign
from lowprec.spec.projection import Projection, Saturation
from lowprec.spec.rounding import MODES
from tests.support import (
    CATALOG_UP_TO_8,
    MODE_PROJECTIONS,
    MOST_UP_TO_8,
    UP_TO_8,
    assert_same_bits,
    assert_same_codes,
    border_points,
    both_signs,
    kinds_of,
    most_apart,
    overflow_points,
    projected,
    step_arrays,
    stepped,
    value_and_tie,
    with_neighbours,
)

NANS = np.array([math.nan, -math.nan])

ALL_FLOAT16 = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
ALL_BFLOAT16 = np.arange(1 << 16, dtype=np.uint16).view(ml_dtypes.bfloat16)
with np.errstate(invalid="ignore"):  # ml_dtypes warns of NaNs
    WIDENED_FLOAT16 = ALL_FLOAT16.astype(np.float64)
    WIDENED_BFLOAT16 = ALL_BFLOAT16.astype(np.float64)

# -- encode, formats of at most 8 bits --------------------------------------------------------------


def test_there_are_142_different_formats_of_at_most_8_bits():
    """The catalog's and 120 of P3109's, each once. Some of P3109's are tested here, of every kind.

    `-m apart` and `-m long` test the others.
    """
    assert len(UP_TO_8) == 142
    assert set(catalog.P3109_UP_TO_8) | set(CATALOG_UP_TO_8) == set(UP_TO_8)
    usual = {fmt for fmt in MOST_UP_TO_8 if isinstance(fmt, Format)} - set(CATALOG_UP_TO_8)
    assert len(usual) < 30
    assert set().union(*map(kinds_of, usual)) == set().union(*map(kinds_of, catalog.P3109_UP_TO_8))


@pytest.mark.parametrize("fmt", MOST_UP_TO_8, ids=str)
def test_encode_agrees_with_the_oracle_at_every_step_and_on_all_16_bit_floats_in_every_mode(fmt):
    """Each step with the float64 before and after it: between two steps nothing can change.

    All float16 and all bfloat16 are exhaustive for their readers, NaNs with every payload too; their
    codes are looked up in the oracle's steps. To P3109 formats in every third mode, in turn.
    """
    for number, projection in enumerate(MODE_PROJECTIONS):
        for sign, (firsts, _) in zip((1.0, -1.0), step_arrays(fmt, projection), strict=True):
            values = sign * with_neighbours(firsts)
            got = lp.encode(values, fmt, projection=projection)
            assert_same_codes(got, projected(values, fmt, projection), fmt, values, projection)
        if fmt not in CATALOG_UP_TO_8 and (number + UP_TO_8.index(fmt)) % 3:
            continue
        for values, wide in ((ALL_FLOAT16, WIDENED_FLOAT16), (ALL_BFLOAT16, WIDENED_BFLOAT16)):
            nan = np.isnan(wide)
            got = lp.encode(values[~nan], fmt, projection=projection)
            assert_same_codes(got, stepped(wide[~nan], fmt, projection), fmt, wide[~nan], projection)
            if fmt.has_nan:
                got = lp.encode(values[nan], fmt, projection=projection)
                positive, negative = projected(NANS, fmt, projection)
                want = np.where(np.signbit(wide[nan]), negative, positive)
                assert_same_codes(got, want, fmt, wide[nan], projection)


@pytest.mark.parametrize("saturation", [Saturation.FINITE, Saturation.PROPAGATE], ids=str)
@pytest.mark.parametrize("fmt", MOST_UP_TO_8, ids=str)
def test_saturation_agrees_with_the_oracle_around_and_beyond_the_largest_value(fmt, saturation):
    """A saturation policy can only matter from the largest value's tie on, and at infinity."""
    values = overflow_points(fmt)
    for mode in MODES:
        projection = Projection(rounding=mode, saturation=saturation)
        got = lp.encode(values, fmt, projection=projection)
        assert_same_codes(got, projected(values, fmt, projection), fmt, values, projection)


# -- encode, wide formats ---------------------------------------------------------------------------


def _wide_magnitudes(fmt):
    """Subnormals (first and last 512 at least), all ends of binades, the top one's first and last 512."""
    binade = 1 << fmt.trailing_bits
    ends = itertools.chain.from_iterable(
        (start - 4, start - 3, start - 2, start - 1, start, start + 1, start + 2, start + 3)
        for start in range(binade, fmt.max_magnitude + 2, binade)
    )
    last = fmt.max_magnitude
    blocks = [
        range(512),
        range(max(binade - 512, 0), binade),
        range(last - min(binade, 512), last + 2),
        range(last + 1 - binade, last + 1 - binade + min(binade, 512)),
    ]
    return sorted({m for m in itertools.chain(ends, *blocks) if 0 <= m <= last + 1})


@pytest.mark.apart
@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize("fmt", [catalog.BINARY16, catalog.BFLOAT16, catalog.TF32, catalog.BINARY32], ids=str)
def test_encode_agrees_with_the_oracle_around_the_borders_of_wide_formats(fmt, mode):
    """Within a binade every step is alike: the ends of each, the subnormals and the top stand for all.

    Half of these, drawn for each mode; all codes of 19 bits at most are in `python -m tests.sweep wide`.
    """
    projection = Projection(rounding=mode)
    magnitudes = np.array(_wide_magnitudes(fmt))
    drawn = np.random.default_rng(MODES.index(mode)).random(magnitudes.size) < 0.5
    values = border_points(fmt, magnitudes[drawn].tolist())
    values = np.concatenate([values, overflow_points(fmt)])
    got = lp.encode(values, fmt, projection=projection)
    assert_same_codes(got, projected(values, fmt, projection), fmt, values, projection)


# -- encode, float32 and integer sources ------------------------------------------------------------


@pytest.mark.parametrize("fmt", CATALOG_UP_TO_8, ids=str)
def test_float32_operands_agree_with_the_oracle_around_every_value_and_tie(fmt):
    """The float32 reader is not the float64 one: values, ties, float32 neighbours and its subnormals."""
    points = [point for m in range(fmt.max_magnitude + 2) for point in value_and_tie(m, fmt)]
    with np.errstate(over="ignore"):  # the next code after e8m0fnu's last is 2**128
        bits = np.array(points, np.float64).astype(np.float32).view(np.int32)
    bits = np.unique(np.concatenate([bits - 1, bits, bits + 1, np.arange(64), 0x7F800000 - np.arange(64)]))
    values = both_signs(bits[(bits >= 0) & (bits <= 0x7F800000)].astype(np.int32).view(np.float32))
    for projection in MODE_PROJECTIONS:
        got = lp.encode(values, fmt, projection=projection)
        assert_same_codes(got, stepped(values.astype(np.float64), fmt, projection), fmt, values, projection)


@pytest.mark.parametrize("bias", [0, 127])
@pytest.mark.parametrize("mode", ["nearest_even", "toward_zero", "to_odd"])
def test_float32_operands_of_magnitudes_of_32_bits(mode, bias):
    """A format without a sign has the largest of them, which are negative words to vectors."""
    fmt = Format(name="wide", exponent_bits=10, trailing_bits=22, bias=bias, sign=Sign.UNSIGNED, nans=1)
    values = np.array([0, 1e-45, 2.0**-126, 0.1, 1, 1.5, 3.1, 2.0**127, 3e38, math.inf, math.nan], np.float32)
    for saturation in ("none", "finite"):
        projection = Projection(rounding=mode, saturation=saturation)
        got = lp.encode(values, fmt, projection=projection)
        assert_same_codes(got, projected(values.astype(np.float64), fmt, projection), fmt, values, projection)


INTEGER_TARGETS = (
    catalog.E4M3FN,
    catalog.E5M2,
    catalog.E8M0FNU,
    catalog.UE5M3,
    catalog.INT8,
    catalog.UINT4,
    catalog.INT8F6,
    p3109(8, 1),
    catalog.BINARY16,
    catalog.BFLOAT16,
    catalog.TF32,
    catalog.BINARY32,
)


def _integers(fmt):
    """Around the values and ties at both ends of every binade up to 2**64, and all small ones."""
    found = set(range(-300, 301))
    for binade in range(65):
        ulp = max(Fraction(1), Fraction(2) ** (binade + 1 - fmt.precision))
        for end in (Fraction(2) ** binade, Fraction(2) ** (binade + 1)):
            for halves in (-3, -2, -1, 0, 1, 2, 3):
                middle = int(end + halves * ulp / 2)
                found.update((middle - 1, middle, middle + 1))
    return sorted(found | {-value for value in found})


@pytest.mark.parametrize("fmt", most_apart(INTEGER_TARGETS, INTEGER_TARGETS[::2]), ids=str)
def test_integers_are_rounded_once_as_the_oracle_does(fmt):
    """An int64 has more bits than a float64: a detour through one would round twice at these ties."""
    integers = _integers(fmt)
    for mode in MODES:
        projection = Projection(rounding=mode)
        want = {value: oracle.project(Fraction(value), fmt, projection) for value in integers}
        for dtype in (np.int64, np.uint64, np.int32, np.uint32, np.int16, np.int8, np.uint8):
            limits = np.iinfo(dtype)
            values = [value for value in integers if limits.min <= value <= limits.max] + [
                limits.min,
                limits.max,
            ]
            expected = [
                want.get(v, None) if v in want else oracle.project(Fraction(v), fmt, projection)
                for v in values
            ]
            got = lp.encode(np.array(values, dtype), fmt, projection=projection)
            assert_same_codes(got, expected, fmt, values, projection)


COARSE = (
    *(fixed("integers", 8, -shift) for shift in (61, 62, 63, 64, 65, 66, 127, 128, 129)),
    fixed("unsigned", 8, -64, signed=False),
    Format(name="coarse", exponent_bits=3, trailing_bits=2, bias=-66),
    Format(name="coarse_without_zero", exponent_bits=3, trailing_bits=0, bias=-64, subnormals=False),
)


@pytest.mark.parametrize("fmt", COARSE, ids=lambda fmt: f"{fmt}_{fmt.bias}")
def test_operands_of_64_significant_bits_keep_all_of_them_far_below_the_smallest_gap(fmt):
    """If all of a significand is tail, its last bit decides at ties; in uint64 it is the tail's last."""
    sizes = {0, 1, 2, 3, (1 << 64) - 1, (1 << 64) - 2}
    for end in (1 << 60, 1 << 61, 1 << 62, 1 << 63, 3 << 62, 5 << 61):
        sizes.update((end - 1, end, end + 1))
    for dtype in (np.uint64, np.int64):
        limits = np.iinfo(dtype)
        values = sorted(v for v in sizes | {-v for v in sizes} if limits.min <= v <= limits.max)
        for projection in MODE_PROJECTIONS:
            want = [oracle.project(Fraction(value), fmt, projection) for value in values]
            got = lp.encode(np.array(values, dtype), fmt, projection=projection)
            assert_same_codes(got, want, fmt, values, projection)


# -- decode -----------------------------------------------------------------------------------------


def _p3109_up_to_16():
    for width in range(9, 17):
        for signed, extended in itertools.product((True, False), repeat=2):
            for precision in range(1, width + (not signed)):
                try:
                    yield p3109(width, precision, signed=signed, extended=extended)
                except ValueError:  # does not fit float64; tests/spec/test_format.py lists them
                    continue


UP_TO_16 = (*UP_TO_8, catalog.BINARY16, catalog.BFLOAT16, *_p3109_up_to_16())


@pytest.mark.parametrize("fmt", UP_TO_16, ids=str)
def test_decode_equals_the_oracle_on_every_code(fmt):
    """Exhaustive, bits compared: -0 and the sign of NaN count. float32 wherever it holds the format.

    Of the P3109 formats of more than 8 bits some hundred codes all over, beginnings of binades and both ends.
    """
    codes = np.arange(1 << fmt.width)
    if fmt.width > 8 and fmt not in (catalog.BINARY16, catalog.BFLOAT16):
        near, step = np.arange(-3, 4), 1 << max(fmt.trailing_bits, fmt.width - 6)
        starts = np.append(np.arange(0, 1 << fmt.width, step), fmt.sign_code + fmt.max_magnitude)
        kept = np.concatenate(
            [codes[:: codes.size // 500 | 1], np.add.outer(starts, near).reshape(-1), codes[-8:]]
        )
        codes = np.unique(kept % (1 << fmt.width))
    want = np.array([to_float(oracle.decode(code, fmt)) for code in codes.tolist()])
    _assert_decodes(codes, fmt, want)


@pytest.mark.parametrize("fmt", [catalog.TF32, catalog.BINARY32], ids=str)
def test_decode_of_wide_formats_equals_the_oracle_on_borders_and_specials(fmt):
    """Both ends of every binade, infinities, NaNs of several payloads, and 4,096 random codes, signed."""
    top = fmt.infinity_code
    payloads = [top, top + 1, top + 2, fmt.nan_code - 1, fmt.nan_code, fmt.nan_code + 1, fmt.sign_code - 1]
    sample = np.random.default_rng(1).integers(0, 1 << fmt.width, 4096).tolist()
    magnitudes = [*_wide_magnitudes(fmt), *payloads]
    codes = np.array([*magnitudes, *(m | fmt.sign_code for m in magnitudes), *sample])
    _assert_decodes(codes, fmt, np.array([to_float(oracle.decode(int(code), fmt)) for code in codes]))


def _assert_decodes(codes, fmt, want):
    # A NaN of the oracle is a sign and nothing else; as a float64 it is the quiet one without payload.
    assert_same_bits(lp.decode(codes, fmt, dtype="float64"), want, codes, f"{fmt} as float64")
    if catalog.BINARY32.contains(fmt):
        assert_same_bits(
            lp.decode(codes, fmt, dtype="float32"), want.astype(np.float32), codes, f"{fmt} as float32"
        )
        assert lp.decode(codes, fmt).dtype == np.float32
    else:
        assert lp.decode(codes, fmt).dtype == np.float64


@pytest.mark.parametrize("fmt", [*UP_TO_8, catalog.BINARY16, catalog.BFLOAT16], ids=str)
def test_decode_to_16_bit_floats_equals_the_oracle_wherever_they_hold_the_format(fmt):
    """Exhaustive over codes; the code in the wider format is the oracle's cast."""
    codes = np.arange(1 << fmt.width)
    for dtype, carrier in (("float16", catalog.BINARY16), ("bfloat16", catalog.BFLOAT16)):
        if carrier.contains(fmt):
            got = lp.decode(codes, fmt, dtype=lp.dtype(carrier))
            want = [oracle.cast(code, fmt, carrier) for code in range(1 << fmt.width)]
            assert got.dtype.name == dtype
            assert_same_codes(got.view(np.uint16), want, carrier, codes)


# -- cast and quantize ------------------------------------------------------------------------------


@pytest.mark.parametrize("source", MOST_UP_TO_8, ids=str)
def test_cast_agrees_with_the_oracle_between_all_pairs_of_small_formats(source):
    """All codes, into all 142 formats, nearest even; targets without NaN get the codes that are numbers."""
    projection = Projection()
    values = np.array([to_float(oracle.decode(code, source)) for code in range(1 << source.width)])
    codes, numbers = np.arange(1 << source.width), ~np.isnan(values)
    for target in UP_TO_8:
        got = lp.cast(codes[numbers], source, target)
        assert_same_codes(
            got, stepped(values[numbers], target, projection), target, codes[numbers], projection
        )
        if target.has_nan and not numbers.all():
            want = projected(values[~numbers], target, projection)
            assert_same_codes(
                lp.cast(codes[~numbers], source, target), want, target, codes[~numbers], projection
            )
