"""The oracle against numbers worked out by hand, and against laws about real numbers.

The laws say what a mode means without thresholds, tails or codes of neighbours: they quantify over
all values of a format.
"""

from __future__ import annotations

import itertools
import math
import random
import struct
from fractions import Fraction

import pytest
from hypothesis import given, strategies as st

from lowprec.oracle.convert import cast, decode, encode, project, steps
from lowprec.oracle.exact import Special, from_float
from lowprec.spec import catalog
from lowprec.spec.families import fixed, fnuz, p3109
from lowprec.spec.format import Format, Sign
from lowprec.spec.projection import Projection
from lowprec.spec.rounding import MODES
from tests.support import INF, MODE_PROJECTIONS, NAN, NEG_INF, NEG_NAN, NEG_ZERO, UP_TO_8, most_apart

# -- decode -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "code", "value"),
    [
        ("e4m3fn", 0x00, 0),
        ("e4m3fn", 0x80, NEG_ZERO),
        ("e4m3fn", 0x01, Fraction(1, 512)),
        ("e4m3fn", 0x07, Fraction(7, 512)),
        ("e4m3fn", 0x08, Fraction(1, 64)),
        ("e4m3fn", 0x38, 1),
        ("e4m3fn", 0x7E, 448),
        ("e4m3fn", 0xFE, -448),
        ("e4m3fn", 0x7F, NAN),
        ("e4m3fn", 0xFF, NEG_NAN),
        ("e5m2", 0x7B, 57344),
        ("e5m2", 0x7C, INF),
        ("e5m2", 0xFC, NEG_INF),
        ("e5m2", 0x7D, NAN),
        ("e5m2", 0xFF, NEG_NAN),
        ("e4m3fnuz", 0x80, NAN),
        ("e4m3fnuz", 0x7F, 240),
        ("e4m3fnuz", 0xFF, -240),
        ("e4m3fnuz", 0x81, Fraction(-1, 1024)),
        ("e8m0fnu", 0x00, Fraction(1, 2**127)),
        ("e8m0fnu", 0x7F, 1),
        ("e8m0fnu", 0xFE, 2**127),
        ("e8m0fnu", 0xFF, NAN),
        ("ue4m3", 0x7F, NAN),
        ("ue5m3", 0xFF, NAN),
        ("ue5m3", 0xFE, 114688),
        ("int8f6", 0x80, -2),
        ("int8f6", 0xFF, Fraction(-1, 64)),
        ("int8f6", 0x7F, Fraction(127, 64)),
        ("int4", 0x8, -8),
        ("uint4", 0xF, 15),
        ("e3m0fn", 0x7, 16),
        ("e3m0fn", 0x1, Fraction(1, 4)),
        ("binary16", 0x3555, Fraction(1365, 4096)),
        ("bfloat16", 0x0001, Fraction(1, 2**133)),
        ("binary8p3se", 0x7F, INF),
        ("binary8p3se", 0x80, NAN),
        ("binary8p3ue", 0xFE, INF),
        ("binary8p3ue", 0xFF, NAN),
    ],
)
def test_a_code_stands_for_the_number_in_its_standard(name, code, value):
    """By hand from the standards' layouts: zeros, the first, last and special codes."""
    got = decode(code, catalog.format(name))
    assert got == value
    assert isinstance(got, Special) is isinstance(value, Special)


@pytest.mark.parametrize(
    "name", ["e4m3fn", "float8_e4m3", "e4m3fnuz", "e2m1fn", "e8m0fnu", "int8f6", "uint4", "binary6p3ue"]
)
def test_decode_is_strictly_increasing_on_finite_magnitudes(name):
    """A law of all formats, exhaustive for one of each kind."""
    fmt = catalog.format(name)
    values = [decode(code, fmt) for code in range(fmt.max_magnitude + 1)]
    assert all(low < high for low, high in itertools.pairwise(values))


@pytest.mark.parametrize("code", [-1, 256])
def test_a_number_that_is_no_code_is_refused(code):
    """Just outside."""
    with pytest.raises(ValueError, match=f"^{code} is no code of 'e4m3fn', whose codes are 0 to 255$"):
        decode(code, catalog.E4M3FN)


@pytest.mark.parametrize("fmt", UP_TO_8, ids=str)
def test_encode_undoes_decode_on_every_code(fmt):
    """A law, in every mode: what a format has is not rounded. NaNs give the canonical one of their sign."""
    for projection in MODE_PROJECTIONS:
        for code in range(1 << fmt.width):
            value = decode(code, fmt)
            if value is NAN:
                assert project(value, fmt, projection) == fmt.nan_code
            elif value is NEG_NAN:
                assert project(value, fmt, projection) == fmt.nan_code | fmt.sign_code
            else:
                assert project(value, fmt, projection) == code


