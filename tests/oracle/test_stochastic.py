"""Stochastic rounding of the oracle: literals by hand, and the share of all integers that rounds up."""

import math
import re
from fractions import Fraction

import pytest

from lowprec.oracle.convert import cast, decode, encode, project, steps
from lowprec.oracle.exact import Special
from lowprec.oracle.rounding import random_integer
from lowprec.spec import catalog
from lowprec.spec.layouts import lanes
from lowprec.spec.projection import Projection
from lowprec.spec.rounding import NEAREST_EVEN, stochastic
from tests.support import TINY, cases, meant, projected_to, value_of

# -- by hand ----------------------------------------------------------------------------------------

# From 1 = 0x38 of e4m3fn the gap is 1/8. With two random bits, the least R that takes 0x39, or None.
LEAST_R = [
    # tail, A, B, C
    (Fraction(0), None, None, None),
    (TINY, None, None, None),
    (Fraction(1, 8) - TINY, None, None, None),
    (Fraction(1, 8), None, 3, None),  # half a level: B goes up, C to the even 0
    (Fraction(1, 8) + TINY, None, 3, 3),
    (Fraction(1, 4) - TINY, None, 3, 3),
    (Fraction(1, 4), 3, 3, 3),
    (Fraction(3, 8), 3, 2, 2),  # one and a half levels: C to the even 2
    (Fraction(1, 2), 2, 2, 2),
    (Fraction(5, 8), 2, 1, 2),  # two and a half: C to the even 2
    (Fraction(3, 4) - TINY, 2, 1, 1),
    (Fraction(3, 4), 1, 1, 1),
    (Fraction(7, 8) - TINY, 1, 1, 1),
    (Fraction(7, 8), 1, 0, 0),  # three and a half: to 4, so always
    (1 - TINY, 1, 0, 0),
]


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(("tail", "a", "b", "c"), LEAST_R, ids=str)
def test_two_random_bits_go_up_from_the_r_worked_out_by_hand(tail, a, b, c, sign):
    """Levels, half levels and what lies closest to them; the sign changes nothing."""
    nearer = 0x38 if sign > 0 else 0xB8
    for variant, least in (("A", a), ("B", b), ("C", c)):
        projection = Projection(rounding=stochastic(2, variant))
        got = [
            project(sign * (1 + tail / 8), catalog.E4M3FN, projection, random=r) - nearer for r in range(4)
        ]
        assert got == [least is not None and r >= least for r in range(4)], variant


BY_HAND = """
# Formats and fields of the projection, values and their codes for R = 0 and R = 1 of one random bit.
e4m3fn | -464: fe ff, 463: 7e 7e, 480 - TINY: 7e 7f, 10**9: 7f 7f, 1/2**10: 0 1, -1/2**10: 80 81,
    1/2**10 - TINY: 0 0, NEG_ZERO: 80 80, INF: 7f 7f, NEG_NAN: ff ff
e4m3fn | 464: 7e 7f  # half the gap above 448
e4m3fn | 480: 7f 7f  # a whole gap: always
e4m3fn saturation=finite | 464: 7e 7e
e4m3fn overflow_test=before | 448 + TINY: 7f 7f, 448: 7e 7e
e5m2 | 61440: 7b 7c
e5m2 saturation=propagate | 61440: 7b 7b
int8 | -257/2: 80 80, 255/2: 7f 7f, -255/2: 81 80, -3/2: ff fe
ue4m3 | -1/2**10: 0 7f  # to zero, or to a negative number
e8m0fnu | 3: 80 81, 1/2**500: 0 0, 0: ff ff
e8m0fnu | 1/2**127 - TINY: 0 0  # below the smallest: never random
# 15/2**10 is 7.5 steps of 2**-9: rounded to e4m3fn's precision it is representable, so it is tiny
# whatever R
e4m3fn | 15/2**10: 7 8
e4m3fn subnormals=flush_results | 15/2**10: 0 0, 31/2**11: 0 8
"""


