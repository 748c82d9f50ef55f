"""Formats: the published limits of each, typed out; what follows from them; and what is no format."""

import dataclasses
import itertools
import re
from fractions import Fraction

import pytest
from hypothesis import given, strategies as st

from lowprec.cli.definitions import from_text
from lowprec.oracle.convert import decode
from lowprec.oracle.exact import Special
from lowprec.spec import catalog
from lowprec.spec.families import finite, fixed, fn, fnuz, ieee, p3109, power_of_two
from lowprec.spec.format import Carrier, Format, Sign, exact_float
from tests.support import CATALOG_UP_TO_8, UP_TO_8, refusal_test

# -- the catalog, as published ----------------------------------------------------------------------

PUBLISHED = {
    # name: (width, e, t, bias), infinity, NaN codes of + and - (None: the rest of the top binade), -0,
    #       max_finite, min_normal, min_subnormal
    "binary32": ((32, 8, 23, 127), 0x7F800000, "t != 0", True, 3.4028234663852886e38, 2.0**-126, 2.0**-149),
    "tf32": ((19, 8, 10, 127), 0x3FC00, "t != 0", True, 3.4011621342146535e38, 2.0**-126, 2.0**-136),
    "binary16": ((16, 5, 10, 15), 0x7C00, "t != 0", True, 65504.0, 2.0**-14, 2.0**-24),
    "bfloat16": ((16, 8, 7, 127), 0x7F80, "t != 0", True, 3.3895313892515355e38, 2.0**-126, 2.0**-133),
    "e5m2": ((8, 5, 2, 15), 0x7C, [0x7D, 0x7E, 0x7F, 0xFD, 0xFE, 0xFF], True, 57344.0, 2.0**-14, 2.0**-16),
    "e4m3fn": ((8, 4, 3, 7), None, [0x7F, 0xFF], True, 448.0, 2.0**-6, 2.0**-9),
    "float8_e4m3": (
        (8, 4, 3, 7),
        0x78,
        [*range(0x79, 0x80), *range(0xF9, 0x100)],
        True,
        240.0,
        2.0**-6,
        2.0**-9,
    ),
    "e3m4": ((8, 3, 4, 3), 0x70, [*range(0x71, 0x80), *range(0xF1, 0x100)], True, 15.5, 2.0**-2, 2.0**-6),
    "e4m3fnuz": ((8, 4, 3, 8), None, [0x80], False, 240.0, 2.0**-7, 2.0**-10),
    "e5m2fnuz": ((8, 5, 2, 16), None, [0x80], False, 57344.0, 2.0**-15, 2.0**-17),
    "e4m3b11fnuz": ((8, 4, 3, 11), None, [0x80], False, 30.0, 2.0**-10, 2.0**-13),
    "e2m3fn": ((6, 2, 3, 1), None, [], True, 7.5, 1.0, 0.125),
    "e3m2fn": ((6, 3, 2, 3), None, [], True, 28.0, 0.25, 0.0625),
    "e2m1fn": ((4, 2, 1, 1), None, [], True, 6.0, 1.0, 0.5),
    "e3m0fn": ((4, 3, 0, 3), None, [], True, 16.0, 0.25, None),
    "ue4m3": ((7, 4, 3, 7), None, [0x7F], False, 448.0, 2.0**-6, 2.0**-9),
    "ue5m3": ((8, 5, 3, 15), None, [0xFF], False, 114688.0, 2.0**-14, 2.0**-17),
    "e8m0fnu": ((8, 8, 0, 127), None, [0xFF], False, 2.0**127, 2.0**-127, None),
    "int8f6": ((8, 0, 7, 0), None, [], False, 1.984375, None, 2.0**-6),
    "sm8f6": ((8, 0, 7, 0), None, [], True, 1.984375, None, 2.0**-6),
    "sm4f2": ((4, 0, 3, 0), None, [], True, 1.75, None, 0.25),
    "sm2f0": ((2, 0, 1, 0), None, [], True, 1.0, None, 1.0),
    "int2": ((2, 0, 1, 0), None, [], False, 1.0, None, 1.0),
    "int4": ((4, 0, 3, -2), None, [], False, 7.0, None, 1.0),
    "int8": ((8, 0, 7, -6), None, [], False, 127.0, None, 1.0),
    "uint2": ((2, 0, 2, -1), None, [], False, 3.0, None, 1.0),
    "uint4": ((4, 0, 4, -3), None, [], False, 15.0, None, 1.0),
    "uint8": ((8, 0, 8, -7), None, [], False, 255.0, None, 1.0),
}

