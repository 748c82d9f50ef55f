"""The oracle's projection fields beside mode and saturation: NaN codes, flushing, overflow test, stages."""

import bisect
import functools
import itertools
import math
import random
import struct
from fractions import Fraction

import pytest

from lowprec.oracle.convert import cast, decode, encode, is_subnormal, project, steps
from lowprec.spec import catalog
from lowprec.spec.format import Format, Sign
from lowprec.spec.projection import Projection
from lowprec.spec.rounding import MODES
from tests.support import INF, NAN, NEG_INF, TINY, cases, meant, most_apart, projected_to, value_of

BY_HAND = """
# Formats and fields of the projection, values and their codes.
# nan_code: wherever the result is NaN, with the sign that the NaN would have
e5m2 nan_code=0x7f | NAN: 7f, NEG_NAN: ff, INF: 7c
e5m2 nan_code=0x7f nan_sign=drop | NEG_NAN: 7f
e5m2 nan_code=0xfe | NAN: fe, NEG_NAN: fe
e5m2 nan_code=0xfe nan_sign=drop | NEG_NAN: fe
e4m3fn nan_code=0x7a | 1000: 7a
e4m3fn nan_code=0x7a | -1000: fa  # a NaN of overflow has the operand's sign ...
e4m3fn nan_code=0x7a nan_sign=drop | -1000: fa  # ... which "drop" says nothing about
e4m3fn nan_code=0x7a nan_sign=positive | -1000: 7a
e4m3fn nan_sign=positive | -1000: 7f, NEG_INF: 7f, NEG_NAN: 7f
e4m3fn nan_sign=positive saturation=finite | -1000: fe
e4m3fn nan_sign=positive saturation=propagate | NEG_INF: 7f
e4m3fn nan_code=0xfa nan_sign=positive | -1000: fa  # the code itself
e5m2 nan_sign=positive | NEG_NAN: 7e
e5m2 nan_sign=positive | NEG_INF: fc  # an infinity is no NaN
e4m3fn nan_code=0x7a saturation=propagate | NEG_INF: fa, -1000: fe
e4m3fnuz nan_code=0x7f | NAN: 7f, NEG_NAN: ff, -1000: ff
e4m3fnuz nan_code=0x7f nan_sign=drop | NEG_NAN: 7f
e4m3fnuz | NEG_NAN: 80
e4m3fnuz nan_sign=positive | -1000: 80  # no NaN has a sign
e4m3fnuz nan_code=0x7f nan_sign=positive | -1000: 7f
ue4m3 nan_code=0x0 | NEG_NAN: 0  # no sign, so none joins
ue4m3 nan_code=0x55 | -1: 55, NEG_INF: 55
ue4m3 nan_code=0x55 negative=zero | -1: 0
e8m0fnu nan_code=0x7f | 0: 7f, NEG_ZERO: 7f, 2**130: 7f
e8m0fnu nan_code=0x7f zero=smallest | 0: 0
e2m1fn nan_code=0x7 | NEG_NAN: f
e2m1fn nan_code=0x7 | NAN: 7  # a format without NaN: that code, instead of an error
e2m1fn nan_code=0x1 | INF: 7
e2m1fn nan_code=0x1 | 100: 7  # but no overflow becomes NaN where there is none
int8 nan_code=0x5 | NEG_NAN: 5, -1000: 80
uint4 nan_code=0x5 | -1: 0
# flush_results: e4m3fn's smallest normal is 2**-6, the gap below it with an unbounded exponent 2**-10
e4m3fn subnormals=flush_results | 1/64: 8, 7/512: 0, -7/512: 80, 31/2048 - TINY: 0
e4m3fn subnormals=flush_results | 15/1024: 0  # 0x08 by the bounded tie
# before rounding
e4m3fn subnormals=flush_results tininess=before | 1/64 - TINY: 0, 1/64: 8
e4m3fn subnormals=flush_both tininess=before | TINY - 1/64: 80
e4m3fn tininess=before | 1/64 - TINY: 8
# the tie below 2**-6, whose code is even
e4m3fn subnormals=flush_results | 31/2048: 8
e4m3fn subnormals=flush_results rounding=nearest_zero | 31/2048: 0, 31/2048 + TINY: 8
e4m3fn subnormals=flush_results rounding=toward_zero | 1/64 - TINY: 0
e4m3fn subnormals=flush_results rounding=to_odd | 1/64 - TINY: 0
e4m3fn subnormals=flush_results rounding=away_from_zero | 15/1024: 0, 15/1024 + TINY: 8, TINY: 0
e4m3fn subnormals=flush_results rounding=toward_negative | -15/1024 - TINY: 88
e4m3fn subnormals=flush_results rounding=toward_positive | -15/1024 - TINY: 80
e4m3fnuz subnormals=flush_results | -1/1024: 0
ue4m3 subnormals=flush_results | -1/512: 0  # a zero, so no negative result
e2m1fn subnormals=flush_both | 1/2: 0
# one bit of precision: below 1/4 of e3m0fn come 1/8 (code 0 of the continued grid, even), then 1/16
e3m0fn subnormals=flush_results | 1/4: 1, 3/16: 0, 3/16 + TINY: 1
e3m0fn | 3/16: 1
e3m0fn subnormals=flush_results rounding=nearest_away | 3/16: 1
e3m0fn subnormals=flush_results rounding=to_odd | 1/8 + TINY: 1, 1/8: 0
e3m0fn subnormals=flush_results rounding=away_from_zero | -1/8: 8
# nothing to flush: no zero, or fixed point
e8m0fnu subnormals=flush_results | 1/2**127: 0
e8m0fnu subnormals=flush_both | 1/2**200: 0
int8f6 subnormals=flush_both | 1/64: 1
# the overflow test on the operand
e4m3fn overflow_test=before | 448: 7e, 448 + TINY: 7f
e4m3fn overflow_test=before rounding=toward_zero | 448 + TINY: 7f
e4m3fn overflow_test=before rounding=toward_positive | -448 - TINY: ff
e4m3fn overflow_test=before saturation=finite | 449: 7e
# by the exponent: from 2**(emax + 1) on, and where the rounded value overflows
e5m2 overflow_test=exponent rounding=toward_zero | 65536 - TINY: 7b, 65536: 7c
e5m2 overflow_test=exponent rounding=to_odd | -65536: fc
e5m2 overflow_test=exponent rounding=to_odd saturation=finite | -10**9: fb
e5m2 overflow_test=exponent | 61440: 7c
e4m3fn overflow_test=exponent rounding=toward_zero | 512 - TINY: 7e, 512: 7f
int8 overflow_test=exponent rounding=toward_zero | -128: 80
e4m3fnuz overflow_test=before | 240 + TINY: 80
e5m2 overflow_test=before rounding=to_odd | -57344 - TINY: fc
int8 overflow_test=before | -1281/10: 80
ue4m3 overflow_test=before | -449: 7f
e8m0fnu overflow_test=before | 2**127 + 1: ff
# via: 1 + 2**-4 is the tie of 1 and 1.125 in e4m3fn; the float below it is lost in binary16
e4m3fn | 17/16 + 1/2**40: 39, 19/16 - 1/2**40: 39
e4m3fn via=binary16 | 17/16 + 1/2**40: 38
e4m3fn via=binary32+binary16 | 19/16 - 1/2**40: 3a
e4m3fn via=binary32 rounding=away_from_zero | 1 + 1/2**40: 38
bfloat16 | 65519: 4780
bfloat16 via=binary16 | 65519: 4780, 65520: 7f80
bfloat16 via=binary16 saturation=finite | -65520: ff7f
bfloat16 via=e4m3fn | -465: ffc0
bfloat16 via=e4m3fnuz | -1000: 7fc0  # its NaN has no sign to hand on
binary16 via=e4m3fnuz | NEG_ZERO: 0
e4m3fn via=binary16 nan_code=0x7a | NEG_NAN: fa
binary16 via=ue4m3 | -1: 7e00
e5m2 via=binary32 overflow_test=before | 57345: 7c, 57344 + 1/2**20: 7b
"""


