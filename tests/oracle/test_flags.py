"""The oracle's flags: rows reasoned out, and laws about what is delivered."""

from fractions import Fraction

import pytest

from lowprec.oracle.convert import decode, project
from lowprec.oracle.flags import flags, is_signaling
from lowprec.spec import catalog
from lowprec.spec.format import Format, Sign
from lowprec.spec.projection import Flag, Projection
from lowprec.spec.rounding import MODES
from tests.support import INF, NAN, NEG_NAN, TINY, cases, meant, most_apart, projected_to, value_of

NONE, X, UX, OX, V = 0, 1, 2 | 1, 4 | 1, 16

BY_HAND = """
# Formats and fields of the projection, values and flags: inexact, underflow, overflow and invalid.
e4m3fn | 1: -, 1 + TINY: X, 448: -, -448 - TINY: X
# overflow: the value rounded with an unbounded exponent exceeds 448; the next code would be 480, the tie
# is 464
e4m3fn | 464: X, 464 + TINY: OX
e4m3fn saturation=finite | 464 + TINY: OX
e4m3fn saturation=propagate | -464 - TINY: OX
e4m3fn rounding=toward_zero | 480 - TINY: X
e4m3fn rounding=toward_zero | 480: OX  # though 448 is delivered
e4m3fn rounding=toward_negative | 480 - TINY: X, -448 - TINY: OX
e4m3fn rounding=to_odd | 448 + TINY: OX  # the code of 448 is even
e5m2 rounding=to_odd | 65536: OX
e5m2 rounding=to_odd | 57344 + TINY: X  # that of 57344 is odd
e5m2 | 61440: OX
e2m1fn | 7 - TINY: X
e2m1fn | 7: OX  # 7 is the tie of 6 and 8, whose code is even
int8 | -128: -, -257/2: X, 128: OX
int8 symmetric=True | -128: OX
e8m0fnu | 3*2**126: X, 3*2**126 + 1: OX
# judged before rounding, everything beyond the extreme value overflows
e4m3fn overflow_test=before | 448 + TINY: OX, 448: -
e4m3fn overflow_test=before rounding=toward_zero saturation=finite | -448 - TINY: OX
# underflow: inexact, and below 2**-6 when rounded with an unbounded exponent, whose last tie is 31/2**11
e4m3fn | 7/512 + TINY: UX, 31/2048 - TINY: UX, 31/2048: X, TINY: UX, 1/64 + TINY: X
e4m3fn | 7/512: -  # tiny but exact
e4m3fn | 15/1024: UX  # delivered as 2**-6, which it does not round to with more exponents
e4m3fn rounding=nearest_zero | -31/2048: UX
e4m3fn rounding=toward_zero | 1/64 - TINY: UX
e4m3fn rounding=away_from_zero | 15/1024: UX, 15/1024 + TINY: X
e4m3fn rounding=toward_negative | -TINY: UX
e3m0fn | 3/16 + TINY: X
e3m0fn | 3/16: UX  # to 1/8, were there such an exponent; 1/4 is delivered
int8 | 1/3: X  # fixed point does not underflow
int8f6 | TINY: X
e8m0fnu | 1/2**127: -, 1/2**127 + TINY: X
e8m0fnu | 1/2**127 - TINY: UX  # below the smallest of a format without zero
# flushed results are no longer exact
e4m3fn subnormals=flush_results | 7/512: UX, 1/64: -
e4m3fn subnormals=flush_both | 31/2048: X
ue4m3 subnormals=flush_results | -7/512: UX  # a zero after all
# before rounding all is tiny that is below the smallest normal number
e4m3fn tininess=before | 31/2048: UX, -1/64 + TINY: UX, 1/64 + TINY: X
e4m3fn tininess=before | 7/512: -  # but what is exact does not underflow
e4m3fn tininess=before subnormals=flush_results | 1/64 - TINY: UX, 1/64: -
int8f6 tininess=before | TINY: X
# invalid: no counterpart
e2m1fn | NAN: V
e2m1fn nan=zero | NAN: V
e2m1fn nan_code=0x7 | NAN: V
e4m3fn | NEG_NAN: -, INF: V, NEG_ZERO: -
e4m3fnuz | NAN: -, NEG_ZERO: -
e4m3fn saturation=finite | NEG_INF: V
e5m2 | INF: -
e5m2 saturation=finite | NEG_INF: -
binary8p3ue | INF: -, NEG_INF: V
e8m0fnu | 0: V, -TINY: V
e8m0fnu zero=smallest | NEG_ZERO: V
int8 | NEG_ZERO: -
ue4m3 | -1: V, -10**6: V
ue4m3 | -TINY: UX  # rounds to zero
ue4m3 negative=error | -1: V
ue4m3 negative=drop_sign | -1: V
ue4m3 rounding=away_from_zero | -TINY: V
uint4 | -1/2: X, -1: V
# stages add up
binary32 via=binary16 | 1 + TINY: X, 65520: OX, 1/2**24: -, 1/2**25: UX
e4m3fn via=binary16 | 465: OX
e4m3fn via=binary16 | 65520: OXV  # the stage hands an infinity on
binary16 via=e4m3fn | INF: V
binary16 via=e2m1fn | NAN: V
ue4m3 via=binary16 | -1: V
"""