NAN_CODES = {
    "binary32": 0x7FC00000, "tf32": 0x3FE00, "binary16": 0x7E00, "bfloat16": 0x7FC0, "e5m2": 0x7E,
    "e4m3fn": 0x7F, "float8_e4m3": 0x7C, "e3m4": 0x78, "e4m3fnuz": 0x80, "e5m2fnuz": 0x80,
    "e4m3b11fnuz": 0x80, "ue4m3": 0x7F, "ue5m3": 0xFF, "e8m0fnu": 0xFF,
}  # fmt: skip


def test_the_published_table_is_of_the_whole_catalog():
    """A format added to the catalog fails here until its published numbers are typed in above."""
    assert set(PUBLISHED) == set(catalog.FORMATS)


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_catalogs_numbers_are_the_published_ones(name):
    """Published: copied from the standards and vendors' documents, not computed."""
    shape, infinity, nans, negative_zero, max_finite, min_normal, min_subnormal = PUBLISHED[name]
    fmt = catalog.FORMATS[name]
    assert (fmt.width, fmt.exponent_bits, fmt.trailing_bits, fmt.bias) == shape
    assert fmt.infinity_code == infinity
    assert fmt.nan_code == NAN_CODES.get(name)
    assert fmt.has_nan is (name in NAN_CODES)
    assert fmt.has_negative_zero is negative_zero
    assert (fmt.max_finite, fmt.min_normal, fmt.min_subnormal) == (max_finite, min_normal, min_subnormal)
    if fmt.width <= 8:
        assert [code for code in range(1 << fmt.width) if _is_nan(decode(code, fmt))] == nans


def _is_nan(value):
    return value in (Special.NAN, Special.NEGATIVE_NAN)


@pytest.mark.parametrize(
    ("name", "extremes"),
    [
        ("e4m3fn", (-448.0, 8, 4, -6, 2.0**-3)),  # min_finite, emax, precision, emin, eps
        ("binary16", (-65504.0, 15, 11, -14, 2.0**-10)),
        ("e8m0fnu", (2.0**-127, 127, 1, -127, 1.0)),
        ("ue4m3", (0.0, 8, 4, -6, 2.0**-3)),
        ("e2m1fn", (-6.0, 2, 2, 0, 0.5)),
        ("e3m0fn", (-16.0, 4, 1, -2, 1.0)),
    ],
)
def test_other_limits_are_what_their_definitions_say(name, extremes):
    """min_finite, emax, precision, emin and the ulp of 1, worked out by hand."""
    fmt = catalog.FORMATS[name]
    assert (fmt.min_finite, fmt.emax, fmt.precision, fmt.emin, fmt.eps) == extremes


@pytest.mark.parametrize(
    ("bias", "trailing_bits", "eps"),
    [
        (2, 2, 0.25),
        (1, 2, 0.25),
        (0, 2, 0.5),  # 0, 0.5, 1 = 2 * 0.5, 1.5, then normal numbers from 2
        (-1, 2, 1.0),
        (-2, 2, None),  # steps of 2
        (0, 0, None),  # 0, 2, 4
    ],
)
def test_the_ulp_of_1_is_known_where_1_is_subnormal(bias, trailing_bits, eps):
    """Formats whose smallest normal value is above 1."""
    fmt = Format(name="f", exponent_bits=3, trailing_bits=trailing_bits, bias=bias)
    assert fmt.eps == eps
    if eps is not None:
        values = [value for code in range(1 << 5) if isinstance(value := decode(code, fmt), Fraction)]
        assert min(value for value in values if value > 1) - 1 == eps
    assert Format(name="f", exponent_bits=1, trailing_bits=1, bias=0, sign=Sign.UNSIGNED, nans=2).eps is None


