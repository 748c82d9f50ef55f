"""Functions with their own gradient: against finite differences in float64; FP8 against its definition."""

import math

import numpy as np
import pytest

import lowprec as lp
from lowprec.methods import scale_propagation as sp
from lowprec.methods.scale_propagation import ScaledArray

RNG = np.random.default_rng(0)

ACTIVATIONS = {
    sp.relu: lambda x: max(x, 0.0),
    sp.gelu: lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2,
    sp.silu: lambda x: x / (1 + math.exp(-x)),
}


def differences(function, x, step=1e-5):
    """Central differences of a function of an array that gives a number, in float64."""
    x = np.asarray(x, np.float64)
    gradient = np.zeros(x.shape)
    for index in np.ndindex(x.shape):
        ends = []
        for sign in (1, -1):
            moved = x.copy()
            moved[index] += sign * step
            ends.append(float(function(moved)))
        gradient[index] = (ends[0] - ends[1]) / (2 * step)
    return gradient


# -- activations ------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", ACTIVATIONS, ids=lambda function: function.__name__)
@pytest.mark.parametrize("exponent", [-8, 0, 3])
def test_activations_keep_the_scale_both_ways(function, exponent):
    """Values and gradients are those of the function at the values, to half an ulp of binary32 (2**-24)."""
    x = ScaledArray(np.float32([-3.0, -0.7, 0.01, 0.5, 2.0, 4.0]), 2.0**exponent)
    gradient = ScaledArray(RNG.standard_normal(6).astype(np.float32), 2.0**-30)
    y, pull = function(x)
    back = pull(gradient)
    want = np.vectorize(ACTIVATIONS[function])(x.to_array())
    slope = np.array(
        [differences(lambda v: ACTIVATIONS[function](float(v)), value) for value in x.to_array()]
    )
    assert (y.scale, back.scale) == (x.scale, gradient.scale)
    np.testing.assert_allclose(y.to_array(), want, rtol=2.0**-23)
    np.testing.assert_allclose(back.to_array(), slope * gradient.to_array(), rtol=1e-5, atol=1e-9 * 2.0**-30)


@pytest.mark.parametrize("function", ACTIVATIONS, ids=lambda function: function.__name__)
def test_activations_of_plain_arrays_are_what_they_are(function):
    """In the type that they have; the same numbers as with a scale."""
    x, g = RNG.standard_normal((2, 50)).astype(np.float32)
    y, pull = function(x)
    scaled, scaled_pull = function(ScaledArray(x))
    assert y.dtype == pull(g).dtype == np.float32
    np.testing.assert_allclose(scaled.data, y, rtol=2.0**-23)
    np.testing.assert_allclose(scaled_pull(g).data, pull(g), rtol=2.0**-22)


@pytest.mark.parametrize("function", ACTIVATIONS, ids=lambda function: function.__name__)
def test_activations_of_infinities_zeros_and_nans(function):
    """0 below, the number itself above, NaN for NaN; slopes of 0 and 1."""
    x = np.float32([-np.inf, -0.0, np.inf, np.nan])
    signs = np.float32([-1, 0, 1, np.nan])  # infinite by their scale: zero times that is NaN
    for given, zero in ((x, 0), (ScaledArray(x, 4.0), 0), (ScaledArray(signs, np.inf), np.nan)):
        y, pull = function(given)
        y, back = (
            v.to_array() if isinstance(v, ScaledArray) else v for v in (y, pull(np.ones(4, np.float32)))
        )
        np.testing.assert_array_equal(y, [0, zero, np.inf, np.nan])
        np.testing.assert_array_equal(back[[0, 2]], [0, 1])


@pytest.mark.parametrize(
    "function", [sp.gelu, sp.silu, sp.layer_norm], ids=lambda function: function.__name__
)
def test_integers_become_float64(function):
    """As in NumPy's own functions; their type would cut off all that is behind the point."""
    (y, pull), (want, back) = function([1, 2, 4]), function([1.0, 2.0, 4.0])
    np.testing.assert_array_equal(y, want)
    np.testing.assert_array_equal(pull([1, 0, 2]), back([1.0, 0.0, 2.0]))


