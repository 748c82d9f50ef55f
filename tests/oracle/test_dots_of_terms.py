"""Terms of several products: sums of Arm and ACE, by their documents, in fractions of this file's own."""

import dataclasses
import re
from fractions import Fraction

import numpy as np
import pytest

import lowprec as lp
from lowprec.oracle.convert import decode, project
from lowprec.oracle.dot import dot
from lowprec.spec import catalog
from lowprec.spec.accumulations import ACCUMULATIONS, arm_fp8_dot
from lowprec.spec.catalog import BINARY16, BINARY32, E4M3FN, E5M2, INT8F6
from lowprec.spec.projection import Projection

FLUSHED = Projection(subnormals="flush_results")
PAIRS = [(x, y) for x in (E4M3FN, E5M2) for y in (E4M3FN, E5M2)]


def numbers(fmt, shape, rng):
    """Codes of finite numbers, zeros and subnormals among them."""
    codes = rng.integers(0, 1 << fmt.width, shape)
    if fmt.exponent_bits:
        codes = np.where((codes & ~fmt.sign_code) > fmt.max_magnitude, codes & 7, codes)
    return codes.astype(np.uint8)


def fractions(codes, fmt):
    """Their values; of both zeros 0."""
    return [Fraction(float(value)) for value in np.asarray(lp.decode(codes, fmt, dtype=np.float64))]


def rounded(exact, into, how=None):
    """A number, rounded once; of both zeros 0."""
    value = decode(project(exact, into, how or Projection()), into)
    return value if isinstance(value, Fraction) else Fraction(0)


@pytest.mark.apart
@pytest.mark.parametrize(("instruction", "products"), [("fdot", (2, 4)), ("fmmla", (4, 8))])
@pytest.mark.parametrize("operands", PAIRS, ids=lambda pair: "_".join(fmt.name for fmt in pair))
def test_arm_rounds_each_sum_of_products_and_the_addend_once(instruction, products, operands):
    """So many products at a time, scaled, in binary16 and in binary32."""
    rng = np.random.default_rng(sum(map(ord, instruction)))
    for output, count in zip((BINARY16, BINARY32), products, strict=True):
        for lscale in (0, 9):
            how = arm_fp8_dot(operands, count, output, lscale=lscale)
            for _ in range(20):
                x, y = (lp.encode(rng.standard_normal(11) * 4, fmt) for fmt in operands)
                want = Fraction(float(np.float16(rng.standard_normal())))
                factors = [lp.decode(x, how.operands[0], dtype=np.float64), lp.decode(y, operands[1])]
                got = lp.dot(*factors, how, addend=float(want))
                both = zip(fractions(x, operands[0]), fractions(y, operands[1]), strict=True)
                terms = [a * b / 2**lscale for a, b in both]
                for start in range(0, 11, count):
                    want = rounded(want + sum(terms[start : start + count]), output)
                assert Fraction(float(got)) == want


@pytest.mark.apart
def test_one_rounding_tells_arm_from_a_chain_of_additions():
    """2**-24 twice is what a single rounding sees, and additions one after the other do not."""
    how, x = ACCUMULATIONS["arm_fdot_e5m2_binary32"], [2.0**-12, 2.0**-12, 0.0, 0.0]
    y = [2.0**-12] * 4
    assert lp.dot(x, y, how, addend=1.0) == 1 + 2.0**-23
    assert lp.dot(x, y, "fp32_fma", addend=1.0) == 1.0


@pytest.mark.apart
def test_overflow_of_arm_is_infinite_or_the_largest_value():
    """FPMR.OSM; an infinity of the operands stays one."""
    x, pair = [57344.0] * 2, (E5M2, E5M2)
    plain, clamped = (arm_fp8_dot(pair, 2, BINARY16, saturate=saturate) for saturate in (False, True))
    assert lp.dot(x, x, plain) == np.inf
    assert lp.dot(x, x, clamped) == 65504
    assert lp.dot([np.inf, 1.0], [1.0, 1.0], clamped) == np.inf
    assert lp.dot([-57344.0, 1.0], [57344.0, 1.0], clamped) == -65504


@pytest.mark.apart
def test_the_nan_of_arm_is_the_default_nan():
    """Positive, whatever operands were."""
    how = ACCUMULATIONS["arm_fmmla_e4m3fn_binary32"]
    assert lp.dot([-np.nan], [1.0], how, dtype=np.uint32) == 0x7FC00000


