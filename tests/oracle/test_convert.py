"""The oracle against numbers worked out by hand, and against laws about real numbers.

The laws say what a mode means without thresholds, tails or codes of neighbours: they quantify over
all values of a format.
"""

import bisect
import itertools
import math
import random
import struct
from fractions import Fraction

import pytest
from hypothesis import given, strategies as st

from lowprec.oracle.convert import cast, decode, encode, project, steps
from lowprec.oracle.exact import Special
from lowprec.spec import catalog
from lowprec.spec.families import fixed, fnuz, p3109
from lowprec.spec.format import Format, Sign
from lowprec.spec.projection import Projection
from lowprec.spec.rounding import MODES
from tests.fraction_sums import MODES as LAWS
from tests.support import (
    MODE_PROJECTIONS,
    NAN,
    NEG_INF,
    NEG_NAN,
    NEG_ZERO,
    UP_TO_8,
    cases,
    meant,
    most_apart,
    projected_to,
)

# -- decode -----------------------------------------------------------------------------------------


#: Formats, codes and what they stand for, by hand from the layouts of the standards: zeros, the first,
#: last and special codes.
STANDARD = """
e4m3fn | 0: 0, 80: NEG_ZERO, 1: 1/512, 7: 7/512, 8: 1/64, 38: 1, 7e: 448, fe: -448, 7f: NAN, ff: NEG_NAN
e5m2 | 7b: 57344, 7c: INF, fc: NEG_INF, 7d: NAN, ff: NEG_NAN
e4m3fnuz | 80: NAN, 7f: 240, ff: -240, 81: -1/1024
e8m0fnu | 0: 1/2**127, 7f: 1, fe: 2**127, ff: NAN
ue4m3 | 7f: NAN
ue5m3 | ff: NAN, fe: 114688
int8f6 | 80: -2, ff: -1/64, 7f: 127/64
int4 | 8: -8
uint4 | f: 15
e3m0fn | 7: 16, 1: 1/4
binary16 | 3555: 1365/4096
bfloat16 | 1: 1/2**133
binary8p3se | 7f: INF, 80: NAN
binary8p3ue | fe: INF, ff: NAN
"""


@pytest.mark.parametrize(("words", "code", "value"), cases(STANDARD))
def test_a_code_stands_for_the_number_in_its_standard(words, code, value):
    got, want = decode(int(code, 16), catalog.format(words[0])), meant(value)
    assert got == want
    assert isinstance(got, Special) is isinstance(want, Special)


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