def test_activations_are_rounded_once_into_the_format():
    """Of 8 bits: the data times the gate, quantized."""
    x = sp.as_scaled(RNG.standard_normal(200) * 64, 64.0, "e4m3fn")
    values = x.to_array()
    gate = 1 / (1 + np.exp(-values))
    y, pull = sp.silu(x)
    np.testing.assert_array_equal(y.data, lp.multiply(x.data, gate, "e4m3fn"))
    g = sp.as_scaled(RNG.standard_normal(200), 0.25, "e5m2")
    slope = gate * (1 + values * (1 - gate))
    assert pull(g).format.name == "e5m2"
    np.testing.assert_allclose(pull(g).data, lp.multiply(g.data, slope, "e5m2"), rtol=1e-12)


# -- normalisation ----------------------------------------------------------------------------------


def normalised(x, axis=-1, eps=1e-5):
    """Layer normalisation in float64."""
    x = np.asarray(x, np.float64)
    return (x - x.mean(axis, keepdims=True)) / np.sqrt(x.var(axis, keepdims=True) + eps)


@pytest.mark.parametrize("axis", [-1, 0])
@pytest.mark.parametrize("exponent", [-40, 0, 40])
def test_a_normalisation_has_scale_1_and_its_gradient_the_quotient(axis, exponent):
    """The eps is for the data, so that tiny values are normalised as others are."""
    data, g = RNG.standard_normal((2, 3, 5)).astype(np.float32)
    x, gradient = ScaledArray(data, 2.0**exponent), ScaledArray(g, 0.5)
    y, pull = sp.layer_norm(x, axis=axis)
    back = pull(gradient)
    assert y.scale == 1
    assert back.scale == 0.5 / 2.0**exponent
    np.testing.assert_allclose(y.to_array(), normalised(data, axis), rtol=1e-6, atol=1e-7)
    # The function of the values has eps at their scale.
    slope = differences(lambda d: np.sum(gradient.to_array() * normalised(d, axis)), data) / 2.0**exponent
    np.testing.assert_allclose(back.to_array(), slope, rtol=1e-5, atol=1e-6 * abs(slope).max())


def test_normalisations_of_plain_arrays_and_of_zeros():
    """float32 stays; zeros of scale 0 give zeros."""
    x, g = RNG.standard_normal((2, 3, 5)).astype(np.float32)
    y, pull = sp.layer_norm(x, eps=0.1)
    assert y.dtype == pull(g).dtype == np.float32
    np.testing.assert_allclose(y, normalised(x, eps=0.1), rtol=1e-6)
    np.testing.assert_allclose(
        pull(g), differences(lambda v: np.sum(g * normalised(v, eps=0.1)), x), rtol=1e-4, atol=1e-6
    )
    y, pull = sp.layer_norm(ScaledArray(x, 0.0))
    assert not y.to_array().any()
    assert not pull(ScaledArray(g, 0.0)).to_array().any()


# -- the linear layer -------------------------------------------------------------------------------


def operands():
    """An x of (2, 3, 8), w of (8, 4), b of (4,) and a gradient, at unlike scales."""
    return (
        ScaledArray(RNG.standard_normal((2, 3, 8)).astype(np.float32), 2.0**9),
        ScaledArray(RNG.standard_normal((8, 4)).astype(np.float32), 2.0**-3),
        ScaledArray(RNG.standard_normal(4).astype(np.float32), 2.0),
        ScaledArray(RNG.standard_normal((2, 3, 4)).astype(np.float32), 2.0**-24),
    )


def test_the_gradient_of_a_linear_layer_is_that_of_finite_differences():
    """Without casts, x @ w + b is linear in each: differences are exact but for float64."""
    x, w, b, g = operands()
    y, pull = sp.linear(x, w, b, forward="binary32", backward="binary32")
    values = [v.to_array() for v in (x, w, b)]
    np.testing.assert_allclose(y.to_array(), values[0] @ values[1] + values[2], rtol=1e-5, atol=1e-3)
    for place, gradient in enumerate(pull(g)):

        def loss(moved, place=place):
            given = [moved if i == place else v for i, v in enumerate(values)]
            return np.sum(g.to_array() * (given[0] @ given[1] + given[2]))

        want = differences(loss, values[place], 1.0)
        np.testing.assert_allclose(gradient.to_array(), want, rtol=1e-5, atol=1e-5 * abs(want).max())


