"""What Scalify's paper, and the tests of its published code, say that must come out.

"Repository" is the tests of jax-scalify, "reference" what a separate implementation of the paper gave.
"""

import ml_dtypes
import numpy as np
import pytest

import lowprec as lp
from lowprec.methods import scale_propagation as sp
from lowprec.methods.scale_propagation import ScaledArray

HUGE = np.float32(2.0**19)  # beyond float16


def scaled(data, scale, dtype=np.float32, scale_dtype=np.float32):
    """As the repository's tests make them."""
    return ScaledArray(np.array(data, dtype), scale_dtype(scale))


# -- scales (repository) ----------------------------------------------------------------------------


@pytest.mark.parametrize("operation", [np.add, np.subtract])
def test_sums_of_scales_4_and_2_have_scale_4(operation):
    """The root of 20, rounded down."""
    x, y = scaled([-1.0, 2.0], 4), scaled([1.5, 4.5], 2)
    assert operation(x, y).scale == 4
    assert (operation(x, y).to_array() == operation(x.to_array(), y.to_array())).all()


@pytest.mark.parametrize("operation", [np.add, np.subtract])
def test_sums_do_not_overflow_scales_of_float16(operation):
    """1024 squared would."""
    x, y = scaled([-1.0, 2.0], 2, np.float16, np.float16), scaled([1.5, 4.0], 1024, np.float16, np.float16)
    z = operation(x, y)
    assert z.scale.dtype == z.dtype == np.float16
    assert z.scale == 1024
    assert (z.to_array() == operation(x.to_array(), y.to_array())).all()


def test_products_of_matrices_with_k_5_have_twice_the_product_of_the_scales():
    """The root of 5, rounded down, is 2."""
    rng = np.random.default_rng(42)
    for dtype in (np.float32, np.float16):
        x, y = scaled(rng.random((3, 5)), 2, dtype), scaled(rng.random((5, 2)), 4, dtype)
        assert (x @ y).scale == 16
        assert (x @ y).dtype == dtype
        np.testing.assert_allclose((x @ y).to_array(), x.to_array() @ y.to_array(), rtol=2e-3)


@pytest.mark.parametrize(("reduce", "scale"), [(np.sum, 4), (np.prod, 32), (np.min, 2), (np.max, 2)])
def test_reductions_of_5_elements_of_scale_2(reduce, scale):
    """Scales of sum 2 * 2, prod 2**5, the others unchanged."""
    x = scaled(np.random.default_rng(42).random(5), 2, np.float16)
    result = reduce(x)
    assert result.shape == ()
    assert result.dtype == np.float16
    assert result.scale == scale
    np.testing.assert_allclose(result.to_array(), reduce(x.to_array()), rtol=2e-3)


def test_products_and_quotients_of_scales_3_and_2():
    """Scales need not be powers of two."""
    x, y = scaled([-2.0, 2.0], 3), scaled([1.5, 1.5], 2)
    assert (x * y).scale == 6
    assert (x / y).scale == 1.5
    assert (x * y).to_array().tolist() == [-18, 18]
    np.testing.assert_allclose((x / y).to_array(), [-2, 2], rtol=1e-7)


def test_choices_have_the_larger_scale():
    """select(2, 4) has 4, concatenate(0.5, 2) has 2, of two zeros 0."""
    rng = np.random.default_rng(42)
    mask, x, y = rng.random(5) > 0.5, scaled(rng.random(5), 2), scaled(rng.random(5), 4)
    chosen = np.where(mask, x, y)
    assert chosen.scale == 4
    assert (chosen.to_array() == np.where(mask, x.to_array(), y.to_array())).all()
    joined = np.concatenate(
        [scaled(rng.random((2, 3)), 0.5, np.float16), scaled(rng.random((5, 3)), 2, np.float16)]
    )
    assert joined.scale == 2
    assert joined.shape == (7, 3)
    nothing = np.concatenate([scaled(rng.random((2, 3)), 0), scaled(rng.random((5, 3)), 0)])
    assert nothing.scale == 0
    assert not nothing.to_array().any()