@pytest.mark.parametrize(("words", "value", "wanted"), cases(BY_HAND))
def test_flags_are_those_reasoned_out(words, value, wanted):
    """Hold both sides of every border of every flag."""
    bits = {"-": NONE, "X": X, "U": 2, "O": 4, "V": V}
    assert Flag(flags(meant(value), *projected_to(words))) == Flag(sum(bits[each] for each in wanted))


def test_a_signaling_nan_is_invalid():
    """Also where it becomes a NaN, in a later stage, or what the projection says."""
    assert flags(NAN, catalog.BINARY16, signaling=True) == V
    assert flags(NEG_NAN, catalog.E4M3FN, Projection(via=(catalog.BINARY16,)), signaling=True) == V
    assert flags(NAN, catalog.E2M1FN, Projection(nan="max"), signaling=True) == V


def test_a_flushed_operand_is_inexact_and_what_its_zero_is():
    """A zero has no counterpart in a format without zero. Without the field it is treated as any operand."""
    projection = Projection(subnormals="flush_operands")
    for value in (Fraction(1), Fraction(-1), TINY):
        assert flags(value, catalog.E4M3FN, projection, subnormal_operand=True) == X
        assert flags(value, catalog.UINT4, projection, subnormal_operand=True) == X
        assert flags(value, catalog.E8M0FNU, projection, subnormal_operand=True) == X | V
    assert flags(TINY, catalog.E4M3FN, Projection(subnormals="flush_results"), subnormal_operand=True) == UX


def test_flags_of_a_stochastic_mode_depend_on_the_random_integer():
    """By hand: 464 is half a gap over 448; 31/2**11 ties below the smallest normal, given more exponents."""
    projection = Projection(rounding="stochastic(1)")
    assert [flags(Fraction(464), catalog.E4M3FN, projection, random=r) for r in (0, 1)] == [X, OX]
    assert [flags(Fraction(480), catalog.E4M3FN, projection, random=r) for r in (0, 1)] == [OX, OX]
    assert [flags(Fraction(31, 2048), catalog.E4M3FN, projection, random=r) for r in (0, 1)] == [UX, X]
    assert [flags(Fraction(1, 2**10), catalog.E4M3FN, projection, random=r) for r in (0, 1)] == [UX, UX]
    assert [flags(Fraction(-1, 2**10), catalog.UE4M3, projection, random=r) for r in (0, 1)] == [UX, V]
    with pytest.raises(ValueError, match=r"^random is missing"):
        flags(Fraction(1), catalog.E4M3FN, projection)
    with pytest.raises(ValueError, match=r"^nan_code=0x10 "):
        flags(Fraction(1), catalog.E2M1FN, Projection(nan_code=16))


@pytest.mark.parametrize(
    ("name", "signaling"),
    [
        ("e5m2", {0x7D, 0xFD}),
        ("e3m4", {*range(0x71, 0x78), *range(0xF1, 0xF8)}),
        ("float8_e4m3", {*range(0x79, 0x7C), *range(0xF9, 0xFC)}),
        ("e4m3fn", set()),
        ("e4m3fnuz", set()),
        ("binary8p3se", set()),
        ("e2m1fn", set()),
        ("int8", set()),
    ],
)
def test_signaling_nans_are_those_with_a_clear_quiet_bit(name, signaling):
    """Every code; formats without IEEE 754's NaNs have none."""
    fmt = catalog.format(name)
    assert {code for code in range(1 << fmt.width) if is_signaling(code, fmt)} == signaling


