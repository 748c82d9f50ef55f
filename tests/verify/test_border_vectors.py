"""Vectors reach borders that random operands seldom reach: judged by fractions, not by the recipes."""

import dataclasses
import math
from fractions import Fraction

import numpy as np
import pytest
from click.testing import CliRunner

import lowprec as lp
from lowprec.cli.main import main
from lowprec.oracle.convert import decode
from lowprec.spec import catalog
from lowprec.spec.accumulations import ACCUMULATIONS
from lowprec.verify.compare.block_lines import compare_block_lines
from lowprec.verify.inputs.block_cases import block_cases, source_values
from lowprec.verify.inputs.borders import beside_borders
from lowprec.verify.inputs.dot_shape import shape_of
from lowprec.verify.inputs.dots import dots

B16 = catalog.BINARY16


def exact_sums(operation, cases=1024):
    """Yield the terms of exact sums: the product of all operands but the last one, and that one."""
    codes = beside_borders(operation, (B16,) * (4 if operation == "fma" else 3), cases, 0)
    for row in zip(*(column.tolist() for column in codes), strict=True):
        values = [decode(code, B16) for code in row]
        if all(isinstance(value, Fraction) for value in values):
            *first, last = values
            yield first[0] * first[1] if len(first) == 2 else first[0], last


def exponent(value):
    """Return the exponent of the first bit."""
    return int(np.frexp(float(abs(value)))[1]) - 1


@pytest.mark.parametrize("operation", ["fma", "multiply"])
def test_results_round_up_into_the_smallest_normal_number(operation):
    """Results of either sign lie above the middle below it."""
    smallest = Fraction(2) ** B16.emin
    gap = Fraction(2) ** (B16.emin - B16.trailing_bits)
    if operation == "fma":
        sums = [first + second for first, second in exact_sums("fma")]
    else:
        sums = [first * second for first, second in exact_sums("multiply")]
    near = [value for value in sums if smallest - gap / 2 < abs(value) < smallest]
    assert {value > 0 for value in near} == {True, False}


@pytest.mark.parametrize("operation", ["add", "fma"])
def test_every_number_of_leading_bits_cancels(operation):
    """See one bit cancel, two, and all but the last one."""
    lost = {
        max(exponent(first), exponent(second)) - exponent(first + second)
        for first, second in exact_sums(operation)
        if first and second and first + second
    }
    assert lost >= set(range(1, B16.trailing_bits))


@pytest.mark.parametrize("name", ["binary16", "bfloat16"])
def test_two_of_three_operands_are_nans_of_unlike_signs(name):
    """Each of the two is the negative one once."""
    fmt = lp.format(name)
    codes = np.array(beside_borders("fma", (fmt,) * 4, 1024, 0)).astype(np.int64)
    nan = (codes & fmt.sign_code - 1) > fmt.infinity_code
    signs = np.where(nan, np.where(codes & fmt.sign_code, -1, 1), 0)
    found = {tuple(case) for case in signs.T.tolist() if sorted(case) == [-1, 0, 1]}
    assert len(found) == 6


def test_no_codes_are_added_where_all_were_tried():
    """Codebooks have no borders of this kind."""
    assert [codes.size for codes in beside_borders("add", (catalog.E4M3FN,) * 3, 1024, 0)] == [0, 0]
    assert [codes.size for codes in beside_borders("add", (B16, B16, lp.format("nf4")), 1024, 0)] == [0, 0]


def test_zeros_of_large_factors_are_in_every_lane():
    """Zeros of x and of y stand beside products that the exponent of such a product would cut."""
    shape = shape_of(ACCUMULATIONS["ampere_mma_bfloat16_binary32"])
    cases = dots(shape)
    largest = catalog.BFLOAT16.emax + catalog.BFLOAT16.bias << 7
    for zero, other in ((cases.x, cases.y), (cases.y, cases.x)):
        assert ((zero & 0x7FFF == 0) & (other & 0x7FFF == largest)).any(0).all()


def test_addends_decide_ties_from_far_below():
    """Products alone are a tie of the result, and the addend has a first bit at each place below it."""
    shape = shape_of(ACCUMULATIONS["fp32_fma"], (catalog.E5M2, catalog.E5M2))
    places = set()
    cases = dots(shape)
    for x, y, addend in zip(cases.x.tolist(), cases.y.tolist(), cases.addend.tolist(), strict=True):
        terms = [[decode(code, catalog.E5M2) for code in codes] for codes in (x, y)]
        last = decode(addend, catalog.BINARY32)
        if not all(isinstance(value, Fraction) for value in (*terms[0], *terms[1], last)) or not last:
            continue
        total = sum(a * b for a, b in zip(*terms, strict=True))
        if total and total.numerator.bit_length() - exponent_of_two(total.numerator) == 25:
            places.add(exponent(total) - exponent(last))
    assert places >= set(range(25, 46))


