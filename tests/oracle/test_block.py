"""The oracle's blocks: each rule by its meaning in real numbers, each policy by values found by hand."""

import dataclasses
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st

from lowprec.oracle import convert
from lowprec.oracle.block import TensorScale, decode, encode, tensor_scale
from lowprec.oracle.exact import Special, from_float
from lowprec.spec import catalog
from lowprec.spec.block import BlockFormat
from lowprec.spec.catalog import BINARY32, E2M1FN, MXFP4, MXFP8_E4M3, MXFP8_E5M2, MXINT8, NVFP4, UE4M3
from lowprec.spec.format import Format
from lowprec.spec.projection import Projection
from tests.support import INF, NAN, NEG_INF, NEG_NAN, NEG_ZERO

F = Fraction
MX = (MXFP8_E4M3, MXFP8_E5M2, catalog.MXFP6_E2M3, catalog.MXFP6_E3M2, MXFP4, MXINT8)

#: Magnitudes well inside the range of e8m0fnu, powers of two and their neighbours among them.
MAGNITUDES = st.builds(
    lambda significand, exponent: F(significand) * F(2) ** exponent,
    st.one_of(
        st.integers(1, 1 << 24), st.sampled_from([1, 3, 7, (1 << 23) - 1, (1 << 23) + 1, 15, 31, 29, 27])
    ),
    st.integers(-60, 40),
)
MX_FORMATS = st.sampled_from(MX)


def scale_of(amax: Fraction, fmt: BlockFormat, how: str) -> Fraction:
    """What the block of one value is divided by."""
    code, _ = encode([amax], dataclasses.replace(fmt, rule=how))
    return convert.decode(code, fmt.scale)


def largest(fmt: BlockFormat) -> Fraction:
    return F(fmt.element.max_finite)


def top(fmt: BlockFormat) -> Fraction:
    """The power of two at or below the largest value."""
    return F(2) ** (math.frexp(fmt.element.max_finite)[1] - 1)


# -- rules that give powers of two ------------------------------------------------------------------


@given(amax=MAGNITUDES, fmt=MX_FORMATS)
def test_floor_brings_amax_into_the_binade_of_the_largest_value(amax, fmt):
    """One power of two does."""
    assert top(fmt) <= amax / scale_of(amax, fmt, "floor") < 2 * top(fmt)


@given(amax=MAGNITUDES, fmt=MX_FORMATS)
def test_ceil_brings_amax_to_that_binade_or_below_it(amax, fmt):
    """To its first value at most."""
    assert top(fmt) / 2 < amax / scale_of(amax, fmt, "ceil") <= top(fmt)


@given(amax=MAGNITUDES, fmt=MX_FORMATS)
def test_even_brings_amax_rounded_to_the_elements_precision_into_that_binade(amax, fmt):
    """Half a unit of the last place below the next power, and not less, belongs to the next."""
    reached = amax / scale_of(amax, fmt, "even")
    half = F(2) ** -fmt.element.precision
    assert top(fmt) * (1 - half / 2) <= reached < top(fmt) * (2 - half)


@given(amax=MAGNITUDES, fmt=MX_FORMATS)
def test_rceil_is_the_smallest_power_that_clips_nothing(amax, fmt):
    """Half of it would."""
    scale = scale_of(amax, fmt, "rceil")
    assert amax <= largest(fmt) * scale
    assert amax > largest(fmt) * scale / 2


@given(amax=MAGNITUDES, fmt=MX_FORMATS)
def test_nearest_is_the_power_nearest_to_the_quotient_in_the_logarithm(amax, fmt):
    """Its square is off by a factor of 2 at most; a square root of 2 is never met."""
    assert F(1, 2) < (amax / largest(fmt) / scale_of(amax, fmt, "nearest")) ** 2 < 2


@given(amax=MAGNITUDES, fmt=MX_FORMATS, threshold=st.sampled_from([F(4, 3), F(3, 2), F(5, 4), F(127, 64)]))
def test_nearest_of_a_threshold_takes_the_next_power_from_there_on(amax, fmt, threshold):
    """The threshold itself belongs to the next."""
    position = amax / largest(fmt) / scale_of(amax, fmt, f"nearest({threshold})")
    assert threshold / 2 <= position < threshold