@pytest.mark.parametrize(("words", "value", "codes"), cases(BY_HAND))
def test_one_random_bit_gives_the_codes_worked_out_by_hand(words, value, codes):
    """Go to overflow, underflow, formats without sign or zero, and what is never rounded."""
    fmt, rule = projected_to([*words, "rounding=stochastic(1)"])
    assert [project(meant(value), fmt, rule, random=r) for r in (0, 1)] == [int(c, 16) for c in codes.split()]


def test_encode_and_cast_pass_the_random_integer_on():
    """By hand: 1.0625 is half a gap above 1 in e4m3fn; 0x7E of e4m3fn is 448, exact in binary16."""
    projection = Projection(rounding="stochastic(1)")
    assert [encode(1.0625, catalog.E4M3FN, projection, random=r) for r in (0, 1)] == [0x38, 0x39]
    assert [cast(0x39, catalog.E4M3FN, catalog.E5M2, projection, random=r) for r in (0, 1)] == [0x3C, 0x3D]
    assert [cast(0x7E, catalog.E4M3FN, catalog.BINARY16, projection, random=r) for r in (0, 1)] == [
        0x5F00,
        0x5F00,
    ]


# -- laws -------------------------------------------------------------------------------------------

SHARES = {
    "A": math.floor,
    "B": lambda levels: math.floor(levels + Fraction(1, 2)),
    "C": round,
}

SHARE_CASES = [
    # format, bits, the magnitudes to start from: the first of every binade, and all subnormals
    *((catalog.E4M3FN, bits, [*range(8), *range(8, 127, 8), 126]) for bits in (1, 2, 4)),
    (catalog.E4M3FN, 8, [0, 7, *range(8, 127, 24), 126]),
    *((catalog.E2M1FN, bits, range(8)) for bits in (1, 2, 4)),
    (catalog.E2M1FN, 8, [0, 1, 2, 7]),
    *((catalog.E8M0FNU, bits, range(255)) for bits in (1, 2)),
    (catalog.E8M0FNU, 4, range(0, 255, 15)),
    (catalog.E8M0FNU, 8, [0, 254]),
]


def _tails(bits):
    """Exact, far below the last level, at and next to levels and half levels."""
    levels = 1 << bits
    return [
        Fraction(0),
        Fraction(1, 2**60),
        *(
            Fraction(half, 2 * levels) + side
            for half in (1, 2, 3, levels, 2 * levels - 1)
            for side in (-TINY, 0)
        ),
        1 - TINY,
    ]  # fmt: skip


@pytest.mark.apart
@pytest.mark.parametrize("variant", SHARES)
@pytest.mark.parametrize(("fmt", "bits", "magnitudes"), SHARE_CASES, ids=lambda case: str(case)[:16])
def test_the_share_of_all_random_integers_that_rounds_up_is_the_rounded_tail(fmt, bits, magnitudes, variant):
    """Not statistics: every R, all binades. The last magnitude's farther code is overflow's NaN or itself."""
    projection = Projection(rounding=stochastic(bits, variant))
    for magnitude in magnitudes:
        low, high = value_of(magnitude, fmt), value_of(magnitude + 1, fmt)
        farther = fmt.nan_code if magnitude == fmt.max_magnitude and fmt.has_nan else magnitude + 1
        for tail in _tails(bits):
            value = low + tail * (high - low)
            if value == 0 or (magnitude == fmt.max_magnitude and not fmt.has_nan):
                continue
            codes = [project(value, fmt, projection, random=r) for r in range(1 << bits)]
            share = SHARES[variant](tail * (1 << bits))
            assert codes == [magnitude] * ((1 << bits) - share) + [farther] * share, (magnitude, tail)


@pytest.mark.parametrize("bits", [16, 32])
@pytest.mark.parametrize("variant", SHARES)
def test_of_many_random_bits_the_least_integer_that_rounds_up_does_and_one_less_does_not(variant, bits):
    """Tails with their last one at any place to 60: in a binade, among subnormals, below all of e4m3fn."""
    projection = Projection(rounding=stochastic(bits, variant))
    for shift in range(1, 61):
        for lead in (Fraction(0), Fraction(1, 2), Fraction(2**20 - 1, 2**20)):
            tail = lead + Fraction(1, 2**shift)
            if tail >= 1:
                continue
            share = SHARES[variant](tail * 2**bits)
            for magnitude in (0, 3, 0x38):
                low, high = value_of(magnitude, catalog.E4M3FN), value_of(magnitude + 1, catalog.E4M3FN)
                value = low + tail * (high - low)
                least = 2**bits - share
                if least > 0:
                    assert project(value, catalog.E4M3FN, projection, random=least - 1) == magnitude
                if share:
                    assert project(value, catalog.E4M3FN, projection, random=least) == magnitude + 1