@pytest.mark.parametrize("operation", [np.minimum, np.maximum])
@pytest.mark.parametrize(("data", "scale"), [([1.5, 4.5], 0.0), ([-np.inf, np.inf], np.inf)])
def test_zeros_and_infinities_leave_the_scale_to_the_other(operation, data, scale):
    """Equal at any scale. The published code takes data of a zero scale for values; here they are 0."""
    x, y = scaled([-1.0, 2.0], 4), scaled(data, scale)
    result = operation(x, y)
    assert result.scale == operation(y, x).scale == 4
    assert (
        result.to_array() == operation(x.to_array(), np.multiply(data, 0.0 if scale == 0 else scale))
    ).all()


@pytest.mark.parametrize("scale", [0.25, 8.0])
def test_the_gradient_of_relu_keeps_its_scale(scale):
    """The zeros that it selects have none."""
    gradient = scaled([1.0, 0.5], scale)
    for zero in (0, np.zeros(2, np.float32), np.zeros_like(gradient), np.full_like(gradient, 0)):
        assert np.where(gradient > 0, gradient, zero).scale == scale


def test_logsumexp_keeps_the_scale():
    """Log of a sum, of scale 1, plus a maximum of scale 4; the paper's appendix B picks zeros on the way."""
    x = scaled(np.random.default_rng(42).random(10), 4)
    largest = np.max(x)
    largest = np.where(np.isfinite(largest), largest, 0.0)
    assert largest.scale == 4
    result = np.log(np.abs(np.sum(np.exp(x - largest)))) + largest
    assert result.scale == 4
    np.testing.assert_allclose(result.to_array(), np.log(np.sum(np.exp(x.to_array()))), rtol=1e-6)


# -- exp and log at scales that float16 does not have (repository) -----------------------------------


def test_exp_of_large_negative_numbers_is_zero_and_of_zero_one():
    """And not NaN, as zero times infinity."""
    assert np.exp(scaled([0, -1, -2, -32768], HUGE, np.float16)).to_array().tolist() == [1, 0, 0, 0]


def test_log_at_a_large_scale_is_finite_or_minus_infinity():
    """log(0) without NaN; 19 log 2 of 1."""
    result = np.log(scaled([0, 1], HUGE, np.float16)).to_array()
    assert result[0] == -np.inf
    assert result[1] == np.float16(19 * np.log(2))


# -- dynamic rescaling (repository) -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("norm", "data", "scale"),
    [("max", [2, -3], 8), ("l1", [1, -6], 8), ("l2", [4, -8], 16)],
    ids=["max", "l1", "l2"],
)
def test_dynamic_rescale_moves_a_power_of_two_into_the_scale(norm, data, scale):
    """Of max 3 -> 2, mean magnitude 3.5 -> 2, root mean square 6.3 -> 4; values stay."""
    x = scaled(data, 4, np.float16, np.float16)
    result = sp.dynamic_rescale(x, norm)
    assert result.scale == scale
    assert result.dtype == result.scale.dtype == np.float16
    assert (result.to_array() == x.to_array()).all()


@pytest.mark.parametrize("norm", ["max", "l1", "l2"])
def test_dynamic_rescale_of_zeros_leaves_a_small_scale(norm):
    """2**-14, so that 0 < scale < 0.001."""
    result = sp.dynamic_rescale(scaled([0, 0], 1, np.float16), norm)
    assert 0 < result.scale < 1e-3
    assert result.scale == 2.0**-14
    assert not result.to_array().any()


# -- powers of two (repository) ---------------------------------------------------------------------

