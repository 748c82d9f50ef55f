"""Codebooks: what their sources publish of them, what is refused, and that they compare by value."""

import copy
import dataclasses
import decimal
import hashlib
import math
import pickle
import struct
from fractions import Fraction

import numpy as np
import pytest

from lowprec.arrays.convert import encode
from lowprec.spec import catalog
from lowprec.spec.codebook import Codebook
from lowprec.spec.codebooks import CODEBOOKS, dynamic_map, lns, named, posit, takum
from tests.support import refusal_test

NAN, INFINITY = math.nan, math.inf


def values(name: str) -> list[float]:
    return [float(value) for value in catalog.format(name).values]


# -- what is published ---------------------------------------------------------------------------------

#: Codes of numbers, as the documents and the reference implementations of each have them.
PUBLISHED = {
    "posit8": {
        0x40: 1.0, 0x48: 2.0, 0x4D: 3.25, 0x78: 4096.0, 0x7E: 2.0**20, 0x7F: 2.0**24, 0x01: 2.0**-24,
        0x02: 2.0**-20, 0x33: 0.34375, 0x25: 0.1015625, 0xC0: -1.0, 0x81: -(2.0**24),
    },
    "posit16": {0x4C91: 3.1416015625, 0x4AE0: 2.71875, 0x32AB: 0.3333740234375, 0x7FFF: 2.0**56, 1: 2.0**-56},
    "posit16_es1": {0x5922: 3.1416015625, 0x55BF: 2.71826171875, 0x7FFF: 2.0**28},
    "posit8_es0": {0x69: 3.125, 0x66: 2.75, 0x15: 0.328125, 0x7F: 64.0, 1: 1 / 64},
    "takum_linear8": {0x40: 1.0, 0x7F: 2.0**239, 0x01: 2.0**-239, 74: 3.0, 0xC0: -1.0},
    "takum_linear16": {0x4000: 1.0, 0x7FFF: 1.9375 * 2.0**254, 1: 1.0625 * 2.0**-255, 19016: 3.140625},
    "takum8": {0x40: 1.0, 0x7F: 7.910256885566915e51},
    "takum16": {
        0x4000: 1.0,
        0x7FFF: 2.2854658698270414e55,
        1: 4.375475535216273e-56,
        19752: 3.1409686826381296,
    },
    "hif8": {
        0x08: 1.0, 0x10: 2.0, 0x18: 0.5, 0x20: 4.0, 0x30: 0.25, 0x40: 16.0, 0x50: 2.0**-4, 0x60: 256.0,
        0x70: 2.0**-8, 0x7F: 1.5 * 2.0**-15, 0x7E: 2.0**-15, 0x01: 2.0**-22, 0x07: 2.0**-16,
        0x6D: 24576.0, 0x6E: 32768.0, 0x6F: INFINITY, 0xEF: -INFINITY,
    },
    "lns16_8": {0: 1.0, 0x8000: -1.0, 0x0100: 2.0, 0x3FFF: 2.0**63.99609375, 0x4000: 0.0},
    "nf4": {0: -1.0, 1: -0.6961928009986877, 7: 0.0, 8: 0.07958029955625534, 15: 1.0},
    "fp4_bnb": {
        1: 0.0052083334885537624,
        2: 0.6666666865348816,
        3: 1.0,
        4: 0.3333333432674408,
        6: 0.1666666716337204,
    },
    "iq4_nl": {0: -127.0, 7: -10.0, 8: 1.0, 15: 113.0},
    "dynamic8": {0: -0.992968738079071, 127: 0.0, 128: 5.500000384017767e-07, 255: 1.0},
    "udynamic8": {0: 0.0, 1: 3.2500003044333425e-07, 254: 0.9964843988418579, 255: 1.0},
}  # fmt: skip

#: The one NaN of those that have one.
NANS = {
    "posit8": 0x80, "posit16": 0x8000, "takum8": 0x80, "takum_linear16": 0x8000, "hif8": 0x80,
    "lns16_8": 0xC000, "nf4": None, "fp4_bnb": None, "iq4_nl": None, "dynamic8": None,
}  # fmt: skip


#: Logarithms of 65,536 values take seconds.
LATE = ("lns16_8", "takum16")


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=pytest.mark.apart) if each in LATE else each for each in PUBLISHED]
)
def test_values_are_those_published(name):
    found = values(name)
    assert {code: found[code] for code in PUBLISHED[name]} == PUBLISHED[name]