def narrow(x, fmt):
    """Cast of the data, saturating."""
    return lp.quantize(x.data, fmt, saturation="finite")


def test_fp8_is_cast_to_e4m3_forward_and_to_e5m2_backward():
    """Bit for bit the library's products of cast data, over a power of two; the bias knows nothing of it."""
    x, w, b, g = operands()
    y, pull = sp.linear(x, w, b)
    at_x, at_w, at_b = pull(g)
    data = [narrow(x, "e4m3fn"), narrow(w, "e4m3fn"), narrow(g, "e5m2")]
    rows, back = data[0].reshape(6, 8), data[2].reshape(6, 4)
    product = ScaledArray(lp.matmul(data[0], data[1], "fp32_fma") / 2, x.scale * w.scale * 2)
    np.testing.assert_array_equal(y.data, (product + b).data)
    np.testing.assert_array_equal(at_x.data, lp.matmul(data[2], data[1].T, "fp32_fma") / 2)
    np.testing.assert_array_equal(at_w.data, lp.matmul(rows.T, back, "fp32_fma") / 2)
    np.testing.assert_array_equal(at_b.data, np.sum(g.reshape(6, 4), axis=0).data)
    assert (at_x.scale, at_w.scale, at_b.scale) == (2.0**-26, 2.0**-14, 2.0**-23)
    assert {v.format.name for v in (y, at_x, at_w, at_b)} == {"binary32"}
    assert sp.linear(x, w)[1](g)[2] is None


def test_large_data_saturate():
    """500 is no E4M3; other policies may be asked for."""
    x, w = ScaledArray(np.float32([[500.0]]), 1.0), ScaledArray(np.float32([[1.0]]), 1.0)
    assert sp.linear(x, w)[0].to_array() == 448
    assert np.isnan(sp.linear(x, w, saturation="none")[0].to_array())


def test_tensor_cores_may_accumulate():
    """Each product with the accumulation of its formats."""
    x, w, b, g = operands()
    cores = [f"hopper_wgmma_{name}_binary32" for name in ("e4m3fn", "e5m2_e4m3fn", "e4m3fn_e5m2")]
    y, pull = sp.linear(x, w, b, accumulation=tuple(cores))
    at_x, at_w, _ = pull(g)
    data = [narrow(x, "e4m3fn"), narrow(w, "e4m3fn"), narrow(g, "e5m2")]
    np.testing.assert_array_equal((y - b).shape, (2, 3, 4))
    np.testing.assert_array_equal(at_x.data, lp.matmul(data[2], data[1].T, cores[1]) / 2)
    np.testing.assert_array_equal(
        at_w.data, lp.matmul(data[0].reshape(6, 8).T, data[2].reshape(6, 4), cores[2]) / 2
    )


def test_the_configuration_says_how_products_are_summed():
    """Of plain arrays too, unless the call does: 2048 + 1 is no float16."""
    x, w = np.full((1, 2049), 1.0, np.float32), np.full((2049, 1), 1.0, np.float32)
    with sp.config(dots="fp16_sequential"):
        for given in (x, ScaledArray(x)):
            assert float(sp.stop_scaling(sp.linear(given, w)[0]).item()) == 2048
            assert float(sp.stop_scaling(sp.matmul(given, w, "exact")).item()) == 2049


def test_plain_arrays_are_cast_at_a_scale_of_1():
    """The same function is FP8 without scales: what is small is lost."""
    x, w, b, g = (v.data for v in operands())
    y, pull = sp.linear(x, w, b)
    want = lp.matmul(lp.quantize(x, "e4m3fn"), lp.quantize(w, "e4m3fn"), "fp32_fma") + b
    np.testing.assert_array_equal(y, want)
    assert all(type(v) is np.ndarray for v in (y, *pull(g)))
    assert not pull(g * np.float32(2.0**-24))[0].any()
