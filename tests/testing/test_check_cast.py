"""`lowprec.testing`: what people's own tests call, and what it tells them."""

import dataclasses
import re

import ml_dtypes
import numpy as np
import pytest

import lowprec as lp
from lowprec.testing import check_cast
from tests.support import refusal_test


def test_a_right_cast_passes_whatever_it_answers_with():
    """Codes, the format's own type, or values; and the row says what was tried."""
    row = check_cast(lambda x: lp.encode(x, "e4m3fn"), "e4m3fn", samples=100)
    assert row.findings == ()
    assert row.tried > 8_000
    check_cast(lambda x: lp.encode(x, "e4m3fn").astype(np.int64), "e4m3fn", samples=0)
    check_cast(lambda x: lp.encode(x, "e4m3fn").view(ml_dtypes.float8_e4m3fn), "e4m3fn", samples=0)
    check_cast(lambda x: lp.quantize(x, "e4m3fn").astype(np.float64), "e4m3fn", samples=0)
    check_cast(lambda x: lp.quantize(x, "e4m3fn"), "e4m3fn", source="bfloat16")
    check_cast(lambda x: lp.quantize(x, "e4m3fn").astype(">f4"), "e4m3fn", source="float16")


def test_rules_are_those_of_encode():
    """Rounding and saturation, a projection, or a profile."""
    check_cast(
        lambda x: lp.encode(x, "e5m2", rounding="toward_zero", saturation="finite"),
        "e5m2",
        rounding="toward_zero",
        saturation="finite",
        samples=0,
    )
    flushing = lp.Projection(subnormals="flush_results")
    check_cast(lambda x: lp.encode(x, "e5m2", projection=flushing), "e5m2", projection=flushing, samples=0)
    check_cast(lambda x: lp.encode(x, "e4m3fn", profile="ocp_sat"), "e4m3fn", profile="ocp_sat", samples=0)
    with pytest.raises(
        AssertionError, match=r"differs from e5m2 \(nearest_even, saturation none, subnormals flush_resu"
    ):
        check_cast(lambda x: lp.encode(x, "e5m2"), "e5m2", projection=flushing, samples=0)


@pytest.mark.parametrize(
    ("law", "options"),
    [
        ("overflow", {"saturation": "finite"}),
        ("directed bounds", {"rounding": "toward_zero"}),
        ("to odd", {"rounding": "to_odd"}),
        ("nearest", {"rounding": "nearest_away"}),
    ],
)
def test_the_law_that_is_broken_is_named(law, options):
    """That of the number at which the smallest difference lies."""
    wanted = {"rounding": options["rounding"]} if law in ("directed bounds", "to odd") else {}
    given = {} if wanted else options
    with pytest.raises(AssertionError, match=f"the cast from float32 breaks the law '{law}' of e4m3fn"):
        check_cast(lambda x: lp.encode(x, "e4m3fn", **given), "e4m3fn", **wanted, samples=0)


@pytest.mark.parametrize(
    ("law", "fmt", "wrong"),
    [
        ("zeros", "e4m3fn", lambda x: x == 0),
        ("NaN", "e4m3fn", np.isnan),
        ("infinities", "e4m3fn", np.isinf),
        ("round trip", "e4m3fn", lambda x: x == 1),
        ("negative numbers", "ue4m3", lambda x: (x < -1) & np.isfinite(x)),
        ("below the smallest", "e8m0fnu", lambda x: (x > 0) & (x < 2.0**-127)),
    ],
)
def test_laws_of_special_numbers_are_named(law, fmt, wrong):
    """One code is wrong for all of them."""

    def mine(x):
        return np.where(wrong(x), 5, lp.encode(x, fmt)).astype(np.uint8)

    with pytest.raises(AssertionError, match=f"mine from float32 breaks the law '{law}' of {fmt}"):
        check_cast(mine, fmt, samples=0)


def test_formats_of_ones_own_and_integers_are_taken():
    """Nothing has to be registered; NaNs are left out where there is no code for them."""
    mine = lp.Format(name="mine", exponent_bits=3, trailing_bits=4, bias=5)
    check_cast(lambda x: lp.encode(x, mine), mine, samples=10)
    check_cast(lambda x: lp.encode(x, mine), mine, source="int64")


def test_a_difference_is_told_in_full():
    """What differs, from what, how often, of what kind, and the smallest input with its bits."""

    def truncating(x):
        return lp.encode(x, "e4m3fn", rounding="nearest_away")

    with pytest.raises(AssertionError) as told:
        check_cast(truncating, "e4m3fn", samples=0)
    assert str(told.value) == (
        "truncating from float32 breaks the law 'nearest' of e4m3fn (nearest_even, saturation none)\n"
        "  law     No value of the format is closer; ties go to the even code, away from zero or toward "
        "zero, as the mode says.\n"
        "  domain  numbers in range; nearest modes\n"
        "  smallest counterexample\n"
        "    value  0x3a800000 = 0x1.0000000000000p-10\n"
        "    got    0x01  0 0000 001  0.001953125 = 0x1p-9\n"
        "    want   0x00  0 0000 000  0.0\n"
        "  128 of 8,768 inputs differ\n"
        "  tie: 128 inputs; the smallest is 0x3a800000 = 0x1.0000000000000p-10: got 0x01, want 0x00\n"
        "  explained by ties away from zero (nearest_away instead of nearest_even): 128 of 128"
    )


def test_values_are_shown_as_values():
    """A cast that answers with floats is not told codes."""
    with pytest.raises(AssertionError, match=re.escape("got 0x1.0000000000000p-9, want 0x0.0p+0")):
        check_cast(lambda x: lp.quantize(x, "e4m3fn", rounding="nearest_away"), "e4m3fn", samples=0)