def test_nans_signal_without_negative_zero_too():
    """Those of both halves with a clear quiet bit; the NaN in the place of -0 is quiet."""
    fmt = Format(exponent_bits=2, trailing_bits=2, nans=3, infinity=True, negative_zero=False)
    assert {code for code in range(1 << fmt.width) if is_signaling(code, fmt)} == {0x0D, 0x1D}


def test_one_trailing_bit_leaves_no_signaling_nan():
    """The only NaN is the quiet one."""
    fmt = Format(name="e3m1", exponent_bits=3, trailing_bits=1, bias=3, nans=1, infinity=True)
    assert not any(is_signaling(code, fmt) for code in range(1 << fmt.width))


def test_a_format_without_normal_values_overflows_rather_than_underflows():
    """One exponent bit, spent on specials: 2 steps are the largest value; the smallest normal would be 4."""
    fmt = Format(name="all_subnormal", exponent_bits=1, trailing_bits=2, bias=0, nans=4, infinity=True)
    step = Fraction(1, 2)
    assert decode(2, fmt) == 2 * step
    for subnormals in ("keep", "flush_results"):
        assert flags(3 * step, fmt, Projection(subnormals=subnormals)) == OX
        assert decode(project(3 * step, fmt, Projection(subnormals=subnormals)), fmt) is INF
        assert flags(step + TINY, fmt, Projection(subnormals=subnormals)) == UX


# -- laws -------------------------------------------------------------------------------------------

LAW_FORMATS = (
    catalog.E4M3FN,
    catalog.E2M1FN,
    catalog.E3M0FN,
    catalog.INT8F6,
    catalog.FLOAT8_E4M3,
    catalog.E8M0FNU,
)


@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize("fmt", most_apart(LAW_FORMATS, LAW_FORMATS[1:4]), ids=str)
def test_flags_agree_with_what_is_delivered(fmt, mode):
    """Inexact is a difference; overflow is one that saturation can or could see, and implies inexact.

    Rounded to a wider format of the same precision and parity, the value tells overflow and
    tininess without any continued grid.
    """
    wide = Format(name="wide", exponent_bits=10, trailing_bits=fmt.trailing_bits, bias=510 + fmt.bias % 2)
    projection = Projection(rounding=mode, saturation="finite")
    for magnitude in range(0, fmt.max_magnitude + 3):
        low, high = value_of(magnitude, fmt), value_of(magnitude + 1, fmt)
        for eighth in (0, 1, 4, 7):
            for side in (-TINY, 0, TINY):
                value = low + (high - low) * Fraction(eighth, 8) + side
                if value <= 0:
                    continue
                got = Flag(flags(value, fmt, projection))
                assert bool(got & Flag.INEXACT) == (decode(project(value, fmt, projection), fmt) != value)
                assert not got & (Flag.INVALID | Flag.DIVIDE_BY_ZERO)
                if not fmt.exponent_bits:
                    continue
                rounded = decode(project(value, wide, Projection(rounding=mode)), wide)
                assert bool(got & Flag.OVERFLOW) == (rounded > Fraction(fmt.max_finite)), value
                if fmt.subnormals:
                    tiny = rounded < Fraction(fmt.min_normal)
                    assert bool(got & Flag.UNDERFLOW) == (tiny and Flag.INEXACT in got), value


def test_negative_operands_signal_what_their_mirror_images_do():
    """In formats with a sign bit and in modes without a direction; an unsigned format has only the zero."""
    unsigned = Format(name="u", exponent_bits=3, trailing_bits=2, bias=3, sign=Sign.UNSIGNED, infinity=True)
    for mode in ("nearest_even", "to_odd", "toward_zero"):
        projection = Projection(rounding=mode)
        for numerator in range(1, 600):
            value = Fraction(numerator, 64)
            assert flags(-value, catalog.E2M1FN, projection) == flags(value, catalog.E2M1FN, projection)
            zero = project(value, unsigned, projection) == 0
            assert flags(-value, unsigned, projection) == (flags(value, unsigned, projection) if zero else V)