@pytest.mark.parametrize(
    ("signed", "digest"),
    [(True, "e732639a65f497b4"), (False, "305f002cc11278fb")],
    ids=["signed", "unsigned"],
)
def test_dynamic_maps_are_the_float32_numbers_of_their_makers(signed, digest):
    """Of create_dynamic_map of bitsandbytes 0.50.2, with torch 2.13.0."""
    book = dynamic_map(signed=signed)
    numbers = struct.pack("<256f", *map(float, book.values))
    assert hashlib.sha256(numbers).hexdigest()[:16] == digest


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=pytest.mark.apart) if each in LATE else each for each in NANS]
)
def test_the_nan_is_where_it_is_published(name):
    assert catalog.format(name).nan_code == NANS[name]


@pytest.mark.parametrize(
    "make", [lambda: posit(7), lambda: posit(9, 1), lambda: takum(9), lambda: takum(14, linear=True)]
)
def test_strings_of_bits_are_ordered_as_integers_and_negated_by_complement(make):
    book = make()
    half, found = len(book.values) // 2, [float(value) for value in book.values]
    assert found[1:half] == sorted(found[1:half])
    assert found[half + 1 :] == [-value for value in reversed(found[1:half])]
    assert math.isnan(found[half])
    assert found[0] == 0


def test_a_wider_posit_has_all_of_a_narrower_one():
    """A zero at the end of the string changes no value: a definition that needs no regime or exponent."""
    for narrow, wide in (
        (posit(6), posit(9)),
        (takum(8), takum(11)),
        (takum(7, linear=True), takum(12, linear=True)),
    ):
        up = wide.width - narrow.width
        pairs = [(value, wide.values[code << up]) for code, value in enumerate(narrow.values)]
        assert all(value == other or (value != value and other != other) for value, other in pairs)


def test_negative_values_of_linear_takums_by_their_own_formula():
    """((1 - 3S) + m) * 2**e, e = -(c + 1) for S = 1: read off the string that is not complemented."""
    book = takum(10, linear=True)
    for code in range(513, 1024):
        bits = f"{code:010b}".ljust(12, "0")
        upward, regime = bits[1] == "1", int(bits[2:5], 2)
        count = regime if upward else 7 - regime
        characteristic = int(bits[5 : 5 + count] or "0", 2) + (
            (1 << count) - 1 if upward else 1 - (2 << count)
        )
        rest = bits[5 + count :]
        mantissa = Fraction(int(rest or "0", 2), 1 << len(rest))
        assert book.values[code] == (mantissa - 2) * Fraction(2) ** -(characteristic + 1)


@pytest.mark.apart
def test_every_name_of_the_catalog_is_of_its_codebook():
    assert {book.name for book in CODEBOOKS.values()} == set(CODEBOOKS)
    assert named("posit5_es1") == posit(5, 1)
    assert named("lns9_4") == lns(4, 4)
    assert named("posit") is None
    assert catalog.format("Posit8") is catalog.format("posit8")


# -- identity ------------------------------------------------------------------------------------------


def test_codebooks_compare_by_value():
    first, second = Codebook("a", [0.0, 1.0, NAN, -1.0]), Codebook("b", [0, Fraction(1), NAN, -1])
    assert first == second
    assert hash(first) == hash(second)
    assert first != Codebook("a", [0.0, 1.0, NAN, -1.0], ties="up")
    assert first != Codebook("a", [0.0, 1.0, NAN, -1.0], overflow="never")
    assert first != Codebook("a", [0.0, 1.0, NAN, -1.0], thresholds=[-0.5, 0.25])
    assert first != Codebook("a", [0.0, 1.0, -1.0, NAN])
    assert first != catalog.E4M3FN


@pytest.mark.parametrize("name", ["nf4", "hif8", "posit8"])
def test_codebooks_are_pickled_and_copied(name):
    book = catalog.format(name)
    assert pickle.loads(pickle.dumps(book)) == book
    assert copy.deepcopy(book) == book
    assert copy.copy(book).name == name


def test_replaced_fields_leave_the_others_as_they_are():
    book = Codebook("t", [0.0, 1.0, NAN, -1.0], thresholds=[-0.25, 0.25], ties="away", overflow="never")
    again = dataclasses.replace(book, name="u")
    assert (again.name, again) == ("u", book)
    other = dataclasses.replace(book, ties="up")
    assert (other.thresholds, other.ties, other.overflow) == ((-0.25, 0.25), "up", "never")
    wide = dataclasses.replace(book, values=[0.0, 3.0, NAN, -3.0], thresholds=None)
    assert wide.thresholds == (-1.5, 1.5)
    with pytest.raises(TypeError, match="unexpected keyword argument 'bias'"):
        dataclasses.replace(book, bias=3)