@pytest.mark.parametrize(
    ("how", "up"), [("floor", 1), ("ceil", 0), ("even", 1), ("rceil", 0), ("nearest(3/2)", 1)]
)
@pytest.mark.parametrize("fmt", MX, ids=str)
def test_the_limit_of_a_rule_itself_belongs_to_one_side(fmt, how, up):
    """As the laws above say, met exactly: the scale just below, at and just above it."""
    limit = {
        "floor": top(fmt),
        "ceil": top(fmt),
        "even": top(fmt) * (2 - F(2) ** -fmt.element.precision),
        "rceil": largest(fmt),
        "nearest(3/2)": largest(fmt) * F(3, 2),
    }[how]
    below, at, above = (
        scale_of(limit * factor, fmt, how) for factor in (1 - F(1, 1 << 40), F(1), 1 + F(1, 1 << 40))
    )
    assert above == 2 * below
    assert at == (above if up else below)


# Scale exponents of floor, ceil, even and rceil.
TABLE = [
    (1.0, "e2m1fn", (-2, -2, -2, -2)),
    (1.2, "e2m1fn", (-2, -1, -2, -2)),
    (1.6, "e2m1fn", (-2, -1, -2, -1)),
    (1.75, "e2m1fn", (-2, -1, -1, -1)),
    (2.7, "e2m1fn", (-1, 0, -1, -1)),
    (6.1, "e2m1fn", (0, 1, 0, 1)),
    (150.0, "e4m3fn", (-1, 0, -1, -1)),
    (449.0, "e4m3fn", (0, 1, 0, 1)),
    (500.0, "e4m3fn", (0, 1, 1, 1)),
    (float(np.nextafter(np.float32(1024), np.float32(0))), "e2m1fn", (7, 8, 8, 8)),
]


@pytest.mark.parametrize(("amax", "element", "exponents"), TABLE)
def test_scale_exponents_of_well_known_cases(amax, element, exponents):
    """Worked out by hand; in the last one a logarithm in binary32 would be 10."""
    fmt = dataclasses.replace(MXFP4, element=catalog.format(element))
    rules = ("floor", "ceil", "even", "rceil")
    assert (
        tuple(encode([from_float(amax)], dataclasses.replace(fmt, rule=how))[0] - 127 for how in rules)
        == exponents
    )


@pytest.mark.parametrize("how", ["floor", "ceil", "even", "rceil", "nearest", "project", "divide"])
@pytest.mark.parametrize("fmt", MX, ids=str)
def test_scales_stop_at_the_ends_of_their_format(fmt, how):
    """2**-127 is code 0, 2**127 the last; a NaN is neither."""
    fmt = dataclasses.replace(fmt, rule=how)
    assert encode([F(2) ** -170], fmt)[0] == 0
    assert encode([F(2) ** 170], fmt)[0] == 254
    assert encode([F(2) ** -170], fmt)[1] == [0]
    assert encode([F(2) ** 170], fmt)[1] == [fmt.element.max_magnitude]
    unbounded = dataclasses.replace(fmt, scales=Projection())
    assert encode([F(2) ** 170, F(1)], unbounded) == (255, [0, 0])


# -- rules that do not ------------------------------------------------------------------------------


UE4M3_VALUES = [convert.decode(code, UE4M3) for code in range(UE4M3.max_magnitude + 1)]


@given(amax=MAGNITUDES.filter(lambda amax: amax <= 448))
@pytest.mark.parametrize(("how", "divisor"), [("divide", 6), ("project", 1)])
def test_a_scale_that_is_no_power_is_the_nearest_of_its_format(how, divisor, amax):
    """To the quotient, ties to an even code: no value of the format is closer."""
    fmt = dataclasses.replace(NVFP4, rule=how)
    code, _ = encode([amax], fmt)
    distance = [abs(value - amax / divisor) for value in UE4M3_VALUES]
    assert distance[code] == min(distance)
    assert distance.count(min(distance)) == 1 or code % 2 == 0