@pytest.mark.parametrize("variant", ["A", "B", "C"])
@pytest.mark.parametrize(
    "fmt", [catalog.E4M3FN, catalog.E5M2, catalog.E8M0FNU, catalog.INT8F6, catalog.UE4M3], ids=str
)
def test_what_is_exactly_representable_never_moves(fmt, variant):
    """Every code, the largest random integer."""
    projection = Projection(rounding=stochastic(8, variant))
    for code in range(1 << fmt.width):
        value = decode(code, fmt)
        if value not in (Special.NAN, Special.NEGATIVE_NAN):
            assert project(value, fmt, projection, random=255) == code


# -- hardware ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variant", "name", "bits"),
    [
        ("ptx_rs", "e4m3fn", 16),
        ("ptx_rs", "binary16", 13),
        ("rdna4", "e5m2", 21),
        ("hip", "e4m3fnuz", 20),
        ("avx10_2", "e4m3fn", 7),
        ("avx10_2", "e5m2", 8),
    ],
)
def test_a_hardware_variant_is_variant_a_with_its_random_integer(variant, name, bits):
    """From 1 of each format, over tails around the least random integer."""
    fmt = catalog.format(name)
    one = next(code for code in range(1 << fmt.width) if decode(code, fmt) == 1)
    high = decode(one + 1, fmt)
    for tail in (Fraction(1, 2**bits) - TINY, Fraction(1, 2**bits), Fraction(1, 3), 1 - TINY):
        for random in (0, 1, 2**bits // 2, 2**bits // 3 * 2 + 1, 2**bits - 1):
            codes = {
                project(
                    1 + tail * (high - 1), fmt, Projection(rounding=stochastic(bits, name)), random=random
                )
                for name in (variant, "A")
            }
            assert len(codes) == 1


WORDS = [
    # variant, bits, format, word, the random integer of each lane
    ("A", 8, "e4m3fn", 0xABCDE123, [0xAB]),
    ("B", 1, "e4m3fn", 0x80000000, [1]),
    ("C", 32, "binary32", 0xABCDE123, [0xABCDE123]),
    ("ptx_rs", 16, "e4m3fn", 0x00018000, [0x8000, 0x0001, 0x0001, 0x8000]),
    ("ptx_rs", 16, "e5m2", 0xABCD1234, [0xB3D5, 0xABCD, 0x2C48, 0x1234]),
    ("ptx_rs", 16, "e2m3fn", 0xABCD1234, [0xB3D5, 0xABCD, 0x2C48, 0x1234]),
    ("ptx_rs", 16, "e3m2fn", 0xFFFF0000, [0xFFFF, 0xFFFF, 0, 0]),
    ("ptx_rs", 16, "bfloat16", 0xABCD1234, [0xABCD, 0x1234]),
    ("ptx_rs", 13, "binary16", 0xABCDF234, [0x0BCD, 0x1234]),
    ("rdna4", 20, "e4m3fn", 0xABCDE123, [0xABCDE]),
    ("rdna4", 21, "e5m2", 0xABCDE123, [0x1579BC]),
    ("rdna4", 20, "e4m3fnuz", 0xABCDE123, [0xABCDE]),
    ("hip", 20, "e4m3fn", 0xABCDE123, [0xDE123]),
    ("hip", 21, "e5m2fnuz", 0xABDDE123, [0x1DE123]),
    ("avx10_2", 8, "e5m2", 0xABCDE123, [0x23]),
    ("avx10_2", 7, "e4m3fn", 0xABCDE123, [0x11]),
]


@pytest.mark.parametrize(("variant", "bits", "name", "word", "integers"), WORDS, ids=str)
def test_random_integers_are_cut_out_of_words_as_the_hardware_does(variant, bits, name, word, integers):
    """By hand: 0xABCD is 1010101111001101, reversed 1011001111010101 = 0xB3D5; 0x1234 reversed is 0x2C48."""
    fmt, rounding = catalog.format(name), stochastic(bits, variant)
    assert lanes(rounding, fmt) == len(integers)
    assert [random_integer(word, lane, rounding, fmt) for lane in range(len(integers))] == integers


# -- refusals ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "random", "message"),
    [
        ("stochastic(8)", None, "random is missing; stochastic(8, A) needs an integer from 0 to 255"),
        ("stochastic(8)", 256, "random=256 of stochastic(8, A) is out of range; use 0 to 255"),
        ("stochastic(8)", -1, "random=-1 of stochastic(8, A) is out of range; use 0 to 255"),
        ("nearest_even", 0, "random=0 is given, but nearest_even is deterministic; leave it out"),
    ],
)
def test_a_random_integer_that_the_mode_does_not_take_is_refused(mode, random, message):
    """Missing, outside and superfluous, even where nothing is rounded."""
    for value in (Fraction(1), Special.NAN):
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            project(value, catalog.E4M3FN, Projection(rounding=mode), random=random)