def test_codebooks_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'ties'"):
        dynamic_map().ties = "up"


@pytest.mark.apart
def test_a_format_holds_a_codebook_if_it_has_all_its_values():
    assert catalog.BINARY32.contains(catalog.format("nf4"))
    assert not catalog.BINARY16.contains(catalog.format("nf4"))
    assert catalog.BINARY64.contains(catalog.format("takum16"))
    assert not catalog.BINARY32.contains(catalog.format("takum16"))
    assert not catalog.INT8.contains(catalog.format("posit8"))  # it has no NaN
    assert catalog.INT8.contains(catalog.format("iq4_nl"))
    assert not catalog.UINT8.contains(catalog.format("iq4_nl"))
    assert catalog.format("posit16").contains(posit(16))
    assert catalog.format("posit8").contains(posit(6))
    assert not posit(6).contains(catalog.format("posit8"))


def test_parameters_of_binary_formats_fail_by_name():
    with pytest.raises(AttributeError, match="trailing_bits of 'nf4': it is a codebook, given as its values"):
        _ = catalog.format("nf4").trailing_bits


def test_limits_are_those_of_the_values():
    book = catalog.format("posit8")
    assert (book.max_finite, book.min_finite, book.min_subnormal, book.eps) == (
        2.0**24,
        -(2.0**24),
        2.0**-24,
        0.125,
    )
    assert catalog.format("iq4_nl").min_subnormal is None
    assert catalog.format("iq4_nl").eps == 12
    assert catalog.format("nf4").eps is None


# -- refusals ------------------------------------------------------------------------------------------


test_what_is_no_codebook_is_refused = refusal_test(
    globals(),
    """
Codebook("b", values=[1.0, 2.0, 3.0])
    ValueError: values of codebook 'b' are 3; give one for each code, 4 to 65,536 and a power of two.
    Codes without a value can be NaN...
Codebook("b", values=[0.0] * (1 << 17))
    ValueError: values of codebook 'b' are 131,072; give one for each code...
Codebook("b", values=[0.0, 1.0, 1.0, 2.0])
    ValueError: values of codebook 'b' are not all different: codes 0x1 and 0x2 are both 1.0; make one
    of them NaN
Codebook("b", values=[0.0, INFINITY, 1.0, INFINITY])
    ValueError: ...codes 0x1 and 0x3 are both inf; make one of them NaN
Codebook("b", values=[NAN, NAN, NAN, 1.0])
    ValueError: values of codebook 'b' have no two finite numbers of which one is positive...
Codebook("b", values=[-3.0, -2.0, -1.0, 0.0])
    ValueError: ...have no two finite numbers of which one is positive...
Codebook("b", values=[-0.0, 1.0, 2.0, 3.0])
    ValueError: values of codebook 'b' have -0.0 (code 0x0) but no 0.0...
Codebook("b", values=[-0.0, 0.0, 2.0, 3.0])
    ValueError: values of codebook 'b' have -0.0 (code 0x0) but no negative number...
Codebook("b", values=[Fraction(1, 3), 0, 1, 2])
    ValueError: the value of code 0x0 of codebook 'b', 1/3, is no float64 number, which lowprec carries
    values in; give float(1/3)
Codebook("b", values=[0, 1, 2, 3], thresholds=[0.5, 1.5])
    ValueError: thresholds of codebook 'b' are 2; its 4 finite values have 3 gaps. Give one for each
Codebook("b", values=[0, 1, 2, 3], thresholds=[0.5, 2.5, 1.5])
    ValueError: threshold 2.5 of codebook 'b' lies outside its gap, from 1.0 (code 0x1) to 2.0; give
    thresholds in ascending order of values
Codebook("b", values=[0, 1, 2, 3], thresholds=[0.5, Fraction(4, 3), 2.5])
    ValueError: the threshold of codebook 'b' above code 0x1 is no binary fraction of at most 120
    significant bits...
Codebook("b", values=[0, 1, 2, 3], thresholds=[0.5, NAN, 2.5])
    ValueError: threshold 1 of codebook 'b' must be finite, not nan
Codebook("b", values=[0, 2.0**-200, 1, 3])
    ValueError: the threshold of codebook 'b' above code 0x1 is no binary fraction of at most 120
    significant bits; give thresholds= that are, such as the nearest ones
Codebook("b", values=[0, 1, 3, 2.0**125 + 2.0**80], thresholds=[0, 1, 3])
    ValueError: overflow='gap' of codebook 'b' would begin at a number of more than 120 significant
    bits; give overflow="never", or a number
Codebook("b", values=[0, 1, 2, 3], ties="odd")
    ValueError: ties='odd' of codebook 'b' is unknown; use one of even, away, zero, up, down
Codebook("b", values=[0, 1, 2, 3], overflow="no")
    ValueError: overflow='no' of codebook 'b' is unknown; use "gap", "never" or a number
Codebook("b", values=[0, 1, 2, 3], overflow=3)
    ValueError: overflow=3.0 of codebook 'b' must lie beyond its extreme value, 3.0
""",
)