def test_twos_complement_has_one_more_value_below_than_above():
    """int8f6's -2 and int8's -128 are values like any other."""
    assert [catalog.FORMATS[name].min_finite for name in ("int2", "int4", "int8", "int8f6")] == [
        -2.0,
        -8.0,
        -128.0,
        -2.0,
    ]
    assert [catalog.FORMATS[name].min_finite for name in ("uint2", "uint4", "uint8")] == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("fmt", "eps"),
    [
        (fixed("q", 8, 6), 2.0**-6),
        (fixed("coarse", 8, -1), None),  # 1 is no multiple of 2
        (fixed("fraction", 8, 7), None),  # all below 1
        (fixed("u1", 2, 1, signed=False), 0.5),
        (fixed("int2", 2), None),  # 1 is the last
        (Format(name="below", exponent_bits=3, trailing_bits=2, bias=40), None),
        (Format(name="above", exponent_bits=3, trailing_bits=2, bias=-3), None),
        (Format(name="one_is_last", exponent_bits=2, trailing_bits=0, bias=3), None),
    ],
    ids=lambda item: str(item),
)
def test_eps_is_the_ulp_of_one_or_none(fmt, eps):
    """None where 1 has no code, or is the largest value."""
    assert fmt.eps == eps


@pytest.mark.parametrize("fmt", UP_TO_8, ids=str)
def test_derived_limits_are_those_of_the_decoded_codes(fmt):
    """Exhaustive: largest, smallest and smallest positive value among all codes; and which specials exist."""
    values = [decode(code, fmt) for code in range(1 << fmt.width)]
    numbers = [value for value in values if isinstance(value, Fraction)]
    assert Fraction(fmt.max_finite) == max(numbers)
    assert Fraction(fmt.min_finite) == min(numbers)
    positive = min(value for value in numbers if value > 0)
    assert positive == Fraction(fmt.min_normal if fmt.min_subnormal is None else fmt.min_subnormal)
    assert fmt.has_negative_zero is (Special.NEGATIVE_ZERO in values)
    assert fmt.has_nan is any(_is_nan(value) for value in values)
    assert fmt.has_signed_nan is (Special.NEGATIVE_NAN in values)
    assert (fmt.infinity_code is not None) is (Special.INFINITY in values)
    assert fmt.infinity_code is None or values[fmt.infinity_code] is Special.INFINITY
    assert fmt.nan_code is None or values[fmt.nan_code] is Special.NAN
    assert fmt.code_bits == 8


@pytest.mark.parametrize(("width", "bits"), [(2, 8), (8, 8), (9, 16), (16, 16), (17, 32), (19, 32), (32, 32)])
def test_codes_take_8_16_or_32_bits(width, bits):
    """The ends of each range of widths."""
    assert fixed("i", width).code_bits == bits


def test_minus_zero_is_where_the_sign_bit_alone_is_no_nan():
    """Of the catalog: all signed magnitude formats but the fnuz ones."""
    lacking = {
        name
        for name, fmt in catalog.FORMATS.items()
        if fmt.sign is Sign.MAGNITUDE and not fmt.has_negative_zero
    }
    assert lacking == {"e4m3fnuz", "e5m2fnuz", "e4m3b11fnuz"}