@pytest.mark.parametrize(
    "operands", [*PAIRS, (INT8F6, INT8F6)], ids=lambda pair: "_".join(fmt.name for fmt in pair)
)
def test_ace_rounds_four_products_with_their_scales_and_then_the_sum(operands):
    """Both without subnormals. As the specification has it: an exact sum, its exponent, and an addition."""
    rng = np.random.default_rng(7)
    how = ACCUMULATIONS["_".join(["ace_top4mx", *dict.fromkeys(fmt.name for fmt in operands), "binary32"])]
    forms = [lp.BlockFormat(name="mine", element=fmt, scale="e8m0fnu", size=32) for fmt in operands]
    for low, high in ((120, 134), (60, 68), (150, 152)):
        x, y = (numbers(fmt, (6, 64), rng) for fmt in operands)
        scales = rng.integers(low, high, (2, 6, 2)).astype(np.uint8)
        addend = rng.standard_normal(6).astype(np.float32)
        if low == 60:
            addend = (addend * np.float32(2.0**-126)).astype(np.float32)
        made = [
            lp.BlockArray(codes, scale, form, (1,))
            for codes, scale, form in zip((x, y), scales, forms, strict=True)
        ]
        got = lp.dot(*made, how, addend=addend)
        for row in range(6):
            running = rounded(Fraction(float(addend[row])), BINARY32, FLUSHED)
            both = zip(fractions(x[row], operands[0]), fractions(y[row], operands[1]), strict=True)
            products = [a * b for a, b in both]
            for start in range(0, 64, 4):
                power = sum(int(scales[side, row, start // 32]) - 127 for side in (0, 1))
                term = rounded(sum(products[start : start + 4]) * Fraction(2) ** power, BINARY32, FLUSHED)
                running = rounded(running + term, BINARY32, FLUSHED)
            assert Fraction(float(got[row])) == running


def test_a_scale_that_is_nan_makes_the_sum_nan():
    """Of either operand; large ones make it infinite."""
    x = lp.encode(np.ones((1, 32)), "mxfp8_e4m3")
    poisoned = lp.BlockArray(x.codes, np.full_like(x.scales, 0xFF), x.format, x.axes)
    large = lp.BlockArray(x.codes, np.full_like(x.scales, 0xFE), x.format, x.axes)
    assert np.isinf(lp.dot(large, large, "ace_top4mx_e4m3fn_binary32")).all()
    for pair in ((x, poisoned), (poisoned, x)):
        assert np.isnan(lp.dot(*pair, "ace_top4mx_e4m3fn_binary32")).all()


@pytest.mark.parametrize(
    "name", ["ace_top4mx_e5m2_binary32", "ace_top4mx_int8f6_binary32", "arm_fdot_e4m3fn_binary32"]
)
def test_the_engines_agree_on_operands_in_blocks(name):
    """Blocks of several terms, and a last one that is shorter; in pairs and chunks of terms too."""
    rng, how = np.random.default_rng(3), ACCUMULATIONS[name]
    form = lp.BlockFormat(name="mine", element=how.operands[0], scale="e8m0fnu", size=8)
    x, y = (lp.encode(rng.standard_normal((5, 30)) * scale, form) for scale in (3.0, 2.0**-70))
    for order in ("sequential", "pairwise", "chunked(2)", "chunked(3, pairwise)"):
        other = dataclasses.replace(how, order=order)
        made = [lp.dot(x, y, other, backend=backend, dtype=np.uint32) for backend in (None, "oracle")]
        assert (made[0] == made[1]).all()


def test_a_term_of_one_is_a_product_with_its_scales():
    """Where a block is the term otherwise, summed exactly."""
    x = lp.encode(np.full((1, 32), 1.0), "mxfp8_e4m3")
    single = (catalog.BINARY32, Projection())
    half = (catalog.E5M2, Projection())
    how = {"operands": (E4M3FN, E4M3FN), "accumulator": half, "output": single}
    assert lp.dot(x, x, lp.Accumulation(**how)) == 32
    assert lp.dot(x, x, lp.Accumulation(**how, term=1)) == 8


def test_a_term_lies_in_one_block():
    """Its products share their scales."""
    form = lp.BlockFormat(name="mine", element="e4m3fn", scale="e8m0fnu", size=6)
    x = lp.encode(np.ones((1, 12)), form)
    message = "terms of 4 products do not fill blocks of 6, which share scales: use blocks of a multiple of 4"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        lp.dot(x, x, "ace_top4mx_e4m3fn_binary32")
    ones = [Fraction(1)] * 12
    with pytest.raises(ValueError, match=r"^a term of 4 products lies in several blocks of 6$"):
        dot(ones, ones, ACCUMULATIONS["ace_top4mx_e4m3fn_binary32"], scales=(ones[:2], ones[:2], 6))