@pytest.mark.parametrize(("words", "value", "code"), cases(BY_HAND))
def test_each_field_gives_what_was_worked_out_by_hand(words, value, code):
    """Hold both sides of every border that a field moves."""
    fmt, rule = projected_to(words)
    assert project(meant(value), fmt, rule) == int(code, 16)


def test_a_nan_code_that_is_no_code_is_refused():
    """Whatever the operand."""
    for value in (Fraction(1), NAN):
        with pytest.raises(
            ValueError, match=r"^nan_code=0x100 of the projection is no code of 'e4m3fn'.* 0 to 0xff$"
        ):
            project(value, catalog.E4M3FN, Projection(nan_code=0x100))


def test_a_nan_that_a_stage_has_no_code_for_is_refused_by_name():
    """The stage is projected to with the default projection."""
    with pytest.raises(ValueError, match=r"^NaN has no code in 'e2m1fn'$"):
        project(NAN, catalog.E4M3FN, Projection(via=(catalog.E2M1FN,)))


# -- flush_operands -----------------------------------------------------------------------------------


@pytest.mark.parametrize("subnormals", ["flush_operands", "flush_both"])
def test_operands_are_flushed_before_anything_else(subnormals):
    """By hand: away from zero would round a subnormal up; its zero stays, or is what zero becomes."""
    projection = Projection(rounding="away_from_zero", subnormals=subnormals, via=(catalog.BINARY32,))
    assert project(Fraction(1, 8), catalog.E4M3FN, projection) == 0x20
    assert project(Fraction(1, 8), catalog.E4M3FN, projection, subnormal_operand=True) == 0x00
    assert project(Fraction(-1, 8), catalog.E4M3FN, projection, subnormal_operand=True) == 0x80
    assert project(Fraction(-1, 8), catalog.INT4, projection, subnormal_operand=True) == 0x0
    assert project(Fraction(1, 8), catalog.E8M0FNU, projection, subnormal_operand=True) == 0xFF
    kept = Projection(rounding="away_from_zero", subnormals="flush_results")
    assert project(Fraction(1, 8), catalog.E4M3FN, kept, subnormal_operand=True) == 0x20