# -- P3109 ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "bias", "max_finite", "min_positive"),
    [
        ("binary8p3se", 16, 49152.0, 2.0**-17),
        ("binary8p4sf", 8, 240.0, 2.0**-10),
        ("binary8p4se", 8, 224.0, 2.0**-10),
        ("binary8p5se", 4, 15.0, 2.0**-7),
        ("binary4p2sf", 2, 3.0, 0.25),
        ("binary8p1uf", 128, 2.0**126, 2.0**-127),
    ],
)
def test_p3109_examples_are_the_drafts(name, bias, max_finite, min_positive):
    """Published: draft 4.0's own numbers; tests/agreement/test_published.py has 242 whole tables."""
    fmt = catalog.format(name)
    assert fmt.name == name
    assert (fmt.bias, fmt.max_finite) == (bias, max_finite)
    assert (fmt.min_normal if fmt.min_subnormal is None else fmt.min_subnormal) == min_positive


def test_binary8p4sf_is_e4m3fnuz_and_binary8p1uf_is_not_e8m0fnu():
    """Formats are their parameters; the second pair differs in zero and bias."""
    assert p3109(8, 4, extended=False) == catalog.E4M3FNUZ
    assert p3109(8, 1, signed=False, extended=False) != catalog.E8M0FNU
    assert decode(0, p3109(8, 1, signed=False, extended=False)) == 0
    assert decode(0, catalog.E8M0FNU) == Fraction(1, 2**127)


P3109_PARAMETERS = [
    (width, precision, signed, extended)
    for width in range(3, 17)
    for signed, extended in itertools.product((True, False), repeat=2)
    for precision in range(1, width + (not signed))
]

# Their smallest value is below float64's.
BEYOND_FLOAT64 = {
    *((12, p, False) for p in (1,)),
    *((13, p, False) for p in (1, 2)),
    *((14, p, False) for p in (1, 2, 3)),
    *((15, p, False) for p in (1, 2, 3, 4)),
    *((16, p, False) for p in (1, 2, 3, 4, 5)),
    *((13, p, True) for p in (1,)),
    *((14, p, True) for p in (1, 2)),
    *((15, p, True) for p in (1, 2, 3)),
    *((16, p, True) for p in (1, 2, 3, 4)),
}


def test_25_combinations_of_width_precision_and_sign_do_not_fit_float64():
    """Their exponent fields have 12 bits or more: 2**-2047 and below."""
    assert len(BEYOND_FLOAT64) == 25


def test_every_p3109_format_up_to_16_bits_has_the_drafts_shape_or_is_refused():
    """All 494: name, bias and the places of NaN and infinity as in the draft's section 4."""
    for width, precision, signed, extended in P3109_PARAMETERS:
        name = f"binary{width}p{precision}{'s' if signed else 'u'}{'e' if extended else 'f'}"
        if (width, precision, signed) in BEYOND_FLOAT64:
            with pytest.raises(
                ValueError, match=f"^the smallest step of '{name}' .*, below float64's 2.*-1074"
            ):
                p3109(width, precision, signed=signed, extended=extended)
            continue
        fmt = p3109(width, precision, signed=signed, extended=extended)
        assert (fmt.name, fmt.width, fmt.precision) == (name, width, precision)
        assert fmt.bias == 2 ** (width - precision - signed), name
        assert fmt.nan_code == (2 ** (width - 1) if signed else 2**width - 1), name
        top = 2 ** (width - 1) - 1 if signed else 2**width - 2
        assert fmt.infinity_code == (top if extended else None), name
        assert not fmt.has_negative_zero, name
        assert catalog.format(name.upper()) == fmt


@pytest.mark.parametrize(
    ("width", "precision", "signed", "message"),
    [
        (2, 1, True, "width=2 of P3109 format 'binary2p1se' is out of range; use 3 to 16"),
        (17, 3, True, "width=17 of P3109 format 'binary17p3se' is out of range; use 3 to 16"),
        (8, 0, True, "precision=0 of P3109 format 'binary8p0se' is out of range; use 1 to 7"),
        (8, 8, True, "precision=8 of P3109 format 'binary8p8se' is out of range; use 1 to 7"),
        (8, 9, False, "precision=9 of P3109 format 'binary8p9ue' is out of range; use 1 to 8"),
    ],
)
def test_p3109_parameters_out_of_the_drafts_ranges_are_refused(width, precision, signed, message):
    """Just outside each end."""
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        p3109(width, precision, signed=signed)