@pytest.mark.parametrize("code", range(8, 40))
def test_a_tie_of_the_scale_goes_to_the_even_code(code):
    """Amax is six times the middle of two scales; on either side of it the nearer one is taken."""
    middle = (convert.decode(code, UE4M3) + convert.decode(code + 1, UE4M3)) / 2 * 6
    little = F(1, 1 << 40)
    codes = [encode([amax], NVFP4)[0] for amax in (middle - little, middle, middle + little)]
    assert codes == [code, code + code % 2, code + 1]


@given(values=st.lists(MAGNITUDES, min_size=1, max_size=5), fmt=st.sampled_from([*MX, NVFP4]))
def test_elements_are_projected_once_from_the_exact_quotient(values, fmt):
    """By the projected scale, whatever that is; by one of 0, they are 0."""
    code, elements = encode(values, fmt)
    scale = convert.decode(code, fmt.scale)
    quotients = [value / scale if scale else F(0) for value in values]
    assert elements == [convert.project(quotient, fmt.element, fmt.elements) for quotient in quotients]


@given(
    values=st.lists(MAGNITUDES, min_size=1, max_size=5),
    fmt=st.sampled_from(MX),
    how=st.sampled_from(["floor", "even", "rceil"]),
)
def test_values_of_a_block_are_encoded_as_themselves_again(values, fmt, how):
    """Decoded values times the scale are their own nearest ones; under rceil the scale may become smaller."""
    fmt = dataclasses.replace(fmt, rule=how)
    code, elements = encode(values, fmt)
    decoded = decode(code, elements, fmt)
    again, others = encode(decoded, fmt)
    assert decode(again, others, fmt) == decoded


# -- zeros, NaNs, infinities ------------------------------------------------------------------------

ZEROS = [F(0), NEG_ZERO, F(0)]


@pytest.mark.parametrize(
    ("fmt", "zero", "code"),
    [
        (MXFP4, "smallest", 0),
        (MXFP4, "one", 127),
        (MXFP4, "rule", 255),
        (NVFP4, "smallest", 0x00),
        (NVFP4, "one", 0x38),
        (NVFP4, "rule", 0x00),
    ],
)
def test_a_block_of_zeros_keeps_their_signs_and_has_the_scale_that_is_asked_for(fmt, zero, code):
    """The rule gives 0, which e8m0fnu lacks: so a NaN, as a projection of 0 does, and elements of code 0."""
    expected = [0, 0, 0] if code == 255 else [0, 8, 0]
    assert encode(ZEROS, dataclasses.replace(fmt, zero=zero)) == (code, expected)


def test_a_block_of_zeros_by_the_rule_has_the_smallest_scale_where_that_is_clamped():
    """2**-6, code 8."""
    assert encode(ZEROS, dataclasses.replace(NVFP4, zero="rule", min_scale=2.0**-6)) == (8, [0, 8, 0])
    assert encode(ZEROS, dataclasses.replace(NVFP4, zero="smallest", min_scale=2.0**-6)) == (0, [0, 8, 0])


WITH_NAN = [NEG_NAN, F(7), F(-1), NEG_ZERO, NAN, F(0)]
WITH_INFINITY = [NEG_INF, F(7), F(-1), NEG_ZERO, INF, F(0)]


@pytest.mark.parametrize(
    ("nan", "scale", "codes"),
    [
        ("block", 255, [0, 0, 0, 0, 0, 0]),
        ("scale", 255, [0xFF, 0x00, 0x80, 0x80, 0x7F, 0x00]),
        ("all", 255, [0x7F] * 6),
        # 7 is floor(log2(7)) - 8 = -6 times 448; 1 is 64.
        ("elements", 127 - 6, [0xFF, 0x7E, 0xE8, 0x80, 0x7F, 0x00]),
    ],
)
def test_what_becomes_of_a_block_with_a_nan(nan, scale, codes):
    """In e4m3fn, which has one of either sign."""
    assert encode(WITH_NAN, dataclasses.replace(MXFP8_E4M3, nan=nan)) == (scale, codes)


