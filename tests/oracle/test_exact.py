"""Exact values: floats in and out by their bits."""

import math
import struct
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st

from lowprec.oracle.convert import project
from lowprec.oracle.exact import Special, from_float, is_negative, scale, to_float
from lowprec.spec import catalog


def _float(bits):
    return struct.unpack("<d", struct.pack("<Q", bits))[0]


@pytest.mark.parametrize(
    ("value", "exact"),
    [
        (0.0, Fraction(0)),
        (-0.0, Special.NEGATIVE_ZERO),
        (1.0, Fraction(1)),
        (-0.75, Fraction(-3, 4)),
        (0.1, Fraction(3602879701896397, 36028797018963968)),
        (5e-324, Fraction(1, 2**1074)),
        (-5e-324, Fraction(-1, 2**1074)),
        (2.2250738585072009e-308, Fraction(2**52 - 1, 2**1074)),  # the largest subnormal
        (2.2250738585072014e-308, Fraction(1, 2**1022)),
        (1.7976931348623157e308, Fraction((2**53 - 1) * 2**971)),
        (math.inf, Special.INFINITY),
        (-math.inf, Special.NEGATIVE_INFINITY),
        (math.nan, Special.NAN),
        (-math.nan, Special.NEGATIVE_NAN),
        (_float(0x7FF0000000000001), Special.NAN),  # signalling
        (_float(0xFFFFFFFFFFFFFFFF), Special.NEGATIVE_NAN),
    ],
    ids=str,
)
def test_a_float_is_read_as_what_it_stands_for(value, exact):
    """Both sides of every kind of float64; numbers written as fractions by hand."""
    assert from_float(value) == exact
    assert type(from_float(value)) is type(exact)


@given(st.floats(allow_nan=False))
def test_to_float_undoes_from_float(value):
    """A law, bits compared."""
    assert struct.pack("<d", to_float(from_float(value))) == struct.pack("<d", value)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_from_float_is_pythons_own_fraction(value):
    """In a process that keeps subnormals, `Fraction` is right too."""
    exact = from_float(value)
    assert (Fraction(0) if exact is Special.NEGATIVE_ZERO else exact) == Fraction(value)


def test_special_values_become_their_floats():
    """Of both signs, quiet NaNs without payload."""
    bits = {special: struct.unpack("<Q", struct.pack("<d", to_float(special)))[0] for special in Special}
    assert bits == {
        Special.NEGATIVE_ZERO: 0x8000000000000000,
        Special.INFINITY: 0x7FF0000000000000,
        Special.NEGATIVE_INFINITY: 0xFFF0000000000000,
        Special.NAN: 0x7FF8000000000000,
        Special.NEGATIVE_NAN: 0xFFF8000000000000,
    }
    assert [repr(special) for special in Special][:2] == ["Special.NEGATIVE_ZERO", "Special.INFINITY"]


def test_the_sign_of_every_kind_of_value_is_known():
    """-0 and negative NaNs are negative, 0 is not."""
    assert [special for special in Special if is_negative(special)] == [
        Special.NEGATIVE_ZERO,
        Special.NEGATIVE_INFINITY,
        Special.NEGATIVE_NAN,
    ]
    assert [is_negative(Fraction(number)) for number in (-1, 0, 1)] == [True, False, False]


@given(st.fractions(), st.integers(-2000, 2000))
def test_scale_is_multiplication_by_a_power_of_two(value, exponent):
    """A law."""
    assert scale(value, exponent) == value * Fraction(2) ** exponent


def test_what_is_no_float64_has_no_float():
    """An error of ours: values of formats are float64s by construction."""
    with pytest.raises(AssertionError, match="not a float64"):
        to_float(Fraction(1, 2**1075))


@pytest.mark.parametrize("value", [1.5, -0.0, float("nan"), "1", None, True, np.float32(1)])
def test_the_oracle_refuses_what_is_no_exact_number(value):
    """A float would be compared in float arithmetic, and a NaN would pass for a number."""
    with pytest.raises(TypeError, match="the oracle takes a Fraction, an integer or a Special, not"):
        project(value, catalog.E4M3FN)
    assert project(3, catalog.E4M3FN) == project(Fraction(3), catalog.E4M3FN)