@pytest.mark.parametrize("exponent_bits", [1, 2, 3, 4, 5, 8])
def test_bits_alone_make_a_format(exponent_bits):
    """With IEEE's bias and no special values, as on the command line; signs go by name too."""
    fmt = Format(exponent_bits=exponent_bits, trailing_bits=4)
    assert (fmt.name, fmt.bias, fmt.has_nan, fmt.infinity) == (
        "private",
        2 ** (exponent_bits - 1) - 1,
        False,
        False,
    )
    assert fmt == from_text(f"exponent_bits={exponent_bits},trailing_bits=4")
    assert dataclasses.replace(fmt, trailing_bits=3).bias == fmt.bias
    unsigned = Format(exponent_bits=exponent_bits, trailing_bits=4, sign="unsigned")
    assert unsigned.sign is Sign.UNSIGNED
    assert hash(unsigned) == hash(dataclasses.replace(fmt, sign=Sign.UNSIGNED))


# -- what is no format ------------------------------------------------------------------------------

GOOD = dict(name="x", exponent_bits=4, trailing_bits=3, bias=7)

test_parameters_that_are_no_format_are_refused_by_name = refusal_test(
    {**globals(), "changed": lambda **change: Format(**{**GOOD, **change})},
    """
changed(exponent_bits=-1)
    ValueError: exponent_bits=-1 of format 'x' is negative; it counts bits or codes. Use 0 or more
changed(trailing_bits=-1)
    ValueError: trailing_bits=-1 of format 'x' is negative; it counts bits or codes. Use 0 or more
changed(nans=-1)
    ValueError: nans=-1 of format 'x' is negative; it counts bits or codes. Use 0 or more
changed(exponent_bits=8, trailing_bits=24)
    ValueError: exponent_bits=8 of format 'x' with trailing_bits=24 makes 33 bits in all; use 2 to 32
changed(exponent_bits=0, trailing_bits=0)
    ValueError: exponent_bits=0 of format 'x' with trailing_bits=0 makes 1 bits in all; use 2 to 32
changed(sign=Sign.TWOS_COMPLEMENT)
    ValueError: exponent_bits=4 of format 'x' cannot be in two's complement; use Sign.MAGNITUDE, or
    exponent_bits=0
changed(sign=Sign.TWOS_COMPLEMENT, exponent_bits=0, nans=1)
    ValueError: nans=1 of format 'x' cannot be in two's complement, where every code is a number; use 0
changed(sign=Sign.TWOS_COMPLEMENT, exponent_bits=0, infinity=True)
    ValueError: infinity=True of format 'x' cannot be in two's complement, where every code is a number;
    use False
changed(sign=Sign.UNSIGNED, negative_zero=False)
    ValueError: negative_zero=False of format 'x' means nothing for Sign.UNSIGNED, which has no code of
    -0; leave it True
changed(exponent_bits=0, subnormals=False)
    ValueError: subnormals=False of format 'x' leaves no values where exponent_bits=0; use True
changed(negative_zero=False, subnormals=False)
    ValueError: subnormals=False of format 'x' leaves no zero whose sign negative_zero=False could
    spend; use True for one of them
changed(nans=127)
    ValueError: nans=127 of format 'x' with infinity=False leaves no finite non-zero code; use fewer
changed(nans=126, infinity=True)
    ValueError: nans=126 of format 'x' with infinity=True leaves no finite non-zero code; use fewer
changed(nans=128, subnormals=False)
    ValueError: nans=128 of format 'x' with infinity=False leaves no finite non-zero code; use fewer
changed(bias=1073)
    ValueError: the smallest step of 'x' is 2**-1075, below float64's 2**-1074, and lowprec carries
    values in float64. Reduce exponent_bits=4 or bias=1073
changed(bias=-1009)
    ValueError: the largest value of 'x' is at least 2**1024, above float64's range, and lowprec carries
    values in float64. Reduce exponent_bits=4 or increase bias=-1009
""",
)