SMALLEST = float(np.finfo(np.float16).smallest_subnormal)
NORMAL = float(np.finfo(np.float16).smallest_normal)
TINY = 3.123283386230469e-05
DOWN = [(0, 0), (1, 1), (2.1, 2), (0.3, 0.25), (0.51, 0.5), (65500, 32768)]
DOWN += [(NORMAL, NORMAL), (SMALLEST, SMALLEST), (TINY, 2.0**-15)]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize(("value", "power"), DOWN)
def test_powers_of_two_are_rounded_down_and_split_off(value, power, dtype):
    """In every type, of subnormals too; scale * significand is the value."""
    given = dtype(value)
    assert sp.pow2_round(given, "down") == power
    assert sp.pow2_round(given, "down").dtype == dtype
    scale, significand = sp.pow2_decompose(given)
    assert (scale, significand.dtype) == (power, dtype)
    assert float(scale) * float(significand) == given
    assert significand == 0 or 1 <= significand < 2


def test_the_significand_of_65504_is_that_of_float16():
    """1.9990234375."""
    assert sp.pow2_decompose(np.float16(65504))[1] == 1.9990234375


def test_infinities_and_nans_have_an_infinite_scale():
    """The number itself is the significand."""
    scales, significands = sp.pow2_decompose(np.float32([np.inf, -np.inf, np.nan]))
    assert scales.tolist() == [np.inf] * 3
    np.testing.assert_array_equal(significands, [np.inf, -np.inf, np.nan])


@pytest.mark.parametrize(
    ("value", "power"), [(2.1, 4), (0.3, 0.5), (0.51, 1), (17000, 32768), (4, 4), (0.25, 0.25), (0, 0)]
)
def test_powers_of_two_are_rounded_up(value, power):
    """Powers of two stay: the published code doubles them."""
    assert sp.pow2_round(np.float16(value), "up") == power


@pytest.mark.parametrize("dtype", [np.float16, np.float32, ml_dtypes.bfloat16])
def test_truncation_keeps_signs_and_zeros(dtype):
    """Of [-2, 0, 2, 1, 9, 15]."""
    result = sp.pow2_round(np.array([-2, 0, 2, 1, 9, 15]).astype(dtype))
    assert result.dtype == dtype
    assert result.astype(float).tolist() == [-2, 0, 2, 1, 8, 8]


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_e8m0_codes_are_truncated_exponents(dtype):
    """Negative numbers, zero and 2**-127 have code 0; powers of two come back."""
    values = np.array([0.6, 2, 1, 9, 15, 127]).astype(dtype)
    assert sp.encode_e8m0(values).tolist() == [126, 128, 127, 130, 130, 133]
    assert sp.encode_e8m0(np.array([-0.1, -3, 0, 2.0**-127]).astype(dtype)).tolist() == [0, 0, 0, 0]
    powers = np.array([2.0**-127, 0.25, 1, 2, 8, 2.0**127]).astype(dtype)
    back = sp.decode_e8m0(sp.encode_e8m0(powers), dtype)
    assert back.dtype == dtype
    assert (back == powers).all()
    assert np.isnan(sp.decode_e8m0(255))


# -- gradients (repository) -------------------------------------------------------------------------


def test_the_gradient_of_a_mean_of_squares_has_its_smallness_in_the_scale():
    """Data with a standard deviation of 0.25 to 1, and a scale below 0.01, for 128 values of 0 to 1."""
    v = scaled(np.random.default_rng(42).random((8, 16)), 1)
    each = np.broadcast_to(np.ones_like(v[0, 0]) / v.size, v.shape)  # of the mean
    gradient = each * v + v * each  # of the squares
    assert 0.25 <= gradient.data.std() <= 1
    assert gradient.scale <= 0.01
    np.testing.assert_array_equal(gradient.to_array(), 2 * v.to_array() / 128)


# -- products of matrices (reference) ---------------------------------------------------------------


def sqnr(want, got):
    """In decibels."""
    return 10 * np.log10(np.sum(np.square(want)) / np.sum(np.square(got - want)))