MISFITS = [
    ("ptx_rs", 13, "e4m3fn", "does not fit 'e4m3fn'; use bits=16"),
    ("ptx_rs", 16, "binary16", "does not fit 'binary16'; use bits=13"),
    (
        "ptx_rs",
        16,
        "e2m1fn",
        "has no conversion to 'e2m1fn'; it has e4m3fn, e5m2, e2m3fn, e3m2fn, bfloat16, binary16",
    ),
    ("rdna4", 21, "e4m3fn", "does not fit 'e4m3fn'; use bits=20"),
    (
        "rdna4",
        16,
        "bfloat16",
        "has no conversion to 'bfloat16'; it has binary formats of 8 bits with a sign bit",
    ),
    ("hip", 20, "ue5m3", "has no conversion to 'ue5m3'; it has binary formats of 8 bits with a sign bit"),
    ("hip", 20, "posit8", "has no conversion to 'posit8'; it has binary formats of 8 bits with a sign bit"),
    ("hip", 20, "e5m2fnuz", "does not fit 'e5m2fnuz'; use bits=21"),
    ("avx10_2", 8, "e4m3fn", "does not fit 'e4m3fn'; use bits=7"),
    ("avx10_2", 7, "e4m3fnuz", "has no conversion to 'e4m3fnuz'; it has e5m2, e4m3fn"),
]


@pytest.mark.parametrize(("variant", "bits", "name", "message"), MISFITS, ids=str)
def test_a_hardware_variant_that_does_not_fit_the_format_is_refused(variant, bits, name, message):
    """In projecting, counting lanes and cutting words; the message names variant, bits, format, remedy."""
    fmt, rounding = catalog.format(name), stochastic(bits, variant)
    whole = f"^{re.escape(f'variant={variant!r} with bits={bits} {message}')}$"
    with pytest.raises(ValueError, match=whole):
        project(Fraction(1), fmt, Projection(rounding=rounding), random=0)
    with pytest.raises(ValueError, match=whole):
        lanes(rounding, fmt)
    with pytest.raises(ValueError, match=whole):
        random_integer(0, 0, rounding, fmt)


def test_words_and_lanes_outside_their_range_are_refused():
    """And a mode that takes none."""
    for word, lane, message in [
        (-1, 0, "word=-1"),
        (2**32, 0, "word=4294967296"),
        (0, 4, "lane=4"),
        (0, -1, "lane="),
    ]:
        with pytest.raises(ValueError, match=f"^{message}.* is out of range; use 0 to"):
            random_integer(word, lane, stochastic(16, "ptx_rs"), catalog.E4M3FN)
    with pytest.raises(ValueError, match=r"^nearest_even is deterministic and takes no random word$"):
        random_integer(0, 0, NEAREST_EVEN, catalog.E4M3FN)


def test_a_stochastic_projection_has_no_steps():
    """Its codes are no function of the operand alone."""
    with pytest.raises(ValueError, match=r"^stochastic\(8, A\) has no steps"):
        steps(catalog.E2M1FN, Projection(rounding="stochastic(8)"))