def exponent_of_two(number):
    """Return how often two divides a number."""
    return (number & -number).bit_length() - 1


def test_blocks_have_thresholds_of_rules_seconds_and_zeros_behind_numbers():
    """Blocks have largest magnitudes of 1.75, a second in each lane's partner, and zeros after numbers."""
    cases = block_cases(catalog.MXFP4, catalog.BINARY32)
    values = np.abs(np.nan_to_num(source_values(cases.values, catalog.BINARY32)))
    largest = values.max(1)
    significands = np.frexp(largest)[0] * 2
    assert {1.0, 1.5, 1.75} <= set(significands.tolist())
    lane, same = np.argmax(values, 1), np.frexp(values)[1] == np.frexp(largest)[1][:, None]
    partners = {
        (first, second) for first, row in zip(lane, same, strict=True) for second in np.flatnonzero(row)
    }
    assert {(first, first ^ 1) for first in range(32)} <= partners
    none = largest == 0
    assert (none[1:] & ~none[:-1]).sum() >= 10


@pytest.mark.parametrize("name", ["binary16", "bfloat16", "binary32"])
@pytest.mark.parametrize("operation", ["add", "subtract"])
def test_an_operand_two_places_below_the_last_one_changes_a_sum(operation, name):
    """It is taken off a power of two, next to which there are closer numbers below."""
    fmt = catalog.format(name)
    x, y = (np.float64(lp.decode(code, fmt)) for code in beside_borders(operation, (fmt,) * 3, 1024, 0))
    finite = np.isfinite(x) & np.isfinite(y) & (x != 0) & (y != 0)
    x, y = x[finite], y[finite]
    far = np.frexp(x)[1] - np.frexp(y)[1]
    verb = getattr(lp, operation)
    small = np.abs(far) >= fmt.trailing_bits + 2
    dropped = verb(np.where(small & (far < 0), 0, x), np.where(small & (far > 0), 0, y), fmt)
    assert np.count_nonzero(verb(x, y, fmt) != dropped) > 1


def test_sums_lie_about_ties_of_a_narrow_output():
    """Find addends half-way between bfloat16s, each beside one product that decides, of either sign."""
    how = dataclasses.replace(ACCUMULATIONS["fp32_fma"], name="narrow", output="bfloat16", operands="e4m3fn")
    cases = dots(shape_of(how))
    tie = cases.addend & 0xFFFF == 0x8000
    products = [np.asarray(lp.decode(side[tie], "e4m3fn"), np.float64) for side in (cases.x, cases.y)]
    terms = products[0] * products[1]
    alone = (terms != 0).sum(1) == 1
    addends = cases.addend[tie].view(np.float32).astype(np.float64)
    away = np.sign(terms.sum(1)) * np.sign(addends)
    assert {1, -1} <= set(away[alone].tolist())
    below = np.abs(terms.sum(1)) < np.abs(addends) * 2.0**-23
    assert min((below & alone & (away == sign)).sum() for sign in (1, -1)) > 4


@pytest.mark.parametrize("fmt", ["bnb_nf4", "bnb_fp4"])
def test_blocks_of_codebooks_have_vectors(fmt):
    made = CliRunner().invoke(main, ["vectors", "block", "bfloat16", fmt]).output.splitlines()
    assert compare_block_lines(made, catalog.BFLOAT16, lp.block_formats[fmt]).mismatches == 0


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (["nf4", "mxfp4"], "blocks are made of floats that binary32 has, not of 'nf4'; use 'binary32'"),
        (
            ["bfloat16", "bnb_nf4", "--coverage"],
            "coverage is of formats with fields, and 'nf4' is a codebook",
        ),
    ],
)
def test_what_blocks_of_codebooks_have_not_is_refused(asked, words):
    result = CliRunner().invoke(main, ["vectors", "block", *asked])
    assert result.exit_code == 2
    assert words in result.output


def test_elements_of_blocks_lie_a_single_bit_above_ties():
    """Find each place from behind the tie to the last one of binary32: a sticky bit must see them all."""
    cases = block_cases(catalog.MXFP8_E4M3, catalog.BINARY32)
    values = np.abs(source_values(cases.values[-2:], catalog.BINARY32)[:, 1:].astype(np.float64))
    beyond = (values / 2.0 ** np.floor(np.log2(values)) * 16) % 1  # of the half of a last place
    assert {-math.log2(one) for one in beyond.reshape(-1)} == {*range(1, 20)}