def test_a_product_that_overflows_float16_has_room_in_its_scale():
    """Standard deviations 128 and 64, K 1024: 262,144 in theory; without scales a fifth are finite."""
    rng = np.random.default_rng(0)
    x, y = 128 * rng.standard_normal((16, 1024)), 64 * rng.standard_normal((1024, 8))
    plain = lp.matmul(x.astype(np.float16), y.astype(np.float16), "fp32_fma")
    assert np.isfinite(lp.quantize(plain, "binary16")).sum() == 27  # 25.3 are expected
    result = sp.as_scaled(x, 128.0, "binary16") @ sp.as_scaled(y, 64.0, "binary16")
    assert result.scale == 2**18
    assert result.dtype == np.float16
    assert result.data.astype(float).std() == pytest.approx(1.002, abs=0.001)
    assert sqnr(x @ y, result.to_array()) == pytest.approx(70.2, abs=0.05)


EXPONENTS = (-12, -10, -8, -6, 0, 8, 10)
PLAIN = (0.0, 1.3, 13.8, 25.3, 28.5, 12.6, 1.0)
RNG = np.random.default_rng(1)
X, Y = RNG.standard_normal((128, 512)).astype(np.float32), RNG.standard_normal((512, 128)).astype(np.float32)


def test_fp8_without_scales_loses_what_is_small_and_what_is_large():
    """The SQNR of E4M3, saturating, by the standard deviation of both operands; E5M2 has 22.5 dB of all."""
    for exponent, want in zip(EXPONENTS, PLAIN, strict=True):
        x, y = X * np.float32(2.0**exponent), Y * np.float32(2.0**exponent)
        exact = x.astype(float) @ y.astype(float)
        for fmt, decibels in (("e4m3fn", want), ("e5m2", 22.5)):
            narrow = (sp.cast(given, fmt, saturation="finite") for given in (x, y))
            assert sqnr(exact, sp.matmul(*narrow)) == pytest.approx(decibels, abs=0.07), (exponent, fmt)


@pytest.mark.parametrize(
    ("formats", "decibels"),
    [(("e4m3fn", "e4m3fn"), 28.46), (("e4m3fn", "e5m2"), 24.57)],
    ids=["e4m3", "mixed"],
)
def test_fp8_with_scales_is_the_same_at_every_scale(formats, decibels):
    """28.46 dB, and the same bits; with mixed formats 24.57 dB."""
    found = []
    for exponent in EXPONENTS:
        scale = np.float32(2.0**exponent)
        x, y = (
            sp.dynamic_rescale(ScaledArray(given * scale)).astype(fmt, saturation="finite")
            for given, fmt in zip((X, Y), formats, strict=True)
        )
        result = x @ y
        assert result.format.name == "binary32"
        assert sqnr(2.0 ** (2 * exponent) * (X.astype(float) @ Y), result.to_array()) == pytest.approx(
            decibels, abs=0.005
        )
        found.append(result.data.tobytes())
    assert len(set(found)) == 1


# -- the best scale (reference) ---------------------------------------------------------------------


def test_the_best_scale_of_normal_numbers_is_anything_from_2_to_the_minus_6_to_2():
    """31.54 dB of E4M3: a root mean square of 1 sits inside the optimum."""
    x = np.random.default_rng(0).standard_normal(1 << 17).astype(np.float32)
    found = {k: lp.error_report(x, "e4m3fn", scale=2.0**k, saturation="finite").sqnr for k in range(-8, 6)}
    assert all(found[k] == pytest.approx(31.54, abs=0.02) for k in range(-6, 2))
    assert all(found[k] < 31.5 for k in (-8, -7, 4, 5))
    best = float(sp.best_pow2_scale(x, "e4m3fn"))
    assert lp.error_report(x, "e4m3fn", scale=best, saturation="finite").sqnr == max(found.values())