def test_encode_flushes_subnormals_of_binary64():
    """The largest is just below 2**-1022. One stage away they are no operands any more."""
    projection = Projection(rounding="away_from_zero", subnormals="flush_operands")
    for sign, zero in ((1.0, 0x00), (-1.0, 0x80)):
        assert encode(sign * 5e-324, catalog.E4M3FN, projection) == zero
        assert encode(sign * math.nextafter(2.0**-1022, 0.0), catalog.E4M3FN, projection) == zero
        assert encode(sign * 2.0**-1022, catalog.E4M3FN, projection) == zero + 1
        assert encode(sign * 0.0, catalog.E4M3FN, projection) == zero
    assert (
        encode(2.0**-1022, catalog.E4M3FN, Projection(subnormals="flush_operands", via=(catalog.BINARY32,)))
        == 0
    )


def test_cast_flushes_subnormals_of_the_source():
    """By hand: 0x07 of e4m3fn is its largest subnormal, 7/512; as an int8f6 code, 0x07 is a plain number."""
    projection = Projection(subnormals="flush_operands")
    assert cast(0x07, catalog.E4M3FN, catalog.BINARY16, projection) == 0x0000
    assert cast(0x87, catalog.E4M3FN, catalog.BINARY16, projection) == 0x8000
    assert cast(0x08, catalog.E4M3FN, catalog.BINARY16, projection) == 0x2400
    assert cast(0x07, catalog.INT8F6, catalog.BINARY16, projection) == 0x2F00
    assert cast(0x00, catalog.E8M0FNU, catalog.BFLOAT16, projection) == 0x0040


