"""The oracle's windows and machines: each clause of their rules by a sum worked out by hand."""

import dataclasses
from fractions import Fraction

import pytest
from hypothesis import given, strategies as st

from lowprec.oracle import convert
from lowprec.oracle.dot import dot
from lowprec.oracle.machines import RUN
from lowprec.oracle.terms import cut, lead
from lowprec.spec.accumulation import MACHINES, Accumulation, Window
from lowprec.spec.accumulations import ACCUMULATIONS, accumulation, deepseek_promote
from lowprec.spec.catalog import BINARY16, BINARY32, E4M3FN
from lowprec.spec.projection import Projection
from tests.support import INF, NAN, NEG_INF, NEG_NAN, NEG_ZERO

F = Fraction
ONE, ZERO = F(1), F(0)
VOLTA, TURING = accumulation("volta_mma_binary16_binary32"), accumulation("turing_mma_binary16_binary32")
AMPERE = accumulation("ampere_mma_bfloat16_binary32")
INSTRUCTIONS = [name for name, how in ACCUMULATIONS.items() if how.source in ("KHATTAK", "MMASIM")]
PLAIN_WINDOWS = [
    name
    for name in INSTRUCTIONS
    if ACCUMULATIONS[name].accumulator is not None and ACCUMULATIONS[name].scale is None
]


def two(power: int) -> Fraction:
    return F(2) ** power


def window(how: Accumulation, **changes: object) -> Accumulation:
    return dataclasses.replace(how, accumulator=dataclasses.replace(how.accumulator, **changes))


def ones(values) -> list[Fraction]:
    return [ONE] * len(values)


# -- places -----------------------------------------------------------------------------------------

NUMBERS = st.fractions().filter(bool)


@given(value=NUMBERS)
def test_the_leading_exponent_is_that_of_the_binade(value):
    """The power of two at or below the magnitude."""
    assert two(lead(value)) <= abs(value) < two(lead(value) + 1)


@given(value=st.fractions(), place=st.integers(-9, 9))
def test_a_number_is_cut_to_a_multiple_on_one_side(value, place):
    """Towards zero or below, by less than one unit; a floor is never above."""
    for how in ("toward_zero", "floor"):
        kept = cut(value, place, how)
        assert (kept / two(place)).denominator == 1
        assert abs(value - kept) < two(place)
        assert kept <= value if how == "floor" else abs(kept) <= abs(value)


@given(value=st.fractions(), place=st.integers(-9, 9))
def test_a_number_is_rounded_to_the_nearest_multiple(value, place):
    """By at most half a unit, and by that only away from zero."""
    for number in (value, round(value / two(place)) * two(place) + two(place - 1)):
        kept = cut(number, place, "nearest_away")
        assert (kept / two(place)).denominator == 1
        assert abs(number - kept) <= two(place - 1)
        assert abs(number - kept) < two(place - 1) or abs(kept) > abs(number)


# -- windows ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "sign", "code"),
    [
        (VOLTA, 1, 0x3F800000),
        (TURING, 1, 0x3F800001),
        (VOLTA, -1, 0x3F800000),
        (TURING, -1, 0x3F7FFFFE),
        (window(VOLTA, cut="floor"), 1, 0x3F800000),
        (window(VOLTA, cut="floor"), -1, 0x3F7FFFFC),
        (window(VOLTA, fraction_bits=None), 1, 0x3F800001),
    ],
    ids=str,
)
def test_terms_are_cut_where_the_largest_exponent_says(how, sign, code):
    """1 and twice 2**-24: gone with 23 bits, kept with 24; cut downwards each negative one takes 2**-23."""
    small = two(-12)
    assert dot([ONE, sign * small, sign * small], [ONE, small, small], how) == code


def test_products_are_not_normalized():
    """1.5 * 1.5 has exponent 0, as 1 * 1 has, and 23 bits behind it two terms make a unit of 2.25."""
    x, y = [F(3, 2), two(-12), two(-12)], [F(3, 2), two(-11), two(-11)]
    assert dot(x, y, VOLTA) == 0x40100001


def test_a_subnormal_factor_has_the_exponent_of_the_smallest_normal():
    """2**-24 counts as 2**-14 of binary16, and 2**-38 next to it is cut."""
    assert dot([two(-24), two(-14)], [ONE, two(-24)], VOLTA) == convert.project(two(-24), BINARY32)
    assert dot([two(-14), two(-14)], [two(-10), two(-24)], VOLTA) == convert.project(
        two(-24) + two(-38), BINARY32
    )