def test_a_codebook_of_one_bit_has_two_bits_of_which_one_is_used():
    """As the refusal of two values says."""
    with pytest.raises(ValueError, match=r"one bit is \[-1, 1, nan, nan\], of which two are used"):
        Codebook("sign", [-1.0, 1.0])
    sign = Codebook("sign", [-1.0, 1.0, float("nan"), float("nan")])
    assert encode([0.3, -2.0, -0.1], sign).tolist() == [1, 0, 0]


def test_values_and_thresholds_of_numpy_are_numbers_too():
    """float32, as tables of quantisers come; what float64 does not hold is refused as before."""
    single = np.float32([0, 0.1, 1, -1])
    assert Codebook("b", single, thresholds=np.float32([-0.5, 0.05, 0.5])) == Codebook(
        "b", single.tolist(), thresholds=np.float32([-0.5, 0.05, 0.5]).tolist()
    )
    with pytest.raises(ValueError, match="threshold 1 of codebook 'b' must be finite, not nan"):
        Codebook("b", single, thresholds=np.float32([-0.5, math.nan, 0.5]))
    with pytest.raises(
        ValueError, match=r"the value of code 0x1 of codebook 'b', 0\.1, is no float64 number"
    ):
        Codebook("b", [0, decimal.Decimal("0.1"), 1, -1])


def test_only_equal_codebooks_of_a_name_have_one_text():
    """Sweeps and runs that go on where others ended are told apart by it."""
    values, zeros = (
        (-1.0, -0.0, 0.0, 1.0, 2.5, 3.0, 4.0, math.nan),
        (-1.0, 0.0, -0.0, 1.0, 2.5, 3.0, 4.0, math.nan),
    )
    book = Codebook("mine", values)
    wide = Fraction(2**90 + 1, 2**91)
    others = [Codebook("mine", each) for each in (zeros, (*values[:4], 2.0, *values[5:]))]
    others += [Codebook("mine", values, **how) for how in ({"ties": "away"}, {"overflow": 5.0})]
    others += [Codebook("mine", values, thresholds=(-0.5, each, 1.75, 2.75, 3.5)) for each in (0.25, wide)]
    assert len({repr(each) for each in (book, *others)}) == len({book, *others}) == 7
    same = Codebook("mine", values, thresholds=[Fraction(each) for each in book.thresholds], source="x")
    assert same == book
    assert repr(same) == repr(book)


test_what_cannot_be_is_refused = refusal_test(
    globals(),
    """
Codebook("b", [0.0, 1.0, "2", 3.0])
    TypeError: the value of code 0x2 of codebook 'b' must be a float, an integer or a Fraction, not '2'
posit(17)
    ValueError: width=17 of a posit is out of range; use 2 to 16: it is kept as the value of each code,
    and wider ones have too many
posit(8, 6)
    ValueError: exponent_bits=6 of a posit is out of range; use 0 to 5
takum(1)
    ValueError: width=1 of a takum is out of range; use 2 to 16...
lns(9, 1)
    ValueError: integer_bits=9 and fraction_bits=1 of a logarithmic format are out of range...
lns(4, 12)
    ValueError: integer_bits=4 and fraction_bits=12 of a logarithmic format are out of range...
lns(4, 3, base=1)
    ValueError: base=1.0 of a logarithmic format is out of range; use above 1 to 16
Codebook("b", [0.0, 2.0 ** (-60), 1.0, math.nan], overflow=1e+248)
    ValueError: overflow=1e+248 of codebook 'b' lies too far beyond 1.0...
""",
)