@pytest.mark.parametrize(
    ("infinity", "scale", "codes"),
    [
        ("block", 255, [0, 0, 0, 0, 0, 0]),
        ("power", 127 + 128 - 2, [0xF, 0x0, 0x8, 0x8, 0x7, 0x0]),
        ("largest", 254, [0xF, 0x0, 0x8, 0x8, 0x7, 0x0]),
        # The scale is 1: 7 stops at 6.
        ("elements", 127, [0xF, 0x7, 0xA, 0x8, 0x7, 0x0]),
    ],
)
def test_what_becomes_of_a_block_with_an_infinity(infinity, scale, codes):
    """In e2m1fn, where the largest value takes its place."""
    assert encode(WITH_INFINITY, dataclasses.replace(MXFP4, infinity=infinity)) == (scale, codes)


def test_a_nan_decides_before_an_infinity_does():
    """Unless elements alone do."""
    fmt = dataclasses.replace(MXFP8_E4M3, nan="scale", infinity="largest")
    assert encode([INF, NAN, F(-1)], fmt) == (255, [0x00, 0x7F, 0x80])
    fmt = dataclasses.replace(MXFP8_E4M3, nan="elements", infinity="largest")
    assert encode([INF, NAN, F(-1)], fmt) == (254, [0x7E, 0x7F, 0x80])


def test_what_is_left_beside_nans_and_infinities_makes_the_scale():
    """Nothing finite is a block of zeros."""
    fmt = dataclasses.replace(MXFP8_E4M3, nan="elements", infinity="elements")
    assert encode([INF, NAN], fmt) == (0, [0x7E, 0x7F])
    assert encode([INF, NAN, F(448)], fmt) == (127, [0x7E, 0x7F, 0x7E])


def test_a_nan_where_there_is_no_code_for_one_is_refused():
    """In elements, or in scales."""
    with pytest.raises(ValueError, match="NaN"):
        encode([NAN], dataclasses.replace(MXFP4, nan="elements"))
    with pytest.raises(ValueError, match="NaN"):
        encode([NAN], dataclasses.replace(MXFP4, scale=dataclasses.replace(catalog.E8M0FNU, nans=0)))


def test_a_nan_of_the_scale_takes_the_policy_of_nans():
    """Where the scale has no bound, and something lies beyond it."""
    beyond = dataclasses.replace(MXFP8_E4M3, scales=Projection())
    values = [F(2) ** 150, F(-1)]
    assert encode(values, beyond) == (255, [0, 0])
    assert encode(values, dataclasses.replace(beyond, nan="scale")) == (255, [0x00, 0x80])
    assert encode(values, dataclasses.replace(beyond, nan="all")) == (255, [0x7F, 0x7F])


def test_blocks_of_subnormals_are_zeros_where_they_are_flushed():
    """As a whole: beside a normal value they stay what they are."""
    fmt = dataclasses.replace(MXFP8_E4M3, flush_subnormals=True)
    small, normal = F(2) ** -127, F(2) ** -126
    assert encode([-small, small], fmt) == (0, [0x80, 0x00])
    assert encode([-small, small], MXFP8_E4M3) == (0, [0xB8, 0x38])
    assert encode([-small, normal], fmt) == encode([-small, normal], MXFP8_E4M3) == (0, [0xB8, 0x40])


# -- clamps -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("amax", "code"), [(F(6, 64), 8), (F(6, 65), 8), (F(6, 1000), 8), (F(6, 60), 9), (F(6) * F(2) ** -40, 8)]
)
def test_quotients_below_the_smallest_scale_are_raised_to_it(amax, code):
    """Before they are projected: 1/60 is nearest to 9/512."""
    fmt = dataclasses.replace(NVFP4, min_scale=2.0**-6)
    assert encode([amax], fmt)[0] == code