# -- project, by hand -------------------------------------------------------------------------------

BEYOND = 10**6

BY_HAND = [
    # format, value, code, fields of the projection
    # nearest even at the border of e4m3fn's range
    ("e4m3fn", 464, 0x7E, {}),
    ("e4m3fn", 464 + Fraction(1, 10**30), 0x7F, {}),
    ("e4m3fn", -464 - Fraction(1, 10**30), 0xFF, {}),
    ("e4m3fn", 465, 0x7E, {"saturation": "finite"}),
    ("e4m3fn", 465, 0x7E, {"saturation": "propagate"}),
    # overflow and infinities without an infinity: NaN, the largest, NaN
    ("e4m3fn", BEYOND, 0x7F, {"saturation": "none"}),
    ("e4m3fn", -BEYOND, 0xFF, {"saturation": "none"}),
    ("e4m3fn", BEYOND, 0x7E, {"saturation": "finite"}),
    ("e4m3fn", -BEYOND, 0xFE, {"saturation": "finite"}),
    ("e4m3fn", -BEYOND, 0xFE, {"saturation": "propagate"}),
    ("e4m3fn", INF, 0x7F, {"saturation": "none"}),
    ("e4m3fn", NEG_INF, 0xFF, {"saturation": "none"}),
    ("e4m3fn", INF, 0x7E, {"saturation": "finite"}),
    ("e4m3fn", NEG_INF, 0xFE, {"saturation": "finite"}),
    ("e4m3fn", INF, 0x7F, {"saturation": "propagate"}),
    ("e4m3fn", NEG_INF, 0xFF, {"saturation": "propagate"}),
    # with one
    ("e5m2", 61440, 0x7C, {}),
    ("e5m2", 61440 - Fraction(1, 10**9), 0x7B, {}),
    ("e5m2", -61440, 0xFC, {}),
    ("e5m2", -BEYOND, 0xFB, {"saturation": "finite"}),
    ("e5m2", -BEYOND, 0xFB, {"saturation": "propagate"}),
    ("e5m2", NEG_INF, 0xFB, {"saturation": "finite"}),
    ("e5m2", NEG_INF, 0xFC, {"saturation": "propagate"}),
    ("e5m2", INF, 0x7C, {"saturation": "none"}),
    # with neither: always the largest
    ("e2m1fn", BEYOND, 0x7, {}),
    ("e2m1fn", -BEYOND, 0xF, {}),
    ("e2m1fn", NEG_INF, 0xF, {}),
    ("e2m1fn", INF, 0x7, {"saturation": "propagate"}),
    # fnuz: one NaN, no -0
    ("e4m3fnuz", BEYOND, 0x80, {}),
    ("e4m3fnuz", -BEYOND, 0x80, {}),
    ("e4m3fnuz", NEG_INF, 0x80, {}),
    ("e4m3fnuz", NEG_INF, 0xFF, {"saturation": "finite"}),
    ("e4m3fnuz", NEG_INF, 0x80, {"saturation": "propagate"}),
    ("e4m3fnuz", NEG_NAN, 0x80, {}),
    ("e4m3fnuz", NEG_ZERO, 0x00, {}),
    ("e4m3fnuz", Fraction(-1, 4096), 0x00, {}),  # underflow: no -0 to keep the sign in
    ("e5m2fnuz", -61440, 0x80, {}),
    # NaN: quiet, with the operand's sign where there is one
    ("e5m2", NAN, 0x7E, {}),
    ("e5m2", NEG_NAN, 0xFE, {}),
    ("e5m2", NEG_NAN, 0x7E, {"nan_sign": "drop"}),
    ("binary16", NAN, 0x7E00, {}),
    ("bfloat16", NEG_NAN, 0xFFC0, {}),
    ("binary32", NAN, 0x7FC00000, {}),
    ("e4m3fn", NEG_NAN, 0xFF, {}),
    ("e8m0fnu", NEG_NAN, 0xFF, {}),
    ("e2m1fn", NAN, 0x0, {"nan": "zero"}),
    ("e2m1fn", NEG_NAN, 0x8, {"nan": "zero"}),
    ("e2m1fn", NEG_NAN, 0x0, {"nan": "zero", "nan_sign": "drop"}),
    ("e2m1fn", NAN, 0x7, {"nan": "max"}),
    ("e2m1fn", NEG_NAN, 0xF, {"nan": "max"}),
    ("e2m1fn", NAN, 0x8, {"nan": "negative_zero"}),
    ("e2m1fn", NEG_NAN, 0x8, {"nan": "negative_zero", "nan_sign": "drop"}),
    ("int8", NEG_NAN, 0x80, {"nan": "max"}),
    ("int8", NEG_NAN, 0x81, {"nan": "max", "symmetric": True}),
    ("int8", NAN, 0x00, {"nan": "zero"}),
    ("uint8", NEG_NAN, 0xFF, {"nan": "max"}),
    # zeros and underflow keep their sign where there is one
    ("e4m3fn", NEG_ZERO, 0x80, {}),
    ("e4m3fn", Fraction(-1, 2**30), 0x80, {}),
    ("e4m3fn", Fraction(-1, 2**30), 0x81, {"rounding": "toward_negative"}),
    ("e4m3fn", Fraction(1, 2**30), 0x01, {"rounding": "to_odd"}),
    ("int8", NEG_ZERO, 0x00, {}),
    ("uint8", NEG_ZERO, 0x00, {}),
    # e8m0fnu: ties to the even code; everything below its smallest value is that value; no zero
    ("e8m0fnu", 3, 0x80, {}),
    ("e8m0fnu", 12, 0x82, {}),
    ("e8m0fnu", Fraction(3, 2), 0x80, {}),
    ("e8m0fnu", 6, 0x82, {}),
    ("e8m0fnu", 3, 0x81, {"rounding": "nearest_away"}),
    ("e8m0fnu", Fraction(3, 2**128), 0x00, {}),  # the tie of codes 00 and 01
    ("e8m0fnu", Fraction(1, 2**500), 0x00, {"rounding": "toward_zero"}),
    ("e8m0fnu", Fraction(1, 2**500), 0x00, {"rounding": "away_from_zero"}),
    ("e8m0fnu", Fraction(1, 2**500), 0x00, {"rounding": "to_odd"}),
    ("e8m0fnu", Fraction(0), 0xFF, {}),
    ("e8m0fnu", NEG_ZERO, 0xFF, {}),
    ("e8m0fnu", Fraction(0), 0x00, {"zero": "smallest"}),
    ("e8m0fnu", NEG_ZERO, 0x00, {"zero": "smallest"}),
    ("e8m0fnu", 2**128, 0xFF, {}),
    ("e8m0fnu", 2**128, 0xFE, {"saturation": "finite"}),
    ("e8m0fnu", 3 * 2**126, 0xFE, {}),  # the tie above the largest: 254 is even
    ("e8m0fnu", 3 * 2**126 + 1, 0xFF, {}),
    ("e8m0fnu", -1, 0xFF, {}),
    ("e8m0fnu", -1, 0x7F, {"negative": "drop_sign"}),
    ("e8m0fnu", -1, 0x00, {"negative": "zero", "zero": "smallest"}),
    # unsigned: negatives are NaN where there is one, else 0; those that round to zero are zero
    ("ue4m3", -1, 0x7F, {}),
    ("ue4m3", NEG_INF, 0x7F, {}),
    ("ue4m3", NEG_INF, 0x7F, {"saturation": "finite"}),
    ("ue4m3", -1, 0x00, {"negative": "zero"}),
    ("ue4m3", -1, 0x38, {"negative": "drop_sign"}),
    ("ue4m3", NEG_INF, 0x7E, {"negative": "drop_sign", "saturation": "finite"}),
    ("ue4m3", Fraction(-1, 2**30), 0x00, {}),
    ("ue4m3", Fraction(-1, 2**30), 0x7F, {"rounding": "toward_negative"}),
    ("ue4m3", Fraction(-1, 2**10), 0x00, {}),  # the tie of 0 and -2**-9: to even, on the mirrored grid
    ("ue4m3", Fraction(-3, 2**11), 0x7F, {}),
    ("uint4", -1, 0x0, {}),
    ("uint4", NEG_INF, 0x0, {}),
    ("uint4", Fraction(-1, 2), 0x0, {"negative": "error"}),
    ("binary8p3ue", -BEYOND, 0xFF, {}),
    ("binary8p3ue", BEYOND**9, 0xFE, {}),
    # two's complement
    ("int8", -128, 0x80, {}),
    ("int8", Fraction(-257, 2), 0x80, {}),
    ("int8", -BEYOND, 0x80, {}),
    ("int8", NEG_INF, 0x80, {}),
    ("int8", -128, 0x81, {"symmetric": True}),
    ("int8", Fraction(-255, 2), 0x81, {"symmetric": True}),
    ("int8", -BEYOND, 0x81, {"symmetric": True}),
    ("int8", BEYOND, 0x7F, {}),
    ("int8", Fraction(5, 2), 2, {}),
    ("int8", Fraction(7, 2), 4, {}),
    ("int8", Fraction(-5, 2), 0xFE, {}),
    ("int8", Fraction(-1, 2), 0x00, {}),
    ("int8", Fraction(-1, 3), 0xFF, {"rounding": "toward_negative"}),
    ("int8f6", -2, 0x80, {}),
    ("int8f6", 2, 0x7F, {}),
    ("int8f6", Fraction(1, 64), 0x01, {}),
    # overflow follows the mode: to_odd overflows exactly where the largest code is even
    ("e4m3fn", 449, 0x7F, {"rounding": "to_odd"}),
    ("e5m2", 57345, 0x7B, {"rounding": "to_odd"}),
    ("binary16", 65505, 0x7BFF, {"rounding": "to_odd"}),
    ("e5m2", BEYOND, 0x7B, {"rounding": "to_odd"}),
    ("e4m3fn", BEYOND, 0x7E, {"rounding": "toward_zero"}),
    ("e5m2", BEYOND, 0x7B, {"rounding": "toward_zero"}),
    ("e5m2", BEYOND, 0x7B, {"rounding": "toward_negative"}),
    ("e5m2", -BEYOND, 0xFC, {"rounding": "toward_negative"}),
    ("e5m2", 57345, 0x7C, {"rounding": "toward_positive"}),
    ("e5m2", 61440, 0x7B, {"rounding": "nearest_zero"}),
    ("e5m2", 61441, 0x7C, {"rounding": "nearest_zero"}),
    ("e4m3fn", 464, 0x7F, {"rounding": "nearest_away"}),
    # rounded once
    ("e4m3fn", from_float(1.0625 + 2.0**-40), 0x39, {}),
    ("bfloat16", 16973823, 0x4B81, {}),
    ("bfloat16", from_float(1 + 2.0**-8 + 2.0**-40), 0x3F81, {}),
]


