"""Settings beyond float64 or 64-bit integers are refused in the words of other settings out of range."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lowprec as lp
from lowprec.methods import expansion, fp8, mx, nvfp4, scale_propagation as sp, unit_scaling as us

ONES = np.ones((4, 4), np.float32)
WIDE = np.ones((4, 4))
IMAGES, FILTERS = np.ones((1, 2, 4, 4)), np.ones((2, 2, 3, 3))
VECTOR = mx.Vector()


@functools.cache
def scaled() -> sp.ScaledArray:
    """Return the ones as a scaled array; kernels are compiled when a test first asks."""
    return sp.as_scaled(ONES)


AXES: dict[str, Callable[[Any], Any]] = {
    "scale_for": lambda axis: lp.scale_for(ONES, "e4m3fn", axis=axis),
    "fp8.encode": lambda axis: fp8.encode(ONES, axis=axis),
    "us.sum": lambda axis: us.sum(ONES, axis),
    "us.softmax": lambda axis: us.softmax(ONES, axis),
    "us.layer_norm": lambda axis: us.layer_norm(ONES, axis=axis),
    "us.rms_norm": lambda axis: us.rms_norm(ONES, axis=(0, axis)),
    "sp.layer_norm": lambda axis: sp.layer_norm(ONES, axis),
    "scaled sp.layer_norm": lambda axis: sp.layer_norm(scaled(), axis),
    "scaled sum": lambda axis: np.sum(scaled(), axis),
    "scaled cumsum": lambda axis: np.cumsum(scaled(), axis),
    "scaled tensordot": lambda axis: np.tensordot(scaled(), scaled(), ([axis], [0])),
    "Vector.mean": lambda axis: VECTOR.mean(ONES, axis),
    "Vector.softmax": lambda axis: VECTOR.softmax(ONES, axis),
    "nvfp4.hadamard": lambda axis: nvfp4.hadamard(ONES, 4, axis=axis),
    "index of blocks": lambda axis: lp.encode(ONES, "mxfp4")[axis],
}

NUMBERS: dict[str, Callable[[Any], Any]] = {
    "us.gelu": lambda x: us.gelu(ONES, x),
    "us.glu": lambda x: us.glu(ONES, ONES, mult=x),
    "us.layer_norm": lambda x: us.layer_norm(ONES, eps=x),
    "us.softmax": lambda x: us.softmax(ONES, mult=x),
    "us.attention": lambda x: us.attention(ONES, ONES, ONES, mult=x),
    "us.attention_scale": lambda x: us.attention_scale(x, 4),
    "us.cross_entropy": lambda x: us.cross_entropy(ONES, [0, 1, 2, 3], mult=x),
    "us.weighted_sum": lambda x: us.weighted_sum([ONES], [x]),
    "us.residual_split": lambda x: us.residual_split(ONES, x),
    "us.gmean": us.gmean,
    "us.empirical_scales": lambda x: us.empirical_scales("gelu", x),
    "us.softmax_scales": us.softmax_scales,
    "us.log_interpolate": lambda x: us.log_interpolate(x, 1.0, 2.0),
    "us.learning_rate_scale": lambda x: us.learning_rate_scale("weight", x),
    "us.weight_decay": lambda x: us.weight_decay(x, 0.5),
    "us.transformer_tau": lambda x: us.transformer_tau(0, 4, mult=x),
    "layers of us.transformer_tau": lambda x: us.transformer_tau(0, x),
    "us.plateau": lambda x: us.plateau("e4m3fn", x),
    "us.simulated": lambda x: us.simulated(x, 3),
    "us.conv2d": lambda x: us.conv2d(IMAGES, FILTERS, padding=x),
    "fp8.conv2d": lambda x: fp8.conv2d(IMAGES, FILTERS, padding=x),
    "fp8.Recipe": lambda x: fp8.linear(ONES, ONES, scaling=fp8.Recipe(margin=x).start()),
    "fp8.calibrate": lambda x: fp8.calibrate(ONES, percentiles=[x]),
    "mx.expected_sqnr": lambda x: mx.expected_sqnr("int8", x),
    "nvfp4.from_mxfp4": lambda x: nvfp4.from_mxfp4(lp.encode(ONES, "mxfp4"), x),
    "expansion.AdamW": lambda x: expansion.AdamW(eps=x),
    "sp.SGD": lambda x: sp.SGD(learning_rate=x),
    "sp.Adam": lambda x: sp.Adam(eps=x),
    "sp.layer_norm": lambda x: sp.layer_norm(ONES, eps=x),
    "sp.scatter_add": lambda x: sp.scatter_add(scaled(), [0, 1, 2, 3], x),
    "scaled power": lambda x: scaled() ** x,
}


@pytest.mark.parametrize(
    "axis", [2**31, 2**63, 10**400, -(10**400)], ids=["2**31", "2**63", "10**400", "-10**400"]
)
@pytest.mark.parametrize("name", AXES)
def test_axes_beyond_integers_are_refused_as_others_are(name: str, axis: int) -> None:
    with pytest.raises((ValueError, IndexError), match=r"out of bounds|must name axes of the values"):
        AXES[name](axis)


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_beyond_float64_are_refused_as_others_are(name: str) -> None:
    words = r"beyond the largest float64|must be|in all; use|scales must|real numbers|below 2"
    with pytest.raises((ValueError, TypeError), match=words) as caught:
        NUMBERS[name](10**400)
    assert "Python int too large" not in str(caught.value)


@pytest.mark.parametrize("mult", [5e-324, 1e-200, 1e200, 1.7e308])
def test_factors_of_extreme_multipliers_are_numbers(mult: float) -> None:
    assert us.attention_scale(64, 64, mult=mult) == pytest.approx(8.0 if mult < 1 else 1.0)
    assert (
        us.empirical_scales("glu", mult).alpha == us.empirical_scales("glu", 1e-9 if mult < 1 else 1e9).alpha
    )
    assert us.cross_entropy(WIDE, [0, 1, 2, 3], mult=mult)[1].beta[0] >= 0
    assert us.transformer_tau(1, 4, mult=min(mult, 1e200)) == pytest.approx(min(mult * 0.5**0.5, 1.0))


@pytest.mark.parametrize("bits", [33, 10**18, 2**63, 10**400], ids=["33", "10**18", "2**63", "10**400"])
def test_simulated_formats_of_too_many_bits_are_refused(bits: int) -> None:
    with pytest.raises(ValueError, match="bits in all; use 2 to 32"):
        us.simulated(bits, 3)
    with pytest.raises(ValueError, match="bits in all; use 2 to 32"):
        us.simulated(3, bits)


@pytest.mark.parametrize("weight", [1e-200, 1e200])
def test_weighted_sums_have_unit_variance_at_extreme_weights(weight: float) -> None:
    assert us.weighted_sum([WIDE, WIDE], [weight, weight])[0] == pytest.approx(WIDE * 2**0.5)


@pytest.mark.parametrize("axis", [(0, 1), (1,), "a", 1.0, True], ids=repr)
@pytest.mark.parametrize(
    "name", ["us.softmax", "scaled cumsum", "Vector.mean", "Vector.softmax", "nvfp4.hadamard"]
)
def test_what_lies_along_one_axis_takes_one_integer(name: str, axis: Any) -> None:
    """Refuse what ended in NumPy's words, or in sums along the first axis alone."""
    with pytest.raises(TypeError, match="axis must be an integer"):
        AXES[name](axis)


@pytest.mark.parametrize("axis", ["a", 1.0, True, (0, 0.5)], ids=repr)
def test_axes_are_integers(axis: Any) -> None:
    for take in (us.layer_norm, us.rms_norm):
        with pytest.raises(TypeError, match="axis must be an integer or a tuple of them, not "):
            take(WIDE, axis=axis)


@pytest.mark.parametrize("projection", ["toward_zero", "microxcaling"])
def test_vectors_refuse_names_as_projections(projection: Any) -> None:
    with pytest.raises(TypeError, match="projection must be a Projection, not '"):
        mx.Vector(projection=projection)