def test_a_sum_is_a_term_with_the_exponent_of_where_it_is_kept():
    """2**-24 counts as 2**-14 in binary16, the addend's format; as itself in binary32, that of later sums."""
    half = accumulation("volta_mma_binary16_binary16")
    for how, kept in ((half, ZERO), (VOLTA, two(-24))):
        coarse = window(how, fraction_bits=8)
        assert dot([ZERO], [ZERO], coarse, two(-24)) == convert.project(kept, how.output[0])
    wide = window(half, fraction_bits=8, result=(BINARY32, Projection()))
    x = [two(-12), *[ZERO] * 7]
    assert dot(x, x, wide) == 1
    assert dot(x, x, wide, two(-24)) == 0


def test_alignment_does_not_go_below_the_lowest_exponent():
    """Then even the only term is cut."""
    assert dot([two(-12)], [two(-12)], VOLTA) == convert.project(two(-24), BINARY32)
    assert dot([two(-12)], [two(-12)], window(VOLTA, lowest_exponent=0)) == 0
    assert dot([two(-12)], [two(-12)], window(VOLTA, lowest_exponent=-1)) == convert.project(
        two(-24), BINARY32
    )


def test_a_step_is_a_term_of_the_next():
    """Small products that come with the 1 are cut one by one; those before it are summed."""
    small = [two(-12)] * 4
    zeros = [ZERO] * 3
    assert dot([ONE, *zeros, *small], [ONE, *zeros, *small], VOLTA) == 0x3F800000
    assert dot([*small, ONE], [*small, ONE], VOLTA) == 0x3F800002


@given(data=st.data())
def test_products_of_a_step_have_no_order(data):
    """Nor do signs matter where terms are cut toward zero and the result is."""
    binary16 = st.integers(0, 0x7BFF).map(lambda code: convert.decode(code, BINARY16))
    pairs = data.draw(st.lists(st.tuples(binary16, binary16), min_size=4, max_size=4))
    shuffled = data.draw(st.permutations(pairs))
    got = dot([x for x, _ in pairs], [y for _, y in pairs], VOLTA)
    assert got == dot([x for x, _ in shuffled], [y for _, y in shuffled], VOLTA)
    if got:
        assert got | 1 << 31 == dot([-x for x, _ in pairs], [y for _, y in pairs], VOLTA)


@given(data=st.data(), addend=st.integers(-(1 << 20), 1 << 20))
def test_a_window_that_cuts_nothing_is_an_exact_sum(data, addend):
    """Whether it keeps all bits or only more than there are; each step is rounded once."""
    numbers = st.integers(-(1 << 11), 1 << 11).map(F)
    pairs = data.draw(st.lists(st.tuples(numbers, numbers), min_size=4, max_size=4))
    x, y = [x for x, _ in pairs], [y for _, y in pairs]
    nearest = window(VOLTA, result=(BINARY32, Projection()), fraction_bits=None)
    want = convert.project(sum((a * b for a, b in pairs), F(addend)), BINARY32)
    assert dot(x, y, nearest, F(addend)) == dot(x, y, window(nearest, fraction_bits=48), F(addend)) == want


def test_a_sum_beyond_the_last_binade_is_infinite():
    """Toward zero too; one that is cut to the largest number is not."""
    largest = 2 * two(127) - two(104)
    assert dot([two(103)], [ONE], AMPERE, largest) == 0x7F7FFFFF
    assert dot([two(104)], [ONE], AMPERE, largest) == 0x7F800000
    assert dot([-two(104)], [ONE], AMPERE, -largest) == 0xFF800000
    assert dot([two(100), two(127)], [two(100), ONE], AMPERE) == 0x7F800000


