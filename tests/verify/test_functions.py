"""Functions as what units compute: vectors of them, results held against them, budgets, and what is told."""

from __future__ import annotations

import re
import sys
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from click.testing import CliRunner

import lowprec as lp
from lowprec.cli.main import main
from lowprec.export.vectors import suite
from lowprec.kernels.functions import tables
from lowprec.oracle.exact import Special
from lowprec.spec.catalog import BFLOAT16, BINARY32, E4M3FN, E5M2
from lowprec.spec.functions import FUNCTIONS
from lowprec.spec.projection import DEFAULT, Flag
from lowprec.testing import check_operation
from lowprec.verify.inputs.recipes import INVERSES
from lowprec.verify.questions.situations import function_value, names_of, shown_result, situation, situations

CODES = np.arange(256, dtype=np.uint8)


def run(*words, given=None):
    return CliRunner().invoke(main, [str(word) for word in words], input=given)


def test_vectors_are_the_results_of_the_verb():
    made = suite("tanh", (E5M2, E4M3FN), flags=True)
    flags = np.zeros(256, np.uint8)
    want = lp.tanh(CODES.view(ml_dtypes.float8_e5m2), "e4m3fn", dtype=np.uint8, flags=flags)
    np.testing.assert_array_equal(made.operands[0], CODES)
    np.testing.assert_array_equal(made.results, want)
    np.testing.assert_array_equal(made.flags, flags)


@pytest.mark.parametrize("name", ["exp", "log", "sin", "tanh", "rsqrt", "sigmoid"])
def test_wide_operands_are_aimed_at_borders_between_codes(name):
    """Of many of the 400 aimed ones, the float32 on one side rounds otherwise."""
    made = suite(name, (BINARY32, BFLOAT16), samples=400)
    results = made.results
    assert np.unique(results).size > 80
    x = made.operands[0].view(np.float32)
    with np.errstate(all="ignore"):
        beside = [
            lp.encode(getattr(lp, name)(np.nextafter(x, np.float32(end)), "binary32"), "bfloat16")
            for end in (-np.inf, np.inf)
        ]
    assert np.sum((beside[0] != results) | (beside[1] != results)) > 40


def test_every_inverse_is_that_of_its_function():
    """Where both are defined: it only aims, but at the right place."""
    for name, inverse in INVERSES.items():
        points = np.array([0.25, 0.4, 0.45])
        points = points + 1 if name == "cosh" else points
        found = np.asarray(getattr(lp, name)(inverse(points), "binary32"), np.float64)
        np.testing.assert_allclose(found, points, rtol=1e-6, err_msg=name)


def test_mistakes_of_units_are_found_and_named():
    vectors = run("vectors", "exp2", "e4m3fn", "e4m3fn").output
    assert run("compare", "-", "exp2", "e4m3fn", "e4m3fn", given=vectors).exit_code == 0
    cut = run("vectors", "exp2", "e4m3fn", "e4m3fn", "--rounding", "toward_zero").output
    told = run("compare", "-", "exp2", "e4m3fn", "e4m3fn", given=cut)
    assert told.exit_code == 1
    assert "109 of 109 mismatches, 100%" in told.output
    assert "toward_zero instead of nearest_even" in told.output
    assert "exact   about 1." in told.output
    swapped = run("vectors", "exp", "e4m3fn", "e4m3fn").output
    assert run("compare", "-", "exp2", "e4m3fn", "e4m3fn", given=swapped).exit_code == 1


def test_units_have_budgets():
    def unit(codes):
        return lp.exp(lp.decode(codes, "e5m2"), "e5m2", rounding="toward_zero", dtype=np.uint8)

    with pytest.raises(AssertionError, match="breaks the law 'function value'"):
        check_operation(unit, "exp", "e5m2")
    assert check_operation(unit, "exp", "e5m2", rounding="toward_zero").tried == 512
    with pytest.raises(AssertionError, match="breaks the law 'function specials'"):
        check_operation(unit, "exp", "e5m2", ulps=1)  # it gives the largest value for infinity

    def finite(codes):
        return lp.tanh(lp.decode(codes, "e5m2"), "e5m2", rounding="toward_zero", dtype=np.uint8)

    assert check_operation(finite, "tanh", "e5m2", ulps=1).tried == 512

    def flushing(codes):
        made = finite(codes)
        return np.where(made & 0x7C == 0, made & 0x80, made).astype(np.uint8)

    with pytest.raises(AssertionError, match=r"budget +1 codes\s+largest distance +4 codes"):
        check_operation(flushing, "tanh", "e5m2", ulps=1)