def test_a_code_that_depends_on_the_place_is_found():
    """The last elements of an array treat NaNs in another way than the first ones."""

    def lanes(x):
        codes = lp.encode(x, "e4m3fn")
        rest = codes[codes.size // 8 * 8 :]
        rest[rest == 0xFF] = 0x7F
        return codes

    with pytest.raises(
        AssertionError, match=r"(?s)law 'place'.*  place: \d+ inputs; .*: got 0x7f or 0xff, want 0xff"
    ):
        check_cast(lanes, "e4m3fn", samples=0)


def test_a_code_that_depends_on_the_length_is_found():
    """As of a path for short arrays: alone and among few the codes are alike, and wrong."""

    def short(x):
        codes = lp.encode(x, "e4m3fn")
        return codes if x.size > 1000 else codes & 0x7F

    with pytest.raises(AssertionError, match=r"(?s)law 'place'.*: got 0x7f or 0xff, want 0xff"):
        check_cast(short, "e4m3fn", samples=0)


def without_strides(x):
    """A cast that reads memory from the first value on, as C code does given a pointer and a length."""
    memory = np.ascontiguousarray(x) if x.base is None else x.base[: x.size]
    return lp.encode(memory, "e4m3fn")


def test_a_cast_that_assumes_contiguity_is_told_that_it_got_a_strided_view():
    """And how to be tried without."""
    with pytest.raises(AssertionError) as told:
        check_cast(without_strides, "e4m3fn", samples=0)
    told = str(told.value)
    assert "place: " not in told
    assert re.search(
        r"\n  strided view: \d+ inputs; the smallest is .*: got 0x\w\w, strided 0x\w\w, want 0x\w\w\n", told
    )
    assert told.endswith(
        "\n  a strided view is an array such as x[::2], whose values do not lie side by side; "
        "contiguous=True leaves strided views out"
    )
    assert check_cast(without_strides, "e4m3fn", samples=0, contiguous=True).mismatches == 0


def test_a_cast_that_refuses_strided_views_is_told_the_same():
    """Its own error comes with a note."""

    def strict(x):
        if not x.flags.c_contiguous:
            raise ValueError("not C-contiguous")
        return lp.encode(x, "e4m3fn")

    with pytest.raises(ValueError, match="not C-contiguous") as told:
        check_cast(strict, "e4m3fn", samples=0)
    assert told.value.__notes__ == [
        "check_cast called it with a strided view (strides (8,)); contiguous=True leaves strided views out"
    ]
    assert check_cast(strict, "e4m3fn", samples=0, contiguous=True).mismatches == 0


def test_with_contiguous_only_a_code_that_depends_on_the_place_is_still_found():
    """Only strided views are left out."""

    def lanes(x):
        codes = lp.encode(x, "e4m3fn")
        codes[codes.size // 8 * 8 :] &= 0x7F
        return codes

    with pytest.raises(AssertionError, match="  place: "):
        check_cast(lanes, "e4m3fn", samples=0, contiguous=True)


def test_any_nan_lets_pass_what_only_differs_in_nans():
    """Signs and payloads of NaNs."""

    def payload(x):
        codes = lp.encode(x, "e5m2")
        codes[np.isnan(x)] = 0xFD
        return codes

    with pytest.raises(AssertionError, match="  NaN: "):
        check_cast(payload, "e5m2", samples=0)
    check_cast(payload, "e5m2", samples=0, any_nan=True)
    with pytest.raises(AssertionError, match="  tie: "):
        check_cast(lambda x: lp.encode(x, "e5m2", rounding="nearest_zero"), "e5m2", samples=0, any_nan=True)


def test_the_row_is_one_of_conform():
    """Plain data, as `lowprec conform --json` prints it."""
    row = check_cast(lambda x: lp.encode(x, "e2m1fn"), "e2m1fn", samples=0)
    assert dataclasses.is_dataclass(row)
    assert row.as_json()["mismatches"] == 0
    assert (row.operation, row.source, row.target) == ("cast", "float32", "e2m1fn")


test_what_cannot_be_is_refused = refusal_test(
    globals(),
    """
check_cast(lambda x: lp.encode(x, "e4m3fn")[:-1], "e4m3fn", samples=0)
    ValueError: the cast was given float32 of shape (8768,) and gave shape (8767,); it must give one
    code or value for each input
check_cast(lambda x: x.astype(ml_dtypes.float8_e5m2), "e4m3fn", samples=0)
    TypeError: the cast gave float8_e5m2, which says nothing about e4m3fn; give codes as uint8,
    float8_e4m3fn or values as float32 or float64
check_cast(lambda x: lp.encode(x, "e4m3fn").astype(np.int64) - 300, "e4m3fn", samples=0)
    ValueError: the cast gave -300 for 0.0, which is no code of e4m3fn: codes have 8 bits; give unsigned
    codes, or values as floats
check_cast(lambda x: ["?"] * x.size, "e4m3fn", samples=0)
    TypeError: the cast gave <U1, which says nothing about e4m3fn...
check_cast(lambda x: lp.encode(x, "e4m3fn"), "e4m3fn", source="float8")
    ValueError: unknown source 'float8'; use one of float16, bfloat16, float32, float64, int32, int64
check_cast(lambda x: lp.encode(x, "e4m3fn"), "e4m3fn", samples=-1)
    ValueError: samples must not be negative, not -1
check_cast(lambda x: lp.encode(x, "e4m3fn"), "e4m3fn", rounding=lp.stochastic(8))
    ValueError: ...needs a random integer for each input, which a cast is not given; use a det...
check_cast(lambda x: lp.encode(x, "e4m3fn"), "e4m3fn", saturation="none", profile="ocp_sat")
    ValueError: ...both say how to convert...
""",
)