@pytest.mark.parametrize(
    ("name", "subnormal"),
    [
        ("e4m3fn", {*range(0x01, 0x08), *range(0x81, 0x88)}),
        ("e4m3fnuz", {*range(0x01, 0x08), *range(0x81, 0x88)}),
        ("ue4m3", set(range(0x01, 0x08))),
        ("e2m1fn", {0x1, 0x9}),
        ("e3m0fn", set()),
        ("e8m0fnu", set()),
        ("int8f6", set()),
    ],
)
def test_subnormals_are_the_codes_whose_exponent_field_is_zero(name, subnormal):
    """Zero and NaN excepted."""
    fmt = catalog.format(name)
    assert {code for code in range(1 << fmt.width) if is_subnormal(code, fmt)} == subnormal


# -- laws -------------------------------------------------------------------------------------------

LAW_FORMATS = (
    catalog.E4M3FN,
    catalog.E2M1FN,
    catalog.E3M0FN,
    catalog.UE4M3,
    catalog.E5M2FNUZ,
    catalog.FLOAT8_E4M3,
)


@functools.cache
def _points(fmt):
    """Values, eighths of gaps and what is closest to them, to twice the largest."""
    points = []
    for magnitude in range(fmt.max_magnitude + 1):
        low, high = value_of(magnitude, fmt), value_of(magnitude + 1, fmt)
        points += [
            low + (high - low) * Fraction(eighth, 8) + side
            for eighth in (0, 1, 4, 7)
            for side in (-TINY, 0, TINY)
        ]
    return [sign * point for point in points if point > 0 for sign in (1, -1)]


@pytest.mark.parametrize("mode", most_apart(MODES, MODES[::3]), ids=str)
@pytest.mark.parametrize("fmt", LAW_FORMATS, ids=str)
def test_results_are_flushed_where_a_format_of_more_exponents_gives_less_than_the_smallest_normal(fmt, mode):
    """A law without tails: same precision and parity, so many more exponents that nothing is subnormal."""
    bias = fmt.bias + (
        1 << fmt.exponent_bits
    )  # even, so that codes of one bit of precision keep their parity
    wide = Format(name="wide", exponent_bits=9, trailing_bits=fmt.trailing_bits, bias=300 + bias % 2)
    sign_code, least = fmt.sign_code if fmt.has_negative_zero else 0, Fraction(fmt.min_normal)
    plain, flushing = (Projection(rounding=mode, subnormals=each) for each in ("keep", "flush_results"))
    for point in _points(fmt):
        expected = project(point, fmt, plain)
        if abs(decode(project(point, wide, plain), wide)) < least:
            expected = sign_code if point < 0 else 0
        assert project(point, fmt, flushing) == expected, point


@pytest.mark.parametrize("mode", most_apart(MODES, MODES[1::3]), ids=str)
@pytest.mark.parametrize("fmt", LAW_FORMATS, ids=str)
def test_overflow_judged_before_rounding_changes_only_what_lies_beyond_the_largest(fmt, mode):
    """Up to there the code is the same; beyond, whatever infinity becomes."""
    before, after = (Projection(rounding=mode, overflow_test=each) for each in ("before", "after"))
    largest = Fraction(fmt.max_finite)
    for point in _points(fmt):
        infinity = INF if point > 0 else NEG_INF
        expected = project(point if abs(point) <= largest else infinity, fmt, after)
        assert project(point, fmt, before) == expected, point


@pytest.mark.parametrize("fmt", LAW_FORMATS, ids=str)
def test_a_stage_that_contains_every_operand_changes_nothing(fmt):
    """Values and eighths of gaps are binary32 numbers."""
    points = [point for point in _points(fmt) if point.denominator < 2**100][::3]
    for mode in MODES[:1] + MODES[-2:]:
        through, plain = (
            Projection(rounding=mode, via=via) for via in ((catalog.BINARY32, catalog.BINARY64), ())
        )
        for point in points:
            assert project(point, fmt, through) == project(point, fmt, plain)