def test_pairs_of_operands_are_all_tried():
    def unit(y, x):
        return lp.atan2(lp.decode(y, "e3m2fn"), lp.decode(x, "e3m2fn"), "e3m2fn")

    assert check_operation(unit, "atan2", "e3m2fn").tried == 2 * 64 * 64


@pytest.mark.parametrize(
    ("name", "operands", "value", "flags"),
    [
        ("exp2", [Fraction(-3)], Fraction(1, 8), Flag(0)),
        ("log", [Fraction(0)], Special.NEGATIVE_INFINITY, Flag.DIVIDE_BY_ZERO),
        ("log", [Fraction(-1)], Special.NAN, Flag.INVALID),
        ("sin", [Special.NEGATIVE_ZERO], Special.NEGATIVE_ZERO, Flag(0)),
        ("exp", [Special.INFINITY], Special.INFINITY, Flag(0)),
        ("exp", [Special.NAN], Special.NAN, Flag(0)),
        ("pow", [Special.NAN, Fraction(0)], Fraction(1), Flag(0)),
        ("hypot", [Fraction(3), Fraction(-4)], Fraction(5), Flag(0)),
    ],
)
def test_values_are_as_the_oracle_has_them(name, operands, value, flags):
    assert function_value(name, operands) == (value, flags)


def test_values_that_are_no_fractions_are_told_as_such():
    assert shown_result(function_value("exp", [Fraction(1)]).value) == "about 2.7182818284590452"
    assert shown_result(function_value("exp", [Fraction(-(2**100))]).value) == "between 2**-65280 and 0"
    assert shown_result(function_value("sinh", [Fraction(-(2**100))]).value) == "beyond -2**65280"
    assert shown_result(function_value("log", [Fraction(0)]).value) == "-inf"
    assert shown_result(function_value("exp2", [Fraction(100)]).value) == str(2**100)


@pytest.mark.parametrize("name", ["log", "tanpi", "exp", "atan2"])
def test_situations_of_arrays_are_those_of_single_cases(name):
    count = FUNCTIONS[name].operands
    fmt = E4M3FN if count == 1 else lp.format("e2m1fn")
    codes = np.arange(1 << fmt.width, dtype=np.uint8)
    operands = [each.reshape(-1) for each in np.meshgrid(*[codes] * count)]
    formats = (fmt,) * (count + 1)
    found = situations(name, operands, formats, DEFAULT)
    for place, number in enumerate(found):
        one = [int(each[place]) for each in operands]
        assert names_of(name)[number] == situation(one, name, formats, DEFAULT)


def test_the_values_of_a_comparison_are_enclosed_once():
    tables._kept.cache_clear()
    vectors = run("vectors", "cosh", "e5m2", "e5m2", "--rounding", "toward_positive").output
    run("compare", "-", "cosh", "e5m2", "e5m2", given=vectors)
    known = tables._kept.cache_info()
    assert known.misses <= 20
    assert known.hits > known.misses


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: check_operation(max, "add", "e5m2", ulps=1), "ulps= is for functions such as exp"),
        (lambda: check_operation(max, "exp", "e5m2", ulps=-1), "ulps"),
        (lambda: check_operation(max, "expo", "e5m2"), "or a function such as exp"),
        (lambda: suite("exp", (E5M2, BFLOAT16), samples=1) and lp.exp([2**60 + 1], "e5m2"), "53 bits"),
    ],
)
def test_bad_calls_are_refused(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call()


def test_the_command_says_what_functions_need():
    refused = run("vectors", "exp", "e5m2")
    assert refused.exit_code == 2
    assert "exp takes 2 formats" in refused.output
    assert "tanh 1" in run("vectors", "--help").output.replace("\n", " ")


@pytest.mark.parametrize(
    "words", [("vectors", "exp", "e5m2", "e5m2"), ("compare", "-", "exp", "e5m2", "e5m2")]
)
def test_the_commands_say_how_to_install_what_encloses(words, monkeypatch):
    monkeypatch.setitem(sys.modules, "flint", None)
    tables._kept.cache_clear()
    refused = run(*words, given="3c 41\n")
    assert refused.exit_code == 2
    assert "pip install 'lowprec[functions]'" in refused.output