def test_parameters_just_inside_the_limits_are_formats():
    """Each refusal above has a neighbour that works: no check is too strict by one."""
    assert Format(**{**GOOD, "bias": 1072}).min_subnormal == 2.0**-1074
    assert Format(**{**GOOD, "bias": -1008}).max_finite == 1.875 * 2.0**1023
    assert Format(**{**GOOD, "bias": -1009, "nans": 8}).max_finite == 1.875 * 2.0**1023
    assert Format(**{**GOOD, "nans": 126}).max_finite == 2.0**-9
    assert Format(**{**GOOD, "nans": 127, "subnormals": False}).max_finite == 2.0**-7
    assert Format(**{**GOOD, "exponent_bits": 8, "trailing_bits": 23, "bias": 127}).width == 32
    assert Format(name="x", exponent_bits=0, trailing_bits=1, bias=0).max_finite == 1.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (dict(exponent_bits=4.0), "exponent_bits of a format must be of type int, not 4.0"),
        (dict(trailing_bits="3"), "trailing_bits of a format must be of type int, not '3'"),
        (dict(bias=True), "bias of a format must be of type int, not True"),
        (dict(nans=None), "nans of a format must be of type int, not None"),
        (dict(infinity=1), "infinity of a format must be of type bool, not 1"),
        (dict(negative_zero=0), "negative_zero of a format must be of type bool, not 0"),
        (dict(subnormals=None), "subnormals of a format must be of type bool, not None"),
        (
            dict(sign="none"),
            "sign of a format must be of type Sign, not 'none', one of magnitude, unsigned, twos_complement",
        ),
        (dict(name=3), "name of a format must be of type str, not 3"),
        (dict(source=None), "source of a format must be of type str, not None"),
    ],
    ids=str,
)
def test_parameters_of_a_wrong_type_are_refused_by_name(change, message):
    """Each field; a bool is no int here."""
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        Format(**{**GOOD, **change})


# -- equality and text ------------------------------------------------------------------------------


def test_formats_are_their_parameters_and_cannot_be_changed():
    """Equal and of equal hash whatever they are called, and hence usable as keys."""
    mine = Format(name="mine", exponent_bits=4, trailing_bits=3, bias=7, nans=1, source="elsewhere")
    assert mine == catalog.E4M3FN
    assert hash(mine) == hash(catalog.E4M3FN)
    assert mine != catalog.FLOAT8_E4M3
    with pytest.raises(dataclasses.FrozenInstanceError):
        mine.bias = 8


@pytest.mark.parametrize("fmt", [*catalog.FORMATS.values(), p3109(8, 3), p3109(7, 1, signed=False)], ids=str)
def test_a_formats_repr_makes_it_again_and_its_str_is_its_name(fmt):
    """Names and sources too, which equality leaves out."""
    again = eval(repr(fmt), {"Format": Format, "Sign": Sign})
    assert again == fmt
    assert (again.name, again.source) == (fmt.name, fmt.source)
    assert str(fmt) == fmt.name


def test_a_repr_says_what_is_not_the_default():
    """And nothing else."""
    expected = "Format(name='e4m3fn', exponent_bits=4, trailing_bits=3, bias=7, nans=1, source='OFP8')"
    assert repr(catalog.E4M3FN) == expected
    assert repr(catalog.CARRIERS["int16"]).startswith(
        "Carrier(name='int16', exponent_bits=0, trailing_bits=15"
    )


# -- families ---------------------------------------------------------------------------------------