@pytest.mark.parametrize("name", [name for name in INSTRUCTIONS if ACCUMULATIONS[name].scale is None])
def test_specials_are_those_of_ieee_754_and_nan_is_one_code(name):
    """Infinities of one sign, of two, times zero; NaN of either sign."""
    how = ACCUMULATIONS[name]
    wide = how.output[0] == BINARY32
    infinite, nan = (0x7F800000, 0x7FFFFFFF) if wide else (0x7C00, 0x7FFF)
    sign = how.output[0].sign_code
    assert dot([ONE], [ONE], how, INF) == infinite
    assert dot([ONE], [ONE], how, NEG_INF) == infinite | sign
    assert dot([ONE], [ONE], how, NEG_NAN) == dot([ONE], [ONE], how, NAN) == nan
    if how.operands[0].infinity:
        assert dot([INF], [-ONE], how, F(5)) == infinite | sign
        assert dot([ONE, INF], [ONE, ZERO], how) == nan
        assert dot([INF], [ONE], how, NEG_INF) == nan
    if how.operands[0].has_nan:
        assert dot([NAN], [ONE], how, INF) == nan


@pytest.mark.parametrize("name", [name for name in INSTRUCTIONS if ACCUMULATIONS[name].scale is None])
def test_sums_that_are_zero_are_positive(name):
    """Whether they cancel or all terms are -0."""
    how = ACCUMULATIONS[name]
    assert dot([ONE, ONE], [ONE, -ONE], how) == 0
    zero = NEG_ZERO if how.operands[1].has_negative_zero else ZERO
    assert dot([ONE] * 4, [zero] * 4, how, NEG_ZERO) == 0


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("ampere_mma_bfloat16_binary32", 0),
        ("cdna1_mfma_bfloat16_binary32", 0x80000000),
        ("cdna3_mfma_bfloat16_binary32", 0x80000000),
    ],
)
def test_a_negative_sum_that_rounds_to_zero(name, code):
    """-2**-153 of bfloat16 factors."""
    assert dot([-two(-133)], [two(-20)], accumulation(name)) == code


def test_an_empty_place_in_a_step_changes_nothing():
    """K need not be a multiple of the step."""
    for name in PLAIN_WINDOWS:
        how = ACCUMULATIONS[name]
        x = [F(3), -ONE, F(3, 2)]
        padding = [ZERO] * 29
        assert dot(x, ones(x), how, ONE) == dot([*x, *padding], [*ones(x), *padding], how, ONE)