def test_elements_under_the_smallest_scale_are_divided_by_another_number():
    """2**-126 in place of 2**-127: half the codes' values."""
    fmt = dataclasses.replace(MXFP4, smallest_divides_as=2.0**-126)
    assert encode([F(2) ** -125, F(2) ** -127], MXFP4) == (0, [6, 2])
    assert encode([F(2) ** -125, F(2) ** -127], fmt) == (0, [4, 1])
    assert (
        encode([F(2) ** -123, F(2) ** -124], fmt)
        == encode([F(2) ** -123, F(2) ** -124], MXFP4)
        == (2, [6, 4])
    )


def test_an_exact_quotient_by_a_scale_of_zero_is_zero():
    """Of the value's sign."""
    assert encode([F(2) ** -20, -(F(2) ** -20)], NVFP4) == (0, [0, 8])


# -- the tensor's scale -----------------------------------------------------------------------------


def single(value) -> Fraction:
    return F(float(np.float32(value)))


TENSORS = [1.0, 3.0, 2688.0, 950.51324, 1e-3, 6.5e4, 3e38, 1e-37, 7.5e-41]


@pytest.mark.parametrize("amax", TENSORS)
def test_the_scale_of_a_tensor_is_its_amax_over_the_largest_values(amax):
    """One division of binary32, or two; its inverse is one more."""
    with np.errstate(over="ignore"):
        x, most, one = np.float32(amax), np.float32(2688), np.float32(1)
        values = [from_float(float(x)), F(0), -from_float(float(x / 2)), NAN, NEG_INF]
        assert tensor_scale(values, NVFP4) == (
            single(x / most),
            single(min(one / (x / most), np.finfo("f4").max)),
        )
        other = dataclasses.replace(NVFP4, tensor_scale="reciprocal")
        inverse = min(most / x, np.finfo("f4").max)
        assert tensor_scale(values, other) == (single(one / inverse), single(inverse))


@pytest.mark.parametrize("kind", ["divide", "reciprocal"])
def test_a_tensor_without_anything_to_scale_has_one(kind):
    """Zeros, NaNs, infinities, or nothing; and a scale is never 0."""
    fmt = dataclasses.replace(NVFP4, tensor_scale=kind)
    for values in ([], [F(0), NEG_ZERO], [NAN, INF]):
        assert tensor_scale(values, fmt) == (1, 1)
    assert tensor_scale([F(2) ** -149], fmt).value > 0
    assert tensor_scale([F(2) ** -149], NVFP4).value == F(2) ** -149
    assert tensor_scale([F(5)], MXFP4) == (1, 1)


def test_a_tensors_scale_divides_blocks_and_elements():
    """Amax 12 in a tensor scaled by 2: the block's scale is 1, and 12 is 6."""
    assert encode([F(12), F(-3)], NVFP4, TensorScale.given(F(2))) == (0x38, [7, 8 | 3])


# -- binary32 ---------------------------------------------------------------------------------------

NUMBERS = [9.017146, 5.3, -2.7, 0.1, 8.75, -0.013, 4.4, -7.1]


def by_numpy(values, fmt, scale, inverse):
    """The rule's quotient and the elements' in NumPy's binary32, in the order of BlockFormat's table."""
    one, d = np.float32(1), np.float32(fmt.element.max_finite)
    amax = np.abs(values).max()
    if fmt.arithmetic == "product":
        quotient = amax / (d * scale)
    elif fmt.arithmetic == "reciprocal":
        quotient = amax * (inverse * (one / d))
    else:
        quotient = (amax / d) / scale
    code = convert.project(F(float(quotient)), fmt.scale, fmt.scales)
    s = np.float32(float(convert.decode(code, fmt.scale)))
    if fmt.arithmetic == "product":
        elements = values / (s * scale)
    elif fmt.arithmetic == "reciprocal":
        elements = values * (one / (s * scale))
    else:
        elements = values * ((one / scale) / s)
    return code, [convert.project(from_float(float(item)), fmt.element, fmt.elements) for item in elements]