# -- steps ------------------------------------------------------------------------------------------

ZEROLESS = Format(
    name="zeroless", exponent_bits=4, trailing_bits=0, bias=7, sign=Sign.UNSIGNED, nans=1, subnormals=False
)

STEP_CASES = [
    (catalog.E4M3FN, {"nan_code": 0x00}),  # overflow has the code of zero
    (catalog.E4M3FN, {"nan_code": 0x7E}),
    (catalog.E4M3FN, {"subnormals": "flush_results"}),
    (catalog.E4M3FN, {"subnormals": "flush_operands", "rounding": "away_from_zero"}),
    (catalog.E4M3FN, {"subnormals": "flush_both", "rounding": "toward_positive"}),
    (catalog.E4M3FN, {"overflow_test": "before", "rounding": "toward_zero"}),
    (catalog.E4M3FN, {"overflow_test": "before", "saturation": "finite"}),
    (catalog.E4M3FN, {"via": (catalog.BINARY32,)}),
    (catalog.E4M3FN, {"via": (catalog.BINARY32, catalog.BFLOAT16), "rounding": "to_odd"}),
    (catalog.E5M2, {"via": (catalog.E4M3FN,)}),
    (catalog.E4M3FN, {"via": (catalog.E8M0FNU,), "nan_code": 0x00}),
    (catalog.E5M2, {"via": (catalog.FLOAT8_E4M3,), "nan_code": 0x00, "overflow_test": "before"}),
    (catalog.E4M3FN, {"via": (catalog.BINARY16,), "saturation": "propagate", "nan_code": 0x7E}),
    (catalog.E3M0FN, {"subnormals": "flush_results"}),
    (catalog.E8M0FNU, {"nan_code": 0x00, "subnormals": "flush_operands"}),
    (catalog.E8M0FNU, {"nan_code": 0x00, "overflow_test": "before", "via": (catalog.BINARY32,)}),
    (ZEROLESS, {"nan_code": 0x3, "subnormals": "flush_operands"}),
    (catalog.INT8, {"via": (catalog.E4M3FN,), "nan_code": 0x00, "nan": "zero"}),
    (catalog.UE4M3, {"nan_code": 0x00, "rounding": "toward_negative", "subnormals": "flush_results"}),
    (catalog.E4M3FNUZ, {"nan_code": 0x7F, "overflow_test": "before", "subnormals": "flush_both"}),
]


def _float(bits):
    return struct.unpack("<d", struct.pack("<Q", bits))[0]


def _bits(value):
    return struct.unpack("<Q", struct.pack("<d", value))[0]


@pytest.mark.parametrize(("fmt", "fields"), most_apart(STEP_CASES, STEP_CASES[::2]), ids=str)
def test_steps_are_the_projection_with_every_field(fmt, fields):
    """At each step and the float64 before it, at every border that a field adds, and at random floats."""
    generator, projection = random.Random(2), Projection(**fields)
    borders = [0.0, 2.0**-1022, fmt.max_finite, *(stop.max_finite for stop in projection.via), math.inf]
    low, high = _bits(Fraction(1, 2**140)), _bits(fmt.max_finite)
    patterns = [generator.randrange(0x7FF << 52) for _ in range(100)]
    patterns += [generator.randrange(low, high + (2 << 52)) for _ in range(300)]
    for sign, (firsts, codes) in zip((1.0, -1.0), steps(fmt, projection), strict=True):
        assert firsts == sorted(set(firsts))
        assert all(code != following for code, following in itertools.pairwise(codes))
        wanted = {0x7FF << 52, *patterns}
        for point in (*firsts[: 1 << 10], *borders):
            wanted.update(_bits(point) + offset for offset in (-1, 0, 1))
        for bits in wanted:
            if 0 <= bits <= 0x7FF << 52:
                size = _float(bits)
                code = codes[bisect.bisect_right(firsts, size) - 1]
                assert encode(math.copysign(size, sign), fmt, projection) == code, size.hex()