def test_families_make_the_catalogs_formats():
    """The constructors are the definitions; what they leave out are the parameters of `Format`."""
    assert ieee("a", 5, 10) == catalog.BINARY16
    assert fn("a", 4, 3) == catalog.E4M3FN
    assert fnuz("a", 4, 3, bias=11) == catalog.E4M3B11FNUZ
    assert finite("a", 2, 1) == catalog.E2M1FN
    assert power_of_two("a", 8) == catalog.E8M0FNU
    assert fixed("a", 8, 6) == catalog.INT8F6


@given(width=st.integers(2, 32), fraction_bits=st.integers(-40, 40), signed=st.booleans())
def test_fixed_point_has_the_range_of_its_integers(width, fraction_bits, signed):
    """A law: the largest and the most negative integer, and 1, scaled."""
    fmt = fixed("f", width, fraction_bits, signed=signed)
    step = Fraction(2) ** -fraction_bits
    largest = (1 << (width - signed)) - 1
    assert Fraction(fmt.max_finite) == largest * step
    assert Fraction(fmt.min_finite) == (-(largest + 1) * step if signed else 0)
    assert Fraction(fmt.min_subnormal) == step


# -- contains ---------------------------------------------------------------------------------------


def _values(fmt):
    """All that a format has; NaN is one thing."""
    values = {decode(code, fmt) for code in range(1 << fmt.width)}
    return {Special.NAN if value is Special.NEGATIVE_NAN else value for value in values}


SETS = {fmt: _values(fmt) for fmt in UP_TO_8}


def test_a_format_of_few_codes_without_zero_is_not_contained_in_one_of_less_precision():
    """1 and 1 + 2**-9 are all that it has, and the second is no bfloat16: decode must not give it as one."""
    fmt = Format(
        name="x", exponent_bits=1, trailing_bits=9, bias=0, sign=Sign.UNSIGNED, nans=1022, subnormals=False
    )
    assert [decode(code, fmt) for code in (0, 1)] == [1, 1 + Fraction(1, 512)]
    assert not catalog.BFLOAT16.contains(fmt)


def test_contains_is_the_subset_relation_of_all_small_formats():
    """Exhaustive over 142 x 142 pairs, values compared as sets: numbers, signed zeros, infinities, NaN."""
    wrong = [
        f"{ours} contains {theirs}: {ours.contains(theirs)}"
        for ours, theirs in itertools.product(UP_TO_8, repeat=2)
        if ours.contains(theirs) is not (SETS[theirs] <= SETS[ours])
    ]
    assert wrong == []


def _tiny_formats():
    """Every format of at most 4 bits with bias 0 or 1."""
    for (
        exponent_bits,
        trailing_bits,
        bias,
        sign,
        nans,
        infinity,
        negative_zero,
        subnormals,
    ) in itertools.product(
        range(4), range(4), (0, 1), Sign, range(8), (False, True), (False, True), (False, True)
    ):
        if exponent_bits + trailing_bits + (sign is not Sign.UNSIGNED) <= 4:
            try:
                yield Format(
                    name=f"{exponent_bits}/{trailing_bits}/{bias}/{sign}/{nans}/{infinity}/{negative_zero}/{subnormals}",
                    exponent_bits=exponent_bits,
                    trailing_bits=trailing_bits,
                    bias=bias,
                    sign=sign,
                    nans=nans,
                    infinity=infinity,
                    negative_zero=negative_zero,
                    subnormals=subnormals,
                )
            except ValueError:
                continue


@pytest.mark.apart
def test_contains_is_the_subset_relation_of_all_tiny_formats():
    """Exhaustive over odd shapes too: without zero, with most codes spent on NaNs, of one or two values."""
    sets = {fmt: _values(fmt) for fmt in _tiny_formats()}
    wrong = [
        f"{ours!r} contains {theirs!r}: {ours.contains(theirs)}"
        for ours, theirs in itertools.product(sets, repeat=2)
        if ours.contains(theirs) is not (sets[theirs] <= sets[ours])
    ]
    assert wrong == []