#: Elements of 23 bits, in which every rounding is seen.
WIDE = Format(name="wide", exponent_bits=3, trailing_bits=22, bias=5)


@pytest.mark.parametrize("element", [E2M1FN, WIDE], ids=str)
@pytest.mark.parametrize("arithmetic", ["product", "reciprocal", "reciprocals"])
@pytest.mark.parametrize("kind", ["divide", "reciprocal"])
def test_binary32_arithmetic_is_that_of_numpy(arithmetic, kind, element):
    """Scales of blocks near ties of their format and elsewhere; one of them shows any other rounding."""
    fmt = dataclasses.replace(NVFP4, element=element, arithmetic=arithmetic, tensor_scale=kind)
    one, most = np.float32(1), np.float32(448 * element.max_finite)
    for total, shift in itertools.product(np.float32([950.51324, 19.3, 2688, 1.7]), range(12)):
        values = (np.float32(NUMBERS) * np.float32(1 + shift / 19)).astype(np.float32)
        if kind == "divide":
            scale = total / most
            inverse = one / scale
        else:
            inverse = most / total
            scale = one / inverse
        tensor = TensorScale(single(scale), single(inverse))
        assert encode([from_float(float(value)) for value in values], fmt, tensor) == by_numpy(
            values, fmt, scale, inverse
        )


def test_arithmetics_differ_where_they_are_known_to():
    """A scale near a midpoint, in a tensor of amax 950.51324."""
    values = [single(9.017146)]
    found = set()
    for arithmetic in ("exact", "product", "reciprocal", "reciprocals"):
        for kind in ("divide", "reciprocal"):
            fmt = dataclasses.replace(NVFP4, arithmetic=arithmetic, tensor_scale=kind)
            found.add(encode(values, fmt, tensor_scale([single(950.51324)], fmt))[0])
    assert found == {0x48, 0x49}


def test_binary32_stops_at_its_largest_number():
    """A quotient that overflows, and a number over 0, which are different from infinity."""
    fmt = dataclasses.replace(NVFP4, scale=BINARY32, arithmetic="reciprocal", min_scale=0.0)
    tensor = TensorScale.given(F(2) ** -140)
    code, elements = encode([F(30), F(-10)], fmt, tensor)
    assert code == BINARY32.max_magnitude
    assert elements == [7, 15]
    underflow = dataclasses.replace(NVFP4, arithmetic="reciprocal")
    assert encode([F(2) ** -20, -(F(2) ** -20), F(0), NEG_ZERO], underflow) == (0, [7, 15, 0, 8])


def test_a_value_that_is_zero_in_binary32_keeps_its_sign():
    """As conversion to binary32 has it."""
    for arithmetic in ("product", "reciprocal", "reciprocals"):
        fmt = dataclasses.replace(MXFP4, arithmetic=arithmetic)
        assert encode([F(6), F(2) ** -160, -(F(2) ** -160)], fmt) == (127, [7, 0, 8])


def test_a_block_scale_over_nothing_is_the_largest():
    """The element's largest value times the tensor's scale is 0 in binary32."""
    small = catalog.format("int8f6")
    element = dataclasses.replace(small, name="int4f6", trailing_bits=3, bias=4)
    fmt = dataclasses.replace(NVFP4, element=element, arithmetic="product")
    assert fmt.element.max_finite < 0.5
    assert encode([F(1)], fmt, TensorScale.given(F(2) ** -149))[0] == UE4M3.max_magnitude


# -- random integers, subnormal operands ------------------------------------------------------------


def test_random_integers_belong_to_elements_and_one_to_the_scale():
    """A quarter of a gap goes up with one integer of four; an eighth with none."""
    stochastic = Projection(rounding="stochastic(2)", saturation="finite")
    fmt = dataclasses.replace(MXFP4, elements=stochastic)
    codes = [encode([F(4), F(17, 4)], fmt, random=[0, word])[1][1] for word in range(4)]
    assert codes == [6, 6, 6, 6]
    assert [encode([F(4), F(9, 2)], fmt, random=[0, word])[1][1] for word in range(4)] == [6, 6, 6, 7]
    fmt = dataclasses.replace(NVFP4, scales=stochastic)
    quotient = F(1) + F(1, 8) / 4  # a quarter of the gap after 1
    assert [encode([6 * quotient], fmt, scale_random=word)[0] for word in range(4)] == [
        0x38,
        0x38,
        0x38,
        0x39,
    ]
    with pytest.raises(ValueError, match="random"):
        encode([F(1)], fmt)