@pytest.mark.parametrize(("name", "value", "code", "fields"), BY_HAND, ids=str)
def test_project_gives_what_was_worked_out_by_hand(name, value, code, fields):
    """Every rule of the projection, both signs, each policy."""
    value = value if isinstance(value, Special) else Fraction(value)
    assert project(value, catalog.format(name), Projection(**fields)) == code


@pytest.mark.parametrize(
    ("name", "value", "fields", "message"),
    [
        ("e2m1fn", NAN, {}, "NaN has no code in 'e2m1fn'"),
        ("int8", NEG_NAN, {}, "NaN has no code in 'int8'"),
        (
            "int8",
            NAN,
            {"nan": "negative_zero"},
            "NaN cannot become 'negative_zero' in 'int8', which has no such code",
        ),
        ("ue4m3", -1, {"negative": "error"}, "a negative number has no code in 'ue4m3', which is unsigned"),
        (
            "ue4m3",
            NEG_INF,
            {"negative": "error"},
            "a negative number has no code in 'ue4m3', which is unsigned",
        ),
    ],
    ids=str,
)
def test_project_refuses_what_has_no_code(name, value, fields, message):
    """As the projection says."""
    value = value if isinstance(value, Special) else Fraction(value)
    with pytest.raises(ValueError, match=f"^{message}$"):
        project(value, catalog.format(name), Projection(**fields))