def test_contains_of_wide_formats_is_as_known():
    """binary32 holds every catalog format; bfloat16 does not hold binary16, nor the reverse."""
    assert all(catalog.BINARY32.contains(fmt) for fmt in catalog.FORMATS.values())
    assert all(
        catalog.BINARY16.contains(fmt) for fmt in CATALOG_UP_TO_8 if fmt.name not in ("ue5m3", "e8m0fnu")
    )
    assert not catalog.BINARY16.contains(catalog.UE5M3)  # 114688 > 65504
    assert not catalog.BFLOAT16.contains(catalog.BINARY16)
    assert not catalog.BINARY16.contains(catalog.BFLOAT16)
    assert catalog.TF32.contains(catalog.BINARY16)
    assert catalog.TF32.contains(catalog.BFLOAT16)
    assert catalog.BINARY16.contains(fixed("int12", 12))
    assert not catalog.BINARY16.contains(fixed("int13", 13))
    assert catalog.BINARY64.contains(fixed("int32", 32))
    assert catalog.BINARY64.contains(p3109(16, 6))


def test_a_carrier_is_a_format_whose_limits_are_waived():
    """binary64 itself, and integers of 1 to 64 bits."""
    assert isinstance(catalog.BINARY64, Carrier)
    assert catalog.BINARY64.max_finite == 1.7976931348623157e308
    assert catalog.BINARY64.min_subnormal == 5e-324
    assert {name: fmt.width for name, fmt in catalog.CARRIERS.items()} == {
        "binary64": 64, "int1": 1, "uint1": 1, "int16": 16, "uint16": 16, "int32": 32, "uint32": 32,
        "int64": 64, "uint64": 64,
    }  # fmt: skip


# -- NaNs -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "quiet_bit", "payload_bits"),
    [
        ({"nans": 7, "infinity": True}, 4, 2),  # IEEE 754's: 3 trailing bits, of which the first is the bit
        ({"nans": 7, "infinity": True, "sign": Sign.UNSIGNED}, 4, 2),
        ({"nans": 7, "infinity": True, "negative_zero": False}, 4, None),  # no NaN has a sign to keep either
        ({"nans": 6, "infinity": True}, None, None),  # one code more is finite
        ({"nans": 8}, None, None),  # no infinity
        ({"nans": 1, "infinity": True, "trailing_bits": 1}, 1, 0),  # the only NaN is quiet
        ({"nans": 0, "infinity": True, "trailing_bits": 0}, None, None),
        ({"negative_zero": False}, None, None),
    ],
    ids=str,
)
def test_quiet_bits_and_payloads_follow_from_the_nans(fields, quiet_bit, payload_bits):
    """Worked out by hand from IEEE 754, 3.4 and 6.2.1."""
    fmt = Format(**{"exponent_bits": 3, "trailing_bits": 3, **fields})
    assert (fmt.quiet_bit, fmt.payload_bits) == (quiet_bit, payload_bits)


# -- exact floats -----------------------------------------------------------------------------------


@given(significand=st.integers(-(1 << 53), 1 << 53), exponent=st.integers(-1074, 970))
def test_exact_float_is_the_number(significand, exponent):
    """A law: every 53-bit significand at every exponent, subnormals too; Fraction of it is the number."""
    assert Fraction(exact_float(significand, exponent)) == Fraction(significand) * Fraction(2) ** exponent


@pytest.mark.parametrize(
    ("significand", "exponent"),
    [(1, -1075), (1, 1024), ((1 << 53) + 1, 0), (3, -1075), (1 << 53, 971), (-1, 1024)],
)
def test_exact_float_refuses_what_is_no_float64(significand, exponent):
    """An assertion: it is an error of ours, not of a user."""
    with pytest.raises(AssertionError, match="not a float64"):
        exact_float(significand, exponent)


def test_exact_float_takes_trailing_zeros_beyond_53_bits():
    """The significand may be long as long as the number is a float64."""
    assert exact_float(1 << 80, -80) == 1.0
    assert exact_float(3 << 1100, -1100) == 3.0
    assert exact_float(1 << 10, -1084) == 5e-324
