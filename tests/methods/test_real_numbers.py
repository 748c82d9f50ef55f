"""Methods take real numbers alone: complex numbers, texts, dates and objects would become untrue numbers."""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from lowprec.methods import (
    expansion,
    fp8,
    layers,
    mx,
    nvfp4,
    scale_propagation as sp,
    unit_scaling as us,
)

ONES = np.ones((4, 4), np.float32)

OTHERS = {
    "complex": np.full((4, 4), 1 + 2j),
    "text": np.full((4, 4), "1"),
    "date": np.full((4, 4), "2020-01-01", "M8[D]"),
    "duration": np.ones((4, 4), "m8[s]"),
    "object": np.array([[1, 2, None, 4]] * 4, object),
    "structure": np.zeros((4, 4), [("a", "f4")]),
    "large integer": [[10**400] * 4] * 4,
}

VECTOR = mx.Vector()

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "gradient of us.matmul": lambda x: us.matmul(ONES, ONES)[1](x),
    "gradient of us.gelu": lambda x: us.gelu(ONES)[1](x),
    "us.weighted_sum": lambda x: us.weighted_sum([ONES], [np.asarray(x).flat[2]]),
    "us.snr": lambda x: us.snr(x, ONES),
    "us.snr of results": lambda x: us.snr(ONES, x),
    "us.snr_curve": lambda x: us.snr_curve("e4m3fn", x),
    "us.TensorStatistics": us.TensorStatistics.of,
    "us.derive_scale": lambda x: us.derive_scale(lambda _: x),
    "sp.gelu": sp.gelu,
    "gradient of sp.gelu": lambda x: sp.gelu(ONES)[1](x),
    "sp.silu": sp.silu,
    "sp.relu": sp.relu,
    "gradient of sp.relu": lambda x: sp.relu(ONES)[1](x),
    "sp.layer_norm": sp.layer_norm,
    "gradient of sp.layer_norm": lambda x: sp.layer_norm(ONES)[1](x),
    "sp.pow2_round": sp.pow2_round,
    "sp.pow2_decompose": sp.pow2_decompose,
    "sp.best_pow2_scale": lambda x: sp.best_pow2_scale(x, "e4m3fn"),
    "sp.scatter_add": lambda x: sp.scatter_add(x, [0, 1, 2, 3], 4),
    "sp.stop_scaling": sp.stop_scaling,
    "sp.get_data_scale": sp.get_data_scale,
    "power of a ScaledArray": lambda x: sp.as_scaled(ONES) ** np.asarray(x).flat[2],
    "sp.scaled_scalar": lambda x: sp.scaled_scalar(np.asarray(x)[0, 2]),
    "fp8.sqnr": lambda x: fp8.sqnr(x, ONES),
    "fp8.sqnr of results": lambda x: fp8.sqnr(ONES, x),
    "fp8.ScaledCodes": lambda x: fp8.ScaledCodes(x, 1.0, "e4m3fn"),
    "scale of fp8.encode": lambda x: fp8.encode(ONES, scale=x),
    "mx.diffuse": lambda x: mx.diffuse(x, ONES),
    "inputs of mx.diffuse": lambda x: mx.diffuse(ONES, x),
    "later inputs of mx.diffuse": lambda x: mx.diffuse(ONES, ONES, x_after=x),
    "Vector.tanh": VECTOR.tanh,
    "Vector.exp": VECTOR.exp,
    "Vector.softmax": VECTOR.softmax,
    "Vector.sigmoid": VECTOR.sigmoid,
    "signs of nvfp4.hadamard": lambda x: nvfp4.hadamard(ONES, 4, signs=np.asarray(x)[0]),
    "layers.Linear": layers.Linear,
    "bias of layers.Linear": lambda x: layers.Linear(ONES, x),
    "layers.linear": lambda x: layers.linear(x, ONES),
    "expansion.split": lambda x: expansion.split(x, 2, "bfloat16"),
    "expansion.edq": lambda x: expansion.edq(x, ONES, 2 * ONES),
    "old of expansion.edq": lambda x: expansion.edq(ONES, x, ONES),
    "expansion.AdamW": lambda x: expansion.AdamW().start(x),
}


@pytest.mark.parametrize("kind", OTHERS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_methods_refuse_what_is_no_real_number(name: str, kind: str) -> None:
    words = r"must be (real numbers|integers|a single number|one real number)|beyond the largest float64"
    with pytest.raises((TypeError, ValueError), match=words):
        FUNCTIONS[name](OTHERS[kind])


@pytest.mark.parametrize("gradient", [np.ones((4, 4), np.int64), np.ones((4, 4), np.bool_)])
@pytest.mark.parametrize("function", [sp.gelu, sp.silu, sp.relu, sp.layer_norm])
def test_gradients_of_scaled_activations_may_be_integers(function: Any, gradient: Any) -> None:
    pull = function(sp.as_scaled(np.float32([[1, -2, 3, 4]] * 4), 2.0))[1]
    assert np.array_equal(pull(gradient).to_array(), pull(np.float32(gradient)).to_array())


@pytest.mark.parametrize(
    ("first", "second"), [(np.float16, ml_dtypes.bfloat16), (ml_dtypes.bfloat16, np.float16)]
)
@pytest.mark.parametrize("choose", [lambda x, y: np.where(x < y, x, y), np.minimum])
def test_choices_among_float16_and_bfloat16_are_of_binary32(choose: Any, first: Any, second: Any) -> None:
    x, y = sp.as_scaled(np.array([1.5, 3.0], first)), sp.as_scaled(np.array([2.0, 1.0078125], second), 0.5)
    made = choose(x, y)
    assert made.format.name == "binary32"
    assert made.to_array().tolist() == [1.5, 1.0078125]