def test_alternate_pairs_are_two_steps():
    """2048 with ones of its own step and with ones of the next, where sums are rounded to binary16."""
    how = accumulation("hopper_mma_e4m3fn_binary16")
    for places, total in (((1, 2), 2048), ((1, 4), 2050), ((2, 3), 2050), ((5, 6), 2048), ((28, 29), 2050)):
        x = [F(2048 // 64)] + [ONE if place in places else ZERO for place in range(1, 32)]
        y = [F(64), *[ONE] * 31]
        assert dot(x, y, how) == convert.project(F(total), BINARY16)


def test_emulated_products_are_summed_before_the_addend_comes():
    """2048 + (1 + 1), 32 products at a time."""
    how = accumulation("blackwell_mma_e4m3fn_binary16")
    assert dot([ONE, ONE], [ONE, ONE], how, F(2048)) == convert.project(F(2050), BINARY16)
    x = [ONE, *[ZERO] * 31, ONE]
    assert dot(x, ones(x), how, F(2048)) == convert.project(F(2048), BINARY16)


def test_hoppers_fp8_sums_have_14_bits_until_they_are_promoted():
    """1 + 2**-14 is 1; in chunks that binary32 adds it is kept."""
    x, y = [ONE, *[ZERO] * 127, two(-7)], [ONE] * 128 + [two(-7)]
    assert dot(x, y, accumulation("hopper_wgmma_e4m3fn_binary32")) == 0x3F800000
    assert dot(x, y, deepseek_promote(128)) == convert.project(1 + two(-14), BINARY32)


# -- operands in blocks -----------------------------------------------------------------------------

NVFP4, MXFP8 = (
    accumulation(name)
    for name in ("rtx_blackwell_mma_e2m1fn_binary32_ue4m3_4", "blackwell_tcgen05_e4m3fn_binary32_e8m0fnu_1")
)


def test_scales_join_the_exponents_of_products():
    """2**10 * 2**-3; and 25 bits behind the point of 1 the products are cut."""
    assert dot([ONE, F(3)], [ONE, ONE], MXFP8, scales=([two(10)], [two(-3)], 32)) == convert.project(
        F(512), BINARY32
    )
    for power, count, kept in ((-24, 2, 1), (-25, 4, 1), (-26, 8, 0)):
        got = dot([ONE] * count, [ONE] * count, MXFP8, ONE, scales=([two(power)], [ONE], 32))
        assert got == 0x3F800000 + kept


def test_each_block_has_its_own_scales():
    """Element 32 is in the second."""
    x = [ONE] * 33
    got = dot(x, x, MXFP8, scales=([ONE, two(10)], [ONE, two(3)], 32))
    assert got == convert.project(F(32 + (1 << 13)), BINARY32)


def test_a_group_is_exact_and_counts_with_its_scales():
    """Even if its products cancel: 2**-20 next to a group of exponent 16 is cut 35 bits behind its point."""
    small, large = two(-9), F(256)
    tiny = ([F(1, 2)], [F(1, 2)])
    for x, kept in (([ONE, -ONE], False), ([ZERO, ZERO], True)):
        left = [*x, *[ZERO] * 14, *tiny[0]]
        right = [*ones(x), *[ZERO] * 14, *tiny[1]]
        got = dot(left, right, NVFP4, scales=([large, small], [large, small], 16))
        assert got == (convert.project(two(-20), BINARY32) if kept else 0)


def test_a_group_does_not_count_if_a_scale_is_zero():
    """As if its products were."""
    left = [F(6), *[ZERO] * 15, F(1, 2)]
    scales = ([F(448), two(-9)], [ZERO, two(-9)], 16)
    assert dot(left, left, NVFP4, scales=scales) == convert.project(two(-20), BINARY32)


def test_significands_of_scales_multiply_exactly():
    """1.875 * 1.875 times 36 * 16 in a group."""
    x = [F(6)] * 16
    got = dot(x, x, NVFP4, scales=([F(15, 8)], [F(15, 8)], 16))
    assert got == convert.project(F(15, 8) ** 2 * 576, BINARY32)


@pytest.mark.parametrize("how", [NVFP4, MXFP8], ids=str)
def test_a_scale_that_is_nan_makes_nan(how):
    """Of products that are zero too."""
    assert dot([ZERO], [ZERO], how, scales=([NAN], [ONE], how.scale[1])) == 0x7FFFFFFF
    assert dot([ZERO], [ZERO], how, INF, scales=([ONE], [ONE], how.scale[1])) == 0x7F800000


# -- CDNA -------------------------------------------------------------------------------------------

CDNA2, CDNA2_PAIRS, CDNA3, CDNA3_FP8 = (
    accumulation(name)
    for name in (
        "cdna2_mfma_binary16_binary32",
        "cdna2_mfma_bfloat16_binary32",
        "cdna3_mfma_bfloat16_binary32",
        "cdna3_mfma_e5m2fnuz_binary32",
    )
)


def test_cdna1_rounds_the_exact_sum_of_a_step():
    """1 + 2**-24 and a bit far below: above the tie, whatever the distance."""
    how = accumulation("cdna1_mfma_bfloat16_binary32")
    assert dot([two(-24), two(-100)], [ONE, two(-50)], how, ONE) == 0x3F800001
    assert dot([two(-24), ZERO, two(-100)], [ONE, ZERO, two(-50)], how, ONE) == 0x3F800000


def test_cdna2_takes_subnormals_for_zeros():
    """Of operands and the addend, whose sign is lost, -0 too; of results, whose sign is kept."""
    assert dot([two(-24)], [ONE], CDNA2) == 0
    assert dot([two(-14)], [ONE], CDNA2) == convert.project(two(-14), BINARY32)
    for addend in (NEG_ZERO, two(-149), -two(-149)):
        assert dot([], [], CDNA2, addend) == dot([-ONE] * 2, [ZERO] * 2, CDNA2_PAIRS, addend) == 0
    assert dot([-two(-126)], [F(3, 2)], CDNA2_PAIRS, two(-126)) == 0x80000000
    assert dot([-two(-100)], [two(-30)], CDNA2_PAIRS, two(-126)) == 0x00800000


def test_cdna2_adds_four_products_as_a_tree_or_two_as_they_come():
    """2**-24 and 2**-24 make an ulp of 1 if they meet before it."""
    x = [two(-12), ZERO, two(-12)]
    assert dot(x, x, CDNA2, ONE) == 0x3F800001
    assert dot(x, x, CDNA2_PAIRS, ONE) == 0x3F800000
    assert dot(x[::2], x[::2], CDNA2_PAIRS, ONE) == 0x3F800001


def test_cdna3_is_no_mirror_of_itself():
    """Sums are cut downwards: a tie and a bit is a tie above zero, and beyond one below."""
    x, y = [two(-12), two(-20)], [two(-12), two(-20)]
    assert dot(x, y, CDNA3, ONE) == 0x3F800000
    assert dot([-value for value in x], y, CDNA3, -ONE) == 0xBF800001


def test_cdna3_cuts_products_toward_zero_at_their_own_exponent():
    """2**-25 next to 1 is gone before the addend, which is as small, comes: 24 bits behind the point."""
    for power, kept in ((-12, True), (-13, False)):
        small = two(power) * two(-12)
        x, y = [ONE, two(power)], [ONE, two(-12)]
        want = small if kept else 0
        assert dot(x, y, CDNA3, -ONE) == convert.project(F(want), BINARY32)
        assert dot([-ONE, -two(power)], y, CDNA3, ONE) == convert.project(-F(want), BINARY32)


def test_cdna3_cuts_the_addend_downwards():
    """-1 next to 2**30 is -2**6."""
    assert dot([two(30)], [ONE], CDNA3, -ONE) == 0x4E7FFFFF
    assert dot([two(30)], [ONE], CDNA3, ONE) == 0x4E800000


def test_cdna3_has_no_products_beyond_binary32():
    """2**128 is infinite, though 2**104 is left of it."""
    largest = 2 * two(127) - two(104)
    assert dot([two(64)], [two(64)], CDNA3, -largest) == 0x7F800000
    assert dot([two(64)] * 2, [two(64), -two(64)], CDNA3) == 0x7FFFFFFF
    assert dot([two(64)], [two(63)], CDNA3, -largest) == convert.project(two(127) - largest, BINARY32)


def test_cdna3_takes_eight_products_or_four_of_tf32():
    """A tie that products of one step pass together, and of two steps do not."""
    tf32 = accumulation("cdna3_mfma_tf32_binary32")
    for how, step in ((CDNA3, 8), (tf32, 4)):
        for distance, code in ((step - 1, 0x3F800001), (step, 0x3F800000)):
            x = [two(-24), *[ZERO] * (distance - 1), two(-24)]
            assert dot(x, ones(x), how, ONE) == code


def test_cdna3_fp8_drops_an_addend_far_below():
    """-1 next to 2**30 is nothing, next to 2**25 it is -2."""
    assert dot([two(15)], [two(15)], CDNA3_FP8, -ONE) == 0x4E800000
    assert dot([two(15)], [two(11)], CDNA3_FP8, -ONE) == convert.project(two(26), BINARY32)
    assert dot([two(15)], [two(10)], CDNA3_FP8, -ONE) == convert.project(two(25) - 2, BINARY32)


def test_cdna3_fp8_aligns_even_and_odd_places_apart():
    """-1 next to 2**30 is nothing in its own group, and -2**6 in the other."""
    apart, together = [two(15), -ONE], [two(15), ZERO, -ONE]
    assert dot(apart, [two(15), ONE], CDNA3_FP8) == 0x4E7FFFFF
    assert dot(together, [two(15), ONE, ONE], CDNA3_FP8) == 0x4E800000


def test_there_is_a_function_for_every_machine():
    """And for nothing else."""
    assert set(RUN) == set(MACHINES)


def test_machines_read_zeros_past_the_end():
    """A step that is not full is full of +0."""
    for how in (CDNA2, CDNA2_PAIRS, CDNA3, CDNA3_FP8):
        x = [F(3), -ONE, F(3, 2)]
        padding = [ZERO] * 29
        assert dot(x, ones(x), how, ONE) == dot([*x, *padding], [*ones(x), *padding], how, ONE)


def test_a_window_of_ones_own():
    """Any format may hold the sums: E4M3 with three bits of alignment."""
    own = Accumulation(
        operands=(E4M3FN, E4M3FN),
        accumulator=Window(step=2, fraction_bits=3, result=(E4M3FN, Projection())),
        output=(E4M3FN, Projection()),
    )
    assert dot([F(16), F(3)], [ONE, ONE], own) == convert.project(F(18), E4M3FN)
    assert dot([F(256), F(256)], [ONE, ONE], own) == convert.project(NAN, E4M3FN)