def test_zero_without_a_zero_and_without_nan_is_the_smallest_value():
    """Whatever Projection.zero says; the sign is kept where there is one."""
    signed = Format(name="s", exponent_bits=3, trailing_bits=0, bias=3, subnormals=False)
    unsigned = Format(
        name="u", exponent_bits=3, trailing_bits=0, bias=3, sign=Sign.UNSIGNED, subnormals=False
    )
    for zero in ("nan", "smallest"):
        projection = Projection(zero=zero)
        assert project(Fraction(0), signed, projection) == 0
        assert project(NEG_ZERO, signed, projection) == 8
        assert project(NEG_ZERO, unsigned, projection) == 0


def test_cast_is_project_of_decode():
    """By hand: 448 is a tie of e5m2, between 384 and 512 there is only 448 with its 2 bits."""
    assert cast(0x7E, catalog.E4M3FN, catalog.E5M2) == 0x5F
    assert cast(0xFF, catalog.E4M3FN, catalog.E5M2) == 0xFE
    assert cast(0x80, catalog.E4M3FNUZ, catalog.E5M2) == 0x7E
    assert cast(0x80, catalog.INT8, catalog.E4M3FN) == 0xF0


# -- modes as laws on real numbers ------------------------------------------------------------------

LAW_FORMATS = (
    catalog.E2M1FN,
    catalog.E3M2FN,
    catalog.INT4,
    fnuz("e3m2fnuz", 3, 2),
    fixed("int6f3", 6, 3),
    catalog.E3M0FN,
    p3109(6, 3),
    p3109(6, 1, extended=False),
    p3109(5, 3, signed=False),
)