def test_operands_that_are_subnormal_count_as_zeros_where_they_are_flushed():
    """Before amax is taken."""
    flushing = Projection(saturation="finite", subnormals="flush_operands")
    fmt = dataclasses.replace(MXFP8_E4M3, elements=flushing)
    values = [-(F(2) ** -127), F(2) ** -130]
    assert encode(values, fmt, subnormal_operands=[True, True]) == (0, [0x80, 0x00])
    assert encode(values, fmt, subnormal_operands=[False, False]) == encode(values, MXFP8_E4M3)


# -- decode -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("fmt", MX, ids=str)
def test_a_decoded_value_is_its_element_times_the_scale(fmt):
    """Of every code, under a small, a middling and the largest scale."""
    codes = range(1 << fmt.element.width)
    for scale, power in ((0, -127), (126, -1), (254, 127)):
        decoded = decode(scale, codes, fmt)
        for code, value in zip(codes, decoded, strict=True):
            element = convert.decode(code, fmt.element)
            if element in (NAN, NEG_NAN):
                assert value is NAN
            elif isinstance(element, Special):
                assert value is element
            else:
                assert value == element * F(2) ** power


def test_everything_under_a_nan_is_nan():
    """Zeros too."""
    assert decode(255, [0, 8, 7], MXFP4) == [NAN, NAN, NAN]


def test_zeros_have_the_sign_of_the_product_and_nothing_times_infinity_is_a_number():
    """By IEEE 754: scales with a sign and an infinity are possible, if nobody's."""
    fmt = dataclasses.replace(MXFP8_E5M2, scale=catalog.BINARY16)
    plus, minus, infinite = 0x3C00, 0xBC00, 0x7C00
    assert decode(minus, [0x00, 0x80, 0x3C, 0x7C, 0xFC], fmt) == [NEG_ZERO, 0, -1, NEG_INF, INF]
    assert decode(infinite, [0x00, 0x80, 0x3C, 0xBC, 0x7C], fmt) == [NAN, NAN, INF, NEG_INF, INF]
    assert decode(0x0000, [0x00, 0x80, 0x3C, 0xBC, 0x7C], fmt) == [0, NEG_ZERO, 0, NEG_ZERO, NAN]
    assert decode(plus, [0x7F], fmt) == [NAN]


def test_the_tensors_scale_multiplies_too():
    """Exactly."""
    assert decode(0x39, [7, 8, 15], NVFP4, F(3)) == [F(81, 4), NEG_ZERO, F(-81, 4)]


# -- what blocks need and drawn ones seldom have --------------------------------------------------------


def test_a_nan_scale_is_made_with_random_integers_too():
    """A stochastic projection of scales takes one for each block, of NaN as of any other."""
    fmt = dataclasses.replace(MXFP8_E4M3, size=2, scales=Projection(rounding="stochastic(4)"))
    assert encode([NAN, F(1)], fmt, scale_random=3) == (0xFF, [0, 0])


@pytest.mark.parametrize("arithmetic", ["product", "reciprocal", "reciprocals"])
def test_an_element_whose_largest_value_is_zero_in_binary32_divides_by_it(arithmetic):
    """A number over 0 is the largest of binary32, which gives the largest scale."""
    tiny = Format(name="tiny", exponent_bits=0, trailing_bits=3, bias=300)
    fmt = BlockFormat(name="m", element=tiny, scale=catalog.E8M0FNU, size=3, arithmetic=arithmetic)
    assert encode([F(1), F(2) ** -100, F(0)], fmt) == (254, [7, 0, 0])