BY_HAND = """
# Formats and fields of the projection, values and their codes.
# nearest even at the border of e4m3fn's range
e4m3fn | 464: 7e, 464 + 1/10**30: 7f, -464 - 1/10**30: ff
e4m3fn saturation=finite | 465: 7e
e4m3fn saturation=propagate | 465: 7e
# overflow and infinities without an infinity: NaN, the largest, NaN
e4m3fn saturation=none | BEYOND: 7f, -BEYOND: ff, INF: 7f, NEG_INF: ff
e4m3fn saturation=finite | BEYOND: 7e, -BEYOND: fe, INF: 7e, NEG_INF: fe
e4m3fn saturation=propagate | -BEYOND: fe, INF: 7f, NEG_INF: ff
# with one
e5m2 | 61440: 7c, 61440 - 1/10**9: 7b, -61440: fc
e5m2 saturation=finite | -BEYOND: fb, NEG_INF: fb
e5m2 saturation=propagate | -BEYOND: fb, NEG_INF: fc
e5m2 saturation=none | INF: 7c
# with neither: always the largest
e2m1fn | BEYOND: 7, -BEYOND: f, NEG_INF: f
e2m1fn saturation=propagate | INF: 7
# fnuz: one NaN, no -0
e4m3fnuz | BEYOND: 80, -BEYOND: 80, NEG_INF: 80, NEG_NAN: 80, NEG_ZERO: 0
e4m3fnuz | -1/4096: 0  # underflow: no -0 to keep the sign in
e4m3fnuz saturation=finite | NEG_INF: ff
e4m3fnuz saturation=propagate | NEG_INF: 80
e5m2fnuz | -61440: 80
# NaN: quiet, with the operand's sign where there is one
e5m2 | NAN: 7e, NEG_NAN: fe
e5m2 nan_sign=drop | NEG_NAN: 7e
binary16 | NAN: 7e00
bfloat16 | NEG_NAN: ffc0
binary32 | NAN: 7fc00000
e4m3fn | NEG_NAN: ff
e8m0fnu | NEG_NAN: ff
e2m1fn nan=zero | NAN: 0, NEG_NAN: 8
e2m1fn nan=zero nan_sign=drop | NEG_NAN: 0
e2m1fn nan=max | NAN: 7, NEG_NAN: f
e2m1fn nan=negative_zero | NAN: 8
e2m1fn nan=negative_zero nan_sign=drop | NEG_NAN: 8
int8 nan=max | NEG_NAN: 80
int8 nan=max symmetric=True | NEG_NAN: 81
int8 nan=zero | NAN: 0
uint8 nan=max | NEG_NAN: ff
# zeros and underflow keep their sign where there is one
e4m3fn | NEG_ZERO: 80, -1/2**30: 80
e4m3fn rounding=toward_negative | -1/2**30: 81
e4m3fn rounding=to_odd | 1/2**30: 1
int8 | NEG_ZERO: 0
uint8 | NEG_ZERO: 0
# e8m0fnu: ties to the even code; everything below its smallest value is that value; no zero
e8m0fnu | 3: 80, 12: 82, 3/2: 80, 6: 82, 0: ff, NEG_ZERO: ff, 2**128: ff, 3*2**126 + 1: ff, -1: ff
e8m0fnu | 3/2**128: 0  # the tie of codes 00 and 01
e8m0fnu | 3*2**126: fe  # the tie above the largest: 254 is even
e8m0fnu rounding=nearest_away | 3: 81
e8m0fnu rounding=toward_zero | 1/2**500: 0
e8m0fnu rounding=away_from_zero | 1/2**500: 0
e8m0fnu rounding=to_odd | 1/2**500: 0
e8m0fnu zero=smallest | 0: 0, NEG_ZERO: 0
e8m0fnu saturation=finite | 2**128: fe
e8m0fnu negative=drop_sign | -1: 7f
e8m0fnu negative=zero zero=smallest | -1: 0
# unsigned: negatives are NaN where there is one, else 0; those that round to zero are zero
ue4m3 | -1: 7f, NEG_INF: 7f, -1/2**30: 0, -3/2**11: 7f
ue4m3 | -1/2**10: 0  # the tie of 0 and -2**-9: to even, on the mirrored grid
ue4m3 saturation=finite | NEG_INF: 7f
ue4m3 negative=zero | -1: 0
ue4m3 negative=drop_sign | -1: 38
ue4m3 negative=drop_sign saturation=finite | NEG_INF: 7e
ue4m3 rounding=toward_negative | -1/2**30: 7f
uint4 | -1: 0, NEG_INF: 0
uint4 negative=error | -1/2: 0
binary8p3ue | -BEYOND: ff, BEYOND**9: fe
# two's complement
int8 | -128: 80, -257/2: 80, -BEYOND: 80, NEG_INF: 80, BEYOND: 7f, 5/2: 2, 7/2: 4, -5/2: fe, -1/2: 0
int8 symmetric=True | -128: 81, -255/2: 81, -BEYOND: 81
int8 rounding=toward_negative | -1/3: ff
int8f6 | -2: 80, 2: 7f, 1/64: 1
# overflow follows the mode: to_odd overflows exactly where the largest code is even
e4m3fn rounding=to_odd | 449: 7f
e5m2 rounding=to_odd | 57345: 7b, BEYOND: 7b
binary16 rounding=to_odd | 65505: 7bff
e4m3fn rounding=toward_zero | BEYOND: 7e
e5m2 rounding=toward_zero | BEYOND: 7b
e5m2 rounding=toward_negative | BEYOND: 7b, -BEYOND: fc
e5m2 rounding=toward_positive | 57345: 7c
e5m2 rounding=nearest_zero | 61440: 7b, 61441: 7c
e4m3fn rounding=nearest_away | 464: 7f
# rounded once
e4m3fn | 17/16 + 1/2**40: 39
bfloat16 | 16973823: 4b81, 1 + 1/2**8 + 1/2**40: 3f81
"""


@pytest.mark.parametrize(("words", "value", "code"), cases(BY_HAND))
def test_project_gives_what_was_worked_out_by_hand(words, value, code):
    """Hold every rule of the projection, both signs, each policy."""
    fmt, rule = projected_to(words)
    assert project(meant(value), fmt, rule) == int(code, 16)


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


def _chosen(x, values, codes, mode):
    """Return the one of the two values around a point that a mode takes, by its definition on magnitudes."""
    if x in codes:
        return x
    around = max(value for value in values if value < x), min(value for value in values if value > x)
    near, far = sorted(around, key=abs)
    return far if LAWS[mode](x < 0, codes[abs(near)] % 2 == 1, (x - near) / (far - near)) else near


@pytest.mark.parametrize("mode", LAWS)
@pytest.mark.parametrize("fmt", most_apart(LAW_FORMATS, LAW_FORMATS[::2]), ids=str)
def test_each_mode_does_what_its_name_says_about_real_numbers(fmt, mode):
    """In range, at values, midpoints, thirds, closest neighbours: the answer is chosen among all values."""
    values, codes = _numbers(fmt)
    projection = Projection(rounding=mode)
    wrong = [
        point
        for point in _points(values)
        if _value_of(project(point, fmt, projection), fmt) != _chosen(point, values, codes, mode)
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
                code = codes[bisect.bisect_right(firsts, size) - 1]
                assert encode(math.copysign(size, sign), fmt, projection) == code, size.hex()


def _positive(fmt):
    return fmt.min_normal if fmt.min_subnormal is None else fmt.min_subnormal


def test_steps_of_e2m1fn_are_its_midpoints():
    """By hand: nearest even, positive: 0.25, the tie of 0 and 0.5, goes to 0; the next float begins 0.5."""
    positive, negative = steps(catalog.E2M1FN)
    up = math.nextafter
    firsts = [0.0, up(0.25, 1), 0.75, up(1.25, 2), 1.75, up(2.5, 3), 3.5, up(5.0, 6)]
    assert positive == (firsts, [0, 1, 2, 3, 4, 5, 6, 7])
    assert negative == (firsts, [8, 9, 10, 11, 12, 13, 14, 15])