def _numbers(fmt):
    """The finite values of a format as a sorted list, zero once, and their codes."""
    found = {}
    for code in range(1 << fmt.width):
        value = decode(code, fmt)
        if isinstance(value, Fraction):
            found.setdefault(value, code)
    return sorted(found), found


def _points(values):
    """Every value, midpoint and third point, and what lies closest to values and midpoints on either side."""
    tiny = Fraction(1, 2**200)
    points = []
    for low, high in itertools.pairwise(values):
        middle = (low + high) / 2
        points += [low, low + tiny, low + (high - low) / 3, middle - tiny, middle, middle + tiny, high - tiny]
    return [point for point in [*points, values[-1]] if point != 0]


def _least_above(x, values):
    return min(value for value in values if value >= x)


def _greatest_below(x, values):
    return max(value for value in values if value <= x)


def _nearest(x, values):
    """All values that are as near as any."""
    distance = min(abs(value - x) for value in values)
    return [value for value in values if abs(value - x) == distance]


def _even(x, values, codes):
    near = _nearest(x, values)
    return near[0] if len(near) == 1 else next(value for value in near if _magnitude(value, codes) % 2 == 0)


def _to_odd(x, values, codes):
    if x in codes:
        return x
    around = (_greatest_below(x, values), _least_above(x, values))
    return next(value for value in around if _magnitude(value, codes) % 2 == 1)


def _magnitude(value, codes):
    """The place of |value| among the nonnegative values: the code of its mirror image, if it has one."""
    mirrored = abs(value)
    if mirrored in codes:
        return codes[mirrored]
    return codes[max(codes)] + 1  # the most negative of two's complement


LAWS = {
    "nearest_even": _even,
    "nearest_away": lambda x, values, codes: max(_nearest(x, values), key=abs),
    "nearest_zero": lambda x, values, codes: min(_nearest(x, values), key=abs),
    "toward_zero": lambda x, values, codes: _greatest_below(x, values) if x > 0 else _least_above(x, values),
    "toward_positive": lambda x, values, codes: _least_above(x, values),
    "toward_negative": lambda x, values, codes: _greatest_below(x, values),
    "away_from_zero": lambda x, values, codes: (
        _least_above(x, values) if x > 0 else _greatest_below(x, values)
    ),
    "to_odd": _to_odd,
}


@pytest.mark.parametrize("mode", LAWS)
@pytest.mark.parametrize("fmt", most_apart(LAW_FORMATS, LAW_FORMATS[::2]), ids=str)
def test_each_mode_does_what_its_name_says_about_real_numbers(fmt, mode):
    """In range, at values, midpoints, thirds, closest neighbours: the answer is chosen among all values."""
    values, codes = _numbers(fmt)
    projection = Projection(rounding=mode)
    wrong = [
        point
        for point in _points(values)
        if _value_of(project(point, fmt, projection), fmt) != LAWS[mode](point, values, codes)
    ]
    assert wrong == []


def _value_of(code, fmt):
    value = decode(code, fmt)
    return Fraction(0) if value is NEG_ZERO else value


def test_there_is_a_law_for_every_mode():
    """A new mode needs one."""
    assert set(LAWS) == {mode.name for mode in MODES}


SIGNED = st.sampled_from([fmt for fmt in UP_TO_8 if fmt.sign is not Sign.UNSIGNED])


@pytest.mark.parametrize("mode", most_apart(MODES, MODES[::3]), ids=str)
@given(fmt=SIGNED, values=st.tuples(st.fractions(-500, 500), st.fractions(-500, 500)))
def test_projection_is_monotone(mode, fmt, values):
    """A law of all deterministic modes: the order of values is kept. Any signed format of up to 8 bits."""
    first, second = sorted(values)
    projection = Projection(rounding=mode, saturation="finite")
    codes = [project(value, fmt, projection) for value in (first, second) if value != 0]
    decoded = [_value_of(code, fmt) for code in codes]
    assert decoded == sorted(decoded)


@pytest.mark.parametrize("name", ["e4m3fn", "binary8p3se", "e2m3fn"])
def test_rounding_to_odd_first_loses_nothing_for_a_format_two_bits_shorter(name):
    """A theorem (Boldo and Melquiond): to odd at p + 2 bits, then nearest even at p, is nearest even."""
    fmt = catalog.format(name)
    wide = Format(name="wide", exponent_bits=10, trailing_bits=fmt.trailing_bits + 2, bias=511)
    values, _ = _numbers(fmt)
    for point in _points(values):
        between = decode(project(point, wide, Projection(rounding="to_odd")), wide)
        assert project(between, fmt) == project(point, fmt)


# -- steps ------------------------------------------------------------------------------------------

STEP_FORMATS = (
    catalog.E4M3FN,
    catalog.E5M2FNUZ,
    catalog.E8M0FNU,
    catalog.INT8F6,
    catalog.UE4M3,
    catalog.UINT4,
    p3109(8, 1),
    fixed("coarse", 5, -3),
    Format(name="tiny", exponent_bits=3, trailing_bits=2, bias=1068),
)


def _next(value, step):
    (bits,) = struct.unpack("<Q", struct.pack("<d", abs(value)))
    return struct.unpack("<d", struct.pack("<Q", bits + step))[0]


@pytest.mark.parametrize("saturation", most_apart(["none", "finite", "propagate"], ["none"]))
@pytest.mark.parametrize("fmt", STEP_FORMATS, ids=str)
def test_steps_are_the_first_floats_of_their_codes_and_no_step_is_without_a_change(fmt, saturation):
    """Each step has its code, and the float64 before has the previous step's: so the list is minimal."""
    for mode in MODES:
        projection = Projection(rounding=mode, saturation=saturation)
        for sign, (firsts, codes) in zip((1.0, -1.0), steps(fmt, projection), strict=True):
            assert firsts[0] == 0.0
            assert firsts == sorted(set(firsts))
            for index, first in enumerate(firsts):
                assert encode(math.copysign(first, sign), fmt, projection) == codes[index]
                if index:
                    assert encode(math.copysign(_next(first, -1), sign), fmt, projection) == codes[index - 1]
                    assert codes[index] != codes[index - 1]
            assert encode(sign * math.inf, fmt, projection) == codes[-1]


@pytest.mark.parametrize("fmt", STEP_FORMATS, ids=str)
def test_steps_are_the_projection_at_random_floats(fmt):
    """Random bit patterns, half of them in range: a missed step would show between two others."""
    generator = random.Random(1)
    largest = struct.unpack("<Q", struct.pack("<d", fmt.max_finite))[0]
    smallest = max(struct.unpack("<Q", struct.pack("<d", _positive(fmt)))[0] - (4 << 52), 0)
    patterns = [generator.randrange(0x7FF << 52) for _ in range(200)]
    patterns += [generator.randrange(smallest, largest + (1 << 52)) for _ in range(400)]
    for mode in ("nearest_even", "to_odd", "toward_negative"):
        projection = Projection(rounding=mode)
        for sign, (firsts, codes) in zip((1.0, -1.0), steps(fmt, projection), strict=True):
            for bits in patterns:
                size = struct.unpack("<d", struct.pack("<Q", bits))[0]
                last = max(index for index, first in enumerate(firsts) if first <= size)
                assert encode(math.copysign(size, sign), fmt, projection) == codes[last], size.hex()


def _positive(fmt):
    return fmt.min_normal if fmt.min_subnormal is None else fmt.min_subnormal


def test_steps_of_e2m1fn_are_its_midpoints():
    """By hand: nearest even, positive: 0.25, the tie of 0 and 0.5, goes to 0; the next float begins 0.5."""
    positive, negative = steps(catalog.E2M1FN)
    up = math.nextafter
    firsts = [0.0, up(0.25, 1), 0.75, up(1.25, 2), 1.75, up(2.5, 3), 3.5, up(5.0, 6)]
    assert positive == (firsts, [0, 1, 2, 3, 4, 5, 6, 7])
    assert negative == (firsts, [8, 9, 10, 11, 12, 13, 14, 15])
